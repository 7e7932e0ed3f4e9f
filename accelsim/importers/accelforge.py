"""AccelForge's architectures, workloads and mappings.

Its nodes stand outermost first; what is `spatial` at a node counts its instances below the node before it, so it is the
fanout of the memory above. Which tensors a memory keeps is written as sets (`~Intermediates`, `input | weight`), whose
names a workload's `renames` give to the tensors of each Einsum. It counts in seconds, joules and bits; the clock here
is the rate of the compute units. A layer stands alone: no tensor of it is an intermediate.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from accelsim.importers.documents import Document, Row, Table, refuse
from accelsim.importers.foreign import Foreign, Note
from accelsim.importers.formula import Value
from accelsim.importers.values import as_number, checked_workload, number, plain_name, tables, value, whole
from accelsim.inputs.errors import Mark, SpecError
from accelsim.inputs.units import listed, quoted

_ROLES = {"weight": "Weights", "input": "Inputs", "output": "Outputs"}
_BITS = 8
"""Bits of a value where no workload says."""
_UNLIMITED_BITS = 2**50
_SUM, _MAX = "sum(a.n_calls / a.throughput for a in actions)", "max(a.n_calls / a.throughput for a in actions)"
_CALLS = re.compile(r"(sum|max)\(a\.n_calls for a in actions\)(.*)")
_RANGE = re.compile(r"0\s*<=\s*(\w+)\s*<\s*(.+)")
_ACCESS = re.compile(r"(\w+)\s*\[([^\]]*)\]")
_NODE_KEYS = {"name", "size", "actions", "tensors", "spatial", "component_class", "leak_power", "total_latency", "area"}
_NODE_KEYS |= {"extra_attributes_for_component_model"}
_SPATIAL_KEYS = {"name", "fanout", "reuse", "may_reuse", "loop_bounds"}
_EINSUM_KEYS = {"name", "einsum", "tensor_accesses", "renames", "is_copy_operation", "iteration_space_shape", "shape"}
_EINSUM_KEYS |= {"n_instances"}
_WORKLOAD_KEYS = {"rank_sizes", "iteration_space_shape", "shape", "bits_per_value", "einsums", "version"}
_WORKLOAD_KEYS |= {"persistent_tensors", "n_instances"}
_LEFT = {"min_usage": "the search is free to use less of this axis", "power_gateable": "instances that idle leak too"}
"""Why keys that nothing here reads are left out, where that is known."""
_SETS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.Sub: operator.sub,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
Sets = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class _Layer:
    """An Einsum that was read: its dimensions, the dimensions of each tensor, its sets of tensors, and its widths."""

    name: str
    dims: Mapping[str, int]
    tensors: Mapping[str, frozenset[str]]
    sets: Sets
    bits: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis of a fanout: where it stands, the level that has it, and which of its two axes it is."""

    table: Table
    node: str
    level: str
    axis: str


def convert(documents: Sequence[Document]) -> Foreign:
    """Turn files of AccelForge into documents of our kinds.

    Raises
    ------
    SpecError
        Where a file is none of AccelForge's, or its machine has no form of ours: parts that words pass through, and
        branches.
    """
    notes: list[Note] = []
    bodies = [document.body for document in documents if isinstance(document.body, Table)]
    workload, layers = None, list[_Layer]()
    found = _one(bodies, "workload")
    if found is not None:
        workload, layers = _workload(found, _one(bodies, "renames"), notes)
    architecture, axes, modelled = None, list[_Axis](), list[str]()
    arch = _one(bodies, "arch")
    if arch is not None:
        nodes = _nodes(arch)  # refused before anything of it is worked out
        names = _variables([arch, *bodies], _widths(layers))
        architecture, axes, modelled = _architecture(arch, nodes, names, notes)
    constraints = _constraints(axes, layers, notes)
    mapping = None
    asked = _one(bodies, "mapping")
    if asked is not None:
        mapping = _mapping(asked, architecture, axes, layers, notes)
    energies = "the actions of the components." if architecture else ""
    if modelled:
        energies = f"accelsim's component models for {listed(modelled)}; the actions of all other components."
    return Foreign(architecture, workload, mapping, constraints, energies, tuple(notes))


def _one(bodies: Sequence[Table], key: str) -> Table | None:
    """What stands under a key of one of the files; a second one is refused."""
    found = [body for body in bodies if key in body]
    if len(found) > 1:
        raise refuse(found[1].where(key), f"a second '{key}'; the first stands in {found[0].mark.file}")
    return value(found[0], key, Table) if found else None


