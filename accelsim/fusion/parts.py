"""Parts of fused groups: what the exact mapper is asked of each, its answers, and limits that no mapping falls below.

A part is a smaller layer, some of whose tensors lie in F, the fusing level, as a whole: F keeps such a tensor and no
loop outside F moves it, but the fused loops that belong to the part. What a tensor that is there already, or stays
there, would move at levels outside F, and into F, is taken out of the constants of the cost model; all else is as for
any layer.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from accelsim.fusion.group import Group
from accelsim.fusion.result import ROUNDING, Price, Value
from accelsim.fusion.tiling import LayerPart
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Block, Constraints, LevelConstraint, Product
from accelsim.inputs.errors import NoValidMappingError
from accelsim.inputs.level_features import BANDWIDTHS
from accelsim.inputs.objective import FASTEST, LEAST_ENERGY, Limit
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import BY_READ, BY_UPDATE, BY_WRITE, Constants, Encoded, encode
from accelsim.model.limits import touched_words
from accelsim.model.result import Result
from accelsim.search.spaces import Spaces
from accelsim.search.stopping import Budget, asked

LEAST_SECONDS = 0.1
"""Time that a layer or a part gets, however late it is."""
NO_RULES = Constraints()


@dataclass(frozen=True, slots=True)
class Held:
    """Tensors that lie in the fusing level as a whole.

    Attributes
    ----------
    level : int
        The fusing level.
    arriving : frozenset of str
        Those that come there from outside, or go there, once.
    present : frozenset of str
        Those that move no word outside it: inputs that are there already, an output that stays.
    sums : tuple of (str, int)
        Dimensions that the layer sums and a fused loop, outermost in the part, runs over, with its steps.
    streamed : frozenset of str
        Tensors that these loops leave in place, and that pass in each of their steps all the same.
    """

    level: int
    arriving: frozenset[str] = frozenset()
    present: frozenset[str] = frozenset()
    sums: tuple[tuple[str, int], ...] = ()
    streamed: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """All of them."""
        return self.arriving | self.present

    def changing(self, einsum: Einsum) -> tuple[Product, ...]:
        """What is asked of loops outside the level, so that no streamed tensor stays."""
        sums = {dim for dim, _ in self.sums}
        moved = (einsum.tensor(name).dims - sums for name in sorted(self.streamed))
        return tuple(Product(tuple(sorted(dims)), 2) for dims in moved)


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


def held_by(group: Group, part: LayerPart, level: int) -> Held:
    """Tensors of a part that lie in the fusing level."""
    return Held(level, part.arriving, part.present, part.sums, part.streamed)


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
        if tensor.name not in held.present:
            continue
        c.word_parts[:at, t] = 0
        c.energy[:at, t] = 0.0
        c.energy[at, t, BY_WRITE] = 0.0
        if tensor.output:
            c.drain[at] = False
        else:
            c.already[at] += c.whole[t] * c.word_parts[at, t, 0]
    two_widths = np.array([bool((c.word_parts[:, :, 0] != c.word_parts[:, :, 1]).any())], np.bool_)
    return replace(encoded, constants=c._replace(two_widths=two_widths))


def part_space(encoded: Encoded, held: Held, rules: Constraints = NO_RULES) -> MapSpace:
    """Map space of a part: held tensors lie in the fusing level as a whole, and constraints are kept."""
    einsum, levels = encoded.einsum, encoded.architecture.levels
    moving = frozenset[str]().union(*(t.dims for t in einsum.tensors if t.name in held.names))
    sums = frozenset(dim for dim, _ in held.sums)
    still = frozenset(einsum.dims) - moving - sums
    asked = {each.level: each for each in rules.levels}
    for index, level in enumerate(levels[: held.level]):
        its = rules.of(level.name)
        free = frozenset() if index == 0 else intermediates(held, level.keep, einsum) - its.keep
        temporal, x, y = (
            replace(block, only=kept if block.only is None else kept & block.only)
            for block, kept in zip(
                its.blocks.values(), (still | sums if index == 0 else still, still, still), strict=True
            )
        )
        if index == 0:
            temporal = replace(temporal, products=(*temporal.products, *held.changing(einsum)))
        asked[level.name] = replace(its, bypass=its.bypass | free, temporal=temporal, x=x, y=y)
    its = rules.of(levels[held.level].name)
    asked[its.level] = replace(its, keep=its.keep | held.names)
    return MapSpace(encoded, replace(rules, levels=tuple(asked.values())))


def intermediates(held: Held, kept: frozenset[str], einsum: Einsum) -> frozenset[str]:
    """Held tensors that a level outside the fusing level need not keep."""
    return frozenset(t.name for t in einsum.tensors if t.name in held.present and t.role not in kept)


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
    best = fastest_of_equals(space, search.best, budget) if price.energy and proof.proved else search.best
    return PartResult((best,), proof.nodes, 0, (), "exhausted" if proof.proved else search.stop, least)


def fastest_of_equals(space: MapSpace, best: Result, budget: Budget | None) -> Result:
    """Of all mappings that take no more energy than one of least energy the fastest, where no product is made.

    On vector units there are many that differ in nothing but the lanes in use.
    """
    from accelsim.search.exact.mapper import map_exactly

    if space.encoded.einsum.operation == "multiply_add":
        return best
    most = Limit("energy", Fraction(best.energy_pj) * (1 + Fraction(1, 10**12)))
    same = MapSpace(space.encoded, replace(space.constraints, limits=(*space.constraints.limits, most)))
    try:
        search = map_exactly(Spaces.of(same), FASTEST, budget=budget, workers=1, on_progress=None, explain=False)
    except NoValidMappingError:  # rounding
        return best
    return search.best if search.best.energy_pj <= best.energy_pj * (1 + 1e-12) else best


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
        replace(t, fills=0, total_fills=0) if t.tensor in held.present and t.level == names[held.level] else t
        for t in result.tensors
        if not (t.tensor in held.present and t.level in outside)
    ]
    networks = [n for n in result.networks if not (n.tensor in held.present and n.level in outside)]
    nests = tuple(
        replace(nest, keep=nest.keep - held.present) if nest.level in outside else nest
        for nest in result.mapping.levels
    )
    mapping = replace(result.mapping, levels=nests)
    return replace(result, mapping=mapping, levels=levels, tensors=tuple(tensors), networks=tuple(networks))


@dataclass(frozen=True, slots=True)
class PartLimits:
    """Lower limits of the parts of one layer with the same held tensors; see `of`.

    `each` is energy [pJ] a multiply-accumulate, `words` energy [pJ] for each different word of a tensor: outside the
    fusing level and into it, and further in. `outer` are storage words at the outermost level for each, `leak` energy
    [pJ] a cycle, `asks` what is asked for of each tensor, energy [pJ] a multiply-accumulate.
    """

    einsum: Einsum
    each: float
    words: tuple[tuple[float, float], ...]
    outer: tuple[int, ...]
    leak: float
    cycles: float
    port: tuple[tuple[int, int], ...]
    asks: tuple[float, ...]

    @classmethod
    def make(
        cls, architecture: Architecture, einsum: Einsum, held: Held, undecided: frozenset[str] = frozenset()
    ) -> PartLimits:
        """Gather what every mapping of a part of the layer costs at least.

        Each multiply-accumulate takes place and asks the innermost level that keeps a tensor for its word, shared by as
        many units as there are below. Each different word passes every level that surely keeps the tensor: it is read
        there (the output: updated) and, below the first such level, filled. `undecided` are held tensors that may pass
        through the level like others.
        """
        at = held.level
        encoded = encode_part(architecture, einsum, held, 1)
        sure_of = replace(
            held, arriving=held.arriving - undecided, present=held.present - undecided, streamed=frozenset()
        )
        space, c = part_space(encoded, sure_of), encoded.constants
        levels, macs = len(architecture.levels), architecture.macs
        leak, asks, words = 0.0, [], []
        steps = math.prod(many for _, many in held.sums)
        for t, tensor in enumerate(einsum.tensors):
            sure = [i for i in range(levels) if space.keep[i, t] and (i >= at or tensor.name not in held.present)]
            inmost = sure[-1] if sure else at  # what may be there already is read there or further in
            may = [i for i, u in space.free_keeps if u == t and i > inmost]
            action = BY_UPDATE if tensor.output else BY_READ
            words_pj = [
                c.energy[i, t, action] * c.word_parts[i, t].min() * architecture.instances(i) / macs / c.block[i]
                for i in (inmost, *may)
            ]
            asks.append(float(min(words_pj)))
            outside = inside = 0.0
            for i in sure:
                per = float(c.word_parts[i, t].min()) / float(c.block[i])
                read = per * float(c.energy[i, t, action]) if i != inmost else 0.0
                fill = per * float(c.energy[i, t, BY_WRITE]) if i != sure[0] and not tensor.output else 0.0
                outside += (read if i < at else 0.0) + (fill if i <= at else 0.0)
                inside += (read if i >= at else 0.0) + (fill if i > at else 0.0)
            words.append((outside * (steps if tensor.name in held.streamed else 1), inside))
        for index in range(levels):
            leak += float(c.leak[index])  # one instance of each level is in use at least
        ports = tuple((int(n), int(time)) for n, time in c.bandwidth[0])
        outer = tuple(int(part) for part in c.word_parts[0].min(axis=1))
        each = float(c.mac[0]) + sum(asks)
        return cls(einsum, each, tuple(words), outer, leak, int(c.mac_cycles[0]) / macs, ports, tuple(asks))

    def of(self, bounds: tuple[int, ...], inner: float = 0.0) -> tuple[float, tuple[int, ...]]:
        """Energy [pJ] that no mapping of a part with these bounds falls below, and cycles of its units and each port.

        `inner`: energy [pJ] a multiply-accumulate that the fusing level and all further in take at least, leakage too.
        """
        part = Einsum(self.einsum.name, dict(zip(self.einsum.dims, bounds, strict=True)), self.einsum.tensors)
        touched = [touched_words(part, tensor) for tensor in part.tensors]
        moved = [n * each for n, each in zip(touched, self.outer, strict=True)]
        written = next(n for n, tensor in zip(moved, part.tensors, strict=True) if tensor.output)
        words = sum(moved), sum(moved) - written, written, sum(moved)
        ports = (-(-n * per // rate) if rate else 0 for n, (rate, per) in zip(words, self.port, strict=True))
        busy = math.ceil(part.macs * self.cycles * (1 - 1e-12)), *ports
        outside = sum(n * each for n, (each, _) in zip(touched, self.words, strict=True))
        inside = part.macs * self.each + sum(n * each for n, (_, each) in zip(touched, self.words, strict=True))
        inside = max(inside + self.leak * max(busy), part.macs * inner)
        return (outside + inside) * (1 - ROUNDING), busy


def inner_energy(
    architecture: Architecture,
    einsum: Einsum,
    level: int,
    names: frozenset[str],
    rules: Constraints = NO_RULES,
    deadline: float | None = None,
) -> float:
    """Energy [pJ] that a layer takes at least at the fusing level and further in, whatever happens outside.

    The level has any room: then no loop need stand outside it, as one there costs as much as it does outermost here.

    `names`: tensors that the level has to keep. `rules`: of this level and those further in. `deadline`: when to end
    with what is proved, by `time.monotonic`.
    """
    name, outer = architecture.levels[level].name, {each.name for each in architecture.levels[:level]}
    outside = outer | {f"{each} network" for each in outer}
    entries = dict(architecture.energy.entries)
    for (component, role, action), entry in architecture.energy.entries.items():
        nothing = replace(entry, energy_pj=0.0)
        if component in outside and action != "leak":
            entries[component, role, action] = nothing
        elif component == name and action == "write":
            entries.setdefault((component, role, "update"), entry)
            entries[component, role, action] = nothing
    free: dict[str, Any] = dict.fromkeys((*BANDWIDTHS, "size_words", "partition_words", "dma"))
    free |= {"overlap": "all", "latency": 0}
    levels = [replace(each, **free) for each in architecture.levels[: level + 1]]
    levels[level] = replace(levels[level], drain_reads=False)
    free_outside = replace(
        architecture,
        levels=(*levels, *architecture.levels[level + 1 :]),
        energy=replace(architecture.energy, entries=entries),
        sized={},
    )
    its = rules.of(name)
    kept = [each for each in rules.levels if each.level not in {*outer, name}]
    kept += [LevelConstraint(each, temporal=Block(only=frozenset())) for each in outer]
    kept.append(replace(its, keep=its.keep | names, temporal=Block(), sizes=(), words=()))
    inside = replace(rules, levels=tuple(kept))
    budget = None if deadline is None else Budget(seconds=max(LEAST_SECONDS, deadline - time.monotonic()))
    try:
        space = MapSpace(encode(free_outside, einsum), inside)
        return max(0.0, _best(space, Price(1.0, 0.0), budget).least[0])
    except NoValidMappingError as error:
        return math.inf if error.proved else 0.0
    except KeyboardInterrupt:
        if not asked():
            raise
        return 0.0


def exchanged(tensors: Sequence[Tensor], rules: Constraints, one: str, other: str) -> dict[str, str]:
    """Dimensions that change places with two of an output, so that nothing else changes; none if that cannot be."""
    names: dict[str, str] = {}
    for tensor in tensors:
        pairs = [next((rank for rank in tensor.ranks if dim in dict(rank)), ()) for dim in (one, other)]
        names |= {a: b for (d, _), (e, _) in zip(*pairs, strict=False) for a, b in ((d, e), (e, d))}
    before, after = (
        [{frozenset((new.get(dim, dim), f) for dim, f in rank) for rank in tensor.ranks} for tensor in tensors]
        for new in ({}, names)
    )
    for each in rules.levels:
        for block in (*each.blocks.values(), Block(products=each.sizes)):
            named = {*(f.dim for f in block.factors), *block.outer, *block.inner}
            named.update(name for product in block.products for name in product.names)
            uneven = block.only is not None and any((a in block.only) != (b in block.only) for a, b in names.items())
            if uneven or named.intersection(names):
                return {}
    return names if before == after and all(names[b] == a for a, b in names.items()) else {}


@dataclass(frozen=True, eq=False)
class PartKind:
    """What all parts of a layer, whatever it is called, have in common inside some loops; `Solutions.kind` makes it."""

    dims: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    operation: str
    rules: Constraints  # what is asked of the mapping

    @functools.cached_property
    def exchange(self) -> tuple[int, ...]:
        """For each dimension the one that can take its place, itself if none can: rows for columns of an image.

        Parts whose bounds are exchanged are one mapping problem: their tensors are the same sets of ranks, and nothing
        is asked of these dimensions.
        """
        output = next(tensor for tensor in self.tensors if tensor.output)
        several = [dim for rank in output.ranks for dim, _ in rank]
        for one, other in itertools.combinations(reversed(several), 2):
            names = exchanged(self.tensors, self.rules, one, other)
            if names:
                return tuple(self.dims.index(names.get(dim, dim)) for dim in self.dims)
        return tuple(range(len(self.dims)))


@dataclass(frozen=True, slots=True)
class PartProblem:
    """A part as the exact mapper sees it.

    Its bounds, what is held, and what of that may pass through like other tensors.
    """

    kind: PartKind
    bounds: tuple[int, ...]
    held: Held
    undecided: frozenset[str] = frozenset()
    whole: tuple[int, ...] = field(default=(), compare=False)  # bounds of its layer

    @property
    def einsum(self) -> Einsum:
        """The part as an Einsum."""
        dims = dict(zip(self.kind.dims, self.bounds, strict=True))
        return Einsum("part", dims, self.kind.tensors, operation=self.kind.operation)

    @property
    def turned(self) -> PartProblem:
        """The same with dimensions exchanged."""
        at, dims = self.kind.exchange, self.kind.dims
        sums = tuple((dims[at[dims.index(dim)]], steps) for dim, steps in self.held.sums)
        bounds, whole = (tuple(several[n] for n in at) for several in (self.bounds, self.whole or self.bounds))
        return replace(self, bounds=bounds, held=replace(self.held, sums=sums), whole=whole if self.whole else ())

    @property
    def first(self) -> PartProblem:
        """The one of both that is solved."""
        return self.turned if tuple(self.bounds[n] for n in self.kind.exchange) < self.bounds else self


@dataclass(slots=True)
class Solutions:
    """What is known of parts on one machine: best mappings by the words of the fusing level that they may use."""

    architecture: Architecture
    # what a mapping costs. It may change where `fronts` are kept, which hold the best mappings for any price
    price: Price
    fronts: bool = False  # solve parts for their fronts of energy and cycles, and not for the price as it is
    overlap: bool = False  # layers of a group run at the same time
    # when to prove nothing more, by `time.monotonic`: mappings of further parts are found by walks
    prove_until: float | None = None
    stop: str = "exhausted"  # `exhausted`, or why the last search ended that did not prove its answer
    found: dict[PartProblem, list[PartResult]] = field(default_factory=dict)
    impossible: dict[PartProblem, int] = field(default_factory=dict)
    limits: dict[tuple[object, ...], PartLimits] = field(default_factory=dict)
    least: dict[tuple[PartProblem, bool], tuple[float, tuple[int, ...]]] = field(default_factory=dict)
    inner: dict[tuple[PartKind, tuple[int, ...], int, frozenset[str]], float] = field(default_factory=dict)
    inside: dict[PartKind, PartKind] = field(default_factory=dict)  # without what is asked outside the fusing level
    kinds: dict[tuple[object, ...], PartKind] = field(default_factory=dict)
    constants: dict[object, Any] = field(default_factory=dict)  # of layers, and limits of groups: see `loop_limits`
    loops: dict[object, Any] = field(default_factory=dict)
    machines: dict[str, Architecture] = field(default_factory=dict)
    solved: int = 0
    nodes: int = 0

    def kind(self, einsum: Einsum, rules: Constraints) -> PartKind:
        """What the parts of a layer have in common, one object for all that are equal."""
        key = tuple(einsum.dims), einsum.tensors, einsum.operation, rules
        return self.kinds.setdefault(key, PartKind(*key))

    def machine_of(self, part: PartProblem) -> Architecture:
        """The levels and units that run a part."""
        return self.machine(part.kind.operation)

    def machine(self, operation: str) -> Architecture:
        """The levels and units that run an operation."""
        if operation not in self.machines:
            self.machines[operation] = self.architecture.for_operation(operation)
        return self.machines[operation]

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

    def limit(self, part: PartProblem, closed: bool = False) -> Value:
        """Value that no mapping of a part falls below, nor all parts together that it may be cut into.

        `closed`: one that does not fall where a part is made larger.
        """
        energy_pj, busy = self.closed(part, closed)
        return self.price.value(energy_pj, max(busy))

    def closed(self, part: PartProblem, closed: bool = False) -> tuple[float, tuple[int, ...]]:
        """Energy and cycles of `limit`; see `PartLimits.of`."""
        if (part, closed) not in self.least:
            key = part.kind, part.held, part.undecided
            if key not in self.limits:
                self.limits[key] = PartLimits.make(self.machine_of(part), part.einsum, part.held, part.undecided)
            cut = any(whole % bound for bound, whole in zip(part.bounds, part.whole, strict=False))
            inner = 0.0 if closed or cut else self._inner(part)
            self.least[part, closed] = self.limits[key].of(part.bounds, inner)
        return self.least[part, closed]

    def _inner(self, part: PartProblem) -> float:
        """Energy [pJ] a multiply-accumulate that the fusing level and all further in take at least.

        Parts of equal bounds, run one after the other, are a mapping of what they make up, all of the layer, with free
        loops outside the level, where nothing costs energy: no mapping of it takes less than the best one.
        """
        if not part.whole or self.price.energy == 0:
            return 0.0
        kind, bounds = part.kind, part.whole
        outer = [level.name for level in self.architecture.levels[: part.held.level]]
        if kind not in self.inside:
            rules = replace(kind.rules, levels=tuple(each for each in kind.rules.levels if each.level not in outer))
            self.inside[kind] = self.kind(part.einsum, rules)
        key = self.inside[kind], bounds, part.held.level, part.held.names - part.undecided
        if key not in self.inner:
            einsum, rules = Einsum("part", dict(zip(kind.dims, bounds, strict=True)), kind.tensors), key[0].rules
            found = inner_energy(self.machine_of(part), einsum, part.held.level, key[3], rules, self.prove_until)
            self.inner[key] = found / einsum.macs
        return self.inner[key]

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
        answer = map_part(self.machine_of(part), part.einsum, part.held, room, price, part.kind.rules, self.prove_until)
        self.solved += 1
        if answer is None:
            self.impossible[part] = max(room, self.impossible.get(part, -1))
            return
        self.nodes += answer.nodes
        self.stop = self.stop if answer.proved else answer.stop
        several.append(answer)
