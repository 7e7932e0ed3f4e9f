"""Timeloop's files: what is refused, and in which words."""

import os
import time
from pathlib import Path

import pytest

from accelsim.importers.foreign import read_foreign
from accelsim.importers.values import FormulaError, work_out
from accelsim.inputs.errors import AccelsimError, InputError
from tests.timeloop_files import MAPPING, PROBLEM, V03, V04


def test_mapping__of_fused_einsums_is_refused(imported):
    with pytest.raises(InputError, match=":1:1: mapping: one of several fused Einsums"):
        imported(V03, PROBLEM, "mapping: {type: fused, nodes: [{type: storage, target: 0}]}\n")


BOMB = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, "the file stands for more than 100,000 values"),
        ("a: &a [*a]", "stands for itself"),
        ("[" * 5000, "nested too deeply"),
        ("a: !!python/object/apply:os.system [ls]", ":1:4: YAML tag"),
        ("{{ ().__class__ }}: 1", ":1:1: the template reaches for an attribute"),
        ("{{ cycler('a') }}: 1", "the template calls something"),
        ("a: {{ include_text('../secret.yaml') }}", "'../secret.yaml' lies outside"),
        ("a: !include ../secret.yaml", ":1:4: '../secret.yaml' lies outside"),
        ("a: !include 0.yaml", "files include too many files, or themselves"),
        ("a: !include /dev/zero", "lies outside"),
        ("a: !include none.yaml", "'none.yaml' is included and does not exist"),
        ("a: {{ include_text('/etc/passwd') }}", "'/etc/passwd' lies outside"),
        ("a: {{ include_text('0.yaml') }}", "include too many files, or themselves"),
        ("{% for i in range(10 ** 9) %}x{% endfor %}", "a loop of more than 300 steps"),
        ("{% set a = 'x' %}" + "{% set a = a ~ a %}" * 40 + "{{ a }}", "joins more than 64 KiB"),
        ("{{ 'a' * 10 ** 9 }}", "calculates with numbers"),
        ("{% set a = a | default(1e400) %}{{ a }}: 1", "the template cannot be carried out"),
        ("{% set a = 1 %}" + "{% set a = [a, a] %}" * 40 + "{{ a }}", "lists of what is no constant"),
        ("size: {{ size }}", ":1:10: 'size' is undefined; give it a value with --set size=VALUE"),
        (V04.replace("BITS // 4", "open('x')"), ":20:15: meshX: expected a whole number"),
        (V04.replace("2 ** 9", "9 ** 9 ** 9"), "Buffer: depth: expected a number from 0 on, got '9 ** 9 ** 9'"),
        (V03.replace("meshX: 2", "meshX: 4"), "meshX '4' does not divide its 6 instances"),
        (PROBLEM.replace("K: 4, ", ""), "problem.instance: K is missing"),
        (MAPPING, "mapping needs the architecture that it is of"),
        ("a: 1", "not a file of timeloop, zigzag, stream, accelforge"),
    ],
)
def test_broken__files_are_refused_in_words_and_at_once(imported, tmp_path, text, said):
    (tmp_path.parent / "secret.yaml").write_text("a: 1")
    begin = time.process_time()
    with pytest.raises(AccelsimError) as error:
        imported(text)
    assert said in str(error.value)
    assert time.process_time() - begin < 1


