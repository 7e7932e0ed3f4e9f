"""Predicted beside measured times of matrix products, by GPU and by what a fit could know of them; and beside profiles.

Profiles are exports of Nsight Systems and Nsight Compute, and plain tables of matrix products.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike

import numpy as np

from accelsim.gpu import ROTATING
from accelsim.gpu.calibration import DOUBT, Errors, Mode, errors_by_split, errors_of, far_off, mode_of
from accelsim.gpu.catalogue import FORMATS, Gpu, find_gpu, gpu_hint, load_gpu, may_be, no_format
from accelsim.gpu.constants import Floats
from accelsim.gpu.gemm import Gemms, time_gemms
from accelsim.gpu.kernel import Kernel, best_kernels, gemms_of, product_of
from accelsim.gpu.measured import (
    A_TIME,
    LEAST_US,
    MOST_US,
    NOWHERE,
    CsvRow,
    CsvTable,
    Measured,
    find_table,
    plain_name,
    product_columns,
    products,
    read_measured,
    split_rows,
    time_column,
)
from accelsim.inputs.errors import AccelsimError, Mark, Problem, SpecError
from accelsim.inputs.source import Problems, read_text
from accelsim.inputs.units import listed, quoted
from accelsim.inputs.workload import Einsum

_UNITS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6, "nsecond": 1e-3, "usecond": 1.0, "msecond": 1e3, "second": 1e6}
_BYTES = {f"{prefix}{word}": 1e3**power for word in ("byte", "b") for power, prefix in enumerate(("", *"kmgt"))}
_TIME_METRICS = ("gpu_time_duration_sum", "gpu_time_duration_avg", "duration")
_DRAM_METRICS = ("dram_bytes_sum", "dram_bytes_read_sum", "dram_bytes_write_sum")
"""Metrics by `plain_name`: `gpu__time_duration.sum` and so on."""
_NUMBER = re.compile(r"(?i)(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+")
"""Numbers as Nsight writes them, some with commas between thousands."""
_SHAPE = re.compile(r"(?i)(?:\bm\s*=\s*(\d+)\W+n\s*=\s*(\d+)\W+k\s*=\s*(\d+)|\b(\d+)x(\d+)x(\d+)\b)")


@dataclass(frozen=True, slots=True)
class ProfiledKernel:
    """Runs of one kernel: where it ran, how long a run took, and what it moved."""

    name: str  # of the kernel
    range: str  # NVTX range, or empty
    time_us: float  # median of a run where the export has it, else the average
    runs: int
    shape: tuple[int, ...] | None = None  # M, N, K, and the batch, where the table or the name of the range says them
    dram_bytes: float | None = None
    # as a table of products says them, or empty
    device: str = ""
    number_format: str = ""
    l2: str = ""
    where: Mark = NOWHERE  # row of the profile


def read_profile(path: str | PathLike[str]) -> list[ProfiledKernel]:
    """Read a profile; its head line says what it is.

    Nsight Systems: `nsys stats --report cuda_gpu_kern_sum` (earlier `gpukernsum`) or `nvtx_kern_sum` (`nvtxkernsum`),
    `--format csv`. Nsight Compute: `ncu --csv`, long (a row for each metric) or `--page raw` (a column for each). Else
    a table with M, N, K and a time. Lines before the head line, as `ncu` prints them, are skipped.

    Raises SpecError if it is none of these, or a number in it cannot be read; says where.
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
    table = find_table(text, file, _is_head)
    if table is None:
        hint = "expected an export of Nsight Systems or Nsight Compute, or a table with M, N, K and time_us"
        problems.add(Mark(file, 1, 1), "no head line of a profile", hint)
        return None
    read = _reader(table.names)
    if read is None:
        found = _plain(table, problems)
    else:
        below = table.rows(problems, strict=False)
        rows = (_ProfileRow(table, row, dict(zip(table.names, row.cells, strict=False))) for row in below)
        found = read(table.names, rows, problems)
    if not found and not len(problems):
        problems.add(table.mark(table.head), "no kernels below the head line")
    return found


