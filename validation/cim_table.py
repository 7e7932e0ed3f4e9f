"""Write the table of the parts of macros, accelsim/energy/data/array_parts.csv, anew.

`python -m validation.cim_table FOLDER ...` asks the models of `hwcomponents`, which must be installed, for each part of
each machine of AccelForge in the folders: with the machine's own workload, with values of 1, 2, 4, 8 and 16 bit, and
under the conditions of the published figures.
"""

from __future__ import annotations

import csv
import inspect
import io
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from accelsim.energy import array_parts
from accelsim.energy.estimators import PartCosts, open_hwcomponents
from accelsim.inputs.errors import AccelsimError
from validation.cim_conditions import CHIPS, Condition, machine_under, machines, published
from validation.study import reference_paths

TABLE = Path(array_parts.__file__).with_name("data") / "array_parts.csv"
ACTIONS = ("read", "write", "compute")


class _Recorder:
    """Answers with the models of hwcomponents, and keeps the answers by what the models take."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], PartCosts] = {}
        self.models = open_hwcomponents()

    def part_costs(self, component: str, attributes: Mapping[str, Any], bits: Mapping[str, float]) -> PartCosts:
        model = self.models.get_model(component, dict(attributes), required_actions=[*bits])
        calls = [type(model).__init__, *(getattr(type(model), action) for action in bits)]
        takes = {name for call in calls for name in inspect.signature(call).parameters} - {"self", "args", "kwargs"}
        takes -= {"bits_per_action"}
        costs = self.models.costs(component, attributes, bits)
        self.rows[component, array_parts.described(attributes, bits, takes)] = costs
        return costs


def main(folders: Sequence[str]) -> int:
    """Write the table; the exit code."""
    recorder = _Recorder()
    asked = [condition for condition, _ in published(reference_paths((), CHIPS)[0]) if condition.known]
    array_parts.part_costs = recorder.part_costs
    for path in [path for folder in folders for path in machines(Path(folder))]:
        widths = [
            Condition(path.stem, "", {}, dict.fromkeys(("input", "weight", "output"), b)) for b in (1, 2, 4, 8, 16)
        ]
        for condition in [Condition(path.stem, ""), *widths, *(one for one in asked if one.chip == path.stem)]:
            try:
                machine_under(path, condition)
            except AccelsimError as error:
                sys.stderr.write(f"{path.stem}, {condition.name} {dict(condition.bits)}: {error}\n")
    text = io.StringIO()
    tools = sorted(f"{one.name} {one.version}" for one in distributions() if one.name.startswith("hwcomponents"))
    text.write(f"# Parts of macros that compute in memory, by {', '.join(dict.fromkeys(tools))};\n")
    text.write("# written by `python -m validation.cim_table`. J an action, W and m2 an instance.\n")
    writer = csv.writer(text, lineterminator="\n")
    columns = [f"{action}_{unit}" for action in ACTIONS for unit in ("J", "Hz")]
    writer.writerow(("class", "attributes", *columns, "leak_W", "area_m2", "source"))
    for (component, attributes), costs in sorted(recorder.rows.items()):
        each = [costs.joule, costs.rate_hz]
        figures = [repr(of[action]) if action in of else "" for action in ACTIONS for of in each]
        writer.writerow((component, attributes, *figures, repr(costs.leak_watt), repr(costs.area_m2), costs.source))
    TABLE.write_text(text.getvalue(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