def _note_others(table: Table, known: Iterable[str], notes: list[Note]) -> None:
    """Note the keys of a map that nothing here reads."""
    notes += [Note(table.where(key), key, _LEFT.get(key, "is not read")) for key in sorted(table.keys() - set(known))]


def _variables(bodies: Iterable[Table], names: Mapping[str, Value]) -> dict[str, Value]:
    """Numbers of `variables` beside other names; one that cannot be worked out has no value."""
    found: dict[str, Value] = {"inf": math.inf, **names}
    for body in bodies:
        for key, text in value(body, "variables", Table, Table(body.mark)).items():
            with suppress(SpecError):
                found[key] = as_number(text, body.mark, found)
    return found


def _widths(layers: Sequence[_Layer]) -> dict[str, Value]:
    """Bits of a value of each role, as formulas name them."""
    names: dict[str, Value] = {}
    for role in _ROLES:
        widths = [layer.bits[name] for layer in layers for name in layer.sets.get(role, ())]
        names |= {role: True, f"{role}.bits_per_value": max(widths, default=_BITS)}
    return names


# sets of tensors


def _members(text: object, sets: Sets, mark: Mark) -> frozenset[str]:
    """Members of a set that is written as an expression of others."""
    try:
        found = _set(ast.parse(str(text).strip()[:1000], mode="eval").body, sets)
    except KeyError as error:
        raise refuse(mark, f"{quoted(str(text))}: {error.args[0]} is no set of tensors; sets: {listed(sets)}") from None
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise refuse(mark, f"{quoted(str(text))} is no expression of sets of tensors") from None
    return found if isinstance(found, frozenset) else frozenset()


def _set(node: ast.expr, sets: Sets) -> Any:
    match node:
        case ast.Name(name) | ast.Call(ast.Name(name), [], []):
            return sets[name]
        case ast.Constant(int() as count):
            return count
        case ast.Call(ast.Name("len"), [inside], []):
            return len(_set(inside, sets))
        case ast.UnaryOp(ast.Invert(), inside):
            return sets["All"] - _set(inside, sets)
        case ast.BinOp(left, op, right) if type(op) in _SETS:
            return _SETS[type(op)](_set(left, sets), _set(right, sets))
        case ast.Compare(left, [op], [right]) if type(op) in _SETS:
            return _SETS[type(op)](_set(left, sets), _set(right, sets))
        case ast.IfExp(test, body, orelse):
            return _set(body if _set(test, sets) else orelse, sets)
    raise ValueError


# workload


def _workload(workload: Table, renames: Table | None, notes: list[Note]) -> tuple[dict[str, Any], list[_Layer]]:
    """Workload, and what the other files need of its layers."""
    _note_others(workload, _WORKLOAD_KEYS, notes)
    names = {"inf": math.inf}
    ranks = value(workload, "rank_sizes", Table, Table(workload.mark))
    sizes = {rank: whole(as_number(ranks[rank], ranks.where(rank), names), ranks.where(rank)) for rank in ranks}
    bounds = _bounds(workload)
    written: list[dict[str, Any]] = []
    layers: list[_Layer] = []
    made: dict[str, str] = {}
    accesses = [(_accesses(item, workload.mark), item) for item in value(workload, "einsums", Row)]
    outputs = {name for each, _ in accesses for name, (_, output) in each.items() if output}
    read = {name for each, _ in accesses for name, (_, output) in each.items() if not output}
    for (tensors, item), number_ in zip(accesses, range(len(accesses)), strict=True):
        table = item if isinstance(item, Table) else Table(workload.where("einsums"))
        _note_others(table, _EINSUM_KEYS, notes)
        output = next(name for name, (_, out) in tensors.items() if out)
        name = plain_name(str(table.get("name", output or number_)))
        own = bounds | _bounds(table)
        dims = _dims(tensors, own, sizes, table.mark)
        sets = _sets(table, renames, tensors, outputs & read)
        widths = _bits(workload, sets)
        layer: dict[str, Any] = {"name": name}
        feeds = {each: made[each] for each, (_, out) in tensors.items() if not out and each in made}
        repeat = whole(table.get("n_instances", workload.get("n_instances", 1)), table.mark)
        layer |= {"repeat": repeat} if repeat > 1 else {}
        layer |= {"from": feeds} if feeds else {}
        roles = {each: role for short, role in _ROLES.items() for each in sets.get(short, ()) if each != output}
        einsum = {"dims": dims, "tensors": {each: ranks for each, (ranks, _) in tensors.items()}, "output": output}
        written.append({**layer, "einsum": einsum | ({"roles": roles} if roles else {}), "bits": widths})
        used = {each: frozenset(re.findall(r"[A-Za-z_]\w*", " ".join(ranks))) for each, (ranks, _) in tensors.items()}
        layers.append(_Layer(name, dims, used, sets, widths))
        if table.get("is_copy_operation"):
            notes.append(Note(table.mark, name, "a copy: accelsim counts a MAC for each of its words"))
        made[output] = name
    mark = workload.where("einsums")
    name = plain_name(mark.file.rpartition("/")[2].partition(".")[0])
    return checked_workload({"name": name, "layers": written}, mark, notes), layers


