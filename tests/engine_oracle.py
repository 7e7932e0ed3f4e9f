"""Oracle of DMA engines: moves tile after tile, and keeps the time of each event."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.level_features import Dma
from accelsim.inputs.mapping import Mapping
from accelsim.inputs.nodes import arrange_for
from accelsim.inputs.workload import Einsum, Tensor, pad
from accelsim.model.oracle import Box, Coordinate, Point, Tile, acting_steps, nest_loops, sums_meet_outside


def walk_engines(architecture: Architecture, einsum: Einsum, mapping: Mapping, computing: int) -> Fraction:
    """Run the tiles of each level with a DMA engine, event by event; the last cycle of the slowest, and what waits.

    An engine that overlaps has room for two tiles: it begins the next one when it is done with the last, and when the
    compute units are done with the one before; these need all inputs of a tile, and as long for each of its steps. Any
    other engine moves all that comes in step by step, and each tile of the output when the last of its words is
    computed, while all else waits.

    Parameters
    ----------
    computing : int
        Cycles of the compute units and of all ports.
    """
    architecture, einsum = arrange_for(architecture, mapping), pad(einsum, mapping.padding)
    slowest, waits = Fraction(computing), Fraction()
    acting = acting_steps(einsum, nest_loops(mapping))
    for index, level in enumerate(architecture.levels):
        if level.dma is None or not mapping.levels[index].keep:
            continue
        kept = [Tile(einsum, t, mapping, index) for t in einsum.tensors if t.name in mapping.levels[index].keep]
        loops = [kept[0].loops[k] for k in kept[0].time]
        tiles = Counter(step[: len(loops)] for step in acting)
        each = {
            at: max(
                level.dma.issue, sum(_tile_time(t, at, level.dma, t.tensor.bits) for t in kept if not t.tensor.output)
            )
            for at in sorted(tiles)
        }
        if level.dma.overlap:
            loaded, used = [Fraction()], [Fraction(), Fraction()]
            for at, moving in each.items():
                loaded.append(max(loaded[-1], used[-2]) + moving)
                used.append(max(used[-1], loaded[-1]) + Fraction(computing * tiles[at], len(acting)))
            slowest = max(slowest, used[-1])
            continue
        waits += sum(each.values())
        for tile in kept:
            if tile.tensor.output:
                times: dict[tuple[int, ...], int] = {}
                apart = sums_meet_outside(mapping, tile.tensor, level.name)
                for at in tiles:
                    which = tuple(i for i, loop in zip(at, loops, strict=True) if loop.dim in tile.tensor.dims)
                    bits = tile.tensor.psum_bits if apart else tile.tensor.bits
                    times[which] = max(times.get(which, 0), _tile_time(tile, at, level.dma, bits))
                psums = max(_tile_time(tile, at, level.dma, tile.tensor.psum_bits) for at in tiles)
                waits += sum(times.values()) + 2 * _returning_tiles(tile) * psums
    return slowest + waits


def _returning_tiles(tile: Tile) -> int:
    """How many of the largest tiles the words fill that come back into an instance; of the busiest instance."""
    seen, back, largest = defaultdict[Coordinate, set[Point]](set), Counter[Coordinate](), 1
    for step in tile.walk():
        back[step.instance] += len(step.entering & seen[step.instance])
        seen[step.instance] |= step.entering
        largest = max(largest, math.prod(b - a + 1 for a, b in step.box))
    return -(-max(back.values(), default=0) // largest)


def _tile_time(tile: Tile, step: tuple[int, ...], dma: Dma, bits: int) -> int:
    """Cycles of the tiles of all instances in a step, which move at once: those of the slowest."""
    boxes = [tile.box(step, instance) for instance in tile.instances()]
    return max(_box_time(tile.tensor, found[0], dma, bits) for found in boxes if found is not None)


def _box_time(tensor: Tensor, box: Box, dma: Dma, width: int) -> int:
    """Cycles of a tile, its words put into rows and lines one by one, where each run of them begins."""
    along = [r for r, rank in enumerate(tensor.ranks) for dim, _ in rank if dim == dma.along.get(tensor.role)]
    inner = along[0] if along else len(tensor.ranks) - 1
    time = Fraction()
    for bits, cycles in ((dma.row_bits, dma.row_cycles), (dma.line_bits, dma.line_cycles)):
        if bits is not None:
            room = bits // width
            points = itertools.product(*(range(a, b + 1) for a, b in box))
            firsts = {(*p[:inner], (p[inner] - box[inner][0]) // room, *p[inner + 1 :]) if p else p for p in points}
            time += len(firsts) * cycles.get(tensor.role, 0)
    return math.ceil(time)
