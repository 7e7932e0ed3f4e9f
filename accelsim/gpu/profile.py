"""Profiles of GPU kernels: exports of Nsight Systems and Nsight Compute, and plain tables of matrix products."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike

from accelsim.errors import Mark
from accelsim.gpu.gemm import LARGEST
from accelsim.gpu.measured import TIMES
from accelsim.spec.source import Problems, read_text
from accelsim.units import listed

_UNITS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6, "nsecond": 1e-3, "usecond": 1.0, "msecond": 1e3, "second": 1e6}
_BYTES = {"byte": 1.0, "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9, "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9}
_TIME_METRICS = ("gpu__time_duration.sum", "gpu__time_duration.avg", "duration")
_DRAM_METRICS = ("dram__bytes.sum", "dram__bytes_read.sum", "dram__bytes_write.sum")
_SHAPE = re.compile(r"(?i)(?:\bm\s*=\s*(\d+)\W+n\s*=\s*(\d+)\W+k\s*=\s*(\d+)|\b(\d+)x(\d+)x(\d+)\b)")


@dataclass(frozen=True, slots=True)
class ProfiledKernel:
    """Runs of one kernel: where it ran, how long a run took, and what it moved.

    Attributes
    ----------
    name : str
        Of the kernel.
    range : str
        NVTX range, or empty.
    time_us : float
        Median of a run where the export has it, else the average.
    runs : int
    shape : (int, int, int) or None
        M, N and K, where the table or the name of the range says them.
    dram_bytes : float or None
    """

    name: str
    range: str
    time_us: float
    runs: int
    shape: tuple[int, int, int] | None = None
    dram_bytes: float | None = None


def read_profile(path: str | PathLike[str]) -> list[ProfiledKernel]:
    """Read a profile; its head line says what it is.

    Nsight Systems: `nsys stats --report cuda_gpu_kern_sum` (earlier `gpukernsum`) or `nvtx_kern_sum` (`nvtxkernsum`),
    `--format csv`. Nsight Compute: `ncu --csv`, long (a row for each metric) or `--page raw` (a column for each). Else
    a table with M, N, K and a time. Lines before the head line, as `ncu` prints them, are skipped.

    Raises
    ------
    SpecError
        If it is none of these, or a number in it cannot be read; says where.
    """
    problems = Problems()
    text = read_text(path, problems)
    return problems.result(_read(text, str(path), problems) if text is not None else None)


def shape_in(text: str) -> tuple[int, int, int] | None:
    """M, N and K in the name of a range, such as `ffn M=512 N=4096 K=1024` or `ffn 512x4096x1024`.

    Examples
    --------
    >>> shape_in("ffn, M=512, N=4096, K=1024"), shape_in("mm 8x16x32"), shape_in("conv1")
    ((512, 4096, 1024), (8, 16, 32), None)
    """
    match = _SHAPE.search(text)
    if match is None:
        return None
    m, n, k = (int(size) for size in match.groups() if size is not None)
    return m, n, k


def _read(text: str, file: str, problems: Problems) -> list[ProfiledKernel] | None:
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    for at, (number, line) in enumerate(lines):
        head = [cell.strip() for cell in next(csv.reader([line]))]
        low = [cell.lower() for cell in head]
        read = _reader(low)
        if read is None:
            continue
        rows = []
        for (where, _), cells in zip(
            lines[at + 1 :], csv.reader(io.StringIO("\n".join(line for _, line in lines[at + 1 :]))), strict=False
        ):
            if len(cells) == len(head):
                rows.append((Mark(file, where, 1), dict(zip(low, (cell.strip() for cell in cells), strict=True))))
        found = read(low, rows, problems)
        if not found and not len(problems):
            problems.add(Mark(file, number, 1), "no kernels below the head line")
        return found
    hint = "expected an export of Nsight Systems or Nsight Compute, or a table with M, N, K and time_us"
    problems.add(Mark(file, 1, 1), "no head line of a profile", hint)
    return None


_Rows = Sequence[tuple[Mark, Mapping[str, str]]]


def _reader(head: Sequence[str]) -> Callable[[Sequence[str], _Rows, Problems], list[ProfiledKernel]] | None:
    """Reader for a head line, or None."""
    if "kernel name" in head and "metric name" in head:
        return _compute_long
    if "kernel name" in head and any(name in head for name in _TIME_METRICS):
        return _compute_wide
    if "nvtx range" in head and "kernel name" in head:
        return _systems
    if "name" in head and any(cell.startswith(("avg", "average")) for cell in head):
        return _systems
    if all(name in head for name in ("m", "n", "k")) and any(name in head for name in TIMES):
        return _plain
    return None


def _systems(head: Sequence[str], rows: _Rows, problems: Problems) -> list[ProfiledKernel]:
    """Sums of Nsight Systems, by kernel or by NVTX range and kernel."""
    time = next((cell for name in ("med", "avg", "average") for cell in head if cell.startswith(name)), "")
    count = next((cell for cell in ("kern inst", "instances", "num calls") if cell in head), "")
    unit = re.search(r"\((\w+)\)", time)
    factor = _UNITS.get(unit[1] if unit else "ns", 1e-3)
    found = []
    for where, row in rows:
        value = _number(where, row, time, problems)
        runs = _number(where, row, count, problems) if count else 1.0
        within = row.get("nvtx range", "").lstrip(":")
        name = row.get("kernel name") or row.get("name", "")
        if value is not None and runs is not None:
            found.append(ProfiledKernel(name, within, value * factor, int(runs), shape_in(within)))
    return found


def _compute_long(head: Sequence[str], rows: _Rows, problems: Problems) -> list[ProfiledKernel]:
    """Nsight Compute with a row for each metric of each run."""
    found: dict[str, ProfiledKernel] = {}
    for where, row in rows:
        metric, unit = row["metric name"].lower(), row.get("metric unit", "").lower()
        if metric not in (*_TIME_METRICS, *_DRAM_METRICS):
            continue
        value = _number(where, row, "metric value", problems)
        if value is None:
            continue
        key = row.get("id", "")
        within = _nvtx(row)
        kernel = found.get(key) or ProfiledKernel(row["kernel name"], within, 0.0, 1, shape_in(within))
        found[key] = _with_metric(kernel, metric, unit, value)
    return [kernel for kernel in found.values() if kernel.time_us > 0]


def _compute_wide(head: Sequence[str], rows: _Rows, problems: Problems) -> list[ProfiledKernel]:
    """Nsight Compute with a column for each metric; the first row below the head may hold the units."""
    units: Mapping[str, str] = {}
    found = []
    for where, row in rows:
        if not row.get("id") and not row["kernel name"]:
            units = row
            continue
        within = _nvtx(row)
        kernel = ProfiledKernel(row["kernel name"], within, 0.0, 1, shape_in(within))
        for metric in (*_TIME_METRICS, *_DRAM_METRICS):
            if row.get(metric):
                value = _number(where, row, metric, problems)
                kernel = kernel if value is None else _with_metric(kernel, metric, units.get(metric, "").lower(), value)
        found.append(kernel)
    return [kernel for kernel in found if kernel.time_us > 0]


def _with_metric(kernel: ProfiledKernel, metric: str, unit: str, value: float) -> ProfiledKernel:
    if metric in _TIME_METRICS:
        return replace(kernel, time_us=value * _UNITS.get(unit, 1e-3))
    moved = value * _BYTES.get(unit, 1.0)
    if metric == _DRAM_METRICS[0]:
        return replace(kernel, dram_bytes=moved)
    return replace(kernel, dram_bytes=(kernel.dram_bytes or 0.0) + moved)


def _nvtx(row: Mapping[str, str]) -> str:
    """Innermost NVTX range of a row of Nsight Compute, where it was recorded."""
    cells = [value for name, value in row.items() if "nvtx" in name or "range" in name]
    return next((cell for cell in reversed(cells) if cell), "").split("/")[-1].strip('":')


def _plain(head: Sequence[str], rows: _Rows, problems: Problems) -> list[ProfiledKernel]:
    """A table of matrix products."""
    time = next(name for name in TIMES if name in head)
    found = []
    seen: dict[str, int] = {}
    for where, row in rows:
        sizes = [_number(where, row, name, problems) for name in ("m", "n", "k")]
        value = _number(where, row, time, problems)
        for name, size in zip("MNK", sizes, strict=True):
            if size is not None and not (1 <= size <= LARGEST and size == int(size)):
                problems.add(where, f"{name}: expected a whole number from 1 to {LARGEST}, got '{row[name.lower()]}'")
        if value is not None and value <= 0:
            problems.add(where, f"{time}: expected a time above 0, got '{row[time]}'")
        if value is None or any(size is None for size in sizes) or len(problems):
            continue
        m, n, k = (int(size or 0) for size in sizes)
        label = next((row[name] for name in ("layer", "range", "name", "kernel") if row.get(name)), f"{m}x{n}x{k}")
        seen[label] = seen.get(label, 0) + 1
        label += f" ({seen[label]})" if seen[label] > 1 else ""
        found.append(ProfiledKernel(row.get("kernel", ""), label, value * TIMES[time], 1, (m, n, k)))
    return found


def _number(where: Mark, row: Mapping[str, str], name: str, problems: Problems) -> float | None:
    text = row.get(name, "").replace(",", "")
    try:
        value = float(text)
        if math.isfinite(value):
            return value
        raise ValueError
    except ValueError:
        problems.add(where, f"{name}: expected a number, got '{row.get(name, '')}'", f"columns: {listed(row)}")
        return None
