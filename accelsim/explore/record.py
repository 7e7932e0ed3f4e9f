"""How far each design of a sweep is, how far the sweep is, and what a run of it leaves."""

from __future__ import annotations

from dataclasses import dataclass, field

from accelsim.explore import judging
from accelsim.explore.judging import Point, Totals
from accelsim.explore.machines import Bound, Design, Machine
from accelsim.explore.networks import Load
from accelsim.explore.store import Store
from accelsim.explore.sweep import Sweep


@dataclass(slots=True)
class Record:
    """A design and how far it is.

    Attributes
    ----------
    status : str
        `running`, `mapped`, `pruned` (proved to be beaten), `over_area`, `over_power`, `no_valid_mapping`, `refused`
        (counts beyond 64 bits, or the like) or `invalid` (there is no such machine).
    machine, load : Machine, Load
        What is built, and what it has to run; None where there is none.
    keys : list of str
        Work of each different layer whose row holds its cost.
    searches : list of str
        Work of each different layer whose row holds its mapping and certificate; often the same.
    bounds : list of Bound
        What no mapping of each layer falls below, as far as it was looked at.
    """

    design: Design
    wave: int
    status: str = "running"
    reason: str = ""
    machine: Machine | None = None
    load: Load | None = None
    area_um2: float | None = None
    keys: list[str] = field(default_factory=list)
    searches: list[str] = field(default_factory=list)
    bounds: list[Bound] = field(default_factory=list)
    totals: Totals | None = None
    pending: set[str] = field(default_factory=set)
    stage: str = ""

    @property
    def needs(self) -> tuple[Machine, Load]:
        """Machine and load of a design that is running."""
        assert self.machine is not None
        assert self.load is not None
        return self.machine, self.load


@dataclass(frozen=True, slots=True)
class State:
    """How far a sweep is; `total` designs are there at most; `fresh` is the work of this run."""

    done: int
    total: int
    pruned: int
    front: int
    best: Point | None
    seconds: float
    fresh: int


@dataclass(slots=True)
class Explored:
    """What a run of a sweep leaves: each design that is finished, by its number, and why it ended."""

    sweep: Sweep
    store: Store
    records: list[Record]
    stop: str
    seconds: float
    overhead_seconds: float
    done_now: int
    known_before: int

    @property
    def points(self) -> dict[int, Point]:
        """Objectives of the designs that are mapped and within the budgets, by number."""
        found = (r for r in self.records if r.status == "mapped" and r.totals is not None)
        return {r.design.number: judging.point(self.sweep, r.totals) for r in found if r.totals is not None}
