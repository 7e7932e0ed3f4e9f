"""Signals at random moments of commands: how each of them ends, and how soon.

    python tests/signals.py [--many 200] [--seed 0] [--only map,spread]

Prints a table of counts, with wall and CPU time after the signal, and each run that ended otherwise than it should:
later than a second after the signal, with another exit code than 128 + the signal, with a traceback, or with half a
file left behind. A command that is done before its signal comes ends with 0.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

COMMANDS = {
    "map": ("map eyeriss conv --factors imperfect --time-limit 60", 6.0),
    "map network": ("map eyeriss vgg16 --no-cache --quiet", 5.0),
    "map -o": ("map simba conv -o {folder}/out --no-cache", 5.0),
    "map random": ("map eyeriss conv --time-limit 20", 4.0),
    "spread": ("spread eyeriss conv --time-limit 30", 10.0),
    "fuse": ("fuse eyeriss mobilenet_v2 --no-cache", 8.0),
    "explore": ("explore eyeriss_array -o {folder}/out --jobs 2", 6.0),
    "explore alone": ("explore eyeriss_array -o {folder}/out --jobs 1", 6.0),
}
STARTED = 0.3
"""Python itself has started after so many seconds, and no longer dies of a signal."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(NamedTuple):
    """How one run ended: when its signal came [s], exit code, wall and CPU time since [s], and what is wrong."""

    at: float
    code: int
    reaction: float
    cpu: float
    said: str
    wrong: str


def run(command: str, number: signal.Signals, at: float) -> Ended:
    """Run a command, and send it a signal after some seconds."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "accelsim", *command.format(folder=folder).split()]
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=folder,
            env={**os.environ, "ACCELSIM_CACHE": f"{folder}/cache"}, start_new_session=True,
        )  # fmt: skip
        try:
            out, said = process.communicate(timeout=at)
            return Ended(at, process.returncode, 0.0, 0.0, said, "" if process.returncode == 0 else "failed by itself")
        except subprocess.TimeoutExpired:
            spent = _cpu_seconds(process.pid)
            process.send_signal(number)
        sent = time.monotonic()
        try:
            out, said = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return Ended(at, -9, 90.0, 0.0, "", "it hangs")
        reaction = time.monotonic() - sent
        cpu = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before - spent
        code = process.returncode
        left = [path.name for path in Path(folder).rglob(".*.part")]
        wrong = [f"half a file: {left}"] if left else []
        wrong += ["a traceback"] if "Traceback" in said or "internal error" in said else []
        wrong += [f"exit code {code}"] if code != 128 + number else []
        wrong += [f"{reaction:.2f} s"] if reaction > 1.0 else []
        return Ended(at, code, reaction, cpu, said + out, "; ".join(wrong))


def _cpu_seconds(process: int) -> float:
    """User time of a process so far [s]."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Send signals and print what came of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--many", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(COMMANDS))
    asked = parser.parse_args()
    for number in SIGNALS:  # what is ignored here, as by `nohup` and by `&`, would be so in every command
        signal.signal(number, signal.SIG_DFL)
    names, draw = asked.only.split(","), random.Random(asked.seed)
    ended: dict[tuple[str, str], list[Ended]] = defaultdict(list)
    for turn in range(asked.many):
        name, number = names[turn % len(names)], SIGNALS[turn // len(names) % len(SIGNALS)]
        command, longest = COMMANDS[name]
        found = run(command, number, draw.uniform(STARTED, longest))
        ended[name, number.name].append(found)
        if found.wrong:
            last = found.said[-2000:] if "traceback" in found.wrong else found.said.strip()[-100:]
            sys.stdout.write(
                f"{name}, {number.name} at {found.at:.2f} s: {found.wrong} ({found.cpu:.2f} s CPU) | {last}\n"
            )
            sys.stdout.flush()
    load = os.getloadavg()[1]
    sys.stdout.write(
        f"{'command':14} {'signal':8} {'runs':>4}  {'slowest':>7} {'most CPU':>8}  exit codes (load {load:.1f})\n"
    )
    for (name, number_name), runs in sorted(ended.items()):
        codes = ", ".join(f"{code}: {many}" for code, many in sorted(Counter(each.code for each in runs).items()))
        slowest, most = max(each.reaction for each in runs), max(each.cpu for each in runs)
        sys.stdout.write(f"{name:14} {number_name:8} {len(runs):4}  {slowest:5.2f} s {most:6.2f} s  {codes}\n")
    return 1 if any(each.wrong for runs in ended.values() for each in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
