"""The tables and the memo of the exact mapper: what they bound, and that no use of them loses a mapping."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from accelsim import load_architecture, load_workload
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Block, Constraints, Factor, LevelConstraint
from accelsim.inputs.energies import EnergyEntry, EnergyTable
from accelsim.inputs.errors import NoValidMappingError
from accelsim.inputs.mapping import Loop, Mapping
from accelsim.inputs.nodes import with_nodes
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.search.exact import bounds, mapper, memo_kernel, orders, relaxation, solve
from accelsim.search.exact.relaxation import Relaxation
from accelsim.search.exact.shapes import make_grid
from accelsim.search.exact.solve import Solver
from accelsim.search.exact.worth import Known, narrow_energies
from accelsim.search.mapper import map_einsum
from tests.brute import product, truth
from tests.problems import MOST, problem, with_least_use
from tests.test_exact import FIRST, SAME, Problem, same

TABLES = 300
"""Problems whose tables are looked at."""


def pinned(case: Problem, mapping: Mapping) -> Constraints:
    """What leaves only the orders of a mapping's loops open."""
    _, einsum, _ = case
    names = frozenset(tensor.name for tensor in einsum.tensors)

    def block(loops: tuple[Loop, ...]) -> Block:
        bounds = {loop.dim: loop.bound for loop in loops}
        return Block(tuple(Factor(dim, bounds.get(dim, 1), bounds.get(dim, 1)) for dim in einsum.dims))

    return Constraints(
        tuple(
            LevelConstraint(own.level, own.keep, names - own.keep, block(own.temporal), block(own.x), block(own.y))
            for own in mapping.levels
        )
    )


def check_fastest(case: Problem, seed: int) -> bool:
    """Whether any mapping is valid; no bound at the root exceeds the fastest one, nor that of one's factors alone."""
    known = truth(*case, MOST)
    if known is None or not known.valid:
        return False
    mapping, fast = known.mapping(int(np.random.default_rng(seed).integers(known.valid))), product(0.0, 1.0)
    for constraints in (case[2], pinned(case, mapping)):
        alone = truth(case[0], case[1], constraints, MOST)
        assert alone is not None
        fastest = alone.best(0.0, 1.0)
        space = MapSpace(encode(case[0], case[1]), constraints)
        solver = Solver(space, cycles=True, known=Known(fast, fastest, np.full(3, np.inf)))
        outcome = solver.search(objective=fast, limit=fastest)
        assert outcome.root_bound <= fastest * (1 + 1e-9), seed
        assert float(outcome.found.value[0]) == fastest, seed
    return True


@pytest.mark.parametrize("group", range(10))
def test_tables__bound_the_orders_of_any_mapping_from_below(group, monkeypatch):
    """What the tables alone prove never exceeds the least value, with all factors of some valid mapping fixed.

    In half of the groups after the tables that only large spaces begin with, in others by those without words that
    come back.
    """
    monkeypatch.setattr(relaxation, "NODES_AN_ENTRY", -1.0)  # all finer tables
    if group % 3 == 1:
        monkeypatch.setattr(relaxation, "FAR_MORE", -1.0)
    if group % 2:
        monkeypatch.setattr(bounds, "MOST_COARSE", 0)
    for seed in range(FIRST + group, FIRST + TABLES, 10):
        case = problem(seed)
        known = truth(*case, MOST)
        if known is None or not known.valid:
            continue
        mapping = known.mapping(int(np.random.default_rng(seed).integers(known.valid)))
        constraints = pinned(case, mapping)
        alone = truth(case[0], case[1], constraints, MOST)
        assert alone is not None

        for power in ((1.0, 0.0), *{0: [(1.0, 1.0)], 1: [(0.0, 1.0)]}.get(seed % 6, [])):
            outcome = Solver(MapSpace(encode(case[0], case[1]), constraints), cycles=power[1] > 0).search(
                objective=product(*power), limit=alone.best(*power) * (1 + SAME)
            )

            assert outcome.root_bound <= alone.best(*power) * (1 + SAME), seed
            assert same(float(outcome.found.value[0]), alone.best(*power)), seed


