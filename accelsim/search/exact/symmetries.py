"""Exchanges of dimensions that leave all costs as they are; docs/papers/exact-mapper.md, Lemma 9.

Axis letters: D = dimensions, S = shapes, T = tensors.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from accelsim.mapspace.space import Slot
from accelsim.model.encode import STREAM, Bools, Floats, Ints
from accelsim.search.exact.blocks import BlockSweep
from accelsim.search.exact.orders import HALO_REUSE, Statuses
from accelsim.search.exact.shapes import Grid, size_numbers


class Mirror:
    """What tables take from one half of the shapes for the other: an exchange of dimensions, or none.

    Attributes
    ----------
    order : int64[D]
    image : int64[S]
        What each shape becomes.
    half : bool[S]
        Shapes whose number is not above that of their image.
    """

    def __init__(self, grid: Grid) -> None:
        shapes = grid.shapes
        self.order: Ints = next(iter(symmetries(grid)), np.arange(len(shapes.sizes)))
        self.image: Ints = shapes.stride @ size_numbers(shapes)[self.order]
        self.half: Bools = np.arange(shapes.total) <= self.image
        self.alone = bool(self.half.all())

    def statuses(self, known: Sequence[Statuses]) -> Ints:
        """What each of some statuses becomes, by number among them."""
        return statuses_exchanged(known, () if self.alone else tuple(self.order.tolist()))

    def lower(self, values: Floats, statuses: Ints) -> None:
        """Lower what shapes cost, and what their images do, to the lesser of the two: float64[Q, S, *].

        `statuses`: what each becomes.
        """
        for q, p in enumerate([] if self.alone else statuses.tolist()):
            if q <= p:
                np.minimum(values[q], values[p].take(self.image, axis=0), out=values[q])
            if q < p:
                values[p] = values[q].take(self.image, axis=0)


def statuses_exchanged(known: Sequence[Statuses], order: tuple[int, ...]) -> Ints:
    """What each of some statuses becomes where dimensions change places, by number among them; no order: itself."""
    if not order:
        return np.arange(len(known))
    number = {each: q for q, each in enumerate(known)}
    places = [*range(HALO_REUSE), *(HALO_REUSE + d for d in order), *(HALO_REUSE + len(order) + d for d in order)]
    return np.array([number[tuple([places[status] for status in each])] for each in known], np.int64)


def exchanged(block: BlockSweep, order: Ints, further: Ints) -> BlockSweep:
    """What a class of orders becomes where dimensions change places; `further`: what the statuses inside do."""
    return block._replace(
        counted=np.sort(order[block.counted]),
        adding=np.sort(order[block.adding]),
        moving=np.sort(order[block.moving]),
        frozen=block.frozen[order],
        adds=block.adds[order],
        term=further[block.term],
        mask=block.mask[:, order],
        pair=np.where(block.pair >= 0, order[block.pair], -1),
        step=block.step[order],
    )


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
    if not same or c.dma.size or named & {*np.flatnonzero(swapped).tolist()}:
        return False
    slots = [Slot(level, axis) for level in range(len(c.fanout)) for axis in ("", "x", "y")]
    names, places = space.encoded.dims, np.flatnonzero(swapped).tolist()
    if any((names[d] in space.imperfect) != (names[order[d]] in space.imperfect) for d in places):
        return False
    return all(space.allowed(slot, names[d]) == space.allowed(slot, names[order[d]]) for slot in slots for d in places)
