"""Predicted beside measured times of matrix products, by GPU and by what a fit could know of them; and beside profiles.

Profiles are exports of Nsight Systems and Nsight Compute, and plain tables of matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from os import PathLike

import numpy as np

from accelsim.gpu import ROTATING
from accelsim.gpu.calibration import DOUBT, LEAST_ROWS, Errors, Mode, errors_by_split, errors_of, far_off, mode_of
from accelsim.gpu.catalogue import BYTES, Gpu, find_gpu, gpu_hint, load_gpu, may_be, no_format
from accelsim.gpu.constants import Floats
from accelsim.gpu.fitted import OperatorKind, Rows, Shapes, family, one_variant
from accelsim.gpu.gemm import Setup, result_bytes, time_gemms
from accelsim.gpu.kernel_tables import baselines, joined
from accelsim.gpu.measured import MeasuredGemms, read_measured, split_rows
from accelsim.inputs.errors import AccelsimError, Problem, SpecError
from accelsim.inputs.units import quoted

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
    # of the rows that are held out: of ours and of what three constants of a roofline say, and the nearest row
    baselines: dict[str, Errors]

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
    SpecError
        With every mistake in a table and its place, or why nothing can be compared.
    """
    tables = [table for path in paths for table in read_measured(path, number_format=number_format, l2=l2)]
    known, skipped = _of_known_gpus(tables, gpu, mig)
    found = []
    for machine, table in known:
        try:
            mode = mode_of(machine, table.number_format, calibration)
        except SpecError:
            raise
        except AccelsimError as error:
            skipped.append(Problem(table.where, f"{_rows(table)}: {error}"))
            continue
        found.append(_validated(machine, table, mode, _baselines(machine, table, known)))
    if not found:
        raise SpecError(skipped)
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
        raise SpecError(skipped)
    return known, skipped


def _rows(table: MeasuredGemms) -> str:
    return f"{len(table)} row{'s' if len(table) > 1 else ''}"


LEFT_OUT = ", left out"


def _baselines(gpu: Gpu, measured: MeasuredGemms, tables: Sequence[tuple[Gpu, MeasuredGemms]]) -> dict[str, Floats]:
    """Times of the rows that are held out by a roofline of three constants and by the nearest row [us].

    Both know the other rows of the table, or those of other families of GPUs in the same format, where there are any.
    Without SciPy, or with few rows, there are none.
    """
    if find_spec("scipy") is None:
        return {}
    name = measured.number_format
    kind = OperatorKind("products", lambda *_: {}, partial(_least, name), one_variant)
    own = _rows_of(gpu, measured)
    others = [_rows_of(*each) for each in tables if each[1].number_format == name and family(each[0]) != family(gpu)]
    tested, found = own.take(own.held), dict[str, Floats]()
    for about, known in ((LEFT_OUT, others), ("", [own])):
        rows = joined(known) if known else own
        rows = rows.take(~rows.held)
        if known and len(rows) >= LEAST_ROWS and len(tested):
            bars = baselines(kind, rows, tested)
            found |= {f"roofline{about}": bars["roofline"], f"nearest row{about}": bars["nearest"]}
    return found


def _least(number_format: str, gpu: Gpu, shapes: Shapes) -> tuple[Floats, Floats]:
    """Time of operations at the peak, and of bytes at the bandwidth [us]."""
    m, n, k, batch = (shapes[name] for name in ("m", "n", "k", "batch"))
    moved = batch * ((m * k + n * k) * BYTES[number_format] + m * n * result_bytes(number_format))
    return 2 * m * n * k * batch / (gpu.flops(number_format) * 1e-6), moved / (gpu.dram_bytes_per_s * 1e-6)


def _rows_of(gpu: Gpu, measured: MeasuredGemms) -> Rows:
    g = measured.gemms
    shapes = {"m": g.m, "n": g.n, "k": g.k, "batch": g.batch}
    at = np.zeros(len(measured), dtype=np.int64)
    return Rows((gpu,), at, np.full(len(at), ""), shapes, measured.time_us, ~split_rows(g).fit)


def _validated(gpu: Gpu, measured: MeasuredGemms, mode: Mode, others: dict[str, Floats]) -> GemmValidation:
    predicted = time_gemms(gpu, measured.gemms, measured.number_format, mode.constants, Setup(measured.l2)).time_us
    errors = {"all": errors_of(predicted, measured.time_us, measured.gemms.flops)}
    held = measured.time_us / predicted
    if mode.calibration is not None and mode.calibration.is_of(measured):
        parts, held = errors_by_split(measured, predicted)
        errors |= parts
    inside = math.nan
    if mode.interval is not None and len(held):
        low, high = mode.interval
        inside = float(np.mean((held >= low) & (held <= high)))
    name = "calibrated" if mode.calibration else "uncalibrated"
    kept = ~split_rows(measured.gemms).fit
    times, flops = measured.time_us[kept], measured.gemms.flops[kept]
    compared = {"ours": predicted[kept], **others} if others else {}
    baselines = {method: errors_of(of, times, flops) for method, of in compared.items()}
    return GemmValidation(gpu, measured, name, mode.text, errors, inside, predicted, baselines)
