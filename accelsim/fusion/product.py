"""The least product of powers of two sums, such as the EDP of a network: energy and cycles of its layers, added up.

A product energy^a * cycles^b is quasi-concave: over any convex set it is least at a corner. So the least product of all
that a network can take lies at a corner of the convex hull of these points, and each corner is the least sum of energy
and cycles at some price of a cycle, which adds up over layers. Each price that was solved gives a point, and a line
that no point lies below; the least product at a corner of what all lines leave is a bound, and it says which price to
ask for next.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from accelsim.fusion.price import CYCLES, ENERGY, Price
from accelsim.inputs.objective import Objective

T = TypeVar("T")
SAME = 1e-10
"""Relative difference up to which values are equal."""


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """What costs least at a price: energy [pJ] and cycles, the least that anything costs there, and how it is had."""

    price: Price
    energy_pj: float
    cycles: int
    bound: float
    what: T


def least_product(
    goal: Objective, solve: Callable[[Price], Found[T]], late: Callable[[], bool]
) -> tuple[Found[T], float]:
    """Find the least energy^a * cycles^b of all points, given the cheapest one for any price.

    Parameters
    ----------
    goal : Objective
        With powers above 0.
    solve : callable
        The point that costs least at a price, and a bound of what one costs.
    late : callable
        Whether to end with what is there.

    Returns
    -------
    found : Found
        The best point.
    bound : float
        No point has a smaller product; that of the best point, where it is proved.

    Examples
    --------
    Of (1, 10), (3, 3) and (10, 1) the second is on the way from the first to the third:

    >>> def cheapest(price):
    ...     points = [(1.0, 10), (3.0, 3), (10.0, 1)]
    ...     energy, cycles = min(points, key=lambda point: price.value(*point))
    ...     return Found(price, energy, cycles, price.value(energy, cycles)[0], None)
    >>> found, bound = least_product(Objective.parse("edp"), cheapest, lambda: False)
    >>> (found.energy_pj, found.cycles), bound
    ((3.0, 3), 9.0)
    """
    several = [solve(ENERGY), solve(CYCLES)]
    while True:
        best = min(several, key=lambda found: (goal.value(found.energy_pj, found.cycles), found.energy_pj))
        value = goal.value(best.energy_pj, best.cycles)
        corner, one, other = min(_corners(goal, several), key=lambda each: each[0])
        if corner >= value * (1 - SAME):
            return best, value
        price = _between(one, other)
        if price is None or late() or price in [found.price for found in several]:
            return best, corner
        several.append(solve(price))


def _between(one: Found[T], other: Found[T]) -> Price | None:
    """Price at which two points cost the same; None where one of them is better in both."""
    energy, cycles = other.energy_pj - one.energy_pj, one.cycles - other.cycles
    return Price(1.0, energy / cycles) if energy * cycles > 0 else None


def _corners(goal: Objective, several: list[Found[T]]) -> list[tuple[float, Found[T], Found[T]]]:
    """Product at each corner of what all lines leave, with the two whose lines meet there."""
    found = []
    for one, other in itertools.combinations(several, 2):
        det = one.price.energy * other.price.cycles - other.price.energy * one.price.cycles
        if det == 0:
            continue
        energy = (one.bound * other.price.cycles - other.bound * one.price.cycles) / det
        cycles = (one.price.energy * other.bound - other.price.energy * one.bound) / det
        below = (
            each.bound * (1 - SAME) - each.price.energy * energy - each.price.cycles * cycles
            for each in several
            if each is not one and each is not other
        )
        if energy >= 0 and cycles >= 0 and max(below, default=-math.inf) <= 0:
            found.append((goal.value(energy, cycles), one, other))
    return found