def test_broken__mappings_name_the_levels_and_dimensions_that_there_are(imported):
    with pytest.raises(InputError, match="no storage is named 'Bufer'; there are Main, Buffer, Spad"):
        imported(V03, PROBLEM, MAPPING.replace("target: Buffer", "target: Bufer"))
    with pytest.raises(InputError, match="'Z' is no dimension; there are K, R, P"):
        imported(V03, PROBLEM, MAPPING.replace("K=2 R=3", "Z=2 R=3"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("permutation: XPR", "2:42: permutation: 'X' is no dimension; there are K, R, P"),
        ("factors: R=2", "2:42: Spad: R=2 does not divide R = 3"),
        ("factors: [K<1]", "2:42: factors: K<1 leaves no loop; a factor is 1 or more"),
        ("factors: [K>>1]", "2:42: factors: 'K>>1' cannot be read; write factors such as C=4"),
        (
            "no_iteration_over_dataspaces: [Weight]",
            "2:42: Spad: 'Weight' is no tensor; there are Weights, Inputs, Outputs",
        ),
        (
            "no_iteration_over_dataspaces: [Weights], factors: K=2",
            "2:42: Spad: no_iteration_over_dataspaces leaves K no loop",
        ),
    ],
)
def test_broken__constraints_are_told_at_their_place(imported, given, said):
    with pytest.raises(AccelsimError) as error:
        imported(V03, PROBLEM, f"mapspace_constraints:\n- {{target: Spad, type: temporal,         {given}}}\n")
    assert f"2.yaml:{said}" in str(error.value)


def test_broken__a_file_that_is_no_yaml_is_told_beside_those_of_a_tool(run, tmp_path):
    for name, text in {"arch": V03 + "\tbad: [", "prob": PROBLEM}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    code, _, err = run("map", tmp_path / "arch.yaml", tmp_path / "prob.yaml")
    assert (code, "not valid YAML: a tab stands where a line is indented" in err) == (2, True)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("depth: 16", "depth: -16", "Spad: depth: expected a number from 0 on, got '-16'"),
        ("depth: 16", "depth: DEPTH", "got 'DEPTH'; name the file of its `variables` too"),
        ("meshX: 2", "meshX: 0", "meshX '0' does not divide its 6 instances"),
        ("PE[0..5]", "PE[0...5]", "expected a name such as PE or PE[0..15], got 'PE[0...5]'"),
        ("        - {name: MAC, class: intmac, attributes: {datawidth: 8, meshX: 2}}\n", "", "Spad, the innermost"),
        ("subtree:\n  - name: system", "local:\n  - name: system", "Accelergy's flat list has no order of levels"),
        ("{name: Spad,", "{name: Spad, constraints: [1],", "constraints: expected a map"),
        ("regfile, attributes", "regfile, atributes", "16:40: atributes: unknown key; did you mean 'attributes'?"),
    ],
)
def test_damaged__machines_are_refused_in_words(imported, old, new, said):
    assert V03.count(old)
    with pytest.raises(InputError) as error:
        imported(V03.replace(old, new), PROBLEM)
    assert said in str(error.value)


def test_notes__say_keys_of_nodes_and_shapes_that_nobody_reads(imported):
    foreign = imported(V03.replace("name: chip", "name: chip\n      areas: 2"), PROBLEM)
    assert any(str(note).endswith("0.yaml:11:7: areas: is not read") for note in foreign.notes)
    foreign = imported(V04.replace("  nodes:", "  nodes:\n  - !Parallel {ndes: []}", 1), PROBLEM)
    assert "ndes: is not read" in {f"{note.key}: {note.why}" for note in foreign.notes}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("K=2 P=0", "K=3 P=0", "2.yaml:3:34: the loops over K multiply to 6, but K is 4 in conv1d; write K=2 for K=3"),
        ("K=2 P=0", "K=1 P=0", "2.yaml:4:35: the loops over K multiply to 2, but K is 4 in conv1d; write K=4 for K=2"),
        ("K=2 P=0", "'K=2,1 P=0'", "the last passes over K do not come to 4, its bound in conv1d; write K=2 for K=2,1"),
        ("K=2 R=3", "K=2", "2.yaml:3:1: the loops over R multiply to 1, but R is 3 in conv1d; write R=3"),
        ("K=2 P=0", "K=3 P=5", "2.yaml:3:34: the loops over P multiply to 10, but P is 8 in conv1d; write P=4 for P=5"),
        ("K=2 P=0", "K=3 P=5", "2.yaml:3:34: the loops over K multiply to 6, but K is 4 in conv1d; write K=2 for K=3"),
    ],
)
def test_mapping__whose_loops_do_not_come_to_a_dimension_is_told_what_to_write(imported, old, new, said):
    assert MAPPING.count(old) == 1
    with pytest.raises(InputError) as error:
        imported(V03, PROBLEM, MAPPING.replace(old, new))
    assert said in str(error.value)


