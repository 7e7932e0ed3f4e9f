"""How kernels are compiled: what they take and return, and when they are compiled anew."""

from __future__ import annotations

import fcntl
import importlib
import os
import pickle
import pkgutil
import resource
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import numpy as np
import pytest

import accelsim
from accelsim.model.jit import CompiledKernel, inline, jit
from accelsim.model.records import Bools1, Floats1, Floats2, Ints1, Ints3, RecordTable, fields_of, record, table_of

compiled_only = pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="nothing is compiled then")


@record
class Inner(NamedTuple):
    """Arrays of one and two axes."""

    line: Ints1
    plane: Floats2


@record
class Outer(NamedTuple):
    """A record in a record, and scalars."""

    inner: Inner
    flags: Bools1
    cube: Ints3
    share: float
    many: int
    sure: bool


@inline
def twice(number: float) -> float:
    return number + number


@jit
def add_up(values: Floats1) -> float:
    total = 0.0
    for k in range(values.shape[0]):
        total += values[k]
    return total


@jit
def row_of(table: Outer, row: int) -> tuple[float, float]:
    """Hands a row of a record's array on."""
    return add_up(table.inner.plane[row]), float(table.inner.line[row])


@jit
def read_all(table: Outer, other: Ints1, number: int, real: float, sure: bool) -> tuple[float, int, bool]:
    along, across = row_of(table, 1)
    total = along + 10.0 * across + twice(real) + table.share * table.many
    if table.sure and sure and table.flags[2]:
        table.inner.line[0] = number + table.cube[1, 0, 2] + table.cube.shape[2] + table.inner.line.size
        other[1] = table.cube[1].size
    return total, table.inner.line[0], sure


def outer(columns: int = 3) -> Outer:
    inner = Inner(np.arange(4), np.arange(3.0 * columns).reshape(3, columns))
    return Outer(inner, np.array([False, False, True]), np.arange(24).reshape(2, 3, 4), 0.5, 7, True)


def test_kernel__reads_records_of_any_shape_as_python_does():
    for columns in (2, 3):
        said = []
        for kernel in (read_all, read_all.plain):
            given, other = outer(columns), np.zeros(4, np.int64)
            result = kernel(given, other, 5, 0.25, True)
            said.append(([*map(float, result)], given.inner.line.tolist(), other.tolist()))
        assert said[0] == said[1]


@jit
def from_both_ends(table: Outer, at: int) -> int:
    """Indices of one sign and the other, constant and not, of elements and of rows, also where arrays are written."""
    cube, plane = table.cube, table.inner.plane
    for d in range(-2, 2):
        row = cube[d, at]
        row[d] += 100 * (d + 3)
        plane[-1 - at][d] += cube[at, -1, d]
        cube[d][-1, 0] = plane[at, d] + row.size + row[-1]
        table.flags[d] = row[d] > at
    return cube[-1, -1, -1] + cube[at, at, at] + row[at]


@pytest.mark.parametrize("at", [-2, -1, 0, 1])
def test_kernel__counts_indices_from_either_end_as_python_does(at):
    said = []
    for kernel in (from_both_ends, from_both_ends.plain):
        given = outer()
        result = kernel(given, at)
        said.append((int(result), [each.tolist() for each in (given.cube, given.flags, given.inner.plane)]))
    assert said[0] == said[1]


@jit
def halve(number: np.uint64) -> tuple[np.uint64, np.uint64]:
    return number // np.uint64(2), number


def test_kernel__takes_and_returns_64_bits_without_a_sign():
    assert halve(np.uint64(2**64 - 1)) == (2**63 - 1, 2**64 - 1)


@compiled_only
def test_kernel__refuses_what_it_cannot_take():
    for wrong in ("text", np.zeros((2, 2)), np.zeros(2, np.int64)):
        with pytest.raises(TypeError, match="No matching definition"):
            add_up(wrong)
    with pytest.raises(OverflowError):
        from_both_ends(outer(), 2**70)


@pytest.mark.parametrize(
    "line", [np.arange(8)[::2], np.arange(4.0), np.zeros((2, 2), np.int64), np.arange(4, dtype="h")]
)
def test_table__refuses_arrays_that_are_not_as_declared(line):
    with pytest.raises(TypeError, match=r"Inner.line is .*, not int64\[1 axes\] in C order"):
        RecordTable(Inner(line, np.zeros((1, 1))))


def test_table__of_a_record_is_made_once_and_stays_in_its_process():
    given = outer()
    assert table_of(given) is table_of(given)
    copy = pickle.loads(pickle.dumps(given))
    assert type(copy) is Outer
    assert not vars(copy)
    assert table_of(given._replace(many=8)) is not table_of(given)


