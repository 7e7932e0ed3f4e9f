"""Measured kernels from a CSV: matrix products with their sizes, number format and time.

A table has its cells between commas, semicolons or tabs, each with its place in the file. What a kernel's launch grid
says tells which of its sizes is the width of the result.
"""

from __future__ import annotations

import csv
import math
import re
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accelsim.gpu import L2_STATES, ROTATING
from accelsim.gpu.catalogue import format_of
from accelsim.gpu.catalogue import number_format as known_format
from accelsim.gpu.gemms import LARGEST, Gemms
from accelsim.inputs.errors import Mark
from accelsim.inputs.library import hash_file
from accelsim.inputs.source import Problems, read_text
from accelsim.inputs.units import listed, near_miss, quoted

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
    """A head line and the lines below it."""

    file: str
    separator: str  # what stands between cells
    head: CsvRow  # names of the columns as written
    names: tuple[str, ...]  # of these, `plain_name`
    # the lines of the file with their numbers, without blank ones; the head is among them
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

    def size(
        self,
        row: CsvRow,
        column: int | None,
        name: str,
        problems: Problems,
        *,
        default: str = "",
        least: float = 1,
        most: float = LARGEST,
    ) -> float:
        """Whole number in a cell, or the default where it is empty or there is no such column; 1 after a mistake."""
        cell = (row.cells[column] if column is not None else "") or default
        value = finite(cell)
        if value is not None and value == int(value) and least <= value <= most:
            return value
        what = f"{name}: expected a whole number from {least:.0f} to {most:.0f}, got {quoted(cell)}"
        problems.add(self.mark(row, column), what, _decimal_point(cell))
        return 1.0

    def time_us(self, row: CsvRow, column: int, name: str, problems: Problems, to_us: float = 1.0) -> float:
        """Time of a kernel in a cell [us]; 1 after a mistake."""
        cell = row.cells[column]
        value = (finite(cell) or 0.0) * to_us
        if LEAST_US <= value <= MOST_US:
            return value
        problems.add(self.mark(row, column), f"{name}: {A_TIME}, got {quoted(cell)}", _decimal_point(cell))
        return 1.0

    def rows(self, problems: Problems, needed: int | None = None) -> Iterator[CsvRow]:
        """Rows below the head with a cell for each column, or more; mistakes are reported, many of them end it.

        Shorter rows are mistakes. In exports, rows have at least `needed` cells, and those that begin with no number
        are what another program printed between.
        """
        below = self.lines[bisect_left(self.lines, (self.head.line + 1, "")) :]
        reader = csv.reader((line + "\n" for _, line in below), delimiter=self.separator)
        before, used = len(problems), 0
        try:
            for cells in reader:
                row = CsvRow(below[used][0], tuple(cell.strip() for cell in cells))
                several, used = reader.line_num > used + 1, reader.line_num
                if len(cells) >= (needed or len(self.head.cells)):
                    yield row
                elif needed is None or (len(cells) > 1 and finite(cells[0]) is not None):
                    what = f"expected {len(self.head.cells)} cells, got {len(cells)}"
                    problems.add(self.mark(row), what, "is a quote not closed?" if several else "")
                if self.ends(row, len(problems) - before, problems):
                    return
        except csv.Error:
            problems.add(self.mark(CsvRow(below[used][0], ())), "a quote begins here that does not end", "close it")


def find_table(text: str, file: str, is_head: Callable[[Sequence[str]], bool] | None = None) -> CsvTable | None:
    r"""Table whose head is the first line that is no comment (`#`), or the first with names that are asked for.

    `file`: for places in messages. `is_head`: takes `plain_name` of each cell of a line.

    >>> table = find_table("# a note\nM;N;time [ms]\n1; 2;0,5", "x.csv")
    >>> table.head, [row.cells for row in table.rows(Problems())]
    (CsvRow(line=2, cells=('M', 'N', 'time [ms]')), [('1', '2', '0,5')])
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip() and line[0] != "#"]
    for number, line in lines:
        separator = max(_SEPARATORS, key=lambda each: len(_cells(line, each)))
        cells = _cells(line, separator)
        names = tuple(map(plain_name, cells))
        if is_head is None or is_head(names):
            return CsvTable(file, separator, CsvRow(number, cells), names, lines)
    return None


def open_table(
    path: str | PathLike[str],
    problems: Problems,
    is_head: Callable[[Sequence[str]], bool] | None = None,
    what: str = "the file is empty",
    hint: str = "expected a head line with M, N, K and time_us_median",
) -> CsvTable | None:
    """Table of a file as `find_table` finds it; if there is none, `what` is reported, or why the file is not read."""
    text = read_text(path, problems)
    table = None if text is None else find_table(text, str(path), is_head)
    if text is not None and table is None:
        problems.add(Mark(str(path), 1, 1), what, hint)
    return table


def plain_name(cell: str) -> str:
    """Name of a column without what people write differently.

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

    >>> finite("1e3"), finite("1,5"), finite("nan")
    (1000.0, None, None)
    """
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _decimal_point(cell: str) -> str:
    return "write a point for decimals, and nothing between thousands" if "," in cell else ""


LAUNCH = ("tile0", "tile1", "grid")
"""Columns of the sides of a block's output tile, and of the grid as `blocks x blocks x batch`."""
_LEAST_GRIDS = 20


