"""How far predictions are from measurements."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from accelsim.gpu.constants import Floats

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
        """Read what `as_row` made.

        Raises
        ------
        TypeError
            If the names are others.
        """
        return cls(**{name: math.nan if value is None else value for name, value in row.items()})  # type: ignore[arg-type]


def errors_of(predicted: Floats, measured: Floats, flops: Floats) -> Errors:
    """Sum up errors relative to what was measured; NaN where there is nothing to sum up.

    Examples
    --------
    >>> found = errors_of(np.array([1.1, 1.8, 3.0]), np.array([1.0, 2.0, 3.0]), np.array([1e6, 1e12, 1e9]))
    >>> round(found.median, 3), round(found.mean, 3), round(found.large_median, 3), found.spearman
    (0.1, 0.067, 0.1, 1.0)
    """
    if not len(measured):
        nothing = float("nan")
        return Errors(0, nothing, nothing, nothing, 0, nothing, nothing)
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
    if len(left) < 2:
        return float("nan")
    ranks = [_ranks(values) for values in (left, right)]
    spread = [float(np.std(rank)) for rank in ranks]
    if min(spread) == 0:
        return float("nan")
    return float(np.mean((ranks[0] - ranks[0].mean()) * (ranks[1] - ranks[1].mean())) / (spread[0] * spread[1]))


def _ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2)[inverse]
    return ranks
