"""AccelForge's workloads: Einsums in its notation, and the sets of tensors that its other files name.

What is asked of their loops on the axes of a fanout, and mappings.

`renames` give the tensors of each Einsum the names `weight`, `input` and `output`, which are our roles.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accelsim.importers import values
from accelsim.importers.documents import Map, Note, Seq, refuse
from accelsim.inputs.errors import Mark
from accelsim.inputs.units import listed, quoted

ROLE_NAMES = {"weight": "Weights", "input": "Inputs", "output": "Outputs"}
BITS = 8
"""Bits of a value where no workload says."""
_LONGEST = 1000
_RANGE = re.compile(r"(\d{1,9})\s*<=\s*(\w+)\s*<(=?)\s*(.+)")
_ACCESS = re.compile(r"(\w+)\s*\[([^\]]*)\]")
_EINSUM_KEYS = {"name", "einsum", "tensor_accesses", "renames", "is_copy_operation", "iteration_space_shape", "shape"}
_EINSUM_KEYS |= {"n_instances", "rank_sizes"}
_CALCULATES = "what it calculates; counted, and charged, as a multiply-accumulate"
_LEFT = dict.fromkeys(("map_op", "reduce_op"), _CALCULATES)
_WORKLOAD_KEYS = {"rank_sizes", "iteration_space_shape", "shape", "bits_per_value", "einsums", "version"}
_WORKLOAD_KEYS |= {"persistent_tensors", "n_instances"}
_UNTAGGED = {"tensors": "!Storage", "einsum": "!Compute", "component": "!Spatial", "rank_variable": "!Temporal"}
"""Nodes of a mapping as AccelForge's `to_yaml` writes them: the first of these keys that one has says its kind."""
Sets = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Layer:
    """An Einsum that was read: its dimensions, the dimensions of each tensor, its sets of tensors, and its widths.

    `called`: as AccelForge calls it, by its output if it is written as text.
    """

    name: str
    dims: Mapping[str, int]
    tensors: Mapping[str, frozenset[str]]
    sets: Sets
    bits: Mapping[str, int]
    called: str


def members(text: object, sets: Sets, mark: Mark) -> frozenset[str]:
    """Members of a set that is written as an expression of others, or as a list of such."""
    text = " | ".join(map(str, text)) if isinstance(text, Seq) else text
    try:
        found = values.work_out(str(text)[:_LONGEST], sets)
    except values.UndefinedNameError as error:
        raise refuse(mark, f"{quoted(str(text))}: {error.name} is no set of tensors", f"sets: {listed(sets)}") from None
    except values.FormulaError:
        raise refuse(mark, f"{quoted(str(text))} is no expression of sets of tensors") from None
    return found if isinstance(found, frozenset) else frozenset()


