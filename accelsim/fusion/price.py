"""What is made small: energy and cycles, each at a price; and the least product of powers of both, such as an EDP.

A product energy^a * cycles^b is quasi-concave: over any convex set it is least at a corner. So the least product of all
that a network can take lies at a corner of the convex hull of these points, and each corner is the least sum of energy
and cycles at some price of a cycle, which adds up over layers. Each price that was solved gives a point, and a line
that no point lies below; the least product at a corner of what all lines leave is a bound, and it says which price to
ask for next.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from accelsim.inputs.objective import Objective
from accelsim.model.result import Result

T = TypeVar("T")
SAME = 1e-10
"""Relative difference up to which values are equal."""

Value = tuple[float, float]
"""What is made small, and what decides between equals."""
NOTHING: Value = (math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Price:
    """What a pJ and a cycle cost; none is below 0, and one is above.

    Sums over layers and parts are least where each of them is, whatever the prices are.

    Examples
    --------
    >>> ENERGY.value(7.0, 5), CYCLES.value(7.0, 5), Price(1.0, 2.0).value(7.0, 5)
    ((7.0, 5.0), (5.0, 7.0), (17.0, 7.0))
    """

    energy: float
    cycles: float

    @property
    def mixed(self) -> bool:
        """Whether both cost something, so that what is best is a point of a front."""
        return self.energy > 0 and self.cycles > 0

    def value(self, energy_pj: float, cycles: float) -> Value:
        """What so much energy and so many cycles cost; the less energy, or the fewer cycles, decides between equals."""
        if self.cycles == 0:
            return energy_pj, float(cycles)
        if self.energy == 0:
            return float(cycles), energy_pj
        return self.energy * energy_pj + self.cycles * cycles, energy_pj

    def of(self, result: Result) -> Value:
        """What a mapping costs."""
        return self.value(result.energy_pj, result.cycles)

    def best(self, results: Iterable[Result]) -> Result:
        """The mapping that costs least."""
        return min(results, key=self.of)


ENERGY, CYCLES = Price(1.0, 0.0), Price(0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Optimum(Generic[T]):
    """What costs least at a price: energy [pJ] and cycles, the least that anything costs there, and how it is had."""

    price: Price
    energy_pj: float
    cycles: int
    bound: float
    what: T


def least_product(
    goal: Objective, solve: Callable[[Price], Optimum[T]], late: Callable[[], bool]
) -> tuple[Optimum[T], float]:
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
    found : Optimum
        The best point.
    bound : float
        No point has a smaller product; that of the best point, where it is proved.

    Examples
    --------
    Of (1, 10), (3, 3) and (10, 1) the second is on the way from the first to the third:

    >>> def cheapest(price):
    ...     points = [(1.0, 10), (3.0, 3), (10.0, 1)]
    ...     energy, cycles = min(points, key=lambda point: price.value(*point))
    ...     return Optimum(price, energy, cycles, price.value(energy, cycles)[0], None)
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


def _between(one: Optimum[T], other: Optimum[T]) -> Price | None:
    """Price at which two points cost the same; None where one of them is better in both."""
    energy, cycles = other.energy_pj - one.energy_pj, one.cycles - other.cycles
    return Price(1.0, energy / cycles) if energy * cycles > 0 else None


def _corners(goal: Objective, several: list[Optimum[T]]) -> list[tuple[float, Optimum[T], Optimum[T]]]:
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
