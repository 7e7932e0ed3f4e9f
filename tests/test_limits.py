"""Lower limits of a layer: no mapping falls below them."""

from __future__ import annotations

import itertools
import time

from hypothesis import given
from hypothesis import strategies as st

from accelsim.inputs.architecture import Architecture, Compute, Level, load_architecture
from accelsim.inputs.energies import EnergyTable
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.inputs.workload_reader import load_workload
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.model.evaluate import evaluate
from accelsim.model.limits import different_sums, layer_limits, touched_words
from accelsim.search.exact.cost_tables import _marked_sums, needed_words
from tests.strategies import cases, energy_table


@given(cases())
def test_limits__no_mapping_falls_below(case):
    """Mappings keep whatever they like, valid or not; those that the machine forbids are not looked at."""
    machine, einsum, mapping = case
    roles = {tensor.name: tensor.role for tensor in einsum.tensors}
    for level, found in zip(machine.levels, mapping.levels, strict=True):
        kept = {roles[name] for name in found.keep}
        if kept & level.bypass or (level.keep & set(roles.values())) - kept:
            return
    result, limits = evaluate(machine, einsum, mapping), layer_limits(machine, einsum)
    if result.compute_used <= result.compute_instances:
        assert limits.energy_pj <= result.energy_pj * (1 + 1e-12)
        assert limits.cycles <= result.cycles


def test_limits__by_hand_for_a_matrix_vector_product_on_eyeriss():
    """fc8 of VGG-16, 1 x 1000 x 4096: 4 096 000 weights + 4096 + 1000 words of 200 pJ, and 1 pJ for each MAC.

    The MACs ask the SPAD (1 pJ a word) for inputs, weights and partial sums, one for each MAC. 4 101 096 words
    at 1.8 words a cycle (0.72 GB/s, 200 MHz) take 2 278 387 cycles.
    """
    machine = load_architecture("eyeriss")
    (layer,) = [each for each in load_workload("vgg16").layers if each.name == "fc8"]
    limits = layer_limits(machine, layer)
    dram, spad, mac = (
        machine.energy.energy_pj(name, "Weights" if name != "MAC" else "*", action)
        for name, action in (("DRAM", "read"), ("SPAD", "read"), ("MAC", "compute"))
    )
    assert limits.energy_pj == 4_101_096 * dram + 4_096_000 * (3 * spad + mac)
    assert limits.cycles == 2_278_387


def test_limits__of_a_machine_of_one_level_are_what_its_requests_cost():
    """An outer product of 6 and 4 words: each of 24 MACs reads both there and writes its output, 72 accesses, no more.

    The 6 + 4 + 24 words that must be moved at least are among them.
    """
    tensors = (Tensor("A", ((("M", 1),),)), Tensor("B", ((("N", 1),),), "Weights"))
    einsum = Einsum(
        "outer", {"M": 6, "N": 4}, (*tensors, Tensor("Z", ((("M", 1),), (("N", 1),)), "Outputs", output=True))
    )
    entries = energy_table(["L0"], lambda: 1.0).entries.items()
    table = EnergyTable({key: entry for key, entry in entries if key[2] != "transfer"})
    machine = Architecture("m", (Level("L0", "SRAM"),), Compute(), table)
    nest = LevelMapping("L0", (Loop("M", 6), Loop("N", 4)), keep=frozenset("ABZ"))
    limits = layer_limits(machine, einsum)
    assert (limits.energy_pj, limits.cycles) == (24 * (1 + 3 + 1), 24)  # MACs, accesses, and leakage of a cycle
    assert limits.energy_pj == evaluate(machine, einsum, Mapping((nest,))).energy_pj


def test_touched_words__of_a_rank_too_long_to_list_are_those_of_its_longest_dimension():
    """3 x 2000 and 2 x 1000 meet and leave gaps; two million points are not listed."""
    inputs = Tensor("Inputs", ((("P", 3), ("R", 2)),))
    output = Tensor("Z", ((("P", 1),),), "Outputs", output=True)
    few, many = (Einsum("e", {"P": p, "R": r}, (inputs, output)) for p, r in ((20, 10), (2000, 1000)))
    assert touched_words(few, inputs) == len({3 * p + 2 * r for p in range(20) for r in range(10)})
    assert touched_words(many, inputs) == 2000


def test_touched_words__leave_out_what_a_stride_does():
    """P = 4 with stride 3 and R = 2 touches 0 1 3 4 6 7 9 10: 8 of the 11 in the box."""
    inputs = Tensor("Inputs", ((("P", 3), ("R", 1)),))
    einsum = Einsum("e", {"P": 4, "R": 2}, (inputs, Tensor("Z", ((("P", 1),),), "Outputs", output=True)))
    assert (touched_words(einsum, inputs), inputs.words(einsum.dims)) == (8, 11)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 6)), max_size=4))
def test_different_sums__are_those_that_are_listed(terms):
    listed = len({sum(point) for point in itertools.product(*(range(0, n * step, step) for step, n in terms))})
    assert different_sums(terms) in (listed, None)
    assert _marked_sums(terms) == listed


def test_needed_words__of_a_huge_layer_take_no_time():
    """8 x 4 inputs, 4 x 6 million weights, 8 x 6 million outputs."""
    layer = load_workload("workload: {name: w, gemm: {M: 8, N: 6000000, K: 4}}\n").layers[0]
    started = time.process_time()
    assert sorted(needed_words(MapSpace(encode(load_architecture("two_level"), layer)))) == [32, 24_000_000, 48_000_000]
    assert time.process_time() - started < 5
