"""A node of the search: loops, spatial bounds and tiles of the outer levels, and exactly what these cost; compiled.

The loops, spatial bounds and tiles of the levels outside a boundary determine all traffic into it, so a node carries
the exact cost of everything outside. Axis letters: L = levels (outermost first), D = dimensions, T = tensors,
N = divisors, Q = statuses, B = spreads, S = shapes, O = options, P = pieces.
"""

from __future__ import annotations

import numpy as np

from accelsim.model.detail import (
    BEFORE,
    DOWN,
    FILLS,
    GIVERS,
    INSIDE,
    LEAVING,
    LINKED,
    LOOPS,
    PARTIAL,
    PARTS_APART,
    READ,
    READS,
    SPREAD,
    STEPS,
    TILE,
    TRIPS,
    UP,
    UPDATES,
    USED,
    VISITS,
    WRITTEN,
    Detail,
)
from accelsim.model.dma import count_moves
from accelsim.model.encode import (
    ALL_OVERLAP,
    BY_READ,
    BY_RETURN,
    BY_TRANSFER,
    BY_UPDATE,
    BY_WRITE,
    TIME,
    UNLIMITED,
    Constants,
)
from accelsim.model.fills import waiting_cycles
from accelsim.model.jit import inline, jit
from accelsim.model.links import link_transfers, mesh_energy
from accelsim.model.records import Ints1, Ints2
from accelsim.model.windows import distinct, seen_windows, tiles_into, words_into
from accelsim.search.exact.blocks import grain_of, reach_of, way_on
from accelsim.search.exact.least_remainders_kernel import flow_at_least
from accelsim.search.exact.node import SearchNode, SearchProblem
from accelsim.search.exact.orders import CARRY_ON, FETCH, HALO_REUSE, NONE, STATIONARY, STOP, UNDECIDED
from accelsim.search.exact.shapes import Shapes

ROOT = np.int64(0)
"""The outermost level; functions would compile anew for each plain integer."""
ORDER, ORDER_END, BEGUN, GROUP, OPTION, OPTION_END, CHOICE, ROUTE, OUTERMOST, RUN, RUN_END = range(11)


@jit
def mix_statuses(problem: SearchProblem, node: SearchNode, level: int, within: int) -> int:
    """Statuses that the loops outside a network give the tensors, and their shares; returns how many sets there are.

    Numbers are those of the table around the network of `level`, or (`within`) at the tiles of the next level. Around,
    those at all these tiles are noted too, in `SearchNode.within`, unless they depend on how far a tile reaches.
    """
    c, shapes, g, s = problem.c, problem.shapes, problem.g, node.s
    temporal, order = node.mapping.temporal[0], node.mapping.order[0]
    tensors, dims = c.relevant.shape
    reaches = within != 0 or level + 1 == c.fanout.shape[0]
    for t in range(tensors):
        windowed = t == g.window[0]
        inside, passes, found = 1.0, 1.0, False
        rank, back, step, slides, reach, grain, done, n, slid = 0, 0, 0, NONE, 0, 1, False, 0, 0
        end = 0.0
        for lv in range(level, -1, -1):
            for j in range(s.level[lv, LOOPS] - 1, -1, -1):
                d = order[lv, j]
                bound = float(temporal[lv, d])
                if not found:
                    if not c.relevant[t, d]:
                        inside *= bound
                        continue
                    found = True
                    if not windowed or g.partner[d] < 0:
                        done = True
                        break
                    end = 1.0 - 1.0 / inside
                    if inside > 1.0:
                        node.piece[t, n], node.piece_end[t, n] = STATIONARY, end
                        n += 1
                    rank = c.rank[t, d]
                    step = c.factor[t, d] * shapes.size[d, node.mid[lv, d]]
                    back = (temporal[lv, d] - 1) * step
                    other = g.partner[d]
                    sizes = node.tile[level + 1] if within else node.mid[level]
                    inner, outer = c.factor[t, d], c.factor[t, other]
                    low, high = shapes.size[d, sizes[d]], shapes.size[other, sizes[other]]
                    reach, grain = reach_of(inner, low, outer, high), grain_of(inner, low, outer, high)
                    passes = 1.0 / (inside * bound)
                    end = 1.0 - passes
                    slides = HALO_REUSE + d
                    node.piece[t, n], node.piece_end[t, n] = slides, end
                    n += 1
                    slid = n
                    continue
                share = passes * (1.0 - 1.0 / bound)
                status = NONE
                if c.relevant[t, d]:
                    if c.rank[t, d] != rank:
                        done = True
                        break
                    far = c.factor[t, d] * shapes.size[d, node.mid[lv, d]]
                    way = way_on(far - back, step, reach, grain)
                    reaches |= far > back and way != CARRY_ON
                    if way != FETCH:
                        status = STATIONARY if way == STOP else slides if way == CARRY_ON else UNDECIDED
                    back += (temporal[lv, d] - 1) * far
                if status != NONE and n < node.piece.shape[1] - 1:
                    end += share
                    node.piece[t, n], node.piece_end[t, n] = status, end
                    n += 1
                passes /= bound
            if done:
                break
        if n == 0 and inside > 1.0:
            node.piece[t, 0], node.piece_end[t, 0] = STATIONARY, 1.0 - 1.0 / inside
            n = 1
        if n > 0 and n == slid and g.whole[slides - HALO_REUSE]:
            n -= 1  # all further steps begin a pass
            node.piece[t, n] = slides + dims
        else:
            node.piece[t, n] = NONE
        node.piece_end[t, n], node.pieces[t] = 1.0, 0
    start, sets = 0.0, 0
    radix = HALO_REUSE + 2 * dims
    while start < 1.0:
        end, code = 1.0, 0
        for t in range(tensors):
            end = min(end, node.piece_end[t, node.pieces[t]])
            code = code * radix + node.piece[t, node.pieces[t]]
        if end > start:
            node.mix[sets], node.mix_weight[sets] = g.status[within, level + within, code], end - start
            if not reaches:
                node.within[level, sets], node.within_weight[level, sets] = g.status[1, level + 1, code], end - start
            sets += 1
        for t in range(tensors):
            while node.piece_end[t, node.pieces[t]] <= end and node.piece_end[t, node.pieces[t]] < 1.0:
                node.pieces[t] += 1
        start = end
    if not within:
        node.within_sets[level] = 0 if reaches else sets
    return sets


