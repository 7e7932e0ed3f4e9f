"""Loop nests of other tools as accelsim mappings: one level for each storage node, so that uneven nests fit too."""

from __future__ import annotations

import math
from collections.abc import Mapping as StringMap
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from accelsim.inputs.architecture import Architecture, Axis, Level
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.energies import EnergyTable
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import Einsum
from accelsim.model.evaluate import evaluate


@dataclass(frozen=True, slots=True)
class Node:
    """A storage node: from here inwards a level of the machine holds a tile of one tensor."""

    level: str
    tensor: str


@dataclass(frozen=True, slots=True)
class Step:
    """One loop of a nest, spatial if it has an axis (`x` or `y`); `level` says whose, where that is known."""

    dim: str
    bound: int
    axis: str = ""
    level: str = ""


Nest = Sequence[Node | Step]
"""Storage nodes and loops, outermost first; the nodes of the outermost level stand before any loop."""
Counts = StringMap[tuple[str, str, str], float]
"""Storage words moved in all instances, by level, tensor and `read` or `write` (fills and updates)."""


@dataclass(frozen=True, slots=True)
class Peer:
    """What another tool found for one machine, problem and objective, in our terms.

    Attributes
    ----------
    constraints : Constraints
        What the tool allows of spatial loops.
    space : str
        What the tool searches, beginning with `even` or `uneven`.
    value : float
        The tool's optimum by its own model [pJ, cycles or pJ*cycle].
    seconds : float
        Processor time of the tool.
    nest : Nest, or None
        The mapping that has this optimum; None where we cannot express it.
    counts : Counts
        As the tool counts this mapping, where it says so.
    first_reads : bool
        Whether the tool charges the first read of a partial sum, which we do not.
    note : str
        What else is to be known of it.
    files : tuple of Path
        Machine and problem as the tool's own environment reads them.
    """

    tool: str
    machine: str
    problem: str
    objective: str
    architecture: Architecture
    einsum: Einsum
    constraints: Constraints
    space: str
    value: float
    seconds: float
    nest: Nest | None
    counts: Counts = field(default_factory=dict)
    first_reads: bool = False
    note: str = ""
    files: tuple[Path, ...] = ()


@dataclass(slots=True)
class Replay:
    """A nest by our model; `fits` says whether the tiles of each level fit into it together."""

    energy_pj: float
    cycles: int
    fits: bool = True
    counts: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def value(self, objective: str) -> float:
        """Energy [pJ], cycles or EDP [pJ*cycle]."""
        return {"energy": self.energy_pj, "cycles": self.cycles, "edp": self.energy_pj * self.cycles}[objective]


def uneven(nest: Nest, einsum: Einsum) -> bool:
    """Whether tiles of a level differ: a loop between its nodes moves a tensor whose node stands outside it."""
    dims = {tensor.name: tensor.dims for tensor in einsum.tensors}
    nodes = [(i, item) for i, item in enumerate(nest) if isinstance(item, Node)]
    return any(
        isinstance(item, Step) and item.bound > 1 and item.dim in dims[first.tensor]
        for i, first in nodes
        for j, last in nodes
        if first.level == last.level
        for item in nest[i:j]
    )


def as_nest(mapping: Mapping, einsum: Einsum) -> Nest:
    """Write a mapping of ours as a nest: spatial loops first, each node outside the next loops that leave its tile."""
    nest: list[Node | Step] = []
    for level in mapping.levels:
        for tensor in einsum.tensors:
            if tensor.name not in level.keep:
                continue
            place = at = len(nest)
            while at:
                at, item = at - 1, nest[at - 1]
                if isinstance(item, Node):
                    if item.tensor == tensor.name:
                        break
                elif item.axis or item.dim in tensor.dims:
                    break
                else:
                    place = at
            nest.insert(place, Node(level.level, tensor.name))
        nest += [Step(loop.dim, loop.bound, axis, level.level) for axis in "xy" for loop in getattr(level, axis)]
        nest += [Step(loop.dim, loop.bound) for loop in level.temporal if loop.bound > 1]
    return nest


