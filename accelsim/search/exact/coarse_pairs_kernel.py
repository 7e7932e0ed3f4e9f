"""Pairs of tile shapes that loops join, and what a last pass leaves in place; compiled.

Axis letters as in `coarse_layout`.
"""

from __future__ import annotations

import numpy as np

from accelsim.model.jit import jit
from accelsim.model.records import Floats1, Floats4, Int32s2, Ints1, Ints2, Ints3
from accelsim.search.exact.shapes import resting_share


@jit
def list_pairs(
    outer: Ints2, inner: Ints2, ok: Ints3, spread: Floats4, most: float, number: Ints1, stride: Ints1, pairs: Int32s2
) -> int:
    """List pairs of an outer and an inner shape that are possible in each dimension; returns how many there are.

    Parameters
    ----------
    ok : int64[D, N, N]
        0 where no loop leads from the inner bucket to the outer one.
    spread, most
        Least spread of each pair of buckets, and of all dimensions together at most; most = 0: any.
    number : int64[*]
        Row of each inner shape by its number, -1 if it is not there.
    pairs : int32[*, 2]
        Filled as far as there is room.
    """
    dims, found = outer.shape[1], 0
    ways, at, at_most = np.zeros((2, dims, ok.shape[1]), np.int64), np.zeros(dims, np.int64), np.zeros(dims, np.int64)
    product, where = np.ones(dims + 1), np.zeros(dims + 1, np.int64)
    for o in range(outer.shape[0]):
        many = 1.0
        for d in range(dims):
            at_most[d] = 0
            for j in range(outer[o, d] + 1):
                if ok[d, outer[o, d], j] > 0:
                    ways[0, d, at_most[d]] = j
                    at_most[d] += 1
            many *= at_most[d]
        if many > 4.0 * inner.shape[0]:
            for i in range(inner.shape[0]):
                possible, together = True, 1.0
                for d in range(dims):
                    if inner[i, d] > outer[o, d] or ok[d, outer[o, d], inner[i, d]] == 0:
                        possible = False
                        break
                    together *= spread[0, d, outer[o, d], inner[i, d]] if most > 0.0 else 1.0
                if possible and (most == 0.0 or together <= most):
                    if found < pairs.shape[0]:
                        pairs[found, 0], pairs[found, 1] = o, i
                    found += 1
            continue
        if many == 0.0:
            continue
        d = 0
        at[0] = -1
        while d >= 0:
            at[d] += 1
            if at[d] == at_most[d]:
                d -= 1
                continue
            j = ways[0, d, at[d]]
            product[d + 1] = product[d] * (spread[0, d, outer[o, d], j] if most > 0.0 else 1.0)
            if most > 0.0 and product[d + 1] > most:
                continue
            where[d + 1] = where[d] + j * stride[d]
            if d + 1 < dims:
                d += 1
                at[d] = -1
            elif number[where[dims]] >= 0:
                if found < pairs.shape[0]:
                    pairs[found, 0], pairs[found, 1] = o, number[where[dims]]
                found += 1
    return found


@jit
def fit_axes(
    outer: Ints2, inner: Ints2, pairs: Int32s2, begin: Ints3, on_x: Ints1, on_y: Ints1, size_x: int, size_y: int
) -> int:
    """Keep the pairs whose spread fits both axes of a network, in place; returns how many there are.

    Parameters
    ----------
    begin : int64[D, N, N + 1]
        Where the ways to spread a dimension begin in `on_x`, the loop on x, and `on_y`, the least one on y beside it;
        those of the next inner bucket begin where they end.
    """
    kept, least, after = 0, np.zeros(size_x + 1, np.int64), np.zeros(size_x + 1, np.int64)
    for p in range(pairs.shape[0]):
        least[:] = size_y + 1
        least[1] = 1
        for d in range(outer.shape[1]):
            o, i = outer[pairs[p, 0], d], inner[pairs[p, 1], d]
            first, end = begin[d, o, i], begin[d, o, i + 1]
            if end == first + 1 and on_x[first] == 1 and on_y[first] == 1:
                continue
            after[:] = size_y + 1
            for x in range(1, size_x + 1):
                if least[x] > size_y:
                    continue
                for way in range(first, end):
                    together = x * on_x[way]
                    if together <= size_x:
                        after[together] = min(after[together], least[x] * on_y[way])
            least[:] = after
        if least.min() <= size_y:
            pairs[kept, 0], pairs[kept, 1] = pairs[p, 0], pairs[p, 1]
            kept += 1
    return kept


@jit
def share_resting(bound: int, tiles: int, outside: int, factor: int, outermost: bool, most: Floats1) -> None:
    """Largest share of words that a last pass leaves in place, whatever loops lie outside, by spread: float64[*].

    docs/papers/exact-mapper.md, Lemma 34. Raised where it is more than what is there.

    Parameters
    ----------
    outside : int
        Children that networks further out have together; some may be spread over inside the loop.
    outermost : bool
        Whether one loop makes all passes.
    """
    for spread in range(1, most.shape[0]):
        for more in range(1, outside + 1):
            inside = spread * more
            if inside >= tiles:
                break
            count = -(-tiles // inside)
            loop = count if outermost else 2
            while loop <= count:
                passes = -(-count // loop)
                shortest = -(-count // passes)
                most[spread] = max(most[spread], min(1.0, resting_share(bound, tiles, inside, shortest, factor)))
                loop = count + 1 if passes == 1 else -(-count // (passes - 1))
