"""Evaluations worked by hand, and mappings that are refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from accelsim.inputs.architecture import Architecture, Axis, Compute, Level
from accelsim.inputs.energies import EnergyEntry, EnergyTable
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.evaluate import evaluate
from accelsim.model.result import Result

CONV_1D = Einsum(
    "conv1d",
    {"P": 4, "R": 3},
    (
        Tensor("I", ((("P", 1), ("R", 1)),), "Inputs"),
        Tensor("W", ((("R", 1),),), "Weights"),
        Tensor("O", ((("P", 1),),), "Outputs", bits=16, psum_bits=32, output=True),
    ),
)
ALL = frozenset("IWO")


def two_levels(**changes) -> Architecture:
    """DRAM over a buffer: reads, writes and updates of 100, 100, 100 and 1, 2, 4 pJ, a MAC of 0.5 pJ."""
    levels = (
        Level("DRAM", "DRAM", bandwidth=Fraction(1, 2)),
        replace(Level("BUF", "SRAM", size_words=12), **changes),
    )
    energies = {("MAC", "*", "compute"): 0.5}
    for action, pj in (("read", 1.0), ("write", 2.0), ("update", 4.0)):
        energies["BUF", "*", action] = pj
        energies["DRAM", "*", action] = 100.0
    table = EnergyTable({key: EnergyEntry(pj, "worked by hand") for key, pj in energies.items()})
    return Architecture("two levels", levels, Compute(), table)


def nest(dram: str = "", buf: str = "", keep: frozenset[str] = ALL, x: str = "") -> Mapping:
    def block(text: str) -> tuple[Loop, ...]:
        return tuple(Loop(loop[0], int(loop[2:])) for loop in text.split())

    return Mapping((LevelMapping("DRAM", block(dram), block(x), keep=ALL), LevelMapping("BUF", block(buf), keep=keep)))


def words(result: Result, level: str, tensor: str) -> tuple[int, int, int, int]:
    t = next(t for t in result.tensors if (t.level, t.tensor) == (level, tensor))
    return t.tile_words, t.reads, t.fills, t.updates


def said(result: Result) -> list[str]:
    return [violation.text for violation in result.violations]


def test_conv1d__weights_and_a_sliding_window_in_the_buffer():
    """`for P in 4` at DRAM over `for R in 3` at the buffer: output stationary, one output at a time.

    Inputs: tile 3, slides by 1: 3 + 3 x 1 = 6 fills. Weights: tile 3, P does not move it: 3 fills. Outputs: tile 1,
    each leaves once, none returns: 4 updates of DRAM, no fills. MACs: 4 x 3 = 12 steps; each reads an input and a
    weight and updates an output; of the 12 updates 4 are the first of their word, so 8 read it back. Outputs are
    partial sums in the buffer: 2 words each. Energy: DRAM (6 + 3 + 4) x 100 = 1300; buffer reads 12 + 12 + 8 x 2 = 40 x
    1, writes (6 + 3) x 2 = 18, updates 12 x 2 x 4 = 96; MACs 12 x 0.5 = 6. Together 1460 pJ. Capacity: 3 + 3 + 1 x 2 =
    8 words. DRAM moves 13 words at 1/2 a cycle: 26 cycles, more than the 12 of the MAC.
    """
    result = evaluate(two_levels(), CONV_1D, nest("P=4", "R=3"))

    assert words(result, "DRAM", "I") == (6, 6, 0, 0)
    assert words(result, "DRAM", "W") == (3, 3, 0, 0)
    assert words(result, "DRAM", "O") == (4, 0, 0, 4)
    assert words(result, "BUF", "I") == (3, 12, 6, 0)
    assert words(result, "BUF", "W") == (3, 12, 3, 0)
    assert words(result, "BUF", "O") == (1, 8, 0, 12)
    assert result.energy_pj == 1300 + 40 + 18 + 96 + 6 == 1460
    assert (result.compute_cycles, result.cycles, result.bottleneck) == (12, 26, "DRAM")
    assert (result.levels[1].used_words, result.levels[1].capacity_words, result.valid) == (8, 12, True)
    assert (result.spatial_utilization, result.temporal_utilization, result.utilization) == (1, 12 / 26, 12 / 26)


def test_conv1d__outputs_return_where_the_reduction_is_outside():
    """`for R in 3` over `for P in 4`, both at DRAM: weight stationary, every tile one word.

    Inputs: each of the 12 steps moves the word by 1 or, where R steps, back by 2: 12 fills. Weights: 3. Outputs: 12
    words leave; the first 4 are new, 8 return: DRAM 12 updates, 8 reads, buffer 8 fills. In the buffer each word is
    updated once a visit: 12 updates, 8 of them of words seen before: read back, the buffer too holds partial sums. DRAM
    (12 + 3) + 2 words (12 + 8) = 55 words: 110 cycles.
    """
    result = evaluate(two_levels(), CONV_1D, nest("R=3 P=4"))

    assert words(result, "DRAM", "I") == (6, 12, 0, 0)
    assert words(result, "DRAM", "W") == (3, 3, 0, 0)
    assert words(result, "DRAM", "O") == (4, 8, 0, 12)
    assert words(result, "BUF", "O") == (1, 8, 8, 12)
    assert [t.word_bits for t in result.tensors if t.tensor == "O"] == [32, 32]
    assert result.cycles == 110


def test_conv1d__blocks_round_up_for_each_action():
    """As the first case, in accesses of 4 words: reads 3 + 3 + 16 / 4 = 10, writes 2 + 1, updates 24 / 4 = 6.

    1300 + 10 x 1 + 3 x 2 + 6 x 4 + 6 = 1346 pJ.
    """
    assert evaluate(two_levels(block_size=4), CONV_1D, nest("P=4", "R=3")).energy_pj == 1346


def test_conv1d__spread_over_instances():
    """`par_for P in 4` below DRAM: four buffers, each its own output; inputs 3 words each, boxes unequal: no sharing.

    Inputs 4 x 3 = 12 reads at DRAM for tiles of 3; weights equal in all: 3 reads with multicast, 12 without. 3 steps.
    """
    shared, apart = (two_levels(), two_levels())
    axis = Axis(4, multicast=False)
    shared = replace(shared, levels=(replace(shared.levels[0], x=Axis(4)), shared.levels[1]))
    apart = replace(apart, levels=(replace(apart.levels[0], x=axis), apart.levels[1]))
    mapping = nest("", "R=3", x="P=4")

    assert words(evaluate(shared, CONV_1D, mapping), "DRAM", "I") == (6, 12, 0, 0)
    assert words(evaluate(shared, CONV_1D, mapping), "DRAM", "W") == (3, 3, 0, 0)
    assert words(evaluate(apart, CONV_1D, mapping), "DRAM", "W") == (3, 12, 0, 0)
    assert evaluate(shared, CONV_1D, mapping).compute_cycles == 3
    assert said(evaluate(two_levels(), CONV_1D, mapping)) == ["DRAM spreads over 4 instances on x, its fanout is 1"]


def test_violations__name_the_level_and_what_it_lacks():
    """Tiles of 6 + 3 + 4 words, the outputs twice as wide until their 12 updates are done: 17 words, or 34 B."""
    result = evaluate(two_levels(), CONV_1D, nest("", "P=4 R=3"))
    kept = evaluate(two_levels(bypass=frozenset({"Weights"})), CONV_1D, nest("P=4", "R=3"))
    lost = evaluate(two_levels(keep=frozenset({"Inputs"})), CONV_1D, nest("P=4", "R=3", keep=frozenset("W")))
    partition = {"Inputs": 100, "Weights": 2}
    parts = evaluate(two_levels(size_words=None, partition_words=partition), CONV_1D, nest("P=4", "R=3"))

    assert said(result) == ["BUF needs 34 B, has 24 B"]
    assert said(kept) == ["BUF must bypass W"]
    assert said(lost) == ["BUF must keep I"]
    assert said(parts) == ["BUF (Weights) needs 6 B, has 4 B", "BUF has no partition for O"]


def test_violations__name_each_tensor_of_a_role_that_must_be_kept():
    """Both operands are Inputs, and the buffer must keep Inputs: one of them is not enough."""
    tensors = tuple(replace(tensor, role="Inputs") if tensor.name == "W" else tensor for tensor in CONV_1D.tensors)
    machine = two_levels(keep=frozenset({"Inputs"}))

    result = evaluate(machine, replace(CONV_1D, tensors=tensors), nest("P=4", "R=3", keep=frozenset("IO")))

    assert said(result) == ["BUF must keep W"]


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        (Mapping((LevelMapping("DRAM", keep=ALL),)), "mapping has levels"),
        (Mapping((LevelMapping("BUF", keep=ALL), LevelMapping("DRAM", keep=ALL))), "mapping has levels"),
        (nest("P=4 R=3 Q=2"), "'Q' is no dimension of"),
        (nest("P=4", "R=2"), "loops over R multiply to 2, but R is 3"),
        (nest("P=4 R=3", "P=2"), "loops over P multiply to 8, but P is 4"),
        (nest("P=4"), "loops over R multiply to 1, but R is 3"),
        (nest("P=2 R=3 P=2"), "one temporal loop"),
        (
            Mapping((LevelMapping("DRAM", nest("P=4 R=3").levels[0].temporal), LevelMapping("BUF"))),
            "must keep every tensor",
        ),
    ],
)
def test_mapping__that_does_not_fit_is_refused(mapping, says):
    with pytest.raises(ValueError, match=says):
        evaluate(two_levels(), CONV_1D, mapping)


def test_mapping__that_keeps_no_tensor_of_the_einsum_is_refused():
    with pytest.raises(ValueError, match="nobody"):
        evaluate(two_levels(), CONV_1D, nest("P=4 R=3", keep=frozenset({"nobody"})))


def test_power__is_energy_over_time():
    """5 uJ in 1,000 cycles of 0.5 ns are 10 W; without a clock nothing is known."""
    result = replace(evaluate(two_levels(), CONV_1D, nest("P=4", "R=3")), energy_pj=5e6, cycles=1000, clock_hz=2e9)
    assert (result.seconds, result.power_w) == (pytest.approx(5e-7), pytest.approx(10.0))
    assert replace(result, clock_hz=None).power_w is None
