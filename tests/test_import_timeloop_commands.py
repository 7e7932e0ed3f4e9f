"""Timeloop's files in commands: templates, files beside them, several problems, in any order."""

import json
import sys
from pathlib import Path

import pytest

from accelsim.importers.foreign import read_foreign
from accelsim.inputs.errors import AccelsimError, InputError
from accelsim.inputs.workload_reader import load_workload
from tests.timeloop_files import ERT, MAPPING, PROBLEM, V03, V04, loaded

EVEN = "--mapspace", "even", "--factors", "perfect"


def test_template__reads_files_of_its_folder_and_takes_variables(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/arch.yaml").write_text(V04)
    (tmp_path / "prob.yaml").write_text(PROBLEM.replace("K: 4", "K: {{channels | default(4)}}"))
    top = "{{add_to_path('parts')}}\narchitecture: {{include('arch.yaml', 'architecture')}}\n"
    top += "variables: {{include('arch.yaml', 'variables')}}\nproblem: {{include('prob.yaml', 'problem')}}\n"
    (tmp_path / "top.yaml.jinja2").write_text(top)
    foreign = read_foreign([tmp_path / "top.yaml.jinja2"], variables={"channels": "16"})
    assert foreign.workload["einsum"]["dims"]["K"] == 16
    assert any(
        str(note).endswith("it changes no count") and "parts/arch.yaml:14:" in str(note) for note in foreign.notes
    )


def test_include__of_a_path_of_another_machine_takes_the_file_of_that_name_that_lies_there(imported, tmp_path):
    shape, _, instance = PROBLEM.partition("  instance:")
    (tmp_path / "base.yaml").write_text(shape.replace("problem:", "base: &base"))
    text = f"{{{{include_text('/home/someone/shapes/base.yaml')}}}}\nproblem:\n  <<<: *base\n  instance:{instance}"
    assert imported(text).workload == imported(PROBLEM).workload
    with pytest.raises(AccelsimError, match="yaml' is included and does not exist"):
        imported(text.replace("shapes/base", "other"))


def test_folder__stands_for_the_files_in_it_that_timeloop_did_not_write(run, tmp_path, monkeypatch):
    """As a design of Timeloop's examples lies: files by their kind in folders, and what a run left beside them."""
    texts = {"arch/machine.yaml": V03, "prob/one.yml": PROBLEM, "map.yaml": MAPPING, "ERT.yaml": ERT}
    written = {"output/map.yaml": MAPPING, "timeloop-mapper.ERT.yaml": ERT, "parsed-processed-input.yaml": V03}
    monkeypatch.chdir(tmp_path)
    for name, text in {**texts, **written, "notes.yaml": "who: me\n"}.items():
        file = tmp_path / "design" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    named = run("eval", *(f"design/{name}" for name in texts), "--json")
    assert named[0] == 0
    assert json.loads(run("eval", "design", "--json")[1])["result"] == json.loads(named[1])["result"]
    code, out, _ = run("import", "design", "-o", "design")
    assert (code, "design/mapping.yaml  mapping" in out) == (0, True)
    (tmp_path / "design/other.yaml").write_text(V04)
    code, _, err = run("check", "design")
    assert (code, "design/arch/machine.yaml:2:1: a second architecture, after that in design/" in err) == (2, True), err


def test_template__without_jinja2_says_what_to_install(imported, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(AccelsimError, match=r"pip install 'accelsim\[import\]'"):
        imported("problem: {{ size }}")


def test_eval__says_why_a_template_cannot_be_read(run, tmp_path):
    (tmp_path / "prob.yaml").write_text("{{include_text('../base.yaml')}}\nproblem: {}\n")
    (tmp_path.parent / "base.yaml").write_text("a: 1\n")
    code, _, err = run("map", "systolic", tmp_path / "prob.yaml")
    assert (code, "lies outside" in err, "accelsim import ../base.yaml" in err) == (2, True, True)
    assert f"work in {tmp_path.parent}, which holds both" in err


def test_map__takes_a_template_of_the_folder_above_from_there(run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "layers").mkdir()
    (tmp_path / "base.yaml").write_text(PROBLEM.replace("problem:", "base: &base", 1))
    (tmp_path / "layers/0.yaml").write_text("{{include_text('../base.yaml')}}\nproblem: {<<: *base}\n")
    monkeypatch.chdir(tmp_path)
    assert run("map", "systolic", "layers/0.yaml", "--quiet", "--no-cache", *EVEN)[0] == 0


def test_set__gives_variables_of_templates_to_each_command(run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "prob.yaml").write_text(PROBLEM.replace("K: 4", "K: {{channels}}"))
    (tmp_path / "arch.yaml").write_text(V03)
    both = [tmp_path / "arch.yaml", tmp_path / "prob.yaml"]
    for command in (
        ["map", *both, "--json", "--no-cache", *EVEN],
        ["spread", *both, "--json", "--time-limit", "3"],
        ["check", *both],
    ):
        code, out, err = run(*command, "--set", "channels=16")
        assert code == 0, err
        assert command[0] == "check" or "16" in out
    assert "'channels' is undefined; give it a value with --set" in run("map", *both)[2]


def test_templates__say_all_names_without_value_at_once(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    layer = PROBLEM.replace("K: 4", "K: {{K}}").replace("P: 8", "P: {{ 2 * half if K > 0 else whole }}")
    Path("inner.yaml").write_text("{% if big %}1{% endif %}")
    Path("a.yaml").write_text(layer.replace("R: 3", "R: {{ taps | default(3) }}") + "{{ include_text('inner.yaml') }}")
    Path("b.yaml").write_text(V03.replace("depth: 16", "depth: {{ depth }}, width: {{ depth }}"))
    names = {"a.yaml:11:19": "K", "a.yaml:11:62": "half", "b.yaml:16:63": "depth"}
    names[f"{tmp_path}/inner.yaml:1:7"] = "big"
    said = {f"{place}: {name!r} is undefined; give it a value with --set {name}=VALUE" for place, name in names.items()}
    assert set(run("map", "b.yaml", "a.yaml")[2].splitlines()) == said


def test_include__tags_stand_for_files_of_the_folder(imported, tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/arch.yaml").write_text(V04.partition("architecture:\n")[2].replace("\n  ", "\n").lstrip(" "))
    (tmp_path / "prob.yaml").write_text(PROBLEM.partition("problem:\n")[2])
    top = "architecture: !include parts/arch.yaml\nproblem: !include prob.yaml\n"
    foreign = imported(f"variables: {{BITS: 8, technology: 45nm}}\n{top}")
    assert foreign.workload["einsum"]["dims"] == {"K": 4, "R": 3, "P": 8}
    assert [level["name"] for level in foreign.architecture["levels"]] == ["Main", "Buffer", "Row", "Spad", "Sums"]
    assert any("parts/arch.yaml:" in str(note) for note in foreign.notes)


def test_map__takes_all_files_of_a_tool_in_any_order(run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    texts = {
        "arch": V03,
        "prob": PROBLEM,
        "ert": ERT,
        "map": MAPPING,
        "mapper": "mapper: {optimization-metrics: [energy]}",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    files = {name: tmp_path / f"{name}.yaml" for name in texts}
    code, out, err = run(
        "map", *(files[name] for name in ("mapper", "prob", "ert", "arch")), "--json", "--no-cache", *EVEN
    )
    assert code == 0, err
    assert json.loads(out)["result"]["valid"]
    assert run("eval", *(files[name] for name in ("map", "ert", "prob", "arch")), "--json")[0] == 0
    (tmp_path / "all.yaml").write_text("".join(text for name, text in texts.items() if name != "mapper"))
    assert run("map", tmp_path / "all.yaml", "--quiet", "--no-cache", *EVEN)[0] == 0
    assert run("eval", "--json", tmp_path / "all.yaml")[0] == 0
    assert "the following arguments are required: WORKLOAD" in run("map", "systolic")[2]
    said = run("map", "systolic", "conv", files["arch"], "other")
    assert (said[0], "unrecognized arguments: other; only another tool has more files" in said[2]) == (2, True)
    assert run("fuse", "systolic", "conv", "other")[2] == (
        "accelsim fuse: unrecognized arguments: other; `accelsim fuse --help` lists them\n"
    )


def test_problems__of_one_kind_are_layers_with_constraints_of_their_own(imported, run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wider = PROBLEM.replace("K: 4, R: 3, P: 8", "K: 12, R: 1, P: 8")
    asked = "constraints:\n- {target: Spad, type: temporal, factors: R=3 K<=2}\n"
    with pytest.raises(InputError, match="R=3 does not divide R = 4"):
        imported(V03, PROBLEM, PROBLEM.replace("R: 3", "R: 4"), asked)
    made = imported(V03, PROBLEM, wider, asked)
    layers = load_workload({"workload": made.workload}).layers
    assert [(layer.name, layer.dims["K"], layer.dims["R"]) for layer in layers] == [("1", 4, 3), ("2", 12, 1)]
    assert [(level["layers"], level["temporal"]["factors"]) for level in made.constraints["levels"]] == [
        (["1"], ["R=3", "K<=2"]),
        (["2"], ["K<=2"]),
    ]
    other = PROBLEM.replace("Weights", "Filters")
    with pytest.raises(InputError, match="the tensors Filters, Inputs, Outputs, after one with Weights"):
        imported(V03, PROBLEM, other)
    with pytest.raises(AccelsimError, match="needs the one problem that it maps"):
        imported(V03, PROBLEM, wider, MAPPING)
    (tmp_path / "1.yaml").write_text(PROBLEM)
    code, out, err = run("map", *(tmp_path / f"{number}.yaml" for number in range(3)), "--json", "--no-cache", *EVEN)
    assert code == 0, err
    assert [layer["layer"] for layer in json.loads(out)["layers"]] == ["1", "2"]


def test_variables__may_stand_in_a_file_of_their_own(run, tmp_path):
    """Commands take it for one of Timeloop's, as those beside it."""
    first, rest = V04.lstrip().split("\n", 1)
    texts = {"arch": rest, "problem": PROBLEM, "variables": first}
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    arch, problem, variables = (tmp_path / f"{name}.yaml" for name in texts)
    assert run("map", arch, problem, variables, "--quiet", *EVEN)[0] == 0
    code, _, said = run("map", arch, problem, "--quiet")
    assert code == 2
    assert "name the file of its `variables` too" in said
    assert run("check", variables) == (
        2,
        "",
        f"{variables}: neither an architecture nor a layer; name the files beside it too\n",
    )


CIM = {
    "top.yaml.jinja2": """
{{add_to_path(cwd() ~ '/include/')}}
architecture:
  version: 0.4
  nodes:
  - !Hierarchical
    nodes: {{include('macro/arch.yaml', 'architecture.nodes')}}
variables:
- {version: 0.4}
- {{include('macro/variables.yaml', 'variables')}}
- {{include('common.yaml', 'variables')}}
problem:
  version: 0.4
  instance: {X: BITS, C: 4, M: 8}
  shape:
    dimensions: [X, C, M]
    data_spaces:
    - {name: Weights, projection: [[[C]], [[M]]]}
    - {name: Inputs, projection: [[[C]], [[X]]]}
    - {name: Outputs, projection: [[[M]]], read_write: true}
""",
    "macro/arch.yaml": """
{{include_text('defines.yaml')}}
architecture:
  nodes:
  - !Component {name: DRAM, class: DRAM, attributes: {type: LPDDR4, width: 64, datawidth: 8, depth: INF}, <<<: *weights}
  - !Component {name: nothing, class: dummy_storage, attributes: {width: 8, datawidth: 8, depth: 1}, <<<: *none}
  {{placeholder | default('') | indent(2)}}
  - !ArrayContainer
    name: column
    spatial: {meshX: 4}
    constraints: {spatial: {factors_only: [("X=" + str(BITS_PER_SLICE)), C<4]}}
  - !Component
    name: adc
    class: dummy_storage
    subclass: adc
    attributes: {width: 8, datawidth: 8, depth: 2}
  - !Component {name: mac, class: intmac, attributes: {multiplier_width: 8}}
""",
    "macro/variables.yaml": "variables: {version: 0.4, BITS: 8, GLOBAL_CYCLE_SECONDS: 1e-7, TECHNOLOGY: 65}\n",
    "include/common.yaml": """
variables:
  version: 0.4
  BITS_PER_SLICE: min(spec.variables.get("DAC_RESOLUTION", 2), BITS)
  INF: 4294967295
""",
    "include/defines.yaml": """
ignored:
- &weights {constraints: {dataspace: {keep_only: [Weights]}}}
- &none {constraints: {dataspace: {keep_only: []}}}
""",
    "ERT.yaml": """
ERT:
  version: 0.4
  tables:
  - {name: "top.DRAM[1..1]", actions: [{name: read, energy: 512}, {name: write, energy: 512}]}
  - {name: "top.nothing[1..1]", actions: [{name: read, energy: 0}, {name: write, energy: 0}]}
  - {name: "top.adc[1..4]", actions: [{name: read, energy: 0.5}, {name: write, energy: 0.25}]}
  - {name: "top.mac[1..4]", actions: [{name: compute, energy: 0}]}
""",
}
"""A machine in the form of CiMLoop: files that include others by a common path, and formulas of its variables."""


def test_template__of_cimloop_is_read_with_the_energies_of_a_run(tmp_path):
    for name, text in CIM.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(
        InputError, match=r"arch.yaml:12:5: no energies of adc \(adc\); accelsim has no models of such parts"
    ):
        read_foreign([tmp_path / "top.yaml.jinja2"])
    foreign = read_foreign([tmp_path / "top.yaml.jinja2", tmp_path / "ERT.yaml"])
    machine, layer, *_ = loaded(foreign)
    assert (machine.clock_hz, layer.dims) == (1e7, {"X": 8, "C": 4, "M": 8})
    assert machine.levels[1].bypass == {"Weights", "Inputs", "Outputs"}
    assert machine.energy.energy_pj("adc", "Outputs", "write") == 0.25
    assert foreign.constraints["levels"][0]["spatial"]["x"]["factors"] == ["X=2", "C<=3", "M=1"]
    why = "is the first level, which keeps everything here; it charges Inputs, Outputs too"
    assert f"DRAM: {why}" in [f"{note.key}: {note.why}" for note in foreign.notes]


def test_import__writes_what_the_commands_read(run, tmp_path):
    for name, text in (("arch", V03), ("prob", PROBLEM), ("map", MAPPING), ("ERT", ERT)):
        (tmp_path / f"{name}.yaml").write_text(text)
    files = [tmp_path / f"{name}.yaml" for name in ("arch", "prob", "map", "ERT")]
    code, out, _ = run("import", *files, "-o", tmp_path / "ours")
    assert (code, out.splitlines()[3]) == (0, "Energies: the ERT ERT.yaml")
    ours = [tmp_path / "ours" / f"{kind}.yaml" for kind in ("architecture", "workload", "mapping")]
    assert ours[0].read_text().startswith("# Imported from arch.yaml.\n")
    assert run("check", *ours)[:2] == (0, "3 files: no mistakes\n")
    assert "holds no" not in run("eval", *ours)[2]
    assert "no architecture, workload, mapping or constraints in them" in run("import", files[3])[2]
    printed = run("import", *files)[1]
    assert printed == "---\n".join(
        (tmp_path / "ours" / f"{kind}.yaml").read_text() for kind in ("architecture", "workload", "mapping")
    )


def test_eval__takes_the_files_as_they_are(run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names = [tmp_path / f"{name}.yaml" for name in ("arch", "prob", "map")]
    for name, text in zip(names, (V03, PROBLEM, MAPPING), strict=True):
        name.write_text(text)
    run("import", *names, "-o", tmp_path / "ours")
    ours = [tmp_path / "ours" / f"{kind}.yaml" for kind in ("architecture", "workload", "mapping")]
    direct = run("eval", *names)
    assert direct[:2] == run("eval", *ours)[:2]
    assert "densities:\n    Inputs: {distribution: fixed_structured, density: '0.5'}" in ours[1].read_text()
    assert "what is imported holds no" not in run("eval", names[1], names[0], names[2])[2]


def test_layers__take_files_of_the_working_folder_that_are_yaml(run, tmp_path, monkeypatch):
    """`layer_shapes/vgg/05.yaml` includes `../base.yaml`, alone and beside a machine; no other kind of file is read."""
    layers = tmp_path / "work/layers"
    layers.mkdir(parents=True)
    shape, _, instance = PROBLEM.partition("  instance:")
    (tmp_path / "work/base.yaml").write_text(shape.replace("problem:", "base_ignore: &base"))
    (tmp_path / "work/secret.txt").write_text(shape.replace("problem:", "base_ignore: &base"))
    for name in ("base.yaml", "secret.txt"):
        text = f"{{{{include_text('../{name}')}}}}\nproblem:\n  <<<: *base\n  instance:{instance}"
        (layers / f"from_{name.partition('.')[0]}.yaml").write_text(text)
    (tmp_path / "work/arch.yaml").write_text(V03)
    monkeypatch.chdir(tmp_path / "work")
    assert run("map", "two_level", "layers/from_base.yaml", "--quiet", *EVEN)[0] == 0
    assert run("map", "arch.yaml", "layers/from_base.yaml", "--quiet", *EVEN)[0] == 0
    assert "'../secret.txt' lies outside" in run("import", "layers/from_secret.yaml")[2]
    monkeypatch.chdir(layers)
    assert "'../base.yaml' lies outside" in run("import", "from_base.yaml")[2]
