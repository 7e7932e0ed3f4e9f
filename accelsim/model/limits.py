"""What no mapping of a layer falls below: compulsory words, the multiply-accumulates and the words they ask for.

A word of an input is read from the outermost level at least once, and a word of the output is written there at least
once (docs/model.md); each multiply-accumulate takes place, and asks a level that may keep the tensor for its word.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.encode import Constants, encode

_READ, _UPDATE = 0, 2
_MOST_SUMS = 1_000_000
"""Points of a rank that are listed to count different ones; of more, only the longest dimension is counted."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Lower limits of one layer on one machine, whatever the mapping."""

    energy_pj: float
    cycles: int


def layer_limits(architecture: Architecture, einsum: Einsum) -> Limits:
    """Lower limits of energy [pJ] and cycles.

    Parameters
    ----------
    architecture : Architecture
    einsum : Einsum

    Returns
    -------
    Limits
        Not tight: capacity is not looked at, and reads are shared by as many instances as there are.

    Examples
    --------
    >>> from accelsim import load_architecture, load_workload
    >>> limits = layer_limits(load_architecture("eyeriss"), load_workload("conv").layers[0])
    >>> f"{limits.energy_pj / 1_849_688_064:.3f} pJ/MAC, {limits.cycles:,} cycles"
    '4.244 pJ/MAC, 11,010,048 cycles'
    """
    c, macs = encode(architecture, einsum).constants, einsum.macs
    compulsory = [touched_words(einsum, tensor) * int(c.word_parts[0, t, 0]) for t, tensor in enumerate(einsum.tensors)]
    written = compulsory[int(c.output[0])]
    cycles = -(-macs * int(c.mac_cycles[0]) // architecture.macs)
    for port, words in enumerate((sum(compulsory), sum(compulsory) - written, written)):
        each, time = (int(value) for value in c.bandwidth[0, port])
        if each:
            cycles = max(cycles, -(-words * time // each))
    energy = macs * float(c.mac[0])
    for index in range(len(architecture.levels)):  # instances in use leak, and all MACs take place below them
        below = architecture.macs // architecture.instances(index)
        energy += float(c.leak[index]) * max(cycles, macs * int(c.mac_cycles[0]) / below)
    for t, tensor in enumerate(einsum.tensors):
        action = _UPDATE if tensor.output else _READ
        outer = float(c.energy[0, t, action]) * compulsory[t] / int(c.block[0])
        energy += min(
            max(asked, outer) if index == 0 else asked + outer for index, asked in _asks(architecture, einsum, t, c)
        )
    return Limits(energy, cycles)


def _asks(architecture: Architecture, einsum: Einsum, t: int, c: Constants) -> list[tuple[int, float]]:
    """Levels that the compute units may ask for a tensor, and the least energy [pJ] of all their accesses there.

    They ask the innermost level that keeps tensor number `t`: one that always does, or one further in that may.
    """
    tensor = einsum.tensors[t]
    action = _UPDATE if tensor.output else _READ
    levels = architecture.levels
    surely = max(i for i, level in enumerate(levels) if i == 0 or tensor.role in level.keep)
    found = []
    for index in range(surely, len(levels)):
        if index == surely or tensor.role not in levels[index].bypass:
            below = architecture.macs // architecture.instances(index)
            accesses = einsum.macs / below * int(c.word_parts[index, t].min()) / int(c.block[index])
            found.append((index, float(c.energy[index, t, action]) * accesses))
    return found


def touched_words(einsum: Einsum, tensor: Tensor) -> int:
    """Different words of a tensor that the layer touches at least: without those that a stride leaves out.

    Examples
    --------
    >>> from accelsim import load_workload
    >>> layer = load_workload("strided").layers[0]
    >>> touched_words(layer, layer.tensors[1]), layer.tensors[1].words(layer.dims)
    (157323, 157323)
    """
    return math.prod(_points(einsum, rank) for rank in tensor.ranks)


def _points(einsum: Einsum, rank: tuple[tuple[str, int], ...]) -> int:
    terms = [(einsum.dims[dim], factor) for dim, factor in rank if einsum.dims[dim] > 1]
    if math.prod(bound for bound, _ in terms) > _MOST_SUMS:
        return max(bound for bound, _ in terms)
    if len(terms) < 2:
        return math.prod(bound for bound, _ in terms)
    return len({sum(point) for point in itertools.product(*(range(0, n * f, f) for n, f in terms))})
