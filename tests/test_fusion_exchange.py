"""Parts of fused groups with rows and columns exchanged: one problem, where nothing is asked of either."""

from __future__ import annotations

import itertools

import pytest

from accelsim.fusion.parts import NO_RULES, Held, PartProblem, Solutions, exchanged, map_part
from accelsim.fusion.result import ENERGY
from accelsim.inputs.constraints import Block, Constraints, Factor, LevelConstraint, Product
from accelsim.inputs.workload import Einsum
from tests.test_fusion_tiling import add, conv, gemm, machine

IMAGE = conv("image", {"C": 2, "K": 2, "P": 2, "Q": 4, "R": 2, "S": 1})

DEPTHWISE = conv("depthwise", {"C": 2, "P": 2, "Q": 4, "R": 1, "S": 3}, depthwise=True)


@pytest.mark.parametrize(
    ("einsum", "swaps"),
    [
        (IMAGE, {"P": "Q", "Q": "P", "R": "S", "S": "R"}),
        (DEPTHWISE, {"P": "Q", "Q": "P", "R": "S", "S": "R"}),
        (gemm("product", 2, 4, 4), {}),
        (add("sum", {"M": 2, "N": 4}), {"M": "N", "N": "M"}),
    ],
    ids=["image", "depthwise", "product", "sum"],
)
def test_exchanged__parts_cost_the_same(einsum: Einsum, swaps: dict[str, str]) -> None:
    """Whatever lies in the buffer."""
    tiny, solutions = machine(60), Solutions(machine(60), ENERGY)
    kind = solutions.kind(einsum, NO_RULES)
    assert {a: kind.dims[b] for a, b in zip(kind.dims, kind.exchange, strict=True) if a != kind.dims[b]} == swaps
    names = [tensor.name for tensor in einsum.tensors]
    for many in range(3):
        for there in itertools.combinations(names, many):
            part = PartProblem(kind, tuple(einsum.dims.values()), Held(1, present=frozenset(there)))
            assert part.turned.turned == part
            assert part.turned.first == part.first
            one, other = (map_part(tiny, each.einsum, each.held, 60, ENERGY) for each in (part, part.turned))
            assert one is not None
            assert other is not None
            assert one.best(ENERGY)[0].energy_pj == pytest.approx(other.best(ENERGY)[0].energy_pj, rel=1e-12)


@pytest.mark.parametrize(
    ("block", "may"),
    [
        (Block(only=frozenset("PQC")), True),
        (Block(only=frozenset("PC")), False),
        (Block(factors=(Factor("P", 1, 2),)), False),
        (Block(factors=(Factor("C", 1, 2),)), True),
        (Block(outer=("Q",)), False),
        (Block(products=(Product(("P", "K"), 2),)), False),
    ],
)
def test_exchanged__are_dimensions_of_which_nothing_is_asked(block: Block, may: bool) -> None:
    asked = Constraints((LevelConstraint("BUF", temporal=block),))
    assert bool(exchanged(IMAGE.tensors, asked, "P", "Q")) == may
