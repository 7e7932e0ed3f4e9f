"""Time the cost model on one core: mappings evaluated, drawn and enumerated per second, and the start of a command.

Run `make bench`, or `python benchmarks/kernel.py --json` for the figures alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from accelsim.inputs.architecture import load_architecture  # noqa: E402
from accelsim.inputs.workload_reader import load_workload  # noqa: E402
from accelsim.mapspace.kernel import draw_many  # noqa: E402
from accelsim.mapspace.space import MapSpace  # noqa: E402
from accelsim.model.detail import make_detail  # noqa: E402
from accelsim.model.encode import Batch, Bools, Encoded, Ints, empty_batch, encode  # noqa: E402
from accelsim.model.kernel import VALID, evaluate_many  # noqa: E402
from accelsim.search.mapper import map_einsum  # noqa: E402
from accelsim.search.result import Sample  # noqa: E402
from accelsim.search.stopping import Budget  # noqa: E402

MACHINES = ("systolic", "nvdla", "eyeriss")
REPETITIONS = 7
BATCH = 20_000
DRAWS = 200_000
KEY = np.uint64(1)
TARGET = "at least 2 M/s, aim 10 M/s"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table; `value` is in `unit`, None where it could not be measured, and `note` says why."""

    what: str
    where: str
    value: float | None
    unit: str
    target: str = ""
    note: str = ""


def best_seconds(work: Callable[[], object]) -> float:
    """Shortest of several repetitions [s]; the first call, which compiles or reads machine code, does not count."""
    work()
    taken = []
    for _ in range(REPETITIONS):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return min(taken)


def valid_draws(encoded: Encoded, space: MapSpace) -> Batch:
    """Draw valid mappings, uniformly from all valid ones of the space."""
    detail, many = make_detail(encoded), empty_batch(encoded, BATCH)
    status, energy, cycles = np.empty(BATCH, np.int64), np.empty(BATCH), np.empty(BATCH, np.int64)
    found: list[list[Ints | Bools]] = []
    first, held = 0, 0
    while held < BATCH:
        draw_many(space.arrays, KEY, first, many)
        evaluate_many(encoded.constants, many, detail, False, status, energy, cycles)
        good = np.flatnonzero(status == VALID)
        found.append([array[good] for array in many])
        held += len(good)
        first += BATCH
        if first > 500 * BATCH:
            raise RuntimeError(f"{held} of {first} draws are valid: too few to time")
    together = empty_batch(encoded, BATCH)
    for array, parts in zip(together, zip(*found, strict=True), strict=True):
        array[:] = np.concatenate(parts)[:BATCH]
    return together


def machine(name: str, **dims: int) -> tuple[Encoded, MapSpace]:
    """Return a shipped machine with the convolution of conv.yaml, of other bounds where given."""
    layer = load_workload(REPOSITORY / "workloads" / "conv.yaml").layers[0]
    architecture = load_architecture(REPOSITORY / "arch" / f"{name}.yaml")
    encoded = encode(architecture, replace(layer, dims={**layer.dims, **dims}))
    return encoded, MapSpace(encoded)


def evaluation(name: str) -> Figure:
    """Valid mappings evaluated per second."""
    encoded, space = machine(name)
    batch, detail = valid_draws(encoded, space), make_detail(encoded)
    status, energy, cycles = np.empty(BATCH, np.int64), np.empty(BATCH), np.empty(BATCH, np.int64)
    seconds = best_seconds(lambda: evaluate_many(encoded.constants, batch, detail, False, status, energy, cycles))
    if (status != VALID).any():
        raise RuntimeError("the batch holds an invalid mapping")
    shape = f"{len(encoded.architecture.levels)} levels, {len(encoded.dims)} of {len(encoded.einsum.dims)} dims > 1"
    return Figure("evaluate valid mappings", f"{name}, conv ({shape})", BATCH / seconds / 1e6, "M/s", TARGET)


