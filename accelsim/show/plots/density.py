"""Figures of a census: energy over cycles, words or utilization, as a density of all valid mappings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LogNorm

from accelsim.inputs.errors import AccelsimError
from accelsim.show.plots.census import heads, refuse_zero_energy
from accelsim.show.plots.style import BEST_COLOUR, drawing, plain_log_ticks, put_title, set_limits, short_ticks

if TYPE_CHECKING:
    from accelsim.model.encode import Floats
    from accelsim.population.result import Census

COLUMNS = ("cycles", "outer_words", "utilization")
"""What the energy can be drawn over."""


def density_table(census: Census, over: str = "cycles", bins: int = 60) -> list[dict[str, Any]]:
    """Rows of `plot_density`: the cells of log energy [pJ/MAC] and of the log of a column that hold mappings drawn.

    `share` is the share of all valid mappings in the cell, estimated from the uniform sample.
    """
    refuse_zero_energy(census)
    sample = census.sample
    energies, across = sample.energy_pj / census.macs, sample.values(_known(over))
    marked = front_over_table(census, over)
    rows, columns = (
        _edges([*values, *(row[key] for row in marked)], bins)
        for values, key in ((energies, "pj_per_mac"), (across, over))
    )
    counts, _, _ = np.histogram2d(energies, across, bins=(rows, columns))
    return [
        {
            "from_pj_per_mac": float(rows[i]),
            "to_pj_per_mac": float(rows[i + 1]),
            f"from_{over}": float(columns[j]),
            f"to_{over}": float(columns[j + 1]),
            "sampled": int(counts[i, j]),
            "share": float(counts[i, j]) / len(sample),
        }
        for i, j in np.argwhere(counts > 0).tolist()
    ]


def _known(over: str) -> str:
    if over not in COLUMNS:
        raise AccelsimError(f"energy is drawn over {', '.join(COLUMNS)}, not over '{over}'")
    return over


def _edges(values: list[float], bins: int) -> Floats:
    """Edges of bins of equal width in the logarithm, with a little room around the values."""
    low, high = min(values), max(values)
    return np.geomspace(low * (1 - 1e-9), max(high * (1 + 1e-9), low * 1.01), bins + 1)


def front_over_table(census: Census, over: str = "cycles") -> list[dict[str, Any]]:
    """Points that `plot_density` draws: energy [pJ/MAC] and the column it is drawn over.

    Over cycles and utilization these are the Pareto front of energy and cycles: utilization is a constant over cycles.
    Where the front is not complete, they are the best mappings known.
    Over outer words, of which the census has no front, they are the mappings of lowest energy and of fewest words.
    """
    if _known(over) != "outer_words":
        return [{"pj_per_mac": point.pj_per_mac, over: getattr(point, over)} for point in census.front.points]
    ends = census.best, census.range_of(over).lowest_mapping
    return [{"pj_per_mac": end.pj_per_mac, over: end.outer_words} for end in ends]


def plot_density(census: Census, over: str = "cycles", ax: Axes | None = None) -> Axes:
    """Draw the energy [pJ/MAC] of all valid mappings over another column, as a density, with the exact optima on top.

    Parameters
    ----------
    census : Census
    over : {"cycles", "outer_words", "utilization"}
        Over cycles and utilization the Pareto front is drawn as a line that no mapping lies below, or, where it is not
        complete, the best mappings known as dots. `outer_words` are storage words read and written at the outermost
        level.
    """
    with drawing(ax) as ax:
        rows, marked = density_table(census, over), front_over_table(census, over)
        ax.set(xscale="log", yscale="log")
        _draw_cells(rows, over, len(census.sample), ax)
        points = sorted((row[over], row["pj_per_mac"]) for row in marked)
        xs, ys = [x for x, _ in points], [y for _, y in points]
        if over != "outer_words" and census.front.stop == "exhausted":
            ax.step(xs, ys, where="post" if over == "cycles" else "pre", color=BEST_COLOUR, linewidth=1.2)
        ax.scatter(xs, ys, 18, color=BEST_COLOUR, label=_label(census, over), zorder=3)
        ends = [[*xs, *(row[f"{side}_{over}"] for row in rows for side in ("from", "to"))],
                [*ys, *(row[f"{side}_pj_per_mac"] for row in rows for side in ("from", "to"))]]  # fmt: skip
        for axis, values in zip((ax.xaxis, ax.yaxis), ends, strict=True):
            low, high = min(values), max(values)
            room = (high / low) ** 0.04
            set_limits(axis, low / room, high * room)
            plain_log_ticks(axis, low, high)
        if over != "utilization":
            short_ticks(ax.xaxis)
        outermost = census.best.levels[0].level
        words = f"words moved at {outermost}"
        ax.set_xlabel({"cycles": "cycles", "outer_words": words, "utilization": "overall utilization"}[over])
        ax.set_ylabel("energy [pJ/MAC]")
        put_title(ax, *heads(census), legend=True)
    return ax


def _label(census: Census, over: str) -> str:
    """What is drawn on top of the density, and whether it is proved."""
    if over == "outer_words":
        proved = all(census.range_of(column).lowest_proved for column in ("energy", over))
        return f"lowest energy, fewest words ({'proved' if proved else 'of those known'})"
    of_all = " of all valid mappings" if census.only_fully_used else ""
    if census.front.stop == "exhausted":
        return f"Pareto front{of_all} (proved)"
    return f"best known{of_all}; the Pareto front is not complete"


def _draw_cells(rows: list[dict[str, Any]], over: str, drawn: int, ax: Axes) -> None:
    """Draw each cell as a rectangle whose grey is its share, and a bar that says which grey is which share."""
    corners = [
        [
            (row[f"{a}_{over}"], row[f"{b}_pj_per_mac"])
            for a, b in (("from", "from"), ("to", "from"), ("to", "to"), ("from", "to"))
        ]
        for row in rows
    ]
    shares = np.array([row["share"] for row in rows])
    norm = LogNorm(0.2 / drawn, max(float(shares.max()), 1 / drawn))
    cells = PolyCollection(corners, array=shares, norm=norm, cmap="Greys", edgecolors="face", linewidths=0.3)
    ax.add_collection(cells)
    bar = ax.figure.colorbar(cells, ax=ax, label="share of the mappings, per cell", pad=0.02)
    bar.ax.set_ylim(0.9 / drawn, norm.vmax)
    plain_log_ticks(bar.ax.yaxis, 1 / drawn, float(shares.max()))
    bar.ax.minorticks_off()
