"""Closed formulas for a batch of mappings, compiled.

Axis letters: B = mappings of a batch, L = storage levels (outermost first), D = dimensions, T = tensors.
The counts are those of MODEL.md section 4; docs/model.md derives the formulas, tests/test_kernel.py holds them against
the oracle. Counts are int64 and `encode` has proved that they fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.model.encode import UNLIMITED, Batch, Bools, Constants, Encoded, Floats, Ints
from accelsim.model.jit import inline, jit, merge
from accelsim.model.windows import distinct_windows, seen_windows, words_into_window

VALID, FANOUT_X, FANOUT_Y, CAPACITY, PARTITION, UTILIZATION = range(6)
RULES = 8
"""A status is a rule + RULES x the level that breaks it."""
READ, WRITE, UPDATE, TRANSFER = range(4)


class Detail(NamedTuple):
    """All that the model knows of one mapping; scratch space for a batch.

    inside : int64[L+1, D], tile sizes of the dimensions at each level (last: compute); before : int64[L, D], product of
    all temporal bounds outside a place of the order; spread : int64[L, D], spatial bounds; steps : int64[L+1], product
    of all temporal bounds of the levels outside (last: of all); loops : int64[L], temporal loops of bound > 1 of each
    level; visits : int64[L+1], product of the temporal bounds outside that move the output; tile : int64[L, T] [words];
    reads, fills, updates : int64[L, T] [words an instance]; read, written : int64[L] [storage words an instance],
    summed over tensors; groups : int64[L, T, 2], children of a network whose words are distinct, downwards and upwards;
    transfers : int64[L, T], words over the network below for each child; partial : bool[L, T], the level holds partial
    sums; used : int64[L+1], instances in use; parts_apart : int64[L+1], how many of them hold parts of one sum; cycles
    : int64[L]; energy : float64[L, T, 4] [pJ, all instances]; leak : float64[L]; reach : bool[W], marks for unions of
    windows.
    """

    inside: Ints
    before: Ints
    spread: Ints
    steps: Ints
    loops: Ints
    visits: Ints
    tile: Ints
    reads: Ints
    fills: Ints
    updates: Ints
    read: Ints
    written: Ints
    groups: Ints
    transfers: Ints
    partial: Bools
    used: Ints
    parts_apart: Ints
    cycles: Ints
    energy: Floats
    leak: Floats
    reach: Bools


def make_detail(encoded: Encoded) -> Detail:
    """Arrays for one mapping, of the right shapes."""
    c = encoded.constants
    levels, (tensors, dims) = len(c.fanout), c.relevant.shape
    reach = 1
    for t in range(tensors):
        for r in set(c.rank[t][c.relevant[t]].tolist()):
            along = c.relevant[t] & (c.rank[t] == r)
            if along.sum() > 2 or (along.sum() > 1 and t == c.output[0]):
                reach = max(reach, 1 + int((c.factor[t] * (c.bounds - 1))[along].sum()))
    return Detail(
        inside=np.ones((levels + 1, dims), np.int64),
        before=np.ones((levels, dims), np.int64),
        spread=np.ones((levels, dims), np.int64),
        steps=np.ones(levels + 1, np.int64),
        loops=np.zeros(levels, np.int64),
        visits=np.ones(levels + 1, np.int64),
        tile=np.zeros((levels, tensors), np.int64),
        reads=np.zeros((levels, tensors), np.int64),
        fills=np.zeros((levels, tensors), np.int64),
        updates=np.zeros((levels, tensors), np.int64),
        read=np.zeros(levels, np.int64),
        written=np.zeros(levels, np.int64),
        groups=np.ones((levels, tensors, 2), np.int64),
        transfers=np.zeros((levels, tensors), np.int64),
        partial=np.zeros((levels, tensors), np.bool_),
        used=np.ones(levels + 1, np.int64),
        parts_apart=np.ones(levels + 1, np.int64),
        cycles=np.zeros(levels, np.int64),
        energy=np.zeros((levels, tensors, 4), np.float64),
        leak=np.zeros(levels, np.float64),
        reach=np.zeros(reach + 1, np.bool_),
    )


@inline
def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


@merge
def _box(c: Constants, inside: Ints, level: int, t: int) -> int:
    """Words in the box of a tile."""
    words, extent = 1, 1
    for k in range(c.terms[t]):
        if c.term_opens[t, k]:
            words *= extent
            extent = 1
        extent += c.term_factor[t, k] * (inside[level, c.term[t, k]] - 1)
    return words * extent


@inline
def _distinct(c: Constants, s: Detail, x: Ints, y: Ints, level: int, t: int, shares_x: bool, shares_y: bool) -> int:
    """Children of one instance that need words of their own: distinct offsets on axes that share, all on others."""
    groups = 1
    windowed = c.windowed[t]
    for d in range(c.relevant.shape[1]):
        counts = c.relevant[t, d] and not windowed
        if counts or not shares_x:
            groups *= x[level, d]
        if counts or not shares_y:
            groups *= y[level, d]
    if windowed and (shares_x or shares_y):
        groups *= distinct_windows(c, s, x, y, level, t, shares_x, shares_y)
    return groups


@merge
def fit(c: Constants, temporal: Ints, x: Ints, y: Ints, keep: Bools, s: Detail, anyway: bool) -> int:
    """Place the tiles and tell whether they fit; nothing here depends on the order of loops.

    Returns
    -------
    int
        VALID, or the first broken rule + RULES x its level: fanouts from the outside in, then capacities from the
        inside out. Partial sums are taken to be as narrow as finished words; `cost` looks again where they are wider.
        With `anyway` all is placed even so.
    """
    levels, dims = temporal.shape
    status = VALID
    for lv in range(levels):
        across, down = 1, 1
        for d in range(dims):
            across *= x[lv, d]
            down *= y[lv, d]
            s.spread[lv, d] = x[lv, d] * y[lv, d]
        s.used[lv + 1] = s.used[lv] * across * down
        s.parts_apart[lv + 1] = s.parts_apart[lv]
        if (anyway or c.two_widths[0]) and across * down > 1:
            for d in range(dims):
                s.parts_apart[lv + 1] *= s.spread[lv, d] if c.reduces[d] else 1
        if status == VALID and across > c.fanout[lv, 0]:
            status = FANOUT_X + RULES * lv
        if status == VALID and down > c.fanout[lv, 1]:
            status = FANOUT_Y + RULES * lv
        if status != VALID and not anyway:
            return status
    for lv in range(levels - 1, -1, -1):
        for d in range(dims):
            s.inside[lv, d] = s.inside[lv + 1, d] * s.spread[lv, d] * temporal[lv, d]
        held = 0
        for t in range(keep.shape[1]):
            s.partial[lv, t] = False
            if keep[lv, t]:
                s.tile[lv, t] = _box(c, s.inside, lv, t) if lv > 0 else c.whole[t]
                held += s.tile[lv, t] * c.word_parts[lv, t, 0]
        if status == VALID and held > c.capacity[lv] and c.capacity[lv] != UNLIMITED:
            status = CAPACITY + RULES * lv
        if status == VALID and c.partitioned[lv]:
            status = _fit_partitions(c, keep, s, lv)
        if status != VALID and not anyway:
            return status
    return status


@jit
def _fit_partitions(c: Constants, keep: Bools, s: Detail, lv: int) -> int:
    for role in range(c.partition.shape[1]):
        held = 0
        for t in range(keep.shape[1]):
            if keep[lv, t] and c.role[t] == role:
                held += s.tile[lv, t] * c.word_parts[lv, t, int(s.partial[lv, t])]
        if held > c.partition[lv, role]:
            return PARTITION + RULES * lv
    return VALID


@jit
def _fit_partial_sums(c: Constants, keep: Bools, s: Detail) -> int:
    """Status once it is known which levels hold partial sums."""
    for lv in range(keep.shape[0]):
        held = 0
        for t in range(keep.shape[1]):
            if keep[lv, t]:
                held += s.tile[lv, t] * c.word_parts[lv, t, int(s.partial[lv, t])]
        if held > c.capacity[lv] and c.capacity[lv] != UNLIMITED:
            return CAPACITY + RULES * lv
        if c.partitioned[lv]:
            status = _fit_partitions(c, keep, s, lv)
            if status != VALID:
                return status
    return VALID


@merge
def _walk_loops(c: Constants, temporal: Ints, order: Ints, s: Detail) -> None:
    """Multiply up the temporal loops from the outside in: all of them, and those that move the output."""
    levels, dims = temporal.shape
    output = c.output[0]
    product, visits = 1, 1
    for lv in range(levels):
        loops = 0
        for j in range(dims):
            d = order[lv, j]
            bound = temporal[lv, d]
            if bound == 1:
                break
            s.before[lv, j] = product
            loops += 1
            product *= bound
            visits *= bound if c.relevant[output, d] else 1
        s.loops[lv] = loops
        s.read[lv] = 0
        s.written[lv] = 0
        s.steps[lv + 1] = product
        s.visits[lv + 1] = visits


@inline
def _words_into(c: Constants, temporal: Ints, order: Ints, s: Detail, level: int, t: int) -> int:
    """Words that enter one instance's tile: one tile a step of the loops down to the innermost that moves it."""
    for lv in range(level - 1, -1, -1):
        for j in range(s.loops[lv] - 1, -1, -1):
            d = order[lv, j]
            if c.relevant[t, d]:
                if c.windowed[t]:
                    return words_into_window(c, temporal, order, s, level, t, lv, j)
                return s.tile[level, t] * s.before[lv, j] * temporal[lv, d]
    return s.tile[level, t]


