"""The loop tree of fused groups as a picture: fused loops as boxes in each other, layers from left to right inside."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import accumulate

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from accelsim.fusion.result import FusedNetwork, GroupResult, Segment
from accelsim.inputs.units import ratio
from accelsim.show import plots as style
from accelsim.show.plots import AXES_SHARE, DARK, PALE
from accelsim.show.plots.diagram import HEAD_IN, LINE_IN, canvas
from accelsim.show.plots.result import drawn_segments
from accelsim.show.report import OKABE_ITO, OTHER_COLOUR, energy, times
from accelsim.show.report.loop_tree import Kept, kept_tensors, layer_line, loop_line, tile_of

_MARGIN, _INDENT = 0.03, 0.014
"""Room beside the outermost loop for tensors that come from before or stay; a loop's, inside the one around it."""
_BAR, _STRENGTH = 1.35, 0.45
"""Lines that a bar takes, and how strong its colour is."""
_BOLD = 1.12
"""Width of a bold letter, against that of another."""


def plot_loop_tree(found: FusedNetwork, layer: str = "", ax: Axes | None = None) -> Axes:
    """Draw the loop trees of what is fused; of the group of one layer, where that is named.

    Each box is a fused loop; the innermost one has the layers in the order in which they run. A bar is a tensor that
    the fusing level keeps while the loops below the bar go on: from the layer that writes or fetches it (triangle up)
    to the last one that reads it (triangle down).
    """
    letters = style.letters_over(style.new_axes() if ax is None else ax, 9) / AXES_SHARE
    segments = [each for each in drawn_segments(found) if not layer or layer in [one.name for one in each.layers]]
    trees = [(each, each.fused, _leaves(each.fused, letters)) for each in segments if each.fused is not None]
    heights = [_lines(tree, leaves) for _, tree, leaves in trees]
    with style.drawing(ax, HEAD_IN + LINE_IN * sum(heights)) as ax:
        size = canvas(ax, max(1.0, sum(heights)))
        for top, (segment, tree, leaves) in zip(accumulate([0.0, *heights]), trees, strict=False):
            _draw_tree(ax, segment, tree, leaves, top, size)
        for text in ax.texts:
            text.set_in_layout(False)  # takes no room from the axes
        for role in OKABE_ITO if trees else ():
            ax.bar([-9], [0], color=OKABE_ITO[role], alpha=_STRENGTH, label=role)
        how = ("bars: tensors that stay", "triangle up: written or fetched", "down: read")[: 3 * bool(trees)]
        more = [f"{len(trees)} of {len(found.fused)} drawn"] * (len(trees) < len(found.fused))
        style.put_title(ax, f"{found.workload} on {found.architecture}", *how, *more, legend=True)
    return ax


def _leaves(tree: GroupResult, letters: float) -> list[tuple[str, str]]:
    """Name and tile of each layer, in lines as long as its box is wide."""
    wide = max(6, int(letters / _BOLD * (1 - 2 * _MARGIN) / len(tree.group.layers)) - 3)
    most = {part.part.layer: part for part in sorted(tree.parts, key=lambda part: part.count)}
    pairs = [(layer_line(tree, at), tile_of(tree, most[at])) for at in sorted(most)]
    return [("\n".join(textwrap.wrap(name, wide)), "\n".join(textwrap.wrap(tile, wide))) for name, tile in pairs]


def _leaf_lines(leaves: Iterable[tuple[str, str]]) -> float:
    return max(name.count("\n") + tile.count("\n") for name, tile in leaves) + 2.4


def _lines(tree: GroupResult, leaves: Sequence[tuple[str, str]]) -> float:
    """Lines that a tree takes."""
    loops = len(tree.tiling.loops)
    return 1.9 + 1.4 * loops + _BAR * len(kept_tensors(tree)) + _leaf_lines(leaves)


def _draw_tree(
    ax: Axes, segment: Segment, tree: GroupResult, leaves: Sequence[tuple[str, str]], top: float, size: float
) -> None:
    """Draw one tree, from its title down to its layers."""
    loops, level, names = tree.tiling.loops, tree.tiling.level, list(leaves)
    now, alone = segment.totals.energy_pj, segment.unfused.energy_pj
    how = f"{tree.tiling.steps:,} steps at {level}" if len(names) > 1 else f"whole tensors in {level}"
    costs = f"{how}, {energy(now)} instead of {energy(alone)} ({times(ratio(alone, now))})"
    letters = int(style.letters_over(ax, size) / AXES_SHARE)
    room = int(letters / _BOLD)
    shorten = partial(textwrap.shorten, placeholder=" …")
    title = shorten(f"{shorten(tree.group.name, max(9, room - len(costs) - 4))}: {costs}", room)
    ax.text(0, top + 0.6, title, fontsize=size, va="center", fontweight="bold")
    begin, end = _MARGIN + _INDENT * (len(loops) + 0.5), 1 - _MARGIN - _INDENT * (len(loops) + 0.5)
    edges = [begin + (end - begin) * at / len(names) for at in range(len(names) + 1)]
    y, bottom = top + 1.2, top + _lines(tree, leaves) - 0.6
    for depth in range(len(loops) + 1):
        for kept in (each for each in kept_tensors(tree) if each.depth == depth):
            _draw_kept(ax, kept, edges, y, 0.9 * size, int(letters / 0.85))
            y += _BAR
        if depth < len(loops):
            left, low = _MARGIN + _INDENT * depth, bottom - 0.2 * depth
            ax.add_patch(Rectangle((left, y), 1 - 2 * left, low - y, facecolor="none", edgecolor=DARK))
            text = shorten(loop_line(tree, loops[depth]), letters - 6)
            ax.text(left + 0.008, y + 0.6, text, fontsize=size, va="center")
            y += 1.2
    for (name, tile), left, right in zip(leaves, edges, edges[1:], strict=False):
        high = _leaf_lines(leaves) - 0.3
        ax.add_patch(Rectangle((left + 0.004, y), right - left - 0.008, high, facecolor=PALE, edgecolor=DARK))
        middle = (left + right) / 2
        ax.text(middle, y + 0.2, name, fontsize=size, ha="center", va="top", fontweight="bold")
        ax.text(middle, y + high - 0.2, tile, fontsize=0.9 * size, ha="center", va="bottom")


def _draw_kept(ax: Axes, kept: Kept, edges: Sequence[float], y: float, size: float, letters: int) -> None:
    """Draw a tensor that stays, from the layer that writes or fetches it to the last one that reads it."""
    ends = [0.0, *edges, 1.0]
    first, last = kept.layers[0], kept.layers[-1]
    left, right = (0.0 if first < 0 else edges[first]), ends[min(last + 2, len(ends) - 1)]
    colour = OKABE_ITO.get(kept.role, OTHER_COLOUR)
    ax.add_patch(Rectangle((left, y), right - left, _BAR - 0.2, facecolor=colour, alpha=_STRENGTH, linewidth=0))
    text = textwrap.shorten(", ".join(filter(None, (str(kept), kept.halo))), letters - 4, placeholder=" …")
    long = (len(text) + 3) / letters
    ends_there = left + long > 1 and long < right
    x = right - 0.006 if ends_there else min(left, max(0, 1 - long)) + 0.006
    ax.text(x, y + 0.42, text, fontsize=size, ha="right" if ends_there else "left", va="center")
    for at in kept.layers if len(kept.layers) > 1 else ():
        if 0 <= at < len(edges) - 1:
            middle = (edges[at] + edges[at + 1]) / 2
            ax.plot([middle], [y + _BAR - 0.36], "^" if at == first else "v", color=DARK, markersize=3)
