"""The best kernel of a layer on a GPU: its tiling, its time and what that is made of.

Layers as matrix products: GEMM as it is, a convolution as implicit GEMM, the passes of training.

Operators that move more than they compute (element-wise, pooling, normalisation, soft-max).

Attention of a network as one fused kernel in place of its two products.

Memory that a network needs, beside what the card, or its MIG slice, has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from accelsim.gpu import LAYOUTS, ROTATING
from accelsim.gpu.attention import attention_shapes, can_fuse, pairs_of, time_attention, word_bytes
from accelsim.gpu.calibration import Mode, mode_of
from accelsim.gpu.catalogue import BYTES, Gpu, without_tensor_cores
from accelsim.gpu.constants import SPLITS, Floats, KernelConstants, TileSet, board_power_w, tile_set
from accelsim.gpu.gemm import Gemms, Times, result_bytes, time_gemms
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import format_si, listed, near_miss
from accelsim.inputs.workload import Edge, Einsum

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
    time_us : float
        Predicted.
    low_us, high_us : float or None
        Interval that four fifths of kernels are expected in; None in formats in which no kernel was measured.
    flops, dram_bytes, l2_bytes, least_bytes : float
        Wanted operations; traffic; and bytes of all tensors, each once.
    energy_j, power_w : float
        Of one run, and of the board while it repeats.
    tilings : int
        How many were compared: the whole space.
    others : tuple of (str, float)
        The next best tilings, each of another tile, and their times [us].
    tensor_cores : bool
        Whether the library computes it on them, or on the vector units.
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
    low_us: float | None
    high_us: float | None
    flops: float
    dram_bytes: float
    l2_bytes: float
    least_bytes: float
    energy_j: float
    power_w: float
    tilings: int
    others: tuple[tuple[str, float], ...] = ()
    tensor_cores: bool = True

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


LIBRARIES = ("cublas11", "cublas10")
"""Generations of libraries: cuBLAS from 11.0 on, and before it, where tensor cores computed FP16 only of sizes that are
multiples of 16 B (NVIDIA's guide to matrix multiplication, tensor core requirements)."""
_TENSOR_BYTES = 16.0


def machines_of(
    gpu: Gpu, gemms: Gemms, number_format: str, mode: Mode, library: str
) -> Iterator[tuple[NDArray[np.bool_], Gpu, Mode]]:
    """Products, bool[P], by the units on which a library computes them: the GPU as it is, or without tensor cores.

    Raises AccelsimError if there is no such library for the GPU and number format.
    """
    every = np.ones(len(gemms), dtype=bool)
    if library == LIBRARIES[0]:
        yield every, gpu, mode
        return
    if number_format != "fp16" or gpu.compute_capability[0] != _LAST_OF_CUBLAS_10:
        raise AccelsimError(
            f"--library {library}: known of fp16 on Volta and Turing, whose tensor cores came before cuBLAS 11; "
            f"not of {number_format} on {gpu.name}"
        )
    multiple = _TENSOR_BYTES / BYTES[number_format]
    aligned = np.all([np.fmod(sizes, multiple) == 0 for sizes in (gemms.m, gemms.n, gemms.k)], axis=0)
    if aligned.any():
        yield aligned, gpu, mode
    if not aligned.all():
        plain = without_tensor_cores(gpu)
        yield every & ~aligned, plain, mode_of(plain, number_format)


_LAST_OF_CUBLAS_10 = 7
"""Compute capability: Volta and Turing; Ampere needs cuBLAS 11."""


def best_kernels(
    gpu: Gpu,
    names: Sequence[str],
    gemms: Gemms,
    number_format: str,
    mode: Mode,
    *,
    l2: str = ROTATING,
    layout: str = LAYOUTS[0],
    library: str = LIBRARIES[0],
    tile: str = "",
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
    layout, library : str
        One of `LAYOUTS` and of `LIBRARIES`.
    tile : str
        As in `time_gemms`.

    Examples
    --------
    >>> from accelsim.gpu.calibration import mode_of
    >>> from accelsim.gpu.catalogue import load_gpu
    >>> a100 = load_gpu("a100")
    >>> (kernel,) = best_kernels(a100, ["cube"], Gemms.of(4096, 4096, 4096), "fp16", mode_of(a100, "fp16"))
    >>> kernel.tile, kernel.bottleneck, 200 < kernel.tflops < 290
    ('128x256', 'math', True)
    """
    found = {}
    for which, machine, own in machines_of(gpu, gemms, number_format, mode, library):
        part, at = gemms.rows(which), np.flatnonzero(which).tolist()
        times = time_gemms(machine, part, number_format, own.constants, l2=l2, layout=layout, tile=tile)
        tiles = tile_set(machine, number_format, own.constants.in_flight_bytes)
        tiles = tiles.only(tile) if tile else tiles
        for i, index in enumerate(at):
            found[index] = _kernel(machine, names[index], part, number_format, own, times, tiles, i)
    return [found[index] for index in range(len(names))]


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
    dram_bytes = float(times.dram_bytes[i])
    low, high = mode.interval or (None, None)
    power_w = board_power_w(gpu, number_format, mode.constants, padded, dram_bytes, time_us)
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
        time_us=time_us,
        low_us=None if low is None else time_us * low,
        high_us=None if high is None else time_us * high,
        dram_bytes=dram_bytes,
        energy_j=power_w * time_us * 1e-6,
        power_w=power_w,
        tensor_cores=number_format in gpu.mma,
    )


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


_ALIGNED = 8
"""Channels of which a whole number of loads is made where strides leave each point another number of taps."""


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
    M = N P Q, N = K, K = C R S. The gradient of its inputs has as many multiply-adds as the forward pass: a row for
    each input point that is no padding, and of K R S the taps that reach it, one of each `stride` along a dimension.
    That of its weights has the three sizes in another order.

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
    [(3136, 256, 2304), (256, 2304, 3136)]
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
    points, window, taps = m, 1, Fraction(1)
    for rank in inputs.ranks:
        steps = [(d, c) for d, c in rank if d in output.dims]
        reach = [(d, c) for d, c in rank if d not in output.dims]
        if not steps or not reach:
            continue
        outputs, kernel = (math.prod(size[d] for d, _ in part) for part in (steps, reach))
        stride = max(c for _, c in steps)
        covered = stride * outputs
        if covered < 1 + sum(c * (size[d] - 1) for d, c in reach):
            covered = inputs.words(size) // (inputs.words({**size, **dict.fromkeys((d for d, _ in rank), 1)}))
        points, window = points // outputs * covered, window * kernel
        taps *= Fraction(outputs * kernel, covered)
    whole = 1 if taps.denominator == 1 or n % _ALIGNED else _ALIGNED
    reduced = whole * math.ceil(n * taps / whole)
    return Product(points, k // window, max(1, reduced), batch, min(1.0, m * n / (points * reduced)), bits)


def gemms_of(products: list[Product]) -> Gemms:
    """Products as arrays."""
    return Gemms.of(*zip(*((p.m, p.n, p.k, p.batch, p.unique) for p in products), strict=True))


def turned(gpu: Gpu, kernel: Kernel, einsum: Einsum, mode: Mode) -> Kernel:
    """Return a convolution whose tensors are NCHW: a kernel each turns what it reads and writes, in every pass.

    A window of one point needs none, as a product of transposed inputs.
    """
    inputs = next(tensor for tensor in einsum.tensors if not tensor.output and tensor.role != "Weights")
    if all(len(rank) == 1 for rank in inputs.ranks):
        return kernel
    words = np.array([float(tensor.words(einsum.dims)) for tensor in (inputs, einsum.output)])
    width = BYTES[kernel.number_format]
    time_us = float(time_operators(gpu, "relu", words, width, mode.constants).sum())
    moved = 2 * width * float(words.sum())
    power_w = board_power_w(gpu, kernel.number_format, mode.constants, 0.0, moved, time_us)
    energy_j = kernel.energy_j + power_w * time_us * 1e-6
    low, high = (None if bound is None else bound + time_us for bound in (kernel.low_us, kernel.high_us))
    return replace(
        kernel,
        time_us=kernel.time_us + time_us,
        low_us=low,
        high_us=high,
        parts_us={**kernel.parts_us, "turn": time_us},
        others=tuple((name, other_us + time_us) for name, other_us in kernel.others),
        dram_bytes=kernel.dram_bytes + moved,
        energy_j=energy_j,
        power_w=energy_j / (kernel.time_us + time_us) * 1e6,
    )


FUSED = "fused attention"
"""Schedule of a kernel that computes both products of attention."""
_MOST_GROUPED = 64
"""Query heads of a key-value head up to which rows of a product, fewer than its keys, are those of one new token."""


APART = "apart"
ATTENTION = ("full", "causal", APART)
"""How attention is computed: fused, every token seeing all keys, or those before it; or as two products."""


def network_kernels(
    gpu: Gpu,
    layers: Sequence[Einsum],
    products: Sequence[Product],
    edges: Sequence[Edge],
    number_format: str,
    mode: Mode,
    l2: str = ROTATING,
    attention: str = "full",
    layout: str = LAYOUTS[0],
    library: str = LIBRARIES[0],
) -> list[tuple[Kernel, int]]:
    """Kernels of the layers of a network, and how often each runs; attention is one of `ATTENTION`.

    Attention stays apart in formats in which it is not measured fused.
    """
    pairs = attention_pairs(layers, products, edges) if attention != APART and can_fuse(gpu, number_format) else {}
    ends = {then: at for at, then in pairs.items()}
    alone = [at for at in range(len(layers)) if at not in pairs and at not in ends]
    names = [layers[at].name for at in alone]
    gemms = gemms_of([products[at] for at in alone])
    found = best_kernels(gpu, names, gemms, number_format, mode, l2=l2, layout=layout, library=library)
    kernels = dict(zip(alone, found, strict=True))
    for then, at in ends.items():
        both = (layers[at].name, layers[then].name)
        causal = attention == "causal"
        kernels[then] = attention_kernel(gpu, both, products[at], products[then], number_format, mode, causal=causal)
    return [(kernels[at], layers[at].repeat) for at in sorted(kernels)]


def attention_pairs(layers: Sequence[Einsum], products: Sequence[Product], edges: Sequence[Edge]) -> dict[int, int]:
    """Index of the layers that multiply queries with keys, and of those that multiply the result with values.

    Both are batches of products, as many and of as many rows; what the first gives is the inputs of the second alone.
    There are as many keys as tokens, or more.
    """
    at = {layer.name: index for index, layer in enumerate(layers)}
    readers: dict[str, list[str]] = {}
    for edge in edges:
        readers.setdefault(edge.producer, []).append(edge.consumer)
    found = {}
    for producer, consumers in readers.items():
        if len(consumers) != 1 or producer not in at or consumers[0] not in at:
            continue
        first, second = products[at[producer]], products[at[consumers[0]]]
        same = (first.m, first.n, first.batch) == (second.m, second.k, second.batch)
        same &= first.m % first.n == 0 or first.m <= first.n
        if same and first.batch > 1 and layers[at[producer]].repeat == layers[at[consumers[0]]].repeat:
            found[at[producer]] = at[consumers[0]]
    return found


def attention_kernel(
    gpu: Gpu, names: tuple[str, str], first: Product, second: Product, number_format: str, mode: Mode, *, causal: bool
) -> Kernel:
    """Fused attention in place of two products.

    Rows are tokens of query heads that share keys: tokens as many as keys, or, where rows are at most 64 and fewer than
    keys, one new token; else as many new tokens as rows, the last ones of the keys.

    Raises AccelsimError if fused attention is not measured in the format.
    """
    rows, keys, width = first.m, first.n, word_bytes(number_format)
    if rows % keys == 0:
        tokens, group = keys, rows // keys
    else:
        tokens, group = (1, rows) if rows <= _MOST_GROUPED else (rows, 1)
    shapes = attention_shapes(
        batch=first.batch,
        tokens=tokens,
        heads=group,
        kv_heads=1,
        head_size=first.k,
        cached=keys - tokens,
        query_bytes=width,
        cache_bytes=width,
        causal=int(causal),
    )
    times = time_attention(gpu, shapes)
    parts = {name: float(values[0]) for name, values in times.parts_us.items()}
    time_us = float(times.time_us[0])
    flops = 2.0 * first.batch * group * (first.k + second.n) * float(pairs_of(shapes)[0])
    moved = first.batch * (rows * first.k + keys * (first.k + second.n)) * BYTES[number_format]
    moved += first.batch * rows * second.n * result_bytes(number_format)
    blocks = max(1, first.batch * math.ceil(tokens / 128) * group)
    power_w = board_power_w(gpu, number_format, mode.constants, flops, moved, time_us)
    return Kernel(
        name=" + ".join(names),
        gpu=gpu.name,
        number_format=number_format,
        mode=times.label,
        m=rows,
        n=keys,
        k=first.k,
        batch=first.batch,
        tile="fused",
        schedule=FUSED,
        split=1,
        blocks=blocks,
        occupancy=1,
        waves=blocks / gpu.sms,
        tile_efficiency=1.0,
        wave_efficiency=wave_efficiency(blocks, gpu.sms),
        parts_us=parts,
        bottleneck=max(parts, key=lambda name: parts[name]),
        flops=flops,
        l2_bytes=moved,
        least_bytes=moved,
        tilings=1,
        others=(),
        time_us=time_us,
        low_us=None,
        high_us=None,
        dram_bytes=moved,
        energy_j=power_w * time_us * 1e-6,
        power_w=power_w,
    )


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
    "batch_norm": (3, 7),
    "batch_norm_persistent": (2, 7),
    "relu_gradient": (3, 1),
}
"""Words read and written, and operations, for each element of the input. A row of soft-max stays in registers or shared
memory between its passes, so that it is read once; PyTorch's layer norm reads a row for its mean and variance, and
again, as does batch norm unless its input stays on the chip (persistent); pooling has stride 1, so that its result is
as large as its input (NVIDIA's guide)."""


def operator(name: str) -> tuple[int, int]:
    """Words and operations of one of `OPERATORS`; raises AccelsimError if it is none."""
    if name not in OPERATORS:
        raise AccelsimError(f"no operator '{name}'; {near_miss(name, OPERATORS) or f'operators: {listed(OPERATORS)}'}")
    return OPERATORS[name]


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
    words, operations = operator(name)
    dram = elements * words * word_bytes / (gpu.dram_bytes_per_s * 1e-6 * constants.dram_efficiency)
    computed = elements * operations / (gpu.flops("fp32") * 0.5e-6)
    return constants.launch_us + constants.latency_us + np.maximum(dram, computed)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of a network: weights and key-value caches of all layers, inputs and results of the largest one."""

    weights: float
    cache: float
    activations: float

    @property
    def total(self) -> float:
        """Bytes that are there at once."""
        return self.weights + self.cache + self.activations


def memory_of(layers: Sequence[Einsum], number_format: str) -> Memory:
    """Memory of layers of two operands in a number format.

    Weights that each sequence of a batch and each head has of its own are a key-value cache.

    Examples
    --------
    >>> from accelsim.inputs.workload_reader import load_workload
    >>> layers = [einsum for einsum in load_workload("llama_decode").layers]
    >>> found = memory_of(layers, "bf16")
    >>> f"{found.weights / 1e9:.1f} GB of weights, {found.cache / 1e6:.0f} MB of cache"
    '15.0 GB of weights, 268 MB of cache'
    """
    weights = cache = activations = 0.0
    for einsum in layers:
        operands = [tensor for tensor in einsum.tensors if not tensor.output]
        fixed = next((tensor for tensor in operands if tensor.role == "Weights"), operands[1])
        moving = operands[0] if fixed is operands[1] else operands[1]
        size = einsum.repeat * fixed.words(einsum.dims) * BYTES[number_format]
        own = fixed.dims & moving.dims & einsum.output.dims
        if math.prod(einsum.dims[dim] for dim in own) > 1 and all(len(rank) == 1 for rank in moving.ranks):
            cache += size
        else:
            weights += size
        read = moving.words(einsum.dims) * BYTES[number_format]
        activations = max(activations, read + einsum.output.words(einsum.dims) * result_bytes(number_format))
    return Memory(weights, cache, activations)


def too_large(gpu: Gpu, layers: Sequence[Einsum], number_format: str) -> str:
    """Say that a GPU's memory has no room for layers, and what fits; nothing if it has."""
    need = memory_of(layers, number_format)
    if need.total <= gpu.memory_bytes:
        return ""
    parts = {"weights": need.weights, "key-value cache": need.cache, "activations": need.activations}
    parted = listed(f"{name} {format_si(size, 'B')}" for name, size in parts.items() if size)
    narrower = [
        name
        for name in gpu.operations_per_sm_cycle
        if BYTES[name] < BYTES[number_format] and memory_of(layers, name).total <= gpu.memory_bytes
    ]
    cards = math.ceil(need.total / gpu.memory_bytes)
    fits = [f"{cards} of these share it", *([f"--dtype {narrower[0]}"] if narrower else [])]
    return (
        f"{gpu.name} has {format_si(gpu.memory_bytes, 'B')}; {format_si(need.total, 'B')} are needed ({parted}); "
        f"it fits where {' or with '.join(fits)}, or with a smaller batch or sequence"
    )
