"""Tables of a sweep: one row for each design, and one for each layer of each design.

Rows stand in a fixed order and hold nothing that depends on when, where or how fast they were made; so equal sweeps
give equal files, however many workers there were and however often the run was stopped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from accelsim import __version__
from accelsim.designs import store
from accelsim.designs.sweep import COLUMNS, Sweep
from accelsim.inputs import expression
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.expression import ExpressionError, Value
from accelsim.inputs.library import hash_file
from accelsim.results import csv_text, to_json
from accelsim.results.verifying import many

DESIGNS, RESULTS, ABOUT = "designs", "results", "sweep.json"
"""Names of tables, without the ending, and of the file that says what they come from."""
_DESIGN = {
    "status": "text", "reason": "text", "front": "bool", "energy_pj": "float", "cycles": "float", "time_s": "float",
    "edp_pj_cycles": "float", "power_w": "float", "area_um2": "float", "bound_energy_pj": "float",
    "bound_cycles": "float",
}  # fmt: skip
_RESULT = (
    "network", "layer", "repeat", "weight", "status", "macs", "energy_pj", "cycles", "utilization", "bottleneck",
    "offchip_words", "energy_by_component", "mapping", "objective", "value", "bound", "proved", "space", "proved_among",
    "nodes", "evaluated", "stop", "bound_energy_pj", "bound_cycles", "key", "version", "sweep_sha256",
    "architecture_sha256", "workload_sha256",
)  # fmt: skip
_COSTS = ("status", "energy_pj", "cycles", "utilization", "bottleneck", "offchip_words", "energy_by_component", "key")
_PROOF = ("mapping", "value", "bound", "proved", "space", "proved_among", "nodes", "evaluated", "stop")
"""What a row of a layer has of the work that costs its mapping, and of the one that found it."""
_POINT = ("point", "choices", "choice")
"""Columns of a joint front: a point of a design with the numbers of its mappings, a layer each; such a number."""


def parameter_cells(sweep: Sweep, record: store.Record) -> dict[str, Any]:
    """Values of the parameters of a design: plain numbers as such, quantities as they are written."""
    found: dict[str, Any] = {}
    for parameter, text in zip(sweep.parameters, record.design.values, strict=True):
        whole = all(each.lstrip("+-").isdigit() for each in parameter.values)
        found[parameter.name] = text if parameter.kind != expression.NUMBER else int(text) if whole else float(text)
    return found


def design_rows(explored: store.Explored) -> list[dict[str, Any]]:
    """Rows of designs: parameters, status, totals over all networks, and whether they are on the front.

    One row for each design; of a joint front one for each of its points, and one for each design that has none.
    """
    best = store.front(explored.points)
    points = sorted(explored.joint.points if explored.joint else (), key=lambda each: each.energy_pj)
    rows = []
    for record in explored.records:
        row = {"design": record.design.number, **parameter_cells(explored.sweep, record)}
        row |= {**dict.fromkeys(_DESIGN), "status": record.status}
        row |= {"reason": record.reason, "front": record.design.number in best, "area_um2": record.area_um2}
        if record.totals is not None:
            row |= totals_row(record.totals)
        if record.bounds and record.load is not None:
            pairs = list(zip(record.load.weights, record.bounds, strict=True))
            row["bound_energy_pj"] = sum(weight * bound.energy_pj for weight, bound in pairs)
            row["bound_cycles"] = sum(weight * bound.cycles for weight, bound in pairs)
        own = [each for each in points if each.record is record]
        for number, each in enumerate(own):
            place = {"front": True, "point": number, "choices": json.dumps(each.choice)}
            rows.append({**row, **totals_row(each.totals), **place})
        rows += [] if own else [row]
    return rows


def totals_row(totals: store.DesignTotals) -> dict[str, float | None]:
    """What a design costs, as columns."""
    return {**asdict(totals), "edp_pj_cycles": totals.edp_pj_cycles}


def _joint_result_rows(explored: store.Explored, joint: store.Joint) -> list[dict[str, Any]]:
    """One row for each mapping of each layer of each design on the joint front."""
    sweep, rows = explored.sweep, []
    used: dict[int, list[store.JointPoint]] = {}
    for each in joint.points:
        used.setdefault(each.record.design.number, []).append(each)
    for _, points in sorted(used.items()):
        record, first = points[0].record, points[0]
        assert record.load is not None
        head = {"design": record.design.number, **parameter_cells(sweep, record), "status": record.status}
        for at, (network, layer) in enumerate(record.load.layers):
            number = record.load.layer_of[at]
            own = {"network": network.name, "layer": layer.name, "repeat": layer.repeat, "macs": layer.macs}
            own |= {"weight": record.load.weights[at] / layer.repeat, "version": __version__}
            for choice in sorted({each.choice[at] for each in points}):
                energy, cycles = first.costs[number][choice].tolist()
                cost = {"energy_pj": energy, "cycles": cycles, "mapping": first.mappings[number][choice]}
                rows.append({**head, **own, "choice": choice, **cost})
    return rows


def result_rows(explored: store.Explored) -> list[dict[str, Any]]:
    """One row for each layer of each design that was mapped or pruned."""
    if explored.joint is not None:
        return _joint_result_rows(explored, explored.joint)
    sweep, rows = explored.sweep, explored.store.rows
    hashes = {"sweep_sha256": hash_file(sweep.file.path), "architecture_sha256": hash_file(sweep.architecture.path)}
    of_networks = {network.name: hash_file(network.file.path) for network in sweep.networks}
    found = []
    for record in explored.records:
        head = {"design": record.design.number, **parameter_cells(sweep, record)}
        if record.load is None or (not record.keys and record.status != "pruned"):
            continue
        for at, (network, layer) in enumerate(record.load.layers):
            different = record.load.layer_of[at]
            row: dict[str, Any] = {**head, "network": network.name, "layer": layer.name, "repeat": layer.repeat}
            row |= {"weight": network.weight / (network.yields[sweep.per] if sweep.per else 1)}
            row |= {"status": record.status, "version": __version__, "macs": layer.macs}
            row |= {**hashes, "workload_sha256": of_networks[network.name], "objective": sweep.mapper.options.objective}
            if record.bounds:
                row |= {"bound_energy_pj": record.bounds[at].energy_pj, "bound_cycles": record.bounds[at].cycles}
            if record.keys:
                row |= {name: rows[record.keys[different]][name] for name in _COSTS}
                row |= {name: rows[record.searches[different]].get(name) for name in _PROOF}
            found.append(row)
    return found


def _proved(explored: store.Explored) -> list[dict[str, Any]]:
    """How many searches of layers looked at which mappings, and among which of these the best one is proved optimal."""
    keys = {key for record in explored.records for key in record.searches}
    rows = (row for key in keys if (row := explored.store.rows[key])["status"] == "mapped")
    found = Counter((row["space"], row["proved_among"]) for row in rows)
    return [
        {"space": space, "proved_among": proved, "searches": many} for (space, proved), many in sorted(found.items())
    ]


def write_tables(explored: store.Explored) -> None:
    """Write the tables of a sweep, and what they come from, into its folder."""
    columns = ["design", *(p.name for p in explored.sweep.parameters)]
    said = {**about(explored.sweep), "proved": _proved(explored)}
    if explored.joint is not None:
        columns, said = [*columns, *_POINT], {**said, "joint": explored.joint.about()}
    files = {ABOUT: to_json(said).encode()}
    for name, rows, more in ((DESIGNS, explored.rows, _DESIGN), (RESULTS, result_rows(explored), _RESULT)):
        files[f"{name}.csv"] = csv_text(rows, [*columns, *more]).encode()
    tables = {"about": said, "designs": explored.rows, "work": len(explored.store.rows)}
    explored.store.write({store.TABLES: tables}, files)


def about(sweep: Sweep) -> dict[str, Any]:
    """Where the tables come from, as plain values."""
    files = {"sweep": sweep.file, "architecture": sweep.architecture}
    files |= {f"workload {network.name}": network.file for network in sweep.networks}
    if sweep.mapper.constraints_file is not None:
        files["constraints"] = sweep.mapper.constraints_file
    return {
        "accelsim": __version__,
        "command": "sweep",
        "inputs": {kind: {"file": file.given, "sha256": hash_file(file.path)} for kind, file in files.items()},
        "overrides": dict(sweep.fixed),
        "name": sweep.name,
        "objectives": list(sweep.objectives),
        "columns": [COLUMNS[name] for name in sweep.objectives],
        "parameters": {p.name: list(p.values) for p in sweep.parameters},
        "conditions": [each.text for each in sweep.conditions],
        "per": sweep.per or None,
        "strategy": sweep.strategy,
        "seed": sweep.seed,
        "pruned": sweep.prune,
        "networks": {network.name: network.weight for network in sweep.networks},
        "mapper_objective": sweep.mapper.options.objective,
    }


def read_tables(folder: str | PathLike[str]) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """What the tables in a folder come from, rows of the one of designs, and a line if later work is not in them.

    Raises AccelsimError if they cannot be read, or the sweep was stopped before they were written.
    """
    file = store.work_file(Path(folder))
    try:
        found = dict(file.read(store.TABLES)).get(store.TABLES)
        size = file.size()[0]
    except OSError as error:
        raise AccelsimError(f"{file.path}: cannot be read: {error.strerror}; start the sweep again") from None
    if found is None and size:
        why = f"the sweep was stopped before its tables were written, with {many(size, 'result')} of finished work kept"
        raise AccelsimError(f"{file.path}: {why}: start the sweep again with -o on this folder to go on")
    if found is None:
        raise AccelsimError(f"{file.path}: no such file; run the sweep first")
    if any(not {"design", *_DESIGN} <= row.keys() for row in found["designs"]):
        raise AccelsimError(f"{file.path}: its tables are of another version; start the sweep again to write them")
    later = size - 1 - found["work"]
    what = (
        f"{file.path}: {many(later, 'result')} of finished work came later; start the sweep again to add what they hold"
    )
    return found["about"], found["designs"], what if later > 0 else ""


def where(
    rows: Sequence[Mapping[str, Any]], text: str, parameters: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """Rows that meet a condition on their columns.

    `rows`: of the table of designs. `text`: such as `pe.x >= 8 and energy_pj < 1e9 and status == 'mapped'`; a row with
    an empty column that the condition names does not meet it. `parameters`: the values that each parameter takes.
    Raises AccelsimError if the condition cannot be read.
    """
    kinds: dict[str, str] = {"design": expression.NUMBER}
    for name, values in parameters.items():
        found = {expression.quantity(value)[1] for value in values}
        kinds[name] = found.pop() if len(found) == 1 else expression.TEXT
    named = {"float": expression.NUMBER, "int": expression.NUMBER, "text": expression.TEXT, "bool": expression.TRUTH}
    kinds |= {name: named[kind] for name, kind in _DESIGN.items()}
    try:
        read = expression.condition(text, kinds)
        return [dict(row) for row in rows if _meets(read, row, kinds)]
    except ExpressionError as error:
        raise AccelsimError(f"--where: {error} (at character {error.at + 1})") from None


def _meets(read: expression.Expression, row: Mapping[str, Any], kinds: Mapping[str, str]) -> bool:
    values: dict[str, Value] = {}
    for name in read.names:
        cell = row[name]
        if cell is None:
            return False
        is_plain = isinstance(cell, bool) or kinds[name] == expression.TEXT
        values[name] = (
            cell if is_plain else expression.quantity(repr(cell) if isinstance(cell, float) else str(cell))[0]
        )
    return read.holds(values)
