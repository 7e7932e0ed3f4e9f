"""Constraints: read with every mistake in its place, kept by every mapping that the space holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim import library
from accelsim.architecture import load_architecture
from accelsim.cli import main
from accelsim.constraints import Block, Constraints, Factor, LevelConstraint, load_constraints
from accelsim.errors import NoValidMapping, SpecError
from accelsim.mapspace.kernel import draw_many
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import decode_mapping, empty_batch, encode
from accelsim.model.evaluate import evaluate
from accelsim.population.counting import count_mappings
from accelsim.population.steps import Nest
from accelsim.search.mapper import map_einsum
from accelsim.search.strategy import Budget
from accelsim.workload import load_workload
from tests.conftest import REPOSITORY
from tests.strategies import cases


def read(tmp_path, text, machine="eyeriss", workload="conv"):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    return load_constraints(path, load_architecture(machine), load_workload(workload).layers[0])


@st.composite
def asked(draw, einsum, machine):
    """Random constraints for a machine and an Einsum; they may leave no mapping."""
    dims = sorted(einsum.dims)

    def block(temporal):
        factors = []
        for dim in draw(st.lists(st.sampled_from(dims), max_size=2, unique=True)):
            low = draw(st.sampled_from([1, 1, 2]))
            factors.append(Factor(dim, low, draw(st.sampled_from([None, low, 3, 4]))))
        only = draw(st.none() | st.sets(st.sampled_from(dims)).map(frozenset))
        placed = draw(st.permutations(dims)) if temporal else []
        ends = sorted(draw(st.lists(st.integers(0, len(placed)), min_size=2, max_size=2)))
        return Block(tuple(factors), only, tuple(placed[: ends[0]]), tuple(placed[ends[1] :]))

    levels = []
    for index, level in enumerate(machine.levels):
        if draw(st.booleans()):
            names = [tensor.name for tensor in einsum.tensors] if index else []
            keep = draw(st.sets(st.sampled_from(names)) if names else st.just(set()))
            bypass = draw(st.sets(st.sampled_from(names)) if names else st.just(set())) - keep
            levels.append(
                LevelConstraint(level.name, frozenset(keep), frozenset(bypass), block(True), block(False), block(False))
            )
    return Constraints(tuple(levels), draw(st.sampled_from([0.0, 0.0, 0.3, 1.0])))


@settings(max_examples=300)
@given(st.data())
def test_space__holds_exactly_the_mappings_that_satisfy_the_constraints(data):
    machine, einsum, _ = data.draw(cases(macs=16, max_levels=3))
    free = MapSpace(encode(machine, einsum))
    if free.size > 400:
        return
    constraints = data.draw(asked(einsum, machine))
    every = {free.mapping_at(index) for index in range(free.size)}
    wanted = {mapping for mapping in every if not constraints.broken_by(mapping)}
    try:
        space = MapSpace(encode(machine, einsum), constraints)
    except NoValidMapping:
        assert not wanted
        return
    assert {space.mapping_at(index) for index in range(space.size)} == wanted
    assert space.size == len(wanted)


@settings(max_examples=60)
@given(st.data())
def test_search__obeys_constraints_and_misses_nothing(data):
    machine, einsum, _ = data.draw(cases(macs=16, max_levels=3))
    free = MapSpace(encode(machine, einsum))
    if free.size > 150:
        return
    constraints = data.draw(asked(einsum, machine))
    results = [evaluate(machine, einsum, free.mapping_at(index)) for index in range(free.size)]
    allowed = [
        result.energy_pj
        for result in results
        if result.valid
        and not constraints.broken_by(result.mapping)
        and result.utilization >= constraints.min_utilization - 1e-12
    ]
    try:
        found = map_einsum(machine, einsum, constraints=constraints, method="exhaustive", workers=1)
    except NoValidMapping:
        assert not allowed
        return
    assert found.sample.valid == len(allowed)
    assert found.best.energy_pj == pytest.approx(min(allowed), rel=1e-12)


@settings(max_examples=100)
@given(st.data())
def test_draws__satisfy_the_constraints(data):
    machine, einsum, _ = data.draw(cases(macs=200))
    constraints = data.draw(asked(einsum, machine))
    encoded = encode(machine, einsum)
    try:
        space = MapSpace(encoded, constraints)
    except NoValidMapping:
        return
    batch = empty_batch(encoded, 20)
    draw_many(space.arrays, np.uint64(3), 0, batch)
    for b in range(20):
        assert not constraints.broken_by(decode_mapping(encoded, batch, b))


def test_mistakes__are_all_reported_with_their_place(tmp_path):
    text = """constraints:
  min_utilization: 2
  levels:
    - level: GLB
      keep: [Weights]
      temporal: {order: [K, ..., Z], factors: [K=3, R>=2, R<=1, Q~3]}
      spatial: {x: {only: [P, K], factors: [K=16]}}
    - level: SPADD
    - level: GLB
      bypas: []
