"""What designs are judged by: totals over the networks, objectives, domination and the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from accelsim.explore.machines import Bound, Machine
from accelsim.explore.sweep import Sweep
from accelsim.inputs.errors import AccelsimError

Point = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class DesignTotals:
    """Sums over all networks, layers times their repeats and networks times their weights.

    `time_s` and `power_w` are None without a clock, `area_um2` where the architecture does not tell it.
    """

    energy_pj: float
    cycles: float
    time_s: float | None
    power_w: float | None
    area_um2: float | None

    def objective(self, name: str) -> float:
        """Value of an objective.

        Raises
        ------
        AccelsimError
            If the machine does not tell it.
        """
        if name == "edp":
            return self.energy_pj * self.cycles
        value = {
            "energy": self.energy_pj, "cycles": self.cycles, "time": self.time_s, "power": self.power_w,
            "area": self.area_um2,
        }[name]  # fmt: skip
        if value is None:
            missing = (
                "area; write `area: …`, a formula of the parameters"
                if name == "area"
                else f"clock, and {name} needs one"
            )
            raise AccelsimError(f"the architecture tells no {missing}")
        return value


def total(weights: Sequence[float], machine: Machine, costs: Sequence[Bound]) -> DesignTotals:
    """Add up the costs of all layers, each as often as it counts."""
    energy = math.fsum(weight * cost.energy_pj for weight, cost in zip(weights, costs, strict=True))
    cycles = math.fsum(weight * cost.cycles for weight, cost in zip(weights, costs, strict=True))
    clock = machine.architecture.clock_hz
    time = None if clock is None else cycles / clock
    power = energy * 1e-12 / time if time else None
    return DesignTotals(energy, cycles, time, power, machine.area_um2)


def point(sweep: Sweep, totals: DesignTotals) -> Point:
    """Objectives of a design in their order."""
    return tuple(totals.objective(name) for name in sweep.objectives)


def dominates(one: Point, other: Point) -> bool:
    """Whether a point is nowhere worse than another one and somewhere better.

    Examples
    --------
    >>> dominates((1.0, 2.0), (1.0, 3.0)), dominates((1.0, 2.0), (1.0, 2.0)), dominates((1.0, 2.0), (0.5, 3.0))
    (True, False, False)
    """
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def front(points: Mapping[int, Point]) -> frozenset[int]:
    """Names of the points that none dominates; of equal points all.

    Examples
    --------
    >>> sorted(front({1: (1.0, 2.0), 2: (2.0, 1.0), 3: (2.0, 2.0), 4: (1.0, 2.0)}))
    [1, 2, 4]
    """
    kept: list[tuple[Point, int]] = []
    for name, found in sorted(points.items(), key=lambda item: (item[1], item[0])):
        if not any(dominates(other, found) for other, _ in kept):
            kept.append((found, name))  # in this order no later point dominates an earlier one
    return frozenset(name for _, name in kept)


def beaten(bound: Point, finished: Iterable[Point]) -> bool:
    """Whether a finished design dominates all that a bound allows."""
    return any(dominates(point, bound) for point in finished)
