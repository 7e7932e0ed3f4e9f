"""Draw mappings uniformly from the valid ones, and evaluate them, compiled.

From the outside in: at each tile shape every way that leads there was counted, so the last loop of such a way is chosen
with the share of the ways that end in it. Many mappings take a step together, so that the sums of one step stay in the
cache. Mapping number i depends on (key, i) alone, as in `accelsim.mapspace.kernel`. Axis letters: B = mappings, L =
levels, D = dimensions, T = tensors, P = steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accelsim.mapspace.kernel import begin_stream, next_number
from accelsim.mapspace.space import SpaceArrays
from accelsim.model.detail import INSIDE, PARTIAL, PARTS_APART, READS, SPREAD, TILE, USED, Detail
from accelsim.model.encode import Batch, Bools, Constants, Floats, Ints
from accelsim.model.jit import jit
from accelsim.model.kernel import VALID, cost, fit
from accelsim.population.ways import KEEPING, ON_X, TEMPORAL, Ways

ENERGY, CYCLES, WORDS, UNITS = range(4)


class Drawn(NamedTuple):
    """Mappings that are drawn together.

    stream : uint64[B], their generators; at : int64[B], number of the tile shape they have come to; room, inside :
    int64[B] and ways : float64[B], scratch; size : int16[P + 1, D, B], sizes of the tile inside each step, last the
    whole; number : int32[P, B], that of the tile that a level keeps parts of; chosen : int16[P, B], which.
    """

    stream: npt.NDArray[np.uint64]
    at: Ints
    room: Ints
    inside: Ints
    ways: Floats
    size: npt.NDArray[np.int16]
    number: npt.NDArray[np.int32]
    chosen: npt.NDArray[np.int16]


def make_drawn(ways: Ways, mappings: int) -> Drawn:
    """Arrays for so many mappings."""
    steps, dims = len(ways.kind), len(ways.shape)
    return Drawn(
        stream=np.zeros(mappings, np.uint64),
        at=np.zeros(mappings, np.int64),
        room=np.zeros(mappings, np.int64),
        inside=np.zeros(mappings, np.int64),
        ways=np.zeros(mappings),
        size=np.zeros((steps + 1, dims, mappings), np.int16),
        number=np.zeros((steps, mappings), np.int32),
        chosen=np.zeros((steps, mappings), np.int16),
    )


@jit
def _draw_tiles(ways: Ways, key: np.uint64, numbers: Ints, drawn: Drawn) -> None:
    """Draw the tiles and what is kept of the mappings of some numbers of the sequence of a key."""
    last, whole = ways.kind.shape[0] - 1, ways.sizes.shape[0] - 1
    for b in range(numbers.shape[0]):
        drawn.stream[b] = begin_stream(key, numbers[b])
        drawn.at[b] = whole
    for d in range(ways.shape.shape[0]):
        drawn.size[last, d] = ways.shape[d] - 1
    for p in range(last, -1, -1):
        if ways.kind[p] == KEEPING:
            _draw_keep(ways, p, drawn)
            for b in range(numbers.shape[0]):
                drawn.number[p, b] = drawn.at[b]
            if p != last:
                _stay(p, drawn)
        elif p == last - 1:
            _draw_outermost(ways, p, drawn)
        elif p == 0:
            drawn.size[p] = 0
        else:
            _draw_room(ways, p, drawn)
            for d in range(ways.shape.shape[0] - 1, -1, -1):
                _draw_loop(ways, p, d, drawn)
            for b in range(numbers.shape[0]):
                drawn.at[b] = drawn.inside[b]


@jit
def _stay(p: int, drawn: Drawn) -> None:
    """What a level keeps changes no tile."""
    for d in range(drawn.size.shape[1]):
        for b in range(drawn.size.shape[2]):
            drawn.size[p, d, b] = drawn.size[p + 1, d, b]


@jit
def _draw_keep(ways: Ways, p: int, drawn: Drawn) -> None:
    """One of the choices that fit, each as likely."""
    first = ways.choice[p]
    if ways.choice[p + 1] == first + 1:
        drawn.chosen[p] = first
        return
    for b in range(drawn.at.shape[0]):
        drawn.stream[b], u = next_number(drawn.stream[b])
        number = int(u * ways.many[p, drawn.at[b]])
        drawn.chosen[p, b] = first + ways.pick[first + number, drawn.at[b]]


@jit
def _draw_outermost(ways: Ways, p: int, drawn: Drawn) -> None:
    """The tile inside the outermost temporal block."""
    sums, last = ways.outer_sums, ways.outer_sums.shape[0] - 1
    for b in range(drawn.at.shape[0]):
        drawn.stream[b], u = next_number(drawn.stream[b])
        wanted = u * sums[last]
        part = min(int(u * (last + 1)), last)
        low, high = ways.guide[part], ways.guide[part + 1]
        while low < high:
            middle = (low + high) // 2
            if sums[middle] <= wanted:
                low = middle + 1
            else:
                high = middle
        at = min(low, last)
        drawn.at[b] = at
        for d in range(ways.shape.shape[0]):
            drawn.size[p, d, b] = ways.sizes[at, d]


@jit
def _draw_room(ways: Ways, p: int, drawn: Drawn) -> None:
    """How many loops, or which product of bounds, by its share of the ways."""
    rooms = ways.rooms[p]
    for b in range(drawn.at.shape[0]):
        drawn.inside[b], drawn.room[b] = 0, 0
        if drawn.at[b] == 0:  # a tile of one point has no loops inside
            continue
        drawn.stream[b], u = next_number(drawn.stream[b])
        start = ways.room_begin[p] + drawn.at[b] * rooms
        wanted, room = u * ways.room_sums[start + rooms - 1], 0
        for r in range(rooms):
            room += ways.room_sums[start + r] <= wanted
        drawn.room[b], drawn.ways[b] = room, ways.ways[start + room]


@jit
def _draw_loop(ways: Ways, p: int, d: int, drawn: Drawn) -> None:
    """The loop of a dimension, by the ways that end in it: none, or one around each size."""
    sizes, apart, width = ways.shape[d], ways.apart[d], ways.width[p, d]
    rows = width // sizes
    first, table_first = ways.begin[p, d], ways.to_begin[p, d]
    sums, to, to_room = ways.sums[first:], ways.to[table_first:], ways.to_room[table_first:]
    for b in range(drawn.at.shape[0]):
        size = int(drawn.size[p + 1, d, b])
        if size == 0:
            drawn.size[p, d, b] = 0
            drawn.room[b] = to_room[drawn.room[b] * sizes * (sizes + 1)]
            continue
        drawn.stream[b], u = next_number(drawn.stream[b])
        outside = drawn.at[b] - size * apart
        row = outside * rows + drawn.inside[b] * width
        table = (drawn.room[b] * sizes + size) * (sizes + 1)
        wanted, so_far, chosen = u * drawn.ways[b], 0.0, 0
        for k in range(sizes + 1):  # all of them: a branch that is mispredicted takes longer
            so_far += sums[np.uint64(row + to[np.uint64(table + k)])]
            chosen += so_far <= wanted
        drawn.ways[b] = sums[row + to[table + chosen]]
        drawn.room[b] = to_room[table + chosen]
        inside = size if chosen == 0 else chosen - 1
        drawn.size[p, d, b] = inside
        drawn.at[b] = outside
        drawn.inside[b] += inside * apart


@jit
def _place_mapping(
    ways: Ways,
    space: SpaceArrays,
    drawn: Drawn,
    b: int,
    line: Ints,
    temporal: Ints,
    order: Ints,
    x: Ints,
    y: Ints,
    keep: Bools,
) -> None:
    """Write a mapping drawn as loop bounds, and draw the order of each temporal block.

    Parameters
    ----------
    line : int64[D]
        Scratch.
    temporal, order, x, y : int64[L, D]
        Written, but x and y only of levels with a network of more than one child.
    keep : bool[L, T]
        Written.
    """
    dims, stream = temporal.shape[1], drawn.stream[b]
    for p in range(ways.kind.shape[0]):
        lv, kind = ways.level[p], ways.kind[p]
        if kind == KEEPING:
            for t in range(keep.shape[1]):
                keep[lv, t] = ways.keep[drawn.chosen[p, b], t]
            continue
        if kind != TEMPORAL:
            axis = x if kind == ON_X else y
            for d in range(dims):
                outside, inside = np.uint64(drawn.size[p + 1, d, b]), np.uint64(drawn.size[p, d, b])
                axis[lv, d] = ways.quotient[d, outside, inside]
            continue
        loops, rest = 0, dims - 1
        for d in range(dims):
            outside, inside = np.uint64(drawn.size[p + 1, d, b]), np.uint64(drawn.size[p, d, b])
            temporal[lv, d] = ways.quotient[d, outside, inside]
            is_loop = int(outside != inside)
            line[np.uint64(rest + is_loop * (loops - rest))] = d  # without a branch, which would be mispredicted
            loops += is_loop
            rest += is_loop - 1
        stream, u = next_number(stream)
        if ways.fixed[lv]:
            _draw_order(space, stream, temporal[lv], order[lv], lv)
            continue
        if loops >= ways.orders_of.shape[0] - 1:
            _draw_order(space, stream, temporal[lv], order[lv], lv)
            continue
        first = ways.orders_of[loops]
        row = first + int(u * (ways.orders_of[loops + 1] - first))
        for j in range(dims):
            order[lv, j] = line[ways.orders[row, j]]


@jit
def _draw_order(space: SpaceArrays, stream: np.uint64, temporal: Ints, order: Ints, lv: int) -> None:
    """Order of a temporal block: loops of fixed places at its ends, the others in any order, those of bound 1 last."""
    dims = temporal.shape[0]
    at, rest = 0, dims - 1
    for k in range(dims):
        d = space.outer[lv, k]
        if d >= 0 and temporal[d] > 1:
            order[at] = d
            at += 1
    start = at
    for d in range(dims):
        if temporal[d] == 1:
            order[rest] = d
            rest -= 1
        elif space.free_place[lv, d]:
            order[at] = d
            at += 1
    stream = begin_stream(stream, lv)
    for k in range(at - start, 1, -1):
        stream, u = next_number(stream)
        other = start + int(u * k)
        order[start + k - 1], order[other] = order[other], order[start + k - 1]
    for k in range(dims):
        d = space.inner[lv, k]
        if d >= 0 and temporal[d] > 1:
            order[at] = d
            at += 1


@jit
def draw_batch(
    ways: Ways, space: SpaceArrays, key: np.uint64, numbers: Ints, drawn: Drawn, line: Ints, batch: Batch
) -> None:
    """Draw the mappings of some numbers into a batch of mappings of bounds 1, by `draw_and_evaluate`'s parameters."""
    _draw_tiles(ways, key, numbers, drawn)
    for b in range(numbers.shape[0]):
        _place_mapping(
            ways, space, drawn, b, line, batch.temporal[b], batch.order[b], batch.x[b], batch.y[b], batch.keep[b]
        )


