"""Storage nodes: where in the loop nest each tensor's tile at a level stands.

In an even mapping a level is one node: its temporal block lies inside the tiles of all tensors that it keeps. In an
uneven mapping (as in ZigZag and AccelForge) a level has several nodes, each with some of the tensors and a
temporal block of its own; they stand next to each other in the nest, share size and ports, and the fanout lies below
the innermost.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping as StringMap
from collections.abc import Sequence
from dataclasses import replace

from accelsim.inputs.architecture import Architecture, Axis, Level
from accelsim.inputs.constraints import Block, Constraints
from accelsim.inputs.mapping import LevelMapping, Mapping
from accelsim.inputs.workload import Einsum

Arrangement = tuple[tuple[frozenset[str], ...], ...]
"""For each level the tensors that each of its nodes may keep, outermost first; () is one node for all."""


def arrange(architecture: Architecture, arrangement: Arrangement) -> Architecture:
    """Turn each level into its nodes, one `Level` each, all of them with the level's name.

    >>> from accelsim import load_architecture
    >>> nodes = ((), (frozenset({"Inputs"}), frozenset({"Outputs"})), ())
    >>> [level.name for level in arrange(load_architecture("eyeriss"), nodes).levels]
    ['DRAM', 'GLB', 'GLB', 'SPAD']
    """
    levels: list[Level] = []
    for level, nodes in zip(architecture.levels, arrangement, strict=True):
        for number, tensors in enumerate(nodes, 1):
            last = number == len(nodes)
            node = replace(level, tensors=tensors)
            levels.append(node if last else replace(node, x=Axis(), y=Axis(), systolic=None))
        levels += [] if nodes else [level]
    return replace(architecture, levels=tuple(levels))


def arrange_for(architecture: Architecture, mapping: Mapping) -> Architecture:
    """Return the machine with the nodes of a mapping; it is the same machine if the mapping is even.

    Raises ValueError if the mapping's levels are not those of the architecture.
    """
    levels = [architecture.levels[end - 1] for end in first_nodes(architecture.levels)[1:]]
    names, found = [level.name for level in levels], level_nodes(mapping)
    if [name for name, _ in found] != names:
        given = [level.level for level in mapping.levels]
        raise ValueError(f"mapping has levels {given}, {architecture.name} has {names}")
    if len(mapping.levels) == len(architecture.levels) == len(names):
        return architecture
    even = replace(architecture, levels=tuple(replace(level, tensors=None) for level in levels))
    return arrange(even, tuple(tuple(node.keep for node in nodes) if len(nodes) > 1 else () for _, nodes in found))


def level_nodes(mapping: Mapping) -> list[tuple[str, tuple[LevelMapping, ...]]]:
    """Nodes of each level, outermost first."""
    return [(name, tuple(nodes)) for name, nodes in itertools.groupby(mapping.levels, key=lambda node: node.level)]


def first_nodes(levels: Sequence[Level]) -> list[int]:
    """Index of the outermost node of each level, and the number of all nodes."""
    return [i for i, level in enumerate(levels) if i == 0 or level.name != levels[i - 1].name] + [len(levels)]


def fold(mapping: Mapping) -> Mapping:
    """Join nodes of a level that no loop stands between: the simplest form of a mapping.

    >>> inputs, outputs = LevelMapping("GLB", keep=frozenset({"I"})), LevelMapping("GLB", keep=frozenset({"O"}))
    >>> [sorted(level.keep) for level in fold(Mapping((inputs, outputs))).levels]
    [['I', 'O']]
    """
    folded: list[LevelMapping] = []
    for _, nodes in level_nodes(mapping):
        here: list[LevelMapping] = []
        for node in nodes:
            if here and not any(loop.bound > 1 for loop in here[-1].temporal):
                here[-1] = replace(node, keep=here[-1].keep | node.keep)
            elif here and not node.keep and not any(loop.bound > 1 for loop in node.temporal):
                here[-1] = replace(here[-1], x=node.x, y=node.y)
            else:
                here.append(node)
        folded += here
    return replace(mapping, levels=tuple(folded))


def with_nodes(architecture: Architecture, einsum: Einsum, constraints: Constraints) -> Architecture:
    """Turn each level into as many nodes as there are tensors that it may keep, each of which may keep any of them.

    With windows a level below a network has a node more: loops outside all that it keeps may do better than loops
    outside the network, but where `_share_most` holds. The outermost level holds everything in one node, and so does a
    level of whose temporal block or tile the constraints speak.

    >>> from accelsim import load_architecture, load_workload
    >>> from accelsim.inputs.constraints import Constraints
    >>> machine = with_nodes(load_architecture("eyeriss"), load_workload("gemm").layers[0], Constraints())
    >>> [level.name for level in machine.levels]
    ['DRAM', 'GLB', 'GLB', 'SPAD', 'SPAD', 'SPAD']
    """
    windows = any(sum(einsum.dims[dim] > 1 for dim, _ in rank) > 1 for t in einsum.tensors for rank in t.ranks)
    nodes: list[tuple[frozenset[str], ...]] = []
    for index, level in enumerate(architecture.levels):
        required = constraints.of(level.name)
        may = [t.name for t in einsum.tensors if t.role not in level.bypass and t.name not in required.bypass]
        below = index > 0 and windows and bool(may) and architecture.levels[index - 1].fanout > 1
        many = len(may) + (below and not _share_most(architecture, einsum, constraints, index))
        even = index == 0 or many < 2 or bool(required.temporal != Block() or required.sizes or required.words)
        nodes.append(() if even else (frozenset(may),) * many)
    return arrange(architecture, tuple(nodes)) if any(nodes) else architecture


def _share_most(architecture: Architecture, einsum: Einsum, constraints: Constraints, index: int) -> bool:
    """Whether loops between a network and all tiles of the level below let no more children share words of windows.

    So it is where no level from there inwards may keep a windowed tensor, and in each window one dimension is prime, of
    whose steps those of the other one are multiples; docs/papers/exact-mapper.md, Lemma 30, has the proof.
    """
    outside, inner = architecture.levels[index - 1], architecture.levels[index:]
    linked = any(level.link_transfers or architecture.has_hops(level) for level in architecture.levels)
    if linked or constraints.of(outside.name).temporal != Block():
        return False
    for tensor in einsum.tensors:
        ranks = [[(dim, step) for dim, step in rank if einsum.dims[dim] > 1] for rank in tensor.ranks]
        windows = [rank for rank in ranks if len(rank) > 1]
        kept = any(tensor.role not in e.bypass and tensor.name not in constraints.of(e.name).bypass for e in inner)
        if windows and (tensor.output or kept or tensor.role in architecture.compute.holds):
            return False
        pairs = [(rank[0], rank[1]) for rank in windows if len(rank) == 2]
        stepped = [_steps_by(a, b, einsum.dims) or _steps_by(b, a, einsum.dims) for a, b in pairs]
        if len(pairs) < len(windows) or not all(stepped):
            return False
    return True


def _steps_by(small: tuple[str, int], other: tuple[str, int], dims: StringMap[str, int]) -> bool:
    """Whether a dimension is prime, and steps of another one are multiples of its steps."""
    bound = dims[small[0]]
    from accelsim.inputs.divisors import divisors  # few mappings need it

    return other[1] % small[1] == 0 and len(divisors(bound)) == 2
