"""Figures: one mapping, searches, Pareto fronts, the spread of a map space, machines and loop nests.

`x_table` makes the rows, `plot_x` draws them into `ax`, by default axes of a new figure (`ax.figure`), and returns the
axes. Colour means tensor: blue weights, orange inputs, green outputs;
vermilion is the optimum.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation

BEST_COLOUR = "#D55E00"
"""Okabe-Ito vermilion: the optimum, and what is proved."""
DARK, PALE = "#444444", "#EEEEEE"
_STYLE = Path(__file__).with_name("accelsim.mplstyle")
_NARROW_IN = 4.5
"""Figures narrower than this [inch], such as one column of a page, have smaller letters."""
_SMALL = 0.8
_SIZES = ("font.size", "axes.titlesize", "axes.labelsize", "legend.fontsize", "xtick.labelsize", "ytick.labelsize")
_LETTER = 0.56 / 72
"""Width of a letter [inch] for each point of its size, on average."""
_CSS_DPI = 96
AXES_SHARE = 0.775
"""Share of the width of a figure that axes have before their labels take, or leave, their room; then some 0.86."""


class ShownAxes(Axes):
    """Axes of a figure that a notebook shows where they are the last value of a cell."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        width, height = cast(Figure, self.figure).get_size_inches()
        return figure_bytes(self, ("png",))["png"], {"width": int(_CSS_DPI * width), "height": int(_CSS_DPI * height)}


@contextmanager
def drawing(ax: Axes | None, height_in: float = 4.0) -> Iterator[Axes]:
    """Axes to draw into with accelsim's style, or those of a new figure; the caller's settings stay as they are."""
    axes = new_axes(height_in=height_in) if ax is None else ax
    with _style(width_in(axes) / AXES_SHARE):
        yield axes


def new_axes(width_in: float = 6.4, height_in: float = 4.0) -> Axes:
    """Make axes of a new figure in accelsim's style.

    One column of a two-column page is 3.4 inches wide: in a figure narrower than 4.5 letters are 0.8 as large, and so
    is the height.
    """
    with _style(width_in):
        small = _SMALL if width_in < _NARROW_IN else 1.0
        return Figure(figsize=(width_in, small * height_in)).add_subplot(axes_class=ShownAxes)


@contextmanager
def _style(width_in: float) -> Iterator[None]:
    """Accelsim's style for a figure of some width, as long as the context lasts."""
    with matplotlib.rc_context(fname=_STYLE):
        if width_in < _NARROW_IN:
            _settings().update({name: _SMALL * points(name) for name in _SIZES})
        yield


def points(name: str) -> float:
    """Size of some letters in the style that is in force [points], such as `font.size`."""
    return float(_settings()[name])


def _settings() -> dict[str, Any]:
    """The settings of matplotlib, whose names some versions type as literals."""
    return cast("dict[str, Any]", matplotlib.rcParams)


def figure_bytes(ax: Axes, kinds: Sequence[str] = ("png", "svg")) -> dict[str, bytes]:
    """Figure of some axes as `png`, `svg` or both, laid out once; equal figures give equal bytes."""
    figure = cast(Figure, ax.figure)
    engine = figure.get_layout_engine()
    found = {}
    with matplotlib.rc_context(fname=_STYLE):
        try:
            for kind in kinds:
                with io.BytesIO() as file:
                    figure.savefig(file, format=kind, metadata={"Software" if kind == "png" else "Date": None})
                    found[kind] = file.getvalue()
                if engine is not None:
                    figure.set_layout_engine("none")
        finally:
            if engine is not None:
                figure.set_layout_engine(engine)
    return found


def figure_files(name: str, ax: Axes) -> dict[str, bytes]:
    """Figure of some axes as files of both formats, by their name."""
    return {f"{name}.{kind}": content for kind, content in figure_bytes(ax).items()}


def at_width(draw: Callable[[Axes | None], Axes], width_in: float) -> Axes:
    """Draw a figure of another width [inch]; it is as high as it is otherwise, or 0.8 times that with small letters.

    `draw` draws into axes, or, for None, into those of a new figure.
    """
    figure = draw(None).figure
    return draw(new_axes(width_in, figure.bbox.height / figure.dpi))


def width_in(ax: Axes) -> float:
    """Width of axes [inch], before their labels take their room."""
    return ax.bbox.width / ax.figure.dpi


def put_title(ax: Axes, *parts: str, legend: bool = False, above: float = 0.0) -> None:
    """Write a title above axes, parts beside each other as far as they fit, and between both the legend.

    The first part has a line of its own; `above` is room to leave above the axes first [points].
    """
    room = letters_beside(ax, "axes.titlesize")
    lines = textwrap.wrap(parts[0], room, break_on_hyphens=False)
    for number, part in enumerate(parts[1:]):
        joined = f"{lines[-1]}, {part}"
        if number == 0 or len(joined) > room:
            lines.append(part)
        else:
            lines[-1] = joined
    ax.set_title("\n".join(lines), pad=7 + above + (_put_legend(ax, above) if legend else 0))


def letters_beside(ax: Axes, size: str) -> int:
    """How many letters of a size of the style, such as `axes.labelsize`, fit beside each other over axes."""
    return int(0.86 / AXES_SHARE * letters_over(ax, points(size)))


def letters_over(ax: Axes, size: float) -> float:
    """Width of axes, before their labels take their room, in letters of a size [points]."""
    return width_in(ax) / (_LETTER * size)