@dataclass(frozen=True, slots=True)
class _ProfileRow:
    """A row of an export, its cells by `plain_name`."""

    table: CsvTable
    row: CsvRow
    cells: Mapping[str, str]

    @property
    def where(self) -> Mark:
        """Place of the row."""
        return self.table.mark(self.row)

    def number(self, name: str, problems: Problems) -> float | None:
        """Number in a cell, or None with the mistake reported."""
        cell = self.cells[name]
        if _NUMBER.fullmatch(cell) and math.isfinite(value := float(cell.replace(",", ""))):
            return value
        hint = "write a point for decimals, and commas between thousands alone" if "," in cell else ""
        written = self.table.head.cells[list(self.cells).index(name)]
        problems.add(self.place(name), f"{written}: expected a number of at least 0, got {quoted(cell)}", hint)
        return None

    def place(self, name: str) -> Mark:
        """Place of a cell."""
        return self.table.mark(self.row, list(self.cells).index(name))


def _reader(
    head: Sequence[str],
) -> Callable[[Sequence[str], Iterable[_ProfileRow], Problems], list[ProfiledKernel]] | None:
    """Reader for a head line of Nsight by `plain_name`, or None."""
    if "kernel_name" in head and {"metric_name", "metric_value"} <= set(head):
        return _compute_long
    if "kernel_name" in head and any(name in head for name in _TIME_METRICS):
        return _compute_wide
    if {"kernel_name", "name"} & set(head) and _time_of_systems(head) and not _has_sizes(head):
        return _systems
    return None


def _is_head(names: Sequence[str]) -> bool:
    """Whether a line is the head of a profile: of an export, or of a table with M, N, K and a time."""
    return _reader(names) is not None or (_has_sizes(names) and time_column(names) is not None)


def _has_sizes(names: Sequence[str]) -> bool:
    return {"m", "n", "k"} <= set(names)


def _time_of_systems(head: Sequence[str]) -> str:
    """Column of the time of a run in Nsight Systems: the median where it is there; or nothing."""
    found = (cell for name in ("med", "avg", "average") for cell in head if cell.split("_")[0] == name)
    return next(found, "")


def _systems(head: Sequence[str], rows: Iterable[_ProfileRow], problems: Problems) -> list[ProfiledKernel]:
    """Sums of Nsight Systems, by kernel or by NVTX range and kernel."""
    time = _time_of_systems(head)
    count = next((cell for cell in ("kern_inst", "instances", "num_calls") if cell in head), "")
    factor = _UNITS.get(time.split("_")[-1], 1e-3)
    found = []
    for row in rows:
        value = row.number(time, problems)
        runs = row.number(count, problems) if count else 1.0
        within = row.cells.get("nvtx_range", "").lstrip(":")
        name = row.cells.get("kernel_name") or row.cells.get("name", "")
        if value is not None and not LEAST_US <= value * factor <= MOST_US:
            problems.add(row.place(time), f"a run takes {value:g}; {A_TIME}", "leave out kernels that did not run")
        elif value is not None and runs is not None:
            shape = shape_in(within)
            found.append(ProfiledKernel(name, within, value * factor, int(runs), shape, where=row.where))
    return found


def _compute_long(head: Sequence[str], rows: Iterable[_ProfileRow], problems: Problems) -> list[ProfiledKernel]:
    """Nsight Compute with a row for each metric of each run."""
    found: dict[str, ProfiledKernel] = {}
    for row in rows:
        key, metric = row.cells.get("id", ""), plain_name(row.cells["metric_name"])
        kernel = found.setdefault(key, _untimed(row))
        if metric not in (*_TIME_METRICS, *_DRAM_METRICS):
            continue
        value = row.number("metric_value", problems)
        factor = _factor(metric, row.cells.get("metric_unit", ""), row.where, problems)
        if value is not None:
            found[key] = _with_metric(kernel, metric, value * factor)
    return _timed(found.values(), problems)


def _compute_wide(head: Sequence[str], rows: Iterable[_ProfileRow], problems: Problems) -> list[ProfiledKernel]:
    """Nsight Compute with a column for each metric; the first row below the head may hold the units."""
    factors = {name: _factor(name, "", NOWHERE, problems) for name in (*_TIME_METRICS, *_DRAM_METRICS) if name in head}
    found = []
    for row in rows:
        if not row.cells.get("id") and not row.cells["kernel_name"]:
            factors = {name: _factor(name, row.cells[name], row.place(name), problems) for name in factors}
            continue
        kernel = _untimed(row)
        for metric, factor in factors.items():
            value = row.number(metric, problems) if row.cells[metric] else None
            if value is not None:
                kernel = _with_metric(kernel, metric, value * factor)
        found.append(kernel)
    return _timed(found, problems)


