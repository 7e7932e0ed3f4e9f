"""Ramps: cycles of a systolic array that nothing else overlaps, one by one; docs/model.md, section 8."""

from __future__ import annotations

from accelsim.model.encode import BUFFERED, PE, ROWS, SKEW, Encoded
from accelsim.model.result import Ramp


def array_ramps(encoded: Encoded, steps: int, tiles: int, words: int, first: int) -> tuple[Ramp, ...]:
    """Ramps of a systolic array; none if the machine has no such array.

    Parameters
    ----------
    encoded : Encoded
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
