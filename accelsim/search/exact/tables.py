"""Cost-to-go tables as data: what `bounds.make_bounds` fills and the search reads; axis letters as there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from accelsim.model.encode import Floats, Ints
from accelsim.search.exact.network_kernel import Spreading
from accelsim.search.exact.orders import Statuses, Structure
from accelsim.search.exact.shapes import Grid
from accelsim.search.exact.worth import Parents, States


class Context(NamedTuple):
    """What the cost further in depends on besides shape and statuses.

    parents : the level that each tensor comes from; shares : of its reads or updates, what networks since then leave;
    tight : the output comes from a level without room for its partial sums.
    """

    parents: tuple[int, ...]
    shares: tuple[float, ...]
    tight: bool = False

    @property
    def state(self) -> Parents:
        """What states that are worth filling are told apart by."""
        return (*self.parents, int(self.tight))


@dataclass(slots=True)
class CostTable:
    """Cost to go by context, status, copies of the output, spread inside and shape.

    Attributes
    ----------
    contexts : list of Context
    statuses : list of Statuses
        NONE for all tensors first.
    copies : float64[A]
        Copies of the output at the tile: one, and the most that networks further out can make.
    edges : float64[B]
        Children further in: up to so many.
    values : float64[C, Q, A, B, S]
        pJ.
    """

    contexts: list[Context]
    statuses: list[Statuses]
    copies: Floats
    edges: Floats
    values: Floats


@dataclass(slots=True)
class Bounds:
    """All cost-to-go tables of a map space.

    Attributes
    ----------
    grid : Grid
    structure : Structure
    statuses : tuple of Statuses
        Q of them, NONE for all tensors first.
    around : list of CostTable
        For each level, outside the network below it.
    inside : list of CostTable
        For each level, at its tile; the outermost has none.
    networks : list of Spreading
    pj : float64[L, T, 4]
        Least energy of an element's action.
    least : float64[L, L, T]
        Least share of reads that networks leave, for level, parent and tensor.
    elided : float64[L]
        What it costs to read the whole output at a level once.
    copy_costs : float64[L + 1]
        What the tables further in than a boundary count off at most for each further copy of the output there.
    states : States
        Which states are worth filling, where a good mapping is known.
    corners : bool
        Whether there are tables of both corners of the shares that networks leave, or of the lower one alone.
    values : float64[*]
        All tables; around_at, inside_at : int64[L], where each begins.
    """

    grid: Grid
    structure: Structure
    statuses: tuple[Statuses, ...]
    pj: Floats
    least: Floats
    corners: bool = True
    values: Floats = field(default_factory=lambda: np.zeros(0))
    around: list[CostTable] = field(default_factory=list)
    inside: list[CostTable] = field(default_factory=list)
    around_at: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    inside_at: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    networks: list[Spreading] = field(default_factory=list)
    deepest: list[int] = field(default_factory=list)
    least_inside: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    elided: Floats = field(default_factory=lambda: np.zeros(0))
    copy_costs: Floats = field(default_factory=lambda: np.zeros(0))
    states: States = field(default_factory=dict)
    numbers: list[dict[Statuses, tuple[int, int]]] = field(default_factory=list)

    def around_number(self, level: int, statuses: Statuses) -> int:
        """Number of some statuses in the table around the network of a level."""
        return self.numbers[level][statuses][0]

    def inside_number(self, level: int, statuses: Statuses) -> int:
        """Number of some statuses in the table at the tiles of a level."""
        return self.numbers[level][statuses][1]
