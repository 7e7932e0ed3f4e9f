"""How much of what users map is proved, and how soon? Fifty machines x twelve layers, nine x nineteen, x four goals.

`python benchmarks/corpus` (or `make bench-corpus`) takes hours; `--workers 14` some minutes on as many cores.
`--every 12` looks at each twelfth problem, `--only free5` at the problems whose name contains a word. A problem is
searched for 10 s, and again for 1 s if it was not proved by then; each answer is compared with the best one known.
`results.csv` keeps the best known values and what was proved; a problem that was proved there and is not now is a loss,
and ends the run with exit code 1. `--keep` writes the file anew; rows of problems that were not searched stay.

`--space` says which mappings are searched: `perfect` ones are even and leave no remainders; `uneven` ones may also keep
the tensors of a level at different loops; `wide`, as `map` searches, are even or uneven, with remainders. Fronts are of
even mappings. Only a `perfect` run is compared with `results.csv` and may write it. Gaps are to the bound of the space
that was searched; peak memory is the resident set of the process that had the largest.

Machines: those that ship, the same with 8-bit words and 32-bit partial sums, those in `machines/`, random ladders
(`benchmarks/ladders.py`), and machines of ZigZag and AccelForge where `../shared` has their files. The machines of
`HARD` have the layers of `layers_hard.yaml`, all others those of `layers.yaml`.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import math
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1])]

import yaml  # noqa: E402
from ladders import ladder  # noqa: E402

from accelsim import load_architecture, load_workload  # noqa: E402
from accelsim.cli import main as command  # noqa: E402
from accelsim.inputs.architecture import Architecture  # noqa: E402
from accelsim.inputs.errors import AccelsimError, NoValidMappingError  # noqa: E402
from accelsim.inputs.objective import Objective  # noqa: E402
from accelsim.inputs.workload import Einsum, Workload  # noqa: E402
from accelsim.search.exact.front import map_front  # noqa: E402
from accelsim.search.mapper import map_einsum  # noqa: E402
from accelsim.search.stopping import Budget  # noqa: E402

SHIPPED = (
    *("two_level", "eyeriss", "gpu_sm", "nvdla", "simba", "systolic", "gemmini", "eyeriss_isca2016", "eyeriss_jssc"),
    *("nvdla_1024", "nvdla_28nm", "nvdla_small", "simba_like", "systolic_32", "systolic_tpu_v1"),
)
LADDERS = (2, 3, 4, 5, 8)
FOREIGN = HERE.parents[2] / "shared" / "foreign"
OTHERS = (
    *("zigzag/hardware/eyeriss_like", "zigzag/hardware/gemm_l1", "zigzag/hardware/gemm_l1_l3"),
    *("zigzag/hardware/tesla_npu_like", "zigzag/hardware/tpu_like", "accelforge/arches/eyeriss"),
    *("accelforge/arches/nvdla", "accelforge/arches/simple", "accelforge/arches/snowcat"),
)
NARROW, SUMS = dict.fromkeys(("Inputs", "Weights", "Outputs"), 8), {"psums": 32}
"""Words of 8 bits, which the machines of other tools are made for, and partial sums that are wider."""
WIDE = (
    *("free5", "free8", "cpu_simd", "tensor_core", "tetris"),
    *("graphcore", "ladder5_free", "pertensor", "timeloop_plain", "tpu_v4"),
)
"""Machines of `machines/` whose words have more than 8 bits."""
HARD = (
    *("chiplet6", "cluster_npu", "edge_npu", "graphcore", "ladder5_free"),
    *("pertensor", "timeloop_plain", "tpu_v4", "vdsp"),
)
"""Machines of `machines/` that have the layers of `layers_hard.yaml`."""
SPACES: dict[str, dict[str, Any]] = {
    "perfect": {"uneven": False},
    "uneven": {"uneven": None},
    "wide": {"uneven": None, "imperfect": "auto"},
}
"""What `map_einsum` is asked for in each space."""
Key = tuple[str, str, str]
"""Machine, layer and goal of a problem."""
GOALS = ("energy", "cycles", "edp", "front")
SHORT, LONG = 1.0, 10.0
"""Time of a search [s]."""
WITHIN = 1e-9
"""Relative difference of values that are equal but for rounding."""


@dataclass(frozen=True, slots=True)
class Row:
    """One problem: what was found and proved, and how soon."""

    machine: str
    layer: str
    goal: str
    proved: int
    """1 if proved within `LONG`."""
    cpu_s: float
    """Of the search of `LONG` seconds, which ends at the proof."""
    gap: float
    """Of the long search's answer to its own bound, 0 if proved; infinite where there is none, as for an open front."""
    best: float
    """Value of the best mapping known; of a front, its points."""
    short: float
    """Answer after `SHORT` over the best known."""
    long: float
    """Answer after `LONG` over the best known."""


