"""Evaluate mappings: one with every detail, or batches with energy and cycles alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as StringMap
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import Mapping, leaves_remainder, loop_mistakes, products
from accelsim.inputs.nodes import arrange_for, first_nodes, level_nodes
from accelsim.inputs.units import format_bits
from accelsim.inputs.workload import ROLES, Einsum, pad, shared_rank
from accelsim.model import detail
from accelsim.model.detail import Counted, Detail, make_detail
from accelsim.model.dma import level_moves
from accelsim.model.encode import Encoded, encode, encode_mappings
from accelsim.model.fills import late_fills, tile_fills
from accelsim.model.ports import network_cycles, passing_units
from accelsim.model.result import LevelResult, Result, TensorAtLevel, TensorLayout, TensorOnNetwork, Violation
from accelsim.model.systolic import array_ramps

if TYPE_CHECKING:
    from accelsim.inputs.layouts import DataLayout


def evaluate(
    architecture: Architecture, einsum: Einsum, mapping: Mapping, layouts: StringMap[str, DataLayout] | None = None
) -> Result:
    """Evaluate one mapping.

    Parameters
    ----------
    einsum : Einsum
        One layer of a workload.
    mapping : Mapping
        Its loops must multiply to the bounds of the Einsum, or cover those that it names imperfect; fanout and capacity
        may be exceeded, `violations` then tells. A level that stands in it several times, each time with other tensors,
        is mapped unevenly; bounds that it pads replace the Einsum's.
    layouts : mapping of str to DataLayout, optional
        Data layouts of tensors at the outermost level; default: the ranks one after the other, as the Einsum has them.

    Returns
    -------
    Result
        Energy, cycles and all counts, as docs/cost-model.md defines them.

    Raises AccelsimError if an energy is missing from the architecture, or counts could pass 2**62, ValueError if the
    mapping's levels or loop bounds do not fit the architecture and the Einsum.
    """
    encoded = encode(arrange_for(architecture, mapping), pad(einsum, mapping.padding))
    return result_of(encoded, mapping, count(encoded, mapping), layouts)


def evaluate_encoded(encoded: Encoded, mapping: Mapping) -> Result:
    """Evaluate one mapping on an encoded machine, with the mapping's storage nodes, and Einsum; see `evaluate`."""
    return result_of(encoded, mapping, count(encoded, mapping))


def count(encoded: Encoded, mapping: Mapping) -> Counted:
    """Count what a mapping moves; raises as `evaluate`."""
    _refuse_misfit(encoded.architecture, encoded.einsum, mapping)
    if not leaves_remainder(mapping, encoded.einsum.dims):
        return _count_whole(encoded, mapping)
    from accelsim.model.ragged import count_ragged

    refuse_linked_remainders(encoded.architecture)
    nodes = zip(encoded.architecture.levels, encoded.constants.nodes.tolist(), strict=True)
    refuse_uneven_remainders(level for level, (first, end) in nodes if end - first > 1)
    return count_ragged(encoded, mapping)


