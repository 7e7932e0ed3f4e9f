"""Cost-to-go tables: least energy of everything further in, for each tile shape, level by level from the inside out.

Axis letters: D = dimensions, S = shapes, T = tensors, C = contexts of a table, Q = statuses, B = spreads, L = levels.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from accelsim.inputs.errors import TablesTooLarge, TooManyChoices
from accelsim.model.detail import make_detail
from accelsim.model.encode import Bools, Floats, Ints
from accelsim.model.kernel import BY_READ, BY_RETURN, BY_TRANSFER, BY_UPDATE, BY_WRITE
from accelsim.search.exact.blocks import SweepArrays, lay_apart, lay_beside, sweep_block
from accelsim.search.exact.network import NetworkScratch, Spreading, Verdicts, only
from accelsim.search.exact.network_kernel import sweep_network
from accelsim.search.exact.orders import NONE
from accelsim.search.exact.output_costs import OutputCosts, copies_apart
from accelsim.search.exact.shapes import Grid
from accelsim.search.exact.tables import Bounds, Context, CostTable, Sieve, lay_out
from accelsim.search.exact.worth import Worth
from accelsim.search.stopping import asked

MOST_SPREAD_TILES = 30_000_000
"""Pairs of a tile and a way to spread it, where some dimensions may leave remainders, at most."""
IN_A_ROW = 16
"""Tables that a sweep over temporal blocks fills together, which lie next to each other for each shape."""
IN_ONE_GO = 1_000_000
"""Entries of a table that are filled before the clock is looked at first; then as many as take a tenth of a second."""
LOOK_SECONDS = 0.1
AT_ONCE = 4_000_000
"""Entries of a table around a network that are filled together: they share what does not depend on the context."""
TURNED = 512
"""Shapes whose entries are laid out anew together: few enough to stay in the processor's caches."""
ALIKE = 1.5
"""Contexts for each state from which on choices that are not worth it are looked for: they share the verdict."""
MOST_COARSE = 4_000_000
"""Entries of coarse tables with both corners of the shares that networks leave; larger ones take the lower corner."""
MORE = 64
"""So many times as many where mappings are uneven: the lower corner says little of tensors that pass nodes."""
MOST_BYTES = 2 << 30
"""Memory that the tables of one search may take unless another limit is given."""


