"""Fills and drains that nothing overlaps: against the nest run tile by tile, and worked by hand.

`ACCELSIM_FILL_CASES`: how many random nests are run, and as many with remainders.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.inputs.architecture import Axis
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.model.evaluate import evaluate
from accelsim.model.oracle import Tile, walk_tile
from accelsim.model.result import LevelFills
from accelsim.model.time_oracle import walk_fills
from tests.strategies import cases, ragged_case
from tests.test_compression import AT_ONCE, EVERY, GEMM, compressed, two_levels
from tests.test_systolic import with_array

CASES = int(os.environ.get("ACCELSIM_FILL_CASES", "60"))


def varied(case, rng):
    """The same case, at times with compression or with a systolic array."""
    machine, einsum, mapping = case
    if rng.random() < 0.3:
        return compressed(machine, rng), einsum, mapping
    return (rng.random() < 0.4 and with_array(case, rng)) or case


@settings(max_examples=CASES)
@given(cases(), st.randoms(use_true_random=True))
def test_fills__equal_the_nest_run_tile_by_tile(case, rng):
    found = varied(case, rng)
    result = evaluate(*found)
    assert (result.computing_cycles, result.fills) == walk_fills(*found)
    assert result.cycles_without_overlap >= result.cycles


def test_fills__are_those_of_the_first_instance_where_loops_leave_remainders():
    """Words into and out of the busiest tile; the cycles of the whole machine run tile by tile are mostly the same."""
    rng, equal = random.Random(5), 0
    for _ in range(CASES):
        _, einsum, mapping = found = varied(ragged_case(rng), rng)
        result = evaluate(*found)
        computing, fills = walk_fills(*found)
        assert result.computing_cycles == computing
        equal += result.fills == fills
        at = {(node.level, name): index for index, node in enumerate(mapping.levels) for name in node.keep}
        for t in result.tensors:
            tensor = next(each for each in einsum.tensors if each.name == t.tensor)
            if at[t.level, t.tensor]:
                walked = list(walk_tile(Tile(einsum, tensor, mapping, at[t.level, t.tensor])))
                left = sum(len(step.leaving) for step in walked if step.instance == walked[0].instance)
                assert t.drains == (left if tensor.output else 0)
    assert equal > CASES / 2


def found(machine, mapping=AT_ONCE) -> LevelFills:
    (fills,) = evaluate(machine, GEMM, mapping).fills
    return fills


def test_fills__of_a_machine_without_limits_take_no_time():
    assert found(two_levels()) == LevelFills("GLB", False, 0, 0, 0, 0)


def test_fills__wait_for_the_slower_of_both_ports():
    """20 inputs and 15 weights come in, 12 outputs go out; DRAM moves 2 words a cycle."""
    assert found(two_levels(bandwidth=Fraction(2))) == LevelFills("GLB", False, 18, 18, 6, 6)
    apart = two_levels(read_bandwidth=Fraction(7), write_bandwidth=Fraction(3))
    assert found(apart) == LevelFills("GLB", False, 5, 5, 4, 4)
    slow = replace(apart.levels[1], read_bandwidth=Fraction(1), write_bandwidth=Fraction(1, 2))
    assert found(replace(apart, levels=(apart.levels[0], slow))) == LevelFills("GLB", False, 70, 70, 12, 12)


def test_fills__are_those_of_compressed_words():
    """12 of 20 inputs and 15 weights at 2 words a cycle; 12 outputs, finished, at 0.25: 3 words."""
    machine = two_levels(bandwidth=Fraction(2), compression={"Inputs": Fraction(3, 5), "Outputs": Fraction(1, 4)})
    assert found(machine) == LevelFills("GLB", False, 14, 14, 2, 2)


def test_fills__read_words_that_children_share_once():
    """N over 3 buffers: each holds 20 inputs, read once for all, and 5 weights of its own; 4 outputs of its own."""
    machine = two_levels(bandwidth=Fraction(1))
    machine = replace(machine, levels=(replace(machine.levels[0], x=Axis(3)), machine.levels[1]))
    inner = LevelMapping("GLB", (Loop("M", 4), Loop("K", 5)), keep=EVERY)
    mapping = Mapping((LevelMapping("DRAM", x=(Loop("N", 3),), keep=EVERY), inner))
    assert found(machine, mapping) == LevelFills("GLB", False, 20 + 15, 20 + 15, 12, 12)
    alone = replace(machine.levels[0], x=Axis(3, multicast=False))
    assert found(replace(machine, levels=(alone, machine.levels[1])), mapping).first_fill == 60 + 15


def test_fills__of_partial_sums_that_come_back():
    """K outside M: 5 passes of 4 rows of inputs and outputs of 3 words, and a row of 3 weights; one word a cycle.

    Inputs 20 x 1 and weights 5 x 3 come in; each of 12 sums leaves in each pass, 60, and comes back in 4 of them, 48.
    All 143 words take as long at DRAM's port; 60 steps of computing and these make 203 cycles, or 143 if they overlap.
    """
    outer = LevelMapping("DRAM", (Loop("K", 5), Loop("M", 4)), keep=EVERY)
    mapping = Mapping((outer, LevelMapping("GLB", (Loop("N", 3),), keep=EVERY)))
    machine = two_levels(bandwidth=Fraction(1))
    assert found(machine, mapping) == LevelFills("GLB", False, 1 + 3, 20 + 15 + 48, 3, 60)
    result = evaluate(machine, GEMM, mapping)
    assert (result.cycles, result.computing_cycles, result.cycles_without_overlap) == (143, 60, 203)
    double = replace(machine, levels=(machine.levels[0], replace(machine.levels[1], multiple_buffering=2)))
    assert found(double, mapping) == replace(found(machine, mapping), double_buffered=True)
    assert evaluate(double, GEMM, mapping).cycles_without_overlap == 143


def test_reports__list_them_level_by_level(run, tmp_path):
    code, out, _ = run("map", "eyeriss_jssc", "conv", "-o", tmp_path / "out")
    assert code == 0
    assert "SPAD       15,418  7,684,096          32   3,371,828  no\n" in out
    assert "First fills and last drains alone: at most 0.3 % more cycles." in out
    document = json.loads((tmp_path / "out" / "result.json").read_text())["result"]
    assert [each["level"] for each in document["fills"]] == ["GLB", "SPAD"]
    waiting = sum(each["fills"] + each["drains"] for each in document["fills"])
    assert document["cycles_without_overlap"] == document["computing_cycles"] + waiting == 34_457_056


def test_explain__walks_them(run, tmp_path):
    """3 weights, 3 + 7 inputs come in and 8 outputs leave at 2 words a cycle, 7 and 4 cycles; 24 steps besides."""
    machine = tmp_path / "slow.yaml"
    plain = (
        Path("arch/two_level.yaml").read_text().replace("- name: DRAM", "- bandwidth: 2 words/cycle\n      name: DRAM")
    )
    machine.write_text(plain)
    code, out, _ = run("explain", machine, "conv1d")
    assert code == 0
    assert "BUF        7       4  the same\n" in out
    assert "double-buffered: 35 cycles." in " ".join(out.split())
    assert "closed formula: the same" in out
