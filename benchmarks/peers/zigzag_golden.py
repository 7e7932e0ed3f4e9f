"""ZigZag's recorded machines, problems and runs in our terms.

An access moves up to `bandwidth_max` bits and costs in proportion, so a word costs its share. An operand that stays the
same is not read again for the next cycle: a free register of one word at each MAC does that here. Its latency knows
ports and stalls of each operand, ours does not: only energy is compared. Its search takes the spatial loops as given.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nest import Nest, Node, Peer, Step

from accelsim.inputs.architecture import Architecture, Axis, Compute, Level
from accelsim.inputs.constraints import Block, Constraints, Factor, LevelConstraint
from accelsim.inputs.energies import EnergyEntry, EnergyTable
from accelsim.inputs.workload import Einsum, Tensor

ROLES = {"I": "Inputs", "W": "Weights", "O": "Outputs"}
OPERANDS = {"I1": "I", "I2": "W", "O": "O"}
ACTIONS = {"tl": "read", "th": "read", "fl": "update", "fh": "write"}  # to and from the lower and the higher level
REGISTER = "operand register"
Json = dict[str, Any]


def load_machine(spec: Json, precision: Json) -> tuple[Architecture, dict[str, tuple[str, str]]]:
    """Read a machine, and the level and axis of each dimension of its array."""
    memories = dict(reversed(spec["memories"].items()))
    array = spec["operational_array"]
    sizes = dict(zip(array["dimensions"], array["sizes"], strict=True))
    pj = {("MAC", "*", "compute"): float(array["unit_energy"])}
    pj |= {(REGISTER, "*", action): 0.0 for action in ("read", "write")}
    levels: list[Level] = []
    places: dict[str, tuple[str, str]] = {}
    for (name, memory), inner in zip(memories.items(), [*list(memories.values())[1:], None], strict=True):
        operands = [OPERANDS[operand] for operand in memory["operands"]]
        widest, narrow = max(precision[operand] for operand in operands), memory["ports"][0]["bandwidth_min"]
        word = narrow if narrow <= widest else 8  # an access may hold several elements, or less than all of its bits
        for port in memory["ports"]:
            for operand, way in (allocation.split(", ") for allocation in port["allocation"]):
                cost = memory["r_cost" if ACTIONS[way] == "read" else "w_cost"] * word / port["bandwidth_max"]
                pj.setdefault((name, "*", "write"), cost)  # the outermost level is never filled, but has to have one
                if way != "th":
                    pj[name, ROLES[OPERANDS[operand]], ACTIONS[way]] = cost
        spread = [dim for dim in memory["served_dimensions"] if not inner or dim not in inner["served_dimensions"]]
        places |= {dim: (name, axis) for dim, axis in zip(spread, "xy", strict=False)}
        x, y = ([Axis(sizes[dim]) for dim in spread] + [Axis(), Axis()])[:2]
        keep = frozenset(ROLES[operand] for operand in operands)
        rest = frozenset(ROLES.values()) - keep
        size = memory["size"] // word if levels else None
        drains = bool(levels)
        levels.append(Level(name, "", word, size_words=size, keep=keep, bypass=rest, x=x, y=y, drain_reads=drains))
    kept = {"Inputs": 1, "Weights": 1}
    levels.append(Level(REGISTER, "", 8, partition_words=kept, keep=frozenset(kept), bypass=frozenset({"Outputs"})))
    table = EnergyTable({key: EnergyEntry(energy, "ZigZag") for key, energy in pj.items()})
    return Architecture(spec["name"], tuple(levels), Compute(), table), places


def load_einsum(layer: Json) -> Einsum:
    """Read a problem; `ix=1*ox+1*fx` says what a rank of the input is made of."""
    precision = layer["operand_precision"]
    sums = dict(relation.split("=") for relation in layer["dimension_relations"])
    tensors = []
    for name, ranks in re.findall(r"(\w+)((?:\[\w+\])+)", layer["equation"]):
        terms = [re.findall(r"(\d+)\*(\w+)", sums.get(rank, f"1*{rank}")) for rank in re.findall(r"\w+", ranks)]
        projection = tuple(tuple((dim.upper(), int(factor)) for factor, dim in rank) for rank in terms)
        final = precision["O_final" if name == "O" else name]
        tensors.append(Tensor(name, projection, ROLES[name], final, precision[name], output=name == "O"))
    return Einsum(layer["name"], dict(zip(layer["loop_dims"], layer["loop_sizes"], strict=True)), tuple(tensors))


def read_nest(best: Json, levels: list[str], spread: list[tuple[str, Step]], einsum: Einsum) -> Nest | None:
    """Return a mapping; None if it pads a dimension, or holds a MAC's tile outside a loop around one of all MACs."""
    items: list[tuple[tuple[float, ...], Node | Step]] = []  # with their place: loops inside, loops after nodes, level
    loops: list[Any] = []
    for operand, memories in best["temporal_mapping_per_operand_inner_to_outer"].items():
        loops = []
        for memory in memories:
            loops += memory["loops"]
            level = levels.index(memory["memory"])
            items.append(((-len(loops) if level else -math.inf, 0, level), Node(memory["memory"], operand)))
    nodes = [(place, levels.index(item.level)) for place, item in items if isinstance(item, Node)]
    for name, step in spread:
        around = max(place for place, level in nodes if level <= levels.index(name))
        if any(place < around for place, level in nodes if level > levels.index(name)):
            return None
        items.append(((*around, 1), step))
    items += [((-i - 1, 1), Step(dim, int(bound))) for i, (dim, bound) in enumerate(loops)]
    total = dict.fromkeys(einsum.dims, 1)
    for _, item in items:
        if isinstance(item, Step):
            total[item.dim] *= item.bound
    nest = [item for _, item in sorted(items, key=lambda placed: placed[0])]
    return [*nest, Node(REGISTER, "I"), Node(REGISTER, "W")] if total == einsum.dims else None


