"""Cycles beside those of a machine's RTL: the command of such a study, its columns, page and plots."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from accelsim.cli import BAD_INPUT, answer, seconds
from accelsim.inputs.errors import AccelsimError
from accelsim.results import refuse_directory, refuse_file, to_json
from accelsim.show.plots import figure_files
from accelsim.show.report.gpu import plain, short_percent
from accelsim.show.table import Column, Piece
from validation.command import add_forms, page_text
from validation.plot_measured import plot_measured

CYCLES = (
    Column("rows", "of"),
    Column("count", "rows", "{:,}".format),
    Column("ratio", "ratio", plain, meaning="median of ours over measured"),
    Column("mean", "mean", short_percent, meaning="and median: of the error"),
    Column("median", "median", short_percent),
    Column("Spearman", "spearman", plain),
    Column("near", "near", short_percent, meaning="within 10 %"),
)


def run(
    name: str,
    about: str | None,
    document_of: Callable[[argparse.Namespace], dict[str, Any]],
    report: Callable[..., Iterable[Piece]],
    arguments: Sequence[str] | None,
) -> int:
    """Run the command of a study; a folder has the report as a page, its figures as JSON, and a plot by kind.

    `document_of` makes the document of the arguments; `about` is what the module says of itself.
    """
    parser = argparse.ArgumentParser(prog=f"python -m validation.{name.lower()}", description=about)
    parser.add_argument("paths", nargs="*", metavar="CYCLES", help="CSV with the same columns instead of the usual one")
    parser.add_argument("--every", action="store_true", help="print every row, however many there are")
    parser.add_argument("-o", "--output", metavar="DIR", help="write the report, JSON and plots there")
    if name == "Gemmini":
        what = "our best mapping of each tuned layer too, searched for SECONDS each"
        parser.add_argument("--best", type=seconds, metavar="SECONDS", help=what)
    add_forms(parser)
    parsed = parser.parse_args(arguments)
    try:
        if parsed.output:
            refuse_directory(parsed.output)
        if parsed.csv:
            refuse_file(parsed.csv, "table.csv")
        document = document_of(parsed)
    except AccelsimError as error:
        sys.stderr.write(f"{error}\n")
        return BAD_INPUT

    def files() -> dict[str, bytes]:
        kinds: dict[str, list[tuple[int, int]]] = {}
        for row in document["rows"]:
            kinds.setdefault(row.get("name", "").rstrip("0123456789"), []).append((row["measured"], row["cycles"]))
        pairs = {kind: np.array(rows, np.float64).T for kind, rows in sorted(kinds.items())}
        plot = plot_measured(f"{name}'s RTL", {kind: (pair[0], pair[1]) for kind, pair in pairs.items()}, "cycles")
        head = f"# Cycles beside those of {name}'s RTL\n\n![predicted over measured](cycles.svg)"
        page = f"{head}\n\n{page_text(report(document))}"
        written = {"validation.md": page.encode(), "validation.json": to_json(document).encode()}
        return written | figure_files("cycles", plot)

    return answer(parsed, document, lambda: report(document, every=parsed.every), files=files)
