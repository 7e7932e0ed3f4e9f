"""Plant mistakes in the package one by one, and tell which the tests that are about them do not notice.

`python tests/mutants.py [--only PATTERN] [--jobs N]`, or `make mutants`. First all tests that `tests/planted.py`
names run on a copy of the repository as it is, where they must pass; then the tests of each mistake on a copy with it,
where one must fail. `test_mutants.py` checks that each mistake can still be planted.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from tests.mutant import Mutant  # noqa: E402
from tests.planted import MUTANTS  # noqa: E402

SECONDS, FIRST_SECONDS = 300, 3000
"""How long the tests of a mistake may take, and all of them at first: these may have to compile."""
PASSED, FAILED = 0, 1
"""Exit codes of pytest."""
_TIMES = itertools.count(1_000_000_000)
"""Times of files [s], each its own: byte code is trusted by time and size of its source."""


@contextmanager
def copies(many: int) -> Iterator[SimpleQueue[Path]]:
    """Copies of all that git knows, and of what is new beside it."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True, text=True).stdout
    names = [name for name in listed.split("\0") if (REPOSITORY / name).is_file()]
    free: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        for number in range(many):
            copy = Path(folder, str(number))
            for name in names:
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(REPOSITORY / name, copy / name)
            free.put(copy)
        yield free


def run(copy: Path, tests: Sequence[str], plain: bool, seconds: float = SECONDS) -> tuple[int, str]:
    """Run tests of a copy until one fails: the exit code of pytest, and what it said.

    A copy keeps its machine code from one mistake to the next.
    """
    shared = os.environ.get("ACCELSIM_SHARED") or str(REPOSITORY.parent / "shared")
    own = {"NUMBA_CACHE_DIR": str(copy.with_suffix(".kernels")), "PYTHONPATH": str(copy), "ACCELSIM_SHARED": shared}
    own |= {"ACCELSIM_HYPOTHESIS_PROFILE": "mutants"}
    own |= {"ACCELSIM_RAGGED_CASES": "200", "ACCELSIM_EFFORT": "deep"}
    own |= {"NUMBA_DISABLE_JIT": "1", "ACCELSIM_ORACLE_CASES": "300"} if plain else {}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *(f"tests/{t}" for t in tests)]
    try:
        done = subprocess.run(
            command, cwd=copy, env=os.environ | own, capture_output=True, timeout=seconds, text=True, check=False
        )
    except subprocess.TimeoutExpired:
        return -1, f"no answer in {seconds} s"
    return done.returncode, done.stdout + done.stderr


def unplanted(free: SimpleQueue[Path], mutants: Sequence[Mutant], plain: bool) -> str:
    """Run the tests of mistakes, compiled or plain, on a copy without any: what pytest said if they do not pass."""
    tests = dict.fromkeys(test for each in mutants if each.plain == plain for test in each.tests.split())
    if not tests:
        return ""
    copy = free.get()
    code, said = run(copy, list(tests), plain, FIRST_SECONDS)
    free.put(copy)
    return "" if code == PASSED else said[-4000:]


def judge(free: SimpleQueue[Path], mutant: Mutant) -> str:
    """Plant a mistake in a copy that is free, and say what its tests make of it."""
    copy = free.get()
    path, started = copy / "accelsim" / mutant.file, time.monotonic()
    text = path.read_text()
    try:
        _write(path, mutant.planted(text))
        code, said = run(copy, mutant.tests.split(), mutant.plain)
    except ValueError as error:
        return f"STALE: {error}"
    finally:
        _write(path, text)
        free.put(copy)
    verdict = {FAILED: "killed", PASSED: "SURVIVED"}.get(code, f"BROKEN: exit code {code}")
    shown = "" if code in (FAILED, PASSED) else "\n" + said[-2000:]
    return f"{verdict:9} {time.monotonic() - started:4.0f} s  {mutant.name} ({mutant.file}){shown}"


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    when = next(_TIMES)
    os.utime(path, (when, when))


def main() -> int:
    """Judge all mistakes, or those whose name or file match; 1 if a test fails by itself or a mistake survives."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="PATTERN", help="regular expression of names or files")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    asked = parser.parse_args()
    chosen = [each for each in MUTANTS if re.search(asked.only, f"{each.name} {each.file}")]
    started = time.monotonic()
    with copies(asked.jobs) as free, ThreadPoolExecutor(asked.jobs) as pool:
        wrong = "".join(pool.map(lambda plain: unplanted(free, chosen, plain), (False, True)))
        if wrong:
            sys.stdout.write(f"{wrong}\nthe tests do not pass without a mistake\n")
            return 1
        sys.stdout.write(f"the tests pass without a mistake; {time.monotonic() - started:.0f} s\n")
        survived = 0
        for line in pool.map(lambda each: judge(free, each), chosen):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
            survived += not line.startswith("killed")
    sys.stdout.write(f"{survived} of {len(chosen)} survived; {time.monotonic() - started:.0f} s\n")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
