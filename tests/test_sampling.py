"""Draws by tables and looked-up tiles, against the cost model that every other command runs."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim import load_architecture, load_workload
from accelsim.mapspace.space import MapSpace
from accelsim.model.detail import PARTIAL, READS, make_detail
from accelsim.model.encode import empty_batch, encode
from accelsim.model.kernel import VALID, evaluate_many
from accelsim.population.draw_kernel import draw_batch, make_drawn
from accelsim.population.sampling import Sampler, stream_key
from accelsim.population.steps import Nest

DRAWS = 2000


def draw(sampler, numbers):
    ways = sampler.ways
    batch = empty_batch(sampler.nest.space.encoded, len(numbers))
    line, drawn = np.zeros(len(ways.shape), np.int64), make_drawn(ways, len(numbers))
    draw_batch(ways, sampler.nest.space.arrays, stream_key(5), np.array(numbers), drawn, line, batch)
    return batch


@pytest.mark.parametrize("machine", ["two_level", "eyeriss", "systolic", "nvdla_1024", "simba", "gpu_sm"])
def test_samples__cost_what_the_cost_model_says(machine):
    """VGG-16 conv3_2: energy and cycles to the last bit, and each mapping drawn is valid and whole."""
    sampler = Sampler(Nest(MapSpace(encode(load_architecture(machine), load_workload("conv").layers[0]))))
    sample = sampler.sample(DRAWS, seed=5)
    encoded = sampler.nest.space.encoded
    batch = draw(sampler, range(DRAWS))
    detail, status, cycles = make_detail(encoded), np.zeros(DRAWS, np.int64), np.zeros(DRAWS, np.int64)
    energy = np.zeros(DRAWS)
    evaluate_many(encoded.constants, batch, detail, False, status, energy, cycles)

    assert (status == VALID).all()
    np.testing.assert_array_equal(sample.energy_pj, energy)
    np.testing.assert_array_equal(sample.cycles, cycles)
    whole = batch.temporal.prod(axis=1) * batch.x.prod(axis=1) * batch.y.prod(axis=1)
    assert (whole == encoded.constants.bounds).all()
    assert (np.sort(batch.order, axis=2) == np.arange(len(encoded.dims))).all()
    last = sum(
        detail.at[0, t, READS : READS + 3].sum() * encoded.constants.word_parts[0, t, detail.at[0, t, PARTIAL]]
        for t in range(len(encoded.tensors))
    )
    assert sample.outer_words[-1] == last


def test_draws__depend_on_their_number_alone():
    sampler = Sampler(Nest(MapSpace(encode(load_architecture("simba"), load_workload("conv").layers[0]))))
    together = draw(sampler, range(50))
    for alone in (7, 31):
        one = draw(sampler, [alone])
        for many, single in zip(together, one, strict=True):
            np.testing.assert_array_equal(many[alone], single[0])


def test_outermost_tiles__are_drawn_in_their_shares():
    sampler = Sampler(Nest(MapSpace(encode(load_architecture("eyeriss"), load_workload("conv").layers[0]))))
    ways = sampler.ways.outer_ways
    batch = draw(sampler, range(4000))

    inside = sampler.nest.space.encoded.constants.bounds // batch.temporal[:, 0]
    number = np.zeros(4000, np.int64)
    for d, sizes in enumerate(sampler.nest.sizes):
        number = number * len(sizes) + np.searchsorted(sizes, inside[:, d])
    most = np.argsort(-ways)[:20]
    times = np.array([(number == tile).sum() for tile in most])
    expected = 4000 * ways[most] / ways.sum()
    assert (np.abs(times - expected) <= 5 * np.sqrt(expected) + 1).all()
    assert (ways[number] > 0).all()
