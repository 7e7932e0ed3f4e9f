"""Pareto fronts of a map space: every mapping that no other one beats, with proof."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError, NoValidMappingError, TablesTooLarge
from accelsim.inputs.objective import FASTEST, LEAST_EDP, LEAST_ENERGY, QUANTITIES, Objective
from accelsim.inputs.units import listed
from accelsim.inputs.workload import Einsum, padded_einsums, read_padding
from accelsim.mapspace.merging import merged
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import Floats
from accelsim.model.evaluate import refuse_uneven_remainders
from accelsim.model.result import Result
from accelsim.search.descent import FIRST_WALKS, Descent, first_steps
from accelsim.search.exact.aim import Aim, Solved, Watch
from accelsim.search.exact.bounds import MOST_BYTES
from accelsim.search.exact.incumbents import FRONT, SURE, Incumbents, found_by_walks, join, make_incumbents
from accelsim.search.exact.mapper import get_ready, none_valid, why_none
from accelsim.search.exact.optimum import LAST_WALKS, best_of, least_costs, refuse_mismatch, result_of, widest
from accelsim.search.exact.shapes import fewest_steps, make_grid
from accelsim.search.exact.solve import Outcome, Solver
from accelsim.search.exact.worth import Known
from accelsim.search.mapper import map_einsum, tried_bounds, with_remainders
from accelsim.search.result import FrontResult, SearchResult, column_value
from accelsim.search.spaces import Spaces, out_of_reach
from accelsim.search.stopping import Budget, OnProgress, asked
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
    names = {"energy": ENERGY, "cycles": CYCLES, "offchip_words": WORDS}
    if text in names:
        return names[text], 0
    levels = [level.name for level in architecture.levels]
    what, _, level = text.partition(":")
    if what == "capacity" and level in levels:
        return CAPACITY, levels.index(level)
    raise AccelsimError(
        f"'{text}' is no column of a front; write energy, cycles, offchip_words or capacity:LEVEL ({listed(levels)})"
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
    uneven: bool | None = False,
    imperfect: str | Sequence[str] = (),
    pad: str | Sequence[str] = (),
    budget: Budget | None = None,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> FrontResult:
    """Find every mapping that no other one beats, one for each combination of values; see `accelsim.pareto`.

    By default of `accelsim.pareto` (`imperfect` is `auto`, or `uneven` None) the front is that of even mappings with
    perfect factors (`uneven`: of uneven ones, too), with those that `map_einsum` finds for each column in the wider
    space.

    With remainders a front has two columns and no capacity, and is found point by point: of the mappings with less of
    the second column than the last point the one that is least in the first. Raises NoValidMappingError, AccelsimError
    as `map_einsum`.
    """
    _parse_columns(columns, architecture)
    cores, bounds, started = workers or os.cpu_count() or 1, read_padding(einsum, pad), time.monotonic()

    if imperfect == "auto" or uneven is None:
        wider = partial(
            map_einsum, architecture, einsum, constraints=constraints, uneven=uneven, imperfect=imperfect,
            workers=cores, on_progress=on_progress,
        )  # fmt: skip
        part = partial(
            map_front, architecture, einsum, columns, constraints=constraints, uneven=bool(uneven), workers=cores,
            on_progress=on_progress,
        )  # fmt: skip
        return _with_ends(part, wider, [column for column in columns if column in QUANTITIES], columns, budget)

    def search(ragged: frozenset[str], _: bool) -> FrontResult:
        spaces = Spaces(architecture, [*padded_einsums(einsum, bounds)], constraints, ragged, uneven=uneven)
        spent = time.monotonic() - started
        left = budget and replace(budget, seconds=budget.seconds and max(1e-3, budget.seconds - spent))
        find = _front_by_points if ragged else _front_of_spaces
        found = find(spaces, columns, budget=left, workers=cores, on_progress=on_progress)
        return replace(found, uneven=uneven, imperfect=tuple(sorted(ragged)), padded=tried_bounds(bounds))

    if imperfect and uneven:
        refuse_uneven_remainders(architecture.levels)
    if imperfect:
        others = [column for column in columns if column not in QUANTITIES]
        if others or len(columns) > 2:
            what = listed(others) if others else "three columns"
            raise AccelsimError(f"a front with remainders has two of {listed(QUANTITIES)}, not {what}")
    return with_remainders(einsum, imperfect, search)


def _with_ends(
    front: Callable[..., FrontResult],
    best: Callable[..., SearchResult],
    objectives: Sequence[str],
    columns: Sequence[str],
    budget: Budget | None,
) -> FrontResult:
    """A front of a part of the space with the best mappings of the whole space for some objectives."""
    limit, begin = None if budget is None else budget.seconds, time.monotonic()

    def share(parts: int) -> Budget | None:
        left = None if limit is None else max(1e-3, (begin + limit - time.monotonic()) / parts)
        return budget and replace(budget, seconds=left)

    found, wrong = None, None
    try:
        found = front(budget=share(2))
    except NoValidMappingError as error:
        wrong = error
    ends = list[SearchResult]()
    interrupted = found is not None and found.stop == "interrupted"
    for number, objective in enumerate(objectives):
        if not interrupted:
            try:
                ends.append(best(objective=objective, budget=share(len(objectives) - number)))
                interrupted = ends[-1].stop == "interrupted"
            except NoValidMappingError:
                continue
            except KeyboardInterrupt:
                if found is None and not ends:
                    raise
                interrupted = True
    if found is None and not ends:
        assert wrong is not None
        raise wrong
    points = [each.best for each in ends] + ([] if found is None else [*found.points])
    rows = [(tuple(column_value(point, column) for column in columns), point) for point in reversed(points)]
    values, kept = _undominated(rows)
    first = found or FrontResult(tuple(columns), (), (), "effort", None, 0, 0, 0, 0.0)
    return replace(
        first, points=kept, values=values, stop="interrupted" if interrupted else first.stop,
        seconds=time.monotonic() - begin, ends=tuple(replace(each, ranked=()) for each in ends),
    )  # fmt: skip


def _front_of_spaces(
    spaces: Spaces, columns: tuple[str, ...], *, budget: Budget | None, workers: int, on_progress: OnProgress | None
) -> FrontResult:
    """The front of some spaces together, each searched in its share of the time that is left."""
    found: list[FrontResult] = []
    begin, wrong = time.monotonic(), list[NoValidMappingError]()
    for number, space in enumerate(spaces):
        share = budget
        if budget is not None and budget.seconds is not None:
            left = begin + budget.seconds - time.monotonic()
            share = replace(budget, seconds=max(1e-3, left / (len(spaces) - number)))
        try:
            explain = not space.uneven  # of the reasons, those of even mappings are given
            found.append(
                front_of(space, columns, budget=share, workers=workers, on_progress=on_progress, explain=explain)
            )
        except NoValidMappingError as error:
            wrong.append(error)
    if not found:
        raise next((error for error in wrong if not error.proved), wrong[0])
    rows = [row for front in found for row in zip(front.values, front.points, strict=True)]
    values, points = _undominated(rows)
    unsure = [front.stop for front in found if front.stop != "exhausted"]
    unsure += ["timeout" for error in wrong if not error.proved]
    return replace(
        found[0],
        values=values,
        points=points,
        stop=(unsure or ["exhausted"])[0],
        space_size=spaces.size,
        nodes=sum(front.nodes for front in found),
        evaluated=sum(front.evaluated for front in found),
        table_bytes=max(front.table_bytes for front in found),
        seconds=time.monotonic() - begin,
    )


def _front_by_points(
    spaces: Spaces, columns: tuple[str, ...], *, budget: Budget | None, workers: int, on_progress: OnProgress | None
) -> FrontResult:
    """The front of two columns, point by point, each proved by a search within limits.

    The first column is looked for first if the second is a whole number, else the other way round.
    """
    space = spaces.first
    get_ready()
    watch = Watch(None, budget or Budget(), on_progress, time.monotonic())
    first, second = columns if columns[1] != "energy" else columns[::-1]
    most, rows, searches = space.most, list[tuple[tuple[float, ...], Result]](), list[Solved]()
    with suppress(KeyboardInterrupt):
        while not rows or searches[-1].stop == "exhausted":
            best, limits = None, most.copy()
            for column in (first, second):  # the least of the first, and of these mappings the least of the second
                searches.append(best_of(spaces, Aim(Objective.parse(column), limits, workers, watch, fewer=True)))
                best = searches[-1].best or best
                if best is None or searches[-1].stop != "exhausted":
                    break
                limits[QUANTITIES.index(column)] = column_value(best, column) * (1.0 + SURE * (column == "energy"))
            if best is None:
                break
            rows.append((tuple(column_value(best, column) for column in columns), best))
            most[QUANTITIES.index(second)] = column_value(best, second) - 1
    stop = "interrupted" if asked() else "exhausted"
    stop = next((each.stop for each in searches if each.stop != "exhausted"), stop)
    if stop == "exhausted" and not all(each.best is None or each.certificate.proved for each in searches):
        stop = "remainders"
    if not rows:
        if stop == "interrupted":
            raise KeyboardInterrupt
        nodes, seconds = searches[0].nodes, time.monotonic() - watch.started
        reasons = [none_valid(stop, nodes, seconds, spaces.size), *why_none(stop, space, watch.end)]
        raise NoValidMappingError("\n".join(reasons), proved=stop == "exhausted")
    values, points = _undominated(rows)
    return FrontResult(
        columns=columns,
        points=points,
        values=values,
        stop=stop,
        space_size=spaces.size,
        nodes=sum(each.nodes for each in searches),
        evaluated=sum(each.leaves for each in searches),
        table_bytes=max(each.table_bytes for each in searches),
        seconds=time.monotonic() - watch.started,
        limits=space.constraints.on_costs,
    )


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
    get_ready()
    watch = Watch(None, budget or Budget(), on_progress, time.monotonic())
    if not space.uneven and out_of_reach(space):
        reasons = [none_valid("exhausted", 0, 0.0, space.quick_size), *why_none("exhausted", space, watch.end)]
        raise NoValidMappingError("\n".join(reasons), proved=True)
    kinds = tuple(kind for kind, _ in parsed)
    level = max(level for _, level in parsed)
    space = merged(space)
    ends = _ends(space, workers, watch) if set(kinds) == {ENERGY, CYCLES} and watch.end is None else None
    walks = None if ends else _FrontWalks(space, kinds, level, workers, watch)
    try:
        solver = Solver(
            space, cycles=True, words=WORDS in kinds, known=ends.known if ends else None, workers=workers,
            deadline=watch.deadline, memory=watch.budget.memory_bytes,
        )  # fmt: skip
        if ends is not None:
            solver.limit(ends.known.most)
            outcome = solver.search(kind=FRONT, room=POINTS, columns=kinds, floor=ends.floor, on_poll=watch.tell)
            stop = outcome.stop
        else:
            assert walks is not None
            outcome, stop = _front(solver, kinds, level, watch, walks)
    except (TimeoutError, TablesTooLarge) as why:
        outcome, stop = None, "memory" if isinstance(why, TablesTooLarge) else "timeout"
    found = make_incumbents(space, 1) if outcome is None else outcome.found
    if outcome is not None:
        refuse_mismatch(outcome)
    if stop != "exhausted":
        walks = walks or _FrontWalks(space, kinds, level, workers, watch)
        found = join(space, found, walks.found if stop == "interrupted" else walks.go_on(), kinds, level)
    if not found.many[0] and stop == "interrupted":
        raise KeyboardInterrupt
    if not found.many[0]:
        nodes, seconds = (0, 0.0) if outcome is None else (outcome.nodes, outcome.seconds)
        reason = none_valid(stop, nodes, seconds, space.origin.quick_size)
        reasons = [reason, *(why_none(stop, space.origin, watch.end) if explain else ())]
        raise NoValidMappingError("\n".join(reasons), proved=stop == "exhausted")
    each = [result_of(space, found.best, i, found.column[i]) for i in range(int(found.many[0]))]
    values, points = _undominated([(tuple(column_value(one, column) for column in columns), one) for one in each])
    return FrontResult(
        columns=columns,
        points=points,
        values=values,
        stop=stop,
        space_size=space.origin.quick_size,
        nodes=0 if outcome is None else outcome.nodes,
        evaluated=0 if outcome is None else outcome.leaves,
        table_bytes=0 if outcome is None else outcome.table_bytes,
        seconds=time.monotonic() - watch.started,
        limits=space.constraints.on_costs,
    )


@dataclass(frozen=True, slots=True)
class _Ends:
    """What is known of a front of energy and cycles: no point costs more than `known`, or less than `floor`."""

    known: Known
    floor: tuple[float, float]


def _ends(space: MapSpace, workers: int, watch: Watch) -> _Ends | None:
    """What a mapping says that none can be faster than, where a walk finds one; else both ends, if they are proved."""
    most, (least_energy, cycles) = space.most, least_costs(space)
    try:
        grid = make_grid(space, watch.budget.memory_bytes or MOST_BYTES)
    except TablesTooLarge:
        return None
    most[CYCLES] = min(most[CYCLES], max(fewest_steps(grid), math.ceil(cycles)))
    descent = Descent(space, terms_of(LEAST_ENERGY), most=most, workers=workers, steps=first_steps(space))
    walked = descent.go(FIRST_WALKS)
    if walked is not None and not asked():  # it beats all that takes more energy
        most[CYCLES], most[ENERGY] = space.most[CYCLES], walked.column[ENERGY] * (1.0 + SURE)
        return _Ends(Known(LEAST_ENERGY, math.inf, most), (least_energy, walked.column[CYCLES] * (1.0 - SURE)))
    spaces = Spaces.of(space)
    frugal = best_of(spaces, Aim(LEAST_ENERGY, space.most, workers, watch))
    if frugal.best is None or not frugal.certificate.proved or asked():
        return None
    aim = Aim(FASTEST, space.most, workers, watch)
    fast = widest(spaces, aim) or best_of(spaces, aim)
    if fast.best is None or not fast.certificate.proved or asked():
        return None
    most = space.most
    most[ENERGY] = min(most[ENERGY], max(fast.best.energy_pj, frugal.best.energy_pj) * (1.0 + SURE))
    most[CYCLES] = min(most[CYCLES], frugal.best.cycles)
    return _Ends(Known(LEAST_ENERGY, math.inf, most), (frugal.value * (1.0 - SURE), fast.best.cycles * (1.0 - SURE)))


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
        steps = first_steps(self.space)
        return Descent(self.space, terms, held_level=self.level, workers=self.workers, steps=steps)

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
            floor[objective is FASTEST] = min(seeded.bound, float(seeded.found.value[0])) * (1.0 - SURE)
    outcome = solver.search(
        kind=FRONT, room=POINTS, columns=kinds, level=level, floor=(floor[0], floor[1]), seeds=seeds,
        deadline=watch.deadline, on_poll=watch.tell,
    )  # fmt: skip
    return outcome, seeded.stop if seeded.stop != "exhausted" else outcome.stop
