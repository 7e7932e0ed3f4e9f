"""The report of `accelsim explain`: the loop nest, what each step moves, and the totals."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from accelsim.results.explain import ComputeWalk, Explanation, TileStep, TileWalk
from accelsim.show.report.nest import loop_range, nest_parts
from accelsim.show.report.text import count, energy, print_table, table
from accelsim.show.table import heading, print_parts

_WIDEST_BOX, _NARROWEST_REASON = 26, 16
_COLUMNS = ("tile", "reads", "fills", "updates")
_FILLS = ("first_fill", "fills", "last_drain", "drains")
_KEY = (
    ("h 0:3", "points 0, 1 and 2 along h; a box is such a range for each rank"),
    ("h 0:3 -> 1:4", "the box before and after a step of the loops outside the tile"),
    ("in, out", "words that enter and leave the tile in this step"),
    ("first", "output words that enter for the first time: nothing to read yet"),
    ("fills", "words filled from the level above, until and with this step"),
    ("updates", "output words sent to the level above, until and with this step"),
)


def print_explanation(console: Console, explanation: Explanation, origin: str) -> None:
    """Print an explanation; `origin` says where its mapping is from."""
    result = explanation.result
    console.print(Text(f"{result.workload} on {result.architecture}, step by step", style="bold"))
    console.print(f"Mapping: {origin}.")
    for violation in result.violations:
        console.print(Text(f"INVALID: {violation}", style="bold red"))
    console.print(heading("Loop nest", "for: in time, par_for: in space; sizes of one instance"))
    print_parts(console, nest_parts(result))
    console.print(f"\n{result.levels[0].level} holds every tensor as a whole and is never filled.")
    if explanation.walks:
        _print_key(console)
    for walk in explanation.walks:
        _print_walk(console, walk, dict(explanation.ranks[walk.tensor]))
    if explanation.compute:
        _print_compute(console, explanation)
    _print_totals(console, explanation)


def _print_key(console: Console) -> None:
    console.print(heading("How to read the steps"))
    for words, meaning in _KEY:
        console.print(Text(f"{words:<13} {meaning}"))


def _print_walk(console: Console, walk: TileWalk, ranks: Mapping[str, str]) -> None:
    """Print the steps of one tile."""
    console.print(heading(f"{walk.level}: {walk.tensor}[{', '.join(walk.ranks)}]", _windows(ranks)))
    outside = ", ".join(f"for {dim} in {loop_range(bound, last)}" for dim, bound, last, _ in walk.loops) or "none"
    console.print(f"Tile of {_words(walk.tile_words)}, filled from {walk.parent}. Loops outside: {outside}.")
    if walk.instances > 1:
        console.print(f"{walk.instances:,} {walk.level} are in use; these are the steps of the first one.")
    console.print()
    counted = ("first", "fills", "updates") if walk.output else ("fills",)
    loops = [dim for dim, *_ in walk.loops]
    heads = ["step", *loops, "box", "in", "out", *counted, "why"]
    box = len(loops) + 1
    rows = [[*_indices(step, len(loops)), _box(walk.ranks, step), *_numbers(step, walk.output)] for step in walk.steps]
    used = [max(len(line) for row in [heads, *rows] for line in row[i].split("\n")) for i in range(len(heads) - 1)]
    room = console.width - sum(used) - len(used)
    made = table(*heads, left=(box, len(heads) - 1))
    made.columns[0].justify = "right"
    made.padding = (0, 0, 0, 0)
    for row, step in zip(rows, walk.steps, strict=True):
        made.add_row(*row, _reason(step.why, max(room, _NARROWEST_REASON)))
    print_table(console, made)
    more = walk.count - len(walk.steps)
    if more:
        console.print(f"… {more:,} more step{'s' if more > 1 else ''}; --steps shows more")
    console.print(_summary(walk))


def _windows(ranks: Mapping[str, str]) -> str:
    """Say what a rank is where its name does not."""
    return ", ".join(f"{name} = {text}" for name, text in ranks.items() if name != text.lower())


def _words(number: int) -> str:
    return f"{number:,} word{'' if number == 1 else 's'}"


def _indices(step: TileStep, loops: int) -> list[str]:
    return [str(step.number or "end"), *(str(index) for index in step.indices or [""] * loops)]


def _numbers(step: TileStep, output: bool) -> list[str]:
    numbers = [step.entering, step.leaving, *([step.first] if output else []), step.fills]
    return [count(number) for number in [*numbers, *([step.updates] if output else [])]]


def _box(ranks: Sequence[str], step: TileStep) -> str:
    """Write the box before and after a step: a rank along which it stays has one range."""
    if step.before is None or step.after is None:
        only = [_range(rank, *along) for rank, along in zip(ranks, step.before or step.after or (), strict=True)]
        *others, last = only or ["one word"]
        return _lines([*others, last + (" -> empty" if step.after is None else "")], _WIDEST_BOX)
    moves = [
        _range(rank, *was) + (f" -> {now[0]}:{now[1] + 1}" if was != now else "")
        for rank, was, now in zip(ranks, step.before, step.after, strict=True)
    ]
    return _lines(moves or ["one word"], _WIDEST_BOX)


def _range(rank: str, low: int, high: int) -> str:
    return f"{rank} {low}:{high + 1}"


def _lines(parts: Sequence[str], width: int) -> str:
    """Join parts with commas, on as many lines as the width asks for."""
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 3 <= width:
            lines[-1] += f", {part}"
        else:
            lines[-1] += ","
            lines.append(part)
    return "\n".join(lines)


def _reason(why: str, width: int) -> str:
    """Break a reason at its comma where that suffices, else between words."""
    lines = _lines(why.split(", "), width + 1)
    return lines if max(map(len, lines.split("\n"))) <= width else textwrap.fill(why, width)


def _one(level: str, instances: int) -> str:
    return f"one {level}" if instances > 1 else level


def _summary(walk: TileWalk) -> str:
    """Say what the steps come to at this level and at the one that fills it."""
    here, parent = _one(walk.level, walk.instances), _one(walk.parent, walk.parents)
    below = f" for the {walk.below:,} below it; equal boxes may share a read" if walk.below > 1 else ""
    if not walk.output:
        return f"Sum: {_words(walk.fills)} filled into {here}; {parent} reads {_words(walk.parent_reads)}{below}."
    below = f" from the {walk.below:,} below it; equal boxes may be summed on the way" if walk.below > 1 else ""
    return (
        f"Sum: {_words(walk.first)} entered {here} for the first time, {walk.fills:,} came back and "
        f"{'was' if walk.fills == 1 else 'were'} filled; {parent} takes {walk.parent_updates:,} updates{below}."
    )


def _print_compute(console: Console, explanation: Explanation) -> None:
    """Print what the compute units ask for."""
    name = explanation.result.compute
    console.print(heading(name, "takes a word of every tensor in each step, and keeps none"))
    for walk in explanation.compute:
        console.print(_asked(walk, name))


def _asked(walk: ComputeWalk, name: str) -> str:
    units = f" x {walk.below:,} {name}" if walk.below > 1 else ""
    parent = _one(walk.parent, walk.parents)
    if walk.output:
        return f"{walk.tensor}: {walk.steps:,} steps{units}: {walk.parent_updates:,} updates of {parent}"
    return f"{walk.tensor}: {walk.steps:,} steps{units}: {walk.parent_reads:,} reads of {parent}"


def _print_totals(console: Console, explanation: Explanation) -> None:
    """Print the counts of the walk, and whether the closed formula has the same."""
    one = "the busiest" if explanation.result.ragged else "one"
    console.print(heading("Totals", f"words of {one} instance, counted step by step"))
    made = table("level", "tensor", *_COLUMNS, "closed formula", left=(0, 1, 6))
    for row in explanation.totals:
        counted, formula = row["counted"], row["formula"]
        apart = [f"{name.replace('_', ' ')} {formula[name]:,}" for name in formula if counted[name] != formula[name]]
        cells = [count(counted[name]) for name in _COLUMNS]
        made.add_row(row["level"], row["tensor"], *cells, ", ".join(apart) or "the same")
    print_table(console, made)
    _print_fills(console, explanation)
    result = explanation.result
    verdict = "the same" if explanation.same else "DIFFERS; please report it"
    console.print(Text(f"\nclosed formula: {verdict}", style="bold"))
    console.print(f"It gives {energy(result.energy_pj)} and {result.cycles:,} cycles for this mapping.")


def _print_fills(console: Console, explanation: Explanation) -> None:
    """Print the cycles of the transfers that were walked, level by level."""
    shown = [each for each in explanation.fills if each.fills or each.drains]
    if not shown:
        return
    console.print(heading("Fills and drains", "cycles of all transfers, one after the other, walked"))
    formulas = {each.level: each for each in explanation.result.fills}
    made = table("level", "fills", "drains", "closed formula", left=(0, 3))
    for each in shown:
        formula = formulas[each.level]
        apart = [
            f"{name} {getattr(formula, name):,}" for name in _FILLS if getattr(formula, name) != getattr(each, name)
        ]
        made.add_row(
            each.level,
            f"{each.fills:,}",
            f"{each.drains:,}",
            f"of the busiest: {', '.join(apart)}" if apart else "the same",
        )
    print_table(console, made)
    console.print(
        f"Computing takes {explanation.computing_cycles:,}; if it and all of these wait for each other where a level "
        f"is not double-buffered: {explanation.result.cycles_without_overlap:,} cycles."
    )
