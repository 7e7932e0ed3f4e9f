"""Branch and bound over mappings from the outside in, guided by the cost-to-go tables; compiled.

A node's cost of everything outside is exact, and the tables bound the rest from below. Axis letters as in node.
"""

from __future__ import annotations

import numpy as np

from accelsim.model.detail import DOWN, PARTS_APART, TILE, UP, USED
from accelsim.model.encode import UNLIMITED, Constants
from accelsim.model.jit import inline, jit
from accelsim.model.records import Floats1, Ints1, Ints2
from accelsim.search.exact.estimate_kernel import (
    AROUND,
    ONE,
    WITHIN_TILE,
    bound_of,
    list_entries,
    mixed_by_innermost,
    passes,
    passing_spreads,
    settle,
    settled_energy,
    weighed,
)
from accelsim.search.exact.incumbents import ANY, Goal, Incumbents
from accelsim.search.exact.least_remainders_kernel import share_left
from accelsim.search.exact.memo_kernel import Memo, beaten_before
from accelsim.search.exact.node import SearchNode, SearchProblem
from accelsim.search.exact.node_kernel import (
    BEGUN,
    CHOICE,
    GROUP,
    OPTION,
    OPTION_END,
    ORDER,
    ORDER_END,
    OUTERMOST,
    ROOT,
    ROUTE,
    RUN,
    RUN_END,
    begin_root,
    first_of_run,
    flow,
    lay_block,
    lay_bounds,
    lay_sizes,
    list_run,
    loops_that_rest,
    mix_statuses,
    next_mid,
    outermost_dims,
    place,
    products_allowed,
    shape_of,
    spread_over,
    step_mid,
)
from accelsim.search.exact.windows_kernel import passes_window
from accelsim.search.value_kernel import value_of

TIME, SPACE = 0, 1
FIRST: np.bool_ = np.bool_(True)
FURTHER: np.bool_ = np.bool_(False)
LAST = 1 << 30


@jit
def next_block(problem: SearchProblem, goal: Goal, found: Incumbents, node: SearchNode, level: int) -> bool:
    """Go to the next temporal block of a level that may lead to something better."""
    shapes, g = problem.shapes, problem.g
    all_orders = g.every_orders.shape[0] > 0
    by_innermost = level > 0 and goal.energy_only[0] and g.spreads[level] == 1
    while True:
        row = node.cursor[level, ORDER]
        if row < 0:
            begin = node.cursor[level, BEGUN] == 0
            node.cursor[level, BEGUN] = 1
            if level == 0 and not begin:
                return False
            if by_innermost:
                mask = _next_affordable(problem, goal, found, node, level, begin)
                if mask < 0:
                    return False
            else:
                if level > 0 and not next_mid(problem, node, level, begin):
                    return False
                node.mix[0], node.mix_weight[0] = g.still[level], 1.0
                mask = lay_bounds(shapes, node, level)
                found.tally[0] += 1
                shape = shape_of(shapes, node.mid[level])
                if not passes(goal, found, bound_of(problem, goal, found, node, level, AROUND, shape, ONE)):
                    continue
            candidates = mask | loops_that_rest(problem, node, level)
            node.cursor[level, ORDER] = g.order_first[level, candidates]
            node.cursor[level, ORDER_END] = g.order_first[level, candidates + 1]
            if all_orders:  # look at all if one that can be best passes
                any_passes = False
                for one in range(g.order_first[level, candidates], g.order_first[level, candidates + 1]):
                    any_passes |= passes(goal, found, _block_bound(problem, goal, found, node, level, one, g.orders))
                    if any_passes:
                        break
                if not any_passes:
                    node.cursor[level, ORDER] = -1
                    continue
                node.cursor[level, ORDER] = g.every_first[level, mask]
                node.cursor[level, ORDER_END] = g.every_first[level, mask + 1]
            continue
        if row >= node.cursor[level, ORDER_END]:
            node.cursor[level, ORDER] = -1
            continue
        node.cursor[level, ORDER] = row + 1
        orders = g.every_orders if all_orders else g.orders
        if by_innermost and not all_orders:
            d = _loop_at_end(node, level, orders[row], -1)
            if d >= 0 and not passes(goal, found, node.by_innermost[level, d]):
                continue
        d = _loop_at_end(node, level, orders[row], 1)
        if d >= 0 and not node.cursor[level, OUTERMOST] >> d & 1:
            continue
        if passes(goal, found, _block_bound(problem, goal, found, node, level, row, orders)):
            node.spreads[level, AROUND] = passing_spreads(goal, found, g, node, level)
            return True


