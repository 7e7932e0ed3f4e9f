"""Write NeuSight's measured FP32 products (MIT) with the columns that accelsim reads.

Their table calls the dimension that is summed up N and the width of the result K: where the kernel's tile and grid tell
the two apart, every grid covers M x K. This script shows that, and writes N and K the other way round:

    python benchmarks/gpu/neusight_gemm.py ../shared/data/gpu/gemm_fp32_measured.csv -o gemm_fp32.csv
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from accelsim.gpu.measured import covers


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("-o", "--output", required=True, type=Path)
    arguments = parser.parse_args()
    with arguments.table.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    told = [row for row in rows if row["tile0"] and covers(row, "N") != covers(row, "K")]
    sys.stdout.write(
        f"{len(told)} grids tell N from K: {sum(covers(row, 'K') for row in told)} have a result of M x K, "
        f"{sum(covers(row, 'N') for row in told)} of M x N\n"
    )
    with arguments.output.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, "N": row["K"], "K": row["N"]} for row in rows)


if __name__ == "__main__":
    main()
