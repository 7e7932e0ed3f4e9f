"""The best fused tiling of a group: best first by lower bounds, each part solved by the exact mapper and only once.

Of a set of fused loops first the order is decided, then what is kept, one by one, that with most words first: as long
as it is open, it takes no room and saves all that it can save.
"""

from __future__ import annotations

import functools
import heapq
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from accelsim.fusion.group import Group
from accelsim.fusion.limits import loop_limits
from accelsim.fusion.parts import PartKind, PartProblem, Solutions, encode_part, held_by, without_held
from accelsim.fusion.result import NOTHING, ROUNDING, FusedPart, GroupResult, Pipeline, Value, pipeline, sum_totals
from accelsim.fusion.tiling import (
    Border,
    FusedLoop,
    FusedTiling,
    LayerPart,
    Option,
    Run,
    loops_of,
    make_tiling,
    options_of,
    orders_of,
    rules_inside,
    runs,
    shares,
)
from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.mapping import Loop
from accelsim.inputs.workload import Einsum
from accelsim.model.evaluate import evaluate_encoded
from accelsim.model.result import Result
from accelsim.results.cache import rename, rules_broken
from accelsim.search.result import Certificate
from accelsim.search.stopping import asked

CLOSE = 0.01
"""How far above its limit the time of layers that overlap may be: no search proves more of it."""

_Item = tuple[Run, PartProblem, int]
"""A part of a candidate, as a problem, and the words that it may use."""


@dataclass(slots=True)
class _Candidate:
    """Fused loops, what is kept inside them, and what is still open, perhaps their order; and the parts."""

    loops: tuple[FusedLoop, ...]
    kinds: tuple[PartKind, ...]  # of the parts of each layer
    kept: tuple[Option, ...]
    options: tuple[Option, ...]  # still open
    tiling: FusedTiling  # with all that is open kept
    parts: list[_Item]
    loose: frozenset[int]  # layers that run more where a halo that is still open is not kept


