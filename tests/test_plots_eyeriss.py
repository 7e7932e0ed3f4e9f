"""The energy breakdown of the Eyeriss study as stacked bars."""

from __future__ import annotations

import pytest

from validation.eyeriss import FREE, ROWS
from validation.eyeriss_isca import COMPONENTS, Breakdown
from validation.plot_breakdowns import plot_breakdowns

OURS = dict(zip(COMPONENTS, (1.0, 2.0, 0.5, 0.25, 4.0), strict=True))
FOUND = (
    Breakdown("conv1", {"MAC": 1.0, "DRAM": 3.0, "SPAD": 4.0}, {ROWS: OURS, FREE: OURS}),
    Breakdown("fc6", {"MAC": 1.0, "DRAM": 2.0, "SPAD": 4.0}, {FREE: OURS}),
)


def test_plot_breakdowns__stacks_end_at_the_sum_of_their_components():
    bars = plot_breakdowns(FOUND).patches
    tops: dict[float, float] = {}
    for bar in bars:
        middle = round(bar.get_x() + bar.get_width() / 2, 3)
        tops[middle] = max(tops.get(middle, 0.0), bar.get_y() + bar.get_height())
    assert list(tops.values()) == pytest.approx([8.0, 7.75, 7.75, 7.0, 7.75])


def test_plot_breakdowns__names_each_component_once():
    legend = plot_breakdowns(FOUND).get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["MACs", "DRAM", "buffer", "array", "register files"]
