"""Walks through the map space: what they find is valid, as good as it says, and better than draws."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim import load_architecture, load_constraints, load_workload
from accelsim.inputs.errors import NoValidMappingError
from accelsim.inputs.objective import Objective
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import decode_mapping, encode
from accelsim.model.evaluate import evaluate_encoded
from accelsim.search.descent import FIRST_WALKS, SHORT, Descent, choices_of
from accelsim.search.descent_kernel import MANY_DRAWN
from accelsim.search.exact import bounds, optimum
from accelsim.search.exact.aim import Aim, Solved, Watch
from accelsim.search.exact.front import front_of, map_front
from accelsim.search.mapper import map_einsum
from accelsim.search.stopping import Budget
from accelsim.search.value_kernel import terms_of
from tests.brute import product
from tests.problems import problem

CASES = [
    ("ethos.yaml", "mb.yaml", None, None),
    ("edgetpu.yaml", "mb.yaml", None, None),
    ("gemmini_one.yaml", "gemmini_conv_psums16.yaml", None, None),
    ("zigzag_eyeriss_like.yaml", "zigzag_conv.yaml", None, "zigzag_eyeriss_constraints.yaml"),
    ("deep5.yaml", "layers.yaml", "gemm512", None),
]
"""Machines and layers in `../shared/cases`, with constraints."""
POWERS = {"energy": (1.0, 0.0), "cycles": (0.0, 1.0), "edp": (1.0, 1.0)}


def space_of(machine, layer, constraints=None):
    return MapSpace(encode(machine, layer), constraints)


@given(st.integers(0, 2**31), st.sampled_from([(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 0.0, 1.0), (1.0, 0.0, 1.0)]))
def test_descent__finds_a_valid_mapping_of_the_value_it_says(seed, power):
    space = space_of(*problem(seed, most=2000))
    found = Descent(space, terms_of(product(*power)), seed=seed, steps=SHORT // FIRST_WALKS).go(FIRST_WALKS)
    if found is None:
        return
    result = evaluate_encoded(space.encoded, decode_mapping(space.encoded, found.mapping, 0))
    assert result.valid
    assert not space.constraints.broken_by(result.mapping, space.encoded.einsum)
    assert result.cycles <= space.most[1]
    columns = result.energy_pj, result.cycles, result.offchip_words
    assert found.column[:3] == pytest.approx(columns, rel=1e-12)
    value = math.prod(column**exponent for column, exponent in zip(columns, power, strict=False))
    assert found.value == pytest.approx(value, rel=1e-9)


def test_walks__take_more_steps_the_more_there_were():
    space = space_of(*problem(1, most=2000))
    descent = Descent(space, terms_of(product(1.0, 0.0)), steps=10)
    for walks, steps in ((FIRST_WALKS, 10), (4 * FIRST_WALKS, 40), (16 * FIRST_WALKS, 160), (1, 640)):
        before = descent.evaluated
        descent.go(walks)
        assert descent.evaluated - before == walks * (MANY_DRAWN + steps)


def test_walks_by_energy__lead_to_a_small_edp():
    """Walks that lower the product alone end 18 % above: few steps lower both."""
    machine = load_architecture(Path(__file__).parents[1] / "benchmarks" / "corpus" / "machines" / "tetris.yaml")
    layer = load_workload({"workload": {"name": "g", "gemm": {"M": 512, "N": 1024, "K": 1024}}}).layers[0]
    cheapest = map_einsum(machine, layer, uneven=False)
    assert cheapest.certificate.proved
    space = space_of(machine, layer)
    busy = math.prod(1 << int(math.log2(size)) for size in space.encoded.constants.fanout.ravel().tolist())
    found = Descent(space, terms_of(Objective.parse("edp")), steps=4 * SHORT).go(2 * FIRST_WALKS)
    least = cheapest.best.energy_pj * layer.macs / busy  # all bounds are powers of two, and so are spreads
    assert least <= found.value < 1.1 * least


def test_descent__finds_the_optimum_of_nearly_every_small_space():
    """Of 25 random problems with at most 2,000 mappings each; none is below the optimum."""
    missed = 0
    for seed in range(25):
        machine, einsum, constraints = problem(seed, most=2000)
        found = Descent(space_of(machine, einsum, constraints), terms_of(product(*(1.0, 1.0)))).go(2)
        try:
            best = map_einsum(machine, einsum, constraints=constraints, objective="edp", method="exhaustive").best
        except NoValidMappingError:
            assert found is None
            continue
        assert found is not None
        assert found.value >= best.edp * (1 - 1e-9)
        missed += found.value > best.edp * (1 + 1e-9)
    assert missed <= 1


def test_first_walks__look_at_no_more_mappings_than_there_are():
    """But for those that each walk draws first; large spaces are walked through as far as ever."""
    watch = Watch(None, Budget(), None, 0.0)
    aim = Aim(Objective.parse("energy"), np.full(3, np.inf), 1, watch)
    for machine, layer in (problem(7, most=2000)[:2], (load_architecture("eyeriss"), load_workload("conv").layers[0])):
        space = space_of(machine, layer)
        solved = Solved()
        optimum.walk_in(space, space, aim, solved, None)
        ((descent, _),) = solved.descents
        steps = space.size // FIRST_WALKS if space.size < 20_000 else SHORT
        assert descent.evaluated == FIRST_WALKS * (MANY_DRAWN + steps)


def test_descent__of_one_level_moves_no_factor_elsewhere():
    level = {
        "name": "DRAM",
        "class": "DRAM",
        "word": "16 bit",
        "energy": {"read": "2 pJ", "write": "2 pJ", "source": "test"},
    }
    mac = {"name": "MAC", "class": "intmac", "energy": {"compute": "1 pJ", "source": "test"}}
    machine = load_architecture({"architecture": {"name": "one", "levels": [level], "compute": mac}})
    space = space_of(machine, load_workload("gemm").layers[0])
    assert len(space.slots) == 1
    found = Descent(space, terms_of(product(*(1.0, 0.0)))).go(2)
    assert found.value == map_einsum(machine, load_workload("gemm").layers[0], uneven=False).best.energy_pj


def test_descent__is_the_same_for_any_number_of_workers():
    space = space_of(load_architecture("simba"), load_workload("conv").layers[0])
    one, three = (Descent(space, terms_of(product(*(1.0, 0.0))), workers=workers).go(5) for workers in (1, 3))
    assert one.value == three.value
    assert all(np.array_equal(a, b) for a, b in zip(one.mapping, three.mapping, strict=True))


def test_descent__goes_on_where_it_ended():
    space = space_of(load_architecture("simba"), load_workload("conv").layers[0])
    at_once, in_turn = Descent(space, terms_of(product(*(1.0, 1.0)))), Descent(space, terms_of(product(*(1.0, 1.0))))
    in_turn.go(2)
    assert at_once.go(6).value == in_turn.go(4).value
    assert at_once.evaluated == in_turn.evaluated


@pytest.mark.parametrize("objective", POWERS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_descent__is_no_worse_than_100_000_draws(shared, case, objective):
    machine_file, layers, name, asked = case
    folder = shared / "cases"
    machine = load_architecture(folder / machine_file)
    layer = next(each for each in load_workload(folder / layers).layers if name in (None, each.name))
    constraints = load_constraints(folder / asked, machine, layer) if asked else None
    walked = Descent(space_of(machine, layer, constraints), terms_of(product(*POWERS[objective]))).go(8)
    budget = Budget(mappings=100_000)
    drawn = map_einsum(
        machine, layer, constraints=constraints, objective=objective, method="random", budget=budget
    ).best
    energy, cycles = POWERS[objective]
    assert walked.value <= drawn.energy_pj**energy * drawn.cycles**cycles


def test_choices__count_the_factorisations_that_draws_choose_from():
    space = space_of(*problem(3, most=2000))
    choices = choices_of(space, terms_of(product(*(1.0, 0.0))))
    for d, dim in enumerate(space.encoded.dims):
        rows = len(space.rows[space.dims.index(dim)]) if dim in space.dims else 1
        assert choices.ways[d, 0, choices.many[d] - 1] == rows


@pytest.fixture
def ethos(shared: Path):
    folder = shared / "cases"
    return load_architecture(folder / "ethos.yaml"), load_workload(folder / "mb.yaml").layers[0]


def test_map_einsum__answers_where_the_clock_stops_the_tables(ethos, monkeypatch):
    def late(self):
        if self.deadline is not None:
            raise TimeoutError
        return time.monotonic()

    monkeypatch.setattr(bounds.BoundsMaker, "_look_at_clock", late)
    found = map_einsum(*ethos, budget=Budget(seconds=0.3), uneven=False)
    assert found.stop == "timeout"
    assert not found.certificate.proved
    assert 0.0 < found.certificate.bound < found.best.energy_pj < 20e6  # 13.81 uJ is proved; draws have 14.03


def test_map_einsum__answers_where_tables_would_not_fit(ethos, monkeypatch):
    monkeypatch.setattr(bounds, "MOST_BYTES", 1000)
    found = map_einsum(*ethos, uneven=False)
    assert found.stop == "memory"
    assert found.best.energy_pj == pytest.approx(13.8071e6, rel=1e-5)
    assert map_einsum(*ethos, objective="cycles", uneven=False).best.cycles == 56_448
    front = front_of(space_of(*ethos), budget=None, workers=2, on_progress=None)
    assert front.stop == "memory"
    assert front.points


def test_map_front__has_points_of_walks_where_it_is_stopped(ethos):
    front = front_of(space_of(*ethos), budget=Budget(seconds=0.5), workers=2, on_progress=None)
    if front.stop == "timeout":
        assert min(point.energy_pj for point in front.points) < 20e6
    energies, cycles = zip(*((point.energy_pj, point.cycles) for point in front.points), strict=True)
    assert sorted(energies) == list(energies)
    assert sorted(cycles, reverse=True) == list(cycles)


@pytest.mark.parametrize("objective", ["energy", "cycles", "edp"])
def test_map_front__holds_the_least_of_each_that_walks_find_whatever_the_time(objective):
    asked = load_architecture("simba"), load_workload("gemm").layers[0]
    front, goal = map_front(*asked, budget=Budget(seconds=1e-9)), Objective.parse(objective)
    assert front.stop == "timeout"
    walked = Descent(space_of(*asked), terms_of(goal)).go(FIRST_WALKS)
    assert min(map(goal.of, front.points)) <= walked.value * (1 + 1e-9)
