"""Profiles of kernels: of Nsight Systems, Nsight Compute and PyTorch, and tables of products, beside predictions.

A profile has runs of kernels, some in NVTX ranges. What ran in a range of a layer is held against what is predicted for
the layer; a kernel of a trace has its grid, and its name says tile and number format where the library writes them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from os import PathLike

from accelsim.gpu import COLD, LAYOUTS, ROTATING
from accelsim.gpu.calibration import SHIPPED, Mode, mode_of
from accelsim.gpu.catalogue import FORMATS, Gpu, may_be, no_format, wide_format
from accelsim.gpu.gemms import Gemms, Setup
from accelsim.gpu.kernel import Kernel, best_kernels
from accelsim.gpu.measured import (
    A_TIME,
    LEAST_US,
    MOST_US,
    NOWHERE,
    CsvRow,
    CsvTable,
    open_table,
    plain_name,
    product_columns,
    products,
    time_column,
)
from accelsim.gpu.network import gemms_of, product_of
from accelsim.gpu.profiled import (
    DRAM_METRICS,
    ProfiledKernel,
    format_in,
    is_helper,
    is_product,
    layout_in,
    shape_in,
    tile_in,
)
from accelsim.gpu.torch_trace import read_torch_trace
from accelsim.inputs.errors import AccelsimError, Mark, Problem
from accelsim.inputs.source import Problems
from accelsim.inputs.units import listed, quoted
from accelsim.inputs.workload import Einsum

_UNITS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6, "nsecond": 1e-3, "usecond": 1.0, "msecond": 1e3, "second": 1e6}
_BYTES = {f"{prefix}{word}": 1e3**power for word in ("byte", "b") for power, prefix in enumerate(("", *"kmgt"))}
_TIME_METRICS = ("gpu_time_duration_sum", "gpu_time_duration_avg", "duration")
"""Metrics by `plain_name`, beside `DRAM_METRICS`; others, such as cycles, are of no use here."""
_NUMBER = re.compile(r"(?i)(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+")
"""Numbers as Nsight writes them, some with commas between thousands."""
_DECIMAL = (
    r"\d+{0}(?:\d{{1,2}}|\d{{4,}})|(?:0|\d{{4,}}){0}\d+|\d{{1,3}}(?:{1}\d{{3}})+{0}\d+|\d{{1,3}}(?:{1}\d{{3}}){{2,}}"
)
"""Numbers that tell the sign before decimals from that between thousands."""
_POINT, _COMMA = re.compile(_DECIMAL.format("[.]", ",")), re.compile(_DECIMAL.format(",", "[.]"))
_THOUSANDS = re.compile(r"\d{1,3}\.\d{3}")
_SWAPPED = str.maketrans(".,", ",.")
_MOST = 1e18
"""Of times, bytes and runs in a cell, at most."""
_NOT_COLLECTED = ("", "n/a")
"""What Nsight Compute writes for a metric that it did not collect of a kernel."""
_NVTX_ATTRIBUTES = 6
"""What Nsight Compute writes behind the name of a range: payload, its type, colour, its type, message, its type."""
_SYSTEMS_NAMES = ("kernel_name", "name", "operation")
"""Columns in which reports of Nsight Systems have the kernel."""
_SYSTEMS_TIMES = ("med", "kmed", "avg", "kavg", "average")
"""How columns of times of a run begin there, the median first; `k`: of the kernel."""


def read_profile(path: str | PathLike[str]) -> list[ProfiledKernel]:
    """Read a profile; its head line says what it is.

    Nsight Systems: `nsys stats --report cuda_gpu_kern_sum` (earlier `gpukernsum`; `cuda_gpu_kern_gb_sum` has grids),
    `cuda_gpu_sum`, `cuda_kern_exec_sum`, `nvtx_kern_sum` (`nvtxkernsum`) or `cuda_gpu_trace` (`gputrace`), as CSV.
    Nsight Compute: `ncu --csv`, long (a row for each metric), with `--print-summary` (the same, of several runs) or
    with `--page raw` (a column for each); it empties L2 before each kernel. PyTorch's profiler: `export_chrome_trace`
    (`.json`, `.json.gz`). Else a table with M, N, K and a time. Lines before the head line, as `ncu` prints them, are
    skipped. Runs of one kernel in one range with one grid are one kernel; its time is their average.

    Raises InputError if it is none of these, or a number in it cannot be read; says where.
    """
    problems = Problems()
    if str(path).endswith((".json", ".json.gz")):
        return problems.result(read_torch_trace(str(path), problems))
    hint = "expected `nsys stats --report nvtx_kern_sum --format csv`, or another export of its kernels; "
    hint += "`ncu --nvtx --csv`; `trace.json` of PyTorch's profiler; or a table with M, N, K and time_us"
    table = open_table(path, problems, _is_head, "no head line of a profile", hint)
    return problems.result(_read(table, problems) if table else None)


def _read(table: CsvTable, problems: Problems) -> list[ProfiledKernel]:
    read = _reader(table.names)
    if read is None:
        found = _plain(table, problems)
    else:
        needed = table.names.index("metric_value") + 1 if "metric_value" in table.names else len(table.names)
        below = [(row, dict(zip_longest(table.names, row.cells, fillvalue=""))) for row in table.rows(problems, needed)]
        comma = _has_comma(table.names, [cells for _, cells in below])
        rows = (_ProfileRow(table, row, cells, comma=comma) for row, cells in below)
        found = read(table.names, rows, problems)
    if not found and not len(problems):
        problems.add(table.mark(table.head), "no kernels below the head line")
    return found


def _has_comma(names: Sequence[str], rows: Sequence[Mapping[str, str]]) -> bool:
    """Whether an export has a comma before decimals, as in a European locale, and points between thousands.

    Where no number tells, one of ns with three digits behind its only point has a thousand of them: Nsight writes
    whole ns, or one or two decimals.
    """
    cells = [cell for row in rows for name, cell in row.items() if name != "cc"]  # that of an 8.0 is no number
    if any(_POINT.fullmatch(cell) for cell in cells):
        return False
    whole = any(name.endswith("_ns") for name in names) or {"ns", "nsecond"} & {cell.lower() for cell in cells}
    tells = (_COMMA, _THOUSANDS) if whole else (_COMMA,)
    return any(each.fullmatch(cell) for each in tells for cell in cells)


@dataclass(frozen=True, slots=True)
class _ProfileRow:
    """A row of an export, its cells by `plain_name`."""

    table: CsvTable
    row: CsvRow
    cells: Mapping[str, str]
    comma: bool = False  # before decimals

    @property
    def where(self) -> Mark:
        """Place of the row."""
        return self.table.mark(self.row)

    def number(self, name: str, problems: Problems, least: int = 0) -> float | None:
        """Number in a cell, or None with the mistake reported."""
        cell = self.cells[name]
        plain = cell.translate(_SWAPPED) if self.comma else cell
        value = float(plain.replace(",", "")) if _NUMBER.fullmatch(plain) else math.inf
        if least <= value <= _MOST:
            return value
        hint = "write a point for decimals, and commas between thousands alone" if "," in cell else ""
        low, hint = (least, "leave out kernels that did not run") if value < least else (0, hint)
        written = self.table.head.cells[list(self.cells).index(name)]
        bound = f"at most {_MOST:g}" if _MOST < value < math.inf else f"at least {low}"
        problems.add(self.place(name), f"{written}: expected a number of {bound}, got {quoted(cell)}", hint)
        return None

    def place(self, name: str) -> Mark:
        """Place of a cell."""
        return self.table.mark(self.row, list(self.cells).index(name))


def _reader(
    head: Sequence[str],
) -> Callable[[Sequence[str], Iterable[_ProfileRow], Problems], list[ProfiledKernel]] | None:
    """Reader for a head line of Nsight by `plain_name`, or None."""
    if "kernel_name" in head and "metric_name" in head and {"metric_value", "average"} & set(head):
        return _compute_long
    if "kernel_name" in head and any(name in head for name in _TIME_METRICS):
        return _compute_wide
    if set(_SYSTEMS_NAMES) & set(head) and _time_of(head, _SYSTEMS_TIMES) and not _has_sizes(head):
        return _systems
    if {"name", "grdx"} <= set(head) and _time_of(head, ("duration",)):
        return _trace
    return None


def _is_head(names: Sequence[str]) -> bool:
    """Whether a line is the head of a profile: of an export, or of a table with M, N, K and a time."""
    return _reader(names) is not None or (_has_sizes(names) and time_column(names) is not None)


def _has_sizes(names: Sequence[str]) -> bool:
    return {"m", "n", "k"} <= set(names)


def _time_of(head: Sequence[str], names: Sequence[str]) -> str:
    """Column of the time of a run in Nsight Systems: the first that one of the names begins; or nothing."""
    return next((cell for name in names for cell in head if cell.split("_")[0] == name), "")


def _systems(head: Sequence[str], rows: Iterable[_ProfileRow], problems: Problems) -> list[ProfiledKernel]:
    """Sums of Nsight Systems, by kernel or by NVTX range and kernel."""
    time = _time_of(head, _SYSTEMS_TIMES)
    count = next((cell for cell in ("kern_inst", "instances", "num_calls", "count") if cell in head), "")
    kernel = next(name for name in _SYSTEMS_NAMES if name in head)
    found = []
    for row in rows:
        value = _run_us(row, time, _factor_of(time), problems)
        runs = row.number(count, problems, 1) if count else 1
        ranges = row.number("nvtx_inst", problems, 1) if "nvtx_inst" in head else 0
        within = row.cells.get("nvtx_range", "").lstrip(":")
        grid = _blocks(row.cells.get("gridxyz", ""))
        if value is not None and runs is not None and ranges is not None:
            often = int(runs), int(ranges)
            found.append(_named(row.cells[kernel], within, value, row.where, *often, grid))
    return found


def _blocks(cell: str) -> int:
    """Blocks of a grid such as `(32, 16, 1)` or `32 16 1`; 0 where there is none."""
    sides = re.findall("(?<![0-9])[0-9]{1,10}(?![0-9])", cell)
    return math.prod(map(int, sides)) if sides else 0


def _trace(head: Sequence[str], rows: Iterable[_ProfileRow], problems: Problems) -> list[ProfiledKernel]:
    """Runs one by one, as Nsight Systems lists them with their grids; copies have no grid."""
    time = _time_of(head, ("duration",))
    found = []
    for row in rows:
        if not row.cells["grdx"] or row.cells["grdx"] == "-":
            continue
        sides = [row.number(name, problems) for name in ("grdx", "grdy", "grdz") if name in head]
        value = _run_us(row, time, _factor_of(time), problems)
        if value is not None and None not in sides:
            grid = math.prod(int(side or 1) for side in sides)
            device = re.sub(r"\s*\([0-9]+\)$", "", row.cells.get("device", ""))  # its number stands behind its name
            found.append(replace(_named(row.cells["name"], "", value, row.where, grid=grid), device=device))
    return _merged(found)


def _factor_of(time: str) -> float:
    """What makes us of the times in a column."""
    return _UNITS.get(time.split("_")[-1], 1e-3)


def _run_us(row: _ProfileRow, time: str, factor: float, problems: Problems) -> float | None:
    """Time of a run in a cell [us], or None with the mistake reported."""
    value = row.number(time, problems)
    if value is not None and not LEAST_US <= value * factor <= MOST_US:
        problems.add(row.place(time), f"a run takes {value:g}; {A_TIME}", "leave out kernels that did not run")
        return None
    return None if value is None else value * factor


def _named(
    name: str, within: str, time_us: float | None, where: Mark, runs: int = 1, ranges: int = 0, grid: int = 0
) -> ProfiledKernel:
    """Kernel with what its name and that of its range say."""
    shape, number_format = shape_in(within), format_in(name)
    return ProfiledKernel(
        name, within, time_us, runs, shape, grid=grid, ranges=ranges, number_format=number_format, where=where
    )


def _merged(kernels: Iterable[ProfiledKernel]) -> list[ProfiledKernel]:
    """Runs of the same kernel in the same range with the same grid as one kernel, with their average."""
    groups: dict[tuple[str, str, int], list[ProfiledKernel]] = {}
    for kernel in kernels:
        groups.setdefault((kernel.name, kernel.range, kernel.grid), []).append(kernel)
    found = []
    for same in groups.values():
        timed = [(kernel.time_us, kernel.runs) for kernel in same if kernel.time_us is not None]
        moved = {
            metric: _average([(kernel.moved[metric], kernel.runs) for kernel in same if metric in kernel.moved])
            for metric in same[0].moved
        }
        runs = sum(kernel.runs for kernel in same)
        found.append(replace(same[0], runs=runs, time_us=_average(timed) if timed else None, moved=moved))
    return found


def _average(values: Sequence[tuple[float, int]]) -> float:
    """Average of values that stand for so many runs each."""
    return sum(value * runs for value, runs in values) / sum(runs for _, runs in values)


def _compute_long(head: Sequence[str], rows: Iterable[_ProfileRow], problems: Problems) -> list[ProfiledKernel]:
    """Nsight Compute with a row for each metric, of one run or, in a summary, of several.

    Rows of one run have one ID. A summary has none: metrics of the same kernel, range and grid are of the same runs.
    """
    found: dict[tuple[str, ...], ProfiledKernel] = {}
    value_column = "metric_value" if "metric_value" in head else "average"
    same = ("id",) if "id" in head else ("process_id", "kernel_name", "block_size", "grid_size", "device", "device_id")
    for row in rows:
        metric = plain_name(row.cells["metric_name"])
        kernel = _untimed(row, problems)
        key = (kernel.range, *(row.cells.get(name, "") for name in same))
        kernel = found.setdefault(key, kernel)
        if metric not in (*_TIME_METRICS, *DRAM_METRICS) or row.cells[value_column] in _NOT_COLLECTED:
            continue
        factor = _factor(metric, row.cells.get("metric_unit", ""), row.where, problems)
        found[key] = _with_metric(kernel, metric, row, value_column, factor, problems)
    return _merged(_measured(found.values(), problems))


def _compute_wide(head: Sequence[str], rows: Iterable[_ProfileRow], problems: Problems) -> list[ProfiledKernel]:
    """Nsight Compute with a column for each metric; the first row below the head may hold the units."""
    factors = {name: _factor(name, "", NOWHERE, problems) for name in (*_TIME_METRICS, *DRAM_METRICS) if name in head}
    found = []
    for row in rows:
        if not row.cells.get("id") and not row.cells["kernel_name"]:
            factors = {name: _factor(name, row.cells[name], row.place(name), problems) for name in factors}
            continue
        kernel = _untimed(row, problems)
        for metric, factor in factors.items():
            if row.cells[metric] not in _NOT_COLLECTED:
                kernel = _with_metric(kernel, metric, row, metric, factor, problems)
        found.append(kernel)
    return _merged(_measured(found, problems))


def _factor(metric: str, unit: str, where: Mark, problems: Problems) -> float:
    """What makes us or bytes of a metric; without a unit it is in ns or bytes."""
    known, base = (_UNITS, "ns") if metric in _TIME_METRICS else (_BYTES, "byte")
    if unit and unit.lower() not in known:
        problems.add(where, f"{quoted(unit)} is no unit of {metric}", f"write one of {listed(known)}")
        return 1.0
    return known[unit.lower() or base]


def _measured(kernels: Collection[ProfiledKernel], problems: Problems) -> list[ProfiledKernel]:
    """Kernels of which a time or bytes were measured; that no one's were is reported."""
    found = [kernel for kernel in kernels if kernel.time_us is not None or kernel.moved]
    if kernels and not found and not len(problems):
        hint = "collect it with `ncu --metrics gpu__time_duration.sum`, or with the section SpeedOfLight"
        problems.add(next(iter(kernels)).where, "no kernel has a time or DRAM bytes", hint)
    return found


