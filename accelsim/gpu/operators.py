"""Operators that move more than they compute (element-wise, pooling, normalisation, soft-max), and all-reduce."""

from __future__ import annotations

import math

import numpy as np

from accelsim.gpu.catalogue import Gpu
from accelsim.gpu.constants import Floats, KernelConstants
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import listed

OPERATORS = {
    "relu": (2, 1),
    "add": (3, 1),
    "mul": (3, 1),
    "div": (3, 1),
    "gelu": (2, 8),
    "tanh": (2, 5),
    "softmax": (2, 5),
    "layer_norm": (3, 7),
    "max_pool_3x3": (2, 9),
}
"""Words read and written, and operations, for each element of the input. A row of soft-max stays in registers or shared
memory between its passes, so that it is read once; PyTorch's layer norm reads a row for its mean and variance, and
again; pooling has stride 1, so that its result is as large as its input (NVIDIA's guide)."""


def time_operators(gpu: Gpu, name: str, elements: Floats, word_bytes: float, constants: KernelConstants) -> Floats:
    """Time [us] of an operator over so many elements, from cold memory.

    Launch and latency, and the longer of its DRAM traffic and its operations on the FP32 units. Turning a tensor
    between NCHW and NHWC takes as long as `relu`.

    Parameters
    ----------
    name : str
        One of `OPERATORS`.
    elements : float[P]
        Elements of the input.

    Raises
    ------
    AccelsimError
        If there is no such operator.
    """
    if name not in OPERATORS:
        raise AccelsimError(f"no operator '{name}'; operators: {listed(OPERATORS)}")
    words, operations = OPERATORS[name]
    dram = elements * words * word_bytes / (gpu.dram_bytes_per_s * 1e-6 * constants.dram_efficiency)
    computed = elements * operations / (gpu.flops("fp32") * 0.5e-6)
    return constants.launch_us + constants.latency_us + np.maximum(dram, computed)


ALGORITHMS = ("ring", "tree")
_HOP_US = 0.6
"""Time of a step over NVLink with the simple protocol's synchronisation (NCCL's tuning table: 0.6 us for NVLink with LL
on a ring and a tree; not verified)."""
_LINK_EFFICIENCY = 0.8
"""Share of NVLink's bandwidth that NCCL reaches for long messages (of 450 GB/s an H100 reaches about 360)."""


def all_reduce_us(gpu: Gpu, gpus: int, size_bytes: float, algorithm: str = "ring") -> float:
    """Time [us] of summing up data that each of several GPUs has.

    A ring sends 2 (n - 1) / n of the data over each link in 2 (n - 1) steps. A double binary tree sends it up and down
    in two trees that have half of the data each, pipelined: 2 of it in 2 log2 n steps.

    Parameters
    ----------
    gpu : Gpu
        Of which `nvlink_bytes_per_s` counts both directions.
    size_bytes : float
        Data of each GPU.
    algorithm : str
        One of `ALGORITHMS`.

    Raises
    ------
    AccelsimError
        If the GPU has no NVLink.

    Examples
    --------
    >>> from accelsim.gpu.catalogue import load_gpu
    >>> h100 = load_gpu("h100")
    >>> round(all_reduce_us(h100, 8, 1e9)), round(all_reduce_us(h100, 8, 1e9, "tree"))
    (4870, 5559)
    """
    if algorithm not in ALGORITHMS:
        raise AccelsimError(f"no all-reduce '{algorithm}'; there are: {', '.join(ALGORITHMS)}")
    if gpus < 2:
        return 0.0
    if not gpu.nvlink_bytes_per_s:
        raise AccelsimError(f"{gpu.name} has no NVLink")
    rate = gpu.nvlink_bytes_per_s / 2 * _LINK_EFFICIENCY * 1e-6
    if algorithm == "ring":
        return 2 * (gpus - 1) / gpus * size_bytes / rate + 2 * (gpus - 1) * _HOP_US
    return 2 * size_bytes / rate + 2 * math.log2(gpus) * _HOP_US
