"""Plots about zeros: break-even densities by hand, and the rows of figures 12 and 15."""

from __future__ import annotations

import pytest

from accelsim.cli.main import main
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload_reader import load_workload
from accelsim.results.study import Figure, Study
from accelsim.search.mapper import map_einsum
from accelsim.show.plots.sparsity import (
    break_evens,
    formats_table,
    measured_table,
    plot_formats,
    plot_measured_cycles,
    plot_speedups,
    speedup_table,
)

PJ = {"read": "8 pJ", "write": "8 pJ", "metadata_read": "16 pJ", "metadata_write": "16 pJ"}


def machine(**more):
    dram = {"name": "DRAM", "class": "DRAM", "word": "16 bit", "energy": PJ, **more}
    spad = {
        "name": "SPAD",
        "class": "SRAM",
        "size": "1 KiB",
        "word": "16 bit",
        "energy": {"read": "1 pJ", "write": "1 pJ"},
    }
    compute = {"name": "MAC", "class": "intmac", "energy": {"compute": "1 pJ"}}
    return load_architecture({"architecture": {"name": "pe", "levels": [dram, spad], "compute": compute}})


def layer():
    return load_workload({"workload": {"name": "gemm", "gemm": {"M": 8, "N": 16, "K": 16}}}).layers[0]


def test_break_evens__are_those_by_hand():
    """A bit of metadata takes 1 pJ, a word 8 pJ.

    256 words at density d: 256 * (8 d + 1) as a bitmask, 256 * (8 d + 4 d) as coordinates of 4 bit, 256 * 8 plain. So
    coordinates below 1/4, and a bitmask below 7/8.
    """
    coded = machine(formats={"Weights": ["CP"]}, metadata={"width": "16 bit", "word": "4 bit"})
    found = break_evens(coded, layer(), map_einsum(coded, layer()).best)
    assert [(change["below"], change["above"]) for change in found] == [
        ("coordinates", "bitmask"),
        ("bitmask", "uncompressed"),
    ]
    assert [change["density"] for change in found] == pytest.approx([0.25, 0.875], abs=1 / 256)


def test_formats__without_one_are_told():
    with pytest.raises(AccelsimError, match="pe: no level has `formats`"):
        formats_table(machine(), layer(), map_einsum(machine(), layer()).best)


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


def test_plots__say_their_units(tmp_path):
    coded = machine(formats={"Weights": ["CP"]}, metadata={"width": "16 bit", "word": "4 bit"})
    assert plot_formats(coded, layer(), map_einsum(coded, layer()).best).get_ylabel() == "energy [pJ/MAC]"
    assert plot_measured_cycles(study()).get_xlabel() == "cycles"
    assert plot_speedups(study()).get_xlabel() == "speedup over the dense core"
    path = tmp_path / "formats.png"
    assert main(["plot", "formats", "eyeriss_v2", "mobilenet_sparse", "--layer", "L26", "-o", str(path)]) == 0
    assert path.stat().st_size
