"""Sparseloop's designs: what is equal to its figures, what differs by which cause, and how inputs are found."""

from __future__ import annotations

import json

import pytest

from accelsim.importers.sparseloop import (
    MASK,
    ROUNDED,
    figures,
    find_designs,
    replay,
    sparseloop_study,
)
from accelsim.importers.timeloop_replay import read_statistics
from accelsim.inputs.errors import AccelsimError


@pytest.fixture
def tutorials(shared):
    return shared / "foreign/timeloop/example_designs/example_designs/sparseloop"


def test_tutorials__equal_sparseloops_to_the_printed_digits(tutorials):
    """Accesses by kind, metadata, computes, cycles and energy of ten designs; one count is rounded otherwise."""
    study = sparseloop_study([tutorials])
    assert study.notes == ()
    assert len(study.figures) == 611
    assert [(row.quantity, row.why, row.published - row.ours) for row in study.wrong] == [
        ("actual metadata reads", ROUNDED, 1)
    ]


def test_eyeriss_v2__cycles_are_those_of_sparseloop(shared):
    """Figure 12: eight layers of MobileNet on a PE of Eyeriss v2, beside the cycles of its RTL."""
    folder = shared / "foreign/sparseloop/fig12_eyerissv2_pe_setup"
    study = sparseloop_study([folder])
    assert study.unexplained == ()
    cycles = [row for row in study.figures if row.quantity == "cycles" and row.why != MASK]
    assert len(cycles) == 11
    assert max(abs(row.error) for row in cycles) < 1e-5
    measured = [abs(row.error) for row in study.figures if row.variant == "accelsim"]
    assert sum(measured) / len(measured) < 0.04


def test_tensor_core__cycles_of_2_of_4_are_those_of_sparseloop(shared):
    """Figure 15: weights of which 2 of 4 are not zero."""
    folder = shared / "foreign/sparseloop/fig15_stc_related_setup/ref_outputs/resnet50_selected/WD-0.5"
    for design in find_designs([folder]):
        found = replay(design)
        assert found.result().cycles == pytest.approx(found.theirs.cycles, abs=1)
        assert all(row.agrees or row.explained for row in figures(found))


def test_eyeriss__compression_of_dram_is_that_of_sparseloop(shared):
    """Table 7: words that cross the DRAM's port; the dense designs beside them have none to leave out."""
    for design in find_designs([shared / "foreign/sparseloop/table7_eyeriss_setup"]):
        rows = list(figures(replay(design)))
        assert all(row.agrees or row.explained for row in rows)
        of_dram = [row for row in rows if " DRAM " in row.case and "energy" not in row.quantity]
        assert all(abs(row.error) < 1e-5 for row in of_dram)


def test_eyeriss__compression_rates_are_those_of_table_7(shared):
    """Dense bits over those that DRAM moves with metadata, to two digits."""
    study = sparseloop_study([shared / "foreign/sparseloop/table7_eyeriss_setup"])
    rates = {row.case.split("alexnet_")[1][:5]: row for row in study.figures if row.quantity == "compression rate"}
    found = {layer: round(row.ours, 2) for layer, row in rates.items()}
    assert found == {"conv1": 1.24, "conv2": 1.34, "conv3": 1.7, "conv4": 1.87, "conv5": 1.94}
    assert all(abs(row.error) < 1e-5 for row in rates.values())


def test_validate__prints_counts_and_causes(run, tutorials):
    code, out, _ = run("validate", "sparseloop", tutorials / "02.2.1-spMspM")
    assert code == 0
    assert "ref_outputs" in out
    code, out, _ = run("validate", "sparseloop", tutorials / "01.2.3-SCDU-dot-product", "--json")
    (study,) = json.loads(out)["studies"]
    assert code == 0
    assert all(row["agrees"] for row in study["figures"])


def test_designs__what_is_missing_is_told(tmp_path, run):
    with pytest.raises(AccelsimError, match="no such file or folder"):
        find_designs([tmp_path / "none"])
    with pytest.raises(AccelsimError, match=r"holds no \*\.stats\.txt"):
        find_designs([tmp_path])
    statistics = tmp_path / "design" / "timeloop.stats.txt"
    statistics.parent.mkdir()
    statistics.write_text("Cycles: 4\n")
    with pytest.raises(AccelsimError, match="no architecture and no workload and no mapping lies beside"):
        replay(find_designs([tmp_path / "design"])[0])
    code, out, _ = run("validate", "sparseloop", tmp_path / "design")
    assert (code, "not compared" in out) == (1, True)


def test_statistics__are_told_from_other_files():
    with pytest.raises(AccelsimError, match="no line `Cycles: …` in it"):
        read_statistics("nothing\n", "x.stats.txt")
