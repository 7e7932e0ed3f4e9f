"""Go through all valid mappings, compiled. Axis letters as in `accelsim.mapspace.space`; B = mappings."""

from __future__ import annotations

from accelsim.mapspace.kernel import gather_order, keep_required, place_row
from accelsim.mapspace.space import SpaceArrays
from accelsim.model.detail import USED, Detail
from accelsim.model.encode import Batch, Constants, Floats, Ints
from accelsim.model.jit import jit
from accelsim.model.kernel import VALID, fit
from accelsim.population.draw_kernel import charge
from accelsim.search.kernel import next_order


@jit
def _place_tiling(space: SpaceArrays, tiling: int, m: Batch, starts: Ints, loops: Ints) -> None:
    """Write the tiling of a number, with the loops of each block in their first order."""
    temporal, x, y = m.temporal[0], m.x[0], m.y[0]
    temporal[:] = 1
    x[:] = 1
    y[:] = 1
    rest = tiling
    for d in range(space.dims.shape[0] - 1, -1, -1):
        rows = space.first[d + 1] - space.first[d]
        place_row(space, space.first[d] + rest % rows, space.dims[d], temporal, x, y)
        rest //= rows
    keep_required(space, m.keep[0])
    for f in range(space.free.shape[0]):
        m.keep[0, space.free[f, 0], space.free[f, 1]] = (rest >> f) & 1
    for lv in range(temporal.shape[0]):
        starts[lv], loops[lv] = gather_order(space, temporal, m.order[0], lv)


@jit
def list_valid(
    c: Constants,
    space: SpaceArrays,
    tilings: int,
    units: int,
    m: Batch,
    s: Detail,
    starts: Ints,
    loops: Ints,
    column: Floats,
    number: Ints,
) -> int:
    """Evaluate all orders of all tilings that fit; returns how many mappings there are.

    Parameters
    ----------
    tilings : int
        Choices of what is kept and of the factorisation of each dimension.
    units : int
        List only mappings with so many compute units; 0: with any number.
    m : Batch of one
        Scratch.
    starts, loops : int64[L]
        Scratch.
    column : float64[4, B]
        Written, as by `draw_and_evaluate`.
    number : int64[B]
        Written: the tiling of each mapping.
    """
    temporal, order, x, y, keep = m.temporal[0], m.order[0], m.x[0], m.y[0], m.keep[0]
    found = 0
    for tiling in range(tilings):
        _place_tiling(space, tiling, m, starts, loops)
        if fit(c, temporal, x, y, keep, s, False) != VALID or (units and s.level[temporal.shape[0], USED] != units):
            continue
        while True:
            charge(c, temporal, order, x, y, keep, s, column, found)
            number[found] = tiling
            found += 1
            if not next_order(order, starts, loops):
                break
    return found


@jit
def place_listed(space: SpaceArrays, tiling: int, rank: int, m: Batch, starts: Ints, loops: Ints) -> None:
    """Write the mapping of a rank among the orders of a tiling."""
    _place_tiling(space, tiling, m, starts, loops)
    for _ in range(rank):
        next_order(m.order[0], starts, loops)
