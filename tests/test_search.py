"""Searches against evaluating every mapping one by one."""

from __future__ import annotations

import itertools
import math
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import accelsim.search.mapper
from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.mapping import Mapping
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload import Einsum
from accelsim.inputs.workload_reader import load_workload
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result
from accelsim.search.mapper import map_einsum
from accelsim.search.result import SearchResult
from accelsim.search.stopping import Budget, Progress
from tests.test_space import gemm, spaces

REPOSITORY = Path(__file__).resolve().parents[1]
SYSTOLIC = load_architecture(REPOSITORY / "arch" / "systolic.yaml")
CONV = load_workload(REPOSITORY / "workloads" / "conv.yaml").layers[0]
VALUES = {
    "energy": lambda result: result.energy_pj,
    "cycles": lambda result: result.cycles,
    "edp": lambda result: result.energy_pj * result.cycles,
    "energy^2*cycles": lambda result: result.energy_pj**2 * result.cycles,
}


def resized(machine: Architecture, **size_words: int) -> Architecture:
    """The machine with other sizes."""
    levels = (replace(level, size_words=size_words.get(level.name, level.size_words)) for level in machine.levels)
    return replace(machine, levels=tuple(levels), sized={})


def all_results(machine: Architecture, einsum: Einsum, mappings: list[Mapping]) -> list[Result]:
    return [evaluate(machine, einsum, mapping) for mapping in mappings]


def first_fanout_broken(machine: Architecture, mapping: Mapping) -> tuple[str, str] | None:
    for level, mapped in zip(machine.levels, mapping.levels, strict=True):
        for rule, axis, loops in (("fanout x", level.x, mapped.x), ("fanout y", level.y, mapped.y)):
            if math.prod(loop.bound for loop in loops) > axis.size:
                return rule, level.name
    return None


def without_time(found: SearchResult) -> SearchResult:
    return replace(found, seconds=0.0)


@settings(max_examples=60)
@given(spaces(most=400), st.sampled_from([*VALUES]))
def test_exhaustive__finds_the_minimum_over_all_mappings(case, objective):
    machine, einsum, mappings = case
    valid = [result for result in all_results(machine, einsum, mappings) if result.valid]
    assume(valid)

    found = map_einsum(machine, einsum, objective=objective, method="exhaustive", workers=1)

    smallest = min(map(VALUES[objective], valid))
    assert VALUES[objective](found.best) == pytest.approx(smallest, rel=1e-12)
    assert found.best in valid or found.best == evaluate(machine, einsum, found.best.mapping)
    assert found.objective == objective


@settings(max_examples=60)
@given(spaces(most=400))
def test_exhaustive__books_every_mapping(case):
    machine, einsum, mappings = case
    results = all_results(machine, einsum, mappings)
    valid = sum(result.valid for result in results)
    fanouts = [first_fanout_broken(machine, mapping) for mapping in mappings]
    expected = {key: fanouts.count(key) for key in set(fanouts) - {None}}
    for result in results:
        assert result.valid or result.violations
    if not valid:
        with pytest.raises(NoValidMappingError, match=rf"^0 of {len(mappings)} mappings seen \(all of the map space\)"):
            map_einsum(machine, einsum, method="exhaustive", workers=1)
        return

    found = map_einsum(machine, einsum, method="exhaustive", workers=1)

    rejected = {(rejection.rule, rejection.level): rejection.count for rejection in found.sample.rejections}
    assert found.space_size == found.sample.seen == len(mappings)
    assert found.sample.valid == valid
    assert found.sample.valid + sum(rejected.values()) == found.sample.seen
    assert {key: count for key, count in rejected.items() if key[0] != "capacity"} == expected
    assert (found.method, found.stop) == ("exhaustive", "exhausted")


@pytest.mark.parametrize("workers", [2, 3])
def test_exhaustive__does_not_depend_on_the_workers(workers):
    machine, einsum = gemm((2, 3), (4, 1), (1, 1), free=1, M=12, N=4, K=4)
    one = map_einsum(machine, einsum, objective="edp", method="exhaustive", workers=1)

    assert without_time(
        map_einsum(machine, einsum, objective="edp", method="exhaustive", workers=workers)
    ) == without_time(one)


def test_exhaustive__ends_at_its_budget():
    machine, einsum = gemm((2, 3), (4, 1), (1, 1), M=12, N=4, K=4)
    found = map_einsum(machine, einsum, method="exhaustive", budget=Budget(mappings=500), workers=2)

    assert found.stop == "budget"
    assert 500 <= found.sample.seen < found.space_size
    assert found.sample.seen == found.sample.valid + sum(rejection.count for rejection in found.sample.rejections)


