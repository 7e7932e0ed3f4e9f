"""Cost-to-go tables: least energy of everything further in, for each tile shape, level by level from the inside out.

Axis letters: D = dimensions, S = shapes, T = tensors, C = contexts of a table, Q = statuses, B = spreads, L = levels.
"""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass, field

import numpy as np

from accelsim.errors import TooManyChoices
from accelsim.mapspace.tiles import fitting_keeps
from accelsim.model.detail import make_detail
from accelsim.model.encode import Bools, Floats, Ints
from accelsim.model.kernel import BY_READ, BY_TRANSFER, BY_UPDATE, BY_WRITE
from accelsim.search.exact.bounds_kernel import Block, NetworkScratch, Spreading, sweep_block, sweep_network
from accelsim.search.exact.orders import (
    FIXED,
    NONE,
    WAIT,
    Statuses,
    Structure,
    all_statuses,
    order_classes,
)
from accelsim.search.exact.shapes import Grid, Shapes

MOST_SPREAD_TILES = 30_000_000
"""Pairs of a tile and a way to spread it, where some dimensions may leave remainders, at most."""
IN_ONE_GO = 500_000
"""Such pairs that are looked at before the clock is: some tenths of a second."""
Context = tuple[tuple[int, float], ...]
"""For each tensor the level that it comes from, and the share of reads that networks since then leave."""


@dataclass(slots=True)
class Table:
    """Cost to go by context, status, spread inside and shape.

    Attributes
    ----------
    contexts : list of Context
    statuses : list of Statuses
        NONE for all tensors first.
    edges : float64[B]
        Children further in: up to so many.
    values : float64[C, Q, B, S]
        pJ.
    """

    contexts: list[Context]
    statuses: list[Statuses]
    edges: Floats
    values: Floats


@dataclass(slots=True)
class Bounds:
    """All cost-to-go tables of a map space.

    Attributes
    ----------
    grid : Grid
    structure : Structure
    statuses : tuple of Statuses
        Q of them, NONE for all tensors first.
    around : list of Table
        For each level, outside the network below it.
    inside : list of Table
        For each level, at its tile; the outermost has none.
    networks : list of Spreading
    pj : float64[L, T, 4]
        Least energy of an element's action.
    least : float64[L, L, T]
        Least share of reads that networks leave, for level, parent and tensor.
    elided : float64[L]
        What it costs to read the whole output at a level once.
    copy_costs : float64[L + 1]
        What the tables further in than a boundary count off at most for each further copy of the output there.
    values : float64[*]
        All tables; around_at, inside_at : int64[L], where each begins.
    """

    grid: Grid
    structure: Structure
    statuses: tuple[Statuses, ...]
    pj: Floats
    least: Floats
    values: Floats = field(default_factory=lambda: np.zeros(0))
    around: list[Table] = field(default_factory=list)
    inside: list[Table] = field(default_factory=list)
    around_at: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    inside_at: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    networks: list[Spreading] = field(default_factory=list)
    deepest: list[int] = field(default_factory=list)
    least_inside: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    elided: Floats = field(default_factory=lambda: np.zeros(0))
    copy_costs: Floats = field(default_factory=lambda: np.zeros(0))
    numbers: list[dict[Statuses, tuple[int, int]]] = field(default_factory=list)

    def around_number(self, level: int, statuses: Statuses) -> int:
        """Number of some statuses in the table around the network of a level."""
        return self.numbers[level][statuses][0]

    def inside_number(self, level: int, statuses: Statuses) -> int:
        """Number of some statuses in the table at the tiles of a level."""
        return self.numbers[level][statuses][1]


