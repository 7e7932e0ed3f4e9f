# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # A first tour
#
# A convolution on an accelerator is a nest of seven loops, and the accelerator is a hierarchy of
# memories. A *mapping* says where each loop runs: at which level, in which order, how far unrolled
# over the processing elements (PEs). The machine and the layer fix what is computed; the mapping
# fixes how many words move, and so the energy and the time. This notebook takes one machine and one
# layer, costs one mapping, finds the best of all, and looks at where the difference comes from.

# %%
import matplotlib.pyplot as plt

import accelsim

plt.style.use("accelsim.show.plots.accelsim")
machine = accelsim.load_architecture("eyeriss")
layer = accelsim.load_workload("conv").layers[0]
print(
    f"{machine.name}: {' > '.join(level.name for level in machine.levels)}, "
    f"{machine.macs} MAC units"
)
print(f"{layer.name}: {dict(layer.dims)}, {layer.macs:,} MACs")

# %% [markdown]
# `eyeriss` and `conv` are files that come with accelsim (`accelsim list`); a path to a YAML file of
# your own works in their place.
#
# ## One mapping
# Row-stationary is the dataflow that the chip was built for: a PE holds a row of a filter and
# slides it along a row of the input. A mapping file says so with loops.

# %%
published = accelsim.load_mapping("eyeriss_row_stationary", machine, layer)
given = accelsim.evaluate(machine, layer, published)
print(
    f"{given.pj_per_mac:.3f} pJ/MAC, {given.cycles:,} cycles, "
    f"{given.utilization:.0%} of the MAC units, {given.bottleneck}-bound"
)
print()
print("level  tensor    tile [words]  reads [words]")
for row in given.count_rows():
    print(f"{row['level']:6} {row['tensor']:8} {row['tile_words']:13,} {row['total_reads']:14,}")

# %% [markdown]
# The counts are those of the loop nest executed step by step: `accelsim explain` shows the steps of
# a small nest, and the tests hold every closed formula against such a walk.
#
# ## The best of all
# `map_einsum` does not sample. It searches the whole map space by branch and bound and returns a
# certificate: the value it found, and a bound below which no mapping of the space lies. Where the
# two agree, the mapping is proved to be the best.

# %%
found = accelsim.map_einsum(machine, layer)
best = found.best
print(f"{found.space_size:.2e} mappings in the map space; proved: {found.certificate.proved}")
print(
    f"{best.pj_per_mac:.3f} pJ/MAC, "
    f"{1 - best.energy_pj / given.energy_pj:.1%} less than the one above"
)
for level in best.mapping.levels:
    loops = [
        *map(str, level.temporal),
        *(f"{loop} on x" for loop in level.x),
        *(f"{loop} on y" for loop in level.y),
    ]
    print(f"{level.level:5} keeps {', '.join(sorted(level.keep)) or '-':25} {'; '.join(loops)}")

# %% [markdown]
# A single number can be right by accident. A limit from outside is a second check: no mapping falls
# below compulsory traffic and the energy of the multiply-accumulates themselves.

# %%
from accelsim.model.limits import layer_limits

limits = layer_limits(machine, layer)
print(
    f"lower limit {limits.energy_pj / layer.macs:.3f} pJ/MAC; "
    f"the best mapping is {best.energy_pj / limits.energy_pj:.2f}x that"
)
assert limits.energy_pj <= best.energy_pj <= given.energy_pj

# %% [markdown]
# ## Where the energy goes
# Both mappings do the same multiply-accumulates. What differs is the traffic: by level and tensor,

# %%
print(f"{'component':12} {'tensor':8} {'published':>9} {'best':>7}   [pJ/MAC]")
rows = {
    (row["component"], row["tensor"]): row["pj_per_mac"] for row in given.energy_by_tensor_rows()
}
for row in best.energy_by_tensor_rows():
    before = rows.get((row["component"], row["tensor"]), 0.0)
    print(f"{row['component']:12} {row['tensor']:8} {before:9.3f} {row['pj_per_mac']:7.3f}")

# %% [markdown]
# and as a picture. Colour means tensor: blue weights, orange inputs, green outputs.

# %%
fig, ax = plt.subplots(figsize=(6.4, 2.8))
_ = accelsim.plot_stacks({"row-stationary, published": given, "best of all": best}, ax)

# %% [markdown]
# ## Time
# The best mapping for energy need not be the fastest. `objective="cycles"` and `objective="edp"`
# ask for others, and a Pareto front shows all mappings that no other one beats in both.

# %%
front = accelsim.map_front(machine, layer, columns=("energy", "cycles"))
for row in front.rows():
    print(
        f"{row['pj_per_mac']:.3f} pJ/MAC  {row['cycles']:>12,} "
        f"cycles  utilization {row['utilization']:.0%}"
    )
least, fastest = front.points[0], front.points[-1]
more, faster = fastest.energy_pj / least.energy_pj - 1, least.cycles / fastest.cycles
print(
    f"{more:.1%} more energy buys {faster:.1f}x the speed; "
    f"the mapping of least energy uses {least.spatial_utilization:.0%} of the MAC units"
)

# %%
fig, ax = plt.subplots(figsize=(6.4, 4))
_ = accelsim.plot_front(front, ax)
