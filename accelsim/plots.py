"""Figures: energy by component and tensor, the spread of energies over a map space, and best-so-far curves.

`x_table` makes the rows, `plot_x` draws them. Colour means tensor: blue weights, orange inputs, green outputs.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from accelsim.report.text import OTHER_COLOUR, percent, tensor_colours, times
from accelsim.result import Result, SearchResult

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
        for low, high, mappings in search.spread.histogram(_MOST_BARS)
    ]


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
    spread, best = search.spread, search.best
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
    rows = [{"mappings": seen, "best": value / each} for seen, value in search.curve]
    if rows and rows[-1]["mappings"] < search.seen:
        rows.append({"mappings": search.seen, "best": rows[-1]["best"]})
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
