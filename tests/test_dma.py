"""DMA engines: cycles against the tiles run event by event, worked by hand, and the exact mapper against brute force.

`ACCELSIM_DMA_CASES`, `ACCELSIM_DMA_PROBLEMS`: how many random nests and problems are looked at.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim import load_architecture
from accelsim.inputs.architecture import Architecture, Compute, Level
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError, InputError
from accelsim.inputs.level_features import Dma
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import ROLES, Einsum
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.model.evaluate import count, evaluate, result_of
from accelsim.model.result import Result
from accelsim.search.exact.optimum import _mapping
from accelsim.search.exact.solve import Solver
from accelsim.search.mapper import map_einsum
from tests.brute import product, ragged_cost, truth
from tests.brute_ragged import mappings as every_ragged
from tests.effort import many
from tests.engine_oracle import walk_engines
from tests.problems import problem
from tests.strategies import cases, energy_table, ragged_cases, with_engines
from tests.switches import switched
from tests.test_compression import AT_ONCE, EVERY, GEMM, two_levels
from tests.test_exact import check_best
from tests.test_systolic import check_problems, check_remainders

CASES = many("DMA_CASES", 900)
PROBLEMS = many("DMA_PROBLEMS", 70)
MOST_SPILLING = 1_000_000
"""Mappings of a problem of `spilling` at most."""


@settings(max_examples=CASES)
@given(cases(), st.randoms(use_true_random=True))
def test_cycles__equal_the_tiles_run_event_by_event(case, rng):
    plain, einsum, mapping = case
    if len(plain.levels) == 1 or len({node.level for node in mapping.levels}) < len(mapping.levels):
        return
    machine = with_engines(plain, einsum, rng)
    found, before = evaluate(machine, einsum, mapping), evaluate(plain, einsum, mapping)
    assert found.overlapped_cycles == before.cycles
    assert found.cycles == math.ceil(walk_engines(machine, einsum, mapping, before.cycles))
    assert sum(row["cycles"] for row in found.time_rows()) == found.cycles
    assert all(row["cycles"] > 0 for row in found.time_rows())


@settings(max_examples=CASES)
@given(ragged_cases(), st.randoms(use_true_random=True))
def test_cycles__equal_the_tiles_run_event_by_event_where_loops_leave_remainders(case, rng):
    plain, einsum, mapping = case
    if len(plain.levels) == 1:
        return
    machine = with_engines(plain, einsum, rng)
    names = [node.level for node in mapping.levels]
    if any(level.dma is not None and names.count(level.name) > 1 for level in machine.levels):
        return
    found, before = evaluate(machine, einsum, mapping), evaluate(plain, einsum, mapping)
    assert found.overlapped_cycles == before.cycles
    assert found.cycles == math.ceil(walk_engines(machine, einsum, mapping, before.cycles))
    assert sum(row["cycles"] for row in found.time_rows()) == found.cycles
    assert all(row["cycles"] > 0 for row in found.time_rows())


@settings(max_examples=CASES // 10)
@given(cases(), st.randoms(use_true_random=True))
def test_nodes__without_loops_between_them_are_one_level(case, rng):
    plain, einsum, mapping = case
    if len(plain.levels) == 1 or len({node.level for node in mapping.levels}) < len(mapping.levels):
        return
    machine, at = with_engines(plain, einsum, rng), rng.randrange(1, len(plain.levels))
    node = mapping.levels[at]
    apart = [replace(node, temporal=(), x=(), y=(), keep=frozenset({name})) for name in sorted(node.keep)[1:]]
    last = replace(node, keep=frozenset(sorted(node.keep)[:1]))
    uneven = replace(mapping, levels=(*mapping.levels[:at], *apart, last, *mapping.levels[at + 1 :]))
    assert evaluate(machine, einsum, uneven).cycles == evaluate(machine, einsum, mapping).cycles


def at_glb(dma: Dma) -> Architecture:
    """Two levels without limits, the inner one with an engine."""
    outer, inner = two_levels().levels
    return replace(two_levels(), levels=(outer, replace(inner, dma=dma)))


def cycles(dma: Dma, mapping: Mapping = AT_ONCE) -> int:
    return evaluate(at_glb(dma), GEMM, mapping).cycles


ROWS = {"Weights": Fraction(2), "Inputs": Fraction(1)}
"""Inputs are 4 x 5 words, weights 5 x 3, outputs 4 x 3; 60 MACs."""


def tiled(*loops: Loop) -> Mapping:
    """Some loops around the tiles of the inner level, and the others inside."""
    outside = {loop.dim: loop.bound for loop in loops}
    rest = tuple(Loop(dim, bound // outside.get(dim, 1)) for dim, bound in GEMM.dims.items())
    return Mapping((LevelMapping("DRAM", loops, keep=EVERY), LevelMapping("GLB", rest, keep=EVERY)))


def test_one_tile__moves_before_anything_is_computed():
    """In rows of 2 words: inputs 4 x 3 rows of a cycle, weights 5 x 2 rows of 2 cycles; then 60 MACs."""
    bits = GEMM.tensors[0].bits
    assert cycles(Dma(0, 2 * bits, ROWS)) == 12 + 20 + 60
    assert cycles(Dma(40, 2 * bits, ROWS)) == 40 + 60
    assert cycles(Dma(0, 2 * bits, ROWS, 4 * bits, {"Weights": Fraction(1, 2)})) == 12 + 23 + 60


def test_tiles__hide_what_is_shorter_but_for_one():
    """Four tiles of M, 15 MACs each, which take 3 + 20 cycles to come: 4 x 23 + 15; if they take 5: 5 + 4 x 15."""
    bits = GEMM.tensors[0].bits
    four = tiled(Loop("M", 4))
    assert cycles(Dma(0, 2 * bits, ROWS), four) == 4 * 23 + 15
    assert cycles(Dma(5), four) == 5 + 60
    assert cycles(Dma(5, overlap=False), four) == 4 * 5 + 60


def test_outputs__leave_once_each_and_nothing_hides_it():
    """K is outside: the tile of 4 x 3 outputs is finished once, in 4 x 2 rows of 2 words."""
    bits = GEMM.tensors[0].bits
    dma = Dma(0, 2 * bits, {"Outputs": Fraction("5.69")}, overlap=False)
    assert cycles(dma, tiled(Loop("K", 5))) == 60 + math.ceil(8 * Fraction("5.69"))
    along = replace(dma, along={"Outputs": "M"})
    assert cycles(along, tiled(Loop("K", 5))) == 60 + math.ceil(6 * Fraction("5.69"))


def test_partial_sums__leave_and_come_back_as_wide_as_they_are():
    """K = 5 outside M = 4: a tile of 3 outputs leaves in each of 20 steps.

    A row of 16 bit holds two finished words or one partial sum. So the last 4 tiles leave in 2 rows each. The 16 before
    leave in 3 rows each, and come back in as many.
    """
    einsum = replace(GEMM, tensors=tuple(replace(t, bits=8, psum_bits=16) for t in GEMM.tensors))
    machine = at_glb(Dma(0, 16, {"Outputs": Fraction(1)}, overlap=False))
    spilled = evaluate(machine, einsum, tiled(Loop("K", 5), Loop("M", 4)))
    assert spilled.cycles == 60 + 4 * 2 + 2 * 16 * 3
    assert spilled.time_rows()[-1] | {"share": None} == {
        "component": "GLB",
        "what": "partial sums",
        "cycles": 96,
        "share": None,
    }
    assert evaluate(machine, einsum, tiled(Loop("M", 4), Loop("K", 5))).cycles == 60 + 4 * 2
    machine = at_glb(Dma(0, 8, {"Inputs": Fraction(1)}, overlap=False))
    assert evaluate(machine, einsum, AT_ONCE).cycles == 60 + 20
    machine = at_glb(Dma(0, 8, {"Outputs": Fraction(1)}, overlap=False))
    with pytest.raises(AccelsimError, match=r"moves 8 bit at a time, less than an element of Outputs \(16 bit\)"):
        evaluate(machine, einsum, AT_ONCE)


@pytest.mark.parametrize("part", ["ports", "network", "dma"])
def test_result__is_refused_where_more_is_moved_than_can_be(part):
    """A count of cycles that is one too small for 5 x 12 partial sums, which nothing else takes as long as."""
    outer, inner = two_levels().levels
    if part == "dma":
        inner = replace(inner, dma=Dma(0, 16, {"Outputs": Fraction(99)}, overlap=False))
    elif part == "network":
        outer = replace(outer, network_bandwidth=Fraction(1, 8))
    else:
        inner = replace(inner, write_bandwidth=Fraction(1, 8))
    encoded, mapping = encode(replace(two_levels(), levels=(outer, inner)), GEMM), tiled(Loop("K", 5), Loop("M", 4))
    counted = count(encoded, mapping)
    needs = counted.cycles - (60 if part == "dma" else 0)
    assert result_of(encoded, mapping, counted._replace(cycles=needs)).cycles == needs > 60
    with pytest.raises(RuntimeError, match=f": its {part} cannot move in {needs - 1} cycles what takes {needs}"):
        result_of(encoded, mapping, counted._replace(cycles=needs - 1))


def test_narrow_rows_and_uneven_remainders__are_refused():
    with pytest.raises(AccelsimError, match=r"moves 1 bit at a time, less than an element of \w+ "):
        evaluate(at_glb(Dma(0, 1, ROWS)), GEMM, AT_ONCE)
    outer, inner = ragged().levels
    nodes = (replace(inner, temporal=(), keep=frozenset({"Weights"})), replace(inner, keep=EVERY - {"Weights"}))
    with pytest.raises(AccelsimError, match="the dma of level GLB moves tiles of one size only in an uneven mapping"):
        evaluate(at_glb(Dma(5)), GEMM, replace(ragged(), levels=(outer, *nodes)))
    with pytest.raises(AccelsimError, match="the dma of level GLB moves tiles of one size only in an uneven mapping"):
        map_einsum(at_glb(Dma(5)), GEMM, imperfect="all", uneven=True)


def ragged() -> Mapping:
    """M = 4 in tiles of 3 rows and 1."""
    inner = LevelMapping("GLB", (Loop("M", 3), Loop("N", 3), Loop("K", 5)), keep=EVERY)
    return Mapping((LevelMapping("DRAM", (Loop("M", 2),), keep=EVERY), inner), frozenset({"M"}))


def test_remainders__make_the_last_tile_smaller():
    """In rows of 2 words: inputs 3 x 3 rows of a cycle, weights 5 x 2 of 2; 45 MACs. Then 3 + 20 cycles, and 15 MACs.

    While one tile is used the other one comes: 29 + 45 + 15. If 40 cycles are issued a tile: 40 + 45 + 15, and with 50
    the last tile waits. Without overlap it is all one after the other, with 3 x 2 and 2 rows of outputs.
    """
    bits = GEMM.tensors[0].bits
    assert cycles(Dma(0, 2 * bits, ROWS), ragged()) == 29 + 60
    assert cycles(Dma(40, 2 * bits, ROWS), ragged()) == 40 + 60
    assert cycles(Dma(50, 2 * bits, ROWS), ragged()) == 2 * 50 + 15
    every = Dma(25, 2 * bits, {**ROWS, "Outputs": Fraction(1)}, overlap=False)
    assert cycles(every, ragged()) == 60 + 29 + 25 + 6 + 2
    assert cycles(replace(every, issue=0), ragged()) == 60 + 29 + 23 + 6 + 2


BAD = """architecture:
  name: bad
  levels:
    - {name: A, class: DRAM, word: 8 bit, energy: {read: 1 pJ, write: 1 pJ}, dma: {issue: 3}}
    - name: B
      class: SRAM
      size: 1 KiB
      word: 8 bit
      bypass: [Inputs]
      energy: {read: 1 pJ, write: 1 pJ}
      dma:
        isue: 3
        overlap: maybe
        row_cycles: {Weights: 1.755, Inputs: 1}
        line: 64 B
        line_cycles: {Outputs: 2}
  compute: {class: intmac, energy: {compute: 1 pJ}}
