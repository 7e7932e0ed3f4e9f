"""All valid mappings of a small map space, against brute force, and where a census evaluates all instead of drawing."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from accelsim import census, load_architecture, load_workload, map_einsum
from accelsim.inputs.errors import AccelsimError, NoValidMapping
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.population.sampling import Sampler
from accelsim.population.steps import Nest
from accelsim.show.html.summary import estimated_figures, quantile_table
from accelsim.show.plots.census import histogram_table, marks_table, plot_histogram, plot_within, within_table
from accelsim.show.report.census import census_report
from accelsim.show.table import print_parts
from tests.brute import identity, truth
from tests.problems import MOST, problem

LAYER = load_workload("conv1d").layers[0]


@pytest.mark.parametrize("fully_used", [False, True])
def test_all_mappings__equal_brute_force(fully_used):
    """Each once, with the same energy, cycles and outer words, and found again by its number."""
    looked = 0
    for seed in range(60):
        machine, einsum, constraints = problem(seed)
        constraints = replace(constraints, min_utilization=0.0)
        encoded = encode(machine, einsum)
        found = None if encoded.constants.two_widths[0] else truth(machine, einsum, constraints, MOST)
        if found is None or not found.valid:
            continue
        units = np.asarray((found.batch.x * found.batch.y).prod(axis=(1, 2)))
        chosen = np.flatnonzero(units == machine.macs) if fully_used else np.arange(found.valid)
        try:
            every = Sampler(Nest(MapSpace(encoded, constraints), fully_used=fully_used)).every(len(chosen))
        except NoValidMapping:
            assert not len(chosen)
            continue
        columns = (found.energy_pj, found.cycles, found.outer_words, units)
        for values, expected in zip(
            (every.energy_pj, every.cycles, every.outer_words, every.units), columns, strict=True
        ):
            np.testing.assert_allclose(np.sort(values), np.sort(expected[chosen]), rtol=1e-9)
        for index in {0, len(chosen) // 2, len(chosen) - 1}:
            assert every.result(index).energy_pj == pytest.approx(every.energy_pj[index], rel=1e-12)
        if len(chosen) <= 300:
            assert len({identity(every.mapping(index)) for index in range(len(chosen))}) == len(chosen)
            looked += 1
    assert looked > 5


@pytest.mark.parametrize("objective", ["energy", "cycles", "edp"])
@pytest.mark.parametrize("asked", [{"top": 3}, {"within": 0.0}])
def test_lists__begin_with_the_mapping_found_without_a_list(objective, asked):
    """Of 16 mappings of equal energy, and of more that are equally fast."""
    machine, layer = load_architecture("two_level"), load_workload("gemm").layers[0]
    alone = map_einsum(machine, layer, objective=objective, workers=1)
    found = map_einsum(machine, layer, objective=objective, workers=1, **asked)
    mappings = [result.mapping for result in found.ranked]

    assert found.best is found.ranked[0]
    assert mappings[0] == alone.best.mapping
    assert len(set(mappings)) == len(mappings) == min(found.within[1] if found.within else 3, 1000)


@pytest.fixture(scope="module")
def small():
    """All 218 valid mappings of a one-dimensional convolution on Eyeriss."""
    return census(load_architecture("eyeriss"), LAYER, samples=100, seconds=60)


def test_small_spaces__are_evaluated_and_not_drawn(small):
    few = census(load_architecture("eyeriss"), LAYER, samples=10, seconds=60)
    energy = np.sort(small.sample.energy_pj)

    assert small.sample.complete
    assert len(small.sample) == small.mappings == 218
    assert not few.sample.complete  # 218 are more than ten times as many
    assert small.range_of("energy").lowest == energy[0]
    assert small.range_of("energy").highest == energy[-1]
    assert small.sample.mean("cycles").value == small.sample.cycles.mean()
    median = small.sample.quantile("energy", 0.5)
    assert median.low == median.value == median.high == energy[108]
    assert small.near[1].mappings == (energy <= 1.01 * energy[0]).sum()
    deviation = small.sample.deviation("energy")
    assert deviation.low == deviation.value == deviation.high == pytest.approx(energy.std(), rel=1e-12)


def test_reports_and_plots__say_exact_or_sampled(small):
    drawn = census(load_architecture("eyeriss"), LAYER, samples=10, seconds=60)
    for found, said, left_out in (
        (small, "exact: all 218 valid mappings were evaluated", "95 %"),
        (drawn, "estimated from 10 mappings drawn uniformly", "evaluated"),
    ):
        page = io.StringIO()
        print_parts(Console(width=120, file=page), census_report(found))
        text = page.getvalue()
        assert said in text
        assert left_out not in text
    assert "Exact: all 218 valid mappings were evaluated" in estimated_figures(small)
    assert "95 %" not in estimated_figures(small) + quantile_table(small)
    assert "exact: all evaluated" in plot_histogram(small).get_title(loc="left")
    assert all(row["exact"] for row in within_table(small))
    assert not plot_within(small).collections  # no band
    assert all(row["low"] == row["high"] for row in marks_table(small))
    assert [row["share"] * 218 for row in histogram_table(small)] == pytest.approx(
        [row["sampled"] for row in histogram_table(small)]
    )


def test_lists__of_more_mappings_than_fit_memory_are_refused():
    with pytest.raises(AccelsimError, match="too many to list; ask for at most 100,000"):
        map_einsum(load_architecture("two_level"), load_workload("gemm").layers[0], top=10**7)
