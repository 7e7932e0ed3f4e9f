"""What all searches share: objective, budget, progress, and the books of pieces put together."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from accelsim.inputs.errors import AccelsimError
from accelsim.search.result import Spread

if TYPE_CHECKING:
    from accelsim.search.kernel import Books


MOST_POWER = 8.0
"""Powers in an objective add up to this at most, so that 10^25 pJ and 10^18 cycles stay within a double."""


@dataclass(frozen=True, slots=True)
class Budget:
    """When a search ends: after so many mappings, so many seconds, or whichever comes first; None is no limit."""

    mappings: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.mappings is not None and self.mappings < 1:
            raise AccelsimError(f"a budget of {self.mappings} mappings is none; give at least 1")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise AccelsimError(f"a budget of {self.seconds} seconds is none; give a positive number")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is.

    `seen` counts mappings, or nodes of an exact search; `total` is None where only the clock or a proof ends it; `best`
    is the objective's value, None while there is none; `bound` is what no mapping falls below, None while unknown.
    """

    seen: int
    valid: int
    best: float | None
    best_energy_pj: float | None
    total: int | None
    seconds: float
    seconds_limit: float | None
    bound: float | None = None


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Objective:
    """A weighted product `energy^a * cycles^b`, to be made small.

    >>> Objective.parse("edp")
    Objective(name='edp', energy=1.0, cycles=1.0)
    >>> Objective.parse("energy^2*cycles").energy
    2.0
    """

    name: str
    energy: float
    cycles: float

    @classmethod
    def parse(cls, text: str) -> Objective:
        """Read `energy`, `cycles`, `edp`, or a product of powers of the first two.

        Raises
        ------
        AccelsimError
            If the text is none of these, or its powers add up to more than 8.
        """
        if text == "edp":
            return cls(text, 1.0, 1.0)
        powers = {"energy": 0.0, "cycles": 0.0}
        for factor in text.split("*"):
            found = re.fullmatch(r"\s*(energy|cycles)\s*(?:\^\s*([0-9.]+))?\s*", factor)
            power = (
                float(found[2] or 1)
                if found and (found[2] is None or (found[2].count(".") < 2 and found[2] != "."))
                else 0.0
            )
            if not found or not 0 < power < math.inf:
                raise AccelsimError(
                    f"objective '{text}' is unknown; write energy, cycles, edp, or a product such as energy^2*cycles"
                )
            powers[found[1]] += power
        if sum(powers.values()) > MOST_POWER:
            raise AccelsimError(f"objective '{text}': the powers may add up to {MOST_POWER:g}, these are larger")
        return cls(text, powers["energy"], powers["cycles"])

    def value(self, energy_pj: float, cycles: int) -> float:
        """Value of the objective [pJ^a x cycles^b]."""
        return float(energy_pj**self.energy * float(cycles) ** self.cycles)


def _number(text: str) -> float:
    """Return the number that a text spells, or 0.0."""
    try:
        return float(text)
    except ValueError:
        return 0.0


@dataclass(slots=True)
class Ledger:
    """The books of all pieces of a search, added up in the order of the pieces."""

    books: Books
    seen: int = 0
    curve: list[tuple[int, float]] = field(default_factory=list)

    def add(self, books: Books, seen: int) -> None:
        """Add the books of the next piece."""
        mine = self.books
        for at, value in zip(books.curve_at.tolist(), books.curve.tolist()[: int(books.improved[0])], strict=False):
            if not self.curve or value < self.curve[-1][1]:
                self.curve.append((self.seen + at, value))
        if books.value[0] < mine.value[0]:
            mine.value[0] = books.value[0]
            for array, other in zip(mine.best, books.best, strict=True):
                array[:] = other
        mine.value[1] = min(mine.value[1], books.value[1])
        mine.value[2] = max(mine.value[2], books.value[2])
        mine.tally[:] += books.tally
        mine.bins[:] += books.bins
        self.seen += seen

    @property
    def valid(self) -> int:
        """Valid mappings seen."""
        return int(self.books.tally[0])

    def spread(self) -> Spread:
        """Energies of all valid mappings seen."""
        from accelsim.search.kernel import BIN_WIDTH, FIRST_BIN

        occupied = self.books.bins.nonzero()[0]
        low, high = int(occupied[0]), int(occupied[-1])
        return Spread(
            edges_pj=tuple(math.exp(FIRST_BIN + BIN_WIDTH * at) for at in range(low, high + 2)),
            counts=tuple(self.books.bins[low : high + 1].tolist()),
            min_pj=float(self.books.value[1]),
            max_pj=float(self.books.value[2]),
            resolution=BIN_WIDTH,
        )
