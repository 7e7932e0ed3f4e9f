"""Cycles besides those of compute units and ports: ramps of systolic arrays, DMA engines, and fills and drains.

docs/model.md, section 8, derives them.

Axis letters: L = storage levels (outermost first), D = dimensions, T = tensors.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from accelsim.inputs.architecture import Level
from accelsim.model.detail import (
    DOWN,
    FILLS,
    FIRST,
    INSIDE,
    LAST,
    LATE,
    LEAVING,
    MOVED_BACK,
    MOVED_FIRST,
    MOVED_IN,
    MOVED_OUT,
    PARTIAL,
    PARTS_APART,
    PASSING,
    READ,
    READS,
    SHORT,
    STEPS,
    TILE,
    TILES,
    TIMES,
    TURNS,
    UP,
    UPDATES,
    USES,
    VISITS,
    WORDS,
    WRITTEN,
    Detail,
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
    NETWORK,
    NO_ENGINE,
    NONE_OVERLAPS,
    PE,
    PSUM_LINE,
    PSUM_ROW,
    ROW,
    ROW_UNITS,
    ROWS,
    SHORTEST,
    SKEW,
    STREAM,
    STREAMED,
    UNITS,
    WAITS,
    Batch,
    Constants,
    Encoded,
)
from accelsim.model.jit import inline, jit
from accelsim.model.records import Bools2, Ints2
from accelsim.model.result import Fills, Moves, Ramp
from accelsim.model.windows import tiles_into, words_into

WHOLE_TILES = np.int64(0)
"""Along no dimension a last tile; functions would compile anew for each plain integer."""
FALLING, RISING = np.int64(DOWN), np.int64(UP)
"""Ways over a network, as arguments."""


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
def short_cycles(c: Constants, m: Batch, i: int, steps: int) -> int:
    """Cycles that instructions waste in which the tile at a systolic array has few rows to stream."""
    temporal = m.temporal[i]
    rows = 1
    for lv in range(c.nodes[c.array[PE] - 1, 0], temporal.shape[0]):
        rows *= temporal[lv, c.array[STREAM]] if c.array[STREAM] < temporal.shape[1] else 1
    return int(instruction_cycles(c, steps, rows) - steps)


@jit
def ragged_short_cycles(c: Constants, m: Batch, i: int, steps: int) -> int:
    """As `short_cycles`, where loops leave remainders: the last tile may have fewer rows."""
    temporal, x, y = m.temporal[i], m.x[i], m.y[i]
    around, d, levels = c.nodes[c.array[PE] - 1, 0], c.array[STREAM], temporal.shape[0]
    if d >= temporal.shape[1]:
        return int(instruction_cycles(c, steps, 1) - steps)
    rows, size = 1, 1
    for lv in range(around, levels):
        rows, size = rows * temporal[lv, d], size * temporal[lv, d] * x[lv, d] * y[lv, d]
    tiles, _ = first_tiles(temporal, x, y, c.bounds[d], size, around, d)
    every, _ = first_tiles(temporal, x, y, c.bounds[d], 1, levels, d)
    last = every - (tiles - 1) * rows
    streamed = (tiles - 1) * instruction_cycles(c, rows, rows) + instruction_cycles(c, last, last)
    return int(steps // every * streamed - steps)


@jit
def held_cycles(c: Constants, m: Batch, i: int, s: Detail, steps: int) -> int:
    """Count what the PEs of a systolic array hold in place; returns cycles of so many steps with ramps.

    An array that holds nothing fills once.
    """
    keep = m.keep[i]
    tiles, words, first = 0, 0, 0
    s.array[SHORT] = short_cycles(c, m, i, steps) if c.array[STREAM] >= 0 else 0
    for t in range(keep.shape[1]):
        if c.stationary[t]:
            for lv in range(c.array[PE], c.nodes[c.array[PE], 1]):
                if keep[lv, t]:
                    tiles += tiles_into(c, m, i, s, lv, t)
                    words += words_into(c, m, i, s, lv, t)
                    first += s.at[lv, t, TILE]
    s.array[TILES], s.array[WORDS], s.array[FIRST] = max(tiles, 1), words, first
    return int(array_cycles(c, steps + s.array[SHORT], s.array[TILES], s.array[WORDS], s.array[FIRST]))


def array_ramps(encoded: Encoded, steps: int, s: Detail) -> tuple[Ramp, ...]:
    """Ramps of a systolic array besides so many compute cycles; none if the machine has no such array."""
    c, (tiles, words, first, short) = encoded.constants, s.array.tolist()
    if c.array[PE] < 0:
        return ()
    skew, preload, waits = map(int, ramp_cycles.once(c, steps + short, tiles, words, first))
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
def tile_cycles(c: Constants, s: Detail, lv: int, t: int, last: int, psums: bool) -> int:
    """Cycles that the engine of a level needs for a whole tile of a tensor, or of its partial sums, rounded up.

    `last` : dimensions along which it is the last tile, as bits.
    """
    e = c.dma[lv, t]
    row, line = (e[PSUM_ROW], e[PSUM_LINE]) if psums else (e[ROW], e[LINE])
    runs, length, extent, rank = 1, 1, 1, -1
    for k in range(c.terms[t]):
        d = c.term[t, k]
        if c.term_opens[t, k]:
            runs *= 1 if rank == e[ALONG] else extent
            extent, rank = 1, c.rank[t, d]
        size = s.place[c.dma.shape[0], d, LAST] if last >> d & 1 else s.place[lv, d, INSIDE]
        extent += c.term_factor[t, k] * (size - 1)
        if rank == e[ALONG]:
            length = extent
    runs *= 1 if rank == e[ALONG] else extent
    units = 0
    if row > 0:
        units += -(-length // row) * e[ROW_UNITS]
    if line > 0:
        units += -(-length // line) * e[LINE_UNITS]
    return int(-(-runs * units // c.dma[lv, c.whole.shape[0], UNITS]))


@jit
def count_moves(c: Constants, s: Detail, keep: Bools2, lv: int) -> None:
    """Count the cycles of an engine for one storage node of its level: for all tiles, and for the first inputs."""
    steps, first, out = s.level[lv, STEPS], 0, 0
    for t in range(c.whole.shape[0] if c.dma[lv, c.whole.shape[0], KIND] != NO_ENGINE else 0):
        if keep[lv, t]:
            each = tile_cycles(c, s, lv, t, WHOLE_TILES, t == c.output[0] and s.level[lv, PARTS_APART] > 1)
            if t == c.output[0]:
                out = s.level[lv, VISITS] * each
            else:
                first += each
    note_moves(s, lv, steps * first, first, out, returning_cycles(c, s, keep, lv), steps, steps)


@inline
def returning_cycles(c: Constants, s: Detail, keep: Bools2, lv: int) -> int:
    """Cycles of an engine for partial sums that leave and come back, each way as many whole tiles as these fill."""
    t = c.output[0]
    if c.dma[lv, c.whole.shape[0], KIND] == NO_ENGINE or not keep[lv, t]:
        return 0
    tiles = -(-s.at[lv, t, FILLS] // s.at[lv, t, TILE])
    return int(2 * tiles * tile_cycles(c, s, lv, t, WHOLE_TILES, True))


@inline
def note_moves(s: Detail, lv: int, every: int, first: int, out: int, back: int, turns: int, uses: int) -> None:
    """Note what an engine moves; see `Detail`."""
    s.level[lv, MOVED_IN], s.level[lv, MOVED_FIRST], s.level[lv, MOVED_OUT] = every, first, out
    s.level[lv, MOVED_BACK], s.level[lv, TURNS], s.level[lv, USES] = back, turns, uses


@jit
def with_ragged_engines(c: Constants, m: Batch, i: int, s: Detail, computing: int) -> int:
    """Cycles as `with_engines` where loops leave remainders; of engines that overlap at least."""
    for lv in range(1, c.dma.shape[0]):
        if c.dma[lv, c.whole.shape[0], KIND] != NO_ENGINE:
            count_ragged_moves(c, m, i, s, lv)
    return int(with_engines(c, s, m.keep[i], c.dma.shape[0], computing))


@jit
def count_ragged_moves(c: Constants, m: Batch, i: int, s: Detail, lv: int) -> None:
    """As `count_moves`, of the first instance of a level, where loops leave remainders.

    Its tiles are whole but for the last one along each dimension. `MOVED_IN` has the issue, where that takes longer.
    """
    temporal, x, y, keep = m.temporal[i], m.x[i], m.y[i], m.keep[i]
    dims, engine, output, smaller = c.bounds.shape[0], c.dma.shape[0], c.output[0], 0
    turns, uses = 1, 1.0
    for d in range(dims):
        size = s.place[lv, d, INSIDE]
        times, last = first_tiles(temporal, x, y, c.bounds[d], size, lv, d)
        s.place[engine, d, TIMES], s.place[engine, d, LAST] = times, last
        smaller |= int(last < size) << d
        turns *= times
        uses *= float(times * size) / float(last)
    moved, out, first = 0, 0, 0
    for last in range(1 << dims):
        if last & ~smaller:
            continue
        tiles, leaving, each = 1, 1, 0
        for d in range(dims):
            times = 1 if last >> d & 1 else s.place[engine, d, TIMES] - (smaller >> d & 1)
            tiles *= times
            leaving *= times if c.relevant[output, d] else 1 - (last >> d & 1)
        for t in range(c.whole.shape[0]):
            if keep[lv, t] and t != output:
                each += tile_cycles(c, s, lv, t, last, False)
        if keep[lv, output]:
            out += leaving * tile_cycles(c, s, lv, output, last, s.level[lv, PARTS_APART] > 1)
        moved += tiles * max(each, c.dma[lv, c.whole.shape[0], ISSUE])
        first = each if last == 0 else first
    note_moves(s, lv, moved, first, out, returning_cycles(c, s, keep, lv), turns, int(np.ceil(uses)))


@inline
def first_tiles(temporal: Ints2, x: Ints2, y: Ints2, bound: int, size: int, lv: int, d: int) -> tuple[int, int]:
    """Tiles of the first instance of a level along a dimension, and what the last of them covers."""
    span, inside = size, 1
    for outer in range(lv):
        span *= temporal[outer, d] * x[outer, d] * y[outer, d]
        inside *= temporal[outer, d]
    tiles, rest = 1, bound
    for outer in range(lv):
        span //= temporal[outer, d]
        inside //= temporal[outer, d]
        whole = (rest - 1) // span
        tiles += whole * inside
        span //= x[outer, d] * y[outer, d]
        rest = min(rest - whole * span * x[outer, d] * y[outer, d], span)
    return tiles, rest


@jit
def with_engines(c: Constants, s: Detail, keep: Bools2, known: int, computing: int) -> int:
    """Cycles with those of all engines, of which not all overlap.

    Parameters
    ----------
    known : int
        Levels whose moves are counted; those further in move what they must at least.
    computing : int
        Cycles of the compute units and of all ports; at least, if not all levels are known.
    """
    longest, waits = computing, 0
    every, first, out, tiles, uses = 0, 0, 0, 0, 0
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
        every, first = every + s.level[lv, MOVED_IN], first + s.level[lv, MOVED_FIRST]
        out += s.level[lv, MOVED_OUT] + s.level[lv, MOVED_BACK]
        if keep[lv].any():
            tiles, uses = s.level[lv, TURNS], s.level[lv, USES]
        if lv == last and tiles > 0:
            every, first = max(every, tiles * engine[ISSUE]), max(first, engine[ISSUE])
            if engine[KIND] == WAITS:
                waits += every + out
            else:
                s.level[lv, LATE] = max(0, every - (-computing // uses) - computing - first)
                longest = max(longest, computing + first + s.level[lv, LATE])
    return int(longest + waits)


def level_moves(encoded: Encoded, s: Detail, keep: Bools2) -> tuple[Moves, ...]:
    """What each engine does for a mapping, outermost level first; one whose level keeps nothing does nothing."""
    c, found = encoded.constants, []
    for last, level in enumerate(encoded.architecture.levels):
        nodes = [node for node in range(int(c.nodes[last, 0]), last + 1) if keep[node].any()]
        if level.dma is None or last != c.nodes[last, 1] - 1 or not nodes:
            continue
        every, first, out, back = s.level[nodes, MOVED_IN : MOVED_BACK + 1].sum(axis=0).tolist()
        tiles, late = int(s.level[nodes[-1], TURNS]), int(s.level[last, LATE])
        first, issue = max(first, level.dma.issue), tiles * level.dma.issue
        found.append(Moves(level.name, level.dma.overlap, tiles, first, every, out, back, issue, late))
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


@inline
def network_cycles(c: Constants, lv: int, units: int) -> int:
    """Cycles that the network below a level needs for so much in and out of it; 0 if it is not limited."""
    rate = c.bandwidth[lv, NETWORK, 0]
    return int(-(-units * c.bandwidth[lv, NETWORK, 1] // rate)) if rate > 0 else 0


@jit
def passing_units(c: Constants, s: Detail, keep: Bools2, lv: int) -> int:
    """What passes between an instance and the network below it, of all tensors [units].

    Of a tensor that the level does not keep, the words are partial sums where they are at the level that does.
    """
    units = 0
    for t in range(keep.shape[1]):
        parent = lv
        while not keep[parent, t]:
            parent -= 1
        units += s.at[lv, t, PASSING] * c.word_parts[lv, t, s.at[parent, t, PARTIAL]]
    return units


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
        out = max(_port(c, here, leaving, 0), _port(c, above, 0, updates))
        last = max(last, _across(c, s, parent, lv, t, s.at[lv, t, TILE], RISING))
        into = max(into, _across(c, s, parent, lv, t, s.at[lv, t, FILLS], FALLING))
        out = max(out, _across(c, s, parent, lv, t, s.level[lv, LEAVING], RISING)) + _port(c, above, reads - back, 0)
        if wait:
            every = c.overlap[lv] == NONE_OVERLAPS
            _take_off_networks(s, parent, lv, t, RISING, every)
            s.level[here, WRITTEN] -= fills if every else 0
            s.level[above, READ] -= reads if every else 0
            s.level[above, WRITTEN] -= updates if every else outer_tile
            if c.drain[lv]:
                s.level[here, READ] -= leaving if every else tile
        return 0, into, last, out
    first = max(_port(c, here, 0, tile), _port(c, above, outer_tile, 0))
    into = max(_port(c, here, 0, fills), _port(c, above, reads, 0))
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


@inline
def _port(c: Constants, lv: int, read: int, written: int) -> int:
    """Cycles that so many words take at a level that does nothing else."""
    return int(port_cycles(c, lv, read, written, 0, True))


@jit
def waiting_cycles(c: Constants, s: Detail, keep: Bools2, lv: int) -> int:
    """Cycles of the fills and drains of a level, or a storage node, that all else waits for; these leave the ports."""
    waiting = 0
    for t in range(keep.shape[1]):
        if keep[lv, t]:
            first, fills, last, drains = transfer_cycles(c, s, keep, lv, t, True)
            waiting += fills + drains if c.overlap[lv] == NONE_OVERLAPS else first + last
    return waiting


def tile_fills(encoded: Encoded, s: Detail, keep: Bools2) -> tuple[Fills, ...]:
    """Cycles that the fills and drains of each tensor at each level take alone, outermost level first."""
    found = []
    for lv, t in np.argwhere(keep).tolist():
        level = encoded.architecture.levels[lv]
        if encoded.constants.nodes[lv, 0] > 0:
            times = transfer_cycles.once(encoded.constants, s, keep, lv, t, False)
            found.append(Fills(level.name, encoded.tensors[t].name, level.overlap, *map(int, times)))
    return tuple(found)


def port_cycles_of(level: Level, read: int | Fraction, written: int | Fraction) -> int:
    """Cycles that the ports of an instance need for so many storage words."""
    return max((math.ceil(words / rate) for rate, words in level.ports(read, written)), default=0)
