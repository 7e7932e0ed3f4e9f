"""Fills and drains that nothing overlaps: against the nest run tile by tile, and worked by hand.

`ACCELSIM_FILL_CASES`, `ACCELSIM_FILL_PROBLEMS`: how many random nests are run, a tenth of it with remainders; and how
many problems are searched.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim import load_architecture, load_mapping, load_workload
from accelsim.inputs.architecture import OVERLAPS, Architecture, Axis, Compute, Level
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import InputError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.model.evaluate import evaluate
from accelsim.model.oracle import Tile, walk_tile
from accelsim.model.time_oracle import walk_fills
from accelsim.search.exact import relaxation
from accelsim.search.exact.solve import Solver
from accelsim.search.mapper import map_einsum
from tests.brute import product, truth
from tests.effort import many
from tests.problems import MOST, problem
from tests.strategies import cases, energy_table, ragged_case, with_latencies, with_overlaps
from tests.test_compression import AT_ONCE, EVERY, GEMM, compressed, two_levels
from tests.test_exact_tables import check_fastest, pinned
from tests.test_systolic import check_problems, check_remainders, with_array

CASES = many("FILL_CASES", 600)
PROBLEMS = many("FILL_PROBLEMS", 70)
SHARED = (151, 384, 602, 643)
"""Problems whose fastest mapping fills a tile that several children share while all else waits."""


def varied(case, rng):
    """The same case, at times with compression or with a systolic array, with levels whose fills overlap or do not."""
    machine, einsum, mapping = case
    if rng.random() < 0.3:
        machine = compressed(machine, rng)
    elif rng.random() < 0.4:
        machine, einsum, mapping = with_array(case, rng) or case
    return with_overlaps(machine, einsum, rng), einsum, mapping


@settings(max_examples=CASES)
@given(cases(), st.randoms(use_true_random=True))
def test_fills__equal_the_nest_run_tile_by_tile(case, rng):
    machine, *layer = varied(case, rng)
    found = with_latencies(machine, rng) if rng.random() < 0.5 else machine, *layer
    result = evaluate(*found)
    assert (result.cycles, result.fills) == walk_fills(*found)
    assert sum(row["cycles"] for row in result.time_rows()) == result.cycles
    assert result.cycles >= evaluate(with_overlaps(*found[:2], None), *found[1:]).cycles


def test_fills__are_those_of_the_first_instance_where_loops_leave_remainders():
    """Words into and out of the busiest tile; the cycles of the whole machine run tile by tile are mostly the same."""
    rng, equal = random.Random(5), 0
    for _ in range(CASES // 10):
        _, einsum, mapping = found = varied(ragged_case(rng), rng)
        result = evaluate(*found)
        cycles, fills = walk_fills(*found)
        equal += result.fills == fills and result.cycles == cycles
        at = {(node.level, name): index for index, node in enumerate(mapping.levels) for name in node.keep}
        for t in result.tensors:
            tensor = next(each for each in einsum.tensors if each.name == t.tensor)
            if at[t.level, t.tensor]:
                walked = list(walk_tile(Tile(einsum, tensor, mapping, at[t.level, t.tensor])))
                left = sum(len(step.leaving) for step in walked if step.instance == walked[0].instance)
                assert t.drains == (left if tensor.output else 0)
    assert equal > CASES / 20


def late(machine, einsum, mapping) -> tuple[int, int]:
    """Cycles that the latencies of a machine add, by formula and walked."""
    none = replace(machine, levels=tuple(replace(level, latency=0) for level in machine.levels))
    results = [evaluate(each, einsum, mapping) for each in (machine, none)]
    assert results[0].fills == results[1].fills
    assert sum(each.cycles for each in results[0].late) == results[0].cycles - results[1].cycles
    assert not results[1].late
    walked = [walk_fills(each, einsum, mapping)[0] for each in (machine, none)]
    return results[0].cycles - results[1].cycles, walked[0] - walked[1]


def test_latency__is_that_of_the_walk_where_loops_leave_remainders():
    """With halos, too, and of partial sums that come back."""
    rng, waited = random.Random(8), 0
    for _ in range(CASES // 4):
        machine, einsum, mapping = varied(ragged_case(rng), rng)
        formula, walked = late(with_latencies(machine, rng), einsum, mapping)
        assert formula == walked
        waited += formula > 0
    assert waited > CASES / 30


def test_latency__counts_once_for_each_fill_that_is_not_prefetched():
    """At once: 20 inputs and 15 weights in a fill each. K outside M: 20 rows of inputs, 5 of weights, 16 of sums."""
    outer = LevelMapping("DRAM", (Loop("K", 5), Loop("M", 4)), keep=EVERY)
    again = Mapping((outer, LevelMapping("GLB", (Loop("N", 3),), keep=EVERY)))
    machine = two_levels(latency=10)
    assert [cycles(machine, overlap) for overlap in OVERLAPS] == [60, 60 + 20, 60 + 20]
    assert [cycles(machine, overlap, again) for overlap in OVERLAPS] == [60, 60 + 20, 60 + 410]
    waiting = replace(machine.levels[1], overlap="none")
    result = evaluate(replace(machine, levels=(machine.levels[0], waiting)), GEMM, again)
    assert [(row["component"], row["what"], row["cycles"]) for row in result.time_rows()][1:] == [
        ("GLB", "latency", 410)
    ]
    assert [(each.what, each.times) for each in result.late] == [("GLB", 41)]


def test_latency__counts_each_step_of_a_window():
    """4 inputs, then 2 new ones in each of 3 steps; weights once."""
    ranks = ("Inputs", ((("P", 1), ("R", 1)),)), ("Weights", ((("R", 1),),)), ("Outputs", ((("P", 1),),))
    tensors = tuple(Tensor(role, rank, role, output=role == "Outputs") for role, rank in ranks)
    inner = LevelMapping("GLB", (Loop("P", 2), Loop("R", 3)), keep=EVERY)
    mapping = Mapping((LevelMapping("DRAM", (Loop("P", 4),), keep=EVERY), inner))
    machine = two_levels(latency=5)
    machine = replace(machine, levels=(machine.levels[0], replace(machine.levels[1], overlap="none")))
    assert late(machine, Einsum("conv", {"P": 8, "R": 3}, tensors), mapping) == (5 * (4 + 1), 5 * (4 + 1))


def test_latency__of_a_level_that_a_tensor_bypasses_does_not_count():
    """Weights come from DRAM past A, inputs from A: 3 cycles for each of 15, 4 for each of 5 columns of inputs."""
    table = energy_table(["DRAM", "A", "B"], lambda: 1.0)
    levels = (
        Level("DRAM", "DRAM", latency=3),
        Level("A", "SRAM", size_words=64, latency=4),
        Level("B", "SRAM", size_words=64, overlap="none"),
    )
    machine = Architecture("three_levels", levels, Compute(), table)
    mapping = Mapping(
        (
            LevelMapping("DRAM", keep=EVERY),
            LevelMapping("A", (Loop("K", 5), Loop("N", 3)), keep=EVERY - {"Weights"}),
            LevelMapping("B", (Loop("M", 4),), keep=EVERY - {"Outputs"}),
        )
    )
    assert late(machine, GEMM, mapping) == (3 * 15 + 4 * 5, 3 * 15 + 4 * 5)


def found(machine, mapping=AT_ONCE) -> tuple[int, int, int, int]:
    """First fill, fills, last drain and drains of all tensors of the inner level."""
    result = evaluate(machine, GEMM, mapping)
    names = "first_fill", "fills", "last_drain", "drains"
    return tuple(sum(getattr(each, name) for each in result.fills) for name in names)


def cycles(machine, overlap, mapping=AT_ONCE) -> int:
    inner = replace(machine.levels[1], overlap=overlap)
    return evaluate(replace(machine, levels=(machine.levels[0], inner)), GEMM, mapping).cycles


def test_fills__of_a_machine_without_limits_take_no_time():
    assert found(two_levels()) == (0, 0, 0, 0)


def test_fills__wait_for_the_slower_of_both_ports():
    """20 inputs and 15 weights come in, 12 outputs go out; DRAM moves 2 words a cycle."""
    assert found(two_levels(bandwidth=Fraction(2))) == (18, 18, 6, 6)
    apart = two_levels(read_bandwidth=Fraction(7), write_bandwidth=Fraction(3))
    assert found(apart) == (3 + 3, 3 + 3, 4, 4)
    assert [cycles(apart, overlap) for overlap in OVERLAPS] == [60, 70, 70]
    slow = replace(apart.levels[1], read_bandwidth=Fraction(1), write_bandwidth=Fraction(1, 2))
    assert found(replace(apart, levels=(apart.levels[0], slow))) == (70, 70, 12, 12)


def test_fills__are_those_of_compressed_words():
    """12 of 20 inputs and 15 weights at 2 words a cycle; 12 outputs, finished, at 0.25: 3 words."""
    machine = two_levels(bandwidth=Fraction(2), compression={"Inputs": Fraction(3, 5), "Outputs": Fraction(1, 4)})
    assert found(machine) == (14, 14, 2, 2)


def test_fills__read_words_that_children_share_once():
    """N over 3 buffers: each holds 20 inputs, read once for all, and 5 weights of its own; 4 outputs of its own."""
    machine = two_levels(bandwidth=Fraction(1))
    machine = replace(machine, levels=(replace(machine.levels[0], x=Axis(3)), machine.levels[1]))
    inner = LevelMapping("GLB", (Loop("M", 4), Loop("K", 5)), keep=EVERY)
    mapping = Mapping((LevelMapping("DRAM", x=(Loop("N", 3),), keep=EVERY), inner))
    assert found(machine, mapping) == (20 + 15, 20 + 15, 12, 12)
    alone = replace(machine.levels[0], x=Axis(3, multicast=False))
    assert found(replace(machine, levels=(alone, machine.levels[1])), mapping)[0] == 60 + 15


def test_fills__of_partial_sums_that_come_back():
    """K outside M: 5 passes of 4 rows of inputs and outputs of 3 words, and a row of 3 weights; one word a cycle.

    Inputs 20 x 1 and weights 5 x 3 come in; each of 12 sums leaves in each pass, 60, and comes back in 4 of them, 48.
    All 143 words take as long at DRAM's port; 60 steps of computing and these make 203 cycles, or 143 if they overlap.
    If all but the first 4 and the last 3 words overlap, the other 136 words at the port hide the steps.
    """
    outer = LevelMapping("DRAM", (Loop("K", 5), Loop("M", 4)), keep=EVERY)
    mapping = Mapping((outer, LevelMapping("GLB", (Loop("N", 3),), keep=EVERY)))
    machine = two_levels(bandwidth=Fraction(1))
    assert found(machine, mapping) == (1 + 3, 20 + 15 + 48, 3, 60)
    assert [cycles(machine, overlap, mapping) for overlap in OVERLAPS] == [143, 4 + 136 + 3, 203]


def test_reports__list_them_level_by_level(run, tmp_path):
    code, out, _ = run(
        "map", "eyeriss_jssc", "conv", "--mapspace", "even", "--factors", "perfect", "--verbose", "-o", tmp_path / "out"
    )
    assert code == 0
    assert "Fill and drain latency" in out
    assert "SPAD   Weights " in out
    assert "First fills and last drains that overlap: at most 0.3 % more cycles." in out
    document = json.loads((tmp_path / "out" / "result.json").read_text())["result"]
    assert {each["level"] for each in document["fills"]} == {"GLB", "SPAD"}
    waiting = sum(each["fills"] + each["drains"] for each in document["fills"])
    machine = load_architecture("eyeriss_jssc")
    alone = replace(
        machine, levels=(machine.levels[0], *(replace(each, overlap="none") for each in machine.levels[1:]))
    )
    assert document["cycles"] == document["compute"]["cycles"]
    layer, path = load_workload("conv").layers[0], tmp_path / "out" / "mapping.yaml"
    result = evaluate(alone, layer, load_mapping(path, alone, layer))
    assert result.cycles == result.overlapped_cycles + waiting
    assert result.cycles in range(34_457_056, 34_457_062)  # each tensor's are rounded up


def test_explain__walks_them(run, tmp_path):
    """3 weights, 3 + 7 inputs come in and 8 outputs leave at 2 words a cycle, 7 and 4 cycles; 24 steps besides."""
    machine = tmp_path / "slow.yaml"
    plain = (
        Path("arch/two_level.yaml").read_text().replace("- name: DRAM", "- bandwidth: 2 words/cycle\n      name: DRAM")
    )
    machine.write_text(plain)
    code, out, _ = run("eval", "--trace", machine, "conv1d")
    assert code == 0
    assert "BUF    Inputs       5       0  the same\n" in out
    assert "With what of them overlaps, the walk takes 24 cycles." in " ".join(out.split())
    assert "closed formula: the same" in out


def overlap_problem(seed):
    """A random problem with levels whose fills do not all overlap."""
    machine, einsum, constraints = problem(seed)
    if len(machine.levels) == 1:
        return None
    return with_overlaps(machine, einsum, random.Random(seed)), einsum, constraints


def late_problem(seed):
    """A random problem with levels whose first words arrive late."""
    case = overlap_problem(seed)
    return case and (with_latencies(case[0], random.Random(seed)), *case[1:])


@pytest.mark.parametrize("powers", [(0.0, 1.0), (1.0, 1.0)])
def test_memo__tells_apart_what_all_else_waits_for(powers):
    """In some of these a node that is dropped for what another waited for had the best mapping below it."""
    for seed in (746, 847, 1185, 1535, 1610, 1681, 1770, 2062, 2160, 2448, 2668, 2691, 2772, 2844, 3221):
        machine, einsum, constraints = problem(seed)
        machine = with_overlaps(machine, einsum, random.Random(seed))
        known = truth(machine, einsum, constraints, MOST)
        assert known is not None
        outcome = Solver(MapSpace(encode(machine, einsum), constraints), cycles=True).search(objective=product(*powers))
        assert float(outcome.found.value[0]) == pytest.approx(known.best(*powers), rel=1e-9), seed


@pytest.mark.parametrize("group", range(4))
def test_tables__bound_what_all_else_waits_for_from_below(group, monkeypatch):
    """No bound at the root exceeds the fastest mapping, nor the fastest order of any mapping's factors.

    With the tables of all ports, which leave out what takes longer.
    """
    monkeypatch.setattr(relaxation, "NODES_AN_ENTRY", -1.0)
    looked = 0
    for seed in (*range(group, 2 * PROBLEMS, 4), SHARED[group]):
        case = overlap_problem(seed)
        looked += case is not None and check_fastest(case, seed)
    assert looked > PROBLEMS // 8


def test_bounds__take_no_wait_for_a_first_tile_whose_level_overlaps():
    """Inputs and sums pass DRAM's port once, while all computes; only tiles of B, further in, are waited for."""
    table = energy_table(["DRAM", "A", "B"], lambda: 1.0)
    dram, outer = Level("DRAM", "DRAM", bandwidth=Fraction(1, 2)), Level("A", "SRAM", size_words=64)
    machine = Architecture(
        "three_levels", (dram, outer, Level("B", "SRAM", size_words=16, overlap="none")), Compute(), table
    )
    einsum = replace(GEMM, dims={"M": 4, "N": 2, "K": 5})
    mapping = Mapping(
        (
            LevelMapping("DRAM", (Loop("N", 2),), keep=EVERY),
            LevelMapping("A", (Loop("K", 5), Loop("M", 4)), keep=EVERY - {"Weights"}),
            LevelMapping("B", keep=EVERY - {"Outputs"}),
        )
    )
    rules = pinned((machine, einsum, Constraints()), mapping)
    fastest = truth(machine, einsum, rules, MOST).best(0.0, 1.0)

    outcome = Solver(MapSpace(encode(machine, einsum), rules), cycles=True).search(
        objective=product(0.0, 1.0), limit=fastest
    )

    assert outcome.root_bound <= fastest * (1 + 1e-9)
    assert float(outcome.found.value[0]) == fastest


