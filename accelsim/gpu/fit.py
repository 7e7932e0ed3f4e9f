"""Least squares for a few positive constants: Levenberg-Marquardt on their logarithms, outliers weighing less."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
OUTLIER = 0.1
"""Residual from which on it counts linearly rather than squared (soft L1)."""
_STEP = 0.02
_DAMPING = (1e-9, 1e6)


def fit_positive(
    residuals: Callable[[Mapping[str, float]], Floats],
    start: Mapping[str, float],
    bounds: Mapping[str, tuple[float, float]],
    *,
    iterations: int = 20,
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
        Steps at most; it ends earlier where a step gains less than 1e-5 of the cost.

    Returns
    -------
    dict of str to float

    Notes
    -----
    The cost is the sum of `2 OUTLIER^2 (sqrt(1 + (r / OUTLIER)^2) - 1)`; a step solves the weighted normal equations.

    Examples
    --------
    >>> x = np.arange(1.0, 9.0)
    >>> def residuals(c):
    ...     return np.log((c["a"] + c["b"] * x) / (2.0 + 0.5 * x))
    >>> found = fit_positive(residuals, {"a": 1.0, "b": 1.0}, {"a": (0.1, 10.0), "b": (0.1, 10.0)})
    >>> {name: round(value, 4) for name, value in found.items()}
    {'a': 2.0, 'b': 0.5}
    """
    names = list(start)
    low, high = (np.log([bounds[name][i] for name in names]) for i in (0, 1))
    at = np.clip(np.log([start[name] for name in names]), low, high)

    def value(point: Floats) -> Floats:
        return residuals(dict(zip(names, np.exp(point).tolist(), strict=True)))

    current = value(at)
    cost, damping = _cost(current), 1e-3
    for _ in range(iterations):
        slope = _slope(value, at, current, high)
        weight = 1 / np.sqrt(1 + (current / OUTLIER) ** 2)
        gradient = slope.T @ (weight * current)
        normal = (slope * weight[:, None]).T @ slope
        gained = 0.0
        while damping < _DAMPING[1]:
            free = ~(((at <= low) & (gradient > 0)) | ((at >= high) & (gradient < 0)))
            step = _solve(normal, gradient, free, damping)
            tried = np.clip(at - step, low, high)
            there = value(tried)
            if _cost(there) < cost:
                gained = (cost - _cost(there)) / cost
                at, current, cost = tried, there, _cost(there)
                damping = max(damping / 5, _DAMPING[0])
                break
            damping *= 4
        if gained < 1e-5:
            break
    return dict(zip(names, np.exp(at).tolist(), strict=True))


def _cost(residual: Floats) -> float:
    return float(np.sum(2 * OUTLIER**2 * (np.sqrt(1 + (residual / OUTLIER) ** 2) - 1)))


def _slope(value: Callable[[Floats], Floats], at: Floats, current: Floats, high: Floats) -> Floats:
    """Jacobian by differences; backwards where a constant stands at its upper bound."""
    columns = []
    for i in range(len(at)):
        step = -_STEP if at[i] + _STEP > high[i] else _STEP
        moved = at.copy()
        moved[i] += step
        columns.append((value(moved) - current) / step)
    return np.stack(columns, axis=1)


def _solve(normal: Floats, gradient: Floats, free: NDArray[np.bool_], damping: float) -> Floats:
    """Damped step in the constants that may move."""
    step = np.zeros_like(gradient)
    if free.any():
        inner = normal[np.ix_(free, free)]
        scale = np.diag(np.maximum(np.diag(inner), 1e-9))
        step[free] = np.linalg.solve(inner + damping * scale, gradient[free])
    return step
