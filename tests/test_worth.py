"""States of the cost tables that are not filled: no mapping that is looked for goes through one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from accelsim import Budget, load_architecture, load_workload, map_einsum
from accelsim.inputs.mapping import Mapping
from accelsim.inputs.objective import LEAST_EDP, LEAST_ENERGY, Objective
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.search.exact.solve import Solver
from accelsim.search.exact.worth import Known
from tests.brute import truth
from tests.problems import problem

MOST = 4_000
FREE = np.full(3, np.inf)
SHARES = (0.0, 0.03, 0.3)
"""Of the mappings from the best one on, how many are looked for; 0: the best alone."""


def states(solver: Solver, mapping: Mapping) -> list[tuple[str, int, tuple[int, ...], int]]:
    """Kind of table, level, parents and shape of all states that a mapping goes through."""
    encoded, shapes = solver.space.encoded, solver.grid.shapes
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
        found.append((kind, level, parents, shape))
    return found


@pytest.mark.parametrize("group", range(4))
def test_worthless_states__are_on_no_mapping_that_is_looked_for(group):
    dropped = 0
    for seed in range(group, 400, 4):
        case = problem(seed, MOST)
        known = truth(*case, MOST)
        if known is None or not known.valid:
            continue
        objective: Objective = (LEAST_ENERGY, LEAST_EDP)[seed // 4 % 2]
        values = known.worth(objective)
        most = float(np.sort(values)[int(SHARES[seed % 3] * (len(values) - 1))])
        space = MapSpace(encode(case[0], case[1]), case[2])
        solver = Solver(space, cycles=objective is LEAST_EDP, known=Known(objective, most, FREE))
        if solver.coarse and seed % 2:  # and tables that tell copies of the output apart
            solver._fill_tables(None, fine=True)
        for number in np.flatnonzero(values <= most).tolist()[:200]:
            for kind, level, parents, shape in states(solver, known.mapping(number)):
                filled = solver.bounds.states.get((kind, level), {}).get(parents)
                assert filled is None or filled[:, shape].any(), (seed, kind, level, parents)
        dropped += sum(int((~each).sum()) for found in solver.bounds.states.values() for each in found.values())

    assert dropped > 1000


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

    tight = map_einsum(machine, layer, objective="edp", budget=Budget(memory_bytes=few), workers=1)
    wide = map_einsum(machine, layer, objective="edp", budget=Budget(memory_bytes=enough), workers=1)

    assert tight.certificate is not None
    assert wide.certificate is not None
    assert tight.stop == "memory"
    assert not tight.certificate.proved
    assert tight.certificate.bound <= wide.certificate.value <= tight.certificate.value
    assert wide.certificate.proved
    assert 0 < wide.certificate.table_bytes <= enough
