"""Cost-to-go tables: least energy of everything further in, for each tile shape, level by level from the inside out.

Axis letters: D = dimensions, S = shapes, T = tensors, C = contexts of a table, Q = statuses, B = spreads, L = levels.
"""

from __future__ import annotations

import itertools
import math
import time

import numpy as np

from accelsim.inputs.errors import TablesTooLarge, TooManyChoices
from accelsim.model.detail import make_detail
from accelsim.model.encode import Bools, Floats, Ints
from accelsim.search.exact.blocks import SweepArrays, sweep_block
from accelsim.search.exact.network import NetworkScratch, NetworkSweep, only
from accelsim.search.exact.network_kernel import sweep_network
from accelsim.search.exact.plan import TablePlan
from accelsim.search.exact.shapes import Grid
from accelsim.search.exact.tables import Bounds, Context, CostTable
from accelsim.search.exact.tables_kernel import lay_apart, lay_beside, look_inside, turn
from accelsim.search.exact.worth import Worth

MOST_SPREAD_TILES = 30_000_000
"""Pairs of a tile and a way to spread it, where some dimensions may leave remainders, at most."""
IN_A_ROW, ROW_BYTES = 16, 128 << 20
"""Tables that a sweep over temporal blocks fills together, which lie next to each other for each shape, and what these
may take beside the tables, if there are several."""
IN_ONE_GO = 1_000_000
"""Entries of a table that are filled before the clock is looked at first; then as many as take a tenth of a second."""
LOOK_SECONDS = 0.1
AT_ONCE = 4_000_000
"""Entries of a table around a network that are filled together: they share what does not depend on the context."""
WORTH_IT = 4
"""So many times as many entries as there is room for are begun with: most turn out to be not worth it. Not on uneven
mappings: coarse tables first leave out whole contexts there (VGG conv3_2 on `gpu_sm` is proved in 16 s instead of 22).
"""
NO_FIRST, NO_PLACE = np.zeros(1, np.int64), np.zeros((1, 1), np.int32)
"""What stands for the tables further in than the innermost network."""
MOST_COARSE = 4_000_000
"""Entries of coarse tables with both corners of the shares that networks leave; larger ones take the lower corner."""
MORE = 64
"""So many times as many where mappings are uneven: the lower corner says little of tensors that pass nodes."""
MOST_BYTES = 3 << 28
"""Memory that the tables of one search may take unless another limit is given."""


