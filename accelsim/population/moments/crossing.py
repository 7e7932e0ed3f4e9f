"""Sums over the networks of a machine: how sharing divides words on their way through the fanout below a level.

Axis letters: D = dimensions, S = tile shapes, G and R as in `accelsim.population.moments.waiting`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from accelsim.model.encode import Floats
from accelsim.population.moments.spreads import Bounds, Move, Unit, chains, distinct_share, limits_of, paired, spread
from accelsim.population.moments.waiting import Tracked, windows_of
from accelsim.population.steps import Nest, Step


@dataclass(frozen=True, slots=True)
class Sharing:
    """How what crosses a network is divided.

    Attributes
    ----------
    power : float
        Of the bound of each loop, as a weight where instances share words: -1 divides by it.
    idle : frozenset of int
        Dimensions that do not move the tensor.
    windows : tuple of tuple of int
        Pairs of dimensions that move one rank, if the sums of their offsets count.
    x, y : bool
        Which axes share.
    t : int
        Tensor, for its windows.
    times : tuple of Sharing
        What else the weight of a product of words is multiplied by.
    """

    power: float = 0.0
    idle: frozenset[int] = frozenset()
    windows: tuple[tuple[int, ...], ...] = ()
    x: bool = False
    y: bool = False
    t: int = -1
    times: tuple[Sharing, ...] = ()

    def on(self, step: Step) -> bool:
        """Whether instances along the axis of a step share."""
        return self.x if step.slot.axis == "x" else self.y

    def weight(self, step: Step, d: int, bound: int) -> float:
        """Weight of a loop over a dimension on the axis of a step."""
        powers = [each.power for each in (self, *self.times) if each.on(step) and d in each.idle]
        return float(bound) ** sum(powers)


WHOLE = Sharing()
"""Nothing is divided."""


def sharing_of(nest: Nest, t: int, level: int, up: bool = False, power: float = -1.0) -> Sharing:
    """How a tensor's words are shared below a level, on their way down by multicast or up by spatial reduction."""
    c = nest.space.encoded.constants
    x, y = (c.reduction if up else c.multicast)[level]
    idle = frozenset(d for d in range(len(nest.sizes)) if not c.relevant[t, d])
    return Sharing(power, idle, tuple(windows_of(nest, t)), bool(x), bool(y), t)


