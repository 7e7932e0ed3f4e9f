"""The sweep over a network that fills cost-to-go tables; compiled.

Axis letters: D = dimensions, S = shapes, T = tensors, O = options, C = contexts of a table, A = copies, B = spreads,
K = choices of what the next level keeps, Q = statuses around the network, Q' = those at the next tiles, W = tensors
that pass the next level.
"""

from __future__ import annotations

import numpy as np

from accelsim.model.detail import INSIDE
from accelsim.model.jit import inline, jit
from accelsim.model.records import Bools2, Floats1, Floats2, Ints1, Ints2
from accelsim.model.windows import distinct
from accelsim.search.exact.incumbents import SURE
from accelsim.search.exact.network import NetworkSweep, Spreading
from accelsim.search.exact.orders import HALO_REUSE, NONE, STATIONARY
from accelsim.search.exact.windows_kernel import least_new_share, new_share, passes_window


@jit
def sweep_network(sweep: NetworkSweep) -> None:
    """Cost to go of each shape around a network: the traffic over it, and what follows inside."""
    c, shapes, next_of, p, tiles, wanted = sweep.c, sweep.shapes, sweep.next_of, sweep.p, sweep.tiles, sweep.wanted
    least, s, scratch = sweep.least, sweep.s, sweep.scratch
    level = p.level[0]
    levels, dims, tensors = c.fanout.shape[0], shapes.sizes.shape[0], c.whole.shape[0]
    innermost = level == levels - 1
    output, tile, mid, ragged = c.output[0], scratch.tile, scratch.mid, shapes.resting.shape[1] > 0
    steps = p.loose[0]  # whether what a step of a window costs depends on the tile
    for q in range(p.status.shape[0]):
        for t in range(tensors):
            scratch.factor[t, q] = 0.0 if p.status[q, t] == STATIONARY and not innermost else 1.0
            steps |= p.status[q, t] >= HALO_REUSE and not innermost
    for at in range(tiles.shape[0]):
        rest = tiles[at]
        for d in range(dims):
            tile[d] = rest // shapes.stride[d]
            rest -= tile[d] * shapes.stride[d]
            s.place[level + 1, d, INSIDE] = shapes.size[d, tile[d]]
        for t in range(tensors):
            scratch.rests[t] = p.rests[t] == 0
            for d in range(dims if p.rests[t] == 1 else 0):
                if p.partner[d] >= 0 and not c.relevant[t, d]:
                    scratch.rests[t] |= passes_window(p.partner, shapes.sizes, tile, d)
        pairs, judged = _list_pairs(sweep, tiles[at], innermost, scratch.pair), p.worth.split.shape[0] > 0
        many = 0
        following = 0 if pairs > 0 else next_of.shape[0]
        while following < next_of.shape[0]:
            o = following
            around = _shape_around(sweep, o, tile, mid)
            if around < 0 or not _is_wanted(wanted, around, pairs, scratch.pair):
                following = next_of[o, -1 - around if around < 0 else dims - 1]
                continue
            following = o + 1
            _share_words(sweep, o, tiles[at], tile, mid)
            resting = _list_resting(sweep, o, tile, mid) if ragged and not innermost else 0
            if judged:
                _note_option(sweep, o, around, many)
                many += 1
                continue
            if steps:
                _steps_of_windows(sweep, tile, mid, innermost)
            _sweep_contexts(sweep, o, tiles[at], around, pairs, resting, -1)
        if many > 0:
            _judge(sweep, pairs, many, innermost, output, least[at])
        for n in range(many):
            worth_it = False
            for number in range(pairs):
                worth_it |= not scratch.worthless[scratch.pair[number, 3], n]
            if not worth_it:
                continue
            o, around = scratch.option[n], scratch.around[n]
            _shape_around(sweep, o, tile, mid)
            _share_words(sweep, o, tiles[at], tile, mid)
            resting = _list_resting(sweep, o, tile, mid) if ragged and not innermost else 0
            if steps:
                _steps_of_windows(sweep, tile, mid, innermost)
            _sweep_contexts(sweep, o, tiles[at], around, pairs, resting, n)


