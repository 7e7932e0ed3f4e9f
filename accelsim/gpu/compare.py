"""Profiled kernels beside what is predicted for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accelsim.gpu.calibration import Mode
from accelsim.gpu.gemm import Gemms
from accelsim.gpu.kernel import Kernel, best_kernels
from accelsim.gpu.layers import gemms_of, product_of
from accelsim.gpu.machine import Gpu
from accelsim.gpu.profile import ProfiledKernel
from accelsim.workload import Einsum

_HELPERS = ("splitkreduce", "reduce_kernel", "cublaslt::splitk")
"""Kernels that belong to a matrix product and run beside its main one."""
_PRODUCTS = ("gemm", "gemv", "cutlass", "nvjet", "conv", "wgrad", "dgrad", "xmma", "mma", "matmul", *_HELPERS)


@dataclass(frozen=True, slots=True)
class Compared:
    """A layer: its measured kernels, and the predicted one.

    Attributes
    ----------
    name : str
    kernels : tuple of ProfiledKernel
    measured_us : float
        Sum of its kernels, of one run of each.
    predicted : Kernel
    roofline_share : float
        Least time by peak and DRAM bandwidth of the data sheet, over the measured time.
    """

    name: str
    kernels: tuple[ProfiledKernel, ...]
    measured_us: float
    predicted: Kernel
    roofline_share: float

    @property
    def dram_bytes(self) -> float | None:
        """Measured DRAM bytes, where the profile has them for all kernels."""
        moved = [kernel.dram_bytes for kernel in self.kernels]
        return None if None in moved else sum(value or 0.0 for value in moved)


def compare_profile(
    gpu: Gpu,
    profile: Sequence[ProfiledKernel],
    layers: Sequence[Einsum],
    number_format: str,
    mode: Mode,
    *,
    l2: str = "rotating",
) -> tuple[list[Compared], list[ProfiledKernel]]:
    """Match kernels to layers and predict these.

    A kernel belongs to the layer that its NVTX range names, or else to the sizes that the range or the table says. Of
    the kernels in a range of a layer, those whose names say that they compute no product are left out.

    Returns
    -------
    list of Compared
        In the order of the profile.
    list of ProfiledKernel
        Kernels that match nothing.
    """
    by_name = {einsum.name.casefold(): einsum for einsum in layers}
    groups: dict[str, list[ProfiledKernel]] = {}
    products: dict[str, Einsum | tuple[int, int, int]] = {}
    unmatched = []
    for kernel in profile:
        einsum = by_name.get(kernel.range.casefold().strip())
        if einsum is not None and _is_product(kernel):
            groups.setdefault(einsum.name, []).append(kernel)
            products[einsum.name] = einsum
        elif einsum is None and kernel.shape is not None and _is_product(kernel):
            groups.setdefault(kernel.range, []).append(kernel)
            products[kernel.range] = kernel.shape
        else:
            unmatched.append(kernel)
    found = []
    for name, kernels in groups.items():
        product = products[name]
        gemms = gemms_of([product_of(product)]) if isinstance(product, Einsum) else Gemms.of(*product)
        (predicted,) = best_kernels(gpu, [name], gemms, number_format, mode, l2=l2)
        measured_us = sum(kernel.time_us for kernel in kernels)
        least_s = max(predicted.flops / gpu.flops(number_format), predicted.least_bytes / gpu.dram_bytes_per_s)
        found.append(Compared(name, tuple(kernels), measured_us, predicted, least_s * 1e6 / measured_us))
    return found, unmatched


def _is_product(kernel: ProfiledKernel) -> bool:
    """Whether a kernel computes a product, by its name; one without a name does."""
    name = kernel.name.casefold()
    return not name or any(word in name for word in _PRODUCTS)
