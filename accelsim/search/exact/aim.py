"""What an exact search looks for, how it tells of it, and what it found and proved."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace

import numpy as np

from accelsim.inputs.divisors import divisors
from accelsim.inputs.errors import TooManyChoices
from accelsim.inputs.objective import Objective, costs_of
from accelsim.mapspace.factors import passes
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import Floats
from accelsim.model.result import Result
from accelsim.search.descent import Descent
from accelsim.search.exact.incumbents import SURE, Incumbents
from accelsim.search.exact.solve import NO_END, Outcome, Solver
from accelsim.search.exact.worth import Known
from accelsim.search.result import Certificate
from accelsim.search.stopping import Budget, OnProgress, Progress
from accelsim.search.value_kernel import CYCLES, ENERGY, WORDS

FEW_SHAPES = 100
"""Tile shapes of a space that is searched where walks look for mappings of larger ones: some hundredths of a second."""
SHARE_OF_WALKS, MOST_WALKING = 0.4, 1.0
"""Of the time that a search has, how much is left for walks if it is stopped, and how many seconds at most."""


@dataclass(slots=True)
class Watch:
    """Tells how a search goes."""

    goal: Objective | None
    budget: Budget
    on_progress: OnProgress | None
    started: float
    known: tuple[float, float] | None = None
    """Value and energy [pJ] of the best mapping that walks found."""
    until: float = math.inf
    """When the part of the space that is searched now has had its time."""

    @property
    def end(self) -> float | None:
        """When there must be an answer."""
        return None if self.budget.seconds is None else min(self.until, self.started + self.budget.seconds)

    @property
    def deadline(self) -> float | None:
        """When the exact search is to end; the rest of the time is for walks to better mappings."""
        if self.end is None or self.budget.seconds is None:
            return None
        walking = self.started + (1.0 - SHARE_OF_WALKS) * self.budget.seconds
        return min(self.until, max(walking, self.started + self.budget.seconds - MOST_WALKING))

    def tell(self, found: Incumbents, bound: float) -> None:
        """Report the best value so far, and the bound."""
        if self.on_progress is None:
            return
        best = self.known
        if found.many[0] and self.goal is not None:
            best = float(found.value[0]), float(found.column[0, ENERGY])
        self.on_progress(
            Progress(
                done=int(found.tally[0]),
                valid=int(found.tally[1]),
                best=None if best is None else best[0],
                best_energy_pj=None if best is None else best[1],
                total=None,
                seconds=time.monotonic() - self.started,
                seconds_limit=self.budget.seconds,
                bound=bound if math.isfinite(bound) else None,
            )
        )


@dataclass(frozen=True, slots=True)
class Aim:
    """What is looked for, and what it may cost: float64[3]; with `known`, what is better than that mapping.

    `most_nodes`: partial mappings of a space after which the search is given up; `most_shapes`: tile shapes, about, of
    a space that is searched at all; `FEW_SHAPES`: walks look for mappings of larger ones, few of them.
    `fewer`: where too many dimensions may leave remainders, a search of fewer follows, and there is no answer.
    """

    objective: Objective
    most: Floats
    workers: int
    watch: Watch
    known: Result | None = None
    most_nodes: int = NO_END
    fewer: bool = False
    most_shapes: float = math.inf

    @property
    def walks_alone(self) -> bool:
        """Whether larger spaces are not searched until anything is proved."""
        return self.most_shapes == FEW_SHAPES

    def solver(
        self, space: MapSpace, value: float, deadline: float | None, *, every: bool = False, best: Result | None = None
    ) -> Solver:
        """Tables of a space, for mappings of at most some value; they tell what the objective and the limits count.

        `best`: the mapping of that value, if it is known. Raises TooManyChoices, TablesTooLarge, TimeoutError.
        """
        if math.isfinite(self.most_shapes):
            bounds = ((space.encoded.einsum.dims[dim], dim in space.imperfect) for dim in space.dims)
            shapes = math.prod(len(passes(bound) if ragged else divisors(bound)) for bound, ragged in bounds)
            if shapes > self.most_shapes:
                raise TooManyChoices(f"{shapes:.2g} tile shapes are too many to look at")
        limited = np.isfinite(self.most)
        return Solver(
            space,
            cycles=self.objective.counts("cycles") or bool(limited[CYCLES]),
            words=self.objective.counts("offchip_words") or bool(limited[WORDS]),
            every=every,
            known=self.worth(value, best),
            workers=self.workers,
            deadline=deadline,
            memory=self.watch.budget.memory_bytes,
        )

    def in_share(self, share: float) -> Aim:
        """The same in a share of the time that is left."""
        end, now = self.watch.end, time.monotonic()
        if end is None:
            return self
        return replace(self, watch=replace(self.watch, until=now + share * (end - now)))

    def worth(self, value: float, best: Result | None) -> Known | None:
        """What is at most as large as the value of a mapping, and keeps the limits; None if that is everything."""
        known = Known(self.objective, value, self.most)
        if best is not None:
            cycles = {level.level: max(level.cycles, level.network_cycles) for level in best.levels}
            known = replace(known, busiest=max(cycles, key=cycles.__getitem__))
        return known if math.isfinite(value) or np.isfinite(self.most).any() else None

    def allows(self, result: Result) -> bool:
        """Whether the costs of a mapping keep the limits."""
        return bool((np.array(costs_of(result)) <= self.most).all())


@dataclass(slots=True)
class Solved:
    """What the searches of some spaces found and proved together."""

    best: Result | None = None
    value: float = math.inf
    bound: float = math.inf
    nodes: int = 0
    leaves: int = 0
    table_bytes: int = 0
    stop: str = "exhausted"
    seconds: float = 0.0
    solver: Solver | None = None
    least_energy: bool = False
    """Of equally good mappings the best one takes the least energy."""
    proved: float = -math.inf
    """No mapping of the space that is searched has a smaller value."""
    walked: bool = False
    """The best mapping is one of the space that is searched next."""
    descents: list[tuple[Descent, MapSpace]] = field(default_factory=list)
    """Walks through the spaces so far, and the space that what each finds is a mapping of."""

    def add(self, outcome: Outcome) -> None:
        """Add up the work of a search."""
        self.nodes += outcome.nodes
        self.leaves += outcome.leaves
        self.table_bytes = max(self.table_bytes, outcome.table_bytes)
        self.stop, self.seconds = outcome.stop, self.seconds + outcome.seconds

    @property
    def certificate(self) -> Certificate:
        """What is proved about the best mapping."""
        if self.bound >= self.value * (1 - SURE):
            return Certificate(self.value, self.value, self.nodes, self.leaves, self.table_bytes)
        return Certificate(self.value, min(self.bound, self.value), self.nodes, self.leaves, self.table_bytes)
