"""Profiled kernels beside what is predicted for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike

from accelsim.gpu import ROTATING
from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import may_be
from accelsim.gpu.gemm import Gemms
from accelsim.gpu.kernel import Kernel, best_kernels
from accelsim.gpu.layers import gemms_of, product_of
from accelsim.gpu.machine import FORMATS, Gpu, no_format
from accelsim.gpu.profile import ProfiledKernel
from accelsim.inputs.errors import Mark, Problem
from accelsim.inputs.units import quoted
from accelsim.inputs.workload import Einsum

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


def kernels_of(
    gpu: Gpu, profile: Sequence[ProfiledKernel], number_format: str | None = None
) -> tuple[list[ProfiledKernel], list[Problem]]:
    """Kernels that may have run on a GPU, each with its number format, and why others did not.

    Parameters
    ----------
    gpu : Gpu
    profile : sequence of ProfiledKernel
    number_format : str, optional
        Of kernels of which the profile does not say it by a name that is known; `fp16` where it says nothing.
    """
    found: list[ProfiledKernel] = []
    reasons: dict[str, list[Mark]] = {}
    for kernel in profile:
        known = kernel.number_format in FORMATS
        name = kernel.number_format if known else number_format or kernel.number_format or "fp16"
        if not may_be(gpu, kernel.device):
            reasons.setdefault(f"of {quoted(kernel.device)}, not of {gpu.name}", []).append(kernel.where)
        elif name not in gpu.operations_per_sm_cycle:
            reasons.setdefault(f"of {no_format(gpu, name)}", []).append(kernel.where)
        else:
            found.append(replace(kernel, number_format=name))
    return found, [
        Problem(marks[0], f"{len(marks)} kernel{'s' if len(marks) > 1 else ''} {why}") for why, marks in reasons.items()
    ]


def compare_profile(
    gpu: Gpu,
    profile: Sequence[ProfiledKernel],
    layers: Sequence[Einsum],
    calibration: str | PathLike[str] | None = None,
    *,
    l2: str = ROTATING,
) -> tuple[list[Compared], list[ProfiledKernel]]:
    """Match kernels to layers and predict these.

    A kernel belongs to the layer that its NVTX range names, or else to the sizes that the range or the table says. Of
    the kernels in a range of a layer, those whose names say that they compute no product are left out. `kernels_of`
    says the number formats; `calibration` is as in `mode_of`; `l2` is for rows of which the profile does not say it.

    Returns
    -------
    list of Compared
        In the order of the profile.
    list of ProfiledKernel
        Kernels that match nothing.
    """
    by_name = {einsum.name.casefold(): einsum for einsum in layers}
    groups: dict[str, list[ProfiledKernel]] = {}
    products: dict[str, Einsum | tuple[int, ...]] = {}
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
        number_format = kernels[0].number_format
        mode = mode_of(gpu, number_format, calibration)
        (predicted,) = best_kernels(gpu, [name], gemms, number_format, mode, l2=kernels[0].l2 or l2)
        measured_us = sum(kernel.time_us for kernel in kernels)
        least_s = max(predicted.flops / gpu.flops(number_format), predicted.least_bytes / gpu.dram_bytes_per_s)
        found.append(Compared(name, tuple(kernels), measured_us, predicted, least_s * 1e6 / measured_us))
    return found, unmatched


def _is_product(kernel: ProfiledKernel) -> bool:
    """Whether a kernel computes a product, by its name; one without a name does."""
    name = kernel.name.casefold()
    return not name or any(word in name for word in _PRODUCTS)
