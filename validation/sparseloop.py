"""Sparseloop's designs beside its own figures, by folder: what is equal, and the causes of all else.

`python -m validation.sparseloop [PATH ...] [--every] [--json] [--csv FILE] [-o DIR]`. Without a path, the designs are
those of its publication, in the folder of reference data; `-o` writes all figures as JSON, and plots of figures 12 and
15 as far as the designs have them.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from accelsim.cli import BAD_INPUT, DIFFERS, DONE, answer
from accelsim.inputs.errors import AccelsimError
from accelsim.results import refuse_directory, to_json
from accelsim.show import plots as style
from accelsim.show.table import Column, Piece, Table, bold, heading
from validation.command import add_forms
from validation.report import study_report
from validation.sparseloop_designs import CAUSES, MASK, MEASURED, sparseloop_study
from validation.study import Figure, Study, errors_by_quantity, reference_paths, study_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes

USUAL = "foreign/sparseloop"
"""Where the designs are in the folder of reference data."""
_COLOURS = ("#0072B2", "#E69F00", "#009E73")


def published_study() -> Study:
    """Compare the designs of Sparseloop's publication."""
    return sparseloop_study(reference_paths((), USUAL))


def designs_report(study: Study) -> Iterator[Piece]:
    """Sparseloop's designs by folder: how many figures are equal, and the causes of all others."""
    yield heading(f"{study.name}: {study.about}")
    yield f"Source: {study.source}"
    columns = (
        Column("designs of", "folder", fold=True),
        Column("designs", "designs"),
        Column("figures", "figures"),
        Column("equal", "equal"),
        Column("with a cause", "named"),
        Column("without", "unknown"),
        Column("worst cycles", "cycles", lambda error: f"{error:+.2%}"),
    )
    judged = [figure for figure in study.figures if figure.tolerance is not None]
    yield Table("designs", columns, _folders(judged))
    found = Counter(cause for figure in judged for cause in figure.why.split(", ") if cause)
    yield ""
    rows = [{"cause": cause, "figures": many, "meaning": CAUSES[cause]} for cause, many in found.most_common()]
    causes = (
        Column("cause", "cause"),
        Column("figures", "figures"),
        Column("what it is", "meaning", left=True, fold=True),
    )
    yield Table("causes", causes, rows)
    yield ""
    measured = [figure for figure in study.figures if figure.quantity == MEASURED]
    for errors in errors_by_quantity(measured):
        what = f"{errors.count} designs, {MEASURED}: {errors.mean:.2%} off on average, {errors.worst:.2%} at most"
        yield f"{errors.variant}: {what}"
    for figure in (figure for figure in judged if figure.agrees is False and not figure.explained):
        yield bold(f"{figure.case}, {figure.quantity}: {figure.ours:,.10g}, not {figure.published:,.10g}")
    yield from (f"- {note}" for note in study.notes)


def _folders(figures: list[Figure]) -> list[dict[str, Any]]:
    """Counts by the first folder of a design's name; cycles of designs whose masks are absent are not judged."""
    groups: dict[str, list[Figure]] = {}
    for figure in figures:
        groups.setdefault(figure.case.partition(": ")[0].partition("/")[0], []).append(figure)
    rows = []
    for folder, members in groups.items():
        cycles = [figure.error for figure in members if figure.quantity == "cycles" and figure.why != MASK]
        rows.append(
            {
                "folder": folder,
                "designs": len({figure.case.partition(": ")[0] for figure in members}),
                "figures": len(members),
                "equal": sum(bool(figure.agrees) for figure in members),
                "named": sum(figure.agrees is False and figure.explained for figure in members),
                "unknown": sum(figure.agrees is False and not figure.explained for figure in members),
                "cycles": max(cycles, key=abs, default=0.0),
            }
        )
    return rows


def measured_table(study: Study) -> list[dict[str, Any]]:
    """Rows of `plot_measured_cycles`: cycles that were measured of a layer, ours, and those of Sparseloop."""
    rows: dict[str, dict[str, Any]] = {}
    for figure in study.figures:
        if figure.variant:
            layer = re.findall(r"L\d+", figure.case)[-1]
            rows.setdefault(layer, {"layer": layer, "measured": figure.published})[figure.variant] = figure.ours
    return [rows[layer] for layer in sorted(rows)]


