"""Exact numbers of valid mappings: the ways to come to each tile shape, added up from the inside out.

Numbers of any size are exact: each is W words of 32 bits in an array of int64, so that additions carry only now and
then. Axis letters as in `accelsim.population.steps`; W = words of a number, least first; K = loops of free place so
far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from accelsim.model.encode import Bools, Floats, Ints
from accelsim.population.steps import Keeping, Nest, Step

BITS = 32
"""Bits of a word of a number; 63 bits hold the sum of the orders of 12 loops times such words."""

Values = npt.NDArray[Any]


def exact_words(largest: float) -> int:
    """Words that a number takes, with room for a rounded `largest`."""
    return max(1, math.ceil((math.log2(max(largest, 1.0)) + 2) / BITS))


def carry(values: Ints) -> None:
    """Bring each word below 2**32 again, in place; int64[W, ...]."""
    for w in range(len(values) - 1):
        values[w + 1] += values[w] >> BITS
        values[w] &= (1 << BITS) - 1


def as_integer(words: Ints) -> int:
    """One number, from int64[W]."""
    return sum(int(word) << (BITS * w) for w, word in enumerate(words))


def put_loops(step: Step, values: Values, trace: list[Floats] | None = None) -> Values:
    """Add up the ways to come to each shape once the loops of a step stand around the shapes.

    Parameters
    ----------
    step : Step
    values : int64[W, *S] or float64[1, *S]
        Ways to come to each shape inside; integers are exact.
    trace : list, optional
        Where the sums before each dimension and after the last go, float64[K or Q, *S].

    Returns
    -------
    int64[W, *S] or float64[1, *S]
        For an axis int64[W, Q, *S], by the product of its bounds.
    """
    rooms = 1 + sum(step.free) if not step.slot.axis else len(step.products)
    state = np.zeros((len(values), rooms, *values.shape[1:]), values.dtype)
    state[:, 0] = values
    for d in range(len(step.moves)):
        if trace is not None:
            trace.append(state[0])
        state = _put_loop(step, d, state)
    if trace is not None:
        trace.append(state[0])
    if step.slot.axis:
        return state
    orders = np.array([math.factorial(k) for k in range(rooms)]).reshape(-1, *[1] * (values.ndim - 1))
    summed: Values = (state * orders.astype(values.dtype)).sum(axis=1)
    if values.dtype == np.int64:
        carry(summed)
    return summed


def _put_loop(step: Step, d: int, state: Values) -> Values:
    """The same for the loop of one dimension."""
    after = state.copy() if step.may_rest[d] else np.zeros_like(state)
    source, target = np.moveaxis(state, 2 + d, 2), np.moveaxis(after, 2 + d, 2)
    if step.slot.axis:
        place = {product: q for q, product in enumerate(step.products)}
        for i, j, bound in step.moves[d]:
            pairs = [(q, place[p * bound]) for q, p in enumerate(step.products) if p * bound in place]
            if pairs:
                before, behind = (list(row) for row in zip(*pairs, strict=True))
                target[:, behind, j] += source[:, before, i]
    else:
        more = int(step.free[d])
        for i, j, _ in step.moves[d]:
            target[:, more:, j] += source[:, : state.shape[1] - more, i]
    if state.dtype == np.int64:
        carry(after)
    return after


def count_mappings(nest: Nest, kept: Sequence[Bools] | None = None, least_used: int = 0) -> int:
    """Count the valid mappings, exactly.

    Parameters
    ----------
    nest : Nest
    kept : sequence of bool[*S], optional
        For each level, outermost first, the tiles that count once each; by default each tile counts once for every
        choice of what the level keeps that it fits.
    least_used : int
        Count only mappings that use so many compute units.

    Raises
    ------
    AccelsimError
        If partial sums are wider than finished words: then what fits depends on the order of loops too.
    """
    words = exact_words(_largest(nest))
    start = np.zeros((words, *nest.shape), np.int64)
    start.reshape(words, -1)[0, 0] = 1
    found = {1: start}
    rest = _fanouts(nest)
    for step in nest.steps:
        if isinstance(step, Keeping):
            chosen = step.choices if kept is None else kept[step.level]
            for values in found.values():
                values *= chosen
                carry(values)
        elif step.slot.axis:
            rest //= max(step.products)
            after: dict[int, Ints] = {}
            for used, values in found.items():
                sums = put_loops(step, values)
                for q, product in enumerate(step.products):
                    if used * product * rest >= least_used:
                        key = used * product if least_used else 1
                        after[key] = after[key] + sums[:, q] if key in after else sums[:, q].copy()
            for values in after.values():
                carry(values)
            found = after
        else:
            found = {used: put_loops(step, values) for used, values in found.items()}
    return sum(as_integer(values.reshape(words, -1)[:, -1]) for values in found.values())


def _fanouts(nest: Nest) -> int:
    return math.prod(max(step.products) for step in nest.steps if isinstance(step, Step))


def _largest(nest: Nest) -> float:
    """The largest sum that occurs, rounded: all choices taken to fit."""
    values: Floats = np.zeros((1, *nest.shape))
    values.reshape(-1)[0] = 1.0
    largest = 1.0
    for step in nest.steps:
        if isinstance(step, Keeping):
            values = values * len(step.keeps)
        else:
            values = put_loops(step, values)
            if step.slot.axis:
                values = values.sum(axis=1)
        largest = max(largest, float(values.max()))
    return largest
