"""The Python API: what is accepted, what results show, which mistakes are told, and how a callback stops a search."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import accelsim
from accelsim.api.asked import Asked
from accelsim.api.problem import constraints, params_of
from accelsim.cli.main import main
from tests.conftest import REPOSITORY
from tests.timeloop_files import PROBLEM, V04

SMALL = {"workload": {"name": "small", "gemm": {"M": 4, "N": 6, "K": 4}, "bits": 8}}
LAYERS = [{"name": name, "gemm": {"M": 4, "N": n, "K": 4}, "repeat": n // 2} for name, n in (("one", 6), ("two", 4))]
NETWORK = {"workload": {"name": "pair", "layers": LAYERS, "bits": 8}}
EVEN = {"mapspace": "even", "factors": "perfect"}


@pytest.fixture(scope="module")
def result():
    return accelsim.map("two_level", "conv1d", **EVEN)


def test_map__takes_names_paths_text_dicts_and_objects():
    arch = REPOSITORY / "arch" / "two_level.yaml"
    text = arch.read_text(encoding="utf-8")
    loaded = accelsim.load_architecture("two_level")
    layer = accelsim.load_workload(SMALL)
    energies = {
        accelsim.map(machine, workload, **EVEN).energy_pj
        for machine in ("two_level", arch, str(arch), text, yaml.safe_load(text), loaded)
        for workload in (SMALL, yaml.dump(SMALL), layer, layer.layers[0], accelsim.gemm(4, 6, 4, bits=8))
    }
    assert len(energies) == 1


def test_results__show_themselves_in_a_hundred_letters(result):
    shown = [
        result,
        result.best,
        accelsim.evaluate("eyeriss", "conv", "eyeriss_row_stationary"),
        accelsim.pareto("two_level", SMALL),
        accelsim.sizing("two_level", SMALL),
        accelsim.sensitivity("two_level", SMALL),
        accelsim.spread("two_level", SMALL, samples=100),
        accelsim.map_network("two_level", NETWORK, **EVEN),
        accelsim.sweep("two_level", [SMALL], params={"buffer": ["16 B", "64 B"]}, jobs=1),
        accelsim.diff(result, result),
        accelsim.gpu.gemm("h100_sxm", 512, 512, 512),
        accelsim.gpu.attention("h100_sxm", heads=8),
    ]
    for each in shown:
        assert len(repr(each)) <= 100
        assert repr(each).startswith(f"<{type(each).__name__} ")
        assert str(each)
        assert len(each.report().splitlines()) >= 3
        assert each._repr_html_().startswith("<pre")
        json.dumps(each.to_dict())
        assert each.tables
        assert len(each.to_pandas()) >= 1


def test_result__has_the_figures_of_the_mapping(result, tmp_path):
    assert result.energy_pj == result.best.energy_pj == result.result.energy_pj
    assert (result.cycles, result.valid, result.stopped_by) == (result.result.cycles, True, "exhausted")
    assert result.certificate.proved
    assert result.certificate.gap == 0
    assert result.certificate.space == accelsim.SearchedSpace(size=result.search.space_size)
    assert {path.name for path in result.save(tmp_path / "out")} >= {"mapping.yaml", "result.json", "energy.png"}
    kept = accelsim.load_result(tmp_path / "out")
    assert kept.verify().agrees
    again = accelsim.evaluate("two_level", "conv1d", tmp_path / "out" / "mapping.yaml")
    assert again.energy_pj == result.energy_pj
    assert accelsim.diff(tmp_path / "out", again).headline.startswith("0 of ")


def test_result__of_dicts_is_saved_with_them_and_read_back(tmp_path):
    arch = yaml.safe_load((REPOSITORY / "arch" / "two_level.yaml").read_text(encoding="utf-8"))
    found = accelsim.map(arch, yaml.dump(SMALL), params={"buffer": "64 B"}, **EVEN)
    names = {path.name for path in found.save(tmp_path / "out")}
    assert names >= {"architecture.yaml", "workload.yaml", "mapping.yaml"}
    kept = accelsim.load_result(tmp_path / "out")
    assert kept.changed == []
    assert kept.verify().agrees
    assert next(iter(kept.mappings.values())).energy_pj == found.energy_pj
    accelsim.map(accelsim.load_architecture("two_level"), SMALL, **EVEN).save(tmp_path / "other")
    with pytest.raises(accelsim.AccelsimError, match="architecture came from an object"):
        accelsim.load_result(tmp_path / "other")


def test_result__draws_what_it_names(result):
    assert result.plot().figure is not None
    for kind in result.drawings():
        result.plot(kind)
    ax = accelsim.plots.new_axes()
    assert result.plot("energy", ax=ax) is ax
    with pytest.raises(ValueError, match="no picture 'enery'; did you mean 'energy'"):
        result.plot("enery")
    with pytest.raises(ValueError, match="no table 'enrgy'; did you mean 'energy'"):
        result.to_pandas("enrgy")


def test_report__is_what_the_command_prints(result, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["map", "two_level", "conv1d", "--mapspace", "even"]) == 0
    printed = capsys.readouterr().out.splitlines()

    def same(lines):  # the second run takes the answer from the cache
        return lines[: next(at for at, line in enumerate(lines) if line.startswith("  search "))]

    assert same(printed) == same(result.report(100).splitlines())


def test_network__keeps_its_mappings():
    net = accelsim.map_network("two_level", NETWORK, **EVEN)
    assert list(net) == [row["layer"] for row in net.rows]
    layer = net[next(iter(net))]
    assert layer.mapping.levels
    assert net.energy_pj == pytest.approx(sum(row["repeat"] * row["energy_pj"] for row in net.rows))
    assert net.certificate.gap == 0
    assert str(net.certificate.space) == "even mappings with perfect factors"
    with pytest.raises(KeyError, match="no mapped layer 'none'"):
        net["none"]


def test_network__writes_each_layer_as_it_is_mapped(tmp_path):
    net = accelsim.map_network("two_level", NETWORK, **EVEN, output=tmp_path)
    assert {path.parent.name for path in tmp_path.glob("*/result.json")} == set(net)


def test_params__set_parameters_of_either_file():
    assert params_of({"a": 1, "b": "2 KiB", "c": [1, 2], "d": 0.5}) == {
        "a": "1",
        "b": "2 KiB",
        "c": "[1, 2]",
        "d": "0.5",
    }
    small, large = (accelsim.map("eyeriss", "conv", params={"batch": n}, sample=500) for n in (1, 2))
    assert large.result.macs == 2 * small.result.macs
    with pytest.raises(accelsim.UnknownParameterError, match="did you mean 'glb'") as error:
        accelsim.map("eyeriss", "conv", params={"gbl": "54 KiB"})
    assert (error.value.name, error.value.suggestions) == ("gbl", ("glb",))


def test_constraints__are_those_of_a_file():
    asked = constraints({"GLB": {"x": ["K"], "y": ["C"], "bypass": ["Weights"]}}, min_utilization=0.25)
    level = {"level": "GLB", "spatial": {"x": {"only": ["K"]}, "y": {"only": ["C"]}}, "bypass": ["Weights"]}
    assert asked == {"constraints": {"levels": [level], "min_utilization": 0.25}}
    found = accelsim.map("eyeriss", "conv", constraints=asked, **EVEN)
    glb = next(node for node in found.mapping.levels if node.level == "GLB")
    assert {loop.dim for loop in glb.x if loop.bound > 1} <= {"K"}
    assert {loop.dim for loop in glb.y if loop.bound > 1} <= {"C"}
    assert found.utilization >= 0.25


def test_require__limits_the_cost_of_a_layer():
    free = accelsim.map("two_level", "gemm", objective="cycles", **EVEN)
    held = accelsim.map("two_level", "gemm", require=f"cycles <= {free.cycles}", **EVEN)
    assert held.cycles <= free.cycles
    with pytest.raises(accelsim.NoValidMappingError):
        accelsim.map("two_level", "gemm", require=["cycles <= 10"], **EVEN)


@pytest.mark.parametrize(
    ("factors", "imperfect", "padded"),
    [
        ("auto", "auto", ()),
        ("perfect", (), ()),
        ("imperfect", "all", ()),
        ("imperfect:M,K", ("M", "K"), ()),
        ("padded:P=56", (), ("P=56",)),
        ("imperfect:M+padded", ("M",), "all"),
        (["imperfect:M", "padded:N"], ("M",), ("N",)),
    ],
)
def test_factors__say_which_dimensions(factors, imperfect, padded):
    asked = Asked(factors=factors)
    assert (asked.imperfect, asked.padded) == (imperfect, padded)


MISTAKES = {
    "a layer for an architecture": (
        lambda: accelsim.map(accelsim.gemm(1, 2, 3), "conv"),
        TypeError,
        "this is the workload",
    ),
    "an architecture for a layer": (
        lambda: accelsim.map("eyeriss", accelsim.load_architecture("eyeriss")),
        TypeError,
        "this is the architecture",
    ),
    "a number for an architecture": (lambda: accelsim.map(3, "conv"), TypeError, "architecture: expected a name"),
    "nothing for a workload": (lambda: accelsim.map("eyeriss", None), TypeError, "workload: expected a name"),
    "a misspelt architecture": (
        lambda: accelsim.map("eyeris", "conv"),
        accelsim.UnknownNameError,
        "did you mean 'eyeriss'",
    ),
    "a misspelt workload": (lambda: accelsim.map("eyeriss", "cnov"), accelsim.UnknownNameError, "did you mean 'conv'"),
    "a misspelt key": (
        lambda: accelsim.map("eyeriss", {"workload": {"name": "a", "gemmm": {"M": 1, "N": 1, "K": 1}}}),
        accelsim.InputError,
        "did you mean 'gemm'",
    ),
    "a network for a layer": (
        lambda: accelsim.map_layer("eyeriss", "alexnet"),
        accelsim.AccelsimError,
        "alexnet has 8 layers; say which",
    ),
    "a misspelt layer": (
        lambda: accelsim.map("eyeriss", "alexnet", layer="conv9"),
        accelsim.AccelsimError,
        "has no layer 'conv9'",
    ),
    "a misspelt objective": (
        lambda: accelsim.map("eyeriss", "conv", objective="enrgy"),
        accelsim.AccelsimError,
        "did you mean 'energy'",
    ),
    "a number for an objective": (
        lambda: accelsim.map("eyeriss", "conv", objective=1),
        TypeError,
        "objective: expected",
    ),
    "text for a time limit": (
        lambda: accelsim.map("eyeriss", "conv", time_limit="10"),
        TypeError,
        "time_limit: expected a number of seconds",
    ),
    "no whole number for a size of a GEMM": (
        lambda: accelsim.gpu.gemm("h100", "4", 4, 4),
        TypeError,
        "M: expected a whole number, got '4'",
    ),
    "no value of a sweep": (
        lambda: accelsim.gpu.serve("h100", "llama", tp=[]),
        accelsim.AccelsimError,
        "tp: expected a whole number or a list",
    ),
    "a word for a list of metrics": (
        lambda: accelsim.pareto("eyeriss", "conv", "energy"),
        TypeError,
        "metrics: expected a list of words, got 'energy'",
    ),
    "a word for a chain": (
        lambda: accelsim.fuse("eyeriss", "mobilenet_v2", chain="b5_expand"),
        TypeError,
        "chain: expected a list of words",
    ),
    "no layer in a chain": (
        lambda: accelsim.fuse("eyeriss", "mobilenet_v2", longest=0),
        accelsim.AccelsimError,
        "longest: expected a whole number of at least 1",
    ),
    "no mapping drawn": (
        lambda: accelsim.spread("two_level", "gemm", samples=0),
        accelsim.AccelsimError,
        "samples: expected a whole number of at least 1",
    ),
    "a list of mappings of a network": (
        lambda: accelsim.map("eyeriss", "alexnet", top=3),
        accelsim.AccelsimError,
        "top: lists mappings of one layer",
    ),
    "a negative time limit": (
        lambda: accelsim.map("eyeriss", "conv", time_limit=-1),
        accelsim.AccelsimError,
        "time_limit: expected a number of seconds above 0",
    ),
    "a misspelt map space": (
        lambda: accelsim.map("eyeriss", "conv", mapspace="evn"),
        accelsim.AccelsimError,
        "did you mean 'even'",
    ),
    "misspelt factors": (
        lambda: accelsim.map("eyeriss", "conv", factors="imperfekt"),
        accelsim.AccelsimError,
        "did you mean 'imperfect'",
    ),
    "a dimension that there is not": (
        lambda: accelsim.map("eyeriss", "conv", factors="imperfect:KK"),
        accelsim.AccelsimError,
        "'KK' is no dimension",
    ),
    "a list for parameters": (
        lambda: accelsim.map("eyeriss", "conv", params=["glb"]),
        TypeError,
        "params: expected a dict",
    ),
    "a dict for a parameter": (
        lambda: accelsim.map("eyeriss", "conv", params={"glb": {}}),
        TypeError,
        "expected text or a number for 'glb'",
    ),
    "a wrong unit": (
        lambda: accelsim.map("eyeriss", "conv", params={"glb": "54 KB/s"}),
        accelsim.InputError,
        "GLB|size|glb",
    ),
    "a list for constraints": (
        lambda: accelsim.map("eyeriss", "conv", constraints=[1]),
        TypeError,
        "constraints: expected",
    ),
    "constraints on a level that there is not": (
        lambda: accelsim.map("eyeriss", "conv", constraints=accelsim.constraints({"GLBB": {"x": ["K"]}})),
        accelsim.InputError,
        "did you mean 'GLB'",
    ),
    "a metric that there is not": (
        lambda: accelsim.pareto("two_level", SMALL, ("energy", "cycle")),
        accelsim.AccelsimError,
        "cycle",
    ),
    "no function for progress": (
        lambda: accelsim.map("eyeriss", "conv", on_progress=3),
        TypeError,
        "on_progress: expected a function",
    ),
    "a misspelt keyword": (lambda: accelsim.map("eyeriss", "conv", objectiv="energy"), TypeError, "objectiv"),
    "values that vary nothing": (
        lambda: accelsim.sweep("two_level", SMALL, params={"buffer": "16 B"}),
        TypeError,
        "as a list",
    ),
    "a GPU that there is not": (
        lambda: accelsim.gpu.gemm("h10", 1, 1, 1),
        accelsim.AccelsimError,
        "h10",
    ),
    "a former name": (lambda: accelsim.map_einsum, AttributeError, "did you mean 'map_layer'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes__say_what_is_accepted(mistake):
    call, kind, said = MISTAKES[mistake]
    with pytest.raises(kind, match=said):
        call()


def test_progress__is_told_and_stop_ends_with_the_best_so_far():
    told = []

    def stop(state):
        told.append(state)
        if state.best is not None:
            raise accelsim.Stop

    found = accelsim.map("eyeriss", "resnet50", layer="conv2_expand", cache=False, on_progress=stop)
    assert found.stopped_by == "interrupted"
    assert found.valid
    assert not found.certificate.proved
    assert told[-1].layer
    assert told[-1].best >= (told[-1].bound or 0)


def test_progress__stops_a_network_after_the_layers_that_are_mapped():
    def stop(state):
        if state.layer.endswith("(2/8)"):
            raise accelsim.Stop

    net = accelsim.map_network("eyeriss", "alexnet", **EVEN, cache=False, on_progress=stop)
    assert net.stopped_by == "interrupted"
    assert list(net)[:1] == ["conv1"]
    assert len(net) < 8


def test_names__are_found_without_an_import_of_their_module():
    code = (
        "import accelsim; accelsim.gpu.gemm, accelsim.importers, accelsim.plots.plot_energy, accelsim.model_types.Level"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert set(accelsim.__all__) <= set(dir(accelsim))


def test_docstrings__are_whole():
    """Each function has a summary and a runnable example; its parameters are named."""
    import inspect

    for name in accelsim.__all__:
        found = getattr(accelsim, name)
        if not inspect.isfunction(found):
            continue
        doc = inspect.getdoc(found) or ""
        assert doc.partition("\n")[0].endswith("."), name
        for parameter in inspect.signature(found).parameters:
            assert (
                parameter in doc
                or "As for `accelsim" in doc
                or "those of `accelsim.map`" in doc
                or name.startswith("load_")
            ), (
                name,
                parameter,
            )
        assert ">>>" in doc or name in ("load_result", "load_sweep_result") or name.startswith("load_"), name


def test_types__are_known_to_a_user_of_the_package(tmp_path):
    code = """