class BoundsMaker(TablePlan):
    """Fills the tables; see `make_bounds`."""

    def make(self) -> Bounds:
        """Discover which contexts there are from the outside in, and fill the tables from the inside out."""
        bounds = self.bounds
        self._scratches: dict[tuple[int, int], NetworkScratch] = {}
        contexts, networks = self._plans()
        most, entries = MOST_COARSE * (MORE if self.grid.space.uneven else 1), self._entries(contexts)
        if not self.may_be_large and (entries > most or entries > self._room(contexts)):
            self.corners = False
            contexts, networks = self._plans()
        bounds.corners, bounds.networks = self.corners, networks
        self._refuse_endless()
        live = np.ones((1, 1), np.bool_)
        self._reserve(contexts)
        further: CostTable | None = None
        for level in range(self.levels - 1, -1, -1):
            around = bounds.around[level]
            costs = self._costs_anything(level, contexts[level])
            tiles = bounds.networks[level].tiles
            tiles = tiles[self.layout.mirror.half[tiles]]
            if level < self.levels - 1 and live.any():
                tiles = tiles[live[:, tiles].any(axis=0)]
            least = self._look_inside(level, further, tiles)
            live, inner = self._wanted("around", level, around.contexts), np.ascontiguousarray(live.T)
            bounds.work += len(tiles) * len(self.grid.bounding[level].spread) * int(costs.sum())
            most = max(1, AT_ONCE // (around.lanes * self.shapes.total))
            for rows in self._by_state(around.contexts, np.flatnonzero(costs), most):
                values = np.empty((len(rows), *self._sizes("around", level), self.shapes.total))
                for first in range(0, len(rows), most):
                    part, out = rows[first : first + most], values[first : first + most]
                    self._spread(level, part, live[part], tiles, further, least, inner, out)
                self._keep("around", level, around, rows, values, live)
            self._keep_zeros(around, costs, live)
            if level:
                further = bounds.inside[level]
                live = self._fill_inside(level, around, further, costs, live)
        bounds.values = bounds.values[: self.used]
        return bounds

    @staticmethod
    def _by_state(contexts: list[Context], rows: Ints, most: int) -> list[Ints]:
        """Some contexts in groups of at most so many, if those of one state are no more; states stay together."""
        found: list[list[int]] = []
        for _, state in itertools.groupby(rows.tolist(), lambda m: contexts[m].state):
            some = [*state]
            if found and len(found[-1]) + len(some) <= most:
                found[-1] += some
            else:
                found.append(some)
        return [np.array(some) for some in found]

    def _keep(self, kind: str, level: int, table: CostTable, rows: Ints, values: Floats, live: Bools) -> None:
        """Keep what is worth it of some contexts, float64[*, Q, A, B, S], which are all of their states; notes it."""
        self._look_at_clock()
        if self.sieve is not None:
            live[rows] &= self.sieve.sift(kind, level, table, rows, values)
        live[rows] &= np.isfinite(values.min(axis=(1, 2, 3)))
        for m, found in zip(rows.tolist(), values, strict=True):
            shapes = np.flatnonzero(live[m])
            self._begin(table, m, len(shapes))
            table.put(m, found, shapes)

    def _keep_zeros(self, table: CostTable, costs: Bools, live: Bools) -> None:
        """Keep the contexts in which nothing further in costs anything."""
        zeros = np.zeros((len(table.statuses), len(table.copies), len(table.edges), self.shapes.total))
        for m in np.flatnonzero(~costs).tolist():
            shapes = np.flatnonzero(live[m])
            self._begin(table, m, len(shapes))
            table.put(m, zeros, shapes)

    def _begin(self, table: CostTable, m: int, many: int) -> None:
        """Make room for so many shapes of a context."""
        table.first[m] = self.used
        self.used += many * table.lanes
        if self.used > len(self.bounds.values):
            self._refuse(self.used)

    def _spread(
        self,
        level: int,
        rows: Ints,
        wanted: Bools,
        tiles: Ints,
        further: CostTable | None,
        least: Floats,
        live: Bools,
        found: Floats,
    ) -> None:
        """Cost to go around the network of a level in some contexts: the best way to spread and keep, and what follows.

        Parameters
        ----------
        rows : int64[*]
        wanted : bool[*, S]
            Their shapes that are to be looked at.
        tiles, least, live
            As for `sweep_network`.
        found : float64[*, Q, A, B, S]
            Filled.
        """
        spreading = only(self.bounds.networks[level], rows)
        statuses, *sizes = self._sizes("around", level)
        out = np.full((self.shapes.total, len(rows), *sizes, statuses), np.inf)
        entries = len(self.grid.bounding[level].spread) * math.prod(out.shape[1:])
        wanted = np.ascontiguousarray(wanted.T)
        kind = level, spreading.like.size
        if kind not in self._scratches:
            self._scratches[kind] = self._scratch(*kind)
        scratch = self._scratches[kind]
        first_of, place = (NO_FIRST, NO_PLACE) if further is None else (further.first, further.place)
        sweep = NetworkSweep(
            c=self.c,
            shapes=self.shapes,
            options=self.grid.bounding[level],
            p=spreading,
            most=self.layout.most[level],
            next_of=self.layout.next_of(level),
            tiles=tiles,
            live=live,
            wanted=wanted,
            entries=self.bounds.values,
            first_of=first_of,
            place=place,
            least=least,
            out=out,
            s=make_detail(self.encoded),
            scratch=scratch,
        )
        first, go = 0, max(1, IN_ONE_GO // max(1, entries))
        while first < len(tiles):
            begun = self._look_at_clock()
            sweep_network(sweep._replace(tiles=tiles[first : first + go], least=least[first : first + go]))
            first += go
            go *= 4 if time.monotonic() - begun < LOOK_SECONDS / 4 else 1
        turn(out.reshape(self.shapes.total, len(rows), -1, statuses), in_lanes(found))

    def _look_inside(self, level: int, further: CostTable | None, tiles: Ints) -> Floats:
        """The least entries of some tiles, as `sweep_network` reads them: float64[*, C', 2 * I]."""
        after = self.bounds.networks[level].worth.after
        if further is None:
            return np.empty((len(tiles), 1, 2 * len(after)))
        self._look_at_clock()
        least = np.empty((len(tiles), len(further.contexts), 2 * len(after)))
        lanes = np.array([len(further.copies), len(further.edges), len(further.statuses)])
        look_inside(self.bounds.values, further.first, further.place, lanes, tiles, after, least)
        return least

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
            if kind == "inside" and context.room:  # they hold no less than that of this tile
                held = self.layout.words_kept(level)[0 if context.tight else 1, k]
                found[m] &= np.searchsorted(self.layout.rooms[level], held, side="right") <= context.room
        return found

    def _costs_anything(self, level: int, contexts: list[Context]) -> Bools:
        """Whether traffic further in costs anything; cycles of the outermost port end where nothing comes from it."""
        waits = self.waited_once is not None and bool(self.waited_once[level + 1 :].any())
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

    def _refuse(self, entries: int) -> None:
        """Raise because there is no room for so many entries."""
        needed = entries * self.many * self.bounds.pj.itemsize
        raise TablesTooLarge(
            f"the tables of the exact search would take more than {needed / (1 << 30):.3g} GiB, and "
            f"{self.most_bytes / (1 << 30):.3g} GiB are left; allow more (--memory-limit), or constrain what is stored"
        )

    def _reserve(self, contexts: list[list[Context]]) -> None:
        """Make room for all tables; of a part of them, that turn out to be worth it, if all are too many."""
        bounds, tables, room = self.bounds, self._tables(contexts), self._room(contexts)
        bounds.dense = bounds.work = self._entries(contexts)
        lanes = [math.prod(self._sizes(kind, level)) for kind, level, _ in tables]
        wanted = sum(int(self._wanted(*table).sum()) * each for table, each in zip(tables, lanes, strict=True))
        most = 1 if self.grid.space.uneven else WORTH_IT
        if wanted > room * most:
            self._refuse(wanted // most)
        many = sum(len(some) for _, _, some in tables)
        try:
            bounds.values, self.used = np.empty(min(room, wanted)), 0
            bounds.place = np.full((many, self.shapes.total), -1, np.int32)
        except MemoryError:  # more is allowed than there is
            self._refuse(wanted)
        bounds.many, bounds.first = np.zeros(many, np.int64), np.zeros(many, np.int64)
        begin = 0
        for kind, level, some in tables:
            rows = slice(begin, begin := begin + len(some))
            (bounds.around if kind == "around" else bounds.inside).append(
                CostTable(
                    some, self._statuses(kind, level), self.copies[level], self.edges[level], kind == "inside",
                    bounds.place[rows], bounds.many[rows], bounds.first[rows], bounds.values,
                )
            )  # fmt: skip

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
            comes_once=np.zeros(self.tensors),
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

    def _fill_inside(self, level: int, around: CostTable, table: CostTable, costs: Bools, live: Bools) -> Bools:
        """Keep the cost to go at the tiles of a level: its best temporal block, and what follows.

        `live`: where that around the network is kept, bool[C, S]; returns the same of the tiles.
        """
        wanted = self._wanted("inside", level, table.contexts)
        found = wanted & (live.any(axis=1) | ~costs)[:, None]
        self._keep_zeros(table, costs, found)
        rows = np.flatnonzero(costs & found.any(axis=1))
        if self.layout.merges[1]:  # a level that keeps nothing has no loops
            first = self.c.nodes[level, 0]
            empty = np.array([first not in context.parents for context in table.contexts])[rows]
            same, every = self.layout.told.skipped[level], np.arange(self.shapes.total)
            for some in self._by_state(table.contexts, rows[empty], 1):
                skipped = np.array([around.take(m, every)[same] for m in some.tolist()])
                self._keep("inside", level, table, some, skipped, found)
            rows = rows[~empty]
        lanes = len(around.copies) * len(around.edges)
        row_bytes = (len(around.statuses) + len(table.statuses) + 2) * self.shapes.total * lanes * 8
        most = max(1, min(IN_A_ROW // lanes, ROW_BYTES // row_bytes))
        alike: dict[tuple[float, tuple[int, ...], frozenset[int]], list[int]] = {}
        for row in rows.tolist():
            context = table.contexts[row]
            key = self._complete(level, context), self.layout.most_of(wanted[row]), self._settled(level, context)
            alike.setdefault(key, []).append(row)
        entries = self.shapes.total * lanes * min(most, len(rows))
        beside, room = np.empty(len(around.statuses) * entries), np.empty((len(table.statuses) + 2) * entries)
        for key, same_kind in alike.items():
            for some in self._by_state(table.contexts, np.array(same_kind), most):
                values = np.empty((len(some), *self._sizes("inside", level), self.shapes.total))
                for first in range(0, len(some), most):
                    part = some[first : first + most]
                    fitting = wanted[part]
                    self._sweep_blocks(
                        level, around, part, key, live, fitting, beside, room, values[first : first + most]
                    )
                self._keep("inside", level, table, some, values, found)
        return found

    def _sweep_blocks(
        self,
        level: int,
        around: CostTable,
        rows: Ints,
        kind: tuple[float, tuple[int, ...], frozenset[int]],
        live: Bools,
        wanted: Bools,
        beside: Floats,
        room: Floats,
        out: Floats,
    ) -> None:
        """Cost to go at the tiles of a level in some contexts: float64[*, Q, A, B, S].

        Parameters
        ----------
        kind
            How much of the reduction a tile must cover, how many sizes of each dimension tiles have, and the tensors
            whose statuses say nothing: the same for all of them.
        live, wanted : bool[C, S], bool[*, S]
            Shapes around the network that are worth it, and tiles that may be.
        beside, room : float64[*]
            Scratch space.
        """
        bound, offsets = np.ones(len(self.encoded.dims), np.int64), np.zeros(self.shapes.total, np.int64)
        alive, (covered, sizes, settled) = np.zeros(self.shapes.total, np.bool_), kind
        blocks, lanes = self.layout.blocks(level, settled), out[0, 0].size // self.shapes.total
        entries = self.shapes.total * len(rows) * lanes
        inner = beside[: len(around.statuses) * entries].reshape(len(around.statuses), -1, len(rows), lanes)
        lay_beside(around.entries, around.place, around.many, around.first, rows, blocks.used, inner)
        laid = room[: (len(blocks.images) + 2) * entries].reshape(-1, entries)
        swept, values, least = laid[0], laid[1], laid[2:]
        least[:] = np.inf
        sweep = SweepArrays(
            np.array(sizes), *self.layout.steps(level, sizes), np.asarray(live[rows].any(axis=0)),
            np.asarray(wanted.any(axis=0)), self.layout.reduced, np.array([covered]), inner.reshape(-1, entries), bound,
            offsets, alive, values,
        )  # fmt: skip
        for users, classes in blocks.classes:
            self._look_at_clock()
            alone = len(users) == 1
            found = least[users[0]] if alone else swept
            if not alone:
                swept[:] = np.inf
            for block in classes:
                sweep_block(self.shapes, block, sweep, found)
            for q in () if alone else users:
                np.minimum(least[q], swept, out=least[q])
        self.layout.mirror.lower(least.reshape(len(least), self.shapes.total, -1), blocks.images)
        for q, p in blocks.closing:
            np.minimum(least[q], least[p], out=least[q])
        # those filled together may have room where one of them has none
        lay_apart(least.reshape(len(least), *inner.shape[1:]), blocks.first_of, wanted, in_lanes(out))


def in_lanes(values: Floats) -> Floats:
    """Entries with copies and spreads on one axis: float64[*, Q, A * B, S], from float64[*, Q, A, B, S]."""
    return values.reshape(*values.shape[:2], -1, values.shape[-1])


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
    waited_once: Floats | None = None,
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
    waited_once : float64[L, L, T, 4], optional
        What all else waits for once besides, as `ports.Waits.waited_once`.

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
    return BoundsMaker(grid, spreads, pj, deadline, fine, corners, worth, most_bytes, many, waited_once).make()
