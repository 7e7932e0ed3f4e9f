"""What a census tells of all valid mappings of a map space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accelsim.model.result import Result
from accelsim.search.result import FrontResult

if TYPE_CHECKING:
    from accelsim.population.moments.deviations import EnergyDeviation
    from accelsim.population.moments.means import Means
    from accelsim.population.sampling import UniformSample
    from accelsim.population.tails import StratifiedSample


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


@dataclass(frozen=True, slots=True)
class NearPeak:
    """How many mappings come close to peak throughput.

    Attributes
    ----------
    utilization : float
        Overall utilization that they have at least.
    mappings : int
        Mappings that were counted.
    complete : bool
        Whether these are all; else there are at least so many.
    spatial : int
        Mappings that keep enough compute units busy for it if nothing else slows them down; no more come so close.
    low, high : float
        95 % confidence interval of their number, from mappings drawn uniformly from those that keep each axis as busy;
        both are `mappings` where all were counted.
    drawn, drawn_from : int
        How many were drawn, and mappings drawn in all.
    lowest_pj, highest_pj : float, or None
        Energy of the best and of the worst of these; if none was drawn, of all of them.
    """

    utilization: float
    mappings: int
    complete: bool
    spatial: int
    low: float
    high: float
    drawn: int
    drawn_from: int
    lowest_pj: float | None
    highest_pj: float | None


@dataclass(frozen=True, slots=True)
class Fewest:
    """The mappings that move the fewest words at the outermost level; that none moves fewer is proved.

    Attributes
    ----------
    words : int
        Storage words read and written there.
    mappings : int
        How many mappings move no more.
    complete : bool
        Whether all were counted; else there are at least so many.
    lowest_pj, highest_pj : float
        Energy of the best and of the worst of them that was found.
    highest_bound : float
        None of them takes more [pJ].
    """

    words: int
    mappings: int
    complete: bool
    lowest_pj: float
    highest_pj: float
    highest_bound: float


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
    fewest : Fewest, or None
        None where the fewest words are not proved, and in a census of fully used mappings.
    near_peak : NearPeak, or None
        Mappings close to peak throughput, in a census of fully used mappings those of them; None after an interrupt.
    means : Means, or None
        Exact means of energy and words; None where the sample alone tells them.
    deviation : EnergyDeviation, or None
        Exact standard deviation of the energy.
    front : FrontResult
        Mappings that none other beats in energy and cycles, of all valid ones in any case. Where `stop` is not
        `exhausted` these are the best of those known, and others may beat them.
    sample : UniformSample
        All valid mappings if there are few (`UniformSample.complete`).
    tail : StratifiedSample, or None
        For quantiles that the uniform sample cannot tell; None if none was asked for.
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
    fewest: Fewest | None
    near_peak: NearPeak | None
    means: Means | None
    deviation: EnergyDeviation | None
    front: FrontResult
    sample: UniformSample
    tail: StratifiedSample | None
    stop: str
    seconds: float

    def range_of(self, column: str) -> Range:
        """The range of a column."""
        return next(found for found in self.ranges if found.column == column)

    @property
    def mean_is_exact(self) -> bool:
        """Whether the mean of the energy is exact; leakage depends on cycles, whose mean may be estimated."""
        return self.sample.complete or (self.means is not None and not self.means.leaks)

    def mean(self, column: str) -> float:
        """Mean of a column over all valid mappings: exact where it can be, else that of the sample."""
        units = self.sample.sampler.nest.space.encoded.units_per_word[0]
        told = (column == "outer_words" and units == 1) or (column == "energy" and self.mean_is_exact)
        if self.sample.complete or self.means is None or not told:
            return self.sample.mean(column).value
        if column == "energy":
            return self.means.energy_pj
        encoded = self.sample.sampler.nest.space.encoded
        parts = {tensor.name: int(encoded.constants.word_parts[0, t, 0]) for t, tensor in enumerate(encoded.tensors)}
        outermost = [t for t in self.means.tensors if t.level == encoded.architecture.levels[0].name]
        return sum((t.reads + t.fills + t.updates) * parts[t.tensor] for t in outermost)

    @property
    def best(self) -> Result:
        """The mapping of the lowest energy."""
        return self.range_of("energy").lowest_mapping
