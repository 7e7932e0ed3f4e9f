"""Kernels of a profile, and what their names say: tile, layout, number format, and whether they compute a product."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from accelsim.gpu import LAYOUTS
from accelsim.gpu.catalogue import table_of
from accelsim.gpu.measured import NOWHERE
from accelsim.inputs.errors import Mark

DRAM_METRICS = ("dram_bytes_sum", "dram_bytes_read_sum", "dram_bytes_write_sum")
"""Metrics of Nsight Compute by `plain_name`: bytes both ways, read, and written."""
_SHAPE = re.compile(
    r"(?i)(?:\bm\s*=\s*(\d{1,18})\W+n\s*=\s*(\d{1,18})\W+k\s*=\s*(\d{1,18})\b|\b(\d{1,18})x(\d{1,18})x(\d{1,18})\b)"
)
_TILE = re.compile(r"(?<![0-9a-z])(?:tilesize)?([1-9][0-9]{1,2})x([1-9][0-9]{0,2})(?![0-9])")
_LAYOUT = re.compile(rf"(?<![0-9a-z])({'|'.join(LAYOUTS)})[nt]?(?![0-9a-z])")


def tile_in(kernel: str) -> tuple[int, int] | None:
    """Output tile of a block in the name of a kernel of cuBLAS or CUTLASS: the first two sizes.

    >>> tile_in("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn"), tile_in("splitKreduce_kernel<32, 16>")
    ((128, 64), None)
    >>> tile_in("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64_cgasize2x1x1")
    (128, 256)
    """
    match = _TILE.search(kernel.lower())
    return (int(match[1]), int(match[2])) if match else None


def layout_in(kernel: str) -> str:
    """Order of weights and inputs in memory that the name of a kernel says, one of `LAYOUTS`, or nothing.

    >>> layout_in("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_nt"), layout_in("nvjet_tst_128x256_64x4")
    ('nt', '')
    >>> layout_in("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NTT")
    'nt'
    """
    match = _LAYOUT.search(kernel.lower())
    return match[1] if match else ""


def format_in(kernel: str) -> str:
    """Number format of the operands that the name of a kernel says, or nothing.

    >>> format_in("cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_32x3_nn_align8"), format_in("volta_sgemm_128x64_nn")
    ('bf16', 'fp32')
    >>> format_in("nvjet_sm90_qqtst_64x8_128x16_4x1_v_bz_TNT"), format_in("cutlass_80_tensorop_s1688gemm_64x64_16x6_tn")
    ('fp8', 'tf32')
    """
    name = re.sub("nvjet_sm[0-9]+_", "nvjet_", kernel.lower())
    if not any(word in name for word in _PRODUCTS):
        return ""
    return next((found for found, words in table_of("kernels").items() if any(word in name for word in words)), "")


@dataclass(frozen=True, slots=True)
class ProfiledKernel:
    """Runs of one kernel: where it ran, how long a run took, and what it moved."""

    name: str  # of the kernel
    range: str  # NVTX range, or empty
    time_us: float | None  # of a run: its median where the export has it, else the average; None: not measured
    runs: int
    shape: tuple[int, ...] | None = None  # M, N, K, and the batch, where the table or the name of the range says them
    moved: Mapping[str, float] = field(default_factory=dict)  # bytes of a run, by `DRAM_METRICS`
    grid: int = 0  # blocks of a run; 0: not known
    ranges: int = 0  # runs of the NVTX range; 0: not known
    # as a table of products or the kernel's name says them, or empty
    device: str = ""
    number_format: str = ""
    l2: str = ""
    unique: float = 1.0  # share of the product's inputs that differ, which a convolution's windows overlap in
    layout: str = ""  # of the product's operands; where it is said, the kernel belongs to a product of `shape`
    where: Mark = NOWHERE  # row of the profile

    @property
    def dram_bytes(self) -> float | None:
        """DRAM bytes of a run, both ways; None where the profile has them for one way or not at all."""
        both, *ways = (self.moved.get(metric) for metric in DRAM_METRICS)
        return both if both is not None else None if None in ways else sum(way or 0.0 for way in ways)


def shape_in(text: str) -> tuple[int, int, int] | None:
    """M, N and K in the name of a range, such as `ffn M=512 N=4096 K=1024` or `ffn 512x4096x1024`.

    >>> shape_in("ffn, M=512, N=4096, K=1024"), shape_in("mm 8x16x32"), shape_in("conv1")
    ((512, 4096, 1024), (8, 16, 32), None)
    """
    match = _SHAPE.search(text)
    if match is None:
        return None
    m, n, k = (int(size) for size in match.groups() if size is not None)
    return m, n, k


_HELPERS = ("splitkreduce", "reduce_kernel", "cublaslt::splitk")
"""Kernels that belong to a matrix product and run beside its main one."""
_PRODUCTS = ("gemm", "gemv", "cutlass", "nvjet", "conv", "wgrad", "dgrad", "xmma", "mma", "matmul", *_HELPERS)
_OF_PYTORCH = re.compile(r"(?<![a-z0-9_])at::(?!.*conv_depthwise)")
"""PyTorch's own kernels, of which convolutions by channel alone are products, whatever else their names hold."""


def is_helper(kernel: ProfiledKernel) -> bool:
    """Whether a kernel runs beside the main one of a product."""
    return any(word in kernel.name.casefold() for word in _HELPERS)


def is_product(kernel: ProfiledKernel) -> bool:
    """Whether a kernel computes a product, by what launched it or by its name; one without a name does."""
    name = kernel.name.casefold()
    return bool(kernel.layout) or not name or (any(word in name for word in _PRODUCTS) and not _OF_PYTORCH.search(name))
