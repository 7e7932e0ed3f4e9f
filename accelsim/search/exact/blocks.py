"""The sweep over a temporal block that fills cost-to-go tables: its input as arrays, and the compiled kernel.

Axis letters: D = dimensions, N = tables swept at once, S = shapes, Q = statuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from accelsim.model.encode import Ints
from accelsim.model.jit import inline, jit
from accelsim.model.records import Bools1, Bools2, Floats1, Floats2, Ints1, Ints2, Ints3, record
from accelsim.search.exact.orders import (
    BETWEEN,
    CARRY_ON,
    FETCH,
    FIXED,
    FURTHER,
    STATIONARY,
    STOP,
    TAIL,
    Statuses,
    Structure,
    order_classes,
)
from accelsim.search.exact.shapes import Grid, Shapes


@record
class BlockSweep(NamedTuple):
    """A class of loop orders for the sweep over a temporal block.

    A pass is one over the window, by the innermost loop that moves the windowed tensor.
    """

    counted: Ints1
    """int64[*]: dimensions on whose bounds the shares of steps depend."""
    adding: Ints1
    """int64[*]: other dimensions that may have a loop and leave the output in place."""
    moving: Ints1
    """int64[*]: other dimensions that may have a loop and move the output."""
    frozen: Bools1
    """bool[D]: dimensions that have no loop in the block."""
    adds: Bools1
    """bool[D]: dimensions whose loops leave the output in place."""
    first: Bools1
    """bool[1]: whether loops that leave the output in place may stand inside those that move it."""
    term: Ints2
    """int64[I, 4]: number of the set of statuses in each of I shares of steps, by how a pass goes on: FETCH, STOP,
    CARRY_ON or FURTHER."""
    phase: Ints1
    """int64[I]: loop that decides how a pass goes on: FIXED, BETWEEN or TAIL."""
    mask: Bools2
    """bool[I, D]: dimensions whose bounds make a share: it ends at one over their product, the last share at 0."""
    pair: Ints1
    """int64[5]: dimension of the pass; the other one of its rank; the one whose step the incoming status stands for;
    one that must have a loop; and one whose whole pass goes back before that incoming step. -1 if there is none."""
    step: Ints1
    """int64[D]: positions by which one step of the dimension moves the window."""
    further: Ints1
    """int64[*]: by how much networks outside may spread the dimension of the incoming step; empty if the tile may also
    end where it was."""


@record
class SweepArrays(NamedTuple):
    """What a sweep over a temporal block reads, whatever the class of loop orders, and scratch space."""

    most: Ints1
    """int64[D]: how many sizes of the dimension occur in tiles that fit the level."""
    pairs: Ints3
    """int64[D, *, 2]: sizes inside and outside a loop that the block may have, as size numbers, -1 after the last."""
    moves: Ints3
    """int64[D, *, 2]: sizes outside and inside, in an order in which taking the smaller of their two values leaves the
    smallest over all allowed insides. Inside -1: the size is no longer allowed as it is; outside -1: after the last."""
    live: Bools1
    """bool[S]: shapes around the network whose cost to go may be finite."""
    wanted: Bools1
    """bool[S]: tiles that are to be looked at."""
    reduced: Floats1
    """float64[S]: iterations of the reduction that a tile covers."""
    complete: Floats1
    """float64[1]: iterations of the reduction that a tile must cover before loops of the block may move the output,
    because its parent has no room for partial sums; 0 if it has."""
    inside: Floats2
    """float64[Q, S * N]: cost to go inside the block for each set of statuses; the N tables lie next to each other for
    each shape."""
    bound: Ints1
    """int64[D]: scratch: bounds of the loops over counted dimensions."""
    offsets: Ints1
    """int64[S]: scratch: shape numbers over the dimensions that are not counted, as differences."""
    alive: Bools1
    """bool[S]: scratch: rows of `values` that are finite."""
    values: Floats1
    """float64[S * N]: scratch: costs to go, lowered loop by loop."""


@jit
def sweep_block(shapes: Shapes, block: BlockSweep, sweep: SweepArrays, out: Floats1) -> None:
    """Lower the cost to go of each tile, float64[S * N], to that of its best block in a class of loop orders."""
    most, pairs, moves, live, wanted = sweep.most, sweep.pairs, sweep.moves, sweep.live, sweep.wanted
    reduced, complete = sweep.reduced, sweep.complete[0]
    bound, offsets, alive, values = sweep.bound, sweep.offsets, sweep.alive, sweep.values
    lanes = out.shape[0] // live.shape[0]
    size, run = _rest_of_lattice(shapes, most, block.counted, offsets)
    rounds = 1
    for k in range(block.counted.shape[0]):
        many = 0
        while many < pairs.shape[1] and pairs[block.counted[k], many, 0] >= 0:
            many += 1
        rounds *= many
    for index in range(rounds):
        start, end, rest, possible = 0, 0, index, True
        inner_low, other_low, come_high, went_back = 0, 0, 0, 0
        adds, moves_output = False, False
        for k in range(block.counted.shape[0]):
            d, many = block.counted[k], 0
            while many < pairs.shape[1] and pairs[d, many, 0] >= 0:
                many += 1
            low, high = pairs[d, rest % many, 0], pairs[d, rest % many, 1]
            rest //= many
            start += low * shapes.stride[d]
            end += high * shapes.stride[d]
            bound[d] = shapes.factor[d, shapes.over[d, high, low]]
            possible &= low == high or not block.frozen[d]
            adds |= low != high and block.adds[d]
            moves_output |= low != high and not block.adds[d]
            if d == block.pair[0]:
                inner_low = shapes.size[d, low]
            possible &= low != high or d not in (block.pair[0], block.pair[3])
            if d == block.pair[1]:
                other_low = shapes.size[d, low]
            if d == block.pair[2]:
                come_high = shapes.size[d, high]
            if d == block.pair[4]:
                went_back = (shapes.size[d, 1] - 1) * block.step[d]
                possible &= high == 0
        may_add = complete == 0.0 or block.first[0]
        if not possible or (adds and not may_add):
            continue
        if not (_any_of(live, offsets, size, run, start) and _any_of(wanted, offsets, size, run, end)):
            continue
        between, tails = FETCH, 1 << FETCH
        if block.pair[0] >= 0:
            between, tails = _ways_on(block, bound, inner_low, other_low, come_high, went_back)
        for tail in range(4):
            if not tails >> tail & 1:
                continue
            middle = tail if block.pair[0] >= 0 and bound[block.pair[1]] == 1 else between
            if block.pair[0] >= 0 and not _differs(block, middle, tail):
                continue
            for at in range(size):
                alive[at] = _any_of(live, offsets, 1, run, start + offsets[at])
            _mix(block, sweep, size, run * lanes, start, lanes, middle, tail)
            if may_add:
                _take_least(most, moves, block.counted, block.adding, values, alive[:size], run * lanes, lanes)
            if complete > 0.0 and not moves_output:
                _lower(out, values, offsets, alive[:size], run, end, lanes, reduced, 0.0, complete)
            _take_least(most, moves, block.counted, block.moving, values, alive[:size], run * lanes, lanes)
            _lower(out, values, offsets, alive[:size], run, end, lanes, reduced, complete, np.inf)


@inline
def _lower(
    out: Floats1,
    values: Floats1,
    offsets: Ints1,
    alive: Bools1,
    run: int,
    end: int,
    lanes: int,
    reduced: Floats1,
    low: float,
    high: float,
) -> None:
    """Lower the cost to go of tiles that cover so much of the reduction: from `low` to below `high`."""
    every = low == 0.0 and high == np.inf
    one = every and run * lanes == 1
    for at in range(alive.shape[0] if one else 0):  # as below, without slices
        if alive[at]:
            out[end + offsets[at]] = min(out[end + offsets[at]], values[at])
    for at in range(0 if one else alive.shape[0]):
        if not alive[at]:
            continue
        first = end + offsets[at]
        for k in range(1 if every else run):
            count = run * lanes if every else lanes
            if every or low <= reduced[first + k] < high:
                row = out[(first + k) * lanes : (first + k) * lanes + count]
                found = values[(at * run + k) * lanes : (at * run + k) * lanes + count]
                for lane in range(count):
                    row[lane] = min(row[lane], found[lane])


@inline
def _any_of(chosen: Bools1, offsets: Ints1, size: int, run: int, start: int) -> bool:
    """Whether any of some shapes is chosen."""
    found, at = False, 0
    while at < size * run and not found:
        found = bool(chosen[start + offsets[at // run] + at % run])
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
    """How far loops inside a tile move it along a rank at most, plus a step; docs/papers/exact-mapper.md, Lemma 3."""
    return inner * inner_size + other * other_size - min(inner, other)


@inline
def grain_of(inner: int, inner_size: int, other: int, other_size: int) -> int:
    """Divisor of all that loops inside a tile move it by along a rank; docs/papers/exact-mapper.md, Lemma 3."""
    a, b = inner if inner_size > 1 else 0, other if other_size > 1 else 0
    while b > 0:
        a, b = b, a % b
    return a if a > 0 else 1 << 30


@inline
def _ways_on(
    block: BlockSweep, bound: Ints1, inner_low: int, other_low: int, come_high: int, went_back: int
) -> tuple[int, int]:
    """How the loop over the other dimension of the rank goes on after a pass, and as bits how those outside may."""
    inner, other, come = block.pair[0], block.pair[1], block.pair[2]
    step = block.step[inner] * inner_low
    back = (bound[inner] - 1) * step
    reach = reach_of(block.step[inner], inner_low, block.step[other], other_low)
    grain = grain_of(block.step[inner], inner_low, block.step[other], other_low)
    between, tails = FETCH, 1 << FETCH
    if bound[other] > 1:
        far = block.step[other] * other_low
        between = way_on(far - back, step, reach, grain)
        back += (bound[other] - 1) * far
    if come >= 0:
        tails = 0 if block.further.shape[0] > 0 else 1 << STOP
        for k in range(block.further.shape[0]):
            gap = block.step[come] * come_high * block.further[k] - went_back
            if gap > 0:
                tails |= 1 << way_on(gap - back, step, reach, grain)
    return between, tails


@inline
def _differs(block: BlockSweep, between: int, tail: int) -> bool:
    """Whether any status is another one than if every pass began anew."""
    found = False
    for i in range(block.phase.shape[0]):
        way = between if block.phase[i] == BETWEEN else tail
        found |= block.phase[i] > 0 and block.term[i, way] != block.term[i, FETCH]
    return found


@inline
def _rest_of_lattice(shapes: Shapes, most: Ints1, counted: Ints1, offsets: Ints1) -> tuple[int, int]:
    """List the shapes of all dimensions that are not counted, as differences of shape numbers.

    Returns
    -------
    tuple of int
        How many runs of shapes that lie next to each other there are, and how long these are.
    """
    size, run = 1, 1
    offsets[0] = 0
    for d in range(shapes.sizes.shape[0] - 1, -1, -1):
        if _among(counted, d):
            continue
        if size == 1 and run == shapes.stride[d]:
            run *= most[d]
            continue
        for i in range(1, most[d]):
            for at in range(size):
                offsets[i * size + at] = offsets[at] + i * shapes.stride[d]
        size *= most[d]
    return size, run


@inline
def _among(items: Ints1, item: int) -> bool:
    found = False
    for k in range(items.shape[0]):
        found |= items[k] == item
    return found


@inline
def _mix(
    block: BlockSweep, sweep: SweepArrays, size: int, count: int, start: int, lanes: int, between: int, tail: int
) -> None:
    """Cost to go inside the block, mixed from the pure statuses by their shares, where it may be finite."""
    bound, inside, offsets, alive, values = sweep.bound, sweep.inside, sweep.offsets, sweep.alive, sweep.values
    before, first = 1.0, True
    for i in range(block.phase.shape[0]):
        share = 0.0
        if i < block.phase.shape[0] - 1:
            product = 1
            for k in range(block.counted.shape[0]):
                if block.mask[i, block.counted[k]]:
                    product *= bound[block.counted[k]]
            share = 1.0 / float(product)
        way = between if block.phase[i] == BETWEEN else tail if block.phase[i] == TAIL else FETCH
        weight = before - share
        if weight > 0.0:
            table = inside[block.term[i, way]]
            for at in range(size if count == 1 else 0):  # as below, without slices
                if not alive[at]:
                    continue
                values[at] = weight * table[start + offsets[at]] + (0.0 if first else values[at])
            for at in range(size if count > 1 else 0):
                if not alive[at]:
                    continue
                begin = (start + offsets[at]) * lanes
                some, row = table[begin : begin + count], values[at * count : (at + 1) * count]
                for lane in range(count):
                    row[lane] = weight * some[lane] + (0.0 if first else row[lane])
            first = False
        before = share


@inline
def _take_least(
    most: Ints1, moves: Ints3, counted: Ints1, swept: Ints1, values: Floats1, alive: Bools1, row: int, lanes: int
) -> None:
    """For each outer tile the least value of its inner tiles, one swept dimension after the other.

    Values are finite in rows of tiles that are `alive` alone, which are those that lie next to each other.
    """
    stride, size = lanes, row * alive.shape[0]
    for d in range(most.shape[0] - 1, -1, -1):
        if _among(counted, d):
            continue
        count = most[d]
        if _among(swept, d):
            within = stride < row  # the dimension is one of those of a row
            for base in range(0, size, stride * count):
                if within and not alive[base // row]:
                    continue
                for m in range(moves.shape[1]):
                    if moves[d, m, 0] < 0:
                        break
                    first, other = base + moves[d, m, 0] * stride, base + moves[d, m, 1] * stride
                    if within:
                        some = values[first : first + stride]
                        if moves[d, m, 1] < 0:
                            some[:] = np.inf
                        else:
                            _lower_to(some, values[other : other + stride])
                        continue
                    for at in range(0, stride, row):
                        mine, its = (first + at) // row, (other + at) // row
                        some = values[first + at : first + at + row]
                        if moves[d, m, 1] < 0:
                            alive[mine] = False
                        elif alive[its]:
                            if not alive[mine]:
                                some[:] = np.inf
                            _lower_to(some, values[other + at : other + at + row])
                            alive[mine] = True
        stride *= count


@inline
def _lower_to(some: Floats1, further: Floats1) -> None:
    """Lower some values to other ones."""
    for at in range(some.shape[0]):
        some[at] = min(some[at], further[at])


def steps_in_time(grid: Grid, level: int, counts: Ints) -> tuple[Ints, Ints]:
    """Pairs of sizes that a temporal loop may join, and moves that find the least over all inner sizes.

    Parameters
    ----------
    grid : Grid
    level : int
    counts : int64[D]
        How many sizes of each dimension occur in tiles that fit the level.
    """
    shapes, allowed = grid.shapes, grid.in_time[level]
    dims, most = shapes.size.shape
    pairs = np.full((dims, most * most + 1, 2), -1, np.int64)
    moves = np.full((dims, most * most + most + 1, 2), -1, np.int64)
    for d in range(dims):
        count = int(counts[d])
        over = shapes.over[d, :count, :count]
        joined = np.argwhere((over >= 0) & allowed[d, over]).reshape(-1, 2)[:, ::-1]
        joined = joined[np.lexsort((joined[:, 1], joined[:, 0]))]
        pairs[d, : len(joined)] = joined
        found: list[tuple[int, int]] = []
        if allowed[d, : shapes.factors[d]].all():
            # what leads to a size leads on from there: the next ones are enough
            below = (over >= 0) & ~np.eye(count, dtype=np.bool_)
            next_ones = below & ~((below.astype(np.int64) @ below.astype(np.int64)) > 0)
            found = [(int(j), int(i)) for j, i in np.argwhere(next_ones)]
        else:
            for j in range(count - 1, -1, -1):
                found += [] if allowed[d, 0] else [(j, -1)]
                found += [(j, int(i)) for i, outer in joined if outer == j and i != j]
        moves[d, : len(found)] = np.array(found, np.int64).reshape(-1, 2)
    return pairs, moves


class BlockKind(NamedTuple):
    """What classes of orders of a temporal block depend on, besides statuses."""

    structure: Structure
    """Structure: how dimensions move tensors and windows."""
    spared: tuple[bool, ...]
    """For each dimension, whether the block may have no loop over it."""
    output: int
    """Index of the output among the tensors."""
    step: tuple[int, ...]
    """For each dimension, positions by which one step moves the window."""
    further: tuple[tuple[int, ...], ...]
    """For each dimension, by how much networks outside may spread it, as `BlockSweep.further`."""

    def gap_known(self, d: int) -> bool:
        """Whether the size along a dimension tells how far an UNDECIDED step is from its place."""
        return d in self.structure.paced and self.further[d] == (1,)


def kind_of_block(grid: Grid, structure: Structure, level: int) -> BlockKind:
    """The kind of a level's temporal block."""
    c = grid.space.encoded.constants
    spared: list[bool] = grid.in_time[level, :, 0].tolist()
    step: list[int] = c.factor[structure.window].tolist()
    further = (_spread_outside(grid, level, d if other >= 0 else -1) for d, other in enumerate(structure.partner))
    return BlockKind(structure, tuple(spared), int(c.output[0]), tuple(step), tuple(further))


