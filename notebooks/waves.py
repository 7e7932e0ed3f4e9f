# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Tiles and waves: why a GPU is fast at some sizes
#
# A matrix product on a GPU is cut into tiles; each tile of the output is the work of one thread
# block, and blocks go to the streaming multiprocessors (SMs) in *waves*. Two things are lost on the
# way: tiles that stick out over the edge of the matrix (*tile quantisation*), and SMs that have
# nothing to do in the last wave (*wave quantisation*). This notebook asks how much that is, where
# it happens, and whether one can avoid it.

# %%
import matplotlib.pyplot as plt
import numpy as np

from accelsim.gpu.calibration import mode_of
from accelsim.gpu.catalogue import load_gpu
from accelsim.gpu.gemm import Gemms, time_gemms
from accelsim.gpu.kernel import best_kernels, tile_efficiency, wave_efficiency

plt.style.use("accelsim.show.plots.accelsim")
gpu = load_gpu("a100_sxm_80gb")
mode = mode_of(gpu, "fp16", "shipped")
print(f"{gpu.name}: {gpu.sms} SMs, {gpu.peak_tflops['fp16']:g} TFLOPS in FP16")
print(mode.text)

# %% [markdown]
# ## By hand
# Before any model: the share of the tiles' area that is wanted, and the share of the SMs that work,
# averaged over the waves. Take tiles of 256 x 128 and one block at a time on each SM.

# %%
rows, columns = 256, 128
for m, n in ((2304, 1536), (2304, 1537), (4608, 3072), (4608, 3073)):
    blocks = -(-m // rows) * -(-n // columns)
    tiles, waves = tile_efficiency(m, n, rows, columns), wave_efficiency(blocks, gpu.sms)
    print(
        f"{m} x {n}: {blocks:4} blocks, tiles {tiles:6.1%}, "
        f"waves {waves:6.1%}, both {tiles * waves:6.1%}"
    )

# %% [markdown]
# 2304 x 1536 is one full wave and loses nothing. One column more adds a column of tiles that are
# nearly empty, and these make a second wave: both losses at once, and half the GPU idles. With four
# waves the same column costs less, since only the last wave of five is poorly filled.
#
# ## With the kernel that is chosen
# A library does not insist on one tile. It has many, and picks one that suits. accelsim's GPU model
# times *all* tilings of its space (tiles, and splits of the reduction K) and takes the fastest, so
# the question becomes: how much of the loss is left after the best choice?

# %%
n = k = 4096
sizes = np.arange(256, 8193, 32)
gemms = Gemms.of(sizes, n, k)
times = time_gemms(gpu, gemms, "fp16", mode.constants)
free = gemms.flops / times.time_us * 1e-6
kernels = best_kernels(gpu, [f"M={m}" for m in sizes], gemms, "fp16", mode)
chosen = [kernel.tile for kernel in kernels]
print(f"{len(set(chosen))} different tiles are chosen over {len(sizes)} sizes:")
for tile in sorted(set(chosen), key=chosen.count, reverse=True):
    print(f"  {tile:8} {chosen.count(tile):4} times")
split = sum(kernel.split > 1 for kernel in kernels)
print(
    f"K is split {split} times, "
    f"for M up to {max(kernel.m for kernel in kernels if kernel.split > 1)}"
)

# %% [markdown]
# Hold this against a kernel that always has the tile which is chosen most often, with K not split
# (the first split in the array of all tilings, whose times are those of the kernels alone: launch
# and first loads are the same for all, and added).

# %%
favourite = max(set(chosen), key=chosen.count)
index = int(times.tile[chosen.index(favourite)])
fixed_us = times.by_tiling_us[:, index, 0] + times.parts["launch"] + times.parts["latency"]
fixed = gemms.flops / fixed_us * 1e-6
large = sizes >= 1024
loss = 1 - fixed[large] / free[large]
drop = np.diff(fixed[large]) / fixed[large][:-1]
worst = int(drop.argmin())
print(
    f"always {favourite}: up to {loss.max():.0%} slower than the best tile, "
    f"{loss.mean():.1%} on average (M >= 1024)"
)
print(
    f"deepest step: {drop[worst]:.0%} from M = {sizes[large][worst]} to {sizes[large][worst + 1]}"
)
print(
    f"with the best tile, the deepest step is {(np.diff(free[large]) / free[large][:-1]).min():.0%}"
)
assert (free >= fixed * (1 - 1e-12)).all()

# %% [markdown]
# ## What to do with it
# If a size is yours to choose (a batch, a hidden width, a vocabulary), put it at the end of a step,
# not behind it. For each M below: how far M can grow before the product takes more than 1 % longer.

# %%
for m in (1090, 1700, 2500, 3300, 4500):
    candidates = np.arange(m, m + 513)
    took = time_gemms(gpu, Gemms.of(candidates, n, k), "fp16", mode.constants).time_us
    room = int(candidates[took <= 1.01 * took[0]][-1])
    print(
        f"M = {m} takes {took[0]:5.1f} us, and so do all up to M = {room}: "
        f"{room / m - 1:.0%} more work for nothing"
    )

# %% [markdown]
# Alignment is a step of another kind. Rows that do not begin at a multiple of 16 B are loaded and
# stored in narrower pieces. The vocabulary of GPT-2 has 50,257 words, an odd number; padding it to
# a multiple of 64 adds work and saves time.

# %%
vocabulary = np.array([50257, 50304])
took = time_gemms(gpu, Gemms.of(8192, vocabulary, 768), "fp16", mode.constants).time_us
print(
    f"8192 x 50257 x 768: {took[0]:.0f} us; with 50304 columns {took[1]:.0f} us, "
    f"{took[0] / took[1]:.2f}x as fast"
)

# %% [markdown]
# ## The picture
# The grey line always has the same tile: a saw whose teeth are one wave long, since after each
# whole wave one more block costs as much as a full one. The blue line takes the best tile and split
# at each size. It fills part of the gap behind each tooth, mostly by splitting K: more and shorter
# blocks spread more evenly over the SMs. What steps are left are those that no tiling of the space
# avoids. Toward large sizes there are many waves, the last one matters less, and both lines meet.

# %%
fig, ax = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
ax.plot(sizes, fixed, color="#999999", linewidth=1.0, label=f"always {favourite}, K not split")
ax.plot(sizes, free, color="#0072B2", linewidth=1.2, label="best tile and split")
ax.axhline(gpu.peak_tflops["fp16"], color="#D55E00", linewidth=0.8, linestyle="--", label="peak")
ax.set(
    xlabel="M",
    ylabel="throughput [TFLOPS]",
    ylim=(0, None),
    title=f"M x {n} x {k} on {gpu.name}, FP16",
)
_ = ax.legend(loc="lower right")
