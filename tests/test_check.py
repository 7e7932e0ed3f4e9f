# ruff: noqa: E501, the golden text is as long as the messages are
"""Checking files: messages pinned as golden text, and no input that ends in a traceback."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.cli.inspecting import check_files
from accelsim.inputs import library
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.errors import AccelsimError, Problem
from accelsim.inputs.mapping import load_mapping
from accelsim.inputs.workload_reader import load_workload
from tests.conftest import load_energy_table

BROKEN = Path(__file__).parent / "broken"
GOOD = {"machine", "layer", "table"}
GOLDEN = {
    "alias": r"""
alias.yaml:6:14: layers[2].name: YAML tag 'tag:yaml.org,2002:python/name:os.system' is not read; leave it out
""",
    "bits": r"""
bits.yaml:3:10: bits: 'Weight' is neither a tensor nor a role; did you mean 'Weights'?
""",
    "conv": r"""
conv.yaml:4:26: layers[0].conv: expected either P and Q (output size) or H and W (input size without padding), got P, H
conv.yaml:5:73: layers[1].conv.groups: 3 groups do not divide K = 4
conv.yaml:6:30: layers[2].conv.K: must be at least 1, got 0
conv.yaml:6:36: layers[2].conv.C: must be at least 1, got -1
conv.yaml:6:43: layers[2].conv.P: expected a whole number, got '1e5'; write 100000
conv.yaml:6:51: layers[2].conv.Q: expected a whole number, got 'many'
conv.yaml:6:77: layers[2].conv.stride: expected one whole number or [h, w], got a list of 3
conv.yaml:6:98: layers[2].conv.padding[0]: must be at least 0, got -1
conv.yaml:7:43: layers[3].conv.H: the output would be empty: the kernel spans 5 points and the padded input has 4
conv.yaml:8:14: layers[4].name: two layers are named 'empty', first at line 7
conv.yaml:8:29: layers[4].repeat: must be at least 1, got 0
conv.yaml:8:38: layers[4].gemm: 'K' is missing: the reduction
conv.yaml:8:57: layers[4].gemm.pass: expected one of forward, input_gradient, weight_gradient, got 'backward'
conv.yaml:9:7: layers[5]: 'name' is missing: its name, different from all others
conv.yaml:9:7: layers[5]: expected one of conv, gemm, einsum; got conv and gemm
conv.yaml:10:7: layers[6]: expected one of conv, gemm, einsum; got none
conv.yaml:10:36: layers[6].bits.Weights: expected a whole number, got '8 bit'; write 8
""",
    "duplicate_key": r"""
duplicate_key.yaml:3:46: conv: key 'K' is given twice, first at line 3
duplicate_key.yaml:4:3: key 'name' is given twice, first at line 2
""",
    "einsum": r"""
einsum.yaml:5:53: layers[0].einsum.tensors.A[1]: dimension 'L' is not defined; dimensions: M, K
einsum.yaml:7:29: layers[1].einsum.dims.K: no tensor uses this dimension; leave it out
einsum.yaml:9:69: layers[2].einsum.output: 'Inputs' is not one of the tensors; did you mean 'Input'?
einsum.yaml:11:87: layers[3].einsum.roles.A: expected a role (Weights, Inputs, Outputs), got 'Weigths'; did you mean 'Weights'?
einsum.yaml:13:47: layers[4].einsum.tensors.A[1]: dimension 'M' stands twice in this tensor; it may stand in one rank only
einsum.yaml:15:44: layers[5].einsum.tensors.A[0]: cannot read the rank '2M'; write a sum like 2*P + R, with whole factors from 1
einsum.yaml:15:53: layers[5].einsum.tensors.B[0]: cannot read the rank '0*M'; write a sum like 2*P + R, with whole factors from 1
einsum.yaml:15:62: layers[5].einsum.tensors.C: expected a list of ranks like [C, 2*P+R], got 'M'
""",
    "energy_ambiguous": r"""
