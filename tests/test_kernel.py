"""The kernel's closed formulas against the oracle that executes the nest."""

from __future__ import annotations

import os

from hypothesis import given, settings

from accelsim.model.encode import encode, encode_mappings
from accelsim.model.kernel import VALID, evaluate_one, make_detail
from accelsim.model.oracle import execute
from tests.strategies import cases

CASES = int(os.environ.get("ACCELSIM_ORACLE_CASES", "5000"))


@settings(max_examples=CASES)
@given(cases())
def test_kernel__equals_the_executed_nest(case):
    machine, einsum, mapping = case
    encoded = encode(machine, einsum)
    detail = make_detail(encoded)
    batch = encode_mappings(encoded, [mapping])
    status, energy, cycles = evaluate_one(encoded.constants, *(array[0] for array in batch), detail, True)
    walked = execute(machine, einsum, mapping)

    assert detail.steps[-1] == walked.steps
    assert detail.used.tolist() == walked.used
    for l, level in enumerate(walked.levels):
        for t, tensor in enumerate(einsum.tensors):
            assert detail.transfers[l, t] * detail.used[l + 1] == walked.transfers[l][tensor.name]
            if tensor.name in level:
                count = level[tensor.name]
                counted = [int(array[l, t]) for array in (detail.tile, detail.reads, detail.fills, detail.updates)]
                assert counted == [count.tile, count.reads, count.fills, count.updates], (level, tensor)
    assert (status == VALID) == (not walked.fails), (status, walked.fails)
