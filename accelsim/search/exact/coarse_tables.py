"""The tables of one round of `coarse_bound`: states that are live, filled from the compute units outwards."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accelsim.inputs.divisors import divisors
from accelsim.model.encode import BY_READ, BY_RETURN, BY_TRANSFER, Bools, Floats, Ints
from accelsim.search.exact.coarse_kernel import cross, go_through
from accelsim.search.exact.coarse_layout import AT_NETWORK, FACTS, SAME, Buckets, Crossing, Scratch
from accelsim.search.exact.coarse_pairs_kernel import fit_axes, list_pairs
from accelsim.search.exact.coarse_space import CoarseSpace
from accelsim.search.exact.incumbents import SURE
from accelsim.search.stopping import asked

MOST_SHAPES = 10_000_000
"""Shapes of a round, live or not, at most."""
FEW = 10_000_000
"""Entries that the tables of a round may have before fewer prices and copies are told apart."""
FIRST_PIECE, PIECE_SECONDS = 4096, 0.1
"""Pairs of shapes that are swept over in one go at first, and how long a go may take, about."""
ROW_BYTES = 16
"""Memory that each state, live or not, takes while those that are live are found, about."""
Ints32 = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class CoarseDeadline:
    """Ends what takes too long, and what a signal asks to end."""

    deadline: float | None

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return math.inf if self.deadline is None else self.deadline - time.monotonic()

    def look(self) -> None:
        """Raise TimeoutError after the deadline, and KeyboardInterrupt after a signal."""
        if asked():
            raise KeyboardInterrupt
        if self.left < 0.0:
            raise TimeoutError

    def in_pieces(self, pairs: Ints32, sweep: Callable[[Ints32], None]) -> None:
        """Sweep over some pairs at a time, so many that it can be ended in between."""
        first, many = 0, FIRST_PIECE
        while first < len(pairs):
            self.look()
            begun = time.monotonic()
            sweep(pairs[first : first + many])
            first, taken = first + many, time.monotonic() - begun
            many = 2 * many if taken < PIECE_SECONDS else max(1, many // 2) if taken > 2 * PIECE_SECONDS else many


@dataclass(slots=True)
class LiveStates:
    """States that are live after a round: buckets, shapes, and which reaches of them."""

    groups: list[list[Ints]]
    buckets: Buckets
    shapes: list[Ints]
    states: list[Bools]


class RoundTables:
    """The tables of one round."""

    def __init__(
        self,
        space: CoarseSpace,
        groups: list[list[Ints]],
        ratio: float,
        before: LiveStates | None,
        clock: CoarseDeadline,
    ) -> None:
        self.space, self.c, self.groups, self.ratio, self.before = space, space.c, groups, ratio, before
        self.clock = clock
        self.live: LiveStates | None = None
        self.buckets = self._make_buckets()
        self.many = np.array([len(found) for found in groups], np.int64)
        self.stride = np.array([math.prod(self.many[d + 1 :].tolist()) for d in range(space.dims)], np.int64)
        self.work, self.shape_count, self.entries = 0.0, 0, 0

    def _make_buckets(self) -> Buckets:
        space, c = self.space, self.c
        most = max(map(len, self.groups))
        least, largest, fewest, passing = (np.ones((space.dims, most)) for _ in range(4))
        for d, found in enumerate(self.groups):
            for n, group in enumerate(found):
                least[d, n], largest[d, n] = space.sizes[d][group[[0, -1]]]
                passing[d, n], fewest[d, n] = space.passes[d][group[[0, -1]]]
        room = 12 if self.ratio > 4 else 24 if self.ratio > 2 else 48 if self.ratio > 1.5 else 96
        reaches, told = [], np.full(space.families, -1, np.int64)
        counts = np.zeros(space.families, np.int64)
        for f in range(space.families):
            old, dims = self.before.buckets if self.before is not None else None, np.flatnonzero(space.family == f)
            known = old.reach[f, : old.reaches[f]] if old is not None else np.ones(1)
            axes = [fewest[d, : len(self.groups[d])] for d in dims]
            reaches.append(_reaches(axes, known, room))
            counts[f] = len(reaches[f])
            if len(dims) == 1 and space.ragged[dims[0]]:
                told[f] = dims[0] if counts[f] == len(self.groups[dims[0]]) == len(space.sizes[dims[0]]) else -1
                reaches[f] = np.tile(reaches[f], 2)
        reach = np.full((space.families, max(map(len, reaches), default=1)), np.inf)
        for f, values in enumerate(reaches):
            reach[f, : len(values)] = values
        lacks = np.array([
            space.family_of[t] >= 0 and not (c.relevant[t] & (space.family == space.family_of[t])).any()
            for t in range(space.tensors)
        ])  # fmt: skip
        return Buckets(
            least=least,
            most=largest,
            passes=fewest,
            most_passes=passing,
            ragged=space.ragged,
            prime=np.array([divisors(int(bound))[1] if bound > 1 else 2 for bound in c.bounds], np.int64),
            family=space.family,
            family_of=space.family_of,
            alone=lacks,
            reach=reach,
            first=np.cumsum([1, *map(len, reaches)]).astype(np.int64),
            reaches=counts,
            told=told,
            needed=space.needed,
        )

    def prepare(self, memory: int) -> bool:
        """List shapes, states and pairs; returns whether their tables take no more bytes of memory."""
        space, levels = self.space, range(self.space.levels)
        if math.prod(self.many.tolist()) > MOST_SHAPES:
            return False
        ends = (self.many - 1)[None, :], np.zeros((1, space.dims), np.int64)
        self.shapes = [ends[0], *(self._shapes(2 * level) for level in levels[1:]), ends[1]]
        self.around = [self._shapes(2 * level + 1) for level in levels]
        rows = sum(map(len, (*self.shapes, *self.around))) * int(self.buckets.first[-1])
        if rows * ROW_BYTES > memory:
            return False
        self.fits, self.narrow = [], []
        for level, shapes in enumerate(self.shapes):
            least = np.stack([self.buckets.least[d, shapes[:, d]] for d in range(space.dims)])
            fits, narrow = space.fit(level, least)
            kept = fits.any(axis=1)
            self.shapes[level] = np.ascontiguousarray(shapes[kept])
            self.fits.append(np.ascontiguousarray(fits[kept]))
            self.narrow.append(np.ascontiguousarray(narrow[kept]))
        self.rows = [self._rows(shapes, 2 * level) for level, shapes in enumerate(self.shapes)]
        for level in (0, -1):
            self.rows[level][:, 0], self.rows[level][:, 1:] = 0, -1
        self.rows_around = [self._rows(shapes, 2 * level + 1) for level, shapes in enumerate(self.around)]
        sizes = self._choose_nodes(memory)
        self.entries, self.shape_count = sum(sizes), sum(map(len, (*self.shapes, *self.around)))
        left = memory - 8 * (self.entries + 2 * max(sizes))
        self.within, self.across, self.ways, self.crossings = [], [], [], []
        for level in levels:
            self.clock.look()
            self.ways.append(
                self._grid([space.steps(level, d) for d in range(space.dims)], np.bitwise_or).astype(np.int64)
            )
            self.crossings.append(self._crossing(level, *self._spread(level)))
            network = self.crossings[level]
            pairs = self._pairs(level, left // 2)
            if pairs is None:
                return False
            first, last = pairs
            left -= 8 * (len(first) + len(last))
            self.within.append(first)
            self.across.append(last)
            states = sizes[len(self.shapes) + level] / max(1, len(self.around[level]))
            self.work += 2 * len(last) * states * len(network.masks) + 4 * len(first) * math.prod(self.lanes[level])
        return True

    def _choose_nodes(self, memory: int) -> list[int]:
        """Choose prices and copies that tables tell apart, fewer where there are many states; returns their entries."""
        output = self.space.output
        few = FEW if self.ratio > 1.0 else memory // 32
        for apart, fold in ((2.0, 2.0), (4.0, 2.0), (4.0, 4.0)) if self.space.returning else ((16.0, 1.0),):
            self.prices, self.copies = self.space.price_nodes(apart), self.space.copy_nodes(fold)
            self.lanes = [
                (len(copies), math.prod(map(len, prices.rows(output))))
                for copies, prices in zip(self.copies, self.prices, strict=True)
            ]
            tables = [*zip(self.rows, self.lanes, strict=True), *zip(self.rows_around, self.lanes, strict=False)]
            sizes = [int((rows >= 0).sum()) * math.prod(lanes) for rows, lanes in tables]
            if sum(sizes) <= few:
                break
        return sizes

    def _shapes(self, place: int) -> Ints:
        """Shapes that may be live at a place: the tile of level l at 2 l, the shape around its network at 2 l + 1."""
        dims = range(self.space.dims)
        if self.before is None:
            return np.ascontiguousarray(np.indices(tuple(self.many)).reshape(len(dims), -1).T)
        found = self.before.shapes[place]
        for d in dims:
            first = np.searchsorted([group[0] for group in self.groups[d]], [g[0] for g in self.before.groups[d]])
            end = np.append(first[1:], len(self.groups[d]))
            many = (end - first)[found[:, d]]
            before = np.repeat(np.cumsum(many) - many, many)
            rows = np.repeat(np.arange(len(found)), many)
            parent = found[rows, d]
            found = found[rows]
            found[:, d] = first[parent] + np.arange(len(rows)) - before
        return np.ascontiguousarray(found)

    def _parents(self, shapes: Ints) -> Ints:
        """The buckets of the round before that hold those of some shapes."""
        assert self.before is not None
        found = np.empty_like(shapes)
        for d, groups in enumerate(self.before.groups):
            bucket_of = np.concatenate([np.full(len(group), n) for n, group in enumerate(groups)])
            found[:, d] = bucket_of[[group[0] for group in self.groups[d]]][shapes[:, d]]
        return found

    def _at_parent(self, place: int, parents: Ints) -> Ints:
        """Which of the shapes that were live at a place these are, -1 if none."""
        assert self.before is not None
        many = tuple(len(found) for found in self.before.groups)
        number = np.full(math.prod(many), -1, np.int64)
        shapes = self.before.shapes[place]
        number[np.ravel_multi_index(tuple(shapes.T), many)] = np.arange(len(shapes))
        return np.asarray(number[np.ravel_multi_index(tuple(parents.T), many)])

    def _passes(self, buckets: Buckets, shapes: Ints, f: int) -> Floats:
        """Fewest passes of a family's dimensions at some shapes."""
        dims = np.flatnonzero(self.space.family == f)
        return np.asarray(buckets.passes[dims[None, :], shapes[:, dims]].prod(axis=1))

    def _rows(self, shapes: Ints, place: int) -> Ints32:
        """Row of each state, -1 if it cannot be live: int32[S, Q]."""
        z, live = self.buckets, np.zeros((len(shapes), int(self.buckets.first[-1])), np.bool_)
        live[:, 0] = True
        if self.before is not None:
            parents = self._parents(shapes)
            states = self.before.states[place][self._at_parent(place, parents)]
            live[:, 0] = states.any(axis=1)
        for f in range(self.space.families):
            first, end = z.first[f], z.first[f + 1]
            reach = z.reach[f, : end - first]
            live[:, first:end] = reach < self._passes(z, shapes, f)[:, None] * (1.0 - SAME)
            if self.before is None:
                continue
            old = self.before.buckets
            many, known = old.reaches[f], old.reach[f, : old.reaches[f]]
            some = states[:, old.first[f] : old.first[f + 1]].reshape(len(states), -1, many)
            some = np.logical_or.accumulate(np.logical_or.accumulate(some, axis=2), axis=1)
            at = np.searchsorted(known, reach[: z.reaches[f]] * (1.0 + SAME), side="right") - 1
            followed = np.append(reach[1 : z.reaches[f]], np.inf)  # as rounded down, it may be anything less
            none = states[:, :1] & (followed > self._passes(old, parents, f)[:, None] * (1.0 - SAME))
            live[:, first:end] &= (some[:, :, at] | none[:, None, :]).reshape(len(states), -1)
        rows = np.full(live.shape, -1, np.int32)
        rows[live] = np.arange(live.sum())
        return rows

    def _grid(self, found: Sequence[Ints] | Sequence[Floats], reduce: np.ufunc) -> Floats:
        """What is known of the sizes of each dimension, outer first, reduced to buckets: float64[D, N, N]."""
        most = int(self.many.max())
        grid = np.zeros((len(found), most, most))
        for d, (values, groups) in enumerate(zip(found, self.groups, strict=True)):
            first = [group[0] for group in groups]
            by_bucket = reduce.reduceat(reduce.reduceat(values, first, axis=0), first, axis=1)
            grid[d, : len(groups), : len(groups)] = by_bucket
        return grid

    def _spread(self, level: int) -> tuple[Floats, Floats]:
        """Least and most spread between buckets, and words that rest at most, outer first."""
        space = self.space
        both = [space.spreads(level, d) for d in range(space.dims)]
        least = self._grid([np.where(low > 0.0, low, np.inf) for low, _ in both], np.minimum)
        least[~np.isfinite(least)] = 0.0
        spread = np.stack([least, self._grid([high for _, high in both], np.maximum)])
        rests = np.zeros(least.shape)
        for d, o, i in np.argwhere(least * space.ragged[:, None, None]).tolist():
            low, high = spread[:, d, o, i].astype(np.int64).tolist()
            rests[d, o, i] = space.rests[level][d][self.groups[d][i], low : high + 1].max(initial=0.0)
        return spread, rests

    def _axes(self, level: int, spread: Floats) -> tuple[Ints, Ints, Ints]:
        """How the spreads between buckets fit the axes, as `fit_axes` takes it."""
        begin = np.zeros((*spread.shape[1:3], spread.shape[3] + 1), np.int64)
        ways = [(1, 1)]
        for d, groups in enumerate(self.groups):
            x, y = (np.array(self.space.factors(level, axis, d)) for axis in "xy")
            for o, i in itertools.product(range(len(groups)), repeat=2):
                begin[d, o, i] = len(ways)
                least, most = spread[:, d, o, i].tolist()
                if most == 1.0:
                    ways.append((1, 1))
                for one in x[x <= most].tolist() if most > 1.0 else ():
                    other = y[(one * y >= least) & (one * y <= most)]
                    ways += [(one, int(other[0]))] if len(other) else []
                begin[d, o, i + 1] = len(ways)
        on_x, on_y = np.array(ways, np.int64).T.copy()
        return begin, on_x, on_y

    def _pairs(self, level: int, room: int) -> tuple[Ints32, Ints32] | None:
        """Pairs of shapes that a temporal block joins, and the network inside it; None if they take more bytes."""
        network, size = self.crossings[level], self.c.fanout[level].tolist()
        around, found = self.around[level], []
        for outer, inner, ok, most in (
            (self.shapes[level], around, self.ways[level], 0.0),
            (around, self.shapes[level + 1], network.spread[0].astype(np.int64), float(network.children[0])),
        ):
            number = np.full(math.prod(self.many.tolist()), -1, np.int64)
            number[inner @ self.stride] = np.arange(len(inner))
            pairs = np.empty((1 << 16, 2), np.int32)
            many = list_pairs(outer, inner, ok, network.spread, most, number, self.stride, pairs)
            if many * 8 > room:
                return None
            if many > len(pairs):
                pairs = np.empty((many, 2), np.int32)
                list_pairs(outer, inner, ok, network.spread, most, number, self.stride, pairs)
            found.append(pairs[:many])
        if min(size) > 1:
            axes = self._axes(level, network.spread)
            found[1] = found[1][: fit_axes(around, self.shapes[level + 1], found[1], *axes, *size)]
        return found[0], found[1]

    def _crossing(self, level: int, spread: Floats, rests: Floats) -> Crossing:
        """The network below a level, with what the level inside costs."""
        space, c = self.space, self.c
        inside, output, last = level + 1, space.output, level + 1 == space.levels
        back = c.energy[level, output, BY_RETURN] if space.counted else 0.0
        into = c.energy[level, :, BY_TRANSFER].copy()
        into[output] += back
        credit = np.array([back, 0.0])
        if not last:
            into += space.writes[inside]
            if space.counted:
                credit += [space.writes[inside, output] + space.reads[inside, output], space.finished[inside]]
            if c.drain[inside]:
                parts = c.word_parts[inside, output].min() / c.block[inside]
                into[output] += c.energy[inside, output, BY_READ] * parts
        children = c.fanout[level].astype(np.float64)
        sharing = np.ones(space.tensors)
        for t in range(space.tensors):
            shared = c.reduction[level] if t == output else c.multicast[level, :, t]
            sharing[t] = children[shared].prod()
        linked = c.windowed & c.links[level]
        linked[output] = False
        above, below = (self.prices[at].rows(output) for at in (level, inside))
        return Crossing(
            spread=spread,
            rests=rests,
            sharing=sharing,
            linked=linked,
            into=into,
            passing=c.energy[level, :, BY_TRANSFER].copy(),
            credit=credit * float(c.whole[output]),
            children=np.array([children.prod()]),
            price=_padded(above),
            prices=np.array([*map(len, above)], np.int64),
            price_inside=_padded(below),
            prices_inside=np.array([*map(len, below)], np.int64),
            plain=np.array([*map(len, self.prices[level].values)], np.int64),
            plain_inside=np.array([*map(len, self.prices[inside].values)], np.int64),
            own=self.prices[inside].own,
            tight=np.array([self.prices[inside].tight], np.int64),
            copies=self.copies[level],
            copies_inside=self.copies[inside],
            masks=np.array(space.masks[inside], np.int64),
            fits=self.fits[inside],
            narrow=self.narrow[inside],
            last=np.array([last], np.int64),
            around=self.around[level],
            inside=self.shapes[inside],
            row_around=self.rows_around[level],
            row_inside=self.rows[inside],
        )

    def sweep(self, value: float) -> float:
        """Fill the tables, and note which states may lead to mappings below a value; returns the bound [pJ]."""
        space, c, z, levels = self.space, self.c, self.buckets, self.space.levels
        scratch = self._scratch()

        def blank(rows: Ints32, level: int) -> Floats:
            return np.full((int((rows >= 0).sum()), *self.lanes[level]), np.inf)

        def flat(table: Floats) -> Floats:
            return table.reshape(len(table), -1)

        def through(level: int, forward: bool, tile: Floats, out: Floats) -> None:
            rows = self.rows[level], self.rows_around[level]
            shapes = self.shapes[level], self.around[level]
            tables = forward, flat(tile), flat(out)
            self.clock.in_pieces(
                self.within[level], lambda pairs: go_through(z, *shapes, *rows, self.ways[level], pairs, *tables)
            )

        def across(level: int, forward: bool, around: Floats, inside: Floats) -> None:
            tables, crossing = (forward, around, inside), self.crossings[level]
            self.clock.in_pieces(self.across[level], lambda pairs: cross(c, z, crossing, scratch, pairs, *tables))

        inside = [blank(rows, level) for level, rows in enumerate(self.rows)]
        around = [blank(rows, level) for level, rows in enumerate(self.rows_around)]
        inside[levels][:] = 0.0
        for level in reversed(range(levels)):
            across(level, False, around[level], inside[level + 1])
            through(level, False, inside[level], around[level])
        bound = float(inside[0][0, 0, 0]) + space.certain if len(inside[0]) else math.inf
        most = value * (1.0 - SURE)
        before = blank(self.rows[0], 0)
        before[:, 0, 0] = space.certain
        live = [np.ones_like(self.rows[0], np.bool_)]
        for level in range(levels):
            after = blank(self.rows_around[level], level)
            through(level, True, before, after)
            around[level] += after
            live.append(_alive(self.rows_around[level], around[level], most))
            before = blank(self.rows[level + 1], level + 1)
            across(level, True, after, before)
            inside[level + 1] += before
            live.append(_alive(self.rows[level + 1], inside[level + 1], most))
        live[-1][:] = live[-1].any()
        places = [*itertools.chain(*zip(self.shapes, self.around, strict=False)), self.shapes[-1]]
        kept = [states.any(axis=1) for states in live]
        if all(each.any() for each in kept):
            self.live = LiveStates(
                self.groups, z, [each[k] for each, k in zip(places, kept, strict=True)],
                [each[k] for each, k in zip(live, kept, strict=True)],
            )  # fmt: skip
        return bound

    def _scratch(self) -> Scratch:
        space = self.space
        prices_of = [prices.rows(space.output) for prices in self.prices]
        most = max(len(each) for prices in prices_of for each in prices)
        many = max(prices for _, prices in self.lanes)
        lanes = max(
            math.prod(max(len(a), len(b)) for a, b in zip(above, below, strict=True))
            for above, below in itertools.pairwise(prices_of)
        )
        return Scratch(
            facts=np.zeros((space.tensors, FACTS)),
            words=np.zeros((space.families + 1, space.tensors)),
            families=np.zeros((space.families, AT_NETWORK)),
            reads=np.zeros(space.tensors),
            own=np.zeros(space.tensors, np.int64),
            down=np.zeros((space.tensors, most), np.int64),
            beyond=np.zeros((space.tensors, most)),
            lanes=np.zeros((2, lanes)),
            target=np.zeros(many, np.int64),
            cost=np.zeros(many),
        )


