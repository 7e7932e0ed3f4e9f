"""Paths of AccelForge's architectures: the nodes from the outermost memory to the unit that serves the layers.

A `!Fork` is a branch: what stands behind it lies below the node before it. Each Einsum runs on one unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accelsim.importers.accelforge_workload import ROLE_NAMES, Layer
from accelsim.importers.documents import Map, Seq, refuse
from accelsim.importers.foreign import Note
from accelsim.importers.values import FormulaError, UnknownNameError, Value, read_all, tables, value, work_out

_THREE = {"All": frozenset(ROLE_NAMES), **{name: frozenset({name}) for name in ROLE_NAMES}}
"""Sets of a layer with two inputs and an output."""
_OLDER = {"attributes": "size, area, leak_power and energies of actions", "constraints": "tensors, spatial and enabled"}
_OLDER |= {"latency": "total_latency"}
"""Keys of nodes until 2025, and what stands at a node instead."""


def paths_of(arch: Map) -> list[list[Map]]:
    """Nodes of each branch, from the outermost inwards, and last those behind all branches."""
    paths = _branches(value(arch, "nodes", Seq), [])
    read_all(_refuse_older, (node for path in paths for node in path))
    return paths


def _branches(nodes: Seq, above: list[Map]) -> list[list[Map]]:
    """Nodes from the outermost to the innermost, of the branches of each `!Fork` first; `above` grows to the last."""
    found = list[list[Map]]()
    for node in tables(nodes):
        node.tag = node.tag.replace("!Fanout", "!Container")  # its name until 2026
        kind = node.tag.lstrip("!")
        if kind in ("Hierarchical", "Fork"):
            found += _branches(value(node, "nodes", Seq), above if kind == "Hierarchical" else [*above])
            found = found[:-1] if kind == "Hierarchical" else found
        elif kind == "Parallel":
            branches = tables(value(node, "nodes", Seq))
            found += [path for one in branches for path in _branches(Seq(one.mark, held=[one]), [*above])]
        elif kind == "Network" and "nodes" in node:
            raise refuse(node.where("nodes"), "parts side by side on a network; write them one below the other")
        elif kind in ("Memory", "Container", "Compute", "Toll", "Network"):
            above.append(node)
        else:
            raise refuse(node.mark, f"!{kind}: accelsim's levels are a ladder of !Memory and !Container above !Compute")
    return [*found, above]


def _refuse_older(node: Map) -> None:
    if older := [key for key in _OLDER if key in node]:
        what = f"{node.get('name')}: {older[0]}: of an older form of AccelForge, which is not read"
        raise refuse(node.where(older[0]), what, f"write {_OLDER[older[0]]} at the node")


def _serves(node: Map, sets: Mapping[str, Value]) -> bool:
    """Whether a node serves a layer with such sets of tensors; one that it has not is empty."""
    text, known = str(node.get("enabled", True)), dict(sets)
    while True:
        try:
            return bool(work_out(text, known))
        except UnknownNameError as error:
            known[error.name] = frozenset()
        except FormulaError as error:
            raise refuse(node.where("enabled"), str(error)) from None


def _path(paths: Sequence[list[Map]], layers: Sequence[Layer], notes: list[Note]) -> list[Map]:
    """The one path whose own units serve the layers; the last, without branches."""
    sets, main = [layer.sets for layer in layers] or [_THREE], paths[-1]
    trunk, units = {id(node) for node in main}, list[tuple[Map, list[Map]]]()
    for path in paths:
        own = (node for node in path if node.tag == "!Compute" and (path is main or id(node) not in trunk))
        units += [(node, path) for node in own if any(_serves(node, of) for of in sets)][:1]
    if len(units) > 1:
        names = " and ".join(str(unit.get("name")) for unit, _ in units)
        what = f"{names} serve the same layers; a machine here is one path to a unit"
        raise refuse(units[1][0].mark, what, "write `enabled: false` at all !Compute but one")
    chosen = units[0][1] if units else main
    taken, why = {id(node) for node in chosen}, f"lies on another branch than {chosen[-1].get('name')}"
    others = {id(node): node for path in paths for node in path if id(node) not in taken}
    notes += [Note(node.mark, str(node.get("name")), why) for node in others.values()]
    return chosen


def of_one_unit(
    paths: Sequence[list[Map]], workload: dict[str, Any] | None, layers: list[Layer], notes: list[Note]
) -> tuple[dict[str, Any] | None, list[Layer]]:
    """Layers that the same nodes serve, where others serve the others: those of three tensors, if there are any."""
    nodes = [node for path in paths for node in path]
    served = {layer.name: tuple(_serves(node, layer.sets) for node in nodes) for layer in layers}
    if workload is None or len(set(served.values())) < 2:
        return workload, layers
    tensors = {layer.name: len(layer.sets["All"]) for layer in layers}
    wanted = max(tensors, key=lambda name: (tensors[name] == 3, tensors[name]))
    left = [name for name in tensors if served[name] != served[wanted]]
    for name in left:
        why = f"layers of {tensors[name]} tensors are left out: other nodes serve them than those of {tensors[wanted]}"
        notes.append(Note(nodes[0].mark, "enabled", why, name))
    kept = [dict(layer) for layer in workload["layers"] if layer["name"] not in left]
    for layer in kept:
        feeds = {tensor: source for tensor, source in layer.pop("from", {}).items() if source not in left}
        layer |= {"from": feeds} if feeds else {}
    return workload | {"layers": kept}, [layer for layer in layers if layer.name not in left]


def nodes_of(paths: Sequence[list[Map]], layers: Sequence[Layer], notes: list[Note]) -> list[Map]:
    """Nodes of the one path that serve the layers; without layers, those of two inputs and an output."""
    found = list[Map]()
    for node in _path(paths, layers, notes):
        serves = {_serves(node, sets) for sets in [layer.sets for layer in layers] or [_THREE]}
        if serves == {True} and any(other.tag == "!Compute" for other in found):
            notes.append(Note(node.mark, str(node.get("name")), f"lies beyond {found[-1].get('name')}, which computes"))
        elif serves == {True}:
            found.append(node)
        else:
            notes.append(Note(node.where("enabled"), str(node.get("name")), f"serves no layer here: {node['enabled']}"))
    return found
