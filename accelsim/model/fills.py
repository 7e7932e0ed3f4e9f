"""Fills and drains: what transfers take by themselves, and what all else waits for; docs/cost-model.md.

Axis letters: L = storage levels (outermost first), D = dimensions, T = tensors.
"""

from __future__ import annotations

import itertools

import numpy as np

from accelsim.inputs.nodes import first_nodes
from accelsim.model.detail import (
    DOWN,
    FILLS,
    LEAVING,
    PARTIAL,
    PASSING,
    READ,
    READS,
    TILE,
    TRIPS,
    UP,
    UPDATES,
    WRITTEN,
    Detail,
)
from accelsim.model.encode import ALL_OVERLAP, NONE_OVERLAPS, PE, ROWS, Constants, Encoded
from accelsim.model.jit import inline, jit
from accelsim.model.ports import network_cycles, port_time
from accelsim.model.records import Bools2
from accelsim.model.result import Fills, Ramp

FALLING, RISING = np.int64(DOWN), np.int64(UP)
"""Ways over a network, as arguments."""


@jit
def _across(c: Constants, s: Detail, parent: int, lv: int, t: int, words: int, way: int) -> int:
    """Cycles that so many words of each tile take on the slowest network between two levels, DOWN or UP."""
    longest, partial = 0, s.at[parent, t, PARTIAL]
    for between in range(lv - 1, parent - 1, -1):
        words *= s.at[between, t, way]
        longest = max(longest, network_cycles(c, between, words * c.word_parts[between, t, partial]))
    return longest


@inline
def _take_off_networks(s: Detail, parent: int, lv: int, t: int, way: int, every: bool) -> None:
    """Take the words of a tensor that all else waits for off the networks between two levels."""
    words = s.at[lv, t, TILE]
    for between in range(lv - 1, parent - 1, -1):
        words *= s.at[between, t, way]
        s.at[between, t, PASSING] -= s.at[between, t, PASSING] if every else words


@jit
def transfer_cycles(c: Constants, s: Detail, keep: Bools2, lv: int, t: int, wait: bool) -> tuple[int, int, int, int]:
    """Cycles of the first fill, all fills, the last drain and all drains of a tile, one after the other.

    A transfer takes as long as the slower of both sides, or a network between. With `wait`, the words of those that do
    not overlap are taken off the ports of both, and off these networks.
    """
    parent, groups = lv - 1, 1
    while not keep[parent, t]:
        parent -= 1
    output = t == c.output[0]
    for between in range(parent, lv):
        groups *= s.at[between, t, UP if output else DOWN]
    here, above = c.nodes[lv, 0], c.nodes[parent, 0]
    part, outer = c.word_parts[lv, t, s.at[lv, t, PARTIAL]], c.word_parts[parent, t, s.at[parent, t, PARTIAL]]
    if outer == 0:  # in a fused group: it never leaves the level
        return 0, 0, 0, 0
    tile, fills = s.at[lv, t, TILE] * part, s.at[lv, t, FILLS] * part
    outer_tile, reads = groups * s.at[lv, t, TILE] * outer, s.at[parent, t, READS] * outer
    if output:
        leaving, updates = s.level[lv, LEAVING] * part, s.at[parent, t, UPDATES] * outer
        reads -= s.level[parent, LEAVING] * outer if c.drain[parent] else 0
        back = min(reads, groups * s.at[lv, t, FILLS] * outer)  # the others are older values that stay there
        last = max(port_time(c, here, tile, 0), port_time(c, above, 0, outer_tile))
        into = max(port_time(c, here, 0, fills), port_time(c, above, back, 0))
        out = max(port_time(c, here, leaving, 0), port_time(c, above, 0, updates))
        last = max(last, _across(c, s, parent, lv, t, s.at[lv, t, TILE], RISING))
        into = max(into, _across(c, s, parent, lv, t, s.at[lv, t, FILLS], FALLING))
        out = max(out, _across(c, s, parent, lv, t, s.level[lv, LEAVING], RISING)) + port_time(
            c, above, reads - back, 0
        )
        if wait:
            every = c.overlap[lv] == NONE_OVERLAPS
            _take_off_networks(s, parent, lv, t, RISING, every)
            s.level[here, WRITTEN] -= fills if every else 0
            s.level[above, READ] -= reads if every else 0
            s.level[above, WRITTEN] -= updates if every else outer_tile
            if c.drain[lv]:
                s.level[here, READ] -= leaving if every else tile
        return 0, into, last, out
    first = max(port_time(c, here, 0, tile), port_time(c, above, outer_tile, 0))
    into = max(port_time(c, here, 0, fills), port_time(c, above, reads, 0))
    first = max(first, _across(c, s, parent, lv, t, s.at[lv, t, TILE], FALLING))
    into = max(into, _across(c, s, parent, lv, t, s.at[lv, t, FILLS], FALLING))
    if c.stationary[t] and c.array[PE] <= lv < c.nodes[c.array[PE], 1]:  # the preload of the array is a ramp of its own
        first = max(0, first - c.array[ROWS] * s.at[lv, t, TILE])
        into = max(0, into - c.array[ROWS] * s.at[lv, t, FILLS])
    elif wait:
        every = c.overlap[lv] == NONE_OVERLAPS
        _take_off_networks(s, parent, lv, t, FALLING, every)
        s.level[here, WRITTEN] -= fills if every else tile
        s.level[above, READ] -= reads if every else outer_tile
    return first, into, 0, 0


