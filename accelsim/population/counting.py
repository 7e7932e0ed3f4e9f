"""Exact numbers of valid mappings: the ways to come to each tile shape, added up from the inside out.

The nest is taken in steps from tile shape to tile shape. A step puts loops of all dimensions around a tile: those over
one axis of a network, or a temporal block. Which tiles a level can keep depends on the tile alone, so the ways to come
to a tile add up (docs/papers/mapspace.md). Numbers of any size are exact: each is W words of 32 bits in an array of
int64, so that additions carry only now and then.

Axis letters: D = dimensions, S = tile shapes (a grid of D axes, sizes ascending), T = tensors, K = choices of what a
level keeps, Q = rooms of a step, W = words of a number, least first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.divisors import divisors
from accelsim.inputs.errors import TooManyChoices
from accelsim.inputs.workload import Einsum
from accelsim.mapspace.factors import tile_words
from accelsim.mapspace.space import MapSpace, Slot
from accelsim.model.encode import Bools, Floats, Ints, encode

MOST_SHAPES = 2_000_000
"""Tile shapes at most of a nest whose mappings are counted, in a minute and 1.5 GB."""
Move = tuple[int, int, int]
"""Index of a size, of one outside, and the bound of the loop between."""
Room = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LoopStep:
    """Loops that a mapping may put around a tile, in a temporal block or over an axis of a network."""

    slot: Slot
    moves: tuple[tuple[Move, ...], ...]  # for each dimension the loops of bound > 1
    may_rest: tuple[bool, ...]  # of each dimension, whether it may have no loop here
    free: tuple[bool, ...]  # of each dimension, whether its loop takes any place in the order of a temporal block
    # before the loop of each dimension, and after the last, what the loops so far can come to, ascending: of a temporal
    # block how many have a free place, of an axis the product of their bounds; then each product that the constraints
    # bound
    rooms: tuple[tuple[Room, ...], ...]
    # what a way counts by its room in the end: the orders of its loops; 0 if a mapping may not have its products
    weights: tuple[int, ...]
    inside: tuple[tuple[bool, ...], ...]  # for each dimension, in which of the products its bounds are

    def rooms_after(self, d: int) -> dict[int, list[tuple[int, int]]]:
        """Which rooms a loop over a dimension leads from and to, by its bound; 1: no loop."""
        place = {room: q for q, room in enumerate(self.rooms[d + 1])}
        after = {bound: [_after(self, room, d, bound) for room in self.rooms[d]] for *_, bound in self.moves[d]}
        if self.may_rest[d]:
            after[1] = list(self.rooms[d])
        return {bound: [(q, place[r]) for q, r in enumerate(rooms) if r in place] for bound, rooms in after.items()}


def _after(step: LoopStep, room: Room, d: int, bound: int) -> Room:
    """What loops come to with one more."""
    first = room[0] * bound if step.slot.axis else room[0] + step.free[d]
    products = zip(room[1:], step.inside[d], strict=True)
    return first, *(product * bound if inside else product for product, inside in products)


@dataclass(frozen=True, slots=True)
class Keeping:
    """What a level may keep."""

    level: int
    keeps: Bools  # [K, T]
    fits: Bools  # [K, *S], which tiles fit it
    choices: Ints  # [*S], how many choices fit each tile


class Nest:
    """Steps of a map space from the innermost network to the outermost temporal block, and what each level may keep.

    `sizes`: of each dimension, ascending, and `shape`: how many. `words`: int64[T, S] of each tensor's box in every
    tile. `steps`: from the inside out; a Keeping stands after the temporal block of its level. `keepings`: of each
    level, outermost first. With `fully_used`, only mappings that use all compute units.
    """

    def __init__(self, space: MapSpace, *, fully_used: bool = False) -> None:
        self.space, self.fully_used = space, fully_used
        dims = space.encoded.dims
        self.sizes = tuple(np.array(divisors(space.encoded.einsum.dims[dim]), np.int64) for dim in dims)
        self.shape = tuple(len(found) for found in self.sizes)
        if math.prod(self.shape) > MOST_SHAPES:
            shapes = f"{math.prod(self.shape):,} tile shapes"
            raise TooManyChoices(f"mappings of {shapes} are too many to count, those of {MOST_SHAPES:,} are not")
        self.words = tile_words(space.encoded, self.sizes)
        steps: list[LoopStep | Keeping] = []
        for level in range(len(space.encoded.architecture.levels) - 1, -1, -1):
            for axis in ("y", "x"):
                if Slot(level, axis) in space.slots:
                    steps.append(self._step(Slot(level, axis)))
            steps.append(self._step(Slot(level)))
            keeps, fits = space.fitting_keeps(self.words, self.sizes, level)
            fits = fits.reshape(-1, *self.shape)
            steps.append(Keeping(level, keeps, fits, fits.sum(axis=0)))
        self.steps = tuple(steps)
        self.keepings = tuple(step for step in reversed(steps) if isinstance(step, Keeping))

    def _step(self, slot: Slot) -> LoopStep:
        space, moves, may_rest = self.space, [], []
        level, kind = space.encoded.architecture.levels[slot.level], ("", "x", "y").index(slot.axis)
        required = [row[2:] for row in space.encoded.constants.asked.tolist() if row[:2] == [slot.level, kind]]
        for dim, sizes in zip(space.encoded.dims, self.sizes, strict=True):
            allowed = space.allowed(slot, dim) if dim in space.dims else frozenset({1})
            pairs = [(i, j, int(sizes[j] // sizes[i])) for j in range(len(sizes)) for i in range(j)]
            moves.append(tuple((i, j, f) for i, j, f in pairs if sizes[j] % sizes[i] == 0 and f in allowed))
            may_rest.append(1 in allowed)
        free = tuple(not slot.axis and space.is_free(slot.level, dim) for dim in space.encoded.dims)
        inside = tuple(tuple(bool(row[2 + d]) for row in required) for d in range(len(moves)))
        step = LoopStep(slot, tuple(moves), tuple(may_rest), free, (), (), inside)
        size = (len(moves), level.x.size, level.y.size)[kind]
        rooms: list[tuple[Room, ...]] = [((1 if kind else 0, *(1 for _ in required)),)]
        most = (size, *(high for _, high, *_ in required))
        for d in range(len(moves)):
            more = {_after(step, room, d, f) for room in rooms[-1] for f in {f for *_, f in moves[d]}}
            within = {room for room in more if all(value <= high for value, high in zip(room, most, strict=True))}
            rooms.append(tuple(sorted(within.union(rooms[-1]))))
        weights = []
        for first, *products in rooms[-1]:
            enough = all(product >= low for product, (low, *_) in zip(products, required, strict=True))
            enough &= not kind or first == size or not self.fully_used
            weights.append(enough * (1 if kind else math.factorial(first)))
        return replace(step, rooms=tuple(rooms), weights=tuple(weights))


BITS = 32
"""Bits of a word of a number; 63 bits hold the sum of the orders of 12 loops times such words."""

Values = npt.NDArray[Any]


def exact_words(largest: int) -> int:
    """Words that a number takes; the highest has 63 bits, and what goes beyond them on the way is dropped."""
    return max(1, 1 + math.ceil((largest.bit_length() - 63) / BITS))


def carry(values: Ints) -> None:
    """Bring each word below 2**32 again, in place; int64[W, ...]."""
    for w in range(len(values) - 1):
        values[w + 1] += values[w] >> BITS
        values[w] &= (1 << BITS) - 1


def as_integer(values: Ints) -> int:
    """The last number, ways to come to the whole, from int64[W, ...]."""
    return sum(int(word) << (BITS * w) for w, word in enumerate(values.reshape(len(values), -1)[:, -1]))


def put_loops(step: LoopStep, values: Values, trace: list[Floats] | None = None) -> Values:
    """Add up the ways to come to each shape once the loops of a step stand around the shapes.

    `values`: int64[W, *S], exact, or float64[1, *S], ways to come to each shape inside. `trace`: where the sums before
    each dimension and after the last go, float64[Q, *S].
    """
    state = values[:, None]
    for d in range(len(step.moves)):
        if trace is not None:
            trace.append(state[0])
        state = _put_loop(step, d, state)
    if trace is not None:
        trace.append(state[0])
    weights = np.array(step.weights, values.dtype).reshape(-1, *[1] * (values.ndim - 1))
    summed: Values = (state * weights).sum(axis=1)
    if values.dtype == np.int64:
        carry(summed)
    return summed


def _put_loop(step: LoopStep, d: int, state: Values) -> Values:
    """The same for the loop of one dimension."""
    after = np.zeros((len(state), len(step.rooms[d + 1]), *state.shape[2:]), state.dtype)
    source, target = state.swapaxes(2, 2 + d), after.swapaxes(2, 2 + d)
    pairs = step.rooms_after(d)
    for before, behind in pairs.get(1, ()):
        after[:, behind] = state[:, before]
    for i, j, bound in step.moves[d]:
        for before, behind in pairs[bound]:
            target[:, behind, j] += source[:, before, i]
    if state.dtype == np.int64:
        carry(after)
    return after


def count_mappings(nest: Nest) -> int:
    """Count the valid mappings, exactly.

    Where partial sums are wider than finished words what fits may depend on the order of loops too; they are taken to
    be as narrow as finished words here.
    """
    values = _start(nest)
    for step in nest.steps:
        if isinstance(step, Keeping):
            values = values * step.choices
            carry(values)
        else:
            values = put_loops(step, values)
    return as_integer(values)


FEW_SHAPES = 500_000
"""Tile shapes up to which the mappings are counted in seconds."""


def count_quickly(architecture: Architecture, einsum: Einsum, constraints: Constraints | None = None) -> int | None:
    """How many valid mappings there are; None where they are so many that it would take seconds.

    None also where tiles do not tell which mappings are valid: with a smallest utilization, or partial sums wider than
    finished words.
    """
    space = MapSpace(encode(architecture, einsum), constraints)
    shapes = math.prod(len(divisors(bound)) for bound in einsum.dims.values())
    if space.constraints.on_costs or space.encoded.constants.two_widths[0] or shapes > FEW_SHAPES:
        return None
    return count_mappings(Nest(space))


def count_by_keep(nest: Nest) -> list[tuple[tuple[int, ...], int]]:
    """Count the valid mappings for each choice of what the levels keep that has any; those with most first.

    A choice has for each level, outermost first, the number of its own (`Keeping.keeps`).
    """
    found: list[tuple[tuple[int, ...], Ints]] = [((), _start(nest))]
    for step in nest.steps:
        if not isinstance(step, Keeping):
            found = [(chosen, put_loops(step, values)) for chosen, values in found]
            continue
        found = [
            ((k, *chosen), values * fits)
            for chosen, values in found
            for k, fits in enumerate(step.fits)
            if (values * fits).any()
        ]
    counted = [(chosen, as_integer(values)) for chosen, values in found]
    return sorted(((chosen, many) for chosen, many in counted if many), key=lambda each: (-each[1], each[0]))


def _start(nest: Nest) -> Ints:
    """One way to come to the tile of one point, and words enough for all mappings of the map space."""
    space, keeps = nest.space, math.prod(len(each.keeps) for each in nest.keepings)
    size = space.quick_size
    orders = math.factorial(len(space.dims)) ** len(nest.keepings)
    loops = math.prod(space.many) * orders if size is None else size // space.keep_choices
    values = np.zeros((exact_words(loops * keeps), *nest.shape), np.int64)
    values.reshape(len(values), -1)[0, 0] = 1
    return values
