"""Parts of a census that take time, each within its share of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from accelsim.mapspace.space import MapSpace
from accelsim.population.result import Near
from accelsim.search.exact.incumbents_kernel import SURE, WITHIN
from accelsim.search.exact.solve import Solver
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
