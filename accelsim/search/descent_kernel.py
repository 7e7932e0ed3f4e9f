"""Descend to a good mapping in compiled code: draw one, change it a little, keep the change if it pays.

Axis letters: S = slots (temporal blocks, then spatial axes of a fanout > 1), L = levels, D = dimensions, T = tensors,
K = divisors of a bound, F = free keeps. Walk number i of a key depends on (key, i) alone, so that the number of
workers changes nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accelsim.mapspace.kernel import begin_stream, next_number
from accelsim.model.detail import PARTIAL, STEPS, TILE, Detail
from accelsim.model.encode import UNLIMITED, Batch, Constants
from accelsim.model.jit import jit
from accelsim.model.kernel import VALID, asked_value, cost, fit
from accelsim.model.records import Bools1, Bools2, Bools3, Floats1, Floats2, Floats3, Ints1, Ints2, Ints3, record
from accelsim.search.value_kernel import (
    CAPACITY,
    CYCLES,
    ENERGY,
    WORDS,
    moved_units,
    offchip_words,
    value_of,
    within_limits,
)

CURRENT, CHANGED, BEST = range(3)
"""Rows of a walk's mappings."""
MANY_DRAWN = 32
"""Mappings that are drawn for one walk; it starts from the best."""
OVERFLOW = 3.0
"""Weight of ln(what is needed / what there is) in the cost of a mapping that breaks limits."""
TIE = 0.05
"""Weight of energy and of the cycles of the compute units where cycles count: most steps change no bottleneck."""
HOTTEST, COLDEST = 0.4, 1e-3
"""Temperatures at the beginning and the end of a walk, of ln(objective)."""
BY_ENERGY = 4
"""Where energy and more count, one of so many walks descends on energy alone: few steps lower a product of both."""
TINY = 1e-300


@record
class Choices(NamedTuple):
    """A map space as walks see it; made by `descent.choices_of`."""

    divisor: Ints2
    """int64[D, K]: divisors of each dimension's bound, ascending, then ones."""
    many: Ints1
    """int64[D]: how many divisors the bound has."""
    product: Ints3
    """int64[D, K, K]: number of the divisor that is the product of two divisors, -1 if there is none."""
    quotient: Ints3
    """int64[D, K, K]: number of the divisor that is the first divisor over the second, -1 if there is none."""
    allowed: Bools3
    """bool[S, D, K]: whether the constraints allow the divisor as the bound of the dimension's loop in a slot."""
    ways: Floats3
    """float64[D, S + 1, K]: factorisations of the divisor over slots s, s + 1 ... that the constraints allow."""
    slot: Ints2
    """int64[S, 2]: level of the slot; and 0 for its temporal block, 1 for its axis x, 2 for its axis y."""
    order: Ints2
    """int64[L, D]: all dimensions of a temporal block, with the dimensions of fixed places at both ends."""
    free_span: Ints2
    """int64[L, 2]: where the dimensions with free places begin and end in `order`."""
    keep: Bools2
    """bool[L, T]: tensors that the level keeps in every mapping."""
    free: Ints2
    """int64[F, 2]: level and tensor of each choice between keep and bypass."""
    required: Bools2
    """bool[L, T]: at the last storage node of a level, whether one of its nodes must keep the tensor."""
    most: Floats1
    """float64[3]: largest energy [pJ], cycles and off-chip words that the constraints allow."""
    terms: Floats2
    """float64[*, 6]: products of the objective, as `value_of` reads them."""
    tie: Bools1
    """bool[1]: whether the objective depends on cycles or off-chip words."""
    with_energy: Bools1
    """bool[1]: whether the objective depends on energy."""
    held_level: Ints1
    """int64[1]: level whose words held are a column of the objective."""


@record
class Walk(NamedTuple):
    """The mappings of a walk, one row each for the current one, the changed one, and the best valid one so far."""

    at: Ints3
    """int64[3, S, D]: factor of each dimension in a slot, as the number of its divisor."""
    rank: Ints3
    """int64[3, L, D]: order of all dimensions of a temporal block, also of those without a loop there."""
    mapping: Batch
    """Batch of 3: the mappings."""
    value: Floats1
    """float64[3]: value of the objective, infinite if the mapping is not valid."""
    tie: Floats1
    """float64[3] [pJ]: energy, which decides between mappings of equal value."""
    steps: Floats1
    """float64[3]: ln of the steps of the compute units."""
    column: Floats2
    """float64[3, 4]: energy [pJ], cycles, off-chip words, and words held at `Choices.held_level`."""


