"""A lower bound of the energy of all mappings of a space, from coarse tables to fine ones.

A state of the tables is a tile shape, a reach, the copies of the output, and a price for a word of each tensor.

- *Reach.* After a block with loops, only the tensors that its innermost loop does not move stay in place. So the state
  is none, or one family of tensors and the passes over its dimensions that are left beyond the loops that it stays
  through. The words into all tiles are the words of one pass times these passes.
- *Price.* What a word costs at the level that it comes from. A level that keeps the tensor sets its own price. One that
  passes it by divides the price by the children that share the word, and adds the transfer. The least cost is concave
  in each price, so what lies between two prices is at least on their chord.
- *Copies.* First reads that are not needed save energy in proportion to the copies of the output.
- *Buckets.* Sizes of a dimension are bucketed. Words are those of the largest size, tiles must fit with the smallest,
  and a loop leads between two buckets if it does for some of their members. So each mapping has a path through the
  tables that costs no more than the mapping does.

States through which all paths cost more than the best mapping known are dropped, and the buckets of the others are
split: coarse-to-fine dynamic programming (Raphael, IEEE TPAMI 23(12), 2001). Axis letters as in `coarse_layout`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accelsim.mapspace.space import MapSpace
from accelsim.search.exact.coarse_space import CoarseSpace
from accelsim.search.exact.coarse_tables import CoarseDeadline, RoundTables, split_buckets
from accelsim.search.exact.incumbents import SURE

RATIOS = (64.0, 8.0, 4.0, 2.0, 1.42, 1.0)
"""Largest over smallest size of a bucket, round by round; at 1 each size has a bucket of its own."""
COUNTED = 4.0
"""Ratio from which on partial sums that come back are counted: before, more first reads would be spared than there
are. At this one there are both rounds."""
SPEED = 2e7
"""Entries that a sweep over networks passes in a second, about: for the first estimate of time."""
LEAST_SECONDS = 0.05
"""So long a round must take for an estimate of the next one."""


@dataclass(frozen=True, slots=True)
class CoarseRound:
    """One round.

    Attributes
    ----------
    ratio : float
        Largest over smallest size of a bucket.
    bound : float
        Energy [pJ] that no mapping falls below, by this round alone.
    shapes, states : int
        Tile shapes that were looked at, at all levels, and states.
    live : int
        Shapes that are left.
    seconds : float
        Time that it took.
    """

    ratio: float
    bound: float
    shapes: int
    states: int
    live: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CoarseBound:
    """What coarse tables prove.

    Attributes
    ----------
    bound : float
        Energy [pJ] that no valid mapping falls below; the best known one, where that is proved to be optimal.
    rounds : tuple of CoarseRound
    stop : str
        Why there are no more rounds: `proved`, `sizes` (each has a bucket of its own), `timeout`, `memory` or `effort`.
    """

    bound: float
    rounds: tuple[CoarseRound, ...]
    stop: str

    @property
    def proved(self) -> bool:
        """Whether no mapping is better than the best known one."""
        return self.stop == "proved"


def coarse_bound(
    space: MapSpace,
    value: float = math.inf,
    *,
    deadline: float | None = None,
    memory: int = 1 << 30,
    work: float = math.inf,
    ratios: Sequence[float] = RATIOS,
) -> CoarseBound:
    """Find an energy [pJ] that no valid mapping of a space falls below.

    Parameters
    ----------
    space : MapSpace
        Even or uneven, with or without remainders. `mapspace.merging.merged` makes it smaller.
    value : float
        Energy of the best mapping known; states of mappings that cost as much are dropped.
    deadline : float, optional
        When to end, by `time.monotonic`; a round that would take longer does not begin.
    memory : int
        Bytes that tables may take.
    work : float
        Entries that a round may pass, about; larger ones are left out. `SPEED` of them take a second.
    ratios : sequence of float
        Of the buckets, round by round, descending.

    Raises
    ------
    KeyboardInterrupt
        At a signal.

    Examples
    --------
    >>> from accelsim import load_architecture, load_workload
    >>> from accelsim.search.mapper import map_einsum
    >>> from accelsim.model.encode import encode
    >>> machine, layer = load_architecture("eyeriss"), load_workload("gemm").layers[0]
    >>> best = map_einsum(machine, layer, uneven=False, workers=1).best.energy_pj
    >>> found = coarse_bound(MapSpace(encode(machine, layer)), best, ratios=(8,))
    >>> 0.5 < found.bound / best <= 1
    True
    """
    clock = CoarseDeadline(deadline)
    best, stop, speed, rounds = 0.0, "sizes", SPEED, list[CoarseRound]()
    try:
        clock.look()
        coarse = CoarseSpace(space)
        best = min(coarse.macs * float(coarse.c.mac[0]), value)
        groups, live = [[np.arange(len(sizes))] for sizes in coarse.sizes], None
        plan = [(ratio, False) for ratio in ratios if ratio >= COUNTED]
        plan += [(ratio, True) for ratio in ratios if ratio <= COUNTED]
        for ratio, counted in plan:
            start = time.monotonic()
            groups = [split_buckets(found, sizes, ratio) for found, sizes in zip(groups, coarse.sizes, strict=True)]
            coarse.count(counted)
            one = RoundTables(coarse, groups, ratio, live, clock)
            if not one.prepare(memory):
                stop = "memory"
                break
            if rounds and one.work > work:
                stop = "effort"
                break
            if rounds and clock.left < one.work / speed:
                raise TimeoutError
            bound = one.sweep(value)
            taken, live = time.monotonic() - start, one.live
            speed = one.work / taken if taken > LEAST_SECONDS else speed
            many = sum(map(len, live.shapes)) if live else 0
            rounds.append(CoarseRound(ratio, bound, one.shape_count, one.entries, many, taken))
            best = max(best, min(bound, value))
            if live is None or best >= value * (1.0 - SURE):
                best, stop = value, "proved"
                break
    except TimeoutError:
        stop = "timeout"
    return CoarseBound(best, tuple(rounds), stop)
