"""A space searched in parts: even mappings with perfect factors, then uneven ones, then those with remainders."""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from dataclasses import dataclass, replace

from accelsim.inputs.errors import AccelsimError, TooManyChoices
from accelsim.inputs.workload import Einsum, padded_einsums, rounded_bounds, shared_rank
from accelsim.mapspace.merging import merged
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.search.exact.aim import FEW_SHAPES, Aim, Solved
from accelsim.search.exact.bounds import MOST_BYTES
from accelsim.search.exact.coarse import coarse_bound
from accelsim.search.exact.incumbents import SURE
from accelsim.search.exact.optimum import best_of, floor_of, least_costs, walk_in, walk_longer, widest
from accelsim.search.exact.worth import Known
from accelsim.search.result import Certificate, SearchedSpace
from accelsim.search.spaces import Spaces, none_is_valid
from accelsim.search.stopping import asked

EVEN, WEIGHTS = 4, {(True, False): 2, (False, True): 3, (True, True): 1}
"""How the parts share the time: even mappings with perfect factors, and the others by whether they are uneven and have
remainders."""
FURTHER_NODES, FURTHER_TIMED, FURTHER_BYTES = 40_000_000, 12_000_000, 3 << 28
REMAINDERS_NODES, REMAINDERS_BYTES, REMAINDERS_SHAPES = 300_000, 64 << 20, 200_000
SLOWER = 20
"""Where the time is not limited: partial mappings that are looked at after the proof about even ones with perfect
factors, uneven ones (fewer where cycles count, since each takes longer then) and those with remainders; bytes of
tables; and tile shapes, above which those with remainders are looked for by walks alone. Of those, where they are
uneven or cycles count, a mapping takes so many times as long. Each part takes some seconds."""
SEARCHING, COARSE_BYTES, COARSE_WORK = 0.75, 288 << 20, 1e8
"""Of the time of a part, how much its search has; the rest is for coarse tables, where it proves nothing. And where the
time is not limited, bytes of these, and entries that a round of them passes: a second or two."""
MOST_PADDINGS = 8
"""Ways to round the bounds of windows up that are walked through."""


@dataclass(frozen=True, slots=True)
class Wider:
    """What is looked at besides even mappings with perfect factors.

    Attributes
    ----------
    uneven : bool or None
        Whether uneven mappings are; None: where the time is not limited, as many as it takes a few seconds.
    imperfect : frozenset of str
        Dimensions whose loops may leave remainders.
    walks : bool
        Whether walks alone look for these, some tenths of a second, and prove nothing but of a few tile shapes.
    """

    uneven: bool | None
    imperfect: frozenset[str]
    walks: bool = False


def search_parts(first: MapSpace, aim: Aim, wider: Wider) -> tuple[Solved, list[Certificate], Spaces]:
    """Search a space part by part, each from the best mapping of those before; the last part is the whole space.

    Where the time is not limited, so many mappings with remainders are looked at that this takes some seconds. Bounds
    of windows are rounded up where a walk finds that this makes a mapping better.

    Returns
    -------
    Solved
        The best mapping, and what is proved of the whole space.
    list of Certificate
        Of each part.
    Spaces
        Those of mappings with perfect factors.
    """
    encoded, rules, limited = first.encoded, first.constraints, aim.watch.budget.seconds is not None
    machine, einsums = encoded.architecture, [encoded.einsum]
    walked, perfect = [merged(first)], [merged(first)]
    kinds = [(uneven, remainders) for uneven, remainders in WEIGHTS if wider.imperfect or not remainders]
    kinds = [kind for kind in kinds if not (kind[0] and wider.uneven is False)]
    has_dma = any(level.dma is not None for level in machine.levels)
    if wider.walks and len(kinds) > 1 and not has_dma:  # walks through uneven mappings find even ones, too
        kinds.remove((False, True))
    left = EVEN + sum(WEIGHTS[kind] for kind in kinds)
    aim_of_part = aim.in_share(EVEN / left)
    left -= EVEN
    searching = _searching(aim_of_part)
    solved = widest(Spaces.of(*perfect), searching) or best_of(Spaces.of(*perfect), searching)
    _bound_coarsely(Spaces.of(*perfect), aim_of_part, solved)
    parts = [replace(solved.certificate, space=SearchedSpace(size=first.quick_size))]
    hopeless = solved.best is None and solved.stop == "exhausted" and none_is_valid(first)
    for uneven, remainders in kinds:
        dims = wider.imperfect if remainders else frozenset[str]()
        fixed_tiles = uneven and dims and has_dma
        aim_of_part = aim.in_share(WEIGHTS[uneven, remainders] / left)
        left -= WEIGHTS[uneven, remainders]
        if not limited and (dims or wider.uneven is None):
            aim_of_part = _in_moderation(aim_of_part, uneven=uneven, remainders=bool(dims))
            aim_of_part = replace(aim_of_part, most_shapes=FEW_SHAPES) if wider.walks else aim_of_part
        space = SearchedSpace(uneven, tuple(sorted(dims)))
        try:
            if dims and not uneven and not hopeless:
                padded = _better_padding(first, aim_of_part, solved)
                einsums += [] if padded is None else [padded]
            spaces = Spaces(machine, einsums, rules, dims, uneven=uneven and not fixed_tiles, first=first)
            own = [merged(space) for space in spaces if space.uneven == uneven]
            if fixed_tiles:  # as `refuse_uneven_remainders` says there are none: the two parts before are all
                solved.bound = min(part.bound for part in parts[-2:])
            elif own and not hopeless:
                solved = _search_part(Spaces.of(*own), aim_of_part, solved)
                walked += own
                perfect += [] if dims else own
            tried = [f"{dim}={bound}" for dim, bound in einsums[-1].dims.items() if bound > encoded.einsum.dims[dim]]
            space = replace(space, padded=tuple(tried) if dims else (), size=spaces.size)
        except KeyboardInterrupt:  # the best so far is there
            if solved.best is None:
                raise
            solved = replace(solved, bound=0.0, stop="interrupted")
        parts.append(replace(solved.certificate, space=space))
    open_parts = [part for part in parts if not part.proved]
    if solved.stop != "interrupted" and open_parts and (limited or not parts[0].proved):
        stop = solved.stop
        walk_longer(walked, aim, solved)
        solved.stop = "interrupted" if solved.stop == "interrupted" else stop
        parts[-1] = replace(solved.certificate, space=parts[-1].space)
    return solved, parts, Spaces.of(*perfect)


