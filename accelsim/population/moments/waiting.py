"""Words into a tile that waits for the innermost loop that moves it, followed through the nest from the inside out.

`Waiting` adds up, over all mappings, the words that would enter a tile if every step outside cost its whole box, less
what loops save. Loops that do not move the tile divide by their bounds. The first loop that moves it settles the words;
where that is a loop over a window, a state remembers what a halo saves in further loops of the same rank
(docs/census_moments.md). Axis letters: D = dimensions, S = tile shapes, R = sizes of the dimensions that are not
tracked, G = tracked states, C = cells, pairs of sizes of the two dimensions of a window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from accelsim.model.encode import Floats
from accelsim.population.moments.orders import Block, Powers, arrange
from accelsim.population.moments.spreads import Move
from accelsim.population.steps import Keeping, Nest, Step

STILL, SAME, NEXT = range(3)
"""The tile has not moved; it has moved along the window, and a loop that leaves the box in place can save all of it;
the same, and a loop that carries on with the same step can save the halo."""
State = tuple[int, ...]
"""STILL, cell of the tile, cell now; or SAME or NEXT, step, way back, cell now."""


@dataclass(frozen=True, slots=True)
class Tracked:
    """States along the first axis of an array.

    Attributes
    ----------
    pair : tuple of int
        Dimensions whose sizes the states tell; empty if they tell none.
    count : int
    moves : callable
        Moves between states, from those between cells.
    live : tuple of int
        From the outside in: states that tiles can be in below the network.
    """

    pair: tuple[int, ...]
    count: int
    moves: Callable[[Sequence[Move]], list[Move]]
    live: tuple[int, ...] = ()


class Waiting:
    """The words into tiles of one tensor, as far as the first loop to move them is over certain dimensions.

    Parameters
    ----------
    nest : Nest
    t : int
        Tensor.
    pair : tuple of int, optional
        The first loop to move the tile is over one of these two dimensions of a window; by default it is over a
        dimension that is alone in its rank, or there is none.

    Attributes
    ----------
    axes : dict of {int: int}
        Axis of each dimension that is not tracked, in arrays float64[G, *R].
    """

    def __init__(self, nest: Nest, t: int, pair: tuple[int, ...] = ()) -> None:
        c = nest.space.encoded.constants
        self.nest, self.t, self.pair = nest, t, pair
        dims = range(len(nest.sizes))
        self.rest = tuple(d for d in dims if d not in pair)
        self.axes = {d: 1 + k for k, d in enumerate(self.rest)}
        windows = {d for other in windows_of(nest, t) for d in other}
        self.idle: Powers = {d: -1.0 for d in dims if not c.relevant[t, d]}
        self.firsts: Powers = {d: 0.0 for d in dims if c.relevant[t, d] and d not in windows and not pair}
        self.any: Powers = dict.fromkeys(dims, 0.0)
        self.coefficients = tuple(int(c.factor[t, d]) for d in pair)
        self._pieces: dict[tuple[object, ...], tuple[list[Floats], dict[tuple[int, int], Floats]]] = {}

    # --- states ---------------------------------------------------------------------------------------------------

    @cached_property
    def states(self) -> dict[State, int]:
        """Number of each state that can still save something."""
        if not self.pair:
            return {(STILL, 0, 0): 0}
        edges: dict[State, set[State]] = {}
        saving: set[State] = set()
        queue: list[State] = [(STILL, cell, cell) for cell in range(self.cells)]
        while queue:
            state = queue.pop()
            if state in edges:
                continue
            edges[state] = {(*state[:-1], cell) for cell in self._spatial.get(state[-1], ())}
            for e, cell, bound in self.loops_around(self.temporal, state[-1]):
                settles, onwards = self.loop(state, e, cell, bound)
                edges[state] |= {after for after, _ in onwards}
                if state[0] != STILL and settles:
                    saving.add(state)
            queue += edges[state]
        while grown := {s for s, after in edges.items() if s[0] != STILL and s not in saving and after & saving}:
            saving |= grown
        return {s: k for k, s in enumerate(sorted(s for s in edges if s[0] == STILL or s in saving))}

    def tracked(self, level: int) -> Tracked:
        """The states, for the network below a level."""
        return Tracked(self.pair, len(self.states), self.moves, self._live[level])

    @cached_property
    def _live(self) -> dict[int, tuple[int, ...]]:
        """States that tiles can be in below the network of each level."""
        found: dict[int, tuple[int, ...]] = {}
        space, live, below = self.nest.space, set[State](), True
        if not self.pair:
            return dict.fromkeys(range(len(space.keep)), (0,))
        for step in self.nest.steps:
            level = step.level if isinstance(step, Keeping) else step.slot.level
            if below:
                found[level], below = tuple(sorted(self.states[state] for state in live)), False
            if isinstance(step, Keeping):
                below = True
                if space.keep[level, self.t] or (level, self.t) in space.free_keeps:
                    live |= {(STILL, cell, cell) for cell in range(self.cells)}
            elif step.slot.axis:
                live |= {(*state[:-1], cell) for state in live for cell in self.cells_around(step, state[-1])}
            else:
                for _ in range(2):
                    live |= {after for state in live for after in self._onwards(step, state)}
            live = {state for state in live if state in self.states}
        return found

    def cells_around(self, step: Step, cell: int) -> set[int]:
        """Cells that loops over the window in a step lead to."""
        moves = [set(step.moves[d]) for d in self.pair]
        once = {after for _, after, _ in self.loops_around(moves, cell)}
        return once | {after for at in once for _, after, _ in self.loops_around(moves, at)}

    def _onwards(self, step: Step, state: State) -> list[State]:
        """States that a loop over the window in a step leads to."""
        moves = [set(step.moves[d]) for d in self.pair]
        return [
            after
            for e, cell, bound in self.loops_around(moves, state[-1])
            for after, _ in self.loop(state, e, cell, bound)[1]
        ]

    @property
    def cells(self) -> int:
        """Pairs of sizes."""
        return math.prod(len(self.nest.sizes[d]) for d in self.pair)

    @cached_property
    def now(self) -> list[int]:
        """Cell of each state."""
        return [state[-1] for state in self.states]

    @cached_property
    def fresh(self) -> list[int]:
        """State of a tile of each cell right above it."""
        return [self.states[STILL, cell, cell] for cell in range(self.cells)]

    @cached_property
    def _steps_outside(self) -> list[Step]:
        """Steps outside the innermost level that may keep the tensor."""
        space = self.nest.space
        inner = max(lv for lv, row in enumerate(space.keep) if row[self.t] or (lv, self.t) in space.free_keeps)
        return [step for step in self.nest.steps if isinstance(step, Step) and step.slot.level < inner]

    @cached_property
    def temporal(self) -> tuple[set[tuple[int, int, int]], ...]:
        """Loops that some temporal block may have, for each of the two dimensions."""
        steps = [step for step in self._steps_outside if not step.slot.axis]
        return tuple({move for step in steps for move in step.moves[d]} for d in self.pair)

    @cached_property
    def _spatial(self) -> dict[int, set[int]]:
        """Cells that spatial loops lead to from each."""
        found: dict[int, set[int]] = {}
        across = len(self.nest.sizes[self.pair[1]])
        for step in self._steps_outside:
            for e, d in enumerate(self.pair):
                for i, j, _ in step.moves[d] if step.slot.axis else ():
                    for other in range(self.cells // len(self.nest.sizes[d])):
                        before, after = (k * across + other if e == 0 else other * across + k for k in (i, j))
                        found.setdefault(before, set()).add(after)
        return found

    def _size(self, cell: int, e: int) -> int:
        across = len(self.nest.sizes[self.pair[1]])
        return int(self.nest.sizes[self.pair[e]][cell % across if e else cell // across])

    def loops_around(self, moves: Sequence[set[tuple[int, int, int]]], cell: int) -> Iterator[tuple[int, int, int]]:
        """Loops around a cell: which of the two dimensions, the cell outside, and the bound."""
        across = len(self.nest.sizes[self.pair[1]])
        for e, every in enumerate(moves):
            at = cell % across if e else cell // across
            for i, j, bound in every:
                if i == at:
                    yield e, cell + (j - i if e else (j - i) * across), bound

    def loop(self, state: State, e: int, cell: int, bound: int) -> tuple[float, list[tuple[State, float]]]:
        """What a loop over the window settles, and the states that it leads to, with shares."""
        step = self.coefficients[e] * self._size(state[-1], e)
        if state[0] != STILL:
            kind, remembered, back, _ = state
            hit = step == back + (remembered if kind == NEXT else 0)
            settles = (1 - bound) / bound if hit else 0.0
            return settles, [((kind, remembered, back + (bound - 1) * step, cell), 1 / bound)]
        extent = 1 + sum(a * (self._size(state[1], k) - 1) for k, a in enumerate(self.coefficients))
        new, back = min(extent, step) / extent, (bound - 1) * step
        onwards: list[tuple[State, float]] = [((SAME, step, back, cell), 1 / bound)]
        if new < 1:
            onwards.append(((NEXT, step, back, cell), (1 - new) / bound))
        return new + (1 - new) / bound, onwards

    def moves(self, between: Sequence[Move]) -> list[Move]:
        """Moves between states, from those between cells."""
        leads: dict[int, list[Move]] = {}
        for move in between:
            leads.setdefault(move[0], []).append(move)
        found = []
        for state, k in self.states.items():
            for _, cell, bounds, weight in leads.get(state[-1], ()):
                after = self.states.get((*state[:-1], cell))
                if after is not None:
                    found.append((k, after, bounds, weight))
        return found

    # --- temporal blocks ------------------------------------------------------------------------------------------

    def _transitions(self, block: Block) -> tuple[list[Floats], dict[tuple[int, int], Floats]]:
        """Matrices of a block's loops over the window.

        Returns
        -------
        list of float64[G, G]
            By the number of loops, where none settles.
        dict of float64[C, G]
            By the numbers of loops before and after the one that settles.
        """
        inside = [d in block.dims for d in self.pair]
        rests = [block.rests[d] if here else 1.0 for d, here in zip(self.pair, inside, strict=True)]
        key = (*inside, *rests, *(block.bounds[d].tobytes() for d in self.pair))
        if key not in self._pieces:
            loops = [
                {(int(i), int(j), int(block.bounds[d][j, i])) for j, i in np.argwhere(block.bounds[d])}
                if here
                else set()
                for d, here in zip(self.pair, inside, strict=True)
            ]
            self._pieces[key] = self._matrices(loops, rests)
        return self._pieces[key]

    def _matrices(
        self, loops: Sequence[set[tuple[int, int, int]]], rests: Sequence[float]
    ) -> tuple[list[Floats], dict[tuple[int, int], Floats]]:
        count = len(self.states)
        stay = [np.zeros((count, count)) for _ in range(3)]
        settle = {key: np.zeros((self.cells, count)) for key in ((0, 0), (0, 1), (1, 0))}
        for state, k in self.states.items():
            stay[0][k, k] = rests[0] * rests[1]
            for e, cell, bound in self.loops_around(loops, state[-1]):
                settles, onwards = self.loop(state, e, cell, bound)
                settle[0, 0][cell, k] += settles * rests[1 - e]
                others = [move if at != e else set() for at, move in enumerate(loops)]
                for _, further, _ in self.loops_around(others, cell):
                    settle[0, 1][further, k] += settles
                for after, share in onwards:
                    if after not in self.states:
                        continue
                    stay[1][self.states[after], k] += share * rests[1 - e]
                    for other, further, again in self.loops_around(others, cell):
                        late, beyond = self.loop(after, other, further, again)
                        settle[1, 0][further, k] += share * late
                        for final, part in beyond:
                            if final in self.states:
                                stay[2][self.states[final], k] += share * part / 2
        return stay, settle

    def stay(self, block: Block, values: Floats) -> Floats:
        """What still waits once the loops of a block stand around; float64[G, *R], and so are `values`."""
        if not self.pair:
            return arrange(block, values, self.axes, [self.idle])
        found = np.zeros_like(values)
        for count, matrix in enumerate(self._transitions(block)[0]):
            if matrix.any():
                found += _times(matrix, arrange(block, values, self.axes, [self.idle], others=[count]))
        return found

    def stay_back(self, block: Block, values: Floats) -> Floats:
        """The same from the outside in."""
        if not self.pair:
            return arrange(block.backward(), values, self.axes, [self.idle])
        found = np.zeros_like(values)
        for count, matrix in enumerate(self._transitions(block)[0]):
            if matrix.any():
                found += arrange(block.backward(), _times(matrix.T, values), self.axes, [self.idle], others=[count])
        return found

    def settle(self, block: Block, values: Floats) -> Floats:
        """What the loops of a block settle: float64[*S]."""
        if not self.pair:
            return np.asarray(arrange(block, values, self.axes, [self.idle, self.any], [self.firsts])[0])
        found: Floats = np.zeros((self.cells, *values.shape[1:]))
        for others, matrix in self._transitions(block)[1].items():
            if matrix.any():
                found += arrange(block, _times(matrix, values), self.axes, [self.idle, self.any], others=others)
        return self.as_shapes(found)

    def settle_back(self, block: Block, shapes: Floats) -> Floats:
        """The same from the outside in: from float64[*S] to float64[G, *R]."""
        if not self.pair:
            return arrange(block.backward(), shapes[None], self.axes, [self.idle, self.any], [self.firsts])
        cells = self.as_cells(shapes)
        found: Floats = np.zeros((len(self.states), *cells.shape[1:]))
        for others, matrix in self._transitions(block)[1].items():
            if matrix.any():
                late = arrange(block.backward(), cells, self.axes, [self.idle, self.any], others=others)
                found += _times(matrix.T, late)
        return found

    # --- from and to tile shapes ----------------------------------------------------------------------------------

    def as_cells(self, shapes: Floats) -> Floats:
        """Bring float64[*S] into the form float64[C, *R]."""
        moved = shapes.transpose(*self.pair, *self.rest)
        return np.asarray(moved.reshape(self.cells, *(self.nest.shape[d] for d in self.rest)))

    def as_shapes(self, cells: Floats) -> Floats:
        """Bring float64[C, *R, ...] into the form float64[*S, ...]."""
        order = (*self.pair, *self.rest)
        further = cells.shape[1 + len(self.rest) :]
        moved = cells.reshape([*(self.nest.shape[d] for d in order), *further])
        return np.asarray(moved.transpose(*np.argsort(order), *range(len(order), moved.ndim)))

    def begin(self, shapes: Floats) -> Floats:
        """Words into new tiles, all of which wait: float64[G, *R]."""
        found: Floats = np.zeros((len(self.states), *(self.nest.shape[d] for d in self.rest)))
        found[self.fresh] = self.as_cells(shapes)
        return found

    def at_states(self, shapes: Floats) -> Floats:
        """A value of the tile that each state is at."""
        return np.asarray(self.as_cells(shapes)[self.now])

    def end(self) -> Floats:
        """What counts at the end: words into tiles that nothing has moved, once."""
        found = np.zeros((len(self.states), *(self.nest.shape[d] for d in self.rest)))
        if not self.pair:
            found[(-1,) * found.ndim] = 1.0
        return found


def _times(matrix: Floats, values: Floats) -> Floats:
    found: Floats = matrix @ values.reshape(len(values), -1)
    return found.reshape(len(matrix), *values.shape[1:])


def windows_of(nest: Nest, t: int) -> list[tuple[int, ...]]:
    """Dimensions of each rank of a tensor that has two or more."""
    c = nest.space.encoded.constants
    ranks: dict[int, list[int]] = {}
    for d in range(len(nest.sizes)):
        if c.relevant[t, d]:
            ranks.setdefault(int(c.rank[t, d]), []).append(d)
    return [tuple(dims) for dims in ranks.values() if len(dims) > 1]
