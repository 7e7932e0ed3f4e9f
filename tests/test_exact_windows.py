"""Windows that loops of several levels move: the exact mapper against brute force, without walks."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from accelsim import load_architecture, load_workload
from accelsim.inputs.architecture import Architecture, Axis, Compute, Level
from accelsim.inputs.constraints import Block, Constraints, Factor, LevelConstraint
from accelsim.inputs.energies import EnergyEntry, EnergyTable
from accelsim.inputs.nodes import with_nodes
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.search.exact.incumbents import WITHIN
from accelsim.search.exact.layout import make_structure
from accelsim.search.exact.shapes import make_grid
from accelsim.search.exact.solve import Solver
from tests.brute import FREE, truth

MOST, SAME = 20_000, 1e-9
WINDOWS = [
    (8, 3, 1, 1, 1), (12, 3, 1, 1, 1), (12, 5, 1, 1, 2), (16, 7, 1, 1, 2), (8, 2, 1, 1, 2), (8, 3, 2, 1, 1),
    (4, 3, 1, 3, 1), (8, 3, 1, 3, 1), (12, 5, 1, 1, 1),
]  # fmt: skip
"""P, R, how far a step of each goes, and over how many children P may be spread."""
Problem = tuple[Architecture, Einsum, Constraints]


def window(dims: dict[str, int], by: int = 1, tap: int = 1) -> Einsum:
    """A convolution in one dimension."""
    inputs = Tensor("I", ((("C", 1),), (("P", by), ("R", tap))), "Inputs")
    weights = Tensor("W", ((("K", 1),), (("C", 1),), (("R", 1),)), "Weights")
    output = Tensor("O", ((("K", 1),), (("P", 1),)), "Outputs", output=True)
    return Einsum("window", dims, (inputs, weights, output))


def machine_of(levels: list[Level], energies: list[float]) -> Architecture:
    """A machine whose levels take so much energy for each read or write, and whose compute units take none."""
    each = itertools.product(range(len(levels)), ("read", "write"))
    entries = {(levels[n].name, "*", action): EnergyEntry(energies[n], "test") for n, action in each}
    table = EnergyTable({**entries, ("MAC", "*", "compute"): EnergyEntry(0.0, "test")})
    return Architecture("windows", tuple(levels), Compute(), table)


def passed_by(seed: int) -> Problem:
    """A window that the second of three levels passes by, where only words of the outermost one cost anything.

    A loop over P on each side of that level, with one over R outside, may bring the window back to its place; every
    other round of seeds asks for the outer ones.
    """
    rng = random.Random(seed)
    p, r, by, tap, share = WINDOWS[seed % len(WINDOWS)]
    passing = frozenset({"Inputs", *rng.choice([[], ["Weights"], ["Weights", "Outputs"]])})
    levels = [
        Level("L0", "SRAM", x=Axis(share, multicast=False)),
        Level("L1", "SRAM", bypass=passing),
        Level("L2", "SRAM", bypass=frozenset({"Weights", "Outputs"}), size_words=rng.choice([1, 2, 4, 6])),
    ]
    layer = window({"C": rng.choice([1, 1, 2]), "K": 1, "P": p, "R": r}, by, tap)
    loops = Block(factors=(Factor("P", 2, 2), Factor("R", r, r)))
    asked = LevelConstraint("L0", temporal=loops, x=Block(factors=(Factor("P", share, share),)))
    constraints = Constraints((asked,)) if seed // len(WINDOWS) % 2 else FREE
    return machine_of(levels, [1.0, 0.0, 0.0]), layer, constraints


def asked_to_spread(seed: int) -> Problem:
    """A window that constraints spread over a network, with loops over it at levels inside that pass it by."""
    rng = random.Random(seed)
    spread, many = rng.choice([2, 2, 3, 4]), rng.choice([1, 2])
    levels = [Level("L0", "SRAM", x=Axis(spread, rng.random() < 0.5, spatial_reduction=False))]
    rules = [
        LevelConstraint("L0", temporal=Block(only=frozenset("CK")), x=Block(factors=(Factor("P", spread, spread),)))
    ]
    for n in range(1, many + 1):
        passing = frozenset({"Inputs", *rng.choice([[], ["Weights"], ["Weights", "Outputs"]])})
        levels.append(Level(f"L{n}", "SRAM", bypass=passing, size_words=rng.choice([None, 20])))
        factors = (Factor("P", 2, 2),) if rng.random() < 0.6 else ()
        rules.append(LevelConstraint(f"L{n}", temporal=Block(factors, frozenset(rng.choice(["P", "PC", "PK"])))))
    holding = frozenset(rng.choice([["Weights", "Outputs"], ["Weights"]]))
    levels.append(Level("L9", "SRAM", keep=frozenset({"Inputs"}), bypass=holding, size_words=rng.randint(2, 16)))
    dims = {
        "C": rng.choice([1, 2]),
        "K": rng.choice([1, 2]),
        "P": spread * rng.choice([4, 8, 12]),
        "R": rng.choice([2, 3]),
    }
    energies = [10.0, *(rng.choice([0.0, 0.1, 1.0]) for _ in levels[1:])]
    return machine_of(levels, energies), window(dims), Constraints(tuple(rules))


@pytest.mark.parametrize("group", range(4))
def test_windows_that_loops_further_in_bring_back__leave_each_number_of_words_to_as_many_mappings(group):
    paced = 0
    for seed in range(group, 72, 4):
        machine, layer, constraints = passed_by(seed)
        known = truth(machine, layer, constraints, MOST)
        if known is None or not known.valid:
            continue
        space = MapSpace(encode(machine, layer), constraints)
        values = np.unique(known.energy_pj)
        for limit in np.random.default_rng(seed).choice(values, min(8, len(values)), replace=False).tolist():
            listed = Solver(space, every=True).search(kind=WITHIN, limit=limit).found.tally[2]
            assert listed == (known.energy_pj <= limit * (1 + SAME)).sum(), (seed, limit)
        paced += bool(make_structure(make_grid(space)).paced)
    assert paced > 5


def test_windows_that_constraints_spread__carry_on_inside_the_network():
    solved = 0
    for seed in range(120):
        machine, layer, constraints = asked_to_spread(seed)
        known = truth(machine, layer, constraints, MOST)
        if known is None or not known.valid:
            continue
        outcome = Solver(MapSpace(encode(machine, layer), constraints)).search()

        assert outcome.root_bound <= known.best(1.0, 0.0) * (1 + SAME), seed
        assert math.isclose(float(outcome.found.value[0]), known.best(1.0, 0.0), rel_tol=SAME), seed
        solved += 1
    assert solved > 60


def test_windows_that_stay_in_place__are_bounded_closely_where_no_loop_can_bring_them_back():
    """A row of inputs in a buffer that has no room for it: while K goes on, it is read again from its start."""
    machine = load_architecture("two_level")
    levels = machine.levels[0], replace(machine.levels[1], size_words=48)
    dims = {"N": 1, "K": 16, "C": 8, "P": 16, "Q": 1, "R": 3, "S": 1}
    layer = load_workload({"workload": {"name": "w", "conv": dims}}).layers[0]
    machine = with_nodes(replace(machine, levels=levels, sized={}), layer, FREE)

    outcome = Solver(MapSpace(encode(machine, layer))).search()

    assert outcome.root_bound > 0.9 * float(outcome.found.value[0])
