"""Factorisations: all ways to split a bound over the loop slots of a machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt


def divisors(bound: int) -> list[int]:
    """All divisors, ascending.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [d for d in range(1, int(bound**0.5) + 1) if bound % d == 0]
    return small + [bound // d for d in reversed(small) if d * d != bound]


def factorizations(bound: int, allowed: Sequence[frozenset[int] | None]) -> npt.NDArray[np.int64]:
    """All ordered factorisations of a bound into one factor for each slot.

    Parameters
    ----------
    allowed : sequence of (set of int, or None)
        For each slot the factors it may take; None: any.

    Returns
    -------
    int64[rows, slots]
        In lexicographic order; no rows if there is none.

    Examples
    --------
    >>> factorizations(4, [None, frozenset({1, 2})]).tolist()
    [[2, 2], [4, 1]]
    """
    table = np.array(list(_rows(bound, list(allowed), {})), np.int64)
    return table.reshape(-1, len(allowed))


def _rows(
    bound: int, allowed: Sequence[frozenset[int] | None], known: dict[tuple[int, int], list[tuple[int, ...]]]
) -> Iterator[tuple[int, ...]]:
    """Yield rows; `known` remembers the tails by (rest, slots left)."""
    if not allowed:
        if bound == 1:
            yield ()
        return
    key = (bound, len(allowed))
    if key not in known:
        known[key] = [
            (factor, *rest)
            for factor in divisors(bound)
            if allowed[0] is None or factor in allowed[0]
            for rest in _rows(bound // factor, allowed[1:], known)
        ]
    yield from known[key]


def count_patterns(bound: int, allowed: Sequence[frozenset[int]], marks: Sequence[int]) -> dict[int, int]:
    """Count ordered factorisations by pattern, without listing them.

    Parameters
    ----------
    allowed : sequence of set of int
        For each slot the factors it may take.
    marks : sequence of int
        For each slot what a factor above 1 there adds to the pattern.

    Returns
    -------
    dict of int to int
        Number of factorisations of each pattern that occurs, patterns ascending.

    Examples
    --------
    >>> count_patterns(4, [frozenset({1, 2, 4}), frozenset({1, 2})], [1, 2])
    {1: 1, 3: 1}
    """
    counts = {(bound, 0): 1}
    for factors, mark in zip(allowed, marks, strict=True):
        after: dict[tuple[int, int], int] = {}
        for (rest, pattern), count in counts.items():
            for factor in factors:
                if rest % factor == 0:
                    key = (rest // factor, pattern | mark if factor > 1 else pattern)
                    after[key] = after.get(key, 0) + count
        counts = after
    return {pattern: counts[rest, pattern] for rest, pattern in sorted(counts) if rest == 1}


def passes(bound: int) -> list[int]:
    """All numbers of passes that tiles of one size can take over a bound, most first.

    >>> passes(7)
    [7, 4, 3, 2, 1]
    """
    return sorted({-(-bound // size) for size in range(1, bound + 1)}, reverse=True)


def least_factor(inner: int, outer: int) -> int:
    """Least bound of a loop that turns so many passes inside into so many outside; 0 if none does.

    With this bound the remainder of the last pass is largest: 7 passes in 2 are 4 and 3.

    >>> least_factor(7, 2), least_factor(7, 5)
    (4, 0)
    """
    factor = -(-inner // outer)
    return factor if -(-inner // factor) == outer else 0


def count_remainders(bound: int, allowed: Sequence[frozenset[int]], marks: Sequence[int]) -> dict[int, int]:
    """Count the ways to cover a bound by loops that may leave remainders, by pattern; see `count_patterns`.

    Each loop is the shortest one for its numbers of passes. `allowed` and `marks` go from the innermost slot outwards.

    Examples
    --------
    >>> count_remainders(3, [frozenset({1, 2, 3}), frozenset({1, 2, 3})], [1, 2])
    {1: 1, 2: 1, 3: 1}
    """
    counts = {(bound, 0): 1}
    for factors, mark in zip(allowed, marks, strict=True):
        after: dict[tuple[int, int], int] = {}
        for (rest, pattern), count in counts.items():
            for outer in passes(rest):
                factor = least_factor(rest, outer)
                if factor in factors:
                    key = (outer, pattern | mark if factor > 1 else pattern)
                    after[key] = after.get(key, 0) + count
        counts = after
    return {pattern: counts[rest, pattern] for rest, pattern in sorted(counts) if rest == 1}
