"""Timeloop's files: what they become here, what Timeloop said of them, and what is refused."""

import json
import os
import re
import sys
import time
from pathlib import Path

import pytest

from accelsim.importers.foreign import Foreign, read_foreign
from accelsim.importers.timeloop_replay import (
    DEAREST,
    FIRST_READS,
    HALO,
    MODELS,
    REUSE,
    SPARSE,
    UNEXPLAINED,
    compare,
    evaluate_dearest,
    read_statistics,
)
from accelsim.importers.values import FormulaError, work_out
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.constraints import load_constraints
from accelsim.inputs.errors import AccelsimError, SpecError
from accelsim.inputs.mapping import load_mapping
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate

SHARED = Path(os.environ.get("ACCELSIM_SHARED") or Path(__file__).parents[2] / "shared") / "foreign"
needs_files = pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED}, with Timeloop's own files, is absent")
TUTORIAL = SHARED / "timeloop/tutorial_exercises/01_accelergy_timeloop_2020_ispass"
EXAMPLES = SHARED / "timeloop/example_designs/example_designs"

PROBLEM = """
problem:
  shape:
    name: conv1d
    dimensions: [K, R, P]
    coefficients: [{name: Stride, default: 2}]
    data_spaces:
    - {name: Weights, projection: [[[K]], [[R]]]}
    - {name: Inputs, projection: [[[R], [P, Stride]]]}
    - {name: Outputs, projection: [[[K]], [[P]]], read_write: true}
  instance: {K: 4, R: 3, P: 8, densities: {Inputs: 0.5}}
"""
V04 = """
variables: {version: 0.4, BITS: 8, technology: 45nm, global_cycle_seconds: 1e-9}
architecture:
  nodes:
  - !Container
    name: system
  - !Component
    name: Main
    class: DRAM
    attributes: &main {width: 64, datawidth: BITS}
  - !Component
    name: Buffer
    class: SRAM
    attributes: {<<: *main, depth: 2 ** 9, read_bandwidth: 16, update_fifo_depth: 2}
    constraints:
      dataspace: {keep: [Inputs, Outputs], bypass: [Weights]}
      temporal: {factors: [R=1, K<=2], permutation: [P, K]}
  - !Container
    name: Column
    spatial: {meshX: "max(2, BITS // 4)"}
    constraints:
      spatial: {factors: [R=1, P=1], permutation: [K, R, P], split: 3}
  - !Container
    name: Row
    spatial: {meshY: 3}
  - !Parallel
    nodes:
    - !Component
      name: Spad
      class: regfile
      attributes: {depth: 16, width: 8, datawidth: 8}
      constraints: {dataspace: {keep: [Weights]}}
    - !Component
      name: Sums
      class: regfile
      attributes: {depth: 16, width: datawidth * 2, datawidth: 16}
      constraints: {dataspace: {keep: [Outputs]}}
    - !Nothing
  - !Component
    name: MAC
    class: intmac
    attributes: {multiplier_width: BITS}
"""
V03 = """
architecture:
  version: 0.3
  subtree:
  - name: system
    attributes: {technology: 45nm}
    local:
    - {name: Main, class: DRAM, attributes: {width: 64, block-size: 8, word-bits: 8}}
    subtree:
    - name: chip
      local:
      - {name: Buffer, class: SRAM, attributes: {memory_depth: 512, memory_width: 64, word_bits: 8}}
      subtree:
      - name: PE[0..5]
        local:
        - {name: Spad, class: regfile, attributes: {depth: 16, width: 8, word_bits: 8, meshX: 2}}
        - {name: MAC, class: intmac, attributes: {datawidth: 8, meshX: 2}}
"""
MAPPING = """
mapping:
- {target: Main, type: temporal, factors: K=2 P=0, permutation: PKR}
- {target: Buffer, type: spatial, factors: K=2 R=3, permutation: "K PR", split: 2}
- {target: Buffer, type: bypass, keep: [Inputs, Outputs], bypass: [Weights]}
- {target: Spad, type: temporal, factors: "P2 R1", permutation: RPK}
"""
ERT = """
ERT:
  tables:
  - {name: "system.Main[1..1]", actions: [{name: read, energy: 512.0}, {name: write, energy: 500.5}]}
  - {name: "system.chip.Buffer[1..1]", actions: [{name: read, energy: 4.0}, {name: write, energy: 5.0},
      {name: update, energy: 6.0}, {name: leak, energy: 7.972e-06}]}
  - {name: "system.chip.PE[0..5].Spad", actions: [{name: read, arguments: {data_delta: 0}, energy: 0.1},
      {name: read, arguments: {data_delta: 1}, energy: 0.25}, {name: write, energy: 0.5}]}
  - {name: "system.chip.PE[0..5].MAC", actions: [{name: mac_gated, energy: 0.1}, {name: mac_random, energy: 0.75}]}
"""


@pytest.fixture
def read(tmp_path):
    def from_texts(*texts, **variables):
        paths = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        return read_foreign(paths, variables=variables)

    return from_texts


def loaded(foreign: Foreign):
    architecture = load_architecture({"architecture": foreign.architecture})
    einsum = load_workload({"workload": foreign.workload}).layers[0]
    mapping = foreign.mapping and load_mapping({"mapping": foreign.mapping}, architecture, einsum)
    asked = foreign.constraints and load_constraints({"constraints": foreign.constraints}, architecture, einsum)
    return architecture, einsum, mapping, asked


