"""Reports of `eval --trace`: the loop nest, what each step moves, the totals; of `verify`: recorded beside found."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from rich.text import Text

from accelsim.results.explain import Explanation, TileWalk
from accelsim.results.verifying import Check
from accelsim.show.report import count, energy
from accelsim.show.report.mapping import loop_range, nest_parts
from accelsim.show.table import Column, Piece, Row, Table, bold, dim, heading, invalid

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


def explanation_report(explanation: Explanation, origin: str) -> Iterator[Piece]:
    """The nest, each step of each tile, and the totals; `origin` says where the mapping is from."""
    result = explanation.result
    yield bold(f"{result.workload} on {result.architecture}, step by step")
    yield f"Mapping: {origin}."
    yield from map(invalid, result.violations)
    yield heading("Loop nest", "for: in time, par_for: in space; sizes of one instance")
    yield from nest_parts(result)
    yield f"\n{result.levels[0].level} holds every tensor as a whole and is never filled."
    if explanation.walks:
        yield heading("How to read the steps")
        yield from (f"{words:<13} {meaning}" for words, meaning in _KEY)
    for walk in explanation.walks:
        yield from _walk(walk, explanation.ranks[walk.tensor])
    if explanation.compute:
        yield heading(result.compute, "takes a word of every tensor in each step, and keeps none")
        yield from (_requested(asked, result.compute) for asked in explanation.compute)
    yield from _totals(explanation)


def _walk(walk: TileWalk, ranks: Mapping[str, str]) -> Iterator[Piece]:
    """The steps of one tile."""
    windows = ", ".join(f"{name} = {text}" for name, text in ranks.items() if name != text.lower())
    yield heading(f"{walk.level}: {walk.tensor}[{', '.join(walk.ranks)}]", windows)
    loops = [f"for {loop['dim']} in {loop_range(loop['bound'], loop['last_pass'])}" for loop in walk.loops]
    yield f"Tile of {_words(walk.tile_words)}, filled from {walk.parent}. Loops outside: {', '.join(loops) or 'none'}."
    if walk.instances > 1:
        yield f"{walk.instances:,} {walk.level} are in use; these are the steps of the first one."
    yield ""
    counted = ("first", "fills", "updates") if walk.output else ("fills",)
    columns = (
        Column("step", "number", lambda number: str(number or "end"), left=False),
        *(Column(loop["dim"], ("indices", place)) for place, loop in enumerate(walk.loops)),
        Column("box", _box, left=True), Column("in", "entering", count), Column("out", "leaving", count),
        *(Column(name, name, count) for name in counted),
    )  # fmt: skip
    rows = [asdict(step) for step in walk.steps]
    yield Table("steps", columns, rows, bar=_reason, bar_head="why", close=True)
    more = walk.count - len(walk.steps)
    if more:
        yield f"… {more:,} more step{'s' if more > 1 else ''}; --steps shows more"
    yield _summary(walk)


def _words(number: int) -> str:
    return f"{number:,} word{'' if number == 1 else 's'}"


def _box(row: Row) -> str:
    """Write the box before and after a step: a rank along which it stays has one range."""
    before, after = row["before"], row["after"]
    now = before if after is None else after
    moves = [
        "{} {}:{}".format(rank, *was) + (" -> {}:{}".format(*now[rank]) if was != now[rank] else "")
        for rank, was in (after if before is None else before).items()
    ]
    *others, last = moves or ["one word"]
    return _lines([*others, last + (" -> empty" if after is None else "")], _WIDEST_BOX)


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


def _reason(row: Row, room: int) -> Text:
    """Break a reason at its comma where that suffices, else between words."""
    why, width = row["why"], max(room, _NARROWEST_REASON)
    lines = _lines(why.split(", "), width + 1)
    return Text(lines if max(map(len, lines.split("\n"))) <= width else textwrap.fill(why, width))


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


def _requested(asked: Row, name: str) -> str:
    """Say what the compute units ask of a tensor: a word in each step, of the innermost level that keeps it."""
    units = f" x {asked['below']:,} {name}" if asked["below"] > 1 else ""
    words = f"{asked['parent_updates']:,} updates" if asked["output"] else f"{asked['parent_reads']:,} reads"
    return f"{asked['tensor']}: {asked['steps']:,} steps{units}: {words} of {_one(asked['parent'], asked['parents'])}"


def _totals(explanation: Explanation) -> Iterator[Piece]:
    """The counts of the walk, and whether the closed formula has the same."""
    result = explanation.result
    one = "the busiest" if result.imperfect else "one"
    columns = (
        Column("level", "level"), Column("tensor", "tensor", left=True),
        *(Column(name, ("counted", name), count) for name in _COLUMNS), Column("closed formula", _apart, left=True),
    )  # fmt: skip
    note = f"words of {one} instance, counted step by step"
    yield Table("totals", columns, explanation.totals, "Totals", note)
    yield from _fills(explanation)
    verdict = "the same" if explanation.same else "DIFFERS; please report it"
    yield bold(f"\nclosed formula: {verdict}")
    yield f"It gives {energy(result.energy_pj)} and {result.cycles:,} cycles for this mapping."


def _apart(row: Row) -> str:
    counted, formula = row["counted"], row["formula"]
    apart = [f"{name.replace('_', ' ')} {formula[name]:,}" for name in formula if counted[name] != formula[name]]
    return ", ".join(apart) or "the same"


def _fills(explanation: Explanation) -> Iterator[Piece]:
    """The cycles of the transfers that were walked, level by level."""
    rows = [asdict(each) for each in explanation.fills if each.fills or each.drains]
    if not rows:
        return
    formulas = {(each.level, each.tensor): each for each in explanation.result.fills}

    def apart(row: Row) -> str:
        formula = formulas[row["level"], row["tensor"]]
        reported = [f"{name} {getattr(formula, name):,}" for name in _FILLS if getattr(formula, name) != row[name]]
        return f"of the busiest: {', '.join(reported)}" if reported else "the same"

    columns = (
        Column("level", "level"), Column("tensor", "tensor", left=True),
        *(Column(name, name, "{:,}".format) for name in ("fills", "drains")),
        Column("closed formula", apart, left=True),
    )  # fmt: skip
    yield Table("fills", columns, rows, "Fills and drains", "cycles of all transfers, one after the other, walked")
    yield f"With what of them overlaps, the walk takes {explanation.cycles:,} cycles."


def _cell(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.12g}"


_WORDS = {True: ("agrees", ""), False: ("DIFFERS", "bold red"), None: ("not checked", "dim")}
_CHECKED = (
    Column("what", "what"), Column("recorded", "recorded", _cell, fold=True),
    Column("found", "found", _cell, fold=True),
    Column("", lambda row: _WORDS[row["agrees"]], lambda word: Text(*word), left=True),
)  # fmt: skip


def checks_report(name: str, checks: Sequence[Check]) -> Iterator[Piece]:
    """One row for each thing that was checked."""
    yield bold(name)
    yield Table("checks", _CHECKED, [asdict(check) for check in checks])
    yield from (dim(f"{check.what}: {check.note}") for check in checks if check.note)
    yield ""


def verdict_line(checks: Sequence[Check]) -> Text:
    """Say whether all of it holds."""
    wrong = sum(check.agrees is False for check in checks)
    right, left = sum(check.agrees is True for check in checks), sum(check.agrees is None for check in checks)
    not_checked = f"; {left} could not be checked" if left else ""
    if wrong:
        return Text(f"NOT VERIFIED: {wrong} of {wrong + right} differ{not_checked}", style="bold red")
    return bold(f"verified: all {right} agree{not_checked}")
