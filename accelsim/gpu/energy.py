"""Energy of a kernel and power of the board while it repeats."""

from __future__ import annotations

import numpy as np

from accelsim.gpu.constants import Constants
from accelsim.gpu.fit import Floats
from accelsim.gpu.gemm import IDLE, pj_per_flop
from accelsim.gpu.machine import Gpu

DRAM_PJ_PER_BYTE = {"HBM": 46.0, "GDDR": 112.0, "LPDDR": 40.0}
"""Energy of a byte from memory to the SMs, by the beginning of the type of memory: HBM, a fit to NVML power of GEMMs on
an H200 (51.6) and a B200 (46.0); GDDR5 14 pJ/bit and LPDDR4 5 pJ/bit (O'Connor, MICRO 2017; not verified)."""


def dram_pj_per_byte(gpu: Gpu) -> float:
    """Energy [pJ] of a byte of DRAM."""
    return next(value for name, value in DRAM_PJ_PER_BYTE.items() if gpu.memory_type.startswith(name))


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
    dynamic_pj = flops * pj_per_flop(number_format, constants) + dram_bytes * dram_pj_per_byte(gpu)
    return np.minimum(gpu.tdp_w, gpu.tdp_w * IDLE + dynamic_pj / time_us * 1e-6)
