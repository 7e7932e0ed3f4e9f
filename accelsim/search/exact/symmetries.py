"""Exchanges of dimensions that leave all costs as they are; docs/exact.md, Lemma 10.

Axis letters: D = dimensions, T = tensors.
"""

from __future__ import annotations

import itertools

import numpy as np

from accelsim.mapspace.space import Slot
from accelsim.model.encode import STREAM, Ints
from accelsim.search.exact.shapes import Grid


def symmetries(grid: Grid) -> list[Ints]:
    """Orders of the dimensions in which one or two pairs change places, and no mapping costs anything else then."""
    bounds = grid.space.encoded.constants.bounds
    pairs = [(d, e) for d, e in itertools.combinations(range(len(bounds)), 2) if bounds[d] == bounds[e]]
    swaps: list[tuple[tuple[int, int], ...]] = [(pair,) for pair in pairs]
    swaps += [both for both in itertools.combinations(pairs, 2) if not {*both[0]} & {*both[1]}]
    found = []
    for swap in swaps:
        order = np.arange(len(bounds))
        for d, e in swap:
            order[d], order[e] = e, d
        if _changes_nothing(grid, order):
            found.append(order)
    return found


def _changes_nothing(grid: Grid, order: Ints) -> bool:
    """Whether tensors, machine and constraints are the same where dimensions have changed places."""
    space, c = grid.space, grid.space.encoded.constants
    moves, swapped = c.factor * c.relevant, order != np.arange(len(order))
    together = (c.rank[:, :, None] == c.rank[:, None, :]) & c.relevant[:, :, None] & c.relevant[:, None, :]
    same = (moves[:, order] == moves).all() and (together[:, order][:, :, order] == together).all()
    named = {d for level in range(len(c.fanout)) for ends in space.fixed_places(level) for d in ends}
    named |= {int(c.array[STREAM]), *np.flatnonzero(c.asked[:, 4:].any(axis=0)).tolist()}
    if not same or c.dma.size or space.imperfect or named & {*np.flatnonzero(swapped).tolist()}:
        return False
    slots = [Slot(level, axis) for level in range(len(c.fanout)) for axis in ("", "x", "y")]
    names, places = space.encoded.dims, np.flatnonzero(swapped).tolist()
    return all(space.allowed(slot, names[d]) == space.allowed(slot, names[order[d]]) for slot in slots for d in places)