@jit
def _copy_row(w: Walk, i: int, j: int) -> None:
    for slot in range(w.at.shape[1]):
        for d in range(w.at.shape[2]):
            w.at[j, slot, d] = w.at[i, slot, d]
    m = w.mapping
    for lv in range(w.rank.shape[1]):
        for d in range(w.rank.shape[2]):
            w.rank[j, lv, d] = w.rank[i, lv, d]
            m.temporal[j, lv, d], m.order[j, lv, d] = m.temporal[i, lv, d], m.order[i, lv, d]
            m.x[j, lv, d], m.y[j, lv, d] = m.x[i, lv, d], m.y[i, lv, d]
        for t in range(m.keep.shape[2]):
            m.keep[j, lv, t] = m.keep[i, lv, t]
    w.value[j], w.tie[j], w.steps[j] = w.value[i], w.tie[i], w.steps[i]
    for k in range(4):
        w.column[j, k] = w.column[i, k]


@jit
def _place(g: Choices, w: Walk, row: int, slot: int, d: int, k: int) -> None:
    """Give a slot a factor of a dimension."""
    w.at[row, slot, d] = k
    level, bound = g.slot[slot, 0], g.divisor[d, k]
    if g.slot[slot, 1] == 0:
        w.mapping.temporal[row, level, d] = bound
    elif g.slot[slot, 1] == 1:
        w.mapping.x[row, level, d] = bound
    else:
        w.mapping.y[row, level, d] = bound


@jit
def _arrange(w: Walk, row: int, level: int) -> None:
    """Write the order of a block: loops of bound > 1 by rank, then the others."""
    dims = w.rank.shape[2]
    at, rest = 0, dims
    for j in range(dims):
        d = w.rank[row, level, j]
        if w.mapping.temporal[row, level, d] > 1:
            w.mapping.order[row, level, at] = d
            at += 1
        else:
            rest -= 1
            w.mapping.order[row, level, rest] = d


@jit
def _below(stream: np.uint64, n: int) -> tuple[np.uint64, int]:
    """Next state and an integer in 0 ... n - 1."""
    stream, u = next_number(stream)
    return stream, int(u * n)


@jit
def _draw(c: Constants, g: Choices, w: Walk, row: int, stream: np.uint64) -> np.uint64:
    """Draw a mapping: each dimension's factorisation, each block's order and what is kept, independently."""
    slots, dims = w.at.shape[1:]
    for d in range(dims):
        rest = g.many[d] - 1
        for slot in range(slots):
            stream, u = next_number(stream)
            wanted, chosen = u * g.ways[d, slot, rest], 0
            for k in range(g.many[d]):
                left = g.quotient[d, rest, k]
                if left >= 0 and g.allowed[slot, d, k] and g.ways[d, slot + 1, left] > 0.0:
                    chosen = k
                    wanted -= g.ways[d, slot + 1, left]
                    if wanted < 0.0:
                        break
            _place(g, w, row, slot, d, chosen)
            rest = g.quotient[d, rest, chosen]
    for level in range(g.order.shape[0]):
        for j in range(dims):
            w.rank[row, level, j] = g.order[level, j]
        first, end = g.free_span[level, 0], g.free_span[level, 1]
        for last in range(end - 1, first, -1):
            stream, at = _below(stream, last - first + 1)
            at += first
            w.rank[row, level, last], w.rank[row, level, at] = w.rank[row, level, at], w.rank[row, level, last]
        _arrange(w, row, level)
    for level in range(g.keep.shape[0]):
        for t in range(g.keep.shape[1]):
            w.mapping.keep[row, level, t] = g.keep[level, t]
    for f in range(g.free.shape[0]):
        stream, u = next_number(stream)
        level, t = g.free[f, 0], g.free[f, 1]
        if u < 0.5 or (g.required[level, t] and not _is_kept(c, w, row, level, t)):
            _keep(c, w, row, level, t)
    return stream


@jit
def _is_kept(c: Constants, w: Walk, row: int, level: int, t: int) -> bool:
    """Whether any storage node of a level keeps a tensor."""
    found = False
    for node in range(c.nodes[level, 0], c.nodes[level, 1]):
        found |= w.mapping.keep[row, node, t]
    return found


