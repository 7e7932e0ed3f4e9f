"""Show how well the model knows the steps of measured times, where one more row of tiles or one more wave begins.

Of rows that differ by one in M, such as 256 and 257, it correlates the measured ratios of their times with the
predicted ones. They have to come from one software stack, such as the table that `aiconfigurator_gemm.py --stack`
writes:

    python benchmarks/gpu/steps.py gemm_sglang.csv [--calibration shipped]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from accelsim.gpu.calibration import LARGE_FLOP
from validation.gemm import GemmValidation, validate_gemm

LEAST_M = 64


def step_correlation(case: GemmValidation, least_flop: float = 0.0) -> tuple[int, float]:
    """Pairs of rows from so many operations on, and the correlation of their ratios; NaN below three pairs."""
    g, measured, predicted = case.measured.gemms, case.measured.time_us, case.predicted_us
    sizes = zip(g.m, g.n, g.k, g.batch, strict=True)
    index = {key: i for i, key in enumerate(sizes)}
    pairs = [(i, index.get((m + 1, n, k, b))) for (m, n, k, b), i in index.items() if m >= LEAST_M]
    both = np.array([(i, j) for i, j in pairs if j is not None], dtype=np.int64).reshape(-1, 2)
    both = both[g.flops[both[:, 0]] >= least_flop]
    if len(both) < 3:
        return len(both), float("nan")
    ours, theirs = (times[both[:, 1]] / times[both[:, 0]] for times in (predicted, measured))
    if np.std(ours) == 0 or np.std(theirs) == 0:
        return len(both), float("nan")
    return len(both), float(np.corrcoef(ours, theirs)[0, 1])


def main() -> None:
    """Print the correlations of each GPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--calibration")
    arguments = parser.parse_args()
    found, _ = validate_gemm(arguments.tables, calibration=arguments.calibration)
    for case in found:
        (pairs, every), (large, late) = step_correlation(case), step_correlation(case, LARGE_FLOP)
        name = f"{case.gpu.name}, {case.measured.number_format}"
        sys.stdout.write(f"{name}: {every:.2f} of {pairs} pairs; {late:.2f} of {large} from {LARGE_FLOP:g} FLOP on\n")


if __name__ == "__main__":
    main()
