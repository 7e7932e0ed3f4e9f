"""Remainders and padding in the search: the optimum is that of brute force, and what a mapping costs at least is so.

`ACCELSIM_IMPERFECT_PROBLEMS`: how many random problems are looked at (default 90).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from accelsim import load_architecture, load_mapping, load_workload
from accelsim.inputs.constraints import Block, Constraints, LevelConstraint
from accelsim.inputs.errors import AccelsimError, InputError, NoValidMappingError
from accelsim.inputs.mapping import Loop, dump_mapping
from accelsim.inputs.objective import LEAST_EDP, Objective
from accelsim.inputs.workload import pad, padded_einsums, read_padding
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.model.evaluate import evaluate, evaluate_encoded
from accelsim.results.explain import same_as_walked
from accelsim.search.exact import bounds, optimum
from accelsim.search.exact.front import map_front
from accelsim.search.exact.optimum import _mapping
from accelsim.search.exact.solve import Solver
from accelsim.search.mapper import map_einsum
from tests.brute import check_points, identity, ragged_cost
from tests.brute_ragged import Walked, awkward, mappings, walks
from tests.effort import many
from tests.problems import with_products
from tests.switches import switched

PROBLEMS = many("IMPERFECT_PROBLEMS", 60)
GROUPS = 6
NO_WAY_TO_SPREAD = (183, 531)
"""Problems of which an axis is asked to use more instances than its loops can."""
KNOWN = {543: 5715}
"""A problem that a mistake was once found with, and its mappings: the best spreads 5 = 3 x 2 over both axes."""
OBJECTIVES = {"energy": (1, 0), "edp": (1, 1), "cycles": (0, 1)}


@pytest.fixture(scope="module", params=range(GROUPS))
def walked(request) -> list[Walked]:
    """Every sixth problem, for all tests."""
    found = [*walks(range(request.param, PROBLEMS, GROUPS))]
    return found if request.param else [*found, *walks(KNOWN, max(KNOWN.values()))]


def test_best_with_remainders__is_that_of_brute_force(walked):
    """Each mapping of the space is evaluated; the search finds the best, proves it, and counts the space."""
    looked = 0
    for each in walked:
        seed, architecture, einsum, imperfect = each.seed, each.architecture, each.einsum, each.imperfect
        costs, objective = each.valid(), list(OBJECTIVES)[seed % 3]
        a, b = OBJECTIVES[objective]
        if not costs:
            with pytest.raises(NoValidMappingError):
                map_einsum(architecture, einsum, imperfect=imperfect, workers=1)
            continue

        with switched(seed):
            result = map_einsum(architecture, einsum, imperfect=imperfect, objective=objective, workers=1)

        least = min(energy**a * cycles**b for energy, cycles in costs)
        space = MapSpace(encode(architecture, einsum), None, frozenset(imperfect))
        alone = Solver(space, cycles=objective != "energy").search(
            objective=Objective.parse(objective), limit=least * (1 + 1e-9), room=64
        )
        assert alone.found.value[0] <= least * (1 + 1e-9), seed  # no walk hides bounds that are too high
        assert result.certificate is not None
        assert math.isclose(result.certificate.value, least, rel_tol=1e-9), seed
        assert result.certificate.bound <= least * (1 + 1e-9), seed
        assert result.certificate.gap < 1e-6, seed
        assert result.space_size == len(each.known), seed
        assert evaluate(architecture, einsum, result.best.mapping) == result.best
        looked += 1
    assert looked > 2


def test_front_with_remainders__is_that_of_brute_force(walked):
    """Of energy and cycles, in both orders of the columns; no other mapping of the space beats a point."""
    looked = 0
    for each in walked[::2]:
        seed, architecture, einsum, imperfect = each.seed, each.architecture, each.einsum, each.imperfect
        costs = each.valid()
        columns = ("energy", "cycles") if seed % 2 else ("cycles", "energy")
        if not costs:
            with pytest.raises(NoValidMappingError):
                map_front(architecture, einsum, columns, imperfect=imperfect, workers=1)
            continue
        with switched(seed):
            found = map_front(architecture, einsum, columns, imperfect=imperfect, workers=1)
        assert (found.stop, found.imperfect) == ("exhausted", tuple(sorted(imperfect))), seed
        check_points(found.values, np.array(costs, float)[:, :: 1 if columns[0] == "energy" else -1], columns)
        looked += 1
    assert looked


def test_few_mappings_with_remainders__are_all_evaluated(monkeypatch):
    """Accesses of 64 words, which the list does not round up to, cost more than what tells mappings apart on it."""
    energies = {"read": "60 pJ", "write": "70 pJ", "source": "made up"}
    levels = [
        {"name": "DDR", "class": "DRAM", "word": "8 bit", "energy": energies, "fanout": {"x": 3}},
        {"name": "RAM", "class": "SRAM", "word": "8 bit", "size": "6 B", "block_size": 64, "energy": energies},
        {"name": "REG", "class": "SRAM", "word": "8 bit", "size": "2 B", "block_size": 64, "energy": energies},
    ]
    compute = {"name": "MAC", "class": "intmac", "energy": {"compute": "1 pJ", "source": "made up"}}
    machine = load_architecture({"architecture": {"name": "small", "levels": levels, "compute": compute}})
    gemm = replace(load_workload("gemm").layers[0], dims={"M": 1, "N": 5, "K": 1})
    every = (evaluate(machine, gemm, mapping) for mapping in mappings(machine, gemm, {"N"}))
    best = min(each.energy_pj for each in every if each.valid)
    monkeypatch.setattr(optimum, "ROOMS", (1, 2))
    for most in (0, optimum.ALL):
        monkeypatch.setattr(optimum, "ALL", most)
        found = map_einsum(machine, gemm, imperfect=["N"], uneven=False, workers=1)
        assert found.certificate.value == pytest.approx(best, rel=1e-12)
        assert (found.stop, found.certificate.proved) == (("exhausted", True) if most else ("remainders", False))


@pytest.mark.parametrize("imperfect", ["all", ["M", "N"]])
@pytest.mark.parametrize("objective", ["energy", "cycles"])
def test_too_many_tiles_with_remainders__leave_the_best_that_is_known(monkeypatch, imperfect, objective):
    """Without tables the answer is the best without remainders, or a walk's; what a floor proves stays proved."""
    machine, gemm = load_architecture("two_level"), load_workload("gemm").layers[0]
    gemm = replace(gemm, dims=dict(zip(gemm.dims, (31, 30, 16), strict=True)))
    perfect, ragged = (map_einsum(machine, gemm, objective=objective, imperfect=d, workers=1) for d in ([], imperfect))
    monkeypatch.setattr(bounds, "MOST_SPREAD_TILES", 0)

    found = map_einsum(machine, gemm, objective=objective, imperfect=imperfect, workers=1)

    values = [each.certificate.value for each in (perfect, found, ragged)]
    assert values == sorted(values, reverse=True)
    assert found.certificate.bound <= ragged.certificate.value
    assert found.stop == ("exhausted" if found.certificate.proved else "memory")
    assert found.certificate.proved == (objective == "cycles")


