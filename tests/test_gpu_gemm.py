"""The kernel model: laws, counts against a walk over blocks, and errors against public measurements."""

from __future__ import annotations

import math

import numpy as np
import pytest

from accelsim.gpu import LAYOUTS
from accelsim.gpu.catalogue import BYTES, load_gpu
from accelsim.gpu.constants import CHOICES, SPLITS, common_constants, compute_class, sparse_gain, sparse_share, tile_set
from accelsim.gpu.gemms import Gemms, Setup, time_gemms
from accelsim.inputs.errors import AccelsimError

GPUS = ("a100", "h100", "b200", "v100_pcie")
RNG = np.random.default_rng(7)
GEMMS = Gemms.of(*(2 ** RNG.integers(0, 13, 60) + RNG.integers(0, 3, 60) for _ in range(3)))


def times(name: str, gemms: Gemms, number_format: str = "fp16", **changed):
    gpu = load_gpu(name)
    constants = common_constants(compute_class(gpu, number_format))
    l2 = changed.pop("l2", "rotating")
    return time_gemms(gpu, gemms, number_format, constants.with_values(changed), Setup(l2))


@pytest.mark.parametrize("name", GPUS)
def test_time_gemms__no_product_beats_the_roofline(name):
    gpu = load_gpu(name)
    found = times(name, GEMMS, l2="cold")
    least_bytes = (GEMMS.m * GEMMS.k + GEMMS.k * GEMMS.n + GEMMS.m * GEMMS.n) * 2
    floor = np.maximum(
        GEMMS.flops / (gpu.sms * gpu.boost_hz * gpu.operations("fp16")), least_bytes / gpu.dram_bytes_per_s
    )
    assert (found.time_us > 1e6 * floor).all()
    assert (found.dram_bytes >= least_bytes * (1 - 1e-12)).all()


@pytest.mark.parametrize("name", GPUS)
def test_time_gemms__the_fastest_of_all_tilings_one_by_one(name):
    """The vectorised choice equals the best of each split alone, and no product depends on its neighbours."""
    gpu = load_gpu(name)
    constants = common_constants(compute_class(gpu, "fp16"))
    together = times(name, GEMMS).time_us
    alone = [times(name, GEMMS.rows(slice(i, i + 1))).time_us[0] for i in range(len(GEMMS))]
    assert together.tolist() == alone
    by_split = np.stack([time_gemms(gpu, GEMMS, "fp16", constants, splits=(s,)).time_us for s in SPLITS])
    assert together == pytest.approx(by_split.min(axis=0), rel=1e-12)


def test_split_k__adds_up_sums_of_4_bytes_that_each_part_wrote():
    """64 x 64 sums of each part of K pass L2 twice; the time of this beside what a second phase takes anyway."""
    gpu, constants = load_gpu("a100"), common_constants(compute_class(load_gpu("a100"), "fp16"))
    found = times("a100", Gemms.of(64, 64, 2**17))
    parts = SPLITS[int(found.split[0])]
    assert parts > 2
    moved_us = parts * 64 * 64 * (4 + 4) / gpu.l2_bytes_per_s * 1e6
    assert found.parts["reduction"][0] == pytest.approx(constants.reduction_us + constants.reduction_traffic * moved_us)


def walked_blocks(m: int, n: int, k: int, rows: int, columns: int, step: int, split: int) -> tuple[int, int]:
    """Blocks and steps of the main loop of one, counted one by one."""
    blocks = sum(1 for _ in range(0, m, rows) for _ in range(0, n, columns) for _ in range(split))
    steps = sum(1 for _ in range(0, k, step))
    return blocks, math.ceil(steps / split)


