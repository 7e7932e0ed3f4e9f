"""What was found about fusion: of a group, of a segment, of a network, also as JSON; and what is made small.

A product energy^a * cycles^b is quasi-concave: over any convex set it is least at a corner. So the least product of all
that a network can take lies at a corner of the convex hull of these points, and each corner is the least sum of energy
and cycles at some price of a cycle, which adds up over layers. Each price that was solved gives a point, and a line
that no point lies below; the least product at a corner of what all lines leave is a bound, and it says which price to
ask for next.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Generic, TypeVar

from accelsim.fusion.graph import Apart, Graph, Link
from accelsim.fusion.group import Group
from accelsim.fusion.tiling import Border, FusedTiling, LayerPart, Room, rooms, shared_room, storage_words
from accelsim.inputs.architecture import Level
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload import Einsum
from accelsim.model.result import Result
from accelsim.results import Provenance, provenance_json
from accelsim.results.output import certificate_json, result_json
from accelsim.search.result import Certificate, SearchedSpace

T = TypeVar("T")
SAME = 1e-10
"""Relative difference up to which values are equal."""
ROUNDING = 1e-11
"""What a sum of energies may lose by rounding, relative to it."""

Value = tuple[float, float]
"""What is made small, and what decides between equals."""
NOTHING: Value = (math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Price:
    """What a pJ and a cycle cost; none is below 0, and one is above.

    Sums over layers and parts are least where each of them is, whatever the prices are.

    >>> ENERGY.value(7.0, 5), CYCLES.value(7.0, 5), Price(1.0, 2.0).value(7.0, 5)
    ((7.0, 5.0), (5.0, 7.0), (17.0, 7.0))
    """

    energy: float
    cycles: float

    @property
    def mixed(self) -> bool:
        """Whether both cost something, so that what is best is a point of a front."""
        return self.energy > 0 and self.cycles > 0

    def value(self, energy_pj: float, cycles: float) -> Value:
        """What so much energy and so many cycles cost; the less energy, or the fewer cycles, decides between equals."""
        if self.cycles == 0:
            return energy_pj, float(cycles)
        if self.energy == 0:
            return float(cycles), energy_pj
        return self.energy * energy_pj + self.cycles * cycles, energy_pj

    def of(self, result: Result) -> Value:
        """What a mapping costs."""
        return self.value(result.energy_pj, result.cycles)

    def best(self, results: Iterable[Result]) -> Result:
        """The mapping that costs least."""
        return min(results, key=self.of)


ENERGY, CYCLES = Price(1.0, 0.0), Price(0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Optimum(Generic[T]):
    """What costs least at a price: energy [pJ] and cycles, the least that anything costs there, and how it is had."""

    price: Price
    energy_pj: float
    cycles: int
    bound: float
    what: T


def least_product(
    goal: Objective, solve: Callable[[Price], Optimum[T]], late: Callable[[], bool]
) -> tuple[Optimum[T], float]:
    """Find the least energy^a * cycles^b of all points, given the cheapest one for any price.

    `goal`: with powers above 0. `solve`: the point that costs least at a price, and a bound of what one costs. `late`:
    whether to end with what is there. Returns `found`: the best point; `bound`: no point has a smaller product; that of
    the best point, where it is proved.

    Of (1, 10), (3, 3) and (10, 1) the second is on the way from the first to the third:

    >>> def cheapest(price):
    ...     points = [(1.0, 10), (3.0, 3), (10.0, 1)]
    ...     energy, cycles = min(points, key=lambda point: price.value(*point))
    ...     return Optimum(price, energy, cycles, price.value(energy, cycles)[0], None)
    >>> found, bound = least_product(Objective.parse("edp"), cheapest, lambda: False)
    >>> (found.energy_pj, found.cycles), bound
    ((3.0, 3), 9.0)
    """
    several = [solve(ENERGY), solve(CYCLES)]
    while True:
        best = min(several, key=lambda found: (goal.value(found.energy_pj, found.cycles), found.energy_pj))
        value = goal.value(best.energy_pj, best.cycles)
        corner, one, other = min(_corners(goal, several), key=lambda each: each[0])
        if corner >= value * (1 - SAME):
            return best, value
        price = _between(one, other)
        if price is None or late() or price in [found.price for found in several]:
            return best, corner
        several.append(solve(price))


def _between(one: Optimum[T], other: Optimum[T]) -> Price | None:
    """Price at which two points cost the same; None where one of them is better in both."""
    energy, cycles = other.energy_pj - one.energy_pj, one.cycles - other.cycles
    return Price(1.0, energy / cycles) if energy * cycles > 0 else None


def _corners(goal: Objective, several: list[Optimum[T]]) -> list[tuple[float, Optimum[T], Optimum[T]]]:
    """Product at each corner of what all lines leave, with the two whose lines meet there."""
    found = []
    for one, other in itertools.combinations(several, 2):
        det = one.price.energy * other.price.cycles - other.price.energy * one.price.cycles
        if det == 0:
            continue
        energy = (one.bound * other.price.cycles - other.bound * one.price.cycles) / det
        cycles = (one.price.energy * other.bound - other.price.energy * one.bound) / det
        below = (
            each.bound * (1 - SAME) - each.price.energy * energy - each.price.cycles * cycles
            for each in several
            if each is not one and each is not other
        )
        if energy >= 0 and cycles >= 0 and max(below, default=-math.inf) <= 0:
            found.append((goal.value(energy, cycles), one, other))
    return found


@dataclass(frozen=True, slots=True)
class FusedPart:
    """A part of the best fused tiling, how often it runs, and its best mapping."""

    part: LayerPart
    count: int
    reserved: int
    result: Result


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A group whose layers run at the same time, each a step behind those that it reads.

    Attributes
    ----------
    cycles : int
        All steps of what is busiest, and once more the longest step for each layer but one, while the pipeline fills.
        Those of one layer after the other where that is no slower, or where the fusing level has no room.
    busiest : str
        The unit, the level or the layer that is busy for most cycles.
    words : int
        Storage words of the fusing level that all layers take together.
    """

    cycles: int
    busiest: str
    words: int