def test_front_with_remainders__has_two_columns_and_no_capacity():
    architecture, einsum = load_architecture("eyeriss"), load_workload("gemm").layers[0]
    for columns, wrong in (
        (("energy", "capacity:GLB"), "capacity:GLB"),
        (("energy", "cycles", "offchip_words"), "three"),
    ):
        with pytest.raises(AccelsimError, match=f"two of energy, cycles, offchip_words, not {wrong}"):
            map_front(architecture, einsum, columns, imperfect="all")


def test_what_mappings_cost_at_least__they_cost():
    """No mapping is cheaper than its entry in the search's list; where nothing is rounded, both are the same."""
    exact = 0
    for seed in range(120):
        architecture, einsum, imperfect = awkward(seed)
        if not imperfect:
            continue
        encoded = encode(architecture, einsum)
        c = encoded.constants
        rounded = bool((c.block > 1).any() or c.two_widths[0] or c.windowed.any())
        space = MapSpace(encoded, None, frozenset(imperfect))
        found = Solver(space, cycles=True).search(objective=LEAST_EDP, room=40).found
        for i in range(int(found.many[0])):
            result = evaluate_encoded(encoded, _mapping(space, found.best, i))
            energy, cycles = (float(each) for each in found.column[i, :2])
            assert energy <= result.energy_pj * (1 + 1e-9), seed
            assert cycles <= result.cycles, seed
            if not rounded and result.valid:
                assert math.isclose(energy, result.energy_pj, rel_tol=1e-9), seed
                assert cycles == result.cycles, seed
                exact += bool(result.mapping.imperfect)
    assert exact > 20


