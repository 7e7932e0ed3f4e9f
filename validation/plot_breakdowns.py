"""The energy breakdown of the Eyeriss dataflow study, published and ours."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from accelsim.show.plots import drawing, put_title
from validation.eyeriss import FREE, ROWS
from validation.eyeriss_isca import COMPONENTS, Breakdown

_NAMES = dict(zip(COMPONENTS, ("MACs", "DRAM", "buffer", "array", "register files"), strict=True))
_COLOURS = dict(zip(COMPONENTS, ("#444444", "#D55E00", "#E69F00", "#56B4E9", "#0072B2"), strict=True))
_WIDTH = 0.27


def plot_breakdowns(breakdowns: Sequence[Breakdown], ax: Axes | None = None) -> Axes:
    """Stack the energy of each layer by component: as published (hatched), best row-stationary, best of all.

    Parameters
    ----------
    breakdowns : sequence of Breakdown
    ax : matplotlib Axes, optional
        Where to draw; by default axes of a new figure (`ax.figure`).

    Returns
    -------
    Axes
        Energy in 10^9 MACs. Of buffer and array nothing was published.
    """
    with drawing(ax) as ax:
        shown: set[str] = set()
        for at, found in enumerate(breakdowns):
            bars = [
                ("published", found.published),
                *((name, found.ours[name]) for name in (ROWS, FREE) if name in found.ours),
            ]
            for number, (name, energies) in enumerate(bars):
                x, below = at + (number - (len(bars) - 1) / 2) * _WIDTH, 0.0
                for component in COMPONENTS:
                    energy = energies.get(component, 0.0)
                    label = _NAMES[component] if name != "published" and component not in shown else None
                    shown |= {component} if label else set()
                    ax.bar(
                        x,
                        energy,
                        0.92 * _WIDTH,
                        bottom=below,
                        color=_COLOURS[component],
                        alpha=0.55 if name == "published" else 1.0,
                        hatch="////" if name == "published" else None,
                        edgecolor="white",
                        linewidth=0.3,
                        label=label,
                    )
                    below += energy
                ax.text(x, below, {"published": "P", ROWS: "R", FREE: "A"}[name], ha="center", va="bottom", fontsize=6)
        ax.set_xticks(range(len(breakdowns)), [found.layer for found in breakdowns])
        ax.set_ylabel("energy [$10^9$ MACs]")
        put_title(
            ax,
            "AlexNet, batch 16, on the machine of the Eyeriss study",
            "P published, without buffer and array; R best row-stationary; A best of all mappings",
            legend=True,
        )
    return ax
