"""Kernels of the layers of a network on a GPU, and the memory that these take.

Layers as matrix products: GEMM as it is, a convolution as implicit GEMM, the passes of training. Attention as one fused
kernel in place of its two products.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction

import numpy as np

from accelsim.gpu.attention_times import attention_shapes, can_fuse, pairs_of, time_attention, word_bytes
from accelsim.gpu.calibration import Mode
from accelsim.gpu.catalogue import BYTES, Gpu, wide_format
from accelsim.gpu.constants import board_power_w
from accelsim.gpu.gemms import USUAL, Gemms, Setup, result_bytes
from accelsim.gpu.kernel import FUSED, Kernel, best_kernels, time_operators, wave_efficiency
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import format_si, listed
from accelsim.inputs.workload import OPERATIONS, Edge, Einsum, Workload

_ALIGNED = 8
"""Channels of which a whole number of loads is made where strides leave each point another number of taps."""


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """An Einsum as a batch of matrix products; `unique` as in `Gemms`."""

    m: int
    n: int
    k: int
    batch: int
    unique: float
    bits: int


def product_of(einsum: Einsum, training_pass: str = "forward") -> MatrixProduct:
    """See an Einsum of two operands as matrix products.

    Dimensions of both operands and the result count the batch (such as groups), those of the inputs and the result are
    M, those of the weights and the result N, those of both operands K. A convolution becomes an implicit GEMM:
    M = N P Q, N = K, K = C R S. The gradient of its inputs has as many multiply-adds as the forward pass: a row for
    each input point that is no padding, and of K R S the taps that reach it, one of each `stride` along a dimension.
    That of its weights has the three sizes in another order.

    `training_pass`: one of `gpu.PASSES`. Raises AccelsimError if it is no product of two tensors.

    >>> from accelsim.inputs.workload_reader import load_workload
    >>> conv = load_workload("conv").layers[0]
    >>> dict(conv.dims)
    {'N': 1, 'K': 256, 'C': 256, 'P': 56, 'Q': 56, 'R': 3, 'S': 3}
    >>> product = product_of(conv)
    >>> product.m, product.n, product.k, round(product.unique, 3)
    (3136, 256, 2304, 0.119)
    >>> [(p.m, p.n, p.k) for p in (product_of(conv, name) for name in ("input_gradient", "weight_gradient"))]
    [(3136, 256, 2304), (256, 2304, 3136)]
    """
    operands = [tensor for tensor in einsum.tensors if not tensor.output]
    if einsum.operation != OPERATIONS[0]:
        raise AccelsimError(f"{einsum.name}: {einsum.operation}; that is not a GEMM")
    if len(operands) != 2:
        many = "one operand" if len(operands) == 1 else f"{len(operands)} operands"
        raise AccelsimError(f"{einsum.name}: {many}; a GEMM has two")
    weights = next((tensor for tensor in operands if tensor.role == "Weights"), operands[1])
    inputs = operands[0] if weights is operands[1] else operands[1]
    output = einsum.output
    size = einsum.dims

    def count(*where: bool) -> int:
        a, b, c = where
        names = (d for d in size if (d in inputs.dims, d in weights.dims, d in output.dims) == (a, b, c))
        return math.prod(size[d] for d in names)

    if count(True, False, False) * count(False, True, False) > 1:
        raise AccelsimError(f"{einsum.name}: a dimension of one operand alone is summed up; that is not a GEMM")
    batch, m = count(True, True, True), count(True, False, True)
    n, k = count(False, True, True), count(True, True, False)
    if batch > m * n * k == 1:
        raise AccelsimError(f"{einsum.name}: goes through both operands word by word; that is not a GEMM")
    unique = min(1.0, inputs.words(size) / (m * k * batch))
    bits = max(tensor.bits for tensor in operands)
    if training_pass == "forward":
        return MatrixProduct(m, n, k, batch, unique, bits)
    if training_pass == "weight_gradient":
        return MatrixProduct(n, k, m, batch, 1.0, bits)
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
    return MatrixProduct(points, k // window, max(1, reduced), batch, min(1.0, m * n / (points * reduced)), bits)


def products_of(
    network: Workload, one: Einsum | None = None, training_pass: str = "forward"
) -> tuple[list[Einsum], list[MatrixProduct], list[str]]:
    """See the layers of a network as matrix products, or `one` of them; and why others are left out.

    No step of training computes the gradient of the data: that of the inputs of the first layer, unless these come from
    an embedding. Raises AccelsimError if no layer is a product.
    """
    layers, products, left_out = [], [], []
    for einsum in [one] if one else network.layers:
        if training_pass == "input_gradient" and one is None and reads_data(network, einsum):
            left_out.append(f"{einsum.name}: reads the data, whose gradient no step computes")
            continue
        try:
            products.append(product_of(einsum, training_pass))
            layers.append(einsum)
        except AccelsimError as error:
            left_out.append(str(error))
    if not products:
        raise AccelsimError(left_out[0])
    return layers, products, left_out


def reads_data(network: Workload, layer: Einsum) -> bool:
    """Whether a layer is the first one of a network of several, and its inputs are data, not embedded tokens."""
    fed = {edge.consumer for edge in network.edges}
    first = bool(fed) and layer is network.layers[0] and layer.name not in fed and layer.repeat == 1
    return first and "tokens" not in network.yields


_OF_WIDTH = {64: "fp64", 32: "fp32", 8: "int8", 4: "int4"}


def format_of_operands(gpu: Gpu, products: Sequence[MatrixProduct]) -> str:
    """Number format of operands of a width, that of 16 bit as serving has it; raises AccelsimError if there is none."""
    widths = {product.bits for product in products}
    if len(widths) > 1 or not widths <= {16, *_OF_WIDTH}:
        raise AccelsimError(f"operands of {listed(map(str, sorted(widths)))} bit: say which number format: --dtype")
    return _OF_WIDTH.get(next(iter(widths))) or wide_format(gpu)


def gemms_of(products: Sequence[MatrixProduct]) -> Gemms:
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
    low, high = (None if bound is None else bound + time_us for bound in (kernel.low_us, kernel.high_us))
    return replace(
        kernel,
        time_us=kernel.time_us + time_us,
        low_us=low,
        high_us=high,
        parts_us={**kernel.parts_us, "turn": time_us},
        others=tuple((name, other_us + time_us) for name, other_us in kernel.others),
        dram_bytes=kernel.dram_bytes + moved,
        sustained_us=None if kernel.sustained_us is None else kernel.sustained_us + time_us,
        power_w=(kernel.power_w * kernel.time_us + power_w * time_us) / (kernel.time_us + time_us),
    )


_MOST_GROUPED = 64
"""Query heads of a key-value head up to which rows of a product, fewer than its keys, are those of one new token."""


def network_kernels(
    gpu: Gpu,
    layers: Sequence[Einsum],
    products: Sequence[MatrixProduct],
    edges: Sequence[Edge],
    number_format: str,
    mode: Mode,
    setup: Setup = USUAL,
    attention: str = "full",
) -> list[tuple[Kernel, int]]:
    """Kernels of the layers of a network, and how often each runs; attention is one of `ATTENTION`.

    Attention stays apart in formats in which it is not measured fused.
    """
    pairs = attention_pairs(layers, products, edges) if attention != "apart" and can_fuse(gpu, number_format) else {}
    ends = {then: at for at, then in pairs.items()}
    alone = [at for at in range(len(layers)) if at not in pairs and at not in ends]
    names, some = [layers[at].name for at in alone], [products[at] for at in alone]
    found = best_kernels(gpu, names, gemms_of(some), number_format, mode, setup) if alone else []
    kernels = dict(zip(alone, found, strict=True))
    for then, at in ends.items():
        both = (layers[at].name, layers[then].name)
        causal = attention == "causal"
        kernels[then] = attention_kernel(gpu, both, products[at], products[then], number_format, mode, causal=causal)
    return [(kernels[at], layers[at].repeat) for at in sorted(kernels)]


def attention_pairs(
    layers: Sequence[Einsum], products: Sequence[MatrixProduct], edges: Sequence[Edge]
) -> dict[int, int]:
    """Index of the layers that multiply queries with keys, and of those that multiply the result with values.

    Both are batches of products, as many and of as many rows; what the first gives is the inputs of the second alone,
    after a soft-max if there is one. There are as many keys as tokens, or more.
    """
    at, found = {layer.name: index for index, layer in enumerate(layers)}, {}
    readers = {one.producer: [edge.consumer for edge in edges if edge.producer == one.producer] for one in edges}
    for producer, consumers in readers.items():
        while len(consumers) == 1 and consumers[0] not in at:
            consumers = readers.get(consumers[0], [])
        if len(consumers) != 1 or producer not in at:
            continue
        first, second = products[at[producer]], products[at[consumers[0]]]
        same = (first.m, first.n, first.batch) == (second.m, second.k, second.batch)
        same &= first.m % first.n == 0 or first.m <= first.n
        if same and first.batch > 1 and layers[at[producer]].repeat == layers[at[consumers[0]]].repeat:
            found[at[producer]] = at[consumers[0]]
    return found


def attention_kernel(
    gpu: Gpu,
    names: tuple[str, str],
    first: MatrixProduct,
    second: MatrixProduct,
    number_format: str,
    mode: Mode,
    *,
    causal: bool,
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
        blocks=blocks,
        waves=blocks / gpu.sms,
        wave_efficiency=wave_efficiency(blocks, gpu.sms),
        parts_us=parts,
        bottleneck=max(parts, key=lambda name: parts[name]),
        flops=flops,
        l2_bytes=moved,
        least_bytes=moved,
        time_us=time_us,
        dram_bytes=moved,
        power_w=power_w,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes of the fullest GPU, and the room that it has."""

    weights: float
    gradients: float = 0.0
    optimizer: float = 0.0
    cache: float = 0.0
    activations: float
    room: float

    @property
    def parts(self) -> dict[str, float]:
        """Bytes by what there is."""
        every = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "room"}
        return {name: size for name, size in every.items() if size}

    @property
    def total(self) -> float:
        """Bytes that are there at once."""
        return sum(self.parts.values())

    @property
    def fits(self) -> bool:
        """Whether there is room."""
        return self.total <= self.room

    @property
    def text(self) -> str:
        """The parts in words."""
        return listed(f"{name} {format_si(size, 'B')}" for name, size in self.parts.items())


