"""Kernels on a GPU as a report shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console

from accelsim.gpu.kernel import Kernel
from accelsim.inputs.units import format_si
from accelsim.show.report.text import percent, print_table, table, title

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
    "transforms": "tensors are transformed by kernels before and after (added)",
}


def kernel_row(kernel: Kernel, repeat: int = 1) -> dict[str, Any]:
    """Kernel as a plain row."""
    row = asdict(kernel)
    row["others"] = [{"tiling": name, "time_us": time_us} for name, time_us in kernel.others]
    return {**row, "tflops": kernel.tflops, "repeat": repeat}


def _dram(kernel: Kernel) -> str:
    """Bytes that pass DRAM, and why they may be fewer than all operands and results have."""
    moved = f"DRAM {format_si(kernel.dram_bytes, 'B')}"
    if round(kernel.dram_bytes) >= round(kernel.least_bytes):
        return moved
    return f"{moved} (L2 holds the rest of {format_si(kernel.least_bytes, 'B')})"


def print_kernel(console: Console, kernel: Kernel, *, quiet: bool = False) -> None:
    """Print one kernel: the tiling and its time, and unless `quiet` what that is made of and the next best tilings."""
    sizes = f"M={kernel.m} N={kernel.n} K={kernel.k}" + (f" batch={kernel.batch}" if kernel.batch > 1 else "")
    console.print(f"{kernel.name} on {kernel.gpu}: {sizes}, {kernel.number_format}")
    rows = [
        ("mode", kernel.mode),
        ("time", f"{_us(kernel.time_us)}  ({_us(kernel.low_us)} to {_us(kernel.high_us)} for four fifths of kernels)"),
        ("rate", f"{kernel.tflops:.4g} TFLOPS, {format_si(kernel.flops, 'FLOP')}"),
        *([("algorithm", f"{kernel.algorithm}: M, N, K of its products")] if kernel.algorithm != "GEMM" else []),
        ("kernel", _tiling(kernel)),
        ("efficiency", f"tiles {percent(kernel.tile_efficiency)}, waves {percent(kernel.wave_efficiency)}"),
        ("traffic", f"{_dram(kernel)}, L2 {format_si(kernel.l2_bytes, 'B')}"),
        ("energy", f"{format_si(kernel.energy_j, 'J')} at {kernel.power_w:.0f} W of board power"),
        ("bottleneck", kernel.bottleneck),
    ]
    for name, text in rows:
        console.print(f"{name:<11} {text}")
    if quiet:
        return
    title(console, "Time", "an SM's rounds, L2 and DRAM overlap: the longest of them counts, and some of the others")
    made = table("part", "time", "what")
    for name, time_us in kernel.parts_us.items():
        if time_us > 0:
            made.add_row(name, _us(time_us), _WHAT[name])
    print_table(console, made)
    title(
        console,
        "Tilings",
        f"all {kernel.tilings} of the space are compared; the next best tiles, each with its best split",
    )
    made = table("tile / split of K", "time")
    made.add_row(f"{kernel.tile}{_how(kernel, ' / ')}  (chosen)", _us(kernel.time_us))
    for name, time_us in kernel.others:
        made.add_row(name, _us(time_us))
    print_table(console, made)


def print_kernels(console: Console, name: str, kernels: Sequence[Kernel], repeats: Sequence[int]) -> None:
    """Print the kernels of a network, a line for each, and their sum."""
    console.print(f"{name} on {kernels[0].gpu}, {kernels[0].number_format}; {kernels[0].mode}\n")
    made = table("layer", "M x N x K", "tile", "waves", "time", "TFLOPS", "bottleneck", left=(0, 6), fold=(6,))
    for kernel, repeat in zip(kernels, repeats, strict=True):
        sizes = f"{kernel.m}x{kernel.n}x{kernel.k}" + (f" x{kernel.batch}" if kernel.batch > 1 else "")
        tile = kernel.tile + _how(kernel, "/")
        label = kernel.name + (f" x{repeat}" if repeat > 1 else "") + ("" if kernel.algorithm == "GEMM" else " W")
        made.add_row(
            *(label, sizes, tile, f"{kernel.waves:.2f}", _us(kernel.time_us), f"{kernel.tflops:.3g}"),
            kernel.bottleneck.removesuffix(" and latency").removesuffix(" bandwidth"),
        )
    print_table(console, made)
    if any(kernel.algorithm != "GEMM" for kernel in kernels):
        console.print("W: by Winograd; sizes of its products, TFLOPS of the sliding window")
    total = totals(kernels, repeats)
    console.print(
        f"\ntotal {_us(total['time_us'])}, {total['tflops']:.4g} TFLOPS, {format_si(total['energy_j'], 'J')} "
        f"at {total['power_w']:.0f} W; kernels of matrix products alone, one after the other"
    )


def totals(kernels: Sequence[Kernel], repeats: Sequence[int]) -> Mapping[str, float]:
    """Sums over the layers of a network."""
    pairs = list(zip(kernels, repeats, strict=True))
    time_us = sum(kernel.time_us * repeat for kernel, repeat in pairs)
    flops = sum(kernel.flops * repeat for kernel, repeat in pairs)
    energy_j = sum(kernel.energy_j * repeat for kernel, repeat in pairs)
    return {
        "time_us": time_us,
        "flops": flops,
        "energy_j": energy_j,
        "tflops": flops / time_us * 1e-6,
        "power_w": energy_j / time_us * 1e6,
    }


def _tiling(kernel: Kernel) -> str:
    if kernel.tile == "gemv":
        return "matrix-vector product, no tiles"
    if kernel.schedule == "Stream-K":
        shared = f"{kernel.blocks} work units, {kernel.split} at most share a tile, {kernel.waves:.2f} tiles an SM"
        return f"tile {kernel.tile}, Stream-K: {shared}"
    split = f", K in {kernel.split} parts" if kernel.split > 1 else ""
    blocks = f"{kernel.blocks} block{'s' if kernel.blocks > 1 else ''}"
    grid = f"{blocks}, {kernel.occupancy} at once on an SM, {kernel.waves:.2f} waves"
    return f"tile {kernel.tile}{split}: {grid}"


def _how(kernel: Kernel, mark: str) -> str:
    """Schedule of a kernel beside its tile."""
    if kernel.schedule == "Stream-K":
        return " Stream-K"
    return f"{mark}{kernel.split}" if kernel.split > 1 else ""


def _us(time_us: float) -> str:
    return format_si(time_us * 1e-6, "s", 4)