def test_record__that_is_passed_again_holds_what_is_in_its_arrays_by_then():
    for number in range(50):
        inner = Inner(np.zeros(1, np.int64), np.full((2, 3 if number % 5 else 3000), float(number)))
        given = outer()._replace(inner=inner)
        for times in (1.0, 2.0):
            inner.plane[:] = times * number
            assert row_of(given, 0)[0] == inner.plane.shape[1] * times * number


def test_annotations__that_no_kernel_takes_are_refused_with_what_to_write():
    @record
    class Wrong(NamedTuple):
        line: list[int]

    with pytest.raises(TypeError, match="write Ints2 for an array of two axes"):
        fields_of(Wrong)


def every_kernel() -> list[CompiledKernel]:
    """Kernels of the package."""
    for module in pkgutil.walk_packages(accelsim.__path__, "accelsim."):
        if module.name.endswith("kernel"):
            importlib.import_module(module.name)
    modules = [module for name, module in sys.modules.items() if name.startswith("accelsim.")]
    return [
        *{id(value): value for m in modules for value in vars(m).values() if isinstance(value, CompiledKernel)}.values()
    ]


@compiled_only
def test_content__of_every_kernel_is_known_and_no_other_has_it():
    from accelsim.model.compiled import content_of

    kernels = every_kernel()
    assert len({content_of(kernel) for kernel in kernels}) == len(kernels) > 200


@compiled_only
def test_content__of_a_list_is_refused():
    """A list may change after the hash was made."""
    from accelsim.model.compiled import content_of

    names = {"some": [1], "__name__": "written"}
    exec("def function() -> int:\n    return some[0]", names)
    with pytest.raises(TypeError, match="some: a kernel names list"):
        content_of(CompiledKernel(names["function"], True))


LOW = "from accelsim.model.jit import jit\nSTEP = {step}\n\n@jit\ndef low(n: int) -> int:\n    return n + STEP{more}\n"
TOP = (
    "from accelsim.model.jit import jit\nfrom low import low\n\n@jit\ndef top(n: int) -> int:\n    return 10 * low(n)\n"
)


def called(folder, step: int, more: str = "", *, most_bytes: int | None = None, **environment: str) -> str:
    """What a kernel that calls another one returns, in a process of its own."""
    (folder / "low.py").write_text(LOW.format(step=step, more=more))
    (folder / "top.py").write_text(TOP)
    own = {"PYTHONPATH": f"{folder}{os.pathsep}{os.pathsep.join(sys.path)}", "NUMBA_CACHE_DIR": str(folder / "codes")}
    own |= {"PYTHONDONTWRITEBYTECODE": "1"}  # which is trusted by time and size of the source
    command = [sys.executable, "-c", "from top import top; print(top(3))"]
    limit = None if most_bytes is None else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    done = subprocess.run(
        command, env=os.environ | own | environment, capture_output=True, text=True, check=True, preexec_fn=limit
    )
    return done.stdout.strip()


@compiled_only
def test_machine_code__is_kept_and_made_anew_for_what_changed_alone(tmp_path):
    codes = tmp_path / "codes" / "kernels"
    assert called(tmp_path, 1) == "40"
    first = {each.name for each in codes.iterdir() if each.is_dir()}
    assert called(tmp_path, 1) == "40"
    assert {each.name for each in codes.iterdir() if each.is_dir()} == first
    for step, more, result in ((2, "", "50"), (2, " + 1", "60")):
        assert called(tmp_path, step, more) == result
        later = {each.name for each in codes.iterdir() if each.is_dir()} - first
        assert {each.split("-")[0] for each in later} == {"low.low"}, "its caller holds its name alone"


@compiled_only
@pytest.mark.parametrize("harm", [b"", b"\0" * 100])
def test_machine_code__that_is_damaged_is_made_anew(tmp_path, harm):
    called(tmp_path, 1)
    for path in (tmp_path / "codes").rglob("*.nb?"):
        path.write_bytes(harm)
    assert called(tmp_path, 1) == "40"


@compiled_only
def test_machine_code__that_cannot_be_kept_does_no_harm(tmp_path):
    """As on a read-only file system."""
    (tmp_path / "codes").touch()
    (tmp_path / "home").touch()
    nowhere = {"XDG_CACHE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path / "home")}
    assert called(tmp_path, 1, **nowhere) == "40"


@compiled_only
def test_machine_code__that_no_disk_has_room_for_is_made_for_the_process_alone(tmp_path):
    assert called(tmp_path, 1, most_bytes=100) == "40"
    assert [*(tmp_path / "codes").rglob("kept")] == []
    assert called(tmp_path, 1) == "40"


BEYOND = "import numpy as np; from row import outer; print(outer(np.arange(3), {at}))"
ROW = """
from accelsim.model.jit import jit
from accelsim.model.records import Ints1

@jit
def inner(v: Ints1, k: int) -> int:
    return v[k]

@jit
def outer(v: Ints1, k: int) -> int:
    return inner(v, k)
"""


@compiled_only
@pytest.mark.parametrize(("at", "said", "told"), [(2, "2", False), (3, "0", True), (-4, "0", True)])
def test_indices__beyond_an_array_are_reported_where_they_are_checked(tmp_path, at, said, told):
    """`NUMBA_BOUNDSCHECK=1`: a kernel that another one calls prints the mistake and returns 0."""
    (tmp_path / "row.py").write_text(ROW)
    own = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.pathsep.join(sys.path)}", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", BEYOND.format(at=at)]
    done = subprocess.run(
        command, env=os.environ | own | {"NUMBA_BOUNDSCHECK": "1"}, capture_output=True, text=True, check=True
    )
    assert (done.stdout.strip(), "IndexError" in done.stderr) == (said, told)


