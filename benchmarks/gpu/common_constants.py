"""Fit the constants that all GPUs share, as `accelsim/gpu/constants.py` holds them, and show how well they carry over.

Needs the table that aiconfigurator_gemm.py writes. Prints the constants fitted to all families of GPUs, and for each
family the errors of its held-out rows when the constants are fitted to the other families only:

    python benchmarks/gpu/common_constants.py gemm_bf16.csv
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from accelsim.gpu.catalogue import find_gpu
from accelsim.gpu.gemm import time_gemms
from accelsim.gpu.measured import read_measured, split_rows
from accelsim.gpu.tiling import compute_class
from accelsim.gpu.validation import constants_of, family, fit_common


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    found = [(find_gpu(table.device), table) for table in read_measured(parser.parse_args().table)]
    tables = [(gpu, table) for gpu, table in found if gpu is not None]
    for name, value in fit_common(tables).items():
        sys.stdout.write(f"{name:<20} {value:.4g}\n")
    ratios = []
    for left_out in sorted({family(gpu) for gpu, _ in tables}):
        values = fit_common([(gpu, table) for gpu, table in tables if family(gpu) != left_out])
        for gpu, table in tables:
            if family(gpu) == left_out:
                held = table.rows(~split_rows(table.gemms).fit)
                constants = constants_of(values, compute_class(gpu, table.number_format))
                ratio = held.time_us / time_gemms(gpu, held.gemms, table.number_format, constants).time_us
                ratios.append(np.quantile(ratio, np.linspace(0, 1, 1001)))
                error = np.abs(1 / ratio - 1)
                sys.stdout.write(f"{gpu.name:<16} left out: {np.median(error):.1%} (mean {np.mean(error):.1%})\n")
    low, high = np.quantile(np.concatenate(ratios), (0.1, 0.9))
    sys.stdout.write(f"four fifths of measured / predicted, every GPU alike: {low:.2f} to {high:.2f}\n")


if __name__ == "__main__":
    main()
