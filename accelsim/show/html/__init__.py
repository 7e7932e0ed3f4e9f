"""Reports as web pages: one file with everything in it, to open in a browser and explore.

Pages tell of a map space, of a search in it, and of a sweep: what they show as plain values, and the page around these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib import import_module
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from accelsim.fusion.result import FusedNetwork
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import require
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.mapping import dump_mapping
from accelsim.inputs.workload import Einsum
from accelsim.model.encode import Floats, Ints
from accelsim.model.limits import macs_per_byte, peak_macs_per_cycle, ports
from accelsim.model.result import Result
from accelsim.population.result import Spread
from accelsim.search.result import FrontResult, SearchResult
from accelsim.show.plots import figure_bytes
from accelsim.show.plots.diagram import plot_mapping
from accelsim.show.plots.loop_tree import plot_loop_tree
from accelsim.show.plots.search import axis_of, cells, same_value, two_costs, varied_values
from accelsim.show.plots.spread import refuse_zero_energy
from accelsim.show.report import OTHER_COLOUR, energy, tensor_colours
from accelsim.show.report.headline import headline
from accelsim.show.report.mapping import compute_used, letters, nest_levels
from accelsim.show.report.network import fusion_report
from accelsim.show.report.search import column_name, ranked_report
from accelsim.show.report.search import front_report as report_on_front
from accelsim.show.report.search import spread_report as report_on_spread
from accelsim.show.report.tables import COSTS, designs_table, sweep_lines
from accelsim.show.report.tables import said as in_words
from accelsim.show.report.verdicts import question, verdict
from accelsim.show.table import Column, Piece, Row, Table, Tree

_LONG_NAME = 16
"""Letters of a name that may not fit into a line on a phone."""
_BETWEEN_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=_)(?=[^_])")
_FACT = re.compile(r"([\w-]+) {2,}(.+)")
"""A line of a report that begins with what it is about."""


def page(title: str, lead: str, sections: str, data: dict[str, Any], script: str = "report.js") -> str:
    """Make the whole file, of a title and a lead in plain text, HTML that follows, and what the named script draws.

    Without a script the page has no plots, else it raises AccelsimError if plotly is not installed.
    """
    plotly = ""
    if script:
        require("plotly.offline", "the HTML report needs it", "html")
        plotly = import_module("plotly.offline").get_plotlyjs()
    return Template(_file("report.html")).substitute(
        title=escape(title), heading=said(title), lead=said(lead), sections=sections, style=_file("report.css"),
        plotly=plotly, script=_file("common.js") + (_file(script) if script else ""), data=embedded(data),
        plots="; the plots with plotly.js" if script else "",
    )  # fmt: skip


def section(name: str, title: str, content: str) -> str:
    """Part of a page below its own head."""
    return f'<section id="{name}"><h2>{escape(title)}</h2>{content}</section>'


def said(text: str) -> str:
    r"""Text as HTML, in which numbers stay beside their units, and long names break between their words.

    >>> said("2.5 mJ & 3 % more")
    '2.5\xa0mJ &amp; 3\xa0% more'
    >>> said("WeightInputBuffer")
    'Weight<wbr>Input<wbr>Buffer'
    """
    together = re.sub(r"(?<=\d) (?=%|[TGMkmunpf]?[JsW]\b|[KMGT]?i?B\b)", "\u00a0", text)
    return re.sub(rf"\w{{{_LONG_NAME},}}", lambda name: _BETWEEN_WORDS.sub("<wbr>", name[0]), escape(together))


def frame(name: str) -> str:
    """Part of a page that its script fills, with the words that explain it."""
    found = re.search(rf"<!-- {name} -->\n(.*?)\n+(?:<!--|\Z)", _file("frames.html"), re.DOTALL)
    return found[1] if found else ""


def sweep_frames(parameters: Iterable[str], dot: str) -> str:
    """Charts of the points of a sweep over some parameters; `dot` says what a point is."""
    only = (f'<label>{escape(name)} <select id="only-{at}"></select></label>' for at, name in enumerate(parameters))
    return frame("sweep").replace("$only", " ".join(only)).replace("$dot", dot)


def _file(name: str) -> str:
    return (files("accelsim.show.html") / name).read_text(encoding="utf-8")


def embedded(data: Any) -> str:
    r"""JSON that may stand inside a script element: no name in it can end the element.

    >>> print(embedded({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def table(caption: str, shown: Table) -> str:
    """A table that a click on its heads sorts."""
    head = "".join(f'<th scope="col"><button type="button">{escape(c.head)}</button></th>' for c in shown.columns)
    rows = (shown.rows if shown.shown is None else shown.shown)[: shown.most]
    below = (each for each in shown.below if isinstance(each, Mapping))
    body, foot = (
        "".join(f"<tr>{''.join(_cell(*each, row) for each in enumerate(shown.columns))}</tr>" for row in of)
        for of in (rows, below)
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table class="sortable">'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody><tfoot>{foot}</tfoot></table></div>"
    )


def _cell(at: int, column: Column, row: Row) -> str:
    raw = row.get(column.value) if isinstance(column.value, str) else None
    value = f' data-value="{raw!r}"' if isinstance(raw, int | float) else ""
    kind = "number" if value or not column.to_left(at) else "long" if column.fold else "text" if at else "name"
    return f'<td class="{kind}"{value}>{said(str(column.cell(row))).replace(chr(10), "<br>")}</td>'


def written(parts: Iterable[Piece]) -> str:
    """A report as HTML: headings, lines as paragraphs, and its tables."""
    found = []
    for part in _unwrapped(parts):
        if isinstance(part, Table):
            if part.columns:
                found.append(table(": ".join(filter(None, (part.title or part.name, part.note))), part))
        elif text := str(part).strip():
            tag = "h3" if str(part).startswith("\n") else "pre" if isinstance(part, Tree) else "p"
            line = f"<{tag}>{said(text.replace('  ', ': ', 1) if tag == 'h3' else text)}</{tag}>"
            fact = _FACT.fullmatch(str(part))
            found.append(f'<p class="fact"><b>{fact[1]}</b> <span>{said(fact[2])}</span></p>' if fact else line)
    return "".join(found)


def _unwrapped(parts: Iterable[Piece]) -> list[Piece]:
    """Parts of a report with each fact in one line, where it goes on below its text."""
    found: list[Piece] = []
    for part in parts:
        if found and isinstance(part, str) and part.startswith(" " * 13):
            found[-1] = f"{found[-1]} {part.strip()}"
        else:
            found.append(part)
    return found


BINS = 60
"""Bins of the histogram of energy, equally wide on a logarithmic axis."""
REGIONS = 5
"""Parts of the range of cycles, and of off-chip words, from which each bin shows a mapping."""
QUANTILES = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A mapping that a page shows: what it is, for a reader, and the kind.

    Kinds are `best`, `front`, `named`, `region` (it stands for a region of the distribution) and `drawn`.
    """

    label: str
    kind: str
    result: Result


def energy_edges(spread: Spread) -> Floats:
    """Edges of the bins, log10 of energy [pJ], float64[BINS + 1]; every mapping known lies between them."""
    refuse_zero_energy(spread)
    found = spread.range_of("energy")
    low, high = np.log10([found.lowest, found.highest])
    room = max(1e-9, 0.02 - (high - low))
    return np.linspace(low - room / 2, high + room / 2, BINS + 1)


def bin_of(energy_pj: Floats, edges: Floats) -> Ints:
    """Bin of each energy."""
    logs = np.log10(np.maximum(energy_pj, np.finfo(np.float64).tiny))  # what costs nothing lies in the first one
    return np.clip(np.searchsorted(edges, logs, side="right") - 1, 0, len(edges) - 2)


def chosen(spread: Spread, drawn: int) -> list[Chosen]:
    """Mappings to show: the named ones first, then those for each region, then the first `drawn` of the sample."""
    named: dict[LoopNest, Chosen] = {}
    for more in _named(spread):
        known = named.setdefault(more.result.mapping, more)
        if known is not more:
            named[more.result.mapping] = replace(known, label=f"{known.label}, {more.label}")
    first_drawn = range(min(drawn, len(spread.sample)))

    def of_sample(index: int, kind: str) -> Chosen:
        return Chosen(f"drawn no. {index + 1:,}", kind, spread.sample.result(index))

    regions = (of_sample(index, "region") for index in _regions(spread) if index not in first_drawn)
    return [
        *named.values(),
        *(region for region in regions if region.result.mapping not in named),
        *(of_sample(index, "drawn") for index in first_drawn),
    ]


def _known(proved: bool) -> str:
    return "" if proved else " known"


def _named(spread: Spread) -> Iterator[Chosen]:
    """Mappings with a name; one mapping may come more than once."""
    outermost = spread.best.levels[0].level
    energy, cycles, words = (spread.range_of(column) for column in ("energy", "cycles", "offchip_words"))
    yield Chosen(f"lowest energy{_known(energy.lowest_proved)}", "best", spread.best)
    for number, point in enumerate(spread.front.points, 1):
        yield Chosen(f"front {number}", "front", point)
    yield Chosen(f"fewest cycles{_known(cycles.lowest_proved)}", "named", cycles.lowest_mapping)
    yield Chosen(f"fewest {outermost} words{_known(words.lowest_proved)}", "named", words.lowest_mapping)
    for share in QUANTILES:
        name = "median energy" if share == 0.5 else f"{100 * share:g} % quantile of energy"
        index = spread.sample.nearest("energy", spread.sample.quantile("energy", share).value)
        yield Chosen(name, "named", spread.sample.result(index))
    yield Chosen("highest energy known", "named", energy.highest_mapping)


def _regions(spread: Spread) -> list[int]:
    """The first drawn mapping of each region: a bin of energy with a part of the range of cycles or off-chip words."""
    sample = spread.sample
    bins = bin_of(sample.energy_pj, energy_edges(spread))
    found: set[int] = set()
    for column in (sample.cycles, sample.offchip_words):
        logs = np.log10(np.maximum(column, 1.0))
        edges = np.linspace(logs.min(), logs.max(), REGIONS + 1)[1:-1]
        _, first = np.unique(bins * REGIONS + np.searchsorted(edges, logs), return_index=True)
        found.update(first.tolist())
    return sorted(found)


def rounded(value: float, digits: int = 6) -> float:
    """Value to so many digits.

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
        "architecture": architecture.name, "workload": einsum.name, "macs": einsum.real_macs,
        "tensors": [*({"name": n, "letter": letter[n], "colour": colour[n]} for n in names), other],
        "levels": [level.name for level in architecture.levels], "components": components(architecture),
        "compute": architecture.compute.name, "peak": peak_macs_per_cycle(architecture),
        "roofs": [{"name": port.name, "bytes_per_cycle": port.bytes_per_cycle} for port in ports(architecture)],
    }  # fmt: skip


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
        "energy_pj": rounded(result.energy_pj), "cycles": result.cycles, "offchip_words": result.offchip_words,
        "utilization": rounded(result.utilization),
        "nest": [[level.used, level.keeps, *level.lines] for level in nest_levels(result)],
        "yaml": dump_mapping(result.mapping), "units": compute_used(result),
        "energy": [
            [order[row["component"]], tensors.get(row["tensor"], len(tensors)), rounded(row["energy_pj"], 5)]
            for row in result.energy_by_tensor_rows()
        ],
        "needed": [level.cycles for level in result.levels] + [result.busy_cycles],
        "intensity": [None if value is None else rounded(value, 5) for value in intensities],
    }  # fmt: skip


_BACK = '<button id="back" type="button">Back to the list</button>'

DRAWN = 1200
"""Mappings of the uniform sample that a page shows at most."""
DATA_BYTES = 1_000_000
"""JSON of mappings at most; the last drawn are left out beyond that."""
_RANKED = 200
_ONE_BIN = np.array([-np.inf, np.inf])


def spread_report(spread: Spread, architecture: Architecture, einsum: Einsum) -> str:
    """Write a page on all valid mappings of an Einsum on a machine: one HTML file of less than 6 MB, for a browser.

    Equal input gives equal text. Raises AccelsimError if plotly is not installed.

    >>> Path("gemm.html").write_text(spread_report(spread, machine, layer))  # doctest: +SKIP
    """
    edges, shown = energy_edges(spread), chosen(spread, DRAWN)
    counts = np.bincount(bin_of(spread.sample.energy_pj, edges), minlength=len(edges) - 1)
    lowest = [f"lowest{_known(spread.range_of('energy').lowest_proved)}", rounded(spread.best.energy_pj)]
    marks = [lowest, ["median", rounded(spread.sample.quantile("energy", 0.5).value)]]
    histogram: dict[str, Any] = {"edges": [rounded(10.0**edge, 8) for edge in edges.tolist()]}
    histogram |= {"counts": counts.tolist(), "of": len(spread.sample), "marks": marks}
    data = _data(shown, architecture, einsum, edges, histogram=histogram)
    data["complete_front"] = spread.front.stop == "exhausted" and len(data["mappings"]) >= len(spread.front.points)
    title = f"All mappings of {einsum.name} on {architecture.name}"
    about = "" if spread.exact else "About "
    lead = f"{about}{spread.mappings:,} of the {spread.space_size:,} mappings that the constraints allow are valid."
    charts = _explorer(spread=True) + _machine(architecture, spread.best)
    return page(title, lead, _sections(report_on_spread(spread), charts, frame("sample")), data)


def search_report(search: SearchResult, architecture: Architecture, einsum: Einsum, zeros: Sequence[Piece] = ()) -> str:
    """Write a page on what a search found: see `spread_report`; `zeros` is what a report says of them."""
    shown = [Chosen("best", "best", search.best)]
    shown += [Chosen(f"rank {rank}", "named", found) for rank, (found, *_) in enumerate(search.ties[1:_RANKED], 2)]
    charts = section("zeros", "Sparsity", written(zeros)) if zeros else ""
    charts += _explorer(spread=False, many=len(shown) > 1) + _machine(architecture, search.best)
    figures = [*headline(search.best, architecture, einsum, search), *ranked_report(search)]
    asked = question(search.objective, search.space).capitalize()
    lead = f"{asked}: {verdict(search)}. It uses {energy(search.best.energy_pj)}."
    title = f"{einsum.name} on {architecture.name}"
    return page(title, lead, _sections(figures, charts), _data(shown, architecture, einsum))


def front_report(front: FrontResult, architecture: Architecture, einsum: Einsum) -> str:
    """Write a page on a Pareto front: see `spread_report`."""
    least = min(front.points, key=lambda point: point.energy_pj)
    shown = [Chosen(f"front {number}", "front", point) for number, point in enumerate(front.points, 1)]
    shown.sort(key=lambda each: each.result is not least)
    shown[0] = replace(shown[0], label=f"lowest energy of the front, {shown[0].label}")
    columns = [column_name(name) for name in front.columns]
    data = _data(shown, architecture, einsum, front=f"{', '.join(columns[:-1])} and {columns[-1]}")
    data["complete_front"] = front.stop == "exhausted" and len(data["mappings"]) == len(front.points)
    listed = [replace(part, most=len(part.rows)) for part in report_on_front(front) if isinstance(part, Table)]
    proved = f"complete (proved) among {front.space.kind} mappings" if front.stop == "exhausted" else "incomplete"
    lead = f"{len(front.points):,} mappings, compared in {data['front']}: {proved}."
    charts = _explorer(spread=False) + _machine(architecture, least)
    return page(f"Pareto front of {einsum.name} on {architecture.name}", lead, _sections(listed, charts), data)


def _sections(figures: Iterable[Piece], charts: str, more: str = "") -> str:
    """Sections of a page about mappings: figures, charts, and how to read both."""
    reading = section("reading", "How to read this page", frame("reading") + more)
    return section("figures", "In numbers", written(figures)) + charts + reading


def _data(
    shown: Sequence[Chosen],
    architecture: Architecture,
    einsum: Einsum,
    edges: Floats = _ONE_BIN,
    *,
    histogram: Mapping[str, Any] | None = None,
    front: str = "energy and cycles",
) -> dict[str, Any]:
    """What the script of a page about mappings draws: the machine, and as many of the mappings as there is room for."""
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
    head = {**machine_data(architecture, einsum), "histogram": histogram}
    return {**head, "mappings": found, "complete_front": False, "front": front}


def _explorer(*, spread: bool, many: bool = True) -> str:
    """Frames that the script fills: the distribution, the scatter, the list of mappings and the one shown."""
    charts = (frame("spread") if spread else "") + (frame("scatter") + frame("list") if many else "")
    shown = frame("shown").replace("$back", _BACK if many else "")
    found = f'<div class="charts">{charts}</div>{shown}' if charts else shown
    return f'<div class="explore{"" if charts else " alone"}">{found}</div>'


def _machine(architecture: Architecture, best: Result) -> str:
    drawn = _drawn(plot_mapping(best, architecture))
    title = section("machine", "The architecture, as the best mapping uses it", drawn)
    return f'<div class="pair">{title}{section("roofline", "Roofline", frame("roofline"))}</div>'


def _drawn(ax: Axes) -> str:
    svg = figure_bytes(ax, ["svg"])["svg"].decode()
    return f'<div class="machine">{re.sub("<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.DOTALL)}</div>'


def fusion_page(found: FusedNetwork) -> str:
    """Write a page on what to fuse in a network: the report, and the loop trees drawn."""
    line, *rest = fusion_report(found)
    trees = section("tree", "Loop trees", _drawn(plot_loop_tree(found))) if found.fused else ""
    title = f"Fusion of {found.workload} on {found.architecture}"
    return page(title, str(line), trees + section("figures", "In numbers", written(rest)), {}, "")


Rows = Sequence[Mapping[str, Any]]
MOST = 20_000
"""Designs of a page at most; those of the front go first."""
_LISTED = 500


def sweep_report(rows: Rows, about: Mapping[str, Any]) -> str:
    """Write a page on the designs of a sweep, of which sweep.json tells what they are `about`: see `spread_report`."""
    kept = sorted(rows, key=lambda row: (not row["front"], row["design"]))[:MOST]
    varied = varied_values(about)
    across, up = two_costs(about)
    costs = list(dict.fromkeys([*about["columns"], "energy_pj", "cycles", "time_s", "power_w", "area_um2"]))
    costs = [name for name in costs if any(row[name] is not None for row in kept)] or ["energy_pj", "cycles"]
    axes = {name: axis_of(name, cells(kept, name)) for name in costs}
    data = {
        "parameters": [{"name": name, "values": values} for name, values in varied.items()],
        "costs": [{"name": name, "label": label, "scale": scale} for name, (label, scale) in axes.items()],
        "objectives": list(about["columns"]), "across": across, "up": up,
        "designs": [_design(row, varied, costs) for row in kept],
    }  # fmt: skip
    best = [row for row in rows if row["front"]]
    least = [
        f"least {COSTS[name].name} {in_words(name, row[name])} (design {row['design']})"
        for name in about["columns"]
        if (row := min(best, key=lambda r: (r[name], r["design"]), default=None)) is not None
    ]
    listing = replace(designs_table(about, kept, costs), rows=kept, most=_LISTED)  # those of the front first
    listed = f"{len(rows):,}" if len(rows) <= _LISTED else f"The first {_LISTED:,} of {len(rows):,}"
    joint = bool(about.get("joint"))
    dot, what = ("a design with one mapping of each layer", "points and designs") if joint else ("a design", "designs")
    about_all, *lines = sweep_lines(about, rows, None)
    lead = f"{about_all}{': ' + '; '.join(least) if least else ''}."
    if len(kept) < len(rows):
        lead += f" The page shows {len(kept):,} of them, those of the front first."
    sections = section("figures", "In numbers", written(lines))
    sections += sweep_frames(varied, f"{dot}; triangles are lower bounds of dominated designs, which were not mapped")
    sections += section("designs", "Designs", table(f"{listed} {what}, those of the front first", listing))
    return page(about["name"], lead, sections, data, "explore.js")


def _design(row: Mapping[str, Any], varied: Mapping[str, Sequence[str]], costs: Sequence[str]) -> list[Any]:
    """Number, status, place of each parameter among its values, and costs; of a pruned design bounds."""
    places = [[same_value(row[name], text) for text in values].index(True) for name, values in varied.items()]
    status = "front" if row["front"] else row["status"]
    names = [f"bound_{name}" if status == "pruned" and f"bound_{name}" in row else name for name in costs]
    return [row["design"], status, places, [None if row[n] is None else rounded(row[n], 9) for n in names]]
