"""The loop nest of a mapping as designers draw it."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from accelsim.mapping import LevelMapping
from accelsim.nodes import level_nodes
from accelsim.report.text import count, letters, percent
from accelsim.result import LevelResult, Result
from accelsim.units import format_bits

_INDENT = 2
_DEEPEST = 40


def print_nest(console: Console, result: Result) -> None:
    """Print each level with what it keeps, and below it its loops; loops of bound 1 are left out."""
    depth = 0
    for level, (_, nodes) in zip(result.levels, level_nodes(result.mapping), strict=True):
        console.print()
        _print_head(console, result, level)
        for node in nodes:
            if len(nodes) > 1:
                kept = [t.tensor for t in result.tensors if t.level == level.level and t.tensor in node.keep]
                text = Text("| " + " " * min(depth * _INDENT, _DEEPEST))
                console.print(text.append(f"{level.level} keeps {', '.join(kept) or 'nothing'} here", style="dim"))
            for line in _loops(node):
                style = "cyan" if line.startswith("par_for") else ""
                text = Text("| " + " " * min(depth * _INDENT, _DEEPEST))
                console.print(text.append(line, style=style), no_wrap=True, overflow="ellipsis")
                depth += 1
    console.print()
    console.print(
        Text(result.compute, style="bold").append(
            _instances(result.compute_used, result.compute_instances), style="not bold"
        )
    )


def _loops(mapped: LevelMapping) -> list[str]:
    """Loops of one level, outermost first: in time, then over x and y."""
    temporal = [f"for {loop.dim} in [0:{loop.bound})" for loop in mapped.temporal if loop.bound > 1]
    spatial = [
        f"par_for {loop.dim} in [0:{loop.bound}) on {axis}"
        for axis, loops in (("x", mapped.x), ("y", mapped.y))
        for loop in loops
        if loop.bound > 1
    ]
    return temporal + spatial


def _instances(used: int, instances: int) -> str:
    if instances == 1:
        return ""
    return f" x{used:,}" if used == instances else f" x{used:,} of {instances:,}"


def _print_head(console: Console, result: Result, level: LevelResult) -> None:
    """Print one level's name, how full it is, and the tiles that it keeps."""
    used = format_bits(level.used_words * level.word_bits)
    if level.capacity_words is None:
        room = f"{used} used"
    else:
        share = percent(level.used_words / max(1, level.capacity_words))
        room = f"{used} of {format_bits(level.capacity_words * level.word_bits)} used ({share})"
    head = Text(level.level, style="bold").append(
        f"{_instances(level.used_instances, level.instances)}, {room}", style="not bold"
    )
    console.print(head)
    tiles = [f"{t.tensor} {count(t.tile_words)}" for t in result.tensors if t.level == level.level]
    kept = {t.tensor for t in result.tensors if t.level == level.level}
    passed = [n.tensor for n in result.networks if n.level == level.level and n.tensor not in kept]
    text = f"keeps {', '.join(tiles)} (words)" if tiles else "keeps nothing"
    console.print(Text(text + (f"; {', '.join(passed)} pass by" if passed else "")))
    console.print(Text("-" * min(console.width, 72), style="dim"))


def nest_line(result: Result) -> str:
    """Loop nest on one line: levels outermost first, each with the tensors that it keeps and its loops above 1.

    The loops of a level stand in order, outermost first; x(...) and y(...) hold those over its fanout.
    """
    letter = letters(list(dict.fromkeys(network.tensor for network in result.networks)))
    return " | ".join(_level_line(mapped, letter) for mapped in result.mapping.levels)


def _level_line(mapped: LevelMapping, letter: dict[str, str]) -> str:
    kept = "".join(short for name, short in letter.items() if name in mapped.keep)
    parts = [f"{mapped.level}[{kept}]", *(f"{loop.dim}={loop.bound}" for loop in mapped.temporal if loop.bound > 1)]
    for axis, loops in (("x", mapped.x), ("y", mapped.y)):
        spread = [f"{loop.dim}={loop.bound}" for loop in loops if loop.bound > 1]
        parts += [f"{axis}({' '.join(spread)})"] if spread else []
    return " ".join(parts)