@dataclass(frozen=True, slots=True)
class Network:
    """The fanout below a level.

    Attributes
    ----------
    nest : Nest
    steps : tuple of Step
        Its axes of more than one instance, from the inside out.
    """

    nest: Nest
    steps: tuple[Step, ...]

    def cross(
        self, values: Floats, sharing: Sharing = WHOLE, tracked: Tracked | None = None, back: bool = False
    ) -> Floats:
        """Add up what mappings weigh over all ways to spread loops here.

        Parameters
        ----------
        values : float64[*S, ...], or float64[G, *R, ...] with `tracked`
            Further axes hold sums that the same is done to.
        sharing : Sharing
        tracked : Tracked, optional
            States that the first axis of the values holds.
        back : bool
            From the outside in.
        """
        joint = len(self.steps) == 2 and any(s.windows and s.x and s.y for s in (sharing, *sharing.times))
        groups = [self.steps] if joint else [(step,) for step in self.steps]
        for steps in reversed(groups) if back else groups:
            midway = tracked is not None and back and steps is not groups[0]
            states = replace(tracked, live=tuple(range(tracked.count))) if tracked is not None and midway else tracked
            values = self._spread(values, steps, sharing, states, back)
        return values

    def _spread(
        self, values: Floats, steps: Sequence[Step], sharing: Sharing, tracked: Tracked | None, back: bool
    ) -> Floats:
        """The same on axes that are looked at together."""
        sharings = [s for s in (sharing, *sharing.times) if s.windows and all(s.on(step) for step in steps)]
        held = tracked.pair if tracked is not None else ()
        windows = sorted({pair for s in sharings for pair in s.windows if pair != held})
        rest = [d for d in range(len(self.nest.sizes)) if d not in held]
        single = [d for d in rest if not any(d in pair for pair in windows)]
        order = [*single, *(d for pair in windows for d in pair)]
        lead = 0 if tracked is None else 1
        further = range(lead + len(rest), values.ndim)
        axes = [*range(lead), *(lead + rest.index(d) for d in order), *further]
        shape = [*values.shape[:lead], *(len(self.nest.sizes[d]) for d in single)]
        cells = [math.prod(len(self.nest.sizes[d]) for d in pair) for pair in windows]
        units = [self._single(steps, d, lead + k, sharing) for k, d in enumerate(single)]
        for k, pair in enumerate(windows):
            moves = self._pair(steps, pair, sharings, sharing)
            units.append(Unit(len(shape) + k, cells[k], tuple(moves)))
        moved = values.transpose(axes)
        source = moved.reshape([*shape, *cells, *(values.shape[axis] for axis in further)])
        if back:
            units = [unit.backward() for unit in units]
        if tracked is not None and held:
            moves = tracked.moves(self._pair(steps, held, sharings, sharing))
            found = _spread_states(source, units, moves, tracked, limits_of(steps), back)
        else:
            found = spread(source, units, limits_of(steps))
        undo = sorted(range(len(axes)), key=axes.__getitem__)
        return found.reshape(moved.shape).transpose(undo)

    def _single(self, steps: Sequence[Step], d: int, axis: int, sharing: Sharing) -> Unit:
        size = len(self.nest.sizes[d])
        moves = []
        for i, j, bounds in chains(steps, d, size):
            weights = [sharing.weight(step, d, bound) for step, bound in zip(steps, bounds, strict=True)]
            moves.append((i, j, bounds, math.prod(weights)))
        return Unit(axis, size, tuple(moves))

    def _pair(
        self, steps: Sequence[Step], pair: tuple[int, ...], sharings: Sequence[Sharing], whole: Sharing
    ) -> list[Move]:
        """Moves of two dimensions of a window, each with the shares of distinct offsets."""
        first, second = pair
        sizes = [self.nest.sizes[d] for d in pair]
        moves = paired(steps, (first, second), [len(found) for found in sizes], whole.weight)
        factors = [self.nest.space.encoded.constants.factor[s.t] for s in sharings if pair in s.windows]

        def share(i: int, j: int) -> float:
            before, after = ((int(sizes[0][k // len(sizes[1])]), int(sizes[1][k % len(sizes[1])])) for k in (i, j))
            counts = (after[0] // before[0], after[1] // before[1])
            ahead = [(int(factor[first]) * before[0], int(factor[second]) * before[1]) for factor in factors]
            return math.prod(distinct_share(each, counts) for each in ahead)

        return [(i, j, bounds, ways * share(i, j)) for i, j, bounds, ways in moves]


def _spread_states(
    source: Floats, units: Sequence[Unit], moves: Sequence[Move], tracked: Tracked, limits: Bounds, back: bool
) -> Floats:
    """Spread with states along the first axis; those in which nothing is, or can be, cost nothing."""
    if back:
        row = {state: k for k, state in enumerate(tracked.live)}
        inward = tuple((j, row[i], bounds, weight) for i, j, bounds, weight in moves if i in row)
        found: Floats = np.zeros((tracked.count, *source.shape[1:]))
        found[list(row)] = spread(source, [Unit(0, len(row), inward), *units], limits)
        return found
    row = {state: k for k, state in enumerate(np.flatnonzero(source.any(axis=tuple(range(1, source.ndim)))).tolist())}
    outward = tuple((row[i], j, bounds, weight) for i, j, bounds, weight in moves if i in row)
    return spread(source[list(row)], [*units, Unit(0, tracked.count, outward)], limits)
