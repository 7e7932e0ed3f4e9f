"""ZigZag's hardware, mapping and workload files, and the ONNX models that it maps.

A memory serves operands (I1, I2, O) of the MACs along some dimensions of their array: one instance for all MACs along
these, and one for each place along the others. So a level's fanout is of the dimensions that it serves and no level
inside it does, and the memories are a ladder if each serves all that the next ones do. Where one does not, its places
along the dimension that it leaves to a level inside it are one level of their sizes and ports together: this has the
same counts if loops along that dimension give each place words of its own, and others are not allowed there. The file
lists memories innermost first. A port moves at most `bandwidth_max` bits a cycle, at `r_cost` or `w_cost` [pJ], and
parts of that in steps of `bandwidth_min`; these are our accesses.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from accelsim.importers import values
from accelsim.importers.documents import Document, Map, Note, Seq, refuse
from accelsim.importers.foreign import Foreign
from accelsim.importers.zigzag_imc import IMC_KEYS, in_memory
from accelsim.importers.zigzag_mapping import ROLES, ZigZagNest, as_items, operands_of, pairs, read_nest, served_by
from accelsim.inputs.errors import Mark
from accelsim.inputs.library import importer
from accelsim.inputs.units import listed, quoted
from accelsim.inputs.workload import Einsum
from accelsim.inputs.workload_reader import load_workload

_LINKS = {"I": "I1", "W": "I2", "O": "O"}
"""Operand of the memories for each of a layer, where the mapping does not say."""
_ONNX_DIMS = {"B": "N", "OY": "P", "OX": "Q", "FY": "R", "FX": "S"}
_GEMM_DIMS = {"B": "B", "H": "H", "D": "M", "K": "N", "C": "K"}
"""Dimensions of convolutions, and of matrix products, that have other names in the workloads of our ONNX models."""
_ONNX_BITS = {"Weights": 8, "Inputs": 8, "Outputs": 8, "psums": 16}
_ACTIONS = {"read": "tl", "write": "fh", "update": "fl"}
"""To the lower level, from the higher and from the lower one; `th`, to the higher one, is a drain."""
_ARRAY_KEYS = {"multiplier_energy", "multiplier_area", "unit_energy", "unit_area", *IMC_KEYS}
_MEMORY_KEYS = {"size", "r_cost", "w_cost", "area", "latency", "operands", "ports", "served_dimensions", "mem_type"}
_MEMORY_KEYS |= {"auto_cost_extraction", "force_double_buffering", "min_r_granularity", "min_w_granularity"}
_KINDS = {"r": "read", "w": "write", "rw": "read_write"}
_MEMORY_KEYS |= {f"{kind}_{of}" for kind in _KINDS for of in ("bw", "port")}
_LAYER_KEYS = {"id", "name", "operator_type", "equation", "dimension_relations", "loop_dims", "loop_sizes"}
_LAYER_KEYS |= {"operand_precision", "operand_source", "loop_dim_size"}
_MAPPING_KEYS = {"name", "spatial_mapping", "spatial_mapping_hint", "memory_operand_links", "temporal_ordering"}
_MAPPING_KEYS |= {"temporal_mapping"}
_LAYER_KEYS |= _MAPPING_KEYS
_MAPPED = {"spatial_mapping", "temporal_ordering", "temporal_mapping"}
"""Keys of a mapping that a layer may have too: in Python's form of 2022 to 2024, and in what ZigZag writes."""
_HOLDS = {"holds": ["Weights", "Inputs"]}
"""An operand that stays the same for the next cycle is not read again."""
_WITHOUT_LAYERS = "is not asked for: name a workload of ZigZag, or a model (ONNX), whose dimensions these are"
_WIDE = 2**40
"""Bits of a memory, and of its port, that limit nothing."""
_OPERATIONS = {"Add": "add", "Pooling": "max"}
"""Operators that do not multiply and add; of poolings ZigZag does not say which."""
_HARDWARE_KEYS = {"name", "type", "memories", "operational_array", "multipliers", "operator_types", "dataflows"}
_LEFT = {
    "padding": "padded points count as ordinary points of the input",
    "core_allocation": "layers are not bound to cores here",
    "constant_operands": "an operand without a source comes from the outermost level",
    "operand_precision": "widths of words are those of the layers",
    "utilization": "the array is as busy as the loops have it",
}
"""Why keys that nothing here reads are left out, where that is known."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """What the other files need of a layer: names under which mappings find it, dimensions, widths, those of a role.

    Its own name comes first.
    """

    names: tuple[str, ...] = ("",)
    dims: Mapping[str, int] = field(default_factory=dict)
    bits: Mapping[str, int] = field(default_factory=dict)
    ours: Mapping[str, str] = field(default_factory=dict)
    """Our names of ZigZag's dimensions, where they differ."""
    einsum: Einsum | None = None

    def of_role(self, role: str) -> frozenset[str]:
        """Dimensions of the tensors of a role."""
        return frozenset().union(*(t.dims for t in (self.einsum.tensors if self.einsum else ()) if t.role == role))


