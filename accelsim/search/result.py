"""What a search found, and what it proves: the best mapping, a ranking or a front."""

from __future__ import annotations

import math
from collections.abc import Mapping as Dict
from dataclasses import dataclass, replace
from typing import Any

from accelsim.inputs.objective import Objective
from accelsim.model.result import Result

MOST_TIES = 1000
"""Mappings that are listed where nobody says how many."""


@dataclass(frozen=True, slots=True)
class SearchedSpace:
    """The mappings that a search, a count or a front is about.

    Attributes
    ----------
    uneven : bool
        Uneven mappings are among them, beside the even ones.
    imperfect : tuple of str
        Dimensions whose loops may leave remainders; the others have perfect factors.
    padded : tuple of str
        Bounds that were tried instead of the Einsum's, such as `P=56`; points that are added are computed.
    limits : tuple of str
        What is asked of costs, such as `cycles <= 2000000`.
    size : int or None
        Mappings before validity; None where counting them would take long.

    Examples
    --------
    >>> print(SearchedSpace()), print(SearchedSpace(uneven=True, imperfect=("M", "K")))
    even mappings with perfect factors
    even and uneven mappings with remainders in M, K
    (None, None)
    """

    uneven: bool = False
    imperfect: tuple[str, ...] = ()
    padded: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    size: int | None = None

    @property
    def kind(self) -> str:
        """`even`, or `even and uneven`."""
        return "even and uneven" if self.uneven else "even"

    @property
    def factors(self) -> str:
        """`perfect factors`, or which are not."""
        factors = f"remainders in {', '.join(self.imperfect)}" if self.imperfect else "perfect factors"
        return factors + (f" and bounds padded to {', '.join(self.padded)}" if self.padded else "")

    def __str__(self) -> str:
        limits = f", with {' and '.join(self.limits)}" if self.limits else ""
        return f"{self.kind} mappings with {self.factors}{limits}"


@dataclass(frozen=True, slots=True)
class Rejection:
    """How many candidates broke one rule at one level first.

    Fanouts are checked first, x then y, from the outside in; then capacities, from the inside out.
    """

    rule: str
    level: str
    count: int


@dataclass(frozen=True, slots=True)
class Sample:
    """What an exhaustive or random search saw on its way.

    Attributes
    ----------
    seen, valid : int
        Mappings evaluated, and those of them that were valid.
    rejections : tuple of Rejection
        Why the others were not.
    """

    seen: int
    valid: int
    rejections: tuple[Rejection, ...]


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a search proves about its answer.

    Attributes
    ----------
    value : float
        Objective of the best mapping found.
    bound : float
        No mapping of the map space has a smaller objective (to a relative 1e-11, which rounding may take).
    nodes : int
        Partial mappings that were bounded.
    evaluated : int
        Whole mappings that were evaluated.
    table_bytes : int
        Memory of the cost-to-go tables.
    space : SearchedSpace
        The mappings that it is about.
    """

    value: float
    bound: float
    nodes: int
    evaluated: int
    table_bytes: int
    space: SearchedSpace = SearchedSpace()

    @property
    def gap(self) -> float:
        """How far the best found is at most above the optimum: value / bound - 1; 0 if it is optimal."""
        if self.value <= self.bound:
            return 0.0
        return self.value / self.bound - 1.0 if self.bound > 0 else math.inf

    @property
    def proved(self) -> bool:
        """Whether no mapping is better than the one found."""
        return self.gap < 1e-10


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search over the map space found, and what is known about it.

    Attributes
    ----------
    best : Result
        The best valid mapping found.
    objective : str
        `energy`, `cycles`, `edp`, or a weighted product such as `energy^2*cycles`.
    method : str
        `exact`, `exhaustive` or `random`.
    stop : str
        Why the search ended: `exhausted` (the answer is proved, or every mapping was seen), `budget`, `timeout`,
        `memory` (the tables of the exact search would not fit), `remainders` (of the mappings with remainders only
        those with the lowest bounds were evaluated), `effort` (of a part of the space as many mappings as it takes a
        few seconds were looked at) or `interrupted`.
    space_size : int or None
        Mappings in the map space before validity (docs/papers/mapspace.md); None where counting them would take long.
    seconds : float
        Time that the search took.
    certificate : Certificate or None
        None after a random search, which proves nothing.
    ranked : tuple of Result
        The best mappings in order, as many as were asked for; the first is `best`.
    within : (float, int) or None
        Where all mappings within a share of the optimum were asked for: the share, and how many there are.
    sample : Sample or None
        None after an exact search, which looks at classes of mappings.
    uneven : bool
        Uneven mappings are among those that were searched, beside the even ones.
    parts : tuple of Certificate
        What is proved of parts of the space that were searched first, each with its `space`: even mappings with perfect
        factors, then uneven ones, then some with remainders.
    imperfect : tuple of str
        Dimensions whose loops might leave remainders.
    padded : tuple of str
        Bounds that were tried instead of the Einsum's, such as `P=56`.
    limits : tuple of str
        What the constraints ask of costs, such as `cycles <= 2000000`; a proof is of the mappings that keep it.
    kept : str
        When the answer was kept on disk, such as `2026-11-23 10:02 UTC`, if it comes from there; else empty.
    """

    best: Result
    objective: str
    method: str
    stop: str
    seed: int
    space_size: int | None
    seconds: float
    certificate: Certificate | None = None
    ranked: tuple[Result, ...] = ()
    within: tuple[float, int] | None = None
    sample: Sample | None = None
    uneven: bool = False
    parts: tuple[Certificate, ...] = ()
    imperfect: tuple[str, ...] = ()
    padded: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    kept: str = ""

    @property
    def space(self) -> SearchedSpace:
        """The mappings that were searched: those that `proof` is about."""
        return SearchedSpace(self.uneven, self.imperfect, self.padded, self.limits, self.space_size)

    @property
    def proof(self) -> Certificate | None:
        """What is proved, with the space that it is about."""
        return None if self.certificate is None else replace(self.certificate, space=self.space)

    @property
    def ties(self) -> list[tuple[Result, ...]]:
        """The mappings in `ranked` by value of the objective, those of the best value first."""
        goal = Objective.parse(self.objective)
        found: list[tuple[Result, ...]] = []
        for result in self.ranked:
            if found and math.isclose(goal.of(result), goal.of(found[-1][0]), rel_tol=1e-12):
                found[-1] += (result,)
            else:
                found.append((result,))
        return found


