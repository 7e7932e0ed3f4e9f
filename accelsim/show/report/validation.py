"""Reports of `verify`, `validate` and `calibrate`: what was recorded, published or measured, beside ours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.text import Text

from accelsim.gpu import ROTATING
from accelsim.gpu.calibration import LARGE_FLOP
from accelsim.results.study import Study, errors_by_quantity, study_json
from accelsim.results.verifying import Check
from accelsim.show.table import Column, Piece, Row, Table, bold, dim, heading

if TYPE_CHECKING:
    from accelsim.gpu.calibration import Calibration, Errors
    from accelsim.gpu.validation import GemmValidation

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


def _cell(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.12g}"


_WORDS = {True: ("agrees", ""), False: ("DIFFERS", "bold red"), None: ("not checked", "dim")}
_COLUMNS = (
    Column("what", "what"),
    Column("recorded", "recorded", _cell, fold=True),
    Column("found", "found", _cell, fold=True),
    Column("", lambda row: _WORDS[row["agrees"]], lambda word: Text(*word), left=True),
)


def checks_report(name: str, checks: Sequence[Check]) -> Iterator[Piece]:
    """One row for each thing that was checked."""
    yield bold(name)
    yield Table("checks", _COLUMNS, [asdict(check) for check in checks])
    yield from (dim(f"{check.what}: {check.note}") for check in checks if check.note)
    yield ""


def verdict_line(checks: Sequence[Check]) -> Text:
    """Say whether all of it holds."""
    wrong = sum(check.agrees is False for check in checks)
    right, left = sum(check.agrees is True for check in checks), sum(check.agrees is None for check in checks)
    not_checked = f"; {left} could not be checked" if left else ""
    if wrong:
        return Text(f"NOT VERIFIED: {wrong} of {wrong + right} differ{not_checked}", style="bold red")
    return bold(f"verified: all {right} agree{not_checked}")


_FAR_OFF = 10.0
"""Errors from here on are of another unit or GPU, and no longer told."""
_LARGE = f"{LARGE_FLOP:g}".replace("e+", "e")


def short_percent(value: float) -> str:
    """Error in percent to one decimal; those of another unit or GPU are not told."""
    return f"{100 * value:.1f} %" if value < _FAR_OFF else "> 999 %"


def plain(value: float) -> str:
    """Ratio or correlation to three digits."""
    return f"{value:.3f}" if 1e-3 <= abs(value) < 1e3 else f"{value:.3g}"


_ERRORS = (
    Column("rows", "of"),
    Column("count", "rows", "{:,}".format),
    Column("median", "median", short_percent),
    Column("mean", "mean", short_percent),
    Column(f"median from {_LARGE} FLOP", "large_median", short_percent),
    Column("Spearman", "spearman", plain),
    Column("median ratio", "ratio", plain),
)


def errors_table(errors: Mapping[str, Errors], title: str = "", note: str = "", **of: str) -> Table:
    """Errors of several sets of rows; `of` says in CSV what they are of."""
    return Table(
        "errors", _ERRORS, [{**of, "of": name, **found.as_row()} for name, found in errors.items()], title, note
    )


def gemm_report(found: Sequence[GemmValidation], skipped: Sequence[str]) -> Iterator[Piece]:
    """The errors of each GPU, never of several together."""
    for case in found:
        about = case.about if case.measured.l2 == ROTATING else f"{case.about}; L2 {case.measured.l2} at the start"
        yield heading(f"{case.gpu.name}, {case.measured.number_format}", about)
        yield from filter(None, [case.measured.note])
        yield from case.doubts
        if case.launch_gap_us is not None:
            yield (
                f"kernels predicted under 30 us took {case.launch_gap_us:.1f} us longer (median), as if "
                "each were launched by itself, outside a CUDA graph, or timed together with another; "
                "`accelsim calibrate` fits what a launch takes"
            )
        yield errors_table(case.errors, gpu=case.gpu.name, number_format=case.measured.number_format)
        if not math.isnan(case.inside):
            which = "held-out rows" if len(case.errors) > 1 else "rows"
            yield f"{case.inside:.0%} of the {which} lie in the predicted interval"
        if len(case.errors) == 1 and case.mode == "calibrated":
            yield "the calibration is of another table: which of these rows it was fitted to is not known"
    if skipped:
        yield "\nNot compared"
        yield from (f"  {line}" for line in skipped)


def calibration_report(calibration: Calibration) -> Iterator[Piece]:
    """The constants of a calibration and its errors."""
    columns = (Column("constant", "constant"), Column("value", "value", "{:.4g}".format))
    rows = [{"constant": name, "value": value} for name, value in calibration.values.items()]
    title = f"{calibration.gpu}, {calibration.number_format}: {len(rows)} constants"
    yield Table("constants", columns, rows, title)
    yield errors_table(calibration.errors, "Errors", "relative to what was measured")
    low, high = calibration.interval
    yield f"four fifths of the held-out rows took {low:g} to {high:g} times what is predicted"
