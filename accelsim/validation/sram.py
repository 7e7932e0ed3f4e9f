"""The interpolation of the SRAM grid against CACTI: at its own points, each left out, and at banks off the grid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from accelsim.components.grid import AXES, QUANTITIES, SOURCE, Grid, Place, axes, cacti_grid, interpolated
from accelsim.components.scaling import log_log
from accelsim.validation.study import Figure, Study

OFF_GRID = "sram_cacti_between.csv"
_NAMES = {
    "read_pJ": ("read energy", "pJ"),
    "write_pJ": ("write energy", "pJ"),
    "leak_mW": ("leakage", "mW"),
    "area_mm2": ("area", "mm2"),
    "access_ns": ("access time", "ns"),
    "cycle_ns": ("cycle time", "ns"),
}
_ALONG = {"node_nm": "node", "size_KiB": "size", "width_bit": "width"}


def leave_one_out() -> list[Figure]:
    """Each point of the grid from its two neighbours on each axis, as if it were not in the grid.

    The neighbours are then twice as far apart as those that an interpolation uses, so these errors are larger than its.
    """
    grid = cacti_grid()
    places = axes(grid)
    found = []
    for place, values in grid.items():
        for axis, name in enumerate(AXES):
            low, high = _neighbours(grid, place, axis, places[axis])
            if low is None or high is None:
                continue
            for quantity in QUANTITIES:
                ends = grid[low][quantity], grid[high][quantity]
                ours = log_log(low[axis], ends[0], high[axis], ends[1], place[axis])
                found.append(_figure(quantity, place, values[quantity], ours, f"left out: {_ALONG[name]}"))
    return found


def off_grid() -> list[Figure]:
    """Banks of other sizes, widths and nodes, for which CACTI was run for this comparison only."""
    grid = cacti_grid()
    nodes = set(axes(grid)[0])
    found = []
    for place, values in cacti_grid(OFF_GRID).items():
        where = "off the grid" if place[0] in nodes else "other nodes"
        found += [
            _figure(quantity, place, values[quantity], interpolated(quantity, place), where) for quantity in QUANTITIES
        ]
    return found


def _neighbours(grid: Grid, place: Place, axis: int, places: Sequence[float]) -> tuple[Place | None, Place | None]:
    """Points before and after one on an axis, where the grid has them."""
    index = places.index(place[axis])
    found: list[Place | None] = []
    for near in (index - 1, index + 1):
        moved = list(place)
        moved[axis] = places[near] if 0 <= near < len(places) else -1.0
        at: Place = (moved[0], moved[1], moved[2])
        found.append(at if at in grid else None)
    return found[0], found[1]


def _figure(quantity: str, place: Place, cacti: float, ours: float, variant: str) -> Figure:
    name, unit = _NAMES[quantity]
    node, size, width = place
    return Figure(f"{size:g} KiB, {width:g} bit, {node:g} nm", name, unit, cacti, ours, None, variant)


def sram_study(_: Sequence[str | Path] = ()) -> Study:
    """Study of the interpolation; it needs no records."""
    notes = (
        "left out: a point of the grid from its neighbours on one axis, which are then four times apart in size or "
        "width. off the grid: other sizes and widths. other nodes: 25, 28, 40, 55 and 78 nm. The last two are what an "
        "interpolation is really off.",
        "Leakage jumps from node to node, because CACTI takes each node's devices from another table: between nodes "
        "it is known to about a half.",
    )
    return Study(
        "sram",
        "the SRAM model's interpolation beside CACTI",
        SOURCE.removesuffix(", interpolated"),
        (*leave_one_out(), *off_grid()),
        notes,
    )