@inline
def _shape_around(sweep: NetworkSweep, o: int, tile: Ints1, mid: Ints1) -> int:
    """The shape around a network that an option leads to, with its sizes in `mid`.

    -1 - d if there is none, whatever further dimensions than d do.
    """
    shapes, most, options = sweep.shapes, sweep.most, sweep.options
    around = 0
    for d in range(tile.shape[0]):
        mid[d] = shapes.times[d, tile[d], options.place[o, d]]
        if mid[d] < 0 or mid[d] >= most[d]:
            return -1 - d
        around += mid[d] * shapes.stride[d]
    return around


@inline
def _is_wanted(wanted: Bools2, around: int, pairs: int, pair: Ints2) -> bool:
    """Whether a shape around a network is to be looked at in the context of any pair."""
    number = 0
    while number < pairs and not wanted[around, pair[number, 0]]:
        number += 1
    return number < pairs


@inline
def _share_words(sweep: NetworkSweep, o: int, number: int, tile: Ints1, mid: Ints1) -> None:
    """Words into a tile, and the share of the children that take words of their own."""
    c, shapes, options, p, s, scratch = sweep.c, sweep.shapes, sweep.options, sweep.p, sweep.s, sweep.scratch
    level, output, dims = p.level[0], c.output[0], tile.shape[0]
    innermost, ragged = level == c.fanout.shape[0] - 1, shapes.resting.shape[1] > 0
    for t in range(c.whole.shape[0]):
        scratch.words[t] = shapes.macs[0] if innermost else shapes.words[t, number]
        for d in range(dims if ragged and c.windowed[t] and not innermost else 0):
            if c.relevant[t, d]:
                scratch.words[t] *= 1.0 - shapes.resting[level, d, tile[d], options.place[o, d]]
        scratch.share[t] = options.up[o, t] if t == output else options.down[o, t]
        if options.windowed[o, t] and p.counts[t]:
            for d in range(dims):
                scratch.x[level, d], scratch.y[level, d] = options.x[o, d], options.y[o, d]
            flags = c.reduction[level] if t == output else c.multicast[level, :, t]
            groups = distinct(c, s, scratch.x, scratch.y, level, t, flags[0], flags[1])
            scratch.share[t] = float(groups) / float(options.spread[o])
        if c.links[level] and c.windowed[t] and t != output:  # all but one may take words from a neighbour
            scratch.share[t] = 1.0 / float(options.spread[o])
        scratch.passing[t] = scratch.share[t]
        for d in range(dims if ragged else 0):
            if not c.relevant[t, d]:
                _share_idle(sweep, o, t, d, tile[d], mid[d])


