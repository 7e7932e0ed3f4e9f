"""Advice on a matrix product, and layers under a roofline, as a report shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from accelsim.gpu.advice import HIGH, Advice, Change, Point, Ridge
from accelsim.gpu.machine import Gpu
from accelsim.inputs.units import format_si
from accelsim.show.report.gpu_kernels import kernel_row, print_kernel
from accelsim.show.report.text import percent, print_table, table, title

_MOST = 8


def advice_json(advice: Advice) -> dict[str, Any]:
    """Advice as a document."""
    return {
        "kernel": kernel_row(advice.kernel),
        "roundings": [_row(change) for change in advice.roundings],
        "formats": [_row(change) for change in advice.formats],
        "notes": list(advice.notes),
    }


def _row(change: Change) -> dict[str, Any]:
    return {name: getattr(change, name) for name in change.__slots__}


def print_advice(console: Console, advice: Advice) -> None:
    """Print the kernel, what would be faster, and notes."""
    print_kernel(console, advice.kernel)
    title(console, "Rounding up", "TFLOPS count the operations of the sizes that were asked for")
    if advice.roundings:
        _print_changes(console, advice.roundings[:_MOST])
        if len(advice.roundings) > _MOST:
            console.print(f"{len(advice.roundings) - _MOST:,} more; --json shows all")
    else:
        console.print("no multiple of 8 to 256 within a quarter of a size is faster")
    title(console, "Other formats and 2:4 sparse weights")
    _print_changes(console, advice.formats)
    if advice.notes:
        title(console, "Notes")
        for note in advice.notes:
            console.print(f"- {note}")


def _print_changes(console: Console, changes: Sequence[Change]) -> None:
    made = table("change", "time", "TFLOPS", "speed")
    for change in changes:
        made.add_row(
            change.what, format_si(change.time_us * 1e-6, "s", 4), f"{change.tflops:.4g}", f"{change.speedup:.2f}x"
        )
    print_table(console, made)


def print_roofline(
    console: Console, gpu: Gpu, number_format: str, ridges: Sequence[Ridge], points: Sequence[Point], mode: str
) -> None:
    """Print levels of memory, and each layer with what limits it."""
    console.print(f"{gpu.name}, {number_format}: {gpu.flops(number_format) * 1e-12:.4g} TFLOPS; {mode}")
    made = table("level", "bandwidth", "math limits from")
    for ridge in ridges:
        made.add_row(ridge.level, format_si(ridge.bytes_per_s, "B/s", 4), f"{ridge.intensity:.4g} FLOP/B")
    print_table(console, made)
    title(console, "Layers", f"shares of the peak and of DRAM bandwidth as predicted; busy: from {percent(HIGH)}")
    made = table("layer", "FLOP/B", "limit", "math", "DRAM", "time", "busy", left=(0, 6))
    for point in points:
        made.add_row(
            point.kernel.name,
            f"{point.intensity:.4g}",
            point.limited_by,
            percent(point.math_share),
            percent(point.memory_share),
            format_si(point.kernel.time_us * 1e-6, "s"),
            point.quadrant,
        )
    print_table(console, made)
    console.print(
        "neither busy: latency, launch, or too few blocks; DRAM's share is low where L2 holds the activations"
    )


def point_row(point: Point) -> dict[str, Any]:
    """Point as a plain row."""
    row = {name: getattr(point, name) for name in Point.__slots__ if name != "kernel"}
    return {"kernel": kernel_row(point.kernel), **row}