def test_best_with_remainders__has_the_products_that_constraints_ask_for(walked):
    """With the same brute force; every third time of the instances that loops use at least on an axis."""
    looked = posed = 0
    for each in [*walked, *walks([*range(PROBLEMS + walked[0].seed % GROUPS, 120, GROUPS), *NO_WAY_TO_SPREAD])]:
        seed, architecture, einsum, imperfect = each.seed, each.architecture, each.einsum, each.imperfect
        wide = [level for level in architecture.levels if level.x.size > 2]
        if not wide:
            continue
        posed += 1
        asked = LevelConstraint(wide[0].name, x=Block(least=2 + seed % (wide[0].x.size - 1)))
        constraints = Constraints((asked,))
        if seed % 3:
            constraints = with_products(seed, architecture, einsum, Constraints())
        costs = [energy for energy, _ in each.valid(constraints)]
        try:
            found = map_einsum(architecture, einsum, imperfect=imperfect, constraints=constraints, workers=1)
        except NoValidMappingError:
            assert not costs, seed
            continue
        assert math.isclose(found.best.energy_pj, min(costs), rel_tol=1e-9), seed
        assert found.certificate.gap < 1e-6, seed
        assert not constraints.broken_by(found.best.mapping, einsum), seed
        looked += 1
    assert looked or posed < 2  # some groups have one such problem alone


def test_loops_longer_than_their_passes_need__are_not_better():
    """The space of the search leaves them out; the text says so, and it matters in none of these."""
    better = looked = 0
    for seed in range(120):
        architecture, einsum, imperfect = awkward(seed)
        every = mappings(architecture, einsum, imperfect, tight=False, most=1500) if imperfect else None
        some = {identity(each) for each in mappings(architecture, einsum, imperfect) or ()} if every else set()
        if every is None or len(every) == len(some):
            continue
        encoded = encode(architecture, einsum)
        costs = [ragged_cost(encoded, each)[1] for each in every]
        tight = [cost for each, cost in zip(every, costs, strict=True) if identity(each) in some]
        assert len(tight) == len(some)
        looked += math.isfinite(min(costs))
        better += min(costs) < min(tight) * (1 - 1e-9)
    assert looked > 15
    assert better == 0


@pytest.mark.parametrize(("machine", "dims"), [("nvdla", (7, 50, 90))])
def test_awkward_bounds__profit(machine, dims):
    """Prime and other bounds: with remainders, and with padding, the optimum is better, and never worse."""
    architecture, gemm = load_architecture(machine), load_workload("gemm").layers[0]
    einsum = replace(gemm, dims=dict(zip(gemm.dims, dims, strict=True)))

    plain, ragged, padded = (
        map_einsum(architecture, einsum, objective="edp", **option, uneven=False).best.edp
        for option in ({}, {"imperfect": "all"}, {"pad": "all"})
    )

    assert ragged < plain
    assert padded <= plain


def test_uneven_and_imperfect__go_together():
    architecture, gemm = load_architecture("two_level"), load_workload("gemm").layers[0]
    einsum = replace(gemm, dims=dict(zip(gemm.dims, (7, 11, 13), strict=True)))

    best = {
        (uneven, imperfect): map_einsum(architecture, einsum, uneven=uneven, imperfect=imperfect).best.energy_pj
        for uneven in (False, True)
        for imperfect in ((), "all")
    }

    assert best[True, "all"] <= min(best.values())
    assert best[True, "all"] < best[False, ()]


