"""Constraints: read with every mistake in its place, kept by every mapping that the space holds."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.cli.main import main
from accelsim.inputs import library
from accelsim.inputs.architecture import Architecture, Axis, Compute, Level, load_architecture
from accelsim.inputs.constraints import Block, Constraints, Factor, LevelConstraint
from accelsim.inputs.constraints_reader import load_constraints, read_constraints
from accelsim.inputs.errors import AccelsimError, InputError, NoValidMappingError
from accelsim.inputs.fields import open_source
from accelsim.inputs.mapping import Loop
from accelsim.inputs.source import Problems
from accelsim.inputs.workload import ROLES, Einsum, Tensor, sliced
from accelsim.inputs.workload_reader import load_workload
from accelsim.mapspace.kernel import draw_many
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import decode_mapping, empty_batch, encode
from accelsim.model.evaluate import evaluate
from accelsim.population.counting import Nest, count_mappings
from accelsim.population.spread import spread
from accelsim.results.output import result_json
from accelsim.results.verifying import verify
from accelsim.search import spaces
from accelsim.search.exact.front import map_front
from accelsim.search.mapper import map_einsum
from accelsim.search.spaces import diagnose
from accelsim.search.stopping import Budget
from tests.conftest import REPOSITORY
from tests.problems import problem
from tests.strategies import energy_table, random_case


def read(tmp_path, text, machine="eyeriss", workload="conv"):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    return load_constraints(path, load_architecture(machine), load_workload(workload).layers[0])


def asked(rng: random.Random, einsum: Einsum, machine: Architecture) -> Constraints:
    """Random constraints for a machine and an Einsum; they may leave no mapping."""
    dims = sorted(einsum.dims)

    def some(names: list[str]) -> frozenset[str]:
        return frozenset(rng.sample(names, rng.randint(0, len(names))))

    def block(temporal: bool) -> Block:
        factors = []
        for dim in rng.sample(dims, min(len(dims), rng.choice([0, 0, 1]))):
            low = rng.choice([1, 1, 2])
            factors.append(Factor(dim, low, rng.choice([None, low, 3])))
        only = rng.choice([None, None, some(dims)])
        placed = rng.sample(dims, len(dims)) if temporal else []
        ends = sorted(rng.randint(0, len(placed)) for _ in range(2))
        return Block(tuple(factors), only, tuple(placed[: ends[0]]), tuple(placed[ends[1] :]))

    levels = []
    for index, level in enumerate(machine.levels):
        if rng.random() < 0.7:
            names = [tensor.name for tensor in einsum.tensors] if index else []
            keep, bypass = (rng.choice([frozenset(), some(names)]) for _ in range(2))
            levels.append(LevelConstraint(level.name, keep, bypass - keep, block(True), block(False), block(False)))
    return Constraints(tuple(levels), rng.choice([0.0, 0.0, 0.3, 1.0]))


def constrained(most: int, **limits: int) -> st.SearchStrategy[tuple[Architecture, Einsum, Constraints]]:
    """Machines and Einsums of at most so many mappings, and more than one, with constraints."""

    def draw(rng: random.Random) -> tuple[Architecture, Einsum, Constraints]:
        while True:
            machine, einsum, _ = random_case(rng, **limits)
            if 1 < MapSpace(encode(machine, einsum)).size <= most:
                return machine, einsum, asked(rng, einsum, machine)

    return st.randoms(use_true_random=True).map(draw)


@settings(max_examples=300)
@given(constrained(400, macs=16, max_levels=3))
def test_space__holds_exactly_the_mappings_that_satisfy_the_constraints(case):
    machine, einsum, constraints = case
    free = MapSpace(encode(machine, einsum))
    every = {free.mapping_at(index) for index in range(free.size)}
    wanted = {mapping for mapping in every if not constraints.broken_by(mapping, einsum)}
    try:
        space = MapSpace(encode(machine, einsum), constraints)
    except NoValidMappingError:
        assert not wanted
        return
    assert {space.mapping_at(index) for index in range(space.size)} == wanted
    assert space.size == len(wanted)


@settings(max_examples=60)
@given(constrained(150, macs=16, max_levels=3))
def test_search__obeys_constraints_and_misses_nothing(case):
    machine, einsum, constraints = case
    free = MapSpace(encode(machine, einsum))
    results = [evaluate(machine, einsum, free.mapping_at(index)) for index in range(free.size)]
    allowed = [
        result.energy_pj
        for result in results
        if result.valid
        and not constraints.broken_by(result.mapping, einsum)
        and result.utilization >= float(constraints.min_utilization)
    ]
    try:
        found = map_einsum(machine, einsum, constraints=constraints, method="exhaustive", workers=1)
    except NoValidMappingError:
        assert not allowed
        return
    assert found.sample.valid == len(allowed)
    assert found.best.energy_pj == pytest.approx(min(allowed), rel=1e-12)


@settings(max_examples=100)
@given(constrained(10**18, macs=200, max_levels=5))
def test_draws__satisfy_the_constraints(case):
    machine, einsum, constraints = case
    encoded = encode(machine, einsum)
    try:
        space = MapSpace(encoded, constraints)
    except NoValidMappingError:
        return
    batch = empty_batch(encoded, 20)
    draw_many(space.arrays, np.uint64(3), 0, batch)
    for b in range(20):
        assert not constraints.broken_by(decode_mapping(encoded, batch, b), einsum)


def tiny(units, **level):
    """One buffer that feeds so many compute units."""
    levels = (Level("DRAM", "DRAM"), Level("BUF", "SRAM", **{"size_words": 2048, "x": Axis(units), **level}))
    return Architecture("tiny", levels, Compute(), energy_table(["DRAM", "BUF"], lambda: 1.0))


def gemm(m, n, k):
    return Einsum(
        "g",
        {"M": m, "N": n, "K": k},
        (
            Tensor("Weights", ((("N", 1),), (("K", 1),)), "Weights"),
            Tensor("Inputs", ((("M", 1),), (("K", 1),)), "Inputs"),
            Tensor("Outputs", ((("M", 1),), (("N", 1),)), "Outputs", output=True),
        ),
    )


def test_block__allows_factors_between_their_ends():
    """M from 2 to 4, N at least 3 and at most 6, and no loop over anything else."""
    block = Block((Factor("M", 2, 4), Factor("N", 3), Factor("N", high=6)), only=frozenset("MN"))
    allowed = {dim: [bound for bound in range(1, 9) if block.allows(dim, bound)] for dim in "MNK"}
    assert allowed == {"M": [2, 3, 4], "N": [3, 4, 5, 6], "K": [1]}


@pytest.mark.parametrize(
    ("dims", "in_order"),
    [
        *(("KMANC", True), ("MAN", True), ("AC", True), ("", True), ("MK", False), ("AM", False)),
        *(("NA", False), ("MCN", False), ("KN", True), ("CK", False)),
    ],
)
def test_block__orders_loops_at_both_ends(dims, in_order):
    """K and then M outermost, N and then C innermost; a loop of bound 1 is none."""
    loops = [Loop(dim, 2) for dim in dims]
    assert Block(outer=("K", "M"), inner=("N", "C")).orders((Loop("C", 1), *loops, Loop("K", 1))) == in_order


@pytest.mark.parametrize("hundredths", range(1, 100))
def test_utilization__is_reached_at_equality(tmp_path, hundredths):
    """With n of 100 units busy for one cycle the utilization is n/100, and so it is with 10 n of 1000 MACs in ten."""
    text, machine = f"constraints: {{min_utilization: 0.{hundredths:02d}}}", tiny(100)
    (tmp_path / "c.yaml").write_text(text)
    once = encode(machine, gemm(hundredths, 1, 1))
    written = load_constraints(tmp_path / "c.yaml", machine, once.einsum)
    given = Constraints(min_utilization=hundredths / 100)
    assert written == given
    assert MapSpace(once, given).most[1] == 1
    assert MapSpace(encode(machine, gemm(hundredths, 10, 1)), given).most[1] == 10
    assert given.broken_by_costs((0.0, 1, 0.0), Fraction(hundredths, 100)) == []
    assert given.broken_by_costs((0.0, 10**9 + 1, 0.0), Fraction(hundredths * 10**7))
    found = map_einsum(machine, once.einsum, constraints=given, workers=1, uneven=False)
    assert found.best.cycles == 1
    assert found.certificate.proved


def test_utilization__that_a_result_reports_is_reached_by_its_mapping():
    """Given as a number and as text; of 13 x 5 x 11 the double nearest to the utilization lies above it."""
    rng, above = random.Random(7), 0
    for _ in range(2000):
        ideal = Fraction(rng.randrange(1, 10**6), rng.choice([1, 12, 168, 256]))
        cycles = math.ceil(ideal) + rng.randrange(10**4)
        reported = float(ideal / cycles)
        for least in (Constraints(min_utilization=reported), Constraints(min_utilization=Fraction(repr(reported)))):
            assert least.broken_by_costs((0.0, cycles, 0.0), ideal) == []
            assert least.broken_by_costs((0.0, cycles + 1, 0.0), ideal)
        above += Fraction(reported) * cycles > ideal
    assert 500 < above < 1500
    machine = load_architecture("eyeriss")
    fast = map_einsum(machine, gemm(13, 5, 11), imperfect="all", objective="cycles", workers=1).best

    found = map_einsum(machine, gemm(13, 5, 11), imperfect="all", constraints=Constraints((), fast.utilization)).best

    assert found.cycles == fast.cycles


@pytest.mark.parametrize(("bounds", "cycles"), [((4, 4, 4), 16), ((4, 5, 4), 20)])
def test_utilization__of_four_fifths_takes_four_of_five_units(bounds, cycles):
    """With 4 of 5 units the 64 MACs take 16 cycles and the 80 MACs 20, at a utilization of exactly 0.8."""
    machine = tiny(5, size_words=512, keep=frozenset(ROLES))
    found = map_einsum(machine, gemm(*bounds), constraints=Constraints(min_utilization=0.8), workers=1, uneven=False)
    assert found.best.utilization >= 0.8
    assert found.best.cycles <= cycles
    free = map_einsum(machine, gemm(*bounds), method="exhaustive", workers=1).best
    assert found.best.energy_pj <= free.energy_pj or free.cycles > cycles


@pytest.mark.parametrize(
    ("bounds", "share", "said"),
    [
        ((4, 4, 4), 0.5, "64 MACs on 256 compute units take at least 1 cycle, in which the utilization is 0.25"),
        ((16, 17, 1), 0.6, "272 MACs on 256 compute units take at least 2 cycles, in which the utilization is 0.531"),
    ],
)
def test_utilization__that_whole_cycles_do_not_reach_is_told(bounds, share, said):
    """64 MACs fill a quarter of 256 units for a cycle; 272 MACs take two cycles, of which they fill 17/32."""
    with pytest.raises(NoValidMappingError) as error:
        map_einsum(
            tiny(16, y=Axis(16)), gemm(*bounds), constraints=Constraints(min_utilization=share), workers=1, uneven=False
        )
    assert f"no mapping can be valid: {said}, at least {share} is asked for" in str(error.value)


def test_nearest_miss__breaks_a_rule_in_print_too():
    """A utilization just below the least one is not printed as equal to it."""
    assert Constraints(min_utilization=0.8).broken_by_costs((0.0, 10**6, 0.0), Fraction(799_999)) == [
        "the utilization is 0.799, at least 0.8 is asked for"
    ]


@pytest.mark.parametrize("search", ["energy", "cycles", "front"])
@pytest.mark.parametrize("imperfect", [(), "all"])
def test_outermost_level__that_the_layer_just_fills_is_enough_and_a_word_less_is_not_searched(search, imperfect):
    """4 x 5 + 5 x 3 + 4 x 3 = 47 words."""
    for words in (47, 46):
        machine, layer = tiny(4), gemm(4, 3, 5)
        machine = replace(machine, levels=(replace(machine.levels[0], size_words=words), machine.levels[1]))
        look = (
            partial(map_front, columns=("energy", "cycles"))
            if search == "front"
            else partial(map_einsum, objective=search)
        )
        if words == 47:
            found = look(machine, layer, imperfect=imperfect, workers=1)
            assert found.points if search == "front" else found.certificate.proved
            continue
        with pytest.raises(NoValidMappingError) as error:
            look(machine, layer, imperfect=imperfect, workers=1)
        assert "is valid (proved: 0 nodes)\nno mapping can be valid: DRAM needs at least 94 B (for" in str(error.value)


def test_nearest_miss__is_that_of_all_drawn_mappings(monkeypatch):
    """Only some are evaluated in full; all of them give the same answer."""
    monkeypatch.setattr(spaces, "DRAWS", 100)
    looked = 0
    for seed in range(120):
        machine, layer, constraints = problem(seed)
        space = MapSpace(encode(machine, layer), constraints)
        said = {}
        for many in (spaces.NEAREST, 100):
            with monkeypatch.context() as patch:
                patch.setattr(spaces, "NEAREST", many)
                said[many] = diagnose(space, np.uint64(seed), proved=False)
            if "sampled mappings: " not in " ".join(said[many]):
                break
        looked += len(said) == 2
        assert len({*map(tuple, said.values())}) == 1, seed
    assert looked > 4


def test_partitions__that_lack_what_constraints_keep_are_told_and_no_nearest_miss(monkeypatch):
    machine = tiny(4)
    outer, inner = machine.levels
    inner = replace(inner, size_words=None, partition_words={"Inputs": 20, "Weights": 20})
    asked = Constraints((LevelConstraint(inner.name, keep=frozenset({"Outputs"})),))
    monkeypatch.setattr(spaces, "misses_of", None)
    with pytest.raises(NoValidMappingError) as error:
        map_einsum(replace(machine, levels=(outer, inner)), gemm(4, 3, 5), constraints=asked, workers=1, uneven=False)
    assert str(error.value).splitlines()[1:] == [f"no mapping can be valid: {inner.name} has no partition for Outputs"]


def test_nearest_miss__that_is_valid_contradicts_the_proof():
    space = MapSpace(encode(tiny(5), gemm(4, 4, 4)))
    with pytest.raises(RuntimeError, match="found no valid mapping, but this one is valid"):
        diagnose(space, np.uint64(0), proved=True)
    assert diagnose(space, np.uint64(0), proved=False) == [
        "of 2,000 mappings drawn after the search at least one is valid; let the search look at more"
    ]


LEVEL = LevelConstraint
UNSUITABLE = [
    (LEVEL("BUFF", temporal=Block(outer=("M",))), "BUFF: 'BUFF' is no level of tiny; did you mean 'BUF'?"),
    (LEVEL("L2"), "L2: 'L2' is no level of tiny; levels: DRAM, BUF"),
    (LEVEL("BUF", temporal=Block(outer=("Z",))), "BUF: 'Z' is no dimension of g; dimensions: M, N, K"),
    (LEVEL("BUF", x=Block((Factor("m", 2),))), "BUF: 'm' is no dimension of g; did you mean 'M'?"),
    (LEVEL("BUF", keep=frozenset({"Weight"})), "BUF: 'Weight' is no tensor of g; did you mean 'Weights'?"),
    (LEVEL("BUF", bypass=frozenset({"Inputs"})), "BUF: 'Inputs' cannot be bypassed: BUF always keeps it"),
    (LEVEL("BUF", keep=frozenset({"Outputs"})), "BUF: 'Outputs' cannot be kept: BUF never keeps it"),
]


@pytest.mark.parametrize(("level", "said"), UNSUITABLE, ids=lambda value: value if isinstance(value, str) else "")
def test_constraints__that_do_not_suit_are_refused_before_any_search(level, said):
    machine = tiny(5, keep=frozenset({"Inputs"}), bypass=frozenset({"Outputs"}))
    layer, asked = gemm(4, 4, 4), Constraints((level,))
    result = evaluate(machine, layer, MapSpace(encode(machine, layer)).mapping_at(0))
    documents = {"result": result_json(result)}
    for entry in (
        lambda: MapSpace(encode(machine, layer), asked),
        lambda: map_einsum(machine, layer, constraints=asked, uneven=False),
        lambda: map_einsum(machine, layer, constraints=asked, method="random"),
        lambda: map_front(machine, layer, constraints=asked),
        lambda: spread(machine, layer, constraints=asked),
        lambda: verify(documents, machine, layer, asked),
    ):
        with pytest.raises(AccelsimError) as error:
            entry()
        assert str(error.value) == f"constraints of {said}"


def test_constraints__give_a_level_once():
    with pytest.raises(AccelsimError, match="constraints of BUF: the level is given twice"):
        Constraints((LevelConstraint("BUF"), LevelConstraint("BUF"))).check(tiny(5), gemm(4, 4, 4))


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_utilization__outside_its_range_is_refused(share):
    with pytest.raises(ValueError, match="min_utilization must be from 0 to 1"):
        Constraints(min_utilization=share)


def test_mistakes__are_all_reported_with_their_place(tmp_path):
    text = """constraints:
  min_utilization: 2
  levels:
    - level: GLB
      keep: [Weights]
      temporal: {order: [K, ..., Z], factors: [K=3, R>=2, R<=1, Q~3, S=4]}
      spatial: {x: {only: [P, K], factors: [K=16]}}
    - level: SPADD
    - level: GLB
      bypas: []
