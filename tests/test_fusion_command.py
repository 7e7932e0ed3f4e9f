"""`accelsim fuse`: its report, files and mistakes; its picture."""

from __future__ import annotations

import csv
import functools
import itertools
import json
import math
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from accelsim import load_architecture, load_workload
from accelsim.cli.main import main
from accelsim.fusion import fuse as fuse_all
from accelsim.fusion import fuse_group
from accelsim.fusion.network import NetworkSearch
from accelsim.fusion.result import fusion_json
from accelsim.results import Provenance, to_json
from accelsim.results.cache import MapOptions
from accelsim.search import stopping
from accelsim.show.plots import figure_bytes
from accelsim.show.plots.result import fusion_table, plot_fusion

fuse = functools.partial(fuse_all, options=MapOptions(uneven=False, imperfect=()))
NETWORK = """
workload:
  name: attention
  layers:
    - {name: scores, gemm: {B: 1, H: 2, M: 8, N: 8, K: 4}}
    - name: soft_max
      from: scores
      whole: [N]
      einsum:
        dims: {B: 1, H: 2, M: 8, N: 8}
        tensors: {Inputs: [B, H, M, N], Outputs: [B, H, M, N]}
        output: Outputs
    - {name: context, from: {Inputs: soft_max}, gemm: {B: 1, H: 2, M: 8, N: 4, K: 8}}
"""
SIZE = "buffer=256 B"


