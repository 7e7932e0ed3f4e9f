"""What the kernel writes of one mapping.

Axis letters: L = storage levels (outermost first), D = dimensions, T = tensors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.model.encode import Bools, Encoded, Floats, Ints
from accelsim.model.records import Bools1, Floats3, Ints1, Ints2, Ints3, record

TILE, READS, FILLS, UPDATES, TRANSFERS, PARTIAL, DOWN, UP, PASSING, LINKED, GIVERS, TRIPS = range(12)
INSIDE, BEFORE, SPREAD = range(3)
TIMES, LAST = BEFORE, SPREAD
STEPS, VISITS, USED, PARTS_APART, LOOPS, READ, WRITTEN, CYCLES, LEAVING = range(9)
MOVED_IN, MOVED_FIRST, MOVED_OUT, MOVED_BACK, TURNS, USES, LATE = range(9, 16)
TILES, WORDS, FIRST, SHORT = range(4)


@record
class Detail(NamedTuple):
    """All that the model counts of one mapping; the next mapping of a batch overwrites it.

    What belongs together is one array, so that compiled code finds it with one index; the constants above name its
    columns. Units are those of `Constants`. In the last row of `place` and `level` stand the compute units.
    """

    at: Ints3
    """int64[L, T, 12]: counts of a tensor at a level, by column:

    - TILE: words of the tile.
    - READS, FILLS, UPDATES: words that one instance reads, takes in from outside, and takes in from inside.
    - TRANSFERS: words that one child moves over the network below, both ways.
    - PARTIAL: 1 if the level holds partial sums of the tensor.
    - DOWN, UP: children of one instance that need words of their own downwards, and that send words of their own
      upwards.
    - PASSING: words between one instance and the network below, both ways, without transfers that all else waits
      for.
    - LINKED, GIVERS: words that an instance passes on to its neighbour, and how many instances do so.
    - TRIPS: steps that fill the tile, where a latency counts; 0 if these are as many as FILLS / TILE.
    """
    place: Ints3
    """int64[L + 1, D, 3]: the loops over a dimension at a level, by column:

    - INSIDE: size of the tile.
    - BEFORE: product of all temporal bounds outside a loop; the index is the place of the loop in the order.
    - SPREAD: product of the spatial bounds.
    - TIMES, LAST: in the row of the compute units, where loops leave remainders: tiles along the dimension of the
      first instance of the level whose DMA engine was counted last, and the size of the last one.
    """
    level: Ints2
    """int64[L + 1, 16]: counts of a level, by column:

    - STEPS: product of the temporal bounds of all levels outside.
    - VISITS: product of the bounds of the temporal loops outside that move the output.
    - USED: instances in use.
    - PARTS_APART: instances that hold partial sums of one and the same word.
    - LOOPS: temporal loops of bound > 1.
    - READ, WRITTEN: units through the ports of one instance, without transfers that all else waits for.
    - CYCLES: cycles of the busiest port; in the row of the compute units, of the machine without DMA engines.
    - LEAVING: words of the output that leave an instance upwards.
    - MOVED_IN, MOVED_FIRST: cycles of the DMA engine for all tiles of inputs, and for the first ones.
    - MOVED_OUT, MOVED_BACK: cycles of the DMA engine for tiles of the output, and for partial sums that leave and
      come back.
    - TURNS: how often the DMA engine brings tiles in.
    - USES: all computing over the computing on the last tile, rounded up.
    - LATE: cycles that the DMA engine adds to the first tiles and all computing, one after the other.
    """
    energy: Floats3
    """float64[L, T, 4] [pJ]: energy of a tensor's reads, writes, updates and transfers over the network below, in all
    instances of the level together."""
    reach: Bools1
    """bool[W]: marks on positions along a rank, with which positions that a union of windows covers are counted."""
    array: Ints1
    """int64[4]: what one PE of a systolic array holds in place, by column:

    - TILES: how often the tile changes.
    - WORDS, FIRST: words that enter in all, and words of the first tile.
    - SHORT: cycles that short instructions waste.
    """


class Counted(NamedTuple):
    """Counts of one mapping, valid or not."""

    keep: Bools
    """bool[L, T]: whether the level keeps the tensor."""
    s: Detail
    """Detail: counts of each instance or, where loops leave remainders, of the busiest one."""
    every: Ints
    """int64[L, T, 4]: words read, filled and updated in all instances of the level together, and words over all
    networks below it."""
    shared: Floats
    """float64[L, T, 2]: children of the network below that share a word, on average, downwards (multicast) and upwards
    (spatial reduction)."""
    energy_pj: float
    """Energy of the whole machine."""
    cycles: int
    """Cycles of the whole machine."""


def make_detail(encoded: Encoded) -> Detail:
    """Arrays for one mapping, of the right shapes."""
    c = encoded.constants
    levels, (tensors, dims) = len(c.fanout), c.relevant.shape
    detail = Detail(
        at=np.zeros((levels, tensors, 12), np.int64),
        place=np.ones((levels + 1, dims, 3), np.int64),
        level=np.zeros((levels + 1, 16), np.int64),
        energy=np.zeros((levels, tensors, 4), np.float64),
        reach=np.zeros(encoded.reach + 1, np.bool_),
        array=np.zeros(4, np.int64),
    )
    detail.level[:, [STEPS, VISITS, USED, PARTS_APART]] = 1
    detail.at[:, :, [DOWN, UP]] = 1
    return detail