def _factor(metric: str, unit: str, where: Mark, problems: Problems) -> float:
    """What makes us or bytes of a metric; without a unit it is in ns or bytes."""
    known, base = (_UNITS, "ns") if metric in _TIME_METRICS else (_BYTES, "byte")
    if unit and unit.lower() not in known:
        problems.add(where, f"{quoted(unit)} is no unit of {metric}", f"write one of {listed(known)}")
        return 1.0
    return known[unit.lower() or base]


def _timed(kernels: Collection[ProfiledKernel], problems: Problems) -> list[ProfiledKernel]:
    """Kernels whose time was measured; that no one's was is reported."""
    found = [kernel for kernel in kernels if kernel.time_us > 0]
    if kernels and not found and not len(problems):
        hint = "collect it with `ncu --metrics gpu__time_duration.sum`, or with the section SpeedOfLight"
        problems.add(next(iter(kernels)).where, "no kernel has a time", hint)
    return found


def _untimed(row: _ProfileRow) -> ProfiledKernel:
    """Kernel of a row of Nsight Compute in its innermost NVTX range, where that was recorded."""
    cells = [value for name, value in row.cells.items() if "nvtx" in name or "range" in name]
    within = next((cell for cell in reversed(cells) if cell), "").split("/")[-1].strip('":')
    return ProfiledKernel(row.cells["kernel_name"], within, 0.0, 1, shape_in(within), where=row.where)


def _with_metric(kernel: ProfiledKernel, metric: str, value: float) -> ProfiledKernel:
    """Kernel with a time [us] or what it moved [bytes]."""
    if metric in _TIME_METRICS:
        return replace(kernel, time_us=value)
    if metric == _DRAM_METRICS[0]:
        return replace(kernel, dram_bytes=value)
    return replace(kernel, dram_bytes=(kernel.dram_bytes or 0.0) + value)


def _plain(table: CsvTable, problems: Problems) -> list[ProfiledKernel]:
    """Read a table of matrix products."""
    columns = product_columns(table, problems)
    if columns is None:
        return []
    found = []
    seen: dict[str, int] = {}
    for product in products(table, columns, list(table.rows(problems)), problems):
        cells = dict(zip(table.names, product.row.cells, strict=False))
        m, n, k, batch = shape = tuple(int(size) for size in product.sizes)
        sizes = f"{m}x{n}x{k}" + (f"x{batch}" if batch > 1 else "")
        label = next((cells[name] for name in ("layer", "range", "name", "kernel") if cells.get(name)), sizes)
        seen[label] = seen.get(label, 0) + 1
        label += f" ({seen[label]})" if seen[label] > 1 else ""
        number_format = product.number_format or product.dtype
        where = table.mark(product.row)
        kernel = ProfiledKernel(cells.get("kernel", ""), label, product.time_us, 1, shape)
        found.append(replace(kernel, device=product.device, number_format=number_format, l2=product.l2, where=where))
    return found


_HELPERS = ("splitkreduce", "reduce_kernel", "cublaslt::splitk")
"""Kernels that belong to a matrix product and run beside its main one."""
_PRODUCTS = ("gemm", "gemv", "cutlass", "nvjet", "conv", "wgrad", "dgrad", "xmma", "mma", "matmul", *_HELPERS)


@dataclass(frozen=True, slots=True)
class Compared:
    """A layer: its measured kernels, and the predicted one."""

    name: str
    kernels: tuple[ProfiledKernel, ...]
    measured_us: float  # sum of its kernels, of one run of each
    predicted: Kernel
    roofline_share: float  # least time by peak and DRAM bandwidth of the data sheet, over the measured time

    @property
    def dram_bytes(self) -> float | None:
        """Measured DRAM bytes, where the profile has them for all kernels."""
        moved = [kernel.dram_bytes for kernel in self.kernels]
        return None if None in moved else sum(value or 0.0 for value in moved)


