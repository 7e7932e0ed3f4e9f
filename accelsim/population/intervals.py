"""Confidence intervals of weighted counts."""

from __future__ import annotations

import math
from statistics import NormalDist

from accelsim.model.encode import Floats, Ints
from accelsim.population.result import Interval

_WIDE = 200.0
"""Shape of a gamma distribution from which on its cube root is as good as normal."""


def weighted_share(hits: Ints, weight: Floats, largest: float, error: float = 0.05) -> Interval:
    """Sum of rare counts, each with its weight, and the confidence interval of its expectation.

    The gamma interval of Fay and Feuer (Statistics in Medicine 16, 1997, pages 791-801) for a weighted sum of Poisson
    counts; binomial ones vary less. It covers at least as often as it says, also where nothing was hit.

    Parameters
    ----------
    hits : int64[H]
        Counts.
    weight : float64[H]
        What one of each counts.
    largest : float
        The largest weight of those that may be hit.
    error : float
        How often the interval may miss.
    """
    total, variance = float((hits * weight).sum()), float((hits * weight**2).sum())
    low = variance / total * gamma_quantile(total**2 / variance, error / 2) if total > 0 else 0.0
    above, spread = total + largest, variance + largest**2
    high = spread / above * gamma_quantile(above**2 / spread, 1 - error / 2) if above > 0 else 0.0
    return Interval(total, low, high)


def gamma_quantile(shape: float, share: float) -> float:
    """What a gamma distributed number of scale 1 does not exceed with some probability.

    Examples
    --------
    >>> round(gamma_quantile(1.0, 0.975), 6), round(gamma_quantile(1e4, 0.025), 1)
    (3.688879, 9805.0)
    """
    if shape > _WIDE:  # Wilson and Hilferty, Proceedings of the National Academy of Sciences 17, 1931, pages 684-688
        return shape * (1 - 1 / (9 * shape) + NormalDist().inv_cdf(share) / (3 * math.sqrt(shape))) ** 3
    low, high = 0.0, 1.0
    while _gamma_share(shape, high) < share:
        high *= 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _gamma_share(shape, middle) < share else (low, middle)
    return high


def _gamma_share(shape: float, x: float) -> float:
    """Probability to be at most x: the regularized lower incomplete gamma function, by its series."""
    term = total = 1 / shape
    k = 0
    while term > 1e-17 * total:
        k += 1
        term *= x / (shape + k)
        total += term
    return min(1.0, math.exp(shape * math.log(x) - x - math.lgamma(shape)) * total) if x > 0 else 0.0
