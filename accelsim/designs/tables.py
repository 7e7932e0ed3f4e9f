"""Tables of a sweep: one row for each design, one for each layer of each design, and the times, which are kept apart.

Rows stand in a fixed order and hold nothing that depends on when, where or how fast they were made; so equal sweeps
give equal files, however many workers there were and however often the run was stopped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from accelsim import __version__
from accelsim.designs import store
from accelsim.designs.checking import Parameter
from accelsim.designs.sweep import COLUMNS, Sweep
from accelsim.inputs import expression
from accelsim.inputs.errors import AccelsimError, Unreadable
from accelsim.inputs.expression import ExpressionError, Value
from accelsim.inputs.library import hash_file, read_json
from accelsim.results import output_schema as form
from accelsim.results import to_json

DESIGNS, RESULTS, SECONDS, ABOUT = "designs.parquet", "results.parquet", "seconds.parquet", "sweep.json"
_DESIGN = {
    "status": "text", "reason": "text", "front": "bool", "energy_pj": "float", "cycles": "float", "time_s": "float",
    "edp_pj_cycles": "float", "power_w": "float", "area_um2": "float", "bound_energy_pj": "float",
    "bound_cycles": "float",
}  # fmt: skip
_RESULT = {
    "network": "text", "layer": "text", "repeat": "int", "weight": "float", "status": "text", "macs": "int",
    "energy_pj": "float", "cycles": "float", "utilization": "float", "bottleneck": "text", "outer_words": "int",
    "energy_by_component": "text", "mapping": "text", "objective": "text", "value": "float", "bound": "float",
    "proved": "bool", "nodes": "int", "evaluated": "int", "stop": "text", "bound_energy_pj": "float",
    "bound_cycles": "float", "key": "text", "version": "text", "sweep_sha256": "text", "architecture_sha256": "text",
    "workload_sha256": "text",
}  # fmt: skip
_COSTS = ("status", "energy_pj", "cycles", "utilization", "bottleneck", "outer_words", "energy_by_component", "key")
_PROOF = ("mapping", "value", "bound", "proved", "nodes", "evaluated", "stop")
"""What a row of a layer has of the work that costs its mapping, and of the one that found it."""
_POINT = {"point": "int", "choices": "text", "choice": "int"}
"""Columns of a joint front: a point of a design with the numbers of its mappings, a layer each; such a number."""
_AGAIN = "start the sweep again to write it"
_INPUTS = form.named(form.record(file=form.TEXT, sha256=form.TEXT))
_ABOUT = form.record(
    name=form.TEXT,
    inputs=form.JsonKind({**_INPUTS.form, "required": ["architecture"]}),
    objectives=form.rows(form.TEXT),
    columns=form.JsonKind({**form.rows(form.word(*COLUMNS.values())).form, "minItems": 1}),
    parameters=form.named(form.rows(form.TEXT)),
    networks=form.named(form.NUMBER),
    per=form.or_null(form.TEXT),
)
"""What the tables need of what `about` says."""
_SECOND = {"design": "int", "network": "text", "layer": "text", "seconds": "float"}


def column_kind(parameter: Parameter) -> str:
    """Type of the column of a parameter: its plain numbers as such, quantities as they are written."""
    if parameter.kind != expression.NUMBER:
        return "text"
    whole = all(text.lstrip("+-").isdigit() for text in parameter.values)
    return "int" if whole else "float"


def parameter_cells(sweep: Sweep, record: store.Record) -> dict[str, Any]:
    """Values of the parameters of a design."""
    cast = {"int": int, "float": float, "text": str}
    return {p.name: cast[column_kind(p)](text) for p, text in zip(sweep.parameters, record.design.values, strict=True)}


def design_rows(explored: store.Explored) -> list[dict[str, Any]]:
    """Rows of designs: parameters, status, totals over all networks, and whether they are on the front.

    One row for each design; of a joint front one for each of its points, and one for each design that has none.
    """
    best = store.front(explored.points)
    points = sorted(explored.joint.points if explored.joint else (), key=lambda each: each.energy_pj)
    rows = []
    for record in explored.records:
        row = {"design": record.design.number, **parameter_cells(explored.sweep, record), "status": record.status}
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
            row |= {**hashes, "workload_sha256": of_networks[network.name], "objective": sweep.mapper.objective}
            if record.bounds:
                row |= {"bound_energy_pj": record.bounds[at].energy_pj, "bound_cycles": record.bounds[at].cycles}
            if record.keys:
                row |= {name: rows[record.keys[different]][name] for name in _COSTS}
                row |= {name: rows[record.searches[different]][name] for name in _PROOF}
            found.append(row)
    return found


def write_tables(explored: store.Explored) -> None:
    """Write the tables of a sweep, and what they come from, into its folder."""
    sweep = explored.sweep
    results = result_rows(explored)
    seconds = [{**row, "seconds": explored.store.rows[str(row["key"])]["seconds"]} for row in results if row.get("key")]
    parameters = {"design": "int", **{p.name: column_kind(p) for p in sweep.parameters}}
    proof: dict[str, Any] = {}
    if explored.joint is not None:
        parameters |= _POINT
        proof = {"joint": explored.joint.about()}
    explored.store.write(
        {
            DESIGNS: store.parquet_bytes(explored.rows, {**parameters, **_DESIGN}),
            RESULTS: store.parquet_bytes(results, {**parameters, **_RESULT}),
            SECONDS: store.parquet_bytes(seconds, _SECOND),
            ABOUT: to_json({**about(sweep), **proof}).encode(),
        }
    )


def about(sweep: Sweep) -> dict[str, Any]:
    """Where the tables come from, as plain values."""
    files = {"sweep": sweep.file, "architecture": sweep.architecture}
    files |= {f"workload {network.name}": network.file for network in sweep.networks}
    if sweep.mapper.constraints_file is not None:
        files["constraints"] = sweep.mapper.constraints_file
    return {
        "accelsim": __version__,
        "command": "explore",
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
        "mapper_objective": sweep.mapper.objective,
    }


def read_designs(folder: str | PathLike[str]) -> list[dict[str, Any]]:
    """Rows of the table of designs in a folder.

    Raises
    ------
    AccelsimError
        If it cannot be read, or the sweep was stopped before it was written.
    """
    path = Path(folder) / DESIGNS
    parts = len(list((Path(folder) / store.PARTS).glob("*.parquet")))
    if parts and not path.exists():
        raise AccelsimError(
            f"{path}: the sweep was stopped before its tables were written; {parts} part{'s' if parts > 1 else ''} of "
            "finished work are kept: start the sweep again with -o on this folder to go on"
        )
    rows = store.read_parquet(path)
    if rows and not {"design", *_DESIGN} <= rows[0].keys():
        raise AccelsimError(f"{path}: this is no table of designs; {_AGAIN}")
    return rows


def read_about(folder: str | PathLike[str]) -> dict[str, Any]:
    """What the tables in a folder come from, as `about` says it; raises AccelsimError if it cannot be read."""
    path = Path(folder) / ABOUT
    try:
        found = read_json(path)
    except Unreadable as error:
        raise AccelsimError(f"{error}; {_AGAIN}") from None
    if form.misfits({**_ABOUT.form, "additionalProperties": True}, found):
        raise AccelsimError(f"{path}: this does not say what a sweep is; {_AGAIN}")
    return dict(found)


def stale(folder: str | PathLike[str]) -> str:
    """Say that the tables of a folder lack finished work: a run was killed, or goes on; empty if they have all."""
    path = Path(folder) / DESIGNS
    written = path.stat().st_mtime if path.exists() else math.inf
    later = sum(part.stat().st_mtime > written for part in (Path(folder) / store.PARTS).glob("*.parquet"))
    if not later:
        return ""
    what = f"{later} part{'s' if later > 1 else ''} of finished work came later"
    return f"{path}: {what}; start the sweep again to add what they hold\n"


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
