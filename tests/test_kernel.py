"""The kernel's closed formulas against the oracle that executes the nest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.inputs.mapping import LevelMapping
from accelsim.inputs.workload import ROLES
from accelsim.model.detail import FILLS, READS, STEPS, TILE, TRANSFERS, UPDATES, USED, make_detail
from accelsim.model.encode import encode, encode_mappings
from accelsim.model.evaluate import evaluate
from accelsim.model.kernel import VALID, evaluate_many
from accelsim.model.oracle import execute
from tests.effort import many
from tests.strategies import cases

CASES = many("ORACLE_CASES", 700)


@settings(max_examples=CASES)
@given(cases())
def test_kernel__equals_the_executed_nest(case):
    machine, einsum, mapping = case
    encoded = encode(machine, einsum)
    detail = make_detail(encoded)
    batch = encode_mappings(encoded, [mapping])
    status, energy, cycles = np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.int64)
    evaluate_many(encoded.constants, batch, detail, True, status, energy, cycles)
    walked = execute(machine, einsum, mapping)

    used = detail.level[:, USED]
    assert detail.level[-1, STEPS] == walked.steps
    assert used.tolist() == walked.used
    for lv, level in enumerate(walked.levels):
        for t, tensor in enumerate(einsum.tensors):
            assert detail.at[lv, t, TRANSFERS] * used[lv + 1] == walked.transfers[lv][tensor.name]
            if tensor.name in level:
                count = level[tensor.name]
                counted = detail.at[lv, t, [TILE, READS, FILLS, UPDATES]].tolist()
                assert counted == [count.tile, count.reads, count.fills, count.updates], (level, tensor)
    assert (status[0] == VALID) == (not walked.fails), (status, walked.fails)


@given(cases(), st.sets(st.sampled_from(ROLES), min_size=1))
def test_compute_units__ask_for_words_that_they_hold_only_when_these_change(case, holds):
    """The innermost level reads, for each unit, one word each time that its word changes, as the executed nest has it.

    Words are asked for in groups where the networks below that level share them.
    """
    machine, einsum, mapping = case
    held = frozenset(t.name for t in einsum.tensors if t.role in holds)
    holding = replace(machine, compute=replace(machine.compute, holds=frozenset(holds)))
    operands = LevelMapping(holding.levels[-1].name, keep=held)
    mapped = replace(mapping, levels=(*mapping.levels, operands))
    assert [level.name for level in holding.levels] == [*(level.name for level in machine.levels), "MAC_operands"]
    found, alone, walked = (
        evaluate(holding, einsum, mapped),
        evaluate(machine, einsum, mapping),
        execute(holding, einsum, mapped),
    )
    assert (found.cycles <= alone.cycles, found.valid) == (True, alone.valid)  # ports move less
    plain = {(one.level, one.tensor): one for one in alone.tensors}
    for one in found.tensors:
        counts = walked.levels[[level.name for level in holding.levels].index(one.level)][one.tensor]
        assert (one.reads, one.fills, one.updates) == (counts.reads, counts.fills, counts.updates)
        if one.level != operands.level and one.tensor != einsum.output.name:
            assert one.reads <= plain[one.level, one.tensor].reads
            assert one.reads == plain[one.level, one.tensor].reads or one.tensor in held


@settings(max_examples=min(CASES, 100))
@given(cases())
def test_kernel__run_as_plain_python_gives_the_same_bits(case):
    machine, einsum, mapping = case
    encoded = encode(machine, einsum)
    found = []
    for kernel in (evaluate_many.plain, evaluate_many):
        detail, batch = make_detail(encoded), encode_mappings(encoded, [mapping])
        status, energy, cycles = np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.int64)
        kernel(encoded.constants, batch, detail, True, status, energy, cycles)
        found.append([array.tobytes() for array in (status, energy, cycles, *detail)])
    assert found[0] == found[1]
