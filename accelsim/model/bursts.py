"""Words that the outermost level moves in whole bursts; docs/model.md, section 8."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from accelsim.architecture import Level
from accelsim.mapping import Mapping
from accelsim.result import TensorAtLevel, TensorBursts, TensorOnNetwork
from accelsim.workload import Einsum, Tensor


class _Step(NamedTuple):
    """A temporal loop outside a tile: the rank along which it moves the tile, or None, its bound, and how far."""

    rank: int | None
    bound: int
    far: int


def outer_bursts(
    outermost: Level,
    einsum: Einsum,
    mapping: Mapping,
    at_level: Sequence[TensorAtLevel],
    on_network: Sequence[TensorOnNetwork],
) -> tuple[TensorBursts, ...]:
    """Bits that the outermost level moves for each tensor if each run of words side by side takes whole bursts.

    Tensors are stored dense, the last rank innermost, and each run begins with a burst.

    Parameters
    ----------
    outermost : Level
        With a `burst_bits`.
    einsum : Einsum
        Padded as the mapping asks for.
    mapping : Mapping
        Its loops leave no remainder.
    at_level, on_network
        Its counts.

    Returns
    -------
    tuple of TensorBursts
        Without tensors that are compressed, and without an output with several looped dimensions in a rank: words of
        its tiles may come back one by one.
    """
    burst = outermost.burst_bits
    assert burst is not None
    found = []
    for tensor in einsum.tensors:
        (at,) = (t for t in at_level if (t.level, t.tensor) == (outermost.name, tensor.name))
        if at.compression != 1 or (tensor.output and _overlapping(einsum, tensor)):
            continue
        element = at.storage_words(1, outermost.word_bits) * outermost.word_bits
        child = next((i for i, n in enumerate(mapping.levels) if i and tensor.name in n.keep), len(mapping.levels))
        box, steps = _tile(einsum, mapping, tensor, child)
        part, whole, parts = _moves(box, steps) if child < len(mapping.levels) else (box, math.prod(_bounds(steps)), 0)
        full = [1 + sum(factor * (einsum.dims[dim] - 1) for dim, factor in rank) for rank in tensor.ranks]
        run, bits = _runs(box, full, int(element), burst)
        _, part_bits = _runs(part, full, int(element), burst)
        below = {node.level for node in mapping.levels[child : child + 1]}  # its network lies inside its tiles
        names = {node.level for node in mapping.levels[:child]} - below
        crossed = [n for n in on_network if n.tensor == tensor.name and n.level in names]
        groups = math.prod(n.distinct_up if tensor.output else n.distinct for n in crossed)
        moved = groups * (whole * bits + parts * part_bits) + at.reads // math.prod(box) * bits * tensor.output
        found.append(TensorBursts(tensor.name, run, (at.reads + at.updates) * int(element), moved))
    return tuple(found)


def _overlapping(einsum: Einsum, tensor: Tensor) -> bool:
    return any(sum(einsum.dims[dim] > 1 for dim, _ in rank) > 1 for rank in tensor.ranks)


def _bounds(steps: Sequence[_Step]) -> list[int]:
    return [step.bound for step in steps]


def _tile(einsum: Einsum, mapping: Mapping, tensor: Tensor, child: int) -> tuple[list[int], list[_Step]]:
    """Extents of a tensor's tile at a level, and the temporal loops outside it, outermost first."""
    where = {dim: (rank, factor) for rank, terms in enumerate(tensor.ranks) for dim, factor in terms}
    inside, outside = dict.fromkeys(einsum.dims, 1), []
    box = [1] * len(tensor.ranks)
    for index in range(len(mapping.levels) - 1, -1, -1):
        node = mapping.levels[index]
        for loop in (*node.y, *node.x):
            inside[loop.dim] *= loop.bound
        for loop in reversed(node.temporal):
            if index < child and loop.bound > 1:
                rank, factor = where.get(loop.dim, (None, 0))
                outside.append(_Step(rank, loop.bound, factor * inside[loop.dim]))
            inside[loop.dim] *= loop.bound
        if index == child:
            box = [1 + sum(factor * (inside[dim] - 1) for dim, factor in rank) for rank in tensor.ranks]
    return box, outside[::-1]


def _moves(box: list[int], steps: Sequence[_Step]) -> tuple[list[int], int, int]:
    """Extents of the new part after a step of the innermost loop that moves a tile; whole tiles and parts that enter.

    docs/model.md, section 3, has the formula.
    """
    innermost = max((i for i, step in enumerate(steps) if step.rank is not None), default=None)
    if innermost is None:
        return box, 1, 0
    k = steps[innermost]
    part = [min(extent, k.far) if rank == k.rank else extent for rank, extent in enumerate(box)]
    passes = math.prod(_bounds(steps[:innermost]))
    whole, parts, back = passes, passes * (k.bound - 1), (k.bound - 1) * k.far
    for index in range(innermost - 1, -1, -1):
        step = steps[index]
        if step.rank is None:
            continue
        if step.rank != k.rank:
            break
        times = (step.bound - 1) * math.prod(_bounds(steps[:index]))
        whole -= times if step.far in (back, back + k.far) else 0
        parts += times if step.far == back + k.far else 0
        back += (step.bound - 1) * step.far
    return part, whole, parts


def _runs(box: Sequence[int], full: Sequence[int], element_bits: int, burst_bits: int) -> tuple[int, int]:
    """Words of a box that lie side by side, and bits of all bursts that it takes."""
    run = 1
    for extent, whole in zip(reversed(box), reversed(full), strict=True):
        run *= extent
        if extent < whole:
            break
    return run, math.prod(box) // run * -(-run * element_bits // burst_bits) * burst_bits
