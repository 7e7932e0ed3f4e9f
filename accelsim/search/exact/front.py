"""Pareto fronts of a map space: every mapping that no other one beats, with proof."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Sequence

import numpy as np

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError, NoValidMapping, TablesTooLarge
from accelsim.inputs.objective import FASTEST, LEAST_EDP, LEAST_ENERGY
from accelsim.inputs.units import listed
from accelsim.inputs.workload import Einsum
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import Floats, encode
from accelsim.model.result import Result
from accelsim.search.descent import FIRST_WALKS, Descent
from accelsim.search.exact.incumbents import found_by_walks, join, make_incumbents
from accelsim.search.exact.incumbents_kernel import FRONT, Incumbents
from accelsim.search.exact.mapper import LAST_WALKS, Watch, none_valid, refuse_mismatch, result_of, why_none
from accelsim.search.exact.ready import get_ready
from accelsim.search.exact.solve import Outcome, Solver
from accelsim.search.result import FrontResult, column_value
from accelsim.search.stopping import asked
from accelsim.search.strategy import Budget, OnProgress
from accelsim.search.value_kernel import CAPACITY, CYCLES, ENERGY, WORDS, terms_of

POINTS = 10_000
"""Room for points of a front."""
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def parse_column(text: str, architecture: Architecture) -> tuple[int, int]:
    """Read a column of a front: what it is, and the level whose capacity counts.

    Raises
    ------
    AccelsimError
        If the text names none.
    """
    names = {"energy": ENERGY, "cycles": CYCLES, "outer_words": WORDS}
    if text in names:
        return names[text], 0
    levels = [level.name for level in architecture.levels]
    what, _, level = text.partition(":")
    if what == "capacity" and level in levels:
        return CAPACITY, levels.index(level)
    raise AccelsimError(
        f"'{text}' is no column of a front; write energy, cycles, outer_words or capacity:LEVEL ({listed(levels)})"
    )


def _undominated(
    rows: list[tuple[tuple[float, ...], Result]],
) -> tuple[tuple[tuple[float, ...], ...], tuple[Result, ...]]:
    """Values and mappings of the points that no other one beats; parts of a word told more of them apart."""
    rows = sorted(rows, key=lambda row: row[0])
    values = np.array([row[0] for row in rows])
    kept = [i for i in range(len(rows)) if not (values[:i] <= values[i]).all(axis=1).any()]
    return tuple(rows[i][0] for i in kept), tuple(rows[i][1] for i in kept)


def map_front(
    architecture: Architecture,
    einsum: Einsum,
    columns: tuple[str, ...] = ("energy", "cycles"),
    *,
    constraints: Constraints | None = None,
    budget: Budget | None = None,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> FrontResult:
    """Find every mapping that no other one beats, one for each combination of values.

    Parameters
    ----------
    architecture : Architecture
    einsum : Einsum
    columns : tuple of str
        Two or three of `energy`, `cycles`, `outer_words` (storage words read, filled and updated at the outermost
        level) and `capacity:LEVEL` (storage words held at a level); the smaller the better.
    constraints, budget, workers, on_progress
        As for `accelsim.map_einsum`; the budget is in seconds.

    Returns
    -------
    FrontResult

    Raises
    ------
    NoValidMapping
        If no mapping is valid.
    AccelsimError
        If the columns are not two or three different ones.
    """
    _parse_columns(columns, architecture)
    space = MapSpace(encode(architecture, einsum), constraints)
    return front_of(space, columns, budget=budget, workers=workers or os.cpu_count() or 1, on_progress=on_progress)


def _parse_columns(columns: Sequence[str], architecture: Architecture) -> list[tuple[int, int]]:
    parsed = [parse_column(text, architecture) for text in columns]
    if not 2 <= len(columns) <= 3 or len({kind for kind, _ in parsed}) < len(columns):
        raise AccelsimError("a front has two or three different columns, and the capacity of at most one level")
    return parsed


def front_of(
    space: MapSpace,
    columns: tuple[str, ...] = ("energy", "cycles"),
    *,
    budget: Budget | None,
    workers: int,
    on_progress: OnProgress | None,
    explain: bool = True,
) -> FrontResult:
    """Find every mapping of a map space that no other one beats; see `map_front`.

    `explain`: say what makes mappings invalid where none is valid.
    """
    parsed = _parse_columns(columns, space.encoded.architecture)
    get_ready(space.encoded, space.imperfect)
    watch = Watch(None, budget or Budget(), on_progress, time.monotonic())
    kinds = tuple(kind for kind, _ in parsed)
    level = max(level for _, level in parsed)
    walks = _FrontWalks(space, kinds, level, workers, watch)
    try:
        solver = Solver(
            space, cycles=True, words=WORDS in kinds, workers=workers, deadline=watch.deadline,
            memory=watch.budget.memory_bytes,
        )  # fmt: skip
        outcome, stop = _front(solver, kinds, level, watch, walks)
    except (TimeoutError, TablesTooLarge) as why:
        outcome, stop = None, "memory" if isinstance(why, TablesTooLarge) else "timeout"
    found = make_incumbents(space, 1) if outcome is None else outcome.found
    if outcome is not None:
        refuse_mismatch(outcome)
    if stop != "exhausted":
        found = join(space, found, walks.found if stop == "interrupted" else walks.go_on(), kinds, level)
    if not found.many[0] and stop == "interrupted":
        raise KeyboardInterrupt
    if not found.many[0]:
        nodes, seconds = (0, 0.0) if outcome is None else (outcome.nodes, outcome.seconds)
        reason = none_valid(stop, nodes, seconds, space.size)
        reasons = [reason, *(why_none(stop, space, watch.end) if explain else ())]
        raise NoValidMapping("\n".join(reasons), proved=stop == "exhausted")
    each = [result_of(space, found.best, i, found.column[i]) for i in range(int(found.many[0]))]
    values, points = _undominated([(tuple(column_value(one, column) for column in columns), one) for one in each])
    return FrontResult(
        columns=columns,
        points=points,
        values=values,
        stop=stop,
        space_size=space.size,
        nodes=0 if outcome is None else outcome.nodes,
        evaluated=0 if outcome is None else outcome.leaves,
        table_bytes=0 if outcome is None else outcome.table_bytes,
        seconds=time.monotonic() - watch.started,
        limits=space.constraints.on_costs,
    )


class _FrontWalks:
    """Walks to mappings of a front: to the ends of each column and in between.

    Parameters
    ----------
    kinds : tuple of int
        Columns of the front.
    level : int
        Whose capacity counts.
    """

    def __init__(self, space: MapSpace, kinds: tuple[int, ...], level: int, workers: int, watch: Watch) -> None:
        self.space, self.kinds, self.level, self.workers, self.watch = space, kinds, level, workers, watch
        self.found = make_incumbents(space, 1)
        self.ends = {goal: self.descent(terms_of(goal)) for goal in (LEAST_ENERGY, LEAST_EDP, FASTEST)}
        # whatever the time: there shall be an answer, for each that is asked for the best of a front
        self.least = {goal: self.go(descent, None) for goal, descent in self.ends.items()}

    def descent(self, terms: Floats) -> Descent:
        """Walks to the least of an objective."""
        return Descent(self.space, terms, held_level=self.level, workers=self.workers)

    def go(self, descent: Descent, deadline: float | None) -> float:
        """Take some walks; returns the best value, infinite if they find nothing."""
        best = descent.go(FIRST_WALKS, deadline)
        if best is None:
            return math.inf
        self.found = join(self.space, self.found, found_by_walks(self.space, [best]), self.kinds, self.level)
        return best.value

    def go_on(self) -> Incumbents:
        """Walk on until the time is used up: to the ends, and with other weights of the columns each time.

        The weights go by steps of the golden ratio.
        """
        ends = itertools.cycle(self.ends.values())
        for number in itertools.count(1):
            end = self.watch.end
            if asked() or (time.monotonic() >= end if end is not None else number > LAST_WALKS):
                return self.found
            terms = np.array([[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
            for at, kind in enumerate(self.kinds):
                terms[0, 1 + kind] = number * (GOLDEN + at / len(self.kinds)) % 1.0
            self.go(self.descent(terms), end)
            self.go(next(ends), end)
        raise AssertionError("numbers do not end")


def _front(solver: Solver, kinds: tuple[int, ...], level: int, watch: Watch, walks: _FrontWalks) -> tuple[Outcome, str]:
    """Search a front from its ends and its least EDP; also says what stopped it, `exhausted` if nothing did."""
    seeds, floor = None, [0.0, 0.0]
    for objective, limit in walks.least.items():
        seeded = solver.search(
            objective=objective, limit=limit, level=level, deadline=watch.deadline,
            seeds=seeds if objective is FASTEST else None, on_poll=watch.tell,
        )  # fmt: skip
        seeds = seeded.found if seeds is None else join(solver.space, seeds, seeded.found, kinds, level)
        if seeded.stop != "exhausted" or not seeded.found.many[0]:
            break
        if objective is not LEAST_EDP:
            floor[objective is FASTEST] = min(seeded.bound, float(seeded.found.value[0])) * (1.0 - 1e-11)
    outcome = solver.search(
        kind=FRONT, room=POINTS, columns=kinds, level=level, floor=(floor[0], floor[1]), seeds=seeds,
        deadline=watch.deadline, on_poll=watch.tell,
    )  # fmt: skip
    return outcome, seeded.stop if seeded.stop != "exhausted" else outcome.stop