"""
    with pytest.raises(InputError) as error:
        read(tmp_path, text)
    said = str(error.value).replace(str(tmp_path), "")
    assert said.splitlines() == [
        "/c.yaml:2:20: min_utilization: expected a fraction from 0 to 1, got '2'",
        "/c.yaml:5:13: levels[0].keep: 'Weights' cannot be kept: GLB never keeps it",
        "/c.yaml:6:17: levels[0].temporal: 'Z' is no dimension of vgg16_conv3_2; dimensions: N, K, C, P, Q, R, S",
        "/c.yaml:6:17: levels[0].temporal: K=3 does not divide K = 256; divisors near it: 2, 4",
        "/c.yaml:6:17: levels[0].temporal: S=4 does not divide S = 3; divisors near it: 3",
        "/c.yaml:6:47: levels[0].temporal.factors: R would have to be at least 2 and at most 1",
        "/c.yaml:6:65: levels[0].temporal.factors[3]: expected a factor like K=4, K<=4, K>=4, K=all, K=rest "
        "or P*Q<=8, got 'Q~3'",
        "/c.yaml:7:20: levels[0].spatial.x: K would have to be at least 16 on x, whose fanout is 14",
        "/c.yaml:8:14: levels[1].level: 'SPADD' is no level of eyeriss; did you mean 'SPAD'?",
        "/c.yaml:9:14: levels[2].level: level 'GLB' is given twice",
        "/c.yaml:10:7: levels[2].bypas: unknown key; did you mean 'bypass'?",
    ]


def test_all__is_the_bound_of_the_layer(tmp_path):
    text = "constraints:\n  levels:\n    - level: GLB\n      spatial: {y: {factors: [R=all]}, x: {factors: [K=all]}}\n"
    with pytest.raises(InputError) as error:
        read(tmp_path, text)
    assert "K would have to be at least 256 on x, whose fanout is 14" in str(error.value)
    found = read(tmp_path, text.replace(", x: {factors: [K=all]}", ""))
    assert found.of("GLB").y.factors == (Factor("R", 3, 3),)


@pytest.mark.parametrize("size", [1, 3, 5, 11])
def test_row_stationary__suits_filters_of_any_size(size):
    """A row of the filter stands in each PE, and all its rows stand in a column of the array."""
    dims = {"K": 16, "C": 4, "P": 14, "Q": 14, "R": size, "S": size}
    machine, einsum = load_architecture("eyeriss"), load_workload({"workload": {"name": "w", "conv": dims}}).layers[0]
    constraints = load_constraints("eyeriss_row_stationary", machine, einsum)
    mapping = map_einsum(machine, einsum, constraints=constraints, uneven=False).best.mapping
    assert sum(loop.bound for loop in mapping.levels[1].y if loop.dim == "R") == (size if size > 1 else 0)


def test_rest__leaves_no_loop_to_blocks_that_do_not_name_the_dimension(tmp_path):
    text = """
