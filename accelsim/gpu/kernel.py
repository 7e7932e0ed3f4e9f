"""The best kernel of a layer on a GPU: its tiling, its time and what that is made of.

Layers as matrix products: GEMM as it is, a convolution as implicit GEMM, the passes of training.

Convolutions by Winograd's minimal filtering: fewer multiplications, and tensors that are transformed.
Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, sections 3 to 5. F(m x m, r x r) makes
m x m outputs of a channel with (m + r - 1)^2 multiplications, where sliding the window takes m^2 r^2. Each of the
(m + r - 1)^2 places of a tile is a matrix product of its own, of tiles x channels by channels x output channels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accelsim.gpu import ROTATING
from accelsim.gpu.calibration import Mode
from accelsim.gpu.catalogue import BYTES, Gpu
from accelsim.gpu.constants import SPLITS, Floats, KernelConstants, TileSet, board_power_w, tile_set
from accelsim.gpu.gemm import Gemms, Times, result_bytes, time_gemms
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload import Einsum

LONGEST = ("tensor", "stream", "l2", "dram")
"""Resources of which the busiest is the bottleneck: multiply-adds, an SM's loads, L2, DRAM."""
_NAMES = {"tensor": "math", "stream": "loads of an SM", "l2": "L2 bandwidth", "dram": "DRAM bandwidth"}


@dataclass(frozen=True, slots=True)
class Kernel:
    """A product on a GPU with its fastest tiling.

    Attributes
    ----------
    tile : str
        Output tile of a block, such as 128x256, or `gemv`.
    schedule : str
        `data-parallel` or `split-K`; empty for `gemv`.
    split : int
        Parts of K.
    blocks, occupancy : int
        Blocks of the grid; blocks at once on an SM.
    waves : float
        Blocks over those that run at once.
    tile_efficiency, wave_efficiency : float
        Share of the tiles' products that are wanted; average over the largest number of blocks of an SM.
    parts_us : dict of str to float
        Time of each resource, and what is added.
    time_us, low_us, high_us : float
        Predicted, and the interval that four fifths of kernels are expected in.
    flops, dram_bytes, l2_bytes, least_bytes : float
        Wanted operations; traffic; and bytes of all tensors, each once.
    energy_j, power_w : float
        Of one run, and of the board while it repeats.
    tilings : int
        How many were compared: the whole space.
    others : tuple of (str, float)
        The next best tilings, each of another tile, and their times [us].
    algorithm : str
        `GEMM`, an implicit one for convolutions; or Winograd's, whose products these sizes and tiles are of.
    """

    name: str
    gpu: str
    number_format: str
    mode: str
    m: int
    n: int
    k: int
    batch: int
    tile: str
    schedule: str
    split: int
    blocks: int
    occupancy: int
    waves: float
    tile_efficiency: float
    wave_efficiency: float
    parts_us: Mapping[str, float]
    bottleneck: str
    time_us: float
    low_us: float
    high_us: float
    flops: float
    dram_bytes: float
    l2_bytes: float
    least_bytes: float
    energy_j: float
    power_w: float
    tilings: int
    others: tuple[tuple[str, float], ...] = ()
    algorithm: str = "GEMM"

    @property
    def tflops(self) -> float:
        """Operations that are wanted, over the time [TFLOPS]."""
        return self.flops / self.time_us * 1e-6


