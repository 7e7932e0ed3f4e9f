"""Tile shapes of an Einsum, what each slot may do to them, and the ways to spread over a network.

Axis letters: D = dimensions of bound > 1, N = divisors of a dimension, S = shapes, T = tensors, L = levels,
O = options of a network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from accelsim.mapspace.factors import divisors
from accelsim.mapspace.space import MapSpace, Slot
from accelsim.model.encode import Bools, Floats, Ints


class Shapes(NamedTuple):
    """Every tile shape: a divisor of each dimension. Shape number = sum over d of (divisor's index * stride).

    size : int64[D, N], divisors, ascending; sizes : int64[D], how many; stride : int64[D]; times : int64[D, N, N],
    index of the product of two divisors, -1 if that is none; over : int64[D, N, N], index of the quotient, -1 if that
    is none; box : int64[T, S], words of each tile; volume : float64[S], multiply-accumulates of a tile.
    """

    size: Ints
    sizes: Ints
    stride: Ints
    times: Ints
    over: Ints
    box: Ints
    volume: Floats

    @property
    def total(self) -> int:
        """How many shapes there are."""
        return int(self.volume.shape[0])


class Options(NamedTuple):
    """Ways to spread dimensions over the network below a level.

    x, y : int64[O, D], spatial bounds; divisor : int64[O, D], divisor index of x * y; spread : int64[O], children in
    use; down, up : float64[O, T], share of the children of which each group takes one read or makes one update, where
    that does not depend on the tile; windowed : bool[O, T], where it does; apart : float64[O], product of the bounds
    that the output lacks.
    """

    x: Ints
    y: Ints
    divisor: Ints
    spread: Ints
    down: Floats
    up: Floats
    windowed: Bools
    apart: Floats


@dataclass(frozen=True, slots=True)
class Grid:
    """Shapes with what the slots of the map space allow.

    Attributes
    ----------
    shapes : Shapes
    in_time : bool[L, D, N]
        Whether the temporal block of a level may have a loop of this bound.
    options : tuple of Options
        For each network, those that some mapping with the least traffic uses.
    """

    space: MapSpace
    shapes: Shapes
    in_time: Bools
    options: tuple[Options, ...]


def shape_count(space: MapSpace) -> int:
    """How many tile shapes there are."""
    return math.prod(len(divisors(space.encoded.einsum.dims[dim])) for dim in space.encoded.dims)


def make_shapes(space: MapSpace) -> Shapes:
    """Lay out all tile shapes."""
    encoded = space.encoded
    c = encoded.constants
    lists = [divisors(encoded.einsum.dims[dim]) for dim in encoded.dims]
    dims, most = len(lists), max(map(len, lists))
    size = np.zeros((dims, most), np.int64)
    times, over = np.full((2, dims, most, most), -1, np.int64)
    for d, found in enumerate(lists):
        size[d, : len(found)] = found
        at = {value: i for i, value in enumerate(found)}
        for i, a in enumerate(found):
            for j, b in enumerate(found):
                times[d, i, j] = at.get(a * b, -1)
                over[d, i, j] = at[a // b] if a % b == 0 else -1
    count = np.array([len(found) for found in lists], np.int64)
    stride = np.array([math.prod(count[d + 1 :].tolist()) for d in range(dims)], np.int64)
    axes = [
        np.array(found, np.int64).reshape([-1 if e == d else 1 for e in range(dims)]) for d, found in enumerate(lists)
    ]
    volume = np.ones(count, np.float64)
    for axis in axes:
        volume = volume * axis
    box = np.ones((len(encoded.tensors), volume.size), np.int64)
    for t in range(len(encoded.tensors)):
        words: Ints = np.ones([1] * dims, np.int64)
        for r in {int(c.rank[t, d]) for d in range(dims) if c.relevant[t, d]}:
            extent: Ints = np.ones([1] * dims, np.int64)
            for d in range(dims):
                if c.relevant[t, d] and c.rank[t, d] == r:
                    extent = extent + c.factor[t, d] * (axes[d] - 1)
            words = words * extent
        box[t] = np.broadcast_to(words, count).reshape(-1)
    return Shapes(size, count, stride, times, over, box, volume.reshape(-1))


def _tuples(space: MapSpace, slot: Slot, size: int) -> Ints:
    """All bounds of the loops on one axis that fit it."""
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
    return np.array(found, np.int64).reshape(-1, len(space.encoded.dims))


def make_options(space: MapSpace, shapes: Shapes, level: int, every: bool) -> Options:
    """List the ways to spread over the network below a level.

    Parameters
    ----------
    every : bool
        List those too that spread the same over the axes in a way that no tensor gains from.
    """
    from accelsim.search.exact.bounds_kernel import pick_splits

    c = space.encoded.constants
    fanout = [int(size) for size in c.fanout[level]]
    x = _tuples(space, Slot(level, "x"), fanout[0])
    y = _tuples(space, Slot(level, "y"), fanout[1])
    x_index, y_index = (
        np.stack([np.searchsorted(shapes.size[d, : shapes.sizes[d]], t[:, d]) for d in range(t.shape[1])], 1)
        for t in (x, y)
    )
    alike = bool(c.multicast[level, 0] == c.multicast[level, 1] and c.reduction[level, 0] == c.reduction[level, 1])
    keys = [_sharing(space, level, axis, side) for axis, side in ((0, x), (1, y))]
    pair = np.zeros((x.shape[0] * y.shape[0], 2), np.int64)
    head = np.full(shapes.total, -1, np.int64)
    after = np.full(pair.shape[0], -1, np.int64)
    kept = pick_splits(shapes, x_index, y_index, keys[0], keys[1], pair, head, after, every, alike)
    pair = pair[:kept]
    pair = pair[pair[:, 0] >= 0]
    chosen_x, chosen_y = x[pair[:, 0]], y[pair[:, 1]]
    return _describe(space, shapes, level, chosen_x, chosen_y)


def _sharing(space: MapSpace, level: int, axis: int, bounds: Ints) -> Ints:
    """What tells splits of the same spread apart: per tensor the children that share along an axis, then its windows.

    Two splits with the same windows on the axes that share can be compared by the first numbers: more sharing is
    better.
    """
    c = space.encoded.constants
    rows = []
    for side, shares in (("down", c.multicast[level]), ("up", c.reduction[level])):
        for t in range(c.relevant.shape[0]):
            output = t == c.output[0]
            if (side == "up" and not output) or (side == "down" and output and not c.transfers.any()):
                continue
            idle = ~c.relevant[t]
            rows.append(bounds[:, idle].prod(axis=1) if shares[axis] else np.ones(len(bounds), np.int64))
    uneven = c.multicast[level, 0] != c.multicast[level, 1] or c.reduction[level, 0] != c.reduction[level, 1]
    overlapping = np.zeros_like(bounds)  # loops that a windowed tensor may share words along
    for t in np.flatnonzero(c.windowed).tolist():
        if uneven and (c.multicast[level, axis] or (t == c.output[0] and c.reduction[level, axis])):
            for r in sorted(set(c.rank[t][c.relevant[t]].tolist())):
                inside = c.relevant[t] & (c.rank[t] == r)
                several = (bounds[:, inside] > 1).sum(axis=1) > 1
                overlapping[np.ix_(several, inside)] = bounds[np.ix_(several, inside)]
    windows = np.unique(overlapping, axis=0, return_inverse=True)[1].reshape(-1)
    return np.stack([*rows, windows], 1)


def _describe(space: MapSpace, shapes: Shapes, level: int, x: Ints, y: Ints) -> Options:
    c = space.encoded.constants
    spread = (x * y).prod(axis=1)
    tensors = c.relevant.shape[0]
    shares = np.ones((2, len(x), tensors))
    windowed = np.zeros((len(x), tensors), np.bool_)
    for side, flags in enumerate((c.multicast[level], c.reduction[level])):
        for t in range(tensors):
            for bounds, on in ((x, flags[0]), (y, flags[1])):
                if on:
                    shares[side, :, t] /= bounds[:, ~c.relevant[t]].prod(axis=1)
            if c.windowed[t] and flags.any():
                for r in {int(r) for d, r in enumerate(c.rank[t]) if c.relevant[t, d]}:
                    inside = [d for d in range(x.shape[1]) if c.relevant[t, d] and c.rank[t, d] == r]
                    windowed[:, t] |= ((x * y)[:, inside] > 1).sum(axis=1) > 1
    index = np.stack([np.searchsorted(shapes.size[d, : shapes.sizes[d]], (x * y)[:, d]) for d in range(x.shape[1])], 1)
    apart = (x * y)[:, ~c.relevant[c.output[0]]].prod(axis=1).astype(np.float64)
    return Options(x, y, index.astype(np.int64), spread, shares[0], shares[1], windowed, apart)


def make_grid(space: MapSpace) -> Grid:
    """Lay out shapes, temporal factors and the options of each network."""
    shapes = make_shapes(space)
    levels = len(space.encoded.architecture.levels)
    in_time = np.zeros((levels, *shapes.size.shape), np.bool_)
    for level in range(levels):
        for d, dim in enumerate(space.encoded.dims):
            allowed = space.allowed(Slot(level), dim)
            in_time[level, d] = [int(size) in allowed for size in shapes.size[d]]
    options = tuple(make_options(space, shapes, level, every=False) for level in range(levels))
    return Grid(space, shapes, in_time, options)
