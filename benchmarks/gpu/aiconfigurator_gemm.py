"""Write measured GEMM times out of the Python package aiconfigurator-core (Apache-2.0) as CSV, one row a shape.

The package holds what collectors measured with TensorRT-LLM, vLLM and SGLang; a row here has the least, the median and
the largest time over those stacks, in us. Needs pandas and pyarrow, in an environment of its own:

    python3 -m venv /tmp/aic && /tmp/aic/bin/pip install pandas pyarrow
    /tmp/aic/bin/pip download --no-deps -d /tmp/aic aiconfigurator-core && unzip -q -d /tmp/aic /tmp/aic/*.whl
    /tmp/aic/bin/python benchmarks/gpu/aiconfigurator_gemm.py /tmp/aic -o gemm_bf16.csv

With `--batched` it writes the batches of products of multi-head latent attention: one product for each head, whose
operands the measurement uses again and again, a graph of one kernel (`collector/sglang/collect_mla_bmm.py`).

With `--stack sglang`, rows are of that one alone. With `--steps`, it also prints how far the stacks agree on steps: the
correlation, over pairs of rows that differ by one in M (from 64 on), of one stack's ratios of times with another's. And
for each stack, the largest correlation that a model may reach which knows every step: ratios at the sizes of `QUIET`,
where no tile of 64 rows or more ends, vary by noise and by the library's choices alone, and the same variance (of each
power of ten of operations) is taken to be in the ratios at all sizes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

QUIET = (80, 112, 160, 224)
BATCHED = {"mla_gen_pre": (512, 128), "mla_gen_post": (128, 512)}
"""N and K of the products of each operator."""
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
    rows = _read(package, "gemm", systems)
    return rows[rows["gemm_dtype"] == gemm_dtype]


def read_batched(package: Path, dtype: str, systems: list[str] | None) -> pd.DataFrame:
    """All batches of products of a number format; parameters as of `read`."""
    rows = _read(package, "mla_bmm", systems)
    rows = rows[rows["bmm_dtype"] == dtype]
    n, k = (rows["op_name"].map({name: sizes[i] for name, sizes in BATCHED.items()}) for i in (0, 1))
    return rows.assign(m=rows["num_tokens"], n=n, k=k, batch=rows["num_heads"])


def _read(package: Path, what: str, systems: list[str] | None) -> pd.DataFrame:
    tables = []
    for path in sorted(package.glob(f"**/systems/data/*/{what}/*/*/{what}_perf.parquet")):
        system, stack = path.parts[-5], path.parts[-3]
        table = pd.read_parquet(path)
        if table["device"].str.startswith("NVIDIA").all() and (not systems or system in systems):
            tables.append(table.assign(stack=stack))
    rows = pd.concat(tables)
    return rows.assign(time_us=rows["latency"] * 1000)


def largest_correlation(ratios: pd.Series) -> float:
    """Correlation with ratios, by m, n and k, of a model that knows all but what varies at the sizes of `QUIET`."""
    sizes = ratios.index.to_frame(index=False)
    decade = np.log10(2.0 * sizes["m"] * sizes["n"] * sizes["k"]).astype(int).clip(7, 11).to_numpy()
    quiet = sizes["m"].isin(QUIET).to_numpy()
    values = ratios.to_numpy()
    noise = sum(values[quiet & (decade == each)].var() * (decade == each).sum() for each in np.unique(decade))
    return float(np.sqrt(max(0.0, 1 - noise / (values.var() * len(values)))))


def print_steps(rows: pd.DataFrame) -> None:
    """Print how the ratios of times at M + 1 and M correlate between two stacks, for each device."""
    shape = ["m", "n", "k"]
    for device, of_device in rows.groupby("device"):
        ratios, reach = {}, {}
        for stack, of_stack in of_device.groupby("stack"):
            times = of_stack.groupby(shape)["time_us"].median().reset_index()
            below = times.assign(m=times["m"] - 1)
            pairs = times[times["m"] >= 64].merge(below, on=shape, suffixes=("", "_next")).set_index(shape)
            if len(pairs):
                ratios[stack] = pairs["time_us_next"] / pairs["time_us"]
                reach[stack] = largest_correlation(ratios[stack])
        for stack, value in reach.items():
            sys.stdout.write(f"{device}: {stack}: {len(ratios[stack])} pairs, at most {value:.2f}\n")
        table = pd.DataFrame(ratios)
        found = table.corr()
        for i, one in enumerate(found):
            for other in list(found)[i + 1 :]:
                count = len(table[[one, other]].dropna())
                sys.stdout.write(f"{device}: {count} pairs, {one} and {other}: {found.loc[one, other]:.2f}\n")


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="folder that holds aiconfigurator_core")
    parser.add_argument("-o", "--output", required=True, type=Path)
    parser.add_argument("--format", default="bfloat16", choices=FORMATS)
    parser.add_argument("--systems", nargs="*")
    parser.add_argument("--stack", choices=("trtllm", "vllm", "sglang"), help="rows of this stack alone")
    parser.add_argument("--batched", action="store_true", help="batches of products instead")
    parser.add_argument("--steps", action="store_true", help="print how far the stacks agree on steps")
    arguments = parser.parse_args()
    if arguments.batched and arguments.steps:
        parser.error("--steps: not with --batched")
    shape = ["m", "n", "k"]
    if arguments.batched:
        rows = read_batched(arguments.package, arguments.format, arguments.systems)
        shape.append("batch")
    else:
        rows = read(arguments.package, arguments.format, arguments.systems)
    if arguments.steps:
        print_steps(rows)
    if arguments.stack:
        rows = rows[rows["stack"] == arguments.stack]
    grouped = rows.groupby(["device", *shape])
    found = grouped["time_us"].agg(time_us_min="min", time_us_median="median", time_us_max="max").round(4)
    found["n_stacks"] = grouped["stack"].nunique()
    found = found.reset_index().rename(columns={"m": "M", "n": "N", "k": "K"})
    found.insert(4, "dtype", FORMATS[arguments.format])
    if arguments.batched:
        found["l2"] = "warm"
    found.to_csv(arguments.output, index=False)


if __name__ == "__main__":
    main()
