"""Cost-to-go tables as data, and which of their states are worth filling.

`bounds.make_bounds` fills them and the search reads them. States that no worthwhile mapping goes through are dropped
while the tables are filled: docs/papers/exact-mapper.md, section 4. Axis letters as in `bounds`.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from accelsim.model.encode import Bools, Floats, Ints
from accelsim.model.records import Int32s2
from accelsim.search.exact.layout import Layout
from accelsim.search.exact.network import Spreading
from accelsim.search.exact.orders import NONE, Statuses, Structure
from accelsim.search.exact.shapes import Grid
from accelsim.search.exact.tables_kernel import lay_shapes
from accelsim.search.exact.worth import SLACK, Parents, States, Worth, entering_cost, least_inside, least_outside

_FEW = 1 << 14
"""Numbers of a table up to which all ways for the innermost loop outside are looked at together."""


class Context(NamedTuple):
    """What the cost further in depends on besides shape and statuses."""

    parents: tuple[int, ...]
    """For each tensor, the level that it comes from."""
    shares: tuple[float, ...]
    """For each tensor, the share of its reads (or updates) that networks since then leave, 0..1."""
    tight: bool = False
    """Whether the output's parent has no room for its partial sums."""
    room: int = 0
    """Class of the words that the storage nodes of the level hold so far, from 1 on; 0 if classes are not told
    apart."""

    @property
    def state(self) -> Parents:
        """What states that are worth filling are told apart by."""
        return (*self.parents, int(self.tight), self.room)


@dataclass(slots=True)
class CostTable:
    """Cost to go of some contexts, by status, copies of the output, spread inside and shape [pJ], where it is worth it.

    Attributes
    ----------
    contexts : list of Context
    statuses : list of Statuses
        NONE for all tensors first.
    copies : float64[A]
        Copies of the output at the tile: one, and the most that networks further out can make.
    edges : float64[B]
        Children further in: up to so many.
    tiles : bool
        Whether it is of the tiles of a level: then the entries of a shape lie next to each other, float64[n, A, B, Q],
        else those of a status, float64[Q, A, B, n].
    place : int32[C, S]
        Where a shape stands among those that a context has, -1 if it is not worth it.
    many, first : int64[C]
        How many shapes a context has, and where its entries begin.
    entries : float64[*]
        Those of all tables of a map space.
    """

    contexts: list[Context]
    statuses: list[Statuses]
    copies: Floats
    edges: Floats
    tiles: bool
    place: Int32s2
    many: Ints
    first: Ints
    entries: Floats

    @property
    def lanes(self) -> int:
        """Entries of a shape in a context."""
        return len(self.statuses) * len(self.copies) * len(self.edges)

    @property
    def dense(self) -> int:
        """Entries, if all shapes were worth it."""
        return int(self.place.size) * self.lanes

    def take(self, m: int, shapes: Ints) -> Floats:
        """The entries of some shapes in a context, infinite where they are not worth it: float64[Q, A, B, *]."""
        sizes, place = (len(self.statuses), len(self.copies), len(self.edges)), self.place[m, shapes]
        rows = self.entries[self.first[m] : self.first[m] + self.many[m] * self.lanes]
        laid = rows.reshape(-1, *sizes[1:], sizes[0]).transpose(3, 1, 2, 0) if self.tiles else rows.reshape(*sizes, -1)
        found = np.full((*sizes, len(shapes)), np.inf)
        found[..., place >= 0] = laid[..., place[place >= 0]]
        return found

    @property
    def values(self) -> Floats:
        """All entries: float64[C, Q, A, B, S]."""
        every = np.arange(self.place.shape[1])
        found = np.zeros((len(self.contexts), len(self.statuses), len(self.copies), len(self.edges), len(every)))
        for m, values in enumerate(found):
            values[:] = self.take(m, every)
        return found

    def put(self, m: int, values: Floats, shapes: Ints) -> None:
        """Keep the entries of some shapes, float64[Q, A, B, S], in a context whose `first` is known."""
        self.place[m, shapes], self.many[m] = np.arange(len(shapes)), len(shapes)
        kept = self.entries[self.first[m] : self.first[m] + len(shapes) * self.lanes]
        lay_shapes(values.reshape(len(values), -1, values.shape[-1]), shapes, np.bool_(self.tiles), kept)


