"""Reports on GPUs: those that ship, kernels, advice on sizes, rooflines, profiles beside predictions, calibrations."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from accelsim.gpu.advice import Advice, Point, Ridge
from accelsim.gpu.calibration import LARGE_FLOP, Calibration, Errors, far_off
from accelsim.gpu.catalogue import FORMATS, VECTOR_FORMATS, Gpu
from accelsim.gpu.kernel import FUSED, Kernel
from accelsim.gpu.profiled import ProfiledKernel, is_product, tile_in
from accelsim.gpu.profiles import Compared
from accelsim.inputs.errors import Problem
from accelsim.inputs.units import format_bits, format_si, listed
from accelsim.show.report import percent
from accelsim.show.table import Column, Piece, Row, Table, dim, facts, heading, legend

_MOST = 8
_DOUBT = {
    "sms": "sms", "boost_hz": "clock", "tensor_hz": "clock", "memory_bytes": "memory", "dram_bytes_per_s": "memory",
    "l2_bytes": "l2", "l2_bytes_per_s": "l2_bandwidth", "tdp_w": "tdp", "peak_tflops": "peak_tflops",
}  # fmt: skip
_WHAT = {
    "tensor": "multiply-adds and shared memory of the busiest SM",
    "stream": "loads of the busiest SM, by latency and bytes in flight",
    "l2": "L2 bandwidth",
    "dram": "DRAM bandwidth",
    "launch": "launch (added)",
    "latency": "first loads (added)",
    "rounds": "start and end of each round of blocks",
    "reduction": "partial sums are added up (added)",
    "store": "results leave",
    "turn": "tensors are turned between NCHW and NHWC (added)",
}


def _us(time_us: float, digits: int = 4) -> str:
    return format_si(time_us * 1e-6, "s", digits)


_us3 = partial(_us, digits=3)
_bytes, _rate = partial(format_si, unit="B"), partial(format_si, unit="B/s", digits=4)


def _size(size_bytes: int) -> str:
    return format_bits(8 * size_bytes)


def _four(value: float) -> str:
    return f"{value:.4g}" if value < 1e4 else f"{value:.0f}"


def gpu_row(gpu: Gpu) -> dict[str, Any]:
    """All figures of a GPU as a plain row."""
    row = dataclasses.asdict(gpu)
    row["compute_capability"] = ".".join(map(str, gpu.compute_capability))
    row["mma"] = {key: "m{}n{}k{}".format(*shape) for key, shape in gpu.mma.items()}
    return row


def _figure(head: str, key: str, unit: float, meaning: str = "") -> Column:
    """Column of a figure in some unit, marked where no data sheet confirms it."""
    doubt = _DOUBT[key]

    def marked(row: Row) -> str:
        return f"{row[key] / unit:.0f}{'?' if doubt in row['unsure'] else ''}"

    return Column(head, marked, meaning=meaning)


def _peak(number_format: str) -> Column:
    return Column(number_format.upper(), lambda row: row["peak_tflops"].get(number_format), _four)


_GPUS = (
    Column("name", "name"),
    _figure("SMs", "sms", 1),
    _figure("MHz", "boost_hz", 1e6, "boost"),
    *map(_peak, ("fp32", "fp16", "fp8")),
    _figure("GB", "memory_bytes", 1e9),
    _figure("GB/s", "dram_bytes_per_s", 1e9),
    _figure("L2 MiB", "l2_bytes", 2**20),
    _figure("W", "tdp_w", 1),
    Column("MIG", lambda row: len(row["mig"]) or "", meaning="profiles; FP32, FP16, FP8: dense peak [TFLOPS]"),
)


def gpus_report(rows: Sequence[Row]) -> Iterator[Piece]:
    """A table of GPUs (`gpu_row`); `?` marks a figure that no data sheet confirms."""
    yield Table("gpus", _GPUS, rows, "GPUs")
    yield ""
    yield legend(_GPUS).append("; ?: no data sheet confirms it")


def gpu_report(gpu: Gpu) -> Iterator[Piece]:
    """One GPU: its figures, where they come from, and which are doubtful."""
    row = gpu_row(gpu)
    yield heading(f"{gpu.name}: {gpu.chip}, {gpu.generation}, compute capability {row['compute_capability']}")
    figures = {
        "SMs": str(gpu.sms),
        "clock": f"{gpu.boost_hz / 1e6:.0f} MHz boost, {gpu.tensor_hz / 1e6:.0f} MHz for tensor peaks",
        "memory": f"{_bytes(gpu.memory_bytes)} {gpu.memory_type}, {_rate(gpu.dram_bytes_per_s)}",
        "L2": f"{_size(gpu.l2_bytes)}, {_rate(gpu.l2_bytes_per_s)}",
        "SM": f"{_size(gpu.smem_bytes)} shared memory ({_size(gpu.smem_per_block_bytes)} a block), "
        f"{gpu.registers} registers, {gpu.warps} warps, {gpu.blocks} blocks",
        "NVLink": _rate(gpu.nvlink_bytes_per_s) if gpu.nvlink_bytes_per_s else "none",
        "TDP": f"{gpu.tdp_w:.0f} W",
        "MIG": listed(f"{p.name} ({p.sms} SMs, {p.memory_eighths}/8 memory)" for p in gpu.mig.values()) or "none",
        "devices": listed(gpu.devices) or "none",
    }
    yield from facts(figures, 8)
    yield ""
    rates = ("peak_tflops", "peak_tflops_sparse", "operations_per_sm_cycle")
    rows = [
        {"number_format": key, **{name: row[name].get(key) for name in rates}, "mma": row["mma"].get(key, "none")}
        for key in FORMATS
        if key in gpu.peak_tflops
    ]
    columns = (
        Column("format", "number_format"), Column("dense TFLOPS", "peak_tflops", _four),
        Column("2:4 sparse", "peak_tflops_sparse", _four),
        Column("ops/SM/cycle", "operations_per_sm_cycle", "{:g}".format), Column("MMA", "mma"),
    )  # fmt: skip
    yield Table("formats", columns, rows)
    for head, texts in (("Sources", gpu.sources), ("Not confirmed by a data sheet", gpu.unsure)):
        if texts:
            yield heading(head)
            yield from (f"{key}: {text}" for key, text in texts.items())


def kernel_row(kernel: Kernel, repeat: int = 1) -> dict[str, Any]:
    """Kernel as a plain row."""
    row = dataclasses.asdict(kernel)
    row["others"] = [{"tiling": name, "time_us": time_us} for name, time_us in kernel.others]
    return {**row, "tflops": kernel.tflops, "energy_j": kernel.energy_j, "repeat": repeat}


_PARTS = (
    Column("part", "part"), Column("time", "time_us", _us), Column("what", lambda row: _WHAT[row["part"]]),
)  # fmt: skip


def kernel_report(kernel: Kernel, *, quiet: bool = False) -> Iterator[Piece]:
    """One kernel: the tiling and its time, and unless `quiet` what that is made of and the next best tilings."""
    sizes = f"M={kernel.m} N={kernel.n} K={kernel.k}" + (f" batch={kernel.batch}" if kernel.batch > 1 else "")
    yield f"{kernel.name} on {kernel.gpu}: {sizes}, {kernel.number_format}"
    dram = f"DRAM {_bytes(kernel.dram_bytes)}"
    if round(kernel.dram_bytes) < round(kernel.least_bytes):
        dram += f" (L2 holds the rest of {_bytes(kernel.least_bytes)})"
    split = f", K in {kernel.split} parts" if kernel.split > 1 else ""
    blocks = f"{kernel.blocks} block{'s' if kernel.blocks > 1 else ''}, {kernel.occupancy} at once on an SM"
    plain = "" if kernel.tensor_cores or kernel.number_format in VECTOR_FORMATS else ", without tensor cores"
    tiling = f"tile {kernel.tile}{split}{plain}: {blocks}, {kernel.waves:.2f} waves"
    interval = f"no interval: no {kernel.number_format} kernels were measured for these constants"
    if kernel.low_us is not None and kernel.high_us is not None:
        interval = f"{_us(kernel.low_us)} to {_us(kernel.high_us)} for four fifths of kernels"
    lines = {
        "mode": kernel.mode,
        "time": f"{_us(kernel.time_us)}  ({interval})",
        "rate": f"{kernel.tflops:.4g} TFLOPS, {format_si(kernel.flops, 'FLOP')}",
        "kernel": "matrix-vector product, no tiles" if kernel.tile == "gemv" else tiling,
        "efficiency": f"tiles {percent(kernel.tile_efficiency)}, waves {percent(kernel.wave_efficiency)}",
        "traffic": f"{dram}, L2 {_bytes(kernel.l2_bytes)}",
        "energy": f"{format_si(kernel.energy_j, 'J')} at {kernel.power_w:.0f} W of board power",
        "bottleneck": kernel.bottleneck,
    }
    if kernel.sustained_us is not None and kernel.sustained_hz is not None:
        energy = format_si(kernel.power_w * kernel.sustained_us * 1e-6, "J")
        clock = format_si(kernel.sustained_hz, "Hz")
        lines["sustained"] = f"{_us(kernel.sustained_us)} at {clock} and {energy}, where it repeats for seconds"
    yield from facts(lines, 11)
    if quiet:
        return
    parts = [{"part": name, "time_us": time_us} for name, time_us in kernel.parts_us.items() if time_us > 0]
    note = "SM work, L2 and DRAM overlap: the longest sets the time, plus a fitted fraction of the others"
    yield Table("parts", _PARTS, parts, "Time", note)
    others = [{"tiling": tiling, "time_us": time_us} for tiling, time_us in kernel.others]
    best = {"tiling": _tile(kernel_row(kernel), " / "), "time_us": kernel.time_us}
    columns = (
        Column("tile / split of K", lambda row: row["tiling"] + ("  (chosen)" if row is best else "")),
        Column("time", "time_us", _us),
    )
    note = f"all {kernel.tilings} of the space are compared; the next best tiles, each with its best split"
    yield Table("tilings", columns, [best, *others], "Tilings", note)


def _tile(row: Row, mark: str = "/") -> str:
    """Tile of a kernel with its schedule."""
    return f"{row['tile']}{mark}{row['split']}" if row["split"] > 1 else str(row["tile"])


def _short(bottleneck: str) -> str:
    return bottleneck.removesuffix(" and latency").removesuffix(" bandwidth")


_KERNELS = (
    Column("layer", lambda row: row["name"] + (f" x{row['repeat']}" if row["repeat"] > 1 else ""), unbroken=True),
    Column("M x N x K", lambda row: "{m}x{n}x{k}".format(**row) + (f" x{row['batch']}" if row["batch"] > 1 else "")),
    Column("tile", _tile), Column("waves", "waves", "{:.2f}".format), Column("time", "time_us", _us),
    Column("TFLOPS", "tflops", "{:.3g}".format), Column("bottleneck", "bottleneck", _short, fold=True),
)  # fmt: skip


def kernels_report(name: str, pairs: Sequence[tuple[Kernel, int]], *, quiet: bool = False) -> Iterator[Piece]:
    """The kernels of a network, each with how often it runs, a line for each unless `quiet`, and their sum."""
    first, total = pairs[0][0], totals(pairs)
    yield f"{name} on {first.gpu}, {first.number_format}; {first.mode}"
    if not quiet:
        yield ""
        yield Table("kernels", _KERNELS, [kernel_row(*pair) for pair in pairs])
        yield ""
    yield (
        f"total {_us(total['time_us'])}, {total['tflops']:.4g} TFLOPS, {format_si(total['energy_j'], 'J')} "
        f"at {total['power_w']:.0f} W; kernels of GEMMs and attention alone, one after the other"
    )
    fused = {kernel.mode for kernel, _ in pairs if kernel.schedule == FUSED}
    yield from (dim(f"attention is one kernel, {mode}") for mode in sorted(fused))


def totals(pairs: Sequence[tuple[Kernel, int]]) -> dict[str, float]:
    """Sums over the layers of a network."""
    time_us, flops, energy_j = (
        sum(getattr(kernel, name) * repeat for kernel, repeat in pairs) for name in ("time_us", "flops", "energy_j")
    )
    rates = {"tflops": flops / time_us * 1e-6, "power_w": energy_j / time_us * 1e6}
    return {"time_us": time_us, "flops": flops, "energy_j": energy_j, **rates}


def operator_report(document: Mapping[str, Any]) -> Iterator[Piece]:
    """Time of an operator, with a line for each of its parts."""
    yield heading(document["operator"], f"on {document['gpu']}: {_us3(document['time_us'])}")
    rows = [
        {"part": name, "time_us": time_us, "share": time_us / document["time_us"]}
        for name, time_us in document["parts_us"].items()
    ]
    columns = (Column("part", "part"), Column("time", "time_us", _us3), Column("% of total", "share", percent))
    yield Table("parts", columns, rows)
    yield dim(document["mode"])


def memory_bound_report(document: Mapping[str, Any]) -> Iterator[Piece]:
    """An operator that moves more than it computes."""
    yield f"{document['operator']} on {document['gpu']}: {document['elements']:,} elements in {document['dtype']}"
    lines = {
        "mode": document["mode"],
        "time": _us(document["time_us"]),
        "traffic": f"DRAM {_bytes(document['dram_bytes'])} at {_rate(document['bytes_per_s'])}",
        "intensity": f"{document['intensity']:.4g} FLOP/B",
    }
    yield from facts(lines, 11)


def advice_json(advice: Advice) -> dict[str, Any]:
    """Advice as a document."""
    return {
        "kernel": kernel_row(advice.kernel),
        "roundings": [dataclasses.asdict(change) for change in advice.roundings],
        "formats": [dataclasses.asdict(change) for change in advice.formats],
        "notes": list(advice.notes),
    }


_CHANGES = (
    Column("change", "what"), Column("time", "time_us", _us), Column("TFLOPS", "tflops", _four),
    Column("speed", "speedup", "{:.2f}x".format),
)  # fmt: skip


def advice_report(advice: Advice) -> Iterator[Piece]:
    """The kernel, what would be faster, and notes."""
    document = advice_json(advice)
    yield from kernel_report(advice.kernel)
    note = "TFLOPS count the operations of the sizes that were asked for"
    if advice.roundings:
        yield Table("roundings", _CHANGES, document["roundings"], "Rounding up", note, most=_MOST)
        if len(advice.roundings) > _MOST:
            yield f"{len(advice.roundings) - _MOST:,} more; --json shows all"
    else:
        yield heading("Rounding up", note)
        yield "no multiple of 8 to 256 within a quarter of a size is faster"
    yield Table("formats", _CHANGES, document["formats"], "Other formats and 2:4 sparse weights")
    if advice.notes:
        yield heading("Notes")
        yield from (f"- {note}" for note in advice.notes)


def point_row(point: Point) -> dict[str, Any]:
    """Point as a plain row."""
    row = {name: getattr(point, name) for name in Point.__slots__ if name != "kernel"}
    return {"kernel": kernel_row(point.kernel), **row}


_RIDGES = (
    Column("level", "level"), Column("bandwidth", "bytes_per_s", _rate),
    Column("compute-bound from", "intensity", "{:.4g} FLOP/B".format),
)  # fmt: skip
_POINTS = (
    Column("layer", ("kernel", "name"), unbroken=True), Column("FLOP/B", "intensity", _four),
    Column("compute", "compute_share", percent), Column("DRAM", "memory_share", percent),
    Column("time", ("kernel", "time_us"), _us3), Column("bottleneck", ("kernel", "bottleneck"), _short, left=True),
)  # fmt: skip


def roofline_report(
    gpu: Gpu, number_format: str, ridges: Sequence[Ridge], points: Sequence[Point], mode: str
) -> Iterator[Piece]:
    """Levels of memory, and each layer with what limits it."""
    yield f"{gpu.name}, {number_format}: {gpu.flops(number_format) * 1e-12:.4g} TFLOPS; {mode}"
    yield Table("levels", _RIDGES, [dataclasses.asdict(ridge) for ridge in ridges])
    note = "shares of the peak and of DRAM bandwidth as predicted; DRAM use is low when activations hit in L2"
    yield Table("layers", _POINTS, [point_row(point) for point in points], "Layers", note)


def compared_row(case: Compared) -> dict[str, Any]:
    """Layer as a plain row."""
    return {
        "name": case.name, "kernels": [kernel.name for kernel in case.kernels], "products": case.products,
        "measured_us": case.measured_us, "measured_dram_bytes": case.dram_bytes, "reads_only": case.reads_only,
        "roofline_share": case.roofline_share, "predicted": kernel_row(case.predicted),
    }  # fmt: skip


def doubt_of(found: Sequence[Compared]) -> str:
    """What says that the profile is of another GPU or number format, or its times in another unit; or nothing."""
    timed = [(case.measured_us, case.predicted.time_us) for case in found if case.measured_us is not None]
    return far_off(*np.array(timed).T) if timed else ""


def _ratio(row: Row) -> str | None:
    predicted, measured = row["predicted"], row["measured_us"]
    if measured is None:
        return None
    inside = predicted["low_us"] is None or predicted["low_us"] <= measured <= predicted["high_us"]
    return f"{predicted['time_us'] / measured:.2f}{'' if inside else ' *'}"


def _tiles(row: Row) -> str:
    """Tile that the names of the kernels say, where they do, and the predicted one."""
    measured = next(filter(None, map(tile_in, row["kernels"])), None)
    return (f"{measured[0]}x{measured[1]}, " if measured else "") + _tile(row["predicted"])


_COMPARED = (
    Column("layer", "name", fold=True), Column("runs", "products"), Column("measured", "measured_us", _us3),
    Column("predicted", ("predicted", "time_us"), _us3),
    Column("ratio", _ratio, meaning="predicted over measured, * outside the interval"),
    Column(
        "DRAM", lambda row: None if row["measured_dram_bytes"] is None
        else _bytes(row["measured_dram_bytes"]) + (" r" if row["reads_only"] else ""),
        meaning="of one product, r: reads alone",
    ),
    Column("predicted", ("predicted", "dram_bytes"), _bytes), Column("roofline", "roofline_share", percent, wide=True),
    Column("tile", _tiles, left=True, meaning="as the kernel's name says it, and predicted"),
)  # fmt: skip

_UNMATCHED = 12
"""Kernels that match nothing and are listed: those that took the longest in all."""


def compared_report(
    gpu: str, mode: str, found: Sequence[Compared], unmatched: Sequence[ProfiledKernel], left_out: Sequence[Problem]
) -> Iterator[Piece]:
    """Measured and predicted times, DRAM bytes, and the share of the roofline that was reached."""
    yield f"{gpu}; {mode}\n"
    if found:
        yield Table("layers", _COMPARED, [compared_row(case) for case in found])
        times = [(case.measured_us, case.predicted.time_us) for case in found if case.measured_us is not None]
        count = f"\n{len(found)} layer{'s' if len(found) > 1 else ''}"
        if times:
            error = statistics.median(abs(predicted / measured - 1) for measured, predicted in times)
            yield f"{count}, {_us3(sum(measured for measured, _ in times))}; median error {percent(error)}"
        else:
            yield f"{count}; the profile has no times: collect them with `ncu --metrics gpu__time_duration.sum`"
        yield from filter(None, [doubt_of(found)])
        yield legend(_COMPARED)
    else:
        yield (
            "No kernel belongs to a layer or says its sizes: put each layer into an NVTX range of its name, say "
            "--workload, and export `nsys stats --report nvtx_kern_sum` or `ncu --nvtx --csv`; or record with "
            "PyTorch's profiler and `record_shapes=True`"
        )
    if unmatched:
        yield heading("Not matched", "kernels outside ranges that name a layer or sizes, and those of no product")
    others = sorted(unmatched, key=lambda other: -(other.time_us or 0.0) * other.runs)
    for other in others[:_UNMATCHED]:
        where = f" in {other.range}" if other.range else ""
        time = "no time" if other.time_us is None else _us3(other.time_us)
        said = [f"{tile[0]}x{tile[1]}"] if (tile := tile_in(other.name)) else []
        said += [f"{other.grid} blocks"] if other.grid else []
        said += [other.number_format] if is_product(other) else []
        about = f" ({listed(said)})" if said else ""
        yield f"{time:>10} x {other.runs:<5} {other.name[:44]}{about}{where}"
    if rest := others[_UNMATCHED:]:
        took = sum((other.time_us or 0.0) * other.runs for other in rest)
        yield f"{_us3(took):>10} in all  {len(rest)} others, which --json lists"
    if left_out:
        yield "\nNot compared"
        yield from (f"  {problem}" for problem in left_out)


_FAR_OFF = 10.0
"""Errors from here on are of another unit or GPU, and no longer told."""
_LARGE = f"{LARGE_FLOP:g}".replace("e+", "e")


def short_percent(value: float) -> str:
    """Error in percent to one decimal; those of another unit or GPU are not told."""
    return f"{100 * value:.1f} %" if value < _FAR_OFF else "> 999 %"


def plain(value: float) -> str:
    """Ratio or correlation to three digits."""
    return f"{value:.3f}" if 1e-3 <= abs(value) < 1e3 else f"{value:.3g}"


_ERRORS = (
    Column("rows", "of"), Column("count", "rows", "{:,}".format), Column("median", "median", short_percent),
    Column("mean", "mean", short_percent), Column(f"median from {_LARGE} FLOP", "large_median", short_percent),
    Column("Spearman", "spearman", plain), Column("median ratio", "ratio", plain),
)  # fmt: skip


def errors_table(errors: Mapping[str, Errors], title: str = "", note: str = "", **of: str) -> Table:
    """Errors of several sets of rows; `of` says in CSV what they are of."""
    return Table(
        "errors", _ERRORS, [{**of, "of": name, **found.as_row()} for name, found in errors.items()], title, note
    )


def calibration_report(calibration: Calibration) -> Iterator[Piece]:
    """The constants of a calibration and its errors."""
    columns = (Column("constant", "constant"), Column("value", "value", "{:.4g}".format))
    rows = [{"constant": name, "value": value} for name, value in calibration.values.items()]
    title = f"{calibration.gpu}, {calibration.number_format}: {len(rows)} constants"
    yield Table("constants", columns, rows, title)
    yield errors_table(calibration.errors, "Errors", "relative to what was measured")
    low, high = calibration.interval
    yield f"four fifths of the held-out rows took {low:g} to {high:g} times what is predicted"
