"""Evaluate mappings: one with every detail, or batches with energy and cycles alone."""

from __future__ import annotations

import itertools
import math

import numpy as np

from accelsim.architecture import Architecture, Level
from accelsim.mapping import Mapping
from accelsim.model.encode import Encoded, encode, encode_mappings
from accelsim.nodes import arrange_for, first_nodes, level_nodes
from accelsim.result import LevelResult, Result, TensorAtLevel, TensorOnNetwork, Violation
from accelsim.units import format_bits
from accelsim.workload import ROLES, Einsum


def evaluate(architecture: Architecture, einsum: Einsum, mapping: Mapping) -> Result:
    """Evaluate one mapping.

    Parameters
    ----------
    architecture : Architecture
    einsum : Einsum
        One layer of a workload.
    mapping : Mapping
        Its loops must multiply to the bounds of the Einsum; fanout and capacity may be exceeded, `violations` then
        tells. A level that stands in it several times, each time with other tensors, is mapped unevenly.

    Returns
    -------
    Result
        Energy, cycles and all counts, by MODEL.md sections 4 to 6 (docs/model.md).

    Raises
    ------
    AccelsimError
        If an energy is missing from the architecture, or counts could pass 2**62.
    ValueError
        If the mapping's levels or loop bounds do not fit the architecture and the Einsum.
    """
    return evaluate_encoded(encode(arrange_for(architecture, mapping), einsum), mapping)


