"""The command line: what its commands share: console, answers (a report in one go, or JSON), types of arguments."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.library import find
from accelsim.inputs.objective import Limit, canonical
from accelsim.inputs.units import SIZE_UNITS, near_miss, parse_size_bits, quantity_pattern, read_share
from accelsim.results import to_json, write_directory, write_page
from accelsim.search.stopping import answering

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console

    from accelsim.api.shown import Shown
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

    `written` are files and folders that were written before. `-o` writes `files` into a folder, `--plot` the `figure`,
    `--html` the `page`, `--csv` the tables of the report. `brief` is printed instead of the report. `stop` says why a
    search ended. Returns `DONE` or `INTERRUPTED`; raises OSError if a file cannot be written, after the answer is
    printed.
    """
    from accelsim.show.table import csv_files, whole

    paths, failed = [path for path in written if path], None
    csv = getattr(arguments, "csv", None)
    parts = [] if (arguments.json or brief is not None) and not csv else list(report())
    try:
        if files is not None and getattr(arguments, "output", None):
            write_directory(arguments.output, files())
            paths.append(arguments.output)
        if figure is not None and getattr(arguments, "plot", None):
            write_figure(arguments.plot, figure())
            paths.append(arguments.plot)
        if page is not None and getattr(arguments, "html", None):
            write_page(arguments.html, page())
            paths.append(arguments.html)
        if csv:
            paths += map(str, write_directory(csv, csv_files(parts)))
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


def show(arguments: argparse.Namespace, found: Shown, *, kind: str = "", stop: str = "") -> int:
    """Print a result as the arguments ask for it, and write its files, pictures and pages."""
    answering()
    if getattr(arguments, "verbose", False):
        found.verbose = True
    brief = found.brief() if getattr(arguments, "quiet", False) else None
    return answer(
        arguments, found.to_dict, found.parts, files=found.files, figure=lambda: found.plot(kind), page=found.page,
        brief=brief, stop=stop,
    )  # fmt: skip


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
def progress(arguments: argparse.Namespace) -> Iterator[OnProgress]:
    """Show on stderr how far the work is."""
    from accelsim.show.report.progress import search_progress

    quiet = bool(getattr(arguments, "quiet", False))
    mode = "none" if quiet else getattr(arguments, "progress", "auto")
    with search_progress(make_console(stderr=True, quiet=quiet), mode) as tell:
        yield tell


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


def share(text: str) -> float:
    """A share such as 1% or 0.01."""
    found = read_share(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected a share such as 1% or 0.01, got '{text}'")
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


METRICS = ("energy", "cycles")
"""Metrics of a front where none are named."""


def metrics(text: str) -> tuple[str, ...]:
    """Two or three metrics of a front."""
    found = tuple(canonical(column.strip()) for column in text.split(","))
    known = ("energy", "cycles", "offchip_words", "capacity:LEVEL")
    if len(found) == 1 and any(find(text, kind) for kind in ("workloads", "arch")):
        raise argparse.ArgumentTypeError(f"'{text}' is a file; put --pareto behind ARCH and WORKLOAD")
    for column in found:
        if column not in known[:3] and not column.startswith("capacity:"):
            hint = near_miss(column.partition(":")[0], [*known[:3], "capacity"])
            raise argparse.ArgumentTypeError(
                f"'{column}' is not a metric of a front; {hint + ' ' if hint else ''}metrics: {', '.join(known)}"
            )
    if not 2 <= len(found) <= 3 or len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"expected two or three different metrics, got '{text}'")
    return found


def top(text: str) -> int | float:
    """How many mappings are listed, or within which share of the optimum: `20`, `1%`, `0.01`."""
    return positive_int(text) if text.isdigit() else share(text)


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
    former: Mapping[str, str] = MappingProxyType({})
    """Names of earlier versions, and what to write instead."""
    page = ""
    """Help, where it is no list of arguments."""

    def format_help(self) -> str:
        """Give the help."""
        return self.page or super().format_help()

    def error(self, message: str) -> NoReturn:
        """End with one line on what is wrong; raises MissingFilesError where files are missing that others may hold."""
        missing = MissingFilesError(self, message)
        if "required" in message and set(missing.names) <= {"WORKLOAD", "MAPPING"} and not self.told:
            self.told = True
            raise missing
        known = [option for action in self._actions for option in action.option_strings]
        known += [name for action in self._actions for name in action.choices or ()]
        choice = re.match(r"argument (\S+): invalid choice: '([^']*)'", message)
        unknown = [choice[2]] if choice else []
        if "unrecognized" in message:
            unknown = [word.strip("'\"()") for word in message.replace(",", " ").split()]
        if choice and choice[1] in ("COMMAND", "TASK"):
            message = f"no command '{choice[2]}'"
        names = [word.partition("=")[0] for word in unknown if choice or word.startswith("-")]
        if choice and choice[1] not in ("COMMAND", "TASK"):
            names = [f"KIND {name}" for name in names]
        former = [f"it is `{self.former[name]}` now" for name in names if name in self.former]
        close = [near_miss(word.partition("=")[0], known) for word in unknown if word not in known]
        hint = next(filter(None, [*former, *close]), "")
        if not hint and (choice or "unrecognized" in message or "required" in message):
            hint = f"`{self.prog} --help` lists them"
        self.exit(BAD_INPUT, f"{self.prog}: {message}{'; ' if hint else ''}{hint}\n")
