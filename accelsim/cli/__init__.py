"""The command line: a command reads files, calls the library and prints: a report in one go, or JSON."""

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

    from accelsim.search.strategy import OnProgress
    from accelsim.show.table import Part


DONE, NO_VALID_MAPPING, DIFFERS, BAD_INPUT, INTERRUPTED = 0, 1, 1, 2, 130
_WIDEST = 120


def make_console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Make a console on stdout or stderr that is not wider than a report reads well."""
    from rich.console import Console

    file = sys.stderr if stderr else sys.stdout
    console = Console(file=file, quiet=quiet, markup=False, highlight=False, emoji=False)
    console.width = min(console.width, _WIDEST)
    return console


def complain(text: str) -> None:
    """Say on stderr what is wrong; nobody may be there to read it."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        return


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
    files: Callable[[], Mapping[str, bytes]] | None = None,
    figure: Callable[[], Axes] | None = None,
    page: Callable[[], str] | None = None,
    brief: Iterable[Part] | None = None,
) -> None:
    """Print a document as JSON where that is asked for, else a report; and write what the arguments name files for.

    Parameters
    ----------
    written : str, or None
        Files and folders that were written before.
    files, figure, page : callable, optional
        What `-o` writes into a folder, or as a picture, and the page of `--html`.
    brief : iterable of parts, optional
        Printed instead of the report.

    Raises
    ------
    OSError
        If a file cannot be written; the answer is printed before.
    """
    from accelsim.results import write_directory, write_page
    from accelsim.show.table import csv_files, whole

    paths, failed = [path for path in written if path], None
    parts = [] if (arguments.json or brief is not None) and not arguments.csv else list(report())
    try:
        if (files or figure) and arguments.output:
            if files is not None:
                write_directory(arguments.output, files())
            if figure is not None:
                write_figure(arguments.output, figure())
            paths.append(arguments.output)
        if page is not None and arguments.html:
            write_page(arguments.html, page())
            paths.append(arguments.html)
        if arguments.csv:
            table = Path(arguments.csv)
            paths += map(str, write_directory(table.parent, csv_files(table.name, parts)))
    except OSError as error:
        failed = error
    if arguments.json:
        print_json(document)
    else:
        end = [whole(f"\nWritten to {', '.join(paths)}")] if paths else []
        print_report([*(parts if brief is None else brief), *end])
    if failed is not None:
        sys.stdout.flush()
        raise failed


def print_json(document: Mapping[str, Any]) -> None:
    """Print a document as JSON."""
    from accelsim.results import to_json

    sys.stdout.write(to_json(document))


@contextmanager
def show_status(what: str, before: str = "", *, quiet: bool = False) -> Iterator[OnProgress | None]:
    """Show what is being done, where the console is a terminal; else there is nothing to tell."""
    console = make_console(stderr=True, quiet=quiet)
    if not console.is_terminal:
        yield None
        return
    with console.status(what) as status:
        yield lambda progress: status.update(before + progress.what)


def figure_kind(path: str | Path) -> str:
    """Kind of a figure by the ending of its file: `png` or `svg`."""
    kind = Path(path).suffix.lower().lstrip(".")
    if kind not in ("png", "svg"):
        raise AccelsimError(f"{path}: name a file that ends in .png or .svg")
    return kind


def write_figure(path: str | Path, ax: Axes) -> None:
    """Write a figure as PNG or SVG, by the ending of its name."""
    from accelsim.results import write_directory
    from accelsim.show.plots import figure_bytes

    kind = figure_kind(path)
    write_directory(Path(path).parent, {Path(path).name: figure_bytes(ax, [kind])[kind]})
