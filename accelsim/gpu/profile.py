"""Profiles of kernels: exports of Nsight Systems and Nsight Compute, and tables of products, beside predictions.

A profile has runs of kernels, some in NVTX ranges. What ran in a range of a layer is held against what is predicted for
the layer; a kernel of a trace has its grid, and its name says tile and number format where the library writes them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from os import PathLike

from accelsim.gpu import LAYOUTS, ROTATING
from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import FORMATS, Gpu, may_be, no_format
from accelsim.gpu.gemm import Gemms, Setup
from accelsim.gpu.kernel import Kernel, best_kernels
from accelsim.gpu.measured import (
    A_TIME,
    LEAST_US,
    MOST_US,
    NOWHERE,
    CsvRow,
    CsvTable,
    find_table,
    plain_name,
    product_columns,
    products,
    time_column,
)
from accelsim.gpu.network import gemms_of, product_of
from accelsim.inputs.errors import AccelsimError, Mark, Problem
from accelsim.inputs.source import Problems, read_text
from accelsim.inputs.units import listed, quoted
from accelsim.inputs.workload import Einsum

_UNITS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6, "nsecond": 1e-3, "usecond": 1.0, "msecond": 1e3, "second": 1e6}
_BYTES = {f"{prefix}{word}": 1e3**power for word in ("byte", "b") for power, prefix in enumerate(("", *"kmgt"))}
_TIME_METRICS = ("gpu_time_duration_sum", "gpu_time_duration_avg", "duration")
_DRAM_METRICS = ("dram_bytes_sum", "dram_bytes_read_sum", "dram_bytes_write_sum")
"""Metrics by `plain_name`: `gpu__time_duration.sum` and so on; others, such as cycles, are of no use here."""
_NUMBER = re.compile(r"(?i)(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+")
"""Numbers as Nsight writes them, some with commas between thousands."""
_NOT_COLLECTED = ("", "n/a")
"""What Nsight Compute writes for a metric that it did not collect of a kernel."""
_SYSTEMS_NAMES = ("kernel_name", "name", "operation")
"""Columns in which reports of Nsight Systems have the kernel."""
_SHAPE = re.compile(r"(?i)(?:\bm\s*=\s*(\d+)\W+n\s*=\s*(\d+)\W+k\s*=\s*(\d+)|\b(\d+)x(\d+)x(\d+)\b)")


_TILE = re.compile(r"(?<![0-9a-z])(?:tilesize)?([0-9]{2,3})x([0-9]{1,3})(?![0-9])")
_LAYOUT = re.compile(rf"(?<![0-9a-z])({'|'.join(LAYOUTS)})(?![0-9a-z])")
_WORDS = (
    ("bf16", ("bf16", "bfloat16", "nvjet_tst", "nvjet_tss")),
    ("fp8", ("e4m3", "e5m2", "f8f8", "fp8", "nvjet_qq")),
    ("tf32", ("tf32",)),
    ("int8", ("imma", "s8s8", "i8i8", "int8")),
    ("fp16", ("f16", "fp16", "half", "hgemm", "nvjet_hsh", "nvjet_hss")),
    ("fp64", ("dgemm", "f64f64")),
    ("fp32", ("sgemm", "f32f32")),
)
"""Parts of the names of cuBLAS and CUTLASS kernels that say the format of the operands; the first that is found."""


def tile_in(kernel: str) -> tuple[int, int] | None:
    """Output tile of a block in the name of a kernel of cuBLAS or CUTLASS: the first two sizes.

    Examples
    --------
    >>> tile_in("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn"), tile_in("splitKreduce_kernel<32, 16>")
    ((128, 64), None)
    >>> tile_in("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64_cgasize2x1x1")
    (128, 256)
    """
    match = _TILE.search(kernel.lower())
    return (int(match[1]), int(match[2])) if match else None


def layout_in(kernel: str) -> str:
    """Order of weights and inputs in memory that the name of a kernel says, one of `LAYOUTS`, or nothing.

    Examples
    --------
    >>> layout_in("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_nt"), layout_in("nvjet_tst_128x256_64x4")
    ('nt', '')
    """
    match = _LAYOUT.search(kernel.lower())
    return match[1] if match else ""


def format_in(kernel: str) -> str:
    """Number format of the operands that the name of a kernel says, or nothing.

    Examples
    --------
    >>> format_in("cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_32x3_nn_align8"), format_in("volta_sgemm_128x64_nn")
    ('bf16', 'fp32')
    """
    name = kernel.lower()
    if not any(word in name for word in _PRODUCTS):
        return ""
    return next((found for found, words in _WORDS if any(word in name for word in words)), "")


@dataclass(frozen=True, slots=True)
class ProfiledKernel:
    """Runs of one kernel: where it ran, how long a run took, and what it moved."""

    name: str  # of the kernel
    range: str  # NVTX range, or empty
    time_us: float | None  # of a run: its median where the export has it, else the average; None: not measured
    runs: int
    shape: tuple[int, ...] | None = None  # M, N, K, and the batch, where the table or the name of the range says them
    moved: Mapping[str, float] = field(default_factory=dict)  # bytes of a run, by `_DRAM_METRICS`
    grid: int = 0  # blocks of a run; 0: not known
    ranges: int = 0  # runs of the NVTX range; 0: not known
    # as a table of products or the kernel's name says them, or empty
    device: str = ""
    number_format: str = ""
    l2: str = ""
    where: Mark = NOWHERE  # row of the profile

    @property
    def dram_bytes(self) -> float | None:
        """DRAM bytes of a run, both ways; None where the profile has them for one way or not at all."""
        both, *ways = (self.moved.get(metric) for metric in _DRAM_METRICS)
        return both if both is not None else None if None in ways else sum(way or 0.0 for way in ways)


def read_profile(path: str | PathLike[str]) -> list[ProfiledKernel]:
    """Read a profile; its head line says what it is.

    Nsight Systems: `nsys stats --report cuda_gpu_kern_sum` (earlier `gpukernsum`; `cuda_gpu_kern_gb_sum` has grids),
    `cuda_gpu_sum`, `cuda_kern_exec_sum`, `nvtx_kern_sum` (`nvtxkernsum`) or `cuda_gpu_trace` (`gputrace`), as CSV.
    Nsight Compute: `ncu --csv`, long (a row for each metric), with `--print-summary` (the same, of several runs) or
    with `--page raw` (a column for each). Else a table with M, N, K and a time. Lines before the head line, as `ncu`
    prints them, are skipped. Runs of one kernel in one range with one grid are one kernel; its time is their average.

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
        hint = "expected `nsys stats --report nvtx_kern_sum --format csv`, or another export of its kernels; "
        hint += "`ncu --nvtx --csv`; or a table with M, N, K and time_us"
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

    def number(self, name: str, problems: Problems, least: int = 0) -> float | None:
        """Number in a cell, or None with the mistake reported."""
        cell = self.cells[name]
        value = float(cell.replace(",", "")) if _NUMBER.fullmatch(cell) else math.inf
        if least <= value < math.inf:
            return value
        hint = "write a point for decimals, and commas between thousands alone" if "," in cell else ""
        low, hint = (least, "leave out kernels that did not run") if value < least else (0, hint)
        written = self.table.head.cells[list(self.cells).index(name)]
        problems.add(self.place(name), f"{written}: expected a number of at least {low}, got {quoted(cell)}", hint)
        return None

    def runs(self, name: str, problems: Problems) -> int | None:
        """How often something ran, or None with the mistake reported."""
        value = self.number(name, problems, 1)
        return None if value is None else int(value)

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
    if set(_SYSTEMS_NAMES) & set(head) and _time_of_systems(head) and not _has_sizes(head):
        return _systems
    if {"name", "grdx"} <= set(head) and _duration(head):
        return _trace
    return None


