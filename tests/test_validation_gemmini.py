"""Gemmini's cycles: rows read and run by hand, mistakes in a table, and what all rows come to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from validation.gemmini import evaluate_row, gemmini_errors, main, read_rows, validate_gemmini

HEAD = (
    "name,mesh,accumulator_entries,accumulator_width_bits,accumulator_instances,scratchpad_entries,"
    "N,K,C,P,Q,R,S,Wstride,Hstride,Wdilation,Hdilation,mapping,rtl_cycles,rtl_auto_tiling_cycles,timeloop_cycles"
)
CONV = (
    "tuned0001,4,64,32,4,4096,1,8,8,6,5,3,1,1,1,1,1,"
    "L3[WIO] Q5 - L2[WI] N1 K4X - L1[O] P3 R3 K2 C2 C4X - L0[W] P2,900,,700"
)
FC = "random0001,128,64,32,128,4096,1,8,6,1,1,1,1,1,1,1,1,L3[WIO] K8 C3 - L2[WI] N1 - L1[O] C2X - L0[W] N1,900,,"


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

    def write(*rows: str) -> Path:
        path = tmp_path / "cycles.csv"
        path.write_text("\n".join([HEAD, *rows]) + "\n")
        return path

    return write


def test_convolution__takes_the_tiles_of_its_row(table):
    """Each of 5 tiles of inputs has 8 columns of one row and 8 channels: 8 runs, each one row of 8 B and one line.

    Weights: 3 taps x 8 channels, each a run of 8 B in one row and one line. Both take 8 x (1 + 0.48) + 24 x (1 + 1.16),
    of which ceil(11.84) + ceil(51.84) = 64 is below the issue of 269 cycles. The array takes 5 x 6 x 3 x 2 x 2 steps.
    Of 6 pixels in a row, an instruction streams 4, and another the 2 others in the time of 4: 8 for 6 steps. 4 cycles
    are for the first weights and 6 of skew. Outputs: 6 pixels of 8 B, stored 5 times in ceil(6 x 3.61) = 22.
    """
    found = evaluate_row(read_rows(table(CONV))[0])
    (scratchpad, accumulator) = found.result.moves
    assert (scratchpad.tiles, scratchpad.first, scratchpad.fills, scratchpad.issue) == (5, 269, 5 * 64, 5 * 269)
    assert accumulator.drains == 5 * 22
    assert found.result.overlapped_cycles == 360 * 8 // 6 + 4 + 6
    assert found.result.cycles == 5 * 269 + 490 // 5 + 110
    assert found.bound == "issue"


def test_matrix_product__rounds_tiles_up_to_whole_arrays(table):
    """An array of 2 x 2: K = 8 in 4 tiles of 2, not 8 of 1, and C = 6 in 3 of 2: 12 tiles, each of 127 cycles."""
    found = evaluate_row(read_rows(table(FC))[0])
    assert [moves.tiles for moves in found.result.moves] == [12, 12]
    assert found.result.moves[0].issue == 12 * 127
    assert found.result.compute_instances == 4


def test_matrix_product__takes_an_array_for_every_16_words_of_a_tile(table):
    """A longest spatial loop of 3 is an array of 4. K = 96 as a tile: 6 arrays, 24 words; C = 36 as one: 2, 8 words."""
    row = FC.replace(",8,6,", ",96,36,").replace(
        "L3[WIO] K8 C3 - L2[WI] N1 - L1[O] C2X", "L3[WIO] - L2[WI] K3X - L1[O] K32 C36"
    )
    result = evaluate_row(read_rows(table(row))[0]).result
    assert (result.compute_instances, result.moves[0].tiles) == (16, 4 * 5)


def test_best__is_no_slower_than_the_mapping_of_the_row(table, study):
    """Of two rows of one layer the faster one gives the sizes; DOSA's own mapping is in the space that is searched."""
    slower = CONV.replace("tuned0001", "tuned0002").replace(",900,", ",901,")
    code, out, _ = study(table(slower, CONV, FC), "--best", "20", "--json")
    (best,) = json.loads(out)["best"]
    assert code == 0
    assert (best["row"], best["tuned"], best["proved"]) == ("tuned0001", 900, True)
    assert best["best"] <= best["tuned_predicted"]
    assert "best, predicted" in study(table(CONV), "--best", "20")[1]


def test_table__mistakes_are_told_with_their_lines(table, study):
    path = table(CONV.replace("Q5", "Q4"), CONV.replace(",900,", ",0,"), "a,b", CONV.replace("L2", "L5"))
    code, _, err = study(path)
    assert code == 2
    for wanted in (
        "cycles.csv:2: mapping: loops over Q multiply to 4, not to 5",
        "cycles.csv:3: rtl_cycles: expected a whole number from 1, got '0'",
        "cycles.csv:4: expected 21 cells, as in line 1, got 2",
        "cycles.csv:5: mapping: expected levels L3 to L0",
    ):
        assert wanted in err


def test_command__prints_errors_and_every_row_as_json_or_into_a_folder(table, study, tmp_path):
    code, out, _ = study(table(CONV, FC), "--json")
    document = json.loads(out)
    assert code == 0
    assert [row["name"] for row in document["rows"]] == ["tuned0001", "random0001"]
    assert all(sum(part["cycles"] for part in row["time"]) == row["cycles"] for row in document["rows"])
    assert "random, GEMM" in {each["of"] for each in document["errors"]}
    code, out, _ = study(table(CONV, FC), "-o", tmp_path / "study")
    assert "FireSim" in out
    assert all(len(line) <= 80 for line in out.splitlines() if "Written" not in line)
    written = {path.name: path for path in (tmp_path / "study").iterdir()}
    assert written.keys() == {"validation.md", "validation.json", "cycles.png", "cycles.svg"}
    assert "FireSim" in written["validation.md"].read_text()
    assert json.loads(written["validation.json"].read_text()) == document


def test_all_rows__are_as_near_as_the_page_says(shared):
    """The table of docs/validation.md."""
    page = (Path(__file__).parents[1] / "docs" / "validation.md").read_text()
    found = {
        each.rows: each for each in gemmini_errors(validate_gemmini([shared / "golden" / "gemmini" / "cycles.csv"]))
    }
    for name in ("random", "tuned", "tuned, if all overlapped", "tuned, Timeloop"):
        each, near = found[name].errors, 100 * found[name].near
        head = name.replace("random", "`random`").replace("tuned", "`tuned`")
        figures = f"{each.ratio:.3f} | {100 * each.mean:.1f} % | {each.spearman:.3f} | {near:.1f} %"
        assert f"| {head} | {each.rows:,} | {figures} |" in page, (head, figures)
