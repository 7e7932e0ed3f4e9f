"""The nest from the compute units outwards, as steps from tile shape to tile shape.

A step puts loops of all dimensions around a tile: those over one axis of a network, or a temporal block. Which tiles a
level can keep depends on the tile alone, so the ways to come to a tile add up (docs/census.md). Axis letters: D =
dimensions, S = tile shapes (a grid of D axes, sizes ascending), T = tensors, K = choices of what a level keeps, Q =
products of the bounds on an axis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accelsim.mapspace.factors import divisors
from accelsim.mapspace.space import MapSpace, Slot
from accelsim.mapspace.tiles import fitting_keeps, tile_words
from accelsim.model.encode import Bools, Ints

Move = tuple[int, int, int]
"""Index of a size, of one outside, and the bound of the loop between."""


@dataclass(frozen=True, slots=True)
class LoopStep:
    """Loops that a mapping may put around a tile.

    Attributes
    ----------
    slot : Slot
        Temporal block, or axis of a network.
    moves : tuple of tuple of Move
        For each dimension the loops of bound > 1.
    may_rest : tuple of bool
        Of each dimension, whether it may have no loop here.
    free : tuple of bool
        Of each dimension, whether its loop takes any place in the order; always so for an axis, which has no order.
    products : tuple of int
        Of an axis: the products that bounds of several dimensions can have, ascending; (1,) for a temporal block.
    wanted : tuple of bool
        Which of them a mapping may have in the end.
    """

    slot: Slot
    moves: tuple[tuple[Move, ...], ...]
    may_rest: tuple[bool, ...]
    free: tuple[bool, ...]
    products: tuple[int, ...]
    wanted: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Keeping:
    """What a level may keep.

    Attributes
    ----------
    level : int
    keeps : bool[K, T]
    fits : bool[K, *S]
        Which tiles fit it.
    choices : int64[*S]
        How many choices fit each tile.
    """

    level: int
    keeps: Bools
    fits: Bools
    choices: Ints


class Nest:
    """Steps of a map space from the innermost network to the outermost temporal block, and what each level may keep.

    Parameters
    ----------
    space : MapSpace
    fully_used : bool
        Only mappings that use all compute units.

    Attributes
    ----------
    sizes : tuple of int64[N]
        Of each dimension, ascending.
    shape : tuple of int
        How many sizes each dimension has.
    words : int64[T, S]
        Words of each tensor's box in every tile.
    steps : tuple of (LoopStep or Keeping)
        From the inside out; a Keeping stands after the temporal block of its level.
    """

    def __init__(self, space: MapSpace, *, fully_used: bool = False) -> None:
        self.space, self.fully_used = space, fully_used
        dims = space.encoded.dims
        self.sizes = tuple(np.array(divisors(space.encoded.einsum.dims[dim]), np.int64) for dim in dims)
        self.shape = tuple(len(found) for found in self.sizes)
        self.words = tile_words(space.encoded, self.sizes)
        steps: list[LoopStep | Keeping] = []
        for level in range(len(space.encoded.architecture.levels) - 1, -1, -1):
            for axis in ("y", "x"):
                if Slot(level, axis) in space.slots:
                    steps.append(self._step(Slot(level, axis)))
            steps.append(self._step(Slot(level)))
            keeps, fits = fitting_keeps(space, self.words, level)
            fits = fits.reshape(-1, *self.shape)
            steps.append(Keeping(level, keeps, fits, fits.sum(axis=0)))
        self.steps = tuple(steps)

    def _step(self, slot: Slot) -> LoopStep:
        space, moves, may_rest = self.space, [], []
        level = space.encoded.architecture.levels[slot.level]
        size = {"": 1, "x": level.x.size, "y": level.y.size}[slot.axis]
        products = {1}
        for dim, sizes in zip(space.encoded.dims, self.sizes, strict=True):
            allowed = space.allowed(slot, dim) if dim in space.dims else frozenset({1})
            pairs = [(i, j, int(sizes[j] // sizes[i])) for j in range(len(sizes)) for i in range(j)]
            moves.append(tuple((i, j, f) for i, j, f in pairs if sizes[j] % sizes[i] == 0 and f in allowed))
            may_rest.append(1 in allowed)
            if slot.axis:
                products |= {p * f for p in products for *_, f in moves[-1] if p * f <= size}
        free = tuple(not slot.axis and space.is_free(slot.level, dim) for dim in space.encoded.dims)
        ascending = tuple(sorted(products))
        wanted = tuple(product == size or not self.fully_used for product in ascending)
        return LoopStep(slot, tuple(moves), tuple(may_rest), free, ascending, wanted)
