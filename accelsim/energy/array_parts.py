"""Energies of the parts of arrays that compute in memory: converters, drivers, cells.

They come from the models of `hwcomponents`, with NeuroSim and a survey of ADCs behind them. Without it, those of parts
of published macros stand in a table, with every attribute that the models take.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from accelsim.energy.estimate import data_rows
from accelsim.energy.estimators import PartCosts, open_hwcomponents
from accelsim.inputs.errors import AccelsimError

ABSENT = "-"


def part_costs(component: str, attributes: Mapping[str, Any], bits: Mapping[str, float]) -> PartCosts:
    """Energies of actions, each of which moves some bits; raises AccelsimError where neither models nor table have it.

    Parameters
    ----------
    component : str
        Class of the part as `hwcomponents` has it, such as `ADC`.
    attributes : mapping
        What the models are asked with, in SI units.
    bits : mapping
        Bits of each action.
    """
    try:
        return open_hwcomponents().costs(component, attributes, bits)
    except AccelsimError as error:
        if found := tabulated(component, attributes, bits):
            return found
        known = "these attributes" if component in _table() else "this class"
        raise AccelsimError(f"{error}; no part of a published macro has {known}") from None


def tabulated(component: str, attributes: Mapping[str, Any], bits: Mapping[str, float]) -> PartCosts | None:
    """What the table of published macros has of a part with just these attributes."""
    rows = _table().get(component, {})
    names = {tuple(each.partition("=")[0] for each in text.split()) for text in rows}
    asked = [described(attributes, bits, takes) for takes in names]
    return next((rows[text] for text in asked if text in rows), None)


def described(attributes: Mapping[str, Any], bits: Mapping[str, float], names: Iterable[str]) -> str:
    """Attributes of those names and bits of actions, as the table has them; of a file, what it holds but comments."""
    each = {name: attributes.get(name) for name in names} | {f"{action}.bits": many for action, many in bits.items()}
    return " ".join(f"{name}={_text(value)}" for name, value in sorted(each.items()))


def _text(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "/".join(map(_text, value))
    if isinstance(value, int | float):
        return f"{value:.9g}"
    if value is not None and Path(str(value)).is_file():
        lines = [line.partition("#")[0].split() for line in Path(str(value)).read_text(encoding="utf-8").splitlines()]
        return hashlib.sha256(repr([line for line in lines if line]).encode()).hexdigest()[:12]
    return ABSENT if value is None else str(value)


@cache
def _table() -> dict[str, dict[str, PartCosts]]:
    """Parts of published macros by class and attributes."""
    found: dict[str, dict[str, PartCosts]] = {}
    for row in data_rows("array_parts.csv"):
        joule, rate_hz = (
            {name: float(row[f"{name}_{unit}"]) for name in ("read", "write", "compute") if row[f"{name}_{unit}"]}
            for unit in ("J", "Hz")
        )
        costs = PartCosts(joule, rate_hz, float(row["leak_W"]), float(row["area_m2"]), row["source"])
        found.setdefault(row["class"], {})[row["attributes"]] = costs
    return found
