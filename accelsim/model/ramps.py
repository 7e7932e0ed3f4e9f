"""Cycles besides those of compute units and ports: ramps of systolic arrays, and DMA engines; docs/model.md, section 8.

Axis letters: L = storage levels (outermost first), D = dimensions, T = tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from accelsim.model.detail import FIRST, INSIDE, STEPS, TILE, TILES, VISITS, WORDS
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
    PE,
    ROW,
    ROW_UNITS,
    ROWS,
    SKEW,
    UNITS,
    WAITS,
    Encoded,
)
from accelsim.model.jit import inline, jit
from accelsim.model.result import Moves, Ramp
from accelsim.model.windows import tiles_into, words_into

if TYPE_CHECKING:
    from accelsim.model.detail import Detail
    from accelsim.model.encode import Bools, Constants, Ints


@inline
def array_cycles(c: Constants, steps: int, tiles: int, words: int, first: int) -> int:
    """Cycles of the steps and of the ramps of a systolic array, if there is one; docs/model.md, section 8.

    Parameters
    ----------
    steps : int
        Compute cycles without ramps.
    tiles, words, first : int
        How often the tile in a PE changes, words that enter it in all, and at first.
    """
    if c.array[PE] < 0:
        return steps
    if c.array[BUFFERED]:
        return int(max(steps + c.array[ROWS] * first, c.array[ROWS] * words) + c.array[SKEW])
    return int(steps + c.array[SKEW] * tiles + c.array[ROWS] * words)


@jit
def held_cycles(c: Constants, temporal: Ints, order: Ints, keep: Bools, s: Detail, steps: int) -> int:
    """Count what the PEs of a systolic array hold in place; returns cycles of so many steps with ramps.

    An array that holds nothing fills once.
    """
    tiles, words, first = 0, 0, 0
    for t in range(keep.shape[1]):
        if c.stationary[t]:
            for lv in range(c.array[PE], c.nodes[c.array[PE], 1]):
                if keep[lv, t]:
                    tiles += tiles_into(c, temporal, order, s, lv, t)
                    words += words_into(c, temporal, order, s, lv, t)
                    first += s.at[lv, t, TILE]
    s.array[TILES], s.array[WORDS], s.array[FIRST] = max(tiles, 1), words, first
    return int(array_cycles(c, steps, s.array[TILES], s.array[WORDS], s.array[FIRST]))


def array_ramps(encoded: Encoded, steps: int, s: Detail) -> tuple[Ramp, ...]:
    """Ramps of a systolic array besides so many compute cycles; none if the machine has no such array."""
    array, (tiles, words, first) = encoded.constants.array.tolist(), s.array.tolist()
    if array[PE] < 0:
        return ()
    role = next(level.systolic.stationary for level in encoded.architecture.levels if level.systolic is not None)
    rows, skew = array[ROWS], array[SKEW]
    if not array[BUFFERED]:
        found = [Ramp("skew of the array", tiles, skew * tiles), Ramp(f"preload of {role}", tiles, rows * words)]
    else:
        waits = max(0, rows * words - (steps + rows * first))
        found = [
            Ramp("skew of the array", 1, skew),
            Ramp(f"first preload of {role}", 1, rows * first),
            Ramp(f"waiting for preloads of {role}", 1, waits),
        ]
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
