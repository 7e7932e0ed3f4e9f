"""Temporal blocks as the kernel that fills cost-to-go tables takes them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accelsim.model.encode import Ints
from accelsim.search.exact.block_kernel import BlockSweep
from accelsim.search.exact.orders import FIXED, STATIONARY, Statuses, Structure, order_classes
from accelsim.search.exact.shapes import Grid


def steps_in_time(grid: Grid, level: int, counts: Ints) -> tuple[Ints, Ints]:
    """Pairs of sizes that a temporal loop may join, and moves that find the least over all inner sizes.

    Parameters
    ----------
    grid : Grid
    level : int
    counts : int64[D]
        How many sizes of each dimension occur in tiles that fit the level.
    """
    shapes, allowed = grid.shapes, grid.in_time[level]
    dims, most = shapes.size.shape
    pairs = np.full((dims, most * most + 1, 2), -1, np.int64)
    moves = np.full((dims, most * most + most + 1, 2), -1, np.int64)
    for d in range(dims):
        count = int(counts[d])
        over = shapes.over[d, :count, :count]
        joined = np.argwhere((over >= 0) & allowed[d, over]).reshape(-1, 2)[:, ::-1]
        joined = joined[np.lexsort((joined[:, 1], joined[:, 0]))]
        pairs[d, : len(joined)] = joined
        found: list[tuple[int, int]] = []
        if allowed[d, : shapes.factors[d]].all():
            # what leads to a size leads on from there: the next ones are enough
            below = (over >= 0) & ~np.eye(count, dtype=np.bool_)
            next_ones = below & ~((below.astype(np.int64) @ below.astype(np.int64)) > 0)
            found = [(int(j), int(i)) for j, i in np.argwhere(next_ones)]
        else:
            for j in range(count - 1, -1, -1):
                found += [] if allowed[d, 0] else [(j, -1)]
                found += [(j, int(i)) for i, outer in joined if outer == j and i != j]
        moves[d, : len(found)] = np.array(found, np.int64).reshape(-1, 2)
    return pairs, moves


def blocks_in_time(
    grid: Grid,
    structure: Structure,
    level: int,
    statuses: Statuses,
    further: list[Statuses],
    reduce: Callable[[Statuses], Statuses],
) -> list[BlockSweep]:
    """Classes of orders of a level's temporal block as the kernel takes them.

    Parameters
    ----------
    grid : Grid
    structure : Structure
    level : int
    statuses : Statuses
        Outside the block.
    further : list of Statuses
        Those of the table of what follows.
    reduce : callable
        Takes from statuses what makes no difference there.
    """
    found: list[BlockSweep] = []
    known: set[object] = set()
    every, output = structure.dims, int(grid.space.encoded.constants.output[0])
    adds = structure.irrelevant(frozenset({output}))
    for order_class in order_classes(structure, statuses):
        if any(not grid.in_time[level, d, 0] for d in every - order_class.allowed):
            continue
        terms: list[tuple[frozenset[int], tuple[Statuses, ...], int]] = []
        for term in order_class.terms:
            reduced = tuple(reduce(after) for after in term.statuses)
            phase = term.phase if len(set(reduced)) > 1 else FIXED
            reduced = reduced if phase else reduced[:1]
            if terms and terms[-1][1:] == (reduced, phase):
                terms.pop()
            terms.append((term.dims, reduced, phase))
        inner, come = order_class.inner, order_class.come
        if inner >= 0 and not any(phase for _, _, phase in terms):
            continue  # what follows a pass over the window makes no difference further in
        key = (order_class.allowed, tuple(terms), inner, come)
        if key in known:
            continue
        known.add(key)
        counted = frozenset[int]().union(*(dims for dims, _, _ in terms[:-1]))
        other = structure.partner[inner] if inner >= 0 else -1
        counted |= {inner, other} if inner >= 0 else frozenset[int]()
        found.append(
            BlockSweep(
                counted=np.array(sorted(counted), np.int64),
                adding=np.array(sorted((order_class.allowed & adds) - counted), np.int64),
                moving=np.array(sorted(order_class.allowed - adds - counted), np.int64),
                frozen=np.array([d not in order_class.allowed for d in sorted(every)]),
                adds=np.array([d in adds for d in sorted(every)]),
                first=np.array([order_class.allowed <= adds or order_class.terms[0].statuses[0][output] == STATIONARY]),
                term=np.array(
                    [[further.index(after) for after in (reduced * 4)[:4]] for _, reduced, _ in terms], np.int64
                ),
                phase=np.array([phase for _, _, phase in terms], np.int64),
                mask=np.array(
                    [[d in mask for d in sorted(every)] for mask in [*(dims for dims, _, _ in terms[:-1]), every]],
                    np.bool_,
                ),
                pair=np.array([inner, other, come], np.int64),
                step=grid.space.encoded.constants.factor[structure.window].astype(np.int64),
                further=_spread_outside(grid, level, come),
                bound=np.ones(len(every), np.int64),
            )
        )
    return found


def _spread_outside(grid: Grid, level: int, d: int) -> Ints:
    """By how much the networks outside a level may spread a dimension."""
    found = {1}
    for options in grid.options[:level] if d >= 0 else ():
        bounds = np.unique(options.x[:, d] * options.y[:, d])
        found = {a * int(b) for a in found for b in bounds}
    return np.array(sorted(found), np.int64)
