"""Sweeps that are stopped, whose workers die or hang, or whose folder is damaged: nothing is lost or done twice."""

from __future__ import annotations

import errno
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from accelsim.designs import store
from accelsim.designs.machines import Loads
from accelsim.designs.pool import Pool
from accelsim.designs.run import explore
from accelsim.designs.work import Plan
from accelsim.inputs.errors import AccelsimError
from accelsim.results.cache import DamagedError, Entries
from sweeps import GRID, read_designs, sweep_of, tables


def test_resume__does_nothing_twice_and_gives_the_same_bytes(folder):
    sweep = sweep_of(GRID)
    explore(sweep, "whole", workers=1)

    def stop_after(state):
        if state.fresh >= 7:
            raise KeyboardInterrupt

    stopped = explore(sweep, "parts", workers=1, on_progress=stop_after)
    assert (stopped.stop, stopped.done_now) == ("interrupted", 7)
    assert len(read_designs("parts")) == 3  # what is finished can be read
    rest = explore(sweep, "parts", workers=1)
    assert (rest.stop, rest.known_before, rest.done_now) == ("finished", 7, 11)
    assert tables(folder / "parts") == tables(folder / "whole")
    larger = sweep_of(GRID.replace("[1, 2, 4]", "[1, 2, 4, 8]"))
    assert explore(larger, "parts", workers=1).done_now == 6  # a larger sweep takes what is there


def a_row(key: str, **more) -> dict:
    return {"key": key, "what": "map", "status": "mapped", "seconds": 1.0, **more}


def test_store__takes_a_key_once(tmp_path):
    kept = store.Store(tmp_path)
    added = [kept.add(a_row(key, cycles=cycles)) for key, cycles in (("a", 1.0), ("b", 2.0), ("a", 3.0))]
    assert added == [True, True, False]
    kept.flush()
    assert kept.file.size()[0] == 2
    again = store.Store(tmp_path)
    assert not again.add(a_row("a", cycles=4.0))
    assert {key: row["cycles"] for key, row in again.rows.items()} == {"a": 1.0, "b": 2.0}


def test_store__two_runs_in_a_folder_keep_what_both_have_done(tmp_path):
    one, other = store.Store(tmp_path), store.Store(tmp_path)
    for kept, keys in ((one, "ab"), (other, "bc"), (one, "d")):
        for key in keys:
            kept.add(a_row(key))
        kept.flush()
    assert sorted(store.Store(tmp_path).rows) == ["a", "b", "c", "d"]


def changed(change: str, *values) -> None:
    """Change the file of work as somebody may who does not know the hash of a value."""
    file = sqlite3.connect("out/sweep.sqlite")
    file.execute(change, values)
    file.commit()
    file.close()


def test_damaged_value__is_done_again_and_all_others_are_kept(folder, run):
    sweep = sweep_of(GRID)
    known = sorted(explore(sweep, "out", workers=1).store.rows)
    before = tables(folder / "out")
    changed("UPDATE entries SET body = x'00' WHERE key = ?", known[3])
    one = "SELECT sha256, body FROM entries WHERE key = ?"
    changed(f"UPDATE entries SET (sha256, body) = ({one}) WHERE key = ?", *known[:2])
    told = []
    again = explore(sweep, "out", workers=1, on_trouble=told.append)
    assert told == ["out/sweep.sqlite: damaged, and is sweep.damaged now; what could not be read is done again"]
    assert (again.known_before, again.done_now) == (16, 2)
    assert tables(folder / "out") == before
    assert run("sweep", "s.yaml", "-o", "out", "--jobs", "1")[2] == ""


