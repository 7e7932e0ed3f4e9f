"""Pictures for papers, each drawn by a function that takes `ax`; results draw the same with `.plot(kind)`."""

from accelsim.show.plots import at_width as at_width
from accelsim.show.plots import figure_bytes as figure_bytes
from accelsim.show.plots import new_axes as new_axes
from accelsim.show.plots.diagram import plot_architecture as plot_architecture
from accelsim.show.plots.diagram import plot_mapping as plot_mapping
from accelsim.show.plots.loop_tree import plot_loop_tree as plot_loop_tree
from accelsim.show.plots.result import plot_energy as plot_energy
from accelsim.show.plots.result import plot_fusion as plot_fusion
from accelsim.show.plots.result import plot_network as plot_network
from accelsim.show.plots.result import plot_reuse as plot_reuse
from accelsim.show.plots.result import plot_stacks as plot_stacks
from accelsim.show.plots.result import plot_time as plot_time
from accelsim.show.plots.search import plot_front as plot_front
from accelsim.show.plots.spread import plot_compare as plot_compare
from accelsim.show.plots.spread import plot_density as plot_density
from accelsim.show.plots.spread import plot_histogram as plot_histogram
from accelsim.show.plots.spread import plot_within as plot_within
