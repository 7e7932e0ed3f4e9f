# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Why mappings matter: the census of a layer
#
# How much does the mapping decide? One often sees a histogram of some thousand random mappings. It
# answers a question about the sampler. accelsim counts *all* valid mappings of a layer exactly,
# knows the best by proof, bounds the worst, and draws a uniform sample only for what lies in
# between. The layer here is a matrix product of the size of a transformer's projection, the machine
# Eyeriss.

# %%
import matplotlib.pyplot as plt

import accelsim

plt.style.use("accelsim.show.plots.accelsim")
machine = accelsim.load_architecture("eyeriss")
layer = accelsim.load_workload("gemm").layers[0]
found = accelsim.census(machine, layer, samples=20_000, seconds=60)
energy = found.range_of("energy")
print(f"{found.space_size:,} mappings, of which {found.mappings:,} are valid")
print(
    f"energy {energy.lowest / layer.macs:.3f} to {energy.highest / layer.macs:.1f} pJ/MAC: "
    f"a factor of {energy.ratio:.0f}"
)
print(
    f"proved: best {energy.lowest_bound >= energy.lowest * (1 - 1e-9)}, "
    f"none above {energy.highest_bound / layer.macs:.1f} pJ/MAC"
)

# %% [markdown]
# Every one of these computes the same product on the same hardware.
#
# ## Good mappings are rare
# How many mappings come close to the best? The mapper lists them; this is no estimate.

# %%
for near in found.near:
    share = near.mappings / found.mappings
    print(
        f"within {near.share:4.0%} of the best: "
        f"{near.mappings:6,} mappings, one in {1 / share:,.0f}"
    )

# %% [markdown]
# Drawing mappings at random until one is within a percent of the best takes as many draws, on
# average, as the second line says; that is why a mapper that samples stops well above the optimum,
# and why one should say which mapper a published number comes from. The median is what a mapping
# chosen blindly costs:

# %%
median = found.sample.quantile("energy", 0.5)
print(
    f"median {median.value / energy.lowest:.1f}x the best ({median.low / energy.lowest:.1f} "
    f"to {median.high / energy.lowest:.1f}, 95 %)"
)
mean, deviation = found.sample.mean("energy"), found.sample.deviation("energy")
print(
    f"mean {mean.value / energy.lowest:.1f}x the best ({mean.low / energy.lowest:.1f} to "
    f"{mean.high / energy.lowest:.1f}), standard deviation {deviation.value / energy.lowest:.1f}x"
)

# %%
fig, ax = plt.subplots(figsize=(6.4, 4))
_ = accelsim.plot_histogram(found, ax)

# %% [markdown]
# ## What separates the good from the rest
# The mapping of the lowest energy beside one at the median, and beside the worst that was found.
# The multiply-accumulates cost the same in all three; what grows is the traffic to levels that are
# far away.

# %%
from accelsim.show.plots.census import best_median_worst

shown = best_median_worst(found)
for name, result in shown.items():
    dram = sum(row["energy_pj"] for row in result.energy_rows() if row["component"] == "DRAM")
    print(
        f"{name:12} {result.pj_per_mac:8.2f} pJ/MAC, "
        f"{dram / result.energy_pj:.0%} of it at DRAM, {result.utilization:.1%} utilization"
    )
fig, ax = plt.subplots(figsize=(6.4, 2.8))
_ = accelsim.plot_stacks(shown, ax)

# %% [markdown]
# ## The picture to remember
# The share of all mappings that comes within a factor of the lowest energy. The dots are counted,
# the line is estimated from the sample: below one in ten thousand the sample has nothing to say,
# and counting goes on.

# %%
fig, ax = plt.subplots(figsize=(6.4, 4))
_ = accelsim.plot_within(found, ax)