"""


def test_dma__mistakes_are_told_with_their_places(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    with pytest.raises(InputError) as raised:
        load_architecture(path)
    told = str(raised.value)
    for wanted in (
        "4:83: levels[0].dma: nothing fills the first level; write `dma` in the level that it moves tiles into",
        "12:9: levels[1].dma.isue: unknown key; did you mean 'issue'?",
        "13:18: levels[1].dma.overlap: expected true or false, got 'maybe'",
        "14:21: levels[1].dma.row_cycles: 'row' is missing beside it; add `row: 16 B`",
        "14:31: levels[1].dma.row_cycles.Weights: expected cycles, got '1.755'; at most six digits",
        "14:46: levels[1].dma.row_cycles.Inputs: Inputs is never stored here",
        "16:22: levels[1].dma.line_cycles: outputs leave when a tile is computed",
    ):
        assert wanted in told, (wanted, told)


def dma_problem(seed: int) -> tuple[Architecture, Einsum, Constraints] | None:
    """A random problem with engines."""
    machine, einsum, constraints = problem(seed)
    if len(machine.levels) == 1:
        return None
    return with_engines(machine, einsum, random.Random(seed)), einsum, constraints


@pytest.mark.parametrize("group", range(4))
def test_exact__equals_brute_force_with_engines(group):
    check_problems(dma_problem, range(group, PROBLEMS, 4))


def spilling(seed: int) -> tuple[Architecture, Einsum, Constraints]:
    """A product on three levels, whose middle one has little room and an engine that moves outputs alone."""
    rng, words = random.Random(seed), frozenset(ROLES)
    table = energy_table(["DRAM", "GLB", "RF"], lambda: round(rng.uniform(0, 10), 2))
    bits = {"Inputs": rng.choice([16, 32]), "Weights": rng.choice([16, 32]), "Outputs": 16}
    tensors = tuple(replace(t, bits=bits[t.role], psum_bits=16) for t in GEMM.tensors)
    einsum = replace(GEMM, dims={d: rng.choice([2, 4]) for d in "MNK"}, tensors=tensors)
    room = rng.choice([9, 12, 16, 20])
    engine = Dma(0, 16, {"Outputs": Fraction(rng.choice([1, 2, 5]))}, overlap=False)
    inner = Level("RF", "SRAM", size_words=rng.choice([5, 6, 8]), keep=words)
    levels = Level("DRAM", "DRAM"), Level("GLB", "SRAM", size_words=room, keep=words, dma=engine), inner
    return Architecture("spilling", levels, Compute(), table), einsum, Constraints()


@pytest.mark.parametrize("seed", [123, 292, 310, 342])
def test_exact__remembers_which_partial_sums_an_engine_has_moved(seed):
    """One order of the outermost loops saves words of inputs, another one partial sums, which take longer."""
    case = spilling(seed)
    known = truth(*case, MOST_SPILLING)
    assert known is not None
    for goal, powers in (("cycles", (0.0, 1.0)), ("edp", (1.0, 1.0))):
        with switched(seed, low=True):
            check_best(case, known, goal, powers)


def test_exact__equals_brute_force_with_engines_and_remainders():
    check_remainders(dma_problem)


@pytest.mark.parametrize("overlap", [False, True])
def test_exact__lists_the_fastest_mappings_where_a_last_tile_has_fewer_rows(overlap):
    """Of the same loops one order is the fastest by brute force, and twenty are the first of all.

    A bound that is too high would lose some. Where the engine overlaps all orders are looked at.
    """
    einsum, bits = replace(GEMM, dims={"M": 5, "N": 7, "K": 9}), GEMM.tensors[0].bits
    outer, inner = at_glb(Dma(0, 4 * bits, {"Inputs": Fraction(10), "Weights": Fraction(10)}, overlap=overlap)).levels
    machine = replace(two_levels(), levels=(outer, replace(inner, size_words=70)))
    space = MapSpace(encode(machine, einsum), None, frozenset(einsum.dims))

    def fastest(room: int) -> tuple[list[float], list[Result]]:
        """What the search takes them to cost at least, and what they cost."""
        found = Solver(space, cycles=True).search(objective=product(0, 1), room=room).found
        many = int(found.many[0])
        mappings = (_mapping(space, found.best, i) for i in range(many))
        return found.value[:many].tolist(), [evaluate(machine, einsum, each) for each in mappings]

    def loops(mapping: Mapping) -> object:
        """The mapping without the order of its loops."""
        return [(sorted(map(str, level.temporal)), sorted(level.keep)) for level in mapping.levels]

    values, every = fastest(2000)
    costs = [(loops(each), *ragged_cost(space.encoded, each)) for each in every_ragged(machine, einsum, [*einsum.dims])]
    expected = [(str(nest), cycles) for nest, fits, _, cycles in costs if fits]
    found = [(str(loops(each.mapping)), each.cycles) for each in every]
    assert dict(sorted(found, reverse=True)) == dict(sorted(expected, reverse=True))  # the least of each
    if overlap:
        assert sorted(found) == sorted(expected)
    else:
        assert [cycles for _, cycles in found] == values
    assert fastest(20)[0] == values[:20]


def test_fastest__changes_where_tiles_no_longer_come_for_free():
    """With no engine any tile is as fast; with one that takes 40 cycles a tile, there is only one tile."""
    free, dear = (
        map_einsum(two_levels(), GEMM, objective="cycles", uneven=False),
        map_einsum(at_glb(Dma(40)), GEMM, objective="cycles", uneven=False),
    )
    assert (free.best.cycles, dear.best.cycles) == (60, 100)
    assert dear.certificate is not None
    assert dear.certificate.proved
    assert all(loop.bound == 1 for loop in dear.best.mapping.levels[0].temporal)
