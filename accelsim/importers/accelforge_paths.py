"""Paths of AccelForge's architectures: the nodes from the outermost memory to the unit that serves the layers.

A `!Fork` is a branch: what stands behind it lies below the node before it. Each Einsum runs on one unit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accelsim.importers.accelforge_workload import ROLE_NAMES, Layer
from accelsim.importers.documents import Map, Note, Seq, refuse
from accelsim.importers.values import FormulaError, UndefinedNameError, Value, work_out
from accelsim.inputs.units import listed
from accelsim.inputs.workload import OPERATIONS

_THREE = {"All": frozenset(ROLE_NAMES), **{name: frozenset({name}) for name in ROLE_NAMES}}
"""Sets of a layer with two inputs and an output."""
_RENAMED = {"latency": "total_latency", "datawidth": "bits_per_value", "must_reuse": "reuse"}
_RENAMED |= {"min_utilization": "min_usage"}
"""Keys of nodes and of their axes until 2025, and their names since."""
_OF_NODES = {"size", "area", "leak_power", "leak_power_scale", "energy", "energy_scale", "total_latency", *_RENAMED}
_ROUNDS, _LONGEST = 8, 1000


def paths_of(arch: Map, notes: list[Note]) -> list[list[Map]]:
    """Nodes of each branch, from the outermost inwards, and last those behind all branches; those of 2025 rewritten."""
    paths = _branches(arch.value("nodes", Seq), [])
    nodes = {id(node): node for path in paths for node in path}.values()
    if any("constraints" in node for node in nodes):  # beside them, what axes may reuse was their `reuse`
        for axis in (axis for node in nodes for axis in node.rows("spatial") if "reuse" in axis):
            _move(axis, "reuse", axis, "may_reuse")
    for node in nodes:
        _settle_attributes(node)
        _settle_constraints(node, notes)
    return paths


def _move(of: Map, key: str, to: Map, name: str, held: Any = None) -> None:
    """Let what stands under a key of one map stand under a name in another."""
    to.marks.setdefault(name, of.where(key))
    found = of.pop(key)
    to.setdefault(name, found if held is None else held)


def _settle_attributes(node: Map) -> None:
    """Let the `attributes` and `arguments` of 2025 stand at the node and its actions; some name others of the node."""
    given = node.inner("attributes")
    names = {key.lstrip("_"): f"({held})" for key, held in given.items()}

    def worked_in(held: Any) -> Any:
        """A formula with the attributes of the node in it."""
        for _ in range(_ROUNDS if isinstance(held, str) else 0):
            if len(held) < _LONGEST:
                held = re.sub(r"[A-Za-z_]\w*", lambda word: names.get(word[0], word[0]), held)
        return held

    for key in [*given]:
        name, held = key.lstrip("_"), worked_in(given[key])
        if name == "datawidth" and not isinstance(held, Map):
            held = Map(given.where(key), held={"All": held})
        if key.startswith("_") or name in _OF_NODES:
            _move(given, key, node, _RENAMED.get(name, name), held)
    node.pop("attributes", None)
    if given:
        node.setdefault("extra_attributes_for_component_model", given)
    if "energy" in node:  # of all actions
        kinds = {"!Memory": ("read", "write"), "!Compute": ("compute",)}.get(node.tag, ())
        made = [Map(node.where("energy"), held={"name": kind}) for kind in kinds]
        energy = node.pop("energy")
        for action in node.value("actions", Seq, node.setdefault("actions", Seq(node.mark, held=made))):
            action.setdefault("energy", energy)
    for action in node.rows("actions"):
        arguments = action.inner("arguments")
        for key in [*arguments]:
            _move(arguments, key, action, key.lstrip("_"), worked_in(arguments[key]))
        action.pop("arguments", None)


def _settle_constraints(node: Map, notes: list[Note]) -> None:
    """Let the `constraints` of 2025 stand at the node and its axes; what only spreads its words stores nothing."""
    asked = node.inner("constraints")
    node.pop("constraints", None)
    enabled, spatial = asked.inner("misc"), asked.rows("spatial")
    for of, key in ((asked, "tensors"), (enabled, "enabled")):
        if key in of:
            _move(of, key, node, key)
    axes = {str(axis.get("name")): axis for axis in node.rows("spatial")}
    for one in spatial:
        axis = axes.get(str(one.pop("name", None)))
        for key in [*one]:
            if axis is None:
                notes.append(one.note(key, f"is left out: {node.get('name')} has no such axis"))
            else:
                _move(one, key, axis, _RENAMED.get(key, key))
    left = [key for key in asked if key not in ("misc", "spatial")]
    notes += [asked.note(key, "is not asked for here") for key in left]
    tensors = node.inner("tensors")
    if asked and node.tag == "!Memory" and tensors.get("keep") == "Nothing" and "may_keep" not in tensors:
        node.tag = "!Container"
        node.pop("actions", None)


def _branches(nodes: Seq, above: list[Map]) -> list[list[Map]]:
    """Nodes from the outermost to the innermost, of the branches of each `!Fork` first; `above` grows to the last."""
    found = list[list[Map]]()
    for node in nodes.maps():
        node.tag = node.tag.replace("!Fanout", "!Container")  # its name until 2026
        kind = node.tag.lstrip("!")
        if kind in ("Hierarchical", "Fork"):
            found += _branches(node.value("nodes", Seq), above if kind == "Hierarchical" else [*above])
            found = found[:-1] if kind == "Hierarchical" else found
        elif kind == "Parallel":
            branches = node.value("nodes", Seq).maps()
            found += [path for one in branches for path in _branches(Seq(one.mark, held=[one]), [*above])]
        elif kind == "Network" and "nodes" in node:
            hint = "write them one below the other, or each in a !Fork: units on branches are the engines of a system"
            raise refuse(node.where("nodes"), "parts side by side on a network", hint)
        elif kind in ("Memory", "Container", "Compute", "Toll", "Network"):
            above.append(node)
        else:
            raise refuse(node.mark, f"!{kind}: accelsim's levels are a ladder of !Memory and !Container above !Compute")
    return [*found, above]


def _serves(node: Map, sets: Mapping[str, Value]) -> bool:
    """Whether a node serves a layer with such sets of tensors; one that it has not is empty."""
    text, known = str(node.get("enabled", True)), dict(sets)
    while True:
        try:
            return bool(work_out(text, known))
        except UndefinedNameError as error:
            known[error.name] = frozenset()
        except FormulaError as error:
            raise node.refuse("enabled", str(error)) from None


def _chosen(paths: Sequence[list[Map]], layers: Sequence[Layer], notes: list[Note]) -> list[list[Map]]:
    """The paths whose own units serve the layers, of several as far as these; the last, without branches."""
    sets, main = [layer.sets for layer in layers] or [_THREE], paths[-1]
    trunk, units = {id(node) for node in main}, dict[int, tuple[Map, list[Map]]]()
    for path in reversed(paths):  # those that others branch off from come first
        own = (node for node in path if node.tag == "!Compute" and (path is main or id(node) not in trunk))
        serving = (node for node in own if id(node) not in units and any(_serves(node, of) for of in sets))
        units |= {id(node): (node, path) for node in [*serving]}
    chosen = [path for _, path in units.values()] or [main]
    if len(units) > 1:
        at = sorted(units.values(), key=lambda pair: (pair[0].mark.file, pair[0].mark.line, pair[0].mark.column))
        ways = ((unit, path[: next(k for k, node in enumerate(path) if node is unit)]) for unit, path in at)
        chosen = [[*(node for node in way if node.tag != "!Compute"), unit] for unit, way in ways]
    taken = {id(node) for path in chosen for node in path}
    others = {id(node): node for path in paths for node in path if id(node) not in taken}
    why = f"lies on another branch than {listed(str(path[-1].get('name')) for path in chosen)}"
    notes += [Note(node.mark, str(node.get("name")), why) for node in others.values()]
    return chosen


@dataclass(frozen=True, slots=True)
class OtherUnit:
    """A unit beside the array, the memory above it, the layers that it runs, and the operation that they get here."""

    node: Map
    above: Map
    layers: tuple[Layer, ...]
    operation: str


def of_one_unit(
    paths: Sequence[list[Map]], workload: dict[str, Any] | None, layers: list[Layer], notes: list[Note]
) -> tuple[dict[str, Any] | None, list[Layer], list[OtherUnit]]:
    """Layers that the same nodes serve, those of three tensors if there are any; and other units with their layers.

    These are below a memory that serves the former, too. Layers that other memories serve are left out.
    """
    nodes = list({id(node): node for path in paths for node in path}.values())
    served = {layer.name: tuple(_serves(node, layer.sets) for node in nodes) for layer in layers}
    if workload is None or len(set(served.values())) < 2:
        return workload, layers, []
    tensors = {layer.name: len(layer.sets["All"]) for layer in layers}
    wanted = max(tensors, key=lambda name: (tensors[name] == 3, tensors[name]))
    main = _chain(paths, served[wanted], nodes)
    units, left = list[OtherUnit](), list[str]()
    for each in dict.fromkeys(serves for serves in served.values() if serves != served[wanted]):
        its = tuple(layer for layer in layers if served[layer.name] == each)
        nodes_of_it = _chain(paths, each, nodes)
        above = nodes_of_it[:-1]
        memories = [node for node in above if node.tag == "!Memory"]
        if not memories or above != main[: len(above)] or len(units) == len(OPERATIONS) - 1:
            left += [layer.name for layer in its]
        else:
            units.append(OtherUnit(nodes_of_it[-1], memories[-1], its, OPERATIONS[-1 - len(units)]))
    for name in left:
        why = f"layers of {tensors[name]} tensors are left out: other nodes serve them than those of {tensors[wanted]}"
        notes.append(Note(nodes[0].mark, "enabled", why, name))
    operations = {layer.name: {"operation": unit.operation} for unit in units for layer in unit.layers}
    kept = [
        dict(layer) | operations.get(layer["name"], {}) for layer in workload["layers"] if layer["name"] not in left
    ]
    for layer in kept:
        feeds = {tensor: source for tensor, source in layer.pop("from", {}).items() if source not in left}
        layer |= {"from": feeds} if feeds else {}
    main_layers = [layer for layer in layers if served[layer.name] == served[wanted]]
    return workload | {"layers": kept}, main_layers, units


def _chain(paths: Sequence[list[Map]], serves: Sequence[bool], nodes: Sequence[Map]) -> list[Map]:
    """Nodes of the first path that serve some layers, up to the unit that computes; none if no path has one."""
    serving = {id(node) for node, its in zip(nodes, serves, strict=True) if its}
    for path in paths:
        chain = [node for node in path if id(node) in serving]
        at = next((at for at, node in enumerate(chain) if node.tag == "!Compute"), None)
        if at is not None:
            return chain[: at + 1]
    return []


def nodes_of(
    paths: Sequence[list[Map]], layers: Sequence[Layer], notes: list[Note], others: Sequence[Map] = ()
) -> list[list[Map]]:
    """Nodes of each path that serve the layers, but other units; without layers, those of two inputs and an output."""
    out = {id(node) for node in others}
    paths = [[node for node in path if id(node) not in out] for path in paths]
    return [_serving(path, layers, notes) for path in _chosen(paths, layers, notes)]


def _serving(path: Sequence[Map], layers: Sequence[Layer], notes: list[Note]) -> list[Map]:
    found = list[Map]()
    for node in path:
        serves = {_serves(node, sets) for sets in [layer.sets for layer in layers] or [_THREE]}
        if serves == {True} and any(other.tag == "!Compute" for other in found):
            notes.append(Note(node.mark, str(node.get("name")), f"lies beyond {found[-1].get('name')}, which computes"))
        elif serves == {True}:
            found.append(node)
        else:
            notes.append(Note(node.where("enabled"), str(node.get("name")), f"serves no layer here: {node['enabled']}"))
    return found
