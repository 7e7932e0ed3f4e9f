"""Signals: what is under way ends with what it has, and the process with the exit code of the signal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.workload_reader import load_workload
from accelsim.population.spread import spread
from accelsim.search import stopping
from accelsim.search.exact.front import map_front
from accelsim.search.mapper import map_einsum
from accelsim.search.stopping import Budget

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")


@pytest.fixture
def state(monkeypatch):
    """Signals of this process, as the command line takes them, for one test."""
    fresh = stopping._State(installed=True)
    monkeypatch.setattr(stopping, "_STATE", fresh)
    for number in stopping.SIGNALS:
        before = signal.signal(number, stopping._handle)
        assert before is not None
    yield fresh
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in stopping.SIGNALS[1:]:
        signal.signal(number, signal.SIG_DFL)


def script(text: str, *, at: str, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, float]:
    """Exit code, stderr and seconds of a process that gets a signal once it has printed a word."""
    inside = "with stopping.stoppable():\n" if text.startswith(" ") else ""
    code = f"import sys, time\nfrom accelsim.search import stopping\n{inside}{text}"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == at + "\n"
    process.send_signal(number)
    sent = time.monotonic()
    _, said = process.communicate(timeout=60)
    return process.returncode, said, time.monotonic() - sent


@pytest.mark.parametrize("number", stopping.SIGNALS)
def test_signal__raises_once_and_is_remembered(state, number):
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
    assert stopping.asked() == number
    os.kill(os.getpid(), number)


def test_signal__raises_nothing_where_it_is_heeded_nor_while_an_answer_is_written(state):
    with stopping.heeding():
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopping.asked() == signal.SIGTERM
    state.number = 0
    stopping.answering()
    os.kill(os.getpid(), signal.SIGINT)
    assert stopping.asked() == signal.SIGINT


@pytest.mark.parametrize("method", ["exact", "random"])
def test_search__ends_with_the_best_so_far(state, method):
    machine, einsum = load_architecture("gpu_sm"), load_workload("conv").layers[0]

    def stop(progress):
        if progress.best is not None:
            os.kill(os.getpid(), signal.SIGTERM)

    budget = Budget(seconds=60.0)
    found = map_einsum(machine, einsum, method=method, objective="edp", budget=budget, on_progress=stop, uneven=False)
    assert found.stop == "interrupted"
    assert found.best.valid
    with pytest.raises(KeyboardInterrupt):  # whatever is looked for afterwards ends at once, with nothing
        map_front(machine, einsum)


@pytest.mark.parametrize("part", ["finding the lowest energy", "counting mappings close to the best"])
def test_spread__after_a_signal_the_rest_is_skipped(state, part):
    def stop(now):
        if now.what == part:
            os.kill(os.getpid(), signal.SIGTERM)

    machine, einsum = load_architecture("two_level"), load_workload("gemm").layers[0]
    try:
        found = spread(machine, einsum, samples=100, on_progress=stop)
    except KeyboardInterrupt:
        pytest.fail("what was drawn is lost")
    assert found.stop == "interrupted"
    assert found.mappings == 35_632


def test_process__that_does_not_answer_ends_within_a_second_and_leaves_no_half_file(tmp_path):
    part = tmp_path / "result.json"
    code, said, seconds = script(
        f"""    stopping.hold("conv: best 3 uJ, gap 2 %")
    from pathlib import Path
    with stopping.heeding(), stopping.part_file(Path({str(part)!r})) as beside:
        beside.write_text("half")
        print("ready", flush=True)
        time.sleep(30)
""",
        at="ready",
    )
    assert (code, said) == (143, "stopped by SIGTERM; conv: best 3 uJ, gap 2 %\n")
    assert stopping.ANSWER_SECONDS <= seconds < stopping.ANSWER_SECONDS + 1
    assert list(tmp_path.iterdir()) == []


def test_process__flags_of_compiled_code_are_set_and_an_answer_has_its_time():
    code, said, _ = script(
        """    import numpy as np
    flag = np.zeros(1, np.int64)
    with stopping.heeding(flag):
        print("ready", flush=True)
        time.sleep(0.4)
        stopping.answering()
        time.sleep(stopping.ANSWER_SECONDS)
        sys.stderr.write(f"{flag[0]} {stopping.asked()}")
""",
        at="ready",
        number=signal.SIGHUP,
    )
    assert (code, said) == (0, "1 1")


def test_process__an_interrupt_that_a_destructor_drops_is_raised_again():
    code, said, _ = script(
        """    class Held:
        def __del__(self):
            print("ready", flush=True)
            time.sleep(30)
    try:
        held = Held()
        held = None
        time.sleep(30)
    except KeyboardInterrupt:
        sys.stderr.write("raised")
        stopping.leave()
""",
        at="ready",
    )
    assert (code, said) == (143, "raised")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_command__ends_with_the_code_of_the_signal(number, code):
    ended, said, _ = script(
        """from accelsim.cli import main as cli
sys.argv = ["accelsim", "map", "eyeriss", "vgg16", "--no-cache"]
read = cli._run
cli._run = lambda arguments: print("ready", flush=True) or read(arguments)
sys.exit(cli.main())
""",
        at="ready",
        number=number,
    )
    assert ended == code
    assert said.splitlines() in ([stopping.said(number)], [])


def test_command__ends_with_the_code_of_the_signal_while_its_modules_are_imported():
    ended, said, _ = script(
        """import builtins
from accelsim.__main__ import main
builtins.__import__ = lambda *_: print("ready", flush=True) or time.sleep(30)
main()
""",
        at="ready",
    )
    assert (ended, said) == (143, "")


def test_command__ends_with_the_code_of_the_signal_while_a_class_is_made():
    ended, said, _ = script(
        """from accelsim.cli import main as cli
class Field:
    def __set_name__(self, *_):
        print("ready", flush=True)
        time.sleep(30)
sys.argv, cli._run = ["accelsim"], lambda _: type("Made", (), {"field": Field()})
cli.main()
""",
        at="ready",
    )
    assert (ended, said) == (143, "stopped by SIGTERM\n")


def test_signal__changes_nothing_while_python_ends():
    code, said, _ = script(
        """    pass
class Held:
    def __del__(self, write=print, sleep=time.sleep):
        write("ready", flush=True)
        sleep(1)
held = Held()
""",
        at="ready",
    )
    assert (code, said) == (0, "")


def test_map__counts_no_mappings_after_its_time(run, monkeypatch):
    def count(*_):
        raise AssertionError("counts after the time is up")

    monkeypatch.setattr("accelsim.population.counting.count_quickly", count)
    code, out, _ = run("map", "eyeriss", "conv", "--time-limit", "0.5", "--no-cache")
    assert code == 0
    assert re.search(r"lowest energy: .*[\d.]+ %\sabove\sthe\soptimum", out, re.DOTALL)
    assert "not proved: stopped by --time-limit" in out