@inline
def _loop_at_end(node: SearchNode, level: int, order: Ints1, step: int) -> int:
    """Dimension of the outermost loop of a block (step 1), or of the innermost (-1), in some order; -1: none."""
    temporal = node.mapping.temporal[0, level]
    dims = temporal.shape[0]
    j = 0 if step > 0 else dims - 1
    while 0 <= j < dims and temporal[order[j]] == 1:
        j += step
    return int(order[j]) if 0 <= j < dims else -1


@jit
def _next_affordable(
    problem: SearchProblem, goal: Goal, found: Incumbents, node: SearchNode, level: int, begin: bool
) -> int:
    """From the shape around the network of a level go to the next that the table of energy does not rule out.

    Returns
    -------
    int
        Which dimensions have a loop in the block then, as bits; -1 if no shape is left.
    """
    shapes, g = problem.shapes, problem.g
    cursor, mid, by_innermost = node.cursor[level], node.mid[level], node.by_innermost[level]
    settled, may_begin = settled_energy(problem, node, level), cursor[OUTERMOST]
    entries, ends = list_entries(g, node, level), first_of_run(shapes, node)
    if begin:
        cursor[RUN], cursor[RUN_END] = 0, list_run(problem, node, level, ends)
        if cursor[RUN_END] == 0 or not step_mid(problem, node, level, ends, True):
            return -1
    while True:
        outer, outer_loops = lay_sizes(shapes, node, level, ends)
        while cursor[RUN] < cursor[RUN_END]:
            at, loops = node.run[level, cursor[RUN], 0], outer_loops | node.run[level, cursor[RUN], 1]
            cursor[RUN] += 1
            if may_begin & loops == 0 and loops != 0:
                continue
            found.tally[0] += 1
            shape = outer + at
            energy = settled + weighed(g, node, shape, 0, entries)
            if not passes(goal, found, value_of(goal.terms, energy, 0.0, 0.0, 0.0) if energy < np.inf else energy):
                continue
            for d in range(ends, mid.shape[0]):
                mid[d] = at // shapes.stride[d]
                at -= mid[d] * shapes.stride[d]
            if not products_allowed(problem, node, level):
                continue
            least = np.inf
            if lay_bounds(shapes, node, level) == 0:
                return 0
            mixed_by_innermost(problem, node, level, loops, shape, entries)
            for d in range(by_innermost.shape[0]):
                energy = settled + by_innermost[d]
                value = value_of(goal.terms, energy, 0.0, 0.0, 0.0) if energy < np.inf else np.inf
                by_innermost[d], least = value, min(least, value)
            if passes(goal, found, least):
                return int(loops)
        cursor[RUN] = 0
        if not step_mid(problem, node, level, ends, False):
            return -1


@jit
def _block_bound(
    problem: SearchProblem, goal: Goal, found: Incumbents, node: SearchNode, level: int, row: int, orders: Ints2
) -> float:
    """Put the loops of a block in order and bound what may follow; infinite if nothing can be of use."""
    shapes = problem.shapes
    if not lay_block(problem, node, level, row, orders):
        return np.inf
    found.tally[0] += 1
    pieces = mix_statuses(problem, node, level, AROUND)
    shape = shape_of(shapes, node.mid[level])
    return float(bound_of(problem, goal, found, node, level, AROUND, shape, pieces))


@inline
def _next_group(problem: SearchProblem, node: SearchNode, level: int) -> bool:
    """Go to the next options that spread alike: one after the other, or those that lead to the next tile."""
    shapes, g = problem.shapes, problem.g
    cursor = node.cursor[level]
    cursor[ROUTE] += 1
    if not shapes.leaves_any[0] or cursor[GROUP] < 0 or not _find_route(problem, node, level):
        cursor[GROUP] += 1
        cursor[ROUTE] = 0
        group = g.group_first[level] + cursor[GROUP]
        if group >= g.group_first[level + 1]:
            return False
        if not g.by_tile[level]:
            cursor[OPTION] = g.option_first[level] + cursor[GROUP]
            cursor[OPTION_END] = cursor[OPTION] + 1
            return True
        if not _find_route(problem, node, level):
            cursor[OPTION], cursor[OPTION_END] = 0, 0
    return True


