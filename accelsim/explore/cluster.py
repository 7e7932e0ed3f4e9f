"""Workers of a Dask cluster (dask.distributed): the same jobs, on as many computers as the scheduler has."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from importlib.util import find_spec
from queue import Empty, Queue
from typing import Any, cast

from accelsim.errors import AccelsimError
from accelsim.explore.pool import TRIES
from accelsim.explore.work import Item, Plan, Row, work

NO_DASK = "dask.distributed is not installed, and --scheduler needs it; `pip install 'accelsim[cluster]'`"
SIZE = 4
"""Pieces of work of a job: enough that a scheduler, which takes about a millisecond for each, is not what is slow."""
AHEAD = 3
"""Jobs handed out for each thread of the cluster."""
_TIMEOUT = "10s"
_plans: dict[str, Plan] = {}


class Cluster:
    """The workers of a Dask cluster.

    The plan goes to each worker once, also to those that come later. A job whose worker dies is handed out again, by
    the scheduler and, after that, from here; a result that comes twice is taken once.

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
        self.busy = 0
        self._done: Queue[tuple[Any, Sequence[Item], int]] = Queue()

    @property
    def many(self) -> int:
        """Threads of all workers."""
        return max(1, sum(map(int, self.client.nthreads().values())))

    @property
    def room(self) -> int:
        """Jobs that may be waiting or running."""
        return AHEAD * self.many

    def submit(self, items: Sequence[Item]) -> None:
        """Hand a job over."""
        self.busy += 1
        self._hand_out(items, 0)

    def _hand_out(self, items: Sequence[Item], tries: int) -> None:
        future = self.client.submit(do_job, self._mark, list(items), pure=False, key=f"accelsim-{items[0].key}-{tries}")
        future.add_done_callback(lambda ended: self._done.put((ended, items, tries)))

    def finished(self, seconds: float) -> list[Row]:
        """Results of jobs that ended, after some seconds at most."""
        rows: list[Row] = []
        try:
            ended = [self._done.get(timeout=seconds)]
        except Empty:
            if self.client.status not in ("running", "connecting"):
                raise AccelsimError(f"{self.scheduler}: the connection to the scheduler is lost") from None
            return rows
        while not self._done.empty():
            ended.append(self._done.get_nowait())
        for future, items, tries in ended:
            if future.status == "finished":
                rows += future.result()
                future.release()
                self.busy -= 1
                continue
            error = future.exception() if future.status == "error" else None
            if isinstance(error, AccelsimError):
                raise error
            if tries + 1 >= TRIES:
                raise AccelsimError(f"{self.scheduler}: a job failed {TRIES} times: {type(error).__name__}: {error}")
            self._hand_out(items, tries + 1)
        return rows

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
