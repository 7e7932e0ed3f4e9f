"""Report of `verify`: what was recorded beside what is found now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.text import Text

from accelsim.results.verifying import Check
from accelsim.show.table import Column, Piece, Table, bold, dim


def _cell(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.12g}"


_WORDS = {True: ("agrees", ""), False: ("DIFFERS", "bold red"), None: ("not checked", "dim")}
_COLUMNS = (
    Column("what", "what"),
    Column("recorded", "recorded", _cell, fold=True),
    Column("found", "found", _cell, fold=True),
    Column("", lambda row: _WORDS[row["agrees"]], lambda word: Text(*word), left=True),
)


def checks_report(name: str, checks: Sequence[Check]) -> Iterator[Piece]:
    """One row for each thing that was checked."""
    yield bold(name)
    yield Table("checks", _COLUMNS, [asdict(check) for check in checks])
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
