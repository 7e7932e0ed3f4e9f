"""The exact mapper against brute force over the whole map space, its certificates, and laws that optima obey.

`ACCELSIM_EXACT_PROBLEMS`: how many random problems are solved (default 600; 3000 take a quarter of an hour of CPU),
`ACCELSIM_EXACT_FIRST`: the first seed (default: others on each day, which a failure names).
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import math
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from accelsim import load_architecture, load_workload
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints, LevelConstraint
from accelsim.inputs.errors import NoValidMappingError
from accelsim.inputs.nodes import with_nodes
from accelsim.inputs.objective import QUANTITIES, Limit, Objective, costs_of
from accelsim.inputs.workload import Einsum, pad
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.population.counting import Nest, count_mappings
from accelsim.search.descent import Descent
from accelsim.search.exact import relaxation
from accelsim.search.exact.front import _undominated, map_front
from accelsim.search.exact.incumbents import SURE, WITHIN
from accelsim.search.exact.layout import layout_of
from accelsim.search.exact.solve import Solver
from accelsim.search.mapper import map_einsum
from accelsim.search.stopping import Budget
from tests.brute import Truth, check_points, product, truth
from tests.effort import many
from tests.problems import MOST, plain, problem, with_least_use, with_products
from tests.switches import switched

PROBLEMS = many("EXACT_PROBLEMS", 450)
PRODUCTS = many("EXACT_PRODUCTS", 160)
FIRST = int(os.environ.get("ACCELSIM_EXACT_FIRST", 10_000 * datetime.datetime.now(datetime.UTC).date().toordinal()))
GROUPS = 30
SAME = 1e-9
OBJECTIVES = {
    0: ("energy", (1.0, 0.0)),
    1: ("energy", (1.0, 0.0)),
    2: ("cycles", (0.0, 1.0)),
    3: ("edp", (1.0, 1.0)),
    4: ("energy^2*cycles", (2.0, 1.0)),
}

Problem = tuple[Architecture, Einsum, Constraints]


def same(found: float, expected: float) -> bool:
    return math.isclose(found, expected, rel_tol=SAME, abs_tol=1e-9)


def check_best(case: Problem, known: Truth, objective: str, powers: tuple[float, float]) -> None:
    """The best mapping has the smallest value of all, and the certificate proves it."""
    architecture, einsum, constraints = case
    result = map_einsum(architecture, einsum, constraints=constraints, objective=objective, workers=1, uneven=False)
    assert result.certificate is not None
    assert same(result.certificate.value, known.best(*powers)), objective
    assert result.certificate.proved
    assert result.stop == "exhausted"
    assert known.number(result.best.mapping) is not None
    if objective == "cycles":
        fastest = known.cycles == known.cycles.min()
        assert same(result.best.energy_pj, known.energy_pj[fastest].min())


def check_smallest(case: Problem, known: Truth) -> None:
    """The k best are k different mappings with the k smallest values."""
    architecture, einsum, constraints = case
    result = map_einsum(architecture, einsum, constraints=constraints, top=25, workers=1)
    expected = known.smallest(25)
    numbers = [known.number(found.mapping) for found in result.ranked]
    assert len(set(numbers)) == len(numbers) == len(expected)
    assert all(same(found.energy_pj, value) for found, value in zip(result.ranked, expected, strict=True))


def check_within(case: Problem, known: Truth) -> None:
    """All mappings within a share of the best are counted."""
    architecture, einsum, constraints = case
    result = map_einsum(architecture, einsum, constraints=constraints, objective="edp", within=0.07, workers=1)
    values = known.values(1.0, 1.0)
    limit = values.min() * 1.07
    least, most = (int((values <= limit * (1 + slack)).sum()) for slack in (-1e-9, 1e-9))
    assert result.within is not None
    assert least <= result.within[1] <= most
    assert len(result.ranked) == min(result.within[1], 1000)


def check_front(case: Problem, known: Truth, columns: tuple[str, ...]) -> None:
    """The front holds the values that no mapping beats, each once."""
    architecture, einsum, constraints = case
    level = len(architecture.levels) - 1
    all_values = {
        "energy": known.energy_pj,
        "cycles": known.cycles,
        "offchip_words": known.offchip_words,
        f"capacity:{architecture.levels[level].name}": known.used_words[:, level],
    }
    result = map_front(architecture, einsum, columns, constraints=constraints, workers=1)
    check_points(result.values, np.stack([all_values[column].astype(float) for column in columns], 1), columns)


def draw_objective(known: Truth, rng: np.random.Generator) -> Objective:
    """A sum or product in which each quantity counts about as much as any other."""
    scale = [float(np.median(values)) or 1.0 for values in (known.energy_pj, known.cycles, known.offchip_words)]
    terms = []
    for _ in range(int(rng.integers(1, 4))):
        powers = [float(power) for power in rng.choice([0.0, 1.0, 2.0, 0.5], 3, p=[0.4, 0.4, 0.1, 0.1])]
        if not any(powers):
            powers[int(rng.integers(3))] = 1.0
        weight = float(rng.uniform(0.2, 1.0)) / math.prod(s**p for s, p in zip(scale, powers, strict=True))
        factors = (f"{name}^{power}" for name, power in zip(QUANTITIES, powers, strict=True) if power)
        terms.append("*".join([repr(weight), *factors]))
    return Objective.parse(" + ".join(terms))


def check_objective(case: Problem, known: Truth, rng: np.random.Generator) -> None:
    """The best mapping of any objective, with costs limited to what some mapping has exactly."""
    architecture, einsum, constraints = case
    named = [Objective.parse(name) for name in ("energy", "cycles", "offchip_words", "edp", "energy*offchip_words")]
    objective = named[int(rng.integers(len(named)))] if rng.random() < 0.4 else draw_objective(known, rng)
    allowed, limits = np.ones(known.valid, bool), []
    for quantity in rng.choice(QUANTITIES, int(rng.integers(0, 3)), replace=False):
        costs = {"energy": known.energy_pj, "cycles": known.cycles, "offchip_words": known.offchip_words}
        values = costs[str(quantity)]
        tighter = values[values < values[known.worth(objective).argmin()]]  # than what is best without limits
        pool = tighter if len(tighter) and rng.random() < 0.8 else values
        most = np.sort(pool)[int(len(pool) * rng.random())]
        limits.append(Limit(str(quantity), Fraction(float(most))))
        allowed &= values <= float(most) * (1 + 1e-10)
    asked = dataclasses.replace(constraints, limits=tuple(limits))
    if not allowed.any():
        with pytest.raises(NoValidMappingError, match="proved"):
            map_einsum(architecture, einsum, constraints=asked, objective=objective.name, workers=1, uneven=False)
        return
    result = map_einsum(architecture, einsum, constraints=asked, objective=objective.name, workers=1, uneven=False)
    worth = known.worth(objective)[allowed]
    assert result.certificate is not None
    assert same(result.certificate.value, float(worth.min())), (objective.name, asked.limits)
    assert result.certificate.proved
    assert same(objective.of(result.best), result.certificate.value)
    assert not asked.broken_by_costs(costs_of(result.best), result.best.ideal_cycles)
    if objective.name in ("cycles", "offchip_words"):
        equal = known.energy_pj[allowed][worth == worth.min()]
        assert same(result.best.energy_pj, float(equal.min()))


def problems(group: int) -> Iterator[tuple[int, Problem, Truth]]:
    """Seeds of a group, with what brute force says of them."""
    for seed in range(FIRST + group, FIRST + PROBLEMS, GROUPS):
        case = problem(seed)
        known = truth(*case, MOST)
        if known is not None:
            yield seed, case, known


def check_many(case: Problem, known: Truth, kind: int) -> None:
    """One of four searches for several mappings: two fronts, the smallest and fastest, all within a share."""
    if kind == 0:
        check_front(case, known, ("energy", "cycles"))
    elif kind == 1:
        check_front(case, known, ("energy", "offchip_words", f"capacity:{case[0].levels[-1].name}"))
    elif kind == 2:
        check_smallest(case, known)
    else:
        check_within(case, known)


@pytest.mark.parametrize("group", range(GROUPS))
def test_exact__equals_brute_force(group):
    """With any walks, and finer tables at any time."""
    for seed, case, known in problems(group):
        try:
            if not known.valid:
                with pytest.raises(NoValidMappingError):
                    map_einsum(case[0], case[1], constraints=case[2], workers=1, uneven=False)
                continue
            kind = (seed // GROUPS) % 13
            with switched(seed):
                if kind in OBJECTIVES:
                    check_best(case, known, *OBJECTIVES[kind])
                elif kind > 8:
                    check_objective(case, known, np.random.default_rng(seed))
                else:
                    check_many(case, known, kind - 5)
        except AssertionError as error:
            raise AssertionError(f"problem {seed}: {error}") from error


@pytest.mark.parametrize("group", range(4))
def test_search__needs_no_walks_for_the_optimum(group, monkeypatch):
    """A walk often has the optimum before the search begins, and hides bounds that are too high.

    Half are uneven, and half of each have all finer tables at once.
    """
    if group > 1:
        monkeypatch.setattr(relaxation, "NODES_AN_ENTRY", -1.0)
    for seed in range(FIRST + group, FIRST + group + 240, 4):
        architecture, einsum, constraints = problem(seed)
        if group % 2:
            architecture = with_nodes(architecture, einsum, constraints)
        known = truth(architecture, einsum, constraints, MOST)
        if known is None or not known.valid:
            continue
        powers = [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0)][seed // 4 % 3]
        solver = Solver(MapSpace(encode(architecture, einsum), constraints), cycles=powers[1] > 0.0)
        if seed % 16 > 7:
            tables = solver.relaxation
            tables.filled = tables.problem.fill(replace(tables.filled.stage, copies=True), None, {})
            tables.may_be_finer = False
        outcome = solver.search(objective=product(*powers))

        assert outcome.root_bound <= known.best(*powers) * (1 + SAME), seed
        assert same(float(outcome.found.value[0]), known.best(*powers)), seed


def test_levels_that_keep_nothing__may_split_a_window_in_two():
    """A word of the input stays where a loop over R ends as one over P inside it begins: P in 2, R in 2, P in 2."""
    split = 0
    cheap, dear = ({"read": f"{pj} pJ", "write": f"{pj} pJ"} for pj in (0.1, 300))
    for p, r, m, size in itertools.product((4, 6, 8), (2, 3), (1, 2), (1, 2, 3)):
        levels = [
            {"name": "DRAM", "class": "DRAM", "word": "8 bit", "energy": {"read": "100 pJ", "write": "100 pJ"}},
            {"name": "MID", "class": "SRAM", "word": "8 bit", "size": "6 B", "energy": dear, "keep": []},
            {"name": "BUF", "class": "SRAM", "word": "8 bit", "size": f"{size} B", "energy": cheap, "keep": []},
        ]
        levels[2]["bypass"] = ["Weights", "Outputs"]
        compute = {"name": "MAC", "class": "intmac", "energy": {"compute": "1 pJ"}}
        machine = {"architecture": {"name": "w", "clock": "1 GHz", "levels": levels, "compute": compute}}
        tensors = {"Weights": ["M", "R"], "Inputs": ["P+R"], "Outputs": ["M", "P"]}
        einsum = {"dims": {"P": p, "R": r, "M": m}, "tensors": tensors, "output": "Outputs"}
        layer = {"workload": {"name": "w", "bits": 8, "layers": [{"name": "l", "einsum": einsum}]}}
        case = load_architecture(machine), load_workload(layer).layers[0], Constraints()
        space = MapSpace(encode(*case[:2]), case[2])
        outcome = Solver(space).search()

        assert same(float(outcome.found.value[0]), truth(*case, MOST).best(1.0, 0.0)), (p, r, m, size)
        split += bool(((outcome.found.best.temporal[0] > 1).sum(axis=0) > 1).any())
    assert split > 5


def test_levels_that_keep_some__agree_with_brute_force_without_walks():
    """Loops that move nothing a level keeps stand outside it."""
    looked = 0
    for seed in range(150):
        rng = random.Random(seed)
        machine, einsum, _ = problem(seed)
        free = [replace(level, keep=frozenset(), bypass=frozenset()) for level in machine.levels[1:]]
        machine = replace(machine, levels=(machine.levels[0], *free))
        names = [tensor.name for tensor in einsum.tensors]
        kept = [frozenset(name for name in names if rng.random() < 0.45) for _ in free]
        levels = (
            LevelConstraint(level.name, keep=some, bypass=frozenset(names) - some)
            for level, some in zip(free, kept, strict=True)
        )
        case = machine, einsum, Constraints(tuple(levels))
        known = truth(*case, MOST)
        if known is None or not known.valid:
            continue
        solver = Solver(MapSpace(encode(machine, einsum), case[2]))
        looked += bool(layout_of(solver.relaxation.grid).merges[3])

        assert same(float(solver.search().found.value[0]), known.best(1.0, 0.0)), seed
    assert looked > 40


def test_objectives_and_limits__equal_brute_force_without_walks(monkeypatch):
    monkeypatch.setattr(Descent, "go", lambda *_: None)
    for seed in range(60):
        case = problem(seed)
        known = truth(*case, MOST)
        if known is not None and known.valid:
            check_objective(case, known, np.random.default_rng(seed))


LAYERS = [
    ("eyeriss", "gemm", "energy"),
    ("systolic", "gemm", "edp"),
    ("systolic", "gemm", "cycles"),
    ("nvdla", "conv", "energy"),
    ("eyeriss", "strided", "edp"),
    ("simba", "depthwise", "energy"),
]


@pytest.mark.parametrize(("machine", "layer", "objective"), LAYERS)
def test_large_layers__are_proved_and_no_draw_is_better(machine, layer, objective):
    architecture, einsum = load_architecture(machine), load_workload(layer).layers[0]

    result = map_einsum(architecture, einsum, objective=objective, uneven=False)
    drawn = map_einsum(architecture, einsum, objective=objective, method="random", budget=Budget(mappings=200_000))

    assert result.certificate is not None
    assert result.certificate.proved
    value = {"energy": drawn.best.energy_pj, "cycles": drawn.best.cycles, "edp": drawn.best.edp}[objective]
    assert result.certificate.value <= value * (1 + SAME)
    # compulsory traffic and the roofline
    outer = sum(t.reads + t.fills + t.updates for t in result.best.tensors if t.level == architecture.levels[0].name)
    assert outer >= sum(t.words(einsum.dims) for t in einsum.tensors if not t.output)
    assert result.best.cycles >= einsum.macs / result.best.compute_instances


def test_element_wise_sum__is_proved_at_the_root_where_levels_leak(tmp_path):
    """Very many mappings move the same words, and are told apart by leakage alone."""
    path = tmp_path / "add.yaml"
    sizes, tensors = "{C: 256, P: 3136}", "{Inputs1: [C, P], Inputs2: [C, P], Outputs: [C, P]}"
    path.write_text(f"workload: {{name: add, einsum: {{dims: {sizes}, tensors: {tensors}, output: Outputs}}}}")

    result = map_einsum(load_architecture("systolic_tpu_v1"), load_workload(path).layers[0], uneven=False)

    assert result.certificate is not None
    assert result.certificate.proved
    assert result.certificate.nodes < 10_000


def test_energy_and_edp__do_not_beat_each_other_at_their_own_game():
    architecture, einsum = load_architecture("eyeriss"), load_workload("gemm").layers[0]

    best = {
        goal: map_einsum(architecture, einsum, objective=goal, uneven=False).best
        for goal in ("energy", "cycles", "edp")
    }

    assert best["energy"].energy_pj == min(found.energy_pj for found in best.values())
    assert best["cycles"].cycles == min(found.cycles for found in best.values())
    assert best["edp"].edp == min(found.edp for found in best.values())


@pytest.mark.parametrize(
    ("machine", "layer", "more"),
    [("gpu_sm", "gemm", (1.0, 1.1)), ("gemmini", "batched_gemm", (1.0 + 1e-9, math.inf))],
)
def test_equally_fast_mappings__are_searched_for_less_energy_so_long(machine, layer, more, monkeypatch):
    """The cycles are proved all the same; a few nodes find a mapping of hardly more energy, or of more."""
    architecture, einsum = load_architecture(machine), load_workload(layer).layers[0]
    long = map_einsum(architecture, einsum, objective="cycles", uneven=False)
    monkeypatch.setattr("accelsim.search.exact.mapper.FOR_EQUALS", 10)

    short = map_einsum(architecture, einsum, objective="cycles", uneven=False)

    assert short.certificate == long.certificate
    assert short.certificate.proved
    assert short.best.cycles == long.best.cycles
    assert more[0] <= short.best.energy_pj / long.best.energy_pj < more[1]


def test_larger_buffer__is_never_worse():
    architecture, einsum = load_architecture("eyeriss"), load_workload("gemm").layers[0]
    energies = []
    for factor in (0.5, 1.0, 2.0, 8.0):
        levels = tuple(
            dataclasses.replace(level, size_words=int(level.size_words * factor)) if level.size_words else level
            for level in architecture.levels
        )
        machine = dataclasses.replace(architecture, levels=levels, sized={})
        energies.append(map_einsum(machine, einsum, uneven=False).best.energy_pj)

    assert energies == sorted(energies, reverse=True)


def test_first_level_with_a_size__holds_all_tensors_of_a_layer_or_no_mapping_is_valid():
    """P=8 and R=3: 3 weights, 10 inputs and 8 outputs are 21 words."""
    architecture, einsum = load_architecture("two_level", {"buffer": "32 B"}), load_workload("conv1d").layers[0]

    def sized(words):
        first, *rest = architecture.levels
        first = dataclasses.replace(first, size_words=words)
        return dataclasses.replace(architecture, levels=(first, *rest), sized={})

    assert (
        map_einsum(sized(21), einsum, uneven=False).best.energy_pj
        == map_einsum(architecture, einsum, uneven=False).best.energy_pj
    )
    with pytest.raises(NoValidMappingError, match=r"DRAM needs at least 42 B .* has 40 B"):
        map_einsum(sized(20), einsum, uneven=False)


@pytest.mark.parametrize("group", range(8))
def test_best_mapping__has_the_products_that_constraints_ask_for(group):
    """Exact (even and uneven) and exhaustive search, fronts and the spread against every mapping.

    Products of loops and of tiles, words of tiles, and instances of an axis that are used at least.
    """
    looked = 0
    for seed in range(group, PRODUCTS, 8):
        machine, einsum, free = problem(seed)
        constraints = with_least_use(seed, machine, free)
        if seed % 4:
            constraints = with_products(seed, machine, einsum, free, ("xts", "x", "t", "s")[seed // 4 % 4])
        known = truth(machine, einsum, constraints, MOST) if constraints != free else None
        if known is None:
            continue
        objective, powers = (("energy", (1.0, 0.0)), ("cycles", (0.0, 1.0)), ("edp", (1.0, 1.0)))[seed // 8 % 3]
        asked = {"constraints": constraints, "objective": objective, "workers": 1}
        if not known.valid:
            with pytest.raises(NoValidMappingError):
                map_einsum(machine, einsum, **asked, uneven=False)
            continue
        found = map_einsum(machine, einsum, **asked, uneven=False)
        assert math.isclose(found.certificate.value, known.best(*powers), rel_tol=1e-9), (seed, objective)
        assert found.certificate.proved
        assert not constraints.broken_by(found.best.mapping, einsum)
        every = map_einsum(machine, einsum, constraints=constraints, method="exhaustive")
        assert every.sample.valid == known.valid, seed
        front = map_front(machine, einsum, constraints=constraints)
        costs = known.front(known.energy_pj, known.cycles)
        assert len(front.values) == len({(f"{energy:.9g}", cycles) for energy, cycles in costs}), seed
        nodes = with_nodes(machine, einsum, constraints)
        uneven = None if nodes is machine else truth(nodes, einsum, constraints, MOST)
        if uneven is not None:
            best = map_einsum(machine, einsum, constraints=constraints, uneven=True, workers=1)
            assert math.isclose(best.best.energy_pj, uneven.best(), rel_tol=1e-9), seed
        if not constraints.on_costs and not known.encoded.constants.two_widths[0]:
            assert count_mappings(Nest(MapSpace(known.encoded, constraints))) == known.valid, seed
        looked += 1
    assert looked > 2


def test_uneven_front__is_that_of_brute_force():
    looked = 0
    for seed in range(40):
        machine, einsum, constraints = problem(seed, 1500)
        nodes = with_nodes(machine, einsum, constraints)
        known = None if nodes is machine else truth(nodes, einsum, constraints, 200_000)
        if known is None or not known.valid:
            continue
        every = {"energy": known.energy_pj, "cycles": known.cycles, "offchip_words": known.offchip_words}
        for columns in (("energy", "cycles"), ("offchip_words", "energy", "cycles")):
            found = map_front(machine, einsum, columns, constraints=constraints, uneven=True, workers=1)
            assert (found.stop, found.uneven) == ("exhausted", True)
            check_points(found.values, np.stack([every[column].astype(float) for column in columns], 1), columns)
        looked += 1
    assert looked > 2


def test_padded_front__holds_the_best_of_each_bound():
    """Of M = 29 also 30 is tried: the points of both fronts that none beats."""
    machine, einsum = (
        load_architecture("eyeriss"),
        replace(load_workload("gemm").layers[0], dims={"M": 29, "N": 29, "K": 8}),
    )
    found = map_front(machine, einsum, pad=["M=30"])
    apart = [map_front(machine, pad(einsum, bounds)) for bounds in ({}, {"M": 30})]
    table = np.array([values for front in apart for values in front.values])
    check_points(found.values, table, ("energy", "cycles"))
    assert (found.stop, found.padded) == ("exhausted", ("M=30",))
    assert any(point.mapping.padded for point in found.points)


@pytest.mark.parametrize("group", range(4))
def test_best_mapping__of_compute_units_that_hold_words_is_that_of_brute_force(group):
    """Exact, even and uneven, exhaustive search and spread; loops never stand inside what a unit holds."""
    looked = 0
    for seed in range(group, 72, 4):
        machine, einsum, constraints = problem(seed)
        holds = frozenset(random.Random(seed).sample(["Inputs", "Weights", "Outputs"], 1 + seed % 2))
        machine = replace(machine, compute=replace(machine.compute, holds=holds))
        known = truth(machine, einsum, constraints, MOST)
        if known is None or not known.valid:
            continue
        for objective, powers in (("energy", (1.0, 0.0)), ("edp", (1.0, 1.0))):
            found = map_einsum(machine, einsum, constraints=constraints, objective=objective, workers=1, uneven=False)
            assert math.isclose(found.certificate.value, known.best(*powers), rel_tol=1e-9), (seed, objective)
            assert found.certificate.proved
            assert not found.best.mapping.levels[-1].temporal
        every = map_einsum(machine, einsum, constraints=constraints, method="exhaustive")
        assert every.sample.valid == known.valid, seed
        nodes = with_nodes(machine, einsum, constraints)
        uneven = None if nodes is machine else truth(nodes, einsum, constraints, MOST)
        if uneven is not None:
            best = map_einsum(machine, einsum, constraints=constraints, uneven=True, workers=1)
            assert math.isclose(best.best.energy_pj, uneven.best(), rel_tol=1e-9), seed
        looked += 1
    assert looked > 2


def test_constraint__is_never_better():
    architecture, einsum = load_architecture("gpu_sm"), load_workload("gemm").layers[0]
    free = map_einsum(architecture, einsum, uneven=False).best.energy_pj

    for tensor in ("Weights", "Inputs", "Outputs"):
        for asked in ({"keep": frozenset({tensor})}, {"bypass": frozenset({tensor})}):
            constraints = Constraints((LevelConstraint("SMEM", **asked),))
            assert map_einsum(architecture, einsum, constraints=constraints, uneven=False).best.energy_pj >= free * (
                1 - SAME
            )


def test_front__keeps_what_none_beats_once():
    rows = [((2.0, 1.0), "a"), ((1.0, 2.0), "b"), ((1.0, 2.0), "c"), ((2.0, 2.0), "d"), ((1.0, 3.0), "e")]
    assert _undominated(rows) == (((1.0, 2.0), (2.0, 1.0)), ("b", "a"))


def list_within(space: MapSpace, limit: float) -> int:
    """How many mappings a search lists within a limit."""
    return int(Solver(space, every=True).search(kind=WITHIN, limit=limit).found.tally[2])


@pytest.mark.parametrize(
    ("seed", "dims"),
    [
        (21234, {"C": 7, "B": 12, "A": 2}),  # a window slides along C while a scalar stays in place
        # constraints put the loop along which the window slides innermost
        (21547, {"G": 1, "C": 2, "P": 11, "R": 3, "Q": 6, "S": 3, "K": 1}),
    ],
)
def test_within__of_windows_that_slide_in_rare_ways(seed, dims):
    machine, einsum, constraints = plain(seed)
    known = truth(machine, einsum, constraints, MOST)
    limit = 1.05 * float(known.energy_pj.min())
    assert einsum.dims == dims
    listed = list_within(MapSpace(known.encoded, constraints), limit)
    assert listed == (known.energy_pj <= limit * (1.0 + SURE)).sum()


def test_within__of_a_window_that_loops_further_in_bring_back():
    """Pooling over 3 with stride 2, where each word at the outermost level costs 1 and nothing else anything.

    A loop over the 3 at an inner level ends where the next output begins.
    """
    machine, einsum, constraints = plain(5468)
    known, c = truth(machine, einsum, constraints, MOST), encode(machine, einsum).constants
    energy = np.zeros_like(c.energy)
    energy[0, :, :3] = 1.0
    free = {name: np.zeros_like(getattr(c, name)) for name in ("mac", "leak", "block_shift", "transfers")}
    words = c._replace(energy=energy, block=np.ones_like(c.block), **free)
    space = MapSpace(dataclasses.replace(known.encoded, constants=words), constraints)
    assert einsum.dims == {"C": 1, "P": 5, "R": 3, "Q": 1, "S": 1}
    fewest = known.offchip_words.min()
    assert list_within(space, float(fewest)) == (known.offchip_words == fewest).sum() == 18
