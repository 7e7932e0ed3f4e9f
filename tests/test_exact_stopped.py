"""Long exact searches: of many waves and workers, or stopped before their end, with what their certificates prove."""

from __future__ import annotations

import dataclasses
import functools
import math
import random

import numpy as np
import pytest

from accelsim import load_architecture, load_workload
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.objective import LEAST_EDP
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.model.evaluate import evaluate
from accelsim.search.exact import aim, bounds, mapper, optimum, parts, solve
from accelsim.search.exact.front import map_front
from accelsim.search.exact.solve import Solver
from accelsim.search.mapper import map_einsum
from accelsim.search.result import Certificate
from accelsim.search.stopping import Budget
from tests.brute import Truth, product, truth
from tests.problems import MOST, problem
from tests.test_exact import SAME, Problem


@functools.cache
def few_problems() -> list[tuple[Problem, Truth]]:
    """Problems with their truth."""
    found = [(problem(seed), truth(*problem(seed), MOST)) for seed in range(40)]
    return [(case, known) for case, known in found if known is not None and known.valid]


class Full:
    """Numpy on a machine that has no memory left."""

    def __getattr__(self, name):
        return getattr(np, name)

    def empty(self, *_):
        raise MemoryError


def test_memory__that_is_allowed_and_not_there__stops_the_tables_alone(monkeypatch):
    architecture, einsum = load_architecture("systolic"), load_workload("conv").layers[0]
    best = map_einsum(architecture, einsum, uneven=False)
    monkeypatch.setattr(bounds, "np", Full())

    found = map_einsum(architecture, einsum, uneven=False, budget=Budget(memory_bytes=1 << 50))

    assert found.stop == "memory"
    assert found.certificate.bound <= best.best.energy_pj <= found.best.energy_pj


def test_fastest_mapping__takes_the_least_energy_whatever_walks_find(monkeypatch):
    """Tables of faster mappings than a walk found hold none that is as fast."""
    looked = 0
    for module in (mapper, parts):
        monkeypatch.setattr(module, "widest", lambda *_: None)
    for (machine, einsum, constraints), known in few_problems():
        fastest = np.flatnonzero(known.cycles == known.cycles.min())
        energies = known.energy_pj[fastest]
        worst = evaluate(machine, einsum, known.mapping(int(fastest[energies.argmax()])))

        def walk(_space, _target, aim, solved, *_, worst=worst):
            if aim.objective.alone == "cycles":
                solved.best, solved.value, solved.walked = worst, float(worst.cycles), True

        monkeypatch.setattr(optimum, "walk_in", walk)
        found = map_einsum(machine, einsum, constraints=constraints, objective="cycles", uneven=False, workers=1).best

        assert (found.cycles, found.energy_pj) == (worst.cycles, pytest.approx(energies.min(), rel=1e-12))
        looked += energies.max() > energies.min()
    assert looked > 20


def test_workers__do_not_change_the_result():
    architecture, einsum = load_architecture("nvdla"), load_workload("conv").layers[0]

    one, three = (
        map_einsum(architecture, einsum, objective="edp", workers=workers, uneven=False) for workers in (1, 3)
    )

    assert one.best == three.best
    assert one.certificate == three.certificate


def test_workers__do_not_change_what_many_waves_look_at(monkeypatch):
    monkeypatch.setattr(solve, "SMALL", 0)
    monkeypatch.setattr(solve, "FIRST_WAVE", 1)
    for case, _ in few_problems()[4:7]:  # whose nodes depend on the order of what is found
        space, outcomes = MapSpace(encode(case[0], case[1]), case[2]), []
        for workers in (1, 3):
            found = Solver(space, cycles=True, workers=workers).search(objective=LEAST_EDP)
            outcomes.append((found.nodes, found.leaves, found.bound, [array.tobytes() for array in found.found.best]))
        assert outcomes[0] == outcomes[1]


def test_lists__of_many_waves_hold_each_mapping_once(monkeypatch):
    monkeypatch.setattr(solve, "SMALL", 0)
    monkeypatch.setattr(solve, "FIRST_WAVE", 1)
    for case, known in few_problems()[:4]:
        found = Solver(MapSpace(encode(case[0], case[1]), case[2]), every=True).search(room=25).found
        assert found.value[: found.many[0]] == pytest.approx(known.smallest(25), rel=SAME)


def test_early_stop__has_a_mapping_and_a_gap():
    space = MapSpace(encode(load_architecture("gpu_sm"), load_workload("conv").layers[0]))

    outcome = Solver(space, cycles=True).search(objective=LEAST_EDP, deadline=0.0)

    assert outcome.stop == "timeout"
    assert outcome.found.many[0] == 1
    assert 0 < outcome.bound <= outcome.found.value[0]