def unroll(architecture: Architecture, einsum: Einsum, nest: Nest) -> tuple[Architecture, Mapping]:
    """Return a machine with one level for each storage node of a nest, and the nest as a mapping on it.

    Capacities and bandwidths, which the nodes of one level share, are left out. Where a block already has a loop over
    a dimension, a level that keeps nothing takes the next one.
    """
    roles = {tensor.name: tensor.role for tensor in einsum.tensors}
    originals = {level.name: level for level in architecture.levels}
    outer = architecture.levels[0]
    entries = dict(architecture.energy.entries)
    levels = [replace(outer, bandwidth=None, read_bandwidth=None, write_bandwidth=None)]
    kept = [frozenset(roles)]
    loops: list[dict[str, list[Loop]]] = [{"": [], "x": [], "y": []}]
    owners = [""]  # of the spatial loops of each level

    def enter(name: str, like: Level, tensors: frozenset[str]) -> None:
        keep = frozenset(roles[tensor] for tensor in tensors)
        rest = frozenset(roles.values()) - keep
        levels.append(Level(name, like.component, like.word_bits, keep=keep, bypass=rest, drain_reads=like.drain_reads))
        kept.append(tensors)
        loops.append({"": [], "x": [], "y": []})
        owners.append("")

    for item in nest:
        if isinstance(item, Node):
            if item.level != outer.name:
                name = f"{item.level}/{item.tensor}"
                enter(name, originals[item.level], frozenset({item.tensor}))
                own = {key: entry for key, entry in entries.items() if key[0] == item.level}
                entries |= {(name, role, action): entry for (_, role, action), entry in own.items()}
            continue
        here, spread = loops[-1], bool(loops[-1]["x"] or loops[-1]["y"])
        again = any(loop.dim == item.dim for loop in here[item.axis])
        if again or (spread and (not item.axis or owners[-1] != item.level)):
            enter(f"loops {len(levels)}", outer, frozenset())
        loops[-1][item.axis].append(Loop(item.dim, item.bound))
        owners[-1] = item.level if item.axis else owners[-1]
    mapped = []
    for i, (level, tensors, here, owner) in enumerate(zip(levels, kept, loops, owners, strict=True)):
        networks = (originals[owner].x, originals[owner].y) if owner in originals else (Axis(), Axis())
        sizes = (math.prod(loop.bound for loop in here[axis]) for axis in "xy")
        x, y = (replace(network, size=size) for network, size in zip(networks, sizes, strict=True))
        levels[i] = replace(level, x=x, y=y)
        mapped.append(LevelMapping(level.name, tuple(here[""]), tuple(here["x"]), tuple(here["y"]), tensors))
    return replace(architecture, levels=tuple(levels), energy=EnergyTable(entries)), Mapping(tuple(mapped))


def replay(architecture: Architecture, einsum: Einsum, nest: Nest, *, first_reads: bool = False) -> Replay:
    """Evaluate a nest by our model, if asked with first reads of partial sums, and add up the nodes of each level."""
    split, mapping = unroll(architecture, einsum, nest)
    result = evaluate(split, einsum, mapping)
    instances = {level.level: level.used_instances for level in result.levels}
    found = Replay(result.energy_pj, result.compute_cycles)
    for level in architecture.levels:
        read, written, used = 0, 0, 0
        for t in result.tensors:
            if t.level.partition("/")[0] == level.name:
                parts = -(-t.word_bits // level.word_bits)
                reads, writes = t.reads * parts, (t.fills + t.updates) * parts
                found.counts[level.name, t.tensor, "read"] = reads * instances[t.level]
                found.counts[level.name, t.tensor, "write"] = writes * instances[t.level]
                read, written, used = read + reads, written + writes, used + t.tile_words * parts
        ports = (level.bandwidth, read + written), (level.read_bandwidth, read), (level.write_bandwidth, written)
        found.cycles = max([found.cycles, *(math.ceil(words / rate) for rate, words in ports if rate is not None)])
        found.fits &= level.size_words is None or used <= level.size_words
    leak = architecture.energy.find(architecture.levels[0].name, "*", "leak")
    found.energy_pj += leak.energy_pj * (found.cycles - result.cycles) if leak else 0.0
    if first_reads:
        found.energy_pj += _first_reads_pj(split, einsum, mapping)
    return found


def _first_reads_pj(split: Architecture, einsum: Einsum, mapping: Mapping) -> float:
    """Energy [pJ] of reading each partial sum for the first time, and of filling it into the tile further in."""
    undrained = replace(split, levels=tuple(replace(level, drain_reads=False) for level in split.levels))
    drained, result = (evaluate(machine, einsum, mapping) for machine in (split, undrained))
    widths = {level.name: level.word_bits for level in split.levels}
    instances = {level.level: level.used_instances for level in result.levels}
    energy_pj, partial_above = 0.0, False
    for t, drain in zip(result.tensors, drained.tensors, strict=True):
        if t.tensor == einsum.output.name:
            first = {"read": t.updates - t.reads if t.partial else 0}
            first["write"] = drain.reads - t.reads - t.fills if partial_above else 0
            words = -(-t.word_bits // widths[t.level]) * instances[t.level]
            energy_pj += sum(n * words * split.energy.energy_pj(t.level, "Outputs", way) for way, n in first.items())
            partial_above = t.partial
    return energy_pj
