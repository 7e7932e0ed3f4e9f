# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Fused attention
#
# Attention multiplies queries by keys, takes a soft-max of each row of scores, and multiplies that
# by the values. Queries, keys, values and the result grow with the number of tokens; the scores
# grow with its square. Layer by layer, the scores go to DRAM and come back, twice. If the three
# layers are *fused*, a few rows of scores at a time live and die on the chip. What does that bring,
# and when?

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import accelsim
from accelsim.show.report.network import nest_lines

plt.style.use("accelsim.show.plots.accelsim")

# %% [markdown]
# The layers are those of BERT-base: 12 heads, 64 wide. A soft-max needs the whole row of scores
# before it can give the first result, which the key `whole` says, so that no tile cuts the keys.
# (FlashAttention does cut them, and puts the parts right afterwards; that is another algorithm, and
# not in this space.) The machine is the one like the first TPU, with 24 MiB of unified buffer.

# %%
text = """
params: {seq: 1024}
workload:
  name: attention
  layers:
    - {name: scores, gemm: {B: 1, H: 12, M: $seq, N: $seq, K: 64}}
    - name: soft_max
      from: scores
      whole: [N]
      einsum:
        dims: {B: 1, H: 12, M: $seq, N: $seq}
        tensors: {Inputs: [B, H, M, N], Outputs: [B, H, M, N]}
        output: Outputs
    - name: context
      from: {Inputs: soft_max}
      gemm: {B: 1, H: 12, M: $seq, N: 64, K: $seq}
"""
folder = tempfile.TemporaryDirectory()
file = Path(folder.name, "attention.yaml")
file.write_text(text, encoding="utf-8")
machine = accelsim.load_architecture("systolic")

# %% [markdown]
# ## One length
# The best fused tiling of 1024 tokens, proved: the loops around all three layers, the part that
# each runs in a step, and what stays in the buffer between them.

# %%
found = accelsim.fuse(machine, accelsim.load_workload(file))
print("\n".join(nest_lines(found.fused[0].fused)))
gain = found.unfused.energy_pj / found.totals.energy_pj
print(f"\n{gain:.2f}x less energy than layer by layer, proved: {found.certificate.proved}")

# %% [markdown]
# ## From short to long
# Nothing can move less than queries, keys, values and the result once each: that line grows with
# the tokens, the unfused traffic with their square.

# %%
tokens = [64, 128, 256, 512, 1024]
fused, apart, least = [], [], []
print("tokens  DRAM words: apart      fused  least possible  energy gain  cycles gain")
for seq in tokens:
    found = accelsim.fuse(machine, accelsim.load_workload(file, {"seq": str(seq)}))
    fused.append(found.totals.outer_words)
    apart.append(found.unfused.outer_words)
    least.append(4 * 12 * seq * 64)
    energy = found.unfused.energy_pj / found.totals.energy_pj
    cycles = found.unfused.cycles / found.totals.cycles
    words = f"{apart[-1]:12,} {fused[-1]:10,} {least[-1]:15,}"
    print(f"{seq:6} {words}     {energy:10.2f}x {cycles:10.2f}x")
    assert fused[-1] >= least[-1]

# %% [markdown]
# Fused, this machine moves what must be moved and nothing else, at every length: its buffer has
# room for the scores of all heads, or of some of them where there are many tokens. So the gain
# in energy grows with the tokens. Cycles gain little, because the soft-max limits them: a word of
# it takes a MAC here, on an array that was made for products; a chip has a unit of its own for it.
# On a machine whose buffer does not keep the keys, such as Eyeriss, each tile of rows fetches them
# again, and most of the gain is lost; try `accelsim.load_architecture("eyeriss")` above.

# %%
fig, ax = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
ax.plot(tokens, apart, "o-", color="#D55E00", label="layer by layer")
ax.plot(tokens, fused, "o-", color="#0072B2", label="fused")
ax.plot(tokens, least, "--", color="#444444", label="queries, keys, values and result once")
ax.set_xscale("log", base=2)
ax.set_yscale("log")
ax.set_xticks(tokens, tokens)
ax.set(xlabel="tokens", ylabel="DRAM words", title=f"Attention of 12 heads on {machine.name}")
_ = ax.legend()
folder.cleanup()
