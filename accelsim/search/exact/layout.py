"""What all cost-to-go tables of a grid are told apart by: statuses, tiles that fit, blocks of loops.

Axis letters as in `bounds`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cache, cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from accelsim.model.encode import PE, STREAM, UNLIMITED, Bools, Floats, Ints
from accelsim.model.records import Int16s2
from accelsim.search.exact.blocks import BlockKind, BlockSweep, blocks_in_time, kind_of_block, steps_in_time
from accelsim.search.exact.orders import NONE, STATIONARY, UNDECIDED, Statuses, Structure, all_statuses, order_classes
from accelsim.search.exact.shapes import Grid, size_numbers
from accelsim.search.exact.symmetries import Mirror, exchanged, statuses_exchanged
from accelsim.search.exact.worth import innermost_loops, moved_words


class Blocks(NamedTuple):
    """Classes of the orders of a level's temporal block, for the statuses outside that lead to different ones.

    Q = sets of statuses at the tiles; those that lead to the same classes share a number.
    """

    first_of: Ints
    """int64[Q]: number of each set of statuses."""
    images: Ints
    """int64[*]: for each number, the one that it becomes where `Layout.mirror` exchanges dimensions."""
    closing: list[tuple[int, int]]
    """Pairs of numbers, as `gaps_that_close` has them: the cost to go of the first is lowered to that of the second."""
    classes: list[tuple[tuple[int, ...], list[BlockSweep]]]
    """Classes of orders with the numbers that they are for."""
    used: Ints
    """int64[*]: sets of statuses around the network that the classes lead to, as numbers of the table there."""


class NodeTiles(NamedTuple):
    """Tiles that a storage node of a level keeps, described by what decides to which contexts they lead."""

    held: int
    """Choice of tensors that the nodes of the level keep then, as a row of `Layout.fits`."""
    k: int
    """Choice of tensors that the node keeps, as a row of `Layout.fits`."""
    tight: bool
    """Whether the output's parent has no room for partial sums."""
    room: int
    """Units that nodes of the level hold so far at least."""
    told: bool
    """Whether contexts inside are told apart by classes of words held."""


def make_structure(grid: Grid) -> Structure:
    """What classes of loop orders depend on."""
    c = grid.space.encoded.constants
    tensors, dims = c.relevant.shape
    windowed = [t for t in range(tensors) if c.windowed[t]]
    partner = [-1] * dims
    loose = len(windowed) > 1
    for t in windowed:
        for r in {int(c.rank[t, d]) for d in range(dims) if c.relevant[t, d]}:
            inside = [d for d in range(dims) if c.relevant[t, d] and c.rank[t, d] == r]
            loose |= len(inside) > 2
            if len(inside) == 2:
                partner[inside[0]], partner[inside[1]] = inside[1], inside[0]
    idle = tuple(frozenset(t for t in range(tensors) if not c.relevant[t, d]) for d in range(dims))
    if loose or not windowed:
        return Structure(idle, -1, (-1,) * dims, tensors, loose)
    far, prime = c.factor[windowed[0]], grid.shapes.sizes == 2
    whole = frozenset(d for d, other in enumerate(partner) if other >= 0 and prime[d] and far[d] < far[other])
    ragged = grid.shapes.ragged
    paced = frozenset(
        d for d, r in enumerate(partner) if r >= 0 and prime[r] and far[r] <= far[d] and not (ragged[d] or ragged[r])
    )
    return Structure(idle, windowed[0], tuple(partner), tensors, False, whole, paced)