def test_v04__tags_merges_formulas_and_containers_become_levels(read):
    """Two containers in a row are two networks: the first is the buffer's fanout, the second a level of its own."""
    foreign = read(V04, PROBLEM)
    architecture, einsum, _, asked = loaded(foreign)
    names = {level.name: level for level in architecture.levels}
    assert list(names) == ["Main", "Buffer", "Row", "Spad", "Sums"]
    assert (names["Buffer"].size_words, names["Buffer"].block_size) == (512 * 8, 8)
    assert (names["Buffer"].x.size, names["Row"].y.size, architecture.instances(5)) == (2, 3, 6)
    assert (names["Spad"].keep, names["Spad"].bypass) == ({"Weights"}, {"Outputs"})
    assert (names["Sums"].word_bits, names["Sums"].block_size, names["Sums"].bypass) == (16, 2, {"Weights"})
    assert dict(einsum.dims) == {"K": 4, "R": 3, "P": 8}
    assert foreign.workload["einsum"]["tensors"]["Inputs"] == ["R + 2*P"]
    assert asked.of("Buffer").temporal.inner == ("K", "P")
    assert [str(factor) for factor in asked.of("Buffer").temporal.factors] == ["R=1", "K<=2"]


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("{factors: [R<3, K>1]}", ["R<=2", "K>=2"]),
        ("{no_iteration_over_dataspaces: [Weights]}", ["K=1", "R=1"]),
        ("{must_iterate_over_dataspaces: [Weights]}", ["P=1"]),
        ("{no_iteration_over_dataspaces: ['*']}", ["K=1", "R=1", "P=1"]),
        ("{maximize_dims: [[K, P]]}", ["K*P=2"]),
        ("{maximize_dims: [R, P], factors: [K=1]}", ["K=1", "R*P=2"]),
        ("{maximize_dims: [[R], [K]]}", ["R=1", "K=2"]),
    ],
)
def test_v04__short_forms_of_constraints_become_factors(read, given, asked):
    foreign = read(V04.replace("{factors: [R=1, P=1], permutation: [K, R, P], split: 3}", given), PROBLEM)
    block = loaded(foreign)[3].of("Buffer").x
    assert [str(each) for each in (*block.factors, *block.products)] == asked


@pytest.mark.parametrize("beside", [True, False])
def test_parallel__branches_bypass_what_others_keep_wherever_it_is_asked_for(read, beside):
    """Two storages of one branch stand in a row, and either may keep what the branch keeps."""
    storage = "!Component {name: %s, class: regfile, attributes: {depth: 16, datawidth: 8}%s}"
    asked = {"Spad": "Weights", "Sums": "Outputs"}
    held = {name: f", constraints: {{dataspace: {{keep: [{role}]}}}}" for name, role in asked.items()}
    of = {name: storage % (name, held.get(name, "") if beside else "") for name in ("Spad", "Late", "Sums")}
    machine = f"""
architecture:
  nodes:
  - !Component {{name: Main, class: DRAM}}
  - !Parallel
    nodes: [{of["Spad"]}, !Hierarchical {{nodes: [{of["Late"]}, {of["Sums"]}]}}]
  - !Component {{name: MAC, class: intmac}}
"""
    targets = [f"{{target: {name}, type: dataspace, keep: [{role}]}}" for name, role in asked.items()]
    files = [] if beside else [f"constraints: {{targets: [{', '.join(targets)}]}}\n"]
    foreign = read(machine, PROBLEM, *files)
    bypassed = {level.name: level.bypass for level in loaded(foreign)[0].levels}
    assert bypassed == {"Main": set(), "Spad": {"Outputs"}, "Late": {"Weights"}, "Sums": {"Weights"}}


def test_v04__tensors_that_a_network_does_not_share_are_neither_multicast_nor_reduced(read):
    text = V04.replace("{factors: [R=1, P=1], permutation: [K, R, P], split: 3}", "{no_reuse: [Inputs, Outputs]}")
    foreign = read(text.replace("temporal: {", "temporal: {no_reuse: [Inputs], "), PROBLEM)
    network = load_architecture({"architecture": foreign.architecture}).levels[1].x
    assert (network.multicast, network.spatial_reduction) == ({"Weights"}, False)
    said = "no_reuse = ['Inputs']: a tile would be brought anew in each step of the loops outside"
    assert any(said in str(note) for note in foreign.notes)


def test_notes__say_the_line_of_what_does_not_carry_over(read):
    foreign = read(V04, PROBLEM)
    notes = [str(note).rpartition("/")[2] for note in foreign.notes]
    assert "0.yaml:14:64: Buffer.update_fifo_depth = 2: has no counterpart; it changes no count" in notes
    assert foreign.workload["densities"] == {"Inputs": {"distribution": "fixed_structured", "density": "0.5"}}
    assert any(note.startswith("0.yaml:23:5: Row: a network of its own") for note in notes)


def test_v03__ranges_and_meshes_become_fanouts(read):
    foreign = read(V03, PROBLEM, MAPPING, ERT)
    architecture, _, mapping, _ = loaded(foreign)
    assert [(level.name, level.x.size, level.y.size) for level in architecture.levels] == [
        ("Main", 1, 1), ("Buffer", 2, 3), ("Spad", 1, 1)
    ]  # fmt: skip
    buffer, spad = mapping.levels[1:]
    assert [str(loop) for loop in mapping.levels[0].temporal] == ["K=2", "P=4"]
    assert ([loop.dim for loop in buffer.x], [loop.dim for loop in buffer.y]) == (["K"], ["R"])
    assert (buffer.keep, spad.keep) == ({"Inputs", "Outputs"}, {"Weights", "Inputs", "Outputs"})


def test_remainders__are_kept_and_noted(read):
    foreign = read(V03, PROBLEM.replace("K: 4", "K: 3"), MAPPING.replace("K=2 P=0", "'K=2,1 P=0'"))
    assert foreign.mapping["imperfect"] == ["K"]
    assert "K=2,1: the last pass is shorter" in "".join(map(str, foreign.notes))
    assert loaded(foreign)[2].imperfect == {"K"}


def test_energies__are_those_of_the_ert_to_the_last_digit(read):
    """Of several rows of an action the largest counts, and updates have their own energy."""
    foreign = read(V03, PROBLEM, ERT)
    levels = {level["name"]: level["energy"] for level in foreign.architecture["levels"]}
    assert (levels["Main"]["write"], levels["Spad"]["read"]) == ("500.5 pJ", "0.25 pJ")
    assert (levels["Buffer"]["update"], levels["Buffer"]["leak"]) == ("6 pJ", "0.000007972 pJ")
    assert foreign.architecture["compute"]["energy"]["compute"] == "0.75 pJ"
    assert foreign.energies == "the ERT 2.yaml"
    assert read(V03, PROBLEM).energies == "accelsim's own models, by class and attributes"


def test_v03__and_the_same_machine_in_v04_give_equal_figures(read):
    v04 = """
architecture:
  nodes:
  - !Container {name: system, attributes: {technology: 45nm}}
  - !Component {name: Main, class: DRAM, attributes: {width: 64, datawidth: 8}}
  - !Component {name: Buffer, class: SRAM, attributes: {depth: 512, width: 64, datawidth: 8}}
  - !Container {name: PE, spatial: {meshX: 2, meshY: 3}}
  - !Component {name: Spad, class: regfile, attributes: {depth: 16, width: 8, datawidth: 8}}
  - !Component {name: MAC, class: intmac, attributes: {multiplier_width: 8}}
"""
    mapping = MAPPING.replace("target: Buffer, type: spatial", "target: PE, type: spatial")
    results = [
        evaluate(*loaded(read(machine, PROBLEM, ERT, loops))[:3]) for machine, loops in ((V03, MAPPING), (v04, mapping))
    ]
    assert results[0].energy_pj == results[1].energy_pj
    assert results[0].cycles == results[1].cycles


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


