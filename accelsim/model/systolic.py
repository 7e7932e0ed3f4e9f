"""Systolic arrays: cycles of skew, preloads and short instructions; docs/cost-model.md.

Axis letters: L = storage levels (outermost first), D = dimensions, T = tensors.
"""

from __future__ import annotations

from accelsim.model.detail import FIRST, SHORT, TILE, TILES, WORDS, Detail
from accelsim.model.dma import first_tiles
from accelsim.model.encode import BUFFERED, PE, ROWS, SHORTEST, SKEW, STREAM, STREAMED, Batch, Constants, Encoded
from accelsim.model.jit import inline, jit
from accelsim.model.result import Ramp
from accelsim.model.windows import tiles_into, words_into


@inline
def ramp_cycles(c: Constants, steps: int, tiles: int, words: int, first: int) -> tuple[int, int, int]:
    """Cycles of the skew, of preloads, and of waiting for more preloads, of a systolic array (docs/cost-model.md).

    `steps` are compute cycles without ramps; `tiles`, `words` and `first` how often the tile in a PE changes, and words
    that enter it in all and at first.
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
    skew, preload, waits = map(int, ramp_cycles.lazily(c, steps + short, tiles, words, first))
    role = next(level.systolic.stationary for level in encoded.architecture.levels if level.systolic is not None)
    times, which = (1, "first preload") if c.array[BUFFERED] else (tiles, "preload")
    found = (
        Ramp("short instructions", 1, short),
        Ramp("skew of the array", times, skew),
        Ramp(f"{which} of {role}", times, preload),
        Ramp(f"waiting for preloads of {role}", 1, waits),
    )
    return tuple(ramp for ramp in found if ramp.cycles)
