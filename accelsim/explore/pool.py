"""Workers of this computer: the process itself, or a pool of processes that replaces those that die."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Protocol

from accelsim.errors import AccelsimError
from accelsim.explore.work import Item, Plan, Row, work

TRIES = 3
"""How often a job may take its worker down with it."""


class Workers(Protocol):
    """Those who do jobs; a job is a few pieces of work."""

    @property
    def room(self) -> int:
        """Jobs that may be waiting or running."""

    @property
    def size(self) -> int:
        """Pieces of work of a job."""

    @property
    def busy(self) -> int:
        """Jobs that are waiting or running."""

    def submit(self, items: Sequence[Item]) -> None:
        """Hand a job over."""

    def finished(self, seconds: float) -> list[Row]:
        """Results of jobs that ended, after some seconds at most; the same row may come more than once."""

    def close(self) -> None:
        """Stop at once; jobs that are running are lost."""


class Alone:
    """The process itself does the jobs, one after the other."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.room, self.size = plan, 1, 1
        self._jobs: deque[Sequence[Item]] = deque()

    @property
    def busy(self) -> int:
        """Jobs that wait."""
        return len(self._jobs)

    def submit(self, items: Sequence[Item]) -> None:
        """Hand a job over."""
        self._jobs.append(items)

    def finished(self, seconds: float) -> list[Row]:
        """Do the next job."""
        return work(self.plan, self._jobs.popleft()) if self._jobs else []

    def close(self) -> None:
        """Nothing is running."""


@dataclass(slots=True)
class _Hand:
    """One process, how to talk to it, and what it does."""

    process: BaseProcess
    pipe: Connection
    job: tuple[int, Sequence[Item]] | None = None


class Pool:
    """A pool of processes; one that dies is replaced, and its job done again by another.

    Parameters
    ----------
    plan : Plan
        Sent to each process once.
    many : int
        Processes.
    """

    def __init__(self, plan: Plan, many: int) -> None:
        self.plan, self.size = plan, 1
        self.room = 3 * many
        self._context = multiprocessing.get_context("spawn")
        self._jobs: deque[tuple[int, Sequence[Item]]] = deque()
        self._many = many
        self._hands: list[_Hand] = []

    @property
    def busy(self) -> int:
        """Jobs that are waiting or running."""
        return len(self._jobs) + sum(hand.job is not None for hand in self._hands)

    def _hire(self) -> _Hand:
        mine, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, self.plan), daemon=True)
        process.start()
        theirs.close()
        return _Hand(process, mine)

    def submit(self, items: Sequence[Item]) -> None:
        """Hand a job over."""
        self._jobs.append((0, items))
        self._assign()

    def _assign(self) -> None:
        if self._jobs and len(self._hands) < self._many and all(hand.job is not None for hand in self._hands):
            self._hands.append(self._hire())
        for hand in self._hands:
            if hand.job is None and self._jobs:
                hand.job = self._jobs.popleft()
                with suppress(OSError):  # a dead process is noticed when its results are awaited
                    hand.pipe.send(hand.job[1])

    def finished(self, seconds: float) -> list[Row]:
        """Results of jobs that ended, after some seconds at most."""
        rows: list[Row] = []
        ready = wait([hand.pipe for hand in self._hands], seconds)
        for number, hand in enumerate(self._hands):
            if hand.pipe not in ready:
                continue
            try:
                answer = hand.pipe.recv()
            except (EOFError, OSError):
                self._replace(number)
                continue
            hand.job = None
            if isinstance(answer, BaseException):
                raise answer
            rows += answer
        self._assign()
        return rows

    def _replace(self, number: int) -> None:
        """Hire another process for one that died, and hand its job out once more."""
        hand = self._hands[number]
        hand.process.join(1.0)
        hand.pipe.close()
        if hand.job is not None:
            tries, items = hand.job
            if tries + 1 >= TRIES:
                raise AccelsimError(
                    f"a worker process died {TRIES} times (exit code {hand.process.exitcode}) over the same work; is "
                    "there enough memory? fewer --workers need less"
                )
            self._jobs.appendleft((tries + 1, items))
        self._hands[number] = self._hire()

    def pids(self) -> list[int]:
        """Process numbers of the workers."""
        return [hand.process.pid or 0 for hand in self._hands]

    def close(self) -> None:
        """Stop all processes at once."""
        for hand in self._hands:
            hand.process.terminate()
        for hand in self._hands:
            hand.process.join(2.0)
            if hand.process.is_alive():
                hand.process.kill()
                hand.process.join()
            hand.pipe.close()


def _serve(pipe: Connection, plan: Plan) -> None:
    """Do the jobs that come through a pipe until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that hands out the jobs
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            items = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer: object = work(plan, items)
        except Exception as error:
            answer = error if isinstance(error, AccelsimError) else RuntimeError(f"{type(error).__name__}: {error}")
        with suppress(BrokenPipeError):
            pipe.send(answer)


def _end_with_parent() -> None:
    """End at once when the process that hands out the jobs is gone, and not after the job that is running."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
