"""The command line: what its commands share: console, answers (a report in one go, or JSON), types of arguments."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.library import find
from accelsim.inputs.objective import Limit
from accelsim.inputs.units import SIZE_UNITS, near_miss, parse_size_bits, quantity_pattern
from accelsim.results import to_json, write_directory, write_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console

    from accelsim.search.stopping import OnProgress
    from accelsim.show.table import Piece


DONE, NO_VALID_MAPPING, DIFFERS, BAD_INPUT, INTERRUPTED = 0, 1, 1, 2, 130
_WIDEST = 120


def make_console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Make a console on stdout or stderr that is not wider than a report reads well."""
    from rich.console import Console

    file = sys.stderr if stderr else sys.stdout
    console = Console(file=file, quiet=quiet, markup=False, highlight=False, emoji=False)
    screen = console.size
    console.size = screen._replace(width=min(screen.width, _WIDEST))  # else it asks the terminal for each cell
    return console


def complain(text: str) -> None:
    """Say on stderr what is wrong; nobody may be there to read it."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        return


def print_report(parts: Iterable[Piece]) -> None:
    """Print a report; written in one go, so that a reader who went away is noticed here."""
    from accelsim.show.table import print_parts

    console = make_console()
    with console.capture() as captured:
        print_parts(console, parts)
    sys.stdout.write("".join(line.rstrip() + "\n" for line in captured.get().lstrip("\n").splitlines()))


def answer(
    arguments: argparse.Namespace,
    document: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
    report: Callable[[], Iterable[Piece]],
    *written: str | None,
    files: Callable[[], Mapping[str, bytes]] | None = None,
    figure: Callable[[], Axes] | None = None,
    page: Callable[[], str] | None = None,
    brief: Iterable[Piece] | None = None,
    stop: str = "",
) -> int:
    """Print a document as JSON where that is asked for, else a report; and write what the arguments name files for.

    `written` are files and folders that were written before. `-o` writes `files` into a folder, or `figure` as a
    picture, and `--html` the `page`. `brief` is printed instead of the report. `stop` says why a search ended. Returns
    `DONE` or `INTERRUPTED`; raises OSError if a file cannot be written, after the answer is printed.
    """
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
        print_json(document() if callable(document) else document)
    else:
        end = [whole(f"\nWritten to {', '.join(paths)}")] if paths else []
        print_report([*(parts if brief is None else brief), *end])
    if failed is not None:
        sys.stdout.flush()
        raise failed
    return INTERRUPTED if stop == "interrupted" else DONE


def refuse(arguments: argparse.Namespace, why: str, *names: str) -> None:
    """Raise AccelsimError where one of some options is given that means nothing here."""
    for name in names:
        if getattr(arguments, name, None) != arguments.parser.get_default(name):
            raise AccelsimError(f"--{name.removeprefix('training_').replace('_', '-')}: {why}")


def taken(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Some of the arguments by their names, for a function that calls them so too."""
    return {name: getattr(arguments, name) for name in names}


def print_json(document: Mapping[str, Any]) -> None:
    """Print a document as JSON."""
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


def picture(text: str) -> str:
    """A file that a figure is drawn into."""
    try:
        figure_kind(text)
    except AccelsimError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def write_figure(path: str | Path, ax: Axes) -> None:
    """Write a figure as PNG or SVG, by the ending of its name."""
    from accelsim.show.plots import figure_bytes

    kind = figure_kind(path)
    write_directory(Path(path).parent, {Path(path).name: figure_bytes(ax, [kind])[kind]})


def whole_number(text: str, least: int = 0) -> int:
    """A whole number of at least 0."""
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < least:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least {least}, got '{text}'")
    return int(text)


def positive_int(text: str) -> int:
    """A whole number of at least 1."""
    return whole_number(text, 1)


def counts(text: str) -> tuple[int, ...]:
    """Whole numbers of at least 1, such as 1,2,4."""
    return tuple(positive_int(each.strip()) for each in text.split(","))


def sizes(text: str) -> int | tuple[int, ...]:
    """A size of at least 1, or several such as 1,8,64."""
    found = counts(text)
    return found if len(found) > 1 else found[0]


