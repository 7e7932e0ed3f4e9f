"""Fit the constants that all GPUs share (`accelsim/gpu/product_constants.yaml`), and show how well they carry over.

Needs the table that aiconfigurator_gemm.py writes. Prints the constants fitted to all families of GPUs, and for each
family the errors of its held-out rows when the constants are fitted to the other families only:

    python benchmarks/gpu/common_constants.py gemm_bf16.csv
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from accelsim.gpu.calibration import fit_positive
from accelsim.gpu.catalogue import Gpu, find_gpu
from accelsim.gpu.constants import Floats, KernelConstants, bounds, common_constants, compute_class
from accelsim.gpu.gemms import Setup, time_gemms
from accelsim.gpu.measured import MeasuredGemms, read_measured, split_rows

Table = tuple[Gpu, MeasuredGemms]
PRIORS = {
    "launch_us": 1.5, "latency_us": 0.7, "tensor_efficiency": 0.9, "dram_efficiency": 0.88,
    "reduction_us": 2.7, "reduction_traffic": 1.0, "in_flight_bytes": 1e5, "overlap": 0.12, "round_us": 0.2,
    "l2_share": 0.7, "weight_copies": 6.0, "residency": 0.6, "residency_sharpness": 2.5, "throttle_us": 1000.0,
    "store_efficiency": 0.6, "gemv_us": 0.8, "gemv_slice_us": 0.3,
    "async smem_cost": 0.7, "mma smem_cost": 1.25, "async l2_loads": 0.5, "mma l2_loads": 1.0,
    "async pj_per_flop": 0.66, "mma pj_per_flop": 1.35,
}  # fmt: skip
"""What is expected of each constant, before measurements; those with a kind (`async`, `mma`) hold for it alone."""
_RANGES = {
    **bounds(),
    "smem_cost": (0.3, 4.0),
    "tensor_efficiency": (0.2, 1.0),
    "reduction_us": (0.1, 8.0),
    "reduction_traffic": (0.25, 10.0),
    "in_flight_bytes": (16e3, 200e3),
    "store_efficiency": (0.05, 4.0),
    "l2_loads": (0.3, 1.5),
    "l2_share": (0.05, 1.5),
    "weight_copies": (1.0, 40.0),
    "residency": (0.2, 5.0),
    "residency_sharpness": (0.5, 6.0),
    "throttle_us": (30.0, 1500.0),
    "gemv_us": (0.02, 2.0),
    "gemv_slice_us": (0.02, 3.0),
}
_WEIGHT = {"smem_cost": 6.0, "throttle_us": 6.0}
"""Weight of a prior, of a residual's. Shared memory's cost could else stand in for any slowness of small tiles, and an
early throttle for any slowness of long kernels; the largest products, which show it best, are held out."""
_USUAL_WEIGHT = 1.2
ROWS = 300


def family(gpu: Gpu) -> str:
    """Family of a GPU: its generation, and within it those whose tensor cores work alike."""
    return f"{gpu.generation} {gpu.compute_capability[0]}"


def sample(table: MeasuredGemms, rows: int = ROWS) -> MeasuredGemms:
    """Some of the rows that may be fitted: for each power of ten of operations as many, chosen by a hash."""
    g = table.gemms
    decades = np.clip(np.floor(np.log10(g.flops)), 4, 13).astype(int)
    groups: dict[int, list[int]] = {}
    for i in np.flatnonzero(split_rows(g).fit).tolist():
        groups.setdefault(int(decades[i]), []).append(i)
    chosen = np.zeros(len(table), dtype=bool)
    for members in groups.values():
        members.sort(key=lambda i: zlib.crc32(f"{g.m[i]:.0f} {g.n[i]:.0f} {g.k[i]:.0f}".encode()))
        chosen[members[: -(-rows // len(groups))]] = True
    return table.rows(chosen)


def constants_of(values: Mapping[str, float], kind: str) -> KernelConstants:
    """KernelConstants of a kind of kernels out of fitted values."""
    own = {}
    for name, value in values.items():
        only, _, plain = name.rpartition(" ")
        if only in ("", kind):
            own[plain] = value
    return common_constants(kind).with_values(own)


def fit_common(tables: Sequence[Table], *, iterations: int = 30) -> dict[str, float]:
    """Fit the common constants to several GPUs, each family with equal weight, each constant near its prior.

    Only rows that `split_rows` leaves for fitting are used, some hundred of each GPU. A constant of a kind of kernels
    that none of the GPUs has stays at its prior.

    Returns
    -------
    dict of str to float
        By the names of `PRIORS`.
    """
    samples = [(gpu, sample(table)) for gpu, table in tables]
    sizes = {family(gpu): sum(family(other) == family(gpu) for other, _ in samples) for gpu, _ in samples}

    def residuals(values: Mapping[str, float]) -> Floats:
        found = []
        for gpu, table in samples:
            constants = constants_of(values, compute_class(gpu, table.number_format))
            times = time_gemms(gpu, table.gemms, table.number_format, constants, Setup(table.l2)).time_us
            found.append(np.log(times / table.time_us) / np.sqrt(sizes[family(gpu)]))
        prior = [
            _WEIGHT.get(name.rpartition(" ")[2], _USUAL_WEIGHT) * np.log(values[name] / expected)
            for name, expected in PRIORS.items()
        ]
        return np.concatenate([*found, np.array(prior)])

    ranges = {name: _RANGES[name.rpartition(" ")[2]] for name in PRIORS}
    return fit_positive(residuals, PRIORS, ranges, iterations=iterations)


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
