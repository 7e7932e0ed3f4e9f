"""The report of a study: its figures beside the published ones, and their errors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict

from rich.text import Text

from accelsim.show.table import Column, Piece, Row, Table, heading
from validation.study import Study, errors_by_quantity, study_json

MOST_FIGURES = 60
"""So many figures are printed one by one unless all are asked for."""


def study_report(study: Study, *, every: bool = False) -> Iterator[Piece]:
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
    by_case: dict[str, dict[str, list[Row]]] = {}
    for row in shown:
        by_case.setdefault(row["case"], {}).setdefault(row["quantity"], []).append(row)
    together = [row for of_case in by_case.values() for several in of_case.values() for row in several]
    yield Table("figures", columns, rows, shown=together)
    yield from [""] if shown else []
    whys = [row for row in shown if row["why"] and (every or row["agrees"] is False)]
    for row in whys:
        about = ", ".join(filter(None, (row["case"], row["quantity"], row["variant"])))
        yield Text(f"{about}: ", style="bold" if row["agrees"] is False else "").append(row["why"], style="not bold")
    yield from [""] if whys else []
    yield from _errors(study)
    yield from (f"- {note}" for note in study.notes)
    yield ""


def _errors(study: Study) -> Iterator[Piece]:
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
        known = "{within} of {count}".format_map
        columns.append(Column("within tolerance", lambda row: None if row["within"] is None else known(row)))
    yield Table("errors", columns, rows)
    yield from (f"Worst {_named(row)}: {row['worst_case']}" for row in rows if row["worst"])


def _named(row: Row) -> str:
    return f"{row['quantity']}, {row['variant']}" if row["variant"] else row["quantity"]


def _percent(error: float | None) -> str:
    if error is None or error == math.inf:
        return "not 0"
    return f"{round(100 * error, 2) + 0.0:+.2f} %" if abs(error) < 10 else f"{error + 1:.3g}x"