def _bounds(table: Table) -> dict[str, int]:
    """Bounds of rank variables, written as `0 <= m < 128`."""
    found: dict[str, int] = {}
    for key in ("iteration_space_shape", "shape"):
        ranges = table.get(key, Row(table.mark))
        for text in ranges.values() if isinstance(ranges, Table) else ranges if isinstance(ranges, Row) else [ranges]:
            for part in str(text).split(" and "):
                match = _RANGE.fullmatch(part.strip())
                if match is None:
                    raise refuse(table.where(key), f"{quoted(part)} is no range such as 0 <= m < 128")
                found[match[1]] = whole(as_number(match[2], table.where(key)), table.where(key))
    return found


def _accesses(item: Any, mark: Mark) -> dict[str, tuple[list[str], bool]]:
    """Ranks of each tensor of an Einsum, as sums of rank variables, and whether it is the output.

    A rank that is named (`H: 2*p + r`) is written `H: ...` until its size is known.
    """
    text = item if isinstance(item, str) else item.get("einsum") if isinstance(item, Table) else None
    if isinstance(text, str):
        left, _, right = text.partition("=")
        found = [
            (name, ranks.split(","), side is left) for side in (left, right) for name, ranks in _ACCESS.findall(side)
        ]
    elif isinstance(item, Table):
        found = []
        for access in tables(value(item, "tensor_accesses", Row)):
            ranks = access.get("projection", Row(access.mark))
            listed_ranks = [f"{rank}: {at}" for rank, at in ranks.items()] if isinstance(ranks, Table) else list(ranks)
            found.append((value(access, "name", str), listed_ranks, bool(access.get("output"))))
    else:
        raise refuse(mark, f"{quoted(str(item))} is no Einsum")
    if sum(output for *_, output in found) != 1:
        raise refuse(
            item.mark if isinstance(item, Table) else mark,
            f"{quoted(str(text or item.get('name')))} has no output, or several",
        )
    return {name: ([" ".join(str(rank).split()) for rank in ranks], output) for name, ranks, output in found}


def _dims(
    tensors: Mapping[str, tuple[list[str], bool]], bounds: Mapping[str, int], sizes: Mapping[str, int], mark: Mark
) -> dict[str, int]:
    """Bound of each rank variable of an Einsum; ranks lose their names."""
    dims: dict[str, int] = {}
    for ranks, _ in tensors.values():
        for at, rank in enumerate(ranks):
            name, _, sum_ = rank.rpartition(":")
            terms = [_term(term, mark) for term in sum_.split("+")]
            for _, dim in terms:
                size = bounds.get(dim, sizes.get(dim.upper()))
                if size is None and len(terms) == 1 and terms[0][0] == 1:
                    size = sizes.get(name.strip())
                if size is not None:
                    dims[dim] = size
            ranks[at] = "+".join(dim if factor == 1 else f"{factor}*{dim}" for factor, dim in terms)
    used = {dim for ranks, _ in tensors.values() for rank in ranks for dim in re.findall(r"[A-Za-z_]\w*", rank)}
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