def result_of(
    encoded: Encoded, mapping: Mapping, counted: Counted, layouts: StringMap[str, DataLayout] | None = None
) -> Result:
    """What a mapping comes to that was counted.

    Raises RuntimeError if a port, a network or an engine would move more in these cycles than it can.
    """
    architecture, einsum = encoded.architecture, encoded.einsum
    ragged = leaves_remainder(mapping, einsum.dims)
    c, s, first = encoded.constants, counted.s, first_nodes(architecture.levels)
    at_level = at_levels(encoded, counted)
    on_network = [_on_network(encoded, counted, end - 1, t) for end in first[1:] for t in range(len(encoded.tensors))]
    levels = []
    for node, end in itertools.pairwise(first):
        level = architecture.levels[node]
        kept = [t for t in at_level if t.level == level.name]
        levels.append(
            LevelResult(
                level=level.name,
                instances=architecture.instances(node),
                used_instances=int(s.level[node, detail.USED]),
                used_words=math.ceil(sum(t.storage_words(t.tile_words, level.word_bits) for t in kept)),
                capacity_words=sum(level.rooms.values()) if level.rooms else None,
                word_bits=level.word_bits,
                cycles=int(s.level[node, detail.CYCLES]),
                network_cycles=network_cycles.lazily(c, end - 1, passing_units.lazily(c, s, counted.keep, end - 1)),
                leak_pj=_leak_pj(encoded, counted, node),
            )
        )
    _refuse_impossible_rates(encoded, counted, levels)
    compute_cycles = int(s.level[-1, detail.STEPS]) * architecture.compute.cycles_per_mac
    ramps = array_ramps(encoded, compute_cycles, s)
    return Result(
        architecture=architecture.name,
        workload=einsum.name,
        bounds=dict(einsum.dims),
        mapping=mapping,
        violations=violations(encoded, mapping, at_level),
        macs=einsum.real_macs,
        padded_macs=einsum.macs,
        compute=architecture.compute.name,
        compute_instances=architecture.macs,
        compute_used=int(s.level[-1, detail.USED]),
        compute_cycles=compute_cycles,
        cycles_per_mac=architecture.compute.cycles_per_mac,
        compute_pj=einsum.macs * float(encoded.constants.mac[0]),
        energy_pj=counted.energy_pj,
        cycles=counted.cycles,
        clock_hz=architecture.clock_hz,
        levels=tuple(levels),
        tensors=tuple(at_level),
        networks=tuple(on_network),
        pipeline_fill=ramps,
        fills=tile_fills(encoded, s, counted.keep),
        late=late_fills(encoded, s, counted.keep),
        moves=level_moves(encoded, s, counted.keep),
        layouts=() if ragged else _layouts(encoded, mapping, s, at_level, on_network, layouts or {}),
    )


def _layouts(encoded: Encoded, *counted: Any) -> tuple[TensorLayout, ...]:
    if encoded.architecture.levels[0].burst_bits is None:
        return ()
    from accelsim.model.layouts import tensor_layouts

    return tensor_layouts(encoded, *counted)


def _leak_pj(encoded: Encoded, counted: Counted, node: int) -> float:
    level, machine = encoded.architecture.levels[node], encoded.architecture
    instances = int(counted.s.level[node, detail.USED]) if level.power_gateable else machine.instances(node)
    return machine.energy.found_pj(level.name, "*", "leak") * counted.cycles * instances


def _refuse_impossible_rates(encoded: Encoded, counted: Counted, levels: Sequence[LevelResult]) -> None:
    """Compare what passes each port, network and engine with what it moves in these cycles; a guard for the model."""
    for (node, end), found in zip(itertools.pairwise(first_nodes(encoded.architecture.levels)), levels, strict=True):
        needs: dict[str, int | Fraction] = {
            "ports": _least_port_cycles(encoded, counted, node, end),
            "network": found.network_cycles,
            "dma": _least_engine_cycles(encoded, counted, node, end),
        }
        for what, needed in needs.items():
            if needed > counted.cycles:
                moved = f"cannot move in {counted.cycles} cycles what takes {float(needed)}"
                raise RuntimeError(f"{found.level}: its {what} {moved}")


def _least_port_cycles(encoded: Encoded, counted: Counted, node: int, end: int) -> Fraction:
    """Cycles in which the busiest port of a level passes its words; 0 if none is limited."""
    c, s, level = encoded.constants, counted.s, encoded.architecture.levels[node]
    if not level.ports(0, 0):
        return Fraction()
    read, written = 0, -int(c.already[node:end].sum())
    for lv, t in np.argwhere(counted.keep[node:end]).tolist():
        at = s.at[node + lv, t].tolist()
        units = int(c.word_parts[node + lv, t, at[detail.PARTIAL]])
        read += at[detail.READS] * units
        written += (at[detail.FILLS] + at[detail.UPDATES]) * units
    return max(Fraction(words) / rate for rate, words in level.ports(read, written)) / encoded.units_per_word[node]