def wave_efficiency(blocks: int, slots: int) -> float:
    """Share of the slots that work, on average over the waves of a grid.

    Examples
    --------
    NVIDIA's guide: 12 blocks on a GPU of 8 SMs, one block on each at a time, use 75 % of it.

    >>> wave_efficiency(12, 8)
    0.75
    """
    return blocks / (slots * -(-blocks // slots))


def tile_efficiency(m: int, n: int, rows: int, columns: int) -> float:
    """Share of the tiles' area that is wanted.

    Examples
    --------
    NVIDIA's guide: a matrix of 27 x 32 tiles of 128 x 128 with one row more has 28 x 32 tiles.

    >>> round(tile_efficiency(27 * 128 + 1, 32 * 128, 128, 128), 3)
    0.965
    """
    return m * n / (-(-m // rows) * rows * -(-n // columns) * columns)


def best_kernels(
    gpu: Gpu, names: Sequence[str], gemms: Gemms, number_format: str, mode: Mode, *, l2: str = ROTATING
) -> list[Kernel]:
    """Choose the fastest tiling and schedule of each product out of all of them.

    Parameters
    ----------
    names : sequence of str
        One for each product.
    mode : Mode
        Constants, calibrated or not.
    l2 : str
        What L2 holds at the start, one of `L2_STATES`.

    Examples
    --------
    >>> from accelsim.gpu.calibration import mode_of
    >>> from accelsim.gpu.catalogue import load_gpu
    >>> a100 = load_gpu("a100")
    >>> (kernel,) = best_kernels(a100, ["cube"], Gemms.of(4096, 4096, 4096), "fp16", mode_of(a100, "fp16"))
    >>> kernel.tile, kernel.bottleneck, 200 < kernel.tflops < 290
    ('128x256', 'math', True)
    """
    times = time_gemms(gpu, gemms, number_format, mode.constants, l2=l2)
    tiles = tile_set(gpu, number_format, mode.constants.in_flight_bytes)
    return [_kernel(gpu, name, gemms, number_format, mode, times, tiles, i) for i, name in enumerate(names)]


def _kernel(
    gpu: Gpu, name: str, gemms: Gemms, number_format: str, mode: Mode, times: Times, tiles: TileSet, i: int
) -> Kernel:
    m, n, k, batch = (int(values[i]) for values in (gemms.m, gemms.n, gemms.k, gemms.batch))
    operands, results = m * k * float(gemms.unique[i]) + k * n, m * n
    tile, split = int(times.tile[i]), SPLITS[int(times.split[i])]
    time_us, flops = float(times.time_us[i]), float(gemms.flops[i])
    parts = {key: float(values[i]) for key, values in times.parts.items()}
    if tile < 0:
        shape, schedule, split, blocks, occupancy, waves = "gemv", "", 1, 0, 0, 0.0
        efficient, even, padded = 1.0, 1.0, flops
        bottleneck = _NAMES["dram"]
    else:
        rows, columns = int(tiles.rows[tile]), int(tiles.columns[tile])
        outputs = -(-m // rows) * -(-n // columns) * batch
        shape, occupancy, steps = tiles.name(tile), int(tiles.occupancy[tile]), math.ceil(k / tiles.step)
        schedule, blocks = "split-K" if split > 1 else "data-parallel", outputs * split
        waves, even = blocks / gpu.sms / occupancy, wave_efficiency(blocks, gpu.sms)
        efficient = tile_efficiency(m, n, rows, columns) * k / (steps * tiles.step)
        padded = flops / efficient
        longest = max(LONGEST, key=lambda key: parts[key])
        added = sum(parts[key] for key in ("launch", "latency", "rounds", "reduction"))
        bottleneck = "launch and latency" if added > parts[longest] else _NAMES[longest]
    return Kernel(
        name=name,
        gpu=gpu.name,
        number_format=number_format,
        mode=mode.text,
        m=m,
        n=n,
        k=k,
        batch=batch,
        tile=shape,
        schedule=schedule,
        split=split,
        blocks=blocks,
        occupancy=occupancy,
        waves=waves,
        tile_efficiency=efficient,
        wave_efficiency=even,
        parts_us=parts,
        bottleneck=bottleneck,
        flops=flops,
        l2_bytes=float(times.l2_bytes[i]),
        least_bytes=(operands * BYTES[number_format] + results * result_bytes(number_format)) * batch,
        tilings=int(np.isfinite(times.by_tiling_us[i]).sum()) + (min(m, n) == 1),
        others=_others(times, tiles, i, tile),
        **_costs(gpu, number_format, mode, time_us, float(times.dram_bytes[i]), padded),
    )


def _costs(
    gpu: Gpu, number_format: str, mode: Mode, time_us: float, dram_bytes: float, padded_flops: float
) -> dict[str, Any]:
    """Fields of a kernel that follow from its time, its traffic and all operations, of padding too."""
    power_w = board_power_w(gpu, number_format, mode.constants, padded_flops, dram_bytes, time_us)
    low, high = mode.interval
    interval = {"time_us": time_us, "low_us": time_us * low, "high_us": time_us * high}
    return {**interval, "dram_bytes": dram_bytes, "energy_j": power_w * time_us * 1e-6, "power_w": power_w}


def _others(times: Times, tiles: TileSet, i: int, chosen: int) -> tuple[tuple[str, float], ...]:
    """Next best tilings, the best split of each tile."""
    fixed = float(times.parts["launch"][i] + times.parts["latency"][i])
    best = times.by_tiling_us[i].min(axis=1)
    order = [t for t in np.argsort(best, kind="stable").tolist() if t != chosen and best[t] < np.inf][:4]
    found = []
    for t in order:
        split = SPLITS[int(times.by_tiling_us[i, t].argmin())]
        found.append((tiles.name(t) + (f" / {split}" if split > 1 else ""), float(best[t]) + fixed))
    return tuple(found)


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

    `training_pass`: one of `PASSES`. Raises AccelsimError if it is no product of two tensors.

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
    batch, m = count(True, True, True), count(True, False, True)
    n, k = count(False, True, True), count(True, True, False)
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
    return Gemms.of(*zip(*((p.m, p.n, p.k, p.batch, p.unique) for p in products), strict=True))


WINDOW = 3
"""Rows and columns of the windows that libraries have these kernels for."""
OUTPUTS = 4
"""Rows and columns of the outputs of a tile: cuDNN's WINOGRAD_NONFUSED, F(4 x 4, 3 x 3). Transformed tensors pass DRAM
between three kernels for the operands and the products. Its fused F(2 x 2, 3 x 3) is not modelled."""
_PLACES = (OUTPUTS + WINDOW - 1) ** 2
"""Places of a transformed tile, each a product of its own."""


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
    >>> from accelsim.gpu.kernel import gemms_of, product_of
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
    next_best = [(f"{tile} of Winograd", other + added) for tile, other in products.others]
    next_best.append((f"{kernel.tile} of the implicit GEMM", kernel.time_us))
    return replace(
        products,
        algorithm=name,
        parts_us={**products.parts_us, "transforms": added},
        bottleneck="transforms" if added > products.time_us else products.bottleneck,
        flops=kernel.flops,
        least_bytes=kernel.least_bytes,
        tilings=products.tilings + kernel.tilings,
        others=tuple(sorted(next_best, key=lambda other: other[1])),
        **_costs(gpu, number_format, mode, time_us, dram, padded),
    )


def _tiles(sizes: Mapping[str, Floats], training_pass: str) -> Floats:
    """Tiles of all images; of the inputs where these are what is computed."""
    rows, columns = ("H", "W") if training_pass == PASSES[1] else ("P", "Q")
    found: Floats = sizes["N"] * np.ceil(sizes[rows] / OUTPUTS) * np.ceil(sizes[columns] / OUTPUTS)
    return found
