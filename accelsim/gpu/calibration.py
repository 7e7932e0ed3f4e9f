"""Calibrations: the eight constants of a GPU fitted to measured kernels, with their source and their errors.

Least squares for a few positive constants: SciPy's on their logarithms, outliers weighing less. Errors are how far
predictions are from measurements.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from accelsim.gpu.catalogue import Gpu
from accelsim.gpu.constants import (
    CHOICES,
    ONE_ROUND,
    Floats,
    KernelConstants,
    bounds,
    calibrated,
    common_constants,
    compute_class,
)
from accelsim.gpu.gemms import Setup, time_gemms
from accelsim.gpu.measured import MeasuredGemms, split_rows
from accelsim.inputs.errors import AccelsimError, Mark, require
from accelsim.inputs.source import Problems, read_text
from accelsim.inputs.units import near_miss

_FAR_OFF = 5.0
DOUBT = ": is it this GPU and number format, and the unit of the times?"
LARGE_FLOP = 1e11
"""Products from here on are listed by themselves."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of some rows: of the absolute relative error, rank correlation, and the median of predicted / measured.

    What cannot be known, as of no rows, is NaN.
    """

    rows: int
    median: float
    mean: float
    large_median: float
    large_rows: int
    spearman: float
    ratio: float

    def as_row(self) -> dict[str, float | None]:
        """Figures by name; None for NaN, which JSON has not."""
        row = asdict(self)
        return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}

    @classmethod
    def from_row(cls, row: Mapping[str, float | None]) -> Errors:
        """Read what `as_row` made; raises TypeError if the names are others."""
        return cls(**{name: math.nan if value is None else value for name, value in row.items()})  # type: ignore[arg-type]


def errors_of(predicted: Floats, measured: Floats, flops: Floats) -> Errors:
    """Sum up errors relative to what was measured; NaN where there is nothing to sum up.

    >>> found = errors_of(np.array([1.1, 1.8, 3.0]), np.array([1.0, 2.0, 3.0]), np.array([1e6, 1e12, 1e9]))
    >>> round(found.median, 3), round(found.mean, 3), round(found.large_median, 3), found.spearman
    (0.1, 0.067, 0.1, 1.0)
    """
    if not len(measured):
        return Errors(0, math.nan, math.nan, math.nan, 0, math.nan, math.nan)
    error = np.abs(predicted / measured - 1)
    large = flops >= LARGE_FLOP
    return Errors(
        rows=len(measured),
        median=float(np.median(error)),
        mean=float(np.mean(error)),
        large_median=float(np.median(error[large])) if large.any() else float("nan"),
        large_rows=int(large.sum()),
        spearman=_spearman(predicted, measured),
        ratio=float(np.median(predicted / measured)),
    )


def far_off(measured: Floats, predicted: Floats) -> str:
    """Say that half of the times are far from the prediction, as in another unit or on another GPU, or nothing."""
    ratio = float(np.median(measured / predicted))
    if ratio > _FAR_OFF:
        return f"half of the kernels take over {ratio:.3g} times the predicted time{DOUBT}"
    if ratio < 1 / _FAR_OFF:
        return f"half of the kernels take less than {ratio:.2g} of the predicted time{DOUBT}"
    return ""


def _spearman(left: Floats, right: Floats) -> float:
    """Rank correlation, equal values sharing their mean rank."""
    ranks = np.empty((2, len(left)))
    for at, values in enumerate((left, right)):
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        ranks[at] = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1]) if ranks.std(axis=1).all() else math.nan


OUTLIER = 0.1
"""Residual from which on it counts linearly rather than squared (soft L1)."""
_STEP = 0.02
_LEAST_GAIN = 1e-5


def fit_positive(
    residuals: Callable[[Mapping[str, float]], Floats],
    start: Mapping[str, float],
    bounds: Mapping[str, tuple[float, float]],
    *,
    iterations: int = 30,
) -> dict[str, float]:
    """Fit constants so that residuals are small.

    `residuals`: residuals of some constants, such as `log(predicted / measured)`. `start`: where to begin. `bounds`:
    range of each, above 0. `iterations`: evaluations of each method at most, beside those for differences; it ends
    earlier where a step gains less than 1e-5 of the cost. Raises AccelsimError if SciPy is not installed.

    Notes
    -----
    `scipy.optimize.least_squares` with soft L1 as its loss, by both of its methods that know bounds, of which the
    better result counts: as many constants end at a bound, now one and now the other stops early. Slopes are
    differences over 2 %, as the fastest tiling changes with the constants.

    >>> x = np.arange(1.0, 9.0)
    >>> def residuals(c):
    ...     return np.log((c["a"] + c["b"] * x) / (2.0 + 0.5 * x))
    >>> found = fit_positive(residuals, {"a": 1.0, "b": 1.0}, {"a": (0.1, 10.0), "b": (0.1, 10.0)})
    >>> {name: round(value, 3) for name, value in found.items()}
    {'a': 2.0, 'b': 0.5}
    """
    require("scipy.optimize", "fitting needs it", "calibrate")
    from scipy.optimize import least_squares

    names = list(start)
    low, high = (np.log([bounds[name][i] for name in names]) for i in (0, 1))
    inside = np.clip(np.log([start[name] for name in names]), low + 1e-9, high - 1e-9)

    def value(point: Floats) -> Floats:
        return residuals(dict(zip(names, np.exp(point).tolist(), strict=True)))

    def slope(point: Floats) -> Floats:
        """Jacobian by differences; backwards where a constant stands at its upper bound."""
        current, columns = value(point), []
        for i in range(len(point)):
            step = -_STEP if point[i] + _STEP > high[i] else _STEP
            moved = point.copy()
            moved[i] += step
            columns.append((value(moved) - current) / step)
        return np.stack(columns, axis=1)

    found = [
        least_squares(
            value,
            inside,
            slope,
            (low, high),
            method=method,
            ftol=_LEAST_GAIN,
            loss="soft_l1",
            f_scale=OUTLIER,
            max_nfev=iterations,
        )
        for method in ("dogbox", "trf")
    ]
    best = min(found, key=lambda result: float(result.cost))
    return dict(zip(names, np.exp(best.x).tolist(), strict=True))


FOLDER = Path(__file__).with_name("calibrations")
AUTO, SHIPPED, NONE = "auto", "shipped", "none"
"""Words for a calibration: the one that ships if there is one, the one that ships, and none."""
LEAST_ROWS = 40
"""Measured kernels that a fit needs."""
_MOST_ROWS = 3000
_QUANTILES = (0.1, 0.9)
UNCALIBRATED_INTERVAL = (0.79, 1.20)
"""Measured / predicted: four fifths of the rows of a family of GPUs lie here when the common constants are fitted
without that family (validation/reports/gpu.md)."""
_MEASURED_FORMAT = "bf16"
"""Format of these rows."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Constants of one GPU, fitted."""

    gpu: str  # name in the catalogue
    # how operands reach the multiply-adds: `async`, `mma` or `vector`; it holds for number formats of this kind
    kind: str
    number_format: str  # what was measured
    values: dict[str, float]  # by the names of `calibrated` for the kind
    choice: str  # which of `CHOICES` fits better
    interval: tuple[float, float]  # range of measured / predicted of four fifths of the rows that were held out
    errors: dict[str, Errors]  # of the rows that were fitted, of interpolation and of extrapolation
    source: dict[str, str]  # file, its SHA-256, device, and what the user says about it

    @property
    def constants(self) -> KernelConstants:
        """Constants of the model: the common ones, with these in their place."""
        return common_constants(self.kind).with_values(self.values, self.choice)

    def to_json(self) -> str:
        """Text of a calibration file."""
        errors = {name: errors.as_row() for name, errors in self.errors.items()}
        document = {"gpu_calibration": {**asdict(self), "errors": errors}}
        return json.dumps(document, indent=1, sort_keys=False) + "\n"


