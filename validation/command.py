"""What the commands beside the package share: the forms of a report, its page, and how bad input ends."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from accelsim import cli
from accelsim.inputs.errors import AccelsimError
from accelsim.results import refuse_directory, refuse_file
from accelsim.show.table import Piece, print_parts

PAGE_WIDTH = 120
"""Letters in a line of a page."""


def page_text(parts: Iterable[Piece]) -> str:
    """A report as lines of a Markdown page."""
    console = Console(
        width=PAGE_WIDTH, color_system=None, markup=False, highlight=False, emoji=False, file=io.StringIO()
    )
    with console.capture() as captured:
        print_parts(console, parts)
    lines = "\n".join(line.rstrip() for line in captured.get().strip().splitlines())
    return f"```text\n{lines}\n```\n"


def add_forms(made: argparse.ArgumentParser) -> None:
    """Add the other forms of a report: JSON, and its tables as CSV."""
    made.add_argument("--json", action="store_true", help="print JSON instead of the report")
    what = "write the tables of the report as CSV: the first to FILE, others to FILE_NAME"
    made.add_argument("--csv", metavar="FILE", help=what)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command answers: its document, the report of it, and the files that `-o` writes into a folder, if any."""

    document: Mapping[str, Any]
    report: Callable[[], Iterable[Piece]]
    files: Callable[[], Mapping[str, bytes]] | None = None


def run_alone(
    made: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    work: Callable[[argparse.Namespace], Answer],
) -> tuple[int, Mapping[str, Any]]:
    """Answer a command: its exit code, and the document. Bad input is reported, and leaves no document."""
    add_forms(made)
    made.set_defaults(output=None)
    parsed = made.parse_args(arguments)
    try:
        if parsed.output:
            refuse_directory(parsed.output)
        if parsed.csv:
            refuse_file(parsed.csv, "table.csv")
        found = work(parsed)
        return cli.answer(parsed, found.document, found.report, files=found.files), found.document
    except (AccelsimError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return cli.BAD_INPUT, {}
