"""DMA engines: cycles that take tiles in and out, beside computing or before it; docs/cost-model.md.

Axis letters: L = storage levels (outermost first), D = dimensions, T = tensors.
"""

from __future__ import annotations

import numpy as np

from accelsim.model.detail import (
    FILLS,
    INSIDE,
    LAST,
    LATE,
    MOVED_BACK,
    MOVED_FIRST,
    MOVED_IN,
    MOVED_OUT,
    PARTS_APART,
    STEPS,
    TILE,
    TIMES,
    TURNS,
    USES,
    VISITS,
    Detail,
)
from accelsim.model.encode import (
    ALONG,
    ISSUE,
    KIND,
    LEAST,
    LEAST_FIRST,
    LINE,
    LINE_UNITS,
    NO_ENGINE,
    PSUM_LINE,
    PSUM_ROW,
    ROW,
    ROW_UNITS,
    UNITS,
    WAITS,
    Batch,
    Constants,
    Encoded,
)
from accelsim.model.jit import inline, jit
from accelsim.model.records import Bools2, Ints2
from accelsim.model.result import Moves

WHOLE_TILES = np.int64(0)
"""Along no dimension a last tile; functions would compile anew for each plain integer."""


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

    `known` : levels whose moves are counted; those further in move what they must at least. `computing` : cycles of the
    compute units and of all ports; at least, if not all levels are known.
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
