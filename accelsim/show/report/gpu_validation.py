"""Predicted beside measured times as a report shows them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from accelsim.gpu import ROTATING
from accelsim.gpu.calibration import Calibration
from accelsim.gpu.convolutions import ConvolutionErrors
from accelsim.gpu.errors import LARGE_FLOP, Errors
from accelsim.gpu.validation import GemmValidation
from accelsim.show.table import Column, Part, Row, Table, heading

_FAR_OFF = 10.0
"""Errors from here on are of another unit or GPU, and no longer told."""
_LARGE = f"{LARGE_FLOP:g}".replace("e+", "e")


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %" if value < _FAR_OFF else "> 999 %"


def _plain(value: float) -> str:
    return f"{value:.3f}" if 1e-3 <= abs(value) < 1e3 else f"{value:.3g}"


_ERRORS = (
    Column("rows", "of"),
    Column("count", "rows", "{:,}".format),
    Column("median", "median", _percent),
    Column("mean", "mean", _percent),
    Column(f"median from {_LARGE} FLOP", "large_median", _percent),
    Column("Spearman", "spearman", _plain),
    Column("median ratio", "ratio", _plain),
)


def errors_table(errors: Mapping[str, Errors], title: str = "", note: str = "", **of: str) -> Table:
    """Errors of several sets of rows; `of` says in CSV what they are of."""
    return Table(
        "errors", _ERRORS, [{**of, "of": name, **found.as_row()} for name, found in errors.items()], title, note
    )


def gemm_report(found: Sequence[GemmValidation], skipped: Sequence[str]) -> Iterator[Part]:
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
            yield f"{case.inside:.0%} of the held-out rows lie in the predicted interval"
    if skipped:
        yield "\nNot compared"
        yield from (f"  {line}" for line in skipped)


def convolution_row(case: ConvolutionErrors) -> Row:
    """Errors of one GPU, algorithm and pass as a plain row."""
    names = {name: getattr(case, name) for name in ("gpu", "number_format", "algorithm", "training_pass")}
    return {**names, **{name: getattr(case, name).as_row() for name in ("nhwc", "nchw", "winograd")}}


def _errors_of(name: str, head: str) -> tuple[Column, Column]:
    ratio = Column("ratio", lambda row: row[name]["ratio"], _plain)
    return Column(head, lambda row: row[name]["median"], _percent), ratio


_CONVOLUTIONS = (
    Column("pass", "training_pass", lambda text: text.replace("_", " ")),
    Column("algorithm", "algorithm", left=True),
    Column("rows", lambda row: row["nhwc"]["rows"]),
    *_errors_of("nhwc", "NHWC"),
    *_errors_of("nchw", "NCHW"),
    *_errors_of("winograd", "Winograd"),
)


def convolutions_report(found: Sequence[ConvolutionErrors], skipped: Sequence[str]) -> Iterator[Part]:
    """The errors of convolutions, in NHWC and with what NCHW costs."""
    groups: dict[str, list[Row]] = {}
    for case in found:
        groups.setdefault(f"{case.gpu}, {case.number_format}", []).append(convolution_row(case))
    for name, rows in groups.items():
        yield Table("conv", _CONVOLUTIONS, rows, name, "median error, and median of predicted over measured")
    yield (
        "\nNHWC: the implicit GEMM alone; NCHW: input and output are turned to NHWC and back, by a kernel each; "
        "Winograd: where the table names it, or, for any algorithm, the faster of it and of the implicit GEMM"
    )
    yield from (f"not compared: {line}" for line in skipped)


def calibration_report(calibration: Calibration) -> Iterator[Part]:
    """The constants of a calibration and its errors."""
    columns = (Column("constant", "constant"), Column("value", "value", "{:.4g}".format))
    rows = [{"constant": name, "value": value} for name, value in calibration.values.items()]
    title = f"{calibration.gpu}, {calibration.number_format}: {len(rows)} constants"
    yield Table("constants", columns, rows, title)
    yield errors_table(calibration.errors, "Errors", "relative to what was measured")
    low, high = calibration.interval
    yield f"four fifths of the held-out rows took {low:g} to {high:g} times what is predicted"
