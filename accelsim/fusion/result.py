"""What was found about fusion: of a chain, of a row of layers, of a network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from accelsim.fusion.chain import Apart, Chain
from accelsim.fusion.price import Price
from accelsim.fusion.tiling import FusedTiling, Part, Room, rooms, shortcut_room
from accelsim.inputs.workload import Einsum
from accelsim.model.result import Result
from accelsim.search.result import Certificate


@dataclass(frozen=True, slots=True)
class FusedPart:
    """A part of the best fused tiling, how often it runs, and its best mapping."""

    part: Part
    count: int
    reserved: int
    result: Result


@dataclass(frozen=True, slots=True)
class ChainResult:
    """The best way to fuse a chain.

    Attributes
    ----------
    parts : tuple of FusedPart
        In the order of the layers.
    price : Price
        What a pJ and a cycle cost where this is the cheapest way.
    certificate : Certificate
        Whether the value, at the price, is the least of all fused tilings.
    stop : str
        `exhausted`; or what kept it from being proved: `timeout`, `interrupted` or `memory`.
    tilings : int
        Fused tilings that fit.
    """

    chain: Chain
    tiling: FusedTiling
    parts: tuple[FusedPart, ...]
    price: Price
    certificate: Certificate
    stop: str
    tilings: int

    @property
    def totals(self) -> Totals:
        """Of all parts together, what is computed again counted again."""
        return sum_totals([(part.count, part.result) for part in self.parts])

    @property
    def rooms(self) -> list[Room]:
        """Words that each intermediate takes in the fusing level."""
        return rooms(self.chain, self.tiling)

    @property
    def shortcut(self) -> Room:
        """Words that the first layer's input takes there until it is read again; none where it is not kept."""
        return shortcut_room(self.chain, self.tiling)


@dataclass(frozen=True, slots=True)
class Totals:
    """Energy [pJ], cycles, storage words at the outermost level, and multiply-accumulates that are executed."""

    energy_pj: float
    cycles: int
    outer_words: int
    macs: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A row of layers of a line: fused, or one layer that is not.

    Attributes
    ----------
    layers : tuple of Einsum
    repeat : int
        How often the network has it, rows that are `alike` included.
    alone : tuple of Result
        Each layer mapped by itself, as it is best where nothing is fused.
    mapping : Result or None
        Of a layer that is not fused.
    fused : ChainResult or None
    alike : tuple
        Names of the layers of equal rows, and how often the network has each of these.
    """

    layers: tuple[Einsum, ...]
    repeat: int
    alone: tuple[Result, ...]
    mapping: Result | None
    fused: ChainResult | None
    alike: tuple[tuple[tuple[str, ...], int], ...] = ()

    @property
    def totals(self) -> Totals:
        """Energy, cycles, words and multiply-accumulates of one run."""
        if self.fused is not None:
            return self.fused.totals
        return sum_totals([(1, each) for each in (self.mapping,) if each is not None])

    @property
    def unfused(self) -> Totals:
        """The same if every layer runs by itself."""
        return sum_totals([(1, each) for each in self.alone])


def sum_totals(several: Sequence[tuple[int, Totals | Result]]) -> Totals:
    """Totals of rows or mappings, each as often as it is counted."""
    return Totals(
        math.fsum(n * each.energy_pj for n, each in several),
        sum(n * each.cycles for n, each in several),
        sum(n * each.outer_words for n, each in several),
        sum(n * each.macs for n, each in several),
    )


@dataclass(frozen=True, slots=True)
class FusionResult:
    """What to fuse in a network, and what it gains.

    Attributes
    ----------
    segments : tuple of Segment
        All layers, each run in one segment, in the order of the lines.
    certificate : Certificate
        Of the objective of all segments together.
    apart : tuple of Apart
        Neighbours that cannot be fused, and why.
    why_not : str
        Why nothing can be fused; empty if something can.
    inferred : bool
        The workload names no edges; neighbours whose shapes line up were taken to follow each other.
    chain : tuple of str
        The layers that alone were looked at; none: all.
    longest : int or None
        Layers that a fused chain has at most.
    stop : str
        `exhausted`, `timeout`, `interrupted` or `memory` (the tables of a search would not fit).
    chains, solved : int
        Chains that were looked at, and parts that the exact mapper solved for them.
    clock_hz : float or None
    kept : str
        When the answer was kept on disk, if it comes from there; else empty.
    """

    architecture: str
    workload: str
    objective: str
    segments: tuple[Segment, ...]
    certificate: Certificate
    apart: tuple[Apart, ...]
    why_not: str
    inferred: bool
    chain: tuple[str, ...]
    longest: int | None
    stop: str
    chains: int
    solved: int
    clock_hz: float | None
    seconds: float
    kept: str = ""

    @property
    def totals(self) -> Totals:
        """Of the network as it is to be fused."""
        return sum_totals([(segment.repeat, segment.totals) for segment in self.segments])

    @property
    def unfused(self) -> Totals:
        """Of the network with every layer by itself."""
        return sum_totals([(segment.repeat, segment.unfused) for segment in self.segments])

    @property
    def fused(self) -> tuple[Segment, ...]:
        """The segments that are fused."""
        return tuple(segment for segment in self.segments if segment.fused is not None)
