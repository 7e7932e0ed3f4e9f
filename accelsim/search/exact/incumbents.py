"""What a search is asked for, and mappings that were found: made, valued and put together.

Axis letters as in node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from accelsim.inputs.objective import LEAST_EDP, Objective
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import empty_batch
from accelsim.search.descent import Incumbent
from accelsim.search.exact.incumbents_kernel import FRONT, SURE, Goal, Incumbents
from accelsim.search.value_kernel import WORDS, terms_of


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
    concave = all(energy + cycles <= 1 or energy == cycles == 1 for _, energy, cycles, _ in objective.terms)
    return Goal(
        kind=np.array([kind], np.int64),
        terms=terms_of(objective),
        joint=np.array([concave or len(objective.terms) == 1]),
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
    """Enter what a part of a round found, best first, each mapping once."""
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
