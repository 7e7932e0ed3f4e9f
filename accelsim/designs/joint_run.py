"""Run a sweep for its joint front: in which order designs and layers are searched, and what is proved at the end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from accelsim.designs.joint import (
    NOWHERE,
    ROUNDING,
    Candidate,
    Found,
    Knowledge,
    network_front,
    strength,
)
from accelsim.designs.machines import Loads, Machine, Machines, grid_designs, mapper_hash, random_designs, work_key
from accelsim.designs.pool import Workers
from accelsim.designs.store import FLUSH_SECONDS, Explored, Joint, Record, Store, SweepProgress
from accelsim.designs.sweep import Sweep
from accelsim.designs.work import FRONT, Item, Plan, differs
from accelsim.inputs.errors import AccelsimError, Problem, SpecError
from accelsim.model.encode import Floats
from accelsim.model.limits import layer_limits

_POLL_SECONDS = 0.2
LAYERS = 4
"""Layers of a design that are searched before it is looked at again."""


class JointRun:
    """One run of a sweep for its joint front."""

    def __init__(
        self,
        sweep: Sweep,
        store: Store,
        on_progress: Callable[[SweepProgress], None] | None,
        on_trouble: Callable[[str], None],
    ) -> None:
        self.sweep, self.store, self.on_progress, self.on_trouble = sweep, store, on_progress, on_trouble
        self.machines, self.loads = Machines(sweep), Loads(sweep)
        fast, frugal = bool({"cycles", "time"} & {*sweep.objectives}), "energy" in sweep.objectives
        objective = "edp" if "edp" in sweep.objectives or fast == frugal else "cycles" if fast else "energy"
        self.plan = Plan(tuple(self.loads.einsums), replace(sweep.mapper, objective=objective))
        self.mapper_hash = mapper_hash(self.plan.mapper)
        self.share = math.sqrt(1.0 + sweep.within) - 1.0
        self.found, self.knowledge = Found(sweep.objectives, self.share), Knowledge()
        self.records: list[Record] = []
        self.open: list[Candidate] = []
        self.known = len(store.rows)
        self.searches = self.alone = self.fresh = self.pruned = 0
        self.started = self.flushed = time.monotonic()

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
        sweep = self.sweep
        choose = random_designs if sweep.strategy == "random" else grid_designs
        made: list[tuple[Record, Machine, str, Floats]] = []
        for design in choose(sweep, self.machines.meets_conditions):
            record = Record(design, 0)
            self.records.append(record)
            try:
                record.load = self.loads.of(design)
                machine = record.machine = self.machines.make(design)
                record.area_um2 = machine.area_um2
                self._refuse_unknown(machine)
            except AccelsimError as error:
                record.status, record.reason = "invalid", str(error)
                continue
            if (machine.area_um2 or 0.0) > sweep.most_area_um2:
                record.status, record.reason = "over_area", f"{machine.area_um2:.6g} um2"
                continue
            self.alone += len(record.load.different)
            kind, has = strength(machine.architecture)
            if sweep.mapper.constraints is not None:  # they may speak of shares of the machine
                kind = machine.hash
            made.append((record, machine, kind, np.array([*has, machine.architecture.clock_hz or 0.0])))
        if not self.records:
            what = "conditions: no design that was looked at meets all of them"
            raise SpecError([Problem(sweep.places["conditions"], what)])
        if all(record.status == "invalid" for record in self.records):
            first = self.records[0]
            raise AccelsimError(
                f"there is no machine for any design; {self.machines.said(first.design)}:\n{first.reason}"
            )
        made.sort(key=lambda each: (each[0].area_um2 or 0.0, (-each[3]).tolist(), each[0].design.number))
        kept: dict[tuple[str, int], list[tuple[int, Floats]]] = {}
        found: list[Candidate] = []
        for record, machine, kind, amounts in made:  # whatever has all of a design comes before it
            load, number = record.load, record.design.number
            assert load is not None
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

    def _refuse_unknown(self, machine: Machine) -> None:
        """Refuse a machine that does not tell what it is judged by."""
        names = {*self.sweep.objectives, *(["area"] if math.isfinite(self.sweep.most_area_um2) else [])}
        if "area" in names and machine.area_um2 is None:
            raise AccelsimError("the architecture tells no area; write `area: …`, a formula of the parameters")
        if "time" in names and machine.architecture.clock_hz is None:
            raise AccelsimError("the architecture tells no clock, and time needs one")

    def _settled(self, candidate: Candidate) -> str:
        """What became of a design, if that is sure; points of it that belong on the front are put there."""
        for number, layer in enumerate(candidate.load.different):
            self.knowledge.apply(candidate, number, self.plan.einsums[layer])
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
        machine, load = candidate.machine, candidate.load
        items = []
        for number in layers:
            layer = load.different[number]
            key = work_key(FRONT, machine.hash, self.loads.hashes[layer], self.mapper_hash)
            items.append(Item(key, FRONT, machine.architecture, layer))
        for item in items:
            trouble = self.store.believe(item.key, partial(differs, self.plan, item))
            if trouble:
                self.on_trouble(trouble)
            if item.key not in self.store.rows:
                pool.submit([item])
        while any(item.key not in self.store.rows for item in items):
            self.fresh += sum(self.store.add(row) for row in pool.finished(_POLL_SECONDS))
            if time.monotonic() - self.flushed > FLUSH_SECONDS:
                self.store.flush()
                self.flushed = time.monotonic()
            self._tell()
        self.searches += len(items)
        for number, item in zip(layers, items, strict=True):
            row = self.store.rows[item.key]
            candidate.searched.add(number)
            if row["status"] in ("mapped", "no_valid_mapping"):
                self.knowledge.add(candidate, number, row)
            if not row["proved"]:
                candidate.troubles.append(f"{self.plan.einsums[item.layer].name}: {row['stop'] or row['reason']}")

    def _tell(self) -> None:
        if self.on_progress is None:
            return
        values = self.found.values
        done = sum(record.status != "running" for record in self.records)
        with suppress(ValueError):
            self.on_progress(
                SweepProgress(
                    seen=done, total=len(self.records), seconds=time.monotonic() - self.started, pruned=self.pruned,
                    front=len(values), least=tuple(values.min(axis=0).tolist()) if len(values) else None,
                    fresh=self.fresh,
                )
            )  # fmt: skip

    def result(self, stop: str) -> Explored:
        """All designs that are finished, in the order of their numbers, and the front."""
        for record in self.records:  # points of a design may be beaten after it was looked at
            if record.status == "mapped" and record.design.number not in self.found.designs:
                record.status, record.reason = "pruned", "points of other designs beat what was found of it"
        unproved = tuple(
            sorted(r.design.number for r in self.records if r.status in ("running", "unproved", "refused"))
        )
        joint = Joint(
            tuple(self.found.points), self.sweep.within, len(self.records), unproved, self.searches, self.alone
        )
        ended = [record for record in self.records if record.status != "running"]
        records = sorted(ended, key=lambda record: record.design.number)
        spent = time.monotonic() - self.started
        return Explored(self.sweep, self.store, records, stop, spent, 0.0, self.fresh, self.known, joint)
