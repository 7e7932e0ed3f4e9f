"""Products of words into tiles that wait for a loop over a window.

`Waiting` follows the words of one tile; here two of them, of one tensor, are followed at once, or one beside the words
of another tensor. A product is in one of three **stages**: both factors wait, one does, none does. In each phase of a
block it is in one stage; a loop over the window may change it. Axis letters as in
`accelsim.population.moments.waiting`; H = pairs of tracked states with a common cell.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accelsim.model.encode import Floats
from accelsim.population.moments.orders import Block, apply, arrange
from accelsim.population.moments.parts import parts_of
from accelsim.population.moments.spreads import Move
from accelsim.population.moments.waiting import STILL, State, Waiting
from accelsim.population.steps import Nest

BOTH, ONE_LEFT, NONE = range(3)
FIRST, SECOND = 0, 1
Allowed = tuple[float | None, ...]
"""For each dimension of the window, the power of its bound that weighs the other factor; None: no loop here."""
Moves = tuple[set[tuple[int, int, int]], ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """A phase of a block, or an event between two.

    Attributes
    ----------
    before, after : int
        Stages; the same but for events that settle words.
    settles : int
        FIRST or SECOND, if only one of two factors is settled.
    others : tuple of (int, float)
        Loops over dimensions outside the window, each with the power of its bound that weighs a mapping.
    window : Allowed
    """

    before: int
    after: int
    settles: int
    others: tuple[tuple[int, float], ...]
    window: Allowed


class Halo:
    """Products of which at least one factor is the words of a tensor that first moves along a certain window."""

    def __init__(self, nest: Nest, t: int, pair: tuple[int, ...]) -> None:
        self.nest, self.t, self.waiting = nest, t, Waiting(nest, t, pair)
        self.pair = pair
        self.singles = list(self.waiting.states)
        self.pairs = {pair: k for k, pair in enumerate(sorted(self._reachable()))}
        self.swapped = [self.pairs[second, first] for first, second in self.pairs]
        self.now = [self.singles[first][-1] for first, _ in self.pairs]
        self._pieces: dict[object, dict[tuple[tuple[int, ...], int], Floats]] = {}
        self._matrices: dict[object, dict[tuple[int, int, int, int, float], Floats]] = {}

    def _reachable(self) -> set[tuple[int, int]]:
        """Pairs of states that two tiles of the tensor can be in at once."""
        number, space, around = self.waiting.states, self.nest.space, self.waiting.cells_around
        states: set[tuple[State, ...]] = set()
        found: set[tuple[int, int]] = set()
        for part in parts_of(self.nest):
            for step in part.network.steps:
                states |= {
                    tuple((*s[:-1], cell) for s in each) for each in states for cell in around(step, each[0][-1])
                }
            for _ in range(2):
                for each in list(states):
                    states |= set(self._onwards(each))
            states = {each for each in states if all(s in number for s in each)}
            if part.level and (space.keep[part.level, self.t] or (part.level, self.t) in space.free_keeps):
                for (s,) in [each for each in states if len(each) == 1]:
                    new = (STILL, s[-1], s[-1])
                    states |= {(s, new), (new, s)}
                for cell in range(self.waiting.cells):
                    new = (STILL, cell, cell)
                    states |= {(new,), (new, new)}
            found |= {(number[each[0]], number[each[1]]) for each in states if len(each) == 2}
        return found

    def _onwards(self, states: tuple[State, ...]) -> list[tuple[State, ...]]:
        found = []
        for e, cell, bound in self.waiting.loops_around(self.waiting.temporal, states[0][-1]):
            each = [[after for after, _ in self.waiting.loop(s, e, cell, bound)[1]] for s in states]
            found += list(itertools.product(*each))
        return found

    # --- layouts --------------------------------------------------------------------------------------------------

    def pairs_begin(self, shapes: Floats) -> Floats:
        """Products of words into new tiles: from float64[*S] to float64[H, *R]."""
        cells, fresh = self.waiting.as_cells(shapes), self.waiting.fresh
        found: Floats = np.zeros((len(self.pairs), *cells.shape[1:]))
        for cell, k in enumerate(fresh):
            if (k, k) in self.pairs:
                found[self.pairs[k, k]] = cells[cell]
        return found

    def beside_new(self, values: Floats, new: int) -> Floats:
        """Products of words that wait, float64[G, *R], with those into new tiles, which are factor `new`."""
        found: Floats = np.zeros((len(self.pairs), *values.shape[1:]))
        for k, cell in enumerate(self.waiting.now):
            key = (self.waiting.fresh[cell], k) if new == FIRST else (k, self.waiting.fresh[cell])
            if key in self.pairs:
                found[self.pairs[key]] = values[k]
        return found

    def at_pairs(self, shapes: Floats) -> Floats:
        """A value of the tile that each pair is at."""
        return np.asarray(self.waiting.as_cells(shapes)[self.now])

    def pair_moves(self, between: Sequence[Move]) -> list[Move]:
        """Moves between pairs of states, from those between cells."""
        leads: dict[int, list[Move]] = {}
        for move in between:
            leads.setdefault(move[0], []).append(move)
        found = []
        number = self.waiting.states
        for (first, second), k in self.pairs.items():
            for _, cell, bounds, weight in leads.get(self.now[k], ()):
                one, two = ((*self.singles[s][:-1], cell) for s in (first, second))
                after = self.pairs.get((number.get(one, -1), number.get(two, -1)))
                if after is not None:
                    found.append((k, after, bounds, weight))
        return found

    # --- temporal blocks ------------------------------------------------------------------------------------------

    def arrange(self, block: Block, values: Floats, slots: Sequence[Slot]) -> Floats:
        """Put the loops of a block around: phases and events in turn, from the inside out.

        Parameters
        ----------
        values : float64[H, *R, ...] or float64[G, *R, ...]
            By the stage of the first phase. Further axes hold sums that the same is done to.

        Returns
        -------
        float64[H, *R, ...], float64[G, *R, ...] or float64[*S, ...]
            By the stage of the last phase.
        """
        stage = slots[-1].after
        count = (len(self.pairs), len(self.singles), self.waiting.cells)[stage]
        found: Floats = np.zeros((*values.shape[1:], count))
        axes = {d: axis - 1 for d, axis in self.waiting.axes.items()}
        phases, events = ([dict(slot.others) for slot in slots[k::2]] for k in range(2))
        for (others, filled), matrix in self._pieces_of(block, slots).items():
            rows = np.flatnonzero(matrix.any(axis=1))
            inside = np.moveaxis(apply(matrix[rows], values, 0), 0, -1)  # short axes last would take longer
            found[..., rows] += arrange(block, inside, axes, phases, events, others, filled)
        found = np.moveaxis(found, -1, 0)
        return self.waiting.as_shapes(found) if stage == NONE else found

    def _pieces_of(self, block: Block, slots: Sequence[Slot]) -> dict[tuple[tuple[int, ...], int], Floats]:
        """Matrices of the loops over the window, by how many are in each phase, and which events they are, as bits."""
        inside = tuple(d in block.dims for d in self.pair)
        rests = tuple(block.rests[d] if here else 1.0 for d, here in zip(self.pair, inside, strict=True))
        place = (inside, rests, *(block.bounds[d].tobytes() for d in self.pair))
        key = (place, tuple((slot.before, slot.after, slot.settles, slot.window) for slot in slots))
        if key not in self._pieces:
            if place not in self._matrices:
                self._matrices[place] = self._loop_matrices(block, inside)
            self._pieces[key] = self._compose(self._matrices[place], inside, rests, slots)
        return self._pieces[key]

    def _compose(
        self,
        matrices: Mapping[tuple[int, int, int, int, float], Floats],
        inside: tuple[bool, ...],
        rests: tuple[float, ...],
        slots: Sequence[Slot],
    ) -> dict[tuple[tuple[int, ...], int], Floats]:
        found: dict[tuple[tuple[int, ...], int], Floats] = {}
        changing = {k for k, slot in enumerate(slots) if slot.before != slot.after}
        places = [
            [-1, *(k for k, slot in enumerate(slots) if here and slot.window[e] is not None)]
            for e, here in enumerate(inside)
        ]
        for roles in itertools.product(*places):
            taken = [k for k in roles if k >= 0]
            if not changing <= set(taken) or (len(set(taken)) < len(taken) and taken[0] % 2):
                continue
            weight = float(np.prod([rests[e] for e in range(2) if roles[e] < 0]))
            loops = [e for e in range(2) if roles[e] >= 0]
            sequences = [sorted(loops, key=lambda e: roles[e])]
            if len(taken) == 2 and taken[0] == taken[1]:
                sequences, weight = [loops, loops[::-1]], weight / 2
            others = tuple(roles.count(k) for k in range(0, len(slots), 2))
            filled = sum(1 << (k - 1) // 2 for k in taken if k % 2)
            for sequence in sequences:
                matrix: Floats | None = None
                for e in sequence:
                    slot = slots[roles[e]]
                    power = slot.window[e]
                    loop = matrices[slot.before, slot.after, slot.settles, e, float(power or 0.0)]
                    matrix = loop if matrix is None else loop @ matrix
                if matrix is None:
                    size = (len(self.pairs), len(self.singles), self.waiting.cells)[slots[0].before]
                    matrix = np.eye(size)
                if weight and matrix.any():
                    found[others, filled] = found.get((others, filled), 0.0) + weight * matrix
        return found

    def _loop_matrices(self, block: Block, inside: tuple[bool, ...]) -> dict[tuple[int, int, int, int, float], Floats]:
        """What each loop over the window does: by stages, which factor it settles, dimension and power."""
        sizes = (len(self.pairs), len(self.singles), self.waiting.cells)
        kinds = [(0, 0, 0), (0, 1, FIRST), (0, 1, SECOND), (0, 2, 0), (1, 1, 0), (1, 2, 0), (2, 2, 0)]
        found: dict[tuple[int, int, int, int, float], Floats] = {
            (*kind, e, power): np.zeros((sizes[kind[1]], sizes[kind[0]]))
            for kind in kinds
            for e in range(2)
            for power in (0.0, -1.0)
        }
        loops: Moves = tuple(
            {(int(i), int(j), int(block.bounds[d][j, i])) for j, i in np.argwhere(block.bounds[d])} if here else set()
            for d, here in zip(self.pair, inside, strict=True)
        )
        number, waiting = self.waiting.states, self.waiting

        def put(kind: tuple[int, int, int], e: int, bound: int, after: int, before: int, weight: float) -> None:
            found[(*kind, e, 0.0)][after, before] += weight
            found[(*kind, e, -1.0)][after, before] += weight / bound

        for cell in range(waiting.cells):
            for e, further, bound in waiting.loops_around(loops, cell):
                put((2, 2, 0), e, bound, further, cell, 1.0)
        for state, k in number.items():
            for e, cell, bound in waiting.loops_around(loops, state[-1]):
                settles, onwards = waiting.loop(state, e, cell, bound)
                put((1, 2, 0), e, bound, cell, k, settles)
                for after, share in onwards:
                    if after in number:
                        put((1, 1, 0), e, bound, number[after], k, share)
        for (first, second), k in self.pairs.items():
            one, two = self.singles[first], self.singles[second]
            for e, cell, bound in waiting.loops_around(loops, one[-1]):
                (late, ahead), (last, beyond) = (waiting.loop(state, e, cell, bound) for state in (one, two))
                put((0, 2, 0), e, bound, cell, k, late * last)
                for kept, settled, share in ((beyond, FIRST, late), (ahead, SECOND, last)):
                    for after, part in kept:
                        if after in number:
                            put((0, 1, settled), e, bound, number[after], k, share * part)
                for (left, part), (right, share) in itertools.product(ahead, beyond):
                    both = self.pairs.get((number.get(left, -1), number.get(right, -1)))
                    if both is not None:
                        put((0, 0, 0), e, bound, both, k, part * share)
        return found
