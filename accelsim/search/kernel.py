"""Search loops in compiled code: draw or enumerate mappings, evaluate them, keep the best and the books.

Axis letters as in `accelsim.mapspace.space`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.mapspace.kernel import draw, gather_order, keep_required, place_row
from accelsim.mapspace.space import SpaceArrays
from accelsim.model.detail import Detail
from accelsim.model.encode import Batch, Constants, Encoded, empty_batch
from accelsim.model.jit import jit
from accelsim.model.kernel import RULES, UTILIZATION, VALID, cost, evaluate_one, fit
from accelsim.model.records import Bools2, Floats1, Floats2, Ints1, Ints2, record
from accelsim.search.value_kernel import moved_units, offchip_words, value_of, within_limits

POLL = 512


@record
class PieceTally(NamedTuple):
    """What one piece of a search has seen."""

    best: Batch
    """Batch of one: the best valid mapping so far."""
    value: Floats1
    """float64[2]: value of the objective of that mapping, and the smallest energy of a valid mapping [pJ]."""
    tally: Ints1
    """int64[*]: mappings by status, a rule + RULES x the level that breaks it."""


def make_tally(encoded: Encoded) -> PieceTally:
    """Empty books."""
    levels = len(encoded.architecture.levels)
    return PieceTally(empty_batch(encoded, 1), np.full(2, np.inf), np.zeros(RULES * levels, np.int64))


@jit
def _book(
    books: PieceTally, energy: float, value: float, temporal: Ints2, order: Ints2, x: Ints2, y: Ints2, keep: Bools2
) -> None:
    """Enter a valid mapping; of equally good ones the first counts."""
    books.value[1] = min(books.value[1], energy)
    if value < books.value[0]:
        books.value[0] = value
        for lv in range(temporal.shape[0]):
            for d in range(temporal.shape[1]):
                books.best.temporal[0, lv, d] = temporal[lv, d]
                books.best.order[0, lv, d] = order[lv, d]
                books.best.x[0, lv, d] = x[lv, d]
                books.best.y[0, lv, d] = y[lv, d]
            for t in range(keep.shape[1]):
                books.best.keep[0, lv, t] = keep[lv, t]


@jit
def search_draws(
    c: Constants,
    space: SpaceArrays,
    key: np.uint64,
    first: int,
    count: int,
    terms: Floats2,
    books: PieceTally,
    m: Batch,
    s: Detail,
    stop: Ints1,
) -> int:
    """Evaluate the mappings numbered first … first + count - 1 of a draw; returns how many were seen before `stop`."""
    temporal, order, x, y, keep = m.temporal[0], m.order[0], m.x[0], m.y[0], m.keep[0]
    for i in range(count):
        if i % POLL == 0 and stop[0]:
            return i
        draw(space, key, first + i, m, 0)
        status, energy, cycles = evaluate_one(c, m, 0, s, False)
        words = offchip_words(c, moved_units(c, s))
        if status == VALID and not within_limits(space.most, energy, float(cycles), words):
            status = UTILIZATION
        books.tally[status] += 1
        if status == VALID:
            value = value_of(terms, energy, float(cycles), words, 0.0)
            _book(books, energy, value, temporal, order, x, y, keep)
    return count


@jit
def _next_permutation(order: Ints2, lv: int, start: int, loops: int) -> bool:
    """Advance the free loops of a block to their next order; False, and back to the first one, after the last."""
    at = start + loops - 2
    while at >= start and order[lv, at] > order[lv, at + 1]:
        at -= 1
    low, high = at + 1, start + loops - 1
    while low < high:
        order[lv, low], order[lv, high] = order[lv, high], order[lv, low]
        low += 1
        high -= 1
    if at < start:
        return False
    swap = at + 1
    while order[lv, swap] < order[lv, at]:
        swap += 1
    order[lv, at], order[lv, swap] = order[lv, swap], order[lv, at]
    return True


@jit
def next_order(order: Ints2, starts: Ints1, loops: Ints1) -> bool:
    """Advance to the next order of all blocks, the innermost first; False after the last."""
    for lv in range(order.shape[0] - 1, -1, -1):
        if loops[lv] > 1 and _next_permutation(order, lv, starts[lv], loops[lv]):
            return True
    return False


@jit
def search_all(
    c: Constants,
    space: SpaceArrays,
    first: int,
    last: int,
    terms: Floats2,
    books: PieceTally,
    m: Batch,
    s: Detail,
    stop: Ints1,
) -> int:
    """Evaluate all orders of the tilings numbered first … last - 1; returns how many mappings were seen before `stop`.

    A tiling is one choice of what is kept and of the factorisation of each dimension. One that does not fit is rejected
    with all of its orders at once.
    """
    temporal, order, x, y, keep = m.temporal[0], m.order[0], m.x[0], m.y[0], m.keep[0]
    levels = temporal.shape[0]
    starts, loops = np.zeros(levels, np.int64), np.zeros(levels, np.int64)
    seen = 0
    for tiling in range(first, last):
        rest = tiling
        temporal[:] = 1
        x[:] = 1
        y[:] = 1
        for d in range(space.dims.shape[0] - 1, -1, -1):
            rows = space.first[d + 1] - space.first[d]
            place_row(space, space.first[d] + rest % rows, space.dims[d], m, 0)
            rest //= rows
        keep_required(space, m, 0)
        for f in range(space.free.shape[0]):
            keep[space.free[f, 0], space.free[f, 1]] = (rest >> f) & 1
        orders = 1
        for lv in range(levels):
            starts[lv], loops[lv] = gather_order(space, m, 0, lv)
            for k in range(2, loops[lv] + 1):
                orders *= k
        status = fit(c, m, 0, s, False)
        if status != VALID:
            if stop[0]:
                return seen
            books.tally[status] += orders
            seen += orders
            continue
        while True:
            if seen % POLL == 0 and stop[0]:
                return seen
            seen += 1
            status, energy, cycles = cost(c, m, 0, s, False)
            words = offchip_words(c, moved_units(c, s))
            if status == VALID and not within_limits(space.most, energy, float(cycles), words):
                status = UTILIZATION
            books.tally[status] += 1
            if status == VALID:
                value = value_of(terms, energy, float(cycles), words, 0.0)
                _book(books, energy, value, temporal, order, x, y, keep)
            if not next_order(order, starts, loops):
                break
    return seen
