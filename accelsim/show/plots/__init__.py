"""Figures: one mapping, searches, Pareto fronts, the census of a map space, machines and loop nests.

`x_table` makes the rows, `plot_x` draws them into `ax`, by default axes of a new figure (`ax.figure`), and returns the
axes. Colour means tensor: blue weights, orange inputs, green outputs;
vermilion is the optimum.
"""

from accelsim.show.plots.census import (
    best_median_worst,
    compare_table,
    histogram_table,
    marks_table,
    plot_compare,
    plot_histogram,
    plot_within,
    within_table,
)
from accelsim.show.plots.density import density_table, front_over_table, plot_density
from accelsim.show.plots.diagram import architecture_table, mapping_table, plot_architecture, plot_mapping
from accelsim.show.plots.front import front_table, plot_front
from accelsim.show.plots.network import fusion_table, network_table, plot_fusion, plot_network
from accelsim.show.plots.result import energy_table, plot_energy, plot_reuse, plot_stacks, reuse_table, stacks_table
from accelsim.show.plots.search import curve_table, plot_curve, plot_spread, spread_table
from accelsim.show.plots.style import at_width, figure_bytes, new_axes

__all__ = [
    "architecture_table",
    "at_width",
    "best_median_worst",
    "compare_table",
    "curve_table",
    "density_table",
    "energy_table",
    "figure_bytes",
    "front_over_table",
    "front_table",
    "fusion_table",
    "histogram_table",
    "mapping_table",
    "marks_table",
    "network_table",
    "new_axes",
    "plot_architecture",
    "plot_compare",
    "plot_curve",
    "plot_density",
    "plot_energy",
    "plot_front",
    "plot_fusion",
    "plot_histogram",
    "plot_mapping",
    "plot_network",
    "plot_reuse",
    "plot_spread",
    "plot_stacks",
    "plot_within",
    "reuse_table",
    "spread_table",
    "stacks_table",
    "within_table",
]