def _alive(rows: Ints32, costs: Floats, most: float) -> Bools:
    """States that may be on the way to a mapping below a value: bool[S, Q]."""
    found = rows >= 0
    found[found] = costs.reshape(len(costs), -1).min(axis=1) < most
    return found


def split_buckets(groups: list[Ints], sizes: Ints, ratio: float) -> list[Ints]:
    """Split buckets into those whose sizes differ by less than a ratio; 1 and the whole bound stay alone.

    >>> sizes = np.array([1, 2, 3, 4, 6, 12])
    >>> [sizes[group].tolist() for group in split_buckets([np.arange(6)], sizes, 2)]
    [[1], [2, 3], [4, 6], [12]]
    """
    found: list[list[int]] = []
    for group in groups:
        begun = False
        for at in group.tolist():
            apart = at in (0, 1, len(sizes) - 1)
            if begun and not apart and sizes[at] < sizes[found[-1][0]] * ratio:
                found[-1].append(at)
            else:
                found.append([at])
            begun = True
    return [np.array(group) for group in found]


def _reaches(axes: list[Floats], known: Floats, room: int) -> Floats:
    """Passes beyond a reach that tables tell apart: products of those of dimensions, or some, and known ones."""
    found = np.ones(1)
    for values in axes:
        found = np.unique(np.multiply.outer(found, values))
    if len(found) > room:
        spaced = np.geomspace(1.0, found[-1], room)
        found = found[np.unique(np.searchsorted(found, spaced * (1.0 + SAME), side="right") - 1)]
    return np.unique(np.concatenate([known, found]))


def _padded(rows: list[Floats]) -> Floats:
    found = np.full((len(rows), max(map(len, rows))), np.inf)
    for n, row in enumerate(rows):
        found[n, : len(row)] = row
    return found
