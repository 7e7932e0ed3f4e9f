"""Cycles of a systolic array with its ramps, which nothing else overlaps; docs/model.md, section 8.

Axis letters: L = storage levels (outermost first), D = dimensions, T = tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from accelsim.model.detail import FIRST, TILE, TILES, WORDS
from accelsim.model.encode import BUFFERED, PE, ROWS, SKEW, Encoded
from accelsim.model.jit import inline, jit
from accelsim.model.result import Ramp
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


def array_ramps(encoded: Encoded, steps: int, tiles: int, words: int, first: int) -> tuple[Ramp, ...]:
    """Ramps of a systolic array; none if the machine has no such array.

    Parameters
    ----------
    steps : int
        Compute cycles without ramps.
    tiles, words, first : int
        How often the tile in a PE changes, words that enter it in all, and at first.
    """
    array = encoded.constants.array.tolist()
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
