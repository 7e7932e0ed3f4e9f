"""What AccelForge asks of the loops on the axes of a fanout, and its mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accelsim.importers.accelforge_arrays import SpatialAxis
from accelsim.importers.accelforge_workload import Layer, members
from accelsim.importers.documents import Map, Seq
from accelsim.importers.foreign import Note
from accelsim.importers.values import axis_products, for_layers, plain_name, whole, without_loops
from accelsim.inputs.units import quoted


def constraints_of(
    axes: Sequence[SpatialAxis], layers: Sequence[Layer], architecture: Mapping[str, Any] | None, notes: list[Note]
) -> dict[str, Any] | None:
    """Constraints of the axes, for each layer."""
    asking = [axis for axis in axes if {"reuse", "loop_bounds", "min_usage"} & axis.table.keys()]
    if asking and not layers:
        why = "allows other dimensions in each layer; import it with a workload to have constraints"
        notes += [Note(axis.table.mark, str(axis.table.get("name")), why) for axis in asking]
    said = list[Note]()
    asked = for_layers([(layer.name, _axis_constraints(asking, layer, said)) for layer in layers] if asking else [])
    notes += dict.fromkeys(said)
    return without_loops(asked, architecture["levels"] if architecture else ())


def _axis_constraints(axes: Sequence[SpatialAxis], layer: Layer, notes: list[Note]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for axis in axes:
        allowed = set(layer.dims)
        factors: list[str] = []
        if "reuse" in axis.table:
            reused = members(axis.table["reuse"], layer.sets, axis.table.where("reuse"))
            allowed -= {dim for name in reused for dim in layer.tensors[name]}
        ranks = {dim.upper(): frozenset({dim}) for dim in layer.dims}  # `P` is the rank of `p`
        dims = ranks | {dim: frozenset({dim}) for dim in layer.dims} | {"All": frozenset(layer.dims)}
        of_tensors = {
            name: frozenset(dim for tensor in tensors for dim in layer.tensors[tensor])
            for name, tensors in layer.sets.items()
            if name != "All"
        }
        for bound in axis.table.rows("loop_bounds"):
            which = members(bound.get("expression", "Nothing"), {**of_tensors, **dims}, bound.mark)
            sign, most = str(bound.get("operator")), whole(bound.get("value"), bound.where("value"))
            together, sign = sign.startswith("product"), sign.removeprefix("product")
            most += {"<": -1, ">": 1}.get(sign, 0)
            sign = {"<": "<=", ">": ">=", "==": "="}.get(sign, sign)
            if sign in ("=", "<=") and most == 1:
                allowed -= which
            elif sign not in ("=", "<=", ">="):
                notes.append(Note(bound.mark, "loop_bounds", f"{quoted(sign)} is no constraint of loops"))
            elif together and which:
                factors.append(f"{'*'.join(sorted(which))}{sign}{most}")
            else:
                factors += [f"{dim}{sign}{most}" for dim in sorted(which)]
        at = found.setdefault(axis.level, {}).setdefault(axis.axis, {"only": sorted(allowed)})
        at["only"] = sorted(set(at["only"]) & allowed)
        if factors:
            at["factors"] = [*at.get("factors", []), *factors]
    used = [(axis, found[axis.level][axis.axis]) for axis in axes if axis.least > 1]
    used = [(axis, at) for axis, at in used if at["only"]]
    lies = {dim: tuple(i for i, (_, at) in enumerate(used) if dim in at["only"]) for dim in layer.dims}
    bounds = tuple((size, lies[dim]) for dim, size in layer.dims.items())
    reached = axis_products(bounds, tuple(axis.size for axis, _ in used))
    for index, (axis, at) in enumerate(used):
        least = min(axis.least, max(each[index] for each in reached))
        reached = {each for each in reached if each[index] >= least}
        if least > 1:
            at["factors"] = [*at.get("factors", []), f"{'*'.join(at['only'])}>={least}"]
    return [{"level": level, "spatial": spatial} for level, spatial in found.items()]


def mapping_of(
    mapping: Map,
    architecture: Mapping[str, Any] | None,
    axes: Sequence[SpatialAxis],
    layers: Sequence[Layer],
    notes: list[Note],
) -> dict[str, Any] | None:
    """Mapping of one Einsum; None with the reason noted."""
    nodes = mapping.value("nodes", Seq).maps()
    why = ""
    if any(node.tag in ("!Sequential", "!Pipeline", "!Nested") for node in nodes):
        why = "holds several Einsums; a mapping here is of one"
    elif architecture is None or len(layers) != 1:
        why = "needs the architecture and the workload of one Einsum beside it"
    if why or architecture is None:
        notes.append(Note(mapping.mark, "mapping", why))
        return None
    levels = [level["name"] for level in architecture["levels"]]
    left = dict(layers[0].dims)
    found: list[dict[str, Any]] = []
    for node in nodes:
        if node.tag == "!Storage":
            name = plain_name(node.value("component", str))
            if name not in levels or (found and levels.index(name) < levels.index(found[-1]["level"])):
                why = "storage is not in the order of the levels; the mapping is left out"
                notes.append(Note(node.mark, name, why))
                return None
            skipped = levels[levels.index(found[-1]["level"]) + 1 if found else 0 : levels.index(name)]
            found += [{"level": level, "keep": []} for level in skipped]
            if not found or found[-1]["level"] != name or "temporal" in found[-1] or "spatial" in found[-1]:
                found.append({"level": name, "keep": []})
            found[-1]["keep"] += list(map(str, node.value("tensors", Seq)))
        elif node.tag in ("!Temporal", "!Spatial"):
            dim = node.value("rank_variable", str)
            tile = whole(node.get("tile_shape", 1), node.where("tile_shape"))
            if dim not in left or left[dim] % tile or not found:
                notes.append(Note(node.mark, dim, "is no loop of this Einsum that divides it; the mapping is left out"))
                return None
            bound, left[dim] = left[dim] // tile, tile
            if node.tag == "!Temporal":
                inside = levels.index(found[-1]["level"]) + 1
                if "spatial" in found[-1] and inside == len(levels):
                    notes.append(Note(node.mark, dim, "is a loop inside the last fanout; the mapping is left out"))
                    return None
                found += [{"level": levels[inside], "keep": []}] if "spatial" in found[-1] else []
                found[-1].setdefault("temporal", []).append(f"{dim}={bound}")
                continue
            of = [axis for axis in axes if str(node.get("name")) == str(axis.table.get("name"))]
            place = next((axis for axis in of if node.get("component", axis.node) == axis.node), None)
            if place is None or place.level != found[-1]["level"]:
                notes.append(Note(node.mark, dim, "is spread where the machine has no fanout; the mapping is left out"))
                return None
            found[-1].setdefault("spatial", {}).setdefault(place.axis, []).append(f"{dim}={bound}")
    found += [{"level": level, "keep": []} for level in levels[levels.index(found[-1]["level"]) + 1 :] if found]
    return {"levels": found}
