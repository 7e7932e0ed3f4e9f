"""Time sweeps: variants of Eyeriss x ResNet-50 a minute, what a design costs beside the mapper, and how workers scale.

Run `python benchmarks/explore.py [--variants N] [--workers N] [--prune]` for a real sweep, or `--latency MS` for one
whose work is waiting, which shows how throughput grows with 1, 2 and 4 workers on any computer.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from accelsim.designs import pool  # noqa: E402
from accelsim.designs import run as running  # noqa: E402
from accelsim.designs.run import explore  # noqa: E402
from accelsim.designs.sweep import load_sweep  # noqa: E402
from accelsim.designs.work import Item, Plan, WorkRow  # noqa: E402

SWEEP = """sweep:
  name: benchmark
  architecture: eyeriss
  workloads: [{network}]
  parameters:
    pe.x: {{from: 7, to: 28, step: 1}}
    pe.y: {{from: 4, to: 20, step: 4}}
    glb: {{from: 27 KiB, to: 432 KiB, factor: 2}}
    bandwidth: {{from: 0.36 GB/s, to: 5.76 GB/s, factor: 2}}
  objectives: [energy, time]
  strategy: random
  designs: {designs}
  prune: {prune}
  map: {{objective: energy, mapspace: even, factors: perfect}}
"""
_milliseconds = 0.0


def wait_instead(plan: Plan, items: Sequence[Item]) -> list[WorkRow]:
    """Stand in for a worker that maps: wait, and answer with a cost that follows from the name of the work."""
    rows = []
    for item in items:
        time.sleep(_milliseconds / 1000)
        cost = 1.0 + int(item.key[:6], 16)
        rows.append(
            {"key": item.key, "what": item.what, "status": "mapped", "energy_pj": cost, "cycles": cost, "seconds": 0.0}
        )
    return rows


class Waiting(pool.Pool):
    """A pool whose processes wait instead of mapping."""

    def _start(self) -> ProcessPoolExecutor:
        begin = (self.plan, _milliseconds)
        return ProcessPoolExecutor(self._many, multiprocessing.get_context("spawn"), _begin, begin)


def _begin(plan: Plan, milliseconds: float) -> None:
    global _milliseconds
    _milliseconds = milliseconds
    vars(pool).update(work=wait_instead)
    pool._begin(plan)


def run(designs: int, network: str, workers: int, prune: bool, hired: type[pool.Pool] | None = None) -> None:
    """Run a sweep and print its speed."""
    if hired is not None:
        vars(running).update(Pool=hired, Alone=lambda plan: hired(plan, 1))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "benchmark.yaml"
        file.write_text(SWEEP.format(designs=designs, network=network, prune=str(prune).lower()))
        sweep = load_sweep(file)
        explored = explore(sweep, Path(folder) / "out", workers=workers)
    mapped = [row for row in explored.store.rows.values() if row["what"].startswith("map")]
    pruned = sum(record.status == "pruned" for record in explored.records)
    each = 1000 * explored.overhead_seconds / len(explored.records)
    mapping = math.fsum(row["seconds"] for row in mapped)
    many, spent = len(explored.records), explored.seconds
    said = (
        f"{workers} worker{'s' * (workers > 1)}: {many} designs x {network} in {spent:.2f} s",
        f"{60 * many / spent:.1f} designs a minute",
        f"{len(mapped)} searches ({mapping:.1f} s)",
        f"{pruned} pruned",
        f"{explored.done_now} pieces of work",
        f"{each:.2f} ms CPU a design beside the mapper",
    )
    print("; ".join(said))  # noqa: T201


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variants", type=int, default=20)
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--prune", action="store_true")
    parser.add_argument("--latency", type=float, help="milliseconds that a piece of work waits, instead of mapping")
    arguments = parser.parse_args()
    if arguments.latency is None:
        run(arguments.variants, arguments.network, arguments.workers, arguments.prune)
        return
    global _milliseconds
    _milliseconds = arguments.latency
    for workers in (1, 2, 4):
        run(arguments.variants, arguments.network, workers, False, Waiting)


if __name__ == "__main__":
    main()
