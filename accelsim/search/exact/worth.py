"""Which states of the cost tables are worth filling, once a good mapping is known.

A state is a tile shape at a level with the level that each tensor comes from. If all mappings through it cost more than
the one that is known, the tables need not fill it; docs/papers/exact-mapper.md, Lemma 17. Axis letters as in `bounds`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from accelsim.inputs.objective import Objective
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import BY_READ, BY_RETURN, BY_TRANSFER, BY_UPDATE, BY_WRITE, Bools, Constants, Floats, Ints
from accelsim.search.exact.shapes import Grid, size_numbers
from accelsim.search.value_kernel import CYCLES, ENERGY

SLACK = 1e-9
"""Relative: mappings that are as good but for rounding are kept."""
ENDLESS = 1e30
"""Energy [pJ] and cycles that no mapping takes."""

Parents = tuple[int, ...]
"""For each tensor the level that it comes from; then whether that of the output lacks room for partial sums, and the
class of the words that storage nodes of a level hold."""
States = dict[tuple[str, int], dict[Parents, Bools]]
"""States that are worth filling, by kind of table and level: bool[B, S]; a missing one is not known."""


@dataclass(frozen=True, slots=True)
class Known:
    """What mappings are looked for: those whose objective is at most `value` and whose costs keep the limits.

    Attributes
    ----------
    objective : Objective
    value : float
        Of a mapping that is known; infinite if none is.
    most : float64[3]
        Most energy [pJ], cycles and off-chip words.
    busiest : str
        The level whose ports or network take it the most cycles, if it is known.
    """

    objective: Objective
    value: float
    most: Floats
    busiest: str = ""

    def most_energy(self, cycles: float) -> float:
        """Energy that a mapping of at least so many cycles may take [pJ]."""
        most = _most_energy(self.objective, self.value, cycles if self.objective.counts("cycles") else 0.0)
        return min(float(self.most[ENERGY]), most) * (1.0 + SLACK)

    def most_cycles(self, energy_pj: float) -> float:
        """Cycles that a mapping of at least so much energy may take."""
        most = _largest(lambda cycles: self.objective.value(energy_pj, cycles), self.value)
        return min(float(self.most[CYCLES]), most) * (1.0 + SLACK)


@lru_cache(maxsize=256)
def _most_energy(objective: Objective, value: float, cycles: float) -> float:
    return _largest(lambda energy: objective.value(energy, cycles), value)


def _largest(value_at: Callable[[float], float], most: float) -> float:
    """Largest argument of a growing function up to a value, to `SLACK`; infinite if there is no end to it."""
    low, high = 0.0, 1.0
    while high < ENDLESS and value_at(high) <= most:
        low, high = high, high * 16.0
    if high >= ENDLESS:
        return math.inf
    while high - low > 0.1 * SLACK * high and high > 1e-12:
        middle = math.sqrt(low * high) if low else 0.5 * high
        low, high = (middle, high) if value_at(middle) <= most else (low, middle)
    return high


@dataclass(frozen=True, slots=True)
class Worth:
    """What a mapping may cost in terms of a table.

    Attributes
    ----------
    most : callable
        From the least cycles of some mappings to what they may cost.
    certain : float
        What each mapping costs besides the traffic that the tables hold.
    needed : int64[T]
        Different words of each tensor that the multiply-accumulates ask for.
    states : States
        Those that are worth filling by other tables.
    """

    most: Callable[[float], float]
    certain: float
    needed: Ints
    states: States


def narrow_energies(c: Constants) -> Floats:
    """Energy of an element's actions without rounding accesses up, as narrow as it can be [pJ]: float64[L, T, 5]."""
    pj = c.energy.copy()
    pj[:, :, :BY_TRANSFER] *= (c.word_parts.min(axis=2) / c.block[:, None])[:, :, None]
    return pj


def first_energies(c: Constants) -> Floats:
    """As `narrow_energies`, without what words of the output cost that come back: as if each came once."""
    energies = narrow_energies(c).copy()
    energies[:, c.output[0], [BY_READ, BY_WRITE, BY_RETURN]] = 0.0
    return energies


def least_outside(grid: Grid, pj: Floats, needed: Ints) -> Floats:
    """Cost outside a boundary at least, by the level that each tensor comes from there: float64[L, T].

    Each word that is needed is read at the outermost level, crosses the networks down to the parent, and is written
    there; of the output each is written at the outermost level.
    """
    c = grid.space.encoded.constants
    found = np.zeros(pj.shape[:2])
    for level, t in np.ndindex(*found.shape):
        output = t == c.output[0]
        if level and not (output and c.already.any()):
            each = pj[0, t, BY_UPDATE] if output else pj[0, t, BY_READ] + pj[level, t, BY_WRITE]
            found[level, t] = float(needed[t]) * float(each + pj[:level, t, BY_TRANSFER].sum())
    return found