def _is_head(names: Sequence[str]) -> bool:
    """Whether a line is the head of a profile: of an export, or of a table with M, N, K and a time."""
    return _reader(names) is not None or (_has_sizes(names) and time_column(names) is not None)


def _has_sizes(names: Sequence[str]) -> bool:
    return {"m", "n", "k"} <= set(names)


def _time_of_systems(head: Sequence[str]) -> str:
    """Column of the time of a run in Nsight Systems: the median where it is there; or nothing. `k`: of the kernel."""
    names = ("med", "kmed", "avg", "kavg", "average")
    found = (cell for name in names for cell in head if cell.split("_")[0] == name)
    return next(found, "")


def _systems(head: Sequence[str], rows: Iterable[_ProfileRow], problems: Problems) -> list[ProfiledKernel]:
    """Sums of Nsight Systems, by kernel or by NVTX range and kernel."""
    time = _time_of_systems(head)
    count = next((cell for cell in ("kern_inst", "instances", "num_calls", "count") if cell in head), "")
    kernel = next(name for name in _SYSTEMS_NAMES if name in head)
    found = []
    for row in rows:
        value = _run_us(row, time, problems)
        runs = row.runs(count, problems) if count else 1
        ranges = row.runs("nvtx_inst", problems) if "nvtx_inst" in head else 0
        within = row.cells.get("nvtx_range", "").lstrip(":")
        grid = _blocks(row.cells.get("gridxyz", ""))
        if value is not None and runs is not None and ranges is not None:
            found.append(_named(row.cells[kernel], within, value, row.where, runs=runs, ranges=ranges, grid=grid))
    return found