def _untimed(row: _ProfileRow, problems: Problems) -> ProfiledKernel:
    """Kernel of a row of Nsight Compute in its innermost NVTX range, where that was recorded."""
    cells = [(name, value) for name, value in row.cells.items() if value and ("nvtx" in name or "range" in name)]
    within = _innermost(*cells[0]) if cells else ""
    runs = row.number("invocations", problems, 1) if "invocations" in row.cells else 1
    grid = _blocks(row.cells.get("grid_size", ""))
    kernel = _named(row.cells["kernel_name"], within, None, row.where, runs=int(runs or 1), grid=grid)
    return replace(kernel, l2=COLD)


def _innermost(column: str, cell: str) -> str:
    """Name of the innermost NVTX range in a cell of Nsight Compute, which lists them from outside in.

    >>> _innermost("thread_domain_push_pop_range_pl_type", '7 "<default domain>:a:none:none:none:none:none:none"')
    'a'
    >>> _innermost("range_pl_type", ' "outer:1:none:none:none:none:none:none"  "b:c:none:none:none:none:none:none" ')
    'b:c'
    """
    ranges = re.findall('"([^"]*)"', cell) or [cell.split("/")[-1]]
    parts = ranges[-1].split(":")
    before = ("domain" in column) + column.startswith("id_")
    return ":".join(parts[before:-_NVTX_ATTRIBUTES] if len(parts) > _NVTX_ATTRIBUTES + before else parts).strip('":')


