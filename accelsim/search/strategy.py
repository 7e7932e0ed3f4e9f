"""What all searches share: budget, progress, and the books of pieces put together."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accelsim.inputs.errors import AccelsimError

if TYPE_CHECKING:
    from accelsim.search.kernel import PieceTally


@dataclass(frozen=True, slots=True)
class Budget:
    """What a search may take: so many mappings, so many seconds, whichever comes first; None is no limit.

    `memory_bytes` is for the tables of an exact search, 2 GiB if it is None.
    """

    mappings: int | None = None
    seconds: float | None = None
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.mappings is not None and self.mappings < 1:
            raise AccelsimError(f"a budget of {self.mappings} mappings is none; give at least 1")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise AccelsimError(f"a budget of {self.seconds} seconds is none; give a positive number")
        if self.memory_bytes is not None and self.memory_bytes < 1:
            raise AccelsimError(f"a budget of {self.memory_bytes} bytes is none; give at least 1")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is, or what is done next, in words (`what`; `seen` is 0 then).

    `seen` counts mappings, or nodes of an exact search; `total` is None where only the clock or a proof ends it; `best`
    is the objective's value, None while there is none; `bound` is what no mapping falls below, None while unknown.
    """

    seen: int = 0
    valid: int = 0
    best: float | None = None
    best_energy_pj: float | None = None
    total: int | None = None
    seconds: float = 0.0
    seconds_limit: float | None = None
    bound: float | None = None
    what: str = ""


OnProgress = Callable[[Progress], None]
"""What `on_progress` of all searches is: called a few times a second, or with each part of a longer work."""


@dataclass(slots=True)
class SearchTally:
    """The books of all pieces of a search, added up in the order of the pieces."""

    books: PieceTally
    seen: int = 0

    def add(self, books: PieceTally, seen: int) -> None:
        """Add the books of the next piece."""
        mine = self.books
        if books.value[0] < mine.value[0]:
            mine.value[0] = books.value[0]
            for array, other in zip(mine.best, books.best, strict=True):
                array[:] = other
        mine.value[1] = min(mine.value[1], books.value[1])
        mine.tally[:] += books.tally
        self.seen += seen

    @property
    def valid(self) -> int:
        """Valid mappings seen."""
        return int(self.books.tally[0])