class Layout:
    """What the tables of a grid share, whatever they hold.

    Attributes
    ----------
    structure : Structure
    merges : bool[4]
        As `CostTables` has them.
    rests : int64[T]
        Whether a tensor's storage node after the first of a level may rest: 0 if so, 2 if not, 1: as `passes_window`.
    may_keep : bool[L, T]
    widest, apart : list
        Of each network, the most children in use, and the most copies of the output.
    share : list of list of float
        Least share of the children of each network that take words of their own, of each tensor.
    least, least_inside, deepest, numbers
        As `Bounds` has them.
    told : ToldStatuses
    around_statuses, inside_statuses : list of list of Statuses
        Those of the tables around the network of each level, and of those at its tiles.
    fits : list of (bool[K, T], bool[K, S])
        For each level, as `MapSpace.fitting_keeps`; wide : list of bool[K, S], which tiles fit with partial sums.
    rooms : list of int64[R]
        As `rooms_of`, if the grid asks for it; else none.
    reduced : float64[S]
        How much of the reduction a shape covers.
    most : list of int64[D]
        How many sizes of each dimension occur in tiles that fit each level.
    mirror : Mirror
        What tables take from one half of the shapes for the other.
    around_images : list of int64[Q]
        What its exchange makes of the statuses of each level.
    kinds : list of BlockKind
        Of the temporal block of each level.
    moves, loops : bool[I, T], bool[I, D]
        Kinds of loops: the tensors that they move, and the dimensions of each.
    orders : int64[*, I]
        All orders of these.
    edges : dict of list of float64[B]
        By how many spreads tables tell apart: those of each boundary, once they are known.
    """

    def __init__(self, grid: Grid) -> None:
        self.grid, self.shapes, self.c = grid, grid.shapes, grid.space.encoded.constants
        self.levels, self.tensors = self.c.word_parts.shape[:2]
        self.structure = make_structure(grid)
        self.merges = self._merges(grid.every)
        self.rests = self._rests()
        self.may_keep = grid.space.may_keep
        self.widest = [int(np.max(each.spread, initial=1)) for each in grid.options]
        self.apart = [float(np.max(each.apart, initial=1.0)) for each in grid.options]
        self.share = [[self._least_share(level, t) for t in range(self.tensors)] for level in range(self.levels)]
        self.least = np.ones((self.levels, self.levels, self.tensors))
        for level, parent, t in np.ndindex(*self.least.shape):
            self.least[level, parent, t] = math.prod(self.share[at][t] for at in range(parent, level))
        self.least_inside = np.array(
            [
                [math.prod(row[t] for row in self.share[lv:]) for t in range(self.tensors)]
                for lv in range(self.levels + 1)
            ]
        )
        self.deepest = [int(np.flatnonzero(self.may_keep[:, t]).max()) for t in range(self.tensors)]
        self.told = tell_statuses(self.structure, tuple(self.deepest), self.levels)
        self.around_statuses, self.inside_statuses, self.numbers = self.told.around, self.told.inside, self.told.numbers
        sizes = [row[:many] for row, many in zip(self.shapes.size, self.shapes.sizes.tolist(), strict=True)]
        self.fits = [grid.space.fitting_keeps(self.shapes.box, sizes, level) for level in range(self.levels)]
        self._tell_widths_apart(sizes)
        self.rooms = [self.rooms_of(level) if grid.rooms else np.zeros(0, np.int64) for level in range(self.levels)]
        self.most = [self._most(level) for level in range(self.levels)]
        self._kept: dict[int, Ints] = {}
        self._inner_kinds: dict[tuple[int, tuple[NodeTiles, ...]], Int16s2] = {}
        self._different_kinds: dict[tuple[int, NodeTiles], list[int]] = {}
        self._next_of: dict[int, Ints] = {}
        self._steps: dict[tuple[int, tuple[int, ...]], tuple[Ints, Ints]] = {}
        self.mirror = Mirror(grid)
        self.around_images = [self.mirror.statuses(each) for each in self.around_statuses]
        self.kinds = [kind_of_block(grid, self.structure, level) for level in range(self.levels)]
        self.edges: dict[int, list[Floats]] = {}
        self.moves = np.unique(self.c.relevant.T, axis=0)
        self.loops = (self.moves[:, None] == self.c.relevant.T[None]).all(axis=2)
        orders = itertools.permutations(range(len(self.moves))) if self.shapes.ragged.any() else ()
        self.orders = np.array([*orders], np.int64).reshape(-1, len(self.moves))

    @cached_property
    def innermost(self) -> list[tuple[frozenset[int], Bools]]:
        """What the innermost loop outside a tile may be; see `innermost_loops`."""
        return innermost_loops(self.grid)

    def moved(self, level: int) -> Floats:
        """Words into all tiles of a level if that loop moves them; see `moved_words`."""
        return moved_words(self.grid, level) if self.shapes.ragged.any() else self._moved_at_any

    @cached_property
    def _moved_at_any(self) -> Floats:
        """The same at any level, where no loop leaves a remainder."""
        return moved_words(self.grid, 0)

    def _merges(self, every: bool) -> Bools:
        """Whether two blocks with no storage node between them are as good as one: `CostTables.merges`.

        Of the loops over one dimension in a block there can be but one. So it does not hold with remainders, in a level
        but for the dimensions of a window, and across levels only without windows; with those there is
        `outermost_dims`, also for levels that keep some tensors.
        """
        space, structure, c = self.grid.space, self.structure, self.c
        engines = bool(c.dma.any())  # how often they move tiles depends on where nodes stand
        within = not (structure.loose or every or space.imperfect or engines)
        streams = c.array[STREAM] >= 0  # by the loops at its array
        across = within and not streams and all(map(space.is_unbound, range(self.levels)))
        slides, timed = structure.window not in (-1, int(c.output[0])), bool(c.overlap.any()) or c.array[PE] >= 0
        stays = across and slides and not timed
        some = across and (slides or structure.window < 0) and not timed and not space.uneven
        return np.array([within, across and structure.window < 0, stays or some, some])

    def _rests(self) -> Ints:
        """Whether nodes after the first of a level may rest; docs/papers/exact-mapper.md, Lemma 27."""
        found = np.zeros(self.tensors, np.int64)
        for t in range(self.tensors if self.merges[0] else 0):
            idle = [d for d, other in enumerate(self.structure.partner) if other >= 0 and not self.c.relevant[t, d]]
            apart = all(self.c.relevant[t, self.structure.partner[d]] for d in idle)
            if not self.c.windowed[t]:
                found[t] = 2 if not idle else int(self.merges[2] and apart)
        return found

    def _tell_widths_apart(self, sizes: list[Ints]) -> None:
        """Note which tiles fit with partial sums, and how much of the reduction a shape covers: bool[K, S], float64[S].

        All fit where these are no wider, and where `OutputCosts` does not know.
        """
        t, shapes, space = int(self.c.output[0]), self.shapes, self.grid.space
        known = not self.c.windowed[t] and not shapes.ragged.any()
        self.sums = np.maximum(0, self.c.word_parts[:, t, 1] - self.c.word_parts[:, t, 0]) * known
        self.wide = [
            space.fitting_keeps(shapes.box, sizes, level, sums=True)[1] if self.sums[level] else fits
            for level, (_, fits) in enumerate(self.fits)
        ]
        self.reduced = np.ones(shapes.total)
        digits = size_numbers(shapes)
        for d in np.flatnonzero(self.c.reduces).tolist():
            self.reduced *= shapes.size[d, digits[d]]

    def rooms_of(self, level: int) -> Ints:
        """From how many words on, held by its storage nodes so far, tables of a level may tell classes apart; or none.

        What matters is what is left to further nodes: nothing, 1 word, 2, 4, 8 ...
        """
        c, last = self.c, int(self.c.nodes[level, 1]) - 1
        most = int((c.whole * c.word_parts[level].max(axis=1)).sum())
        if level == last or c.partitioned[level] or c.capacity[level] == UNLIMITED or c.capacity[level] >= most:
            return np.zeros(0, np.int64)
        room = int(c.capacity[level])
        return np.array([0, *(room - (1 << k) for k in range(62, -1, -1) if 1 << k < room), room], np.int64)

    def words_kept(self, level: int) -> Ints:
        """Words that a level holds of a tile if it keeps some tensors of it: int64[2, K, S].

        As finished words, and as partial sums.
        """
        if level not in self._kept:
            parts, output = self.c.word_parts[level].min(axis=1), int(self.c.output[0])
            keeps = self.fits[level][0].astype(np.int64)
            narrow = keeps * parts @ self.shapes.box
            wide = narrow + keeps[:, output, None] * self.sums[level] * self.shapes.box[output]
            self._kept[level] = np.stack([narrow, wide])
        return self._kept[level]

    def different_kinds(self, level: int, keeping: NodeTiles) -> list[int]:
        """The different ones of `inner_kinds`, ascending."""
        if (level, keeping) not in self._different_kinds:
            found = self._inner_kinds_of(level, keeping)
            self._different_kinds[level, keeping] = np.unique(found[found >= 0]).tolist()
        return self._different_kinds[level, keeping]

    def inner_kinds(self, level: int, some: tuple[NodeTiles, ...]) -> Int16s2:
        """Kinds of contexts that each tile of a level leads to, as `Spreading` has them: int16[S, *]."""
        if (level, some) not in self._inner_kinds:
            found = np.full((self.shapes.total, len(some)), -1, np.int16)
            for at, keeping in enumerate(some):
                found[:, at] = self._inner_kinds_of(level, keeping)
            self._inner_kinds[level, some] = found
        return self._inner_kinds[level, some]

    def _inner_kinds_of(self, level: int, keeping: NodeTiles) -> Ints:
        """Kinds of contexts that each tile of a level leads to; -1 if it does not fit: int64[S]."""
        held, k, tight, room, told = keeping
        (keeps, fits), output = self.fits[level], int(self.c.output[0])
        fit, tights = fits[held] & fits[k], np.full(self.shapes.total, tight)
        if keeps[held, output]:
            tights = ~self.wide[level][held] | bool(tight and not keeps[k, output])
        if not (room or told):
            return np.where(fit, tights.astype(np.int64), -1)
        most, (narrow, wide) = self.c.capacity[level], self.words_kept(level)
        loose = np.maximum(room, wide[held] - wide[k]) + wide[k]
        tights |= (loose > most) & (narrow[held] != wide[held])
        before = narrow[held] - narrow[k]
        if tight or keeps[k, output] or not keeps[held, output]:  # then `room` counts finished words
            before = np.maximum(before, room)
        words = np.where(tights, before + narrow[k], loose)
        classes = np.searchsorted(self.rooms[level], words, side="right") * told
        return np.where(fit & (words <= most), 2 * classes + tights, -1)

    def next_of(self, level: int) -> Ints:
        """After each option of a network the first one that spreads some dimension up to d otherwise: int64[O, D]."""
        if level not in self._next_of:
            place = self.grid.bounding[level].place
            differs = np.diff(place, axis=0) != 0
            found = np.full(place.shape, len(place), np.int64)
            for d in range(place.shape[1]):
                begins = np.append(np.flatnonzero(differs[:, : d + 1].any(axis=1)) + 1, len(place))
                found[:, d] = begins[np.searchsorted(begins, np.arange(len(place)), side="right")]
            self._next_of[level] = found
        return self._next_of[level]

    def _least_share(self, level: int, t: int) -> float:
        """Smallest share of the children of a network that take words of their own."""
        options, output = self.grid.options[level], t == self.c.output[0]
        flags = self.c.reduction[level] if output else self.c.multicast[level, :, t]
        share = (options.up if output else options.down)[:, t].copy()
        wide = options.windowed[:, t]
        for bounds, on in ((options.x, flags[0]), (options.y, flags[1])):
            if on and wide.any():
                share[wide] /= bounds[wide][:, self.c.relevant[t]].prod(axis=1)
        if self.c.links[level] and self.c.windowed[t] and not output:
            share = 1.0 / options.spread
        return float(share.min(initial=1.0))

    def _most(self, level: int) -> Ints:
        """How many sizes of each dimension occur in tiles that fit a level."""
        fits = self.fits[level][1]
        return self.shapes.sizes if level == 0 else np.array(self.most_of(np.asarray(fits.any(axis=0))), np.int64)

    def most_of(self, tiles: Bools) -> tuple[int, ...]:
        """How many sizes of each dimension occur in some tiles."""
        lattice, dims = tiles.reshape(self.shapes.sizes), range(len(self.shapes.sizes))
        found = (np.flatnonzero(lattice.any(axis=tuple(e for e in dims if e != d))) for d in dims)
        return tuple(int(each[-1]) + 1 if len(each) else 1 for each in found)

    def steps(self, level: int, most: tuple[int, ...]) -> tuple[Ints, Ints]:
        """Loops that the temporal block of a level may have around so many sizes; see `steps_in_time`."""
        key = level, most
        if key not in self._steps:
            self._steps[key] = steps_in_time(self.grid, level, np.array(most))
        return self._steps[key]

    def nearest(self, parent: int, level: int) -> int:
        """The nearest network outside a level, up to the parent, that has several children; else the outermost."""
        return next((at for at in range(level - 1, parent - 1, -1) if self.widest[at] > 1), parent)

    def blocks(self, level: int, settled: frozenset[int]) -> Blocks:
        """Classes of the orders of a level's temporal block, where statuses of `settled` tensors say nothing."""
        return make_blocks(
            self.kinds[level],
            tuple(self.around_statuses[level]),
            tuple(self.inside_statuses[level]),
            tuple(deepest - level for deepest in self.deepest),
            settled,
            () if self.mirror.alone else tuple(self.mirror.order.tolist()),
        )


