"""A drawing of the machine: its levels, how full a mapping makes them, and the instances that it uses."""

from __future__ import annotations

import math
from html import escape

from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.nodes import level_nodes
from accelsim.inputs.units import format_bits
from accelsim.inputs.workload import Einsum
from accelsim.model.result import LevelResult, Result
from accelsim.show.report.text import percent, tensor_colours

_WIDTH, _GAP, _MARGIN = 360, 34, 12
_LONGEST_NAME = 26
_MOST_CELLS = 32


def machine_svg(architecture: Architecture, einsum: Einsum, result: Result) -> str:
    """Draw the machine as inline SVG; fills and filled cells are what the mapping uses."""
    parts, top = [], 1.0
    names = [level.name for level in architecture.levels[1:]] + [architecture.compute.name]
    nodes = level_nodes(result.mapping)
    for level, cost, (_, mapped), child in zip(architecture.levels, result.levels, nodes, names, strict=True):
        parts.append(_level(level, cost, result, einsum, top))
        across = math.prod(loop.bound for node in mapped for loop in node.x)
        down = math.prod(loop.bound for node in mapped for loop in node.y)
        top += _box_height(cost)
        drawn, height = _fanout(level, (across, down), child, top)
        parts.append(drawn)
        top += height
    parts.append(_compute(architecture, result, top))
    height = top + 50
    title = f"{architecture.name}: levels from the outermost inwards, and what the best mapping uses of them"
    return (
        f'<svg class="machine" viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-labelledby="machine-title">'
        f'<title id="machine-title">{escape(title)}</title>{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>'


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _box(top: float, height: float) -> str:
    return f'<rect class="box" x="1" y="{top:g}" width="{_WIDTH - 2}" height="{height:g}" rx="6"/>'


def _box_height(cost: LevelResult) -> int:
    return 60 if cost.capacity_words is None else 76


def _level(level: Level, cost: LevelResult, result: Result, einsum: Einsum, top: float) -> str:
    """One level: its size and bandwidth, and a bar of the room that the tiles take."""
    if cost.capacity_words is None:
        size = "unlimited"
        fill = f"holds {format_bits(cost.used_words * cost.word_bits)}"
    else:
        size = format_bits(cost.capacity_words * cost.word_bits)
        fill = f"{percent(cost.used_words / max(1, cost.capacity_words))} full"
    each = " each" if cost.instances > 1 else ""
    lines = [
        _box(top, _box_height(cost)),
        _text(_MARGIN, top + 19, _short(level.name), "name"),
        f'<text class="end" x="{_WIDTH - _MARGIN}" y="{top + 19:g}">{escape(fill)}</text>',
        _text(_MARGIN, top + 36, f"{size}{each}, words of {level.word_bits} bit"),
        _text(_MARGIN, top + 51, bandwidth_text(level)),
    ]
    if cost.capacity_words is not None:
        lines.append(_fill(cost, result, einsum, top + 58))
    return "".join(lines)


def bandwidth_text(level: Level) -> str:
    """Bandwidth of one instance, in words.

    Examples
    --------
    >>> from fractions import Fraction
    >>> bandwidth_text(Level("DRAM", "DRAM", word_bits=16, bandwidth=Fraction(9, 5)))
    'bandwidth 1.8 words/cycle'
    """
    if level.bandwidth is not None:
        return f"bandwidth {float(level.bandwidth):.4g} words/cycle"
    if level.read_bandwidth is not None and level.write_bandwidth is not None:
        return f"reads {float(level.read_bandwidth):.4g}, writes {float(level.write_bandwidth):.4g} words/cycle"
    return "bandwidth not limited"


def _fill(cost: LevelResult, result: Result, einsum: Einsum, top: float) -> str:
    """A bar as wide as the level is large, filled with the tiles in the tensors' colours."""
    names = [tensor.name for tensor in einsum.tensors]
    colours = tensor_colours(names, einsum.output.name)
    wide = _WIDTH - 2 * _MARGIN
    capacity, left = max(1, cost.capacity_words or 1), float(_MARGIN)
    parts = [f'<rect class="room" x="{_MARGIN}" y="{top:g}" width="{wide}" height="9"/>']
    for tile in result.tensors:
        if tile.level != cost.level:
            continue
        words = float(tile.storage_words(tile.tile_words, cost.word_bits))
        width = min(wide * words / capacity, _WIDTH - _MARGIN - left)
        parts.append(
            f'<rect x="{left:.2f}" y="{top:g}" width="{width:.2f}" height="9" fill="{colours[tile.tensor]}">'
            f"<title>{escape(tile.tensor)}: {tile.tile_words:,} words</title></rect>"
        )
        left += width
    return "".join(parts)


def _fanout(level: Level, used: tuple[int, int], child: str, top: float) -> tuple[str, float]:
    """The instances below one instance as a grid, those in use filled; and the height that it takes."""
    line = f'<path class="wire" d="M 24 {top:g} v {{0:g}}"/>'
    if level.fanout == 1:
        return line.format(_GAP - 12), _GAP - 12
    shown = min(level.x.size, _MOST_CELLS), min(level.y.size, _MOST_CELLS)
    side = min(12.0, 150 / shown[0], 110 / shown[1])
    height = side * shown[1] + 20
    parts = [line.format(max(height, 44.0))]
    for row in range(shown[1]):
        for column in range(shown[0]):
            kind = "cell used" if column < used[0] and row < used[1] else "cell"
            parts.append(
                f'<rect class="{kind}" x="{44 + column * side:.2f}" y="{top + 10 + row * side:.2f}" '
                f'width="{side - 1:.2f}" height="{side - 1:.2f}"/>'
            )
    shape = f"{level.x.size:,} x {level.y.size:,}" if level.y.size > 1 and level.x.size > 1 else f"{level.fanout:,}"
    lines = [f"{shape} {_short(child)}", f"{used[0] * used[1]:,} of {level.fanout:,} in use"]
    if shown != (level.x.size, level.y.size):
        lines.append(f"(first {shown[0]} x {shown[1]} drawn)")
    x = 44 + shown[0] * side + 12
    parts += [_text(x, top + 24 + 16 * index, line) for index, line in enumerate(lines)]
    return "".join(parts), max(height, 44.0)


def _compute(architecture: Architecture, result: Result, top: float) -> str:
    each = architecture.compute.cycles_per_mac
    speed = "a MAC in each cycle" if each == 1 else f"a MAC in {each} cycles"
    many = f"{result.compute_used:,} of {result.compute_instances:,} in use"
    end = f'<text class="end" x="{_WIDTH - _MARGIN}" y="{top + 19:g}">{many}</text>'
    name = _text(_MARGIN, top + 19, _short(architecture.compute.name), "name")
    return f"{_box(top, 46)}{name}{end}{_text(_MARGIN, top + 36, speed)}"