def test_tables_without_words_that_come_back__give_way_at_once_where_all_roots_look_alike(monkeypatch):
    monkeypatch.setattr(relaxation, "FAR_MORE", -1.0)
    monkeypatch.setattr(relaxation, "ONCE_AN_ENTRY", 1e3)
    refine, explore, roots = Relaxation.refine, Solver._explore, Relaxation.roots
    events = []

    def noted_refine(*arguments):
        events.append("finer")
        refine(*arguments)

    def noted_explore(solver, *arguments):
        events.append("search")
        explore(solver, *arguments)

    def noted_roots(*arguments):
        found = roots(*arguments)
        if not events:
            values = found[1].tolist() or [0.0]
            alike = len(values) > 1 and max(values) == pytest.approx(min(values), rel=1e-9)
            events.append("alike" if alike else "apart")
        return found

    monkeypatch.setattr(Relaxation, "refine", noted_refine)
    monkeypatch.setattr(Solver, "_explore", noted_explore)
    monkeypatch.setattr(Relaxation, "roots", noted_roots)
    seen = []
    for seed in range(FIRST, FIRST + 60):
        case = problem(seed)
        events.clear()
        solver = Solver(MapSpace(encode(case[0], case[1])))
        if solver.relaxation.filled.stage.stays:
            solver.search(objective=product(1.0, 0.0))
            seen.append(tuple(events[:2]))

    seen = [each for each in seen if len(each) > 1]  # others have no valid mapping
    assert set(seen) == {("alike", "finer"), ("apart", "search")}


@pytest.mark.parametrize("nodes", [0.02, 0.05])
def test_finer_tables__that_come_in_between_lose_no_mapping(nodes, monkeypatch):
    """Root shapes looked through before are left out, those in which the search was stopped are not."""
    monkeypatch.setattr(relaxation, "NODES_AN_ENTRY", nodes)
    monkeypatch.setattr(relaxation, "ENTRIES_A_TABLE", 0)
    monkeypatch.setattr(solve, "SMALL", 0)
    monkeypatch.setattr(solve, "FIRST_WAVE", 1)
    refine, settled, stopped = Relaxation.refine, 0, 0

    def noted(*arguments):
        nonlocal settled, stopped
        settled, stopped = settled + int(solver.settled.sum()), stopped + 1
        refine(*arguments)

    monkeypatch.setattr(Relaxation, "refine", noted)
    for seed in range(FIRST, FIRST + 240):
        case = problem(seed)
        known = truth(*case, MOST)
        if known is None or not known.valid:
            continue
        solver = Solver(MapSpace(encode(case[0], case[1]), case[2]), cycles=True)
        for power in ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0)):
            found = solver.search(objective=product(*power)).found
            assert same(float(found.value[0]), known.best(*power)), (seed, power)
        solver = Solver(MapSpace(encode(case[0], case[1]), case[2]), cycles=True)
        fewer = solver.search(objective=product(0.0, 1.0), limit=known.best(0.0, 1.0) - 1)
        assert (fewer.stop, fewer.found.many[0]) == ("exhausted", 0), seed
        assert fewer.bound >= known.best(0.0, 1.0), seed
    assert settled > 10
    assert stopped > 10


def words_on_the_way() -> Problem:
    """A window whose words pass by two levels to compute units that share it, and pay the network of the first one."""
    pj = {"read": "1 pJ", "write": "1 pJ", "source": "test"}
    further = {"class": "SRAM", "word": "16 bit", "size": "64 B", "bypass": ["Inputs"], "energy": pj}
    paid = {"x": 2, "energy": {"transfer": "9 pJ", "source": "test"}}
    levels = [
        {"name": "DRAM", "class": "DRAM", "word": "16 bit", "energy": pj},
        {"name": "L1", **further, "fanout": paid},
        {"name": "L2", **further, "fanout": {"x": 4}},
    ]
    compute = {"name": "MAC", "class": "intmac", "energy": {"compute": "1 pJ", "source": "test"}}
    machine = load_architecture({"architecture": {"name": "way", "levels": levels, "compute": compute}})
    conv = {"name": "conv", "conv": {"K": 1, "C": 1, "P": 4, "Q": 1, "R": 4, "S": 1}}
    (einsum,) = load_workload({"workload": {"name": "conv", "layers": [conv]}}).layers
    return machine, einsum, Constraints()


