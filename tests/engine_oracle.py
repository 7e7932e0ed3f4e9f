"""Oracle of DMA engines: moves tile after tile, and keeps the time of each event."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.level_features import Dma
from accelsim.inputs.mapping import Mapping
from accelsim.inputs.nodes import arrange_for
from accelsim.inputs.workload import Einsum, Tensor, pad
from accelsim.model.oracle import Tile, walk_tile


def walk_engines(architecture: Architecture, einsum: Einsum, mapping: Mapping, computing: int) -> Fraction:
    """Run the tiles of each level with a DMA engine, event by event; the last cycle of the slowest, and what waits.

    An engine that overlaps has room for two tiles: it begins the next one when it is done with the last, and when the
    compute units are done with the one before; these need all inputs of a tile, and as long for each. Any other engine
    moves all that comes in step by step, and each tile of the output when the last of its words is computed, while all
    else waits.

    Parameters
    ----------
    computing : int
        Cycles of the compute units and of all ports.
    """
    architecture, einsum = arrange_for(architecture, mapping), pad(einsum, mapping.padding)
    slowest, waits = Fraction(computing), Fraction()
    for index, level in enumerate(architecture.levels):
        if level.dma is None or not mapping.levels[index].keep:
            continue
        loops = [loop for node in mapping.levels[:index] for loop in node.temporal]
        tiles = list(itertools.product(*(range(loop.bound) for loop in loops)))
        coming = [t for t in einsum.tensors if t.name in mapping.levels[index].keep and not t.output]
        leaving = [t for t in einsum.tensors if t.name in mapping.levels[index].keep and t.output]
        each = max(level.dma.issue, sum(_tile_time(einsum, mapping, t, index, level.dma) for t in coming))
        if level.dma.overlap:
            loaded, used = [Fraction()], [Fraction(), Fraction()]
            for _ in tiles:
                loaded.append(max(loaded[-1], used[-2]) + each)
                used.append(max(used[-1], loaded[-1]) + Fraction(computing, len(tiles)))
            slowest = max(slowest, used[-1])
            continue
        waits += sum(each for _ in tiles)
        for tensor in leaving:
            moving = {dim for rank in tensor.ranks for dim, _ in rank}
            finished = {tuple(i for i, loop in zip(at, loops, strict=True) if loop.dim in moving) for at in tiles}
            waits += sum(_tile_time(einsum, mapping, tensor, index, level.dma) for _ in finished)
    return slowest + waits


def _tile_time(einsum: Einsum, mapping: Mapping, tensor: Tensor, index: int, dma: Dma) -> int:
    """Cycles of a tile, its words put into rows and lines one by one, where each run of them begins."""
    box = next(iter(walk_tile(Tile(einsum, tensor, mapping, index)))).box
    along = [r for r, rank in enumerate(tensor.ranks) for dim, _ in rank if dim == dma.along.get(tensor.role)]
    inner = along[0] if along else len(tensor.ranks) - 1
    time = Fraction()
    for bits, cycles in ((dma.row_bits, dma.row_cycles), (dma.line_bits, dma.line_cycles)):
        if bits is not None:
            room = bits // tensor.bits
            points = itertools.product(*(range(a, b + 1) for a, b in box))
            firsts = {(*p[:inner], (p[inner] - box[inner][0]) // room, *p[inner + 1 :]) if p else p for p in points}
            time += len(firsts) * cycles.get(tensor.role, 0)
    return math.ceil(time)
