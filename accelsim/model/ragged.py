"""Evaluate a mapping whose loops leave remainders (imperfect factors): counts, energy and cycles.

docs/papers/cost-model.md, section 10, defines the counts; tests/test_ragged.py compares them with the oracle.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np

from accelsim.inputs.mapping import Mapping
from accelsim.inputs.nodes import first_nodes
from accelsim.model import detail
from accelsim.model.detail import Counted, make_detail
from accelsim.model.dma import count_ragged_moves, first_tiles, tile_cycles
from accelsim.model.encode import (
    BY_RETURN,
    BY_TRANSFER,
    BY_UPDATE,
    ISSUE,
    KIND,
    NETWORK,
    PE,
    STREAM,
    WAITS,
    Encoded,
    encode_mappings,
)
from accelsim.model.fills import waiting_cycles
from accelsim.model.kernel import fit
from accelsim.model.nest_sums import ALL, DOWN, FIRST, UP, Choice, Instances, NestSums, Operand, operand_of
from accelsim.model.ports import network_cycles, passing_units, port_cycles_of
from accelsim.model.systolic import array_ramps, ragged_short_cycles
from accelsim.model.windows import distinct


class _Counts(NamedTuple):
    """Words of some instances of a level."""

    reads: int  # words read, with those that drain
    fills: int  # words that come in from the level above
    updates: int  # words that come back from inside
    leaving: int  # output words that leave for the level above
    drained: int  # reads of words that leave for the level above


def count_ragged(encoded: Encoded, mapping: Mapping) -> Counted:
    """Count a mapping whose loops may cover more than the bounds, whether it fits or not."""
    model = _Model(encoded, mapping)
    keep = model.keep
    for operand in model.operands:
        kept = np.flatnonzero(keep[:, operand.index]).tolist()
        for level, child in itertools.pairwise([*kept, len(keep)]):
            model.keep_tensor(operand, level, child)
            for network in range(level, child):
                model.cross(operand, network, child)
    cycles = model.cycles()
    compute_pj = encoded.einsum.macs * float(encoded.constants.mac[0])
    leak_pj = encoded.constants.leak * cycles * model.used[:-1]
    energy_pj = math.fsum([*model.s.energy.ravel().tolist(), *leak_pj.tolist(), compute_pj])
    return Counted(keep, model.s, model.every, model.shared, energy_pj, cycles)


class _Model:
    """The counts of one mapping as they are found; levels and indices of levels count storage nodes."""

    def __init__(self, encoded: Encoded, mapping: Mapping) -> None:
        self.encoded, self.s = encoded, make_detail(encoded)
        self.machine = encoded.architecture.levels
        self.batch = encode_mappings(encoded, [mapping])
        temporal, _, self.x, self.y, self.keep = (array[0] for array in self.batch)
        self.nest = temporal, self.x, self.y
        fit.lazily(encoded.constants, self.batch, 0, self.s, True)
        self.used = self.s.level[:, detail.USED].tolist()
        self.sums = NestSums(encoded, mapping, self.nest, self.s)
        self.inputs = [t for t, tensor in enumerate(encoded.tensors) if not tensor.output]
        self.operands = [operand_of(index, tensor, encoded.dims) for index, tensor in enumerate(encoded.tensors)]
        self.s.level[-1, detail.STEPS] = self.sums.steps
        self.every = np.zeros((*self.keep.shape, 4), np.int64)
        self.shared = np.ones((*self.keep.shape, 2))
        self.read: list[int | Fraction] = [0] * len(self.keep)
        self.written: list[int | Fraction] = [0] * len(self.keep)
        self.known_classes: dict[int, list[tuple[dict[str, Choice], int]]] = {}

    def keep_tensor(self, operand: Operand, level: int, child: int) -> None:
        """Count a tensor at a level that keeps it, whose tiles below are those of level `child`."""
        t, tensor, machine = operand.index, operand.tensor, self.machine[level]
        busiest, total = (self.words(operand, level, child, which) for which in (FIRST, ALL))
        partial = tensor.output and (busiest.reads > busiest.drained or self.s.level[level, detail.PARTS_APART] > 1)
        width = machine.element_words(tensor, partial=partial)
        self.s.at[level, t, detail.READS : detail.UPDATES + 1] = busiest[:3]
        self.s.at[level, t, detail.PARTIAL] = partial
        self.every[level, t, :3] = total[:3]
        ports = self.encoded.constants.nodes[level, 0]
        self.read[ports] += busiest.reads * width
        self.written[ports] += (busiest.fills + busiest.updates) * width
        if tensor.output:
            self.s.level[level, detail.LEAVING] = busiest.leaving
        if level > 0 and self.encoded.constants.latency.any():
            self.s.at[level, t, detail.TRIPS] = self.trips(operand, level)
        accesses = [count * width for count in total[:3]]
        if not isinstance(width, int) or machine.block_size != 1:  # rounded up for each instance on its own
            accesses = [0, 0, 0]
            for instances, size in self.classes(level):
                for action, count in enumerate(self.words(operand, level, child, instances)[:3]):
                    accesses[action] += -(-count * width // machine.block_size) * size
        for action, each in enumerate(self.encoded.constants.energy[level, t, : BY_UPDATE + 1].tolist()):
            self.s.energy[level, t, action] = accesses[action] * each

    def classes(self, level: int) -> list[tuple[dict[str, Choice], int]]:
        """Instances of a level that count alike, and how many there are."""
        if level not in self.known_classes:
            by_dim = [
                [(dim, choice, size) for choice, size in sums.classes(level)] for dim, sums in self.sums.sums.items()
            ]
            self.known_classes[level] = [
                ({dim: choice for dim, choice, _ in group}, math.prod(size for _, _, size in group))
                for group in itertools.product(*by_dim)
            ]
        return self.known_classes[level]

    def words(self, operand: Operand, level: int, child: int, instances: Instances) -> _Counts:
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

    def trips(self, operand: Operand, level: int) -> int:
        """Steps that fill the tile of the first instance of a level; 0 if these are as many as whole tiles fill."""
        if not operand.tensor.output:
            return self.sums.entering(operand, level, level, DOWN, FIRST, one_word=True)
        whole = replace(operand, alone=dict.fromkeys(operand.alone, 0))
        steps = self.sums.entering(operand, level, level, UP, FIRST, one_word=True)
        return 0 if operand.windows else steps - self.sums.seen(whole, level, level, FIRST)

    def cross(self, operand: Operand, network: int, child: int) -> None:
        """Count what crosses the network below a level on its way to, or from, the tiles of level `child`."""
        t, every, energy_pj = operand.index, 0, 0.0
        c = self.encoded.constants
        ways = [(DOWN, detail.DOWN, c.multicast[:, :, t]), (UP, detail.UP, c.reduction)]
        for kind, which, shares in ways if operand.tensor.output else ways[:1]:
            below, above = (self.moved(operand, near, child, kind, ALL) for near in (network + 1, network))
            self.s.at[network, t, detail.TRANSFERS] += self.moved(operand, network + 1, child, kind, FIRST)
            self.s.at[network, t, detail.PASSING] += self.moved(operand, network, child, kind, FIRST)
            groups = int(distinct.lazily(c, self.s, self.x, self.y, network, t, *shares[network]))
            self.s.at[network, t, which] = groups
            children = self.used[network + 1] // self.used[network]
            self.shared[network, t, kind] = below / above if above else children / groups
            every += below
            back = kind == DOWN and operand.tensor.output
            energy_pj += below * float(c.energy[network, t, BY_RETURN if back else BY_TRANSFER])
        self.every[network, t, BY_TRANSFER] = every
        self.s.energy[network, t, BY_TRANSFER] = energy_pj

    def moved(self, operand: Operand, near: int, child: int, kind: int, instances: Instances) -> int:
        """Words that pass chosen instances of level `near` on the way down to, or up from, the tiles of `child`."""
        words = self.sums.entering(operand, child, near, kind, instances)
        if kind == DOWN and operand.tensor.output:
            words -= self.sums.seen_below(operand, child, near, kind, instances)
        return words

    def cycles(self) -> int:
        """Cycles of the whole machine, of ports and ramps."""
        computing = self.sums.steps * self.encoded.architecture.compute.cycles_per_mac
        self.hold(computing)
        cycles = computing + sum(ramp.cycles for ramp in array_ramps(self.encoded, computing, self.s))
        c, waiting = self.encoded.constants, 0
        for level in np.flatnonzero(c.overlap).tolist():
            waiting += int(waiting_cycles.lazily(c, self.s, self.keep, level))
        for first in first_nodes(self.machine)[:-1]:
            units = self.encoded.units_per_word[first]
            waited = [Fraction(each, units) for each in self.s.level[first, [detail.READ, detail.WRITTEN]].tolist()]
            needed = port_cycles_of(self.machine[first], self.read[first] + waited[0], self.written[first] + waited[1])
            self.s.level[first, detail.CYCLES] = needed
            cycles = max(cycles, needed)
        for network in np.flatnonzero(c.bandwidth[:, NETWORK, 0]).tolist():
            passing = passing_units.lazily(c, self.s, self.keep, network)
            cycles = max(cycles, network_cycles.lazily(c, network, passing))
        self.s.level[-1, detail.CYCLES] = cycles = cycles + waiting
        if len(c.dma):
            cycles = self.with_engines(cycles)
        return cycles

    def hold(self, computing: int) -> None:
        """Count what a systolic array holds in place: in its first PE, which acts whenever any does."""
        c, pe = self.encoded.constants, int(self.encoded.constants.array[PE])
        tiles, words, first = 0, 0, 0
        for operand in self.operands:
            for level in range(pe, int(c.nodes[pe, 1])) if c.stationary[operand.index] else ():
                if self.keep[level, operand.index]:
                    tiles += self.sums.entering(operand, level, level, DOWN, FIRST, one_word=True)
                    words += self.sums.entering(operand, level, level, DOWN, FIRST)
                    first += int(self.s.at[level, operand.index, detail.TILE])
        short = ragged_short_cycles.lazily(c, self.batch, 0, computing) if c.array[STREAM] >= 0 else 0
        self.s.array[:] = max(tiles, 1), words, first, short

    def with_engines(self, computing: int) -> int:
        """Cycles with those of all engines; what each does."""
        c, longest, waits = self.encoded.constants, computing, 0
        for level in np.flatnonzero(c.dma[:, -1, KIND] * self.keep.any(axis=1)).tolist():
            count_ragged_moves.lazily(c, self.batch, 0, self.s, level)
            moved, first, out, back = self.s.level[level, detail.MOVED_IN : detail.MOVED_BACK + 1].tolist()
            if c.dma[level, -1, KIND] == WAITS:
                waits += moved + out + back
                continue
            end = self.run_tiles(level, computing)
            self.s.level[level, detail.LATE] = end - computing - max(first, int(c.dma[level, -1, ISSUE]))
            longest = max(longest, end)
        return longest + waits

    def run_tiles(self, level: int, computing: int) -> int:
        """When the last tile is used of an engine that moves the next one meanwhile.

        Each tile is a matrix that the times of the one before are multiplied by, where sums are maxima and products are
        sums. So tiles that are alike are many factors at once, of which there are two for each loop.
        """
        c, s, steps = self.encoded.constants, self.s, self.sums.steps
        dims = {dim: d for d, dim in enumerate(self.encoded.dims)}
        temporal, x, y = self.nest
        loops = sorted(loop for sums in self.sums.sums.values() for loop in sums.loops if loop.level < level)
        inside = temporal[level:].prod(axis=0).tolist()
        left = list[int]()  # steps in the last tile along each dimension
        for d, each in enumerate(inside):
            every, _ = first_tiles.lazily(temporal, x, y, c.bounds[d], 1, len(temporal), d)
            left.append(int(every - (s.place[-1, d, detail.TIMES] - 1) * each))

        @cache
        def run(place: int, last: int) -> _Run:
            """All iterations of the loops from one on; `last`: dimensions along which they are the last, as bits."""
            if place == len(loops):
                moved = sum(tile_cycles.lazily(c, s, level, t, last, False) for t in self.inputs if self.keep[level, t])
                used = math.prod(left[d] if last >> d & 1 else each for d, each in enumerate(inside))
                return _tile(max(int(moved), int(c.dma[level, -1, ISSUE])) * steps, used * computing)
            loop = loops[place]
            bit = last & 1 << dims[loop.dim]
            whole = (c.bounds[dims[loop.dim]] - 1) // loop.step % loop.bound if bit else loop.bound
            if loop.axis:
                return run(place + 1, last - bit if whole else last)
            found = _again(run(place + 1, last - bit), whole)
            return _then(found, run(place + 1, last)) if bit else found

        imperfect = sum(1 << dims[dim] for dim, sums in self.sums.sums.items() if sums.imperfect)
        return int(-(-max(run(0, imperfect)[1]) // steps))


_Run = tuple[tuple[float, ...], ...]
"""When the engine is done, and the compute units with a tile and with the one before; by when they were before it."""
_NO_TILE: _Run = ((0, -math.inf, -math.inf), (-math.inf, 0, -math.inf), (-math.inf, -math.inf, 0))


def _tile(moved: int, used: int) -> _Run:
    """One tile: it comes after the last one, and after the one before that is used; it is used after both."""
    return (moved, -math.inf, moved), (moved + used, used, moved + used), (-math.inf, 0, -math.inf)


def _then(before: _Run, after: _Run) -> _Run:
    """Two runs in turn."""
    (a, b, c), (d, e, f), (g, h, i) = before
    return tuple((max(x + a, y + d, z + g), max(x + b, y + e, z + h), max(x + c, y + f, z + i)) for x, y, z in after)


def _again(run: _Run, times: int) -> _Run:
    """A run so many times."""
    found = _NO_TILE
    while times:
        found = _then(found, run) if times & 1 else found
        run, times = _then(run, run), times >> 1
    return found