@inline
def _find_route(problem: SearchProblem, node: SearchNode, level: int) -> bool:
    """Find the options that lead to a tile by one of the ways there are, number ROUTE; False if there is none."""
    shapes, g = problem.shapes, problem.g
    cursor = node.cursor[level]
    rest, number, spread = g.tiles[g.group_first[level] + cursor[GROUP]], cursor[ROUTE], 0
    for d in range(shapes.sizes.shape[0]):
        ways = shapes.route[d, node.mid[level, d], rest // shapes.stride[d]]
        rest %= shapes.stride[d]
        many = 0
        while many < ways.shape[0] and ways[many] >= 0:
            many += 1
        if many == 0:
            return False
        spread += ways[number % many] * shapes.spread_stride[d]
        number //= many
    if number > 0:
        return False
    cursor[OPTION], cursor[OPTION_END] = g.option_of[level, spread], g.option_of[level, spread + 1]
    return True


@jit
def next_spread(
    problem: SearchProblem, goal: Goal, found: Incumbents, node: SearchNode, memo: Memo, level: int
) -> bool:
    """Go to the next way to spread and to keep that may lead to something better."""
    c, shapes, g, s = problem.c, problem.shapes, problem.g, node.s
    levels, tensors = c.fanout.shape[0], c.whole.shape[0]
    innermost = level == levels - 1
    keep, cursor = node.mapping.keep[0], node.cursor[level]
    choices = 1 if innermost else g.keep_first[level + 2] - g.keep_first[level + 1]
    while True:
        cursor[CHOICE] += 1
        choice = cursor[CHOICE]
        if choice >= choices:
            choice, cursor[CHOICE] = 0, 0
            cursor[OPTION] += 1
            while cursor[OPTION] >= cursor[OPTION_END]:
                node.many_failed[level] = 0
                if not _next_group(problem, node, level):
                    return False
            leads = False
            for b in range(g.spreads[level + 1]):
                leads |= node.spreads[level, AROUND] >> g.option_spreads[cursor[OPTION], b] & 1 == 1
            if not leads or not spread_over(problem, node, level, cursor[OPTION]):
                cursor[CHOICE] = choices
                continue
        shape = shape_of(shapes, node.tile[level + 1])
        if not innermost:
            k = g.keep_first[level + 1] + choice
            if not g.fits[k, shape] or not _may_keep(problem, node, level + 1, k):
                continue
            node.held[level + 1] = node.held[level] if c.nodes[level + 1, 0] <= level else 0
            node.tight[level + 1] = not g.wide[k, shape] if g.keeps[k, c.output[0]] else node.tight[level]
            for t in range(tensors):
                keep[level + 1, t] = g.keeps[k, t]
                node.parent[level + 1, t] = level + 1 if g.keeps[k, t] else node.parent[level, t]
                node.share[level + 1, t] = 1.0
                if not g.keeps[k, t] and shapes.leaves_any[0]:
                    node.share[level + 1, t] = share_left(problem, node, level + 1, t, node.parent[level, t])
                elif not g.keeps[k, t]:
                    groups = s.at[level, t, UP if t == c.output[0] else DOWN]
                    share = float(groups * s.level[level, USED]) / float(s.level[level + 1, USED])
                    node.share[level + 1, t] = node.share[level, t] * share
                else:
                    s.at[level + 1, t, TILE] = shapes.box[t, shape]
                    node.held[level + 1] += shapes.box[t, shape] * c.word_parts[level + 1, t, 0]
            known = c.two_widths[0] and not shapes.leaves_any[0] and not c.windowed[c.output[0]]
            if known and c.nodes[node.parent[level + 1, c.output[0]], 1] > level + 1:
                node.tight[level + 1] |= sums_do_not_fit(c, node, level + 1)
            if node.held[level + 1] > c.capacity[level + 1] and c.capacity[level + 1] != UNLIMITED:
                continue
            if node.tight[level + 1] and g.keeps[k, c.output[0]] and s.level[level + 1, PARTS_APART] > 1:
                continue  # what the instances hold are partial sums, for which there is no room
        if not innermost and _shares_less(c, node, level, choice):
            continue
        found.tally[0] += 1
        if not flow(problem, node, level + 1):
            continue
        if innermost:
            return True
        if not place(problem, node, level + 1):
            continue
        pieces = node.within_sets[level]
        for k in range(pieces):
            node.mix[k], node.mix_weight[k] = node.within[level, k], node.within_weight[level, k]
        if pieces == 0:
            pieces = mix_statuses(problem, node, level, WITHIN_TILE)
        if passes(goal, found, bound_of(problem, goal, found, node, level + 1, WITHIN_TILE, shape, pieces)):
            if memo.level.shape[0] > 0 and beaten_before(problem, memo, node, level + 1, shape):
                continue
            node.spreads[level + 1, WITHIN_TILE] = passing_spreads(goal, found, g, node, level + 1)
            return True
        if goal.energy_only[0] and not shapes.leaves_any[0]:
            _note_failed(c, node, level, choice)


@inline
def sums_do_not_fit(c: Constants, node: SearchNode, level: int) -> bool:
    """Whether partial sums have no room beside what the nodes of a level hold so far; one of them keeps the output."""
    s = node.s
    output, parent = c.output[0], node.parent[level, c.output[0]]
    parts = c.word_parts[parent, output, 1] - c.word_parts[parent, output, 0]
    return bool(
        c.capacity[level] != UNLIMITED and node.held[level] + s.at[parent, output, TILE] * parts > c.capacity[level]
    )


@inline
def _may_keep(problem: SearchProblem, node: SearchNode, level: int, k: int) -> bool:
    """Whether a storage node may keep some tensors: none twice, at last all that must be.

    See docs/papers/exact-mapper.md, section 7.
    It keeps some only after loops of the node before, and of these none that could stand further out as well.
    """
    c, g = problem.c, problem.g
    first, end = c.nodes[level, 0], c.nodes[level, 1]
    chosen, room = 0, g.merges[1]
    for t in range(c.whole.shape[0]):
        chosen += g.keeps[k, t]
    last = level == end - 1 or (chosen == 0 and level > first)  # none follows a node that keeps nothing
    for t in range(c.whole.shape[0] if end - first > 1 else 0):
        kept = node.parent[level - 1, t] >= first
        if g.keeps[k, t] and kept:
            return False
        if last and g.required[end - 1, t] and not (kept or g.keeps[k, t]):
            return False
        room |= node.mapping.keep[0, first, t]
    if end - first == 1 or chosen == 0 or level == first:
        return True
    for t in range(c.whole.shape[0]):
        if g.keeps[k, t] and _stands_further_out(problem, node, level - 1, t, chosen > 1, room):
            return False
    return True


@inline
def _stands_further_out(
    problem: SearchProblem, node: SearchNode, level: int, t: int, several: bool, room: bool
) -> bool:
    """Whether a tensor's node inside a block is as good further out in it, or the block has no loop.

    It is where the innermost loops do not move the tensor. If the node keeps no other one, these loops join the next
    block, by which those of a window may lose. If it keeps `several`, there must be `room` for a node more.
    """
    c, shapes, g = problem.c, problem.shapes, problem.g
    loops = 0
    window = False
    idle = True
    for j in range(c.relevant.shape[1] - 1, -1, -1):
        d = node.mapping.order[0, level, j]
        if node.mapping.temporal[0, level, d] > 1:
            if loops == 0 and c.relevant[t, d]:
                return False
            loops += 1
            idle &= not c.relevant[t, d]
            if idle and g.partner[d] >= 0:
                apart = g.merges[2] and c.relevant[t, g.partner[d]]
                window |= not apart or passes_window(g.partner, shapes.sizes, node.tile[level + 1], d)
    return loops == 0 or (g.merges[0] and (room if several else not window))


@inline
def _note_failed(c: Constants, node: SearchNode, level: int, choice: int) -> None:
    """Note how a tile that leads to nothing is spread: what shares no more leads to nothing either."""
    s = node.s
    at, tensors = node.many_failed[level], c.whole.shape[0]
    if at == node.failed.shape[1] or c.links[level] or c.hop[level].any():  # which may cost less where less is shared
        return
    for t in range(tensors):
        node.failed[level, at, 2 * t], node.failed[level, at, 2 * t + 1] = s.at[level, t, DOWN], s.at[level, t, UP]
    node.failed[level, at, 2 * tensors] = choice
    node.many_failed[level] = at + 1


@inline
def _shares_less(c: Constants, node: SearchNode, level: int, choice: int) -> bool:
    """Whether the same tile, kept alike, led to nothing with as many children or more sharing each tensor."""
    s = node.s
    tensors = c.whole.shape[0]
    for at in range(node.many_failed[level]):
        failed = node.failed[level, at]
        less = failed[2 * tensors] == choice
        for t in range(tensors):
            less &= s.at[level, t, DOWN] >= failed[2 * t] and s.at[level, t, UP] >= failed[2 * t + 1]
        if less:
            return True
    return False


@jit
def root_bounds(
    problem: SearchProblem, goal: Goal, found: Incumbents, node: SearchNode, begin: Ints1, bounds: Floats1
) -> int:
    """Bound each tile shape around the outermost network; returns how many can lead to anything."""
    shapes, g = problem.shapes, problem.g
    begin_root(problem, node)
    settled = settled_energy(problem, node, ROOT)
    count, first, least = 0, FIRST, np.inf
    while next_mid(problem, node, ROOT, first):
        first = FURTHER
        shape = shape_of(shapes, node.mid[0])
        node.mix[0], node.mix_weight[0] = g.still[0], 1.0
        found.tally[0] += 1
        bound, mask = np.inf, lay_bounds(shapes, node, ROOT)
        if bound_of(problem, goal, found, node, ROOT, AROUND, shape, ONE) == np.inf:
            continue
        quick = -np.inf
        if goal.energy_only[0] and g.spreads[ROOT] == 1 and mask != 0:
            quick = settled + mixed_by_innermost(problem, node, ROOT, mask, shape, list_entries(g, node, ROOT))
            quick = value_of(goal.terms, max(quick, goal.floor[0]), 0.0, 0.0, 0.0) if quick < np.inf else np.inf
        if quick < least:
            candidates = mask | loops_that_rest(problem, node, ROOT)
            for row in range(g.order_first[0, candidates], g.order_first[0, candidates + 1]):
                bound = min(bound, _block_bound(problem, goal, found, node, ROOT, row, g.orders))
            least = min(least, bound)
        else:  # its orders need not be looked at yet
            bound = quick
        if bound < np.inf:
            begin[count], bounds[count] = shape, bound
            count += 1
    return count


@inline
def _ends(goal: Goal, found: Incumbents, stop: Ints1) -> bool:
    """Whether a search ends before it has looked through everything."""
    found_any = goal.kind[0] == ANY and found.many[0] > 0
    return bool(stop[0] != 0 or found.tally[0] > stop[1] or found.tally[4] != 0 or found_any)


@jit
def _look_inside(
    problem: SearchProblem, goal: Goal, found: Incumbents, node: SearchNode, memo: Memo, stop: Ints1
) -> bool:
    """Look through everything inside a shape around the outermost network; False if that ended early."""
    c = problem.c
    levels, level, phase = c.fanout.shape[0], ROOT, TIME
    while level >= 0 and not _ends(goal, found, stop):
        if phase == TIME:
            if next_block(problem, goal, found, node, level):
                phase = SPACE
                node.cursor[level, GROUP], node.cursor[level, CHOICE] = -1, LAST
                node.cursor[level, OPTION], node.cursor[level, OPTION_END] = 0, 0
            else:
                level -= 1
                phase = SPACE
        elif not next_spread(problem, goal, found, node, memo, level):
            phase = TIME
        elif level == levels - 1:
            settle(problem, goal, found, node)
        else:
            level += 1
            phase = TIME
            node.cursor[level, ORDER], node.cursor[level, BEGUN] = -1, 0
            node.cursor[level, OUTERMOST] = outermost_dims(problem, node, level)
    return bool(level < 0)


@jit
def explore(
    problem: SearchProblem,
    goal: Goal,
    found: Incumbents,
    node: SearchNode,
    memo: Memo,
    begin: Ints1,
    bounds: Floats1,
    stop: Ints1,
) -> None:
    """Look through everything inside some shapes around the outermost network.

    Parameters
    ----------
    begin : int64[*]
        The shapes.
    bounds : float64[*]
        Their bounds.
    stop : int64[2]
        The first ends it when not 0, the second after so many nodes.
    """
    shapes = problem.shapes
    dims = shapes.sizes.shape[0]
    begin_root(problem, node)
    for root in range(begin.shape[0]):
        if _ends(goal, found, stop):
            found.open[0] = min(found.open[0], bounds[root])
            continue
        if not passes(goal, found, bounds[root]):
            continue
        rest = begin[root]
        for d in range(dims):
            node.mid[0, d] = rest // shapes.stride[d]
            rest -= node.mid[0, d] * shapes.stride[d]
        node.cursor[0, ORDER], node.cursor[0, BEGUN] = -1, 0
        if not _look_inside(problem, goal, found, node, memo, stop):
            found.open[0] = min(found.open[0], bounds[root])
