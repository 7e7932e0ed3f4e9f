"""Fused groups under constraints: searches against every mapping that keeps them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from accelsim.fusion.graph import make_graph
from accelsim.fusion.group import Group
from accelsim.fusion.parts import Solutions, encode_part, held_by, part_space
from accelsim.fusion.result import CYCLES, ENERGY, Price
from accelsim.fusion.search import fuse_group
from accelsim.fusion.tiling import FusedLoop, Run, free_border, loop_sets, loops_of, orders_of, runs
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Block, Constraints, Factor, LevelConstraint, Product
from accelsim.inputs.mapping import Loop
from accelsim.inputs.workload import Einsum
from accelsim.model.evaluate import evaluate_encoded
from tests.test_fusion import ROWS
from tests.test_fusion_tiling import gemm, machine, tilings, whole_group


def allowed(tiny: Architecture, group: Group, price: Price) -> float:
    """Least value of all fused tilings whose parts keep what is asked of their layers, each mapping looked at.

    The loops of a mapping of a layer are the fused ones, outside those of the part. Those over dimensions that the
    layer sums stand outermost in the part itself.
    """
    best, known, level = math.inf, dict[object, float](), tiny.levels[1]
    for loops in loop_sets(group):
        for order in orders_of(group, loops):
            for tiling in tilings(group, free_border(group), level, order):
                total = 0.0
                for run in runs(group, tiling, free_border(group), level):
                    room = (level.size_words or 0) - run.reserved
                    key = run.part, room, order
                    if key not in known:
                        known[key] = _least_allowed(tiny, group, run, room, order, price) if room > 0 else math.inf
                    total += run.count * known[key]
                best = min(best, total)
    return best


def _least_allowed(
    tiny: Architecture, group: Group, run: Run, room: int, loops: tuple[FusedLoop, ...], price: Price
) -> float:
    """Of all mappings of a part, with no help of what the search asks of its loops."""
    part = run.part
    rules, layer = group.rules[part.layer], group.layers[part.layer]
    dims = {dim.name: dim for dim in group.dims}
    outer = loops_of(group, part.layer, [loop for loop in loops if part.layer not in dims[loop.dim].summed])
    first = tuple(Loop(dim, steps) for dim, steps in part.sums)
    held = held_by(group, part, 1)
    encoded = encode_part(tiny, part.einsum(group), held, room)
    space, least = part_space(encoded, held), math.inf
    for number in range(space.size):
        mapping = space.mapping_at(number)
        memory, *others = mapping.levels
        if memory.temporal[: len(first)] != first or any(
            loop.dim in dict(part.sums) for loop in memory.temporal[len(first) :]
        ):
            continue
        nest = replace(mapping, levels=(replace(memory, temporal=(*outer, *memory.temporal)), *others))
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
    kept, free = (
        whole_group(make_graph(layers, [(0, 1, "Inputs")], rules=[Constraints(levels)] * 2))
        for levels in (asked, inside)
    )
    least = allowed(tiny, kept, price)
    found, bound = fuse_group(tiny, kept, free_border(kept), Solutions(tiny, price), level=1)
    assert bound == pytest.approx(least, rel=1e-12)
    assert (found is None) == (least == math.inf)
    assert found is None or found.certificate.value == pytest.approx(least, rel=1e-12)
    assert fuse_group(tiny, free, free_border(free), Solutions(tiny, price), level=1)[1] < least


SUMS = Factor("K", 2, 2)


@pytest.mark.parametrize(
    ("temporal", "helps"),
    [
        (Block(factors=(SUMS,), outer=("K",)), True),
        (Block(factors=(SUMS,), outer=("N",)), False),
        (Block(factors=(SUMS,), outer=("M", "K")), False),
        (Block(factors=(SUMS,), inner=("K",)), False),
        (Block(factors=(SUMS,), inner=("N", "K")), False),
    ],
    ids=["K outermost", "N outermost", "M outside K", "K innermost", "N outside K"],
)
def test_fuse_group__keeps_the_order_of_loops_over_sums(temporal: Block, helps: bool) -> None:
    """The second layer sums over two steps; its rows may have two more, around these.

    `helps`: whether the best of all tilings is worse than where the order is open.
    """
    tiny, every = machine(12, units=1), frozenset({"Inputs", "Weights", "Outputs"})
    inside = (
        LevelConstraint("BUF", keep=every),
        LevelConstraint("REG", keep=frozenset({"Weights"}), bypass=every - {"Weights"}),
    )
    open_order = Block(factors=(SUMS,))
    kept, free = (
        whole_group(
            make_graph(
                PAIR,
                [(0, 1, "Inputs")],
                rules=[Constraints(inside), Constraints((LevelConstraint("DRAM", temporal=block), *inside))],
            )
        )
        for block in (temporal, open_order)
    )
    least = allowed(tiny, kept, ENERGY)
    found, bound = fuse_group(tiny, kept, free_border(kept), Solutions(tiny, ENERGY), level=1)
    assert found is not None
    assert "K" in [loop.dim for loop in found.tiling.loops]
    assert found.certificate.value == pytest.approx(least, rel=1e-12)
    assert bound == pytest.approx(least, rel=1e-12)
    assert (fuse_group(tiny, free, free_border(free), Solutions(tiny, ENERGY), level=1)[1] < least) == helps
