"""The best and the worst mappings that a spread knows: of searches, of what was kept, and of draws."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reports import a_front, a_stopped_spread, row_stationary

from accelsim.inputs.objective import QUANTITIES
from accelsim.population.spread import SeenMappings
from accelsim.search.result import column_value

BEST = row_stationary()[2]
EQUAL = replace(BEST, cycles=2 * BEST.cycles)
WORSE = replace(BEST, energy_pj=2 * BEST.energy_pj)


@pytest.mark.parametrize("results", [(BEST, WORSE), (WORSE, BEST)])
def test_add__the_smallest_and_the_largest_stay_in_any_order(results):
    known = SeenMappings(1)
    for result in results:
        known.add(result)
    ends = known.range_of("energy")

    assert (ends.lowest_mapping, ends.highest_mapping) == (BEST, WORSE)
    assert (ends.lowest, ends.highest) == (BEST.energy_pj, WORSE.energy_pj)
    assert not ends.lowest_proved


def test_add__of_equal_mappings_the_one_searched_for_stays():
    known = SeenMappings(1)
    known.add(EQUAL)
    known.add(BEST)
    assert known.least["energy"] is EQUAL
    known.add(BEST, "energy")
    known.add(EQUAL)
    assert known.least["energy"] is BEST


def test_prove__a_bound_alone_proves_a_value():
    known = SeenMappings(1)
    known.add(WORSE)
    known.prove("energy", BEST.energy_pj)
    known.prove("energy", 0.5 * BEST.energy_pj)  # what a shorter search proves takes nothing away
    assert not known.proved("energy")
    assert known.range_of("energy").lowest_bound == BEST.energy_pj
    known.add(BEST)
    assert known.range_of("energy").lowest_proved


def test_prove__a_mapping_below_what_is_proved_is_no_answer():
    known = SeenMappings(1)
    known.add(BEST)
    known.prove("energy", 1.001 * BEST.energy_pj)
    with pytest.raises(RuntimeError, match="no mapping falls below"):
        known.range_of("energy")


@pytest.mark.parametrize("first", QUANTITIES)
def test_add_drawn__no_mapping_drawn_lies_beyond(first):
    sample, known = a_stopped_spread().sample, SeenMappings(1)
    known.add(sample.result(sample.nearest(first, float(sample.values(first).mean()))))
    known.add_drawn(sample)
    for column in QUANTITIES:
        assert column_value(known.least[column], column) == sample.values(column).min()
        assert column_value(known.most[column], column) == sample.values(column).max()


def test_front__one_that_is_complete_stays_and_another_gets_what_is_known():
    known, front = SeenMappings(1), a_front(BEST)
    assert known.front(front) is front
    stopped = replace(front, points=(EQUAL,), values=((EQUAL.energy_pj, float(EQUAL.cycles)),), stop="timeout")
    known.add(BEST)
    known.add(WORSE)

    assert known.front(stopped).points == known.front(None).points == (BEST,)
    assert (known.front(stopped).stop, known.front(None).stop) == ("timeout", "interrupted")
