"""The folder of a sweep: finished work in one file, and the tables made of it at the end.

A piece of work stands under the name of its content; what is in the file is never done again.

How far each design of a sweep is, how far the sweep is, and what a run of it leaves.

What designs are judged by: totals over the networks, objectives, domination and the Pareto front.
"""

from __future__ import annotations

import errno
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accelsim.designs import machines
from accelsim.designs.sweep import COLUMNS, Sweep, suited_objective
from accelsim.designs.work import Item, Plan, WorkRow, differs
from accelsim.inputs.errors import AccelsimError, InputError, Problem
from accelsim.model.encode import Floats
from accelsim.results import write_directory
from accelsim.results.cache import DamagedError, Entries
from accelsim.search.stopping import Progress

Point = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class DesignTotals:
    """Sums over all networks, layers times their repeats and networks times their weights.

    `time_s` and `power_w` are None without a clock, `area_um2` where the architecture does not tell it.
    """

    energy_pj: float
    cycles: float
    time_s: float | None
    power_w: float | None
    area_um2: float | None

    @property
    def edp_pj_cycles(self) -> float:
        """Energy-delay product [pJ x cycle]."""
        return self.energy_pj * self.cycles

    def objective(self, name: str) -> float:
        """Value of an objective; raises AccelsimError if the machine does not tell it."""
        value: float | None = getattr(self, COLUMNS[name])
        if value is None and name == "area":
            raise AccelsimError("the architecture tells no area; write `area: …`, a formula of the parameters")
        if value is None:
            raise AccelsimError(f"the architecture tells no clock, and {name} needs one")
        return value


def total(weights: Sequence[float], machine: machines.Machine, costs: Sequence[machines.Bound]) -> DesignTotals:
    """Add up the costs of all layers, each as often as it counts."""
    energy = math.fsum(weight * cost.energy_pj for weight, cost in zip(weights, costs, strict=True))
    cycles = math.fsum(weight * cost.cycles for weight, cost in zip(weights, costs, strict=True))
    clock = machine.architecture.clock_hz
    time = None if clock is None else cycles / clock
    power = energy * 1e-12 / time if time else None
    return DesignTotals(energy, cycles, time, power, machine.area_um2)


def point(sweep: Sweep, totals: DesignTotals) -> Point:
    """Objectives of a design in their order."""
    return tuple(totals.objective(name) for name in sweep.objectives)


def dominates(one: Point, other: Point) -> bool:
    """Whether a point is nowhere worse than another one and somewhere better.

    >>> dominates((1.0, 2.0), (1.0, 3.0)), dominates((1.0, 2.0), (1.0, 2.0)), dominates((1.0, 2.0), (0.5, 3.0))
    (True, False, False)
    """
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def front(points: Mapping[int, Point]) -> frozenset[int]:
    """Names of the points that none dominates; of equal points all.

    >>> sorted(front({1: (1.0, 2.0), 2: (2.0, 1.0), 3: (2.0, 2.0), 4: (1.0, 2.0)}))
    [1, 2, 4]
    """
    kept: list[tuple[Point, int]] = []
    for name, found in sorted(points.items(), key=lambda item: (item[1], item[0])):
        if not any(dominates(other, found) for other, _ in kept):
            kept.append((found, name))  # in this order no later point dominates an earlier one
    return frozenset(name for _, name in kept)


def beaten(bound: Point, finished: Iterable[Point]) -> Point | None:
    """The first finished design that dominates all that a bound allows; None if none does."""
    return next((point for point in finished if dominates(point, bound)), None)


FILE, TABLES = "sweep.sqlite", "tables"
"""The file of finished work, and the key of its tables there; those of work are hashes."""
POLL_SECONDS, FLUSH_SECONDS = 0.2, 2.0
"""How long a run waits for results, and finished work before it is written; a crash loses no more than that."""
WORK_COLUMNS = (
    *("key", "what", "status", "reason", "bottleneck", "energy_by_component", "mapping", "stop", "energy_pj", "cycles"),
    *("utilization", "value", "bound", "seconds", "macs", "offchip_words", "nodes", "evaluated", "proved"),
)
"""What is kept of a piece of work, each None where it has no such thing."""


