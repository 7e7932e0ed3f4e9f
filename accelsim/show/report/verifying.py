"""The report of `accelsim verify`: what the file says, what was found, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from accelsim.results.verifying import Check
from accelsim.show.report.text import print_table, table


def print_checks(console: Console, name: str, checks: Sequence[Check]) -> None:
    """Print one row for each thing that was checked."""
    console.print(Text(name, style="bold"))
    made = table("what", "recorded", "found", "", left=(0, 3), fold=(1, 2))
    for check in checks:
        word = {True: "agrees", False: "DIFFERS", None: "not checked"}[check.agrees]
        style = {True: "", False: "bold red", None: "dim"}[check.agrees]
        made.add_row(check.what, _cell(check.recorded), _cell(check.found), Text(word, style=style))
    print_table(console, made)
    for check in checks:
        if check.note:
            console.print(Text(f"{check.what}: {check.note}", style="dim"))
    console.print()


def print_verdict(console: Console, checks: Sequence[Check]) -> None:
    """Say whether all of it holds."""
    wrong = sum(check.agrees is False for check in checks)
    right, left = sum(check.agrees is True for check in checks), sum(check.agrees is None for check in checks)
    not_checked = f"; {left} could not be checked" if left else ""
    if wrong:
        console.print(Text(f"NOT VERIFIED: {wrong} of {wrong + right} differ{not_checked}", style="bold red"))
    else:
        console.print(Text(f"verified: all {right} agree{not_checked}", style="bold"))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.12g}"
