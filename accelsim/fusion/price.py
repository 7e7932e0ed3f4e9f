"""What is made small: energy and cycles, each at a price; and what decides between equals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from accelsim.model.result import Result

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