class Store:
    """Finished work of a sweep, in memory and in its folder.

    `rows`: finished work by its key, of which nobody has looked at `unseen` yet. `trouble`: says that not all could be
    read; what was lost is done again. Raises AccelsimError if nothing can be read.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.file = work_file(self.folder)
        self.rows: dict[str, WorkRow] = {}
        self.trouble = ""
        self._new: list[WorkRow] = []
        whole = True
        try:
            for key, row in self.file.read():
                if isinstance(row, dict) and row.keys() >= set(WORK_COLUMNS):
                    self.rows[key] = row
                elif row is None or key != TABLES:
                    whole = False
        except DamagedError:
            whole = False
        except OSError as error:
            raise AccelsimError(f"{self.file.path}: cannot be read: {error.strerror}") from None
        self.unseen = set(self.rows)
        if not whole:
            self._new = list(self.rows.values())
            aside = self.file.put_aside()
            self.trouble = f"{self.file.path}: damaged, and is {aside} now; what could not be read is done again"

    def add(self, row: WorkRow) -> bool:
        """Take a finished piece of work; whether it was new."""
        if row["key"] in self.rows:
            return False
        self.rows[row["key"]] = {**dict.fromkeys(WORK_COLUMNS), **row}
        self._new.append(self.rows[row["key"]])
        return True

    def flush(self) -> None:
        """Write what is finished and not yet written."""
        if self._new:
            self.write({row["key"]: row for row in self._new})
            self._new = []

    def write(self, entries: Mapping[str, Any], files: Mapping[str, bytes] | None = None) -> None:
        """Write entries of the file, all or none, and files of the folder.

        Raises AccelsimError if that cannot be done, such as on a full disk; what was there before is as it was.
        """
        try:
            self.file.write(entries)
            write_directory(self.folder, files or {})
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            hint = "make room and" if full else "see to the folder and"
            raise AccelsimError(
                f"{error.filename or self.folder}: {error.strerror or error}; what was written before is kept: "
                f"{hint} start the same command again"
            ) from None


def work_file(folder: Path) -> Entries:
    """The file of finished work in a folder, which must not be one of an earlier version."""
    if not (folder / FILE).exists() and any((folder / "parts").glob("*.parquet")):
        raise AccelsimError(
            f"{folder / 'parts'}: finished work of an earlier version, which this one would do again in any case; "
            "remove that folder, or choose another one with -o"
        )
    return Entries(folder / FILE)


@dataclass(slots=True)
class Record:
    """A design and how far it is."""

    design: machines.Design
    wave: int
    # `running`, `mapped`, `pruned` (proved to be beaten), `over_area`, `over_power`, `no_valid_mapping`, `refused`
    # (counts beyond 64 bits, or the like) or `invalid` (there is no such machine)
    status: str = "running"
    reason: str = ""
    # what is built, and what it has to run; None where there is none
    machine: machines.Machine | None = None
    load: machines.Load | None = None
    area_um2: float | None = None
    keys: list[str] = field(default_factory=list)  # work of each different layer whose row holds its cost
    # work of each different layer whose row holds its mapping and certificate; often the same
    searches: list[str] = field(default_factory=list)
    # what no mapping of each layer falls below, as far as it was looked at
    bounds: list[machines.Bound] = field(default_factory=list)
    totals: DesignTotals | None = None

    @property
    def needs(self) -> tuple[machines.Machine, machines.Load]:
        """Machine and load of a design that is running."""
        assert self.machine is not None
        assert self.load is not None
        return self.machine, self.load


@dataclass(frozen=True, slots=True)
class SweepProgress(Progress):
    """How far a sweep is: designs `done` of a `total` at most, and pruned; points of the `front`, the `least` of each.

    `fresh` is the work of this run.
    """

    pruned: int = 0
    front: int = 0
    least: Point | None = None
    fresh: int = 0


OnSweepProgress = Callable[[SweepProgress], None]


@dataclass(frozen=True, slots=True)
class JointPoint:
    """A point of a joint front: a design, its energy [pJ] and cycles, and the number of the mapping of each layer.

    `mappings` and `costs`: of each different layer of the design, as JSON, and energy and cycles: float64[N, 2].
    """

    record: Record
    machine: machines.Machine
    mappings: list[list[str]]
    costs: list[Floats]
    energy_pj: float
    cycles: float
    choice: tuple[int, ...]

    @property
    def totals(self) -> DesignTotals:
        """What the point costs."""
        return total((1.0,), self.machine, [machines.Bound(self.energy_pj, self.cycles)])


@dataclass(frozen=True, slots=True)
class Joint:
    """The joint front, and what is proved about it.

    `within`: each design with each mapping has a point with at most so much more energy and cycles. `unproved`: designs
    of which that is not proved. `searched`: layers that were searched, of `alone` if each design were by itself.
    """

    points: tuple[JointPoint, ...]
    within: float
    designs: int
    unproved: tuple[int, ...]
    searched: int
    alone: int

    def about(self) -> dict[str, Any]:
        """What is proved, as plain values; what differs from run to run is left out."""
        return {
            "within": self.within,
            "proved": not self.unproved,
            "points": len(self.points),
            "designs": self.designs,
            "unproved": list(self.unproved),
            "layers_searched": self.searched,
            "layers_of_all_designs": self.alone,
        }


@dataclass(slots=True)
class Explored:
    """What a run of a sweep leaves: each design that is finished, by its number, and why it ended.

    `rows` has one row for each design, as `designs.csv` has them, ready for `accelsim.to_pandas`.
    """

    sweep: Sweep
    store: Store
    records: list[Record]
    stop: str
    seconds: float
    overhead_seconds: float
    done_now: int
    known_before: int
    joint: Joint | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def points(self) -> dict[int, Point]:
        """Objectives of the designs that are mapped and within the budgets, by number."""
        return {r.design.number: point(self.sweep, r.totals) for r in self.records if r.status == "mapped" and r.totals}


@dataclass(eq=False)
class SweepRun:
    """What runs of a sweep have in common: machines, loads, finished work, and how far each design is."""

    sweep: Sweep
    store: Store
    on_progress: OnSweepProgress | None
    on_trouble: Callable[[str], None]

    def __post_init__(self) -> None:
        self.machines, self.loads = machines.Machines(self.sweep), machines.Loads(self.sweep)
        mapper = self.sweep.mapper
        if self.sweep.joint:
            options = replace(mapper.options, objective=suited_objective(self.sweep.objectives))
            mapper = replace(mapper, options=options)
        self.plan = Plan(tuple(self.loads.einsums), mapper)
        self.mapper_hash = machines.mapper_hash(mapper)
        self.records: list[Record] = []
        self.known = len(self.store.rows)
        self.pruned = self.fresh = 0
        self.overhead = 0.0
        self.started = self.flushed = time.monotonic()

    def designs(self) -> list[machines.Design]:
        """Designs of a grid, or a random choice of it."""
        if self.sweep.strategy == "random":
            return machines.random_designs(self.sweep, self.machines.meets_conditions)
        every = (machines.design_at(self.sweep, number) for number in range(self.sweep.grid))
        return list(filter(self.machines.meets_conditions, every))

    def prepare(self, record: Record, made: machines.Machine | None = None) -> tuple[str, str]:
        """Give a design its load and its machine; its status and why, if it is none to be looked at."""
        names = [*self.sweep.objectives]
        names += ["area"] * math.isfinite(self.sweep.most_area_um2) + ["power"] * math.isfinite(self.sweep.most_power_w)
        try:
            record.load = self.loads.of(record.design)
            record.machine = made or self.machines.make(record.design)
            record.area_um2 = record.machine.area_um2
            some = total(record.load.weights, record.machine, [machines.Bound(1.0, 1.0)] * len(record.load.weights))
            for name in names:  # refuses a machine that does not tell what it is judged by
                some.objective(name)
        except AccelsimError as error:
            return "invalid", str(error)
        if (record.area_um2 or 0.0) > self.sweep.most_area_um2:
            return "over_area", f"{record.area_um2:.6g} um2"
        return "", ""

    def refuse_no_machine(self) -> None:
        """Raise if no design meets the conditions, or none has a machine."""
        if not self.records:
            what = "conditions: no design that was looked at meets all of them"
            raise InputError([Problem(self.sweep.places["conditions"], what)])
        if all(record.status == "invalid" for record in self.records):
            first = min(self.records, key=lambda record: record.design.number)
            raise AccelsimError(
                f"there is no machine for any design; {self.machines.said(first.design)}:\n{first.reason}"
            )

    def items(self, machine: machines.Machine, digest: str, what: str, layers: Sequence[int]) -> list[Item]:
        """Work of one kind for some layers."""
        keys = [machines.work_key(what, digest, self.loads.hashes[layer], self.mapper_hash) for layer in layers]
        return [Item(key, what, machine.architecture, layer) for key, layer in zip(keys, layers, strict=True)]

    def is_finished(self, item: Item) -> bool:
        """Whether work is finished, and right where the file held it."""
        if item.key in self.store.unseen:
            self.store.unseen.discard(item.key)
            if why := differs(self.plan, item, self.store.rows[item.key]):
                del self.store.rows[item.key]
                what = "a result is not what it should be, and is done again"
                self.on_trouble(f"{self.store.file.path}: {what}: {why}")
        return item.key in self.store.rows

    def keep(self, rows: Sequence[WorkRow]) -> list[WorkRow]:
        """Keep results, and write them if it is time; returns those that are new."""
        fresh = [row for row in rows if self.store.add(row)]
        self.fresh += len(fresh)
        if time.monotonic() - self.flushed > FLUSH_SECONDS:
            self.store.flush()
            self.flushed = time.monotonic()
        return fresh

    def tell(self, done: int, total: int, points: Sequence[Point]) -> None:
        """Say how far the run is: designs of a total, and the points on the front."""
        if self.on_progress is None:
            return
        least = tuple(map(min, zip(*points, strict=True))) if points else None
        self.on_progress(
            SweepProgress(
                done=done, total=total, seconds=time.monotonic() - self.started, pruned=self.pruned,
                front=len(points), least=least, fresh=self.fresh,
            )
        )  # fmt: skip

    def result(self, stop: str, joint: Joint | None = None) -> Explored:
        """All designs that are finished, in the order of their numbers."""
        ended = sorted((r for r in self.records if r.status != "running"), key=lambda r: r.design.number)
        spent = time.monotonic() - self.started
        return Explored(self.sweep, self.store, ended, stop, spent, self.overhead, self.fresh, self.known, joint)
