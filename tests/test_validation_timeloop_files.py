"""Timeloop's own files and drawings, and what it said of them, with `python -m validation.timeloop_files`."""

import json
import os
import re

import pytest

from accelsim.importers.foreign import read_foreign
from accelsim.inputs.errors import InputError
from accelsim.inputs.units import quoted
from accelsim.model.evaluate import evaluate
from tests.timeloop_files import ERT, MAPPING, PROBLEM, SHARED, STATISTICS, V03, loaded, needs_files, references
from validation.timeloop_files import main
from validation.timeloop_replay import (
    ACCESS,
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

TUTORIAL = SHARED / "timeloop/tutorial_exercises/01_accelergy_timeloop_2020_ispass"


@pytest.fixture
def compared(capsys):
    """Run `python -m validation.timeloop_files` in this process: its exit code and what it printed."""

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


EXAMPLES = SHARED / "timeloop/example_designs/example_designs"


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
def test_reference__with_operands_held_at_the_compute_is_equal_in_all_figures(compared):
    folder = SHARED / "timeloop/tutorial_exercises/02_interface_and_design_space_exploration_2024/outputs"
    files = ["parsed-processed-input.yaml", "timeloop-mapper.map.yaml", "timeloop-mapper.ERT.yaml"]
    code, out, _ = compared(*(folder / name for name in (*files, "timeloop-mapper.stats.txt")), "--json")
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
def test_constraints_of_a_machine__that_name_dimensions_of_other_layers_are_left_out_unread(run, shared):
    machine = TUTORIAL / "timeloop" / "06-mapper-convlayer-eyeriss" / "arch" / "eyeriss_like.yaml"
    layer = shared / "cases" / "turn3" / "unknown_dims_none" / "prob.yaml"
    code, _, err = run("map", machine, layer)
    assert code == 2
    assert "factors: 'M' is no dimension; there are C, R, S, P, Q, N" in err
    even = "--mapspace", "even", "--factors", "perfect"
    code, out, _ = run("map", machine, layer, "--constraints", "none", "--time-limit", "2", *even)
    assert code == 0
    assert out.startswith("dw on ")


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
def test_replay__names_causes_and_proves_the_optimum(compared):
    folder = TUTORIAL / "timeloop/06-mapper-convlayer-eyeriss/ref-output"
    code, out, _ = compared(*sorted(folder.glob("*.yaml")), *folder.glob("*.stats.txt"))
    assert code == 0
    assert "29 of 34 figures are equal" in out
    assert "halo fetched again: Timeloop before 2025" in out
    assert "1,847,860,172.41 pJ in 9,633,792 cycles under the same" in out


@needs_files
def test_replay__takes_energies_from_the_table_beside_the_statistics_or_says_whose_they_are(compared, tmp_path):
    folder = TUTORIAL / "timeloop/01-model-conv1d-2level"
    files = [*folder.glob("arch/*.yaml"), *folder.glob("prob/*.yaml"), folder / "map/conv1d-2level-os.map.yaml"]
    (statistics,) = (folder / "ref-output/os").glob("*.stats.txt")
    code, out, _ = compared(*files, statistics)
    assert code == 0
    assert "26 of 26 figures are equal" in out
    alone = tmp_path / "stats.txt"
    alone.write_text(statistics.read_text())
    code, out, _ = compared(*files, alone, "--json")
    assert code == 0
    assert {row["cause"] for row in json.loads(out)["figures"] if row["what"].endswith("[pJ]")} == {MODELS}
    assert {row["cause"] for row in json.loads(out)["figures"] if not row["what"].endswith("[pJ]")} == {""}


def test_drawing__of_a_mapping_is_that_mapping(tmp_path, imported):
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
    given = loaded(imported(V03, PROBLEM, MAPPING))
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
        with pytest.raises(InputError, match=re.escape(said)):
            read_foreign(files)
    file.write_text("\n")
    with pytest.raises(InputError, match=r"map.txt:1:1: no levels of a mapping in it"):
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


def test_accesses__of_older_versions_all_cost_what_the_dearest_action_does(imported):
    """Reads of the scratchpad take 0.25 pJ by the ERT, and fills 0.5 pJ."""
    architecture, einsum, mapping, _ = loaded(imported(V03, PROBLEM, MAPPING, ERT))
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


def test_actions__that_timeloop_does_not_know_cost_what_it_likes(imported, compared, tmp_path, monkeypatch):
    """Timeloop finds no `read` for the scratchpad, whose energy stands under `access`."""
    rows = """{name: read, arguments: {data_delta: 0}, energy: 0.1},
      {name: read, arguments: {data_delta: 1}, energy: 0.25}, {name: write, energy: 0.5}"""
    access = ERT.replace(rows, "{name: access, energy: 0.5}")
    architecture, einsum, mapping, _ = loaded(imported(V03, PROBLEM, MAPPING, access))
    ours = evaluate(architecture, einsum, mapping)
    spad = next(one for one in ours.tensors if (one.level, one.tensor) == ("Spad", "Weights"))
    assert spad.energy_pj == (spad.reads + spad.fills) * 0.5 * 6
    text = f"""Cycles: {ours.cycles}
=== Spad ===
    Weights:
        Scalar reads (per-instance)              : {spad.reads}
        Scalar fills (per-instance)              : {spad.fills}
        Energy (total)                           : {spad.energy_pj * 9} pJ
"""
    monkeypatch.chdir(tmp_path)
    for name, written in {"a.yaml": V03, "p.yaml": PROBLEM, "m.yaml": MAPPING, "x.stats.txt": text}.items():
        (tmp_path / name).write_text(written)
    for table, cause, noted in ((access, ACCESS, True), (ERT, UNEXPLAINED, False)):
        (tmp_path / "e.yaml").write_text(table)
        _, out, err = compared("a.yaml", "p.yaml", "m.yaml", "e.yaml", "x.stats.txt", "--json")
        causes = {row["what"]: row["cause"] for row in json.loads(out)["figures"]}
        assert causes["Spad Weights energy [pJ]"] == cause
        assert ("e.yaml:7:5: Spad.access: is taken for `read` and `write`; Timeloop knows no" in err) == noted


@pytest.fixture
def replayed(compared, tmp_path, monkeypatch):
    """Replay statistics of the machine of the tests: exit code, and lines on stderr without notes."""
    monkeypatch.chdir(tmp_path)
    for name, text in {"a.yaml": V03, "p.yaml": PROBLEM, "m.yaml": MAPPING, "e.yaml": ERT}.items():
        (tmp_path / name).write_text(text)

    def replay(text):
        (tmp_path / "x.stats.txt").write_text(text)
        code, _, said = compared("a.yaml", "p.yaml", "m.yaml", "e.yaml", "x.stats.txt")
        return code, [line for line in said.splitlines() if line.startswith("x.stats.txt")]

    return replay


@pytest.mark.parametrize(
    ("line", "written", "place"),
    [
        ("Scalar reads (per-instance)              : ", "8", "12:52"),
        ("Instances             : ", "6", "3:29"),
        ("Computes (total)      : ", "96", "4:29"),
        ("Energy (total)        : ", "1.5e+01", "5:29"),
        ("Vector read energy    : ", "0.25", "7:29"),
        ("Cluster size          : ", "1", "9:29"),
        ("Rank 0 (metadata, payload): (", "2", "14:40"),
    ],
)
@pytest.mark.parametrize("wrong", [".", "1.2.3", "-", "nan", "1e999", "9" * 5000])
def test_statistics__numbers_that_are_none_have_their_place(replayed, line, written, place, wrong):
    code, said = replayed(STATISTICS.replace(line + written, line + wrong, 1))
    assert code == 2
    assert said == [f"x.stats.txt:{place}: expected a number, got {quoted(wrong)}"]


def test_statistics__of_another_machine_or_layer_are_named(replayed):
    text = STATISTICS.replace("Instances             : 6", "Instances             : 16")
    code, said = replayed(text.replace(": 96", ": 1536").replace("=== Spad", "=== Regs"))
    others = ["16 MAC, and the machine has 6", "16 Regs, and the machine has none, but Main, Buffer, Spad, MAC"]
    others.append("1,536 MACs, and conv1d has 96")
    hint = "name the files that they were made from"
    assert (code, said) == (2, [f"x.stats.txt: the statistics are of {other}; {hint}" for other in others])
    assert replayed(STATISTICS) == (1, [])


def test_statistics__of_algorithmic_accesses_are_those_of_a_dense_run():
    """As Timeloop prints them since it counts zeros, whether there are any or not."""
    text = "Cycles: 8\n=== Spad ===\n    Weights:\n"
    lines = ("Algorithmic scalar reads (per-instance) : 48\n", "Actual scalar reads (per-instance) : 12\n")
    found = read_statistics(text + "".join(f"        {line}" for line in lines), "x.stats.txt")
    assert found.accesses["Spad", "Weights"] == {("dense", "read"): 48.0, ("actual", "read"): 12.0}


def test_rows__wider_than_their_block_are_those_of_a_cluster(imported):
    """A row of 32 bit has four blocks of one word of 8 bit: each instance has a quarter of the energy and the area."""
    area = "ART: {tables: [{name: 'system.chip.PE[0..5].Spad', area: 20.0}]}\n"
    foreign = imported(
        V03.replace("width: 8, word_bits: 8", "width: 32, block-size: 1, word_bits: 8"), PROBLEM, ERT, area
    )
    spad = loaded(foreign)[0].levels[-1]
    assert (spad.block_size, spad.size_words, foreign.architecture["levels"][-1]["area"]) == (1, 16, "5 um2")
    assert loaded(foreign)[0].energy.energy_pj("Spad", "Weights", "read") == 0.25 / 4
    said = [str(note).rpartition("/")[2] for note in foreign.notes if "cluster" in str(note)]
    assert said[0].startswith("0.yaml:16:11: Spad: 4 blocks in a row: an access serves a cluster of instances")


def test_clusters__are_charged_whole_by_timeloop(imported):
    """Two PEs of six are idle: three clusters of two instances cost as much as six of the four in use."""
    machine = V03.replace("word_bits: 8, meshX: 2", "word_bits: 8, cluster-size: 2, meshX: 2")
    loops = MAPPING.replace("K=2 R=3", "K=2 R=2").replace("P2 R1", "P2 R1").replace("R: 3", "R: 2")
    architecture, einsum, mapping, _ = loaded(imported(machine, PROBLEM.replace("R: 3", "R: 2"), loops, ERT))
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
    ("names", "said"),
    [
        ("x.stats.txt", "x.stats.txt: the inputs are missing; name architecture, problem and mapping too"),
        ("arch.yaml prob.yaml", "expected one file that ends in stats.txt, got 0"),
        ("x.stats.txt prob.yaml", "prob.yaml: the files hold no architecture and no mapping"),
        ("x.stats.txt pipe.yaml", "pipe.yaml: is a pipe or a device"),
        ("empty.stats.txt arch.yaml", "empty.stats.txt: not the statistics of a mapping"),
        ("x.stats.txt arch.yaml --set a=1 --set a=2", "--set a is given twice"),
    ],
)
def test_careless_files__are_refused_in_words(compared, tmp_path, monkeypatch, names, said):
    monkeypatch.chdir(tmp_path)
    texts = {"arch.yaml": V03, "prob.yaml": PROBLEM, "x.stats.txt": "Cycles: 8\n", "empty.stats.txt": "\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    os.mkfifo("pipe.yaml")
    code, out, err = compared(*names.split())
    assert (code, out) == (2, "")
    assert err.startswith(said)