def read_workload(workload: Map, renames: Map | None, notes: list[Note]) -> tuple[dict[str, Any], list[Layer]]:
    """Workload, and what the other files need of its layers."""
    values.note_others(workload, _WORKLOAD_KEYS, {}, notes)
    of_default = _of_default(renames or Map(workload.mark), notes)
    sizes = _sizes(workload, {})
    bounds = _bounds(workload)
    made: dict[str, str] = {}
    einsums = workload.value("einsums", Seq)
    accesses = values.read_all(lambda item: (_accesses(item, getattr(item, "mark", workload.mark)), item), einsums)
    outputs = {output for (_, output), _ in accesses}
    read = {name for (tensors, output), _ in accesses for name in tensors if name != output}
    copies = _copies(accesses, read, notes)
    times = Counter(name for (tensors, _), _ in accesses for name in tensors)
    of_all = {"Intermediates": outputs & read, "Shared": {name for name in times if times[name] > 1}}
    of_all |= {name: set[str]() for name in times if name not in ROLE_NAMES}
    sources = Counter(copies.get(each, each) for (tensors, its), _ in accesses if its not in copies for each in tensors)
    often = [each for each in sources if sources[each] > 1 and each not in outputs]
    names = {
        values.plain_name(str(item.get("name", its) if isinstance(item, Map) else its)) for (_, its), item in accesses
    }
    shared = {each: plain + "_in" * (plain in names) for each in often if (plain := values.plain_name(each))}

    def einsum_of(one: tuple[tuple[dict[str, list[str]], str], Any]) -> tuple[dict[str, Any], Layer]:
        (tensors, output), item = one
        table = item if isinstance(item, Map) else Map(workload.where("einsums"))
        values.note_others(table, _EINSUM_KEYS, _LEFT, notes)
        name = values.plain_name(str(table.get("name", output)))
        dims = _dims(tensors, bounds | _bounds(table), _sizes(table, sizes), table.mark)
        sets = _sets(table, of_default, tensors, output, of_all)
        widths = _bits(workload, table, sets)
        layer: dict[str, Any] = {"name": name}
        known = made | shared
        feeds = {each: known[copies.get(each, each)] for each in tensors if copies.get(each, each) in known}
        feeds.pop(output, None)
        repeat = values.whole(table.get("n_instances", workload.get("n_instances", 1)), table.mark)
        layer |= {"repeat": repeat} if repeat > 1 else {}
        layer |= {"from": feeds} if feeds else {}
        of_role = {each: role for short, role in ROLE_NAMES.items() for each in sets.get(short, ())}
        roles = {each: of_role[each] for each in tensors if each in of_role and each != output}
        einsum = {"dims": dims, "tensors": tensors, "output": output}
        used = {each: frozenset(re.findall(r"[A-Za-z_]\w*", " ".join(ranks))) for each, ranks in tensors.items()}
        text = item if isinstance(item, str) else str(table.get("einsum", ""))
        asked = _ACCESS.sub(" ", text.partition("=")[2]).split()
        if set(asked) - {"*"}:
            notes.append(Note(table.mark, f"{name}: {quoted(' '.join(asked))}", _CALCULATES))
        if table.get("is_copy_operation"):
            notes.append(Note(table.mark, name, "a copy: accelsim counts a MAC for each of its words"))
        made[output] = name
        body = {**layer, "einsum": einsum | ({"roles": roles} if roles else {}), "bits": widths}
        return body, Layer(name, dims, used, sets, widths, output if text else str(table.get("name", output)))

    counted = [each for each in accesses if each[0][1] not in copies]
    found, mark = values.read_all(einsum_of, counted), workload.where("einsums")
    read_twice = {source for layer, _ in found for source in layer.get("from", {}).values()}
    inputs = [name for name in shared.values() if name in read_twice]
    body: dict[str, Any] = {"name": values.file_stem(mark), **({"inputs": inputs} if inputs else {})}
    body |= {"layers": [layer for layer, _ in found]}
    return values.checked_workload(body, mark, notes), [known for _, known in found]


def _copies(
    accesses: Sequence[tuple[tuple[dict[str, list[str]], str], Any]], read: Container[str], notes: list[Note]
) -> dict[str, str]:
    """What each copy of a whole tensor, which others read, copies; such Einsums are no layers here."""
    found: dict[str, str] = {}
    for (tensors, output), item in accesses:
        others = [name for name in tensors if name != output]
        copy = isinstance(item, Map) and item.get("is_copy_operation")
        if copy and output in read and len(others) == 1 and tensors[others[0]] == tensors[output]:
            found[output] = found.get(others[0], others[0])
            why = "a copy is no layer: what reads it reads what it copies"
            notes.append(Note(item.mark, str(item.get("name", output)), why))
    return found


def _sizes(table: Map, known: Mapping[str, int]) -> dict[str, int]:
    """Sizes of ranks, each a number or a formula of those before, beside those that are known."""
    ranks, sizes = table.inner("rank_sizes"), dict(known)

    def size(rank: str) -> None:
        sizes[rank] = values.whole(values.as_number(ranks[rank], ranks.where(rank), sizes), ranks.where(rank))

    values.read_all(size, ranks)
    return sizes


