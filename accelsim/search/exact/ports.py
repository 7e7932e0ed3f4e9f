"""What tables hold besides energy: cycles of ports, and words at the outermost level.

Axis letters as in `bounds`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from accelsim.model.encode import (
    BY_READ,
    BY_RETURN,
    BY_TRANSFER,
    BY_UPDATE,
    BY_WRITE,
    NETWORK,
    Floats,
)
from accelsim.search.exact.shapes import Grid


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
