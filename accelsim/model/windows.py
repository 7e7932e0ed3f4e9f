"""What enters a tile: words, and how often it changes, in closed form; compiled.

Windowed tensors have a rank that two or more loops move, as `h = P + R` of a convolution. Sections 3 and 4 of
docs/papers/cost-model.md derive the formulas. Axis letters: L = levels (outermost first), D = dimensions, T = tensors.
"""

from __future__ import annotations

from accelsim.model.detail import BEFORE, INSIDE, LOOPS, SPREAD, TILE, Detail
from accelsim.model.encode import Batch, Constants
from accelsim.model.jit import inline, jit
from accelsim.model.records import Bools1, Ints2


@jit
def _mark_sum(reach: Bools1, extent: int, step: int, count: int) -> int:
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
def _count_marks(reach: Bools1, extent: int) -> int:
    marked = 0
    for at in range(extent):
        marked += reach[at]
    return marked


@inline
def _axis_loop(
    c: Constants, s: Detail, x: Ints2, y: Ints2, level: int, t: int, d: int, on_x: bool, on_y: bool
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
def distinct_windows(c: Constants, s: Detail, x: Ints2, y: Ints2, level: int, t: int, on_x: bool, on_y: bool) -> int:
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
def window_moves(
    c: Constants, m: Batch, i: int, s: Detail, level: int, t: int, lv: int, j: int
) -> tuple[int, int, int, int, int]:
    """As `tile_moves`, of a windowed tensor's tile, which loop j of level lv is the innermost to move.

    Only this loop can keep a halo, because the step vector of any loop further out differs from the remembered one,
    except where loops on the same rank happen to continue its steps (same vector) or to leave the box in place.
    """
    temporal, order = m.temporal[i], m.order[i]
    d = order[lv, j]
    rank, step, extent = c.rank[t, d], c.factor[t, d] * s.place[lv + 1, d, INSIDE] * s.place[lv, d, SPREAD], 1
    for k in range(c.terms[t]):
        if c.rank[t, c.term[t, k]] == rank:
            extent += c.factor[t, c.term[t, k]] * (s.place[level, c.term[t, k], INSIDE] - 1)
    new = min(extent, step)
    whole = s.place[lv, j, BEFORE]
    parts = whole * (temporal[lv, d] - 1)
    back = (temporal[lv, d] - 1) * step
    while True:
        j -= 1
        while j < 0:
            lv -= 1
            if lv < 0:
                return whole, parts, rank, extent, new
            j = s.level[lv, LOOPS] - 1
        d = order[lv, j]
        bound = temporal[lv, d]
        if not c.relevant[t, d]:
            continue
        if c.rank[t, d] != rank:
            return whole, parts, rank, extent, new
        far = c.factor[t, d] * s.place[lv + 1, d, INSIDE] * s.place[lv, d, SPREAD]
        if far == back:
            whole -= (bound - 1) * s.place[lv, j, BEFORE]
        elif far - back == step:
            whole -= (bound - 1) * s.place[lv, j, BEFORE]
            parts += (bound - 1) * s.place[lv, j, BEFORE]
        back += (bound - 1) * far


@jit
def seen_windows(c: Constants, temporal: Ints2, s: Detail, level: int, above: int, t: int) -> int:
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
def tile_moves(c: Constants, m: Batch, i: int, s: Detail, level: int, t: int) -> tuple[int, int, int, int, int]:
    """What enters one instance's tile: one box a step of the loops down to the innermost that moves it.

    Returns boxes, and new parts of boxes that keep their halo; the rank along which a part is smaller, and the extents
    of a box and of a part there.
    """
    temporal, order = m.temporal[i], m.order[i]
    for lv in range(level - 1, -1, -1):
        for j in range(s.level[lv, LOOPS] - 1, -1, -1):
            d = order[lv, j]
            if c.relevant[t, d]:
                if c.windowed[t]:
                    return window_moves(c, m, i, s, level, t, lv, j)
                return s.place[lv, j, BEFORE] * temporal[lv, d], 0, 0, 1, 1
    return 1, 0, 0, 1, 1


@inline
def words_into(c: Constants, m: Batch, i: int, s: Detail, level: int, t: int) -> int:
    """Words that enter one instance's tile."""
    box = s.at[level, t, TILE]
    whole, parts, _, extent, new = tile_moves(c, m, i, s, level, t)
    if parts > 0:
        return int(box * whole + box // extent * new * parts)
    return int(box * whole)


@inline
def tiles_into(c: Constants, m: Batch, i: int, s: Detail, level: int, t: int) -> int:
    """Steps that move one instance's tile, the first one included."""
    whole, parts, _, _, _ = tile_moves(c, m, i, s, level, t)
    return int(whole + parts)


@inline
def distinct(c: Constants, s: Detail, x: Ints2, y: Ints2, level: int, t: int, shares_x: bool, shares_y: bool) -> int:
    """Children of one instance that need words of their own: distinct offsets on axes that share, all on others."""
    groups = 1
    windowed = c.windowed[t]
    for d in range(c.relevant.shape[1]):
        counts = c.relevant[t, d] and not windowed
        if counts or not shares_x:
            groups *= x[level, d]
        if counts or not shares_y:
            groups *= y[level, d]
    if windowed and (shares_x or shares_y):
        groups *= distinct_windows(c, s, x, y, level, t, shares_x, shares_y)
    return groups