@dataclass(slots=True)
class Bounds:
    """All cost-to-go tables of a map space.

    Attributes
    ----------
    grid : Grid
    structure : Structure
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
    narrow : float64[L]
        What updates of the whole output cost less at a level if each word comes once, finished and narrow.
    copy_costs : float64[L + 1]
        What the tables further in than a boundary count off at most for each further copy of the output there.
    states : States
        Which states are worth filling, where a good mapping is known.
    corners : bool
        Whether there are tables of both corners of the shares that networks leave, or of the lower one alone.
    values : float64[*]
        Entries of all tables.
    row : int
        Row of a `Laid` in which they stand, -1 if in none.
    place, many, first
        Those of all contexts, of the tables around networks first: int32[*, S], int64[*].
    dense : int
        Entries that they would have if all shapes were worth it: what it takes to fill them.
    work : int
        These, and how often the sweeps over networks spread a tile in a context: what it takes to make
        them.
    """

    grid: Grid
    structure: Structure
    pj: Floats
    least: Floats
    corners: bool = True
    values: Floats = field(default_factory=lambda: np.zeros(0))
    row: int = -1
    around: list[CostTable] = field(default_factory=list)
    inside: list[CostTable] = field(default_factory=list)
    place: Int32s2 = field(default_factory=lambda: np.zeros((0, 0), np.int32))
    many: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    first: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    dense: int = 0
    networks: list[Spreading] = field(default_factory=list)
    deepest: list[int] = field(default_factory=list)
    least_inside: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    elided: Floats = field(default_factory=lambda: np.zeros(0))
    narrow: Floats = field(default_factory=lambda: np.zeros(0))
    copy_costs: Floats = field(default_factory=lambda: np.zeros(0))
    work: int = 0
    states: States = field(default_factory=dict)
    numbers: list[dict[Statuses, tuple[int, int]]] = field(default_factory=list)

    @property
    def leads(self) -> bool:
        """Whether any shape around the outermost network is worth it."""
        return bool(self.around[0].many.any())

    @property
    def nbytes(self) -> int:
        """What the tables take."""
        return self.values.nbytes + self.place.nbytes

    def around_number(self, level: int, statuses: Statuses) -> int:
        """Number of some statuses in the table around the network of a level."""
        return self.numbers[level][statuses][0]


def lay_out(tables: Bounds, like: Bounds) -> None:
    """Lay tables out as others, which lack what these found worthless, and may tell spreads apart that these do not."""
    for table, other in zip((*tables.around, *tables.inside), (*like.around, *like.inside), strict=True):
        number = {context: at for at, context in enumerate(table.contexts)}
        for m, context in enumerate(other.contexts):
            shapes = np.flatnonzero(other.place[m] >= 0)
            found, at = np.full((1, 1, 1, len(shapes)), np.inf), number.get(context)
            if at is not None:
                found = table.take(at, shapes)
            rows = other.entries[other.first[m] : other.first[m] + len(shapes) * other.lanes]
            if other.tiles:
                rows.reshape(-1, len(other.copies), len(other.edges), len(other.statuses))[:] = found.transpose(
                    3, 1, 2, 0
                )
            elif found.any():
                rows.reshape(len(other.statuses), len(other.copies), len(other.edges), -1)[:] = found


class Laid:
    """Tables laid out as those of energy, a row each; a row that none fills takes no memory.

    Parameters
    ----------
    like : Bounds
        The tables of energy.
    most : int
        Rows.
    """

    def __init__(self, like: Bounds, most: int) -> None:
        self.like, self.used, self.values = like, 0, np.zeros((most, like.values.size))

    def put(self, tables: Bounds) -> Bounds:
        """Lay tables out in the next row; returns those that stand there, which need the others no more."""
        row, like = self.values[self.used], self.like
        around, inside = ([replace(table, entries=row) for table in some] for some in (like.around, like.inside))
        laid = replace(
            tables, values=row, row=self.used, around=around, inside=inside, place=like.place, many=like.many,
            first=like.first,
        )  # fmt: skip
        lay_out(tables, laid)
        self.used += 1
        return laid


