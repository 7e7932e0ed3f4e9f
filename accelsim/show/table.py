"""Tables as commands show them: rows that JSON and CSV hold as they are, and columns that say how people read them.

A report is a list of parts: tables, and lines between them.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any, TypeAlias, cast

from rich.box import Box
from rich.cells import cell_len
from rich.console import Console
from rich.containers import Lines
from rich.table import Table as RichTable
from rich.text import Text

from accelsim.results import csv_text

Row: TypeAlias = Mapping[str, Any]
_WIDE = 100
"""Letters beside each other from which tables have more columns."""
_RULED = Box("    \n    \n -- \n    \n -- \n -- \n    \n    \n", ascii=True)
_FOLDED = 12
"""Letters that a column keeps that breaks its text."""
_DIM = "#7f7f7f"
"""How rich exports what is dim."""
_PRE = (
    "white-space: pre; overflow-x: auto; line-height: 1.3; font-size: 0.85em; "
    "font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
)
_LEAST_BAR = 12
"""Letters of a bar below which columns move closer together."""


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of a row, for people: a key of the row, keys into what is below it, or what makes it of the whole row.

    `form` writes a value, to which its unit belongs; None is left empty. `meaning` is what `legend` says about it.
    `left`: it stands to the left; None: the first column only. `fold`: its text breaks, to the left, where the width
    does not suffice; `unbroken`: it never does, though it is the first column. `wide`: it is left out below 100
    letters. `once`: a cell is left empty that says the same as the one above.
    """

    head: str
    value: str | tuple[str | int, ...] | Callable[[Row], Any]
    form: Callable[[Any], str | Text] = str
    meaning: str = ""
    left: bool | None = None
    fold: bool = False
    wide: bool = False
    unbroken: bool = False
    once: bool = False

    def to_left(self, at: int) -> bool:
        """Whether its cells stand to the left, where it is column `at` of a table."""
        return self.fold or (at == 0 if self.left is None else self.left)

    def cell(self, row: Row) -> str | Text:
        """What people read in a row."""
        if isinstance(self.value, tuple):
            value = reduce(lambda found, key: found[key] if found else None, self.value, cast(Any, row))
        else:
            value = row.get(self.value) if isinstance(self.value, str) else self.value(row)
        return "" if value is None else self.form(value)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, and how people read them; `name` is that of the CSV file.

    `rows` have raw values by key, with the unit in the key, and the same keys; without any, nothing is printed. People
    read `shown` instead, such as a row for several of them, at `most` so many. `below` a rule stand sums and such, as
    rows or as cells, which are no rows of the table. `bar` draws a row into so many letters beside it. `close`: there
    is one blank between columns, not two.
    """

    name: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    title: str = ""
    note: str = ""
    shown: Sequence[Row] | None = None
    below: Sequence[Row | Sequence[str]] = ()
    most: int | None = None
    bar: Callable[[Row, int], Text] | None = None
    bar_head: str = ""
    close: bool = False


Piece: TypeAlias = Table | Text | str


def heading(text: str, note: str = "") -> Text:
    """Title of a section, after an empty line."""
    return Text("\n" + text, style="bold").append(f"  {note}" if note else "", style="not bold")


class _Breakable(Text):
    """A name that breaks behind blanks, `_`, `/` and `-`, and inside a word only where that is too long."""

    def wrap(self, console: Console, width: int, **options: Any) -> Lines:
        if options.get("no_wrap") or width < 1:
            return super().wrap(console, width, **options)
        offsets, begin = [], 0
        for piece in re.finditer(r"[^\s_/-]*(?:[\s_/-]+|$)", self.plain):
            if piece.end() - begin > width and piece.start() > begin:
                begin = piece.start()
                offsets.append(begin)
            while len(piece.group().rstrip()) > width and piece.end() - begin > width:
                begin += width
                offsets.append(begin)
        return self.divide(offsets)


class Tree(str):
    """Lines of a tree, numbered or not."""

    def wrapped(self, width: int) -> str:
        """The tree with lines that are so long at most: what does not fit stands further in, below the text."""
        found = list[str]()
        for line in self.splitlines():
            before = re.sub(r"^( *\d+  | *).*", r"\1", line)
            hang = " " * min(len(before) + 4 * (not before.strip()), width // 2)
            found += textwrap.wrap(line, width, subsequent_indent=hang, break_on_hyphens=False)
        return "\n".join(found)


def bold(text: str) -> Text:
    """What a reader should see first."""
    return Text(text, style="bold")


def invalid(violation: object) -> Text:
    """A rule that a mapping breaks."""
    return Text(f"INVALID: {violation}", style="bold red")


def dim(text: str) -> Text:
    """How to read what stands above."""
    return Text(text, style="dim")


def whole(text: str) -> Text:
    """A line that is never broken, such as one with a path."""
    return Text(text, no_wrap=True, overflow="ignore")


def facts(found: Mapping[str, str], wide: int = 12) -> Iterator[str]:
    """A line for each of some facts, whose names are so many letters wide."""
    return (f"{name:<{wide}} {text}" for name, text in found.items())


def legend(columns: Iterable[Column]) -> Text:
    """What columns mean whose heads do not say it."""
    return dim("; ".join(f"{column.head}: {column.meaning}" for column in columns if column.meaning))


def written(parts: Iterable[Piece], width: int) -> str:
    """A report as plain text of so many letters beside each other."""
    console = _console(width)
    with console.capture() as captured:
        print_parts(console, parts)
    return "".join(line.rstrip() + "\n" for line in captured.get().lstrip("\n").splitlines())


def written_html(parts: Iterable[Piece], width: int) -> str:
    """A report as HTML, for notebooks: plain where styles are removed, and of the page's own colours.

    Bold text is an element, since forges remove styles; what is dim fades into whatever is behind it.
    """
    console = _console(width, record=True)
    print_parts(console, parts)
    text = console.export_html(inline_styles=True, code_format="{code}").strip("\n")
    text = re.sub(r'<span style="([^"]*)">([^<]*)</span>', _element, text)
    text = re.sub(r" +((?:</\w+>)?)$", r"\1", text, flags=re.MULTILINE)
    return f'<pre style="{_PRE}">{text}</pre>\n'


def _console(width: int, *, record: bool = False) -> Console:
    """A console that writes into memory, also in a notebook, where rich would show each piece at once."""
    return Console(
        file=io.StringIO(), width=width, record=record, color_system="truecolor" if record else None, markup=False,
        highlight=False, emoji=False, force_jupyter=False,
    )  # fmt: skip


def _element(found: re.Match[str]) -> str:
    """A piece of text whose style rich wrote, with as little markup as says the same."""
    style, text = dict(part.split(": ") for part in found[1].split("; ")), found[2]
    if not text.strip():
        return text
    text, blanks = text.rstrip(), text[len(text.rstrip()) :]
    colour = style.get("color")
    if colour is not None:
        text = f'<span style="{"opacity: 0.7" if colour == _DIM else f"color: {colour}"}">{text}</span>'
    return (f"<b>{text}</b>" if "font-weight" in style else text) + blanks


def print_parts(console: Console, parts: Iterable[Piece]) -> None:
    """Print a report as text."""
    for part in parts:
        if isinstance(part, Table):
            _print(console, part)
        elif isinstance(part, Tree):
            console.print(part.wrapped(console.width))
        else:
            console.print(part, soft_wrap=isinstance(part, Text) and part.overflow == "ignore")


def _print(console: Console, part: Table) -> None:
    rows = (part.rows if part.shown is None else part.shown)[: part.most]
    if not rows and not part.below:
        return
    if part.title:
        console.print(heading(part.title, part.note))
    columns = [column for column in part.columns if console.width >= _WIDE or not column.wide]
    cells, below = _cells(columns, rows), _cells(columns, part.below)
    made = rich_table(columns)
    if part.close:
        made.padding = (0, 0, 0, 0)
    if part.bar:
        heads = [column.head for column in columns]
        gap, room = _room_beside(console, [heads, *(list(map(str, row)) for row in [*cells, *below])], part.close)
        made.padding = (0, gap - 1, 0, 0)
        made.add_column(part.bar_head, no_wrap=True, overflow="fold")
        cells = [[*cell, part.bar(row, room)] for cell, row in zip(cells, rows, strict=True)]
    for row in cells:
        names = isinstance(row[0], str) and columns[0].left is not False
        made.add_row(*([_Breakable(str(row[0])), *row[1:]] if names else row))
    if below:
        made.add_section()
    for row in below:
        made.add_row(*row)
    print_table(console, made)


def rich_table(columns: Sequence[Column]) -> RichTable:
    """Make a table with a rule below its head; numbers stand to the right.

    A column that folds breaks its text where the width does not suffice, and so does the first unless it is
    `unbroken`; no other one does.
    """
    made = RichTable(box=_RULED, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")
    for at, column in enumerate(columns):
        whole = column.unbroken or (at > 0 and not column.fold)
        made.add_column(column.head, justify="left" if column.to_left(at) else "right", no_wrap=whole, overflow="fold")
    return made


def print_table(console: Console, made: RichTable) -> None:
    """Print a table, with its columns closer together where the width asks for it; no number is ever cut off."""
    widths = [
        max(max(map(cell_len, str(cell).splitlines()), default=0) for cell in (column.header, *column.cells))
        for column in made.columns
    ]
    foldable = any(not column.no_wrap for column in made.columns[1:])
    gaps = len(widths) - 1
    if sum(widths) + gaps * (1 + sum(made.padding[1::2])) > console.width and not foldable:
        made.padding = (0, 0, 0, 0)
    least = gaps * (1 + sum(made.padding[1::2])) + sum(
        max(1, width if column.no_wrap else min(width, _FOLDED))
        for column, width in zip(made.columns, widths, strict=True)
    )
    screen = console.width
    console.width = max(screen, least)
    console.print(made)
    console.width = screen


def _room_beside(console: Console, rows: Sequence[Sequence[str]], close: bool) -> tuple[int, int]:
    """Gap between columns, and letters that are left beside these rows (their head among them) for a bar."""
    widths = [max(len(line) for cell in column for line in cell.split("\n")) for column in zip(*rows, strict=True)]
    for gap in (1,) if close else (2, 1):
        left = console.width - sum(widths) - gap * len(widths)
        if left >= _LEAST_BAR:
            break
    return gap, left


def _cells(columns: Sequence[Column], rows: Sequence[Row | Sequence[str]]) -> list[list[str | Text]]:
    """What people read in rows."""
    cells: list[list[str | Text]] = []
    for each in rows:
        cells.append([column.cell(each) for column in columns] if isinstance(each, Mapping) else list(each))
    for above, row in reversed(list(pairwise(cells))):
        for at, column in enumerate(columns):
            row[at] = "" if column.once and row[at] == above[at] else row[at]
    return cells


def to_csv(rows: Sequence[Row]) -> str:
    """Rows as CSV: raw numbers under their keys; a record in a row has a column for each of its values.

    Lists of plain values are one cell; lists of records are left out.

    >>> print(to_csv([{"layer": "conv1", "energy_pj": 1.5, "proved": True, "share": {"energy": None}}]), end="")
    layer,energy_pj,proved,share_energy
    conv1,1.5,true,
    """
    flat = [dict(_flat(row)) for row in rows]
    return csv_text(flat, list(dict.fromkeys(key for row in flat for key in row)))


def _flat(row: Row, before: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}_")
        elif not isinstance(value, list | tuple):
            yield f"{before}{key}", value
        elif not any(isinstance(each, list | tuple | Mapping) for each in value):
            yield f"{before}{key}", " ".join(map(str, value))


def csv_files(parts: Iterable[Piece]) -> dict[str, bytes]:
    """Tables of a report as CSV, by the name of their file; tables of one name are one.

    >>> list(csv_files([Table("levels", (), [{"level": "GLB"}]), "a line", Table("cycles", (), [])]))
    ['levels.csv', 'cycles.csv']
    """
    rows: dict[str, list[Row]] = {}
    for part in parts:
        if isinstance(part, Table):
            rows.setdefault(part.name, []).extend(part.rows)
    return {f"{name}.csv": to_csv(each).encode() for name, each in rows.items()}