def test_mapping__with_a_remainder_across_instances_is_told_how_to_write_it(imported):
    """K = 3 as 2 x 2: the factor of the fanout has a last pass of 1; written so, it is read."""
    problem = PROBLEM.replace("K: 4", "K: 3")
    with pytest.raises(InputError, match=r"2.yaml:4:35: the loops over K multiply to 4, .*; write K=2,1 for K=2"):
        imported(V03, problem, MAPPING)
    with pytest.raises(InputError) as error:
        imported(V03, PROBLEM.replace("P: 8", "P: 7"), MAPPING.replace("P=0", "P=4"))
    assert "2.yaml:6:34: the loops over P multiply to 8, but P is 7 in conv1d; it shares the rank R + 2*P" in str(
        error.value
    )
    assert "which allows no remainder; write loops that multiply to 7" in str(error.value)
    assert imported(V03, problem, MAPPING.replace("K=2 R=3", "'K=2,1 R=3'")).mapping["imperfect"] == ["K"]


def test_pipe__is_refused(tmp_path):
    os.mkfifo(tmp_path / "arch.yaml")
    for name in (tmp_path / "arch.yaml", "/dev/zero"):
        with pytest.raises(AccelsimError, match="only regular files are read"):
            read_foreign([name])


@pytest.mark.parametrize(
    ("text", "value"),
    [("max(32, w) * 2 ** 3", 256), ("w if w >= 1 else 0", 16), ("ceil(log2(w + 1))", 5), ("-w // 3 % 5", 4)],
)
def test_formula__equals_arithmetic(text, value):
    assert work_out(text, {"w": 16}) == value


