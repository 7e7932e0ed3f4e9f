"""Figures: the rows that they draw, equal bytes, and nothing of the caller's settings touched."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace

import matplotlib
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from reports import a_search, all_loops_outside, row_stationary

from accelsim.architecture import load_architecture
from accelsim.plots import (
    curve_table,
    energy_table,
    figure_bytes,
    plot_curve,
    plot_energy,
    plot_spread,
    spread_table,
)
from accelsim.report.text import OKABE_ITO, OTHER_COLOUR
from accelsim.workload import load_workload


def test_energy_table__sums_to_the_total():
    result = row_stationary()[2]
    rows = energy_table(result)
    assert sum(row["energy_pj"] for row in rows) == pytest.approx(result.energy_pj, rel=1e-12)
    assert sum(row["pj_per_mac"] for row in rows) == pytest.approx(result.pj_per_mac, rel=1e-12)
    assert sum(row["share"] for row in rows) == pytest.approx(1, rel=1e-12)


def test_energy_table__components_from_the_outermost_inwards():
    names = [row["component"] for row in energy_table(row_stationary()[2])]
    assert list(dict.fromkeys(names)) == ["DRAM", "GLB", "GLB network", "SPAD", "MAC"]


def test_plot_energy__stacks_to_the_total_in_the_colours_of_the_tensors():
    result = row_stationary()[2]
    ax = plot_energy(result)
    assert sum(bar.get_height() for bar in ax.patches) == pytest.approx(result.pj_per_mac, rel=1e-12)
    drawn = {container.get_label(): to_hex(container.patches[0].get_facecolor()) for container in ax.containers}
    expected = {**OKABE_ITO, "other (compute, leakage)": OTHER_COLOUR}
    assert drawn == {name: colour.lower() for name, colour in expected.items()}
    assert ax.get_ylabel() == "energy [pJ/MAC]"


def test_plot_energy__an_output_of_any_name_is_green():
    machine, layer = load_architecture("systolic"), load_workload("gemm").layers[0]
    renamed = replace(layer, tensors=tuple(replace(t, name=f"My{t.name}") for t in layer.tensors))
    ax = plot_energy(all_loops_outside(machine, renamed))
    drawn = {container.get_label(): to_hex(container.patches[0].get_facecolor()) for container in ax.containers}
    assert drawn["MyOutputs"] == OKABE_ITO["Outputs"].lower()


def test_spread_table__holds_every_valid_mapping():
    search = a_search(row_stationary()[2])
    rows = spread_table(search)
    assert sum(row["mappings"] for row in rows) == search.valid
    assert len(rows) <= 60
    assert all(a["to_pj_per_mac"] == b["from_pj_per_mac"] for a, b in itertools.pairwise(rows))
    assert rows[0]["from_pj_per_mac"] == search.spread.edges_pj[0] / search.best.macs
    assert rows[-1]["to_pj_per_mac"] == search.spread.edges_pj[-1] / search.best.macs


def test_plot_spread__marks_the_best_and_says_how_many():
    search = a_search(row_stationary()[2])
    ax = plot_spread(search)
    assert "900" in ax.get_title(loc="left")
    assert (ax.get_xscale(), ax.get_xlabel()) == ("log", "energy [pJ/MAC]")
    assert [line.get_xdata()[0] for line in ax.lines] == [search.best.pj_per_mac]


def test_plot_spread__one_valid_mapping():
    search = a_search(row_stationary()[2])
    spread = replace(search.spread, edges_pj=search.spread.edges_pj[:2], counts=(1,), max_pj=search.spread.min_pj)
    assert figure_bytes(plot_spread(replace(search, spread=spread, valid=1, seen=1)))["png"][:4] == b"\x89PNG"


def test_curve_table__falls_and_ends_with_the_last_mapping_seen():
    search = a_search(row_stationary()[2])
    rows = curve_table(search)
    assert [row["mappings"] for row in rows] == [3, 40, 900, 3100, 5000]
    assert rows[-1]["best"] == rows[-2]["best"] == search.best.pj_per_mac
    ax = plot_curve(search)
    assert ax.get_ylabel() == "best energy [pJ/MAC]"


@pytest.mark.parametrize("plot", [plot_energy, plot_spread, plot_curve])
def test_plots__equal_bytes_for_equal_input(plot):
    result = row_stationary()[2]
    data = result if plot is plot_energy else a_search(result)
    first, second = figure_bytes(plot(data)), figure_bytes(plot(data))
    assert first == second
    assert b"<dc:date>" not in first["svg"]


@pytest.mark.parametrize("plot", [plot_energy, plot_spread, plot_curve])
def test_plots__draw_where_they_are_told_and_leave_settings_alone(plot):
    result = row_stationary()[2]
    before, ax = dict(matplotlib.rcParams), Figure().add_subplot()
    assert plot(result if plot is plot_energy else a_search(result), ax=ax) is ax
    assert dict(matplotlib.rcParams) == before


def test_plots__need_no_pyplot():
    code = "import sys, accelsim.plots; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