class Sieve:
    """Decides which states of some tables are worth filling, and notes them in `Bounds.states`.

    Parameters
    ----------
    bounds : Bounds
        The tables.
    layout : Layout
    edges : list of float64[B]
        Spreads inside each boundary that the tables tell apart.
    worth : Worth
    """

    def __init__(self, bounds: Bounds, layout: Layout, edges: list[Floats], worth: Worth) -> None:
        grid, pj, needed = bounds.grid, bounds.pj, worth.needed
        least, may_keep, self.mirror = layout.share, layout.may_keep, layout.mirror
        levels, tensors = may_keep.shape
        self.bounds, self.states, self.total = bounds, worth.states, grid.shapes.total
        self.output = int(grid.space.encoded.constants.output[0])
        self.most_copies = np.cumprod([1.0, *(float(np.max(each.apart, initial=1.0)) for each in grid.options)])
        self.outside = least_outside(grid, pj, needed)
        self.inside = least_inside(grid.space, pj, needed, may_keep, least)
        self.innermost = layout.innermost
        self.moves = np.array([[int(t in moved) for t in range(tensors)] for moved, _ in self.innermost], np.int64)
        self.splits = np.stack([split for _, split in self.innermost])
        words = [
            (np.broadcast_to(needed[:, None], (tensors, self.total)), np.maximum(layout.moved(level), needed[:, None]))
            for level in range(levels)
        ]
        self.entering = [
            [
                np.stack([entering_cost(grid, pj, needed, may_keep, least, level, t, each[t]) for each in words[level]])
                for t in range(tensors)
            ]
            for level in range(levels)
        ]
        macs = float(grid.space.encoded.einsum.macs) * float(grid.space.encoded.constants.mac_cycles[0])
        widest = np.cumprod([1.0, *(float(np.max(each.spread, initial=1)) for each in grid.options)])
        self.caps = [
            np.array([worth.most(macs / (widest[level] * spread)) - worth.certain for spread in edges[level].tolist()])
            for level in range(levels)
        ]

    def is_worthless(self, level: int, parents: Parents) -> bool:
        """Whether no worthwhile mapping has tensors come from these levels at the tiles of a level."""
        known = self._known("inside", level, parents)
        if known is not None and not known.any():
            return True
        least = sum(self.outside[parent, t] + self.inside[level, parent, t] for t, parent in enumerate(parents[:-2]))
        cap = float(self.caps[level].max())
        return bool(least > cap + SLACK * abs(cap))

    def wanted(self, kind: str, level: int, contexts: list[Context]) -> Bools:
        """Which states other tables found worth filling: bool[C, S]."""
        found = np.ones((len(contexts), self.total), np.bool_)
        for number, context in enumerate(contexts):
            known = self._known(kind, level, context.state)
            if known is not None:
                found[number] = known.any(axis=0)
        return found

    def _known(self, kind: str, level: int, state: Parents) -> Bools | None:
        """Which shapes other tables found worth filling in a state: bool[B, S]; None if they do not tell."""
        states = self.states.get((kind, level), {})
        return states.get(state, states.get((*state[:-1], 0)))

    def limits(self, level: int, contexts: list[Context], copies: Floats) -> tuple[Floats, Floats]:
        """`Verdicts.room` and `Verdicts.off` of the network of a level."""
        outside = [sum(self.outside[parent, t] for t, parent in enumerate(each.parents)) for each in contexts]
        room = self.caps[level] - np.array(outside)[:, None]
        off = [self._counted_off(level, each.parents, copies) for each in contexts]
        return np.asarray(room + SLACK * np.abs(self.caps[level])), np.array(off)

    def _counted_off(self, level: int, parents: Parents, copies: Floats) -> tuple[float, float, float]:
        """What is counted off at most for one copy of the output, for the most, and where these lie on the chord."""
        parent = parents[self.output]
        elided = float(self.bounds.elided[parent])
        one = elided + float(self.bounds.narrow[parent])
        most = max(one, elided * float(self.most_copies[parent]))
        if len(copies) == 1:
            return float(self.most_copies[level] - 1.0) * float(self.bounds.copy_costs[level]) + most, most, 0.0
        return one, most, float((self.most_copies[parent] - 1.0) / (copies[-1] - 1.0))

    def sift(self, kind: str, level: int, table: CostTable, rows: Ints, values: Floats) -> Bools:
        """Find the shapes that are worth it in some contexts of a table, which are all of their states: bool[*, S].

        Parameters
        ----------
        kind : {"around", "inside"}
        rows : int64[*]
        values : float64[*, Q, A, B, S]
            Their entries; those of spreads for which a shape is not worth it become infinite.
        """
        contexts = [table.contexts[m] for m in rows.tolist()]
        live = np.ones((len(contexts), self.total), np.bool_)
        alike: dict[Parents, list[int]] = {}
        for number, context in enumerate(contexts):
            alike.setdefault(context.state, []).append(number)
        known = self.states.get((kind, level), {})
        found = self.bounds.states.setdefault((kind, level), dict(known))  # those without a context are worthless
        after = [self._statuses_after(table, moved) for moved, _ in self.innermost]
        for parents, numbers in alike.items():
            told = self._known(kind, level, parents)
            before = np.ones((1, self.total), np.bool_) if told is None else told
            if len(before) not in (1, len(table.edges)):
                before = np.asarray(before.any(axis=0, keepdims=True))
            some = np.flatnonzero(before.any(axis=0) & self.mirror.half)
            worth = np.zeros((len(table.edges), self.total), np.bool_)
            each = [values[number] for number in self._cheapest(contexts, numbers)]
            worth[:, some] = self._are_worth(kind, level, table, parents, each, some, after) & before[:, some]
            worth[:, self.mirror.image[some]] = worth[:, some]
            found[parents] = worth
            for number in numbers:
                live[number] = worth.any(axis=0)
                if len(worth) > 1:
                    np.copyto(values[number], np.inf, where=~worth)
        return live

    def _are_worth(
        self,
        kind: str,
        level: int,
        table: CostTable,
        parents: Parents,
        entries: list[Floats],
        some: Ints,
        after: list[list[int]],
    ) -> Bools:
        """Which of some shapes are worth filling, by whichever corner of the shares costs least: bool[B, *].

        `entries`: those of each corner, float64[Q, A, B, S]; `after`: of each way for the innermost loop outside
        to move tensors, as `_statuses_after`.
        """
        kept = [kind == "inside" and parent == level > 0 for parent in parents[:-2]]
        outside = sum(self.outside[parent, t] for t, parent in enumerate(parents[:-2]) if not kept[t])
        cap = self.caps[level] - outside
        cap += SLACK * np.abs(cap)
        found = np.zeros((len(table.edges), len(some)), np.bool_)
        for each in entries if len(some) else ():
            values = each if len(some) == self.total else each.take(some, axis=-1)
            together = len(after) if values[0].size <= _FEW else 1
            for first in range(0, len(after), together):
                ways = slice(first, first + together)
                lanes = np.empty((values.shape[1], len(after[ways]), *values.shape[2:]))
                for at, which in enumerate(after[ways]):
                    lanes[:, at] = values[which[0]]
                    for q in which[1:]:
                        np.minimum(lanes[:, at], values[q], out=lanes[:, at])
                least = self._least_completion(table, lanes, level, parents)
                for t in np.flatnonzero(kept):
                    least = least + self.entering[level][t][self.moves[ways, t]][:, None, some]
                found |= ((least <= cap[:, None]) & self.splits[ways][:, None, some]).any(axis=0)
        return found

    @staticmethod
    def _cheapest(contexts: list[Context], numbers: list[int]) -> list[int]:
        """Contexts of one state but for those in which networks leave more of all reads than in another one."""
        found: list[int] = []
        for number in sorted(numbers, key=lambda at: sum(contexts[at].shares)):
            shares = contexts[number].shares
            if not any(all(map(operator.le, contexts[other].shares, shares)) for other in found):
                found.append(number)
        return found

    def _statuses_after(self, table: CostTable, moved: frozenset[int]) -> list[int]:
        """Numbers of the statuses that steps may have if the innermost loop outside moves some tensors."""
        surely = [t for t in moved if t != self.bounds.structure.window]
        return [q for q, each in enumerate(table.statuses) if all(each[t] == NONE for t in surely)]

    def _least_completion(self, table: CostTable, lanes: Floats, level: int, parents: Parents) -> Floats:
        """Cost to go for any number of copies of the output: float64[*, B, *], from float64[A, *, B, *]."""
        one, most, share = self._counted_off(level, parents, table.copies)
        if len(table.copies) == 1:
            return np.asarray(lanes[0] - one)
        chord = np.full(lanes[0].shape, math.inf)  # which lies between the lanes
        finite = np.isfinite(lanes[0])
        chord[finite] = lanes[0][finite] + share * (lanes[1][finite] - lanes[0][finite])
        return np.asarray(np.minimum(lanes[0] - one, np.minimum(chord, lanes[1]) - most))
