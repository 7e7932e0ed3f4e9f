"""What no mapping of a layer falls below: compulsory words, the multiply-accumulates and the words they ask for.

A word of an input is read from the outermost level at least once, and a word of the output is written there at least
once (docs/cost-model.md); each multiply-accumulate takes place, and asks a level that may keep the tensor for its word.

Rooflines: what each level's bandwidth allows, against MACs for each byte moved there.

Williams, Waterman and Patterson, CACM 52(4), 2009; a roof for each level: Yang, Kurth and Williams, CCPE 32(20), 2020.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.encode import Constants, encode
from accelsim.model.result import Result

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

    They are not tight: capacity is not looked at, and reads are shared by as many instances as there are.

    >>> from accelsim import load_architecture, load_workload
    >>> limits = layer_limits(load_architecture("eyeriss"), load_workload("conv").layers[0])
    >>> f"{limits.energy_pj / 1_849_688_064:.3f} pJ/MAC, {limits.cycles:,} cycles"
    '4.244 pJ/MAC, 11,010,048 cycles'
    """
    c, macs = encode(architecture, einsum).constants, einsum.macs
    compulsory = [touched_words(einsum, tensor) * int(c.word_parts[0, t, 0]) for t, tensor in enumerate(einsum.tensors)]
    written = compulsory[int(c.output[0])]
    cycles = -(-macs * int(c.mac_cycles[0]) // architecture.macs)
    for port, words in enumerate((sum(compulsory), sum(compulsory) - written, written, sum(compulsory))):
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
            max(requested, outer) if index == 0 else requested + outer
            for index, requested in _asks(architecture, einsum, t, c)
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

    >>> from accelsim import load_workload
    >>> layer = load_workload("strided").layers[0]
    >>> touched_words(layer, layer.tensors[1]), layer.tensors[1].words(layer.dims)
    (157323, 157323)
    """
    return math.prod(_points(einsum, rank) for rank in tensor.ranks)


def _points(einsum: Einsum, rank: tuple[tuple[str, int], ...]) -> int:
    terms = [(factor, einsum.dims[dim]) for dim, factor in rank]
    found = different_sums(terms)
    if found is not None:
        return found
    if math.prod(bound for _, bound in terms) > _MOST_SUMS:
        return max(bound for _, bound in terms)
    return len({sum(point) for point in itertools.product(*(range(0, n * f, f) for f, n in terms))})


def different_sums(terms: Iterable[tuple[int, int]]) -> int | None:
    """How many different sums a multiple of each step has; None where sums meet here and leave gaps there.

    `terms`: each step, and how many multiples of it there are, from 0 on.

    A stride of 2 and 3 taps leave no gap, one of 3 and 2 taps never meet, one of 3 and 5 taps two apart do both.

    >>> different_sums([(2, 4), (1, 3)]), different_sums([(3, 4), (1, 2)]), different_sums([(3, 4), (2, 5)])
    (9, 8, None)
    """
    several = sorted((step, count) for step, count in terms if count > 1)
    unit, many, reach, whole = several[0][0] if several else 1, 1, 0, True
    for step, count in several:
        if whole and step % unit == 0 and step <= reach + unit:
            many = (reach + step * (count - 1)) // unit + 1
        elif step > reach:
            many, whole = many * count, False
        else:
            return None
        reach += step * (count - 1)
    return many


@dataclass(frozen=True, slots=True)
class LevelPort:
    """Ports of all instances of a level together."""

    level: str
    direction: str  # `read`, `write`, or empty where both share the bandwidth
    bytes_per_cycle: float

    @property
    def name(self) -> str:
        """Level, and direction where there is one."""
        return f"{self.level} {self.direction}".rstrip()


@dataclass(frozen=True, slots=True)
class Stand:
    """Where a layer and its mapping stand under the roofline of a machine."""

    layer: str
    repeat: int  # how often the network has it
    least: float  # MACs for each byte at the outermost level, if each word moves once through it
    roof: float  # MACs in a cycle that peak and bandwidth of that level allow then
    moved: float  # MACs for each byte there of the mapping
    reached: float  # MACs in a cycle of the mapping
    limit: str  # what limits the mapping: its bottleneck


def stand(architecture: Architecture, einsum: Einsum, result: Result) -> Stand:
    """Where a layer stands under the roofline of the outermost level, at best and with one mapping.

    >>> from accelsim import load_architecture, load_workload
    >>> from accelsim.search.mapper import map_einsum
    >>> machine, layer = load_architecture("two_level"), load_workload("conv1d").layers[0]
    >>> found = stand(machine, layer, map_einsum(machine, layer).best)
    >>> round(found.least, 3), found.roof, round(found.moved, 3), found.reached, found.limit
    (0.571, 1.0, 0.571, 1.0, 'MAC')
    """
    outer = LevelPort(architecture.levels[0].name, "", 0.0)
    allowed = [peak_macs_per_cycle(architecture)]
    for port in ports(architecture):
        least = least_bytes(architecture, einsum, port)
        if port.level == outer.level and least:
            allowed.append(einsum.macs / least * port.bytes_per_cycle)
    return Stand(
        layer=einsum.name,
        repeat=einsum.repeat,
        least=einsum.macs / least_bytes(architecture, einsum, outer),
        roof=min(allowed),
        moved=result.macs / bytes_moved(result, outer),
        reached=result.macs / result.cycles,
        limit=result.bottleneck,
    )


def least_bytes(architecture: Architecture, einsum: Einsum, port: LevelPort) -> float:
    """Bytes that go through a port of the outermost level if each word of the layer moves once."""
    outer = architecture.levels[0]

    def moves(tensor: Tensor) -> bool:
        return port.direction in ("", "write" if tensor.output else "read")

    words = (touched_words(einsum, t) * outer.element_words(t) for t in einsum.tensors if moves(t))
    return float(sum(words)) * outer.word_bits / 8


def ports(architecture: Architecture) -> list[LevelPort]:
    """Ports whose bandwidth is limited, outermost first."""
    found = []
    for index, level in enumerate(architecture.levels):
        rates = {"": level.bandwidth, "read": level.read_bandwidth, "write": level.write_bandwidth}
        for direction, rate in rates.items():
            if rate is not None:
                total = float(rate) * level.word_bits / 8 * architecture.instances(index)
                found.append(LevelPort(level.name, direction, total))
    return found


def peak_macs_per_cycle(architecture: Architecture) -> float:
    """MACs that all compute units together can do in a cycle."""
    return architecture.macs / architecture.compute.cycles_per_mac


def bytes_moved(result: Result, port: LevelPort) -> float:
    """Bytes that go through the ports of all instances of a level."""
    width = next(level.word_bits for level in result.levels if level.level == port.level)
    moved = 0.0
    for tensor in result.tensors:
        if tensor.level == port.level:
            read = tensor.total_reads if port.direction != "write" else 0
            written = tensor.total_fills + tensor.total_updates if port.direction != "read" else 0
            moved += float(tensor.storage_words(read + written, width))
    return moved * width / 8


def macs_per_byte(result: Result, port: LevelPort) -> float | None:
    """Arithmetic intensity at a level's ports; None where nothing moves."""
    moved = bytes_moved(result, port)
    return result.macs / moved if moved else None
