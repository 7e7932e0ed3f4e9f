"""Figure of the roofline of a machine with storage levels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from accelsim.inputs.architecture import Architecture
from accelsim.model.limits import Stand, peak_macs_per_cycle, ports
from accelsim.show.plots.style import DARK, plain_log_ticks, put_title, styled

_LEAST, _MAPPED = "#0072B2", "#D55E00"
_STYLES = ("-", "--", ":")


def plot_machine_roofline(architecture: Architecture, stands: Sequence[Stand], ax: Axes | None = None) -> Axes:
    """Draw layers under the roofline of the outermost level [MACs in a cycle over MACs for each byte].

    Parameters
    ----------
    architecture : Architecture
    stands : sequence of Stand
        Each with two marks and a line between them: at best (each word moved once), and as mapped.
    """

    def draw(axes: Axes) -> None:
        peak, outer = peak_macs_per_cycle(architecture), architecture.levels[0].name
        roofs = [port for port in ports(architecture) if port.level == outer]
        ridges = [peak / port.bytes_per_cycle for port in roofs]
        across = [value for stand in stands for value in (stand.least, stand.moved)] + ridges
        x = np.geomspace(min(across) / 2, max(across) * 2, 200)
        for port, style in zip(roofs, _STYLES, strict=False):
            axes.plot(x, np.minimum(peak, x * port.bytes_per_cycle), style, color=DARK, label=port.name)
        if not roofs:
            axes.axhline(peak, color=DARK, label="peak")
        for stand in stands:
            ends = [stand.moved, stand.least], [stand.reached, stand.roof]
            axes.plot(*ends, color=_MAPPED, linewidth=0.6, alpha=0.5)
        least = [stand.least for stand in stands], [stand.roof for stand in stands]
        mapped = [stand.moved for stand in stands], [stand.reached for stand in stands]
        axes.scatter(*least, s=22, facecolors="none", edgecolors=_LEAST, label="each word moved once", zorder=3)
        axes.scatter(*mapped, s=18, color=_MAPPED, label="as mapped", zorder=4)
        axes.set(xscale="log", yscale="log", xlabel=f"MACs for each byte of {outer}", ylabel="MACs in a cycle")
        for axis in (axes.xaxis, axes.yaxis):
            plain_log_ticks(axis, *axis.get_view_interval())
        put_title(axes, f"Roofline of {architecture.name}", legend=True)

    return styled(draw, ax)
