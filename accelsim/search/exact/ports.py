"""What tables hold besides energy: cycles of ports, words at the outermost level, and cycles that all else waits for.

Axis letters as in `bounds`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from accelsim.model.encode import (
    ALL_OVERLAP,
    BY_READ,
    BY_RETURN,
    BY_TRANSFER,
    BY_UPDATE,
    BY_WRITE,
    NETWORK,
    NONE_OVERLAPS,
    PE,
    ROWS,
    Bools,
    Floats,
)
from accelsim.search.exact.shapes import Grid
from accelsim.search.exact.tables import Bounds


@dataclass(frozen=True, slots=True)
class LimitedPort:
    """A port with a limit.

    Attributes
    ----------
    level, number : int
        Its level, and 0: of all words, 1: of reads, 2: of fills and updates, 3: of the network below.
    cycles : float64[L, T, 4]
        What an element's actions take, like `narrow_energies`.
    """

    level: int
    number: int
    cycles: Floats


@dataclass(frozen=True, slots=True)
class PortBounds:
    """Cost-to-go tables of the cycles of a port, of all its instances together, each at a share.

    Attributes
    ----------
    port : LimitedPort
    bounds : Bounds
        [cycles]
    share : float
        See `least_share`.
    """

    port: LimitedPort
    bounds: Bounds
    share: float


def count_words(grid: Grid) -> Floats:
    """Units of words that an element's actions move at the outermost level: float64[L, T, 4]."""
    c = grid.space.encoded.constants
    found = np.zeros_like(c.energy)
    for action in (BY_READ, BY_WRITE, BY_UPDATE):
        found[0, :, action] = c.word_parts[0].min(axis=1)
    return found


def limited_ports(grid: Grid) -> list[LimitedPort]:
    """All ports that have a limit, and networks where nothing waits, from the outermost level inwards."""
    c = grid.space.encoded.constants
    found = []
    for level, port in np.argwhere(c.bandwidth[:, :, 0] > 0).tolist():
        nodes = slice(int(c.nodes[level, 0]), int(c.nodes[level, 1]))  # whose words the port carries
        cycles = np.zeros_like(c.energy)
        if port == NETWORK:
            if not c.overlap.any():
                found.append(LimitedPort(level, port, _passing_cycles(grid, level, nodes.start)))
            continue
        for action in ((BY_READ, BY_WRITE, BY_UPDATE), (BY_READ,), (BY_WRITE, BY_UPDATE))[port]:
            words, per = c.bandwidth[level, port]
            cycles[nodes, :, action] = c.word_parts[nodes].min(axis=2) * (per / words)
        if nodes.start == level:
            found.append(LimitedPort(level, port, cycles))
    return found


def least_share(grid: Grid, port: LimitedPort) -> float:
    """Of the cycles of a port in all instances of its level together, what one of them has at least."""
    return 1.0 / math.prod(float(np.max(options.spread, initial=1)) for options in grid.options[: port.level])


def _passing_cycles(grid: Grid, level: int, first: int) -> Floats:
    """What an element's actions take on the network below a level, at least; `first` : the level's first node.

    Of a tensor that the level may keep, its reads there, or updates. One that passes the level crosses the network
    outside it, too.
    """
    c, cycles = grid.space.encoded.constants, np.zeros_like(grid.space.encoded.constants.energy)
    may, output = np.asarray(grid.space.may_keep[first : level + 1].any(axis=0)), int(c.output[0])
    words, per = c.bandwidth[level, NETWORK]
    each = c.word_parts[level].min(axis=1) * (per / words)
    cycles[first : level + 1, :, BY_READ] = each * may
    cycles[first : level + 1, output] = 0.0
    cycles[first : level + 1, output, BY_UPDATE] = each[output] * may[output]
    if first > 0:
        cycles[first - 1, :, BY_TRANSFER] = each * ~may
        cycles[first - 1, output, BY_RETURN] = each[output] * ~may[output]
    return cycles


@dataclass(frozen=True, slots=True)
class Waits:
    """Cycles that all else waits for, at least.

    Attributes
    ----------
    each : float64[L, T, 5]
        Of each action of an element, like `LimitedPort.cycles`.
    waited_once : float64[L, L, T, 4]
        Of a first fill, or a last drain: for each level and the one that the tensor comes from, cycles for each element
        of the tile; for each that children share, at the port of the other level; what the preload of a systolic array
        takes of these; and the weight of a cycle.
    """

    each: Floats
    waited_once: Floats

    def inside_outermost(self) -> Waits:
        """The same without what is read or written at the outermost level."""
        each, once = self.each.copy(), self.waited_once.copy()
        each[0] = 0.0
        once[:, 0, :, 3] = 0.0
        return Waits(each, once)


def count_waits(grid: Grid) -> Waits:
    """Count what all else waits for, at least.

    Each word counts where all levels further in that may keep the tensor wait, and one surely keeps it, at the port of
    the level that fills another; of all instances that there can be, each has a share. Else first fills and last drains
    count.
    """
    space = grid.space
    c, each = space.encoded.constants, np.zeros_like(space.encoded.constants.energy)
    may, instances, once = space.may_keep, 1.0, _count_firsts(grid)
    for level in range(len(may) - 1):
        inside = may[level + 1 :]
        waits = (~inside | (c.overlap[level + 1 :] == NONE_OVERLAPS)[:, None]).all(axis=0)
        waits &= space.keep[level + 1 :].any(axis=0) & ~c.stationary & (not c.drain[level])
        for port, actions in enumerate(((BY_READ, BY_UPDATE), (BY_READ,), (BY_UPDATE,))):
            words, per = c.bandwidth[c.nodes[level, 0], port]
            for action in actions if words else ():
                cycles = c.word_parts[level].min(axis=1) * waits * (per / words / instances)
                each[level, :, action] = np.maximum(each[level, :, action], cycles)
        once[:, level, each[level].any(axis=1), 3] = 0.0
        instances *= float(np.max(grid.options[level].spread, initial=1))
    return Waits(each, once)


def waits_for_first(grid: Grid, waits: Waits) -> Bools:
    """Whether all else waits for a tensor's first tile, whichever level inside keeps it.

    bool[L, L, T], by the level that it comes from, and the one that it is kept further in than.
    """
    may = grid.space.may_keep[:, None]
    waited = (waits.waited_once[..., 3] > 0.0) | ~may
    inside = range(1, len(may) + 1)
    return np.array([waited[at:].all(axis=0) & may[at:].any(axis=0) for at in inside]).transpose(1, 0, 2).copy()


def _count_firsts(grid: Grid) -> Floats:
    """`Waits.waited_once` where each tile that does not overlap waits for its first fill or last drain."""
    c = grid.space.encoded.constants
    levels, tensors = c.word_parts.shape[:2]
    found = np.zeros((levels, levels, tensors, 4))
    for level, t in np.ndindex(levels, tensors):
        words, ports = float(c.word_parts[level, t].min()), c.bandwidth[c.nodes[level, 0], :NETWORK].tolist()
        both, read, written = (words * per / rate if rate else 0.0 for rate, per in ports)
        inputs, outputs = (max(both, written), max(both, read)), (max(both, read), max(both, written))
        found[level, :, t, 0], found[:, level, t, 1] = outputs if t == c.output[0] else inputs
        found[:, level, t, 3] = float(words > 0.0)  # in a fused group some tensors never leave a level
        if c.stationary[t] and c.array[PE] <= level < c.nodes[c.array[PE], 1]:
            found[level, :, t, 2] = float(c.array[ROWS])
    found[c.overlap == ALL_OVERLAP] = 0.0
    return found