@pytest.mark.parametrize(
    "text", ["__import__('os')", "w.real", "(lambda: 1)()", "[1] * 99999", "'a' * 9", "9 ** 999", "1 / 0"]
)
def test_formula__does_nothing_but_arithmetic(text):
    with pytest.raises(FormulaError):
        work_out(text, {"w": 16})


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["import", "arch.yaml", "zigzag.yaml"], "files of timeloop, zigzag do not go together"),
        (["map", "zigzag.yaml", "prob.yaml"], "files of timeloop, zigzag do not go together"),
        (["map", "arch.yaml", "sparse.yaml"], "sparse.yaml:1:1: is larger than 64 MiB"),
        (["import", "sparse.yaml"], "sparse.yaml: is larger than 64 MiB"),
        (["import", "."], "files of timeloop, zigzag do not go together"),
        (["import", "bare"], "bare: is a directory, not a file"),
        (["eval", "arch.yaml", "prob.yaml", "pipe.yaml"], "pipe.yaml:1:1: is a pipe or a device"),
        (["export", "timeloop", "pipe.yaml"], "pipe.yaml: is a pipe or a device"),
        (["export", "timeloop", "sparse.yaml"], "sparse.yaml: is larger than 64 MiB"),
        (
            ["check", "x.stats.txt"],
            "x.stats.txt:1:1: statistics of Timeloop are no input; `python -m validation.timeloop_files` takes",
        ),
        (["map", "arch.yaml", "net.m"], "net.m:1:1: files of MAESTRO are not read; write the layers as a workload"),
        (["check", "mapping.py"], "mapping.py:1:1: Python is not run; name a model (ONNX, or .pt2 of PyTorch), or the"),
        (["import", "tabs.yaml"], "tabs.yaml:2:1: not valid YAML: a tab stands where a line is indented"),
    ],
)
def test_careless_files__are_refused_in_words(run, tmp_path, monkeypatch, command, said):
    monkeypatch.chdir(tmp_path)
    texts = {
        "arch.yaml": V03,
        "prob.yaml": PROBLEM,
        "x.stats.txt": "Cycles: 8\n",
        "empty.stats.txt": "\n",
        "net.m": "Network A {\n}\n",
        "mapping.py": "mapping = {}\n",
    }
    texts |= {"zigzag.yaml": "memories: {}\n", "tabs.yaml": "architecture:\n\tnodes: []\n"}
    for name, text in texts.items():
        Path(name).write_text(text)
    os.mkfifo("pipe.yaml")
    os.mkdir("bare")
    with open("sparse.yaml", "wb") as file:
        file.truncate(2 << 30)
    code, out, err = run(*command)
    assert (code, out, said in err) == (2, "", True), err


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"a.yaml": V03.replace("depth: 16", "depth: DEPTH").replace("memory_depth: 512", "memory_depth: LARGE")},
            ["a.yaml:12:50: Buffer: depth: expected a number", "a.yaml:16:53: Spad: depth: expected a number"],
        ),
        (
            {"a.yaml": PROBLEM.replace("K: ", "k: ").replace("R: ", "r: ")},
            ["problem.instance: K is missing", "problem.instance: R is missing"],
        ),
        (
            {"a.yaml": PROBLEM.replace("name: W", "nme: W").replace("projection: [[[K]], [[P", "place: [[[K]], [[P")},
            [
                "a.yaml:8:7: problem.shape: a data space without name",
                "a.yaml:10:7: problem.shape: a data space without",
            ],
        ),
        (
            {"a.yaml": V03, "b.yaml": "ERT:\n  tables:\n  - {name: Spad, actions: [{nae: read, energy: 1}]}\n"},
            ["b.yaml:3:28: 'name' is missing"],
        ),
        (
            {"a.yaml": V03, "c.yaml": "mapspace_constraints:\n  target: []\n"},
            ["c.yaml:2:3: target: unknown key; did you mean 'targets'?"],
        ),
        (
            {"a.yaml": V03, "b.yaml": PROBLEM, "c.yaml": MAPPING.replace("Main", "DRAM").replace("P2 R1", "P2 Q1")},
            ["c.yaml:3:4: target: no storage is named 'DRAM'", "c.yaml:6:34: factors: 'Q' is no dimension"],
        ),
        (
            {"a.yaml": "- {equation: 'O[b]+=I[b]', operator_type: A, loop_dims: [B], loop_sizes: [0]}\n" * 2},
            ["a.yaml:1:62: expected a whole number from 1", "a.yaml:2:62: expected a whole number from 1"],
        ),
        (
            {"a.yaml": "workload:\n  rank_sizes: {M: 2}\n  einsums:\n  - Y[m] = X[k]\n  - Z[m] = Y[j]\n"},
            ["the rank variable j has no size", "the rank variable k has no size"],
        ),
        (
            {"a.csv": "Layer,M,N,K\na,1,2,x\nb,1,2\nc,0,1,2\n"},
            ["a.csv:2:1: a: K: expected", "a.csv:3:1: expected 3 sizes", "a.csv:4:1: c: M: expected"],
        ),
    ],
)
def test_mistakes__of_several_rows_are_said_at_once(tmp_path, files, said):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as error:
        read_foreign([tmp_path / name for name in files])
    lines = [line.removeprefix(f"{tmp_path}/") for line in str(error.value).splitlines()]
    assert len(lines) == len(said)
    assert all(part in line for part, line in zip(said, lines, strict=True))


def test_files__that_are_links_to_themselves_cannot_be_read(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text("architecture: !include loop.yaml\n")
    (tmp_path / "b.yaml").write_text('{{include("loop.yaml", "x")}}\n')
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    assert run("import", "loop.yaml")[::2] == (2, "loop.yaml: cannot be read: Too many levels of symbolic links\n")
    for name, place in (("a.yaml", "a.yaml:1:15: "), ("b.yaml", "b.yaml: ")):
        assert run("import", name)[::2] == (2, f"{place}'loop.yaml' is included and does not exist\n")