@jit
def _place_tiles(ways: Ways, c: Constants, drawn: Drawn, b: int, x: Ints, y: Ints, keep: Bools, s: Detail) -> None:
    """Write what `fit` writes of a mapping that is known to fit, with the words of tiles looked up."""
    levels, dims = x.shape
    for lv in range(levels):
        s.level[lv + 1, USED] = s.level[lv, USED]
        s.level[lv + 1, PARTS_APART] = s.level[lv, PARTS_APART]
        if c.fanout[lv, 0] * c.fanout[lv, 1] > 1:
            for d in range(dims):
                spread = x[lv, d] * y[lv, d]
                s.place[lv, d, SPREAD] = spread
                s.level[lv + 1, USED] *= spread
                s.level[lv + 1, PARTS_APART] *= spread if c.reduces[d] else 1
    for p in range(ways.kind.shape[0]):
        if ways.kind[p] == KEEPING:
            lv, at = ways.level[p], drawn.number[p, b]
            for d in range(dims):
                s.place[lv, d, INSIDE] = ways.points[d, drawn.size[p, d, b]]
            for t in range(keep.shape[1]):
                s.at[lv, t, TILE] = ways.words[at, t]
                s.at[lv, t, PARTIAL] = 0


@jit
def charge(
    c: Constants, temporal: Ints, order: Ints, x: Ints, y: Ints, keep: Bools, s: Detail, column: Floats, b: int
) -> None:
    """Energy, cycles, outer words and units of a mapping whose tiles are placed, into column b."""
    status, energy, cycles = cost(c, temporal, order, x, y, keep, s, False)
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
    """Evaluate a batch; column : float64[4, B], as for `draw_and_evaluate`, infinite for what does not fit."""
    for b in range(batch.temporal.shape[0]):
        temporal, order, x, y, keep = batch.temporal[b], batch.order[b], batch.x[b], batch.y[b], batch.keep[b]
        if fit(c, temporal, x, y, keep, s, False) == VALID:
            charge(c, temporal, order, x, y, keep, s, column, b)
        else:
            column[:, b] = np.inf


