"""Figures of studies: ours over what was published."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from accelsim.errors import AccelsimError
from accelsim.plots.style import DARK, plain_log_ticks, put_title, styled
from accelsim.validation import Study

_MARKERS = "osD^vP*X<>"
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#444444")
"""Okabe-Ito."""
_NARROW = 0.02
"""Errors up to this are drawn on an axis that is at least so wide."""


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
    """Draw ours over the published figure, for each figure of a study over its published value.

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
    if not study_table(study):
        raise AccelsimError(f"{study.name}: no figure above 0 to draw")
    return styled(lambda axes: _draw_study(study, axes), ax)


def _draw_study(study: Study, ax: Axes) -> None:
    rows = study_table(study)
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["quantity"], row["unit"], row["variant"]), []).append(row)
    ax.set_xscale("log")
    ax.axhline(1.0, color=DARK, linewidth=1.0)
    for number, ((quantity, unit, variant), members) in enumerate(groups.items()):
        name = f"{quantity} [{unit}]" if unit else quantity
        ax.plot(
            [row["published"] for row in members],
            [row["ratio"] for row in members],
            linestyle="none",
            marker=_MARKERS[number % len(_MARKERS)],
            color=_COLOURS[number % len(_COLOURS)],
            markersize=4,
            alpha=0.8,
            label=f"{name}, {variant}" if variant else name,
        )
    ratios = [row["ratio"] for row in rows]
    low, high = min(*ratios, 1 - _NARROW), max(*ratios, 1 + _NARROW)
    if high > 2 or low < 0.5:
        ax.set_yscale("log")
        plain_log_ticks(ax.yaxis, low, high)
        ax.set_ylim(low / 1.1, high * 1.1)
    else:
        ax.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    published = [row["published"] for row in rows]
    plain_log_ticks(ax.xaxis, min(published), max(published))
    ax.set_xlabel("published")
    ax.set_ylabel("ours / published")
    put_title(ax, study.name, study.about, legend=True)
