"""Closed formulas for a batch of mappings, compiled.

Axis letters: B = mappings of a batch, L = storage levels (outermost first), D = dimensions, T = tensors.
docs/papers/cost-model.md derives the counts, one section for each kind; tests/test_kernel.py compares them with
the oracle. Counts are int64 and `encode` has proved that they fit.
"""

from __future__ import annotations

import numpy as np

from accelsim.model.detail import (
    BEFORE,
    CYCLES,
    DOWN,
    FILLS,
    INSIDE,
    LEAVING,
    LINKED,
    LOOPS,
    PARTIAL,
    PARTS_APART,
    PASSING,
    READ,
    READS,
    SPREAD,
    STEPS,
    TILE,
    TRANSFERS,
    TRIPS,
    UP,
    UPDATES,
    USED,
    VISITS,
    WRITTEN,
    Detail,
)
from accelsim.model.dma import count_moves, with_engines
from accelsim.model.encode import (
    ALL_OVERLAP,
    BY_READ,
    BY_RETURN,
    BY_TRANSFER,
    BY_UPDATE,
    BY_WRITE,
    NETWORK,
    ON_X,
    ON_Y,
    PE,
    TILE_WORDS,
    TIME,
    UNLIMITED,
    Batch,
    Constants,
)
from accelsim.model.fills import waiting_cycles
from accelsim.model.jit import inline, jit
from accelsim.model.links import link_transfers, mesh_energy, spare_links
from accelsim.model.ports import network_cycles, passing_units, port_cycles
from accelsim.model.records import Floats1, Ints1
from accelsim.model.systolic import held_cycles
from accelsim.model.windows import distinct, seen_windows, tiles_into, words_into

VALID, FANOUT_X, FANOUT_Y, CAPACITY, PARTITION, UTILIZATION, ASKED = range(7)
RULES = 8
"""A status is a rule + RULES x the level that breaks it."""


@inline
def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


@inline
def box_words(c: Constants, s: Detail, level: int, t: int) -> int:
    """Words in the box of a tile."""
    words, extent = 1, 1
    for k in range(c.terms[t]):
        if c.term_opens[t, k]:
            words *= extent
            extent = 1
        extent += c.term_factor[t, k] * (s.place[level, c.term[t, k], INSIDE] - 1)
    return words * extent


@inline
def asked_value(c: Constants, r: int, m: Batch, i: int, s: Detail) -> int:
    """The product of a row of `Constants.asked` in a mapping whose tiles are placed; 0 if nothing is asked of it."""
    temporal, x, y, keep = m.temporal[i], m.x[i], m.y[i], m.keep[i]
    lv, kind, product = c.asked[r, 0], c.asked[r, 1], 1
    if kind == TILE_WORDS:
        return s.at[lv, c.asked[r, 4], TILE] if keep[lv, c.asked[r, 4]] else 0
    for d in range(c.bounds.shape[0]):
        if c.asked[r, 4 + d]:
            if kind == TIME:
                product *= temporal[lv, d]
            elif kind == ON_X:
                product *= x[lv, d]
            elif kind == ON_Y:
                product *= y[lv, d]
            else:
                product *= s.place[lv, d, INSIDE]
    return product


