# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Dataflows compared on one array
#
# *Weight-stationary*, *output-stationary*, *row-stationary*: a dataflow names what stays in a PE
# while the rest moves. Papers compare dataflows on different chips, with different memories and
# different mappers, so that one cannot tell which of these made the difference. Here the machine is
# one and the same, Eyeriss's array with its buffers, and each dataflow gets its *best* mapping,
# found and proved by the same mapper under constraints. A fourth column has no constraints at all.

# %%
import matplotlib.pyplot as plt

import accelsim
from accelsim.inputs.errors import NoValidMapping

plt.style.use("accelsim.show.plots.accelsim")
machine = accelsim.load_architecture("eyeriss")
dataflows = {
    "weight-stationary": "eyeriss_weight_stationary",
    "output-stationary": "eyeriss_output_stationary",
    "row-stationary": "eyeriss_row_stationary",
}

# %% [markdown]
# A constraints file says what a mapping must look like, and leaves everything else to the mapper.
# Row-stationary, for instance:

# %%
from accelsim.inputs import library

text = library.resolve("eyeriss_row_stationary", "constraints").read_text(encoding="utf-8")
print(text.partition("constraints:")[1] + text.partition("constraints:")[2])

# %% [markdown]
# ## Four layers
# A convolution near the input of ResNet-50 with large planes and few channels, one near its end
# with small planes and many channels, a point-wise convolution, and the depthwise convolution of
# MobileNet-V2, which reuses no input across output channels.

# %%
resnet = {layer.name: layer for layer in accelsim.load_workload("resnet50").layers}
layers = {
    "early 3x3": resnet["conv2_3x3"],
    "late 3x3": resnet["conv5_3x3"],
    "1x1": resnet["conv3_expand"],
    "depthwise 3x3": accelsim.load_workload("depthwise").layers[0],
}
best = {}
for name, layer in layers.items():
    for dataflow, file in dataflows.items():
        try:
            constraints = accelsim.load_constraints(file, machine, layer)
            best[name, dataflow] = accelsim.map_einsum(machine, layer, constraints=constraints).best
        except NoValidMapping as error:
            print(f"{name}, {dataflow}: {str(error).splitlines()[1]}")
    best[name, "free"] = accelsim.map_einsum(machine, layer).best
columns = [*dataflows, "free"]
print(f"{'[pJ/MAC]':14}", *(f"{column:>18}" for column in columns))
for name in layers:
    cells = (
        f"{best[name, c].pj_per_mac:18.3f}" if (name, c) in best else f"{'none':>18}"
        for c in columns
    )
    print(f"{name:14}", *cells)

# %% [markdown]
# A dataflow may have no mapping at all: weights that stay while all outputs pass leave no place for
# a loop over 384 groups but inside the buffer. The free column is never above the others: the
# mappings of every dataflow are among those that it chooses from.

# %%
for (name, _), result in best.items():
    assert best[name, "free"].energy_pj <= result.energy_pj * (1 + 1e-12)

# %% [markdown]
# ## Where the difference is
# The levels of the energy tell why. A dataflow that pins one tensor saves the accesses of that
# tensor, and pays for it with those of the others.

# %%
print(f"{'':32} {'DRAM':>7} {'GLB':>7} {'network':>8} {'SPAD':>7}   [pJ/MAC]")
for (name, column), result in best.items():
    of = {"DRAM": 0.0, "GLB": 0.0, "GLB network": 0.0, "SPAD": 0.0}
    for row in result.energy_by_tensor_rows():
        if row["component"] in of:
            of[row["component"]] += row["pj_per_mac"]
    print(f"{name:14} {column:17}", "{:7.3f} {:7.3f} {:8.3f} {:7.3f}".format(*of.values()))

# %% [markdown]
# ## The picture
# Energy of each dataflow over that of the free mapping. The order of the dataflows changes from
# layer to layer, which is the point: a dataflow is a property of a mapping, and a machine that can
# only run one of them pays on the layers that want another.

# %%
colours = {
    "weight-stationary": "#0072B2",
    "output-stationary": "#009E73",
    "row-stationary": "#CC79A7",
}
fig, ax = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
for place, (column, colour) in enumerate(colours.items()):
    at = [
        number + 0.27 * (place - 1) for number, name in enumerate(layers) if (name, column) in best
    ]
    above = [
        best[name, column].energy_pj / best[name, "free"].energy_pj
        for name in layers
        if (name, column) in best
    ]
    bars = ax.bar(at, above, 0.25, color=colour, label=column)
    ax.bar_label(bars, fmt="%.2f", padding=2, fontsize=8)
ax.axhline(1, color="#D55E00", linewidth=1.2, label="best of all mappings")
ax.set_xticks(range(len(layers)), layers)
ax.set(ylabel="energy / lowest energy", title=f"Best mapping of each dataflow on {machine.name}")
ax.set_ylim(0, 1.25 * max(patch.get_height() for patch in ax.patches))
_ = ax.legend(ncols=2, loc="upper left")
