"""Print how far a table predicts itself: each batched product by the others of the same M, N, K and kernel.

    python benchmarks/gpu/same_shape.py gemm_fp32.csv

The table has the columns device, M, N, K, batch, time_us and kernel, such as NeuSight's. `others` takes the median rate
of all other batches of the same shape in the same kernel, `nearest` that of the batch that is nearest. Products of less
than 1 ms are left out, as are shapes of fewer than four batches: the GPU is full, its rate hardly depends on the batch,
and most of these errors are how far times are apart that no size explains. `calibrated` is the error of the shipped
calibration in the same rows.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

import numpy as np

from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import find_gpu, number_format
from accelsim.gpu.gemms import Gemms, time_gemms

LEAST_BATCHES = 4
LEAST_US = 1000.0


def main() -> None:
    """Print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    shapes: dict[tuple[str, ...], list[dict[str, str]]] = {}
    with parser.parse_args().table.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = tuple(row[name] for name in ("device", "dtype", "M", "N", "K", "kernel"))
            shapes.setdefault(key, []).append(row)
    errors: dict[str, list[tuple[float, float, float]]] = {}
    for (device, dtype, *_), rows in shapes.items():
        gpu = find_gpu(device)
        batched = [row for row in rows if int(row["batch"]) > 1 and float(row["time_us"]) >= LEAST_US]
        if gpu is None or len(batched) < LEAST_BATCHES:
            continue
        m, n, k, batch, time_us = (
            np.array([float(row[name]) for row in batched]) for name in ("M", "N", "K", "batch", "time_us")
        )
        gemms, rate = Gemms.of(m, n, k, batch), batch / time_us
        constants = mode_of(gpu, number_format(dtype), "shipped").constants
        predicted = time_gemms(gpu, gemms, number_format(dtype), constants).time_us
        for i in range(len(batched)):
            others = np.delete(np.arange(len(batched)), i)
            nearest = others[np.argmin(np.abs(np.log(batch[others] / batch[i])))]
            guesses = (batch[i] / np.median(rate[others]), batch[i] / rate[nearest], predicted[i])
            a, b, c = (abs(guess / time_us[i] - 1) for guess in guesses)
            errors.setdefault(gpu.name, []).append((a, b, c))
    sys.stdout.write(f"| GPU | rows | others | nearest | calibrated |\n|---|{'---:|' * 4}\n")
    for name, found in sorted(errors.items()):
        cells = (f"{np.median(column):.1%} ({np.mean(column):.1%})" for column in np.array(found).T)
        sys.stdout.write(f"| {name} | {len(found)} | {' | '.join(cells)} |\n")


if __name__ == "__main__":
    main()
