"""Schedules of a kernel's work over SMs: counts against an oracle that hands out iterations one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.cli import main as cli
from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import load_gpu
from accelsim.gpu.gemm import Gemms, time_gemms
from accelsim.gpu.kernel import best_kernels
from accelsim.gpu.tiling import LEAST_ITERATIONS, SCHEDULES, SPLITS, stream_k, work_of


def handed_out(tiles: int, each: int, sms: int) -> tuple[int, int, int, int, int]:
    """Hand out every iteration: whole tiles in turn, then the rest in equal runs, as many as SMs at most.

    Returns whole tiles of an SM, units, iterations of the longest unit, units that begin inside a tile, and the most
    units of one tile.
    """
    left = list(range(tiles))
    whole = 0
    while len(left) >= 2 * sms:
        left = left[sms:]
        whole += 1
    queue = [(tile, step) for tile in left for step in range(each)]
    run = LEAST_ITERATIONS
    while run * sms < len(queue):
        run += 1
    units = []
    while queue:
        units.append(queue[:run])
        queue = queue[run:]
    owners: dict[int, set[int]] = {}
    for i, unit in enumerate(units):
        for tile, _ in unit:
            owners.setdefault(tile, set()).add(i)
    inside = sum(1 for unit in units if unit[0][1] > 0)
    return whole, len(units), max(map(len, units)), inside, max(map(len, owners.values()))


@given(st.integers(1, 60), st.integers(1, 40), st.integers(1, 12))
def test_stream_k__counts_what_an_oracle_hands_out(tiles, each, sms):
    whole, units, iterations, inside, most = handed_out(tiles, each, sms)
    work = stream_k(tiles, each, sms)
    assert (work.whole_tiles, work.units, work.iterations, work.fixups) == (whole, units, iterations, inside)
    assert most <= work.peers
    if (tiles - whole * sms) * math.gcd(iterations, each) >= iterations:  # tiles begin at every place of a unit
        assert most == work.peers


@given(st.integers(1, 2000), st.integers(1, 200))
def test_stream_k__no_sm_has_more_than_with_whole_tiles_and_none_less_than_its_share(tiles, each):
    work = stream_k(tiles, each, 108)
    of_sm = float(work.whole_tiles * each + work.iterations)
    least = tiles * each / 108
    assert least <= of_sm < least + max(LEAST_ITERATIONS, 1)
    assert of_sm <= max(math.ceil(tiles / 108) * each, LEAST_ITERATIONS)


def test_work_of__splits_and_stream_k_side_by_side():
    """120 tiles of 64 steps on 108 SMs: 2 rounds, or 3 rounds of halves, or 120 x 64 / 108 = 72 steps."""
    blocks, steps = np.full((1, 1, 1), 120.0), np.full((1, 1, 1), 64.0)
    work = work_of(blocks, steps, np.array([1.0, 2.0, 0.0]), 108, np.ones((1, 1, 1)))
    assert work.steps.ravel().tolist() == [128.0, 96.0, 72.0]
    assert work.possible.all()
    even = work_of(blocks * 9, steps, np.array([1.0, 0.0]), 108, np.ones((1, 1, 1)))
    assert even.possible.ravel().tolist() == [True, False]


def test_time_gemms__stream_k_wins_where_a_wave_is_nearly_empty():
    """513 x 6144 x 5120 on an A100: the last wave of 128 x 256 tiles has 12 of 108."""
    gpu = load_gpu("a100")
    mode = mode_of(gpu, "bf16")
    gemms = Gemms.of([513, 4096, 64], [6144, 6912, 64], [5120, 4096, 64])
    plain, with_it = (best_kernels(gpu, ["a", "b", "c"], gemms, "bf16", mode, stream_k=on) for on in (False, True))
    assert with_it[0].schedule == "Stream-K"
    assert with_it[0].time_us < 0.9 * plain[0].time_us
    assert with_it[0].wave_efficiency > 0.95
    assert [kernel.schedule for kernel in with_it[1:]] == ["data-parallel", "data-parallel"]
    assert [kernel.time_us for kernel in with_it[1:]] == [kernel.time_us for kernel in plain[1:]]


@pytest.mark.parametrize("name", ["a100", "b200"])
def test_time_gemms__one_schedule_more_is_never_slower(name):
    gpu = load_gpu(name)
    constants = mode_of(gpu, "fp16").constants
    rng = np.random.default_rng(5)
    gemms = Gemms.of(*(rng.integers(1, 5000, 60) for _ in range(3)))
    plain, more = (time_gemms(gpu, gemms, "fp16", constants, splits=s) for s in (SPLITS, SCHEDULES))
    assert (more.time_us <= plain.time_us).all()
    assert (more.time_us < plain.time_us).any()
    alone = time_gemms(gpu, gemms, "fp16", constants, splits=SCHEDULES[-1:])
    both = np.minimum(plain.time_us, alone.time_us)
    assert more.time_us == pytest.approx(both, rel=1e-12)


def test_map_command__names_the_schedule(tmp_path, capsys):
    path = tmp_path / "gemm.yaml"
    path.write_text(
        "workload:\n  name: wide\n  gemm: {M: 513, N: 6144, K: 5120}\n  bits: {Weights: 16, Inputs: 16, Outputs: 16}\n"
    )
    assert cli.main(["map", "a100", str(path), "--stream-k"]) == 0
    out = capsys.readouterr().out
    assert "Stream-K: 108 work units, 2 at most share a tile" in out
    assert "partial sums are added up" in out