@merge
def _account(
    c: Constants, s: Detail, lv: int, t: int, reads: int, fills: int, updates: int, partial: bool, every: bool
) -> float:
    """Enter the counts of a tensor at a level that keeps it; returns their energy [pJ]."""
    s.reads[lv, t], s.fills[lv, t], s.updates[lv, t] = reads, fills, updates
    part = c.word_parts[lv, t, int(partial)]
    if part != 1:
        reads, fills, updates = reads * part, fills * part, updates * part
    s.read[lv] += reads
    s.written[lv] += fills + updates
    block = c.block[lv]
    if block != 1:
        shift = c.block_shift[lv]
        if shift >= 0:
            reads, fills, updates = -(-reads >> shift), -(-fills >> shift), -(-updates >> shift)
        else:
            reads, fills, updates = _ceil_div(reads, block), _ceil_div(fills, block), _ceil_div(updates, block)
    used = float(s.used[lv])
    read_pj = float(reads) * used * c.energy[lv, t, READ]
    write_pj = float(fills) * used * c.energy[lv, t, WRITE]
    update_pj = float(updates) * used * c.energy[lv, t, UPDATE]
    if every:
        s.energy[lv, t, READ], s.energy[lv, t, WRITE], s.energy[lv, t, UPDATE] = read_pj, write_pj, update_pj
    return read_pj + write_pj + update_pj


