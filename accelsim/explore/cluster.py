"""Workers of a Dask cluster (dask.distributed): the same jobs, on as many computers as the scheduler has."""

from __future__ import annotations

import hashlib
import itertools
import pickle
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from queue import Empty, Queue
from typing import Any, cast

from accelsim.explore.pool import PATIENCE, SLOW, TRIES
from accelsim.explore.work import Item, Plan, Row, work
from accelsim.inputs.errors import AccelsimError

NO_DASK = "dask.distributed is not installed, and --scheduler needs it; `pip install 'accelsim[cluster]'`"
SIZE = 4
"""Pieces of work of a job: enough that a scheduler, which takes about a millisecond for each, is not what is slow."""
AHEAD = 3
"""Jobs handed out for each thread of the cluster."""
_TIMEOUT = "10s"
_plans: dict[str, Plan] = {}


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

    Parameters
    ----------
    plan : Plan
    scheduler : str
        Address, such as `tcp://host:8786`.

    Raises
    ------
    AccelsimError
        If dask.distributed is not installed, or no scheduler answers.
    """

    def __init__(self, plan: Plan, scheduler: str) -> None:
        if find_spec("distributed") is None:
            raise AccelsimError(NO_DASK)
        if not re.fullmatch(r"([a-z]+://)?\S+:\d+", scheduler):  # Dask would leave a half-made client behind
            raise AccelsimError(f"--scheduler {scheduler}: not an address; write it like tcp://host:8786")
        from distributed import Client

        try:
            self.client: Any = cast(Any, Client)(scheduler, timeout=_TIMEOUT, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            why = " ".join(str(error).split())[:160]
            raise AccelsimError(f"--scheduler {scheduler}: no Dask scheduler answers there ({why})") from None
        self.scheduler = scheduler
        self.dashboard = str(self.client.dashboard_link)
        self.size = SIZE
        pickled = pickle.dumps(plan)
        self._mark = hashlib.sha256(pickled).hexdigest()[:16]
        self.client.register_plugin(_carrier(self._mark, pickled))
        self.copied = 0
        self._ended, self._taken = 0, 0.0
        self._jobs: dict[int, _ClusterJob] = {}
        self._next = 0
        self._done: Queue[tuple[Any, int]] = Queue()

    @property
    def busy(self) -> int:
        """Jobs that are waiting or running."""
        return len(self._jobs)

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

    def finished(self, seconds: float) -> list[Row]:
        """Results of jobs that ended, after some seconds at most."""
        rows: list[Row] = []
        try:
            ended = [self._done.get(timeout=seconds)]
        except Empty:
            if self.client.status not in ("running", "connecting"):
                raise AccelsimError(f"{self.scheduler}: the connection to the scheduler is lost") from None
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
                raise AccelsimError(f"{self.scheduler}: a job failed {TRIES} times: {type(error).__name__}: {error}")
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
        self.client.close(timeout=2)


def _carrier(mark: str, pickled: bytes) -> Any:
    """What Dask gives to each worker of the cluster, once."""
    from distributed import WorkerPlugin

    class Carrier(WorkerPlugin):
        """Brings the plan."""

        name = f"accelsim-{mark}"

        def __init__(self, mark: str, pickled: bytes) -> None:
            self.mark, self.pickled = mark, pickled

        def setup(self, worker: Any) -> None:
            """Unpack the plan."""
            from accelsim.explore import cluster

            cluster.keep_plan(self.mark, self.pickled)

    return Carrier(mark, pickled)


def keep_plan(mark: str, pickled: bytes) -> None:
    """Keep a plan in a worker."""
    _plans[mark] = pickle.loads(pickled)


def do_job(mark: str, items: list[Item]) -> list[Row]:
    """Do a job in a worker."""
    return work(_plans[mark], items)
