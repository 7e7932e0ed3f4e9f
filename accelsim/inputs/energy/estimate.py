"""What a component model answers: values with the formula that gave them and its source.

Published energies and areas that come with accelsim, each with its source and how sure it is.

Energy and area of logic at another technology node.

The rule is that of Stillmaker and Baas, "Scaling equations for the accurate prediction of CMOS device performance from
180 nm to 7 nm", Integration 58, 2017: energy goes as a polynomial in the supply, `a V^2 + b V + c`, with coefficients
for each node, and area by a table (`data/scaling.csv`). Between its nodes, both are interpolated in the logarithms.
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


@cache
def _scaling() -> dict[str, dict[float, float]]:
    """Supply [V], energy at that supply and area of logic by node [nm]; energy and area are relative."""
    supplies, energies, areas = dict[float, float](), dict[float, float](), dict[float, float]()
    for row in data_rows("scaling.csv"):
        node, volt = float(row["node_nm"]), float(row["supply_V"])
        supplies[node] = volt
        if row["area"]:
            a, b, c = (float(row[name]) for name in "abc")
            energies[node], areas[node] = a * volt**2 + b * volt + c, float(row["area"])
    return {"supply": supplies, "energy": energies, "area": areas}


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
    return through(_scaling()["supply"], node_nm)


def energy_factor(from_nm: float, to_nm: float) -> float:
    """Energy of logic at one node, relative to another, each at its supply.

    Examples
    --------
    >>> round(energy_factor(45, 32), 3)
    0.654
    """
    return _relative("energy", from_nm, to_nm)


def area_factor(from_nm: float, to_nm: float) -> float:
    """Area of logic at one node, relative to another.

    Examples
    --------
    >>> round(area_factor(45, 32), 2)
    0.46
    """
    return _relative("area", from_nm, to_nm)


def _relative(what: str, from_nm: float, to_nm: float) -> float:
    _check(from_nm)
    _check(to_nm)
    known = _scaling()[what]
    return through(known, to_nm) / through(known, from_nm)


def _check(node_nm: float) -> None:
    if not 7 <= node_nm <= 180:
        what = f"no rule for {node_nm:g} nm: the scaling equations go from 180 to 7 nm"
        raise NoEstimateError(what, "name a node in this range, or give energies and area with their source")
