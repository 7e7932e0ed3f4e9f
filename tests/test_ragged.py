"""Mappings that leave remainders: the formulas against the oracle, and cases worked by hand."""

from __future__ import annotations

import math
import os

from hypothesis import given, settings

from accelsim.architecture import Architecture
from accelsim.model.encode import encode
from accelsim.model.oracle import OracleCounts, execute
from accelsim.model.ragged import Parts, evaluate_ragged, ragged_parts
from accelsim.workload import Einsum
from tests.strategies import ragged_cases

CASES = int(os.environ.get("ACCELSIM_RAGGED_CASES", "3000"))


def check_counts(parts: Parts, walked: OracleCounts, machine: Architecture, einsum: Einsum) -> None:
    """Compare every count with the walked one, and every energy with the accesses of each instance."""
    assert (parts.steps, parts.used) == (walked.steps, walked.used)
    index = {level.name: lv for lv, level in enumerate(machine.levels)}
    tensors = {tensor.name: tensor for tensor in einsum.tensors}
    assert len(parts.at_level) == sum(map(len, walked.levels))
    for t in parts.at_level:
        level = machine.levels[index[t.level]]
        count = walked.levels[index[t.level]][t.tensor]
        where = (t.level, t.tensor)
        assert t.tile_words == count.tile, where
        assert (t.reads, t.fills, t.updates) == (count.reads, count.fills, count.updates), where
        totals = (count.total_reads, count.total_fills, count.total_updates)
        assert (t.total_reads, t.total_fills, t.total_updates) == totals, where
        width = -(-t.word_bits // level.word_bits)
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
    for n in parts.on_network:
        assert n.total_transfers == walked.transfers[index[n.level]][n.tensor], (n.level, n.tensor)
        children = walked.used[index[n.level] + 1]
        assert n.transfers <= n.total_transfers <= n.transfers * children


@settings(max_examples=CASES)
@given(ragged_cases())
def test_ragged__equals_the_executed_nest(case):
    machine, einsum, mapping = case
    encoded = encode(machine, einsum)
    walked = execute(machine, einsum, mapping)
    parts = ragged_parts(encoded, mapping)

    check_counts(parts, walked, machine, einsum)
    fits, energy_pj, cycles = evaluate_ragged(encoded, mapping)
    assert fits == (not walked.fails)
    assert (energy_pj, cycles) == ((parts.energy_pj, parts.cycles) if fits else (math.inf, 0))
