"""Figures of GPUs: layers under a roofline, throughput over one size, predicted against measured times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from accelsim.gpu.advice import Point, Ridge
from accelsim.gpu.constants import Floats
from accelsim.gpu.machine import Gpu
from accelsim.show.plots.style import BEST_COLOUR, DARK, plain_log_ticks, put_title, styled

_BLUE, _ORANGE = "#0072B2", "#E69F00"


def plot_roofline(
    gpu: Gpu, number_format: str, ridges: Sequence[Ridge], points: Sequence[Point], ax: Axes | None = None
) -> Axes:
    """Draw layers under the roofline of a GPU: bounds of math, DRAM and L2 [TFLOPS over FLOP/B]."""

    def draw(axes: Axes) -> None:
        peak = gpu.flops(number_format) * 1e-12
        across = [point.intensity for point in points]
        low, high = min(*across, ridges[-1].intensity) / 2, max(*across, ridges[0].intensity) * 2
        x = np.geomspace(low, high, 200)
        for ridge, style in zip(ridges, ("-", "--", ":"), strict=True):
            axes.plot(x, np.minimum(peak, x * ridge.bytes_per_s * 1e-12), style, color=DARK, label=ridge.level)
        for limited, colour in (("math", _BLUE), ("memory", _ORANGE)):
            of = [point for point in points if point.limited_by == limited]
            rates = [point.kernel.tflops for point in of]
            axes.scatter(
                [point.intensity for point in of], rates, s=18, color=colour, label=f"{limited} limited", zorder=3
            )
        axes.set(xscale="log", yscale="log", xlabel="operations a byte, each tensor moved once [FLOP/B]")
        axes.set_ylabel("throughput [TFLOPS]")
        for axis in (axes.xaxis, axes.yaxis):
            plain_log_ticks(axis, *axis.get_view_interval())
        put_title(axes, f"Roofline of {gpu.name}, {number_format}", legend=True)

    return styled(draw, ax)


def plot_sweep(
    name: str, values: Sequence[int], tflops: Floats, chosen: tuple[int, float], title: str, ax: Axes | None = None
) -> Axes:
    """Draw throughput [TFLOPS] over one size of a product; steps are those of tiles and waves."""

    def draw(axes: Axes) -> None:
        step = values[1] - values[0] if len(values) > 1 else 1
        label = f"multiples of {step}" if step > 1 else f"each {name}"
        axes.plot(values, tflops, color=_BLUE, linewidth=0.9, label=label)
        axes.plot(*([value] for value in chosen), "o", color=BEST_COLOUR, label=f"{name} = {chosen[0]}")
        axes.set(xlabel=name, ylabel="throughput [TFLOPS]", ylim=(0, 1.08 * float(np.max(tflops))))
        put_title(axes, title, legend=True)

    return styled(draw, ax)


def plot_measured(title: str, measured_us: Floats, predicted_us: Floats, ax: Axes | None = None) -> Axes:
    """Draw predicted over measured times [us], with lines of equality and of a quarter off."""

    def draw(axes: Axes) -> None:
        low, high = float(measured_us.min()), float(measured_us.max())
        ends = np.array([low, high])
        axes.plot(ends, ends, color=DARK, linewidth=0.8, zorder=0)
        for factor in (0.8, 1.25):
            axes.plot(ends, ends * factor, ":", color=DARK, linewidth=0.6, zorder=0)
        axes.scatter(measured_us, predicted_us, s=2, color=_BLUE, linewidths=0, alpha=0.4, rasterized=True)
        axes.set(xscale="log", yscale="log", xlabel="measured [us]", ylabel="predicted [us]")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(numticks=5))
        put_title(axes, title)

    return styled(draw, ax)