def _bounds(table: Map) -> dict[str, int]:
    """Bounds of rank variables, written as `0 <= m < 128`."""
    found: dict[str, int] = {}
    for key in ("iteration_space_shape", "shape"):
        ranges = table.get(key, Seq(table.mark))
        for text in ranges.values() if isinstance(ranges, Map) else ranges if isinstance(ranges, Seq) else [ranges]:
            for part in str(text).split(" and "):
                match = _RANGE.fullmatch(part.strip())
                if match is None:
                    raise table.refuse(key, f"{quoted(part)} is no range such as 0 <= m < 128")
                first, end = int(match[1]), 0 if match[3] else 1
                found[match[2]] = values.whole(match[4], table.where(key), least=first + end) - first + 1 - end
    return found


def _accesses(item: Any, mark: Mark) -> tuple[dict[str, list[str]], str]:
    """Ranks of each tensor of an Einsum, as sums of rank variables, and the output.

    A rank that is named (`H: 2*p + r`) is written `H: ...` until its size is known.
    """
    text = item if isinstance(item, str) else item.get("einsum") if isinstance(item, Map) else None
    if isinstance(text, str):
        left, _, right = text.partition("=")
        sides = ((access, side is left) for side in (left, right) for access in _ACCESS.findall(side))
        found = [(name, ranks.split(","), output) for (name, ranks), output in sides]
    elif isinstance(item, Map):
        found = []
        for access in item.value("tensor_accesses", Seq).maps():
            ranks = access.get("projection", Seq(access.mark))
            listed_ranks = [f"{rank}: {at}" for rank, at in ranks.items()] if isinstance(ranks, Map) else list(ranks)
            found.append((access.value("name", str), listed_ranks, bool(access.get("output"))))
    else:
        raise refuse(mark, f"{quoted(str(item))} is no Einsum")
    outputs = [name for name, _, output in found if output]
    each = [(name, [" ".join(str(rank).split()) for rank in ranks]) for name, ranks, _ in found]
    tensors, wrong = dict(each), ""
    if len(outputs) != 1:
        wrong = "has no output, or several"
    elif outputs != [name for name in outputs for other, _ in each if other == name]:
        wrong = "reads its own output"
    elif any(tensors[name] != ranks for name, ranks in each):
        wrong = "reads a tensor at two places"
    if wrong:
        name = text if isinstance(item, str) else text or item.get("name")
        raise refuse(mark, f"{quoted(str(name))} {wrong}")
    return tensors, outputs[0]


def _dims(
    tensors: Mapping[str, list[str]], bounds: Mapping[str, int], sizes: Mapping[str, int], mark: Mark
) -> dict[str, int]:
    """Bound of each rank variable of an Einsum; ranks lose their names."""
    dims: dict[str, int] = {}
    for ranks in tensors.values():
        for at, rank in enumerate(ranks):
            name, _, sum_ = rank.rpartition(":")
            terms = [_term(term, mark) for term in sum_.split("+") if not term.strip().isdigit()]
            for _, dim in terms:
                size = bounds.get(dim, sizes.get(dim.upper()))
                if size is None and len(terms) == 1 and terms[0][0] == 1:
                    size = sizes.get(name.strip())
                if size is not None:
                    dims[dim] = size
            ranks[at] = "+".join(dim if factor == 1 else f"{factor}*{dim}" for factor, dim in terms)
        ranks[:] = filter(None, ranks)  # a number is where a tensor is read, and no loop
    used = {dim for ranks in tensors.values() for rank in ranks for dim in re.findall(r"[A-Za-z_]\w*", rank)}
    for dim in sorted(used - dims.keys()):
        raise refuse(mark, f"the rank variable {dim} has no size", "give it under rank_sizes or iteration_space_shape")
    return dims


def _term(text: str, mark: Mark) -> tuple[int, str]:
    """Factor and rank variable of `2*p`, `p * 2` or `p`."""
    parts = [part.strip() for part in text.split("*")]
    names = [part for part in parts if re.fullmatch(r"[A-Za-z_]\w*", part)]
    factors = [part for part in parts if part.isdigit()]
    if len(names) != 1 or len(names) + len(factors) != len(parts):
        raise refuse(mark, f"{quoted(text)} is no rank variable with a factor")
    return math.prod(map(int, factors)), names[0]