class ToldStatuses(NamedTuple):
    """Sets of statuses that tables tell apart, level by level."""

    around: list[list[Statuses]]
    """For each level, the sets of statuses of the table around its network."""
    inside: list[list[Statuses]]
    """For each level, the sets of statuses of the table at its tiles."""
    numbers: list[dict[Statuses, tuple[int, int]]]
    """For each level and set of statuses, its number in the table around the network and in that at the tiles."""
    inner: list[list[int]]
    """For each level and set around its network, the number that it has at the next tiles."""
    skipped: list[list[int]]
    """For each level and set at its tiles, the number that it has around the network if no loop stands between."""


def reduce(statuses: Statuses, deepest: tuple[int, ...], around: bool) -> Statuses:
    """Statuses without what makes no difference from a table inwards.

    That is any status of a tensor that no level further in keeps, and UNDECIDED where no block between two levels that
    keep the tensor can decide it. `deepest`: how many levels further in the innermost one is that may keep each tensor.
    """
    nearest = 1 + around
    return tuple(
        [
            status if last > 0 and (last >= nearest or status != UNDECIDED) else NONE
            for status, last in zip(statuses, deepest, strict=True)
        ]
    )


@lru_cache(maxsize=256)
def tell_statuses(structure: Structure, deepest: tuple[int, ...], levels: int) -> ToldStatuses:
    """The statuses of each level; `deepest`: innermost level that may keep each tensor."""
    told, every = ToldStatuses([], [], [], [], []), all_statuses(structure)
    for level in range(levels):
        left = tuple(last - level for last in deepest)
        outer = [*every, *(told.around[-1] if level else [])]
        inside = list(dict.fromkeys(reduce(s, left, False) for s in outer))
        met = list(every)
        for statuses in inside if level else []:
            met += itertools.chain.from_iterable(each.met for each in order_classes(structure, statuses))
        around = list(dict.fromkeys(reduce(s, left, True) for s in met))
        if level:
            told.inner.append([inside.index(reduce(s, left, False)) for s in told.around[-1]])
        told.around.append(around)
        told.inside.append(inside)
        told.numbers.append(
            {s: (around.index(reduce(s, left, True)), inside.index(reduce(s, left, False))) for s in every}
        )
        told.skipped.append([around.index(reduce(s, left, True)) for s in inside])
    told.inner.append([0] * len(told.around[-1]))
    return told