@jit
def fit(c: Constants, m: Batch, i: int, s: Detail, anyway: bool) -> int:
    """Place the tiles and tell whether they fit; nothing here depends on the order of loops.

    Returns
    -------
    int
        VALID, or the first broken rule + RULES x its level: fanouts from the outside in, then capacities from the
        inside out. Partial sums are taken to be as narrow as finished words; `cost` looks again where they are wider.
        With `anyway` all is placed even so.
    """
    temporal, x, y, keep = m.temporal[i], m.x[i], m.y[i], m.keep[i]
    levels, dims = temporal.shape
    status = VALID
    for lv in range(levels):
        across, down = 1, 1
        for d in range(dims):
            across *= x[lv, d]
            down *= y[lv, d]
            s.place[lv, d, SPREAD] = x[lv, d] * y[lv, d]
        s.level[lv + 1, USED] = s.level[lv, USED] * across * down
        s.level[lv + 1, PARTS_APART] = s.level[lv, PARTS_APART]
        if (anyway or c.two_widths[0]) and across * down > 1:
            for d in range(dims):
                s.level[lv + 1, PARTS_APART] *= s.place[lv, d, SPREAD] if c.reduces[d] else 1
        if status == VALID and across > c.fanout[lv, 0]:
            status = FANOUT_X + RULES * lv
        if status == VALID and down > c.fanout[lv, 1]:
            status = FANOUT_Y + RULES * lv
        if status != VALID and not anyway:
            return status
    held = 0
    for lv in range(levels - 1, -1, -1):
        for d in range(dims):
            inside = s.place[lv + 1, d, INSIDE] * s.place[lv, d, SPREAD] * temporal[lv, d]
            s.place[lv, d, INSIDE] = min(inside, c.bounds[d])  # remainders: no tile is larger than the whole
        if lv == c.nodes[lv, 1] - 1:
            held = 0
        for t in range(keep.shape[1]):
            s.at[lv, t, PARTIAL] = 0
            if keep[lv, t]:
                s.at[lv, t, TILE] = box_words(c, s, lv, t) if lv > 0 else c.whole[t]
                held += s.at[lv, t, TILE] * c.word_parts[lv, t, 0]
        if status == VALID and held > c.capacity[lv] and c.capacity[lv] != UNLIMITED:
            status = CAPACITY + RULES * lv
        if status == VALID and c.partitioned[lv] and lv == c.nodes[lv, 0]:
            status = _fit_partitions(c, m, i, s, lv)
        if status != VALID and not anyway:
            return status
    for r in range(c.asked.shape[0]):
        value = asked_value(c, r, m, i, s)
        if status == VALID and value > 0 and not c.asked[r, 2] <= value <= c.asked[r, 3]:
            status = ASKED + RULES * c.asked[r, 0]
    return status


@jit
def _fit_partitions(c: Constants, m: Batch, i: int, s: Detail, lv: int) -> int:
    """Status of a level by the partitions of all its nodes, of which `lv` is the first."""
    keep = m.keep[i]
    for role in range(c.partition.shape[1]):
        held = 0
        for node in range(lv, c.nodes[lv, 1]):
            for t in range(keep.shape[1]):
                if keep[node, t] and c.role[t] == role:
                    held += s.at[node, t, TILE] * c.word_parts[node, t, s.at[node, t, PARTIAL]]
        if held > c.partition[lv, role]:
            return PARTITION + RULES * lv
    return VALID


@jit
def _fit_partial_sums(c: Constants, m: Batch, i: int, s: Detail) -> int:
    """Status once it is known which levels hold partial sums."""
    keep = m.keep[i]
    held = 0
    for lv in range(keep.shape[0]):
        first = c.nodes[lv, 0]
        if lv == first:
            held = 0
        for t in range(keep.shape[1]):
            if keep[lv, t]:
                held += s.at[lv, t, TILE] * c.word_parts[lv, t, s.at[lv, t, PARTIAL]]
        if held > c.capacity[lv] and c.capacity[lv] != UNLIMITED:
            return CAPACITY + RULES * first
        if c.partitioned[lv] and lv == first:
            status = _fit_partitions(c, m, i, s, lv)
            if status != VALID:
                return status
    return VALID


@jit
def _walk_loops(c: Constants, m: Batch, i: int, s: Detail) -> None:
    """Multiply up the temporal loops from the outside in: all of them, and those that move the output."""
    temporal, order = m.temporal[i], m.order[i]
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
            s.place[lv, j, BEFORE] = product
            loops += 1
            product *= bound
            visits *= bound if c.relevant[output, d] else 1
        s.level[lv, LOOPS] = loops
        s.level[lv, READ] = 0
        s.level[lv, WRITTEN] = -c.already[lv]
        s.level[lv + 1, STEPS] = product
        s.level[lv + 1, VISITS] = visits


