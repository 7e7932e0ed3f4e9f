"""Factorisations against trying every product."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from accelsim import load_architecture, load_workload
from accelsim.inputs.divisors import divisors
from accelsim.inputs.errors import TablesTooLarge
from accelsim.mapspace.factors import factorizations, passes
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.search.exact.shapes import make_shapes


@given(st.integers(1, 3000))
@example(1)
@example(49)  # a square has its root once
def test_divisors__are_all_that_divide_in_ascending_order(bound):
    assert list(divisors(bound)) == [d for d in range(1, bound + 1) if bound % d == 0]


@given(st.lists(st.sampled_from([2, 3, 999_983, 1_000_003, 2**31 - 1, 2**30 - 35]), min_size=1, max_size=4))
@example([2**31 - 1, 2**31 - 1])  # a square of a prime has no other factor to find
@example([999_983, 1_000_003, 1_000_003])
def test_divisors__of_large_bounds_are_the_products_of_their_primes(primes):
    """By trial division each of these takes minutes."""
    bound = math.prod(primes)
    products = {math.prod(some) for many in range(len(primes) + 1) for some in itertools.combinations(primes, many)}
    assert list(divisors(bound)) == sorted(products)


@given(st.integers(1, 2000))
def test_passes__are_the_quotients_rounded_up(bound):
    assert passes(bound) == sorted({-(-bound // size) for size in range(1, bound + 1)}, reverse=True)


def test_shapes__of_a_prime_bound_take_little_room():
    """Of 99,999,989 there are two tile sizes; a table by bound would take as many entries."""
    layer = load_workload({"workload": {"name": "x", "gemm": {"M": 99_999_989, "N": 3, "K": 3}}}).layers[0]
    shapes = make_shapes(MapSpace(encode(load_architecture("eyeriss"), layer)))
    assert sum(array.nbytes for array in shapes if isinstance(array, np.ndarray)) < 10_000


def test_shapes__that_do_not_fit_the_memory_are_refused():
    """55,440 has 120 divisors; of three such bounds the shapes alone would take 0.35 GB."""
    layer = load_workload({"workload": {"name": "x", "gemm": {"M": 55_440, "N": 55_440, "K": 55_440}}}).layers[0]
    with pytest.raises(TablesTooLarge, match=r"1.7e\+06 tile shapes would take more than the 0.0977 GiB"):
        make_shapes(MapSpace(encode(load_architecture("eyeriss"), layer)), 100 << 20)


@given(
    st.integers(1, 24),
    st.lists(st.none() | st.frozensets(st.integers(1, 12), max_size=6), min_size=1, max_size=3),
)
@example(7, [frozenset({1}), frozenset({1, 2})])  # no way at all
def test_factorizations__are_every_row_of_allowed_factors_in_lexicographic_order(bound, allowed):
    choices = [range(1, bound + 1) if factors is None else sorted(factors) for factors in allowed]
    expected = [row for row in itertools.product(*choices) if math.prod(row) == bound]

    found = factorizations(bound, allowed)

    assert found.shape == (len(expected), len(allowed))
    assert [tuple(row) for row in found.tolist()] == expected


@given(st.integers(1, 4), st.integers(0, 5), st.integers(0, 3))
def test_factorizations__spread_each_prime_over_the_slots_on_its_own(slots, twos, threes):
    """k equal primes fall into n slots in C(k + n - 1, k) ways, and unequal primes do not see each other."""
    ways = math.comb(twos + slots - 1, twos) * math.comb(threes + slots - 1, threes)

    assert len(factorizations(2**twos * 3**threes, [None] * slots)) == ways
