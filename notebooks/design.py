# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # A machine for ResNet-50 under an area budget
#
# Given some silicon, what should be built of it: more PEs, or more buffer? The question has no
# answer without mappings, since each design is as good as the best mapping on it.
# `accelsim.explore` maps a network on every design of a sweep and keeps those that no other one
# beats. This notebook asks it for two layers of ResNet-50 and a handful of designs; the sweep
# `eyeriss_resnet50` that comes with accelsim asks it for the whole network and a thousand.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from accelsim.explore import load_sweep
from accelsim.explore.run import explore
from accelsim.explore.tables import about, read_designs
from accelsim.show.plots.search import plot_designs_front

plt.style.use("accelsim.show.plots.accelsim")

# %% [markdown]
# ## The sweep
# Designs around Eyeriss: the width of its array and its global buffer. Area is that of the chip
# (3.5 mm x 3.5 mm for 168 PEs and 108 KiB of buffer; Chen et al., JSSC 52(1), 2017, Table IV), the
# buffer's share of it from CACTI at 65 nm, and so is the budget. A design above it is not mapped at
# all. Where energy and time both are objectives, each layer gets the mapping of least EDP.

# %%
text = """
sweep:
  name: resnet50_budget
  architecture: eyeriss
  workloads:
    - {workload: resnet50, layers: [conv2_3x3, conv4_expand]}
  parameters:
    pe.x: [8, 12, 14]
    glb: {from: 108 KiB, to: 432 KiB, factor: 2}
  area: pe.x * pe.y * 0.0685 mm2 + glb / 1 KiB * 0.0068 mm2
  budgets: {area: 12.3 mm2}
  objectives: [energy, time]
"""
folder = tempfile.TemporaryDirectory()
file = Path(folder.name) / "budget.yaml"
file.write_text(text, encoding="utf-8")
sweep = load_sweep(file)
explored = explore(sweep, Path(folder.name) / "out", workers=1)
designs = read_designs(Path(folder.name) / "out")
print(
    f"{len(designs)} designs, {sum(row['status'] == 'mapped' for row in designs)} within the budget"
)

# %% [markdown]
# Everything is kept in the folder: a sweep that is stopped goes on where it was, and one that is
# run again does nothing.

# %%
again = explore(sweep, Path(folder.name) / "out", workers=1)
print(f"done now: {again.done_now}, known before: {again.known_before}")
assert again.done_now == 0

# %% [markdown]
# ## The designs

# %%
print(f"{'pe.x':>4} {'glb':>8} {'area [mm2]':>10} {'energy [mJ]':>11} {'time [ms]':>9}  front")
for row in designs:
    if row["status"] == "mapped":
        energy_mj, time_ms = row["energy_pj"] * 1e-9, row["time_s"] * 1e3
        costs = f"{row['area_um2'] * 1e-6:10.2f} {energy_mj:11.3f} {time_ms:9.2f}"
        print(f"{row['pe.x']:>4} {row['glb']:>8} {costs}  {'yes' if row['front'] else ''}")
    else:
        print(f"{row['pe.x']:>4} {row['glb']:>8} {row['area_um2'] * 1e-6:10.2f}  over the budget")

# %% [markdown]
# ## What is seen
# The two ways to spend area do different things, and one can say by how much. From the smallest
# design, change one parameter at a time:

# %%
at = {(int(row["pe.x"]), row["glb"]): row for row in designs if row["status"] == "mapped"}
small = at[8, "108 KiB"]
for name, row in (
    ("14 columns of PEs, not 8", at[14, "108 KiB"]),
    ("216 KiB of buffer, not 108", at[8, "216 KiB"]),
):
    area, energy, time = (
        row[column] / small[column] - 1 for column in ("area_um2", "energy_pj", "time_s")
    )
    print(f"{name:26}: area {area:+.0%}, energy {energy:+.1%}, time {time:+.1%}")
fastest = min(at.values(), key=lambda row: (row["time_s"], row["energy_pj"]))
frugal = min(at.values(), key=lambda row: row["energy_pj"])
for name, row in (("least energy", frugal), ("least time", fastest)):
    print(f"{name}: pe.x = {row['pe.x']}, glb = {row['glb']}, {row['area_um2'] * 1e-6:.2f} mm2")

# %% [markdown]
# ## The front
# Of the designs within the budget, those in colour are beaten by none in both energy and time. PEs
# buy time and the buffer buys energy, and the budget sets one against the other: the widest array
# leaves no room for the largest buffer. A design off the front spends its area on something these
# layers cannot use. The choice *on* the front is the designer's.

# %%
fig, ax = plt.subplots(figsize=(6.4, 4))
_ = plot_designs_front(designs, about(sweep), ax)
folder.cleanup()
