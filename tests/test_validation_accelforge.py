"""Fused networks beside AccelForge's: cases that take seconds are never above, and equal where nothing differs."""

from __future__ import annotations

import pytest

from validation.accelforge_fused import COPIES, SAME, USUAL, compare, main, read_references

EQUAL = ("tpu_v4i|matmuls", "tpu_v4i|three", "snowcat|matvecs", "snowcat|mobilenet_28", "snowcat|gpt3")


@pytest.mark.parametrize("case", EQUAL)
def test_references__are_reached(shared, case):
    """EDP of TPU v4i, which both tools prove, and energy of snowcat layer by layer."""
    asked = [each for each in read_references(shared / USUAL) if each["case"].startswith(case)]
    rows = list(compare(asked, shared, 600))
    assert [row["fusion"] for row in rows] == (["fused", "unfused"] if case.startswith("tpu") else ["unfused"])
    assert all(row["gap"] < 1e-10 for row in rows)
    assert [row["ratio"] for row in rows] == pytest.approx([1.0] * len(rows), rel=SAME)


@pytest.mark.parametrize("workload", COPIES)
def test_copies__are_all_that_is_above(shared, workload):
    """Each copy reads its input and writes its output, which AccelForge does not count."""
    asked = [each for each in read_references(shared / USUAL) if each["workload"] == workload]
    (row,) = compare(asked, shared, 600)
    assert row["ratio"] > 1 + SAME
    assert row["why"] == "copies; ratio 1.000000 without"


def test_eyeriss__is_below(shared):
    """AccelForge's order of memories leaves the best mapping out."""
    asked = [each for each in read_references(shared / USUAL) if each["case"].startswith("eyeriss|matmuls")]
    ratios = [row["ratio"] for row in compare(asked, shared, 600)]
    assert max(ratios) < 0.92


def test_main__prints_the_cases_named(shared, monkeypatch, capsys):
    monkeypatch.setenv("ACCELSIM_SHARED", str(shared))
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["matvecs"]) == 0
    text = capsys.readouterr().out
    assert "snowcat       matvecs  unfused" in text
    assert "\n1 figures: 1 equal to 1e-06, 0 lower, 0 higher" in text


def test_main__names_the_data_that_are_absent(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ACCELSIM_SHARED", str(tmp_path))
    assert main([]) == 2
    error = capsys.readouterr().err
    assert error.startswith(str(tmp_path / USUAL))
    assert "is absent" in error