def test_template__without_jinja2_says_what_to_install(read, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(AccelsimError, match=r"pip install 'accelsim\[import\]'"):
        read("problem: {{ size }}")


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
    assert run("map", "systolic", "layers/0.yaml", "--quiet", "--no-cache")[0] == 0


def test_set__gives_variables_of_templates_to_each_command(run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "prob.yaml").write_text(PROBLEM.replace("K: 4", "K: {{channels}}"))
    (tmp_path / "arch.yaml").write_text(V03)
    both = [tmp_path / "arch.yaml", tmp_path / "prob.yaml"]
    for command in (
        ["map", *both, "--json", "--no-cache"],
        ["spread", *both, "--json", "--seconds", "3"],
        ["check", *both],
    ):
        code, out, err = run(*command, "--set", "channels=16")
        assert code == 0, err
        assert command[0] == "check" or "16" in out
    assert "'channels' is undefined; give it a value with --set" in run("map", *both)[2]


def test_include__tags_stand_for_files_of_the_folder(read, tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/arch.yaml").write_text(V04.partition("architecture:\n")[2].replace("\n  ", "\n").lstrip(" "))
    (tmp_path / "prob.yaml").write_text(PROBLEM.partition("problem:\n")[2])
    top = "architecture: !include parts/arch.yaml\nproblem: !include prob.yaml\n"
    foreign = read(f"variables: {{BITS: 8, technology: 45nm}}\n{top}")
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
    code, out, err = run("map", *(files[name] for name in ("mapper", "prob", "ert", "arch")), "--json", "--no-cache")
    assert code == 0, err
    assert json.loads(out)["result"]["valid"]
    assert run("eval", *(files[name] for name in ("map", "ert", "prob", "arch")), "--json")[0] == 0
    (tmp_path / "all.yaml").write_text("".join(text for name, text in texts.items() if name != "mapper"))
    assert run("map", tmp_path / "all.yaml", "--quiet", "--no-cache")[0] == 0
    assert run("eval", "--json", tmp_path / "all.yaml")[0] == 0
    assert "the following arguments are required: WORKLOAD" in run("map", "systolic")[2]
    said = run("map", "systolic", "conv", files["arch"], "other")
    assert (said[0], "unrecognized arguments: other; only another tool has more files" in said[2]) == (2, True)
    assert run("fuse", "systolic", "conv", "other")[2] == (
        "accelsim fuse: unrecognized arguments: other; `accelsim fuse --help` lists them\n"
    )


def test_problems__of_one_kind_are_layers_with_constraints_of_their_own(read, run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wider = PROBLEM.replace("K: 4, R: 3, P: 8", "K: 12, R: 1, P: 8")
    asked = "constraints:\n- {target: Spad, type: temporal, factors: R=3 K<=2}\n"
    with pytest.raises(SpecError, match="R=3 does not divide R = 2"):
        read(V03, PROBLEM, PROBLEM.replace("R: 3", "R: 2"), asked)
    made = read(V03, PROBLEM, wider, asked)
    layers = load_workload({"workload": made.workload}).layers
    assert [(layer.name, layer.dims["K"], layer.dims["R"]) for layer in layers] == [("1", 4, 3), ("2", 12, 1)]
    assert [(level["layers"], level["temporal"]["factors"]) for level in made.constraints["levels"]] == [
        (["1"], ["R=3", "K<=2"]),
        (["2"], ["K<=2"]),
    ]
    other = PROBLEM.replace("Weights", "Filters")
    with pytest.raises(SpecError, match="the tensors Filters, Inputs, Outputs, after one with Weights"):
        read(V03, PROBLEM, other)
    with pytest.raises(AccelsimError, match="needs the one problem that it maps"):
        read(V03, PROBLEM, wider, MAPPING)
    (tmp_path / "1.yaml").write_text(PROBLEM)
    code, out, err = run("map", *(tmp_path / f"{number}.yaml" for number in range(3)), "--json", "--no-cache")
    assert code == 0, err
    assert [layer["layer"] for layer in json.loads(out)["layers"]] == ["1", "2"]


def test_constraints__under_their_targets_or_a_chosen_name_are_those_of_a_list(read):
    """As in `configs/mapper` of Timeloop, chen-asplos2014.yaml and eyeriss-256.yaml."""
    asked = "{target: Spad, type: temporal, factors: K<=2, permutation: PK}"
    listed = read(V03, PROBLEM, f"mapspace:\n- {asked}\n")
    named = f"mapspace: {{constraints: mine, constraints_mine: [{asked}]}}"
    nested = """
mapspace:
  targets:
  - name: Spad
    constraints: [{type: temporal, attributes: {factors: K<=2, permutation: PK}}]
"""
    assert listed.constraints is not None
    assert read(V03, PROBLEM, named).constraints == read(V03, PROBLEM, nested).constraints == listed.constraints
    keeping = nested.replace(
        "temporal, attributes: {factors: K<=2, permutation: PK}", "bypassing, attributes: {keep: [Inputs]}"
    )
    assert read(V03, PROBLEM, keeping).constraints == {"levels": [{"level": "Spad", "keep": ["Inputs"]}]}
    with pytest.raises(AccelsimError, match="expected a list of directives, each a map with a target"):
        read(V03, PROBLEM, named.replace("constraints: mine", "constraints: other"))


def test_compute_unit__may_stand_before_the_storages_of_its_list(read):
    """As in `configs/mapper/sample-accelergy.yaml` of Timeloop."""
    lines = V03.splitlines(keepends=True)
    spad, mac = (next(line for line in lines if f"name: {name}" in line) for name in ("Spad", "MAC"))
    swapped = V03.replace(spad + mac, mac + spad)
    assert swapped != V03
    assert read(swapped).architecture == read(V03).architecture


def test_networks__have_no_level_and_are_said(read):
    """Classes that Timeloop's topology.hpp takes as networks, as Accelergy's exercises have them."""
    lines = V03.splitlines(keepends=True)
    at = next(index for index, line in enumerate(lines) if "name: Spad" in line)
    noc = lines[at].split("- ")[0] + "- {name: NoC%d, class: %s, attributes: {datawidth: 64}}\n"
    lines[at:at] = [noc % (0, "XY_NoC"), noc % (1, "SimpleMulticast")]
    made = read("".join(lines), PROBLEM)
    assert made.architecture == read(V03, PROBLEM).architecture
    assert [str(note).partition(": ")[2] for note in made.notes if "NoC" in note.key] == [
        f"NoC{number}: stores nothing; the energy of its wires is left out" for number in (0, 1)
    ]
    v04 = "  - !Component {name: DAC, class: SimpleMulticast, attributes: {depth_of_dac: 1}}\n"
    lines = V04.splitlines(keepends=True)
    at = next(index for index, line in enumerate(lines) if "name: Buffer" in line) - 1
    added = read("".join([*lines[:at], v04, *lines[at:]]), PROBLEM)
    assert added.architecture == read(V04, PROBLEM).architecture


def test_problem__may_have_sizes_of_variables(read):
    """As the workloads of CiMLoop have them."""
    problem = PROBLEM.replace("K: 4", "K: BITS // 2")
    assert problem != PROBLEM
    variables = "variables: {BATCH: 8, BITS: BATCH}\n"
    assert read(problem, variables).workload["einsum"]["dims"] == read(PROBLEM).workload["einsum"]["dims"]
    with pytest.raises(SpecError, match=r"K: 'BITS' in 'BITS // 2' has no value; name the file of its `variables` too"):
        read(problem)


def test_variables__may_stand_in_a_file_of_their_own(run, tmp_path):
    """Commands take it for one of Timeloop's, as those beside it."""
    first, rest = V04.lstrip().split("\n", 1)
    texts = {"arch": rest, "problem": PROBLEM, "variables": first}
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    arch, problem, variables = (tmp_path / f"{name}.yaml" for name in texts)
    assert run("map", arch, problem, variables, "--quiet")[0] == 0
    code, _, said = run("map", arch, problem, "--quiet")
    assert code == 2
    assert "name the file of its `variables` too" in said
    assert run("check", variables) == (
        2,
        "",
        f"{variables}: neither a machine nor a layer; name the files beside it too\n",
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
        SpecError, match=r"arch.yaml:12:5: no energies of adc \(adc\); accelsim has no models of such parts"
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


def test_v04__has_older_names_and_storages_without_room(read):
    """As `arch_spec_examples` of its front end: `!Element`, and a dummy of depth 0 that joins two networks."""
    older = V04.replace("!Component", "!Element")
    assert older != V04
    assert read(older, PROBLEM).architecture == read(V04, PROBLEM).architecture
    dummy = "  - !Component {name: dummy, class: dummy_storage, attributes: {depth: 0, width: 16, datawidth: 16}}\n"
    lines = V04.splitlines(keepends=True)
    at = next(index for index, line in enumerate(lines) if "!Container" in line and index > 5)
    added = read("".join([*lines[:at], dummy, *lines[at:]]), PROBLEM)
    assert [level["name"] for level in added.architecture["levels"] if "dummy" in level["name"]] == []
    with pytest.raises(SpecError, match="expected a map of keys, of one Einsum; name several in files of their own"):
        read("problem: [{shape: {name: one}}]\n")


def test_shape__may_stand_in_a_file_of_its_own(read):
    """As in Timeloop's folder `problem-shapes`."""
    shape = "shape:\n  name: gemm\n  dimensions: [M, N, K]\n  data-spaces:\n"
    shape += "".join(
        f"  - {{name: {name}, projection: {ranks}{', read-write: true' if name == 'Z' else ''}}}\n"
        for name, ranks in (("A", "[[[M]], [[K]]]"), ("B", "[[[N]], [[K]]]"), ("Z", "[[[M]], [[N]]]"))
    )
    problem = "problem: {shape: gemm, M: 4, N: 6, K: 8}\n"
    einsum = read(shape, problem).workload["einsum"]
    assert (einsum["dims"], einsum["output"]) == ({"M": 4, "N": 6, "K": 8}, "Z")
    with pytest.raises(SpecError, match="'gemm' is not known; name its file too"):
        read(problem)
    with pytest.raises(SpecError, match="no dimensions"):
        read(shape.replace("[M, N, K]", "[]"), problem)
    assert [str(note).rpartition("/")[2] for note in read(V03, shape).notes[-1:]] == [
        "1.yaml:2:3: shape: no problem asks for it; name the file that gives its sizes too"
    ]
    with pytest.raises(SpecError, match=r"0.yaml:5:35: problem.shape: 'L' is no dimension; there are M, N, K"):
        read(shape.replace("[[[M]], [[K]]]", "[[[M]], [[L]]]"), problem)


def test_mapping__of_fused_einsums_is_refused(read):
    with pytest.raises(SpecError, match=":1:1: mapping: one of several fused Einsums"):
        read(V03, PROBLEM, "mapping: {type: fused, nodes: [{type: storage, target: 0}]}\n")


def test_attributes__that_change_cycles_are_said_to(read):
    scale = "update_fifo_depth: 2, per_dataspace_bandwidth_consumption_scale: {Weights: 2}, network_fill_latency: 3"
    notes = [note.why for note in read(V04.replace("update_fifo_depth: 2", scale), PROBLEM).notes]
    assert "a word of each tensor takes the same bandwidth" in notes
    assert "delays of networks are not added to the cycles" in notes


def test_words__have_the_older_names_too(read):
    """`word_width` and `n_words`, as in Timeloop's buffer.cpp."""
    old = V03.replace("word-bits", "word_width").replace("block-size", "n_words")
    assert old != V03
    assert read(old, PROBLEM).architecture == read(V03, PROBLEM).architecture
    formula = V03.replace(
        "width: 64, block-size: 8, word-bits: 8", "word_width: 8, n_words: 8, width: word_width*n_words"
    )
    assert read(formula, PROBLEM).architecture == read(V03, PROBLEM).architecture


def test_subtree__of_accelergys_version_2_may_be_a_map(read):
    lines = V03.replace("  - name: system\n", "    name: system\n").replace("    - name: chip\n", "      name: chip\n")
    assert read(lines, PROBLEM).architecture == read(V03, PROBLEM).architecture


def test_formats__of_tensors_that_pass_a_level_by_are_left_out(read):
    ranks = "ranks: [{format: B, metadata-word-bits: 1}]"
    zeros = f"""
sparse_optimizations:
  targets:
  - name: Buffer
    representation-format: {{data-spaces: [{{name: Weights, {ranks}}}, {{name: Inputs, {ranks}}}]}}
    action-optimization: [{{type: position-skipping, target: Weights, condition-on: []}}]
"""
    passing = (
        "architecture_constraints: {targets: [{target: Buffer, type: bypass, keep: [Inputs], bypass: [Weights]}]}\n"
    )
    whole, found = read(V03, PROBLEM, zeros), read(V03, PROBLEM, zeros, passing)
    kept = [made.architecture["levels"][1] for made in (whole, found)]
    assert [list(level["formats"]) for level in kept] == [["Weights", "Inputs"], ["Inputs"]]
    assert ["position_skipping" in level for level in kept] == [True, False]
    assert [note.why for note in found.notes] == ["formats of Weights, which pass by, are left out"]
    assert kept[1]["energy"]["metadata_read"] == "0 pJ"  # the file gives no storage for it
    load_architecture({"architecture": found.architecture})


def test_bandwidth__of_older_files_is_half_for_reads_and_half_for_writes(read):
    made = read(V03.replace("word-bits: 8}", "word-bits: 8, bandwidth: 20.0, read_bandwidth: 4}"), PROBLEM)
    main = load_architecture({"architecture": made.architecture}).levels[0]
    assert (main.read_bandwidth, main.write_bandwidth) == (4, 10)  # words a cycle, as in Timeloop's buffer.cpp


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
        ("problem: {{ size }}", "'size' is undefined; give it a value with --set NAME=VALUE"),
        (V04.replace("BITS // 4", "open('x')"), ":20:15: meshX: expected a whole number"),
        (V04.replace("2 ** 9", "9 ** 9 ** 9"), "Buffer: depth: expected a number from 0 on, got '9 ** 9 ** 9'"),
        (V03.replace("meshX: 2", "meshX: 4"), "meshX '4' does not divide its 6 instances"),
        (PROBLEM.replace("K: 4, ", ""), "problem.instance: K is missing"),
        (MAPPING, "mapping needs the architecture that it is of"),
        ("a: 1", "not a file of timeloop, zigzag, stream, accelforge"),
    ],
)
def test_broken__files_are_refused_in_words_and_at_once(read, tmp_path, text, said):
    (tmp_path.parent / "secret.yaml").write_text("a: 1")
    begin = time.process_time()
    with pytest.raises(AccelsimError) as error:
        read(text)
    assert said in str(error.value)
    assert time.process_time() - begin < 1


def test_broken__mappings_name_the_levels_and_dimensions_that_there_are(read):
    with pytest.raises(SpecError, match="no storage is named 'Bufer'; there are Main, Buffer, Spad"):
        read(V03, PROBLEM, MAPPING.replace("target: Buffer", "target: Bufer"))
    with pytest.raises(SpecError, match="'Z' is no dimension; there are K, R, P"):
        read(V03, PROBLEM, MAPPING.replace("K=2 R=3", "Z=2 R=3"))


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
def test_broken__constraints_are_told_at_their_place(read, given, said):
    with pytest.raises(AccelsimError) as error:
        read(V03, PROBLEM, f"mapspace_constraints:\n- {{target: Spad, type: temporal,         {given}}}\n")
    assert f"2.yaml:{said}" in str(error.value)


def test_broken__a_file_that_is_no_yaml_is_told_beside_those_of_a_tool(run, tmp_path):
    for name, text in {"arch": V03 + "\tbad: [", "prob": PROBLEM}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    code, _, err = run("map", tmp_path / "arch.yaml", tmp_path / "prob.yaml")
    assert (code, "not valid YAML: a tab stands where a line is indented" in err) == (2, True)


NATIVE = """
arch:
  arithmetic: {name: MAC, instances: 6, meshX: 2, word-bits: 8}
  storage:
  - {name: Spad, entries: 16, instances: 6, meshX: 2, word-bits: 8}
  - {name: Buffer, sizeKB: 4, instances: 1, word-bits: 8, block-size: 8}
  - {name: Main, technology: DRAM, instances: 1, word-bits: 8, block-size: 8}
"""


@pytest.mark.parametrize(
    "text",
    [
        V03,
        NATIVE,
        V03.replace("PE[0..5]", "PE").replace("meshX: 2}", "meshX: 2, instances: 6}"),
        V03.replace("depth: 16, width: 8, word_bits: 8", "size: 16 B, width: 8, word-bits: 8"),
        V03.replace("depth: 16, width: 8, word_bits: 8, meshX: 2", "depth: 16, width: 8, word_width: 8"),
        V04.replace('name: Column\n    spatial: {meshX: "max(2, BITS // 4)"}', "name: Column[0..1]"),
        V04.replace('spatial: {meshX: "max(2, BITS // 4)"}', "attributes: {meshX: 2}"),
        V04.replace("- !Nothing", "- !Component {name: Idle, enabled: 1 > 2, class: SRAM}"),
    ],
)
def test_spellings__of_a_machine_come_to_the_same_fanout(read, text):
    architecture = load_architecture({"architecture": read(text, PROBLEM, BITS=8).architecture})
    assert (architecture.macs, architecture.levels[1].x.size) == (6, 2)


@pytest.mark.parametrize(
    ("ranks", "read_as"),
    [
        ("[[[R], [P, Stride]]]", ["R + 2*P"]),
        ("'[R + Stride*P]'", ["R + 2*P"]),
        ("[R + P*2]", ["R + 2*P"]),
    ],
)
def test_projections__are_lists_or_texts(read, ranks, read_as):
    problem = PROBLEM.replace("[[[R], [P, Stride]]]", ranks)
    assert read(problem).workload["einsum"]["tensors"]["Inputs"] == read_as


def test_factors__may_be_a_map(read):
    given = read(V03, PROBLEM, MAPPING.replace("factors: K=2 P=0", "factors: {K: 2, P: 0}"))
    assert given.mapping == read(V03, PROBLEM, MAPPING).mapping


def test_instances__of_no_shape_are_named_with_what_is_meant(read):
    notes = [note.why for note in read(PROBLEM.replace("P: 8,", "P: 8, stride: 3, H: 9, padding: 1,")).notes]
    assert notes[:3] == [
        "is no coefficient of the shape, which has its default; did you mean 'Stride'?",
        "is no dimension and no coefficient of the shape",
        "padded points count as ordinary points",
    ]


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
    ],
)
def test_damaged__machines_are_refused_in_words(read, old, new, said):
    assert V03.count(old)
    with pytest.raises(SpecError) as error:
        read(V03.replace(old, new), PROBLEM)
    assert said in str(error.value)