def machines(folder: Path) -> Iterator[tuple[str, Architecture, dict[str, int]]]:
    """Machines by name, and the bits of words of their layers; those of `HARD` come last."""
    for name in SHIPPED:
        yield name, load_architecture(name), {}
    for name in SHIPPED[:7]:
        yield f"{name}@int8", load_architecture(name), NARROW | SUMS
    own = sorted({path.stem for path in (HERE / "machines").glob("*.yaml")}.difference(HARD))
    yield from map(_own, own)
    for seed in LADDERS:
        yield f"ladder{seed}", load_architecture({"architecture": _ladder(seed)}), NARROW | SUMS if seed % 2 else {}
    for place in OTHERS:
        if (FOREIGN / place).with_suffix(".yaml").is_file():
            name = place.replace("/hardware", "").replace("/arches", "").replace("/", "_")
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                command.main(["import", f"{FOREIGN / place}.yaml", "-o", str(folder / name)])
            yield name, load_architecture(folder / name / "architecture.yaml"), NARROW
    yield from map(_own, HARD)


def _own(name: str) -> tuple[str, Architecture, dict[str, int]]:
    return name, load_architecture(HERE / "machines" / f"{name}.yaml"), {} if name in WIDE else NARROW | SUMS


def _ladder(seed: int) -> dict[str, object]:
    return dict(yaml.safe_load(ladder(seed))["architecture"])


def layers(machine: str, bits: dict[str, int]) -> Workload:
    """Layers of a machine, with words of so many bits."""
    read = yaml.safe_load((HERE / ("layers_hard.yaml" if machine in HARD else "layers.yaml")).read_text())
    read["workload"]["bits"] = bits
    return load_workload(read)


def solve(machine: Architecture, layer: Einsum, goal: str, seconds: float, space: str) -> tuple[float, float, float]:
    """Value, gap and CPU seconds of one search; the value is infinite where no mapping was found."""
    before, budget = time.process_time(), Budget(seconds=seconds)
    try:
        if goal == "front":
            front = map_front(machine, layer, budget=budget, workers=1)
            gap = 0.0 if front.stop == "exhausted" else math.inf
            return float(len(front.points)), gap, time.process_time() - before
        found = map_einsum(machine, layer, objective=goal, budget=budget, workers=1, **SPACES[space])
    except NoValidMappingError:
        return math.inf, math.inf, time.process_time() - before
    assert found.certificate is not None
    value, gap = Objective.parse(goal).of(found.best), 0.0 if found.certificate.proved else found.certificate.gap
    return value, math.inf if gap is None else gap, time.process_time() - before


def measure(name: str, machine: Architecture, layer: Einsum, goal: str, known: float, space: str) -> Row:
    """Search one problem, for long and, if need be, shortly."""
    value, gap, cpu_s = solve(machine, layer, goal, LONG, space)
    short = value
    if cpu_s > 0.9 * SHORT and goal != "front":
        short, _, _ = solve(machine, layer, goal, SHORT, space)
    best = value if goal == "front" else min(value, short, known)
    return Row(name, layer.name, goal, int(gap <= 0), round(cpu_s, 3), gap, best, short / best, value / best)


def attempt(problem: tuple[str, Architecture, Einsum, str, float, str]) -> tuple[Row | str, int]:
    """Search one problem, or say why that cannot be; with the peak memory of this process so far [KiB]."""
    try:
        row: Row | str = measure(*problem)
    except AccelsimError as error:
        row = str(error)
    return row, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def kept() -> dict[Key, Row]:
    """Rows of `results.csv`."""
    path = HERE / "results.csv"
    if not path.is_file():
        return {}
    with path.open() as file:
        read = [[kind(row[name]) for name, kind in COLUMNS.items()] for row in csv.DictReader(file)]
    return {(row.machine, row.layer, row.goal): row for row in (Row(*each) for each in read)}


COLUMNS: dict[str, type] = {
    field.name: {"str": str, "int": int, "float": float}[str(field.type)] for field in fields(Row)
}