def pipeline(group: Group, parts: Sequence[FusedPart], tiling: FusedTiling, level: Level, taken: int) -> Pipeline:
    """Let the layers of a group run at the same time; `taken` storage words of the fusing level hold whole tensors.

    Each step of a layer is a stage of the pipeline. Units with what fills an array, ports, and DMA engines are shared;
    while a part waits for fills or first words, no port serves another one. From its producer to its last reader a link
    has a tile for each stage; what stays between steps is there once.
    """
    busy, step, words = Counter[str](), Counter[tuple[str, int]](), Counter[int]()
    stays = Counter[tuple[int, str]]()
    for part in parts:
        its, at, many = part.result, part.part.layer, math.prod(steps for _, steps in part.part.sums)
        cycles = {row["component"]: row["cycles"] for row in its.cycle_rows()}
        for each in its.levels:
            cycles[each.level] += its.cycles - its.overlapped_cycles
        cycles |= {f"DMA of {each.level}": each.cycles for each in its.moves}
        cycles[f"layer {group.layers[at].name}"] = its.cycles
        for name, count in cycles.items():
            busy[name] += part.count * count
            step[name, at] = max(step[name, at], -(-count // many))
        used = next(each.used_words for each in its.levels if each.level == tiling.level)
        words[at] = max(words[at], part.reserved + used)
        for tensor in map(group.layers[at].tensor, tiling.resident[at] & (part.part.arriving | part.part.present)):
            size = tensor.words(part.part.tile(group)) * storage_words(tensor, level)
            stays[at, tensor.name] = max(stays[at, tensor.name], size)
    one_by_one = sum(part.count * part.result.cycles for part in parts)
    longest = max(sum(count for (name, _), count in step.items() if name == each) for each in busy)
    (busiest, least), behind = busy.most_common(1)[0], len(words) - 1
    needs = words.total() - behind * (taken + stays.total())
    fits = needs <= level.rooms.get("", 0)
    return Pipeline(min(one_by_one, least + behind * longest) if fits else one_by_one, busiest, needs)


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The best way to fuse a group.

    Attributes
    ----------
    parts : tuple of FusedPart
        In the order of the layers.
    price : Price
        What a pJ and a cycle cost where this is the cheapest way.
    certificate : Certificate
        Whether the value, at the price, is the least of all fused tilings.
    stop : str
        `exhausted`; or what kept it from being proved: `timeout`, `interrupted` or `memory`.
    pipeline : Pipeline or None
        Where layers of a group may run at the same time.
    """

    group: Group
    border: Border
    tiling: FusedTiling
    parts: tuple[FusedPart, ...]
    price: Price
    certificate: Certificate
    stop: str
    pipeline: Pipeline | None = None

    @property
    def totals(self) -> Totals:
        """Of all parts together, what is computed again counted again."""
        found = sum_totals([(part.count, part.result) for part in self.parts])
        return replace(found, cycles=self.pipeline.cycles) if self.pipeline else found

    @property
    def rooms(self) -> list[Room]:
        """Words that each link inside takes in the fusing level."""
        return rooms(self.group, self.tiling, self.border)

    def shared(self, link: int) -> Room:
        """Words that a shared link takes there; none where each reader fetches it."""
        return shared_room(self.group, self.tiling, link)


@dataclass(frozen=True, slots=True)
class Totals:
    """Energy [pJ], cycles, storage words at the outermost level, and multiply-accumulates that are executed."""

    energy_pj: float
    cycles: int
    offchip_words: int
    macs: int


@dataclass(frozen=True, slots=True)
class Segment:
    """Layers of a graph that run as a group, in one fusing level, or one layer by itself.

    Attributes
    ----------
    layers : tuple of Einsum
    repeat : int
        How often the network has it, segments that are `alike` included.
    alone : tuple of Result
        Each layer mapped by itself, as it is best where nothing is fused.
    mapping : Result or None
        Of a layer that is not fused.
    fused : GroupResult or None
        Of one layer where whole tensors lie in the fusing level while it runs.
    alike : tuple
        Names of the layers of equal segments, and how often the network has each of these.
    """

    layers: tuple[Einsum, ...]
    repeat: int
    alone: tuple[Result, ...]
    mapping: Result | None
    fused: GroupResult | None
    alike: tuple[tuple[tuple[str, ...], int], ...] = ()

    @property
    def totals(self) -> Totals:
        """Energy, cycles, words and multiply-accumulates of one run."""
        if self.fused is not None:
            return self.fused.totals
        return sum_totals([(1, each) for each in (self.mapping,) if each is not None])

    @property
    def unfused(self) -> Totals:
        """The same if every layer runs by itself."""
        return sum_totals([(1, each) for each in self.alone])


def sum_totals(several: Sequence[tuple[int, Totals | Result]]) -> Totals:
    """Totals of segments or mappings, each as often as it is counted."""
    return Totals(
        math.fsum(n * each.energy_pj for n, each in several),
        sum(n * each.cycles for n, each in several),
        sum(n * each.offchip_words for n, each in several),
        sum(n * each.macs for n, each in several),
    )


@dataclass(frozen=True, slots=True)
class FusedNetwork:
    """What to fuse in a network, and what it gains.

    Attributes
    ----------
    segments : tuple of Segment
        All layers, each run in one segment, in the order of the graphs.
    certificate : Certificate
        Of the objective of all segments together, among even mappings with perfect factors.
    apart : tuple of Apart
        Layers of which one reads the other and that cannot be fused, and why.
    why_not : str
        Why nothing can be fused; empty if something can.
    inferred : bool
        The workload names no edges; neighbours whose shapes line up were taken to follow each other.
    chain : tuple of str
        The layers that alone were looked at; none: all.
    longest : int or None
        Layers that a group has at most.
    overlap : bool
        The layers of a group may run at the same time.
    stop : str
        `exhausted`, `timeout`, `interrupted` or `memory` (the tables of a search would not fit).
    groups, solved : int
        Groups that were looked at, and parts that the exact mapper solved for them.
    units : mapping of str to str
        The vector unit that runs an operation.
    clock_hz : float or None
    spaces : tuple of SearchedSpace
        Among which mappings the best one of each layer by itself was looked for.
    graphs : tuple of Graph
        What was searched.
    search : object
        All that is known of it, for the file of the proof (`accelsim/fusion/certificate.py`).
    """

    architecture: str
    workload: str
    objective: str
    segments: tuple[Segment, ...]
    certificate: Certificate
    apart: tuple[Apart, ...]
    why_not: str
    inferred: bool
    chain: tuple[str, ...]
    longest: int | None
    overlap: bool
    stop: str
    groups: int
    solved: int
    units: Mapping[str, str]
    clock_hz: float | None
    spaces: tuple[SearchedSpace, ...]
    seconds: float
    graphs: tuple[Graph, ...] = field(default=(), repr=False, compare=False)
    search: object = field(default=None, repr=False, compare=False)

    @property
    def totals(self) -> Totals:
        """Of the network as it is to be fused."""
        return sum_totals([(segment.repeat, segment.totals) for segment in self.segments])

    @property
    def unfused(self) -> Totals:
        """Of the network with every layer by itself."""
        return sum_totals([(segment.repeat, segment.unfused) for segment in self.segments])

    @property
    def fused(self) -> tuple[Segment, ...]:
        """The segments that are fused."""
        return tuple(segment for segment in self.segments if segment.fused is not None)


def fusion_json(found: FusedNetwork, provenance: Provenance, energies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Document of what to fuse: totals, each segment, and each part of a fused one with all its counts."""
    return {
        **provenance_json(provenance),
        "fusion": {
            "architecture": found.architecture,
            "network": found.workload,
            "objective": found.objective,
            "chain": list(found.chain) or None,
            "longest": found.longest,
            "overlap": found.overlap,
            "budget": {"mappings": provenance.mappings, "seconds": provenance.seconds},
            "stop": found.stop,
            "certificate": certificate_json(found.certificate),
            "spaces_of_unfused_layers": list(map(str, found.spaces)),
            "groups": found.groups,
            "parts_mapped": found.solved,
            "vector_units": dict(found.units),
            "edges_inferred": found.inferred,
            "why_not": found.why_not or None,
            "apart": [asdict(each) for each in found.apart],
            "totals": totals_json(found.totals),
            "unfused": totals_json(found.unfused),
            "segments": [_segment(segment) for segment in found.segments],
        },
        "energy_table": [dict(row) for row in energies],
    }


def totals_json(totals: Totals) -> dict[str, Any]:
    """Totals as plain values."""
    return {**asdict(totals), "edp_pj_cycles": totals.energy_pj * totals.cycles}


def _segment(segment: Segment) -> dict[str, Any]:
    return {
        "layers": [layer.name for layer in segment.layers],
        "repeat": segment.repeat,
        "alike": [{"layers": list(names), "repeat": repeat} for names, repeat in segment.alike],
        "totals": totals_json(segment.totals),
        "unfused": totals_json(segment.unfused),
        "fused": None if segment.fused is None else group_json(segment.fused),
        "mapping": None if segment.mapping is None else result_json(segment.mapping),
    }


def group_json(found: GroupResult) -> dict[str, Any]:
    """A fused group as plain values; words of a link are its own, those of whole tensors storage words of the level."""
    group, tiling, border = found.group, found.tiling, found.border
    names = [layer.name for layer in group.layers]
    return {
        "level": tiling.level,
        "loops": [{"dim": loop.dim, "steps": loop.steps, "tile": loop.tile} for loop in tiling.loops],
        "links": [
            {
                "producer": names[link.producer],
                "tensor": group.layers[link.producer].output.name,
                "readers": _readers(found, link),
                "retained": sorted(kept),
                "words": room.live,
                "halo_words": room.between,
            }
            for link, kept, room in zip(group.inside, tiling.retain, found.rooms, strict=True)
            if link.producer is not None
        ],
        "shared": [
            {
                "readers": _readers(found, group.shared[at]),
                "words": found.shared(at).live,
                "halo_words": found.shared(at).between,
            }
            for at in sorted(tiling.shared)
        ],
        "resident": [
            {"layer": name, "tensors": sorted(tensors)}
            for name, tensors in zip(names, tiling.resident, strict=True)
            if tensors
        ],
        "border": {
            "present": [{"layer": names[at], "tensor": tensor} for at, tensor in sorted(border.present)],
            "staying": [names[at] for at in sorted(border.staying)],
            "leaving": [names[at] for at in sorted(border.leaving)],
            "whole_words": border.taken,
        },
        **asdict(found.totals),
        "pipeline": found.pipeline and asdict(found.pipeline),
        "price": asdict(found.price),
        "certificate": certificate_json(found.certificate),
        "stop": found.stop,
        "parts": [
            {
                "layer": names[part.part.layer],
                "count": part.count,
                "fetches": sorted(part.part.arriving),
                "finds": sorted(part.part.present),
                "sums": [{"dim": dim, "steps": steps} for dim, steps in part.part.sums],
                "streams": sorted(part.part.streamed),
                "reserved_words": part.reserved,
                "result": result_json(part.result),
            }
            for part in found.parts
        ],
    }


def _readers(found: GroupResult, link: Link) -> list[dict[str, str]]:
    """Who reads a link, and as which tensor."""
    return [{"layer": found.group.layers[reader.layer].name, "tensor": reader.tensor} for reader in link.readers]
