"""How entries of cost-to-go tables are laid out: as sweeps read and write them, and as they are kept; compiled.

Axis letters: S = shapes, Q = statuses, N = copies and spreads, I = kinds of loops outside.
"""

from __future__ import annotations

import numpy as np

from accelsim.model.jit import jit
from accelsim.model.records import Bools2, Floats1, Floats3, Floats4, Int32s2, Ints1

AT_A_TIME = 64
"""Shapes whose entries are laid out anew together: few enough to stay in the processor's first cache."""


@jit
def lay_beside(
    entries: Floats1, place: Int32s2, many: Ints1, first: Ints1, rows: Ints1, statuses: Ints1, beside: Floats4
) -> None:
    """Lay some tables next to each other, as `CostTable` has them: to float64[Q, S, *, N], for some statuses."""
    for q in statuses:
        for start in range(0, place.shape[1], AT_A_TIME):
            end = min(start + AT_A_TIME, place.shape[1])
            for at in range(rows.shape[0]):
                there = place[rows[at]]
                for n in range(beside.shape[3]):
                    begin = first[rows[at]] + (q * beside.shape[3] + n) * many[rows[at]]
                    for shape in range(start, end):
                        beside[q, shape, at, n] = entries[begin + there[shape]] if there[shape] >= 0 else np.inf


@jit
def lay_apart(beside: Floats4, first_of: Ints1, wanted: Bools2, tables: Floats4) -> None:
    """From tables that lie next to each other to float64[*, Q, N, S], for all statuses, only where shapes are wanted.

    No status costs more than the first one.
    """
    most = beside[first_of[0]]
    for q in range(first_of.shape[0]):
        found = beside[first_of[q]]
        for start in range(0, tables.shape[3], AT_A_TIME):
            end = min(start + AT_A_TIME, tables.shape[3])
            for at in range(tables.shape[0]):
                for n in range(tables.shape[2]):
                    each = tables[at, q, n]
                    for shape in range(start, end):
                        least = min(found[shape, at, n], most[shape, at, n])
                        each[shape] = least if wanted[at, shape] else np.inf


@jit
def lay_shapes(values: Floats3, shapes: Ints1, tiles: bool, kept: Floats1) -> None:
    """Lay some shapes of float64[Q, N, S] next to each other, as `CostTable` has them: their entries, if `tiles`."""
    statuses, lanes, many = values.shape[0], values.shape[1], shapes.shape[0]
    for start in range(0, many, AT_A_TIME):
        end = min(start + AT_A_TIME, many)
        for q in range(statuses):
            for n in range(lanes):
                each = values[q, n]
                for at in range(start, end):
                    to = (at * lanes + n) * statuses + q if tiles else (q * lanes + n) * many + at
                    kept[to] = each[shapes[at]]


@jit
def look_inside(
    entries: Floats1, first: Ints1, place: Int32s2, lanes: Ints1, tiles: Ints1, after: Bools2, least: Floats3
) -> None:
    """Find the least entries of some tiles, where they are worth it.

    Parameters
    ----------
    entries, first, place
        As `CostTable` has them.
    lanes : int64[3]
        How many copies of the output, spreads and statuses there are.
    tiles : int64[*]
    after : bool[I, Q']
        Statuses that steps may have after each innermost loop outside.
    least : float64[*, C', 2 * I]
        The least of them, for one copy of the output and the most.
    """
    loops, all_lanes = after.shape[0], lanes[0] * lanes[1] * lanes[2]
    for at in range(tiles.shape[0]):
        for m in range(place.shape[0]):
            stands = place[m, tiles[at]]
            if stands < 0:
                continue
            lane, row = first[m] + stands * all_lanes, least[at, m]
            for i in range(2 * loops):
                row[i] = np.inf
            for a in range(lanes[0]):
                for _ in range(lanes[1]):
                    for q in range(lanes[2]):
                        found = entries[lane]
                        lane += 1
                        for i in range(loops):
                            if after[i, q] and a == 0:
                                row[i] = min(row[i], found)
                            if after[i, q] and a == lanes[0] - 1:
                                row[loops + i] = min(row[loops + i], found)


@jit
def turn(out: Floats4, tables: Floats4) -> None:
    """Lay entries out as a table: from float64[S, *, N, Q] to float64[*, Q, N, S]."""
    for start in range(0, out.shape[0], AT_A_TIME):
        end = min(start + AT_A_TIME, out.shape[0])
        for at in range(out.shape[1]):
            for n in range(out.shape[2]):
                for q in range(out.shape[3]):
                    each = tables[at, q, n]
                    for shape in range(start, end):
                        each[shape] = out[shape, at, n, q]