def _number(text: str) -> float:
    """A number, or NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def seconds(text: str) -> float:
    """A time above 0 [s]."""
    if not 0 < _number(text) < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, got '{text}'")
    return _number(text)


def memory(text: str) -> int:
    """A size above 0 [B]."""
    size = parse_size_bits(text) // 8 if re.search(quantity_pattern(SIZE_UNITS), text) else 0
    if size < 1:
        raise argparse.ArgumentTypeError(f"expected a size such as 500 MiB, got '{text}'")
    return size


def inches(text: str) -> float:
    """The width of a picture."""
    if not 2 <= _number(text) <= 40:
        raise argparse.ArgumentTypeError(f"expected a width of 2 to 40 inches, got '{text}'")
    return _number(text)


def dimensions(text: str) -> str | tuple[str, ...]:
    """Dimensions such as M,K, or all."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"expected dimensions such as M,K, got '{text}'")
    if len(names) == 1 and any(find(text, kind) for kind in ("workloads", "arch")):
        raise argparse.ArgumentTypeError(
            f"'{text}' is a file, not a dimension; put the option behind ARCH and WORKLOAD, or write `all` before them"
        )
    return "all" if names == ("all",) else names


def share(text: str) -> float:
    """A share such as 1% or 0.01."""
    hundredths = text.strip().endswith("%")
    found = _number(text.strip().removesuffix("%")) / (100 if hundredths else 1)
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"expected a share of at least 0, such as 1% or 0.01, got '{text}'")
    if found >= 1 and not hundredths:
        raise argparse.ArgumentTypeError(f"{text} is {100 * found:g} %; write {text}% or 0.01, or {100 * found:g}%")
    return found


def limit(text: str) -> str:
    """A limit on costs, such as `cycles <= 1.2e6`, as it is written."""
    try:
        Limit.parse(text)
    except AccelsimError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def number_format(text: str) -> str:
    """A number format by any of its names, such as bf16 or torch.bfloat16."""
    from accelsim.gpu import catalogue

    try:
        return catalogue.number_format(text)
    except AccelsimError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def columns(text: str) -> tuple[str, ...]:
    """Two or three columns of a front."""
    found = tuple(column.strip() for column in text.split(","))
    known = ("energy", "cycles", "outer_words", "capacity:LEVEL")
    for column in found:
        if column not in known[:3] and not column.startswith("capacity:"):
            hint = near_miss(column.partition(":")[0], [*known[:3], "capacity"])
            raise argparse.ArgumentTypeError(
                f"'{column}' is no column of a front; {hint + ' ' if hint else ''}columns: {', '.join(known)}"
            )
    if not 2 <= len(found) <= 3 or len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"expected two or three different columns, got '{text}'")
    return found


def override(text: str) -> tuple[str, str]:
    """A parameter and its value."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got '{text}'")
    return name.strip(), value


class MissingFilesError(Exception):
    """Files that a command line leaves out, by their names in the usage."""

    def __init__(self, parser: Parser, message: str) -> None:
        super().__init__(message)
        self.parser, self.names = parser, message.rpartition(": ")[2].split(", ")


class Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong, and names the closest command or option beside a misspelt one."""

    told = False
    """Whether it said that files are missing."""

    def error(self, message: str) -> NoReturn:
        """End with one line on what is wrong; raises MissingFilesError where files are missing that others may hold."""
        missing = MissingFilesError(self, message)
        if "required" in message and set(missing.names) <= {"WORKLOAD", "MAPPING"} and not self.told:
            self.told = True
            raise missing
        words = message.replace(",", " ").split()
        known = [option for action in self._actions for option in action.option_strings]
        known += [name for action in self._actions for name in action.choices or ()]
        choice = "invalid choice" in message
        unknown = [
            word.strip("'\"()")
            for word in words
            if "unrecognized" in message or (choice and word.startswith(("'", '"')))
        ]
        found = (near_miss(word.partition("=")[0], known) for word in unknown if word not in known)
        hint = next(filter(None, found), "")
        if not hint and ("unrecognized" in message or "required" in message):
            hint = f"`{self.prog} --help` lists them"
        self.exit(BAD_INPUT, f"{self.prog}: {message}{'; ' if hint else ''}{hint}\n")
