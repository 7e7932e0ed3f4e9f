"""Print how far predicted board power is from measured, by number format and by what measured it.

    python benchmarks/gpu/power.py ../shared/data/gpu/gemm_power_b200.csv
    python benchmarks/gpu/power.py benchmarks/gpu/measured/h100_sxm_power.csv [--fit]

The table has the columns device, dtype, M, N, K, time_us, power_w and, where they are known, framework, and what and
data as `measure_power.py` writes them; of these, products of random numbers count. Rows of less than 100 us are left
out unless the energy was counted over many runs (`energy_mj`): readings of NVML average over longer than that, pauses
between kernels too. `at measured time` takes the predicted energy
over the measured time, so that errors of time do not count. `at the limit` is the error of rows whose power is within
7 % of the limit or above, and how many these are. `neighbours` is how far readings are apart where rates agree: the
median difference of a row's power from that of the row whose operations and compulsory bytes a second are nearest, if
both are within 15 %. A model that depends on these rates alone is off by about half of that at least.

`--fit` fits to rows with clocks what the board takes while its SMs run, the energy of a byte of L2 and of DRAM, of an
operation in FP32, and the power of the clock that energy on the chip follows; the energy of other operations is that of
the GPU's calibration. It needs SciPy.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accelsim.gpu.calibration import SHIPPED, mode_of
from accelsim.gpu.catalogue import find_gpu, format_of
from accelsim.gpu.constants import IDLE, board_power_w, common_constants, pj_per_flop
from accelsim.gpu.gemms import Gemms
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


def fit(rows: Sequence[Mapping[str, str]]) -> str:
    """Constants of power that fit rows with clocks best, and the errors of energy that remain."""
    from scipy.optimize import least_squares

    gpu = find_gpu(rows[0]["device"])
    if gpu is None:
        return "no such GPU"
    figures = []
    for row in rows:
        m, n, k, time_us = (float(row[name]) for name in ("M", "N", "K", "time_us"))
        pj, flops, moved, launch_us = 0.0, 0.0, 0.0, common_constants("async").launch_us
        if row["what"] == "gemm":
            number_format = format_of(row["dtype"]) or ""
            calibration = None if number_format == "fp32" else SHIPPED
            mode = mode_of(gpu, number_format, calibration)
            (kernel,) = best_kernels(gpu, [""], Gemms.of(m, n, k), number_format, mode)
            flops, moved, dram = kernel.flops, kernel.l2_bytes, kernel.dram_bytes
            pj = 0.0 if calibration is None else pj_per_flop(number_format, mode.constants)
            launch_us = kernel.parts_us["launch"]
        else:
            dram = moved = m * 2 * (2 if row["what"] == "copy" else 1)
        dram *= float(row["copies"]) > 1
        clock = float(row["clock_mhz"]) * 1e6 / gpu.boost_hz
        running = 1 - min(1.0, launch_us / time_us)
        figures.append((time_us, clock, flops * (pj == 0.0), flops * pj, moved, dram, running, float(row["energy_mj"])))
    time_us, clock, vector, known_pj, l2, dram, running, energy_mj = np.array(figures).T

    def log_ratio(values: NDArray[np.float64]) -> NDArray[np.float64]:
        active, l2_pj, dram_pj, vector_pj, power = values
        on_chip_pj = clock**power * (known_pj + vector * vector_pj + l2 * l2_pj)
        standing_mj = gpu.tdp_w * (IDLE + active * running) * time_us * 1e-3
        return np.asarray(np.log((standing_mj + (on_chip_pj + dram * dram_pj) * 1e-9) / energy_mj))

    start, most = [0.2, 20.0, 50.0, 8.0, 2.0], [1.0, 200.0, 200.0, 30.0, 4.0]
    found = least_squares(log_ratio, start, loss="soft_l1", f_scale=0.1, bounds=([0.0] * 5, most))
    errors = np.abs(np.expm1(found.fun))
    active, l2_pj, dram_pj, vector_pj, power = found.x
    return (
        f"{len(rows)} rows: SMs that run {active:.3f} of the limit, L2 {l2_pj:.1f} pJ/B, DRAM {dram_pj:.1f} pJ/B, FP32 "
        f"{vector_pj:.2f} pJ, energy on the chip by the clock to the power {power:.2f}; energy off by "
        f"{np.median(errors):.1%} (median), {errors.mean():.1%} (mean)\n"
    )


def main() -> None:
    """Print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--fit", action="store_true", help="fit the constants of power instead")
    arguments = parser.parse_args()
    groups: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    with arguments.table.open(encoding="utf-8") as file:
        every = [row for row in csv.DictReader(file) if row.get("data", "randn") == "randn"]
    if arguments.fit:
        sys.stdout.write(fit(every))
        return
    for row in every:
        if row.get("what", "gemm") == "gemm" and (row.get("energy_mj") or float(row["time_us"]) > LEAST_US):
            groups.setdefault((row["device"], row["dtype"], row.get("framework", "")), []).append(row)
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
        mode = mode_of(gpu, number_format)
        kernels = best_kernels(gpu, [""] * len(rows), Gemms.of(m, n, k), number_format, mode)
        predicted = np.array([kernel.power_w for kernel in kernels])
        there = np.array([
            board_power_w(
                gpu, number_format, mode.constants, one.flops / one.tile_efficiency, one.dram_bytes, time, one.l2_bytes
            )
            for one, time in zip(kernels, time_us.tolist(), strict=True)
        ])  # fmt: skip
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