def _with_metric(
    kernel: ProfiledKernel, metric: str, row: _ProfileRow, column: str, factor: float, problems: Problems
) -> ProfiledKernel:
    """Kernel with a time [us] or what it moved [bytes], which a cell says; a time of 0 was not measured."""
    value = row.number(column, problems)
    if metric in DRAM_METRICS and value is not None:
        return replace(kernel, moved={**kernel.moved, metric: value * factor})
    return replace(kernel, time_us=_run_us(row, column, factor, problems)) if value else kernel


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


@dataclass(frozen=True, slots=True)
class Compared:
    """A layer: its measured kernels, and the predicted one; times and bytes are of one product."""

    name: str
    kernels: tuple[ProfiledKernel, ...]
    # how many products the profile has: of a range named like a layer, one a run of the range; else as many as its main
    # kernel ran
    products: int
    measured_us: float | None  # sum of its kernels over the products; None where the profile has no times
    dram_bytes: float | None  # measured
    reads_only: bool  # the profile has DRAM bytes read alone
    predicted: Kernel
    roofline_share: float | None  # least time by peak and DRAM bandwidth of the data sheet, over the measured time


def kernels_of(
    gpu: Gpu, profile: Sequence[ProfiledKernel], number_format: str | None = None
) -> tuple[list[ProfiledKernel], list[Problem]]:
    """Kernels that may have run on a GPU, each with its number format, and why others did not.

    `number_format`: of kernels of which neither the profile nor their name says it by a name that is known; that of 16
    bit where they say nothing.
    """
    found: list[ProfiledKernel] = []
    reasons: dict[str, list[Mark]] = {}
    for kernel in profile:
        known = kernel.number_format in FORMATS
        name = kernel.number_format if known else number_format or kernel.number_format or wide_format(gpu)
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
    l2: str | None = None,
) -> tuple[list[Compared], list[ProfiledKernel]]:
    """Match kernels to layers and predict these.

    A kernel belongs to the layer that its NVTX range names, or else to the sizes that the range or the table says. One
    outside ranges belongs to the layer of which its tile has as many blocks as it had, if there is only one. Products
    of PyTorch's operators belong to the first layer of their sizes; of several layouts, to that of the first. Of the
    kernels in a range of a layer, those whose names say that they compute no product are left out. `kernels_of` says
    the number formats; `calibration` is as in `mode_of`; `l2` is what L2 holds when a kernel starts, by default what
    the profile says, else `rotating`.

    Returns layers in the order of the profile, and kernels that match nothing.
    """
    by_name = {einsum.name.casefold(): einsum for einsum in layers}
    groups: dict[str, list[ProfiledKernel]] = {}
    products: dict[str, Einsum | Gemms] = {}
    sizes = _sizes_of(layers)
    layouts = _layouts(profile)
    unmatched = []
    for kernel in profile:
        einsum = by_name.get(kernel.range.casefold().strip()) or _layer_of_grid(kernel, {} if layouts else sizes)
        if kernel.shape is not None and kernel.layout and kernel.layout == layouts[kernel.shape]:
            einsum = sizes.get(kernel.shape)
        name = kernel.range if einsum is None else einsum.name
        if (einsum is not None or kernel.shape is not None) and is_product(kernel):
            groups.setdefault(name, []).append(kernel)
            m, n, k, batch = (*(kernel.shape or ()), 1, 1, 1, 1)[:4]
            products[name] = einsum or Gemms.of(m, n, k, batch, kernel.unique)
        else:
            unmatched.append(kernel)
    modes = _modes(gpu, dict.fromkeys(kernels[0].number_format for kernels in groups.values()), calibration)
    found = []
    for name, kernels in groups.items():
        product = products[name]
        gemms = gemms_of([product_of(product)]) if isinstance(product, Einsum) else product
        number_format = kernels[0].number_format
        layout = next(filter(None, (kernel.layout or layout_in(kernel.name) for kernel in kernels)), LAYOUTS[0])
        setup = Setup(l2 or kernels[0].l2 or ROTATING, layout)
        (predicted,) = best_kernels(gpu, [name], gemms, number_format, modes[number_format], setup)
        whole = isinstance(product, Einsum) or bool(kernels[0].layout)
        found.append(_compared(gpu, name, kernels, predicted, whole=whole))
    return found, unmatched


