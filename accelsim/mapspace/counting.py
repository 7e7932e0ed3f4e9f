"""Counting the mappings of a map space without listing them; docs/papers/mapspace.md."""

from __future__ import annotations

import itertools
import math
import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal, getcontext, localcontext
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

Decimals = NDArray[np.object_]
MOST_POINTS = 100_000
"""Points at which `count_ordered` evaluates a polynomial within a second or so."""


Weights = dict[int, int]
"""How often mappings with so many temporal blocks count, which can change places; less than 0: they are subtracted."""


def node_weights(nodes: int, must: int, may: int) -> Weights:
    """Count the ways in which a level keeps tensors at its storage nodes, by their temporal blocks.

    Parameters
    ----------
    nodes : int
        Storage nodes of the level at most. Each keeps some tensors, but for the first one, outside which loops may
        stand; between two of them is a loop.
    must, may : int
        Tensors that the level keeps, and further ones that it may keep.

    Notes
    -----
    Of n blocks that hold a loop each and one more, those without a loop are subtracted, where there is one block less.

    >>> node_weights(1, 1, 1), node_weights(2, 0, 1)  # (kept or not), (as before, or with loops outside)
    ({1: 2}, {1: 1, 2: 1})
    """
    found: Counter[int] = Counter()
    for kept in range(nodes + 1):
        ways = sum(math.comb(may, more) * _surjections(must + more, kept) for more in range(may + 1))
        for filled in (kept - 1, kept) if 0 < kept < nodes else (max(0, kept - 1),):
            for empty in range(filled + 1):
                found[filled - empty + 1] += (-1) ** empty * math.comb(filled, empty) * ways
    return {blocks: ways for blocks, ways in found.items() if ways}


def _surjections(things: int, places: int) -> int:
    """Ways to put things into places so that none is empty."""
    return sum((-1) ** empty * math.comb(places, empty) * (places - empty) ** things for empty in range(places + 1))


def joined(weights: Iterable[Weights]) -> Weights:
    """Weights of several levels together.

    >>> joined([{1: 2}, {1: 1, 2: 1}])
    {2: 2, 3: 2}
    """
    found: Counter[int] = Counter({0: 1})
    for each in weights:
        before, found = found, Counter()
        for (blocks, ways), (more, times) in itertools.product(before.items(), each.items()):
            found[blocks + more] += ways * times
    return dict(found)


def is_quick(dims: int, groups: Sequence[Weights]) -> bool:
    """Whether `count_ordered` takes a second at most for so many dimensions."""
    nodes = dims // 2 + 1
    return math.prod(sum(math.comb(many + nodes - 1, many) for many in each) for each in groups) <= MOST_POINTS


def count_ordered(counts: Sequence[dict[tuple[int, ...], int]], groups: Sequence[Weights]) -> int:
    """Count the ways to choose a factorisation of each dimension, and an order of the loops of each temporal block.

    `counts`: for each dimension, how many factorisations have loops in these blocks: how many blocks of each group.

    >>> count_ordered([{(1,): 1}, {(1,): 1, (2,): 5}], [{3: 1}])  # 3 * 2 + 6 of two loops, 5 * 3 * (2 * 2 + 1) of three
    87
    """
    most_blocks = list(map(max, groups))
    largest = math.prod(
        sum(n * math.prod(map(math.comb, most_blocks, held)) for held, n in each.items()) for each in counts
    ) * math.factorial(len(counts)) ** sum(most_blocks)
    largest *= math.prod(sum(map(abs, each.values())) for each in groups)
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


def _points(rule: Sequence[tuple[Decimal, Decimal]], blocks: Weights, most: int) -> tuple[Decimals, Decimals]:
    """Give each of some blocks that can change places a node of a quadrature.

    Returns the weight of each way to do so, and the sums of the products of 0, 1, ..., `most` of these nodes.
    """
    ways = [(many, Decimal(times), [Decimal(1)] + [Decimal(0)] * most) for many, times in blocks.items()]
    for node, weight in rule:
        powers = [[math.comb(many, k) * node**k for k in range(most + 1)] for many in range(max(blocks) + 1)]
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