@jit
def place(problem: SearchProblem, node: SearchNode, level: int) -> bool:
    """Contexts at a boundary and their weights, from parents and shares of reads; False if the tables have none."""
    c, g, s = problem.c, problem.g, node.s
    tensors, levels, room = c.whole.shape[0], c.fanout.shape[0], 0
    held, parent = node.held[level], node.parent[level, c.output[0]]
    if not node.tight[level] and c.nodes[parent, 0] == c.nodes[level, 0]:
        held += s.at[parent, c.output[0], TILE] * g.sums[level]
    while room + 1 < g.rooms.shape[1] and g.rooms[level, room + 1] <= held:
        room += 1
    for t in range(tensors):
        least = g.least[level, node.parent[level, t], t]
        node.lower[t] = (1.0 - node.share[level, t]) / (1.0 - least) if least < 1.0 else 0.0
    for way in range(node.context.shape[1]):
        weight, code = 1.0, 0
        for t in range(tensors):
            low = way >> t & 1
            weight *= node.lower[t] if low else 1.0 - node.lower[t]
            code = (code * levels + c.nodes[node.parent[level, t], 0]) * 2 + low
        node.weight[level, way], node.context[level, way] = weight, 0
        if weight > 0.0:
            first = g.context[level, 2 * code + node.tight[level]]
            if first < 0 or g.in_room[level, first, room] < 0:
                return False
            node.context[level, way] = g.in_room[level, first, room]
    return True


