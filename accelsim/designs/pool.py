"""Workers: the process itself, processes of this computer, or those of a Dask cluster."""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import os
import pickle
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

from accelsim.designs.work import Item, Plan, WorkRow, installed, work
from accelsim.inputs.errors import AccelsimError, require
from accelsim.search.stopping import asked, heeding

TRIES = 3
"""How often a job may take its worker down with it, or fail in a cluster."""


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


@dataclass(slots=True)
class _Job:
    """A job, and how often a process died while it was at work."""

    items: Sequence[Item]
    died: int = 0


@contextmanager
def _without_main() -> Iterator[None]:
    """New processes leave the user's script alone, which so needs no guard against running again in each of them."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


class Pool:
    """Processes of this computer.

    One that dies takes all that are at work with it. Their jobs are done again, half as many at a time, so that the one
    that kills its process is alone at last. `plan`: sent to each process once. `many`: processes.
    """

    def __init__(self, plan: Plan, many: int) -> None:
        self.plan, self.size, self.room = plan, 1, 3 * many
        self._many, self._waiting = many, deque[_Job]()
        self._running: dict[Future[list[WorkRow]], _Job] = {}
        self._executor = self._start()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._many, multiprocessing.get_context("spawn"), _begin, (self.plan,))

    @property
    def busy(self) -> int:
        """Jobs that are waiting or running."""
        return len(self._waiting) + len(self._running)

    def submit(self, items: Sequence[Item]) -> None:
        """Take a job."""
        self._waiting.append(_Job(items))
        self._assign()

    def _assign(self) -> None:
        died = max((job.died for job in (*self._waiting, *self._running.values())), default=0)
        while self._waiting and len(self._running) < max(1, self._many >> died):
            job = self._waiting.popleft()
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # a new process has none of it
            try:
                with heeding(), _without_main():  # a process whose start is cut off ends in a traceback
                    future = self._executor.submit(_do, job.items)
            except BrokenProcessPool as error:  # a process died that had nothing to do
                future = Future()
                future.set_exception(error)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            self._running[future] = job
            if asked():
                raise KeyboardInterrupt

    def finished(self, seconds: float) -> list[WorkRow]:
        """Results of jobs that ended, after some seconds at most."""
        ended = wait(self._running, seconds, FIRST_COMPLETED).done
        if any(isinstance(future.exception(), BrokenProcessPool) for future in ended):
            self.close()
            self._executor, ended = self._start(), set(self._running)
        rows: list[WorkRow] = []
        many = len(self._running)
        for future in ended:
            job = self._running.pop(future)
            try:
                rows += future.result()
            except BrokenProcessPool:
                job.died += 1
                if job.died >= TRIES and many == 1:
                    what = f"a worker process died {job.died} times over {self.plan.einsums[job.items[0].layer].name}"
                    raise AccelsimError(f"{what}; is there enough memory? fewer --jobs need less") from None
                self._waiting.appendleft(job)
        self._assign()
        return rows

    def close(self) -> None:
        """End all processes at once, also those that are stopped."""
        for process in list((self._executor._processes or {}).values()):
            process.kill()
        self._executor.shutdown()


_PLANS: list[Plan] = []
"""The plan of this process, where it is one of a pool."""


def _begin(plan: Plan) -> None:
    """Make a process one of a pool."""
    _PLANS.append(plan)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _do(items: Sequence[Item]) -> list[WorkRow]:
    """Do a job in a process of a pool."""
    return work(_PLANS[0], items)


def _end_with_parent() -> None:
    """End at once when the process that hands out the jobs is gone, and not after the job that is running."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


SIZE = 4
"""Pieces of work of a job: enough that a scheduler, which takes about a millisecond for each, is not what is slow."""
AHEAD = 3
"""Jobs handed out for each thread of the cluster."""
_TIMEOUT = "10s"


class Cluster:
    """The workers of a Dask cluster.

    The plan goes to each worker once, also to those that come later. A job whose worker dies, or has not been heard for
    Dask's `worker-ttl`, is handed out again by the scheduler.

    `scheduler`: address, such as `tcp://host:8786`. `report`: takes one line when no worker is left. Raises
    AccelsimError if dask.distributed is not installed, no scheduler answers, or workers lack this accelsim.
    """

    def __init__(self, plan: Plan, scheduler: str, report: Callable[[str], None] = lambda _: None) -> None:
        require("distributed", "--scheduler needs it", "cluster")
        if not re.fullmatch(r"([a-z]+://)?\S+:\d+", scheduler):  # Dask would leave a half-made client behind
            raise AccelsimError(f"--scheduler {scheduler}: not an address; write it like tcp://host:8786")
        from distributed import Client, WorkerPlugin

        # what Dask logs in tracebacks is told in one line here
        for name in ("distributed", "distributed.client", "tornado.application"):
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
        self._executor: Executor = self.client.get_executor(pure=False, retries=TRIES - 1)
        self._running: set[Future[list[WorkRow]]] = set()

    @property
    def busy(self) -> int:
        """Jobs that are waiting or running."""
        return len(self._running)

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
        self._running.add(self._executor.submit(do_job, self._mark, list(items)))

    def finished(self, seconds: float) -> list[WorkRow]:
        """Results of jobs that ended, after some seconds at most."""
        ended = wait(self._running, seconds, FIRST_COMPLETED).done
        if self.client.status != "running":  # Dask ends all jobs then
            raise ConnectionError
        if not ended:
            deserted = not self.client.nthreads()
            if deserted and not self._deserted:
                what = "the sweep goes on once one comes; Ctrl-C ends it, and keeps what is finished"
                self._report(f"no worker is left in the Dask cluster: {what}")
            self._deserted = deserted
        self._running -= ended
        try:
            return [row for future in ended for row in future.result()]
        except AccelsimError:
            raise
        except Exception as error:
            raise AccelsimError(f"a job failed {TRIES} times: {type(error).__name__}: {error}") from None

    def close(self) -> None:
        """Leave the cluster; jobs that are waiting there are taken back."""
        with suppress(OSError):  # nobody may be there any more
            self.client.close(timeout=2)


Workers = Alone | Pool | Cluster


def do_job(mark: str, items: list[Item]) -> list[WorkRow]:
    """Do a job in a worker, with the plan that Dask gave to it as a plugin of that name."""
    from distributed import get_worker

    return work(cast(Any, get_worker)().plugins[mark].plan, items)
