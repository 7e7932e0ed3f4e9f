"""Sums over all orders of a temporal block, without enumerating them.

A temporal block is passed in phases, from the inside out: phase 0, one loop that is an event, phase 1, the next event,
and so on. In a phase the loops stand in any order, so k of them stand in k! ways. Because `k!` is the integral of
`x^k exp(-x)`, a loop in a phase only brings a factor x, loops of different dimensions are independent of one another,
and the integral over each x, of a polynomial, is a finite sum (Gauss-Laguerre), exact up to rounding
(docs/census_moments.md). Axis letters: D = dimensions, N = sizes of a dimension.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from accelsim.model.encode import Floats
from accelsim.population.moments.sums_kernel import add_product
from accelsim.population.steps import Nest, Step

FEW_BEHIND = 4
"""Where so few sums lie behind an axis, a larger matrix times rows of more of them is quicker than what skips zeros."""
Powers = Mapping[int, float]
"""By dimension the power of its loop's bound that weighs a mapping; a dimension that is missing has no loop there."""


@dataclass(frozen=True, slots=True)
class Block:
    """Loops over some dimensions, in any order.

    Attributes
    ----------
    dims : tuple of int
    bounds : tuple of float64[N, N]
        Of each dimension of the Einsum the bound of the loop from a size (column) to one outside (row); 0: none.
    rests : tuple of float
        Of each dimension 1 if it may have no loop here, else 0.
    """

    dims: tuple[int, ...]
    bounds: tuple[Floats, ...]
    rests: tuple[float, ...]
    _weighed: dict[tuple[int, float], Floats] = field(default_factory=dict, repr=False)

    def loops(self, d: int, power: float) -> Floats:
        """The loops over a dimension, each weighed by a power of its bound: float64[N, N]."""
        if (d, power) not in self._weighed:
            bounds = self.bounds[d]
            self._weighed[d, power] = np.where(bounds > 0, np.where(bounds > 0, bounds, 1.0) ** power, 0.0)
        return self._weighed[d, power]

    def rest(self, d: int) -> Floats:
        """No loop over a dimension, where that may be: float64[N, N]."""
        if (d, math.inf) not in self._weighed:
            self._weighed[d, math.inf] = np.eye(len(self.bounds[d])) * self.rests[d]
        return self._weighed[d, math.inf]

    def backward(self) -> Block:
        """The same block seen from the outside in."""
        return Block(self.dims, tuple(bounds.T for bounds in self.bounds), self.rests)


def blocks_of(nest: Nest, step: Step) -> list[Block]:
    """The parts of a temporal block, from the inside out."""
    bounds = []
    for moves, sizes in zip(step.moves, nest.sizes, strict=True):
        found = np.zeros((len(sizes), len(sizes)))
        for i, j, bound in moves:
            found[j, i] = bound
        bounds.append(found)
    rests = tuple(float(rest) for rest in step.may_rest)
    return [Block(part, tuple(bounds), rests) for part in nest.parts(step)]


@lru_cache(maxsize=64)
def _nodes(degree: int) -> tuple[tuple[float, float], ...]:
    """Points and weights that integrate polynomials of a degree times exp(-x) over x > 0."""
    points, weights = np.polynomial.laguerre.laggauss(degree // 2 + 1)
    return tuple(zip(points.tolist(), weights.tolist(), strict=True))


def apply(matrix: Floats, values: Floats, axis: int, total: Floats | None = None) -> Floats:
    """Multiply the vectors along an axis by a matrix, and add them to a total."""
    shape = values.shape
    if total is None:
        total = np.zeros((*shape[:axis], len(matrix), *shape[axis + 1 :]))
    before, behind = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    values = np.ascontiguousarray(values)
    if behind <= FEW_BEHIND < before:
        matrix = (matrix[:, None, :, None] * np.eye(behind)[:, None, :]).reshape(len(matrix) * behind, -1)
        total.reshape(before, -1)[:] += values.reshape(before, -1) @ matrix.T
    else:
        add_product(matrix, values.reshape(before, -1, behind), total.reshape(before, -1, behind))
    return total


def arrange(
    block: Block,
    values: Floats,
    axes: Mapping[int, int],
    phases: Sequence[Powers],
    events: Sequence[Powers] = (),
    others: Sequence[int] = (),
    filled: int = 0,
) -> Floats:
    """Add up what mappings weigh over all loops that the block can put around a tile, in all orders.

    Parameters
    ----------
    block : Block
    values : float64[...]
        By the sizes of the tile.
    axes : mapping of int to int
        Axis of each dimension that is looked at here; those left out keep their place and may or must rest elsewhere.
    phases : sequence of Powers
        Which dimensions may have their loop in each phase.
    events : sequence of Powers
        The loop between two phases is over one of these; one event less than phases, or none.
    others : sequence of int
        For each phase, loops in it that are not looked at here; they take their places in the order too.

    filled : int
        Events that loops are which are not looked at here, as bits.

    Returns
    -------
    float64[...]
        By the sizes outside the block.
    """
    dims = [d for d in block.dims if d in axes]
    events = events[: len(phases) - 1]
    extra = others or (0,) * len(phases)
    last = {d: min((p for p in range(len(phases)) if d in phases[p]), default=len(phases) - 1) for d in dims}
    degrees = [sum(d in phase for d in dims) + more for phase, more in zip(phases, extra, strict=True)]

    def go(phase: int, points: tuple[float, ...], reached: dict[int, Floats]) -> Floats:
        """Fix the variable of one phase after the other, outermost first; a dimension follows when all of its are."""
        for d in dims:
            if last[d] == phase:
                reached = _put(block, d, axes[d], reached, phases[phase:], points, events)
        if phase == 0:
            return reached.get((1 << len(events)) - 1, np.zeros(1))
        return _over(phase - 1, points, reached)

    def _over(phase: int, points: tuple[float, ...], reached: dict[int, Floats]) -> Floats:
        found: Floats = np.zeros(1)
        for x, weight in _nodes(degrees[phase]):
            found = found + (weight * x ** extra[phase]) * go(phase, (x, *points), reached)
        return found

    summed = _over(len(phases) - 1, (), {filled: values})
    return summed if summed.shape == values.shape else np.zeros_like(values)


def _put(
    block: Block,
    d: int,
    axis: int,
    reached: dict[int, Floats],
    phases: Sequence[Powers],
    points: Sequence[float],
    events: Sequence[Powers],
) -> dict[int, Floats]:
    """Put the loops of a dimension around; arrays by the set of events that have taken place, as bits."""
    anywhere = block.rest(d)
    for phase, x in zip(phases, points, strict=True):
        if d in phase:
            anywhere = anywhere + x * block.loops(d, phase[d])
    after: dict[int, Floats] = {}
    for mask, values in reached.items():
        after[mask] = apply(anywhere, values, axis, after.get(mask))
        for e, event in enumerate(events):
            if d in event and not mask >> e & 1:
                filled = mask | 1 << e
                after[filled] = apply(block.loops(d, event[d]), values, axis, after.get(filled))
    return after
