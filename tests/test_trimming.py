"""Spaces that a search goes through, and padded mappings cut down to the bounds."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from accelsim import load_architecture, load_workload
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.search.spaces import rounded_spaces, trim


@given(st.integers(1, 200), st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_trim__covers_the_bound_with_the_shortest_loops(bound, factors):
    if math.prod(factors) < bound:
        factors = [*factors, -(-bound // math.prod(factors))]
    trimmed = trim(Mapping(tuple(LevelMapping("L", (Loop("M", factor),)) for factor in factors)), {"M": bound})
    loops = [loop.bound for level in trimmed.levels for loop in level.temporal]
    assert all(mine > 1 for mine in loops)
    assert len(loops) <= len(factors)
    assert math.prod(loops) >= bound
    assert ("M" in trimmed.imperfect) == (math.prod(loops) > bound)
    passes = bound
    for loop in reversed(loops):
        outside = -(-passes // loop)
        assert -(-passes // (loop - 1)) > outside
        passes = outside
    assert passes == 1


def test_rounded_spaces__are_valid_spaces_of_larger_bounds():
    machine, layer = load_architecture("two_level"), load_workload("gemm").layers[0]
    space = MapSpace(encode(machine, layer), None, frozenset({"M", "N"}))
    for rounded in rounded_spaces(space):
        assert not rounded.imperfect
        assert all(rounded.encoded.einsum.dims[dim] >= bound for dim, bound in layer.dims.items())
