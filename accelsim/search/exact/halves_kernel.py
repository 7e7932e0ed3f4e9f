"""Outer halves of mappings, counted by what the inside can know of them; compiled.

What lies inside the tiles of a level depends on little of the outside, its state: outer halves of one state go on
alike, so that one of them is looked at for all. Axis letters: K = states, R = outer halves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.model.detail import BEFORE, DOWN, INSIDE, LOOPS, PARTS_APART, SPREAD, STEPS, UP, USED, VISITS, Detail
from accelsim.model.encode import Bools, Constants, Floats, Ints
from accelsim.model.jit import inline, internal
from accelsim.model.windows import tiles_into
from accelsim.search.exact.node import Guide, Path
from accelsim.search.exact.shapes import Shapes

STIR = (np.int64(0x1E3779B97F4A7C15), np.int64(0x2545F4914F6CDD1D))
"""Odd factors that spread the bits of a state over two words: multiplicative hashing (Knuth, The Art of Computer
Programming 3, 2nd edition, section 6.4)."""
STATES, HALVES = 0, 1
MOST = 2.0**59
"""Mappings that one part of a count may count: more might not fit in 64 bits, and are none of those that it can."""


class Halves(NamedTuple):
    """Outer halves down to the tiles of a level, those of a state next to each other and cheapest first.

    first : int64[K + 1], where those of a state begin; energy : float64[R] [pJ]; ways : int64[R], for how many each
    stands; sums : int64[R + 1], ways of all before; own : float64[K], energy of the one of a state that is kept, and
    ints : int64[N + K, *], floats : float64[N + K, *], bools : bool[N + K, *], what the search knows of its last two
    levels, after what it knew of the N states of the levels outside; up : int64[N + K], row of the state outside; base
    : int64[1], N.
    """

    first: Ints
    energy: Floats
    ways: Ints
    sums: Ints
    own: Floats
    ints: Ints
    floats: Floats
    bools: Bools
    up: Ints
    base: Ints


class Notes(NamedTuple):
    """What a part of a count notes of the next level.

    level : int64[1], whose tiles are next, 0 for searches that do not count so; at : int64[1], the state at work;
    shift : float64[1], energy by which the half that is kept of it exceeds the cheapest [pJ]; hash : int64[2], of a
    state; slot : int64[*], one more than the number of the state with a hash, 0 if there is none; many : int64[2],
    how many states and halves there are; state : int64[K, 2]; own, ints, floats, bools, up as in `Halves`, but `up`
    counts the states of the level outside alone; of : int64[R], state of each half; energy, ways : as in `Halves`;
    live_ints, live_floats, live_bools : what the search knows now, one array after the other; int_at, float_at,
    bool_at : int64[L, *], where the last two levels of the tiles of a level lie in them; mappings : int64[1], how many
    were counted; about : float64[1], the same in floating point, which tells whether they are too many for 64 bits.
    """

    level: Ints
    at: Ints
    shift: Floats
    hash: Ints
    slot: Ints
    many: Ints
    state: Ints
    own: Floats
    ints: Ints
    floats: Floats
    bools: Bools
    up: Ints
    of: Ints
    energy: Floats
    ways: Ints
    live_ints: Ints
    live_floats: Floats
    live_bools: Bools
    int_at: Ints
    float_at: Ints
    bool_at: Ints
    mappings: Ints
    about: Floats


@inline
def _stir(notes: Notes, value: int) -> None:
    """Add a number to the hashes."""
    for k in range(2):
        mixed = (notes.hash[k] ^ value) * STIR[k]
        notes.hash[k] = mixed ^ (mixed >> 32)


@internal
def _stir_windows(c: Constants, path: Path, s: Detail, notes: Notes, level: int, t: int) -> None:
    """Add the loops outside that a kept halo depends on: the innermost that move the tile, as far as on one rank."""
    temporal, order, rank = path.mapping.temporal[0], path.mapping.order[0], -1
    for lv in range(level - 1, -1, -1):
        for j in range(s.level[lv, LOOPS] - 1, -1, -1):
            d = order[lv, j]
            if not c.relevant[t, d]:
                continue
            if rank >= 0 and c.rank[t, d] != rank:
                _stir(notes, -1)
                return
            rank = c.rank[t, d]
            _stir(notes, rank)
            _stir(notes, c.factor[t, d] * s.place[lv + 1, d, INSIDE] * s.place[lv, d, SPREAD])
            _stir(notes, temporal[lv, d])
            _stir(notes, s.place[lv, j, BEFORE])
    _stir(notes, -1)


@internal
def _find_state(c: Constants, shapes: Shapes, g: Guide, path: Path, s: Detail, notes: Notes, level: int) -> None:
    """Hash all that the energy and the room inside the tiles of a level depend on."""
    temporal, order, output = path.mapping.temporal[0], path.mapping.order[0], c.output[0]
    notes.hash[0], notes.hash[1] = 1, 2
    for d in range(shapes.sizes.shape[0]):
        _stir(notes, path.tile[level, d])
    for column in (STEPS, VISITS, USED):
        _stir(notes, s.level[level, column])
    if level + 1 < c.fanout.shape[0] and c.nodes[level + 1, 0] <= level:
        _stir(notes, path.held[level])
    for t in range(c.whole.shape[0]):
        parent = path.parent[level, t]
        if not g.priced[parent, t]:
            continue
        _stir(notes, t)
        _stir(notes, parent)
        _stir(notes, s.level[parent, USED])
        for lv in range(parent, level):
            _stir(notes, s.level[lv + 1, USED])
            _stir(notes, s.at[lv, t, DOWN])
            if t == output:
                _stir(notes, s.at[lv, t, UP])
                for d in range(c.relevant.shape[1]):
                    if c.relevant[t, d]:
                        _stir(notes, s.place[lv, d, SPREAD])
        if t == output:
            _stir(notes, s.level[level, PARTS_APART])
            _stir(notes, s.level[parent, PARTS_APART])
            if parent > 0:
                _stir(notes, path.fills[parent, t])
                _stir(notes, path.moved[parent, t])
        _stir(notes, tiles_into(c, temporal, order, s, level, t))
        if c.windowed[t]:
            _stir_windows(c, path, s, notes, level, t)


@internal
def _number_of_state(path: Path, notes: Notes, level: int) -> int:
    """Number of the state that was hashed; the first half that comes to it is kept. -1 if there is no room."""
    slots, n = notes.slot.shape[0], notes.many[STATES]
    at = notes.hash[0] & (slots - 1)
    while notes.slot[at] > 0:
        known = notes.slot[at] - 1
        if notes.state[known, 0] == notes.hash[0] and notes.state[known, 1] == notes.hash[1]:
            return int(known)
        at = (at + 1) & (slots - 1)
    if n == notes.own.shape[0]:
        return -1
    notes.slot[at] = n + 1
    notes.many[STATES] = n + 1
    notes.state[n, 0], notes.state[n, 1] = notes.hash[0], notes.hash[1]
    notes.own[n] = path.energy[level] + notes.shift[0]
    notes.up[n] = notes.at[0]
    for i in range(notes.ints.shape[1]):
        notes.ints[n, i] = notes.live_ints[notes.int_at[level, i]]
    for i in range(notes.floats.shape[1]):
        notes.floats[n, i] = notes.live_floats[notes.float_at[level, i]]
    for i in range(notes.bools.shape[1]):
        notes.bools[n, i] = notes.live_bools[notes.bool_at[level, i]]
    return int(n)


@internal
def note_halves(
    c: Constants,
    shapes: Shapes,
    g: Guide,
    path: Path,
    s: Detail,
    halves: Halves,
    notes: Notes,
    bound: float,
    limit: float,
) -> bool:
    """Note all outer halves that go on as this one does, those that can lead to anything; False if there is no room.

    Parameters
    ----------
    bound : float
        Energy that no mapping with this half falls below [pJ].
    limit : float
        What mappings may have at most [pJ].
    """
    level = notes.level[0]
    _find_state(c, shapes, g, path, s, notes, level)
    state = _number_of_state(path, notes, level)
    if state < 0:
        return False
    more = path.energy[level] - path.energy[level - 1]
    inside = bound - path.energy[level]
    for i in range(halves.first[notes.at[0]], halves.first[notes.at[0] + 1]):
        energy = halves.energy[i] + more
        if energy + inside > limit:
            break
        row = notes.many[HALVES]
        if row == notes.energy.shape[0] or float(halves.ways[i]) * float(path.ways[level]) > MOST:
            return False
        notes.of[row], notes.energy[row], notes.ways[row] = state, energy, halves.ways[i] * path.ways[level]
        notes.many[HALVES] = row + 1
    return True


@internal
def take_up(path: Path, halves: Halves, notes: Notes, state: int) -> None:
    """Put back the half of a state that is kept, as cheap as the cheapest."""
    level, cheapest = notes.level[0] - 1, halves.energy[halves.first[state]]
    for lv in range(1, level + 1):
        row = halves.base[0] + state
        for _ in range(lv, level):
            row = halves.up[row]
        for i in range(notes.int_at.shape[1]):
            notes.live_ints[notes.int_at[lv, i]] = halves.ints[row, i]
        for i in range(notes.float_at.shape[1]):
            notes.live_floats[notes.float_at[lv, i]] = halves.floats[row, i]
        for i in range(notes.bool_at.shape[1]):
            notes.live_bools[notes.bool_at[lv, i]] = halves.bools[row, i]
    notes.at[0], notes.shift[0] = state, halves.own[state] - cheapest
    path.energy[level], path.ways[level] = cheapest, 1


@internal
def ways_within(halves: Halves, notes: Notes, more: float, limit: float) -> int:
    """For how many the outer halves of the state at work stand that with so much more are within a limit [pJ]."""
    low, high = halves.first[notes.at[0]], halves.first[notes.at[0] + 1]
    before = halves.sums[low]
    while low < high:
        middle = (low + high) >> 1
        if halves.energy[middle] + more <= limit:
            low = middle + 1
        else:
            high = middle
    return int(halves.sums[low] - before)


@internal
def count_whole(path: Path, halves: Halves, notes: Notes, energy: float, ways: int, limit: float) -> bool:
    """Count all mappings that are whole with this inner half; False if they are too many.

    Parameters
    ----------
    energy : float
        Of the half that is kept with this one [pJ].
    ways : int
        For how many the inner half stands.
    limit : float
        What mappings may have at most [pJ].
    """
    inside = energy - path.energy[notes.level[0] - 1] - notes.shift[0]
    outside = ways_within(halves, notes, inside, limit)
    notes.about[0] += float(ways) * float(outside)
    if notes.about[0] > MOST:
        return False
    notes.mappings[0] += ways * outside
    return True