def test_padding__is_that_of_the_larger_bounds():
    """Each choice of bounds solved by itself; energy a MAC and utilization count the real ones."""
    architecture, gemm = load_architecture("eyeriss"), load_workload("gemm").layers[0]
    einsum = replace(gemm, dims=dict(zip(gemm.dims, (13, 7, 11), strict=True)))
    asked = ["M", "N=8", "K=12"]
    tried = list(padded_einsums(einsum, read_padding(einsum, asked)))

    found = map_einsum(architecture, einsum, pad=asked, objective="edp")

    values = [map_einsum(architecture, each, objective="edp", uneven=False).best for each in tried]
    best = min(values, key=lambda result: result.edp)
    assert len(tried) == 3 * 2 * 2
    assert found.certificate is not None
    assert found.certificate.proved
    assert math.isclose(found.best.edp, best.edp, rel_tol=1e-12)
    assert found.best.macs == 13 * 7 * 11
    assert found.best.padded_macs == math.prod(found.best.bounds.values()) >= found.best.macs
    assert math.isclose(found.best.pj_per_mac, found.best.energy_pj / found.best.macs)
    assert found.space_size == sum(map_einsum(architecture, each, uneven=False).space_size for each in tried)


def test_padded_mapping__is_written_read_and_walked(tmp_path):
    architecture, gemm = load_architecture("eyeriss"), load_workload("gemm").layers[0]
    einsum = replace(gemm, dims=dict(zip(gemm.dims, (7, 3, 5), strict=True)))
    padded = pad(einsum, {"M": 8})
    mapping = replace(map_einsum(architecture, padded, uneven=False).best.mapping, padded=(Loop("M", 8),))
    (tmp_path / "m.yaml").write_text(dump_mapping(mapping))

    again = load_mapping(tmp_path / "m.yaml", architecture, einsum)
    result = evaluate(architecture, einsum, again)

    assert again == mapping
    assert (result.macs, result.padded_macs) == (7 * 3 * 5, 8 * 3 * 5)
    assert same_as_walked(architecture, einsum, result)
    assert result.energy_pj == evaluate(architecture, padded, replace(mapping, padded=())).energy_pj


@pytest.mark.parametrize(
    ("padded", "message"),
    [
        ("[M=6]", "M is 7 in gemm_512_1024_1024 and cannot be padded to 6; write a larger bound, or leave it out"),
        ("[Z=8]", "'Z' is no dimension of gemm_512_1024_1024"),
        ("[M=9]", "the loops over M multiply to 8, but M is 9"),
    ],
)
def test_mistakes_in_padding__are_told(tmp_path, padded, message):
    architecture, gemm = load_architecture("two_level"), load_workload("gemm").layers[0]
    einsum = replace(gemm, dims=dict(zip(gemm.dims, (7, 3, 5), strict=True)))
    lines = ["mapping:", f"  padded: {padded}", "  levels:", "    - level: DRAM", "      temporal: [M=8, N=3, K=5]",
             "    - level: BUF", "      keep: [Inputs, Weights, Outputs]"]  # fmt: skip
    (tmp_path / "m.yaml").write_text("\n".join(lines))

    with pytest.raises(InputError) as caught:
        load_mapping(tmp_path / "m.yaml", architecture, einsum)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"imperfect": ["P"]}, "P cannot leave remainders: it stands in the rank P \\+ R of Inputs; pad its bound"),
        ({"imperfect": ["Z"]}, "'Z' is no dimension of vgg16_conv3_2"),
        ({"pad": ["Z"]}, "'Z' is no dimension of vgg16_conv3_2"),
        ({"pad": ["P=55"]}, "P is 56 in vgg16_conv3_2 and cannot be padded to '55'"),
        ({"pad": "all", "top": 3}, "only even mappings without remainders and padding are listed"),
        ({"imperfect": "all", "method": "random"}, "only an exact search finds"),
    ],
)
def test_options__that_cannot_be_are_refused(option, message):
    with pytest.raises(AccelsimError, match=message):
        map_einsum(load_architecture("eyeriss"), load_workload("conv").layers[0], **option, uneven=False)


def test_remainders__reach_the_utilization_that_is_asked_for():
    architecture, gemm = load_architecture("eyeriss"), load_workload("gemm").layers[0]
    einsum = replace(gemm, dims={"M": 7, "N": 10, "K": 11})
    plain = map_einsum(architecture, einsum, imperfect="all").best
    least = map_einsum(architecture, einsum, imperfect="all", objective="cycles").best.utilization

    found = map_einsum(architecture, einsum, imperfect="all", constraints=Constraints((), least)).best

    assert found.utilization >= least > plain.utilization
    assert found.energy_pj > plain.energy_pj
