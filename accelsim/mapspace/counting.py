"""Counting the mappings of a map space without listing them; docs/mapspace.md."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal, getcontext, localcontext
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

Decimals = NDArray[np.object_]
MOST_POINTS = 100_000
"""Points at which `count_ordered` evaluates a polynomial within a second or so."""


def is_quick(dims: int, groups: Sequence[int]) -> bool:
    """Whether `count_ordered` takes a second at most for so many dimensions, and groups of so many levels."""
    nodes = dims // 2 + 1
    return math.prod(math.comb(levels + nodes - 1, levels) for levels in groups) <= MOST_POINTS


def count_ordered(counts: Sequence[dict[tuple[int, ...], int]], groups: Sequence[int]) -> int:
    """Count the ways to choose a factorisation of each dimension, and an order of the loops of each level.

    `counts`: for each dimension, how many factorisations have loops in these levels: how many levels of each group.
    `groups`: how many levels, which can change places, each group has.

    >>> count_ordered([{(1,): 1}, {(1,): 1, (2,): 5}], [3])  # 3 * 2 + 6 of two loops, 5 * 3 * (2 * 2 + 1) of three
    87
    """
    largest = math.prod(
        sum(n * math.prod(map(math.comb, groups, held)) for held, n in each.items()) for each in counts
    ) * math.factorial(len(counts)) ** sum(groups)
    with localcontext(prec=len(str(largest)) + 20):
        rule = _laguerre(len(counts) // 2 + 1)
        most = np.max([list(each) for counted in counts for each in counted] or [[0] * len(groups)], axis=0)
        weights, sums = zip(*map(partial(_points, rule), groups, most.tolist()), strict=True)
        total = np.full(list(map(len, weights)), Decimal(1))
        for each, alike in Counter(frozenset(each.items()) for each in counts).items():
            values = np.full(most + 1, Decimal(0))
            for held, many in each:
                values[held] = Decimal(many)
            for some in sums:
                values = np.tensordot(values, some, axes=(0, 0))
            total = total * values**alike
        for some in weights:
            total = np.tensordot(total, some, axes=(0, 0))
        return int(total.item().to_integral_value())


def _points(rule: Sequence[tuple[Decimal, Decimal]], levels: int, most: int) -> tuple[Decimals, Decimals]:
    """Give each of some levels that can change places a node of a quadrature.

    Returns the weight of each way to do so, and the sums of the products of 0, 1, ..., `most` of these nodes.
    """
    ways = [(levels, Decimal(1), [Decimal(1)] + [Decimal(0)] * most)]
    for node, weight in rule:
        powers = [[math.comb(many, k) * node**k for k in range(most + 1)] for many in range(levels + 1)]
        ways = [
            (left - many, before * math.comb(left, many) * weight**many, _product(sums, powers[many]))
            for left, before, sums in ways
            for many in range(0 if (node, weight) != rule[-1] else left, left + 1)
        ]
    return np.array([weight for _, weight, _ in ways]), np.array([sums for _, _, sums in ways]).T


def _product(one: Sequence[Decimal], other: Sequence[Decimal]) -> list[Decimal]:
    """Coefficients of the product of two polynomials, as many as each has."""
    return [sum(map(operator.mul, one, other[k::-1]), Decimal(0)) for k in range(len(one))]


@lru_cache(maxsize=64)
def _rough_nodes(nodes: int) -> list[float]:
    """Nodes of a Gauss-Laguerre quadrature to a double: eigenvalues of its recurrence (Golub and Welsch, 1969)."""
    at = np.arange(nodes)
    found: list[float] = np.linalg.eigvalsh(np.diag(2.0 * at + 1.0) + np.diag(at[1:] + 0.0, -1)).tolist()
    return found


def _laguerre(nodes: int) -> list[tuple[Decimal, Decimal]]:
    """Nodes x and weights w of a Gauss-Laguerre quadrature, to the context's digits: sum w x^k = k! for k < 2 nodes."""
    found = []
    for guess in _rough_nodes(nodes):
        x, digits = Decimal(guess), 8
        while True:
            below, here = Decimal(1), 1 - x
            for k in range(1, nodes):
                below, here = here, ((2 * k + 1 - x) * here - k * below) / (k + 1)
            if digits > 2 * getcontext().prec:
                break
            x -= x * here / (nodes * (here - below))  # Newton's step doubles the digits
            digits *= 2
        found.append((x, x / (nodes * below) ** 2))
    return found
