"""Reports of `accelsim validate`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.text import Text

from accelsim.importers.timeloop_comparison import CaseComparison
from accelsim.results.study import Study, errors_by_quantity, study_json
from accelsim.show.table import Column, Part, Row, Table, bold, heading

MOST_FIGURES = 60
"""So many figures are printed one by one unless all are asked for."""


def comparisons_report(cases: Sequence[CaseComparison]) -> Iterator[Part]:
    """Each record that was compared, those that were not with the reason, and how many are equal."""
    columns = (
        Column("case", "name", fold=True),
        Column("quantities", lambda row: row["quantities"] if row["compared"] else None),
        Column("largest difference", lambda row: f"{row['worst_difference']:.2g}" if row["compared"] else None),
        Column("verdict", lambda row: row, _verdict, fold=True),
    )
    yield Table("cases", columns, [asdict(case) for case in cases])
    compared = [case for case in cases if case.compared]
    different = sum(not case.equal for case in compared)
    quantities = sum(case.quantities for case in compared)
    yield ""
    yield bold(
        f"{len(compared)} of {len(cases)} records compared ({quantities:,} quantities): "
        f"{len(compared) - different} equal, {different} different; {len(cases) - len(compared)} not compared"
    )


def _verdict(row: Row) -> Text:
    if not row["compared"]:
        return Text(f"not compared: {row['reason']}", style="dim" if row["equal"] else "bold red")
    if row["equal"]:
        return Text(f"equal ({row['counts']})" if row["counts"] else "equal")
    return Text(f"DIFFERS: {row['worst_what']}", style="bold red")


def study_report(study: Study, *, every: bool = False) -> Iterator[Part]:
    """Each figure beside the published one, or only those too far off if there are many, and the errors.

    CSV has every figure.
    """
    yield heading(f"{study.name}: {study.about}")
    yield f"Source: {study.source}"
    rows = [{"study": study.name, **row} for row in study_json(study)["figures"]]
    wrong = [row for row in rows if row["agrees"] is False]
    shown = rows if every or len(rows) <= MOST_FIGURES else wrong
    named = [Column("variant", "variant", fold=True)] if any(row["variant"] for row in rows) else []
    columns = (
        Column("case", "case", fold=True, once=True),
        Column(
            "quantity", lambda row: f"{row['quantity']} [{row['unit']}]" if row["unit"] else row["quantity"], fold=True
        ),
        *named,
        Column("published", "published", "{:,.6g}".format),
        Column("ours", "ours", "{:,.6g}".format),
        Column("error", lambda row: Text(_percent(row["error"]), style="bold red" if row["agrees"] is False else "")),
    )
    yield Table("figures", columns, rows, shown=_by_case(shown))
    yield from [""] if shown else []
    whys = [row for row in shown if row["why"] and (every or row["agrees"] is False)]
    for row in whys:
        about = ", ".join(filter(None, (row["case"], row["quantity"], row["variant"])))
        yield Text(f"{about}: ", style="bold" if row["agrees"] is False else "").append(row["why"], style="not bold")
    yield from [""] if whys else []
    yield from _errors(study)
    yield from (f"- {note}" for note in study.notes)
    yield ""


def _by_case(rows: Sequence[Row]) -> list[Row]:
    """Rows of a case after each other, and in it those of a quantity."""
    cases = list(dict.fromkeys(row["case"] for row in rows))
    quantities = list(dict.fromkeys((row["case"], row["quantity"]) for row in rows))
    return sorted(rows, key=lambda row: (cases.index(row["case"]), quantities.index((row["case"], row["quantity"]))))


def _errors(study: Study) -> Iterator[Part]:
    rows = [{"study": study.name, **asdict(errors)} for errors in errors_by_quantity(study.figures)]

    def size(error: float) -> str:
        return _percent(error).removeprefix("+")

    columns = [
        Column("quantity", _named),
        Column("figures", "count"),
        Column("equal", "equal"),
        Column("median error", "median", size),
        Column("mean", "mean", size),
        Column("worst", "worst", size),
    ]
    if any(row["within"] is not None for row in rows):
        columns.append(Column("within tolerance", _within))
    yield Table("errors", columns, rows)
    yield from (f"Worst {_named(row)}: {row['worst_case']}" for row in rows if row["worst"])


def _within(row: Row) -> str | None:
    return None if row["within"] is None else f"{row['within']} of {row['count']}"


def _named(row: Row) -> str:
    return f"{row['quantity']}, {row['variant']}" if row["variant"] else row["quantity"]


def _percent(error: float | None) -> str:
    if error is None or error == math.inf:
        return "not 0"
    return f"{round(100 * error, 2) + 0.0:+.2f} %" if abs(error) < 10 else f"{error + 1:.3g}x"
