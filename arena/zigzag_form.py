"""Problems of the arena in ZigZag's form, and its even mappings as lines of loops and storage nodes."""

from __future__ import annotations

import re
from typing import Any

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.workload import Einsum

ROLES = {"Inputs": "I", "Weights": "W", "Outputs": "O"}
MEMORY_OPERANDS = {"I": "I1", "W": "I2", "O": "O"}
WIDE, HUGE = 1024, 10**13
"""Words of an access at most, so that no bandwidth limits the loops in space; bits of a memory without a size."""
Json = dict[str, Any]


def refusal(architecture: Architecture, einsum: Einsum, objective: str) -> str:
    """Why ZigZag's form cannot hold a problem, or nothing."""
    if any(sum(einsum.dims[dim] > 1 for dim, _ in rank) > 1 for tensor in einsum.tensors for rank in tensor.ranks):
        return "it counts windows otherwise: no halo between steps"
    if objective != "energy":
        return "its cycles are others: stalls and ports of each operand"
    axes = [axis for level in architecture.levels for axis in (level.x, level.y) if axis.size > 1]
    if not all(axis.spatial_reduction and axis.multicast is True for axis in axes):
        return "it has no fanout without multicast or reduction"
    levels = architecture.levels[1:]
    if any(level.bypass or level.partition_words or level.block_size > 1 for level in levels):
        return "even in its sense, tensors of different memories have tiles at different loops"
    return ""


def _word(architecture: Architecture, einsum: Einsum, index: int) -> int:
    """Bits of an access: of a word, or of an element where the word is wider."""
    return min(architecture.levels[index].word_bits, *(tensor.bits for tensor in einsum.tensors))


def write_machine(architecture: Architecture, einsum: Einsum) -> Json:
    """A machine: its memories, innermost first, all of all tensors, and the dimensions of its array."""
    places = {
        f"D{i + 1}": place
        for i, place in enumerate(
            (n, axis, getattr(level, axis).size)
            for n, level in enumerate(architecture.levels)
            for axis in "xy"
            if getattr(level, axis).size > 1
        )
    }
    operands = list(MEMORY_OPERANDS.values())
    port = [f"{operand}, {way}" for operand in operands for way in ("fh", "tl", *(("fl", "th") * (operand == "O")))]
    memories: Json = {}
    for n, level in reversed(list(enumerate(architecture.levels))):
        word = _word(architecture, einsum, n)
        pj = {way: architecture.energy.energy_pj(level.name, "Outputs", way) for way in ("read", "write")}
        access = {"bandwidth_min": word, "bandwidth_max": word * WIDE, "allocation": port}
        memories[level.name] = {
            "size": HUGE if level.size_words is None else level.rooms[""] * word,
            "r_cost": pj["read"] * WIDE,
            "w_cost": pj["write"] * WIDE,
            "area": 0,
            "latency": 1,
            "operands": operands,
            "ports": [{"name": "rw_port_1", "type": "read_write", **access}],
            "served_dimensions": [dim for dim, (at, _, _) in places.items() if at >= n],
        }
    array = {
        "unit_energy": architecture.energy.energy_pj(architecture.compute.name, "*", "compute"),
        "unit_area": 1,
        "dimensions": list(places) or ["D1"],
        "sizes": [size for _, _, size in places.values()] or [1],
    }
    return {"name": architecture.name, "memories": memories, "operational_array": array}


def write_layer(einsum: Einsum) -> Json:
    """A layer; dimensions of bound 1 are left out."""
    bounds = {dim: bound for dim, bound in einsum.dims.items() if bound > 1}
    by_role = {ROLES[tensor.role]: tensor for tensor in einsum.tensors}
    texts = {
        short: short + "".join(f"[{dim.lower()}]" for rank in tensor.ranks for dim, _ in rank if dim in bounds)
        for short, tensor in by_role.items()
    }
    output = by_role["O"]
    widths = {"W": by_role["W"].bits, "I": by_role["I"].bits, "O": output.psum_bits, "O_final": output.bits}
    return {
        "id": 0,
        "name": einsum.name,
        "operator_type": "Gemm",
        "equation": f"{texts['O']}+={texts['I']}*{texts['W']}",
        "dimension_relations": [],
        "loop_dims": list(bounds),
        "loop_sizes": list(bounds.values()),
        "operand_precision": widths,
        "operand_source": {"I": 0, "W": 0},
    }


def write_record(architecture: Architecture, einsum: Einsum) -> Json:
    """What `benchmarks/peers/zigzag_live.py` is asked: ZigZag spreads loops over the array as it likes."""
    mapping = {"name": "default", "memory_operand_links": MEMORY_OPERANDS}
    spec = {"accelerator_spec": write_machine(architecture, einsum), "mapping_spec": [mapping]}
    return {**spec, "workload": write_layer(einsum), "lpf_limit": 6, "temporal_mapping_type": "even"}


def read_answer(answer: Json, architecture: Architecture, einsum: Einsum) -> list[str]:
    """Lines of a mapping, outermost first, each loop with the tile below it."""
    names = [level.name for level in architecture.levels]
    axes = [(level.name, axis) for level in architecture.levels for axis in "xy" if getattr(level, axis).size > 1]
    spread: dict[str, list[tuple[str, str, int]]] = {name: [] for name in names}
    for number, loops in re.findall(r"D(\d+): \{(.*?)\}", answer["spatial"]):
        for dim, bound in re.findall(r"(\w+): ([\d.]+)", loops):
            if float(bound) > 1:
                name, axis = axes[int(number) - 1]
                spread[name].append((f"S-{name}__{axis}", dim, _whole(bound)))
    tile, lines = dict(einsum.dims), list[str]()
    blocks = answer["temporal"]
    for n, name in enumerate(names):
        lines += [f"[{short} in {name}__]" for short in blocks]
        found = {str(memories[len(names) - 1 - n]) for memories in blocks.values()}
        if len(found) > 1:
            raise ValueError(f"{name}: its tensors have tiles at different loops")
        loops = [("T", dim, _whole(bound)) for dim, bound in reversed(blocks["O"][len(names) - 1 - n])]
        for kind, dim, bound in [*loops, *spread[name]]:
            tile[dim], rest = divmod(tile[dim], bound)
            if rest:
                raise ValueError(f"{name}: a loop of {dim} leaves a remainder")
            lines.append(f"{kind}-{dim.lower()} in . shape={tile[dim]}")
    return lines


def _whole(bound: str | float) -> int:
    """Return a bound; ZigZag writes one that fills an array with remainders as a fraction."""
    if float(bound) != int(float(bound)):
        raise ValueError(f"{bound} iterations are no whole number")
    return int(float(bound))
