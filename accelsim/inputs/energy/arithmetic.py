"""Multiply-accumulate units and adders by number format."""

from __future__ import annotations

import re
from dataclasses import dataclass

from accelsim.inputs.energy.estimate import Estimate, NoEstimateError, Value
from accelsim.inputs.energy.published import Published, published
from accelsim.inputs.energy.scaling import SOURCE, area_factor, energy_factor, through
from accelsim.inputs.units import listed

FLOATS = ("fp16", "bf16", "tf32", "fp32")
WIDTHS = (4, 32)
"""Integers of these widths and all between."""


@dataclass(frozen=True, slots=True)
class _Operation:
    """Energy [pJ] or area [um2] of one operation at one node; `note` says what was derived."""

    value: float
    note: str
    sources: tuple[str, ...]


def mac(node_nm: float, operand: str, psum: str) -> Estimate:
    """Estimate a unit that multiplies two operands and adds the product to a partial sum.

    Parameters
    ----------
    node_nm : float
    operand, psum : str
        Formats: `int4` to `int32`, `fp16`, `bf16`, `tf32`, `fp32`.

    Raises
    ------
    NoEstimateError
        For a format or a node without a source.

    Examples
    --------
    >>> round(mac(45, "int8", "int32").pj["compute"].value, 3)
    0.3
    """
    parts = ((operand, "multiply"), (psum, "add"))
    return Estimate({"compute": _sum(parts, node_nm, "pJ")}, None, _area(parts, node_nm))


def adder(node_nm: float, operand: str) -> Estimate:
    """Estimate a unit that adds two operands."""
    parts = ((operand, "add"),)
    return Estimate({"compute": _sum(parts, node_nm, "pJ")}, None, _area(parts, node_nm))


def _area(parts: tuple[tuple[str, str], ...], node_nm: float) -> Value | None:
    """Area of a unit, or None where no area of one of its parts was published."""
    try:
        return _sum(parts, node_nm, "um2")
    except NoEstimateError:
        return None


def _sum(parts: tuple[tuple[str, str], ...], node_nm: float, unit: str) -> Value:
    found = [(what, _operation(*what, node_nm, unit)) for what in parts]
    terms = [f"{' '.join(what)} {each.value:.4g} {unit}{each.note}" for what, each in found]
    sources = dict.fromkeys(source for _, each in found for source in each.sources)
    value = sum(each.value for _, each in found)
    return Value(value, f"{' + '.join(terms)} at {node_nm:g} nm", "; ".join(sources))


def _operation(form: str, operation: str, node_nm: float, unit: str) -> _Operation:
    """One operation at a node: between published nodes interpolated, beyond them scaled."""
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
        return _Operation(through(points, node_nm), note, sources)
    end = nodes[0] if node_nm < nodes[0] else nodes[-1]
    factor = (area_factor if unit == "um2" else energy_factor)(end, node_nm)
    return _Operation(points[end] * factor, f"{note} (scaled from {end:g} nm)", (*sources, SOURCE))


def _integers(bits: int, operation: str, unit: str) -> tuple[dict[float, float], str, tuple[str, ...]]:
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


def _floats(form: str, operation: str, unit: str) -> tuple[dict[float, float], str, tuple[str, ...]]:
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
