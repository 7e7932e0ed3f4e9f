"""Windows in square layers, with strides: whole passes over them, and rows and columns that change places."""

from __future__ import annotations

import dataclasses
import math
import random

import numpy as np
import pytest

from accelsim import load_architecture, load_constraints, load_workload
from accelsim.inputs.objective import LEAST_ENERGY, Objective
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.search.exact import layout
from accelsim.search.exact import symmetries as exchanged
from accelsim.search.exact.layout import make_structure
from accelsim.search.exact.relaxation import Relaxation
from accelsim.search.exact.shapes import make_grid
from accelsim.search.exact.solve import Solver
from accelsim.search.exact.symmetries import symmetries
from accelsim.search.exact.tables import Bounds
from accelsim.search.exact.worth import Known
from tests.brute import FREE, truth
from tests.problems import problem

POWERS = {"energy": (1.0, 0.0), "cycles": (0.0, 1.0), "edp": (1.0, 1.0)}
SAME = 1e-9
SQUARE = {"Q": 4, "R": 3, "S": 3, "stride": 2}


def space_of(workload: dict[str, object], rules: dict[str, object] | None = None) -> MapSpace:
    machine, layer = load_architecture("two_level"), load_workload({"workload": {"name": "w", **workload}}).layers[0]
    constraints = load_constraints({"constraints": rules}, machine, layer) if rules else None
    return MapSpace(encode(machine, layer), constraints)


def conv(**changes: int) -> dict[str, object]:
    return {"conv": {"N": 1, "K": 4, "C": 6, "P": 4, "Q": 6, "R": 1, "S": 1, **changes}}


def windowed(seed: int):
    """A machine of a problem, and a layer with two windows of equal bounds, mostly with a stride."""
    rng, machine = random.Random(seed), problem(seed)[0]
    p, r, by = rng.choice([2, 3, 4, 6]), rng.choice([2, 2, 3]), rng.choice([1, 2, 2, 3])
    dims = {"C": rng.choice([1, 2]), "P": p, "R": r} | ({"Q": p, "S": r} if rng.random() < 0.7 and p < 6 else {})
    ranks = [(("P", by), ("R", 1)), *([(("Q", by), ("S", 1))] if "Q" in dims else [])]
    weights = Tensor("W", tuple(((d, 1),) for d in "CRS" if d in dims), "Weights")
    inputs, output = (
        Tensor("I", ((("C", 1),), *ranks)),
        Tensor("O", tuple(((d, 1),) for d in "CPQ" if d in dims), "Outputs", output=True),
    )
    return machine, Einsum("windows", dims, (inputs, *([weights] if rng.random() < 0.5 else []), output))


