"""Machines of Timeloop as ours: levels, networks and compute units, with the energies of an ERT or of our models."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelsim.energy.estimators import COMPUTES
from accelsim.importers import values
from accelsim.importers.documents import Map, Note, Seq, refuse
from accelsim.importers.engines import UNLIMITED
from accelsim.importers.timeloop_machine import MEANS, SMALL, Part, TimeloopMachine, plain
from accelsim.inputs.level_features import BANDWIDTHS
from accelsim.inputs.units import listed, quoted
from accelsim.inputs.workload import ROLES

_TECHNOLOGY, _UNLIMITED = "45 nm", f"{UNLIMITED} words/cycle"
ACCESS = ".access"
"""What notes of actions that Timeloop does not know have behind the name of the part."""
_OWN_OF_TIMELOOP = "is taken for `read` and `write`; Timeloop knows no such action, and charges energies of its own"
_NODE = re.compile(r"([0-9.]+(?:e-[0-9]{1,2})?)\s*(nm|um)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Figures:
    """Energies [pJ] of each part's actions and areas [um2], and the file that they stand in."""

    energies: Mapping[str, Mapping[str, float]]
    areas: Mapping[str, float]
    source: str


def all_kept(bypassed: Sequence[str]) -> str:
    """What becomes of tensors that the first level bypasses."""
    return f"is the first level, which keeps everything here; it charges {listed(bypassed)} too"


def unknown(machine: TimeloopMachine, figures: Figures) -> list[str]:
    """Parts whose energies an ERT has not."""
    *stores, compute = [part.name for part in machine.parts if not part.network]
    without = [name for name in stores if "read" not in figures.energies.get(name, {})]
    return without + ([] if figures.energies.get(compute) else [compute])


def read_figures(references: Sequence[tuple[str, Map | Seq]], machine: TimeloopMachine) -> Figures:
    """Energies and areas of `ERT` and `ART`, and of attributes; of several rows of an action the largest counts."""
    energies: dict[str, dict[str, float]] = {}
    areas: dict[str, float] = {}
    files = dict.fromkeys(f"the {kind} {Path(body.mark.file).name}" for kind, body in references)
    for kind, body in references:
        for table in _tables(body) if isinstance(body, Map) else ():
            name = plain(written := table.value("name", str))
            if machine.is_elsewhere(written):
                continue
            if kind == "ART":
                areas[name] = values.figure(table, "area")
            names = [str(action.get("name")) for action in table.rows("actions")]
            if "access" in names and "read" not in names and name in {part.name for part in machine.parts[:-1]}:
                machine.notes.append(Note(table.mark, f"{name}{ACCESS}", _OWN_OF_TIMELOOP))
            for action in table.rows("actions"):
                known = energies.setdefault(name, {})
                key = action.value("name", str)
                for name_here in ("read", "write") if key == "access" else (key,):
                    energy = values.figure(action, "max_energy" if "max_energy" in action else "energy")
                    known[name_here] = max(known.get(name_here, 0.0), energy)
    for part in machine.parts:
        own, area = map(part.number, part.own_figures)
        if area is not None:
            areas.setdefault(part.name, area)
        if own is not None and part.name not in energies:  # of one instance, while tables have that of a cluster
            of_cluster = {"read": own * part.cluster_size, "write": own * part.cluster_size}
            energies[part.name] = {COMPUTES[0]: own} if part is machine.parts[-1] else of_cluster
            files[f"attributes in {Path(part.table.mark.file).name}"] = None
    return Figures(energies, areas, " and ".join(files))


def _tables(body: Map) -> list[Map]:
    """Tables of components; those of version 0.2 stand under the components' names, and actions under theirs."""
    held = body.get("tables")
    if not isinstance(held, Map):
        return [*body.rows("tables"), *body.rows("table_summary")]
    found = []
    for name in held:
        actions, made = held.inner(name), list[Map]()
        for key in actions:
            given = actions.rows(key) if isinstance(actions[key], Seq) else [actions.inner(key)]
            made += [Map(row.mark, held={**row, "name": key}, marks=row.marks) for row in given]
        found.append(Map(actions.mark, held={"name": name, "actions": Seq(actions.mark, held=made)}))
    return found