@pytest.mark.parametrize("content", [b"garbage" * 99, None, 0.5, "CREATE TABLE entries (key)"], ids=str)
def test_damaged_file__is_put_aside_and_its_work_done_again(folder, run, content):
    """Other bytes, whole pages of other bytes, the first half of the file, another database."""
    sweep = sweep_of(GRID)
    explore(sweep, "out", workers=1)
    before, file = tables(folder / "out"), folder / "out" / "sweep.sqlite"
    good = file.read_bytes()
    if isinstance(content, str):
        file.unlink()
        changed(content)
    else:
        part = good[: int(len(good) * content)] if content == 0.5 else good[:8192] + b"x" * (len(good) - 8192)
        file.write_bytes(part if content is None or content == 0.5 else content)
    bad = file.read_bytes()
    assert run("sweep", "out")[0] == 2
    code, _, told = run("sweep", "s.yaml", "-o", "out", "--jobs", "1")
    assert code == 0
    assert told == "out/sweep.sqlite: damaged, and is sweep.damaged now; what could not be read is done again\n"
    assert tables(folder / "out") == before
    assert file.with_suffix(".damaged").read_bytes() == bad
    assert run("sweep", "s.yaml", "-o", "out", "--jobs", "1")[2] == ""


def test_file__that_cannot_be_read_is_told(folder, run):
    sweep_of(GRID)
    (folder / "out" / "sweep.sqlite").mkdir(parents=True)
    for command in (("s.yaml", "-o", "out"), ("out",)):
        code, _, told = run("sweep", *command)
        assert (code, told.startswith("out/sweep.sqlite: cannot be read: unable to open database file")) == (2, True)


def test_folder__of_an_earlier_version_is_refused(folder, run):
    sweep_of(GRID)
    (folder / "out" / "parts").mkdir(parents=True)
    (folder / "out" / "parts" / "0.parquet").write_bytes(b"")
    for command in (("s.yaml", "-o", "out"), ("out",)):
        code, _, told = run("sweep", *command)
        assert (code, told.startswith("out/parts: finished work of an earlier version")) == (2, True)


@pytest.mark.parametrize(
    ("column", "change", "said"),
    [
        ("energy_pj", lambda value: value / 2, "energy_pj is"),
        ("cycles", lambda value: value - 1, "cycles is"),
        ("value", lambda value: value / 2, "value is"),
        ("bound", lambda value: value / 2, "proved is True, and False by its mapping and bound"),
        ("energy_by_component", lambda text: text.replace(": ", ": 1"), "energy_by_component is"),
        ("energy_by_component", lambda _: "[" * 100_000, "it is no result of"),
        ("energy_by_component", lambda _: "{", "it is no result of"),
        ("energy_by_component", lambda _: None, "energy_by_component is None"),
        ("value", lambda _: None, "it is no result of"),
        ("mapping", lambda _: "[[],[],[]]", "it is no result of"),
        ("mapping", lambda _: "[" * 100_000, "it is no result of"),
        ("mapping", lambda _: None, "it is no result of"),
        ("mapping", lambda text: text[:-9], "it is no result of"),
        ("mapping", lambda text: re.sub(r",\d+\]", f",{10**400}]", text), "it is no result of"),
        ("mapping", lambda text: text.replace("DRAM", "DRUM"), "it is no result of"),
        ("status", lambda _: "bounded", "it is no mapping: bounded"),
        ("what", lambda _: "evaluate", "it is of other work"),
    ],
)
def test_forged_result__is_named_and_done_again(folder, run, column, change, said):
    """With the hash that it should have."""
    sweep = sweep_of("  parameters: {pe: [1, 2]}\n  prune: false\n")
    row = next(row for row in explore(sweep, "out", workers=1).store.rows.values() if row["status"] == "mapped")
    before, file = tables(folder / "out"), Entries(folder / "out" / "sweep.sqlite")
    file.write({row["key"]: {**row, column: change(row[column])}})
    code, _, told = run("sweep", "s.yaml", "-o", "out", "--jobs", "1")
    assert (code, told.count("\n")) == (0, 1)
    assert told.startswith("out/sweep.sqlite: a result is not what it should be, and is done again: ")
    assert said in told
    assert tables(folder / "out") == before
    assert run("sweep", "s.yaml", "-o", "out", "--jobs", "1")[2] == ""


