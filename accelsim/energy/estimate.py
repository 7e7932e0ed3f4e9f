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
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files

from accelsim.inputs.errors import HintedError
from accelsim.inputs.units import listed


class NoEstimateError(HintedError):
    """A model does not cover a component."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value, how it came about (with the inputs), and from which publication or tool."""

    value: float
    formula: str
    source: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """One component: energy [pJ] of each action, leakage power [mW] and area [um2] of one instance.

    The last two are None where the source says none.
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
    return table_rows(files("accelsim.energy").joinpath("data", name).read_text(encoding="utf-8"))


def table_rows(text: str) -> list[dict[str, str]]:
    """Rows of a table; lines that begin with # are comments."""
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


@cache
def all_published() -> tuple[Published, ...]:
    """Every published value, in the order of the file."""
    found = []
    for row in data_rows("published.csv"):
        node_nm, value = float(row.pop("node_nm") or 0) or None, float(row.pop("value"))
        found.append(Published(node_nm=node_nm, value=value, **row))
    return tuple(found)


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

    >>> round(energy_factor(45, 32), 3)
    0.654
    """
    return _relative("energy", from_nm, to_nm)


def area_factor(from_nm: float, to_nm: float) -> float:
    """Area of logic at one node, relative to another.

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


FLOATS = ("fp16", "bf16", "tf32", "fp32")
WIDTHS = (4, 32)
"""Integers of these widths and all between."""


Points = tuple[dict[float, float], str, tuple[str, ...]]
"""Values by node of an operation, what was derived, and the sources."""


def mac(node_nm: float, operand: str, psum: str) -> Estimate:
    """Estimate a unit that multiplies two operands and adds the product to a partial sum.

    Formats are `int4` to `int32`, `fp16`, `bf16`, `tf32`, `fp32`. Raises NoEstimateError for a format or a node without
    a source.

    >>> round(mac(45, "int8", "int32").pj["compute"].value, 3)
    0.3
    """
    return _arithmetic(((operand, "multiply"), (psum, "add")), node_nm)


def adder(node_nm: float, operand: str) -> Estimate:
    """Estimate a unit that adds two operands."""
    return _arithmetic(((operand, "add"),), node_nm)


def _arithmetic(parts: tuple[tuple[str, str], ...], node_nm: float) -> Estimate:
    """Estimate a unit; its area is None where none of one of its parts was published."""
    energy, area = _sum(parts, node_nm, "pJ"), None
    with suppress(NoEstimateError):
        area = _sum(parts, node_nm, "um2")
    return Estimate({"compute": energy}, None, area)


def _sum(parts: tuple[tuple[str, str], ...], node_nm: float, unit: str) -> Value:
    values, terms, sources = [], [], dict[str, None]()
    for form, operation in parts:
        value, note, cited = _operation(form, operation, node_nm, unit)
        values.append(value)
        terms.append(f"{form} {operation} {value:.4g} {unit}{note}")
        sources |= dict.fromkeys(cited)
    return Value(sum(values), f"{' + '.join(terms)} at {node_nm:g} nm", "; ".join(sources))


def _operation(form: str, operation: str, node_nm: float, unit: str) -> tuple[float, str, tuple[str, ...]]:
    """Energy [pJ] or area [um2] of an operation at a node: between published nodes interpolated, beyond them scaled.

    Beside it what was derived, and the sources.
    """
    match = re.fullmatch(r"int([0-9]+)", form)
    if match and WIDTHS[0] <= int(match[1]) <= WIDTHS[1]:
        points, note, sources = _integers(int(match[1]), operation, unit)
    elif form in FLOATS:
        points, note, sources = _floats(form, operation, unit)
    else:
        what = f"no published energy for the number format '{form}'"
        raise NoEstimateError(what, f"formats: int{WIDTHS[0]} to int{WIDTHS[1]}, {listed(FLOATS)}")
    if not points:
        raise NoEstimateError(f"no published value [{unit}] for {form} {operation}")
    nodes = sorted(points)
    if nodes[0] <= node_nm <= nodes[-1]:
        return through(points, node_nm), note, sources
    end = nodes[0] if node_nm < nodes[0] else nodes[-1]
    factor = (area_factor if unit == "um2" else energy_factor)(end, node_nm)
    return points[end] * factor, f"{note} (scaled from {end:g} nm)", (*sources, SOURCE)