def test_mapping__whose_loops_do_not_cover_a_dimension_is_refused(read):
    with pytest.raises(AccelsimError, match=r":2:1: no valid mapping comes of it: .*multiply to"):
        read(V03, PROBLEM, MAPPING.replace("P=0", "P=3"))


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
    "text", ["__import__('os')", "w.real", "(lambda: 1)()", "[1] * 9", "'a' * 9", "9 ** 999", "1 / 0"]
)
def test_formula__does_nothing_but_arithmetic(text):
    with pytest.raises(FormulaError):
        work_out(text, {"w": 16})


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


def references() -> list:
    """Timeloop's statistics, with the files that it was given."""
    found = []
    for path in sorted((SHARED / "timeloop").rglob("*.stats.txt")):
        found.append(
            (
                path,
                [
                    path.parent / "parsed-processed-input.yaml",
                    *path.parent.glob("*.ERT.yaml"),
                    *path.parent.glob("*.map.yaml"),
                ],
            )
        )
    for path in sorted((SHARED / "sparseloop/table7_eyeriss_setup/dense_outputs").rglob("*.stats.txt")):
        found.append((path, [path.parents[1] / "aggregated_input.yaml", path.parents[1] / "ERT.yaml"]))
    return found


@needs_files
def test_references__figures_equal_timeloops_or_differ_by_a_named_cause():
    """All counts, energies and cycles that Timeloop printed of its tutorials and examples; none is without a cause."""
    causes, dense = {}, 0
    for path, files in references():
        foreign = read_foreign(files)
        architecture, einsum, mapping, _ = loaded(foreign)
        sparse = any(part.sparsity for part in (*architecture.levels, architecture.compute))
        rows = list(
            compare(
                einsum, mapping, evaluate(architecture, einsum, mapping),
                read_statistics(path.read_text(), str(path)), SPARSE if sparse else UNEXPLAINED,
            )
        )  # fmt: skip
        name = str(path.parent.relative_to(SHARED))
        causes[name] = {row.cause for row in rows} - {""}
        if not sparse:
            dense += 1
            assert next(row.cause for row in rows if row.what == "cycles") == ""
    assert dense == 23
    assert {cause for found in causes.values() for cause in found} == {HALO, REUSE, FIRST_READS, SPARSE}
    by_tutorial = {name.split("/")[-2 if "ref-output" in name else -1]: found for name, found in causes.items()}
    assert by_tutorial["06-mapper-convlayer-eyeriss"] == {HALO}
    assert by_tutorial["outputs"] == {REUSE}


