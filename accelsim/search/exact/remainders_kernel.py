"""What whole mappings move whose loops leave remainders, and how many words enter tiles at least; compiled.

Words are counted over all instances together, in closed form: a product of one sum for each dimension, because whether
an iteration happens is decided for each dimension by itself. docs/papers/cost-model.md (section 10) and
docs/papers/exact-mapper.md derive it. Axis letters as in node.
"""

from __future__ import annotations

import numpy as np

from accelsim.model.detail import BEFORE, DOWN, FILLS, INSIDE, LOOPS, PARTS_APART, SPREAD, TILE, TRIPS, UP, USED, Detail
from accelsim.model.dma import with_ragged_engines
from accelsim.model.encode import BY_READ, BY_RETURN, BY_TRANSFER, BY_UPDATE, BY_WRITE, PE, STREAM, Constants
from accelsim.model.fills import late_cycles
from accelsim.model.jit import inline, jit
from accelsim.model.ports import network_cycles, port_cycles
from accelsim.model.systolic import array_cycles, ragged_short_cycles
from accelsim.model.windows import words_into
from accelsim.search.exact.node import SearchNode, SearchProblem
from accelsim.search.exact.shapes import resting_share

OWN, SHARED_DOWN, SHARED_UP, MERGED = np.int64(0), np.int64(1), np.int64(2), np.int64(3)
"""Which children count: each for itself, or one for all that share a read, an update, or words at any time."""
ALL, BUSIEST = np.int64(0), np.int64(1)
"""Which instances count."""
READING, WRITING, UPDATING = np.int64(BY_READ), np.int64(BY_WRITE), np.int64(BY_UPDATE)
PASSING, NOT_PASSING = np.bool_(True), np.bool_(False)
"""Arguments; functions would compile anew for each plain constant."""


@inline
def narrower(c: Constants, lv: int, t: int) -> int:
    """Which words of a tensor at a level are narrow, partial sums (1) or finished ones."""
    return int(c.word_parts[lv, t, 1] < c.word_parts[lv, t, 0])


@inline
def network_share(s: Detail, lv: int, t: int, way: int) -> float:
    """Share of the children of a network whose words are distinct."""
    return float(s.at[lv, t, way] * s.level[lv, USED]) / float(s.level[lv + 1, USED])


@inline
def turns(c: Constants, node: SearchNode, d: int, child: int, t: int, above: int, way: int, passes: int) -> int:
    """As `_tiles`, of the first so many tiles."""
    m, span = node.mapping, 1
    for lv in range(child):
        span *= m.temporal[0, lv, d] * m.x[0, lv, d] * m.y[0, lv, d]
    tiles, _ = _steps_along(c, node, d, child, t, above, way, ALL, passes, span)
    return int(tiles)


@inline
def hold_still(c: Constants, node: SearchNode, child: int, t: int) -> None:
    """Let all loops outside a tile be stepped through, but those inside the innermost one that moves a tensor."""
    s = node.s
    moves = child == c.fanout.shape[0]
    for lv in range(child - 1, -1, -1):
        for d in range(c.relevant.shape[1]):
            node.free[lv, d] = True
        for j in range(s.level[lv, LOOPS] - 1, -1, -1):
            d = node.mapping.order[0, lv, j]
            moves |= c.relevant[t, d]
            node.free[lv, d] = moves


@jit
def words_at_least(problem: SearchProblem, node: SearchNode, child: int, t: int) -> float:
    """Words that enter all tiles of a tensor at a level at least.

    Words of perfect loops, with the loops over dimensions that leave remainders replaced by what these really do.
    """
    c, shapes, s = problem.c, problem.shapes, node.s
    m = node.mapping
    words = words_into(c, m, 0, s, child, t)
    most = _without_continuing(c, node, child, t) if c.windowed[t] else words
    share = 1.0
    hold_still(c, node, child, t)
    for d in range(c.relevant.shape[1]):
        if not shapes.ragged[d]:
            continue
        looped, many = 1, shapes.passes[d, node.tile[child, d]]
        for lv in range(child):
            looped *= s.place[lv, d, SPREAD] * (m.temporal[0, lv, d] if node.free[lv, d] else 1)
        if not c.relevant[t, d]:
            share *= float(turns(c, node, d, child, t, 0, OWN, many)) / float(looped)
            continue
        size, factor = shapes.size[d, node.tile[child, d]], c.factor[t, d]
        share *= float(boxes(factor, many, c.bounds[d])) / float(looped * boxes(factor, 1, size))
    share *= _moving(problem, node, child, t)
    used = float(s.level[child, USED])
    return float(max(0.0, float(most) * used * share - float(most - words) * used))


