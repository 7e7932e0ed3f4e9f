"""What loops that leave remainders move at least, for a node of the search; compiled. Axis letters as in node."""

from __future__ import annotations

from accelsim.model.detail import DOWN, PARTS_APART, SPREAD, STEPS, TILE, UP, USED, VISITS, Detail
from accelsim.model.encode import BY_READ, BY_RETURN, BY_TRANSFER, KIND, NO_ENGINE, PE, UNLIMITED, Constants
from accelsim.model.jit import inline, jit
from accelsim.model.windows import words_into
from accelsim.search.exact.dma_kernel import moves_at_least
from accelsim.search.exact.incumbents import SURE
from accelsim.search.exact.node import SearchNode, SearchProblem
from accelsim.search.exact.remainders_kernel import (
    ALL,
    NOT_PASSING,
    OWN,
    PASSING,
    READING,
    SHARED_DOWN,
    SHARED_UP,
    UPDATING,
    WRITING,
    counted,
    hold_still,
    narrower,
    network_share,
    turns,
    words_at_least,
)


@jit
def flow_at_least(problem: SearchProblem, node: SearchNode, child: int) -> bool:
    """As `flow` with imperfect factors: the least that all instances move (docs/papers/exact-mapper.md, section 8)."""
    c, shapes, s = problem.c, problem.shapes, node.s
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
            hold_still(c, node, child, t)
        else:
            words = words_at_least(problem, node, child, t)
        if t != output:
            down = words
            for lv in range(child - 1, above - 1, -1):
                energy += down * c.energy[lv, t, BY_TRANSFER]
                down = words * _left(problem, node, child, t, lv, SHARED_DOWN)
                _pass_at_least(c, node, child, lv, t, down)
            energy += _charge_at_least(c, node, child, above, t, 0, down, READING, PASSING)
            if child < levels:
                energy += _charge_at_least(c, node, child, child, t, 0, words, WRITING, PASSING)
            continue
        seen = words if c.windowed[t] else _seen(c, s, child, t)
        up, down = words, max(0.0, words - seen)
        node.fills[child, t], node.moved[child, t] = int(down), int(up)
        for lv in range(child - 1, above - 1, -1):
            energy += up * c.energy[lv, t, BY_TRANSFER] + down * c.energy[lv, t, BY_RETURN]
            down *= network_share(s, lv, t, DOWN)
            up = words * _left(problem, node, child, t, lv, SHARED_UP)
            _pass_at_least(c, node, child, lv, t, up + down)
        reads = 0.0 if c.windowed[t] else max(0.0, up - _seen(c, s, above, t))
        fills = 0.0
        if above > 0:
            fills = float(node.fills[above, t])
            reads += float(node.moved[above, t]) if c.drain[above] else 0.0
            energy -= node.charged[above, t]
        partial = _comes_back(c, node, child, above, t)
        energy += _charge_at_least(c, node, child, above, t, partial, reads, READING, PASSING)
        energy += _charge_at_least(c, node, child, above, t, partial, up, UPDATING, PASSING)
        energy += _charge_at_least(c, node, child, above, t, partial, fills, WRITING, PASSING)
        if child < levels:
            narrow, fills, out = narrower(c, child, t), float(node.fills[child, t]), float(node.moved[child, t])
            node.charged[child, t] = _charge_at_least(c, node, child, child, t, narrow, fills, WRITING, NOT_PASSING)
            if c.drain[child]:
                drained = _charge_at_least(c, node, child, child, t, narrow, out, READING, NOT_PASSING)
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
        moves_at_least(problem, node, child)
    _first_at_least(problem, node, child)
    return True