def _compared(gpu: Gpu, name: str, kernels: Sequence[ProfiledKernel], predicted: Kernel, *, whole: bool) -> Compared:
    """Sum up the kernels of one product; `whole`: a range computes one product, whatever kernels that takes."""
    main = [kernel.runs for kernel in kernels if not is_helper(kernel)] or [kernel.runs for kernel in kernels]
    ranges = max(kernel.ranges for kernel in kernels)
    count = max(main)
    if ranges:
        count = ranges if whole else ranges * max(1, round(max(main) / ranges))

    def each(values: Sequence[float | None]) -> float | None:
        if None in values:
            return None
        return sum((value or 0.0) * kernel.runs for value, kernel in zip(values, kernels, strict=True)) / count

    measured_us = each([kernel.time_us for kernel in kernels])
    both = each([kernel.dram_bytes for kernel in kernels])
    read = each([kernel.moved.get(DRAM_METRICS[1]) for kernel in kernels])
    least_s = max(predicted.flops / gpu.flops(predicted.number_format), predicted.least_bytes / gpu.dram_bytes_per_s)
    share = least_s * 1e6 / measured_us if measured_us else None
    moved, reads_only = (read, read is not None) if both is None else (both, False)
    return Compared(name, tuple(kernels), count, measured_us, moved, reads_only, predicted, share)