def test_tables__are_the_same_if_windows_that_cost_nothing_are_shared(monkeypatch):
    """Of the words of such a tensor, the share that a network leaves makes no difference."""
    asked = bounds.BoundsMaker._counts
    nothing = 0
    for seed, (machine, einsum, constraints) in enumerate([*map(problem, range(120)), words_on_the_way()]):
        grid = make_grid(MapSpace(encode(machine, einsum), constraints))
        if not any(options.windowed.any() for options in grid.options):
            continue
        pj = narrow_energies(grid.space.encoded.constants)
        for level in range(len(pj)):
            alone = np.zeros_like(pj)
            alone[level] = pj[level]  # as the words of a port there
            monkeypatch.setattr(bounds.BoundsMaker, "_counts", asked)
            found = bounds.make_bounds(grid, 3, alone, corners=True)
            nothing += not all(network.counts.all() for network in found.networks)
            monkeypatch.setattr(bounds.BoundsMaker, "_counts", lambda *_: True)
            shared = bounds.make_bounds(grid, 3, alone, corners=True)
            assert np.allclose(found.values, shared.values, rtol=1e-12, atol=0), (seed, level)
    assert nothing > 20


def test_cycles__are_looked_for_below_those_of_the_mapping_known(monkeypatch):
    """One cycle less than what a walk found, which is mostly the least already."""
    limits, best = [], 0
    search = Solver.search

    def noted(solver, **options):
        limits.extend([options.get("limit")] * (options["objective"].alone == "cycles"))
        return search(solver, **options)

    monkeypatch.setattr(mapper, "widest", lambda *_: None)
    monkeypatch.setattr(Solver, "search", noted)
    for seed in range(FIRST, FIRST + 40):
        case = problem(seed)
        known = truth(*case, MOST)
        if known is None or not known.valid:
            continue
        limits.clear()
        found = map_einsum(case[0], case[1], constraints=case[2], objective="cycles", uneven=False).best.cycles
        assert found == known.best(0.0, 1.0), seed
        best += limits == [found - 1]
    assert best > 5


def test_tables__charge_sums_of_parts_their_width(monkeypatch):
    """Where networks split a reduction, all sums are wide, also those that each instance takes in but once.

    So with all factors fixed the tables leave nothing open: 8 registers, each with one product of 32 bits an output.
    """
    monkeypatch.setattr(relaxation, "NODES_AN_ENTRY", -1.0)
    pj = {"read": "2 pJ", "write": "2 pJ", "source": "test"}
    levels = [
        {"name": "DRAM", "class": "DRAM", "word": "8 bit", "fanout": {"x": 8}, "energy": pj},
        {"name": "RF", "class": "regfile", "size": "4 B", "word": "8 bit", "keep": ["Outputs"], "energy": pj},
    ]
    compute = {"name": "MAC", "class": "intmac", "energy": {"compute": "1 pJ", "source": "test"}}
    machine = load_architecture({"architecture": {"name": "split", "levels": levels, "compute": compute}})
    bits = {"Weights": 8, "Inputs": 8, "Outputs": 8, "psums": 32}
    layer = {"name": "wide", "gemm": {"M": 2, "N": 3, "K": 8}, "bits": bits}
    (einsum,) = load_workload({"workload": {"name": "wide", "layers": [layer]}}).layers
    split = Constraints((LevelConstraint("DRAM", x=Block((Factor("K", 8, 8),))),))
    best = map_einsum(machine, einsum, constraints=split, uneven=False).best
    assert best.mapping.levels[1].keep == {"Outputs"}

    factors = pinned((machine, einsum, split), best.mapping)
    outcome = Solver(MapSpace(encode(machine, einsum), factors)).search(objective=product(1.0, 0.0))

    assert same(outcome.root_bound, best.energy_pj)


