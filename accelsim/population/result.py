"""What a spread tells of all valid mappings of a map space, and the same as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from accelsim.inputs.units import ratio
from accelsim.model.result import Result
from accelsim.population.sampling import Interval, UniformSample
from accelsim.results import Provenance, provenance_json
from accelsim.results.output import mapping_json
from accelsim.search.result import FrontResult, SearchResult


@dataclass(frozen=True, slots=True)
class Range:
    """Smallest and largest value of a column over all valid mappings, as far as they are known.

    No mapping that a search found, that was kept, or that was drawn lies outside; no valid one lies below the bound,
    which is the same as `lowest` where that is proved.
    """

    column: str  # `energy` [pJ], `cycles`, or `offchip_words` [storage words at the outermost level]
    lowest: float
    lowest_bound: float
    highest: float
    lowest_mapping: Result
    highest_mapping: Result

    @property
    def ratio(self) -> float:
        """Largest value found over the smallest one found."""
        return ratio(self.highest, self.lowest)

    @property
    def lowest_proved(self) -> bool:
        """Whether no mapping has less."""
        return self.lowest_bound >= self.lowest * (1 - 1e-9)


@dataclass(frozen=True, slots=True)
class Near:
    """How many mappings come close to the lowest energy, which is proved."""

    share: float  # how far above the lowest energy, relative to it
    mappings: int  # with at most that much
    complete: bool  # whether all were counted; else there are at least so many


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """All valid mappings of a map space: how many there are, and how what they cost is spread.

    Where `exact` is False, partial sums are wider than finished words, and `mappings`, `fully_used` and `by_keep` are
    estimated from the mappings drawn that have room for them. `by_keep` has, for each choice of what the levels keep,
    outermost first, its valid mappings, those with most first. Where `stop` is not `exhausted` the front is of the
    mappings known, and others may beat them. `whole` is the search of the wider space that `accelsim.map` searches.
    """

    architecture: str
    workload: str
    macs: int
    space_size: int  # mappings that the constraints allow, before fanout and capacity are looked at
    mappings: int  # valid ones
    exact: bool
    fully_used: int  # those of them that use all compute units
    by_keep: tuple[tuple[tuple[frozenset[str], ...], int], ...]
    ranges: tuple[Range, ...]  # of energy, cycles and off-chip words
    near: tuple[Near, ...]  # the lowest energy; empty where that is not proved
    front: FrontResult  # in energy and cycles
    sample: UniformSample
    stop: str  # `exhausted`, or why some numbers are incomplete: `timeout` or `interrupted`
    seconds: float
    whole: SearchResult | None = None

    def range_of(self, column: str) -> Range:
        """The range of a column."""
        return next(found for found in self.ranges if found.column == column)

    @property
    def best(self) -> Result:
        """The mapping of the lowest energy."""
        return self.range_of("energy").lowest_mapping


COUNTED_WITH_ZEROS = 500
"""Mappings of a sample that are counted with zeros left out, at most."""


def zeros_rows(spread: Spread) -> list[dict[str, Any]]:
    """Energy [pJ] and cycles with zeros left out of some mappings drawn; none on a machine that counts all words."""
    found, rows = spread.sample.with_zeros(COUNTED_WITH_ZEROS), []
    for column in ("energy_pj", "cycles") if found else ():
        values = np.array([getattr(each, column) for each in found], np.float64)
        shares = {"lowest": 0.0, "p25": 0.25, "median": 0.5, "p75": 0.75, "highest": 1.0}
        row: dict[str, Any] = {"column": column, "mappings": len(values), "mean": float(values.mean())}
        rows.append({**row, **{name: float(np.quantile(values, share)) for name, share in shares.items()}})
    return rows


_TOTALS = ("architecture", "workload", "macs", "space_size", "mappings", "exact", "fully_used", "stop")
_ENDS = ("lowest", "lowest_bound", "lowest_proved", "highest")


def spread_json(spread: Spread, provenance: Provenance) -> dict[str, Any]:
    """Numbers of a spread."""
    sample = spread.sample
    estimates = {}
    for found in spread.ranges:
        quantiles = {
            f"{share:g}": sample.quantile(found.column, share) for share in (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
        }
        estimates[found.column] = {
            "mean": _interval_json(sample.mean(found.column)),
            "deviation": _interval_json(sample.deviation(found.column)),
            "quantiles": {share: _interval_json(interval) for share, interval in quantiles.items()},
        }
    return {
        "provenance": provenance_json(provenance),
        **{name: getattr(spread, name) for name in _TOTALS},
        "uneven": False,
        "with_zeros": zeros_rows(spread),
        "ranges": {
            found.column: {
                **{name: getattr(found, name) for name in _ENDS},
                "lowest_mapping": mapping_json(found.lowest_mapping.mapping),
                "highest_mapping": mapping_json(found.highest_mapping.mapping),
            }
            for found in spread.ranges
        },
        "near": [asdict(near) for near in spread.near],
        "by_keep": [
            {"keep": [sorted(kept) for kept in keeps], "mappings": mappings} for keeps, mappings in spread.by_keep
        ],
        "front": [{"energy_pj": energy, "cycles": round(cycles)} for energy, cycles in spread.front.values],
        "front_complete": spread.front.stop == "exhausted",
        "sample": {
            "asked": sample.asked,
            "drawn": sample.drawn,
            "mappings": len(sample),
            "seed": sample.seed,
            "estimates": estimates,
        },
    }


def _interval_json(interval: Interval) -> dict[str, Any]:
    """An estimate with its 95 % confidence interval; an end that the sample does not tell is null."""
    return {name: value if math.isfinite(value) else None for name, value in asdict(interval).items()}
