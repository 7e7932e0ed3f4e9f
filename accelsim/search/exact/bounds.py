"""Cost-to-go tables: least energy of everything further in, for each tile shape, level by level from the inside out.

Axis letters: D = dimensions, S = shapes, T = tensors, C = contexts of a table, Q = statuses, B = spreads, L = levels.
"""

from __future__ import annotations

import functools
import itertools
import math
import time

import numpy as np

from accelsim.inputs.errors import TablesTooLarge, TooManyChoices
from accelsim.model.detail import make_detail
from accelsim.model.encode import Bools, Floats, Ints
from accelsim.search.exact.blocks import SweepArrays, lay_apart, lay_beside, sweep_block
from accelsim.search.exact.network import NetworkScratch, only
from accelsim.search.exact.network_kernel import sweep_network
from accelsim.search.exact.plan import TablePlan
from accelsim.search.exact.shapes import Grid
from accelsim.search.exact.tables import Bounds, Context, CostTable, lay_out
from accelsim.search.exact.worth import Worth

MOST_SPREAD_TILES = 30_000_000
"""Pairs of a tile and a way to spread it, where some dimensions may leave remainders, at most."""
IN_A_ROW, ROW_BYTES = 16, 64 << 20
"""Tables that a sweep over temporal blocks fills together, which lie next to each other for each shape, and what these
may take beside the tables, if there are several."""
IN_ONE_GO = 1_000_000
"""Entries of a table that are filled before the clock is looked at first; then as many as take a tenth of a second."""
LOOK_SECONDS = 0.1
AT_ONCE = 4_000_000
"""Entries of a table around a network that are filled together: they share what does not depend on the context."""
TURNED = 512
"""Shapes whose entries are laid out anew together: few enough to stay in the processor's caches."""
MOST_COARSE = 4_000_000
"""Entries of coarse tables with both corners of the shares that networks leave; larger ones take the lower corner."""
MORE = 64
"""So many times as many where mappings are uneven: the lower corner says little of tensors that pass nodes."""
MOST_BYTES = 2 << 30
"""Memory that the tables of one search may take unless another limit is given."""