def _blocks(cell: str) -> int:
    """Blocks of a grid such as `(32, 16, 1)` or `32 16 1`; 0 where there is none."""
    sides = re.findall("[0-9]+", cell)
    return math.prod(map(int, sides)) if sides else 0


def _duration(head: Sequence[str]) -> str:
    """Column of the time of a run in a trace, or nothing."""
    return next((cell for cell in head if cell.split("_")[0] == "duration"), "")


def _trace(head: Sequence[str], rows: Iterable[_ProfileRow], problems: Problems) -> list[ProfiledKernel]:
    """Runs one by one, as Nsight Systems lists them with their grids; copies have no grid."""
    time = _duration(head)
    found = []
    for row in rows:
        if not row.cells["grdx"] or row.cells["grdx"] == "-":
            continue
        sides = [row.number(name, problems) for name in ("grdx", "grdy", "grdz") if name in head]
        value = _run_us(row, time, problems)
        if value is not None and None not in sides:
            grid = math.prod(int(side or 1) for side in sides)
            device = re.sub(r"\s*\([0-9]+\)$", "", row.cells.get("device", ""))  # its number stands behind its name
            found.append(replace(_named(row.cells["name"], "", value, row.where, grid=grid), device=device))
    return _merged(found)


def _run_us(row: _ProfileRow, time: str, problems: Problems) -> float | None:
    """Time of a run in a cell [us], or None with the mistake reported."""
    value = row.number(time, problems)
    factor = _UNITS.get(time.split("_")[-1], 1e-3)
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
    for first, *others in groups.values():
        runs = sum(kernel.runs for kernel in (first, *others))
        timed = [(kernel.time_us, kernel.runs) for kernel in (first, *others) if kernel.time_us is not None]
        time_us = sum(time * n for time, n in timed) / sum(n for _, n in timed) if timed else None
        moved = {}
        for metric in first.moved:
            having = [(kernel.moved[metric], kernel.runs) for kernel in (first, *others) if metric in kernel.moved]
            moved[metric] = sum(value * n for value, n in having) / sum(n for _, n in having)
        found.append(replace(first, runs=runs, time_us=time_us, moved=moved))
    return found


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
        if metric not in (*_TIME_METRICS, *_DRAM_METRICS) or row.cells[value_column] in _NOT_COLLECTED:
            continue
        value = row.number(value_column, problems)
        factor = _factor(metric, row.cells.get("metric_unit", ""), row.where, problems)
        if value is not None:
            found[key] = _with_metric(kernel, metric, value * factor)
    return _merged(_measured(found.values(), problems))


def _compute_wide(head: Sequence[str], rows: Iterable[_ProfileRow], problems: Problems) -> list[ProfiledKernel]:
    """Nsight Compute with a column for each metric; the first row below the head may hold the units."""
    factors = {name: _factor(name, "", NOWHERE, problems) for name in (*_TIME_METRICS, *_DRAM_METRICS) if name in head}
    found = []
    for row in rows:
        if not row.cells.get("id") and not row.cells["kernel_name"]:
            factors = {name: _factor(name, row.cells[name], row.place(name), problems) for name in factors}
            continue
        kernel = _untimed(row, problems)
        for metric, factor in factors.items():
            value = None if row.cells[metric] in _NOT_COLLECTED else row.number(metric, problems)
            if value is not None:
                kernel = _with_metric(kernel, metric, value * factor)
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
    cells = [value for name, value in row.cells.items() if "nvtx" in name or "range" in name]
    within = next((cell for cell in reversed(cells) if cell), "").split("/")[-1].strip('":')
    runs = row.runs("invocations", problems) if "invocations" in row.cells else 1
    grid = _blocks(row.cells.get("grid_size", ""))
    return _named(row.cells["kernel_name"], within, None, row.where, runs=runs or 1, grid=grid)


def _with_metric(kernel: ProfiledKernel, metric: str, value: float) -> ProfiledKernel:
    """Kernel with a time [us] or what it moved [bytes]."""
    if metric in _TIME_METRICS:
        return replace(kernel, time_us=value or None)
    return replace(kernel, moved={**kernel.moved, metric: value})


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
    """A layer: its measured kernels, and the predicted one; times and bytes are of one product.

    Attributes
    ----------
    products : int
        How many products the profile has: of a range named like a layer, one a run of the range; else as many as its
        main kernel ran.
    measured_us : float or None
        Sum of its kernels over the products; None where the profile has no times.
    dram_bytes : float or None
        Measured DRAM bytes; `reads_only` where the profile has those read alone.
    roofline_share : float or None
        Least time by peak and DRAM bandwidth of the data sheet, over the measured time.
    """

    name: str
    kernels: tuple[ProfiledKernel, ...]
    products: int
    measured_us: float | None
    dram_bytes: float | None
    reads_only: bool
    predicted: Kernel
    roofline_share: float | None


