"""Sweeps from Python: keys beside a sweep file, entries of workloads, and scripts without a guard."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import accelsim
from tests.conftest import REPOSITORY

BUFFERS = {"buffer": ["16 B", "32 B"]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "buffers.yaml"
    path.write_text(
        "sweep:\n  architecture: two_level\n  workloads: [conv1d]\n  parameters: {buffer: [16 B, 32 B]}\n",
        encoding="utf-8",
    )
    return path


def test_sweep__of_a_file_takes_joint_beside_it(file, tmp_path):
    assert accelsim.sweep(file, joint=True, jobs=1, folder=tmp_path / "out").about["joint"]["proved"]


@pytest.mark.parametrize("given", [{"objectives": ["energy"]}, {"params": BUFFERS}, {"prune": True}])
def test_sweep__of_a_file_refuses_what_the_file_says(file, given):
    with pytest.raises(TypeError, match="joint, within"):
        accelsim.sweep(file, **given)


def test_sweep__takes_workloads_as_in_a_sweep_file(tmp_path):
    entry = {"workload": "gpt2_decode", "layers": ["attention_scores"], "weight": 2}
    found = accelsim.sweep("two_level", entry, params=BUFFERS, jobs=1, folder=tmp_path / "out")
    assert found.about["networks"] == {"gpt2_decode": 2}


def test_sweep__in_a_script_needs_no_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        f"import accelsim\nprint(accelsim.sweep('two_level', 'conv1d', params={BUFFERS}, jobs=2, folder='out'))\n",
        encoding="utf-8",
    )
    ran = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, text=True,
        capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    assert ran.stdout == "two_level: 2 designs, 2 Pareto-optimal\n"
