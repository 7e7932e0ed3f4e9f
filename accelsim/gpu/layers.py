"""Layers as matrix products: GEMM as it is, a convolution as implicit GEMM, the passes of training.

Convolutions by Winograd's minimal filtering: fewer multiplications, and tensors that are transformed.
Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, sections 3 to 5. F(m x m, r x r) makes
m x m outputs of a channel with (m + r - 1)^2 multiplications, where sliding the window takes m^2 r^2. Each of the
(m + r - 1)^2 places of a tile is a matrix product of its own, of tiles x channels by channels x output channels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accelsim.gpu import ROTATING
from accelsim.gpu.calibration import Mode
from accelsim.gpu.constants import Floats, KernelConstants, board_power_w
from accelsim.gpu.gemm import Gemms, time_gemms
from accelsim.gpu.kernel import Kernel, best_kernels
from accelsim.gpu.machine import BYTES, Gpu
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload import Einsum

PASSES = ("forward", "input_gradient", "weight_gradient")
SIZES = ("N", "C", "H", "W", "K", "R", "S", "P", "Q")
"""Of a convolution: images, channels, rows and columns of the input, channels of the output, rows and columns of the
window and of the output."""


@dataclass(frozen=True, slots=True)
class Product:
    """An Einsum as a batch of matrix products; `unique` as in `Gemms`."""

    m: int
    n: int
    k: int
    batch: int
    unique: float
    bits: int


def product_of(einsum: Einsum, training_pass: str = "forward") -> Product:
    """See an Einsum of two operands as matrix products.

    Dimensions of both operands and the result count the batch (such as groups), those of the inputs and the result are
    M, those of the weights and the result N, those of both operands K. A convolution becomes an implicit GEMM:
    M = N P Q, N = K, K = C R S. The gradient of its inputs has a row for each input point (padding too) and as many
    multiply-adds as the forward pass, that of its weights the three sizes in another order.

    Parameters
    ----------
    training_pass : str
        One of `PASSES`.

    Raises
    ------
    AccelsimError
        If it is no product of two tensors.

    Examples
    --------
    >>> from accelsim.inputs.workload_reader import load_workload
    >>> conv = load_workload("conv").layers[0]
    >>> dict(conv.dims)
    {'N': 1, 'K': 256, 'C': 256, 'P': 56, 'Q': 56, 'R': 3, 'S': 3}
    >>> product = product_of(conv)
    >>> product.m, product.n, product.k, round(product.unique, 3)
    (3136, 256, 2304, 0.119)
    >>> [(p.m, p.n, p.k) for p in (product_of(conv, name) for name in PASSES[1:])]
    [(3364, 256, 2148), (256, 2304, 3136)]
    """
    operands = [tensor for tensor in einsum.tensors if not tensor.output]
    if len(operands) != 2:
        many = "one operand" if len(operands) == 1 else f"{len(operands)} operands"
        raise AccelsimError(f"{einsum.name}: {many}; a kernel of matrix products has two")
    weights = next((tensor for tensor in operands if tensor.role == "Weights"), operands[1])
    inputs = operands[0] if weights is operands[1] else operands[1]
    output = einsum.output
    size = einsum.dims

    def count(*where: bool) -> int:
        a, b, c = where
        names = (d for d in size if (d in inputs.dims, d in weights.dims, d in output.dims) == (a, b, c))
        return math.prod(size[d] for d in names)

    if count(True, False, False) * count(False, True, False) > 1:
        raise AccelsimError(f"{einsum.name}: a dimension of one operand alone is summed up; that is no matrix product")
    batch, m, n, k = (
        count(True, True, True),
        count(True, False, True),
        count(False, True, True),
        count(True, True, False),
    )
    if batch > m * n * k == 1:
        raise AccelsimError(f"{einsum.name}: goes through both operands word by word; that is no matrix product")
    unique = min(1.0, inputs.words(size) / (m * k * batch))
    bits = max(tensor.bits for tensor in operands)
    if training_pass == "forward":
        return Product(m, n, k, batch, unique, bits)
    if training_pass == "weight_gradient":
        return Product(n, k, m, batch, 1.0, bits)
    window = math.prod(size[d] for rank in inputs.ranks if len(rank) > 1 for d, _ in rank if d in weights.dims)
    points = inputs.words(size) // (batch * k // window)
    reduced = max(1, -(-einsum.macs // (batch * points * (k // window))))
    return Product(points, k // window, reduced, batch, min(1.0, 1 / window), bits)


def gemms_of(products: list[Product]) -> Gemms:
    """Products as arrays."""
    return Gemms.of(
        [p.m for p in products],
        [p.n for p in products],
        [p.k for p in products],
        [p.batch for p in products],
        [p.unique for p in products],
    )


WINDOW = 3
"""Rows and columns of the windows that libraries have these kernels for."""
OUTPUTS = 4
"""Rows and columns of the outputs of a tile: cuDNN's WINOGRAD_NONFUSED, F(4 x 4, 3 x 3). Transformed tensors pass DRAM
between three kernels for the operands and the products. Its fused F(2 x 2, 3 x 3) is not modelled."""
_PLACES = (OUTPUTS + WINDOW - 1) ** 2
"""Places of a transformed tile, each a product of its own."""


def applies(sizes: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """Whether Winograd can compute these convolutions: windows of 3 x 3 that move by 1.

    A window that moves by more has fewer places than the input holds, even without padding.
    """
    dense = (sizes["P"] > sizes["H"] - WINDOW) & (sizes["Q"] > sizes["W"] - WINDOW)
    found: NDArray[np.bool_] = (sizes["R"] == WINDOW) & (sizes["S"] == WINDOW) & dense
    return found


def winograd_gemms(sizes: Mapping[str, Floats], training_pass: str) -> Gemms:
    """Products of the transformed tensors, a batch of (m + r - 1)^2.

    Examples
    --------
    A layer of 56 x 56 outputs in tiles of 4 x 4: 14 x 14 tiles, 36 products; 4.0 times fewer multiply-adds.

    >>> sizes = {name: np.array([value]) for name, value in zip("NCHWKRSPQ", (1, 64, 58, 58, 128, 3, 3, 56, 56))}
    >>> found = winograd_gemms(sizes, "forward")
    >>> [int(size[0]) for size in (found.m, found.n, found.k, found.batch)]
    [196, 128, 64, 36]
    >>> 2 * 56 * 56 * 128 * 64 * 9 / float(found.flops[0])
    4.0
    """
    tiles, c, k = _tiles(sizes, training_pass), sizes["C"], sizes["K"]
    if training_pass == "weight_gradient":
        return Gemms.of(k, c, tiles, _PLACES)
    if training_pass == "input_gradient":
        return Gemms.of(tiles, c, k, _PLACES)
    return Gemms.of(tiles, k, c, _PLACES)


def winograd_us(
    gpu: Gpu, sizes: Mapping[str, Floats], training_pass: str, number_format: str, constants: KernelConstants
) -> Floats:
    """Time [us] of convolutions whose windows move by 1.

    Parameters
    ----------
    sizes : mapping of str to float[P]
        By the names of `SIZES`.
    training_pass : str
        One of `PASSES`.

    Notes
    -----
    Each transform is a kernel that reads one form and writes the other at DRAM bandwidth, and the products read and
    write transformed tensors.
    """
    products = time_gemms(gpu, winograd_gemms(sizes, training_pass), number_format, constants)
    return products.time_us + transforms(gpu, sizes, training_pass, number_format, constants)[1]


def transforms(
    gpu: Gpu, sizes: Mapping[str, Floats], training_pass: str, number_format: str, constants: KernelConstants
) -> tuple[Floats, Floats]:
    """Bytes that the kernels before and after the products move, and their time [us]."""
    n, c, h, w, k, p, q = (sizes[name] for name in "NCHWKPQ")
    plain = n * c * h * w + n * k * p * q + k * c * WINDOW**2
    transformed = (_tiles(sizes, training_pass) * (c + k) + k * c) * _PLACES
    moved = (plain + transformed) * BYTES[number_format]
    rate = gpu.dram_bytes_per_s * 1e-6 * constants.dram_efficiency
    return moved, moved / rate + 3 * (constants.launch_us + constants.latency_us)


def layer_sizes(einsum: Einsum) -> dict[str, Floats] | None:
    """Sizes of a layer by the names of `SIZES`; None unless it is a convolution for Winograd.

    Its windows are 3 x 3 and move by 1, and it has no groups.

    Examples
    --------
    >>> from accelsim.inputs.workload_reader import load_workload
    >>> found = layer_sizes(load_workload("conv").layers[0])
    >>> {name: int(size[0]) for name, size in found.items()}
    {'N': 1, 'C': 256, 'H': 58, 'W': 58, 'K': 256, 'R': 3, 'S': 3, 'P': 56, 'Q': 56}
    >>> layer_sizes(load_workload("gemm").layers[0]) is None
    True
    """
    operands = [tensor for tensor in einsum.tensors if not tensor.output]
    weights = next((tensor for tensor in operands if tensor.role == "Weights"), None)
    inputs = next((tensor for tensor in operands if tensor.role != "Weights"), None)
    if weights is None or inputs is None or len(operands) != 2:
        return None
    windows = [rank for rank in inputs.ranks if len(rank) > 1]
    if len(windows) != 2 or any(len(rank) != 2 or {step for _, step in rank} != {1} for rank in windows):
        return None
    filters = [next((d for d, _ in rank if d in weights.dims), "") for rank in windows]
    outputs = [next((d for d, _ in rank if d in einsum.output.dims), "") for rank in windows]
    size = einsum.dims
    inner = {*filters, *outputs}
    if len(inner) != 4 or "" in inner or any(size[d] != WINDOW for d in filters):
        return None
    where = {d: (d in inputs.dims, d in weights.dims, d in einsum.output.dims) for d in size if d not in inner}
    kinds = {"N": (True, False, True), "C": (True, True, False), "K": (False, True, True)}
    if not set(where.values()) <= set(kinds.values()):
        return None
    found = {name: math.prod(size[d] for d, kind in where.items() if kind == wanted) for name, wanted in kinds.items()}
    r, s, p, q = (size[d] for d in (*filters, *outputs))
    values = {**found, "H": p + r - 1, "W": q + s - 1, "R": r, "S": s, "P": p, "Q": q}
    return {name: np.array([float(values[name])]) for name in SIZES}


def with_winograd(
    gpu: Gpu, einsum: Einsum, kernel: Kernel, mode: Mode, *, training_pass: str = "forward", l2: str = ROTATING
) -> Kernel:
    """Return the faster of a layer's implicit GEMM and F(4 x 4, 3 x 3); the other is among its `others`.

    Of a kernel that is returned for Winograd, sizes and tiling are those of the products of transformed tensors;
    operations are those of the sliding window, so that its rate may be above the peak.

    Examples
    --------
    >>> from accelsim.gpu.calibration import mode_of
    >>> from accelsim.gpu.catalogue import load_gpu
    >>> from accelsim.gpu.kernel import best_kernels
    >>> from accelsim.gpu.layers import gemms_of, product_of
    >>> from accelsim.inputs.workload_reader import load_workload
    >>> v100, conv = load_gpu("v100"), load_workload("conv").layers[0]
    >>> mode = mode_of(v100, "fp32")
    >>> (gemm,) = best_kernels(v100, ["conv"], gemms_of([product_of(conv)]), "fp32", mode)
    >>> found = with_winograd(v100, conv, gemm, mode)
    >>> found.algorithm, found.batch, found.flops == gemm.flops, found.time_us < 0.7 * gemm.time_us
    ('Winograd F(4x4, 3x3)', 36, True, True)
    """
    sizes = layer_sizes(einsum)
    if sizes is None:
        return kernel
    number_format, constants = kernel.number_format, mode.constants
    gemms = winograd_gemms(sizes, training_pass)
    (products,) = best_kernels(gpu, [kernel.name], gemms, number_format, mode, l2=l2)
    moved, added = (float(x[0]) for x in transforms(gpu, sizes, training_pass, number_format, constants))
    time_us, dram = products.time_us + added, products.dram_bytes + moved
    name = f"Winograd F({OUTPUTS}x{OUTPUTS}, {WINDOW}x{WINDOW})"
    if time_us >= kernel.time_us:
        others = (*kernel.others, (name, time_us))
        return replace(kernel, others=tuple(sorted(others, key=lambda other: other[1])))
    padded = products.flops / products.tile_efficiency
    power = float(
        board_power_w(gpu, number_format, constants, np.array(padded), np.array(dram), np.array(time_us)),
    )
    next_best = [(f"{tile} of Winograd", other + added) for tile, other in products.others]
    next_best.append((f"{kernel.tile} of the implicit GEMM", kernel.time_us))
    low, high = mode.interval
    return replace(
        products,
        algorithm=name,
        parts_us={**products.parts_us, "transforms": added},
        bottleneck="transforms" if added > products.time_us else products.bottleneck,
        time_us=time_us,
        low_us=time_us * low,
        high_us=time_us * high,
        flops=kernel.flops,
        dram_bytes=dram,
        least_bytes=kernel.least_bytes,
        energy_j=power * time_us * 1e-6,
        power_w=power,
        tilings=products.tilings + kernel.tilings,
        others=tuple(sorted(next_best, key=lambda other: other[1])),
    )


def _tiles(sizes: Mapping[str, Floats], training_pass: str) -> Floats:
    """Tiles of all images; of the inputs where these are what is computed."""
    rows, columns = ("H", "W") if training_pass == PASSES[1] else ("P", "Q")
    found: Floats = sizes["N"] * np.ceil(sizes[rows] / OUTPUTS) * np.ceil(sizes[columns] / OUTPUTS)
    return found