@pytest.mark.parametrize("make", [overlap_problem, late_problem])
@pytest.mark.parametrize("group", range(4))
def test_exact__equals_brute_force_with_fills_that_wait(group, make):
    check_problems(make, range(group, PROBLEMS, 4))


def test_exact__equals_brute_force_with_latencies_of_windows():
    for seed in (163, 251, 253, 392, 409, 454):
        machine, einsum, constraints = late_problem(seed)
        fastest = truth(machine, einsum, constraints, MOST).best(0.0, 1.0)
        outcome = Solver(MapSpace(encode(machine, einsum), constraints), cycles=True).search(
            objective=product(0.0, 1.0)
        )
        assert float(outcome.found.value[0]) == fastest, seed


def test_fewest_offchip_words__hold_those_that_all_else_waits_for():
    looked = 0
    for seed in range(24):
        case = overlap_problem(seed)
        known = truth(*case, MOST) if case else None
        if case is None or known is None or not known.valid:
            continue
        found = map_einsum(*case[:2], constraints=case[2], objective="offchip_words", workers=1, uneven=False)
        assert found.certificate.value == found.best.offchip_words == known.offchip_words.min(), seed
        looked += 1
    assert looked > 12


def test_exact__equals_brute_force_with_fills_that_wait_and_remainders():
    check_remainders(overlap_problem)


