"""Machines on which the last tile, or what instances that are idle at last keep, decides which mapping is best."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from accelsim import load_architecture, load_constraints, load_workload
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Block, Constraints, Factor, LevelConstraint
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import Einsum
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.search.exact.shapes import make_grid
from accelsim.search.exact.solve import Solver
from accelsim.search.mapper import map_einsum
from tests.brute import ragged_cost
from tests.brute_ragged import Walked, mappings


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
    """M and N of 10 as 2 loops of 2 children with 4 each: these share what comes once."""
    dear, cheap = ({"read": f"{pj} pJ", "write": f"{pj} pJ", "source": "example"} for pj in (300, 3))
    levels = [
        {"name": "L0", "class": "DRAM", "word": "8 bit", "energy": dear, "fanout": {"x": 5}},
        {"name": "L1", "class": "SRAM", "word": "8 bit", "energy": cheap, "size": "8 B", "bypass": ["Outputs"]},
    ]
    levels[1]["keep"] = ["Inputs", "Weights"]
    compute = {"name": "MAC", "class": "intmac", "energy": {"compute": "1 pJ", "source": "example"}}
    machine = load_architecture({"architecture": {"name": "m", "clock": "1 GHz", "levels": levels, "compute": compute}})
    tensors = tuple(replace(tensor, bits=8, psum_bits=8) for tensor in load_workload("gemm").layers[0].tensors)
    layer = replace(load_workload("gemm").layers[0], dims={"M": 10, "N": 10, "K": 4}, tensors=tensors)
    outside, inside = {"M": 2, "N": 2, "K": 4}, {"M": 4, "N": 4, "K": 1}
    block = [Block(tuple(Factor(dim, each, each) for dim, each in bounds.items())) for bounds in (outside, inside)]
    spread = Block((Factor("M", 2, 2), Factor("N", 2, 2)))
    rules = Constraints((LevelConstraint("L0", temporal=block[0], x=spread), LevelConstraint("L1", temporal=block[1])))
    kept = frozenset(tensor.name for tensor in tensors), frozenset({"Inputs", "Weights"})
    known = [
        Mapping(
            (
                LevelMapping("L0", first, (Loop("M", 2), Loop("N", 2)), (), kept[0]),
                LevelMapping("L1", second, (), (), kept[1]),
            ),
            frozenset(outside),
        )
        for first in itertools.permutations(Loop(dim, each) for dim, each in outside.items())
        for second in itertools.permutations([Loop("M", 4), Loop("N", 4)])
    ]
    costs = [energy for energy, _ in Walked(0, machine, layer, [*outside], known).valid(rules)]

    outcome = Solver(MapSpace(encode(machine, layer), rules, frozenset(outside))).search(room=1)

    assert len(costs) == 12
    assert outcome.root_bound <= min(costs) * (1 + 1e-9)
    assert math.isclose(float(outcome.found.value[0]), min(costs), rel_tol=1e-9)


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