@jit
def _keep(c: Constants, w: Walk, row: int, level: int, t: int) -> None:
    """Keep a tensor at one storage node of a level, and at none other of it."""
    for node in range(c.nodes[level, 0], c.nodes[level, 1]):
        w.mapping.keep[row, node, t] = node == level


@jit
def _overflow(c: Constants, g: Choices, w: Walk, row: int, s: Detail) -> float:
    """How far a mapping breaks its limits: the product of all ratios above 1."""
    x, y, keep = w.mapping.x[row], w.mapping.y[row], w.mapping.keep[row]
    found, held = 1.0, 0.0
    for lv in range(x.shape[0]):
        across, down = 1.0, 1.0
        for d in range(x.shape[1]):
            across *= float(x[lv, d])
            down *= float(y[lv, d])
        found *= max(1.0, across / float(c.fanout[lv, 0])) * max(1.0, down / float(c.fanout[lv, 1]))
        if lv == c.nodes[lv, 0]:
            held = 0.0
        for t in range(keep.shape[1]):
            if keep[lv, t]:
                held += float(s.at[lv, t, TILE] * c.word_parts[lv, t, s.at[lv, t, PARTIAL]])
        if lv == c.nodes[lv, 1] - 1 and c.capacity[lv] != UNLIMITED:
            found *= max(1.0, held / max(float(c.capacity[lv]), 0.5))
        if lv == c.nodes[lv, 0] and c.partitioned[lv]:
            for role in range(c.partition.shape[1]):
                part = 0.0
                for node in range(lv, c.nodes[lv, 1]):
                    for t in range(keep.shape[1]):
                        if keep[node, t] and c.role[t] == role:
                            part += float(s.at[node, t, TILE] * c.word_parts[node, t, s.at[node, t, PARTIAL]])
                if c.partition[lv, role] != UNLIMITED:
                    found *= max(1.0, part / max(float(c.partition[lv, role]), 0.5))
    for r in range(c.asked.shape[0]):
        value = float(asked_value(c, r, w.mapping, row, s))
        if value > 0.0:
            found *= max(1.0, float(c.asked[r, 2]) / value, value / float(c.asked[r, 3]))
    for k in range(3):
        found *= max(1.0, w.column[row, k] / g.most[k])
    return found


@jit
def _judge(c: Constants, g: Choices, w: Walk, row: int, s: Detail, by_energy: bool) -> float:
    """Evaluate a mapping: its columns, its value, and what the walk descends on.

    That is ln(objective), or ln(energy) if `by_energy`, with what it breaks.
    """
    keep, level = w.mapping.keep[row], g.held_level[0]
    status = fit(c, w.mapping, row, s, True)
    late, energy, cycles = cost(c, w.mapping, row, s, False)
    held = 0
    for t in range(keep.shape[1]):
        if keep[level, t]:
            held += s.at[level, t, TILE] * c.word_parts[level, t, s.at[level, t, PARTIAL]]
    column = w.column[row]
    words = offchip_words(c, moved_units(c, s))
    column[ENERGY], column[CYCLES], column[WORDS], column[CAPACITY] = energy, cycles, words, held
    value = value_of(g.terms, column[ENERGY], column[CYCLES], column[WORDS], column[CAPACITY])
    goal = math.log(max(energy if by_energy else value, TINY))
    valid = status == VALID and late == VALID and within_limits(g.most, energy, float(cycles), words)
    w.value[row], w.tie[row] = np.inf, energy
    if valid:
        w.value[row] = value
    else:
        goal += OVERFLOW * math.log(_overflow(c, g, w, row, s))
    w.steps[row] = math.log(float(s.level[c.fanout.shape[0], STEPS]))
    if g.tie[0]:
        goal += TIE * (math.log(max(energy, TINY)) + w.steps[row])
    return goal


@jit
def misses(c: Constants, g: Choices, w: Walk, s: Detail, found: Floats1) -> None:
    """Note by which factor each mapping of some breaks its limits, 1 if it is valid: float64[rows]."""
    for row in range(found.shape[0]):
        _judge(c, g, w, row, s, False)
        found[row] = 1.0 if w.value[row] < np.inf else _overflow(c, g, w, row, s)