def _put_legend(ax: Axes, above: float) -> float:
    """Put the legend above axes in as many columns as fit; returns its height [points]."""
    labels = ax.get_legend_handles_labels()[1]
    if not labels:
        return 0.0
    room = letters_beside(ax, "legend.fontsize")
    columns = next((n for n in range(len(labels), 1, -1) if _letters_in_columns(labels, n) <= room), 1)
    ax.legend(
        loc="lower left", bbox_to_anchor=(-0.01, 1.0),
        bbox_transform=ax.transAxes + ScaledTranslation(0, above / 72, ax.figure.dpi_scale_trans), ncols=columns,
        borderpad=0.2, columnspacing=1.2, labelspacing=0.3, handlelength=1.6,
    )  # fmt: skip
    return 1.45 * points("legend.fontsize") * math.ceil(len(labels) / columns)


def _letters_in_columns(labels: Sequence[str], columns: int) -> int:
    """Width of a legend [letters] whose labels go down column after column, the first columns being the longer ones."""
    return sum(max(map(len, column)) + 6 for column in np.array_split(np.array(labels), columns))


def wrapped(ax: Axes, text: str) -> str:
    """Break the label of an axis into lines that fit over the axes."""
    return "\n".join(textwrap.wrap(text, letters_beside(ax, "axes.labelsize")))


def plain_log_ticks(axis: Axis, low: float, high: float) -> None:
    """Write the numbers of a logarithmic axis out, enough of them even within one decade."""
    if high < 3 * low:
        even_ticks(axis)
    else:
        most = 300 if width_in(axis.axes) > 0.8 * _NARROW_IN else 60
        axis.set_major_locator(LogLocator(subs=(1.0,) if high > most * low else (1.0, 2.0, 5.0), numticks=9))
    axis.set_major_formatter(FuncFormatter(lambda value, _: log_tick(value)))
    axis.set_minor_formatter(NullFormatter())


def even_ticks(axis: Axis, most: int = 5) -> None:
    """Put ticks at round numbers of a linear axis, in about so many steps of 1, 2 or 5."""
    axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10]))


def share_ticks(axis: Axis) -> None:
    """Write shares (0..1) at ticks in percent."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{log_tick(100 * value)} %"))


def short_ticks(axis: Axis) -> None:
    """Write large numbers at ticks as 2k or 11.05M."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))


def edges_of(bins: Sequence[Mapping[str, Any]]) -> list[float]:
    """Edges [pJ/MAC] of bins of energy that follow each other."""
    return [row["from_pj_per_mac"] for row in bins] + [bins[-1]["to_pj_per_mac"]]


def wide_range(low: float, high: float) -> bool:
    """Whether values differ by more than a factor of 3, so that their axis is logarithmic."""
    return low > 0 and high > 3 * low


def fit_scale(axis: Axis, values: Sequence[float], below: float = 0.08, above: float = 0.08) -> bool:
    """Make an axis logarithmic where values differ by more than a factor of 3; returns whether it is.

    Else it has room below and above them: shares of their range.
    """
    low, high = min(values), max(values)
    if wide_range(low, high):
        (axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale)("log")
        plain_log_ticks(axis, low, high)
        return True
    room = (high - low) or abs(high) or 1.0
    set_limits(axis, low - below * room, high + above * room)
    short_ticks(axis)
    return False


def set_limits(axis: Axis, low: float, high: float) -> None:
    """Show this range of an axis."""
    (axis.axes.set_xlim if axis is axis.axes.xaxis else axis.axes.set_ylim)(low, high)


def lower_steps(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points (x, y) that none to their left lies as low as, by x.

    >>> lower_steps([(2, 5), (1, 7), (3, 6), (4, 1)])
    [(1, 7), (2, 5), (4, 1)]
    """
    steps: list[tuple[float, float]] = []
    for point in sorted(points):
        if not steps or point[1] < steps[-1][1]:
            steps.append(point)
    return steps


def frame_only(ax: Axes) -> None:
    """Leave of axes their title, legend and label, for inset axes between 0 and 1 in both directions."""
    ax.spines[:].set_visible(False)
    ax.set(xticks=[], yticks=[], xlim=(0, 1), ylim=(0, 1))
    ax.grid(visible=False)


def rows_down(ax: Axes, names: Sequence[str]) -> None:
    """Make axes a row for each name, the first on top."""
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)


def log_tick(value: float) -> str:
    r"""Number at a tick of a logarithmic axis.

    >>> log_tick(20.0), log_tick(0.01), log_tick(1e7), log_tick(2e-7), log_tick(1e15)
    ('20', '0.01', '10M', '$2\\times 10^{-7}$', '$10^{15}$')
    """
    if 1e-3 <= value < 1e6 or value <= 0:
        return f"{value:,.10g}"
    if 1e6 <= value < 1e15:
        return tick(value)
    power = math.floor(math.log10(value) + 1e-9)
    digits = f"{value / 10.0**power:.3g}"
    return f"$10^{{{power}}}$" if digits == "1" else f"${digits}\\times 10^{{{power}}}$"


def tick(value: float) -> str:
    """Number at a tick.

    >>> tick(11_050_000.0), tick(2000.0), tick(6.64), tick(3e11)
    ('11.05M', '2k', '6.64', '300G')
    """
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.5g}{letter}"
    return f"{value:.5g}"


def names_of(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Names of layers on machines, without what all of these pairs have in common.

    >>> names_of([("conv1", "eyeriss"), ("conv2", "eyeriss")]), names_of([("conv1", "eyeriss"), ("conv1", "nvdla")])
    (['conv1', 'conv2'], ['eyeriss', 'nvdla'])
    """
    layers, machines = ({pair[i] for pair in pairs} for i in (0, 1))
    if len(machines) == 1 and len(layers) > 1:
        return [layer for layer, _ in pairs]
    if len(layers) == 1 and len(machines) > 1:
        return [machine for _, machine in pairs]
    return [f"{layer} on {machine}" for layer, machine in pairs]
