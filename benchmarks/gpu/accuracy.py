"""Print the table of errors of validation/reports/gpu.md, and draw predicted over measured times of each GPU.

Needs tables of measured products, such as the one that aiconfigurator_gemm.py writes:

    python benchmarks/gpu/accuracy.py gemm_bf16.csv --plots plots
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from accelsim.gpu.catalogue import BYTES, find_gpu
from accelsim.gpu.measured import MeasuredGemms
from validation.gemm import GemmValidation, validate_gemm
from validation.plot_measured import plot_measured

HEAD = "| GPU | rows | roofline | uncalibrated | calibrated: interpolation | extrapolation "
HEAD += "| from 1e11 FLOP | in interval |"
MOST_DOTS = 3000


def roofline_error(case: GemmValidation) -> float:
    """Median error of the larger of peak and bandwidth of the data sheet."""
    g, table, gpu = case.measured.gemms, case.measured, case.gpu
    moved = (g.m * g.k + g.k * g.n + g.m * g.n) * g.batch * BYTES[table.number_format]
    least = np.maximum(g.flops / gpu.flops(table.number_format), moved / gpu.dram_bytes_per_s) * 1e6
    return float(np.median(np.abs(least / table.time_us - 1)))


def percent(value: float) -> str:
    """Share in percent."""
    return "" if math.isnan(value) else f"{100 * value:.1f} %"


def draw(cases: list[GemmValidation], path: Path) -> None:
    """Draw predicted over measured times, a GPU in each of the axes."""
    across = min(3, len(cases))
    down = -(-len(cases) // across)
    figure = Figure(figsize=(3.3 * across, 3.1 * down), dpi=80, layout="constrained")
    for i, case in enumerate(cases):
        table: MeasuredGemms = case.measured
        every = -(-len(table) // MOST_DOTS)
        title = f"{case.gpu.name}, {table.number_format}"
        pair = {"": (table.time_us[::every], case.predicted_us[::every])}
        plot_measured(title, pair, "us", figure.add_subplot(down, across, i + 1))
    figure.savefig(path, metadata={"Software": None})


def main() -> None:
    """Print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--plots", type=Path, help="folder for gpu_uncalibrated.png and gpu_calibrated.png")
    arguments = parser.parse_args()
    if arguments.plots:
        arguments.plots.mkdir(parents=True, exist_ok=True)
    plain = [case for case in validate_gemm(arguments.tables)[0] if find_gpu(case.measured.device)]
    fitted = validate_gemm(arguments.tables, calibration="shipped")[0]
    sys.stdout.write(f"{HEAD}\n|---|{'---:|' * 7}\n")
    for before, after in zip(plain, fitted, strict=True):
        inner, outer, total = (after.errors[name] for name in ("interpolation", "extrapolation", "all"))
        cells = (
            f"{before.gpu.name}, {before.measured.number_format}",
            f"{len(before.measured):,}",
            percent(roofline_error(before)),
            f"{percent(before.errors['all'].median)} ({percent(before.errors['all'].mean)})",
            f"{percent(inner.median)} ({percent(inner.mean)})",
            f"{percent(outer.median)} ({percent(outer.mean)})",
            percent(total.large_median),
            f"{after.inside:.0%}",
        )
        sys.stdout.write(f"| {' | '.join(cells)} |\n")
    if arguments.plots:
        draw(plain, arguments.plots / "gpu_uncalibrated.png")
        draw(fitted, arguments.plots / "gpu_calibrated.png")


if __name__ == "__main__":
    main()