@pytest.mark.parametrize("power", [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0)])
def test_stopped_search__bounds_the_optimum(power, monkeypatch):
    """Stopped after any number of nodes, in waves of several pieces each."""
    monkeypatch.setattr(solve, "SMALL", 0)
    monkeypatch.setattr(solve, "FIRST_WAVE", 1)
    stopped = 0
    for case, known in few_problems()[:15]:
        solver, best = Solver(MapSpace(encode(case[0], case[1]), case[2]), cycles=power[1] > 0), known.best(*power)
        for nodes in (1, 20, 400):
            outcome = solver.search(objective=product(*power), most_nodes=nodes)
            assert outcome.bound <= best * (1 + SAME)
            assert outcome.found.value[0] >= best * (1 - SAME)
            stopped += outcome.stop == "nodes"
    assert stopped > 10


def test_floor__no_mapping_falls_below():
    for case, known in few_problems():
        space = MapSpace(encode(case[0], case[1]), case[2])
        for power in ((1.0, 0.0), (0.0, 1.0), (2.0, 1.0)):
            assert 0 < optimum.floor_of(space, product(*power)) <= known.best(*power)


@pytest.mark.parametrize("seed", range(40))
def test_floor__of_networks_that_are_passed_by_is_no_more_than_the_best(seed):
    """Energy lies in networks alone; what those further in share does not cross the ones further out."""
    rng = random.Random(seed)
    free = {"read": "0 pJ", "write": "0 pJ"}
    levels = [{"name": "DRAM", "class": "x", "word": "16 bit", "energy": free}]
    levels += [
        {"name": f"Net{i}", "class": "x", "word": "16 bit", "bypass": ["Weights", "Inputs", "Outputs"]}
        for i in range(2)
    ]
    for level in levels:
        transfer = {role: f"{rng.choice([0, 1, 3])} pJ" for role in ("Weights", "Inputs", "Outputs")}
        energy = {"transfer": transfer, "return": f"{rng.choice([0, 1, 3])} pJ"}
        level["fanout"] = {"x": rng.choice([1, 2, 4]), "energy": energy}
    compute = {"class": "x", "energy": {"compute": "1 pJ"}}
    machine = load_architecture({"architecture": {"name": "nets", "levels": levels, "compute": compute}})
    layer = load_workload({"workload": {"name": "w", "gemm": {"M": 4, "N": 2, "K": 4}}}).layers[0]
    best = map_einsum(machine, layer, method="exhaustive").best.energy_pj
    space = MapSpace(encode(machine, layer))
    assert 0 < optimum.floor_of(space, product(1.0, 0.0)) <= best
    assert map_einsum(machine, layer, uneven=False).best.energy_pj == best


UNEVEN = 90

"""A problem whose best mapping is uneven."""


@pytest.mark.parametrize("stopped", ["while tables are made", "in the first space", "after the first space"])
def test_early_stop__bounds_the_optimum_and_proves_nothing_else(stopped, monkeypatch):
    """No walk follows the stop."""
    architecture, einsum, constraints = problem(UNEVEN)
    asked = {"constraints": constraints, "uneven": stopped != "while tables are made", "workers": 1}
    best, bounds = map_einsum(architecture, einsum, **asked).certificate, []

    class Stopped(Solver):
        def __init__(self, *arguments, **options):
            if stopped == "while tables are made":
                raise TimeoutError
            super().__init__(*arguments, **options)

        def search(self, **options):
            few = {"most_nodes": 1} if stopped == "in the first space" else {}
            outcome = super().search(**options | few)
            bounds.append(outcome.bound)
            return dataclasses.replace(outcome, stop="timeout")

    for module in (aim, optimum):
        monkeypatch.setattr(module, "Solver", Stopped)
    monkeypatch.setattr(optimum, "FIRST_WALKS", 1)
    monkeypatch.setattr(optimum, "LAST_WALKS", 0)
    found = map_einsum(architecture, einsum, **asked)
    assert found.stop == "timeout"
    assert 0 < found.certificate.bound <= min([best.value, *bounds])
    assert best.value * (1 - SAME) <= found.certificate.value > found.certificate.bound
    assert not found.certificate.proved