@jit
def _without_continuing(c: Constants, node: SearchNode, child: int, t: int) -> int:
    """Words into a windowed tile if no outer loop carries on where an inner one ends."""
    s = node.s
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
def boxes(factor: int, tiles: int, covered: int) -> int:
    """Words of boxes along a rank: those that a stride skips inside a box are words of it too."""
    return factor * covered - (factor - 1) * tiles


@jit
def _moving(problem: SearchProblem, node: SearchNode, child: int, t: int) -> float:
    """Share of a tensor's tiles that move at least with each pass of the innermost loop that moves them.

    The others rest where each loop inside that moves them makes one step, as a loop steps that does not: of n passes of
    such loops, those that follow another one within a loop. A window can go on where any loop makes one step.
    """
    c, shapes, s = problem.c, problem.shapes, node.s
    share, resting, still, passes = 1.0, 1.0, 0.0, 1.0
    moved = 0
    for lv in range(child - 1, -1, -1):
        for j in range(s.level[lv, LOOPS] - 1, -1, -1):
            d = node.mapping.order[0, lv, j]
            if c.relevant[t, d]:
                if not moved >> d & 1:
                    rest = _resting(problem, node, child, d, t) if shapes.ragged[d] else 0.0
                    resting *= rest
                    share *= 1.0 - rest
                moved |= 1 << d
            elif moved > 0:
                bound = float(node.mapping.temporal[0, lv, d])
                still += resting * (1.0 - 1.0 / bound) / passes
                passes *= bound
    return float(share if c.windowed[t] else 1.0 - still)


@jit
def _resting(problem: SearchProblem, node: SearchNode, child: int, d: int, t: int) -> float:
    """Share of a tensor's words along a dimension of which the innermost temporal loop outside makes one step."""
    c, shapes, s = problem.c, problem.shapes, node.s
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
        on_x, on_y = counted(c, lv, d, t, above, way, which)
        free *= (m.temporal[0, lv, d] if node.free[lv, d] else 1) * (m.x[0, lv, d] if on_x else 1)
        free *= m.y[0, lv, d] if on_y else 1
    tiles, rest = 0, bound
    for lv in range(child):
        on_x, on_y = counted(c, lv, d, t, above, way, which)
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
def counted(c: Constants, lv: int, d: int, t: int, above: int, way: int, which: int) -> tuple[bool, bool]:
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
def _words(problem: SearchProblem, node: SearchNode, child: int, t: int, above: int, way: int, which: int) -> int:
    """Words that enter tiles of a level, or that the compute units ask for: first boxes, and steps that move one."""
    c, shapes, s = problem.c, problem.shapes, node.s
    levels, dims = c.fanout.shape[0], c.relevant.shape[1]
    if c.windowed[t]:
        words = shapes.macs[0] if child == levels else words_at_least(problem, node, child, t)
        for lv in range(above, child if way != OWN else above):
            words *= network_share(s, lv, t, UP if way == SHARED_UP else DOWN)
        return int(words if which == ALL else words / float(s.level[above, USED]))
    for lv in range(levels):
        for d in range(dims):
            node.free[lv, d] = child == levels
    total = 1
    for d in range(dims):
        tiles, covered = _tiles(c, node, d, child, t, above, way, which, c.bounds[d])
        total *= boxes(c.factor[t, d], tiles, covered) if c.relevant[t, d] and child < levels else tiles
    if child == levels:
        return total
    for lv in range(child):
        for j in range(s.level[lv, LOOPS]):
            total += _words_of_loop(c, node, child, t, above, way, which, lv, j)
            node.free[lv, node.mapping.order[0, lv, j]] = True
    return total


