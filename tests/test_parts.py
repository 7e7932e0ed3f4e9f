"""Searches in parts: spaces that differ in what levels keep, each with tables of its own; the same optimum."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pytest

from accelsim import Budget, map_einsum
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import NoValidMapping, TooManyChoices
from accelsim.inputs.nodes import with_nodes
from accelsim.mapspace.merging import merged
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.search.exact import mapper
from accelsim.search.exact.aim import Aim
from accelsim.search.exact.solve import Solver
from accelsim.search.spaces import open_keeps, parts_of
from accelsim.search.stopping import Progress
from tests.brute import FREE, Truth, truth
from tests.problems import problem

GOALS = {"energy": (1.0, 0.0), "cycles": (0.0, 1.0), "edp": (1.0, 1.0)}
SPACES, PROBLEMS, MOST = 60, 6, 20_000


@dataclass
class Parts:
    """What walks were, and how many parts there were."""

    walk: Callable[..., None]
    many: int = 0


@pytest.fixture
def always_in_parts(monkeypatch: pytest.MonkeyPatch) -> Parts:
    """Searches look at parts before anything else, and walks find nothing."""
    nodes, parts, found = Solver._coarse_nodes, mapper.parts_of, Parts(mapper._walk)

    def counted(space):
        for part in parts(space):
            found.many += 1
            yield part

    monkeypatch.setattr(Solver, "_coarse_nodes", lambda s, goal: 0 if s.patience < math.inf else nodes(s, goal))
    monkeypatch.setattr(mapper, "parts_of", counted)
    monkeypatch.setattr(mapper, "_walk", lambda *_: None)
    return found


def _asked(seed: int, constraints: Constraints) -> Constraints:
    return FREE if random.Random(seed).random() < 0.5 else constraints


def _known(seed: int, uneven: bool) -> tuple[tuple, Truth | None]:
    machine, einsum, constraints = problem(seed)
    constraints = _asked(seed, constraints)
    nodes = with_nodes(machine, einsum, constraints) if uneven else machine
    return (machine, einsum, constraints), truth(nodes, einsum, constraints, MOST)


def _valid(seeds: Iterable[int]) -> Iterator[tuple[int, tuple, Truth]]:
    """Even problems that have a mapping, and the truth about them."""
    for seed in seeds:
        case, known = _known(seed, uneven=False)
        if known is not None and known.valid:
            yield seed, case, known


@pytest.mark.parametrize("uneven", [False, True])
def test_parts__hold_each_mapping_of_a_space_once(uneven):
    divided = 0
    for seed in range(SPACES):
        machine, einsum, constraints = problem(seed)
        constraints = _asked(seed, constraints)
        nodes = with_nodes(machine, einsum, constraints) if uneven else machine
        space = merged(MapSpace(encode(nodes, einsum), constraints))
        if not open_keeps(space)[1]:
            continue
        sizes = [part.quick_size for part in parts_of(space)]
        if space.quick_size is None or None in sizes:
            continue
        assert sum(sizes) == space.quick_size, seed
        divided += len(sizes) > 1
    assert divided > SPACES // 4


@pytest.mark.parametrize("uneven", [False, True])
def test_search__in_parts_finds_the_least_of_all_mappings(uneven, always_in_parts):
    checked = 0
    for seed in range(1000, 1000 + 20 * PROBLEMS):
        (machine, einsum, constraints), known = _known(seed, uneven)
        if known is None:
            continue
        before = always_in_parts.many
        for goal, powers in GOALS.items():
            try:
                found = map_einsum(machine, einsum, constraints=constraints, objective=goal, uneven=uneven, workers=1)
            except NoValidMapping:
                assert not known.valid, (seed, goal)
                continue
            assert found.certificate.proved, (seed, goal)
            assert math.isclose(found.certificate.value, known.best(*powers), rel_tol=1e-9), (seed, goal)
        checked += always_in_parts.many > before
        if checked == PROBLEMS:
            break
    assert checked == PROBLEMS


@pytest.mark.parametrize("searched", [2, 3, 5])
def test_bound__of_parts_that_are_not_searched_is_below_all_mappings(searched, always_in_parts, monkeypatch):
    walk, search, calls, ended = always_in_parts.walk, Solver.search, [0], 0
    monkeypatch.setattr(mapper, "_walk", walk)

    def in_time(self, **options):
        outcome = search(self, **options)
        calls[0] += 1
        if calls[0] == searched and outcome.stop == "exhausted":
            outcome.stop = "nodes"
        return outcome

    monkeypatch.setattr(Solver, "search", in_time)
    for seed, (machine, einsum, constraints), known in _valid(range(2000, 2070)):
        calls[0], told = 0, list[Progress]()
        found = map_einsum(machine, einsum, constraints=constraints, uneven=False, workers=1, on_progress=told.append)
        assert found.certificate.bound <= known.best(*GOALS["energy"]) * (1.0 + 1e-9), seed
        assert all(each.bound is None or each.bound <= found.certificate.value * (1.0 + 1e-9) for each in told), seed
        ended += found.stop == "nodes"
    assert ended > 3


def test_tables_of_parts__count_as_partial_mappings(always_in_parts, monkeypatch):
    """Where no time is given, the tables of all parts but the last have no more entries than there is effort."""
    monkeypatch.setattr(mapper, "_walk", always_in_parts.walk)
    monkeypatch.setattr(mapper, "FURTHER_NODES", 8_000)
    make, solvers, ended = Aim.solver, list[Solver](), 0

    def noted(aim, space, *arguments, **options):
        solver = make(aim, space, *arguments, **options)
        solvers.extend([solver] * (aim.most_nodes == 8_000))
        return solver

    monkeypatch.setattr(Aim, "solver", noted)
    for seed, (machine, einsum, constraints), _ in _valid(range(2012, 2026)):
        solvers.clear()
        found = map_einsum(machine, einsum, constraints=constraints, workers=1)
        assert sum(each.relaxation.bounds.values.size for each in solvers[:-1]) <= 8_000, seed
        ended += found.stop == "effort" and len(solvers) > 1
    assert ended


@pytest.mark.parametrize("walks", [False, True])
@pytest.mark.parametrize("uneven", [False, True])
def test_less_memory__bounds_all_tables_and_proves_nothing_false(uneven, walks, monkeypatch):
    """Tables that would be too large are replaced by others, and by those of parts at last."""
    proved = unproved = 0
    for seed in range(3000, 3000 + SPACES * 2 // 5):
        (machine, einsum, constraints), known = _known(seed, uneven)
        if known is None or not known.valid:
            continue
        goal = list(GOALS)[seed % 3]
        options = {"constraints": constraints, "objective": goal, "uneven": uneven, "workers": 1}
        best = known.best(*GOALS[goal])
        needed = map_einsum(machine, einsum, **options).certificate.table_bytes
        for share in (0.7, 0.3):
            budget = Budget(memory_bytes=max(1, int(needed * share)))
            with monkeypatch.context() as patch:
                patch.setattr(mapper, "_walk", mapper._walk if walks else lambda *_: None)
                try:
                    found = map_einsum(machine, einsum, **options, budget=budget).certificate
                except TooManyChoices:
                    continue
            assert found.table_bytes <= budget.memory_bytes, (seed, share)
            assert found.bound <= best * (1.0 + 1e-9), (seed, share)
            assert found.value >= best * (1.0 - 1e-9), (seed, share)
            proved, unproved = proved + found.proved, unproved + (not found.proved)
    assert proved > 2
    assert unproved > 2 or not walks