def make_structure(grid: Grid) -> Structure:
    """What classes of loop orders depend on."""
    c = grid.space.encoded.constants
    tensors, dims = c.relevant.shape
    windowed = [t for t in range(tensors) if c.windowed[t]]
    partner = [-1] * dims
    loose = len(windowed) > 1
    for t in windowed:
        for r in {int(c.rank[t, d]) for d in range(dims) if c.relevant[t, d]}:
            inside = [d for d in range(dims) if c.relevant[t, d] and c.rank[t, d] == r]
            loose |= len(inside) > 2
            if len(inside) == 2:
                partner[inside[0]], partner[inside[1]] = inside[1], inside[0]
    idle = tuple(frozenset(t for t in range(tensors) if not c.relevant[t, d]) for d in range(dims))
    if loose or not windowed:
        return Structure(idle, -1, (-1,) * dims, tensors, loose)
    return Structure(idle, windowed[0], tuple(partner), tensors, False)


def least_energies(grid: Grid) -> Floats:
    """Energy of an element's actions without rounding accesses up, as narrow as it can be."""
    c = grid.space.encoded.constants
    pj = c.energy.copy()
    parts = c.word_parts.min(axis=2)
    pj[:, :, :3] *= (parts / c.block[:, None])[:, :, None]
    return pj