energy_ambiguous.yaml:7:26: levels[1].class: 2 entries of the energy table 'table' match equally well; give `attributes` that only one of them has
""",
    "energy_missing": r"""
energy_missing.yaml:5:7: levels[0]: no energy for 'write' here, and the energy table 'table' has none either; add `energy: {write: … pJ}`
energy_missing.yaml:6:7: levels[1]: no energy for 'read' of Inputs, Outputs here, and the energy table 'table' has none either; add `energy: {read: … pJ}`
energy_missing.yaml:6:7: levels[1]: no energy for 'write' of Outputs here, and the energy table 'table' has none either; add `energy: {write: … pJ}`
energy_missing.yaml:7:12: compute: no energy for 'compute' here, and the energy table 'table' has none either; add `energy: {compute: … pJ}`
""",
    "energy_table": r"""
energy_table.yaml:4:21: entries[0].tecnology: unknown key; did you mean 'technology'?
energy_table.yaml:5:30: entries[1].energy.raed: unknown key; did you mean 'read'?
energy_table.yaml:6:7: entries[2]: 'source' is missing: where the entry comes from
energy_table.yaml:6:37: entries[2].energy.read.Weight: unknown key; did you mean 'Weights'?
energy_table.yaml:7:7: entries[3]: expected a mapping with the keys class, technology, attributes, energy, area, source, got 'DRAM'
""",
    "kind": r"""
kind.yaml:1:1: unknown key 'workloads'; did you mean 'workload'?
""",
    "levels": r"""
levels.yaml:8:15: levels[0].bypass: the first level keeps everything; leave `bypass` out
levels.yaml:10:7: levels[1]: 'size' is missing; only the first level may be unlimited: the list begins with the outermost
levels.yaml:13:23: levels[1].keep[1]: expected a role (Weights, Inputs, Outputs), got 'Input'; did you mean 'Inputs'?
levels.yaml:14:15: levels[1].bypass: 'Outputs' is listed twice
levels.yaml:14:15: levels[1].bypass: Weights: both kept and bypassed; take it out of one of the lists
levels.yaml:16:13: levels[2].name: two levels are named 'GLB', first at line 10
levels.yaml:18:13: levels[2].size: Inputs is kept but has no partition; add `Inputs: …` to the size
levels.yaml:18:23: levels[2].size.Weights: '1 bit' is less than one word of 16 bit
levels.yaml:21:18: levels[2].bandwidth: '1 GB/s' is per second, but the architecture has no clock; add `clock: 1 GHz`, or write it per cycle
levels.yaml:21:18: levels[2].bandwidth: stands beside 'read_bandwidth'; write `bandwidth`, or `read_bandwidth` and `write_bandwidth`
levels.yaml:23:19: levels[2].block_size: must be at least 1, got 0
levels.yaml:24:19: levels[2].fanout.x: 'size' is missing: instances along the axis
levels.yaml:24:31: levels[2].fanout.x.multicast: expected true or false, got 'maybe'
levels.yaml:24:42: levels[2].fanout.y: must be at least 1, got -3
levels.yaml:26:19: compute.name: a level is named 'DRAM' too
levels.yaml:26:56: compute.cycles_per_mac: expected a whole number, got '1.5'
""",
    "mapping_form": r"""
mapping_form.yaml:4:17: levels[0].temporal: two loops over M stand in one block; write one with their product
mapping_form.yaml:4:18: levels[0].temporal[0]: expected a loop like K=4, got 'K4'
mapping_form.yaml:4:22: levels[0].temporal[1]: the bound of a loop is at least 1, got 'C=0'
mapping_form.yaml:5:7: levels[0].spacial: unknown key; did you mean 'spatial'?
mapping_form.yaml:6:7: levels[1]: 'level' is missing: name of the level
mapping_form.yaml:6:17: levels[1].temporal: expected a list, got 'K=2'
mapping_form.yaml:7:28: levels[2].spatial: expected a mapping with the keys x, y, got a list
mapping_form.yaml:7:41: levels[2].keep: 'Weights' is listed twice
""",
    "mapping_keep": r"""