@needs_files
def test_reference__with_operands_held_at_the_compute_is_equal_in_all_figures(run):
    folder = SHARED / "timeloop/tutorial_exercises/02_interface_and_design_space_exploration_2024/outputs"
    files = ["parsed-processed-input.yaml", "timeloop-mapper.map.yaml", "timeloop-mapper.ERT.yaml"]
    code, out, _ = run("replay", *(folder / name for name in (*files, "timeloop-mapper.stats.txt")), "--json")
    said = json.loads(out)
    assert (code, said["holding"]["holds"]) == (0, ["Inputs"])
    assert said["holding"]["equal"] == len(said["figures"])
    assert said["optimum"]["energy_pj"] <= said["holding"]["energy_pj"]


@needs_files
@pytest.mark.parametrize(
    "design", ["eyeriss_like", "simple_weight_stationary", "sparseloop/04.2.1-eyeriss-like-gating"]
)
def test_examples__import_through_their_template(design):
    foreign = read_foreign([EXAMPLES / "top.yaml.jinja2"], variables={"architecture": design})
    architecture, einsum, _, asked = loaded(foreign)
    assert architecture.levels[0].name == "DRAM"
    assert einsum.dims["M"] > 1
    assert asked is not None


@needs_files
def test_constraints_of_a_machine__that_fit_no_layer_of_another_tool_are_left_out_on_demand(run):
    machine = EXAMPLES / "eyeriss_like" / "arch.yaml"
    code, _, err = run("map", machine, "conv1d")
    assert code == 2
    assert f"`--constraints none` leaves out what {machine} asks of mappings" in err
    assert run("map", machine, "conv1d", "--constraints", "none")[0] == 0