def least_inside(
    space: MapSpace, pj: Floats, needed: Ints, may_keep: Bools, least: Sequence[Sequence[float]]
) -> Floats:
    """Cost inside a boundary at least, by level and by the level that each tensor comes from: float64[L, L, T].

    Each word that is needed goes from the parent from level to level, to the last one that keeps the tensor, and past
    none that must keep it. There the compute units ask for a word each; each network on the way moves what those
    inside it leave of that at least.

    Parameters
    ----------
    may_keep : bool[L, T]
    least : list of list of float
        Least share of reads that the network of each level leaves of each tensor.
    """
    c, macs = space.encoded.constants, float(space.encoded.einsum.macs)
    levels, tensors = pj.shape[:2]
    found = np.zeros((levels, levels, tensors))
    each_pj, drain, already = pj.tolist(), c.drain.tolist(), bool(c.already.any())
    keep, may = space.keep.tolist(), may_keep.tolist()
    for t in range(tensors):
        output = t == c.output[0]
        action, words = (BY_UPDATE if output else BY_READ), float(needed[t])
        crossing_pj = [row[t][BY_TRANSFER] for row in each_pj]
        cost = [0.0] * levels  # of all accesses inside a level that keeps the tensor, and of its reads or updates
        for parent in range(levels - 1, -1, -1):
            shared = math.prod(least[at][t] for at in range(parent, levels))
            asked = max(macs * shared, words) * each_pj[parent][t][action]
            for at in range(parent, levels):  # networks on the way, each after those inside it have shared
                crossing = macs * math.prod(least[inside][t] for inside in range(at + 1, levels))
                asked += max(crossing, words) * crossing_pj[at]
            ways = [asked]
            for level in range(levels - 1, parent - 1, -1):
                found[level, parent, t] = min(ways)
                if level == parent or not may[level][t]:
                    continue
                each = each_pj[parent][t][action] + sum(crossing_pj[parent:level])
                if output:
                    each = 0.0 if already else each + each_pj[level][t][BY_READ] * drain[level]
                else:
                    each += each_pj[level][t][BY_WRITE]
                ways = [words * each + cost[level], *([] if keep[level][t] else ways)]
            cost[parent] = float(found[parent, parent, t])
    return found


def innermost_loops(grid: Grid) -> list[tuple[frozenset[int], Bools]]:
    """What the innermost temporal loop outside a tile may be: the tensors that it moves, and for which shapes.

    No loop at all moves nothing; this is looked at for the whole shape alone, because others cost no less.
    """
    c, shapes = grid.space.encoded.constants, grid.shapes
    digits = size_numbers(shapes)
    split = digits < shapes.sizes[:, None] - 1
    whole = np.asarray(~split.any(axis=0))
    found: dict[frozenset[int], Bools] = {frozenset(): whole}
    for d in range(len(split)):
        moved = frozenset(np.flatnonzero(c.relevant[:, d]).tolist())
        found[moved] = found.get(moved, np.zeros(shapes.total, np.bool_)) | split[d]
    return list(found.items())


def moved_words(grid: Grid, level: int) -> Floats:
    """Words into all tiles of a shape at a level at least, if the innermost loop outside moves them: float64[T, S].

    Half of the smallest part of a window that a step can bring in is below what any sequence of loops costs.
    """
    c, shapes = grid.space.encoded.constants, grid.shapes
    digits = size_numbers(shapes)
    size = np.take_along_axis(shapes.size, digits, axis=1).astype(np.float64)
    found = shapes.words.copy()
    moving = np.ones(found.shape)
    for d in np.flatnonzero(shapes.ragged).tolist() if level else ():
        share = 1.0 - shapes.resting[level - 1, d].max(axis=1)[digits[d]]
        for t in np.flatnonzero(c.relevant[:, d]).tolist():
            moving[t] = moving[t] * share if c.windowed[t] else np.minimum(moving[t], share)
    found *= moving
    for t in np.flatnonzero(c.windowed).tolist():
        least = np.ones(shapes.total)
        for rank in {int(r) for r in c.rank[t][c.relevant[t]]}:
            inside = np.flatnonzero(c.relevant[t] & (c.rank[t] == rank))
            steps = c.factor[t, inside][:, None]
            extent = 1.0 + (steps * (size[inside] - 1.0)).sum(axis=0)
            least = np.minimum(least, (steps * size[inside] / extent).min(axis=0))
        found[t] *= 0.5 * least
    return found


def entering_cost(
    grid: Grid, pj: Floats, needed: Ints, may_keep: Bools, least: list[list[float]], level: int, t: int, words: Floats
) -> Floats:
    """Cost at least of words that enter a level, from the outer level that gives them at the least cost: float64[*].

    Parameters
    ----------
    may_keep, least
        As for `least_inside`.
    words : float64[*]
        Of the tensor, into all instances.
    """
    output = t == grid.space.encoded.constants.output[0]
    action = BY_UPDATE if output else BY_READ
    found = np.full(np.shape(words), math.inf)
    for parent in range(level):
        if parent and not may_keep[parent, t]:
            continue
        share = math.prod(least[at][t] for at in range(parent, level))
        first = 0.0 if parent == 0 else float(pj[0, t, action]) + (0.0 if output else float(pj[parent, t, BY_WRITE]))
        found = np.minimum(found, words * share * pj[parent, t, action] + needed[t] * first)
    if output and grid.space.encoded.constants.already.any():
        return np.zeros(np.shape(words))
    return np.asarray(found + (0.0 if output else words * pj[level, t, BY_WRITE]))
