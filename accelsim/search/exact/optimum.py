"""The best mapping of some map spaces: walks to good ones, then branch and bound, which proves it."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from accelsim.inputs.errors import NoValidMappingError, TablesTooLarge, TooManyChoices
from accelsim.inputs.mapping import Loop, Mapping
from accelsim.inputs.nodes import fold
from accelsim.inputs.objective import LEAST_ENERGY, Objective, costs_of
from accelsim.mapspace.merging import split
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import Batch, Floats, decode_mapping
from accelsim.model.evaluate import evaluate, evaluate_encoded
from accelsim.model.result import Result
from accelsim.search.descent import FIRST_WALKS, Descent, first_steps
from accelsim.search.exact.aim import Aim, Solved
from accelsim.search.exact.bounds import MOST_BYTES
from accelsim.search.exact.cost_tables import least_cycles, needed_words
from accelsim.search.exact.incumbents import NEARLY, SURE, make_incumbents
from accelsim.search.exact.shapes import fewest_steps, make_grid, quick_enough
from accelsim.search.exact.solve import Outcome, Solver
from accelsim.search.exact.worth import Known, least_inside, narrow_energies
from accelsim.search.spaces import Spaces, out_of_reach, rounded_spaces, trim
from accelsim.search.stopping import asked
from accelsim.search.value_kernel import CYCLES, ENERGY, terms_of

MOST_NODES = 1_000_000
"""Partial mappings that are looked at for one that no other can be faster than, before all are; about a second."""
LAST_WALKS = 8
"""After a search that ran out of memory, how often `FIRST_WALKS` more walks are taken."""
WALKS, ROUNDINGS = 2, 6
"""Where walks alone look for mappings, how many there are in a space, and ways to round bounds up."""
ROOMS = (16, 128, 1024)
"""Mappings with remainders that are evaluated exactly, those that cost least at least, until one is proved best."""
ALL = 8192
"""All of them are, where a space has so few: a millisecond or two each."""


def best_of(spaces: Spaces, aim: Aim, solver: Solver | None = None, solved: Solved | None = None) -> Solved:
    """Find the best mapping of some spaces; each is searched for what is better than the best of those before.

    Of remainders the part that leaves none comes first. `solver` is that of the last space, if it was searched before;
    `solved`: what was found in others.
    """
    perfect = _perfect(spaces.first) if aim.known is None and solved is None else []
    if solved is None:
        solved = Solved() if aim.known is None else Solved(aim.known, aim.known.energy_pj)
    for number, space in enumerate(itertools.chain(perfect, spaces), -len(perfect)):
        if solved.stop != "exhausted":
            solved.bound = min(solved.bound, *(floor_of(each, aim.objective) for each in spaces[max(number, 0) :]))
            break
        floor = solved.proved = floor_of(space, aim.objective)
        if floor >= solved.value * (1 - SURE):
            solved.bound = min(solved.bound, floor)
            continue
        try:
            if number == -len(perfect) and not space.imperfect:  # others start from what was found
                # whatever the time: there shall be an answer
                walk_in(space, space, aim, solved, None if solved.best is None else aim.watch.end)
                if asked():
                    raise KeyboardInterrupt
            elif spaces.uneven and space.uneven and not space.imperfect and aim.known is None:
                walk_in(space, space, aim, solved, aim.watch.end)
            if number == 0 and space.imperfect and aim.known is None:
                for rounded in itertools.islice(rounded_spaces(space), ROUNDINGS if aim.walks_alone else None):
                    walk_in(rounded, space, aim, solved, aim.watch.end)
            if floor >= solved.value * (1 - SURE):  # a walk found what nothing falls below
                solved.bound = min(solved.bound, floor)
                continue
            if solver is None or solver.space is not space:
                if solved.best is not None and aim.watch.deadline is not None and time.monotonic() > aim.watch.deadline:
                    raise TimeoutError  # walks need the rest of the time
                solver = None
            seek = _seek_remainders if space.imperfect else _seek
            solver = seek(space, solver, aim, solved)
        except (KeyboardInterrupt, TimeoutError, TooManyChoices) as why:
            too_large = isinstance(why, TooManyChoices)
            fewer = too_large and space.imperfect and aim.fewer
            if fewer or (solved.best is None and not isinstance(why, TimeoutError)):
                raise
            solved.stop = "memory" if too_large else "timeout" if isinstance(why, TimeoutError) else "interrupted"
            solved.bound = min(solved.bound, solved.proved)
    solved.solver = solver
    return solved


def walk_in(space: MapSpace, target: MapSpace, aim: Aim, solved: Solved, deadline: float | None) -> None:
    """Begin walks in a space without remainders; what they find is a mapping of the target."""
    descent = Descent(space, terms_of(aim.objective), most=aim.most, workers=aim.workers, steps=first_steps(space))
    solved.descents.append((descent, target))
    walk_on(descent, target, aim, solved, deadline)


def walk_on(descent: Descent, target: MapSpace, aim: Aim, solved: Solved, deadline: float | None) -> None:
    """Take some walks, and keep the best mapping found if it is better than the best so far."""
    found = descent.go(WALKS if aim.walks_alone else FIRST_WALKS, deadline)
    if found is None or (descent.space is target and found.value >= solved.value):
        return
    if descent.space is target:
        best, value = result_of(target, found.mapping, 0, found.column), found.value
    else:  # cut down to the bounds of the target
        wider = decode_mapping(descent.space.encoded, found.mapping, 0)
        mapping = _named(target, trim(wider, dict(target.encoded.einsum.dims)))
        best = _result(target, mapping)
        value = aim.objective.of(best)
        broken = target.constraints.broken_by(mapping, target.encoded.einsum)
        if not best.valid or broken or value >= solved.value or not aim.allows(best):
            return
    solved.walked, solved.best, solved.value = True, best, value
    if descent.space is target:
        aim.watch.known = (solved.value, best.energy_pj) if aim.known is None else None
        aim.watch.tell(make_incumbents(target, 1), 0.0)


def walk_longer(spaces: Iterable[MapSpace], aim: Aim, solved: Solved) -> None:
    """Walk through all spaces in turn until the time is used up; where it is not limited, some more times."""
    end = aim.watch.end
    begun = {_place(descent.space, target) for descent, target in solved.descents}
    pairs = (
        (each, space)
        for space in spaces  # walks find mappings of it in spaces without remainders
        for each in ((*_perfect(space), *rounded_spaces(space)) if space.imperfect else (space,))
    )
    rest = (pair for pair in pairs if _place(*pair) not in begun)
    for number in itertools.count():
        if asked() or (time.monotonic() >= end if end is not None else number >= LAST_WALKS):
            solved.stop = "interrupted" if asked() else solved.stop
            return
        if (pair := next(rest, None)) is not None:
            walk_in(*pair, aim, solved, end)
        elif solved.descents:
            walk_on(*solved.descents[number % len(solved.descents)], aim, solved, end)
        else:
            return


def _place(space: MapSpace, target: MapSpace) -> tuple[tuple[int, ...], int, bool]:
    """What tells walks apart."""
    return tuple(space.encoded.einsum.dims.values()), len(space.encoded.architecture.levels), bool(target.imperfect)


def widest(spaces: Spaces, aim: Aim) -> Solved | None:
    """Of all mappings with the fewest cycles the one of least energy, if using most compute units makes them so few.

    None where another number is looked for, where it takes more cycles, or a second does not tell.
    """
    space = spaces.first
    levels = space.encoded.architecture.levels
    slower = any(level.dma is not None or level.overlap != "all" for level in levels)
    if aim.objective.alone != "cycles" or len(spaces) > 1 or space.imperfect or slower or out_of_reach(space):
        return None
    deadline = aim.watch.deadline
    try:
        most = aim.most.copy()
        grid = make_grid(space, aim.watch.budget.memory_bytes or MOST_BYTES)
        least_cycles = fewest_steps(grid)
        grid = quick_enough(grid, least_cycles)
        most[CYCLES] = min(least_cycles, most[CYCLES])
        walks = Descent(space, terms_of(LEAST_ENERGY), most=most, workers=aim.workers, steps=first_steps(space))
        walked = walks.go(FIRST_WALKS, deadline)
        limit = math.inf if walked is None else walked.value
        known = Known(LEAST_ENERGY, limit, most)
        solver = Solver(
            space, grid=grid, known=known, workers=aim.workers, deadline=deadline, memory=aim.watch.budget.memory_bytes
        )
    except (TimeoutError, TablesTooLarge):
        return None
    solver.limit(most)
    outcome = solver.search(limit=limit, most_nodes=MOST_NODES, deadline=deadline)
    refuse_mismatch(outcome)
    if outcome.stop == "interrupted" and not outcome.found.many[0]:
        raise KeyboardInterrupt
    if outcome.stop in ("nodes", "timeout") or not outcome.found.many[0]:
        return None
    solved = Solved(result_of(space, outcome.found.best, 0, outcome.found.column[0]))
    solved.add(outcome)
    solved.value = solved.bound = aim.objective.value(0.0, least_cycles)
    solved.least_energy = True
    return solved


def _perfect(space: MapSpace) -> list[MapSpace]:
    """The part of a space with remainders that leaves none: quickly searched, for a good mapping to start from."""
    if space.imperfect:
        with suppress(NoValidMappingError):
            return [MapSpace(space.encoded, space.constraints)]
    return []


def _seek(space: MapSpace, solver: Solver | None, aim: Aim, solved: Solved) -> Solver:
    """Look in one space for what is better than the best so far, or as good if a walk found that.

    So of equal mappings the search chooses, whatever the walks came across. Cycles are whole numbers, and of the
    fastest mappings the least energy chooses later: it looks for one cycle less.
    """
    watch, limit = aim.watch, solved.value
    if solved.best is not None and aim.objective.alone == "cycles":
        limit = aim.objective.value(0.0, solved.best.cycles - 1)
    solver = solver or aim.solver(space, limit, watch.deadline, best=solved.best)
    solver.limit(aim.most)
    outcome = solver.search(
        objective=aim.objective, limit=limit, floor=least_costs(space), deadline=watch.deadline,
        most_nodes=aim.most_nodes, on_poll=watch.tell,
    )  # fmt: skip
    refuse_mismatch(outcome)
    found, value = outcome.found, float(outcome.found.value[0])
    if found.many[0] and (value < solved.value or (solved.walked and value <= solved.value * (1 + SURE))):
        solved.best, solved.value = result_of(space, found.best, 0, found.column[0]), value
    solved.walked = False
    solved.add(outcome)
    solved.proved = max(solved.proved, outcome.bound)
    solved.bound = min(solved.bound, solved.proved)
    return solver


def _seek_remainders(space: MapSpace, solver: Solver | None, aim: Aim, solved: Solved) -> Solver:
    """As `_seek`: list mappings by what they cost at least, and evaluate them until no other one can be better."""
    goal, watch = aim.objective, aim.watch
    solver = solver or aim.solver(space, solved.value, watch.deadline, best=solved.best)
    solver.limit(aim.most)
    many = space.quick_size
    for room in (*ROOMS, *([many] if many is not None and ROOMS[-1] < many <= ALL else [])):
        outcome = solver.search(
            objective=goal, room=room, limit=solved.value, deadline=watch.deadline, most_nodes=aim.most_nodes,
            on_poll=watch.tell,
        )  # fmt: skip
        solved.add(outcome)
        for i in range(int(outcome.found.many[0])):
            if solved.best is not None and watch.end is not None and time.monotonic() > watch.end:
                solved.stop, outcome.bound = "timeout", min(outcome.bound, float(outcome.found.value[i]))
                break
            result = _evaluate(space, outcome.found.best, i)
            value = goal.of(result)
            if value < float(outcome.found.value[i]) * (1 - 1e-9):
                raise RuntimeError(f"a mapping costs {value!r}, less than the {outcome.found.value[i]!r} it must")
            broken = space.constraints.broken_by(result.mapping, space.encoded.einsum)
            if broken:
                raise RuntimeError(f"search found a mapping that breaks the constraints: {broken}")
            limit = solved.value * (1 + SURE * solved.walked)  # see `_seek`
            if result.valid and (value < solved.value or value <= limit) and aim.allows(result):
                solved.best, solved.value, solved.walked = result, value, False
        if solved.stop != "exhausted" or outcome.bound >= solved.value * (1 - SURE):
            break
    solved.bound = min(solved.bound, outcome.bound)
    return solver


@lru_cache(maxsize=4)
def least_costs(space: MapSpace) -> tuple[float, float]:
    """Energy [pJ] and cycles that no mapping falls below: words move once where they must, and all units are busy."""
    c = space.encoded.constants
    macs, needed = space.encoded.einsum.macs, needed_words(space)
    least = [[1.0 / (fanout[0] * fanout[1])] * len(needed) for fanout in c.fanout.tolist()]
    moved = least_inside(space, narrow_energies(c), needed, space.may_keep, least)[0, 0].sum()
    cycles = math.ceil(least_cycles(space, needed) * (1 - NEARLY))
    return (macs * float(c.mac[0]) + float(moved)) * (1 - NEARLY), cycles


def floor_of(space: MapSpace, objective: Objective) -> float:
    """Value that no mapping falls below; infinite where each breaks the same limit."""
    if not space.uneven and out_of_reach(space):
        return math.inf
    return objective.value(*least_costs(space)) * (1 - NEARLY)


def refuse_mismatch(outcome: Outcome) -> None:
    """Raise if a mapping that a search looked at cost something else than the sum of its parts."""
    if outcome.mismatches:
        raise RuntimeError(f"{outcome.mismatches} mappings cost something else than the sum of their parts")


def _mapping(space: MapSpace, batch: Batch, i: int) -> Mapping:
    """A mapping that was found, in its simplest form."""
    return _named(space.origin, split(space, decode_mapping(space.encoded, batch, i)))


def _named(space: MapSpace, mapping: Mapping) -> Mapping:
    """A mapping of a space in its simplest form, with what of it may leave remainders, and what is padded."""
    mapping, bounds = fold(mapping), space.encoded.einsum.dims
    loops = [loop for level in mapping.levels for loop in (*level.temporal, *level.x, *level.y)]
    more = (d for d in bounds if math.prod(loop.bound for loop in loops if loop.dim == d) > bounds[d])
    real = space.encoded.einsum.unpadded or bounds
    padded = tuple(Loop(dim, bound) for dim, bound in bounds.items() if bound > real[dim])
    return replace(mapping, imperfect=frozenset(more), padded=padded)


def _result(space: MapSpace, mapping: Mapping) -> Result:
    """Evaluate a mapping in its simplest form with the cost model."""
    machine = space.encoded.architecture
    if len(mapping.levels) == len(machine.levels):
        return evaluate_encoded(space.encoded, mapping)
    return evaluate(machine, space.encoded.einsum, mapping)


def _evaluate(space: MapSpace, batch: Batch, i: int) -> Result:
    """Evaluate a mapping that was found with the cost model."""
    return _result(space.origin, _mapping(space, batch, i))


def result_of(space: MapSpace, batch: Batch, i: int, column: Floats | tuple[float, ...]) -> Result:
    """As `_evaluate`; the energy and cycles of the search itself must be the same, else the error is ours."""
    result, space = _evaluate(space, batch, i), space.origin
    broken = [*map(str, result.violations), *space.constraints.broken_by(result.mapping, space.encoded.einsum)]
    broken += space.constraints.broken_by_costs(costs_of(result), result.ideal_cycles)
    energy, cycles = float(column[ENERGY]), int(column[CYCLES])
    if broken or cycles != result.cycles or not math.isclose(energy, result.energy_pj, rel_tol=1e-12):
        raise RuntimeError(
            f"search found {energy!r} pJ, {cycles} cycles; evaluation gives {result.energy_pj!r} pJ, {result.cycles} "
            f"cycles: {broken}"
        )
    return result
