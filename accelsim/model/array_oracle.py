"""Oracle of systolic arrays: runs the array step by step and counts cycles; nothing here is a formula."""

from __future__ import annotations

from dataclasses import dataclass

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.mapping import Mapping
from accelsim.inputs.nodes import arrange_for
from accelsim.inputs.workload import Einsum, pad
from accelsim.model.oracle import acting_steps, nest_loops, walk_tile


@dataclass(frozen=True, slots=True)
class ArrayWalk:
    """What a systolic array went through: changes of what its PEs hold, words into a PE by change, and cycles."""

    tiles: int
    words: int
    cycles: int


def walk_array(architecture: Architecture, einsum: Einsum, mapping: Mapping) -> ArrayWalk | None:
    """Run a systolic array step by step; operands reach a PE one step after its neighbour, above or to the left.

    A word of what the PEs hold passes one row a cycle. The array stands still while it enters, and it enters once the
    last PE is done with the tile before; where the PEs are double-buffered, it enters while that is used.
    """
    architecture, einsum = arrange_for(architecture, mapping), pad(einsum, mapping.padding)
    arrays = [(index, level.systolic) for index, level in enumerate(architecture.levels) if level.systolic is not None]
    if not arrays:
        return None
    around, array = arrays[0]
    level, inside = architecture.levels[around], architecture.levels[around + 1]
    held, double = array.stationary, array.double_buffered
    each = architecture.compute.cycles_per_mac
    last_pe = max(row + column for row in range(level.y.size) for column in range(level.x.size)) * each
    coming: dict[tuple[str, tuple[int, ...]], int] = {}
    for tensor in einsum.tensors:
        for index, mapped in enumerate(mapping.levels):
            if tensor.role == held and mapped.level == inside.name and tensor.name in mapped.keep:
                for step in walk_tile(einsum, mapping, tensor, index):
                    if step.entering:
                        at = (tensor.name, step.indices)
                        coming[at] = max(coming.get(at, 0), len(step.entering))
    tiles, words = len(coming), sum(coming.values())
    rows = range(0 if held == "Outputs" else level.y.size)
    clock, entering, first = 0, 0, True
    for number, acting in enumerate(acting_steps(einsum, nest_loops(mapping))):
        for at in [(name, indices) for name, indices in coming if acting[: len(indices)] == indices]:
            clock += last_pe if not first and not double else 0
            first, new = False, coming.pop(at)
            for _ in rows:
                entering += new
                clock += new if number == 0 or not double else 0
        clock += each
    return ArrayWalk(tiles, words, (max(clock, entering) if double else clock) + last_pe)
