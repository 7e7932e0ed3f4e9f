"""Predicted over measured times."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from accelsim.gpu.constants import Floats
from accelsim.show import plots as style
from accelsim.show.plots import DARK

COLOURS = ("#0072B2", "#E69F00")
"""Okabe-Ito: blue, orange."""


def plot_measured(title: str, found: Mapping[str, tuple[Floats, Floats]], unit: str, ax: Axes | None = None) -> Axes:
    """Draw predicted over measured times of some sets, with lines of equality and of a quarter off."""
    with style.drawing(ax) as ax:
        every = np.concatenate([measured for measured, _ in found.values()])
        ends = np.array([float(every.min()), float(every.max())])
        ax.plot(ends, ends, color=DARK, linewidth=0.8, zorder=0)
        for factor in (0.8, 1.25):
            ax.plot(ends, ends * factor, ":", color=DARK, linewidth=0.6, zorder=0)
        size, strength = (2, 0.4) if len(every) > 5000 else (9, 0.6)
        for (name, pair), colour in zip(found.items(), COLOURS, strict=False):
            ax.scatter(*pair, s=size, color=colour, linewidths=0, alpha=strength, rasterized=True, label=name or None)
        ax.set(xscale="log", yscale="log", xlabel=f"measured [{unit}]", ylabel=f"predicted [{unit}]")
        for axis in (ax.xaxis, ax.yaxis):
            style.plain_log_ticks(axis, *ends)
            style.short_ticks(axis)
        style.put_title(ax, f"{title} (dotted: a quarter off)", legend=len(found) > 1)
    return ax