@dataclass(frozen=True, slots=True)
class Mode:
    """Constants of a prediction, and whether they were fitted to this GPU; never mixed."""

    constants: KernelConstants
    # range of measured / predicted of four fifths of kernels; None in formats in which none were measured
    interval: tuple[float, float] | None
    calibration: Calibration | None = None

    @property
    def text(self) -> str:
        """Say which mode it is."""
        if self.calibration is None:
            return "uncalibrated: data sheet and constants common to all GPUs"
        found = self.calibration
        rows = found.errors["fit"].rows
        fitted = f"{len(found.values)} constants fitted to {rows} measured {found.number_format} kernels"
        rule = "; tiles below the largest only where one round covers the product" if found.choice == ONE_ROUND else ""
        return f"calibrated: {fitted}{rule}"


def mode_of(gpu: Gpu, number_format: str, calibration: str | PathLike[str] | None = None) -> Mode:
    """Constants for a GPU and number format.

    `calibration` is a file that `accelsim gpu calibrate` wrote; `shipped`; or `auto`, which is `shipped` where one
    ships. Without one, or with `none`, the mode is uncalibrated. Raises AccelsimError if no calibration ships for this
    GPU, or the file is of another GPU or kind of format, InputError if the file cannot be read.
    """
    kind, whole = compute_class(gpu, number_format), gpu.name.partition(":")[0]
    path = FOLDER / f"{whole}_{kind}.json"
    if calibration is None or str(calibration) == NONE or (str(calibration) == AUTO and not path.is_file()):
        return Mode(common_constants(kind), UNCALIBRATED_INTERVAL if number_format == _MEASURED_FORMAT else None)
    if str(calibration) in (AUTO, SHIPPED):
        if not path.is_file():
            known = ", ".join(sorted(path.stem for path in FOLDER.glob("*.json")))
            what = f"no calibration of {whole} for {number_format} ships with accelsim"
            raise AccelsimError(f"{what}; there are: {known}")
        found = load_calibration(path)
    elif Path(calibration).exists():
        found = load_calibration(calibration)
    else:
        hint = near_miss(str(calibration), [AUTO, SHIPPED, NONE])
        hint = hint or f"write one with `accelsim gpu calibrate`, or say {SHIPPED}"
        raise AccelsimError(f"{calibration}: no such file; {hint}")
    if (found.gpu, found.kind) != (whole, kind):
        what = f"is of {found.gpu} for {found.kind} kernels (such as {found.number_format})"
        raise AccelsimError(f"{calibration}: {what}, not of {whole} for {kind} kernels (such as {number_format})")
    return Mode(found.constants, found.interval if number_format == found.number_format else None, found)


