"""What the search answers, in one file: `python benchmarks/record.py now.json [--every 10] [--seconds 10]`.

For every tenth problem of the corpus: value, bound, mapping, nodes, bytes of tables and CPU seconds; and what the
commands print that README and docs/ show. `python benchmarks/record.py old.json now.json` compares two such files: what
was proved and is not any more, other values, bounds and mappings; nodes, tables and CPU seconds in all. Exit code 1 if
a proof is lost, a value differs that was proved, or a command prints something else.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
sys.path[:0] = [str(HERE), str(REPOSITORY)]

from accelsim.inputs.architecture import Architecture  # noqa: E402
from accelsim.inputs.errors import AccelsimError  # noqa: E402
from accelsim.inputs.objective import Objective  # noqa: E402
from accelsim.inputs.workload import Einsum  # noqa: E402
from accelsim.results.output import mapping_json  # noqa: E402
from accelsim.search.exact.front import map_front  # noqa: E402
from accelsim.search.mapper import map_einsum  # noqa: E402
from accelsim.search.stopping import Budget  # noqa: E402

corpus = importlib.import_module("corpus.__main__")
MOST = 120.0
"""Time of a command [s]."""
SLOW = ("sweep", "fuse", "spread", "cache", "doctor", "--time-limit", "plot", "--html", "make", " > ")
"""Commands that take long, or print what depends on the time or the machine."""
VARIES = re.compile(
    r"\d[\d,.]*( CPU)? (s|ms|s\)|B/s|nodes)\b|\d+ mappings a second|\d{4}-\d\d-\d\d[T ][\d:]+( UTC)?|20\d\d-\d\d-\d\d"
)


def solve(machine: Architecture, layer: Einsum, goal: str, seconds: float) -> dict[str, Any]:
    """Answer to one problem."""
    before, budget = time.process_time(), Budget(seconds=seconds)
    found: dict[str, Any]
    try:
        if goal == "front":
            front = map_front(machine, layer, budget=budget, workers=1)
            values = [[point.energy_pj, point.cycles] for point in front.points]
            found = {"value": values, "proved": front.stop == "exhausted", "nodes": front.nodes}
        else:
            search = map_einsum(machine, layer, objective=goal, budget=budget, workers=1, uneven=False)
            proof = search.certificate
            assert proof is not None
            found = {"value": Objective.parse(goal).of(search.best), "proved": proof.proved, "bound": proof.bound}
            found |= {
                "nodes": proof.nodes,
                "table_bytes": proof.table_bytes,
                "mapping": mapping_json(search.best.mapping),
            }
    except AccelsimError as error:
        found = {"value": str(error)[:200], "proved": False}
    return found | {"cpu_s": round(time.process_time() - before, 3)}


def documented() -> list[str]:
    """Commands in the blocks of README and docs/ that need no file of a reader."""
    found = dict[str, None]()
    for page in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]:
        for block in re.findall(
            r"^```sh\n(.*?)^```|^((?:    accelsim .*\n)+)", page.read_text(), re.MULTILINE | re.DOTALL
        ):
            for line in "".join(block).splitlines():
                words = shlex.split(line, comments=True) if line.strip().startswith("accelsim ") else []
                if words[:1] == ["accelsim"] and "…" not in line and not any(each in line for each in SLOW):
                    found[shlex.join(words)] = None
    return list(found)


def printed(command: str, home: Path) -> str | None:
    """What a command prints, without times; None if it fails or takes too long."""
    words = [sys.executable, "-m", "accelsim", *shlex.split(command)[1:]]
    env = os.environ | {"COLUMNS": "100", "XDG_CACHE_HOME": str(home / "cache"), "PYTHONPATH": str(REPOSITORY)}
    try:
        done = subprocess.run(words, cwd=home, env=env, capture_output=True, text=True, timeout=MOST, check=False)
    except subprocess.TimeoutExpired:
        return None
    return VARIES.sub("#", done.stdout) if done.returncode == 0 else None


def record(path: Path, every: int, seconds: float, *, commands_too: bool) -> None:
    """Solve the problems, run the commands, and write the file."""
    problems: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        named = [
            (name, machine, layer)
            for name, machine, bits in corpus.machines(Path(folder))
            for layer in corpus.layers(name, bits).layers
        ]
        for goal in corpus.GOALS:
            solve(named[0][1], named[0][2], goal, seconds)  # compiles
        for name, machine, layer, goal in [(*each, goal) for each in named for goal in corpus.GOALS][::every]:
            problems[f"{name} {layer.name} {goal}"] = solve(machine, layer, goal, seconds)
        for each in REPOSITORY.iterdir():  # commands name files of the repository, and write others
            Path(folder, each.name).symlink_to(each)
        commands = {command: printed(command, Path(folder)) for command in documented() if commands_too}
    path.write_text(json.dumps({"problems": problems, "commands": commands}, indent=1) + "\n")


def compare(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Say what differs; whether anything does that must not."""
    lost, show = False, partial(print, flush=True)
    both = [(key, old["problems"][key], new["problems"][key]) for key in old["problems"] if key in new["problems"]]
    for key, before, now in both:
        if before["proved"] and not now["proved"]:
            lost = True
            show(f"lost proof   {key}: {before['cpu_s']} s before, now bound {now.get('bound')} of {now['value']}")
        elif now["proved"] and not before["proved"]:
            show(f"new proof    {key}")
        if before["proved"] and now["proved"] and not _equal(before["value"], now["value"]):
            lost = True
            show(f"other value  {key}: {before['value']} before, now {now['value']}")
        elif not _equal(before["value"], now["value"]):
            show(f"other answer {key} (open): {before['value']} before, now {now['value']}")
        elif before.get("mapping") != now.get("mapping"):
            show(f"other mapping of the same value  {key}")
    for what in ("cpu_s", "nodes", "table_bytes"):
        total = [sum(each.get(what, 0) for each in side) for side in zip(*((b, n) for _, b, n in both), strict=True)]
        show(f"{what:12} {total[0]:,.6g} before, now {total[1]:,.6g}: {total[1] / max(total[0], 1e-9):.3f}")
    show(f"proved       {sum(b['proved'] for _, b, _ in both)} before, now {sum(n['proved'] for _, _, n in both)}")
    for command, before in old["commands"].items():
        now = new["commands"].get(command)
        if new["commands"] and now != before:
            lost = True
            show(f"$ {command}")
            for line in set((now or "").splitlines()) ^ set((before or "").splitlines()):
                show(f"    {'+' if line in (now or '') else '-'} {line}")
    return lost


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, float | int) and isinstance(other, float | int):
        return math.isclose(one, other, rel_tol=1e-9)
    return bool(one == other)


def main() -> int:
    """Record, or compare two records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="file to write, or two to compare")
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--problems", action="store_true", help="no commands, which take a quarter of an hour")
    arguments = parser.parse_args()
    if len(arguments.files) == 2:
        return int(compare(*(json.loads(path.read_text()) for path in arguments.files)))
    record(arguments.files[0], arguments.every, arguments.seconds, commands_too=not arguments.problems)
    return 0


if __name__ == "__main__":
    sys.exit(main())
