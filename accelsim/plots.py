"""Figures: energy by component and tensor, spread of energies over a map space, best-so-far curves, Pareto fronts.

`x_table` makes the rows, `plot_x` draws them. Colour means tensor: blue weights, orange inputs, green outputs.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from accelsim.errors import AccelsimError
from accelsim.report.text import OTHER_COLOUR, percent, tensor_colours, times
from accelsim.result import FrontResult, Result, Sample, SearchResult

_STYLE = Path(__file__).with_name("accelsim.mplstyle")
_BEST_COLOUR = "#D55E00"
_MOST_BARS = 60
_UNITS = {"energy": "pJ/MAC", "cycles": "cycles", "edp": "pJ x cycle"}


def energy_table(result: Result) -> list[dict[str, Any]]:
    """Rows of `plot_energy`: energy [pJ] and [pJ/MAC] by component, outermost first, and tensor (none: all else)."""
    return [dict(row) for row in result.energy_by_tensor_rows()]


def plot_energy(result: Result, ax: Axes | None = None) -> Axes:
    """Draw the energy of one mapping [pJ/MAC] as a bar for each component, outermost first, stacked by tensor.

    Parameters
    ----------
    result : Result
    ax : matplotlib Axes, optional
        Where to draw; by default axes of a new figure (`ax.figure`).

    Returns
    -------
    Axes
    """
    return _styled(_draw_energy, result, ax)


def _draw_energy(result: Result, ax: Axes) -> None:
    rows = energy_table(result)
    components = list(dict.fromkeys(row["component"] for row in rows))
    tensors = list(dict.fromkeys(network.tensor for network in result.networks))
    output = next((network.tensor for network in result.networks if network.distinct_up), "")
    colours = {**tensor_colours(tensors, output), "": OTHER_COLOUR}
    values = {(row["component"], row["tensor"]): row["pj_per_mac"] for row in rows}
    below = [0.0] * len(components)
    for tensor in (*tensors, ""):
        heights = [values.get((component, tensor), 0.0) for component in components]
        if any(heights):
            label = tensor or "other (compute, leakage)"
            ax.bar(range(len(components)), heights, 0.7, below, color=colours[tensor], label=label)
        below = [a + b for a, b in zip(below, heights, strict=True)]
    for index, (top, component) in enumerate(zip(below, components, strict=True)):
        share = sum(row["share"] for row in rows if row["component"] == component)
        ax.annotate(percent(share), (index, top), (0, 2), textcoords="offset points", ha="center", fontsize=8)
    names = [component.replace(" network", "\nnetwork") for component in components]
    crowded = max(map(len, "\n".join(names).split("\n"))) * len(names) > 70
    ax.set_xticks(range(len(names)), names, rotation=30 if crowded else 0, ha="right" if crowded else "center")
    ax.grid(axis="x", visible=False)
    ax.set_ylim(0, 1.08 * max(below))
    ax.set_xlabel("component, outermost first; above each bar its share of the energy")
    ax.set_ylabel("energy [pJ/MAC]")
    ax.set_title(f"{result.workload} on {result.architecture}: {result.pj_per_mac:.4g} pJ/MAC", pad=22)
    ax.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=len(tensors) + 1, borderpad=0.2, columnspacing=1.2)


def spread_table(search: SearchResult) -> list[dict[str, Any]]:
    """Rows of `plot_spread`: bins of energy [pJ/MAC], few enough to see, and the valid mappings in each.

    Bins of the search are put together, never split.
    """
    macs = search.best.macs
    return [
        {"from_pj_per_mac": low / macs, "to_pj_per_mac": high / macs, "mappings": mappings}
        for low, high, mappings in _sample(search).spread.histogram(_MOST_BARS)
    ]


def _sample(search: SearchResult) -> Sample:
    if search.sample is None:
        raise AccelsimError(
            "an exact search sees classes of mappings, not each one; for a spread or a curve search with "
            "method='random' or 'exhaustive'"
        )
    return search.sample


def plot_spread(search: SearchResult, ax: Axes | None = None) -> Axes:
    """Draw a histogram of the energies [pJ/MAC] of all valid mappings that a search saw, on logarithmic axes.

    Parameters
    ----------
    search : SearchResult
    ax : matplotlib Axes, optional
        Where to draw; by default axes of a new figure (`ax.figure`).

    Returns
    -------
    Axes
    """
    return _styled(_draw_spread, search, ax)


def _draw_spread(search: SearchResult, ax: Axes) -> None:
    rows = spread_table(search)
    spread, best = _sample(search).spread, search.best
    edges = [row["from_pj_per_mac"] for row in rows] + [rows[-1]["to_pj_per_mac"]]
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.stairs([row["mappings"] for row in rows], edges, fill=True, color=OTHER_COLOUR, baseline=0.5)
    ax.set_ylim(0.6, max(10, 2 * max(row["mappings"] for row in rows)))
    ax.axvline(best.pj_per_mac, color=_BEST_COLOUR, linewidth=1.5)
    label = "lowest energy" if search.objective == "energy" else f"best {search.objective}"
    left_half = best.pj_per_mac**2 < edges[0] * edges[-1]
    ax.annotate(
        f"{label}: {best.pj_per_mac:.4g} pJ/MAC",
        (best.pj_per_mac, 1),
        (5 if left_half else -5, -2),
        ("data", "axes fraction"),
        textcoords="offset points",
        color=_BEST_COLOUR,
        ha="left" if left_half else "right",
        va="top",
    )
    _plain_log_ticks(ax.xaxis, edges[0], edges[-1])
    _plain_log_ticks(ax.yaxis, 1, max(10, *(row["mappings"] for row in rows)))
    ax.set_xlabel("energy [pJ/MAC]")
    ax.set_ylabel("valid mappings")
    which = "all valid mappings: {}" if search.stop == "exhausted" else "valid mappings seen: {}"
    ax.set_title(
        f"{best.workload} on {best.architecture}\n{which.format(f'{spread.valid:,}')}, max/min {times(spread.ratio)}"
    )


def _plain_log_ticks(axis: Axis, low: float, high: float) -> None:
    """Write the numbers of a logarithmic axis out, enough of them even within one decade."""
    if high < 3 * low:
        axis.set_major_locator(MaxNLocator(5))
    else:
        axis.set_major_locator(LogLocator(subs=(1.0,) if high > 300 * low else (1.0, 2.0, 5.0), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}" if value < 1e6 else f"{value:.3g}"))
    axis.set_minor_formatter(NullFormatter())


def curve_table(search: SearchResult) -> list[dict[str, Any]]:
    """Rows of `plot_curve`: after how many mappings the best so far fell to what value of the objective.

    Energy is in pJ/MAC, any other objective as the search has it.
    """
    each = search.best.macs if search.objective == "energy" else 1
    sample = _sample(search)
    rows = [{"mappings": seen, "best": value / each} for seen, value in sample.curve]
    if rows and rows[-1]["mappings"] < sample.seen:
        rows.append({"mappings": sample.seen, "best": rows[-1]["best"]})
    return rows


def plot_curve(search: SearchResult, ax: Axes | None = None) -> Axes:
    """Draw the best value of the objective over the number of mappings seen.

    Parameters
    ----------
    search : SearchResult
    ax : matplotlib Axes, optional
        Where to draw; by default axes of a new figure (`ax.figure`).

    Returns
    -------
    Axes
    """
    return _styled(_draw_curve, search, ax)


def _draw_curve(search: SearchResult, ax: Axes) -> None:
    rows = curve_table(search)
    seed = f", seed {search.seed}" if search.method == "random" else ""
    ax.step(
        [row["mappings"] for row in rows], [row["best"] for row in rows], where="post", label=f"{search.method}{seed}"
    )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("mappings seen")
    _plain_log_ticks(ax.xaxis, rows[0]["mappings"], rows[-1]["mappings"])
    _plain_log_ticks(ax.yaxis, rows[-1]["best"], rows[0]["best"])
    unit = _UNITS.get(search.objective)
    ax.set_ylabel(f"best {search.objective}" + (f" [{unit}]" if unit else ""))
    ax.set_title(f"{search.best.workload} on {search.best.architecture}: best so far")
    ax.legend()


def front_table(front: FrontResult) -> list[dict[str, Any]]:
    """Rows of `plot_front`: energy [pJ], cycles and the other columns of each point, in order."""
    return [dict(row) for row in front.rows()]


def plot_front(front: FrontResult, ax: Axes | None = None) -> Axes:
    """Draw the points of a Pareto front: energy [pJ/MAC] over cycles where these are columns; colour is a third column.

    No mapping lies below the line; where the search was stopped early, none that was seen does.

    Parameters
    ----------
    front : FrontResult
    ax : matplotlib Axes, optional
        Where to draw; by default axes of a new figure (`ax.figure`).

    Returns
    -------
    Axes
    """
    return _styled(_draw_front, front, ax)


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


def _draw_front(front: FrontResult, ax: Axes) -> None:
    first = front.points[0]
    y, x, *third = _front_axes(front)
    across = [values[x] / _each(front, x) for values in front.values]
    up = [values[y] / _each(front, y) for values in front.values]
    steps: list[tuple[float, float]] = []
    for point in sorted(zip(across, up, strict=True)):
        if not steps or point[1] < steps[-1][1]:
            steps.append(point)
    for axis, values in ((ax.xaxis, across), (ax.yaxis, up)):
        _front_scale(ax, axis, values)
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    line = [(steps[0][0], top), *steps, (right, steps[-1][1])]
    xs, ys = [at for at, _ in line], [at for _, at in line]
    ax.fill_between([left, *xs], [top, *ys], bottom, step="post", color="#EEEEEE", linewidth=0, zorder=0.5)
    ax.step(xs, ys, where="post", color=OTHER_COLOUR, linewidth=1.2, zorder=2)
    size = 34 if len(up) <= 40 else 16
    if third:
        shade = [values[third[0]] for values in front.values]
        low, high = min(shade), max(shade)
        norm = LogNorm(low, high) if low > 0 and high > 3 * low else Normalize(low, high if high > low else low + 1)
        marks = ax.scatter(
            across, up, size, c=shade, norm=norm, cmap="viridis_r", edgecolors="black", linewidths=0.5, zorder=3
        )
        bar = ax.figure.colorbar(marks, ax=ax, label=_front_label(front, third[0]))
        if isinstance(norm, LogNorm):
            _plain_log_ticks(bar.ax.yaxis, low, high)
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    else:
        ax.scatter(across, up, size, color="black", zorder=3)
    empty = "no mapping is here (proved)" if front.stop == "exhausted" else "no mapping seen here"
    corner = {"xy": (1, 0), "xytext": (-6, 6), "ha": "right"} if third else {"xy": (0, 0), "xytext": (6, 6)}
    ax.annotate(empty, **corner, xycoords="axes fraction", textcoords="offset points", color="#666666", fontsize=8)
    _mark_ends(ax, front, across, up)
    ax.set_xlabel(_front_label(front, x))
    ax.set_ylabel(_front_label(front, y))
    complete = "" if front.stop == "exhausted" else ", not complete"
    points = f"{len(up):,} point{'s' if len(up) > 1 else ''}"
    ax.set_title(f"{first.workload} on {first.architecture}\nPareto front: {points}{complete}")


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
            color=_BEST_COLOUR,
            fontsize=8.5,
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


def _front_scale(ax: Axes, axis: Axis, values: list[float]) -> None:
    """Logarithmic where values differ by more than a factor of 3, with room around them."""
    low, high = min(values), max(values)
    if low > 0 and high > 3 * low:
        (ax.set_xscale if axis is ax.xaxis else ax.set_yscale)("log")
        limits = low / (high / low) ** 0.2, high * (high / low) ** 0.22
        _plain_log_ticks(axis, low, high)
    else:
        room = (high - low) or abs(high) or 1.0
        limits = low - 0.2 * room, high + 0.22 * room
        axis.set_major_locator(MaxNLocator(5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    (ax.set_xlim if axis is ax.xaxis else ax.set_ylim)(*limits)


def _tick(value: float) -> str:
    """Number at a tick.

    Examples
    --------
    >>> _tick(11_050_000.0), _tick(2000.0), _tick(6.64), _tick(3e11)
    ('11.05M', '2k', '6.64', '300G')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.5g}{letter}"
    return f"{value:.5g}"


def _styled(draw: Callable[[Any, Axes], None], data: Any, ax: Axes | None) -> Axes:
    """Draw with accelsim's style and leave the caller's settings as they are."""
    with matplotlib.rc_context(fname=_STYLE):
        axes = Figure().add_subplot() if ax is None else ax
        draw(data, axes)
    return axes


def figure_bytes(ax: Axes) -> dict[str, bytes]:
    """Figure of some axes as `png` and `svg`; equal figures give equal bytes."""
    figure = ax.figure
    found = {}
    with matplotlib.rc_context(fname=_STYLE):
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            with io.BytesIO() as file:
                figure.savefig(file, format=kind, metadata=metadata)  # type: ignore[union-attr]
                found[kind] = file.getvalue()
    return found
