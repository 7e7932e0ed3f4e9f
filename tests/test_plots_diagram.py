"""Diagrams of machines and loop nests."""

from __future__ import annotations

import itertools
import math

import pytest
from reports import row_stationary

from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate
from accelsim.show.plots import at_width, figure_bytes
from accelsim.show.plots.diagram import architecture_table, mapping_table, plot_architecture, plot_mapping


def texts(ax):
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("name", ["eyeriss", "gpu_sm", "nvdla", "simba", "systolic", "two_level"])
def test_architecture_table__each_row_is_spread_below_the_one_above(name):
    machine = load_architecture(name)
    rows = architecture_table(machine)
    assert [row["component"] for row in rows] == [*(level.name for level in machine.levels), machine.compute.name]
    for above, below in itertools.pairwise(rows):
        assert below["instances"] == above["instances"] * above["fanout_x"] * above["fanout_y"]
    assert (rows[0]["size_bits"], rows[-1]["instances"]) == (None, machine.macs)


def test_plot_architecture__says_size_instances_and_fanout():
    said = texts(plot_architecture(load_architecture("eyeriss")))
    assert {"GLB", "108 KiB", "14 x 12", "x168, words of 16 bits", "unlimited"} <= set(said)


def test_mapping_table__loops_multiply_to_the_bounds():
    result = row_stationary()[2]
    rows = mapping_table(result)
    for dim, bound in result.bounds.items():
        assert math.prod(row["bound"] for row in rows if row["dim"] == dim) == bound
    order = [level.level for level in result.mapping.levels]
    assert [order.index(row["level"]) for row in rows] == sorted(order.index(row["level"]) for row in rows)


def test_plot_mapping__shows_every_loop_once_and_the_tiles():
    machine, _, result = row_stationary()
    ax = plot_mapping(result, machine)
    loops = [text for text in texts(ax) if " in [0:" in text]
    assert len(loops) == len(mapping_table(result))
    assert sum(text.startswith("par_for") for text in loops) == sum(bool(row["axis"]) for row in mapping_table(result))
    tiles = [text for text in texts(ax) if text[:2] in ("W ", "I ", "O ")]
    assert len(tiles) == len(result.tensors)
    assert f"{result.compute_used} of 168 used" in texts(ax)


def test_plot_mapping__shows_remainders_and_what_each_node_of_an_uneven_mapping_keeps():
    machine, layer = load_architecture("two_level"), load_workload("conv1d").layers[0]
    dram = LevelMapping("DRAM", (Loop("P", 3),), keep=frozenset({"Weights", "Inputs", "Outputs"}))
    even = evaluate(machine, layer, Mapping((LevelMapping("DRAM", (Loop("P", 8),), keep=dram.keep),
                                             LevelMapping("BUF", (Loop("R", 3),), keep=dram.keep))))  # fmt: skip
    assert "for P in [0:8)" in texts(plot_mapping(even, machine))
    weights = LevelMapping("BUF", (Loop("P", 2),), keep=frozenset({"Weights"}))
    others = LevelMapping("BUF", (Loop("R", 3),), keep=frozenset({"Inputs", "Outputs"}))
    uneven = evaluate(machine, layer, Mapping((LevelMapping("DRAM", (Loop("P", 4),), keep=dram.keep), weights, others)))
    said = texts(plot_mapping(uneven, machine))
    assert said.index("W 3") < said.index("for P in [0:2)") < said.index("I 3") < said.index("for R in [0:3)")


@pytest.mark.parametrize("width", [6.4, 3.4])
def test_diagrams__equal_bytes_for_equal_input(width):
    machine, _, result = row_stationary()
    for plot in (lambda ax: plot_mapping(result, machine, ax), lambda ax: plot_architecture(machine, ax)):
        assert figure_bytes(at_width(plot, width)) == figure_bytes(at_width(plot, width))


@pytest.mark.parametrize("width", [6.4, 3.4])
def test_plot_mapping__nothing_is_cut_off(width):
    machine, _, result = row_stationary()
    ax = at_width(lambda axes: plot_mapping(result, machine, axes), width)
    figure_bytes(ax)
    page = ax.figure.bbox
    for text in ax.texts:
        box = text.get_window_extent()
        assert page.x0 <= box.x0
        assert box.x1 <= page.x1, text.get_text()
