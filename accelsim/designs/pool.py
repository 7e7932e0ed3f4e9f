"""Workers: the process itself, a pool of processes that replaces those that die, or those of a Dask cluster."""

from __future__ import annotations

import hashlib
import itertools
import logging
import multiprocessing
import os
import pickle
import re
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import Empty, Queue
from typing import Any, cast

from accelsim.designs.work import Item, Plan, WorkRow, installed, work
from accelsim.inputs.errors import AccelsimError, require
from accelsim.search.stopping import asked, heeding

TRIES = 3
"""How often a job may take its worker down with it."""
PATIENCE = 30.0
"""Seconds after which a job may be a straggler, if that is also `SLOW` times what jobs take on average."""
SLOW = 3.0
SILENCE = 300.0
"""Seconds without any result after which it is said who is at work."""


class Alone:
    """The process itself does the jobs, one after the other.

    As all kinds of workers do, it has `room` for so many jobs that are waiting or running, each of at most `size`
    pieces of work, of which `busy` are.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self.room, self.size = plan, 1, 1
        self._jobs: deque[Sequence[Item]] = deque()

    @property
    def busy(self) -> int:
        """Jobs that wait."""
        return len(self._jobs)

    def submit(self, items: Sequence[Item]) -> None:
        """Take a job."""
        self._jobs.append(items)

    def finished(self, seconds: float) -> list[WorkRow]:
        """Do the next job."""
        return work(self.plan, self._jobs.popleft()) if self._jobs else []

    def close(self) -> None:
        """Nothing is running."""


@dataclass(slots=True, eq=False)
class _Job:
    """A job, how many processes it took down, when it was handed out last, and whether it was to two processes."""

    items: Sequence[Item]
    died: int = 0
    since: float = 0.0
    copied: bool = False
    done: bool = False


@dataclass(slots=True)
class _Worker:
    """One process, how to talk to it, and what it does."""

    process: BaseProcess
    pipe: Connection
    job: _Job | None = None


class Pool:
    """A pool of processes; one that dies is replaced, and its job done again by another.

    One that hangs, as it does when it is stopped, holds nothing up: where another process is idle, a job that takes
    much longer than any other is given to that one too, and whoever is slower is ended.

    `plan`: sent to each process once. `many`: processes. `report`: takes one line about a process that may hang.
    """

    def __init__(self, plan: Plan, many: int, report: Callable[[str], None] = lambda _: None) -> None:
        self.plan, self.size = plan, 1
        self.room = 3 * many
        self._context = multiprocessing.get_context("spawn")
        self._jobs: deque[_Job] = deque()
        self._many, self._report = many, report
        self._workers: list[_Worker] = []
        self._ended, self._taken = 0, 0.0
        self._heard = time.monotonic()

    @property
    def busy(self) -> int:
        """Jobs that are waiting or running."""
        return len(self._jobs) + sum(worker.job is not None for worker in self._workers)

    def _start_worker(self) -> _Worker:
        mine, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, self.plan), daemon=True)
        with heeding():  # a process whose start is cut off ends in a traceback
            process.start()
        if asked():
            raise KeyboardInterrupt
        theirs.close()
        return _Worker(process, mine)

    def submit(self, items: Sequence[Item]) -> None:
        """Take a job."""
        self._jobs.append(_Job(items))
        self._assign()

    def _assign(self) -> None:
        if self._jobs and len(self._workers) < self._many and all(worker.job is not None for worker in self._workers):
            self._workers.append(self._start_worker())
        for worker in self._workers:
            if worker.job is None and self._jobs:
                worker.job = self._jobs.popleft()
                worker.job.since = time.monotonic()
                with suppress(OSError):  # a dead process is noticed when its results are awaited
                    worker.pipe.send(worker.job.items)

    def finished(self, seconds: float) -> list[WorkRow]:
        """Results of jobs that ended, after some seconds at most."""
        rows: list[WorkRow] = []
        ready = wait([worker.pipe for worker in self._workers], seconds)
        for worker in [worker for worker in self._workers if worker.pipe in ready]:
            try:
                answer = worker.pipe.recv()
            except (EOFError, OSError):
                self._bury(worker)
                continue
            self._end(worker)
            if isinstance(answer, BaseException):
                raise answer
            rows += answer
        for worker in [worker for worker in self._workers if worker.job is not None and worker.job.done]:
            self._dismiss(worker)  # it does what another process has done
        if not ready:
            self._look_after_stragglers()
        self._assign()
        return rows

    def _end(self, worker: _Worker) -> None:
        """Take note of a job that a process has done."""
        self._heard = time.monotonic()
        if worker.job is not None:
            self._ended, self._taken = self._ended + 1, self._taken + self._heard - worker.job.since
            worker.job.done = True
        worker.job = None

    def _dismiss(self, worker: _Worker) -> None:
        """End a process, also one that is stopped."""
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()
        self._workers.remove(worker)

    def _look_after_stragglers(self) -> None:
        """Give a job that takes too long to an idle process too; say who is at work where nothing is heard for long."""
        now, limit = time.monotonic(), max(PATIENCE, SLOW * self._taken / max(1, self._ended))
        at_work = [(worker, worker.job) for worker in self._workers if worker.job is not None]
        for worker, job in at_work:
            if not self._jobs and len(at_work) < self._many and now - job.since > limit and not job.copied:
                self._report(f"{self._about(worker, job)}; another process does that too")
                job.copied = True
                self._jobs.append(job)
                return
        if at_work and now - self._heard > SILENCE:
            those = ", ".join(self._about(worker, job) for worker, job in at_work)
            hint = "one that hangs may be killed: its work is done again"
            self._report(f"no result for {now - self._heard:.0f} s; {those}; {hint}")
            self._heard = now

    def _about(self, worker: _Worker, job: _Job) -> str:
        """What a process does, in words."""
        layer, spent = self.plan.einsums[job.items[0].layer].name, time.monotonic() - job.since
        return f"process {worker.process.pid} has been at {layer} for {spent:.0f} s"

    def _bury(self, worker: _Worker) -> None:
        """Let go of a process that died, and hand its job out once more; where it is needed, another one starts."""
        worker.process.join(1.0)
        self._dismiss(worker)
        if worker.job is None:
            return
        worker.job.died += 1
        if worker.job.died >= TRIES:
            raise AccelsimError(
                f"a worker process died {TRIES} times (exit code {worker.process.exitcode}) over the same work; is "
                "there enough memory? fewer --workers need less"
            )
        if not any(other.job is worker.job for other in self._workers):
            self._jobs.appendleft(worker.job)

    def close(self) -> None:
        """Stop all processes at once."""
        for worker in self._workers:
            worker.process.kill()
        for worker in list(self._workers):
            self._dismiss(worker)


def _serve(pipe: Connection, plan: Plan) -> None:
    """Do the jobs that come through a pipe until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that hands out the jobs
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


