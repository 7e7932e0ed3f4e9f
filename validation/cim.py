"""Chips that compute in memory: published efficiency, throughput and density beside ours and those of AccelForge.

Each machine is AccelForge's file of the chip, imported, with its own workload, which fills the array. A MAC counts two
operations.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from accelsim.importers.foreign import Foreign
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.constraints_reader import load_constraints
from accelsim.inputs.workload_reader import load_workload
from accelsim.search.mapper import map_einsum
from validation.cim_conditions import CHIPS, MACHINES, Condition, machine_under, published
from validation.study import Figure, Study, reference_paths

OURS, THEIRS = "accelsim", "AccelForge"
_QUANTITIES = {"TOPS/W": "efficiency", "TOPS": "throughput", "TOPS/mm2": "density", "pJ a full array of MACs": "energy"}
_TOLERANCE = 1e-6
"""How far our energy may be from that of AccelForge, whose model it is, before a reason is asked for."""


def cim_study() -> Study:
    """Compare with the published figures of each chip of which AccelForge's machine is there."""
    (folder,), (chips,) = reference_paths((), MACHINES), reference_paths((), CHIPS)
    figures, absent, theirs = list[Figure](), dict[str, int](), _of_accelforge()
    for condition, units in published(chips):
        path = folder / f"{condition.chip}.yaml"
        if path.is_file() and condition.known:
            ours = _answers(machine_under(path, condition))
            figures += _figures(condition, units, ours, theirs.get((condition.chip, condition.name)))
        else:
            why = "condition of no known form" if path.is_file() else "no machine"
            absent[f"{condition.chip}: {why}"] = absent.get(f"{condition.chip}: {why}", 0) + 1
    notes = [f"not compared: {chip} ({many} conditions)" for chip, many in absent.items()]
    return Study(
        name="cim",
        about="published chips that compute in memory, AccelForge's machines of them",
        source=f"{CHIPS}; AccelForge: validation/cim_accelforge.csv",
        figures=tuple(figures),
        notes=(*notes, "energies of parts: hwcomponents, which AccelForge's authors fitted to these chips (`*_scale`)"),
    )


Answers = tuple[float, float, int, float]
"""Energy [J], time [s], MACs and area [m2] of the best mapping."""


@cache
def _of_accelforge() -> Mapping[tuple[str, str], Answers]:
    """AccelForge's own answers by chip and condition."""
    text = Path(__file__).with_name("cim_accelforge.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {
        (row["chip"], row["condition"]): (
            float(row["joule"]), float(row["seconds"]), int(row["macs"]), float(row["area_m2"])
        )
        for row in rows
    }  # fmt: skip


def _answers(foreign: Foreign) -> Answers:
    machine = load_architecture({"architecture": foreign.architecture})
    layer = load_workload({"workload": foreign.workload}).layers[0]
    constraints = load_constraints({"constraints": foreign.constraints}, machine, layer)
    best = map_einsum(machine, layer, constraints=constraints, uneven=False).best
    seconds = best.cycles / float(machine.clock_hz or 1)
    return float(best.energy_pj) / 1e12, seconds, best.macs, (machine.area_um2 or 0.0) / 1e12


def _figures(
    condition: Condition, units: Mapping[str, float], ours: Answers, theirs: Answers | None
) -> Iterator[Figure]:
    """Figures of a condition: both beside the published ones, and our energy, time and area beside AccelForge's."""
    case = f"{condition.chip.partition('_')[0]}, {condition.name}"
    both = ((OURS, ours), *(((THEIRS, theirs),) if theirs else ()))
    for unit, value in units.items():
        for name, answers in both if unit in _QUANTITIES else ():
            yield Figure(case, f"published {_QUANTITIES[unit]}", unit, value, _in(unit, condition, answers), None, name)
    figures = (("energy", "pJ", 0, 1e12), ("time", "ns", 1, 1e9), ("area", "um2", 3, 1e12))
    for quantity, unit, at, scale in figures:
        if theirs:
            yield Figure(case, f"AccelForge's {quantity}", unit, theirs[at] * scale, ours[at] * scale, _TOLERANCE, OURS)


def _in(unit: str, condition: Condition, answers: Answers) -> float:
    joule, seconds, macs, area_m2 = answers
    tops = 2 * macs * condition.copies / seconds / 1e12
    return {
        "TOPS": tops,
        "TOPS/W": 2 * macs / joule / 1e12,
        "TOPS/mm2": tops / (condition.copies * area_m2 * 1e6) if area_m2 else 0.0,
        "pJ a full array of MACs": joule * 1e12,
    }[unit]
