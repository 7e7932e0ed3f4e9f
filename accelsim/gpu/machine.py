"""GPUs of the catalogue as machines with levels: `h100_sxm:arch` is an architecture with constraints.

A kernel is a mapping on it. SMs lie below L2, and nothing that one loads serves another. A tile of the operands is in
shared memory, in two stages or more; its sums are in registers, at 32 bits. A tensor core computes one `mma`
instruction at a time. Rates and energies are those of the kernel model, so that both count the same.
"""

from __future__ import annotations

from pathlib import Path

from accelsim.gpu.calibration import AUTO, mode_of
from accelsim.gpu.catalogue import BYTES, Gpu, load_gpu, number_format, wide_format
from accelsim.gpu.constants import (
    ACTIVE,
    IDLE,
    L2_PJ_PER_BYTE,
    LEAST_REGISTERS,
    SM_BYTES,
    SMEM_BYTES,
    compute_class,
    dram_pj_per_byte,
    pj_per_flop,
    tile_set,
)

SUFFIX = "arch"
"""What follows the name of a GPU that is meant as an architecture."""
PARTITIONS = 4
"""Sub-partitions of an SM; each has a tensor core and a quarter of the registers."""
_VECTOR = (8, 4, 1)
"""Multiply-adds of a warp's 32 threads: rows, columns, and elements of K."""
_WHOLE = 0.02
"""How far cycles of an instruction may be from a whole number, as a share."""


def machine_texts(name: str) -> dict[str, str]:
    """Architecture and constraints of a GPU as a machine, as the text of a file each; nothing where it is no such name.

    `name`: `GPU:arch`, with a MIG slice before (`a100:1g.10gb:arch`), or a number format behind
    (`h100_sxm:arch:fp8`), by default BF16 or FP16. Raises AccelsimError if there is no such GPU, slice or format.

    >>> sorted(machine_texts("h100_sxm:arch")), machine_texts("eyeriss")
    (['architecture', 'constraints'], {})
    """
    parts = name.split(":")
    if SUFFIX not in parts[1:]:
        return {}
    at = parts.index(SUFFIX, 1)
    gpu = load_gpu(parts[0], ":".join(parts[1:at]) or None)
    asked = ":".join(parts[at + 1 :])
    number = number_format(asked) if asked else wide_format(gpu)
    head = f"# {gpu.name} in {number} as a machine, from the catalogue: `accelsim import {name}`.\n"
    return {kind: head + made(gpu, number) for kind, made in _TEXTS.items()}


def instruction(gpu: Gpu, number_format: str) -> tuple[int, int, int, int]:
    """Rows, columns and elements of K that a tensor core multiplies at once, and in how many cycles.

    A warp group's instruction is one of 16 rows on each of its four tensor cores, in steps of 8 columns. Where the
    cycles are no whole number, several instructions that lie side by side are one.

    >>> instruction(load_gpu("a100"), "fp16"), instruction(load_gpu("h100"), "fp16")
    ((16, 8, 16, 8), (16, 8, 16, 4))
    """
    kind = compute_class(gpu, number_format)
    m, n, k = _VECTOR if kind == "vector" else gpu.mma[number_format]
    if kind == "async":
        m, n = m // PARTITIONS, 8
    rate = gpu.operations(number_format) / 2 / PARTITIONS
    while abs(max(1, round(m * n * k / rate)) * rate / (m * n * k) - 1) > _WHOLE:
        n *= 2
    return m, n, k, round(m * n * k / rate)


def _architecture(gpu: Gpu, number_format: str) -> str:
    mode = mode_of(gpu, number_format, AUTO)
    c, kind = mode.constants, compute_class(gpu, number_format)
    tensor_memory = tile_set(gpu, number_format, c.in_flight_bytes).tensor_memory
    held = "Inputs" if kind == "async" else "Weights, Inputs"
    m, n, k, cycles = instruction(gpu, number_format)
    loads = min(gpu.l2_bytes_per_s / c.l2_loads, gpu.sms * SM_BYTES * gpu.boost_hz)
    dram_pj = f"{dram_pj_per_byte(gpu) / 8:.4g} pJ/bit"
    params = {
        "name": f"{gpu.name}_{number_format}".replace(":", "_"),
        "source": f'"kernel model, {mode.text.replace(":", ",")}"',
        "clock": f"{gpu.boost_hz / 1e6:g} MHz",
        "word": f"{8 * BYTES[number_format]:g} bit",
        "memory": f"{{bandwidth: {_rate(gpu.dram_bytes_per_s * c.dram_efficiency)}, energy: {dram_pj}}}",
        "standing": f"{gpu.tdp_w * (IDLE + ACTIVE) / gpu.boost_hz * 1e12:.4g} pJ  # of the board, in each cycle",
        "l2": f"{{size: {gpu.l2_bytes >> 10} KiB, reads: {_rate(loads)}, "
        f"writes: {_rate(gpu.l2_bytes_per_s * c.store_efficiency)}, energy: {L2_PJ_PER_BYTE / 8:.4g} pJ/bit}}",
        "sms": f"{gpu.sms}",
        "smem": f"{{size: {gpu.smem_per_block_bytes >> 10} KiB, bandwidth: {SMEM_BYTES / c.smem_cost:.4g} B/cycle, "
        f"multicast: {str(kind == 'async').lower()}}}",
        "sums": f"{{size: {4 * (gpu.registers - LEAST_REGISTERS) // PARTITIONS >> 10} KiB, "
        f"overlap: {'all' if tensor_memory else 'none'}}}",
        "operands": f"{{size: {4 * LEAST_REGISTERS // PARTITIONS >> 10} KiB, keep: [{held}]}}",
        "mma": f"{{m: {m}, n: {n}, k: {k}, cycles: {cycles}}}",
        "operation": f"{2 * pj_per_flop(number_format, c):.4g} pJ",
    }
    body = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8").replace("WIDTH", params["word"])
    return "params:\n" + "".join(f"  {key}: {value}\n" for key, value in params.items()) + body


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.4g} GB/s"


def _constraints(gpu: Gpu, number_format: str) -> str:
    """What a kernel can do beside what fits: sums of at most the largest tile, and the shape of an instruction."""
    tiles = tile_set(gpu, number_format, mode_of(gpu, number_format, AUTO).constants.in_flight_bytes)
    most = int((tiles.rows * tiles.columns).max()) // PARTITIONS
    return f"""constraints:
  levels:
    - {{level: Sums, tile: {{words: [Outputs<={most}]}}}}  # of a sub-partition
    - {{level: Operands, spatial: {{x: {{reuse: [Weights]}}, y: {{reuse: [Inputs]}}}}}}
    - {{level: MMA, temporal: {{only: []}}, spatial: {{x: {{reuse: [Outputs]}}}}}}
"""


_TEXTS = {"architecture": _architecture, "constraints": _constraints}