@needs_files
@pytest.mark.parametrize("exercise", [path.name for path in sorted((TUTORIAL / "timeloop").glob("*"))] or ["none"])
def test_tutorials__import_as_a_user_gives_them(exercise):
    folder = TUTORIAL / "timeloop" / exercise
    common = [*folder.glob("arch/*.yaml"), *folder.glob("prob/*.yaml")]
    for extra in [*folder.glob("map/*.yaml"), *folder.glob("constraints/*.yaml"), *folder.glob("mapper/*.yaml")]:
        foreign = read_foreign([*common, extra])
        architecture, einsum, mapping, _ = loaded(foreign)
        assert foreign.energies == "accelsim's own models, by class and attributes"
        assert ("/map/" in str(extra)) == (mapping is not None)
        if mapping is not None:
            assert evaluate(architecture, einsum, mapping).valid


@needs_files
def test_replay__names_causes_and_proves_the_optimum(run):
    folder = TUTORIAL / "timeloop/06-mapper-convlayer-eyeriss/ref-output"
    code, out, _ = run("replay", *sorted(folder.glob("*.yaml")), *folder.glob("*.stats.txt"))
    assert code == 0
    assert "29 of 34 figures are equal" in out
    assert "halo fetched again: Timeloop before 2025" in out
    assert "1,847,860,172.41 pJ in 9,633,792 cycles under the same" in out


@needs_files
def test_replay__takes_energies_from_the_table_beside_the_statistics_or_says_whose_they_are(run, tmp_path):
    folder = TUTORIAL / "timeloop/01-model-conv1d-2level"
    files = [*folder.glob("arch/*.yaml"), *folder.glob("prob/*.yaml"), folder / "map/conv1d-2level-os.map.yaml"]
    (statistics,) = (folder / "ref-output/os").glob("*.stats.txt")
    code, out, _ = run("replay", *files, statistics)
    assert code == 0
    assert "26 of 26 figures are equal" in out
    alone = tmp_path / "stats.txt"
    alone.write_text(statistics.read_text())
    code, out, _ = run("replay", *files, alone, "--json")
    assert code == 0
    assert {row["cause"] for row in json.loads(out)["figures"] if row["what"].endswith("[pJ]")} == {MODELS}
    assert {row["cause"] for row in json.loads(out)["figures"] if not row["what"].endswith("[pJ]")} == {""}