mapping_keep.yaml:4:13: levels[0].keep: 'Inputs' is not listed, but the first level keeps everything
mapping_keep.yaml:4:13: levels[0].keep: 'Outputs' is not listed, but the first level keeps everything
mapping_keep.yaml:6:7: levels[1]: 'keep' is missing: the architecture leaves a choice for Inputs; list what is kept
mapping_keep.yaml:8:13: levels[2].keep: 'Output' is no tensor of layer; did you mean 'Outputs'?
mapping_keep.yaml:8:13: levels[2].keep: 'Outputs' is not listed, but RF always keeps it
""",
    "mapping_levels": r"""
mapping_levels.yaml:3:5: levels: level 'GLB' is missing; a level without loops is `- level: NAME` alone
mapping_levels.yaml:3:5: levels: level 'RF' is missing; a level without loops is `- level: NAME` alone
mapping_levels.yaml:3:5: levels: the loops over K multiply to 1, but K is 6 in layer; a loop K=6 is missing
mapping_levels.yaml:5:14: levels[1].level: 'GBL' is no level of machine; did you mean 'GLB'?
mapping_levels.yaml:7:14: levels[2].level: level 'DRAM' is given twice, with other levels in between; the places where it keeps tensors stand next to each other
""",
    "mapping_loops": r"""
mapping_loops.yaml:4:18: levels: the loops over M multiply to 4, but M is 8 in layer; a loop M=2 is missing
mapping_loops.yaml:4:23: levels[0].temporal[1]: 'P' is no dimension of layer; dimensions: M, N, K
mapping_loops.yaml:7:26: levels: the loops over N multiply to 8, but N is 4 in layer; `imperfect: [N]` allows a remainder
""",
    "no_such_table": r"""
no_such_table.yaml:3:17: energy_table: cmos_45mn: no such file, and none of that name is shipped with accelsim; did you mean 'cmos_45nm'?
""",
    "params": r"""
params.yaml:4:6: params.b: parameters need each other: $a -> $b -> $a
params.yaml:8:13: gemm.M: parameter $pe.z is not defined; did you mean 'pe.y'?
params.yaml:8:23: gemm.N: $pe is a group of parameters; use one of them: $pe.x, $pe.y
params.yaml:8:31: gemm.K: '$pe.x / $pe.y' is 7/6, not a whole number; // divides and rounds down
params.yaml:9:11: repeat: $glb is '64 KiB'; arithmetic needs whole numbers
params.yaml:10:19: bits.Weights: expected a whole number, got '64 KiB' ($glb)
params.yaml:10:46: bits.Outputs: a ) is missing in '2 * ($pe.x'
params.yaml:10:67: bits.psums: cannot read 'KiB' in '$pe.x KiB'; arithmetic has whole numbers, $names, + - * / // and ( )
""",
    "syntax": r"""
syntax.yaml:4:9: not valid YAML: '}' or ',' is missing: a bracket of line 3 is open
""",
    "unknown_key": r"""
unknown_key.yaml:8:7: levels[0].bandwith: unknown key; did you mean 'bandwidth'?
""",
    "wrong_units": r"""
