"""Time the exact mapper on one core with warm kernels: GEMM, VGG-16 conv3_2 and ResNet-50, beside targets.

Run `make bench-map`, or `python benchmarks/mapping.py [--quick] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import math
import os
import resource
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "benchmarks" / "peers")]

from rich.box import SIMPLE_HEAD  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from accelsim import load_architecture, load_workload  # noqa: E402
from accelsim.inputs.architecture import Architecture  # noqa: E402
from accelsim.inputs.errors import NoValidMappingError  # noqa: E402
from accelsim.inputs.workload import Einsum  # noqa: E402
from accelsim.search.exact.front import map_front  # noqa: E402
from accelsim.search.mapper import map_einsum  # noqa: E402
from accelsim.search.result import FrontResult, SearchResult  # noqa: E402
from accelsim.search.stopping import Budget  # noqa: E402

MACHINES = ("eyeriss", "systolic", "nvdla", "simba", "gpu_sm")
OBJECTIVES = ("energy", "edp", "cycles", "front")
TARGETS = {"GEMM": 0.1, "VGG": 1.0, "conv": 1.0, "all": 10.0}
"""Seconds that the energy objective may take; any other `SLACK` times as long."""
SLACK = 3.0
RUNS, LONG = 3, 10.0
"""The best of so many runs counts, fewer where together they took longer than this [s]."""
COLUMNS = "machine,problem,goal,wall s,CPU s,nodes,evals,MiB,space,proof,target s,ratio"
CAPTION = """One thread, warm kernels; fastest of 3 runs, or of those in 10 s. MiB: tables. *: out of budget.
Target: 'CPU' if met by CPU seconds only, as others use the machine; cycles may take what EDP may.
Ratio: CPU seconds over those for energy; on peers' machines (same constraints), theirs over ours."""


@dataclass(slots=True)
class Timing:
    """One search, or several added up; `proved` and `of` count searches, `gap` is of one search for the best."""

    machine: str
    problem: str
    objective: str
    wall_s: float
    cpu_s: float
    nodes: int = 0
    evaluated: int = 0
    table_bytes: int = 0
    space_size: int = 0
    proved: int = 0
    gap: float | None = None
    stopped: int = 0
    of: int = 1

    def certificate(self) -> str:
        """Say what is proved, and whether the budget ended it."""
        gap = "no bound" if self.gap is None else f"gap {self.gap:.1%}"
        said = "proved" if self.proved == self.of else gap if self.of == 1 else f"{self.proved} proved"
        return said + "*" * (self.stopped > 0)


def search(machine: Architecture, layer: Einsum, objective: str, seconds: float | None) -> Timing:
    """Search once."""
    timing = Timing(machine.name, layer.name, objective, time.perf_counter(), time.process_time(), stopped=1)
    mapper: Any = map_front if objective == "front" else partial(map_einsum, objective=objective, uneven=False)
    with suppress(NoValidMappingError):  # none found in time: neither gap nor counts
        enter(timing, mapper(machine, layer, budget=Budget(seconds=seconds), workers=1))
    timing.wall_s, timing.cpu_s = time.perf_counter() - timing.wall_s, time.process_time() - timing.cpu_s
    return timing


def enter(timing: Timing, found: SearchResult | FrontResult) -> None:
    """Enter what a search visited and proved."""
    counts = found if isinstance(found, FrontResult) else found.certificate
    assert counts, "an exact search has a certificate"
    timing.nodes, timing.evaluated, timing.table_bytes = counts.nodes, counts.evaluated, counts.table_bytes
    timing.space_size, timing.stopped = found.space_size or 0, int(found.stop != "exhausted")
    timing.gap = None if isinstance(counts, FrontResult) else counts.gap
    timing.proved = int(not timing.stopped if isinstance(counts, FrontResult) else counts.proved)


def fastest(machine: Architecture, layer: Einsum, objective: str, seconds: float) -> Timing:
    """Search some times; the fastest run counts."""
    runs: list[Timing] = []
    while len(runs) < RUNS and sum(run.wall_s for run in runs) < LONG:
        runs.append(search(machine, layer, objective, seconds))
    best = min(runs, key=lambda run: run.wall_s)
    best.cpu_s = min(run.cpu_s for run in runs)
    sys.stderr.write(f"{best.machine} {best.problem} {objective}: {best.wall_s:.3f} s, {best.certificate()}\n")
    return best


