"""What tiles can be charged at most, where each visit brings all of their words anew.

Axis letters: L = levels (outermost first), T = tensors, S = tile shapes (a grid of an axis for each dimension).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from accelsim.mapspace.tiles import along
from accelsim.model.encode import Bools, Floats, Ints
from accelsim.population.charges import Charges
from accelsim.population.steps import Keeping, Nest


class Charged:
    """A nest with what is charged in it.

    Parameters
    ----------
    nest : Nest
    charges : Charges

    Attributes
    ----------
    output : int
        Which tensor the output is.
    first : float
        Words of it that come for the first time, and are not read, at least; 0 for windows.
    macs : float
    visits : float64[S]
        Visits to all tiles of a shape, one for each step of the loops outside and each instance.
    words : list of float64[S]
        Words that enter all tiles of each tensor if each visit brings them anew.
    whole : bool[S]
        The shape with nothing outside.
    windows : dict
        For each tensor and dimension of a rank that several dimensions move, the extent of that rank in each tile;
        int64[S].
    """

    def __init__(self, nest: Nest, charges: Charges) -> None:
        encoded, dims = nest.space.encoded, len(nest.sizes)
        c = encoded.constants
        self.nest, self.charges, self.drain = nest, charges, c.drain
        self.output = int(c.output[0])
        self.first = 0.0 if c.windowed[self.output] else float(c.bounds[c.relevant[self.output]].prod())
        self.macs = float(encoded.einsum.macs)
        self.visits = np.full(nest.shape, self.macs)
        for d, sizes in enumerate(nest.sizes):
            self.visits = self.visits / along(sizes, d, dims)
        self.words = [nest.words[t].reshape(nest.shape) * self.visits for t in range(len(encoded.tensors))]
        self.whole = np.zeros(nest.shape, np.bool_)
        self.whole[(-1,) * dims] = True
        self.windows = _windows(nest)

    def rounded(self, keep: Bools, lv: int) -> float:
        """What a level is charged at most for words that its last accesses move besides those asked for."""
        charges, out, total = self.charges, self.output, 0.0
        for t in np.flatnonzero(keep[lv]).tolist():
            each = charges.read[lv, t] + (charges.fill[lv, t] if lv > 0 else 0.0)
            each += charges.update[lv, t] if t == out else 0.0
            accesses = min(float(charges.instances[lv]), float(self.words[t].max()))
            total += float(each * charges.unasked[lv, t]) * accesses
        return total

    def fill(self, lv: int, t: int) -> float:
        """What each word that enters a tile is charged at the level that keeps it."""
        drained = self.charges.read[lv, t] if t == self.output and self.drain[lv] else 0.0
        return float(self.charges.fill[lv, t] + drained)

    def outwards(self, values: Floats) -> Floats:
        """The largest value over a shape and all shapes around it."""
        for d, sizes in enumerate(self.nest.sizes):
            moved = np.moveaxis(values.copy(), d, 0)
            for i in range(len(sizes) - 1, -1, -1):
                for j in range(i + 1, len(sizes)):
                    if sizes[j] % sizes[i] == 0:
                        moved[i] = np.maximum(moved[i], moved[j])
            values = np.moveaxis(moved, 0, d)
        return values


def _windows(nest: Nest) -> dict[int, dict[int, Ints]]:
    """For each tensor and dimension of a rank that several dimensions move, its extent in each tile; int64[S]."""
    c, shape = nest.space.encoded.constants, nest.shape
    found: dict[int, dict[int, Ints]] = {}
    for t in np.flatnonzero(c.windowed).tolist():
        dims = c.term[t, : c.terms[t]].tolist()
        for d in dims:
            rank = [e for e in dims if c.rank[t, e] == c.rank[t, d]]
            if len(rank) > 1:
                reach = [c.factor[t, e] * (along(nest.sizes[e], e, len(shape)) - 1) for e in rank]
                found.setdefault(t, {})[d] = np.broadcast_to(1 + sum(reach), shape).ravel()
    return found


def choices(nest: Nest) -> Iterator[tuple[int, ...]]:
    """Each choice of what the levels keep, as the number of each level's choice, outermost level first."""
    levels = sorted((step for step in nest.steps if isinstance(step, Keeping)), key=lambda step: step.level)
    yield from itertools.product(*(range(len(step.keeps)) for step in levels))


class KeepBounds:
    """Bounds for one choice of what the levels keep.

    keep : bool[L, T]; fits : list of bool[S], tiles that each level has room for.
    around : list of float64[S]; at level l what tiles kept at l and further out can be charged at most, around a tile.
    rest : float64[L, T + 1], what each word that enters the tile kept last is still charged once the network of a level
        is passed; last the words of the output that come down.
    less : float64[L], to be taken off that, for words of the output that come for the first time.
    """

    def __init__(self, charged: Charged, chosen: tuple[int, ...]) -> None:
        nest, charges = charged.nest, charged.charges
        steps = sorted((step for step in nest.steps if isinstance(step, Keeping)), key=lambda step: step.level)
        self.keep: Bools = np.array([step.keeps[k] for step, k in zip(steps, chosen, strict=True)])
        self.fits: list[Bools] = [step.fits[k] for step, k in zip(steps, chosen, strict=True)]
        levels, tensors = self.keep.shape
        out, first = charged.output, charged.first
        self.rest, self.less = np.zeros((levels, tensors + 1)), np.zeros(levels)
        outer = np.zeros(tensors + 1)
        for lv in range(levels):
            # `outer`: crossing networks from the parent on, and its reads and updates
            if lv > 0:
                outer = outer + np.append(charges.transfer[lv - 1], charges.transfer[lv - 1, out])
            kept = self.keep[lv]
            here = charges.read[lv] + np.where(np.arange(tensors) == out, charges.update[lv], 0.0)
            outer = np.append(np.where(kept, here, outer[:-1]), 0.0 if kept[out] else outer[-1])
            self.rest[lv] = outer
        for lv in range(levels):
            parent = max(p for p in range(lv + 1) if self.keep[p, out])
            self.less[lv] = first * (charges.read[parent, out] + charges.transfer[parent:lv, out].sum())
            self.less[lv] -= sum(charged.rounded(self.keep, at) for at in range(lv + 1))
        around = np.where(charged.whole, 0.0, -math.inf)
        self.around: list[Floats] = []
        for lv in range(levels):
            around = np.where(self.fits[lv], around + self._tiles(charged, lv), -math.inf)
            around = charged.outwards(around)
            self.around.append(around)

    def _tiles(self, charged: Charged, lv: int) -> Floats:
        """What all tiles that a level keeps are charged at most, where each visit brings them anew; float64[S]."""
        charges, out = charged.charges, charged.output
        total = np.zeros(charged.nest.shape)
        if lv == 0:
            return total
        crossing, less = self._outside(charges, lv, out, charged.first)
        for t in np.flatnonzero(self.keep[lv]).tolist():
            total += charged.words[t] * (charged.fill(lv, t) + crossing[t] + (crossing[-1] if t == out else 0.0))
            total += charged.visits * charges.change[lv, t]
            if t == out:
                total -= less + charged.first * charges.fill[lv, out]
        return total

    def _outside(self, charges: Charges, lv: int, out: int, first: float) -> tuple[Floats, float]:
        """What a word that enters a tile at a level is charged outside, [T + 1], and what comes off."""
        crossing = np.append(charges.transfer[lv - 1], charges.transfer[lv - 1, out]) + self.rest[lv - 1]
        parent = max(p for p in range(lv) if self.keep[p, out])
        return crossing, first * float(charges.transfer[parent:lv, out].sum() + charges.read[parent, out])
