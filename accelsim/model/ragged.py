"""Evaluate a mapping whose loops leave remainders (imperfect factors): counts, energy and cycles.

docs/model.md, section 10, says what is counted; tests/test_ragged.py holds it against the oracle.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from accelsim.inputs.architecture import Level
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.nodes import first_nodes
from accelsim.model.encode import PE, Encoded
from accelsim.model.nest_sums import DOWN, UP, Instances, NestSums, Operand, operand_of
from accelsim.model.ramps import array_ramps
from accelsim.model.remainders import ALL, FIRST, Choice, instance_classes
from accelsim.model.result import Parts, Ramp, TensorAtLevel, TensorOnNetwork


class _Counts(NamedTuple):
    """Words of some instances; `leaving` are output words for the level above, `drained` the reads for them."""

    reads: int
    fills: int
    updates: int
    leaving: int
    drained: int


@dataclass(frozen=True, slots=True)
class _Kept:
    """A tensor at a level that keeps it: words of the busiest instance and of all, and accesses of all."""

    tile: int
    partial: bool
    width: int | Fraction
    busiest: _Counts
    total: _Counts
    accesses: tuple[int, int, int]


def ragged_parts(encoded: Encoded, mapping: LoopNest) -> Parts:
    """Count a mapping whose loops may cover more than the bounds, whether it fits or not."""
    model = _Model(encoded, mapping)
    model.count()
    cycles, energies = model.cycles(), model.energies()
    leaks = model.leaks(cycles)
    return Parts(
        used=[model.sums.used[first] for first, _ in model.nodes] + model.sums.used[-1:],
        steps=model.steps,
        at_level=model.at_level(energies),
        on_network=model.on_network(energies),
        cycles_of=[model.cycles_of(first, end) for first, end in model.nodes],
        leak_pj=[leaks[first] for first, _ in model.nodes],
        energy_pj=math.fsum([*energies.values(), *leaks, model.compute_pj]),
        cycles=cycles,
        ramps=model.ramps(),
    )


_READ, _WRITE, _UPDATE, _TRANSFER = range(4)


class _Model:
    """The counts of one mapping; `count` fills them in.

    `levels` and indices of levels count storage nodes; `nodes` has the first node of each level and one past the last.
    """

    def __init__(self, encoded: Encoded, mapping: LoopNest) -> None:
        self.encoded, self.mapping = encoded, mapping
        self.machine = encoded.architecture.levels
        self.levels = len(self.machine)
        self.nodes = list(itertools.pairwise(first_nodes(self.machine)))
        self.sums = NestSums(encoded, mapping)
        self.operands = [operand_of(encoded, index) for index in range(len(encoded.tensors))]
        self.steps = self.sums.steps
        self.compute_cycles = self.steps * encoded.architecture.compute.cycles_per_mac
        self.compute_pj = encoded.einsum.macs * float(encoded.constants.mac[0])
        self.kept: dict[tuple[int, int], _Kept] = {}
        self.crossing: dict[tuple[int, int], int] = {}
        self.classes: dict[int, list[tuple[dict[str, Choice], int]]] = {}
        self.tiles = {
            (index, operand.index): self.sums.tile(operand, index)
            for index in range(self.levels)
            for operand in self.operands
            if operand.tensor.name in mapping.levels[index].keep
        }

    def count(self) -> None:
        """Count every tensor at every level that keeps it, and on every network."""
        for operand in self.operands:
            keeps = [index for index in range(self.levels) if (index, operand.index) in self.tiles]
            for level, child in itertools.pairwise([*keeps, self.levels]):
                self.kept[level, operand.index] = self._keep(operand, level, child)
                for network in range(level, child):
                    self.crossing[network, operand.index] = self._cross(operand, network, child, ALL)

    def _keep(self, operand: Operand, level: int, child: int) -> _Kept:
        busiest = self._words(operand, level, child, FIRST)
        total = self._words(operand, level, child, ALL)
        tensor, machine = operand.tensor, self.machine[level]
        apart = any(
            dim in operand.other or dim in operand.window_dims
            for spread in self.sums.space[:level]
            for dim, _, _ in spread
        )
        partial = tensor.output and (busiest.reads > busiest.drained or apart)
        width = machine.element_words(tensor, partial=partial)
        if isinstance(width, int) and machine.block_size == 1:
            accesses = (total.reads * width, total.fills * width, total.updates * width)
        else:
            accesses = self._accesses(operand, level, child, width)
        return _Kept(self.tiles[level, operand.index], partial, width, busiest, total, accesses)

    def _accesses(self, operand: Operand, level: int, child: int, width: int | Fraction) -> tuple[int, int, int]:
        """Accesses of all instances, each class of them rounded up on its own."""
        block = self.machine[level].block_size
        found = [0, 0, 0]
        for instances, size in self._classes(level):
            counts = self._words(operand, level, child, instances)
            for action, count in enumerate(counts[:3]):
                found[action] += -(-count * width // block) * size
        return found[0], found[1], found[2]

    def _classes(self, level: int) -> list[tuple[dict[str, Choice], int]]:
        """Instances of a level that count alike, and how many there are."""
        if level not in self.classes:
            by_dim = [
                [(dim, choice, size) for choice, size in instance_classes(sums, level)]
                for dim, sums in self.sums.sums.items()
            ]
            self.classes[level] = [
                ({dim: choice for dim, choice, _ in group}, math.prod(size for _, _, size in group))
                for group in itertools.product(*by_dim)
            ]
        return self.classes[level]

    def _words(self, operand: Operand, level: int, child: int, instances: Instances) -> _Counts:
        """Words of the chosen instances of a level, whose tiles below are those of level `child`."""
        sums = self.sums
        if not operand.tensor.output:
            reads = sums.entering(operand, child, level, DOWN, instances)
            fills = sums.entering(operand, level, level, DOWN, instances) if level > 0 else 0
            return _Counts(reads, fills, 0, 0, 0)
        updates = sums.entering(operand, child, level, UP, instances)
        read_back = updates - sums.seen(operand, child, level, instances)
        if level == 0:
            return _Counts(read_back, 0, updates, 0, 0)
        leaving = sums.entering(operand, level, level, UP, instances)
        fills = leaving - sums.seen(operand, level, level, instances)
        drained = leaving if self.machine[level].drain_reads else 0
        return _Counts(read_back + drained, fills, updates, leaving, drained)

    def _cross(self, operand: Operand, network: int, child: int, instances: Instances) -> int:
        """Words in or out of chosen children of a network."""
        words = self._moved(operand, network + 1, child, DOWN, instances)
        return words + self._moved(operand, network + 1, child, UP, instances) if operand.tensor.output else words

    def _moved(self, operand: Operand, near: int, child: int, kind: int, instances: Instances) -> int:
        """Words that pass chosen instances of level `near` on the way down to, or up from, the tiles of `child`."""
        words = self.sums.entering(operand, child, near, kind, instances)
        if kind == DOWN and operand.tensor.output:
            words -= self.sums.seen_below(operand, child, near, kind, instances)
        return words

    def _sharing(self, operand: Operand, network: int, child: int, kind: int) -> float:
        """Children of a network that share a word, on average."""
        below, above = (self._moved(operand, near, child, kind, ALL) for near in (network + 1, network))
        if above:
            return below / above
        return self.sums.used[network + 1] // self.sums.used[network] / self.sums.groups(operand, network, kind)

    def cycles_of(self, first: int, end: int) -> int:
        """Cycles that the ports of the busiest instance need, which all nodes of a level share."""
        level = self.machine[first]
        kept = [self.kept[at] for at in self.kept if first <= at[0] < end]
        read = sum(k.busiest.reads * k.width for k in kept)
        written = sum((k.busiest.fills + k.busiest.updates) * k.width for k in kept)
        ports = ((level.bandwidth, read + written), (level.read_bandwidth, read), (level.write_bandwidth, written))
        return max((math.ceil(words / rate) for rate, words in ports if rate is not None), default=0)

    def cycles(self) -> int:
        """Cycles of the whole machine."""
        busy = self.compute_cycles + sum(ramp.cycles for ramp in self.ramps())
        return max(busy, *(self.cycles_of(first, end) for first, end in self.nodes))

    def ramps(self) -> tuple[Ramp, ...]:
        """Ramps of a systolic array: of the first PE, which acts whenever any does."""
        tiles, words, first = 0, 0, 0
        constants = self.encoded.constants
        for operand in self.operands:
            for level in range(int(constants.array[PE]), self.levels) if constants.stationary[operand.index] else ():
                if (
                    self.machine[level].name == self.machine[constants.array[PE]].name
                    and (level, operand.index) in self.tiles
                ):
                    tiles += self.sums.moves(operand, level)
                    words += self.sums.entering(operand, level, level, DOWN, FIRST)
                    first += self.tiles[level, operand.index]
        return array_ramps(self.encoded, self.compute_cycles, max(tiles, 1), words, first)

    def energies(self) -> dict[tuple[int, int, int], float]:
        """Energy [pJ] of all instances by level, tensor and action."""
        table = self.encoded.constants.energy.tolist()
        found: dict[tuple[int, int, int], float] = {}
        for (level, tensor), kept in self.kept.items():
            for action, accesses in enumerate(kept.accesses):
                found[level, tensor, action] = accesses * table[level][tensor][action]
        for (level, tensor), words in self.crossing.items():
            found[level, tensor, _TRANSFER] = words * table[level][tensor][_TRANSFER]
        return found

    def leaks(self, cycles: int) -> list[float]:
        """Leakage [pJ] of the instances in use, by node: that of a level stands at its first one."""
        leaks = self.encoded.constants.leak.tolist()
        return [leak * cycles * used for leak, used in zip(leaks, self.sums.used, strict=False)]

    def at_level(self, energies: Mapping[tuple[int, int, int], float]) -> list[TensorAtLevel]:
        """Counts of every tensor at every level that keeps it."""
        return [
            self._at_level(level, self.machine[level], operand, energies)
            for level in range(self.levels)
            for operand in self.operands
            if (level, operand.index) in self.kept
        ]

    def _at_level(
        self, index: int, level: Level, operand: Operand, energies: Mapping[tuple[int, int, int], float]
    ) -> TensorAtLevel:
        kept, tensor = self.kept[index, operand.index], operand.tensor
        return TensorAtLevel(
            level=level.name,
            tensor=tensor.name,
            tile_words=kept.tile,
            word_bits=tensor.psum_bits if kept.partial else tensor.bits,
            reads=kept.busiest.reads,
            fills=kept.busiest.fills,
            updates=kept.busiest.updates,
            total_reads=kept.total.reads,
            total_fills=kept.total.fills,
            total_updates=kept.total.updates,
            partial=kept.partial,
            read_pj=energies[index, operand.index, _READ],
            write_pj=energies[index, operand.index, _WRITE],
            update_pj=energies[index, operand.index, _UPDATE],
            compression=level.stored_share(tensor.role, partial=kept.partial),
            drains=kept.busiest.leaving,
        )

    def on_network(self, energies: Mapping[tuple[int, int, int], float]) -> list[TensorOnNetwork]:
        """What crosses every network for every tensor; that of a level lies below its last node."""
        found = []
        for _, end in self.nodes:
            network, level = end - 1, self.machine[end - 1]
            for operand in self.operands:
                inside = (k for k in range(end, self.levels) if (k, operand.index) in self.kept)
                child, output = next(inside, self.levels), operand.tensor.output
                found.append(
                    TensorOnNetwork(
                        level=level.name,
                        tensor=operand.tensor.name,
                        children=self.sums.used[end] // self.sums.used[network],
                        distinct=self.sums.groups(operand, network, DOWN),
                        distinct_up=self.sums.groups(operand, network, UP) if output else 0,
                        transfers=self._cross(operand, network, child, FIRST),
                        total_transfers=self.crossing[network, operand.index],
                        energy_pj=energies[network, operand.index, _TRANSFER],
                        multicast=self._sharing(operand, network, child, DOWN),
                        spatial_reduction=self._sharing(operand, network, child, UP) if output else 1.0,
                    )
                )
        return found
