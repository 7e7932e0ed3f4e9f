"""The interpolation of the SRAM grid against CACTI: at its own points, each left out, and at banks off the grid."""

from __future__ import annotations

from accelsim.inputs.energy.sram import SOURCE, Deviation, between, left_out
from accelsim.results.study import Figure, Study

_NAMES = {
    "read_pJ": ("read energy", "pJ"),
    "write_pJ": ("write energy", "pJ"),
    "leak_mW": ("leakage", "mW"),
    "area_mm2": ("area", "mm2"),
    "access_ns": ("access time", "ns"),
    "cycle_ns": ("cycle time", "ns"),
}


def leave_one_out() -> list[Figure]:
    """Each point of the grid from its two neighbours on each axis, as if it were not in the grid."""
    return [_figure(each) for each in left_out()]


def off_grid() -> list[Figure]:
    """Banks of other sizes, widths and nodes, for which CACTI was run for this comparison only."""
    return [_figure(each) for each in between()]


def _figure(deviation: Deviation) -> Figure:
    name, unit = _NAMES[deviation.quantity]
    node, size, width = deviation.place
    case = f"{size:g} KiB, {width:g} bit, {node:g} nm"
    return Figure(case, name, unit, deviation.cacti, deviation.ours, None, deviation.how)


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
