"""How far the interpolation of the SRAM grid is off: its own points, each left out, and banks that are not in it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from accelsim.inputs.energy.grid import AXES, QUANTITIES, SOURCE, Grid, Place, axes, cacti_grid, interpolated
from accelsim.inputs.energy.scaling import log_log

OFF_GRID = "sram_cacti_between.csv"
_ALONG = {"node_nm": "node", "size_KiB": "size", "width_bit": "width"}
_STATED = {"read_pJ": "reads", "write_pJ": "writes", "leak_mW": "leakage", "area_mm2": "area"}


@dataclass(frozen=True, slots=True)
class Deviation:
    """A quantity of one bank by CACTI, and as it is interpolated; `how` says what it was interpolated from."""

    quantity: str
    place: Place
    how: str
    cacti: float
    ours: float

    @property
    def error(self) -> float:
        """How far the interpolated value is off, relative to CACTI's; not negative."""
        return abs(self.ours / self.cacti - 1.0)


def left_out() -> Iterator[Deviation]:
    """Each point of the grid from its two neighbours on each axis, as if it were not in the grid.

    The neighbours are then twice as far apart as those that an interpolation uses, so these errors are larger than its.
    """
    grid = cacti_grid()
    places = axes(grid)
    for place, values in grid.items():
        for axis, name in enumerate(AXES):
            low, high = _neighbours(grid, place, axis, places[axis])
            if low is None or high is None:
                continue
            for quantity in QUANTITIES:
                ends = grid[low][quantity], grid[high][quantity]
                ours = log_log(low[axis], ends[0], high[axis], ends[1], place[axis])
                yield Deviation(quantity, place, f"left out: {_ALONG[name]}", values[quantity], ours)


def between() -> Iterator[Deviation]:
    """Banks of other sizes, widths and nodes, for which CACTI was run for this comparison only."""
    nodes = set(axes(cacti_grid())[0])
    for place, values in cacti_grid(OFF_GRID).items():
        how = "off the grid" if place[0] in nodes else "other nodes"
        for quantity in QUANTITIES:
            yield Deviation(quantity, place, how, values[quantity], interpolated(quantity, place))


def error_notes(sources: Iterable[str]) -> list[str]:
    """What a reader must know of the error of the interpolation; nothing where no source is the grid.

    Examples
    --------
    >>> error_notes(["a data sheet"])
    []
    """
    if not any(source.startswith(SOURCE) for source in sources):
        return []
    loo, other = _stated(left_out()), _stated(between())
    return [
        "Error of the interpolation between CACTI's results, median / worst: "
        f"{other} at {len(cacti_grid(OFF_GRID))} banks that are not in the grid; with each point of the grid left out, "
        f"its neighbours then being twice as far apart, {loo}. Points of the grid are exact."
    ]


def _stated(deviations: Iterable[Deviation]) -> str:
    errors: dict[str, list[float]] = {}
    for each in deviations:
        errors.setdefault(each.quantity, []).append(100 * each.error)
    return ", ".join(
        f"{name} {statistics.median(errors[quantity]):.1f} / {max(errors[quantity]):.0f} %"
        for quantity, name in _STATED.items()
    )


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
