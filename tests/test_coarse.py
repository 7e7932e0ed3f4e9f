"""The bound of coarse tables against the optimum: by brute force, and by the exact search.

`ACCELSIM_COARSE_<KIND>`: how many seeds are looked at, for kinds PROBLEMS, RAGGED, UNEVEN, EDGES and SEVERAL.
`ACCELSIM_COARSE_FIRST`: the first one (default: others on each day, which a failure names).
"""

from __future__ import annotations

import datetime
import math
import os
import random
import time
from dataclasses import replace

import numpy as np
import pytest

from accelsim import load_architecture, load_workload
from accelsim.inputs.architecture import Architecture, Axis, Compute, Level
from accelsim.inputs.energies import EnergyEntry, EnergyTable
from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.nodes import with_nodes
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.mapspace.merging import merged
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.search.exact import coarse_tables
from accelsim.search.exact.coarse import RATIOS, coarse_bound
from accelsim.search.exact.coarse_tables import split_buckets
from accelsim.search.mapper import imperfect_dims, map_einsum
from accelsim.search.stopping import Budget
from tests.brute import truth
from tests.brute_ragged import walks
from tests.effort import many
from tests.problems import problem

PROBLEMS = many("COARSE_PROBLEMS", 400, 64)
RAGGED = many("COARSE_RAGGED", 300, 48)
UNEVEN = many("COARSE_UNEVEN", 60, 10)
EDGES = many("COARSE_EDGES", 200, 40)
SEVERAL = many("COARSE_SEVERAL", 40, 8)
FIRST = int(os.environ.get("ACCELSIM_COARSE_FIRST", 10_000 * datetime.datetime.now(datetime.UTC).date().toordinal()))
GROUPS = 8
MOST = 4000
"""Mappings of a problem at most."""
SURE = 1e-9


def check(space: MapSpace, best: float, name: object) -> float:
    """No bound is above the optimum, of any round, whatever value is known; returns the last one's share of it."""
    free = coarse_bound(space)
    every = [each.bound for each in free.rounds]
    for known, ratios in ((1.0, RATIOS), (1.02, RATIOS), (1.3, RATIOS), (1.1, (16.0, 5.0, 3.0, 1.0))):
        found = coarse_bound(space, best * known, ratios=ratios)
        every.append(found.bound)
        assert found.proved or found.bound <= best * known
        assert not (found.proved and known > 1.0), (name, known)
    assert max(every) <= best * (1.0 + SURE), (name, [each / best for each in every])
    return free.bound / best if best else 1.0


@pytest.mark.parametrize("group", range(GROUPS))
def test_coarse_bound__is_below_brute_force(group):
    """Random machines, Einsums and constraints; the space with merged dimensions has the same optimum."""
    for seed in range(FIRST + group, FIRST + PROBLEMS, GROUPS):
        machine, einsum, constraints = problem(seed, MOST)
        known = truth(machine, einsum, constraints, MOST)
        if known is None or not known.valid:
            continue
        space, best = MapSpace(encode(machine, einsum), constraints), float(known.energy_pj.min())
        check(space, best, seed)
        if merged(space) is not space:
            check(merged(space), best, seed)


@pytest.mark.parametrize("group", range(GROUPS))
def test_coarse_bound__is_below_every_mapping_with_remainders(group):
    """At the edge of a dimension a tile may stay in place; words are fewer than those of whole passes."""
    for walked in walks(range(FIRST + group, FIRST + RAGGED, GROUPS)):
        valid = walked.valid()
        if valid:
            space = MapSpace(encode(walked.architecture, walked.einsum), imperfect=frozenset(walked.imperfect))
            check(space, min(energy for energy, _ in valid), walked.seed)


def test_coarse_bound__is_below_the_uneven_optimum():
    """A machine whose levels are storage nodes is one with more levels; nodes share their level's room."""
    tried = 0
    for seed in range(FIRST, FIRST + UNEVEN):
        machine, einsum, constraints = problem(seed, 1000)
        try:
            budget = Budget(seconds=5.0)
            found = map_einsum(machine, einsum, constraints=constraints, uneven=True, workers=1, budget=budget)
        except AccelsimError:
            continue
        if found.certificate is not None and found.certificate.proved:
            tried += 1
            nodes = encode(with_nodes(machine, einsum, constraints), einsum)
            check(MapSpace(nodes, constraints), found.best.energy_pj, seed)
    assert tried