def _sets(
    einsum: Table, renames: Table | None, tensors: Mapping[str, tuple[list[str], bool]], between: set[str]
) -> dict[str, frozenset[str]]:
    """Sets of tensors of an Einsum, by name: those of AccelForge, those of the tensors, and renamed ones."""
    inputs = frozenset(name for name, (_, output) in tensors.items() if not output)
    everything = frozenset(tensors)
    sets = {"All": everything, "Inputs": inputs, "Outputs": everything - inputs, "Nothing": frozenset[str]()}
    sets |= {"Intermediates": everything & between, "Persistent": frozenset(), "Tensors": everything}
    sets |= {name: frozenset({name}) for name in tensors}
    own = value(einsum, "renames", Table, Table(einsum.mark))
    for name, source in own.items():
        sets[name] = _members(source, sets, own.where(name))
    rules = value(renames, "einsums", Row, Row(renames.mark)) if renames is not None else []
    for rule in (rule for rule in rules if isinstance(rule, Table) and rule.get("name") == "default"):
        for access in tables(value(rule, "tensor_accesses", Row, Row(rule.mark))):
            name = value(access, "name", str)
            if name not in sets:
                sets[name] = _members(access.get("source", "Nothing"), sets, access.mark)
    for name, members in (("output", everything - inputs), ("weight", inputs - sets.get("input", inputs))):
        sets.setdefault(name, members)
    sets.setdefault("input", inputs - sets["weight"])
    return sets


def _bits(workload: Table, sets: Sets) -> dict[str, int]:
    """Bits of a value of each tensor of an Einsum."""
    widths = value(workload, "bits_per_value", Table, Table(workload.mark))
    found = dict.fromkeys(sets["All"], _BITS)
    for key, width in widths.items():
        mark = widths.where(key)
        found |= dict.fromkeys(_members(key, sets, mark), whole(as_number(width, mark), mark))
    return {name: found[name] for name in sorted(found)}


# architecture


def _nodes(arch: Table) -> list[Table]:
    """Nodes, outermost first."""
    found: list[Table] = []
    for node in tables(value(arch, "nodes", Row)):
        kind = node.tag.lstrip("!")
        if kind == "Hierarchical":
            found += _nodes(node)
        elif kind in ("Memory", "Container", "Compute"):
            found.append(node)
        elif kind == "Toll":
            what = f"{node.get('name')} (!Toll) is charged for what passes it, as in compute in memory: no part of ours"
            raise refuse(node.mark, what)
        else:
            raise refuse(node.mark, f"!{kind}: accelsim's levels are a ladder of !Memory and !Container above !Compute")
    return found


def _architecture(
    arch: Table, nodes: Sequence[Table], names: Mapping[str, Value], notes: list[Note]
) -> tuple[dict[str, Any], list[_Axis], list[str]]:
    """Architecture, the axes of its fanouts, and the components whose energies are modelled."""
    _note_others(arch, {"nodes", "variables", "extra_attributes_for_all_component_models"}, notes)
    if (
        len(nodes) < 2
        or nodes[0].tag != "!Memory"
        or [node.tag for node in nodes[1:]].count("!Compute") != 1
        or nodes[-1].tag != "!Compute"
    ):
        raise refuse(arch.where("nodes"), "expected a !Memory first, and one !Compute as the last node")
    clock_hz = _clock_hz(nodes[-1], names, notes)
    widths = {int(names[f"{role}.bits_per_value"] or _BITS) for role in _ROLES}
    word = math.gcd(8, *widths)
    levels: list[dict[str, Any]] = []
    axes: list[_Axis] = []
    kept = {"All": frozenset(_ROLES), "Nothing": frozenset[str](), "Intermediates": frozenset[str]()}
    kept |= {"Tensors": frozenset(_ROLES), "Inputs": frozenset({"input", "weight"}), "Outputs": frozenset({"output"})}
    kept |= {role: frozenset({role}) for role in _ROLES} | {"Persistent": frozenset({"weight"})}
    for node in nodes:
        _note_others(node, _NODE_KEYS, notes)
        name = plain_name(value(node, "name", str))
        axes += _fanout(node, name, levels, axes, names, notes)
        if node.tag == "!Memory":
            levels.append(_level(node, name, word, clock_hz, names, kept, notes, first=not levels))
    compute = _compute(nodes[-1], clock_hz, names, notes)
    modelled = [part["name"] for part in (*levels, compute) if "energy" not in part]
    document: dict[str, Any] = {"name": plain_name(arch.mark.file.rpartition("/")[2].partition(".")[0])}
    document["clock"] = f"{clock_hz:.12g} Hz"
    if modelled:
        shared = value(arch, "extra_attributes_for_all_component_models", Table, Table(arch.mark))
        node_nm = number(shared, "tech_node", 45e-9, names) * 1e9
        document |= {"technology": f"{node_nm:g} nm", "energy_table": "components"}
        if "tech_node" not in shared:
            notes.append(Note(arch.mark, "tech_node", "no technology node is given; 45 nm is taken"))
        for level in levels:
            if "fanout" in level:
                level["fanout"]["energy"] = {"transfer": "0 pJ", "source": "AccelForge charges no wires here"}
    return {**document, "levels": levels, "compute": compute}, axes, modelled


