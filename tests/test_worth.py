"""States of the cost tables that are not filled: no mapping that is looked for goes through one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import yaml

from accelsim import load_architecture, load_workload
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import TablesTooLarge
from accelsim.inputs.mapping import Mapping
from accelsim.inputs.objective import FASTEST, LEAST_EDP, LEAST_ENERGY, Objective
from accelsim.inputs.workload import Einsum
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.search.exact import bounds, plan, relaxation
from accelsim.search.exact.optimum import result_of
from accelsim.search.exact.relaxation import Relaxation
from accelsim.search.exact.solve import Solver
from accelsim.search.exact.tables import Context, Sieve
from accelsim.search.exact.worth import Known
from accelsim.search.mapper import map_einsum
from accelsim.search.stopping import Budget
from tests.brute import Truth, truth
from tests.problems import problem
from tests.test_fills import overlap_problem

MOST = 4_000
FREE = np.full(3, np.inf)
SHARES = (0.0, 0.03, 0.3)
"""Of the mappings from the best one on, how many are looked for; 0: the best alone."""


def states(tables: Relaxation, mapping: Mapping) -> list[tuple[str, int, tuple[int, ...], int]]:
    """Kind of table, level, parents and shape of all states that a mapping goes through."""
    encoded, shapes = tables.problem.space.encoded, tables.grid.shapes
    tile = dict.fromkeys(encoded.dims, 1)
    shape_of: dict[tuple[str, int], int] = {}
    for level in range(len(mapping.levels) - 1, -1, -1):
        node = mapping.levels[level]
        for kind, loops in (("around", (*node.x, *node.y)), ("inside", node.temporal)):
            for loop in loops:
                if loop.bound > 1:
                    tile[loop.dim] *= loop.bound
            places = [shapes.size[d, : shapes.sizes[d]].tolist().index(tile[dim]) for d, dim in enumerate(encoded.dims)]
            shape_of[kind, level] = int(np.dot(places, shapes.stride))
    found = []
    for (kind, level), shape in shape_of.items():
        parents = tuple(
            max(outer for outer in range(level + 1) if tensor.name in mapping.levels[outer].keep)
            for tensor in encoded.einsum.tensors
        )
        context = Context(parents, (1.0,) * len(parents), _is_tight(tables, mapping, parents, shape_of))
        found.append((kind, level, context.state, shape))
    return found


def _is_tight(
    tables: Relaxation, mapping: Mapping, parents: tuple[int, ...], shape_of: dict[tuple[str, int], int]
) -> bool:
    """Whether the level that the output comes from has no room for partial sums."""
    encoded = tables.problem.space.encoded
    c, level = encoded.constants, parents[int(encoded.constants.output[0])]
    if level == 0:
        return False
    kept = [t for t, tensor in enumerate(encoded.einsum.tensors) if tensor.name in mapping.levels[level].keep]
    words = np.zeros(len(c.whole), np.int64)
    words[kept] = tables.grid.shapes.box[kept, shape_of["inside", level]]
    words *= [max(c.word_parts[level, t]) if t == c.output[0] else c.word_parts[level, t, 0] for t in range(len(words))]
    rooms = enumerate(c.partition[level]) if c.partitioned[level] else ()
    return 0 <= c.capacity[level] < words.sum() or any(words[c.role == role].sum() > room for role, room in rooms)


def dropped(
    seed: int, case: tuple[Architecture, Einsum, Constraints], known: Truth, objective: Objective, most: float
) -> int:
    """How many states the tables drop, none of them on a mapping of at most some value."""
    tables = Relaxation(
        MapSpace(encode(*case[:2]), case[2]), cycles=objective is not LEAST_ENERGY, known=Known(objective, most, FREE)
    )
    if tables.may_be_finer and seed % 2:  # and tables that tell copies of the output apart
        stage = replace(tables.filled.stage, copies=True)
        tables.filled = tables.problem.fill(stage, None, {})
    told = False
    for number in np.flatnonzero(known.worth(objective) <= most).tolist()[:200]:
        mapping = known.mapping(number)
        if tables.filled.tables.merges[1] and any(node.temporal and not node.keep for node in mapping.levels):
            continue  # a level that keeps nothing has no loops; they may stand outside
        for kind, level, parents, shape in states(tables, mapping):
            filled = tables.filled.energy.states.get((kind, level), {}).get(parents)
            assert filled is None or filled[:, shape].any(), (seed, kind, level, parents)
            told |= filled is not None
    assert told, seed
    return sum(int((~each).sum()) for found in tables.filled.energy.states.values() for each in found.values())


PINNED = ((), (), (), (1059,))
"""Problems, by group, in which a network must add up sums for a parent without room for partial ones."""


@pytest.mark.parametrize("group", range(4))
def test_worthless_states__are_on_no_mapping_that_is_looked_for(group):
    many = 0
    for seed in (*range(group, 240, 4), *PINNED[group]):
        case = problem(seed, MOST)
        known = truth(*case, MOST)
        if known is not None and known.valid:
            objective: Objective = (LEAST_ENERGY, LEAST_EDP)[seed // 4 % 2]
            values = np.sort(known.worth(objective))
            many += dropped(seed, case, known, objective, float(values[int(SHARES[seed % 3] * (len(values) - 1))]))
    assert many > 1000


WINDOWS = ((), (), (), (307, 349))
"""Problems, by group, with three dimensions in the rank of a window."""


@pytest.mark.parametrize("group", range(4))
def test_choices_that_are_worth_it__are_enough_for_the_optimum(group, monkeypatch):
    """Without walks, which hide what is left out; half of the problems have finer tables."""
    monkeypatch.setattr(plan, "ALIKE", 0.0)
    for seed in (*range(group, 240, 4), *WINDOWS[group]):
        case = problem(seed, MOST)
        known = truth(*case, MOST)
        if known is None or not known.valid:
            continue
        objective = (LEAST_ENERGY, FASTEST, LEAST_EDP)[seed % 3]
        best = float(known.worth(objective).min())
        space = MapSpace(encode(*case[:2]), case[2])
        solver = Solver(space, cycles=objective is not LEAST_ENERGY, known=Known(objective, best * (1 + 1e-10), FREE))
        if seed % 8 > 3:
            tables = solver.relaxation
            tables.filled = tables.problem.fill(replace(tables.filled.stage, copies=True), None, {})
            tables.may_be_finer = False
        outcome = solver.search(objective=objective, limit=best * 1.3)

        assert math.isclose(float(outcome.found.value[0]), best, rel_tol=1e-9), seed
        assert outcome.root_bound <= best * (1 + 1e-9), seed


@pytest.mark.parametrize("group", range(4))
def test_worthless_states__of_machines_that_wait_are_on_no_mapping_that_is_fast_enough(group):
    many = 0
    for seed in range(group, 240, 4):
        case = overlap_problem(seed)
        known = truth(*case, MOST) if case else None
        if case is not None and known is not None and known.valid:
            cycles = np.sort(known.worth(FASTEST))
            many += dropped(seed, case, known, FASTEST, float(cycles[int(SHARES[seed % 3] * (len(cycles) - 1))]))
    assert many > 1000


def test_known__costs_are_the_largest_that_keep_value_and_limits():
    edp = Known(LEAST_EDP, 1200.0, np.array([np.inf, 50.0, np.inf]))
    summed = Known(Objective.parse("energy + 2*cycles"), 100.0, FREE)

    assert edp.most_energy(30.0) == pytest.approx(40.0)
    assert edp.most_cycles(10.0) == pytest.approx(50.0)
    assert summed.most_energy(20.0) == pytest.approx(60.0)
    assert math.isinf(Known(Objective.parse("cycles"), 7.0, FREE).most_energy(3.0))


def test_memory__bounds_the_tables_and_leaves_an_answer_with_its_gap():
    machine, layer = load_architecture("eyeriss"), load_workload("conv").layers[0]
    few, enough = 100_000, 1 << 30

    tight = map_einsum(machine, layer, objective="edp", budget=Budget(memory_bytes=few), workers=1, uneven=False)
    wide = map_einsum(machine, layer, objective="edp", budget=Budget(memory_bytes=enough), workers=1, uneven=False)

    assert tight.certificate is not None
    assert wide.certificate is not None
    assert tight.stop == "memory"
    assert not tight.certificate.proved
    assert tight.certificate.bound <= wide.certificate.value <= tight.certificate.value
    assert wide.certificate.proved
    assert 0 < wide.certificate.table_bytes <= enough


def sums_and_room(seed: int) -> tuple[Architecture, Einsum]:
    """A product with sums four times as wide as its words, on levels that hardly have room for these."""
    rng = np.random.default_rng(seed)
    pj = [float(rng.uniform(*ends)) for ends in ((50, 200), (2, 20), (0.1, 2))]
    sizes = [
        f"size: {rng.integers(8, 24)} B, keep: [Outputs]",
        f"size: {rng.integers(5, 9)} B, keep: [Outputs, Weights]",
    ]
    fanout = f"fanout: {{x: {rng.integers(1, 3)}}}"
    levels = [
        f"{{name: L{i}, class: {'SRAM' if i else 'DRAM'}, word: 8 bit, {text}, "
        f"energy: {{read: {each} pJ, write: {each} pJ, source: test}}}}"
        for i, (text, each) in enumerate(zip((fanout, *sizes), pj, strict=True))
    ]
    compute = "{name: MAC, class: intmac, energy: {compute: 0.1 pJ, source: test}}"
    machine = f"architecture: {{name: sums, clock: 1 GHz, levels: [{', '.join(levels)}], compute: {compute}}}"
    m, n, k = (int(bound) for bound in rng.choice([2, 3, 4], 3))
    bits = "{Weights: 8, Inputs: 8, Outputs: 8, psums: 32}"
    layer = f"workload: {{name: sums, layers: [{{name: gemm, gemm: {{M: {m}, N: {n}, K: {k}}}, bits: {bits}}}]}}"
    return load_architecture(yaml.safe_load(machine)), load_workload(yaml.safe_load(layer)).layers[0]


@pytest.mark.parametrize("group", range(4))
def test_levels_without_room_for_sums__equal_brute_force(group):
    tight = 0
    for seed in range(group, 120, 4):
        case = (*sums_and_room(seed), Constraints())
        known = truth(*case, 100_000)
        if known is None or not known.valid:
            continue
        objective: Objective = (LEAST_ENERGY, LEAST_EDP)[seed // 4 % 2]
        best = known.best(1.0, float(objective is LEAST_EDP))
        assert dropped(seed, case, known, objective, best)
        space = MapSpace(encode(*case[:2]))
        found = Solver(space, cycles=objective is LEAST_EDP).search(objective=objective).found
        assert math.isclose(found.value[0], best, rel_tol=1e-9), seed
        result = result_of(space, found.best, 0, found.column[0])
        level, sums = result.levels[1], next(t for t in result.tensors if (t.level, t.tensor) == ("L1", "Outputs"))
        loops = {loop.dim for loop in result.mapping.levels[1].temporal}
        holds = not sums.partial and level.used_words + 3 * sums.tile_words > (level.capacity_words or 0)
        tight += holds and "K" in loops and len(loops) > 1
    assert tight > 3


def test_tables_that_are_too_large__leave_out_what_coarse_ones_find_not_worth_it(monkeypatch):
    pj = {each: dict.fromkeys(("read", "write"), f"{each} pJ") for each in (100, 13, 4.6, 0.1)}
    fanout = {"x": 4, "spatial_reduction": False}
    inputs = {"keep": ["Inputs"], "bypass": ["Outputs"]}
    levels = [
        {"name": "DRAM", "class": "DRAM", "energy": pj[100], "bandwidth": "64 B/cycle", "fanout": fanout},
        {"name": "L1", "size": "64 KiB", "energy": pj[13], "keep": ["Inputs", "Outputs"], "bypass": ["Weights"]},
        {"name": "L2", "size": "2 KiB", "energy": pj[4.6], "bandwidth": "32 B/cycle", "keep": []},
        {"name": "RF", "size": "16 B", "energy": pj[0.1], **inputs},
    ]
    levels = [{"class": "SRAM", "word": "8 bit", **level} for level in levels]
    compute = {"name": "MAC", "class": "intmac", "energy": {"compute": "0.2 pJ"}}
    machine = {"architecture": {"name": "m", "clock": "1 GHz", "levels": levels, "compute": compute}}
    bits = {"Inputs": 8, "Weights": 8, "Outputs": 8, "psums": 32}
    gemm = {"workload": {"name": "g", "bits": bits, "layers": [{"name": "l", "gemm": dict.fromkeys("MNK", 8)}]}}
    space = MapSpace(encode(load_architecture(machine), load_workload(gemm).layers[0]))
    least = Solver(space, cycles=True).search(objective=LEAST_EDP).found
    known = Known(LEAST_EDP, float(least.value[0]) * (1 + 1e-9), FREE)
    whole = Relaxation(space, cycles=True, known=known)

    monkeypatch.setattr(bounds, "WORTH_IT", 1)  # what there is no room for is not begun with

    solver = Solver(space, cycles=True, known=known, memory=int(2.4 * whole.filled.energy.dense * 8))

    assert solver.relaxation.filled.stage.spreads == whole.filled.stage.spreads > 1
    assert solver.search(objective=LEAST_EDP).found.value[0] == least.value[0]


def test_states_are_dropped_by_the_corner_at_which_networks_leave_least(monkeypatch):
    """Contexts in which they leave more cost more: asking these too keeps no other state."""
    machine, layer = load_architecture("simba"), load_workload("gemm").layers[0]
    most = Known(LEAST_ENERGY, map_einsum(machine, layer, uneven=False).best.energy_pj * 1.05, FREE)
    space, asked = MapSpace(encode(machine, layer)), []
    cheapest = Sieve._cheapest

    def counted(contexts, numbers):
        asked.append((len(cheapest(contexts, numbers)), len(numbers)))
        return numbers

    alone = Relaxation(space, known=most).filled.energy.states
    monkeypatch.setattr(Sieve, "_cheapest", staticmethod(counted))
    every = Relaxation(space, known=most).filled.energy.states

    assert {few for few, _ in asked} == {1}
    assert max(many for _, many in asked) > 1
    for place, states in every.items():
        assert all((alone[place][parents] == live).all() for parents, live in states.items())
    assert any(not live.all() for states in alone.values() for live in states.values())


@pytest.mark.parametrize("too_large", [False, True])
def test_large_tables_that_tell_copies_apart__come_at_once_if_copies_count(too_large, monkeypatch):
    """Not first those of both corners alone; these come only if the others do not fit."""
    monkeypatch.setattr(bounds, "MOST_COARSE", 0)
    monkeypatch.setattr(relaxation, "NODES_AN_ENTRY", -1.0)
    monkeypatch.setattr(relaxation, "MUCH", -1.0)
    monkeypatch.setattr(relaxation, "SMALL_TABLES", 10**9)
    space = MapSpace(encode(load_architecture("simba"), load_workload("gemm").layers[0]))
    best = Solver(space).search().found.value[0]
    made = []

    def make(grid, spreads, pj, deadline, *, fine, corners, **options):
        if fine and too_large:
            raise TablesTooLarge("fine tables")
        found = bounds.make_bounds(grid, spreads, pj, deadline, fine=fine, corners=corners, **options)
        made.append((fine, found.corners))
        return found

    monkeypatch.setattr(relaxation, "make_bounds", make)

    assert Solver(space).search().found.value[0] == best
    assert made[:2] == [(False, False), (not too_large, True)]


def test_tables_that_take_longer_to_make__come_after_more_nodes():
    space = MapSpace(encode(load_architecture("simba"), load_workload("gemm").layers[0]))
    tables = Relaxation(space)
    spreads = sum(
        len(network.tiles) * len(options.spread) * len(table.contexts)
        for network, options, table in zip(
            tables.filled.energy.networks, tables.grid.options, tables.filled.energy.around, strict=True
        )
    )
    entries, nodes = tables.filled.energy.dense, tables.due(alike=False)

    tables.filled.energy.work *= 10

    assert tables.filled.energy.work == 10 * (entries + spreads)
    assert 4 * nodes < tables.due(alike=False)
