"""Plots about zeros: break-even densities by hand."""

from __future__ import annotations

import pytest

from accelsim.cli.main import main
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload_reader import load_workload
from accelsim.search.mapper import map_einsum
from accelsim.show.plots.sparsity import (
    break_evens,
    formats_table,
    plot_formats,
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
    found = break_evens(coded, layer(), map_einsum(coded, layer(), uneven=False).best)
    assert [(change["below"], change["above"]) for change in found] == [
        ("coordinates", "bitmask"),
        ("bitmask", "uncompressed"),
    ]
    assert [change["density"] for change in found] == pytest.approx([0.25, 0.875], abs=1 / 256)


def test_formats__without_one_are_told():
    with pytest.raises(AccelsimError, match="pe: no level has `formats`"):
        formats_table(machine(), layer(), map_einsum(machine(), layer(), uneven=False).best)


def test_plot__says_its_units(tmp_path):
    coded = machine(formats={"Weights": ["CP"]}, metadata={"width": "16 bit", "word": "4 bit"})
    assert plot_formats(coded, layer(), map_einsum(coded, layer(), uneven=False).best).get_ylabel() == "energy [pJ/MAC]"
    path = tmp_path / "formats.png"
    assert main(["plot", "formats", "eyeriss_v2", "mobilenet_sparse", "--layer", "L26", "-o", str(path)]) == 0
    assert path.stat().st_size