@pytest.fixture
def network(tmp_path, monkeypatch):
    """A file with a small attention, and a cache of its own."""
    monkeypatch.setenv("ACCELSIM_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "attention.yaml"
    path.write_text(NETWORK)
    return str(path)


def test_fuse__prints_what_is_fused_and_how(network, capsys):
    """A head of 8 x 8 scores, 128 B, leaves no room in a buffer of 128 B: query rows are cut."""
    assert main(["fuse", "two_level", network, "--set", "buffer=128 B"]) == 0
    text = capsys.readouterr().out
    assert "scores + soft_max + context" in text.replace("\n", " ")
    assert "\noptimal (proved) among even mappings with perfect factors: 3 groups, " in text
    assert "for M in [0:" in text
    assert "for N" not in text
    assert "BUF stores Outputs of soft_max for context: 32 words, 64 B\n" in text
    assert "writes Outputs to DRAM\n" in text


def test_fuse__off_chip_words_that_are_gone_have_no_factor(network, capsys):
    """All fits into 4 KiB: `soft_max` reads and writes nothing outside."""
    assert main(["fuse", "two_level", network, "--set", "buffer=4 KiB"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^soft_max +1 +on chip .* 0 +none\n.*\n +gain +[\d.]+x +1x +-$", text, re.MULTILINE)
    assert "inf" not in text


def test_fuse__writes_and_prints_the_same(network, tmp_path, capsys):
    folder = tmp_path / "out"
    assert main(["fuse", "two_level", network, "--set", SIZE, "-o", str(folder), "--json"]) == 0
    printed = capsys.readouterr().out
    assert (folder / "fusion.json").read_text() == printed
    assert {path.name for path in folder.iterdir()} == {
        "fusion.json",
        "fusion_certificate.json",
        *(f"{name}.{kind}" for name in ("fusion", "loop_tree") for kind in ("png", "svg")),
    }
    found = json.loads(printed)["fusion"]
    segments = found["segments"]
    assert found["certificate"]["proved"]
    for key in ("energy_pj", "cycles", "offchip_words", "macs"):
        total = sum(each["repeat"] * each["totals"][key] for each in segments)
        assert total == pytest.approx(found["totals"][key], rel=1e-12)
    for fused in (each["fused"] for each in segments if each["fused"]):
        parts = fused["parts"]
        energy_pj = sum(part["count"] * part["result"]["energy_pj"] for part in parts)
        assert energy_pj == pytest.approx(fused["energy_pj"], rel=1e-12)
        assert all(part["result"]["valid"] for part in parts)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--chain", "scores,contxt"], "attention has no layer 'contxt'; did you mean 'context'?"),
        (["--chain", "scores,context"], "context does not read scores; it reads soft_max"),
        (["--chain", "scores"], "fusing takes two layers at least"),
        (["--objective", "power"], "objective 'power' is unknown"),
    ],
)
def test_fuse__mistakes_are_one_line(network, capsys, arguments, message):
    assert main(["fuse", "two_level", network, *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_fuse__a_dimension_that_is_whole_must_be_one(tmp_path, capsys):
    path = tmp_path / "wrong.yaml"
    path.write_text(NETWORK.replace("whole: [N]", "whole: [Q]"))
    assert main(["fuse", "two_level", str(path)]) == 2
    assert "wrong.yaml:8:14: layers[1].whole: 'Q' is no dimension of soft_max" in capsys.readouterr().err


def test_plot_fusion__rows_are_the_energies_of_both(network):
    machine = load_architecture("two_level", {"buffer": "256 B"})
    found = fuse(machine, load_workload(network), workers=1)
    rows = fusion_table(found)
    fused = sum(row["energy_pj"] for row in rows if row["fused"])
    alone = sum(row["energy_pj"] for row in rows if not row["fused"])
    assert fused == pytest.approx(sum(each.repeat * each.totals.energy_pj for each in found.fused), rel=1e-12)
    assert alone == pytest.approx(sum(each.repeat * each.unfused.energy_pj for each in found.fused), rel=1e-12)
    assert figure_bytes(plot_fusion(found)) == figure_bytes(plot_fusion(found))


@pytest.mark.parametrize("more", [[], ["--objective", "edp"], ["--chain", "scores,soft_max,context"]], ids=str)
def test_fuse__equal_input_gives_equal_bytes(network, tmp_path, capsys, more):
    """The network has its attention twice, under other names; so does docs/networks.md check a fusion.json."""
    again = NETWORK.partition("layers:")[2].strip("\n")
    for name in ("scores", "soft_max", "context"):
        again = again.replace(f"name: {name}", f"name: {name}_2").replace(f": {name}\n", f": {name}_2\n")
    Path(network).write_text(NETWORK + again.replace("Inputs: soft_max}", "Inputs: soft_max_2}") + "\n")
    written = []
    for folder in (tmp_path / "out", tmp_path / "again"):
        assert main(["fuse", "two_level", network, "--set", SIZE, *more, "--no-cache", "-o", str(folder)]) == 0
        written.append((folder / "fusion.json").read_text())
    assert written[0] == written[1]
    runs = json.loads(written[0])["fusion"]["segments"]
    assert sum(each["repeat"] * len(each["layers"]) for each in runs) == (3 if "--chain" in more else 6)


BLOCK = """
workload:
  name: block
  layers:
    - {name: before, gemm: {M: 24, N: 4, K: 2}}
    - {name: up, from: before, gemm: {M: 24, N: 8, K: 4}}
    - {name: down, from: up, gemm: {M: 24, N: 4, K: 8}}
    - name: sum
      from: {Inputs: down, Residual: before}
      einsum:
        dims: {M: 24, N: 4}
        tensors: {Inputs: [M, N], Residual: [M, N], Outputs: [M, N]}
        output: Outputs
"""


@pytest.fixture
def block(tmp_path, monkeypatch):
    """Writes a file with a residual block of so many rows, and gives arguments that fuse it in a buffer."""

    def arguments(rows, size):
        path = tmp_path / "block.yaml"
        path.write_text(BLOCK.replace("M: 24", f"M: {rows}"))
        return ["fuse", "two_level", str(path), "--set", f"buffer={size} B"]

    monkeypatch.setenv("ACCELSIM_CACHE", str(tmp_path / "cache"))
    return arguments


def test_fuse__a_residual_sum_is_printed_and_kept(block, tmp_path, capsys):
    """Rows of 4 words between the first layer and the sum: they come from the memory once."""
    folder, arguments = tmp_path / "out", [*block(24, 192), "--chain", "up,down,sum"]
    assert main([*arguments, "-o", str(folder)]) == 0
    assert "BUF stores Inputs of up = Residual of sum, fetched once: 4 words, 8 B\n" in capsys.readouterr().out
    found = json.loads((folder / "fusion.json").read_text())["fusion"]
    (fused,) = (each["fused"] for each in found["segments"] if each["fused"])
    readers = [{"layer": "up", "tensor": "Inputs"}, {"layer": "sum", "tensor": "Residual"}]
    assert fused["shared"] == [{"readers": readers, "words": 4, "halo_words": 0}]
    assert fused["border"] == {"present": [], "staying": [], "leaving": ["sum"], "whole_words": 0}
    assert fused["offchip_words"] == 2 * 24 * 4 + 2 * 4 * 8
    assert main([*arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert (json.loads(out)["fusion"], err) == (found, "")


def test_fuse__an_output_that_two_read_is_printed_once_with_both(block, tmp_path, capsys):
    """A row of `before` stays for `up` and the sum; only rows of `before`'s input and of the sum pass the memory."""
    assert main([*block(24, 192), "-o", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert text.count("stores Outputs of before ") == 1
    assert "BUF stores Outputs of before for up, sum: 4 words, 8 B\n" in text
    (segment,) = json.loads((tmp_path / "out" / "fusion.json").read_text())["fusion"]["segments"]
    links = segment["fused"]["links"]
    assert [each["producer"] for each in links] == ["before", "up", "down"]
    assert links[0]["readers"] == [{"layer": "up", "tensor": "Inputs"}, {"layer": "sum", "tensor": "Residual"}]
    assert [each["words"] for each in links] == [4, 8, 4]
    assert segment["totals"]["offchip_words"] == 24 * (2 + 4) + 2 * 4 + 4 * 8 + 8 * 4


def test_fuse__whole_tensors_that_stay_between_groups_are_printed(block, tmp_path, capsys):
    """All fits: 6 rows of 4, 8 and 4 words; a layer by itself is a group while a whole tensor lies in the buffer."""
    assert main([*block(6, 256), "-o", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert text.startswith("block on two_level: whole tensors on chip at 4 layers, ")
    assert "group" not in text.replace("10 groups, ", "")
    assert "\nbefore  whole tensors in BUF\n" in text
    assert "\n96 B of BUF store whole tensors, those of other layers included\n" in text
    assert "\nBUF stores all of Residual of sum from an earlier layer\n" in text
    assert "\nBUF stores all of Outputs of before for later layers\n" in text
    found = json.loads((tmp_path / "out" / "fusion.json").read_text())["fusion"]
    borders = {each["layers"][0]: each["fused"]["border"] for each in found["segments"]}
    sum_reads = [{"layer": "sum", "tensor": "Inputs"}, {"layer": "sum", "tensor": "Residual"}]
    assert borders == {
        "before": {"present": [], "staying": ["before"], "leaving": [], "whole_words": 6 * 4},
        "up": {
            "present": [{"layer": "up", "tensor": "Inputs"}],
            "staying": ["up"], "leaving": [], "whole_words": 6 * (4 + 8),
        },
        "down": {
            "present": [{"layer": "down", "tensor": "Inputs"}],
            "staying": ["down"], "leaving": [], "whole_words": 6 * (4 + 8 + 4),
        },
        "sum": {"present": sum_reads, "staying": [], "leaving": ["sum"], "whole_words": 6 * (4 + 4)},
    }  # fmt: skip
    assert found["totals"]["offchip_words"] == 6 * (2 + 4) + 2 * 4 + 4 * 8 + 8 * 4


def test_fuse__loops_over_a_sum_say_where_partial_sums_are(block, tmp_path, capsys):
    """In 64 B there is no room for a row of `up` beside weights: its words are made one by one and added up."""
    assert main([*block(6, 64), "--chain", "up,down", "-o", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert "for K in [0:8): 1 of 8 K that down sums\n" in text
    assert "K 8 in 8 steps; fetches Weights, writes Outputs to DRAM\n" in text
    assert "BUF stores Outputs of down and its partial sums: " in text
    (segment,) = json.loads((tmp_path / "out" / "fusion.json").read_text())["fusion"]["segments"]
    parts = segment["fused"]["parts"]
    assert [part["sums"] for part in parts if part["layer"] == "down"] == [[{"dim": "K", "steps": 8}]]
    assert all(part["sums"] == [] for part in parts if part["layer"] == "up")
    assert not any(part["streams"] for part in parts)
    assert {"layer": "down", "tensors": ["Outputs"]} in segment["fused"]["resident"]


def _kinds(value: object) -> set[type]:
    """Types of all values in a document."""
    if isinstance(value, dict):
        return set[type]().union(*map(_kinds, value.values()))
    return set[type]().union(*map(_kinds, value)) if isinstance(value, list) else {type(value)}


PRIMES = """
workload:
  name: two
  layers: [{name: a, gemm: {M: 113, N: 31, K: 37}}, {name: b, from: a, gemm: {M: 113, N: 29, K: 31}}]
"""


def test_fuse__of_prime_bounds_has_layers_with_remainders_unless_they_are_fused(tmp_path, capsys):
    """Layers that run alone have the best mapping of all; the report names what is proved, and what was found."""
    path, folder = tmp_path / "two.yaml", tmp_path / "out"
    path.write_text(PRIMES)
    found = []
    for more in ((), ("--mapspace", "even", "--factors", "perfect")):
        assert main(["fuse", "eyeriss", str(path), *more, "-o", str(folder)]) == 0
        text = " ".join(capsys.readouterr().out.split())
        found.append(json.loads((folder / "fusion.json").read_text())["fusion"])
        looked = f"{found[-1]['groups']} groups, {found[-1]['parts_mapped']} layer tiles"
        assert f"optimal (proved) among even mappings with perfect factors: {looked}" in text
        assert ("unfused layers: best found of mappings with remainders, even and uneven" in text) == (not more)
    wide, even = found
    assert even["groups"] > 0
    assert wide["unfused"]["energy_pj"] < 0.9 * even["unfused"]["energy_pj"]
    assert wide["totals"]["energy_pj"] <= min(wide["unfused"]["energy_pj"], even["totals"]["energy_pj"])
    assert wide["certificate"]["proved"]
    assert any("remainders" in each for each in wide["spaces_of_unfused_layers"])
    assert even["spaces_of_unfused_layers"] == ["even mappings with perfect factors"]


@pytest.mark.parametrize("objective", ["energy", "cycles", "edp"])
@pytest.mark.parametrize("steps", [0, 3, 33])
def test_fuse__stopped_at_any_time_is_written(network, tmp_path, monkeypatch, objective, steps):
    """The clock that a group looks at runs out after some steps; what is written then holds nothing of NumPy."""
    times = itertools.chain([0.0] * steps, itertools.repeat(1e9))
    monkeypatch.setattr("accelsim.fusion.search.time", SimpleNamespace(monotonic=lambda: next(times)))
    machine, workload = load_architecture("two_level", {"buffer": "256 B"}), load_workload(network)
    found = fuse(machine, workload, objective=objective, seconds=1e6, workers=1)
    document = fusion_json(found, Provenance("fuse", (), {}), [])
    assert _kinds(document) <= {bool, int, float, str, type(None)}
    assert json.loads(to_json(document))["fusion"]["certificate"]["bound"] <= found.certificate.value


def test_fuse__after_a_signal_writes_what_it_has(network, tmp_path, monkeypatch, capsys):
    """The signal comes as the first group is looked at, when every layer has a mapping of its own."""

    def signalled(*given, **options):
        monkeypatch.setattr(stopping._STATE, "number", 15)
        return fuse_group(*given, **options)

    monkeypatch.setattr("accelsim.fusion.network.fuse_group", signalled)
    assert main(["fuse", "two_level", network, "--set", SIZE, "-o", str(tmp_path / "out"), "--json"]) == 143
    found = json.loads((tmp_path / "out" / "fusion.json").read_text())["fusion"]
    assert found["stop"] == "interrupted"
    assert found["totals"]["energy_pj"] <= found["unfused"]["energy_pj"]
    assert json.loads(capsys.readouterr().out)["fusion"] == found


@pytest.mark.parametrize(
    ("workload", "overrides"),
    [("matmuls", {"KN": "64", "M": "64", "N_EINSUMS": "2"}), ("three_matmuls_annotated", {})],
    ids=["matmuls", "three_matmuls"],
)
def test_fuse__keeps_the_constraints_of_accelforges_tpu(shared, tmp_path, workload, overrides):
    """Fused and unfused energies are those that AccelForge finds; without its constraints both were lower."""
    folder = shared / "foreign" / "accelforge"
    files = [str(folder / "arches" / "tpu_v4i.yaml"), str(folder / "workloads" / "basic" / f"{workload}.yaml")]
    asked = [f"--set={key}={value}" for key, value in overrides.items()]
    asked += ["--mapspace", "even", "--factors", "perfect"]
    assert main(["fuse", *files, *asked, "-o", str(tmp_path / "out"), "-q"]) == 0
    found = json.loads((tmp_path / "out" / "fusion.json").read_text())
    with (shared / "golden" / "accelforge_fused" / "references.csv").open() as file:
        energies = {row["machine|workload|parameters|fusion"]: float(row["energy"]) for row in csv.DictReader(file)}
    case = f"tpu_v4i|{workload}|{','.join(f'{key}={value}' for key, value in overrides.items())}"
    for kind, total in (("fused", "totals"), ("unfused", "unfused")):
        assert found["fusion"][total]["energy_pj"] * 1e-12 == pytest.approx(energies[f"{case}|{kind}"], rel=1e-9)


def test_fuse__takes_constraints(network, tmp_path, capsys):
    """A buffer that keeps no inputs holds no intermediate; `none` leaves that out."""
    (tmp_path / "c.yaml").write_text("constraints: {levels: [{level: BUF, bypass: [Inputs]}]}")
    asked = ["fuse", "two_level", network, "--set", SIZE]
    assert main([*asked, "--constraints", "none"]) == 0
    free = capsys.readouterr().out
    assert "scores + soft_max + context" in free
    assert main([*asked, "--constraints", str(tmp_path / "c.yaml")]) == 0
    kept = capsys.readouterr().out
    assert kept.startswith("attention on two_level: nothing fused\n")
    assert "constraints require BUF to bypass Inputs of soft_max" in " ".join(kept.split())
    assert "scores + soft_max" not in kept
    (tmp_path / "c.yaml").write_text("constraints: {limits: [energy <= 1 mJ]}")
    assert main([*asked, "--constraints", str(tmp_path / "c.yaml")]) == 2
    assert "says nothing of the parts in which fused layers run" in capsys.readouterr().err


def test_fuse__looks_at_groups_of_few_layers_first(network, monkeypatch):
    """So that there is an answer early; what is found later is better."""
    many = []

    def looked(machine, group, *given, **options):
        many.append(len(group.layers))
        return fuse_group(machine, group, *given, **options)

    monkeypatch.setattr("accelsim.fusion.network.fuse_group", looked)
    fuse(load_architecture("two_level", {"buffer": "256 B"}), load_workload(network), workers=1)
    assert set(many) == {1, 2, 3}
    assert many == sorted(many)


@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_fuse__late_in_large_groups_has_the_best_of_small_ones(network, monkeypatch, objective):
    machine, workload, late = load_architecture("two_level", {"buffer": "256 B"}), load_workload(network), []
    asked = {"objective": objective, "workers": 1}
    short, sure = fuse(machine, workload, longest=2, **asked), fuse(machine, workload, **asked)

    def looked(machine, group, *given, **options):
        late.extend([True] if len(group.layers) > 2 else [])
        return (None, -math.inf) if late else fuse_group(machine, group, *given, **options)

    monkeypatch.setattr("accelsim.fusion.network.fuse_group", looked)
    monkeypatch.setattr(NetworkSearch, "is_late", lambda _: bool(late))
    found = fuse(machine, workload, **asked)
    assert late
    assert (
        sure.certificate.value < short.certificate.value < fuse(machine, workload, longest=1, **asked).certificate.value
    )
    assert found.totals == short.totals
    assert found.certificate.bound <= sure.certificate.value


def test_map__fuses_a_network_as_fuse_does(network, tmp_path, capsys):
    arguments = [
        "two_level",
        str(network),
        "--set",
        "buffer=256 B",
        "--mapspace",
        "even",
        "--factors",
        "perfect",
        "--json",
    ]
    assert main(["map", *arguments, "--fuse"]) == 0
    mapped = json.loads(capsys.readouterr().out)
    assert main(["fuse", *arguments]) == 0
    assert mapped["fusion"] == json.loads(capsys.readouterr().out)["fusion"]
    for command in (["map", "--fuse"], ["fuse"]):
        page, tree = (str(tmp_path / command[0] / name) for name in ("page.html", "tree.svg"))
        assert main([*command, *arguments, "--html", page, "--plot", tree]) == 0
    capsys.readouterr()
    for name in ("page.html", "tree.svg"):
        assert (tmp_path / "map" / name).read_bytes() == (tmp_path / "fuse" / name).read_bytes()
    for more, what in (
        (["--pareto"], "--pareto"),
        (["--top", "3"], "--top"),
        (["--set", "bits=8,16"], "several values"),
    ):
        assert main(["map", *arguments, "--fuse", *more]) == 2
        assert f"argument --fuse: not with {what}" in capsys.readouterr().err
    assert main(["fuse", "systolic_vector", *arguments[1:]]) == 2
    assert "systolic_vector: a system of cores, and one architecture is needed" in capsys.readouterr().err