@jit
def _account(
    c: Constants, s: Detail, lv: int, t: int, reads: int, fills: int, updates: int, partial: int, every: bool
) -> float:
    """Enter the counts of a tensor at a level that keeps it; returns their energy [pJ]."""
    s.at[lv, t, READS], s.at[lv, t, FILLS], s.at[lv, t, UPDATES] = reads, fills, updates
    part = c.word_parts[lv, t, partial]
    if part != 1:
        reads, fills, updates = reads * part, fills * part, updates * part
    ports = c.nodes[lv, 0]
    s.level[ports, READ] += reads
    s.level[ports, WRITTEN] += fills + updates
    block = c.block[lv]
    if block != 1:
        shift = c.block_shift[lv]
        if shift >= 0:
            reads, fills, updates = -(-reads >> shift), -(-fills >> shift), -(-updates >> shift)
        else:
            reads, fills, updates = _ceil_div(reads, block), _ceil_div(fills, block), _ceil_div(updates, block)
    used = float(s.level[lv, USED])
    read_pj = float(reads) * used * c.energy[lv, t, BY_READ]
    write_pj = float(fills) * used * c.energy[lv, t, BY_WRITE]
    update_pj = float(updates) * used * c.energy[lv, t, BY_UPDATE]
    if every:
        s.energy[lv, t, BY_READ], s.energy[lv, t, BY_WRITE], s.energy[lv, t, BY_UPDATE] = read_pj, write_pj, update_pj
    return read_pj + write_pj + update_pj


@inline
def _account_transfers(
    c: Constants, s: Detail, m: Batch, i: int, lv: int, t: int, words: int, back: int, every: bool
) -> float:
    """Enter what crosses the network below a level for each child (`back`: partial sums that return); their energy."""
    s.at[lv, t, TRANSFERS] = words + back
    if not c.transfers[lv]:
        return 0.0
    energy = float(words) * c.energy[lv, t, BY_TRANSFER] + float(back) * c.energy[lv, t, BY_RETURN]
    energy = energy * float(s.level[lv + 1, USED]) + mesh_energy(c, s, m, i, lv, t, words, back)
    if every:
        s.energy[lv, t, BY_TRANSFER] = energy
    return energy


@jit
def _move_input(c: Constants, m: Batch, i: int, s: Detail, t: int, every: bool) -> float:
    """Reads, fills and transfers of a tensor that is only read, from the compute units outwards; their energy [pJ]."""
    temporal, x, y, keep = m.temporal[i], m.x[i], m.y[i], m.keep[i]
    energy = 0.0
    down, linked, groups = int(s.level[temporal.shape[0], STEPS]), 0, 0
    for lv in range(temporal.shape[0] - 1, -1, -1):
        energy += _account_transfers(c, s, m, i, lv, t, down, 0, every)
        s.at[lv, t, DOWN] = 1
        if s.level[lv + 1, USED] > s.level[lv, USED]:
            s.at[lv, t, DOWN] = distinct(c, s, x, y, lv, t, c.multicast[lv, 0, t], c.multicast[lv, 1, t])
            down = down * s.at[lv, t, DOWN] - linked * (s.at[lv, t, DOWN] - groups)
            linked = 0
        s.at[lv, t, PASSING] = down
        if keep[lv, t]:
            reads = down
            down = 0
            if lv > 0:
                down = words_into(c, m, i, s, lv, t)
                if c.windowed[t] and c.latency.any():
                    s.at[lv, t, TRIPS] = tiles_into(c, m, i, s, lv, t)
                if c.links[c.nodes[lv, 0] - 1]:
                    groups = link_transfers(c, m, i, s, lv, t)
                    linked = s.at[lv, t, LINKED]
                    reads += linked
            energy += _account(c, s, lv, t, reads, down, 0, 0, every)
            if linked > 0:
                energy -= spare_links(c, s, lv, t, reads, every)
    return energy