import accelsim as acs

result = acs.map_layer("eyeriss", "conv", params={"glb": "54 KiB"}, require=["cycles <= 2e6"], time_limit=10)
energy: float = result.energy_pj
cycles: int = result.cycles
space: acs.SearchedSpace | None = result.certificate.space if result.certificate else None
net = acs.map_network("eyeriss", "resnet50", mapspace="even")
mapping = net["conv2_expand"].mapping
rows = acs.sweep("eyeriss", ["conv"], params={"glb": ["54 KiB", "108 KiB"]}).pareto().designs
error: type[acs.AccelsimError] = acs.NoValidMappingError
"""
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(code, encoding="utf-8")
    bad.write_text(
        'import accelsim as acs\nacs.map_layer("eyeriss", "conv", time_limit="10")\nacs.nothing\n', encoding="utf-8"
    )
    checked = [
        subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(file)],
            capture_output=True,
            text=True,
            cwd=REPOSITORY,
            check=False,
        ).stdout
        for file in (good, bad)
    ]
    assert "no issues found" in checked[0], checked[0]
    assert 'incompatible type "str"' in checked[1]
    assert 'has no attribute "nothing"' in checked[1]


def test_import__is_cheap():
    code = "import sys, accelsim; print(len([name for name in sys.modules if name.startswith(('accelsim.', 'numpy'))]))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.home())
    assert int(found.stdout) == 0


def test_sweep__runs_in_a_script_without_a_guard(tmp_path):
    """Worker processes do not run the script a second time."""
    script = tmp_path / "script.py"
    lines = ["import accelsim", "print('once')", "values = ['16 B', '32 B', '64 B']"]
    lines.append("print(accelsim.sweep('two_level', 'conv1d', params={'buffer': values}, jobs=2))")
    script.write_text("\n".join(lines), encoding="utf-8")
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=REPOSITORY, check=True)
    assert found.stdout.splitlines() == ["once", "two_level: 3 designs, 3 Pareto-optimal"]


def test_map__takes_files_of_another_tool_as_a_list_or_a_folder(tmp_path):
    paths = [tmp_path / "design" / name for name in ("arch.yaml", "problem.yaml")]
    paths[0].parent.mkdir()
    for path, text in zip(paths, (V04, PROBLEM), strict=True):
        path.write_text(text, encoding="utf-8")
    found = [accelsim.map(*paths, **EVEN), accelsim.map(paths, **EVEN), accelsim.map(tmp_path / "design", **EVEN)]
    assert len({each.energy_pj for each in found}) == 1
    assert found[0].energy_pj > 0


def test_numbers_of_numpy__are_accepted_where_numbers_are():
    size = np.int64(4)
    plain = accelsim.map("two_level", accelsim.gemm(M=3, N=2, K=4), params={"buffer": "64 B"}, jobs=1)
    given = accelsim.map("two_level", accelsim.gemm(M=3, N=2, K=size), params={"buffer": "64 B"}, jobs=np.int64(1))
    assert given.energy_pj == plain.energy_pj
    assert accelsim.gpu.gemm("h100", size, size, size).us == accelsim.gpu.gemm("h100", 4, 4, 4).us
