"""Figures of Pareto fronts."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from accelsim.search.result import FrontResult
from accelsim.show.plots.style import (
    BEST_COLOUR,
    PALE,
    drawing,
    fit_scale,
    letters_beside,
    lower_steps,
    plain_log_ticks,
    points,
    put_title,
    set_limits,
    short_ticks,
    wide_range,
)
from accelsim.show.report.text import OTHER_COLOUR


def front_table(front: FrontResult) -> list[dict[str, Any]]:
    """Rows of `plot_front`: energy [pJ], cycles and the other columns of each point, in order."""
    return [dict(row) for row in front.rows()]


def plot_front(front: FrontResult, ax: Axes | None = None) -> Axes:
    """Draw the points of a Pareto front: energy [pJ/MAC] over cycles where these are columns; colour is a third column.

    No mapping lies below the line. Where the search was stopped early there is none: the points are the best known.
    """
    with drawing(ax) as ax:
        first = front.points[0]
        y, x, *third = _front_axes(front)
        across = [values[x] / _each(front, x) for values in front.values]
        up = [values[y] / _each(front, y) for values in front.values]
        for axis, values in ((ax.xaxis, across), (ax.yaxis, up)):
            low, high = min(values), max(values)
            if fit_scale(axis, values, 0.2, 0.22):
                set_limits(axis, low / (high / low) ** 0.2, high * (high / low) ** 0.22)
            else:
                axis.set_major_locator(MaxNLocator(5))
            short_ticks(axis)
        size = 34 if len(up) <= 40 else 16
        if third:
            shade = [values[third[0]] for values in front.values]
            low, high = min(shade), max(shade)
            log = wide_range(low, high)
            norm = LogNorm(low, high) if log else Normalize(low, high if high > low else low + 1)
            marks = ax.scatter(
                across, up, size, c=shade, norm=norm, cmap="viridis_r", edgecolors="black", linewidths=0.5, zorder=3
            )
            bar = ax.figure.colorbar(marks, ax=ax, label=_front_label(front, third[0]))
            if log:
                plain_log_ticks(bar.ax.yaxis, low, high)
            short_ticks(bar.ax.yaxis)
        else:
            ax.scatter(across, up, size, color="black", zorder=3)
        if front.stop == "exhausted":
            _draw_line(ax, across, up, corner=bool(third))
            _mark_ends(ax, front, across, up)
        ax.set(xlabel=_front_label(front, x), ylabel=_front_label(front, y))
        points = f"{len(up):,} point{'s' if len(up) > 1 else ''}"
        what = [f"Pareto front: {points}"]
        if front.stop != "exhausted":
            what = [f"best known: {points}", "the Pareto front is not complete"]
        put_title(ax, f"{first.workload} on {first.architecture}", *what)
    return ax


def _front_axes(front: FrontResult) -> list[int]:
    """Columns in the order of y, x and colour: energy goes up where it is one, cycles to the right."""
    rest = list(range(len(front.columns)))
    y = front.columns.index("energy") if "energy" in front.columns else next(
        i for i in rest if front.columns[i] != "cycles"
    )  # fmt: skip
    rest.remove(y)
    x = front.columns.index("cycles") if "cycles" in front.columns else rest[0]
    rest.remove(x)
    return [y, x, *rest]


def _draw_line(ax: Axes, across: list[float], up: list[float], *, corner: bool) -> None:
    """Draw the line of a complete front, and say that no mapping is below it; `corner`: on the right."""
    steps = lower_steps(zip(across, up, strict=True))
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    line = [(steps[0][0], top), *steps, (right, steps[-1][1])]
    xs, ys = [at for at, _ in line], [at for _, at in line]
    ax.fill_between([left, *xs], [top, *ys], bottom, step="post", color=PALE, linewidth=0, zorder=0.5)
    ax.step(xs, ys, where="post", color=OTHER_COLOUR, linewidth=1.2, zorder=2)
    empty = "\n".join(textwrap.wrap("no mapping is here (proved)", letters_beside(ax, "font.size") // 2))
    place = {"xy": (1, 0), "xytext": (-6, 6), "ha": "right"} if corner else {"xy": (0, 0), "xytext": (6, 6)}
    ax.annotate(empty, **place, xycoords="axes fraction", textcoords="offset points", color="#666666", fontsize="small")


def _mark_ends(ax: Axes, front: FrontResult, across: list[float], up: list[float]) -> None:
    """Name the points of least energy, fewest cycles and least EDP, where energy over cycles is drawn."""
    if "energy" not in front.columns or "cycles" not in front.columns:
        return
    costs: dict[str, list[float]] = {
        "least energy": up,
        "fewest cycles": across,
        "least EDP": [point.edp for point in front.points],
    }
    names: dict[int, list[str]] = {}
    for name, values in costs.items():
        tie = up if name == "fewest cycles" else across
        best = min(range(len(values)), key=lambda i: (values[i], tie[i]))
        names.setdefault(best, []).append(name)
    (left, right), log = ax.get_xlim(), ax.get_xscale() == "log"
    crowded = len(front.columns) > 2  # points also above the line: labels go below it, one line each
    for row, (at, said) in enumerate(sorted(names.items(), key=lambda item: across[item[0]])):
        place = math.log(across[at] / left) / math.log(right / left) if log else (across[at] - left) / (right - left)
        far = place > 0.6 and len(up) > 1
        below = far or crowded
        ax.annotate(
            (", " if crowded else ",\n").join(said),
            (across[at], up[at]),
            (-6 if far else 6, -5 - 11 * row * crowded if below else 5),
            textcoords="offset points",
            ha="right" if far else "left",
            va="top" if below else "bottom",
            color=BEST_COLOUR,
            fontsize=points("legend.fontsize"),
            path_effects=[withStroke(linewidth=2, foreground="white")],
            zorder=4,
        )


def _each(front: FrontResult, column: int) -> int:
    """What a column is divided by for an axis: energy is drawn for each MAC."""
    return front.points[0].macs if front.columns[column] == "energy" else 1


def _front_label(front: FrontResult, column: int) -> str:
    name = front.columns[column]
    if name.startswith("capacity:"):
        return f"words held in {name.partition(':')[2]}"
    return {"energy": "energy [pJ/MAC]", "cycles": "cycles"}.get(
        name, f"words moved at {front.points[0].levels[0].level}"
    )
