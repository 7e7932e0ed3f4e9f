"""What loops that leave remainders move: at least, for a node, and exactly, for a whole mapping; compiled.

Words are counted over all instances together, in closed form: a product of one sum for each dimension, because whether
an iteration happens is decided for each dimension by itself. docs/model.md (remainders) and docs/exact.md derive it.
Axis letters as in node.
"""

from __future__ import annotations

import numpy as np

from accelsim.model.detail import (
    BEFORE,
    DOWN,
    INSIDE,
    LOOPS,
    PARTS_APART,
    SPREAD,
    STEPS,
    TILE,
    TIMES,
    UP,
    USED,
    VISITS,
    Detail,
)
from accelsim.model.detail import LAST as COVERED
from accelsim.model.encode import (
    ALONG,
    ISSUE,
    KIND,
    LINE,
    NO_ENGINE,
    PE,
    ROW,
    SAFE,
    STREAM,
    UNITS,
    UNLIMITED,
    Constants,
)
from accelsim.model.jit import inline, jit
from accelsim.model.kernel import BY_READ, BY_RETURN, BY_TRANSFER, BY_UPDATE, BY_WRITE
from accelsim.model.ramps import (
    WHOLE_TILES,
    array_cycles,
    first_tiles,
    network_cycles,
    note_moves,
    port_cycles,
    ragged_short_cycles,
    tile_cycles,
    with_ragged_engines,
)
from accelsim.model.windows import words_into
from accelsim.search.exact.incumbents import SURE
from accelsim.search.exact.node import SearchNode
from accelsim.search.exact.shapes import Shapes, resting_share

OWN, SHARED_DOWN, SHARED_UP, MERGED = np.int64(0), np.int64(1), np.int64(2), np.int64(3)
"""Which children count: each for itself, or one for all that share a read, an update, or words at any time."""
ALL, BUSIEST = np.int64(0), np.int64(1)
"""Which instances count."""
READING, WRITING, UPDATING = np.int64(BY_READ), np.int64(BY_WRITE), np.int64(BY_UPDATE)
PASSING, NOT_PASSING = np.bool_(True), np.bool_(False)
"""Arguments; functions would compile anew for each plain constant."""


@jit
def flow_at_least(c: Constants, shapes: Shapes, node: SearchNode, s: Detail, child: int) -> bool:
    """As `flow`, where loops leave remainders: at least what all instances together move (docs/exact.md)."""
    levels, tensors = c.fanout.shape[0], c.whole.shape[0]
    output, keep = c.output[0], node.mapping.keep[0]
    energy = node.energy[child - 1]
    for lv in range(levels):
        node.read[child, lv], node.written[child, lv] = node.read[child - 1, lv], node.written[child - 1, lv]
        node.passing[child, lv] = node.passing[child - 1, lv]
    for t in range(tensors):
        above = node.parent[child - 1, t]
        if child < levels and not keep[child, t]:
            continue
        words = shapes.macs[0]
        if child == levels:
            _hold_still(c, node, s, child, t)
        else:
            words = _words_at_least(c, shapes, node, s, child, t)
        if t != output:
            down = words
            for lv in range(child - 1, above - 1, -1):
                energy += down * c.energy[lv, t, BY_TRANSFER]
                down = words * _left(c, shapes, node, s, child, t, lv, SHARED_DOWN)
                _pass_at_least(c, node, s, child, lv, t, down)
            energy += _charge_at_least(c, node, s, child, above, t, 0, down, READING, PASSING)
            if child < levels:
                energy += _charge_at_least(c, node, s, child, child, t, 0, words, WRITING, PASSING)
            continue
        seen = words if c.windowed[t] else _seen(c, s, child, t)
        up, down = words, max(0.0, words - seen)
        node.fills[child, t], node.moved[child, t] = int(down), int(up)
        for lv in range(child - 1, above - 1, -1):
            energy += up * c.energy[lv, t, BY_TRANSFER] + down * c.energy[lv, t, BY_RETURN]
            down *= _share(s, lv, t, DOWN)
            up = words * _left(c, shapes, node, s, child, t, lv, SHARED_UP)
            _pass_at_least(c, node, s, child, lv, t, up + down)
        reads = 0.0 if c.windowed[t] else max(0.0, up - _seen(c, s, above, t))
        fills = 0.0
        if above > 0:
            fills = float(node.fills[above, t])
            reads += float(node.moved[above, t]) if c.drain[above] else 0.0
            energy -= node.charged[above, t]
        partial = _comes_back(c, node, s, child, above, t)
        energy += _charge_at_least(c, node, s, child, above, t, partial, reads, READING, PASSING)
        energy += _charge_at_least(c, node, s, child, above, t, partial, up, UPDATING, PASSING)
        energy += _charge_at_least(c, node, s, child, above, t, partial, fills, WRITING, PASSING)
        if child < levels:
            narrow, fills, out = _narrower(c, child, t), float(node.fills[child, t]), float(node.moved[child, t])
            node.charged[child, t] = _charge_at_least(c, node, s, child, child, t, narrow, fills, WRITING, NOT_PASSING)
            if c.drain[child]:
                drained = _charge_at_least(c, node, s, child, child, t, narrow, out, READING, NOT_PASSING)
                node.charged[child, t] += drained
            energy += node.charged[child, t]
        if c.two_widths[0] and partial and c.capacity[above] != UNLIMITED:
            held = 0
            for u in range(tensors):
                if keep[above, u]:
                    held += s.at[above, u, TILE] * c.word_parts[above, u, partial if u == t else 0]
            if held > c.capacity[above]:
                return False
    node.energy[child] = energy
    if child < levels and c.dma.shape[0] > 0 and c.dma[child, tensors, KIND] != NO_ENGINE:
        _moves_at_least(c, shapes, node, s, child)
    _first_at_least(c, shapes, node, s, child)
    return True