def evaluate_encoded(encoded: Encoded, mapping: Mapping) -> Result:
    """Evaluate one mapping on an encoded machine and Einsum; see `evaluate`."""
    from accelsim.model.detail import make_detail
    from accelsim.model.kernel import BY_READ, BY_TRANSFER, BY_UPDATE, BY_WRITE, evaluate_many

    architecture, einsum, tensors = encoded.architecture, encoded.einsum, encoded.tensors
    _refuse_misfit(architecture, einsum, mapping)
    s = make_detail(encoded)
    batch = encode_mappings(encoded, [mapping])
    status, energy, cycles = np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.int64)
    evaluate_many(encoded.constants, batch, s, True, status, energy, cycles)
    levels: list[LevelResult] = []
    at_level: list[TensorAtLevel] = []
    on_network: list[TensorOnNetwork] = []
    for first, end in itertools.pairwise(first_nodes(architecture.levels)):
        level, used_words = architecture.levels[end - 1], 0
        for index, t in itertools.product(range(first, end), range(len(tensors))):
            if batch.keep[0, index, t]:
                tensor, partial = tensors[t], bool(s.partial[index, t])
                used_words += int(s.tile[index, t] * encoded.constants.word_parts[index, t, int(partial)])
                at_level.append(
                    TensorAtLevel(
                        level=level.name,
                        tensor=tensor.name,
                        tile_words=int(s.tile[index, t]),
                        word_bits=tensor.psum_bits if partial else tensor.bits,
                        reads=int(s.reads[index, t]),
                        fills=int(s.fills[index, t]),
                        updates=int(s.updates[index, t]),
                        partial=partial,
                        read_pj=float(s.energy[index, t, BY_READ]),
                        write_pj=float(s.energy[index, t, BY_WRITE]),
                        update_pj=float(s.energy[index, t, BY_UPDATE]),
                    )
                )
        on_network += [
            TensorOnNetwork(
                level=level.name,
                tensor=tensor.name,
                children=int(s.used[end] // s.used[end - 1]),
                distinct=int(s.groups[end - 1, t, 0]),
                distinct_up=int(s.groups[end - 1, t, 1]) if tensor.output else 0,
                transfers=int(s.transfers[end - 1, t]),
                energy_pj=float(s.energy[end - 1, t, BY_TRANSFER]),
            )
            for t, tensor in enumerate(tensors)
        ]
        partitions = level.partition_words
        capacity = level.size_words if partitions is None else sum(partitions.values())
        levels.append(
            LevelResult(
                level=level.name,
                instances=architecture.instances(first),
                used_instances=int(s.used[first]),
                used_words=used_words,
                capacity_words=None if capacity is None else capacity // level.multiple_buffering,
                word_bits=level.word_bits,
                cycles=int(s.cycles[first]),
                leak_pj=float(s.leak[first]),
            )
        )
    steps = int(s.steps[-1])
    return Result(
        architecture=architecture.name,
        workload=einsum.name,
        mapping=mapping,
        violations=_violations(encoded, mapping, at_level),
        macs=einsum.macs,
        compute=architecture.compute.name,
        compute_instances=architecture.macs,
        compute_used=int(s.used[-1]),
        compute_cycles=steps * architecture.compute.cycles_per_mac,
        cycles_per_mac=architecture.compute.cycles_per_mac,
        compute_pj=einsum.macs * float(encoded.constants.mac[0]),
        energy_pj=float(energy[0]),
        cycles=int(cycles[0]),
        clock_hz=architecture.clock_hz,
        levels=tuple(levels),
        tensors=tuple(at_level),
        networks=tuple(on_network),
    )


def _refuse_misfit(architecture: Architecture, einsum: Einsum, mapping: Mapping) -> None:
    product = dict.fromkeys(einsum.dims, 1)
    for level in mapping.levels:
        if len({loop.dim for loop in level.temporal}) < len(level.temporal):
            raise ValueError(f"level {level.level}: a dimension may have one temporal loop in a level")
        for loop in (*level.temporal, *level.x, *level.y):
            if loop.dim not in product:
                raise ValueError(f"level {level.level}: {einsum.name} has no dimension {loop.dim}")
            product[loop.dim] *= loop.bound
    for dim, bound in einsum.dims.items():
        if product[dim] != bound:
            raise ValueError(f"loops over {dim} multiply to {product[dim]}, not to its bound {bound}")
    names = {tensor.name for tensor in einsum.tensors}
    for level in mapping.levels:
        if level.keep - names:
            strangers = ", ".join(sorted(level.keep - names))
            raise ValueError(f"level {level.level} keeps {strangers}, which {einsum.name} has not")
    for name, nodes in level_nodes(mapping):
        twice = sorted({tensor for tensor in names if sum(tensor in node.keep for node in nodes) > 1})
        if twice:
            raise ValueError(f"level {name} keeps {', '.join(twice)} at two places of the nest")
        if any(loop.bound > 1 for node in nodes[:-1] for loop in (*node.x, *node.y)):
            raise ValueError(f"level {name} has spatial loops above one of its own nodes; its fanout lies below all")
    outermost = mapping.levels[0]
    if names - outermost.keep:
        missing = ", ".join(sorted(names - outermost.keep))
        raise ValueError(f"the outermost level {outermost.level} must keep every tensor; it lacks {missing}")


def _physical(architecture: Architecture) -> list[Level]:
    """Each level once: its last node, which has its fanout."""
    return [architecture.levels[end - 1] for end in first_nodes(architecture.levels)[1:]]


def _violations(encoded: Encoded, mapping: Mapping, at_level: list[TensorAtLevel]) -> tuple[Violation, ...]:
    """Every fanout, capacity and keep rule that a mapping breaks."""
    found: list[Violation] = []
    roles = {tensor.name: tensor.role for tensor in encoded.tensors}
    for level, (_, nodes) in zip(_physical(encoded.architecture), level_nodes(mapping), strict=True):
        for name, axis, loops in (("x", level.x, nodes[-1].x), ("y", level.y, nodes[-1].y)):
            spread = math.prod(loop.bound for loop in loops)
            if spread > axis.size:
                text = f"{level.name} spreads over {spread} instances on {name}, its fanout is {axis.size}"
                found.append(Violation(text, spread / axis.size))
        held = dict.fromkeys(ROLES, 0)
        for t in at_level:
            if t.level == level.name:
                held[roles[t.tensor]] += t.tile_words * -(-t.word_bits // level.word_bits)
        for role, room in (level.partition_words or {}).items():
            if held[role] > room // level.multiple_buffering:
                found.append(
                    _too_small(f"{level.name} ({role})", held[role], room, level.word_bits, level.multiple_buffering)
                )
        if level.size_words is not None and sum(held.values()) > level.size_words // level.multiple_buffering:
            found.append(
                _too_small(level.name, sum(held.values()), level.size_words, level.word_bits, level.multiple_buffering)
            )
        kept = frozenset().union(*(node.keep for node in nodes))
        for tensor in sorted(kept):
            if roles[tensor] in level.bypass:
                found.append(Violation(f"{level.name} must bypass {tensor}", math.inf))
            elif level.partition_words is not None and roles[tensor] not in level.partition_words:
                found.append(Violation(f"{level.name} has no partition for {tensor}", math.inf))
        found += [
            Violation(f"{level.name} must keep {name}", math.inf)
            for name in sorted(roles.keys() - kept)
            if roles[name] in level.keep
        ]
    return tuple(found)


def _too_small(name: str, needs: int, words: int, word_bits: int, buffering: int) -> Violation:
    has = format_bits(words // buffering * word_bits)
    half = f" for the working tile ({buffering} buffers)" if buffering > 1 else ""
    text = f"{name} needs {format_bits(needs * word_bits)}, has {has}{half}"
    return Violation(text, needs * buffering / words if words else math.inf)