def test_drawing__of_a_mapping_is_that_mapping(tmp_path, read):
    """A permutation is written innermost first, a drawing outermost first."""
    drawn = """
Main [ Weights:12 Inputs:17 (17) Outputs:32 (32) ]
--------------------------------------------------
| for K in [0:2)
|   for P in [0:4)

Buffer [ Inputs:5 (5) Outputs:8 (8) ]
Spad [ Weights:1 Inputs:2 Outputs:2 ]
-------------------------------------
|         for P in [0:2)
|           << Compute >>
"""
    across = "| for K in [0:2) (Spatial-X)\n|   for R in [0:3) (Spatial-Y)\nSpad"
    given = loaded(read(V03, PROBLEM, MAPPING))
    file = tmp_path / "map.txt"
    file.write_text(drawn.replace("Spad", across))
    files = [tmp_path / "0.yaml", tmp_path / "1.yaml", file]
    assert loaded(read_foreign(files)) == given
    file.write_text(drawn.replace("Spad", across).replace("K in [0:2) (", "K in [0:3,1) ("))
    assert read_foreign(files).mapping["imperfect"] == ["K"]
    for wrong, said in (
        ("for P in 0..4", ":5:1: expected a level or a loop of a mapping, got '|   for P in 0..4'"),
        ("for L in [0:4)", ":5:1: factors: 'L' is no dimension"),
    ):
        file.write_text(drawn.replace("for P in [0:4)", wrong))
        with pytest.raises(SpecError, match=re.escape(said)):
            read_foreign(files)
    file.write_text("\n")
    with pytest.raises(SpecError, match=r"map.txt:1:1: no levels of a mapping in it"):
        read_foreign(files)


@needs_files
def test_drawings__of_timeloop_are_the_mappings_beside_them():
    files = sorted((SHARED / "timeloop").rglob("timeloop-mapper.map.yaml"))
    for file in files:
        machine = file.with_name("parsed-processed-input.yaml")
        (*_, given, _), (*_, drawn, _) = (
            loaded(read_foreign([machine, each])) for each in (file, file.with_suffix(".txt"))
        )
        for one, other in zip(given.levels, drawn.levels, strict=True):
            assert (one.temporal, one.keep) == (other.temporal, other.keep)
            assert ({*one.x}, {*one.y}) == ({*other.x}, {*other.y})
    assert len(files) == 20


def test_summaries__of_energies_and_areas_are_read_as_their_tables(read):
    """What has arguments is there with its largest energy, which counts in a table too."""
    areas = "ART: {tables: [{name: system.chip.Buffer, area: 20.5}]}\n"
    summary = """
ERT_summary:
  version: 0.3
  table_summary:
  - {name: "system.Main[1..1]", actions: [{name: read, energy: 512.0}, {name: write, energy: 500.5}]}
  - {name: system.chip.Buffer, actions: [{name: read, average_energy: 2.0, max_energy: 4.0, min_energy: 0.0},
      {name: write, energy: 5.0}, {name: update, energy: 6.0}, {name: leak, energy: 7.972e-06}]}
  - {name: "system.chip.PE[0..5].Spad", actions: [{name: read, energy: 0.25}, {name: write, energy: 0.5}]}
  - {name: "system.chip.PE[0..5].MAC", actions: [{name: mac_random, max_energy: 0.75}]}
"""
    given = loaded(read(V03, PROBLEM, ERT.replace("ERT:\n", "ERT:\n  version: 0.3\n"), areas))[0]
    art = "ART_summary: {table_summary: [{name: system.chip.Buffer, area: 20.5, primitive_estimations: Cacti}]}\n"
    assert loaded(read(V03, PROBLEM, summary, art.replace(", primitive_estimations: Cacti", "")))[0] == given
    assert loaded(read(V03, PROBLEM, summary, art))[0] == given


def test_classes__that_neither_store_nor_compute_are_passed_over_as_timeloop_does(read):
    more = "        - {name: Fifo, class: FIFO, attributes: {depth: 5}}\n        - {name: Adder, class: intadder}\n"
    plain = read(V03, PROBLEM, MAPPING, ERT)
    with_more = read(V03.replace("        - {name: Spad", f"{more}        - {{name: Spad"), PROBLEM, MAPPING, ERT)
    assert loaded(with_more) == loaded(plain)
    said = [str(note).rpartition("/")[2] for note in with_more.notes if "no class that" in str(note)]
    why = "is of no class that stores or computes; Timeloop makes no level of it either"
    assert said == [f"0.yaml:16:11: Fifo: {why}", f"0.yaml:17:11: Adder: {why}"]


def test_accesses__of_older_versions_all_cost_what_the_dearest_action_does(read):
    """Reads of the scratchpad take 0.25 pJ by the ERT, and fills 0.5 pJ."""
    architecture, einsum, mapping, _ = loaded(read(V03, PROBLEM, MAPPING, ERT))
    ours, dearest = evaluate(architecture, einsum, mapping), evaluate_dearest(architecture, einsum, mapping)
    spad = next(one for one in ours.tensors if (one.level, one.tensor) == ("Spad", "Weights"))
    text = f"""Cycles: {ours.cycles}
=== Spad ===
    Weights:
        Scalar reads (per-instance)              : {spad.reads}
        Scalar fills (per-instance)              : {spad.fills}
        Energy (total)                           : {(spad.reads + spad.fills) * 0.5 * 6} pJ
"""
    theirs = read_statistics(text, "x.stats.txt")
    rows = {row.what: row.cause for row in compare(einsum, mapping, ours, theirs, dearest=dearest)}
    assert rows["Spad Weights energy [pJ]"] == DEAREST
    rows = {row.what: row.cause for row in compare(einsum, mapping, ours, theirs)}
    assert rows["Spad Weights energy [pJ]"] == UNEXPLAINED


def test_statistics__of_algorithmic_accesses_are_those_of_a_dense_run():
    """As Timeloop prints them since it counts zeros, whether there are any or not."""
    text = "Cycles: 8\n=== Spad ===\n    Weights:\n"
    lines = ("Algorithmic scalar reads (per-instance) : 48\n", "Actual scalar reads (per-instance) : 12\n")
    found = read_statistics(text + "".join(f"        {line}" for line in lines), "x.stats.txt")
    assert found.accesses["Spad", "Weights"] == {("dense", "read"): 48.0, ("actual", "read"): 12.0}


