"""Figures of searches and sweeps: Pareto fronts, parameters."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.patheffects import withStroke

from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.expression import quantity
from accelsim.inputs.units import format_bits
from accelsim.search.result import FrontResult
from accelsim.show import plots as style
from accelsim.show.plots import BEST_COLOUR, DARK, PALE
from accelsim.show.report import OTHER_COLOUR, SPARE_COLOURS
from accelsim.show.report.tables import COSTS

_GREYS = ("#000000", "#666666", "#999999", "#BBBBBB")


def front_table(front: FrontResult) -> list[dict[str, Any]]:
    """Rows of `plot_front`: energy [pJ], cycles and the other columns of each point, in order."""
    return [dict(row) for row in front.rows()]


def plot_front(front: FrontResult, ax: Axes | None = None) -> Axes:
    """Draw the points of a Pareto front: energy [pJ/MAC] over cycles where these are columns; colour is a third column.

    No mapping lies below the line. Where the search was stopped early there is none: the points are the best known.
    """
    with style.drawing(ax) as ax:
        first = front.points[0]
        y, x, *third = _front_axes(front)
        across = [values[x] / _each(front, x) for values in front.values]
        up = [values[y] / _each(front, y) for values in front.values]
        for axis, values in ((ax.xaxis, across), (ax.yaxis, up)):
            low, high = min(values), max(values)
            if style.fit_scale(axis, values, 0.2, 0.22):
                style.set_limits(axis, low / (high / low) ** 0.2, high * (high / low) ** 0.22)
            else:
                style.even_ticks(axis)
            style.short_ticks(axis)
        size = 34 if len(up) <= 40 else 16
        if third:
            shade = [values[third[0]] for values in front.values]
            low, high = min(shade), max(shade)
            log = style.wide_range(low, high)
            norm = LogNorm(low, high) if log else Normalize(low, high if high > low else low + 1)
            marks = ax.scatter(
                across, up, size, c=shade, norm=norm, cmap="viridis_r", edgecolors="black", linewidths=0.5, zorder=3
            )
            bar = ax.figure.colorbar(marks, ax=ax, label=_front_label(front, third[0]))
            if log:
                style.plain_log_ticks(bar.ax.yaxis, low, high)
            style.short_ticks(bar.ax.yaxis)
        else:
            ax.scatter(across, up, size, color="black", zorder=3)
        if front.stop == "exhausted":
            _draw_line(ax, across, up, front.space.kind, corner=bool(third))
            _mark_ends(ax, front, across, up)
        ax.set(xlabel=_front_label(front, x), ylabel=_front_label(front, y))
        points = f"{len(up):,} point{'s' if len(up) > 1 else ''}"
        what = [f"Pareto front: {points}"]
        if front.stop != "exhausted":
            what = [f"best known: {points}", "the Pareto front is not complete"]
        style.put_title(ax, f"{first.workload} on {first.architecture}", *what)
    return ax


def _front_axes(front: FrontResult) -> list[int]:
    """Columns in the order of y, x and colour: energy goes up where it is one, cycles to the right."""
    order = sorted(range(len(front.columns)), key=lambda i: front.columns[i] != "energy")
    cycles = [i for i in order if front.columns[i] == "cycles"]
    y, *rest = [i for i in order if i not in cycles]
    return [y, *cycles, *rest]


def _draw_line(ax: Axes, across: list[float], up: list[float], kind: str, *, corner: bool) -> None:
    """Draw the line of a complete front, and say that no mapping of a kind is below it; `corner`: on the right."""
    steps = style.lower_steps(zip(across, up, strict=True))
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    line = [(steps[0][0], top), *steps, (right, steps[-1][1])]
    xs, ys = [at for at, _ in line], [at for _, at in line]
    ax.fill_between([left, *xs], [top, *ys], bottom, step="post", color=PALE, linewidth=0, zorder=0.5)
    ax.step(xs, ys, where="post", color=OTHER_COLOUR, linewidth=1.2, zorder=2)
    empty = "\n".join(textwrap.wrap(f"no {kind} mapping is here (proved)", style.letters_beside(ax, "font.size") // 2))
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
            (", " if crowded else ",\n").join(said), (across[at], up[at]),
            (-6 if far else 6, -5 - 11 * row * crowded if below else 5), textcoords="offset points",
            ha="right" if far else "left", va="top" if below else "bottom", color=BEST_COLOUR,
            fontsize=style.points("legend.fontsize"), path_effects=[withStroke(linewidth=2, foreground="white")],
            zorder=4,
        )  # fmt: skip


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


Rows = Sequence[Mapping[str, Any]]
_LEFT_OUT = "#56B4E9"


def axis_of(column: str, values: Iterable[float]) -> tuple[str, float]:
    """Label of the axis of a column, and what one of its unit is in the column's: the largest value chooses the unit.

    >>> axis_of("energy_pj", [3.4e10, 4.2e10]), axis_of("time_s", [1.6, 0.3]), axis_of("area_um2", [2.1e6])
    (('energy [mJ]', 1000000000.0), ('time [s]', 1.0), ('area [mm2]', 1000000.0))
    >>> axis_of("edp_pj_cycles", [4.6e17]), axis_of("cycles", [88e6])
    (('EDP [1e15 pJ*cycle]', 1000000000000000.0), ('cycles', 1.0))
    """
    cost = COSTS[column]
    scale, unit = cost.unit(max(values, default=1.0) or 1.0)
    return f"{cost.name} [{unit}]" if unit else cost.name, scale


def cells(rows: Rows, column: str) -> list[float]:
    """Values of a column, where there are any."""
    return [float(row[column]) for row in rows if row[column] is not None]


def designs_front_table(rows: Rows, about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of `plot_designs_front`: each design with the first two objectives, in their columns' units, and what it is.

    `kind` is `front`, `dominated`, or `pruned`; then the values are bounds. Other designs are left out.
    """
    columns = two_costs(about)
    found = []
    for row in rows:
        kind = "front" if row["front"] else {"mapped": "dominated", "pruned": "pruned"}.get(row["status"], "")
        names = [f"bound_{name}" if kind == "pruned" and f"bound_{name}" in row else name for name in columns]
        values = [row.get(name) for name in names]
        if kind and all(value is not None for value in values):
            found.append({"design": row["design"], "kind": kind, "across": values[0], "up": values[1]})
    return found


