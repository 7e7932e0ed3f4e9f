"""Parts of a census that take time, each within its share of it; and the best and the worst mappings that it knows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from accelsim.inputs.objective import QUANTITIES
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import Floats
from accelsim.model.result import Result
from accelsim.population.result import Near, Range
from accelsim.population.sampling import UniformSample
from accelsim.search.exact.incumbents_kernel import SURE, WITHIN
from accelsim.search.exact.solve import Solver
from accelsim.search.result import FrontResult, column_value
from accelsim.search.stopping import answering, raising
from accelsim.search.strategy import Budget

NEAR = (0.0, 0.01, 0.05)
"""Shares above the lowest energy within which mappings are counted."""
PARTS = {"energy": 0.3, "cycles": 0.15, "outer_words": 0.1, "front": 0.15, "near": 0.15, "largest": 0.05}
"""Shares of the time, in this order; the last one once for each quantity."""
SPARE = "front", "near", "largest"
"""Parts that also have what those before them leave."""
NO_TIME = 1e-6
"""Seconds that a part has at least, for a first answer."""

OnPart = Callable[[str], None]
Made = TypeVar("Made")


@dataclass(slots=True)
class Clock:
    """Shares out the time of searches, and skips the rest after an interrupt."""

    seconds: float | None
    on_part: OnPart | None
    stop: str = "exhausted"
    left: float = 0.0
    end: float = 0.0

    def attempt(self, what: str, make: Callable[[], Made]) -> Made | None:
        """Make a part, or None once Ctrl-C was pressed; the second time it is obeyed at once."""
        if self.stop == "interrupted":
            return None
        try:
            with raising():
                if self.on_part is not None:
                    self.on_part(what)
                return make()
        except KeyboardInterrupt:
            self.stop = "interrupted"
            answering()
            return None
        finally:
            if self.end:
                self.left, self.end = self.left + max(0.0, self.end - time.monotonic()), 0.0

    def deadline(self, part: str) -> float | None:
        """When a part that begins now is to end, by `time.monotonic`."""
        if self.seconds is None:
            return None
        spare = self.left if part in SPARE else 0.0
        self.left -= spare
        self.end = time.monotonic() + self.seconds * PARTS[part] + spare
        return self.end

    def budget(self, part: str) -> Budget | None:
        """Time for a part."""
        deadline = self.deadline(part)
        return None if deadline is None else Budget(seconds=max(NO_TIME, deadline - time.monotonic()))

    def note(self, stop: str) -> bool:
        """Whether a part was completed."""
        if stop != "exhausted" and self.stop != "interrupted":
            self.stop = stop
        return stop == "exhausted"


def near(space: MapSpace, lowest: float, clock: Clock, cores: int) -> tuple[Near, ...]:
    """Count mappings close to the lowest energy [pJ]: the mapper lists those that its bounds do not rule out."""
    deadline = clock.deadline("near")
    solver = Solver(space, every=True, workers=cores)
    found: list[Near] = []
    for share in NEAR:
        if found and not found[-1].complete:
            found.append(Near(share, found[-1].mappings, complete=False))
            continue
        outcome = solver.search(kind=WITHIN, limit=lowest * (1.0 + share) * (1.0 + SURE), deadline=deadline)
        mappings = max(int(outcome.found.tally[2]), found[-1].mappings if found else 0)
        found.append(Near(share, mappings, complete=clock.note(outcome.stop)))
    return tuple(found)


_FRONT = ("energy", "cycles")


class Known:
    """Mappings that a census came to, and for each column those with the smallest and the largest value.

    Every smallest and largest value that is reported comes from here, so no mapping that the census saw lies beyond it.
    A bound alone proves a value: one that was drawn is proved only where a search shows that none is smaller.

    Parameters
    ----------
    space_size : int
        Mappings of the map space.
    units : int
        Compute units that a mapping must use to count.
    """

    def __init__(self, space_size: int, units: int = 0) -> None:
        self.space_size, self.units = space_size, units
        self.least: dict[str, Result] = {}
        self.most: dict[str, Result] = {}
        self.bounds = dict.fromkeys(QUANTITIES, 0.0)
        self._found: list[Result] = []
        self._samples: list[UniformSample] = []

    def add(self, result: Result, searched: str = "") -> None:
        """Add a valid mapping; of those with an equal value of a column the one stays that was searched for it."""
        self._found.append(result)
        if result.compute_used < self.units:
            return
        for column in QUANTITIES:
            value, slack = column_value(result, column), SURE if column == searched else -SURE
            least, most = self.least.setdefault(column, result), self.most.setdefault(column, result)
            if value <= column_value(least, column) * (1 + slack):
                self.least[column] = result
            if value > column_value(most, column) * (1 + SURE):
                self.most[column] = result

    def add_drawn(self, sample: UniformSample) -> None:
        """Add mappings that were drawn; they come after the searches, whose mapping stays where values are equal."""
        self._samples.append(sample)
        for column in QUANTITIES:
            values = drawn_values(sample, column)
            if not len(values):
                return
            low, high = (self._known(known, column) for known in (self.least, self.most))
            if low is None or values.min() < low:
                self.add(sample.result(int(values.argmin())))
            if high is None or values.max() > high:
                self.add(sample.result(int(values.argmax())))

    @staticmethod
    def _known(known: dict[str, Result], column: str) -> float | None:
        return column_value(known[column], column) if column in known else None

    def prove(self, column: str, bound: float) -> None:
        """No valid mapping falls below a bound."""
        self.bounds[column] = max(self.bounds[column], bound)

    def lowest(self, column: str) -> float:
        """The smallest value known."""
        return column_value(self.least[column], column)

    def proved(self, column: str) -> bool:
        """Whether no valid mapping has less than the smallest value known."""
        return self.bounds[column] >= self.lowest(column) * (1 - SURE)

    def range_of(self, column: str, highest_bound: float) -> Range:
        """The smallest and the largest value known, and what is proved of them."""
        least, most = self.least[column], self.most[column]
        low, high = self.lowest(column), column_value(most, column)
        if self.bounds[column] > low * (1 + 1e-9):
            raise RuntimeError(
                f"{column}: no mapping falls below {self.bounds[column]!r} (proved), and one has {low!r}"
            )
        bound = low if self.proved(column) else self.bounds[column]
        return Range(column, low, bound, high, max(high, highest_bound), least, most)

    def front(self, searched: FrontResult | None) -> FrontResult:
        """The front of energy and cycles; where its search did not complete it, of all mappings known."""
        if searched is not None and searched.stop == "exhausted":
            return searched
        found = [*self._found, *(() if searched is None else searched.points)]
        rows = [np.array([[column_value(each, column) for column in _FRONT] for each in found]).reshape(-1, 2)]
        rows += [np.stack([drawn_values(sample, column) for column in _FRONT], axis=1) for sample in self._samples]
        owner = np.repeat(np.arange(len(rows)) - 1, [len(each) for each in rows])
        place = np.concatenate([np.arange(len(each)) for each in rows])
        energy, cycles = np.concatenate(rows).T
        order = np.lexsort((cycles, energy))
        fewest = np.minimum.accumulate(np.concatenate([[np.inf], cycles[order]]))[:-1]
        chosen = order[cycles[order] < fewest]
        both = zip(owner[chosen].tolist(), place[chosen].tolist(), strict=True)
        points = tuple(found[i] if s < 0 else self._samples[s].result(i) for s, i in both)
        values = tuple((point.energy_pj, float(point.cycles)) for point in points)
        if searched is not None:
            return replace(searched, points=points, values=values)
        return FrontResult(_FRONT, points, values, "interrupted", self.space_size, 0, len(energy), 0, 0.0)


def drawn_values(sample: UniformSample, column: str) -> Floats:
    """A column of a sample, float64[B]."""
    return {"energy": sample.energy_pj, "cycles": sample.cycles, "outer_words": sample.outer_words}[column]
