"""Predicted beside measured times of matrix products, by GPU and by what a fit could know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import numpy as np

from accelsim.errors import AccelsimError
from accelsim.gpu.calibration import Mode, errors_by_split, mode_of
from accelsim.gpu.catalogue import find_gpu, load_gpu
from accelsim.gpu.common_fit import constants_of, family, fit_common
from accelsim.gpu.errors import LARGE_FLOP, Errors, errors_of
from accelsim.gpu.fit import Floats
from accelsim.gpu.gemm import time_gemms
from accelsim.gpu.machine import Gpu
from accelsim.gpu.measured import Measured, read_measured, split_rows
from accelsim.gpu.tiling import compute_class

KINDS = ("async", "mma")
"""Kinds of kernels whose common constants are fitted."""


@dataclass(frozen=True, slots=True)
class GemmValidation:
    """One GPU and number format of a table, predicted.

    Attributes
    ----------
    gpu : Gpu
    measured : Measured
    mode : str
        `uncalibrated`, `calibrated`, or `family left out`.
    about : str
        The mode in a sentence.
    errors : dict of str to Errors
        Of all rows, and of the parts `fit`, `interpolation` and `extrapolation`.
    inside : float
        Share of the held-out rows whose measured time lies in the predicted interval.
    predicted_us : float[rows]
    step_rows : int
        Pairs of rows that differ by one in M, such as 256 and 257.
    step_correlation : float
        Correlation of measured and predicted ratios of their times; NaN below three pairs.
    large_step_rows, large_step_correlation : int, float
        Those from `LARGE_FLOP` on, where tiles and waves outweigh the noise of a measurement.
    """

    gpu: Gpu
    measured: Measured
    mode: str
    about: str
    errors: dict[str, Errors]
    inside: float
    predicted_us: Floats
    step_rows: int
    step_correlation: float
    large_step_rows: int
    large_step_correlation: float


def validate_gemm(
    paths: Sequence[str | PathLike[str]],
    *,
    gpu: str | None = None,
    mig: str | None = None,
    calibration: str | PathLike[str] | None = None,
    number_format: str | None = None,
    leave_out: bool = False,
) -> tuple[list[GemmValidation], list[str]]:
    """Hold predictions against tables of measured products.

    Parameters
    ----------
    paths : sequence of path
        CSV files as `read_measured` takes them.
    gpu : str, optional
        The GPU that was measured; by default what the column `device` says.
    mig : str, optional
    calibration : str or path, optional
        `shipped`, or a file; without one the model is uncalibrated.
    number_format : str, optional
        Where the tables have no column of formats.
    leave_out : bool
        Predict each GPU also with constants that are fitted to the other families of GPUs in the tables.

    Returns
    -------
    list of GemmValidation
        By GPU and format, in the order of the tables.
    list of str
        What was not compared, and why.

    Raises
    ------
    AccelsimError
        If nothing can be compared.
    """
    tables = [table for path in paths for table in read_measured(path, number_format=number_format)]
    known: list[tuple[Gpu, Measured]] = []
    skipped = []
    for table in tables:
        machine = load_gpu(gpu, mig) if gpu else find_gpu(table.device)
        if machine is None:
            skipped.append(
                f"{table.device or 'rows without a device'}: {len(table)} rows: which GPU is that? say --gpu NAME"
            )
        elif table.number_format not in machine.operations_per_sm_cycle:
            skipped.append(f"{machine.name}: {len(table)} rows: does not compute in {table.number_format}")
        else:
            known.append((machine, table))
    if not known:
        raise AccelsimError("nothing to compare: " + "; ".join(skipped))
    found = []
    for machine, table in known:
        found.append(_validated(machine, table, mode_of(machine, table.number_format, calibration)))
        if leave_out:
            left = _without_family(machine, table.number_format, known)
            if left is None:
                kind = compute_class(machine, table.number_format)
                skipped.append(f"{machine.name}: no other family of GPUs with {kind} kernels")
            else:
                found.append(_validated(machine, table, left, "family left out"))
    return found, skipped


def _validated(gpu: Gpu, measured: Measured, mode: Mode, name: str | None = None) -> GemmValidation:
    split = split_rows(measured.gemms)
    predicted = time_gemms(gpu, measured.gemms, measured.number_format, mode.constants).time_us
    errors, held = errors_by_split(gpu, measured, split, mode.constants)
    errors = {"all": errors_of(predicted, measured.time_us, measured.gemms.flops), **errors}
    low, high = mode.interval
    inside = float(np.mean((held >= low) & (held <= high))) if len(held) else float("nan")
    steps = _steps(measured, predicted, 0.0)
    large = _steps(measured, predicted, LARGE_FLOP)
    if name:
        about = f"common constants fitted to other families of GPUs, not to {family(gpu)}"
    else:
        name, about = ("calibrated" if mode.calibration else "uncalibrated"), mode.text
    return GemmValidation(gpu, measured, name, about, errors, inside, predicted, *steps, *large)


def _steps(measured: Measured, predicted: Floats, least_flop: float) -> tuple[int, float]:
    """Correlation of the ratios of rows that differ by one in M from 64 on, where tiles and waves step."""
    g = measured.gemms
    sizes = zip(g.m, g.n, g.k, g.batch, strict=True)
    index = {key: i for i, key in enumerate(sizes)}
    pairs = [(i, index.get((m + 1, n, k, b))) for (m, n, k, b), i in index.items() if m >= 64]
    both = np.array([(i, j) for i, j in pairs if j is not None], dtype=np.int64).reshape(-1, 2)
    both = both[g.flops[both[:, 0]] >= least_flop]
    if len(both) < 3:
        return len(both), float("nan")
    ours = predicted[both[:, 1]] / predicted[both[:, 0]]
    theirs = measured.time_us[both[:, 1]] / measured.time_us[both[:, 0]]
    if np.std(ours) == 0 or np.std(theirs) == 0:
        return len(both), float("nan")
    return len(both), float(np.corrcoef(ours, theirs)[0, 1])


def _without_family(gpu: Gpu, number_format: str, known: Sequence[tuple[Gpu, Measured]]) -> Mode | None:
    """Mode whose common constants are fitted to the GPUs of other families; None without one of the same kind."""
    kind = compute_class(gpu, number_format)
    others = [(other, table) for other, table in known if family(other) != family(gpu)]
    others = [(other, table) for other, table in others if compute_class(other, table.number_format) in KINDS]
    if kind not in {compute_class(other, table.number_format) for other, table in others}:
        return None
    return Mode(constants_of(fit_common(others), kind), mode_of(gpu, number_format).interval)
