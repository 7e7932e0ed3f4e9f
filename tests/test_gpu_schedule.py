"""Schedules of a kernel's work over SMs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.cli import main as cli
from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import load_gpu
from accelsim.gpu.constants import SPLITS, work_of
from accelsim.gpu.gemms import Gemms, time_gemms


@given(st.integers(1, 60), st.integers(1, 40), st.integers(1, 12), st.sampled_from(SPLITS))
def test_work_of__counts_what_an_oracle_hands_out(tiles, each, sms, split):
    """Blocks go to the SMs in turn; the busiest one computes its parts of K one after the other."""
    per_sm = [0] * sms
    for block in range(tiles * split):
        per_sm[block % sms] += 1
    most = max(per_sm)
    part = next(count for count in range(1, each + 1) if count * split >= each)
    work = work_of(
        np.full((1, 1, 1), float(tiles)),
        np.full((1, 1, 1), float(each)),
        np.array([float(split)]),
        sms,
        np.full((1, 1, 1), 2.0),
    )
    assert (work.rounds.item(), work.steps.item(), work.at_once.item()) == (most, most * part, min(most, 2))
    assert work.possible.item() == (split <= each)


def test_work_of__whole_tiles_and_halves_side_by_side():
    """120 tiles of 64 steps on 108 SMs: 2 rounds, or 3 rounds of halves."""
    blocks, steps = np.full((1, 1, 1), 120.0), np.full((1, 1, 1), 64.0)
    work = work_of(blocks, steps, np.array([1.0, 2.0]), 108, np.ones((1, 1, 1)))
    assert work.steps.ravel().tolist() == [128.0, 96.0]
    assert work.possible.all()


@pytest.mark.parametrize("name", ["a100", "b200"])
def test_time_gemms__more_schedules_are_never_slower(name):
    gpu = load_gpu(name)
    constants = mode_of(gpu, "fp16").constants
    rng = np.random.default_rng(5)
    gemms = Gemms.of(*(rng.integers(1, 5000, 60) for _ in range(3)))
    whole, split, both = (time_gemms(gpu, gemms, "fp16", constants, splits=s) for s in (SPLITS[:1], SPLITS[1:], SPLITS))
    assert (both.time_us < whole.time_us).any()
    assert both.time_us == pytest.approx(np.minimum(whole.time_us, split.time_us), rel=1e-12)


def test_map_command__names_the_schedule(tmp_path, capsys):
    path = tmp_path / "gemm.yaml"
    path.write_text(
        "workload:\n  name: deep\n  gemm: {M: 64, N: 64, K: 16384}\n  bits: {Weights: 16, Inputs: 16, Outputs: 16}\n"
    )
    assert cli.main(["map", "a100", str(path)]) == 0
    out = capsys.readouterr().out
    assert "tile 32x64, K in 32 parts: 64 blocks" in out
    assert "partial sums are added up" in out