def architecture(
    machine: TimeloopMachine,
    figures: Figures,
    kept: Mapping[str, tuple[list[str], list[str]]],
    zeros: Mapping[str, dict[str, Any]],
    bits: Sequence[int] = (),
) -> dict[str, Any]:
    """Document of a machine; `kept` are the roles that each part keeps and bypasses whatever the mapping.

    `zeros` are keys of each part that say what it does about zeros, and energies of this; `bits` widths of elements as
    problems give them.

    Where the ERT has not every part, the component models of accelsim give the others their energies.
    """
    homes = machine.homes()
    missing = unknown(machine, figures)
    modelled, odd = bool(missing), [part for part in machine.parts if part.name in missing and part.odd]
    if odd:
        what = f"no energies of {listed(f'{part.name} ({part.component.split()[-1]})' for part in odd)}"
        hint = "accelsim has no models of such parts; name the ERT of a run of Timeloop too"
        raise refuse(odd[0].table.mark, what, hint)
    levels: list[dict[str, Any]] = []
    for index, part in enumerate(machine.parts[:-1]):
        if homes[part.name] == part.name:
            bare = part.network and values.bare_level(part.name, "16 bit")
            levels.append(bare or _level(machine, part, figures, modelled=modelled))
            for key, roles in zip(("keep", "bypass"), kept.get(part.name, ([], [])), strict=True):
                if roles and len(levels) > 1 and not part.network:
                    levels[-1][key] = roles
                elif roles and key == "bypass" and len(levels) == 1:
                    machine.note(part, all_kept(roles))
            _add_zeros(levels[-1], _of_stored(levels[-1], zeros.get(part.name, {}), part, machine))
        across, down = machine.fanout(index)
        if (across, down) != (1, 1):
            wires = {"transfer": "0 pJ", "source": "Timeloop charges no wires unless asked to"}
            transfer = figures.energies.get(part.name, {}).get("transfer")
            if transfer is not None:
                wires = {"transfer": values.exact_pj(transfer), "source": figures.source}
            charged = modelled or transfer is not None
            fanout: dict[str, Any] = {"x": across, "y": down} | ({"energy": wires} if charged else {})
            if part.unshared:
                fanout |= {"multicast": [role for role in ROLES if role not in part.unshared]}
                fanout |= {"spatial_reduction": "Outputs" not in part.unshared}
            levels[-1]["fanout"] = fanout
        if bits and not part.network and homes[part.name] == part.name:
            _pack(levels[-1], part, bits)
    why = "a network of its own, as each of two containers in a row is; one fanout with x and y may share more reads"
    for part in (one for one in machine.parts if one.network and homes[one.name] == one.name):
        machine.note(part, why)
    document = {"name": values.plain_name(machine.name), **_technology(machine, modelled=modelled)}
    if modelled:
        document["energy_table"] = "components"
    compute = _compute(machine, figures)
    _add_zeros(compute, zeros.get(machine.parts[-1].name, {}))
    return {**document, "levels": levels, "compute": compute}


def _pack(level: dict[str, Any], part: Part, bits: Sequence[int]) -> None:
    """Let elements of given widths share words, as Timeloop with quantization packs them: words of their divisor."""
    word = math.gcd(part.word_bits, *bits)
    share = part.word_bits // word
    level |= {"word": f"{word} bit", "block_size": level["block_size"] * share}
    for key in (key for key in BANDWIDTHS if key in level):
        level[key] = f"{values.plain_decimal(float(level[key].split()[0]) * share)} words/cycle"
    wires = level.get("fanout", {}).get("energy", {})
    if wires:
        wires["transfer"] = values.pj_text(float(wires["transfer"].split()[0]) / share)


def _of_stored(
    level: Mapping[str, Any], zeros: Mapping[str, Any], part: Part, machine: TimeloopMachine
) -> Mapping[str, Any]:
    """What a level does about zeros, but for formats of tensors that pass it by."""
    forms, packed = zeros.get("formats", {}), zeros.get("position_skipping", ())
    absent = [role for role in level.get("bypass", ()) if role in forms or role in packed]
    if not absent:
        return zeros
    machine.note(part, f"formats of {listed(absent)}, which pass by, are left out")
    kept = {**zeros, "formats": {role: form for role, form in forms.items() if role not in absent}}
    kept["position_skipping"] = [role for role in packed if role not in absent]
    return {key: held for key, held in kept.items() if held}


def _add_zeros(part: dict[str, Any], zeros: Mapping[str, Any]) -> None:
    """Add what a part does about zeros; energies go beside those that it has."""
    energies = {**part.get("energy", {}), **zeros.get("energy", {})}
    part |= {key: held for key, held in zeros.items() if key != "energy"}
    if "energy" in part or "source" in zeros.get("energy", ()):
        part["energy"] = energies


def _compute(machine: TimeloopMachine, figures: Figures) -> dict[str, Any]:
    part = machine.parts[-1]
    energies = figures.energies.get(part.name)
    floats = re.search(r"fp|float", part.component.lower()) is not None
    compute: dict[str, Any] = {"name": part.name, "class": "fpmac" if floats else "intmac"}
    if energies:
        action = next((name for name in COMPUTES if name in energies), None)
        action = action or max((key for key in energies if key != "leak"), key=lambda key: energies[key])
        compute["energy"] = {"compute": values.exact_pj(energies[action]), "source": figures.source}
        if energies.get("leak"):
            machine.note(part, "compute units have no leakage here", f"{part.name}.leak")
    else:
        bits = int(part.number("multiplier_width") or part.number("datawidth") or part.number("width") or 16)
        nearest = min((16, 32) if floats else (4, 8, 16, 32), key=lambda width: abs(width - bits))
        compute["attributes"] = {"format": f"{'fp' if floats else 'int'}{nearest}"}
        if nearest != bits:
            machine.note(part, f"{bits} bit have no model; that of {nearest} bit is taken")
    if part.name in figures.areas:
        compute["area"] = f"{values.plain_decimal(figures.areas[part.name])} um2"
    return compute


