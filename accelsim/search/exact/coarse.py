"""A lower bound of the energy of all mappings of a space, from coarse tables to fine ones.

A state of the tables is a tile shape, a reach, the copies of the output, and a price for a word of each tensor.

- *Reach.* After a block with loops, only the tensors that its innermost loop does not move stay in place. So the state
  is none, or one family of tensors and the passes over its dimensions that are left beyond the loops that it stays
  through. The words into all tiles are the words of one pass times these passes.
- *Price.* What a word costs at the level that it comes from. A level that keeps the tensor sets its own price. One that
  passes it by divides the price by the children that share the word, and adds the transfer. The least cost is concave
  in each price, so what lies between two prices is at least on their chord.
- *Copies.* First reads that are not needed save energy in proportion to the copies of the output.
- *Buckets.* Sizes of a dimension are bucketed. Words are those of the largest size, tiles must fit with the smallest,
  and a loop leads between two buckets if it does for some of their members. So each mapping has a path through the
  tables that costs no more than the mapping does.

States through which all paths cost more than the best mapping known are dropped, and the buckets of the others are
split: coarse-to-fine dynamic programming (Raphael, IEEE TPAMI 23(12), 2001). Axis letters as in `coarse_kernel`.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from accelsim.inputs.divisors import divisors
from accelsim.mapspace.factors import passes
from accelsim.mapspace.space import MapSpace, Slot
from accelsim.model.encode import (
    BY_READ,
    BY_RETURN,
    BY_TRANSFER,
    BY_UPDATE,
    BY_WRITE,
    UNLIMITED,
    Bools,
    Constants,
    Floats,
    Ints,
)
from accelsim.search.exact.coarse_kernel import (
    AT_NETWORK,
    FACTS,
    LOOPS,
    SAME,
    STAYS,
    Buckets,
    Crossing,
    Scratch,
    cross,
    fit_axes,
    go_through,
    list_pairs,
    share_resting,
)

RATIOS = (64.0, 8.0, 4.0, 2.0, 1.42, 1.0)
"""Largest over smallest size of a bucket, round by round; at 1 each size has a bucket of its own."""
SURE = 1e-9
"""Relative: what rounding may be off."""
MOST_SHAPES = 10_000_000
"""Shapes of a round, live or not, at most."""
SPEED = 2e7
"""Entries that a sweep over networks passes in a second, about: for the first estimate of time."""
Ints32 = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class CoarseRound:
    """One round.

    Attributes
    ----------
    ratio : float
        Largest over smallest size of a bucket.
    bound : float
        Energy [pJ] that no mapping falls below, by this round alone.
    shapes, states : int
        Tile shapes that were looked at, at all levels, and states.
    live : int
        Shapes that are left.
    seconds : float
        CPU time of this process.
    """

    ratio: float
    bound: float
    shapes: int
    states: int
    live: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CoarseBound:
    """What coarse tables prove.

    Attributes
    ----------
    bound : float
        Energy [pJ] that no valid mapping falls below; the best known one, where that is proved to be optimal.
    proved : bool
        Whether no mapping is better than the best known one.
    rounds : tuple of CoarseRound
    stop : str
        Why there are no more rounds: `proved`, `sizes` (each has a bucket of its own), `timeout` or `memory`.
    """

    bound: float
    proved: bool
    rounds: tuple[CoarseRound, ...]
    stop: str


def coarse_bound(
    space: MapSpace,
    value: float = math.inf,
    *,
    seconds: float | None = None,
    memory: int = 1 << 30,
    ratios: Sequence[float] = RATIOS,
) -> CoarseBound:
    """Find an energy [pJ] that no valid mapping of a space falls below.

    Parameters
    ----------
    space : MapSpace
        Even or uneven, with or without remainders. `mapspace.merging.merged` makes it smaller.
    value : float
        Energy of the best mapping known; states of mappings that cost as much are dropped.
    seconds : float, optional
        CPU time after which no further round begins, or one that would take longer.
    memory : int
        Bytes that tables may take.
    ratios : sequence of float
        Of the buckets, round by round, descending.

    Examples
    --------
    >>> from accelsim import load_architecture, load_workload
    >>> from accelsim.search.mapper import map_einsum
    >>> from accelsim.model.encode import encode
    >>> machine, layer = load_architecture("eyeriss"), load_workload("gemm").layers[0]
    >>> best = map_einsum(machine, layer, uneven=False, workers=1).best.energy_pj
    >>> found = coarse_bound(MapSpace(encode(machine, layer)), best, ratios=(8,))
    >>> 0.5 < found.bound / best <= 1
    True
    """
    return _Tables(space, memory).refine(value, seconds, ratios)


@dataclass(slots=True)
class _Live:
    """States that are live after a round: buckets, shapes, and which reaches of them."""

    groups: list[list[Ints]]
    buckets: Buckets
    shapes: list[Ints]
    states: list[Bools]


class _Tables:
    """What all rounds have in common: energies, prices, and what may be kept."""

    def __init__(self, space: MapSpace, memory: int) -> None:
        self.space, self.memory = space, memory
        self.c = c = space.encoded.constants
        self.levels, (self.tensors, self.dims) = len(c.fanout), c.relevant.shape
        self.output = int(c.output[0])
        self.macs = float(space.encoded.einsum.macs)
        self.ragged = np.array([dim in space.imperfect for dim in space.encoded.dims], np.bool_)
        self.passes = [
            np.array(passes(bound) if ragged else divisors(bound)[::-1], np.int64)
            for bound, ragged in zip(c.bounds.tolist(), self.ragged.tolist(), strict=True)
        ]
        self.sizes = [-(-int(bound) // found) for bound, found in zip(c.bounds, self.passes, strict=True)]
        self.family, self.family_of = _families(c)
        self.families = int(self.family_of.max(initial=-1)) + 1
        self.reads, self.writes, self.updates, self.off = _energies(c)
        self.copied = not c.windowed[self.output]
        self.masks = [self._masks(level) for level in range(self.levels)] + [[(1 << self.tensors) - 1]]
        self.needed = np.array([_needed(c, t) for t in range(self.tensors)])
        words = float(c.whole[self.output])
        first = self.reads[0, self.output] + self.off[0] if self.copied else 0.0
        self.certain = self.macs * float(c.mac[0]) + self._leak() - first * words
        used = [[self._factors(level, d) for d in range(self.dims)] for level in range(self.levels)]
        self.factors, self.on_axes = [[x[0] for x in row] for row in used], [[x[1:] for x in row] for row in used]
        self.rests = self._resting()

    def _masks(self, level: int) -> list[int]:
        """What a level may keep, tensors as bits."""
        fixed = sum(1 << t for t in range(self.tensors) if self.space.keep[level, t])
        free = [1 << t for at, t in self.space.free_keeps if at == level]
        some = itertools.chain.from_iterable(itertools.combinations(free, many) for many in range(len(free) + 1))
        return [fixed + sum(each) for each in some]

    def _leak(self) -> float:
        """Energy that leaks at least [pJ]: if all compute units that a level in use has work all the time."""
        c = self.c
        inside = np.cumprod(c.fanout.prod(axis=1)[::-1].astype(np.float64))[::-1]
        return float((c.leak * self.macs * float(c.mac_cycles[0]) / inside).sum())

    def _factors(self, level: int, d: int) -> tuple[Ints, Ints, Ints]:
        """Bounds of loops in time, on x and on y."""
        c, dim = self.c, self.space.encoded.dims[d]
        slots = [Slot(level), Slot(level, "x"), Slot(level, "y")]
        sizes = [0, *c.fanout[level].tolist()]
        found = [
            sorted(self.space.allowed(slot, dim)) if size != 1 else [1]
            for slot, size in zip(slots, sizes, strict=True)
        ]
        time, x, y = (np.array(each, np.int64) for each in found)
        return time, x, y

    def _resting(self) -> list[list[Floats]]:
        """For each network and dimension the share of words that rest at most: float64[N, spread + 1]."""
        c, found = self.c, []
        outside = 1
        for level in range(self.levels):
            children = int(c.fanout[level].prod())
            row = []
            for d in range(self.dims):
                factors = {1, *c.factor[c.relevant[:, d], d].tolist()}
                bound = int(c.bounds[d])
                if not self.ragged[d]:
                    row.append(np.zeros((len(self.passes[d]), 1)))
                    continue
                most = np.zeros((len(self.passes[d]), min(children, bound) + 1))
                for n, tiles in enumerate(self.passes[d].tolist()):
                    for factor in factors:
                        share_resting(bound, tiles, outside, factor, level == 0, most[n])
                row.append(most)
            outside *= children
            found.append(row)
        return found

    def refine(self, value: float, seconds: float | None, ratios: Sequence[float]) -> CoarseBound:
        """Bound round by round; see `coarse_bound`."""
        begun, rounds, speed = time.process_time(), list[CoarseRound](), SPEED
        best, stop, live = min(self._floor(), value), "sizes", None
        groups = [[np.arange(len(found))] for found in self.sizes]
        for ratio in ratios:
            start = time.process_time()
            groups = [split_buckets(found, sizes, ratio) for found, sizes in zip(groups, self.sizes, strict=True)]
            one = _Round(self, groups, ratio, live)
            if (nbytes := one.prepare()) > self.memory:
                stop = "memory"
                break
            left = math.inf if seconds is None else begun + seconds - time.process_time()
            if left < one.work / speed and rounds:
                stop = "timeout"
                break
            bound = one.sweep(value)
            taken = time.process_time() - start
            if taken > 0.05:
                speed = max(one.work, 1.0) / taken
            live = one.live
            many = sum(map(len, live.shapes)) if live else 0
            rounds.append(CoarseRound(ratio, bound, one.many_shapes, nbytes // 8, many, taken))
            best = max(best, min(bound, value))
            if live is None or best >= value * (1.0 - SURE):
                best, stop = value, "proved"
                break
            if all(len(group) == 1 for found in groups for group in found):
                break
        return CoarseBound(best, stop == "proved", tuple(rounds), stop)

    def _floor(self) -> float:
        """What the multiply-accumulates take [pJ]."""
        return self.macs * float(self.c.mac[0])


class _Round:
    """The tables of one round."""

    def __init__(self, tables: _Tables, groups: list[list[Ints]], ratio: float, before: _Live | None) -> None:
        self.tables, self.c, self.groups, self.ratio, self.before = tables, tables.c, groups, ratio, before
        self.live: _Live | None = None
        self.exact = all(len(group) == 1 for found in groups for group in found)
        self.buckets = self._make_buckets()
        self.many = np.array([len(found) for found in groups], np.int64)
        self.stride = np.array([math.prod(self.many[d + 1 :].tolist()) for d in range(tables.dims)], np.int64)
        finest = ratio <= 1.5
        self.price, self.own = _price_nodes(tables, 2.0 if finest else 4.0)
        self.copies = _copy_nodes(tables, 2.0 if ratio <= 2.0 else 4.0)
        self.work, self.many_shapes = 0.0, 0

    def _make_buckets(self) -> Buckets:
        tables, c = self.tables, self.c
        most = max(map(len, self.groups))
        least, largest, fewest, passing = (np.ones((tables.dims, most)) for _ in range(4))
        for d, found in enumerate(self.groups):
            for n, group in enumerate(found):
                least[d, n], largest[d, n] = tables.sizes[d][group[[0, -1]]]
                passing[d, n], fewest[d, n] = tables.passes[d][group[[0, -1]]]
        room = 12 if self.ratio > 4 else 24 if self.ratio > 2 else 48 if self.ratio > 1.5 else 96
        reaches, told = [], np.full(tables.families, -1, np.int64)
        counts = np.zeros(tables.families, np.int64)
        for f in range(tables.families):
            old, dims = self.before.buckets if self.before is not None else None, np.flatnonzero(tables.family == f)
            known = old.reach[f, : old.reaches[f]] if old is not None else np.ones(1)
            axes = [fewest[d, : len(self.groups[d])] for d in dims]
            reaches.append(_reaches(axes, known, room))
            counts[f] = len(reaches[f])
            if len(dims) == 1 and tables.ragged[dims[0]]:
                told[f] = dims[0] if counts[f] == len(self.groups[dims[0]]) == len(tables.sizes[dims[0]]) else -1
                reaches[f] = np.tile(reaches[f], 2)
        reach = np.full((tables.families, max(map(len, reaches), default=1)), np.inf)
        for f, values in enumerate(reaches):
            reach[f, : len(values)] = values
        lacks = np.array([
            tables.family_of[t] >= 0 and not (c.relevant[t] & (tables.family == tables.family_of[t])).any()
            for t in range(tables.tensors)
        ])  # fmt: skip
        return Buckets(
            least=least,
            most=largest,
            passes=fewest,
            most_passes=passing,
            ragged=tables.ragged,
            prime=np.array([divisors(int(bound))[1] if bound > 1 else 2 for bound in c.bounds], np.int64),
            family=tables.family,
            family_of=tables.family_of,
            alone=lacks,
            reach=reach,
            first=np.cumsum([1, *map(len, reaches)]).astype(np.int64),
            reaches=counts,
            told=told,
            needed=tables.needed,
        )

    def prepare(self) -> int:
        """List shapes, states and pairs; returns how many bytes the tables take."""
        tables, c, levels = self.tables, self.c, self.tables.levels
        if math.prod(self.many.tolist()) > MOST_SHAPES:
            return 1 << 62
        everything = [(c.fanout[level] > 1).any() for level in range(levels)]
        whole, ones = (self.many - 1)[None, :], np.zeros((1, tables.dims), np.int64)
        self.shapes = [whole if level == 0 else self._shapes(2 * level) for level in range(levels)] + [ones]
        self.around = [self._shapes(2 * level + 1) for level in range(levels)]
        self.fits, self.narrow = [], []
        for level in range(levels + 1):
            fits, narrow = self._fit(level)
            kept = fits.any(axis=1)
            self.shapes[level] = np.ascontiguousarray(self.shapes[level][kept])
            self.fits.append(np.ascontiguousarray(fits[kept]))
            self.narrow.append(np.ascontiguousarray(narrow[kept]))
        states = int(self.buckets.first[-1])
        self.rows = [self._rows(self.shapes[level], 2 * level) for level in range(levels + 1)]
        for level in (0, levels):
            self.rows[level][:] = -1
            self.rows[level][:, 0] = 0
        self.rows_around = [self._rows(self.around[level], 2 * level + 1) for level in range(levels)]
        assert states == self.rows[0].shape[1]
        lanes = [len(self.copies[level]) * self._prices(level) for level in range(levels + 1)]
        rows = [int((each >= 0).sum()) for each in self.rows], [int((each >= 0).sum()) for each in self.rows_around]
        entries = sum(n * lane for n, lane in zip(rows[0], lanes, strict=True))
        entries += sum(n * lane for n, lane in zip(rows[1], lanes, strict=False))
        self.many_shapes = sum(map(len, (*self.shapes, *self.around)))
        if entries * 16 > tables.memory:
            return entries * 16
        self.pairs_in, self.pairs_out, self.ways, self.crossings = [], [], [], []
        room = tables.memory // 4
        for level in range(levels):
            ways = self._ways(level)
            spread, axes = self._spread(level)
            inside = self._pairs(self.shapes[level], self.around[level], ways, np.ones((2, 1, 1, 1)), 0.0, room)
            across = self._pairs(
                self.around[level], self.shapes[level + 1], spread[0].astype(np.int64), spread,
                float(c.fanout[level].prod()), room,
            )  # fmt: skip
            if inside is None or across is None:
                return 1 << 62
            if everything[level] and c.fanout[level].min() > 1:
                kept = fit_axes(
                    self.around[level], self.shapes[level + 1], across, *axes, *map(int, c.fanout[level])
                )
                across = np.ascontiguousarray(across[:kept])
            self.ways.append(ways)
            self.pairs_in.append(inside)
            self.pairs_out.append(across)
            self.crossings.append(self._crossing(level, spread))
            each = rows[1][level] / max(1, len(self.around[level])) * lanes[level] * len(tables.masks[level + 1 :][0])
            self.work += len(across) * each * (2 + (level + 1 < levels)) + len(inside) * lanes[level] * 4
        return entries * 8

    def _prices(self, level: int) -> int:
        return math.prod(len(each) for each in self.price[level])

    def _shapes(self, place: int) -> Ints:
        """Shapes that may be live at a place: the tile of level l at 2 l, the shape around its network at 2 l + 1."""
        dims = range(self.tables.dims)
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
        dims = np.flatnonzero(self.tables.family == f)
        return np.asarray(buckets.passes[dims[None, :], shapes[:, dims]].prod(axis=1))

    def _rows(self, shapes: Ints, place: int) -> Ints32:
        """Row of each state, -1 if it cannot be live: int32[S, Q]."""
        z, live = self.buckets, np.zeros((len(shapes), int(self.buckets.first[-1])), np.bool_)
        live[:, 0] = True
        if self.before is not None:
            parents = self._parents(shapes)
            states = self.before.states[place][self._at_parent(place, parents)]
            live[:, 0] = states.any(axis=1)
        for f in range(self.tables.families):
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

    def _fit(self, level: int) -> tuple[Bools, Bools]:
        """Which choices of what a level keeps fit at each tile, and which of them with narrow sums alone."""
        tables, c, shapes = self.tables, self.c, self.shapes[level]
        fits = np.ones((len(shapes), len(tables.masks[level])), np.bool_)
        narrow = np.zeros_like(fits)
        if level in (0, tables.levels):
            return fits, narrow
        size = np.stack([self.buckets.least[d, shapes[:, d]] for d in range(tables.dims)])
        words = np.ones((tables.tensors, len(shapes)))
        for t in range(tables.tensors):
            for r in set(c.rank[t][c.relevant[t]].tolist()):
                along = c.relevant[t] & (c.rank[t] == r)
                words[t] *= 1.0 + (c.factor[t, along, None] * (size[along] - 1.0)).sum(axis=0)
        parts = c.word_parts[level].min(axis=1).astype(np.float64)
        wide = parts.copy()
        if tables.copied:
            wide[tables.output] = c.word_parts[level, tables.output, 1]
        for k, mask in enumerate(tables.masks[level]):
            kept = np.array([mask >> t & 1 for t in range(tables.tensors)], np.bool_)
            fits[:, k] = self._fits(level, words * (parts * kept)[:, None])
            if kept[tables.output]:
                narrow[:, k] = fits[:, k] & ~self._fits(level, words * (wide * kept)[:, None])
        return fits, narrow

    def _fits(self, level: int, held: Floats) -> Bools:
        """Whether tiles of so many units fit a level."""
        c = self.c
        found = np.ones(held.shape[1], np.bool_)
        if c.capacity[level] != UNLIMITED:
            found &= held.sum(axis=0) <= c.capacity[level]
        for role, room in enumerate(c.partition[level].tolist() if c.partitioned[level] else ()):
            if room != UNLIMITED:
                found &= held[c.role == role].sum(axis=0) <= room
        return np.asarray(found)

    def _ways(self, level: int) -> Ints:
        """STAYS and LOOPS between buckets, outer first, of the temporal block of a level: int64[D, N, N]."""
        tables, most = self.tables, int(self.many.max())
        found = np.zeros((tables.dims, most, most), np.int64)
        for d, groups in enumerate(self.groups):
            counts, factors = tuple(tables.passes[d].tolist()), tuple(tables.factors[level][d].tolist())
            single = _steps(counts, factors, bool(tables.ragged[d]))
            found[d, : len(groups), : len(groups)] = _by_bucket(single, groups, np.bitwise_or)
        return found

    def _spread(self, level: int) -> tuple[Floats, tuple[Ints, Ints, Ints]]:
        """Least and most spread between buckets, outer first; and how it fits the axes, as `fit_axes` takes it."""
        tables, most = self.tables, int(self.many.max())
        size_x, size_y = map(int, self.c.fanout[level])
        spread = np.zeros((2, tables.dims, most, most))
        begin = np.zeros((tables.dims, most, most + 1), np.int64)
        on_x, on_y = [1], [1]
        for d, groups in enumerate(self.groups):
            x, y = tables.on_axes[level][d]
            counts = tuple(tables.passes[d].tolist())
            low, high = _spreads(counts, tuple(x.tolist()), tuple(y.tolist()), bool(tables.ragged[d]))
            least = _by_bucket(np.where(low > 0, low, np.inf), groups, np.minimum)
            largest = _by_bucket(high, groups, np.maximum)
            least[~np.isfinite(least)] = 0.0
            spread[0, d, : len(groups), : len(groups)] = least
            spread[1, d, : len(groups), : len(groups)] = largest
            if min(size_x, size_y) == 1:
                continue
            for o in range(len(groups)):
                for i in range(o + 1):
                    begin[d, o, i] = len(on_x)
                    if largest[o, i] == 1:
                        on_x.append(1)
                        on_y.append(1)
                    elif largest[o, i]:
                        for one in x.tolist():
                            other = y[(one * y >= least[o, i]) & (one * y <= largest[o, i])]
                            if len(other):
                                on_x.append(one)
                                on_y.append(int(other[0]))
                    begin[d, o, i + 1] = len(on_x)
        return spread, (begin, np.array(on_x, np.int64), np.array(on_y, np.int64))

    def _pairs(
        self, outer: Ints, inner: Ints, ok: Ints, spread: Floats, most: float, room: int
    ) -> Ints32 | None:
        """Pairs of an outer and an inner shape; None if they take more room."""
        number = np.full(math.prod(self.many.tolist()), -1, np.int64)
        number[inner @ self.stride] = np.arange(len(inner))
        pairs = np.empty((1 << 16, 2), np.int32)
        found = list_pairs(outer, inner, ok, spread, most, number, self.stride, pairs)
        if found * 8 > room:
            return None
        if found > len(pairs):
            pairs = np.empty((found, 2), np.int32)
            list_pairs(outer, inner, ok, spread, most, number, self.stride, pairs)
        return np.ascontiguousarray(pairs[:found])

    def _crossing(self, level: int, spread: Floats) -> Crossing:
        """The network below a level, with what the level inside costs."""
        tables, c = self.tables, self.c
        inside, output, last = level + 1, tables.output, level + 1 == tables.levels
        back = c.energy[level, output, BY_RETURN] if tables.copied else 0.0
        into = c.energy[level, :, BY_TRANSFER].copy()
        into[output] += back
        credit = np.array([back, 0.0])
        if not last:
            into += tables.writes[inside]
            if tables.copied:
                credit += [tables.writes[inside, output] + tables.reads[inside, output], tables.off[inside]]
            if c.drain[inside]:
                parts = c.word_parts[inside, output].min() / c.block[inside]
                into[output] += c.energy[inside, output, BY_READ] * parts
        children = c.fanout[level].astype(np.float64)
        sharing = np.ones(tables.tensors)
        for t in range(tables.tensors):
            shared = c.reduction[level] if t == output else c.multicast[level, :, t]
            sharing[t] = children[shared].prod()
        linked = c.windowed & c.links[level]
        linked[output] = False
        most = int(self.many.max())
        rests = np.zeros((tables.dims, most, most))
        for d in np.flatnonzero(tables.ragged).tolist():
            groups, table = self.groups[d], tables.rests[level][d]
            for o, i in itertools.combinations_with_replacement(range(len(groups)), 2):
                o, i = max(o, i), min(o, i)
                low, high = spread[:, d, o, i].astype(int).tolist()
                if low:
                    rests[d, o, i] = table[groups[i], low : high + 1].max(initial=0.0)
        return Crossing(
            spread=spread,
            rests=rests,
            sharing=sharing,
            linked=linked,
            into=into,
            passing=c.energy[level, :, BY_TRANSFER].copy(),
            credit=credit * float(c.whole[output]),
            children=np.array([children.prod()]),
            price=_padded(self.price[level]),
            prices=np.array([len(each) for each in self.price[level]], np.int64),
            price_inside=_padded(self.price[inside]),
            prices_inside=np.array([len(each) for each in self.price[inside]], np.int64),
            own=self.own[inside],
            copies=self.copies[level],
            copies_inside=self.copies[inside],
            masks=np.array(tables.masks[inside], np.int64),
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
        tables, c, z, levels = self.tables, self.c, self.buckets, self.tables.levels
        scratch = self._scratch()
        lanes = [(len(self.copies[level]), self._prices(level)) for level in range(levels + 1)]

        def blank(rows: Ints32, level: int) -> Floats:
            return np.full((int((rows >= 0).sum()), *lanes[level]), np.inf)

        def flat(table: Floats) -> Floats:
            return table.reshape(len(table), -1)

        def through(level: int, forward: bool, tile: Floats, out: Floats) -> None:
            rows = self.rows[level], self.rows_around[level]
            shapes = self.shapes[level], self.around[level]
            go_through(z, *shapes, *rows, self.ways[level], self.pairs_in[level], forward, flat(tile), flat(out))

        inside = [blank(rows, level) for level, rows in enumerate(self.rows)]
        around = [blank(rows, level) for level, rows in enumerate(self.rows_around)]
        inside[levels][:] = 0.0
        for level in reversed(range(levels)):
            crossing, pairs = self.crossings[level], self.pairs_out[level]
            cross(c, z, crossing, scratch, pairs, False, around[level], inside[level + 1])
            through(level, False, inside[level], around[level])
        bound = float(inside[0][0, 0, 0]) + tables.certain if len(inside[0]) else math.inf
        most = value * (1.0 - SURE)
        before = blank(self.rows[0], 0)
        before[:, 0, 0] = tables.certain
        live = [np.ones_like(self.rows[0], np.bool_)]
        for level in range(levels):
            after = blank(self.rows_around[level], level)
            through(level, True, before, after)
            live.append(_alive(self.rows_around[level], after + around[level], most))
            before = blank(self.rows[level + 1], level + 1)
            cross(c, z, self.crossings[level], scratch, self.pairs_out[level], True, after, before)
            live.append(_alive(self.rows[level + 1], before + inside[level + 1], most))
        live[-1][:] = live[-1].any()
        places = [*itertools.chain(*zip(self.shapes, self.around, strict=False)), self.shapes[-1]]
        kept = [states.any(axis=1) for states in live]
        if all(each.any() for each in kept):
            self.live = _Live(
                self.groups, z, [each[k] for each, k in zip(places, kept, strict=True)],
                [each[k] for each, k in zip(live, kept, strict=True)],
            )  # fmt: skip
        return bound

    def _scratch(self) -> Scratch:
        tables, levels = self.tables, self.tables.levels
        most = max(len(each) for prices in self.price for each in prices)
        many = max(self._prices(level) for level in range(levels + 1))
        lanes = max(
            math.prod(max(len(a), len(b)) for a, b in zip(above, below, strict=True))
            for above, below in itertools.pairwise(self.price)
        )
        return Scratch(
            facts=np.zeros((tables.tensors, FACTS)),
            families=np.zeros((tables.families, AT_NETWORK)),
            reads=np.zeros(tables.tensors),
            down=np.zeros((tables.tensors, most), np.int64),
            beyond=np.zeros((tables.tensors, most)),
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


def _families(c: Constants) -> tuple[Ints, Ints]:
    """Families of tensors: those that a loop over some dimension leaves in place together, and so on.

    Returns
    -------
    int64[D] : family of each dimension, -1 if it moves all tensors
    int64[T] : family of each tensor, -1 if all dimensions move it
    """
    tensors, dims = c.relevant.shape
    family_of = np.arange(tensors)
    for d in range(dims):
        left = np.flatnonzero(~c.relevant[:, d])
        together = np.isin(family_of, family_of[left])
        if len(left):
            family_of[together] = family_of[left].min()
    some = (~c.relevant).any(axis=1)
    numbers = {int(each): n for n, each in enumerate(np.unique(family_of[some]))}
    found = np.array([numbers[int(family_of[t])] if some[t] else -1 for t in range(tensors)], np.int64)
    left_in = [np.flatnonzero(~c.relevant[:, d]) for d in range(dims)]
    return np.array([found[left[0]] if len(left) else -1 for left in left_in], np.int64), found


def _energies(c: Constants) -> tuple[Floats, Floats, Floats, Floats]:
    """Energy of a word read, written and updated [pJ]: float64[L, T]; and how much less a finished update takes.

    Accesses are not rounded up to blocks. Words of the output are partial sums; where it has windows, what comes back
    is left out.
    """
    parts = c.word_parts.min(axis=2).astype(np.float64)
    output, off = int(c.output[0]), np.zeros(len(parts))
    if not c.windowed[output]:
        off = (c.word_parts[:, output, 1] - parts[:, output]) / c.block * c.energy[:, output, BY_UPDATE]
        parts[:, output] = c.word_parts[:, output, 1]
    found = [c.energy[:, :, action] * parts / c.block[:, None] for action in (BY_READ, BY_WRITE, BY_UPDATE)]
    if c.windowed[output]:
        found[0][:, output] = found[1][:, output] = 0.0
    return found[0], found[1], found[2], off


def _needed(c: Constants, t: int) -> float:
    """Different words of a tensor that the multiply-accumulates ask for."""
    words = 1
    for r in set(c.rank[t][c.relevant[t]].tolist()):
        places = np.zeros(1, np.int64)
        for d in np.flatnonzero(c.relevant[t] & (c.rank[t] == r)).tolist():
            steps = c.factor[t, d] * np.arange(c.bounds[d])
            places = np.unique(np.add.outer(places, steps))
        words *= len(places)
    return float(words)


@lru_cache(maxsize=1 << 10)
def _steps(counts: tuple[int, ...], factors: tuple[int, ...], ragged: bool) -> Ints:
    """STAYS and LOOPS between sizes, by their passes, outer first."""
    found = np.zeros((len(counts), len(counts)), np.int64)
    for o, i in itertools.product(range(len(counts)), repeat=2):
        factor = _loop(counts[i], counts[o], ragged)
        if factor in factors:
            found[o, i] = STAYS if factor == 1 else LOOPS
    return found


def _loop(inner: int, outer: int, ragged: bool) -> int:
    """Bound of the loop that leads from so many passes to so many outside, 0 if none does."""
    factor = -(-inner // outer)
    return factor if (-(-inner // factor) == outer if ragged else inner == factor * outer) else 0


@lru_cache(maxsize=1 << 10)
def _spreads(
    counts: tuple[int, ...], on_x: tuple[int, ...], on_y: tuple[int, ...], ragged: bool
) -> tuple[Floats, Floats]:
    """Least and most spread between sizes, by their passes, outer first; 0 if none leads there."""
    low, high = np.zeros((2, len(counts), len(counts)))
    number = {count: n for n, count in enumerate(counts)}
    x, y = set(on_x), set(on_y)
    for i, inner in enumerate(counts):
        for middle in passes(inner) if ragged else divisors(inner):
            first = _loop(inner, middle, ragged)
            if first not in y:
                continue
            for outer in passes(middle) if ragged else divisors(middle):
                second = _loop(middle, outer, ragged)
                if second in x:
                    o, both = number[outer], first * second
                    low[o, i] = min(low[o, i] or both, both)
                    high[o, i] = max(high[o, i], both)
    return low, high


def _by_bucket(found: Floats, groups: list[Ints], reduce: np.ufunc) -> Floats:
    """Reduce what is known of sizes to buckets."""
    first = [group[0] for group in groups]
    return np.asarray(reduce.reduceat(reduce.reduceat(found, first, axis=0), first, axis=1))


def _reaches(axes: list[Floats], known: Floats, room: int) -> Floats:
    """Passes that tables tell apart beyond a reach: products of those of dimensions, or some of them; and known ones."""
    found = np.ones(1)
    for values in axes:
        found = np.unique(np.multiply.outer(found, values))
    if len(found) > room:
        spaced = np.geomspace(1.0, found[-1], room)
        found = found[np.unique(np.searchsorted(found, spaced * (1.0 + SAME), side="right") - 1)]
    return np.unique(np.concatenate([known, found]))


def _price_nodes(tables: _Tables, base: float) -> tuple[list[list[Floats]], list[Ints]]:
    """Prices of a word that tables tell apart, by boundary and tensor; and which one a level that keeps it sets."""
    c, found, own = tables.c, [], []
    for level in range(tables.levels):
        row, mine = [], np.full(tables.tensors, -1, np.int64)
        for t in range(tables.tensors):
            price = tables.reads[level, t] + (tables.updates[level, t] if t == tables.output else 0.0)
            values = list[float]()
            if level and any(not mask >> t & 1 for mask in tables.masks[level]):
                above, network = found[level - 1][t], level - 1
                transfer = float(c.energy[network, t, BY_TRANSFER])
                low = float(above[0]) / float(c.fanout[network].prod()) + transfer
                values = sorted({low, *(float(each) + transfer for each in above)})
                between = low * base
                while between < values[-1] and low > 0.0:
                    values.append(between)
                    between *= base
            values = _thinned(sorted(values), 1.0 + 0.4 * (base - 1.0))
            if any(mask >> t & 1 for mask in tables.masks[level]):
                values = sorted({*values, float(price)})
                mine[t] = values.index(float(price))
            row.append(np.array(values))
        found.append(row)
        own.append(mine)
    return [*found, [np.zeros(1)] * tables.tensors], [*own, np.zeros(tables.tensors, np.int64)]


def _thinned(values: Iterable[float], apart: float) -> list[float]:
    """Ascending values without those next to a lower one."""
    found = list[float]()
    for each in values:
        if not found or each > found[-1] * apart:
            found.append(each)
    return found


def _padded(rows: list[Floats]) -> Floats:
    found = np.full((len(rows), max(map(len, rows))), np.inf)
    for n, row in enumerate(rows):
        found[n, : len(row)] = row
    return found


def _copy_nodes(tables: _Tables, base: float) -> list[Floats]:
    """Copies of the output that tables tell apart, by boundary."""
    c, found, most = tables.c, [np.ones(1)], 1.0
    lacks = ~c.relevant[tables.output]
    limit = math.inf if tables.ragged[lacks].any() else float(c.bounds[lacks].prod())
    for level in range(tables.levels):
        most = min(most * float(c.fanout[level].prod()), limit) if tables.copied else 1.0
        values = [1.0]
        while values[-1] < most:
            values.append(min(values[-1] * base, most))
        found.append(np.array(values))
    return found
