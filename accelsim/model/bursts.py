"""Words that the outermost level moves in whole bursts; docs/model.md, section 8."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from accelsim.inputs.architecture import Level
from accelsim.inputs.mapping import Mapping
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.result import TensorAtLevel, TensorBursts, TensorOnNetwork


class _Step(NamedTuple):
    """A temporal loop outside a tile: the rank along which it moves the tile, or None, its bound, and how far."""

    rank: int | None
    bound: int
    far: int


class _BurstTile(NamedTuple):
    """Extents of a tile, temporal loops outside it from the outermost on, and where tiles begin along each rank."""

    box: list[int]
    steps: list[_Step]
    offsets: list[list[int]]


def outer_bursts(
    outermost: Level,
    einsum: Einsum,
    mapping: Mapping,
    at_level: Sequence[TensorAtLevel],
    on_network: Sequence[TensorOnNetwork],
) -> tuple[TensorBursts, ...]:
    """Bits that the outermost level moves for each tensor if each run of words side by side takes whole bursts.

    Tensors are stored dense, the last rank innermost, and each run begins with a burst. What all tiles take in a step
    is one transfer, unless they have words in common that the networks do not share.

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
        element = int(at.storage_words(1, outermost.word_bits) * outermost.word_bits)
        child = next((i for i, n in enumerate(mapping.levels) if i and tensor.name in n.keep), len(mapping.levels))
        tile = _tile(einsum, mapping, tensor, child)
        moves = _moves(tile.box, tile.steps)
        part, whole, parts = moves if child < len(mapping.levels) else (tile.box, math.prod(_bounds(tile.steps)), 0)
        full = [1 + sum(factor * (einsum.dims[dim] - 1) for dim, factor in rank) for rank in tensor.ranks]
        below = {node.level for node in mapping.levels[child : child + 1]}  # its network lies inside its tiles
        names = {node.level for node in mapping.levels[:child]} - below
        crossed = [n for n in on_network if n.tensor == tensor.name and n.level in names]
        groups = math.prod(n.distinct_up if tensor.output else n.distinct for n in crossed)
        offsets, each = tile.offsets, 1
        if groups != math.prod(map(len, offsets)) or any(map(_meet, offsets, tile.box)):
            offsets, each = [[0]] * len(full), groups
        run, bits = _runs(offsets, tile.box, full, element, burst)
        _, part_bits = _runs(offsets, part, full, element, burst)
        moved = each * (whole * bits + parts * part_bits)
        if tensor.output:
            moved += at.reads * each // (math.prod(tile.box) * groups) * bits
        found.append(TensorBursts(tensor.name, run, (at.reads + at.updates) * element, moved))
    return tuple(found)


def _overlapping(einsum: Einsum, tensor: Tensor) -> bool:
    return any(sum(einsum.dims[dim] > 1 for dim, _ in rank) > 1 for rank in tensor.ranks)


def _bounds(steps: Sequence[_Step]) -> list[int]:
    return [step.bound for step in steps]


def _tile(einsum: Einsum, mapping: Mapping, tensor: Tensor, child: int) -> _BurstTile:
    """Tile of a tensor at a level, and the loops outside it."""
    where = {dim: (rank, factor) for rank, terms in enumerate(tensor.ranks) for dim, factor in terms}
    inside, outside = dict.fromkeys(einsum.dims, 1), []
    box, offsets = [1] * len(tensor.ranks), [[0] for _ in tensor.ranks]
    for index in range(len(mapping.levels) - 1, -1, -1):
        node = mapping.levels[index]
        for loop in (*node.y[::-1], *node.x[::-1]):
            if index < child and loop.dim in where:
                rank, factor = where[loop.dim]
                steps = range(0, loop.bound * factor * inside[loop.dim], factor * inside[loop.dim])
                offsets[rank] = [at + step for at in offsets[rank] for step in steps]
            inside[loop.dim] *= loop.bound
        for loop in reversed(node.temporal):
            if index < child and loop.bound > 1:
                moved, factor = where.get(loop.dim, (None, 0))
                outside.append(_Step(moved, loop.bound, factor * inside[loop.dim]))
            inside[loop.dim] *= loop.bound
        if index == child:
            box = [1 + sum(factor * (inside[dim] - 1) for dim, factor in rank) for rank in tensor.ranks]
    return _BurstTile(box, outside[::-1], [sorted(set(along)) for along in offsets])


def _meet(offsets: Sequence[int], extent: int) -> bool:
    """Whether tiles at some of these offsets along a rank have words in common."""
    return any(after - at < extent for at, after in itertools.pairwise(offsets))


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


def _runs(
    offsets: Sequence[Sequence[int]], box: Sequence[int], full: Sequence[int], element_bits: int, burst_bits: int
) -> tuple[int, int]:
    """Most words that lie side by side in boxes at some offsets along each rank, and bits of all bursts of them."""
    inner = 1
    for rank in range(len(box) - 1, -1, -1):
        pieces = _pieces(offsets[rank], box[rank])
        if pieces == [full[rank]] and rank:
            inner *= full[rank]
            continue
        rows = math.prod(len(offsets[outer]) * box[outer] for outer in range(rank))
        bursts = sum(-(-piece * inner * element_bits // burst_bits) for piece in pieces)
        return max(pieces) * inner, rows * bursts * burst_bits
    return 1, -(-element_bits // burst_bits) * burst_bits


def _pieces(offsets: Sequence[int], extent: int) -> list[int]:
    """Words of each run without a gap along a rank."""
    pieces, end = [], None
    for at in offsets:
        if at == end:
            pieces[-1] += extent
        else:
            pieces.append(extent)
        end = at + extent
    return pieces