def blocks_in_time(
    kind: BlockKind, statuses: Statuses, further: Sequence[Statuses], reduce: Callable[[Statuses], Statuses]
) -> list[BlockSweep]:
    """Classes of orders of a temporal block as the kernel takes them.

    Parameters
    ----------
    kind : BlockKind
    statuses : Statuses
        Outside the block.
    further : sequence of Statuses
        Those of the table of what follows.
    reduce : callable
        Takes from statuses what makes no difference there.
    """
    found: list[BlockSweep] = []
    known: set[object] = set()
    structure, output = kind.structure, kind.output
    every, adds = sorted(structure.dims), structure.irrelevant(frozenset({output}))
    are_added = np.array([d in adds for d in every])
    step = np.array(kind.step, np.int64)
    for order_class in order_classes(structure, statuses):
        if any(not spared for d, spared in enumerate(kind.spared) if d not in order_class.allowed):
            continue
        terms: list[tuple[frozenset[int], tuple[Statuses, ...], int]] = []
        for term in order_class.terms:
            reduced = tuple(map(reduce, term.statuses))
            phase = term.phase if len(set(reduced)) > 1 else FIXED
            reduced = reduced if phase else reduced[:1]
            if terms and terms[-1][1:] == (reduced, phase):
                terms.pop()
            terms.append((term.dims, reduced, phase))
        inner, come, has, back = order_class.inner, order_class.come, order_class.has, -1
        outside: tuple[int, ...] = ()
        if come >= len(every):
            come -= len(every)
            if kind.gap_known(come):
                back, outside = structure.partner[come], kind.further[come]
        elif come >= 0:
            outside = kind.further[come]
        if inner >= 0 and not any(phase for _, _, phase in terms):
            continue  # what follows a pass over the window makes no difference further in
        key = (order_class.allowed, tuple(terms), inner, come, back, has)
        if key in known:
            continue
        known.add(key)
        counted = frozenset[int]().union(*(dims for dims, _, _ in terms[:-1]))
        other = structure.partner[inner] if inner >= 0 else -1
        counted |= {d for d in (inner, other, has) if d >= 0}
        found.append(
            BlockSweep(
                counted=np.array(sorted(counted), np.int64),
                adding=np.array(sorted((order_class.allowed & adds) - counted), np.int64),
                moving=np.array(sorted(order_class.allowed - adds - counted), np.int64),
                frozen=np.array([d not in order_class.allowed for d in every]),
                adds=are_added,
                first=np.array([order_class.allowed <= adds or order_class.terms[0].statuses[0][output] == STATIONARY]),
                term=np.array(
                    [[further.index(after) for after in (reduced * 4)[:4]] for _, reduced, _ in terms], np.int64
                ),
                phase=np.array([phase for _, _, phase in terms], np.int64),
                mask=np.array(
                    [[d in mask for d in every] for mask in [*(dims for dims, _, _ in terms[:-1]), every]], np.bool_
                ),
                pair=np.array([inner, other, come, has, back], np.int64),
                step=step,
                further=np.array(outside, np.int64),
            )
        )
    return found


def _spread_outside(grid: Grid, level: int, d: int) -> tuple[int, ...]:
    """By how much networks may spread a dimension between a level and a loop outside it, which may be inside some."""
    found = {1}
    for options in grid.options[:level] if d >= 0 else ():
        bounds = {*(options.x[:, d] * options.y[:, d]).tolist()}
        found = {1, *(a * b for a in found for b in bounds)}
    return tuple(sorted(found))