def with_costly_networks(machine: Architecture) -> Architecture:
    """The same machine where next to nothing but networks takes energy, and words of sums that come back most of it."""
    entries = {key: replace(entry, energy_pj=0.01) for key, entry in machine.energy.entries.items()}
    for level in machine.levels:
        entries[f"{level.name} network", "*", "transfer"] = EnergyEntry(20.0, "test")
        entries[f"{level.name} network", "*", "return"] = EnergyEntry(70.0, "test")
    return replace(machine, energy=EnergyTable(entries))


@pytest.mark.parametrize("group", range(4))
def test_tables__bound_what_crosses_networks_from_below(group):
    """Of machines on which words may pass several networks, those of levels with one child too."""
    looked_at = 0
    for seed in range(group, 640, 4):
        machine, einsum, constraints = problem(seed)
        several = [level for level in machine.levels if level.x.size * level.y.size > 1]
        if len(several) < 2 or len(machine.levels) < 3:
            continue
        case = with_costly_networks(machine), einsum, constraints
        known = truth(*case, 200_000)
        if known is None or not known.valid:
            continue
        looked_at += 1
        mapping = known.mapping(int(np.random.default_rng(seed).integers(known.valid)))
        factors = pinned(case, mapping)
        alone = truth(case[0], einsum, factors, 200_000)
        assert alone is not None

        outcome = Solver(MapSpace(encode(case[0], einsum), factors)).search(objective=product(1.0, 0.0))

        assert outcome.root_bound <= alone.best(1.0, 0.0) * (1 + SAME), seed
        whole = Solver(MapSpace(encode(case[0], einsum), constraints)).search(objective=product(1.0, 0.0))
        assert same(float(whole.found.value[0]), known.best(1.0, 0.0)), seed
    assert looked_at > 5


@pytest.mark.parametrize(("psums", "lack_room"), [(8, False), (32, True)])
def test_nodes_of_a_level__share_its_room_for_partial_sums(psums, lack_room):
    """Registers of 4 B hold a sum of 32 bits, but nothing else beside it."""
    pj = {"read": "1 pJ", "write": "1 pJ", "source": "test"}
    levels = [
        {"name": "DRAM", "class": "DRAM", "word": "8 bit", "energy": pj},
        {"name": "RF", "class": "regfile", "size": "4 B", "word": "8 bit", "energy": pj},
    ]
    compute = {"name": "MAC", "class": "intmac", "energy": {"compute": "1 pJ", "source": "test"}}
    even = load_architecture({"architecture": {"name": "sums", "levels": levels, "compute": compute}})
    bits = {"Weights": 8, "Inputs": 8, "Outputs": 8, "psums": psums}
    layer = {"name": "wide", "gemm": {"M": 1, "N": 1, "K": 8}, "bits": bits}
    (einsum,) = load_workload({"workload": {"name": "wide", "layers": [layer]}}).layers
    machine = with_nodes(even, einsum, Constraints())
    known = truth(machine, einsum, Constraints(), 400_000)
    assert known is not None

    solver = Solver(MapSpace(encode(machine, einsum), Constraints()))
    outcome = solver.search()

    assert outcome.root_bound <= known.best(1.0, 0.0) * (1 + SAME)
    assert same(float(outcome.found.value[0]), known.best(1.0, 0.0))
    output = int(encode(machine, einsum).constants.output[0])
    contexts = solver.relaxation.filled.energy.around[2].contexts
    beside = [each for each in contexts if each.parents.count(1) > 1 == each.parents[output]]
    assert {each.tight for each in beside} == {lack_room}