def plot_measured_cycles(study: Study, ax: Axes | None = None) -> Axes:
    """Draw the cycles of each layer: measured, ours and Sparseloop's (its figure 12)."""
    rows = measured_table(study)
    series = {name: [row[key] for row in rows] for name, key in (("measured", "measured"), *_OURS)}
    return _bars([row["layer"] for row in rows], series, "cycles", "PE of Eyeriss v2", ax)


_OURS = (("accelsim", "accelsim"), ("Sparseloop", "Sparseloop"))
_DESIGN = re.compile(r"WD-([\d.]+)/([^/]+)/((?:D?S?TC)[^/]*?)-RF2x-24-bandwidth([^/]*)/")


def speedup_table(study: Study) -> list[dict[str, Any]]:
    """Rows of `plot_speedups`: how often faster a sparse tensor core is than the dense one, as a mean over layers.

    `accelsim` and `Sparseloop` are geometric means over the layers that both cores have at a density of weights.
    """
    cycles: dict[tuple[str, str], dict[str, tuple[float, float]]] = {}
    for figure in study.figures:
        name = _DESIGN.search(figure.case)
        if name and figure.quantity == "cycles":
            cycles.setdefault((name[1], name[2]), {})[name[3] + name[4]] = figure.ours, figure.published
    logs: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for (share, _), cores in cycles.items():
        for core, each in cores.items() if "TC" in cores else ():
            pair = [math.log(dense / own) for dense, own in zip(cores["TC"], each, strict=True)]
            logs.setdefault((core, share), []).append((pair[0], pair[1]))
    rows = []
    for (core, share), found in sorted(logs.items(), key=lambda item: (-float(item[0][1]), item[0][0])):
        ours, theirs = (math.exp(sum(one) / len(found)) for one in zip(*found, strict=True))
        about: dict[str, Any] = {"core": core, "weights": float(share), "layers": len(found)}
        rows.append({**about, "accelsim": ours, "Sparseloop": theirs})
    return rows


def plot_speedups(study: Study, ax: Axes | None = None) -> Axes:
    """Draw how often faster sparse tensor cores are than the dense one, by density of weights (figure 15)."""
    rows = [row for row in speedup_table(study) if row["core"] != "TC"]
    names = [f"{row['core'].replace('_', ' ')}, {100 * row['weights']:.3g} %" for row in rows]
    series = {name: [row[key] for row in rows] for name, key in _OURS}
    return _bars(names, series, "speedup over the dense core", "Tensor cores, by weights that are not zero", ax)


def _bars(names: Sequence[str], series: Mapping[str, Sequence[float]], unit: str, title: str, ax: Axes | None) -> Axes:
    """Draw a row of horizontal bars for each name."""
    with style.drawing(ax, 1.4 + 0.14 * len(names) * (1 + len(series))) as ax:
        thick = 0.84 / len(series)
        for place, ((name, values), colour) in enumerate(zip(series.items(), _COLOURS, strict=False)):
            at = [row + (place - (len(series) - 1) / 2) * thick for row in range(len(names))]
            ax.barh(at, values, thick, color=colour, label=name)
        style.rows_down(ax, names)
        ax.set_xlabel(unit)
        style.short_ticks(ax.xaxis)
        style.put_title(ax, title, legend=True)
    return ax


def _files(study: Study, document: dict[str, Any]) -> dict[str, bytes]:
    """Contents of the folder by name: all figures as JSON, and plots of what the designs have of figures 12 and 15."""
    files = {"validation.json": to_json(document).encode()}
    if measured_table(study):
        files |= style.figure_files("cycles", plot_measured_cycles(study))
    if speedup_table(study):
        files |= style.figure_files("speedups", plot_speedups(study))
    return files


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare designs; 1 if a figure differs for no known reason, or there is none."""
    parser = argparse.ArgumentParser(prog="python -m validation.sparseloop", description=__doc__)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="statistics, or folders of them")
    parser.add_argument("--every", action="store_true", help="print every figure, however many there are")
    parser.add_argument("-o", "--output", metavar="DIR", help="write validation.json and plots")
    add_forms(parser)
    parsed = parser.parse_args(arguments)
    try:
        if parsed.output:
            refuse_directory(parsed.output)
        study = sparseloop_study(reference_paths(parsed.paths, USUAL))
    except AccelsimError as error:
        sys.stderr.write(f"{error}\n")
        return BAD_INPUT
    document = {"studies": [study_json(study)]}
    report = study_report if parsed.every else designs_report
    answer(parsed, document, lambda: report(study), files=lambda: _files(study, document))
    return DIFFERS if study.unexplained or not study.figures else DONE


if __name__ == "__main__":
    sys.exit(main())
