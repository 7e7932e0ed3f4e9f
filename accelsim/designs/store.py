"""The folder of a sweep: finished work in parts that are written as a whole, and the tables made of it at the end.

A part is a Parquet file whose name is the hash of its bytes, so that a damaged one is noticed. A row is a piece of work
under the name of its content; what is in a part is never done again.

How far each design of a sweep is, how far the sweep is, and what a run of it leaves.

What designs are judged by: totals over the networks, objectives, domination and the Pareto front.
"""

from __future__ import annotations

import errno
import hashlib
import io
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from accelsim import __version__
from accelsim.designs import machines
from accelsim.designs.sweep import COLUMNS, Sweep, suited_objective
from accelsim.designs.work import Item, Plan, WorkRow, differs
from accelsim.inputs.errors import AccelsimError, Problem, SpecError, Unreadable, require
from accelsim.inputs.library import MOST_MODEL_BYTES, read_file
from accelsim.model.encode import Floats
from accelsim.results import write_directory
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


PARTS = "parts"
POLL_SECONDS, FLUSH_SECONDS = 0.2, 2.0
"""How long a run waits for results, and finished work before it is written; a crash loses no more than that."""
PART_COLUMNS = {
    **dict.fromkeys(
        ("key", "what", "status", "reason", "bottleneck", "energy_by_component", "mapping", "stop", "version"), "text"
    ),
    **dict.fromkeys(("energy_pj", "cycles", "utilization", "value", "bound", "seconds"), "float"),
    **dict.fromkeys(("macs", "outer_words", "nodes", "evaluated"), "int"),
    "proved": "bool",
}
"""Type of each column of a part."""


def refuse_without_pyarrow() -> None:
    """Raise AccelsimError if no data set could be written, before time is spent."""
    require("pyarrow", "results of sweeps are Parquet files", "explore")


