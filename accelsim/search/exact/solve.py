"""Solve a map space: branch and bound, and the certificate.

Axis letters as in node.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Timer, local

import numpy as np

from accelsim.inputs.objective import LEAST_ENERGY, Objective
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import Bools, Floats, Ints
from accelsim.search.exact.branch_kernel import explore
from accelsim.search.exact.incumbents import (
    ANY,
    BEST,
    FRONT,
    SURE,
    WITHIN,
    Goal,
    Incumbents,
    make_goal,
    make_incumbents,
    merge,
    revalued,
)
from accelsim.search.exact.memo_kernel import Memo, make_memo
from accelsim.search.exact.node import make_node, search_problem
from accelsim.search.exact.relaxation import Relaxation
from accelsim.search.exact.shapes import Grid
from accelsim.search.exact.worth import SLACK, Known
from accelsim.search.stopping import asked, heeding

FIRST_WAVE, PIECES = 8, 8
"""Root shapes of the first wave of a search, which doubles from wave to wave, and pieces of each later wave.

The pieces of a wave start from the best of the waves before, so the result does not depend on the number of workers."""
SMALL = 256
"""A map space of at most so many tile shapes is looked through in one go."""
POLL_SECONDS = 0.05
DIVE_SECONDS = 0.1
"""How long a first mapping near the bound is looked for, where time is short."""
LONGEST_DIVE = 5.0
"""How long any mapping at all is looked for then [s]."""
MEMO = 1 << 18
"""Nodes that each piece of a wave remembers at most."""
LEAST_MEMO = 256
"""Nodes that it remembers at least; where there are few mappings, one or two for each."""
NO_END = 1 << 62
FINER = "finer"
"""Why a search pauses if these tables are to be made."""


@dataclass(slots=True)
class Outcome:
    """What a search found, best first, and what it proved.

    Attributes
    ----------
    found : Incumbents
    root_bound : float
        What the tables alone prove: no mapping has a smaller value.
    bound : float
        The same after the search.
    nodes, leaves : int
        Partial mappings bounded, and whole mappings evaluated.
    stop : str
        `exhausted`, `timeout`, `interrupted` or `nodes`.
    """

    found: Incumbents
    root_bound: float
    bound: float
    nodes: int
    leaves: int
    mismatches: int
    stop: str
    seconds: float
    table_bytes: int


class Solver:
    """Branch and bound over one map space.

    Parameters
    ----------
    workers : int
    space, cycles, words, every, grid, known, deadline, memory
        As for `Relaxation`, which raises the same errors.
    """

    def __init__(
        self,
        space: MapSpace,
        *,
        cycles: bool = False,
        words: bool = False,
        every: bool = False,
        grid: Grid | None = None,
        known: Known | None = None,
        workers: int = 1,
        deadline: float | None = None,
        memory: int | None = None,
    ) -> None:
        self.space, self.workers = space, workers
        self._kept = local()
        self.relaxation = Relaxation(
            space, cycles=cycles, words=words, every=every, grid=grid, known=known, deadline=deadline, memory=memory
        )
        self.stop = np.array([0, NO_END], np.int64)
        self.most_nodes, self.refined_at = NO_END, 0
        self.settled: Bools
        """Root shapes that a search has looked through; with finer tables it looks through the others."""
        self.alike = False
        """Whether the first tables bound all root shapes alike."""
        self.interrupted = False

    def limit(self, most: Floats) -> None:
        """Look from now on only at mappings with at most so much energy [pJ], cycles and off-chip words: float64[3]."""
        self.relaxation.limit(most)

    def search(
        self,
        *,
        kind: int = BEST,
        objective: Objective = LEAST_ENERGY,
        room: int = 1,
        limit: float = math.inf,
        columns: tuple[int, ...] = (0, 1),
        level: int = 0,
        floor: tuple[float, float] = (0.0, 0.0),
        deadline: float | None = None,
        most_nodes: int = NO_END,
        seeds: Incumbents | None = None,
        on_poll: Callable[[Incumbents, float], None] | None = None,
    ) -> Outcome:
        """Find the best mappings.

        Parameters
        ----------
        kind : {BEST, WITHIN, FRONT}
        objective : Objective
            What is to be small.
        room : int
            How many mappings to keep.
        limit : float
            The largest value that counts.
        columns : tuple of int
            FRONT: what counts.
        level : int
            Whose capacity counts.
        floor : (float, float)
            Energy and cycles that no mapping falls below.
        deadline : float, optional
            When to stop, by `time.monotonic`; a first mapping is looked for even so, unless there are most nodes.
        most_nodes : int
            Partial mappings to bound before the search is given up, about; it is then stopped by `nodes`.
        seeds : Incumbents, optional
            Mappings that other searches of the same space found.
        """
        started = time.monotonic()
        self.stop[:], self.most_nodes, self.refined_at = (0, NO_END), most_nodes, 0
        self.settled = np.zeros(self.relaxation.grid.shapes.total, np.bool_)
        goal = make_goal(
            kind, objective, columns, level, floor=floor,
            energy_only=kind != FRONT and objective.alone == "energy" and not self.relaxation.timed,
        )  # fmt: skip
        total = make_incumbents(self.space, room)
        if seeds is not None:
            merge(goal, total, seeds if kind == FRONT else revalued(seeds, objective))
        begin, values = self.relaxation.roots(goal, total)
        least = float(values[0]) if len(values) else math.inf
        self.alike = len(values) > 1 and float(values[-1]) <= least * (1.0 + SLACK)
        outcome = Outcome(total, least, least, 0, 0, 0, "exhausted", 0.0, 0)
        none_yet = kind == BEST and len(values) and not total.many[0] and limit == math.inf
        tell = None if on_poll is None else lambda: on_poll(total, outcome.bound)
        with heeding(self.stop):
            if none_yet and deadline is not None and most_nodes == NO_END:
                self._find_any(goal, total, begin, values)
            stop = self._go_through(goal, outcome, begin, values, limit, deadline, tell)
        while stop == FINER:
            try:
                self._kept = local()  # the tables so far make room
                self.relaxation.refine(deadline)
                self.refined_at = int(total.tally[0])
                begin, values = self.relaxation.roots(goal, total)
                least = float(values[0]) if len(values) else math.inf
                outcome.bound = outcome.root_bound = max(outcome.bound, least)
                with heeding(self.stop):
                    stop = self._go_through(goal, outcome, begin, values, limit, deadline, tell)
            except TimeoutError:
                stop = "timeout"
            except KeyboardInterrupt:
                stop = "interrupted"
        outcome.stop = stop or "exhausted"
        outcome.nodes, outcome.leaves, outcome.mismatches = (int(total.tally[k]) for k in (0, 1, 3))
        outcome.table_bytes = self.relaxation.filled.nbytes
        outcome.seconds = time.monotonic() - started
        return outcome

    def _go_through(
        self,
        goal: Goal,
        outcome: Outcome,
        begin: Ints,
        values: Floats,
        limit: float,
        deadline: float | None,
        on_poll: Callable[[], None] | None,
    ) -> str:
        """Look through the root shapes that may lead below the limit; returns why it ended early, or nothing."""
        kind, total = goal.kind[0], outcome.found
        goal.limit[0] = limit if kind != FRONT else math.inf
        room, inside = len(total.value), int(np.searchsorted(values, goal.limit[0] * (1 + SURE), side="right"))
        if room > 1 and kind == BEST:  # a search that goes on finds again what it found before
            total.many[0] = 0
        rest = ~self.settled[begin[:inside]]
        total.open[0] = math.inf
        stop = self._look_through(goal, total, begin[:inside][rest], values[:inside][rest], deadline, on_poll)
        beyond = float(values[inside]) if inside < len(values) else math.inf
        best = float(total.value[room - 1]) if total.many[0] == room else math.inf
        outcome.bound = max(outcome.bound, min(float(total.open[0]), beyond, best))
        return stop

    def _find_any(self, goal: Goal, total: Incumbents, begin: Ints, values: Floats) -> None:
        """Find some mapping, a good one if that is quick: a search that is stopped early shall have an answer."""
        goal.kind[0] = ANY
        for factor in (1.02, 1.2, 2.0, math.inf):
            goal.limit[0] = values[0] * factor
            timer = Timer(DIVE_SECONDS if factor < math.inf else LONGEST_DIVE, self.stop.__setitem__, (0, 1))
            timer.start()
            self._explore(goal, total, begin, values, make_memo(self.space.encoded.constants, 0))
            timer.cancel()
            self.stop[0] = 0
            if total.many[0] or self._is_interrupted():
                break
        goal.kind[0] = BEST

    def _look_through(
        self,
        goal: Goal,
        total: Incumbents,
        begin: Ints,
        values: Floats,
        deadline: float | None,
        on_poll: Callable[[], None] | None,
    ) -> str:
        """Look through some root shapes; returns why it ended early, or nothing."""
        first, stop = 0, ""
        memos: list[Memo] = []
        size = len(begin) if self.relaxation.grid.shapes.total <= SMALL else FIRST_WAVE
        with ThreadPoolExecutor(self.workers) as pool:
            while first < len(begin) and not stop:
                last = min(first + size, len(begin))
                pieces = 1 if first == 0 else PIECES
                due = None if goal.kind[0] == WITHIN else self.relaxation.due(alike=self.alike)
                coarse = NO_END if due is None else self.refined_at + due  # nodes after which finer tables may pay
                left, why = min((coarse, FINER), (self.most_nodes, "nodes"))
                left -= int(total.tally[0])
                self.stop[1] = left // pieces
                if deadline is not None and time.monotonic() > deadline:
                    why = "timeout"
                if left <= 0 or why == "timeout":
                    stop = why
                    break
                parts = [self._copy_of(total) for _ in range(pieces)]
                rows = [slice(first + k, last, pieces) for k in range(pieces)]
                memos += [self._make_memo(goal, len(total.value)) for _ in range(pieces - len(memos))]
                jobs = [
                    pool.submit(self._explore, goal, part, begin[row], values[row], memo)
                    for part, row, memo in zip(parts, rows, memos, strict=False)
                ]
                stop = self._await(jobs, deadline, on_poll)
                for job in jobs:
                    job.result()
                settles = not stop and (goal.kind[0] == FRONT or len(total.value) == 1)
                for part, row in zip(parts, rows, strict=True):
                    if part.tally[0] > self.stop[1]:
                        stop = stop or why
                    elif settles:
                        self.settled[begin[row]] = True
                    merge(goal, total, part)
                first, size = last, 2 * size
        if first < len(begin):
            total.open[0] = min(total.open[0], float(values[first]))
        return stop

    def _copy_of(self, total: Incumbents) -> Incumbents:
        """An empty tally with what was found so far, for one piece of a wave."""
        part = make_incumbents(self.space, len(total.value))
        part.many[0] = total.many[0]
        rows = slice(0, int(total.many[0]))
        for mine, other in zip(
            (part.value, part.column, *part.best), (total.value, total.column, *total.best), strict=True
        ):
            mine[rows] = other[rows]
        return part

    def _make_memo(self, goal: Goal, room: int) -> Memo:
        """A memo for one piece of each wave, of nodes that all of these look through."""
        c = self.space.encoded.constants
        grouped = (c.nodes[:, 1] - c.nodes[:, 0] > 1).any()
        share = grouped and len(set(c.role.tolist())) < len(c.role)  # tensors of several nodes one partition
        useless = (
            goal.kind[0] != BEST
            or room > 1
            or self.relaxation.grid.shapes.ragged.any()
            or c.windowed[c.output[0]]
            or (c.partitioned.any() and (share or c.two_widths[0]))
        )
        timed = not goal.energy_only[0] or bool(c.leak.any())
        words = self.relaxation.problem.words
        size = self.space.quick_size
        places = MEMO if size is None else min(MEMO, 1 << (LEAST_MEMO + size).bit_length())
        return make_memo(c, 0 if useless else places, timed=timed, words=words)

    def _explore(self, goal: Goal, part: Incumbents, begin: Ints, values: Floats, memo: Memo) -> None:
        grid, tables, kept = self.relaxation.grid, self.relaxation.filled.tables, self._kept
        if getattr(kept, "tables", None) is not tables:  # each thread has a node, which begins anew at each root
            kept.tables, kept.problem, kept.node = tables, search_problem(grid, tables), make_node(grid, tables)
        explore(
            kept.problem,
            goal,
            part,
            kept.node,
            memo,
            np.ascontiguousarray(begin),
            np.ascontiguousarray(values),
            self.stop,
        )

    def _await(self, jobs: list[Future[None]], deadline: float | None, on_poll: Callable[[], None] | None) -> str:
        """Wait for pieces; returns why they were stopped, or nothing."""
        stop = ""
        try:
            while wait(jobs, timeout=0.0 if self._is_interrupted() and not stop else POLL_SECONDS).not_done:
                if self._is_interrupted() and not stop:
                    stop, self.stop[0] = "interrupted", 1
                if deadline is not None and time.monotonic() > deadline and not stop:
                    stop, self.stop[0] = "timeout", 1
                if on_poll is not None:
                    on_poll()
        except KeyboardInterrupt:
            self.interrupted, self.stop[0] = True, 1
        return stop or ("interrupted" if self._is_interrupted() else "")

    def _is_interrupted(self) -> bool:
        """Whether this search is to end, and each later one of this solver."""
        return self.interrupted or bool(asked())
