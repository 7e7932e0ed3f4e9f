"""Figures of what limits throughput: rooflines of machines and GPUs, one size of a product, measured kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from accelsim.gpu.advice import Point, Ridge
from accelsim.gpu.constants import Floats
from accelsim.gpu.machine import Gpu
from accelsim.inputs.architecture import Architecture
from accelsim.model.limits import Stand, peak_macs_per_cycle, ports
from accelsim.show.plots.style import BEST_COLOUR, DARK, drawing, plain_log_ticks, put_title

_BLUE, _ORANGE = "#0072B2", "#E69F00"


def plot_machine_roofline(architecture: Architecture, stands: Sequence[Stand], ax: Axes | None = None) -> Axes:
    """Draw layers under the roofline of the outermost level [MACs in a cycle over MACs for each byte].

    Parameters
    ----------
    stands : sequence of Stand
        Each with two marks and a line between them: at best (each word moved once), and as mapped.
    """
    with drawing(ax) as ax:
        peak, outer = peak_macs_per_cycle(architecture), architecture.levels[0].name
        roofs = {port.name: port.bytes_per_cycle for port in ports(architecture) if port.level == outer}
        ridges = [peak / bytes_per_cycle for bytes_per_cycle in roofs.values()]
        across = [value for stand in stands for value in (stand.least, stand.moved)] + ridges
        _draw_roofs(ax, peak, roofs.items(), min(across) / 2, max(across) * 2)
        if not roofs:
            ax.axhline(peak, color=DARK, label="peak")
        for stand in stands:
            ends = [stand.moved, stand.least], [stand.reached, stand.roof]
            ax.plot(*ends, color=BEST_COLOUR, linewidth=0.6, alpha=0.5)
        least = [stand.least for stand in stands], [stand.roof for stand in stands]
        mapped = [stand.moved for stand in stands], [stand.reached for stand in stands]
        ax.scatter(*least, s=22, facecolors="none", edgecolors=_BLUE, label="each word moved once", zorder=3)
        ax.scatter(*mapped, s=18, color=BEST_COLOUR, label="as mapped", zorder=4)
        _finish(ax, f"MACs for each byte of {outer}", "MACs in a cycle", f"Roofline of {architecture.name}")
    return ax


def plot_roofline(
    gpu: Gpu, number_format: str, ridges: Sequence[Ridge], points: Sequence[Point], ax: Axes | None = None
) -> Axes:
    """Draw layers under the roofline of a GPU: bounds of math, DRAM and L2 [TFLOPS over FLOP/B]."""
    with drawing(ax) as ax:
        across = [point.intensity for point in points]
        low, high = min(*across, ridges[-1].intensity) / 2, max(*across, ridges[0].intensity) * 2
        roofs = [(ridge.level, ridge.bytes_per_s * 1e-12) for ridge in ridges]
        _draw_roofs(ax, gpu.flops(number_format) * 1e-12, roofs, low, high)
        for limited, colour in (("math", _BLUE), ("memory", _ORANGE)):
            of = [point for point in points if point.limited_by == limited]
            rates = [point.kernel.tflops for point in of]
            ax.scatter(
                [point.intensity for point in of], rates, s=18, color=colour, label=f"{limited} limited", zorder=3
            )
        across_label = "operations a byte, each tensor moved once [FLOP/B]"
        _finish(ax, across_label, "throughput [TFLOPS]", f"Roofline of {gpu.name}, {number_format}")
    return ax


def _draw_roofs(ax: Axes, peak: float, roofs: Iterable[tuple[str, float]], low: float, high: float) -> None:
    """Draw from low to high what the peak allows below each slanted roof: its name and its slope."""
    x = np.geomspace(low, high, 200)
    for (name, slope), style in zip(roofs, ("-", "--", ":"), strict=False):
        ax.plot(x, np.minimum(peak, x * slope), style, color=DARK, label=name)


def _finish(ax: Axes, across: str, up: str, title: str) -> None:
    """Give a roofline its scales, labels and title."""
    ax.set(xscale="log", yscale="log", xlabel=across, ylabel=up)
    for axis in (ax.xaxis, ax.yaxis):
        plain_log_ticks(axis, *axis.get_view_interval())
    put_title(ax, title, legend=True)


def plot_sweep(
    name: str, values: Sequence[int], tflops: Floats, chosen: tuple[int, float], title: str, ax: Axes | None = None
) -> Axes:
    """Draw throughput [TFLOPS] over one size of a product; steps are those of tiles and waves."""
    with drawing(ax) as ax:
        step = values[1] - values[0] if len(values) > 1 else 1
        label = f"multiples of {step}" if step > 1 else f"each {name}"
        ax.plot(values, tflops, color=_BLUE, linewidth=0.9, label=label)
        ax.plot(*([value] for value in chosen), "o", color=BEST_COLOUR, label=f"{name} = {chosen[0]}")
        ax.set(xlabel=name, ylabel="throughput [TFLOPS]", ylim=(0, 1.08 * float(np.max(tflops))))
        put_title(ax, title, legend=True)
    return ax


def plot_measured(title: str, measured_us: Floats, predicted_us: Floats, ax: Axes | None = None) -> Axes:
    """Draw predicted over measured times [us], with lines of equality and of a quarter off."""
    with drawing(ax) as ax:
        ends = np.array([float(measured_us.min()), float(measured_us.max())])
        ax.plot(ends, ends, color=DARK, linewidth=0.8, zorder=0)
        for factor in (0.8, 1.25):
            ax.plot(ends, ends * factor, ":", color=DARK, linewidth=0.6, zorder=0)
        ax.scatter(measured_us, predicted_us, s=2, color=_BLUE, linewidths=0, alpha=0.4, rasterized=True)
        ax.set(xscale="log", yscale="log", xlabel="measured [us]", ylabel="predicted [us]")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(LogLocator(numticks=5))
        put_title(ax, title)
    return ax