@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_random__of_a_number_of_mappings_is_the_same_for_any_workers_and_twice(objective):
    """50,000 draws are four pieces of work."""

    def found(workers: int, seed: int = 3) -> SearchResult:
        budget = Budget(mappings=50_000)
        return without_time(
            map_einsum(SYSTOLIC, CONV, objective=objective, method="random", budget=budget, seed=seed, workers=workers)
        )

    one = found(1)

    assert found(1) == found(2) == found(3) == one
    assert (one.sample.seen, one.stop, one.seed) == (50_000, "budget", 3)
    assert 0 < one.sample.valid == one.sample.seen - sum(rejection.count for rejection in one.sample.rejections)
    assert found(1, seed=4).sample != one.sample


def test_random__does_not_depend_on_the_size_of_pieces(monkeypatch):
    """3,000 draws in one piece, in six and in hundreds."""
    found = []
    for draws in (3_000, 500, 11):
        monkeypatch.setattr(accelsim.search.mapper, "DRAWS", draws)
        budget = Budget(mappings=3_000)
        found.append(without_time(map_einsum(SYSTOLIC, CONV, method="random", budget=budget, workers=2)))
    assert found[0] == found[1] == found[2]


@settings(max_examples=30)
@given(spaces(most=400), st.sampled_from([*VALUES]), st.integers(0, 2**32))
def test_random__is_no_better_than_exhaustive_and_as_good_once_it_saw_all(case, objective, seed):
    """Of 400 mappings one is missed by 20,000 draws with a chance of e^-50."""
    machine, einsum, mappings = case
    try:
        best = map_einsum(machine, einsum, objective=objective, method="exhaustive", workers=1).best
    except NoValidMappingError:
        with pytest.raises(NoValidMappingError, match=r"^0 of 99 mappings seen"):
            map_einsum(machine, einsum, method="random", budget=Budget(mappings=99), seed=seed, workers=1)
        return
    value = VALUES[objective]

    def drawn(count: int) -> SearchResult:
        budget = Budget(mappings=count)
        return map_einsum(machine, einsum, objective=objective, method="random", budget=budget, seed=seed, workers=1)

    assert value(drawn(50 * len(mappings)).best) == pytest.approx(value(best), rel=1e-12)
    try:
        few = drawn(5)
    except NoValidMappingError:
        return
    assert value(few.best) >= value(best) * (1 - 1e-12)


@pytest.mark.parametrize("method", ["exhaustive", "random"])
def test_no_valid_mapping__says_which_rule_removed_how_many(method):
    """Three tensors of one word each do not fit into two words: whatever the tiling, it is L1 that is too small."""
    machine, einsum = gemm((1, 1), (1, 1), M=4, N=2)
    size = MapSpace(encode(machine, einsum)).size
    tight = resized(machine, L1=2)

    with pytest.raises(NoValidMappingError) as caught:
        map_einsum(
            tight, einsum, method=method, budget=Budget(mappings=100) if method == "random" else None, uneven=False
        )

    seen = f"{size} mappings seen (all of the map space)" if method == "exhaustive" else "100 mappings seen"
    count = size if method == "exhaustive" else 100
    assert str(caught.value).startswith(f"0 of {seen}")
    assert f"{count} break capacity of L1" in str(caught.value)


def test_exhaustive__refuses_a_space_that_would_take_years_and_says_how_large_it_is():
    size = MapSpace(encode(SYSTOLIC, CONV)).size

    with pytest.raises(AccelsimError, match=re.escape(f"{size:.3g} mappings")):
        map_einsum(SYSTOLIC, CONV, method="exhaustive")


def test_auto__is_exact_unless_mappings_are_counted():
    exact = map_einsum(*gemm((1, 1), (1, 1), M=4), uneven=False)
    drawn = map_einsum(SYSTOLIC, CONV, budget=Budget(mappings=20_000))

    assert (exact.method, exact.stop, exact.sample, exact.certificate.proved) == ("exact", "exhausted", None, True)
    assert (drawn.method, drawn.stop, drawn.certificate) == ("random", "budget", None)


def test_exact_and_exhaustive__prove_the_same_optimum():
    machine, einsum = gemm((2, 3), (4, 1), M=12, N=4)
    for objective in VALUES:
        exact = map_einsum(machine, einsum, objective=objective, uneven=False)
        seen = map_einsum(machine, einsum, objective=objective, method="exhaustive")
        assert exact.certificate.value == pytest.approx(seen.certificate.value, rel=1e-12)
        assert seen.certificate.proved
        assert (exact.space_size, seen.sample.seen) == (seen.space_size, seen.space_size)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"top": 0}, "best 0 mappings are none"),
        ({"within": -1.0}, "is no share"),
        ({"top": 2, "method": "random"}, "only an exact search lists"),
        ({"within": 0.1, "budget": Budget(mappings=5)}, "only an exact search lists"),
        ({"method": "exact", "budget": Budget(mappings=5)}, "no budget of mappings"),
    ],
)
def test_options__that_do_not_go_together_are_refused(options, said):
    with pytest.raises(AccelsimError, match=said):
        map_einsum(*gemm((1, 1)), **options, uneven=False)


