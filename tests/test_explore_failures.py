"""Sweeps that are stopped, whose workers die or hang, or whose folder is damaged: nothing is lost or done twice."""

from __future__ import annotations

import errno
import hashlib
import math
import os
import re
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("pyarrow")

from accelsim.designs import store
from accelsim.designs.pool import Pool
from accelsim.designs.run import explore
from accelsim.designs.store import PART_COLUMNS, parquet_bytes, read_parquet
from accelsim.designs.tables import ABOUT, DESIGNS, RESULTS, read_designs
from accelsim.inputs.errors import AccelsimError
from sweeps import GRID, sweep_of, tables


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
    (part,) = (tmp_path / store.PARTS).glob("*.parquet")
    assert len(read_parquet(part)) == 2
    again = store.Store(tmp_path)
    assert not again.add(a_row("a", cycles=4.0))
    assert {key: row["cycles"] for key, row in again.rows.items()} == {"a": 1.0, "b": 2.0}


def test_store__puts_a_part_of_other_bytes_aside(tmp_path):
    """A whole Parquet file with the columns of a part, but not the one that its name is the hash of."""
    kept = store.Store(tmp_path)
    kept.add(a_row("a", cycles=1.0))
    kept.flush()
    (part,) = (tmp_path / "parts").iterdir()
    part.write_bytes(parquet_bytes([{**kept.rows["a"], "cycles": 2.0}], PART_COLUMNS))
    again = store.Store(tmp_path)
    assert again.rows == {}
    assert [part.name in trouble and "damaged" in trouble for trouble in again.troubles] == [True]
    assert [path.suffix for path in (tmp_path / "parts").iterdir()] == [".damaged"]


def test_store__equal_work_gives_equal_bytes_in_any_order(tmp_path):
    for folder, keys in (("x", "abc"), ("y", "cab")):
        kept = store.Store(tmp_path / folder)
        assert all(kept.add(a_row(key)) for key in keys)
        kept.flush()
    x, y = ([(path.name, path.read_bytes()) for path in (tmp_path / folder).rglob("*.parquet")] for folder in "xy")
    assert x == y


def test_damaged_part__is_named_and_its_work_done_again(folder, run, monkeypatch):
    monkeypatch.setattr("accelsim.designs.store.FLUSH_SECONDS", math.inf)  # one part, however slow the computer is
    sweep = sweep_of(GRID)
    explore(sweep, "out", workers=1)
    before = tables(folder / "out")
    (part,) = (folder / "out" / "parts").iterdir()
    good = part.read_bytes()
    other = part.with_name(hashlib.sha256((folder / "out" / DESIGNS).read_bytes()).hexdigest()[:32] + ".parquet")
    other.write_bytes((folder / "out" / DESIGNS).read_bytes())  # whole, but no part
    part.write_bytes(good[:-100] + b"x" * 100)
    (part.parent / "0folder.parquet").mkdir()
    code, _, told = run("explore", "s.yaml", "-o", "out", "--workers", "1")
    assert code == 0
    bad = [
        f"out/parts/{p.name}: this part is damaged, and is {p.stem}.damaged now; what it held" for p in (part, other)
    ]
    blocked = "out/parts/0folder.parquet: is a directory, not a file; what this part holds"
    assert sorted(told.splitlines()) == [f"{line} is done again" for line in sorted([*bad, blocked])]
    assert tables(folder / "out") == before
    assert part.with_suffix(".damaged").read_bytes() == good[:-100] + b"x" * 100
    (part.parent / "0folder.parquet").rmdir()
    assert run("explore", "s.yaml", "-o", "out", "--workers", "1")[2] == ""


def forge(part, rows):
    """Put a part of other rows in the place of one, under the name that it has then."""
    forged = parquet_bytes(rows, PART_COLUMNS)
    part.unlink()
    (part.parent / f"{hashlib.sha256(forged).hexdigest()[:32]}.parquet").write_bytes(forged)


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
def test_forged_part__is_named_and_its_work_done_again(folder, run, column, change, said):
    """Its name is the hash of its bytes."""
    sweep = sweep_of("  parameters: {pe: [1, 2]}\n  prune: false\n")
    explore(sweep, "out", workers=1)
    before = tables(folder / "out")
    (part,) = (folder / "out" / "parts").iterdir()
    rows = read_parquet(part)
    row = next(row for row in rows if row["status"] == "mapped")
    row[column] = change(row[column])
    forge(part, rows)
    code, _, told = run("explore", "s.yaml", "-o", "out", "--workers", "1")
    assert (code, told.count("\n")) == (0, 1)
    assert "this part is not what it should be, and is " in told
    assert said in told
    assert tables(folder / "out") == before
    assert run("explore", "s.yaml", "-o", "out", "--workers", "1")[2] == ""


@pytest.mark.parametrize("change", [{"status": "mapped"}, {"energy_pj": None}, {"cycles": -1.0}], ids=str)
def test_forged_bound__is_named_and_its_work_done_again(folder, change):
    sweep, told = sweep_of("  parameters: {pe: [1, 2]}\n  prune: true\n"), []
    explore(sweep, "out", workers=1)
    (part,) = (folder / "out" / "parts").iterdir()
    rows = read_parquet(part)
    next(row for row in rows if row["status"] == "bounded").update(change)
    forge(part, rows)
    before = tables(folder / "out")
    explore(sweep, "out", workers=1, on_trouble=told.append)
    (line,) = told
    assert "what it held is done again: it bounds nothing: " in line
    assert tables(folder / "out") == before


