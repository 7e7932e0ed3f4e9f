"""Operators that move more than they compute (element-wise, pooling, normalisation, soft-max), and recurrent cells.

Intensities count each tensor once, as a kernel that keeps nothing between calls moves them.

Several GPUs over NVLink: all-reduce of gradients, and a matrix product cut over GPUs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from accelsim.gpu.calibration import Mode
from accelsim.gpu.constants import Constants, Floats
from accelsim.gpu.gemm import Gemms, time_gemms
from accelsim.gpu.machine import Gpu
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import listed


@dataclass(frozen=True, slots=True)
class Operator:
    """What an operator does for each element of its input: words read and written, operations, and passes over it."""

    reads: float
    writes: float
    operations: float


OPERATORS = {
    "relu": Operator(1, 1, 1),
    "add": Operator(2, 1, 1),
    "mul": Operator(2, 1, 1),
    "div": Operator(2, 1, 1),
    "gelu": Operator(1, 1, 8),
    "tanh": Operator(1, 1, 5),
    "softmax": Operator(1, 1, 5),
    "layer_norm": Operator(2, 1, 7),
    "max_pool_3x3": Operator(1, 1, 9),
}
"""Operators by name. A row of soft-max stays in registers or shared memory between its passes, so that it is read once;
PyTorch's layer norm reads a row for its mean and variance, and again; pooling has stride 1, so that its result is as
large as its input (NVIDIA's guide)."""


def operator(name: str) -> Operator:
    """Operator of a name.

    Raises
    ------
    AccelsimError
        If there is none.
    """
    if name not in OPERATORS:
        raise AccelsimError(f"no operator '{name}'; operators: {listed(OPERATORS)}")
    return OPERATORS[name]


def operator_intensity(name: str, word_bytes: float = 2.0) -> float:
    """Operations for each byte that an operator moves.

    Examples
    --------
    NVIDIA's guide, Table 1: ReLU 0.25 and 3 x 3 max pooling 2.25 FLOP/B in FP16.

    >>> operator_intensity("relu"), operator_intensity("max_pool_3x3")
    (0.25, 2.25)
    """
    found = operator(name)
    return found.operations / ((found.reads + found.writes) * word_bytes)


def product_intensity(m: int, n: int, k: int, word_bytes: float = 2.0) -> float:
    """Operations for each byte of a matrix product whose operands and result pass once.

    Examples
    --------
    NVIDIA's guide: a linear layer of 4096 outputs and 1024 inputs in FP16 has 315 FLOP/B at batch 512, 1 at batch 1.

    >>> round(product_intensity(512, 4096, 1024)), round(product_intensity(1, 4096, 1024))
    (315, 1)
    """
    return 2 * m * n * k / ((m * k + k * n + m * n) * word_bytes)


def convolution_bounds(
    inputs: tuple[int, int, int, int], channels: int, window: int, stride: int, word_bytes: float
) -> tuple[int, float, float]:
    """Multiply-adds, bytes and operations a byte of a square convolution that keeps the size but for its stride.

    Parameters
    ----------
    inputs : (int, int, int, int)
        Batch, channels, rows and columns of the input.
    channels : int
        Of the output.
    window, stride : int
    word_bytes : float

    Examples
    --------
    The CVPR 2023 hardware tutorial's 3 x 3 convolution of 1 x 3 x 416 x 480 to 16 x 208 x 240 in FP32: inputs take
    599,040 words = 2.40 MB, outputs 798,720 words = 3.19 MB, weights 432 words = 1.7 kB. The tutorial's own sizes in
    memory slip there; these are words x 4 B.

    >>> macs, moved, intensity = convolution_bounds((1, 3, 416, 480), 16, 3, 2, 4.0)
    >>> macs, moved, round(intensity, 2)
    (21565440, 5592768.0, 7.71)
    """
    batch, depth, rows, columns = inputs
    outputs = batch * channels * -(-rows // stride) * -(-columns // stride)
    macs = outputs * depth * window * window
    words = batch * depth * rows * columns + outputs + channels * depth * window * window
    return macs, words * word_bytes, 2 * macs / (words * word_bytes)


def time_operators(gpu: Gpu, name: str, elements: Floats, word_bytes: float, constants: Constants) -> Floats:
    """Time [us] of an operator over so many elements, from cold memory.

    Launch and latency, and the longer of its DRAM traffic and its operations on the FP32 units.

    Parameters
    ----------
    gpu : Gpu
    name : str
        One of `OPERATORS`.
    elements : float[P]
        Elements of the input.
    word_bytes : float
    constants : Constants
    """
    found = operator(name)
    moved = elements * (found.reads + found.writes) * word_bytes
    dram = moved / (gpu.dram_bytes_per_s * 1e-6 * constants.dram_efficiency)
    computed = elements * found.operations / (gpu.flops("fp32") * 0.5e-6)
    return constants.launch_us + constants.latency_us + np.maximum(dram, computed)


def recurrent_gemms(cell: str, batch: int, inputs: int, hidden: int, steps: int) -> Gemms:
    """Matrix products of a recurrent layer: the inputs of all steps in one, then a step's hidden state, `steps` times.

    An LSTM cell has four gates, a GRU cell three; their element-wise parts are not in here.

    Parameters
    ----------
    cell : str
        `lstm` or `gru`.
    batch, inputs, hidden, steps : int

    Returns
    -------
    Gemms
        The product of the inputs, and that of one step.

    Examples
    --------
    >>> recurrent_gemms("lstm", 64, 512, 1024, 50).n.tolist(), recurrent_gemms("gru", 64, 512, 1024, 50).m.tolist()
    ([4096.0, 4096.0], [3200.0, 64.0])
    """
    gates = {"lstm": 4, "gru": 3}
    if cell not in gates:
        raise AccelsimError(f"no cell '{cell}'; cells: {listed(gates)}")
    return Gemms.of([batch * steps, batch], gates[cell] * hidden, [inputs, hidden])


def layout_change_us(gpu: Gpu, elements: float, word_bytes: float, constants: Constants) -> float:
    """Time [us] of turning a tensor between NCHW and NHWC, which a convolution on tensor cores in NCHW needs.

    Read once and written once; for a layer, its input before and its output after.
    """
    return float(time_operators(gpu, "relu", np.array([elements]), word_bytes, constants)[0])


ALGORITHMS = ("ring", "tree")
_HOP_US = {"ring": 0.6, "tree": 0.6}
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
    gpus : int
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
        return 2 * (gpus - 1) / gpus * size_bytes / rate + 2 * (gpus - 1) * _HOP_US[algorithm]
    return 2 * size_bytes / rate + 2 * math.log2(gpus) * _HOP_US[algorithm]


def tensor_parallel_us(
    gpu: Gpu, gpus: int, m: int, n: int, k: int, number_format: str, mode: Mode, cut: str = "k"
) -> tuple[float, float]:
    """Time [us] of a matrix product cut over GPUs: of its own kernel, and of the sum of parts over NVLink.

    Cut along N each GPU has some columns and nothing is summed up; cut along K each has all of the result in part.

    Examples
    --------
    >>> from accelsim.gpu.calibration import mode_of
    >>> from accelsim.gpu.catalogue import load_gpu
    >>> h100 = load_gpu("h100")
    >>> kernel, link = tensor_parallel_us(h100, 8, 4096, 8192, 28672, "bf16", mode_of(h100, "bf16"))
    >>> kernel < 600 and 300 < link < 400
    True
    """
    if cut not in ("n", "k"):
        raise AccelsimError(f"a product is cut along n or k, not '{cut}'")
    part = Gemms.of(m, -(-n // gpus), k) if cut == "n" else Gemms.of(m, n, -(-k // gpus))
    kernel = float(time_gemms(gpu, part, number_format, mode.constants).time_us[0])
    return kernel, all_reduce_us(gpu, gpus, 2.0 * m * n) if cut == "k" else 0.0
