"""Cycles besides those of compute units and ports: ramps of systolic arrays, DMA engines, and fills and drains.

docs/model.md, section 8, derives them.

Axis letters: L = storage levels (outermost first), D = dimensions, T = tensors.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from accelsim.inputs.architecture import Level
from accelsim.model.detail import (
    DOWN,
    FILLS,
    FIRST,
    INSIDE,
    LEAVING,
    PARTIAL,
    READ,
    READS,
    SHORT,
    STEPS,
    TILE,
    TILES,
    UP,
    UPDATES,
    VISITS,
    WORDS,
    WRITTEN,
)
from accelsim.model.encode import (
    ALONG,
    BUFFERED,
    ISSUE,
    KIND,
    LEAST,
    LEAST_FIRST,
    LINE,
    LINE_UNITS,
    NO_ENGINE,
    NONE_OVERLAPS,
    PE,
    ROW,
    ROW_UNITS,
    ROWS,
    SHORTEST,
    SKEW,
    STREAM,
    STREAMED,
    UNITS,
    WAITS,
    Encoded,
)
from accelsim.model.jit import inline, jit
from accelsim.model.result import Fills, Moves, Ramp
from accelsim.model.windows import tiles_into, words_into

if TYPE_CHECKING:
    from accelsim.model.detail import Detail
    from accelsim.model.encode import Bools, Constants, Ints


@inline
def ramp_cycles(c: Constants, steps: int, tiles: int, words: int, first: int) -> tuple[int, int, int]:
    """Cycles of the skew, of preloads, and of waiting for more preloads, of a systolic array; docs/model.md, section 8.

    Parameters
    ----------
    steps : int
        Compute cycles without ramps.
    tiles, words, first : int
        How often the tile in a PE changes, words that enter it in all, and at first.
    """
    skew, preload = c.array[SKEW] * tiles, c.array[ROWS] * words
    if not c.array[BUFFERED]:
        return skew, preload, 0
    return c.array[SKEW], c.array[ROWS] * first, max(0, preload - (steps + c.array[ROWS] * first))


@inline
def array_cycles(c: Constants, steps: int, tiles: int, words: int, first: int) -> int:
    """Cycles of the steps and of the ramps of a systolic array, if there is one; arguments as of `ramp_cycles`."""
    if c.array[PE] < 0:
        return steps
    skew, preload, waits = ramp_cycles(c, steps, tiles, words, first)
    return int(steps + skew + preload + waits)


@inline
def instruction_cycles(c: Constants, steps: int, rows: int) -> int:
    """Cycles of so many steps, in which instructions stream tiles of so many rows."""
    most, least = c.array[STREAMED], c.array[SHORTEST]
    last = rows % most
    streamed = rows // most * max(most, least) + (max(last, least) if last > 0 else 0)
    return int(steps // rows * streamed)


@jit
def short_cycles(c: Constants, temporal: Ints, steps: int) -> int:
    """Cycles that instructions waste in which the tile at a systolic array has few rows to stream."""
    rows = 1
    for lv in range(c.nodes[c.array[PE] - 1, 0], temporal.shape[0]):
        rows *= temporal[lv, c.array[STREAM]] if c.array[STREAM] < temporal.shape[1] else 1
    return int(instruction_cycles(c, steps, rows) - steps)


@jit
def held_cycles(c: Constants, temporal: Ints, order: Ints, keep: Bools, s: Detail, steps: int) -> int:
    """Count what the PEs of a systolic array hold in place; returns cycles of so many steps with ramps.

    An array that holds nothing fills once.
    """
    tiles, words, first = 0, 0, 0
    s.array[SHORT] = short_cycles(c, temporal, steps) if c.array[STREAM] >= 0 else 0
    for t in range(keep.shape[1]):
        if c.stationary[t]:
            for lv in range(c.array[PE], c.nodes[c.array[PE], 1]):
                if keep[lv, t]:
                    tiles += tiles_into(c, temporal, order, s, lv, t)
                    words += words_into(c, temporal, order, s, lv, t)
                    first += s.at[lv, t, TILE]
    s.array[TILES], s.array[WORDS], s.array[FIRST] = max(tiles, 1), words, first
    return int(array_cycles(c, steps + s.array[SHORT], s.array[TILES], s.array[WORDS], s.array[FIRST]))


def array_ramps(encoded: Encoded, steps: int, s: Detail) -> tuple[Ramp, ...]:
    """Ramps of a systolic array besides so many compute cycles; none if the machine has no such array."""
    c, (tiles, words, first, short) = encoded.constants, s.array.tolist()
    if c.array[PE] < 0:
        return ()
    skew, preload, waits = map(int, ramp_cycles.plain()(c, steps + short, tiles, words, first))
    role = next(level.systolic.stationary for level in encoded.architecture.levels if level.systolic is not None)
    times, which = (1, "first preload") if c.array[BUFFERED] else (tiles, "preload")
    found = (
        Ramp("short instructions", 1, short),
        Ramp("skew of the array", times, skew),
        Ramp(f"{which} of {role}", times, preload),
        Ramp(f"waiting for preloads of {role}", 1, waits),
    )
    return tuple(ramp for ramp in found if ramp.cycles)


@jit
def tile_cycles(c: Constants, s: Detail, lv: int, t: int) -> int:
    """Cycles that the engine of a level needs for a whole tile of a tensor, rounded up."""
    e = c.dma[lv, t]
    runs, length, extent, rank = 1, 1, 1, -1
    for k in range(c.terms[t]):
        d = c.term[t, k]
        if c.term_opens[t, k]:
            runs *= 1 if rank == e[ALONG] else extent
            extent, rank = 1, c.rank[t, d]
        extent += c.term_factor[t, k] * (s.place[lv, d, INSIDE] - 1)
        if rank == e[ALONG]:
            length = extent
    runs *= 1 if rank == e[ALONG] else extent
    units = 0
    if e[ROW] > 0:
        units += -(-length // e[ROW]) * e[ROW_UNITS]
    if e[LINE] > 0:
        units += -(-length // e[LINE]) * e[LINE_UNITS]
    return int(-(-runs * units // c.dma[lv, c.whole.shape[0], UNITS]))


@jit
def node_moves(c: Constants, s: Detail, keep: Bools, lv: int) -> tuple[int, int, int]:
    """Cycles of an engine for one storage node: for all tiles of its inputs, for the first, and for all outputs."""
    every, first, out = 0, 0, 0
    for t in range(c.whole.shape[0]):
        if keep[lv, t]:
            each = tile_cycles(c, s, lv, t)
            if t == c.output[0]:
                out += s.level[lv, VISITS] * each
            else:
                every += s.level[lv, STEPS] * each
                first += each
    return every, first, out


@jit
def with_engines(c: Constants, s: Detail, keep: Bools, known: int, computing: int) -> int:
    """Cycles with those of all engines, of which not all overlap.

    Parameters
    ----------
    known : int
        Levels whose tiles are known; those further in move what they must at least.
    computing : int
        Cycles of the compute units and of all ports; at least, if not all levels are known.
    """
    longest, waits = computing, 0
    every, first, out, tiles = 0, 0, 0, 0
    for lv in range(c.dma.shape[0]):
        engine, last = c.dma[lv, c.whole.shape[0]], c.nodes[lv, 1] - 1
        if engine[KIND] == NO_ENGINE:
            continue
        if last >= known:
            if lv == last and engine[KIND] == WAITS:
                waits += max(engine[LEAST], engine[LEAST_FIRST])
            elif lv == last:
                longest = max(longest, computing + engine[LEAST_FIRST], engine[LEAST])
            continue
        if lv == c.nodes[lv, 0]:
            every, first, out, tiles = 0, 0, 0, 0
        node_every, node_first, node_out = node_moves(c, s, keep, lv)
        every, first, out = every + node_every, first + node_first, out + node_out
        if keep[lv].any():
            tiles = s.level[lv, STEPS]
        if lv == last and tiles > 0:
            every, first = max(every, tiles * engine[ISSUE]), max(first, engine[ISSUE])
            if engine[KIND] == WAITS:
                waits += every + out
            else:
                longest = max(longest, computing + first, every - (-computing // tiles))
    return int(longest + waits)


def level_moves(encoded: Encoded, s: Detail, keep: Bools) -> tuple[Moves, ...]:
    """What each engine does for a mapping, outermost level first; one whose level keeps nothing does nothing."""
    c, found = encoded.constants, []
    for last, level in enumerate(encoded.architecture.levels):
        if level.dma is None or last != c.nodes[last, 1] - 1:
            continue
        nodes = [node for node in range(int(c.nodes[last, 0]), last + 1) if keep[node].any()]
        if not nodes:
            continue
        parts = [node_moves(c, s, keep, node) for node in nodes]
        every, first, out = (sum(map(int, each)) for each in zip(*parts, strict=True))
        tiles = int(s.level[nodes[-1], STEPS])
        issue = tiles * level.dma.issue
        found.append(Moves(level.name, level.dma.overlap, tiles, max(first, level.dma.issue), every, out, issue))
    return tuple(found)


@jit
def port_cycles(c: Constants, lv: int, read: int, written: int, cycles: int, every: bool) -> int:
    """Cycles that the busiest port of a level needs; 0 if that is not more than `cycles` and not asked for."""
    needed = 0
    for port in range(3):
        words, rate = (read + written, read, written)[port], c.bandwidth[lv, port, 0]
        if rate > 0:
            least = float(words) * float(c.bandwidth[lv, port, 1])
            if every or least > 0.999 * float(cycles) * float(rate):  # spares the division where it cannot matter
                needed = max(needed, -(-words * c.bandwidth[lv, port, 1] // rate))
    return needed


@jit
def transfer_cycles(c: Constants, s: Detail, keep: Bools, lv: int, t: int, wait: bool) -> tuple[int, int, int, int]:
    """Cycles of the first fill, all fills, the last drain and all drains of a tile, one after the other.

    A transfer takes as long as the slower of both sides. With `wait`, the words of those that do not overlap are taken
    off the ports of both.
    """
    parent, groups = lv - 1, 1
    while not keep[parent, t]:
        parent -= 1
    output = t == c.output[0]
    for between in range(parent, lv):
        groups *= s.at[between, t, UP if output else DOWN]
    here, above = c.nodes[lv, 0], c.nodes[parent, 0]
    part, outer = c.word_parts[lv, t, s.at[lv, t, PARTIAL]], c.word_parts[parent, t, s.at[parent, t, PARTIAL]]
    if outer == 0:  # in a fused chain: it never leaves the level
        return 0, 0, 0, 0
    tile, fills = s.at[lv, t, TILE] * part, s.at[lv, t, FILLS] * part
    outer_tile, reads = groups * s.at[lv, t, TILE] * outer, s.at[parent, t, READS] * outer
    if output:
        leaving, updates = s.level[lv, LEAVING] * part, s.at[parent, t, UPDATES] * outer
        reads -= s.level[parent, LEAVING] * outer if c.drain[parent] else 0
        back = min(reads, groups * s.at[lv, t, FILLS] * outer)  # the others are older values that stay there
        last = max(_port(c, here, tile, 0), _port(c, above, 0, outer_tile))
        into = max(_port(c, here, 0, fills), _port(c, above, back, 0))
        out = max(_port(c, here, leaving, 0), _port(c, above, 0, updates)) + _port(c, above, reads - back, 0)
        if wait:
            every = c.overlap[lv] == NONE_OVERLAPS
            s.level[here, WRITTEN] -= fills if every else 0
            s.level[above, READ] -= reads if every else 0
            s.level[above, WRITTEN] -= updates if every else outer_tile
            if c.drain[lv]:
                s.level[here, READ] -= leaving if every else tile
        return 0, into, last, out
    first = max(_port(c, here, 0, tile), _port(c, above, outer_tile, 0))
    into = max(_port(c, here, 0, fills), _port(c, above, reads, 0))
    if c.stationary[t] and c.array[PE] <= lv < c.nodes[c.array[PE], 1]:  # the preload of the array is a ramp of its own
        first = max(0, first - c.array[ROWS] * s.at[lv, t, TILE])
        into = max(0, into - c.array[ROWS] * s.at[lv, t, FILLS])
    elif wait:
        every = c.overlap[lv] == NONE_OVERLAPS
        s.level[here, WRITTEN] -= fills if every else tile
        s.level[above, READ] -= reads if every else outer_tile
    return first, into, 0, 0


@inline
def _port(c: Constants, lv: int, read: int, written: int) -> int:
    """Cycles that so many words take at a level that does nothing else."""
    return int(port_cycles(c, lv, read, written, 0, True))


@jit
def waiting_cycles(c: Constants, s: Detail, keep: Bools, lv: int) -> int:
    """Cycles of the fills and drains of a level, or a storage node, that all else waits for; these leave the ports."""
    waiting = 0
    for t in range(keep.shape[1]):
        if keep[lv, t]:
            first, fills, last, drains = transfer_cycles(c, s, keep, lv, t, True)
            waiting += fills + drains if c.overlap[lv] == NONE_OVERLAPS else first + last
    return waiting


def tile_fills(encoded: Encoded, s: Detail, keep: Bools) -> tuple[Fills, ...]:
    """Cycles that the fills and drains of each tensor at each level take alone, outermost level first."""
    found = []
    for lv, t in np.argwhere(keep).tolist():
        level = encoded.architecture.levels[lv]
        if encoded.constants.nodes[lv, 0] > 0:
            times = transfer_cycles.plain()(encoded.constants, s, keep, lv, t, False)
            found.append(Fills(level.name, encoded.tensors[t].name, level.overlap, *map(int, times)))
    return tuple(found)


def port_cycles_of(level: Level, read: int | Fraction, written: int | Fraction) -> int:
    """Cycles that the ports of an instance need for so many storage words."""
    ports = ((level.bandwidth, read + written), (level.read_bandwidth, read), (level.write_bandwidth, written))
    return max((math.ceil(words / rate) for rate, words in ports if rate is not None), default=0)
