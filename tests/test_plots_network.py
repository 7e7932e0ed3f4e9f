"""The figure of a network: its rows are the results of the layers, as often as they occur."""

from __future__ import annotations

import pytest
from reports import row_stationary

from accelsim.show.plots import figure_bytes
from accelsim.show.plots.result import network_table, plot_network


def test_network_table__sums_to_the_network_and_names_what_is_slowest():
    result = row_stationary()[2]
    rows = network_table([(3, result), (1, result)])
    assert sum(row["energy_pj"] for row in rows) == pytest.approx(4 * result.energy_pj, rel=1e-12)
    slowest = [row for row in rows if row["bottleneck"]]
    assert [row["component"] for row in slowest] == ["MAC", "MAC"]
    assert sum(row["cycles"] for row in slowest) == 4 * result.cycles
    assert [row["component"] for row in rows][:5] == ["DRAM", "GLB", "GLB network", "SPAD", "MAC"]


def test_plot_network__equal_results_give_equal_bytes():
    result = row_stationary()[2]
    axes = plot_network("net", "eyeriss", [(3, result), (1, result)])
    assert len(axes.child_axes) == 2
    assert figure_bytes(axes) == figure_bytes(plot_network("net", "eyeriss", [(3, result), (1, result)]))
