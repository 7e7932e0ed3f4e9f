"""Tile shapes of an Einsum, what each slot may do to them, and the ways to spread over a network.

Axis letters: D = dimensions of bound > 1, N = sizes of a dimension, F = factors of a dimension, S = shapes,
T = tensors, L = levels, O = options of a network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accelsim.inputs.errors import TablesTooLarge, TooManyChoices
from accelsim.mapspace.factors import along, passes, tile_words
from accelsim.mapspace.space import MapSpace, Slot
from accelsim.model.encode import ON_X, ON_Y, Bools, Constants, Floats, Ints
from accelsim.model.jit import inline
from accelsim.model.records import Bools1, Bools2, Floats1, Floats2, Floats4, Ints1, Ints2, Ints3, Ints4, record
from accelsim.search.exact.splits_kernel import pick_splits

NEARLY = 1e-9
"""Relative: as many compute units in use, but for rounding."""
MOST_PAIRS = 20_000_000
"""Pairs of bounds on two axes that are looked at, at most."""
MOST_SHAPES = 1_000_000
"""Tile shapes, where some dimensions may leave remainders, at most."""
SHAPE_BYTES = 200
"""Memory that each tile shape takes before there are tables, about."""
LEAST_BYTES = 64 << 20
"""Memory that shapes may take, however little there is for tables: less than Python and NumPy take."""
MOST_SPREAD_NUMBERS = 10_000_000
"""Ways to spread the dimensions together, whichever fit a network, where some may leave remainders, at most."""


@record
class Shapes(NamedTuple):
    """Every tile shape: a size of each dimension. Shape number = sum over d of (index of the size * stride).

    Sizes are the divisors that loops may lead to; of a dimension that may leave remainders the least size for each
    number of passes, and only these passes are exact, because the size that loops really cover depends on all of them.
    """

    size: Ints2
    """int64[D, N]: sizes of tiles along the dimension, ascending, then zeros; a size number is an index into them."""
    sizes: Ints1
    """int64[D]: how many sizes the dimension has."""
    stride: Ints1
    """int64[D]: what the next size of the dimension adds to the number of a shape."""
    passes: Ints2
    """int64[D, N]: tiles of a size along the whole dimension."""
    factor: Ints2
    """int64[D, F]: bounds that a temporal loop can have, ascending, then zeros."""
    factors: Ints1
    """int64[D]: how many bounds a temporal loop can have."""
    over: Ints3
    """int64[D, N, N]: index in `factor` of the loop that leads to the first size from the second inside it, -1 if there
    is none."""
    spreads: Ints1
    """int64[D]: how many bounds the loops over both axes of a network can have together."""
    spread_stride: Ints1
    """int64[D]: what the next bound in `spread` adds to a spread number, which tells bounds of all dimensions."""
    spread: Ints2
    """int64[D, *]: bounds that the loops over both axes of a network can have together, ascending, then zeros."""
    times: Ints3
    """int64[D, N, *]: size number around a network, by that of the tile inside and the spread, -1 if there is none."""
    within: Ints3
    """int64[D, N, *]: size number of the tile inside a network, by that around it and the spread, -1 if there is
    none."""
    route: Ints4
    """int64[D, N, N, *]: spreads, as indices, that lead to the first size from the second inside it, -1 after the
    last."""
    box: Ints2
    """int64[T, S]: words of the tensor's tile at least, with those that strides skip."""
    words: Floats2
    """float64[T, S]: words that enter all tiles of a shape at least, if the next loop outside moves the tensor."""
    ragged: Bools1
    """bool[D]: whether loops over the dimension may leave remainders."""
    leaves_any: Bools1
    """bool[1]: whether loops over any dimension may leave remainders."""
    macs: Floats1
    """float64[1]: multiply-accumulates."""
    resting: Floats4
    """float64[L, D, N, *]: largest share of a tensor's words along the dimension that rest at the next level, by size
    of its tiles and spread around them; float64[L, 0, 0, 0] where no dimension leaves remainders."""

    @property
    def total(self) -> int:
        """How many shapes there are."""
        return int(self.box.shape[1])

    @property
    def spread_numbers(self) -> int:
        """How many spread numbers there are."""
        return int(self.spreads.prod())


