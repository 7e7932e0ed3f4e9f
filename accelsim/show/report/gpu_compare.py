"""Profiled beside predicted kernels as a report shows them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console

from accelsim.gpu.compare import Compared
from accelsim.gpu.errors import far_off
from accelsim.gpu.profile import ProfiledKernel
from accelsim.inputs.errors import Problem
from accelsim.inputs.units import format_si
from accelsim.show.report.gpu_kernels import kernel_row
from accelsim.show.report.text import percent, print_table, table, title


def compared_row(case: Compared) -> dict[str, Any]:
    """Layer as a plain row."""
    return {
        "name": case.name,
        "kernels": [kernel.name for kernel in case.kernels],
        "measured_us": case.measured_us,
        "measured_dram_bytes": case.dram_bytes,
        "roofline_share": case.roofline_share,
        "predicted": kernel_row(case.predicted),
    }


def doubt_of(found: Sequence[Compared]) -> str:
    """What says that the profile is of another GPU or number format, or its times in another unit; or nothing."""
    if not found:
        return ""
    return far_off(np.array([case.measured_us for case in found]), np.array([case.predicted.time_us for case in found]))


def print_compared(
    console: Console,
    gpu: str,
    mode: str,
    found: Sequence[Compared],
    unmatched: Sequence[ProfiledKernel],
    left_out: Sequence[Problem],
) -> None:
    """Print measured and predicted times, DRAM bytes, and the share of the roofline that was reached."""
    console.print(f"{gpu}; {mode}\n")
    if not found:
        console.print(
            "No kernel belongs to a layer or says its sizes: put each layer into an NVTX range of its name, say "
            "--workload, and export `nsys stats --report nvtx_kern_sum` or `ncu --nvtx --csv`"
        )
    made = table("layer", "measured", "predicted", "ratio", "DRAM", "predicted", "roofline", "tile", left=(0, 7))
    for case in found:
        kernel = case.predicted
        inside = kernel.low_us <= case.measured_us <= kernel.high_us
        made.add_row(
            case.name,
            format_si(case.measured_us * 1e-6, "s"),
            format_si(kernel.time_us * 1e-6, "s"),
            f"{kernel.time_us / case.measured_us:.2f}{'' if inside else ' *'}",
            "" if case.dram_bytes is None else format_si(case.dram_bytes, "B"),
            format_si(kernel.dram_bytes, "B"),
            percent(case.roofline_share),
            kernel.tile + (f"/{kernel.split}" if kernel.split > 1 else ""),
        )
    if found:
        print_table(console, made)
        error = statistics.median(abs(case.predicted.time_us / case.measured_us - 1) for case in found)
        total = sum(case.measured_us for case in found)
        layers = f"{len(found)} layer{'s' if len(found) > 1 else ''}, {format_si(total * 1e-6, 's')}"
        console.print(f"\n{layers}; median error {percent(error)}")
        doubt = doubt_of(found)
        if doubt:
            console.print(doubt)
        console.print("ratio: predicted over measured, * outside the interval; roofline: least time over measured")
    if unmatched:
        title(console, "Not matched", "kernels outside ranges that name a layer or sizes, and those of no product")
        for other in unmatched:
            where = f" in {other.range}" if other.range else ""
            console.print(f"{format_si(other.time_us * 1e-6, 's'):>10} x {other.runs:<5} {other.name[:44]}{where}")
    if left_out:
        console.print("\nNot compared")
        for problem in left_out:
            console.print(f"  {problem}")
