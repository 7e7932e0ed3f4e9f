"""The oracle on nests so small that every word can be followed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accelsim.inputs.architecture import Architecture, Axis, Compute, Level
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.oracle import OracleCounts, Tile, execute, walk_tile
from tests.strategies import energy_table

Rank = tuple[tuple[str, int], ...]


def run(
    inputs: tuple[Rank, ...],
    output: tuple[Rank, ...],
    *nest: str,
    keep: str = "IO",
    **changes: object,
) -> OracleCounts:
    """Execute a nest of an input I and an output O; for each level "temporal loops | x | y", outermost first.

    The outermost level keeps both, the others `keep`; `changes` are made to all levels.
    """
    machine, einsum, mapping = case(inputs, output, *nest, keep=keep, **changes)
    return execute(machine, einsum, mapping)


def case(inputs, output, *nest, keep="IO", **changes) -> tuple[Architecture, Einsum, Mapping]:
    bounds: dict[str, int] = {}
    levels, mapped = [], []
    for index, text in enumerate(nest):
        blocks = []
        for block in (text + "||").split("|")[:3]:
            pairs = [(dim, int(bound)) for dim, _, bound in (word.partition("=") for word in block.split())]
            blocks.append(tuple(Loop(dim, bound) for dim, bound in pairs))
            for dim, bound in pairs:
                bounds[dim] = bounds.get(dim, 1) * bound
        level = Level(f"L{index}", "SRAM", x=Axis(8), y=Axis(8))
        levels.append(replace(level, **changes))
        mapped.append(LevelMapping(level.name, *blocks, keep=frozenset("IO" if index == 0 else keep)))
    tensors = (Tensor("I", inputs, "Inputs", 8), Tensor("O", output, "Outputs", 8, 16, output=True))
    table = energy_table([level.name for level in levels], lambda: 1.0)
    machine = Architecture("hand", tuple(levels), Compute(), table)
    return machine, Einsum("hand", bounds, tensors), Mapping(tuple(mapped))


def count(found: OracleCounts, level: int, tensor: str) -> tuple[int, int, int, int]:
    counts = found.levels[level][tensor]
    return counts.tile, counts.reads, counts.fills, counts.updates


WINDOW = ((("P", 1), ("R", 1)),)
P, M, K = (("P", 1),), (("M", 1),), (("K", 1),)


def test_halo__is_kept_along_the_innermost_moving_loop():
    """I[p + r], `for P in 4` over a tile of R = 3: words 0-2, 3, 4, 5: 3 + 1 + 1 + 1 = 6. Each of 12 MACs reads one."""
    found = run(WINDOW, (P,), "P=4", "R=3")

    assert count(found, 0, "I") == (6, 6, 0, 0)
    assert count(found, 1, "I") == (3, 12, 6, 0)
    assert (found.steps, found.used) == (12, [1, 1, 1])


def test_halo__survives_a_loop_inside_that_does_not_move_the_tile():
    """`for P in 4: for K in 2`, K moves nothing of I: still 6 words, for twice as many MACs."""
    found = run(WINDOW, (P, K), "P=4 K=2", "R=3")

    assert count(found, 1, "I") == (3, 24, 6, 0)


def test_halo__is_lost_to_a_relevant_loop_inside():
    """I[p + r, k], tile 3 x 1: `for P in 4: for K in 2` steps (0, 1), (1, -1), (0, 1), ...: always the whole box, 8 x 3
    = 24.

    With K outside, each k has its 3 + 1 + 1 + 1 words; the step (-3, 1) in between takes a whole box: 2 x 6 = 12.
    """
    inputs = (*WINDOW, K)

    assert count(run(inputs, (P, K), "P=4 K=2", "R=3"), 1, "I") == (3, 24, 24, 0)
    assert count(run(inputs, (P, K), "K=2 P=4", "R=3"), 1, "I") == (3, 24, 12, 0)


def test_halo__continues_where_the_outer_loop_takes_the_step_of_the_inner_one():
    """`for P in 2: for R in 3` over a tile of P = 3: origins 0, 1, 2, then 3, 4, 5: always one further, 3 + 5 x 1 = 8
    words.

    With a tile of P = 4 they are 0, 1, 2, 4, 5, 6: the step by 2 is another one, so the whole box: 4 + 1 + 1 + 4 + 1 +
    1 = 12.
    """
    assert count(run(WINDOW, (P,), "P=2 R=3", "P=3"), 1, "I") == (3, 18, 8, 0)
    assert count(run(WINDOW, (P,), "P=2 R=3", "P=4"), 1, "I") == (4, 24, 12, 0)


def test_box__holds_the_words_that_a_stride_skips():
    """I[3p + r] with P = 2, R = 2 touches 0, 1, 3, 4: the box is 5 words, and all are moved.

    Stepping p by one moves a box of R = 2 words by 3, past its end: 2 whole boxes, 4 words.
    """
    strided = ((("P", 3), ("R", 1)),)

    assert count(run(strided, (P,), "", "P=2 R=2"), 1, "I") == (5, 4, 5, 0)
    assert count(run(strided, (P,), "P=2", "R=2"), 1, "I") == (2, 4, 4, 0)


def test_output__returns_where_the_reduction_is_outside():
    """O[m], `for K in 2: for M in 3` over tiles of one word: 6 words leave, 3 of them for the second time.

    So 6 updates of L0, 3 reads of what comes back, 3 fills. L1 takes 6 updates from the MACs, and reads 3 words back.
    """
    found = run((M, K), (M,), "K=2 M=3", "")

    assert count(found, 0, "O") == (3, 3, 0, 6)
    assert count(found, 1, "O") == (1, 3, 3, 6)


def test_output__stays_where_the_reduction_is_inside():
    """`for M in 3: for K in 2`: each word leaves once. L1 reads it back for the second of its 2 updates: 3 reads."""
    found = run((M, K), (M,), "M=3 K=2", "")

    assert count(found, 0, "O") == (3, 0, 0, 3)
    assert count(found, 1, "O") == (1, 3, 0, 6)


def test_output__drain_is_read_where_the_machine_says_so():
    """As with K outside; the 6 words that leave L1 are read on top of the 3 that are read back. L0 drains nowhere."""
    found = run((M, K), (M,), "K=2 M=3", "", drain_reads=True)

    assert count(found, 0, "O") == (3, 3, 0, 6)
    assert count(found, 1, "O") == (1, 9, 3, 6)


def test_output__windows_return_as_whole_boxes_or_halos():
    """O[p + r], `for P in 3` over a tile of R = 2: boxes {0, 1}, {1, 2}, {2, 3}.

    Word 0 leaves as 2 comes, 1 as 3 comes, then 2 and 3: 4 updates, none returns. The MACs update 6 times, 4 words for
    the first time.
    """
    found = run((P, (("R", 1),)), WINDOW, "P=3", "R=2")

    assert count(found, 0, "O") == (4, 0, 0, 4)
    assert count(found, 1, "O") == (2, 2, 0, 6)


@pytest.mark.parametrize(
    ("x", "y", "reads"),
    [
        (True, True, 5),  # p + r is 0 to 4
        (True, False, 9),  # along x, at one r, all three differ
        (False, True, 9),
        (False, False, 9),
    ],
)
def test_multicast__serves_the_diagonal_where_both_axes_share(x, y, reads):
    """P = 3 on x, R = 3 on y, no time: nine MACs want the words p + r."""
    machine, einsum, mapping = case(WINDOW, (P,), "|P=3|R=3")
    level = replace(machine.levels[0], x=Axis(3, multicast=x), y=Axis(3, multicast=y))

    found = execute(replace(machine, levels=(level,)), einsum, mapping)

    assert count(found, 0, "I") == (5, reads, 0, 0)
    assert found.transfers[0]["I"] == 9
    assert (found.steps, found.used) == (1, [1, 9])


def test_multicast__does_not_serve_boxes_that_only_overlap():
    """P = 2 on x over tiles of R = 3: boxes {0, 1, 2} and {1, 2, 3}: 6 words read, not 4."""
    found = run(WINDOW, (P,), "|P=2", "R=3")

    assert count(found, 0, "I") == (4, 6, 0, 0)
    assert count(found, 1, "I") == (3, 3, 3, 0)


@pytest.mark.parametrize(("adds", "updates"), [(True, 3), (False, 12)])
def test_spatial_reduction__makes_one_update_of_many(adds, updates):
    """`for M in 3`, K = 4 on x: each step four MACs make a partial sum of the same word.

    Added up on the way it is one update a word, 3, and nothing returns. Otherwise 12, of which 9 find a word there, and
    read it.
    """
    found = run((M, K), (M,), "M=3|K=4", x=Axis(4, spatial_reduction=adds))

    assert count(found, 0, "O") == (3, updates - 3, 0, updates)


def test_bypass__asks_the_next_level_that_keeps_the_tensor():
    """L1 holds no I: the 12 MACs read L0, through 2 instances of L1 (P on x) that ask for words of their own each time.

    O is kept: each of the two instances updates its two words once at the end: 4 updates in L0.
    """
    found = run(WINDOW, (P,), "|P=2", "P=2 R=3", keep="O")

    assert count(found, 0, "I") == (6, 12, 0, 0)
    assert "I" not in found.levels[1]
    assert count(found, 0, "O") == (4, 0, 0, 4)
    assert count(found, 1, "O") == (2, 4, 0, 6)
    assert found.transfers == [{"I": 12, "O": 4}, {"I": 12, "O": 12 + 8}]


def test_bypass__shares_reads_through_all_networks():
    """K = 2 on x of L0 and M = 2 on x of L1, I[m] bypasses L1: at L1 both words differ, at L0 both instances want the
    same.

    One step: 2 reads of I at L0; its network carries 2 words to each of 2 instances; 4 arrive at the MACs.
    """
    found = run((M,), (M, K), "|K=2", "|M=2", keep="O")

    assert count(found, 0, "I") == (2, 2, 0, 0)
    assert found.transfers[0]["I"] == 4
    assert found.transfers[1]["I"] == 4


def test_fails__name_what_is_exceeded():
    """First: 9 MACs on x of 8, tiles of 27 + 27 words in L0 and 3 + 3 in L1, a word for each element.

    Second: L0 has 6 + 3 finished words; L1 has 6 and, as its 16-bit partial sums take two words, 3 x 2: 12.
    Third and fourth: 3 + 3 words against partitions of 2 and 3, and against half of 11.
    """
    tight = case(((("M", 1),),), (M,), "|M=9", "M=3", size_words=5, word_bits=8)
    partial = case((M, K), (M,), "", "M=3 K=2", size_words=11, word_bits=8)
    apart = case((M,), (M,), "", "M=3", partition_words={"Inputs": 2, "Outputs": 3}, word_bits=8)
    halved = case((M,), (M,), "", "M=3", size_words=11, multiple_buffering=2, word_bits=8)

    assert execute(*tight).fails == ["fanout x L0", "capacity L0", "capacity L1"]
    assert execute(*partial).fails == ["capacity L1"]
    assert execute(*apart).fails == ["capacity L0", "capacity L1"]
    assert execute(*halved).fails == ["capacity L0", "capacity L1"]
    assert execute(*case((M, K), (M,), "", "M=3 K=2", size_words=12, word_bits=8)).fails == []


def test_walk_tile__shows_each_step_and_empties_the_tile_at_the_end():
    """I[p + r], `for P in 3` over R = 2: {0, 1}, then 2 for 0, then 3 for 1, then {2, 3} leave."""
    _, einsum, mapping = case(WINDOW, (P,), "P=3", "R=2")
    steps = list(walk_tile(Tile(einsum, einsum.tensors[0], mapping, 1)))

    assert [sorted(at for (at,) in step.entering) for step in steps] == [[0, 1], [2], [3], []]
    assert [sorted(at for (at,) in step.leaving) for step in steps] == [[], [0], [1], [2, 3]]
    assert [step.indices for step in steps] == [(0,), (1,), (2,), ()]
