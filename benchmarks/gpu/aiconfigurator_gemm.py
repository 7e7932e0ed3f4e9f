"""Write measured GEMM times out of the Python package aiconfigurator-core (Apache-2.0) as CSV, one row a shape.

The package holds what collectors measured with TensorRT-LLM, vLLM and SGLang; a row here has the least, the median and
the largest time over those stacks, in us. Needs pandas and pyarrow, in an environment of its own:

    python3 -m venv /tmp/aic && /tmp/aic/bin/pip install pandas pyarrow
    /tmp/aic/bin/pip download --no-deps -d /tmp/aic aiconfigurator-core && unzip -q -d /tmp/aic /tmp/aic/*.whl
    /tmp/aic/bin/python benchmarks/gpu/aiconfigurator_gemm.py /tmp/aic -o gemm_bf16.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

FORMATS = {"bfloat16": "bf16", "fp8": "fp8", "nvfp4": "fp4"}


def read(package: Path, gemm_dtype: str, systems: list[str] | None) -> pd.DataFrame:
    """All rows of a number format, times in us.

    Parameters
    ----------
    package : Path
        Folder that holds `aiconfigurator_core`.
    gemm_dtype : str
        As the package has it, such as `bfloat16`.
    systems : list of str, optional
        Such as `h100_sxm`; by default all of NVIDIA's.
    """
    tables = []
    for path in sorted(package.glob("**/systems/data/*/gemm/*/*/gemm_perf.parquet")):
        system, stack = path.parts[-5], path.parts[-3]
        table = pd.read_parquet(path)
        nvidia = table["device"].str.startswith("NVIDIA").all()
        if nvidia and (not systems or system in systems):
            tables.append(table[table["gemm_dtype"] == gemm_dtype].assign(stack=stack))
    rows = pd.concat(tables)
    return rows.assign(time_us=rows["latency"] * 1000)


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="folder that holds aiconfigurator_core")
    parser.add_argument("-o", "--output", required=True, type=Path)
    parser.add_argument("--format", default="bfloat16", choices=FORMATS)
    parser.add_argument("--systems", nargs="*")
    arguments = parser.parse_args()
    rows = read(arguments.package, arguments.format, arguments.systems)
    grouped = rows.groupby(["device", "m", "n", "k"])
    found = grouped["time_us"].agg(time_us_min="min", time_us_median="median", time_us_max="max").round(4)
    found["n_stacks"] = grouped["stack"].nunique()
    found = found.reset_index().rename(columns={"m": "M", "n": "N", "k": "K"})
    found.insert(4, "dtype", FORMATS[arguments.format])
    found.to_csv(arguments.output, index=False)


if __name__ == "__main__":
    main()
