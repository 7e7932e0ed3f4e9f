"""Print how far predicted board power is from measured, by number format and by what measured it.

    python benchmarks/gpu/power.py ../shared/data/gpu/gemm_power_b200.csv

The table has the columns device, dtype, M, N, K, time_us, power_w and framework. Rows of less than 100 us are left out:
NVML's readings average over longer than that, pauses between kernels too. `at measured time` takes the predicted energy
over the measured time, so that errors of time do not count. `at the limit` is the error of rows whose power is within
7 % of the limit or above, and how many these are. `neighbours` is how far readings are apart where rates agree: the
median difference of a row's power from that of the row whose operations and compulsory bytes a second are nearest, if
both are within 15 %. A model that depends on these rates alone is off by about half of that at least.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import find_gpu, format_of
from accelsim.gpu.constants import IDLE
from accelsim.gpu.gemm import Gemms
from accelsim.gpu.kernel import best_kernels

LEAST_US = 100.0
AT_LIMIT = 0.93
NEAR = 0.15


def difference_of_neighbours(rates: NDArray[np.float64], power_w: NDArray[np.float64]) -> float:
    """Median relative difference of power between rows whose rates [rows, kinds] are nearest, and near; or NaN."""
    apart = np.abs(np.log(rates[:, None] / rates[None])).max(axis=2)
    np.fill_diagonal(apart, np.inf)
    nearest = apart.argmin(axis=1)
    near = apart.min(axis=1) < NEAR
    found = np.abs(power_w[nearest] / power_w - 1)[near]
    return float(np.median(found)) if len(found) else float("nan")


def main() -> None:
    """Print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    groups: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    with parser.parse_args().table.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if float(row["time_us"]) > LEAST_US:
                groups.setdefault((row["device"], row["dtype"], row["framework"]), []).append(row)
    sys.stdout.write(
        "| dtype, framework | rows | measured, median | error | at measured time | at the limit | neighbours |\n"
        f"|---|{'---:|' * 6}\n"
    )
    for (device, dtype, framework), rows in sorted(groups.items()):
        gpu, number_format = find_gpu(device), format_of(dtype)
        if gpu is None or number_format is None:
            sys.stdout.write(f"| {dtype}, {framework} | {len(rows)} | no such GPU or format | | | | |\n")
            continue
        m, n, k, time_us, power_w = (
            np.array([float(row[name]) for row in rows]) for name in ("M", "N", "K", "time_us", "power_w")
        )
        kernels = best_kernels(gpu, [""] * len(rows), Gemms.of(m, n, k), number_format, mode_of(gpu, number_format))
        predicted = np.array([kernel.power_w for kernel in kernels])
        dynamic = np.array([kernel.energy_j - gpu.tdp_w * IDLE * kernel.time_us * 1e-6 for kernel in kernels])
        there = np.minimum(gpu.tdp_w, gpu.tdp_w * IDLE + dynamic / time_us * 1e6)
        errors = [np.abs(found / power_w - 1) for found in (predicted, there)]
        limited = power_w > AT_LIMIT * gpu.tdp_w
        at_limit = f"{np.median(errors[0][limited]):.1%} of {limited.sum()}" if limited.any() else "none"
        rates = np.stack([m * n * k / time_us, (m * k + k * n + m * n) / time_us], axis=1)
        cells = (
            f"{dtype}, {framework}",
            f"{len(rows)}",
            f"{np.median(power_w):.0f} W",
            *(f"{np.median(error):.1%}" for error in errors),
            at_limit,
            f"{difference_of_neighbours(rates, power_w):.1%}",
        )
        sys.stdout.write(f"| {' | '.join(cells)} |\n")


if __name__ == "__main__":
    main()
