"""First fills and last drains, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from accelsim.architecture import Axis, load_architecture
from accelsim.mapping import LevelMapping, Loop, Mapping
from accelsim.model.evaluate import evaluate
from accelsim.start_up import start_and_end
from tests.test_compression import AT_ONCE, EVERY, GEMM, two_levels


def found(machine, mapping=AT_ONCE) -> dict[str, int]:
    return {ramp.what: ramp.cycles for ramp in start_and_end(machine, evaluate(machine, GEMM, mapping))}


def test_start_and_end__of_a_machine_without_limits_is_nothing():
    assert found(two_levels()) == {}


def test_start_and_end__wait_for_the_slower_of_both_ports():
    """20 inputs and 15 weights come in, 12 outputs go out; DRAM moves 2 words a cycle."""
    assert found(two_levels(bandwidth=Fraction(2))) == {"first fill of GLB": 18, "last drain of GLB": 6}
    apart = two_levels(read_bandwidth=Fraction(7), write_bandwidth=Fraction(3))
    assert found(apart) == {"first fill of GLB": 5, "last drain of GLB": 4}
    slow = replace(apart.levels[1], read_bandwidth=Fraction(1), write_bandwidth=Fraction(1, 2))
    assert found(replace(apart, levels=(apart.levels[0], slow))) == {"first fill of GLB": 70, "last drain of GLB": 12}


def test_start_and_end__are_those_of_compressed_words():
    """12 of 20 inputs and 15 weights at 2 words a cycle; 12 outputs, finished, at 0.25: 3 words."""
    machine = two_levels(bandwidth=Fraction(2), compression={"Inputs": Fraction(3, 5), "Outputs": Fraction(1, 4)})
    assert found(machine) == {"first fill of GLB": 14, "last drain of GLB": 2}


def test_start_and_end__read_words_that_children_share_once():
    """N over 3 buffers: each holds 20 inputs, read once for all, and 5 weights of its own; 4 outputs of its own."""
    machine = two_levels(bandwidth=Fraction(1))
    machine = replace(machine, levels=(replace(machine.levels[0], x=Axis(3)), machine.levels[1]))
    inner = LevelMapping("GLB", (Loop("M", 4), Loop("K", 5)), keep=EVERY)
    mapping = Mapping((LevelMapping("DRAM", x=(Loop("N", 3),), keep=EVERY), inner))
    assert found(machine, mapping) == {"first fill of GLB": 20 + 15, "last drain of GLB": 12}
    alone = replace(machine.levels[0], x=Axis(3, multicast=False))
    assert found(replace(machine, levels=(alone, machine.levels[1])), mapping)["first fill of GLB"] == 60 + 15


def test_map__lists_them(run):
    code, out, _ = run("map", "eyeriss_jssc", "conv")
    assert code == 0
    assert "Not in it: first fills and last drains, at most 0.3 % more, one by one:" in out
    assert "15,360 first fill of SPAD\n" in out  # 96 PEs x 192 weights at 1.2 words a cycle
    assert load_architecture("eyeriss_jssc").levels[0].bandwidth == Fraction(6, 5)