def _search_part(spaces: Spaces, aim: Aim, before: Solved) -> Solved:
    """Search a part of a space for what is better than the best mapping of the parts before."""
    floor = min(floor_of(space, aim.objective) for space in spaces)
    if before.stop == "interrupted" or asked():
        return replace(before, bound=floor, stop="interrupted")
    begin = replace(before, bound=math.inf, stop="exhausted", proved=-math.inf, solver=None, walked=False)
    try:
        found = best_of(spaces, _searching(aim), solved=begin)
    except TooManyChoices:  # and no mapping is known
        found = replace(begin, bound=floor, stop="memory")
    if found.stop in ("memory", "nodes") and aim.watch.budget.seconds is None:
        found.stop = "effort"
    found.least_energy &= found.value >= before.value
    _bound_coarsely(spaces, aim, found)
    return found


def _bound_coarsely(spaces: Spaces, aim: Aim, found: Solved) -> None:
    """Where a search left mappings open, bound their energy by coarse tables, which are ready soon on any machine."""
    if found.certificate.proved or found.best is None or not aim.objective.counts("energy") or aim.walks_alone:
        return
    deadline, least = aim.watch.deadline, math.inf
    memory, work = aim.watch.budget.memory_bytes or MOST_BYTES, math.inf
    if deadline is None:
        memory, work = min(memory, COARSE_BYTES), COARSE_WORK
    for space in spaces:
        energy, cycles = least_costs(space)
        most = Known(aim.objective, found.value, aim.most).most_energy(cycles)
        try:
            coarse = coarse_bound(space, most, deadline=deadline, memory=memory, work=work)
        except KeyboardInterrupt:
            found.stop = "interrupted"
            return
        least = min(least, aim.objective.value(max(energy, coarse.bound), cycles) * (1.0 - SURE))
    found.bound = max(found.bound, min(least, found.value))


def _searching(aim: Aim) -> Aim:
    """What a search has of the time of a part."""
    return aim.in_share(SEARCHING) if aim.objective.counts("energy") else aim


def _in_moderation(aim: Aim, *, uneven: bool, remainders: bool) -> Aim:
    """What is looked for among so many partial mappings, with tables so small, that it takes some seconds."""
    most, nodes = FURTHER_BYTES, FURTHER_TIMED if aim.objective.counts("cycles") else FURTHER_NODES
    if remainders:
        slow = uneven or aim.objective.counts("cycles")
        most, nodes = REMAINDERS_BYTES, REMAINDERS_NODES // SLOWER if slow else REMAINDERS_NODES
    budget = aim.watch.budget
    budget = replace(budget, memory_bytes=min(most, budget.memory_bytes or most))
    shapes = REMAINDERS_SHAPES if remainders else math.inf
    return replace(aim, watch=replace(aim.watch, budget=budget), most_nodes=nodes, most_shapes=shapes)


def _better_padding(first: MapSpace, aim: Aim, solved: Solved) -> Einsum | None:
    """The Einsum with bounds of its windows rounded up such that a walk finds a better mapping than the best so far."""
    einsum, better = first.encoded.einsum, None
    bounds = {dim: rounded_bounds(bound) for dim, bound in einsum.dims.items() if shared_rank(einsum, dim)}
    for padded in itertools.islice(padded_einsums(einsum, bounds), 1, 1 + MOST_PADDINGS):
        with suppress(AccelsimError):  # the constraints leave no factors
            space, before = MapSpace(encode(first.encoded.architecture, padded), first.constraints), solved.value
            if floor_of(space, aim.objective) < before:
                walk_in(space, space, aim, solved, aim.watch.end)
                better = padded if solved.value < before else better
    return better
