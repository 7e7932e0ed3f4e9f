"""Figures: the rows that they draw, equal bytes, and nothing of the caller's settings touched."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import matplotlib
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from reports import a_front, all_loops_outside, row_stationary

from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.level_features import Dma
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate
from accelsim.show.plots import figure_bytes
from accelsim.show.plots.result import energy_table, plot_energy, plot_time, time_table
from accelsim.show.plots.search import front_table, plot_front
from accelsim.show.report import OKABE_ITO, OTHER_COLOUR
from tests.test_compression import EVERY, GEMM, two_levels


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


def test_front_table__is_in_the_order_of_the_points():
    front = a_front(row_stationary()[2], ("energy", "offchip_words", "capacity:GLB"))
    rows = front_table(front)
    assert [row["point"] for row in rows] == [1, 2, 3]
    assert [row["offchip_words"] for row in rows] == [row["GLB_words"] for row in rows] == [100, 300, 900]


def test_plot_front__energy_over_cycles_with_a_line_that_no_point_lies_below():
    front = a_front(row_stationary()[2])
    ax = plot_front(front)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("cycles", "energy [pJ/MAC]")
    (marks,) = (c for c in ax.collections if len(c.get_offsets()) == 3)
    drawn = [tuple(at) for at in marks.get_offsets().tolist()]
    assert drawn == [(point.cycles, point.pj_per_mac) for point in front.points]
    (line,) = ax.lines
    assert {(x, y) for x, y in zip(*line.get_data(), strict=True)} >= set(drawn)
    said = [text.get_text() for text in ax.texts]
    assert "no even mapping is here (proved)" in said
    assert any("least energy" in text for text in said)


def test_plot_front__a_third_column_is_colour_and_an_early_stop_is_said():
    ax = plot_front(a_front(row_stationary()[2], ("cycles", "capacity:GLB", "energy"), stop="timeout"))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("cycles", "energy [pJ/MAC]")
    assert [other.get_ylabel() for other in ax.figure.axes[1:]] == ["words held in GLB"]
    assert "best known: 3 points, the Pareto front is not complete" in ax.get_title(loc="left")
    assert not ax.lines
    assert not ax.texts


def test_plot_front__without_energy_and_cycles():
    ax = plot_front(a_front(row_stationary()[2], ("cycles", "offchip_words")))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("cycles", "words moved at DRAM")


def test_plot_front__one_point():
    front = a_front(row_stationary()[2])
    one = replace(front, points=front.points[:1], values=front.values[:1])
    assert figure_bytes(plot_front(one))["png"][:4] == b"\x89PNG"


def drawable(plot):
    """What a plot draws."""
    result = row_stationary()[2]
    return a_front(result) if plot is plot_front else result


@pytest.mark.parametrize("plot", [plot_energy, plot_front])
def test_plots__equal_bytes_for_equal_input(plot):
    data = drawable(plot)
    first, second = figure_bytes(plot(data)), figure_bytes(plot(data))
    assert first == second
    assert b"<dc:date>" not in first["svg"]


@pytest.mark.parametrize("plot", [plot_energy, plot_front])
def test_plots__draw_where_they_are_told_and_leave_settings_alone(plot):
    before, ax = dict(matplotlib.rcParams), Figure().add_subplot()
    assert plot(drawable(plot), ax=ax) is ax
    assert dict(matplotlib.rcParams) == before


def test_plots__need_no_pyplot():
    code = "import sys, accelsim.show.plots; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("dma", [None, Dma(20), Dma(7, overlap=False)], ids=str)
def test_plot_time__bars_follow_each_other_to_the_cycles_of_the_mapping(dma):
    outer, inner = two_levels().levels
    machine = replace(two_levels(), levels=(outer, replace(inner, dma=dma)))
    rest = (Loop("M", 1), Loop("N", 3), Loop("K", 5))
    nest = (LevelMapping("DRAM", (Loop("M", 4),), keep=EVERY), LevelMapping("GLB", rest, keep=EVERY))
    result = evaluate(machine, GEMM, Mapping(nest))
    assert sum(row["cycles"] for row in time_table(result)) == result.cycles
    bars = [bar for each in plot_time(result).containers if each.get_label().startswith("_") for bar in each.patches]
    ends = [0.0, *(bar.get_x() + bar.get_width() for bar in bars)]
    assert [bar.get_x() for bar in bars] == pytest.approx(ends[:-1])
    assert ends[-1] == result.cycles
