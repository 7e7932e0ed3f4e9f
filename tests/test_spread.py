"""The command `spread`: what it prints and writes, for one layer and for several, and how it ends."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rich.console import Console

from accelsim import census, load_architecture, load_workload
from accelsim.constraints import Constraints
from accelsim.errors import AccelsimError, NoValidMapping
from accelsim.report.census import census_sentence, print_census

QUICK = ("--samples", "500", "--quiet")


@pytest.fixture(scope="module")
def gemm():
    return census(load_architecture("two_level"), load_workload("gemm").layers[0], samples=2000)


def test_one_layer__a_sentence_and_tables(run):
    code, out, err = run("spread", "two_level", "gemm", *QUICK)

    assert code == 0
    assert err == ""
    text = " ".join(out.split())
    assert "35,632 valid mappings; energy spread" in text
    assert "16 optimal; 16 within 1 %" in text
    assert "The mean energy is exact" in text
    assert "Smallest values are proved." in out
    assert "quantiles estimated from 500 mappings drawn uniformly, seed 0" in out


def test_json__has_the_same_numbers_and_the_same_bytes(run, tmp_path, gemm):
    first, again = (
        run("spread", "two_level", "gemm", "--json", "--samples", "2000", "--workers", n)[1] for n in (1, 2)
    )

    document = json.loads(first)
    assert first == again
    assert document["mappings"] == gemm.mappings == 35632
    assert document["ranges"]["energy"]["lowest"] == gemm.range_of("energy").lowest
    assert [near["mappings"] for near in document["near"]] == [near.mappings for near in gemm.near]
    low, value, high = (document["sample"]["estimates"]["energy"]["mean"][end] for end in ("low", "value", "high"))
    assert low < value < high


def test_output__writes_the_census(run, tmp_path):
    code, out, _ = run("spread", "two_level", "gemm", *QUICK, "-o", tmp_path / "out")

    assert code == 0
    assert "Written to" in out
    assert json.loads((tmp_path / "out" / "census.json").read_text())["mappings"] == 35632


def test_several__a_line_each(run):
    code, out, _ = run("spread", "two_level", "alexnet", *QUICK, "--seconds", "2")
    machines = run("spread", "two_level,eyeriss", "conv1d", *QUICK)[1]

    assert code == 0
    assert out.startswith("on two_level")
    assert all(f"\nconv{n} " in out for n in range(1, 6))
    assert "two_level" in machines
    assert "eyeriss" in machines


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("eyeriss,nix", "gemm"), 2, "nix: no such file"),
        (("eyeriss", "gemm", "--fully-used"), 1, "no valid mapping uses all compute units"),
        (("eyeriss", "vgg16", "--layer", "nix"), 2, "vgg16 has no layer 'nix'"),
        (("eyeriss", "gemm", "--samples", "0"), 2, "expected a whole number of at least 1"),
        (("eyeriss", "gemm", "--set", "glb=2 B"), 1, "valid"),
    ],
)
def test_bad_input__says_what_is_wrong(run, arguments, code, said):
    ended, _, err = run("spread", *arguments)

    assert (ended, said in err) == (code, True)


def test_stopped__says_at_least():
    found = census(load_architecture("eyeriss"), load_workload("conv").layers[0], samples=500, seconds=0.05)

    assert found.stop == "timeout"
    assert found.mappings == 4_069_157_795_296
    assert not all(near.complete for near in found.near)
    assert "at least" in census_sentence(found)
    assert [near.mappings for near in found.near] == sorted(near.mappings for near in found.near)


def test_sentence__calls_nothing_optimal_where_the_lowest_energy_is_not_proved():
    found = census(load_architecture("two_level"), load_workload("gemm").layers[0], samples=500)
    energy, *others = found.ranges
    assert energy.column == "energy"
    open_ended = replace(found, ranges=(replace(energy, lowest_bound=0.9 * energy.lowest), *others))

    assert "; 16 optimal; 16 within 1 %;" in census_sentence(found)
    assert "; 16 as low as the best found; 16 within 1 % of it;" in census_sentence(open_ended)


def test_fully_used__counts_and_draws_these_alone():
    machine, layer = load_architecture("nvdla"), load_workload("gemm").layers[0]
    found = census(machine, layer, fully_used=True, samples=500, seconds=2)

    assert found.mappings == found.fully_used > 10**7
    assert (found.sample.units == machine.macs).all()
    assert found.sample.result(0).compute_used == machine.macs
    assert "that use all compute units" in census_sentence(found)


def test_utilization__is_refused():
    with pytest.raises(AccelsimError, match="leave min_utilization out"):
        census(load_architecture("two_level"), load_workload("gemm").layers[0], constraints=Constraints((), 0.5))


def test_wide_partial_sums__are_about():
    """A machine on which some mappings drawn have no room for partial sums."""
    from accelsim.model.encode import encode
    from tests.brute import truth
    from tests.problems import MOST, problem

    shown = 0
    for seed in range(400):
        machine, einsum, constraints = problem(seed)
        if not encode(machine, einsum).constants.two_widths[0] or constraints.min_utilization:
            continue
        found = truth(machine, einsum, constraints, MOST)
        if found is None or found.valid < 50:
            continue
        taken = census(machine, einsum, constraints=constraints, samples=2000, workers=1)
        assert not taken.exact
        assert taken.mappings == pytest.approx(found.valid, rel=0.2)
        console = Console(width=100, record=True, quiet=True)
        print_census(console, taken)
        assert census_sentence(taken).startswith("About ")
        shown += 1
        if shown == 3:
            break
    assert shown == 3


def test_no_valid_mapping__says_why():
    with pytest.raises(NoValidMapping, match="valid"):
        census(load_architecture("eyeriss", {"glb": "2 B"}), load_workload("gemm").layers[0])


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
    assert run("map", "two_level", "gemm", "--html", page, "--pareto", "energy,cycles")[0] == 2
