"""Sparseloop's designs: what is equal to its figures, what differs by which cause, and how inputs are found."""

from __future__ import annotations

import json

import pytest

from accelsim.inputs.errors import AccelsimError
from validation.sparseloop import main, measured_table, plot_measured_cycles, plot_speedups, speedup_table
from validation.sparseloop_designs import MASK, ROUNDED, figures, find_designs, replay, sparseloop_study
from validation.study import Figure, Study
from validation.timeloop_replay import read_statistics


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


def test_main__prints_counts_and_causes(capsys, tutorials):
    assert main([str(tutorials / "02.2.1-spMspM")]) == 0
    assert "ref_outputs" in capsys.readouterr().out
    assert main([str(tutorials / "01.2.3-SCDU-dot-product"), "--json"]) == 0
    (study,) = json.loads(capsys.readouterr().out)["studies"]
    assert all(row["agrees"] for row in study["figures"])


def test_designs__what_is_missing_is_told(tmp_path, capsys):
    with pytest.raises(AccelsimError, match="no such file or folder"):
        find_designs([tmp_path / "none"])
    with pytest.raises(AccelsimError, match=r"holds no \*\.stats\.txt"):
        find_designs([tmp_path])
    statistics = tmp_path / "design" / "timeloop.stats.txt"
    statistics.parent.mkdir()
    statistics.write_text("Cycles: 4\n")
    with pytest.raises(AccelsimError, match="no architecture and no workload and no mapping lies beside"):
        replay(find_designs([tmp_path / "design"])[0])
    assert main([str(tmp_path / "design"), "-o", str(tmp_path / "out")]) == 1
    assert "not compared" in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["validation.json"]
    assert main([str(tmp_path / "none")]) == 2


def test_statistics__are_told_from_other_files():
    with pytest.raises(AccelsimError, match="no line `Cycles: …` in it"):
        read_statistics("nothing\n", "x.stats.txt")


def study():
    """Two cores on two layers, and one layer that was measured."""
    case = "fig15/WD-0.5/{}/{}-RF2x-24-bandwidth/output/x.stats.txt: all"
    cycles = {("M1", "TC"): (100, 100), ("M1", "STC"): (50, 40), ("M2", "TC"): (90, 90), ("M2", "STC"): (45, 45)}
    figures = [Figure(case.format(*key), "cycles", "", theirs, ours, 0.0) for key, (ours, theirs) in cycles.items()]
    figures += [
        Figure("fig12/L07/uniform: all", "cycles of the RTL", "", 110.0, ours, None, variant)
        for variant, ours in (("accelsim", 100.0), ("Sparseloop", 105.0))
    ]
    return Study("sparseloop", "about", "source", tuple(figures))


def test_speedups__are_means_over_layers():
    """2 and 2 for us; 2.5 and 2 for Sparseloop, whose geometric mean is 2.236."""
    rows = {row["core"]: row for row in speedup_table(study())}
    assert (rows["STC"]["accelsim"], rows["STC"]["layers"]) == (pytest.approx(2.0), 2)
    assert rows["STC"]["Sparseloop"] == pytest.approx(5**0.5)


def test_measured_cycles__stand_beside_both():
    assert measured_table(study()) == [{"layer": "L07", "measured": 110.0, "accelsim": 100.0, "Sparseloop": 105.0}]


def test_plots__say_their_units():
    assert plot_measured_cycles(study()).get_xlabel() == "cycles"
    assert plot_speedups(study()).get_xlabel() == "speedup over the dense core"
