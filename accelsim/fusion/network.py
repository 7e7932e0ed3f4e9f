"""Which layers of a network to fuse, for the least energy, the fewest cycles, or the least product of both.

The best groups of each graph at a price are a shortest path over its states (`accelsim/fusion/paths.py`).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from accelsim.fusion.graph import Apart, Graph, find_graphs, named_graph, put_together
from accelsim.fusion.group import Group, make_group
from accelsim.fusion.limits import layer_floors, loop_limits
from accelsim.fusion.parts import LEAST_SECONDS, NO_RULES, Solutions, fastest_of_equals
from accelsim.fusion.paths import GroupStep, Ways
from accelsim.fusion.result import (
    CYCLES,
    ENERGY,
    NOTHING,
    ROUNDING,
    SAME,
    FusedNetwork,
    GroupResult,
    Optimum,
    Price,
    Segment,
    Value,
    least_product,
    sum_totals,
)
from accelsim.fusion.search import fuse_group
from accelsim.fusion.tiling import Border, free_border, fusing_levels, unfit
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Block, Constraints
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.objective import Objective
from accelsim.inputs.units import listed
from accelsim.inputs.workload import Einsum, Workload
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.model.limits import layer_limits
from accelsim.model.result import Result
from accelsim.results.cache import MapOptions, ResultCache, carry_over, content_key, map_with_cache
from accelsim.search.result import Certificate, SearchedSpace
from accelsim.search.stopping import Budget, OnProgress, Progress, asked, heeding

SHARE_OF_WALKS = 0.25
"""Of the time that is given, how much is left at the end for mappings that are found by walks, and not proved."""
SIZES = (1, 2, 3, 5, 8, 13, 21, 34)
"""Layers of the groups that are looked at first: the answer is there early, and more layers only make it better."""


@dataclass(frozen=True, slots=True)
class _UnfusedLayer:
    """Mappings of a layer by itself, for the prices that are asked for.

    `least`: energy [pJ] and cycles that no even one with perfect factors falls below, where it is not proved that none
    of these is better.
    """

    results: tuple[Result, ...]
    least: tuple[float, float] | None

    def cost(self, einsum: Einsum, price: Price) -> _StepCost:
        """The layer as a step of its own."""
        result = price.best(self.results)
        value = price.of(result)
        bound = value[0] if self.least is None else min(value[0], price.value(*self.least)[0])
        return _StepCost(value, bound, Segment((einsum,), 1, (result,), result, None))


@dataclass(slots=True)
class _StepCost:
    """A step at a price: its value, a lower limit until `segment` is known, and what it does not fall below.

    `stuck`: no search says more of it. `rough`: the limit is that of its group.
    """

    value: Value
    bound: float
    segment: Segment | None = None
    stuck: bool = False
    rough: bool = False


@dataclass(slots=True)
class NetworkSearch:
    """What is known while the graphs of a network are gone through."""

    architecture: Architecture
    solutions: Solutions  # parts that are solved, and the price that counts
    longest: int | None  # layers that a group has at most
    deadline: float | None  # when to look for nothing better any more, by `time.monotonic`
    cache: ResultCache | None
    workers: int | None
    on_progress: OnProgress | None
    rules: Mapping[str, Constraints | None]  # of layers by name
    options: MapOptions = field(default_factory=MapOptions)  # of the mappings of layers by themselves
    spaces: list[SearchedSpace] = field(default_factory=list)  # mappings that were searched for these
    mapped: dict[str, _UnfusedLayer] = field(default_factory=dict)  # layers by themselves, by name
    equal: dict[str, Einsum] = field(default_factory=dict)  # the first layer of each content
    looked: set[str] = field(default_factory=set)  # groups that were looked at
    ways: dict[tuple[int, int | None], Ways] = field(default_factory=dict)  # by graph and level
    floors: dict[tuple[int, int, Price], list[float]] = field(default_factory=dict)  # by graph, level and price
    costs: dict[tuple[int, int | None, Price, GroupStep], _StepCost] = field(default_factory=dict)
    known: dict[tuple[int, tuple[int, ...]], Group] = field(default_factory=dict)  # by graph and order of layers
    rough: dict[tuple[int, int, Price, tuple[int, ...]], Value] = field(default_factory=dict)  # limits of groups
    most: int = 1  # layers that a group has at most at present
    waiting: int = 0  # layers that are still to be mapped by themselves
    late: bool = False

    def is_late(self) -> bool:
        """Whether to look for nothing better any more."""
        self.late = self.late or bool(asked()) or (self.deadline is not None and time.monotonic() > self.deadline)
        return self.late

    def graph(self, graph: Graph) -> tuple[tuple[Segment, ...], float]:
        """Best segments of a graph, at the best level, and the value that no fusion of it falls below."""
        levels: list[int | None] = [
            at for at in range(1, len(self.architecture.levels)) if not unfit(self.architecture, at)
        ]
        several = [self._at_level(graph, level) for level in levels or [None]]
        price = self.solutions.price
        best = min(several, key=lambda found: sum_segments(found[0], price))
        return best[0], min(bound for _, bound in several)

    def _at_level(self, graph: Graph, level: int | None) -> tuple[tuple[Segment, ...], float]:
        """Best segments of a graph at a level.

        A shortest path over its states. A step that is not solved yet goes in with its lower limit; as long as the
        shortest path leads over such steps, one of them is solved.
        """
        ways = self._listed(graph, level)
        costs = [self._cost(graph, ways, step) for step in ways.every]
        sure, sure_value = ways.shortest([NOTHING if cost.segment is None else cost.value for cost in costs])
        while not self.is_late():
            open_costs = [NOTHING if cost.stuck and cost.segment is None else cost.value for cost in costs]
            path, value = ways.shortest(open_costs)
            unsolved = [at for at in path if costs[at].segment is None]
            if not unsolved or value >= (sure_value[0] * (1 - ROUNDING), 0.0):
                break
            if any(costs[at].rough for at in unsolved):
                for at in ways.below(open_costs, sure_value[0]):
                    if costs[at].rough and not self.is_late():
                        self._refine(graph, ways, ways.every[at], costs[at])
                continue
            step = max(unsolved, key=lambda at: len(ways.every[at].places))
            below = sure_value[0] - (value[0] - costs[step].value[0])
            self._solve(graph, ways, ways.every[step], below, costs[step])
            if costs[step].segment is not None:
                sure, sure_value = ways.shortest([NOTHING if cost.segment is None else cost.value for cost in costs])
        bound = ways.shortest([(cost.bound, 0.0) for cost in costs])[1][0]
        if ways.longest < min(len(graph.layers), self.longest or len(graph.layers)):
            bound = self._floor(graph, level)
        return tuple(segment for at in sure if (segment := costs[at].segment) is not None), bound

    def _listed(self, graph: Graph, level: int | None) -> Ways:
        """Ways through a graph for groups of at most so many layers as now; of fewer, where time is up before."""
        key, most = (id(graph), level), 1 if level is None else min(self.most, len(graph.layers))
        known = self.ways.get(key) or Ways(self.architecture, graph, None, 1)
        if known.longest < most or known.level != level:
            with suppress(TimeoutError):
                known = Ways(self.architecture, graph, level, most, self.is_late)
        self.ways[key] = known
        return known

    def _floor(self, graph: Graph, level: int | None) -> float:
        """Value that no way through a graph falls below, whatever the groups."""
        alone = [self.alone(layer).cost(layer, self.solutions.price).bound for layer in graph.layers]
        if level is None:
            return sum(alone)
        return self._together(list(map(min, alone, self._floors(graph, level))))

    def _together(self, floors: Sequence[float]) -> float:
        """What layers cost at least, given what each does; all may run at the same time."""
        return max(floors) if self.solutions.overlap and self.solutions.price.cycles > 0 else sum(floors)

    def _floors(self, graph: Graph, level: int) -> list[float]:
        """Value that a group does not fall below for each layer."""
        key = id(graph), level, self.solutions.price
        if key not in self.floors:
            self.floors[key] = layer_floors(self.solutions, graph, level)
        return self.floors[key]

    def _cost(self, graph: Graph, ways: Ways, step: GroupStep) -> _StepCost:
        """What is known of a step at the present price."""
        price = self.solutions.price
        key = id(graph), ways.level, price, step
        if key not in self.costs:
            if step.plain:
                return self.alone(graph.layers[step.places[0]]).cost(graph.layers[step.places[0]], price)
            if self.is_late():
                assert ways.level is not None
                floors = self._floors(graph, ways.level)
                return _StepCost(NOTHING, self._together([floors[place] for place in step.places]), stuck=True)
            least = self._rough(graph, ways, step)
            self.costs[key] = _StepCost(least, least[0], stuck=least == NOTHING, rough=True)
        return self.costs[key]

    def _rough(self, graph: Graph, ways: Ways, step: GroupStep) -> Value:
        """Value that a step does not fall below whatever lies in the fusing level; infinite if that cannot fuse it."""
        level, solutions = ways.level, self.solutions
        assert level is not None
        key = id(graph), level, solutions.price, step.places
        if key not in self.rough:
            group, _ = next(self.groups(graph, step))
            levels = fusing_levels(self.architecture, group)
            self.rough[key] = NOTHING
            if not isinstance(levels, str) and level in levels.values():
                at = {place: number for number, place in enumerate(group.places)}
                links = [link for link in graph.links if link.producer is not None]
                later = {at[link.producer] for link in links if link.producer in at
                         and any(r.layer not in at for r in link.readers)}  # fmt: skip
                loose = {(number, group.layers[number].output.name) for number in later}
                loose |= {(at[r.layer], r.tensor) for link in links if link.producer not in at
                          for r in link.readers if r.layer in at}  # fmt: skip
                border = Border(staying=frozenset(later), leaving=free_border(group).leaving - later)
                limits = loop_limits(solutions, group, border, level, frozenset(loose))
                self.rough[key] = min(limits.values(solutions, self.room(level)))
        return self.rough[key]

    def _refine(self, graph: Graph, ways: Ways, step: GroupStep, cost: _StepCost) -> None:
        """Raise the limit of a step to one with what lies in the fusing level."""
        group, border = next(self.groups(graph, step))
        assert ways.level is not None
        limits = loop_limits(self.solutions, group, border, ways.level)
        least = min(limits.values(self.solutions, self.room(ways.level) - border.taken))
        cost.value, cost.rough = max(cost.value, least), False
        cost.bound, cost.stuck = cost.value[0], cost.value == NOTHING

    def room(self, level: int) -> int:
        """Storage words of a level."""
        return self.architecture.levels[level].rooms.get("", 0)

    def groups(self, graph: Graph, step: GroupStep) -> Iterator[tuple[Group, Border]]:
        """The group of a step in each order in which it may run."""
        for order, border in step.orders(graph):
            key = id(graph), order
            if key not in self.known:
                self.known[key] = make_group(graph, order)
            yield self.known[key], border

    def _solve(self, graph: Graph, ways: Ways, step: GroupStep, below: float, cost: _StepCost) -> None:
        """Fuse a group, if that takes less than `below`."""
        price = self.solutions.price
        assert ways.level is not None
        best: GroupResult | None = None
        bound = math.inf
        for group, border in self.groups(graph, step):
            if self.is_late():
                bound = -math.inf
                break
            if self.on_progress is not None:
                self.on_progress(Progress(what=f"fusing {group.name}"))
            self.looked.add(group.name)
            found, least = fuse_group(
                self.architecture, group, border, self.solutions, level=ways.level, below=below, deadline=self.deadline
            )
            bound = min(bound, least)
            if found is not None:
                best, below = found, price.value(found.totals.energy_pj, found.totals.cycles)[0]
        cost.bound = max(bound, cost.bound)
        if best is None:
            cost.value = max(cost.value, (cost.bound, 0.0))
            cost.stuck = bound < below
            return
        layers = best.group.layers
        alone = tuple(price.best(self.alone(layer).results) for layer in layers)
        cost.value = price.value(best.totals.energy_pj, best.totals.cycles)
        cost.bound = min(cost.bound, cost.value[0])
        cost.segment = Segment(layers, 1, alone, None, best)

    def alone(self, einsum: Einsum) -> _UnfusedLayer:
        """Map a layer by itself; equal ones once."""
        if einsum.name in self.mapped:
            return self.mapped[einsum.name]
        equal = self.equal.setdefault(self.key(einsum), einsum)
        known = self.mapped.get(equal.name)
        results = known and carry_over(known.results, self.solutions.machine(einsum.operation), equal, einsum)
        found = _UnfusedLayer(results, known.least) if known and results else self._search(einsum)
        self.mapped[einsum.name] = found
        return found

    def key(self, einsum: Einsum) -> str:
        """Content of the problem that a layer by itself is."""
        return content_key(self.solutions.machine(einsum.operation), einsum, self.options, self.rules.get(einsum.name))

    def map_again(self, before: Budget) -> None:
        """Search once more for layers that are not proved by themselves, as long as each has more time than before."""
        unsure = [each for each in self.equal.values() if self.mapped[each.name].least is not None]
        self.waiting = len(unsure)
        for einsum in unsure:
            known, budget = self.mapped[einsum.name], self.budget()
            if asked() or budget is None or (budget.seconds or 0.0) <= (before.seconds or 0.0):
                break
            found = self._search(einsum)
            if found.least is not None and known.least is not None:
                least = max(found.least[0], known.least[0]), max(found.least[1], known.least[1])
                found = _UnfusedLayer((*known.results, *found.results), least)
            self.mapped[einsum.name] = found
        self.mapped = {each.name: self.mapped[each.name] for each in self.equal.values()}  # others are equal to these

    def _search(self, einsum: Einsum) -> _UnfusedLayer:
        if self.on_progress is not None:
            self.on_progress(Progress(what=f"mapping {einsum.name}"))
        found = self._front(einsum) if self.solutions.fronts else self._best(einsum)
        self.waiting -= 1
        return found

    def _best(self, einsum: Einsum) -> _UnfusedLayer:
        energy, budget = self.solutions.price.energy > 0, self.budget()
        machine, rules = self.solutions.machine(einsum.operation), self.rules.get(einsum.name)
        search = map_with_cache(
            machine,
            einsum,
            replace(self.options, objective="energy" if energy else "cycles"),
            self.cache,
            constraints=rules,
            budget=budget,
            workers=self.workers,
        )
        self.spaces.append(search.space)
        proof = next(iter(search.parts), search.certificate)  # the first part is even mappings with perfect factors
        if proof is None or proof.proved:
            best = search.best
            if energy and best.valid:
                space = MapSpace(encode(machine, einsum), (rules or NO_RULES).settled(machine, einsum))
                best = fastest_of_equals(space, best, budget)
            return _UnfusedLayer((best,), None)
        self.solutions.stop = search.stop
        return _UnfusedLayer((search.best,), (proof.bound, 0.0) if energy else (0.0, proof.bound))

    def _front(self, einsum: Einsum) -> _UnfusedLayer:
        """Front of energy and cycles of a layer, or what of it is found in time."""
        from accelsim.search.exact.front import map_front

        found = map_front(
            self.solutions.machine(einsum.operation), einsum, constraints=self.rules.get(einsum.name),
            uneven=self.options.uneven, imperfect=self.options.imperfect, pad=self.options.pad, budget=self.budget(),
            workers=self.workers,
        )  # fmt: skip
        self.spaces += [each.space for each in (found.ends or (found,))]
        if found.stop == "interrupted":
            raise KeyboardInterrupt
        if found.stop == "exhausted":
            return _UnfusedLayer(found.points, None)
        self.solutions.stop = found.stop
        limits = layer_limits(self.solutions.machine(einsum.operation), einsum)
        return _UnfusedLayer(found.points, (limits.energy_pj * (1 - ROUNDING), limits.cycles))

    def budget(self) -> Budget | None:
        """Time for one layer, if it is limited: an equal share of what is left for those that wait and for fusing."""
        end = self.solutions.prove_until
        if end is None:
            return None
        return Budget(seconds=max(LEAST_SECONDS, (end - time.monotonic()) / (self.waiting + 1)))


def sum_segments(segments: Sequence[Segment], price: Price) -> Value:
    """What some segments cost together."""
    total = sum_totals([(1, segment.totals) for segment in segments])
    return price.value(total.energy_pj, total.cycles)


def fuse(
    architecture: Architecture,
    workload: Workload,
    *,
    constraints: Constraints | Mapping[str, Constraints | None] | None = None,
    objective: str = "energy",
    chain: Sequence[str] = (),
    longest: int | None = None,
    overlap: bool = False,
    seconds: float | None = None,
    options: MapOptions | None = None,
    cache: ResultCache | None = None,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> FusedNetwork:
    """Find the groups of layers to fuse, and how, and prove that nothing in the space is better.

    As `accelsim.fuse`; the workload's edges say which layer reads what, and without any, neighbours whose shapes line
    up are taken to be joined. `constraints` are of each layer by its name, or of all. `options`: among which mappings
    the best one of a layer by itself is looked for; parts of fused layers have even ones with perfect factors. Raises
    NoValidMappingError if a layer has no valid mapping, AccelsimError if the objective is unknown, the named layers do
    not follow each other, or constraints bound what a layer that may be fused costs.
    """
    goal, started = Objective.parse(objective), time.monotonic()
    goal.powers  # noqa: B018  # raises where there are none
    found = find_graphs(workload)
    graphs = (named_graph(workload, chain),) if chain else found.graphs
    given = dict(constraints) if isinstance(constraints, Mapping) else {e.name: constraints for e in workload.layers}
    for each in workload.layers:
        asked_of = given.get(each.name)
        given[each.name] = asked_of and _on_unit(architecture, each, asked_of)
    graphs = tuple(_with_rules(architecture, graph, given) for graph in graphs)
    graphs = put_together(graphs)
    until = None if seconds is None else started + (1 - SHARE_OF_WALKS) * seconds
    price = CYCLES if goal.alone == "cycles" else ENERGY
    solutions = Solutions(architecture, price, not goal.alone, overlap, until)
    deadline = None if seconds is None else started + seconds
    search = NetworkSearch(
        architecture, solutions, longest, deadline, cache, workers, on_progress, given, options or MapOptions()
    )
    segments, certificate = _best_segments(search, goal, graphs)
    stop = "exhausted"
    if search.late:
        stop = "interrupted" if asked() else "timeout"
    elif not certificate.proved:
        stop = solutions.stop
    return FusedNetwork(
        architecture=architecture.name,
        workload=workload.name,
        objective=goal.name,
        segments=segments,
        certificate=certificate,
        apart=() if chain else found.apart,
        why_not=_why_not(architecture, graphs, found.apart),
        inferred=found.inferred and not chain,
        chain=tuple(chain),
        longest=longest,
        overlap=overlap,
        stop=stop,
        groups=len(search.looked),
        solved=solutions.solved,
        units={operation: unit.name for unit in architecture.vector_units for operation in unit.operations},
        clock_hz=architecture.clock_hz,
        spaces=tuple(dict.fromkeys(search.spaces)),
        seconds=time.monotonic() - started,
        graphs=graphs,
        search=search,
    )


def _why_not(architecture: Architecture, graphs: Sequence[Graph], apart: Sequence[Apart]) -> str:
    """Why no output can stay on the chip for one that reads it; empty if one can."""
    reasons = []
    for graph in graphs:
        for link in graph.links:
            for reader in link.readers if link.producer is not None else ():
                levels = fusing_levels(architecture, make_group(graph, (link.producer or 0, reader.layer)))
                if not isinstance(levels, str):
                    return ""
                reasons.append(levels)
    if reasons:
        return reasons[0]
    return "all layers that read each other's outputs are apart" if apart else "no layer reads what another one writes"


def _on_unit(architecture: Architecture, einsum: Einsum, rules: Constraints) -> Constraints:
    """What is asked of a layer, as far as a vector unit that runs it has the levels; its lanes may run any loop."""
    unit = architecture.unit_of(einsum.operation)
    if unit is None:
        return rules
    names = [level.name for level in architecture.levels]
    names = names[: names.index(unit.below) + 1]
    kept = [
        replace(each, x=Block(), y=Block()) if each.level == unit.below else each
        for each in rules.levels
        if each.level in names
    ]
    return replace(rules, levels=tuple(kept))


def _with_rules(architecture: Architecture, graph: Graph, given: Mapping[str, Constraints | None]) -> Graph:
    """The graph with the constraints of its layers.

    Raises AccelsimError if they bound the costs of a layer that would run in parts.
    """
    machines = [architecture.for_operation(each.operation) for each in graph.layers]
    asked = [
        (given.get(each.name) or NO_RULES).settled(machine, each)
        for machine, each in zip(machines, graph.layers, strict=True)
    ]
    costs = {text: None for rules in asked for text in rules.on_costs}
    if len(asked) > 1 and costs:
        raise AccelsimError(
            f"constraints ask for {listed(costs)} of each layer, which says nothing of the parts in which fused layers "
            "run; leave that out, or all constraints with `--constraints none`"
        )
    return replace(graph, rules=tuple(asked))


def _best_segments(
    search: NetworkSearch, goal: Objective, graphs: Sequence[Graph]
) -> tuple[tuple[Segment, ...], Certificate]:
    """Look for the best segments of all graphs together; once each layer is mapped there is an answer at any time.

    Small groups first: larger ones only make the answer better.
    """
    layers = [layer for graph in graphs for layer in graph.layers]
    search.waiting = len({search.key(layer) for layer in layers})
    first = search.budget()
    for layer in layers:
        search.alone(layer)
    with heeding():
        if first is not None:
            with suppress(KeyboardInterrupt):  # what is known by then is an answer
                search.map_again(first)
        fronts, price = search.solutions.fronts, search.solutions.price
        alone = _least_alone(search, goal, graphs) if fronts else None
        several = [] if alone is None else [alone]
        most = max(len(graph.layers) for graph in graphs)
        most = min(most, search.longest or most)
        for size in sorted({min(size, most) for size in (*SIZES, most)}):
            search.most = size
            if fronts:
                found, bound = least_product(goal, lambda price: _cheapest(search, graphs, price), search.is_late)
            else:
                found = _cheapest(search, graphs, price)
                bound = found.bound ** sum(goal.powers)
            several.append(found)
            if search.is_late():
                break
    best = min(several, key=lambda found: goal.value(found.energy_pj, found.cycles))
    value = goal.value(best.energy_pj, best.cycles)
    bound = value if bound >= value * (1 - SAME) else bound
    segments = best.what
    if alone is not None:  # as each layer is best with none fused, whatever the price
        results = {segment.layers[0].name: segment.alone for segment in alone.what}
        segments = tuple(
            replace(each, alone=tuple(result for layer in each.layers for result in results[layer.name]))
            for each in best.what
        )
    return segments, Certificate(value, bound, search.solutions.nodes, len(search.looked), 0)


def _least_alone(search: NetworkSearch, goal: Objective, graphs: Sequence[Graph]) -> Optimum[tuple[Segment, ...]]:
    """Layers by themselves of the least product."""
    each = tuple(layer for graph in graphs for layer in graph.layers)
    repeats = [graph.repeat for graph in graphs for _ in graph.layers]

    def cheapest(price: Price) -> Optimum[tuple[Segment, ...]]:
        search.solutions.price = price
        several = [search.alone(layer).cost(layer, price).segment for layer in each]
        merged = _merged([replace(s, repeat=n) for s, n in zip(several, repeats, strict=True) if s is not None])
        total = sum_totals([(segment.repeat, segment.totals) for segment in merged])
        bound = price.value(total.energy_pj, total.cycles)[0]
        return Optimum(price, total.energy_pj, total.cycles, bound, merged)

    return least_product(goal, cheapest, lambda: False)[0]


def _cheapest(search: NetworkSearch, graphs: Sequence[Graph], price: Price) -> Optimum[tuple[Segment, ...]]:
    """Segments of all graphs that cost least at a price."""
    search.solutions.price = price
    segments: list[Segment] = []
    bound = 0.0
    for graph in graphs:
        parts, least = search.graph(graph)
        place = {layer.name: at for at, layer in enumerate(graph.layers)}
        for each in parts:
            at = [place[layer.name] for layer in each.layers]
            alike = tuple((tuple(names[n] for n in at), repeat) for names, repeat in graph.alike)
            segments.append(replace(each, repeat=graph.repeat, alike=alike))
        bound += graph.repeat * least
    merged = _merged(segments)
    total = sum_totals([(segment.repeat, segment.totals) for segment in merged])
    return Optimum(price, total.energy_pj, total.cycles, bound, merged)


def _merged(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Equal segments of several graphs as one that counts them all."""
    found: dict[object, Segment] = {}
    for each in segments:
        key = tuple(layer.name for layer in each.layers), each.fused and (each.fused.tiling, each.fused.border)
        known = found.get(key)
        if known is not None:
            counts = Counter(dict(known.alike))
            counts.update(dict(each.alike))
            each = replace(known, repeat=known.repeat + each.repeat, alike=tuple(counts.items()))
        found[key] = each
    return tuple(found.values())
