"""Exact mapping of one Einsum: the best mappings, and all within a share of the best; with certificates."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

import numpy as np

from accelsim.inputs.errors import NoValidMappingError, TablesTooLarge, TooManyChoices
from accelsim.inputs.mapping import Loop, Mapping
from accelsim.inputs.nodes import fold
from accelsim.inputs.objective import LEAST_ENERGY, QUANTITIES, Objective, costs_of
from accelsim.mapspace.merging import split
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import Batch, Floats, decode_mapping
from accelsim.model.evaluate import evaluate, evaluate_encoded
from accelsim.model.jit import prepare
from accelsim.model.result import Result
from accelsim.search.descent import FIRST_WALKS, Descent, first_steps
from accelsim.search.descent_kernel import walk
from accelsim.search.exact.aim import Aim, Solved, Watch
from accelsim.search.exact.blocks import sweep_block
from accelsim.search.exact.bounds import MOST_BYTES
from accelsim.search.exact.branch_kernel import explore, root_bounds
from accelsim.search.exact.cost_tables import least_cycles, needed_words
from accelsim.search.exact.incumbents import NEARLY, SURE, WITHIN, make_incumbents
from accelsim.search.exact.network_kernel import sweep_network
from accelsim.search.exact.shapes import fewest_steps, make_grid, quick_enough
from accelsim.search.exact.solve import Outcome, Solver
from accelsim.search.exact.splits_kernel import pick_splits
from accelsim.search.exact.tables_kernel import lay_apart, lay_beside, lay_shapes, look_inside, turn
from accelsim.search.exact.worth import Known, least_inside, narrow_energies
from accelsim.search.result import MOST_TIES, SearchResult
from accelsim.search.spaces import Spaces, diagnose, none_is_valid, out_of_reach, rounded_spaces, trim
from accelsim.search.stopping import Budget, OnProgress, asked
from accelsim.search.value_kernel import CYCLES, ENERGY, terms_of

MOST_NODES = 1_000_000
"""Partial mappings that are looked at for one that no other can be faster than, before all are; about a second."""
FOR_EQUALS = 16_000_000
"""Partial mappings of a space that are looked at for one of less energy among equally good ones; some seconds."""
LAST_WALKS = 8
"""After a search that ran out of memory, how often `FIRST_WALKS` more walks are taken."""
LEAST_SECONDS = 10.0
"""How long the least cost within limits is looked for, where no mapping keeps them all."""
FURTHER_NODES, FURTHER_TIMED, FURTHER_BYTES = 40_000_000, 12_000_000, 3 << 29
"""Where neither the time is limited nor uneven mappings are asked for: partial uneven mappings that are looked at after
the proof about even ones, fewer where cycles count, since each takes longer then; and bytes of tables. Each takes some
seconds."""
ROOMS = (16, 128, 1024)
"""Mappings with remainders that are evaluated exactly, those that cost least at least, until one is proved best."""
ALL = 8192
"""All of them are, where a space has so few: a millisecond or two each."""


def map_exactly(
    spaces: Spaces,
    goal: Objective,
    *,
    top: int = 1,
    within: float | None = None,
    budget: Budget | None,
    workers: int,
    on_progress: OnProgress | None,
    padded: tuple[str, ...] = (),
    explain: bool = True,
    started: float | None = None,
    fewer: bool = False,
    further: bool = False,
) -> SearchResult:
    """Find the best mappings of a map space, or the best one of several spaces; see `accelsim.map_einsum`.

    `top` and `within` list mappings of the one space that there is then; `padded` says which bounds the spaces try;
    `explain`: say what makes mappings invalid where none is valid; `started`: since when the budget runs, by
    `time.monotonic`; `fewer`: raise TooManyChoices where too many dimensions may leave remainders; `further`: after
    the proof about the even mappings of the one space, look at its uneven ones.
    """
    first = spaces.first
    get_ready()
    watch = Watch(goal, budget or Budget(), on_progress, started or time.monotonic())
    aim = Aim(goal, first.most, workers, watch, fewer=fewer)
    searched = spaces.merged()
    solved = widest(searched, aim) or best_of(searched, aim)
    if solved.stop in ("timeout", "memory"):
        _walk_on(searched, aim, solved)
    if further and (solved.best is not None or solved.stop == "exhausted"):
        solved, aim = _look_further(first, aim, solved)
        if solved.further is not None:
            spaces, searched = solved.further, solved.further.merged()
    if solved.best is None and solved.stop == "interrupted":
        raise KeyboardInterrupt
    if solved.best is None:
        reason = none_valid(solved.stop, solved.nodes, time.monotonic() - watch.started, spaces.size)
        reasons = [reason, *(why_none(solved.stop, first, watch.end) if explain else ())]
        if solved.uneven_bound is not None:
            reasons.append("among uneven mappings no valid one was found: --mapspace uneven looks at all of them")
        raise NoValidMappingError("\n".join(reasons), proved=solved.stop == "exhausted" and solved.uneven_bound is None)
    certificate = solved.certificate
    best, stop = solved.best, solved.stop
    if stop == "exhausted" and not certificate.proved:
        stop = "remainders"
    if certificate.proved and goal.alone not in ("", "energy") and not solved.least_energy:  # of equals
        most, at = first.most, QUANTITIES.index(goal.alone)
        most[at] = costs_of(best)[at]
        least = replace(
            aim, objective=LEAST_ENERGY, most=most, known=best, most_nodes=min(aim.most_nodes, FOR_EQUALS), fewer=False
        )
        fast = goal.alone == "cycles"  # tables of faster mappings alone say nothing of those as fast
        best = best_of(searched, least, None if fast else solved.solver).best or best
    ranked: tuple[Result, ...] = (best,)
    counted = None
    if (top > 1 or within is not None) and stop == "exhausted":
        room = top if top > 1 else MOST_TIES
        near = math.inf if within is None else certificate.value * (1.0 + within)
        more = aim.solver(first, near, None, every=True)
        if within is None:
            found = more.search(objective=goal, room=room, deadline=watch.deadline, on_poll=watch.tell)
        else:
            found = more.search(
                kind=WITHIN, objective=goal, room=room, limit=near,
                deadline=watch.deadline, on_poll=watch.tell,
            )  # fmt: skip
            counted = (within, int(found.found.tally[2]))
        stop = found.stop
        refuse_mismatch(found)
        rows = range(int(found.found.many[0]))
        ranked = _put_first(best, tuple(result_of(first, found.found.best, i, found.found.column[i]) for i in rows))
    return SearchResult(
        best=best,
        objective=goal.name,
        method="exact",
        stop=stop,
        seed=0,
        space_size=spaces.size,
        seconds=time.monotonic() - watch.started,
        certificate=certificate,
        ranked=ranked,
        within=counted,
        uneven=spaces.uneven,
        even=solved.even,
        uneven_bound=solved.uneven_bound,
        imperfect=tuple(sorted(first.imperfect)),
        padded=padded,
        limits=first.constraints.on_costs,
    )


def _put_first(best: Result, listed: Sequence[Result]) -> tuple[Result, ...]:
    """A list of as many mappings that begins with the one found without a list: of equal ones that is the first."""
    others = [result for result in listed if result.mapping != best.mapping]
    return (best, *others)[: max(1, len(listed))]


def best_of(spaces: Spaces, aim: Aim, solver: Solver | None = None, solved: Solved | None = None) -> Solved:
    """Find the best mapping of some spaces; each is searched for what is better than the best of those before.

    Of remainders the part that leaves none comes first. `solver` is that of the last space, if it was searched before;
    `solved`: what was found in others.
    """
    if solved is None:
        solved = Solved() if aim.known is None else Solved(aim.known, aim.known.energy_pj)
    perfect = _perfect(spaces.first) if aim.known is None else []
    for number, space in enumerate(itertools.chain(perfect, spaces), -len(perfect)):
        if solved.stop != "exhausted":
            solved.bound = min(solved.bound, *(_floor(each, aim.objective) for each in spaces[max(number, 0) :]))
            break
        floor = solved.proved = _floor(space, aim.objective)
        if floor >= solved.value * (1 - SURE):
            solved.bound = min(solved.bound, floor)
            continue
        try:
            if number == -len(perfect) and not space.imperfect:  # others start from what was found
                solved.descents.append(_descent(space, aim))  # whatever the time: there shall be an answer
                _walk(solved.descents[0], aim, solved, None if solved.best is None else aim.watch.end)
                if asked():
                    raise KeyboardInterrupt
            elif spaces.uneven and space.uneven and not space.imperfect and aim.known is None:
                solved.descents.append(_descent(space, aim))
                _walk(solved.descents[-1], aim, solved, aim.watch.end)
            if number == 0 and space.imperfect and aim.known is None:
                for rounded in rounded_spaces(space):
                    solved.descents.append(_descent(rounded, aim))
                    _walk_remainders(space, solved.descents[-1], aim, solved)
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


def _look_further(first: MapSpace, aim: Aim, even: Solved) -> tuple[Solved, Aim]:
    """After the proof about even mappings look at uneven ones, and return what is known then, and how far that looks.

    Without a limit of time, it looks at so many that this takes little.
    """
    encoded, watch = first.encoded, aim.watch
    if even.best is None and none_is_valid(first):
        return even, aim
    spaces = Spaces(encoded.architecture, [encoded.einsum], first.constraints, uneven=True, first=first)
    if len(spaces) == 1:  # each mapping is even
        return replace(even, further=spaces), aim
    uneven = Spaces.of(spaces.merged()[1:][0])
    if even.stop != "exhausted" and not even.certificate.proved:
        return replace(even, uneven_bound=_floor(uneven.first, aim.objective)), aim
    limited = aim
    if watch.end is None:
        most = watch.budget.memory_bytes
        budget = replace(watch.budget, memory_bytes=FURTHER_BYTES if most is None else min(most, FURTHER_BYTES))
        nodes = FURTHER_TIMED if aim.objective.counts("cycles") else FURTHER_NODES
        limited = replace(aim, watch=replace(watch, budget=budget), most_nodes=nodes)
    try:
        found = best_of(uneven, limited, solved=replace(even, solver=None, descents=[]))
    except TooManyChoices:  # and no mapping is known
        found = replace(
            even, stop="memory", bound=_floor(uneven.first, aim.objective), descents=[_descent(uneven.first, aim)]
        )
    if found.stop in ("memory", "nodes") and watch.end is None:
        found.stop = "effort"
        _walk(found.descents[0], limited, found, None)
    elif found.stop in ("timeout", "memory"):
        _walk_on(uneven, limited, found)
    found.even = even.certificate if even.best is not None else None
    better = found.value < even.value
    found.least_energy &= not better
    if better or found.stop == "exhausted":
        return replace(found, further=spaces), limited
    stop = even.stop if even.best is None else found.stop
    return replace(even, uneven_bound=found.bound, stop=stop, nodes=found.nodes, leaves=found.leaves), aim


def _descent(space: MapSpace, aim: Aim) -> Descent:
    """Walks of a search."""
    terms = terms_of(aim.objective)
    return Descent(space, terms, most=aim.most, workers=aim.workers, steps=first_steps(space))


def _walk(descent: Descent, aim: Aim, solved: Solved, deadline: float | None) -> None:
    """Take some walks, and keep the best mapping found if it is better than the best so far."""
    found = descent.go(FIRST_WALKS, deadline)
    if found is not None and found.value < solved.value:
        best = result_of(descent.space, found.mapping, 0, found.column)
        solved.walked, solved.best, solved.value = True, best, found.value
        aim.watch.known = (solved.value, best.energy_pj) if aim.known is None else None
        aim.watch.tell(make_incumbents(descent.space, 1), 0.0)


def _walk_remainders(space: MapSpace, descent: Descent, aim: Aim, solved: Solved) -> None:
    """Walk in a space of rounded bounds, and cut the best mapping down to those of the space with remainders."""
    found = descent.go(FIRST_WALKS, aim.watch.end)
    if found is None:
        return
    mapping = trim(decode_mapping(descent.space.encoded, found.mapping, 0), dict(space.encoded.einsum.dims))
    result = evaluate_encoded(space.encoded, mapping)
    value = aim.objective.of(result)
    fits = result.valid and not space.constraints.broken_by(mapping, space.encoded.einsum) and aim.allows(result)
    if fits and value < solved.value:
        solved.walked, solved.best, solved.value = True, result, value


def _walk_on(spaces: Spaces, aim: Aim, solved: Solved) -> None:
    """Walk through all spaces in turn until the time is used up; where it is not limited, some more times."""
    end, descents, first = aim.watch.end, solved.descents, spaces.first
    every = itertools.chain(_perfect(first), rounded_spaces(first) if first.imperfect else spaces)
    candidates = itertools.islice(every, len(descents), None)
    for number in itertools.count():
        if asked() or (time.monotonic() >= end if end is not None else number >= LAST_WALKS):
            solved.stop = "interrupted" if asked() else solved.stop
            return
        space = next(candidates, None)
        if space is not None:
            descents.append(_descent(space, aim))
        if not descents:
            return
        descent = descents[number % len(descents)] if space is None else descents[-1]
        if descent.space.encoded.einsum is first.encoded.einsum or not first.imperfect:
            _walk(descent, aim, solved, end)
        else:
            _walk_remainders(first, descent, aim, solved)


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
        walked = _descent(space, replace(aim, objective=LEAST_ENERGY, most=most)).go(FIRST_WALKS, deadline)
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


def _floor(space: MapSpace, objective: Objective) -> float:
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
    mapping, space = fold(split(space, decode_mapping(space.encoded, batch, i))), space.origin
    loops = [loop for level in mapping.levels for loop in (*level.temporal, *level.x, *level.y)]
    bounds = space.encoded.einsum.dims
    more = (d for d in bounds if math.prod(loop.bound for loop in loops if loop.dim == d) > bounds[d])
    real = space.encoded.einsum.unpadded or bounds
    padded = tuple(Loop(dim, bound) for dim, bound in bounds.items() if bound > real[dim])
    return replace(mapping, imperfect=frozenset(more), padded=padded)


def _evaluate(space: MapSpace, batch: Batch, i: int) -> Result:
    """Evaluate a mapping that was found with the cost model."""
    mapping, space = _mapping(space, batch, i), space.origin
    machine = space.encoded.architecture
    if len(mapping.levels) == len(machine.levels):
        return evaluate_encoded(space.encoded, mapping)
    return evaluate(machine, space.encoded.einsum, mapping)


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


def none_valid(stop: str, nodes: int, seconds: float, size: int | None) -> str:
    """Say that no mapping was found, and whether none is valid."""
    if stop == "exhausted":
        many = "mappings" if size is None else f"{size:.3g} mappings"
        return f"none of the {many} of the map space is valid (proved: {nodes} nodes)"
    return f"no valid mapping found in {seconds:.3g} s; give it more time"


def why_none(stop: str, space: MapSpace, end: float | None) -> list[str]:
    """What makes mappings invalid, said by `end` (by `time.monotonic`); the nearest miss is one without remainders."""
    try:
        space = MapSpace(space.encoded, space.constraints) if space.imperfect else space
    except NoValidMappingError as error:
        return [str(error)]
    key = np.uint64(np.random.SeedSequence(0).generate_state(1, np.uint64)[0])
    proved = stop == "exhausted"
    return [*(_what_limits_leave(space, end) if proved else []), *diagnose(space, key, proved=proved)]


def _what_limits_leave(space: MapSpace, end: float | None) -> list[str]:
    """For each limit on costs the least that there is within the others, where that is found soon."""
    rules, found = space.constraints, []
    for limit in {each.quantity: each for each in rules.limits}.values():
        others = tuple(other for other in rules.limits if other.quantity != limit.quantity)
        loose = MapSpace(space.encoded, replace(rules, limits=others))
        seconds = LEAST_SECONDS if end is None else min(LEAST_SECONDS, end - time.monotonic())
        if seconds <= 0:
            break
        try:
            least = map_exactly(
                Spaces.of(loose), Objective.parse(limit.quantity), budget=Budget(seconds=seconds), workers=1,
                on_progress=None, explain=False,
            )  # fmt: skip
        except NoValidMappingError:
            continue
        proof = least.certificate
        if proof is not None:
            within = f" with {' and '.join(map(str, others))}" if others else ""
            value, bound = limit.written(proof.value), limit.written(proof.bound)
            said = f"is at least {value}" if proof.proved else f"is {value} in the best mapping found, at least {bound}"
            found.append(f"{limit.quantity} {said}{within}")
    return found


KERNELS = (
    walk,
    root_bounds,
    explore,
    pick_splits,
    sweep_network,
    sweep_block,
    turn,
    lay_shapes,
    lay_beside,
    lay_apart,
    look_inside,
)
"""Kernels that a search calls."""


def get_ready() -> None:
    """Compile the kernels of a search, or load them: no budget of seconds then pays for that."""
    prepare(KERNELS)
