"""Several GPUs over NVLink: all-reduce of gradients, and a matrix product cut over GPUs."""

from __future__ import annotations

import math

from accelsim.gpu.calibration import Mode
from accelsim.gpu.gemm import Gemms, time_gemms
from accelsim.gpu.machine import Gpu
from accelsim.inputs.errors import AccelsimError

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
