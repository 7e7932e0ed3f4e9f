"""The front over designs and mappings together: every design with every mapping, proved to be complete.

Each design is known by two fronts of (energy, cycles): `lower`, which no mapping of it beats, and `upper`, of mappings
that were found. Layers are searched one by one, those first between whose two fronts most lies, until what was found
on any design covers all of `lower`. A machine that has all of another one and more lends it both: no mapping of the
smaller one beats the front of the larger one, and mappings of the larger one that fit cost the same.

Axis letters: N = points, K = objectives.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from accelsim.designs.machines import Load, Machine, unlimited
from accelsim.designs.pool import Workers
from accelsim.designs.store import POLL_SECONDS, Explored, Joint, JointPoint, Record, SweepRun
from accelsim.designs.work import FRONT
from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import Mapping
from accelsim.inputs.workload import Einsum
from accelsim.model.detail import make_detail
from accelsim.model.encode import Floats, Ints, encode, encode_mappings
from accelsim.model.kernel import VALID, evaluate_many
from accelsim.model.limits import layer_limits
from accelsim.results.cache import content_hash, machine_content
from accelsim.results.output import read_mapping_json

ROUNDING = 1e-9
"""Relative: what differs by less counts as equal."""
NOWHERE: Floats = np.zeros((0, 2))
LAYERS = 4
"""Layers of a design that are searched before it is looked at again."""


def strength(architecture: Architecture) -> tuple[str, tuple[float, ...]]:
    """Hash of what must be equal for one machine to have all of another, and what it must have as much of.

    That are room, bandwidths and fanouts; no mapping costs more where there is more of these. With a systolic array or
    a DMA engine, whose ramps grow with the array, fanouts must be equal.

    >>> from accelsim import load_architecture
    >>> small, large = (strength(load_architecture("two_level", {"buffer": size})) for size in ("32 B", "64 B"))
    >>> small[0] == large[0], all(a <= b for a, b in zip(small[1], large[1]))
    (True, True)
    """
    fixed = any(level.systolic is not None or level.dma is not None for level in architecture.levels)
    amounts: list[float] = []
    bare: list[Level] = []
    for level in architecture.levels:
        rates = (level.bandwidth, level.read_bandwidth, level.write_bandwidth, level.network_bandwidth)
        parts = sorted((level.partition_words or {}).items())
        amounts += [math.inf if each is None else float(each) for each in (level.size_words, *rates)]
        amounts += [float(words) for _, words in parts] + [level.x.size, level.y.size]
        none = None if level.partition_words is None else dict.fromkeys(level.partition_words, 0)
        x, y = (level.x, level.y) if fixed else (replace(level.x, size=1), replace(level.y, size=1))
        bare.append(replace(level, size_words=None, partition_words=none, x=x, y=y))
    rest = unlimited(replace(architecture, levels=tuple(bare), sized={}, areas={}))
    return content_hash(machine_content(rest)), tuple(amounts)


def undominated(points: Floats, share: float = 0.0) -> Ints:
    """Rows of points that none beats, by growing energy: float64[N, 2] of energy and cycles.

    With a share, so few of them that each other point is beaten by one of them made larger by that share.

    >>> undominated(np.array([[1.0, 9.0], [2.0, 5.0], [2.0, 6.0], [2.0002, 4.0]])).tolist()
    [0, 1, 3]
    >>> undominated(np.array([[1.0, 9.0], [2.0, 5.0], [2.0, 6.0], [2.0002, 4.0]]), 0.001).tolist()
    [0, 3]
    """
    order: Ints = np.lexsort((points[:, 1], points[:, 0]))
    cycles = points[order, 1]
    before = np.concatenate(([math.inf], np.minimum.accumulate(cycles)[:-1]))
    order = order[cycles < before]
    if not share or len(order) < 3:
        return order
    kept: list[Ints] = []
    for column, last in ((0, True), (1, False)):  # of each cell the point of fewest cycles, or of least energy
        cell = np.floor(np.log(np.maximum(points[order, column], 1e-300)) / math.log1p(share))
        ends = np.flatnonzero(np.diff(cell))
        kept.append(order[np.append(ends, len(order) - 1) if last else np.insert(ends + 1, 0, 0)])
    return min(kept, key=len)


def both(first: Floats, second: Floats) -> Floats:
    """Front of what neither of two fronts beats: float64[N, 2]."""
    corners = np.maximum(first[:, None], second[None]).reshape(-1, 2)
    return corners[undominated(corners)]


def network_front(parts: Sequence[Floats], load: Load, share: float) -> tuple[Floats, Ints]:
    """Front of a network from fronts of its different layers, within a share of it.

    Returns energy [pJ] and cycles, float64[N, 2], and which point of each layer that takes, int64[N, layers].
    """
    each = math.expm1(0.5 * math.log1p(share) / len(load.weights))  # half of it for the sums, half for what is left
    points, choice = np.zeros((1, 2)), np.zeros((1, 0), np.int64)
    for weight, layer in zip(load.weights, load.layer_of, strict=True):
        more = parts[layer]
        if not len(more):
            return NOWHERE, np.zeros((0, len(load.weights)), np.int64)
        sums = (points[:, None] + weight * more[None]).reshape(-1, 2)
        rows = undominated(sums, each)
        points = sums[rows]
        choice = np.concatenate((choice[rows // len(more)], rows[:, None] % len(more)), axis=1)
    rows = undominated(points, math.expm1(0.5 * math.log1p(share)))
    return points[rows], choice[rows]


@dataclass(slots=True)
class Candidate:
    """A design that none has all of, and what is known of each of its different layers."""

    record: Record
    machine: Machine
    load: Load
    kind: str
    amounts: Floats
    lower: list[Floats]
    mappings: list[list[str]]
    """Mappings that were evaluated, by layer, as JSON; none is taken away."""
    costs: list[Floats]
    """Energy and cycles of each, infinite where there is no room for it."""
    best: list[Ints]
    """Rows of those that none beats."""
    seen: list[int]
    """How many fronts of other machines were looked at, by layer."""
    searched: set[int] = field(default_factory=set)
    troubles: list[str] = field(default_factory=list)

    @property
    def upper(self) -> list[Floats]:
        """Fronts of the mappings that were found, by layer."""
        return [costs[rows] for costs, rows in zip(self.costs, self.best, strict=True)]


@dataclass(frozen=True, slots=True)
class SolvedLayer:
    """Front of a layer on a machine, as a search left it."""

    amounts: Floats
    front: Floats
    proved: bool
    mappings: tuple[str, ...]


def costs_of_mappings(architecture: Architecture, einsum: Einsum, texts: Sequence[str]) -> Floats:
    """Energy [pJ] and cycles of mappings on a machine, infinite where it has no room for one: float64[N, 2].

    Mappings that are uneven, padded or leave remainders are those of one machine only.
    """
    encoded = encode(architecture, einsum)
    costs = np.full((len(texts), 2), math.inf)
    read: list[Mapping] = [read_mapping_json(json.loads(text)) for text in texts]
    plain = [
        at for at, mapping in enumerate(read)
        if len(mapping.levels) == len(architecture.levels) and not mapping.imperfect and not mapping.padded
    ]  # fmt: skip
    status, energy, cycles = np.empty(len(plain), np.int64), np.empty(len(plain)), np.empty(len(plain), np.int64)
    batch = encode_mappings(encoded, [read[at] for at in plain])
    evaluate_many(encoded.constants, batch, make_detail(encoded), False, status, energy, cycles)
    valid = status == VALID
    costs[np.array(plain, np.int64)[valid]] = np.stack((energy, cycles), axis=1)[valid]
    return costs


class Found:
    """Points of designs so far, of which none is beaten by another one but for a share.

    `objectives`: what points are compared by. `share`: by which energy and cycles may be larger than those of a mapping
    that a point stands for.
    """

    def __init__(self, objectives: Sequence[str], share: float) -> None:
        self.objectives = objectives
        slack = {"edp": (1 + share) ** 2, "area": 1.0}
        self.slack = np.array([slack.get(name, 1 + share) for name in objectives]) * (1 + ROUNDING)
        self.values = np.zeros((0, len(objectives)))
        self.points: list[JointPoint] = []

    @property
    def designs(self) -> frozenset[int]:
        """Numbers of the designs that have points."""
        return frozenset(each.record.design.number for each in self.points)

    def costs(self, candidate: Candidate, points: Floats) -> Floats:
        """Objectives of points of a design: float64[N, K]."""
        clock, area = candidate.machine.architecture.clock_hz, candidate.machine.area_um2
        energy, cycles = points.T
        columns = {
            "energy": energy, "cycles": cycles, "edp": energy * cycles,
            "time": cycles / (clock or 1.0), "area": np.full(len(points), area or 0.0),
        }  # fmt: skip
        return np.stack([columns[name] for name in self.objectives], axis=1)

    def covers(self, candidate: Candidate, points: Floats) -> bool:
        """Whether each point of a design has one that was found and is no worse, but for the share."""
        return bool(self._covered(self.costs(candidate, points)).all())

    def _covered(self, costs: Floats) -> np.ndarray[Any, np.dtype[np.bool_]]:
        if not len(self.values):
            return np.zeros(len(costs), np.bool_)
        limits = costs * self.slack
        inside = np.ones((len(costs), len(self.values)), np.bool_)
        for column in range(costs.shape[1]):
            inside &= self.values[None, :, column] <= limits[:, None, column]
        return np.asarray(inside.any(axis=1))

    def add(self, candidate: Candidate, points: Floats, choice: Ints) -> None:
        """Take points of a design, with the mapping of each layer; those that are covered or beaten are dropped."""
        costs = self.costs(candidate, points)
        kept = [row for row in np.flatnonzero(~self._covered(costs)).tolist() if not _beats_any(costs, costs[row])]
        kept = [row for at, row in enumerate(kept) if not (costs[kept[:at]] == costs[row]).all(axis=1).any()]
        more = [
            JointPoint(
                candidate.record, candidate.machine, candidate.mappings, candidate.costs,
                float(points[row, 0]), float(points[row, 1]), tuple(choice[row].tolist()),
            )
            for row in kept
        ]  # fmt: skip
        stay = [at for at, old in enumerate(self.values) if not _beats_any(costs[kept], old)]
        self.values = np.concatenate((self.values[stay], costs[kept]))
        self.points = [self.points[at] for at in stay] + more


def _beats_any(costs: Floats, other: Floats) -> bool:
    """Whether some costs are nowhere larger than others, and smaller somewhere."""
    return bool(((costs <= other).all(axis=1) & (costs < other).any(axis=1)).any())


class JointRun(SweepRun):
    """One run of a sweep for its joint front.

    `solved` has the fronts of layers on machines so far. What they say of other machines is compared in
    tests/test_explore_joint.py with mapping every design by itself.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.share = math.sqrt(1.0 + self.sweep.within) - 1.0
        self.found = Found(self.sweep.objectives, self.share)
        self.solved: dict[tuple[str, int], list[SolvedLayer]] = {}
        self.open: list[Candidate] = []
        self.searches = self.alone = 0

    def go(self, pool: Workers) -> None:
        """Look at all designs until the front is proved, or nothing is left to search."""
        self.open = self._candidates()
        self._tell()
        while self.open:
            candidate = self.open[0]
            status = self._settled(candidate)
            if status:
                candidate.record.status = status
                self.pruned += status == "pruned"
                self.open.pop(0)
            else:
                self._search(pool, candidate, self._widest(candidate))
            self._tell()

    def _candidates(self) -> list[Candidate]:
        """Designs of which none has all on no more area, the largest ones first: they lend to the smaller ones."""
        made: list[tuple[Record, Machine, str, Floats]] = []
        for design in self.designs():
            record = Record(design, 0)
            self.records.append(record)
            status, reason = self.prepare(record)
            if status:
                record.status, record.reason = status, reason
                continue
            machine, load = record.needs
            self.alone += len(load.different)
            kind, has = strength(machine.architecture)
            if self.sweep.mapper.constraints is not None:  # they may speak of shares of the machine
                kind = machine.hash
            made.append((record, machine, kind, np.array([*has, machine.architecture.clock_hz or 0.0])))
        self.refuse_no_machine()
        made.sort(key=lambda each: (each[0].area_um2 or 0.0, (-each[3]).tolist(), each[0].design.number))
        kept: dict[tuple[str, int], list[tuple[int, Floats]]] = {}
        found: list[Candidate] = []
        for record, machine, kind, amounts in made:  # whatever has all of a design comes before it
            (_, load), number = record.needs, record.design.number
            others = kept.setdefault((kind, id(load)), [])
            stronger = next((other for other, more in others if (more >= amounts).all()), None)
            if stronger is not None:
                record.status, record.reason = "pruned", f"design {stronger} has all that it has, on no more area"
                self.pruned += 1
                continue
            try:
                limits = [layer_limits(machine.architecture, self.plan.einsums[layer]) for layer in load.different]
            except AccelsimError as error:
                record.status, record.reason = "refused", str(error)
                continue
            others.append((number, amounts))
            lower = [np.array([[each.energy_pj * (1 - ROUNDING), float(each.cycles)]]) for each in limits]
            many = len(lower)
            candidate = Candidate(
                record, machine, load, kind, amounts, lower, mappings=[[] for _ in lower], costs=[NOWHERE] * many,
                best=[np.zeros(0, np.int64)] * many, seen=[0] * many,
            )  # fmt: skip
            found.append(candidate)
        return sorted(found, key=lambda each: (-(each.record.area_um2 or 0.0), (-each.amounts).tolist()))

    def _settled(self, candidate: Candidate) -> str:
        """What became of a design, if that is sure; points of it that belong on the front are put there."""
        for number, layer in enumerate(candidate.load.different):
            self._borrow(candidate, number, layer)
        least, _ = network_front(candidate.lower, candidate.load, self.share)
        if not len(least):
            return "no_valid_mapping"
        if self.found.covers(candidate, least):
            return "mapped" if candidate.record.design.number in self.found.designs else "pruned"
        points, choice = network_front(candidate.upper, candidate.load, self.share)
        if len(points):
            rows = [candidate.best[layer] for layer in candidate.load.layer_of]
            mappings = np.stack([row[column] for row, column in zip(rows, choice.T, strict=True)], axis=1)
            self.found.add(candidate, points, mappings)
            if self.found.covers(candidate, least):
                return "mapped" if candidate.record.design.number in self.found.designs else "pruned"
        if len(candidate.searched) < len(candidate.load.different):
            return ""
        candidate.record.reason = "; ".join(candidate.troubles)
        return "unproved"

    def _widest(self, candidate: Candidate) -> list[int]:
        """Layers that are searched next: those with most between what none beats and what was found."""
        load = candidate.load
        weights = np.bincount(load.layer_of, load.weights, len(load.different))
        total = sum(weight * lower.min(axis=0) for weight, lower in zip(weights, candidate.lower, strict=True))
        gaps: list[tuple[float, int]] = []
        for number, (weight, lower, upper) in enumerate(zip(weights, candidate.lower, candidate.upper, strict=True)):
            if number in candidate.searched:
                continue
            gap = math.inf
            if len(upper):
                more = ((upper[None] - lower[:, None]) / total).max(axis=2).min(axis=1)
                gap = float(weight * more.max())
            gaps.append((-gap, number))
        return [number for _, number in sorted(gaps)[:LAYERS]]

    def _search(self, pool: Workers, candidate: Candidate, layers: Sequence[int]) -> None:
        """Search layers of a design, where that is not done."""
        machine, different = candidate.machine, candidate.load.different
        items = self.items(machine, machine.hash, FRONT, [different[number] for number in layers])
        for item in items:
            if not self.is_finished(item):
                pool.submit([item])
        while any(item.key not in self.store.rows for item in items):
            self.keep(pool.finished(POLL_SECONDS))
            self._tell()
        self.searches += len(items)
        for number, item in zip(layers, items, strict=True):
            row = self.store.rows[item.key]
            candidate.searched.add(number)
            if row["status"] in ("mapped", "no_valid_mapping"):
                self._lend(candidate, item.layer, row)
            if not row["proved"]:
                candidate.troubles.append(f"{self.plan.einsums[item.layer].name}: {row['stop'] or row['reason']}")

    def _lend(self, candidate: Candidate, layer: int, row: dict[str, Any]) -> None:
        """Take what the search of a layer of a design found, for all machines."""
        points = json.loads(row["mapping"]) if row["status"] == "mapped" else []
        front = np.array([[each["energy_pj"], each["cycles"]] for each in points]).reshape(-1, 2)
        texts = tuple(json.dumps(each["mapping"], separators=(",", ":")) for each in points)
        solved = SolvedLayer(candidate.amounts, front, bool(row["proved"]), texts)
        self.solved.setdefault((candidate.kind, layer), []).append(solved)

    def _borrow(self, candidate: Candidate, number: int, layer: int) -> None:
        """Raise `lower` and complete `upper` of a different layer of a design by what is known of other machines."""
        known = self.solved.get((candidate.kind, layer), [])
        new, candidate.seen[number] = known[candidate.seen[number] :], len(known)
        for each in new:
            if each.proved and (each.amounts >= candidate.amounts).all():
                candidate.lower[number] = both(candidate.lower[number], each.front)
        texts = [text for each in new for text in each.mappings if text not in candidate.mappings[number]]
        texts = list(dict.fromkeys(texts))
        if texts:
            more = costs_of_mappings(candidate.machine.architecture, self.plan.einsums[layer], texts)
            costs = candidate.costs[number] = np.concatenate((candidate.costs[number], more))
            candidate.mappings[number] += texts
            rows = undominated(costs)
            candidate.best[number] = rows[np.isfinite(costs[rows, 0])]

    def _tell(self) -> None:
        done = sum(record.status != "running" for record in self.records)
        self.tell(done, len(self.records), [tuple(each) for each in self.found.values.tolist()])

    def result(self, stop: str, joint: Joint | None = None) -> Explored:
        """All designs that are finished, and the front."""
        for record in self.records:  # points of a design may be beaten after it was looked at
            if record.status == "mapped" and record.design.number not in self.found.designs:
                record.status, record.reason = "pruned", "points of other designs beat what was found of it"
        unproved = tuple(
            sorted(r.design.number for r in self.records if r.status in ("running", "unproved", "refused"))
        )
        joint = Joint(
            tuple(self.found.points), self.sweep.within, len(self.records), unproved, self.searches, self.alone
        )
        return super().result(stop, joint)
