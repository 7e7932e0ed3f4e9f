"""Closed formulas for a batch of mappings, compiled.

Axis letters: B = mappings of a batch, L = storage levels (outermost first), D = dimensions, T = tensors, R = ranks of a tensor.
The counts are those of MODEL.md section 4; docs/model.md derives the formulas, tests/test_kernel.py holds them against the oracle.
Counts are int64 and `encode` has proved that they fit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from accelsim.model.encode import UNLIMITED, Batch, Bools, Constants, Encoded, Floats, Ints

VALID, FANOUT_X, FANOUT_Y, CAPACITY, PARTITION = range(5)
READ, WRITE, UPDATE, TRANSFER = range(4)


class Detail(NamedTuple):
    """All that the model knows of one mapping; scratch space for a batch.

    inside : int64[L+1, D], tile sizes of the dimensions at each level (last: compute); before : int64[L+1, D], product of all
    temporal bounds outside the loop at that place of the order, [L, 0]: of all; spread : int64[L, D], spatial bounds;
    tile : int64[L, T] [words]; into : int64[L+1, T], words into a tile; reads, fills, updates : int64[L, T] [words an instance];
    groups : int64[L, T, 2], children of a network whose words are distinct, downwards and upwards;
    transfers : int64[L, T], words over the network below for each child; partial : bool[L, T], the level holds partial sums;
    used : int64[L+1], instances in use; cycles : int64[L+1]; energy : float64[L, T, 4] [pJ, all instances]; leak : float64[L];
    reach : bool[W], marks for unions of windows.
    """

    inside: Ints
    before: Ints
    spread: Ints
    tile: Ints
    into: Ints
    reads: Ints
    fills: Ints
    updates: Ints
    groups: Ints
    transfers: Ints
    partial: Bools
    used: Ints
    cycles: Ints
    energy: Floats
    leak: Floats
    reach: Bools


def make_detail(encoded: Encoded) -> Detail:
    """Arrays for one mapping, of the right shapes."""
    constants = encoded.constants
    levels, dims, tensors = len(constants.fanout), len(constants.bounds), len(constants.ranks)
    extents = 1 + (constants.coefficient * (constants.bounds - 1)).sum(axis=2)
    crowded = (constants.coefficient * (constants.bounds > 1) > 0).sum(axis=2) > 2
    crowded[constants.output[0]] |= constants.windowed[constants.output[0]]
    reach = int(extents[crowded].max(initial=1)) + 1
    return Detail(
        inside=np.ones((levels + 1, dims), np.int64),
        before=np.ones((levels + 1, dims), np.int64),
        spread=np.ones((levels, dims), np.int64),
        tile=np.zeros((levels, tensors), np.int64),
        into=np.zeros((levels + 1, tensors), np.int64),
        reads=np.zeros((levels, tensors), np.int64),
        fills=np.zeros((levels, tensors), np.int64),
        updates=np.zeros((levels, tensors), np.int64),
        groups=np.ones((levels, tensors, 2), np.int64),
        transfers=np.zeros((levels, tensors), np.int64),
        partial=np.zeros((levels, tensors), np.bool_),
        used=np.ones(levels + 1, np.int64),
        cycles=np.zeros(levels + 1, np.int64),
        energy=np.zeros((levels, tensors, 4), np.float64),
        leak=np.zeros(levels, np.float64),
        reach=np.zeros(reach, np.bool_),
    )


def _jit(function: Any) -> Any:
    return njit(cache=True, error_model="numpy", nogil=True)(function)


@_jit
def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


@_jit
def _box(c: Constants, inside: Ints, level: int, t: int, skip: int) -> int:
    """Words in the box of a tile, over all ranks but `skip` (-1: over all)."""
    words = 1
    for r in range(c.ranks[t]):
        if r != skip:
            extent = 1
            for d in range(inside.shape[1]):
                extent += c.coefficient[t, r, d] * (inside[level, d] - 1)
            words *= extent
    return words


@_jit
def _mark_sum(reach: Bools, extent: int, step: int, count: int) -> int:
    """Mark all positions that some marked position reaches in 0 … count-1 steps; returns the extent of what is marked."""
    new = extent + step * (count - 1)
    for at in range(extent, new):
        reach[at] = False
    for at in range(new - 1, -1, -1):
        for k in range(1, count):
            back = at - k * step
            if back < 0:
                break
            if back < extent and reach[back]:
                reach[at] = True
                break
    return new


@_jit
def _distinct(c: Constants, inside: Ints, x: Ints, y: Ints, level: int, t: int, shares_x: bool, shares_y: bool, reach: Bools) -> int:
    """Children of one instance that need words of their own: distinct tile offsets among those that may share.

    Two progressions of counts n, m and steps a, b have n*m - max(0, n - b/g) * max(0, m - a/g) distinct sums, g = gcd(a, b): sums
    collide exactly along (b/g, -a/g), and each chain of collisions is counted at its start.
    """
    groups = 1
    for d in range(inside.shape[1]):
        if not shares_x:
            groups *= x[level, d]
        if not shares_y:
            groups *= y[level, d]
    if not (shares_x or shares_y):
        return groups
    if not c.windowed[t]:
        for d in range(inside.shape[1]):
            if c.rank_of[t, d] >= 0:
                if shares_x:
                    groups *= x[level, d]
                if shares_y:
                    groups *= y[level, d]
        return groups
    for r in range(c.ranks[t]):
        found, n, m, a, b = 0, 1, 1, 1, 1
        for d in range(inside.shape[1]):
            if c.coefficient[t, r, d] == 0:
                continue
            count, step = 1, c.coefficient[t, r, d] * inside[level + 1, d]
            if shares_x:
                count *= x[level, d]
                if not shares_y:
                    step *= y[level, d]
            if shares_y:
                count *= y[level, d]
            if count > 1:
                found += 1
                if found == 1:
                    n, a = count, step
                else:
                    m, b = count, step
        if found <= 1:
            groups *= n
        elif found == 2:
            g, rest = a, b
            while rest:
                g, rest = rest, g % rest
            groups *= n * m - max(0, n - b // g) * max(0, m - a // g)
        else:
            reach[0] = True
            extent = 1
            for d in range(inside.shape[1]):
                if c.coefficient[t, r, d] == 0:
                    continue
                count, step = 1, c.coefficient[t, r, d] * inside[level + 1, d]
                if shares_x:
                    count *= x[level, d]
                    if not shares_y:
                        step *= y[level, d]
                if shares_y:
                    count *= y[level, d]
                extent = _mark_sum(reach, extent, step, count)
            marked = 0
            for at in range(extent):
                marked += reach[at]
            groups *= marked
    return groups


@_jit
def _words_into(c: Constants, temporal: Ints, order: Ints, s: Detail, level: int, t: int) -> int:
    """Words that enter one instance's tile over the whole run: the first box, whole boxes, and new parts where a halo is kept.

    Only the innermost loop that moves the tile, k, can keep a halo, because the step vector of any loop further out differs from the
    remembered one, except where loops on the same rank happen to continue k's steps (same vector) or to leave the box in place.
    """
    words = _box(c, s.inside, level, t, -1)
    dims = order.shape[1]
    for at in range(level * dims - 1, -1, -1):
        l, j = at // dims, at % dims
        d = order[l, j]
        bound = temporal[l, d]
        if bound == 1 or c.rank_of[t, d] < 0:
            continue
        if not c.windowed[t]:
            return words * s.before[l, j] * bound
        r = c.rank_of[t, d]
        others = _box(c, s.inside, level, t, r)
        step = c.coefficient[t, r, d] * s.inside[l + 1, d] * s.spread[l, d]
        new = min(words, others * step)
        total = s.before[l, j] * (words + (bound - 1) * new)
        back = (bound - 1) * step
        for out in range(at - 1, -1, -1):
            l, j = out // dims, out % dims
            d = order[l, j]
            bound = temporal[l, d]
            if bound == 1 or c.rank_of[t, d] < 0:
                continue
            if c.rank_of[t, d] != r:
                break
            far = c.coefficient[t, r, d] * s.inside[l + 1, d] * s.spread[l, d]
            if far == back:
                total -= (bound - 1) * s.before[l, j] * words
            elif far - back == step:
                total -= (bound - 1) * s.before[l, j] * (words - new)
            back += (bound - 1) * far
        return total
    return words


@_jit
def _seen(c: Constants, temporal: Ints, s: Detail, level: int, above: int, t: int) -> int:
    """Different words that ever pass through one instance of level `above` in tiles of level `level` (equal: its own tile)."""
    words = 1
    for r in range(c.ranks[t]):
        extent, count, terms = 1, 1, 0
        for d in range(temporal.shape[1]):
            if c.coefficient[t, r, d] == 0:
                continue
            extent += c.coefficient[t, r, d] * (s.inside[level, d] - 1)
            terms += c.bounds[d] > 1
            for l in range(level):
                count *= temporal[l, d]
                if l >= above:
                    count *= s.spread[l, d]
        if terms <= 1:
            words *= extent * count
            continue
        for at in range(extent):
            s.reach[at] = True
        for d in range(temporal.shape[1]):
            if c.coefficient[t, r, d] == 0:
                continue
            for l in range(level):
                step = c.coefficient[t, r, d] * s.inside[l + 1, d]
                if l >= above:
                    extent = _mark_sum(s.reach, extent, step, s.spread[l, d])
                extent = _mark_sum(s.reach, extent, step * s.spread[l, d], temporal[l, d])
        marked = 0
        for at in range(extent):
            marked += s.reach[at]
        words *= marked
    return words


@_jit
def _place(temporal: Ints, order: Ints, x: Ints, y: Ints, s: Detail) -> None:
    """Tile sizes, instances in use and temporal products, outermost and innermost first."""
    levels, dims = temporal.shape
    product = 1
    for l in range(levels):
        used = s.used[l]
        for j in range(dims):
            s.before[l, j] = product
            product *= temporal[l, order[l, j]]
            s.spread[l, j] = x[l, j] * y[l, j]
            used *= s.spread[l, j]
        s.used[l + 1] = used
    s.before[levels, 0] = product
    for l in range(levels - 1, -1, -1):
        for d in range(dims):
            s.inside[l, d] = s.inside[l + 1, d] * s.spread[l, d] * temporal[l, d]


@_jit
def _fanout(c: Constants, x: Ints, y: Ints) -> int:
    """Status: whether the spatial bounds fit the fanouts."""
    for l in range(x.shape[0]):
        across, down = 1, 1
        for d in range(x.shape[1]):
            across *= x[l, d]
            down *= y[l, d]
        if across > c.fanout[l, 0]:
            return FANOUT_X + 8 * l
        if down > c.fanout[l, 1]:
            return FANOUT_Y + 8 * l
    return VALID


@_jit
def _capacity(c: Constants, keep: Bools, s: Detail) -> int:
    """Status: whether the tiles that each level keeps fit, with partial sums at their own width where `partial` says so."""
    for l in range(keep.shape[0]):
        held = 0
        for t in range(keep.shape[1]):
            if keep[l, t]:
                held += s.tile[l, t] * c.word_parts[l, t, int(s.partial[l, t])]
        if c.capacity[l] != UNLIMITED and held > c.capacity[l]:
            return CAPACITY + 8 * l
        for role in range(c.partition.shape[1]):
            if c.partition[l, role] == UNLIMITED:
                continue
            held = 0
            for t in range(keep.shape[1]):
                if keep[l, t] and c.role[t] == role:
                    held += s.tile[l, t] * c.word_parts[l, t, int(s.partial[l, t])]
            if held > c.partition[l, role]:
                return PARTITION + 8 * l
    return VALID


@_jit
def _move_tensor(c: Constants, temporal: Ints, order: Ints, x: Ints, y: Ints, keep: Bools, s: Detail, t: int) -> None:
    """Reads, fills, updates and transfers of one tensor, from the compute units outwards."""
    levels = temporal.shape[0]
    child = levels
    s.into[levels, t] = s.before[levels, 0]
    down = s.into[levels, t]
    up = 0
    if t == c.output[0]:
        up = down
        down -= _seen(c, temporal, s, levels, levels, t)
    for l in range(levels - 1, -1, -1):
        s.transfers[l, t] = down + up
        gathers = x.shape[0] and s.used[l + 1] > s.used[l]
        if gathers:
            s.groups[l, t, 0] = _distinct(c, s.inside, x, y, l, t, c.multicast[l, 0], c.multicast[l, 1], s.reach)
            s.groups[l, t, 1] = (
                _distinct(c, s.inside, x, y, l, t, c.reduction[l, 0], c.reduction[l, 1], s.reach) if t == c.output[0] else 1
            )
        else:
            s.groups[l, t, 0] = 1
            s.groups[l, t, 1] = 1
        down *= s.groups[l, t, 0]
        up *= s.groups[l, t, 1]
        s.reads[l, t] = 0
        s.fills[l, t] = 0
        s.updates[l, t] = 0
        s.partial[l, t] = False
        if not keep[l, t]:
            continue
        if t == c.output[0]:
            s.updates[l, t] = up
            s.reads[l, t] = up - _seen(c, temporal, s, child, l, t)
            s.partial[l, t] = s.reads[l, t] > 0
        else:
            s.reads[l, t] = down
        child = l
        if l == 0:
            break
        s.into[l, t] = _words_into(c, temporal, order, s, l, t)
        down = s.into[l, t]
        if t == c.output[0]:
            up = down
            down -= _seen(c, temporal, s, l, l, t)
            if c.drain[l]:
                s.reads[l, t] += up
        s.fills[l, t] = down


@_jit
def _charge(c: Constants, keep: Bools, s: Detail) -> tuple[float, int]:
    """Energy [pJ] and cycles from the counts."""
    levels, tensors = keep.shape
    steps = s.before[levels, 0]
    cycles = steps * c.mac_cycles[0]
    s.cycles[levels] = cycles
    energy = steps * s.used[levels] * c.mac[0]
    for l in range(levels):
        used = s.used[l]
        read, written = 0, 0
        for t in range(tensors):
            s.energy[l, t, TRANSFER] = float(s.transfers[l, t]) * float(s.used[l + 1]) * c.energy[l, t, TRANSFER]
            energy += s.energy[l, t, TRANSFER]
            s.energy[l, t, READ] = 0.0
            s.energy[l, t, WRITE] = 0.0
            s.energy[l, t, UPDATE] = 0.0
            if not keep[l, t]:
                continue
            part = c.word_parts[l, t, int(s.partial[l, t])]
            read += s.reads[l, t] * part
            written += (s.fills[l, t] + s.updates[l, t]) * part
            s.energy[l, t, READ] = float(_ceil_div(s.reads[l, t] * part, c.block[l]) * used) * c.energy[l, t, READ]
            s.energy[l, t, WRITE] = float(_ceil_div(s.fills[l, t] * part, c.block[l]) * used) * c.energy[l, t, WRITE]
            s.energy[l, t, UPDATE] = float(_ceil_div(s.updates[l, t] * part, c.block[l]) * used) * c.energy[l, t, UPDATE]
            energy += s.energy[l, t, READ] + s.energy[l, t, WRITE] + s.energy[l, t, UPDATE]
        s.cycles[l] = 0
        for port in range(3):
            if c.bandwidth[l, port, 0] > 0:
                words = read + written if port == 0 else (read if port == 1 else written)
                s.cycles[l] = max(s.cycles[l], _ceil_div(words * c.bandwidth[l, port, 1], c.bandwidth[l, port, 0]))
        cycles = max(cycles, s.cycles[l])
    for l in range(levels):
        s.leak[l] = c.leak[l] * float(cycles) * float(s.used[l])
        energy += s.leak[l]
    return energy, cycles


@_jit
def evaluate_one(
    c: Constants, temporal: Ints, order: Ints, x: Ints, y: Ints, keep: Bools, s: Detail, anyway: bool
) -> tuple[int, float, int]:
    """Evaluate one mapping into `s`.

    Parameters
    ----------
    temporal, order, x, y : int64[L, D]
    keep : bool[L, T]
    anyway : bool
        Count an invalid mapping as well.

    Returns
    -------
    status : int
        VALID, or the broken rule + 8 x level.
    energy_pj : float
    cycles : int
    """
    status = _fanout(c, x, y)
    if status != VALID and not anyway:
        return status, np.inf, 0
    _place(temporal, order, x, y, s)
    for l in range(keep.shape[0]):
        for t in range(keep.shape[1]):
            s.partial[l, t] = False
            s.tile[l, t] = _box(c, s.inside, l, t, -1) if keep[l, t] else 0
    if status == VALID:
        status = _capacity(c, keep, s)
    if status != VALID and not anyway:
        return status, np.inf, 0
    for t in range(keep.shape[1]):
        _move_tensor(c, temporal, order, x, y, keep, s, t)
    if status == VALID:
        status = _capacity(c, keep, s)
    energy, cycles = _charge(c, keep, s)
    return status, energy, cycles


@_jit
def evaluate_many(c: Constants, batch: Batch, s: Detail, status: Ints, energy: Floats, cycles: Ints) -> None:
    """Evaluate a batch; energy is infinite where a mapping is invalid.

    Parameters
    ----------
    status, cycles : int64[B]
    energy : float64[B]
    """
    for b in range(batch.temporal.shape[0]):
        status[b], energy[b], cycles[b] = evaluate_one(
            c, batch.temporal[b], batch.order[b], batch.x[b], batch.y[b], batch.keep[b], s, False
        )
        if status[b] != VALID:
            energy[b] = np.inf
