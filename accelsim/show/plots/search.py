"""Figures of searches: the energies of the mappings that one saw, and best-so-far curves of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from accelsim.inputs.errors import AccelsimError
from accelsim.search.result import Sample, SearchResult
from accelsim.show.plots.style import BEST_COLOUR, DARK, drawing, edges_of, plain_log_ticks, put_title
from accelsim.show.report.text import OTHER_COLOUR, times

_MOST_BARS = 60
_UNITS = {"energy": "pJ/MAC", "cycles": "cycles", "edp": "pJ x cycle"}
_LINES = {"random": "-", "exhaustive": "--"}
_GREYS = ("#000000", "#666666", "#999999", "#BBBBBB")


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


def plot_spread(search: SearchResult, ax: Axes | None = None, *, best: SearchResult | None = None) -> Axes:
    """Draw a histogram of the energies [pJ/MAC] of all valid mappings that a search saw, on logarithmic axes.

    Parameters
    ----------
    search : SearchResult
    best : SearchResult, optional
        Of an exact search of the same map space: its mapping is marked besides the best one seen.
    """
    with drawing(ax) as ax:
        rows, spread = spread_table(search), _sample(search).spread
        edges = edges_of(rows)
        ax.set(xscale="log", yscale="log")
        ax.stairs([row["mappings"] for row in rows], edges, fill=True, color=OTHER_COLOUR, baseline=0.5)
        ax.set_ylim(0.6, max(10, 2 * max(row["mappings"] for row in rows)))
        marks = [(_best_seen(search), search.best.pj_per_mac, DARK if best else BEST_COLOUR, "--" if best else "-")]
        if best is not None:
            proved = best.certificate is not None and best.certificate.proved
            marks.insert(0, (_exact_name(proved), best.best.pj_per_mac, BEST_COLOUR, "-"))
        for name, at, colour, line in marks:
            factor = "" if at == marks[0][1] else f" ({times(at / marks[0][1])})"
            ax.axvline(at, color=colour, linestyle=line, linewidth=1.5, label=f"{name}: {at:.4g} pJ/MAC{factor}")
        plain_log_ticks(ax.xaxis, min(edges[0], marks[0][1]), edges[-1])
        plain_log_ticks(ax.yaxis, 1, max(10, *(row["mappings"] for row in rows)))
        ax.set(xlabel="energy [pJ/MAC]", ylabel="valid mappings")
        which = "all valid mappings: {}" if search.stop == "exhausted" else "valid mappings seen: {}"
        names = f"{search.best.workload} on {search.best.architecture}"
        put_title(ax, names, which.format(f"{spread.valid:,}"), f"max/min {times(spread.ratio)}", legend=True)
    return ax


def _best_seen(search: SearchResult) -> str:
    """What the best mapping is called that a search came to, which looked at mappings one by one."""
    label = "lowest energy" if search.objective == "energy" else f"best {search.objective}"
    return label if search.stop == "exhausted" else f"{label} seen"


def _exact_name(proved: bool) -> str:
    """What the best mapping of an exact search is called."""
    return "optimum (proved)" if proved else "best of exact search"


def curve_table(searches: SearchResult | Sequence[SearchResult]) -> list[dict[str, Any]]:
    """Rows of `plot_curve`: after how many mappings the best so far fell to what value of the objective.

    Energy is in pJ/MAC, any other objective as the search has it. An exact search has one row, with None for the
    mappings, and with what no mapping can be below as `bound`.
    """
    found: list[dict[str, Any]] = []
    for name, search in _named(searches):
        each = search.best.macs if search.objective == "energy" else 1
        proof, sample = search.certificate, search.sample
        if sample is not None:
            rows = [(seen, value / each) for seen, value in sample.curve]
            if rows and rows[-1][0] < sample.seen:
                rows.append((sample.seen, rows[-1][1]))
            found += [{"search": name, "mappings": seen, "best": best, "bound": None} for seen, best in rows]
        elif proof is not None:
            found.append({"search": name, "mappings": None, "best": proof.value / each, "bound": proof.bound / each})
    return found


def _named(searches: SearchResult | Sequence[SearchResult]) -> list[tuple[str, SearchResult]]:
    """Searches with a name for each, all of one objective; at least one of them saw single mappings."""
    found = [searches] if isinstance(searches, SearchResult) else list(searches)
    if not any(search.sample for search in found):
        _sample(found[0])
    objectives = sorted({search.objective for search in found})
    if len(objectives) > 1:
        raise AccelsimError(
            f"searches for {' and '.join(objectives)} have no axis in common; draw each objective alone"
        )
    return [
        (search.method + (f", seed {search.seed}" if search.method == "random" else ""), search) for search in found
    ]


def plot_curve(searches: SearchResult | Sequence[SearchResult], ax: Axes | None = None) -> Axes:
    """Draw the best value of the objective over the number of mappings seen, and what an exact search proved.

    Parameters
    ----------
    searches : SearchResult or sequence of SearchResult
        For one objective. An exact one among them is drawn as the line that no curve falls below.
    """
    with drawing(ax) as ax:
        named, rows = _named(searches), curve_table(searches)
        ax.set(xscale="log", yscale="log")
        curves = [(name, search) for name, search in named if search.sample is not None]
        for number, (name, search) in enumerate(curves):
            own, line, grey = curve_table(search), _LINES.get(search.method, "-"), _GREYS[number % len(_GREYS)]
            seen, best = [row["mappings"] for row in own], [row["best"] for row in own]
            ax.step(seen, best, line, where="post", color=grey, label=name)
        for row in (row for row in rows if row["bound"] is not None):
            proved = row["best"] <= row["bound"] * (1 + 1e-10)
            label = f"{_exact_name(proved)}: {row['best']:.4g}"
            ax.axhline(row["best"], color=BEST_COLOUR, linewidth=1.5, label=label)
            if not proved and row["bound"] > 0:
                ax.axhline(row["bound"], color=BEST_COLOUR, linestyle=":", label=f"lower bound: {row['bound']:.4g}")
        values = [value for row in rows for value in (row["best"], row["bound"]) if value]
        seen = [row["mappings"] for row in rows if row["mappings"]]
        plain_log_ticks(ax.xaxis, min(seen), max(seen))
        plain_log_ticks(ax.yaxis, min(values), max(values))
        first = named[0][1]
        unit = _UNITS.get(first.objective)
        ax.set_xlabel("mappings seen")
        ax.set_ylabel(f"best {first.objective}" + (f" [{unit}]" if unit else ""))
        put_title(ax, f"{first.best.workload} on {first.best.architecture}: best so far", legend=True)
    return ax