@jit
def _move_output(c: Constants, m: Batch, i: int, s: Detail, every: bool) -> float:
    """Updates, reads, fills and transfers of the output, from the compute units outwards; their energy [pJ].

    `seen` counts the different words that a tile ever holds: its words times the loops that move it. Seen from above,
    the spatial loops between come on top.
    """
    temporal, x, y, keep = m.temporal[i], m.x[i], m.y[i], m.keep[i]
    t = c.output[0]
    levels, dims = temporal.shape
    windowed = c.windowed[t]
    energy = 0.0
    child = levels
    up = s.level[levels, STEPS]
    seen = seen_windows(c, temporal, s, levels, levels, t) if windowed else s.level[levels, VISITS]
    down = up - seen
    for lv in range(levels - 1, -1, -1):
        energy += _account_transfers(c, s, m, i, lv, t, up, down, every)
        s.at[lv, t, DOWN] = 1
        s.at[lv, t, UP] = 1
        if s.level[lv + 1, USED] > s.level[lv, USED]:
            s.at[lv, t, DOWN] = distinct(c, s, x, y, lv, t, c.multicast[lv, 0, t], c.multicast[lv, 1, t])
            s.at[lv, t, UP] = distinct(c, s, x, y, lv, t, c.reduction[lv, 0], c.reduction[lv, 1])
            down *= s.at[lv, t, DOWN]
            up *= s.at[lv, t, UP]
            for d in range(dims):
                seen *= s.place[lv, d, SPREAD] if c.relevant[t, d] else 1
        s.at[lv, t, PASSING] = up + down
        if not keep[lv, t]:
            continue
        if windowed:
            seen = seen_windows(c, temporal, s, child, lv, t)
        child = lv
        updates, reads, fills = up, up - seen, 0
        s.at[lv, t, PARTIAL] = int(reads > 0 or s.level[lv, PARTS_APART] > 1)
        if lv > 0:
            up = words_into(c, m, i, s, lv, t)
            seen = seen_windows(c, temporal, s, lv, lv, t) if windowed else s.at[lv, t, TILE] * s.level[lv, VISITS]
            fills = down = up - seen
            s.level[lv, LEAVING] = up
            if c.drain[lv]:
                reads += up
        energy += _account(c, s, lv, t, reads, fills, updates, s.at[lv, t, PARTIAL], every)
    return energy


@jit
def cost(c: Constants, m: Batch, i: int, s: Detail, every: bool) -> tuple[int, float, int]:
    """Count and charge a mapping whose tiles `fit` has placed; `every`: keep what `Detail` holds beyond the counts.

    Returns
    -------
    status : int
        VALID unless partial sums, now that it is known where they are, do not fit.
    energy_pj : float
    cycles : int
    """
    temporal, keep = m.temporal[i], m.keep[i]
    levels = temporal.shape[0]
    _walk_loops(c, m, i, s)
    energy = float(s.level[levels, STEPS] * s.level[levels, USED]) * c.mac[0]
    for t in range(keep.shape[1]):
        if t != c.output[0]:
            energy += _move_input(c, m, i, s, t, every)
    energy += _move_output(c, m, i, s, every)
    cycles = s.level[levels, STEPS] * c.mac_cycles[0]
    if c.array[PE] >= 0:
        cycles = held_cycles(c, m, i, s, cycles)
    waiting = 0
    for lv in range(1, levels):
        if c.overlap[lv] != ALL_OVERLAP:
            waiting += waiting_cycles(c, s, keep, lv)
    for lv in range(levels):
        if c.limited[lv]:
            needed = port_cycles(c, lv, s.level[lv, READ], s.level[lv, WRITTEN], cycles, every)
            cycles = max(cycles, needed)
            s.level[lv, CYCLES] = needed
            if c.bandwidth[lv, NETWORK, 0] > 0:
                cycles = max(cycles, network_cycles(c, lv, passing_units(c, s, keep, lv)))
    s.level[levels, CYCLES] = cycles = cycles + waiting
    if c.dma.shape[0] > 0:
        for lv in range(1, levels):
            count_moves(c, s, keep, lv)
        cycles = with_engines(c, s, keep, levels, cycles)
    for lv in range(levels):
        energy += c.leak[lv] * float(cycles) * float(s.level[lv, USED])
    return _fit_partial_sums(c, m, i, s) if c.two_widths[0] else VALID, energy, cycles


@jit
def evaluate_one(c: Constants, m: Batch, i: int, s: Detail, anyway: bool) -> tuple[int, float, int]:
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
    status = fit(c, m, i, s, anyway)
    if status != VALID and not anyway:
        return status, np.inf, 0
    late, energy, cycles = cost(c, m, i, s, anyway)
    return status if status != VALID else late, energy, cycles


@jit
def evaluate_many(
    c: Constants, batch: Batch, s: Detail, anyway: bool, status: Ints1, energy: Floats1, cycles: Ints1
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
        status[b], energy[b], cycles[b] = evaluate_one(c, batch, b, s, anyway)
        if status[b] != VALID and not anyway:
            energy[b] = np.inf
