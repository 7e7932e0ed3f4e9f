"""Counted ways to each tile shape, laid out for drawing.

Axis letters as in `accelsim.population.steps`; P = steps, V = sums, J = sizes of a dimension.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from accelsim.inputs.errors import AccelsimError, NoValidMapping
from accelsim.model.encode import Bools, Floats, Ints
from accelsim.population.counting import put_loops
from accelsim.population.steps import Keeping, LoopStep, Nest

MOST_SUMS = 400_000_000
"""Sums that are kept for drawing, at most: 3.2 GB."""
LOOPS = 6
"""Of a temporal block: up to so many, all orders are listed."""
TEMPORAL, ON_X, ON_Y, KEEPING = range(4)


class Ways(NamedTuple):
    """Counted ways to each tile shape, for compiled code.

    Steps are loops of all dimensions around a tile, or what a level keeps. Between a first and a last step each has
    *rooms*: numbers of loops, or products of bounds, that are told apart.

    kind : int64[P], TEMPORAL, ON_X, ON_Y or KEEPING; level : int64[P]; shape : int64[D], sizes of each dimension; apart
    : int64[D], how far these lie apart in the number of a shape; sizes : int64[S, D], which they are in each shape;
    quotient : int64[D, J, J], of a size and one inside;
    outer_ways, outer_sums : float64[S], ways that lead through each of these, and the same added up; guide : int64[S +
    1], the first of them for each equal part of the ways.

    room_sums : float64[V], of each step [S, rooms], ways from its tile inwards, weighted and added up over rooms; ways
    : float64[V], the same as they are; room_begin, rooms : int64[P], where these start, and how many there are. sums :
    float64[V], of each step the ways before each dimension, [S without d, rooms and one without ways, J]; begin, width
    : int64[P, D], where these start, and the length of a row. to, to_room : int32[*], of each step and dimension [rooms
    outside, J outside, 1 + J]: where in a row no loop leads, then a loop from each size, and the room there; to_begin :
    int64[P, D].

    points : int64[D, J], each size in points; words : int64[S, T], words in it. fixed :
    bool[L], whether dimensions have a fixed place in a temporal block; orders : int64[*, D], all orders of no
    loop, of one and so on, those of bound 1 after them; orders_of : int64[*], where those of so many loops begin.

    choice : int64[P + 1], where a level's choices begin; keep : bool[*, T], choices; many : int64[P, S], choices that
    fit; pick : int64[*, S], their numbers first.
    """

    kind: Ints
    level: Ints
    shape: Ints
    apart: Ints
    sizes: Ints
    quotient: Ints
    outer_ways: Floats
    outer_sums: Floats
    guide: Ints
    room_sums: Floats
    ways: Floats
    room_begin: Ints
    rooms: Ints
    sums: Floats
    begin: Ints
    width: Ints
    to: npt.NDArray[np.int32]
    to_room: npt.NDArray[np.int32]
    to_begin: Ints
    points: Ints
    words: Ints
    fixed: Bools
    orders: Ints
    orders_of: Ints
    choice: Ints
    keep: Bools
    many: Ints
    pick: Ints


class _Rows:
    """Arrays laid one behind the other."""

    def __init__(self, dtype: Any) -> None:
        self.parts: list[npt.NDArray[Any]] = [np.zeros(0, dtype)]
        self.dtype, self.at = dtype, 0

    def add(self, part: npt.NDArray[Any]) -> int:
        """Lay one more; returns where it starts."""
        start = self.at
        self.parts.append(np.ascontiguousarray(part, self.dtype).reshape(-1))
        self.at += part.size
        return start

    def together(self) -> npt.NDArray[Any]:
        return np.concatenate(self.parts)


def lay_ways(nest: Nest) -> Ways:
    """Count the ways to each tile shape as floats, and lay them out for the kernel.

    Raises
    ------
    NoValidMapping
        If there is none.
    AccelsimError
        If there are too many tile shapes.
    """
    steps, dims, shapes = nest.steps, len(nest.shape), math.prod(nest.shape)
    outermost = len(steps) - 2
    _refuse_too_many(nest, outermost)
    kind, level = np.zeros(len(steps), np.int64), np.zeros(len(steps), np.int64)
    rooms, room_begin = np.zeros(len(steps), np.int64), np.zeros(len(steps), np.int64)
    begin, width, to_begin = (np.zeros((len(steps), dims), np.int64) for _ in range(3))
    choice, many = np.zeros(len(steps) + 1, np.int64), np.zeros((len(steps), shapes), np.int64)
    sums, ways, room_sums, to, to_room = _Rows(float), _Rows(float), _Rows(float), _Rows(np.int32), _Rows(np.int32)
    keeps, picks = [], []
    outermost_ways: Floats = np.zeros(shapes)
    values: Floats = np.zeros((1, *nest.shape))
    values.reshape(-1)[0] = 1.0
    for p, step in enumerate(steps):
        choice[p + 1] = choice[p]
        level[p] = step.level if isinstance(step, Keeping) else step.slot.level
        if isinstance(step, Keeping):
            kind[p] = KEEPING
            keeps.append(step.keeps)
            picks.append(np.argsort(~step.fits, axis=0, kind="stable").reshape(len(step.keeps), -1))
            many[p] = step.choices.reshape(-1)
            choice[p + 1] += len(step.keeps)
            values = values * step.choices
            continue
        kind[p] = ("", "x", "y").index(step.slot.axis)
        if p == outermost:
            outermost_ways = (values[0] * _ways_to_the_whole(nest, step)).reshape(-1)
            continue
        trace: list[Floats] = []
        values = put_loops(step, values, trace)
        if step.slot.axis:
            values = values[:, step.wanted].sum(axis=1)
        if not p:  # all loops that are left stand there
            continue
        used = [np.flatnonzero(state.reshape(len(state), -1).any(axis=1)) for state in trace]
        rooms[p] = len(used[dims])
        last = np.moveaxis(trace[dims][used[dims]], 0, -1)
        room_begin[p] = ways.add(last)
        room_sums.add(np.cumsum(last * _weights(step)[used[dims]], axis=-1))
        for d in range(dims):
            laid = np.zeros((*np.delete(nest.shape, d), len(used[d]) + 1, nest.shape[d]))
            laid[..., :-1, :] = np.moveaxis(np.moveaxis(trace[d][used[d]], 0, -1), d, -1)
            begin[p, d], width[p, d] = sums.add(laid), (len(used[d]) + 1) * nest.shape[d]
            table = _to(step, d, used[d], used[d + 1], nest.shape[d])
            to_begin[p, d] = to.add(table)
            to_room.add(table // nest.shape[d])
    if not (outermost_ways.any() and many[-1, -1] > 0):
        raise NoValidMapping("no mapping is valid")
    most = min(dims, LOOPS)
    orders = [(*order, *range(k, dims)) for k in range(most + 1) for order in itertools.permutations(range(k))]
    return Ways(
        kind=kind,
        level=level,
        shape=np.array(nest.shape, np.int64),
        apart=np.array([math.prod(nest.shape[d + 1 :]) for d in range(dims)], np.int64),
        sizes=np.ascontiguousarray(np.indices(nest.shape).reshape(dims, -1).T, np.int64),
        quotient=_quotients(nest),
        outer_ways=outermost_ways,
        outer_sums=np.cumsum(outermost_ways),
        guide=_guide(np.cumsum(outermost_ways)),
        room_sums=room_sums.together(),
        ways=ways.together(),
        room_begin=room_begin,
        rooms=rooms,
        sums=sums.together(),
        begin=begin,
        width=width,
        to=to.together(),
        to_room=to_room.together(),
        to_begin=to_begin,
        points=np.array([[*sizes, *[0] * (max(nest.shape) - len(sizes))] for sizes in nest.sizes], np.int64),
        words=np.ascontiguousarray(nest.words.reshape(len(nest.words), -1).T),
        fixed=np.any(~nest.space.arrays.free_place, axis=1),
        orders=np.array(orders, np.int64),
        orders_of=np.array([sum(math.factorial(j) for j in range(k)) for k in range(most + 2)], np.int64),
        choice=choice,
        keep=np.concatenate(keeps),
        many=many,
        pick=np.concatenate(picks),
    )


def _guide(sums: Floats) -> Ints:
    """The first number beyond each equal part of the last one: int64[S + 1]."""
    guide: Ints = np.searchsorted(sums, np.arange(len(sums) + 1) / len(sums) * sums[-1], side="right")
    guide[-1] = len(sums) - 1
    return guide


def _refuse_too_many(nest: Nest, outermost: int) -> None:
    shapes, dims = math.prod(nest.shape), len(nest.shape)
    rooms = [len(_weights(step)) for step in nest.steps[1:outermost] if isinstance(step, LoopStep)]
    total = shapes * (1 + sum((dims + 2) * r for r in rooms))
    if total > MOST_SUMS:
        raise AccelsimError(
            f"{shapes:,} tile shapes need {total / 1e9:.1f}e9 numbers to draw mappings from, more than "
            f"{MOST_SUMS / 1e9:.1f}e9; constrain the map space"
        )


def _weights(step: LoopStep) -> Floats:
    """What a way counts by its room: the orders of so many loops, or whether a product of bounds is wanted."""
    if step.slot.axis:
        return np.array(step.wanted, float)
    return np.array([math.factorial(k) for k in range(1 + sum(step.free))], float)


def _ways_to_the_whole(nest: Nest, step: LoopStep) -> Floats:
    """Orders of the loops of a temporal block that lead from each tile to the whole, 0 if none do; float64[S]."""
    loops: Ints = np.zeros(nest.shape, np.int64)
    may: Bools = np.ones(nest.shape, np.bool_)
    for d, size in enumerate(nest.shape):
        here: Bools = np.zeros(size, np.bool_)
        here[[i for i, to, _ in step.moves[d] if to == size - 1]] = True
        here[size - 1] = step.may_rest[d]
        along = [1] * len(nest.shape)
        along[d] = size
        may &= here.reshape(along)
        if step.free[d]:
            loops += (np.arange(size) < size - 1).reshape(along)
    return np.where(may, _weights(step)[loops], 0.0)


def _to(step: LoopStep, d: int, inside: Ints, outside: Ints, sizes: int) -> Ints:
    """Where in a row of ways before a dimension no loop leads, and a loop from each size: int64[rooms, J, 1 + J]."""
    place = {int(room): r for r, room in enumerate(inside)}
    nowhere = len(inside) * sizes
    table = np.full((len(outside), sizes, 1 + sizes), nowhere, np.int64)
    products = {product: q for q, product in enumerate(step.products)}
    for r, room in enumerate(outside.tolist()):
        if step.may_rest[d] and room in place:
            table[r, :, 0] = place[room] * sizes + np.arange(sizes)
        for i, j, bound in step.moves[d]:
            if step.slot.axis:
                product, rest = divmod(step.products[room], bound)
                back = products.get(product, -1) if not rest else -1
            else:
                back = room - int(step.free[d])
            if back in place:
                table[r, j, 1 + i] = place[back] * sizes + i
    return table


def _quotients(nest: Nest) -> Ints:
    """Bounds of the loop between two sizes of a dimension, 1 where there is none: int64[D, J, J]."""
    most = max(nest.shape)
    quotient = np.ones((len(nest.shape), most, most), np.int64)
    for d, sizes in enumerate(nest.sizes):
        quotient[d, : len(sizes), : len(sizes)] = np.maximum(sizes[:, None] // sizes[None, :], 1)
    return quotient
