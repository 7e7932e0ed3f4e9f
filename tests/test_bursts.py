"""Bursts of the outermost level: against transfers that are walked word by word, and worked by hand.

`ACCELSIM_BURST_CASES`: how many random nests are walked.
"""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import InputError
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.model.evaluate import evaluate
from tests.burst_oracle import walk_bursts
from tests.effort import many
from tests.strategies import cases, ragged_case
from tests.test_architecture import load  # noqa: F401 (a fixture)
from tests.test_compression import EVERY, GEMM, two_levels
from tests.test_kernel_windows import carried_on

CASES = many("BURST_CASES", 80)
BURSTS = [8, 16, 24, 64, 256]


def with_bursts(machine: Architecture, bits: int) -> Architecture:
    return replace(machine, levels=(replace(machine.levels[0], burst_bits=bits), *machine.levels[1:]))


def check(machine, einsum, mapping) -> int:
    """Bursts are those of the walk; returns how many tensors have them."""
    bursts = evaluate(machine, einsum, mapping).bursts
    if bursts:
        walked = walk_bursts(machine, einsum, mapping)
        assert {each.tensor: each.burst_bits for each in bursts} == {
            each.tensor: walked[each.tensor] for each in bursts
        }
        assert all(each.burst_bits >= each.bits for each in bursts)
    return len(bursts)


@settings(max_examples=CASES)
@given(cases(), st.sampled_from(BURSTS))
def test_bursts__equal_those_of_the_walked_transfers(case, bits):
    machine, einsum, mapping = case
    check(with_bursts(machine, bits), einsum, mapping)


@settings(max_examples=CASES // 2)
@given(cases(), st.sampled_from(BURSTS))
def test_best_layouts__are_those_of_all_orders_of_ranks(case, bits):
    """Each layout is counted as the Einsum with its ranks in that order."""
    machine, einsum, mapping = case
    machine = with_bursts(machine, bits)
    for each in evaluate(machine, einsum, mapping).bursts:
        (at,) = (i for i, tensor in enumerate(einsum.tensors) if tensor.name == each.tensor)
        of_layout = {}
        for ranks in itertools.permutations(einsum.tensors[at].ranks):
            laid = replace(einsum.tensors[at], ranks=ranks)
            other = replace(einsum, tensors=(*einsum.tensors[:at], laid, *einsum.tensors[at + 1 :]))
            (found,) = (b for b in evaluate(machine, other, mapping).bursts if b.tensor == each.tensor)
            names = ["+".join(dim for dim, _ in rank) for rank in ranks if box(rank, einsum)]
            of_layout.setdefault(" ".join(names), found.burst_bits)
        assert each.best_burst_bits == min(of_layout.values()) == of_layout[each.best_layout]


def box(rank, einsum) -> bool:
    """Whether a rank has more than one word."""
    return any(einsum.dims[dim] > 1 for dim, _ in rank)


@settings(max_examples=40)
@given(carried_on(), st.sampled_from([16, 32, 64]))
def test_bursts__of_windows_that_carry_on_equal_those_of_the_walked_transfers(case, bits):
    machine, einsum, mapping = case
    check(with_bursts(machine, bits), einsum, mapping)


def test_bursts__equal_those_of_uneven_mappings_and_are_untold_where_loops_leave_remainders():
    rng, told = random.Random(11), 0
    for _ in range(CASES):
        machine, einsum, mapping = ragged_case(rng)
        told += check(with_bursts(machine, rng.choice(BURSTS)), einsum, mapping)
    assert told > 0


def test_bursts__worked_by_hand():
    """Outputs M x N = 4 x 3, inputs M x K = 4 x 5, weights K x N = 5 x 3, all of 16 bit; bursts of 64 bit, 4 words.

    A row of M at a time: 5 inputs side by side are 2 bursts, 3 outputs 1; all 15 weights, once, are one run, 4 bursts.
    """
    machine = with_bursts(two_levels(), 64)
    outer = LevelMapping("DRAM", (Loop("M", 4),), keep=EVERY)
    inner = LevelMapping("GLB", (Loop("N", 3), Loop("K", 5)), keep=EVERY)
    bursts = {each.tensor: each for each in evaluate(machine, GEMM, Mapping((outer, inner))).bursts}
    found = {name: (each.run_words, each.bits, each.burst_bits) for name, each in bursts.items()}
    assert found["Inputs"] == (5, 4 * 5 * 16, 4 * 2 * 64)
    assert found["Weights"] == (15, 15 * 16, 4 * 64)
    assert found["Outputs"] == (3, 4 * 3 * 16, 4 * 64)


def test_bursts__of_compressed_tensors_are_untold():
    machine = with_bursts(two_levels(compression={"Inputs": Fraction(3, 5)}), 64)
    mapping = Mapping(
        (
            LevelMapping("DRAM", (Loop("M", 4),), keep=EVERY),
            LevelMapping("GLB", (Loop("N", 3), Loop("K", 5)), keep=EVERY),
        )
    )
    assert {each.tensor for each in evaluate(machine, GEMM, mapping).bursts} == {"Weights", "Outputs"}


def test_burst__stands_at_the_first_level_only(load):  # noqa: F811
    assert load(dram="burst: 64 B").levels[0].burst_bits == 512
    with pytest.raises(InputError, match="bursts are counted at the first level only; leave `burst` out"):
        load(glb="size: 1 KiB, burst: 64 B")


def test_map__tells_bursts(run, tmp_path):
    machine = tmp_path / "burst.yaml"
    plain = Path("arch/two_level.yaml").read_text()
    machine.write_text(plain.replace("- name: DRAM", "- burst: 8 B\n      name: DRAM"))
    code, out, _ = run("map", machine, "conv1d", "-o", tmp_path / "out")
    assert code == 0
    assert "Bursts of 8 B at DRAM" in out
    document = json.loads((tmp_path / "out" / "result.json").read_text())["result"]
    assert {each["tensor"] for each in document["bursts"]} == {"Weights", "Inputs", "Outputs"}
