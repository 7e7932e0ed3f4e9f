"""Stratified samples against brute force: strata, what they say of the tail, and how often their intervals hold it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from accelsim import load_architecture, load_workload
from accelsim.inputs.errors import AccelsimError, NoValidMapping
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.population.intervals import gamma_quantile, weighted_share
from accelsim.population.sampling import Sampler
from accelsim.population.steps import Nest
from accelsim.population.tails import make_strata, sample_strata
from tests.brute import truth
from tests.problems import MOST, problem

SEEDS = 100


def known_spaces(least, most):
    """Random small map spaces with numbers of valid mappings in a range, and the truth about them."""
    for seed in range(400):
        machine, einsum, constraints = problem(seed)
        encoded = encode(machine, einsum)
        if encoded.constants.two_widths[0]:
            continue
        constraints = replace(constraints, min_utilization=0.0)
        found = truth(machine, einsum, constraints, MOST)
        if least <= found.valid <= most:
            try:
                yield MapSpace(encoded, constraints), found
            except NoValidMapping:
                continue


def test_strata__are_the_mappings_counted_and_none_falls_below_its_bound():
    looked = 0
    for space, found in known_spaces(200, 5000):
        strata = make_strata(Sampler(Nest(space)))
        whole = np.array([space.encoded.einsum.dims[dim] for dim in space.encoded.dims])
        inside = whole // found.batch.temporal[:, 0]
        number = np.zeros(found.valid, np.int64)
        for d, sizes in enumerate(strata.nest.sizes):
            number = number * len(sizes) + np.searchsorted(sizes, inside[:, d])
        place = {int(tile): at for at, tile in enumerate(strata.ways.outer)}
        stratum = np.searchsorted(strata.edges, [place[int(tile)] for tile in number], side="right") - 1

        np.testing.assert_allclose(strata.weight, np.bincount(stratum, minlength=len(strata.weight)) / found.valid)
        for h, bound in enumerate(strata.bound):
            assert (found.energy_pj[stratum >= h] >= bound * (1 - 1e-9)).all()
        looked += 1
        if looked == 12:
            break
    assert looked == 12


def test_tails__are_unbiased_and_intervals_cover_as_often_as_they_say():
    """95 % intervals of shares and quantiles hold the truth in at least 92 % of 100 samples, and the mean is right."""
    looked = 0
    for space, found in known_spaces(1000, 20000):
        energy = np.sort(found.energy_pj)
        strata = make_strata(Sampler(Nest(space)))
        if len(strata.weight) < 4:
            continue
        samples = [sample_strata(strata, 400, seed) for seed in range(SEEDS)]
        for share in (0.05, 0.003):
            limit = energy[math.ceil(share * found.valid) - 1]
            true = float((energy <= limit * (1 + 1e-9)).mean())
            shares = [sample.share(limit * (1 + 1e-9)) for sample in samples]
            values = np.array([found.value for found in shares])

            assert np.mean([i.low <= true * (1 + 1e-9) and true <= i.high * (1 + 1e-9) for i in shares]) >= 0.92
            assert abs(values.mean() - true) <= 4 * values.std() / math.sqrt(SEEDS) + 1e-12
            held = [i.low * (1 - 1e-9) <= limit <= i.high * (1 + 1e-9) for i in (s.quantile(share) for s in samples)]
            assert np.mean(held) >= 0.92
        looked += 1
        if looked == 2:
            break
    assert looked == 2


def test_tails__narrower_than_a_uniform_sample():
    """GEMM on Eyeriss: the interval of the share within 1.1 of the best, 20,000 draws each."""
    sampler = Sampler(Nest(MapSpace(encode(load_architecture("eyeriss"), load_workload("gemm").layers[0]))))
    limit = 1.1 * make_strata(sampler).bound[0]
    strata, uniform = sample_strata(make_strata(sampler), 20_000), sampler.sample(20_000)
    found, plain = strata.share(limit), uniform.share(uniform.energy_pj <= limit)

    assert found.low <= 6436 / 294_500_247 <= found.high
    assert found.high - found.low < 0.5 * (plain.high - plain.low)
    assert strata.result(3).energy_pj == pytest.approx(strata.energy_pj[3], rel=1e-12)
    again = sample_strata(strata.strata, 20_000, workers=2)
    np.testing.assert_array_equal(again.energy_pj, strata.energy_pj)


@pytest.mark.parametrize("shape", [1e-3, 0.3, 1.0, 5.0, 60.0, 199.0, 201.0, 5000.0])
def test_gamma_quantiles__are_those_of_scipy(shape):
    for share in (0.025, 0.5, 0.975):
        expected = stats.gamma.ppf(share, shape)
        assert gamma_quantile(shape, share) == pytest.approx(expected, rel=1e-4, abs=1e-12)


def test_weighted_share__of_equal_weights_is_the_exact_poisson_interval():
    """7 hits of weight 0.01: chi-square quantiles with 14 and 16 degrees of freedom, halved (Garwood, 1936)."""
    found = weighted_share(np.array([3, 4]), np.array([0.01, 0.01]), 0.01)
    assert found.value == pytest.approx(0.07)
    assert found.low == pytest.approx(0.01 * stats.chi2.ppf(0.025, 14) / 2, rel=1e-6)
    assert found.high == pytest.approx(0.01 * stats.chi2.ppf(0.975, 16) / 2, rel=1e-6)


def test_bad_plans__are_refused():
    space = MapSpace(encode(load_architecture("two_level"), load_workload("gemm").layers[0]))
    strata = make_strata(Sampler(Nest(space)))
    with pytest.raises(AccelsimError, match=r"between 0 and 1, got \[0\.1, 1\.5\]"):
        sample_strata(strata, 1000, tails=(0.1, 1.5))
    with pytest.raises(AccelsimError, match="2 draws are too few for"):
        sample_strata(strata, 2)
