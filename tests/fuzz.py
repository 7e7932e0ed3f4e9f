"""Damaged files for every command: `python -m tests.fuzz --cases 20000`, `python -m tests.fuzz --seed 123`.

`--only masks,traces,statistics` runs cases of these kinds alone, also with `--seed`; `fuzz_cases.COMMANDS` has all.
A case is a command on files of which one is damaged; its seed, and the kinds, are all that it depends on. Cases run one
after the other in a forked process, which is replaced when a case takes too long or ends it. A case fails if it ends in
an internal error or with an exit code that is not documented, takes more than `SECONDS` of processor time or `MEMORY`,
ends without success and without a word, or prints JSON that is none.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import wait
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fuzz_cases import COMMANDS, Case, call, prepare

SECONDS = 10.0
"""Processor time of a case [s]."""
SILENCE = 120.0
"""Time in which a case must end [s], also where it waits."""
MEMORY = 2 << 30
"""Address space that a process may add [B]."""
CODES = (0, 1, 2, 130)
BATCH = 400
"""Cases that one process runs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a case ended: its exit code, or why it has none, and what of that is a fault."""

    seed: int
    command: str
    code: int | None
    fault: str
    seconds: float


def run(seed: int, only: Collection[str]) -> tuple[Outcome, str]:
    """Run a case in the working directory, and say how it ended, at length if it failed."""
    case, before = Case(seed, only), time.process_time()
    code, said, complained, trace = call(case.arguments)
    seconds = time.process_time() - before
    fault = ""
    if trace:
        places = _places(trace)
        fault = f"{trace.splitlines()[-1][:80]} at {places[-1] if places else '?'}"
    elif code not in CODES:
        fault = f"exit code {code}"
    elif code and not said.strip() and not complained.strip():
        fault = f"exit code {code} without a word"
    elif "Traceback" in said + complained:
        fault = "a traceback"
    elif "no command '" in complained or "unrecognized arguments" in complained:
        fault = "words that no command takes"
    elif "--json" in case.arguments and code == 0 and not _is_json(said):
        fault = "what it prints is no JSON"
    command = " ".join(case.arguments[: 2 if case.arguments[0] in ("gpu", "validation") else 1])
    package = "" if command.startswith("validation") else "accelsim "
    told = f"$ python -m {package}{' '.join(case.arguments)}\n{said}{complained}{trace}"
    return Outcome(seed, command, code, fault, seconds), told


def _places(trace: str) -> list[str]:
    """Lines of a traceback that name a file of ours."""
    return [line.strip() for line in trace.splitlines() if "/accelsim/" in line or "/validation/" in line]


def _is_json(text: str) -> bool:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return True


class Worker:
    """A process that runs cases and sends their outcomes, each as a line."""

    def __init__(self, seeds: list[int], only: Collection[str], folder: Path) -> None:
        self.seeds, self.only, self.folder = seeds, only, folder
        self.log = folder / f"stack{seeds[0]}"
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            try:
                self._work(os.fdopen(writing, "w", buffering=1))
                os._exit(0)
            except BaseException:  # a mistake of this file
                self.log.write_text(traceback.format_exc())
                os._exit(3)
        os.close(writing)
        self.pipe = os.fdopen(reading)

    def _work(self, pipe: io.TextIOBase) -> None:
        size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        faulthandler.register(signal.SIGPROF, file=self.log.open("w"), all_threads=True, chain=True)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for seed in self.seeds:
            place = self.folder / f"case{seed}"
            place.mkdir()
            os.chdir(place)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            outcome, _ = run(seed, self.only)
            signal.setitimer(signal.ITIMER_PROF, 0)
            pipe.write(json.dumps(asdict(outcome)) + "\n")
            os.chdir(self.folder)
            shutil.rmtree(place, ignore_errors=True)

    def outcome(self) -> Outcome | None:
        """Outcome of the next case, or of the one that ended the process; None after the last one."""
        line = self.pipe.readline() if wait([self.pipe], SILENCE) else ""
        if line.endswith("\n"):
            self.seeds = self.seeds[1:]
            return Outcome(**json.loads(line))
        os.kill(self.pid, signal.SIGKILL)
        ended = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.pipe.close()
        if not self.seeds:
            return None
        seed, self.seeds = self.seeds[0], self.seeds[1:]
        text = self.log.read_text()
        places = _places(text) or text.splitlines()[-3:]
        fault = f"over {SECONDS:g} s" if ended == -signal.SIGPROF else f"the process ends with {ended}"
        return Outcome(seed, "?", None, f"{fault} at {(places or ['?'])[0]}", SECONDS)


def outcomes(seeds: list[int], only: Collection[str], workers: int, folder: Path) -> Iterator[Outcome]:
    """Outcomes of cases, in any order."""
    batches = [seeds[at : at + BATCH] for at in range(0, len(seeds), BATCH)]
    active: list[Worker] = []
    while batches or active:
        while batches and len(active) < workers:
            active.append(Worker(batches.pop(0), only, folder))
        ready = wait([worker.pipe for worker in active], SILENCE) if workers > 1 else []
        worker = next((each for each in active if each.pipe in ready), active[0])
        found = worker.outcome()
        if found is not None:
            yield found
        if found is None or found.code is None:
            active.remove(worker)
            if worker.seeds:
                batches.insert(0, worker.seeds)


def main() -> int:
    """Run cases, and print how they ended and the seed of each kind of fault; 1 if there is any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    parser.add_argument("--seed", type=int, help="run this case alone, say all of it, and keep its files in fuzz_SEED")
    parser.add_argument("--only", help="kinds of cases, such as masks,traces (default: all)")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    kinds = [make.__name__[1:] for make in COMMANDS]
    only = arguments.only.split(",") if arguments.only else kinds
    if unknown := set(only) - set(kinds):
        parser.error(f"no kinds {', '.join(sorted(unknown))}; there are {', '.join(kinds)}")
    start = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="accelsim-fuzz-") as name:
        os.chdir(name)
        prepare(Path(name))
        gc.freeze()  # what all processes share
        if arguments.seed is not None:
            kept = start / f"fuzz_{arguments.seed}"
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir()
            os.chdir(kept)
            outcome, told = run(arguments.seed, only)
            sys.stdout.write(f"{told}\n{outcome}\n")
            return 1 if outcome.fault else 0
        seeds = list(range(arguments.first, arguments.first + arguments.cases))
        return report(outcomes(seeds, only, arguments.jobs, Path(name)))


