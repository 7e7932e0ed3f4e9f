"""Mappings that a search has found: the best in order, or those that no other one beats; compiled.

Axis letters: L = levels (outermost first), D = dimensions, T = tensors, K = mappings that are kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.model.encode import Batch, Bools, Floats, Ints
from accelsim.model.jit import jit
from accelsim.search.value_kernel import CAPACITY, CYCLES, ENERGY, WORDS, value_of

SURE = 1e-11
"""Relative rounding that a comparison of bounds allows for."""
BEST, WITHIN, FRONT, ANY = range(4)


class Goal(NamedTuple):
    """What is asked for.

    kind : int64[1], BEST, WITHIN, FRONT, or ANY, which ends with the first mapping found; terms : float64[K, 6], the
    objective as `value_of` reads it; joint : bool[1], along a line on which energy falls as cycles grow it is least at
    an end; columns : int64[*], of a front; level : int64[1], whose capacity counts; limit : float64[1], nothing above
    is looked for; energy_only : bool[1], cycles and outer words do not matter; floor : float64[2], energy and cycles
    that no mapping falls below.
    """

    kind: Ints
    terms: Floats
    joint: Bools
    columns: Ints
    level: Ints
    limit: Floats
    energy_only: Bools
    floor: Floats


class Incumbents(NamedTuple):
    """Mappings found, best first, and the tally of a search.

    many : int64[1]; value : float64[K]; column : float64[K, 4], energy, cycles, outer words, capacity; best : Batch of
    K; tally : int64[5], nodes, mappings evaluated, mappings within the limit, mappings whose energy differed from the
    sum of its parts, 1 if there was no room for more; open : float64[1], least bound of what was left for later.
    """

    many: Ints
    value: Floats
    column: Floats
    best: Batch
    tally: Ints
    open: Floats


@jit
def dominated(goal: Goal, found: Incumbents, column: Floats) -> bool:
    """Whether a mapping found already is at least as good in every column of a front; column : float64[4]."""
    for i in range(found.many[0]):
        better = True
        for k in range(goal.columns.shape[0]):
            better &= found.column[i, goal.columns[k]] <= column[goal.columns[k]] * (1.0 + SURE)
        if better:
            return True
    return False


@jit
def all_dominated(goal: Goal, found: Incumbents, energy: float, cycles: float, total: float, price: float) -> bool:
    """Whether mappings found beat every energy and cycles of at least so much, and energy + price * cycles of `total`.

    For a front of energy and cycles. From the fewest cycles on: the mapping of least energy that is fast enough beats
    all up to the cycles at which as little energy is possible.
    """
    if goal.columns.shape[0] != 2 or goal.columns[0] + goal.columns[1] != ENERGY + CYCLES:
        return False
    while True:
        least, next_least = max(energy, total - price * cycles) * (1.0 + SURE), np.inf
        for i in range(found.many[0]):
            if found.column[i, CYCLES] <= cycles * (1.0 + SURE):
                next_least = min(next_least, found.column[i, ENERGY])
        if next_least > least:
            return False
        if next_least <= energy:
            return True
        further = (total - next_least) / price
        if further <= cycles:
            return False
        cycles = further


@jit
def enter(goal: Goal, found: Incumbents, mapping: Batch, column: Floats) -> None:
    """Enter a valid mapping if it is wanted.

    Parameters
    ----------
    mapping : Batch of one
    column : float64[4]
        Energy, cycles, outer words, capacity.
    """
    room, at = found.value.shape[0], found.many[0]
    value = value_of(goal.terms, column[ENERGY], column[CYCLES], column[WORDS], column[CAPACITY])
    if goal.kind[0] == FRONT:
        if dominated(goal, found, column):
            return
        at = _drop_dominated(goal, found, column)
        if at == room:
            found.tally[4] = 1
            return
    else:
        if value > goal.limit[0] * (1.0 + SURE):
            found.open[0] = min(found.open[0], value)
            return
        if goal.kind[0] == BEST and room > 1 and _known(found, mapping, value):
            return
        found.tally[2] += 1
        if at == room:
            if value >= found.value[room - 1]:
                return
            at = room - 1
        while at > 0 and found.value[at - 1] > value:
            if at < room:
                _copy(found, at - 1, at)
            at -= 1
    found.value[at] = value
    for k in range(column.shape[0]):
        found.column[at, k] = column[k]
    _write(mapping, 0, found.best, at)
    found.many[0] = min(room, found.many[0] + 1)


@jit
def _known(found: Incumbents, mapping: Batch, value: float) -> bool:
    """Whether a mapping stands in the list already: two orders that were looked at may be one."""
    known = False
    for i in range(found.many[0]):
        known |= found.value[i] == value and _same(found.best, i, mapping)
    return known


@jit
def _same(best: Batch, i: int, mapping: Batch) -> bool:
    for lv in range(best.order.shape[1]):
        for d in range(best.order.shape[2]):
            if best.temporal[i, lv, d] != mapping.temporal[0, lv, d] or best.order[i, lv, d] != mapping.order[0, lv, d]:
                return False
            if best.x[i, lv, d] != mapping.x[0, lv, d] or best.y[i, lv, d] != mapping.y[0, lv, d]:
                return False
        for t in range(best.keep.shape[2]):
            if best.keep[i, lv, t] != mapping.keep[0, lv, t]:
                return False
    return True


@jit
def _drop_dominated(goal: Goal, found: Incumbents, column: Floats) -> int:
    """Drop what a mapping is at least as good as in every column; returns how many are left."""
    left = 0
    for i in range(found.many[0]):
        worse = True
        for k in range(goal.columns.shape[0]):
            worse &= found.column[i, goal.columns[k]] >= column[goal.columns[k]]
        if not worse:
            _copy(found, i, left)
            left += 1
    found.many[0] = left
    return left


@jit
def _write(source: Batch, i: int, target: Batch, j: int) -> None:
    for lv in range(source.order.shape[1]):
        for d in range(source.order.shape[2]):
            target.temporal[j, lv, d], target.order[j, lv, d] = source.temporal[i, lv, d], source.order[i, lv, d]
            target.x[j, lv, d], target.y[j, lv, d] = source.x[i, lv, d], source.y[i, lv, d]
        for t in range(source.keep.shape[2]):
            target.keep[j, lv, t] = source.keep[i, lv, t]


@jit
def _copy(found: Incumbents, i: int, j: int) -> None:
    if i == j:
        return
    found.value[j] = found.value[i]
    for k in range(4):
        found.column[j, k] = found.column[i, k]
    _write(found.best, i, found.best, j)
