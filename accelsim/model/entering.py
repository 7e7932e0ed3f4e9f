"""What enters a tile: words, and how often it changes, in closed form; compiled.

Axis letters: L = storage levels (outermost first), D = dimensions, T = tensors. docs/model.md, section 3, derives it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from accelsim.model.detail import BEFORE, LOOPS, TILE
from accelsim.model.jit import inline
from accelsim.model.windows import words_into_window

if TYPE_CHECKING:
    from accelsim.model.detail import Detail
    from accelsim.model.encode import Constants, Ints


@inline
def _boxes_into(c: Constants, temporal: Ints, order: Ints, s: Detail, level: int, t: int, box: int) -> int:
    """Words that enter tiles of so many: one tile a step of the loops down to the innermost that moves it."""
    for lv in range(level - 1, -1, -1):
        for j in range(s.level[lv, LOOPS] - 1, -1, -1):
            d = order[lv, j]
            if c.relevant[t, d]:
                if c.windowed[t]:
                    return int(words_into_window(c, temporal, order, s, level, t, lv, j, box))
                return int(box * s.place[lv, j, BEFORE] * temporal[lv, d])
    return box


@inline
def words_into(c: Constants, temporal: Ints, order: Ints, s: Detail, level: int, t: int) -> int:
    """Words that enter one instance's tile."""
    return int(_boxes_into(c, temporal, order, s, level, t, s.at[level, t, TILE]))


@inline
def tiles_into(c: Constants, temporal: Ints, order: Ints, s: Detail, level: int, t: int) -> int:
    """Steps that move one instance's tile, the first one included."""
    return int(_boxes_into(c, temporal, order, s, level, t, 1))
