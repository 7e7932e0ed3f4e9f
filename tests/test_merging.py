"""Dimensions that are searched as one, or in the outermost loops alone: the same costs, and the same optimum."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from accelsim import load_architecture, load_constraints, load_workload
from accelsim.inputs.errors import NoValidMappingError
from accelsim.inputs.nodes import with_nodes
from accelsim.inputs.workload import Einsum
from accelsim.mapspace.merging import merged, split
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.model.evaluate import evaluate_encoded
from accelsim.search.exact.front import map_front
from accelsim.search.mapper import map_einsum
from tests.brute import FREE, truth
from tests.problems import problem

PROBLEMS, OUTERMOST = 300, 160
GOALS = {"energy": (1.0, 0.0), "cycles": (0.0, 1.0), "edp": (1.0, 1.0)}


def _merged_problems(uneven: bool) -> list[tuple[int, MapSpace]]:
    found = []
    for seed in range(PROBLEMS):
        machine, einsum, constraints = problem(seed)
        machine = with_nodes(machine, einsum, constraints) if uneven else machine
        space = MapSpace(encode(machine, einsum), constraints)
        if merged(space) is not space:
            found.append((seed, space))
    return found


def _layer(name: str) -> Einsum:
    layers = load_workload(
        {
            "workload": {
                "name": "small",
                "layers": [
                    {"name": "attention", "gemm": {"B": 2, "H": 6, "M": 4, "N": 8, "K": 4}},
                    {"name": "1x1", "conv": {"N": 2, "K": 4, "C": 4, "P": 6, "Q": 6, "R": 1, "S": 1}},
                    {"name": "3x3", "conv": {"N": 2, "K": 4, "C": 4, "P": 6, "Q": 6, "R": 3, "S": 3}},
                    {"name": "3x1", "conv": {"N": 2, "K": 4, "C": 4, "P": 6, "Q": 6, "R": 3, "S": 1}},
                    {"name": "depthwise", "conv": {"K": 6, "C": 6, "P": 6, "Q": 6, "R": 3, "S": 3, "groups": 6}},
                    {
                        "name": "element-wise",
                        "einsum": {
                            "dims": {"A": 4, "B": 6},
                            "tensors": {"Inputs": ["A", "B"], "Weights": ["A"], "Outputs": ["A", "B"]},
                            "output": "Outputs",
                        },
                    },
                    {
                        "name": "pooling",
                        "einsum": {
                            "dims": {"C": 4, "P": 6, "R": 2},
                            "tensors": {"Inputs": ["C", "2*P+R"], "Outputs": ["C", "P"]},
                            "output": "Outputs",
                        },
                    },
                    {
                        "name": "window",
                        "einsum": {
                            "dims": {"K": 4, "P": 6, "R": 2},
                            "tensors": {"Inputs": ["P+R"], "Weights": ["P", "K", "R"], "Outputs": ["P", "K"]},
                            "output": "Outputs",
                        },
                    },
                    {"name": "stride", "conv": {"N": 2, "K": 4, "C": 4, "P": 6, "Q": 6, "R": 1, "S": 1, "stride": 2}},
                ],
            }
        }
    ).layers
    return next(layer for layer in layers if layer.name == name)


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("attention", {"B": ("B", "H")}),
        ("1x1", {"N": ("N", "P", "Q")}),
        ("3x3", {}),
        ("3x1", {"N": ("N", "Q")}),
        ("stride", {}),
    ],
)
def test_merged__joins_what_moves_the_same_tensors_alone_in_its_rank(
    name: str, groups: dict[str, tuple[str, ...]]
) -> None:
    space = MapSpace(encode(load_architecture("two_level"), _layer(name)))
    one = merged(space)
    assert one.merged == groups
    assert one.origin is space
    assert one.encoded.einsum.macs == space.encoded.einsum.macs


def test_merged__leaves_what_constraints_name_or_remainders_tell_apart() -> None:
    encoded = encode(load_architecture("two_level"), _layer("attention"))
    constraint = {"level": "BUF", "temporal": {"factors": ["B=2"]}}
    asked = load_constraints({"constraints": {"levels": [constraint]}}, encoded.architecture, encoded.einsum)
    assert merged(MapSpace(encoded, asked)).merged == {}
    space = MapSpace(encoded, imperfect=frozenset({"H"}))
    assert merged(space) is space


@pytest.mark.parametrize(
    ("layer", "asked", "dims"),
    [
        ("attention", {}, {"B"}),
        ("attention", {"keep": ["Inputs"]}, {"B"}),
        ("attention", {"temporal": {"factors": ["M=2"]}}, {"B", "H"}),
        ("attention", {"temporal": {"factors": ["B=2"]}}, {"H"}),
        ("attention", {"tile": {"sizes": ["B<=1"]}}, set()),
        ("1x1", {}, set()),
        ("depthwise", {}, {"G"}),
        ("element-wise", {}, {"A"}),
        ("pooling", {}, {"C"}),
        ("window", {}, set()),
    ],
)
def test_merged__loops_over_what_moves_all_tensors_outermost(
    layer: str, asked: dict[str, object], dims: set[str]
) -> None:
    encoded = encode(load_architecture("two_level"), _layer(layer))
    rules = {"constraints": {"levels": [{"level": "BUF", **asked}] if asked else []}}
    one = merged(MapSpace(encoded, load_constraints(rules, encoded.architecture, encoded.einsum)))
    assert one.outermost == dims
    for dim in dims:
        assert [sorted(one.allowed(slot, dim)) for slot in one.slots if not slot.axis][1:] == [[1]]


@pytest.mark.parametrize("change", ["overlap", "order", "size", "array"])
def test_merged__leaves_loops_in_place_where_time_or_places_depend_on_them(change: str) -> None:
    machine, rules = load_architecture("systolic" if change == "array" else "two_level"), FREE
    if change == "overlap":
        machine = replace(machine, levels=tuple(replace(level, overlap="none") for level in machine.levels))
    elif change != "array":
        asked = {"temporal": {"order": ["M", "..."]}} if change == "order" else {"tile": {"sizes": ["M<=2"]}}
        levels = [{"level": machine.levels[0].name, **asked}]
        rules = load_constraints({"constraints": {"levels": levels}}, machine, _layer("attention"))
    assert (
        merged(MapSpace(encode(machine, _layer("depthwise" if change == "array" else "attention")), rules)).outermost
        == set()
    )


@pytest.mark.parametrize("without", ["", "dma", "instruction"])
def test_merged__leaves_what_engines_and_instructions_move_row_by_row(without: str) -> None:
    gemmini = load_architecture("gemmini")
    levels = gemmini.levels
    if without == "dma":
        levels = tuple(replace(level, dma=None) for level in levels)
    elif without:
        array = [level.systolic and replace(level.systolic, instruction=None) for level in levels]
        levels = tuple(replace(level, systolic=each) for level, each in zip(levels, array, strict=True))
    for name in ("attention", "1x1"):
        space = MapSpace(encode(replace(gemmini, levels=levels), _layer(name)))
        assert merged(space) is space


@pytest.mark.parametrize("uneven", [False, True])
def test_split__costs_what_the_merged_mapping_costs(uneven: bool) -> None:
    problems = _merged_problems(uneven)
    assert len(problems) > 10
    for seed, space in problems:
        one, rng = merged(space), np.random.default_rng(seed)
        for number in rng.integers(min(one.size, 1 << 60), size=5).tolist():
            mapping = one.mapping_at(number)
            apart = split(one, mapping)
            a, b = evaluate_encoded(one.encoded, mapping), evaluate_encoded(space.encoded, apart)
            assert math.isclose(a.energy_pj, b.energy_pj, rel_tol=1e-12), (seed, mapping)
            assert (a.cycles, a.violations == ()) == (b.cycles, b.violations == ()), (seed, mapping)
            for dim, bound in space.encoded.einsum.dims.items():
                loops = [loop for level in apart.levels for loop in (*level.temporal, *level.x, *level.y)]
                assert math.prod(loop.bound for loop in loops if loop.dim == dim) == bound


def test_map__of_merged_dimensions_is_the_best_of_all_mappings() -> None:
    checked = 0
    for seed, space in _merged_problems(uneven=False):
        machine, einsum, constraints = space.encoded.architecture, space.encoded.einsum, space.constraints
        known = truth(machine, einsum, FREE if not constraints.levels else constraints, 20_000)
        if known is None or not known.valid:
            continue
        goal = list(GOALS)[checked % 3]
        found = map_einsum(machine, einsum, constraints=constraints, objective=goal, workers=1, uneven=False)
        value = {"energy": found.best.energy_pj, "cycles": found.best.cycles, "edp": found.best.edp}[goal]
        assert math.isclose(value, known.best(*GOALS[goal]), rel_tol=1e-9), (seed, goal)
        assert found.certificate is not None
        assert found.certificate.proved
        assert found.space_size == space.size
        checked += 1
    assert checked > 9


@pytest.mark.parametrize("uneven", [False, True])
def test_map__with_outermost_loops_is_the_best_of_all_mappings(uneven: bool) -> None:
    checked = 0
    for seed in range(20_000, 20_000 + OUTERMOST):
        machine, einsum, constraints = problem(seed)
        if "G" not in einsum.dims:  # else some other dimension may move all tensors
            tensors = tuple(replace(tensor, ranks=(*tensor.ranks, (("G", 1),))) for tensor in einsum.tensors)
            einsum = replace(einsum, dims={**einsum.dims, "G": 2 + 2 * (seed % 2)}, tensors=tensors)
        rules = constraints if seed % 3 else FREE
        try:
            space = MapSpace(encode(machine, einsum), rules)
        except NoValidMappingError:  # the constraints leave no loops over G
            continue
        known = truth(with_nodes(machine, einsum, rules) if uneven else machine, einsum, rules, 20_000)
        if not merged(space).outermost or known is None or not known.valid:
            continue
        goal = list(GOALS)[checked % 3]
        found = map_einsum(machine, einsum, constraints=rules, objective=goal, workers=1, uneven=uneven)
        assert found.certificate is not None
        assert found.certificate.proved
        assert math.isclose(found.certificate.value, known.best(*GOALS[goal]), rel_tol=1e-9), (seed, goal)
        checked += 1
    assert checked > OUTERMOST // 7


@pytest.mark.parametrize("name", ["attention", "1x1", "3x1"])
def test_uneven_and_fronts__of_merged_dimensions_are_those_of_all(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, layer = load_architecture("eyeriss"), _layer(name)
    uneven, front = map_einsum(machine, layer, uneven=True), map_front(machine, layer)
    for module in ("spaces", "exact.front"):
        monkeypatch.setattr(f"accelsim.search.{module}.merged", lambda space: space)
    assert math.isclose(map_einsum(machine, layer, uneven=True).best.energy_pj, uneven.best.energy_pj, rel_tol=1e-12)
    assert np.allclose(map_front(machine, layer).values, front.values, rtol=1e-12)
    assert {loop.dim for level in uneven.best.mapping.levels for loop in level.temporal} <= set(layer.dims)
