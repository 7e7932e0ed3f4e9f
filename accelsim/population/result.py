"""What a census tells of all valid mappings of a map space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accelsim.model.result import Result
from accelsim.search.result import FrontResult

if TYPE_CHECKING:
    from accelsim.population.sampling import UniformSample


@dataclass(frozen=True, slots=True)
class Interval:
    """A number that was estimated from a sample.

    Attributes
    ----------
    value : float
    low, high : float
        Ends of its confidence interval.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Range:
    """Smallest and largest value of a column over all valid mappings.

    Attributes
    ----------
    column : str
        `energy` [pJ], `cycles`, or `outer_words` [storage words read and written at the outermost level].
    lowest, highest : float
        Of all mappings that a search found, that were kept, or that were drawn; none of these lies outside.
    lowest_bound, highest_bound : float
        No valid mapping lies outside; where proved the same as `lowest`, `highest`.
    lowest_mapping, highest_mapping : Result
        Mappings with these values.
    """

    column: str
    lowest: float
    lowest_bound: float
    highest: float
    highest_bound: float
    lowest_mapping: Result
    highest_mapping: Result

    @property
    def ratio(self) -> float:
        """Largest value found over the smallest one found."""
        return self.highest / self.lowest

    @property
    def lowest_proved(self) -> bool:
        """Whether no mapping has less."""
        return self.lowest_bound >= self.lowest * (1 - 1e-9)

    @property
    def highest_proved(self) -> bool:
        """Whether no mapping has more."""
        return self.highest_bound <= self.highest * (1 + 1e-9)


@dataclass(frozen=True, slots=True)
class Near:
    """How many mappings come close to the lowest energy, which is proved.

    Attributes
    ----------
    share : float
        How far above the lowest energy, relative to it.
    mappings : int
        Mappings with at most that much.
    complete : bool
        Whether all were counted; else there are at least so many.
    """

    share: float
    mappings: int
    complete: bool


@dataclass(frozen=True, slots=True, eq=False)
class Census:
    """All valid mappings of a map space: how many there are, and how what they cost is spread.

    Attributes
    ----------
    architecture, workload : str
    macs : int
    space_size : int
        Mappings that the constraints allow, before fanout and capacity are looked at.
    mappings : int
        Valid mappings.
    exact : bool
        Whether `mappings`, `fully_used` and `by_keep` are exact. If not, partial sums are wider than finished words,
        and these numbers are estimated from the mappings drawn that have room for them.
    fully_used : int
        Those of them that use all compute units.
    only_fully_used : bool
        Whether the census is one of these alone.
    by_keep : tuple of (tuple of frozenset of str, int)
        For each choice of what the levels keep, outermost first, the valid mappings with it; those with most first.
    ranges : tuple of Range
        Of energy, cycles and outer words.
    near : tuple of Near
        Mappings close to the lowest energy; empty where that is not proved, and in a census of fully used mappings.
    front : FrontResult
        Mappings that none other beats in energy and cycles, of all valid ones in any case. Where `stop` is not
        `exhausted` these are the best of those known, and others may beat them.
    sample : UniformSample
    stop : str
        `exhausted`, or why some numbers are incomplete: `timeout` or `interrupted`.
    seconds : float
    """

    architecture: str
    workload: str
    macs: int
    space_size: int
    mappings: int
    exact: bool
    fully_used: int
    only_fully_used: bool
    by_keep: tuple[tuple[tuple[frozenset[str], ...], int], ...]
    ranges: tuple[Range, ...]
    near: tuple[Near, ...]
    front: FrontResult
    sample: UniformSample
    stop: str
    seconds: float

    def range_of(self, column: str) -> Range:
        """The range of a column."""
        return next(found for found in self.ranges if found.column == column)

    @property
    def best(self) -> Result:
        """The mapping of the lowest energy."""
        return self.range_of("energy").lowest_mapping