def _of_default(renames: Map, notes: list[Note]) -> list[Map]:
    """Renames of all Einsums; AccelForge applies no others but those at an Einsum."""
    values.note_others(renames, ("einsums",), {}, notes)
    found: list[Map] = []
    for rule in renames.rows("einsums"):
        values.note_others(rule, ("name", "tensor_accesses", "rank_variables"), {}, notes)
        given = rule.get("tensor_accesses")
        if isinstance(given, Map):
            rows = [Map(given.where(name), held={"name": name, "source": given[name]}) for name in given]
        else:
            rows = rule.rows("tensor_accesses")
        for access in rows:
            values.note_others(access, ("name", "source", "expected_count"), {}, notes)
            access.value("source", object)
        found += rows if rule.value("name", str) == "default" else []
    return found


def _sets(
    einsum: Map, of_default: Sequence[Map], tensors: Iterable[str], output: str, of_all: Mapping[str, set[str]]
) -> dict[str, frozenset[str]]:
    """Sets of tensors of an Einsum, by name: those of AccelForge, those of the tensors, and renamed ones.

    Of sets of all Einsums, which each of their tensors names too, it has what is its own.
    """
    everything = frozenset(tensors)
    inputs = everything - {output}
    sets = {"All": everything, "Inputs": inputs, "Outputs": everything - inputs, "Nothing": frozenset[str]()}
    sets |= {"Persistent": frozenset(), "Tensors": everything}
    sets |= {name: everything & found for name, found in of_all.items()}
    sets |= {name: frozenset({name}) for name in tensors}
    own = einsum.inner("renames")
    for name, source in own.items():
        sets[name] = members(source, sets, own.where(name))
    for access in of_default:
        name = access.value("name", str)
        if name not in own and name not in tensors:
            sets[name] = members(access["source"], sets, access.mark)
    sets.setdefault("output", everything - inputs)
    sets.setdefault("weight", inputs - sets.get("input", inputs))
    sets.setdefault("input", inputs - sets["weight"])
    return sets


def _bits(workload: Map, einsum: Map, sets: Sets) -> dict[str, int]:
    """Width of each tensor: of the workload, and of the Einsum's own accesses."""
    widths = workload.inner("bits_per_value")
    found = dict.fromkeys(sets["All"], BITS)
    for key in sorted(widths, key="Other".__ne__):  # it is what the others leave
        mark = widths.where(key)
        of = sets["All"] if key == "Other" else members(key, sets, mark)
        found |= dict.fromkeys(of, values.whole(widths[key], mark))
    for access in einsum.rows("tensor_accesses"):
        if "bits_per_value" in access:
            found[access.value("name", str)] = values.whole(access["bits_per_value"], access.where("bits_per_value"))
    return {name: found[name] for name in sorted(found)}


@dataclass(frozen=True, slots=True)
class SpatialAxis:
    """One axis of a fanout: where it stands, the node and the level that have it, which of two it is, and how wide.

    `least`: instances that are to be used, if loops can.
    """

    table: Map
    node: str
    level: str
    axis: str
    size: int
    least: int