def calibrate(gpu: Gpu, measured: MeasuredGemms, source: dict[str, str]) -> Calibration:
    """Fit the eight constants of a GPU to measured products, with either way to choose a tiling; keep the better one.

    The rows that `split_rows` holds out, for interpolation and extrapolation, are not looked at until the errors are
    taken. Of more than 3000 rows for fitting, every n-th by size is used.

    Raises AccelsimError if fewer than 40 rows may be fitted.
    """
    kind = compute_class(gpu, measured.number_format)
    which = np.flatnonzero(split_rows(measured.gemms).fit)
    ordered = which[np.argsort(measured.gemms.flops[which], kind="stable")]
    every = max(1, -(-len(which) // _MOST_ROWS))
    fitted = measured.rows(np.isin(np.arange(len(measured)), ordered[::every]))
    if len(fitted) < LEAST_ROWS:
        raise AccelsimError(
            f"{len(fitted)} rows of {gpu.name} in {measured.number_format} may be fitted; {LEAST_ROWS} are needed"
        )
    common = common_constants(kind)

    def residuals(values: Any, choice: str) -> Floats:
        constants = common.with_values(values, choice)
        times = time_gemms(gpu, fitted.gemms, fitted.number_format, constants, Setup(fitted.l2)).time_us
        result: Floats = np.log(times / fitted.time_us)
        return result

    start = {name: getattr(common, name) or math.sqrt(math.prod(bounds()[name])) for name in calibrated(kind)}
    found = []
    for choice in CHOICES:
        exact = fit_positive(partial(residuals, choice=choice), start, bounds())
        values = {name: float(f"{value:.4g}") for name, value in exact.items()}
        found.append((float(np.mean(np.abs(residuals(values, choice)))), choice, values))
    _, choice, values = min(found, key=lambda one: one[0])
    constants = common.with_values(values, choice)
    times = time_gemms(gpu, measured.gemms, measured.number_format, constants, Setup(measured.l2)).time_us
    errors, held = errors_by_split(measured, times)
    low, high = np.quantile(held, _QUANTILES) if len(held) else (np.nan, np.nan)
    interval = (float(f"{low:.3f}"), float(f"{high:.3f}"))
    return Calibration(gpu.name, kind, measured.number_format, values, choice, interval, errors, source)


def errors_by_split(measured: MeasuredGemms, times: Floats) -> tuple[dict[str, Errors], Floats]:
    """Errors of predicted times of each part of a table; and measured / predicted of the rows that are held out."""
    split, flops = split_rows(measured.gemms), measured.gemms.flops
    parts = split._asdict().items()
    found = {name: errors_of(times[which], measured.time_us[which], flops[which]) for name, which in parts}
    held: Floats = (measured.time_us / times)[~split.fit]
    return found, held


def load_calibration(path: str | PathLike[str]) -> Calibration:
    """Read a calibration that `accelsim gpu calibrate` wrote.

    Raises InputError if it cannot be read; says where and why.
    """
    problems = Problems()
    text = read_text(path, problems)
    return problems.result(_read(text, str(path), problems) if text is not None else None)


def _read(text: str, file: str, problems: Problems) -> Calibration | None:
    start = Mark(file, 1, 1)
    try:
        body = json.loads(text)["gpu_calibration"]
        errors = {name: Errors.from_row(values) for name, values in body["errors"].items()}
        values = {name: float(body["values"][name]) for name in calibrated(body["kind"])}
        low, high = map(float, body["interval"])
        if not 0 < low <= high < math.inf:
            raise ValueError(f"interval must be two numbers above 0, the lower one first, got {low:g} and {high:g}")
        header = {name: body[name] for name in ("gpu", "kind", "number_format", "choice", "source")}
        found = Calibration(**header, values=values, interval=(low, high), errors=errors)
        _ = found.constants, found.errors["fit"].rows
    except json.JSONDecodeError as error:
        problems.add(Mark(file, error.lineno, error.colno), f"not JSON: {error.msg}")
    except RecursionError:
        problems.add(start, "not JSON that can be read: nested too deeply")
    except (ValueError, OverflowError) as error:
        problems.add(start, f"not a calibration that `accelsim gpu calibrate` wrote: {error}", "write it anew")
    except (KeyError, TypeError, AttributeError) as error:
        missing = f"{error} is missing" if isinstance(error, KeyError) else "its parts are of other kinds"
        problems.add(start, f"not a calibration that `accelsim gpu calibrate` wrote: {missing}", "write it anew")
    else:
        return found
    return None