def test_memo__drops_nodes_and_changes_no_optimum(monkeypatch):
    """With no room, with room for one set of places, which each node fights for, and with all of it.

    In the last seeds nodes differ in nothing but in what networks share.
    """
    nodes = {0: 0, memo_kernel.PLACES: 0, solve.MEMO: 0}
    for seed in (*range(80), 156, 296, 566, 923, 974):
        machine, einsum, constraints = problem(seed)
        known = truth(machine, einsum, constraints, MOST)
        if known is None or not known.valid:
            continue
        space = MapSpace(encode(machine, einsum), constraints)
        for places in nodes:
            monkeypatch.setattr(solve, "MEMO", places)
            for power in ((1.0, 0.0), (1.0, 1.0)):
                solver = Solver(space, cycles=power[1] > 0)
                outcome = solver.search(objective=product(*power))

                assert same(float(outcome.found.value[0]), known.best(*power)), (seed, places, power)
                nodes[places] += outcome.nodes

    assert list(nodes.values()) == sorted(nodes.values(), reverse=True)
    assert nodes[solve.MEMO] < nodes[0]


@pytest.mark.parametrize("group", range(4))
def test_tables__cost_no_more_for_still_than_for_anything_else(group):
    """What the search takes for the loops of a block before it has put them in order."""
    windows = 0
    for seed in range(FIRST + group, FIRST + TABLES, 4):
        machine, einsum, constraints = problem(seed)
        known = truth(machine, einsum, constraints, MOST)
        if known is None or not known.valid:
            continue
        bounds = Relaxation(MapSpace(encode(machine, einsum), constraints)).filled.energy
        windows += bounds.structure.window >= 0
        still = (orders.STATIONARY,) * len(einsum.tensors)
        for level in range(len(machine.levels)):
            pairs = [(bounds.around[level], bounds.around_number(level, still))]
            pairs += [(bounds.inside[level], bounds.numbers[level][still][1])] if level else []
            for table, number in pairs:
                least = table.values.min(axis=1)
                assert (table.values[:, number] <= least + SAME * np.abs(least)).all(), (seed, level)
    assert windows > 5


def test_tables__are_the_same_however_many_are_filled_together(monkeypatch):
    """One, some or all contexts of a level, of which some lack room for partial sums."""
    many = 0
    for seed in range(150):
        machine, einsum, constraints = problem(seed)
        space = MapSpace(encode(machine, einsum), constraints)
        values = []
        for together in (1, 16, 1000):
            monkeypatch.setattr(bounds, "IN_A_ROW", together)
            found = bounds.make_bounds(make_grid(space), 3, narrow_energies(space.encoded.constants), fine=True)
            values.append(found.values)
        many += max(len(table.contexts) for table in found.inside) > 4

        assert all(np.array_equal(values[0], each) for each in values), seed
    assert many > 5


def test_candidates__of_a_gemm_keep_one_tensor_in_place_each():
    structure = orders.Structure((frozenset({1}), frozenset({2}), frozenset({0})), -1, (-1,) * 3, 3, False)

    found = orders.candidate_orders(structure, frozenset({0, 1, 2}), orders.Places(), False)

    assert sorted(order[-1] for order, _, _ in found) == [0, 1, 2]
    assert len(orders.candidate_orders(structure, frozenset({0, 1, 2}), orders.Places(), True)) == 6


def test_candidates__keep_fixed_places():
    structure = orders.Structure((frozenset({1}), frozenset({2}), frozenset({0})), -1, (-1,) * 3, 3, False)

    found = orders.candidate_orders(structure, frozenset({0, 1, 2}), orders.Places((1,), (2,)), False)

    assert [order for order, _, _ in found] == [(1, 0, 2)]


def test_tables__have_room_for_all_spreads_where_a_network_has_none():
    """Constraints that nothing satisfies may leave one network no way to spread; others still have theirs."""
    without = 0
    for seed in range(120):
        machine, einsum, free = problem(seed)
        try:
            grid = make_grid(MapSpace(encode(machine, einsum), with_least_use(seed, machine, free)))
        except NoValidMappingError:  # seen at once
            continue
        most = [int(options.spread.max(initial=1)) for options in grid.options]
        found = bounds.make_bounds(grid, 3, narrow_energies(grid.space.encoded.constants))
        for level, table in enumerate(found.around):
            assert table.edges[-1] == math.prod(most[level:]), (seed, level)
        without += not all(len(options.spread) for options in grid.options)
    assert without