@jit
def _pick_divisor(g: Choices, w: Walk, row: int, slot: int, d: int, stream: np.uint64) -> tuple[np.uint64, int]:
    """Choose a divisor above 1 of a slot's factor; 0 if that is 1."""
    here, many = w.at[row, slot, d], 0
    for k in range(1, here + 1):
        many += g.quotient[d, here, k] >= 0
    if many == 0:
        return stream, 0
    stream, wanted = _below(stream, many)
    for k in range(1, here + 1):
        if g.quotient[d, here, k] >= 0:
            if wanted == 0:
                return stream, k
            wanted -= 1
    return stream, 0


@jit
def _move_rank(w: Walk, row: int, level: int, start: int, end: int) -> None:
    """Move the dimension at one rank of a block to another one."""
    step = 1 if end > start else -1
    for j in range(start, end, step):
        w.rank[row, level, j], w.rank[row, level, j + step] = w.rank[row, level, j + step], w.rank[row, level, j]


@jit
def _shift(g: Choices, w: Walk, row: int, d: int, k: int, a: int, b: int, stream: np.uint64) -> tuple[np.uint64, bool]:
    """Move a factor of a dimension from one slot to another; a new loop in time takes any free place."""
    left, more = g.quotient[d, w.at[row, a, d], k], g.product[d, w.at[row, b, d], k]
    if left < 0 or more < 0 or not g.allowed[a, d, left] or not g.allowed[b, d, more]:
        return stream, False
    is_new = w.at[row, b, d] == 0
    _place(g, w, row, a, d, left)
    _place(g, w, row, b, d, more)
    if g.slot[b, 1] == 0:
        level = g.slot[b, 0]
        first, end = g.free_span[level, 0], g.free_span[level, 1]
        if is_new and end - first > 1:
            for j in range(first, end):
                if w.rank[row, level, j] == d:
                    stream, at = _below(stream, end - first)
                    _move_rank(w, row, level, j, first + at)
                    break
        _arrange(w, row, level)
    if g.slot[a, 1] == 0:
        _arrange(w, row, g.slot[a, 0])
    return stream, True


@jit
def _change_factors(g: Choices, w: Walk, row: int, stream: np.uint64, exchange: bool) -> tuple[np.uint64, bool]:
    """Move a factor between two slots; with `exchange`, another one the other way."""
    slots, dims = w.at.shape[1:]
    if slots < 2:
        return stream, False
    stream, d = _below(stream, dims)
    stream, a = _below(stream, slots)
    for _ in range(slots):  # a slot with a loop of the dimension
        if w.at[row, a, d] > 0:
            break
        a = (a + 1) % slots
    stream, b = _below(stream, slots - 1)
    b += b >= a
    stream, k = _pick_divisor(g, w, row, a, d, stream)
    if k == 0:
        return stream, False
    stream, done = _shift(g, w, row, d, k, a, b, stream)
    if not exchange or not done:
        return stream, done
    stream, other = _below(stream, dims)
    for _ in range(dims):
        if w.at[row, b, other] > 0 and other != d:
            break
        other = (other + 1) % dims
    stream, k = _pick_divisor(g, w, row, b, other, stream)
    if k == 0:
        return stream, False
    return _shift(g, w, row, other, k, b, a, stream)


@jit
def _change_order(c: Constants, g: Choices, w: Walk, row: int, stream: np.uint64) -> tuple[np.uint64, bool]:
    """Move a loop of a block, or put the loops that a tensor does not depend on innermost."""
    stream, level = _below(stream, w.rank.shape[1])
    first, end = g.free_span[level, 0], g.free_span[level, 1]
    many = 0
    for j in range(first, end):
        many += w.mapping.temporal[row, level, w.rank[row, level, j]] > 1
    if many < 2:
        return stream, False
    stream, kind = _below(stream, 3)
    if kind == 0:
        stream, t = _below(stream, c.relevant.shape[0])
        last = end - 1
        for _ in range(end - first):  # those that do not move the tensor go to the end, one after the other
            moved = False
            for j in range(last, first - 1, -1):
                if not c.relevant[t, w.rank[row, level, j]]:
                    _move_rank(w, row, level, j, last)
                    last -= 1
                    moved = True
                    break
            if not moved:
                break
    else:
        stream, start = _below(stream, end - first)
        for _ in range(end - first):
            if w.mapping.temporal[row, level, w.rank[row, level, first + start]] > 1:
                break
            start = (start + 1) % (end - first)
        stream, to = _below(stream, end - first)
        if to == start:
            return stream, False
        _move_rank(w, row, level, first + start, first + to)
    _arrange(w, row, level)
    return stream, True


