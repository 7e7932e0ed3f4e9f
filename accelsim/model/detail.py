"""What the kernel writes of one mapping.

Axis letters: L = storage levels (outermost first), D = dimensions, T = tensors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.model.encode import Bools, Encoded, Floats, Ints

TILE, READS, FILLS, UPDATES, TRANSFERS, PARTIAL, DOWN, UP, PASSING, LINKED, GIVERS = range(11)
INSIDE, BEFORE, SPREAD = range(3)
TIMES, LAST = BEFORE, SPREAD
STEPS, VISITS, USED, PARTS_APART, LOOPS, READ, WRITTEN, CYCLES, LEAVING = range(9)
MOVED_IN, MOVED_FIRST, MOVED_OUT, MOVED_BACK, TURNS, USES, LATE = range(9, 16)
TILES, WORDS, FIRST, SHORT = range(4)


class Detail(NamedTuple):
    """All that the model knows of one mapping; scratch space for a batch.

    What belongs together is one array, so that compiled code finds it with one index; the properties name its parts.
    """

    at: Ints
    """int64[L, T, 11]: of a tensor at a level: TILE [words]; READS, FILLS, UPDATES [words an instance]; TRANSFERS,
    words over the network below for each child; PARTIAL, 1 if the level holds partial sums; DOWN and UP, children of
    the network below whose words are distinct, downwards and upwards; PASSING, words between an instance and the
    network below, both ways, but for those that all else waits for; LINKED, words that an instance passes on to its
    neighbour, and GIVERS, instances that do."""
    place: Ints
    """int64[L+1, D, 3]: of a dimension at a level (last: compute): INSIDE, size of its tile; BEFORE, product of all
    temporal bounds outside a place of the order; SPREAD, spatial bound; of compute, where loops leave remainders, of
    the level whose engine was looked at last: TIMES, tiles of its first instance along the dimension, and LAST, the
    size of the last one."""
    level: Ints
    """int64[L+1, 16]: STEPS, product of all temporal bounds of the levels outside; VISITS, of those that move the
    output; USED, instances in use; PARTS_APART, how many of them hold parts of one sum; LOOPS, temporal loops of bound
    > 1; READ, WRITTEN [storage words an instance], summed over tensors, but for those that all else waits for; CYCLES
    (of compute: with all but DMA engines); LEAVING, words of the output that leave an instance upwards; of a DMA
    engine: MOVED_IN, MOVED_FIRST, MOVED_OUT, MOVED_BACK [cycles] of all tiles of inputs, of the first ones, of all
    outputs, and of partial sums that leave and come back, TURNS, how often tiles come in, USES, how many times longer
    all computing is than that on the last tile, and LATE, cycles that it ends later than its first tile and computing,
    one after the other."""
    energy: Floats
    """float64[L, T, 4] [pJ, all instances]."""
    reach: Bools
    """bool[W]: marks for unions of windows."""
    array: Ints
    """int64[4]: of what a systolic array holds in place: TILES, how often it changes; WORDS that enter a PE in all, and
    FIRST, in its first tile; and SHORT, cycles that short instructions waste."""


class Counted(NamedTuple):
    """Counts of one mapping, valid or not."""

    keep: Bools
    """bool[L, T]."""
    s: Detail
    """of each instance or, where loops leave remainders, of the busiest."""
    every: Ints
    """int64[L, T, 4]: words read, filled and updated in all instances, and over the network below."""
    shared: Floats
    """float64[L, T, 2]: children of the network below that share a word on average, downwards and upwards."""
    energy_pj: float
    cycles: int
    """Each of the whole machine."""


def make_detail(encoded: Encoded) -> Detail:
    """Arrays for one mapping, of the right shapes."""
    c = encoded.constants
    levels, (tensors, dims) = len(c.fanout), c.relevant.shape
    detail = Detail(
        at=np.zeros((levels, tensors, 11), np.int64),
        place=np.ones((levels + 1, dims, 3), np.int64),
        level=np.zeros((levels + 1, 16), np.int64),
        energy=np.zeros((levels, tensors, 4), np.float64),
        reach=np.zeros(encoded.reach + 1, np.bool_),
        array=np.zeros(4, np.int64),
    )
    detail.level[:, [STEPS, VISITS, USED, PARTS_APART]] = 1
    detail.at[:, :, [DOWN, UP]] = 1
    return detail