@dataclass
class GroupSearch:
    """A group at one level, with one border, and what is known of its fused tilings."""

    architecture: Architecture
    group: Group
    border: Border
    level: int
    solutions: Solutions

    @property
    def at(self) -> Level:
        """The fusing level."""
        return self.architecture.levels[self.level]

    def pipeline(self, parts: Sequence[FusedPart], tiling: FusedTiling) -> Pipeline | None:
        """Parts of layers that run at the same time, where they may."""
        return pipeline(self.group, parts, tiling, self.at, self.border.taken) if self.solutions.overlap else None

    def with_loops(self, loops: tuple[FusedLoop, ...]) -> Iterator[_Candidate]:
        """A set of fused loops, with everything else open."""
        if len(loops) < 2:
            yield from self.in_order(loops)
            return
        options = tuple(options_of(self.group, self.border, self.at, loops, ordered=False))
        found = self.candidate(loops, self.kinds, (), options, ordered=False)
        if found is not None:
            yield found

    @functools.cached_property
    def kinds(self) -> tuple[PartKind, ...]:
        """Of the parts of each layer, without what is asked at the outermost level."""
        outer = self.architecture.levels[0].name
        free = [replace(each, levels=tuple(of for of in each.levels if of.level != outer)) for each in self.group.rules]
        return tuple(map(self.solutions.kind, self.group.layers, free))

    def in_order(self, loops: tuple[FusedLoop, ...]) -> Iterator[_Candidate]:
        """Each order of a set of fused loops."""
        for order in orders_of(self.group, loops):
            rules = rules_inside(self.architecture, self.group, order)
            if rules is not None:
                options = tuple(options_of(self.group, self.border, self.at, order))
                kinds = tuple(map(self.solutions.kind, self.group.layers, rules))
                found = self.candidate(order, kinds, (), options)
                if found is not None:
                    yield found

    def candidate(
        self,
        loops: tuple[FusedLoop, ...],
        kinds: tuple[PartKind, ...],
        kept: tuple[Option, ...],
        options: tuple[Option, ...],
        *,
        ordered: bool = True,
    ) -> _Candidate | None:
        """Some choices as a candidate; None if they leave no room."""
        tiling = make_tiling(self.group, self.border, self.at.name, loops, (*kept, *options), ordered=ordered)
        halos = [at for kind, at, _ in options if kind == "halo"]
        if not halos:  # they decide what the first reader of a shared link fetches
            wrong = {at for at in tiling.shared if not shares(self.group, tiling, self.group.shared[at])}
            options = tuple(each for each in options if each[0] != "shared" or each[1] not in wrong)
            if any(kind == "shared" and at in wrong for kind, at, _ in kept):
                return None
            tiling = replace(tiling, shared=tiling.shared - wrong)
        capacity = self.at.rooms.get("", 0)
        several = runs(self.group, tiling, self.border, self.at, frozenset(options))
        if any(run.reserved + run.own > capacity for run in several):
            return None
        items = []
        loose = {at for kind, at, _ in options if kind == "shared"}
        for run in several:
            undecided = run.part.undecided | _open_shared(self.group, run.part.layer, loose)
            kind = kinds[run.part.layer]
            held = held_by(self.group, run.part, self.level)
            if any(not product.names for product in held.changing(self.group.layers[run.part.layer])):
                return None
            if (held.names - undecided) & kind.rules.of(self.at.name).bypass:
                return None
            whole = tuple(self.group.needed[run.part.layer].values())
            problem = PartProblem(kind, run.part.bounds, held, undecided, whole)
            items.append((run, problem.first, capacity - run.reserved))
        return _Candidate(loops, kinds, kept, options, tiling, items, self.group.before(halos))

    def decided(self, each: _Candidate) -> Iterator[_Candidate]:
        """The candidates that decide the order, or else the two that decide the next option."""
        if not each.tiling.ordered:
            yield from self.in_order(each.loops)
            return
        first, *rest = each.options
        for kept in ((*each.kept, first), each.kept):
            found = self.candidate(each.loops, each.kinds, kept, tuple(rest))
            if found is not None:
                yield found


def _open_shared(group: Group, layer: int, loose: set[int]) -> frozenset[str]:
    return frozenset(r.tensor for at in loose for r in group.shared[at].readers if r.layer == layer)


