"""A census as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from accelsim.results.output import Provenance, mapping_json, provenance_json

if TYPE_CHECKING:
    from accelsim.population.result import Census, Interval


def census_json(census: Census, provenance: Provenance) -> dict[str, Any]:
    """Numbers of a census."""
    sample = census.sample
    estimates = {}
    for found in census.ranges:
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
        "architecture": census.architecture,
        "workload": census.workload,
        "macs": census.macs,
        "space_size": census.space_size,
        "mappings": census.mappings,
        "exact": census.exact,
        "fully_used": census.fully_used,
        "only_fully_used": census.only_fully_used,
        "stop": census.stop,
        "ranges": {
            found.column: {
                "lowest": found.lowest,
                "lowest_bound": found.lowest_bound,
                "lowest_proved": found.lowest_proved,
                "highest": found.highest,
                "highest_bound": found.highest_bound,
                "highest_proved": found.highest_proved,
                "lowest_mapping": mapping_json(found.lowest_mapping.mapping),
                "highest_mapping": mapping_json(found.highest_mapping.mapping),
            }
            for found in census.ranges
        },
        "near": [{"share": near.share, "mappings": near.mappings, "complete": near.complete} for near in census.near],
        "by_keep": [
            {"keep": [sorted(kept) for kept in keeps], "mappings": mappings} for keeps, mappings in census.by_keep
        ],
        "front": [{"energy_pj": energy, "cycles": round(cycles)} for energy, cycles in census.front.values],
        "front_complete": census.front.stop == "exhausted",
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
    ends = {"value": interval.value, "low": interval.low, "high": interval.high}
    return {name: value if math.isfinite(value) else None for name, value in ends.items()}