SIZE = 4
"""Pieces of work of a job: enough that a scheduler, which takes about a millisecond for each, is not what is slow."""
AHEAD = 3
"""Jobs handed out for each thread of the cluster."""
_TIMEOUT = "10s"


@dataclass(slots=True)
class _ClusterJob:
    """A job, its copies in the cluster with when each was handed out, and how many of them failed."""

    items: Sequence[Item]
    copies: list[Any] = field(default_factory=list)
    since: list[float] = field(default_factory=list)
    failed: int = 0


class Cluster:
    """The workers of a Dask cluster.

    The plan goes to each worker once, also to those that come later. A job whose worker dies is handed out again, by
    the scheduler and, after that, from here. When threads are idle, a job that takes much longer than any other has a
    copy handed out to a worker that has none of it; the first result counts, and the other copies are taken back. A job
    whose result cannot be fetched, because the worker that holds it hangs, has one too.

    `scheduler`: address, such as `tcp://host:8786`. `report`: takes one line when no worker is left. Raises
    AccelsimError if dask.distributed is not installed, no scheduler answers, or workers lack this accelsim.
    """

    def __init__(self, plan: Plan, scheduler: str, report: Callable[[str], None] = lambda _: None) -> None:
        require("distributed", "--scheduler needs it", "cluster")
        if not re.fullmatch(r"([a-z]+://)?\S+:\d+", scheduler):  # Dask would leave a half-made client behind
            raise AccelsimError(f"--scheduler {scheduler}: not an address; write it like tcp://host:8786")
        from distributed import Client, WorkerPlugin

        for name in ("distributed", "distributed.client"):  # what Dask logs in tracebacks is told in one line here
            logging.getLogger(name).setLevel(logging.CRITICAL)
        carrier: Any = cast(Any, WorkerPlugin)()
        carrier.plan, self._mark = plan, f"accelsim-{hashlib.sha256(pickle.dumps(plan)).hexdigest()[:16]}"
        carrier.name = self._mark
        try:
            self.client: Any = cast(Any, Client)(scheduler, timeout=_TIMEOUT, set_as_default=False)
            self._refuse_other_versions(plan)
            self.client.register_plugin(carrier)
        except (OSError, ValueError) as error:
            why = " ".join(str(error).split())[:160]
            raise AccelsimError(f"--scheduler {scheduler}: no Dask scheduler answers there ({why})") from None
        self.dashboard = str(self.client.dashboard_link)
        self.size, self._report, self._deserted = SIZE, report, False
        self.copied = 0
        self._ended, self._taken = 0, 0.0
        self._jobs: dict[int, _ClusterJob] = {}
        self._next = 0
        self._done: Queue[tuple[Any, int]] = Queue()

    @property
    def busy(self) -> int:
        """Jobs that are waiting or running."""
        return len(self._jobs)

    def _refuse_other_versions(self, plan: Plan) -> None:
        """Name all workers that lack accelsim, or have another version of it; later ones refuse the work themselves."""
        wrong = [
            f"{address} has {each if isinstance(each, str) else f'none ({each})'}"
            for address, each in sorted(self.client.run(installed, on_error="return").items())
            if each != plan.version and not isinstance(each, OSError)  # it has just died
        ]
        if wrong:
            self.close()
            more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
            raise AccelsimError(f"workers need accelsim {plan.version}: {', '.join(wrong[:5])}{more}; install it there")

    def is_lost(self, error: Exception) -> bool:
        """Whether an error comes from the connection to the scheduler; those of files have a number."""
        return (isinstance(error, OSError) and error.errno is None) or self.client.status != "running"

    @property
    def many(self) -> int:
        """Threads of all workers."""
        return max(1, sum(map(int, self.client.nthreads().values())))

    @property
    def room(self) -> int:
        """Jobs that may be waiting or running."""
        return AHEAD * self.many

    def submit(self, items: Sequence[Item]) -> None:
        """Take a job."""
        self._jobs[self._next] = _ClusterJob(items)
        self._hand_out(self._next)
        self._next += 1

    def _hand_out(self, number: int, workers: Sequence[str] | None = None) -> None:
        """Give a copy of a job to the scheduler: for any worker, or for one of some."""
        job = self._jobs[number]
        job.since.append(time.monotonic())
        key = f"accelsim-{job.items[0].key}-{number}-{len(job.copies)}"
        future = self.client.submit(do_job, self._mark, list(job.items), pure=False, key=key, workers=workers)
        job.copies.append(future)
        future.add_done_callback(lambda ended: self._done.put((ended, number)))

    def finished(self, seconds: float) -> list[WorkRow]:
        """Results of jobs that ended, after some seconds at most."""
        rows: list[WorkRow] = []
        ended = []
        with suppress(Empty):
            ended = [self._done.get(timeout=seconds)]
        if self.client.status != "running":  # Dask ends all jobs then
            raise ConnectionError
        if not ended:
            deserted = not self.client.nthreads()
            if deserted and not self._deserted:
                what = "the sweep goes on once one comes; Ctrl-C ends it, and keeps what is finished"
                self._report(f"no worker is left in the Dask cluster: {what}")
            self._deserted = deserted
            self._copy_stragglers()
            return rows
        while not self._done.empty():
            ended.append(self._done.get_nowait())
        for future, number in ended:
            job = self._jobs.get(number)
            if job is None:  # another copy was faster
                continue
            error, others = None, None
            if future.status == "finished":
                try:
                    rows += future.result(timeout=PATIENCE)
                    self._end(number, future)
                    continue
                except TimeoutError as late:  # whoever holds the result hangs
                    error, others = late, self._without(future)
                    self.copied += 1
            elif future.status == "error":
                error = future.exception()
            if isinstance(error, AccelsimError):
                raise error
            job.failed += 1
            if job.failed >= TRIES:
                raise AccelsimError(f"a job failed {TRIES} times: {type(error).__name__}: {error}")
            if job.failed == len(job.copies):
                self._hand_out(number, others)
        return rows

    def _without(self, future: Any) -> list[str] | None:
        """Workers that do not hold a result; None if all do."""
        holders = set(map(str, itertools.chain.from_iterable(self.client.who_has([future]).values())))
        return [worker for worker in map(str, self.client.nthreads()) if worker not in holders] or None

    def _end(self, number: int, first: Any) -> None:
        """Forget a job of which a copy is finished, and take the others back."""
        job = self._jobs.pop(number)
        for copy, since in zip(job.copies, job.since, strict=True):
            if copy is first:
                self._ended, self._taken = self._ended + 1, self._taken + time.monotonic() - since
            if copy.status == "pending":
                copy.cancel()
            copy.release()

    def _copy_stragglers(self) -> None:
        """Hand out a copy of each job that takes too long, to workers with idle threads that have none of it."""
        limit = max(PATIENCE, SLOW * self._taken / max(1, self._ended))
        until = time.monotonic() - limit
        late = [n for n, job in self._jobs.items() if job.since[-1] < until and len(job.copies) < TRIES]
        if not late:
            return
        threads, runs = self.client.nthreads(), self.client.processing()
        idle = {worker: many - len(runs.get(worker, ())) for worker, many in threads.items()}
        for number in late:
            mine = {copy.key for copy in self._jobs[number].copies}
            free = [w for w, many in idle.items() if many > 0 and not mine & set(map(str, runs.get(w, ())))]
            if free:
                idle[free[0]] -= 1
                self._hand_out(number, free[:1])
                self.copied += 1

    def close(self) -> None:
        """Leave the cluster; jobs that are waiting there are taken back."""
        with suppress(OSError):  # nobody may be there any more
            self.client.close(timeout=2)


Workers = Alone | Pool | Cluster


def do_job(mark: str, items: list[Item]) -> list[WorkRow]:
    """Do a job in a worker, with the plan that Dask gave to it as a plugin of that name."""
    from distributed import get_worker

    return work(cast(Any, get_worker)().plugins[mark].plan, items)
