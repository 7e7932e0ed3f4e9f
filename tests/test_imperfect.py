"""Remainders and padding in the search: the optimum is that of brute force, and what a mapping costs at least is so.

`ACCELSIM_IMPERFECT_PROBLEMS`: how many random problems are looked at (default 90).
"""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from accelsim import evaluate, load_architecture, load_constraints, load_mapping, load_workload
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Block, Constraints, Factor, LevelConstraint
from accelsim.inputs.errors import AccelsimError, NoValidMapping, SpecError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping, dump_mapping
from accelsim.inputs.objective import LEAST_EDP, Objective
from accelsim.inputs.workload import Einsum, pad, padded_einsums, read_padding, shared_rank
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.model.evaluate import evaluate_encoded
from accelsim.results.explain import same_as_walked
from accelsim.search.exact import bounds, mapper
from accelsim.search.exact.front import map_front
from accelsim.search.exact.mapper import _mapping
from accelsim.search.exact.shapes import make_grid
from accelsim.search.exact.solve import Solver
from accelsim.search.mapper import map_einsum
from tests.brute import check_points, identity, ragged_cost
from tests.problems import problem, with_products

PROBLEMS = int(os.environ.get("ACCELSIM_IMPERFECT_PROBLEMS", "90"))
GROUPS = 6
MOST = 2500
KNOWN = {543: 5715}
"""A problem that a mistake was once found with, and its mappings: the best spreads 5 = 3 x 2 over both axes."""
OBJECTIVES = {"energy": (1, 0), "edp": (1, 1), "cycles": (0, 1)}


