"""One bank of SRAM from a grid of CACTI results, interpolated over size, width of an access and technology node.

The grid has 5 nodes (22 to 90 nm), sizes of 0.5 KiB to 4 MiB and widths of 32 to 512 bits, both in powers of two, with
at least 64 rows. Inside a cell of the grid, the logarithm of a quantity is linear in the logarithm of each axis; a cell
whose corner would have less than 64 rows is a plane through the other three.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

from accelsim.inputs.energy.estimate import NoEstimateError
from accelsim.inputs.energy.published import data_rows

SOURCE = "CACTI 7 (as in hwcomponents-cacti 1.0.40; RAM, one bank, one read-write port, itrs-lstp), interpolated"
QUANTITIES = ("read_pJ", "write_pJ", "leak_mW", "area_mm2", "access_ns", "cycle_ns")
AXES = ("node_nm", "size_KiB", "width_bit")
LEAST_ROWS = 64
"""Of a bank of the grid: CACTI was asked for none with fewer."""
Place = tuple[float, float, float]
"""Node [nm], size [KiB], width of an access [bit]."""
Grid = Mapping[Place, Mapping[str, float]]
"""Quantities of the banks at the points of the grid."""


@cache
def cacti_grid(name: str = "sram_cacti.csv") -> Grid:
    """Read a file of CACTI results."""
    return {
        (float(row["node_nm"]), float(row["size_KiB"]), float(row["width_bit"])): {
            quantity: float(row[quantity]) for quantity in QUANTITIES
        }
        for row in data_rows(name)
    }


def axes(grid: Grid) -> tuple[list[float], list[float], list[float]]:
    """Nodes, sizes and widths of a grid."""
    nodes, sizes, widths = (sorted({place[axis] for place in grid}) for axis in range(3))
    return nodes, sizes, widths


def interpolated(quantity: str, place: Place, grid: Grid | None = None) -> float:
    """Quantity of one bank at any place inside the grid.

    Raises
    ------
    NoEstimateError
        If the place is outside.

    Examples
    --------
    >>> interpolated("read_pJ", (45, 64, 64))
    25.8695
    """
    grid = cacti_grid() if grid is None else grid
    if place in grid:
        return grid[place][quantity]
    nodes, sizes, widths = axes(grid)
    node, size, width = place
    low, high = _around(nodes, node, "node", "nm")
    _around(sizes, size, "size of a bank", "KiB")
    _around(widths, width, "width", "bit")
    if size * 8192 / width < LEAST_ROWS:
        raise NoEstimateError(f"a bank of {size:g} KiB with {width:g} bits has less than {LEAST_ROWS} rows")
    value = _at_node(quantity, grid, (sizes, widths), (low, size, width))
    if low != high:
        above = _at_node(quantity, grid, (sizes, widths), (high, size, width))
        value += (above - value) * math.log(node / low) / math.log(high / low)
    return math.exp(value)


def _around(places: Sequence[float], place: float, what: str, unit: str) -> tuple[float, float]:
    """Neighbours of a place on an axis; twice the same where it is one of the grid."""
    if not places[0] <= place <= places[-1]:
        raise NoEstimateError(
            f"{what} {place:g} {unit} is outside the CACTI grid, {places[0]:g} to {places[-1]:g} {unit}"
        )
    return max(p for p in places if p <= place), min(p for p in places if p >= place)


def _at_node(quantity: str, grid: Grid, sides: tuple[list[float], list[float]], place: Place) -> float:
    """Logarithm of a quantity at a node of the grid."""
    node, size, width = place
    (s0, s1), (w0, w1) = _around(sides[0], size, "", ""), _around(sides[1], width, "", "")
    corner = {(s, w): math.log(grid[node, s, w][quantity]) for s in (s0, s1) for w in (w0, w1) if (node, s, w) in grid}
    if (s0, w1) not in corner:
        corner[s0, w1] = corner[s0, w0] + corner[s1, w1] - corner[s1, w0]
    right = 0.0 if s0 == s1 else math.log(size / s0) / math.log(s1 / s0)
    up = 0.0 if w0 == w1 else math.log(width / w0) / math.log(w1 / w0)
    lower = corner[s0, w0] * (1 - right) + corner[s1, w0] * right
    upper = corner[s0, w1] * (1 - right) + corner[s1, w1] * right
    return lower * (1 - up) + upper * up