def deep_machine(rng: random.Random) -> Architecture:
    """Three to five levels that are mostly free to keep or pass by, with networks and wide sums now and then."""
    levels, table = [], {}
    energy, size = 12.0, rng.choice([60, 200, 600])
    for index in range(rng.choice([3, 3, 4])):
        name = f"L{index}"
        fanout = rng.choice([(1, 1), (1, 1), (4, 1), (2, 2), (4, 3)] if index else [(1, 1), (2, 3)])
        x, y = (Axis(size, rng.random() < 0.9, rng.random() < 0.9) for size in fanout)
        kept = [set(), set(), set(), {"Weights"}, {"Outputs"}, {"Weights", "Inputs", "Outputs"}]
        keep = rng.choice(kept) if index else kept[-1]
        bypass = {"Inputs"} if keep == {"Outputs"} else set()
        room = None if index == 0 else max(6, size)
        levels.append(Level(name, "SRAM", keep=frozenset(keep), bypass=frozenset(bypass), x=x, y=y, size_words=room,
                            word_bits=8, drain_reads=rng.random() < 0.2))  # fmt: skip
        base = rng.choice([20.0, 64.0, 100.0]) if index == 0 else energy
        table[name, "*", "read"] = EnergyEntry(base, "test")
        table[name, "*", "write"] = EnergyEntry(base * rng.choice([0.7, 1.0, 1.3]), "test")
        if rng.random() < 0.4:
            table[f"{name} network", "*", "transfer"] = EnergyEntry(rng.choice([0.4, 3.0]), "test")
        if index:
            energy, size = energy * rng.choice([0.15, 0.4, 0.6]), int(size * rng.choice([0.1, 0.25, 0.5]))
    table["MAC", "*", "compute"] = EnergyEntry(0.5, "test")
    return Architecture("deep", tuple(levels), Compute(), EnergyTable(table))


def gemm(rng: random.Random) -> Einsum:
    bounds = {dim: rng.choice([4, 6, 8, 9, 12, 16, 20]) for dim in "MNK"}
    bits = rng.choice([8, 32])
    tensors = (
        Tensor("I", ((("M", 1),), (("K", 1),)), "Inputs", 8, 8),
        Tensor("W", ((("K", 1),), (("N", 1),)), "Weights", 8, 8),
        Tensor("O", ((("M", 1),), (("N", 1),)), "Outputs", 8, bits, output=True),
    )
    return Einsum("gemm", bounds, tensors)


def test_coarse_bound__is_near_the_optimum_of_deep_machines():
    """Prices on chords, narrow sums, and copies between nodes: never above the optimum, and mostly near it."""
    shares = []
    for seed in range(FIRST, FIRST + SEVERAL):
        rng = random.Random(seed)
        machine, einsum = deep_machine(rng), gemm(rng)
        try:
            found = map_einsum(machine, einsum, uneven=False, workers=1, budget=Budget(seconds=10.0))
        except AccelsimError:
            continue
        if found.certificate is not None and found.certificate.proved:
            shares.append(check(MapSpace(encode(machine, einsum)), found.best.energy_pj, seed))
    assert np.median(shares) > 0.9