@inline
def _share_idle(sweep: NetworkSweep, o: int, t: int, d: int, tile: int, mid: int) -> None:
    """Correct the shares of a tensor for the children that idle where loops over a dimension end.

    See docs/papers/exact-mapper.md, Lemma 38.
    Each tile around the network has a first child; in the last one there may be fewer children.
    """
    c, shapes, options, p, scratch = sweep.c, sweep.shapes, sweep.options, sweep.p, sweep.scratch
    flags = c.reduction[p.level[0]] if t == c.output[0] else c.multicast[p.level[0], :, t]
    spread = options.x[o, d] * options.y[o, d]
    sharing = (options.x[o, d] if flags[0] else 1) * (options.y[o, d] if flags[1] else 1)
    if sharing == 1:
        return
    inner, outer = shapes.passes[d, tile], shapes.passes[d, mid]
    last = inner - (outer - 1) * spread
    first = (outer - 1) * (spread // sharing) + -(-last // sharing)
    scratch.share[t] *= max(1.0, float(sharing * first) / float(inner))
    if sharing == spread and last > 1:
        scratch.passing[t] *= float(sharing * first) / float(inner)
    elif inner > 1:  # the last tile may be one of the first children, and be smaller
        scratch.passing[t] *= max(1.0, float(sharing * (first - 1)) / float(inner - 1))


@inline
def _note_option(sweep: NetworkSweep, o: int, around: int, n: int) -> None:
    """Note an option for `_judge`."""
    p, options, scratch = sweep.p, sweep.options, sweep.scratch
    scratch.option[n], scratch.around[n] = o, around
    scratch.edge[n] = _slot(p, float(options.spread[o]) * p.inner_edges[p.inner_edges.shape[0] - 1])
    for t in range(scratch.words.shape[0]):
        scratch.moved[t, n] = scratch.words[t] * (1.0 - scratch.stays[t])
        scratch.shares[t, n] = scratch.passing[t]


@inline
def _slot(p: Spreading, spread: float) -> int:
    """Class of spread of a table."""
    slot = 0
    while p.edges[slot] < 0.999999 * spread:
        slot += 1
    return slot


@inline
def _steps_of_windows(sweep: NetworkSweep, tile: Ints1, mid: Ints1, innermost: bool) -> None:
    """Share of a tile that a step of each status costs, of tensors with windows; of others it is fixed."""
    c, shapes, p, scratch = sweep.c, sweep.shapes, sweep.p, sweep.scratch
    for t in range(c.whole.shape[0]):
        if not c.windowed[t] or innermost:
            continue
        if p.loose[0]:
            least = least_new_share(c, shapes, t, tile, mid)
            for q in range(p.status.shape[0]):
                scratch.factor[t, q] = least if p.status[q, t] == NONE else 0.0
            continue
        for d in range(tile.shape[0]):
            if c.relevant[t, d]:
                scratch.slide[d] = new_share(c, shapes, t, tile, mid, d)
        for q in range(p.status.shape[0]):
            if p.status[q, t] >= HALO_REUSE:
                d = (p.status[q, t] - HALO_REUSE) % tile.shape[0]
                new = scratch.slide[d]
                if p.status[q, t] >= HALO_REUSE + tile.shape[0]:
                    new += (1.0 - new) / float(shapes.size[d, shapes.sizes[d] - 1])
                scratch.factor[t, q] = new


@inline
def _list_pairs(sweep: NetworkSweep, tile: int, innermost: bool, pair: Ints2) -> int:
    """List contexts, choices of what the next level keeps, and kinds of contexts inside that lead to a tile.

    Returns
    -------
    int
        How many there are.
    """
    p, live = sweep.p, sweep.live
    found = 0
    for k in range(p.keeps.shape[0]):
        for m in range(p.parent.shape[0]):
            if p.like[m, k] < 0:
                continue
            kind = p.kinds[tile, p.like[m, k]]
            if kind < 0:
                continue
            if not innermost and (p.target[m, k, kind, 0] < 0 or not live[tile, p.target[m, k, kind, 0]]):
                continue
            pair[found, 0], pair[found, 1], pair[found, 2] = m, k, kind
            found += 1
    return found


@inline
def _weigh_corners(sweep: NetworkSweep, m: int, k: int, shared: Floats1) -> int:
    """Weights of the contexts inside, by what networks leave of the reads of tensors that pass; returns how many."""
    p, scratch = sweep.p, sweep.scratch
    ways = 1
    scratch.weight[0] = 1.0
    for w in range(p.passing.shape[1]):
        t = p.passing[k, w]
        if t < 0:
            break
        low = p.near[m, k, w] * (1.0 - shared[t] * scratch.passing[t])
        for way in range(ways):
            scratch.weight[ways + way] = scratch.weight[way] * low
            scratch.weight[way] *= 1.0 - low
        ways *= 2
    return ways


@jit
def _judge(sweep: NetworkSweep, pairs: int, many: int, innermost: bool, output: int, least: Floats2) -> None:
    """Find which pairs are not worth it with which options: what they cost at least from the network inwards.

    For any copies of the output; see `Sieve.sift`. Contexts of one state share a verdict.
    """
    p, options, scratch = sweep.p, sweep.options, sweep.scratch
    worth, ways, cost = p.worth, scratch.ways, scratch.least
    loops, last, last_choice = worth.split.shape[0], p.copies.shape[0] - 1, -1
    several = p.inner_copies.shape[0] > 1
    for number in range(pairs):
        m, k, kind = scratch.pair[number, 0], scratch.pair[number, 1], scratch.pair[number, 2]
        choice = (worth.state[m] * p.keeps.shape[0] + k) * p.target.shape[2] + kind
        if choice == last_choice:
            scratch.pair[number, 3] = scratch.pair[number - 1, 3]
            continue
        last_choice, found, verdict = choice, 1, scratch.worthless[number]
        scratch.pair[number, 3] = number
        for n in range(many):
            ways[0, n] = 1.0
            for at in range(2 * loops):
                cost[at, n] = 0.0
        for w in range(p.passing.shape[1]):
            t = p.passing[k, w]
            if t < 0:
                break
            shares, near, fewest = scratch.shares[t], p.near[m, k, w], worth.fewest[m, t]
            for way in range(found):
                high, low = ways[way], ways[found + way]
                for n in range(many):
                    low[n] = high[n] * near * (1.0 - fewest * shares[n])
                    high[n] -= low[n]
            found *= 2
        for way in range(0 if innermost else found):
            entry, share = least[p.target[m, k, kind, way]], ways[way]
            for at in range(2 * loops):
                row, each = cost[at], entry[at]
                for n in range(many):
                    row[n] += share[n] * each if share[n] > 0.0 else 0.0
        for t in range(worth.moved.shape[0]):
            if innermost or p.keeps[k, t]:
                words, shares, fixed, read = scratch.moved[t], scratch.shares[t], p.fixed[t], worth.shares[m, t]
                for at in range(2 * loops):
                    row, moved = cost[at], worth.moved[t, at]
                    for n in range(many):
                        each = words[n] * (fixed + read * shares[n])
                        row[n] += each if each < 0.0 or innermost else each * moved
        elided, finished = 0.0, 0.0
        if innermost or p.keeps[k, output]:
            elided, finished = p.elided[m], p.finished[0]
        one_off, most_off, along = worth.off[m, 0], worth.off[m, 1], worth.off[m, 2]
        for n in range(many):
            apart, total = options.apart[scratch.option[n]], np.inf
            one_copies, most_copies = p.copies[0] * apart, p.copies[last] * apart
            one_chord = (one_copies - 1.0) / (p.inner_copies[1] - 1.0) if several else 0.0
            most_chord = (most_copies - 1.0) / (p.inner_copies[1] - 1.0) if several else 0.0
            saved = 0.0 if several else p.copy_costs[0]
            for i in range(loops):
                if worth.split[i, scratch.around[n]]:
                    low, high = cost[i, n], cost[loops + i, n]
                    more = high - low if most_chord > 0.0 else 0.0  # both may be infinite
                    one = low + one_chord * more - one_copies * elided - (one_copies - 1.0) * saved
                    one -= finished if one_copies == 1.0 else 0.0
                    all_of = low + most_chord * more - most_copies * elided - (most_copies - 1.0) * saved
                    total = min(total, one - one_off)
                    if last > 0:
                        total = min(total, min(one + along * (all_of - one), all_of) - most_off)
            verdict[n] = total > worth.room[m, scratch.edge[n]]


@inline
def _first_cycles(sweep: NetworkSweep, o: int, tile: int, m: int, t: int) -> float:
    """Cycles of the first fill or the last drain of a tensor at the next level, at least."""
    shapes, options, p, scratch = sweep.shapes, sweep.options, sweep.p, sweep.scratch
    words = float(shapes.box[t, tile])
    groups = float(options.spread[o]) * scratch.share[t]
    slower = max(p.waited_once[m, t, 0], p.waited_once[m, t, 1] * groups)
    cycles = np.ceil(words * max(0.0, slower - p.waited_once[m, t, 2]) * (1.0 - SURE))
    return float(cycles * p.waited_once[m, t, 3])


@inline
def _list_resting(sweep: NetworkSweep, o: int, tile: Ints1, mid: Ints1) -> int:
    """List shares of words that rest together at most: rows of `staying`; returns how many.

    See docs/papers/exact-mapper.md, Lemma 35.
    Each order of the innermost loops outside over the kinds of dimensions has a row; `stays`: the largest of a tensor.
    """
    c, shapes, options, p, scratch = sweep.c, sweep.shapes, sweep.options, sweep.p, sweep.scratch
    level, found, tensors, highest = p.level[0], 0, c.whole.shape[0], 0.0
    for t in range(tensors):
        scratch.stays[t], scratch.largest[t] = 0.0, 0.0
    for i in range(p.loops.shape[0]):
        scratch.most[i], scratch.steps[i] = 0.0, 1.0
        for d in range(tile.shape[0]):
            if p.loops[i, d] and shapes.passes[d, mid[d]] > 1:
                scratch.steps[i] *= shapes.passes[d, mid[d]]
                scratch.most[i] = max(scratch.most[i], shapes.resting[level, d, tile[d], options.place[o, d]])
        highest = max(highest, scratch.most[i])
    for t in range(tensors):
        scratch.comes_once[t] = 1.0
        for i in range(p.loops.shape[0]):
            scratch.comes_once[t] /= 1.0 if p.moves[i, t] else scratch.steps[i]
    for r in range(p.orders.shape[0] if highest > 0.0 else 0):
        for t in range(tensors):
            resting, moved, left = 1.0, False, False
            for at in range(p.orders.shape[1]):
                i = p.orders[r, at]
                if scratch.steps[i] == 1.0:
                    continue
                if not p.moves[i, t]:
                    left = True
                elif not (moved and left):
                    resting, moved = resting * scratch.most[i], True
            scratch.staying[found, t] = resting if moved and left and not c.windowed[t] else 0.0
            scratch.largest[t] = max(scratch.largest[t], scratch.staying[found, t])
            scratch.stays[t] = scratch.largest[t] * (1.0 - scratch.comes_once[t])
        found = _leave_largest(scratch.staying, found)
    return found


@inline
def _leave_largest(rows: Floats2, last: int) -> int:
    """Of rows up to a last one leave those that no other one is at least as large as; returns how many there are."""
    kept = 0
    for other in range(last):
        more, less = False, False
        for t in range(rows.shape[1]):
            more |= rows[last, t] > rows[other, t]
            less |= rows[last, t] < rows[other, t]
        if not more:  # so the last one has replaced none
            return last
        if less:
            for t in range(rows.shape[1]):
                rows[kept, t] = rows[other, t]
            kept += 1
    for t in range(rows.shape[1]):
        rows[kept, t] = rows[last, t]
    return kept + 1


@inline
def _sweep_contexts(sweep: NetworkSweep, o: int, tile: int, around: int, pairs: int, resting: int, noted: int) -> None:
    """Lower the costs around a network by one option, but with the pairs for which it is `noted` as not worth it."""
    c, options, p, wanted, scratch = sweep.c, sweep.options, sweep.p, sweep.wanted, sweep.scratch
    entries, first_of, place, out = sweep.entries, sweep.first_of, sweep.place, sweep.out
    level, output = p.level[0], c.output[0]
    levels, tensors = c.fanout.shape[0], c.whole.shape[0]
    innermost = level == levels - 1
    many, several = p.copies.shape[0], p.inner_copies.shape[0] > 1
    edges = p.inner_edges.shape[0]
    inner = scratch.further.shape[0] // (p.inner_copies.shape[0] * edges)  # statuses inside
    for a in range(many):
        scratch.copies[a] = p.copies[a] * options.apart[o]
        more = scratch.copies[a] - 1.0
        scratch.chord[a] = more / (p.inner_copies[1] - 1.0) if several else 0.0
        scratch.saved[a] = 0.0 if several else more * p.copy_costs[0]
    for b in range(edges):
        scratch.slot[b] = _slot(p, float(options.spread[o]) * p.inner_edges[b])
    for number in range(pairs):
        m, k, kind = scratch.pair[number, 0], scratch.pair[number, 1], scratch.pair[number, 2]
        elided, finished = 0.0, 0.0
        if noted >= 0 and scratch.worthless[scratch.pair[number, 3], noted]:
            continue
        if not wanted[around, m] or (innermost and p.reduced[around] < p.complete[m]):
            continue
        if innermost or p.keeps[k, output]:
            elided, finished = p.elided[m], p.finished[0]
        for t in range(tensors):
            scratch.each[t] = 0.0
            if innermost or p.keeps[k, t]:
                scratch.each[t] = scratch.words[t] * (p.fixed[t] + p.shares[m, t] * scratch.share[t])
        ways = _weigh_corners(sweep, m, k, p.shared[m])
        cost, further, waiting = scratch.cost, scratch.further, 0.0
        for t in range(p.waited_once.shape[1]):
            waiting += _first_cycles(sweep, o, tile, m, t) if p.keeps[k, t] else 0.0
        for q in range(cost.shape[0]):
            cost[q] = waiting
        for t in range(tensors):
            each, moves = scratch.each[t], p.moves_out[m, k] and not scratch.rests[t]
            for q in range(cost.shape[0] if each != 0.0 else 0):
                cost[q] += each if moves else scratch.factor[t, q] * each
        whole = 0
        for t in range(tensors if resting else 0):
            first = scratch.words[t] * scratch.comes_once[t] if p.keeps[k, t] else 0.0
            scratch.anyway[t] = first * (p.fixed[t] + p.unshared[m, t] * scratch.share[t])
            if scratch.largest[t] * scratch.anyway[t] > scratch.largest[whole] * scratch.anyway[whole]:
                whole = t
        for q in range(cost.shape[0] if resting else 0):
            most = -np.inf
            for r in range(resting):
                saved = 0.0
                for t in range(tensors):
                    again = scratch.factor[t, q] * scratch.each[t] - scratch.anyway[t]
                    saved += (scratch.largest[t] if t == whole else scratch.staying[r, t]) * again
                most = max(most, saved)
            cost[q] -= most
        for lane in range(further.shape[0]):
            further[lane] = 0.0
        for way in range(0 if innermost else ways):
            share = scratch.weight[way]
            if share > 0.0:
                target = p.target[m, k, kind, way]
                begin = first_of[target] + place[target, tile] * further.shape[0]
                entry = entries[begin : begin + further.shape[0]]
                for lane in range(further.shape[0]):
                    further[lane] += share * entry[lane]
        for b in range(edges):
            for a in range(many):
                less, chord = scratch.copies[a] * elided + scratch.saved[a], scratch.chord[a]
                less += finished if scratch.copies[a] == 1.0 else 0.0
                row, first = out[around, m, a, scratch.slot[b]], b * inner
                mirrored = out[p.image[around], m, a, scratch.slot[b]]
                last = first + edges * inner if several else first
                for q in range(cost.shape[0]):
                    low, high = further[first + p.inner[q]], further[last + p.inner[q]]
                    found = cost[q] + low + chord * (high - low) - less
                    row[q] = found if found < row[q] else row[q]
                    other = p.becomes[q]
                    mirrored[other] = found if found < mirrored[other] else mirrored[other]
