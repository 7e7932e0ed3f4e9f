"""The loop nest of a mapping as designers draw it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.text import Text

from accelsim.inputs.mapping import LevelMapping, last_passes
from accelsim.inputs.nodes import level_nodes
from accelsim.inputs.units import format_bits
from accelsim.model.result import LevelResult, Result
from accelsim.show.report.text import count, letters, percent

_INDENT = 2
_DEEPEST = 40


@dataclass(frozen=True, slots=True)
class NestLevel:
    """One level of a loop nest, in words.

    Attributes
    ----------
    name : str
    used : str
        Instances in use and how full each is.
    keeps : str
        Tiles that it keeps, in words of the tensor, and tensors that pass by.
    lines : tuple of str
        Its loops above 1, outermost first, each `for …` or `par_for …`; before those of a storage node what it keeps.
    """

    name: str
    used: str
    keeps: str
    lines: tuple[str, ...]


def nest_levels(result: Result) -> list[NestLevel]:
    """Each level, outermost first; loops of bound 1 are left out."""
    last = iter(last_passes(result.mapping, result.bounds))
    found = []
    for level, (_, nodes) in zip(result.levels, level_nodes(result.mapping), strict=True):
        lines: list[str] = []
        for node in nodes:
            if len(nodes) > 1:
                kept = [t.tensor for t in result.tensors if t.level == level.level and t.tensor in node.keep]
                lines.append(f"{level.level} keeps {', '.join(kept) or 'nothing'} here")
            lines += loop_lines(node, next(last))
        used = f"{_instances(level.used_instances, level.instances)}, {_room(level)}"
        found.append(NestLevel(level.level, used.removeprefix(", ").strip(), _keeps(result, level.level), tuple(lines)))
    return found


def compute_used(result: Result) -> str:
    """Compute units in use, such as `x144 of 168`; empty if there is only one."""
    return _instances(result.compute_used, result.compute_instances).strip()


def nest_parts(result: Result) -> Iterator[Text]:
    """Each level with what it keeps, and below it its loops; loops of bound 1 are left out."""
    depth = 0
    for level in nest_levels(result):
        gap = " " if level.used.startswith("x") else ", "
        yield Text("\n").append(level.name, style="bold").append(gap + level.used)
        yield Text(level.keeps)
        yield Text("-" * 72, style="dim", no_wrap=True, overflow="crop")
        for line in level.lines:
            text = Text("| " + " " * min(depth * _INDENT, _DEEPEST), no_wrap=True, overflow="ellipsis")
            if line.startswith(("for ", "par_for ")):
                yield text.append(line, style="cyan" if line.startswith("par_for") else "")
                depth += 1
            else:
                yield text.append(line, style="dim")
    units = compute_used(result)
    yield Text("\n").append(result.compute, style="bold").append(f" {units}" if units else "")


def loop_range(bound: int, last: int) -> str:
    """Range of a loop, with the iterations of its last pass where these are fewer.

    Examples
    --------
    >>> loop_range(4, 4), loop_range(4, 3)
    ('[0:4)', '[0:4,3)')
    """
    return f"[0:{bound})" if last == bound else f"[0:{bound},{last})"


def loop_lines(mapped: LevelMapping, passes: tuple[tuple[int, ...], ...]) -> list[str]:
    """Loops of one level, outermost first: in time, then over x and y."""
    blocks = (("for", "", mapped.temporal), ("par_for", " on x", mapped.x), ("par_for", " on y", mapped.y))
    return [
        f"{word} {loop.dim} in {loop_range(loop.bound, last)}{axis}"
        for (word, axis, loops), block in zip(blocks, passes, strict=True)
        for loop, last in zip(loops, block, strict=True)
        if loop.bound > 1
    ]


def _instances(used: int, instances: int) -> str:
    if instances == 1:
        return ""
    return f" x{used:,}" if used == instances else f" x{used:,} of {instances:,}"


def _room(level: LevelResult) -> str:
    """How full one instance is."""
    used = format_bits(level.used_words * level.word_bits)
    if level.capacity_words is None:
        return f"{used} used"
    share = percent(level.used_words / max(1, level.capacity_words))
    return f"{used} of {format_bits(level.capacity_words * level.word_bits)} used ({share})"


def _keeps(result: Result, level: str) -> str:
    """Tiles that a level keeps, and tensors that pass it by."""
    tiles = {t.tensor: f"{t.tensor} {count(t.tile_words)}" for t in result.tensors if t.level == level}
    passed = [n.tensor for n in result.networks if n.level == level and n.tensor not in tiles]
    text = f"keeps {', '.join(tiles.values())} (words)" if tiles else "keeps nothing"
    return text + (f"; {', '.join(passed)} pass by" if passed else "")


def nest_line(result: Result) -> str:
    """Loop nest on one line: levels outermost first, each with the tensors that it keeps and its loops above 1.

    The loops of a level stand in order, outermost first; x(...) and y(...) hold those over its fanout. `K=4,3` makes 3
    iterations in its last pass.
    """
    letter = letters(list(dict.fromkeys(network.tensor for network in result.networks)))
    last = last_passes(result.mapping, result.bounds)
    return " | ".join(
        _level_line(mapped, passes, letter) for mapped, passes in zip(result.mapping.levels, last, strict=True)
    )


def _level_line(mapped: LevelMapping, passes: tuple[tuple[int, ...], ...], letter: dict[str, str]) -> str:
    kept = "".join(short for name, short in letter.items() if name in mapped.keep)
    time, *space = (
        [
            f"{loop}" if last == loop.bound else f"{loop},{last}"
            for loop, last in zip(loops, block, strict=True)
            if loop.bound > 1
        ]
        for loops, block in zip((mapped.temporal, mapped.x, mapped.y), passes, strict=True)
    )
    spread = [f"{axis}({' '.join(loops)})" for axis, loops in zip("xy", space, strict=True) if loops]
    return " ".join([f"{mapped.level}[{kept}]", *time, *spread])
