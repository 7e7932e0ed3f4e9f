"""The best fused tiling of a chain: best first by lower bounds, each part solved by the exact mapper and only once."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from accelsim.fusion.chain import Chain, Link, Shortcut
from accelsim.fusion.part import Held, PartLimits, PartResult, held_by, map_part, without_held
from accelsim.fusion.result import NOTHING, ChainResult, FusedPart, Price, Value, sum_totals
from accelsim.fusion.tiling import FusedTiling, LayerPart, Run, fusing_levels, least_room, runs
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.result import Result
from accelsim.search.result import Certificate
from accelsim.search.stopping import asked

_ROUNDED = 1e-11
"""What a sum of energies may lose by rounding, relative to it."""


@dataclass(frozen=True, slots=True)
class PartProblem:
    """A part as the exact mapper sees it, whatever its layer is called: bounds by dimension, tensors, what is held."""

    bounds: tuple[tuple[str, int], ...]
    tensors: tuple[Tensor, ...]
    held: Held

    @property
    def einsum(self) -> Einsum:
        """The part as an Einsum."""
        return Einsum("part", dict(self.bounds), self.tensors)


@dataclass(slots=True)
class Solutions:
    """What is known of parts on one machine: best mappings by the words of the fusing level that they may use."""

    architecture: Architecture
    # what a mapping costs. It may change where `fronts` are kept, which hold the best mappings for any price
    price: Price
    fronts: bool = False  # solve parts for their fronts of energy and cycles, and not for the price as it is
    # when to prove nothing more, by `time.monotonic`: mappings of further parts are found by walks
    prove_until: float | None = None
    stop: str = "exhausted"  # `exhausted`, or why the last search ended that did not prove its answer
    found: dict[PartProblem, list[PartResult]] = field(default_factory=dict)
    impossible: dict[PartProblem, int] = field(default_factory=dict)
    limits: dict[tuple[tuple[str, ...], tuple[Tensor, ...], Held], PartLimits] = field(default_factory=dict)
    least: dict[PartProblem, tuple[float, int]] = field(default_factory=dict)
    candidates: dict[tuple[str, tuple[Link, ...], Shortcut | None], list[_Candidate]] = field(default_factory=dict)
    solved: int = 0
    nodes: int = 0

    def known(self, part: PartProblem, capacity: int) -> Result | None:
        """Mapping of a part within so many words, the best that its search found, if there was one."""
        fitting = (each.fitting(self.price, capacity) for each in self.found.get(part, ()))
        return next((result for result in fitting if result is not None), None)

    def gave_up(self, part: PartProblem, capacity: int) -> bool:
        """Whether a search for a mapping of a part within so many words was stopped before it found one."""
        return any(each.capacity == capacity and not each.results for each in self.found.get(part, ()))

    def fits(self, part: PartProblem, capacity: int) -> bool:
        """Whether it is not known that no mapping fits."""
        return capacity > self.impossible.get(part, -1)

    def limit(self, part: PartProblem) -> Value:
        """Value that no mapping of a part falls below, nor all parts together that it may be cut into."""
        if part not in self.least:
            kind = tuple(dim for dim, _ in part.bounds), part.tensors, part.held
            if kind not in self.limits:
                self.limits[kind] = PartLimits.make(self.architecture, part.einsum, part.held)
            self.least[part] = self.limits[kind].of(tuple(bound for _, bound in part.bounds))
        return self.price.value(*self.least[part])

    def bound(self, part: PartProblem, capacity: int) -> Value:
        """Value that no mapping of a part falls below; more room never makes it larger."""
        least = self.limit(part)
        for each in self.found.get(part, ()):
            known = each.fitting(self.price, capacity) if each.proved else None
            if known is not None:
                return self.price.of(known)
            if each.capacity >= capacity:
                its = self.price.of(each.best(self.price)[0]) if each.proved else self.price.value(*each.least)
                least = max(least, (its[0], least[1]))
        return least

    def solve(self, part: PartProblem, capacity: int) -> None:
        """Map a part, with all of the fusing level at first: the answer often does for less; see `map_part`."""
        level = self.architecture.levels[part.held.level]
        whole = level.rooms.get("", 0)
        several = self.found.setdefault(part, [])
        room = capacity if several else whole
        price = None if self.fronts else self.price
        answer = map_part(self.architecture, part.einsum, part.held, room, price, self.prove_until)
        self.solved += 1
        if answer is None:
            self.impossible[part] = max(room, self.impossible.get(part, -1))
            return
        self.nodes += answer.nodes
        self.stop = self.stop if answer.proved else answer.stop
        several.append(answer)

    def fused_tilings(self, chain: Chain) -> list[_Candidate]:
        """Fused tilings of a chain that leave room; kept where the same chain is looked at for several prices."""
        key = chain.name, chain.links, chain.shortcut
        if key in self.candidates:
            return self.candidates[key]
        found = list(_candidates(self.architecture, chain))
        if self.fronts:
            self.candidates[key] = found
        return found


_Item = tuple[Run, PartProblem, int]
"""A part of a candidate, as a problem, and the words that it may use."""


@dataclass(slots=True)
class _Candidate:
    """A fused tiling with its parts."""

    tiling: FusedTiling
    parts: list[_Item]


def _work(item: _Item) -> int:
    """Multiply-accumulates of a part in all steps: the larger, the more its bound may rise."""
    run, part, _ = item
    return run.count * math.prod(bound for _, bound in part.bounds)


def fuse_chain(
    architecture: Architecture,
    chain: Chain,
    solutions: Solutions,
    *,
    below: float = math.inf,
    deadline: float | None = None,
) -> tuple[ChainResult | None, float]:
    """Find the best fused tiling of a chain, at any level that can keep its intermediates.

    `solutions`: known parts, to which new ones are added. `below`: only a tiling of a smaller value is of interest.
    `deadline`: when to end with what is found, by `time.monotonic`. Returns the tiling, None if none fits, or none is
    below; and the value that no fused tiling falls below, infinite if there is none.
    """
    solved_before, nodes_before = solutions.solved, solutions.nodes
    candidates = solutions.fused_tilings(chain)
    heap = [(_bound(each, solutions), number) for number, each in enumerate(candidates)]
    heapq.heapify(heap)
    best, best_value = None, NOTHING
    stop, left = "exhausted", math.inf  # what no search can bound closer
    while heap and heap[0][0] < min(best_value, (below, -math.inf)):
        if asked() or (deadline is not None and time.monotonic() > deadline):
            stop = "interrupted" if asked() else "timeout"
            break
        least, number = heapq.heappop(heap)
        each = candidates[number]
        now = _bound(each, solutions)
        if now > least:
            if now < NOTHING:
                heapq.heappush(heap, (now, number))
            continue
        unknown = [item for item in each.parts if solutions.known(item[1], item[2]) is None]
        if unknown and not any(solutions.gave_up(part, room) for _, part, room in unknown):
            try:
                _solve(unknown, solutions)
            except KeyboardInterrupt:
                if not asked():
                    raise
            now = _bound(each, solutions)
            if now < NOTHING:
                heapq.heappush(heap, (now, number))
        else:
            left = min(left, now[0])
        value = _value(each, solutions)
        if value is not None and value < best_value:
            best, best_value = each, value
    bound = min(heap[0][0][0] if heap else math.inf, left, best_value[0])
    if stop == "exhausted" and bound < best_value[0] * (1 - _ROUNDED):
        stop = solutions.stop
    if best is None or best_value[0] >= below:
        return None, bound
    parts = _fused_parts(chain, best, solutions)
    totals = sum_totals([(part.count, part.result) for part in parts])
    worth = solutions.price.value(totals.energy_pj, totals.cycles)[0]
    low = worth if bound >= worth * (1 - _ROUNDED) else bound
    counts = solutions.nodes - nodes_before, solutions.solved - solved_before
    proof = Certificate(worth, low, *counts, 0)
    return ChainResult(chain, best.tiling, parts, solutions.price, proof, stop, len(candidates)), bound


def _solve(unknown: Sequence[_Item], solutions: Solutions) -> None:
    """Map the largest of some parts; all of them, so that there is an answer, where nothing more is proved."""
    late = solutions.prove_until is not None and time.monotonic() > solutions.prove_until
    for _, part, room in sorted(unknown, key=_work, reverse=True)[: len(unknown) if late else 1]:
        solutions.solve(part, room)


def fused_limits(architecture: Architecture, chain: Chain, solutions: Solutions) -> Value:
    """Value that no fused tiling of a chain falls below, whatever its level; infinite if no level can keep a tensor.

    The parts of a layer together execute what is demanded of it at least once, and touch each of its words; what is
    read again may be there.
    """
    levels = fusing_levels(architecture, chain)
    least = NOTHING
    for at in levels.values() if isinstance(levels, dict) else ():
        costs = []
        for layer, einsum in enumerate(chain.layers):
            bounds = chain.needed[layer]
            again = [chain.shortcut.again] if chain.shortcut is not None and chain.shortcut.layer == layer else []
            values = []
            for present in (frozenset[str](), frozenset(again)):
                held = held_by(chain, LayerPart(layer, tuple(bounds.values()), present=present), at)
                values.append(solutions.limit(PartProblem(tuple(bounds.items()), einsum.tensors, held)))
            costs.append((1, (min(value[0] for value in values), min(value[1] for value in values))))
        least = min(least, _sum(costs))
    return least


def _candidates(architecture: Architecture, chain: Chain) -> Iterator[_Candidate]:
    """Fused tilings whose held words leave room, with their parts."""
    levels = fusing_levels(architecture, chain)
    for name, at in levels.items() if isinstance(levels, dict) else ():
        level = architecture.levels[at]
        capacity = level.rooms.get("", 0)
        helds: dict[tuple[int, frozenset[str], frozenset[str]], Held] = {}
        for tiling in least_room(architecture, chain, name):
            parts = runs(chain, tiling, level)
            if any(run.reserved + run.own > capacity for run in parts):
                continue
            items = []
            for run in parts:
                kind = run.part.layer, run.part.arriving, run.part.present
                held = helds.setdefault(kind, held_by(chain, run.part, at))
                einsum = chain.layers[run.part.layer]
                bounds = tuple(zip(einsum.dims, run.part.bounds, strict=True))
                items.append((run, PartProblem(bounds, einsum.tensors, held), capacity - run.reserved))
            yield _Candidate(tiling, items)


def _sum(costs: Iterable[tuple[int, Value]]) -> Value:
    """Value of parts, each as often as it runs."""
    first, second = 0.0, 0.0
    for count, cost in costs:
        first, second = first + count * cost[0], second + count * cost[1]
    return first, second


def _bound(each: _Candidate, solutions: Solutions) -> Value:
    """Value that a fused tiling does not fall below."""
    if not all(solutions.fits(part, room) for _, part, room in each.parts):
        return NOTHING
    return _sum((run.count, solutions.bound(part, room)) for run, part, room in each.parts)


def _value(each: _Candidate, solutions: Solutions) -> Value | None:
    """Value of a fused tiling, if each of its parts is mapped."""
    costs = []
    for run, part, room in each.parts:
        known = solutions.known(part, room)
        if known is None:
            return None
        costs.append((run.count, solutions.price.of(known)))
    return _sum(costs)


def _fused_parts(chain: Chain, each: _Candidate, solutions: Solutions) -> tuple[FusedPart, ...]:
    """Parts with their best mappings, in the order of the layers."""
    names = [level.name for level in solutions.architecture.levels]
    parts = []
    for run, part, room in each.parts:
        known, layer = solutions.known(part, room), chain.layers[run.part.layer].name
        if known is None:
            raise RuntimeError(f"a part of {layer} has no mapping")
        result = replace(without_held(known, part.held, names, room), workload=layer)
        parts.append(FusedPart(run.part, run.count, run.reserved, result))
    return tuple(sorted(parts, key=lambda p: (p.part.layer, -p.count, p.part.bounds, sorted(p.part.present))))
