"""Evaluate mappings: one with every detail, or batches with energy and cycles alone."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import Loop, Mapping, leaves_remainder, overlong_loops
from accelsim.inputs.nodes import arrange_for, first_nodes, level_nodes
from accelsim.inputs.units import format_bits
from accelsim.inputs.workload import ROLES, Einsum, pad, shared_rank
from accelsim.model.detail import FIRST, TILES, WORDS, Detail, make_detail
from accelsim.model.encode import Encoded, encode, encode_mappings
from accelsim.model.fills import computing_cycles, level_fills
from accelsim.model.ramps import array_ramps, level_moves
from accelsim.model.result import LevelResult, Parts, Result, TensorAtLevel, TensorBursts, TensorOnNetwork, Violation


def evaluate(architecture: Architecture, einsum: Einsum, mapping: Mapping) -> Result:
    """Evaluate one mapping.

    Parameters
    ----------
    einsum : Einsum
        One layer of a workload.
    mapping : Mapping
        Its loops must multiply to the bounds of the Einsum, or cover those that it names imperfect; fanout and capacity
        may be exceeded, `violations` then tells. A level that stands in it several times, each time with other tensors,
        is mapped unevenly; bounds that it pads replace the Einsum's.

    Returns
    -------
    Result
        Energy, cycles and all counts, as docs/model.md has them.

    Raises
    ------
    AccelsimError
        If an energy is missing from the architecture, or counts could pass 2**62.
    ValueError
        If the mapping's levels or loop bounds do not fit the architecture and the Einsum.
    """
    return evaluate_encoded(encode(arrange_for(architecture, mapping), pad(einsum, mapping.padding)), mapping)


def evaluate_encoded(encoded: Encoded, mapping: Mapping) -> Result:
    """Evaluate one mapping on an encoded machine, with the mapping's storage nodes, and Einsum; see `evaluate`."""
    architecture, einsum = encoded.architecture, encoded.einsum
    _refuse_misfit(architecture, einsum, mapping)
    ragged = leaves_remainder(mapping, einsum.dims)
    parts = _ragged_parts(encoded, mapping) if ragged else _whole_parts(encoded, mapping)
    levels = []
    for index, first in enumerate(first_nodes(architecture.levels)[:-1]):
        level = architecture.levels[first]
        kept = [t for t in parts.at_level if t.level == level.name]
        levels.append(
            LevelResult(
                level=level.name,
                instances=architecture.instances(first),
                used_instances=parts.used[index],
                used_words=math.ceil(sum(t.storage_words(t.tile_words, level.word_bits) for t in kept)),
                capacity_words=sum(level.rooms.values()) if level.rooms else None,
                word_bits=level.word_bits,
                cycles=parts.cycles_of[index],
                leak_pj=parts.leak_pj[index],
            )
        )
    busy = parts.steps * architecture.compute.cycles_per_mac + sum(ramp.cycles for ramp in parts.ramps)
    return Result(
        architecture=architecture.name,
        workload=einsum.name,
        bounds=dict(einsum.dims),
        mapping=mapping,
        violations=_violations(encoded, mapping, parts.at_level),
        macs=einsum.real_macs,
        padded_macs=einsum.macs,
        compute=architecture.compute.name,
        compute_instances=architecture.macs,
        compute_used=parts.used[-1],
        compute_cycles=parts.steps * architecture.compute.cycles_per_mac,
        cycles_per_mac=architecture.compute.cycles_per_mac,
        compute_pj=einsum.macs * float(encoded.constants.mac[0]),
        energy_pj=parts.energy_pj,
        cycles=parts.cycles,
        clock_hz=architecture.clock_hz,
        levels=tuple(levels),
        tensors=tuple(parts.at_level),
        networks=tuple(parts.on_network),
        ramps=parts.ramps,
        fills=level_fills(architecture, einsum.tensors, parts.at_level, parts.on_network, ragged=ragged),
        moves=parts.moves,
        computing_cycles=computing_cycles(architecture, busy, parts.at_level),
        bursts=_bursts(architecture.levels[0], einsum, mapping, parts)
        if architecture.levels[0].burst_bits is not None and not ragged
        else (),
    )


def _ragged_parts(encoded: Encoded, mapping: Mapping) -> Parts:
    from accelsim.model.ragged import ragged_parts

    refuse_remainders(encoded.architecture)
    return ragged_parts(encoded, mapping)


def refuse_remainders(architecture: Architecture) -> None:
    """Raise if an engine moves tiles of one size only, so that no loop may leave a remainder."""
    for level in architecture.levels:
        if level.dma is not None:
            why = f"the dma of level {level.name} moves tiles of one size only"
            raise AccelsimError(f"{why}; use loops that leave no remainder, or pad the bounds")


def _bursts(outermost: Level, einsum: Einsum, mapping: Mapping, parts: Parts) -> tuple[TensorBursts, ...]:
    from accelsim.model.bursts import outer_bursts

    return outer_bursts(outermost, einsum, mapping, parts.at_level, parts.on_network)