def test_exact__equals_brute_force_with_latencies_and_remainders():
    """In the first of these the fastest mapping is close to what it takes at least."""
    check_remainders(late_problem, (62, 147, 264, *range(PROBLEMS // 2)))


LATE = """architecture:
  name: late
  clock: 1.5 GHz
  levels:
    - {name: A, class: DRAM, word: 8 bit, latency: 50.1 ns, energy: {read: 1 pJ, write: 1 pJ}}
    - {name: B, class: SRAM, size: 1 KiB, word: 8 bit, latency: 3, energy: {read: 1 pJ, write: 1 pJ}}
    - {name: C, class: SRAM, size: 1 KiB, word: 8 bit, energy: {read: 1 pJ, write: 1 pJ}}
  compute: {class: intmac, energy: {compute: 1 pJ}}
"""


def test_latency__is_in_cycles_or_a_time_rounded_up():
    """50.1 ns are 75.15 cycles of 1.5 GHz."""
    assert [level.latency for level in load_architecture(LATE).levels] == [76, 3, 0]


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("  clock: 1.5 GHz\n", "", "4:52: levels[0].latency: is a time, but the architecture has no clock; add `clock"),
        ("50.1 ns", "0.5", "5:52: levels[0].latency: '0.5' has no unit; write it like '50 ns'; units: ns, us, or"),
        ("latency: 3", "latency: -1", "6:65: levels[1].latency: must be at least 0, got -1"),
        ("8 bit, energy", "8 bit, latency: 2, energy", "7:65: levels[2].latency: no level is filled from the last"),
        ("8 bit, energy", "8 bit, dma: {issue: 9}, energy", "5:52: levels[0].latency: the `dma` of C has a time of"),
    ],
)
def test_latency__mistakes_are_told_with_their_places(old, new, wanted):
    with pytest.raises(InputError) as raised:
        load_architecture(LATE.replace(old, new))
    assert wanted in str(raised.value), str(raised.value)


def test_latency__of_a_level_whose_tensors_all_stay_outside_the_engine():
    """All that A keeps B keeps too, so the engine of C takes nothing from A; from B it does."""
    kept = LATE.replace("latency: 3", "keep: [Weights, Inputs, Outputs]")
    engine = kept.replace("8 bit, energy", "8 bit, dma: {issue: 9}, energy")
    assert load_architecture(engine).levels[0].latency == 76


BAD = """architecture:
  name: bad
  levels:
    - {name: A, class: DRAM, word: 8 bit, overlap: none, energy: {read: 1 pJ, write: 1 pJ}}
    - {name: B, class: SRAM, size: 1 KiB, word: 8 bit, overlap: stedy, energy: {read: 1 pJ, write: 1 pJ}}
    - name: C
      class: SRAM
      size: 1 KiB
      word: 8 bit
      overlap: none
      dma: {issue: 3}
      energy: {read: 1 pJ, write: 1 pJ}
      fanout: {x: 4, y: 4, systolic: {stationary: Weights, instruction: {along: P, rows: 0, lest: 2}}}
    - {name: D, class: register, size: 8 bit, word: 8 bit, keep: [Weights], energy: {read: 1 pJ, write: 1 pJ}}
  compute: {class: intmac, energy: {compute: 1 pJ}}
"""


def test_keys__mistakes_are_told_with_their_places(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    with pytest.raises(InputError) as raised:
        load_architecture(path)
    for wanted in (
        "bad.yaml:4:52: levels[0].overlap: nothing fills the first level; leave `overlap` out",
        "bad.yaml:5:65: levels[1].overlap: expected an overlap (all, steady, none), got 'stedy'",
        "bad.yaml:10:16: levels[2].overlap: its `dma` says what overlaps; leave `overlap` out",
        "bad.yaml:13:90: levels[2].fanout.systolic.instruction.rows: must be at least 1, got 0",
        "bad.yaml:13:93: levels[2].fanout.systolic.instruction.lest: unknown key; did you mean 'least'?",
        "instruction: 'least' is missing",
    ):
        assert wanted in str(raised.value), (wanted, str(raised.value))


def test_fastest__is_another_mapping_with_a_single_buffer():
    """ResNet-50's conv2_1_reduce on Eyeriss (docs/papers/cost-model.md, section 8)."""
    eyeriss = load_architecture("eyeriss")
    layer = next(each for each in load_workload("resnet50").layers if each.name == "conv2_1_reduce")
    levels = tuple(replace(level, overlap="none") if level.name == "GLB" else level for level in eyeriss.levels)
    single = replace(eyeriss, levels=levels)
    double, alone = (map_einsum(each, layer, objective="cycles", uneven=False) for each in (eyeriss, single))
    assert double.certificate.proved
    assert alone.certificate.proved
    assert (double.best.cycles, double.best.compute_used) == (225_280, 64)
    assert (alone.best.cycles, alone.best.compute_used) == (337_694, 112)
    assert evaluate(single, layer, double.best.mapping).cycles == 423_710
