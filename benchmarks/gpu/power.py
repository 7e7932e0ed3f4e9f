"""Print how far predicted board power is from measured, by number format and by what measured it.

    python benchmarks/gpu/power.py ../shared/data/gpu/gemm_power_b200.csv

The table has the columns device, dtype, M, N, K, time_us, power_w and framework. Rows of less than 100 us are left out:
NVML's readings average over longer than that, pauses between kernels too. `at measured time` takes the predicted energy
over the measured time, so that errors of time do not count.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

import numpy as np

from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import find_gpu
from accelsim.gpu.gemm import IDLE, Gemms
from accelsim.gpu.kernel import best_kernels
from accelsim.gpu.measured import format_of

LEAST_US = 100.0


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
        "| dtype, framework | rows | measured, median | error | at measured time |\n|---|---:|---:|---:|---:|\n"
    )
    for (device, dtype, framework), rows in sorted(groups.items()):
        gpu, number_format = find_gpu(device), format_of(dtype)
        if gpu is None or number_format is None:
            sys.stdout.write(f"| {dtype}, {framework} | {len(rows)} | no such GPU or format | | |\n")
            continue
        m, n, k, time_us, power_w = (
            np.array([float(row[name]) for row in rows]) for name in ("M", "N", "K", "time_us", "power_w")
        )
        kernels = best_kernels(gpu, [""] * len(rows), Gemms.of(m, n, k), number_format, mode_of(gpu, number_format))
        predicted = np.array([kernel.power_w for kernel in kernels])
        dynamic = np.array([kernel.energy_j - gpu.tdp_w * IDLE * kernel.time_us * 1e-6 for kernel in kernels])
        there = np.minimum(gpu.tdp_w, gpu.tdp_w * IDLE + dynamic / time_us * 1e6)
        errors = [float(np.median(np.abs(found / power_w - 1))) for found in (predicted, there)]
        sys.stdout.write(
            f"| {dtype}, {framework} | {len(rows)} | {np.median(power_w):.0f} W | {errors[0]:.1%} | {errors[1]:.1%} |\n"
        )


if __name__ == "__main__":
    main()
