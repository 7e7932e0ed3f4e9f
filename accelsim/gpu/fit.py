"""Least squares for a few positive constants: SciPy's on their logarithms, outliers weighing less."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from accelsim.gpu.arrays import Floats
from accelsim.inputs.errors import AccelsimError

OUTLIER = 0.1
"""Residual from which on it counts linearly rather than squared (soft L1)."""
NO_SCIPY = "scipy is not installed, and fitting needs it; `pip install 'accelsim[calibrate]'`"
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

    Parameters
    ----------
    residuals : callable
        Residuals of some constants, such as `log(predicted / measured)`.
    start : mapping of str to float
        Where to begin.
    bounds : mapping of str to (float, float)
        Range of each, above 0.
    iterations : int
        Evaluations of each method at most, beside those for differences; it ends earlier where a step gains less than
        1e-5 of the cost.

    Returns
    -------
    dict of str to float

    Raises
    ------
    AccelsimError
        If SciPy is not installed.

    Notes
    -----
    `scipy.optimize.least_squares` with soft L1 as its loss, by both of its methods that know bounds, of which the
    better result counts: as many constants end at a bound, now one and now the other stops early. Slopes are
    differences over 2 %, as the fastest tiling changes with the constants.

    Examples
    --------
    >>> x = np.arange(1.0, 9.0)
    >>> def residuals(c):
    ...     return np.log((c["a"] + c["b"] * x) / (2.0 + 0.5 * x))
    >>> found = fit_positive(residuals, {"a": 1.0, "b": 1.0}, {"a": (0.1, 10.0), "b": (0.1, 10.0)})
    >>> {name: round(value, 3) for name, value in found.items()}
    {'a': 2.0, 'b': 0.5}
    """
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise AccelsimError(NO_SCIPY) from None
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