@pytest.mark.parametrize(("m", "n", "k"), [(257, 1000, 4096), (64, 64, 64), (4096, 3000, 77), (1000, 129, 10000)])
def test_time_gemms__tensor_time_is_that_of_the_walked_blocks(m, n, k):
    """With no overlap or shared memory, tensor time is blocks of the busiest SM x steps x cycles of a step."""
    gpu = load_gpu("a100")
    constants = common_constants("mma").with_values({"smem_cost": 0.0})
    tiles = tile_set(gpu, "fp16", constants.in_flight_bytes)
    found = time_gemms(gpu, Gemms.of(m, n, k), "fp16", constants)
    tile, split = int(found.tile[0]), SPLITS[int(found.split[0])]
    rows, columns = int(tiles.rows[tile]), int(tiles.columns[tile])
    blocks, steps = walked_blocks(m, n, k, rows, columns, int(tiles.step), split)
    cycles = math.ceil(blocks / 108) * steps * tiles.step * 2 * rows * columns / 2048
    assert found.parts["tensor"][0] == pytest.approx(cycles / 1410, rel=1e-9)


def test_time_gemms__by_hand_of_a_cube_on_an_a100():
    """4096^3 in 128 x 256 tiles: 512 blocks on 108 SMs are 5 rounds at most, 64 steps of 64, 2048 operations a cycle.

    5 x 4096 x 2 x 128 x 256 / 2048 cycles at 1410 MHz are 464.8 us.
    """
    gpu = load_gpu("a100")
    constants = common_constants("mma").with_values({"smem_cost": 0.0})
    found = time_gemms(gpu, Gemms.of(4096, 4096, 4096), "fp16", constants, splits=(1,))
    tiles = tile_set(gpu, "fp16", constants.in_flight_bytes)
    assert tiles.name(int(found.tile[0])) in ("128x256", "256x128")
    assert found.parts["tensor"][0] == pytest.approx(464.8, abs=0.1)


def test_time_gemms__memory_hides_the_ends_of_all_rounds_but_the_last():
    """Between rounds an SM's tensor cores rest, not DRAM: a us more for a round costs 1 us, or one for each round.

    65536 x 8192 in 128 x 256 tiles are 16384 blocks, 152 rounds on 108 SMs. With K = 64 results bound an A100: 1.07 GB
    at 2.04 TB/s are 527 us, more than the 221 us of tensor cores and 2 us for each round; with K = 8192 no memory does.
    """
    constants = {"overlap": 0.0, "store_efficiency": 1e3, "smem_cost": 0.0, "pj_per_flop": 0.1, "dram_efficiency": 1.0}
    gpu, gemms = load_gpu("a100"), Gemms.of(65536, 8192, [64, 8192])

    def taken(round_us: float) -> np.ndarray:
        common = common_constants("mma").with_values({**constants, "round_us": round_us})
        tiles = tile_set(gpu, "fp16", common.in_flight_bytes)
        of_tile = (tiles.rows == 128) & (tiles.columns == 256)
        return time_gemms(gpu, gemms, "fp16", common, splits=(1,)).by_tiling_us[:, of_tile, 0][:, 0]

    assert taken(2.0) - taken(1.0) == pytest.approx([1.0, 152.0], rel=1e-6)


def test_time_gemms__results_leave_tensor_memory_while_the_next_round_is_computed():
    """4096 x 8192 in 128 x 256 tiles are 1024 blocks, 7 rounds on 148 SMs; a seventh of the stores is seen on a B200.

    67.1 MB of results; each rate of stores is that of L2.
    """
    gemms, plain = Gemms.of(4096, 8192, 8192), {"overlap": 0.0, "pj_per_flop": 0.01}

    def of_stores(name: str) -> float:
        gpu = load_gpu(name)
        tiles = tile_set(gpu, "fp16", common_constants("async").in_flight_bytes)
        of_tile = (tiles.rows == 128) & (tiles.columns == 256)
        both = [
            time_gemms(
                gpu,
                gemms,
                "fp16",
                common_constants("async").with_values({**plain, "store_efficiency": rate}),
                splits=(1,),
            ).by_tiling_us[0, of_tile, 0][0]
            for rate in (1.0, 1e9)
        ]
        return float(both[0] - both[1]) / (4096 * 8192 * 2 / gpu.l2_bytes_per_s * 1e6)

    assert of_stores("b200") == pytest.approx(1 / 7, rel=1e-6)
    assert of_stores("h100") == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("name", GPUS)
