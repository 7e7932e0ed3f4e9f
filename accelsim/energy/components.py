"""The component models as an estimator: which model a class of component gets, and from which of its attributes.

SRAM buffers: banks from the CACTI grid, and the wires that lead to them.

One bank of SRAM from a grid of CACTI results, interpolated over size, width of an access and technology node.

The grid has 5 nodes (22 to 90 nm), sizes of 0.5 KiB to 4 MiB and widths of 32 to 512 bits, both in powers of two, with
at least 64 rows. Inside a cell of the grid, the logarithm of a quantity is linear in the logarithm of each axis; a cell
whose corner would have less than 64 rows is a plane through the other three.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

from accelsim.energy.estimate import (
    FLOATS,
    WIDTHS,
    WIRE_SOURCE,
    Estimate,
    NoEstimateError,
    Value,
    adder,
    data_rows,
    dram,
    mac,
    network,
    register,
    register_file,
    wire,
    wire_pj_per_bit,
)
from accelsim.inputs.energies import AreaEntry, Component, ComponentFigures, EnergyEntry
from accelsim.inputs.units import QuantityError, listed, near_miss, parse_length_mm, parse_positive_size_bits

T = TypeVar("T")
_LEVEL, _UNITS, _FANOUT = "a level", "the compute units", "a fanout"
_OWN = ("size", "word", "block_size")


@dataclass(frozen=True, slots=True)
class ComponentModels:
    """Energies and areas by the component models."""

    name: str = "components"
    complete: bool = True

    def find(self, part: Component) -> ComponentFigures:
        """Energies and area of a part by the model of its class; one for each role whose size is its own."""
        try:
            _check(part)
            if part.partitions:
                return _partitioned(part)
            estimate = _MODELS[part.component][2](part)
            return ComponentFigures(_entries(part, estimate, "*"), _area([estimate]))
        except NoEstimateError as error:
            return ComponentFigures(problems=((error.what, error.hint),))

    def notes(self) -> tuple[str, ...]:
        """What the models leave out."""
        return (
            "Component models (docs/energy.md): leakage of arithmetic, control, clock trees and the area of networks "
            "are not in them.",
        )


def _check(part: Component) -> None:
    """Refuse a class without a model, in the wrong place, or an attribute that its model does not know."""
    if part.component not in _MODELS:
        hint = near_miss(part.component, _MODELS, "classes")
        raise NoEstimateError(f"no component model for the class '{part.component}'", hint)
    place = _LEVEL if "read" in part.actions or "leak" in part.actions else _UNITS
    place = _FANOUT if "transfer" in part.actions else place
    its_place, known, _ = _MODELS[part.component]
    if part.actions and its_place != place:
        kind = listed(name for name, (where, _, _) in _MODELS.items() if where == place)
        raise NoEstimateError(f"the class '{part.component}' is none of {place}", f"classes here: {kind}")
    for name in part.attributes:
        if name not in known and name not in _OWN:
            hint = near_miss(name, known, "attributes")
            raise NoEstimateError(f"attribute '{name}': the model of {part.component} knows none such", hint)


def _partitioned(part: Component) -> ComponentFigures:
    """Each role has a memory of its own."""
    energies: dict[tuple[str, str], EnergyEntry] = {}
    estimates = []
    for role, bits in part.partitions.items():
        own = replace(part, attributes={**part.attributes, "size": f"{bits} bit"})
        estimate = _MODELS[part.component][2](own)
        estimates.append(estimate)
        for (_, action), entry in _entries(part, estimate, role).items():
            key = ("*" if action == "leak" else role, action)
            if before := energies.get(key):  # all of them leak
                formula = f"{before.formula} + {entry.formula}"
                entry = EnergyEntry(before.energy_pj + entry.energy_pj, entry.source, formula)
            energies[key] = entry
    return ComponentFigures(energies, _area(estimates))


def _entries(part: Component, estimate: Estimate, role: str) -> dict[tuple[str, str], EnergyEntry]:
    """Energies of the actions that were asked for; an update is a write."""
    found = {}
    for action in part.actions:
        value = estimate.pj.get("write" if action == "update" else action)
        if action == "leak" and estimate.leak_mw is not None:
            value = _leak(estimate.leak_mw, part.clock_hz)
        if value is not None:
            found[role, action] = EnergyEntry(value.value, value.source, value.formula)
    return found


def _leak(mw: Value, clock_hz: float | None) -> Value:
    """Leakage [pJ] in a cycle; 1 mW is 1e9 pJ a second."""
    if mw.value == 0:
        return Value(0.0, mw.formula, mw.source)
    if clock_hz is None:
        raise NoEstimateError("leakage in a cycle needs the machine's clock", "add `clock: 1 GHz` to the architecture")
    return Value(mw.value * 1e9 / clock_hz, f"{mw.formula}; {mw.value:.4g} mW / {clock_hz / 1e6:g} MHz", mw.source)


def _area(estimates: list[Estimate]) -> AreaEntry | None:
    areas = [estimate.area_um2 for estimate in estimates]
    known = [area for area in areas if area is not None]
    if len(known) < len(areas):
        return None
    formula = " + ".join(area.formula for area in known)
    return AreaEntry(sum(area.value for area in known), "; ".join(dict.fromkeys(a.source for a in known)), formula)


def _sram(part: Component) -> Estimate:
    """Buffer of which an access takes all or some of a row, which is charged by its share."""
    access = _access(part)
    width = _bits(part, "width") if "width" in part.attributes else access
    banks = _number(part, "banks") if "banks" in part.attributes else None
    if banks is not None and (banks < 1 or banks != int(banks)):
        raise NoEstimateError(f"banks: expected a whole number from 1 on, got '{part.attributes['banks']}'")
    estimate = sram(_node(part), _bits(part, "size") / 8192, width, None if banks is None else int(banks))
    if width == access:
        return estimate
    share = access / width
    pj = {
        action: Value(each.value * share, f"{access} of {width} bit x ({each.formula})", each.source)
        for action, each in estimate.pj.items()
    }
    return replace(estimate, pj=pj)


def _mac(part: Component) -> Estimate:
    """MAC by format, or by width: integers sum in 32 bits and floating point in fp32 unless `psums` says otherwise."""
    kind, wide = ("int", "int32") if part.component == "intmac" else ("fp", "fp32")
    operand = part.attributes.get("format") or f"{kind}{part.attributes.get('bits', '16').removesuffix(' bit')}"
    if not operand.startswith(kind) and not (kind == "fp" and operand in ("bf16", "tf32")):
        formats = listed(FLOATS) if kind == "fp" else f"int{WIDTHS[0]} to int{WIDTHS[1]}"
        raise NoEstimateError(f"'{operand}' is no format of the class '{part.component}'", f"formats: {formats}")
    psum = part.attributes.get("psums", wide)
    return mac(_node(part), operand, f"{kind}{psum}" if psum.isdigit() else psum)


def _network(part: Component) -> Estimate:
    return network(_node(part), _number(part, "hops"), _length(part), part.bits["transfer"])


def _node(part: Component) -> float:
    if not part.technology:
        raise NoEstimateError("'technology' is missing: the models need the node", "write `technology: 28 nm`")
    return float(part.technology.removesuffix(" nm"))


def _access(part: Component) -> int:
    """Bits of one access; without an action that moves any, those of one word."""
    return next((bits for bits in part.bits.values() if bits), 1)


def _bits(part: Component, name: str) -> int:
    return _quantity(part, name, parse_positive_size_bits, f"'{name}' is missing", "")


def _length(part: Component) -> float:
    missing = "'length' is missing: energy goes with it"
    return _quantity(part, "length", parse_length_mm, missing, "write `attributes: {length: 0.5 mm}`")


def _quantity(part: Component, name: str, parse: Callable[[str], T], missing: str, hint: str) -> T:
    text = part.attributes.get(name, "")
    try:
        return parse(text)
    except QuantityError as error:
        raise NoEstimateError(f"{name}: {error.what}" if text else missing, error.hint or hint) from None


def _number(part: Component, name: str) -> float:
    text = part.attributes.get(name, "")
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
        what = f"{name}: expected a number from 0 on, got '{text}'" if text else f"'{name}' is missing"
        raise NoEstimateError(what, f"write `attributes: {{{name}: 2}}`")
    return float(text)


_MODELS: Mapping[str, tuple[str, tuple[str, ...], Callable[[Component], Estimate]]] = {
    "DRAM": (_LEVEL, ("type",), lambda part: dram(part.attributes.get("type", ""), _access(part))),
    "SRAM": (_LEVEL, ("size", "width", "banks"), _sram),
    "regfile": (_LEVEL, ("size", "width"), lambda part: register_file(_node(part), _bits(part, "size"), _access(part))),
    "register": (_LEVEL, ("size", "width"), lambda part: register(_node(part), _bits(part, "size"), _access(part))),
    "intmac": (_UNITS, ("format", "bits", "psums"), _mac),
    "fpmac": (_UNITS, ("format", "bits", "psums"), _mac),
    "adder": (_UNITS, ("format",), lambda part: adder(_node(part), part.attributes.get("format", "int32"))),
    "wire": (_FANOUT, ("length",), lambda part: wire(_node(part), _length(part), part.bits["transfer"])),
    "network": (_FANOUT, ("hops", "length"), _network),
}
"""Of each class of components where it stands, the attributes that its model looks at, and the model."""
SOURCE = "CACTI 7 (as in hwcomponents-cacti 1.0.40; RAM, one bank, one read-write port, itrs-lstp), interpolated"
QUANTITIES = ("read_pJ", "write_pJ", "leak_mW", "area_mm2", "access_ns", "cycle_ns")
LEAST_ROWS = 64
"""Of a bank of the grid: CACTI was asked for none with fewer."""
Place = tuple[float, float, float]
"""Node [nm], size [KiB], width of an access [bit]."""
Grid = Mapping[Place, Mapping[str, float]]
"""Quantities of the banks at the points of the grid."""


@cache
def cacti_grid() -> Grid:
    """The grid of CACTI results that comes with accelsim."""
    return read_grid(data_rows("sram_cacti.csv"))


def read_grid(rows: Iterable[Mapping[str, str]]) -> Grid:
    """CACTI results out of the rows of a table."""
    return {
        (float(row["node_nm"]), float(row["size_KiB"]), float(row["width_bit"])): {
            quantity: float(row[quantity]) for quantity in QUANTITIES
        }
        for row in rows
    }


def axes(grid: Grid) -> tuple[list[float], list[float], list[float]]:
    """Nodes, sizes and widths of a grid."""
    nodes, sizes, widths = (sorted({place[axis] for place in grid}) for axis in range(3))
    return nodes, sizes, widths


def interpolated(quantity: str, place: Place) -> float:
    """Quantity of one bank at any place inside the grid; raises NoEstimateError if the place is outside.

    >>> interpolated("read_pJ", (45, 64, 64))
    25.8695
    """
    grid = cacti_grid()
    if place in grid:
        return grid[place][quantity]
    nodes, sizes, widths = axes(grid)
    node, size, width = place
    low, high = _around(nodes, node, "node", "nm")
    _around(sizes, size, "size of a bank", "KiB")
    _around(widths, width, "width", "bit")
    if size * 8192 / width < LEAST_ROWS:
        raise NoEstimateError(f"a bank of {size:g} KiB with {width:g} bits has less than {LEAST_ROWS} rows")
    value = _at_node(quantity, sizes, widths, (low, size, width))
    if low != high:
        above = _at_node(quantity, sizes, widths, (high, size, width))
        value += (above - value) * math.log(node / low) / math.log(high / low)
    return math.exp(value)


def _around(places: Sequence[float], place: float, what: str, unit: str) -> tuple[float, float]:
    """Neighbours of a place on an axis; twice the same where it is one of the grid."""
    if not places[0] <= place <= places[-1]:
        grid = f"the CACTI grid, {places[0]:g} to {places[-1]:g} {unit}"
        raise NoEstimateError(f"{what} {place:g} {unit} is outside {grid}")
    return max(p for p in places if p <= place), min(p for p in places if p >= place)


def _at_node(quantity: str, sizes: Sequence[float], widths: Sequence[float], place: Place) -> float:
    """Logarithm of a quantity at a node of the grid."""
    grid, (node, size, width) = cacti_grid(), place
    (s0, s1), (w0, w1) = _around(sizes, size, "", ""), _around(widths, width, "", "")
    corner = {(s, w): math.log(grid[node, s, w][quantity]) for s in (s0, s1) for w in (w0, w1) if (node, s, w) in grid}
    if (s0, w1) not in corner:
        corner[s0, w1] = corner[s0, w0] + corner[s1, w1] - corner[s1, w0]
    right = 0.0 if s0 == s1 else math.log(size / s0) / math.log(s1 / s0)
    up = 0.0 if w0 == w1 else math.log(width / w0) / math.log(w1 / w0)
    lower = corner[s0, w0] * (1 - right) + corner[s1, w0] * right
    upper = corner[s0, w1] * (1 - right) + corner[s1, w1] * right
    return lower * (1 - up) + upper * up


SHRINK_SOURCE = (
    "below 22 nm energy goes with the square root of the node, area with the node, leakage with its square root x 0.79 "
    "(hwcomponents-cacti 1.0.40, which cites IRDS 2022 and Parvais et al., VLSI-TSA 2009)"
)
REACH = 0.75
"""Average way from the middle of an edge of a square to a place in it, in edges: 1/4 along it and 1/2 across."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer as it is built.

    One access opens one of the `banks`, or where it is wider than a bank can be, one in each of `slices` side by side.
    `bank_kib` and `bank_bit` are the size and width of one of these, as charged.
    """

    banks: int
    slices: int
    bank_kib: float
    bank_bit: float


def buffer(size_kib: float, width_bit: float, banks: int | None = None) -> Buffer:
    """Build a buffer of banks that the grid holds.

    An access wider than the widest bank opens several side by side. Without `banks`, there are as few as keep each
    within the largest bank of the grid. A bank narrower than the narrowest, or with less rows than the least, is
    charged as the narrowest or shortest one: its figures are then upper bounds. Raises NoEstimateError if the buffer is
    larger than its banks can be.
    """
    _, sizes, widths = axes(cacti_grid())
    slices = max(1, math.ceil(width_bit / widths[-1]))
    count = banks or max(1, math.ceil(size_kib / slices / sizes[-1]))
    bank_bit = max(widths[0], width_bit / slices)
    exact = size_kib / slices / count
    if exact > sizes[-1]:
        least = math.ceil(size_kib / slices / sizes[-1])
        what = f"a bank of {exact:g} KiB is outside the CACTI grid, which ends at {sizes[-1]:g} KiB"
        raise NoEstimateError(what, f"write `banks: {least}` or more, or leave it out")
    bank_kib = max(exact, sizes[0], bank_bit * LEAST_ROWS / 8192)
    return Buffer(count, slices, bank_kib, bank_bit)


def sram(node_nm: float, size_kib: float, width_bit: float, banks: int | None = None) -> Estimate:
    """Estimate a buffer with one read-write port.

    Energies are those of one access of `width_bit`; leakage and area are those of the whole buffer. In a buffer of
    several banks, data and address go from the middle of its edge to a bank, on average 0.75 x the square root of its
    area. Raises NoEstimateError if the grid does not cover it.

    >>> sram(45, 64, 64).pj["read"].value
    25.8695
    """
    built = buffer(size_kib, width_bit, banks)
    node = max(node_nm, min(axes(cacti_grid())[0]))
    place = (node, built.bank_kib, built.bank_bit)
    count = built.banks * built.slices
    shrunk = node_nm < node
    ratio = node_nm / node
    energy, leak, area = (math.sqrt(ratio), math.sqrt(ratio) * 0.79, ratio) if shrunk else (1.0, 1.0, 1.0)
    area_mm2 = count * interpolated("area_mm2", place) * area
    wire_pj, wire = 0.0, ""
    if built.banks > 1:
        length = REACH * math.sqrt(area_mm2)
        bits = width_bit + math.ceil(math.log2(size_kib * 8192 / width_bit))
        wire_pj = wire_pj_per_bit(node_nm, length) * bits
        wire = f" + {wire_pj:.4g} pJ of wires ({bits:g} bits with the address, {length:.3g} mm)"
    side = f", {built.slices} of them side by side" if built.slices > 1 else ""
    many = "one bank" if count == 1 else f"{count} banks"
    how = f"{many} of {built.bank_kib:g} KiB with {built.bank_bit:g} bits{side} at {node:g} nm"
    source = f"{SOURCE}; {SHRINK_SOURCE}" if shrunk else SOURCE
    with_wires = f"{source}; {WIRE_SOURCE}" if wire else source
    by_energy, by_leak, by_area = (f" x {factor:.4g} to {node_nm:g} nm" * shrunk for factor in (energy, leak, area))
    pj = {}
    for action in ("read", "write"):
        bank = interpolated(f"{action}_pJ", place)
        times = f"{built.slices} x " * (built.slices > 1)
        formula = f"{times}{bank:.5g} pJ{by_energy}{wire}: {how}"
        pj[action] = Value(built.slices * bank * energy + wire_pj, formula, with_wires)
    leak_mw, each = interpolated("leak_mW", place), interpolated("area_mm2", place)
    times = f"{count} x " * (count > 1)
    leakage = Value(count * leak_mw * leak, f"{times}{leak_mw:.4g} mW{by_leak}: {how}", source)
    whole = Value(area_mm2 * 1e6, f"{times}{each:.4g} mm2{by_area}: {how}", source)
    return Estimate(pj, leakage, whole)


INTERPOLATION_ERROR = (
    "Error of the interpolation between CACTI's results, median / worst: reads 4.2 / 22 %, writes 2.3 / 22 %, leakage "
    "3.0 / 41 %, area 2.1 / 17 % at 100 banks that are not in the grid; with each point of the grid left out, its "
    "neighbours then being twice as far apart, reads 5.5 / 58 %, writes 4.8 / 24 %, leakage 3.4 / 307 %, area 4.2 / 29 "
    "%. Points of the grid are exact."
)
"""What a reader must know of the error of the interpolation, as `validation/sram.py` finds it."""