def chains(bound: int, limits: list[int], tight: bool) -> Iterator[tuple[int, ...]]:
    """All loops that cover a bound, outermost first; none is longer than it ever runs.

    `tight`: nor longer than its number of passes needs, the space that the search counts.
    """
    if not limits:
        if bound == 1:
            yield ()
        return
    for factor in range(1, min(limits[-1], bound) + 1):
        passes = -(-bound // factor)
        if not tight or factor == -(-bound // passes):
            for outer in chains(passes, limits[:-1], tight):
                yield (*outer, factor)


def mappings(architecture, einsum, imperfect, tight=True, most=MOST):
    """Every mapping in which some dimensions may leave remainders; None if there are more than `most`."""
    levels = architecture.levels
    places = [(i, axis, size) for i, level in enumerate(levels)
              for axis, size in (("", 10**9), ("x", level.x.size), ("y", level.y.size))]  # fmt: skip
    rows = []
    for dim, bound in einsum.dims.items():
        found = chains(bound, [size for *_, size in places], tight)
        rows.append([row for row in found if dim in imperfect or math.prod(row) == bound])
    keeps = []
    for i, level in enumerate(levels):
        must = {t.name for t in einsum.tensors if i == 0 or t.role in level.keep}
        may = sorted({t.name for t in einsum.tensors if t.role not in level.bypass} - must)
        more = itertools.chain(*(itertools.combinations(may, k) for k in range(len(may) + 1)))
        keeps.append([frozenset(must | {*chosen}) for chosen in more])
    if math.prod(map(len, [*rows, *keeps])) > most:
        return None
    found = []
    for row in itertools.product(*rows):
        at = {place[:2]: [] for place in places}
        for dim, factors in zip(einsum.dims, row, strict=True):
            for place, factor in zip(places, factors, strict=True):
                at[place[:2]] += [Loop(dim, factor)] if factor > 1 else []
        for orders in itertools.product(*(itertools.permutations(at[i, ""]) for i in range(len(levels)))):
            for keep in itertools.product(*keeps):
                found.append(
                    Mapping(
                        tuple(
                            LevelMapping(level.name, orders[i], tuple(at[i, "x"]), tuple(at[i, "y"]), keep[i])
                            for i, level in enumerate(levels)
                        ),
                        frozenset(imperfect),
                    )
                )
                if len(found) > most:
                    return None
    return found


def awkward(seed):
    """A random problem with prime and other bounds, and the dimensions of it that may leave remainders."""
    architecture, einsum, _ = problem(seed)
    rng = random.Random(seed)
    dims = {dim: rng.choice([1, 2, 3, 5, 7, 4, 6]) if bound > 1 else 1 for dim, bound in einsum.dims.items()}
    einsum = replace(einsum, dims=dims)
    return architecture, einsum, [dim for dim in dims if dims[dim] > 2 and not shared_rank(einsum, dim)]


@dataclass
class Walked:
    """A problem with few mappings, all of them, and what those cost that a test asked for."""

    seed: int
    architecture: Architecture
    einsum: Einsum
    imperfect: list[str]
    known: list[Mapping]
    costs: dict[int, tuple[bool, float, int]] = field(default_factory=dict)

    def valid(self, constraints: Constraints | None = None) -> list[tuple[float, int]]:
        """Energy and cycles of each valid mapping that breaks no constraint; each mapping is evaluated once."""
        encoded, found = encode(self.architecture, self.einsum), []
        for number, mapping in enumerate(self.known):
            if constraints is None or not constraints.broken_by(mapping, self.einsum):
                if number not in self.costs:
                    self.costs[number] = ragged_cost(encoded, mapping)
                fits, *cost = self.costs[number]
                found += [tuple(cost)] if fits else []
        return found


def walks(seeds: Iterable[int], most: int = MOST) -> Iterator[Walked]:
    """The problems among these that have few mappings with remainders."""
    for seed in seeds:
        architecture, einsum, imperfect = awkward(seed)
        known = mappings(architecture, einsum, imperfect, most=most) if imperfect else None
        if known is not None:
            yield Walked(seed, architecture, einsum, imperfect, known)


@pytest.fixture(scope="module", params=range(GROUPS))
def walked(request) -> list[Walked]:
    """Every sixth problem, for all tests."""
    found = [*walks(range(request.param, PROBLEMS, GROUPS))]
    return found if request.param else [*found, *walks(KNOWN, max(KNOWN.values()))]


def test_orders__differ_in_what_rests_beside_a_remainder():
    """K = 3 on two instances: as N steps, one of them is idle at last, and keeps its input if M does not come first."""
    machine, layer = load_architecture("two_level"), load_workload("gemm").layers[0]
    outer, inner = machine.levels
    levels = replace(outer, x=replace(outer.x, size=2, multicast=False)), replace(inner, size_words=8)
    machine = replace(machine, levels=levels, sized={})
    layer = replace(layer, dims={"M": 3, "N": 7, "K": 3})
    rules = Constraints(
        (
            LevelConstraint(outer.name, x=Block(only=frozenset({"K"}))),
            LevelConstraint(inner.name, keep=frozenset({"Inputs", "Outputs"}), temporal=Block(only=frozenset())),
        )
    )
    walked = Walked(0, machine, layer, ["M", "K"], mappings(machine, layer, ["M", "K"], most=20_000))
    least = min(energy for energy, _ in walked.valid(rules))

    outcome = Solver(MapSpace(encode(machine, layer), rules, frozenset({"M", "K"}))).search(room=1)

    assert math.isclose(float(outcome.found.value[0]), least, rel_tol=1e-9)


@pytest.mark.parametrize(("bound", "loops"), [(5, (3, 2)), (7, (2, 4)), (7, (3, 3)), (8, (2, 4))])
def test_orders__differ_where_a_loop_makes_one_step_in_its_last_pass(bound, loops):
    """K = 5 as 3 loops of 2: the last one makes one step, and leaves its inputs in place as N steps.

    7 in 4 are 4 and 3, which move them, as all loops do without a remainder; 7 in 3 end with one step, too.
    """
    dear, cheap = ({"read": f"{pj} pJ", "write": f"{pj} pJ", "source": "example"} for pj in (100, 1))
    levels = [
        {"name": "L0", "class": "DRAM", "word": "16 bit", "energy": dear},
        {"name": "L1", "class": "SRAM", "keep": ["Weights"], "bypass": ["Inputs", "Outputs"], "energy": cheap},
        {"name": "L2", "class": "SRAM", "keep": ["Inputs", "Outputs"], "bypass": ["Weights"], "energy": cheap},
    ]
    for level in levels[1:]:
        level |= {"size": "1 KiB", "word": "16 bit"}
    compute = {"name": "MAC", "class": "intmac", "energy": {"compute": "1 pJ", "source": "example"}}
    machine = load_architecture({"architecture": {"name": "m", "clock": "1 GHz", "levels": levels, "compute": compute}})
    outer, between, inner = machine.levels
    layer = replace(load_workload("gemm").layers[0], dims={"M": 2, "N": 7, "K": bound})
    once, bounds = Block(only=frozenset()), {"M": 2, "N": 7, "K": loops[1]}
    rules = Constraints(
        (
            LevelConstraint(outer.name, temporal=Block(only=frozenset({"K"}))),
            LevelConstraint(
                between.name, temporal=Block(tuple(Factor(dim, each, each) for dim, each in bounds.items()))
            ),
            LevelConstraint(inner.name, temporal=once),
        )
    )
    kept = [frozenset(tensor.name for tensor in layer.tensors), between.keep, inner.keep]
    orders = itertools.permutations(Loop(dim, each) for dim, each in bounds.items())
    known = [
        Mapping(
            tuple(
                LevelMapping(level.name, order, (), (), keep)
                for level, order, keep in zip(machine.levels, ((Loop("K", loops[0]),), middle, ()), kept, strict=True)
            ),
            frozenset({"K"}),
        )
        for middle in orders
    ]
    costs = [energy for energy, _ in Walked(0, machine, layer, ["K"], known).valid(rules)]

    outcome = Solver(MapSpace(encode(machine, layer), rules, frozenset({"K"}))).search(room=1)

    assert len(costs) == 6
    assert outcome.root_bound <= min(costs) * (1 + 1e-9)
    assert math.isclose(float(outcome.found.value[0]), min(costs), rel_tol=1e-9)


def test_words_that_come_once__are_shared_by_the_children_of_a_network():
    """Inputs of 8 bits come once for four children where N steps outside; the bound at the root is no higher."""
    machine, layer = load_architecture("two_level"), load_workload("gemm").layers[0]
    outer, inner = machine.levels
    levels = replace(outer, x=replace(outer.x, size=4)), replace(inner, size_words=5)
    machine = replace(machine, levels=levels, sized={})
    bits = {"Inputs": 8, "Weights": 32, "Outputs": 16}
    tensors = tuple(replace(tensor, bits=bits[tensor.role]) for tensor in layer.tensors)
    layer = replace(layer, dims={"M": 1, "N": 11, "K": 5}, tensors=tensors)
    rules = Constraints(
        (
            LevelConstraint(outer.name, temporal=Block(only=frozenset({"N", "K"}), outer=("N", "K"))),
            LevelConstraint(inner.name, keep=frozenset(bits), temporal=Block(only=frozenset())),
        )
    )
    walked = Walked(0, machine, layer, ["N", "K"], mappings(machine, layer, ["N", "K"], most=20_000))
    least = min(energy for energy, _ in walked.valid(rules))

    outcome = Solver(MapSpace(encode(machine, layer), rules, frozenset({"N", "K"}))).search(room=1)

    assert outcome.root_bound <= least * (1 + 1e-9)
    assert math.isclose(float(outcome.found.value[0]), least, rel_tol=1e-9)


def test_best_with_remainders__is_that_of_brute_force(walked):
    """Each mapping of the space is evaluated; the search finds the best, proves it, and counts the space."""
    looked = 0
    for each in walked:
        seed, architecture, einsum, imperfect = each.seed, each.architecture, each.einsum, each.imperfect
        costs, objective = each.valid(), list(OBJECTIVES)[seed % 3]
        a, b = OBJECTIVES[objective]
        if not costs:
            with pytest.raises(NoValidMapping):
                map_einsum(architecture, einsum, imperfect=imperfect, workers=1)
            continue

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
            with pytest.raises(NoValidMapping):
                map_front(architecture, einsum, columns, imperfect=imperfect, workers=1)
            continue
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
    monkeypatch.setattr(mapper, "ROOMS", (1, 2))
    for most in (0, mapper.ALL):
        monkeypatch.setattr(mapper, "ALL", most)
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
        (("energy", "cycles", "outer_words"), "three"),
    ):
        with pytest.raises(AccelsimError, match=f"two of energy, cycles, outer_words, not {wrong}"):
            map_front(architecture, einsum, columns, imperfect="all")


def idle_at_last(
    bound: int, loops: int, x: int, y: int, size: int, channels: int = 1, keep: str = "Inputs", passed: bool = False
) -> tuple[Architecture, Einsum]:
    """Instances that each hold a tile of Inputs over M and C, in a loop over K that does not move it.

    They keep these or other tensors; `passed`: these pass by a level between them and the network.
    """
    energy = {"read": "100 pJ", "write": "100 pJ", "source": "example"}
    cheap = {"read": "1 pJ", "write": "1 pJ", "source": "example"}
    names = {"Weights", "Inputs", "Outputs"}
    kept = sorted(names & {*keep.split()})
    inner = {"size": f"{size} B", "word": "8 bit", "keep": kept, "bypass": sorted(names - {*kept})}
    levels = [
        {"name": "L0", "class": "DRAM", "word": "8 bit", "energy": energy, "fanout": {"x": x, "y": y}},
        {"name": "L1", "class": "SRAM", **inner, "energy": cheap},
    ]
    if passed:
        levels.insert(1, {**levels[1], "name": "between", "keep": [], "bypass": sorted(names)})
    compute = {"name": "MAC", "class": "intmac", "energy": {"compute": "1 pJ", "source": "example"}}
    machine = load_architecture(
        {"architecture": {"name": "idle", "clock": "1 GHz", "levels": levels, "compute": compute}}
    )
    tensors = {"Weights": ["K"], "Inputs": ["M", "C"], "Outputs": ["M", "K"]}
    layer = {"dims": {"M": bound, "K": loops, "C": channels}, "tensors": tensors, "output": "Outputs"}
    bits = {"Weights": 8, "Inputs": 8, "Outputs": 8, "psums": 8}
    return machine, load_workload({"workload": {"name": "idle", "bits": bits, "einsum": layer}}).layers[0]


def least_allowed(machine: Architecture, einsum: Einsum, blocks: list[dict[str, object]]) -> tuple[Constraints, float]:
    """Constraints, and the least energy by brute force of mappings in which M may leave remainders [pJ]."""
    constraints = load_constraints({"constraints": {"levels": blocks}}, machine, einsum)
    allowed = [each for each in mappings(machine, einsum, ["M"]) if not constraints.broken_by(each, einsum)]
    return constraints, min(
        cost for each in allowed for fits, cost, _ in [ragged_cost(encode(machine, einsum), each)] if fits
    )


def assert_bounded(machine: Architecture, einsum: Einsum, blocks: list[dict[str, object]]) -> None:
    """The best mapping that these blocks allow is proved, and is found by a search for it alone.

    No walk comes before that search: it would find the mapping whatever the bounds say.
    """
    constraints, least = least_allowed(machine, einsum, blocks)

    result = map_einsum(machine, einsum, constraints=constraints, imperfect=["M"], workers=1)
    outcome = Solver(MapSpace(encode(machine, einsum), constraints, frozenset(["M"]))).search(
        limit=least * (1 + 1e-9), room=16
    )

    assert result.certificate is not None
    assert result.certificate.proved
    assert math.isclose(result.best.energy_pj, least, rel_tol=1e-12)
    assert outcome.root_bound <= least * (1 + 1e-9)
    assert math.isclose(outcome.found.value[0], least, rel_tol=1e-9)


@pytest.mark.parametrize(("bound", "x", "y"), [(3, 2, 1), (5, 2, 2), (7, 2, 3), (12, 4, 1), (12, 4, 3), (13, 4, 3)])
@pytest.mark.parametrize("order", [["K", "M"], ["M", "K"]])
def test_instances_that_are_idle_at_last__keep_their_tiles(bound, x, y, order):
    """7 rows on 2 x 3 instances: five of them hold one row for good, and one swaps two; in either order of loops."""
    machine, einsum = idle_at_last(bound, 7, x, y, 2)
    blocks = [
        {"level": "L0", "temporal": {"order": order}},
        {"level": "L1", "temporal": {"factors": ["M=1", "K=1"]}},
    ]
    assert_bounded(machine, einsum, blocks)


def on_columns(*order: str) -> list[dict[str, object]]:
    """M alone is spread, and split further in; the loops outside stand in this order."""
    return [
        {"level": "L0", "temporal": {"order": list(order)}, "spatial": {"x": {"only": ["M"]}}},
        {"level": "L1", "temporal": {"only": ["M"]}},
    ]


def test_loops_between_that_move_the_tiles__are_told_from_those_further_out():
    """5 rows on 3 instances, of 3 channels: one row rests as K steps within a channel."""
    assert_bounded(*idle_at_last(5, 31, 3, 1, 1, channels=3), on_columns("C", "K", "M"))


@pytest.mark.parametrize(("bound", "x", "size"), [(7, 2, 3), (11, 2, 4), (10, 3, 3), (21, 4, 5)])
def test_full_tiles_that_rest_beside_a_smaller_last_one__are_bounded(bound, x, size):
    """7 words on 2 instances, 3 a tile: the one that rests has 3/7 of the words, not one third."""
    assert_bounded(*idle_at_last(bound, 31, x, 1, size), on_columns("K", "M"))


@pytest.mark.parametrize(("bound", "x", "y"), [(7, 4, 1), (11, 2, 3)])
def test_instances_that_are_idle_at_last__share_no_reads(bound, x, y):
    """7 rows on 4 instances read each weight twice, not 7/4 times; the tables leave nothing of that open."""
    machine, einsum = idle_at_last(bound, 3, x, y, 1, keep="Weights")
    blocks = [
        {"level": "L0", "temporal": {"order": ["M", "K"]}, "spatial": {"x": {"only": ["M"]}, "y": {"only": ["M"]}}},
        {"level": "L1", "temporal": {"factors": ["M=1", "K=1"]}},
    ]
    assert_bounded(machine, einsum, blocks)

    constraints, least = least_allowed(machine, einsum, blocks)
    space = MapSpace(encode(machine, einsum), constraints, frozenset(["M"]))

    assert math.isclose(Solver(space).search().root_bound, least, rel_tol=1e-9)


def test_last_tile_of_instances_that_share_reads__makes_fewer_steps():
    """5 rows in 3 tiles on 2 instances: the first one, which reads for both, has 2 rows and then 1, not two thirds."""
    machine, einsum = idle_at_last(5, 3, 2, 1, 2, keep="Inputs Weights", passed=True)
    blocks = [
        {"level": "L0", "temporal": {"factors": ["K=1", "M<=2"]}, "spatial": {"x": {"only": ["M"]}}},
        {"level": "between", "temporal": {"order": ["M", "K"], "factors": ["M<=2"]}},
        {"level": "L1", "temporal": {"factors": ["M=1", "K=1"]}},
    ]
    assert_bounded(machine, einsum, blocks)


def test_ways_to_spread_that_tables_look_at__share_as_much_as_all_others():
    """On eyeriss sums meet along one axis only: of equal spreads one shares at least as much in every dimension."""
    einsum = load_workload({"workload": {"name": "g", "gemm": {"M": 7, "N": 5, "K": 9}}}).layers[0]
    space = MapSpace(encode(load_architecture("eyeriss"), einsum), None, frozenset("MNK"))
    grid, c = make_grid(space), space.encoded.constants

    def shared(options, level):
        flags = [c.multicast[level, :, t] for t in range(2)] + [c.reduction[level]]
        return np.stack(
            [np.where(on[0], options.x, 1) * np.where(on[1], options.y, 1) for on in flags], axis=1
        ) ** (~c.relevant[None])  # fmt: skip

    for level, (every, few) in enumerate(zip(grid.options, grid.bounding, strict=True)):
        most = shared(few, level)
        for place, mine in zip(every.place, shared(every, level), strict=True):
            assert (most[(few.place == place).all(axis=1)] >= mine).all(axis=(1, 2)).any()
    assert len(grid.bounding[1].spread) < len(grid.options[1].spread)


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
    for each in [*walked, *walks(range(PROBLEMS + walked[0].seed % GROUPS, 120, GROUPS))]:
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
        except NoValidMapping:
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

    with pytest.raises(SpecError) as caught:
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