"""
    with pytest.raises(SpecError) as error:
        read(tmp_path, text)
    said = str(error.value).replace(str(tmp_path), "")
    assert said.splitlines() == [
        "/c.yaml:2:20: min_utilization: expected a fraction from 0 to 1, got '2'",
        "/c.yaml:5:13: levels[0].keep: 'Weights' cannot be kept: GLB never keeps it",
        "/c.yaml:6:17: levels[0].temporal: 'Z' is no dimension of vgg16_conv3_2; dimensions: N, K, C, P, Q, R, S",
        "/c.yaml:6:17: levels[0].temporal: K=3 does not divide K = 256; divisors near it: 2, 4",
        "/c.yaml:6:47: levels[0].temporal.factors: R would have to be at least 2 and at most 1",
        "/c.yaml:6:65: levels[0].temporal.factors[3]: expected a factor like K=4, K<=4 or K>=4, got 'Q~3'",
        "/c.yaml:7:20: levels[0].spatial.x: K would have to be at least 16 on x, whose fanout is 14",
        "/c.yaml:8:14: levels[1].level: 'SPADD' is no level of eyeriss; did you mean 'SPAD'?",
        "/c.yaml:9:14: levels[2].level: level 'GLB' is given twice",
        "/c.yaml:10:7: levels[2].bypas: unknown key; did you mean 'bypass'?",
    ]


def test_impossible_tile__is_told_with_the_limit_and_the_nearest_miss(tmp_path):
    """SPAD holds 12 inputs (24 B); S=3, R=3, P=56 touch 58 x 3 = 174 words of 16 bits, 348 B."""
    text = "constraints: {levels: [{level: SPAD, temporal: {factors: [S=3, R=3, P=56]}}]}"
    constraints = read(tmp_path, text)
    with pytest.raises(NoValidMapping) as error:
        map_einsum(
            load_architecture("eyeriss"),
            load_workload("conv").layers[0],
            constraints=constraints,
            budget=Budget(mappings=20_000),
        )
    said = str(error.value)
    assert "SPAD (Inputs) needs at least 348 B (for P=56, R=3, S=3), has 24 B" in said
    assert "SPAD (Outputs) needs at least 112 B (for P=56, R=3, S=3), has 48 B" in said
    assert "nearest miss" in said


def test_no_factorisation__names_the_constraints(tmp_path):
    constraints = read(
        tmp_path,
        "constraints: {levels: [{level: DRAM, temporal: {factors: [K=128]}},"
        " {level: GLB, temporal: {factors: [K=4]}}]}",
    )
    with pytest.raises(NoValidMapping, match=r"no factorisation of K = 256 .*DRAM temporal: K=128; GLB temporal: K=4"):
        MapSpace(encode(load_architecture("eyeriss"), load_workload("conv").layers[0]), constraints)


def test_network__is_refused_before_its_first_layer_is_searched(tmp_path, capsys):
    """The convolutions of AlexNet have R, its GEMMs have not: nothing may be searched, written and then lost."""
    folder = tmp_path / "out"
    code = main(["map", "eyeriss", "alexnet", "--constraints", "eyeriss_row_stationary", "-o", str(folder)])
    assert code == 2
    assert "'R' is no dimension of fc6" in capsys.readouterr().err
    assert not folder.exists()


MEANT_FOR = {
    "nvdla_1024_sample": ("nvdla_1024", "conv"),
    "nvdla_cvsram_direct": ("nvdla_cvsram", "conv"),
    "nvdla_direct": ("nvdla", "conv"),
    "nvdla_image": ("nvdla", "strided"),
    "nvdla_winograd": ("nvdla_large", REPOSITORY / "tests" / "winograd.yaml"),
    "simba_like": ("simba_like", "conv"),
    "systolic_input_stationary": ("systolic_32", "conv"),
    "systolic_output_stationary": ("systolic_32", "conv"),
    "systolic_weight_stationary": ("systolic_32", "conv"),
}
"""Machine and workload of constraints, where they are not Eyeriss and conv."""


@pytest.mark.parametrize("path", library.shipped("constraints"), ids=lambda path: path.stem)
def test_shipped_constraints__leave_valid_mappings(path):
    arch, workload = MEANT_FOR.get(path.stem, ("eyeriss", "conv"))
    machine, einsum = load_architecture(arch), load_workload(workload).layers[0]
    constraints = load_constraints(path, machine, einsum)
    found = map_einsum(machine, einsum, constraints=constraints, budget=Budget(mappings=100_000))
    assert count_mappings(Nest(MapSpace(encode(machine, einsum), constraints))) > 1000
    assert not constraints.broken_by(found.best.mapping)
