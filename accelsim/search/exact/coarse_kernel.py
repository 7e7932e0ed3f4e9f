"""Sweeps of coarse tables over blocks and networks, from the inside out and back; compiled.

`accelsim.search.exact.coarse` has the method. Axis letters as in `coarse_layout`.
"""

from __future__ import annotations

import numpy as np

from accelsim.model.encode import Constants
from accelsim.model.jit import inline, jit
from accelsim.model.records import Floats1, Floats2, Floats3, Int32s2, Ints2, Ints3
from accelsim.search.exact.coarse_layout import (
    AROUND,
    EVEN,
    INSIDE,
    IRR_AROUND,
    IRR_INSIDE,
    LOOPS,
    MOST_AROUND,
    MOST_INSIDE,
    OTHERS,
    OTHERS_REST,
    RAGGED,
    REL,
    RESTS,
    SAME,
    SHARE,
    SPREAD,
    STAYS,
    WINDOW_SHARE,
    Buckets,
    Crossing,
    Scratch,
)
from accelsim.search.exact.shapes import resting_share


@inline
def _reach_at(z: Buckets, family: int, passes: float) -> int:
    """Number of the largest reach of a family with no more passes, among those of all families."""
    first, end = z.first[family], z.first[family] + z.reaches[family]
    while end - first > 1:
        middle = (first + end) // 2
        if z.reach[family, middle - z.first[family]] <= passes * (1.0 + SAME):
            first = middle
        else:
            end = middle
    return int(first)


@inline
def _moved(words: float, passes: float, rests: float) -> float:
    """Words of so many passes, each of which but the first leaves some in place."""
    return words * (1.0 + (passes - 1.0) * (1.0 - rests))


@jit
def _window_words(c: Constants, z: Buckets, n: Crossing, u: int, t: int, e: int, family: int) -> float:
    """Words of a tensor into all tiles in one pass of the loops that do not move it, at least.

    Each step brings a whole box, or what is new along the rank of the innermost loop that moves it; or nothing, if
    loops over two dimensions of the rank leave the box where it is, once in a pass of the innermost one. `family`: of
    the dimension of the innermost loop, which moves the tensor; -1: any.
    """
    words, share, k = 1.0, 1.0, 0
    while k < c.terms[e]:
        end = k + 1
        while end < c.terms[e] and not c.term_opens[e, end]:
            end += 1
        whole = np.inf
        for corner in range(1 << (end - k)):
            steps, extent = 1.0, 1.0
            for j in range(k, end):
                d = c.term[e, j]
                at = n.inside[t, d]
                if z.ragged[d]:
                    steps = z.most_passes[d, at]
                    extent = (c.term_factor[e, j] * c.bounds[d] - (c.term_factor[e, j] - 1) * steps) / steps
                else:
                    size = z.most[d, at] if corner >> (j - k) & 1 else z.least[d, at]
                    steps *= c.bounds[d] / size
                    extent += c.term_factor[e, j] * (size - 1.0)
            whole = min(whole, steps * extent)
        for j in range(k, end if end > k + 1 else k):
            d = c.term[e, j]
            if z.least[d, n.around[u, d]] >= c.bounds[d] or (family >= 0 and z.family[d] != family):
                continue
            new = c.term_factor[e, j] * c.bounds[d] * n.spread[0, d, n.around[u, d], n.inside[t, d]]
            back = False
            for i in range(k, end):
                other = c.term[e, i]
                if i == j:
                    continue
                new *= c.bounds[other] / z.most[other, n.inside[t, other]]
                mine, its = z.least[d, n.around[u, d]], z.least[other, n.around[u, other]]
                far = c.term_factor[e, j] * mine <= c.term_factor[e, i] * (c.bounds[other] - its)
                near = c.term_factor[e, i] * its <= c.term_factor[e, j] * (c.bounds[d] - mine)
                back |= its < c.bounds[other] and ((far and near) or end > k + 2)
            share = min(share, min(new / whole, 1.0) * (1.0 - 1.0 / z.prime[d] if back else 1.0))
        words *= whole
        k = end
    return float(max(z.needed[e], words * share))


