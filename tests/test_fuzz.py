"""Five hundred damaged files, and the small inputs that once ended in a fault."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from accelsim.inputs import library

ROOT = Path(__file__).resolve().parents[1]
CALIBRATION = ROOT / "accelsim/gpu/calibrations/a100_sxm_80gb_mma.json"


def test_damaged_files__end_in_no_fault():
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--cases", "300"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "300 cases" in done.stdout
    assert " 0 faults" in done.stdout
    assert {"validation.timeloop_files", "gpu profile", "map"} <= {
        line.partition("  ")[0] for line in done.stdout.splitlines()
    }


EINSUM = "workload: {name: w, einsum: {dims: {M: 4, K: 6}, tensors: {A: [M, K], B: [K], C: [M]}, output: C}}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (EINSUM.replace("output: C", "output: $nope"), "einsum.output: parameter $nope is not defined"),
        (EINSUM.replace("output: C", "output: !x C"), "einsum.output: YAML tag '!x' is not read"),
        (EINSUM.replace("C: [M]", "C: $nope"), "einsum.tensors.C: parameter $nope is not defined"),
        (EINSUM.replace("{M: 4, K: 6}", "$nope"), "einsum.dims: parameter $nope is not defined"),
        ("[" * 1000, "nested too deeply"),
    ],
)
def test_workloads__with_a_value_that_cannot_be_read_have_one_mistake(run, tmp_path, monkeypatch, text, said):
    monkeypatch.chdir(tmp_path)
    Path("w.yaml").write_text(text)
    code, _, complained = run("map", "two_level", "w.yaml")
    assert code == 2
    (line,) = complained.splitlines()
    assert said in line


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda body: body["errors"].pop("fit"), "'fit' is missing"),
        (lambda body: body["values"].update(dram_efficiency=0), "dram_efficiency must be a number above 0"),
        (lambda body: body["values"].update(pj_per_flop=0), "pj_per_flop must be a number above 0"),
        (lambda body: body["values"].update(launch_us=10**400), "int too large to convert to float"),
        (lambda body: body["values"].update(launch_us=1e300), "launch_us must be a number from 0 to 1e+12"),
        (lambda body: body.update(interval=[float("nan"), 1]), "interval must be two numbers above 0"),
        (lambda body: body.update(interval=[2, 1]), "interval must be two numbers above 0, the lower one first"),
    ],
)
def test_calibrations__that_were_changed_are_refused(run, tmp_path, change, said):
    document = json.loads(CALIBRATION.read_text())
    change(document["gpu_calibration"])
    file = tmp_path / "c.json"
    file.write_text(json.dumps(document))
    code, _, complained = run("gpu", "gemm", "a100", 512, 512, 64, "--dtype", "bf16", "--calibration", file)
    assert (code, complained.count("\n")) == (2, 1)
    assert said in complained


def test_json__nested_too_deeply_is_bad_input(run, tmp_path):
    deep = tmp_path / "result.json"
    deep.write_text("[" * 100_000)
    code, _, complained = run("gpu", "gemm", "a100", 5, 5, 5, "--calibration", deep)
    assert code == 2
    assert "nested too deeply" in complained


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ("12,0", "p.csv:2:4: a run takes 0"),
        ("12,1e17", "p.csv:2:4: a run takes 1e+17"),
        ("12,1e300", "p.csv:2:4: Med (ns): expected a number of at most 1e+18, got '1e300'"),
        ("12,1e400", "p.csv:2:4: Med (ns)"),
        ("1e400,5", "p.csv:2:1: Instances"),
    ],
)
def test_profiles__with_a_number_that_no_run_has_are_refused(run, tmp_path, monkeypatch, cells, said):
    monkeypatch.chdir(tmp_path)
    Path("p.csv").write_text(f"Instances,Med (ns),NVTX Range,Kernel Name\n{cells},a M=64 N=64 K=64,gemm\n")
    code, _, complained = run("gpu", "profile", "a100", "p.csv")
    assert code == 2
    assert said in complained


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a [*a]", "alias '*a' stands for itself"),
        (
            "\n".join(["a0: &a0 [x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9))]),
            "more than 100,000 values, aliases resolved",
        ),
    ],
)
def test_timeloop__aliases_that_stand_for_too_much_are_not_followed(validate, tmp_path, text, said):
    (tmp_path / "input.yaml").write_text(text)
    (tmp_path / "result.json").write_text("{}")
    code, out, _ = validate("timeloop", tmp_path)
    assert code == 1
    assert said in " ".join(out.split())


def test_gpus__with_a_sparse_peak_alone_are_refused(run, tmp_path):
    import mutations

    tree = mutations.read_yaml((library.root("gpus") / "a100_sxm_80gb.yaml").read_text())
    body = dict(tree)["gpu"]
    peaks = dict(body)["peak_tflops"]
    peaks.remove(next(entry for entry in peaks if entry[0] == "fp16"))
    (tmp_path / "g.yaml").write_text(mutations.write(tree))
    code, _, complained = run("gpu", "gemm", tmp_path / "g.yaml", 512, 512, 64)
    assert code == 2
    assert "peak_tflops_sparse: 'fp16' has no peak_tflops; add it there" in complained


@pytest.mark.parametrize("name", ["llama_decode", "conv1d"])
def test_values__that_cannot_be_read_are_the_only_mistakes_of_a_workload(name, tmp_path):
    """A value in the place of which a default would stand has no further mistakes to answer for."""
    import mutations

    from accelsim.cli.inspecting import check_files

    text = library.resolve(name, "workloads").read_text()
    file, tree = tmp_path / "w.yaml", mutations.read_yaml(text)
    places = list(mutations.places_in(dict(tree)["workload"]))
    for holder, at in places[:60]:
        kept, holder[at] = holder[at], "$nope"
        file.write_text(mutations.write(tree))
        holder[at] = kept
        found = check_files([file])
        assert [problem for problem in found if "$nope" not in problem.what] == []
        assert found


BANKED = """architecture:
  name: banked
  technology: 28 nm
  energy_table: components
  levels:
    - {name: DRAM, class: DRAM, attributes: {type: LPDDR4}, word: 8 bit}
    - {name: BUF, class: SRAM, attributes: {banks: 16}, size: 4 KiB, word: 8 bit}
  compute: {name: MAC, class: intmac, attributes: {format: int8, psums: int32}}
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("size: 4 KiB", "size: {}", "size: expected a size, or one for each role, got an empty mapping"),
        ("banks: 16", "banks: 16, size: 0 B", "size: '0 bit' is zero"),
        ("banks: 16", "banks: 16, width: 0 bit", "width: '0 bit' is zero"),
    ],
)
def test_machines__with_banks_of_nothing_have_no_estimate(run, tmp_path, old, new, said):
    (tmp_path / "a.yaml").write_text(BANKED.replace(old, new))
    code, _, complained = run("check", tmp_path / "a.yaml")
    assert code == 2
    assert said in complained