def _least_engine_cycles(encoded: Encoded, counted: Counted, node: int, end: int) -> Fraction:
    """Cycles of the engine of a level for full rows and lines of what it moves; 0 if there is none."""
    s, dma, found = counted.s, encoded.architecture.levels[node].dma, Fraction()
    if dma is None:
        return found
    for lv, t in np.argwhere(counted.keep[node:end]).tolist():
        tensor, fills = encoded.tensors[t], int(s.at[node + lv, t, detail.FILLS])
        if tensor.output:  # partial sums go out and come back, and the last of each word is finished
            finished = int(s.level[node + lv, detail.LEAVING]) - fills
            found += finished * dma.cycles_each(tensor.role, min(tensor.bits, tensor.psum_bits))
            found += 2 * fills * dma.cycles_each(tensor.role, tensor.psum_bits)
        else:
            found += fills * dma.cycles_each(tensor.role, tensor.bits)
    return found


def refuse_uneven_remainders(levels: Iterable[Level]) -> None:
    """Raise if an engine moves the tiles of one of these levels, whose storage nodes stand at several places."""
    for level in levels:
        if level.dma is not None:
            why = f"the dma of level {level.name} moves tiles of one size only in an uneven mapping"
            raise AccelsimError(f"{why}; use loops that leave no remainder, pad the bounds, or map evenly")


def refuse_linked_remainders(architecture: Architecture) -> None:
    """Raise if a network of a machine has link transfers, or a mesh energies of its links."""
    for level in architecture.levels:
        hops = architecture.has_hops(level)
        if level.link_transfers or hops:
            what = "hops" if hops else "link transfers"
            why = f"{what} below level {level.name} are counted where no loop leaves a remainder"
            raise AccelsimError(f"{why}; pad the bounds, or leave `{'hop' if hops else 'link_transfers'}` out")


