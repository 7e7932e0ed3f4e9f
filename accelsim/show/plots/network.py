"""Figures of a network: energy and cycles of each layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from accelsim.model.result import Result
from accelsim.show.plots.style import letters_beside, put_title, styled, tick, width_in
from accelsim.show.report.text import energy, energy_scale

_COLOURS = ("#56B4E9", "#CC79A7", "#F0E442", "#D55E00", "#000000", "#777777")
"""Of storage levels and their networks, outermost first: Okabe-Ito without the colours of tensors."""
_COMPUTE = "#BBBBBB"


def network_table(results: Sequence[tuple[int, Result]]) -> list[dict[str, Any]]:
    """Rows of `plot_network`: for each layer and component energy [pJ] and cycles, all runs of the layer together.

    `bottleneck` marks the component whose cycles are those of the layer; a network between levels takes none.
    """
    rows = []
    for repeat, result in results:
        cycles = {row["component"]: row for row in result.cycle_rows()}
        spent: dict[str, float] = {}
        for row in result.energy_rows():
            spent[row["component"]] = spent.get(row["component"], 0.0) + row["energy_pj"]
        for component in dict.fromkeys([*spent, *cycles]):
            rows.append(
                {
                    "layer": result.workload,
                    "component": component,
                    "energy_pj": repeat * spent.get(component, 0.0),
                    "cycles": repeat * cycles[component]["cycles"] if component in cycles else 0,
                    "bottleneck": component in cycles and cycles[component]["bottleneck"],
                }
            )
    return rows


def plot_network(network: str, machine: str, results: Sequence[tuple[int, Result]], ax: Axes | None = None) -> Axes:
    """Draw energy and cycles of each layer of a network, as often as it occurs.

    The energy is stacked by level, outermost first; a bar of cycles has the colour of the component that needs them.

    Parameters
    ----------
    network, machine : str
        Names, for the title.
    results : sequence of (int, Result)
        Each layer with how often it occurs.

    Returns
    -------
    Axes
        With one inset axes for the energy and one for the cycles (`ax.child_axes`).
    """
    return styled(lambda axes: _draw(network, machine, results, axes), ax, 4.8)


def _draw(network: str, machine: str, results: Sequence[tuple[int, Result]], ax: Axes) -> None:
    rows = network_table(results)
    layers = [result.workload for _, result in results]
    colours = component_colours(
        results[0][1], {row["component"] for row in rows if row["energy_pj"] or row["bottleneck"]}
    )
    above, below = panels(ax, 0.47, 0.47)
    _draw_energy(above, rows, layers, colours)
    _draw_cycles(below, rows, layers, colours)
    for component, colour in colours.items():
        ax.bar(
            [0], [0], color=colour, label=f"{component} (compute)" if component == results[0][1].compute else component
        )
    total_pj = sum(row["energy_pj"] for row in rows)
    cycles = sum(row["cycles"] for row in rows if row["bottleneck"])
    put_title(ax, f"{network} on {machine}", energy(total_pj), f"{tick(cycles)} cycles", legend=True)


def panels(ax: Axes, above: float, below: float) -> tuple[Axes, Axes]:
    """Two axes, one above the other, with these shares of the height; `ax` itself shows its title and legend only."""
    ax.spines[:].set_visible(False)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.grid(visible=False)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    return ax.inset_axes((0, 1 - above, 1, above)), ax.inset_axes((0, 0, 1, below))


def component_colours(result: Result, drawn: set[str]) -> dict[str, str]:
    """Colour of each component that is drawn, outermost first."""
    order = [name for level in result.levels for name in (level.level, f"{level.level} network")]
    names = [name for name in order if name in drawn]
    found = {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(names)}
    return {**found, result.compute: _COMPUTE}


def _draw_energy(
    ax: Axes, rows: Sequence[Mapping[str, Any]], layers: Sequence[str], colours: Mapping[str, str]
) -> None:
    values = {(row["layer"], row["component"]): row["energy_pj"] for row in rows}
    most = max(sum(values.get((layer, component), 0.0) for component in colours) for layer in layers)
    scale, unit = energy_scale(most)
    begin = [0.0] * len(layers)
    for component, colour in colours.items():
        heights = [values.get((layer, component), 0.0) / scale for layer in layers]
        ax.bar(range(len(layers)), heights, 0.8, begin, color=colour)
        begin = [a + b for a, b in zip(begin, heights, strict=True)]
    ax.set_ylabel(f"energy [{unit}]")
    ax.set_xticks(range(len(layers)), [""] * len(layers))
    ax.yaxis.set_major_locator(MaxNLocator(5))
    frame_bars(ax, len(layers))


def _draw_cycles(
    ax: Axes, rows: Sequence[Mapping[str, Any]], layers: Sequence[str], colours: Mapping[str, str]
) -> None:
    slowest = {row["layer"]: row for row in rows if row["bottleneck"]}
    heights = [slowest[layer]["cycles"] for layer in layers]
    ax.bar(range(len(layers)), heights, 0.8, color=[colours[slowest[layer]["component"]] for layer in layers])
    ax.set_ylabel("cycles")
    ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    step = max(1, round(len(layers) * 2.4 / letters_beside(ax, "xtick.labelsize") + 0.49))
    named = range(0, len(layers), step)
    longest = 22 if width_in(ax) > 4 else 14
    shown = [layers[i] if len(layers[i]) <= longest else layers[i][: longest - 1] + "…" for i in named]
    ax.set_xticks(named, shown, rotation=90)
    frame_bars(ax, len(layers))


def frame_bars(ax: Axes, bars: int) -> None:
    """Give bars at 0, 1, 2 … room at both ends, and no lines between them."""
    ax.set_xlim(-0.6, bars - 0.4)
    ax.grid(axis="x", visible=False)
