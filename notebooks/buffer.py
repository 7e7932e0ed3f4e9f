# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # The knee: buffer size against energy
#
# How large should a buffer be? A larger one saves DRAM accesses, but each of its own accesses costs
# more, it leaks more, and it takes area. So energy falls, flattens, and rises again; the *knee* is
# where more memory stops paying. The answer needs the best mapping at *every* size: with a fixed
# tiling, a larger buffer would change nothing.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import accelsim

plt.style.use("accelsim.show.plots.accelsim")

# %% [markdown]
# The machine is as small as it can be for the question: DRAM, one buffer for all three tensors, and
# an array of 16 x 16 multipliers of 16 bit. Energies come from accelsim's component models at 28
# nm, so the energy of an access goes with the size of the buffer.

# %%
text = """
params: {size: 64 KiB}
architecture:
  name: knee
  technology: 28 nm
  clock: 1 GHz
  energy_table: components
  levels:
    - {name: DRAM, class: DRAM, attributes: {type: LPDDR4}, word: 16 bit}
    - name: Buffer
      class: SRAM
      size: $size
      word: 16 bit
      block_size: 8
      keep: [Weights, Inputs, Outputs]
      fanout: {x: 16, y: 16, class: wire, attributes: {length: 0.5 mm}}
    - name: Register
      class: register
      size: 16 bit
      word: 16 bit
      keep: [Weights]
      bypass: [Inputs, Outputs]
  compute: {class: intmac, attributes: {format: int16, psums: int32}}
"""
folder = tempfile.TemporaryDirectory()
file = Path(folder.name, "knee.yaml")
file.write_text(text, encoding="utf-8")
workload = "workload: {name: gemm_256_512_512, gemm: {M: 256, N: 512, K: 512}}"
Path(folder.name, "gemm.yaml").write_text(workload, encoding="utf-8")
layer = accelsim.load_workload(Path(folder.name, "gemm.yaml")).layers[0]
m, n, k = (layer.dims[dim] for dim in "MNK")
print(f"{m} x {n} x {k}: {layer.macs:,} MACs, {m * k + k * n + m * n:,} words in three matrices")

# %% [markdown]
# ## The best mapping at each size

# %%
sizes = [2**power for power in range(3, 11)]
best, area = [], []
for kib in sizes:
    machine = accelsim.load_architecture(file, {"size": f"{kib} KiB"})
    best.append(accelsim.map_einsum(machine, layer).best)
    area.append(machine.areas["Buffer"].area_um2 * 1e-6)


def spent(result, component):
    """Energy [pJ/MAC] of the parts of a result whose component begins so."""
    return sum(
        row["pj_per_mac"]
        for row in result.energy_by_tensor_rows()
        if row["component"].startswith(component)
    )


print("  KiB   total    DRAM  buffer  [pJ/MAC]   DRAM words  area of the buffer")
for kib, result, mm2 in zip(sizes, best, area, strict=True):
    dram, buffer = spent(result, "DRAM"), spent(result, "Buffer")
    costs = f"{result.pj_per_mac:7.3f} {dram:7.3f} {buffer:7.3f}"
    print(f"{kib:5} {costs}            {result.outer_words:11,}  {mm2:.2f} mm2")

# %% [markdown]
# ## How near is this to what is possible?
# Words from DRAM can be held against theory. With S words on the chip, a product C + A x B of M x N
# x K moves at least 2MNK / sqrt(S) - 2S words (Smith et al., 2017, arXiv 1702.02017; the form is
# Hong and Kung's, 1981). Here C starts at zero and is not read, so MN words are taken off; and
# never does a product move fewer words than each matrix once.

# %%
compulsory = m * k + k * n + m * n
for kib, result in zip(sizes, best, strict=True):
    held = kib * 512 + 16 * 16  # words in the buffer, and the weights in the registers
    bound = max(compulsory, 2 * layer.macs / np.sqrt(held) - 2 * held - m * n)
    words = result.outer_words
    print(
        f"{kib:5} KiB: {words / bound:.2f}x the lower bound, {words / compulsory:.1f}x compulsory"
    )
    assert words >= bound

# %% [markdown]
# ## The knee
# The smallest total, and the smallest buffer that comes within 5 % of it:

# %%
totals = np.array([result.pj_per_mac for result in best])
least = int(totals.argmin())
knee = int(np.flatnonzero(totals <= 1.05 * totals[least])[0])
print(
    f"least energy: {sizes[least]} KiB, {totals[least]:.3f} pJ/MAC, {area[least]:.2f} mm2 of buffer"
)
print(
    f"within 5 % of it from {sizes[knee]} KiB on: {totals[knee]:.3f} pJ/MAC, {area[knee]:.2f} mm2"
)

# %% [markdown]
# Left of the knee each doubling of the buffer takes a good part of DRAM's traffic away. Once every
# matrix passes DRAM only once there is nothing more to save, and a larger buffer only makes its own
# accesses dearer. Where the curve is flat, take the smaller one: the energy is nearly the same and
# the area is not.

# %%
fig, ax = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
parts = {"DRAM": "#999999", "Buffer": "#56B4E9"}
bottom = np.zeros(len(sizes))
for component, colour in parts.items():
    values = np.array([spent(result, component) for result in best])
    ax.bar(
        range(len(sizes)),
        values,
        0.7,
        bottom,
        color=colour,
        label=component if component == "DRAM" else "buffer and network",
    )
    bottom += values
ax.bar(range(len(sizes)), totals - bottom, 0.7, bottom, color="#444444", label="registers and MACs")
ax.scatter([knee], [totals[knee]], 50, color="#D55E00", zorder=3, label=f"knee: {sizes[knee]} KiB")
ax.set_xticks(range(len(sizes)), sizes)
ax.set(
    xlabel="size of the buffer [KiB]",
    ylabel="energy [pJ/MAC]",
    title=f"Best mapping of {layer.name} at each size",
)
_ = ax.legend()
folder.cleanup()