def two_costs(about: Mapping[str, Any]) -> tuple[str, str]:
    """Columns across and up: those of `axes`; else of two objectives the second and the first.

    Beside a single objective there are the cycles or energy.
    """
    if "axes" in about:
        across, up = about["axes"]
        return across, up
    columns = list(about["columns"])
    if len(columns) == 1:
        columns.append("energy_pj" if columns[0] == "cycles" else "cycles")
    if "area_um2" in columns:  # a resource goes across, a cost up
        return "area_um2", next(name for name in columns if name != "area_um2")
    return columns[1], columns[0]


def plot_designs_front(rows: Rows, about: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Draw all designs in two objectives, with the front of these among the mapped ones, and bounds of pruned ones.

    `rows` are those of the table of designs; `about` is what sweep.json holds.
    """
    if about.get("joint") and len(about["columns"]) > 1:
        return _plot_joint_front(rows, about, ax)
    with style.drawing(ax) as ax:
        table = designs_front_table(rows, about)
        for direction, axis, column in zip(("across", "up"), (ax.xaxis, ax.yaxis), two_costs(about), strict=True):
            label, scale = axis_of(column, [row[direction] for row in table])
            table = [{**row, direction: row[direction] / scale} for row in table]
            if table:
                style.fit_scale(axis, [row[direction] for row in table])
            axis.set_label_text(label)
        looks = {
            "pruned": ("bound of a pruned design", _LEFT_OUT, "v", 12),
            "dominated": ("dominated", OTHER_COLOUR, "o", 12),
            "front": (f"front in {', '.join(about['objectives'])}", BEST_COLOUR, "o", 26),
        }
        for order, (kind, (label, colour, marker, size)) in enumerate(looks.items()):
            chosen = [row for row in table if row["kind"] == kind]
            if chosen:
                xs, ys = [row["across"] for row in chosen], [row["up"] for row in chosen]
                ax.scatter(
                    xs, ys, size, color=colour, marker=marker, label=f"{label} ({len(chosen):,})", zorder=2 + order
                )
        steps = style.lower_steps((row["across"], row["up"]) for row in table if row["kind"] != "pruned")
        if steps:
            ax.step([x for x, _ in steps], [y for _, y in steps], where="post", color=DARK, linewidth=1.0, zorder=1.5)
        style.put_title(ax, about["name"], f"{len(rows):,} designs", legend=bool(table))
    return ax


_UP_FIRST = ("energy_pj", "edp_pj_cycles", "cycles", "time_s", "area_um2")


def _plot_joint_front(rows: Rows, about: Mapping[str, Any], ax: Axes | None) -> Axes:
    """Draw the points of a joint front in two objectives; colour is a third one."""
    with style.drawing(ax) as ax:
        best = [row for row in rows if row["front"]]
        columns = sorted(about["columns"], key=_UP_FIRST.index)
        across, up = about.get("axes", (columns[1], columns[0]))
        third = [column for column in columns if column not in (across, up)]
        found = {column: [float(row[column]) for row in best] for column in (up, across, *third[:1])}
        for axis, column in ((ax.xaxis, across), (ax.yaxis, up)):
            label, scale = axis_of(column, found[column])
            found[column] = [value / scale for value in found[column]]
            style.fit_scale(axis, found[column])
            axis.set_label_text(label)
        shade: dict[str, Any] = {"color": BEST_COLOUR}
        if third:
            label, scale = axis_of(third[0], found[third[0]])
            values = [value / scale for value in found[third[0]]]
            shade = {"c": values, "norm": LogNorm(min(values), max(values)), "cmap": "viridis_r"}
        marks = ax.scatter(found[across], found[up], 14, linewidths=0, **shade)
        if third:
            bar = ax.figure.colorbar(marks, ax=ax, label=label)
            style.plain_log_ticks(bar.ax.yaxis, min(values), max(values))
        joint, designs = about["joint"], len({row["design"] for row in best})
        proof = "proved" if joint["proved"] else "not proved"
        within = f" within {100 * joint['within']:g} %" if joint["within"] else ""
        of = f"{len(best):,} points of {designs:,} of {joint['designs']:,} designs"
        style.put_title(ax, f"{about['name']}: joint front, {proof}{within}", of)
    return ax


def varied_values(about: Mapping[str, Any]) -> dict[str, list[str]]:
    """Parameters with more than one value, and these from the least to the largest, texts in the sweep's order."""
    found = {}
    for name, values in about["parameters"].items():
        if len(values) > 1:
            kinds = {quantity(str(value))[1] for value in values}
            texts = len(kinds) > 1 or "text" in kinds
            found[name] = list(values) if texts else sorted(values, key=lambda value: quantity(str(value))[0])
    return found


def same_value(cell: Any, text: str) -> bool:
    """Whether a cell of the table of designs holds a value as it is written in the sweep."""
    return str(cell) == text or (not isinstance(cell, str) and quantity(text)[0] == cell)


def sensitivity_table(rows: Rows, about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of `plot_sensitivity`: for each value of each parameter the first objective of the mapped designs.

    `least` and `mean` (geometric), in the column's unit, and `designs` are over the mapped designs that have the
    value; a design that has the least value of all appears once for each of its parameters.
    """
    column, found = about["columns"][0], []
    for name, values in varied_values(about).items():
        for value in values:
            own = [float(row[column]) for row in rows if row["status"] == "mapped" and same_value(row[name], value)]
            if own:
                mean = math.exp(math.fsum(map(math.log, own)) / len(own)) if min(own) > 0 else 0.0
                found.append({"parameter": name, "value": value, "least": min(own), "mean": mean, "designs": len(own)})
    return found


def plot_sensitivity(rows: Rows, about: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Draw for each value of each parameter the least and the mean of the first objective over the other parameters."""
    with style.drawing(ax) as ax:
        table, column = sensitivity_table(rows, about), about["columns"][0]
        up, scale = axis_of(column, [row["mean"] for row in table])
        table = [{**row, "least": row["least"] / scale, "mean": row["mean"] / scale} for row in table]
        places: list[float] = []
        texts: list[str] = []
        x, names = 0.0, list(dict.fromkeys(row["parameter"] for row in table))
        mean = ("mean", OTHER_COLOUR, 3, "mean (geometric) of the designs with the value")
        lines = (mean, ("least", BEST_COLOUR, 4, "least of them"))
        for number, name in enumerate(names):
            own = [row for row in table if row["parameter"] == name]
            xs = [x + i for i in range(len(own))]
            for key, colour, size, said in lines:
                label = None if number else said
                ax.plot(xs, [row[key] for row in own], color=colour, marker="o", markersize=size, label=label)
            ax.annotate(
                name, ((xs[0] + xs[-1]) / 2, 1.0), (0, 2), xycoords=("data", "axes fraction"),
                textcoords="offset points", ha="center", fontweight="bold", fontsize=style.points("xtick.labelsize"),
            )  # fmt: skip
            places, texts = [*places, *xs], [*texts, *(row["value"] for row in own)]
            x = xs[-1] + 1.5
        values = [row[key] for row in table for key in ("least", "mean") if row[key] > 0]
        if values:
            style.fit_scale(ax.yaxis, values)
        crowded = max(map(len, texts), default=0) + 1 > style.letters_beside(ax, "xtick.labelsize") / max(1.0, x)
        ax.set_xticks(places, texts, rotation=90 if crowded else 0)
        ax.set_ylabel(up)
        style.put_title(ax, about["name"], f"{COSTS[column].name} over each parameter", legend=bool(table), above=12)
    return ax


def plot_bound(about: Mapping[str, Any], rows: Rows, ax: Axes | None = None) -> Axes:
    """Draw the least cost over the size of a level as steps, with its knees named and the present size marked."""
    with style.drawing(ax) as ax:
        goal = str(about["objective"])
        rows = [row for row in rows if row["size_bytes"] and row[goal]]
        if not rows:
            raise AccelsimError("{objective} is the same for every size of {level}: nothing to draw".format(**about))
        values = [row[goal] for row in rows]
        label, scale = "words at the outermost level", 1.0
        if goal != "offchip_words":
            label, scale = axis_of({"energy": "energy_pj"}.get(goal, goal), values)
        sizes, ups = [row["size_bytes"] for row in rows], [value / scale for value in values]
        ax.set(xscale="log", yscale="log")
        ax.step([*sizes, 2 * sizes[-1]], [*ups, ups[-1]], where="post", color=DARK)
        for size, up, row in zip(sizes, ups, rows, strict=True):
            if row["knee"]:
                ax.plot(size, up, "o", color=BEST_COLOUR, markersize=5)
                said = "\n".join([format_bits(8 * size), *(f"all {name}" for name in row["whole"])])
                ax.annotate(said, (size, up), (5, 4), textcoords="offset points", color=BEST_COLOUR)
        ax.axvline(about["present_bytes"], color=OTHER_COLOUR, linestyle=":")
        low, high = math.floor(math.log2(sizes[0])), math.ceil(math.log2(2 * sizes[-1]))
        ticks = [2**power for power in range(low, high + 1, max(1, -(-(high - low) // 8)))]
        ax.set_xticks(ticks, [format_bits(8 * tick) for tick in ticks])
        ax.minorticks_off()
        style.plain_log_ticks(ax.yaxis, min(ups), max(ups))
        ax.set(xlabel=f"size of {about['level']} (dotted: present)", ylabel=label)
        style.put_title(
            ax, "{layer} on {architecture}".format(**about), "no mapping lies below the line" * about["proved"]
        )
    return ax


_SAID = ("arch", "constraints", "objective")
"""What differs between runs and needs no name beside its value."""


def plot_runs(rows: Rows, varied: Sequence[str], what: str, objective: str, ax: Axes | None = None) -> Axes:
    """Draw the objective, or else the energy, over the values of what has most; what else differs has a line each."""
    with style.drawing(ax) as ax:
        key = "value" if objective else "energy_pj"
        over = max(varied, key=lambda name: len({row[name] for row in rows}))
        rows, others = [row for row in rows if row[key] is not None], [name for name in varied if name != over]
        column = {"": "energy_pj", "energy": "energy_pj", "cycles": "cycles", "edp": "edp_pj_cycles"}.get(objective)
        label, scale = axis_of(column, cells(rows, key)) if column else (objective, 1.0)
        texts = list(dict.fromkeys(str(row[over]) for row in rows))
        lines: dict[str, list[tuple[int, float]]] = {}
        for row in rows:
            name = ", ".join(f"{'' if other in _SAID else f'{other} '}{row[other]}" for other in others)
            lines.setdefault(name, []).append((texts.index(str(row[over])), row[key] / scale))
        colours = (BEST_COLOUR, *_GREYS[::2], *SPARE_COLOURS[:2])
        for (name, points), colour in zip(lines.items(), cycle(colours), strict=False):
            ax.plot(*zip(*points, strict=True), color=colour, marker="o", markersize=4, label=name or None)
        up = [row[key] / scale for row in rows]
        if rows and not style.fit_scale(ax.yaxis, up):
            ax.set_ylim(0, 1.08 * max(up))  # shares of the value are compared
        ax.set_xticks(range(len(texts)), texts)
        ax.set_xlabel("machine" if over == "arch" else over)
        ax.set_ylabel(label)
        style.put_title(ax, what, f"optimum over {ax.get_xlabel()}", legend=len(lines) > 1)
    return ax


PLOTTED = {"front": plot_designs_front, "sensitivity": plot_sensitivity}