def test_rows__wider_than_their_block_are_those_of_a_cluster(read):
    """A row of 32 bit has four blocks of one word of 8 bit: each instance has a quarter of the energy and the area."""
    area = "ART: {tables: [{name: 'system.chip.PE[0..5].Spad', area: 20.0}]}\n"
    foreign = read(V03.replace("width: 8, word_bits: 8", "width: 32, block-size: 1, word_bits: 8"), PROBLEM, ERT, area)
    spad = loaded(foreign)[0].levels[-1]
    assert (spad.block_size, spad.size_words, foreign.architecture["levels"][-1]["area"]) == (1, 16, "5 um2")
    assert loaded(foreign)[0].energy.energy_pj("Spad", "Weights", "read") == 0.25 / 4
    said = [str(note).rpartition("/")[2] for note in foreign.notes if "cluster" in str(note)]
    assert said[0].startswith("0.yaml:16:11: Spad: 4 blocks in a row: an access serves a cluster of instances")


def test_figures__of_attributes_count_where_no_table_has_them(read):
    """As Timeloop's `buffer.cpp` and `arithmetic.cpp` have it: overrides of its own models, which an ERT replaces."""
    text = V03.replace("class: regfile, attributes: {", "class: regfile, attributes: {vector-access-energy: 0.3, ")
    text = text.replace("class: intmac, attributes: {", "class: intmac, attributes: {energy: 2, area: 9.5, ")
    table = "ERT: {tables: [{name: Buffer, actions: [{name: read, energy: 4.0}]}]}\n"
    foreign = read(text.replace("memory_depth", "vector-access-energy: 3, memory_depth"), PROBLEM, table)
    (_, buffer, spad), compute = foreign.architecture["levels"], foreign.architecture["compute"]
    assert (spad["energy"]["read"], spad["energy"]["write"], buffer["energy"]["read"]) == ("0.3 pJ", "0.3 pJ", "4 pJ")
    assert (compute["energy"]["compute"], compute["area"]) == ("2 pJ", "9.5 um2")
    assert foreign.energies == "the ERT 2.yaml and attributes in 0.yaml; of Main accelsim's own models"
    assert not any("energy" in str(note) or "area" in str(note) for note in foreign.notes)


def test_meshes__may_have_their_y_axis_alone(read):
    text = V03.replace("meshX: 2", "meshY: 2")
    assert [(level.x.size, level.y.size) for level in loaded(read(text, PROBLEM))[0].levels][1] == (3, 2)
    with pytest.raises(SpecError, match=r"0.yaml:16:11: Spad: 2 x 2 of meshX and meshY are not its 6 instances"):
        read(V03.replace("meshX: 2", "meshX: 2, meshY: 2"), PROBLEM)


def test_clusters__are_charged_whole_by_timeloop(read):
    """Two PEs of six are idle: three clusters of two instances cost as much as six of the four in use."""
    machine = V03.replace("word_bits: 8, meshX: 2", "word_bits: 8, cluster-size: 2, meshX: 2")
    loops = MAPPING.replace("K=2 R=3", "K=2 R=2").replace("P2 R1", "P2 R1").replace("R: 3", "R: 2")
    architecture, einsum, mapping, _ = loaded(read(machine, PROBLEM.replace("R: 3", "R: 2"), loops, ERT))
    ours = evaluate(architecture, einsum, mapping)
    spad = next(one for one in ours.tensors if (one.level, one.tensor) == ("Spad", "Weights"))
    text = f"""Cycles: {ours.cycles}
=== Spad ===
        Cluster size                    : 2
    Weights:
        Utilized clusters (max)                  : 3
        Scalar reads (per-instance)              : {spad.reads}
        Scalar fills (per-instance)              : {spad.fills}
        Energy (total)                           : {spad.energy_pj * 6 / 4} pJ
"""
    rows = {row.what: row.cause for row in compare(einsum, mapping, ours, read_statistics(text, "x.stats.txt"))}
    assert rows["Spad Weights energy [pJ]"] == "cluster_size"
    rows = {
        row.what: row.cause for row in compare(einsum, mapping, ours, read_statistics(text.replace(": 3", ": 2"), ""))
    }
    assert rows["Spad Weights energy [pJ]"] == UNEXPLAINED


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["replay", "x.stats.txt"], "x.stats.txt: the inputs are missing; name architecture, problem and mapping too"),
        (["replay", "arch.yaml", "prob.yaml"], "expected one file that ends in stats.txt, got 0"),
        (["replay", "x.stats.txt", "prob.yaml"], "prob.yaml: the files hold no architecture and no mapping"),
        (["replay", "x.stats.txt", "pipe.yaml"], "pipe.yaml: is a pipe or a device"),
        (["replay", "empty.stats.txt", "arch.yaml"], "empty.stats.txt: not the statistics of a mapping"),
        (["import", "arch.yaml", "zigzag.yaml"], "files of timeloop, zigzag do not go together"),
        (["map", "zigzag.yaml", "prob.yaml"], "files of timeloop, zigzag do not go together"),
        (["map", "arch.yaml", "sparse.yaml"], "sparse.yaml:1:1: is larger than 64 MiB"),
        (["import", "sparse.yaml"], "sparse.yaml: is larger than 64 MiB"),
        (["import", "."], ".: is a directory, not a file"),
        (["eval", "arch.yaml", "prob.yaml", "pipe.yaml"], "pipe.yaml:1:1: is a pipe or a device"),
        (["export", "timeloop", "pipe.yaml"], "pipe.yaml: is a pipe or a device"),
        (["export", "timeloop", "sparse.yaml"], "sparse.yaml: is larger than 64 MiB"),
        (["check", "x.stats.txt"], "x.stats.txt:1:1: statistics of Timeloop are no input; `accelsim replay` takes"),
        (["map", "arch.yaml", "net.m"], "net.m:1:1: files of MAESTRO are not read; write the layers as a workload"),
        (["check", "mapping.py"], "mapping.py:1:1: Python is not run; name a model (ONNX, or .pt2 of PyTorch), or the"),
        (["validate", "timeloop", "x.stats.txt"], "beside it; `accelsim replay` takes Timeloop's stats.txt and inputs"),
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
    with open("sparse.yaml", "wb") as file:
        file.truncate(2 << 30)
    code, out, err = run(*command)
    assert (code, out, said in err) == (2, "", True), err


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
    assert run("map", "two_level", "layers/from_base.yaml", "--quiet")[0] == 0
    assert run("map", "arch.yaml", "layers/from_base.yaml", "--quiet")[0] == 0
    assert "'../secret.txt' lies outside" in run("import", "layers/from_secret.yaml")[2]
    monkeypatch.chdir(layers)
    assert "'../base.yaml' lies outside" in run("import", "from_base.yaml")[2]
