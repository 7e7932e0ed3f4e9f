"""What coarse tables need to know of a map space: energies, prices, loops, and what may be kept.

Axis letters as in `coarse_layout`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accelsim.inputs.divisors import divisors
from accelsim.mapspace.factors import passes
from accelsim.mapspace.space import MapSpace, Slot
from accelsim.model.encode import (
    BY_READ,
    BY_TRANSFER,
    BY_UPDATE,
    BY_WRITE,
    UNLIMITED,
    Bools,
    Constants,
    Floats,
    Ints,
)
from accelsim.search.exact.coarse_layout import LOOPS, STAYS
from accelsim.search.exact.coarse_pairs_kernel import share_resting


class Prices(NamedTuple):
    """Prices of a word at a boundary [pJ].

    Where a level that keeps the output has room for finished words alone, its price is one of the `narrow` ones: at
    these each word comes once. `own`: int64[T], which price a level that keeps the tensor sets; `tight`: whether the
    first narrow one is its own.
    """

    values: list[Floats]
    narrow: list[float]
    own: Ints
    tight: bool

    def rows(self, output: int) -> list[Floats]:
        """Prices of each tensor, with narrow ones last."""
        return [np.append(row, self.narrow) if t == output else row for t, row in enumerate(self.values)]


class CoarseSpace:
    """A map space as all rounds of coarse tables see it.

    `passes`, `sizes`: int64[N] of each dimension, sizes ascending. `family`, `family_of`: as `Buckets` has them.
    `reads`, `writes`, `updates`: float64[L, T], energy of a word [pJ]; `finished`: float64[L], how much less an update
    takes by a word that is no partial sum. `counted`: whether partial sums that come back are counted; they are not
    where the output has windows. `masks`: what each level may keep, tensors as bits, and the compute units. `certain`:
    energy of each mapping besides that of words, less first reads at the outermost level, which are not needed.
    """

    def __init__(self, space: MapSpace) -> None:
        self.space, self.c = space, space.encoded.constants
        c = self.c
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
        self.masks = [self._masks(level) for level in range(self.levels)] + [[(1 << self.tensors) - 1]]
        self.needed = np.array([_needed(c, t) for t in range(self.tensors)])
        self.rests = self._resting()
        self.count(True)

    def count(self, returning: bool) -> None:
        """Count partial sums that come back, or leave them out: a bound all the same, of fewer tables."""
        c = self.c
        self.returning = returning
        self.counted = returning and not bool(c.windowed[self.output])
        self.reads, self.writes, self.updates, self.finished = _energies(c, self.counted)
        first = self.reads[0, self.output] + self.finished[0] if self.counted else 0.0
        self.certain = self.macs * float(c.mac[0]) + self._leak() - float(first) * float(c.whole[self.output])

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

    def steps(self, level: int, d: int) -> Ints:
        """STAYS and LOOPS of a temporal block between sizes, outer first: int64[N, N]."""
        return _steps(tuple(self.passes[d].tolist()), self.factors(level, "", d), bool(self.ragged[d]))

    def spreads(self, level: int, d: int) -> tuple[Floats, Floats]:
        """Least and most spread of a network between sizes, outer first, 0 if none leads there: float64[N, N]."""
        on_x, on_y = (self.factors(level, axis, d) for axis in "xy")
        return _spreads(tuple(self.passes[d].tolist()), on_x, on_y, bool(self.ragged[d]))

    def factors(self, level: int, axis: str, d: int) -> tuple[int, ...]:
        """Bounds that a loop may have, ascending."""
        if axis and self.c.fanout[level, "xy".index(axis)] == 1:
            return (1,)
        return tuple(sorted(self.space.allowed(Slot(level, axis), self.space.encoded.dims[d])))

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

    def fit(self, level: int, size: Floats) -> tuple[Bools, Bools]:
        """Which choices of what a level keeps fit, and which with narrow sums alone, for tiles of float64[D, S]."""
        c, fits = self.c, np.ones((size.shape[1], len(self.masks[level])), np.bool_)
        narrow = np.zeros_like(fits)
        if level in (0, self.levels):
            return fits, narrow
        words = np.ones((self.tensors, size.shape[1]))
        for t in range(self.tensors):
            for r in set(c.rank[t][c.relevant[t]].tolist()):
                along = c.relevant[t] & (c.rank[t] == r)
                words[t] *= 1.0 + (c.factor[t, along, None] * (size[along] - 1.0)).sum(axis=0)
        parts = c.word_parts[level].min(axis=1).astype(np.float64)
        wide = parts.copy()
        if self.counted:
            wide[self.output] = c.word_parts[level, self.output, 1]
        for k, mask in enumerate(self.masks[level]):
            kept = np.array([mask >> t & 1 for t in range(self.tensors)], np.bool_)
            fits[:, k] = self._has_room(level, words * (parts * kept)[:, None])
            if kept[self.output]:
                narrow[:, k] = fits[:, k] & ~self._has_room(level, words * (wide * kept)[:, None])
        return fits, narrow

    def _has_room(self, level: int, held: Floats) -> Bools:
        """Whether tiles of so many units fit a level."""
        c = self.c
        found = np.ones(held.shape[1], np.bool_)
        if c.capacity[level] != UNLIMITED:
            found &= held.sum(axis=0) <= c.capacity[level]
        for role, room in enumerate(c.partition[level].tolist() if c.partitioned[level] else ()):
            if room != UNLIMITED:
                found &= held[c.role == role].sum(axis=0) <= room
        return np.asarray(found)

    def price_nodes(self, base: float) -> list[Prices]:
        """Prices of a word that tables tell apart, by boundary; the last one is that of the compute units."""
        c, found = self.c, list[Prices]()
        for level in range(self.levels):
            prices, own, narrow, tight = list[Floats](), np.full(self.tensors, -1, np.int64), list[float](), False
            network, masks = level - 1, self.masks[level]
            for t in range(self.tensors):
                price = float(self.reads[level, t]) + (float(self.updates[level, t]) if t == self.output else 0.0)
                values, transfer = list[float](), float(c.energy[network, t, BY_TRANSFER])
                keeps = any(mask >> t & 1 for mask in masks)
                if level and any(not mask >> t & 1 for mask in masks):
                    above = found[network].values[t]
                    low = float(above[0]) / float(c.fanout[network].prod()) + transfer
                    values = sorted({low, *(float(each) + transfer for each in above)})
                    between = low * base
                    while between < values[-1] and low > 0.0:
                        values.append(between)
                        between *= base
                    if t == self.output:
                        narrow = [each + transfer for each in found[network].narrow]
                values = _thinned(sorted(values), 1.0 + 0.4 * (base - 1.0))
                if keeps:
                    values = sorted({*values, price})
                    own[t] = values.index(price)
                    if t == self.output and level and self.counted:
                        tight = bool(c.word_parts[level, t, 1] > c.word_parts[level, t, 0])
                        narrow = [price, *narrow] if tight else narrow
                prices.append(np.array(values))
            found.append(Prices(prices, narrow, own, tight))
        compute = [np.zeros(1)] * self.tensors
        return [*found, Prices(compute, [], np.zeros(self.tensors, np.int64), False)]

    def copy_nodes(self, base: float) -> list[Floats]:
        """Copies of the output that tables tell apart, by boundary."""
        c, found, most = self.c, [np.ones(1)], 1.0
        lacks = ~c.relevant[self.output]
        limit = math.inf if self.ragged[lacks].any() else float(c.bounds[lacks].prod())
        for level in range(self.levels):
            most = min(most * float(c.fanout[level].prod()), limit) if self.counted else 1.0
            values = [1.0]
            while values[-1] < most:
                values.append(min(values[-1] * base, most))
            found.append(np.array(values))
        return found


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
    some = [not moved.all() for moved in c.relevant]
    numbers = {int(each): n for n, each in enumerate(np.unique(family_of[np.array(some)]))}
    found = np.array([numbers[int(family_of[t])] if some[t] else -1 for t in range(tensors)], np.int64)
    left_in = [np.flatnonzero(~c.relevant[:, d]) for d in range(dims)]
    return np.array([found[left[0]] if len(left) else -1 for left in left_in], np.int64), found


def _energies(c: Constants, counted: bool) -> tuple[Floats, Floats, Floats, Floats]:
    """Energy of a word read, written and updated [pJ]: float64[L, T]; and how much less a finished update takes.

    Accesses are not rounded up to blocks. Words of the output are partial sums, or none come back.
    """
    parts = c.word_parts.min(axis=2).astype(np.float64)
    output, off = int(c.output[0]), np.zeros(len(parts))
    if counted:
        off = (c.word_parts[:, output, 1] - parts[:, output]) / c.block * c.energy[:, output, BY_UPDATE]
        parts[:, output] = c.word_parts[:, output, 1]
    found = [c.energy[:, :, action] * parts / c.block[:, None] for action in (BY_READ, BY_WRITE, BY_UPDATE)]
    if not counted:
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


def _thinned(values: Iterable[float], apart: float) -> list[float]:
    """Ascending values without those next to a lower one."""
    found = list[float]()
    for each in values:
        if not found or each > found[-1] * apart:
            found.append(each)
    return found