@dataclass(frozen=True, slots=True)
class _Place:
    """Level and axis of a dimension of the array, and its size."""

    level: str
    axis: str
    size: int = field(compare=False)
    apart: frozenset[str] = field(default=frozenset(), compare=False)
    """Roles of which each place along it has words of its own, in a level further out."""


def convert(documents: Sequence[Document], layer: str | None = None) -> Foreign:
    """Turn files of ZigZag into documents of our kinds; of a layer, or of the only one, also its mapping.

    Raises InputError where a file is none of ZigZag's, or its machine has no form of ours: several memories of one
    operand that are no ladder.
    """
    notes: list[Note] = []
    workload, layers, entries = read_layers(documents, notes)
    machines = [one.body for one in documents if isinstance(one.body, Map) and not as_items(one.body)]
    for other in (body for body in machines if "memories" not in body):
        raise refuse(other.mark, "neither hardware nor mapping nor workload of ZigZag")
    hardware = values.only(machines, "hardware file")
    if hardware is None:
        why = "needs the hardware file: its dimensions are those of the array"
        notes += [Note(entry.mark, "mapping", why) for entry in entries[:1]]
        return Foreign(workload=workload, notes=tuple(notes))
    asked = [each for each in layers if layer in (None, *each.names[:1])]
    nest = None
    if len(asked) == 1 and entries and (einsum := asked[0].einsum):
        entry, sizes = _entry(entries, asked[0].names), _sizes(array_of(hardware))
        nest = read_nest(entry, einsum, asked[0].ours, hardware.value("memories", Map), sizes, notes)
    architecture, places = architecture_of(hardware, layers, notes, nest)
    mapping = nest.document(architecture["levels"], places) if nest else None
    said = [] if mapping else notes  # a mapping that is taken as it is asks for nothing
    constraints = constraints_of(architecture, places, entries_of(hardware, entries), layers, said)
    energies = "r_cost and w_cost of the memories, and unit_energy of the array."
    if modelled := [level["name"] for level in architecture["levels"] if "energy" not in level]:
        energies = f"accelsim's component models at 45 nm for {listed(modelled)}"
        energies += "; r_cost, w_cost, unit_energy elsewhere."
    return Foreign(architecture, workload, mapping, constraints, energies, tuple(dict.fromkeys(notes)))


def read_layers(
    documents: Sequence[Document], notes: list[Note]
) -> tuple[dict[str, Any] | None, list[_Layer], list[Map]]:
    """Workload of the files, if they have one, what the other files need of its layers, and entries of a mapping."""
    items = [item for document in documents if isinstance(document.body, Seq) for item in document.body.maps()]
    written = [item for document in documents if isinstance(document.body, Map) for item in as_items(document.body)]
    if written and (others := [item for item in items if "equation" in item]):
        notes.append(Note(others[0].mark, "equation", f"is not read: the layer of {written[0].mark.file} is taken"))
    items = written + [item for item in items if not written or "equation" not in item]
    entries = [item for item in items if "equation" not in item or item.keys() & _MAPPED]
    for entry in entries:
        values.note_others(entry, _LAYER_KEYS if "equation" in entry else _MAPPING_KEYS, _LEFT, notes)
    models = [document.path for document in documents if document.body is None]
    return *(_model(models[0], notes) if models and not written else _workload(items, entries, notes)), entries


def array_of(hardware: Map) -> Map:
    """The array of a core, under its older name or its newer one."""
    return hardware.value("multipliers" if "multipliers" in hardware else "operational_array", Map)


