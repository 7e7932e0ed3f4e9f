"""Fused groups under constraints: searches against every mapping that keeps them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from accelsim.fusion.graph import Graph, make_graph
from accelsim.fusion.parts import Solutions
from accelsim.fusion.result import CYCLES, ENERGY, Price
from accelsim.fusion.search import fuse_group
from accelsim.fusion.tiling import free_border
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Block, Constraints, Factor, LevelConstraint, Product
from accelsim.inputs.workload import Einsum
from tests.fusion_brute import Fusion, Mappings, Ran
from tests.test_fusion import ROWS
from tests.test_fusion_tiling import gemm, machine, whole_group


def allowed(tiny: Architecture, graph: Graph, price: Price) -> float:
    """Least value of all fused tilings whose parts keep what is asked of their layers, each mapping looked at.

    The loops of a mapping of a layer are the fused ones, outside those of the part. Those over dimensions that the
    layer sums stand outermost in the part itself.
    """
    every = Ran(tuple(range(len(graph.layers))), free_border(whole_group(graph)))
    return Fusion(tiny, graph, every, Mappings(tiny), constrained=True).least(lambda *cost: price.value(*cost)[0])


PAIR = [gemm("one", 4, 2, 2), gemm("two", 4, 2, 2)]


@pytest.mark.parametrize(
    ("layers", "size", "price", "temporal"),
    [
        (PAIR, 12, ENERGY, Block(factors=(Factor("M", 1, 2),))),
        (PAIR, 16, CYCLES, Block(factors=(Factor("M", 4),))),
        (PAIR, 12, CYCLES, Block(products=(Product(("M", "N"), 1, 2),))),
        (PAIR, 10, ENERGY, Block(outer=("K", "M"))),
        (PAIR, 10, ENERGY, Block(inner=("K", "M"))),
        (PAIR, 16, ENERGY, Block(only=frozenset("MK"))),
        (PAIR, 12, ENERGY, Block(only=frozenset("NK"))),
        (PAIR, 12, ENERGY, Block(factors=(Factor("K", 2, 2),))),
        (ROWS.layers, 20, ENERGY, Block(factors=(Factor("P", 1, 2),))),
        (ROWS.layers, 14, ENERGY, Block(outer=("C",))),
    ],
    ids=[
        "M<=2",
        "M>=4",
        "M*N<=2",
        "outer",
        "inner",
        "only",
        "nothing fits",
        "sums",
        "halo",
        "outer of two",
    ],
)
def test_fuse_group__keeps_what_is_asked_of_each_layer(
    layers: Sequence[Einsum], size: int, price: Price, temporal: Block
) -> None:
    """Of the loops in the memory, those around the parts included; each case rules out what would be best without."""
    tiny, every = machine(size, units=1), frozenset({"Inputs", "Weights", "Outputs"})
    inside = (
        LevelConstraint("BUF", keep=every),
        LevelConstraint("REG", keep=frozenset({"Weights"}), bypass=every - {"Weights"}),
    )
    asked = LevelConstraint("DRAM", temporal=temporal), *inside
    kept, free = (make_graph(layers, [(0, 1, "Inputs")], rules=[Constraints(levels)] * 2) for levels in (asked, inside))
    assert search(tiny, free, price) < search(tiny, kept, price)


def search(tiny: Architecture, graph: Graph, price: Price) -> float:
    """Least value of a graph as a group: that of brute force, infinite where nothing is allowed."""
    group, least = whole_group(graph), allowed(tiny, graph, price)
    found, bound = fuse_group(tiny, group, free_border(group), Solutions(tiny, price), level=1)
    assert bound == pytest.approx(least, rel=1e-12)
    assert (found is None) == (least == math.inf)
    assert found is None or found.certificate.value == pytest.approx(least, rel=1e-12)
    return least


SUMS = Factor("K", 2, 2)


def of_sums(temporal: Block) -> Graph:
    """A pair of products of which the second keeps what is asked of its loops in the memory."""
    every = frozenset({"Inputs", "Weights", "Outputs"})
    inside = (
        LevelConstraint("BUF", keep=every),
        LevelConstraint("REG", keep=frozenset({"Weights"}), bypass=every - {"Weights"}),
    )
    second = Constraints((LevelConstraint("DRAM", temporal=temporal), *inside))
    return make_graph(PAIR, [(0, 1, "Inputs")], rules=[Constraints(inside), second])


def test_fuse_group__keeps_the_order_of_loops_over_sums() -> None:
    """The second layer sums over two steps; its rows may have two more, around these. Some orders cost more."""
    tiny = machine(12, units=1)
    free, several = search(tiny, of_sums(Block(factors=(SUMS,))), ENERGY), []
    for order in (("K",), ("N",), ("M", "K")):
        several.append(search(tiny, of_sums(Block(factors=(SUMS,), outer=order)), ENERGY))
    for order in (("K",), ("N", "K")):
        several.append(search(tiny, of_sums(Block(factors=(SUMS,), inner=order)), ENERGY))
    assert min(several) >= free * (1 - 1e-12)
    assert free < max(several) < math.inf


@pytest.mark.parametrize("size", [12, 16, 17])
def test_fuse_group__has_loops_over_sums_alone_where_the_output_stays(size: int) -> None:
    """The second layer has one loop in the memory, over its sum: nothing cuts its output, 4 x 2 words, so it stays.

    So no step of a loop over the rows is fused. While the first layer runs, a column of the link, 4 words, lies beside
    it, with a column of its input, 4 words, and a word of its weights: 17 words. The second layer needs 14.
    """
    least = search(machine(size, units=1), of_sums(Block(factors=(SUMS,), only=frozenset("K"))), ENERGY)
    assert (least < math.inf) == (size >= 4 * 2 + 4 + 4 + 1)