@inline
def _charge(c: Constants, s: Detail, lv: int, t: int, words: int, part: int, action: int) -> float:
    """Energy of moving so many elements at each instance of a level."""
    accesses = float(-(-words * part // c.block[lv])) * float(s.level[lv, USED])
    return float(accesses * c.energy[lv, t, action])


@jit
def flow(problem: SearchProblem, node: SearchNode, child: int) -> bool:
    """Add all traffic into the tiles of a level (or into the compute units) to the node; False if psums do not fit."""
    c, shapes, s = problem.c, problem.shapes, node.s
    if shapes.leaves_any[0]:
        return bool(flow_at_least(problem, node, child))
    levels, tensors = c.fanout.shape[0], c.whole.shape[0]
    m = node.mapping
    temporal, keep = m.temporal[0], m.keep[0]
    energy = node.energy[child - 1]
    for lv in range(levels):
        node.read[child, lv], node.written[child, lv] = node.read[child - 1, lv], node.written[child - 1, lv]
        node.passing[child, lv] = node.passing[child - 1, lv]
    for t in range(tensors):
        above = node.parent[child - 1, t]
        if child < levels and not keep[child, t]:
            continue
        words = s.level[levels, STEPS] if child == levels else words_into(c, m, 0, s, child, t)
        down = words
        if t != c.output[0]:
            linked, groups = 0, 0
            if child < levels and c.links[c.nodes[child, 0] - 1]:
                groups = link_transfers(c, m, 0, s, child, t)
                linked = s.at[child, t, LINKED]
                node.linked[child, t], node.givers[child, t] = linked, s.at[child, t, GIVERS]
            for lv in range(child - 1, above - 1, -1):
                energy += float(down) * float(s.level[lv + 1, USED]) * c.energy[lv, t, BY_TRANSFER]
                energy += mesh_energy(c, s, m, 0, lv, t, down, 0)
                if s.level[lv + 1, USED] > s.level[lv, USED]:
                    down = down * s.at[lv, t, DOWN] - linked * (s.at[lv, t, DOWN] - groups)
                    linked = 0
                node.passing[child, lv] += down * c.word_parts[lv, t, 0]
            part = c.word_parts[above, t, 0]
            energy += _charge(c, s, above, t, down, part, BY_READ)
            if above > 0 and c.links[c.nodes[above, 0] - 1] and node.linked[above, t] > 0:
                givers = float(node.givers[above, t]) / float(s.level[above, USED])
                more = _charge(c, s, above, t, down + node.linked[above, t], part, BY_READ)
                energy += givers * (more - _charge(c, s, above, t, down, part, BY_READ))
                down += node.linked[above, t]
            node.read[child, c.nodes[above, 0]] += down * part
            if child < levels:
                s.at[above, t, READS], s.at[child, t, FILLS] = down, words
                if c.windowed[t] and c.latency.any():
                    s.at[child, t, TRIPS] = tiles_into(c, m, 0, s, child, t)
                part = c.word_parts[child, t, 0]
                energy += _charge(c, s, child, t, words, part, BY_WRITE)
                node.written[child, c.nodes[child, 0]] += words * part
            continue
        up = words
        if c.windowed[t]:
            seen = seen_windows(c, temporal, s, child, child, t)
        else:
            seen = s.level[child, VISITS] * (1 if child == levels else s.at[child, t, TILE])
        down = up - seen
        node.fills[child, t], node.moved[child, t] = down, up
        for lv in range(child - 1, above - 1, -1):
            across = float(up) * c.energy[lv, t, BY_TRANSFER] + float(down) * c.energy[lv, t, BY_RETURN]
            energy += across * float(s.level[lv + 1, USED]) + mesh_energy(c, s, m, 0, lv, t, up, down)
            down *= s.at[lv, t, DOWN]
            up *= s.at[lv, t, UP]
            node.passing[child, lv] += (up + down) * min(c.word_parts[lv, t, 0], c.word_parts[lv, t, 1])
            for d in range(c.relevant.shape[1]):
                seen *= s.place[lv, d, SPREAD] if c.relevant[t, d] else 1
        if c.windowed[t]:
            seen = seen_windows(c, temporal, s, child, above, t)
        reads = up - seen
        partial = int(reads > 0 or s.level[above, PARTS_APART] > 1)
        part = c.word_parts[above, t, partial]
        fills = node.fills[above, t] if above > 0 else 0
        if above > 0 and c.drain[above]:
            reads += node.moved[above, t]
        energy += _charge(c, s, above, t, reads, part, BY_READ) + _charge(c, s, above, t, up, part, BY_UPDATE)
        if above > 0:
            energy += _charge(c, s, above, t, fills, part, BY_WRITE) - node.charged[above, t]
        node.read[child, c.nodes[above, 0]] += reads * part
        node.written[child, c.nodes[above, 0]] += (fills + up) * part
        if child < levels:
            s.at[above, t, READS], s.at[above, t, UPDATES], s.at[above, t, PARTIAL] = reads, up, partial
            s.at[child, t, FILLS], s.at[child, t, PARTIAL] = node.fills[child, t], 0  # at least: as if finished
            s.level[above, LEAVING], s.level[child, LEAVING] = node.moved[above, t], node.moved[child, t]
            part = min(c.word_parts[child, t, 0], c.word_parts[child, t, 1])
            node.charged[child, t] = _charge(c, s, child, t, node.fills[child, t], part, BY_WRITE)
            if c.drain[child]:  # not rounded up: drained words share accesses with the reads that are not known yet
                drained = float(node.moved[child, t] * part) / float(c.block[child])
                node.charged[child, t] += drained * float(s.level[child, USED]) * c.energy[child, t, BY_READ]
            energy += node.charged[child, t]
        if c.two_widths[0] and partial and c.capacity[above] != UNLIMITED:
            held = 0
            for u in range(tensors):
                if keep[above, u]:
                    held += s.at[above, u, TILE] * c.word_parts[above, u, partial if u == t else 0]
            if held > c.capacity[above]:
                return False
    node.energy[child], node.waits[child] = energy, node.waits[child - 1]
    for lv in range(levels):
        s.level[lv, READ], s.level[lv, WRITTEN] = 0, 0
    if child < levels and c.overlap[child] != ALL_OVERLAP:
        s.at[child, c.output[0], PARTIAL] = 1  # at most, for what leaves the ports
        waiting_cycles(c, s, keep, child)
    for lv in range(levels):
        node.waited[child, lv, 0] = node.waited[child - 1, lv, 0] - s.level[lv, READ]
        node.waited[child, lv, 1] = node.waited[child - 1, lv, 1] - s.level[lv, WRITTEN]
    if child < levels and c.overlap[child] != ALL_OVERLAP:
        s.at[child, c.output[0], PARTIAL] = 0
        node.waits[child] += waiting_cycles(c, s, keep, child)
    if child < levels and c.dma.shape[0] > 0:
        count_moves(c, s, keep, child)
    return True


@inline
def has_no_loops(problem: SearchProblem, node: SearchNode, level: int) -> bool:
    """Whether the block of a level or node is empty, as it stores nothing; docs/papers/exact-mapper.md, Lemma 29."""
    c, g = problem.c, problem.g
    keeps = c.nodes[level, 0] == level and (level == 0 or not g.merges[1])
    for t in range(c.whole.shape[0]):
        keeps |= node.mapping.keep[0, level, t]
    return not keeps


@inline
def outermost_dims(problem: SearchProblem, node: SearchNode, level: int) -> int:
    """Dimensions that the outermost loop of a level's block may be over, as bits.

    See docs/papers/exact-mapper.md, Lemma 32.
    All of them, but where the loop could as well stand in the block outside: it moves no tensor that the level keeps.
    """
    c, g, s = problem.c, problem.g, node.s
    if not g.merges[2] or level == 0 or c.nodes[level, 0] != level:
        return -1
    bits, seen, dims = 0, 0, c.relevant.shape[1]
    for t in range(c.whole.shape[0]):
        if node.mapping.keep[0, level, t]:
            if not g.merges[3]:
                return -1
            for d in range(dims):
                bits |= int(c.relevant[t, d]) << d
    for d in range(dims if s.level[level, USED] > s.level[level - 1, USED] else 0):
        bits |= int(g.partner[d] >= 0) << d
    for j in range(s.level[level - 1, LOOPS] - 1, -1, -1):
        d = node.mapping.order[0, level - 1, j]
        if g.partner[d] >= 0:
            bits |= (seen >> g.partner[d] & 1) << d
            seen |= 1 << d
        elif seen != 0 and not c.relevant[g.window[0], d]:
            bits |= 1 << d
    return bits


@inline
def next_mid(problem: SearchProblem, node: SearchNode, level: int, begin: bool) -> bool:
    """Go to the next tile shape around the network of a level that its loops may lead to."""
    while step_mid(problem, node, level, node.tile.shape[1], begin):
        begin = False
        if products_allowed(problem, node, level) and _may_begin(node, level):
            return True
    return False


@inline
def _may_begin(node: SearchNode, level: int) -> bool:
    """Whether the outermost loop of a temporal block may be over some dimension that has one."""
    may, loops = node.cursor[level, OUTERMOST], 0
    for d in range(node.tile.shape[1] if may != -1 else 0):
        loops |= int(node.tile[level, d] != node.mid[level, d]) << d
    return loops == 0 or loops & may != 0


@inline
def products_allowed(problem: SearchProblem, node: SearchNode, level: int) -> bool:
    """Whether the loops of a temporal block have the products that constraints ask for."""
    c, shapes = problem.c, problem.shapes
    for r in range(c.asked.shape[0]):
        if c.asked[r, 0] == level and c.asked[r, 1] == TIME:
            product = 1
            for d in range(shapes.sizes.shape[0]):
                if c.asked[r, 4 + d]:
                    product *= shapes.factor[d, shapes.over[d, node.tile[level, d], node.mid[level, d]]]
            if not c.asked[r, 2] <= product <= c.asked[r, 3]:
                return False
    return True


@inline
def step_mid(problem: SearchProblem, node: SearchNode, level: int, end: int, begin: bool) -> bool:
    """Go to the next sizes of the dimensions before `end` that loops may leave, in the order of shape numbers."""
    g = problem.g
    tile, mid, empty = node.tile[level], node.mid[level], has_no_loops(problem, node, level)
    for d in range(end - 1, -1, -1):
        if not begin:
            i = -1 if empty else g.next_size[level, d, tile[d], mid[d] + 1]
            if i >= 0:
                mid[d] = i
                return True
        mid[d] = tile[d] if empty else g.next_size[level, d, tile[d], 0]
        if mid[d] < 0:
            return False
    return begin


@inline
def first_of_run(shapes: Shapes, node: SearchNode) -> int:
    """First of the last dimensions, of which each level lists its sizes once: there is room for them together."""
    d = shapes.stride.shape[0]
    while d > 0 and shapes.stride[d - 1] * shapes.sizes[d - 1] <= node.run.shape[1]:
        d -= 1
    return int(d)


@inline
def list_run(problem: SearchProblem, node: SearchNode, level: int, start: int) -> int:
    """List the sizes of the dimensions from `start` on that loops may leave; returns how many there are."""
    shapes, g = problem.shapes, problem.g
    found, run, empty = 1, node.run[level], has_no_loops(problem, node, level)
    run[0, 0], run[0, 1] = 0, 0
    for d in range(shapes.stride.shape[0] - 1, start - 1, -1):
        tile, many = node.tile[level, d], 0
        least = tile if empty else g.next_size[level, d, tile, 0]
        i = least
        while i >= 0:
            for at in range(found if many > 0 else 0):
                run[many * found + at, 0] = run[at, 0] + i * shapes.stride[d]
                run[many * found + at, 1] = run[at, 1] | int(i != tile) << d
            many, i = many + 1, -1 if empty else g.next_size[level, d, tile, i + 1]
        for at in range(found):
            run[at, 0] += least * shapes.stride[d]
            run[at, 1] |= int(least != tile) << d
        found *= many
    return found


@inline
def lay_sizes(shapes: Shapes, node: SearchNode, level: int, end: int) -> tuple[int, int]:
    """What the dimensions before `end` add to the number of a shape, and which have a loop, as bits."""
    shape, loops = 0, 0
    for d in range(end):
        shape += node.mid[level, d] * shapes.stride[d]
        loops |= int(node.mid[level, d] != node.tile[level, d]) << d
    return shape, loops


@jit
def lay_block(problem: SearchProblem, node: SearchNode, level: int, row: int, orders: Ints2) -> bool:
    """Put the loops of a temporal block in order; False if that leads to no mapping.

    So it is where the order asks for loops to carry on, which do not, and where a loop moves the output before it is
    added up while its parent has no room for partial sums.
    """
    c, shapes, g, s = problem.c, problem.shapes, problem.g, node.s
    dims = shapes.sizes.shape[0]
    m = node.mapping
    inner, outer = orders[row, dims], orders[row, dims + 1]
    if inner >= 0:
        t = g.window[0]
        step = c.factor[t, inner] * shapes.size[inner, node.mid[level, inner]]
        far = c.factor[t, outer] * shapes.size[outer, node.mid[level, outer]]
        if far < (m.temporal[0, level, inner] - 1) * step:
            return False
    product, visits, loops = s.level[level, STEPS], s.level[level, VISITS], 0
    for j in range(dims):
        d = orders[row, j]
        m.order[0, level, j] = d
        bound = m.temporal[0, level, d]
        if bound > 1:
            if node.tight[level] and c.relevant[c.output[0], d] and product > visits:
                return False
            s.place[level, j, BEFORE] = product
            loops += 1
            product *= bound
            visits *= bound if c.relevant[c.output[0], d] else 1
    s.level[level, LOOPS] = loops
    s.level[level + 1, STEPS] = product
    s.level[level + 1, VISITS] = visits
    return True


@inline
def lay_bounds(shapes: Shapes, node: SearchNode, level: int) -> int:
    """Set the bounds of a temporal block; returns which dimensions have a loop, as bits."""
    mask = 0
    for d in range(shapes.sizes.shape[0]):
        bound = shapes.factor[d, shapes.over[d, node.tile[level, d], node.mid[level, d]]]
        node.mapping.temporal[0, level, d] = bound
        if bound > 1:
            mask |= 1 << d
    return mask


@inline
def loops_that_rest(problem: SearchProblem, node: SearchNode, level: int) -> int:
    """Which loops of a block may make one step in a pass, as bits that `CostTables.order_first` has.

    Of so many tiles inside a loop, the last pass takes those that full passes leave. It makes one step if that is one,
    or, at instances that are idle at last, if it is two (docs/papers/exact-mapper.md, Lemma 36).
    """
    shapes, g = problem.shapes, problem.g
    bits = 0
    for d in range(g.rests.shape[1]):
        bound = node.mapping.temporal[0, level, d]
        if bound > 1 and g.rests[level, d, 0] >= 0:
            last = (shapes.passes[d, node.mid[level, d]] - 1) % bound
            idle_at_last = g.rests[level, d, 1] > 0 and node.mid[level, d] > 0
            bits |= int(last == 0 or (last == 1 and idle_at_last)) << g.rests[level, d, 0]
    return bits


@inline
def shape_of(shapes: Shapes, digits: Ints1) -> int:
    """Shape number of divisor indices."""
    shape = 0
    for d in range(digits.shape[0]):
        shape += digits[d] * shapes.stride[d]
    return shape


@inline
def _least_loops(problem: SearchProblem, node: SearchNode, level: int, option: int, d: int) -> bool:
    """Whether the loops on both axes are the shortest ones for their numbers of passes."""
    shapes, g = problem.shapes, problem.g
    inner, y, x = shapes.passes[d, node.tile[level + 1, d]], g.option_y[option, d], g.option_x[option, d]
    middle = -(-inner // y)
    outer = -(-middle // x)
    return bool(y == -(-inner // middle) and x == -(-middle // outer))


@jit
def spread_over(problem: SearchProblem, node: SearchNode, level: int, option: int) -> bool:
    """Spread over the network below a level; False if the shape cannot."""
    c, shapes, g, s = problem.c, problem.shapes, problem.g, node.s
    dims, levels = shapes.sizes.shape[0], c.fanout.shape[0]
    m = node.mapping
    rest = g.tiles[g.group_first[level] + node.cursor[level, GROUP]]
    for d in range(dims):
        if g.by_tile[level]:
            index = rest // shapes.stride[d]
            rest %= shapes.stride[d]
        else:
            index = shapes.within[d, node.mid[level, d], g.option_place[option, d]]
        if index < 0 or (level == levels - 1 and index > 0):
            return False
        node.tile[level + 1, d] = index
        if shapes.ragged[d] and not _least_loops(problem, node, level, option, d):
            return False
    used, apart = s.level[level, USED], s.level[level, PARTS_APART]
    for d in range(dims):
        m.x[0, level, d], m.y[0, level, d] = g.option_x[option, d], g.option_y[option, d]
        spread = m.x[0, level, d] * m.y[0, level, d]
        s.place[level, d, SPREAD] = spread
        s.place[level + 1, d, INSIDE] = shapes.size[d, node.tile[level + 1, d]]
        used *= spread
        apart *= spread if c.reduces[d] else 1
    wider = used > s.level[level, USED]
    s.level[level + 1, USED], s.level[level + 1, PARTS_APART] = used, apart
    for t in range(c.whole.shape[0]):
        s.at[level, t, DOWN], s.at[level, t, UP] = 1, 1
        if wider:
            x, y = m.x[0], m.y[0]
            s.at[level, t, DOWN] = distinct(c, s, x, y, level, t, c.multicast[level, 0, t], c.multicast[level, 1, t])
            if t == c.output[0]:
                s.at[level, t, UP] = distinct(c, s, x, y, level, t, c.reduction[level, 0], c.reduction[level, 1])
    return True


@jit
def begin_root(problem: SearchProblem, node: SearchNode) -> None:
    """Set up the outermost tile, which is everything."""
    c, g, s = problem.c, problem.g, node.s
    levels, tensors = c.fanout.shape[0], c.whole.shape[0]
    node.energy[0] = g.start[0]
    for lv in range(levels):
        node.read[0, lv], node.written[0, lv], node.passing[0, lv] = 0, -c.already[lv], 0
    node.held[0], node.tight[0], node.spreads[0, 1] = 0, False, -1
    for t in range(tensors):
        node.parent[0, t], node.share[0, t] = 0, 1.0
        node.mapping.keep[0, 0, t] = True
        s.at[0, t, TILE] = c.whole[t]
        node.held[0] += c.whole[t] * c.word_parts[0, t, 0]
    place(problem, node, ROOT)
