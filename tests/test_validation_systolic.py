"""Systolic arrays beside SCALE-Sim's cycles and the first TPU's published figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from accelsim.inputs.errors import AccelsimError
from validation.scalesim import _whole, read_cases, scalesim_study
from validation.tpu import run_layer, tpu, tpu_study

GOLDEN = Path(__file__).parent / "golden"
COLUMNS = (
    "array_rows,array_cols,dataflow,layer,M,N,K,total_cycles,stall_cycles,"
    "sram_ifmap_reads,sram_filter_reads,sram_ofmap_writes"
)


@pytest.fixture
def table(tmp_path):
    """Write a table of cases."""

    def write(*rows: str, columns: str = COLUMNS):
        path = tmp_path / "cases.csv"
        path.write_text("\n".join((columns, *rows)) + "\n")
        return path

    return write


def test_scalesim__all_cases_are_equal(shared):
    path = shared / "golden" / "scalesim" / "cases.csv"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    study = scalesim_study([path])

    assert len(study.figures) >= 4 * 702
    assert not study.wrong


def test_scalesim__awkward_arrays_are_equal():
    """SCALE-Sim 3.0.0 on arrays that are no squares.

    g3: a GEMM of 45 x 1 x 29. c2: 13 filters of 3 x 5 over two channels of 11 x 7 at stride 2.
    """
    cases = read_cases(GOLDEN / "scalesim.csv")
    assert {(case.rows, case.columns) for case in cases} == {(5, 13), (13, 5), (1, 9), (24, 7), (3, 40), (17, 1)}
    assert {case.dataflow for case in cases} == {"os", "ws", "is"}
    study = scalesim_study([GOLDEN / "scalesim.csv"])
    assert len(study.figures) == 4 * len(cases) == 144
    assert not study.wrong


def test_scalesim__worked_by_hand(table):
    """Weights stay, 4 x 3 PEs, M = 5, N = 4, K = 8: 2 x 2 folds of 4 + 4 + 3 - 2 + 5 cycles, 56; SCALE-Sim says 55.

    Inputs are read for each fold of columns, 2 x 40; weights once, 32; outputs for each fold of rows, 2 x 20.
    """
    study = scalesim_study([table("4,3,ws,a,5,4,8,55,0,80,32,40")])

    assert [(figure.quantity, figure.ours) for figure in study.figures] == [
        ("cycles", 56),
        ("SRAM reads of Inputs", 80),
        ("SRAM reads of Weights", 32),
        ("SRAM writes of Outputs", 40),
    ]
    assert not study.wrong


def test_scalesim__a_cycle_more_is_a_difference(table, validate):
    path = table("4,3,ws,a,5,4,8,56,0,80,32,40", "4,3,ws,a,5,4,8,60,5,80,32,40")
    (wrong,) = scalesim_study([path]).wrong

    assert (wrong.quantity, wrong.published, wrong.ours) == ("cycles", 57, 56)
    assert validate("scalesim", path)[0] == 1


def test_scalesim__a_published_0_has_no_relative_error(table, validate):
    path = table("4,3,ws,a,5,4,8,55,0,0,32,40")
    code, out, _ = validate("scalesim", path, "--json")
    figures = json.loads(out)["studies"][0]["figures"]
    assert code == 1
    assert [(each["error"], each["agrees"]) for each in figures] == [(0, True), (None, False), (0, True), (0, True)]
    code, out, err = validate("scalesim", path)
    assert "not 0" in out, (code, err)


def test_scalesim__mistakes_are_told_with_their_lines(table, validate):
    path = table("4,3,xs,a,5,4,8,55,0,80,32,40", "4,0,ws,a,5x,4,8,55,0,80,32,40")
    code, _, err = validate("scalesim", path)

    assert code == 2
    assert f"{path}:2: dataflow: expected one of os, ws, is, got 'xs'" in err
    assert f"{path}:3: array_cols: expected a whole number from 1, got '0'" in err
    assert f"{path}:3: M: expected a whole number from 1, got '5x'" in err
    rows = "4,3,ws,a,5", "4,3,ws,a,5,4,8,55,0,80,32,40,1"
    with pytest.raises(AccelsimError, match=r":2: expected 12 cells, as in line 1, got 5\n.*:3: .* got 13"):
        read_cases(table(*rows))
    with pytest.raises(AccelsimError, match=r"cases\.csv:2: gemm on 4x3: counts could pass"):
        scalesim_study([table("4,3,ws,a,1e15,1e15,1e15,55,0,80,32,40")])


def test_scalesim__blanks_behind_commas_are_none_of_the_cells(table):
    (case,) = read_cases(table("4, 3, ws, a, 5, 4, 8, 55, 0, 80, 32, 40", columns=COLUMNS.replace(",", ", ")))
    assert (case.dataflow, case.columns, case.bounds) == ("ws", 3, {"M": 5, "N": 4, "K": 8})


def test_scalesim__a_table_without_cases_is_refused(table, tmp_path):
    with pytest.raises(AccelsimError, match=r"cases\.csv:1: no column dataflow, array_rows, N"):
        read_cases(table("5", columns="M,array_cols,K," + COLUMNS.partition("K,")[2]))
    with pytest.raises(AccelsimError, match="holds no cases"):
        read_cases(table())
    with pytest.raises(AccelsimError, match="no such file"):
        read_cases(tmp_path / "absent.csv")


def test_tpu__figures_are_within_their_tolerances():
    study = tpu_study()
    measured = {(f.case, f.variant): f.error for f in study.figures if f.quantity == "measured"}

    assert not study.wrong
    assert sum(figure.tolerance is not None for figure in study.figures) == 23
    for near in (("MLP0", "all"), ("LSTM0", "all"), ("CNN0", "matrix")):
        assert abs(measured[near]) < 0.1


def test_tpu__incomplete_tiles_are_loaded_whole():
    """600 x 600 takes 3 x 3 tiles of 65,536 weights; 34 GB/s are 48 4/7 B a cycle of 700 MHz: 12,143.1 cycles."""
    result = run_layer(tpu(), 96, 600, 600)

    assert result.cycles == 12144
    assert result.bottleneck == "DRAM"
    assert (result.macs, result.padded_macs) == (96 * 600 * 600, 96 * 768 * 768)


@pytest.mark.parametrize(("text", "number"), [("12.0", 12), ("1e300", None), ("inf", None), ("-1", None), ("x", None)])
def test_cases__are_of_whole_numbers_that_can_be_counted(text, number):
    assert _whole(text) == number