def _compute(node: Table, clock_hz: float, names: Mapping[str, Value], notes: list[Note]) -> dict[str, Any]:
    """Compute units; without energies where a component model gives them."""
    attributes = value(node, "extra_attributes_for_component_model", Table, Table(node.mark))
    bits = min(max(whole(attributes.get("multiplier_width", 8), node.mark), 4), 32)
    floats = "fp" in str(node.get("component_class")).lower()
    kind = (
        {"class": "fpmac", "attributes": {"format": "fp32"}}
        if floats
        else {"class": "intmac", "attributes": {"bits": bits}}
    )
    energies = _energies(node, ("compute",), 1, clock_hz, names)
    if energies is not None and energies.pop("leak") != "0 pJ":
        notes.append(Note(node.where("leak_power"), "leak_power", "compute units have no leakage in accelsim"))
    return {"name": plain_name(value(node, "name", str)), **kind, **({"energy": energies} if energies else {})}


def _clock_hz(compute: Table, names: Mapping[str, Value], notes: list[Note]) -> float:
    """Rate of the compute units: a cycle is one of their actions."""
    rates, _ = _rates(compute, ("compute",), names, notes)
    if not math.isfinite(rates["compute"]):
        notes.append(Note(compute.mark, "throughput", "the compute units have no rate; a clock of 1 GHz is taken"))
        return 1e9
    return rates["compute"]


def _rates(
    node: Table, actions: Sequence[str], names: Mapping[str, Value], notes: list[Note]
) -> tuple[dict[str, float], bool]:
    """Bits that actions of each kind move in a second (actions of a compute unit), and whether they share the time."""
    tables_ = {str(action.get("name")): action for action in tables(value(node, "actions", Row, Row(node.mark)))}
    latency = str(node.get("total_latency", _SUM))
    found = dict.fromkeys(actions, math.inf)
    bits = {name: number(tables_[name], "bits_per_action", 1, names) if name in tables_ else 1 for name in actions}
    calls = _CALLS.fullmatch(latency)
    if calls:
        each_s = as_number(f"1{calls[2]}", node.where("total_latency"), names)
        found = {name: bits[name] / each_s if each_s else math.inf for name in actions}
    elif latency in (_SUM, _MAX):
        given = {name: "throughput" in tables_.get(name, {}) for name in actions}
        for name in (name for name in actions if given[name]):
            found[name] = bits[name] * number(tables_[name], "throughput", None, names)
        if not all(given.values()) and node.get("component_class", "Dummy") != "Dummy":
            why = f"the rate of {node.get('name')} is that of a component model; it is unlimited here"
            notes.append(Note(node.mark, "throughput", why))
    elif latency != "0":
        notes.append(
            Note(node.where("total_latency"), "total_latency", f"{latency}: no bandwidth; it is unlimited here")
        )
    return found, latency != _MAX and not (calls and calls[1] == "max")


def _energies(
    node: Table, actions: Sequence[str], bits: int, clock_hz: float, names: Mapping[str, Value]
) -> dict[str, str] | None:
    """Energies of actions that move `bits`; None where a component model has to give them."""
    found: dict[str, str] = {}
    given = {str(action.get("name")): action for action in tables(value(node, "actions", Row, Row(node.mark)))}
    dummy = node.get("component_class") == "Dummy"
    for name in actions:
        action = given.get(name)
        if action is not None and "energy" in action:
            joule = number(action, "energy", None, names) / number(action, "bits_per_action", 1, names)
            found[name] = f"{joule * bits * 1e12:.12g} pJ"
        elif dummy:
            found[name] = "0 pJ"
        else:
            return None
    watt = number(node, "leak_power", 0, names)
    return {**found, "leak": f"{watt / clock_hz * 1e12:.12g} pJ", "source": "AccelForge"}