def kernels_of(
    gpu: Gpu, profile: Sequence[ProfiledKernel], number_format: str | None = None
) -> tuple[list[ProfiledKernel], list[Problem]]:
    """Kernels that may have run on a GPU, each with its number format, and why others did not.

    `number_format`: of kernels of which neither the profile nor their name says it by a name that is known; `fp16`
    where they say nothing.
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

    A kernel belongs to the layer that its NVTX range names, or else to the sizes that the range or the table says. One
    outside ranges belongs to the layer of which its tile has as many blocks as it had, if there is only one. Of the
    kernels in a range of a layer, those whose names say that they compute no product are left out. `kernels_of` says
    the number formats; `calibration` is as in `mode_of`; `l2` is for rows of which the profile does not say it.

    Returns layers in the order of the profile, and kernels that match nothing.
    """
    by_name = {einsum.name.casefold(): einsum for einsum in layers}
    groups: dict[str, list[ProfiledKernel]] = {}
    products: dict[str, Einsum | tuple[int, ...]] = {}
    sizes = _sizes_of(layers)
    unmatched = []
    for kernel in profile:
        einsum = by_name.get(kernel.range.casefold().strip()) or _layer_of_grid(kernel, sizes)
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
        layout = next(filter(None, (layout_in(kernel.name) for kernel in kernels)), LAYOUTS[0])
        (predicted,) = best_kernels(gpu, [name], gemms, number_format, mode, Setup(kernels[0].l2 or l2, layout))
        found.append(_compared(gpu, name, kernels, predicted, layer=isinstance(product, Einsum)))
    return found, unmatched


def _compared(gpu: Gpu, name: str, kernels: Sequence[ProfiledKernel], predicted: Kernel, *, layer: bool) -> Compared:
    """Sum up the kernels of one product."""
    main = [kernel.runs for kernel in kernels if not _is_helper(kernel)] or [kernel.runs for kernel in kernels]
    ranges = max(kernel.ranges for kernel in kernels)
    count = max(main)
    if ranges:
        count = ranges if layer else ranges * max(1, round(max(main) / ranges))

    def each(values: Sequence[float | None]) -> float | None:
        if None in values:
            return None
        return sum((value or 0.0) * kernel.runs for value, kernel in zip(values, kernels, strict=True)) / count

    measured_us = each([kernel.time_us for kernel in kernels])
    both = each([kernel.dram_bytes for kernel in kernels])
    read = each([kernel.moved.get(_DRAM_METRICS[1]) for kernel in kernels])
    least_s = max(predicted.flops / gpu.flops(predicted.number_format), predicted.least_bytes / gpu.dram_bytes_per_s)
    share = least_s * 1e6 / measured_us if measured_us else None
    moved, reads_only = (read, read is not None) if both is None else (both, False)
    return Compared(name, tuple(kernels), count, measured_us, moved, reads_only, predicted, share)


def _sizes_of(layers: Iterable[Einsum]) -> dict[tuple[int, int, int, int], Einsum]:
    """The first layer of each size of product; layers that are no product are left out."""
    found: dict[tuple[int, int, int, int], Einsum] = {}
    for einsum in layers:
        with suppress(AccelsimError):
            product = product_of(einsum)
            found.setdefault((product.m, product.n, product.k, product.batch), einsum)
    return found


def _layer_of_grid(kernel: ProfiledKernel, sizes: Mapping[tuple[int, int, int, int], Einsum]) -> Einsum | None:
    """Layer whose output has as many tiles of a kernel as this had blocks, if there is one and the kernel has no range.

    K in parts makes more blocks, which no layer of the same tile need have.
    """
    tile = tile_in(kernel.name)
    if kernel.range or not kernel.grid or tile is None or not _is_product(kernel):
        return None
    found = [
        einsum for (m, n, _, batch), einsum in sizes.items()
        if any(kernel.grid == -(-m // high) * -(-n // wide) * batch for high, wide in (tile, tile[::-1]))
    ]  # fmt: skip
    return found[0] if len(found) == 1 else None


def _is_helper(kernel: ProfiledKernel) -> bool:
    """Whether a kernel runs beside the main one of a product."""
    return any(word in kernel.name.casefold() for word in _HELPERS)


def _is_product(kernel: ProfiledKernel) -> bool:
    """Whether a kernel computes a product, by its name; one without a name does."""
    name = kernel.name.casefold()
    return not name or any(word in name for word in _PRODUCTS)