class BoundsMaker(OutputCosts):
    """Fills the tables; see `make_bounds`."""

    def __init__(
        self,
        grid: Grid,
        spreads: int,
        pj: Floats,
        deadline: float | None,
        fine: bool,
        corners: bool | None,
        worth: Worth | None,
        most_bytes: int,
        once: Floats | None = None,
    ) -> None:
        super().__init__(grid, pj)
        self.once, self.most_spreads, self.deadline, self.most_bytes = once, spreads, deadline, most_bytes
        self.encoded = grid.space.encoded
        self.costs: list[list[bool]] = np.asarray(self.pj.any(axis=2)).tolist()
        self.costs_on_way: list[list[bool]] = np.asarray(self.pj[:, :, BY_TRANSFER:].any(axis=2)).tolist()
        self._out: dict[int, tuple[Floats, Floats]] = {}
        layout = self.layout
        self.bounds = Bounds(
            grid, layout.structure, layout.statuses, pj, layout.least, deepest=layout.deepest, numbers=layout.numbers,
            least_inside=layout.least_inside, elided=self.elided, narrow=self.narrow, copy_costs=self.copy_costs,
        )  # fmt: skip
        self.corners, self.may_be_large = corners is not False, fine or corners is not None
        self.copies = copies_apart(grid, layout.deepest) if fine else [np.ones(1)] * (self.levels + 1)
        self.edges = self.layout.edges.get(spreads) or [self._edges(level) for level in range(self.levels + 1)]
        self.layout.edges[spreads] = self.edges
        self.sieve = None if worth is None else Sieve(self.bounds, layout, self.edges, worth)

    def _complete(self, level: int, context: Context) -> float:
        """How much of the reduction a tile must cover, so that none is left but to networks between it and the parent.

        0 if the parent has room for partial sums.
        """
        if not context.tight:
            return 0.0
        parent = context.parents[int(self.c.output[0])]
        return float(self.layout.reduced[-1]) / math.prod(self.layout.apart[parent:level]) * (1.0 - 1e-9)

    def _edges(self, level: int) -> Floats:
        """Spreads that networks from a level inwards can reach together; few enough, the largest ones exactly.

        A network that constraints leave no way to spread reaches nothing, and no mapping is valid then.
        """
        found = {1}
        for options in self.grid.options[level:]:
            found = {a * b for a in found for b in set(options.spread.tolist())} or found
        further_out = math.prod(self.layout.widest[:level])
        few = min(max(found), self.grid.least_used / further_out)
        edges = sorted((spread for spread in found if spread >= few), reverse=True)
        if len(edges) > self.most_spreads:
            kept = edges[: max(1, self.most_spreads // 2)]
            rest = edges[len(kept) :]
            more = self.most_spreads - len(kept)
            kept += [
                rest[at] for at in sorted(set((np.geomspace(1, len(rest), max(more, 1)).astype(int) - 1).tolist()))
            ][:more]
            edges = sorted(set(kept), reverse=True)
        return np.array(sorted(edges), np.float64)

    def make(self, finer: Bounds | None = None) -> Bounds:
        """Discover which contexts there are from the outside in, and fill the tables from the inside out.

        `finer`: the same tables that tell more spreads apart; they need not be filled then.
        """
        bounds = self.bounds
        contexts, networks = self._plans()
        most = MOST_COARSE
        if self.grid.space.uneven:
            most = min(MORE * most, self.most_bytes // bounds.pj.itemsize)
        if not self.may_be_large and self._entries(contexts)[-1] > most:
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

    def _plans(self) -> tuple[list[list[Context]], list[Spreading]]:
        """Contexts of the tables of each level, and how networks lead from some to others."""
        contexts: list[list[Context]] = [[Context((0,) * self.tensors, (1.0,) * self.tensors)]]
        networks = []
        for level in range(self.levels):
            self._look_at_clock()
            spreading, inner = self._plan(level, contexts[level])
            networks.append(spreading)
            contexts.append(inner)
        return contexts, networks

    def _entries(self, contexts: list[list[Context]]) -> list[int]:
        """Where the tables of each level begin, first those around networks and then those at tiles, and the end."""
        starts = [0]
        for around in (True, False):
            for level in range(self.levels):
                statuses = (self.layout.around_statuses if around else self.layout.inside_statuses)[level]
                each = len(self.copies[level]) * len(self.edges[level])
                many = len(contexts[level]) * len(statuses) * each if around or level else 0
                starts.append(starts[-1] + many * self.shapes.total)
        return starts

    def _counts(self, t: int, parents: set[int]) -> bool:
        """Whether words of a tensor that comes from some levels cost anything from there inwards."""
        return self.once is not None or any(row[t] for row in self.costs[min(parents) :])

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

    def _look_at_clock(self) -> float:
        """Return the time, unless it has run out."""
        if asked():
            raise KeyboardInterrupt
        now = time.monotonic()
        if self.deadline is not None and now > self.deadline:
            raise TimeoutError("the tables take longer")
        return now

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

    def _reserve(self, contexts: list[list[Context]]) -> None:
        """Make room for all tables."""
        bounds = self.bounds
        starts = self._entries(contexts)
        needed = starts[-1] * bounds.pj.itemsize
        if needed > self.most_bytes:
            raise TablesTooLarge(
                f"the tables of the exact search would take {needed / (1 << 30):.3g} GiB, more than the "
                f"{self.most_bytes / (1 << 30):.3g} GiB left; constrain what levels keep, or what is spread over them"
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

    def _plan(self, level: int, contexts: list[Context]) -> tuple[Spreading, list[Context]]:
        """Contexts inside a network, and how those outside it lead to them."""
        innermost = level == self.levels - 1
        corner = [] if innermost else self.layout.least[level + 1].tolist()
        alone = np.ones((1, self.tensors), np.bool_), np.ones((1, 1), np.bool_)
        keeps, fits = alone if innermost else self.layout.fits[level + 1]
        inner: list[Context] = []
        held = np.zeros((len(contexts), 1), np.int64) if innermost else self._held(level + 1, contexts, keeps)
        node = level + 1 if innermost else int(self.c.nodes[level + 1, 0])
        wide = fits if innermost else self.layout.wide[level + 1]
        output = int(self.c.output[0])
        target = np.full((len(contexts), len(keeps), 2, 1 << self.tensors), -1, np.int64)
        passing = np.full((len(keeps), self.tensors), -1, np.int64)
        least = np.ones((len(contexts), len(keeps), self.tensors))
        number: dict[Context, int] = {}
        for k, row in enumerate([] if innermost else keeps.tolist()):
            passes = [
                t
                for t in range(self.tensors)
                if self.corners and not row[t] and any(corner[context.parents[t]][t] < 1.0 for context in contexts)
            ]
            passing[k, : len(passes)] = passes
            for m, context in enumerate(contexts):
                if held[m, k] < 0:
                    continue
                for w, t in enumerate(passes):
                    least[m, k, w] = corner[context.parents[t]][t]
                parents = tuple(node if row[t] else context.parents[t] for t in range(self.tensors))
                tights = [context.tight]
                if keeps[held[m, k], output]:
                    some = fits[held[m, k]] & (wide[held[m, k]] ^ [[False], [True]])
                    tights = [tight for tight in (False, True) if some[int(tight)].any()]
                    if not row[output]:
                        tights = sorted({context.tight or tight for tight in tights})
                tights = [
                    tight for tight in tights
                    if self.sieve is None or not self.sieve.is_worthless(level + 1, (*parents, int(tight)))
                ]  # fmt: skip
                if not tights:
                    held[m, k] = -1
                for tight, way in itertools.product(tights, range(1 << len(passes))):
                    shares = [1.0] * self.tensors
                    for t in range(self.tensors):
                        if not row[t] and (not self.corners or (t in passes and way >> passes.index(t) & 1)):
                            shares[t] = corner[context.parents[t]][t]
                    key = Context(parents, tuple(shares), tight)
                    if key not in number:
                        number[key] = len(inner)
                        inner.append(key)
                    target[m, k, int(tight), way] = number[key]
        order = sorted(range(len(inner)), key=lambda at: inner[at].state)
        inner = [inner[at] for at in order]
        target[target >= 0] = np.argsort(order)[target[target >= 0]]
        if not inner and not innermost:  # nothing is worth it: one context, that none outside leads to
            inner.append(Context((0,) * self.tensors, (1.0,) * self.tensors))
        charged, alone = self._shares(level, contexts), (1.0,) * self.tensors
        unshared = [each._replace(shares=alone) for each in contexts]
        spreading = Spreading(
            level=np.array([level], np.int64),
            keeps=keeps,
            fits=fits,
            wide=wide,
            tight=np.array([context.tight for context in contexts]),
            reduced=self.layout.reduced,
            complete=np.array([self._complete(level, context) if innermost else 0.0 for context in contexts]),
            held=held,
            moves_out=self._move_out(level + 1, contexts, keeps),
            rests=self.layout.rests,
            partner=np.array(self.layout.structure.partner),
            reuses=np.array(self.layout.structure.reuses, np.float64),
            tiles=np.flatnonzero(fits[np.unique(held[held >= 0])].any(axis=0)),
            parent=np.array([context.parents for context in contexts], np.int64),
            shared=np.array([context.shares for context in contexts]),
            fixed=self._fixed(level),
            shares=charged,
            unshared=self._shares(level, unshared) if self.shapes.ragged.any() else charged,
            once=np.array([self._once(level, context) for context in contexts]),
            target=target,
            passing=passing,
            near=np.divide(1.0, 1.0 - least, out=np.zeros_like(least), where=least < 1.0),
            status=np.array(self.layout.around_statuses[level], np.int64),
            inner=np.array(self.layout.inner_statuses(level), np.int64),
            loose=np.array([self.bounds.structure.loose]),
            elided=np.array([self._elided(level, context) for context in contexts]),
            finished=self.finished[level : level + 1],
            copy_costs=self.copy_costs[level + 1 : level + 2],
            copies=self.copies[level],
            inner_copies=self.copies[level + 1],
            edges=self.edges[level],
            inner_edges=self.edges[level + 1],
            counts=np.array([self._counts(t, {each.parents[t] for each in contexts}) for t in range(self.tensors)]),
            moves=self.layout.moves,
            loops=self.layout.loops,
            orders=self.layout.orders,
            worth=self._verdicts(level, contexts),
            image=self.layout.mirror.image,
            becomes=self.layout.around_images[level],
        )
        return spreading, inner

    def _verdicts(self, level: int, contexts: list[Context]) -> Verdicts:
        """What tells which ways to spread and keep are worth it at a network."""
        window, around = self.layout.structure.window, self.layout.around_statuses[level]
        inner = self.layout.inner_statuses(level)
        many = 1 if level == self.levels - 1 else len(self.layout.inside_statuses[level + 1])
        number = {state: at for at, state in enumerate(dict.fromkeys(context.state for context in contexts))}
        loops = self.sieve.innermost if self.sieve and len(contexts) >= ALIKE * len(number) else []
        moved, after = np.zeros((len(loops), self.tensors), np.bool_), np.zeros((len(loops), many), np.bool_)
        for i, (each, _) in enumerate(loops):
            moved[i, [t for t in each if not self.c.windowed[t]]] = True
            after[i, [inner[q] for q, some in enumerate(around) if all(some[t] == NONE for t in each - {window})]] = (
                True
            )
        parents, tensors = np.array([context.parents for context in contexts]), np.arange(self.tensors)
        fewest = self.layout.least[level][parents, tensors]
        room, off = np.full((len(contexts), len(self.edges[level])), np.inf), np.zeros((len(contexts), 3))
        if self.sieve and loops:
            room, off = self.sieve.limits(level, contexts, self.copies[level])
        return Verdicts(
            state=np.array([number[context.state] for context in contexts]),
            fewest=fewest,
            shares=self._shares(
                level, [each._replace(shares=tuple(row)) for each, row in zip(contexts, fewest, strict=True)]
            ),
            room=room,
            off=off,
            moved=np.tile(moved.T.astype(np.float64), 2),
            split=np.array([split for _, split in loops], np.bool_).reshape(-1, self.shapes.total),
            after=after,
        )

    def _held(self, level: int, contexts: list[Context], keeps: Bools) -> Ints:
        """What a level holds in each context with what its next node keeps too, by number of the latter: int64[C, K].

        -1 if there is no such mapping: no tensor has two nodes in a level; its last node, or the one before another
        node than the first that keeps nothing, keeps what must be kept. Where levels that keep nothing have no loops,
        the first node keeps something if any does.
        """
        sets = [frozenset(np.flatnonzero(row).tolist()) for row in keeps]
        number = {kept: k for k, kept in enumerate(sets)}
        found = np.full((len(contexts), len(keeps)), -1, np.int64)
        first, last = int(self.c.nodes[level, 0]), int(self.c.nodes[level, 1]) - 1
        begins = first if self.layout.merges[1] else first + 1
        required = frozenset(np.flatnonzero(self.grid.space.required[last]).tolist())
        for m, context in enumerate(contexts):
            before = frozenset(t for t, parent in enumerate(context.parents) if parent == first)
            for k, kept in enumerate(sets):
                ends = level == last or (level >= begins and not kept)
                late = begins == first < level and kept and not before
                if not before & kept and not late and (not ends or required <= before | kept):
                    found[m, k] = number[before | kept]
        return found

    def _move_out(self, level: int, contexts: list[Context], keeps: Bools) -> Bools:
        """Where tensors that a level's node keeps would stand further out if they rested: bool[C, K].

        The node comes after the first one, and keeps one tensor, or there is a node to spare: it is the second one,
        and the first keeps some.
        """
        found = np.zeros((len(contexts), len(keeps)), np.bool_)
        first = self.c.nodes[min(level, self.levels - 1), 0]
        for m, context in enumerate(contexts if first < level < self.levels else ()):
            found[m] = (keeps.sum(axis=1) == 1) | (level == first + 1 and first in context.parents)
        return found

    def _settled(self, level: int, context: Context) -> frozenset[int]:
        """Tensors that a storage node of a level keeps already, and none further in: their statuses say nothing."""
        first, end = self.c.nodes[level].tolist()
        return frozenset(
            t for t, parent in enumerate(context.parents) if parent == first and self.layout.deepest[t] < end
        )

    def _fixed(self, level: int) -> Floats:
        """Cost of a word of each tensor that crosses the network of a level and enters the next one: float64[T].

        A word of the output comes back first, but for the first words, which are counted off.
        """
        pj, output = self.pj, int(self.c.output[0])
        found = pj[level, :, BY_TRANSFER].copy()
        if self.c.windowed[output]:
            found[output] -= 0.0 if level == self.levels - 1 else pj[level + 1, output, BY_WRITE]
        else:
            found[output] += pj[level, output, BY_RETURN]
        if level < self.levels - 1:
            found += pj[level + 1, :, BY_WRITE]
            found[output] += pj[level + 1, output, BY_READ] if self.c.drain[level + 1] else 0.0
        return found

    def _shares(self, level: int, contexts: list[Context]) -> Floats:
        """Cost of a word of each tensor that leaves the network of a level for the parent: float64[C, T].

        It pays the nearest network outside the level that has several children, and those of one child further in. On
        the others there are at least as many words as the parent sees, because networks only bring words together.
        """
        output = int(self.c.output[0])
        near, further = self._words_out(level)
        parents, tensors = np.array([context.parents for context in contexts]), np.arange(self.tensors)
        found = near[parents, tensors] + np.array([context.shares for context in contexts]) * further[parents, tensors]
        found[:, output] += [self._coming_back(level, parent) for parent in parents[:, output].tolist()]
        return np.asarray(found)

    def _words_out(self, level: int) -> tuple[Floats, Floats]:
        """Cost of a word from the network of a level out to each parent: over the nearest networks, and from there."""
        if level not in self._out:
            output = int(self.c.output[0])
            near, further = np.zeros((2, level + 1, self.tensors))
            for parent in range(level + 1):
                nearest = self.layout.nearest(parent, level)
                near[parent], far = (
                    self.pj[a:b, :, BY_TRANSFER].sum(axis=0) for a, b in ((nearest, level), (parent, nearest))
                )
                seen = self.pj[parent, :, BY_READ].copy()
                seen[output] = seen[output] * (not self.c.windowed[output]) + self.pj[parent, output, BY_UPDATE]
                further[parent] = far + seen
            self._out[level] = near, further
        return self._out[level]

    def _once(self, level: int, context: Context) -> Floats:
        """What all else waits for once at the next level; see `Spreading`."""
        if self.once is None or level == self.levels - 1 or not self.once[level + 1].any():
            return np.zeros((0, 4))
        return np.array([self.once[level + 1, parent, t] for t, parent in enumerate(context.parents)])

    def _elided(self, level: int, context: Context) -> float:
        """What the words of the output cost that do not come to the next level, for each copy of the output there."""
        t = int(self.c.output[0])
        if self.c.windowed[t]:
            return 0.0
        return float(self.entering[level] + self.c.whole[t] * self._coming_back(level, context.parents[t]))

    def _fill_inside(self, level: int, around: CostTable, table: CostTable, costs: Bools, live: Bools) -> None:
        """Cost to go at the tiles of a level: its best temporal block, and what follows."""
        offsets = np.zeros(self.shapes.total, np.int64)
        wanted = self._wanted("inside", level, table.contexts)
        rows = np.flatnonzero(costs & live.any(axis=1) & wanted.any(axis=1))
        table.values[~costs] = 0.0
        worthless = costs.copy()
        worthless[rows] = False
        table.values[worthless] = np.inf
        if self.layout.merges[1]:  # a level that keeps nothing has no loops
            first = self.c.nodes[level, 0]
            empty = np.array([first not in context.parents for context in table.contexts])[rows]
            same = [around.statuses.index(self.layout.reduce(each, level, True)) for each in table.statuses]
            for row in rows[empty]:
                table.values[row] = np.where(wanted[row], around.values[row, same], np.inf)
            rows = rows[~empty]
        lanes = len(around.copies) * len(around.edges)
        many = max(1, IN_A_ROW // lanes)
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
                    inner.reshape(-1, entries), offsets, values,
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


_kept: ContextVar[dict[tuple[object, ...], Bounds] | None] = ContextVar("kept", default=None)


@contextmanager
def keep_bounds() -> Iterator[None]:
    """Within, `make_bounds` makes the same tables only once: one census asks for some of them three times."""
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def make_bounds(
    grid: Grid,
    spreads: int,
    pj: Floats,
    deadline: float | None = None,
    *,
    fine: bool = False,
    corners: bool | None = None,
    keep: bool = True,
    worth: Worth | None = None,
    most_bytes: int | None = None,
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
    keep : bool
        Whether to keep them within `keep_bounds`.
    worth : Worth, optional
        What mappings may cost; states that only others go through are infinite. Default: all are filled.
    most_bytes : int, optional
        Memory that the tables may take; default: `MOST_BYTES`.
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
    maker, kept = BoundsMaker(grid, spreads, pj, deadline, fine, corners, worth, most_bytes, once), _kept.get()
    if kept is None or not keep or worth is not None or once is not None or finer is not None:
        return maker.make(finer)
    space = grid.space
    constants = tuple(array.tobytes() for array in space.encoded.constants)
    asked = (grid.least_used, grid.every, spreads, pj.tobytes(), fine, corners)
    key = (constants, space.encoded.dims, space.constraints, space.imperfect, asked)
    if key not in kept:
        kept[key] = maker.make()
    return kept[key]
