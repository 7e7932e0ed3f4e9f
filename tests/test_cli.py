"""The command line: what each command prints, where it writes, and how it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from reports import a_front, a_search, all_loops_outside, an_exact_search

import accelsim
import accelsim.search.mapper
from accelsim.api.network_results import layer_folders
from accelsim.cli import main as cli
from accelsim.cli.arguments import parse
from accelsim.inputs import library
from accelsim.inputs.errors import NoValidMappingError

REPOSITORY = Path(__file__).resolve().parents[1]
BROKEN = Path(__file__).parent / "broken"
ROW_STATIONARY = ("eyeriss", "conv", "eyeriss_row_stationary")
TINY = (
    "eyeriss",
    "conv1d",
    "--sample",
    "200",
)


def shell(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "accelsim", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY, **options)


@pytest.fixture
def searches(monkeypatch):
    """Replace the search by one that finds all loops at the outermost level; its calls are noted."""
    calls = []

    def map_einsum(architecture, einsum, **options):
        calls.append((einsum.name, options))
        outcome = map_einsum.outcomes.get(einsum.name, "budget")
        if isinstance(outcome, BaseException):
            raise outcome
        best = all_loops_outside(architecture, einsum)
        if outcome == "exact":
            several = {"ranked": options["top"], "within": options["within"] and (options["within"], 432)}
            return an_exact_search(best, options["objective"], **several)
        search = a_search(best, options["objective"], outcome)
        return replace(search, seed=options["seed"], seconds=time.perf_counter())

    map_einsum.outcomes = {}
    map_einsum.calls = calls
    monkeypatch.setattr(accelsim.search.mapper, "map_einsum", map_einsum)
    return map_einsum


def test_version__is_that_of_the_project(run):
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert run("--version") == (0, f"accelsim {project['version']}\n", "")
    assert f"\nversion: {project['version']}\n" in (REPOSITORY / "CITATION.cff").read_text()


def test_help__imports_nothing_that_is_slow():
    code = (
        "import sys; from accelsim.cli.main import main; main(['--help']); "
        "sys.exit(', '.join({'numpy', 'numba', 'matplotlib', 'rich', 'yaml'} & set(sys.modules)) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("plot density eyeriss conv", {"samples": 100_000, "time_limit": None, "width": 6.4, "over": None, "seed": 0}),
        ("spread eyeriss conv", {"samples": 100_000, "time_limit": 10.0, "kind": "hist"}),
        ("map a b --factors imperfect --require cycles<=1e6 -j 2",
         {"factors": "imperfect", "require": ["cycles<=1e6"], "jobs": 2}),
        ("map a b --factors imperfect:M,K --batch 1,8",
         {"factors": "imperfect:M,K", "batch": (1, 8), "mapspace": "auto"}),
        ("eval a b c -s x=1 --set y=2 -o d", {"params": [("x", "1"), ("y", "2")], "writes_folder": True}),
        ("check a b", {"files": ["a", "b"], "params": [], "command": "check_command", "module": "inspecting"}),
        ("gpu serve m g --batch 1,4 --plot x.svg", {"batch": (1, 4), "plot": "x.svg", "output_tokens": 512}),
        ("gpu moe g --tokens 1 --hidden 2 --inter 3 --experts 4 --top 5", {"ep": 1, "skew": 0.0, "dtype": "bf16"}),
        ("gpu gemm g 1 2 3", {"m": 1, "tile": "", "layout": "tn", "command": "gpu_gemm_command"}),
        ("gpu profile g p", {"l2": None, "dtype": None, "batch": None}),
    ],
)  # fmt: skip
def test_arguments__are_read_as_their_rows_say(arguments, expected):
    found = vars(parse(arguments.split()))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("arguments", ["gpu gemm 1 2 3", "plot foo a b", "map a b --top 0", "eval a b c --plot y"])
def test_arguments__that_no_row_allows_end_with_2(run, arguments):
    assert run(*arguments.split())[0] == 2


def test_check__compiles_and_draws_nothing():
    code = (
        "import sys; from accelsim.cli.main import main; main(['check', 'eyeriss', 'conv']); "
        "sys.exit(', '.join({'numpy', 'numba', 'matplotlib', 'rich'} & set(sys.modules)) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "2 files: no mistakes\n", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mpa", "systolic", "conv"], "did you mean 'map'?"),
        (["map", "systolic", "conv", "--mapings", "3"], "`accelsim map --help` lists them"),
        (["map", "systolic", "conv", "--samples=3"], "did you mean '--sample'?"),
        (["map", "systolic", "conv", "--mappings", "3"], "it is `--sample` now"),
        (["map", "systolic", "conv", "--pareto", "-o", "x", "bound"], "unrecognized arguments: bound"),
        (["replay", "x", "--plot", "a.png"], "no command 'replay'; it is `python -m validation.timeloop_files` now"),
        (["map", "systolic"], "required: WORKLOAD"),
        (["map", "systolic", "conv", "--seed", "x"], "at least 0, got 'x'"),
        (["map", "systolic", "conv", "--sample", "0"], "at least 1, got '0'"),
        (["map", "systolic", "conv", "--time-limit", "nan"], "seconds above 0, got 'nan'"),
        (["map", "systolic", "conv", "--set", "glb"], "expected NAME=VALUE, got 'glb'"),
        (["map", "systolic", "conv", "--search", "rando"], "it is `--sample` now"),
        (["map", "systolic", "conv", "--top", "0"], "at least 1, got '0'"),
        (["map", "systolic", "conv", "--top", "-1"], "such as 1% or 0.01, got '-1'"),
        (["map", "systolic", "conv", "--top", "5.5"], "such as 1% or 0.01, got '5.5'"),
        (["map", "systolic", "conv", "--top", "nan%"], "such as 1% or 0.01"),
        (["map", "systolic", "conv", "--top", "3", "--sample", "9"], "sample: not with top"),
        (["map", "systolic", "conv", "--top", "1%", "--sample", "9"], "sample: not with top"),
        (
            ["map", "systolic", "conv", "--factors", "imperfect", "--sample", "9"],
            "sample: not with top, uneven or fact",
        ),
        (["map", "systolic", "conv", "--pareto", "energy,cycles", "--top", "3"], "not allowed with --top"),
        (
            ["map", "systolic", "conv", "--pareto", "energy,cycles", "--objective", "edp"],
            "not allowed with --objective",
        ),
        (["map", "systolic", "conv", "--pareto", "energy,cycles", "--sample", "9"], "not allowed with --sample"),
        (["map", "systolic", "conv", "--pareto", "energy,cycle"], "did you mean 'cycles'? metrics: energy"),
        (["map", "systolic", "conv", "--pareto", "energy"], "two or three different metrics, got 'energy'"),
        (["map", "systolic", "conv", "--pareto", "energy,energy"], "two or three different metrics"),
        (["map", "systolic", "conv", "--pareto", "energy,capacity:GLB"], "DRAM, UnifiedBuffer, Accumulators"),
        (["map", "systolic", "vgg16", "--pareto", "energy,cycles"], "vgg16 has 16 layers; say which"),
        (["verify", "/nonexistent/result.json"], "/nonexistent/result.json: no such file or folder"),
        (
            ["eval", "--trace", "two_level", "conv1d", "--tensor", "Y", "--level", "X"],
            "no level 'X'; levels: DRAM, BUF",
        ),
        (["sweep", "two_level_buffer", "--kind", "sensitivity"], "--kind: name a file to draw, such as --plot"),
        (["sweep", "two_level_buffer", "--html", REPOSITORY], f"{REPOSITORY}: this is a folder; name a file"),
        (["sweep", "two_level_buffer", "--html", "/dev/null/x.html"], "/dev/null/x.html: /dev/null is not a folder"),
        (["sweep", "two_level_buffer", "--scheduler", "host"], "--scheduler host: not an address; write it like tcp"),
        (["map", "systolic", "conv", "-o", ""], "argument --output: expected a path, got nothing"),
        (["map", "systolic", "conv", "extras"], "unrecognized arguments: extras; only another tool has more files"),
        (["verify", REPOSITORY / "arch" / "eyeriss.yaml"], "eyeriss.yaml: not JSON"),
        (["list", "archs"], "did you mean 'arch'?"),
        (["spread", "a100", "conv"], "a100 is a GPU of the catalogue: levels are needed here"),
        (["map", "h100_sxmm", "gemm"], "did you mean 'h100_sxm'?"),
        (["export", "timelop", "x"], "did you mean 'timeloop'?"),
        (["map", "eyeriss", "--pareto", "conv"], "'conv' is a file; put --pareto behind ARCH and WORKLOAD"),
        (["map", "systolicc", "conv"], "did you mean 'systolic'?"),
        (["map", "systolic", "conv", "--layer", "x"], "no layer 'x'"),
        (["map", "systolic", "conv1d", "--batch", "3"], "conv1d has no parameter batch; it has no parameters"),
        (["map", "systolic", "gemm", "--seq-len", "3"], "no parameter seq or kv; its parameters are bits"),
        (["map", "systolic", "gpt2", "--seq-len", "3", "--set", "seq=2"], "--seq-len and --set seq both set seq"),
        (["map", "systolic", "gpt2", "--batch", "0"], "at least 1, got '0'"),
        (["map", "systolic", "vgg16", "--layer", "conv3_22"], "did you mean 'conv3_2'? layers: conv1_1"),
        (["map", "eyeriss", "conv", "--set", "pe.z=3"], "no file defines this parameter; did you mean 'pe.y'?"),
        (["map", "eyeriss", "conv", "--set", "pe.x=3", "--set", "pe.x=4"], "--set pe.x is given twice"),
        (["map", "eyeriss", "conv", "-o", "/dev/null/x"], "/dev/null is not a folder"),
        (["eval", "eyeriss", "vgg16", "eyeriss_row_stationary"], "say which with layer (--layer): conv1_1, conv1_2"),
        (["eval", "eyeriss", "gemm", "eyeriss_row_stationary"], "'P' is no dimension of gemm_512_1024_1024"),
        (["show", "eyerisss"], "did you mean 'eyeriss'?"),
        (["check", "/nonexistent.yaml"], "/nonexistent.yaml"),
    ],
)
def test_bad_input__ends_with_2_and_says_what_to_write(run, arguments, said):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert said in err


def test_stdout__that_is_closed_is_no_fault(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)  # as Python has it after `>&-`
    assert cli.main(["list", "sweeps"]) == 0
    sys.stdout.close()


def test_bad_input__has_no_hint_where_no_known_word_is_near(run):
    code, _, err = run("--show-completion", "nosuch")
    assert (code, "did you mean" in err) == (2, False)


@pytest.mark.parametrize("path", sorted(BROKEN.glob("*.yaml")), ids=lambda path: path.stem)
def test_broken_files__every_command_names_file_and_line(run, path):
    wrong = run("check", path)[2].splitlines()
    for command in (
        ["map", path, "conv"],
        ["map", "eyeriss", path],
        ["show", path],
        ["eval", *ROW_STATIONARY[:2], path],
    ):
        code, out, err = run(*command) if wrong else (2, "", f"{path}:1:1: ")
        assert (code, out) == (2, "")
        assert all(re.match(r"\S+\.yaml:\d+:\d+: ", line) for line in err.splitlines()), err


def test_broken_files__mistakes_in_architecture_and_workload_come_together(run):
    code, _, err = run("map", BROKEN / "levels.yaml", BROKEN / "conv.yaml")
    assert code == 2
    assert "levels.yaml:" in err
    assert "conv.yaml:" in err


def test_check__names_every_mistake_of_every_file(run):
    code, out, err = run("check", BROKEN / "levels.yaml", BROKEN / "duplicate_key.yaml")
    assert (code, out) == (2, "")
    assert {line.partition(":")[0] for line in err.splitlines()} >= {
        str(BROKEN / "levels.yaml"),
        str(BROKEN / "duplicate_key.yaml"),
    }


def test_check__one_file(run):
    assert run("check", REPOSITORY / "arch" / "eyeriss.yaml") == (0, "1 file: no mistakes\n", "")


def test_eval__prints_the_report(run):
    code, out, err = run("eval", *ROW_STATIONARY)
    assert (code, err) == (0, "")
    assert "6.638 pJ/MAC" in out
    assert "par_for P in [0:14) on x" in out


def test_eval__an_invalid_mapping_ends_with_1_and_says_why(run, tmp_path):
    arguments = ("eval", *ROW_STATIONARY, "--set", "glb=64KiB", "-o", tmp_path)
    code, out, _ = run(*arguments)
    assert code == 1
    assert "INVALID: GLB needs 105.2 KiB, has 64 KiB" in out
    code, out, _ = run(*arguments, "--json")
    result = json.loads(out)["result"]
    assert (code, result["valid"], result["violations"]) == (1, False, ["GLB needs 105.2 KiB, has 64 KiB"])


def test_map__writes_what_eval_reads_back_to_the_last_digit(run, searches, tmp_path):
    code, mapped, err = run("map", "eyeriss", "conv", "-o", tmp_path, "--json", "--set", "batch=2")
    assert (code, err) == (0, "")
    code, evaluated, err = run("eval", "eyeriss", "conv", tmp_path / "mapping.yaml", "--json", "--set", "batch=2")
    assert (code, err) == (0, "")
    assert json.loads(mapped)["result"] == json.loads(evaluated)["result"]
    assert (tmp_path / "result.json").read_text() == mapped
    names = {"mapping.yaml", "result.json", "energy.png", "energy.svg"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_map__text_and_eval_agree(run, searches, tmp_path):
    _, mapped, _ = run("map", "eyeriss", "conv", "-o", tmp_path)
    _, evaluated, _ = run("eval", "eyeriss", "conv", tmp_path / "mapping.yaml")
    first, costs = mapped.split("\n", 1)
    assert first == "vgg16_conv3_2 on eyeriss, lowest energy: best of 5,000 random mappings, no bound"
    assert costs.startswith(evaluated.split("\n", 1)[1])
    assert f"Written to {tmp_path}" in " ".join(mapped.split())


def test_map__json_is_the_same_each_time(run, searches):
    assert run("map", "eyeriss", "conv", "--json") == run("map", "eyeriss", "conv", "--json")


def test_map__json_holds_files_overrides_and_budget(run, searches):
    _, out, _ = run("map", "eyeriss", "conv", "--json", "--set", "pe.x=7", "--sample", "9", "--seed", "4")
    document = json.loads(out)
    assert document["accelsim"] == accelsim.__version__
    assert document["overrides"] == {"pe.x": "7"}
    assert list(document["inputs"]) == ["architecture", "workload"]
    assert document["inputs"]["workload"]["file"] == "conv"
    assert document["search"]["budget"] == {"mappings": 9, "seconds": None}
    assert document["search"]["seed"] == 4


@pytest.mark.parametrize(
    ("given", "mappings", "seconds"),
    [
        (("--sample", "7"), 7, None),
        (("--time-limit", "2.5"), None, 2.5),
        (("--sample", "7", "--time-limit", "2"), 7, 2.0),
    ],
)
def test_map__budget(run, searches, given, mappings, seconds):
    run("map", "eyeriss", "conv", "--objective", "edp", *given)
    options = searches.calls[0][1]
    assert options["workers"] is None
    assert (options["budget"].mappings, options["budget"].seconds) == (mappings, seconds)
    assert (options["objective"], options["seed"]) == ("edp", 0)
    assert options["method"] == ("random" if mappings else "exact")
    assert callable(options["on_progress"])


def test_map__no_budget_leaves_it_to_the_search(run, searches):
    run("map", "eyeriss", "conv", "--jobs", "2")
    assert (searches.calls[0][1]["budget"], searches.calls[0][1]["workers"]) == (None, 2)


def test_map__quiet_prints_the_headline_only(run, searches):
    code, out, err = run("map", "eyeriss", "conv", "--quiet")
    assert (code, err, len(out.splitlines())) == (0, "", 11)  # a note of two lines
    assert "pJ/MAC" in out
    assert "1 of 168 MACs busy: 1 of 14 columns, 1 of 12 rows of GLB; stalled" in " ".join(out.split())
    assert "of cycles for DRAM" in " ".join(out.split())


def test_accelsim__alone_prints_its_help(run):
    code, out, err = run()
    assert (code, err) == (0, "")
    assert out == run("--help")[1]


def test_doctor__says_what_is_installed_and_where_things_are(run):
    code, out, _ = run("doctor", "--json")
    found = json.loads(out)
    versions = {row["package"]: row["version"] for row in found["packages"]}

    assert code == 0
    assert versions["numpy"] == metadata.version("numpy")
    assert {row["extra"] for row in found["packages"]} >= {None, "html", "onnx"}
    assert [row["what"] for row in found["kept"]] == ["results", "compiled kernels"]
    assert run("doctor")[0] == 0


@pytest.mark.parametrize("shell_name", ["bash", "zsh"])
def test_completion__knows_the_commands(shell_name, run):
    pytest.importorskip("shtab")
    code, out, _ = run("--show-completion", shell_name)
    assert code == 0
    assert "doctor" in out
    assert "--objective" in out


def test_map__folds_ties(run):
    """Of the conv1d's 112 mappings three are optimal; the five best values are listed, however many have each."""
    code, out, _ = run("map", "two_level", "conv1d", "--top", "5")
    ranks = [line.split()[:2] for line in out[out.index("rank  mappings") :].splitlines() if line[:4].strip().isdigit()]
    assert code == 0
    assert ranks == [["1", "3"], ["2", "1"], ["3", "1"], ["4", "8"], ["5", "1"]]
    machine, layer = accelsim.load_architecture("two_level"), accelsim.load_workload("conv1d").layers[0]
    every = [round(each.energy_pj, 3) for each in accelsim.search.mapper.map_einsum(machine, layer, top=112).ranked]
    assert [str(every.count(value)) for value in sorted(set(every))[:5]] == [ties for _, ties in ranks]