def entries_of(hardware: Map, entries: Sequence[Map]) -> Sequence[Map]:
    """Entries of a mapping; where there are none, what a core says itself of the loops on its array."""
    if entries or "dataflows" not in hardware:
        return entries
    return [Map(hardware.where("dataflows"), held={"name": "default", "spatial_mapping": hardware["dataflows"]})]


def constraints_of(
    architecture: dict[str, Any],
    places: Mapping[str, _Place],
    entries: Sequence[Map],
    layers: Sequence[_Layer],
    notes: list[Note],
) -> dict[str, Any] | None:
    """Constraints of the layers on a machine: those of the entries, and those of memories of parts of the array."""
    levels, said = [level["name"] for level in architecture["levels"]], list[Note]()
    asks = entries or (layers and any(place.apart for place in places.values()))
    asked = [
        (each.names[0], _layer_constraints(_entry(entries, each.names), each, places, levels, said))
        for each in (layers or [_Layer()] if asks else ())
    ]
    notes += dict.fromkeys(said)
    return values.without_loops(values.for_layers(asked), architecture["levels"])


def _sizes(array: Map) -> dict[str, int]:
    """Size of each dimension of an array."""
    row = array.value("sizes", Seq)
    dims = map(str, array.value("dimensions", Seq))
    return {dim: values.whole(size, row.mark) for dim, size in zip(dims, row, strict=False)}


def architecture_of(
    hardware: Map, layers: Sequence[_Layer], notes: list[Note], nest: ZigZagNest | None = None
) -> tuple[dict[str, Any], dict[str, _Place]]:
    """Architecture of a hardware file, on which a mapping is one of ours, and the place of each array dimension."""
    widths = {bits for layer in layers for bits in layer.bits.values()}
    values.note_others(hardware, _HARDWARE_KEYS, _LEFT, notes)
    array = array_of(hardware)
    values.note_others(array, _ARRAY_KEYS, _LEFT, notes)
    sizes = _sizes(array)
    memories = hardware.value("memories", Map)
    values.read_all(lambda name: operands_of(memories.value(name, Map)), memories)
    outermost = list(memories.values())[-1:]
    if outermost and isinstance(outermost[0], Map) and set(operands_of(outermost[0])) != set(ROLES):
        why = "what the file keeps nowhere comes from, and goes to, a level Outside that costs nothing"
        notes.append(Note(memories.mark, "memories", why))
        memories["Outside"] = _outside(memories.mark, list(sizes))
    ladder = _ladder(memories, list(sizes), notes, nest)
    levels, places = [], dict[str, _Place]()
    for index, (name, memory) in enumerate(ladder):
        inside = set().union(*(served_by(below) for _, below in ladder[index + 1 :]))
        apart = [dim for dim in sizes if dim in inside - served_by(memory)]
        level = _level(name, memory, widths, math.prod(sizes[dim] for dim in apart), notes, first=index == 0)
        if apart:
            why = f"the {name} along {listed(apart)} are one level, as large and fast as they are together; loops of "
            why += f"{listed(sorted(level['keep']))} alone are allowed along {listed(apart)}"
            notes.append(memory.note("served_dimensions", why))
        levels.append(level)
        for at, dim in enumerate(dim for dim in sizes if dim in served_by(memory) - inside):
            outside = [each for _, each in ladder[:index] if dim not in served_by(each)]
            roles = frozenset(ROLES[operand] for each in outside for operand in operands_of(each))
            if at and at % 2 == 0:  # more axes take levels of their own
                levels.append(values.bare_level(f"{level['name']}-{dim}", level["word"]))
            places[dim] = _Place(levels[-1]["name"], "xy"[at % 2], sizes[dim], roles)
            levels[-1].setdefault("fanout", {})["xy"[at % 2]] = sizes[dim]
    if any(memory.get("area") for _, memory in ladder) or array.get("unit_area"):
        notes.append(Note(array.where("unit_area"), "area", "areas have no unit in ZigZag and are left out"))
    machine: dict[str, Any] = {"name": values.plain_name(hardware.value("name", str, "zigzag"))}
    unit: dict[str, Any] = {"class": "mac"}
    if any("energy" not in level for level in levels):
        machine |= {"technology": "45 nm", "clock": "1 GHz", "energy_table": "components"}
        unit = {"class": "intmac", "attributes": {"bits": 8}}
        for level in levels:
            if level["class"] == "memory":
                level["class"] = values.storage_class(int(level["size"].split()[0]))
            if "fanout" in level:
                level["fanout"]["energy"] = {"transfer": "0 pJ", "source": "ZigZag charges no wires"}
    machine["levels"] = levels
    if array.get("is_imc"):
        return {**machine, "compute": _in_memory(array, levels, layers, notes)}, places
    of_mac = "multiplier_energy" if "multiplier_energy" in array else "unit_energy"
    energy = {"compute": values.pj_text(values.figure(array, of_mac)), "source": "ZigZag"}
    return {**machine, "compute": {"name": "MAC", **unit, **_HOLDS, "energy": energy}}, places