class BoundsMaker(TablePlan):
    """Fills the tables; see `make_bounds`."""

    def make(self, finer: Bounds | None = None) -> Bounds:
        """Discover which contexts there are from the outside in, and fill the tables from the inside out.

        `finer`: the same tables that tell more spreads apart; they need not be filled then.
        """
        bounds = self.bounds
        contexts, networks = self._plans()
        most, starts = MOST_COARSE * (MORE if self.grid.space.uneven else 1), self._entries(contexts)
        if not self.may_be_large and (starts[-1] > most or self._bytes(starts) > self.most_bytes):
            self.corners = False
            contexts, networks = self._plans()
        bounds.corners = self.corners
        live = np.ones((1, 1), np.bool_)
        self._reserve(contexts)
        further = CostTable([Context((), ())], [()], np.ones(1), self.edges[self.levels], np.zeros((1, 1, 1, 1, 1)))
        bounds.networks = networks
        if finer is not None:
            bounds.states, bounds.work = finer.states, bounds.work + finer.work - finer.values.size
            bounds.values[:] = 0.0
            lay_out(finer, bounds, bounds.values)
            return bounds
        self._refuse_endless()
        for level in range(self.levels - 1, -1, -1):
            around = bounds.around[level]
            costs = self._costs_anything(level, contexts[level])
            tiles = bounds.networks[level].tiles
            tiles = tiles[self.layout.mirror.half[tiles]]
            if level < self.levels - 1 and live.any():
                tiles = tiles[live[:, tiles].any(axis=0)]
            inside, least = self._look_inside(level, further, tiles, live)
            live = np.ascontiguousarray(live.T)
            many = max(1, AT_ONCE // around.values[0].size)
            rows = np.flatnonzero(costs)
            bounds.work += len(tiles) * len(self.grid.bounding[level].spread) * len(rows)
            for first in range(0, len(rows), many):
                self._fill_around(level, around, rows[first : first + many], tiles, inside, least, live)
            around.values[~costs] = 0.0
            live = self._sift("around", level, around, costs)
            if level:
                further = bounds.inside[level]
                self._fill_inside(level, around, further, costs, live)
                live = self._sift("inside", level, further, costs)
        return bounds

    def _fill_around(
        self, level: int, around: CostTable, rows: Ints, tiles: Ints, inside: Floats, least: Floats, live: Bools
    ) -> None:
        """Cost to go around the network of a level in some contexts: the best way to spread and keep, and what follows.

        Parameters
        ----------
        rows : int64[*]
        tiles, inside, least, live
            As for `sweep_network`.
        """
        spreading = only(self.bounds.networks[level], rows)
        copies, edges = len(around.copies), len(around.edges)
        out = np.full((self.shapes.total, len(rows), copies, edges, len(around.statuses)), np.inf)
        entries = len(self.grid.bounding[level].spread) * math.prod(out.shape[1:])
        wanted = np.ascontiguousarray(self._wanted("around", level, around.contexts)[rows].T)
        scratch = self._scratch(level, spreading.held.size)
        first, go = 0, max(1, IN_ONE_GO // max(1, entries))
        while first < len(tiles):
            begun = self._look_at_clock()
            sweep_network(
                self.c,
                self.shapes,
                self.layout.most[level],
                self.grid.bounding[level],
                spreading,
                tiles[first : first + go],
                live,
                wanted,
                inside[first : first + go],
                least[first : first + go],
                out,
                make_detail(self.encoded),
                scratch,
            )
            first += go
            go *= 4 if time.monotonic() - begun < LOOK_SECONDS / 4 else 1
        for at in range(0, self.shapes.total, TURNED):
            around.values[rows, ..., at : at + TURNED] = out[at : at + TURNED].transpose(1, 4, 2, 3, 0)

    def _look_inside(self, level: int, further: CostTable, tiles: Ints, live: Bools) -> tuple[Floats, Floats]:
        """What `sweep_network` reads of the tables at some tiles, where they are finite; `live`: bool[C', S].

        Returns
        -------
        inside : float64[*, C', A' * B' * Q']
        least : float64[*, C', 2 * I]
            The least of them, for one copy of the output and the most, for each innermost loop outside.
        """
        innermost, after = level == self.levels - 1, self.bounds.networks[level].worth.after
        many = len(further.contexts)
        inside = np.empty((len(tiles), many, math.prod(further.values.shape[1:-1])))
        least = np.empty((len(tiles), many, 2 * len(after)))
        for m in range(0 if innermost else many):
            self._look_at_clock()
            at = np.flatnonzero(live[m, tiles])
            values = further.values[m].take(tiles[at], axis=-1)
            inside[at, m] = values.transpose(3, 1, 2, 0).reshape(len(at), inside.shape[2])
            for i, statuses in enumerate(after):
                for copies in (0, -1):
                    some = [values[q, copies, b] for q in np.flatnonzero(statuses) for b in range(len(further.edges))]
                    least[at, m, i - copies * len(after)] = functools.reduce(np.minimum, some)
        return inside, least

    def _sift(self, kind: str, level: int, table: CostTable, costs: Bools) -> Bools:
        """Drop states that are not worth filling; returns bool[C, S], where some are left."""
        self._look_at_clock()
        wanted = self._wanted(kind, level, table.contexts)
        return wanted if self.sieve is None else np.asarray(self.sieve.sift(kind, level, table, costs) & wanted)

    def _wanted(self, kind: str, level: int, contexts: list[Context]) -> Bools:
        """Which states may be worth filling: bool[C, S]."""
        found = np.ones((len(contexts), self.shapes.total), np.bool_)
        if self.sieve is not None:
            found = self.sieve.wanted(kind, level, contexts)
        keeps, fits = self.layout.fits[level]
        sets = {tuple(row): k for k, row in enumerate(keeps.tolist())}
        first, end = self.c.nodes[level].tolist()
        for m, context in enumerate(contexts if kind == "inside" or end - first > 1 else ()):
            k = sets.get(tuple(parent == first for parent in context.parents))
            found[m] &= k is not None and fits[k]  # what nodes further out hold fits with a smaller tile, too
        return found

    def _costs_anything(self, level: int, contexts: list[Context]) -> Bools:
        """Whether traffic further in costs anything; cycles of the outermost port end where nothing comes from it."""
        waits = self.once is not None and bool(self.once[level + 1 :].any())
        if waits or any(map(any, self.costs[level + 1 :])) or any(self.costs_on_way[level]):
            return np.ones(len(contexts), np.bool_)
        on_way = self.costs_on_way
        passing = [
            any(self.costs[above][t] or any(row[t] for row in on_way[above:level]) for t, above in enumerate(parents))
            for parents, *_ in contexts
        ]
        return np.array(passing)

    def _refuse_endless(self) -> None:
        """Raise where remainders leave so many tiles and ways to spread that the tables would take minutes."""
        if not self.shapes.ragged.any():
            return
        pairs = sum(
            len(spreading.tiles) * len(options.spread)
            for spreading, options in zip(self.bounds.networks, self.grid.options, strict=True)
        )
        if pairs > MOST_SPREAD_TILES:
            raise TooManyChoices(
                f"{pairs:.2g} ways to spread tiles are too many; let fewer dimensions leave remainders"
            )

    def _bytes(self, starts: list[int]) -> int:
        """What as many tables as asked for take that begin there, and what a sweep over a network reads of them."""
        read = max(b - a for a, b in itertools.pairwise(starts[self.levels :]))
        return (starts[-1] * self.many + read) * self.bounds.pj.itemsize

    def _reserve(self, contexts: list[list[Context]]) -> None:
        """Make room for all tables."""
        bounds = self.bounds
        starts = self._entries(contexts)
        needed = self._bytes(starts)
        if needed > self.most_bytes:
            raise TablesTooLarge(
                f"the tables of the exact search would take {needed / (1 << 30):.3g} GiB, more than the "
                f"{self.most_bytes / (1 << 30):.3g} GiB left; allow more (--memory), or constrain what levels keep"
            )
        bounds.values, bounds.work = np.empty(starts[-1]), starts[-1]
        bounds.around_at = np.array(starts[: self.levels], np.int64)
        bounds.inside_at = np.array(starts[self.levels : -1], np.int64)
        for at, statuses in enumerate([*self.layout.around_statuses, *self.layout.inside_statuses]):
            level = at % self.levels
            values = bounds.values[starts[at] : starts[at + 1]]
            copies, edges = self.copies[level], self.edges[level]
            values = values.reshape(-1, len(statuses), len(copies), len(edges), self.shapes.total)
            (bounds.around if at < self.levels else bounds.inside).append(
                CostTable(contexts[level], statuses, copies, edges, values)
            )

    def _scratch(self, level: int, pairs: int) -> NetworkScratch:
        dims, statuses = len(self.encoded.dims), len(self.layout.around_statuses[level])
        inner = 1 if level == self.levels - 1 else len(self.layout.inside_statuses[level + 1])
        many = len(self.grid.bounding[level].spread)
        return NetworkScratch(
            tile=np.zeros(dims, np.int64),
            mid=np.zeros(dims, np.int64),
            x=np.ones((self.levels, dims), np.int64),
            y=np.ones((self.levels, dims), np.int64),
            words=np.zeros(self.tensors),
            largest=np.zeros(self.tensors),
            stays=np.zeros(self.tensors),
            once=np.zeros(self.tensors),
            staying=np.zeros((len(self.layout.orders) + 1, self.tensors)),
            most=np.zeros(len(self.layout.moves)),
            steps=np.zeros(len(self.layout.moves)),
            each=np.zeros(self.tensors),
            anyway=np.zeros(self.tensors),
            share=np.zeros(self.tensors),
            passing=np.zeros(self.tensors),
            factor=np.zeros((self.tensors, statuses)),
            rests=np.zeros(self.tensors, np.bool_),
            weight=np.zeros(1 << self.tensors),
            slide=np.zeros(dims),
            copies=np.zeros(2),
            chord=np.zeros(2),
            saved=np.zeros(2),
            pair=np.zeros((pairs, 4), np.int64),
            slot=np.zeros(len(self.edges[level + 1]), np.int64),
            cost=np.zeros(statuses),
            further=np.zeros(len(self.copies[level + 1]) * len(self.edges[level + 1]) * inner),
            option=np.zeros(many, np.int64),
            around=np.zeros(many, np.int64),
            edge=np.zeros(many, np.int64),
            moved=np.zeros((self.tensors, many)),
            shares=np.zeros((self.tensors, many)),
            ways=np.zeros((1 << self.tensors, many)),
            least=np.zeros((2 * len(self.bounds.networks[level].worth.after), many)),
            worthless=np.zeros((pairs, many), np.bool_),
        )

    def _fill_inside(self, level: int, around: CostTable, table: CostTable, costs: Bools, live: Bools) -> None:
        """Cost to go at the tiles of a level: its best temporal block, and what follows."""
        bound, offsets = np.ones(len(self.encoded.dims), np.int64), np.zeros(self.shapes.total, np.int64)
        wanted = self._wanted("inside", level, table.contexts)
        rows = np.flatnonzero(costs & live.any(axis=1) & wanted.any(axis=1))
        table.values[~costs] = 0.0
        worthless = costs.copy()
        worthless[rows] = False
        table.values[worthless] = np.inf
        if self.layout.merges[1]:  # a level that keeps nothing has no loops
            first = self.c.nodes[level, 0]
            empty = np.array([first not in context.parents for context in table.contexts])[rows]
            same = self.layout.told.skipped[level]
            for row in rows[empty]:
                table.values[row] = np.where(wanted[row], around.values[row, same], np.inf)
            rows = rows[~empty]
        lanes = len(around.copies) * len(around.edges)
        row_bytes = (len(around.statuses) + len(table.statuses) + 2) * self.shapes.total * lanes * table.values.itemsize
        many = max(1, min(IN_A_ROW // lanes, ROW_BYTES // row_bytes))
        alike: dict[tuple[float, tuple[int, ...], frozenset[int]], list[int]] = {}
        for row in rows.tolist():
            context = table.contexts[row]
            key = self._complete(level, context), self.layout.most_of(wanted[row]), self._settled(level, context)
            alike.setdefault(key, []).append(row)
        entries = self.shapes.total * many * lanes
        beside, room = np.empty(len(around.statuses) * entries), np.empty((len(table.statuses) + 2) * entries)
        for (covered, most, settled), same in alike.items():
            blocks = self.layout.blocks(level, settled)
            for first in range(0, len(same), many):
                some = np.array(same[first : first + many])
                entries = self.shapes.total * len(some) * lanes
                inner = beside[: len(around.statuses) * entries].reshape(len(around.statuses), -1, len(some), lanes)
                lay_beside(_in_lanes(around), some, blocks.used, inner)
                laid = room[: (len(blocks.images) + 2) * entries].reshape(-1, entries)
                swept, values, found = laid[0], laid[1], laid[2:]
                found[:] = np.inf
                sweep = SweepArrays(
                    np.array(most), *self.layout.steps(level, most), np.asarray(live[some].any(axis=0)),
                    np.asarray(wanted[some].any(axis=0)), self.layout.reduced, np.array([covered]),
                    inner.reshape(-1, entries), bound, offsets, values,
                )  # fmt: skip
                for users, classes in blocks.classes:
                    self._look_at_clock()
                    alone = len(users) == 1
                    out = found[users[0]] if alone else swept
                    if not alone:
                        swept[:] = np.inf
                    for block in classes:
                        sweep_block(self.shapes, block, sweep, out)
                    for q in () if alone else users:
                        np.minimum(found[q], swept, out=found[q])
                self.layout.mirror.lower(found.reshape(len(found), self.shapes.total, -1), blocks.images)
                np.minimum(found, found[0], out=found)
                for q, p in blocks.closing:
                    np.minimum(found[q], found[p], out=found[q])
                lay_apart(  # those filled together may have room where one of them has none
                    found.reshape(len(found), *inner.shape[1:]), blocks.first_of, some, wanted, _in_lanes(table)
                )


def _in_lanes(table: CostTable) -> Floats:
    """The entries of a table, copies and spreads on one axis: float64[C, Q, A * B, S]."""
    return table.values.reshape(*table.values.shape[:2], -1, table.values.shape[-1])


def make_bounds(
    grid: Grid,
    spreads: int,
    pj: Floats,
    deadline: float | None = None,
    *,
    fine: bool = False,
    corners: bool | None = None,
    worth: Worth | None = None,
    most_bytes: int | None = None,
    many: int = 1,
    once: Floats | None = None,
    finer: Bounds | None = None,
) -> Bounds:
    """Fill the cost-to-go tables of a map space.

    Parameters
    ----------
    grid : Grid
    spreads : int
        How many classes of spatial spread to tell apart; more give better bounds where cycles count.
    pj : float64[L, T, 4]
        What an element's action costs: its energy [pJ], or anything else that adds up.
    deadline : float, optional
        When to give up, by `time.monotonic`.
    fine : bool
        Whether to tell copies of the output apart.
    corners : bool, optional
        Whether there are tables of both corners of the shares that networks leave; default: if they are fine or not
        too large.
    worth : Worth, optional
        What mappings may cost; states that only others go through are infinite. Default: all are filled.
    most_bytes : int, optional
        Memory that the tables may take; default: `MOST_BYTES`.
    many : int
        How many tables as large as these are to fit there.
    once : float64[L, L, T, 4], optional
        What all else waits for once besides, as `mixed.Waits.once`.
    finer : Bounds, optional
        The same tables that tell as many spreads apart, or more than one; these are their least entries.

    Returns
    -------
    Bounds

    Raises
    ------
    TimeoutError
        If they are not filled by the deadline.
    TablesTooLarge
        If they would take more than `most_bytes`.
    """
    most_bytes = MOST_BYTES if most_bytes is None else most_bytes
    return BoundsMaker(grid, spreads, pj, deadline, fine, corners, worth, most_bytes, many, once).make(finer)
