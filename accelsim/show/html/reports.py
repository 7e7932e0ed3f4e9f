"""Pages that tell of a map space, and of a search in it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.workload import Einsum
from accelsim.model.encode import Floats
from accelsim.model.result import Result
from accelsim.population.result import Census
from accelsim.search.result import SearchResult
from accelsim.show.html.chosen import Chosen, bin_of, chosen, energy_edges
from accelsim.show.html.details import machine_data, mapping_data, rounded
from accelsim.show.html.frames import ALL_READING, BACK, LIST, READING, ROOFLINE, SAMPLE_READING, SCATTER, SHOWN, SPREAD
from accelsim.show.html.machine import machine_svg
from accelsim.show.html.page import embedded, page
from accelsim.show.html.summary import (
    census_lead,
    estimated_figures,
    exact_figures,
    keep_table,
    quantile_table,
    search_figures,
    search_lead,
)

DRAWN = 1200
"""Mappings of the uniform sample that a page shows at most."""
DATA_BYTES = 900_000
"""JSON of mappings at most; the last drawn are left out beyond that."""
_RANKED = 200
_BARS = 60


def census_report(census: Census, architecture: Architecture, einsum: Einsum) -> str:
    """Write a page on all valid mappings of an Einsum on a machine: one HTML file to open in a browser.

    Parameters
    ----------
    census : Census
    architecture : Architecture
    einsum : Einsum
        The machine and the layer of the census.

    Returns
    -------
    str
        The file, less than 6 MB; equal input gives equal text.

    Raises
    ------
    AccelsimError
        If plotly is not installed.

    Examples
    --------
    >>> Path("gemm.html").write_text(census_report(census, machine, layer))  # doctest: +SKIP
    """
    edges = energy_edges(census)
    counts = np.bincount(bin_of(census.sample.energy_pj, edges), minlength=len(edges) - 1)
    data = {
        **machine_data(architecture, einsum),
        "histogram": {
            "edges": [rounded(10.0**edge, 8) for edge in edges.tolist()],
            "counts": counts.tolist(),
            "of": len(census.sample),
            "uniform": not census.sample.complete,
            "what": "valid mappings" if census.sample.complete else "mappings drawn",
            "marks": [
                [
                    "lowest" if census.range_of("energy").lowest_proved else "lowest known",
                    rounded(census.best.energy_pj),
                ],
                ["median", rounded(census.sample.quantile("energy", 0.5).value)],
            ],
        },
        "mappings": _mappings(chosen(census, DRAWN), architecture, einsum, edges),
        "complete_front": census.front.stop == "exhausted",
    }
    keeps = keep_table(census)
    reading = ALL_READING if census.sample.complete else SAMPLE_READING
    title = f"All mappings of {einsum.name} onto {architecture.name}"
    sections = [
        _section("figures", "In numbers", exact_figures(census) + estimated_figures(census)),
        _explorer(spread=True, more=f"<details><summary>Quantiles</summary>{quantile_table(census)}</details>"),
        _machine(architecture, einsum, census.best),
        _section("keeps", "What the levels keep", keeps) if keeps else "",
        _section("reading", "How to read this page", READING + reading),
    ]
    return page(title, census_lead(census), "".join(sections), data)


def search_report(search: SearchResult, architecture: Architecture, einsum: Einsum) -> str:
    """Write a page on what a search found: one HTML file to open in a browser.

    Parameters
    ----------
    search : SearchResult
    architecture : Architecture
    einsum : Einsum
        The machine and the layer of the search.

    Returns
    -------
    str
        The file, less than 6 MB; equal input gives equal text.

    Raises
    ------
    AccelsimError
        If plotly is not installed.
    """
    shown = [Chosen("best", "best", search.best)]
    shown += [Chosen(f"rank {rank}", "named", found) for rank, found in enumerate(search.ranked[1:_RANKED], 2)]
    histogram, edges = _seen(search)
    data = {
        **machine_data(architecture, einsum),
        "histogram": histogram,
        "mappings": _mappings(shown, architecture, einsum, edges),
        "complete_front": False,
    }
    sections = [
        _section("figures", "In numbers", search_figures(search)),
        _explorer(spread=histogram is not None, many=len(shown) > 1),
        _machine(architecture, einsum, search.best),
        _section("reading", "How to read this page", READING),
    ]
    title = f"{einsum.name} mapped onto {architecture.name}"
    return page(title, search_lead(search), "".join(sections), data)


def _seen(search: SearchResult) -> tuple[dict[str, Any] | None, Floats]:
    """Histogram of the mappings that a search saw, and its edges in log10 of energy [pJ]; without any, one bin."""
    if search.sample is None:
        return None, np.array([-np.inf, np.inf])
    bars = search.sample.spread.histogram(_BARS)
    edges = [low for low, _, _ in bars] + [bars[-1][1]]
    histogram = {
        "edges": [rounded(edge, 8) for edge in edges],
        "counts": [mappings for _, _, mappings in bars],
        "of": search.sample.valid,
        "uniform": False,
        "what": "valid mappings seen",
        "marks": [["best", rounded(search.best.energy_pj)]],
    }
    return histogram, np.log10(np.array(edges))


def _mappings(
    shown: Sequence[Chosen], architecture: Architecture, einsum: Einsum, edges: Floats
) -> list[dict[str, Any]]:
    """Data of the mappings to show, as many as there is room for."""
    bins = bin_of(np.array([each.result.energy_pj for each in shown]), edges).tolist()
    found: list[dict[str, Any]] = []
    size = 0
    for each, at in zip(shown, bins, strict=True):
        data = {"label": each.label, "kind": each.kind, "bin": at}
        data.update(mapping_data(each.result, architecture, einsum))
        size += len(embedded(data))
        if size > DATA_BYTES:
            break
        found.append(data)
    return found


def _section(name: str, title: str, content: str) -> str:
    return f'<section id="{name}"><h2>{escape(title)}</h2>{content}</section>'


def _explorer(*, spread: bool, many: bool = True, more: str = "") -> str:
    """Frames that the script fills: the distribution, the scatter, the list of mappings and the one shown."""
    parts = [SPREAD.replace("$more", more) if spread else "", SCATTER + LIST if many else ""]
    charts = f'<div class="charts">{"".join(parts)}</div>' if any(parts) else ""
    shown = SHOWN.replace("$back", BACK if many else "")
    return f'<div class="explore{"" if charts else " alone"}">{charts}{shown}</div>'


def _machine(architecture: Architecture, einsum: Einsum, best: Result) -> str:
    return (
        '<div class="pair">'
        + _section("machine", "The machine, as the best mapping uses it", machine_svg(architecture, einsum, best))
        + _section("roofline", "Roofline", ROOFLINE)
        + "</div>"
    )