FREE = """
architecture:
  name: free
  clock: 1 GHz
  levels:
    - {name: DRAM, class: DRAM, word: 8 bit, bandwidth: 8 GB/s, energy: {read: 0 pJ, write: 0 pJ}}
    - {name: Buf, class: SRAM, word: 8 bit, size: 1 KiB, energy: {read: 0 pJ, write: 0 pJ}, fanout: {x: 4}}
  compute: {name: MAC, class: intmac, energy: {compute: 0 pJ}}
"""
PRODUCTS = """
workload:
  name: products
  layers:
    - {name: a, gemm: {M: 8, N: 4, K: 4}, bits: {Inputs: 8, Weights: 8, Outputs: 8}}
    - {name: b, gemm: {M: 8, N: 2, K: 4}, bits: {Inputs: 8, Weights: 8, Outputs: 8}}
"""


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("map", "--layer", "a", "-o", "out"), 0),
        (("map", "--layer", "a", "-O", "edp", "--top", "3", "--sensitivity"), 0),
        (("map", "--layer", "a", "--factors", "imperfect", "--mapspace", "uneven"), 0),
        (("map", "--html", "a.html", "--layer", "a"), 0),
        (("map", "--layer", "a", "--pareto", "energy,cycles"), 0),
        (("map",), 0),
        (("fuse", "-o", "fused"), 0),
        (("spread", "--layer", "a"), 0),
        (("spread", "--layer", "a", "--html", "b.html"), 2),
        (("sizing", "--layer", "a"), 0),
        (("sizing", "--layer", "a", "--plot", "sizing.png"), 2),
        (("roofline",), 0),
    ],
)
def test_machines__that_cost_no_energy_are_mapped_and_shown(run, tmp_path, monkeypatch, command, code):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "free.yaml").write_text(FREE)
    (tmp_path / "products.yaml").write_text(PRODUCTS)
    name, *options = command
    ended, printed, complained = run(name, "free.yaml", "products.yaml", *options)
    assert ended == code
    assert not re.search(r"\bnan\b|\binf\b|internal error", printed + complained)
    assert code == 0 or "0 pJ" in complained or "nothing to draw" in complained