wrong_units.yaml:3:15: technology: unknown unit 'mm'; units: nm
wrong_units.yaml:4:10: clock: unknown unit 'Mhz'; did you mean 'MHz'? units: Hz, kHz, MHz, GHz
wrong_units.yaml:8:13: levels[0].word: '16' has no unit; write it like '128 KiB' or '16 bit'; units: bit, Kbit, kbit, Mbit, Gbit, B, KB, kB, MB, GB, TB, KiB, MiB, GiB, TiB
wrong_units.yaml:9:18: levels[0].bandwidth: unknown unit 'GiB'; did you mean 'GiB/s'? units: words/cycle, or per s or cycle one of bit, Kbit, kbit, Mbit, Gbit, B, KB, kB, MB, GB, TB, KiB, MiB, GiB, TiB
wrong_units.yaml:10:22: levels[0].energy.read: unknown unit 'pj/bit'; did you mean 'pJ/bit'? units: fJ, pJ, nJ, uJ, fJ/bit, pJ/bit, nJ/bit, uJ/bit
wrong_units.yaml:10:39: levels[0].energy.write: '-8 pJ' is negative
wrong_units.yaml:13:13: levels[1].size: unknown unit 'kib'; did you mean 'KiB'? units: bit, Kbit, kbit, Mbit, Gbit, B, KB, kB, MB, GB, TB, KiB, MiB, GiB, TiB
wrong_units.yaml:14:13: levels[1].word: '0 bit' is zero
wrong_units.yaml:15:22: levels[1].energy.read: 'lots' is not a number with a unit; write it like '0.8 pJ'
wrong_units.yaml:15:47: levels[1].energy.leak: 'leak' has no energy per bit; write it in pJ
wrong_units.yaml:16:46: compute.energy.compute: 'compute' has no energy per bit; write it in pJ
""",
}


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_check_files__says_what_is_wrong_and_where(name, monkeypatch):
    monkeypatch.chdir(BROKEN)
    paths = [f"{name}.yaml"]
    if name.startswith("mapping_") and name != "mapping_form":
        paths = ["machine.yaml", "layer.yaml", *paths]
    assert "\n".join(map(str, check_files(paths))) == GOLDEN[name].strip()


def test_broken_files__are_all_pinned():
    assert {path.stem for path in BROKEN.glob("*.yaml")} == GOLDEN.keys() | GOOD


def test_check_files__finds_nothing_in_good_files():
    assert check_files([BROKEN / f"{name}.yaml" for name in sorted(GOOD)]) == []


@pytest.mark.parametrize("kind", library.KINDS)
def test_check_files__finds_nothing_in_shipped_files(kind):
    assert check_files(library.shipped(kind)) == []


def test_check_files__collects_the_mistakes_of_all_files(monkeypatch):
    monkeypatch.chdir(BROKEN)
    found = check_files(["bits.yaml", "kind.yaml", "absent.yaml", "."])
    assert [problem.mark.file for problem in found] == [".", "absent.yaml", "bits.yaml", "kind.yaml"]
    assert [problem.what for problem in found[:2]] == ["is a directory, not a file", "no such file"]


def test_check_files__reports_overrides_that_no_file_defines(tmp_path):
    (tmp_path / "w.yaml").write_text("params: {m: 4, pe: {x: 1}}\nworkload: {name: w, gemm: {M: $m, N: $pe.x, K: 4}}\n")
    files = [tmp_path / "w.yaml", BROKEN / "machine.yaml"]
    assert check_files(files, {"m": "8"}) == []
    assert [str(problem) for problem in check_files(files, {"m": "8", "pe.y": "2"})] == [
        "--set:2:1: pe.y: no file defines this parameter; did you mean 'pe.x'?"
    ]
    assert "names a group of parameters; set one of pe.x" in str(check_files(files, {"pe": "2"})[0])


def test_check_files__reads_models_as_workloads(tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx_models import Graph

    graph = Graph()
    onnx.save(graph.model(graph.linear(graph.input("x", "rows", 8), 8, 4)), tmp_path / "net.onnx")
    with pytest.raises(AccelsimError, match="the model leaves open how large rows is"):
        check_files([tmp_path / "net.onnx"])
    assert check_files([tmp_path / "net.onnx"], {"rows": "3"}) == []


def test_check_files__checks_a_mapping_alone_for_its_form(tmp_path):
    (tmp_path / "m.yaml").write_text("mapping: {levels: [{level: X, temporal: [Z=3]}]}\n")
    assert check_files([tmp_path / "m.yaml"]) == []
    found = check_files([BROKEN / "machine.yaml", BROKEN / "layer.yaml", tmp_path / "m.yaml"])
    assert any("'Z' is no dimension of layer" in problem.what for problem in found)


def test_check__starts_quickly_without_heavy_imports():
    code = (
        "import sys, accelsim.cli.inspecting, accelsim.inputs.library;"
        "heavy = {'numpy', 'numba', 'matplotlib', 'rich', 'networkx'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0
    assert time.perf_counter() - start < 5  # 0.1 s on an idle machine


SOURCES = [path.read_text(encoding="utf-8") for path in sorted(BROKEN.glob("*.yaml"))]
TOKENS = [
    *("$", "$pe", "$pe.x + ", "{", "}", "[", "]", ":", ", ", "\n", "  ", "- ", "\t", "\x00", "\x85", "\u2028", "é"),
    *(
        "'",
        '"',
        "&a",
        "*a",
        "!!int",
        "|",
        ">",
        "%",
        "@",
        "---\n",
        "...",
        "? ",
        "<<: ",
        "# ",
        "\\",
        '"\\UFFFFFFFF"',
        '"\\uD800"',
    ),
    *(
        "0",
        "-1",
        "1e400",
        "9" * 25,
        "9" * 5000,
        "null",
        "~",
        "(",
        ")",
        "*",
        "//0",
        "K=",
        "x: ",
        "{}",
        "[]",
        "''",
        "[" * 200,
    ),
]


@st.composite
def mutated(draw) -> str:
    """A file with a few random deletions, insertions and pieces of other files."""
    text = draw(st.sampled_from(SOURCES))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = start + draw(st.sampled_from([0, 0, 1, 2, 5, 30]))
        other = draw(st.sampled_from(SOURCES))
        piece = st.integers(0, len(other)).map(lambda i, other=other: other[i : i + 20])
        text = text[:start] + draw(st.one_of(st.just(""), st.sampled_from(TOKENS), piece)) + text[end:]
    return text


@given(
    data=st.one_of(mutated().map(str.encode), st.binary(max_size=60)), override=st.sampled_from(["3", "[1, 2]", "$b"])
)
def test_loaders__raise_nothing_but_their_own_errors(tmp_path_factory, data, override):
    path = tmp_path_factory.getbasetemp() / "mutated.yaml"
    path.write_bytes(data)
    overrides = {"pe.x": override}
    architecture = load_architecture(BROKEN / "machine.yaml")
    einsum = load_workload(BROKEN / "layer.yaml").layers[0]
    for problem in check_files([path], overrides):
        assert isinstance(problem, Problem)
        assert str(problem).encode()
        assert "\n" not in str(problem).strip()
    loaders = [
        lambda: load_architecture(path, overrides),
        lambda: load_workload(path, overrides),
        lambda: load_energy_table(path, overrides),
        lambda: load_mapping(path, architecture, einsum, overrides),
    ]
    for load in loaders:
        with contextlib.suppress(AccelsimError):
            load()


def test_warnings__are_said_once_with_their_place_and_refuse_nothing(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    machine = library.find("two_level", "arch").read_text()
    Path("a.yaml").write_text(machine.replace("\n  name:", "\n  technology: 1000000000 nm\n  name:"))
    layer = "workload: {name: w, conv: {K: 1, C: 1, H: 4, W: 4, R: 3, S: 2, dilation: [1, 2], padding: [PADS, 2]}}"
    Path("w.yaml").write_text(layer.replace("PADS", "1000"))
    said = """
a.yaml:6:15: warning: technology: '1000000000 nm' is no technology node; nodes are from 1 to 1000 nm, such as 28 nm
w.yaml:1:91: warning: conv.padding: some outputs of a kernel over 3 rows see nothing but the padding of 1000; with 2 at most, each sees the input
"""
    for command in (["check"], ["map", "--no-cache", "--quiet", "--json"]):
        code, _, err = run(*command, "a.yaml", "w.yaml")
        assert (code, sorted(err.splitlines())) == (0, said.split("\n")[1:-1])
    Path("w.yaml").write_text(layer.replace("PADS", "2"))
    assert run("check", "w.yaml")[2] == ""
