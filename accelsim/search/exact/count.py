"""Count mappings without listing them: those with the fewest outer words, and those whose energy is within limits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue

import numpy as np

from accelsim.mapspace.space import MapSpace
from accelsim.model.detail import Detail, make_detail
from accelsim.model.encode import SAFE, Floats, Ints
from accelsim.search.exact.branch_kernel import explore, go_on
from accelsim.search.exact.found_kernel import COUNT, HALF, SURE, WITHIN, Found, Goal
from accelsim.search.exact.halves import Live, begin_notes, make_live, make_notes, outermost, put_together
from accelsim.search.exact.halves_kernel import Halves, Notes
from accelsim.search.exact.node import Guide
from accelsim.search.exact.solve import NO_END, Solver, make_found, make_goal

PIECES = 8
"""Pieces of a step from one level to the next, which the workers take in turn."""
BY_STATE = 0.9
"""Share of the time after which a count by states is given up: some mappings can still be listed then."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Mappings whose energy does not exceed a limit.

    Attributes
    ----------
    mappings : int
        At least so many if the count was stopped.
    stop : str
        `exhausted`, `timeout`, `interrupted`, or `too many`: outer halves for their room, or mappings for 64 bits.
    nodes, leaves : int
        Partial mappings bounded, and whole mappings evaluated.
    halves, states : int
        Outer halves of all levels, and how many of them the inside can tell apart.
    mismatches : int
        Mappings whose energy is not the sum of its parts; 0, or the model contradicts itself.
    """

    mappings: int
    stop: str
    nodes: int
    leaves: int
    halves: int
    states: int
    mismatches: int


@dataclass(slots=True)
class _Part:
    """What one worker knows, and what it comes to in a step from one level to the next."""

    live: Live
    full: Detail
    notes: Notes
    found: Found


class Counter(Solver):
    """Counts mappings of one map space; of orders and of splits over the axes that cost the same it looks at one.

    Parameters
    ----------
    space : MapSpace
    workers : int
    """

    def __init__(self, space: MapSpace, *, workers: int = 1) -> None:
        super().__init__(space, every=True, alike=True, workers=workers)
        self._parts: list[_Part] = []
        self._roots_of: tuple[Guide | None, Ints, Floats] = None, np.zeros(0, np.int64), np.zeros(0)

    @property
    def by_state(self) -> bool:
        """Whether what the inside of a tile costs depends on its state alone, so that `count_within` can count.

        Not where levels leak, which depends on cycles; nor where cycles are limited, partial sums wider, the output a
        window, or remainders allowed.
        """
        c = self.space.encoded.constants
        plain = not (c.leak.any() or c.two_widths[0] or c.windowed[c.output[0]] or self.grid.shapes.ragged.any())
        return bool(plain and self.guide.most_cycles[0] == SAFE)

    def count_within(self, limit: float, deadline: float | None = None) -> Counted:
        """Count the mappings whose energy does not exceed a limit, level by level from the outside in.

        Parameters
        ----------
        limit : float
            As in `search` [pJ].
        deadline : float, optional
            When to stop, by `time.monotonic`.

        Raises
        ------
        ValueError
            If the space is none that can be counted by states; see `by_state`.
        """
        if not self.by_state:
            raise ValueError("what the inside of a tile costs depends on more than its state here")
        return self._by_state(limit, np.zeros((1, 1, 1), np.int64), deadline)

    def _by_state(self, limit: float, reached: Ints, deadline: float | None) -> Counted:
        """As `count_within`; what is settled is added to `reached`, if that is as `count_settled` returns it."""
        halves, many, stop = outermost(float(self.guide.start[0])), np.zeros(2, np.int64), ""
        tally, mappings = np.zeros(4, np.int64), 0
        levels = len(self.space.encoded.architecture.levels)
        for level in range(1, levels + 1):
            parts = self._begin_parts(level, reached)
            stop = self._run(self._jobs(parts, _goal(HALF, limit), halves, level), deadline)
            tally += np.sum([part.found.tally[:4] for part in parts], axis=0)
            for part in parts:
                reached += part.found.reached
                mappings += int(part.notes.mappings[0])
            if not stop and any(part.found.tally[4] for part in parts):
                stop = "too many"
            if stop or not any(part.notes.many[0] for part in parts):
                break
            try:
                halves = put_together([part.notes for part in parts], limit, halves)
            except OverflowError:
                stop = "too many"
                break
            many += len(halves.energy), len(halves.own)
        nodes, leaves, _, mismatches = tally.tolist()
        return Counted(mappings, stop or "exhausted", nodes, leaves, int(many[0]), int(many[1]), mismatches)

    def count_up_to(self, limit: float, deadline: float | None = None) -> tuple[int, str]:
        """Count the mappings whose energy does not exceed a limit [pJ], by states or one by one.

        Returns
        -------
        mappings : int
            At least so many if the count was stopped.
        stop : str
            As in `Outcome`.
        """
        if self.by_state:
            now = time.monotonic()
            middle = None if deadline is None else now + BY_STATE * (deadline - now)
            counted = self.count_within(limit, middle)
            if counted.stop in ("exhausted", "interrupted"):
                return counted.mappings, counted.stop
        outcome = self.search(kind=WITHIN, limit=limit, deadline=deadline)
        return int(outcome.found.tally[2]), outcome.stop

    def count_settled(self, words: int, deadline: float | None, *, once: bool = False) -> tuple[Ints, int, str]:
        """Count the ways to have at most so many words at the outermost level, where that is settled.

        The energy of the space is to be these words, as `population.enumerated.words_alone` makes it.

        Parameters
        ----------
        words : int
        deadline : float, optional
            When to stop, by `time.monotonic`.
        once : bool
            Go no further in either where only the words of one tensor are open and each must be taken once.

        Returns
        -------
        reached : int64[1, L, S] or int64[1 + 2 * T, L, S]
            How many ways lead to each tile of each level from the outside; at least so many if the count was stopped.
            With `once` further rows for each tensor, as `population.counting.count_inside_once` counts what is inside.
        leaves : int
            Whole mappings, where the words are settled no earlier.
        stop : str
            As in `Outcome`.
        """
        rows = 1 + 2 * len(self.space.encoded.tensors) if once else 1
        shape = rows, len(self.space.encoded.architecture.levels), self.grid.shapes.total
        if self.by_state:
            reached = np.zeros(shape, np.int64)
            counted = self._by_state(words + 0.5, reached, deadline)
            if counted.stop != "too many":
                return reached, counted.mappings, counted.stop
        self.limit_words(words)
        total = make_found(self.space, 1)._replace(reached=np.zeros(shape, np.int64))
        roots = self._within(math.inf)
        stop = self._run([partial(self._explore, _goal(COUNT, float(words)), total, *roots)], deadline)
        return total.reached, int(total.tally[2]), stop or "exhausted"

    def _within(self, limit: float) -> tuple[Ints, Floats]:
        """Shapes around the outermost network within a limit, and their bounds."""
        if self._roots_of[0] is not self.guide:
            self._roots_of = self.guide, *self._roots(_goal(HALF, limit), make_found(self.space, 1))
        _, begin, bounds = self._roots_of
        inside = int(np.searchsorted(bounds, limit * (1.0 + SURE), side="right"))
        return begin[:inside], bounds[:inside]

    def _begin_parts(self, level: int, reached: Ints) -> list[_Part]:
        """What the workers know before the step to the tiles of a level."""
        encoded = self.space.encoded
        while len(self._parts) < min(self.workers, PIECES):
            live, found = make_live(self._path(), make_detail(encoded)), make_found(self.space, 1)
            self._parts.append(_Part(live, make_detail(encoded), make_notes(live), found))
        for part in self._parts:
            begin_notes(part.notes, level)
            part.found = make_found(self.space, 1)._replace(reached=np.zeros_like(reached))
        return self._parts

    def _jobs(self, parts: list[_Part], goal: Goal, halves: Halves, level: int) -> list[Callable[[], None]]:
        """What is to be done, by any worker that is free."""
        free: SimpleQueue[_Part] = SimpleQueue()
        for part in parts:
            free.put(part)
        begin, bounds = self._within(goal.limit[0]) if level == 1 else (np.arange(len(halves.own)), np.zeros(0))

        def do(piece: int) -> None:
            part, mine = free.get(), np.ascontiguousarray(begin[piece::PIECES])
            known = (self.space.encoded.constants, self.grid.shapes, self.guide, goal, part.found)
            mutable = (part.live.path, part.live.detail, part.full)
            try:
                if level == 1:
                    least = np.ascontiguousarray(bounds[piece::PIECES])
                    explore(*known, *mutable, mine, least, self.stop, halves, part.notes, None)
                else:
                    go_on(*known, *mutable, mine, self.stop, halves, part.notes)
            finally:
                free.put(part)

        return [partial(do, piece) for piece in range(PIECES)]

    def _run(self, jobs: Sequence[Callable[[], None]], deadline: float | None) -> str:
        """Have the workers do what is to be done; returns why that was stopped, or nothing."""
        self.stop[:] = 0, NO_END
        with ThreadPoolExecutor(self.workers) as pool:
            running = [pool.submit(job) for job in jobs]
            stop = self._await(running, deadline, None)
            for each in running:
                each.result()
        return stop


def _goal(kind: int, limit: float) -> Goal:
    """Energy alone, up to a limit [pJ]."""
    goal = make_goal(kind, (1.0, 0.0), (0, 1), 0, energy_only=True)
    goal.limit[0] = limit
    return goal
