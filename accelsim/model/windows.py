"""What enters a tile: words, and how often it changes, in closed form; compiled.

Windowed tensors have a rank that two or more loops move, as `h = P + R` of a convolution. docs/model.md, section 3,
derives the formulas. Axis letters: L = storage levels (outermost first), D = dimensions, T = tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from accelsim.model.detail import BEFORE, INSIDE, LOOPS, SPREAD, TILE
from accelsim.model.jit import inline, jit

if TYPE_CHECKING:
    from accelsim.model.detail import Detail
    from accelsim.model.encode import Bools, Constants, Ints


@jit
def _mark_sum(reach: Bools, extent: int, step: int, count: int) -> int:
    """Mark all positions that some marked position reaches in 0 … count-1 steps; returns the new extent."""
    new = extent + step * (count - 1)
    for at in range(extent, new):
        reach[at] = False
    for at in range(new - 1, -1, -1):
        for k in range(1, count):
            back = at - k * step
            if back < 0:
                break
            if back < extent and reach[back]:
                reach[at] = True
                break
    return new


@jit
def _count_marks(reach: Bools, extent: int) -> int:
    marked = 0
    for at in range(extent):
        marked += reach[at]
    return marked


@inline
def _axis_loop(
    c: Constants, s: Detail, x: Ints, y: Ints, level: int, t: int, d: int, on_x: bool, on_y: bool
) -> tuple[int, int]:
    """Step and count of a dimension's loop over the chosen axes of a fanout; y lies inside x."""
    step, count = c.factor[t, d] * s.place[level + 1, d, INSIDE], 1
    if on_x:
        count = x[level, d]
        if not on_y:
            step *= y[level, d]
    if on_y:
        count *= y[level, d]
    return step, count


@jit
def distinct_windows(c: Constants, s: Detail, x: Ints, y: Ints, level: int, t: int, on_x: bool, on_y: bool) -> int:
    """Distinct tile offsets of a windowed tensor among children on the chosen axes.

    Two progressions of counts n, m and steps a, b have n*m - max(0, n - b/g) * max(0, m - a/g) distinct sums, g =
    gcd(a, b): sums collide exactly along (b/g, -a/g), and each chain of collisions is counted at its start. More than
    two are marked one by one.
    """
    groups, k = 1, 0
    while k < c.terms[t]:
        rank, start, found, n, m, a, b = c.rank[t, c.term[t, k]], k, 0, 1, 1, 1, 1
        while k < c.terms[t] and c.rank[t, c.term[t, k]] == rank:
            step, count = _axis_loop(c, s, x, y, level, t, c.term[t, k], on_x, on_y)
            if count > 1:
                found += 1
                n, a, m, b = m, b, count, step
            k += 1
        if found < 2:
            groups *= m
        elif found == 2:
            g, rest = a, b
            while rest:
                g, rest = rest, g % rest
            groups *= n * m - max(0, n - b // g) * max(0, m - a // g)
        else:
            s.reach[0] = True
            extent = 1
            for again in range(start, k):
                step, count = _axis_loop(c, s, x, y, level, t, c.term[t, again], on_x, on_y)
                extent = _mark_sum(s.reach, extent, step, count)
            groups *= _count_marks(s.reach, extent)
    return groups


@jit
def words_into_window(
    c: Constants, temporal: Ints, order: Ints, s: Detail, level: int, t: int, lv: int, j: int, words: int
) -> int:
    """Words that enter one instance's tile of a windowed tensor, which loop j of level lv is the innermost to move.

    These are the first box of so many `words`, whole boxes, and new parts where a halo is kept. A box of one word, as
    which `tiles_into` takes any, has no halo.

    Only the innermost loop that moves the tile, k, can keep a halo, because the step vector of any loop further out
    differs from the remembered one, except where loops on the same rank happen to continue k's steps (same vector) or
    to leave the box in place.
    """
    d = order[lv, j]
    rank, step, extent = c.rank[t, d], c.factor[t, d] * s.place[lv + 1, d, INSIDE] * s.place[lv, d, SPREAD], 1
    for k in range(c.terms[t]):
        if words > 1 and c.rank[t, c.term[t, k]] == rank:
            extent += c.factor[t, c.term[t, k]] * (s.place[level, c.term[t, k], INSIDE] - 1)
    new = words // extent * min(extent, step)
    total = s.place[lv, j, BEFORE] * (words + (temporal[lv, d] - 1) * new)
    back = (temporal[lv, d] - 1) * step
    while True:
        j -= 1
        while j < 0:
            lv -= 1
            if lv < 0:
                return total
            j = s.level[lv, LOOPS] - 1
        d = order[lv, j]
        bound = temporal[lv, d]
        if not c.relevant[t, d]:
            continue
        if c.rank[t, d] != rank:
            return total
        far = c.factor[t, d] * s.place[lv + 1, d, INSIDE] * s.place[lv, d, SPREAD]
        if far == back:
            total -= (bound - 1) * s.place[lv, j, BEFORE] * words
        elif far - back == step:
            total -= (bound - 1) * s.place[lv, j, BEFORE] * (words - new)
        back += (bound - 1) * far


@jit
def seen_windows(c: Constants, temporal: Ints, s: Detail, level: int, above: int, t: int) -> int:
    """Different words of a windowed output that ever pass through one instance of level `above` in tiles of `level`."""
    words, k = 1, 0
    while k < c.terms[t]:
        rank, extent = c.rank[t, c.term[t, k]], 1
        start = k
        while k < c.terms[t] and c.rank[t, c.term[t, k]] == rank:
            extent += c.factor[t, c.term[t, k]] * (s.place[level, c.term[t, k], INSIDE] - 1)
            k += 1
        if k == start + 1:
            d = c.term[t, start]
            words *= extent
            for lv in range(level):
                words *= temporal[lv, d]
                if lv >= above:
                    words *= s.place[lv, d, SPREAD]
            continue
        for at in range(extent):
            s.reach[at] = True
        for again in range(start, k):
            d = c.term[t, again]
            for lv in range(level):
                step = c.factor[t, d] * s.place[lv + 1, d, INSIDE]
                if lv >= above:
                    extent = _mark_sum(s.reach, extent, step, s.place[lv, d, SPREAD])
                extent = _mark_sum(s.reach, extent, step * s.place[lv, d, SPREAD], temporal[lv, d])
        words *= _count_marks(s.reach, extent)
    return words


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