def parquet_bytes(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> bytes:
    """Rows as a Parquet file; equal rows give equal bytes.

    `rows`: what a row has not got is null. `columns`: type of each column: `text`, `float`, `int`, `bool`.
    """
    import pyarrow as pa
    from pyarrow import parquet

    types = {"text": pa.string(), "float": pa.float64(), "int": pa.int64(), "bool": pa.bool_()}
    arrays = [pa.array([row.get(name) for row in rows], types[kind]) for name, kind in columns.items()]
    with io.BytesIO() as file:
        parquet.write_table(pa.Table.from_arrays(arrays, names=list(columns)), file, compression="zstd")
        return file.getvalue()


def read_parquet(path: Path, data: bytes | None = None) -> list[WorkRow]:
    """Rows of a Parquet file; raises AccelsimError if the file cannot be read, or is none."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        content = read_file(path, MOST_MODEL_BYTES) if data is None else data
        file = parquet.ParquetFile(io.BytesIO(content), pre_buffer=False)
        table = file.read(use_threads=False)  # threads of pyarrow may end a process that exits at once
        rows: list[WorkRow] = table.to_pylist()
    except Unreadable as error:
        raise AccelsimError(f"{error}; run the sweep first") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise AccelsimError(f"{path}: cannot be read: {why}") from None
    return rows


class Store:
    """Finished work of a sweep, in memory and in its folder.

    `rows`: finished work by its key. `troubles`: parts that could not be read; what was in them is done again.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        refuse_without_pyarrow()
        from pyarrow import parquet  # noqa: F401  # takes 0.2 s, once

        self.folder = Path(folder)
        self.rows: dict[str, WorkRow] = {}
        self.troubles: list[str] = []
        self._new: list[WorkRow] = []
        self._parts: dict[Path, list[str]] = {}
        self._unseen: dict[str, Path] = {}
        for path in sorted((self.folder / PARTS).glob("*.parquet")):
            self._load(path)

    def _load(self, path: Path) -> None:
        """Take what a part holds; one that cannot be read stays where it is, a damaged one is put aside."""
        try:
            data = read_file(path, MOST_MODEL_BYTES)
        except Unreadable as error:
            self.troubles.append(f"{error}; what this part holds is done again")
            return
        whole = hashlib.sha256(data).hexdigest()[:32] == path.stem
        try:
            rows = read_parquet(path, data) if whole else []
        except AccelsimError:
            rows = []
        named = all(isinstance(row.get("key"), str) for row in rows)
        if not rows or not named or any(name not in rows[0] for name in PART_COLUMNS):
            aside = self._put_aside(path)
            self.troubles.append(f"{path}: this part is damaged, and is {aside} now; what it held is done again")
            return
        for row in rows:
            if row["key"] not in self.rows:
                self.rows[row["key"]], self._unseen[row["key"]] = row, path
                self._parts.setdefault(path, []).append(row["key"])

    @staticmethod
    def _put_aside(path: Path) -> str:
        aside = path.with_suffix(".damaged")
        with suppress(FileNotFoundError):  # another run in this folder was faster
            path.replace(aside)
        return aside.name

    def believe(self, key: str, wrong: Callable[[WorkRow], str]) -> str:
        """Look once at a row that a part held; returns a line that says what is wrong with it, or nothing.

        A part with such a row is put aside; what it held and was not yet looked at is done again.
        """
        path = self._unseen.pop(key, None)
        why = wrong(self.rows[key]) if path else ""
        if path is None or not why:
            return ""
        for name in self._parts.pop(path):
            if name == key or name in self._unseen:
                self._unseen.pop(name, None)
                del self.rows[name]
            else:
                self._new.append(self.rows[name])
        aside = self._put_aside(path)
        return f"{path}: this part is not what it should be, and is {aside} now; what it held is done again: {why}"

    def add(self, row: WorkRow) -> bool:
        """Take a finished piece of work; whether it was new."""
        if row["key"] in self.rows:
            return False
        self.rows[row["key"]] = {**dict.fromkeys(PART_COLUMNS), **row, "version": __version__}
        self._new.append(self.rows[row["key"]])
        return True

    def flush(self) -> None:
        """Write what is finished and not yet written as one more part.

        Raises AccelsimError if the part cannot be written, such as on a full disk; earlier parts are as they were.
        """
        if not self._new:
            return
        data = parquet_bytes(sorted(self._new, key=lambda row: str(row["key"])), PART_COLUMNS)
        self.write({f"{PARTS}/{hashlib.sha256(data).hexdigest()[:32]}.parquet": data})
        self._new = []

    def write(self, files: Mapping[str, bytes]) -> None:
        """Write files of the folder, each as a whole or not at all."""
        try:
            write_directory(self.folder, files)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            hint = "make room and" if full else "see to the folder and"
            raise AccelsimError(
                f"{error.filename or self.folder}: {error.strerror or error}; what was written before is kept: "
                f"{hint} start the same command again"
            ) from None


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
    """How far a sweep is: designs `seen` of a `total` at most, and pruned; points of the `front`, the `least` of each.

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

    `rows` has one row for each design, as `designs.parquet` has them, ready for `accelsim.to_pandas`.
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
            mapper = replace(mapper, objective=suited_objective(self.sweep.objectives))
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
            raise SpecError([Problem(self.sweep.places["conditions"], what)])
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
        """Whether work is finished, and right where a part held it."""
        trouble = self.store.believe(item.key, partial(differs, self.plan, item))
        if trouble:
            self.on_trouble(trouble)
        return item.key in self.store.rows

    def keep(self, rows: Sequence[WorkRow]) -> list[WorkRow]:
        """Keep results, and write them if it is time; returns those that are new."""
        fresh = [row for row in rows if self.store.add(row)]
        self.fresh += len(fresh)
        if time.monotonic() - self.flushed > FLUSH_SECONDS:
            self.store.flush()
            self.flushed = time.monotonic()
        return fresh

    def tell(self, seen: int, total: int, points: Sequence[Point]) -> None:
        """Say how far the run is: designs of a total, and the points on the front."""
        if self.on_progress is None:
            return
        least = tuple(map(min, zip(*points, strict=True))) if points else None
        self.on_progress(
            SweepProgress(
                seen=seen, total=total, seconds=time.monotonic() - self.started, pruned=self.pruned,
                front=len(points), least=least, fresh=self.fresh,
            )
        )  # fmt: skip

    def result(self, stop: str, joint: Joint | None = None) -> Explored:
        """All designs that are finished, in the order of their numbers."""
        ended = sorted((r for r in self.records if r.status != "running"), key=lambda r: r.design.number)
        spent = time.monotonic() - self.started
        return Explored(self.sweep, self.store, ended, stop, spent, self.overhead, self.fresh, self.known, joint)
