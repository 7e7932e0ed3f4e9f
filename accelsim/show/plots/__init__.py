"""Figures: one mapping, searches, Pareto fronts, the census of a map space, machines and loop nests.

`x_table` makes the rows, `plot_x` draws them into `ax`, by default axes of a new figure (`ax.figure`), and returns the
axes. Colour means tensor: blue weights, orange inputs, green outputs;
vermilion is the optimum.
"""
