"""Diagrams: a machine as boxes, outermost level on top, and a mapping as the loop nest beside it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.transforms import Bbox

from accelsim.gpu.advice import Point, Ridge
from accelsim.gpu.catalogue import Gpu
from accelsim.gpu.constants import Floats
from accelsim.gpu.serving import Serving
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.mapping import last_passes
from accelsim.inputs.nodes import level_nodes
from accelsim.inputs.units import format_bits
from accelsim.model.limits import Stand, peak_macs_per_cycle, ports
from accelsim.model.result import Result
from accelsim.show import plots as style
from accelsim.show.plots import AXES_SHARE, BEST_COLOUR, DARK, PALE
from accelsim.show.plots.result import result_colours
from accelsim.show.report import count
from accelsim.show.report.mapping import letters, loop_lines

LINE_IN = 0.19
HEAD_IN = 0.75
_BOX = (0.01, 0.37)
"""Left and right edge of the boxes, where the nest stands beside them."""
_NEST = 0.42
_MARK = 3.0
"""Half the width of a mark that a name must not cover [pixels]."""
_DEEPEST = 0.2
"""Indent of the innermost loop, at most."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of a loop nest: a loop, or (`tiles`) what a storage node keeps, as (tensor, text)."""

    depth: int
    text: str = ""
    spatial: bool = False
    tiles: tuple[tuple[str, str], ...] = ()


def architecture_table(architecture: Architecture) -> list[dict[str, Any]]:
    """Rows of `plot_architecture`: levels, outermost first, and the compute units.

    `size_bits` is the capacity of one instance (None: unlimited), `instances` counts those of the whole machine,
    `fanout_x` and `fanout_y` the instances of the next row below one instance.
    """
    rows: list[dict[str, Any]] = []
    for index, level in enumerate(architecture.levels):
        words = level.size_words if level.partition_words is None else sum(level.partition_words.values())
        size = {"size_bits": None if words is None else words * level.word_bits, "word_bits": level.word_bits}
        fanout = {"fanout_x": level.x.size, "fanout_y": level.y.size}
        rows.append({"component": level.name, **size, "instances": architecture.instances(index), **fanout})
    compute = {"component": architecture.compute.name, "size_bits": None, "word_bits": None}
    return [*rows, {**compute, "instances": architecture.macs, "fanout_x": 1, "fanout_y": 1}]


def mapping_table(result: Result) -> list[dict[str, Any]]:
    """Rows of `plot_mapping`: the loops of a mapping from the outside in; those of bound 1 are left out.

    `axis` is empty for a loop in time, x or y for one in space; `last` are the iterations of its last pass.
    """
    last = last_passes(result.mapping, result.bounds)
    return [
        {"level": node.level, "axis": axis, "dim": loop.dim, "bound": loop.bound, "last": final}
        for node, passes in zip(result.mapping.levels, last, strict=True)
        for axis, loops, finals in zip(("", "x", "y"), (node.temporal, node.x, node.y), passes, strict=True)
        for loop, final in zip(loops, finals, strict=True)
        if loop.bound > 1
    ]


def plot_architecture(architecture: Architecture, ax: Axes | None = None) -> Axes:
    """Draw an architecture: a box for each level with its size and instances, and the fanout below it."""
    lines = 3.3 * len(architecture.levels) + 2.3
    with style.drawing(ax, HEAD_IN + LINE_IN * lines) as ax:
        rows = architecture_table(architecture)
        size = canvas(ax, 3.3 * len(rows) - 1.0)
        for number, row in enumerate(rows):
            top = 3.3 * number
            _draw_box(ax, row, (0.2, 0.8), (top, top + 2.1), size, used=None)
            if number < len(rows) - 1:
                _draw_fanout(ax, row, 0.5, (top + 2.1, top + 3.3), size)
        style.put_title(ax, f"{architecture.name}: {architecture.macs:,} {architecture.compute.name}s")
    return ax