@merge
def _account_transfers(c: Constants, s: Detail, lv: int, t: int, words: int, every: bool) -> float:
    """Enter what crosses the network below a level for each child; returns its energy [pJ]."""
    s.transfers[lv, t] = words
    if not c.transfers[lv]:
        return 0.0
    energy = float(words) * float(s.used[lv + 1]) * c.energy[lv, t, TRANSFER]
    if every:
        s.energy[lv, t, TRANSFER] = energy
    return energy


@merge
def _move_input(
    c: Constants, temporal: Ints, order: Ints, x: Ints, y: Ints, keep: Bools, s: Detail, t: int, every: bool
) -> float:
    """Reads, fills and transfers of a tensor that is only read, from the compute units outwards; their energy [pJ]."""
    energy = 0.0
    down = int(s.steps[temporal.shape[0]])
    for lv in range(temporal.shape[0] - 1, -1, -1):
        energy += _account_transfers(c, s, lv, t, down, every)
        s.groups[lv, t, 0] = 1
        if s.used[lv + 1] > s.used[lv]:
            s.groups[lv, t, 0] = _distinct(c, s, x, y, lv, t, c.multicast[lv, 0], c.multicast[lv, 1])
            down *= s.groups[lv, t, 0]
        if keep[lv, t]:
            reads = down
            down = 0
            if lv > 0:
                down = _words_into(c, temporal, order, s, lv, t)
            energy += _account(c, s, lv, t, reads, down, 0, False, every)
    return energy


@merge
def _move_output(
    c: Constants, temporal: Ints, order: Ints, x: Ints, y: Ints, keep: Bools, s: Detail, every: bool
) -> float:
    """Updates, reads, fills and transfers of the output, from the compute units outwards; their energy [pJ].

    `seen` counts the different words that a tile ever holds: its words times the loops that move it. Seen from above,
    the spatial loops between come on top.
    """
    t = c.output[0]
    levels, dims = temporal.shape
    windowed = c.windowed[t]
    energy = 0.0
    child = levels
    up = s.steps[levels]
    seen = seen_windows(c, temporal, s, levels, levels, t) if windowed else s.visits[levels]
    down = up - seen
    for lv in range(levels - 1, -1, -1):
        energy += _account_transfers(c, s, lv, t, down + up, every)
        s.groups[lv, t, 0] = 1
        s.groups[lv, t, 1] = 1
        if s.used[lv + 1] > s.used[lv]:
            s.groups[lv, t, 0] = _distinct(c, s, x, y, lv, t, c.multicast[lv, 0], c.multicast[lv, 1])
            s.groups[lv, t, 1] = _distinct(c, s, x, y, lv, t, c.reduction[lv, 0], c.reduction[lv, 1])
            down *= s.groups[lv, t, 0]
            up *= s.groups[lv, t, 1]
            for d in range(dims):
                seen *= s.spread[lv, d] if c.relevant[t, d] else 1
        if not keep[lv, t]:
            continue
        if windowed:
            seen = seen_windows(c, temporal, s, child, lv, t)
        child = lv
        updates, reads, fills = up, up - seen, 0
        s.partial[lv, t] = reads > 0 or s.parts_apart[lv] > 1
        if lv > 0:
            up = _words_into(c, temporal, order, s, lv, t)
            seen = seen_windows(c, temporal, s, lv, lv, t) if windowed else s.tile[lv, t] * s.visits[lv]
            fills = down = up - seen
            if c.drain[lv]:
                reads += up
        energy += _account(c, s, lv, t, reads, fills, updates, s.partial[lv, t], every)
    return energy