@pytest.mark.parametrize("change", [{"status": "mapped"}, {"energy_pj": None}, {"cycles": -1.0}], ids=str)
def test_forged_bound__is_named_and_done_again(folder, change):
    sweep, told = sweep_of("  parameters: {pe: [1, 2]}\n  prune: true\n"), []
    row = next(row for row in explore(sweep, "out", workers=1).store.rows.values() if row["status"] == "bounded")
    Entries(folder / "out" / "sweep.sqlite").write({row["key"]: {**row, **change}})
    before = tables(folder / "out")
    explore(sweep, "out", workers=1, on_trouble=told.append)
    (line,) = told
    assert "is done again: it bounds nothing: " in line
    assert tables(folder / "out") == before


def test_value__that_is_no_result_is_done_again(folder):
    sweep, told = sweep_of("  parameters: {pe: [1, 2]}\n"), []
    key = next(iter(explore(sweep, "out", workers=1).store.rows))
    Entries(folder / "out" / "sweep.sqlite").write({key: ["mapped"]})
    before = tables(folder / "out")
    assert explore(sweep, "out", workers=1, on_trouble=told.append).done_now == 1
    assert ["damaged" in line for line in told] == [True]
    assert tables(folder / "out") == before


def test_full_disk__is_told_and_what_was_written_is_kept(folder, monkeypatch):
    sweep = sweep_of(GRID)
    monkeypatch.setattr("accelsim.designs.store.FLUSH_SECONDS", 0.0)
    write, count = Entries.write, 0

    def fills_up(file, entries):
        nonlocal count
        count += 1
        if count > 5:
            raise OSError(errno.ENOSPC, "No space left on device", str(file.path))
        write(file, entries)

    monkeypatch.setattr(Entries, "write", fills_up)
    with pytest.raises(AccelsimError, match="No space left on device; what was written before is kept: make room"):
        explore(sweep, "out", workers=1)
    monkeypatch.setattr(Entries, "write", write)
    rest = explore(sweep, "out", workers=1)
    assert (rest.known_before, rest.done_now) == (5, 13)


@pytest.mark.parametrize(
    ("code", "number", "said", "damaged"),
    [
        (sqlite3.SQLITE_FULL, errno.ENOSPC, "No space left on device", False),
        (sqlite3.SQLITE_BUSY, errno.EIO, "it says why", False),
        (sqlite3.SQLITE_CORRUPT | 2 << 8, errno.EIO, "it says why", True),
    ],
)
def test_entries__say_what_keeps_them_from_a_file(tmp_path, monkeypatch, code, number, said, damaged):
    def fails(*_, **__):
        error = sqlite3.OperationalError("it says why")
        error.sqlite_errorcode = code
        raise error

    monkeypatch.setattr(sqlite3, "connect", fails)
    with pytest.raises(OSError, match=said) as found:
        Entries(tmp_path / "file").write({})
    assert (found.value.errno, found.value.filename) == (number, str(tmp_path / "file"))
    assert isinstance(found.value, DamagedError) == damaged


READ = """
import sys
from pathlib import Path
from accelsim.results.cache import Entries
file, most = Entries(Path(sys.argv[1])), 0
while most < 50:
    many = [value["batch"] for _, value in file.read()]
    assert len(many) >= most and all(many.count(batch) == 20 for batch in set(many))
    most = len(set(many))
"""


def test_entries__are_read_by_many_processes_while_one_writes(tmp_path):
    """Each batch is there as a whole or not at all, and stays."""
    file = Entries(tmp_path / "file.sqlite")
    readers = [subprocess.Popen([sys.executable, "-c", READ, str(file.path)]) for _ in range(3)]
    for batch in range(50):
        file.write({f"{batch} {number}": {"batch": batch, "more": "x" * 2000} for number in range(20)})
    assert [reader.wait(60) for reader in readers] == [0, 0, 0]