def _count_whole(encoded: Encoded, mapping: Mapping) -> Counted:
    """Count a mapping whose loops leave no remainder: all instances count alike."""
    from accelsim.model.kernel import evaluate_many

    batch = encode_mappings(encoded, [mapping])
    c, s, keep = encoded.constants, make_detail(encoded), batch.keep[0]
    status, energy, cycles = np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.int64)
    evaluate_many.lazily(c, batch, s, True, status, energy, cycles)
    used, output = s.level[:, detail.USED], c.output[0]
    every = s.at[:, :, detail.READS : detail.TRANSFERS + 1] * used[:-1, None, None]
    every[:, :, -1] = s.at[:, :, detail.TRANSFERS] * used[1:, None]
    shared = (used[1:] // used[:-1])[:, None, None] / s.at[:, :, detail.DOWN : detail.UP + 1]
    shared[:, np.arange(len(encoded.tensors)) != output, 1] = 1.0
    links = c.links.any()
    if links:
        every[:, :, 0] -= s.at[:, :, detail.LINKED] * (used[:-1, None] - s.at[:, :, detail.GIVERS])
    for level, t in np.argwhere(s.at[:, :, detail.LINKED]).tolist() if links else ():
        network = int(c.nodes[level, 0]) - 1
        linked = s.at[level, t, detail.LINKED] * s.at[level, t, detail.GIVERS]
        shared[network, t, 0] = (every[network, t, -1] - linked) / (s.at[network, t, detail.PASSING] * used[network])
    return Counted(keep, s, every, shared, float(energy[0]), int(cycles[0]))


def at_levels(encoded: Encoded, counted: Counted) -> list[TensorAtLevel]:
    """Counts of every tensor at every level that keeps it."""
    found, s = [], counted.s
    for index, t in np.argwhere(counted.keep).tolist():
        level, tensor = encoded.architecture.levels[index], encoded.tensors[t]
        partial = bool(s.at[index, t, detail.PARTIAL])
        tile, reads, fills, updates = s.at[index, t, detail.TILE : detail.UPDATES + 1].tolist()
        total_reads, total_fills, total_updates, _ = counted.every[index, t].tolist()
        read_pj, write_pj, update_pj, _ = s.energy[index, t].tolist()
        found.append(
            TensorAtLevel(
                level=level.name,
                tensor=tensor.name,
                tile_words=tile,
                word_bits=tensor.psum_bits if partial else tensor.bits,
                reads=reads,
                fills=fills,
                updates=updates,
                total_reads=total_reads,
                total_fills=total_fills,
                total_updates=total_updates,
                partial=partial,
                read_pj=read_pj,
                write_pj=write_pj,
                update_pj=update_pj,
                compression=Fraction(1) if partial else level.compression.get(tensor.role, Fraction(1)),
                drains=int(s.level[index, detail.LEAVING]) if tensor.output else 0,
            )
        )
    return found


def _on_network(encoded: Encoded, counted: Counted, network: int, t: int) -> TensorOnNetwork:
    """What crosses the network below a node for a tensor."""
    s, output = counted.s, encoded.tensors[t].output
    multicast, spatial_reduction = counted.shared[network, t].tolist()
    at = s.at[network, t].tolist()
    return TensorOnNetwork(
        level=encoded.architecture.levels[network].name,
        tensor=encoded.tensors[t].name,
        children=int(s.level[network + 1, detail.USED] // s.level[network, detail.USED]),
        distinct=at[detail.DOWN],
        distinct_up=at[detail.UP] if output else 0,
        link_transfers=_linked(encoded, s, network, t) if encoded.constants.links[network] else 0,
        passing=at[detail.PASSING],
        transfers=at[detail.TRANSFERS],
        total_transfers=int(counted.every[network, t, -1]),
        energy_pj=float(s.energy[network, t, -1]),
        multicast=multicast,
        spatial_reduction=spatial_reduction,
    )


def _linked(encoded: Encoded, s: Detail, network: int, t: int) -> int:
    """Words of a tensor that all children of a network take from their neighbours."""
    nodes = encoded.constants.nodes[network + 1 : network + 2, 1]
    inside = s.at[network + 1 : int(nodes[0]) if len(nodes) else 0, t]
    return int((inside[:, detail.LINKED] * inside[:, detail.GIVERS]).sum())


def _refuse_misfit(architecture: Architecture, einsum: Einsum, mapping: Mapping) -> None:
    for level in mapping.levels:
        if len({loop.dim for loop in level.temporal}) < len(level.temporal):
            raise ValueError(f"level {level.level}: a dimension may have one temporal loop in a level")
    covered = products(loop for level in mapping.levels for loop in level.loops)
    for dim in sorted(mapping.imperfect & einsum.dims.keys()):
        if covered.get(dim, 1) > einsum.dims[dim] and (rank := shared_rank(einsum, dim)) is not None:
            raise ValueError(f"{dim} can leave no remainder: it shares the rank {rank}; pad its bound instead")
    for *_, what, hint in loop_mistakes(mapping.levels, mapping.imperfect, einsum):
        raise ValueError(f"{what}; {hint}".removesuffix("; "))
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


def violations(encoded: Encoded, mapping: Mapping, at_level: Sequence[TensorAtLevel]) -> tuple[Violation, ...]:
    """Every fanout, capacity and keep rule that a mapping breaks."""
    found: list[Violation] = []
    roles = {tensor.name: tensor.role for tensor in encoded.tensors}
    levels = encoded.architecture.levels
    physical = [levels[end - 1] for end in first_nodes(levels)[1:]]  # each level once: its last node has its fanout
    for level, (_, nodes) in zip(physical, level_nodes(mapping), strict=True):
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
