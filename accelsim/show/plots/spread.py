"""Figures of a spread: how the energies of all valid mappings are spread, also over cycles, words or utilization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LogNorm
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from accelsim.inputs.errors import AccelsimError
from accelsim.show import plots as style
from accelsim.show.plots import BEST_COLOUR, DARK
from accelsim.show.report import OTHER_COLOUR, large, times
from accelsim.show.report.search import sample_words

if TYPE_CHECKING:
    from accelsim.model.encode import Floats
    from accelsim.model.result import Result
    from accelsim.population.result import Spread

_BAND = "#CCCCCC"
_BAND_LABEL = "95 % confidence"
_NEAR = 0.01
"""How far above the lowest energy a histogram says how many mappings there are."""


def histogram_table(spread: Spread, bins: int = 60) -> list[dict[str, Any]]:
    """Rows of `plot_histogram`: bins of log energy [pJ/MAC] and the share of all valid mappings in each.

    The bins go from the lowest energy to the highest one found. `share` is estimated from the uniform sample;
    `share_low` and `share_high` are the ends of its 95 % confidence interval, `sampled` counts the mappings drawn.
    """
    edges = _edges(spread, bins)
    bins = len(edges) - 1
    inside = np.clip(np.searchsorted(edges, spread.sample.energy_pj / spread.macs, side="right") - 1, 0, bins - 1)
    shares = [spread.sample.share(inside == number) for number in range(bins)]
    return [
        {
            "from_pj_per_mac": float(edges[number]), "to_pj_per_mac": float(edges[number + 1]),
            "sampled": int((inside == number).sum()), "share": share.value, "share_low": share.low,
            "share_high": share.high,
        }
        for number, share in enumerate(shares)
    ]  # fmt: skip


def refuse_zero_energy(spread: Spread) -> None:
    """Raise AccelsimError if a mapping costs nothing: a logarithmic axis cannot show it."""
    if spread.range_of("energy").lowest <= 0:
        raise AccelsimError(
            f"{spread.architecture} has mappings of 0 pJ; a logarithmic axis of energy cannot show them"
        )


def _edges(spread: Spread, bins: int) -> Floats:
    """Edges [pJ/MAC] of bins of equal width in log energy; one bin where all mappings cost the same."""
    refuse_zero_energy(spread)
    found = spread.range_of("energy")
    low, high = found.lowest / spread.macs, found.highest / spread.macs
    if high <= low * (1 + 1e-9):
        return np.array([low * 0.99, low * 1.01])
    return np.geomspace(low, high, bins + 1)


def marks_table(spread: Spread) -> list[dict[str, Any]]:
    """Energies [pJ/MAC] that figures of a spread mark, with the ends of their 95 % confidence intervals.

    The optimum is exact; `lowest known` where it is not proved, with a `low` that no mapping falls below. Median and
    mean of all valid mappings are estimated. The highest is that of the mappings found.
    """
    found, sample, macs = spread.range_of("energy"), spread.sample, spread.macs
    median, mean = sample.quantile("energy", 0.5), sample.mean("energy")
    rows = [
        (_lowest(spread), found.lowest, found.lowest_bound, found.lowest),
        ("median", median.value, median.low, median.high),
        ("mean", mean.value, mean.low, mean.high),
        ("highest known", found.highest, found.highest, found.highest),
    ]
    return [
        {"mark": mark, "pj_per_mac": at / macs, "low": low / macs, "high": high / macs} for mark, at, low, high in rows
    ]


def _lowest(spread: Spread) -> str:
    """What the lowest energy of a spread is called."""
    return "optimum (even)" if spread.range_of("energy").lowest_proved else "lowest known"


def plot_histogram(spread: Spread, ax: Axes | None = None) -> Axes:
    """Draw how many of all valid mappings have what energy [pJ/MAC], with the optimum, median, mean and highest.

    Shares are estimated from a uniform sample; the band holds each with 95 % confidence (Wilson's interval), also where
    no mapping was drawn.
    """
    with style.drawing(ax) as ax:
        rows = histogram_table(spread)
        edges = style.edges_of(rows)
        bottom = 0.3 / len(spread.sample)
        ax.set(xscale="log", yscale="log")
        low, high = ([max(row[key], bottom) for row in rows] for key in ("share_low", "share_high"))
        bars = [max(row["share"], bottom) for row in rows]
        ax.stairs(bars, edges, fill=True, color=OTHER_COLOUR, baseline=bottom, label="estimated")
        ends = [*low, low[-1]], [*high, high[-1]]
        ax.fill_between(edges, *ends, step="post", color="black", alpha=0.25, linewidth=0, label=_BAND_LABEL)
        lines = ((BEST_COLOUR, "-"), (DARK, "-"), (DARK, "--"), (DARK, ":"))
        marks = marks_table(spread)
        for row, (colour, line) in zip(marks, lines, strict=True):
            factor = "" if row is marks[0] else f" ({times(row['pj_per_mac'] / marks[0]['pj_per_mac'])})"
            label = f"{row['mark']} {row['pj_per_mac']:.4g}{factor}"
            ax.axvline(row["pj_per_mac"], color=colour, linestyle=line, linewidth=1.4, label=label)
        if spread.whole is not None and spread.whole.best.energy_pj < spread.range_of("energy").lowest * (1 - 1e-9):
            least = spread.whole.best.energy_pj / spread.macs
            label = f"best, uneven or with remainders {least:.4g}"
            ax.axvline(least, color=BEST_COLOUR, linestyle="--", linewidth=1.4, label=label)
        for near in sorted(spread.near, key=lambda near: abs(near.share - _NEAR))[:1]:
            at_least = "" if near.complete else "at least "
            label = f"{at_least}{large(near.mappings)} within {100 * near.share:.3g} %"
            ax.axvspan(edges[0], edges[0] * (1 + near.share), color=BEST_COLOUR, alpha=0.3, linewidth=0, label=label)
        top = max(row["share_high"] for row in rows)
        ax.set_ylim(bottom, 1.3 * top)
        style.plain_log_ticks(ax.xaxis, edges[0], edges[-1])
        style.plain_log_ticks(ax.yaxis, bottom, top)
        style.share_ticks(ax.yaxis)
        ax.set(xlabel="energy [pJ/MAC]", ylabel="share of the mappings, per bin")
        style.put_title(ax, *heads(spread), legend=True)
    return ax


def heads(spread: Spread) -> tuple[str, str, str]:
    """What a figure of one spread says above: what was mapped, all mappings, and how many were drawn."""
    names = f"{spread.workload} on {spread.architecture}"
    about = "" if spread.exact else "about "
    return names, f"{about}{large(spread.mappings)} valid even mappings", f"sampled: {sample_words(spread.sample)}"


def best_median_worst(spread: Spread) -> dict[str, Result]:
    """The best and the worst mapping, or those known, and one of the median energy, for `plot_stacks`."""
    sample, found = spread.sample, spread.range_of("energy")
    median = sample.nearest("energy", sample.quantile("energy", 0.5).value)
    best = "best" if found.lowest_proved else "best known"
    return {best: spread.best, "median": sample.result(median), "worst known": found.highest_mapping}


def within_table(spread: Spread, points: int = 200) -> list[dict[str, Any]]:
    """Rows of `plot_within`: the share of all valid mappings whose energy is at most `factor` times the lowest.

    Those that are counted (`Spread.near`) are `exact`, and come first; the others are estimated from the uniform
    sample, with the ends of their 95 % confidence intervals.
    """
    refuse_zero_energy(spread)
    counted = sorted((near.share, near.mappings / spread.mappings) for near in spread.near if near.complete)
    rows: list[tuple[Any, ...]] = [(1 + above, share, share, share, True) for above, share in counted]
    above_lowest = spread.sample.energy_pj / spread.range_of("energy").lowest - 1
    for above in np.geomspace(_NEAR / 10, max(float(above_lowest.max()), _NEAR), points):
        share = spread.sample.share(above_lowest <= above * (1 + 1e-9))
        rows.append((1 + float(above), share.value, share.low, share.high, False))
    return [dict(zip(("factor", "share", "share_low", "share_high", "exact"), row, strict=True)) for row in rows]


def plot_within(spread: Spread, ax: Axes | None = None) -> Axes:
    """Draw which share of all valid mappings comes within a factor of the lowest energy.

    Both axes are logarithmic; that of the factor in what it is above 1, so that a percent can be seen.
    """
    with style.drawing(ax) as ax:
        rows = within_table(spread)
        exact = [row for row in rows if row["exact"] and row["factor"] > 1]
        drawn = [row for row in rows if not row["exact"]]
        least = [row["share"] / 3 for row in rows if row["share"] > 0 and row["exact"]]
        bottom = min([0.3 / len(spread.sample), *least])
        above = [row["factor"] - 1 for row in drawn]
        ax.set(xscale="log", yscale="log")
        low, high = ([max(row[key], bottom) for row in drawn] for key in ("share_low", "share_high"))
        ax.fill_between(above, low, high, color=_BAND, linewidth=0, label=_BAND_LABEL)
        seen = [row for row in drawn if row["share"] > 0]
        xs, ys = [row["factor"] - 1 for row in seen], [row["share"] for row in seen]
        ax.plot(xs, ys, color="black", label="estimated")
        if exact:
            dots = [row["factor"] - 1 for row in exact], [row["share"] for row in exact]
            ax.scatter(*dots, 26, color=BEST_COLOUR, label="counted", zorder=3)
        left, right = min([above[0], *(row["factor"] - 1 for row in exact)]), above[-1]
        ax.set_xlim(left / 1.2, right * 1.2)
        ax.set_ylim(bottom, 2)
        style.plain_log_ticks(ax.yaxis, bottom, 1)
        style.share_ticks(ax.yaxis)
        _factor_ticks(ax, left, right)
        known = "" if spread.range_of("energy").lowest_proved else " known"
        ax.set(xlabel=f"energy / lowest energy{known}", ylabel="share of the mappings")
        style.put_title(ax, *heads(spread), legend=True)
    return ax


def _factor_ticks(ax: Axes, low: float, high: float) -> None:
    """Ticks at round factors, on an axis that shows what a factor is above 1: 1.01, 1.1, 2, 10."""
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(1 + high)) + 1)
    factors = [10.0**power if power > 0 else 2.0 if power == 0 else 1 + 10.0**power for power in powers]
    between = [step * 10.0**power + (power < 0) for power in powers for step in range(2, 10)]
    ax.xaxis.set_major_locator(FixedLocator([factor - 1 for factor in factors]))
    ax.xaxis.set_minor_locator(FixedLocator([factor - 1 for factor in between]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{1 + value:,.6g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def compare_table(spreads: Sequence[Spread]) -> list[dict[str, Any]]:
    """Rows of `plot_compare`: for each map space its mappings and energies [pJ/MAC].

    `lowest` and `highest` are those found, and `lowest` is exact where `marks_table` says optimum; quantiles are
    estimates of those of all valid mappings.
    """
    names = style.names_of([(spread.workload, spread.architecture) for spread in spreads])
    rows = []
    for name, spread in zip(names, spreads, strict=True):
        found, sample, macs = spread.range_of("energy"), spread.sample, spread.macs
        energies = {"lowest": found.lowest / macs}
        energies |= {f"p{share}": sample.quantile("energy", share / 100).value / macs for share in (5, 25, 50, 75, 95)}
        about = {"name": name, "workload": spread.workload, "architecture": spread.architecture}
        counts = {"mappings": spread.mappings, "sampled": len(sample)}
        rows.append({**about, **counts, **energies, "highest": found.highest / macs})
    return rows


def plot_compare(spreads: Sequence[Spread], ax: Axes | None = None) -> Axes:
    """Draw the energies [pJ/MAC] of all valid mappings of layers, on architectures, side by side, with each optimum.

    The height of a violin is the share of the mappings in a bin of log energy, each violin on its own scale.
    """
    with style.drawing(ax, 1.3 + 0.6 * len(spreads)) as ax:
        rows = compare_table(spreads)
        for spread in spreads:
            refuse_zero_energy(spread)
        low, high = min(row["lowest"] for row in rows), max(row["highest"] for row in rows)
        ax.set_xscale("log")
        decades = math.log10(high / low) if high > low else 1.0
        for place, (row, spread) in enumerate(zip(rows, spreads, strict=True)):
            own = math.log10(row["highest"] / row["lowest"]) if row["highest"] > row["lowest"] else 0.0
            table = histogram_table(spread, max(8, round(70 * own / decades)))
            most = max(bin_["share"] for bin_ in table)
            edges = style.edges_of(table)
            half = [0.32 * bin_["share"] / most for bin_ in table]
            up, down = ([place + 0.12 + sign * at for at in (*half, half[-1])] for sign in (-1, 1))
            label = "" if place else "share of the mappings"
            ax.fill_between(edges, up, down, step="post", color=_BAND, linewidth=0, zorder=1.5, label=label)
            ax.plot([row["lowest"], row["highest"]], [place + 0.12] * 2, color=OTHER_COLOUR, linewidth=0.8, zorder=1.6)
            middle = [row["p25"], row["p75"]]
            ax.plot(middle, [place + 0.12] * 2, color=DARK, linewidth=4, solid_capstyle="butt", zorder=2)
            name, at = f"{row['name']}: {large(row['mappings'])} mappings", ("axes fraction", "data")
            ax.annotate(name, (0, place - 0.5), (3, -2), at, textcoords="offset points", va="top", fontsize="small")
        lowest = " or ".join(sorted({_lowest(spread) for spread in spreads}, reverse=True))
        places = [place + 0.12 for place in range(len(rows))]
        median, ends = [row["p50"] for row in rows], [row["lowest"] for row in rows]
        ax.scatter(median, places, 22, color="white", edgecolors="black", label="median", zorder=3)
        ax.scatter(ends, places, 30, color=BEST_COLOUR, marker="D", label=lowest, zorder=3)
        ax.plot([], [], color=DARK, linewidth=4, label="25 to 75 %")
        ax.set_yticks([])
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.spines["left"].set_visible(False)
        style.plain_log_ticks(ax.xaxis, low, high)
        ax.set_xlabel("energy [pJ/MAC]")
        head = "Energy of all valid even mappings"
        alike = (("of", {row["workload"] for row in rows}), ("on", {row["architecture"] for row in rows}))
        one = [f"{word} {names.pop()}" for word, names in alike if len(names) == 1]
        style.put_title(ax, " ".join([head, *one]), legend=True)
    return ax


COLUMNS = ("cycles", "offchip_words", "utilization")
"""What the energy can be drawn over."""


def density_table(spread: Spread, over: str = "cycles", bins: int = 60) -> list[dict[str, Any]]:
    """Rows of `plot_density`: the cells of log energy [pJ/MAC] and of the log of a column that hold mappings drawn.

    `share` is the share of all valid mappings in the cell, estimated from the uniform sample.
    """
    refuse_zero_energy(spread)
    sample = spread.sample
    energies, across = sample.energy_pj / spread.macs, sample.values(_known(over))
    marked = front_over_table(spread, over)
    rows, columns = (
        _log_edges([*values, *(row[key] for row in marked)], bins)
        for values, key in ((energies, "pj_per_mac"), (across, over))
    )
    counts, _, _ = np.histogram2d(energies, across, bins=(rows, columns))
    return [
        {
            "from_pj_per_mac": float(rows[i]), "to_pj_per_mac": float(rows[i + 1]), f"from_{over}": float(columns[j]),
            f"to_{over}": float(columns[j + 1]), "sampled": int(counts[i, j]),
            "share": float(counts[i, j]) / len(sample),
        }
        for i, j in np.argwhere(counts > 0).tolist()
    ]  # fmt: skip


def _known(over: str) -> str:
    if over not in COLUMNS:
        raise AccelsimError(f"energy is drawn over {', '.join(COLUMNS)}, not over '{over}'")
    return over


def _log_edges(values: list[float], bins: int) -> Floats:
    """Edges of bins of equal width in the logarithm, with a little room around the values."""
    low, high = min(values), max(values)
    return np.geomspace(low * (1 - 1e-9), max(high * (1 + 1e-9), low * 1.01), bins + 1)


def front_over_table(spread: Spread, over: str = "cycles") -> list[dict[str, Any]]:
    """Points that `plot_density` draws: energy [pJ/MAC] and the column it is drawn over.

    Over cycles and utilization these are the Pareto front of energy and cycles: utilization is a constant over cycles.
    Where the front is not complete, they are the best mappings known.
    Over off-chip words, of which the spread has no front, they are the mappings of lowest energy and of fewest words.
    """
    if _known(over) != "offchip_words":
        return [{"pj_per_mac": point.pj_per_mac, over: getattr(point, over)} for point in spread.front.points]
    ends = spread.best, spread.range_of(over).lowest_mapping
    return [{"pj_per_mac": end.pj_per_mac, over: end.offchip_words} for end in ends]


def plot_density(spread: Spread, over: str = "cycles", ax: Axes | None = None) -> Axes:
    """Draw the energy [pJ/MAC] of all valid mappings over another column, as a density, with the exact optima on top.

    Over `cycles` and `utilization` the Pareto front is drawn as a line that no mapping lies below, or, where it is not
    complete, the best mappings known as dots. `offchip_words` are words read and written at the outermost level.
    """
    words = f"words moved at {spread.best.levels[0].level}"
    with style.drawing(ax) as ax:
        rows, marked = density_table(spread, over), front_over_table(spread, over)
        ax.set(xscale="log", yscale="log")
        _draw_cells(rows, over, len(spread.sample), ax)
        xs, ys = zip(*sorted((row[over], row["pj_per_mac"]) for row in marked), strict=True)
        if over != "offchip_words" and spread.front.stop == "exhausted":
            ax.step(xs, ys, where="post" if over == "cycles" else "pre", color=BEST_COLOUR, linewidth=1.2)
        ax.scatter(xs, ys, 18, color=BEST_COLOUR, label=_label(spread, over), zorder=3)
        for axis, column, points in ((ax.xaxis, over, xs), (ax.yaxis, "pj_per_mac", ys)):
            values = [*points, *(row[f"{side}_{column}"] for row in rows for side in ("from", "to"))]
            low, high = min(values), max(values)
            room = (high / low) ** 0.04
            style.set_limits(axis, low / room, high * room)
            style.plain_log_ticks(axis, low, high)
        if over != "utilization":
            style.short_ticks(ax.xaxis)
        ax.set_xlabel({"cycles": "cycles", "offchip_words": words, "utilization": "overall utilization"}[over])
        ax.set_ylabel("energy [pJ/MAC]")
        style.put_title(ax, *heads(spread), legend=True)
    return ax


def _label(spread: Spread, over: str) -> str:
    """What is drawn on top of the density, and whether it is proved."""
    if over == "offchip_words":
        proved = all(spread.range_of(column).lowest_proved for column in ("energy", over))
        return f"lowest energy, fewest words ({'proved' if proved else 'of those known'})"
    if spread.front.stop == "exhausted":
        return "Pareto front (proved, even)"
    return "best known; the Pareto front is not complete"


def _draw_cells(rows: list[dict[str, Any]], over: str, drawn: int, ax: Axes) -> None:
    """Draw each cell as a rectangle whose grey is its share, and a bar that says which grey is which share."""
    around = (("from", "from"), ("to", "from"), ("to", "to"), ("from", "to"))
    corners = [[(row[f"{a}_{over}"], row[f"{b}_pj_per_mac"]) for a, b in around] for row in rows]
    shares = np.array([row["share"] for row in rows])
    norm = LogNorm(0.2 / drawn, max(float(shares.max()), 1 / drawn))
    cells = PolyCollection(corners, array=shares, norm=norm, cmap="Greys", edgecolors="face", linewidths=0.3)
    ax.add_collection(cells)
    bar = ax.figure.colorbar(cells, ax=ax, label="share of the mappings, per cell", pad=0.02)
    bar.ax.set_ylim(0.9 / drawn, norm.vmax)
    style.plain_log_ticks(bar.ax.yaxis, 1 / drawn, float(shares.max()))
    style.share_ticks(bar.ax.yaxis)
    bar.ax.minorticks_off()
