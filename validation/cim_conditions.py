"""Published figures of chips that compute in memory, and AccelForge's machines of them under the same conditions."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from accelsim.importers.accelforge import convert
from accelsim.importers.documents import Map
from accelsim.importers.foreign import Foreign, read_documents

MACHINES = "foreign/accelforge/arches/compute_in_memory"
"""Where the machines are in the folder of reference data."""
CHIPS = "data/cim/chips.csv"
_VOLTS = {"sinangil_jssc_2021": (0.65, 0.05), "wang_vlsi_2022": (0.7, 0.1)}
"""Lowest voltage of a chip's points [V], and the step between them."""
_SINANGIL = [(volt, value) for volt in (0.8, 1.0) for value in (15, 6, 0)]
"""Voltage [V] and average value of an output, of 4 bit, of the configurations in the order of the file."""
_WIDTH, _VOLTAGE, _PHASES = r"(input|weight|output)s? (\d+) bit", r"([\d.]+) ?V\b", r"(one|two)-phase"
_COPIES = {"neurram_nature_2022": 48}
"""Arrays of a chip side by side, where the machine has one."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a chip: variables of the machine, widths of values [bit] by tensor, arrays side by side.

    Not `known`: it says more than these.
    """

    chip: str
    name: str
    variables: Mapping[str, float | bool] = field(default_factory=dict)
    bits: Mapping[str, int] = field(default_factory=dict)
    copies: int = 1
    known: bool = True


def published(path: Path) -> list[tuple[Condition, dict[str, float]]]:
    """Conditions of chips, each with its published figures by unit."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in csv.DictReader(lines):
        found.setdefault((row["chip"], row["condition"]), {})[row["unit"]] = float(row["published"])
    return [(_condition(*key), units) for key, units in found.items()]


def _condition(chip: str, text: str) -> Condition:
    """A condition: a point or a configuration of a chip, or widths, a voltage and phases; nothing is the usual one."""
    name, rest, copies = text, text, _COPIES.get(chip, 1)
    variables: dict[str, float | bool] = {}
    if (match := re.match(r"voltage point (\d+)", text)) and chip in _VOLTS:
        lowest, step = _VOLTS[chip]
        variables["voltage"] = volt = round(lowest + int(match[1]) * step, 3)
        name, rest = f"{volt:g} V", ""
        variables |= _sinangil(15) if chip.startswith("sinangil") else {}
    elif (match := re.match(r"configuration (\d+)", text)) and chip.startswith("sinangil"):
        volt, value = _SINANGIL[int(match[1])]
        name, rest = f"{volt:g} V, output {value}", ""
        variables |= {"voltage": volt, **_sinangil(value)}
    bits = {tensor: int(width) for tensor, width in re.findall(_WIDTH, rest)}
    if match := re.search(_VOLTAGE, rest):
        variables["voltage"] = float(match[1])
    if match := re.search(_PHASES, rest):
        variables["one_phase"] = match[1] == "one"
    known = not re.sub(f"{_WIDTH}|{_VOLTAGE}|{_PHASES}|[, ]", "", rest)
    return Condition(chip, name, variables, bits, copies, known)


def _sinangil(value: int) -> dict[str, float]:
    """Average values, of the largest possible one, that inputs and weights have for an output of 0 to 15."""
    each = 0.25 * value**0.5
    return {"average_input_value": each, "average_weight_value": each}


def machine_under(path: Path, condition: Condition) -> Foreign:
    """AccelForge's machine with its own workload under a condition."""
    documents = read_documents([str(path)], {})
    for body in (document.body for document in documents if isinstance(document.body, Map)):
        tables = [body.inner("variables"), body.inner("arch").inner("variables")]
        for name, value in condition.variables.items():
            for table in [table for table in tables if name in table] or tables[-1:]:
                table[name] = value
        for einsum in body.inner("workload").rows("einsums"):
            for access in einsum.rows("tensor_accesses"):
                if (name := str(access.get("name"))) in condition.bits:
                    access["bits_per_value"] = condition.bits[name]
    return convert(documents)


def machines(folder: Path) -> Sequence[Path]:
    """Files of machines in a folder, without those that others include."""
    return sorted(path for path in folder.glob("*.yaml") if not path.name.startswith("_"))