@pytest.mark.parametrize("group", range(6))
def test_windows_of_equal_bounds_and_with_strides__without_walks_agree_with_brute_force(group):
    symmetric, whole = 0, 0
    for seed in range(group, 420, 6):
        machine, einsum = windowed(seed)
        known = truth(machine, einsum, FREE, 40_000)
        if known is None or not known.valid:
            continue
        goal = list(POWERS)[seed // 6 % 3]
        solver = Solver(MapSpace(encode(machine, einsum), FREE), cycles=goal != "energy")

        outcome = solver.search(objective=Objective.parse(goal))

        assert outcome.root_bound <= known.best(*POWERS[goal]) * (1 + SAME), seed
        assert math.isclose(float(outcome.found.value[0]), known.best(*POWERS[goal]), rel_tol=SAME), seed
        symmetric += bool(symmetries(solver.relaxation.grid))
        whole += bool(make_structure(solver.relaxation.grid).whole)
    assert symmetric > 5
    assert whole > 5


@pytest.mark.parametrize(
    ("changes", "rules", "many"),
    [
        ({"Q": 4, "R": 3, "S": 3}, None, 1),
        ({"Q": 4, "R": 3, "S": 3, "stride": 2}, None, 1),
        ({"Q": 4, "R": 3, "S": 2}, None, 0),
        ({"Q": 6, "R": 3, "S": 3}, None, 0),
        ({"Q": 4, "R": 3, "S": 3}, {"levels": [{"level": "BUF", "temporal": {"factors": ["P=2"]}}]}, 0),
        ({"Q": 4, "R": 3, "S": 3}, {"levels": [{"level": "BUF", "temporal": {"only": ["K", "R"]}}]}, 0),
        ({"Q": 4, "R": 3, "S": 3}, {"levels": [{"level": "BUF", "temporal": {"factors": ["K=2"]}}]}, 1),
    ],
)
def test_symmetries__of_rows_and_columns(changes, rules, many):
    assert len(symmetries(make_grid(space_of(conv(**changes), rules)))) == many


@pytest.mark.parametrize(("bound", "imperfect", "many"), [(7, "", 1), (7, "PQ", 1), (7, "P", 0), (2, "P", 0)])
def test_symmetries__of_dimensions_of_which_all_or_none_leave_remainders(bound, imperfect, many):
    space = space_of(conv(P=bound, Q=bound))
    ragged = MapSpace(space.encoded, space.constraints, frozenset(imperfect))
    assert len(symmetries(make_grid(ragged))) == many


def tables_of(space: MapSpace, known: Known | None) -> tuple[Bounds, int]:
    """The tables of a space, and how many classes of orders fill them."""
    layout.layout_of.cache_clear()
    found = Relaxation(space, known=known, grid=dataclasses.replace(make_grid(space))).filled.energy
    blocks = [layout.layout_of(found.grid).blocks(level, frozenset()) for level in range(1, len(found.around))]
    return found, sum(len(alike) for each in blocks for _, alike in each.classes)


@pytest.mark.parametrize("share", [None, 0.2])
@pytest.mark.parametrize("seed", [None, 4, 13, 16, 20, 21, 26])
def test_tables_of_square_layers__are_those_that_all_shapes_and_orders_give(seed, share, monkeypatch):
    machine, einsum = load_architecture("simba"), load_workload({"workload": {"name": "w", **conv(**SQUARE)}}).layers[0]
    machine, einsum = (machine, einsum) if seed is None else windowed(seed)
    space = MapSpace(encode(machine, einsum))
    assert symmetries(make_grid(space))
    best = float(Solver(space).search().found.value[0])
    known = None if share is None else Known(LEAST_ENERGY, best * (1 + share), np.full(3, np.inf))

    half, fewer = tables_of(space, known)
    monkeypatch.setattr(exchanged, "symmetries", lambda grid: [])
    whole, every = tables_of(space, known)

    layout.layout_of.cache_clear()
    assert fewer < every
    np.testing.assert_allclose(half.values, whole.values, rtol=1e-12)
    if known is not None:
        assert half.states.keys() == whole.states.keys()
        for place, states in whole.states.items():
            assert all((half.states[place][parents] == live).all() for parents, live in states.items())


def test_whole_passes_of_a_window__bound_a_pooling_layer_closely(monkeypatch):
    """The stride leaves gaps in a tile of several rows: a pass over the window costs what its first step does not."""
    machine = load_architecture("eyeriss_isca2016")
    inputs = Tensor("Inputs", ((("C", 1),), (("P", 2), ("R", 1)), (("Q", 2), ("S", 1))))
    output = Tensor("Outputs", ((("C", 1),), (("P", 1),), (("Q", 1),)), "Outputs", output=True)
    space = MapSpace(encode(machine, Einsum("pooling", {"C": 4, "P": 8, "Q": 8, "R": 2, "S": 2}, (inputs, output))))

    outcome = Solver(space).search()
    monkeypatch.setattr(
        layout, "make_structure", lambda grid: dataclasses.replace(make_structure(grid), whole=frozenset())
    )
    layout.layout_of.cache_clear()
    loose = Solver(space).search()

    best = float(outcome.found.value[0])
    assert best == float(loose.found.value[0])
    assert loose.root_bound < 0.985 * best < 0.995 * best < outcome.root_bound


def test_windows_without_a_stride__are_bounded_without_whole_passes():
    """A loop further in could end where a pass does: here R over P, of rows of outputs that lie next to each other."""
    machine, einsum, rules = problem(3737)
    known = truth(machine, einsum, rules, 20_000)

    outcome = Solver(MapSpace(encode(machine, einsum), rules), cycles=True).search(objective=Objective.parse("edp"))

    assert known is not None
    assert einsum.name == "transposed conv"
    assert outcome.root_bound <= known.best(1.0, 1.0) * (1 + SAME)
