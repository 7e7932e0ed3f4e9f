"""Fused pairs of matrix products beside RTL: a pair by hand, mistakes in a table, and what all rows come to."""

from __future__ import annotations

import json

import pytest

from validation.tileflow import evaluate_pair, main, read_pairs, tileflow_errors, validate_tileflow

HEAD = "M1,N1,K1,micro_M1,micro_N1,micro_K1,M2,N2,K2,micro_M2,micro_N2,micro_K2,rtl_cycles"
PAIR = "32,32,64,16,32,16,32,16,32,16,16,16,3000"


@pytest.fixture
def study(capsys):
    """Run the command; returns its code, what it prints, and its mistakes."""

    def call(*arguments):
        code = main(list(map(str, arguments)))
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def table(tmp_path):
    """Write rows into a table."""

    def write(*rows):
        path = tmp_path / "pairs.csv"
        path.write_text("\n".join([HEAD, *rows]) + "\n")
        return path

    return write


def test_pair__sums_what_each_product_waits_for(table):
    """Two tiles of 16 rows. (A B): 16 x 64 + 64 x 32 words at 4 a cycle, longer than 4 folds of 32 + 30 + 16 steps.

    (C D): 2 folds of 16 + 30 + 16 steps; D has 32 x 16 words, which take 128, longer than these 124.
    """
    found = evaluate_pair(read_pairs(table(PAIR))[0])
    assert found.parts == (2 * 768, 2 * 128)
    assert found.cycles == 1792


def test_one_tile__needs_no_fused_loop(table):
    """32 rows at once: 32 x 64 + 64 x 32 words take 1,024 cycles; 2 x 2 folds of 16 + 46 steps 248."""
    row = PAIR.replace("32,32,64,16", "32,32,64,32").replace(",32,16,16,16,", ",32,32,16,16,")
    assert evaluate_pair(read_pairs(table(row))[0]).parts == (1024, 248)


def test_table__mistakes_are_told_with_their_lines(table, study):
    path = table(
        PAIR.replace(",3000", ",x"),
        PAIR.replace("32,32,64,16", "40,32,64,16"),
        PAIR.replace(",64,", ",60,"),
        "1,2",
        PAIR.replace(",16,32,16,32,16,32,16,", ",24,32,16,32,16,32,24,"),
    )
    code, _, err = study(path)
    assert code == 2
    for wanted in (
        "pairs.csv:2: rtl_cycles: expected a whole number from 1, got 'x'",
        "pairs.csv:3: M2: must be M1, 40, for the products to be fused, got 32",
        "pairs.csv:3: micro_M1: must divide M1, 40, got 16",
        "pairs.csv:4: K1: must be a multiple of 16, the size of the array, got 60",
        "pairs.csv:5: expected 13 cells, as in line 1, got 2",
        "pairs.csv:6: micro_M1: must be a multiple of 16, the size of the array, got 24",
    ):
        assert wanted in err
    code, _, err = study(table("512,4096,64,16,4096,16,512,64,4096,16,64,16,9"))
    assert code == 2
    assert "pairs.csv:2: AB: SRAM" in err


def test_command__prints_errors_and_every_row_as_json(table, study):
    code, out, _ = study(table(PAIR), "--json")
    document = json.loads(out)
    assert code == 0
    assert [row["cycles"] for row in document["rows"]] == [1792]
    assert "5.4 %" in study(table(PAIR))[1]
    with pytest.raises(SystemExit):
        study(table(PAIR), "--best", "3")


def test_all_rows__are_as_near_as_the_page_says(shared):
    """Nearer than what TileFlow's authors claim; nothing is fitted."""
    found = tileflow_errors(validate_tileflow([shared / "golden" / "tileflow" / "fused_gemm_cycles.csv"]))
    assert round(found["all"].mean, 3) == 0.041
    assert round(found["all"].ratio, 3) == 0.988
