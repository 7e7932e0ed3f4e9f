"""What a component model answers: values with the formula that gave them and its source.

Published energies and areas that come with accelsim, each with its source and how sure it is.

Energy and area of logic at another technology node.

The rule is that of Stillmaker and Baas, "Scaling equations for the accurate prediction of CMOS device performance from
180 nm to 7 nm", Integration 58, 2017: energy goes as a polynomial in the supply, `a V^2 + b V + c`, with coefficients
for each node, and area by a table. Both were read in two copies that agree: wromaszkan/nodeScale@a912c60 and
hwcomponents 1.0.114, `scaling/techscaling.py`. Between nodes of the table, both are interpolated in the logarithms.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from accelsim.inputs.errors import AccelsimError


class NoEstimateError(AccelsimError):
    """A model does not cover a component: what is outside, and what to write instead."""

    def __init__(self, what: str, hint: str = "") -> None:
        self.what = what
        self.hint = hint
        super().__init__(f"{what}; {hint}" if hint else what)


@dataclass(frozen=True, slots=True)
class Value:
    """One value, how it came about (with the inputs), and from which publication or tool."""

    value: float
    formula: str
    source: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """One component.

    Attributes
    ----------
    pj : mapping of str to Value
        Energy [pJ] of one action.
    leak_mw : Value, or None
        Leakage power [mW] of one instance; None where the source says none.
    area_um2 : Value, or None
        Area [um2] of one instance; None where the source says none.
    """

    pj: Mapping[str, Value] = field(default_factory=dict)
    leak_mw: Value | None = None
    area_um2: Value | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """One published value; `node_nm` is None where it belongs to no node of the chip, as for DRAM."""

    what: str
    node_nm: float | None
    value: float
    unit: str
    mark: str
    source: str

    @property
    def cited(self) -> str:
        """The source, and its mark unless it was read in the file itself."""
        return self.source if self.mark == "file" else f"{self.source} [{self.mark}]"


def data_rows(name: str) -> list[dict[str, str]]:
    """Rows of a data file of this package."""
    return table_rows(files("accelsim.inputs.energy").joinpath("data", name).read_text(encoding="utf-8"))


def table_rows(text: str) -> list[dict[str, str]]:
    """Rows of a table; lines that begin with # are comments."""
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


@cache
def all_published() -> tuple[Published, ...]:
    """Every published value, in the order of the file."""
    return tuple(
        Published(
            row["what"],
            float(row["node_nm"]) if row["node_nm"] else None,
            float(row["value"]),
            row["unit"],
            row["mark"],
            row["source"],
        )
        for row in data_rows("published.csv")
    )


def published(what: str, unit: str) -> tuple[Published, ...]:
    """Values of one thing in one unit, by falling node."""
    return tuple(entry for entry in all_published() if entry.what == what and entry.unit == unit)


SOURCE = "scaled after Stillmaker and Baas, Integration 58, 2017"

SUPPLY_V: Mapping[float, float] = {
    180: 1.8, 130: 1.3, 90: 1.2, 65: 1.1, 45: 0.9, 40: 0.9, 32: 0.9, 20: 0.9, 16: 0.85, 14: 0.8, 10: 0.75, 7: 0.7,
}  # fmt: skip
"""Supply [V] by node [nm]: nominal ones of the Predictive Technology Model (not verified), but at 45 and
40 nm the 0.9 V for which the published energies hold."""

_ENERGY: Mapping[float, tuple[float, float, float]] = {
    180: (0.0, 24.64, -17.98),
    130: (7.171, -6.709, 2.904),
    90: (4.762, -4.781, 2.092),
    65: (3.755, -4.398, 1.975),
    45: (1.018, -0.3107, 0.1539),
    32: (0.8367, -0.4341, 0.1701),
    20: (0.373, -0.1582, 0.04104),
    16: (0.2958, -0.1241, 0.03024),
    14: (0.2363, -0.09675, 0.02239),
    10: (0.2068, -0.09311, 0.02375),
    7: (0.1776, -0.09097, 0.02447),
}
"""Coefficients by node, high-performance devices below 65 nm."""

_AREA: Mapping[float, float] = {
    180: 320, 130: 110, 90: 48, 65: 25, 45: 17, 32: 7.8, 20: 3.6, 16: 3.2, 14: 2.9, 10: 1.7, 7: 1,
}  # fmt: skip
"""Area relative to 7 nm; two digits, as the paper has it."""


def log_log(x0: float, y0: float, x1: float, y1: float, x: float) -> float:
    """Interpolate on the straight line through two points in the logarithms of both axes.

    Examples
    --------
    >>> round(log_log(1, 10, 4, 40, 2), 9)
    20.0
    """
    if x0 == x1:
        return y0
    return math.exp(math.log(y0) + math.log(y1 / y0) * math.log(x / x0) / math.log(x1 / x0))


def through(points: Mapping[float, float], x: float) -> float:
    """Value at x on the lines through points, in the logarithms; the outermost lines go on beyond the ends."""
    places = sorted(points)
    if x in points:
        return points[x]
    if len(places) == 1:
        return points[places[0]]
    above = next((index for index, place in enumerate(places) if place > x), len(places) - 1)
    low, high = places[max(0, above - 1)], places[max(1, above)]
    return log_log(low, points[low], high, points[high], x)


def supply_v(node_nm: float) -> float:
    """Supply [V] at a node."""
    _check(node_nm)
    return through(SUPPLY_V, node_nm)


def energy_factor(from_nm: float, to_nm: float) -> float:
    """Energy of logic at one node, relative to another, each at its supply.

    Examples
    --------
    >>> round(energy_factor(45, 32), 3)
    0.654
    """
    return _energy(to_nm) / _energy(from_nm)


def area_factor(from_nm: float, to_nm: float) -> float:
    """Area of logic at one node, relative to another.

    Examples
    --------
    >>> round(area_factor(45, 32), 2)
    0.46
    """
    _check(from_nm)
    _check(to_nm)
    return through(_AREA, to_nm) / through(_AREA, from_nm)


def _energy(node_nm: float) -> float:
    _check(node_nm)
    at = {node: a * SUPPLY_V[node] ** 2 + b * SUPPLY_V[node] + c for node, (a, b, c) in _ENERGY.items()}
    return through(at, node_nm)


def _check(node_nm: float) -> None:
    if not 7 <= node_nm <= 180:
        what = f"no rule for {node_nm:g} nm: the scaling equations go from 180 to 7 nm"
        raise NoEstimateError(what, "name a node in this range, or give energies and area with their source")
