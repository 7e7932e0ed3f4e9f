"""Counting by states against brute force: how many mappings have at most some energy.

`ACCELSIM_COUNT_PROBLEMS`: how many random map spaces are looked at (default 120).
"""

from __future__ import annotations

import os
import time
from dataclasses import replace

import numpy as np
import pytest

from accelsim import load_architecture, load_workload
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import NoValidMapping
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.population import enumerated
from accelsim.population.enumerated import Clock, completed, fewest, words_alone
from accelsim.population.steps import Nest
from accelsim.search.exact.count import Counter
from accelsim.search.exact.found_kernel import SURE, WITHIN
from accelsim.search.exact.halves import outermost, put_together
from accelsim.search.exact.solve import Solver
from tests.brute import truth
from tests.test_moments import plain
from tests.test_population import space_of

PROBLEMS = int(os.environ.get("ACCELSIM_COUNT_PROBLEMS", "120"))
GROUPS, MOST = 4, 4000


def without_leak(machine):
    """The same machine, of which nothing leaks."""
    entries = {key: entry for key, entry in machine.energy.entries.items() if key[2] != "leak"}
    return replace(machine, energy=replace(machine.energy, entries=entries))


def limits_of(energies):
    """The lowest energy, what is close to it, and what more mappings have."""
    lowest, middle, highest = energies.min(), float(np.median(energies)), energies.max()
    return [lowest, lowest * 1.03, lowest * 1.2, middle, highest]


@pytest.mark.parametrize("group", range(GROUPS))
def test_count_within__equals_brute_force(group):
    counted = shared = 0
    for seed in range(group, PROBLEMS, GROUPS):
        machine, einsum, constraints = plain(seed, MOST)
        machine = without_leak(machine)
        found = truth(machine, einsum, constraints, MOST)
        try:
            counter = Counter(MapSpace(found.encoded, constraints), workers=1)
        except NoValidMapping:
            continue
        if not counter.by_state or not found.valid:
            continue
        limits = limits_of(found.energy_pj)
        for limit in limits:
            known = counter.count_within(limit)
            assert known.stop == "exhausted"
            assert known.mismatches == 0
            assert known.mappings == (found.energy_pj <= limit * (1.0 + SURE)).sum(), (seed, limit)
        counted += 1
        shared += known.leaves < found.valid
    assert counted > 0.5 * PROBLEMS / GROUPS
    assert shared > 0.5 * counted


@pytest.mark.parametrize("machine", ["two_level", "eyeriss", "nvdla_1024", "simba", "gpu_sm"])
def test_count_within__counts_what_a_list_has(machine):
    """A GEMM of many mappings: those within 2 % of the best, by states and one by one."""
    space = MapSpace(encode(load_architecture(machine), load_workload("gemm").layers[0]))
    counter = Counter(space)
    lowest = float(counter.search().found.value[0])
    for limit in (lowest * (1.0 + SURE), lowest * 1.02):
        listed = int(counter.search(kind=WITHIN, limit=limit).found.tally[2])
        assert counter.count_within(limit).mappings == listed


def test_count_within__stops_in_time_and_says_so():
    space = MapSpace(encode(load_architecture("simba"), load_workload("conv").layers[0]))
    counter = Counter(space)
    lowest = float(counter.search().found.value[0])
    counted = counter.count_within(lowest * 2.0, time.monotonic() + 0.2)
    assert counted.stop == "timeout"
    assert counted.mappings == 0


def test_by_state__not_where_levels_leak_or_cycles_are_limited():
    layer, few = load_workload("gemm").layers[0], Constraints(min_utilization=1e-6)
    assert Counter(MapSpace(encode(load_architecture("two_level"), layer))).by_state
    assert not Counter(MapSpace(encode(load_architecture("two_level"), layer), few)).by_state
    leaking = Counter(MapSpace(encode(load_architecture("nvdla_28nm"), layer)))
    assert not leaking.by_state
    with pytest.raises(ValueError, match="more than its state"):
        leaking.count_within(1.0)


def test_count_within__is_the_same_for_any_number_of_workers():
    space = MapSpace(encode(load_architecture("simba"), load_workload("conv").layers[0]))
    limit = 1.01 * float(Solver(space).search().found.value[0])
    one, three = (Counter(space, workers=workers).count_within(limit) for workers in (1, 3))
    assert (one.mappings, one.states, one.stop) == (three.mappings, three.states, three.stop)
    assert one.states > 1000
    assert one.mismatches == three.mismatches == 0


