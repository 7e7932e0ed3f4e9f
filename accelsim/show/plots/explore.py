"""Figures of sweeps: the Pareto front among all designs, and what each parameter does."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from accelsim.inputs.expression import quantity
from accelsim.inputs.units import si_scale
from accelsim.show import plots as style
from accelsim.show.plots import BEST_COLOUR, DARK
from accelsim.show.report import OTHER_COLOUR, energy_scale
from accelsim.show.report.tables import NAMES

Rows = Sequence[Mapping[str, Any]]
_LEFT_OUT = "#56B4E9"


def axis_of(column: str, values: Iterable[float]) -> tuple[str, float]:
    """Label of the axis of a column, and what one of its unit is in the column's: the largest value chooses the unit.

    >>> axis_of("energy_pj", [3.4e10, 4.2e10]), axis_of("time_s", [1.6, 0.3]), axis_of("area_um2", [2.1e6])
    (('energy [mJ]', 1000000000.0), ('time [s]', 1.0), ('area [mm2]', 1000000.0))
    >>> axis_of("edp_pj_cycles", [4.6e17]), axis_of("cycles", [88e6])
    (('EDP [1e15 pJ x cycle]', 1000000000000000.0), ('cycles', 1.0))
    """
    name, largest = NAMES[column], max(values, default=1.0) or 1.0
    if column == "cycles":
        return name, 1.0
    if column == "energy_pj":
        scale, unit = energy_scale(largest)
    elif column == "area_um2":
        scale, unit = 1e6, "mm2"
    elif column == "edp_pj_cycles":
        scale = 10.0 ** (3 * math.floor(math.log10(largest) / 3)) if largest >= 1e6 else 1.0
        unit = "pJ x cycle" if scale == 1.0 else f"1e{math.log10(scale):.0f} pJ x cycle"
    else:
        scale, unit = si_scale(largest, {"time_s": "s", "power_w": "W"}[column])
    return f"{name} [{unit}]", scale


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
    """Columns across and up: of two objectives the second and the first; beside a single one, the cycles or energy."""
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
        label, scale = axis_of(column, [row["mean"] for row in table])
        table = [{**row, "least": row["least"] / scale, "mean": row["mean"] / scale} for row in table]
        places: list[float] = []
        texts: list[str] = []
        x, names = 0.0, list(dict.fromkeys(row["parameter"] for row in table))
        for number, name in enumerate(names):
            own = [row for row in table if row["parameter"] == name]
            xs = [x + i for i in range(len(own))]
            first = number == 0
            ax.plot(xs, [row["mean"] for row in own], color=OTHER_COLOUR, marker="o", markersize=3,
                    label="mean (geometric) of the designs with the value" if first else None)  # fmt: skip
            ax.plot(xs, [row["least"] for row in own], color=BEST_COLOUR, marker="o", markersize=4,
                    label="least of them" if first else None)  # fmt: skip
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
        ax.set_ylabel(label)
        style.put_title(ax, about["name"], f"{NAMES[column]} over each parameter", legend=bool(table), above=12)
    return ax


PLOTTED = {"front": plot_designs_front, "sensitivity": plot_sensitivity}
