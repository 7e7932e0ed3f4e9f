"""What a worker does: map a layer onto a machine, evaluate a mapping, or find what no mapping falls below."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from accelsim import __version__
from accelsim.designs.machines import unlimited
from accelsim.designs.sweep import Mapper
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import AccelsimError, NoValidMappingError, TablesTooLarge
from accelsim.inputs.mapping import Mapping
from accelsim.inputs.objective import FASTEST, LEAST_ENERGY, Objective
from accelsim.inputs.workload import Einsum
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.model.evaluate import evaluate
from accelsim.results.cache import hash_of_code, rules_broken
from accelsim.results.output import mapping_json, read_mapping_json
from accelsim.search.result import Certificate
from accelsim.search.stopping import Budget

MAP, MAP_FREE, EVALUATE, BOUND, FRONT = "map", "map without bandwidths", "evaluate", "bound", "front"
_SAME = 1e-12
"""Relative difference that a value read back may have from one that is evaluated anew."""
WorkRow = dict[str, Any]


def installed() -> str:
    """Which accelsim this process has."""
    return f"{__version__} (code {hash_of_code()[:8]})"


@dataclass(frozen=True, slots=True)
class Plan:
    """What all pieces of work share: layers, and what is asked of the mapper. It travels to a worker once."""

    einsums: tuple[Einsum, ...]
    mapper: Mapper
    version: str = field(default_factory=installed)


@dataclass(frozen=True, slots=True)
class Item:
    """A piece of work: its name, what is done, on which machine, with which layer, and with which mapping."""

    key: str
    what: str
    architecture: Architecture
    layer: int
    mapping: str = ""


def work(plan: Plan, items: Sequence[Item]) -> list[WorkRow]:
    """Do pieces of work one after the other, each in one thread.

    Raises KeyboardInterrupt on Ctrl-C, also where the mapper itself would have kept what it had found.
    """
    if plan.version != installed():
        raise AccelsimError(f"a worker has accelsim {installed()}, not {plan.version}; install the same version there")
    rows = []
    for item in items:
        started = time.perf_counter()
        row = _done(plan, item)
        rows.append({"key": item.key, "what": item.what, **row, "seconds": time.perf_counter() - started})
    return rows


def _done(plan: Plan, item: Item) -> WorkRow:
    einsum = plan.einsums[item.layer]
    try:
        if item.what == EVALUATE:
            return _evaluated(item.architecture, einsum, item.mapping)
        if item.what == BOUND:
            return _bounded(plan.mapper, item.architecture, einsum)
        if item.what == FRONT:
            return _front(plan.mapper, item.architecture, einsum)
        machine = unlimited(item.architecture) if item.what == MAP_FREE else item.architecture
        return _mapped(plan.mapper, machine, einsum)
    except NoValidMappingError as error:
        proved = {"proved": error.proved} if item.what == FRONT else {}
        return {"status": "no_valid_mapping", "reason": str(error), **proved}
    except AccelsimError as error:
        return {"status": "refused", "reason": str(error)}


def differs(plan: Plan, item: Item, row: Dict[str, Any]) -> str:
    """What a row that was kept says otherwise than its mapping, evaluated again; empty if nothing.

    That no mapping is valid, or that none falls below a bound, takes a search to tell, and is believed.
    """
    if row["what"] != item.what:
        return f"it is of other work: {row['what']}"
    if row["status"] in ("no_valid_mapping", "refused"):
        return ""
    if item.what == BOUND:
        least = row["energy_pj"], row["cycles"]
        known = row["status"] == "bounded" and all(isinstance(each, float) and each >= 0 for each in least)
        return "" if known else f"it bounds nothing: {row['status']}, {least[0]} pJ, {least[1]} cycles"
    try:
        return _mapping_differs(plan, item, row)
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        AccelsimError,
    ) as error:
        return f"it is no result of {plan.einsums[item.layer].name}: {error}"


def _mapping_differs(plan: Plan, item: Item, row: Dict[str, Any]) -> str:
    """As `differs`, of a mapping; raises whatever a value of another kind leads to."""
    if row["status"] != "mapped":
        return f"it is no mapping: {row['status']}"
    if item.what == FRONT:
        return _front_differs(plan, item, row)
    einsum, searched = plan.einsums[item.layer], item.what != EVALUATE
    machine = unlimited(item.architecture) if item.what == MAP_FREE else item.architecture
    result = evaluate(machine, einsum, read_mapping_json(json.loads(row["mapping"] if searched else item.mapping)))
    constraints = plan.mapper.constraints and plan.mapper.constraints.settled(machine, einsum)
    if broken := rules_broken(result, constraints, einsum):
        return "; ".join(broken)
    found = _result_row(result)
    if searched:
        proof = Certificate(float(row["value"]), float(row["bound"]), row["nodes"], row["evaluated"], 0)
        found["value"] = Objective.parse(plan.mapper.options.objective).of(result)
        found["proved"] = proof.proved and row["stop"] == "exhausted"
    wrong = [name for name, value in found.items() if not _same(row[name], value)]
    return f"{wrong[0]} is {row[wrong[0]]}, and {found[wrong[0]]} by its mapping and bound" if wrong else ""


def _front_differs(plan: Plan, item: Item, row: Dict[str, Any]) -> str:
    """As `_mapping_differs`, of each mapping of a front; that none is missing is believed."""
    for each in json.loads(row["mapping"]):
        one = replace(item, what=EVALUATE, mapping=json.dumps(each["mapping"]))
        found = _evaluated(item.architecture, plan.einsums[item.layer], one.mapping)
        why = _mapping_differs(plan, one, {**found, "energy_pj": each["energy_pj"], "cycles": each["cycles"]})
        if why:
            return why
    return ""


def _same(kept: Any, found: Any) -> bool:
    if isinstance(found, float) and isinstance(kept, float):
        return math.isclose(kept, found, rel_tol=_SAME)
    if isinstance(found, str) and found.startswith("{") and isinstance(kept, str):
        a, b = json.loads(kept), json.loads(found)
        return a.keys() == b.keys() and all(map(_same, a.values(), b.values()))
    return bool(kept == found)


def _asked(mapper: Mapper) -> dict[str, Any]:
    """What every search of a sweep is asked for, in one process."""
    budget = None if mapper.seconds is None else Budget(seconds=mapper.seconds)
    return {"constraints": mapper.constraints, "budget": budget, "workers": 1}


def _mapped(mapper: Mapper, architecture: Architecture, einsum: Einsum) -> WorkRow:
    from accelsim.search.mapper import map_einsum

    found = map_einsum(architecture, einsum, **asdict(mapper.options), **_asked(mapper))
    if found.stop == "interrupted":
        raise KeyboardInterrupt
    proof = found.certificate
    assert proof is not None  # the exact search proves something always
    parts = [part for part in (*found.parts, found.proof) if part is not None and part.proved]
    certificate = {name: getattr(proof, name) for name in ("value", "bound", "proved", "nodes", "evaluated")}
    certificate |= {"space": str(found.space), "proved_among": str(parts[-1].space) if parts else ""}
    return {**_result_row(found.best), "mapping": mapping_text(found.best.mapping), "stop": found.stop, **certificate}


def _front(mapper: Mapper, architecture: Architecture, einsum: Einsum) -> WorkRow:
    """Mappings that no other one beats in energy and cycles, or the best one where only one of these counts."""
    from accelsim.search.exact.front import map_front

    options = mapper.options
    if options.objective != "edp":
        row = _mapped(mapper, architecture, einsum)
        points = [{"energy_pj": row["energy_pj"], "cycles": row["cycles"], "mapping": json.loads(row["mapping"])}]
        return {**row, "mapping": json.dumps(points, separators=(",", ":"))}
    found = map_front(
        architecture, einsum, uneven=options.uneven, imperfect=options.imperfect, pad=options.pad, **_asked(mapper)
    )
    if found.stop == "interrupted":
        raise KeyboardInterrupt
    points = [
        {"energy_pj": each.energy_pj, "cycles": each.cycles, "mapping": json.loads(mapping_text(each.mapping))}
        for each in found.points
    ]
    return {
        "status": "mapped",
        "reason": "",
        "macs": einsum.macs,
        "energy_pj": min(each["energy_pj"] for each in points),
        "cycles": float(min(each["cycles"] for each in points)),
        "mapping": json.dumps(points, separators=(",", ":")),
        "stop": found.stop,
        "proved": found.stop == "exhausted",
        "nodes": found.nodes,
        "evaluated": found.evaluated,
    }


def _evaluated(architecture: Architecture, einsum: Einsum, mapping: str) -> WorkRow:
    return _result_row(evaluate(architecture, einsum, read_mapping_json(json.loads(mapping))))


def _result_row(result: Any) -> WorkRow:
    parts: dict[str, float] = {}
    for row in result.energy_rows():
        parts[row["component"]] = parts.get(row["component"], 0.0) + row["energy_pj"]
    names = ("macs", "energy_pj", "cycles", "utilization", "bottleneck", "offchip_words")
    costs = {name: getattr(result, name) for name in names}
    return {"status": "mapped", "reason": "", **costs, "energy_by_component": json.dumps(parts)}


def _bounded(mapper: Mapper, architecture: Architecture, einsum: Einsum) -> WorkRow:
    """Bounds of energy and cycles that the tables of the exact search prove before it looks at a mapping."""
    from accelsim.search.exact.solve import Solver

    try:
        solver = Solver(MapSpace(encode(architecture, einsum), mapper.constraints), cycles=True)
    except TablesTooLarge:  # nothing is proved, and so nothing is pruned
        return {"status": "bounded", "reason": "", "energy_pj": 0.0, "cycles": 0.0}
    energy, cycles = (solver.search(objective=each, limit=0.0).root_bound for each in (LEAST_ENERGY, FASTEST))
    return {"status": "bounded", "reason": "", "energy_pj": energy * (1 - 1e-9), "cycles": cycles * (1 - 1e-9)}


def mapping_text(mapping: Mapping) -> str:
    """One line of JSON that holds a mapping as result.json does."""
    nest = {"mapping": mapping_json(mapping), "imperfect": sorted(mapping.imperfect), "padded": mapping.padding}
    return json.dumps(nest, separators=(",", ":"))