def test_certificate__proves_equality_alone():
    """102 of at least 100 is 2 % more; a relative 1e-11 is rounding."""
    certificates = [Certificate(102.0, bound, 1, 1, 0) for bound in (100.0, 102.0, 102.0 * (1 - 1e-11), 103.0, 0.0)]
    assert [each.gap for each in certificates] == pytest.approx([0.02, 0.0, 0.0, 0.0, math.inf], abs=1e-10)
    assert [each.proved for each in certificates] == [False, True, True, True, False]


def test_budget_of_mappings__is_refused():
    with pytest.raises(AccelsimError, match="no budget of mappings"):
        map_einsum(
            load_architecture("eyeriss"), load_workload("gemm").layers[0], method="exact", budget=Budget(mappings=5)
        )


def test_front__stopped_before_its_bounds_are_there_has_mappings_and_their_values() -> None:
    """Tables of bounds for cycles take longer than the time that there is; walks find mappings all the same."""
    machine, layer = load_architecture("eyeriss"), load_workload("conv").layers[0]
    found = map_front(machine, layer, ("energy", "cycles", "capacity:GLB"), budget=Budget(seconds=1e-3), workers=1)
    assert found.stop == "timeout"
    assert found.points
    for point, values in zip(found.points, found.values, strict=True):
        assert point.valid
        assert values == (point.energy_pj, point.cycles, next(e.used_words for e in point.levels if e.level == "GLB"))


def test_remainders__are_evaluated_while_there_is_time(monkeypatch):
    """Time is up when the search has listed what costs least: no more is evaluated, and the list bounds the rest."""
    architecture, gemm = load_architecture("nvdla"), load_workload("gemm").layers[0]
    einsum = dataclasses.replace(gemm, dims=dict(zip(gemm.dims, (7, 31, 61), strict=True)))
    mapper.get_ready()
    now, listed, evaluated = [1.0], [], []
    search, evaluate = Solver.search, optimum._evaluate

    def late(solver, **options):
        outcome = search(solver, **options)
        if solver.space.imperfect:
            listed.extend(outcome.found.value[: int(outcome.found.many[0])].tolist())
            now[0] += 100.0
        return outcome

    def counted(*what):
        evaluated.extend(listed[:1])
        return evaluate(*what)

    monkeypatch.setattr(optimum.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Solver, "search", late)
    monkeypatch.setattr(optimum, "_evaluate", counted)

    found = map_einsum(architecture, einsum, imperfect="all", objective="edp", budget=Budget(seconds=50), workers=1)

    assert len(listed) > 1
    assert not evaluated
    assert found.stop == "timeout"
    assert found.certificate.bound == pytest.approx(min(listed[0], found.certificate.value))
    assert found.certificate.bound <= found.certificate.value


def test_bound__of_what_leaks_is_above_no_best_mapping():
    """The search begins with the least energy as its limit and nothing else, so a bound above it loses the mapping."""
    leaking = 0
    for seed in range(0, 400, 2):
        case = problem(seed)
        known = truth(*case, MOST)
        if known is None or not known.valid or not any(encode(*case[:2]).constants.leak):
            continue
        solver = Solver(MapSpace(encode(*case[:2]), case[2]))
        found = solver.search(objective=product(1.0, 0.0), limit=known.best(1.0, 0.0) * (1 + 1e-9)).found
        assert found.many[0], seed
        leaking += 1
    assert leaking > 40


def test_bound__counts_what_leaks_while_all_wait_for_a_port():
    """Without it 28,966 nodes are needed: what all mappings leak at least is that of the fastest one."""
    energy, cheap = (dict.fromkeys(("read", "write"), f"{pj} pJ") for pj in (1, 0.1))
    slow = {"name": "L1", "class": "SRAM", "word": "8 bit", "size": "128 B", "bandwidth": "0.1 words/cycle"}
    levels = [
        {"name": "DRAM", "class": "DRAM", "word": "8 bit", "energy": {"read": "5 pJ", "write": "5 pJ"}},
        {**slow, "energy": {**energy, "leak": "100 pJ"}, "fanout": {"x": 4}},
        {"name": "RF", "class": "regfile", "word": "8 bit", "size": "8 B", "energy": {**cheap, "leak": "1 pJ"}},
    ]
    compute = {"name": "MAC", "class": "intmac", "energy": {"compute": "0.5 pJ"}}
    machine = {"architecture": {"name": "leaky", "clock": "1 GHz", "levels": levels, "compute": compute}}
    layer = load_workload({"workload": {"name": "g", "gemm": {"M": 12, "N": 10, "K": 8}, "bits": 8}}).layers[0]

    found = map_einsum(load_architecture(machine), layer, workers=1, uneven=False)

    assert found.certificate is not None
    assert found.certificate.proved
    assert found.certificate.nodes < 10_000
