"""Measured kernels from a CSV: matrix products with their sizes, number format and time."""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from accelsim.errors import AccelsimError, Mark
from accelsim.gpu.gemm import LARGEST, Gemms
from accelsim.gpu.grids import LAUNCH, swapped_grids
from accelsim.gpu.machine import FORMATS
from accelsim.spec.source import Problems, read_text
from accelsim.units import listed, near_miss, quoted

COLUMNS = {
    "device": ("device", "gpu", "device_name", "gpu_name"),
    "m": ("m",),
    "n": ("n",),
    "k": ("k",),
    "batch": ("batch", "b", "batch_count"),
    "dtype": ("dtype", "format", "precision", "gemm_dtype", "data_type"),
}
"""Names of a column, in any case and order; others are ignored."""
TIMES = {
    **{"time_us_median": 1.0, "time_us": 1.0, "latency_us": 1.0, "duration_us": 1.0, "median_us": 1.0},
    **{"time_ms": 1e3, "latency_ms": 1e3, "time_s": 1e6, "time_ns": 1e-3, "duration_ns": 1e-3},
}
"""Names of the column of times, the first that is there, and what makes us of it."""
_FORMAT_NAMES = {
    **{
        "bfloat16": "bf16",
        "float16": "fp16",
        "half": "fp16",
        "float32": "fp32",
        "float": "fp32",
        "tensorfloat32": "tf32",
    },
    **{"float64": "fp64", "double": "fp64", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "float8": "fp8", "nvfp4": "fp4"},
}
_HELD_OUT_OF_TEN = 3
_FAR = 0.9


@dataclass(frozen=True, slots=True)
class Measured:
    """Measured products of one device in one number format; `note` says how they were read, if not as they stand."""

    device: str
    number_format: str
    gemms: Gemms
    time_us: NDArray[np.float64]
    note: str = ""

    def __len__(self) -> int:
        return len(self.gemms)

    def rows(self, which: NDArray[np.bool_]) -> Measured:
        """Some of the rows."""
        return Measured(self.device, self.number_format, self.gemms.rows(which), self.time_us[which], self.note)


@dataclass(frozen=True, slots=True)
class Split:
    """Which rows a fit may use, and which test it; bool[rows], each row in exactly one."""

    fit: NDArray[np.bool_]
    interpolation: NDArray[np.bool_]
    extrapolation: NDArray[np.bool_]


