"""How a kernel may cut a matrix product: the tiles and splits of K that are tried, and what fits an SM.

A kernel's work is shared out over SMs as whole tiles (data-parallel) or parts of K (split-K).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from accelsim.gpu.constants import Floats
from accelsim.gpu.machine import BYTES, VECTOR_FORMATS, Gpu
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import listed

STAGE_BYTES = 128
"""Bytes of K that one step of the main loop takes: a line of L2, the swizzle width of TMA (CUTLASS)."""
_LEAST_REGISTERS = 8192
"""Registers of a block beside its sums: 32 for each of 256 threads."""
_BARRIER_BYTES = 1024
"""Shared memory that CUDA keeps for each block (CUDA C++ programming guide, compute capability 8.0 and later)."""
_MOST_STAGES = 8
_MMA = ((32, 32), (64, 32), (64, 64), (128, 32), (128, 64), (128, 128), (256, 64), (256, 128))
_ASYNC = (
    *((64, 8), (64, 16), (64, 32), (64, 64), (64, 128), (64, 256), (128, 16), (128, 32), (128, 64), (128, 128)),
    *((128, 192), (128, 256), (256, 64), (256, 128)),
)
_VECTOR = ((32, 32), (64, 32), (64, 64), (128, 32), (128, 64), (128, 128))


def compute_class(gpu: Gpu, number_format: str) -> str:
    """How a multiply-add gets its operands: `async`, `mma` or `vector` (see `COMMON`).

    Raises
    ------
    AccelsimError
        If the GPU does not compute in this format.
    """
    gpu.operations(number_format)
    if number_format in VECTOR_FORMATS or number_format not in gpu.mma:
        return "vector"
    return "async" if gpu.mma[number_format][0] >= 64 else "mma"


@dataclass(frozen=True, slots=True)
class TileSet:
    """The tiles that a GPU's kernels have in one number format, and what each needs; arrays over T tiles.

    Attributes
    ----------
    rows, columns : float[T]
        Size of the output tile of a block.
    step : float
        Elements of K in one step of the main loop.
    tensor_cycles, smem_cycles, fill_cycles : float[T]
        For one element of K: cycles of the multiply-adds at peak, of reading shared memory, and of filling it at 128 B
        a cycle.
    row_share, column_share : float[T]
        Share of the rows' and columns' operands that a block loads and reads itself; where two SMs work as a pair, each
        has half of the operand that they share (tcgen05, `cta_group::2`); of sparse weights, what is kept.
    stage_bytes : float[T]
        One step's operands.
    stages : float[T]
        Steps kept in shared memory.
    occupancy : float[T]
        Blocks that fit one SM by shared memory, registers, warps and blocks.
    warps : float[T]
        Warps of a block.
    tensor_memory : bool
        Whether sums stay in tensor memory (tcgen05): 128 x 512 words, room for those of two tiles of 128 x 256, so that
        one tile's results leave while the next one is computed (CUTLASS, SM100 kernels).
    """

    rows: Floats
    columns: Floats
    step: float
    tensor_cycles: Floats
    smem_cycles: Floats
    fill_cycles: Floats
    row_share: Floats
    column_share: Floats
    stage_bytes: Floats
    stages: Floats
    occupancy: Floats
    warps: Floats
    tensor_memory: bool

    def name(self, index: int) -> str:
        """Tile as kernels' names have it, such as 128x256."""
        return f"{int(self.rows[index])}x{int(self.columns[index])}"


def _tile_shapes(gpu: Gpu, number_format: str) -> list[tuple[int, int]]:
    """Output tiles that are tried, both ways round, smallest first."""
    kind = compute_class(gpu, number_format)
    shapes = {"mma": _MMA, "vector": _VECTOR, "async": _ASYNC}[kind]
    return sorted({*shapes, *((b, a) for a, b in shapes)})


def _warp_shape(kind: str, rows: Floats, columns: Floats) -> tuple[Floats, Floats]:
    """Output tile of a warp, or, where operands come from shared memory, of a warp group."""
    if kind == "async":
        return np.minimum(rows, 64), np.minimum(columns, 256)
    if kind == "vector":
        return np.minimum(rows, 32), np.minimum(columns, 64)
    return np.minimum(rows, 64), np.minimum(columns, 64)


def sparse_gain(gpu: Gpu, number_format: str) -> float:
    """Peak with 2:4 sparse weights over the dense peak.

    Raises
    ------
    AccelsimError
        If the data sheet has no sparse peak for the format.
    """
    if number_format not in gpu.peak_tflops_sparse:
        known = listed(gpu.peak_tflops_sparse) if gpu.peak_tflops_sparse else "none"
        raise AccelsimError(f"{gpu.name} has no 2:4 sparse peak in '{number_format}'; formats that have one: {known}")
    return gpu.peak_tflops_sparse[number_format] / gpu.peak_tflops[number_format]