@jit
def _window_share(c: Constants, z: Buckets, n: Crossing, u: int, t: int, e: int) -> float:
    """Groups of children with equal windows over children, at least."""
    share, k = 1.0, 0
    while k < c.terms[e]:
        end, groups, children, spread, exact = k, 1.0, 1.0, 0, True
        a, b, many, more = 1, 1, 1, 1
        while end < c.terms[e] and (end == k or not c.term_opens[e, end]):
            d = c.term[e, end]
            o, i = n.around[u, d], n.inside[t, d]
            most = n.spread[1, d, o, i]
            groups += most - 1.0
            children *= most
            exact &= n.spread[0, d, o, i] == most and z.least[d, i] == z.most[d, i]
            if most > 1.0:
                spread += 1
                a, many = b, more
                b, more = int(c.term_factor[e, end] * z.least[d, i]), int(most)
            end += 1
        if spread == 2 and exact:
            g, rest = a, b
            while rest > 0:
                g, rest = rest, g % rest
            groups = float(many * more - max(0, many - b // g) * max(0, more - a // g))
        if spread > 1:
            share *= groups / children
        k = end
    return share


@jit
def _look_at(c: Constants, z: Buckets, n: Crossing, u: int, t: int, s: Scratch) -> None:
    """Work out the facts of tensors and families for a pair of shapes."""
    dims, last = c.bounds.shape[0], n.last[0] == 1
    for f in range(s.families.shape[0]):
        mine, most = s.families[f], -1
        mine[:] = 1.0
        mine[OTHERS_REST] = 0.0
        for d in range(dims):
            if z.family[d] != f:
                continue
            o, i = n.around[u, d], n.inside[t, d]
            mine[AROUND] *= z.passes[d, o]
            mine[MOST_AROUND] *= z.most_passes[d, o]
            mine[INSIDE] *= z.passes[d, i]
            mine[MOST_INSIDE] *= z.most_passes[d, i]
            mine[OTHERS_REST] = max(mine[OTHERS_REST], n.rests[d, o, i])
            mine[SPREAD] *= n.spread[1, d, o, i]
            if not z.ragged[d]:
                mine[EVEN] *= n.spread[0, d, o, i]
            elif n.spread[0, d, o, i] > mine[RAGGED]:
                mine[RAGGED], most = n.spread[0, d, o, i], d
        for d in range(dims):
            if z.family[d] == f and d != most:
                mine[OTHERS] *= z.most_passes[d, n.around[u, d]]
    for e in range(s.facts.shape[0]):
        mine, together = s.facts[e], 1.0
        mine[:] = 1.0
        mine[RESTS] = 0.0
        for d in range(dims):
            o, i = n.around[u, d], n.inside[t, d]
            if c.relevant[e, d]:
                mine[REL] *= c.bounds[d]
                if z.ragged[d]:
                    rests = n.rests[d, o, i]
                    mine[RESTS] = mine[RESTS] + rests if c.windowed[e] else max(mine[RESTS], rests)
            else:
                mine[IRR_AROUND] *= z.passes[d, o]
                mine[IRR_INSIDE] *= z.passes[d, i]
                together *= n.spread[1, d, o, i]
        mine[RESTS] = min(1.0, mine[RESTS])
        every = mine[REL] if last else _window_words(c, z, n, u, t, e, -1)
        s.words[:, e] = every
        for f in range(s.families.shape[0]):
            if c.windowed[e] and f != z.family_of[e] and not last:
                some = _window_words(c, z, n, u, t, e, f)  # but where its loops make one step, others slide the window
                s.words[f + 1, e] = some + mine[RESTS] * (every - some)
        if c.windowed[e] and n.sharing[e] > 1.0:
            mine[WINDOW_SHARE] = _window_share(c, z, n, u, t, e)
        share = mine[WINDOW_SHARE] / min(together, n.sharing[e])
        if n.linked[e]:
            share = mine[WINDOW_SHARE] = 0.0
        mine[SHARE] = max(share, 1.0 / n.children[0])
        mine[WINDOW_SHARE] = max(mine[WINDOW_SHARE], 1.0 / n.children[0])
        for k in range(n.prices[e]):
            real, at = n.price[e, k] * mine[SHARE] + n.passing[e], 0
            if k >= n.plain[e] and mine[SHARE] == 1.0:
                s.down[e, k], s.beyond[e, k] = n.plain_inside[e] + n.tight[0] + k - n.plain[e], 0.0
                continue
            while at + 1 < n.plain_inside[e] and n.price_inside[e, at + 1] <= real * (1.0 + SAME):
                at += 1
            s.down[e, k], s.beyond[e, k] = at, 0.0
            if at + 1 < n.plain_inside[e] and real > n.price_inside[e, at]:
                span = n.price_inside[e, at + 1] - n.price_inside[e, at]
                s.beyond[e, k] = min(1.0, (real - n.price_inside[e, at]) / span)
            if n.price_inside[e, at] > real * (1.0 + SAME):
                s.down[e, k] = -1


@jit
def _rest_of_run(c: Constants, z: Buckets, n: Crossing, u: int, t: int, e: int, d: int, passes: float) -> float:
    """Share of a tensor's words that rests at most, by the innermost loops: over a dimension, up to so many passes."""
    tiles, around, left, most = int(z.passes[d, n.inside[t, d]]), int(z.passes[d, n.around[u, d]]), int(passes), 0.0
    end = around if left == 1 else (around - 1) // (left - 1)
    for spread in range(int(n.spread[0, d, n.around[u, d], n.inside[t, d]]),
                        int(n.spread[1, d, n.around[u, d], n.inside[t, d]]) + 1):  # fmt: skip
        if -(-tiles // spread) == around:
            for loop in range(-(-around // left), end + 1):
                most = max(most, resting_share(c.bounds[d], tiles, spread, loop, c.factor[e, d]))
    return float(min(1.0, most))


@inline
def _carry(mine: Floats1, passes: float) -> float:
    """Passes of a family's dimensions at the tiles inside a network, by those around it, beyond the same loops."""
    spread = mine[RAGGED]
    if spread > 1.0:  # of the last pass over the dimension one child has a part, at least
        passes = max(passes, passes * spread - (spread - 1.0) * min(passes, mine[OTHERS]))
    return float(passes * mine[EVEN])


@jit
def _interpolate(n: Crossing, s: Scratch, mask: int) -> int:
    """Turn entries at prices below the network, `s.lanes[0]`, into those above it; returns where they then are.

    Of a tensor that the level inside keeps they have one price.
    """
    before, after, at = 1, 1, 0
    for e in range(n.prices.shape[0]):
        after *= n.prices_inside[e]
    for e in range(n.prices.shape[0]):
        mine, kept = n.prices_inside[e], mask >> e & 1
        after //= mine
        many = 1 if kept else n.prices[e]
        for b in range(before):
            for k in range(many):
                low = s.own[e] if kept else s.down[e, k]
                beyond = 0.0 if kept else s.beyond[e, k]
                for a in range(after):
                    found = np.inf
                    if low >= 0:
                        found = s.lanes[at, (b * mine + low) * after + a]
                        if beyond > 0.0 and found < np.inf:
                            found += beyond * (s.lanes[at, (b * mine + low + 1) * after + a] - found)
                    s.lanes[1 - at, (b * many + k) * after + a] = found
        before *= many
        at = 1 - at
    return at


@jit
def _prices(n: Crossing, s: Scratch, mask: int, once: bool, forward: bool) -> int:
    """What words cost at each price above the network, and the numbers of prices; returns how many there are.

    Forward: of prices below it; else among what `_interpolate` leaves. `once`: whether the words of the output that
    leave the level inside are finished; if not they come at no narrow price.
    """
    many = 1
    s.cost[0], s.target[0] = 0.0, 0
    for e in range(n.prices.shape[0]):
        kept, size = mask >> e & 1, n.prices[e]
        below = n.prices_inside[e] if forward else (1 if kept else size)
        for lane in range(many - 1, -1, -1):
            cost, target = s.cost[lane], s.target[lane]
            for k in range(size - 1, -1, -1):
                number = (s.own[e] if forward else 0) if kept else (s.down[e, k] if forward else k)
                if kept and k >= n.plain[e] and not once:
                    number = -1
                s.cost[lane * size + k] = cost + (n.price[e, k] * s.reads[e] if kept else 0.0)
                s.target[lane * size + k] = -1 if number < 0 or target < 0 else target * below + number
        many *= size
    return many


@jit
def cross(
    c: Constants, z: Buckets, n: Crossing, s: Scratch, pairs: Int32s2, forward: bool, around: Floats3, inside: Floats3
) -> None:
    """Carry cost over a network: what lies inside to the states around it, or forward what lies outside.

    Parameters
    ----------
    around : float64[*, A, C]
        Written, or forward read: least cost of each state.
    inside : float64[*, A, C]
        Read, or forward written.
    """
    tensors, output, macs = s.facts.shape[0], c.output[0], 1.0
    s.own[:] = n.own
    last, lanes_inside = n.last[0] == 1, inside.shape[2]
    for d in range(c.bounds.shape[0]):
        macs *= c.bounds[d]
    for p in range(pairs.shape[0]):
        u, t = pairs[p, 0], pairs[p, 1]
        _look_at(c, z, n, u, t, s)
        least, most, cap, cap_inside = 1.0, 1.0, 1.0, 1.0  # copies of the output
        for d in range(c.bounds.shape[0]):
            if not c.relevant[output, d]:
                least *= n.spread[0, d, n.around[u, d], n.inside[t, d]]
                most *= n.spread[1, d, n.around[u, d], n.inside[t, d]]
                cap *= z.most_passes[d, n.around[u, d]]
                cap_inside *= z.most_passes[d, n.inside[t, d]]
        most = min(most, n.children[0])
        for f in range(-1, s.families.shape[0]):
            for q in range(0 if f < 0 else z.first[f], 1 if f < 0 else z.first[f + 1]):
                if n.row_around[u, q] < 0:
                    continue
                beyond, carried, inner = 1.0, 1.0, 0
                exact = f >= 0 and q - z.first[f] >= z.reaches[f]
                if f >= 0:
                    beyond = z.reach[f, q - z.first[f]]
                    carried = _carry(s.families[f], beyond)
                    if not last and carried < s.families[f, INSIDE] * (1.0 - SAME):
                        inner = _reach_at(z, f, carried)
                        if exact and s.families[f, SPREAD] == 1.0:
                            inner += z.reaches[f]
                if n.row_inside[t, inner] < 0:
                    continue
                outer_state, inner_state = around[n.row_around[u, q]], inside[n.row_inside[t, inner]]
                all_in, out_passes, at_passes = 0.0, 1.0, 1.0
                for mask_at in range(n.masks.shape[0]):
                    mask = n.masks[mask_at]
                    if not n.fits[t, mask_at]:
                        continue
                    all_in = 0.0
                    for e in range(tensors):
                        if mask >> e & 1 == 0:
                            continue
                        facts = s.facts[e]
                        out, at = facts[IRR_AROUND], facts[IRR_INSIDE]
                        words, rests = macs, 0.0
                        if not last:
                            rests = facts[RESTS]
                            if f >= 0 and z.family_of[e] != f and not c.windowed[e]:  # the innermost loop moves it
                                rests = s.families[f, OTHERS_REST]
                                if exact and z.told[f] >= 0 and rests > 0.0:
                                    rests = min(rests, _rest_of_run(c, z, n, u, t, e, z.told[f], beyond))
                            if f >= 0 and z.family_of[e] == f:
                                out = beyond if z.alone[e] else max(1.0, out * beyond / s.families[f, MOST_AROUND])
                                at = carried if z.alone[e] else max(1.0, at * carried / s.families[f, MOST_INSIDE])
                            words = _moved(s.words[f + 1, e], at, rests)
                        most_shared = _moved(s.words[f + 1, e], out, rests) * facts[WINDOW_SHARE]
                        s.reads[e] = max(most_shared, words * facts[SHARE])
                        all_in += words * n.into[e]
                        if e == output:
                            out_passes, at_passes = out, at
                    keeps, narrow = mask >> output & 1 == 1, n.narrow[t, mask_at]
                    if narrow and at_passes > 1.0 + SAME:
                        continue
                    s.own[output] = n.plain_inside[output] if narrow and n.tight[0] == 1 else n.own[output]
                    many = _prices(n, s, mask, out_passes <= 1.0 + SAME, forward)
                    for a in range(n.copies.shape[0]):
                        here = min(n.copies[a], cap)
                        for least_copies in range(2 if least < most else 1):
                            real = min(here * (least if least_copies else most), cap_inside)
                            one = real <= 1.0
                            if least_copies and not one:  # fewer save less, but for one copy
                                continue
                            if narrow and not one:
                                continue
                            above = 0
                            while above + 1 < n.copies_inside.shape[0] and n.copies_inside[above] < real * (1.0 - SAME):
                                above += 1
                            cost = all_in
                            if keeps:
                                cost -= n.credit[0] * real + (n.credit[1] if one else 0.0)
                            if forward:
                                for lane in range(many):
                                    to = s.target[lane]
                                    found = outer_state[a, lane] + cost + s.cost[lane]
                                    if to >= 0 and found < inner_state[above, to]:
                                        inner_state[above, to] = found
                                continue
                            share, at_most = 1.0, min(n.copies_inside[above], cap_inside)
                            if above > 0 and at_most > real * (1.0 + SAME):
                                fewer = n.copies_inside[above - 1]
                                share = (real - fewer) / (at_most - fewer)
                            for lane in range(lanes_inside):
                                found = inner_state[above, lane]
                                if share < 1.0:
                                    found = share * found + (1.0 - share) * inner_state[above - 1, lane]
                                s.lanes[0, lane] = found
                            at_lanes = _interpolate(n, s, mask)
                            for lane in range(many):
                                to = s.target[lane]
                                if to >= 0:
                                    found = s.lanes[at_lanes, to] + cost + s.cost[lane]
                                    outer_state[a, lane] = min(outer_state[a, lane], found)


@jit
def go_through(
    z: Buckets, tiles: Ints2, around: Ints2, row_tile: Int32s2, row_around: Int32s2, ways: Ints3, pairs: Int32s2,
    forward: bool, tile: Floats2, out: Floats2,
) -> None:  # fmt: skip
    """Carry cost through a temporal block: from the states around the network below it to its tiles, or forward.

    After a block with loops, only the family that its innermost loop leaves in place has a reach: all loops of the
    block over the family's dimensions, and if there are no others those outside that went on.

    Parameters
    ----------
    ways : int64[D, N, N]
        STAYS and LOOPS between a bucket of the tile and one around the network.
    tile, out : float64[*, A * C]
        Least cost of each state at the tile and around the network; forward the second is written, else the first.
    """
    dims, families, lanes, states = tiles.shape[1], z.first.shape[0] - 1, tile.shape[1], row_tile.shape[1]
    low = np.empty(lanes)
    p = 0
    while p < pairs.shape[0]:
        t = pairs[p, 0]
        low[:] = np.inf
        for q in range(states if forward else 0):
            if row_tile[t, q] >= 0:
                state = tile[row_tile[t, q]]
                for lane in range(lanes):
                    low[lane] = min(low[lane], state[lane])
        while p < pairs.shape[0] and pairs[p, 0] == t:
            u = pairs[p, 1]
            p += 1
            stay, any_loop = True, False
            for d in range(dims):
                way = ways[d, tiles[t, d], around[u, d]]
                stay &= way & STAYS > 0
                any_loop |= z.family[d] < 0 and way & LOOPS > 0
            for f in range(-1, families):
                loops, others_stay, passes, fewest = any_loop, True, 1.0, 1.0
                if f >= 0:
                    loops = False
                    for d in range(dims):
                        way = ways[d, tiles[t, d], around[u, d]]
                        if z.family[d] == f:
                            loops |= way & LOOPS > 0
                            passes *= z.passes[d, tiles[t, d]]
                            fewest *= z.passes[d, around[u, d]]
                        else:
                            others_stay &= way & STAYS > 0
                if loops:  # the stay ends in this block
                    to = 0
                    if f >= 0 and passes < fewest * (1.0 - SAME):
                        to = _reach_at(z, f, passes)
                        if z.first[f] + z.reaches[f] < z.first[f + 1]:
                            to += z.reaches[f]
                    row = row_around[u, to]
                    if row >= 0:
                        for lane in range(lanes):
                            if forward:
                                out[row, lane] = min(out[row, lane], low[lane])
                            else:
                                low[lane] = min(low[lane], out[row, lane])
                first, end = (0, 1) if f < 0 else (z.first[f], z.first[f + 1])
                if (f < 0 and stay) or (f >= 0 and others_stay and (loops or stay)):
                    for q in range(first, end):  # or goes on outside it
                        mine, row = row_tile[t, q], row_around[u, q]
                        if mine < 0:
                            continue
                        if row < 0 and f >= 0 and z.reach[f, q - first] >= fewest * (1.0 - SAME):
                            row = row_around[u, 0]
                        if row < 0:
                            continue
                        for lane in range(lanes):
                            if forward:
                                out[row, lane] = min(out[row, lane], tile[mine, lane])
                            else:
                                tile[mine, lane] = min(tile[mine, lane], out[row, lane])
        for q in range(0 if forward else states):
            if row_tile[t, q] >= 0:
                state = tile[row_tile[t, q]]
                for lane in range(lanes):
                    state[lane] = min(state[lane], low[lane])