def memory_of(gpu: Gpu, layers: Sequence[Einsum], number_format: str) -> Memory:
    """Memory of layers of two operands in a number format: weights, caches, inputs and results of the largest layer.

    Weights that each sequence of a batch and each head has of its own are a key-value cache.

    >>> from accelsim.gpu.catalogue import load_gpu
    >>> from accelsim.inputs.workload_reader import load_workload
    >>> layers, *_ = products_of(load_workload("llama_decode"))
    >>> found = memory_of(load_gpu("h100"), layers, "bf16")
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
    return Memory(weights=weights, cache=cache, activations=activations, room=gpu.memory_bytes)


def too_large(gpu: Gpu, layers: Sequence[Einsum], number_format: str) -> str:
    """Say that a GPU's memory has no room for layers, and what fits; nothing if it has."""
    need = memory_of(gpu, layers, number_format)
    if need.fits:
        return ""
    narrower = [
        name
        for name in gpu.operations_per_sm_cycle
        if BYTES[name] < BYTES[number_format] and memory_of(gpu, layers, name).fits
    ]
    cards = math.ceil(need.total / gpu.memory_bytes)
    fits = ["in a larger slice" if ":" in gpu.name else f"on {cards} of these together"]
    fits += [f"with --dtype {narrower[0]}"] if narrower else []
    return (
        f"{gpu.name} has {format_si(gpu.memory_bytes, 'B')}; {format_si(need.total, 'B')} are needed ({need.text}); "
        f"it fits {', '.join(fits)}, or with a smaller batch or sequence"
    )
