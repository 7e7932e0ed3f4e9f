"""The best kernel of a product on a GPU: its tiling, its time and what that is made of.

Operators that move more than they compute (element-wise, pooling, normalisation, soft-max).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelsim.gpu import LIBRARIES
from accelsim.gpu.calibration import Mode, mode_of
from accelsim.gpu.catalogue import BYTES, Gpu, table_of, without_tensor_cores
from accelsim.gpu.constants import SPLITS, Floats, KernelConstants, TileSet, board_power_w, sustained_hz, tile_set
from accelsim.gpu.gemms import USUAL, Gemms, Setup, Times, result_bytes, time_gemms
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import listed, near_miss

FUSED = "fused attention"
"""Schedule of a kernel that computes both products of attention."""
_NAMES = {"tensor": "compute", "stream": "loads of an SM", "l2": "L2 bandwidth", "dram": "DRAM bandwidth"}
"""Resources of which the busiest is the bottleneck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A product on a GPU with its fastest tiling, of all `tilings`.

    Parts of the time are those of each resource, and what is added; `low_us` and `high_us` are the interval that four
    fifths of kernels are expected in, None in formats in which no kernel was measured. `sustained_hz` and
    `sustained_us` are of a product that repeats for seconds, where the power limit then holds it back.
    """

    name: str
    gpu: str
    number_format: str
    mode: str
    m: int
    n: int
    k: int
    batch: int
    tile: str  # output tile of a block, such as 128x256, or `gemv`
    schedule: str  # `data-parallel` or `split-K`; empty for `gemv`
    split: int = 1  # parts of K
    blocks: int
    occupancy: int = 1  # blocks at once on an SM
    waves: float  # blocks over those that run at once
    tile_efficiency: float = 1.0  # share of the tiles' products that are wanted
    wave_efficiency: float  # average over the largest number of blocks of an SM
    parts_us: Mapping[str, float]
    bottleneck: str
    time_us: float
    low_us: float | None = None
    high_us: float | None = None
    flops: float  # wanted operations
    dram_bytes: float
    l2_bytes: float
    least_bytes: float  # bytes of all tensors, each once
    power_w: float  # of the board while the kernel repeats
    tilings: int = 1
    others: tuple[tuple[str, float], ...] = ()  # next best tilings, each of another tile, and their times [us]
    tensor_cores: bool = True  # whether the library computes it on them, or on the vector units
    sustained_hz: float | None = None
    sustained_us: float | None = None

    @property
    def tflops(self) -> float:
        """Operations that are wanted, over the time [TFLOPS]."""
        return self.flops / self.time_us * 1e-6

    @property
    def energy_j(self) -> float:
        """Of one run."""
        return self.power_w * self.time_us * 1e-6


def wave_efficiency(blocks: int, slots: int) -> float:
    """Share of the slots that work, on average over the waves of a grid.

    NVIDIA's guide: 12 blocks on a GPU of 8 SMs, one block on each at a time, use 75 % of it.

    >>> wave_efficiency(12, 8)
    0.75
    """
    return blocks / (slots * -(-blocks // slots))


def tile_efficiency(m: int, n: int, rows: int, columns: int) -> float:
    """Share of the tiles' area that is wanted.

    NVIDIA's guide: a matrix of 27 x 32 tiles of 128 x 128 with one row more has 28 x 32 tiles.

    >>> round(tile_efficiency(27 * 128 + 1, 32 * 128, 128, 128), 3)
    0.965
    """
    return m * n / (-(-m // rows) * rows * -(-n // columns) * columns)


_TENSOR_BYTES = 16.0
_LAST_OF_CUBLAS_10 = 7
"""Compute capability: Volta and Turing; Ampere needs cuBLAS 11."""


def machines_of(
    gpu: Gpu, gemms: Gemms, number_format: str, mode: Mode, library: str
) -> Iterator[tuple[NDArray[np.bool_], Gpu, Mode]]:
    """Products, bool[P], by the units on which a library computes them: the GPU as it is, or without tensor cores.

    Raises AccelsimError if there is no such library for the GPU and number format.
    """
    every = np.ones(len(gemms), dtype=bool)
    if library == LIBRARIES[0]:
        yield every, gpu, mode
        return
    if number_format != "fp16" or gpu.compute_capability[0] != _LAST_OF_CUBLAS_10:
        raise AccelsimError(
            f"--library {library}: known of fp16 on Volta and Turing, whose tensor cores came before cuBLAS 11; "
            f"not of {number_format} on {gpu.name}"
        )
    multiple = _TENSOR_BYTES / BYTES[number_format]
    aligned = np.all([np.fmod(sizes, multiple) == 0 for sizes in (gemms.m, gemms.n, gemms.k)], axis=0)
    if aligned.any():
        yield aligned, gpu, mode
    if not aligned.all():
        plain = without_tensor_cores(gpu)
        yield every & ~aligned, plain, mode_of(plain, number_format)


def best_kernels(
    gpu: Gpu, names: Sequence[str], gemms: Gemms, number_format: str, mode: Mode, setup: Setup = USUAL
) -> list[Kernel]:
    """Choose the fastest tiling and schedule of each product, which has a name, out of all of them.

    >>> from accelsim.gpu.calibration import mode_of
    >>> from accelsim.gpu.catalogue import load_gpu
    >>> a100 = load_gpu("a100")
    >>> (kernel,) = best_kernels(a100, ["cube"], Gemms.of(4096, 4096, 4096), "fp16", mode_of(a100, "fp16"))
    >>> kernel.tile, kernel.bottleneck, 200 < kernel.tflops < 290
    ('128x256', 'compute', True)
    """
    found = {}
    for which, machine, own in machines_of(gpu, gemms, number_format, mode, setup.library):
        part = gemms.rows(which)
        times = time_gemms(machine, part, number_format, own.constants, setup)
        tiles = tile_set(machine, number_format, own.constants.in_flight_bytes)
        tiles = tiles.only(setup.tile) if setup.tile else tiles
        for i, index in enumerate(np.flatnonzero(which).tolist()):
            found[index] = _kernel(machine, names[index], part, number_format, own, times, tiles, i)
    return [found[index] for index in range(len(names))]


def _kernel(
    gpu: Gpu, name: str, gemms: Gemms, number_format: str, mode: Mode, times: Times, tiles: TileSet, i: int
) -> Kernel:
    m, n, k, batch = (int(values[i]) for values in (gemms.m, gemms.n, gemms.k, gemms.batch))
    operands, results = m * k * float(gemms.unique[i]) + k * n, m * n
    tile, split = int(times.tile[i]), SPLITS[int(times.split[i])]
    time_us, flops = float(times.time_us[i]), float(gemms.flops[i])
    parts = {key: float(values[i]) for key, values in times.parts.items()}
    if tile < 0:
        shape, schedule, split, blocks, occupancy, waves = "gemv", "", 1, 0, 0, 0.0
        efficient, even, padded = 1.0, 1.0, flops
        bottleneck = _NAMES["dram"]
    else:
        rows, columns = int(tiles.rows[tile]), int(tiles.columns[tile])
        outputs = -(-m // rows) * -(-n // columns) * batch
        shape, occupancy, steps = tiles.name(tile), int(tiles.occupancy[tile]), math.ceil(k / tiles.step)
        schedule, blocks = "split-K" if split > 1 else "data-parallel", outputs * split
        waves, even = blocks / gpu.sms / occupancy, wave_efficiency(blocks, gpu.sms)
        efficient = tile_efficiency(m, n, rows, columns) * k / (steps * tiles.step)
        padded = flops / efficient
        longest = max(_NAMES, key=lambda key: parts[key])
        added = sum(parts[key] for key in ("launch", "latency", "rounds", "reduction"))
        bottleneck = "launch and latency" if added > parts[longest] else _NAMES[longest]
    dram_bytes, l2_bytes = float(times.dram_bytes[i]), float(times.l2_bytes[i])
    low, high = mode.interval or (None, None)
    costs = padded, dram_bytes, time_us, l2_bytes
    power_w = board_power_w(gpu, number_format, mode.constants, *costs)
    clock_hz = gpu.boost_hz if power_w < gpu.tdp_w else sustained_hz(gpu, number_format, mode.constants, costs)
    longer = gpu.clock_hz(number_format) / clock_hz
    return Kernel(
        name=name,
        gpu=gpu.name,
        number_format=number_format,
        mode=mode.text,
        m=m,
        n=n,
        k=k,
        batch=batch,
        tile=shape,
        schedule=schedule,
        split=split,
        blocks=blocks,
        occupancy=occupancy,
        waves=waves,
        tile_efficiency=efficient,
        wave_efficiency=even,
        parts_us=parts,
        bottleneck=bottleneck,
        flops=flops,
        l2_bytes=l2_bytes,
        least_bytes=(operands * BYTES[number_format] + results * result_bytes(number_format)) * batch,
        tilings=int(np.isfinite(times.by_tiling_us[i]).sum()) + (min(m, n) == 1),
        others=_others(times, tiles, i, tile),
        time_us=time_us,
        low_us=None if low is None else time_us * low,
        high_us=None if high is None else time_us * high,
        dram_bytes=dram_bytes,
        power_w=power_w,
        tensor_cores=number_format in gpu.mma,
        sustained_hz=clock_hz if longer > 1 else None,
        sustained_us=time_us * longer if longer > 1 else None,
    )


def _others(times: Times, tiles: TileSet, i: int, chosen: int) -> tuple[tuple[str, float], ...]:
    """Next best tilings, the best split of each tile."""
    fixed = float(times.parts["launch"][i] + times.parts["latency"][i])
    best = times.by_tiling_us[i].min(axis=1)
    order = [t for t in np.argsort(best, kind="stable").tolist() if t != chosen and best[t] < np.inf][:4]
    found = []
    for t in order:
        split = SPLITS[int(times.by_tiling_us[i, t].argmin())]
        found.append((tiles.name(t) + (f" / {split}" if split > 1 else ""), float(best[t]) + fixed))
    return tuple(found)


def operator(name: str) -> tuple[int, int]:
    """Words and operations of an operator (`operators` of `tables.yaml`); raises AccelsimError if it is none."""
    known = table_of("operators")
    if name not in known:
        raise AccelsimError(f"no operator '{name}'; {near_miss(name, known) or f'operators: {listed(known)}'}")
    words, operations = known[name]
    return words, operations


def time_operators(gpu: Gpu, name: str, elements: Floats, word_bytes: float, constants: KernelConstants) -> Floats:
    """Time [us] of an operator over so many elements of its input, float[P], from cold memory.

    Launch and latency, and the longer of its DRAM traffic and its operations on the FP32 units. Turning a tensor
    between NCHW and NHWC takes as long as `relu`. Raises AccelsimError if there is no such operator.
    """
    words, operations = operator(name)
    dram = elements * words * word_bytes / (gpu.dram_bytes_per_s * 1e-6 * constants.dram_efficiency)
    computed = elements * operations / (gpu.flops("fp32") * 0.5e-6)
    return constants.launch_us + constants.latency_us + np.maximum(dram, computed)
