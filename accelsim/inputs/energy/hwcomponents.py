"""Energies and areas by the models of the package `hwcomponents` (CACTI, converters, a library of published designs).

The class of a part is the name of one of its components. The models get the node as `tech_node` [m], the size [bit] and
the width of an access [bit] of a level, and every attribute; from these they take what they know.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, ClassVar

from accelsim.inputs.energy.table import AreaEntry, EnergyEntry, Found, Part
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import QuantityError, listed, parse_size_bits

COMPUTES = ("compute", "mac", "multiply", "add", "read", "convert")
"""Actions of a compute unit in the order in which they are looked for; `attributes: {action: …}` names another."""
_LONGEST = 400
"""Letters of what the package says that are passed on, at most; paths in it are long."""


@dataclass(frozen=True, slots=True)
class Hwcomponents:
    """The installed models; `get_model` is that of the package."""

    get_model: Callable[..., Any]
    release: str
    name: str = "hwcomponents"
    complete: ClassVar[bool] = False

    def find(self, part: Part) -> Found:
        """Energies and area of a part by the model that the package chooses for it."""
        attributes = _attributes(part)
        wanted = attributes.pop("action", None)
        try:
            model = self.get_model(part.component, attributes)
            return self._ask(part, model, wanted)
        except Exception as error:  # the models raise errors of many kinds
            hint = "`hwc --list` shows what the components take"
            what = f"hwcomponents has no figure for the class '{part.component}': {_reason(error)}"
            return Found(problems=((what, hint),))

    def _ask(self, part: Part, model: Any, wanted: Any) -> Found:
        source = f"hwcomponents {self.release}, model {type(model).__name__}"
        known = model.get_action_names()
        energies = {}
        for action in part.actions:
            if action == "leak":
                if part.clock_hz is not None:
                    watt = float(model.leak_power)
                    formula = f"{watt * 1e3:.4g} mW / {part.clock_hz / 1e6:g} MHz"
                    energies["*", action] = EnergyEntry(watt * 1e12 / part.clock_hz, source, formula)
                continue
            called = {"update": "write"}.get(action, action)
            if action == "compute":
                called = str(wanted) if wanted else next((name for name in COMPUTES if name in known), called)
            if called not in known:
                raise AccelsimError(f"its model has no action '{called}', only {listed(known)}")
            pj = float(getattr(model, called)().energy) * 1e12
            energies["*", action] = EnergyEntry(pj, source, f"action {called}")
        return Found(energies, AreaEntry(float(model.area) * 1e12, source))

    def notes(self) -> tuple[str, ...]:
        """Nothing: the models name themselves."""
        return ()


def open_hwcomponents() -> Hwcomponents:
    """Find the package.

    Raises
    ------
    AccelsimError
        If it is not installed, with what to do.
    """
    try:
        from hwcomponents import get_model
    except (ImportError, SyntaxError):
        needs = "" if sys.version_info >= (3, 12) else "; it needs Python 3.12 or newer"
        raise AccelsimError(
            f"hwcomponents is not installed{needs}: `pip install 'accelsim[hwcomponents]'`, or use `components`"
        ) from None
    return Hwcomponents(get_model, version("hwcomponents"))


def _reason(error: Exception) -> str:
    """What went wrong in a model: the package tells it inside the log of all that it tried, or first of all."""
    lines = [line.strip("| \t") for line in str(error).splitlines()]
    told = next((line for line in lines if re.match(r"\w*(Error|Exception): |Argument for ", line)), "")
    told = told or next(filter(None, lines), type(error).__name__)
    return told.partition(" Supported components:")[0][:_LONGEST].rstrip(".:")


def _attributes(part: Part) -> dict[str, Any]:
    """Attributes as the models take them: sizes in bits, numbers as numbers, the node in metres."""
    found: dict[str, Any] = {
        key: _plain(text) for key, text in part.attributes.items() if key not in ("word", "block_size")
    }
    if part.technology and "tech_node" not in found:
        found["tech_node"] = float(part.technology.removesuffix(" nm")) / 1e9
    access = next((bits for bits in part.bits.values() if bits), None)
    if access is not None:
        found.setdefault("width", access)
    return found


def _plain(text: str) -> Any:
    try:
        return parse_size_bits(text)
    except QuantityError:
        pass
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