@inline
def _comes_back(c: Constants, node: SearchNode, child: int, above: int, t: int) -> int:
    """Whether a level holds partial sums that come from the tiles of another one; with windows what is narrower.

    All loops make two steps where the indices of all others are 0, so that of the loops without remainders tells.
    """
    s = node.s
    m, last = node.mapping, c.fanout.shape[0]
    if c.windowed[t]:
        return int(narrower(c, above, t))
    if not c.two_widths[0]:
        return 0
    up = s.level[last, STEPS] if child == last else words_into(c, m, 0, s, child, t)
    seen = s.level[child, VISITS] * (1 if child == last else s.at[child, t, TILE])
    for lv in range(above, child):
        up *= s.at[lv, t, UP]
        for d in range(c.relevant.shape[1]):
            seen *= s.place[lv, d, SPREAD] if c.relevant[t, d] else 1
    return int(up > seen or s.level[above, PARTS_APART] > 1)


@jit
def _first_at_least(problem: SearchProblem, node: SearchNode, child: int) -> None:
    """Steps of the first compute unit, and words that its PE holds in turn, if all inside a tile were done in turn."""
    c, shapes, s = problem.c, problem.shapes, node.s
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
            entering = words_at_least(problem, node, child, t) / float(s.level[child, USED])
            s.at[child, t, TILE] = kept
            words = max(words, entering)
        node.held_in_turn[child, t] = words


@jit
def _left(problem: SearchProblem, node: SearchNode, child: int, t: int, lv: int, way: int) -> float:
    """Share of the words into all tiles of a level that networks down to that of another level leave.

    `node.free`: as `hold_still` leaves it.
    """
    c, shapes, s = problem.c, problem.shapes, node.s
    share = 1.0
    for network in range(lv, child):
        share *= network_share(s, network, t, UP if way == SHARED_UP else DOWN)
    for d in range(c.relevant.shape[1]):
        if shapes.ragged[d] and not c.relevant[t, d]:
            passes = shapes.passes[d, node.tile[child, d]]
            share *= float(turns(c, node, d, child, t, lv, way, passes) * _sharing(c, node, d, child, t, lv, way))
            share /= float(turns(c, node, d, child, t, lv, OWN, passes))
    return share


@inline
def _sharing(c: Constants, node: SearchNode, d: int, child: int, t: int, above: int, way: int) -> int:
    """Children that share a word in loops over a dimension that the tensor lacks, below one level and above another."""
    sharing = 1
    for lv in range(above, child):
        on_x, on_y = counted(c, lv, d, t, above, way, ALL)
        sharing *= (1 if on_x else node.mapping.x[0, lv, d]) * (1 if on_y else node.mapping.y[0, lv, d])
    return sharing


@jit
def share_left(problem: SearchProblem, node: SearchNode, child: int, t: int, above: int) -> float:
    """Share of the words into tiles inside one of level `child` that networks between this and another level leave.

    Loops in between make fewer steps in the last tile.
    """
    c, shapes, s = problem.c, problem.shapes, node.s
    way, share = SHARED_UP if t == c.output[0] else SHARED_DOWN, 1.0
    for network in range(above, child):
        share *= network_share(s, network, t, UP if way == SHARED_UP else DOWN)
    for lv in range(child):
        for d in range(c.relevant.shape[1]):
            node.free[lv, d] = True
    for d in range(c.relevant.shape[1]):
        passes = shapes.passes[d, node.tile[child, d]]
        if shapes.ragged[d] and not c.relevant[t, d] and passes > 1:
            first, before = turns(c, node, d, child, t, above, way, passes), passes - 1
            most = turns(c, node, d, child, t, above, way, before)
            share *= float(first) / float(passes) if most == first else float(most) / float(before)
            share *= float(_sharing(c, node, d, child, t, above, way))
    return share


@inline
def _pass_at_least(c: Constants, node: SearchNode, child: int, lv: int, t: int, words: float) -> None:
    """Note so many elements between all instances of a level and the network below them."""
    s = node.s
    part = float(min(c.word_parts[lv, t, 0], c.word_parts[lv, t, 1]))
    node.passing[child, lv] += int(words / float(s.level[lv, USED]) * part * (1.0 - SURE))


@inline
def _charge_at_least(
    c: Constants, node: SearchNode, child: int, lv: int, t: int, partial: int, words: float, action: int, ports: bool
) -> float:
    """Energy of moving so many elements at all instances of a level; with `ports` they pass those of an average one."""
    s = node.s
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
