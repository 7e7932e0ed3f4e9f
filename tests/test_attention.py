"""Attention that ships: the cascade with a running maximum is attention, and what each form moves off the chip."""

from __future__ import annotations

import os

import numpy as np
import pytest

import accelsim
from accelsim.fusion.graph import find_graphs
from accelsim.inputs.workload import without_other_operations
from accelsim.inputs.workload_reader import load_workload

MACHINE = """
architecture:
  name: words
  clock: 1 GHz
  levels:
    - {{name: DRAM, word: 16 bit, energy: {{read: 1 pJ, write: 1 pJ}}}}
    - {{name: BUF, word: 16 bit, size: {size} B, energy: {{read: 0 pJ, write: 0 pJ}}}}
  compute: {{name: MAC, energy: {{compute: 0 pJ}}}}
  vector_units: [{{name: lanes, below: BUF}}]
"""
"""One level on the chip; the energy in pJ is the number of off-chip words."""
RUNNING = """
workload:
  name: running
  layers:
    - {name: scores, gemm: {M: 2048, N: 2048, K: 64}}
    - name: exponentials
      operation: activate
      from: scores
      einsum: {dims: {M: 2048, N: 2048}, tensors: {Inputs: [M, N], Outputs: [M, N]}, output: Outputs}
    - {name: context, from: exponentials, gemm: {M: 2048, N: 64, K: 2048}}
"""
"""The cascade in short: two words of statistics a row, and rescaling, are a part of `exponentials` and not counted."""
DEEP = pytest.mark.skipif(os.environ.get("ACCELSIM_EFFORT") != "deep", reason="half a minute: `make test-deep`")
EVEN = {"mapspace": "even", "factors": "perfect"}
TENSOR = 2048 * 64
"""Words of the queries, keys, values and the result of one head."""


def fused(words: int, workload: str, **params: int):
    found = accelsim.fuse(MACHINE.format(size=2 * words), workload, params=params, **EVEN)
    assert found.certificate.proved
    assert found.found.totals.energy_pj == pytest.approx(found.found.totals.offchip_words)
    return found


def test_running_maximum__moves_keys_and_values_once_for_each_tile_of_queries():
    """A buffer of 16,384 words holds 64 rows of queries and of the result, 64 x 128, and one tile of keys beside them.

    128 rows would fill it. So each of 2048 / 64 = 32 tiles reads all keys and values: 2 x 131,072 + 32 x 262,144 words.
    """
    found = fused(16_384, RUNNING)
    assert found.found.totals.offchip_words == 2 * TENSOR + 32 * 2 * TENSOR == 8_650_752
    (segment,) = found.segments
    assert [(loop.dim, loop.steps) for loop in segment.fused.tiling.loops][:1] == [("M", 32)]


def test_whole_rows__of_2048_scores_are_better_left_outside():
    """Scores and exponentials of a row are 4,096 words, so at most three rows are there beside a key: 2 by divisors.

    Then keys and values would be read 1,024 times, 268 M words. By themselves the three layers move Q, K, V and the
    result once at least, and 2048 x 2048 words four times: 4 x 131,072 + 4 x 4,194,304.
    """
    found = fused(16_384, "attention", seq=2048, heads=1)
    assert found.found.fused == ()
    assert 4 * TENSOR + 4 * 2048**2 <= found.found.totals.offchip_words < 1024 * 2 * TENSOR
    assert "nothing fused" in found.report()


@pytest.mark.parametrize(
    ("words", "sizes", "moved"),
    [
        (60, {"seq": 6, "dim": 3, "tile": 3}, 4 * 6 * 3),
        pytest.param(16_384, {"seq": 2048, "dim": 64, "tile": 16}, 8_650_752, marks=DEEP),
    ],
)
def test_cascade__is_one_group_over_tiles_of_keys(words, sizes, moved):
    """In the small one Q, K, V and the result move once, which is the least: 72 words, and 60 are there.

    In the large one 64 rows of Q and the result, 64 x 128 words, and of a product, 64 x 64, leave 4,096 words: for
    scores and exponentials of 64 x 16, two words a row, and keys. So it moves what the short form does.
    """
    found = fused(words, "attention_running", heads=1, **sizes)
    (segment,) = found.segments
    assert len(segment.layers) == 6
    assert found.found.totals.offchip_words == moved


def test_cascade__has_the_products_of_attention_and_a_rescaling_for_each_tile():
    sizes = {"seq": "128", "heads": "3", "dim": "16"}
    whole = load_workload("attention", sizes)
    running = load_workload("attention_running", sizes | {"tile": "32"})
    macs = [sum(each.macs for each in without_other_operations(one)[0].layers) for one in (whole, running)]
    assert macs == [2 * 3 * 16 * 128**2] * 2
    others = {layer.name: layer.macs for layer in without_other_operations(running)[1]}
    scores = 3 * 128**2
    assert others == {"maximum": scores, "exponentials": scores, "sum": scores, "context": scores * 16 // 32}
    (graph,) = find_graphs(running).graphs
    assert [layer.name for layer in graph.layers] == [layer.name for layer in running.layers]
    assert not any(layer.whole for layer in running.layers)


def test_cascade__is_attention():
    """The formulas at the head of the file, tile by tile."""
    q, k, v = np.random.default_rng(0).normal(size=(3, 24, 4))
    maximum, total, context = np.full(24, -np.inf), np.zeros(24), np.zeros((24, 4))
    for t in range(0, 24, 6):
        scores = q @ k[t : t + 6].T
        before, maximum = maximum, np.maximum(maximum, scores.max(axis=1))
        exponentials, kept = np.exp(scores - maximum[:, None]), np.exp(before - maximum) * total
        total = kept + exponentials.sum(axis=1)
        context = (kept / total)[:, None] * context + exponentials @ v[t : t + 6] / total[:, None]
    weights = np.exp(q @ k.T)
    assert context == pytest.approx(weights @ v / weights.sum(axis=1)[:, None])