def test_time_gemms__is_never_faster_with_less(name):
    base = times(name, GEMMS).time_us
    assert (times(name, GEMMS, launch_us=5.0).time_us > base).all()
    assert (times(name, GEMMS, dram_efficiency=0.5).time_us >= base).all()
    assert (times(name, GEMMS, l2="cold").time_us >= times(name, GEMMS, l2="warm").time_us - 1e-9).all()
    assert (times(name, Gemms.of(GEMMS.m, GEMMS.n, GEMMS.k, 4)).time_us >= base - 1e-9).all()


def test_time_gemms__steps_where_a_tile_begins():
    """One row more needs another row of blocks: 128 -> 129 on an A100 takes longer, 127 -> 128 does not."""
    found = times("a100", Gemms.of([127, 128, 129], 27648, 4096)).time_us
    assert found[1] == pytest.approx(found[0], rel=0.01)
    assert found[2] > 1.1 * found[1]


def test_time_gemms__alignment_costs():
    aligned, odd = times("a100", Gemms.of(4096, 4096, [4096, 4097])).time_us
    assert odd > 1.3 * aligned


@pytest.mark.parametrize("m", [0, 1.5, -3, 2**27])
def test_gemms__refuse_bad_sizes(m):
    with pytest.raises(AccelsimError, match="M must be a whole number"):
        Gemms.of(m, 8, 8)


def test_time_gemms__refuses_a_format_that_the_gpu_lacks():
    with pytest.raises(AccelsimError, match="v100_pcie does not compute in 'bf16'"):
        times("v100_pcie", GEMMS, "bf16")


@pytest.mark.parametrize("name", ["t4", *GPUS])
def test_tile_set__fits_an_sm(name):
    gpu = load_gpu(name)
    for number_format in gpu.operations_per_sm_cycle:
        tiles = tile_set(gpu, number_format, 1e5)
        least = 2 * tiles.stage_bytes
        assert (tiles.stage_bytes * tiles.stages <= np.maximum(gpu.smem_per_block_bytes, least)).all()
        assert (tiles.occupancy >= 1).all()
        assert (tiles.tensor_cycles == 2 * tiles.rows * tiles.columns / gpu.operations(number_format)).all()
        assert tiles.step * BYTES[number_format] in (128, 32)


@pytest.mark.parametrize(
    ("name", "number_format"), [("a100", "fp16"), ("a100", "tf32"), ("h100", "fp8"), ("b200", "fp4")]
)
def test_time_gemms__sparse_weights_bring_at_most_the_gain_of_the_peak(name, number_format):
    gpu = load_gpu(name)
    constants = common_constants(compute_class(gpu, number_format))
    gemms = Gemms.of([4096, 1, 64, 8192], [4096, 8192, 64, 8192], [4096, 8192, 64, 8192])
    dense, sparse = (time_gemms(gpu, gemms, number_format, constants, Setup("cold"), sparse=on) for on in (False, True))
    gain = dense.time_us / sparse.time_us
    assert (gain >= 1).all()
    assert (gain <= sparse_gain(gpu, number_format) + 1e-9).all()
    assert gain[3] > 1.25  # math
    assert gain[2] < 1.1  # launch and latency
    weights = 8192 * 8192 * BYTES[number_format]
    saved = weights * (1 - sparse_share(number_format))
    assert dense.dram_bytes[1] - sparse.dram_bytes[1] == pytest.approx(saved, rel=0.02)


def test_time_gemms__refuses_sparse_weights_where_no_data_sheet_has_them():
    with pytest.raises(AccelsimError, match="v100_pcie has no 2:4 sparse peak in 'fp16'; formats that have one: none"):
        time_gemms(load_gpu("v100_pcie"), GEMMS, "fp16", common_constants("mma"), sparse=True)


