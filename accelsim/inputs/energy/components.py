"""The component models as an estimator: which model a class of component gets, and from which of its attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from accelsim.inputs.energy.estimate import (
    FLOATS,
    WIDTHS,
    Estimate,
    NoEstimateError,
    Value,
    adder,
    dram,
    mac,
    network,
    register,
    register_file,
    wire,
)
from accelsim.inputs.energy.sram import sram
from accelsim.inputs.energy.table import AreaEntry, Component, ComponentFigures, EnergyEntry
from accelsim.inputs.units import QuantityError, listed, near_miss, parse_length_mm, parse_positive_size_bits

T = TypeVar("T")
CLASSES: Mapping[str, tuple[str, ...]] = {
    "DRAM": ("type",),
    "SRAM": ("size", "width", "banks"),
    "regfile": ("size", "width"),
    "register": ("size", "width"),
    "intmac": ("format", "bits", "psums"),
    "fpmac": ("format", "bits", "psums"),
    "adder": ("format",),
    "wire": ("length",),
    "network": ("hops", "length"),
}
"""Classes of components, and the attributes that their models look at."""
_OWN = ("size", "word", "block_size")
_STORES = ("DRAM", "SRAM", "regfile", "register")
_COMPUTES = ("intmac", "fpmac", "adder")


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
            estimate = _estimate(part)
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
    known = CLASSES.get(part.component)
    if known is None:
        hint = near_miss(part.component, CLASSES) or f"classes: {listed(CLASSES)}"
        raise NoEstimateError(f"no component model for the class '{part.component}'", hint)
    kind: tuple[str, ...] = _STORES if "read" in part.actions or "leak" in part.actions else _COMPUTES
    place = "a level" if kind is _STORES else "the compute units"
    if "transfer" in part.actions:
        kind, place = ("wire", "network"), "a fanout"
    if part.actions and part.component not in kind:
        raise NoEstimateError(f"the class '{part.component}' is none of {place}", f"classes here: {listed(kind)}")
    for name in part.attributes:
        if name not in known and name not in _OWN:
            hint = near_miss(name, known) or f"attributes: {listed(known)}"
            raise NoEstimateError(f"attribute '{name}': the model of {part.component} knows none such", hint)


def _partitioned(part: Component) -> ComponentFigures:
    """Each role has a memory of its own."""
    energies: dict[tuple[str, str], EnergyEntry] = {}
    estimates = []
    for role, bits in part.partitions.items():
        estimate = _estimate(replace(part, attributes={**part.attributes, "size": f"{bits} bit"}))
        estimates.append(estimate)
        leaking = {key: entry for key, entry in _entries(part, estimate, role).items() if key[1] == "leak"}
        energies |= {key: entry for key, entry in _entries(part, estimate, role).items() if key not in leaking}
        for (_, action), entry in leaking.items():
            before = energies.get(("*", action))
            formula = entry.formula if before is None else f"{before.formula} + {entry.formula}"
            pj = entry.energy_pj + (before.energy_pj if before else 0.0)
            energies["*", action] = EnergyEntry(pj, entry.source, formula)
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


def _estimate(part: Component) -> Estimate:
    models: Mapping[str, Callable[[Component], Estimate]] = {
        "DRAM": lambda part: dram(part.attributes.get("type", ""), _access(part)),
        "SRAM": _sram,
        "regfile": lambda part: register_file(_node(part), _size(part), _access(part)),
        "register": lambda part: register(_node(part), _size(part), _access(part)),
        "intmac": _mac,
        "fpmac": _mac,
        "adder": lambda part: adder(_node(part), part.attributes.get("format", "int32")),
        "wire": lambda part: wire(_node(part), _length(part), part.bits["transfer"]),
        "network": lambda part: network(_node(part), _number(part, "hops"), _length(part), part.bits["transfer"]),
    }
    return models[part.component](part)


def _sram(part: Component) -> Estimate:
    """Buffer of which an access takes all or some of a row, which is charged by its share."""
    access = _access(part)
    width = _bits(part, "width") if "width" in part.attributes else access
    banks = _number(part, "banks") if "banks" in part.attributes else None
    if banks is not None and (banks < 1 or banks != int(banks)):
        raise NoEstimateError(f"banks: expected a whole number from 1 on, got '{part.attributes['banks']}'")
    estimate = sram(_node(part), _size(part) / 8192, width, None if banks is None else int(banks))
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
    operand = part.attributes.get("format") or f"{kind}{_word(part, 'bits', '16')}"
    if not operand.startswith(kind) and not (kind == "fp" and operand in ("bf16", "tf32")):
        formats = listed(FLOATS) if kind == "fp" else f"int{WIDTHS[0]} to int{WIDTHS[1]}"
        raise NoEstimateError(f"'{operand}' is no format of the class '{part.component}'", f"formats: {formats}")
    psum = part.attributes.get("psums", wide)
    return mac(_node(part), operand, f"{kind}{psum}" if psum.isdigit() else psum)


def _word(part: Component, name: str, default: str) -> str:
    return part.attributes.get(name, default).removesuffix(" bit")


def _node(part: Component) -> float:
    if not part.technology:
        raise NoEstimateError("'technology' is missing: the models need the node", "write `technology: 28 nm`")
    return float(part.technology.removesuffix(" nm"))


def _access(part: Component) -> int:
    """Bits of one access; without an action that moves any, those of one word."""
    return next((bits for bits in part.bits.values() if bits), 1)


def _size(part: Component) -> int:
    return _bits(part, "size")


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
