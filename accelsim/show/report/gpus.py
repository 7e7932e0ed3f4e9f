"""GPUs as a report shows them: all in a table, or one with the sources of its figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from accelsim.gpu.machine import FORMATS, Gpu
from accelsim.inputs.units import format_bits, format_si, listed
from accelsim.show.report.text import print_table, table, title

_DOUBT = {
    "sms": "sms", "boost_hz": "clock", "tensor_hz": "clock", "memory_bytes": "memory", "dram_bytes_per_s": "memory",
    "l2_bytes": "l2", "l2_bytes_per_s": "l2_bandwidth", "tdp_w": "tdp", "peak_tflops": "peak_tflops",
}  # fmt: skip


def gpu_row(gpu: Gpu) -> dict[str, Any]:
    """All figures of a GPU as a plain row."""
    row = dataclasses.asdict(gpu)
    row["compute_capability"] = ".".join(map(str, gpu.compute_capability))
    row["mma"] = {key: "m{}n{}k{}".format(*shape) for key, shape in gpu.mma.items()}
    return row


def print_gpus(console: Console, gpus: Sequence[Gpu]) -> None:
    """Print a table of GPUs; `?` marks a figure that no data sheet confirms."""
    title(console, "GPUs")
    made = table("name", "SMs", "MHz", "FP32", "FP16", "FP8", "GB", "GB/s", "L2 MiB", "W", "MIG")
    for gpu in gpus:
        peaks = [f"{gpu.peak_tflops[key]:.4g}" if key in gpu.peak_tflops else "" for key in ("fp32", "fp16", "fp8")]
        made.add_row(
            gpu.name,
            _marked(gpu, "sms", str(gpu.sms)),
            _marked(gpu, "boost_hz", f"{gpu.boost_hz / 1e6:.0f}"),
            *peaks,
            f"{gpu.memory_bytes / 1e9:.0f}",
            _marked(gpu, "dram_bytes_per_s", f"{gpu.dram_bytes_per_s / 1e9:.0f}"),
            _marked(gpu, "l2_bytes", f"{gpu.l2_bytes / 2**20:.0f}"),
            _marked(gpu, "tdp_w", f"{gpu.tdp_w:.0f}"),
            str(len(gpu.mig) or ""),
        )
    print_table(console, made)
    console.print("\nFP32, FP16, FP8: dense peak [TFLOPS]; MHz: boost; MIG: profiles; ?: no data sheet confirms it")


def print_gpu(console: Console, gpu: Gpu) -> None:
    """Print one GPU: its figures, where they come from, and which are doubtful."""
    capability = ".".join(map(str, gpu.compute_capability))
    title(console, f"{gpu.name}: {gpu.chip}, {gpu.generation}, compute capability {capability}")
    figures = (
        ("SMs", str(gpu.sms)),
        ("clock", f"{gpu.boost_hz / 1e6:.0f} MHz boost, {gpu.tensor_hz / 1e6:.0f} MHz for tensor peaks"),
        ("memory", f"{format_si(gpu.memory_bytes, 'B')} {gpu.memory_type}, {_rate(gpu.dram_bytes_per_s)}"),
        ("L2", f"{_size(gpu.l2_bytes)}, {_rate(gpu.l2_bytes_per_s)}"),
        ("SM", f"{_size(gpu.smem_bytes)} shared memory ({_size(gpu.smem_per_block_bytes)} a block), "
               f"{gpu.registers} registers, {gpu.warps} warps, {gpu.blocks} blocks"),
        ("NVLink", _rate(gpu.nvlink_bytes_per_s) if gpu.nvlink_bytes_per_s else "none"),
        ("TDP", f"{gpu.tdp_w:.3g} W"),
        ("MIG", listed(f"{p.name} ({p.sms} SMs, {p.memory_eighths}/8 memory)" for p in gpu.mig.values()) or "none"),
        ("devices", listed(gpu.devices) or "none"),
    )  # fmt: skip
    for name, text in figures:
        console.print(f"{name:<8} {text}")
    console.print()
    made = table("format", "dense TFLOPS", "2:4 sparse", "ops/SM/cycle", "MMA")
    for key in (name for name in FORMATS if name in gpu.peak_tflops):
        sparse = f"{gpu.peak_tflops_sparse[key]:.4g}" if key in gpu.peak_tflops_sparse else ""
        shape = "m{}n{}k{}".format(*gpu.mma[key]) if key in gpu.mma else "none"
        made.add_row(key, f"{gpu.peak_tflops[key]:.4g}", sparse, f"{gpu.operations_per_sm_cycle[key]:g}", shape)
    print_table(console, made)
    for head, texts in (("Sources", gpu.sources), ("Not confirmed by a data sheet", gpu.unsure)):
        if texts:
            title(console, head)
            for key, text in texts.items():
                console.print(f"{key}: {text}")


def _marked(gpu: Gpu, figure: str, text: str) -> str:
    return f"{text}?" if _DOUBT[figure] in gpu.unsure else text


def _rate(bytes_per_s: float) -> str:
    return format_si(bytes_per_s, "B/s", 4)


def _size(size_bytes: int) -> str:
    return format_bits(8 * size_bytes)
