"""Predicted beside measured times of matrix products, by GPU and by what a fit could know of them.

Fit the constants that all GPUs share, to several GPUs together, or to all families of GPUs but one.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike

import numpy as np

from accelsim.gpu import ROTATING
from accelsim.gpu.calibration import Mode, errors_by_split, fit_positive, mode_of
from accelsim.gpu.catalogue import find_gpu, gpu_hint, load_gpu
from accelsim.gpu.constants import BOUNDS, COMMON, Constants, Floats
from accelsim.gpu.errors import DOUBT, LARGE_FLOP, Errors, errors_of, far_off
from accelsim.gpu.gemm import time_gemms
from accelsim.gpu.machine import Gpu, no_format
from accelsim.gpu.measured import Measured, read_measured, split_rows
from accelsim.gpu.tiling import compute_class
from accelsim.inputs.errors import AccelsimError, Problem, SpecError
from accelsim.inputs.units import quoted

Table = tuple[Gpu, Measured]
PRIORS = {
    "launch_us": 1.5, "latency_us": 0.7, "tensor_efficiency": 0.9, "dram_efficiency": 0.88,
    "reduction_us": 2.7, "reduction_traffic": 1.0, "in_flight_bytes": 1e5, "overlap": 0.12, "round_us": 0.2,
    "l2_share": 0.7, "weight_copies": 6.0, "residency": 0.6, "residency_sharpness": 2.5, "throttle_us": 1000.0,
    "store_efficiency": 0.6, "gemv_us": 0.8, "gemv_slice_us": 0.3,
    "async smem_cost": 0.7, "mma smem_cost": 1.25, "async l2_loads": 0.5, "mma l2_loads": 1.0,
    "async pj_per_flop": 0.66, "mma pj_per_flop": 1.35,
}  # fmt: skip
"""What is expected of each constant, before measurements; those with a kind (`async`, `mma`) hold for it alone."""
_RANGES = {
    **BOUNDS,
    "smem_cost": (0.3, 4.0),
    "tensor_efficiency": (0.2, 1.0),
    "reduction_us": (0.1, 8.0),
    "reduction_traffic": (0.25, 10.0),
    "in_flight_bytes": (16e3, 200e3),
    "store_efficiency": (0.05, 4.0),
    "l2_loads": (0.3, 1.5),
    "l2_share": (0.05, 1.5),
    "weight_copies": (1.0, 40.0),
    "residency": (0.2, 5.0),
    "residency_sharpness": (0.5, 6.0),
    "throttle_us": (30.0, 1500.0),
    "gemv_us": (0.02, 2.0),
    "gemv_slice_us": (0.02, 3.0),
}
_WEIGHT = {"smem_cost": 6.0, "throttle_us": 6.0}
"""Weight of a prior, of a residual's. Shared memory's cost could else stand in for any slowness of small tiles, and an
early throttle for any slowness of long kernels; the largest products, which show it best, are held out."""
_USUAL_WEIGHT = 1.2
ROWS = 300


def family(gpu: Gpu) -> str:
    """Family of a GPU: its generation, and within it those whose tensor cores work alike."""
    return f"{gpu.generation} {gpu.compute_capability[0]}"


def sample(table: Measured, rows: int = ROWS) -> Measured:
    """Some of the rows that may be fitted: for each power of ten of operations as many, chosen by a hash."""
    g = table.gemms
    decades = np.clip(np.floor(np.log10(g.flops)), 4, 13).astype(int)
    groups: dict[int, list[int]] = {}
    for i in np.flatnonzero(split_rows(g).fit).tolist():
        groups.setdefault(int(decades[i]), []).append(i)
    chosen = np.zeros(len(table), dtype=bool)
    for members in groups.values():
        members.sort(key=lambda i: zlib.crc32(f"{g.m[i]:.0f} {g.n[i]:.0f} {g.k[i]:.0f}".encode()))
        chosen[members[: -(-rows // len(groups))]] = True
    return table.rows(chosen)


def constants_of(values: Mapping[str, float], kind: str) -> Constants:
    """Constants of a kind of kernels out of fitted values."""
    own = {}
    for name, value in values.items():
        only, _, plain = name.rpartition(" ")
        if only in ("", kind):
            own[plain] = value
    return COMMON[kind].with_values(own)


def fit_common(tables: Sequence[Table], *, iterations: int = 30) -> dict[str, float]:
    """Fit the common constants to several GPUs, each family with equal weight, each constant near its prior.

    Only rows that `split_rows` leaves for fitting are used, some hundred of each GPU. A constant of a kind of kernels
    that none of the GPUs has stays at its prior.

    Returns
    -------
    dict of str to float
        By the names of `PRIORS`.
    """
    samples = [(gpu, sample(table)) for gpu, table in tables]
    sizes = {family(gpu): sum(family(other) == family(gpu) for other, _ in samples) for gpu, _ in samples}

    def residuals(values: Mapping[str, float]) -> Floats:
        found = []
        for gpu, table in samples:
            constants = constants_of(values, compute_class(gpu, table.number_format))
            times = time_gemms(gpu, table.gemms, table.number_format, constants, l2=table.l2).time_us
            found.append(np.log(times / table.time_us) / np.sqrt(sizes[family(gpu)]))
        prior = [
            _WEIGHT.get(name.rpartition(" ")[2], _USUAL_WEIGHT) * np.log(values[name] / expected)
            for name, expected in PRIORS.items()
        ]
        return np.concatenate([*found, np.array(prior)])

    ranges = {name: _RANGES[name.rpartition(" ")[2]] for name in PRIORS}
    return fit_positive(residuals, PRIORS, ranges, iterations=iterations)


KINDS = ("async", "mma")
"""Kinds of kernels whose common constants are fitted."""
_OVER_PEAK = 1.3
"""How far boards run above the boost clock of their data sheet, and more."""
_SHORT_US, _LEAST_SHORT, _LEAST_GAP_US = 30.0, 4, 2.0


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
    leave_out: bool = False,
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
    mig : str, optional
    calibration : str or path, optional
        `shipped`, or a file; without one the model is uncalibrated.
    number_format : str, optional
        Of rows whose format the tables do not say, or not by a name that is known.
    leave_out : bool
        Predict each GPU also with constants that are fitted to the other families of GPUs in the tables.
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
        found.append(_validated(machine, table, mode))
        if leave_out:
            left = _without_family(machine, table.number_format, known)
            if left is None:
                kind = compute_class(machine, table.number_format)
                skipped.append(Problem(table.where, f"{machine.name}: no other family of GPUs with {kind} kernels"))
            else:
                found.append(_validated(machine, table, left, "family left out"))
    if not found:
        raise SpecError(skipped)
    return found, [str(problem) for problem in skipped]


def _of_known_gpus(
    tables: Sequence[Measured], gpu: str | None, mig: str | None
) -> tuple[list[tuple[Gpu, Measured]], list[Problem]]:
    """Tables whose GPU and number format are known, and why others are not compared.

    With a GPU that the user names, those of other GPUs are left out, unless no other table is there.
    """
    named = load_gpu(gpu, mig) if gpu else None
    some_may_be = named is not None and any(_may_be(named, table) for table in tables)
    known, skipped = [], []
    for table in tables:
        told = find_gpu(table.device)
        machine = named or told
        rows = _rows(table)
        if machine is None:
            skipped.append(_unknown(table))
        elif some_may_be and not _may_be(machine, table):
            hint = "leave --gpu out to compare each GPU with itself"
            skipped.append(Problem(table.where, f"{rows} of {quoted(table.device)}, not of {machine.name}", hint))
        elif table.number_format not in machine.operations_per_sm_cycle:
            skipped.append(Problem(table.where, f"{rows} of {no_format(machine, table.number_format)}"))
        else:
            notes = [table.note] if table.note else []
            if not _may_be(machine, table):
                notes.append(f"{table.where}: {table.device} is predicted as {machine.name}, as --gpu says")
            known.append((machine, replace(table, note="; ".join(notes))))
    if not known:
        raise SpecError(skipped)
    return known, skipped


def _unknown(table: Measured) -> Problem:
    """Say that nobody knows which GPU was measured."""
    if not table.device:
        return Problem(table.where, f"{_rows(table)} of no device", "say --gpu NAME, or add a column device")
    hint = f"say --gpu NAME; {gpu_hint(table.device)}"
    return Problem(table.where, f"{_rows(table)}: no GPU {quoted(table.device)} ships", hint)


def _rows(table: Measured) -> str:
    return f"{len(table)} row{'s' if len(table) > 1 else ''}"


def _may_be(gpu: Gpu, table: Measured) -> bool:
    """Whether a table's device is this GPU or a slice of it, or none that is known."""
    told = find_gpu(table.device)
    return told is None or told.name == gpu.name.partition(":")[0]


def _validated(gpu: Gpu, measured: Measured, mode: Mode, name: str | None = None) -> GemmValidation:
    split = split_rows(measured.gemms)
    predicted = time_gemms(gpu, measured.gemms, measured.number_format, mode.constants, l2=measured.l2).time_us
    errors, held = errors_by_split(gpu, measured, split, mode.constants)
    errors = {"all": errors_of(predicted, measured.time_us, measured.gemms.flops), **errors}
    low, high = mode.interval
    inside = float(np.mean((held >= low) & (held <= high))) if len(held) else float("nan")
    steps = _steps(measured, predicted, 0.0)
    large = _steps(measured, predicted, LARGE_FLOP)
    if name:
        about = f"{name}: common constants fitted to other families of GPUs, not to {family(gpu)}"
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
