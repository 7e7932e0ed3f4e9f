"""Factorisations against trying every product."""

from __future__ import annotations

import itertools
import math

from hypothesis import example, given
from hypothesis import strategies as st

from accelsim.mapspace.factors import divisors, factorizations


@given(st.integers(1, 3000))
@example(1)
@example(49)  # a square has its root once
def test_divisors__are_all_that_divide_in_ascending_order(bound):
    assert divisors(bound) == [d for d in range(1, bound + 1) if bound % d == 0]


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