def small_machine(rng: random.Random) -> Architecture:
    """Two or three levels, with one network above the innermost one: little is relaxed, so that edges count."""
    levels, table, energy, size = [], {("MAC", "*", "compute"): EnergyEntry(0.1, "test")}, 6.0, rng.choice([12, 20, 40])
    count = rng.choice([2, 3, 3])
    for index in range(count):
        x, y = rng.choice([(1, 1), (2, 1), (3, 1), (4, 1), (2, 2)]) if index == count - 2 else (1, 1)
        levels.append(Level(f"L{index}", "SRAM", keep=frozenset({"Weights", "Inputs", "Outputs"}), x=Axis(x), y=Axis(y),
                            size_words=size if index else None, word_bits=8))  # fmt: skip
        for action in ("read", "write"):
            table[f"L{index}", "*", action] = EnergyEntry(energy if index else 100.0, "test")
        if index:
            energy, size = energy * 0.2, max(3, size // rng.choice([3, 6]))
    return Architecture("small", tuple(levels), Compute(), EnergyTable(table))


@pytest.mark.parametrize("group", range(4))
def test_coarse_bound__is_below_the_optimum_of_gemms_with_remainders(group):
    """The edge rule: in one of ten of these, words that stay in place in a last pass make a better mapping."""
    for seed in range(FIRST + group, FIRST + EDGES, 4):
        rng = random.Random(seed)
        machine, einsum = small_machine(rng), gemm(rng)
        einsum = replace(einsum, dims={dim: rng.choice([3, 5, 7, 9, 10, 11, 13, 17]) for dim in einsum.dims})
        budget = Budget(seconds=5.0)
        try:
            found = map_einsum(machine, einsum, imperfect="all", uneven=False, workers=1, budget=budget)
        except NoValidMappingError:
            continue
        if found.certificate is not None and found.certificate.proved:
            space = MapSpace(encode(machine, einsum), imperfect=imperfect_dims(einsum, "all"))
            check(space, found.best.energy_pj, seed)


def test_coarse_bound__proves_an_optimum():
    """Where nothing is relaxed, the best mapping is proved, and a value above it is not."""
    machine, layer = load_architecture("systolic"), load_workload("gemm").layers[0]
    layer = replace(layer, dims={"M": 64, "N": 64, "K": 64})
    best = map_einsum(machine, layer, uneven=False, workers=1).best.energy_pj
    space = MapSpace(encode(machine, layer))
    assert coarse_bound(space, best).bound <= best
    assert not coarse_bound(space, best * 1.01).proved


def test_coarse_bound__ends_in_time_and_memory():
    """Without memory the bound is the multiply-accumulates' energy, without time there is none."""
    machine, layer = load_architecture("eyeriss"), load_workload("conv").layers[0]
    space = merged(MapSpace(encode(machine, layer)))
    none = coarse_bound(space, memory=0)
    assert none.stop == "memory"
    assert none.bound == layer.macs * machine.mac_pj(layer)
    late = coarse_bound(space, deadline=time.monotonic())
    assert (late.stop, late.rounds, late.bound) == ("timeout", (), 0.0)
    few = coarse_bound(space, work=1.0)
    assert (few.stop, len(few.rounds)) == ("effort", 1)
    assert coarse_bound(space, work=1.0).bound == few.bound < math.inf


def test_coarse_bound__is_the_same_whatever_pieces_it_is_swept_in(monkeypatch):
    space = merged(MapSpace(encode(load_architecture("eyeriss"), load_workload("gemm").layers[0])))
    whole = coarse_bound(space, ratios=(8.0,))
    monkeypatch.setattr(coarse_tables, "FIRST_PIECE", 1)
    monkeypatch.setattr(coarse_tables, "PIECE_SECONDS", 0.0)
    assert coarse_bound(space, ratios=(8.0,)).rounds[0].bound == whole.rounds[0].bound


def test_split_buckets__nest():
    """Buckets of a round are parts of those of the round before, or states could be lost between rounds."""
    sizes = np.array([n for n in range(1, 5041) if 5040 % n == 0])
    groups = [np.arange(len(sizes))]
    for ratio in RATIOS:
        finer = split_buckets(groups, sizes, ratio)
        assert np.concatenate(finer).tolist() == list(range(len(sizes)))
        starts = {int(group[0]) for group in finer}
        assert starts >= {int(group[0]) for group in groups}
        groups = finer
    assert all(len(group) == 1 for group in groups)


def test_coarse_bound__covers_remainders_of_a_machine_of_users():
    machine, layer = load_architecture("gemmini"), load_workload("gemm").layers[0]
    layer = replace(layer, dims={"M": 31, "N": 27, "K": 45})
    budget = Budget(seconds=20.0)
    found = map_einsum(machine, layer, imperfect="all", uneven=False, workers=1, budget=budget).best.energy_pj
    space = MapSpace(encode(machine, layer), imperfect=imperfect_dims(layer, "all"))
    bound = coarse_bound(space, found)
    assert 0.8 * found < bound.bound <= found


def test_coarse_bound__is_exact_at_one_level():
    """Compute units hold nothing in place: each multiply-accumulate reads both operands, and updates a sum."""
    level = Level("L0", "DRAM", keep=frozenset({"Weights", "Inputs", "Outputs"}), x=Axis(4, True, True), word_bits=8)
    table = {("L0", "*", "read"): 10.0, ("L0", "*", "write"): 7.0, ("MAC", "*", "compute"): 1.0}
    energy = EnergyTable({key: EnergyEntry(value, "test") for key, value in table.items()})
    machine = Architecture("flat", (level,), Compute(), energy)
    einsum = replace(gemm(random.Random(1)), dims={"M": 8, "N": 8, "K": 8})
    best = map_einsum(machine, einsum, uneven=False, workers=1).best.energy_pj
    space = MapSpace(encode(machine, einsum))
    assert math.isclose(coarse_bound(space).bound, best)
    assert coarse_bound(space, best).proved
