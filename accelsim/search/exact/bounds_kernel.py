"""Cost-to-go tables, compiled.

Axis letters: D = dimensions, N = divisors, S = shapes, T = tensors, O = options, C = contexts of a table, B = spreads,
K = choices of what the next level keeps, Q = statuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from accelsim.model.detail import INSIDE, Detail
from accelsim.model.encode import Bools, Constants, Floats, Ints
from accelsim.model.jit import inline, jit
from accelsim.model.kernel import distinct
from accelsim.search.exact.orders import BETWEEN, CARRY_ON, FETCH, FURTHER, HALO_REUSE, NONE, STATIONARY, STOP, TAIL

if TYPE_CHECKING:
    from accelsim.search.exact.shapes import Options, Shapes


@jit
def pick_splits(
    shapes: Shapes,
    x: Ints,
    y: Ints,
    x_key: Ints,
    y_key: Ints,
    pair: Ints,
    head: Ints,
    after: Ints,
    every: bool,
    alike: bool,
) -> int:
    """Pair the bounds on two axes; of pairs with one spread only those that share most, unless `every`.

    Parameters
    ----------
    x, y : int64[*, D]
        Bounds.
    x_key, y_key : int64[*, keys]
        The last must be equal for two pairs to be compared, the others multiply and should be large.
    pair : int64[*, 2]
        Written: rows of x and y, -1 for pairs given up again.
    head, after : int64[spread numbers], int64[*]
        Scratch space, -1.

    Returns
    -------
    int
        Rows of `pair` that are in use.
    """
    found = 0
    dims, keys = x.shape[1], x_key.shape[1]
    for a in range(x.shape[0]):
        for b in range(y.shape[0]):
            spread = 0
            for d in range(dims):
                product = x[a, d] * y[b, d]
                index = shapes.spread_at[d, product] if product < shapes.spread_at.shape[1] else -1
                if index < 0:
                    spread = -1
                    break
                spread += index * shapes.spread_stride[d]
            if spread < 0:
                continue
            if not every:
                at, worse = head[spread], False
                while at >= 0 and not worse:
                    i, j = pair[at, 0], pair[at, 1]
                    if i >= 0 and x_key[i, keys - 1] == x_key[a, keys - 1] and y_key[j, keys - 1] == y_key[b, keys - 1]:
                        more, less = False, False
                        for k in range(keys - 1):
                            mine, other = x_key[a, k] * y_key[b, k], x_key[i, k] * y_key[j, k]
                            more |= mine > other
                            less |= mine < other
                        worse = not more
                        if more and not less:
                            pair[at, 0] = -1
                    worse |= alike
                    at = after[at]
                if worse:
                    continue
                after[found] = head[spread]
                head[spread] = found
            pair[found, 0], pair[found, 1] = a, b
            found += 1
    return found


class BlockSweep(NamedTuple):
    """A class of loop orders for the sweep over a temporal block.

    counted : int64[*], dimensions whose bounds the shares depend on; adding, moving : int64[*], others that may have a
    loop, which leave the output in place or move it; frozen : bool[D], dimensions that may have none; adds : bool[D],
    those that leave the output in place; first : bool[1], whether loops over these may stand inside those that move
    it; term : int64[terms, 4], status numbers of each, for each way to go on after
    a pass over the window; phase : int64[terms], which loop decides that; mask : bool[terms, D], dimensions of its
    share; pair : int64[3], dimension of the pass, the other one of the rank, and that of the incoming step, -1: none;
    step : int64[D], what one of each dimension moves the window by; further : int64[*], by how much networks outside
    may spread the incoming step's dimension; bound : int64[D], scratch space.
    """

    counted: Ints
    adding: Ints
    moving: Ints
    frozen: Bools
    adds: Bools
    first: Bools
    term: Ints
    phase: Ints
    mask: Bools
    pair: Ints
    step: Ints
    further: Ints
    bound: Ints


@jit
def sweep_block(
    shapes: Shapes,
    most: Ints,
    pairs: Ints,
    moves: Ints,
    block: BlockSweep,
    live: Bools,
    wanted: Bools,
    reduced: Floats,
    complete: Floats,
    inside: Floats,
    out: Floats,
    offsets: Ints,
    values: Floats,
) -> None:
    """Lower the cost to go of each tile to that of its best block in a class of loop orders.

    Parameters
    ----------
    most : int64[D]
        How many sizes of each dimension can fit the level.
    pairs : int64[D, *, 2]
        For each dimension the indices of its sizes inside and outside a loop that may be in the block; -1 after the
        last.
    moves : int64[D, *, 2]
        Indices outside and inside, in an order in which taking the smaller of the two values leaves the smallest of all
        allowed insides; inside -1: no longer allowed as it is. -1 after the last.
    live, wanted : bool[N, S]
        Where `inside` may be finite, and which tiles are to be looked at.
    reduced : float64[S]
        How much of the reduction a tile covers.
    complete : float64[N]
        How much it must, so that no loop outside it adds to sums that the output's parent has no room for; 0 where it
        has: sums then stay further in until they are finished.
    inside : float64[Q, N, S]
        Cost to go inside the block, for each status, in N tables.
    out : float64[N, S]
        Lowered.
    offsets, values : int64[S], float64[S]
        Scratch space.
    """
    size = _rest_of_lattice(shapes, most, block.counted, offsets)
    rounds = 1
    for k in range(block.counted.shape[0]):
        many = 0
        while many < pairs.shape[1] and pairs[block.counted[k], many, 0] >= 0:
            many += 1
        rounds *= many
    for index in range(rounds):
        start, end, rest, possible = 0, 0, index, True
        inner_low, other_low, come_high = 0, 0, 0
        adds, moves_output = False, False
        for k in range(block.counted.shape[0]):
            d, many = block.counted[k], 0
            while many < pairs.shape[1] and pairs[d, many, 0] >= 0:
                many += 1
            low, high = pairs[d, rest % many, 0], pairs[d, rest % many, 1]
            rest //= many
            start += low * shapes.stride[d]
            end += high * shapes.stride[d]
            block.bound[d] = shapes.factor[d, shapes.over[d, high, low]]
            possible &= low == high or not block.frozen[d]
            adds |= low != high and block.adds[d]
            moves_output |= low != high and not block.adds[d]
            if d == block.pair[0]:
                inner_low = shapes.size[d, low]
                possible &= low != high
            if d == block.pair[1]:
                other_low = shapes.size[d, low]
            if d == block.pair[2]:
                come_high = shapes.size[d, high]
        if not possible:
            continue
        between, tails = FETCH, 1 << FETCH
        if block.pair[0] >= 0:
            between, tails = _ways_on(block, inner_low, other_low, come_high)
        for tail in range(4):
            if not tails >> tail & 1:
                continue
            middle = tail if block.pair[0] >= 0 and block.bound[block.pair[1]] == 1 else between
            if block.pair[0] >= 0 and not _differs(block, middle, tail):
                continue
            for n in range(out.shape[0]):
                if not (_any_of(live[n], offsets, size, start) and _any_of(wanted[n], offsets, size, end)):
                    continue
                may_add = complete[n] == 0.0 or block.first[0]
                if adds and not may_add:
                    continue
                _mix(block, inside[:, n], offsets, size, start, values, middle, tail)
                if may_add:
                    _take_least(most, moves, block.counted, block.adding, values, size)
                for at in range(size if complete[n] > 0.0 and not moves_output else 0):
                    if reduced[end + offsets[at]] < complete[n]:
                        out[n, end + offsets[at]] = min(out[n, end + offsets[at]], values[at])
                _take_least(most, moves, block.counted, block.moving, values, size)
                for at in range(size):
                    if reduced[end + offsets[at]] >= complete[n]:
                        out[n, end + offsets[at]] = min(out[n, end + offsets[at]], values[at])


@inline
def _any_of(chosen: Bools, offsets: Ints, size: int, start: int) -> bool:
    """Whether any of some shapes is chosen."""
    found, at = False, 0
    while at < size and not found:
        found = bool(chosen[start + offsets[at]])
        at += 1
    return found


@inline
def way_on(gap: int, step: int, reach: int, grain: int) -> int:
    """What a step outside a pass over a window does.

    It moves the tile by `gap`, the steps of the pass by `step`; loops further in can make up for at most `reach`, and
    for multiples of `grain` only.
    """
    if gap == 0:
        return STOP
    if gap == step:
        return CARRY_ON
    return FURTHER if 0 < gap <= reach and gap % grain == 0 else FETCH


@inline
def reach_of(inner: int, inner_size: int, other: int, other_size: int) -> int:
    """How far loops inside a tile can move it along a rank at most, and a step of theirs; docs/exact.md."""
    return inner * inner_size + other * other_size - min(inner, other)


@inline
def grain_of(inner: int, inner_size: int, other: int, other_size: int) -> int:
    """What all that loops inside a tile move it by along a rank are multiples of; docs/exact.md."""
    a, b = inner if inner_size > 1 else 0, other if other_size > 1 else 0
    while b > 0:
        a, b = b, a % b
    return a if a > 0 else 1 << 30


@inline
def _ways_on(block: BlockSweep, inner_low: int, other_low: int, come_high: int) -> tuple[int, int]:
    """How the loop over the other dimension of the rank goes on after a pass, and as bits how those outside may."""
    inner, other, come = block.pair[0], block.pair[1], block.pair[2]
    step = block.step[inner] * inner_low
    back = (block.bound[inner] - 1) * step
    reach = reach_of(block.step[inner], inner_low, block.step[other], other_low)
    grain = grain_of(block.step[inner], inner_low, block.step[other], other_low)
    between, tails = FETCH, 1 << FETCH
    if block.bound[other] > 1:
        far = block.step[other] * other_low
        between = way_on(far - back, step, reach, grain)
        back += (block.bound[other] - 1) * far
    if come >= 0:
        tails = 0
        for k in range(block.further.shape[0]):
            tails |= 1 << way_on(block.step[come] * come_high * block.further[k] - back, step, reach, grain)
    return between, tails


@inline
def _differs(block: BlockSweep, between: int, tail: int) -> bool:
    """Whether any status is another one than if every pass began anew."""
    found = False
    for i in range(block.term.shape[0]):
        way = between if block.phase[i] == BETWEEN else tail
        found |= block.phase[i] > 0 and block.term[i, way] != block.term[i, FETCH]
    return found


@inline
def _rest_of_lattice(shapes: Shapes, most: Ints, counted: Ints, offsets: Ints) -> int:
    """List the shapes of all dimensions that are not counted, as differences of shape numbers; returns how many."""
    size = 1
    offsets[0] = 0
    for d in range(shapes.sizes.shape[0] - 1, -1, -1):
        if not _among(counted, d):
            for i in range(1, most[d]):
                for at in range(size):
                    offsets[i * size + at] = offsets[at] + i * shapes.stride[d]
            size *= most[d]
    return size


@inline
def _among(items: Ints, item: int) -> bool:
    found = False
    for k in range(items.shape[0]):
        found |= items[k] == item
    return found


@inline
def _mix(
    block: BlockSweep, inside: Floats, offsets: Ints, size: int, start: int, values: Floats, between: int, tail: int
) -> None:
    """Cost to go inside the block, mixed from the pure statuses by their shares."""
    for at in range(size):
        values[at] = 0.0
    before = 1.0
    for i in range(block.term.shape[0]):
        share = 0.0
        if i < block.term.shape[0] - 1:
            product = 1
            for k in range(block.counted.shape[0]):
                if block.mask[i, block.counted[k]]:
                    product *= block.bound[block.counted[k]]
            share = 1.0 / float(product)
        weight = before - share
        before = share
        if weight > 0.0:
            way = between if block.phase[i] == BETWEEN else tail if block.phase[i] == TAIL else FETCH
            table = inside[block.term[i, way]]
            for at in range(size):
                values[at] += weight * table[start + offsets[at]]


@inline
def _take_least(most: Ints, moves: Ints, counted: Ints, swept: Ints, values: Floats, size: int) -> None:
    """For each outer tile the least value of its inner tiles, one swept dimension after the other."""
    stride = 1
    for d in range(most.shape[0] - 1, -1, -1):
        if _among(counted, d):
            continue
        count = most[d]
        if _among(swept, d):
            for base in range(0, size, stride * count):
                for m in range(moves.shape[1]):
                    if moves[d, m, 0] < 0:
                        break
                    row, other = base + moves[d, m, 0] * stride, base + moves[d, m, 1] * stride
                    if moves[d, m, 1] < 0:
                        for at in range(row, row + stride):
                            values[at] = np.inf
                    else:
                        for at in range(stride):
                            if values[other + at] < values[row + at]:
                                values[row + at] = values[other + at]
        stride *= count


class Spreading(NamedTuple):
    """What the sweep over a network needs to know besides machine and options.

    level : int64[1]; keeps : bool[K, T], what the next level may keep; fits : bool[K, S], whether these tiles fit
    it; wide : bool[K, S], the same with partial sums; tight : bool[C], whether the output's parent has no room for
    these; reduced : float64[S], how much of the reduction a shape covers, complete : float64[C], how much it must,
    so that what enters a tight parent is finished; held : int64[C, K], number of what it keeps together with
    storage nodes of the same level further out, -1 if it may not; tiles : int64[*], shapes that it may hold; parent
    : int64[C, T], the level that each tensor comes from; shared : float64[C, T], what is assumed of the share that
    networks further out leave of its reads or updates; fixed : float64[T], shares : float64[C, T], cost of a word
    that crosses the network, and of one that its parent reads or takes in; target : int64[C, K, 2, 2**W], contexts
    inside, tight or not, the W tensors that pass the next level sharing the least or the most; passing : int64[K,
    W], these tensors, -1 after the last; near : float64[C, K, W], one over how far the least share assumed inside
    is from all; status : int64[Q, T]; window : int64[1], tensor, -1 none; step : int64[D], what a step of its
    dimensions moves the box by for each unit of tile; rank : int64[D]; loose : bool[1]; elided : float64[1], what
    the output's words cost that are not fetched because no older value is there, for each copy of the output at the
    next level; copies, inner_copies : float64[A], float64[A'], copies of the output at this level and at the next
    that tables tell apart; copy_costs : float64[1], what further in each further copy saves at most, if they are
    not told apart there; edges : float64[B] spreads inside up to this, for the tables of this level; inner_edges :
    float64[B'].
    """

    level: Ints
    keeps: Bools
    fits: Bools
    wide: Bools
    tight: Bools
    reduced: Floats
    complete: Floats
    held: Ints
    tiles: Ints
    parent: Ints
    shared: Floats
    fixed: Floats
    shares: Floats
    target: Ints
    passing: Ints
    near: Floats
    status: Ints
    loose: Bools
    elided: Floats
    copy_costs: Floats
    copies: Floats
    inner_copies: Floats
    edges: Floats
    inner_edges: Floats


class NetworkScratch(NamedTuple):
    """Scratch space of `sweep_network`.

    tile, mid : int64[D]; x, y : int64[L, D]; words, each : float64[T]; share : float64[T]; factor : float64[T, Q];
    weight : float64[W]; copies, chord, saved : float64[A]; pair : int64[*, 3]; slot :
    int64[B]; cost, further, last : float64[Q].
    """

    tile: Ints
    mid: Ints
    x: Ints
    y: Ints
    words: Floats
    each: Floats
    share: Floats
    factor: Floats
    weight: Floats
    slide: Floats
    copies: Floats
    chord: Floats
    saved: Floats
    pair: Ints
    slot: Ints
    cost: Floats
    further: Floats
    last: Floats


@inline
def new_share(c: Constants, shapes: Shapes, t: int, tile: Ints, mid: Ints, d: int) -> float:
    """Share of a windowed tile that is new after a step of the loop over d around the network."""
    extent = 1
    for e in range(tile.shape[0]):
        if c.relevant[t, e] and c.rank[t, e] == c.rank[t, d]:
            extent += c.factor[t, e] * (shapes.size[e, tile[e]] - 1)
    return min(1.0, float(c.factor[t, d] * shapes.size[d, mid[d]]) / float(extent))


@jit
def _least_new_share(c: Constants, shapes: Shapes, t: int, tile: Ints, mid: Ints) -> float:
    """Half the smallest share that any step could leave: below what any sequence of loops costs."""
    least = 1.0
    for d in range(tile.shape[0]):
        if c.relevant[t, d]:
            least = min(least, new_share(c, shapes, t, tile, mid, d))
    return 0.5 * least


@jit
def sweep_network(
    c: Constants,
    shapes: Shapes,
    most: Ints,
    options: Options,
    p: Spreading,
    pj: Floats,
    tiles: Ints,
    live: Bools,
    wanted: Bools,
    inside: Floats,
    out: Floats,
    s: Detail,
    scratch: NetworkScratch,
) -> None:
    """Cost to go of each shape around a network: the traffic over it, and what follows inside.

    Parameters
    ----------
    most : int64[D]
        How many sizes of each dimension can fit the level.
    pj : float64[L, T, 4]
        Least energy of an element's action [pJ].
    tiles : int64[*]
        Shapes that the next level may hold.
    live : bool[S, C']
        Where `inside` may be finite; of the innermost network not read.
    wanted : bool[S, C]
        Which shapes are to be looked at.
    inside : float64[S, C', A', B', Q]
        By the statuses around the network.
    out : float64[S, C, A, B, Q]
        Lowered.
    """
    level = p.level[0]
    levels, dims, tensors = c.fanout.shape[0], shapes.sizes.shape[0], c.whole.shape[0]
    innermost = level == levels - 1
    output, tile, mid = c.output[0], scratch.tile, scratch.mid
    for q in range(p.status.shape[0]):
        for t in range(tensors):
            scratch.factor[t, q] = 0.0 if p.status[q, t] == STATIONARY and not innermost else 1.0
    for at in range(tiles.shape[0]):
        rest = tiles[at]
        for d in range(dims):
            tile[d] = rest // shapes.stride[d]
            rest -= tile[d] * shapes.stride[d]
            s.place[level + 1, d, INSIDE] = shapes.size[d, tile[d]]
        pairs = _list_pairs(p, tiles[at], live, innermost, output, scratch.pair)
        for o in range(options.spread.shape[0] if pairs > 0 else 0):
            around = 0
            for d in range(dims):
                mid[d] = shapes.times[d, tile[d], options.place[o, d]]
                if mid[d] < 0 or mid[d] >= most[d]:
                    around = -1
                    break
                around += mid[d] * shapes.stride[d]
            if around < 0:
                continue
            for t in range(tensors):
                scratch.words[t] = shapes.macs[0] if innermost else shapes.words[t, tiles[at]]
                if shapes.moving.shape[1] > 0 and not innermost:
                    moving = 1.0
                    for d in range(dims):
                        if c.relevant[t, d]:
                            share = shapes.moving[level, d, tile[d], options.place[o, d]]
                            moving = moving * share if c.windowed[t] else min(moving, share)
                    scratch.words[t] *= moving
                scratch.share[t] = options.up[o, t] if t == output else options.down[o, t]
                if options.windowed[o, t]:
                    for d in range(dims):
                        scratch.x[level, d], scratch.y[level, d] = options.x[o, d], options.y[o, d]
                    flags = c.reduction[level] if t == output else c.multicast[level, :, t]
                    groups = distinct(c, s, scratch.x, scratch.y, level, t, flags[0], flags[1])
                    scratch.share[t] = float(groups) / float(options.spread[o])
            _steps_of_windows(c, shapes, p, tile, mid, innermost, scratch)
            _sweep_contexts(c, options, p, pj, o, tiles[at], around, pairs, wanted, inside, out, scratch)


@inline
def _steps_of_windows(
    c: Constants, shapes: Shapes, p: Spreading, tile: Ints, mid: Ints, innermost: bool, scratch: NetworkScratch
) -> None:
    """Share of a tile that a step of each status costs, of tensors with windows; of others it is fixed."""
    for t in range(c.whole.shape[0]):
        if not c.windowed[t] or innermost:
            continue
        if p.loose[0]:
            least = _least_new_share(c, shapes, t, tile, mid)
            for q in range(p.status.shape[0]):
                scratch.factor[t, q] = least if p.status[q, t] == NONE else 0.0
            continue
        for d in range(tile.shape[0]):
            if c.relevant[t, d]:
                scratch.slide[d] = new_share(c, shapes, t, tile, mid, d)
        for q in range(p.status.shape[0]):
            if p.status[q, t] >= HALO_REUSE:
                scratch.factor[t, q] = scratch.slide[p.status[q, t] - HALO_REUSE]


@inline
def _list_pairs(p: Spreading, tile: int, live: Bools, innermost: bool, output: int, pair: Ints) -> int:
    """List contexts, choices of what the next level keeps, and whether that is tight, that lead to a tile: int64[*, 3].

    Returns
    -------
    int
        How many there are.
    """
    found = 0
    for k in range(p.keeps.shape[0]):
        for m in range(p.parent.shape[0] if p.fits[k, tile] else 0):
            held, tight = p.held[m, k], int(p.tight[m])
            if held < 0 or not p.fits[held, tile]:
                continue
            if not innermost:
                if p.keeps[k, output]:
                    tight = 0 if p.wide[k, tile] else 1
                if p.target[m, k, tight, 0] < 0 or not live[tile, p.target[m, k, tight, 0]]:
                    continue
            pair[found, 0], pair[found, 1], pair[found, 2] = m, k, tight
            found += 1
    return found


@inline
def _sweep_contexts(
    c: Constants,
    options: Options,
    p: Spreading,
    pj: Floats,
    o: int,
    tile: int,
    around: int,
    pairs: int,
    wanted: Bools,
    inside: Floats,
    out: Floats,
    scratch: NetworkScratch,
) -> None:
    level, output = p.level[0], c.output[0]
    levels, tensors = c.fanout.shape[0], c.whole.shape[0]
    innermost = level == levels - 1
    many, several = p.copies.shape[0], p.inner_copies.shape[0] > 1
    for a in range(many):
        scratch.copies[a] = p.copies[a] * options.apart[o]
        more = scratch.copies[a] - 1.0
        scratch.chord[a] = more / (p.inner_copies[1] - 1.0) if several else 0.0
        scratch.saved[a] = 0.0 if several else more * p.copy_costs[0]
    for b in range(p.inner_edges.shape[0]):
        spread, scratch.slot[b] = float(options.spread[o]) * p.inner_edges[b], 0
        while p.edges[scratch.slot[b]] < 0.999999 * spread:
            scratch.slot[b] += 1
    for number in range(pairs):
        m, k, tight, elided = scratch.pair[number, 0], scratch.pair[number, 1], scratch.pair[number, 2], 0.0
        if not wanted[around, m] or (innermost and p.reduced[around] < p.complete[m]):
            continue
        for t in range(tensors):
            scratch.each[t] = 0.0
            if innermost or p.keeps[k, t]:
                scratch.each[t] = scratch.words[t] * (p.fixed[t] + p.shares[m, t] * scratch.share[t])
        if innermost or p.keeps[k, output]:
            elided = p.elided[0]
        ways = 1
        for w in range(p.passing.shape[1]):
            t = p.passing[k, w]
            if t < 0:
                break
            ways *= 2
            scratch.weight[w] = p.near[m, k, w] * (1.0 - p.shared[m, t] * scratch.share[t])
        cost, further, last = scratch.cost, scratch.further, scratch.last
        for q in range(cost.shape[0]):
            cost[q] = 0.0
        for t in range(tensors):
            each = scratch.each[t]
            for q in range(cost.shape[0] if each != 0.0 else 0):
                cost[q] += scratch.factor[t, q] * each
        for b in range(p.inner_edges.shape[0]):
            for q in range(cost.shape[0]):
                further[q], last[q] = cost[q], 0.0
            for way in range(0 if innermost else ways):
                share = 1.0
                for w in range(p.passing.shape[1]):
                    if (1 << w) < ways:
                        share *= scratch.weight[w] if way >> w & 1 else 1.0 - scratch.weight[w]
                if share > 0.0:
                    entry = inside[tile, p.target[m, k, tight, way]]
                    for q in range(cost.shape[0]):
                        further[q] += share * entry[0, b, q]
                    for q in range(cost.shape[0] if several else 0):
                        last[q] += share * (entry[1, b, q] - entry[0, b, q])
            for a in range(many):
                less, chord = scratch.copies[a] * elided + scratch.saved[a], scratch.chord[a]
                row = out[around, m, a, scratch.slot[b]]
                for q in range(cost.shape[0]):
                    found = further[q] + chord * last[q] - less
                    row[q] = found if found < row[q] else row[q]
