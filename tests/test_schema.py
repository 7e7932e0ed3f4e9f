"""JSON Schemas: every shipped file and every result fits, what is no such file does not."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from reports import a_search, an_exact_search, row_stationary

from accelsim.cli import arguments as command_line
from accelsim.cli import main as cli
from accelsim.cli.inspecting import check_files
from accelsim.inputs import library
from accelsim.inputs.machine_tables import machine_json
from accelsim.model.limits import Limits
from accelsim.results import Provenance, to_json
from accelsim.results.network import LayerOutcome, network_json
from accelsim.show.schema import KINDS, json_schema
from docs.site.yaml_keys import schema_keys

BROKEN = Path(__file__).parent / "broken"
GOOD = {"machine", "layer", "table"}
BEYOND = {
    "alias": "YAML tags, which an editor resolves",
    "bits": "keys of `bits` must be roles or tensors of the layers",
    "duplicate_key": "a key that stands twice is no part of JSON",
    "energy_ambiguous": "two entries of another file that match equally well",
    "energy_missing": "an energy that neither this file nor the table has",
    "mapping_keep": "tensors and levels of other files",
    "mapping_levels": "tensors and levels of other files",
    "mapping_loops": "dimensions and bounds of another file",
    "no_such_table": "an energy table that does not exist",
    "syntax": "no YAML",
}
VALIDATORS = {kind: Draft202012Validator(json_schema(kind)) for kind in KINDS}
SHIPPED = {"arch": "architecture", "workloads": "workload", "mappings": "mapping", "energy_tables": "energy_table"}
SHIPPED |= {"constraints": "constraints", "gpus": "gpu", "sweeps": "sweep", "systems": "system"}
SHIPPED["decoders"] = "decoder"


def plain(node: yaml.Node):
    """Values of a YAML 1.2 file (core schema), as an editor sees them."""
    if isinstance(node, yaml.MappingNode):
        return {key.value: plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [plain(item) for item in node.value]
    text = node.value
    if node.style is not None:
        return text
    if re.fullmatch(r"[-+]?[0-9]+", text):
        return int(text)
    if re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", text):
        return float(text)
    return {"": None, "null": None, "~": None, "true": True, "false": False}.get(text.lower(), text)


def values(text: str):
    return plain(yaml.compose(text, Loader=yaml.BaseLoader))


def wrong(kind: str, document) -> list[str]:
    """What a schema has against a document."""
    return [f"{error.json_path}: {error.message}" for error in VALIDATORS[kind].iter_errors(document)]


@pytest.mark.parametrize("kind", KINDS)
def test_schemas__are_schemas(kind):
    schema = json_schema(kind)
    Draft202012Validator.check_schema(schema)
    assert json.loads(to_json(schema)) == schema


@pytest.mark.parametrize(
    "path", [path for kind in library.KINDS for path in library.shipped(kind)], ids=lambda path: path.stem
)
def test_shipped_files__fit_their_schema(path):
    document = values(path.read_text(encoding="utf-8"))
    (kind,) = set(document) & set(KINDS)
    assert wrong(kind, document) == []


def test_shipped_files__are_of_every_kind():
    """But for layouts, which are those of one layer."""
    assert {SHIPPED[kind] for kind in library.KINDS} == set(KINDS) - {"result", "layout"}


@pytest.mark.parametrize("path", sorted(BROKEN.glob("*.yaml")), ids=lambda path: path.stem)
def test_broken_files__do_not_fit(path):
    """But for the rules in BEYOND, which look across keys or files, or which JSON does not know."""
    if path.stem == "syntax":
        with pytest.raises(yaml.YAMLError):
            values(path.read_text())
        return
    document = values(path.read_text())
    kind = next((kind for kind in KINDS if kind in document), "workload")
    assert bool(wrong(kind, document)) == (path.stem not in GOOD | BEYOND.keys())


OF_FORM = re.compile(
    r"unknown key|expected |is missing|unknown unit|has no unit|not a number with a unit|at least|cannot read"
)
BEYOND_MISTAKES = (
    "only the first level may be unlimited",  # depends on the place in the list
    "the bound of a loop is at least 1",  # patterns say how numbers are written, not how large they are
    "cannot read the rank '0*M'",
    "got '1e5'",  # a whole number to JSON
    "($glb)",  # the value of a parameter
    "a ) is missing",
)


@pytest.mark.parametrize("stem", sorted(path.stem for path in BROKEN.glob("*.yaml")))
def test_broken_files__every_mistake_of_form_has_its_place_in_the_schema_too(stem):
    """The place, or a list or mapping around it: an editor marks what `accelsim check` reports."""
    path = BROKEN / f"{stem}.yaml"
    mistakes = [problem for problem in check_files([path]) if OF_FORM.search(problem.what)]
    mistakes = [p for p in mistakes if not any(words in f"{p.what} {p.hint}" for words in BEYOND_MISTAKES)]
    if stem in BEYOND or not mistakes:
        pytest.skip("no mistake of form")
    document = values(path.read_text())
    kind = next((kind for kind in KINDS if kind in document), None)
    if kind is None:
        assert all(wrong(kind, document) for kind in KINDS)
        return
    places = [error.json_path for error in VALIDATORS[kind].iter_errors(document)]
    for problem in mistakes:
        at = f"$.{kind}.{problem.what.partition(': ')[0]}"
        at = at.rpartition(".")[0] if "unknown key" in problem.what else at
        assert any(at == place or (at.startswith(place) and place != f"$.{kind}") for place in places), (
            problem,
            places,
        )


WORDS = [
    *(
        "16",
        "+3",
        "0",
        "-1",
        "1e5",
        "16.0",
        "007",
        "true",
        "False",
        "no",
        "''",
        "a",
        "Weights",
        "Inputs",
        "x-1.y",
    ),
    *(
        "16 bit",
        "+1 KiB",
        "1.5e3 KB",
        "8bit",
        "0.25 pJ / bit",
        "2 nJ",
        "1 words/cycle",
        "3 GB /s",
        "2 GHz",
        "65nm",
        "-1 B",
    ),
    *(
        "K=4",
        "C = 2",
        "P<=4",
        "...",
        "2*P + R",
        "0*P",
        "$batch",
        "$pe.x",
        "2 * ($pe.x + 1)",
        "$",
        "psums",
        "forward",
        "0.5",
    ),
]
KEYS = [
    "name",
    "size",
    "x",
    "K",
    "H",
    "W",
    "source",
    "multicast",
    "update",
    "Outputs",
    "psums",
    "bits",
    "repeat",
    "only",
    "zz",
]
SEEDS = sorted(
    (path for kind in library.KINDS for path in library.shipped(kind) if path.stat().st_size < 6000),
    key=lambda path: path.as_posix(),
)


@st.composite
def mutants(draw):
    """A shipped file with a few keys and values replaced, left out, doubled or quoted."""
    root = yaml.compose(draw(st.sampled_from(SEEDS)).read_text(), Loader=yaml.BaseLoader)
    for _ in range(draw(st.integers(1, 3))):
        nodes = [root]
        for node in nodes:
            children = [value for _, value in node.value] if isinstance(node, yaml.MappingNode) else node.value
            nodes += children if isinstance(node, yaml.CollectionNode) else []
        node = draw(st.sampled_from(nodes))
        if isinstance(node, yaml.ScalarNode):
            node.value = draw(st.sampled_from(WORDS))
            node.style = draw(st.sampled_from([None, None, None, '"']))
        elif isinstance(node, yaml.MappingNode) and node.value:
            at = draw(st.integers(0, len(node.value) - 1))
            if draw(st.booleans()):
                node.value[at][0].value = draw(st.sampled_from(KEYS))
            else:
                del node.value[at]
        elif node.value:
            at = draw(st.integers(0, len(node.value) - 1))
            node.value[at : at + 1] = draw(st.sampled_from([[], node.value[at : at + 1] * 2]))
    return yaml.serialize(root, Dumper=yaml.BaseDumper, width=10_000)


@given(mutants())
def test_mutants__what_the_reader_accepts_fits_and_unknown_keys_do_not(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "mutant.yaml"
    path.write_text(text)
    problems = check_files([path])
    document = values(text)
    kinds = set(document) & set(KINDS)
    if not kinds:
        return
    against = wrong(kinds.pop(), document)
    if not problems:
        assert against == []
    if any("unknown key" in problem.what for problem in problems):
        assert against != []


@pytest.mark.parametrize(
    "arguments",
    [
        ("eval", "eyeriss", "conv", "eyeriss_row_stationary"),
        ("map", "eyeriss", "conv1d"),
        ("map", "eyeriss", "conv1d", "--mapspace", "even", "--factors", "perfect", "--objective", "cycles"),
        ("map", "two_level", "conv1d", "--top", "20%", "--objective", "edp"),
        ("map", "two_level", "conv1d", "--pareto", "energy,offchip_words,capacity:BUF"),
        ("map", "eyeriss", "conv1d", "--sample", "200", "--objective", "edp"),
        (
            "map",
            "eyeriss",
            "conv",
            "--constraints",
            "eyeriss_row_stationary",
            "--sample",
            "500",
            "--set",
            "glb=64 KiB",
        ),
        ("map", "eyeriss", "alexnet", "--sample", "300", "--time-limit", "20"),
        ("map", "gpu_sm", "bert_base", "--sample", "300"),
    ],
    ids=" ".join,
)
def test_results__fit_the_schema(arguments, capsys):
    assert cli.main([*arguments, "--json", *(["--quiet"] if arguments[0] == "map" else [])]) in (0, 1)
    document = json.loads(capsys.readouterr().out)
    assert wrong("result", document) == []
    assert wrong("result", {**document, "more": 1}) != []


def test_results__a_layer_without_a_mapping_fits_too():
    architecture, einsum, result = row_stationary()
    machine = machine_json(architecture)
    found = [
        LayerOutcome(replace(einsum, name="a", repeat=2), a_search(result)),
        LayerOutcome(replace(einsum, name="b"), None, "0 of 3 valid"),
        LayerOutcome(replace(einsum, name="c"), an_exact_search(result), limits=Limits(1.0, 1)),
    ]
    for outcomes, yields in ((found, {}), (found[2:], {"frames": 1}), (found[1:2], {"frames": 1})):
        provenance = Provenance("map", (), {"a": "1"}, 5000, None)
        assert wrong("result", network_json(("net", "eyeriss"), outcomes, yields, provenance, machine)) == []


def test_command__prints_one_schema_and_writes_all(tmp_path, capsys):
    assert cli.main(["check", "--schema", "mapping"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema("mapping")
    assert cli.main(["check", "-o", str(tmp_path / "all")]) == 0
    assert {path.name for path in (tmp_path / "all").iterdir()} == {f"{kind}.schema.json" for kind in KINDS}
    assert capsys.readouterr().out.count("\n") == len(KINDS)
    assert cli.main(["check", "--schema", "result", "-o", str(tmp_path / "one")]) == 0
    assert json.loads((tmp_path / "one" / "result.schema.json").read_text()) == json_schema("result")
    assert capsys.readouterr().err == ""
    for wrong_kind, said in (
        (["--schema"], "--schema: expected one argument"),
        (["--schema", "archi"], "'architecture'"),
    ):
        assert cli.main(["check", *wrong_kind]) == 2
        assert said in capsys.readouterr().err


def test_command__knows_every_kind():
    """The command line names them itself, so that `--help` need not import the readers."""
    (kinds,) = (
        action.choices
        for action in command_line.make_parser()._subparsers._group_actions[0].choices["check"]._actions
        if action.dest == "schema"
    )
    assert tuple(kinds) == KINDS


def test_schemas__unknown_constraints_are_marked():
    text = (
        "constraints: {levels: [{level: GLB, temporal: {oder: [K], factors: [K<4]}, keep: [a, a]}], min_utilization: 2}"
    )
    assert len(wrong("constraints", values(text))) == 4
    text = "constraints: {levels: [{level: GLB, temporal: {order: [K, '...'], factors: [K<=4]}}], min_utilization: $u}"
    assert wrong("constraints", values(text)) == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "result"])
def test_keys__are_all_described(kind):
    for each in schema_keys(kind):
        assert each.meaning
        assert each.default
        assert each.required == (each.default == "required"), each.key
        assert (each.form == "quantity") <= bool(each.unit), each.key


def test_schema__has_the_meaning_of_each_key():
    levels = json_schema("architecture")["properties"]["architecture"]["properties"]["levels"]
    word = levels["items"]["properties"]["word"]
    assert word["description"] == "storage granule: an element of b bits uses ceil(b / word) words"


@pytest.mark.parametrize(
    ("kind", "key", "form"),
    [
        ("architecture", "architecture.levels[].size", "quantity or mapping"),
        ("architecture", "architecture.levels[].efficiency", "0 to 1"),
        ("workload", "workload.conv.stride", "int >= 1 or 2 of them"),
        ("architecture", "architecture.levels[].keep", "roles"),
        ("constraints", "constraints.levels[].temporal.order", "list"),
        ("sweep", "sweep.strategy", "grid, random or optuna"),
        ("sweep", "sweep.prune", "bool"),
        ("sweep", "sweep.objectives", "list of energy, cycles, time, edp, power or area"),
        ("sweep", "sweep.workloads[].weight", "number >= 0"),
    ],
)
def test_keys__say_what_may_be_written(kind, key, form):
    assert next(each.form for each in schema_keys(kind) if each.key == key) == form
