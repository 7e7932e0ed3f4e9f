"""Results: what one mapping costs, by level, tensor and action, as plain rows and JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping as Dict
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from accelsim.inputs.mapping import Mapping, leaves_remainder


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that a mapping breaks, in words, and by what factor (infinite where no number measures it)."""

    text: str
    factor: float

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class TensorAtLevel:
    """Counts of one tensor at one level that keeps it.

    Counts are in words (elements of the tensor) of one instance: all count alike, or, where loops leave remainders, of
    the busiest. Totals and energies are of all instances in use together. Words are counted as if they were raw.
    """

    level: str
    tensor: str
    tile_words: int  # words of the tile that one instance holds
    word_bits: int
    reads: int  # for the level below, and to drain where the machine charges it
    fills: int  # written from above
    updates: int  # written from below
    total_reads: int
    total_fills: int
    total_updates: int
    partial: bool  # partial sums: some arrive more than once, or other instances hold parts of the same ones
    read_pj: float
    write_pj: float  # of fills
    update_pj: float
    compression: Fraction = Fraction(1)  # share of the raw bits that the level stores and moves
    drains: int = 0  # output words that leave upwards

    @property
    def total_words(self) -> int:
        """Words read, filled and updated in all instances."""
        return self.total_reads + self.total_fills + self.total_updates

    def storage_words(self, words: int, width: int) -> int | Fraction:
        """Storage words of `width` bits that so many words of the tensor take here, compressed if they are."""
        raw = words * -(-self.word_bits // width)
        return raw if self.compression == 1 else raw * self.compression

    @property
    def energy_pj(self) -> float:
        """Energy [pJ] of all accesses to the tensor at this level."""
        return self.read_pj + self.write_pj + self.update_pj


@dataclass(frozen=True, slots=True)
class TensorOnNetwork:
    """What crosses the network below one level for one tensor [words]."""

    level: str
    tensor: str
    children: int  # instances below one instance that are in use
    distinct: int  # children whose words differ: reads of the instance above for each word that every child takes
    distinct_up: int  # the same upwards, after spatial reduction; 0 for a tensor that is not written
    link_transfers: int  # what all children take from their neighbours
    passing: int  # between one instance above and the network, both ways, but for what all else waits for
    transfers: int  # in or out of one child; of the busiest where loops leave remainders
    total_transfers: int  # in or out of all children of all instances
    energy_pj: float
    multicast: float  # children that share one read, on average over all words; over all steps where none comes down
    spatial_reduction: float  # children whose partial sums arrive as one, on average; 1 if not written


@dataclass(frozen=True, slots=True)
class LevelResult:
    """One level as a whole.

    `used_words` and `capacity_words` (None: unlimited) count storage words of one instance, the former rounded up where
    tensors are compressed; `cycles` is what its ports need besides the fills and drains that all else
    waits for, and `network_cycles` what the network below one instance needs (0: unlimited).
    """

    level: str
    instances: int
    used_instances: int
    used_words: int
    capacity_words: int | None
    word_bits: int
    cycles: int
    network_cycles: int
    leak_pj: float


@dataclass(frozen=True, slots=True)
class Fills:
    """Cycles that a tensor's tiles at a level take to fill and drain if nothing overlaps with it."""

    level: str
    tensor: str
    overlap: str  # of the level: what of these cycles overlaps, and is not in those of a mapping
    first_fill: int  # before anything can be computed
    fills: int  # in all, with output words that come back
    last_drain: int  # after everything is computed
    drains: int

    @property
    def waiting(self) -> tuple[tuple[str, int], ...]:
        """What all else waits for, and its cycles."""
        if self.overlap == "steady":
            return ("first fill", self.first_fill), ("last drain", self.last_drain)
        return (("fills", self.fills), ("drains", self.drains)) if self.overlap == "none" else ()


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """What the outermost level moves of a tensor in one data layout."""

    tensor: str
    kind: str  # `given`: as asked, or with the ranks one after the other as the Einsum names them; `best`; `worst`
    layout: str  # ranks of more than one word, outermost first, and the words of a line along each
    bits: int  # of the words read and updated
    burst_bits: int  # of all bursts that have such a word
    port_bits: int  # of bursts that all banks could move in the time that the busiest bank of each transfer takes


@dataclass(frozen=True, slots=True)
class Ramp:
    """Cycles in which the compute units wait for a systolic array to fill, drain or take in what it holds."""

    what: str  # such as `skew of the array` or `preload of Weights`
    times: int  # how often it is paid
    cycles: int  # in all


@dataclass(frozen=True, slots=True)
class Moves:
    """What the DMA engine of a level does; the longer of fills and issue counts.

    Where loops leave remainders, fills have the longer of both, tile by tile.
    """

    level: str
    overlap: bool  # the next tile moves while the compute units use the one before
    tiles: int  # steps of the loops outside the level
    first: int  # cycles of the first tile
    fills: int  # cycles of all tiles that come in
    drains: int  # cycles of finished outputs, which leave
    psums: int  # cycles of partial sums that leave and come back
    issue: int  # cycles of the instructions for all tiles
    late: int  # cycles that it ends after its first tile and all computing, one after the other, if it overlaps

    @property
    def cycles(self) -> int:
        """Cycles of the engine."""
        return max(self.fills, self.issue) + self.drains + self.psums


@dataclass(frozen=True, slots=True)
class Result:
    """What one mapping of one layer costs on one machine.

    Attributes
    ----------
    bounds : mapping of str to int
        Bound of each dimension of the layer.
    violations : tuple of Violation
        What makes the mapping invalid, in words; empty if it is valid. Counts are given either way.
    macs, padded_macs : int
        Multiply-accumulates of the layer, and those done, padding included.
    energy_pj : float
        Total energy [pJ]: compute, storage, networks, leakage.
    compute_cycles : int
        Cycles in which compute units act.
    pipeline_fill : tuple of Ramp
        Cycles before, between and after these that a systolic array costs, one by one.
    cycles : int
        The largest of every level's and network's cycles, and of compute cycles with the pipeline fill; and what fills,
        drains and DMA engines add to it.
    fills : tuple of Fills
        Of each tensor at each level but the outermost.
    late : tuple of Ramp
        Cycles that fills of each level wait for first words, because of the `latency` of the levels above.
    layouts : tuple of TensorLayout
        Of each tensor, where the outermost level has a burst and no loop leaves a remainder.
    moves : tuple of Moves
        Of each level with a DMA engine.
    """

    architecture: str
    workload: str
    bounds: Dict[str, int]
    mapping: Mapping
    violations: tuple[Violation, ...]
    macs: int
    padded_macs: int
    compute: str
    compute_instances: int
    compute_used: int
    compute_cycles: int
    cycles_per_mac: int
    compute_pj: float
    energy_pj: float
    cycles: int
    clock_hz: float | None
    levels: tuple[LevelResult, ...]
    tensors: tuple[TensorAtLevel, ...]
    networks: tuple[TensorOnNetwork, ...]
    pipeline_fill: tuple[Ramp, ...] = ()
    fills: tuple[Fills, ...] = ()
    late: tuple[Ramp, ...] = ()
    layouts: tuple[TensorLayout, ...] = ()
    moves: tuple[Moves, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether fanouts and capacities hold."""
        return not self.violations

    @property
    def imperfect(self) -> bool:
        """Whether the loops over some dimension cover more than its bound, so that instances count differently."""
        return leaves_remainder(self.mapping, self.bounds)

    @property
    def edp(self) -> float:
        """Energy x delay [pJ x cycle]."""
        return self.energy_pj * self.cycles

    @property
    def pj_per_mac(self) -> float:
        """Energy [pJ] for each multiply-accumulate."""
        return self.energy_pj / self.macs

    @property
    def seconds(self) -> float | None:
        """Run time [s], where the machine has a clock."""
        return None if self.clock_hz is None else self.cycles / self.clock_hz

    @property
    def power_w(self) -> float | None:
        """Average power [W], energy over run time, where the machine has a clock."""
        return None if self.seconds is None else self.energy_pj * 1e-12 / self.seconds

    @property
    def spatial_utilization(self) -> float:
        """Compute units that do MACs of the layer, on average over the compute cycles / compute units."""
        return self.macs * self.cycles_per_mac / (self.compute_instances * self.compute_cycles)

    @property
    def temporal_utilization(self) -> float:
        """Compute cycles / cycles."""
        return self.compute_cycles / self.cycles

    @property
    def ideal_cycles(self) -> Fraction:
        """Cycles if all compute units did nothing but MACs."""
        return Fraction(self.macs * self.cycles_per_mac, self.compute_instances)

    @property
    def utilization(self) -> float:
        """Overall utilization, spatial * temporal: MACs / (MACs that all compute units could do in that time)."""
        return self.macs * self.cycles_per_mac / (self.compute_instances * self.cycles)

    @property
    def offchip_words(self) -> int:
        """Storage words read and written at the outermost level; a part of one that compression leaves counts whole."""
        outermost = self.levels[0]
        at_outermost = (t for t in self.tensors if t.level == outermost.level)
        return math.ceil(sum(t.storage_words(t.total_words, outermost.word_bits) for t in at_outermost))

    @property
    def busy_cycles(self) -> int:
        """Cycles of the compute units with all pipeline_fill."""
        return self.compute_cycles + sum(ramp.cycles for ramp in self.pipeline_fill)

    @property
    def bottleneck(self) -> str:
        """The component whose cycles are the total: the compute units, or the outermost level that needs as long.

        The network below a level comes after it.
        """
        least = self.overlapped_cycles
        if self.cycles > least:
            most = max(self.time_rows(), key=lambda row: row["cycles"])
            if most["component"] != self.compute:
                return str(most["component"])
        if self.busy_cycles == least:
            return self.compute
        return next(name for name, cycles in self._port_cycles() if cycles == least)

    def _port_cycles(self) -> list[tuple[str, int]]:
        """Cycles of the ports of each level and of the network below it, if that is limited; outermost first."""
        found = []
        for level in self.levels:
            found.append((level.level, level.cycles))
            found += [(f"{level.level} network", level.network_cycles)] if level.network_cycles else []
        return found

    @property
    def overlapped_cycles(self) -> int:
        """Cycles of all that overlaps: the compute units with it, or the port or network that needs longest."""
        return max(self.busy_cycles, *(cycles for _, cycles in self._port_cycles()))

    def time_rows(self) -> list[Dict[str, Any]]:
        """Where the time goes: cycles one after the other that sum to `cycles`, by component and what it waits for.

        Waiting for an engine that overlaps is that for the one which holds up the others most.
        """
        computing = self.overlapped_cycles
        found = [(self.compute, "computing", self.compute_cycles)]
        found += [(self.compute, ramp.what, ramp.cycles) for ramp in self.pipeline_fill]
        slowest = next((name for name, cycles in self._port_cycles() if cycles == computing), "")
        found.append((slowest, "ports", computing - self.busy_cycles))
        waits: dict[tuple[str, str], int] = {}
        for each in self.fills:
            for what, cycles in each.waiting:
                waits[each.level, what] = waits.get((each.level, what), 0) + cycles
        waits |= {(each.what, "latency"): each.cycles for each in self.late}
        found += [(*where, cycles) for where, cycles in waits.items()]
        computing += sum(waits.values())
        engine = max(
            (each for each in self.moves if each.overlap), key=lambda each: each.first + each.late, default=None
        )
        if engine is not None:
            found += [(engine.level, "first fill", engine.first)]
            found += [(engine.level, "issue" if engine.issue > engine.fills else "fills", engine.late)]
        for engine in self.moves:
            if not engine.overlap:
                coming = engine.cycles - engine.drains - engine.psums
                found.append((engine.level, "issue" if engine.issue > engine.fills else "fills", coming))
                found.append((engine.level, "drains", engine.drains))
                found.append((engine.level, "partial sums", engine.psums))
        return [
            {"component": name, "what": what, "cycles": cycles, "share": cycles / self.cycles}
            for name, what, cycles in found
            if cycles
        ]

    def energy_rows(self) -> list[Dict[str, Any]]:
        """Energy [pJ] by component, tensor and action, outermost first; the rows sum to `energy_pj`."""
        rows: list[dict[str, Any]] = []
        for level in self.levels:
            for t in self.tensors:
                if t.level == level.level:
                    for action, energy in (("read", t.read_pj), ("write", t.write_pj), ("update", t.update_pj)):
                        rows.append({"component": t.level, "tensor": t.tensor, "action": action, "energy_pj": energy})
            rows += [
                {"component": f"{n.level} network", "tensor": n.tensor, "action": "transfer", "energy_pj": n.energy_pj}
                for n in self.networks
                if n.level == level.level
            ]
            rows.append({"component": level.level, "tensor": "", "action": "leak", "energy_pj": level.leak_pj})
        rows.append({"component": self.compute, "tensor": "", "action": "compute", "energy_pj": self.compute_pj})
        return [row for row in rows if row["energy_pj"]]

    def energy_by_tensor_rows(self) -> list[Dict[str, Any]]:
        """Energy [pJ] by component and tensor, all actions together, outermost first; `share` is of `energy_pj`."""
        sums: dict[tuple[str, str], float] = {}
        for row in self.energy_rows():
            key = row["component"], row["tensor"]
            sums[key] = sums.get(key, 0.0) + row["energy_pj"]
        return [
            {
                "component": component,
                "tensor": tensor,
                "energy_pj": energy,
                "pj_per_mac": energy / self.macs,
                "share": energy / self.energy_pj,
            }
            for (component, tensor), energy in sums.items()
        ]

    @property
    def all_overlaps(self) -> bool:
        """Whether fills and drains take no cycles of their own."""
        return not self.moves and all(not each.waiting for each in self.fills)

    def cycle_rows(self) -> list[Dict[str, Any]]:
        """Cycles that each component needs, outermost first, their share of the total, and which one is the bottleneck.

        A level whose bandwidth is unlimited needs none, and a network is left out where it is. Those of the compute
        units are with pipeline_fill.
        """
        needed = [*self._port_cycles(), (self.compute, self.busy_cycles)]
        bottleneck = self.bottleneck
        return [
            {"component": name, "cycles": cycles, "share": cycles / self.cycles, "bottleneck": name == bottleneck}
            for name, cycles in needed
        ]

    def count_rows(self) -> list[Dict[str, Any]]:
        """Words read, filled and updated by level and tensor, with the sharing on the network below."""
        networks = {(n.level, n.tensor): n for n in self.networks}
        return [
            {
                "level": t.level,
                "tensor": t.tensor,
                "tile_words": t.tile_words,
                "word_bits": t.word_bits,
                "reads": t.reads,
                "fills": t.fills,
                "updates": t.updates,
                "total_reads": t.total_reads,
                "total_fills": t.total_fills,
                "total_updates": t.total_updates,
                "multicast": networks[t.level, t.tensor].multicast,
                "spatial_reduction": networks[t.level, t.tensor].spatial_reduction,
                "energy_pj": t.energy_pj,
            }
            for t in self.tensors
        ]