def plot_mapping(result: Result, architecture: Architecture, ax: Axes | None = None) -> Axes:
    """Draw an architecture beside the loop nest of a mapping: loops in time at each level, `par_for` at each fanout.

    The bar in a box shows how full one instance is, in the colours of the tensors; beside it stand the tiles [words].
    """
    lines = sum(inside + below for inside, below in _heights(_nest(result)))
    with style.drawing(ax, HEAD_IN + LINE_IN * (lines + 2.2)) as ax:
        nest, rows, colours = _nest(result), architecture_table(architecture), result_colours(result)
        heights = _heights(nest)
        size = canvas(ax, sum(inside + below for inside, below in heights) + 2.2)
        middle, top = sum(_BOX) / 2, 0.0
        loops = len(mapping_table(result))
        indent = min(0.017, _DEEPEST / max(1, loops))
        used = [level.used_instances for level in result.levels] + [result.compute_used]
        for row, (inside, below), (high, gap), own in zip(rows, nest, heights, used, strict=False):
            _draw_box(ax, row, _BOX, (top, top + high), size, used=own)
            _draw_filling(ax, result, row["component"], (top + 2.1, top + 2.6), colours)
            _draw_fanout(ax, row, middle, (top + high, top + high + gap), size)
            _draw_lines(ax, inside, top + 0.15, size, indent, colours)
            _draw_lines(ax, below, top + high + 0.15, size, indent, colours)
            top += high + gap
        _draw_box(ax, rows[-1], _BOX, (top, top + 2.1), size, used=used[-1])
        ax.text(_NEST + indent * loops, top + 1.05, "multiply-accumulate", va="center", fontsize=size)
        for (tensor, colour), short in zip(colours.items(), letters(list(colours)).values(), strict=True):
            ax.bar([-9], [0], color=colour, label=f"{tensor} ({short})")
        names = f"{result.workload} on {result.architecture}: {result.pj_per_mac:.4g} pJ/MAC"
        style.put_title(ax, names, "tiles [words] beside their level", "bars: share of one instance", legend=True)
    return ax


def _nest(result: Result) -> list[tuple[list[_Line], list[_Line]]]:
    """For each level the lines that stand beside its box, and those that stand beside the fanout below it."""
    short = letters(list(dict.fromkeys(network.tensor for network in result.networks)))
    last, depth = iter(last_passes(result.mapping, result.bounds)), 0
    found = []
    for level, nodes in level_nodes(result.mapping):
        inside: list[_Line] = []
        below: list[_Line] = []
        for node in nodes:
            kept = [t for t in result.tensors if t.level == level and t.tensor in node.keep]
            tiles = tuple((t.tensor, f"{short[t.tensor]} {count(t.tile_words)}") for t in kept)
            inside.append(_Line(depth, tiles=tiles))
            for text in loop_lines(node, next(last)):
                spatial = text.startswith("par_for ")
                (below if spatial else inside).append(_Line(depth, text, spatial))
                depth += 1
        found.append((inside, below))
    return found


def _heights(nest: Sequence[tuple[list[_Line], list[_Line]]]) -> list[tuple[float, float]]:
    """Lines that each level takes, and the fanout below it."""
    return [(max(2.9, len(inside) + 0.3), max(1.3, len(below) + 0.3)) for inside, below in nest]


def canvas(ax: Axes, lines: float) -> float:
    """Make axes a sheet of so many lines, 1 wide; returns the size of the letters [points]."""
    high = ax.bbox.height / ax.figure.dpi
    ax.set_xlim(0, 1)
    ax.set_ylim(lines, -0.2)
    ax.axis("off")
    return min(style.points("font.size"), 72 * high / lines / 1.25)


def _draw_box(
    ax: Axes, row: dict[str, Any], across: tuple[float, float], down: tuple[float, float], size: float, used: int | None
) -> None:
    """Draw a level or the compute units, several instances as several sheets, with size and instances in words."""
    (left, right), (top, bottom) = across, down
    for sheet in range(min(row["instances"], 3) - 1, -1, -1):
        x, y = left + 0.008 * sheet, top - 0.12 * sheet
        box = Rectangle((x, y), right - left - 0.016, bottom - top, facecolor=PALE, edgecolor=DARK, linewidth=0.9)
        ax.add_patch(box)
    bits, compute = row["size_bits"], row["word_bits"] is None
    room = "" if compute else " unlimited" if bits is None else f" {format_bits(bits)}"
    instances = f"x{row['instances']:,}"
    said = instances if used is None or row["instances"] == 1 else f"{used:,} of {instances[1:]} used"
    said = said if row["instances"] > 1 else "1 instance"
    said += "" if compute or used is not None else f", words of {row['word_bits']} bits"
    at = left + 0.02
    letters_wide = style.letters_over(ax, size) / AXES_SHARE * (right - left - 0.06)
    name_size = size * min(1.0, (letters_wide - len(room)) / (1.15 * len(row["component"])))
    ax.text(at, top + 0.7, row["component"], va="center", fontsize=name_size, fontweight="bold")
    ax.text(right - 0.03, top + 0.7, room.strip(), va="center", ha="right", fontsize=size)
    ax.text(at, top + 1.5, said, va="center", fontsize=0.9 * size)