@jit
def _words_of_loop(
    c: Constants, node: SearchNode, child: int, t: int, above: int, way: int, which: int, lv: int, j: int
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
        moving *= boxes(c.factor[t, d], tiles, covered)
        step = _least_step(node, child, d, lv, j)
        if step > 0:  # of the tiles, those that have another step of the loops inside
            more, _ = _tiles(c, node, d, child, t, above, way, which, c.bounds[d] - step)
            tiles, covered = tiles - more, covered - more * node.span[child, d]
        resting *= boxes(c.factor[t, d], tiles, covered)
    return passes * moving if c.relevant[t, looped] else passes * (moving - resting)


@inline
def _least_step(node: SearchNode, child: int, d: int, lv: int, j: int) -> int:
    """What the innermost temporal loop over a dimension steps, of those inside a loop and outside a tile; 0: none."""
    s = node.s
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
        words *= boxes(c.factor[t, d], tiles, covered) if c.relevant[t, d] else tiles
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
def cost_remainders(problem: SearchProblem, node: SearchNode) -> tuple[float, int]:
    """Energy [pJ] and cycles of a whole mapping.

    Exact, but accesses are not rounded up to blocks, which is known only of single instances. Tensors with windows cost
    what they cost at least, and so does a change of what a systolic array holds, and an engine that overlaps.
    `full` : with the places of its tiles.
    """
    c, shapes, s, full = problem.c, problem.shapes, node.s, node.full
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
                    partial = _holds_partial_sums(problem, node, t, lv, child)
                    energy += _cost_output(problem, node, t, lv, child, partial, partial_inside)
                    if child < levels and (c.dma.shape[0] > 0 or c.latency.any()):
                        full.at[child, t, FILLS] = _returning_words(problem, node, t, child)
                    partial_inside = partial
                else:
                    energy += _cost_input(problem, node, t, lv, child)
                    if child < levels and c.latency.any():
                        full.at[child, t, FILLS] = _words(problem, node, child, t, child, OWN, BUSIEST)
                        full.at[child, t, TRIPS] = 0  # a mapping without remainders knew how many
                child = lv
    cycles = _steps_of_all(c, node) * c.mac_cycles[0]
    if c.array[STREAM] >= 0:
        cycles += ragged_short_cycles(c, m, 0, cycles)
    if c.array[PE] >= 0:
        cycles = _array_cycles_at_least(problem, node, cycles)
    for lv in range(levels):
        if c.limited[lv]:
            cycles = max(cycles, port_cycles(c, lv, node.read[levels, lv], node.written[levels, lv], cycles, False))
            cycles = max(cycles, network_cycles(c, lv, node.passing[levels, lv]))
    for lv in range(1, levels if c.latency.any() else 1):
        cycles += late_cycles(c, full, m.keep[0], lv)[1]
    if c.dma.shape[0] > 0:
        cycles = with_ragged_engines(c, m, 0, full, cycles)
    for lv in range(levels):
        energy += c.leak[lv] * float(cycles) * float(s.level[lv, USED])
    return energy, cycles


@jit
def _array_cycles_at_least(problem: SearchProblem, node: SearchNode, steps: int) -> int:
    """Compute cycles with the ramps of a systolic array; a tile is taken to be as large as the largest."""
    c, s = problem.c, node.s
    tiles, words, first = 0, 0, 0
    for t in range(c.whole.shape[0]):
        if c.stationary[t]:
            for lv in range(c.array[PE], c.nodes[c.array[PE], 1]):
                if node.mapping.keep[0, lv, t]:
                    into = _words(problem, node, lv, t, lv, OWN, BUSIEST)
                    tile = s.at[lv, t, TILE]
                    tiles += -(-into // tile)
                    words += max(into, tile)
                    first += tile
    return int(array_cycles(c, steps, max(tiles, 1), words, first))


@jit
def _cost_input(problem: SearchProblem, node: SearchNode, t: int, above: int, child: int) -> float:
    """Energy of all words of a tensor between two levels that keep it, downwards only."""
    c = problem.c
    levels = c.fanout.shape[0]
    energy = 0.0
    words = _words(problem, node, child, t, above, SHARED_DOWN, ALL)
    one = _words(problem, node, child, t, above, SHARED_DOWN, BUSIEST)
    energy += _book(c, node, above, t, words, one, READING, 0)
    for lv in range(above, child):
        if c.transfers[lv]:
            energy += float(_words(problem, node, child, t, lv + 1, SHARED_DOWN, ALL)) * float(
                c.energy[lv, t, BY_TRANSFER]
            )
            one = _words(problem, node, child, t, lv, SHARED_DOWN, BUSIEST)
            node.passing[levels, lv] += one * c.word_parts[lv, t, 0]
    if child < levels:
        words = _words(problem, node, child, t, child, OWN, ALL)
        one = _words(problem, node, child, t, child, OWN, BUSIEST)
        energy += _book(c, node, child, t, words, one, WRITING, 0)
    return float(energy)


@jit
def _holds_partial_sums(problem: SearchProblem, node: SearchNode, t: int, above: int, child: int) -> int:
    """1 if a level holds partial sums of the output, as `model.ragged` says; with windows as narrow as they can be."""
    c, s = problem.c, node.s
    if c.windowed[t]:
        return int(narrower(c, above, t))
    updates = _words(problem, node, child, t, above, SHARED_UP, BUSIEST)
    seen = _first_words(c, node, child, above, t, MERGED, BUSIEST)
    return int(updates > seen or s.level[above, PARTS_APART] > 1)


@jit
def _returning_words(problem: SearchProblem, node: SearchNode, t: int, child: int) -> int:
    """Partial sums that come back into the busiest instance of a level; with windows none, at least."""
    c = problem.c
    if c.windowed[t]:
        return 0
    words = _words(problem, node, child, t, child, OWN, BUSIEST)
    return int(words - _first_words(c, node, child, child, t, MERGED, BUSIEST))


@jit
def _cost_output(
    problem: SearchProblem, node: SearchNode, t: int, above: int, child: int, partial: int, partial_inside: int
) -> float:
    """Energy of all words of the output between two levels that keep it, upwards and back.

    `partial` and `partial_inside` say whether the levels hold partial sums.
    """
    c = problem.c
    levels = c.fanout.shape[0]
    energy = 0.0
    up = _words(problem, node, child, t, above, SHARED_UP, ALL)
    one = _words(problem, node, child, t, above, SHARED_UP, BUSIEST)
    energy += _book(c, node, above, t, up, one, UPDATING, partial)
    if not c.windowed[t]:
        up -= _first_words(c, node, child, above, t, MERGED, ALL)
        one -= _first_words(c, node, child, above, t, MERGED, BUSIEST)
        energy += _book(c, node, above, t, up, one, READING, partial)
    for lv in range(above, child):
        if c.transfers[lv]:
            up = _words(problem, node, child, t, lv + 1, SHARED_UP, ALL)
            down = _words(problem, node, child, t, lv + 1, SHARED_DOWN, ALL)
            down -= down if c.windowed[t] else _first_words(c, node, child, lv + 1, t, SHARED_DOWN, ALL)
            energy += float(up) * float(c.energy[lv, t, BY_TRANSFER]) + float(down) * float(c.energy[lv, t, BY_RETURN])
            one = _words(problem, node, child, t, lv, SHARED_UP, BUSIEST)
            node.passing[levels, lv] += one * c.word_parts[lv, t, partial]
    if child < levels:
        up = _words(problem, node, child, t, child, OWN, ALL)
        one = _words(problem, node, child, t, child, OWN, BUSIEST)
        if c.drain[child]:
            energy += _book(c, node, child, t, up, one, READING, partial_inside)
        if not c.windowed[t]:
            up -= _first_words(c, node, child, child, t, MERGED, ALL)
            one -= _first_words(c, node, child, child, t, MERGED, BUSIEST)
            energy += _book(c, node, child, t, up, one, WRITING, partial_inside)
    return float(energy)