@jit
def late_cycles(c: Constants, s: Detail, keep: Bools2, lv: int) -> tuple[int, int]:
    """How often fills of a level, or a storage node, wait for a first word that is not prefetched, and the cycles."""
    times, cycles = 0, 0
    for t in range(keep.shape[1] if c.overlap[lv] != ALL_OVERLAP else 0):
        if not keep[lv, t]:
            continue
        parent, many = lv - 1, int(t != c.output[0])
        while not keep[parent, t]:
            parent -= 1
        if c.latency[parent] == 0 or c.word_parts[parent, t, 0] == 0:  # in a fused group it never leaves the level
            continue
        if c.overlap[lv] == NONE_OVERLAPS:
            many = s.at[lv, t, TRIPS] if s.at[lv, t, TRIPS] > 0 else -(-s.at[lv, t, FILLS] // s.at[lv, t, TILE])
        times, cycles = times + many, cycles + many * c.latency[parent]
    return times, cycles


@jit
def waiting_cycles(c: Constants, s: Detail, keep: Bools2, lv: int) -> int:
    """Cycles of the fills and drains of a level, or a storage node, that all else waits for; these leave the ports."""
    _, waiting = late_cycles(c, s, keep, lv)
    for t in range(keep.shape[1]):
        if keep[lv, t]:
            first, fills, last, drains = transfer_cycles(c, s, keep, lv, t, True)
            waiting += fills + drains if c.overlap[lv] == NONE_OVERLAPS else first + last
    return int(waiting)


def tile_fills(encoded: Encoded, s: Detail, keep: Bools2) -> tuple[Fills, ...]:
    """Cycles that the fills and drains of each tensor at each level take alone, outermost level first."""
    found = []
    for lv, t in np.argwhere(keep).tolist():
        level = encoded.architecture.levels[lv]
        if encoded.constants.nodes[lv, 0] > 0:
            times = transfer_cycles.lazily(encoded.constants, s, keep, lv, t, False)
            found.append(Fills(level.name, encoded.tensors[t].name, level.overlap, *map(int, times)))
    return tuple(found)


def late_fills(encoded: Encoded, s: Detail, keep: Bools2) -> tuple[Ramp, ...]:
    """What fills of each level wait for first words, outermost level first."""
    found, c = [], encoded.constants
    for first, end in itertools.pairwise(first_nodes(encoded.architecture.levels)) if c.latency.any() else ():
        late = np.array([late_cycles.lazily(c, s, keep, lv) for lv in range(max(first, 1), end)], np.int64)
        times, cycles = late.reshape(-1, 2).sum(axis=0).tolist()
        found.append(Ramp(encoded.architecture.levels[first].name, times, cycles))
    return tuple(each for each in found if each.cycles)