@jit
def _give_axis(c: Constants, g: Choices, w: Walk, row: int, stream: np.uint64) -> tuple[np.uint64, bool]:
    """Give a spatial axis to one dimension: the factors of all others go to another slot, its own come from there.

    What is left of the axis is filled with factors from any slot.
    """
    slots, dims = w.at.shape[1:]
    stream, a = _below(stream, slots)
    for _ in range(slots):
        if g.slot[a, 1] != 0:
            break
        a = (a + 1) % slots
    if g.slot[a, 1] == 0:
        return stream, False
    stream, d = _below(stream, dims)
    stream, b = _below(stream, slots - 1)
    b += b >= a
    changed = False
    for e in range(dims):
        if e != d and w.at[row, a, e] > 0:
            stream, changed = _shift(g, w, row, e, w.at[row, a, e], a, b, stream)
            if not changed:
                return stream, False
    size = c.fanout[g.slot[a, 0], g.slot[a, 1] - 1]
    for step in range(slots):
        other = (b + step) % slots
        for k in range(w.at[row, other, d] if other != a else 0, 0, -1):
            if g.divisor[d, w.at[row, a, d]] * g.divisor[d, k] <= size and g.quotient[d, w.at[row, other, d], k] >= 0:
                stream, done = _shift(g, w, row, d, k, other, a, stream)
                changed |= done
                if done:
                    break
    return stream, changed


@jit
def _change(c: Constants, g: Choices, w: Walk, row: int, stream: np.uint64) -> tuple[np.uint64, bool]:
    """Change a mapping a little; False if nothing changed or the constraints forbid it."""
    stream, u = next_number(stream)
    if u < 0.12 and g.free.shape[0] > 0:
        stream, f = _below(stream, g.free.shape[0])
        level, t = g.free[f, 0], g.free[f, 1]
        if not w.mapping.keep[row, level, t]:
            _keep(c, w, row, level, t)
            return stream, True
        w.mapping.keep[row, level, t] = g.required[c.nodes[level, 1] - 1, t]
        return stream, not g.required[c.nodes[level, 1] - 1, t]
    if u < 0.35:
        return _change_order(c, g, w, row, stream)
    if u < 0.4:
        return _give_axis(c, g, w, row, stream)
    return _change_factors(g, w, row, stream, u > 0.75)


@jit
def walk(c: Constants, g: Choices, w: Walk, s: Detail, key: np.uint64, number: int, steps: int, stop: Ints1) -> int:
    """Walk from the best of some drawn mappings downhill, at first also uphill; the best valid one is in row BEST.

    A step is one mapping evaluated. Worse ones are accepted with the probability exp(-difference / temperature)
    (Kirkpatrick, Gelatt, Vecchi, Science 220, 1983), the temperature falling from step to step. Walks of odd numbers
    fill the fanout first: while it is hot, few steps of the compute units count as much as the objective. The mapping
    that is kept has the best objective, whatever a walk descends on.

    Returns
    -------
    int
        Mappings evaluated.
    """
    stream = begin_stream(key, number)
    here, there = CURRENT, CHANGED
    goal = np.inf
    by_energy = g.tie[0] and g.with_energy[0] and number % BY_ENERGY == BY_ENERGY - 1
    for _ in range(MANY_DRAWN):
        stream = _draw(c, g, w, there, stream)
        drawn = _judge(c, g, w, there, s, by_energy)
        if w.value[there] < w.value[BEST]:
            _copy_row(w, there, BEST)
        if drawn < goal:
            goal = drawn
            here, there = there, here
    temperature, cooling = HOTTEST, (COLDEST / HOTTEST) ** (1.0 / max(1, steps))
    for step in range(steps):
        if step % 256 == 0 and stop[0]:
            return MANY_DRAWN + step
        temperature *= cooling
        _copy_row(w, here, there)
        stream, changed = _change(c, g, w, there, stream)
        if not changed:
            continue
        reached = _judge(c, g, w, there, s, by_energy)
        worse = reached - goal
        if number % 2 == 1:
            worse += temperature / HOTTEST * (w.steps[there] - w.steps[here])
        stream, u = next_number(stream)
        if worse <= 0.0 or u < math.exp(-worse / temperature):
            goal = reached
            here, there = there, here
            best = w.value[BEST]
            if w.value[here] < best or (w.value[here] == best and w.tie[here] < w.tie[BEST]):
                _copy_row(w, here, BEST)
    return MANY_DRAWN + steps