def record(folder: Path, machine: str, problem: str) -> Path:
    """Record with the least energy, of equal ones the one that took least time."""

    def rank(path: Path) -> tuple[float, float]:
        run = json.loads(path.read_text())
        return run["best_energy"]["energy_pJ"], run["cpu_s"]

    return min(folder.glob(f"{machine}__{problem}*.json"), key=rank)


def load_peers(folder: Path) -> Iterator[Peer]:
    """Return the least energy of each machine and problem."""
    names = dict.fromkeys(tuple(path.stem.split("__")[:2]) for path in sorted(folder.glob("*.json")))
    for machine, problem in names:
        run = json.loads(record(folder, machine, problem).read_text())
        best = run["best_energy"]
        architecture, places = load_machine(run["accelerator_spec"], run["workload"]["operand_precision"])
        einsum = load_einsum(run["workload"])
        spread = []
        for array_dim, loops in re.findall(r"(\w+): \{(.*?)\}", best["spatial_mapping_after_clipping"][1:-1]):
            level, axis = places[array_dim]
            spread += [(level, Step(dim, int(n), axis)) for dim, n in re.findall(r"(\w+): (\d+)", loops)]
        asked: dict[str, dict[str, Block]] = {}
        for level, step in spread:
            asked.setdefault(level, {})[step.axis] = Block(
                (Factor(step.dim, step.bound, step.bound),), frozenset({step.dim})
            )
        constraints = Constraints(
            tuple(LevelConstraint(at, x=b.get("x", Block()), y=b.get("y", Block())) for at, b in asked.items())
        )
        nest = read_nest(best, [level.name for level in architecture.levels], spread, einsum)
        note = "its loop order was given" if "temporal_ordering" in run["mapping_spec"][0] else ""
        kind, limit = run.get("temporal_mapping_type", "uneven"), run["lpf_limit"]
        space = f"{kind} mappings of at most {limit} loops, without remainders, spatial loops given"
        yield Peer(
            "ZigZag",
            machine,
            problem,
            "energy",
            architecture,
            einsum,
            constraints,
            space,
            best["energy_pJ"],
            run["cpu_s"],
            nest,
            first_reads=True,
            note=note,
        )