def _draw_filling(ax: Axes, result: Result, component: str, down: tuple[float, float], colours: dict[str, str]) -> None:
    """Draw how much of one instance each tensor takes; of an unlimited one, of what is used."""
    level = next(level for level in result.levels if level.level == component)
    capacity = level.capacity_words or level.used_words
    left, wide = _BOX[0] + 0.02, _BOX[1] - _BOX[0] - 0.056
    ax.add_patch(Rectangle((left, down[0]), wide, down[1] - down[0], facecolor="white", edgecolor=DARK, linewidth=0.6))
    for t in (t for t in result.tensors if t.level == component):
        share = float(t.storage_words(t.tile_words, level.word_bits)) / max(1, capacity)
        ax.add_patch(Rectangle((left, down[0]), wide * share, down[1] - down[0], facecolor=colours[t.tensor]))
        left += wide * share


def _draw_fanout(ax: Axes, row: dict[str, Any], middle: float, down: tuple[float, float], size: float) -> None:
    """Draw the network below a level: one line down, or as many as show that it spreads, with x * y beside it."""
    fanout = row["fanout_x"] * row["fanout_y"]
    for shift in (-0.03, 0.0, 0.03) if fanout > 1 else (0.0,):
        ax.plot([middle, middle + shift], down, color=DARK, linewidth=0.9, zorder=0.9)
    if fanout > 1:
        text = f"{row['fanout_x']} x {row['fanout_y']}"
        ax.text(middle + 0.05, sum(down) / 2, text, va="center", fontsize=0.9 * size)


def _draw_lines(
    ax: Axes, lines: Sequence[_Line], top: float, size: float, indent: float, colours: dict[str, str]
) -> None:
    """Draw the lines of a loop nest below each other; a coloured square stands before the tile of each tensor."""
    letter = AXES_SHARE / style.letters_over(ax, size)
    for number, line in enumerate(lines):
        x, y = _NEST + indent * line.depth, top + number + 0.5
        if line.text:
            ax.text(x, y, line.text, va="center", fontsize=size, fontweight="bold" if line.spatial else "normal")
        for tensor, text in line.tiles:
            ax.add_patch(Rectangle((x, y - 0.3), 0.014, 0.6, facecolor=colours[tensor]))
            ax.text(x + 0.02, y, text, va="center", fontsize=0.9 * size, color=DARK)
            x += 0.06 + letter * len(text)


_BLUE, _ORANGE = "#0072B2", "#E69F00"
_SERIES = (_BLUE, _ORANGE, "#009E73", "#56B4E9", "#CC79A7", "#F0E442", "#000000", "#777777")


def plot_machine_roofline(architecture: Architecture, stands: Sequence[Stand], ax: Axes | None = None) -> Axes:
    """Draw layers under the roofline of the outermost level [MACs in a cycle over MACs for each byte].

    Each has two marks and a line between them: at best (each word moved once), and as mapped.
    """
    with style.drawing(ax) as ax:
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
    """Draw layers under the roofline of a GPU: bounds of compute, DRAM and L2 [TFLOPS over FLOP/B]."""
    with style.drawing(ax) as ax:
        across = [point.intensity for point in points]
        low, high = min(*across, ridges[-1].intensity) / 2, max(*across, ridges[0].intensity) * 2
        roofs = [(ridge.level, ridge.bytes_per_s * 1e-12) for ridge in ridges]
        _draw_roofs(ax, gpu.flops(number_format) * 1e-12, roofs, low, high)
        limits = {"compute": "compute", "tiles": "compute", "launch": "launch", "launch and latency": "launch"}
        for limit, colour in (("compute", _BLUE), ("memory", _ORANGE), ("launch", BEST_COLOUR)):
            of = [point for point in points if limits.get(point.kernel.bottleneck, "memory") == limit]
            xs, ys = [point.intensity for point in of], [point.kernel.tflops for point in of]
            ax.scatter(xs, ys, s=18, color=colour, label=limit, zorder=3)
        across_label = "operations a byte, each tensor moved once [FLOP/B]"
        _finish(ax, across_label, "throughput [TFLOPS]", f"Roofline of {gpu.name}, {number_format}")
        _name_points(ax, [(point.intensity, point.kernel.tflops, point.kernel.name) for point in points])
    return ax


