"""The interpolation of the SRAM grid against CACTI: at its own points, each left out, and at banks off the grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from accelsim.inputs.energy.components import QUANTITIES, SOURCE, Grid, Place, axes, cacti_grid, interpolated, read_grid
from accelsim.inputs.energy.estimate import log_log, table_rows
from validation.study import Figure, Study

_NAMES = {
    "read_pJ": ("read energy", "pJ"),
    "write_pJ": ("write energy", "pJ"),
    "leak_mW": ("leakage", "mW"),
    "area_mm2": ("area", "mm2"),
    "access_ns": ("access time", "ns"),
    "cycle_ns": ("cycle time", "ns"),
}


_AXES = ("node", "size", "width")


def leave_one_out() -> Iterator[Figure]:
    """Each point of the grid from its two neighbours on each axis, as if it were not in the grid.

    The neighbours are then twice as far apart as those that an interpolation uses, so these errors are larger than its.
    """
    grid = cacti_grid()
    places = axes(grid)
    for place, values in grid.items():
        for axis, name in enumerate(_AXES):
            low, high = _neighbours(grid, place, axis, places[axis])
            if low is None or high is None:
                continue
            for quantity in QUANTITIES:
                ends = grid[low][quantity], grid[high][quantity]
                ours = log_log(low[axis], ends[0], high[axis], ends[1], place[axis])
                yield _figure(quantity, place, values[quantity], ours, f"left out: {name}")


def off_grid() -> Iterator[Figure]:
    """Banks of other sizes, widths and nodes, for which CACTI was run for this comparison only."""
    nodes = set(axes(cacti_grid())[0])
    text = Path(__file__).with_name("sram_cacti_between.csv").read_text(encoding="utf-8")
    for place, values in read_grid(table_rows(text)).items():
        how = "off the grid" if place[0] in nodes else "other nodes"
        for quantity in QUANTITIES:
            yield _figure(quantity, place, values[quantity], interpolated(quantity, place), how)


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


def _figure(quantity: str, place: Place, cacti: float, ours: float, how: str) -> Figure:
    (name, unit), (node, size, width) = _NAMES[quantity], place
    return Figure(f"{size:g} KiB, {width:g} bit, {node:g} nm", name, unit, cacti, ours, None, how)


def sram_study() -> Study:
    """Study of the interpolation."""
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
