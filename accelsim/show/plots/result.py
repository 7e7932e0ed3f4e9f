"""Figures of one mapping, or of a few beside each other: energy by component and tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from accelsim.model.result import Result
from accelsim.show.plots.style import letters_over, points, put_title, styled, width_in, wrapped
from accelsim.show.report.text import OTHER_COLOUR, percent, tensor_colours, times

_OTHER = "other (compute, leakage)"
_PERCENT = 8
"""Letters of the share beside a bar, at most."""


def energy_table(result: Result) -> list[dict[str, Any]]:
    """Rows of `plot_energy`: energy [pJ] and [pJ/MAC] by component, outermost first, and tensor (none: all else)."""
    return [dict(row) for row in result.energy_by_tensor_rows()]


def plot_energy(result: Result, ax: Axes | None = None) -> Axes:
    """Draw the energy of one mapping [pJ/MAC] as a bar for each component, outermost first, stacked by tensor."""
    return styled(lambda axes: _draw_energy(result, axes), ax)


def result_colours(result: Result) -> dict[str, str]:
    """Colour of each tensor of a result."""
    tensors = list(dict.fromkeys(network.tensor for network in result.networks))
    output = next((network.tensor for network in result.networks if network.distinct_up), "")
    return tensor_colours(tensors, output)


class _Stack(NamedTuple):
    """Bars of one tensor, one for each component: where they begin, and how long they are [pJ/MAC]."""

    label: str
    colour: str
    begin: list[float]
    length: list[float]


def _stacks(rows: Sequence[Mapping[str, Any]], components: Sequence[str], colours: Mapping[str, str]) -> list[_Stack]:
    """Bars by tensor, each on top of those of the tensors before it; last what belongs to none."""
    values = {(row["component"], row["tensor"]): row["pj_per_mac"] for row in rows}
    found, begin = [], [0.0] * len(components)
    for tensor, colour in {**colours, "": OTHER_COLOUR}.items():
        length = [values.get((component, tensor), 0.0) for component in components]
        found.append(_Stack(tensor or _OTHER, colour, begin, length))
        begin = [a + b for a, b in zip(begin, length, strict=True)]
    return found


def _shares(rows: Sequence[Mapping[str, Any]], components: Sequence[str]) -> list[tuple[float, str]]:
    """For each component its energy [pJ/MAC], and its share in words."""
    found = []
    for component in components:
        own = [row for row in rows if row["component"] == component]
        found.append((sum(row["pj_per_mac"] for row in own), percent(sum(row["share"] for row in own)) if own else ""))
    return found


def _draw_energy(result: Result, ax: Axes) -> None:
    rows = energy_table(result)
    components = list(dict.fromkeys(row["component"] for row in rows))
    for stack in _stacks(rows, components, result_colours(result)):
        if any(stack.length):
            ax.bar(range(len(components)), stack.length, 0.7, stack.begin, color=stack.colour, label=stack.label)
    shares = _shares(rows, components)
    for index, (top, share) in enumerate(shares):
        ax.annotate(share, (index, top), (0, 2), textcoords="offset points", ha="center", fontsize="small")
    names = [component.replace(" network", "\nnetwork") for component in components]
    crowded = max(map(len, "\n".join(names).split("\n"))) * len(names) > 14 * width_in(ax)
    ax.set_xticks(range(len(names)), names, rotation=30 if crowded else 0, ha="right" if crowded else "center")
    ax.grid(axis="x", visible=False)
    ax.set_ylim(0, 1.08 * max(top for top, _ in shares))
    ax.set_xlabel(wrapped(ax, "component, outermost first; above each bar its share of the energy"))
    ax.set_ylabel("energy [pJ/MAC]")
    put_title(ax, f"{result.workload} on {result.architecture}: {result.pj_per_mac:.4g} pJ/MAC", legend=True)


def stacks_table(results: Mapping[str, Result]) -> list[dict[str, Any]]:
    """Rows of `plot_stacks`: those of `energy_table` for each mapping, under its name."""
    return [{"mapping": name, **row} for name, result in results.items() for row in energy_table(result)]


def plot_stacks(results: Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """Draw the energy of several mappings [pJ/MAC] beside each other, by component and tensor, each on its own scale.

    Parameters
    ----------
    results : mapping of str to Result
        By name, such as `best`, `median` and `worst`; on machines with the same levels. Factors are against the first.

    Returns
    -------
    Axes
        With one inset axes for each mapping (`ax.child_axes`).
    """
    return styled(lambda axes: _draw_stacks(results, axes), ax, 2.8)


def _draw_stacks(results: Mapping[str, Result], ax: Axes) -> None:
    rows, first = stacks_table(results), next(iter(results.values()))
    drawn = {row["component"] for row in rows}
    order = [name for level in first.levels for name in (level.level, f"{level.level} network")] + [first.compute]
    components = [name for name in order if name in drawn]
    colours = result_colours(first)
    ax.spines[:].set_visible(False)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.grid(visible=False)
    gap = 0.06
    wide = (1 - gap * (len(results) - 1)) / len(results)
    letters = wide * letters_over(ax, 0.83 * points("font.size"))
    for number, (name, result) in enumerate(results.items()):
        inset = ax.inset_axes((number * (wide + gap), 0, wide, 1))
        own = [row for row in rows if row["mapping"] == name]
        _draw_bars(inset, own, components, colours, letters=letters, named=number == 0)
        factor = "" if result is first else f" ({times(result.pj_per_mac / first.pj_per_mac)})"
        inset.tick_params(labelsize="small")
        inset.set_title(f"{name}\n{result.pj_per_mac:.4g}{factor}", fontsize="medium")
    for stack in _stacks(rows, components, colours):
        ax.bar([0], [0], color=stack.colour, label=stack.label)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_xlabel(wrapped(ax, "energy [pJ/MAC], each mapping on its own scale"), labelpad=20)
    put_title(ax, f"{first.workload} on {first.architecture}", legend=True, above=26)


def _draw_bars(
    ax: Axes,
    rows: Sequence[Mapping[str, Any]],
    components: Sequence[str],
    colours: Mapping[str, str],
    *,
    letters: float,
    named: bool,
) -> None:
    """Draw one mapping as horizontal bars, the outermost component on top, on axes that are some letters wide."""
    for stack in _stacks(rows, components, colours):
        ax.barh(range(len(components)), stack.length, 0.7, stack.begin, color=stack.colour)
    shares = _shares(rows, components)
    most = max(top for top, _ in shares)
    for index, (top, share) in enumerate(shares):
        ax.annotate(share, (top, index), (2, 0), textcoords="offset points", va="center", fontsize="small")
    ax.set_yticks(range(len(components)), components if named else [""] * len(components))
    ax.set_ylim(len(components) - 0.5, -0.5)
    ax.set_xlim(0, most / (1 - min(0.6, _PERCENT / letters)))
    ax.xaxis.set_major_locator(MaxNLocator(3))
    ax.grid(axis="y", visible=False)
