"""How commands print: a report in one go, or JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.inputs.errors import AccelsimError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console

    from accelsim.population.parts import OnPart
    from accelsim.show.table import Part

DONE, NO_VALID_MAPPING, DIFFERS, BAD_INPUT, INTERRUPTED = 0, 1, 1, 2, 130
_WIDEST = 120


def make_console(*, stderr: bool = False) -> Console:
    """Make a console on stdout or stderr that is not wider than a report reads well."""
    from rich.console import Console

    console = Console(file=sys.stderr if stderr else sys.stdout, markup=False, highlight=False, emoji=False)
    console.width = min(console.width, _WIDEST)
    return console


def print_report(parts: Iterable[Part]) -> None:
    """Print a report; written in one go, so that a reader who went away is noticed here."""
    from accelsim.show.table import print_parts

    console = make_console()
    with console.capture() as captured:
        print_parts(console, parts)
    sys.stdout.write("".join(line.rstrip() + "\n" for line in captured.get().lstrip("\n").splitlines()))


def answer(
    arguments: argparse.Namespace,
    document: Mapping[str, Any],
    report: Callable[[], Iterable[Part]],
    *written: str | None,
    brief: Iterable[Part] | None = None,
) -> None:
    """Print a document as JSON where that is asked for, else a report; and write the tables of the report as CSV.

    `written` are files and folders that hold more of it; `brief` is printed instead of the report, where it is given.
    """
    from accelsim.show.table import whole

    parts = [] if (arguments.json or brief is not None) and not arguments.csv else list(report())
    paths = [*filter(None, written), *write_tables(arguments.csv, parts)]
    if arguments.json:
        print_json(document)
        return
    end = [whole(f"\nWritten to {', '.join(paths)}")] if paths else []
    print_report([*(parts if brief is None else brief), *end])


def write_tables(file: str | None, parts: Iterable[Part]) -> list[str]:
    """Write the tables of a report as CSV where a file is named, and say which files these are."""
    if not file:
        return []
    from accelsim.results.folder import write_directory
    from accelsim.show.table import csv_files

    path = Path(file)
    return [str(each) for each in write_directory(path.parent, csv_files(path.name, parts))]


def print_json(document: Mapping[str, Any]) -> None:
    """Print a document as JSON."""
    from accelsim.results.output import to_json

    sys.stdout.write(to_json(document))


@contextmanager
def show_parts(console: Console, what: str) -> Iterator[OnPart | None]:
    """Show what a census does now, where the console is a terminal."""
    if not console.is_terminal:
        yield None
        return
    with console.status(what) as status:
        yield lambda part: status.update(f"{what}: {part}")


def figure_kind(path: str | Path) -> str:
    """Kind of a figure by the ending of its file: `png` or `svg`."""
    kind = Path(path).suffix.lower().lstrip(".")
    if kind not in ("png", "svg"):
        raise AccelsimError(f"{path}: name a file that ends in .png or .svg")
    return kind


def write_figure(path: str | Path, ax: Axes) -> None:
    """Write a figure as PNG or SVG, by the ending of its name."""
    from accelsim.results.folder import write_directory
    from accelsim.show.plots.style import figure_bytes

    kind = figure_kind(path)
    write_directory(Path(path).parent, {Path(path).name: figure_bytes(ax, [kind])[kind]})
