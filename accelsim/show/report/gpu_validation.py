"""Predicted beside measured times as a report shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console

from accelsim.gpu import ROTATING
from accelsim.gpu.calibration import Calibration
from accelsim.gpu.convolutions import ConvolutionErrors
from accelsim.gpu.errors import LARGE_FLOP, Errors
from accelsim.gpu.validation import GemmValidation
from accelsim.show.report.text import print_table, table, title

_FAR_OFF = 10.0
"""Errors from here on are of another unit or GPU, and no longer told."""
_LARGE = f"{LARGE_FLOP:g}".replace("e+", "e")


def print_gemm_validations(console: Console, found: Sequence[GemmValidation], skipped: Sequence[str]) -> None:
    """Print the errors of each GPU, never of several together."""
    for case in found:
        about = case.about if case.measured.l2 == ROTATING else f"{case.about}; L2 {case.measured.l2} at the start"
        title(console, f"{case.gpu.name}, {case.measured.number_format}", about)
        if case.measured.note:
            console.print(case.measured.note)
        for doubt in case.doubts:
            console.print(doubt)
        if case.launch_gap_us is not None:
            console.print(
                f"kernels predicted under 30 us took {case.launch_gap_us:.1f} us longer (median), as if "
                "each were launched by itself, outside a CUDA graph, or timed together with another; "
                "`accelsim calibrate` fits what a launch takes"
            )
        print_errors(console, case.errors)
        if not math.isnan(case.inside):
            console.print(f"{case.inside:.0%} of the held-out rows lie in the predicted interval")
        if not math.isnan(case.step_correlation):
            what = "pairs of rows that differ by one in M (from 64 on)"
            large = f"{case.large_step_rows} from {_LARGE} FLOP on, with {case.large_step_correlation:.2f}"
            console.print(
                f"{case.step_rows} {what}: the ratios of their times correlate with {case.step_correlation:.2f}"
                + ("" if math.isnan(case.large_step_correlation) else f"; those of {large}")
            )
    if skipped:
        console.print("\nNot compared")
        for line in skipped:
            console.print(f"  {line}")


def print_convolutions(console: Console, found: Sequence[ConvolutionErrors], skipped: Sequence[str]) -> None:
    """Print the errors of convolutions, in NHWC and with what NCHW costs."""
    groups: dict[str, list[ConvolutionErrors]] = {}
    for case in found:
        groups.setdefault(f"{case.gpu}, {case.number_format}", []).append(case)
    for name, cases in groups.items():
        title(console, name, "median error, and median of predicted over measured")
        made = table("pass", "algorithm", "rows", *("NHWC", "ratio", "NCHW", "ratio", "Winograd", "ratio"), left=(0, 1))
        for case in cases:
            parts = (case.nhwc, case.nchw, case.winograd)
            errors = [text for part in parts for text in (_percent(part.median), _plain(part.ratio))]
            made.add_row(case.training_pass.replace("_", " "), case.algorithm, f"{case.nhwc.rows}", *errors)
        print_table(console, made)
    console.print(
        "\nNHWC: the implicit GEMM alone; NCHW: input and output are turned to NHWC and back, by a kernel each; "
        "Winograd: where the table names it, or, for any algorithm, the faster of it and of the implicit GEMM"
    )
    for line in skipped:
        console.print(f"not compared: {line}")


def print_errors(console: Console, errors: dict[str, Errors]) -> None:
    """Print errors of several sets of rows."""
    columns = ("rows", "count", "median", "mean", f"median from {_LARGE} FLOP", "Spearman", "median ratio")
    made = table(*columns)
    for name, found in errors.items():
        shares = (_percent(value) for value in (found.median, found.mean, found.large_median))
        made.add_row(name, f"{found.rows:,}", *shares, _plain(found.spearman), _plain(found.ratio))
    print_table(console, made)


def print_calibration(console: Console, calibration: Calibration) -> None:
    """Print the constants of a calibration and its errors."""
    title(console, f"{calibration.gpu}, {calibration.number_format}: {len(calibration.values)} constants")
    made = table("constant", "value")
    for name, value in calibration.values.items():
        made.add_row(name, f"{value:.4g}")
    print_table(console, made)
    title(console, "Errors", "relative to what was measured")
    print_errors(console, calibration.errors)
    low, high = calibration.interval
    console.print(f"four fifths of the held-out rows took {low:g} to {high:g} times what is predicted")


def _percent(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{100 * value:.1f} %" if value < _FAR_OFF else "> 999 %"


def _plain(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:.3f}" if 1e-3 <= abs(value) < 1e3 else f"{value:.3g}"
