"""What the kernel model knows beyond a data sheet: constants common to all GPUs, eight of which may be calibrated.

Energy of operations and of bytes, power of the board while a kernel repeats, and the clock that its limit allows.

How a kernel may cut a matrix product: the tiles and splits of K that are tried, and what fits an SM. Its work is shared
out over SMs as whole tiles (data-parallel) or parts of K (split-K).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelsim.gpu.catalogue import BYTES, VECTOR_FORMATS, Gpu, read_tables
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import listed

Floats = NDArray[np.float64]
FASTEST, ONE_ROUND = "fastest", "one round"
CHOICES = (FASTEST, ONE_ROUND)
"""Which tilings a library chooses from: all; or smaller tiles than its largest only where one round of blocks covers
the product, as cuBLAS on an A100. A tile that covers as much of a product as the largest does counts as that, but for
batches of products."""
_PRODUCTS = "product_constants"
_LARGEST = 1e12
"""Of any constant: no measured one comes near, and no time that is made of them overflows."""


def calibrated(kind: str) -> Sequence[str]:
    """Constants that `accelsim gpu calibrate` fits, in this order, of a `compute_class`."""
    found: Sequence[str] = read_tables(_PRODUCTS)["calibrated"][kind]
    return found


def bounds() -> Mapping[str, tuple[float, float]]:
    """Range in which a calibration looks for each constant."""
    return {name: (low, high) for name, (low, high) in read_tables(_PRODUCTS)["bounds"].items()}


@dataclass(frozen=True, slots=True)
class KernelConstants:
    """Constants of the kernel model; `product_constants.yaml` says what each is, and in which unit.

    Raises ValueError if one is out of range.
    """

    launch_us: float
    latency_us: float
    tensor_efficiency: float
    dram_efficiency: float
    smem_cost: float
    reduction_us: float
    store_efficiency: float
    overlap: float
    round_us: float
    in_flight_bytes: float
    l2_loads: float
    l2_share: float
    weight_copies: float
    residency: float
    residency_sharpness: float
    gemv_us: float
    gemv_slice_us: float
    reduction_traffic: float
    throttle_us: float
    pj_per_flop: float
    cold_us: float
    choice: str = FASTEST  # one of `CHOICES`

    def __post_init__(self) -> None:
        if self.choice not in CHOICES:
            raise ValueError(f"choice must be one of {', '.join(CHOICES)}, got '{self.choice}'")
        for name in (item.name for item in fields(self) if item.name != "choice"):
            value = getattr(self, name)
            if name in read_tables(_PRODUCTS)["divisors"] and not 0 < value <= _LARGEST:
                raise ValueError(f"{name} must be a number above 0 and up to {_LARGEST:g}, got {value:g}")
            if not 0 <= value <= _LARGEST:
                raise ValueError(f"{name} must be a number from 0 to {_LARGEST:g}, got {value:g}")

    def with_values(self, values: Mapping[str, float], choice: str = FASTEST) -> KernelConstants:
        """Return these constants with some replaced."""
        return replace(self, **values, choice=choice)


@cache
def common_constants(kind: str) -> KernelConstants:
    """Uncalibrated constants by how a multiply-add gets its operands (`compute_class`)."""
    return KernelConstants(**{**read_tables(_PRODUCTS)["common"], **read_tables(_PRODUCTS).get(kind, {})})


_ENERGY_OF_WIDTH = 0.68
IDLE = 0.15
"""Share of its power limit that a board takes when no SM works: 118 of 700 W on an H100 at its full clock (NVML; 73 W
at 345 MHz), 32 of 250 W on a V100 (AccelWattch)."""
ACTIVE = 0.247
"""Share of its power limit that the board takes beyond `IDLE` while its SMs run, whatever they do: 173 of 700 W on an
H100 (`benchmarks/gpu/measured/h100_sxm_power.csv`)."""
L2_PJ_PER_BYTE = 23.6
"""Energy of a byte from L2 to the SMs: the same fit."""
_DRAM_PJ_PER_BYTE = {"HBM": 62.8, "GDDR": 112.0, "LPDDR": 40.0}
"""Energy of a byte from memory to L2, by the beginning of the type of memory: HBM, the same fit; GDDR5 14 pJ/bit and
LPDDR4 5 pJ/bit (O'Connor, MICRO 2017; not verified)."""

_ENERGY_OF_CLOCK = 1.5
"""Power of the clock that energy on the chip follows: the same fit; a fit to an H200 alone gives 1.47."""
_CLOCKS = 2001
"""Clocks that are compared: steps of 1 MHz at 2 GHz."""


def pj_per_flop(number_format: str, constants: KernelConstants) -> float:
    """Energy [pJ] of an operation in a number format.

    The constants have that of FP16, or of FP32 without tensor cores. Narrower operands take less, by a power of their
    width: boards take 0.62 times as much for an operation in FP8 as in BF16 (H200) and 0.39 times in FP4 (B200), total
    power over throughput of large products (aiconfigurator, NVML).
    """
    width = BYTES[number_format] / (4.0 if number_format in VECTOR_FORMATS else 2.0)
    return float(constants.pj_per_flop * width**_ENERGY_OF_WIDTH)


def clock_under_power_limit(gpu: Gpu, number_format: str, constants: KernelConstants) -> float:
    """Share of the boost clock that the board's power allows when every multiply-add unit is busy."""
    busy_w = gpu.sms * gpu.boost_hz * gpu.operations(number_format) * pj_per_flop(number_format, constants) * 1e-12
    return min(1.0, gpu.tdp_w * (1 - IDLE) / busy_w)


def dram_pj_per_byte(gpu: Gpu) -> float:
    """Energy [pJ] of a byte from memory to L2."""
    return next(value for name, value in _DRAM_PJ_PER_BYTE.items() if gpu.memory_type.startswith(name))


def _power_w(
    gpu: Gpu, number_format: str, constants: KernelConstants, costs: tuple[float, float, float, float], clock_hz: Floats
) -> Floats:
    """Board power [W] that a kernel would take at some clocks without a power limit: float64[*]."""
    flops, dram_bytes, time_us, l2_bytes = costs
    on_chip_pj = flops * pj_per_flop(number_format, constants) + l2_bytes * L2_PJ_PER_BYTE
    pj = on_chip_pj * (clock_hz / gpu.boost_hz) ** _ENERGY_OF_CLOCK + dram_bytes * dram_pj_per_byte(gpu)
    running = 1 - min(1.0, constants.launch_us / time_us)
    standing_w = gpu.tdp_w * (IDLE + ACTIVE * running)
    return standing_w + pj * np.minimum(1.0, clock_hz / gpu.clock_hz(number_format)) / time_us * 1e-6


def board_power_w(
    gpu: Gpu,
    number_format: str,
    constants: KernelConstants,
    flops: float,
    dram_bytes: float,
    time_us: float,
    l2_bytes: float | None = None,
) -> float:
    """Board power [W] while a kernel repeats without pause.

    What the board takes when idle, what its SMs take except while a kernel is launched, and over the time the energy of
    the operations, of padding too, of the bytes that SMs load from L2 (those of DRAM where nothing is said), and of the
    DRAM bytes; no more than the power limit, which lowers the clock instead.
    """
    costs = flops, dram_bytes, time_us, dram_bytes if l2_bytes is None else l2_bytes
    (power_w,) = _power_w(gpu, number_format, constants, costs, np.array([gpu.boost_hz]))
    return float(min(gpu.tdp_w, power_w))


def sustained_hz(
    gpu: Gpu, number_format: str, constants: KernelConstants, costs: tuple[float, float, float, float]
) -> float:
    """Clock [Hz] at which a kernel that repeats for seconds takes no more than the power limit.

    `costs`: operations, bytes of DRAM, time [us] and bytes of L2, as for `board_power_w`. The time is that at the clock
    of the data sheet's peak, and grows below it. So power falls there with the clock to the power 2.5 for what is on
    the chip, and with the clock for DRAM.
    """
    clock_hz = np.linspace(0.0, gpu.boost_hz, _CLOCKS)
    return float(clock_hz[_power_w(gpu, number_format, constants, costs, clock_hz) <= gpu.tdp_w][-1])


def evicted(moved: Floats, room: float, sharpness: float) -> Floats:
    """Share of data that a cache no longer holds after so many bytes were used; at `room` [B] half of it."""
    much = (moved / room) ** sharpness
    return much / (1 + much)


SMEM_BYTES = 128.0
"""Bytes that the shared memory of an SM reads or writes in a cycle: 32 banks of 4 B."""
SM_BYTES = 64.0
"""Bytes that an SM takes from L2 in a cycle (NVIDIA A100 white paper)."""
STAGE_BYTES = 128
"""Bytes of K that one step of the main loop takes: a line of L2, the swizzle width of TMA (CUTLASS)."""
LEAST_REGISTERS = 8192
"""Registers of a block beside its sums: 32 for each of 256 threads."""
_BARRIER_BYTES = 1024
"""Shared memory that CUDA keeps for each block (CUDA C++ programming guide, compute capability 8.0 and later)."""
_MOST_STAGES = 8


def compute_class(gpu: Gpu, number_format: str) -> str:
    """How a multiply-add gets its operands: `async`, from shared memory, `mma`, from registers, or `vector`.

    Raises AccelsimError if the GPU does not compute in this format.
    """
    gpu.operations(number_format)
    if number_format in VECTOR_FORMATS or number_format not in gpu.mma:
        return "vector"
    return "async" if gpu.mma[number_format][0] >= 64 else "mma"


@dataclass(frozen=True, slots=True)
class TileSet:
    """The tiles that a GPU's kernels have in one number format, and what each needs; arrays over T tiles."""

    # float[T]: size of the output tile of a block
    rows: Floats
    columns: Floats
    step: float  # elements of K in one step of the main loop
    # float[T]: for one element of K: cycles of the multiply-adds at peak, of reading shared memory, and of filling it
    # at `SMEM_BYTES` a cycle, with the rows' operand and with the columns'
    tensor_cycles: Floats
    smem_cycles: Floats
    row_fill_cycles: Floats
    column_fill_cycles: Floats
    # float[T]: share of the rows' and columns' operands that a block loads and reads itself; where two SMs work as a
    # pair, each has half of the operand that they share (tcgen05, `cta_group::2`); of sparse weights, what is kept
    row_share: Floats
    column_share: Floats
    stage_bytes: Floats  # float[T]: one step's operands
    stages: Floats  # float[T]: steps kept in shared memory
    occupancy: Floats  # float[T]: blocks that fit one SM by shared memory, registers, warps and blocks
    warps: Floats  # float[T]: warps of a block
    # whether sums stay in tensor memory (tcgen05): 128 x 512 words, room for those of two tiles of 128 x 256, so that
    # one tile's results leave while the next one is computed (CUTLASS, SM100 kernels)
    tensor_memory: bool

    def name(self, index: int) -> str:
        """Tile as kernels' names have it, such as 128x256."""
        return f"{int(self.rows[index])}x{int(self.columns[index])}"

    def only(self, name: str) -> TileSet:
        """Return the one tile of a name; raises AccelsimError if there is none such."""
        names = [self.name(index) for index in range(len(self.rows))]
        if name not in names:
            raise AccelsimError(f"no tile '{name}'; tiles: {listed(names)}")
        at = slice(names.index(name), names.index(name) + 1)
        arrays: dict[str, Any] = {
            each.name: values[at] for each in fields(self) if isinstance(values := getattr(self, each.name), np.ndarray)
        }
        return replace(self, **arrays)


def sparse_gain(gpu: Gpu, number_format: str) -> float:
    """Peak with 2:4 sparse weights over the dense peak.

    Raises AccelsimError if the data sheet has no sparse peak for the format.
    """
    if number_format not in gpu.peak_tflops_sparse:
        known = listed(gpu.peak_tflops_sparse) if gpu.peak_tflops_sparse else "none"
        raise AccelsimError(f"{gpu.name} has no 2:4 sparse peak in '{number_format}'; formats that have one: {known}")
    return gpu.peak_tflops_sparse[number_format] / gpu.peak_tflops[number_format]


def sparse_share(number_format: str) -> float:
    """Bytes of 2:4 sparse weights, of those of dense ones: half the words, and two bits where each of these stands.

    PTX ISA, `mma.sp`: TF32 keeps one word of two, with four bits; formats of 4 bits keep pairs of words, with two
    bits a pair.

    >>> sparse_share("fp16"), sparse_share("fp8"), sparse_share("fp4"), sparse_share("tf32")
    (0.5625, 0.625, 0.625, 0.5625)
    """
    bits = 8 * BYTES[number_format]
    kept = {32.0: 4, 16.0: 2, 8.0: 2, 4.0: 1}[bits]
    return 0.5 * (1 + kept / bits)


@cache
def tile_set(gpu: Gpu, number_format: str, in_flight_bytes: float, sparse: bool = False) -> TileSet:
    """Tiles of a GPU and what each needs of an SM.

    `number_format`: one of `machine.FORMATS`. `in_flight_bytes`: shared memory that a block's stages may fill.
    `sparse`: whether weights are 2:4 sparse. Raises AccelsimError if the GPU has no such tensor cores for the format.
    """
    kind = compute_class(gpu, number_format)
    tensor_memory = kind == "async" and gpu.compute_capability[0] >= 10
    table = read_tables(_PRODUCTS)
    both_ways = sorted({each for rows, columns in table["tiles"][kind] for each in ((rows, columns), (columns, rows))})
    shapes = np.array(both_ways, dtype=np.float64)
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
    warp_rows, warp_columns = np.minimum(shapes, table["warp_tiles"][kind]).T
    groups = (rows / warp_rows) * (columns / warp_columns)
    warps = groups * 4 + 4 if kind == "async" else groups
    fits_smem = np.floor(gpu.smem_bytes / (stages * stage + _BARRIER_BYTES))
    fits_registers = np.floor(gpu.registers / np.maximum(rows * columns + LEAST_REGISTERS, LEAST_REGISTERS))
    fits = np.minimum(np.minimum(fits_smem, fits_registers), np.minimum(np.floor(gpu.warps / warps), gpu.blocks))
    return TileSet(
        rows=rows,
        columns=columns,
        step=step,
        tensor_cycles=2 * rows * columns / (gpu.operations(number_format) * gain),
        smem_cycles=groups * (warp_rows * row_share + warp_columns * column_share) * width / SMEM_BYTES,
        row_fill_cycles=rows * row_share * width / SMEM_BYTES,
        column_fill_cycles=columns * column_share * width / SMEM_BYTES,
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
class BusiestWork:
    """Work of the busiest SM, of products [P] with tiles [T] and splits of K [S]."""

    steps: Floats  # float[P, T, S]: steps of the main loop
    rounds: Floats  # float[P, T, S]: tiles one after the other
    at_once: Floats  # float[P, T, S]: blocks that share the SM
    possible: NDArray[np.bool_]  # bool[P, T, S]: false where K has fewer steps than parts


def work_of(blocks: Floats, steps: Floats, splits: Floats, sms: int, occupancy: Floats) -> BusiestWork:
    """Share out the tiles of products.

    `blocks` (float[P, T, 1]): output tiles. `steps` (float[P, 1, 1]): steps of the main loop for a tile. `splits`
    (float[S]): out of `SPLITS`. `occupancy` (float[1, T, 1]): blocks that fit one SM.
    """
    rounds = np.ceil(blocks * splits * (1 / sms))
    return BusiestWork(
        steps=np.ceil(steps / splits) * rounds,
        rounds=rounds,
        at_once=np.minimum(rounds, occupancy),
        possible=np.broadcast_to(splits <= steps, rounds.shape),
    )