def constraints_of(
    axes: Sequence[SpatialAxis],
    layers: Sequence[Layer],
    architecture: Mapping[str, Any] | None,
    notes: list[Note],
    above: Sequence[tuple[Sequence[Layer], str]] = (),
) -> dict[str, Any] | None:
    """Constraints of the axes, for each layer; of layers that run below a level only those of axes above it."""
    asking = [axis for axis in axes if {"reuse", "loop_bounds", "min_usage"} & axis.table.keys()]
    if asking and not layers:
        why = "allows other dimensions in each layer; import it with a workload to have constraints"
        notes += [Note(axis.table.mark, str(axis.table.get("name")), why) for axis in asking]
    said = list[Note]()
    asked = [(layer.name, _axis_constraints(asking, layer, said)) for layer in layers if asking]
    names = [level["name"] for level in architecture["levels"]] if architecture else []
    for others, below in above:
        outer = [axis for axis in asking if axis.level in names[: names.index(below)]]
        asked += [(layer.name, _axis_constraints(outer, layer, said)) for layer in others if outer]
    notes += dict.fromkeys(said)
    return values.without_loops(values.for_layers(asked), architecture["levels"] if architecture else ())


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
        named = [(name, [layer.tensors[each] for each in of]) for name, of in layer.sets.items() if name != "All"]
        sets = {name: frozenset[str]().union(*of) for name, of in named} | dims
        for bound in axis.table.rows("loop_bounds"):
            which = members(bound.get("expression", "Nothing"), sets, bound.mark)
            sign, most = str(bound.get("operator")), values.whole(bound.get("value"), bound.where("value"))
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
    reached = values.axis_products(bounds, tuple(axis.size for axis, _ in used))
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
    several = any(node.tag in ("!Sequential", "!Pipeline", "!Nested") for node in nodes)
    if several or architecture is None or len(layers) != 1:
        why = "needs the architecture and the workload of one Einsum beside it"
        why = "holds several Einsums; a mapping here is of one" if several else why
        notes.append(Note(mapping.mark, "mapping", why))
        return None
    levels = [level["name"] for level in architecture["levels"]]
    left = dict(layers[0].dims)
    found: list[dict[str, Any]] = []
    for node in nodes:
        tag = node.tag or next((tag for key, tag in _UNTAGGED.items() if key in node), "")
        if tag == "!Storage":
            name = values.plain_name(node.value("component", str))
            if name not in levels or (found and levels.index(name) < levels.index(found[-1]["level"])):
                why = "storage is not in the order of the levels; the mapping is left out"
                notes.append(Note(node.mark, name, why))
                return None
            skipped = levels[levels.index(found[-1]["level"]) + 1 if found else 0 : levels.index(name)]
            found += [{"level": level, "keep": []} for level in skipped]
            if not found or found[-1]["level"] != name or "temporal" in found[-1] or "spatial" in found[-1]:
                found.append({"level": name, "keep": []})
            found[-1]["keep"] += list(map(str, node.value("tensors", Seq)))
        elif tag in ("!Temporal", "!Spatial"):
            dim = node.value("rank_variable", str)
            tile = values.whole(node.get("tile_shape", 1), node.where("tile_shape"))
            if dim not in left or left[dim] % tile or not found:
                notes.append(Note(node.mark, dim, "is no loop of this Einsum that divides it; the mapping is left out"))
                return None
            bound, left[dim] = left[dim] // tile, tile
            if tag == "!Temporal":
                inside = levels.index(found[-1]["level"]) + 1
                if "spatial" in found[-1] and inside == len(levels):
                    notes.append(Note(node.mark, dim, "is a loop inside the last fanout; the mapping is left out"))
                    return None
                found += [{"level": levels[inside], "keep": []}] if "spatial" in found[-1] else []
                found[-1].setdefault("temporal", []).append(f"{dim}={bound}")
                continue
            of = [axis for axis in axes if str(node.get("name")) == str(axis.table.get("name"))]
            place = next((axis for axis in of if node.get("component", axis.node) == axis.node), None)
            if place is None or levels.index(place.level) < levels.index(found[-1]["level"]):
                notes.append(Note(node.mark, dim, "is spread where the machine has no fanout; the mapping is left out"))
                return None
            passed = levels[levels.index(found[-1]["level"]) + 1 : levels.index(place.level) + 1]
            found += [{"level": level, "keep": []} for level in passed]
            found[-1].setdefault("spatial", {}).setdefault(place.axis, []).append(f"{dim}={bound}")
    found += [{"level": level, "keep": []} for level in levels[levels.index(found[-1]["level"]) + 1 :] if found]
    return {"levels": found}
