"""How good are answers after 1, 5 and 20 seconds? Against 100,000 random draws and against long walks.

`python benchmarks/incumbents.py` takes hours; `--machines 10 --seconds 1 5 --reference 10` takes minutes. Machines are
those that ship with 8-bit words and 32-bit partial sums, and random ladders of three to eight levels (`ladders.py`).
A row is one problem: the best value known, and each answer relative to it, with the seconds that it took.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ladders import ladder

from accelsim import load_architecture, load_workload
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload import Einsum
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.search.descent import Descent
from accelsim.search.mapper import map_einsum
from accelsim.search.stopping import Budget
from accelsim.search.value_kernel import terms_of

SHIPPED = ("eyeriss", "gpu_sm", "nvdla", "simba", "systolic", "two_level")
BITS = "bits: {Weights: 8, Inputs: 8, Outputs: 8, psums: 32}"
LAYERS = f"""
workload:
  name: int8
  layers:
    - {{name: pointwise, {BITS}, conv: {{N: 1, K: 128, C: 256, P: 14, Q: 14, R: 1, S: 1}}}}
    - {{name: conv, {BITS}, conv: {{N: 1, K: 64, C: 64, P: 56, Q: 56, R: 3, S: 3, padding: 1}}}}
    - {{name: strided, {BITS}, conv: {{N: 1, K: 128, C: 64, P: 28, Q: 28, R: 3, S: 3, stride: 2}}}}
    - {{name: gemm, {BITS}, gemm: {{M: 512, N: 768, K: 768}}}}
    - {{name: batched, {BITS}, gemm: {{B: 8, H: 12, M: 512, N: 512, K: 64}}}}
"""
MOST_STATES = 10_000_000
"""Draws keep weights for so many states at most."""


def problems(machines: int, folder: Path) -> Iterator[tuple[str, Architecture, Einsum]]:
    """Machines that ship and ladders, each with a layer; a name for each."""
    (folder / "int8.yaml").write_text(LAYERS)
    layers = load_workload(folder / "int8.yaml").layers
    for number, name in enumerate(SHIPPED):
        yield name, load_architecture(name), layers[number % len(layers)]
    for seed in range(machines):
        (folder / f"ladder{seed}.yaml").write_text(ladder(seed))
        yield f"ladder{seed}", load_architecture(folder / f"ladder{seed}.yaml"), layers[seed % len(layers)]


def drawn(machine: Architecture, einsum: Einsum, objective: str) -> float | None:
    """Best of 100,000 draws; None if none is valid, or if there are too many states to draw from."""
    bounds = [bound for bound in einsum.dims.values() if bound > 1]
    if (len(bounds) + 1) ** (len(machine.levels) + 1) > MOST_STATES:
        return None
    try:
        budget = Budget(mappings=100_000)
        best = map_einsum(machine, einsum, objective=objective, method="random", budget=budget).best
    except NoValidMappingError:
        return None
    return Objective.parse(objective).of(best)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=50)
    parser.add_argument("--seconds", type=float, nargs="+", default=[1.0, 5.0, 20.0])
    parser.add_argument("--reference", type=float, default=60.0, help="seconds of walks")
    parser.add_argument("--objective", nargs="+", default=["energy", "cycles", "edp"])
    arguments = parser.parse_args()
    show = partial(print, flush=True)
    head = (f"{seconds:>6g} s     " for seconds in arguments.seconds)
    show(f"{'machine':12s} {'layer':10s} {'objective':9s} {'best':>10s} {'draws':>9s}", *head)
    with tempfile.TemporaryDirectory() as folder:
        for name, machine, einsum in problems(arguments.machines, Path(folder)):
            space = MapSpace(encode(machine, einsum))
            for objective in arguments.objective:
                goal = Objective.parse(objective)
                descent = Descent(space, terms_of(goal), seed=1, workers=2)
                walked = descent.go_on(time.monotonic() + arguments.reference)
                best = walked.value if walked else float("inf")
                answers = []
                for seconds in arguments.seconds:
                    begun = time.monotonic()
                    try:
                        found = map_einsum(
                            machine, einsum, objective=objective, budget=Budget(seconds=seconds), uneven=False
                        )
                        value = goal.of(found.best)
                        proved = "*" if found.certificate and found.certificate.proved else ""
                    except AccelsimError as error:
                        value, proved = float("inf"), str(error).splitlines()[0][:40]
                    answers.append((value, time.monotonic() - begun, proved))
                known = min(best, *(value for value, _, _ in answers))
                draws = drawn(machine, einsum, objective)
                shown = f"{draws / known:9.3f}" if draws else f"{'':9s}"
                row = (f"{value / known:6.3f}{proved or ' '} {took:5.1f}s" for value, took, proved in answers)
                show(f"{name:12s} {einsum.name:10s} {objective:9s} {known:10.4g} {shown}", *row)


if __name__ == "__main__":
    main()
