"""Figures of a spread: rows against what is known of all valid mappings, and equal bytes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from reports import a_stopped_spread

from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload_reader import load_workload
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.model.evaluate import evaluate
from accelsim.population.result import Near
from accelsim.population.spread import spread
from accelsim.show.plots import at_width, figure_bytes
from accelsim.show.plots.result import plot_stacks, stacks_table
from accelsim.show.plots.spread import (
    best_median_worst,
    compare_table,
    density_table,
    front_over_table,
    histogram_table,
    marks_table,
    plot_compare,
    plot_density,
    plot_histogram,
    plot_within,
    within_table,
)


@pytest.fixture(scope="module")
def small():
    """All 218 valid mappings of a one-dimensional convolution on Eyeriss, drawn 5,000 times."""
    return spread(load_architecture("eyeriss"), load_workload("conv1d").layers[0], samples=5000, seconds=60)


@pytest.fixture(scope="module")
def large():
    layer = replace(load_workload("gemm").layers[0], name="gemm_32_48_64", dims={"M": 32, "N": 48, "K": 64})
    return spread(load_architecture("eyeriss"), layer, samples=2000)


@pytest.fixture(scope="module")
def exhaustive():
    """Energies [pJ/MAC] of all valid mappings of the small map space."""
    machine, layer = load_architecture("eyeriss"), load_workload("conv1d").layers[0]
    space = MapSpace(encode(machine, layer))
    results = [evaluate(machine, layer, space.mapping_at(index)) for index in range(space.size)]
    return np.array([result.pj_per_mac for result in results if result.valid])


def one_mapping():
    """A map space of one energy."""
    layer = replace(load_workload("gemm").layers[0], name="gemm_1_1_1", dims={"M": 1, "N": 1, "K": 1})
    found = spread(load_architecture("two_level"), layer, samples=50)
    best = found.range_of("energy")
    alike = replace(best, highest=best.lowest, highest_mapping=best.lowest_mapping)
    same = replace(found.sample, energy_pj=np.full(len(found.sample), best.lowest))
    return replace(found, ranges=(alike, *found.ranges[1:]), sample=same)


def test_histogram_table__holds_all_mappings_drawn_between_the_optimum_and_the_highest(large):
    rows = histogram_table(large)
    assert sum(row["sampled"] for row in rows) == len(large.sample)
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert all(row["share_low"] <= row["share"] + 1e-12 <= row["share_high"] + 2e-12 for row in rows)
    assert all(a["to_pj_per_mac"] == b["from_pj_per_mac"] for a, b in itertools.pairwise(rows))
    assert rows[0]["from_pj_per_mac"] == pytest.approx(large.best.pj_per_mac)
    assert rows[-1]["to_pj_per_mac"] == pytest.approx(large.range_of("energy").highest / large.macs)


def test_histogram_table__its_bands_hold_what_an_exhaustive_search_counts(small, exhaustive):
    """Of 40 intervals with 95 % confidence some two may miss."""
    assert len(exhaustive) == small.mappings
    missed = 0
    for row in histogram_table(small, 40):
        true = np.mean((exhaustive >= row["from_pj_per_mac"]) & (exhaustive < row["to_pj_per_mac"]))
        missed += not row["share_low"] - 1e-3 <= true <= row["share_high"] + 1e-3
    assert missed <= 4


def test_within_table__its_bands_hold_what_an_exhaustive_search_counts(small, exhaustive):
    for row in within_table(small, 20):
        counted = np.mean(exhaustive <= exhaustive.min() * row["factor"] * (1 + 1e-9))
        assert row["share_low"] - 0.03 <= counted <= row["share_high"] + 0.03
    assert within_table(small)[-1]["share"] == 1


def test_within_table__what_was_counted_is_exact(large):
    near = (Near(0.01, 12, True), Near(0.05, 99, False))
    first, second = within_table(replace(large, near=near))[:2]  # fewer than all were counted within 5 %
    assert first == {
        "factor": 1.01, "share": 12 / large.mappings, "share_low": 12 / large.mappings,
        "share_high": 12 / large.mappings, "exact": True,
    }  # fmt: skip
    assert not second["exact"]


def test_marks_table__optimum_median_mean_and_highest_are_in_order(large):
    optimum, median, mean, highest = marks_table(large)
    assert optimum["pj_per_mac"] == large.best.pj_per_mac
    assert median["low"] <= median["pj_per_mac"] <= median["high"]
    assert optimum["pj_per_mac"] < median["pj_per_mac"] < highest["pj_per_mac"]
    assert mean["pj_per_mac"] == pytest.approx(large.sample.mean("energy").value / large.macs)
    assert mean["low"] < mean["pj_per_mac"] < mean["high"]


def test_plot_histogram__says_what_is_near_the_optimum(large):
    said = plot_histogram(replace(large, near=(Near(0.01, 12, True), Near(0.05, 99, True)))).get_legend().get_texts()
    assert "12 within 1 %" in [text.get_text() for text in said]
    said = plot_histogram(replace(large, near=(Near(0.01, 12, False),))).get_legend().get_texts()
    assert "at least 12 within 1 %" in [text.get_text() for text in said]


@pytest.mark.parametrize("over", ["cycles", "offchip_words", "utilization"])
def test_density_table__cells_hold_all_mappings_drawn(large, over):
    rows = density_table(large, over)
    assert sum(row["sampled"] for row in rows) == len(large.sample)
    values = large.sample.values(over)
    assert min(row[f"from_{over}"] for row in rows) <= values.min()
    assert max(row[f"to_{over}"] for row in rows) >= values.max()


def test_front_over_table__is_the_front_and_utilization_is_a_constant_over_cycles(small):
    cycles, utilization = front_over_table(small), front_over_table(small, "utilization")
    assert [(row["cycles"], row["pj_per_mac"]) for row in cycles] == [
        (p.cycles, p.pj_per_mac) for p in small.front.points
    ]
    products = {round(a["cycles"] * b["utilization"], 9) for a, b in zip(cycles, utilization, strict=True)}
    assert len(products) == 1


def test_front_over_table__counts_offchip_words_as_the_sample_does(large):
    found = large.range_of("offchip_words")
    for number in range(5):
        drawn = replace(found, lowest_mapping=large.sample.result(number))
        ranges = tuple(drawn if own.column == "offchip_words" else own for own in large.ranges)
        rows = front_over_table(replace(large, ranges=ranges), "offchip_words")
        assert rows[1]["offchip_words"] == large.sample.offchip_words[number]


def test_plot_density__no_mapping_lies_below_the_front(large):
    front = front_over_table(large)
    for energy, cycles in zip(large.sample.energy_pj / large.macs, large.sample.cycles, strict=True):
        assert any(row["cycles"] <= cycles and row["pj_per_mac"] <= energy * (1 + 1e-9) for row in front)


def test_plot_density__a_front_that_is_not_complete_is_no_line(large):
    stopped, found = plot_density(a_stopped_spread()), plot_density(large)
    said = [text.get_text() for text in stopped.get_legend().get_texts()]

    assert said == ["best known; the Pareto front is not complete"]
    assert (len(stopped.lines), len(found.lines)) == (0, 1)
    points = {(row["cycles"], row["pj_per_mac"]) for row in front_over_table(a_stopped_spread())}
    (dots,) = (each for each in stopped.collections if each.get_label() == said[0])
    assert {tuple(at) for at in dots.get_offsets().tolist()} == points


def test_plots__call_no_value_optimal_that_is_not_proved(large):
    stopped = a_stopped_spread()
    assert [marks_table(found)[0]["mark"] for found in (stopped, large)] == ["lowest known", "optimum (even)"]
    assert next(iter(best_median_worst(stopped))) == "best known"
    assert plot_within(stopped).get_xlabel() == "energy / lowest energy known"
    assert marks_table(stopped)[0]["pj_per_mac"] <= stopped.sample.energy_pj.min() / stopped.macs * (1 + 1e-9)


@pytest.mark.parametrize("width", [3.4, 6.4])
def test_plot_within__has_ticks_at_round_factors(large, width):
    ax = at_width(lambda axes: plot_within(large, axes), width)
    low, high = ax.get_xlim()
    labels = [ax.xaxis.get_major_formatter()(at) for at in ax.xaxis.get_majorticklocs() if low <= at <= high]
    assert {"1.01", "1.1", "2", "10"} <= set(labels) <= {"1.001", "1.01", "1.1", "2", "10", "100", "1,000"}


def test_plot_density__an_unknown_column_is_named(large):
    with pytest.raises(AccelsimError, match="cycles, offchip_words, utilization, not over 'area'"):
        plot_density(large, "area")


@pytest.mark.parametrize("table", [histogram_table, within_table, density_table])
def test_tables__energies_of_zero_are_refused(small, table):
    nothing = replace(small.range_of("energy"), lowest=0.0)
    with pytest.raises(AccelsimError, match="mappings of 0 pJ"):
        table(replace(small, ranges=(nothing, *small.ranges[1:])))


def test_stacks_table__is_that_of_each_mapping(large):
    results = best_median_worst(large)
    rows = stacks_table(results)
    for name, result in results.items():
        assert sum(row["pj_per_mac"] for row in rows if row["mapping"] == name) == pytest.approx(result.pj_per_mac)
    best, median, worst = (result.pj_per_mac for result in results.values())
    assert best == large.best.pj_per_mac
    assert median == pytest.approx(large.sample.quantile("energy", 0.5).value / large.macs)
    assert worst == large.range_of("energy").highest / large.macs


def test_compare_table__names_what_differs(small, large):
    rows = compare_table([small, large])
    assert [row["name"] for row in rows] == ["conv1d", "gemm_32_48_64"]
    assert [row["mappings"] for row in rows] == [small.mappings, large.mappings]
    for row in rows:
        marks = [row[key] for key in ("lowest", "p5", "p25", "p50", "p75", "p95", "highest")]
        assert marks == sorted(marks)


PLOTS = {
    "histogram": plot_histogram,
    "within": plot_within,
    "cycles": lambda found, ax=None: plot_density(found, "cycles", ax),
    "offchip_words": lambda found, ax=None: plot_density(found, "offchip_words", ax),
    "utilization": lambda found, ax=None: plot_density(found, "utilization", ax),
    "stacks": lambda found, ax=None: plot_stacks(best_median_worst(found), ax),
    "compare": lambda found, ax=None: plot_compare([found, found], ax),
}


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_plots__equal_bytes_for_equal_input(small, plot):
    again = spread(load_architecture("eyeriss"), load_workload("conv1d").layers[0], samples=5000, seconds=60, workers=2)
    assert figure_bytes(plot(small)) == figure_bytes(plot(again))


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_plots__one_energy_and_one_column_wide(plot):
    found = one_mapping()
    assert figure_bytes(at_width(lambda ax: plot(found, ax), 3.4))["png"][:4] == b"\x89PNG"
