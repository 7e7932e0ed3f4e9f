"""Machines of Timeloop as documents of ours: levels, energies of an ERT, areas of an ART, or component models."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from accelsim.importers.documents import Table, refuse
from accelsim.importers.foreign import Note
from accelsim.importers.timeloop_machine import Machine, Part, plain, tables_under
from accelsim.importers.values import number, plain_name
from accelsim.inputs.energy.estimators import COMPUTES
from accelsim.inputs.workload import ROLES

_TECHNOLOGY, _UNLIMITED = "45 nm", "1000000000 words/cycle"


@dataclass(frozen=True, slots=True)
class Figures:
    """Energies [pJ] of each part's actions and areas [um2], and the file that they stand in."""

    energies: Mapping[str, Mapping[str, float]]
    areas: Mapping[str, float]
    source: str


def unknown(machine: Machine, figures: Figures) -> list[str]:
    """Parts whose energies an ERT has not."""
    *stores, compute = [part.name for part in machine.parts if not part.network]
    without = [name for name in stores if "read" not in figures.energies.get(name, {})]
    return without + ([] if figures.energies.get(compute) else [compute])


def read_figures(tables: Sequence[tuple[str, str, Table]]) -> Figures:
    """Energies and areas of `ERT` and `ART`, each with its file; of several rows of an action the largest counts."""
    energies: dict[str, dict[str, float]] = {}
    areas: dict[str, float] = {}
    for _, kind, body in tables:
        for table in tables_under(body, "tables"):
            name = plain(table.get("name", ""))
            if kind == "ART":
                areas[name] = _figure(table, "area")
            for action in tables_under(table, "actions"):
                known = energies.setdefault(name, {})
                key = str(action.get("name"))
                for name_here in ("read", "write") if key == "access" else (key,):
                    known[name_here] = max(known.get(name_here, 0.0), _figure(action, "energy"))
    return Figures(energies, areas, " and ".join(dict.fromkeys(file for file, _, _ in tables)))


def _figure(table: Table, key: str) -> float:
    found = number(table, key)
    if not 0 <= found < math.inf:
        raise refuse(table.where(key), f"{key}: expected a number from 0 on, got {found}")
    return float(found)


def architecture(machine: Machine, figures: Figures, kept: Mapping[str, tuple[list[str], list[str]]]) -> dict[str, Any]:
    """Document of a machine; `kept` are the roles that each part keeps and bypasses whatever the mapping.

    Where the ERT has not every part, the component models of accelsim give the others their energies.
    """
    homes = machine.homes()
    modelled = bool(unknown(machine, figures))
    levels: list[dict[str, Any]] = []
    for index, part in enumerate(machine.parts[:-1]):
        if homes[part.name] == part.name:
            levels.append(_network(part) if part.network else _level(machine, part, figures, modelled=modelled))
            for key, roles in zip(("keep", "bypass"), kept.get(part.name, ([], [])), strict=True):
                if roles and len(levels) > 1 and not part.network:
                    levels[-1][key] = roles
        across, down = machine.fanout(index)
        if (across, down) != (1, 1):
            wires = {"transfer": "0 pJ", "source": "Timeloop charges no wires unless asked to"}
            transfer = figures.energies.get(part.name, {}).get("transfer")
            if transfer is not None:
                wires = {"transfer": _pj(transfer), "source": figures.source}
            charged = modelled or transfer is not None
            levels[-1]["fanout"] = {"x": across, "y": down} | ({"energy": wires} if charged else {})
    why = "a network of its own, as each of two containers in a row is; one fanout with x and y may share more reads"
    machine.notes += [
        Note(part.table.mark, part.name, why)
        for part in machine.parts
        if part.network and homes[part.name] == part.name
    ]
    document = {"name": plain_name(machine.name), **_technology(machine, modelled=modelled)}
    if modelled:
        document["energy_table"] = "components"
    return {**document, "levels": levels, "compute": _compute(machine, figures)}


def _compute(machine: Machine, figures: Figures) -> dict[str, Any]:
    part = machine.parts[-1]
    energies = figures.energies.get(part.name)
    compute: dict[str, Any] = {"name": part.name, "class": "intmac"}
    if re.search(r"fp|float", part.component.lower()):
        compute["class"] = "fpmac"
    if energies:
        action = next((name for name in COMPUTES if name in energies), None)
        action = action or max((key for key in energies if key != "leak"), key=lambda key: energies[key])
        compute["energy"] = {"compute": _pj(energies[action]), "source": figures.source}
        if energies.get("leak"):
            machine.notes.append(Note(part.table.mark, f"{part.name}.leak", "compute units have no leakage here"))
    else:
        bits = int(part.number("multiplier_width") or part.number("datawidth") or 16)
        nearest = min((16, 32) if compute["class"] == "fpmac" else (4, 8, 16, 32), key=lambda width: abs(width - bits))
        compute["attributes"] = {"format": f"{'fp' if compute['class'] == 'fpmac' else 'int'}{nearest}"}
        if nearest != bits:
            why = f"{bits} bit have no model; that of {nearest} bit is taken"
            machine.notes.append(Note(part.table.mark, part.name, why))
    if part.name in figures.areas:
        compute["area"] = f"{_decimal(figures.areas[part.name])} um2"
    return compute


