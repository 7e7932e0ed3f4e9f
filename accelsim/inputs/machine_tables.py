"""What a machine is made of, as plain rows and JSON: energy of each action, area, power with everything busy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.energies import EnergyEntry
from accelsim.inputs.workload import ROLES


def machine_json(architecture: Architecture) -> dict[str, Any]:
    """Energy table and area of a machine, as result.json has them; no area where none of its parts has one."""
    return {
        "energy_table": energy_rows(architecture),
        "area": area_rows(architecture) if architecture.areas else [],
        "area_um2": architecture.area_um2,
    }


def energy_rows(architecture: Architecture) -> list[dict[str, Any]]:
    """Energy of each action of a machine, outermost component first: pJ an access, a word, a bit; formula; source.

    An energy is None where the action may be left out and is not modelled. Tensors whose entries are equal share a row.
    """
    rows: list[dict[str, Any]] = []
    for level in architecture.levels:
        words, bits = level.block_size, level.block_size * level.word_bits
        kept = [role for role in ROLES if role not in level.bypass]
        for action in ("read", "write", "update"):
            rows += _by_role(architecture, level.name, kept, action, (words, bits))
        rows += _by_role(architecture, level.name, [], "leak", (None, None))
        rows += _by_role(architecture, f"{level.name} network", ROLES, "transfer", (1, level.word_bits))
        if architecture.energy.find(f"{level.name} network", "Outputs", "return"):
            rows += _by_role(architecture, f"{level.name} network", ["Outputs"], "return", (1, level.word_bits))
        if architecture.has_hops(level):
            rows += _by_role(architecture, f"{level.name} network", ROLES, "hop", (1, level.word_bits))
    compute = architecture.compute.name
    widths = [f"{bits} bit" for bits in architecture.energy.formats(compute)]
    return rows + _by_role(architecture, compute, widths, "compute", (None, None))


def _by_role(
    architecture: Architecture, component: str, roles: Sequence[str], action: str, sizes: tuple[int | None, int | None]
) -> list[dict[str, Any]]:
    """Rows of one action, one for each group of roles with equal entries; no roles: one entry for all."""
    groups: dict[EnergyEntry | None, list[str]] = {}
    for role in roles or ["*"]:
        groups.setdefault(architecture.energy.find(component, role, action), []).append(role)
    rows, (words, bits) = [], sizes
    for entry, group in groups.items():
        energy_pj = None if entry is None else entry.energy_pj
        rows.append(
            {
                "component": component,
                "role": "all" if len(groups) == 1 and len(roles) in (0, len(ROLES)) else ", ".join(group),
                "action": action,
                "energy_pj": energy_pj,
                "pj_per_word": None if energy_pj is None or words is None else energy_pj / words,
                "pj_per_bit": None if energy_pj is None or bits is None else energy_pj / bits,
                "formula": None if entry is None else entry.formula,
                "source": None if entry is None else entry.source,
            }
        )
    return rows


def area_rows(architecture: Architecture) -> list[dict[str, Any]]:
    """Area [um2] of each level and of the compute units, of one instance and of all; None where no source says it."""
    rows: list[dict[str, Any]] = []
    names = [*(level.name for level in architecture.levels), architecture.compute.name]
    for index, name in enumerate(names):
        entry, instances = architecture.areas.get(name), architecture.instances(index)
        rows.append(
            {
                "component": name,
                "instances": instances,
                "area_um2": None if entry is None else entry.area_um2,
                "total_um2": None if entry is None else entry.area_um2 * instances,
                "formula": None if entry is None else entry.formula,
                "source": None if entry is None else entry.source,
            }
        )
    return rows


def peak_rows(architecture: Architecture) -> list[dict[str, Any]]:
    """Power [W] of each component with all compute units and all ports busy in each cycle, and of its leakage.

    A port moves its bandwidth, each access at the energy of the dearest action and tensor. A level whose ports are not
    limited is taken at what the compute units below ask of it in a cycle, where networks share whatever they can; None
    where they ask a level further in. Networks are not in it. No power where the machine has no clock.
    """
    rows = []
    for index, level in enumerate(architecture.levels):
        instances = architecture.instances(index)
        pj, how = _busy(architecture, index)
        rows.append(_peak(architecture, level.name, how, None if pj is None else pj * instances))
        if leak_pj := architecture.energy.found_pj(level.name, "*", "leak"):
            rows.append(_peak(architecture, level.name, "leakage", leak_pj * instances))
    compute = architecture.compute
    pj = architecture.energy.energy_pj(compute.name, "*", "compute") * architecture.macs / compute.cycles_per_mac
    return [*rows, _peak(architecture, compute.name, f"{architecture.macs:,} busy", pj)]


def _peak(architecture: Architecture, component: str, how: str, pj: float | None) -> dict[str, Any]:
    clock_hz = architecture.clock_hz
    power_w = None if pj is None or clock_hz is None else pj * 1e-12 * clock_hz
    return {"component": component, "how": how, "pj_per_cycle": pj, "power_w": power_w}


def _busy(architecture: Architecture, index: int) -> tuple[float | None, str]:
    """Energy [pJ] of one instance in a cycle in which its ports are busy, and how busy they are."""
    level = architecture.levels[index]
    read, write = (_dearest(architecture, level, actions) for actions in (("read",), ("write", "update")))
    if level.bandwidth is not None:
        pj = float(level.bandwidth) / level.block_size * max(read, write)
        return pj, f"{float(level.bandwidth):.4g} words/cycle"
    if level.read_bandwidth is not None and level.write_bandwidth is not None:
        in_, out = float(level.write_bandwidth), float(level.read_bandwidth)
        return (out * read + in_ * write) / level.block_size, f"reads {out:.4g}, writes {in_:.4g} words/cycle"
    inner = architecture.levels[index + 1 :]
    requested = [role for role in ROLES if role not in level.bypass and not any(role in each.keep for each in inner)]
    pj = 0.0
    for role in requested:
        axes = [axis for each in architecture.levels[index:] for axis in (each.x, each.y)]
        down = math.prod(axis.size for axis in axes if not axis.serves(role))
        up = math.prod(axis.size for axis in axes if not axis.spatial_reduction)
        entry = {action: architecture.energy.energy_pj(level.name, role, action) for action in ("read", "update")}
        pj += up * (entry["read"] + entry["update"]) if role == "Outputs" else down * entry["read"]
    if not requested:
        return None, "bandwidth not limited"
    return pj / level.block_size / architecture.compute.cycles_per_mac, f"accesses of the MACs: {', '.join(requested)}"


def _dearest(architecture: Architecture, level: Level, actions: Sequence[str]) -> float:
    """Energy [pJ] of an access, the most that any tensor or action takes."""
    kept = [role for role in ROLES if role not in level.bypass]
    energy = architecture.energy
    return max((energy.energy_pj(level.name, role, action) for role in kept for action in actions), default=0)
