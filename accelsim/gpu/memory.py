"""What a GPU holds at once, beside the room that it has: layers of a network, a decoder that serves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

from accelsim.gpu.catalogue import BYTES, Gpu
from accelsim.gpu.gemm import result_bytes
from accelsim.inputs.units import format_si, listed
from accelsim.inputs.workload import Einsum


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes of the fullest GPU, and the room that it has."""

    weights: float
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

    Examples
    --------
    >>> from accelsim.gpu.catalogue import load_gpu
    >>> from accelsim.inputs.workload_reader import load_workload
    >>> layers = [einsum for einsum in load_workload("llama_decode").layers]
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
    fits = [f"{cards} of these share it", *([f"--dtype {narrower[0]}"] if narrower else [])]
    return (
        f"{gpu.name} has {format_si(gpu.memory_bytes, 'B')}; {format_si(need.total, 'B')} are needed ({need.text}); "
        f"it fits where {' or with '.join(fits)}, or with a smaller batch or sequence"
    )
