"""The reuse that a layer offers and that a mapping gets: a hand-worked case, and what its factors multiply to."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from reports import row_stationary

from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload_reader import load_workload
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.model.evaluate import evaluate
from accelsim.population.counting import Nest
from accelsim.population.sampling import Sampler
from accelsim.search.mapper import map_einsum
from accelsim.show.plots import at_width, figure_bytes
from accelsim.show.plots.result import plot_reuse, reuse_table


def small(name, **dims):
    return replace(load_workload(name).layers[0], name=name, dims=dims)


def gemm(**dims):
    return small("gemm", **dims)


def factors(rows, tensor, part):
    return {
        row["where"]: pytest.approx(row["factor"]) for row in rows if (row["tensor"], row["part"]) == (tensor, part)
    }


def product(rows, tensor, *parts):
    return math.prod(row["factor"] for row in rows if row["tensor"] == tensor and row["part"] in parts)


def check_products(result, einsum):
    """The identities that `reuse_table` states."""
    rows = reuse_table(result, einsum)
    for tensor in einsum.tensors:
        words = tensor.words(result.bounds)
        outermost = next(t for t in result.tensors if t.tensor == tensor.name)
        moved = outermost.total_updates if tensor.output else outermost.total_reads
        assert product(rows, tensor.name, "offered") == pytest.approx(result.padded_macs / words, rel=1e-12)
        assert product(rows, tensor.name, "obtained") == pytest.approx(result.padded_macs / moved, rel=1e-12)
        assert product(rows, tensor.name, "obtained", "repeated") == pytest.approx(
            result.padded_macs / words, rel=1e-12
        )


def test_reuse_table__of_a_gemm_by_hand():
    """64 MACs, 16 words of inputs, 32 of weights, 8 of outputs; K=2 and N=4 outside a buffer with M=2 and K=4.

    Inputs: a tile of 2 x 4 words that only K moves is filled twice: 16 words, read 64 times. Weights: 8 tiles of 4
    words: 32 words, read 64 times. Outputs: 8 tiles of 2 words leave, 16 words for 64 updates: each leaves twice.
    """
    dram = LevelMapping("DRAM", (Loop("K", 2), Loop("N", 4)), keep=frozenset({"Inputs", "Weights", "Outputs"}))
    buffer = LevelMapping("BUF", (Loop("M", 2), Loop("K", 4)), keep=dram.keep)
    layer = gemm(M=2, N=4, K=8)
    result = evaluate(load_architecture("two_level"), layer, Mapping((dram, buffer)))
    rows = reuse_table(result, layer)
    assert factors(rows, "Inputs", "offered") == {"N": 4}
    assert factors(rows, "Inputs", "obtained") == {"BUF": 4}
    assert factors(rows, "Inputs", "repeated") == {"DRAM": 1}
    assert factors(rows, "Weights", "offered") == {"M": 2}
    assert factors(rows, "Weights", "obtained") == {"BUF": 2}
    assert factors(rows, "Outputs", "offered") == {"K": 8}
    assert factors(rows, "Outputs", "obtained") == {"BUF": 4}
    assert factors(rows, "Outputs", "repeated") == {"DRAM": 2}


def test_reuse_table__a_window_slides():
    """8 outputs of 3 taps touch 10 inputs: 24 MACs / 10 words."""
    layer = load_workload("conv1d").layers[0]
    rows = reuse_table(map_einsum(load_architecture("two_level"), layer, uneven=False).best, layer)
    assert factors(rows, "Inputs", "offered") == {"P+R": 2.4}


@pytest.mark.parametrize(
    ("machine", "layer"),
    [
        ("eyeriss", gemm(M=16, N=12, K=8)),
        ("simba", gemm(M=16, N=12, K=8)),  # levels that each pass two tensors by
        ("eyeriss", load_workload("conv1d").layers[0]),
        ("nvdla", small("strided", N=1, K=4, C=3, P=4, Q=2, R=3, S=3)),
    ],
    ids=["eyeriss", "simba", "window", "strided"],
)  # fmt: skip
def test_reuse_table__products_of_any_mapping(machine, layer):
    machine = load_architecture(machine)
    sampler = Sampler(Nest(MapSpace(encode(machine, layer), None)))
    for number in range(40):
        check_products(evaluate(machine, layer, sampler.mapping(0, number)), layer)


def test_reuse_table__products_of_an_uneven_mapping():
    """Weights stay in the buffer while M runs; inputs and outputs are exchanged inside it."""
    dram = LevelMapping("DRAM", (Loop("N", 4), Loop("K", 2)), keep=frozenset({"Inputs", "Weights", "Outputs"}))
    outer = LevelMapping("BUF", (Loop("M", 2),), keep=frozenset({"Weights"}))
    inner = LevelMapping("BUF", (Loop("K", 4),), keep=frozenset({"Inputs", "Outputs"}))
    layer = gemm(M=2, N=4, K=8)
    check_products(evaluate(load_architecture("two_level"), layer, Mapping((dram, outer, inner))), layer)


def test_reuse_table__products_with_remainders():
    """13 x 11 over loops that cover 16 x 12, in time and across the array: idle instances move nothing."""
    every = frozenset({"Inputs", "Weights", "Outputs"})
    dram = LevelMapping("DRAM", (Loop("M", 4),), keep=every)
    buffer = LevelMapping("GLB", (Loop("N", 3),), (Loop("M", 4),), (Loop("N", 4),), keep=every - {"Weights"})
    spad = LevelMapping("SPAD", (Loop("K", 7),), keep=every)
    layer = gemm(M=13, N=11, K=7)
    result = evaluate(load_architecture("eyeriss"), layer, Mapping((dram, buffer, spad), frozenset({"M", "N"})))
    assert result.imperfect
    check_products(result, layer)


def test_plot_reuse__equal_bytes_at_each_width():
    _, layer, result = row_stationary()
    for width in (6.4, 3.4):
        first, second = (figure_bytes(at_width(lambda ax: plot_reuse(result, layer, ax), width)) for _ in range(2))
        assert first == second


def test_plot_reuse__bars_end_where_the_reuse_on_offer_does():
    _, layer, result = row_stationary()
    ax = plot_reuse(result, layer)
    ends = {}
    for bar in (bar for bar in ax.patches if bar.get_y() > -1):
        ends[round(bar.get_y(), 6)] = max(ends.get(round(bar.get_y(), 6), 0), bar.get_x() + bar.get_width())
    assert len(ends) == 2 * len(layer.tensors)
    lengths = list(ends.values())
    assert lengths[::2] == pytest.approx(lengths[1::2])
    assert ax.get_xlabel().startswith("reuse [MACs/word]")
