"""`accelsim fuse`: its report, files and mistakes; its picture."""

from __future__ import annotations

import csv
import itertools
import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from accelsim import load_architecture, load_workload
from accelsim.cli.main import main
from accelsim.fusion.chain import find_lines
from accelsim.fusion.network import NetworkSearch
from accelsim.fusion.result import fusion_json
from accelsim.fusion.search import Solutions, fuse_chain
from accelsim.fusion.tiling import most_tilings
from accelsim.results import Provenance, to_json
from accelsim.search import stopping
from accelsim.show.plots import figure_bytes
from accelsim.show.plots.result import fusion_table, plot_fusion
from tests.test_fusion import fuse

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
    """A head of 8 x 8 scores twice, 256 B, leaves no room in a buffer of 256 B: query rows are cut."""
    assert main(["fuse", "two_level", network, "--set", SIZE]) == 0
    text = capsys.readouterr().out
    assert "scores + soft_max + context" in text.replace("\n", " ")
    assert "\noptimal (proved) among even mappings with perfect factors: 3 chains, " in text
    assert "for M in [0:" in text
    assert "for N" not in text
    assert "> Outputs of soft_max in BUF:" in text


def test_fuse__writes_and_prints_the_same(network, tmp_path, capsys):
    folder = tmp_path / "out"
    assert main(["fuse", "two_level", network, "--set", SIZE, "-o", str(folder), "--json"]) == 0
    printed = capsys.readouterr().out
    assert (folder / "fusion.json").read_text() == printed
    assert {path.name for path in folder.iterdir()} == {"fusion.json", "fusion.png", "fusion.svg"}
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
        (["--chain", "scores"], "a chain has two layers at least"),
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
    - {name: before, gemm: {M: 6, N: 4, K: 2}}
    - {name: up, from: before, gemm: {M: 6, N: 8, K: 4}}
    - {name: down, from: up, gemm: {M: 6, N: 4, K: 8}}
    - name: sum
      from: {Inputs: down, Residual: before}
      einsum:
        dims: {M: 6, N: 4}
        tensors: {Inputs: [M, N], Residual: [M, N], Outputs: [M, N]}
        output: Outputs
"""


def test_fuse__a_residual_sum_is_printed_and_kept(tmp_path, capsys):
    """Tokens of 4 words between the first layer and the sum: they come from the memory once."""
    path, folder = tmp_path / "block.yaml", tmp_path / "out"
    path.write_text(BLOCK)
    arguments = ["fuse", "two_level", str(path), "--set", "buffer=256 B"]
    assert main([*arguments, "-o", str(folder)]) == 0
    assert "> Inputs of up stays in BUF as Residual of sum: " in capsys.readouterr().out
    found = json.loads((folder / "fusion.json").read_text())["fusion"]
    (fused,) = (each["fused"] for each in found["segments"] if each["fused"])
    assert [fused["shortcut"][key] for key in ("tensor", "layer", "again")] == ["Inputs", "sum", "Residual"]
    assert main([*arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert (json.loads(out)["fusion"], err) == (found, "")


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
        assert "optimal (proved) among even mappings with perfect factors: 1 chain, " in text
        assert ("unfused layers: best found of mappings with remainders, even and uneven" in text) == (not more)
        found.append(json.loads((folder / "fusion.json").read_text())["fusion"])
    wide, even = found
    assert wide["unfused"]["energy_pj"] < 0.9 * even["unfused"]["energy_pj"]
    assert wide["totals"]["energy_pj"] <= min(wide["unfused"]["energy_pj"], even["totals"]["energy_pj"])
    assert wide["certificate"]["proved"]
    assert any("remainders" in each for each in wide["spaces_of_unfused_layers"])
    assert even["spaces_of_unfused_layers"] == ["even mappings with perfect factors"]


@pytest.mark.parametrize("objective", ["energy", "cycles", "edp"])
@pytest.mark.parametrize("steps", [0, 3, 33])
def test_fuse__stopped_at_any_time_is_written(network, tmp_path, monkeypatch, objective, steps):
    """The clock that a chain looks at runs out after some steps; what is written then holds nothing of NumPy."""
    times = itertools.chain([0.0] * steps, itertools.repeat(1e9))
    monkeypatch.setattr("accelsim.fusion.search.time", SimpleNamespace(monotonic=lambda: next(times)))
    machine, workload = load_architecture("two_level", {"buffer": "256 B"}), load_workload(network)
    found = fuse(machine, workload, objective=objective, seconds=1e6, workers=1)
    document = fusion_json(found, Provenance("fuse", (), {}), [])
    assert _kinds(document) <= {bool, int, float, str, type(None)}
    assert json.loads(to_json(document))["fusion"]["certificate"]["bound"] <= found.certificate.value


def test_fuse__after_a_signal_writes_what_it_has(network, tmp_path, monkeypatch, capsys):
    """The signal comes as the first chain is looked at, when every layer has a mapping of its own."""
    looked = Solutions.fused_tilings

    def signalled(*given):
        monkeypatch.setattr(stopping._STATE, "number", 15)
        return looked(*given)

    monkeypatch.setattr(Solutions, "fused_tilings", signalled)
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


@pytest.fixture
def few(network, monkeypatch):
    """Only rows of two layers have few fused tilings; how many."""
    (line,) = find_lines(load_workload(network)).lines
    found = max(most_tilings(line.chain(0, 2)), most_tilings(line.chain(1)))
    assert 1 < found < most_tilings(line.chain())
    monkeypatch.setattr("accelsim.fusion.network.FEW_TILINGS", found)
    return found


def test_fuse__looks_at_rows_of_few_tilings_first(network, few, monkeypatch):
    """So that there is an answer early; what is found later is better."""
    many = []

    def looked(machine, chain, *given, **options):
        many.append(most_tilings(chain) > few)
        return fuse_chain(machine, chain, *given, **options)

    monkeypatch.setattr("accelsim.fusion.network.fuse_chain", looked)
    fuse(load_architecture("two_level", {"buffer": "256 B"}), load_workload(network), workers=1)
    assert set(many) == {False, True}
    assert many == sorted(many)


@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_fuse__late_in_long_rows_has_the_best_of_short_ones(network, few, monkeypatch, objective):
    machine, workload, late = load_architecture("two_level", {"buffer": "256 B"}), load_workload(network), []
    asked = {"objective": objective, "workers": 1}
    short, sure = fuse(machine, workload, longest=2, **asked), fuse(machine, workload, **asked)

    def looked(machine, chain, *given, **options):
        late.extend([True] if most_tilings(chain) > few else [])
        return (None, -math.inf) if late else fuse_chain(machine, chain, *given, **options)

    monkeypatch.setattr("accelsim.fusion.network.fuse_chain", looked)
    monkeypatch.setattr(NetworkSearch, "is_late", lambda _: bool(late))
    found = fuse(machine, workload, **asked)
    assert late
    assert (
        sure.certificate.value < short.certificate.value < fuse(machine, workload, longest=1, **asked).certificate.value
    )
    assert found.totals == short.totals
    assert found.certificate.bound <= sure.certificate.value
