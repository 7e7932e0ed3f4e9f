"""Memory that a network needs on a GPU, beside what the card, or its MIG slice, has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from accelsim.gpu.catalogue import BYTES, Gpu
from accelsim.gpu.gemm import result_bytes
from accelsim.inputs.units import format_si, listed
from accelsim.inputs.workload import Einsum


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