def split_rows(gemms: Gemms) -> Split:
    """Divide rows by a hash of their sizes, so that the same shape is always on the same side.

    Extrapolation are rows whose N or K is beyond nine tenths of the different values in the table. Of the others, a
    hash takes three tenths as interpolation; the rest may be fitted.

    Examples
    --------
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
    held = np.array([zlib.crc32(key.encode()) % 10 < _HELD_OUT_OF_TEN for key in keys], dtype=bool)
    return Split(~held & ~far, held & ~far, far)


def format_of(text: str) -> str | None:
    """Number format of a name as frameworks write it, or the first one among several words; else None.

    Examples
    --------
    >>> format_of("torch.bfloat16"), format_of("Results - FP16 ip, Mixed math"), format_of("complex")
    ('bf16', 'fp16', None)
    """
    name = text.strip().lower().removeprefix("torch.")
    words = (name, *name.replace("-", " ").replace(",", " ").split())
    known = (_FORMAT_NAMES.get(word, word) for word in words)
    return next((word for word in known if word in FORMATS), None)


def read_measured(path: str | PathLike[str], *, number_format: str | None = None) -> list[Measured]:
    """Read measured matrix products.

    Parameters
    ----------
    path : str or path
        CSV with a head line. Columns M, N, K and a time must be there; `device`, `dtype` and `batch` may be; others are
        ignored, and so are lines that begin with `#`. Where the columns `tile0`, `tile1` and `grid` of launches are
        there too, and all grids cover M x K, N and K are taken the other way round, and `note` says so.
    number_format : str, optional
        Where the table has no column of formats.

    Returns
    -------
    list of Measured
        By device and format, in the order in which they first stand in the file; device is empty without a column.

    Raises
    ------
    AccelsimError
        If that is no number format.
    SpecError
        With every mistake in the file and its place.
    """
    known = None if number_format is None else format_of(number_format)
    if number_format is not None and known is None:
        hint = near_miss(number_format, FORMATS) or f"formats: {listed(FORMATS)}"
        raise AccelsimError(f"{quoted(number_format)} is no number format; {hint}")
    problems = Problems()
    text = read_text(path, problems)
    return problems.result(_read(text, str(path), known, problems) if text is not None else None)


def _read(text: str, file: str, number_format: str | None, problems: Problems) -> list[Measured] | None:
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip() and line[0] != "#"]
    if not lines:
        problems.add(Mark(file, 1, 1), "the file is empty", "expected a head line with M, N, K and time_us_median")
        return None
    table = list(csv.reader(io.StringIO("\n".join(line for _, line in lines))))
    head = [name.strip().lower() for name in table[0]]
    at = {key: next((head.index(name) for name in names if name in head), None) for key, names in COLUMNS.items()}
    time = next((name for name in TIMES if name in head), None)
    where = Mark(file, lines[0][0], 1)
    for key in ("m", "n", "k"):
        if at[key] is None:
            problems.add(where, f"no column {key.upper()}", f"columns: {listed(table[0])}")
    if time is None:
        hint = near_miss("time_us_median", head) or f"name it time_us_median; columns: {listed(table[0])}"
        problems.add(where, "no column of times", hint)
    if at["dtype"] is None and number_format is None:
        problems.add(where, "no column dtype", "add it, or say --dtype")
    if len(problems):
        return None
    told = _swapped(table, head, at)
    if told:
        at["n"], at["k"] = at["k"], at["n"]
    groups: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    unknown: set[str] = set()
    for (number, _), row in zip(lines[1:], table[1:], strict=False):
        read = _row(row, Mark(file, number, 1), head, at, str(time), number_format, unknown, problems)
        if read is not None:
            groups.setdefault(read[0], []).append(read[1])
    if not groups and not len(problems):
        problems.add(where, "no row below the head line", "write a row for each measured product")
    if len(problems):
        return None
    note = f"{file}: N and K are taken the other way round: all {told} grids that tell them apart cover M x K"
    return [_measured(device, name, rows, note if told else "") for (device, name), rows in groups.items()]


def _swapped(table: Sequence[Sequence[str]], head: Sequence[str], at: Mapping[str, int | None]) -> int:
    """Grids that say that N and K stand the other way round; 0 without any."""
    if not all(name in head for name in LAUNCH):
        return 0
    columns = {name: head.index(name) for name in LAUNCH}
    columns |= {name.upper(): column for name in ("m", "n", "k") if (column := at[name]) is not None}
    whole = (row for row in table[1:] if len(row) >= len(head))
    return swapped_grids({name: row[column] for name, column in columns.items()} for row in whole)


def _row(
    row: Sequence[str],
    where: Mark,
    head: Sequence[str],
    at: Mapping[str, int | None],
    time: str,
    number_format: str | None,
    unknown: set[str],
    problems: Problems,
) -> tuple[tuple[str, str], tuple[float, ...]] | None:
    """Read one row, or report what is wrong with it; each unknown number format once."""
    if len(row) < len(head):
        problems.add(where, f"expected {len(head)} cells, got {len(row)}")
        return None
    before = len(problems)
    sizes = []
    for key in ("m", "n", "k", "batch"):
        column = at[key]
        cell = "1" if column is None else row[column].strip() or "1"
        value = _number(cell)
        if value is None or value != int(value) or not 1 <= value <= LARGEST:
            problems.add(
                _cell(where, row, column), f"{key.upper()}: expected a whole number from 1, got {quoted(cell)}"
            )
        sizes.append(value or 1.0)
    column = head.index(time)
    measured = _number(row[column])
    if measured is None or measured <= 0:
        problems.add(_cell(where, row, column), f"{time}: expected a time above 0, got {quoted(row[column])}")
    column = at["dtype"]
    name = number_format if column is None else format_of(row[column])
    if name is None and column is not None and row[column] not in unknown:
        unknown.add(row[column])
        hint = near_miss(row[column], FORMATS) or f"formats: {listed(FORMATS)}"
        problems.add(_cell(where, row, column), f"{quoted(row[column])} is no number format", hint)
    if len(problems) > before or measured is None or name is None:
        return None
    device = "" if at["device"] is None else row[at["device"]].strip()
    return (device, name), (*sizes, measured * TIMES[time])


def _cell(where: Mark, row: Sequence[str], column: int | None) -> Mark:
    """Place of a cell of a row, as long as no cell before it is quoted."""
    return Mark(where.file, where.line, 1 + sum(len(cell) + 1 for cell in row[: column or 0]))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _measured(device: str, number_format: str, rows: Sequence[tuple[float, ...]], note: str) -> Measured:
    m, n, k, batch, time_us = (np.array(values, dtype=np.float64) for values in zip(*rows, strict=True))
    return Measured(device, number_format, Gemms.of(m, n, k, batch), time_us, note)