def _in_memory(
    array: Map, levels: Sequence[dict[str, Any]], layers: Sequence[_Layer], notes: list[Note]
) -> dict[str, Any]:
    """Compute units of an array that computes in memory.

    What drives its rows is charged with the reads of inputs next to it, what ends its columns with the updates of sums.
    """
    costs = in_memory(array, notes)
    sums = max((layer.bits.get("psums", max(layer.bits.values())) for layer in layers if layer.bits), default=16)
    for role, action, bits, each_pj in (
        ("Inputs", "read", values.whole(array.value("input_precision", Seq)[0], array.mark), costs.input_pj),
        ("Outputs", "update", sums, costs.sum_pj),
    ):
        level = next(level for level in reversed(levels) if role not in level.get("bypass", ()))
        access = int(level["word"].split()[0]) * level.get("block_size", 1)
        energies, fallback = level["energy"], "write" if action == "update" else action
        before = energies.get(action, energies[fallback])
        roles = before if isinstance(before, dict) else dict.fromkeys(level.get("keep", ROLES.values()), before)
        roles = {one: text for one, text in roles.items() if action != "update" or one == "Outputs"}
        roles[role] = values.pj_text(float(roles[role].split()[0]) + each_pj * access / bits)
        energies[action] = roles if len(roles) > 1 or action == "update" else roles[role]
    energy = {"compute": values.pj_text(costs.mac_pj), "source": "ZigZag's model of compute in memory"}
    return {"name": "MAC", "class": "mac", "cycles_per_mac": costs.cycles, **_HOLDS, "energy": energy}


def _outside(mark: Mark, dims: Sequence[str]) -> Map:
    """Memory of all operands that costs nothing, for a core of a chip or an array alone."""
    port = Map(mark, held={"type": "read_write", "bandwidth_max": _WIDE, "bandwidth_min": 8})
    found: dict[str, Any] = {"size": _WIDE, "r_cost": 0, "w_cost": 0, "operands": Seq(mark, held=ROLES)}
    found |= {"served_dimensions": Seq(mark, held=dims), "ports": Seq(mark, held=[port])}
    return Map(mark, held=found)


def _ladder(memories: Map, dims: list[str], notes: list[Note], nest: ZigZagNest | None) -> list[tuple[str, Map]]:
    """Memories, outermost first; refused where of two for one operand neither serves all that the other one does."""
    listed_first = [(name, memories.value(name, Map)) for name in reversed(memories)]
    for _, memory in listed_first:
        for dim in sorted(served_by(memory) - set(dims)):
            raise memory.refuse("served_dimensions", f"{quoted(dim)} is no dimension of the array: {listed(dims)}")
    if not listed_first:
        raise refuse(memories.mark, "there is no memory")
    name, outermost = listed_first[0]
    if served_by(outermost) != set(dims):
        mark = outermost.where("served_dimensions")
        why = f"one {name} stands for those along {listed(sorted(set(dims) - served_by(outermost)))}"
        notes.append(Note(mark, "served_dimensions", why))
        outermost["served_dimensions"] = Seq(mark, held=dims)
    ladder = [listed_first[0], *sorted(listed_first[1:], key=lambda each: -len(served_by(each[1])))]
    for (outer, above), (lower, below) in itertools.combinations(ladder, 2):
        if not served_by(below) <= served_by(above) and set(operands_of(below)) & set(operands_of(above)):
            what = f"{outer} is shared along {listed(sorted(served_by(above)))} and {lower} along "
            what += f"{listed(sorted(served_by(below)))}, and both hold {listed(operands_of(below))}"
            raise below.refuse("served_dimensions", what)
    for operand in ROLES:
        chains = [[name for name, each in order if operand in operands_of(each)] for order in (listed_first, ladder)]
        if chains[0] != chains[1]:
            name = next(a for a, b in zip(*chains, strict=True) if a != b)
            raise memories.refuse(name, f"{name} serves more of the array than a memory of {operand} outside it")
    return nest.order(ladder, notes) if nest else ladder