def fuse_group(
    architecture: Architecture,
    group: Group,
    border: Border,
    solutions: Solutions,
    *,
    level: int,
    below: float = math.inf,
    deadline: float | None = None,
) -> tuple[GroupResult | None, float]:
    """Find the best fused tiling of a group at a level.

    `solutions`: known parts, to which new ones are added. `below`: only a tiling of a smaller value is of interest.
    `deadline`: when to end with what is found, by `time.monotonic`. Returns the tiling, None if none fits, or none is
    below; and the value that no fused tiling falls below, infinite if there is none.
    """
    solved_before, nodes_before = solutions.solved, solutions.nodes
    search = GroupSearch(architecture, group, border, level, solutions)
    best: _Candidate | None = None
    best_value = NOTHING
    limits = loop_limits(solutions, group, border, level)
    values = limits.values(solutions, search.at.rooms.get("", 0) - border.taken)
    heap: list[tuple[Value, int, _Candidate | int]]  # a candidate, or a set of loops by its number
    heap = [(value, at, at) for at, value in enumerate(values) if value < NOTHING]
    number = len(values)
    heapq.heapify(heap)
    stop, left = "exhausted", math.inf  # what no search can bound closer
    enough = 1 - CLOSE if solutions.overlap and solutions.price.cycles > 0 else 1.0
    while heap and heap[0][0] < min((best_value[0] * enough, best_value[1]), (below, -math.inf)):
        if _is_late(deadline):
            stop = "interrupted" if asked() else "timeout"
            break
        least, _, each = heapq.heappop(heap)
        if isinstance(each, int):
            for child in search.with_loops(limits.loops(each)):
                number += 1
                heapq.heappush(heap, (max(least, _bound(child, solutions)), number, child))
            continue
        now = _bound(each, solutions)
        if now > least:
            if now < NOTHING:
                number += 1
                heapq.heappush(heap, (now, number, each))
            continue
        if each.options or not each.tiling.ordered:
            for child in search.decided(each):
                number += 1
                heapq.heappush(heap, (max(least, _bound(child, solutions)), number, child))
            continue
        if _solve_unknown(each.parts, solutions):
            now = _bound(each, solutions)
            if now < NOTHING:
                number += 1
                heapq.heappush(heap, (now, number, each))
        else:
            left = min(left, now[0])
        value = _value(each, search)
        if value is not None and value < best_value:
            best, best_value = each, value
    bound = min(heap[0][0][0] if heap else math.inf, left, best_value[0])
    if stop == "exhausted" and bound < best_value[0] * (1 - ROUNDING):
        stop = solutions.stop
    if best is None or best_value[0] >= below:
        return None, bound
    parts = _fused_parts(group, best, solutions)
    totals, pipe = sum_totals([(part.count, part.result) for part in parts]), search.pipeline(parts, best.tiling)
    worth = solutions.price.value(totals.energy_pj, pipe.cycles if pipe else totals.cycles)[0]
    low = worth if bound >= worth * (1 - ROUNDING) else bound
    counts = solutions.nodes - nodes_before, solutions.solved - solved_before
    proof = Certificate(worth, low, *counts, 0)
    return GroupResult(group, border, best.tiling, parts, solutions.price, proof, stop, pipe), bound


def _is_late(deadline: float | None) -> bool:
    return bool(asked()) or (deadline is not None and time.monotonic() > deadline)


def _solve_unknown(items: Sequence[_Item], solutions: Solutions) -> bool:
    """Map the largest part of which no mapping is known; all of them, for an answer, where nothing more is proved.

    False if there is none, or a search for one was stopped before.
    """
    unknown = [item for item in items if solutions.known(item[1], item[2]) is None]
    if not unknown or any(solutions.gave_up(part, room) for _, part, room in unknown):
        return False
    late = solutions.prove_until is not None and time.monotonic() > solutions.prove_until
    try:
        for _, part, room in sorted(unknown, key=_work, reverse=True)[: len(unknown) if late else 1]:
            solutions.solve(part, room)
    except KeyboardInterrupt:
        if not asked():
            raise
    return True


def _work(item: _Item) -> int:
    """Multiply-accumulates of a part in all steps: the larger, the more its bound may rise."""
    run, part, _ = item
    return run.count * math.prod(part.bounds)


def _sum(costs: Iterable[tuple[int, Value]]) -> Value:
    """Value of parts, each as often as it runs."""
    first, second = 0.0, 0.0
    for count, cost in costs:
        first, second = first + count * cost[0], second + count * cost[1]
    return first, second


def _bound(each: _Candidate, solutions: Solutions) -> Value:
    """Value that a fused tiling does not fall below."""
    costs = []
    for run, part, room in each.parts:
        if part.undecided or run.part.layer in each.loose:
            costs.append((run.count, solutions.limit(part, run.part.layer in each.loose)))
        elif solutions.fits(part, room):
            costs.append((run.count, solutions.bound(part, room)))
        else:
            return NOTHING
    if solutions.overlap and solutions.price.cycles > 0:
        return _overlapped(each, solutions, costs)
    return _sum(costs)