@jit
def draw_and_evaluate(
    c: Constants,
    ways: Ways,
    space: SpaceArrays,
    key: np.uint64,
    numbers: Ints,
    drawn: Drawn,
    line: Ints,
    batch: Batch,
    s: Detail,
    column: Floats,
) -> None:
    """Draw the mappings of some numbers and evaluate them.

    Parameters
    ----------
    drawn : of B mappings
        Scratch.
    line : int64[D]
        Scratch.
    batch : Batch
        Scratch for some of them; bounds are 1.
    column : float64[4, B]
        Written: energy [pJ], cycles, storage words read and written at the outermost level, compute units in use.
        Infinite energy where partial sums, wider than finished words, do not fit.
    """
    _draw_tiles(ways, key, numbers, drawn)
    some = batch.temporal.shape[0]
    for first in range(0, numbers.shape[0], some):
        many = min(some, numbers.shape[0] - first)
        for b in range(many):
            _place_mapping(
                ways, space, drawn, first + b, line, batch.temporal[b], batch.order[b], batch.x[b], batch.y[b],
                batch.keep[b],
            )  # fmt: skip
        for b in range(many):
            temporal, order, x, y, keep = batch.temporal[b], batch.order[b], batch.x[b], batch.y[b], batch.keep[b]
            _place_tiles(ways, c, drawn, first + b, x, y, keep, s)
            charge(c, temporal, order, x, y, keep, s, column, first + b)
