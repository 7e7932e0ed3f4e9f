"""Tables in text: cells between commas, semicolons or tabs, each with its place in the file."""

from __future__ import annotations

import csv
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from accelsim.gpu.gemm import LARGEST
from accelsim.inputs.errors import Mark
from accelsim.inputs.source import Problems
from accelsim.inputs.units import quoted

NOWHERE = Mark("", 1, 1)
"""Place of what was read from no file."""
LEAST_US, MOST_US = 1e-6, 1e12
"""Times of kernels [us]."""
A_TIME = f"expected a time from {LEAST_US:g} to {MOST_US:g} us"
_SEPARATORS = (",", ";", "\t")
_MOST_MISTAKES = 20
"""After so many, the rest of a table is not read."""


@dataclass(frozen=True, slots=True)
class CsvRow:
    """Cells of a row without spaces around them, and the line where it begins."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CsvTable:
    """A head line and the lines below it.

    Attributes
    ----------
    file : str
    separator : str
        What stands between cells.
    head : CsvRow
        Names of the columns as written.
    lines : sequence of (int, str)
        The lines of the file with their numbers, without blank ones; the head is among them.
    """

    file: str
    separator: str
    head: CsvRow
    lines: Sequence[tuple[int, str]]

    def mark(self, row: CsvRow, column: int | None = None) -> Mark:
        """Place of a cell, or of the row."""
        _, line = self.lines[bisect_left(self.lines, (row.line, ""))]
        return Mark(self.file, row.line, _start(line, self.separator, column or 0))

    def ends(self, row: CsvRow, mistakes: int, problems: Problems) -> bool:
        """Whether there were so many mistakes that the rows below this one are not read; reported."""
        if mistakes >= _MOST_MISTAKES:
            problems.add(self.mark(row), "the rows below were not read", "mend those above first")
        return mistakes >= _MOST_MISTAKES

    def size(self, row: CsvRow, column: int | None, name: str, problems: Problems, default: str = "") -> float:
        """Size in a cell, or the default where it is empty or there is no such column; 1 after a mistake."""
        cell = (row.cells[column] if column is not None else "") or default
        value = finite(cell)
        if value is not None and value == int(value) and 1 <= value <= LARGEST:
            return value
        what = f"{name}: expected a whole number from 1 to {LARGEST}, got {quoted(cell)}"
        problems.add(self.mark(row, column), what, _decimal_point(cell))
        return 1.0

    def time_us(self, row: CsvRow, column: int, name: str, problems: Problems, to_us: float = 1.0) -> float:
        """Time of a kernel in a cell [us]; 1 after a mistake."""
        value = kernel_time_us(row.cells[column], to_us)
        if value is None:
            what = f"{name}: {A_TIME}, got {quoted(row.cells[column])}"
            problems.add(self.mark(row, column), what, _decimal_point(row.cells[column]))
        return value or 1.0

    def rows(self, problems: Problems, *, strict: bool = True) -> Iterator[CsvRow]:
        """Rows below the head with a cell for each column, or more; mistakes are reported, many of them end it.

        Shorter rows are mistakes, or, if not strict, what another program printed between.
        """
        below = self.lines[bisect_left(self.lines, (self.head.line + 1, "")) :]
        reader = csv.reader((line + "\n" for _, line in below), delimiter=self.separator)
        before, used = len(problems), 0
        try:
            for cells in reader:
                row = CsvRow(below[used][0], tuple(cell.strip() for cell in cells))
                several, used = reader.line_num > used + 1, reader.line_num
                if len(cells) >= len(self.head.cells):
                    yield row
                elif strict:
                    what = f"expected {len(self.head.cells)} cells, got {len(cells)}"
                    problems.add(self.mark(row), what, "is a quote not closed?" if several else "")
                if self.ends(row, len(problems) - before, problems):
                    return
        except csv.Error:
            problems.add(self.mark(CsvRow(below[used][0], ())), "a quote begins here that does not end", "close it")


def find_table(text: str, file: str, is_head: Callable[[Sequence[str]], bool] | None = None) -> CsvTable | None:
    r"""Table whose head is the first line that is no comment (`#`), or the first with names that are asked for.

    Parameters
    ----------
    text : str
    file : str
        For places in messages.
    is_head : callable, optional
        Takes `plain_name` of each cell of a line.

    Examples
    --------
    >>> table = find_table("# a note\nM;N;time [ms]\n1; 2;0,5", "x.csv")
    >>> table.head, [row.cells for row in table.rows(Problems())]
    (CsvRow(line=2, cells=('M', 'N', 'time [ms]')), [('1', '2', '0,5')])
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip() and line[0] != "#"]
    for number, line in lines:
        separator = max(_SEPARATORS, key=lambda each: len(_cells(line, each)))
        cells = _cells(line, separator)
        if is_head is None or is_head([plain_name(cell) for cell in cells]):
            return CsvTable(file, separator, CsvRow(number, cells), lines)
    return None


def plain_name(cell: str) -> str:
    """Name of a column without what people write differently.

    Examples
    --------
    >>> plain_name("Time (µs)"), plain_name(" Kernel Name"), plain_name("gpu__time_duration.sum")
    ('time_us', 'kernel_name', 'gpu_time_duration_sum')
    """
    return re.sub(r"[^a-z0-9]+", "_", re.sub("[µμ]", "u", cell.lower())).strip("_")


def _cells(line: str, separator: str) -> tuple[str, ...]:
    try:
        (cells,) = csv.reader([line], delimiter=separator)
    except csv.Error:
        return (line,)
    return tuple(cell.strip() for cell in cells)


def _start(line: str, separator: str, column: int) -> int:
    """Where in a line a cell begins, from 1; 1 if it stands in another line."""
    quoted = False
    for at, character in enumerate(line, 1):
        if column == 0:
            return at
        quoted ^= character == '"'
        column -= character == separator and not quoted
    return len(line) + 1 if column == 0 else 1


def finite(text: str) -> float | None:
    """Number of a cell, or None if it is none.

    Examples
    --------
    >>> finite("1e3"), finite("1,5"), finite("nan")
    (1000.0, None, None)
    """
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def kernel_time_us(text: str, to_us: float = 1.0) -> float | None:
    """Time of a kernel [us], or None if none takes so long, or so little.

    Examples
    --------
    >>> kernel_time_us("1.5", 1e3), kernel_time_us("0"), kernel_time_us("1e300")
    (1500.0, None, None)
    """
    value = (finite(text) or 0.0) * to_us
    return value if LEAST_US <= value <= MOST_US else None


def _decimal_point(cell: str) -> str:
    return "write a point for decimals, and nothing between thousands" if "," in cell else ""