def sparse_share(number_format: str) -> float:
    """Bytes of 2:4 sparse weights, of those of dense ones: half the words, and two bits where each of these stands.

    PTX ISA, `mma.sp`: TF32 keeps one word of two, with four bits; formats of 4 bits keep pairs of words, with two
    bits a pair.

    Examples
    --------
    >>> sparse_share("fp16"), sparse_share("fp8"), sparse_share("fp4"), sparse_share("tf32")
    (0.5625, 0.625, 0.625, 0.5625)
    """
    bits = 8 * BYTES[number_format]
    kept = {32.0: 4, 16.0: 2, 8.0: 2, 4.0: 1}[bits]
    return 0.5 * (1 + kept / bits)


@cache
def tile_set(gpu: Gpu, number_format: str, in_flight_bytes: float, sparse: bool = False) -> TileSet:
    """Tiles of a GPU and what each needs of an SM.

    Parameters
    ----------
    number_format : str
        One of `machine.FORMATS`.
    in_flight_bytes : float
        Shared memory that a block's stages may fill.
    sparse : bool
        Whether weights are 2:4 sparse.

    Raises
    ------
    AccelsimError
        If the GPU has no such tensor cores for the format.
    """
    kind = compute_class(gpu, number_format)
    tensor_memory = kind == "async" and gpu.compute_capability[0] >= 10
    shapes = np.array(_tile_shapes(gpu, number_format), dtype=np.float64)
    rows, columns = shapes[:, 0], shapes[:, 1]
    width = BYTES[number_format]
    step = STAGE_BYTES / width if kind != "vector" else STAGE_BYTES / 4 / width
    row_share = np.where(tensor_memory & (rows > columns), 0.5, 1.0)
    column_share = np.where(tensor_memory & (rows <= columns), 0.5, 1.0)
    gain = 1.0
    if sparse:
        gain = sparse_gain(gpu, number_format)
        column_share = column_share * sparse_share(number_format)
    loaded = rows * row_share + columns * column_share
    stage = loaded * step * width
    stages = np.clip(np.floor(min(gpu.smem_per_block_bytes, in_flight_bytes) / stage), 2, _MOST_STAGES)
    warp_rows, warp_columns = _warp_shape(kind, rows, columns)
    groups = (rows / warp_rows) * (columns / warp_columns)
    warps = groups * 4 + 4 if kind == "async" else groups
    fits_smem = np.floor(gpu.smem_bytes / (stages * stage + _BARRIER_BYTES))
    fits_registers = np.floor(gpu.registers / np.maximum(rows * columns + _LEAST_REGISTERS, _LEAST_REGISTERS))
    fits = np.minimum(np.minimum(fits_smem, fits_registers), np.minimum(np.floor(gpu.warps / warps), gpu.blocks))
    return TileSet(
        rows=rows,
        columns=columns,
        step=step,
        tensor_cycles=2 * rows * columns / (gpu.operations(number_format) * gain),
        smem_cycles=groups * (warp_rows * row_share + warp_columns * column_share) * width / 128,
        fill_cycles=loaded * width / 128,
        row_share=row_share,
        column_share=column_share,
        stage_bytes=stage,
        stages=stages,
        occupancy=np.clip(fits, 1, 8),
        warps=warps,
        tensor_memory=tensor_memory,
    )


SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 32)
"""Parts into which K may be split."""


@dataclass(frozen=True, slots=True)
class Work:
    """Work of the busiest SM, of products [P] with tiles [T] and splits of K [S].

    Attributes
    ----------
    steps : float[P, T, S]
        Steps of the main loop.
    rounds : float[P, T, S]
        Tiles one after the other.
    at_once : float[P, T, S]
        Blocks that share the SM.
    possible : bool[P, T, S]
        False where K has fewer steps than parts.
    """

    steps: Floats
    rounds: Floats
    at_once: Floats
    possible: NDArray[np.bool_]


def work_of(blocks: Floats, steps: Floats, splits: Floats, sms: int, occupancy: Floats) -> Work:
    """Share out the tiles of products.

    Parameters
    ----------
    blocks : float[P, T, 1]
        Output tiles.
    steps : float[P, 1, 1]
        Steps of the main loop for a tile.
    splits : float[S]
        Out of `SPLITS`.
    occupancy : float[1, T, 1]
        Blocks that fit one SM.
    """
    rounds = np.ceil(blocks * splits * (1 / sms))
    return Work(
        steps=np.ceil(steps / splits) * rounds,
        rounds=rounds,
        at_once=np.minimum(rounds, occupancy),
        possible=np.broadcast_to(splits <= steps, rounds.shape),
    )