constraints:
  levels:
    - {level: GLB, temporal: {factors: [K=rest]}, spatial: {x: {factors: [K<=2]}}}
    - {level: SPAD, temporal: {only: [S]}}
"""
    machine, einsum = load_architecture("eyeriss"), load_workload("conv").layers[0]
    found = read(tmp_path, text)
    one = Factor("K", 1, 1)
    assert {level.level: [level.temporal.factors, level.x.factors, level.y.factors] for level in found.levels} == {
        "GLB": [(Factor("K", rest=True),), (Factor("K", 1, 2),), (one,)],
        "SPAD": [(one,), (one,), (one,)],
        "DRAM": [(one,), (one,), (one,)],
    }
    assert str(found.of("GLB").temporal.factors[0]) == "K=rest"
    mapping = map_einsum(machine, einsum, constraints=found, uneven=False).best.mapping
    loops = [[loop.dim for loop in (*level.temporal, *level.x, *level.y)] for level in mapping.levels]
    assert ["K" in dims for dims in loops] == [False, True, False]


def test_impossible_tile__is_told_with_the_limit_and_the_nearest_miss(tmp_path):
    """SPAD holds 12 inputs (24 B); S=3, R=3, P=56 touch 58 x 3 = 174 words of 16 bits, 348 B."""
    text = "constraints: {levels: [{level: SPAD, temporal: {factors: [S=3, R=3, P=56]}}]}"
    constraints = read(tmp_path, text)
    with pytest.raises(NoValidMappingError) as error:
        map_einsum(
            load_architecture("eyeriss"),
            load_workload("conv").layers[0],
            constraints=constraints,
            budget=Budget(mappings=20_000),
        )
    said = str(error.value)
    assert "SPAD (Inputs) needs at least 348 B (for P=56, R=3, S=3), has 24 B" in said
    assert "SPAD (Outputs) needs at least 112 B (for P=56, R=3, S=3), has 48 B" in said
    assert "closest of 2,000 sampled mappings" in said


def test_nearest_miss__is_not_looked_for_among_too_many_factorisations(tmp_path, monkeypatch):
    monkeypatch.setattr(spaces, "MOST_ROWS", 10)
    constraints = read(tmp_path, "constraints: {levels: [{level: SPAD, temporal: {factors: [S=3, R=3, P=56]}}]}")

    with pytest.raises(NoValidMappingError, match="too many factorisations to draw from"):
        map_einsum(load_architecture("eyeriss"), load_workload("conv").layers[0], constraints=constraints, uneven=False)


def test_least_use_of_an_axis__is_a_share_of_its_instances(tmp_path):
    """0.9 of 14 columns are 13 of them at least."""
    text = "constraints: {levels: [{level: GLB, spatial: {x: {min_utilization: 0.9}, y: {only: [R, C]}}}]}"
    found = read(tmp_path, text).of("GLB")
    assert (found.x.least, found.y.least) == (13, 1)
    with pytest.raises(InputError, match=r"c.yaml:1:\d+: levels\[0\].spatial.x.min_utilization: expected a fraction"):
        read(tmp_path, text.replace("0.9", "9"))


@pytest.mark.parametrize("options", [{}, {"method": "random", "budget": Budget(mappings=3000)}, {"objective": "edp"}])
def test_least_use_of_an_axis__is_kept_by_each_search(tmp_path, options):
    """Of 14 columns 9 to 14 are in use; the best mapping in energy uses 4, and those that are drawn mostly fewer."""
    machine, layer = load_architecture("eyeriss"), load_workload("conv").layers[0]
    asked = read(tmp_path, "constraints: {levels: [{level: GLB, spatial: {x: {min_utilization: 0.6}}}]}")
    found = map_einsum(machine, layer, constraints=asked, **options, uneven=False).best
    assert 9 <= math.prod(loop.bound for loop in found.mapping.levels[1].x) <= 14
    assert asked.broken_by(found.mapping, layer) == []


def test_least_use_of_an_axis__that_no_loops_reach_is_told(tmp_path):
    text = "constraints: {levels: [{level: GLB, spatial: {x: {only: [K], min_utilization: 1}}}]}"
    with pytest.raises(NoValidMappingError, match="GLB x: loops can use 8 of 14 instances, at least 14 are asked for"):
        map_einsum(
            load_architecture("eyeriss"),
            load_workload("conv").layers[0],
            constraints=read(tmp_path, text),
            uneven=False,
        )


def test_least_use_of_an_axis__is_counted_in_a_spread(tmp_path):
    """Every mapping that is drawn keeps it, and those of less use are not counted."""
    machine, layer = load_architecture("eyeriss"), load_workload("gemm").layers[0]
    text = "constraints: {levels: [{level: GLB, spatial: {x: {min_utilization: 0.5}}}]}"
    asked = read(tmp_path, text, workload="gemm")
    all_, some = (count_mappings(Nest(MapSpace(encode(machine, layer), each))) for each in (None, asked))
    assert 0 < some < all_
    sampled = spread(machine, layer, constraints=asked, samples=200, seconds=5).sample
    assert len(sampled) == 200


def test_form_alone__keeps_all_rest_and_shares_until_machine_and_layer_are_known(tmp_path):
    """As a sweep reads it, for whatever machine and layer: it comes to what the file says of these."""
    text = """