def covers(row: Mapping[str, str], width: str) -> bool:
    """Whether the grid has a block for each tile of a result of M x that many columns, the tile either way round.

    Raises ValueError if a size, a side or the grid is not written as whole numbers.

    >>> covers({"M": "64", "N": "196", "K": "300", "tile0": "128", "tile1": "64", "grid": "5x1x256"}, "K")
    True
    """
    x, y, _ = map(int, row["grid"].split("x"))
    high, wide = int(row["M"]), int(row[width])
    sides = int(row["tile0"]), int(row["tile1"])
    return x * y in {-(-high // a) * -(-wide // b) for a, b in (sides, sides[::-1])}


COLUMNS = {
    "device": ("device", "gpu", "device_name", "gpu_name"),
    "m": ("m",),
    "n": ("n",),
    "k": ("k",),
    "batch": ("batch", "b", "batch_count", "batch_size"),
    "l2": ("l2", "l2_state"),
}
"""Names of a column, in any case and order; others are ignored."""
FORMAT_COLUMNS = ("dtype", "format", "precision", "gemm_dtype", "data_type")
"""Columns of number formats; a row has that of the first one that names a format."""
_UNITS = {"us": 1.0, "usec": 1.0, "ms": 1e3, "msec": 1e3, "ns": 1e-3, "nsec": 1e-3, "s": 1e6, "sec": 1e6}
_TIME_WORDS = ("time", "latency", "duration", "runtime", "elapsed", "gpu", "kernel", "cuda", "measured")
_STATISTICS = ("median", "med", "p50", "", "mean", "avg", "average", "min", "max")
"""Which of several columns of times is taken: the first of these."""
_HELD_OUT_OF_TEN = 3
_FAR = 0.9


@dataclass(frozen=True, slots=True)
class MeasuredGemms:
    """Measured products of one device in one number format, L2 in the same state at the start."""

    device: str
    number_format: str  # a name that no format is known by stands as it is written
    gemms: Gemms
    time_us: NDArray[np.float64]  # float[rows]
    l2: str = ROTATING  # one of `L2_STATES`
    note: str = ""  # how they were read, if not as they stand
    where: Mark = NOWHERE  # the first of them
    sha256: str = ""  # of the file that they stand in

    def __len__(self) -> int:
        return len(self.gemms)

    def rows(self, which: NDArray[np.bool_]) -> MeasuredGemms:
        """Some of the rows."""
        return replace(self, gemms=self.gemms.rows(which), time_us=self.time_us[which])


class FitSplit(NamedTuple):
    """Which rows a fit may use, and which test it; each row is in exactly one of the three."""

    fit: NDArray[np.bool_]  # bool[rows]: rows that the fit may use
    interpolation: NDArray[np.bool_]  # bool[rows]: rows that test it among sizes like those of the fit
    extrapolation: NDArray[np.bool_]  # bool[rows]: rows that test it beyond the sizes of the fit


def held_out(keys: Iterable[str]) -> NDArray[np.bool_]:
    """Which rows a hash of what they are of keeps from every fit."""
    return np.array([zlib.crc32(key.encode()) % 10 < _HELD_OUT_OF_TEN for key in keys], dtype=bool)


def split_rows(gemms: Gemms) -> FitSplit:
    """Divide rows by a hash of their sizes, so that the same shape is always on the same side.

    Extrapolation are rows whose N or K is beyond nine tenths of the different values in the table. Of the others, a
    hash takes three tenths as interpolation; the rest may be fitted.

    >>> split = split_rows(Gemms.of([128] * 40, [64 * (i + 1) for i in range(40)], 256))
    >>> int(split.fit.sum()), int(split.interpolation.sum()), int(split.extrapolation.sum())
    (26, 10, 4)
    """
    far = np.zeros(len(gemms), dtype=bool)
    for values in (gemms.n, gemms.k):
        different = np.unique(values)
        if len(different) > 1:
            far |= values > np.quantile(different, _FAR)
    keys = (
        f"{m:.0f}x{n:.0f}x{k:.0f}x{b:.0f}" for m, n, k, b in zip(gemms.m, gemms.n, gemms.k, gemms.batch, strict=True)
    )
    held = held_out(keys)
    return FitSplit(~held & ~far, held & ~far, far)


def read_measured(
    path: str | PathLike[str], *, number_format: str | None = None, unknown_too: bool = True, l2: str = ROTATING
) -> list[MeasuredGemms]:
    """Read measured matrix products: by device, format and state of L2, in the order in which they stand in the file.

    A CSV has a head line, and its cells between commas, semicolons or tabs. Columns M, N, K and a time with its unit
    (`time_us_median`, `latency_ms`, `Time (ns)`) must be there; `device`, `dtype`, `batch` and `l2` may be; others are
    ignored, and so are lines that begin with `#`. Where the columns `tile0`, `tile1` and `grid` of launches are there
    too, and all grids cover M x K, N and K are taken the other way round, and `note` says so.

    `number_format` is of rows whose format the table does not say, and, if `unknown_too`, of those that name none which
    is known; `l2` is the state of L2 at the start, of rows of which the table does not say it. Raises AccelsimError if
    that is no number format, InputError with every mistake in the file and its place.
    """
    known = None if number_format is None else known_format(number_format)
    problems = Problems()
    table = open_table(path, problems)
    found = problems.result(_read(table, known, unknown_too, l2, problems) if table else None)
    sha256 = hash_file(path)
    return [replace(each, sha256=sha256) for each in found]


def _read(
    table: CsvTable, number_format: str | None, unknown_too: bool, l2: str, problems: Problems
) -> list[MeasuredGemms] | None:
    columns = product_columns(table, problems)
    if number_format is None and not format_columns(table):
        problems.add(table.mark(table.head), "no column dtype", "add it, or say --dtype")
    if columns is None or len(problems):
        return None
    rows = list(table.rows(problems))
    swapped = _swapped_grids(table, columns, rows)
    if swapped:
        columns = replace(columns, sizes={**columns.sizes, "n": columns.sizes["k"], "k": columns.sizes["n"]})
    groups: dict[tuple[str, str, str], tuple[Mark, list[tuple[float, ...]]]] = {}
    for product in products(table, columns, rows, problems):
        other = number_format if unknown_too or not product.dtype else None
        name = product.number_format or other or product.dtype
        key = (product.device, name, product.l2 or l2)
        if key not in groups:
            at = columns.formats[0] if columns.formats else None
            groups[key] = table.mark(product.row, at), []
        groups[key][1].append((*product.sizes, product.time_us))
    if not groups and not len(problems):
        problems.add(table.mark(table.head), "no row below the head line", "write a row for each measured product")
    if len(problems):
        return None
    warning = (
        f"{table.file}: N and K are taken the other way round: all {swapped} grids that tell them apart cover M x K"
    )
    note, found = warning if swapped else "", []
    for (device, name, state), (first, measured) in groups.items():
        *sizes, time_us = np.array(measured, dtype=np.float64).T
        found.append(MeasuredGemms(device, name, Gemms.of(*sizes), time_us.copy(), state, note, first))
    return found


@dataclass(frozen=True, slots=True)
class Columns:
    """Where the columns of a table of products are."""

    sizes: dict[str, int]  # of `m`, `n` and `k`, and of `batch`, `l2` and `device` where they are there
    formats: tuple[int, ...]  # columns that may name the number format
    time: int
    time_name: str
    to_us: float  # what makes us of a time


@dataclass(frozen=True, slots=True)
class MeasuredProduct:
    """One row: sizes are M, N, K and the batch; `number_format` is None where no name of one is known.

    `l2` is empty where the table does not say it.
    """

    row: CsvRow
    device: str
    dtype: str
    number_format: str | None
    sizes: tuple[float, float, float, float]
    time_us: float
    l2: str


def product_columns(table: CsvTable, problems: Problems) -> Columns | None:
    """Columns of a table of products, or None with what is missing reported."""
    head, names = table.head, table.names
    before, found = len(problems), {}
    for key, known in COLUMNS.items():
        at = next((names.index(name) for name in known if name in names), None)
        if at is not None:
            found[key] = at
            if names.count(names[at]) > 1:
                again = table.mark(head, names.index(names[at], at + 1))
                problems.add(again, f"a second column {head.cells[at]}", "leave one of them out")
        elif key in ("m", "n", "k"):
            hint = f"rename one to {key.upper()}; columns: {listed(head.cells)}"
            problems.add(table.mark(head), f"no column {key.upper()}", hint)
    time = time_column(names)
    if time is None:
        hint = near_miss("time_us_median", names) or f"name it time_us_median; columns: {listed(head.cells)}"
        unit = next((name for name in names if name in _TIME_WORDS), None)
        if unit:
            where = head.cells[names.index(unit)]
            hint = f"say the unit in the name, such as {unit}_us, where '{where}' stands"
        problems.add(table.mark(head), "no column of times", hint)
    if time is None or len(problems) > before:
        return None
    return Columns(found, format_columns(table), time[0], head.cells[time[0]], time[1])


def format_columns(table: CsvTable) -> tuple[int, ...]:
    """Columns that may name the number format."""
    return tuple(table.names.index(name) for name in FORMAT_COLUMNS if name in table.names)


def time_column(names: Sequence[str]) -> tuple[int, float] | None:
    """Column of times by its `plain_name`, and what makes us of it; of several the median, or as `_STATISTICS` says.

    >>> time_column(["m", "time_us_min", "time_us_median"]), time_column(["latency_ms"]), time_column(["time"])
    ((2, 1.0), (0, 1000.0), None)
    """
    found = []
    for at, name in enumerate(names):
        words = name.split("_")
        units = [word for word in words if word in _UNITS]
        statistic = [word for word in words if word in _STATISTICS]
        about = [word for word in words if word in _TIME_WORDS]
        if len(units) != 1 or len(statistic) > 1 or len(words) != 1 + len(statistic) + len(about):
            continue
        if len(words) > 1 or units[0] in ("us", "ms", "ns"):
            found.append((_STATISTICS.index(statistic[0] if statistic else ""), at, _UNITS[units[0]]))
    return min(found)[1:] if found else None


def products(
    table: CsvTable, columns: Columns, rows: Sequence[CsvRow], problems: Problems
) -> Iterator[MeasuredProduct]:
    """Products of the rows of a table; a row with a mistake is reported and left out."""
    sizes = columns.sizes
    at_first = len(problems)
    for row in rows:
        before = len(problems)
        m, n, k = (table.size(row, sizes[key], key.upper(), problems) for key in ("m", "n", "k"))
        batch = table.size(row, sizes.get("batch"), "BATCH", problems, default="1")
        time_us = table.time_us(row, columns.time, columns.time_name, problems, columns.to_us)
        l2 = row.cells[sizes["l2"]].lower() if "l2" in sizes else ""
        if l2 not in ("", *L2_STATES):
            what = f"l2: expected one of {listed(L2_STATES)}, got {quoted(row.cells[sizes['l2']])}"
            problems.add(table.mark(row, sizes["l2"]), what, "rename the column if it says something else")
        if table.ends(row, len(problems) - at_first, problems):
            return
        if len(problems) > before:
            continue
        device = row.cells[sizes["device"]] if "device" in sizes else ""
        written = [row.cells[at] for at in columns.formats]
        known = next(filter(None, map(format_of, written)), None)
        yield MeasuredProduct(row, device, written[0] if written else "", known, (m, n, k, batch), time_us, l2)


def _swapped_grids(table: CsvTable, columns: Columns, rows: Sequence[CsvRow]) -> int:
    """Grids of a table that tell N from K, if all of these cover M x K; 0 if one does not, or they are too few.

    Then the table calls the summed dimension N and the width of the result K, as NeuSight's does. Rows without a
    readable grid tell nothing.
    """
    if not set(LAUNCH) <= set(table.names):
        return 0
    at = {name: table.names.index(name) for name in LAUNCH}
    at |= {name.upper(): columns.sizes[name] for name in ("m", "n", "k")}
    swapped = 0
    for row in rows:
        cells = {name: row.cells[column] for name, column in at.items()}
        try:
            by_n, by_k = covers(cells, "N"), covers(cells, "K")
        except ValueError:
            continue
        if by_n and not by_k:
            return 0
        swapped += by_k and not by_n
    return swapped if swapped >= _LEAST_GRIDS else 0
