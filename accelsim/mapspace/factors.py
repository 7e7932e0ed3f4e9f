"""Factorisations: all ways to split a bound over the loop slots of a machine; and the tiles that they lead to.

Axis letters: D = dimensions, N = sizes of a dimension, S = tile shapes (all combinations of sizes), T = tensors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from accelsim.inputs.divisors import divisors
from accelsim.model.encode import Encoded, Ints


def factorizations(bound: int, allowed: Sequence[frozenset[int] | None]) -> Ints:
    """All ordered factorisations of a bound into one factor for each slot: int64[rows, slots], in lexicographic order.

    `allowed`: for each slot the factors it may take; None: any.

    >>> factorizations(4, [None, frozenset({1, 2})]).tolist()
    [[2, 2], [4, 1]]
    """
    return _rows(bound, allowed, {})


def _rows(bound: int, allowed: Sequence[frozenset[int] | None], known: dict[tuple[int, int], Ints]) -> Ints:
    """Rows; `known` remembers the tails by (rest, slots left)."""
    if not allowed:
        return np.ones((int(bound == 1), 0), np.int64)
    key = (bound, len(allowed))
    if key not in known:
        found = [np.ones((0, len(allowed)), np.int64)]
        for factor in divisors(bound):
            if allowed[0] is None or factor in allowed[0]:
                rest = _rows(bound // factor, allowed[1:], known)
                found.append(np.insert(rest, 0, factor, axis=1))
        known[key] = np.concatenate(found)
    return known[key]


def passes(bound: int) -> list[int]:
    """All numbers of passes that tiles of one size can take over a bound, most first.

    >>> passes(7)
    [7, 4, 3, 2, 1]
    """
    few = math.isqrt(bound - 1)
    return sorted({*range(1, few + 2), *((bound - 1) // size + 1 for size in range(1, few + 1))}, reverse=True)


def least_factor(inner: int, outer: int) -> int:
    """Least bound of a loop that turns so many passes inside into so many outside; 0 if none does.

    With this bound the remainder of the last pass is largest: 7 passes in 2 are 4 and 3.

    >>> least_factor(7, 2), least_factor(7, 5)
    (4, 0)
    """
    factor = -(-inner // outer)
    return factor if -(-inner // factor) == outer else 0


def count_patterns(
    bound: int, slots: Sequence[tuple[frozenset[int], int, int]], *, remainders: bool = False
) -> dict[int, int]:
    """Count ordered factorisations without listing them: how many have each pattern that occurs, patterns ascending.

    `slots`: the factors that a slot may take, what a factor above 1 there adds to the pattern, and how many such slots
    there are next to each other: of these only the first have factors above 1, as others would have as many
    factorisations. `remainders`: the ways to cover the bound by loops that may leave remainders, each of them the
    shortest one for its numbers of passes; slots go from the innermost one outwards.

    >>> count_patterns(4, [(frozenset({1, 2, 4}), 1, 1), (frozenset({1, 2}), 2, 1)])
    {1: 1, 3: 1}
    >>> count_patterns(3, [(frozenset({1, 2, 3}), 1, 2)], remainders=True)
    {1: 1, 2: 1}
    """
    counts = {(bound, 0): 1}
    for factors, mark, alike in slots:
        leads: dict[int, list[int]] = {}  # from what is left to what may be left outside a factor above 1
        after = dict[tuple[int, int], int]()
        for more in range(alike + 1):
            if 1 in factors or more == alike:
                for key, count in counts.items():
                    after[key] = after.get(key, 0) + count
            further = dict[tuple[int, int], int]()
            for (rest, pattern), count in counts.items() if more < alike else ():
                if rest not in leads:
                    leads[rest] = (
                        [outer for outer in passes(rest) if outer < rest and least_factor(rest, outer) in factors]
                        if remainders
                        else [rest // factor for factor in factors if factor > 1 and rest % factor == 0]
                    )
                for outer in leads[rest]:
                    further[outer, pattern + mark] = further.get((outer, pattern + mark), 0) + count
            counts = further
        counts = after
    return {pattern: counts[rest, pattern] for rest, pattern in sorted(counts) if rest == 1}


def along(values: Ints, d: int, dims: int) -> Ints:
    """The values along axis d of a grid of so many dimensions."""
    return values.reshape([-1 if e == d else 1 for e in range(dims)])


def tile_words(encoded: Encoded, sizes: Sequence[Ints]) -> Ints:
    """Words of each tensor's box in every tile: int64[T, S], the last dimension's sizes next to each other.

    `sizes`: int64[N] of each dimension of bound > 1.
    """
    c, dims = encoded.constants, len(sizes)
    shape = [len(found) for found in sizes]
    axes = [along(np.asarray(found, np.int64), d, dims) for d, found in enumerate(sizes)]
    words = []
    for t in range(len(encoded.tensors)):
        box: Ints = np.ones([1] * dims, np.int64)
        for rank in {int(c.rank[t, d]) for d in range(dims) if c.relevant[t, d]}:
            extent: Ints = np.ones([1] * dims, np.int64)
            for d in range(dims):
                if c.relevant[t, d] and c.rank[t, d] == rank:
                    extent = extent + c.factor[t, d] * (axes[d] - 1)
            box = box * extent
        words.append(np.broadcast_to(box, shape).reshape(-1))
    return np.array(words)
