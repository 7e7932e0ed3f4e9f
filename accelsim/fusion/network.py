"""Which chains of a network to fuse, for the least energy, the fewest cycles, or the least product of both.

The best segments of each line at a price are a shortest path over every row of neighbours in it.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from accelsim.fusion.chain import Line, find_lines, named_line, put_together
from accelsim.fusion.result import (
    CYCLES,
    ENERGY,
    NOTHING,
    SAME,
    FusedNetwork,
    Optimum,
    Price,
    Segment,
    Value,
    least_product,
    sum_totals,
)
from accelsim.fusion.search import LEAST_SECONDS, NO_RULES, Solutions, fuse_chain, fused_limits
from accelsim.fusion.tiling import fusing_levels, most_tilings
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.objective import Objective
from accelsim.inputs.units import listed
from accelsim.inputs.workload import Einsum, Workload
from accelsim.model.limits import layer_limits
from accelsim.model.result import Result
from accelsim.results.cache import MapOptions, ResultCache, carry_over, content_key, map_with_cache
from accelsim.search.result import Certificate, SearchedSpace
from accelsim.search.stopping import Budget, OnProgress, Progress, asked, heeding

SHARE_OF_WALKS = 0.25
"""Of the time that is given, how much is left at the end for mappings that are found by walks, and not proved."""
FEW_TILINGS = 10_000
"""Fused tilings of the rows that are looked at first, and how many times as many those have that come next."""
_ROUNDED = 1 - 1e-11
"""What a sum of energies may lose by rounding."""


@dataclass(frozen=True, slots=True)
class _UnfusedLayer:
    """Mappings of a layer by itself, for the prices that are asked for.

    `least`: energy [pJ] and cycles that no even one with perfect factors falls below, where it is not proved that none
    of these is better.
    """

    results: tuple[Result, ...]
    least: tuple[float, float] | None

    def cost(self, einsum: Einsum, price: Price) -> _RowCost:
        """The layer as a row of its own."""
        result = price.best(self.results)
        value = price.of(result)
        bound = value[0] if self.least is None else min(value[0], price.value(*self.least)[0])
        return _RowCost(value, bound, Segment((einsum,), 1, (result,), result, None))


_Row = tuple[int, int]
"""Layers of a line, from one to before another."""


@dataclass(frozen=True, slots=True)
class _RowCost:
    """A row of a line: its value, or a lower limit where `segment` is None, and what it does not fall below."""

    value: Value
    bound: float
    segment: Segment | None


@dataclass(slots=True)
class NetworkSearch:
    """What is known while the lines of a network are gone through."""

    architecture: Architecture
    solutions: Solutions  # parts that are solved, and the price that counts
    longest: int | None  # layers that a fused chain has at most
    deadline: float | None  # when to look for nothing better any more, by `time.monotonic`
    cache: ResultCache | None
    workers: int | None
    on_progress: OnProgress | None
    rules: Mapping[str, Constraints | None]  # of layers by name
    options: MapOptions = field(default_factory=MapOptions)  # of the mappings of layers by themselves
    spaces: list[SearchedSpace] = field(default_factory=list)  # mappings that were searched for these
    mapped: dict[str, _UnfusedLayer] = field(default_factory=dict)  # layers by themselves, by name
    equal: dict[str, Einsum] = field(default_factory=dict)  # the first layer of each content
    looked: set[str] = field(default_factory=set)  # chains that were looked at
    rows: dict[object, dict[_Row, _RowCost]] = field(default_factory=dict)  # of each line and price
    sizes: dict[object, dict[_Row, int]] = field(default_factory=dict)  # of each line; see `rows_of`
    most: float = 0  # fused tilings of a row that may be fused at most
    waiting: int = 0  # layers that are still to be mapped by themselves
    late: bool = False

    def is_late(self) -> bool:
        """Whether to look for nothing better any more."""
        self.late = self.late or bool(asked()) or (self.deadline is not None and time.monotonic() > self.deadline)
        return self.late

    def rows_of(self, line: Line) -> dict[_Row, int]:
        """Rows of a line that may be fused, and how many fused tilings each has at most."""
        many, key = len(line.layers), line.key
        if key not in self.sizes:
            lengths = range(2, min(many, self.longest or many) + 1)
            rows = ((first, first + length) for length in lengths for first in range(many - length + 1))
            self.sizes[key] = {row: most_tilings(line.chain(*row)) for row in rows}
        return self.sizes[key]

    def line(self, line: Line) -> tuple[tuple[Segment, ...], float]:
        """Best segments of a line, and the value that no fusion of it falls below.

        A shortest path over the borders between layers. A row that is not solved yet goes in with its lower limit; as
        long as the shortest path leads over such rows, one of them is solved. What is known of rows is kept for when
        there are more of them; those that were too dear beside the others are open again then.
        """
        many, price = len(line.layers), self.solutions.price
        costs = self.rows.setdefault((line.key, price), {})
        costs |= {(at, at + 1): self.alone(einsum).cost(einsum, price) for at, einsum in enumerate(line.layers)}
        costs |= {
            row: _RowCost((cost.bound, 0.0), cost.bound, None)
            for row, cost in costs.items()
            if cost.value == NOTHING and cost.bound < math.inf
        }
        for row, tilings in self.rows_of(line).items():
            if tilings <= self.most and row not in costs:
                least = fused_limits(self.architecture, line.chain(*row), self.solutions)
                costs[row] = _RowCost(least, least[0], None)
        while True:
            path = _shortest(many, {row: cost.value for row, cost in costs.items()})
            unsolved = [row for row in path if costs[row].segment is None]
            if not unsolved:
                break
            sure = {row: cost.value for row, cost in costs.items() if cost.segment is not None}
            row = max(unsolved, key=lambda row: row[1] - row[0])
            rest = _shortest(many, {r: c.value for r, c in costs.items() if r != row}, row)
            room = math.fsum(sure[r][0] for r in _shortest(many, sure)) - math.fsum(costs[r].value[0] for r in rest)
            costs[row] = self._fused_row(line, row, room, costs[row].bound)
        bounds = {row: (cost.bound, 0.0) for row, cost in costs.items()}
        bound = math.fsum(bounds[row][0] for row in _shortest(many, bounds))
        return tuple(cost.segment for row in path if (cost := costs[row]).segment is not None), bound

    def _fused_row(self, line: Line, row: _Row, below: float, least: float) -> _RowCost:
        """A row fused as a whole, if that takes less than `below`; it takes `least` at least."""
        layers = line.layers[row[0] : row[1]]
        alone = tuple(self.solutions.price.best(self.alone(layer).results) for layer in layers)
        if self.is_late():
            return _RowCost(NOTHING, least, Segment(layers, 1, alone, None, None))
        chain, price = line.chain(*row), self.solutions.price
        if self.on_progress is not None:
            self.on_progress(Progress(what=f"fusing {chain.name}"))
        self.looked.add(chain.name)
        found, bound = fuse_chain(self.architecture, chain, self.solutions, below=below, deadline=self.deadline)
        self.is_late()
        if found is None:
            return _RowCost(NOTHING, max(bound, least), Segment(layers, 1, alone, None, None))
        value = price.value(found.totals.energy_pj, found.totals.cycles)
        return _RowCost(value, min(bound, value[0]), Segment(layers, 1, alone, None, found))

    def alone(self, einsum: Einsum) -> _UnfusedLayer:
        """Map a layer by itself; equal ones once."""
        if einsum.name in self.mapped:
            return self.mapped[einsum.name]
        equal = self.equal.setdefault(self.key(einsum), einsum)
        known = self.mapped.get(equal.name)
        results = known and carry_over(known.results, self.architecture, equal, einsum)
        found = _UnfusedLayer(results, known.least) if known and results else self._search(einsum)
        self.mapped[einsum.name] = found
        return found

    def key(self, einsum: Einsum) -> str:
        """Content of the problem that a layer by itself is."""
        return content_key(self.architecture, einsum, self.options, self.rules.get(einsum.name))

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
        energy = self.solutions.price.energy > 0
        search = map_with_cache(
            self.architecture,
            einsum,
            replace(self.options, objective="energy" if energy else "cycles"),
            self.cache,
            constraints=self.rules.get(einsum.name),
            budget=self.budget(),
            workers=self.workers,
        )
        self.spaces.append(search.space)
        proof = next(iter(search.parts), search.certificate)  # the first part is even mappings with perfect factors
        if proof is None or proof.proved:
            return _UnfusedLayer((search.best,), None)
        self.solutions.stop = search.stop
        return _UnfusedLayer((search.best,), (proof.bound, 0.0) if energy else (0.0, proof.bound))

    def _front(self, einsum: Einsum) -> _UnfusedLayer:
        """Front of energy and cycles of a layer, or what of it is found in time."""
        from accelsim.search.exact.front import map_front

        found = map_front(
            self.architecture, einsum, constraints=self.rules.get(einsum.name), uneven=self.options.uneven,
            imperfect=self.options.imperfect, pad=self.options.pad, budget=self.budget(), workers=self.workers,
        )  # fmt: skip
        self.spaces += [each.space for each in (found.ends or (found,))]
        if found.stop == "interrupted":
            raise KeyboardInterrupt
        if found.stop == "exhausted":
            return _UnfusedLayer(found.points, None)
        self.solutions.stop = found.stop
        limits = layer_limits(self.architecture, einsum)
        return _UnfusedLayer(found.points, (limits.energy_pj * _ROUNDED, limits.cycles))

    def budget(self) -> Budget | None:
        """Time for one layer, if it is limited: an equal share of what is left for those that wait and for fusing."""
        end = self.solutions.prove_until
        if end is None:
            return None
        return Budget(seconds=max(LEAST_SECONDS, (end - time.monotonic()) / (self.waiting + 1)))


def _shortest(many: int, rows: Mapping[_Row, Value], over: _Row | None = None) -> list[_Row]:
    """Rows of the shortest path from the first to after the last layer; those beside `over` if it has to lead there."""
    if over is not None:
        before = {row: value for row, value in rows.items() if row[1] <= over[0]}
        after = {(a - over[1], b - over[1]): value for (a, b), value in rows.items() if a >= over[1]}
        behind = [(a + over[1], b + over[1]) for a, b in _shortest(many - over[1], after)]
        return _shortest(over[0], before) + behind
    best: list[tuple[Value, list[_Row]]] = [((0.0, 0.0), [])]
    for end in range(1, many + 1):
        costs = [
            ((best[a][0][0] + value[0], best[a][0][1] + value[1]), [*best[a][1], (a, b)])
            for (a, b), value in rows.items()
            if b == end
        ]
        best.append(min(costs))
    return best[many][1]


def fuse(
    architecture: Architecture,
    workload: Workload,
    *,
    constraints: Constraints | Mapping[str, Constraints | None] | None = None,
    objective: str = "energy",
    chain: Sequence[str] = (),
    longest: int | None = None,
    seconds: float | None = None,
    options: MapOptions | None = None,
    cache: ResultCache | None = None,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> FusedNetwork:
    """Find the chains of consecutive layers to fuse, and how, and prove that nothing in the space is better.

    As `accelsim.fuse`; the workload's edges say which layer reads what, and without any, neighbours whose shapes line
    up are taken to be joined. `constraints` are of each layer by its name, or of all. `options`: among which mappings
    the best one of a layer by itself is looked for; parts of fused chains have even ones with perfect factors. Raises
    NoValidMappingError if a layer has no valid mapping, AccelsimError if the objective is unknown, the named layers do
    not follow each other, or constraints bound what a layer that may be fused costs.
    """
    goal, started = Objective.parse(objective), time.monotonic()
    goal.powers  # noqa: B018  # raises where there are none
    found = find_lines(workload)
    lines = (named_line(workload, chain),) if chain else found.lines
    given = constraints if isinstance(constraints, Mapping) else {e.name: constraints for e in workload.layers}
    lines = tuple(_with_rules(architecture, line, given) for line in lines)
    joined = [line for line in lines if len(line.layers) > 1]
    lines = put_together(lines)
    until = None if seconds is None else started + (1 - SHARE_OF_WALKS) * seconds
    solutions = Solutions(architecture, CYCLES if goal.alone == "cycles" else ENERGY, not goal.alone, until)
    deadline = None if seconds is None else started + seconds
    search = NetworkSearch(
        architecture, solutions, longest, deadline, cache, workers, on_progress, given, options or MapOptions()
    )
    segments, certificate = _best_segments(search, goal, lines)
    stop = "exhausted"
    if search.late:
        stop = "interrupted" if asked() else "timeout"
    elif not certificate.proved:
        stop = solutions.stop
    levels = fusing_levels(architecture, joined[0].chain()) if joined else "no two layers follow each other in a line"
    return FusedNetwork(
        architecture=architecture.name,
        workload=workload.name,
        objective=goal.name,
        segments=segments,
        certificate=certificate,
        apart=() if chain else found.apart,
        why_not=levels if isinstance(levels, str) else "",
        inferred=found.inferred and not chain,
        chain=tuple(chain),
        longest=longest,
        stop=stop,
        chains=len(search.looked),
        solved=solutions.solved,
        clock_hz=architecture.clock_hz,
        spaces=tuple(dict.fromkeys(search.spaces)),
        seconds=time.monotonic() - started,
    )


def _with_rules(architecture: Architecture, line: Line, given: Mapping[str, Constraints | None]) -> Line:
    """The line with the constraints of its layers.

    Raises AccelsimError if they bound the costs of a layer that would run in parts.
    """
    asked = [(given.get(each.name) or NO_RULES).settled(architecture, each) for each in line.layers]
    costs = {text: None for rules in asked for text in rules.on_costs}
    if len(asked) > 1 and costs:
        raise AccelsimError(
            f"constraints ask for {listed(costs)} of each layer, which says nothing of the parts in which fused layers "
            "run; leave that out, or all constraints with `--constraints none`"
        )
    return replace(line, rules=tuple(asked))


def _best_segments(
    search: NetworkSearch, goal: Objective, lines: Sequence[Line]
) -> tuple[tuple[Segment, ...], Certificate]:
    """Look for the best segments of all lines together; once each layer is mapped there is an answer at any time.

    Rows of few fused tilings first, which are the short ones: more rows only make the answer better.
    """
    layers = [layer for line in lines for layer in line.layers]
    search.waiting = len({search.key(layer) for layer in layers})
    first = search.budget()
    for layer in layers:
        search.alone(layer)
    with heeding():
        if first is not None:
            with suppress(KeyboardInterrupt):  # what is known by then is an answer
                search.map_again(first)
        fronts, price = search.solutions.fronts, search.solutions.price
        alone = _least_alone(search, goal, lines) if fronts else None
        several = [] if alone is None else [alone]
        most = max((size for line in lines for size in search.rows_of(line).values()), default=0)
        tilings = FEW_TILINGS
        while search.most < math.inf:
            search.most = math.inf if tilings >= most or search.is_late() else tilings
            tilings *= FEW_TILINGS
            if fronts:
                found, bound = least_product(goal, lambda price: _cheapest(search, lines, price), search.is_late)
            else:
                found = _cheapest(search, lines, price)
                bound = found.bound ** sum(goal.powers)
            several.append(found)
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


def _least_alone(search: NetworkSearch, goal: Objective, lines: Sequence[Line]) -> Optimum[tuple[Segment, ...]]:
    """Layers by themselves of the least product."""
    return least_product(goal, lambda price: _known(_cheapest(search, lines, price)), lambda: False)[0]


def _known(found: Optimum[tuple[Segment, ...]]) -> Optimum[tuple[Segment, ...]]:
    """An optimum of the mappings that are known, which no bound says more of."""
    return replace(found, bound=found.price.value(found.energy_pj, found.cycles)[0])


def _cheapest(search: NetworkSearch, lines: Sequence[Line], price: Price) -> Optimum[tuple[Segment, ...]]:
    """Segments of all lines that cost least at a price."""
    search.solutions.price = price
    segments: list[Segment] = []
    bound = 0.0
    for line in lines:
        parts, least = search.line(line)
        first = 0
        for each in parts:
            end = first + len(each.layers)
            alike = tuple((names[first:end], repeat) for names, repeat in line.alike)
            segments.append(replace(each, repeat=line.repeat, alike=alike))
            first = end
        bound += line.repeat * least
    merged = _merged(segments)
    total = sum_totals([(segment.repeat, segment.totals) for segment in merged])
    return Optimum(price, total.energy_pj, total.cycles, bound, merged)


def _merged(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Equal segments of several lines as one that counts them all."""
    found: dict[object, Segment] = {}
    for each in segments:
        shortcut = each.fused.chain.shortcut if each.fused else None
        key = tuple(layer.name for layer in each.layers), each.fused is not None, shortcut
        known = found.get(key)
        if known is not None:
            counts = Counter(dict(known.alike))
            counts.update(dict(each.alike))
            each = replace(known, repeat=known.repeat + each.repeat, alike=tuple(counts.items()))
        found[key] = each
    return tuple(found.values())
