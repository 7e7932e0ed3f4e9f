"""Uniform draws from large map spaces, against the cost model that every other command runs, and exact counts."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim import load_architecture, load_workload
from accelsim.mapspace.space import MapSpace
from accelsim.model.detail import PARTIAL, READS, make_detail
from accelsim.model.encode import Batch, encode
from accelsim.model.kernel import VALID, evaluate_many
from accelsim.population.counting import Keeping, Nest, count_by_keep, count_mappings
from accelsim.population.sampling import TOGETHER, Sampler
from tests.brute import identity

DRAWS = 2000


def sampler_of(machine):
    """Draws from the map space of VGG-16 conv3_2."""
    return Sampler(Nest(MapSpace(encode(load_architecture(machine), load_workload("conv").layers[0]))))


@pytest.mark.parametrize("machine", ["two_level", "eyeriss", "systolic", "nvdla_1024", "simba", "gpu_sm"])
def test_samples__cost_what_the_cost_model_says(machine):
    """VGG-16 conv3_2: energy and cycles to the last bit, and each mapping drawn is valid and whole."""
    sampler = sampler_of(machine)
    sample = sampler.sample(DRAWS, seed=5)
    encoded = sampler.nest.space.encoded
    batch = Batch(*(array[:DRAWS] for array in sampler.draw(5, 0)))
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
    assert sample.offchip_words[-1] == last


def test_draws__depend_on_their_number_alone():
    """Also beyond those that are drawn together."""
    sampler = sampler_of("simba")
    few, many = sampler.sample(50, seed=5), sampler.sample(TOGETHER + 50, seed=5, workers=2)
    np.testing.assert_array_equal(few.energy_pj, many.energy_pj[:50])
    for index in (TOGETHER + 7, 31, TOGETHER + 8):
        assert many.result(index).energy_pj == pytest.approx(many.energy_pj[index], rel=1e-12)
    assert identity(sampler.mapping(5, 31)) == identity(many.mapping(31)) != identity(sampler.mapping(6, 31))


@pytest.mark.parametrize("machine", ["eyeriss", "nvdla_1024", "simba", "gpu_sm"])
def test_draws__have_the_shares_that_are_counted(machine):
    """By what levels keep, and of mappings that use all compute units: each within five standard deviations."""
    sampler, draws = sampler_of(machine), 20_000
    nest, sample = sampler.nest, sampler.sample(draws, seed=1)
    mappings, levels = count_mappings(nest), {s.level: s.keeps for s in nest.steps if isinstance(s, Keeping)}
    kept = sample.kept()
    shares = {}
    for chosen, many in count_by_keep(nest):
        wanted = np.array([levels[level][k] for level, k in enumerate(chosen)])
        shares[chosen] = many / mappings, float((kept == wanted).all(axis=(1, 2)).mean())
    full = count_mappings(Nest(nest.space, fully_used=True)) / mappings
    batches = [sampler.draw(1, number) for number in range(-(-draws // TOGETHER))]
    units = np.concatenate([(batch.x * batch.y).prod(axis=(1, 2)) for batch in batches])[:draws]
    shares["full"] = full, float((units == nest.space.encoded.architecture.macs).mean())
    for counted, drawn in shares.values():
        assert abs(drawn - counted) <= 5 * np.sqrt(counted * (1 - counted) / draws) + 1 / draws
    assert sum(drawn for _, drawn in shares.values()) - shares["full"][1] == pytest.approx(1)


def test_draws__list_no_factorisations():
    """6e9 has 400 million of them on this machine."""
    layer = load_workload({"workload": {"name": "long", "gemm": {"M": 6_000_000_000, "N": 3, "K": 4}}}).layers[0]
    space = MapSpace(encode(load_architecture("eyeriss_v2"), layer))
    Sampler(Nest(space)).draw(0, 0)
    assert "rows" not in vars(space)