def kernels_of(
    gpu: Gpu, profile: Sequence[ProfiledKernel], number_format: str | None = None
) -> tuple[list[ProfiledKernel], list[Problem]]:
    """Kernels that may have run on a GPU, each with its number format, and why others did not.

    `number_format`: of kernels of which the profile does not say it by a name that is known; `fp16` where it says
    nothing.
    """
    found: list[ProfiledKernel] = []
    reasons: dict[str, list[Mark]] = {}
    for kernel in profile:
        known = kernel.number_format in FORMATS
        name = kernel.number_format if known else number_format or kernel.number_format or "fp16"
        if not may_be(gpu, kernel.device):
            reasons.setdefault(f"of {quoted(kernel.device)}, not of {gpu.name}", []).append(kernel.where)
        elif name not in gpu.operations_per_sm_cycle:
            reasons.setdefault(f"of {no_format(gpu, name)}", []).append(kernel.where)
        else:
            found.append(replace(kernel, number_format=name))
    return found, [
        Problem(marks[0], f"{len(marks)} kernel{'s' if len(marks) > 1 else ''} {why}") for why, marks in reasons.items()
    ]


def compare_profile(
    gpu: Gpu,
    profile: Sequence[ProfiledKernel],
    layers: Sequence[Einsum],
    calibration: str | PathLike[str] | None = None,
    *,
    l2: str = ROTATING,
) -> tuple[list[Compared], list[ProfiledKernel]]:
    """Match kernels to layers and predict these.

    A kernel belongs to the layer that its NVTX range names, or else to the sizes that the range or the table says. Of
    the kernels in a range of a layer, those whose names say that they compute no product are left out. `kernels_of`
    says the number formats; `calibration` is as in `mode_of`; `l2` is for rows of which the profile does not say it.

    Returns layers in the order of the profile, and kernels that match nothing.
    """
    by_name = {einsum.name.casefold(): einsum for einsum in layers}
    groups: dict[str, list[ProfiledKernel]] = {}
    products: dict[str, Einsum | tuple[int, ...]] = {}
    unmatched = []
    for kernel in profile:
        einsum = by_name.get(kernel.range.casefold().strip())
        name, product = (kernel.range, kernel.shape) if einsum is None else (einsum.name, einsum)
        if product is not None and _is_product(kernel):
            groups.setdefault(name, []).append(kernel)
            products[name] = product
        else:
            unmatched.append(kernel)
    found = []
    for name, kernels in groups.items():
        product = products[name]
        gemms = gemms_of([product_of(product)]) if isinstance(product, Einsum) else Gemms.of(*product)
        number_format = kernels[0].number_format
        mode = mode_of(gpu, number_format, calibration)
        (predicted,) = best_kernels(gpu, [name], gemms, number_format, mode, l2=kernels[0].l2 or l2)
        measured_us = sum(kernel.time_us for kernel in kernels)
        least_s = max(predicted.flops / gpu.flops(number_format), predicted.least_bytes / gpu.dram_bytes_per_s)
        found.append(Compared(name, tuple(kernels), measured_us, predicted, least_s * 1e6 / measured_us))
    return found, unmatched


def _is_product(kernel: ProfiledKernel) -> bool:
    """Whether a kernel computes a product, by its name; one without a name does."""
    name = kernel.name.casefold()
    return not name or any(word in name for word in _PRODUCTS)


_OVER_PEAK = 1.3
"""How far boards run above the boost clock of their data sheet, and more."""
_SHORT_US, _LEAST_SHORT, _LEAST_GAP_US = 30.0, 4, 2.0


@dataclass(frozen=True, slots=True)
class GemmValidation:
    """One GPU and number format of a table, predicted."""

    gpu: Gpu
    measured: Measured
    mode: str  # `uncalibrated` or `calibrated`
    about: str  # the mode in a sentence
    errors: dict[str, Errors]  # of all rows, and of the parts `fit`, `interpolation` and `extrapolation`
    inside: float  # share of the held-out rows whose measured time lies in the predicted interval
    predicted_us: Floats  # float[rows]

    @property
    def doubts(self) -> list[str]:
        """What says that the table is not of this GPU and format, or its times not in the unit of their column."""
        found, times = [], self.measured.time_us
        peak_us = self.measured.gemms.flops / self.gpu.flops(self.measured.number_format) * 1e6
        faster = int((times * _OVER_PEAK < peak_us).sum())
        if faster:
            peak = f"{self.gpu.flops(self.measured.number_format) * 1e-12:.3g} TFLOPS"
            found.append(f"{faster} rows are above {_OVER_PEAK:g} times the peak of the data sheet, {peak}{DOUBT}")
        far = far_off(times, self.predicted_us)
        return [*found, far] if far else found

    @property
    def launch_gap_us(self) -> float | None:
        """How much longer short kernels took than predicted [us]: a launch, or a kernel that was timed with them.

        The median over rows that are predicted to take less than 30 us; None below 2 us, or of fewer than four rows.
        """
        short = self.predicted_us < _SHORT_US
        if short.sum() < _LEAST_SHORT:
            return None
        gap = float(np.median((self.measured.time_us - self.predicted_us)[short]))
        return gap if gap >= _LEAST_GAP_US else None


