"""Mappings that leave remainders: the formulas against the oracle, and cases worked by hand."""

from __future__ import annotations

import io
import itertools
import math
import random
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from accelsim.inputs.architecture import Architecture, Axis
from accelsim.inputs.mapping import Loop, Mapping, idle_at_last, leaves_remainder
from accelsim.inputs.nodes import arrange_for, first_nodes, fold
from accelsim.inputs.workload import ROLES, Einsum, Tensor, pad
from accelsim.model.encode import Encoded, encode
from accelsim.model.evaluate import evaluate, result_of
from accelsim.model.oracle import OracleCounts, acting_steps, execute, nest_loops
from accelsim.model.ragged import count_ragged
from accelsim.model.result import Result
from accelsim.results.explain import explain, explanation_json, same_as_walked
from accelsim.results.output import read_mapping_json, result_json
from accelsim.show.report.mapping import headline, nest_line, nest_parts
from accelsim.show.table import print_parts
from tests.brute import ragged_cost
from tests.effort import many
from tests.strategies import cases, ragged_case, ragged_cases
from tests.test_nodes import cycles_by_hand
from tests.test_oracle import WINDOW, case

C, K, M, N = (((dim, 1),) for dim in "CKMN")
CASES = many("RAGGED_CASES", 600)


def imperfect_on_columns() -> tuple[Architecture, Einsum, Mapping]:
    """8 columns of a GEMM over 6 lanes, as in issue 328 of Timeloop."""
    machine, einsum, mapping = case((M, K), (M, N), "N=2|N=6", "M=8 K=8")
    levels = (replace(machine.levels[0], x=Axis(6), y=Axis(1)), replace(machine.levels[1], x=Axis(1), y=Axis(1)))
    einsum = replace(einsum, dims={**einsum.dims, "N": 8})
    return replace(machine, levels=levels), einsum, replace(mapping, imperfect=frozenset("N"))


def by_sums(encoded: Encoded, mapping: Mapping) -> Result:
    """The result by the sums for remainders, whether there are any or not."""
    return result_of(encoded, mapping, count_ragged(encoded, mapping))


