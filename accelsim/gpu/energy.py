"""Energy of operations and of bytes, power of the board while a kernel repeats, and the clock that its limit allows."""

from __future__ import annotations

import numpy as np

from accelsim.gpu.arrays import Floats
from accelsim.gpu.constants import Constants
from accelsim.gpu.machine import BYTES, VECTOR_FORMATS, Gpu

_ENERGY_OF_WIDTH = 0.68
IDLE = 0.15
"""Share of its power limit that a board takes when no SM works: 148 of 700 W on an H200, 312 of 1000 W on a B200 (both
a fit to NVML readings in aiconfigurator), 32 of 250 W on a V100 (AccelWattch); the fits hold active SMs too."""
_DRAM_PJ_PER_BYTE = {"HBM": 46.0, "GDDR": 112.0, "LPDDR": 40.0}
"""Energy of a byte from memory to the SMs, by the beginning of the type of memory: HBM, a fit to NVML power of GEMMs on
an H200 (51.6) and a B200 (46.0); GDDR5 14 pJ/bit and LPDDR4 5 pJ/bit (O'Connor, MICRO 2017; not verified)."""


def pj_per_flop(number_format: str, constants: Constants) -> float:
    """Energy [pJ] of an operation in a number format.

    The constants have that of FP16, or of FP32 without tensor cores. Narrower operands take less, by a power of their
    width: boards take 0.62 times as much for an operation in FP8 as in BF16 (H200) and 0.39 times in FP4 (B200), total
    power over throughput of large products (aiconfigurator, NVML).
    """
    width = BYTES[number_format] / (4.0 if number_format in VECTOR_FORMATS else 2.0)
    return float(constants.pj_per_flop * width**_ENERGY_OF_WIDTH)


def clock_under_power_limit(gpu: Gpu, number_format: str, constants: Constants) -> float:
    """Share of the boost clock that the board's power allows when every multiply-add unit is busy."""
    busy_w = gpu.sms * gpu.boost_hz * gpu.operations(number_format) * pj_per_flop(number_format, constants) * 1e-12
    return min(1.0, gpu.tdp_w * (1 - IDLE) / busy_w)


def _dram_pj_per_byte(gpu: Gpu) -> float:
    """Energy [pJ] of a byte of DRAM."""
    return next(value for name, value in _DRAM_PJ_PER_BYTE.items() if gpu.memory_type.startswith(name))


def board_power_w(
    gpu: Gpu, number_format: str, constants: Constants, flops: Floats, dram_bytes: Floats, time_us: Floats
) -> Floats:
    """Board power [W] while a kernel repeats without pause.

    What the board takes when idle, the energy of the operations and of the DRAM bytes over the time; no more than the
    power limit, which lowers the clock instead.

    Parameters
    ----------
    gpu : Gpu
    number_format : str
    constants : Constants
        Energy of an operation.
    flops : float[P]
        Operations, of padding too.
    dram_bytes : float[P]
    time_us : float[P]
    """
    dynamic_pj = flops * pj_per_flop(number_format, constants) + dram_bytes * _dram_pj_per_byte(gpu)
    return np.minimum(gpu.tdp_w, gpu.tdp_w * IDLE + dynamic_pj / time_us * 1e-6)