def report(found: Iterable[Outcome]) -> int:
    """Print counts of codes by command, and the faults."""
    spent = Counter()
    before, codes, faults, slowest = time.monotonic(), Counter(), {}, Outcome(0, "", 0, "", 0.0)
    for outcome in found:
        codes[outcome.command, outcome.code] += 1
        spent[outcome.command] += outcome.seconds
        slowest = max(slowest, outcome, key=lambda each: each.seconds)
        if outcome.fault:
            faults.setdefault(outcome.fault, []).append(outcome.seed)
            sys.stdout.write(f"seed {outcome.seed}: {outcome.command}: {outcome.fault}\n")
            sys.stdout.flush()
    for command, seconds in spent.most_common():
        ended = ", ".join(f"{code}: {many}" for (name, code), many in codes.items() if name == command)
        sys.stdout.write(f"{command:20} {seconds:8.2f} s   {ended}\n")
    for fault, seeds in sorted(faults.items(), key=lambda each: -len(each[1])):
        sys.stdout.write(f"{len(seeds):5} {fault}: seeds {', '.join(map(str, seeds[:5]))}\n")
    resident = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) >> 10
    by_code = ", ".join(
        f"{code}: {sum(n for (_, c), n in codes.items() if c == code)}" for code in dict.fromkeys(c for _, c in codes)
    )
    sys.stdout.write(
        f"{sum(codes.values())} cases in {time.monotonic() - before:.1f} s; exit codes {by_code}; "
        f"slowest {slowest.seconds:.2f} s (seed {slowest.seed}), most memory {resident} MiB; "
        f"{sum(map(len, faults.values()))} faults of {len(faults)} kinds\n"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