def test_put_together__refuses_more_mappings_than_64_bits_hold():
    counter = Counter(MapSpace(encode(load_architecture("two_level"), load_workload("gemm").layers[0])))
    (part,) = counter._begin_parts(1, np.zeros((1, 1, 1), np.int64))
    part.notes.many[:] = 1, 2
    part.notes.ways[:2] = 1 << 58
    assert put_together([part.notes], 1.0, outermost(0.0)).sums.tolist() == [0, 1 << 59]
    part.notes.ways[:2] = 1 << 59
    with pytest.raises(OverflowError):
        put_together([part.notes], 1.0, outermost(0.0))


def test_count_settled__equals_brute_force_where_words_are_taken_once():
    """Inside tiles where the words of one tensor alone are open, mappings are counted by a recursion of their own."""
    counted = some_open = 0
    for seed in range(PROBLEMS):
        machine, einsum, constraints = plain(seed, MOST)
        found = truth(without_leak(machine), einsum, constraints, MOST)
        if found is None or not found.valid:
            continue
        outer = MapSpace(words_alone(found.encoded), constraints)
        counter, nest = Counter(outer), Nest(MapSpace(found.encoded, constraints))
        if not counter.by_state:
            continue
        for words in sorted(set(found.outer_words.tolist()))[:3]:
            reached, leaves, stop = counter.count_settled(words, None, once=True)
            assert stop == "exhausted"
            assert leaves + completed(nest, reached) == (found.outer_words <= words).sum(), (seed, words)
            some_open += reached[1:].any()
        counted += 1
    assert counted > 0.5 * PROBLEMS
    assert some_open > 0.2 * counted


@pytest.mark.parametrize("few", [0, enumerated.FEW])
def test_fewest__count_and_worst_agree_with_brute_force(few, monkeypatch):
    """With the search for the worst alone, and with mappings evaluated one by one."""
    monkeypatch.setattr(enumerated, "FEW", few)
    counted = proved = 0
    for seed in range(1000, 1000 + PROBLEMS):
        machine, einsum, constraints = plain(seed, MOST)
        found = truth(without_leak(machine), einsum, constraints, MOST)
        if found is None or not found.valid or constraints.min_utilization > 0:
            continue
        space = MapSpace(found.encoded, constraints)
        known = fewest(space, Nest(space), Clock(None, None), 1).told
        fewest_words = found.outer_words == found.outer_words.min()
        worst = float(found.energy_pj[fewest_words].max())
        assert known.mappings == fewest_words.sum(), seed
        assert known.highest_pj <= worst * (1 + SURE), seed
        assert known.highest_bound >= worst * (1 - SURE), seed
        counted += 1
        proved += known.highest_bound <= worst * (1 + SURE)
    assert counted > 0.5 * PROBLEMS
    assert proved > (0.1 if few == 0 else 0.9) * counted


def test_fewest_words__of_a_window_that_loops_further_in_bring_back():
    """Pooling over 3 with stride 2: a loop over the 3 at an inner level ends where the next output begins."""
    space, found = space_of(5468)
    assert space.encoded.einsum.dims == {"C": 1, "P": 5, "R": 3, "Q": 1, "S": 1}
    words = found.outer_words.min()

    few = Solver(MapSpace(words_alone(space.encoded), space.constraints), every=True).search(
        kind=WITHIN, limit=float(words)
    )

    assert few.found.tally[2] == (found.outer_words == words).sum() == 18


@pytest.mark.parametrize(
    ("seed", "dims"),
    [
        (21234, {"C": 7, "B": 12, "A": 2}),  # a window slides along C while a scalar stays in place
        # constraints put the loop along which the window slides innermost
        (21547, {"G": 1, "C": 2, "P": 11, "R": 3, "Q": 6, "S": 3, "K": 1}),
    ],
)
def test_within__of_windows_that_slide_in_rare_ways(seed, dims):
    space, found = space_of(seed)
    assert space.encoded.einsum.dims == dims
    limit = 1.05 * float(found.energy_pj.min())

    within = Solver(space, every=True).search(kind=WITHIN, limit=limit)

    assert within.found.tally[2] == (found.energy_pj <= limit * (1.0 + SURE)).sum()