def _modes(gpu: Gpu, formats: Iterable[str], calibration: str | PathLike[str] | None) -> dict[str, Mode]:
    """Constants of each number format; of several formats, those that no calibration ships for are uncalibrated."""
    found: dict[str, Mode] = {}
    missing: dict[str, AccelsimError] = {}
    for number_format in formats:
        try:
            found[number_format] = mode_of(gpu, number_format, calibration)
        except AccelsimError as error:
            missing[number_format] = error
    if missing and (not found or str(calibration) != SHIPPED):
        raise next(iter(missing.values()))
    return found | {number_format: mode_of(gpu, number_format) for number_format in missing}


def _layouts(profile: Iterable[ProfiledKernel]) -> dict[tuple[int, ...], str]:
    """The first layout, in the order of `LAYOUTS`, of each size of product that says its layout."""
    found: dict[tuple[int, ...], str] = {}
    for kernel in profile:
        if kernel.shape is not None and kernel.layout:
            found[kernel.shape] = min(found.get(kernel.shape, kernel.layout), kernel.layout, key=LAYOUTS.index)
    return found


def _sizes_of(layers: Iterable[Einsum]) -> dict[tuple[int, ...], Einsum]:
    """The first layer of each size of product; layers that are no product are left out."""
    found: dict[tuple[int, ...], Einsum] = {}
    for einsum in layers:
        with suppress(AccelsimError):
            product = product_of(einsum)
            found.setdefault((product.m, product.n, product.k, product.batch), einsum)
    return found


def _layer_of_grid(kernel: ProfiledKernel, sizes: Mapping[tuple[int, ...], Einsum]) -> Einsum | None:
    """Layer whose output has as many tiles of a kernel as this had blocks, if there is one and the kernel has no range.

    K in parts makes more blocks, which no layer of the same tile need have.
    """
    tile = tile_in(kernel.name)
    if kernel.range or not kernel.grid or tile is None or not is_product(kernel):
        return None
    found = [
        einsum for (m, n, _, batch), einsum in sizes.items()
        if any(kernel.grid == -(-m // high) * -(-n // wide) * batch for high, wide in (tile, tile[::-1]))
    ]  # fmt: skip
    return found[0] if len(found) == 1 else None