@dataclass(frozen=True, slots=True)
class FrontResult:
    """The mappings that no other mapping beats in every column asked for.

    Attributes
    ----------
    columns : tuple of str
        `energy` [pJ], `cycles`, `offchip_words` [storage words read, filled and updated at the outermost level], or
        `capacity:LEVEL` [storage words held at a level].
    points : tuple of Result
        One mapping for each point of the front, in order of the first column.
    values : tuple of tuple of float
        The columns of each point.
    stop : str
        `exhausted` (the front is complete and proved), `timeout` or `interrupted`.
    space_size : int or None
        As in `SearchResult`.
    nodes, evaluated, table_bytes : int
        As in `Certificate`.
    seconds : float
    limits, uneven, imperfect, padded
        As in `SearchResult`.
    ends : tuple of SearchResult
        Best mappings of a wider space in single columns, which are among the points; the front is complete in `space`.
    """

    columns: tuple[str, ...]
    points: tuple[Result, ...]
    values: tuple[tuple[float, ...], ...]
    stop: str
    space_size: int | None
    nodes: int
    evaluated: int
    table_bytes: int
    seconds: float
    limits: tuple[str, ...] = ()
    uneven: bool = False
    imperfect: tuple[str, ...] = ()
    padded: tuple[str, ...] = ()
    ends: tuple[SearchResult, ...] = ()

    @property
    def space(self) -> SearchedSpace:
        """The mappings that the front is of."""
        return SearchedSpace(self.uneven, self.imperfect, self.padded, self.limits, self.space_size)

    def rows(self) -> list[Dict[str, Any]]:
        """One row for each point, in order: the columns asked for, energy [pJ], cycles, EDP and utilization."""
        return [
            {
                "point": number,
                "energy_pj": result.energy_pj,
                "cycles": result.cycles,
                **{_plain_name(c): int(v) for c, v in zip(self.columns, values, strict=True) if c not in _ALWAYS},
                "edp_pj_cycles": result.edp,
                "pj_per_mac": result.pj_per_mac,
                "utilization": result.utilization,
            }
            for number, (values, result) in enumerate(zip(self.values, self.points, strict=True), 1)
        ]


_ALWAYS = ("energy", "cycles")


def column_value(result: Result, column: str) -> float:
    """A column of a front or a spread of one mapping; storage words are whole, as everywhere in a result."""
    columns = {"energy": result.energy_pj, "cycles": result.cycles, "offchip_words": result.offchip_words}
    if column in columns:
        return float(columns[column])
    held = (level.used_words for level in result.levels if level.level == column.partition(":")[2])
    return float(next(held))


def _plain_name(column: str) -> str:
    """Name of a column of a front with its unit."""
    return "offchip_words" if column == "offchip_words" else f"{column.partition(':')[2]}_words"