constraints:
  levels:
  - level: GLB
    temporal: {factors: [R=all, P=rest]}
    spatial: {x: {min_utilization: 0.5}}
"""
    machine, layer = load_architecture("eyeriss"), load_workload("conv").layers[0]
    problems = Problems()
    opened = open_source(text, "constraints", None, problems)
    form = problems.result(read_constraints(opened.body, problems))
    assert form != read(tmp_path, text)
    assert form.settled(machine, layer) == read(tmp_path, text)
    assert form.settled(machine, layer).settled(machine, layer) == read(tmp_path, text)
    found = [map_einsum(machine, layer, constraints=each, uneven=True).best for each in (form, read(tmp_path, text))]
    assert found[0] == found[1]
    assert form.settled(machine, layer).broken_by(found[0].mapping, layer) == []
    assert Loop("R", layer.dims["R"]) in found[0].mapping.levels[1].temporal


def test_no_factorisation__names_the_constraints(tmp_path):
    constraints = read(
        tmp_path,
        "constraints: {levels: [{level: DRAM, temporal: {factors: [K=128]}},"
        " {level: GLB, temporal: {factors: [K=4]}}]}",
    )
    with pytest.raises(
        NoValidMappingError, match=r"no factorisation of K = 256 .*DRAM temporal: K=128; GLB temporal: K=4"
    ):
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
    "isaac": ("isaac", "strided"),
    "nvdla_direct": ("nvdla", "conv"),
    "nvdla_image": ("nvdla", "strided"),
    "nvdla_winograd": ("nvdla_large", REPOSITORY / "tests" / "winograd.yaml"),
    "scnn": ("scnn", "alexnet_sparse"),
    "simba_like": ("simba_like", "conv"),
    "systolic_input_stationary": ("systolic_32", "conv"),
    "systolic_output_stationary": ("systolic_32", "conv"),
    "systolic_weight_stationary": ("systolic_32", "conv"),
}
"""Machine and workload of constraints, where they are not Eyeriss and conv."""


@pytest.mark.parametrize("path", library.shipped("constraints"), ids=lambda path: path.stem)
def test_shipped_constraints__leave_valid_mappings(path):
    arch, workload = MEANT_FOR.get(path.stem, ("eyeriss", "conv"))
    machine = load_architecture(arch)
    einsum = sliced(load_workload(workload).layers[0], machine.slices)
    constraints = load_constraints(path, machine, einsum)
    found = map_einsum(machine, einsum, constraints=constraints, budget=Budget(mappings=100_000))
    assert count_mappings(Nest(MapSpace(encode(machine, einsum), constraints))) > 1000
    assert not constraints.broken_by(found.best.mapping, einsum)