def _level(
    name: str, memory: Map, widths: Iterable[int], together: int, notes: list[Note], *, first: bool
) -> dict[str, Any]:
    """Level of so many memories together, without its fanout."""
    values.note_others(memory, _MEMORY_KEYS, _LEFT, notes)
    ports = ports_of(memory)
    steps = [values.whole(port.get("bandwidth_min", port.get("bandwidth_max")), port.mark) for port in ports]
    if not steps:
        raise memory.refuse("ports", f"{name} has no port")
    step = math.gcd(*steps)
    word = math.gcd(8, step, *widths)
    if len(set(steps)) > 1:
        notes.append(Note(memory.where("ports"), "bandwidth_min", f"accesses of {name} are counted in {step} bit"))
    if values.number(memory, "latency", 1) > 1:
        notes.append(memory.note("latency", f"an access of {name} takes no time of its own"))
    modelled = bool(memory.get("auto_cost_extraction")) and "r_cost" not in memory
    if memory.get("auto_cost_extraction"):
        taken = "component models are taken" if modelled else "r_cost and w_cost of the file are taken"
        notes.append(memory.note("auto_cost_extraction", f"ZigZag lets CACTI find the costs of {name}; {taken}"))
    operands = operands_of(memory)
    roles = [ROLES[operand] for operand in operands]
    level: dict[str, Any] = {"name": values.plain_name(name), "class": "memory", "word": f"{word} bit"}
    level["size"] = f"{values.whole(memory.get('size'), memory.where('size')) * together} bit"
    level |= {"block_size": step // word} if step > word else {}
    level |= {"multiple_buffering": 2} if memory.get("force_double_buffering") else {}
    level |= _bandwidths(name, memory, ports, together, notes)
    if not first:
        level |= {"keep": roles, "bypass": [role for role in ROLES.values() if role not in roles]}
        level |= {"drain_reads": True} if "O" in operands else {}
    if modelled:
        dram: dict[str, Any] = {"class": "DRAM", "attributes": {"type": "LPDDR4"}}
        return level | (dram if first else {"class": values.storage_class(int(level["size"].split()[0]))})
    return {**level, "energy": {**_energies(memory, ports, operands, step), "source": "ZigZag"}}


def ports_of(memory: Map) -> list[Map]:
    """Ports of a memory; those of the older form have a name such as `r_port_1` and stand under each operand."""
    given = memory.value("ports", Seq).maps()
    if "r_bw" not in memory:
        return given
    found: dict[str, Map] = {}
    for operand, ways in zip(operands_of(memory), given, strict=False):
        for way, name in ways.items():
            kind = str(name).partition("_")[0]
            port = found.setdefault(str(name), Map(ways.mark))
            widest = max(values.whole(memory.get(f"{one}_bw"), ways.mark) for one in ("r", "w") if one in kind)
            steps = [memory[key] for key in (f"min_{one}_granularity" for one in kind) if key in memory]
            port |= {"type": _KINDS.get(kind, kind), "bandwidth_max": widest, "bandwidth_min": min([widest, *steps])}
            port.setdefault("allocation", Seq(ways.mark)).append(f"{operand}, {way}")
    return list(found.values())


def _bandwidths(name: str, memory: Map, ports: Sequence[Map], together: int, notes: list[Note]) -> dict[str, str]:
    """Bandwidths of so many memories together: those of ports of one direction add up."""
    rates = {"read": 0, "write": 0, "read_write": 0}
    for port in ports:
        kind = port.value("type", str)
        if kind not in rates:
            raise port.refuse("type", f"{quoted(kind)} is none of {listed(rates)}")
        rates[kind] += values.whole(port.get("bandwidth_max"), port.where("bandwidth_max")) * together
    if len(ports) > sum(rate > 0 for rate in rates.values()) or (rates["read_write"] and len(ports) > 1):
        why = f"the {len(ports)} ports of {name} are one for all operands, as wide as they are together"
        notes.append(memory.note("ports", why))
    if rates["read_write"] or not (rates["read"] and rates["write"]):
        return {"bandwidth": f"{sum(rates.values())} bit/cycle"}
    return {f"{kind}_bandwidth": f"{rates[kind]} bit/cycle" for kind in ("read", "write")}


def _energies(memory: Map, ports: Sequence[Map], operands: Sequence[str], step: int) -> dict[str, Any]:
    """Energy of an access of `step` bits: a port's cost is that of all its bits."""
    found: dict[str, Any] = {}
    texts = [map(str, port.value("allocation", Seq, Seq(port.mark))) for port in ports]  # such as `I1, tl`
    ways = [{tuple(re.split(r"\s*,\s*", text.strip())) for text in each} for each in texts]
    for action, way in _ACTIONS.items():
        cost = values.figure(memory, "r_cost" if action == "read" else "w_cost")
        of_role: dict[str, str] = {}
        for operand in operands if action != "update" else ["O"] * ("O" in operands):
            used = [port for port, own in zip(ports, ways, strict=True) if (operand, way) in own] or list(ports)
            widest = values.whole(used[0].get("bandwidth_max"), used[0].mark)
            of_role[ROLES[operand]] = values.pj_text(cost * step / widest)
        same = len(set(of_role.values())) == 1
        found |= {action: next(iter(of_role.values())) if same else of_role} if of_role else {}
    if found.get("update") == found["write"]:
        del found["update"]
    return found


def _model(path: str, notes: list[Note]) -> tuple[dict[str, Any], list[_Layer]]:
    """Workload of an ONNX model; its layers that are no convolution or product share no dimensions with mappings."""
    model = importer(path)
    assert model is not None
    imported, mark = model.import_model(path, {}), Mark(path, 1, 1)
    notes += [Note(mark, each.operator, f"is {each.done}: {each.why}", each.node) for each in imported.notes]
    notes.append(Note(mark, "bits", "8 for each tensor and 16 for partial sums, as ZigZag takes them"))
    body = yaml.safe_load(imported.text)["workload"] | {"bits": _ONNX_BITS}
    body["layers"] = [{key: held for key, held in layer.items() if key != "bits"} for layer in body["layers"]]
    read = load_workload({"workload": body}).layers
    layers = []
    for each in read:
        dims = each.dims if "P" in each.dims or {"M", "N"} <= each.dims.keys() else {}
        ours = _ONNX_DIMS if "P" in each.dims else _GEMM_DIMS
        layers.append(_Layer((each.name,), dims, _ONNX_BITS, ours, each))
    return body, layers


def _workload(
    items: Sequence[Map], entries: Sequence[Map], notes: list[Note]
) -> tuple[dict[str, Any] | None, list[_Layer]]:
    layers = [item for item in items if item.get("equation", "input") != "input"]  # which older files have a layer for
    if not layers:
        return None, []
    usual = [f"{layer.get('operator_type', 'layer')}_{layer.get('id', at)}" for at, layer in enumerate(layers)]
    names = {id(layer): _layer_name(str(layer.get("name") or name)) for layer, name in zip(layers, usual, strict=True)}
    by_id = {str(layer.get("id")): names[id(layer)] for layer in layers}

    def read(layer: Map) -> tuple[dict[str, Any], _Layer]:
        values.note_others(layer, _LAYER_KEYS, _LEFT, notes)
        name, operator = names[id(layer)], layer.value("operator_type", str, "")
        found = (name, str(layer.get("name", "")), str(layer.get("id", "")), operator)
        entry = _entry(entries, found)
        linked = entry.inner("memory_operand_links")
        links = {str(a): str(b) for a, b in linked.items()}
        if wrong := [name for name in links if links[name] not in ROLES]:
            raise linked.refuse(wrong[0], f"{quoted(links[wrong[0]])} is none of the operands {listed(ROLES)}")
        einsum, bits = _einsum(layer, _LINKS | links, notes)
        given = layer.inner("operand_source").items()
        sources = {tensor: source[0] if isinstance(source, Seq) and source else source for tensor, source in given}
        feeds = {tensor: by_id.get(str(source), name) for tensor, source in sources.items() if tensor in bits}
        feeds = {tensor: source for tensor, source in feeds.items() if source != name}
        written = {"name": name, **({"from": feeds} if feeds else {}), "einsum": einsum, "bits": bits}
        written |= {"operation": _OPERATIONS[operator]} if operator in _OPERATIONS else {}
        return written, _Layer(found, einsum["dims"], bits)

    written, known = zip(*values.read_all(read, layers), strict=True)
    body = {"name": values.file_stem(layers[0].mark), "layers": list(written)}
    body = values.checked_workload(body, layers[0].mark, notes)
    ours = load_workload({"workload": body}).layers
    return body, [replace(layer, einsum=each) for layer, each in zip(known, ours, strict=True)]


def _layer_name(text: str) -> str:
    """Name of a layer as ours, which that of a node of a model is too: `layer1_Conv` of `/layer1/Conv`."""
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", text.strip("/")).strip("_.+-") or "layer"


def _entry(entries: Sequence[Map], names: Sequence[str]) -> Map:
    """Entry of the mapping for a layer: that of its name, its operator, or the default one."""
    named = [(str(entry.get("name", entry.get("id"))), entry) for entry in reversed(entries)]
    by_name = {_layer_name(name): entry for name, entry in named} | dict(named)
    return next((by_name[name] for name in (*names, "default") if name in by_name), Map(Mark("", 1, 1)))


def _einsum(layer: Map, links: Mapping[str, str], notes: list[Note]) -> tuple[dict[str, Any], dict[str, int]]:
    given = layer.inner("loop_dim_size")
    if not given:
        row = layer.value("loop_sizes", Seq)
        given |= zip(map(str, layer.value("loop_dims", Seq)), row, strict=False)
    dims = {dim.upper(): values.whole(size, layer.where("loop_sizes")) for dim, size in given.items()}
    sums = {}
    for relation in layer.value("dimension_relations", Seq, Seq(layer.mark)):
        left, _, right = re.sub(r"\s", "", str(relation)).partition("=")
        if not re.fullmatch(r"(\d+\*)?\w+(\+(\d+\*)?\w+)*", right):
            what = f"{quoted(str(relation))} is no sum of dimensions, such as ix=2*ox+1*fx"
            raise layer.refuse("dimension_relations", what)
        sums[left.upper()] = right.upper()
    widths = layer.inner("operand_precision")
    equation = layer.value("equation", str)
    tensors = dict(re.findall(r"(\w+)((?:\s*\[\s*\w+\s*\])+)", equation))
    output = equation.split("[")[0].strip()
    if output not in tensors:
        raise layer.refuse("equation", f"{quoted(equation)} is no equation such as O[b][k]+=I[b][c]*W[c][k]")
    values.note_others(widths, {*tensors, f"{output}_final"}, {}, notes)
    written, bits, roles = dict[str, list[str]](), dict[str, int](), dict[str, str]()
    for name, ranks in tensors.items():
        width = widths.get(name, 8)
        final = widths.get(f"{name}_final", width) if name == output else width
        if final == 0:
            notes.append(widths.note(name, "has a width of 0 and is left out"))
            continue
        written[name] = [sums.get(rank, rank) for rank in re.findall(r"\w+", ranks.upper())]
        bits[name] = values.whole(final, widths.where(name))
        role = ROLES.get(links.get(name, ""), "Inputs")
        roles |= {} if name == output else {name: role}
        if name == output and width != final:
            bits["psums"] = max(bits[name], values.whole(width, widths.where(name)))
    used = set(re.findall(r"\w+", str(written)))
    dims = {dim: size for dim, size in dims.items() if size > 1 or dim in used}
    return {"dims": dims, "tensors": written, "output": output, "roles": roles}, bits


def _layer_constraints(
    entry: Map, layer: _Layer, places: Mapping[str, _Place], levels: Sequence[str], notes: list[Note]
) -> list[dict[str, Any]]:
    spatial = entry.inner("spatial_mapping")
    hints = entry.inner("spatial_mapping_hint")
    written = {dim: (table.where(dim), table[dim]) for table in (hints, spatial) for dim in table}
    for array_dim in dict.fromkeys([*spatial, *hints]):
        if array_dim not in places:
            notes.append(Note(written[array_dim][0], array_dim, "is no dimension of the array"))
    found: dict[str, dict[str, Any]] = {}
    for place in dict.fromkeys(places.values()):
        block: dict[str, Any] | None = {"only": [], "factors": []}
        for array_dim in (dim for dim, its in places.items() if its == place):
            at = places[array_dim]
            asked = _axis(array_dim, at.size, *written[array_dim], layer, notes) if array_dim in written else None
            asked = _words_of_their_own(asked, array_dim, at, layer, entry.mark, notes)
            block = {key: [*block[key], *asked[key]] for key in block} if block and asked else None
        if block is not None:
            axis = {key: items for key, items in block.items() if items or key == "only"}
            found.setdefault(place.level, {}).setdefault("spatial", {})[place.axis] = axis
    order = _order(entry, layer, notes)
    for level in levels if order else ():
        found.setdefault(level, {})["temporal"] = {"order": order}
    return [{"level": level, **found[level]} for level in levels if level in found]


_Loops = dict[str, list[str]]
"""Dimensions that may have a loop along a dimension of the array, and bounds of these loops."""


def _axis(array_dim: str, array_size: int, mark: Mark, written: Any, layer: _Layer, notes: list[Note]) -> _Loops | None:
    """Loops that an entry allows along a dimension of the array; None where the layer leaves them free."""
    found: _Loops = {"only": [], "factors": []}
    for dim, size in pairs(written):
        dim = layer.ours.get(dim, dim)
        if dim not in layer.dims:
            if size != "1":
                why = f"{dim} is no dimension of some layers" if layer.dims or layer.names[0] else _WITHOUT_LAYERS
                notes.append(Note(mark, array_dim, why, layer.names[0]))
            continue
        if size == "1":
            continue
        found["only"].append(dim)
        if size:
            most, bound = min(array_size, values.whole(size, mark)), layer.dims[dim]
            pads = bound > most and bound % most > 0
            found["factors"].append(f"{dim}{'<=' if pads else '='}{min(bound, most)}")
            if pads:
                why = f"{most} does not divide {dim} = {bound}, where ZigZag pads it; up to {most} are allowed"
                notes.append(Note(mark, array_dim, why))
    return found if found["only"] or all(size == "1" for _, size in pairs(written)) else None


def _words_of_their_own(
    asked: _Loops | None, array_dim: str, place: _Place, layer: _Layer, mark: Mark, notes: list[Note]
) -> _Loops | None:
    """Take out loops that do not give each place along a dimension of the array words of its own, where it has to."""
    if not place.apart or layer.einsum is None:
        return asked
    allowed = sorted(frozenset.intersection(*map(layer.of_role, place.apart)))
    found = {"only": allowed, "factors": list[str]()} if asked is None else asked
    left = [dim for dim in found["only"] if dim not in allowed]
    if left:
        why = f"{listed(left)} along {array_dim} would give places the same {listed(sorted(place.apart))}: not allowed"
        notes.append(Note(mark, array_dim, why))
    kept = [text for text in found["factors"] if re.split("<?=", text)[0] in allowed]
    return {"only": [dim for dim in found["only"] if dim in allowed], "factors": kept}


def _order(entry: Map, layer: _Layer, notes: list[Note]) -> list[str]:
    """Order of the loops of each level, outermost first."""
    row = entry.value("temporal_ordering", Seq, Seq(entry.mark))
    dims = [dim for dim, _ in pairs(Seq(row.mark, held=reversed(row)))]
    dims = [layer.ours.get(dim, dim) for dim, _ in itertools.groupby(dims)]  # loops in a row are one
    if not dims:
        return []
    mark = entry.where("temporal_ordering")
    if len(set(dims)) < len(dims) or not set(dims) <= set(layer.dims):
        why = f"splits a dimension, or has one that {layer.names[0]} has not; it is left out"
        notes.append(Note(mark, "temporal_ordering", why))
        return []
    why = "holds within each level, not from level to level; the sizes of the loops are left to the search"
    notes.append(Note(mark, "temporal_ordering", why))
    return dims