@merge
def _port_cycles(c: Constants, lv: int, read: int, written: int, cycles: int, every: bool) -> int:
    """Cycles that the busiest port of a level needs; 0 if that is not more than `cycles` and not asked for."""
    needed = 0
    for port in range(3):
        words, rate = (read + written, read, written)[port], c.bandwidth[lv, port, 0]
        if rate > 0:
            least = float(words) * float(c.bandwidth[lv, port, 1])
            if every or least > 0.999 * float(cycles) * float(rate):  # spares the division where it cannot matter
                needed = max(needed, _ceil_div(words * c.bandwidth[lv, port, 1], rate))
    return needed


@merge
def cost(
    c: Constants, temporal: Ints, order: Ints, x: Ints, y: Ints, keep: Bools, s: Detail, every: bool
) -> tuple[int, float, int]:
    """Count and charge a mapping whose tiles `fit` has placed; `every`: keep what `Detail` holds beyond the counts.

    Returns
    -------
    status : int
        VALID unless partial sums, now that it is known where they are, do not fit.
    energy_pj : float
    cycles : int
    """
    levels = temporal.shape[0]
    _walk_loops(c, temporal, order, s)
    energy = float(s.steps[levels] * s.used[levels]) * c.mac[0]
    for t in range(keep.shape[1]):
        if t != c.output[0]:
            energy += _move_input(c, temporal, order, x, y, keep, s, t, every)
    energy += _move_output(c, temporal, order, x, y, keep, s, every)
    cycles = s.steps[levels] * c.mac_cycles[0]
    for lv in range(levels):
        if c.limited[lv]:
            needed = _port_cycles(c, lv, s.read[lv], s.written[lv], cycles, every)
            cycles = max(cycles, needed)
            s.cycles[lv] = needed
    for lv in range(levels):
        leak = c.leak[lv] * float(cycles) * float(s.used[lv])
        energy += leak
        if every:
            s.leak[lv] = leak
    return _fit_partial_sums(c, keep, s) if c.two_widths[0] else VALID, energy, cycles


@merge
def evaluate_one(
    c: Constants, temporal: Ints, order: Ints, x: Ints, y: Ints, keep: Bools, s: Detail, anyway: bool
) -> tuple[int, float, int]:
    """Evaluate one mapping into `s`.

    Parameters
    ----------
    temporal, order, x, y : int64[L, D]
    keep : bool[L, T]
    anyway : bool
        Count an invalid mapping as well, and keep each energy and the cycles of each level.

    Returns
    -------
    status : int
        VALID, or the broken rule + RULES x level.
    energy_pj : float
    cycles : int
    """
    status = fit(c, temporal, x, y, keep, s, anyway)
    if status != VALID and not anyway:
        return status, np.inf, 0
    late, energy, cycles = cost(c, temporal, order, x, y, keep, s, anyway)
    return status if status != VALID else late, energy, cycles


@jit
def evaluate_many(
    c: Constants, batch: Batch, s: Detail, anyway: bool, status: Ints, energy: Floats, cycles: Ints
) -> None:
    """Evaluate a batch.

    Parameters
    ----------
    anyway : bool
        As for `evaluate_one`; `s` then holds everything of the last mapping.
    status, cycles : int64[B]
        Written.
    energy : float64[B]
        Written [pJ]; infinite where a mapping is invalid, unless it is counted anyway.
    """
    for b in range(batch.temporal.shape[0]):
        status[b], energy[b], cycles[b] = evaluate_one(
            c, batch.temporal[b], batch.order[b], batch.x[b], batch.y[b], batch.keep[b], s, anyway
        )
        if status[b] != VALID and not anyway:
            energy[b] = np.inf
