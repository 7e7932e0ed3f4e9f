"""The roofline of a GPU, and where layers stand under it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accelsim.gpu.kernel import Kernel
from accelsim.gpu.machine import Gpu

HIGH = 0.7
"""Utilization from which a resource counts as well used (NVIDIA's guide to profiling kernels)."""
QUADRANTS = {
    (True, True): "both",
    (True, False): "math",
    (False, True): "memory",
    (False, False): "neither",
}
"""What is busy, by whether math and DRAM are well used; neither: latency, launch or too few blocks."""


@dataclass(frozen=True, slots=True)
class Ridge:
    """A level of memory: its bandwidth and the operations a byte from which it limits no more."""

    level: str
    bytes_per_s: float
    intensity: float


@dataclass(frozen=True, slots=True)
class Point:
    """A layer under the roofline.

    Attributes
    ----------
    kernel : Kernel
    intensity : float
        Operations for each byte, were each tensor moved once [FLOP/B].
    limited_by : str
        `math` above the ridge of DRAM, else `memory`.
    math_share, memory_share : float
        Of the peak of the data sheet, and of the DRAM bandwidth, as predicted.
    quadrant : str
    """

    kernel: Kernel
    intensity: float
    limited_by: str
    math_share: float
    memory_share: float
    quadrant: str


def ridges(gpu: Gpu, number_format: str) -> list[Ridge]:
    """Levels of memory of a GPU, outermost first.

    Examples
    --------
    >>> from accelsim.gpu.catalogue import load_gpu
    >>> [(ridge.level, round(ridge.intensity)) for ridge in ridges(load_gpu("a100"), "fp16")]
    [('DRAM', 153), ('L2', 58), ('shared memory', 16)]
    """
    peak = gpu.flops(number_format)
    rates = {
        "DRAM": gpu.dram_bytes_per_s,
        "L2": gpu.l2_bytes_per_s,
        "shared memory": gpu.sms * gpu.boost_hz * 128.0,
    }
    return [Ridge(level, rate, peak / rate) for level, rate in rates.items()]


def points(gpu: Gpu, kernels: Sequence[Kernel]) -> list[Point]:
    """Where kernels stand under the roofline of a GPU."""
    found = []
    for kernel in kernels:
        intensity = kernel.flops / kernel.least_bytes
        peak = gpu.flops(kernel.number_format)
        math_share = kernel.tflops * 1e12 / peak
        memory_share = kernel.dram_bytes / (kernel.time_us * 1e-6) / gpu.dram_bytes_per_s
        limited = "math" if intensity >= peak / gpu.dram_bytes_per_s else "memory"
        quadrant = QUADRANTS[math_share >= HIGH, memory_share >= HIGH]
        found.append(Point(kernel, intensity, limited, math_share, memory_share, quadrant))
    return found
