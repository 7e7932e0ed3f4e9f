"""Draw mappings uniformly from the valid ones, compiled.

From the outside in: at each tile shape every way that leads there was counted, so the last loop of such a way is chosen
with the share of the ways that end in it. Mapping number i depends on (key, i) alone, as in `accelsim.mapspace.kernel`.
Axis letters: B = mappings, L = levels, D = dimensions, T = tensors, P = steps, V = sums, M = moves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.mapspace.kernel import begin_stream, next_number, shuffle_orders
from accelsim.mapspace.space import SpaceArrays
from accelsim.model.detail import PARTIAL, READS, USED, Detail
from accelsim.model.encode import Batch, Bools, Constants, Floats, Ints
from accelsim.model.jit import internal, jit
from accelsim.model.kernel import VALID, evaluate_one

ENERGY, CYCLES, WORDS, UNITS = range(4)


class Ways(NamedTuple):
    """Counted ways to each tile shape, for compiled code; made by `accelsim.population.sampling.lay_ways`.

    Steps are loops of all dimensions around a tile, or what a level keeps. kind : int64[P], 0 a temporal block, 1 x, 2
    y, 3 what a level keeps; level : int64[P]; rooms : int64[P], numbers of loops or products of bounds that are told
    apart; sums : float64[V], of each step the ways before each dimension, [D, S without d, rooms, sizes of d], and
    after the last, [S, rooms]; begin : int64[P, D + 1], where these start; stride : int64[P, D + 1, D], how far sizes
    of each dimension lie apart in them; weight : float64[P, rooms], what a way counts by its room; may_rest : bool[P,
    D]; first_move : int64[P, D, sizes + 1], of each size the moves that end there; inner, bound : int64[M], of each
    move; back : int64[M, rooms], room inside, -1 if there is none; choice : int64[P + 1], where a level's choices
    begin; keep : bool[*, T], choices; fits : bool[*, S]; shape : int64[D], sizes of each dimension.
    """

    kind: Ints
    level: Ints
    rooms: Ints
    sums: Floats
    begin: Ints
    stride: Ints
    weight: Floats
    may_rest: Bools
    first_move: Ints
    inner: Ints
    bound: Ints
    back: Ints
    choice: Ints
    keep: Bools
    fits: Bools
    shape: Ints


@internal
def draw_valid(
    ways: Ways,
    space: SpaceArrays,
    key: np.uint64,
    index: int,
    temporal: Ints,
    order: Ints,
    x: Ints,
    y: Ints,
    keep: Bools,
    at: Ints,
) -> None:
    """Draw mapping number `index` of the sequence of a key.

    Parameters
    ----------
    temporal, order, x, y : int64[L, D]
        Written.
    keep : bool[L, T]
        Written.
    at : int64[D]
        Scratch.
    """
    temporal[:] = 1
    x[:] = 1
    y[:] = 1
    stream = begin_stream(key, index)
    dims = at.shape[0]
    for d in range(dims):
        at[d] = ways.shape[d] - 1
    for p in range(ways.kind.shape[0] - 1, -1, -1):
        lv = ways.level[p]
        if ways.kind[p] == 3:
            stream, u = next_number(stream)
            _draw_keep(ways, p, u, at, keep[lv])
            continue
        points = True
        for d in range(dims):
            points &= at[d] == 0
        if points:  # a tile of one point has no loops inside
            continue
        stream, u = next_number(stream)
        room, total = _draw_room(ways, p, u, at)
        for d in range(dims - 1, -1, -1):
            if at[d] == 0:
                continue
            stream, u = next_number(stream)
            start = ways.begin[p, d]
            for e in range(dims):
                start += at[e] * ways.stride[p, d, e] if e != d else 0
            step = ways.stride[p, d, d]
            row = start + room * step
            u *= total
            here = ways.sums[row + at[d]] if ways.may_rest[p, d] else 0.0
            if u < here:
                total = here
                continue
            chosen, inside, value = -1, room, here
            for m in range(ways.first_move[p, d, at[d]], ways.first_move[p, d, at[d] + 1]):
                back = ways.back[m, room]
                if back < 0:
                    continue
                value = ways.sums[start + back * step + ways.inner[m]]
                if value > 0.0:
                    chosen, inside, here = m, back, here + value
                    total = value
                    if u < here:
                        break
            if chosen >= 0:
                bound = ways.bound[chosen]
                if ways.kind[p] == 0:
                    temporal[lv, d] = bound
                elif ways.kind[p] == 1:
                    x[lv, d] = bound
                else:
                    y[lv, d] = bound
                room = inside
                at[d] = ways.inner[chosen]
    shuffle_orders(space, stream, temporal, order)


@internal
def _draw_room(ways: Ways, p: int, u: float, at: Ints) -> tuple[int, float]:
    """How many loops, or which product of bounds, by its share of the ways; and the ways before they are weighted."""
    dims = at.shape[0]
    start = ways.begin[p, dims]
    for e in range(dims):
        start += at[e] * ways.stride[p, dims, e]
    total = 0.0
    for r in range(ways.rooms[p]):
        total += ways.sums[start + r] * ways.weight[p, r]
    wanted, so_far, room = u * total, 0.0, 0
    for r in range(ways.rooms[p]):
        if ways.sums[start + r] > 0.0:
            so_far += ways.sums[start + r] * ways.weight[p, r]
            room = r
            if wanted < so_far:
                break
    return room, ways.sums[start + room]


@internal
def _draw_keep(ways: Ways, p: int, u: float, at: Ints, keep: Bools) -> None:
    """One of the choices that fit, each as likely."""
    shape, many, first, last = 0, 0, ways.choice[p], ways.choice[p + 1]
    for d in range(at.shape[0]):
        shape = shape * ways.shape[d] + at[d]
    for k in range(first, last):
        many += ways.fits[k, shape]
    number, chosen = int(u * many), first
    for k in range(first, last):
        if ways.fits[k, shape]:
            chosen = k
            if number == 0:
                break
            number -= 1
    for t in range(keep.shape[0]):
        keep[t] = ways.keep[chosen, t]


@jit
def draw_batch(ways: Ways, space: SpaceArrays, key: np.uint64, numbers: Ints, batch: Batch, at: Ints) -> None:
    """Draw the mappings of some numbers into a batch."""
    for b in range(numbers.shape[0]):
        draw_valid(
            ways, space, key, numbers[b], batch.temporal[b], batch.order[b], batch.x[b], batch.y[b], batch.keep[b], at
        )


@internal
def _evaluate_column(
    c: Constants, temporal: Ints, order: Ints, x: Ints, y: Ints, keep: Bools, s: Detail, column: Floats, b: int
) -> None:
    """Energy, cycles, outer words and units of a mapping, into column b; infinite energy if it is not valid."""
    status, energy, cycles = evaluate_one(c, temporal, order, x, y, keep, s, False)
    words = 0
    for t in range(keep.shape[1]):
        for action in range(3):
            words += s.at[0, t, READS + action] * c.word_parts[0, t, s.at[0, t, PARTIAL]]
    column[ENERGY, b] = energy if status == VALID else np.inf
    column[CYCLES, b] = float(cycles)
    column[WORDS, b] = float(words)
    column[UNITS, b] = float(s.level[temporal.shape[0], USED])


@jit
def evaluate_columns(c: Constants, batch: Batch, s: Detail, column: Floats) -> None:
    """Evaluate a batch; column : float64[4, B], as for `draw_and_evaluate`."""
    for b in range(batch.temporal.shape[0]):
        _evaluate_column(c, batch.temporal[b], batch.order[b], batch.x[b], batch.y[b], batch.keep[b], s, column, b)


@jit
def draw_and_evaluate(
    c: Constants,
    ways: Ways,
    space: SpaceArrays,
    key: np.uint64,
    first: int,
    m: Batch,
    s: Detail,
    at: Ints,
    column: Floats,
    stop: Ints,
) -> int:
    """Draw mappings from number `first` on and evaluate them; returns how many were drawn before `stop`.

    Parameters
    ----------
    m : Batch of one
        Scratch.
    column : float64[4, B]
        Written: energy [pJ], cycles, storage words read and written at the outermost level, compute units in use.
        Infinite energy where partial sums, wider than finished words, do not fit.
    """
    temporal, order, x, y, keep = m.temporal[0], m.order[0], m.x[0], m.y[0], m.keep[0]
    for b in range(column.shape[1]):
        if b % 256 == 0 and stop[0]:
            return b
        draw_valid(ways, space, key, first + b, temporal, order, x, y, keep, at)
        _evaluate_column(c, temporal, order, x, y, keep, s, column, b)
    return int(column.shape[1])
