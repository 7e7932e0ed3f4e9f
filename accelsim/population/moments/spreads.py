"""Sums over all ways to spread loops over the axes of a network, weighed by what its instances share.

Axis letters: D = dimensions, Q = products of the bounds on the axes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from accelsim.model.encode import Floats
from accelsim.population.moments.sums_kernel import add_moves
from accelsim.population.steps import Step

Bounds = tuple[int, ...]
"""Product of bounds on each of the axes that are looked at together."""
Move = tuple[int, int, Bounds, float]
"""From an index along an axis of an array, to one, the bounds on the way, and what a mapping weighs for it."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Dimensions that move together along one axis of an array.

    Attributes
    ----------
    axis : int
    size : int
        Of the axis outside.
    moves : tuple of Move
        Those that stay in place too.
    """

    axis: int
    size: int
    moves: tuple[Move, ...]

    def backward(self) -> Unit:
        """The same seen from the outside in."""
        return Unit(self.axis, self.size, tuple((j, i, bounds, weight) for i, j, bounds, weight in self.moves))


def spread(values: Floats, units: Sequence[Unit], limits: Bounds) -> Floats:
    """Add up what mappings weigh over all loops on some axes.

    Parameters
    ----------
    values : float64[...]
    units : sequence of Unit
    limits : tuple of int
        Instances along each axis.
    """
    reached: list[Bounds] = [(1,) * len(limits)]
    state = values[None]
    for at, unit in enumerate(units):
        every = {bounds for *_, bounds, _ in unit.moves}
        targets = [(0,) * len(limits)]
        if at + 1 < len(units):
            found = {tuple(map(math.prod, zip(q, b, strict=True))) for q in reached for b in every}
            targets = sorted(q for q in found if all(n <= most for n, most in zip(q, limits, strict=True)))
        state = _move(state, unit, reached, targets, limits)
        reached = targets
    return np.asarray(state.sum(axis=0))


def _move(state: Floats, unit: Unit, reached: Sequence[Bounds], targets: Sequence[Bounds], limits: Bounds) -> Floats:
    """The moves of one unit; a target (0, ...) is one for all products."""
    index = {q: k for k, q in enumerate(targets)}
    every = len(targets) == 1 and not any(targets[0])
    moves, pairs = sorted(unit.moves, key=lambda move: move[2]), list[tuple[int, int]]()
    group, first = [0], [0]
    for bounds, alike in itertools.groupby(moves, key=lambda move: move[2]):
        for k, q in enumerate(reached):
            product = tuple(map(math.prod, zip(q, bounds, strict=True)))
            if all(n <= most for n, most in zip(product, limits, strict=True)):
                pairs.append((k, 0 if every else index[product]))
        group.append(group[-1] + sum(1 for _ in alike))
        first.append(len(pairs))
    before, behind = np.array(pairs, np.int64).reshape(-1, 2).T.copy()
    axis, shape = 1 + unit.axis, state.shape
    target = np.zeros((len(targets), *shape[1:axis], unit.size, *shape[axis + 1 :]))
    before_axis, behind_axis = math.prod(shape[1:axis]), math.prod(shape[axis + 1 :])
    source = np.ascontiguousarray(state).reshape(shape[0], before_axis, shape[axis], behind_axis)
    add_moves(
        np.array(group, np.int64),
        np.array(first, np.int64),
        before,
        behind,
        np.array([move[0] for move in moves], np.int64),
        np.array([move[1] for move in moves], np.int64),
        np.array([move[3] for move in moves], np.float64),
        source,
        np.empty((shape[0], shape[axis]), np.bool_),
        target.reshape(len(targets), before_axis, unit.size, behind_axis),
    )
    return target


def chains(steps: Sequence[Step], d: int, sizes: int) -> list[tuple[int, int, Bounds]]:
    """From and to a size of a dimension over some axes, inside first, with the bound on each; all that may rest too."""
    found: list[tuple[int, int, Bounds]] = [(i, i, ()) for i in range(sizes)]
    for step in steps:
        after = [(i, j, (*bounds, 1)) for i, j, bounds in found if step.may_rest[d]]
        for i, j, bounds in found:
            after += [(i, k, (*bounds, bound)) for at, k, bound in step.moves[d] if at == j]
        found = after
    return found


def paired(
    steps: Sequence[Step], pair: tuple[int, int], sizes: Sequence[int], weigh: Callable[[Step, int, int], float]
) -> list[Move]:
    """Moves of two dimensions as one, between cells of their sizes; `weigh` tells what a loop over one weighs."""
    first, second = (chains(steps, d, size) for d, size in zip(pair, sizes, strict=True))
    limits = limits_of(steps)
    found: dict[tuple[int, int, Bounds], float] = {}
    for (i, j, one), (k, m, two) in itertools.product(first, second):
        both = tuple(a * b for a, b in zip(one, two, strict=True))
        if all(n <= most for n, most in zip(both, limits, strict=True)):
            key = (i * sizes[1] + k, j * sizes[1] + m, both)
            weights = [
                weigh(step, pair[0], a) * weigh(step, pair[1], b) for step, a, b in zip(steps, one, two, strict=True)
            ]
            found[key] = found.get(key, 0.0) + math.prod(weights)
    return [(*key, ways) for key, ways in found.items()]


def limits_of(steps: Sequence[Step]) -> Bounds:
    """Instances along the axes that loops can use."""
    return tuple(max(step.products) for step in steps)


def distinct_share(steps: tuple[int, int], counts: tuple[int, int]) -> float:
    """Distinct sums of two progressions, over all pairs (docs/model.md, section 4)."""
    (a, b), (n, m) = steps, counts
    g = math.gcd(a, b)
    return (n * m - max(0, n - b // g) * max(0, m - a // g)) / (n * m)
