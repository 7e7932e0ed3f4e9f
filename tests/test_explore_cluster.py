"""Sweeps on a Dask cluster whose scheduler or workers die, hang or lack this accelsim; and sweeps that are cut off."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("distributed")

from distributed import Client

from accelsim import __version__
from accelsim.designs.machines import Loads
from accelsim.designs.pool import Cluster
from accelsim.designs.run import explore
from accelsim.designs.store import Store
from accelsim.designs.work import Plan
from accelsim.inputs.errors import AccelsimError
from sweeps import GRID, sweep_of, tables, write_inputs
from tests.effort import many

MANY = "  parameters: {glb: {from: 16 B, to: 176 B, step: 8 B}, pe: [1, 2]}\n"
WORK = 84
"""Pieces of work of that: two different layers on 42 machines."""
DASK = "import sys\n{first}\nfrom distributed.cli.dask_{what} import main\nmain()"
CUT = """
import os, sys
from accelsim.designs import store
store.FLUSH_SECONDS = 0.0
pids, number, least = sys.argv.pop(1).split(","), int(sys.argv.pop(1)), int(sys.argv.pop(1))
def tell(run, *_):
    if run.fresh >= least:
        while pids:
            os.kill(int(pids.pop()) or os.getpid(), number)
store.SweepRun.tell = tell
from accelsim.cli.main import main
sys.exit(main())
"""
"""The command, which sends a signal to some processes, 0 for itself, once so much work is done."""
RESUME = "start the same command again to go on, with a scheduler that runs or without --scheduler\n"


class Dask:
    """A scheduler and its workers in processes of their own, in the order in which they were started."""

    def __init__(self, workers: int, first: str = "") -> None:
        Path("at.json").unlink(missing_ok=True)
        self.processes: list[subprocess.Popen] = []
        self.start("scheduler", "--port", "0")
        wait_for(lambda: Path("at.json").exists() and Path("at.json").read_text().endswith("}"))
        self.address = json.loads(Path("at.json").read_text())["address"]
        for _ in range(workers):
            self.start_worker(first)
        if workers:
            with Client(self.address, set_as_default=False) as client:
                client.wait_for_workers(workers, timeout=60)

    def start(self, what: str, *arguments: str, first: str = "") -> None:
        program = DASK.format(first=first, what=what)
        command = [sys.executable, "-W", "ignore", "-c", program, "--no-dashboard", "--scheduler-file", "at.json"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.processes.append(subprocess.Popen([*command, *arguments], **quiet))

    def start_worker(self, first: str = "") -> None:
        """`first`: lines that it runs before all others."""
        self.start("worker", "--no-nanny", "--nthreads", "1", first=first)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self.processes]

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


slow = pytest.mark.skipif(many("WAITS", 2, least=1) < 2, reason="waits for half a minute; make test-deep")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The tables of that sweep when nothing cuts it off."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("whole"))
        write_inputs()
        explore(sweep_of(MANY), "out", workers=1)
        return tables(Path("out"))


@pytest.fixture
def dask(folder):
    """Start clusters, which end with the test."""
    started = []

    def start(*arguments) -> Dask:
        started.append(Dask(*arguments))
        return started[-1]

    yield start
    for each in started:
        each.end()


def command(*arguments, pids=(), number=0, least=10**9) -> tuple[int, str]:
    """Run `accelsim sweep s.yaml -o cut`, with signals to some processes in the middle: its exit code and stderr."""
    program = [sys.executable, "-c", CUT, ",".join(map(str, pids)), str(number), str(least)]
    ended = subprocess.run(
        [*program, "sweep", "s.yaml", "-o", "cut", *arguments], capture_output=True, text=True, timeout=300
    )
    said = ended.stderr.splitlines(keepends=True)
    return ended.returncode, "".join(line for line in said if not line.startswith("Dask dashboard: "))


@pytest.mark.parametrize(
    ("number", "rejoins"), [(signal.SIGKILL, False), (signal.SIGTERM, True)][: many("SIGNALS", 2, least=1)]
)
def test_scheduler__that_dies_in_the_middle_is_told_and_the_sweep_goes_on(folder, dask, whole, number, rejoins):
    """On one computer as on another cluster; what was finished is not done again."""
    sweep = sweep_of(MANY)
    cluster = dask(1)
    code, said = command("--scheduler", cluster.address, pids=cluster.pids[:1], number=number, least=20)
    known = len(Store("cut").rows)
    assert 20 <= known < WORK
    start = f"--scheduler {cluster.address}: the Dask scheduler is gone; designs finished and kept in cut: "
    assert (code, said.startswith(start), said.endswith(f"; {RESUME}")) == (2, True, True), said
    assert 1 <= int(said[len(start) :].partition(";")[0]) <= known // 2
    assert said.count("\n") == 1
    rest = explore(sweep, "cut", workers=1, scheduler=dask(1).address if rejoins else None)
    assert (rest.stop, rest.known_before, rest.done_now) == ("finished", known, WORK - known)
    assert tables(folder / "cut") == whole


@slow
def test_scheduler__that_dies_with_the_last_result_harms_nothing(folder, dask, whole):
    sweep_of(MANY)
    cluster = dask(1)
    assert command("--scheduler", cluster.address, pids=cluster.pids[:1], number=signal.SIGKILL, least=WORK) == (0, "")
    assert tables(folder / "cut") == whole


def test_scheduler__that_dies_before_the_first_worker_comes_is_told(folder, dask):
    sweep_of(MANY)
    cluster = dask(0)
    code, said = command("--scheduler", cluster.address, pids=cluster.pids, number=signal.SIGTERM, least=0)
    assert code == 2
    assert said.endswith(f"gone; designs finished and kept in cut: 0; {RESUME}"), said


@slow
def test_workers__that_all_die_are_told_and_the_sweep_goes_on_with_others(folder, dask, whole):
    sweep = sweep_of(MANY)
    cluster, told = dask(2), []

    def kill_all(state):
        if state.fresh >= 20:
            for process in cluster.processes[1:3]:
                process.kill()

    def tell(line):
        told.append(line)
        cluster.start_worker()

    explored = explore(sweep, "cut", scheduler=cluster.address, on_progress=kill_all, on_trouble=tell)
    what = "the sweep goes on once one comes; Ctrl-C ends it, and keeps what is finished"
    assert told == [f"no worker is left in the Dask cluster: {what}"]
    assert (explored.stop, explored.done_now) == ("finished", WORK)
    assert tables(folder / "cut") == whole


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("sys.modules['accelsim'] = None", "has none (ModuleNotFoundError("),
        ("import accelsim; accelsim.__version__ = '0.9.0'", "has 0.9.0 (code "),
        (
            "from accelsim.results import cache; cache.hash_of_code = lambda: '0123456789'",
            f"has {__version__} (code 01234567)",
        ),
    ],
    ids=["none", "version", "code"],
)
def test_worker__without_the_same_accelsim_is_named(folder, dask, first, said):
    sweep_of(MANY)
    cluster = dask(1, first)
    code, told = command("--scheduler", cluster.address)
    assert (code, told.count("\n")) == (2, 1), told
    assert told.startswith(f"workers need accelsim {__version__} (code ")
    assert ": tcp://" in told
    assert said in told
    assert told.endswith("; install it there\n")


# which processes get which signal in the middle, and whether the sweep goes on with a cluster
CUTS = [
    ("command", signal.SIGKILL, False),
    ("command of a cluster", signal.SIGKILL, True),
    ("command", signal.SIGTERM, True),
    ("scheduler", signal.SIGKILL, True),
    ("scheduler", signal.SIGTERM, False),
]


@pytest.mark.parametrize("cut", range(many("CUTS", 20, least=2)))
def test_sweep__that_is_cut_off_goes_on_to_the_same_bytes(folder, dask, whole, cut, record_property):
    """Some work is kept and some is not at each cut; two processes, here or in a cluster."""
    sweep, (what, number, rejoins) = sweep_of(MANY), CUTS[cut % len(CUTS)]
    least, cluster, others = random.Random(cut).randint(1, WORK // 2), None, ["--jobs", "2"]
    if what != "command":
        cluster = dask(2)
        others = ["--scheduler", cluster.address]
    pids = cluster.pids[:1] if what == "scheduler" else [0]
    code, said = command(*others, pids=pids, number=number, least=least)
    assert code == (2 if what == "scheduler" else -9 if number == signal.SIGKILL else 143), said
    known = len(Store("cut").rows)
    record_property("kept", f"{what}, {number.name}: {known} of {WORK}")
    assert 0 < known < WORK
    if rejoins and what != "command of a cluster":
        cluster = dask(2)
    rest = explore(sweep, "cut", workers=2, scheduler=cluster.address if rejoins else None)
    assert (rest.stop, rest.known_before, rest.done_now) == ("finished", known, WORK - known)
    assert tables(folder / "cut") == whole


def test_cluster__loses_nothing_and_does_nothing_twice_when_workers_die_or_hang(folder, dask, whole, monkeypatch):
    """A Dask scheduler with three worker processes: one is killed in the middle, one hangs with what it has.

    The scheduler lets go of one that it has not heard for some seconds; each row is stored once.
    """
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL", "2s")
    sweep = sweep_of(MANY)
    cluster = dask(3)
    hanging, dying = cluster.processes[2:]
    links, left = [], [(24, lambda: hanging.send_signal(signal.SIGSTOP)), (4, dying.kill)]

    def kill_some(state):
        if left and state.fresh >= left[-1][0]:
            left.pop()[1]()

    explored = explore(sweep, "cluster", scheduler=cluster.address, on_progress=kill_some, on_cluster=links.append)
    assert not left
    assert len(links) == 1
    assert explored.done_now == WORK
    assert tables(folder / "cluster") == whole


def test_cluster__names_work_that_fails(folder, dask):
    sweep, cluster = sweep_of(GRID), dask(1)
    workers = Cluster(Plan(Loads(sweep).einsums, sweep.mapper), cluster.address)
    workers.submit([SimpleNamespace(key="key")])
    with pytest.raises(AccelsimError, match=r"a job failed 3 times: AttributeError: .*no attribute 'layer'"):
        list(iter(lambda: workers.finished(1.0), None))
    workers.close()


def test_scheduler__that_does_not_answer_is_told(folder, run, monkeypatch):
    monkeypatch.setattr("accelsim.designs.pool._TIMEOUT", "300ms")
    sweep_of(GRID)
    code, _, told = run("sweep", "s.yaml", "--scheduler", "tcp://127.0.0.1:9")
    assert code == 2
    assert told.startswith("--scheduler tcp://127.0.0.1:9: no Dask scheduler answers there (")


def wait_for(ready, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < until
        time.sleep(0.1)