MANY = "\n".join(f"@jit\ndef f{k}(n: int) -> int:\n    return n + {k}\n" for k in range(12))
MANY = f"from accelsim.model.jit import jit, prepare\n{MANY}\nEVERY = ({', '.join(f'f{k}' for k in range(12))})\n"
PREPARE = """
import logging, signal
logging.basicConfig(level="INFO")
signal.signal(signal.SIGINT, signal.default_int_handler)  # which processes in the background may lack
import many
many.prepare(many.EVERY)
print(many.f3(4))
"""


def prepare(folder, **options) -> subprocess.Popen[str]:
    """A process that compiles twelve kernels."""
    (folder / "many.py").write_text(MANY)
    own = {"PYTHONPATH": f"{folder}{os.pathsep}{os.pathsep.join(sys.path)}", "NUMBA_CACHE_DIR": str(folder / "codes")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", PREPARE], env=os.environ | own, text=True, **pipes, **options)


@compiled_only
def test_compiling__is_said_and_done_once_by_processes_that_begin_together(tmp_path):
    both = [prepare(tmp_path), prepare(tmp_path)]
    said = [process.communicate(timeout=300) for process in both]
    assert [out.strip() for out, _ in said] == ["7", "7"]
    assert sum("compiling kernels, once: 0 of 12" in err for _, err in said) == 1


THREADS = """
import many, time
from concurrent.futures import ThreadPoolExecutor
from accelsim.model.compiled import numba

njit = numba.njit
numba.njit = lambda *arguments, **options: time.sleep(0.05) or njit(*arguments, **options)
with ThreadPoolExecutor(12) as pool:
    print(sum(pool.map(lambda kernel: kernel(1), many.EVERY)))
"""


@compiled_only
def test_threads__that_call_kernels_for_the_first_time_keep_each_in_its_folder(tmp_path):
    (tmp_path / "many.py").write_text(MANY)
    own = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.pathsep.join(sys.path)}", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", THREADS]
    done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(12 + sum(range(12)))
    folders = [*(tmp_path / "kernels").glob("many.f*")]
    assert len(folders) == 12
    assert all(len([*folder.rglob("*.nbi")]) == 1 for folder in folders)


@compiled_only
def test_compiling__takes_the_modules_of_the_process_not_those_of_the_working_directory(tmp_path):
    """As in a clone whose package is installed elsewhere: machine code of the one would not be found for the other."""
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone" / "many.py").write_text("open('imported', 'w').close()\n" + MANY)
    (tmp_path / "script.py").write_text(PREPARE)
    (tmp_path / "many.py").write_text(MANY)
    own = {"PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_CACHE_DIR": str(tmp_path / "codes")}
    command = [sys.executable, str(tmp_path / "script.py")]
    subprocess.run(command, env=os.environ | own, cwd=tmp_path / "clone", capture_output=True, check=True)
    assert not (tmp_path / "clone" / "imported").exists()


@compiled_only
def test_compiling__says_that_it_waits_for_another_process(tmp_path):
    (tmp_path / "codes" / "kernels").mkdir(parents=True)
    with open(tmp_path / "codes" / "kernels" / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = prepare(tmp_path)
        assert "waiting for another process that compiles kernels" in process.stderr.readline()
    out, err = process.communicate(timeout=300)
    assert (out.strip(), "0 of 12" in err) == ("7", True)


@compiled_only
def test_compiling__goes_on_with_another_process_where_one_is_killed(tmp_path):
    """As where memory runs out."""
    process, killed = prepare(tmp_path), 0
    while process.poll() is None and killed < 2:
        time.sleep(0.3)
        asked = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
        for child in asked.stdout.split()[:1]:
            os.kill(int(child), signal.SIGKILL)
            killed += 1
    assert process.communicate(timeout=300)[0].strip() == "7"
    assert process.returncode == 0


@compiled_only
def test_compiling__ends_with_its_processes_on_an_interrupt(tmp_path):
    process = prepare(tmp_path, start_new_session=True)
    assert "0 of 12" in process.stderr.readline()
    time.sleep(0.2)
    started = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in err
    assert time.monotonic() - started < 5.0