def _integers(bits: int, operation: str, unit: str) -> Points:
    """Values by node of an integer operation; an unpublished width lies on the line through those published."""
    entries = [entry for width in (8, 16, 32) for entry in published(f"int{width} {operation}", unit)]
    at: dict[float, dict[float, Published]] = {}
    for entry in entries:
        assert entry.node_nm is not None
        at.setdefault(entry.node_nm, {})[float(entry.what.split()[0].removeprefix("int"))] = entry
    points = {node: through({width: e.value for width, e in known.items()}, bits) for node, known in at.items()}
    derived = any(bits not in known for known in at.values())
    note = " (from other widths, log-log)" if derived else ""
    return points, note, tuple(dict.fromkeys(entry.cited for entry in entries))


def _floats(form: str, operation: str, unit: str) -> Points:
    """Values by node of a floating-point operation.

    tf32 multiplies significands of 11 bits like fp16 and adds like fp32. bf16 was published at one node; elsewhere it
    goes with fp16.
    """
    stands = {"tf32": "fp16" if operation == "multiply" else "fp32"}.get(form, form)
    entries = published(f"{stands} {operation}", unit)
    points = {entry.node_nm: entry.value for entry in entries if entry.node_nm is not None}
    note = f" (as {stands})" if stands != form else ""
    sources = tuple(entry.cited for entry in entries)
    if form == "bf16" and points:
        half, _, more = _floats("fp16", operation, unit)
        ((node, value),) = points.items()
        points = {other: value * energy / half[node] for other, energy in half.items()}
        note, sources = " (between nodes as fp16)", tuple(dict.fromkeys((*sources, *more)))
    return points, note, sources


NO_BACKGROUND = "accelergy-cacti-plug-in@291018b, CactiDRAM: background power is in the energy of a bit, or not at all"
FILE_B = (16.0, 512.0)
"""Sizes [B] of the register files that were published."""


def dram_kinds() -> tuple[str, ...]:
    """Kinds of DRAM with a source, in the order of the file."""
    return tuple(entry.what for entry in all_published() if entry.node_nm is None)


def dram(kind: str, bits: int) -> Estimate:
    """Estimate a DRAM: interface and array, for an access of so many bits. It is off the chip: no area.

    Raises NoEstimateError for a kind without a source.

    >>> dram("LPDDR4", 16).pj["read"].value
    128.0
    """
    entries = published(kind, "pJ/bit") if kind in dram_kinds() else ()
    if not entries:
        kinds = dram_kinds()
        what = f"no published energy for the DRAM type '{kind}'" if kind else "'type' of the DRAM is missing"
        raise NoEstimateError(what, f"types: {listed(kinds)}. Or give `energy` with its source")
    (entry,) = entries
    value = Value(entry.value * bits, f"{entry.value:g} pJ/bit x {bits} bit", entry.cited)
    none = Value(0.0, "0 mW beside the energy of a bit", NO_BACKGROUND)
    off = Value(0.0, "off the chip", "the machine's area is that of its chip")
    return Estimate({"read": value, "write": value}, none, off)


def _scaled(
    entry: Published, node_nm: float, factor_of: Callable[[float, float], float] = energy_factor
) -> tuple[float, str, str]:
    """Factor of a published value at a node, how it came about, and its source."""
    assert entry.node_nm is not None
    factor = factor_of(entry.node_nm, node_nm)
    if factor == 1:
        return factor, "", entry.cited
    return factor, f" x {factor:.4g} from {entry.node_nm:g} to {node_nm:g} nm", f"{entry.cited}; {SOURCE}"


_NO_LEAK = Value(0.0, "0 mW", "accelergy-library-plug-in@ba4e9da, library/aladdin/aladdin_register.csv: leak 0")


