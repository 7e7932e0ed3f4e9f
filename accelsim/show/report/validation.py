"""Reports of `accelsim validate`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelsim.importers.timeloop_comparison import CaseComparison
from accelsim.results.study import Figure, FigureErrors, Study, errors_by_quantity
from accelsim.show.report.text import print_table, table, title

MOST_FIGURES = 60
"""So many figures are printed one by one unless all are asked for."""


def print_comparisons(console: Console, cases: Sequence[CaseComparison]) -> None:
    """Print each record that was compared, those that were not with the reason, and how many are equal."""
    made = table("case", "quantities", "largest difference", "verdict", fold=(0, 3))
    for case in cases:
        if not case.compared:
            style = "dim" if case.equal else "bold red"
            made.add_row(case.name, "", "", Text(f"not compared: {case.reason}", style=style))
        elif case.equal:
            verdict = Text(f"equal ({case.counts})" if case.counts else "equal")
            made.add_row(case.name, str(case.quantities), f"{case.worst_difference:.2g}", verdict)
        else:
            verdict = Text(f"DIFFERS: {case.worst_what}", style="bold red")
            made.add_row(case.name, str(case.quantities), f"{case.worst_difference:.2g}", verdict)
    print_table(console, made)
    compared = [case for case in cases if case.compared]
    different = [case for case in compared if not case.equal]
    quantities = sum(case.quantities for case in compared)
    console.print()
    console.print(
        Text(
            f"{len(compared)} of {len(cases)} records compared ({quantities:,} quantities): "
            f"{len(compared) - len(different)} equal, {len(different)} different; "
            f"{len(cases) - len(compared)} not compared",
            style="bold",
        )
    )


def print_study(console: Console, study: Study, *, every: bool = False) -> None:
    """Print each figure beside the published one, or only those too far off if there are many, and the errors."""
    title(console, f"{study.name}: {study.about}")
    console.print(f"Source: {study.source}")
    shown = study.figures if every or len(study.figures) <= MOST_FIGURES else study.wrong
    if shown:
        _print_figures(console, shown, every=every)
    _print_errors(console, study.figures)
    for note in study.notes:
        console.print(f"- {note}")
    console.print()


def _print_figures(console: Console, figures: Sequence[Figure], *, every: bool) -> None:
    """Print published figures, our variants beside each, then why they differ: of all, or of those too far off."""
    variants = list(dict.fromkeys(figure.variant for figure in figures))
    rows: dict[tuple[str, str, float, int], dict[str, Figure]] = {}
    seen: Counter[tuple[str, str, float, str]] = Counter()
    for figure in figures:
        quantity = f"{figure.quantity} [{figure.unit}]" if figure.unit else figure.quantity
        key = figure.case, quantity, figure.published
        rows.setdefault((*key, seen[*key, figure.variant]), {})[figure.variant] = figure
        seen[*key, figure.variant] += 1
    ours = [column for variant in variants for column in ("\n".join(variant.split()) or "ours", "error")]
    made = table("case", "quantity", "published", *ours, fold=(0, 1))
    for (case, quantity, published, _), found in rows.items():
        cells: list[str | Text] = []
        for variant in variants:
            one = found.get(variant)
            style = "bold red" if one is not None and one.agrees is False else ""
            cells += ["", ""] if one is None else [f"{one.ours:,.6g}", Text(_percent(one.error), style=style)]
        made.add_row(case, quantity, f"{published:,.6g}", *cells)
    width = console.measure(made, options=console.options.update(max_width=10_000)).maximum
    print_table(console, made if width <= console.width else _line_by_line(figures))
    console.print()
    for figure in figures:
        if figure.why and (every or figure.agrees is False):
            named = ", ".join(part for part in (figure.case, figure.quantity, figure.variant) if part)
            console.print(Text(f"{named}: ", style="bold" if figure.agrees is False else "").append(figure.why))
    if any(figure.why and (every or figure.agrees is False) for figure in figures):
        console.print()


def _line_by_line(figures: Sequence[Figure]) -> Table:
    """Table with a line for each figure, where one with a column for each variant would be too wide."""
    named = any(figure.variant for figure in figures)
    made = table(
        "case",
        "quantity",
        *(["variant"] if named else []),
        "published",
        "ours",
        "error",
        fold=(0, 1, *([2] if named else [])),
    )
    before: tuple[str, str] = ("", "")
    cases = list(dict.fromkeys(figure.case for figure in figures))
    quantities = list(dict.fromkeys((figure.case, figure.quantity) for figure in figures))
    for figure in sorted(figures, key=lambda f: (cases.index(f.case), quantities.index((f.case, f.quantity)))):
        unit = f" [{figure.unit}]" if figure.unit else ""
        here = (figure.case, f"{figure.quantity}{unit}")
        case, quantity = ("" if here[0] == before[0] else here[0], "" if here == before else here[1])
        before = here
        style = "bold red" if figure.agrees is False else ""
        numbers = (f"{figure.published:,.6g}", f"{figure.ours:,.6g}", Text(_percent(figure.error), style=style))
        made.add_row(case, quantity, *([figure.variant] if named else []), *numbers)
    return made


def _print_errors(console: Console, figures: Sequence[Figure]) -> None:
    found = errors_by_quantity(figures)
    judged = any(errors.within is not None for errors in found)
    columns = ["quantity", "figures", "equal", "median error", "mean", "worst"]
    made = table(*columns, *(["within tolerance"] if judged else []))
    for errors in found:
        made.add_row(
            _named(errors),
            str(errors.count),
            str(errors.equal),
            *(_percent(error).removeprefix("+") for error in (errors.median, errors.mean, errors.worst)),
            *(["" if errors.within is None else f"{errors.within} of {errors.count}"] if judged else []),
        )
    print_table(console, made)
    for errors in found:
        if errors.worst:
            console.print(f"Worst {_named(errors)}: {errors.worst_case}")


def _named(errors: FigureErrors) -> str:
    return f"{errors.quantity}, {errors.variant}" if errors.variant else errors.quantity


def _percent(error: float) -> str:
    if error == math.inf:
        return "not 0"
    return f"{round(100 * error, 2) + 0.0:+.2f} %" if abs(error) < 10 else f"{error + 1:.3g}x"