def _level(machine: TimeloopMachine, part: Part, figures: Figures, *, modelled: bool) -> dict[str, Any]:
    words, energies = part.words, figures.energies.get(part.name, {})
    level: dict[str, Any] = {"name": part.name, "class": (part.component.split() or ["storage"])[-1]}
    if modelled:
        level["class"] = _storage(part)
    if words is not None:
        level["size"] = f"{words * part.word_bits} bit"
    elif part is not machine.parts[0]:
        raise refuse(part.table.mark, f"{part.name} has no depth, and only the outermost level may be unlimited")
    level |= {"word": f"{part.word_bits} bit", "block_size": part.block_size}
    if part.cluster_size > 1 and "cluster_size" not in part.attributes:
        machine.note(part, MEANS["cluster_size"], f"{part.name}: {part.cluster_size} blocks in a row")
    buffering = part.number("multiple_buffering", 1) or 1
    if buffering > 1:
        level["multiple_buffering"] = math.ceil(buffering)
        if buffering != math.ceil(buffering):
            machine.note(part, f"{buffering} is rounded up", f"{part.name}.multiple_buffering")
    both = part.number("bandwidth", 0) or 0
    for key in ("shared_bandwidth", "read_bandwidth", "write_bandwidth"):
        rate = part.number(key) or (0 if key == "shared_bandwidth" else both / 2)  # Timeloop's buffer.cpp halves it
        if rate:
            level[key.removeprefix("shared_")] = f"{values.plain_decimal(rate)} words/cycle"
    shared = part.number("shared_bandwidth") or math.inf
    alone = [part.number(f"{key}_bandwidth") or math.inf for key in ("read", "write")]
    if max(shared, min(alone)) < math.inf:  # one of all accesses, and one of each kind
        left = {"read_bandwidth", "write_bandwidth"} if shared < sum(alone) else {"bandwidth"}
        if min(alone) < shared < sum(alone):
            machine.note(part, "limits of reads and of writes alone are left out", f"{part.name}.shared_bandwidth")
        level = {key: held for key, held in level.items() if key not in left}
    for key, other in itertools.permutations(("read_bandwidth", "write_bandwidth")):
        if key in level:
            level.setdefault(other, _UNLIMITED)
    if "read" in energies:
        charged = [key for key in ("read", "write", "update", "leak") if key in energies]
        actions = {key: values.exact_pj(energies[key] / part.cluster_size) for key in charged}
        others = {"write": actions["read"], **({"leak": "0 pJ"} if modelled else {})}
        level["energy"] = {**others, **actions, "source": figures.source}
    if modelled and level["class"] == "DRAM":
        level["attributes"] = {"type": str(part.attributes.get("type") or "LPDDR4")}
    if part.name in figures.areas:
        level["area"] = f"{values.plain_decimal(figures.areas[part.name] / part.cluster_size)} um2"
    return level


def _storage(part: Part) -> str:
    """Component model of a storage, by its class and size."""
    bits = (part.words or 0) * part.word_bits
    if "dram" in part.component.lower() or part.words is None:
        return "DRAM"
    return values.storage_class(min(bits, 4095) if bits <= 4096 and SMALL.search(part.component) else bits)


def _technology(machine: TimeloopMachine, *, modelled: bool) -> dict[str, str]:
    """Node and clock of the innermost part that has them; models need some."""
    found: dict[str, str] = {}
    odd = "no node"
    for part in reversed(machine.parts):
        node = part.attributes.get("technology", part.attributes.get("TECHNOLOGY"))  # the latter of CiMLoop
        period = part.attributes.get("global_cycle_seconds", part.attributes.get("GLOBAL_CYCLE_SECONDS"))
        size = _NODE.fullmatch(str(node))
        odd = odd if node is None or size else f"no node but {quoted(str(node))}"
        if size and "technology" not in found:
            of_nm = 1e9 if float(size[1]) < 1e-3 else {"u": 1e3}.get(str(size[2]).lower()[:1], 1)
            found["technology"] = f"{float(size[1]) * of_nm:.9g} nm"
        if isinstance(period, int | float) and 1e-12 <= period <= 1 and "clock" not in found:
            found["clock"] = f"{values.plain_decimal(round(1e-6 / period, 6))} MHz"
        elif period is not None and "clock" not in found:
            machine.note(part, f"global_cycle_seconds = {period}: expected seconds, such as 1e-9; not read", "clock")
    if not modelled:
        return found
    if "technology" not in found:
        machine.note(machine.parts[0], f"{odd} is given; {_TECHNOLOGY} is assumed", "technology")
    return {"technology": found.get("technology", _TECHNOLOGY), "clock": found.get("clock", "1 GHz")}