def test_map__no_valid_mapping_ends_with_1(run, searches):
    searches.outcomes["vgg16_conv3_2"] = NoValidMappingError("0 of 41472 valid: 39100 exceed GLB")
    assert run("map", "eyeriss", "conv") == (1, "", "0 of 41472 valid: 39100 exceed GLB\n")


def test_map__an_exact_search_has_no_spread_to_write(run, searches, tmp_path):
    searches.outcomes["vgg16_conv3_2"] = "exact"
    code, out, err = run("map", "eyeriss", "conv", "-o", tmp_path)
    assert (code, err) == (0, "")
    proved = "lowest energy: optimal (proved) among 1.2e17 even\nmappings with perfect factors\n"
    assert proved in out
    assert "  space       1.2e17 mappings: every loop order" in out
    assert "539,514 nodes, 17.4 MiB of tables" in out
    names = {"mapping.yaml", "result.json", "energy.png", "energy.svg"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert proved in run("map", "eyeriss", "conv", "--quiet")[1]


def test_map__lists_the_best_mappings(run, searches, tmp_path):
    searches.outcomes["vgg16_conv3_2"] = "exact"
    code, out, _ = run("map", "eyeriss", "conv", "--top", "3", "-o", tmp_path)
    assert (code, searches.calls[0][1]["top"], searches.calls[0][1]["within"]) == (0, 1000, None)
    assert re.findall(r"(?m)^ +(\d) .*DRAM\[WIO\]", out) == ["1", "2", "3"]
    assert sorted(path.name for path in (tmp_path / "mappings").iterdir()) == ["01.yaml", "02.yaml", "03.yaml"]


@pytest.mark.parametrize("share", ["1%", "1 %", "0.01"])
def test_map__counts_what_is_within_a_share_of_the_best(run, searches, share):
    searches.outcomes["vgg16_conv3_2"] = "exact"
    code, out, _ = run("map", "eyeriss", "conv", "--top", share)
    assert (code, searches.calls[0][1]["within"], searches.calls[0][1]["top"]) == (0, 0.01, 1)
    assert "432 are within 1 % of the optimum" in out


def test_map__pareto(run, monkeypatch, tmp_path):
    def map_front(architecture, einsum, columns, **options):
        assert (options["budget"].seconds, options["constraints"]) == (9.0, None)
        return a_front(all_loops_outside(architecture, einsum), columns)

    monkeypatch.setattr("accelsim.search.exact.front.map_front", map_front)
    arguments = ("map", "eyeriss", "conv", "--pareto", "energy, capacity:GLB", "--time-limit", "9", "-o", tmp_path)
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert "Pareto front of energy and words in GLB" in out
    assert "3 points, complete (proved)" in out
    document = json.loads((tmp_path / "result.json").read_text())
    assert document["front"]["columns"] == ["energy", "capacity:GLB"]
    assert len(document["front"]["points"]) == 3
    assert run(*arguments, "--json")[1] == (tmp_path / "result.json").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {
        *("front.csv", "front.png", "front.svg", "mappings", "result.json")
    }


def test_map__one_layer_of_a_network(run, searches):
    code, out, _ = run("map", "eyeriss", "vgg16", "--layer", "conv3_2")
    assert (code, [name for name, _ in searches.calls]) == (0, ["conv3_2"])
    assert out.startswith("conv3_2 on eyeriss, lowest energy: best of 5,000 random mappings, no bound\n")


SMALL_NETWORK = "workload:\n  name: small\n  layers:\n" + "".join(
    f"    - {{name: {name}, repeat: {repeat}, gemm: {{M: 4, N: {n}, K: 8}}}}\n"
    for name, repeat, n in (("fc5", 1, 2), ("fc6", 2, 3), ("fc7", 1, 4), ("fc8", 3, 4))
)
"""Four layers, the last two of which are alike."""


def test_map__a_network_layer_by_layer(run, searches, tmp_path):
    network, folder = tmp_path / "small.yaml", tmp_path / "out"
    network.write_text(SMALL_NETWORK)
    searches.outcomes["fc6"] = NoValidMappingError("0 of 7 valid")
    code, out, err = run("map", "eyeriss", network, "-o", folder)
    assert (code, err) == (1, "fc6: 0 of 7 valid\n")
    assert [name for name, _ in searches.calls] == ["fc5", "fc6", "fc7"]
    assert "fc6: not mapped, and not in the total" in out
    document = json.loads((folder / "result.json").read_text())
    assert document["total"]["layers"] == 1 + 1 + 3
    assert document["total"]["unmapped"] == ["fc6"]
    mapped = {layer["layer"] for layer in document["layers"] if "result" in layer}
    assert {path.name for path in folder.iterdir()} == {*mapped, "result.json"} == {"fc5", "fc7", "fc8", "result.json"}
    one = json.loads((folder / "fc7" / "result.json").read_text())
    assert one["result"] == next(layer["result"] for layer in document["layers"] if layer["layer"] == "fc7")
    assert run("eval", "eyeriss", network, folder / "fc7" / "mapping.yaml", "--layer", "fc7")[0] == 0


def test_map__an_interrupted_network_prints_what_it_has(run, searches):
    searches.outcomes["conv2_1"] = "interrupted"
    code, out, _ = run("map", "eyeriss", "vgg16")
    assert (code, len(searches.calls)) == (130, 3)
    assert "Interrupted after 3 of 16 layers" in out


def test_map__folders_of_layers_stay_inside_and_apart(searches):
    layers = library.resolve("conv", "workloads")
    einsum = accelsim.load_workload(layers).layers[0]
    names = [
        "a/../../b",
        "a_.._.._b",
        "Conv",
        "conv",
        "result.json",
        "..",
        ".",
        "a\\b",
        "c:",
        "\0",
        "x" * 300,
        "é" * 300,
    ]
    folders = layer_folders([replace(einsum, name=name) for name in names])
    assert len({folder.casefold() for folder in folders.values()}) == len(names)
    assert not any(set("/\\:\0") & set(folder) or folder in ("result.json", "..", ".") for folder in folders.values())
    assert max(len(folder.encode()) for folder in folders.values()) <= 255


def test_interrupt__ends_with_130(run, searches):
    searches.outcomes["vgg16_conv3_2"] = KeyboardInterrupt()
    assert run("map", "eyeriss", "conv") == (130, "", "interrupted\n")


def test_internal_error__one_line_and_a_log(run, searches, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    searches.outcomes["vgg16_conv3_2"] = ZeroDivisionError("division\nby zero")
    code, out, err = run("map", "eyeriss", "conv")
    assert (code, out, err.count("\n")) == (70, "", 1)
    assert err.startswith("internal error: ZeroDivisionError: division by zero; please report it")
    (log,) = tmp_path.iterdir()
    assert str(log) in err
    assert "Traceback" in log.read_text()


def test_energy__golden_and_json_agree(run):
    code, out, _ = run("show", "eyeriss")
    assert code == 0
    assert out.endswith((REPOSITORY / "tests" / "golden" / "energies.txt").read_text())
    rows = json.loads(run("show", "eyeriss", "--json")[1])["energy_table"]
    assert {row["component"] for row in rows} >= {"DRAM", "GLB", "GLB network", "SPAD", "MAC"}


def test_energy__override_changes_a_size(run):
    assert run("show", "eyeriss", "--set", "pe.x=7")[0] == 0


@pytest.mark.parametrize("kind", ["arch", "workloads", "mappings", "energy_tables"])
def test_list__names_every_file_that_ships(run, kind):
    code, out, _ = run("list", kind)
    assert code == 0
    assert set(re.findall(r"^(\w+) ", out, re.MULTILINE)) >= {path.stem for path in library.shipped(kind)}
    everything = run("list")[1]
    assert all(path.stem in everything for path in library.shipped(kind))


def test_pipe__a_reader_who_goes_away_is_no_mistake():
    command = f"{sys.executable} -m accelsim eval {' '.join(ROW_STATIONARY)} | true"
    for unbuffered in ("", "1"):
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        result = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, check=False, cwd=REPOSITORY, env=environment
        )
        assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_full_disk__one_line():
    command = f"{sys.executable} -m accelsim eval {' '.join(ROW_STATIONARY)} > /dev/full"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert (result.returncode, result.stderr) == (2, "accelsim: No space left on device\n")


def test_ascii_terminal__is_enough():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "NO_COLOR": "1"}
    result = shell("eval", *ROW_STATIONARY, env=environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.isascii()


def test_module__is_the_command():
    assert shell("--version").stdout == f"accelsim {accelsim.__version__}\n"


def test_map__from_end_to_end(tmp_path):
    arguments = ("map", *TINY, "--json", "--quiet", "-o", tmp_path)
    first = shell(*arguments)
    assert (first.returncode, first.stderr) == (0, "")
    second = shell(*arguments, "--jobs", "1")
    assert first.stdout == second.stdout == (tmp_path / "result.json").read_text()
    evaluated = shell("eval", "eyeriss", "conv1d", tmp_path / "mapping.yaml", "--json")
    assert json.loads(evaluated.stdout)["result"] == json.loads(first.stdout)["result"]


@pytest.mark.parametrize("asked", [(), ("--top", "4", "--objective", "edp"), ("--pareto", "energy,cycles")], ids=str)
def test_map__exact_output_is_the_same_for_any_number_of_workers(run, asked):
    one, two = (run("map", "eyeriss", "conv1d", *asked, "--json", "--jobs", workers) for workers in (1, 3))
    assert one == two
    assert one[0] == 0


def test_names__are_all_there():
    for name in accelsim.__all__:
        assert getattr(accelsim, name) is not None
    assert set(accelsim.__all__) <= set(dir(accelsim))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        accelsim.nothing  # noqa: B018


def test_map__says_once_why_no_mapping_of_several_layers_is_valid(run, searches, tmp_path):
    (tmp_path / "small.yaml").write_text(SMALL_NETWORK)
    for number, name in enumerate(("fc5", "fc6", "fc7", "fc8")):
        searches.outcomes[name] = NoValidMappingError(f"none of {number} is valid\nPE needs 2 B, has 1 B")
    code, _, err = run("map", "eyeriss", tmp_path / "small.yaml")
    said = "fc5: none of 0 is valid\nPE needs 2 B, has 1 B\nnor, for the same reason: fc6, fc7, fc8\n"
    assert (code, err) == (1, said)