def _level(
    node: Table,
    name: str,
    word: int,
    clock_hz: float,
    names: Mapping[str, Value],
    kept: dict[str, frozenset[str]],
    notes: list[Note],
    *,
    first: bool,
) -> dict[str, Any]:
    """Level of a memory, without its fanout; `kept` takes up what it keeps, under its name."""
    level: dict[str, Any] = {"name": name, "word": f"{word} bit"}
    none = Row(node.mark)
    size = number(node, "size", math.inf, names)
    if size > _UNLIMITED_BITS and not first:
        notes.append(Note(node.where("size"), "size", f"{name} is unlimited; {_UNLIMITED_BITS} bit stand for it"))
    if size <= _UNLIMITED_BITS or not first:
        level["size"] = f"{max(word, int(min(size, _UNLIMITED_BITS)))} bit"
    tensors = value(node, "tensors", Table, Table(node.mark))
    _note_others(tensors, ("keep", "may_keep"), notes)
    default = "Nothing" if "keep" in tensors else "All"
    keep = _members(tensors.get("keep", "Nothing"), kept, tensors.where("keep"))
    may = _members(tensors.get("may_keep", default), kept, tensors.where("may_keep"))
    kept[name] = keep
    if not first:
        level["keep"] = [role for short, role in _ROLES.items() if short in keep]
        level["bypass"] = [role for short, role in _ROLES.items() if short not in keep | may]
        level["drain_reads"] = True
    elif (keep | may) != frozenset(_ROLES):
        raise refuse(tensors.mark, f"{name} does not keep all tensors; accelsim's outermost level does")
    rates, shared = _rates(node, ("read", "write"), names, notes)
    slower = min(rates.values())
    if shared and math.isfinite(slower):
        level["bandwidth"] = f"{slower:.12g} bit/s"
        if len(set(rates.values())) > 1:
            notes.append(
                Note(node.mark, "throughput", f"{name} reads and writes share a port, at the rate of the slower")
            )
    elif not shared and math.isfinite(slower):
        fast = max(rate for rate in rates.values() if math.isfinite(rate))
        level |= {
            f"{key}_bandwidth": f"{rate if math.isfinite(rate) else fast:.12g} bit/s" for key, rate in rates.items()
        }
    energies = _energies(node, ("read", "write"), word, clock_hz, names)
    if energies is not None:
        level["energy"] = energies
    else:  # its accesses are as wide as they are here
        widths = [number(action, "bits_per_action", 1, names) for action in tables(value(node, "actions", Row, none))]
        level["block_size"] = max([1, *(int(width) // word for width in widths)])
    return {**level, **_model(str(node.get("component_class", "")).upper(), size, first=first)}


def _model(component: str, size: float, *, first: bool) -> dict[str, Any]:
    """Component model of a memory by its class and size [bit]."""
    kind = re.search(r"LPDDR4?|GDDR\d|DDR\d|HBM\d|HMC", component)
    if first or kind or "DRAM" in component:
        return {"class": "DRAM", "attributes": {"type": kind[0] if kind else "LPDDR4"}}
    return {"class": "SRAM" if size >= 4096 else "regfile" if size >= 128 else "register"}


# fanouts and constraints


def _fanout(
    node: Table,
    name: str,
    levels: list[dict[str, Any]],
    axes: Sequence[_Axis],
    names: Mapping[str, Value],
    notes: list[Note],
) -> list[_Axis]:
    """Add what is spatial at a node to the fanout of the level above it; a third axis shares one of the two."""
    found: list[_Axis] = []
    for spatial in tables(value(node, "spatial", Row, Row(node.mark))):
        if not levels:
            raise refuse(spatial.mark, f"{name} has several instances, and no memory stands above it")
        above = levels[-1]
        fanout = above.setdefault("fanout", {})
        place = len([axis for axis in (*axes, *found) if axis.level == above["name"]])
        axis = "xy"[place % 2]
        size = whole(as_number(spatial.get("fanout"), spatial.where("fanout"), names), spatial.where("fanout"))
        if place > 1:
            why = f"the third axis below {above['name']} shares {axis}, where loops of one may take room of another"
            notes.append(Note(spatial.mark, str(spatial.get("name")), why))
        fanout[axis] = fanout.get(axis, 1) * size
        _note_others(spatial, _SPATIAL_KEYS, notes)
        if str(spatial.get("may_reuse", "All")) == "Nothing":
            fanout |= {"multicast": False, "spatial_reduction": False}
        elif "may_reuse" in spatial and str(spatial["may_reuse"]) != "All":
            notes.append(Note(spatial.where("may_reuse"), "may_reuse", "all tensors are multicast and reduced"))
        found.append(_Axis(spatial, name, above["name"], axis))
    return found


def _constraints(axes: Sequence[_Axis], layers: Sequence[_Layer], notes: list[Note]) -> dict[str, Any] | None:
    """Constraints of the axes, where all layers have the same."""
    asking = [axis for axis in axes if "reuse" in axis.table or "loop_bounds" in axis.table]
    if not asking:
        return None
    each = [_axis_constraints(asking, layer, []) for layer in layers]
    if not layers or any(other != each[0] for other in each):
        why = "allows other dimensions in each layer; import it with the workload of one layer to have constraints"
        notes += [Note(axis.table.mark, str(axis.table.get("name")), why) for axis in asking]
        return None
    return {"levels": _axis_constraints(asking, layers[0], notes)}


def _axis_constraints(axes: Sequence[_Axis], layer: _Layer, notes: list[Note]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for axis in axes:
        allowed = set(layer.dims)
        factors: list[str] = []
        if "reuse" in axis.table:
            reused = _members(axis.table["reuse"], layer.sets, axis.table.where("reuse"))
            allowed -= {dim for name in reused for dim in layer.tensors[name]}
        dims = {dim: frozenset({dim}) for dim in layer.dims} | {"All": frozenset(layer.dims)}
        of_tensors = {
            name: frozenset(dim for tensor in tensors for dim in layer.tensors[tensor])
            for name, tensors in layer.sets.items()
            if name != "All"
        }
        for bound in tables(value(axis.table, "loop_bounds", Row, Row(axis.table.mark))):
            which = _members(bound.get("expression", "Nothing"), {**of_tensors, **dims}, bound.mark)
            sign, most = str(bound.get("operator")), whole(bound.get("value"), bound.where("value"))
            if sign in ("==", "<=") and most == 1:
                allowed -= which
            elif sign in ("==", "<=", ">="):
                factors += [f"{dim}{'=' if sign == '==' else sign}{most}" for dim in sorted(which)]
            else:
                notes.append(Note(bound.mark, "loop_bounds", f"{quoted(sign)} is no constraint of one loop"))
        at = found.setdefault(axis.level, {}).setdefault(axis.axis, {"only": sorted(allowed)})
        at["only"] = sorted(set(at["only"]) & allowed)
        if factors:
            at["factors"] = [*at.get("factors", []), *factors]
    return [{"level": level, "spatial": spatial} for level, spatial in found.items()]


# mapping


def _mapping(
    mapping: Table,
    architecture: Mapping[str, Any] | None,
    axes: Sequence[_Axis],
    layers: Sequence[_Layer],
    notes: list[Note],
) -> dict[str, Any] | None:
    """Mapping of one Einsum; None with the reason noted."""
    nodes = tables(value(mapping, "nodes", Row))
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
            name = plain_name(value(node, "component", str))
            if name not in levels or (found and levels.index(name) < levels.index(found[-1]["level"])):
                notes.append(
                    Note(node.mark, name, "storage is not in the order of the levels; the mapping is left out")
                )
                return None
            skipped = levels[levels.index(found[-1]["level"]) + 1 if found else 0 : levels.index(name)]
            found += [{"level": level, "keep": []} for level in skipped]
            if not found or found[-1]["level"] != name or "temporal" in found[-1] or "spatial" in found[-1]:
                found.append({"level": name, "keep": []})
            found[-1]["keep"] += list(map(str, value(node, "tensors", Row)))
        elif node.tag in ("!Temporal", "!Spatial"):
            dim = value(node, "rank_variable", str)
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
            place = next((axis for axis in axes if str(node.get("name")) == str(axis.table.get("name"))), None)
            if place is None or place.level != found[-1]["level"]:
                notes.append(Note(node.mark, dim, "is spread where the machine has no fanout; the mapping is left out"))
                return None
            found[-1].setdefault("spatial", {}).setdefault(place.axis, []).append(f"{dim}={bound}")
    found += [{"level": level, "keep": []} for level in levels[levels.index(found[-1]["level"]) + 1 :] if found]
    return {"levels": found}