def _overlapped(each: _Candidate, solutions: Solutions, costs: Sequence[tuple[int, Value]]) -> Value:
    """Value that layers at the same time do not fall below; `costs` of one after the other.

    Each unit, each port and each layer is busy for so long at least, and a step of it once more for each layer but one.
    """
    energy_pj, busy = 0.0, Counter[tuple[str, object]]()
    for (run, part, _), (count, least) in zip(each.parts, costs, strict=True):
        energy, (computing, *ports) = solutions.closed(part, run.part.layer in each.loose)
        energy_pj += count * energy
        busy["unit", solutions.machine_of(part).compute.name] += count * computing
        for port, cycles in enumerate(ports):
            busy["port", port] += count * cycles
        if solutions.price.energy == 0:
            busy["layer", run.part.layer] += count * int(least[0])
    fill = 1 + (len(each.kinds) - 1) / each.tiling.steps
    return min(_sum(costs), solutions.price.value(energy_pj, max(busy.values()) * fill * (1 - ROUNDING)))


def _value(each: _Candidate, search: GroupSearch) -> Value | None:
    """Value of a fused tiling, if each of its parts is mapped."""
    solutions, parts = search.solutions, list[FusedPart]()
    for run, part, room in each.parts:
        known = solutions.known(part, room)
        if known is None:
            return None
        parts.append(FusedPart(run.part, run.count, run.reserved, known))
    pipe = search.pipeline(parts, each.tiling)
    if pipe is None:
        return _sum((part.count, solutions.price.of(part.result)) for part in parts)
    energy_pj = math.fsum(part.count * part.result.energy_pj for part in parts)
    return solutions.price.value(energy_pj, pipe.cycles)


def _fused_parts(group: Group, each: _Candidate, solutions: Solutions) -> tuple[FusedPart, ...]:
    """Parts with their best mappings, in the order of the layers."""
    dims = {dim.name: dim for dim in group.dims}
    parts = []
    for run, part, room in each.parts:
        known, at = solutions.known(part, room), run.part.layer
        if known is not None and part.bounds != run.part.bounds:
            known, part = _turned(known, part, room, solutions), part.turned
        outer = [loop for loop in each.loops if at not in dims[loop.dim].summed]
        loops = loops_of(group, at, outer)
        machine = solutions.machine_of(part)
        if known is None or _is_wrong(machine, group.layers[at], group.rules[at], loops, part, room, known):
            raise RuntimeError(f"a part of {group.layers[at].name} has no mapping, or one that it may not have")
        names = [level.name for level in machine.levels]
        result = replace(without_held(known, part.held, names, room), workload=group.layers[at].name)
        parts.append(FusedPart(run.part, run.count, run.reserved, result))
    return tuple(sorted(parts, key=_place))


def _turned(found: Result, part: PartProblem, room: int, solutions: Solutions) -> Result:
    """A mapping of a part as one of the part with dimensions exchanged."""
    other, dims = part.turned, part.kind.dims
    order = Einsum("part", {dims[n]: other.bounds[n] for n in part.kind.exchange}, part.kind.tensors)
    machine = encode_part(solutions.machine_of(part), other.einsum, other.held, room)
    return evaluate_encoded(machine, rename(found.mapping, part.einsum, order))


def _place(each: FusedPart) -> tuple[object, ...]:
    part: LayerPart = each.part
    return part.layer, -each.count, part.bounds, sorted(part.present)


def _is_wrong(
    architecture: Architecture,
    layer: Einsum,
    rules: Constraints,
    loops: tuple[Loop, ...],
    part: PartProblem,
    room: int,
    found: Result,
) -> bool:
    """Whether a mapping, evaluated anew, is not valid, costs something else, or breaks what is asked of its layer.

    `loops`: the fused ones as loops of the layer, which stand outside all others.
    """
    again = evaluate_encoded(encode_part(architecture, part.einsum, part.held, room), found.mapping)
    outer, *others = found.mapping.levels
    nest = replace(found.mapping, levels=(replace(outer, temporal=(*loops, *outer.temporal)), *others))
    costs = again.energy_pj, again.cycles
    return costs != (found.energy_pj, found.cycles) or bool(rules_broken(replace(again, mapping=nest), rules, layer))
