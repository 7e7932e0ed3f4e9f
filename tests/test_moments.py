"""Exact means over a map space against all of its mappings, one by one."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload import Einsum
from accelsim.mapspace.space import MapSpace
from accelsim.model.detail import make_detail
from accelsim.model.encode import Batch, Floats, encode
from accelsim.model.kernel import evaluate_many
from accelsim.population.moments.deviations import energy_deviation, word_deviations
from accelsim.population.moments.means import Means, means
from tests.brute import Truth, truth
from tests.problems import MOST, problem

PROBLEMS = int(os.environ.get("ACCELSIM_MOMENT_PROBLEMS", "60"))
"""Spaces of any size, where every single kind of words is looked at; tests/test_population.py has many small ones."""
GROUPS = 3
FIRST = int(os.environ.get("ACCELSIM_MOMENT_FIRST", "0"))


def plain(seed: int, most: int = MOST) -> tuple[Architecture, Einsum, Constraints]:
    """A problem without wider partial sums and without a smallest utilization."""
    machine, einsum, constraints = problem(seed, most)
    tensors = tuple(replace(tensor, psum_bits=tensor.bits) for tensor in einsum.tensors)
    return machine, replace(einsum, tensors=tensors), replace(constraints, min_utilization=0.0)


def counted(known: Truth) -> tuple[Floats, Floats]:
    """Of each valid mapping the words of all instances, float64[V, L, T, 4], and the energy without leakage."""
    encoded, batch = known.encoded, known.batch
    s = make_detail(encoded)
    words, energies = [], []
    status, energy, cycles = np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.int64)
    for b in range(known.valid):
        evaluate_many(encoded.constants, Batch(*(array[b : b + 1] for array in batch)), s, True, status, energy, cycles)
        used, keep = s.used.astype(np.float64), batch.keep[b]
        at_level = [each * used[:-1, None] * keep for each in (s.reads, s.fills, s.updates)]
        words.append(np.stack([*at_level, s.transfers * used[1:, None]], axis=2))
        energies.append(energy[0] - s.leak.sum())
    return np.array(words), np.array(energies)


def by_words(known: Truth, words: Floats) -> Floats:
    """Energy of each mapping if a part of an access is charged as that: float64[V]."""
    c = known.encoded.constants
    each = c.energy.copy()
    each[:, :, :3] *= (c.word_parts[:, :, 0] / c.block[:, None])[:, :, None]
    return np.asarray((words * each).sum(axis=(1, 2, 3)) + known.encoded.einsum.macs * c.mac[0])


def has_means(einsum: Einsum) -> bool:
    """Whether the means of a map space are known: no windowed output, no rank of three dimensions."""
    ranks = [[dim for dim, _ in rank if einsum.dims[dim] > 1] for rank in einsum.output.ranks]
    others = [[dim for dim, _ in rank if einsum.dims[dim] > 1] for t in einsum.tensors for rank in t.ranks]
    return max(map(len, ranks), default=0) < 2 and max(map(len, others), default=0) < 3


def cases(group: int) -> Iterator[tuple[int, MapSpace, Truth]]:
    """Problems that have a valid mapping, and means."""
    for seed in range(FIRST + group, FIRST + PROBLEMS, GROUPS):
        machine, einsum, constraints = plain(seed)
        known = truth(machine, einsum, constraints, MOST) if has_means(einsum) else None
        if known is not None and known.valid:
            yield seed, MapSpace(known.encoded, constraints), known


def check_means(known: Truth, found: Means, words: Floats, energies: Floats) -> None:
    """Compare the number of mappings, and the mean of each kind of words and of the energy."""
    assert found.mappings == known.valid
    expected = words.mean(axis=0)
    got = np.array([[t.reads, t.fills, t.updates, t.transfers] for t in found.tensors]).reshape(expected.shape)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9 * expected.max())
    assert math.isclose(found.energy_pj, by_words(known, words).mean(), rel_tol=1e-9)
    assert found.leaks == bool(known.encoded.constants.leak.any())
    least, most = found.energy_pj * (1 - 1e-9), (found.energy_pj + found.energy_slack_pj) * (1 + 1e-9)
    assert least <= energies.mean() <= most


def check_energy_deviation(space: MapSpace, known: Truth, found: Means, words: Floats, energies: Floats) -> None:
    """Compare the standard deviation of the energy, to which all kinds of words contribute, each with each."""
    if known.encoded.constants.windowed.sum() > 1:
        with pytest.raises(AccelsimError, match="two tensors are windowed"):
            energy_deviation(space, found)
        return
    spread, plainly = energy_deviation(space, found), by_words(known, words)
    rounding = 1e-7 * plainly.mean()
    assert abs(spread.energy_pj - plainly.std()) <= 1e-9 * plainly.std() + rounding
    assert abs(spread.energy_pj - energies.std()) <= spread.slack_pj + rounding


@pytest.mark.parametrize("group", range(GROUPS))
def test_moments__equal_brute_force(group):
    checked = 0
    for seed, space, known in cases(group):
        found = means(space)
        words, energies = counted(known)
        check_means(known, found, words, energies)
        check_energy_deviation(space, known, found, words, energies)
        expected = words.std(axis=0)
        rows = [[t.reads, t.fills, t.updates, t.transfers] for t in word_deviations(space, found)]
        got = np.array(rows).reshape(expected.shape)
        error = np.abs(got - expected)
        np.testing.assert_array_less(error, 1e-9 * got + 1e-7 * np.abs(words).max() + 1e-12, str(seed))
        checked += 1
    assert checked > PROBLEMS // GROUPS // 2


def test_means__say_what_does_not_add_up():
    machine, einsum, constraints = plain(0)
    wide = replace(einsum, tensors=tuple(replace(t, bits=8, psum_bits=32) for t in einsum.tensors))
    with pytest.raises(AccelsimError, match="partial sums are wider"):
        means(MapSpace(encode(machine, wide), constraints))
    with pytest.raises(AccelsimError, match="utilization"):
        means(MapSpace(encode(machine, einsum), replace(constraints, min_utilization=0.5)))
