"""The command `spread`: what it prints and writes, for one layer and for several, and how it ends."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from reports import a_stopped_spread, all_loops_outside
from rich.console import Console

from accelsim import load_architecture, load_workload
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.objective import QUANTITIES
from accelsim.population.result import Spread
from accelsim.population.spread import spread
from accelsim.results.cache import MapOptions, ResultCache, map_with_cache
from accelsim.search.result import column_value
from accelsim.show.report.search import spread_report, spread_sentence
from accelsim.show.table import print_parts
from tests.brute import truth
from tests.problems import MOST, problem

narrow = partial(MapOptions, uneven=False, imperfect=())
"""Options of a search among even mappings with perfect factors, the quickest."""

QUICK = ("--samples", "500", "--quiet")


@pytest.fixture(scope="module")
def gemm():
    return spread(load_architecture("two_level"), load_workload("gemm").layers[0], samples=2000)


def printed(found: Spread) -> str:
    """The report on a spread."""
    page = io.StringIO()
    print_parts(Console(width=200, file=page), spread_report(found))
    return page.getvalue()


def test_one_layer__a_sentence_and_tables(run):
    code, out, err = run("spread", "two_level", "gemm", *QUICK)

    assert code == 0
    assert err == ""
    text = " ".join(out.split())
    assert "35,632 valid even mappings energy best 110.6 mJ, median" in text
    assert "16 at the optimum (1 in 2,227), 16 within 1 %" in text
    assert "95 % intervals" not in text
    assert "95 % intervals of the energy: median" in run("spread", "two_level", "gemm", *QUICK, "--verbose")[1]
    assert "Smallest values are proved among even mappings." in out
    assert "quantiles estimated from 500 mappings drawn uniformly, seed 0" in out


def test_json__has_the_same_numbers_and_the_same_bytes(run, tmp_path, gemm):
    first, again = (run("spread", "two_level", "gemm", "--json", "--samples", "2000", "--jobs", n)[1] for n in (1, 2))

    document = json.loads(first)
    assert first == again
    assert document["mappings"] == gemm.mappings == 35632
    assert document["ranges"]["energy"]["lowest"] == gemm.range_of("energy").lowest
    assert [near["mappings"] for near in document["near"]] == [near.mappings for near in gemm.near]
    low, value, high = (document["sample"]["estimates"]["energy"]["mean"][end] for end in ("low", "value", "high"))
    assert low < value < high


def test_output__writes_the_spread(run, tmp_path):
    code, out, _ = run("spread", "two_level", "gemm", *QUICK, "-o", tmp_path / "out")

    assert code == 0
    assert "Written to" in out
    assert json.loads((tmp_path / "out" / "spread.json").read_text())["mappings"] == 35632


def test_csv__has_the_numbers_of_the_json(run, tmp_path):
    code, out, _ = run("spread", "two_level", "gemm", *QUICK, "--json", "--csv", tmp_path / "out")

    assert code == 0
    document = json.loads(out)
    texts = [(tmp_path / "out" / f"{name}.csv").read_text(encoding="utf-8") for name in ("spread", "keep")]
    ranges, keeps = (list(csv.DictReader(io.StringIO(text))) for text in texts)
    for row in ranges:
        told, estimates = document["ranges"][row["column"]], document["sample"]["estimates"][row["column"]]
        assert [float(row["lowest"]), float(row["highest"])] == [told["lowest"], told["highest"]]
        assert float(row["median"]) == estimates["quantiles"]["0.5"]["value"]
        assert float(row["mean"]) == estimates["mean"]["value"]
    assert [row["column"] for row in ranges] == list(document["ranges"])
    listed = [(row["keep_BUF"].split(), int(row["mappings"])) for row in keeps]
    assert listed == [(each["keep"][1], each["mappings"]) for each in document["by_keep"]]
    assert sum(mappings for _, mappings in listed) == document["mappings"]


def test_several__a_line_each(run):
    code, out, _ = run("spread", "two_level", "alexnet", *QUICK, "--time-limit", "0.5")
    machines = run("spread", "two_level,eyeriss", "conv1d", *QUICK)[1]

    assert code == 0
    assert out.startswith("All mappings on two_level\n")
    assert all(f"\nconv{n} " in out for n in range(1, 6))
    assert machines.startswith("All mappings of conv1d\n")
    assert "two_level" in machines
    assert "eyeriss" in machines


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("eyeriss,nix", "gemm"), 2, "nix: no such file"),
        (("eyeriss", "vgg16", "--layer", "nix"), 2, "vgg16 has no layer 'nix'"),
        (("eyeriss", "gemm", "--samples", "0"), 2, "expected a whole number of at least 1"),
        (("eyeriss", "gemm", "--set", "glb=2 B"), 1, "valid"),
    ],
)
def test_bad_input__says_what_is_wrong(run, arguments, code, said):
    ended, _, err = run("spread", *arguments)

    assert (ended, said in err) == (code, True)


def test_stopped__says_what_is_not_counted():
    found = spread(load_architecture("eyeriss"), load_workload("conv").layers[0], samples=500, seconds=0.05)

    assert found.stop == "timeout"
    assert found.mappings == 4_069_157_795_296
    assert not found.near or not all(near.complete for near in found.near)
    assert "at least" in printed(found) or "not counted" in printed(found)
    assert [near.mappings for near in found.near] == sorted(near.mappings for near in found.near)


def test_smallest_and_largest__are_of_all_mappings_known_though_a_search_found_worse():
    found, machine = a_stopped_spread(), load_architecture("eyeriss")
    worthless = all_loops_outside(machine, found.sample.sampler.nest.space.encoded.einsum)

    assert found.sample.energy_pj.min() < 0.5 * worthless.energy_pj
    for column in QUANTITIES:
        ends, drawn = found.range_of(column), found.sample.values(column)
        assert (
            ends.lowest
            == column_value(ends.lowest_mapping, column)
            <= drawn.min()
            <= found.sample.quantile(column, 0.01).value
        )
        assert drawn.max() <= ends.highest == column_value(ends.highest_mapping, column)
        # a search did not prove it; that each word of 32 x 64, 64 x 48 and 32 x 48 moves needs none
        assert ends.lowest_proved == (column == "offchip_words" and ends.lowest == 2048 + 3072 + 1536)


def test_close_to_the_lowest__is_not_counted_where_that_is_not_proved(run, monkeypatch):
    found = a_stopped_spread()
    text = printed(found)

    assert found.near == ()
    assert "optimum" not in text
    assert "within" not in text
    assert "near the best  not counted: the lowest energy is not proved" in text
    monkeypatch.setattr("accelsim.population.spread.spread", lambda *_, **__: found)
    document = json.loads(run("spread", "eyeriss", "gemm", "--json")[1])
    assert document["ranges"]["energy"]["lowest_proved"] is document["front_complete"] is False
    assert document["near"] == []


def test_a_front_that_is_not_complete__holds_the_best_of_all_mappings_known():
    found = a_stopped_spread()
    values, sample = np.array(found.front.values), found.sample

    assert found.front.stop == "timeout"
    assert values[0, 0] == found.range_of("energy").lowest
    assert values[-1, 1] == found.range_of("cycles").lowest
    for energy_pj, cycles in values:
        assert not ((sample.energy_pj <= energy_pj) & (sample.cycles < cycles)).any()


def test_lowest_values__are_taken_from_those_kept(tmp_path, monkeypatch):
    machine, layer = load_architecture("eyeriss"), load_workload("gemm").layers[0]
    cache = ResultCache(tmp_path)
    kept = {goal: map_with_cache(machine, layer, narrow(goal), cache).best for goal in QUANTITIES}
    monkeypatch.setattr("accelsim.search.mapper.map_einsum", lambda *_, **__: pytest.fail("the answer was kept"))
    found = spread(machine, layer, samples=500, seconds=1e-6, cache=cache)

    for goal, best in kept.items():
        assert found.range_of(goal).lowest_proved
        assert found.range_of(goal).lowest_mapping.mapping == best.mapping


def test_utilization__is_refused():
    with pytest.raises(AccelsimError, match="leave min_utilization and limits out"):
        spread(load_architecture("two_level"), load_workload("gemm").layers[0], constraints=Constraints((), 0.5))


@pytest.mark.parametrize("seed", [5, 36, 54])
def test_wide_partial_sums__are_about(seed):
    """A machine on which some mappings drawn have no room for partial sums: shares are of those that have."""
    machine, einsum, constraints = problem(seed)
    every = truth(machine, einsum, constraints, MOST)
    taken = spread(machine, einsum, constraints=constraints, samples=2000, workers=1)
    kept = {keeps: many / taken.mappings for keeps, many in taken.by_keep}
    names = [tensor.name for tensor in every.encoded.tensors]

    assert not taken.exact
    assert len(taken.sample) < taken.sample.drawn == taken.sample.asked == 2000
    assert f"estimated from {len(taken.sample):,} valid mappings of 2,000 drawn uniformly" in printed(taken)
    assert taken.mappings == pytest.approx(every.valid, rel=0.1)
    assert sum(kept.values()) == pytest.approx(1, abs=0.02)
    for keeps, share in kept.items():
        rows = np.array([[name in level for name in names] for level in keeps])
        assert share == pytest.approx((every.batch.keep == rows).all(axis=(1, 2)).mean(), abs=0.06)
    assert [near.mappings for near in taken.near] == [every.within(near.share) for near in taken.near]
    assert spread_sentence(taken).startswith("about ")


def test_choices_kept__those_not_listed_are_said_together(gemm):
    levels = frozenset({"Inputs"}), frozenset({"Weights"})
    many = replace(gemm, mappings=1000, by_keep=((levels, 100),) * 10)

    assert "and 2 more choices, together 200 mappings (20 %)" in printed(many)
    assert "and 1 more choice, together 100 mappings (10 %)" in printed(replace(many, by_keep=many.by_keep[1:]))
    assert "more choice" not in printed(gemm)


def test_no_valid_mapping__says_why():
    with pytest.raises(NoValidMappingError, match="valid"):
        spread(load_architecture("eyeriss", {"glb": "2 B"}), load_workload("gemm").layers[0])


def test_html__one_page_of_one_layer(run, tmp_path):
    page = tmp_path / "pages" / "gemm.html"
    code, out, _ = run("spread", "two_level", "gemm", *QUICK, "--html", page)

    assert code == 0
    assert "gemm.html" in "".join(out.split())
    assert "35,632" in page.read_text()
    assert run("spread", "two_level", "alexnet", "--html", page)[0] == 2
    assert "choose a layer with --layer" in run("spread", "two_level", "alexnet", "--html", page)[2]
    assert "this is a folder" in run("spread", "two_level", "gemm", "--html", tmp_path)[2]


def test_map_html__the_best_mapping(run, tmp_path):
    page = tmp_path / "map.html"

    assert run("map", "two_level", "gemm", "--html", page, "--quiet")[0] == 0
    assert "two_level" in page.read_text()
    assert run("map", "two_level", "gemm", "--html", page, "--pareto", "energy,cycles")[0] == 0
    assert "Pareto front" in page.read_text()
