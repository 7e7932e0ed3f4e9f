"""The command `plot`: each kind draws its picture, and mistakes end with a sentence."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import pytest
from reports import row_stationary

from accelsim.cli import arguments
from accelsim.cli import main as cli
from accelsim.search.stopping import Budget
from accelsim.show.plots.diagram import mapping_table

FEW = ("--samples", "300")
NAMES = {"architecture": "architecture_eyeriss", "density": "density_cycles_eyeriss_conv1d"}


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Run a command in an empty folder: its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str):
        code = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return code, captured.out, captured.err

    return call


@pytest.mark.parametrize("kind", arguments.TABLES["PLOTS"])
def test_plot__each_kind_writes_one_picture_here_and_says_where(run, tmp_path, kind):
    name = NAMES.get(kind, f"{kind}_eyeriss_conv1d")
    assert run("plot", kind, "eyeriss", "conv1d", *FEW) == (0, f"Written to {name}.png\n", "")
    (path,) = tmp_path.iterdir()
    assert (path.name, path.read_bytes()[:4]) == (f"{name}.png", b"\x89PNG")


def test_plot__a_folder_gets_both_formats_and_a_file_its_own(run, tmp_path):
    assert run("plot", "energy", "eyeriss", "conv1d", "-o", "out")[0] == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("energy_eyeriss_conv1d.png", "energy_eyeriss_conv1d.svg")
    ]
    assert run("plot", "energy", "eyeriss", "conv1d", "-o", "fig/one.SVG")[0] == 0
    assert (tmp_path / "fig" / "one.SVG").read_bytes() == (tmp_path / "out" / "energy_eyeriss_conv1d.svg").read_bytes()


def test_plot__width_is_that_of_the_picture(run, tmp_path):
    run("plot", "energy", "eyeriss", "conv1d", "--width", "3.5", "-o", "narrow.svg")
    assert 'width="252pt"' in (tmp_path / "narrow.svg").read_text()


def test_plot__a_given_mapping(run):
    given = ("eyeriss", "conv", "--mapping", "eyeriss_row_stationary", "--json")
    code, out, _ = run("plot", "mapping", *given)
    _, _, result = row_stationary()
    assert (code, json.loads(out)["rows"]) == (0, mapping_table(result))


def test_plot__a_given_mapping_that_is_not_valid_ends_with_1(run):
    given = ("eyeriss", "conv", "--mapping", "eyeriss_row_stationary", "--set", "pe.x=2")
    code, out, err = run("plot", "mapping", *given)
    assert (code, out) == (1, "")
    assert "not valid: GLB spreads over" in err


def test_plot__json_holds_the_rows_and_a_picture_only_where_asked_for(run, tmp_path):
    code, out, err = run("plot", "hist", "eyeriss", "conv1d", *FEW, "--json")
    document = json.loads(out)
    assert (code, err, document["kind"], document["files"]) == (0, "", "hist", [])
    assert sum(row["sampled"] for row in document["rows"]) == 300
    assert list(tmp_path.iterdir()) == []
    document = json.loads(run("plot", "hist", "eyeriss", "conv1d", *FEW, "--json", "-o", "a.png")[1])
    assert document["files"] == ["a.png"]


def test_plot__the_same_seed_draws_the_same_picture(run, tmp_path):
    for name in ("a.svg", "b.svg"):
        run("plot", "cdf", "eyeriss", "conv1d", *FEW, "--seed", "3", "-o", name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize("kind", ["mapping", "energy", "reuse"])
def test_plot__draws_the_mapping_that_map_writes(run, tmp_path, kind, monkeypatch):
    """Of 12 mappings of least energy the same one, also where `map` found it earlier and it was kept."""
    code, _, _ = run("map", "eyeriss", "gemm", "--quiet", "-o", "found")
    assert code == 0
    drawn, given = (
        json.loads(run("plot", kind, "eyeriss", "gemm", "--json", *more)[1])["rows"]
        for more in ((), ("--mapping", "found/mapping.yaml"))
    )
    assert drawn == given
    monkeypatch.setattr("accelsim.search.mapper.map_einsum", lambda *_, **__: pytest.fail("the answer was kept"))
    assert json.loads(run("plot", kind, "eyeriss", "gemm", "--json")[1])["rows"] == drawn


@pytest.mark.parametrize(
    ("kind", "search"),
    [("cycles", "map_with_cache"), ("network", "map_with_cache"), ("front", "map_front"), ("hist", "spread")],
)
def test_plot__stops_its_search_when_it_is_told_to(run, monkeypatch, kind, search):
    given: list[Any] = []
    module = import_module(
        {"map_front": "accelsim.search.exact.front", "spread": "accelsim.population.spread"}.get(
            search, "accelsim.api.layers"
        )
    )
    known = getattr(module, search)

    def noted(*arguments: object, **options: object) -> object:
        given.append(options["seconds"] if search == "spread" else options["budget"])
        return known(*arguments, **options)

    monkeypatch.setattr(module, search, noted)
    assert run("plot", kind, "eyeriss", "conv1d", *FEW, "--time-limit", "2.5")[0] == 0
    first, *parts = given
    assert first == (2.5 if search == "spread" else Budget(seconds=2.5))
    assert [0 < part.seconds <= 1.25 for part in parts] == [True] * (search == "map_front")


def test_plot__says_that_a_mapping_is_not_proved_optimal(run, tmp_path):
    (tmp_path / "large.yaml").write_text("workload: {name: large, gemm: {M: 4096, N: 8192, K: 28672}}")
    code, _, said = run("plot", "energy", "gpu_sm", "large.yaml", "--time-limit", "0.001", "--no-cache")
    assert (code, said.startswith("large: the mapping drawn is ")) == (0, True)
    assert "optimal (proved)" not in said


def test_plot__spreads_takes_several_architectures_and_layers(run):
    code, out, _ = run("plot", "spreads", "eyeriss,two_level", "conv1d", *FEW, "--json", "--set", "buffer=32 B")
    assert code == 0
    assert [row["name"] for row in json.loads(out)["rows"]] == ["eyeriss", "two_level"]
    code, out, _ = run("plot", "spreads", "eyeriss,two_level", "conv1d", *FEW)
    assert (code, out) == (0, "Written to spreads_2_architectures_conv1d.png\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("energy", "eyeriss"), "`accelsim plot energy` needs a WORKLOAD beside ARCH"),
        (("energi", "eyeriss", "conv1d"), "did you mean 'energy'?"),
        (("energy", "eyeriss", "conv1d", "-o", "a.pdf"), "a.pdf: a picture is a .png or a .svg file"),
        (("energy", "eyeriss", "vgg16"), "say which with layer (--layer)"),
        (("energy", "eyeriss", "conv1d", "--over", "cycles"), "--over is for `accelsim plot density`"),
        (("hist", "eyeriss", "conv1d", "--mapping", "m.yaml"), "--mapping is for `accelsim plot energy`"),
        (("energy", "eyeriss", "conv1d", "--width", "0"), "expected a width of 2 to 40 inches, got '0'"),
        (("spreads", "eyeriss,", "conv1d"), "expected names with a comma between them, got 'eyeriss,'"),
        (("spreads", "eyeriss", "vgg16", "--layer", "conv1_1,conv9"), "has no layer 'conv9'"),
        (("spreads", "eyeriss,nvdla", "conv1d", "--set", "bufer=3"), "bufer: no file defines this parameter"),
        (("architecture", "eyeris"), "did you mean 'eyeriss'?"),
        (("compare", "eyeriss", "conv1d"), "it is `spreads` now"),
        (("time", "eyeriss", "conv1d"), "it is `cycles` now"),
    ],
)
def test_plot__mistakes_end_with_a_sentence(run, tmp_path, arguments, said):
    code, out, err = run("plot", *arguments)
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())
    assert list(tmp_path.iterdir()) == []


def test_plot__an_architecture_needs_no_workload(run):
    assert run("plot", "architecture", "simba") == (0, "Written to architecture_simba.png\n", "")