def test_method__unknown_is_refused():
    with pytest.raises(AccelsimError, match="auto, exact, exhaustive or random"):
        map_einsum(*gemm((1, 1)), method="genetic")


@pytest.mark.parametrize(
    ("budget", "value"), [("mappings", 0), ("mappings", -3), ("seconds", 0.0), ("seconds", math.nan)]
)
def test_budget__of_nothing_is_refused(budget, value):
    with pytest.raises(AccelsimError, match="budget of"):
        Budget(**{budget: value})


LONG = gemm((1, 1), (1, 1), (1, 1), (1, 1), M=2**9, N=2**9, K=2**9)
"""All of its mappings fit; there are far too many for a second."""


@pytest.mark.parametrize("method", ["exhaustive", "random"])
def test_seconds__end_a_search_within_a_second(method):
    map_einsum(*LONG, method="random", budget=Budget(mappings=1))  # compile first
    started = time.monotonic()

    found = map_einsum(*LONG, method=method, budget=Budget(seconds=0.4), workers=2, uneven=False)

    assert 0.4 <= time.monotonic() - started < 1.4
    assert found.stop == "timeout"
    assert found.sample.seen < found.space_size
    assert 0 < found.sample.valid == found.sample.seen - sum(rejection.count for rejection in found.sample.rejections)


@pytest.mark.parametrize("method", ["exhaustive", "random"])
def test_interrupt__ends_a_search_with_what_it_found(method):
    told: list[Progress] = []

    def interrupt(progress: Progress) -> None:
        told.append(progress)
        if progress.done and len(told) > 2:
            raise KeyboardInterrupt

    started = time.monotonic()
    found = map_einsum(*LONG, method=method, workers=2, budget=Budget(seconds=30), on_progress=interrupt, uneven=False)

    assert found.stop == "interrupted"
    assert time.monotonic() - started < 10
    assert told[-1].done <= found.sample.seen < found.space_size
    assert 0 < found.sample.valid == found.sample.seen - sum(rejection.count for rejection in found.sample.rejections)
    assert found.best == evaluate(*LONG, found.best.mapping)


def test_progress__grows_towards_its_total():
    told: list[Progress] = []
    found = map_einsum(SYSTOLIC, CONV, budget=Budget(mappings=60_000), workers=2, on_progress=told.append)

    assert all(a.done <= b.done and a.valid <= b.valid for a, b in itertools.pairwise(told))
    assert {progress.total for progress in told} == {60_000}
    assert (told[-1].done, told[-1].valid) == (found.sample.seen, found.sample.valid)
    assert told[-1].best == pytest.approx(found.best.energy_pj, rel=1e-12)
    assert told[-1].best_energy_pj == found.best.energy_pj


numbers = st.floats(0, 10).map(lambda power: f"{power:.3g}") | st.text("0123456789.", min_size=1, max_size=5)
factors = st.builds(
    "{}{}".format, st.sampled_from(["energy", "cycles", "edp", "area"]), st.just("") | numbers.map("^{}".format)
)


@settings(max_examples=300)
@given(st.text(max_size=20) | st.lists(factors, min_size=1, max_size=3).map("*".join))
@example("energy^")
@example("energy^-1")
@example("energy^nan")
@example("energy^" + 400 * "9")
@example("energy^0")
@example("*")
def test_objective__is_a_product_of_powers_or_refused(text):
    try:
        goal = Objective.parse(text)
    except AccelsimError:
        return
    assert goal.name == text
    for weight, *powers in goal.terms:
        assert 0 < weight < math.inf
        assert 0 < max(powers) <= sum(powers) <= 8
    expected = sum(weight * 3.0**a * 5.0**b * 7.0**c for weight, a, b, c in goal.terms)
    assert goal.value(3.0, 5, 7) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "powers"),
    [("energy", (1, 0)), ("edp", (1, 1)), ("energy*cycles^2*energy^0.5", (1.5, 2)), ("cycles*cycles", (0, 2))],
)
def test_objective__adds_up_powers(text, powers):
    goal = Objective.parse(text)
    assert goal.powers == powers


@pytest.mark.parametrize(("text", "weight"), [("2*energy*3", 6.0), ("0.5*4*cycles", 2.0), ("energy", 1.0)])
def test_objective__multiplies_the_numbers_of_a_product(text, weight):
    ((found, *_),) = Objective.parse(text).terms
    assert found == weight


@settings(max_examples=60)
@given(st.lists(factors, min_size=1, max_size=3).map("*".join))
@example("energy^1000")
@example("cycles^300")
def test_objective__never_ends_in_a_traceback(text):
    machine, einsum = gemm((1, 1), (1, 1), M=4, N=3, K=3)
    try:
        found = map_einsum(machine, einsum, objective=text, workers=1, uneven=False)
    except AccelsimError:
        return
    assert found.best.valid