def _network(part: Part) -> dict[str, Any]:
    """Level that stores nothing, whose fanout is a network."""
    free = {"read": "0 pJ", "write": "0 pJ", "leak": "0 pJ", "source": "a network stores nothing"}
    size = {"size": "16 bit", "word": "16 bit", "bypass": list(ROLES), "energy": free, "area": "0 um2"}
    return {"name": part.name, "class": "register", **size}


def _level(machine: Machine, part: Part, figures: Figures, *, modelled: bool) -> dict[str, Any]:
    words, energies = part.words, figures.energies.get(part.name, {})
    level: dict[str, Any] = {"name": part.name, "class": (part.component.split() or ["storage"])[-1]}
    if modelled:
        level["class"] = _storage(part)
    if words is not None:
        level["size"] = f"{words * part.word_bits} bit"
    elif part is not machine.parts[0]:
        raise refuse(part.table.mark, f"{part.name} has no depth, and only the outermost level may be unlimited")
    level |= {"word": f"{part.word_bits} bit", "block_size": part.block_size}
    buffering = part.number("multiple_buffering", 1) or 1
    if buffering > 1:
        level["multiple_buffering"] = math.ceil(buffering)
        if buffering != math.ceil(buffering):
            machine.notes.append(Note(part.table.mark, f"{part.name}.multiple_buffering", f"{buffering} is rounded up"))
    for key in ("shared_bandwidth", "read_bandwidth", "write_bandwidth"):
        rate = part.number(key)
        if rate:
            level[key.removeprefix("shared_")] = f"{_decimal(rate)} words/cycle"
    for key, other in itertools.permutations(("read_bandwidth", "write_bandwidth")):
        if key in level:
            level.setdefault(other, _UNLIMITED)
    if "read" in energies:
        actions = {
            key: _pj(energies[key] / part.cluster_size)
            for key in ("read", "write", "update", "leak")
            if key in energies
        }
        others = {"write": actions["read"], **({"leak": "0 pJ"} if modelled else {})}
        level["energy"] = {**others, **actions, "source": figures.source}
    elif level["class"] == "DRAM":
        level["attributes"] = {"type": str(part.attributes.get("type") or "LPDDR4")}
    if part.name in figures.areas:
        level["area"] = f"{_decimal(figures.areas[part.name])} um2"
    return level


def _storage(part: Part) -> str:
    """Component model of a storage, by its class and size."""
    bits = (part.words or 0) * part.word_bits
    if "dram" in part.component.lower() or part.words is None:
        return "DRAM"
    small = bits <= 4096
    if re.search(r"reg|rf|spad|latch", part.component.lower()) and small:
        return "regfile" if bits >= 128 else "register"
    return "SRAM" if bits >= 4096 else "regfile" if bits >= 128 else "register"


def _technology(machine: Machine, *, modelled: bool) -> dict[str, str]:
    """Node and clock of the innermost part that has them; models need some."""
    found: dict[str, str] = {}
    for part in reversed(machine.parts):
        node, period = part.attributes.get("technology"), part.attributes.get("global_cycle_seconds")
        size = re.fullmatch(r"([0-9.]+)\s*nm", str(node))
        if size and "technology" not in found:
            found["technology"] = f"{size[1]} nm"
        if isinstance(period, int | float) and 1e-12 <= period <= 1 and "clock" not in found:
            found["clock"] = f"{_decimal(round(1e-6 / period, 6))} MHz"
    if not modelled:
        return found
    if "technology" not in found:
        machine.notes.append(
            Note(machine.parts[0].table.mark, "technology", f"no node is given; {_TECHNOLOGY} is assumed")
        )
    return {"technology": found.get("technology", _TECHNOLOGY), "clock": found.get("clock", "1 GHz")}


def _pj(value: float) -> str:
    return f"{_decimal(value)} pJ"


def _decimal(value: float) -> str:
    """A number without an exponent.

    Examples
    --------
    >>> _decimal(2048.0), _decimal(7.972e-06)
    ('2048', '0.000007972')
    """
    return f"{Decimal(repr(value)).normalize():f}"
