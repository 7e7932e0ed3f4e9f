"""Sums over the loops of one dimension, compiled.

Axis letters: A and B = what lies before and behind an axis of an array, N = sizes along it, Q = products of bounds on
the axes of a network, M = moves.
"""

from __future__ import annotations

from accelsim.model.encode import Bools, Floats, Ints
from accelsim.model.jit import inline, jit

CHUNK = 256
"""Sums that are looked at in turn, so that they stay in the cache."""
FEW = 8
"""If fewer lie next to each other, rows are taken across."""


@inline
def _add_row(row: Floats, weight: float, many: int, total: Floats) -> None:
    """Add the first sums of a row, weighed. Rows are cut off before: indices from 0 on are what vectorizes."""
    for b in range(many):
        total[b] += weight * row[b]


@jit
def add_product(matrix: Floats, values: Floats, total: Floats) -> None:
    """Add the vectors along an axis, multiplied by a matrix of few entries.

    Parameters
    ----------
    matrix : float64[N', N]
    values : float64[A, N, B]
    total : float64[A, N', B]
        Added to.
    """
    end = values.shape[2]
    for a in range(values.shape[0]):
        for low in range(0, end, CHUNK):
            for j in range(matrix.shape[0]):
                for i in range(matrix.shape[1]):
                    if matrix[j, i] != 0.0:
                        _add_row(values[a, i, low:], matrix[j, i], min(CHUNK, end - low), total[a, j, low:])


@inline
def _find_some(values: Floats, start: int, stop: int, low: int, high: int, some: Bools) -> None:
    """Note for each product and size whether any of the sums looked at is not zero."""
    for q in range(values.shape[0]):
        for i in range(values.shape[2]):
            some[q, i] = False
            for a in range(start, stop):
                for b in range(low, high):
                    if values[q, a, i, b] != 0.0:
                        some[q, i] = True
                        break
                if some[q, i]:
                    break


@jit
def add_moves(
    group: Ints, first: Ints, before: Ints, behind: Ints, inside: Ints, outside: Ints, weight: Floats,
    values: Floats, some: Bools, total: Floats,
) -> None:  # fmt: skip
    """Add up moves along an axis of a network.

    Parameters
    ----------
    group : int64[groups + 1]
        First of the moves of the same bounds.
    first : int64[groups + 1]
        First of their pairs of products.
    before, behind : int64[*]
        Of each pair, the numbers of the products of bounds before and after such a move.
    inside, outside : int64[M]
        Sizes that moves lead from and to.
    weight : float64[M]
    values : float64[Q, A, N, B]
    some : bool[Q, N]
        Scratch space.
    total : float64[Q', A, N', B]
        Added to.
    """
    rows, end = values.shape[1], values.shape[3]
    block = CHUNK if end < FEW else 1
    for start in range(0, rows, block):
        stop = min(start + block, rows)
        for low in range(0, end, CHUNK):
            high = min(low + CHUNK, end)
            _find_some(values, start, stop, low, high, some)
            for g in range(len(group) - 1):
                for pair in range(first[g], first[g + 1]):
                    q, p = before[pair], behind[pair]
                    for m in range(group[g], group[g + 1]):
                        i, j = inside[m], outside[m]
                        if not some[q, i]:
                            continue
                        if block == 1:
                            _add_row(values[q, start, i, low:], weight[m], high - low, total[p, start, j, low:])
                        else:
                            for b in range(end):
                                _add_row(values[q, start:, i, b], weight[m], stop - start, total[p, start:, j, b])