def register(node_nm: float, size_bit: float, bits: int) -> Estimate:
    """Estimate registers of `size_bit`, of which an access takes so many."""
    (energy,), (area,) = published("register", "pJ/bit"), published("register", "um2/bit")
    factor, scaled, source = _scaled(energy, node_nm)
    value = Value(bits * energy.value * factor, f"{bits} bit x {energy.value:g} pJ/bit{scaled}", source)
    factor, scaled, source = _scaled(area, node_nm, area_factor)
    cells = Value(size_bit * area.value * factor, f"{size_bit:g} bit x {area.value:g} um2{scaled}", source)
    return Estimate({"read": value, "write": value}, _NO_LEAK, cells)


def register_file(node_nm: float, size_bit: float, bits: int) -> Estimate:
    """Estimate a register file of 16 to 512 B.

    Energy goes with the size, but is never less than that of registers; the area is that of its registers, without the
    decoder. Raises NoEstimateError if it is larger.
    """
    (entry,) = published("register file", "pJ/bit/B")
    size_b = size_bit / 8
    if size_b > FILE_B[1]:
        what = f"a register file of {size_b:g} B is larger than {FILE_B[1]:g} B, the largest one published"
        raise NoEstimateError(what, "use the class SRAM")
    charged = max(size_b, FILE_B[0])
    factor, scaled, source = _scaled(entry, node_nm)
    least = f" (as {charged:g} B, the smallest one published)" if charged > size_b else ""
    each = entry.value * charged
    value = Value(bits * each * factor, f"{bits} bit x {each:.4g} pJ/bit for {size_b:g} B{least}{scaled}", source)
    plain = register(node_nm, size_bit, bits)
    if plain.pj["read"].value > value.value:
        why = f"that of registers, more than {value.value:.3g} pJ by size"
        value = replace(plain.pj["read"], formula=f"{plain.pj['read'].formula}: {why}")
    return replace(plain, pj={"read": value, "write": value})


WIRE_SOURCE = (
    f"wire: {published('wire', 'pJ/bit/mm')[0].cited}; capacitance for a length alike at all nodes (ibid.), so that "
    "energy goes with the square of the supply"
)


def wire_pj_per_bit(node_nm: float, length_mm: float) -> float:
    """Energy [pJ] of one random bit over a repeated wire.

    >>> wire_pj_per_bit(40, 10)
    1.21
    """
    (known,) = published("wire", "pJ/bit/mm")
    assert known.node_nm is not None
    return known.value * length_mm * (supply_v(node_nm) / supply_v(known.node_nm)) ** 2


def wire(node_nm: float, length_mm: float, bits: int) -> Estimate:
    """Estimate the transfer of a word of so many bits over a wire."""
    each = wire_pj_per_bit(node_nm, length_mm)
    formula = f"{bits} bit x {each:.4g} pJ/bit over {length_mm:g} mm at {node_nm:g} nm ({supply_v(node_nm):.3g} V)"
    return Estimate({"transfer": Value(bits * each, formula, WIRE_SOURCE)})


def network(node_nm: float, hops: float, length_mm: float, bits: int) -> Estimate:
    """Estimate the transfer of a word over so many hops of a length.

    A hop is a crossbar, a register that is written and read, and the wire. Arbitration, deeper queues and the clock
    tree are not in it.
    """
    (crossbar,), (register,) = published("crossbar", "pJ/bit"), published("register", "pJ/bit")
    assert crossbar.node_nm is not None
    factor = energy_factor(crossbar.node_nm, node_nm)
    router = (crossbar.value + 2 * register.value) * factor
    along = wire_pj_per_bit(node_nm, length_mm)
    formula = (
        f"{bits} bit x {hops:g} hops x ({router:.4g} pJ/bit of crossbar and register + {along:.4g} pJ/bit of "
        f"{length_mm:g} mm wire) at {node_nm:g} nm"
    )
    source = f"crossbar: {crossbar.cited}; register: {register.cited}; both {SOURCE}; {WIRE_SOURCE}"
    return Estimate({"transfer": Value(bits * hops * (router + along), formula, source)})