def check_counts(result: Result, walked: OracleCounts, machine: Architecture, einsum: Einsum, mapping: Mapping) -> None:
    """Compare every count with the walked one, and every energy with the accesses of each instance."""
    nodes = arrange_for(machine, mapping).levels
    starts = first_nodes(nodes)
    steps, used = result.compute_cycles // result.cycles_per_mac, [level.used_instances for level in result.levels]
    assert (steps, [*used, result.compute_used]) == (walked.steps, [walked.used[node] for node in starts])
    last = {nodes[end - 1].name: end - 1 for end in starts[1:]}
    tensors = {tensor.name: tensor for tensor in einsum.tensors}
    assert len(result.tensors) == sum(map(len, walked.levels))
    for t in result.tensors:
        where = (t.level, t.tensor)
        node = next(k for k, level in enumerate(nodes) if level.name == t.level and t.tensor in walked.levels[k])
        level, count = nodes[node], walked.levels[node][t.tensor]
        assert t.tile_words == count.tile, where
        assert (t.reads, t.fills, t.updates) == (count.reads, count.fills, count.updates), where
        totals = (count.total_reads, count.total_fills, count.total_updates)
        assert (t.total_reads, t.total_fills, t.total_updates) == totals, where
        width = -(-t.word_bits // level.word_bits) * t.compression
        first = (0,) * len(next(iter(count.read)))
        for words, action, energy_pj in (
            (count.read, "read", t.read_pj),
            (count.filled, "write", t.write_pj),
            (count.updated, "update", t.update_pj),
        ):
            assert words[first] == max(words.values()), "the first instance is the busiest"
            accesses = sum(-(-each * width // level.block_size) for each in words.values())
            entry = machine.energy.energy_pj(level.name, tensors[t.tensor].role, action)
            assert math.isclose(energy_pj, accesses * entry, rel_tol=1e-12, abs_tol=0), (where, action)
    transfer_pj = []
    for n in result.networks:
        network = last[n.level]
        crossed = walked.transfers[network][n.tensor]
        assert n.total_transfers == crossed, (n.level, n.tensor)
        assert n.transfers <= crossed <= n.transfers * walked.used[network + 1]
        assert 1 <= n.multicast <= n.children
        assert 1 <= n.spatial_reduction <= n.children
        above, below = walked.levels[network], walked.levels[network + 1] if network + 1 < len(nodes) else {}
        if n.tensor in above and not tensors[n.tensor].output:
            assert n.multicast == crossed / above[n.tensor].total_reads
        elif n.tensor in above and n.tensor in below:
            assert n.spatial_reduction == (crossed - below[n.tensor].total_fills) / above[n.tensor].total_updates
        back = walked.returns[network][n.tensor]
        for words, action in ((crossed - back, "transfer"), (back, "return")):
            each_pj = machine.energy.energy_pj(f"{n.level} network", tensors[n.tensor].role, action)
            transfer_pj.append(words * each_pj)
    assert result.cycles == max(
        check_cycles(result, walked, machine, starts), walked.steps * machine.compute.cycles_per_mac
    )
    leaks = [machine.energy.energy_pj(level.name, "*", "leak") for level in machine.levels]
    leak_pj = [leak * result.cycles * many for leak, many in zip(leaks, leaking(machine, used), strict=True)]
    compute_pj = einsum.macs * machine.energy.energy_pj("MAC", "*", "compute")
    total_pj = math.fsum([*(t.energy_pj for t in result.tensors), *transfer_pj, *leak_pj, compute_pj])
    assert math.isclose(result.energy_pj, total_pj, rel_tol=1e-12)


def leaking(machine: Architecture, used: list[int]) -> list[int]:
    """Instances of each level that leak: those in use, or all where idle ones do, too."""
    return [
        many if level.power_gateable else machine.instances(at)
        for at, (level, many) in enumerate(zip(machine.levels, used, strict=False))
    ]


def check_cycles(result: Result, walked: OracleCounts, machine: Architecture, starts: list[int]) -> int:
    """Compare the cycles of each level with those that each port of each instance needs; returns the most.

    The ports of a level carry what its storage nodes keep; `starts` has the first node of each, and the number of all.
    """
    cycles_of = [level.cycles for level in result.levels]
    for index, (level, cycles) in enumerate(zip(machine.levels, cycles_of, strict=True)):
        counts = dict(itertools.chain(*(node.items() for node in walked.levels[starts[index] : starts[index + 1]])))
        width = {
            t.tensor: -(-t.word_bits // level.word_bits) * t.compression
            for t in result.tensors
            if t.level == level.name
        }
        needed = [0]
        for instance in next(iter(counts.values())).read if counts else ():
            read = sum(count.read[instance] * width[name] for name, count in counts.items())
            written = sum(
                (count.filled[instance] + count.updated[instance]) * width[name] for name, count in counts.items()
            )
            ports = ((level.bandwidth, read + written), (level.read_bandwidth, read), (level.write_bandwidth, written))
            needed += [math.ceil(words / rate) for rate, words in ports if rate is not None]
        assert cycles == max(needed), level.name
    return max(cycles_of)


@settings(max_examples=CASES)
@given(ragged_cases())
def test_ragged__equals_the_executed_nest(case):
    machine, einsum, mapping = case
    encoded = encode(arrange_for(machine, mapping), einsum)
    walked = execute(machine, einsum, mapping)
    parts = by_sums(encoded, mapping)

    check_counts(parts, walked, machine, einsum, mapping)
    assert ragged_cost(encoded, mapping)[0] == (not walked.fails)


@settings(max_examples=CASES)
@given(ragged_cases(), st.booleans())
@example(imperfect_on_columns(), False)  # 2 of 6 units in every second step: said to be 66.7 % = 100 % x 100 %
@example(imperfect_on_columns(), True)
def test_spatial_utilization__is_the_mean_of_the_units_that_do_macs(case, rounded_up):
    """Of the executed nest, and times the temporal one it is the overall utilization, also with padding."""
    machine, einsum, mapping = case
    if rounded_up:
        bounds = padded(einsum, mapping).dims
        mapping = replace(mapping, imperfect=frozenset(), padded=tuple(itertools.starmap(Loop, bounds.items())))
    result = evaluate(machine, einsum, mapping)
    busy = acting_steps(pad(einsum, mapping.padding), nest_loops(mapping))
    spatial = Fraction(sum(busy.values()), result.compute_instances * len(busy))
    temporal = Fraction(len(busy) * machine.compute.cycles_per_mac, result.cycles)

    assert sum(busy.values()) == einsum.macs
    assert result.spatial_utilization == float(spatial)
    assert result.temporal_utilization == float(temporal)
    assert result.utilization == float(spatial * temporal)


@given(ragged_cases())
def test_idle__names_the_dimensions_whose_remainders_leave_units_idle(case):
    """Those whose positions alone, in the loops over them, take fewer places than their units have steps."""
    _, einsum, mapping = case
    found = []
    for dim in einsum.dims:
        loops = [loop for loop in nest_loops(mapping) if loop.dim == dim]
        alone = Einsum("alone", {dim: einsum.dims[dim]}, (Tensor("O", (((dim, 1),),), "Outputs", output=True),))
        units = math.prod(loop.bound for loop in loops if loop.axis)
        busy = acting_steps(alone, loops)
        found += [dim] if sum(busy.values()) < units * len(busy) else []

    assert idle_at_last(mapping, einsum.dims) == found


def test_idle__says_that_last_passes_and_padding_leave_units_idle():
    """N = 8 as `for N in 2` over 6 columns, first 6 then 2, of 128 / (2 x 6 x 8 x 8)."""
    machine, einsum, mapping = imperfect_on_columns()
    text = " ".join(" ".join(map(str, headline(evaluate(machine, einsum, mapping), machine, einsum))).split())
    assert "utilization 66.7 %" in text
    assert "fewer in the last passes over N; no stalls" in text
    mapping = replace(mapping, imperfect=frozenset(), padded=(Loop("N", 12),))
    text = " ".join(" ".join(map(str, headline(evaluate(machine, einsum, mapping), machine, einsum))).split())
    assert "padding to N=12; no stalls" in text


def test_uneven_and_ragged__results_are_those_of_the_executed_nest():
    """Validity and counts as walked, energies that add up; the same where needless nodes are joined."""
    rng, looked, valid = random.Random(0), 0, 0
    while looked < 150:
        machine, einsum, mapping = ragged_case(rng)
        if len(mapping.levels) == len(machine.levels) or not leaves_remainder(mapping, einsum.dims):
            continue
        result, simple = evaluate(machine, einsum, mapping), evaluate(machine, einsum, fold(mapping))

        assert [level.level for level in result.levels] == [level.name for level in machine.levels]
        assert result.valid == simple.valid == (not execute(machine, einsum, mapping).fails)
        assert same_as_walked(machine, einsum, result)
        assert same_as_walked(machine, einsum, simple)
        assert math.isclose(math.fsum(row["energy_pj"] for row in result.energy_rows()), result.energy_pj)
        assert math.isclose(result.energy_pj, simple.energy_pj)
        assert result.cycles == simple.cycles == cycles_by_hand(machine, result)
        assert fold(mapping).imperfect == mapping.imperfect
        looked += 1
        valid += result.valid
    assert 30 < valid < 120


def fits(machine: Architecture, einsum: Einsum, mapping: Mapping) -> bool:
    """Whether a mapping fits, of which the oracle and the result must say the same."""
    found = evaluate(machine, einsum, mapping).valid
    assert found == (not execute(machine, einsum, mapping).fails)
    return found


def with_room(machine: Architecture, rooms: dict[tuple[str, str], int], apart: bool) -> Architecture:
    """The machine with large fanouts, and with this room [words] by level and role, in partitions or shared."""
    levels = []
    for level in machine.levels:
        words = {role: rooms.get((level.name, role), 10**6) * level.multiple_buffering for role in ROLES}
        size = {"size_words": None, "partition_words": words} if apart else {"size_words": sum(words.values())}
        axes = {"x": replace(level.x, size=1000), "y": replace(level.y, size=1000)}
        levels.append(replace(level, **{"partition_words": None, **size, **axes}))
    return replace(machine, levels=tuple(levels))


@pytest.mark.parametrize("apart", [False, True], ids=["shared", "partitions"])
def test_uneven_and_ragged__nodes_of_a_level_share_its_capacity(apart):
    """What a level holds at all of its nodes is just room enough, and a word less is too little."""
    rng, looked = random.Random(1), 0
    while looked < 80:
        machine, einsum, mapping = ragged_case(rng)
        given = [level.level for level in mapping.levels]
        uneven = [level for level in machine.levels if given.count(level.name) > 1]
        if not uneven or not leaves_remainder(mapping, einsum.dims):
            continue
        roles = {tensor.name: tensor.role for tensor in einsum.tensors}
        rooms = {(level.name, role): 0 for level in uneven for role in ROLES}
        for level, t in itertools.product(uneven, evaluate(machine, einsum, mapping).tensors):
            if t.level == level.name:
                rooms[level.name, roles[t.tensor]] += t.tile_words * -(-t.word_bits // level.word_bits)
        if not any(rooms.values()):
            continue
        short = rng.choice([at for at, words in rooms.items() if words])

        assert fits(with_room(machine, rooms, apart), einsum, mapping)
        assert not fits(with_room(machine, {**rooms, short: rooms[short] - 1}, apart), einsum, mapping)
        looked += 1


def padded(einsum: Einsum, mapping: Mapping) -> Einsum:
    """The Einsum whose bounds are what the loops multiply to."""
    bounds = dict.fromkeys(einsum.dims, 1)
    for level in mapping.levels:
        for loop in (*level.temporal, *level.x, *level.y):
            bounds[loop.dim] *= loop.bound
    return replace(einsum, dims=bounds)


@given(ragged_cases())
def test_ragged__never_costs_more_than_the_same_loops_on_padded_bounds(case):
    machine, einsum, mapping = case
    less = by_sums(encode(arrange_for(machine, mapping), einsum), mapping)
    more = by_sums(encode(arrange_for(machine, mapping), padded(einsum, mapping)), mapping)

    assert less.energy_pj <= more.energy_pj * (1 + 1e-12)
    assert less.cycles <= more.cycles


@given(cases())
def test_ragged__equals_the_kernel_without_remainders(case):
    machine, einsum, mapping = case
    result, parts = evaluate(*case), by_sums(encode(machine, einsum), mapping)

    assert not leaves_remainder(mapping, einsum.dims)
    assert (parts.compute_cycles, parts.compute_used, parts.cycles) == (
        result.compute_cycles,
        result.compute_used,
        result.cycles,
    )
    assert parts.energy_pj == pytest.approx(result.energy_pj, rel=1e-12)
    for mine, kernel in ((parts.tensors, result.tensors), (parts.networks, result.networks)):
        for one, other in zip(mine, kernel, strict=True):
            energies = {
                name: 0.0 for name in ("read_pj", "write_pj", "update_pj", "energy_pj") if name in one.__slots__
            }
            assert replace(one, **energies) == replace(other, **energies)


def hand(inputs, output, bounds: dict[str, int], *nest: str, **changes: object):
    """A case of `tests.test_oracle.case` with bounds that its loops may exceed: result, and counts of the oracle."""
    machine, einsum, mapping = case(inputs, output, *nest, **changes)
    einsum = replace(einsum, dims={**einsum.dims, **bounds})
    mapping = replace(mapping, imperfect=frozenset(bounds))
    walked = execute(machine, einsum, mapping)
    check_counts(by_sums(encode(machine, einsum), mapping), walked, machine, einsum, mapping)
    return evaluate(machine, einsum, mapping), walked


def at(result: Result, level: str, tensor: str):
    """Tile, reads, fills and updates of the busiest instance, and the totals."""
    t = next(t for t in result.tensors if (t.level, t.tensor) == (level, tensor))
    return (t.tile_words, t.reads, t.fills, t.updates), (t.total_reads, t.total_fills, t.total_updates)


def test_remainder__is_a_smaller_last_tile():
    """K = 7 as `for K in 2` over tiles of 4: 4 + 3 = 7 words enter L1, 7 steps. Padded to 8 it would be 8 of each."""
    result, walked = hand((K,), (K,), {"K": 7}, "K=2", "K=4")

    assert at(result, "L1", "I") == ((4, 7, 7, 0), (7, 7, 0))
    assert at(result, "L0", "O") == ((7, 0, 0, 7), (0, 0, 7))
    assert (result.compute_cycles, result.macs, walked.steps) == (7, 7, 7)


def uneven() -> tuple[Architecture, Einsum, Mapping]:
    """I[m, k] and O[m], M = 7 and K = 3 as `for M in 2`, L1 keeps I, `for K in 3`, L1 keeps O, `for M in 4`."""
    machine, einsum, mapping = case((M, K), (M,), "M=2", "K=3", "M=4", bandwidth=Fraction(1), word_bits=8)
    names, keeps = ("L0", "L1", "L1"), (frozenset("IO"), frozenset("I"), frozenset("O"))
    levels = tuple(
        replace(level, level=name, keep=keep) for level, name, keep in zip(mapping.levels, names, keeps, strict=True)
    )
    machine = replace(machine, levels=machine.levels[:2])
    return machine, replace(einsum, dims={"M": 7, "K": 3}), Mapping(levels, frozenset("M"))


def test_remainder__of_an_uneven_mapping():
    """Tiles of 4 x 3 inputs, outside K, and of 4 outputs, inside K; the second ones are of 3 x 3 and 3.

    12 + 9 inputs and no outputs are filled, 4 + 3 outputs go up after they were updated 3 times and read back twice. L1
    holds 12 words of inputs and 4 partial sums of 2 words. It moves 21 + 2 x 14 words out and 21 + 2 x 21 in.
    """
    machine, einsum, mapping = uneven()
    result = evaluate(machine, einsum, mapping)

    assert at(result, "L1", "I") == ((12, 21, 21, 0), (21, 21, 0))
    assert at(result, "L1", "O") == ((4, 14, 0, 21), (14, 0, 21))
    assert at(result, "L0", "O") == ((7, 0, 0, 7), (0, 0, 7))
    assert [(level.level, level.used_words, level.cycles) for level in result.levels] == [
        ("L0", 21 + 7, 21 + 7),
        ("L1", 12 + 4 * 2, 21 + 2 * 14 + 21 + 2 * 21),
    ]
    walked = execute(machine, einsum, mapping)
    parts = by_sums(encode(arrange_for(machine, mapping), einsum), mapping)
    check_counts(parts, walked, machine, einsum, mapping)


def test_remainder__leaves_instances_idle():
    """M = 10 in 3 steps of 4 on x: instances 0 and 1 act in 3 steps, 2 and 3 in 2; 10 words in all.

    Each instance reads 3, 3, 2, 2 words for its MAC: accesses of 2 words are 2 + 2 + 1 + 1 = 6.
    """
    result, _ = hand((M,), (M,), {"M": 10}, "M=3|M=4", "", block_size=2)

    assert at(result, "L1", "I") == ((1, 3, 3, 0), (10, 10, 0))
    assert at(result, "L0", "I") == ((10, 10, 0, 0), (10, 0, 0))
    assert next(t for t in result.tensors if (t.level, t.tensor) == ("L1", "I")).read_pj == 6.0
    assert (result.compute_used, result.compute_cycles) == (4, 3)
    assert result.utilization == 10 / (3 * result.compute_instances)


def test_remainder__of_one_iteration_leaves_the_tile_in_place():
    """I[c], C = 3 as `for C in 2: for N in 2: for C in 2`: 0 1, 0 1, then 2, and for the second N still 2: 5 words."""
    result, _ = hand((C,), (C, N), {"C": 3}, "C=2 N=2", "C=2", "")

    assert at(result, "L2", "I") == ((1, 6, 5, 0), (6, 5, 0))


def test_remainder__keeps_the_halo_where_the_last_pass_does_not_move_across():
    """I[c, p + r], `for C in 2: for P in 3: for C in 2` over R = 3, C = 3.

    The first pass of C alternates between two channels: 6 whole boxes of 3 words. The last one stays at its channel and
    keeps the halo: 3 + 1 + 1.
    """
    result, _ = hand((C, *WINDOW), ((("P", 1),),), {"C": 3}, "C=2 P=3", "C=2", "R=3")

    assert at(result, "L2", "I")[0] == (3, 27, 6 * 3 + 5, 0)


@pytest.mark.parametrize(("adds", "updates"), [(True, 4), (False, 6)])
def test_remainder__of_a_reduction_over_instances(adds, updates):
    """O[m], C = 3 as `for C in 2: for M in 2` with C = 2 on x: the second instance has no C in the second pass.

    The first one's tile leaves 4 times; the second's twice, each time with the first one's, or at the end, and the two
    are added up where the network does so.
    """
    machine, einsum, mapping = case((M, C), (M,), "C=2 M=2|C=2", "")
    axis = replace(machine.levels[0].x, spatial_reduction=adds)
    machine = replace(machine, levels=(replace(machine.levels[0], x=axis), machine.levels[1]))
    einsum, mapping = replace(einsum, dims={**einsum.dims, "C": 3}), replace(mapping, imperfect=frozenset("C"))
    result = evaluate(machine, einsum, mapping)

    walked = execute(machine, einsum, mapping)

    check_counts(by_sums(encode(machine, einsum), mapping), walked, machine, einsum, mapping)
    assert at(result, "L0", "O")[1] == (updates - 2, 0, updates)
    assert at(result, "L1", "O") == ((1, 2, 2, 4), (2, 2, 6))


def test_evaluate__refuses_loops_that_do_not_fit():
    machine, einsum, mapping = case((C, *WINDOW), ((("P", 1),),), "C=2 P=3", "C=2", "R=3")
    ragged = replace(mapping, imperfect=frozenset("CP"))
    with pytest.raises(ValueError, match="loops over C multiply to 4, but C is 3"):
        evaluate(machine, replace(einsum, dims={**einsum.dims, "C": 3}), mapping)
    with pytest.raises(ValueError, match=r"loops over C multiply to 4, but C is 5"):
        evaluate(machine, replace(einsum, dims={**einsum.dims, "C": 5}), ragged)
    with pytest.raises(ValueError, match="the loop C=2 runs 1 time at most: C is 2"):
        evaluate(machine, replace(einsum, dims={**einsum.dims, "C": 2}), ragged)
    with pytest.raises(ValueError, match=r"P can leave no remainder: it shares the rank P \+ R of I; pad its bound"):
        evaluate(machine, replace(einsum, dims={**einsum.dims, "P": 2}), ragged)


def test_explain__and_drawings_show_the_last_pass():
    machine, einsum, mapping = case((M,), (M,), "M=3|M=4", "")
    einsum, mapping = replace(einsum, dims={"M": 10}), replace(mapping, imperfect=frozenset("M"))
    explained = explain(machine, einsum, mapping)
    console = Console(file=io.StringIO(), width=80)
    print_parts(console, nest_parts(explained.result))

    assert explained.same
    assert "par_for M in [0:4,2) on x" in console.file.getvalue()
    assert "| for M in [0:3)" in console.file.getvalue()
    assert nest_line(explained.result) == "L0[IO] M=3 x(M=4,2) | L1[IO]"


def test_explain__and_drawings_of_an_uneven_mapping():
    explained = explain(*uneven())
    console = Console(file=io.StringIO(), width=80)
    print_parts(console, nest_parts(explained.result))

    assert explained.same
    assert [line.rstrip() for line in console.file.getvalue().splitlines()][-6:] == [
        "|   [L1: I]",
        "|   for K in [0:3)",
        "|     [L1: O]",
        "|     for M in [0:4,3)",
        "",
        "MAC x1 of 4,096",
    ]
    assert nest_line(explained.result) == "L0[IO] M=2 | L1[I] K=3 | L1[O] M=4,3"
    assert explanation_json(explained)["imperfect"] == ["M"]


def test_json__reads_back_with_the_imperfect_dimensions():
    machine, einsum, mapping = case((M,), (M,), "M=3|M=4", "")
    einsum, mapping = replace(einsum, dims={"M": 10}), replace(mapping, imperfect=frozenset("M"))
    written = result_json(evaluate(machine, einsum, mapping))

    assert read_mapping_json(written) == mapping
    assert read_mapping_json({**written, "imperfect": []}).imperfect == frozenset()
