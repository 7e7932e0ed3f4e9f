"""Lay out what the compiled branch and bound needs to know of a map space: tables, orders, splits and choices.

Axis letters as in node.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import Bools, Constants, Floats, Ints
from accelsim.model.limits import different_sums
from accelsim.model.records import Int16s4
from accelsim.search.exact.layout import layout_of, tell_statuses
from accelsim.search.exact.node import CostTables
from accelsim.search.exact.orders import (
    HALO_REUSE,
    NONE,
    STATIONARY,
    UNDECIDED,
    Places,
    Structure,
    all_statuses,
    candidate_orders,
    dominating,
)
from accelsim.search.exact.ports import PortBounds
from accelsim.search.exact.shapes import Grid, Options, make_options, pick_busy
from accelsim.search.exact.tables import Bounds, Context, Laid

NO_ROOM = 1 << 62
"""Words that no level holds."""
MOST_IN_TURN = 500_000
"""Pairs of ways to spread over two networks that are looked at, at most, for what compute units do in turn."""


def make_cost_tables(
    bounds: Bounds,
    laid: Laid,
    port_tables: list[PortBounds],
    words: Bounds | None = None,
    waits: Bounds | None = None,
    firsts: Bools | None = None,
    *,
    every: bool = False,
) -> CostTables:
    """Lay tables and choices out for the kernel.

    Parameters
    ----------
    bounds : Bounds
        Tables of energy.
    laid : Laid
        Where all others stand.
    port_tables : list of PortBounds
        Their tables tell as many spreads apart as those of energy, or none.
    words : Bounds, optional
        Tables of units of words at the outermost level.
    waits : Bounds, optional
        Tables of cycles that all else waits for.
    firsts : bool[L, L, T], optional
        As `CostTables.firsts`; default: all else waits for no tile.
    every : bool
        Look at all orders and all splits over the axes, not only at those that can be best.
    """
    grid, structure = bounds.grid, bounds.structure
    space = grid.space
    encoded, c = space.encoded, space.encoded.constants
    levels, tensors = len(c.fanout), len(encoded.tensors)
    options: Sequence[Options] = grid.options
    if every:
        options = [make_options(space, grid.shapes, level, every=True) for level in range(levels)]
        options = pick_busy(options, grid.least_used)
    edges = np.ones((levels + 1, max(len(table.edges) for table in bounds.around)))
    spreads = np.ones(levels + 1, np.int64)
    context = np.full((levels, 2 * (2 * levels) ** tensors), -1, np.int64)
    most = 1 + max(len(each) for each in layout_of(grid).rooms)
    rooms = np.full((levels, most), NO_ROOM)
    in_room = np.full((levels, max(len(table.contexts) for table in bounds.around), most), -1, np.int64)
    for level, table in enumerate(bounds.around):
        spreads[level] = len(table.edges)
        edges[level, : spreads[level]] = table.edges
        first_of: dict[Context, int] = {}
        known = layout_of(grid).rooms[level]
        rooms[level, 0], rooms[level, 1 : 1 + len(known)] = 0, known
        for number, found in enumerate(table.contexts):
            base = first_of.setdefault(found._replace(room=0), number)
            in_room[level, base, slice(found.room, found.room + 1) if found.room else slice(None)] = number
            for low in itertools.product((0, 1), repeat=0 if bounds.corners else tensors):
                code = 0
                for t, (parent, share) in enumerate(zip(found.parents, found.shares, strict=True)):
                    code = (code * levels + parent) * 2 + (share < 1.0 if bounds.corners else low[t])
                context[level, 2 * code + found.tight] = base
        for alike, number in first_of.items():  # where there is none that is tight, the other one is a bound
            other = first_of.get(alike._replace(tight=False), -1)
            if alike.tight and other >= 0:
                lacks = in_room[level, number] < 0
                in_room[level, number, lacks] = in_room[level, other, lacks]
        loose, tight = context[level, ::2], context[level, 1::2]
        tight[tight < 0] = loose[tight < 0]
    keeps = [spreading.keeps for spreading in bounds.networks[:-1]]
    order_first, orders = _orders(bounds, False)
    every_first, every_orders = order_first[:, :1], orders[:0]
    if every:
        every_first, every_orders = _orders(bounds, True)
    needed = needed_words(space)
    certain = certain_energy(space, options, needed)
    tiles = [spreading.tiles for spreading in bounds.networks]
    ragged = bool(grid.shapes.ragged.any())  # then what is inside a loop does not follow from the loop
    by_tile = [ragged or len(found) < len(chosen.spread) for found, chosen in zip(tiles, options, strict=True)]
    groups = [found if by else chosen.spread for found, chosen, by in zip(tiles, options, by_tile, strict=True)]
    option_first = np.cumsum([0, *(len(chosen.spread) for chosen in options)])
    option_of = np.zeros((levels, grid.shapes.spread_numbers + 1), np.int64)
    for level, chosen in enumerate(options):
        codes = chosen.place @ grid.shapes.spread_stride
        option_of[level] = option_first[level] + np.searchsorted(codes, np.arange(grid.shapes.spread_numbers + 1))
    layout = layout_of(grid)
    fits, wide = [fits for _, fits in layout.fits[1:]], layout.wide[1:]
    first = [0, 0]
    for rows in keeps:
        first.append(first[-1] + len(rows))
    status = _status_codes(bounds)
    costs = [bounds, *([words] if words else []), *(each.bounds for each in port_tables), *([waits] if waits else [])]
    return CostTables(
        next_size=_next_sizes(grid),
        values=bounds.values,
        ports=np.array([[each.port.level, each.port.number] for each in port_tables], np.int64).reshape(-1, 2),
        others=laid.values,
        row=np.array([each.row for each in costs[1:]], np.int64),
        shares=np.array([each.share for each in port_tables]),
        words=np.array([words is not None], np.int64),
        waits=np.array([waits is not None], np.int64),
        firsts=np.zeros((levels, levels, tensors), np.bool_) if firsts is None else firsts,
        rows=np.cumsum([0, *(len(table.contexts) for table in (*bounds.around, *bounds.inside))])[:-1].reshape(2, -1),
        place=bounds.place,
        many=bounds.many,
        first=bounds.first,
        edges=edges,
        spreads=spreads,
        context=context,
        rooms=rooms,
        in_room=in_room,
        sums=layout.sums,
        least=bounds.least,
        status=status,
        statuses=np.array([[len(t.statuses) for t in tables] for tables in (bounds.around, bounds.inside)], np.int64),
        still=np.array([bounds.around_number(level, (STATIONARY,) * tensors) for level in range(levels)], np.int64),
        innermost=_innermost(bounds, status[0], c.relevant),
        option_first=option_first,
        option_x=np.concatenate([o.x for o in options]),
        option_y=np.concatenate([o.y for o in options]),
        option_place=np.concatenate([o.place for o in options]),
        option_spreads=np.concatenate([_classes(o.spread, edges, spreads, level) for level, o in enumerate(options)]),
        keep_first=np.array(first, np.int64),
        keeps=np.concatenate([*keeps, np.zeros((0, tensors), np.bool_)]),
        required=space.required,
        merges=layout.merges,
        fits=np.concatenate([*fits, np.zeros((0, grid.shapes.total), np.bool_)]),
        wide=np.concatenate([*wide, np.zeros((0, grid.shapes.total), np.bool_)]),
        by_tile=np.array(by_tile),
        group_first=np.cumsum([0, *map(len, groups)]),
        tiles=np.concatenate(groups),
        option_of=option_of,
        order_first=order_first,
        orders=orders,
        rests=_rests(grid),
        every_first=np.ascontiguousarray(every_first),
        every_orders=every_orders,
        partner=np.array(structure.partner, np.int64),
        window=np.array([structure.window], np.int64),
        whole=np.array([d in structure.whole for d in range(len(structure.idle))]),
        macs=np.array([float(encoded.einsum.macs)]),
        most=space.most,
        start=np.array([certain]),
        leaks=_leaks(c, grid.options, edges, spreads),
        elided=np.array([each.elided for each in costs]),
        narrow=np.array([each.narrow for each in costs]),
        copies=np.array([(len(table.copies), table.copies[-1]) for table in bounds.around]),
        copy_costs=np.array([each.copy_costs for each in costs]),
        widest=np.array([float(np.max(options.spread, initial=1)) for options in grid.options]),
        needed=needed,
        deepest=np.array(bounds.deepest, np.int64),
        least_inside=bounds.least_inside,
        in_turn=_in_turn(space, grid.options),
    )


def _next_sizes(grid: Grid) -> Int16s4:
    """`CostTables.next_size`."""
    over = grid.shapes.over
    many = over.shape[1]
    allowed = (over >= 0) & grid.in_time[:, np.arange(len(over))[:, None, None], over]
    found = np.full((*allowed.shape[:-1], many + 1), many, np.int16)
    found[..., :many][allowed] = np.broadcast_to(np.arange(many, dtype=np.int16), allowed.shape)[allowed]
    found = np.minimum.accumulate(found[..., ::-1], axis=-1)[..., ::-1]
    return np.where(found < many, found, np.int16(-1))


def _orders(bounds: Bounds, every: bool) -> tuple[Ints, Ints]:
    """Orders of each set of loops of each level, all or those that can be best, and where those of each begin.

    A set also tells which of the loops may make one step in their last pass: `CostTables.rests`.
    """
    places = tuple(Places(*bounds.grid.space.fixed_places(level)) for level in range(len(bounds.around)))
    return _orders_at(bounds.structure, places, every, () if every else tuple(_resting_dims(bounds.grid)))


@lru_cache(maxsize=64)
def _orders_at(
    structure: Structure, fixed: tuple[Places, ...], every: bool, ragged: tuple[int, ...]
) -> tuple[Ints, Ints]:
    """`_orders`, which nobody changes: layers of one form have the same ones on many machines."""
    dims = len(structure.idle)
    first = np.zeros((len(fixed), 2 ** (dims + len(ragged)) + 1), np.int64)
    orders: list[tuple[int, ...]] = []
    for level, places in enumerate(fixed):
        for mask in range(first.shape[1] - 1):
            first[level, mask] = len(orders)
            loops = frozenset(d for d in range(dims) if mask >> d & 1)
            once = frozenset(d for at, d in enumerate(ragged) if mask >> dims + at & 1)
            if once <= loops:
                idle = tuple(d for d in range(dims) if d not in loops)
                found = candidate_orders(structure, loops, places, every, once)
                orders += [(*order, *idle, inner, outer) for order, inner, outer in found]
        first[level, -1] = len(orders)
    return first, np.array(orders, np.int64).reshape(-1, dims + 2)


def _resting_dims(grid: Grid) -> list[int]:
    """Dimensions whose loops may leave tiles where they are beside a remainder."""
    found: list[int] = np.flatnonzero(grid.shapes.resting.any(axis=(0, 2, 3))).tolist()
    return found


def _rests(grid: Grid) -> Ints:
    """`CostTables.rests`."""
    dims = len(grid.shapes.sizes)
    found = np.full((len(grid.options), dims, 2), -1, np.int64)
    for at, d in enumerate(_resting_dims(grid)):
        found[:, d, 0] = dims + at
        for level in range(len(grid.options)):
            if any((options.x[:, d] * options.y[:, d]).max(initial=1) > 1 for options in grid.options[level:]):
                found[level, d, 1] = 1
    return found


@lru_cache(maxsize=4)
def needed_words(space: MapSpace) -> Ints:
    """Different words of each tensor that the multiply-accumulates ask for; strides may leave some out."""
    c = space.encoded.constants
    found = []
    for t in range(len(space.encoded.tensors)):
        words = 1
        for r in {int(r) for r, moves in zip(c.rank[t], c.relevant[t], strict=True) if moves}:
            dims = [d for d in range(len(c.bounds)) if c.relevant[t, d] and c.rank[t, d] == r]
            terms = [(int(c.factor[t, d]), int(c.bounds[d])) for d in dims]
            words *= different_sums(terms) or _marked_sums(terms)
        found.append(words)
    return np.array(found, np.int64)


def _marked_sums(terms: Sequence[tuple[int, int]]) -> int:
    """How many different sums a multiple of each step has, one by one."""
    reach = np.zeros(1 + sum(step * (count - 1) for step, count in terms), np.bool_)
    reach[0] = True
    for step, count in terms:
        multiples = 1  # that are marked
        while multiples < count:
            more = min(multiples, count - multiples)
            reach[more * step :] |= reach[: len(reach) - more * step].copy()
            multiples += more
    return int(reach.sum())


def _in_turn(space: MapSpace, options: Sequence[Options]) -> Floats:
    """Least words a compute unit reads in turn, and its steps; `CostTables`, docs/papers/exact-mapper.md, section 8."""
    c, levels = space.encoded.constants, len(options)
    found = np.zeros((levels + 1, len(c.relevant) + 1))
    if not (space.imperfect or (c.stationary & c.windowed & (c.most_held == 1)).any()):
        return found
    wide = [level for level, each in enumerate(options) if each.spread.max(initial=1) > 1]
    alone = len(wide) == 1
    left = c.bounds[None, :]  # indices of each dimension, for each way to spread further in
    share = np.full((len(c.rank), 1), 0.5)
    for level in range(levels - 1, -1, -1):
        spreads = options[level].x * options[level].y
        spreads = spreads if alone else -_least_rows(-spreads)
        if not 0 < len(left) * len(spreads) <= MOST_IN_TURN:  # without a way to spread there is no mapping
            break
        left = (-(left[:, None] // -spreads)).reshape(-1, left.shape[1])
        left = left if alone else _least_rows(left)
        if alone and level == wide[0]:
            share = np.array([_moving_share(c, t, spreads) for t in range(len(c.rank))])
        found[level, -1] = left.prod(axis=1).min()
        for t, ranks in enumerate(c.rank):
            moves = c.relevant[t]
            words = np.ones(len(left))
            for rank in set(ranks[moves].tolist()):
                words *= left[:, moves & (ranks == rank)].max(axis=1)
            if c.most_held[t] == 1:
                words = np.maximum(words, share[t] * left[:, moves].prod(axis=1))
            found[level, t] = words.min()
    return found


def _moving_share(c: Constants, t: int, spreads: Ints) -> Floats:
    """Of the steps that may move a tensor's word in a compute unit, how many do at least, for ways to spread alone.

    Half of them, where the loops inside one on the rank of a window may go back as far as it steps; else all.
    """
    share = np.ones(len(spreads))
    if (np.bincount(c.rank[t][c.relevant[t]]) > 2).any():
        return share / 2
    for d, e in itertools.permutations(np.flatnonzero(c.relevant[t]).tolist(), 2):
        if c.rank[t, d] == c.rank[t, e]:
            turns, rest = np.divmod(c.factor[t, d] * spreads[:, d], c.factor[t, e] * spreads[:, e])
            share[(rest == 0) & (turns >= 1) & (turns * spreads[:, e] < c.bounds[e])] = 0.5
    return share


def _least_rows(rows: Ints) -> Ints:
    """Those of some rows of numbers that no other is as small as everywhere."""
    rest, kept = np.unique(rows, axis=0), list[Ints]()
    while len(rest):  # in lexical order: none is as small as the first
        kept.append(rest[0])
        rest = rest[(rest < rest[0]).any(axis=1)]
    return np.array(kept)


def certain_energy(space: MapSpace, options: Sequence[Options], needed: Ints) -> float:
    """Energy of the multiply-accumulates, and of leakage at least [pJ].

    All instances in use leak in all cycles. The more there are, the fewer cycles, but for those that the outermost
    ports take anyway; so no mapping leaks less than the best spread in those.

    Parameters
    ----------
    options : sequence of Options
        How each level may spread.
    needed : int64[T]
        Words of each tensor that must be moved at the outermost level.
    """
    c, macs = space.encoded.constants, float(space.encoded.einsum.macs)
    if not all(len(each.spread) for each in options):
        return math.inf  # no mapping is valid
    spreads, leaks = np.ones(1), np.zeros(1)  # over all inside an instance of a level, and what leaks there in a cycle
    for level in range(len(c.fanout) - 1, -1, -1):
        own = np.array(sorted(set(options[level].spread.tolist())), np.float64)
        spreads, leaks = np.outer(own, spreads).ravel(), np.outer(own, leaks).ravel()
        order = np.lexsort((leaks, spreads))
        spreads, first = np.unique(spreads[order], return_index=True)
        leaks = c.leak[level] + leaks[order][first]
    cycles = np.maximum(macs * float(c.mac_cycles[0]) / spreads, _least_outer_cycles(space, needed))
    cycles = np.ceil(cycles * (1 - 1e-12))
    return macs * float(c.mac[0]) + float(np.min(leaks * cycles)) * (1 - 1e-12)


def _classes(spread: Ints, edges: Floats, many: Ints, level: int) -> Ints:
    """Class of spread inside a level for each of its own spreads and each class further in: int64[O, B].

    As the tables count it: what is further in has the most that its class holds.
    """
    every = np.outer(spread, edges[level + 1])
    return np.asarray(np.searchsorted(edges[level, : many[level]], 0.999999 * every))


def _leaks(c: Constants, options: Sequence[Options], edges: Floats, many: Ints) -> Floats:
    """`CostTables.leaks`."""
    levels, leak = len(options), np.append(c.leak, 0.0)
    found = np.full((levels + 1, edges.shape[1]), math.inf)
    found[levels, 0] = 0.0
    for level in range(levels - 1, -1, -1):
        spread, inside = options[level].spread, leak[level + 1] + found[level + 1]
        np.minimum.at(found[level], _classes(spread, edges, many, level), np.outer(spread, inside))
    return np.where(found < math.inf, found, 0.0)  # where there is no such spread, there is no mapping


def least_cycles(space: MapSpace, needed: Ints) -> float:
    """Cycles that no mapping falls below: all compute units are busy, and words move once at the outermost level."""
    busy = space.encoded.einsum.macs * int(space.encoded.constants.mac_cycles[0]) / space.encoded.architecture.macs
    return max(busy, _least_outer_cycles(space, needed))


def least_offchip_words(space: MapSpace, needed: Ints) -> tuple[int, int]:
    """Storage words read and written at the outermost level at least: each that is needed once.

    Parameters
    ----------
    needed : int64[T]
        Words of each tensor that must be moved there.
    """
    c, output = space.encoded.constants, int(space.encoded.constants.output[0])
    words = needed * c.word_parts[0].min(axis=1)
    return int(words.sum() - words[output]), max(0, int(words[output]) - int(c.already[0]))


def _least_outer_cycles(space: MapSpace, needed: Ints) -> float:
    """Cycles that the ports of the outermost level take at least."""
    read, written = least_offchip_words(space, needed)
    ports = zip(
        (read + written, read, written, read + written), space.encoded.constants.bandwidth[0].tolist(), strict=True
    )
    return max((moved * part / rate for moved, (rate, part) in ports if rate > 0), default=0.0)


def _status_codes(bounds: Bounds) -> Ints:
    """Number for each set of statuses that a node can meet, in each table."""
    return _codes_of(bounds.structure, tuple(bounds.deepest), len(bounds.around))


@lru_cache(maxsize=8)
def _codes_of(structure: Structure, deepest: tuple[int, ...], levels: int) -> Ints:
    """`_status_codes`, which nobody changes."""
    numbers, every = tell_statuses(structure, deepest, levels).numbers, all_statuses(structure)
    radix = _radix(structure)
    codes = np.zeros((2, levels, radix**structure.tensors), np.int64)
    met: list[tuple[int, ...]] = [()]
    for t in range(structure.tensors):
        each: tuple[int, ...] = (NONE, STATIONARY)
        if t == structure.window:
            slides = [HALO_REUSE + d for d, other in enumerate(structure.partner) if other >= 0]
            wholes = [HALO_REUSE + len(structure.idle) + d for d in sorted(structure.whole)]
            each = (NONE, STATIONARY, UNDECIDED, *slides, *wholes)
        met = [(*head, status) for head in met for status in each]
    for statuses in met:
        code = 0
        for status in statuses:
            code = code * radix + status
        known = statuses if statuses in every else dominating(structure, statuses)
        codes[:, :, code] = [[each[known][kind] for each in numbers] for kind in (0, 1)]
    return codes


def _radix(structure: Structure) -> int:
    """Base of the codes of statuses."""
    return HALO_REUSE + 2 * len(structure.idle)


def _of_window(structure: Structure, d: int, moves: bool, new: int) -> int:
    """Status of the windowed tensor outside a loop over d; `new`: in the steps that begin a pass."""
    if moves and structure.partner[d] < 0:
        return NONE
    return HALO_REUSE + d if moves and not new else STATIONARY


def _innermost(bounds: Bounds, codes: Ints, relevant: Bools) -> Ints:
    """Numbers of the statuses that steps have outside a network, by the innermost loop there: int64[L, D, 4].

    For tensors that it does not move STATIONARY, then NONE; within each, for a window that it moves HALO_REUSE, then
    STATIONARY.

    Parameters
    ----------
    codes : int64[L, *]
        Number for each set of statuses.
    relevant : bool[T, D]
    """
    structure = bounds.structure
    found = np.zeros((len(codes), len(structure.idle), 4), np.int64)
    for d, moved, new in np.ndindex(found.shape[1], 2, 2):
        code = 0
        for t in range(structure.tensors):
            status = NONE if relevant[t, d] or moved else STATIONARY
            if t == structure.window:
                status = _of_window(structure, d, relevant[t, d], new)
            code = code * _radix(structure) + status
        found[:, d, 2 * moved + new] = codes[:, code]
    return found