def summary(layers: list[Timing]) -> list[tuple[str, str, Timing]]:
    """Rows of a network: its median and slowest convolution, and the sum of all its layers; with their targets."""
    convs = sorted((each for each in layers if each.problem != "fc"), key=lambda each: each.cpu_s)
    middle, slowest = convs[(len(convs) - 1) // 2], convs[-1]
    total = replace(slowest, problem="all", of=len(layers), table_bytes=max(each.table_bytes for each in layers))
    for name in ("wall_s", "cpu_s", "nodes", "evaluated", "proved", "stopped", "space_size"):
        setattr(total, name, sum(getattr(each, name) for each in layers))
    named = {f"median: {middle.problem}": middle, f"slowest: {slowest.problem}": slowest}
    return [*((title, "conv", each) for title, each in named.items()), ("ResNet-50, all layers", "all", total)]


def judged(timing: Timing, kind: str) -> str:
    """Target, and whether it is met."""
    allowed = TARGETS[kind] * (1.0 if timing.objective == "energy" else SLACK)
    met = "yes" if timing.wall_s <= allowed else "CPU" if timing.cpu_s <= allowed else "no"
    return f"{allowed:g} {'no' if timing.stopped else met}"


def cells(title: str, timing: Timing, target: str, ratio: str) -> list[str]:
    """Cells of one row."""
    times = ["-" if math.isnan(taken) else f"{taken:.3f}" for taken in (timing.wall_s, timing.cpu_s)]
    counts = [f"{count:.1e}".replace("e+0", "e") for count in (timing.nodes, timing.evaluated)]
    sizes = [f"{timing.table_bytes / 2**20:.1f}", f"{timing.space_size:.0e}".replace("e+", "e")]
    return [timing.machine, title, timing.objective, *times, *counts, *sizes, timing.certificate(), target, ratio]


def different(layers: Sequence[Einsum]) -> list[Einsum]:
    """Layers of a network, the first of equal ones, which `accelsim map` maps once."""
    return list({(tuple(layer.dims.items()), layer.tensors): layer for layer in reversed(layers)}.values())[::-1]


def measure(name: str, objectives: list[str], quick: bool, seconds: float) -> tuple[list[Timing], list[list[str]]]:
    """All timings of one machine, and their rows."""
    machine, network = load_architecture(name), [] if quick else different(load_workload("resnet50").layers)
    gemm, vgg = load_workload("gemm").layers[0], load_workload("vgg16").layers[5]  # conv3_2
    for layer, objective in itertools.product((gemm, vgg), objectives):  # compiles, or reads machine code
        search(machine, replace(layer, dims={dim: min(bound, 2) for dim, bound in layer.dims.items()}), objective, None)
    timings, rows, base = list[Timing](), list[list[str]](), dict[str, float]()
    for objective in objectives:
        found = [fastest(machine, layer, objective, seconds) for layer in (gemm, vgg, *network)]
        lines = [("GEMM 512x1024x1024", "GEMM", found[0]), ("VGG-16 conv3_2", "VGG", found[1])]
        lines += summary(found[2:]) if network else []
        if objective == "energy":
            base = {each.problem: each.cpu_s for each in (*found, *(timing for _, _, timing in lines))}
        for title, kind, timing in lines:
            ratio = f"{timing.cpu_s / base[timing.problem]:.2f}" if timing.problem in base else "-"
            rows.append(cells(title, timing, judged(timing, kind), ratio))
        timings += found
    return timings, rows


def beside_peers(seconds: float, objectives: list[str]) -> list[list[str]]:
    """Rows of AccelForge's and ZigZag's machines: live if $ACCELSIM_PEERS is set, or against their recorded times."""
    compare: Any = importlib.import_module("compare")
    tools = (compare.accelforge, "accelforge"), (compare.zigzag, "zigzag")
    loaded = [peer for tool, records in tools for peer in tool.load_peers(compare.GOLDEN / records)]
    wanted = {*itertools.product(("gemm_512x1024x1024", "gemm_512", "vgg16_conv3_2"), objectives)}
    peers = [peer for peer in loaded if peer.nest and (peer.problem, peer.objective) in wanted]
    searched = [compare.search(peer, Budget(seconds=seconds), free=False) for peer in peers]
    live = "ACCELSIM_PEERS" in os.environ
    answers = compare.live(peers, [found for found, _, _ in searched]) if live else [{}] * len(peers)
    rows = []
    for peer, (found, _, ours), now in zip(peers, searched, answers, strict=True):
        theirs, how = now.get("seconds", peer.seconds), "live" if "seconds" in now else "rec."
        title = f"{peer.problem.removesuffix('x1024x1024').removeprefix('vgg16_')}, {how} {theirs:.3g} s"
        timing = Timing(f"{peer.tool[:2]} {peer.machine}", title, peer.objective, math.nan, ours)
        enter(timing, found)
        target = f"{theirs / 100:.2g} {'yes' if theirs >= 100 * ours else 'no'}"
        rows.append(cells(title, timing, target, f"{theirs / ours:.0f}"))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Time the exact mapper on one core.")
    parser.add_argument("--quick", action="store_true", help="GEMM and VGG-16 conv3_2 only")
    parser.add_argument("--json", metavar="FILE", help="write every search there, too")
    parser.add_argument("--seconds", type=float, default=60.0, help="budget of each search (default: 60)")
    parser.add_argument("--machines", nargs="+", default=MACHINES, metavar="NAME")
    parser.add_argument("--objectives", nargs="+", default=OBJECTIVES, choices=OBJECTIVES, metavar="NAME")
    options = parser.parse_args()
    table = Table(*COLUMNS.split(","), box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, caption=CAPTION)
    for at, column in enumerate(table.columns):
        column.no_wrap, column.justify = True, "right" if 3 <= at < 9 else "left"
    timings, lines, peers = list[Timing](), list[list[str]](), beside_peers(options.seconds, options.objectives)
    for name in options.machines:
        found, rows = measure(name, options.objectives, options.quick, options.seconds)
        timings, lines = [*timings, *found], [*lines, *rows]
    for row in [*lines, *peers]:
        table.add_row(*row)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    Console(width=120).print(
        table, f"peak memory {peak:.0f} MiB (target: below 2048); budget of a search {options.seconds:g} s", sep="\n"
    )
    if options.json:
        record = {"peak_mib": peak, "budget_s": options.seconds, "searches": [asdict(each) for each in timings]}
        Path(options.json).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
