"""Predicted time of matrix products on this machine's CPU beside what numpy takes: `python benchmarks/cpu.py`.

The machine is arch/cpu_server.yaml with one chiplet of as many cores as there are here, at the clock that a chain of
dependent shifts measures. The best mapping for cycles is timed at that clock; numpy calls the BLAS that it comes with.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import numpy as np

from accelsim import load_architecture, load_workload
from accelsim.model.jit import jit
from accelsim.search.mapper import map_einsum
from accelsim.search.stopping import Budget

SIZES = ((256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 64), (64, 4096, 4096))
_BANDWIDTH = "36 GB/s"
"""Share of a chiplet in the DRAM bandwidth of arch/cpu_server.yaml: 576 GB/s / 16."""
_STEP_CYCLES = 6
"""Cycles of a step of xorshift: three shifts and three exclusive ors, each after the one before."""


@jit
def _chain(steps: int) -> np.uint64:
    x = np.uint64(88172645463325252)
    for _ in range(steps):
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
    return x


def clock_hz(steps: int = 30_000_000) -> float:
    """Clock that a core runs at [Hz]."""
    _chain(1)
    times = []
    for _ in range(5):
        started = time.perf_counter()
        _chain(steps)
        times.append(time.perf_counter() - started)
    return steps * _STEP_CYCLES / min(times)


def numpy_seconds(m: int, n: int, k: int) -> float:
    """Least time of a product of single-precision matrices [s]."""
    rng = np.random.default_rng(0)
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    out = np.empty((m, n), np.float32)
    np.matmul(a, b, out=out)
    times = []
    for _ in range(max(5, min(50, int(2e10 / (2 * m * n * k))))):
        started = time.perf_counter()
        np.matmul(a, b, out=out)
        times.append(time.perf_counter() - started)
    return min(times)


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Print a row for each product."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "--machine", default="cpu_server", help="an architecture with the parameters of arch/cpu_server.yaml"
    )
    parser.add_argument("--lanes", default="16", help="of a pipe: 16 for AVX-512, 8 where the BLAS uses AVX2")
    parser.add_argument("--seconds", type=float, default=10.0, help="for the search of each product")
    arguments = parser.parse_args()
    cores, hertz = len(os.sched_getaffinity(0)), clock_hz()
    overrides = {"chiplets": "1", "cores": str(cores), "clock": f"{hertz / 1e9:.3f} GHz", "bandwidth": _BANDWIDTH}
    overrides["lanes"] = arguments.lanes
    machine = load_architecture(arguments.machine, overrides)
    say(f"{machine.name}: {cores} cores at {hertz / 1e9:.2f} GHz, peak {2 * machine.macs * hertz / 1e9:,.0f} GFLOP/s")
    say(f"{'M x N x K':>18} {'predicted':>10} {'numpy':>10} {'predicted / numpy':>18}  bound by")
    bits = {"Inputs": 32, "Weights": 32, "Outputs": 32, "psums": 32}
    for m, n, k in SIZES:
        gemm = {"workload": {"name": "gemm", "gemm": {"M": m, "N": n, "K": k}, "bits": bits}}
        layer = load_workload(gemm).layers[0]
        best = map_einsum(
            machine, layer, objective="cycles", budget=Budget(seconds=arguments.seconds), uneven=False
        ).best
        predicted, measured = best.cycles / hertz, numpy_seconds(m, n, k)
        ratio = predicted / measured
        say(f"{m:>6} x{n:>5} x{k:>5} {predicted * 1e3:8.3f}ms {measured * 1e3:8.3f}ms {ratio:18.2f}  {best.bottleneck}")


if __name__ == "__main__":
    main()
