"""Time of matrix products on a GPU, of every tiling that is tried, and the fastest.

Arrays: P = products, T = tiles, S = splits of K; a term that does not depend on an axis has length 1 there. Times are
in us, data in bytes. Counts are whole numbers held in doubles, exact below 2**53; sizes are checked against that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelsim.gpu import L2_STATES, LAYOUTS, LIBRARIES, ROTATING
from accelsim.gpu.catalogue import BYTES, Gpu
from accelsim.gpu.constants import (
    ONE_ROUND,
    SM_BYTES,
    SPLITS,
    Floats,
    KernelConstants,
    TileSet,
    clock_under_power_limit,
    evicted,
    sparse_share,
    tile_set,
    work_of,
)
from accelsim.inputs.errors import AccelsimError

LARGEST = 2**26
"""Largest size of a dimension."""
_CHUNK = 32
_FULL_VECTOR = 16
"""Bytes of the widest load of a thread; a row whose start is aligned to fewer is filled in more, narrower loads."""
_MERGED_STORES = 4.0
"""Most that narrow stores of results cost, as neighbours' merge in L2: 1024 x 2145 x 1024 takes 1.9 times as long as
1024^3 on an A100 and 1.4 times on an H100 in FP8 (Azure AI benchmarking guide)."""
_GEMV_SLICE = 4096


@dataclass(frozen=True, slots=True)
class Gemms:
    """Products Outputs[M, N] = Inputs[M, K] x Weights[K, N], some of them batches of equal ones; arrays over P.

    `unique` is the share of the inputs' M x K words that are different ones: below 1 for a convolution, whose windows
    overlap.
    """

    m: Floats
    n: Floats
    k: Floats
    batch: Floats
    unique: Floats

    @classmethod
    def of(cls, m: Any, n: Any, k: Any, batch: Any = 1, unique: Any = 1) -> Gemms:
        """Products of sizes that are numbers or sequences.

        Raises AccelsimError if a size is not a whole number from 1 to `LARGEST`.

        >>> Gemms.of([512, 1], 1024, 4096).flops.tolist()
        [4294967296.0, 8388608.0]
        """
        sizes = (np.atleast_1d(np.asarray(x, dtype=np.float64)) for x in (m, n, k, batch, unique))
        arrays = np.broadcast_arrays(*sizes)
        for name, values in zip(("M", "N", "K", "batch"), arrays, strict=False):
            bad = ~((values >= 1) & (values <= LARGEST) & (values == np.floor(values)))
            if bad.any():
                raise AccelsimError(f"{name} must be a whole number from 1 to {LARGEST}, got {values[bad][0]:g}")
        return cls(*(np.ascontiguousarray(values) for values in arrays))

    def __len__(self) -> int:
        return len(self.m)

    @property
    def flops(self) -> Floats:
        """Two operations for each multiply-add."""
        return 2 * self.m * self.n * self.k * self.batch

    def rows(self, which: slice | NDArray[np.bool_]) -> Gemms:
        """Some of the products."""
        return Gemms(*(values[which] for values in self.columns))

    @property
    def columns(self) -> tuple[Floats, ...]:
        """M, N, K, batch and unique."""
        return self.m, self.n, self.k, self.batch, self.unique


@dataclass(frozen=True, slots=True)
class Setup:
    """How products are computed: beside their sizes, what decides which kernels there are and how long they take."""

    l2: str = ROTATING  # what L2 holds at the start, one of `L2_STATES`
    layout: str = LAYOUTS[0]  # one of `LAYOUTS`: of which dimension the alignment of each operand's rows depends
    library: str = LIBRARIES[0]  # one of `LIBRARIES`; `kernel.machines_of` says which units it uses
    tile: str = ""  # try this one alone, such as 256x128, with K in one part

    def __post_init__(self) -> None:
        for name, known in (("l2", L2_STATES), ("layout", LAYOUTS), ("library", LIBRARIES)):
            value = getattr(self, name)
            if value not in known:
                raise AccelsimError(f"{name} must be one of {', '.join(known)}, got '{value}'")


USUAL = Setup()


@dataclass(frozen=True, slots=True)
class Times:
    """What the fastest tiling of each product takes; arrays over P.

    `tile` and `split` are places in the tile set and in `SPLITS`, -1 for a matrix-vector kernel, which has no tile.
    `parts` are times of `tensor`, `stream` (an SM's loads), `l2`, `dram`; and what is added: `launch`, `latency`,
    `rounds`, `reduction`, `store`. `by_tiling_us`, float[P, T, S], is infinite where K has fewer steps than parts or
    the library does not choose the tiling.
    """

    time_us: Floats
    tile: NDArray[np.int64]
    split: NDArray[np.int64]
    parts: dict[str, Floats]
    dram_bytes: Floats
    l2_bytes: Floats
    by_tiling_us: Floats


def result_bytes(number_format: str) -> float:
    """Width of a result [B]: that of an operand, at least 16 bits (16-bit results of 8-bit products)."""
    return max(BYTES[number_format], 2.0)


def time_gemms(
    gpu: Gpu,
    gemms: Gemms,
    number_format: str,
    constants: KernelConstants,
    setup: Setup = USUAL,
    *,
    splits: Sequence[int] = SPLITS,
    sparse: bool = False,
) -> Times:
    """Time each product with every tile and split, and choose the fastest.

    `splits` are parts into which K may be split, out of `SPLITS`. `sparse`: the weights are 2:4 sparse, which is half
    the multiply-adds and `sparse_share` of their bytes. Raises AccelsimError if the GPU does not compute in the format
    of the operands, or not in sparse, or has no such tile.
    """
    tiles = tile_set(gpu, number_format, constants.in_flight_bytes, sparse)
    if setup.tile:
        tiles, splits = tiles.only(setup.tile), SPLITS[:1]
    kept = sparse_share(number_format) if sparse else 1.0
    model = _TimeModel(gpu, tiles, number_format, constants, setup, np.array(splits, np.float64), kept)
    found = [model.best(gemms.rows(slice(at, at + _CHUNK))) for at in range(0, len(gemms), _CHUNK)]
    parts = {name: np.concatenate([times.parts[name] for times in found]) for name in found[0].parts}
    own = [name for name in Times.__slots__ if name != "parts"]
    return Times(parts=parts, **{name: np.concatenate([getattr(times, name) for times in found]) for name in own})


@dataclass(frozen=True, slots=True)
class _Traffic:
    """Bytes of each tile [P, T, 1] or product [P, 1, 1]; `compulsory` are those of a matrix-vector kernel.

    `cold` is the share of the weights that L2 does not hold at the start.
    """

    dram: Floats
    l2: Floats
    compulsory: Floats
    operands: Floats
    results: Floats
    cold: Floats


@dataclass(frozen=True, slots=True)
class _TimeModel:
    gpu: Gpu
    tiles: TileSet
    number_format: str
    constants: KernelConstants
    setup: Setup
    splits: Floats
    kept: float

    def best(self, gemms: Gemms) -> Times:
        """Fastest tiling of each product.

        An SM alternates between main loops and the ends of rounds, where results leave and the next blocks start; the
        end of the last round is `ends - behind`. L2 and DRAM serve other SMs meanwhile. Where tensor memory has room
        for two tiles' sums, results leave while the next round is computed.
        """
        c, gpu, tiles = self.constants, self.gpu, self.tiles
        sizes = [values[:, None, None] for values in gemms.columns]
        m, n, k, batch, _ = sizes
        rows, columns = tiles.rows[None, :, None], tiles.columns[None, :, None]
        across, down = np.ceil(m / rows), np.ceil(n / columns)
        steps = np.ceil(k / tiles.step)
        work = work_of(across * down * batch, steps, self.splits, gpu.sms, tiles.occupancy[None, :, None])

        tensor = (self._cycles(m, n, k) * (tiles.step * 1e6 / gpu.boost_hz)) * work.steps
        moved = np.minimum(rows, m) * tiles.row_share[None, :, None]
        moved = moved + np.minimum(columns, n) * tiles.column_share[None, :, None]
        step_bytes = moved * (tiles.step * BYTES[self.number_format])
        flying = np.minimum((tiles.stages * tiles.stage_bytes)[None, :, None] * work.at_once, c.in_flight_bytes)
        rate = np.minimum(flying * (1 / c.latency_us), SM_BYTES * gpu.boost_hz * 1e-6)
        stream = step_bytes * work.steps / rate

        traffic = self._traffic(sizes, across, down, step_bytes * steps)
        l2_rate = gpu.l2_bytes_per_s * 1e-6
        l2_time = traffic.l2 * (c.l2_loads / l2_rate)
        dram_rate = gpu.dram_bytes_per_s * 1e-6 * c.dram_efficiency
        dram_time = traffic.dram / dram_rate
        shared = np.maximum(l2_time, dram_time)

        word_us = 8 / l2_rate * c.reduction_traffic  # the partial sums of split-K are added up in a second phase
        reduction = np.where(self.splits > 1, c.reduction_us + m * n * batch * word_us * self.splits, 0.0)
        narrow = np.minimum(_narrowness(n * result_bytes(self.number_format)), _MERGED_STORES)
        store = traffic.results / (l2_rate * c.store_efficiency) * np.where(self.splits > 1, narrow - 1, narrow)
        ends = c.round_us * work.rounds + store
        behind = (store if tiles.tensor_memory else ends) * (1 - 1 / work.rounds)
        loops = np.maximum(tensor, stream)
        longest = np.maximum(np.maximum(loops, behind) if tiles.tensor_memory else loops + behind, shared)
        hidden = tensor + stream + (l2_time + dram_time) + behind - longest
        total = longest + c.overlap * hidden + (ends - behind) + reduction
        slow = clock_under_power_limit(gpu, self.number_format, c)
        if slow < 1:
            total *= 1 + (1 / slow - 1) * tensor / (tensor + c.throttle_us)
        possible = work.possible
        if c.choice == ONE_ROUND:
            covered = np.where(batch > 1, rows * columns, np.minimum(rows, m) * np.minimum(columns, n))
            possible = possible & ((work.rounds <= 1) | (covered >= covered.max(axis=1, keepdims=True)))
        total = np.where(possible, total, np.inf)
        total = total.reshape(len(gemms), -1)
        choice = np.argmin(total, axis=1)
        latency = c.latency_us + c.cold_us * traffic.cold[:, 0, 0]
        least = total[np.arange(len(gemms)), choice] + (c.launch_us + latency)
        tile, split = np.divmod(choice, len(self.splits))

        moved_once = np.maximum(traffic.compulsory / dram_rate, (traffic.operands + traffic.results) / l2_rate)
        vector = c.launch_us + c.gemv_us + np.ceil(k / _GEMV_SLICE) * c.gemv_slice_us + moved_once
        vector = np.where(np.minimum(m, n) == 1, vector, np.inf)[:, 0, 0] + latency
        is_vector = vector < least
        at = (np.arange(len(gemms)), tile, split)
        shape = (len(gemms), len(tiles.rows), len(self.splits))

        def chosen(values: Floats) -> Floats:
            return np.where(is_vector, 0.0, np.broadcast_to(values, shape)[at])

        parts = {
            "tensor": chosen(tensor),
            "stream": chosen(stream),
            "l2": chosen(l2_time),
            "dram": chosen(dram_time),
            "launch": np.full(len(gemms), c.launch_us),
            "latency": latency,
            "rounds": chosen(c.round_us * work.rounds),
            "reduction": chosen(reduction),
            "store": chosen(store),
        }
        return Times(
            np.where(is_vector, vector, least),
            np.where(is_vector, -1, tile),
            np.where(is_vector, -1, split),
            parts,
            np.where(is_vector, traffic.compulsory[:, 0, 0], np.broadcast_to(traffic.dram, shape)[at]),
            np.where(is_vector, (traffic.operands + traffic.results)[:, 0, 0], np.broadcast_to(traffic.l2, shape)[at]),
            total.reshape(shape),
        )

    def _cycles(self, m: Floats, n: Floats, k: Floats) -> Floats:
        """Cycles of an SM for one element of K, of multiply-adds and shared memory together [P or 1, T, 1]."""
        tiles, c, width = self.tiles, self.constants, BYTES[self.number_format]
        weights, inputs = self.setup.layout[0], self.setup.layout[1]
        fill = tiles.row_fill_cycles[None, :, None] * _narrowness((k if inputs == "n" else m) * width)
        fill = fill + tiles.column_fill_cycles[None, :, None] * _narrowness((k if weights == "t" else n) * width)
        smem = c.smem_cost * (tiles.smem_cycles[None, :, None] + fill)
        tensor = tiles.tensor_cycles[None, :, None] * (1 / c.tensor_efficiency)
        return (tensor**4 + smem**4) ** 0.25

    def _traffic(self, sizes: Sequence[Floats], across: Floats, down: Floats, block_bytes: Floats) -> _Traffic:
        """Bytes through L2 and DRAM.

        A wave of blocks covers a near-square part of the output; its operands pass DRAM once. The next wave finds in L2
        what `l2_share` of it can keep. What an earlier kernel left there is `l2`.
        """
        gpu, tiles, c = self.gpu, self.tiles, self.constants
        m, n, k, batch, unique = sizes
        width = BYTES[self.number_format]
        rows, columns = tiles.rows[None, :, None], tiles.columns[None, :, None]
        inputs, weights = m * k * batch * width * unique, k * n * batch * (width * self.kept)
        results = m * n * batch * result_bytes(self.number_format)
        operands = inputs + weights
        if self.setup.l2 == "cold":
            cold_inputs = cold_weights = np.ones_like(m)
        else:
            since = operands + results
            copies = c.weight_copies if self.setup.l2 == ROTATING else 1.0
            room = gpu.l2_bytes * c.residency
            cold_inputs = evicted(since, room, c.residency_sharpness)
            cold_weights = evicted(inputs + results + copies * weights, room, c.residency_sharpness)
        once = inputs * cold_inputs + weights * cold_weights + results * cold_inputs
        outputs = across * down
        wave = np.minimum(gpu.sms * tiles.occupancy[None, :, None], outputs)
        high = np.minimum(np.ceil(np.sqrt(wave * (columns / rows))), across)
        wide = np.minimum(np.ceil(wave / high), down)
        high = np.minimum(np.ceil(wave / wide), across)
        footprint = (np.minimum(high * rows, m) * unique + np.minimum(wide * columns, n) * self.kept) * (
            k * width * batch
        )
        missing = np.maximum(1 - c.l2_share * gpu.l2_bytes * batch / operands, 0)
        again = missing * np.maximum(footprint * (outputs / (high * wide)) - operands, 0)
        return _Traffic(once + again, block_bytes * (outputs * batch), once, operands, results, cold_weights)


def _narrowness(row_bytes: Floats) -> Floats:
    """How many times more loads a row needs because it does not start at a multiple of 16 B; [1, 1, 1] if none does."""
    misaligned = np.fmod(row_bytes, _FULL_VECTOR)
    if not misaligned.any():
        return np.ones((1, 1, 1))
    aligned = np.array([math.gcd(int(2 * row), 2 * _FULL_VECTOR) / 2 for row in row_bytes.ravel()])
    return (_FULL_VECTOR / aligned).reshape(row_bytes.shape)