def drawing(name: str) -> Figure:
    """Mappings drawn uniformly per second."""
    encoded, space = machine(name)
    many, arrays = empty_batch(encoded, BATCH), space.arrays
    seconds = best_seconds(lambda: draw_many(arrays, KEY, 0, many))
    return Figure("draw mappings", f"{name}, conv", BATCH / seconds / 1e6, "M/s")


def searched(figure: Figure, encoded: Encoded, method: str, budget: Budget | None) -> Figure:
    """Mappings that a search by one worker sees per second, valid or not, with everything that it books."""

    def search() -> tuple[float, Sample]:
        machine, layer = encoded.architecture, encoded.einsum
        found = map_einsum(machine, layer, method=method, budget=budget, workers=1, uneven=False)
        assert found.sample is not None
        return found.seconds / found.sample.seen, found.sample

    search()
    seconds, sample = min((search() for _ in range(REPETITIONS)), key=lambda pair: pair[0])
    note = f"{sample.seen / 1e6:.3g} M seen, {sample.valid / sample.seen:.1%} valid"
    return replace(figure, value=1e-6 / seconds, note=note)


def random_search(name: str) -> Figure:
    """Mappings drawn and evaluated per second."""
    figure = Figure("random search", f"{name}, conv", None, "M/s", TARGET)
    return searched(figure, machine(name)[0], "random", Budget(mappings=DRAWS))


def exhaustive_search(name: str, **dims: int) -> Figure:
    """Mappings enumerated and evaluated per second."""
    encoded, _ = machine(name, **dims)
    bounds = " ".join(f"{dim}={bound}" for dim, bound in encoded.einsum.dims.items() if bound > 1)
    return searched(Figure("exhaustive search", f"{name}, {bounds}", None, "M/s", TARGET), encoded, "exhaustive", None)


def start_up(target: str, *arguments: str) -> Figure:
    """Median time of a command in a process of its own [s]."""
    what, where = "start-up", " ".join(["accelsim", *arguments])
    if not (REPOSITORY / "accelsim" / "cli" / "main.py").is_file():
        return Figure(what, where, None, "s", target, "no command line")
    command = [sys.executable, "-m", "accelsim", *arguments]
    taken = []
    for _ in range(5):
        started = time.perf_counter()
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        taken.append(time.perf_counter() - started)
        if done.returncode:
            return Figure(what, where, None, "s", target, f"exit code {done.returncode}")
    return Figure(what, where, statistics.median(taken), "s", target)


def cpu_model() -> str:
    """Name of the processor, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def table(figures: list[Figure]) -> str:
    """Figures as aligned columns."""
    rows = [("what", "where", "figure", "target", "")]
    for figure in figures:
        value = "-" if figure.value is None else f"{figure.value:.2f} {figure.unit}"
        rows.append((figure.what, figure.where, value, figure.target, figure.note))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if at == 2 else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def measure() -> list[Figure]:
    """All figures, in the order of the table."""
    figures = [evaluation(name) for name in MACHINES]
    figures += [random_search(name) for name in MACHINES]
    figures.append(exhaustive_search("nvdla", K=8, C=8, P=4, Q=1, R=3, S=1))
    figures += [drawing(name) for name in MACHINES]
    figures += [
        start_up("below 0.3 s", "--help"),
        start_up("below 0.5 s", "check", "arch/systolic.yaml"),
        start_up("below 2 s, machine code on disk", "map", "systolic", "conv", "--seconds", "1", "--quiet"),
    ]
    return figures


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(description="Time the cost model on one core.")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    as_json = parser.parse_args().json
    cores, model = os.cpu_count() or 1, cpu_model()
    figures = measure()
    if as_json:
        fields = ("what", "where", "value", "unit", "target", "note")
        rows = [{name: getattr(figure, name) for name in fields} for figure in figures]
        text = json.dumps(
            {"cpu": model, "cores": cores, "python": platform.python_version(), "figures": rows}, indent=2
        )
    else:
        text = f"{model}, one of {cores} cores, Python {platform.python_version()}\n\n{table(figures)}"
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