class BoundsMaker:
    """Fills the tables; see `make_bounds`."""

    def __init__(self, grid: Grid, spreads: int, pj: Floats, deadline: float | None) -> None:
        self.grid, self.most_spreads, self.deadline = grid, spreads, deadline
        self.encoded = grid.space.encoded
        self.c = self.encoded.constants
        self.shapes: Shapes = grid.shapes
        self.levels, self.tensors = self.c.word_parts.shape[:2]
        structure = make_structure(grid)
        self.least = [[self._least_share(level, t) for t in range(self.tensors)] for level in range(self.levels)]
        least = np.ones((self.levels, self.levels, self.tensors))
        for level, parent, t in np.ndindex(*least.shape):
            least[level, parent, t] = self._corner(parent, level, t)
        self.bounds = Bounds(grid, structure, all_statuses(structure), pj, least)
        self.may_keep = may = grid.space.keep.copy()
        for level, t in grid.space.free_keeps:
            may[level, t] = True
        deepest = [int(np.flatnonzero(may[:, t]).max()) for t in range(self.tensors)]
        self.deepest = self.bounds.deepest = deepest
        self.bounds.least_inside = np.array(
            [
                [math.prod(row[t] for row in self.least[lv:]) for t in range(self.tensors)]
                for lv in range(self.levels + 1)
            ]
        )
        self.around_statuses, self.inside_statuses = self._statuses()
        self.bounds.numbers = [
            {
                s: (
                    self.around_statuses[level].index(self.reduce(s, level, True)),
                    self.inside_statuses[level].index(self.reduce(s, level, False)),
                )
                for s in self.bounds.statuses
            }
            for level in range(self.levels)
        ]
        self.apart = [
            float(np.max(options.apart, initial=1.0)) if len(options.apart) else 1.0 for options in grid.options
        ]
        self._count_off()
        self.edges = [self._edges(level) for level in range(self.levels + 1)]
        self.fits = [fitting_keeps(grid.space, self.shapes.box, level) for level in range(self.levels)]
        self.most = [self._most(level) for level in range(self.levels)]

    def _count_off(self) -> None:
        """Note what the output's words cost that are not fetched, because each has no older value the first time."""
        t = int(self.c.output[0])
        whole = 0.0 if self.c.windowed[t] else float(self.c.whole[t])
        pj = self.bounds.pj[:, t] * whole
        self.bounds.elided = pj[:, BY_READ].copy()
        self.entering = pj[:, BY_TRANSFER].copy()
        self.entering[:-1] += pj[1:, BY_WRITE] + pj[1:, BY_READ]
        costs = np.zeros(self.levels + 1)
        for level in range(self.levels - 1, -1, -1):
            keeps = level == self.levels - 1 or self.may_keep[level + 1, t]
            costs[level] = self.apart[level] * (costs[level + 1] + (self.entering[level] if keeps else 0.0))
        self.bounds.copy_costs = costs

    def reduce(self, statuses: Statuses, level: int, around: bool) -> Statuses:
        """Statuses without what makes no difference from a table inwards.

        That is any status of a tensor that no level further in keeps, and WAIT where no block between two levels that
        keep the tensor can end the waiting.
        """
        found = []
        for t, status in enumerate(statuses):
            needed = level + 2 if status == WAIT and around else level + 1
            found.append(status if self.deepest[t] >= needed else NONE)
        return tuple(found)

    def _statuses(self) -> tuple[list[list[Statuses]], list[list[Statuses]]]:
        """Statuses of the tables around the networks, and of those at the tiles."""
        structure = self.bounds.structure
        around: list[list[Statuses]] = []
        inside: list[list[Statuses]] = []
        for level in range(self.levels):
            outer = [*self.bounds.statuses, *(around[-1] if around else [])]
            inside.append(list(dict.fromkeys(self.reduce(s, level, False) for s in outer)))
            met = list(self.bounds.statuses)
            for statuses in inside[-1] if level else []:
                terms = itertools.chain.from_iterable(each.terms for each in order_classes(structure, statuses))
                met += itertools.chain.from_iterable(term.statuses for term in terms)
            around.append(list(dict.fromkeys(self.reduce(s, level, True) for s in met)))
        return around, inside

    def _least_share(self, level: int, t: int) -> float:
        """Smallest share of the children of a network that take words of their own."""
        options, output = self.grid.options[level], t == self.c.output[0]
        flags = self.c.reduction[level] if output else self.c.multicast[level]
        share = (options.up if output else options.down)[:, t].copy()
        wide = options.windowed[:, t]
        for bounds, on in ((options.x, flags[0]), (options.y, flags[1])):
            if on and wide.any():
                share[wide] /= bounds[wide][:, self.c.relevant[t]].prod(axis=1)
        return float(share.min(initial=1.0))

    def _edges(self, level: int) -> Floats:
        """Spreads that networks from a level inwards can reach together; few enough, the largest ones exactly."""
        found = {1}
        for options in self.grid.options[level:]:
            found = {a * int(b) for a in found for b in np.unique(options.spread)} or {1}
        edges = sorted(found, reverse=True)
        if len(edges) > self.most_spreads:
            kept = edges[: max(1, self.most_spreads // 2)]
            rest = edges[len(kept) :]
            more = self.most_spreads - len(kept)
            kept += [rest[int(at)] for at in np.unique(np.geomspace(1, len(rest), max(more, 1)).astype(int) - 1)][:more]
            edges = sorted(set(kept), reverse=True)
        return np.array(sorted(edges), np.float64)

    def _most(self, level: int) -> Ints:
        """How many sizes of each dimension occur in tiles that fit a level."""
        if level == 0:
            return self.shapes.sizes
        found = np.flatnonzero(self.fits[level][1].any(axis=0))
        digits = found[:, None] // self.shapes.stride % self.shapes.sizes
        most: Ints = digits.max(axis=0, initial=0) + 1
        return most

    def _corner(self, parent: int, level: int, t: int) -> float:
        """Least share of reads that the networks of levels parent … level-1 can leave."""
        return math.prod(self.least[at][t] for at in range(parent, level))

    def make(self) -> Bounds:
        """Discover which contexts there are from the outside in, and fill the tables from the inside out."""
        bounds = self.bounds
        contexts: list[list[Context]] = [[((0, 1.0),) * self.tensors]]
        plans = []
        for level in range(self.levels):
            plans.append(self._plan(level, contexts[level]))
            contexts.append(plans[-1][1])
        self._reserve(contexts)
        further = Table([()], [()], self.edges[self.levels], np.zeros((1, 1, 1, 1)))
        scratch = self._scratch()
        bounds.networks = [spreading for spreading, _ in plans]
        self._refuse_endless()
        for level in range(self.levels - 1, -1, -1):
            around = bounds.around[level]
            costs = self._costs_anything(level, contexts[level])
            spreading = _only(bounds.networks[level], costs)
            tiles = np.flatnonzero(spreading.fits.any(axis=0)) if level < self.levels - 1 else np.zeros(1, np.int64)
            out = np.full((self.shapes.total, int(costs.sum()), *around.values.shape[1:3]), np.inf)
            inside = np.ascontiguousarray(np.moveaxis(further.values, -1, 0))
            go = max(1, IN_ONE_GO // max(1, len(self.grid.options[level].spread)))
            for first in range(0, len(tiles), go):
                self._look_at_clock()
                sweep_network(
                    self.c,
                    self.shapes,
                    self.most[level],
                    self.grid.options[level],
                    spreading,
                    bounds.pj,
                    tiles[first : first + go],
                    inside,
                    out,
                    make_detail(self.encoded),
                    scratch,
                )
            around.values[costs] = np.moveaxis(out, 0, -1)
            around.values[~costs] = 0.0
            if level:
                further = bounds.inside[level]
                self._fill_inside(level, around, further, costs)
        return bounds

    def _costs_anything(self, level: int, contexts: list[Context]) -> Bools:
        """Whether traffic further in costs anything; cycles of the outermost port end where nothing comes from it."""
        pj = self.bounds.pj
        further = bool(pj[level + 1 :].any() or pj[level, :, BY_TRANSFER].any())
        return np.array([further or any(pj[above, t].any() for t, (above, _) in enumerate(each)) for each in contexts])

    def _look_at_clock(self) -> None:
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise TimeoutError("the tables take longer")

    def _refuse_endless(self) -> None:
        """Raise where remainders leave so many tiles and ways to spread that the tables would take minutes."""
        if not self.shapes.ragged.any():
            return
        pairs = sum(
            int(spreading.fits.any(axis=0).sum()) * len(options.spread)
            for spreading, options in zip(self.bounds.networks, self.grid.options, strict=True)
        )
        if pairs > MOST_SPREAD_TILES:
            raise TooManyChoices(
                f"{pairs:.2g} ways to spread tiles are too many; let fewer dimensions leave remainders"
            )

    def _reserve(self, contexts: list[list[Context]]) -> None:
        """Make room for all tables."""
        bounds = self.bounds
        starts = [0]
        for around in (True, False):
            for level in range(self.levels):
                statuses = (self.around_statuses if around else self.inside_statuses)[level]
                many = len(contexts[level]) * len(statuses) * len(self.edges[level]) if around or level else 0
                starts.append(starts[-1] + many * self.shapes.total)
        bounds.values = np.full(starts[-1], np.inf)
        bounds.around_at = np.array(starts[: self.levels], np.int64)
        bounds.inside_at = np.array(starts[self.levels : -1], np.int64)
        for at, statuses in enumerate([*self.around_statuses, *self.inside_statuses]):
            level = at % self.levels
            values = bounds.values[starts[at] : starts[at + 1]]
            values = values.reshape(-1, len(statuses), len(self.edges[level]), self.shapes.total)
            (bounds.around if at < self.levels else bounds.inside).append(
                Table(contexts[level], statuses, self.edges[level], values)
            )

    def _scratch(self) -> NetworkScratch:
        dims = len(self.encoded.dims)
        return NetworkScratch(
            tile=np.zeros(dims, np.int64),
            mid=np.zeros(dims, np.int64),
            x=np.ones((self.levels, dims), np.int64),
            y=np.ones((self.levels, dims), np.int64),
            words=np.zeros(self.tensors),
            each=np.zeros(self.tensors),
            share=np.zeros((self.tensors, 2)),
            factor=np.zeros((max(map(len, self.around_statuses)), self.tensors)),
            weight=np.zeros(self.tensors),
            slide=np.zeros(dims),
        )

    def _plan(self, level: int, contexts: list[Context]) -> tuple[Spreading, list[Context]]:
        """Contexts inside a network, and how those outside it lead to them."""
        innermost = level == self.levels - 1
        keeps, fits = (
            (np.ones((1, self.tensors), np.bool_), np.ones((1, 1), np.bool_)) if innermost else self.fits[level + 1]
        )
        inner: list[Context] = []
        target = np.zeros((len(contexts), len(keeps), 1 << self.tensors), np.int64)
        passing = np.full((len(keeps), self.tensors), -1, np.int64)
        least = np.ones((len(contexts), len(keeps), self.tensors))
        number: dict[Context, int] = {}
        for k, row in enumerate(keeps):
            if innermost:
                break
            passes = [
                t
                for t in range(self.tensors)
                if not row[t] and any(self._corner(context[t][0], level + 1, t) < 1.0 for context in contexts)
            ]
            passing[k, : len(passes)] = passes
            for m, context in enumerate(contexts):
                for w, t in enumerate(passes):
                    least[m, k, w] = self._corner(context[t][0], level + 1, t)
                for way in range(1 << len(passes)):
                    inside = []
                    for t in range(self.tensors):
                        share = 1.0
                        if t in passes and way >> passes.index(t) & 1:
                            share = self._corner(context[t][0], level + 1, t)
                        inside.append((level + 1, 1.0) if row[t] else (context[t][0], share))
                    key = tuple(inside)
                    if key not in number:
                        number[key] = len(inner)
                        inner.append(key)
                    target[m, k, way] = number[key]
        spreading = Spreading(
            level=np.array([level], np.int64),
            keeps=keeps,
            fits=fits,
            parent=np.array([[parent for parent, _ in context] for context in contexts], np.int64),
            shared=np.array([[share for _, share in context] for context in contexts]),
            target=target,
            passing=passing,
            least=least,
            status=np.array(self.around_statuses[level], np.int64),
            inner_status=np.array(
                [
                    0 if innermost else self.inside_statuses[level + 1].index(self.reduce(statuses, level + 1, False))
                    for statuses in self.around_statuses[level]
                ],
                np.int64,
            ),
            loose=np.array([self.bounds.structure.loose]),
            elided=self.entering[level : level + 1],
            further=self.bounds.copy_costs[level + 1 : level + 2],
            edges=self.edges[level],
            inner_edges=self.edges[level + 1],
        )
        return spreading, inner

    def _fill_inside(self, level: int, around: Table, table: Table, costs: Bools) -> None:
        """Cost to go at the tiles of a level: its best temporal block, and what follows."""
        pairs, moves = self._steps(level)
        offsets, values = np.zeros(self.shapes.total, np.int64), np.zeros(self.shapes.total)
        blocks = [self._blocks(level, statuses) for statuses in table.statuses]
        table.values[~costs] = 0.0
        for at in np.flatnonzero(costs):
            for q, found in enumerate(blocks):
                for b in range(len(around.edges)):
                    out = table.values[at, q, b]
                    self._look_at_clock()
                    for block in found:
                        sweep_block(
                            self.shapes,
                            self.most[level],
                            pairs,
                            moves,
                            block,
                            around.values[at, :, b],
                            out,
                            offsets,
                            values,
                        )
                    if q:
                        np.minimum(out, table.values[at, 0, b], out=out)

    def _steps(self, level: int) -> tuple[Ints, Ints]:
        """Pairs of sizes that a temporal loop may join, and moves that find the least over all inner sizes."""
        shapes, allowed = self.shapes, self.grid.in_time[level]
        dims, most = shapes.size.shape
        pairs = np.full((dims, most * most + 1, 2), -1, np.int64)
        moves = np.full((dims, most * most + most + 1, 2), -1, np.int64)
        for d in range(dims):
            count = int(self.most[level][d])
            over = shapes.over[d, :count, :count]
            joined = np.argwhere((over >= 0) & allowed[d, over]).reshape(-1, 2)[:, ::-1]
            joined = joined[np.lexsort((joined[:, 1], joined[:, 0]))]
            pairs[d, : len(joined)] = joined
            found: list[tuple[int, int]] = []
            if allowed[
                d, : shapes.factors[d]
            ].all():  # what leads to a size leads on from there: the next ones are enough
                below = (over >= 0) & ~np.eye(count, dtype=np.bool_)
                next_ones = below & ~((below.astype(np.int64) @ below.astype(np.int64)) > 0)
                found = [(int(j), int(i)) for j, i in np.argwhere(next_ones)]
            else:
                for j in range(count - 1, -1, -1):
                    found += [] if allowed[d, 0] else [(j, -1)]
                    found += [(j, int(i)) for i, outer in joined if outer == j and i != j]
            moves[d, : len(found)] = np.array(found, np.int64).reshape(-1, 2)
        return pairs, moves

    def _blocks(self, level: int, statuses: Statuses) -> list[Block]:
        """Classes of orders as the kernel takes them."""
        found: list[Block] = []
        known: set[object] = set()
        every = self.bounds.structure.dims
        for order_class in order_classes(self.bounds.structure, statuses):
            if any(not self.grid.in_time[level, d, 0] for d in every - order_class.allowed):
                continue
            terms: list[tuple[frozenset[int], tuple[Statuses, ...], int]] = []
            for term in order_class.terms:
                reduced = tuple(self.reduce(after, level, True) for after in term.statuses)
                phase = term.phase if len(set(reduced)) > 1 else FIXED
                reduced = reduced if phase else reduced[:1]
                if terms and terms[-1][1:] == (reduced, phase):
                    terms.pop()
                terms.append((term.dims, reduced, phase))
            inner, come = order_class.inner, order_class.come
            if inner >= 0 and not any(phase for _, _, phase in terms):
                continue  # what follows a pass over the window makes no difference further in
            key = (order_class.allowed, tuple(terms), inner, come)
            if key in known:
                continue
            known.add(key)
            counted = frozenset[int]().union(*(dims for dims, _, _ in terms[:-1]))
            other = self.bounds.structure.partner[inner] if inner >= 0 else -1
            counted |= {inner, other} if inner >= 0 else frozenset[int]()
            numbers = self.around_statuses[level]
            found.append(
                Block(
                    counted=np.array(sorted(counted), np.int64),
                    swept=np.array(sorted(order_class.allowed - counted), np.int64),
                    frozen=np.array([d not in order_class.allowed for d in sorted(every)]),
                    term=np.array(
                        [[numbers.index(after) for after in (reduced * 4)[:4]] for _, reduced, _ in terms], np.int64
                    ),
                    phase=np.array([phase for _, _, phase in terms], np.int64),
                    mask=np.array(
                        [[d in mask for d in sorted(every)] for mask in [*(dims for dims, _, _ in terms[:-1]), every]],
                        np.bool_,
                    ),
                    pair=np.array([inner, other, come], np.int64),
                    step=self.c.factor[self.bounds.structure.window].astype(np.int64),
                    further=self._spread_outside(level, come),
                    bound=np.ones(len(every), np.int64),
                )
            )
        return found

    def _spread_outside(self, level: int, d: int) -> Ints:
        """By how much the networks outside a level may spread a dimension."""
        found = {1}
        for options in self.grid.options[:level] if d >= 0 else ():
            bounds = np.unique(options.x[:, d] * options.y[:, d])
            found = {a * int(b) for a in found for b in bounds}
        return np.array(sorted(found), np.int64)


def _only(spreading: Spreading, contexts: Bools) -> Spreading:
    """The same network for some contexts only."""
    p = spreading
    return p._replace(
        parent=p.parent[contexts], shared=p.shared[contexts], target=p.target[contexts], least=p.least[contexts]
    )


@dataclass(frozen=True, slots=True)
class Port:
    """A port with a limit.

    Attributes
    ----------
    level, number : int
        Its level, and 0: of all words, 1: of reads, 2: of fills and updates.
    cycles : float64[L, T, 4]
        What an element's actions take, like `least_energies`.
    """

    level: int
    number: int
    cycles: Floats


@dataclass(frozen=True, slots=True)
class MixedBounds:
    """Cost-to-go tables of port cycles, each at a price, and of energy too if `with_energy`.

    Attributes
    ----------
    bounds : Bounds
        [pJ], or [cycles] without energy.
    price : tuple of float
        For each port, of a cycle of one instance.
    with_energy : bool
    """

    bounds: Bounds
    price: tuple[float, ...]
    with_energy: bool = False


def limited_ports(grid: Grid) -> list[Port]:
    """All ports that have a limit, from the outermost level inwards."""
    c = grid.space.encoded.constants
    found = []
    for level, port in np.argwhere(c.bandwidth[:, :, 0] > 0).tolist():
        nodes = slice(int(c.nodes[level, 0]), int(c.nodes[level, 1]))  # whose words the port carries
        cycles = np.zeros_like(c.energy)
        for action in ((BY_READ, BY_WRITE, BY_UPDATE), (BY_READ,), (BY_WRITE, BY_UPDATE))[port]:
            words, per = c.bandwidth[level, port]
            cycles[nodes, :, action] = c.word_parts[nodes].min(axis=2) * (per / words)
        if nodes.start == level:
            found.append(Port(level, port, cycles))
    return found


def make_bounds(grid: Grid, spreads: int, pj: Floats, deadline: float | None = None) -> Bounds:
    """Fill the cost-to-go tables of a map space.

    Parameters
    ----------
    grid : Grid
    spreads : int
        How many classes of spatial spread to tell apart; more give better bounds where cycles count.
    pj : float64[L, T, 4]
        What an element's action costs: its energy [pJ], or anything else that adds up.
    deadline : float, optional
        When to give up, by `time.monotonic`.

    Returns
    -------
    Bounds

    Raises
    ------
    TimeoutError
        If they are not filled by the deadline.
    """
    return BoundsMaker(grid, spreads, pj, deadline).make()


def many_mixed(ports: list[Port]) -> int:
    """How many tables there are of ports, and of ports and energy mixed; see `mix_bounds`."""
    return max(0, 3 * len(ports) - 1)


def mix_bounds(bounds: Bounds, ports: list[Port], spreads: int, deadline: float | None) -> list[MixedBounds]:
    """Fill tables of each port, of the outermost port and each other one, and of energy and each port.

    With energy, cycles have the price at which both weigh the same where their product is least.

    Parameters
    ----------
    bounds : Bounds
        Tables of energy.
    ports : list of Port
    spreads, deadline
        As for `make_bounds`.
    """
    grid = bounds.grid
    encoded, count = grid.space.encoded, len(ports)
    widest = np.cumprod([1.0, *(float(np.max(options.spread, initial=1)) for options in grid.options)])
    each = [1.0 / float(widest[port.level]) for port in ports]  # of all cycles, what an instance has of them at least

    def mix(price: tuple[float, ...], with_energy: bool = False) -> MixedBounds:
        costs = sum((p * port.cycles for p, port in zip(price, ports, strict=True)), np.zeros_like(bounds.pj))
        return MixedBounds(make_bounds(grid, spreads, costs + bounds.pj * with_energy, deadline), price, with_energy)

    def only(at: int, price: float) -> tuple[float, ...]:
        return tuple(price * (k == at) for k in range(count))

    found = [mix(only(k, each[k])) for k in range(count)]
    found += [mix(tuple(map(sum, zip(only(0, each[0]), only(k, each[k]), strict=True)))) for k in range(1, count)]
    macs, mac_cycles = float(encoded.einsum.macs), float(encoded.constants.mac_cycles[0])
    energy = macs * float(encoded.constants.mac[0]) + bounds.around[0].values[0, 0].min(axis=1)
    cycles = macs * mac_cycles / bounds.around[0].edges
    for table in found[:count]:
        cycles = np.maximum(cycles, table.bounds.around[0].values[0, 0].min(axis=1))
    products = energy * cycles
    best = int(np.argmin(products))
    if 0.0 < products[best] < math.inf:
        found += [mix(only(k, float(energy[best] / cycles[best]) * each[k]), with_energy=True) for k in range(count)]
    return found