def _whole_parts(encoded: Encoded, mapping: Mapping) -> Parts:
    """Count a mapping whose loops leave no remainder."""
    from accelsim.model.kernel import BY_READ, BY_TRANSFER, BY_UPDATE, BY_WRITE, evaluate_many

    s = make_detail(encoded)
    batch = encode_mappings(encoded, [mapping])
    status, energy, cycles = np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.int64)
    evaluate_many.once(encoded.constants, batch, s, True, status, energy, cycles)
    first = first_nodes(encoded.architecture.levels)
    at_level, on_network = [], []
    for index, level in enumerate(encoded.architecture.levels):
        for t, tensor in enumerate(encoded.tensors):
            if not batch.keep[0, index, t]:
                continue
            used, partial = int(s.used[index]), bool(s.partial[index, t])
            reads, fills, updates = (int(words[index, t]) for words in (s.reads, s.fills, s.updates))
            at_level.append(
                TensorAtLevel(
                    level=level.name,
                    tensor=tensor.name,
                    tile_words=int(s.tile[index, t]),
                    word_bits=tensor.psum_bits if partial else tensor.bits,
                    reads=reads,
                    fills=fills,
                    updates=updates,
                    total_reads=reads * used,
                    total_fills=fills * used,
                    total_updates=updates * used,
                    partial=partial,
                    read_pj=float(s.energy[index, t, BY_READ]),
                    write_pj=float(s.energy[index, t, BY_WRITE]),
                    update_pj=float(s.energy[index, t, BY_UPDATE]),
                    compression=level.stored_share(tensor.role, partial=partial),
                    drains=_drains(s, batch.keep[0, :, t].tolist(), index, t) if tensor.output else 0,
                )
            )
    for below in first[1:]:
        network = below - 1
        for t, tensor in enumerate(encoded.tensors):
            children, transfers = int(s.used[below] // s.used[network]), int(s.transfers[network, t])
            distinct, distinct_up = (int(groups) for groups in s.groups[network, t])
            on_network.append(
                TensorOnNetwork(
                    level=encoded.architecture.levels[network].name,
                    tensor=tensor.name,
                    children=children,
                    distinct=distinct,
                    distinct_up=distinct_up if tensor.output else 0,
                    transfers=transfers,
                    total_transfers=transfers * int(s.used[below]),
                    energy_pj=float(s.energy[network, t, BY_TRANSFER]),
                    multicast=children / distinct,
                    spatial_reduction=children / distinct_up if tensor.output else 1.0,
                )
            )
    array = s.array.tolist()
    steps = int(s.steps[-1])
    compute_cycles = steps * encoded.architecture.compute.cycles_per_mac
    return Parts(
        used=[int(s.used[node]) for node in first],
        steps=steps,
        at_level=at_level,
        on_network=on_network,
        cycles_of=[int(s.cycles[node]) for node in first[:-1]],
        leak_pj=[float(s.leak[node]) for node in first[:-1]],
        energy_pj=float(energy[0]),
        cycles=int(cycles[0]),
        ramps=array_ramps(encoded, compute_cycles, array[TILES], array[WORDS], array[FIRST]),
        moves=level_moves(encoded, s, batch.keep[0]),
    )


def _drains(detail: Detail, keep: list[bool], level: int, tensor: int) -> int:
    """Output words that leave a tile: updates of the next level out that keeps the tensor, for one of its groups."""
    if level == 0:
        return 0
    parent = max(index for index in range(level) if keep[index])
    groups = math.prod(int(up) for _, up in detail.groups[parent:level, tensor])
    return int(detail.updates[parent, tensor]) // groups


def _refuse_misfit(architecture: Architecture, einsum: Einsum, mapping: Mapping) -> None:
    product = dict.fromkeys(einsum.dims, 1)
    loops: dict[str, list[Loop]] = {dim: [] for dim in einsum.dims}
    for level in mapping.levels:
        if len({loop.dim for loop in level.temporal}) < len(level.temporal):
            raise ValueError(f"level {level.level}: a dimension may have one temporal loop in a level")
        for loop in (*level.temporal, *level.x, *level.y):
            if loop.dim not in product:
                raise ValueError(f"level {level.level}: {einsum.name} has no dimension {loop.dim}")
            product[loop.dim] *= loop.bound
            loops[loop.dim].append(loop)
    for dim, bound in einsum.dims.items():
        if product[dim] < bound or (product[dim] > bound and dim not in mapping.imperfect):
            raise ValueError(f"loops over {dim} multiply to {product[dim]}, not to its bound {bound}")
        _refuse_remainder(einsum, dim, loops[dim], product[dim])
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


def _refuse_remainder(einsum: Einsum, dim: str, loops: list[Loop], product: int) -> None:
    """Refuse loops that cover more than a bound where no remainder is possible, or that are longer than they get."""
    bound = einsum.dims[dim]
    if product == bound:
        return
    rank = shared_rank(einsum, dim)
    if rank is not None:
        raise ValueError(f"{dim} can leave no remainder: it shares the rank {rank}; pad its bound instead")
    for index, most in overlong_loops(loops, bound):
        raise ValueError(f"loop {loops[index]} is longer than it gets, {most}: {dim} is {bound}")


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
        held: dict[str, int | Fraction] = dict.fromkeys(ROLES, 0)
        for t in at_level:
            if t.level == level.name:
                held[roles[t.tensor]] += t.storage_words(t.tile_words, level.word_bits)
        for role, room in level.rooms.items():
            needs = held[role] if role else sum(held.values())
            if needs > room:
                found.append(_too_small(f"{level.name} ({role})" if role else level.name, needs, room, level))
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


def _too_small(name: str, needs: int | Fraction, room: int, level: Level) -> Violation:
    buffers = level.multiple_buffering
    half = f" for the working tile ({buffers} buffers)" if buffers > 1 else ""
    least, has = (format_bits(math.ceil(words * level.word_bits)) for words in (needs, room))
    return Violation(f"{name} needs {least}, has {has}{half}", float(needs / room) if room else math.inf)