def _draw_roofs(ax: Axes, peak: float, roofs: Iterable[tuple[str, float]], low: float, high: float) -> None:
    """Draw from low to high what the peak allows below each slanted roof: its name and its slope."""
    x = np.geomspace(low, high, 200)
    for (name, slope), line in zip(roofs, ("-", "--", ":"), strict=False):
        ax.plot(x, np.minimum(peak, x * slope), line, color=DARK, label=name)


def _name_points(ax: Axes, points: Iterable[tuple[float, float, str]]) -> None:
    """Write names to the right of points, from the right, but for those that would cover a name or another point."""
    ordered = sorted(points, key=lambda point: -point[0])
    ax.figure.draw_without_rendering()  # type: ignore[union-attr]  # puts axes and points where they will be
    at = ax.transData.transform([point[:2] for point in ordered]) if ordered else np.empty((0, 2))
    marks = [Bbox([place - _MARK, place + _MARK]) for place in at]
    names: list[Bbox] = []
    for number, (x, y, name) in enumerate(ordered):
        text = ax.annotate(name, (x, y), xytext=(4, 0), textcoords="offset points", va="center", fontsize=6)
        box = text.get_window_extent()
        if any(box.overlaps(other) for other in (*names, *marks[:number], *marks[number + 1 :])):
            text.remove()
        else:
            names.append(box)


def _finish(ax: Axes, across: str, up: str, title: str) -> None:
    """Give a roofline its scales, labels and title."""
    ax.set(xscale="log", yscale="log", xlabel=across, ylabel=up)
    for axis in (ax.xaxis, ax.yaxis):
        style.plain_log_ticks(axis, *axis.get_view_interval())
    style.put_title(ax, title, legend=True)


def plot_sweep(
    name: str, values: Sequence[int], tflops: Floats, chosen: tuple[int, float], title: str, ax: Axes | None = None
) -> Axes:
    """Draw throughput [TFLOPS] over one size of a product; steps are those of tiles and waves."""
    with style.drawing(ax) as ax:
        step = values[1] - values[0] if len(values) > 1 else 1
        label = f"multiples of {step}" if step > 1 else f"each {name}"
        ax.plot(values, tflops, color=_BLUE, linewidth=0.9, label=label)
        ax.plot(*([value] for value in chosen), "o", color=BEST_COLOUR, label=f"{name} = {chosen[0]}")
        ax.set(xlabel=name, ylabel="throughput [TFLOPS]", ylim=(0, 1.08 * float(np.max(tflops))))
        style.put_title(ax, title, legend=True)
    return ax


def plot_serving(title: str, points: Sequence[Serving], front: Sequence[Serving], ax: Axes | None = None) -> Axes:
    """Draw tokens a second of a GPU over the time of a token, a line for each split; batches stand at the front."""
    with style.drawing(ax) as ax:
        splits: dict[str, list[Serving]] = {}
        for point in points:
            splits.setdefault(point.split.text, []).append(point)
        for (name, own), colour in zip(splits.items(), itertools.cycle(_SERIES)):
            ordered = sorted(own, key=lambda point: point.split.batch)
            places = [1e3 * point.token_s for point in ordered], [point.tokens_per_s_gpu for point in ordered]
            ax.plot(*places, ".-", color=colour, linewidth=0.8, markersize=4, label=name)
        best = [1e3 * point.token_s for point in front], [point.tokens_per_s_gpu for point in front]
        ax.plot(*best, "o", markersize=7, markerfacecolor="none", color=BEST_COLOUR, label="front", zorder=4)
        _finish(ax, "time of an output token [ms]", "output tokens a second of a GPU", f"{title}; numbers are batches")
        _name_points(ax, [(x, y, f" {point.split.batch}") for x, y, point in zip(*best, front, strict=True)])
    return ax
