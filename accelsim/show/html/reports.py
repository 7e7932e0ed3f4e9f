"""Pages that tell of a map space, and of a search in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.workload import Einsum
from accelsim.model.encode import Floats
from accelsim.model.result import Result
from accelsim.population.result import Census
from accelsim.search.result import SearchResult
from accelsim.show.html.chosen import Chosen, bin_of, chosen, energy_edges, machine_data, mapping_data, rounded
from accelsim.show.html.page import embedded, page, section, written
from accelsim.show.plots.diagram import plot_mapping
from accelsim.show.plots.style import figure_bytes
from accelsim.show.report.census import census_report as report_on_census
from accelsim.show.report.mapping import headline
from accelsim.show.report.search import ranked_report
from accelsim.show.report.text import energy

# Parts of a page that the script fills, and the words that explain it; `$back` stands for a button.
_SPREAD = """<section id="spread"><h2>How the energy is spread</h2>
<p class="note" id="spread-note">Drag over the bars, or move the two handles, to choose a range of energy.</p>
<div id="spread-plot" class="plot" role="img" aria-label="Histogram of the energy of the valid mappings"></div>
<div class="range"><label>from <input id="from" type="range" step="1"></label>
<label>to <input id="to" type="range" step="1"></label></div>
<p id="range-text" role="status"></p>
<p class="controls"><button id="everything" type="button">Whole range</button>
<label><input id="log-count" type="checkbox"> logarithmic count</label></p></section>"""
_SCATTER = """<section id="scatter"><h2>One cost against another</h2>
<p class="controls"><label>up <select id="y-axis"></select></label>
<label>across <select id="x-axis"></select></label></p>
<div id="scatter-plot" class="plot" role="img" aria-label="Scatter plot of the mappings listed below"></div>
<p class="note" id="scatter-note"></p></section>"""
_LIST = """<section id="list"><h2 id="list-title">Mappings</h2>
<p class="controls"><label>show <select id="kinds"></select></label></p>
<p class="note" id="list-note"></p>
<div class="scroll tall" tabindex="0" role="region" aria-labelledby="list-title">
<table id="mappings"><thead></thead><tbody></tbody></table></div></section>"""
_BACK = '<button id="back" type="button">Back to the list</button>'
_SHOWN = """<section id="shown" tabindex="-1" aria-live="polite">
<div class="head"><h2 id="shown-title"></h2>
<button id="show-best" type="button">Show the best</button>$back</div>
<dl id="shown-costs" class="costs"></dl>
<h3>Loop nest</h3><p class="note">for: in time, par_for: in space; sizes of one instance</p><div id="nest"></div>
<h3>Energy</h3><div id="energy"></div>
<h3>Cycles</h3><p class="note">All components work at the same time: the one that needs most sets the total.</p>
<div id="cycles"></div></section>"""
_ROOFLINE = """<p class="note">A mapping cannot do more MACs in a cycle than the compute units allow (flat roof), nor
more than the bandwidth of a level allows for the MACs that it does with each byte moved there (slanted roofs).</p>
<div id="roofline-plot" class="plot" role="img" aria-label="Roofline of the machine with the best mapping"></div>
<p class="note" id="roofline-note"></p>"""
_READING = """<ul>
<li>A <b>mapping</b> says in what order, on which units and from which memories a layer is computed. All mappings
give the same result; they differ in energy and time.</li>
<li>A <b>level</b> is a memory, from the outermost (usually DRAM) inwards. It keeps tiles of tensors, or lets them pass
by.</li>
<li><b>DRAM words</b>, or those of another outermost level, are the words that are read from it and written to it.</li>
<li><b>Utilization</b> is the share of the compute units' cycles that do multiply-accumulates (MACs).</li>
<li>The <b>Pareto front</b> holds the mappings that none other beats in both energy and cycles.</li>
<li>Energy is that of all components together: memories, networks, compute units and leakage.</li>
</ul>"""
_SAMPLE_READING = """<p>The histogram and the dots are mappings that were drawn so that each valid one is equally
likely. The exact numbers do not come from them. Rare mappings are seldom drawn, so some of each region of the histogram
that was seen at all are shown as well, as rings.</p>"""

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
            "uniform": True,
            "what": "mappings drawn",
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
    title = f"All mappings of {einsum.name} onto {architecture.name}"
    sections = [
        section("figures", "In numbers", written(report_on_census(census))),
        _explorer(spread=True),
        _machine(architecture, census.best),
        section("reading", "How to read this page", _READING + _SAMPLE_READING),
    ]
    about = "" if census.exact else "About "
    lead = f"{about}{census.mappings:,} of the {census.space_size:,} mappings that the constraints allow are valid."
    return page(title, lead, "".join(sections), data)


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
        section("figures", "In numbers", written([*headline(search.best, search), *ranked_report(search)])),
        _explorer(spread=histogram is not None, many=len(shown) > 1),
        _machine(architecture, search.best),
        section("reading", "How to read this page", _READING),
    ]
    title = f"{einsum.name} mapped onto {architecture.name}"
    lead = f"The best of the mappings looked at takes {energy(search.best.energy_pj)}."
    return page(title, lead, "".join(sections), data)


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


def _explorer(*, spread: bool, many: bool = True) -> str:
    """Frames that the script fills: the distribution, the scatter, the list of mappings and the one shown."""
    charts = (_SPREAD if spread else "") + (_SCATTER + _LIST if many else "")
    shown = _SHOWN.replace("$back", _BACK if many else "")
    found = f'<div class="charts">{charts}</div>{shown}' if charts else shown
    return f'<div class="explore{"" if charts else " alone"}">{found}</div>'


def _machine(architecture: Architecture, best: Result) -> str:
    svg = re.sub(
        "<!--.*?-->", "", figure_bytes(plot_mapping(best, architecture), ["svg"])["svg"].decode(), flags=re.DOTALL
    )
    drawn = f'<div class="machine">{svg[svg.index("<svg") :]}</div>'
    title = section("machine", "The machine, as the best mapping uses it", drawn)
    return f'<div class="pair">{title}{section("roofline", "Roofline", _ROOFLINE)}</div>'