def test_pool__goes_on_when_workers_die(folder, monkeypatch):
    """One of two processes is killed at the first result, and again later: nothing is lost, the bytes are the same."""
    sweep = sweep_of(GRID)
    explore(sweep, "alone", workers=1)
    killed = []

    class Killing(Pool):
        def finished(self, seconds):
            rows = super().finished(seconds)
            if rows and len(killed) < 2 and self.busy:
                killed.append(min(self._executor._processes))
                os.kill(killed[-1], signal.SIGKILL)
            return rows

    monkeypatch.setattr("accelsim.designs.run.Pool", Killing)
    explored = explore(sweep, "pool", workers=2)
    assert len(killed) == 2
    assert explored.done_now == 18
    assert tables(folder / "pool") == tables(folder / "alone")


def exits(items):
    """A job that takes its process with it if it has a piece of work that does."""
    if items[0].layer:
        os._exit(1)
    return [{"key": items[0].key}]


@pytest.mark.parametrize("many", [1, 2, 5])
def test_pool__names_work_over_which_workers_die(folder, monkeypatch, many):
    """Of eight jobs one takes its process with it whenever it runs, and is alone at last."""
    sweep = sweep_of(GRID)
    monkeypatch.setattr("accelsim.designs.pool._do", exits)
    pool = Pool(Plan(Loads(sweep).einsums, sweep.mapper), many)
    for number in range(8):
        pool.submit([SimpleNamespace(key=number, layer=int(number == 2))])
    with pytest.raises(AccelsimError, match=r"a worker process died [3-5] times over b; is there enough memory"):
        list(iter(lambda: pool.finished(1.0), None))
    pool.close()


def test_pool__begins_anew_when_idle_workers_die_and_ends_stopped_ones(folder, monkeypatch):
    sweep = sweep_of(GRID)
    monkeypatch.setattr("accelsim.designs.pool._do", exits)
    pool, rows = Pool(Plan(Loads(sweep).einsums, sweep.mapper), 2), []
    for number in range(4):
        pool.submit([SimpleNamespace(key=number, layer=0)])
        while pool.busy:
            rows += pool.finished(1.0)
        (process,) = pool._executor._processes.values()
        os.kill(process.pid, signal.SIGKILL if number < 3 else signal.SIGSTOP)
        time.sleep(0.2 * (number % 2))
    pool.close()
    assert [row["key"] for row in rows] == [0, 1, 2, 3]
    assert process.exitcode == -signal.SIGKILL


ORPHAN = """
import multiprocessing, time
from accelsim.designs.pool import _end_with_parent
worker = multiprocessing.get_context("spawn").Process(target=_end_with_parent)
worker.start()
print(worker.pid, flush=True)
time.sleep(600)
"""


def test_worker__ends_when_the_process_that_hands_out_jobs_is_killed():
    """What a worker writes goes where its parent's output goes: that is at its end once both have ended."""
    parent = subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    time.sleep(0.5)
    os.kill(pid, 0)  # it is there
    parent.kill()
    assert parent.communicate(timeout=60) == ("", None)


def test_folder__whose_run_was_killed_says_that_its_tables_lack_work(folder, run):
    explore(sweep_of(GRID), "out", workers=1)
    assert run("sweep", "out")[2] == ""
    Entries(folder / "out" / "sweep.sqlite").write({"later": a_row("later")})
    assert run("sweep", "out")[2] == (
        "out/sweep.sqlite: 1 result of finished work came later; start the sweep again to add what they hold\n"
    )


def test_folder__without_tables_says_what_to_do(folder, run):
    assert run("sweep", str(folder)) == (2, "", f"{folder}/sweep.sqlite: no such file; run the sweep first\n")
    kept = store.Store(folder)
    kept.add(a_row("a"))
    kept.flush()
    assert run("sweep", str(folder))[2] == (
        f"{folder}/sweep.sqlite: the sweep was stopped before its tables were written, with 1 result of finished work "
        "kept: start the sweep again with -o on this folder to go on\n"
    )