@lru_cache(maxsize=256)
def make_blocks(
    kind: BlockKind,
    around: tuple[Statuses, ...],
    inside: tuple[Statuses, ...],
    deepest: tuple[int, ...],
    settled: frozenset[int],
    order: tuple[int, ...],
) -> Blocks:
    """Classes of the orders of a temporal block; many levels, layers and tables have the same ones.

    Parameters
    ----------
    kind : BlockKind
    around, inside : tuple of Statuses
        Those of the tables around the network of the level, and at its tiles.
    deepest
        As for `reduce`.
    settled : frozenset of int
        Tensors whose statuses say nothing.
    order : tuple of int
        As `Mirror` has it; empty if there is none.
    """

    def first_of(some: Sequence[Statuses]) -> Ints:
        known: dict[Statuses, int] = {each: q for q, each in enumerate(some)}
        plain = [tuple(NONE if t in settled else s for t, s in enumerate(each)) for each in some]
        return np.array([known.setdefault(each, q) for q, each in enumerate(plain)])

    after = dict(zip(around, (around[q] for q in first_of(around)), strict=True))
    known: dict[tuple[bytes, ...], tuple[BlockSweep, list[int]]] = {}
    reduced = cache(lambda each: after[reduce(each, deepest, True)])
    like_first = first_of(inside).tolist()
    firsts = sorted({*like_first})
    number = np.array([firsts.index(q) for q in like_first], np.int64)
    for n, q in enumerate(firsts):
        for block in blocks_in_time(kind, inside[q], around, reduced):
            known.setdefault(tuple(array.tobytes() for array in block), (block, []))[1].append(n)
    found: dict[tuple[int, ...], list[BlockSweep]] = {}
    done: set[tuple[bytes, ...]] = set()
    images, around_images = number[statuses_exchanged(inside, order)[firsts]], statuses_exchanged(around, order)
    for key, (block, which) in known.items():
        if order:
            image = tuple(array.tobytes() for array in exchanged(block, np.array(order), around_images))
            like = known.get(image)
            if image in done and like is not None and sorted(images[which]) == like[1]:
                continue  # what the image finds for other shapes and statuses
            done.add(key)
        found.setdefault(tuple(which), []).append(block)
    used = sorted({int(q) for blocks in found.values() for block in blocks for q in block.term.flat})
    closing = {(int(number[q]), int(number[p])) for q, p in gaps_that_close(inside, kind.structure)}
    return Blocks(
        number, images, [(q, p) for q, p in sorted(closing) if q != p], [*found.items()], np.array(used, np.int64)
    )


def gaps_that_close(statuses: tuple[Statuses, ...], structure: Structure) -> list[tuple[int, int]]:
    """Pairs of numbers: a window that stays in place, and one that loops further in may bring back to its place.

    Where these do, the first costs more: the loops move its window off and back. It shall bound the second all the
    same, as the search takes it for whatever the loops of a block will do.
    """
    window, found = structure.window, []
    for q, p in itertools.permutations(range(len(statuses) if window >= 0 else 0), 2):
        others = zip(range(structure.tensors), statuses[q], statuses[p], strict=True)
        lower = all(low in (STATIONARY, high) for t, low, high in others if t != window)
        if lower and statuses[q][window] == STATIONARY and statuses[p][window] not in (NONE, STATIONARY):
            found.append((q, p))
    return found


@lru_cache(maxsize=4)
def layout_of(grid: Grid) -> Layout:
    """The layout of a grid, made once."""
    return Layout(grid)