@record
class Options(NamedTuple):
    """Ways to spread dimensions over the network below a level."""

    x: Ints2
    """int64[O, D]: bound of the spatial loop along x over each dimension."""
    y: Ints2
    """int64[O, D]: bound of the spatial loop along y over each dimension."""
    place: Ints2
    """int64[O, D]: index of x * y in `Shapes.spread`."""
    spread: Ints1
    """int64[O]: children in use below one instance."""
    down: Floats2
    """float64[O, T]: groups of children that one read serves over children in use, as if no halo were shared."""
    up: Floats2
    """float64[O, T]: groups of children whose sums make one update over children in use, as if no halo were shared."""
    windowed: Bools2
    """bool[O, T]: whether children also share a halo, so that the number of groups depends on the tile."""
    apart: Floats1
    """float64[O]: copies of an output word in one instance's children: product of the bounds that do not move it."""


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Shapes with what the slots of the map space allow.

    Attributes
    ----------
    shapes : Shapes
    in_time : bool[L, D, F]
        Whether the temporal block of a level may have a loop of this bound.
    options : tuple of Options
        For each network, those that some mapping with the least traffic uses.
    least_used : float
        Only those of them that let so many compute units be in use, if the other networks use as many as possible.
    every : bool
        Whether all orders and splits are looked at.
    rooms : bool
        Whether tables tell apart how many words the storage nodes of a level hold.
    """

    space: MapSpace
    shapes: Shapes
    in_time: Bools
    options: tuple[Options, ...]
    least_used: float = 0.0
    every: bool = False
    rooms: bool = False

    @property
    def bounding(self) -> tuple[Options, ...]:
        """Those of the options that tables look at: of others with remainders they say no less."""
        return _bounding(self) if self.space.imperfect else self.options


@lru_cache(maxsize=4)
def _bounding(grid: Grid) -> tuple[Options, ...]:
    """`Grid.bounding`, made when tables need them: they take as long as all options."""
    levels = range(len(grid.options))
    few = [make_options(grid.space, grid.shapes, level, every=False, bounding=True) for level in levels]
    return pick_busy(few, grid.least_used)


def size_numbers(shapes: Shapes) -> Ints:
    """Number of the size of each dimension in each shape: int64[D, S]."""
    found: Ints = np.arange(shapes.total)[None, :] // shapes.stride[:, None] % shapes.sizes[:, None]
    return found


def make_shapes(space: MapSpace, memory: int | None = None) -> Shapes:
    """Lay out all tile shapes, if they fit so many bytes."""
    encoded = space.encoded
    c = encoded.constants
    bounds = [encoded.einsum.dims[dim] for dim in encoded.dims]
    counts = [
        passes(bound) if dim in space.imperfect else [bound // size for size in _sizes(space, dim)]
        for dim, bound in zip(encoded.dims, bounds, strict=True)
    ]
    dims, most = len(counts), max(map(len, counts))
    total = math.prod(map(len, counts))
    if space.imperfect and total > MOST_SHAPES:
        raise TooManyChoices(f"{total:.2g} tile shapes are too many to look at; let fewer dimensions leave remainders")
    if memory is not None and total * SHAPE_BYTES > max(memory, LEAST_BYTES):
        raise TablesTooLarge(
            f"{total:.2g} tile shapes would take more than the {memory / (1 << 30):.3g} GiB that the exact search has"
        )
    steps = [_steps(found, dim in space.imperfect) for dim, found in zip(encoded.dims, counts, strict=True)]
    factors = [sorted({f for f in step.ravel().tolist() if f}) for step in steps]
    widest = int(c.fanout.prod(axis=1).max())
    routes = [
        _routes(step, widest if dim in space.imperfect else 0) for dim, step in zip(encoded.dims, steps, strict=True)
    ]
    spreads = [sorted({1}.union(*found.values())) for found in routes]
    if space.imperfect and math.prod(map(len, spreads)) > MOST_SPREAD_NUMBERS:
        raise TooManyChoices(
            f"{math.prod(map(len, spreads)):.2g} ways to spread are too many to look at; let fewer dimensions leave "
            "remainders"
        )
    size, passing = np.zeros((2, dims, most), np.int64)
    factor = np.zeros((dims, max(map(len, factors))), np.int64)
    over = np.full((dims, most, most), -1, np.int64)
    spread = np.zeros((dims, max(map(len, spreads))), np.int64)
    times, within = np.full((2, dims, most, spread.shape[1]), -1, np.int64)
    route = np.full((dims, most, most, max(max(map(len, found.values())) for found in routes)), -1, np.int64)
    for d, (found, bound) in enumerate(zip(counts, bounds, strict=True)):
        passing[d, : len(found)] = found
        size[d, : len(found)] = [-(-bound // n) for n in found]
        factor[d, : len(factors[d])] = factors[d]
        inner, outer = np.nonzero(steps[d])
        over[d, outer, inner] = np.searchsorted(factors[d], steps[d][inner, outer])
        spread[d, : len(spreads[d])] = spreads[d]
        number = {bound: index for index, bound in enumerate(spreads[d])}
        for (i, o), ways in routes[d].items():
            indices = [number[way] for way in sorted(ways)]
            route[d, o, i, : len(ways)] = indices
            times[d, i, indices] = o
            within[d, o, indices] = i
    count = np.array([len(found) for found in counts], np.int64)
    box = tile_words(encoded, [size[d, : count[d]] for d in range(dims)])
    words = np.ones(box.shape)
    axes = [along(size[d, : count[d]], d, dims) for d in range(dims)]
    volume = np.ones(count, np.float64)
    for axis in axes:
        volume = volume * axis
    ragged = np.array([dim in space.imperfect for dim in encoded.dims])
    for t in range(len(encoded.tensors)):
        if not ragged.any():
            words[t] = box[t] * float(encoded.einsum.macs) / volume.reshape(-1)
            continue
        entering = box[t].reshape(count).astype(np.float64)
        for d in range(dims):
            many = along(passing[d, : count[d]], d, dims).astype(np.float64)
            if not ragged[d] or not c.relevant[t, d]:
                entering = entering * many
            else:  # docs/papers/exact-mapper.md, Lemma 34: a last pass of one step may leave a tile where it is
                skip = c.factor[t, d] - 1  # a stride's skipped words inside a box are words of it too
                boxes = ((skip + 1) * bounds[d] - skip * many) / ((skip + 1) * axes[d] - skip)
                entering = entering * boxes
        words[t] = entering.reshape(-1)
    many_spreads = np.array([len(found) for found in spreads], np.int64)
    return Shapes(
        size=size,
        sizes=count,
        stride=_strides(count),
        passes=passing,
        factor=factor,
        factors=np.array([len(found) for found in factors], np.int64),
        over=over,
        spreads=many_spreads,
        spread_stride=_strides(many_spreads),
        spread=spread,
        times=times,
        within=within,
        route=route,
        box=box,
        words=words,
        ragged=ragged,
        leaves_any=np.array([ragged.any()]),
        macs=np.array([float(encoded.einsum.macs)]),
        resting=_resting(c, ragged, counts, spreads),
    )


def _sizes(space: MapSpace, dim: str) -> list[int]:
    """Sizes that tiles may have along a dimension without remainders, 1 and the bound among them."""
    bound = space.encoded.einsum.dims[dim]
    slots = sorted(space.slots, key=lambda slot: (-slot.level, -ord(slot.axis or "a")))  # innermost first
    inside, outside, found = [{1}], [{1}], {1, bound}
    for slot in slots:
        inside.append({size * f for size in inside[-1] for f in space.allowed(slot, dim) if bound % (size * f) == 0})
    for slot in reversed(slots):
        outside.append({size * f for size in outside[-1] for f in space.allowed(slot, dim) if bound % (size * f) == 0})
    for inner, outer in zip(inside, reversed(outside), strict=True):
        found |= {size for size in inner if bound // size in outer}
    return sorted(found)


@inline
def resting_share(bound: int, tiles: int, spread: int, loop: int, factor: int) -> float:
    """Largest share of a tensor's words along a dimension that the last pass of a temporal loop leaves in place.

    In each pass but the last, the loop makes all its steps. In the last one, the tiles that are left go to the
    instances in turn, and those of an instance that takes one alone rest (docs/papers/exact-mapper.md, Lemma 34).

    Parameters
    ----------
    bound, tiles : int
        Of the dimension; all tiles but the last have one size, which is known only as far as these tell.
    spread, loop : int
        Instances inside the loop, and its steps.
    factor : int
        Of the dimension in its rank: words that a stride skips inside a tile are words of it too.

    Examples
    --------
    >>> [round(resting_share(10 * tiles, tiles, 4, 2, 1), 3) for tiles in (5, 7, 8, 10, 12, 13)]
    [0.72, 0.157, 0.0, 0.2, 0.333, 0.231]
    """
    left = tiles - (-(-tiles // (spread * loop)) - 1) * spread * loop
    if left >= 2 * spread:
        return 0.0
    still, covered = left, bound - (tiles - left) * -(-bound // tiles)
    if left > spread:  # none of them is the last tile, which may be smaller
        still = 2 * spread - left
        covered = still * ((bound - 1) // (tiles - 1))
    return float(factor * covered - (factor - 1) * still) / float(factor * bound - (factor - 1) * tiles)


@lru_cache(maxsize=1 << 16)
def most_resting(bound: int, tiles: int, spread: int, factor: int, outer: tuple[int, ...] = ()) -> float:
    """As `resting_share`, whatever the temporal loops outside.

    Parameters
    ----------
    spread : int
        By the network around the tiles.
    outer : tuple of int
        Sizes of the axes of networks further out, from the inside out; a loop on each may lie inside the temporal one.

    Examples
    --------
    >>> [round(most_resting(10 * tiles, tiles, 4, 1), 3) for tiles in (4, 5, 7, 12)]
    [0.0, 0.72, 0.157, 0.333]
    >>> round(most_resting(50, 5, 2, 1), 3), round(most_resting(50, 5, 2, 1, (2,)), 3)
    (0.2, 0.72)
    """
    passes, most, resting = -(-tiles // spread), 0.0, resting_share.plain
    for outside in {-(-passes // loop) for loop in range(2, passes + 1)}:
        most = max(most, resting(bound, tiles, spread, -(-passes // outside), factor))
    for at, size in enumerate(outer):
        for more in range(2, min(size, passes) + 1):
            if more == -(-passes // -(-passes // more)):  # no longer than its number of passes needs
                most = max(most, most_resting(bound, tiles, spread * more, factor, outer[at + 1 :]))
    return most


def _resting(c: Constants, ragged: Bools, counts: list[list[int]], spreads: list[list[int]]) -> Floats:
    """Share of the words of a dimension at the next level that rest at most; see `Shapes`."""
    if not ragged.any():
        return np.zeros((len(c.fanout), 0, 0, 0))
    found = np.zeros((len(c.fanout), len(counts), max(map(len, counts)), max(map(len, spreads))))
    share = resting_share.plain
    for level, d, n, s in np.ndindex(*found.shape):
        if not ragged[d] or n >= len(counts[d]) or s >= len(spreads[d]):
            continue
        bound, tiles, spread = int(c.bounds[d]), counts[d][n], spreads[d][s]
        for factor in {1, *c.factor[c.relevant[:, d], d].tolist()}:
            if level == 0:  # one block is outside, and its loop makes all passes
                passes = -(-tiles // spread)
                rests = share(bound, tiles, spread, passes, factor) if passes > 1 else 0.0
            else:
                outer = tuple(size for size in c.fanout[:level][::-1, ::-1].ravel().tolist() if size > 1)
                rests = most_resting(bound, tiles, spread, factor, outer)
            found[level, d, n, s] = max(found[level, d, n, s], rests)
    return found


def _steps(counts: list[int], imperfect: bool) -> Ints:
    """Bound of the loop that leads from each number of passes inside to each outside, 0 if none does: int64[N, N]."""
    inner, outer = np.array(counts)[:, None], np.array(counts)[None, :]
    factor = -(-inner // outer)
    reached = -(-inner // factor) == outer if imperfect else inner % outer == 0
    return np.where(reached, factor, 0).astype(np.int64)


def _routes(steps: Ints, widest: int) -> dict[tuple[int, int], set[int]]:
    """Spreads that lead from each size to each one outside by a loop on y and one on x outside it.

    Parameters
    ----------
    widest : int
        Where loops leave remainders, two may cover more than one would have to (5 is 2 inside 3): so many instances at
        most. 0: the dimension leaves none.
    """
    found = {(int(i), int(o)): {int(steps[i, o])} for i, o in np.argwhere(steps)}
    if not widest:
        return found
    for i, mid in np.argwhere(steps):
        products = steps[i, mid] * steps[mid]
        for o in np.flatnonzero((products > 0) & (products <= widest)):
            found[int(i), int(o)].add(int(products[o]))
    fitting = {sizes: {each for each in ways if each <= widest} for sizes, ways in found.items()}
    return {sizes: ways for sizes, ways in fitting.items() if ways}


def _strides(counts: Ints) -> Ints:
    return np.array([math.prod(counts[d + 1 :].tolist()) for d in range(len(counts))], np.int64)


def _tuples(space: MapSpace, slot: Slot, size: int) -> Ints:
    """All bounds of the loops on one axis that fit it, and have the products that the constraints ask for."""
    found: list[tuple[int, ...]] = [()]
    products = [1]
    for dim in space.encoded.dims:
        allowed = sorted(space.allowed(slot, dim)) if size > 1 else [1]
        pairs = [
            ((*head, factor), product * factor)
            for head, product in zip(found, products, strict=True)
            for factor in allowed
            if product * factor <= size
        ]
        found, products = [head for head, _ in pairs], [product for _, product in pairs]
    bounds = np.array(found, np.int64).reshape(-1, len(space.encoded.dims))
    for level, kind, low, high, *which in space.encoded.constants.asked.tolist():
        if level == slot.level and kind == {"x": ON_X, "y": ON_Y}[slot.axis]:
            value = bounds[:, np.flatnonzero(which)].prod(axis=1)
            bounds = bounds[(value >= low) & (value <= high)]
    return bounds


def make_options(
    space: MapSpace, shapes: Shapes, level: int, every: bool, *, bounding: bool = False, memory: float = math.inf
) -> Options:
    """List the ways to spread over the network below a level, by their numbers; of one those that share most first.

    Raises TooManyChoices, if they take more than so many bytes of memory, too.

    Parameters
    ----------
    every : bool
        List those too that spread the same over the axes in a way that no tensor gains from.
    bounding : bool
        Loops that leave remainders count by how many instances they share words among, as tables count them.
    """
    c = space.encoded.constants
    fanout = [int(size) for size in c.fanout[level]]
    x = _tuples(space, Slot(level, "x"), fanout[0])
    y = _tuples(space, Slot(level, "y"), fanout[1])
    memory = max(memory, LEAST_BYTES)
    pair_bytes, option_bytes = 2 * x.itemsize, 3 * x[0].nbytes + (2 * c.relevant.shape[0] + 2) * x.itemsize
    if len(x) * len(y) > min(MOST_PAIRS, memory / pair_bytes):
        name = space.encoded.architecture.levels[level].name
        raise TooManyChoices(
            f"{len(x) * len(y):.2g} ways to spread over the fanout of {name} are too many to look at; let fewer "
            "dimensions leave remainders, or constrain what is spread there"
        )
    if max(fanout) == len(x) == len(y) == 1:
        return _describe(space, shapes, level, x, y)
    same = (c.multicast[level, 0] == c.multicast[level, 1]).all() and c.reduction[level, 0] == c.reduction[level, 1]
    alike = bool(same) and (bounding or not space.imperfect)  # such loops cannot change places
    keys = [_sharing(space, level, axis, side, bounding) for axis, side in ((0, x), (1, y))]
    on_x, x_at = _numbered(x)
    on_y, y_at = _numbered(y)
    place = _places(shapes, on_x[:, :, None] * on_y[:, None, :])
    pair = np.zeros((x.shape[0] * y.shape[0], 2), np.int64)
    kept = pick_splits(place, shapes.spread_stride, x_at, y_at, *keys, pair, shapes.spread_numbers, every, alike)
    pair = pair[:kept]
    pair = pair[pair[:, 0] >= 0]
    if len(pair) * option_bytes > memory:
        raise TooManyChoices(f"{len(pair):.2g} ways to spread over a fanout are too many to look at")
    found = _describe(space, shapes, level, x[pair[:, 0]], y[pair[:, 1]])
    shares = found.down.prod(axis=1) * found.up.prod(axis=1)
    return pick_options(found, np.lexsort((shares, found.place @ shapes.spread_stride)))


def _numbered(bounds: Ints) -> tuple[Ints, Ints]:
    """The different bounds of each dimension, int64[D, *] with zeros after the last; and which of them each one is."""
    found = [np.unique(column, return_inverse=True) for column in bounds.T]
    different = np.zeros((len(found), max(len(values) for values, _ in found)), np.int64)
    for d, (values, _) in enumerate(found):
        different[d, : len(values)] = values
    return different, np.stack([numbers for _, numbers in found], 1)


def _places(shapes: Shapes, bounds: Ints) -> Ints:
    """Index of each bound, int64[D, ...], among the spreads of its dimension; -1 if it is none of them."""
    found = np.empty_like(bounds)
    for d, many in enumerate(shapes.spreads):
        spread = shapes.spread[d, :many]
        at = np.searchsorted(spread, bounds[d])
        found[d] = np.where(spread[np.minimum(at, many - 1)] == bounds[d], at, -1)
    return found


def pick_options(options: Options, rows: Ints) -> Options:
    """Some of the options."""
    o = options
    return Options(
        o.x[rows], o.y[rows], o.place[rows], o.spread[rows], o.down[rows], o.up[rows], o.windowed[rows], o.apart[rows]
    )


def _sharing(space: MapSpace, level: int, axis: int, bounds: Ints, bounding: bool) -> Ints:
    """What tells splits of the same spread apart: per tensor the children that share along an axis, then its windows.

    Two splits with the same windows on the axes that share can be compared by the first numbers: more sharing is
    better. Dimensions that leave remainders have a number each where this is `bounding`, else only equal ones compare.
    """
    c = space.encoded.constants
    ragged = np.array([dim in space.imperfect for dim in space.encoded.dims])
    rows = []
    for side in ("down", "up"):
        for t in range(c.relevant.shape[0]):
            shares = c.multicast[level, :, t] if side == "down" else c.reduction[level]
            output = t == c.output[0]
            if (side == "up" and not output) or (side == "down" and output and not c.transfers.any()):
                continue
            idle = ~c.relevant[t] if shares[axis] else np.zeros(len(ragged), np.bool_)
            rows.append(bounds[:, idle & ~ragged].prod(axis=1))
            rows += [bounds[:, d] if idle[d] else np.ones(len(bounds), np.int64) for d in np.flatnonzero(ragged)]
    uneven = (c.multicast[level, 0] != c.multicast[level, 1]).any() or c.reduction[level, 0] != c.reduction[level, 1]
    overlapping = np.zeros_like(bounds)  # loops that a windowed tensor may share words along
    for t in np.flatnonzero(c.windowed).tolist():
        if uneven and (c.multicast[level, axis, t] or (t == c.output[0] and c.reduction[level, axis])):
            for r in sorted(set(c.rank[t][c.relevant[t]].tolist())):
                inside = c.relevant[t] & (c.rank[t] == r)
                several = (bounds[:, inside] > 1).sum(axis=1) > 1
                overlapping[np.ix_(several, inside)] = bounds[np.ix_(several, inside)]
    if not bounding:
        overlapping[:, ragged] = bounds[:, ragged]
    windows = np.zeros(len(bounds), np.int64)
    if overlapping.any():
        windows = np.unique(overlapping, axis=0, return_inverse=True)[1].reshape(-1)
    return np.stack([*rows, windows], 1)


def _describe(space: MapSpace, shapes: Shapes, level: int, x: Ints, y: Ints) -> Options:
    c = space.encoded.constants
    tensors, dims = c.relevant.shape
    both = (x * y).T.copy()  # [D, O]: products along the first axis are several times as fast
    shares = np.ones((2, len(x), tensors))
    windowed = np.zeros((len(x), tensors), np.bool_)
    for t in range(tensors):
        sides = c.multicast[level, :, t], c.reduction[level]
        for axis, bounds in enumerate((x, y)):
            if any(flags[axis] for flags in sides):
                sharing = bounds.T[~c.relevant[t]].prod(axis=0)
                for side, flags in enumerate(sides):
                    if flags[axis]:
                        shares[side, :, t] /= sharing
        if c.windowed[t] and any(flags.any() for flags in sides):
            for r in {int(r) for d, r in enumerate(c.rank[t]) if c.relevant[t, d]}:
                inside = [d for d in range(dims) if c.relevant[t, d] and c.rank[t, d] == r]
                windowed[:, t] |= (both[inside] > 1).sum(axis=0) > 1
    place = _places(shapes, both).T.copy()
    apart = both[~c.relevant[c.output[0]]].prod(axis=0).astype(np.float64)
    return Options(x, y, place, both.prod(axis=0), shares[0], shares[1], windowed, apart)


@lru_cache(maxsize=2)
def make_grid(space: MapSpace, memory: int | None = None) -> Grid:
    """Lay out shapes, temporal factors and the options of each network, once for the searches of a space.

    Raises TablesTooLarge or TooManyChoices if shapes or options would take more than so many bytes of memory.
    """
    shapes = make_shapes(space, memory)
    levels = len(space.encoded.architecture.levels)
    in_time = np.zeros((levels, *shapes.factor.shape), np.bool_)
    for level in range(levels):
        for d, dim in enumerate(space.encoded.dims):
            allowed = space.allowed(Slot(level), dim)
            in_time[level, d] = [int(factor) in allowed for factor in shapes.factor[d]]
    options = tuple(
        make_options(space, shapes, level, every=False, memory=memory or math.inf) for level in range(levels)
    )
    return Grid(space, shapes, in_time, options)


def quick_enough(grid: Grid, most_cycles: float) -> Grid:
    """The same without ways to spread that leave so few compute units in use that these take more cycles."""
    least = fewest_steps(grid)
    used = _computing(grid) / max(most_cycles, least) * (1.0 - NEARLY)
    return replace(grid, options=pick_busy(grid.options, used), least_used=used)


def pick_busy(options: Sequence[Options], used: float) -> tuple[Options, ...]:
    """The options of each network that let so many compute units be in use, with the widest ones of the others."""
    most = [int(each.spread.max(initial=1)) for each in options]
    least = [used * widest / math.prod(most) for widest in most]
    return tuple(
        pick_options(each, np.flatnonzero(each.spread >= few)) for each, few in zip(options, least, strict=True)
    )


def fewest_steps(grid: Grid) -> int:
    """Cycles that the compute units take at least, if as many as possible are in use."""
    return -(-_computing(grid) // math.prod(int(options.spread.max(initial=1)) for options in grid.options))


def _computing(grid: Grid) -> int:
    """Cycles that one compute unit alone would take."""
    encoded = grid.space.encoded
    return encoded.einsum.macs * int(encoded.constants.mac_cycles[0])
