"""Spaces that a search goes through, and padded mappings cut down to the bounds."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim import load_architecture, load_workload
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.objective import LEAST_EDP
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.search.exact import bounds
from accelsim.search.exact.mapper import get_ready
from accelsim.search.mapper import map_einsum
from accelsim.search.spaces import MOST_ROUNDINGS, rounded_spaces, trim


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


@pytest.mark.parametrize("machine", ["two_level", "eyeriss", "simba"])
def test_rounded_spaces__are_valid_spaces_of_larger_bounds(machine):
    layer = replace(load_workload("gemm").layers[0], dims={"M": 31, "N": 128, "K": 7})
    space = MapSpace(encode(load_architecture(machine), layer), None, frozenset({"M", "N"}))
    found = [rounded.encoded.einsum.dims for rounded in rounded_spaces(space)]

    assert 1 <= len(found) <= MOST_ROUNDINGS
    assert len({tuple(dims.values()) for dims in found}) == len(found)
    for rounded, dims in zip(rounded_spaces(space), found, strict=True):
        assert not rounded.imperfect
        assert dims["K"] == 7
        assert dims["M"] + dims["N"] > 31 + 128
        assert all(dims[dim] >= bound for dim, bound in layer.dims.items())


def test_rounded_spaces__fill_columns_and_rows():
    """Of 14 columns and 12 rows: 128 takes 140 or 132, and 31 takes 42 or 36. At last 31 is padded."""
    layer = replace(load_workload("gemm").layers[0], dims={"M": 31, "N": 128, "K": 7})
    space = MapSpace(encode(load_architecture("eyeriss"), layer), None, frozenset({"M", "N"}))
    found = [(r.encoded.einsum.dims["M"], r.encoded.einsum.dims["N"]) for r in rounded_spaces(space)]
    assert found == [(42, 132), (36, 140), (32, 128)]


def test_walks__fill_an_array_whose_sides_divide_no_bound(monkeypatch):
    """128 x 128 x 128 on 14 x 12, without tables: remainders let walks use more PEs than divisors of 128 do."""
    machine = load_architecture("eyeriss")
    layer = replace(load_workload("gemm").layers[0], dims=dict.fromkeys("MNK", 128))
    get_ready()
    monkeypatch.setattr(bounds, "MOST_SPREAD_TILES", 0)

    perfect, ragged = (map_einsum(machine, layer, objective="edp", imperfect=d, workers=1) for d in ([], list("MNK")))

    assert LEAST_EDP.of(ragged.best) < 0.85 * LEAST_EDP.of(perfect.best)
