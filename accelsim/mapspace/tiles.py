"""Tiles: every shape that the loops inside some point of the nest can cover, and which of them a level can keep.

Axis letters: D = dimensions, N = sizes of a dimension, S = shapes (all combinations of sizes), T = tensors,
K = choices of what a level keeps.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import UNLIMITED, Bools, Encoded, Ints


def along(values: Ints, d: int, dims: int) -> Ints:
    """The values along axis d of a grid of so many dimensions."""
    return values.reshape([-1 if e == d else 1 for e in range(dims)])


def tile_words(encoded: Encoded, sizes: Sequence[Ints]) -> Ints:
    """Words of each tensor's box in every tile.

    Parameters
    ----------
    sizes : sequence of int64[N]
        Of each dimension of bound > 1.

    Returns
    -------
    int64[T, S]
        The last dimension's sizes next to each other.
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


def fitting_keeps(space: MapSpace, words: Ints, level: int) -> tuple[Bools, Bools]:
    """What a level may keep, and which tiles of that fit, partial sums as narrow as finished words.

    Parameters
    ----------
    words : int64[T, S]
        Of `tile_words`.

    Returns
    -------
    keeps : bool[K, T]
    fits : bool[K, S]
    """
    c = space.encoded.constants
    free = [t for at, t in space.free_keeps if at == level]
    keeps = []
    for chosen in itertools.product((True, False), repeat=len(free)):
        row = space.keep[level].copy()
        row[free] = chosen
        keeps.append(row)
    parts = c.word_parts[level].min(axis=1)
    fits = np.ones((len(keeps), words.shape[1]), np.bool_)
    for k, row in enumerate(keeps):
        held = (words * (parts * row)[:, None]).sum(axis=0)
        if c.capacity[level] != UNLIMITED:
            fits[k] &= held <= c.capacity[level]
        if c.partitioned[level]:
            for role, room in enumerate(c.partition[level]):
                mine = row & (c.role == role)
                fits[k] &= (words * (parts * mine)[:, None]).sum(axis=0) <= room
    return np.array(keeps), fits