def test_part__whose_keys_are_no_texts_is_damaged(folder):
    sweep, told = sweep_of("  parameters: {pe: [1, 2]}\n"), []
    explore(sweep, "out", workers=1)
    (part,) = (folder / "out" / "parts").iterdir()
    forge(part, [{**row, "key": None} for row in read_parquet(part)])
    before = tables(folder / "out")
    explore(sweep, "out", workers=1, on_trouble=told.append)
    (line,) = told
    assert "this part is damaged" in line
    assert tables(folder / "out") == before


def test_full_disk__is_told_and_what_was_written_is_kept(folder, monkeypatch):
    sweep = sweep_of(GRID)
    monkeypatch.setattr("accelsim.designs.store.FLUSH_SECONDS", 0.0)
    write, count = store.write_directory, 0

    def fills_up(directory, files):
        nonlocal count
        count += 1
        if count > 5:
            raise OSError(errno.ENOSPC, "No space left on device", str(directory))
        return write(directory, files)

    monkeypatch.setattr(store, "write_directory", fills_up)
    with pytest.raises(AccelsimError, match="No space left on device; what was written before is kept: make room"):
        explore(sweep, "out", workers=1)
    monkeypatch.setattr(store, "write_directory", write)
    rest = explore(sweep, "out", workers=1)
    assert (rest.known_before, rest.done_now) == (5, 13)


def pids(pool):
    return [worker.process.pid for worker in pool._workers]


def test_pool__replaces_workers_that_die(folder):
    """One of two processes is killed at its first result, and again later: nothing is lost, the bytes are the same."""
    sweep = sweep_of(GRID)
    explore(sweep, "alone", workers=1)
    killed = []

    class Killing(Pool):
        def finished(self, seconds):
            rows = super().finished(seconds)
            if rows and len(killed) < 2 and self.busy:
                killed.append(pids(self)[0])
                os.kill(killed[-1], signal.SIGKILL)
            return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accelsim.designs.run.Pool", Killing)
        explored = explore(sweep, "pool", workers=2)
    assert len(killed) == 2
    assert explored.done_now == 18
    assert tables(folder / "pool") == tables(folder / "alone")


def test_pool__is_not_held_up_by_processes_that_are_stopped(folder, monkeypatch):
    """Both processes are stopped, and it is said who they are; one goes on, and does what the other one has too."""
    sweep = sweep_of(GRID)
    explore(sweep, "alone", workers=1)
    stopped, told = [], []
    monkeypatch.setattr("accelsim.designs.pool.PATIENCE", 0.5)
    monkeypatch.setattr("accelsim.designs.pool.SILENCE", 0.5)

    class Stopping(Pool):
        def finished(self, seconds):
            rows = super().finished(seconds)
            if rows and len(pids(self)) == 2 and not stopped:
                stopped.extend(pids(self))
                for pid in stopped:
                    os.kill(pid, signal.SIGSTOP)
            return rows

    def tell(line):
        told.append(line)
        if stopped and "no result for" in line:
            os.kill(stopped[1], signal.SIGCONT)

    monkeypatch.setattr("accelsim.designs.run.Pool", Stopping)
    explored = explore(sweep, "pool", workers=2, on_trouble=tell)
    assert explored.done_now == 18
    assert tables(folder / "pool") == tables(folder / "alone")
    one, other = (f"process {pid} has been at [abc] for [0-9]+ s" for pid in stopped)
    for said in (f"no result for [0-9]+ s; {one}, {other}; one that hangs .*", f"{one}; another process does .*"):
        assert any(re.fullmatch(said, line) for line in told), told


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


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (DESIGNS, b"", "cannot be read: Parquet file size is 0 bytes"),
        (DESIGNS, b"garbage" * 9, "cannot be read: Parquet magic bytes not found"),
        (DESIGNS, None, "this is no table of designs; start the sweep again to write it"),
        (ABOUT, b"{", "not JSON: Expecting property name"),
        (ABOUT, b"[1]", "this does not say what a sweep is; start the sweep again to write it"),
        (ABOUT, b'{"name": 1}', "this does not say what a sweep is; start the sweep again to write it"),
    ],
)
def test_folder__that_is_damaged_is_told_and_mended_by_the_next_run(folder, run, name, content, said):
    sweep = sweep_of("  parameters: {pe: [2, 4]}\n")
    explore(sweep, "out", workers=1)
    file, before = folder / "out" / name, tables(folder / "out")
    good = file.read_bytes()
    file.write_bytes((folder / "out" / RESULTS).read_bytes() if content is None else content)
    code, _, told = run("explore", "out")
    assert (code, told.startswith(f"out/{name}: {said}")) == (2, True), told
    assert explore(sweep, "out", workers=1).done_now == 0
    assert (file.read_bytes(), tables(folder / "out")) == (good, before)


def test_folder__whose_run_was_killed_says_that_its_tables_lack_work(folder, run):
    explore(sweep_of(GRID), "out", workers=1)
    assert run("explore", "out")[2] == ""
    (part,) = (folder / "out" / "parts").iterdir()
    os.utime(part, (time.time() + 60,) * 2)
    assert run("explore", "out")[2] == (
        "out/designs.parquet: 1 part of finished work came later; start the sweep again to add what they hold\n"
    )