@inline
def _narrower(c: Constants, lv: int, t: int) -> int:
    """Which words of a tensor at a level are narrow, partial sums (1) or finished ones."""
    return int(c.word_parts[lv, t, 1] < c.word_parts[lv, t, 0])


@inline
def _comes_back(c: Constants, node: SearchNode, s: Detail, child: int, above: int, t: int) -> int:
    """Whether a level holds partial sums that come from the tiles of another one; with windows what is narrower.

    All loops make two steps where the indices of all others are 0, so that of the loops without remainders tells.
    """
    m, last = node.mapping, c.fanout.shape[0]
    if c.windowed[t]:
        return int(_narrower(c, above, t))
    if not c.two_widths[0]:
        return 0
    up = s.level[last, STEPS] if child == last else words_into(c, m.temporal[0], m.order[0], s, child, t)
    seen = s.level[child, VISITS] * (1 if child == last else s.at[child, t, TILE])
    for lv in range(above, child):
        up *= s.at[lv, t, UP]
        for d in range(c.relevant.shape[1]):
            seen *= s.place[lv, d, SPREAD] if c.relevant[t, d] else 1
    return int(up > seen or s.level[above, PARTS_APART] > 1)


@jit
def _first_at_least(c: Constants, shapes: Shapes, node: SearchNode, s: Detail, child: int) -> None:
    """Steps of the first compute unit, and words that its PE holds in turn, if all inside a tile were done in turn."""
    node.steps[child] = 1.0
    for d in range(c.bounds.shape[0]):
        spread = 1
        for lv in range(child):
            spread *= s.place[lv, d, SPREAD]
        node.first[d] = float(-(-c.bounds[d] // spread))
        node.steps[child] *= node.first[d]
    for t in range(c.whole.shape[0] if c.array[PE] >= 0 else 0):
        if not c.stationary[t]:
            continue
        if child > c.array[PE]:
            node.held_in_turn[child, t] = node.held_in_turn[child - 1, t]
            continue
        words, all_words, skips = 1.0, 1, False
        for d in range(c.bounds.shape[0]):
            if not c.relevant[t, d]:
                continue
            most, first_of_rank = node.first[d], True
            for e in range(c.bounds.shape[0]):
                if c.relevant[t, e] and c.rank[t, e] == c.rank[t, d]:
                    first_of_rank &= d <= e
                    most = max(most, node.first[e])
            words *= most if first_of_rank else 1.0
            all_words *= shapes.size[d, node.tile[child, d]]
            skips |= c.factor[t, d] > 1
        if not (c.windowed[t] or skips):
            kept, s.at[child, t, TILE] = s.at[child, t, TILE], all_words
            entering = _words_at_least(c, shapes, node, s, child, t) / float(s.level[child, USED])
            s.at[child, t, TILE] = kept
            words = max(words, entering)
        node.held_in_turn[child, t] = words


@jit
def _moves_at_least(c: Constants, shapes: Shapes, node: SearchNode, s: Detail, lv: int) -> None:
    """As `count_ragged_moves`, at least: how many tiles there are along a dimension is known, but not how large."""
    m, dims, engine, issue = node.mapping, c.bounds.shape[0], c.dma.shape[0], c.dma[lv, c.whole.shape[0], ISSUE]
    turns, whole = 1, True
    for d in range(dims):
        passes, spread, size = shapes.passes[d, node.tile[lv, d]], 1, s.place[lv, d, INSIDE]
        for outer in range(lv):
            spread *= s.place[outer, d, SPREAD]
        times, _ = first_tiles(m.temporal[0], m.x[0], m.y[0], passes, 1, lv, d)
        most = max(-(-c.bounds[d] // spread), (times - 1) * size + 1) if shapes.ragged[d] else times * size
        s.place[engine, d, TIMES], s.place[engine, d, COVERED] = times, most
        turns *= times
        whole &= times == 1 or not shapes.ragged[d]
    moved, first, out = 0.0, 0, 0.0
    for t in range(c.whole.shape[0]):
        if node.mapping.keep[0, lv, t]:
            all_tiles = _moved_at_least(c, shapes, s, lv, t) * (1.0 - SURE)
            if t == c.output[0]:
                out = all_tiles
                continue
            for d in range(dims):
                all_tiles *= 1.0 if c.relevant[t, d] else float(s.place[engine, d, TIMES])
            moved += all_tiles
            first += tile_cycles(c, s, lv, t, WHOLE_TILES)
    note_moves(s, lv, max(int(moved), turns * issue), first, int(out), turns, turns if whole else SAFE)


@jit
def _moved_at_least(c: Constants, shapes: Shapes, s: Detail, lv: int, t: int) -> float:
    """Cycles of an engine for all different tiles of a tensor in the first instance, at least."""
    e, engine = c.dma[lv, t], c.dma.shape[0]
    runs, units, first = 1.0, float(e[ROW + 1] + e[LINE + 1]), 0
    for k in range(c.terms[t]):
        if k + 1 < c.terms[t] and not c.term_opens[t, k + 1]:
            continue
        extent, times = 1, 1
        for j in range(first, k + 1):
            extent += c.term_factor[t, j] * (s.place[lv, c.term[t, j], INSIDE] - 1)
            times *= s.place[engine, c.term[t, j], TIMES]
        first, d, words = k + 1, c.term[t, k], times * extent
        if shapes.ragged[d]:
            words = _boxes(c.term_factor[t, k], times, s.place[engine, d, COVERED])
        if c.rank[t, d] != e[ALONG]:
            runs *= float(words)
            continue
        units = 0.0
        for piece in (ROW, LINE):
            if e[piece] > 0:
                each = -(-extent // e[piece])
                least = max(-(-words // e[piece]), (times - 1) * each + 1) if shapes.ragged[d] else times * each
                units += float(least * e[piece + 1])
    return float(runs * units / float(c.dma[lv, c.whole.shape[0], UNITS]))


@inline
def _share(s: Detail, lv: int, t: int, way: int) -> float:
    """Share of the children of a network whose words are distinct."""
    return float(s.at[lv, t, way] * s.level[lv, USED]) / float(s.level[lv + 1, USED])


@jit
def _left(c: Constants, shapes: Shapes, node: SearchNode, s: Detail, child: int, t: int, lv: int, way: int) -> float:
    """Share of the words into all tiles of a level that networks down to that of another level leave.

    `node.free`: as `_hold_still` leaves it.
    """
    share = 1.0
    for network in range(lv, child):
        share *= _share(s, network, t, UP if way == SHARED_UP else DOWN)
    for d in range(c.relevant.shape[1]):
        if shapes.ragged[d] and not c.relevant[t, d]:
            passes = shapes.passes[d, node.tile[child, d]]
            share *= float(_turns(c, node, d, child, t, lv, way, passes) * _sharing(c, node, d, child, t, lv, way))
            share /= float(_turns(c, node, d, child, t, lv, OWN, passes))
    return share


@inline
def _sharing(c: Constants, node: SearchNode, d: int, child: int, t: int, above: int, way: int) -> int:
    """Children that share a word in loops over a dimension that the tensor lacks, below one level and above another."""
    sharing = 1
    for lv in range(above, child):
        on_x, on_y = _counted(c, lv, d, t, above, way, ALL)
        sharing *= (1 if on_x else node.mapping.x[0, lv, d]) * (1 if on_y else node.mapping.y[0, lv, d])
    return sharing


@jit
def share_left(c: Constants, shapes: Shapes, node: SearchNode, s: Detail, child: int, t: int, above: int) -> float:
    """Share of the words into tiles inside one of level `child` that networks between this and another level leave.

    Loops in between make fewer steps in the last tile.
    """
    way, share = SHARED_UP if t == c.output[0] else SHARED_DOWN, 1.0
    for network in range(above, child):
        share *= _share(s, network, t, UP if way == SHARED_UP else DOWN)
    for lv in range(child):
        for d in range(c.relevant.shape[1]):
            node.free[lv, d] = True
    for d in range(c.relevant.shape[1]):
        passes = shapes.passes[d, node.tile[child, d]]
        if shapes.ragged[d] and not c.relevant[t, d] and passes > 1:
            first, before = _turns(c, node, d, child, t, above, way, passes), passes - 1
            most = _turns(c, node, d, child, t, above, way, before)
            share *= float(first) / float(passes) if most == first else float(most) / float(before)
            share *= float(_sharing(c, node, d, child, t, above, way))
    return share


@inline
def _turns(c: Constants, node: SearchNode, d: int, child: int, t: int, above: int, way: int, passes: int) -> int:
    """As `_tiles`, of the first so many tiles."""
    m, span = node.mapping, 1
    for lv in range(child):
        span *= m.temporal[0, lv, d] * m.x[0, lv, d] * m.y[0, lv, d]
    tiles, _ = _steps_along(c, node, d, child, t, above, way, ALL, passes, span)
    return int(tiles)


@inline
def _hold_still(c: Constants, node: SearchNode, s: Detail, child: int, t: int) -> None:
    """Let all loops outside a tile be stepped through, but those inside the innermost one that moves a tensor."""
    moves = child == c.fanout.shape[0]
    for lv in range(child - 1, -1, -1):
        for d in range(c.relevant.shape[1]):
            node.free[lv, d] = True
        for j in range(s.level[lv, LOOPS] - 1, -1, -1):
            d = node.mapping.order[0, lv, j]
            moves |= c.relevant[t, d]
            node.free[lv, d] = moves


@inline
def _pass_at_least(c: Constants, node: SearchNode, s: Detail, child: int, lv: int, t: int, words: float) -> None:
    """Note so many elements between all instances of a level and the network below them."""
    part = float(min(c.word_parts[lv, t, 0], c.word_parts[lv, t, 1]))
    node.passing[child, lv] += int(words / float(s.level[lv, USED]) * part * (1.0 - SURE))


@inline
def _charge_at_least(
    c: Constants,
    node: SearchNode,
    s: Detail,
    child: int,
    lv: int,
    t: int,
    partial: int,
    words: float,
    action: int,
    ports: bool,
) -> float:
    """Energy of moving so many elements at all instances of a level; with `ports` they pass those of an average one."""
    part = float(c.word_parts[lv, t, partial])
    if ports:
        each, held_by = int(words / float(s.level[lv, USED]) * part * (1.0 - SURE)), c.nodes[lv, 0]
        if action == BY_READ:
            node.read[child, held_by] += each
        else:
            node.written[child, held_by] += each
    return float(words * part / float(c.block[lv]) * c.energy[lv, t, action])


@jit
def _seen(c: Constants, s: Detail, level: int, t: int) -> float:
    """Different words that all instances of a level hold in the course of time, one instance after the other."""
    seen = float(c.whole[t])
    for lv in range(level):
        for d in range(c.relevant.shape[1]):
            seen *= 1.0 if c.relevant[t, d] else float(s.place[lv, d, SPREAD])
    return seen


@jit
def _words_at_least(c: Constants, shapes: Shapes, node: SearchNode, s: Detail, child: int, t: int) -> float:
    """Words that enter all tiles of a tensor at a level at least.

    Words of perfect loops, with the loops over dimensions that leave remainders replaced by what these really do.
    """
    m = node.mapping
    words = words_into(c, m.temporal[0], m.order[0], s, child, t)
    most = _without_continuing(c, s, node, child, t) if c.windowed[t] else words
    share = 1.0
    _hold_still(c, node, s, child, t)
    for d in range(c.relevant.shape[1]):
        if not shapes.ragged[d]:
            continue
        looped, many = 1, shapes.passes[d, node.tile[child, d]]
        for lv in range(child):
            looped *= s.place[lv, d, SPREAD] * (m.temporal[0, lv, d] if node.free[lv, d] else 1)
        if not c.relevant[t, d]:
            share *= float(_turns(c, node, d, child, t, 0, OWN, many)) / float(looped)
            continue
        size, factor = shapes.size[d, node.tile[child, d]], c.factor[t, d]
        share *= float(_boxes(factor, many, c.bounds[d])) / float(looped * _boxes(factor, 1, size))
    share *= _moving(c, shapes, node, s, child, t)
    used = float(s.level[child, USED])
    return float(max(0.0, float(most) * used * share - float(most - words) * used))


@jit
def _without_continuing(c: Constants, s: Detail, node: SearchNode, child: int, t: int) -> int:
    """Words into a windowed tile if no outer loop carries on where an inner one ends."""
    temporal, order = node.mapping.temporal[0], node.mapping.order[0]
    words = s.at[child, t, TILE]
    for lv in range(child - 1, -1, -1):
        for j in range(s.level[lv, LOOPS] - 1, -1, -1):
            d = order[lv, j]
            if c.relevant[t, d]:
                extent = 1
                for e in range(c.relevant.shape[1]):
                    if c.relevant[t, e] and c.rank[t, e] == c.rank[t, d]:
                        extent += c.factor[t, e] * (s.place[child, e, INSIDE] - 1)
                step = c.factor[t, d] * s.place[lv + 1, d, INSIDE] * s.place[lv, d, SPREAD]
                new = words // extent * min(extent, step)
                return int(s.place[lv, j, BEFORE] * (words + (temporal[lv, d] - 1) * new))
    return int(words)


@inline
def _boxes(factor: int, tiles: int, covered: int) -> int:
    """Words of boxes along a rank: those that a stride skips inside a box are words of it too."""
    return factor * covered - (factor - 1) * tiles


@jit
def _moving(c: Constants, shapes: Shapes, node: SearchNode, s: Detail, child: int, t: int) -> float:
    """Share of a tensor's tiles that move at least with each pass of the innermost loop that moves them.

    The others rest where each loop inside that moves them makes one step, as a loop steps that does not: of n passes of
    such loops, those that follow another one within a loop. A window can go on where any loop makes one step.
    """
    share, resting, still, passes = 1.0, 1.0, 0.0, 1.0
    moved = 0
    for lv in range(child - 1, -1, -1):
        for j in range(s.level[lv, LOOPS] - 1, -1, -1):
            d = node.mapping.order[0, lv, j]
            if c.relevant[t, d]:
                if not moved >> d & 1:
                    rest = _resting(c, shapes, node, s, child, d, t) if shapes.ragged[d] else 0.0
                    resting *= rest
                    share *= 1.0 - rest
                moved |= 1 << d
            elif moved > 0:
                bound = float(node.mapping.temporal[0, lv, d])
                still += resting * (1.0 - 1.0 / bound) / passes
                passes *= bound
    return float(share if c.windowed[t] else 1.0 - still)


@jit
def _resting(c: Constants, shapes: Shapes, node: SearchNode, s: Detail, child: int, d: int, t: int) -> float:
    """Share of a tensor's words along a dimension of which the innermost temporal loop outside makes one step."""
    spread, many = 1, shapes.passes[d, node.tile[child, d]]
    for lv in range(child - 1, -1, -1):
        spread *= s.place[lv, d, SPREAD]
        if node.mapping.temporal[0, lv, d] > 1:
            return float(resting_share(c.bounds[d], many, spread, node.mapping.temporal[0, lv, d], c.factor[t, d]))
    return 0.0


@jit
def _steps_of_all(c: Constants, node: SearchNode) -> int:
    """Steps of the temporal loops of a whole mapping; passes that only the idle would make are not made."""
    m = node.mapping
    levels, total = c.fanout.shape[0], 1
    for d in range(c.bounds.shape[0]):
        span, inside = 1, 1  # what all loops cover, and steps of the temporal ones
        for lv in range(levels):
            span *= m.temporal[0, lv, d] * m.x[0, lv, d] * m.y[0, lv, d]
            inside *= m.temporal[0, lv, d]
        steps, rest = 1, c.bounds[d]
        for lv in range(levels):
            bound = m.temporal[0, lv, d]
            span //= bound
            inside //= bound
            full = (rest - 1) // span
            steps += full * inside
            rest -= full * span
            span //= m.x[0, lv, d] * m.y[0, lv, d]
            rest = min(rest, span)
        total *= steps
    return total


@jit
def _tiles(
    c: Constants, node: SearchNode, d: int, child: int, t: int, above: int, way: int, which: int, bound: int
) -> tuple[int, int]:
    """Tiles of a level along a dimension, and what they cover, in all steps of the free loops and all instances.

    Parameters
    ----------
    above : int
        Instances of this level are all counted, or the busiest one alone (`which`); below it each group that shares
        a word counts once, as `way` says.
    bound : int
        Of the dimension, or less: then tiles that begin further out are not counted.
    """
    span = node.span[0, d]
    return _steps_along(c, node, d, child, t, above, way, which, bound, span) if bound > 0 else (0, 0)


@jit
def _steps_along(
    c: Constants, node: SearchNode, d: int, child: int, t: int, above: int, way: int, which: int, bound: int, span: int
) -> tuple[int, int]:
    """As `_tiles`, of a bound in any unit; `span`: what all loops cover in that."""
    m, free = node.mapping, 1
    for lv in range(child):
        on_x, on_y = _counted(c, lv, d, t, above, way, which)
        free *= (m.temporal[0, lv, d] if node.free[lv, d] else 1) * (m.x[0, lv, d] if on_x else 1)
        free *= m.y[0, lv, d] if on_y else 1
    tiles, rest = 0, bound
    for lv in range(child):
        on_x, on_y = _counted(c, lv, d, t, above, way, which)
        for block in range(3):
            loop = (m.temporal[0, lv, d], m.x[0, lv, d], m.y[0, lv, d])[block]
            if loop == 1:
                continue
            span //= loop
            if (node.free[lv, d], on_x, on_y)[block]:
                free //= loop
                full = (rest - 1) // span
                tiles += full * free
                rest -= full * span
            else:
                rest = min(rest, span)
    return tiles + 1, tiles * span + rest


@inline
def _counted(c: Constants, lv: int, d: int, t: int, above: int, way: int, which: int) -> tuple[bool, bool]:
    """Whether instances along x and y of the network below a level count apart."""
    if lv < above:
        return which == ALL, which == ALL
    if way == OWN or c.relevant[t, d]:
        return True, True
    if way == MERGED:
        return False, False
    if way == SHARED_DOWN:
        return not c.multicast[lv, 0, t], not c.multicast[lv, 1, t]
    return not c.reduction[lv, 0], not c.reduction[lv, 1]


@jit
def _words(
    c: Constants, shapes: Shapes, node: SearchNode, s: Detail, child: int, t: int, above: int, way: int, which: int
) -> int:
    """Words that enter tiles of a level, or that the compute units ask for: first boxes, and steps that move one."""
    levels, dims = c.fanout.shape[0], c.relevant.shape[1]
    if c.windowed[t]:
        words = shapes.macs[0] if child == levels else _words_at_least(c, shapes, node, s, child, t)
        for lv in range(above, child if way != OWN else above):
            words *= _share(s, lv, t, UP if way == SHARED_UP else DOWN)
        return int(words if which == ALL else words / float(s.level[above, USED]))
    for lv in range(levels):
        for d in range(dims):
            node.free[lv, d] = child == levels
    total = 1
    for d in range(dims):
        tiles, covered = _tiles(c, node, d, child, t, above, way, which, c.bounds[d])
        total *= _boxes(c.factor[t, d], tiles, covered) if c.relevant[t, d] and child < levels else tiles
    if child == levels:
        return total
    for lv in range(child):
        for j in range(s.level[lv, LOOPS]):
            total += _words_of_loop(c, node, s, child, t, above, way, which, lv, j)
            node.free[lv, node.mapping.order[0, lv, j]] = True
    return total


@jit
def _words_of_loop(
    c: Constants, node: SearchNode, s: Detail, child: int, t: int, above: int, way: int, which: int, lv: int, j: int
) -> int:
    """Words that enter with the steps of one loop; those that leave the box in place bring none."""
    looped = node.mapping.order[0, lv, j]
    passes, moving, resting = 1, 1, 1
    for d in range(c.relevant.shape[1]):
        tiles, covered = _tiles(c, node, d, child, t, above, way, which, c.bounds[d])
        if d == looped:
            node.free[lv, d] = True
            all_tiles, all_covered = _tiles(c, node, d, child, t, above, way, which, c.bounds[d])
            node.free[lv, d] = False
            tiles, covered = all_tiles - tiles, all_covered - covered
        if not c.relevant[t, d]:
            passes *= tiles
            continue
        moving *= _boxes(c.factor[t, d], tiles, covered)
        step = _least_step(node, s, child, d, lv, j)
        if step > 0:  # of the tiles, those that have another step of the loops inside
            more, _ = _tiles(c, node, d, child, t, above, way, which, c.bounds[d] - step)
            tiles, covered = tiles - more, covered - more * node.span[child, d]
        resting *= _boxes(c.factor[t, d], tiles, covered)
    return passes * moving if c.relevant[t, looped] else passes * (moving - resting)


@inline
def _least_step(node: SearchNode, s: Detail, child: int, d: int, lv: int, j: int) -> int:
    """What the innermost temporal loop over a dimension steps, of those inside a loop and outside a tile; 0: none."""
    m = node.mapping
    for inner in range(child - 1, lv - 1, -1):
        if m.temporal[0, inner, d] > 1:
            inside = inner > lv
            for k in range(j + 1, s.level[lv, LOOPS] if inner == lv else 0):
                inside |= m.order[0, lv, k] == d
            if inside:
                return int(node.span[inner + 1, d] * m.x[0, inner, d] * m.y[0, inner, d])
            return 0
    return 0


@inline
def _step_through(c: Constants, node: SearchNode, t: int) -> None:
    """Let the loops that move a tensor be stepped through, and no others."""
    for lv in range(c.fanout.shape[0]):
        for d in range(c.relevant.shape[1]):
            node.free[lv, d] = c.relevant[t, d]


@jit
def _first_words(c: Constants, node: SearchNode, child: int, above: int, t: int, way: int, which: int) -> int:
    """Different words that tiles of a level ever bring to instances of one further out, or to their own."""
    words = 1
    _step_through(c, node, t)
    for d in range(c.relevant.shape[1]):
        tiles, covered = _tiles(c, node, d, child, t, above, way, which, c.bounds[d])
        words *= _boxes(c.factor[t, d], tiles, covered) if c.relevant[t, d] else tiles
    return words


@inline
def _book(
    c: Constants, node: SearchNode, lv: int, t: int, words: int, busiest: int, action: int, partial: int
) -> float:
    """Energy of moving so many elements, `partial` sums or not; those of the busiest instance pass its ports."""
    part = c.word_parts[lv, t, partial]
    if action == BY_READ:
        node.read[c.fanout.shape[0], c.nodes[lv, 0]] += busiest * part
    else:
        node.written[c.fanout.shape[0], c.nodes[lv, 0]] += busiest * part
    return float(words * part) / float(c.block[lv]) * float(c.energy[lv, t, action])


@jit
def cost_remainders(c: Constants, shapes: Shapes, node: SearchNode, s: Detail, full: Detail) -> tuple[float, int]:
    """Energy [pJ] and cycles of a whole mapping.

    Exact, but accesses are not rounded up to blocks, which is known only of single instances. Tensors with windows cost
    what they cost at least, and so does a change of what a systolic array holds, and an engine that overlaps.
    `full` : with the places of its tiles.
    """
    m, levels = node.mapping, c.fanout.shape[0]
    for d in range(c.bounds.shape[0]):
        node.span[levels, d] = 1
        for lv in range(levels - 1, -1, -1):
            node.span[lv, d] = node.span[lv + 1, d] * m.temporal[0, lv, d] * m.x[0, lv, d] * m.y[0, lv, d]
    for lv in range(levels):
        node.read[levels, lv], node.written[levels, lv], node.passing[levels, lv] = 0, 0, 0
    energy = shapes.macs[0] * float(c.mac[0])
    for t in range(c.whole.shape[0]):
        child, partial_inside = levels, 0
        for lv in range(levels - 1, -1, -1):
            if m.keep[0, lv, t]:
                if t == c.output[0]:
                    partial = _holds_partial_sums(c, shapes, node, s, t, lv, child)
                    energy += _cost_output(c, shapes, node, s, t, lv, child, partial, partial_inside)
                    partial_inside = partial
                else:
                    energy += _cost_input(c, shapes, node, s, t, lv, child)
                child = lv
    cycles = _steps_of_all(c, node) * c.mac_cycles[0]
    if c.array[STREAM] >= 0:
        cycles += ragged_short_cycles(c, m.temporal[0], m.x[0], m.y[0], cycles)
    if c.array[PE] >= 0:
        cycles = _array_cycles_at_least(c, shapes, node, s, cycles)
    for lv in range(levels):
        if c.limited[lv]:
            cycles = max(cycles, port_cycles(c, lv, node.read[levels, lv], node.written[levels, lv], cycles, False))
            cycles = max(cycles, network_cycles(c, lv, node.passing[levels, lv]))
    if c.dma.shape[0] > 0:
        cycles = with_ragged_engines(c, m.temporal[0], m.x[0], m.y[0], m.keep[0], full, cycles)
    for lv in range(levels):
        energy += c.leak[lv] * float(cycles) * float(s.level[lv, USED])
    return energy, cycles


@jit
def _array_cycles_at_least(c: Constants, shapes: Shapes, node: SearchNode, s: Detail, steps: int) -> int:
    """Compute cycles with the ramps of a systolic array; a tile is taken to be as large as the largest."""
    tiles, words, first = 0, 0, 0
    for t in range(c.whole.shape[0]):
        if c.stationary[t]:
            for lv in range(c.array[PE], c.nodes[c.array[PE], 1]):
                if node.mapping.keep[0, lv, t]:
                    into = _words(c, shapes, node, s, lv, t, lv, OWN, BUSIEST)
                    tile = s.at[lv, t, TILE]
                    tiles += -(-into // tile)
                    words += max(into, tile)
                    first += tile
    return int(array_cycles(c, steps, max(tiles, 1), words, first))


@jit
def _cost_input(c: Constants, shapes: Shapes, node: SearchNode, s: Detail, t: int, above: int, child: int) -> float:
    """Energy of all words of a tensor between two levels that keep it, downwards only."""
    levels = c.fanout.shape[0]
    energy = 0.0
    words = _words(c, shapes, node, s, child, t, above, SHARED_DOWN, ALL)
    one = _words(c, shapes, node, s, child, t, above, SHARED_DOWN, BUSIEST)
    energy += _book(c, node, above, t, words, one, READING, 0)
    for lv in range(above, child):
        if c.transfers[lv]:
            energy += float(_words(c, shapes, node, s, child, t, lv + 1, SHARED_DOWN, ALL)) * float(
                c.energy[lv, t, BY_TRANSFER]
            )
            one = _words(c, shapes, node, s, child, t, lv, SHARED_DOWN, BUSIEST)
            node.passing[levels, lv] += one * c.word_parts[lv, t, 0]
    if child < levels:
        words = _words(c, shapes, node, s, child, t, child, OWN, ALL)
        one = _words(c, shapes, node, s, child, t, child, OWN, BUSIEST)
        energy += _book(c, node, child, t, words, one, WRITING, 0)
    return float(energy)


@jit
def _holds_partial_sums(
    c: Constants, shapes: Shapes, node: SearchNode, s: Detail, t: int, above: int, child: int
) -> int:
    """1 if a level holds partial sums of the output, as `model.ragged` says; with windows as narrow as they can be."""
    if c.windowed[t]:
        return int(_narrower(c, above, t))
    updates = _words(c, shapes, node, s, child, t, above, SHARED_UP, BUSIEST)
    seen = _first_words(c, node, child, above, t, MERGED, BUSIEST)
    return int(updates > seen or s.level[above, PARTS_APART] > 1)


@jit
def _cost_output(
    c: Constants,
    shapes: Shapes,
    node: SearchNode,
    s: Detail,
    t: int,
    above: int,
    child: int,
    partial: int,
    partial_inside: int,
) -> float:
    """Energy of all words of the output between two levels that keep it, upwards and back.

    `partial` and `partial_inside` say whether the levels hold partial sums.
    """
    levels = c.fanout.shape[0]
    energy = 0.0
    up = _words(c, shapes, node, s, child, t, above, SHARED_UP, ALL)
    one = _words(c, shapes, node, s, child, t, above, SHARED_UP, BUSIEST)
    energy += _book(c, node, above, t, up, one, UPDATING, partial)
    if not c.windowed[t]:
        up -= _first_words(c, node, child, above, t, MERGED, ALL)
        one -= _first_words(c, node, child, above, t, MERGED, BUSIEST)
        energy += _book(c, node, above, t, up, one, READING, partial)
    for lv in range(above, child):
        if c.transfers[lv]:
            up = _words(c, shapes, node, s, child, t, lv + 1, SHARED_UP, ALL)
            down = _words(c, shapes, node, s, child, t, lv + 1, SHARED_DOWN, ALL)
            down -= down if c.windowed[t] else _first_words(c, node, child, lv + 1, t, SHARED_DOWN, ALL)
            energy += float(up) * float(c.energy[lv, t, BY_TRANSFER]) + float(down) * float(c.energy[lv, t, BY_RETURN])
            one = _words(c, shapes, node, s, child, t, lv, SHARED_UP, BUSIEST)
            node.passing[levels, lv] += one * c.word_parts[lv, t, partial]
    if child < levels:
        up = _words(c, shapes, node, s, child, t, child, OWN, ALL)
        one = _words(c, shapes, node, s, child, t, child, OWN, BUSIEST)
        if c.drain[child]:
            energy += _book(c, node, child, t, up, one, READING, partial_inside)
        if not c.windowed[t]:
            up -= _first_words(c, node, child, child, t, MERGED, ALL)
            one -= _first_words(c, node, child, child, t, MERGED, BUSIEST)
            energy += _book(c, node, child, t, up, one, WRITING, partial_inside)
    return float(energy)
