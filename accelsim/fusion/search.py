"""The best fused tiling of a chain: best first by lower bounds, each part solved by the exact mapper and only once.

A part is a smaller layer, some of whose tensors never leave F, the fusing level. A held tensor (an intermediate, or one
that stays) lies in F as a whole: F keeps it and no loop outside F moves it. What an intermediate or a tensor that is
there already would move at levels outside F, and into F, is taken out of the constants of the cost model; all else is
as for any layer.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from accelsim.fusion.chain import Chain
from accelsim.fusion.result import NOTHING, ChainResult, FusedPart, Price, Value, sum_totals
from accelsim.fusion.tiling import FusedTiling, LayerPart, Run, fusing_levels, least_room, loop_sets, loops_of, runs
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import NoValidMappingError
from accelsim.inputs.mapping import Loop
from accelsim.inputs.objective import FASTEST, LEAST_ENERGY
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import BY_READ, BY_UPDATE, BY_WRITE, Constants, Encoded, encode
from accelsim.model.evaluate import evaluate_encoded
from accelsim.model.limits import touched_words
from accelsim.model.result import Result
from accelsim.results.cache import rules_broken
from accelsim.search.result import Certificate
from accelsim.search.spaces import Spaces
from accelsim.search.stopping import Budget, asked

LEAST_SECONDS = 0.1
"""Time that a layer or a part gets, however late it is."""


NO_RULES = Constraints()


@dataclass(frozen=True, slots=True)
class Held:
    """Tensors that lie in the fusing level as a whole."""

    level: int  # the fusing level
    arriving: frozenset[str]  # fetched by this part
    present: frozenset[str]  # there already
    written: frozenset[str]  # the output, if it stays there

    @property
    def names(self) -> frozenset[str]:
        """All of them."""
        return self.arriving | self.present | self.written

    @property
    def free(self) -> frozenset[str]:
        """Those that move no word outside the fusing level."""
        return self.present | self.written


@dataclass(frozen=True, slots=True)
class PartResult:
    """The best mapping of a part, or its front of energy and cycles."""

    results: tuple[Result, ...]  # none where a search was stopped before it found one
    nodes: int  # partial mappings that were bounded
    # storage words of the fusing level that the part was given, and that each mapping needs
    capacity: int
    used: tuple[int, ...]
    stop: str = "exhausted"  # `exhausted`: proved; else why it is not, `timeout`, `memory` or `interrupted`
    # energy [pJ] and cycles that no mapping falls below, where the results are not proved
    least: tuple[float, float] = (0.0, 0.0)

    @property
    def proved(self) -> bool:
        """Whether no mapping is better."""
        return self.stop == "exhausted"

    def best(self, price: Price) -> tuple[Result, int]:
        """The mapping that costs least, and the words that it needs."""
        return min(zip(self.results, self.used, strict=True), key=lambda pair: price.of(pair[0]))

    def fitting(self, price: Price, capacity: int) -> Result | None:
        """The mapping that costs least, if it answers for so many words too."""
        if not self.results or capacity > self.capacity:
            return None
        result, used = self.best(price)
        return result if used <= capacity else None


def held_by(chain: Chain, part: LayerPart, level: int) -> Held:
    """Tensors of a part that lie in the fusing level."""
    taken, given = chain.intermediates(part.layer)
    there = part.present | ({taken} if taken else set())
    return Held(level, part.arriving, frozenset(there), frozenset({given} if given else ()))


def encode_part(architecture: Architecture, einsum: Einsum, held: Held, capacity: int) -> Encoded:
    """Machine and part as the arrays of the kernel, without what held tensors do not move.

    `capacity`: storage words of the fusing level that the part may use.
    """
    at = held.level
    level = architecture.levels[at]
    smaller = replace(level, size_words=capacity * level.multiple_buffering)
    levels = (*architecture.levels[:at], smaller, *architecture.levels[at + 1 :])
    encoded = encode(replace(architecture, levels=levels, sized={}), einsum)
    c = Constants._make(array.copy() for array in encoded.constants)
    for t, tensor in enumerate(einsum.tensors):
        if tensor.name not in held.free:
            continue
        c.word_parts[:at, t] = 0
        c.energy[:at, t] = 0.0
        c.energy[at, t, BY_WRITE] = 0.0
        if tensor.name in held.present:
            c.already[at] += c.whole[t] * c.word_parts[at, t, 0]
        else:
            c.drain[at] = False
    two_widths = np.array([bool((c.word_parts[:, :, 0] != c.word_parts[:, :, 1]).any())], np.bool_)
    return replace(encoded, constants=c._replace(two_widths=two_widths))


def part_space(encoded: Encoded, held: Held, rules: Constraints = NO_RULES) -> MapSpace:
    """Map space of a part: held tensors lie in the fusing level as a whole, and constraints are kept."""
    einsum, levels = encoded.einsum, encoded.architecture.levels
    moving = frozenset[str]().union(*(t.dims for t in einsum.tensors if t.name in held.names))
    still = frozenset(einsum.dims) - moving
    asked = {each.level: each for each in rules.levels}
    for index, level in enumerate(levels[: held.level]):
        its = rules.of(level.name)
        free = frozenset() if index == 0 else intermediates(held, level.keep, einsum) - its.keep
        temporal, x, y = (
            replace(block, only=still if block.only is None else still & block.only) for block in its.blocks.values()
        )
        asked[level.name] = replace(its, bypass=its.bypass | free, temporal=temporal, x=x, y=y)
    its = rules.of(levels[held.level].name)
    asked[its.level] = replace(its, keep=its.keep | held.names)
    return MapSpace(encoded, replace(rules, levels=tuple(asked.values())))


def intermediates(held: Held, kept: frozenset[str], einsum: Einsum) -> frozenset[str]:
    """Held tensors that a level outside the fusing level need not keep."""
    return frozenset(t.name for t in einsum.tensors if t.name in held.free and t.role not in kept)


def map_part(
    architecture: Architecture,
    einsum: Einsum,
    held: Held,
    capacity: int,
    price: Price | None,
    rules: Constraints = NO_RULES,
    deadline: float | None = None,
) -> PartResult | None:
    """Find the mapping of a part that costs least, and prove that it does; None if it is proved that none is valid.

    `price`: of energy or of cycles alone; None asks for the front of both, which holds the best for any price.
    `rules`: what constraints ask of it. `deadline`: when to end with what is found, by `time.monotonic`;
    `LEAST_SECONDS` are taken in any case.
    """
    budget = None if deadline is None else Budget(seconds=max(LEAST_SECONDS, deadline - time.monotonic()))
    try:
        space = part_space(encode_part(architecture, einsum, held, capacity), held, rules)
        found = _front(space, budget) if price is None else _best(space, price, budget)
    except NoValidMappingError as error:
        return None if error.proved else PartResult((), 0, capacity, (), "timeout")
    if found.stop == "interrupted" and not asked():  # Ctrl-C where no signal is heeded
        raise KeyboardInterrupt
    name = architecture.levels[held.level].name
    used = (next(level.used_words for level in each.levels if level.level == name) for each in found.results)
    return replace(found, capacity=capacity, used=tuple(used))


def _best(space: MapSpace, price: Price, budget: Budget | None) -> PartResult:
    from accelsim.search.exact.mapper import map_exactly

    goal = LEAST_ENERGY if price.energy else FASTEST
    search = map_exactly(Spaces.of(space), goal, budget=budget, workers=1, on_progress=None, explain=False)
    proof = search.certificate
    assert proof is not None  # the exact search proves something always
    least = (proof.bound, 0.0) if price.energy else (0.0, proof.bound)
    return PartResult((search.best,), proof.nodes, 0, (), "exhausted" if proof.proved else search.stop, least)


def _front(space: MapSpace, budget: Budget | None) -> PartResult:
    from accelsim.search.exact.front import front_of

    found = front_of(space, budget=budget, workers=1, on_progress=None, explain=False)
    return PartResult(found.points, found.nodes, 0, (), found.stop)


def without_held(result: Result, held: Held, names: list[str], capacity: int) -> Result:
    """Result of a part without the words that held tensors do not move: none outside the fusing level, none into it.

    `capacity`: storage words of the fusing level that the part may use, which is what the result is to say.
    """
    outside = names[: held.level]
    levels = tuple(
        replace(level, capacity_words=capacity) if level.level == names[held.level] else level
        for level in result.levels
    )
    tensors = [
        replace(t, fills=0, total_fills=0) if t.tensor in held.free and t.level == names[held.level] else t
        for t in result.tensors
        if not (t.tensor in held.free and t.level in outside)
    ]
    networks = [n for n in result.networks if not (n.tensor in held.free and n.level in outside)]
    nests = tuple(
        replace(nest, keep=nest.keep - held.free) if nest.level in outside else nest for nest in result.mapping.levels
    )
    mapping = replace(result.mapping, levels=nests)
    return replace(result, mapping=mapping, levels=levels, tensors=tuple(tensors), networks=tuple(networks))


@dataclass(frozen=True, slots=True)
class PartLimits:
    """Lower limits of the parts of one layer with the same held tensors; see `of`.

    `each` is energy [pJ] a multiply-accumulate, `words` energy [pJ] for each different word of a tensor, `outer`
    storage words at the outermost level for each, `leak` energy [pJ] a cycle.
    """

    einsum: Einsum
    each: float
    words: tuple[float, ...]
    outer: tuple[int, ...]
    leak: float
    cycles: float
    port: tuple[tuple[int, int], ...]

    @classmethod
    def make(cls, architecture: Architecture, einsum: Einsum, held: Held) -> PartLimits:
        """Gather what every mapping of a part of the layer costs at least.

        Each multiply-accumulate takes place and asks the innermost level that keeps a tensor for its word, shared by as
        many units as there are below. Each different word passes every level that surely keeps the tensor: it is read
        there (the output: updated) and, below the first such level, filled.
        """
        at = held.level
        encoded = encode_part(architecture, einsum, held, 1)
        space, c = part_space(encoded, held), encoded.constants
        levels, macs = len(architecture.levels), architecture.macs
        each, leak = float(c.mac[0]), 0.0
        words = []
        for t, tensor in enumerate(einsum.tensors):
            sure = [i for i in range(levels) if space.keep[i, t] and (i >= at or tensor.name not in held.free)]
            may = [i for i, u in space.free_keeps if u == t and i > sure[-1]]
            action = BY_UPDATE if tensor.output else BY_READ
            words_pj = [
                c.energy[i, t, action] * c.word_parts[i, t].min() * architecture.instances(i) / macs / c.block[i]
                for i in (sure[-1], *may)
            ]
            each += float(min(words_pj))
            a_word = 0.0
            for i in sure:
                per = float(c.word_parts[i, t].min()) / float(c.block[i])
                if i != sure[-1]:
                    a_word += per * float(c.energy[i, t, action])
                if i != sure[0] and not tensor.output:
                    a_word += per * float(c.energy[i, t, BY_WRITE])
            words.append(a_word)
        for index in range(levels):
            leak += float(c.leak[index])  # one instance of each level is in use at least
        ports = tuple((int(n), int(time)) for n, time in c.bandwidth[0])
        outer = tuple(int(part) for part in c.word_parts[0].min(axis=1))
        return cls(einsum, each, tuple(words), outer, leak, int(c.mac_cycles[0]) / macs, ports)

    def of(self, bounds: tuple[int, ...]) -> tuple[float, int]:
        """Energy [pJ] and cycles that no mapping of a part with these bounds falls below."""
        part = Einsum(self.einsum.name, dict(zip(self.einsum.dims, bounds, strict=True)), self.einsum.tensors)
        touched = [touched_words(part, tensor) for tensor in part.tensors]
        moved = [n * each for n, each in zip(touched, self.outer, strict=True)]
        written = next(n for n, tensor in zip(moved, part.tensors, strict=True) if tensor.output)
        cycles = math.ceil(part.macs * self.cycles * (1 - 1e-12))
        for words, (rate, per) in zip((sum(moved), sum(moved) - written, written, sum(moved)), self.port, strict=True):
            cycles = max(cycles, -(-words * per // rate) if rate else 0)
        energy = part.macs * self.each + sum(n * each for n, each in zip(touched, self.words, strict=True))
        return (energy + self.leak * cycles) * (1 - 1e-11), cycles


_ROUNDED = 1e-11
"""What a sum of energies may lose by rounding, relative to it."""


@dataclass(frozen=True, slots=True)
class PartProblem:
    """A part as the exact mapper sees it, whatever its layer is called.

    Bounds by dimension, tensors, what is held, and what constraints ask of its mapping.
    """

    bounds: tuple[tuple[str, int], ...]
    tensors: tuple[Tensor, ...]
    held: Held
    rules: Constraints = NO_RULES

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
    candidates: dict[tuple[object, ...], list[_Candidate]] = field(default_factory=dict)
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
        answer = map_part(self.architecture, part.einsum, part.held, room, price, part.rules, self.prove_until)
        self.solved += 1
        if answer is None:
            self.impossible[part] = max(room, self.impossible.get(part, -1))
            return
        self.nodes += answer.nodes
        self.stop = self.stop if answer.proved else answer.stop
        several.append(answer)

    def fused_tilings(self, chain: Chain, deadline: float | None = None) -> list[_Candidate] | None:
        """Fused tilings of a chain that leave room, None if the time is up before all are known.

        Kept where the same chain is looked at for several prices.
        """
        key = chain.name, chain.links, chain.shortcut, chain.rules
        if key in self.candidates:
            return self.candidates[key]
        found = []
        for each in _candidates(self.architecture, chain):
            if _is_late(deadline):
                return None
            found += [each] if each is not None else []
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
    candidates = solutions.fused_tilings(chain, deadline)
    if candidates is None:
        return None, -math.inf
    heap = [(_bound(each, solutions), number) for number, each in enumerate(candidates)]
    heapq.heapify(heap)
    best, best_value = None, NOTHING
    stop, left = "exhausted", math.inf  # what no search can bound closer
    while heap and heap[0][0] < min(best_value, (below, -math.inf)):
        if _is_late(deadline):
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


def _is_late(deadline: float | None) -> bool:
    return bool(asked()) or (deadline is not None and time.monotonic() > deadline)


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


def _candidates(architecture: Architecture, chain: Chain) -> Iterator[_Candidate | None]:
    """Fused tilings whose held words leave room, with their parts; None for each of the others."""
    levels = fusing_levels(architecture, chain)
    for name, at in levels.items() if isinstance(levels, dict) else ():
        level = architecture.levels[at]
        capacity = level.rooms.get("", 0)
        helds: dict[tuple[int, frozenset[str], frozenset[str]], Held] = {}
        tilings = (each for loops in loop_sets(chain) for each in least_room(architecture, chain, name, loops))
        for tiling, rules in tilings:
            parts = runs(chain, tiling, level)
            if any(run.reserved + run.own > capacity for run in parts):
                yield None
                continue
            items = []
            for run in parts:
                kind = run.part.layer, run.part.arriving, run.part.present
                held = helds.setdefault(kind, held_by(chain, run.part, at))
                einsum, asked = chain.layers[run.part.layer], rules[run.part.layer]
                bounds = tuple(zip(einsum.dims, run.part.bounds, strict=True))
                items.append((run, PartProblem(bounds, einsum.tensors, held, asked), capacity - run.reserved))
            barred = any(part.held.names & part.rules.of(name).bypass for _, part, _ in items)
            yield None if barred else _Candidate(tiling, items)


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
    machine = solutions.architecture
    names = [level.name for level in machine.levels]
    parts = []
    for run, part, room in each.parts:
        known, layer = solutions.known(part, room), chain.layers[run.part.layer]
        loops = loops_of(chain, run.part.layer, each.tiling.loops)
        if known is None or _is_wrong(machine, layer, chain.rules[run.part.layer], loops, part, room, known):
            raise RuntimeError(f"a part of {layer.name} has no mapping, or one that it may not have")
        result = replace(without_held(known, part.held, names, room), workload=layer.name)
        parts.append(FusedPart(run.part, run.count, run.reserved, result))
    return tuple(sorted(parts, key=lambda p: (p.part.layer, -p.count, p.part.bounds, sorted(p.part.present))))


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
