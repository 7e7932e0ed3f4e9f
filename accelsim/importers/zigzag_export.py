"""Machines, layers and mappings of ours as ZigZag's files of 2024 and later: hardware, workload and mapping.

A mapping file of ZigZag has loops with sizes and their order; it finds their memories itself. Where it would find
others than the mapping has, each tensor has memories of its own that are as large as its tiles, and so leave no choice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping as StringMap
from dataclasses import replace
from typing import Any

from accelsim.importers.documents import Map, parse
from accelsim.importers.foreign import Export, yaml_text
from accelsim.importers.zigzag import convert
from accelsim.importers.zigzag_mapping import ROLES, ZigZagNest, allocated, tile_bits
from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.errors import AccelsimError, InputError
from accelsim.inputs.mapping import Loop, Mapping
from accelsim.inputs.units import listed, repeated
from accelsim.inputs.workload import Einsum, pad
from accelsim.model.evaluate import evaluate

HARDWARE, WORKLOAD, MAPPING = "hardware.yaml", "workload.yaml", "mapping.yaml"
LETTERS = {"Inputs": "I", "Weights": "W", "Outputs": "O"}
_OPERANDS = {role: operand for operand, role in ROLES.items()}
_LINKS = {LETTERS[role]: operand for role, operand in _OPERANDS.items()}
_WAYS = {"r": ("tl", "th"), "w": ("fh", "fl")}
"""Ways of words; the second ones are of outputs alone."""
_KINDS = {"r": "read", "w": "write", "rw": "read_write"}
_HUGE = 10**13
"""Bits of a memory without a size."""
_COSTS = ("transfers below", "leakage of", "hops below")
_SAME = 1e-6
Json = dict[str, Any]


def export_zigzag(architecture: Architecture, einsum: Einsum, mapping: Mapping) -> Export:
    """Write a machine, a layer and its mapping as `hardware.yaml`, `workload.yaml` and `mapping.yaml` of ZigZag.

    Dimensions that the mapping pads have their padded bounds in the workload. Notes say what ZigZag counts otherwise.
    Raises AccelsimError if ZigZag has no form for the layer, or for loops that leave remainders in time.
    """
    ours = evaluate(architecture, einsum, mapping)
    if not ours.valid:
        raise AccelsimError(f"the mapping is not valid: {ours.violations[0]}")
    held = architecture.compute.operands  # registers of the MACs, which ZigZag has too
    mapping = replace(mapping, levels=tuple(node for node in mapping.levels if node.level != held))
    padded = pad(einsum, mapping.padding)
    names = {dim: dim.upper() for dim in padded.dims}  # ZigZag takes capital letters and a number
    if not all(re.fullmatch(r"[A-Z]+\d*", name) for name in names.values()) or repeated([*names.values()]):
        names = {dim: f"L{number}" for number, dim in enumerate(padded.dims)}
    spread = _spread(mapping)
    temporal = [loop for node in mapping.levels for loop in node.temporal if loop.bound > 1]
    for dim, bound in padded.dims.items():
        steps = math.prod(loop.bound for loop in temporal if loop.dim == dim)
        wide = math.prod(loop.bound for _, loops in spread.values() for loop in loops if loop.dim == dim)
        if steps != -(-bound // wide):
            what = f"{dim}: {steps} steps of {wide} places are more than {bound} needs"
            why = "ZigZag's loops in time have none that are shorter at last; map again with --factors perfect"
            raise AccelsimError(f"{what}; {why}")
    entry: Json = {"name": "default", "memory_operand_links": _LINKS}
    written = {dim: [f"{names[loop.dim]}, {loop.bound}" for loop in loops] for dim, (_, loops) in spread.items()}
    entry["spatial_mapping"] = written
    entry["temporal_ordering"] = [[names[loop.dim], loop.bound] for loop in reversed(temporal)]
    notes = [f"{loop.dim} is padded from {einsum.dims[loop.dim]} to {loop.bound}" for loop in mapping.padded]
    texts = {WORKLOAD: yaml_text([_layer(padded, names)]), MAPPING: yaml_text([entry])}
    busy = {level.name: 1 for level in architecture.levels}
    for each in ours.tensors:  # bits a cycle of a port without a bandwidth, of which ZigZag counts whole cycles
        busy[each.level] += -(-(each.reads + each.fills + each.updates) * each.word_bits // ours.compute_cycles)
    machine = _machine(architecture, padded, mapping, busy)
    texts[HARDWARE] = yaml_text(machine)
    wanted = _inside(mapping, padded)
    spatial = {dim: [(loop.dim, loop.bound) for loop in each] for dim, (_, each) in spread.items()}
    nest = ZigZagNest(padded, [(loop.dim, loop.bound) for loop in reversed(temporal)], spatial, wanted)
    if not _found(nest, texts[HARDWARE]):
        texts[HARDWARE] = yaml_text(_apart(machine, nest, wanted))
        notes.append("each tensor has memories of its own, of the size of its tiles, so that ZigZag finds these")
    read = convert([parse(text, name) for name, text in texts.items()])
    if read.mapping is None:
        why = read.notes[-1].why if read.notes else "it has no loops"
        if temporal and len(machine["memories"]) == 1:
            why = f"{architecture.levels[0].name} keeps all tensors, and loops over one dimension stand apart"
        raise AccelsimError(f"ZigZag has no form for the mapping: {why}")
    theirs = evaluate(*read.loaded())
    for what, a, b in (("pJ", theirs.energy_pj, ours.energy_pj), ("cycles", theirs.cycles, ours.cycles)):
        if not math.isclose(a, b, rel_tol=_SAME):
            why = listed(_unsaid(architecture, padded)) or "ports that tensors share"
            notes.append(f"the files come to {a:,.10g} {what} instead of {b:,.10g}: ZigZag has no form for {why}")
    also = "ZigZag also charges first reads of partial sums and whole accesses, and counts windows without a halo"
    return Export(texts, (*notes, also))


def _spread(mapping: Mapping) -> dict[str, tuple[str, list[Loop]]]:
    """Dimensions of the array: one for the loops over each fanout, with the name of its level."""
    found = [(node.level, [loop for loop in (*node.x, *node.y) if loop.bound > 1]) for node in mapping.levels]
    return {f"D{number}": each for number, each in enumerate((each for each in found if each[1]), 1)}


def _layer(einsum: Einsum, names: StringMap[str, str]) -> Json:
    """A layer: its equation, with a rank of its own for each sum of dimensions."""
    roles = [tensor.role for tensor in einsum.tensors]
    if sorted(roles) != sorted(LETTERS):
        what = f"ZigZag's layers have one tensor of each role, this one has {listed(roles)}"
        raise AccelsimError(f"{einsum.name}: {what}")
    relations, texts, widths = dict[str, str](), dict[str, str](), dict[str, int]()
    for tensor in einsum.tensors:
        text = letter = LETTERS[tensor.role]
        if not tensor.ranks:
            raise AccelsimError(f"{tensor.name}: ZigZag has no tensor without ranks")
        for rank in tensor.ranks:
            if len(rank) > 2:
                raise AccelsimError(f"{tensor.name}: ZigZag's ranks are of two dimensions at most, not {len(rank)}")
            name = names[rank[0][0]].lower()
            if len(rank) == 2:
                name = f"i{name}"
                relations[name] = "+".join(f"{step}*{names[dim].lower()}" for dim, step in rank)
            text += f"[{name}]"
        texts[letter] = text
        widths[letter] = tensor.psum_bits if tensor.output else tensor.bits
    widths["O_final"] = einsum.output.bits
    return {
        "id": 0,
        "name": einsum.name,
        "operator_type": "Conv" if relations else "Gemm",
        "equation": f"{texts['O']}+={texts['I']}*{texts['W']}",
        "dimension_relations": [f"{name}={of}" for name, of in relations.items()],
        "loop_dims": [names[dim] for dim in einsum.dims],
        "loop_sizes": [*einsum.dims.values()],
        "operand_precision": widths,
        "operand_source": {"I": 0, "W": 0},
    }


def _machine(architecture: Architecture, einsum: Einsum, mapping: Mapping, busy: StringMap[str, int]) -> Json:
    """A machine with the memories that the mapping uses, innermost first, and an array of the loops in space."""
    roles = {tensor.name: tensor.role for tensor in einsum.tensors}
    spread, memories = _spread(mapping), dict[str, Json]()
    held = architecture.compute.operands
    levels = list({level.name: level for level in architecture.levels if level.name != held}.values())
    for level in reversed(levels):
        inside = {each.name for each in levels[levels.index(level) :]}
        served = {"served_dimensions": [dim for dim, (name, _) in spread.items() if name in inside]}
        kept = {roles[name] for node in mapping.levels if node.level == level.name for name in node.keep}
        parts = [[role] for role in LETTERS if role in kept]
        together = not level.partition_words and len({_costs(architecture, level, role) for role in kept}) == 1
        for part in [[role for role in LETTERS if role in kept]] if together else parts:
            name = level.name if together else f"{level.name}_{_OPERANDS[part[0]]}"
            memories[name] = _memory(architecture, level, part, level is levels[0], busy[level.name]) | served

    array = {"unit_energy": architecture.mac_pj(einsum), "unit_area": 1, "dimensions": [*spread] or ["D1"]}
    array["sizes"] = [math.prod(loop.bound for loop in loops) for _, loops in spread.values()] or [1]
    return {"name": architecture.name, "memories": memories, "operational_array": array}


def _costs(architecture: Architecture, level: Level, role: str) -> tuple[float, float]:
    """Energies [pJ] of a read and of a write, of which those of outputs are updates."""
    found = architecture.energy.found_pj
    writes = ("update", "write") if role == "Outputs" else ("write",)
    return found(level.name, role, "read"), found(level.name, role, *writes)


def _memory(architecture: Architecture, level: Level, roles: list[str], first: bool, busy: int) -> Json:
    """A memory of some roles; an access is the least that its ports move, and `busy` bits a cycle are what they do."""
    access = level.word_bits * level.block_size
    given = {"rw": level.bandwidth, "r": level.read_bandwidth, "w": level.write_bandwidth}
    rates = {kind: max(1, int(rate * level.word_bits)) for kind, rate in given.items() if rate is not None}
    wide = 2 ** (-(-busy // access) - 1).bit_length() * access
    rates = {kind: rates.get(kind, wide) for kind in (("rw",) if "rw" in rates or not rates else "rw")}
    operands = [_OPERANDS[role] for role in roles]
    words = (level.partition_words or {}).get(roles[0], level.size_words)
    memory: Json = {"size": _HUGE if first or words is None else int(words * level.word_bits)}
    for way, pj in zip("rw", _costs(architecture, level, roles[0]), strict=True):
        memory[f"{way}_cost"] = pj * rates.get(way, rates.get("rw", 0)) / access
    ports = []
    for kind, rate in rates.items():
        each = ((operand, way) for operand in operands for one in kind for way in _WAYS[one][: 1 + (operand == "O")])
        port = {"name": f"{kind}_port_1", "type": _KINDS[kind], "bandwidth_min": min(access, rate)}
        ports.append({**port, "bandwidth_max": rate, "allocation": [", ".join(pair) for pair in each]})
    return {**memory, "area": 0, "latency": 1, "operands": operands, "ports": ports}


def _inside(mapping: Mapping, einsum: Einsum) -> dict[tuple[str, str], int]:
    """Loops in time inside the tile of each operand at each level."""
    roles = {tensor.name: tensor.role for tensor in einsum.tensors}
    found, left = dict[tuple[str, str], int](), sum(loop.bound > 1 for node in mapping.levels for loop in node.temporal)
    for node in mapping.levels:
        found |= {(node.level, _OPERANDS[roles[name]]): left for name in node.keep}
        left -= sum(loop.bound > 1 for loop in node.temporal)
    return found


def _found(nest: ZigZagNest, hardware: str) -> bool:
    """Whether ZigZag finds the memories of a mapping by itself."""
    machine = parse(hardware, HARDWARE).body
    try:
        at = allocated(nest, machine.inner("memories")) if isinstance(machine, Map) else {}
    except InputError:
        return False
    ranges = {key: nest.range_of(*key) for key in nest.inside}
    return at.keys() == ranges.keys() and all(low <= at[key] <= most for key, (low, most) in ranges.items())


def _apart(machine: Json, nest: ZigZagNest, wanted: StringMap[tuple[str, str], int]) -> Json:
    """The machine with memories of one operand each, of which all but the outermost are as large as the tiles."""
    memories, start = dict[str, Json](), dict[str, int]()
    *inner, outermost = machine["memories"].items()
    for name, memory in inner:
        for operand in memory["operands"]:
            level = name.removesuffix(f"_{operand}")
            at = wanted[name if (name, operand) in wanted else level, operand]
            bits = tile_bits(nest, operand, set(memory["served_dimensions"]), start.get(operand, 0), at)
            start[operand] = at
            used = ([way for way in port["allocation"] if way.startswith(f"{operand},")] for port in memory["ports"])
            ports = [{**port, "allocation": ways} for port, ways in zip(memory["ports"], used, strict=True)]
            memories[f"{level}_{operand}"] = {**memory, "size": math.ceil(bits), "operands": [operand], "ports": ports}
    return {**machine, "memories": memories | dict([outermost])}


def _unsaid(architecture: Architecture, einsum: Einsum) -> list[str]:
    """What of a machine ZigZag has no form for, and may change counts."""
    found = []
    for level in architecture.levels:
        wires = [f"{level.name} network", level.name]
        for component, action, what in zip([*wires, level.name], ("transfer", "leak", "hop"), _COSTS, strict=True):
            if any(architecture.energy.found_pj(component, role, action) for role in ("Outputs", "Inputs")):
                found.append(f"{what} {level.name}")
        if level.systolic or level.dma or level.compression or level.overlap != "all":
            found.append(f"what {level.name} does beside storing (systolic, dma, compression, overlap)")
        if any(t.bits % level.word_bits for t in einsum.tensors if t.role not in level.bypass):
            found.append(f"words of {level.name} that elements do not fill")
        if not level.drain_reads and level is not architecture.levels[0] and "Outputs" not in level.bypass:
            found.append(f"drains of {level.name} without a read")
    if not architecture.compute.holds >= {"Weights", "Inputs"}:
        found.append("another read of an operand that stays the same")
    return found
