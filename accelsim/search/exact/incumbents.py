"""What a search is asked for, and mappings that it has found: the best in order, or those that no other one beats.

Axis letters: L = levels (outermost first), D = dimensions, T = tensors, K = mappings that are kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from accelsim.inputs.objective import LEAST_EDP, Objective
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import Batch, empty_batch
from accelsim.model.jit import jit
from accelsim.model.records import Bools1, Floats1, Floats2, Ints1, record
from accelsim.search.descent import Incumbent
from accelsim.search.value_kernel import CAPACITY, CYCLES, ENERGY, WORDS, terms_of, value_of

SURE = 1e-11
"""Relative rounding that a comparison of bounds allows for."""
NEARLY = 0.1 * SURE
"""By which share a bound lies below what its sums say, for their rounding."""
BEST, WITHIN, FRONT, ANY = range(4)


@record
class Goal(NamedTuple):
    """What a search looks for.

    K = products of an objective.
    """

    kind: Ints1
    """int64[1]: BEST, WITHIN, FRONT, or ANY, which ends with the first mapping found."""
    terms: Floats2
    """float64[K, 6]: products of the objective, as `value_of` reads them."""
    columns: Ints1
    """int64[*]: columns in which mappings of a front are compared: ENERGY, CYCLES, WORDS, CAPACITY."""
    level: Ints1
    """int64[1]: level whose words held are the column CAPACITY."""
    limit: Floats1
    """float64[1]: largest value of the objective that is looked for."""
    energy_only: Bools1
    """bool[1]: whether cycles and off-chip words make no difference."""
    floor: Floats1
    """float64[2]: energy [pJ] and cycles that no mapping falls below."""


@record
class Incumbents(NamedTuple):
    """Mappings found, best first, and the tally of a search.

    K = mappings that there is room for.
    """

    many: Ints1
    """int64[1]: how many mappings are in the list."""
    value: Floats1
    """float64[K]: value of the objective, infinite after the last mapping."""
    column: Floats2
    """float64[K, 4]: energy [pJ], cycles, off-chip words, and words held at `Goal.level`."""
    best: Batch
    """Batch of K: the mappings."""
    tally: Ints1
    """int64[5]: nodes; mappings evaluated; mappings within the limit; mappings whose energy differs from the sum of
    their parts; and 1 if there was no room for a mapping of a front."""
    open: Floats1
    """float64[1]: least bound of the nodes that were left for later, infinite if there are none."""


@jit
def dominated(goal: Goal, found: Incumbents, column: Floats1) -> bool:
    """Whether a mapping found already is at least as good in every column of a front; column : float64[4]."""
    for i in range(found.many[0]):
        better = True
        for k in range(goal.columns.shape[0]):
            better &= found.column[i, goal.columns[k]] <= column[goal.columns[k]] * (1.0 + SURE)
        if better:
            return True
    return False


@jit
def enter(goal: Goal, found: Incumbents, mapping: Batch, column: Floats1) -> None:
    """Enter a valid mapping if it is wanted.

    Parameters
    ----------
    mapping : Batch of one
    column : float64[4]
        Energy, cycles, off-chip words, capacity.
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
def _drop_dominated(goal: Goal, found: Incumbents, column: Floats1) -> int:
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


def make_incumbents(space: MapSpace, room: int) -> Incumbents:
    """Room for so many mappings."""
    return Incumbents(
        many=np.zeros(1, np.int64),
        value=np.full(room, np.inf),
        column=np.zeros((room, 4)),
        best=empty_batch(space.encoded, room),
        tally=np.zeros(5, np.int64),
        open=np.full(1, np.inf),
    )


def found_by_walks(space: MapSpace, incumbents: Sequence[Incumbent]) -> Incumbents:
    """Enter what walks found, in the order given."""
    found = make_incumbents(space, max(1, len(incumbents)))
    for i, each in enumerate(incumbents):
        found.value[i], found.column[i] = each.value, each.column
        for target, array in zip(found.best, each.mapping, strict=True):
            target[i] = array[0]
    found.many[0] = len(incumbents)
    return found


def join(space: MapSpace, first: Incumbents, second: Incumbents, columns: tuple[int, ...], level: int) -> Incumbents:
    """Put together what two searches found, without what is dominated; of equal mappings those of the first stay."""
    goal = make_goal(FRONT, LEAST_EDP, columns, level)
    joined = make_incumbents(space, max(1, int(first.many[0] + second.many[0])))
    merge(goal, joined, first)
    merge(goal, joined, second)
    return joined


def make_goal(
    kind: int,
    objective: Objective,
    columns: tuple[int, ...],
    level: int,
    *,
    floor: tuple[float, float] = (0.0, 0.0),
    energy_only: bool = False,
) -> Goal:
    """What is asked for, without a limit yet; see `Goal`."""
    return Goal(
        kind=np.array([kind], np.int64),
        terms=terms_of(objective),
        columns=np.array(columns, np.int64),
        level=np.array([level], np.int64),
        limit=np.array([math.inf]),
        energy_only=np.array([energy_only]),
        floor=np.array(floor),
    )


def revalued(found: Incumbents, objective: Objective) -> Incumbents:
    """Mappings that a search found with what they are worth to another one, which counts its own work."""
    many = int(found.many[0])
    value = np.full(len(found.value), np.inf)
    value[:many] = [objective.value(*row) for row in found.column[:many, : WORDS + 1].tolist()]
    return found._replace(value=value, tally=np.zeros_like(found.tally), open=np.full(1, np.inf))


def merge(goal: Goal, total: Incumbents, part: Incumbents) -> None:
    """Enter what a piece of a wave found, best first, each mapping once."""
    rows = []
    for found in (total, part):
        for i in range(int(found.many[0])):
            key = tuple(array[i].tobytes() for array in found.best)
            rows.append((float(found.value[i]), key, found, i))
    seen: set[tuple[bytes, ...]] = set()
    chosen = []
    for at in sorted(range(len(rows)), key=lambda k: rows[k][0]):
        if rows[at][1] not in seen:
            seen.add(rows[at][1])
            chosen.append(at)
    if goal.kind[0] == FRONT:
        columns = goal.columns
        points = [rows[at][2].column[rows[at][3], columns] for at in chosen]
        kept: list[int] = []
        for i, mine in enumerate(points):
            more, less = mine * (1 + SURE), mine * (1 - SURE)  # equal but for rounding is no better
            others = (np.all(o <= more) and (np.any(o < less) or j < i) for j, o in enumerate(points) if j != i)
            if not any(others):
                kept.append(chosen[i])
        chosen = kept
    chosen = chosen[: len(total.value)]
    copies = [
        (rows[at][0], rows[at][2].column[rows[at][3]].copy(), [a[rows[at][3]].copy() for a in rows[at][2].best])
        for at in chosen
    ]
    for i, (value, column, arrays) in enumerate(copies):
        total.value[i], total.column[i] = value, column
        for target, array in zip(total.best, arrays, strict=True):
            target[i] = array
    total.many[0] = len(copies)
    total.tally[:4] += part.tally[:4]
    total.tally[4] |= part.tally[4]
    total.open[0] = min(total.open[0], part.open[0])