def keep(rows: dict[Key, Row]) -> None:
    """Write `results.csv`."""
    with (HERE / "results.csv").open("w") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {key: f"{v:.10g}" if isinstance(v, float) else v for key, v in asdict(row).items()} for row in rows.values()
        )


def summary(rows: list[Row]) -> str:
    """One line for each goal: what is proved, how soon, how good answers are, and how large the gaps of the others."""
    head = f"{'goal':8}{'problems':>9}{'proved':>8}{'median s':>10}{'90 % s':>8}"
    head += f"{'1 s within 1 %':>16}{'10 %':>7}{'worst at 1 s':>14}{'at 10 s':>10}"
    lines = [f"{head}{'not proved':>12}{'median gap':>12}{'largest':>9}"]
    for goal in GOALS:
        mine = [row for row in rows if row.goal == goal and math.isfinite(row.best)]
        if not mine:
            continue
        times = sorted(row.cpu_s for row in mine)
        gaps = [row.gap for row in mine if not row.proved]
        gap = [f"{of(gaps):.1%}" if gaps and goal != "front" else "-" for of in (statistics.median, max)]
        share = [sum(row.short <= 1 + most for row in mine) / len(mine) for most in (0.01, 0.1)]
        lines.append(
            f"{goal:8}{len(mine):9}{sum(row.proved for row in mine) / len(mine):8.1%}{times[len(times) // 2]:10.2f}"
            f"{times[len(times) * 9 // 10]:8.2f}{share[0]:16.1%}{share[1]:7.1%}"
            f"{max(row.short for row in mine):14.3f}{max(row.long for row in mine):10.3f}"
            f"{len(gaps):12}{gap[0]:>12}{gap[1]:>9}"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure, print each problem as it is done, and the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="look at each so manieth problem")
    parser.add_argument("--start", type=int, default=0, help="first problem of those")
    parser.add_argument("--only", default="", help="problems whose name, such as `free5 gemm_small edp`, contains this")
    parser.add_argument("--goals", nargs="+", default=GOALS, choices=GOALS)
    parser.add_argument("--workers", type=int, default=1, help="processes; each needs a core of its own")
    parser.add_argument("--keep", action="store_true", help="write results.csv")
    parser.add_argument("--space", choices=SPACES, default="perfect", help="mappings to search (default: perfect)")
    arguments = parser.parse_args()
    space, compared = arguments.space, arguments.space == "perfect"
    if arguments.keep and not compared:
        parser.error("results.csv is of perfect mappings; leave out --keep or --space")
    if arguments.workers < 1:
        parser.error("--workers must be at least 1")
    show = partial(print, flush=True)
    known, rows, lost, peak = kept(), [], [], (0, "")
    with tempfile.TemporaryDirectory() as folder:
        named = (
            (name, machine, layer)
            for name, machine, bits in machines(Path(folder))
            for layer in layers(name, bits).layers
        )
        problems = [(*each, goal) for each in named for goal in GOALS]
        warm = {goal: solve(problems[0][1], problems[0][2], goal, LONG, space) for goal in arguments.goals}
        assert warm
        chosen = [
            (*problem, known[key].best if key in known and compared else math.inf, space)
            for problem in problems[arguments.start :: arguments.every]
            if (key := (problem[0], problem[2].name, problem[3])) and problem[3] in arguments.goals
            if arguments.only in " ".join(key)
        ]
        with get_context("fork").Pool(arguments.workers) as pool:
            for (name, _, layer, goal, *_), (row, used) in zip(chosen, pool.imap(attempt, chosen), strict=True):
                key = (name, layer.name, goal)
                peak = (used, " ".join(key)) if used > peak[0] else peak
                if isinstance(row, str):
                    show(f"{' '.join(key):50} {row}")
                    continue
                said = "proved" if row.proved else f"gap {row.gap:.1%}"
                show(f"{' '.join(key):50}{row.cpu_s:8.2f} s  {said:12} at 1 s {row.short:.4f}  {row.long:.4f}")
                rows.append(row)
                lost += [row] if key in known and known[key].proved and not row.proved and compared else []
                known[key] = row
    show(summary(rows))
    show(f"peak memory {peak[0] / 1024:.0f} MiB ({peak[1]})")
    for row in lost:
        before = kept()[row.machine, row.layer, row.goal]
        show(f"lost: {row.machine} {row.layer} {row.goal} was proved in {before.cpu_s} s")
    if arguments.keep:
        keep(known)
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
