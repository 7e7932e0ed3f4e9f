"""Draw and enumerate mappings in compiled code, without Python objects.

Axis letters as in `accelsim.mapspace.space`. Mapping number i of a draw depends on (key, i) alone: a counter-based
generator (splitmix64; Steele, Lea, Flood, OOPSLA 2014, figure 17) is started anew for each, so that the number of
workers changes nothing.
"""

from __future__ import annotations

import numpy as np

from accelsim.mapspace.space import SpaceArrays
from accelsim.model.encode import Batch
from accelsim.model.jit import jit

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3, _SHIFT_DOUBLE = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_DOUBLE = 1.0 / (1 << 53)


@jit
def next_number(state: np.uint64) -> tuple[np.uint64, float]:
    """Next state and a double in [0, 1)."""
    state = state + _GAMMA
    z = state
    z = (z ^ (z >> _SHIFT_1)) * _MIX_1
    z = (z ^ (z >> _SHIFT_2)) * _MIX_2
    z = z ^ (z >> _SHIFT_3)
    return state, float(z >> _SHIFT_DOUBLE) * _DOUBLE


@jit
def begin_stream(key: np.uint64, index: int) -> np.uint64:
    """Generator of mapping number `index` of a key."""
    stream = key + np.uint64(index) * _MIX_1
    stream, _ = next_number(stream ^ (stream >> _SHIFT_3))
    return stream


@jit
def draw(space: SpaceArrays, key: np.uint64, index: int, m: Batch, i: int) -> None:
    """Draw mapping number `index` of the sequence of a key, uniformly from the map space.

    Factorisations are chosen dimension by dimension: first a pattern (which temporal blocks hold a loop), with a
    probability proportional to the mappings that follow from it, then one of its rows; then the order of each block;
    then what is kept. Written are int64[L, dims of the Einsum] and bool[L, T].
    """
    temporal, x, y, keep = m.temporal[i], m.x[i], m.y[i], m.keep[i]
    temporal[:] = 1
    x[:] = 1
    y[:] = 1
    stream = begin_stream(key, index)
    state = 0
    levels = temporal.shape[0]
    for d in range(space.dims.shape[0]):
        total, chosen, after = 0.0, space.first_pattern[d], 0
        stream, u = next_number(stream)
        wanted = u * space.weight[d, state]
        for p in range(space.first_pattern[d], space.first_pattern[d + 1]):
            there = state
            for lv in range(levels):
                there += space.step[lv] * (space.pattern[p, 0] >> lv & 1)
            chosen, after = p, there
            total += float(space.pattern[p + 1, 1] - space.pattern[p, 1]) * space.weight[d + 1, there]
            if wanted < total:
                break
        state = after
        rows = space.pattern[chosen + 1, 1] - space.pattern[chosen, 1]
        stream, u = next_number(stream)
        place_row(space, space.pattern[chosen, 1] + int(u * rows), space.dims[d], m, i)
    stream = shuffle_orders(space, stream, m, i)
    keep_required(space, m, i)
    for f in range(space.free.shape[0]):
        stream, u = next_number(stream)
        keep[space.free[f, 0], space.free[f, 1]] = u < 0.5


@jit
def shuffle_orders(space: SpaceArrays, stream: np.uint64, m: Batch, i: int) -> np.uint64:
    """Draw the order of each temporal block."""
    temporal, order = m.temporal[i], m.order[i]
    for lv in range(temporal.shape[0]):
        start, loops = gather_order(space, m, i, lv)
        for last in range(loops - 1, 0, -1):
            stream, u = next_number(stream)
            at = start + int(u * (last + 1))
            order[lv, start + last], order[lv, at] = order[lv, at], order[lv, start + last]
    return stream


@jit
def place_row(space: SpaceArrays, row: int, dim: int, m: Batch, i: int) -> None:
    """Write one factorisation of a dimension into the loop bounds."""
    for slot in range(space.rows.shape[1]):
        axis = space.slot_axis[slot]
        bounds = m.temporal if axis == 0 else m.x if axis == 1 else m.y
        bounds[i, space.slot_level[slot], dim] = space.rows[row, slot]


@jit
def keep_required(space: SpaceArrays, m: Batch, i: int) -> None:
    """Write what every mapping keeps."""
    keep = m.keep[i]
    for lv in range(keep.shape[0]):
        for t in range(keep.shape[1]):
            keep[lv, t] = space.keep[lv, t]


@jit
def gather_order(space: SpaceArrays, m: Batch, i: int, lv: int) -> tuple[int, int]:
    """Put a block's loops of bound > 1 first, those of fixed places at its ends, the others by dimension between.

    Returns where the loops of free places begin, and how many there are.
    """
    temporal, order = m.temporal[i], m.order[i]
    dims = temporal.shape[1]
    at, rest = 0, dims
    for k in range(dims):
        d = space.outer[lv, k]
        if d >= 0 and temporal[lv, d] > 1:
            order[lv, at] = d
            at += 1
    start = at
    for d in range(dims):
        if temporal[lv, d] == 1:
            rest -= 1
            order[lv, rest] = d
        elif space.free_place[lv, d]:
            order[lv, at] = d
            at += 1
    loops = at - start
    for k in range(dims):
        d = space.inner[lv, k]
        if d >= 0 and temporal[lv, d] > 1:
            order[lv, at] = d
            at += 1
    return start, loops


@jit
def draw_many(space: SpaceArrays, key: np.uint64, first: int, batch: Batch) -> None:
    """Draw the mappings numbered from `first` on into a batch."""
    for b in range(batch.temporal.shape[0]):
        draw(space, key, first + b, batch, b)
