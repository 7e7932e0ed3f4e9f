"""Exact mapping of one Einsum: the best mappings, and all within a share of the best; with certificates."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np

from accelsim.inputs.errors import NoValidMappingError
from accelsim.inputs.objective import LEAST_ENERGY, QUANTITIES, Objective, costs_of
from accelsim.mapspace.space import MapSpace
from accelsim.model.jit import prepare
from accelsim.model.result import Result
from accelsim.search.descent_kernel import walk
from accelsim.search.exact.aim import Aim, Watch
from accelsim.search.exact.blocks import sweep_block
from accelsim.search.exact.branch_kernel import explore, root_bounds
from accelsim.search.exact.coarse_kernel import cross, go_through
from accelsim.search.exact.coarse_pairs_kernel import fit_axes, list_pairs, share_resting
from accelsim.search.exact.incumbents import SURE, WITHIN
from accelsim.search.exact.network_kernel import sweep_network
from accelsim.search.exact.optimum import best_of, refuse_mismatch, result_of, walk_longer, widest
from accelsim.search.exact.parts import Wider, search_parts
from accelsim.search.exact.splits_kernel import pick_splits
from accelsim.search.exact.tables_kernel import lay_apart, lay_beside, lay_shapes, look_inside, turn
from accelsim.search.result import MOST_TIES, Certificate, SearchedSpace, SearchResult
from accelsim.search.spaces import Spaces, diagnose
from accelsim.search.stopping import Budget, OnProgress

FOR_EQUALS = 16_000_000
"""Partial mappings of a space that are looked at for one of less energy among equally good ones; some seconds."""
LEAST_SECONDS = 10.0
"""How long the least cost within limits is looked for, where no mapping keeps them all."""


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
    wider: Wider | None = None,
) -> SearchResult:
    """Find the best mappings of a map space, or the best one of several spaces; see `accelsim.map_einsum`.

    `top` and `within` list mappings of the one space that there is then; `padded` says which bounds the spaces try;
    `explain`: say what makes mappings invalid where none is valid; `started`: since when the budget runs, by
    `time.monotonic`; `fewer`: raise TooManyChoices where too many dimensions may leave remainders; `wider`: what of
    the wider space is looked at after the one space of even mappings with perfect factors.
    """
    first = spaces.first
    get_ready()
    watch = Watch(goal, budget or Budget(), on_progress, started or time.monotonic())
    aim = Aim(goal, first.most, workers, watch, fewer=fewer)
    searched = spaces.merged()
    whole = SearchedSpace(spaces.uneven, tuple(sorted(first.imperfect)), padded, size=spaces.size)
    parts, lists = list[Certificate](), top > 1 or within is not None
    if wider is None:
        solved = widest(searched, aim) or best_of(searched, aim)
        if solved.stop in ("timeout", "memory"):
            walk_longer(searched, aim, solved)
    else:
        solved, parts, searched = search_parts(first, aim.in_share(0.5) if lists else aim, wider)
        whole = parts[-1].space
    if solved.best is None and solved.stop == "interrupted":
        raise KeyboardInterrupt
    if solved.best is None:
        reason = none_valid(solved.stop, solved.nodes, time.monotonic() - watch.started, whole.size)
        reasons = [reason, *(why_none(solved.stop, first, watch.end) if explain else ())]
        if parts and parts[0].proved and solved.stop != "exhausted":
            reasons.append(f"no {parts[0].space.kind} mapping with {parts[0].space.factors} is valid (proved)")
        raise NoValidMappingError("\n".join(reasons), proved=solved.stop == "exhausted")
    certificate = solved.certificate
    best, stop = solved.best, solved.stop
    if stop == "exhausted" and not certificate.proved:
        stop = "remainders"
    sure = certificate.proved or any(part.proved and part.value <= certificate.value for part in parts)
    if sure and goal.alone not in ("", "energy") and not solved.least_energy:  # of equals
        most, at = first.most, QUANTITIES.index(goal.alone)
        most[at] = costs_of(best)[at]
        least = replace(
            aim, objective=LEAST_ENERGY, most=most, known=best, most_nodes=min(aim.most_nodes, FOR_EQUALS), fewer=False
        )
        fast = goal.alone == "cycles"  # tables of faster mappings alone say nothing of those as fast
        best = best_of(searched, least, None if fast or parts else solved.solver).best or best
    ranked: tuple[Result, ...] = (best,)
    counted = None
    if lists and (parts[0].proved if parts else stop == "exhausted"):
        room = top if top > 1 else MOST_TIES
        near = math.inf if within is None else (parts or [certificate])[0].value * (1.0 + within)
        more = aim.solver(first, near, None, every=True)
        if within is None:
            found = more.search(objective=goal, room=room, deadline=watch.deadline, on_poll=watch.tell)
        else:
            found = more.search(
                kind=WITHIN, objective=goal, room=room, limit=near,
                deadline=watch.deadline, on_poll=watch.tell,
            )  # fmt: skip
            counted = (within, int(found.found.tally[2]))
        stop = stop if found.stop == "exhausted" else found.stop
        refuse_mismatch(found)
        rows = range(int(found.found.many[0]))
        listed = tuple(result_of(first, found.found.best, i, found.found.column[i]) for i in rows)
        better = bool(listed) and goal.of(best) < goal.of(listed[0]) * (1 - SURE)  # it is none of the listed part
        others = [result for result in listed if result.mapping != best.mapping]  # of equal ones the best is first
        ranked = (best, *listed) if better else (best, *others)[: max(1, len(listed))]
    return SearchResult(
        best=best,
        objective=goal.name,
        method="exact",
        stop=stop,
        seed=0,
        space_size=whole.size,
        seconds=time.monotonic() - watch.started,
        certificate=certificate,
        ranked=ranked,
        within=counted,
        uneven=whole.uneven,
        parts=tuple(parts[:-1]),
        imperfect=whole.imperfect,
        padded=whole.padded,
        limits=first.constraints.on_costs,
    )


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
    list_pairs,
    fit_axes,
    share_resting,
    cross,
    go_through,
)
"""Kernels that a search calls."""


def get_ready() -> None:
    """Compile the kernels of a search, or load them: no budget of seconds then pays for that."""
    prepare(KERNELS)
