"""What a page shows, as plain values that JSON can hold: a machine, and the mappings that stand for a census."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.mapping import Mapping
from accelsim.inputs.workload import Einsum
from accelsim.model.encode import Floats, Ints
from accelsim.model.limits import macs_per_byte, peak_macs_per_cycle, ports
from accelsim.model.result import Result
from accelsim.population.result import Census
from accelsim.show.report.nest import compute_used, nest_levels
from accelsim.show.report.text import OTHER_COLOUR, letters, tensor_colours

BINS = 60
"""Bins of the histogram of energy, equally wide on a logarithmic axis."""
REGIONS = 5
"""Parts of the range of cycles, and of outer words, from which each bin shows a mapping."""
MOST_FRONT = 100
QUANTILES = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A mapping that a page shows.

    Attributes
    ----------
    label : str
        What it is, for a reader.
    kind : str
        `best`, `front`, `named`, `region` (one of those that stand for a region of the distribution) or `drawn`.
    result : Result
    """

    label: str
    kind: str
    result: Result


def energy_edges(census: Census) -> Floats:
    """Edges of the bins, log10 of energy [pJ], float64[BINS + 1]; every mapping known lies between them."""
    found = census.range_of("energy")
    low, high = np.log10([found.lowest, found.highest])
    room = max(1e-9, 0.02 - (high - low))
    return np.linspace(low - room / 2, high + room / 2, BINS + 1)


def bin_of(energy_pj: Floats, edges: Floats) -> Ints:
    """Bin of each energy."""
    return np.clip(np.searchsorted(edges, np.log10(energy_pj), side="right") - 1, 0, len(edges) - 2)


def chosen(census: Census, drawn: int) -> list[Chosen]:
    """Mappings to show: the named ones first, then those for each region, then the first `drawn` of the sample."""
    named: dict[Mapping, Chosen] = {}
    for more in _named(census):
        known = named.get(more.result.mapping)
        label = more.label if known is None else f"{known.label}, {more.label}"
        first = known or more
        named[more.result.mapping] = Chosen(label, first.kind, first.result)
    first_drawn = range(min(drawn, len(census.sample)))
    regions = (_drawn(census, index, "region") for index in _regions(census) if index not in first_drawn)
    return [
        *named.values(),
        *(region for region in regions if region.result.mapping not in named),
        *(_drawn(census, index, "drawn") for index in first_drawn),
    ]


def _drawn(census: Census, index: int, kind: str) -> Chosen:
    return Chosen(f"drawn no. {index + 1:,}", kind, census.sample.result(index))


def _named(census: Census) -> Iterator[Chosen]:
    """Mappings with a name; one mapping may come more than once."""
    outermost = census.best.levels[0].level
    energy, cycles, words = (census.range_of(column) for column in ("energy", "cycles", "outer_words"))
    known = {found.column: "" if found.lowest_proved else " known" for found in census.ranges}
    yield Chosen(f"lowest energy{known['energy']}", "best", census.best)
    front = census.front.points
    for number in np.unique(np.linspace(0, len(front) - 1, min(len(front), MOST_FRONT)).astype(int)).tolist():
        yield Chosen(f"front {number + 1}", "front", front[number])
    yield Chosen(f"fewest cycles{known['cycles']}", "named", cycles.lowest_mapping)
    yield Chosen(f"fewest {outermost} words{known['outer_words']}", "named", words.lowest_mapping)
    for share in QUANTILES:
        name = "median energy" if share == 0.5 else f"{100 * share:g} % quantile of energy"
        index = census.sample.nearest("energy", census.sample.quantile("energy", share).value)
        yield Chosen(name, "named", census.sample.result(index))
    yield Chosen(f"highest energy{'' if energy.highest_proved else ' known'}", "named", energy.highest_mapping)


def _regions(census: Census) -> list[int]:
    """The first drawn mapping of each region: a bin of energy with a part of the range of cycles or outer words."""
    sample = census.sample
    bins = bin_of(sample.energy_pj, energy_edges(census))
    found: set[int] = set()
    for column in (sample.cycles, sample.outer_words):
        logs = np.log10(np.maximum(column, 1.0))
        edges = np.linspace(logs.min(), logs.max(), REGIONS + 1)[1:-1]
        _, first = np.unique(bins * REGIONS + np.searchsorted(edges, logs), return_index=True)
        found.update(first.tolist())
    return sorted(found)


def rounded(value: float, digits: int = 6) -> float:
    """Value to so many digits.

    Examples
    --------
    >>> rounded(12278333440.0), rounded(0.0123456789, 3)
    (12278300000.0, 0.0123)
    """
    return float(f"{value:.{digits}g}")


def machine_data(architecture: Architecture, einsum: Einsum) -> dict[str, Any]:
    """What all mappings share: names, colours of the tensors, roofs [bytes/cycle] and peak [MACs/cycle]."""
    names = [tensor.name for tensor in einsum.tensors]
    letter = letters(names)
    colour = tensor_colours(names, einsum.output.name)
    other = {"name": "other (compute, leakage)", "letter": "", "colour": OTHER_COLOUR}
    return {
        "architecture": architecture.name,
        "workload": einsum.name,
        "macs": einsum.real_macs,
        "tensors": [*({"name": n, "letter": letter[n], "colour": colour[n]} for n in names), other],
        "levels": [level.name for level in architecture.levels],
        "components": components(architecture),
        "compute": architecture.compute.name,
        "peak": peak_macs_per_cycle(architecture),
        "roofs": [{"name": port.name, "bytes_per_cycle": port.bytes_per_cycle} for port in ports(architecture)],
    }


def components(architecture: Architecture) -> list[str]:
    """What takes energy, outermost first: each level and the network below it, and the compute units."""
    pairs = [name for level in architecture.levels for name in (level.name, f"{level.name} network")]
    return [*pairs, architecture.compute.name]


def mapping_data(result: Result, architecture: Architecture, einsum: Einsum) -> dict[str, Any]:
    """Cost of one mapping, its loop nest in words, energy [pJ] by component and tensor, cycles, MACs for each byte."""
    order = {name: index for index, name in enumerate(components(architecture))}
    tensors = {tensor.name: index for index, tensor in enumerate(einsum.tensors)}
    intensities = [macs_per_byte(result, port) for port in ports(architecture)]
    return {
        "energy_pj": rounded(result.energy_pj),
        "cycles": result.cycles,
        "outer_words": result.outer_words,
        "utilization": rounded(result.utilization),
        "nest": [[level.used, level.keeps, *level.lines] for level in nest_levels(result)],
        "units": compute_used(result),
        "energy": [
            [order[row["component"]], tensors.get(row["tensor"], len(tensors)), rounded(row["energy_pj"], 5)]
            for row in result.energy_by_tensor_rows()
        ],
        "needed": [level.cycles for level in result.levels] + [result.busy_cycles],
        "intensity": [None if value is None else rounded(value, 5) for value in intensities],
    }
