"""AccelForge's own figures of its arrays under the conditions of published ones: `cim_accelforge.csv`, written anew.

`python -m validation.cim_accelforge FOLDER`, with AccelForge and its component models installed. The folder is that of
its arrays, `examples/arches/compute_in_memory`, where `_load_spec.py` lies.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from validation.cim_conditions import CHIPS, Condition, published
from validation.study import reference_paths

TABLE = Path(__file__).with_name("cim_accelforge.csv")


def main(folders: Sequence[str]) -> int:
    """Write the figures; the exit code."""
    sys.path.insert(0, folders[0])
    rows = []
    asked = [condition for condition, _ in published(reference_paths((), CHIPS)[0]) if condition.known]
    for condition in [one for one in asked if Path(folders[0], f"{one.chip}.yaml").is_file()]:
        joule, seconds, macs, area_m2 = _best(condition)
        rows.append((condition.chip, condition.name, repr(joule), repr(seconds), macs, repr(area_m2)))
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        tools = ", ".join(f"{name} {version(name)}" for name in ("accelforge", "hwcomponents"))
        file.write(f"# {tools}; written by `python -m validation.cim_accelforge`\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("chip", "condition", "joule", "seconds", "macs", "area_m2"))
        writer.writerows(rows)
    return 0


def _best(condition: Condition) -> tuple[float, float, int, float]:
    """Energy [J], time [s] and MACs of its best mapping, and the area of all its components [m2]."""

    def spec() -> Any:
        found = import_module("_load_spec").get_spec(condition.chip, add_dummy_main_memory=True)
        for name, value in condition.variables.items():
            if name in found.variables.model_extra:
                setattr(found.variables, name, value)
            else:
                found.arch.variables[name] = value
        for einsum in found.workload.einsums:
            for access in einsum.tensor_accesses:
                access.bits_per_value = condition.bits.get(access.name, access.bits_per_value)
        return found

    areas = spec().calculate_component_costs(einsum_name="Matmul").arch.per_component_total_area
    best = spec().map_workload_to_arch(print_progress=False)
    return float(best.energy()), float(best.latency()), int(best.n_computes()), sum(map(float, areas.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
