"""Contexts of the cost-to-go tables from the outside in, and what the sweeps over networks read of them.

Axis letters as in `bounds`.
"""

from __future__ import annotations

import itertools
import math
import time

import numpy as np

from accelsim.model.encode import BY_READ, BY_RETURN, BY_TRANSFER, BY_UPDATE, BY_WRITE, Bools, Floats, Ints
from accelsim.model.records import Int16s2
from accelsim.search.exact.layout import NodeTiles
from accelsim.search.exact.network import Spreading, Verdicts
from accelsim.search.exact.orders import NONE, Statuses
from accelsim.search.exact.output_costs import OutputCosts, copies_apart
from accelsim.search.exact.shapes import Grid
from accelsim.search.exact.tables import Bounds, Context, Sieve
from accelsim.search.exact.worth import Worth
from accelsim.search.stopping import asked

ALIKE = 1.5
"""Contexts for each state from which on choices that are not worth it are looked for: they share the verdict."""


class TablePlan(OutputCosts):
    """Which contexts tables are told apart by, and how networks lead from some to others; see `make_bounds`."""

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
        many: int,
        waited_once: Floats | None = None,
    ) -> None:
        super().__init__(grid, pj)
        self.waited_once, self.most_spreads, self.deadline = waited_once, spreads, deadline
        self.most_bytes, self.many = most_bytes, many
        self.encoded = grid.space.encoded
        self.costs: list[list[bool]] = np.asarray(self.pj.any(axis=2)).tolist()
        self.costs_on_way: list[list[bool]] = np.asarray(self.pj[:, :, BY_TRANSFER:].any(axis=2)).tolist()
        self._out: dict[int, tuple[Floats, Floats]] = {}
        layout = self.layout
        self.bounds = Bounds(
            grid, layout.structure, pj, layout.least, deepest=layout.deepest, numbers=layout.numbers,
            least_inside=layout.least_inside, elided=self.elided, narrow=self.narrow, copy_costs=self.copy_costs,
        )  # fmt: skip
        self.corners, self.may_be_large = corners is not False, fine or corners is not None
        self.copies = copies_apart(grid, layout.deepest) if fine else [np.ones(1)] * (self.levels + 1)
        self.edges = self.layout.edges.get(spreads) or [self._edges(level) for level in range(self.levels + 1)]
        self.layout.edges[spreads] = self.edges
        self.sieve = None if worth is None else Sieve(self.bounds, layout, self.edges, worth)

    def _look_at_clock(self) -> float:
        """Return the time, unless it has run out."""
        if asked():
            raise KeyboardInterrupt
        now = time.monotonic()
        if self.deadline is not None and now > self.deadline:
            raise TimeoutError("the tables take longer")
        return now

    def _edges(self, level: int) -> Floats:
        """Spreads that networks from a level inwards can reach together; few enough, the largest ones exactly.

        A network that constraints leave no way to spread reaches nothing, and no mapping is valid then.
        """
        found = {1}
        for options in self.grid.options[level:]:
            spreads = np.unique(options.spread).tolist()
            found = {a * b for a in found for b in spreads} or found
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

    def _tables(self, contexts: list[list[Context]]) -> list[tuple[str, int, list[Context]]]:
        """Kind, level and contexts of each table: those around networks first; the outermost tile has none."""
        inside = [[], *contexts[1 : self.levels]]
        return [
            (kind, level, some)
            for kind, every in (("around", contexts[: self.levels]), ("inside", inside))
            for level, some in enumerate(every)
        ]

    def _statuses(self, kind: str, level: int) -> list[Statuses]:
        """Statuses that the tables of a level tell apart."""
        return (self.layout.around_statuses if kind == "around" else self.layout.inside_statuses)[level]

    def _sizes(self, kind: str, level: int) -> tuple[int, int, int]:
        """Statuses, copies of the output and spreads that the tables of a level tell apart."""
        return len(self._statuses(kind, level)), len(self.copies[level]), len(self.edges[level])

    def _entries(self, contexts: list[list[Context]]) -> int:
        """Entries of all tables, if all shapes are worth it."""
        tables = self._tables(contexts)
        return self.shapes.total * sum(len(some) * math.prod(self._sizes(kind, level)) for kind, level, some in tables)

    def _room(self, contexts: list[list[Context]]) -> int:
        """How many entries there is room for."""
        rows = sum(len(some) for _, _, some in self._tables(contexts))
        left = self.most_bytes - rows * self.shapes.total * np.dtype(np.int32).itemsize
        return max(0, left) // (self.many * self.pj.itemsize)

    def _plan(self, level: int, contexts: list[Context]) -> tuple[Spreading, list[Context]]:
        """Contexts inside a network, and how those outside it lead to them."""
        innermost = level == self.levels - 1
        corner = [] if innermost else self.layout.least[level + 1].tolist()
        keeps = np.ones((1, self.tensors), np.bool_) if innermost else self.layout.fits[level + 1][0]
        inner: list[Context] = []
        held = np.zeros((len(contexts), 1), np.int64) if innermost else self._held(level + 1, contexts, keeps)
        node = level + 1 if innermost else int(self.c.nodes[level + 1, 0])
        rooms = 0 if innermost else len(self.layout.rooms[level + 1])
        room = [self.layout.rooms[level][context.room - 1] if context.room else 0 for context in contexts]
        number_like: dict[NodeTiles, int] = {}
        like = np.full((len(contexts), len(keeps)), 0 if innermost else -1, np.int64)
        target = np.full((len(contexts), len(keeps), 2 * (rooms + 1), 1 << self.tensors), -1, np.int64)
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
                told = rooms > 0 and self._tells_room(level + 1, parents)
                keeping = NodeTiles(int(held[m, k]), k, context.tight, int(room[m]), told)
                some = [
                    kind for kind in self.layout.different_kinds(level + 1, keeping)
                    if self.sieve is None or not self.sieve.is_worthless(level + 1, (*parents, kind % 2, kind // 2))
                ]  # fmt: skip
                like[m, k] = number_like.setdefault(keeping, len(number_like)) if some else -1
                for kind, way in itertools.product(some, range(1 << len(passes))):
                    shares = [1.0] * self.tensors
                    for t in range(self.tensors):
                        if not row[t] and (not self.corners or (t in passes and way >> passes.index(t) & 1)):
                            shares[t] = corner[context.parents[t]][t]
                    further = Context(parents, tuple(shares), bool(kind % 2), kind // 2)
                    if further not in number:
                        number[further] = len(inner)
                        inner.append(further)
                    target[m, k, kind, way] = number[further]
        order = sorted(range(len(inner)), key=lambda at: inner[at].state)
        inner = [inner[at] for at in order]
        target[target >= 0] = np.argsort(order)[target[target >= 0]]
        if not inner and not innermost:  # nothing is worth it: one context, that none outside leads to
            inner.append(Context((0,) * self.tensors, (1.0,) * self.tensors))
        kinds: Int16s2 = (
            np.zeros((1, 1), np.int16) if innermost else self.layout.inner_kinds(level + 1, tuple(number_like))
        )
        parent = np.array([context.parents for context in contexts], np.int64)
        shared = np.array([context.shares for context in contexts])
        charged = self._shares(level, parent, shared)
        spreading = Spreading(
            level=np.array([level], np.int64),
            keeps=keeps,
            reduced=self.layout.reduced,
            complete=np.array([self._complete(level, context) if innermost else 0.0 for context in contexts]),
            like=like,
            kinds=kinds,
            moves_out=self._move_out(level + 1, contexts, keeps),
            rests=self.layout.rests,
            partner=np.array(self.layout.structure.partner),
            tiles=np.flatnonzero((kinds >= 0).any(axis=1)),
            parent=parent,
            shared=shared,
            fixed=self._fixed(level),
            shares=charged,
            unshared=self._shares(level, parent, np.ones(shared.shape)) if self.shapes.ragged.any() else charged,
            waited_once=self._waited_once(level, parent),
            target=target,
            passing=passing,
            near=np.divide(1.0, 1.0 - least, out=np.zeros_like(least), where=least < 1.0),
            status=np.array(self.layout.around_statuses[level], np.int64),
            inner=np.array(self.layout.told.inner[level], np.int64),
            loose=np.array([self.bounds.structure.loose]),
            elided=self._elided(level, parent),
            finished=self.finished[level : level + 1],
            copy_costs=self.copy_costs[level + 1 : level + 2],
            copies=self.copies[level],
            inner_copies=self.copies[level + 1],
            edges=self.edges[level],
            inner_edges=self.edges[level + 1],
            counts=np.array([self._counts(t, {*parents}) for t, parents in enumerate(parent.T.tolist())]),
            moves=self.layout.moves,
            loops=self.layout.loops,
            orders=self.layout.orders,
            worth=self._verdicts(level, contexts, parent),
            image=self.layout.mirror.image,
            becomes=self.layout.around_images[level],
        )
        return spreading, inner

    def _verdicts(self, level: int, contexts: list[Context], parents: Ints) -> Verdicts:
        """What tells which ways to spread and keep are worth it at a network."""
        window, around = self.layout.structure.window, self.layout.around_statuses[level]
        inner = self.layout.told.inner[level]
        many = 1 if level == self.levels - 1 else len(self.layout.inside_statuses[level + 1])
        number = {state: at for at, state in enumerate(dict.fromkeys(context.state for context in contexts))}
        loops = self.sieve.innermost if self.sieve and len(contexts) >= ALIKE * len(number) else []
        moved, after = np.zeros((len(loops), self.tensors), np.bool_), np.zeros((len(loops), many), np.bool_)
        for i, (each, _) in enumerate(loops):
            moved[i, [t for t in each if not self.c.windowed[t]]] = True
            after[i, [inner[q] for q, some in enumerate(around) if all(some[t] == NONE for t in each - {window})]] = (
                True
            )
        fewest = self.layout.least[level][parents, np.arange(self.tensors)]
        room, off = np.full((len(contexts), len(self.edges[level])), np.inf), np.zeros((len(contexts), 3))
        if self.sieve and loops:
            room, off = self.sieve.limits(level, contexts, self.copies[level])
        return Verdicts(
            state=np.array([number[context.state] for context in contexts]),
            fewest=fewest,
            shares=self._shares(level, parents, fewest),
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

    def _tells_room(self, level: int, parents: tuple[int, ...]) -> bool:
        """Whether it counts what the nodes of a level hold so far: they hold some, and further ones may hold more."""
        first, may_keep = int(self.c.nodes[level, 0]), self.layout.may_keep[level]
        return first in parents and any(may and parent != first for may, parent in zip(may_keep, parents, strict=True))

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

    def _complete(self, level: int, context: Context) -> float:
        """How much of the reduction a tile must cover, so that none is left but to networks between it and the parent.

        0 if the parent has room for partial sums.
        """
        if not context.tight:
            return 0.0
        parent = context.parents[int(self.c.output[0])]
        return float(self.layout.reduced[-1]) / math.prod(self.layout.apart[parent:level]) * (1.0 - 1e-9)

    def _settled(self, level: int, context: Context) -> frozenset[int]:
        """Tensors that a storage node of a level keeps already, and none further in: their statuses say nothing."""
        first, end = self.c.nodes[level].tolist()
        return frozenset(
            t for t, parent in enumerate(context.parents) if parent == first and self.layout.deepest[t] < end
        )

    def _counts(self, t: int, parents: set[int]) -> bool:
        """Whether words of a tensor that comes from some levels cost anything from there inwards."""
        return self.waited_once is not None or any(row[t] for row in self.costs[min(parents) :])

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

    def _shares(self, level: int, parents: Ints, shares: Floats) -> Floats:
        """Cost of a word of each tensor that leaves the network of a level for the parent: float64[C, T].

        It pays the nearest network outside the level that has several children, and those of one child further in. On
        the others there are at least as many words as the parent sees, because networks only bring words together.
        """
        output = int(self.c.output[0])
        near, further = self._words_out(level)
        tensors = np.arange(self.tensors)
        found = near[parents, tensors] + shares * further[parents, tensors]
        found[:, output] += self._back(level)[parents[:, output]]
        return np.asarray(found)

    def _back(self, level: int) -> Floats:
        """`_coming_back`, for each parent."""
        return np.array([self._coming_back(level, parent) for parent in range(level + 1)])

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

    def _waited_once(self, level: int, parents: Ints) -> Floats:
        """What all else waits for once at the next level; see `Spreading`."""
        if self.waited_once is None or level == self.levels - 1 or not self.waited_once[level + 1].any():
            return np.zeros((len(parents), 0, 4))
        return np.asarray(self.waited_once[level + 1][parents, np.arange(self.tensors)])

    def _elided(self, level: int, parents: Ints) -> Floats:
        """What the words of the output cost that do not come to the next level, for each copy of the output there."""
        t = int(self.c.output[0])
        if self.c.windowed[t]:
            return np.zeros(len(parents))
        return np.asarray(self.entering[level] + self.c.whole[t] * self._back(level)[parents[:, t]])