def validate_gemm(
    paths: Sequence[str | PathLike[str]],
    *,
    gpu: str | None = None,
    mig: str | None = None,
    calibration: str | PathLike[str] | None = None,
    number_format: str | None = None,
    l2: str = ROTATING,
) -> tuple[list[GemmValidation], list[str]]:
    """Hold predictions against tables of measured products.

    Parameters
    ----------
    paths : sequence of path
        CSV files as `read_measured` takes them.
    gpu : str, optional
        The GPU that was measured; by default what the column `device` says. Rows of others that are known are left
        out, if there are any of this one or of devices that are not known.
    calibration : str or path, optional
        `shipped`, or a file; without one the model is uncalibrated.
    number_format : str, optional
        Of rows whose format the tables do not say, or not by a name that is known.
    l2 : str
        State of L2 at the start, of rows of which the tables do not say it.

    Returns
    -------
    list of GemmValidation
        By GPU, format and state of L2, in the order of the tables.
    list of str
        What was not compared, and why.

    Raises
    ------
    SpecError
        With every mistake in a table and its place, or why nothing can be compared.
    """
    tables = [table for path in paths for table in read_measured(path, number_format=number_format, l2=l2)]
    known, skipped = _of_known_gpus(tables, gpu, mig)
    found = []
    for machine, table in known:
        try:
            mode = mode_of(machine, table.number_format, calibration)
        except SpecError:
            raise
        except AccelsimError as error:
            skipped.append(Problem(table.where, f"{_rows(table)}: {error}"))
            continue
        found.append(_validated(machine, table, mode))
    if not found:
        raise SpecError(skipped)
    return found, [str(problem) for problem in skipped]


def _of_known_gpus(
    tables: Sequence[Measured], gpu: str | None, mig: str | None
) -> tuple[list[tuple[Gpu, Measured]], list[Problem]]:
    """Tables whose GPU and number format are known, and why others are not compared.

    With a GPU that the user names, those of other GPUs are left out, unless no other table is there.
    """
    named = load_gpu(gpu, mig) if gpu else None
    some_may_be = named is not None and any(may_be(named, table.device) for table in tables)
    known, skipped = [], []
    for table in tables:
        machine = named or find_gpu(table.device)
        rows = _rows(table)
        if machine is None and not table.device:
            skipped.append(Problem(table.where, f"{rows} of no device", "say --gpu NAME, or add a column device"))
        elif machine is None:
            hint = f"say --gpu NAME; {gpu_hint(table.device)}"
            skipped.append(Problem(table.where, f"{rows}: no GPU {quoted(table.device)} ships", hint))
        elif some_may_be and not may_be(machine, table.device):
            hint = "leave --gpu out to compare each GPU with itself"
            skipped.append(Problem(table.where, f"{rows} of {quoted(table.device)}, not of {machine.name}", hint))
        elif table.number_format not in machine.operations_per_sm_cycle:
            skipped.append(Problem(table.where, f"{rows} of {no_format(machine, table.number_format)}"))
        else:
            notes = [table.note] if table.note else []
            if not may_be(machine, table.device):
                notes.append(f"{table.where}: {table.device} is predicted as {machine.name}, as --gpu says")
            known.append((machine, replace(table, note="; ".join(notes))))
    if not known:
        raise SpecError(skipped)
    return known, skipped


def _rows(table: Measured) -> str:
    return f"{len(table)} row{'s' if len(table) > 1 else ''}"


def _validated(gpu: Gpu, measured: Measured, mode: Mode) -> GemmValidation:
    predicted = time_gemms(gpu, measured.gemms, measured.number_format, mode.constants, l2=measured.l2).time_us
    errors, held = errors_by_split(measured, split_rows(measured.gemms), predicted)
    errors = {"all": errors_of(predicted, measured.time_us, measured.gemms.flops), **errors}
    low, high = mode.interval
    inside = float(np.mean((held >= low) & (held <= high))) if len(held) else float("nan")
    name = "calibrated" if mode.calibration else "uncalibrated"
    return GemmValidation(gpu, measured, name, mode.text, errors, inside, predicted)
