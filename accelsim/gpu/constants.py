"""What the kernel model knows beyond a data sheet: constants common to all GPUs, eight of which may be calibrated.

The defaults are the *uncalibrated* mode: one set for every GPU. They were fitted once, together, to measured BF16 GEMMs
of nine GPUs (only rows that a hash keeps for fitting, each family of GPUs with equal weight, near what is expected:
`benchmarks/gpu/common_constants.py`); the energy of FP32 was set by hand to what a T4, an A100 and a V100 sustain.
docs/measurements_gpu.md has the errors when a whole family is left out.

Energy of operations and of bytes, power of the board while a kernel repeats, and the clock that its limit allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from accelsim.gpu.machine import BYTES, VECTOR_FORMATS, Gpu

_TENSOR = (
    *("launch_us", "dram_efficiency", "smem_cost", "reduction_us"),
    *("reduction_traffic", "round_us", "overlap", "pj_per_flop"),
)
_ASYNC = (
    *("launch_us", "cold_us", "dram_efficiency", "smem_cost"),
    *("reduction_traffic", "round_us", "overlap", "pj_per_flop"),
)
_VECTOR = (
    *("launch_us", "latency_us", "dram_efficiency", "smem_cost"),
    *("reduction_us", "round_us", "overlap", "pj_per_flop"),
)
CALIBRATED = {"async": _ASYNC, "mma": _TENSOR, "vector": _VECTOR}
"""Constants that `accelsim calibrate` fits, in this order, by how a multiply-add gets its operands: with tensor cores
what split-K's partial sums cost, which differs most between GPUs; without, how long bytes are in flight. Kernels of
wgmma and tcgen05 are so short that it shows how much longer first loads from DRAM take than from L2; the second phase
of their split-K took 2.8 to 3.6 us wherever it was fitted, and has the common 3.13."""
FASTEST, ONE_ROUND = "fastest", "one round"
CHOICES = (FASTEST, ONE_ROUND)
"""Which tilings a library chooses from: all; or smaller tiles than its largest only where one round of blocks covers
the product, as cuBLAS on an A100. A tile that covers as much of a product as the largest does counts as that, but for
batches of products."""
BOUNDS = {
    "launch_us": (0.3, 100.0),
    "dram_efficiency": (0.4, 1.0),
    "smem_cost": (0.3, 10.0),
    "latency_us": (0.2, 3.0),
    "cold_us": (0.01, 5.0),
    "reduction_us": (0.1, 30.0),
    "reduction_traffic": (0.1, 10.0),
    "round_us": (0.01, 3.0),
    "overlap": (0.005, 0.8),
    "pj_per_flop": (0.1, 30.0),
}
"""Range in which a calibration looks for each."""


_DIVISORS = ("latency_us", "tensor_efficiency", "dram_efficiency", "store_efficiency", "residency", "pj_per_flop")
_LARGEST = 1e12
"""Of any constant: no measured one comes near, and no time that is made of them overflows."""


@dataclass(frozen=True, slots=True)
class KernelConstants:
    """Constants of the kernel model; times in us, efficiencies are shares of what the data sheet has.

    Attributes
    ----------
    launch_us : float
        A kernel that does nothing, launched from a CUDA graph; a calibration to kernels that a framework launched one
        by one has what that takes, 40 to 70 us in PyTorch.
    latency_us : float
        First load of a block from DRAM until its first multiply; also how long bytes are in flight.
    cold_us : float
        How much longer the first loads take where L2 holds none of the weights, in proportion to what it lacks.
    tensor_efficiency : float
        Multiply-adds of a long main loop, of the peak at the boost clock.
    dram_efficiency : float
        Of the bandwidth of the data sheet.
    smem_cost : float
        Cycles of shared memory, of those that 128 B a cycle would take.
    reduction_us : float
        The second phase of split-K.
    store_efficiency : float
        Rate at which results leave, of the L2 bandwidth.
    overlap : float
        Share of the time of the resources that are not the bottleneck which it does not hide.
    round_us : float
        Start and end of each round of blocks.
    in_flight_bytes : float
        Bytes that an SM keeps on their way.
    l2_loads : float
        Share of the blocks' loads that L2 serves; the others come from a neighbour's (multicast) or from L1.
    l2_share : float
        Share of L2 that keeps operands between waves.
    weight_copies : float
        Copies of the weights that a measurement, or the layers of a network, use in turn.
    residency : float
        Size of L2 at which half of what was used before is still there, of the bytes used since then.
    residency_sharpness : float
        How suddenly that changes.
    gemv_us, gemv_slice_us : float
        A matrix-vector kernel beside its traffic, and for each 4096 of K.
    reduction_traffic : float
        Bytes of split-K's partial sums, of writing and reading each once through L2.
    throttle_us : float
        Time after which the limits of power begin to act.
    pj_per_flop : float
        Energy of an operation at full clock, beside what the board takes when idle.
    choice : str
        One of `CHOICES`.
    """

    launch_us: float = 1.52
    latency_us: float = 0.686
    tensor_efficiency: float = 1.0
    dram_efficiency: float = 0.776
    smem_cost: float = 0.702
    reduction_us: float = 3.18
    store_efficiency: float = 0.514
    overlap: float = 0.0672
    round_us: float = 0.197
    in_flight_bytes: float = 100_000.0
    l2_loads: float = 0.309
    l2_share: float = 0.699
    weight_copies: float = 6.27
    residency: float = 0.575
    residency_sharpness: float = 3.25
    gemv_us: float = 0.924
    gemv_slice_us: float = 0.314
    reduction_traffic: float = 0.588
    throttle_us: float = 999.0
    pj_per_flop: float = 0.64
    cold_us: float = 0.0
    choice: str = FASTEST

    def __post_init__(self) -> None:
        if self.choice not in CHOICES:
            raise ValueError(f"choice must be one of {', '.join(CHOICES)}, got '{self.choice}'")
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "choice":
                continue
            if item.name in _DIVISORS and not 0 < value <= _LARGEST:
                raise ValueError(f"{item.name} must be a number above 0 and up to {_LARGEST:g}, got {value:g}")
            if not 0 <= value <= _LARGEST:
                raise ValueError(f"{item.name} must be a number from 0 to {_LARGEST:g}, got {value:g}")

    def with_values(self, values: Mapping[str, float], choice: str = FASTEST) -> KernelConstants:
        """Return these constants with some replaced."""
        return replace(self, **values, choice=choice)


COMMON = {
    "async": KernelConstants(),
    "mma": KernelConstants(smem_cost=1.48, l2_loads=1.44, pj_per_flop=1.09),
    "vector": KernelConstants(smem_cost=1.48, l2_loads=1.44, pj_per_flop=13.0),
}
"""Uncalibrated constants by how a multiply-add gets its operands: `async` from shared memory (wgmma, tcgen05), `mma`
from registers (mma.sync), `vector` without tensor cores."""


_ENERGY_OF_WIDTH = 0.68
IDLE = 0.15
"""Share of its power limit that a board takes when no SM works: 148 of 700 W on an H200, 312 of 1000 W on a B200 (both
a fit to NVML readings in aiconfigurator), 32 of 250 W on a V100 (AccelWattch); the fits hold active SMs too."""
_DRAM_PJ_PER_BYTE = {"HBM": 46.0, "GDDR": 112.0, "LPDDR": 40.0}
"""Energy of a byte from memory to the SMs, by the beginning of the type of memory: HBM, a fit to NVML power of GEMMs on
an H200 (51.6) and a B200 (46.0); GDDR5 14 pJ/bit and LPDDR4 5 pJ/bit (O'Connor, MICRO 2017; not verified)."""


def pj_per_flop(number_format: str, constants: KernelConstants) -> float:
    """Energy [pJ] of an operation in a number format.

    The constants have that of FP16, or of FP32 without tensor cores. Narrower operands take less, by a power of their
    width: boards take 0.62 times as much for an operation in FP8 as in BF16 (H200) and 0.39 times in FP4 (B200), total
    power over throughput of large products (aiconfigurator, NVML).
    """
    width = BYTES[number_format] / (4.0 if number_format in VECTOR_FORMATS else 2.0)
    return float(constants.pj_per_flop * width**_ENERGY_OF_WIDTH)


def clock_under_power_limit(gpu: Gpu, number_format: str, constants: KernelConstants) -> float:
    """Share of the boost clock that the board's power allows when every multiply-add unit is busy."""
    busy_w = gpu.sms * gpu.boost_hz * gpu.operations(number_format) * pj_per_flop(number_format, constants) * 1e-12
    return min(1.0, gpu.tdp_w * (1 - IDLE) / busy_w)


def _dram_pj_per_byte(gpu: Gpu) -> float:
    """Energy [pJ] of a byte of DRAM."""
    return next(value for name, value in _DRAM_PJ_PER_BYTE.items() if gpu.memory_type.startswith(name))


def board_power_w(
    gpu: Gpu, number_format: str, constants: KernelConstants, flops: Floats, dram_bytes: Floats, time_us: Floats
) -> Floats:
    """Board power [W] while a kernel repeats without pause.

    What the board takes when idle, the energy of the operations and of the DRAM bytes over the time; no more than the
    power limit, which lowers the clock instead.

    Parameters
    ----------
    constants : KernelConstants
        Energy of an operation.
    flops : float[P]
        Operations, of padding too.
    dram_bytes : float[P]
    time_us : float[P]
    """
    dynamic_pj = flops * pj_per_flop(number_format, constants) + dram_bytes * _dram_pj_per_byte(gpu)
    return np.minimum(gpu.tdp_w, gpu.tdp_w * IDLE + dynamic_pj / time_us * 1e-6)


Floats = NDArray[np.float64]
