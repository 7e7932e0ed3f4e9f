"""The best kernel of a layer on a GPU: its tiling, its time and what that is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accelsim.gpu import ROTATING
from accelsim.gpu.calibration import Mode
from accelsim.gpu.constants import board_power_w
from accelsim.gpu.gemm import Gemms, Times, result_bytes, time_gemms
from accelsim.gpu.machine import BYTES, Gpu
from accelsim.gpu.tiling import SPLITS, TileSet, tile_set

LONGEST = ("tensor", "stream", "l2", "dram")
"""Resources of which the busiest is the bottleneck: multiply-adds, an SM's loads, L2, DRAM."""
_NAMES = {"tensor": "math", "stream": "loads of an SM", "l2": "L2 bandwidth", "dram": "DRAM bandwidth"}


@dataclass(frozen=True, slots=True)
class Kernel:
    """A product on a GPU with its fastest tiling.

    Attributes
    ----------
    tile : str
        Output tile of a block, such as 128x256, or `gemv`.
    schedule : str
        `data-parallel` or `split-K`; empty for `gemv`.
    split : int
        Parts of K.
    blocks, occupancy : int
        Blocks of the grid; blocks at once on an SM.
    waves : float
        Blocks over those that run at once.
    tile_efficiency, wave_efficiency : float
        Share of the tiles' products that are wanted; average over the largest number of blocks of an SM.
    parts_us : dict of str to float
        Time of each resource, and what is added.
    time_us, low_us, high_us : float
        Predicted, and the interval that four fifths of kernels are expected in.
    flops, dram_bytes, l2_bytes, least_bytes : float
        Wanted operations; traffic; and bytes of all tensors, each once.
    energy_j, power_w : float
        Of one run, and of the board while it repeats.
    tilings : int
        How many were compared: the whole space.
    others : tuple of (str, float)
        The next best tilings, each of another tile, and their times [us].
    algorithm : str
        `GEMM`, an implicit one for convolutions; or Winograd's, whose products these sizes and tiles are of.
    """

    name: str
    gpu: str
    number_format: str
    mode: str
    m: int
    n: int
    k: int
    batch: int
    tile: str
    schedule: str
    split: int
    blocks: int
    occupancy: int
    waves: float
    tile_efficiency: float
    wave_efficiency: float
    parts_us: Mapping[str, float]
    bottleneck: str
    time_us: float
    low_us: float
    high_us: float
    flops: float
    dram_bytes: float
    l2_bytes: float
    least_bytes: float
    energy_j: float
    power_w: float
    tilings: int
    others: tuple[tuple[str, float], ...] = ()
    algorithm: str = "GEMM"

    @property
    def tflops(self) -> float:
        """Operations that are wanted, over the time [TFLOPS]."""
        return self.flops / self.time_us * 1e-6


def wave_efficiency(blocks: int, slots: int) -> float:
    """Share of the slots that work, on average over the waves of a grid.

    Examples
    --------
    NVIDIA's guide: 12 blocks on a GPU of 8 SMs, one block on each at a time, use 75 % of it.

    >>> wave_efficiency(12, 8)
    0.75
    """
    return blocks / (slots * -(-blocks // slots))


def tile_efficiency(m: int, n: int, rows: int, columns: int) -> float:
    """Share of the tiles' area that is wanted.

    Examples
    --------
    NVIDIA's guide: a matrix of 27 x 32 tiles of 128 x 128 with one row more has 28 x 32 tiles.

    >>> round(tile_efficiency(27 * 128 + 1, 32 * 128, 128, 128), 3)
    0.965
    """
    return m * n / (-(-m // rows) * rows * -(-n // columns) * columns)


def best_kernels(
    gpu: Gpu,
    names: Sequence[str],
    gemms: Gemms,
    number_format: str,
    mode: Mode,
    *,
    l2: str = ROTATING,
) -> list[Kernel]:
    """Choose the fastest tiling and schedule of each product out of all of them.

    Parameters
    ----------
    names : sequence of str
        One for each product.
    mode : Mode
        Constants, calibrated or not.
    l2 : str
        What L2 holds at the start, one of `L2_STATES`.

    Examples
    --------
    >>> from accelsim.gpu.calibration import mode_of
    >>> from accelsim.gpu.catalogue import load_gpu
    >>> a100 = load_gpu("a100")
    >>> (kernel,) = best_kernels(a100, ["cube"], Gemms.of(4096, 4096, 4096), "fp16", mode_of(a100, "fp16"))
    >>> kernel.tile, kernel.bottleneck, 200 < kernel.tflops < 290
    ('128x256', 'math', True)
    """
    times = time_gemms(gpu, gemms, number_format, mode.constants, l2=l2)
    tiles = tile_set(gpu, number_format, mode.constants.in_flight_bytes)
    return [_kernel(gpu, name, gemms, number_format, mode, times, tiles, i) for i, name in enumerate(names)]


def _kernel(
    gpu: Gpu,
    name: str,
    gemms: Gemms,
    number_format: str,
    mode: Mode,
    times: Times,
    tiles: TileSet,
    i: int,
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
        longest = max(LONGEST, key=lambda key: parts[key])
        added = sum(parts[key] for key in ("launch", "latency", "rounds", "reduction"))
        bottleneck = "launch and latency" if added > parts[longest] else _NAMES[longest]
    power = float(
        board_power_w(gpu, number_format, mode.constants, np.array(padded), times.dram_bytes[i], np.array(time_us)),
    )
    low, high = mode.interval
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
        time_us=time_us,
        low_us=time_us * low,
        high_us=time_us * high,
        flops=flops,
        dram_bytes=float(times.dram_bytes[i]),
        l2_bytes=float(times.l2_bytes[i]),
        least_bytes=(operands * BYTES[number_format] + results * result_bytes(number_format)) * batch,
        energy_j=power * time_us * 1e-6,
        power_w=power,
        tilings=int(np.isfinite(times.by_tiling_us[i]).sum()) + (min(m, n) == 1),
        others=_others(times, tiles, mode, i, tile),
    )


def _others(times: Times, tiles: TileSet, mode: Mode, i: int, chosen: int) -> tuple[tuple[str, float], ...]:
    """Next best tilings, the best split of each tile."""
    fixed = float(times.parts["launch"][i] + times.parts["latency"][i])
    best = times.by_tiling_us[i].min(axis=1)
    order = [t for t in np.argsort(best, kind="stable").tolist() if t != chosen and best[t] < np.inf][:4]
    found = []
    for t in order:
        split = SPLITS[int(times.by_tiling_us[i, t].argmin())]
        found.append((tiles.name(t) + (f" / {split}" if split > 1 else ""), float(best[t]) + fixed))
    return tuple(found)
