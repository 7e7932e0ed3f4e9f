"""Figures of studies: ours over what was published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from accelsim.inputs.errors import AccelsimError
from accelsim.show.plots import DARK, drawing, plain_log_ticks, put_title

if TYPE_CHECKING:
    from validation.study import Study

_MARKERS = "osD^vP*"
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#444444")
"""Okabe-Ito."""
_NARROW = 0.02
"""Errors up to this are drawn on an axis that is at least so wide."""
_ROW_IN, _AROUND_IN = 0.34, 1.9
"""Height of a quantity, and of title, legend and the axis below [inch]."""


def study_table(study: Study) -> list[dict[str, Any]]:
    """Rows of `plot_study`: each figure with ours over the published one; those published as 0 have no such ratio."""
    return [
        {
            "case": figure.case,
            "quantity": figure.quantity,
            "unit": figure.unit,
            "variant": figure.variant,
            "published": figure.published,
            "ours": figure.ours,
            "ratio": figure.ours / figure.published,
        }
        for figure in study.figures
        if figure.published > 0 and figure.ours > 0
    ]


def plot_study(study: Study, ax: Axes | None = None) -> Axes:
    """Draw ours over the published figure, a row for each quantity and a point for each figure of it.

    Parameters
    ----------
    study : Study
    ax : matplotlib Axes, optional
        Where to draw; by default axes of a new figure (`ax.figure`).

    Returns
    -------
    Axes

    Raises
    ------
    AccelsimError
        If no figure has a ratio.
    """
    rows = study_table(study)
    if not rows:
        raise AccelsimError(f"{study.name}: no figure above 0 to draw")
    height = _AROUND_IN + _ROW_IN * len(_names(rows))
    with drawing(ax, height) as ax:
        rows = study_table(study)
        names, variants = _names(rows), list(dict.fromkeys(row["variant"] for row in rows))
        ax.axvline(1.0, color=DARK, linewidth=1.0)
        beside = {
            name: [v for v in variants if any((_name(r), r["variant"]) == (name, v) for r in rows)] for name in names
        }
        for number, variant in enumerate(variants):
            members = [row for row in rows if row["variant"] == variant]
            ax.plot(
                [row["ratio"] for row in members],
                [names.index(_name(row)) + _shift(beside[_name(row)], variant) for row in members],
                linestyle="none",
                marker=_MARKERS[number % len(_MARKERS)],
                color=_COLOURS[number % len(_COLOURS)],
                markersize=3.5,
                alpha=0.7,
                label=variant or "ours",
            )
        ratios = [row["ratio"] for row in rows]
        low, high = min(*ratios, 1 - _NARROW), max(*ratios, 1 + _NARROW)
        if high > 2 or low < 0.5:
            ax.set_xscale("log")
            plain_log_ticks(ax.xaxis, low, high)
            ax.set_xlim(low / 1.1, high * 1.1)
        else:
            ax.set_xlim(low - 0.1 * (high - low), high + 0.1 * (high - low))
            ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_xlabel("ours / published")
        put_title(ax, f"{study.name}: ours over the published figure", legend=variants != [""])
    return ax


def _names(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Quantities with their units, in the order in which they first occur."""
    return list(dict.fromkeys(_name(row) for row in rows))


def _name(row: dict[str, Any]) -> str:
    return f"{row['quantity']} [{row['unit']}]" if row["unit"] else str(row["quantity"])


def _shift(variants: Sequence[str], variant: str) -> float:
    """How far a variant is drawn below the middle of its row."""
    return 0.6 * ((variants.index(variant) + 0.5) / len(variants) - 0.5)
