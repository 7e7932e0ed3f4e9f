"""`accelsim fuse`: its report, files and mistakes; its picture."""

from __future__ import annotations

import json

import pytest

from accelsim import fuse, load_architecture, load_workload
from accelsim.cli import main
from accelsim.plots import figure_bytes, fusion_table, plot_fusion

NETWORK = """
workload:
  name: attention
  layers:
    - {name: scores, gemm: {B: 1, H: 2, M: 8, N: 8, K: 4}}
    - name: soft_max
      from: scores
      whole: [N]
      einsum:
        dims: {B: 1, H: 2, M: 8, N: 8}
        tensors: {Inputs: [B, H, M, N], Outputs: [B, H, M, N]}
        output: Outputs
    - {name: context, from: {Inputs: soft_max}, gemm: {B: 1, H: 2, M: 8, N: 4, K: 8}}
"""
SIZE = "buffer=256 B"


@pytest.fixture
def network(tmp_path, monkeypatch):
    """A file with a small attention, and a cache of its own."""
    monkeypatch.setenv("ACCELSIM_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "attention.yaml"
    path.write_text(NETWORK)
    return str(path)


def test_fuse__prints_what_is_fused_and_how(network, capsys):
    """A head of 8 x 8 scores twice, 256 B, leaves no room in a buffer of 256 B: query rows are cut."""
    assert main(["fuse", "two_level", network, "--set", SIZE]) == 0
    text = capsys.readouterr().out
    assert "scores + soft_max + context" in text.replace("\n", " ")
    assert "total energy: optimal (proved)" in text
    assert "for M in [0:" in text
    assert "for N" not in text
    assert "> Outputs of soft_max in BUF:" in text


def test_fuse__writes_and_prints_the_same(network, tmp_path, capsys):
    folder = tmp_path / "out"
    assert main(["fuse", "two_level", network, "--set", SIZE, "-o", str(folder), "--json"]) == 0
    printed = capsys.readouterr().out
    assert (folder / "fusion.json").read_text() == printed
    assert {path.name for path in folder.iterdir()} == {"fusion.json", "fusion.png", "fusion.svg"}
    found = json.loads(printed)["fusion"]
    segments = found["segments"]
    assert found["certificate"]["proved"]
    for key in ("energy_pj", "cycles", "outer_words", "macs"):
        total = sum(each["repeat"] * each["totals"][key] for each in segments)
        assert total == pytest.approx(found["totals"][key], rel=1e-12)
    for fused in (each["fused"] for each in segments if each["fused"]):
        parts = fused["parts"]
        energy_pj = sum(part["count"] * part["result"]["energy_pj"] for part in parts)
        assert energy_pj == pytest.approx(fused["energy_pj"], rel=1e-12)
        assert all(part["result"]["valid"] for part in parts)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--chain", "scores,contxt"], "attention has no layer 'contxt'; did you mean 'context'?"),
        (["--chain", "scores,context"], "context does not read scores; it reads soft_max"),
        (["--chain", "scores"], "a chain has two layers at least"),
        (["--objective", "edp"], "adds up for energy and for cycles alone"),
        (["--objective", "power"], "objective 'power' is unknown"),
    ],
)
def test_fuse__mistakes_are_one_line(network, capsys, arguments, message):
    assert main(["fuse", "two_level", network, *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_fuse__a_dimension_that_is_whole_must_be_one(tmp_path, capsys):
    path = tmp_path / "wrong.yaml"
    path.write_text(NETWORK.replace("whole: [N]", "whole: [Q]"))
    assert main(["fuse", "two_level", str(path)]) == 2
    assert "wrong.yaml:8:14: layers[1].whole: 'Q' is no dimension of soft_max" in capsys.readouterr().err


def test_plot_fusion__rows_are_the_energies_of_both(network):
    machine = load_architecture("two_level", {"buffer": "256 B"})
    found = fuse(machine, load_workload(network), workers=1)
    rows = fusion_table(found)
    fused = sum(row["energy_pj"] for row in rows if row["fused"])
    alone = sum(row["energy_pj"] for row in rows if not row["fused"])
    assert fused == pytest.approx(sum(each.repeat * each.totals.energy_pj for each in found.fused), rel=1e-12)
    assert alone == pytest.approx(sum(each.repeat * each.unfused.energy_pj for each in found.fused), rel=1e-12)
    assert figure_bytes(plot_fusion(found)) == figure_bytes(plot_fusion(found))
