"""Exact mapping of one Einsum: the best mappings, all within a share of the best, Pareto fronts; with certificates."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from accelsim.architecture import Architecture
from accelsim.constraints import Constraints
from accelsim.errors import AccelsimError, NoValidMapping
from accelsim.mapping import Loop, Mapping
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import decode_mapping, encode
from accelsim.model.evaluate import evaluate, evaluate_encoded
from accelsim.model.kernel import BY_READ, BY_UPDATE
from accelsim.nodes import fold
from accelsim.result import Result
from accelsim.search.diagnose import diagnose
from accelsim.search.exact.found_kernel import CAPACITY, CYCLES, ENERGY, FRONT, SURE, WITHIN, WORDS, Found
from accelsim.search.exact.ready import get_ready
from accelsim.search.exact.solve import Outcome, Solver
from accelsim.search.result import Certificate, FrontResult, SearchResult
from accelsim.search.strategy import Budget, Objective, OnProgress, Progress
from accelsim.units import listed
from accelsim.workload import Einsum

LISTED = 1000
"""Mappings within a share of the best that are listed unless more are asked for."""
POINTS = 10_000
"""Room for points of a front."""
EDP, FASTEST = (1.0, 1.0), (0.0, 1.0)
MOST_NODES = 1_000_000
"""Partial mappings that are looked at for one that no other can be faster than, before all are; about a second."""
ROOMS = (16, 128, 1024)
"""Mappings with remainders that are evaluated exactly, those that cost least at least, until one is proved best."""


@dataclass(slots=True)
class _Watch:
    """Tells how a search goes."""

    goal: Objective | None
    budget: Budget
    on_progress: OnProgress | None
    started: float

    @property
    def deadline(self) -> float | None:
        """When the search is to end."""
        return None if self.budget.seconds is None else self.started + self.budget.seconds

    def tell(self, found: Found, bound: float) -> None:
        """Report the best value so far, and the bound."""
        if self.on_progress is None:
            return
        any_found = bool(found.many[0]) and self.goal is not None
        self.on_progress(
            Progress(
                seen=int(found.tally[0]),
                valid=int(found.tally[1]),
                best=float(found.value[0]) if any_found else None,
                best_energy_pj=float(found.column[0, ENERGY]) if any_found else None,
                total=None,
                seconds=time.monotonic() - self.started,
                seconds_limit=self.budget.seconds,
                bound=bound if math.isfinite(bound) else None,
            )
        )


def map_exactly(
    spaces: Sequence[MapSpace],
    goal: Objective,
    *,
    top: int = 1,
    within: float | None = None,
    budget: Budget | None,
    workers: int,
    on_progress: OnProgress | None,
    padded: tuple[str, ...] = (),
    explain: bool = True,
) -> SearchResult:
    """Find the best mappings of a map space, or the best one of several spaces; see `accelsim.map_einsum`.

    `top` and `within` list mappings of the one space that there is then; `padded` says which bounds the spaces try;
    `explain`: say what makes mappings invalid where none is valid.
    """
    get_ready(spaces[0].encoded, spaces[0].imperfect)
    watch = _Watch(goal, budget or Budget(), on_progress, time.monotonic())
    aim = _Aim((goal.energy, goal.cycles), workers, watch)
    solved = _widest(spaces, aim) or _best_of([*_perfect(spaces[:1]), *spaces], aim)
    if solved.best is None and solved.stop == "interrupted":
        raise KeyboardInterrupt
    if solved.best is None:
        raise NoValidMapping("\n".join([_none_valid(solved, spaces), *(_why(spaces[0]) if explain else ())]))
    certificate = solved.certificate
    best, stop = solved.best, solved.stop
    if certificate.proved and goal.energy == 0.0 and solved.solver is not None:  # of the fastest that of least energy
        best = _best_of(spaces, _Aim((1.0, 0.0), workers, watch, best), solved.solver).best or best
    ranked: tuple[Result, ...] = (best,)
    counted = None
    if (top > 1 or within is not None) and stop == "exhausted":
        more = Solver(spaces[0], cycles=goal.cycles > 0, every=True, workers=workers)
        room = top if top > 1 else LISTED
        if within is None:
            found = more.search(power=aim.power, room=room, deadline=watch.deadline, on_poll=watch.tell)
        else:
            found = more.search(
                kind=WITHIN, power=aim.power, room=room, limit=certificate.value * (1.0 + within),
                deadline=watch.deadline, on_poll=watch.tell,
            )  # fmt: skip
            counted = (within, int(found.found.tally[2]))
        stop = found.stop
        _refuse_mismatch(found)
        ranked = tuple(_result(spaces[0], found.found, i) for i in range(int(found.found.many[0]))) or ranked
    return SearchResult(
        best=ranked[0],
        objective=goal.name,
        method="exact",
        stop=stop,
        seed=0,
        space_size=sum(space.size for space in spaces),
        seconds=time.monotonic() - watch.started,
        certificate=certificate,
        ranked=ranked,
        within=counted,
        uneven=any(level.tensors is not None for level in spaces[-1].encoded.architecture.levels),
        imperfect=tuple(sorted(spaces[0].imperfect)),
        padded=padded,
    )


@dataclass(frozen=True, slots=True)
class _Aim:
    """What is looked for: the least energy^a * cycles^b; with `fastest`, of the mappings that are as fast."""

    power: tuple[float, float]
    workers: int
    watch: _Watch
    fastest: Result | None = None


@dataclass(slots=True)
class _Solved:
    """What the searches of some spaces found and proved together."""

    best: Result | None = None
    value: float = math.inf
    bound: float = math.inf
    nodes: int = 0
    leaves: int = 0
    table_bytes: int = 0
    stop: str = "exhausted"
    seconds: float = 0.0
    solver: Solver | None = None

    def add(self, outcome: Outcome) -> None:
        """Add up the work of a search."""
        self.nodes += outcome.nodes
        self.leaves += outcome.leaves
        self.table_bytes = max(self.table_bytes, outcome.table_bytes)
        self.stop, self.seconds = outcome.stop, self.seconds + outcome.seconds

    @property
    def certificate(self) -> Certificate:
        """What is proved about the best mapping."""
        if self.bound >= self.value * (1 - SURE):
            return Certificate(self.value, self.value, self.nodes, self.leaves, self.table_bytes)
        return Certificate(self.value, min(self.bound, self.value), self.nodes, self.leaves, self.table_bytes)


def _best_of(spaces: Sequence[MapSpace], aim: _Aim, solver: Solver | None = None) -> _Solved:
    """Find the best mapping of some spaces; each is searched for what is better than the best of those before.

    `solver` is that of the last space, if it was searched before.
    """
    solved = _Solved() if aim.fastest is None else _Solved(aim.fastest, aim.fastest.energy_pj)
    for space in spaces:
        floor = _floor(space, aim.power)
        if solved.stop != "exhausted" or floor >= solved.value:
            solved.bound = min(solved.bound, floor)
            continue
        try:
            if solver is None or solver.space is not space:
                deadline = (
                    None if solved.best is None else aim.watch.deadline
                )  # the first search has an answer, however late
                solver = Solver(space, cycles=aim.power[1] > 0, workers=aim.workers, deadline=deadline)
            if aim.fastest is not None:
                solver.limit_cycles(aim.fastest.cycles)
            seek = _seek_remainders if space.imperfect else _seek
            seek(space, solver, aim, solved)
        except (KeyboardInterrupt, TimeoutError) as why:
            if solved.best is None:
                raise
            solved.stop = "timeout" if isinstance(why, TimeoutError) else "interrupted"
            solved.bound = min(solved.bound, floor)
    solved.solver = solver
    return solved


def _widest(spaces: Sequence[MapSpace], aim: _Aim) -> _Solved | None:
    """Of all mappings with the fewest cycles the one of least energy, if using most compute units makes them so few.

    None where another number is looked for, where it takes more cycles, or a second does not tell.
    """
    if aim.power[0] > 0.0 or len(spaces) > 1 or spaces[0].imperfect:
        return None
    solver = Solver(spaces[0], widest=True, workers=aim.workers)
    solver.limit_cycles(min(solver.least_cycles, spaces[0].most_cycles))
    outcome = solver.search(most_nodes=MOST_NODES)  # whatever the time: without it a first answer comes later still
    _refuse_mismatch(outcome)
    if outcome.stop == "interrupted" and not outcome.found.many[0]:
        raise KeyboardInterrupt
    if outcome.stop == "nodes" or not outcome.found.many[0]:
        return None
    solved = _Solved(_result(spaces[0], outcome.found, 0))
    solved.add(outcome)
    solved.value = solved.bound = float(solver.least_cycles)
    return solved


def _perfect(spaces: Sequence[MapSpace]) -> list[MapSpace]:
    """The part of spaces that leaves no remainders: quickly searched, for a good mapping to start from."""
    found = []
    for space in spaces:
        if space.imperfect:
            with suppress(NoValidMapping):
                found.append(MapSpace(space.encoded, space.constraints))
    return found


def _seek(space: MapSpace, solver: Solver, aim: _Aim, solved: _Solved) -> None:
    """Look in one space for what is better than the best so far."""
    watch, seeds = aim.watch, None
    if aim.power[0] == 0.0 and solved.best is None:  # by cycles alone most mappings are equal, and any is a long search
        guess = solver.search(power=EDP, deadline=watch.deadline, on_poll=watch.tell)
        _refuse_mismatch(guess)
        solved.add(guess)
        seeds = guess.found
    outcome = solver.search(
        power=aim.power, limit=solved.value, deadline=watch.deadline, seeds=seeds, on_poll=watch.tell
    )
    _refuse_mismatch(outcome)
    if outcome.found.many[0] and outcome.found.value[0] < solved.value:
        solved.best, solved.value = _result(space, outcome.found, 0), float(outcome.found.value[0])
    solved.bound = min(solved.bound, outcome.bound)
    solved.add(outcome)


def _seek_remainders(space: MapSpace, solver: Solver, aim: _Aim, solved: _Solved) -> None:
    """As `_seek`: list mappings by what they cost at least, and evaluate them until no other one can be better."""
    goal, watch = Objective("", *aim.power), aim.watch
    most_cycles = space.most_cycles if aim.fastest is None else min(space.most_cycles, aim.fastest.cycles)
    for room in ROOMS:
        outcome = solver.search(
            power=aim.power, room=room, limit=solved.value, deadline=watch.deadline, on_poll=watch.tell
        )
        solved.add(outcome)
        for i in range(int(outcome.found.many[0])):
            result = _evaluate(space, outcome.found, i)
            value = goal.value(result.energy_pj, result.cycles)
            if value < float(outcome.found.value[i]) * (1 - 1e-9):
                raise RuntimeError(f"a mapping costs {value!r}, less than the {outcome.found.value[i]!r} it must")
            broken = space.constraints.broken_by(result.mapping)
            if broken:
                raise RuntimeError(f"search found a mapping that breaks the constraints: {broken}")
            if result.valid and value < solved.value and result.cycles <= most_cycles:
                solved.best, solved.value = result, value
        if outcome.stop != "exhausted" or outcome.bound >= solved.value * (1 - SURE):
            break
    solved.bound = min(solved.bound, outcome.bound)


def _floor(space: MapSpace, power: tuple[float, float]) -> float:
    """Value that no mapping falls below: each multiply-accumulate takes place and asks for its words; all units busy.

    The words come from the innermost level that keeps them always, or from further in, and all instances below may
    share one read.
    """
    c, machine = space.encoded.constants, space.encoded.architecture
    each = float(c.mac[0])
    for t in range(len(c.whole)):
        first = int(np.flatnonzero(space.keep[:, t]).max())
        action = BY_UPDATE if t == c.output[0] else BY_READ
        below = np.array([machine.macs / machine.instances(level) for level in range(first, len(machine.levels))])
        parts = c.word_parts[first:, t].min(axis=1) / c.block[first:]
        may = [level == first or (level, t) in space.free_keeps for level in range(first, len(machine.levels))]
        each += float((c.energy[first:, t, action] * parts / below)[may].min())
    macs = space.encoded.einsum.macs
    cycles = macs * int(c.mac_cycles[0]) / machine.macs
    return float((macs * each) ** power[0] * cycles ** power[1]) * (1 - SURE)


def _refuse_mismatch(outcome: Outcome) -> None:
    if outcome.mismatches:
        raise RuntimeError(f"{outcome.mismatches} mappings cost something else than the sum of their parts")


def _mapping(space: MapSpace, found: Found, i: int) -> Mapping:
    """A mapping that was found, in its simplest form."""
    mapping = fold(decode_mapping(space.encoded, found.best, i))
    loops = [loop for level in mapping.levels for loop in (*level.temporal, *level.x, *level.y)]
    bounds = space.encoded.einsum.dims
    more = (d for d in bounds if math.prod(loop.bound for loop in loops if loop.dim == d) > bounds[d])
    real = space.encoded.einsum.unpadded or bounds
    padded = tuple(Loop(dim, bound) for dim, bound in bounds.items() if bound > real[dim])
    return replace(mapping, imperfect=frozenset(more), padded=padded)


def _evaluate(space: MapSpace, found: Found, i: int) -> Result:
    """Evaluate a mapping that was found with the cost model."""
    mapping, machine = _mapping(space, found, i), space.encoded.architecture
    if len(mapping.levels) == len(machine.levels):
        return evaluate_encoded(space.encoded, mapping)
    return evaluate(machine, space.encoded.einsum, mapping)


def _result(space: MapSpace, found: Found, i: int) -> Result:
    """As `_evaluate`; what the search itself reckoned must be the same, else the error is ours."""
    result = _evaluate(space, found, i)
    broken = [*map(str, result.violations), *space.constraints.broken_by(result.mapping)]
    energy, cycles = float(found.column[i, ENERGY]), int(found.column[i, CYCLES])
    if broken or cycles != result.cycles or not math.isclose(energy, result.energy_pj, rel_tol=1e-12):
        raise RuntimeError(
            f"search found {energy!r} pJ, {cycles} cycles; evaluation gives {result.energy_pj!r} pJ, {result.cycles} "
            f"cycles: {broken}"
        )
    return result


def _none_valid(outcome: Outcome | _Solved, spaces: Sequence[MapSpace]) -> str:
    if outcome.stop == "exhausted":
        size = sum(space.size for space in spaces)
        return f"none of the {size:.3g} mappings of the map space is valid (proved: {outcome.nodes} nodes)"
    return f"no valid mapping found in {outcome.seconds:.3g} s; give it more time"


def _why(space: MapSpace) -> list[str]:
    """What makes mappings invalid; the nearest miss is one without remainders."""
    try:
        space = MapSpace(space.encoded, space.constraints) if space.imperfect else space
    except NoValidMapping as error:
        return [str(error)]
    return diagnose(space, np.uint64(np.random.SeedSequence(0).generate_state(1, np.uint64)[0]))


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


def _values(space: MapSpace, found: Found, i: int, columns: Sequence[tuple[int, int]]) -> tuple[float, ...]:
    """Columns of a point of a front; words of a level are storage words, in parts of which the kernel counts."""
    units = space.encoded.units_per_word
    each = {WORDS: units[0], CAPACITY: units[max(level for _, level in columns)]}
    return tuple(float(found.column[i, kind]) / each.get(kind, 1) for kind, _ in columns)


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
    watch = _Watch(None, budget or Budget(), on_progress, time.monotonic())
    kinds = tuple(kind for kind, _ in parsed)
    level = max(level for _, level in parsed)
    try:
        solver = Solver(space, cycles=True, workers=workers, deadline=watch.deadline)
    except TimeoutError:  # one mapping is found all the same
        lean = Solver(space, cycles=False, workers=workers)
        outcome, stopped = lean.search(power=(1.0, 0.0), level=level, deadline=watch.deadline), "timeout"
    else:
        outcome, stopped = _front(solver, kinds, level, watch)
    found = outcome.found
    _refuse_mismatch(outcome)
    if not found.many[0] and outcome.stop == "interrupted":
        raise KeyboardInterrupt
    if not found.many[0]:
        raise NoValidMapping("\n".join([_none_valid(outcome, [space]), *(_why(space) if explain else ())]))
    rows = sorted(range(int(found.many[0])), key=lambda i: tuple(found.column[i, list(kinds)]))
    return FrontResult(
        columns=columns,
        points=tuple(_result(space, found, i) for i in rows),
        values=tuple(_values(space, found, i, parsed) for i in rows),
        stop=stopped or outcome.stop,
        space_size=space.size,
        nodes=outcome.nodes,
        evaluated=outcome.leaves,
        table_bytes=outcome.table_bytes,
        seconds=time.monotonic() - watch.started,
    )


def _front(solver: Solver, kinds: tuple[int, ...], level: int, watch: _Watch) -> tuple[Outcome, str]:
    """Search a front from its ends and its least EDP; also says what stopped that, if anything did."""
    seeds, floor = None, [0.0, 0.0]
    for power in ((1.0, 0.0), EDP, FASTEST):
        start = seeds if power == FASTEST else None  # see `_seek`
        seeded = solver.search(power=power, level=level, deadline=watch.deadline, seeds=start, on_poll=watch.tell)
        seeds = seeded.found if seeds is None else solver.join(seeds, seeded.found, kinds, level)
        if seeded.stop != "exhausted" or not seeded.found.many[0]:
            break
        if power != EDP:
            floor[power == FASTEST] = min(seeded.bound, float(seeded.found.value[0])) * (1.0 - 1e-11)
    outcome = solver.search(
        kind=FRONT, room=POINTS, columns=kinds, level=level, floor=(floor[0], floor[1]), seeds=seeds,
        deadline=watch.deadline, on_poll=watch.tell,
    )  # fmt: skip
    return outcome, seeded.stop if seeded.stop != "exhausted" else ""