def test_one_round__keeps_smaller_tiles_to_one_round_of_blocks():
    """On 108 SMs, 257 x 10240 are 3 x 40 = 120 blocks of 128 x 256, two rounds; 256 x 10240 are 80, one.

    An A100 takes 56.8 and 113.8 us for K = 2048 (aiconfigurator, SGLang). 64 x 256 would take two rounds of half the
    work. 257 x 5120 are 5 x 20 = 100 blocks of 64 x 256, one round.
    """
    gpu, gemms = load_gpu("a100"), Gemms.of([256, 257, 257, 1], [10240, 10240, 5120, 64], 2048)
    common = common_constants("mma")
    free, kept = (time_gemms(gpu, gemms, "bf16", common.with_values({}, choice), splits=(1,)) for choice in CHOICES)
    tiles = tile_set(gpu, "bf16", common_constants("mma").in_flight_bytes)
    assert [tiles.name(tile) for tile in kept.tile[:2]] == ["128x256", "128x256"]
    assert kept.time_us[1] / kept.time_us[0] > 1.7 > free.time_us[1] / free.time_us[0]
    assert (kept.time_us >= free.time_us).all()
    few = np.ceil(257 / tiles.rows) * np.ceil(5120 / tiles.columns) <= 108
    largest = tiles.rows * tiles.columns == 32768
    assert np.isfinite(kept.by_tiling_us[2, :, 0]).tolist() == (few | largest).tolist()


@pytest.mark.parametrize("sizes", [(1, 4096, 4096), (64, 1024, 8192), (4096, 4096, 4096)])
def test_time_gemms__adds_cold_us_where_l2_lacks_the_weights(sizes):
    """All of it in a cold L2, next to none where an L2 of 50 MB holds 2 MB, and the same tiling."""
    without, cold = (times("h100", Gemms.of(*sizes), l2="cold", cold_us=value) for value in (0.0, 2.0))
    assert cold.time_us - without.time_us == pytest.approx(2.0)
    assert cold.tile == without.tile
    assert cold.parts["latency"] == pytest.approx(without.parts["latency"] + 2.0)
    small = Gemms.of(256, 1024, 1024)
    without, warm = (times("h100", small, l2="warm", cold_us=value) for value in (0.0, 2.0))
    assert 0 < warm.time_us - without.time_us < 0.01


def test_gemms__have_two_operations_a_multiply_add_in_each_of_a_batch():
    assert Gemms.of([2, 3], 4, 5, batch=[1, 6]).flops.tolist() == [80.0, 720.0]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("odd", ["m", "n", "k"])
def test_layouts__alignment_matters_where_rows_are_contiguous(layout, odd):
    """Weights `t` are contiguous along K, `n` along N; inputs `n` along K, `t` along M; results along N."""
    gpu, sizes = load_gpu("a100"), {"m": 4096, "n": 4096, "k": 4096}
    contiguous = {"k" if layout[0] == "t" else "n", "m" if layout[1] == "t" else "k", "n"}
    even, narrow = (
        time_gemms(gpu, Gemms.of(**of), "fp16", common_constants("mma"), Setup(layout=layout)).time_us[0]
        for of in (sizes, sizes | {odd: 4095})
    )
    assert (narrow > 1.01 * even) == (odd in contiguous)


def test_layouts__both_operands_narrow_cost_more_than_one():
    gpu, gemms = load_gpu("a100"), Gemms.of(4096, 4096, 4095)
    nt, nn, tt, tn = (
        time_gemms(gpu, gemms, "fp16", common_constants("mma"), Setup(layout=layout)).time_us[0]
        for layout in ("nt", "nn", "tt", "tn")
    )
    assert nt < nn == tt < tn
    with pytest.raises(AccelsimError, match="layout must be one of tn, nn, nt, tt, got 'kn'"):
        Setup(layout="kn")


def test_tile__alone_is_that_of_all_tilings():
    gpu = load_gpu("h100")
    tiles, every = tile_set(gpu, "fp16", common_constants("async").in_flight_bytes), times("h100", GEMMS)
    for name in ("128x256", "64x8"):
        at = [tiles.name(index) for index in range(len(tiles.rows))].index(name)
        one = time_gemms(gpu, GEMMS, "fp16", common_constants("async"), Setup(tile=name))
        assert one.by_tiling_us[:, 0, 0].tolist() == every.by_tiling_us[:, at, 0].tolist()
    with pytest.raises(AccelsimError, match="no tile '512x512'; tiles: "):
        time_gemms(gpu, GEMMS, "fp16", common_constants("async"), Setup(tile="512x512"))
