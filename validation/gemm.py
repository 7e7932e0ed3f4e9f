"""Predicted beside measured times of matrix products, by GPU and by what a fit could know of them.

`python -m validation gemm MEASURED ... [--gpu NAME] [--calibration FILE] [--json] [--csv FILE] [-o DIR]`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from accelsim import cli
from accelsim.gpu import L2_STATES, ROTATING
from accelsim.gpu.calibration import DOUBT, Calibration, Errors, Mode, errors_by_split, errors_of, far_off, mode_of
from accelsim.gpu.catalogue import Gpu, find_gpu, gpu_hint, load_gpu, may_be, no_format
from accelsim.gpu.constants import Floats
from accelsim.gpu.gemms import Setup, time_gemms
from accelsim.gpu.measured import MeasuredGemms, read_measured
from accelsim.inputs.errors import AccelsimError, InputError, Problem
from accelsim.inputs.units import quoted
from accelsim.results import to_json
from accelsim.show.plots import figure_files
from accelsim.show.report.gpu import errors_table
from accelsim.show.table import Piece, heading
from validation.command import Answer, page_text, run_alone
from validation.plot_measured import plot_measured

_OVER_PEAK = 1.3
"""How far boards run above the boost clock of their data sheet, and more."""
_SHORT_US, _LEAST_SHORT, _LEAST_GAP_US = 30.0, 4, 2.0


@dataclass(frozen=True, slots=True)
class GemmValidation:
    """One GPU and number format of a table, predicted."""

    gpu: Gpu
    measured: MeasuredGemms
    mode: str  # `uncalibrated` or `calibrated`
    about: str  # the mode in a sentence
    # of all rows; of the parts `fit`, `interpolation` and `extrapolation` where the calibration is of this very table
    errors: dict[str, Errors]
    # share of the rows, of a calibration's own table the held-out ones, whose measured time lies in the interval
    inside: float
    predicted_us: Floats  # float[rows]

    @property
    def doubts(self) -> list[str]:
        """What says that the table is not of this GPU and format, or its times not in the unit of their column."""
        found, times = [], self.measured.time_us
        peak_us = self.measured.gemms.flops / self.gpu.flops(self.measured.number_format) * 1e6
        faster = int((times * _OVER_PEAK < peak_us).sum())
        if faster:
            peak = f"{self.gpu.flops(self.measured.number_format) * 1e-12:.3g} TFLOPS"
            found.append(f"{faster} rows are above {_OVER_PEAK:g} times the peak of the data sheet, {peak}{DOUBT}")
        far = far_off(times, self.predicted_us)
        return [*found, far] if far else found

    @property
    def launch_gap_us(self) -> float | None:
        """How much longer short kernels took than predicted [us]: a launch, or a kernel that was timed with them.

        The median over rows that are predicted to take less than 30 us; None below 2 us, or of fewer than four rows.
        """
        short = self.predicted_us < _SHORT_US
        if short.sum() < _LEAST_SHORT:
            return None
        gap = float(np.median((self.measured.time_us - self.predicted_us)[short]))
        return gap if gap >= _LEAST_GAP_US else None


def validate_gemm(
    paths: Sequence[str | PathLike[str]],
    *,
    gpu: str | None = None,
    mig: str | None = None,
    calibration: str | PathLike[str] | None = None,
    number_format: str | None = None,
    l2: str = ROTATING,
) -> tuple[list[GemmValidation], list[str]]:
    """Hold predictions against tables of measured products.

    Parameters
    ----------
    paths : sequence of path
        CSV files as `read_measured` takes them.
    gpu : str, optional
        The GPU that was measured; by default what the column `device` says. Rows of others that are known are left
        out, if there are any of this one or of devices that are not known.
    calibration : str or path, optional
        `shipped`, or a file; without one the model is uncalibrated.
    number_format : str, optional
        Of rows whose format the tables do not say, or not by a name that is known.
    l2 : str
        State of L2 at the start, of rows of which the tables do not say it.

    Returns
    -------
    list of GemmValidation
        By GPU, format and state of L2, in the order of the tables.
    list of str
        What was not compared, and why.

    Raises
    ------
    InputError
        With every mistake in a table and its place, or why nothing can be compared.
    """
    tables = [table for path in paths for table in read_measured(path, number_format=number_format, l2=l2)]
    known, skipped = _of_known_gpus(tables, gpu, mig)
    found = []
    for machine, table in known:
        try:
            mode = mode_of(machine, table.number_format, calibration)
        except InputError:
            raise
        except AccelsimError as error:
            skipped.append(Problem(table.where, f"{_rows(table)}: {error}"))
            continue
        found.append(_validated(machine, table, mode))
    if not found:
        raise InputError(skipped)
    return found, [str(problem) for problem in skipped]


def _of_known_gpus(
    tables: Sequence[MeasuredGemms], gpu: str | None, mig: str | None
) -> tuple[list[tuple[Gpu, MeasuredGemms]], list[Problem]]:
    """Tables whose GPU and number format are known, and why others are not compared.

    With a GPU that the user names, those of other GPUs are left out, unless no other table is there.
    """
    named = load_gpu(gpu, mig) if gpu else None
    some_may_be = named is not None and any(may_be(named, table.device) for table in tables)
    known, skipped = [], []
    for table in tables:
        machine = named or find_gpu(table.device)
        rows = _rows(table)
        if machine is None and not table.device:
            skipped.append(Problem(table.where, f"{rows} of no device", "say --gpu NAME, or add a column device"))
        elif machine is None:
            hint = f"say --gpu NAME; {gpu_hint(table.device)}"
            skipped.append(Problem(table.where, f"{rows}: no GPU {quoted(table.device)} ships", hint))
        elif some_may_be and not may_be(machine, table.device):
            hint = "leave --gpu out to compare each GPU with itself"
            skipped.append(Problem(table.where, f"{rows} of {quoted(table.device)}, not of {machine.name}", hint))
        elif table.number_format not in machine.operations_per_sm_cycle:
            skipped.append(Problem(table.where, f"{rows} of {no_format(machine, table.number_format)}"))
        else:
            notes = [table.note] if table.note else []
            if not may_be(machine, table.device):
                notes.append(f"{table.where}: {table.device} is predicted as {machine.name}, as --gpu says")
            known.append((machine, replace(table, note="; ".join(notes))))
    if not known:
        raise InputError(skipped)
    return known, skipped


def _rows(table: MeasuredGemms) -> str:
    return f"{len(table)} row{'s' if len(table) > 1 else ''}"


def _validated(gpu: Gpu, measured: MeasuredGemms, mode: Mode) -> GemmValidation:
    predicted = time_gemms(gpu, measured.gemms, measured.number_format, mode.constants, Setup(measured.l2)).time_us
    errors = {"all": errors_of(predicted, measured.time_us, measured.gemms.flops)}
    held = measured.time_us / predicted
    if mode.calibration is not None and _fitted_to(mode.calibration, measured):
        parts, held = errors_by_split(measured, predicted)
        errors |= parts
    inside = math.nan
    if mode.interval is not None and len(held):
        low, high = mode.interval
        inside = float(np.mean((held >= low) & (held <= high)))
    name = "calibrated" if mode.calibration else "uncalibrated"
    return GemmValidation(gpu, measured, name, mode.text, errors, inside, predicted)


def _fitted_to(calibration: Calibration, measured: MeasuredGemms) -> bool:
    """Whether it was fitted to rows of this very table, so that its parts are known; it records the SHA-256."""
    return measured.sha256 == calibration.source.get("sha256") and measured.number_format == calibration.number_format


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
                "`accelsim gpu calibrate` fits what a launch takes"
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


def gemm_json(found: Sequence[GemmValidation], skipped: Sequence[str]) -> dict[str, Any]:
    """What was compared as JSON."""
    rows = [
        {
            "gpu": case.gpu.name,
            "number_format": case.measured.number_format,
            "l2": case.measured.l2,
            "mode": case.mode,
            "about": case.about,
            "note": case.measured.note,
            "doubts": case.doubts,
            "launch_gap_us": case.launch_gap_us,
            "errors": {name: errors.as_row() for name, errors in case.errors.items()},
            "inside_interval": None if math.isnan(case.inside) else case.inside,
        }
        for case in found
    ]
    return {"gemm": rows, "not_compared": skipped}


def _files(found: Sequence[GemmValidation], skipped: Sequence[str], document: Mapping[str, Any]) -> dict[str, bytes]:
    """Contents of the folder by name: the report as a page, its figures as JSON, and a plot of each GPU."""
    made, plots = {"validation.json": to_json(document).encode()}, []
    for at, case in enumerate(found, 1):
        name = f"{at}_{case.gpu.name}_{case.measured.number_format}".replace(":", "_")
        about = f"{case.gpu.name}, {case.measured.number_format}, {case.mode}"
        plots.append(f"![{about}]({name}.svg)")
        pair = {"": (case.measured.time_us, case.predicted_us)}
        made |= figure_files(name, plot_measured(about, pair, "us"))
    text = page_text(gemm_report(found, skipped))
    page = "\n".join(["# Predicted beside measured times of matrix products", "", *plots, "", text])
    return {"validation.md": page.encode(), **made}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the tables named."""
    parser = argparse.ArgumentParser(prog="python -m validation gemm", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="+", metavar="MEASURED", help="CSV with the columns M, N, K, dtype, time_us")
    parser.add_argument("--gpu", help="the GPU that was measured (default: what the table says)")
    parser.add_argument("--mig", metavar="PROFILE", help="a MIG slice of the GPU, such as 1g.10gb")
    what = "constants that `accelsim gpu calibrate` fitted, or `shipped` (default: uncalibrated)"
    parser.add_argument("--calibration", metavar="FILE", help=what)
    what = "number format of the rows of which the table does not say it by a name that is known"
    parser.add_argument("--dtype", metavar="FORMAT", type=cli.number_format, help=what)
    what = "what L2 held where the column l2 does not say it (default: rotating)"
    parser.add_argument("--l2", choices=L2_STATES, default=ROTATING, help=what)
    parser.add_argument("-o", "--output", metavar="DIR", help="write the report, JSON and plots there")

    def compare(parsed: argparse.Namespace) -> Answer:
        about = cli.taken(parsed, "gpu", "mig", "calibration", "l2")
        found, skipped = validate_gemm(parsed.paths, number_format=parsed.dtype, **about)
        document = gemm_json(found, skipped)
        return Answer(document, lambda: gemm_report(found, skipped), lambda: _files(found, skipped, document))

    return run_alone(parser, arguments, compare)[0]
