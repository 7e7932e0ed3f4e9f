"""Fused chains under constraints: searches against every mapping that keeps them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from accelsim.fusion.chain import Chain, make_chain
from accelsim.fusion.result import CYCLES, ENERGY, Price
from accelsim.fusion.search import Solutions, encode_part, fuse_chain, held_by, part_space
from accelsim.fusion.tiling import LayerPart, runs
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Block, Constraints, Factor, LevelConstraint, Product
from accelsim.inputs.mapping import Loop
from accelsim.inputs.workload import Einsum
from accelsim.model.evaluate import evaluate_encoded
from tests.test_fusion import ROWS
from tests.test_fusion_tiling import gemm, machine, tilings


def allowed(tiny: Architecture, chain: Chain, price: Price) -> float:
    """Least value of all fused tilings whose parts keep what is asked of their layers, each mapping looked at.

    The loops of a mapping of a layer are the fused ones, outside those of the part.
    """
    best, known = math.inf, dict[object, float]()
    for tiling in tilings(tiny, chain, "BUF"):
        total = 0.0
        for run in runs(chain, tiling, tiny.levels[1]):
            layer, room = run.part.layer, (tiny.levels[1].size_words or 0) - run.reserved
            dims = {dim.name: dim.dims[layer] for dim in chain.dims}
            around = tuple(Loop(dims[loop.dim], loop.steps) for loop in tiling.loops)
            key = run.part, room, around
            if key not in known:
                known[key] = _least_allowed(tiny, chain, run.part, room, around, price) if room > 0 else math.inf
            total += run.count * known[key]
        best = min(best, total)
    return best


def _least_allowed(
    tiny: Architecture, chain: Chain, part: LayerPart, room: int, around: tuple[Loop, ...], price: Price
) -> float:
    rules, layer = chain.rules[part.layer], chain.layers[part.layer]
    held = held_by(chain, part, 1)
    encoded = encode_part(tiny, part.einsum(chain), held, room)
    space, least = part_space(encoded, held), math.inf
    for number in range(space.size):
        mapping = space.mapping_at(number)
        outer, *others = mapping.levels
        nest = replace(mapping, levels=(replace(outer, temporal=(*around, *outer.temporal)), *others))
        if not rules.broken_by(nest, layer):
            result = evaluate_encoded(encoded, mapping)
            least = min(least, price.of(result)[0]) if result.valid else least
    return least


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
        (ROWS.layers, 20, ENERGY, Block(factors=(Factor("P", 1, 2),))),
        (ROWS.layers, 14, ENERGY, Block(outer=("C",))),
    ],
    ids=["M<=2", "M>=4", "M*N<=2", "outer", "inner", "only", "nothing fits", "halo", "outer of two"],
)
def test_fuse_chain__keeps_what_is_asked_of_each_layer(
    layers: Sequence[Einsum], size: int, price: Price, temporal: Block
) -> None:
    """Of the loops in the memory, those around the parts included; each case rules out what would be best without."""
    tiny, every = machine(size, units=1), frozenset({"Inputs", "Weights", "Outputs"})
    inside = (
        LevelConstraint("BUF", keep=every),
        LevelConstraint("REG", keep=frozenset({"Weights"}), bypass=every - {"Weights"}),
    )
    asked = LevelConstraint("DRAM", temporal=temporal), *inside
    kept, free = (make_chain(layers, ["Inputs"], rules=[Constraints(levels)] * 2) for levels in (asked, inside))
    least = allowed(tiny, kept, price)
    found, bound = fuse_chain(tiny, kept, Solutions(tiny, price))
    assert bound == pytest.approx(least, rel=1e-12)
    assert (found is None) == (least == math.inf)
    assert found is None or found.certificate.value == pytest.approx(least, rel=1e-12)
    assert fuse_chain(tiny, free, Solutions(tiny, price))[1] < least
