"""Results that hold, and results that somebody changed."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings

from accelsim.designs.work import mapping_text
from accelsim.inputs.architecture import Axis, load_architecture
from accelsim.inputs.constraints import Block, Constraints, LevelConstraint
from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.machine_tables import machine_json
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping, dump_mapping
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate
from accelsim.results import Provenance
from accelsim.results.output import evaluation_json, front_json, map_json, mapping_json, read_mapping_json
from accelsim.results.verifying import Task, verify, verify_layer
from accelsim.search.exact.front import map_front
from accelsim.search.mapper import map_einsum
from accelsim.search.stopping import Budget
from tests.strategies import cases
from tests.test_space import gemm

MACHINE, LAYER = load_architecture("two_level"), load_workload("conv1d").layers[0]
NOWHERE = Provenance("map", (), {})


def document(**options):
    """What `map` writes for the 1-D convolution."""
    return written(map_einsum(MACHINE, LAYER, **options, uneven=False))


def written(search):
    return map_json(search, NOWHERE, machine_json(MACHINE))


def differing(found):
    return [check.what for check in found if check.agrees is False]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"objective": "edp"},
        {"top": 5},
        {"within": 0.5},
        {"method": "exhaustive"},
        {"budget": Budget(mappings=50)},
    ],
    ids=str,
)
def test_verify__what_a_search_found_holds(options):
    checks = verify(document(**options), MACHINE, LAYER)
    assert differing(checks) == []
    walked = next(check for check in checks if check.what == "loop nest executed")
    assert walked.agrees


def test_mapping_json__reads_back():
    machine, einsum = gemm((2, 3), (4, 1), M=12, N=4)
    mapping = map_einsum(machine, einsum, uneven=False).best.mapping
    again = read_mapping_json({"mapping": mapping_json(mapping), "imperfect": [], "padded": {}})
    assert evaluate(machine, einsum, again) == evaluate(machine, einsum, mapping)
    with pytest.raises(AccelsimError, match="cannot be read"):
        read_mapping_json({"mapping": [{"level": "DRAM"}], "imperfect": [], "padded": {}})


@settings(max_examples=30)
@given(cases())
def test_mapping_json__of_any_mapping_is_that_mapping(case):
    mapping = replace(case[2], imperfect=frozenset("A"), padded=(Loop("B", 7), Loop("A", 3)))
    document = json.loads(json.dumps(mapping_json(mapping)))
    assert read_mapping_json({"mapping": document, "imperfect": ["A"], "padded": {"B": 7, "A": 3}}) == mapping
    assert read_mapping_json(json.loads(mapping_text(mapping))) == mapping


def test_verify__a_changed_number_is_found():
    changed = document()
    changed["result"]["energy_pj"] *= 1.001
    assert "energy [pJ]" in differing(verify(changed, MACHINE, LAYER))
    changed = document()
    changed["result"]["tensors"][0]["reads"] += 1
    assert differing(verify(changed, MACHINE, LAYER)) == ["all counts and energies"]


def test_verify__a_mapping_that_does_not_fit_the_layer_is_found():
    changed = document()
    changed["result"]["mapping"][0]["temporal"] = [["P", 3]]
    (check,) = (check for check in verify(changed, MACHINE, LAYER) if check.what == "mapping")
    assert (check.agrees, "multiply to" in check.found) == (False, True)


@pytest.mark.parametrize(
    ("constraints", "said"),
    [
        (Constraints((LevelConstraint("DRAM", temporal=Block(only=frozenset())),)), "is not allowed"),
        (Constraints(min_utilization=Fraction(1)), "the utilization is 0.5, at least 1 is asked for"),
    ],
    ids=["loops", "utilization"],
)
def test_verify__a_mapping_that_breaks_constraints_is_found(constraints, said):
    """A nest with a loop at DRAM, on a machine with a second multiplier that it leaves idle."""
    dram, buffer = MACHINE.levels
    machine = replace(MACHINE, levels=(dram, replace(buffer, x=Axis(2))))
    keep = frozenset(tensor.name for tensor in LAYER.tensors)
    nest = LevelMapping("DRAM", (Loop("P", 8),), keep=keep), LevelMapping("BUF", (Loop("R", 3),), keep=keep)
    document = evaluation_json(evaluate(machine, LAYER, Mapping(nest)), NOWHERE, machine_json(machine))
    assert differing(verify(document, machine, LAYER)) == []
    found = {check.what: check for check in verify(document, machine, LAYER, constraints)}["mapping"]
    assert found.agrees is False
    assert said in str(found.found)


def test_verify__a_false_certificate_is_found():
    """A mapping that is not the best, said to be; and a bound above what can be reached."""
    found = map_einsum(MACHINE, LAYER, top=40)
    worse = next(result for result in found.ranked if result.energy_pj > found.best.energy_pj)
    value = worse.energy_pj
    lie = replace(found, best=worse, ranked=(worse,), certificate=replace(found.certificate, value=value, bound=value))
    assert differing(verify(written(lie), MACHINE, LAYER)) == [
        "optimum, searched anew",
        "lower bound, derived anew",
    ]
    high = replace(lie, certificate=replace(lie.certificate, bound=(value + found.best.energy_pj) / 2), stop="timeout")
    wrong = differing(verify(written(high), MACHINE, LAYER))
    assert wrong == ["lower bound", "gap"]


def test_verify__a_value_that_no_mapping_has_is_found(monkeypatch):
    """In a part of the space, or in one column of a front, neither of them proved; value and gap fit together."""
    monkeypatch.setattr("accelsim.search.exact.parts.REMAINDERS_SHAPES", 1)
    machine, layer = load_architecture("eyeriss"), load_workload(yaml.safe_load(GEMM)).layers[0]
    good = map_json(map_einsum(machine, layer, imperfect="auto"), NOWHERE, machine_json(machine))
    front = map_front(machine, layer, ("energy", "cycles"), imperfect="auto", uneven=None)
    ends = front_json(front, NOWHERE, machine_json(machine))
    best = good["search"]["certificate"]["value"]
    for document, own, said in (
        (good, good["search"]["parts"][-1], "even mappings with remainders in K, M, N: best found"),
        (ends, ends["front"]["ends"][0], "least energy: a point of the front"),
    ):
        assert not own["proved"]
        assert differing(verify(document, machine, layer)) == []
        own["value"] = (own["bound"] + best) / 2
        own["gap"] = own["value"] / own["bound"] - 1
        assert differing(verify(document, machine, layer)) == [said]


def test_verify__a_gap_that_holds():
    found = map_einsum(MACHINE, LAYER, uneven=False)
    early = replace(found, certificate=replace(found.certificate, bound=0.9 * found.certificate.value), stop="timeout")
    assert differing(verify(written(early), MACHINE, LAYER)) == []


def test_verify__a_count_within_a_share_is_derived_anew():
    changed = document(within=0.5)
    changed["search"]["within"]["mappings"] += 1
    assert differing(verify(changed, MACHINE, LAYER)) == ["all fields of the search"]
    changed = document(top=4)
    changed["search"]["ranked"][2]["cycles"] += 1
    assert differing(verify(changed, MACHINE, LAYER)) == ["all fields of the search"]


def test_verify__nodes_of_another_version_are_not_compared():
    changed = document()
    changed["search"]["certificate"]["nodes"] += 1
    assert differing(verify(changed, MACHINE, LAYER)) == ["all fields of the search"]
    checks = verify({**changed, "accelsim": "0.0.1"}, MACHINE, LAYER)
    assert differing(checks) == []
    assert "search.certificate.nodes" in checks[-1].note


@pytest.mark.parametrize(
    "arguments",
    [
        ("--top", "3"),
        ("--set", "buffer=20 B"),
        ("--pareto", "energy,capacity:BUF"),
        ("--sample", "60", "--seed", "3"),
    ],
    ids=" ".join,
)
def test_command__verifies_what_map_wrote(run, tmp_path, arguments):
    assert run("map", "two_level", "conv1d", *arguments, "-o", tmp_path)[0] == 0
    code, out, err = run("verify", tmp_path / "result.json")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].startswith("verified: all ")


def test_command__a_result_that_does_not_hold_ends_with_1(run, tmp_path):
    run("map", "two_level", "conv1d", "-o", tmp_path)
    path = tmp_path / "result.json"
    changed = json.loads(path.read_text())
    changed["search"]["certificate"]["bound"] *= 1.5
    path.write_text(json.dumps(changed))
    code, out, _ = run("verify", tmp_path)
    assert code == 1
    assert "DIFFERS" in out
    assert out.splitlines()[-1].startswith("NOT VERIFIED: 1 of ")


def test_command__a_changed_input_file_stops_it_unless_forced(run, tmp_path):
    mine = tmp_path / "mine.yaml"
    from accelsim.inputs import library

    mine.write_text(library.resolve("conv1d", "workloads").read_text())
    assert run("map", "two_level", mine, "-o", tmp_path / "out")[0] == 0
    mine.write_text(mine.read_text() + "# changed\n")
    code, out, err = run("verify", tmp_path / "out")
    assert (code, out) == (1, "")
    assert f"{mine}: has changed since the result was written" in err
    assert run("verify", tmp_path / "out", "--force")[0] == 0
    mine.unlink()
    code, _, err = run("verify", tmp_path / "out")
    assert (code, "no such file" in err) == (2, True)


GEMM = "workload: {name: one, gemm: {M: 4, N: 6, K: 8}}"
NETWORK = """
workload: {name: net, layers: [{name: a, gemm: {M: 4, N: 6, K: 8}}, {name: b, gemm: {M: 2, N: 2, K: 2}}]}
"""


def test_verify__that_no_mapping_is_valid_is_searched_anew():
    machine = load_architecture("eyeriss", {"glb": "2 B"})
    layer = replace(load_workload("gemm").layers[0], dims={"M": 2, "N": 2, "K": 2})
    with pytest.raises(NoValidMappingError) as error:
        map_einsum(machine, layer)
    for where, einsum, agrees in ((machine, layer, True), (MACHINE, LAYER, False)):
        said = {"layer": einsum.name, "repeat": 1, "no_valid_mapping": str(error.value)}
        (check,), _ = verify_layer(said, Task(where, einsum, None, Budget(), 1, None, same_version=True))
        assert check.agrees is agrees
    assert check.found == f"one of {map_einsum(MACHINE, LAYER).best.energy_pj:.6g} pJ"


GONE = object()


def leaves(value, at=()):
    """Places of all values of a document that are neither lists nor mappings, by their names."""
    if not isinstance(value, dict | list):
        yield at
        return
    for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
        yield from leaves(entry, (*at, key))


def name_of(at):
    return ".".join(key for key in at if isinstance(key, str))


def put(document, at, value):
    """A copy of a document with another value at a place, or without it."""
    changed = json.loads(json.dumps(document))
    entry = changed
    for key in at[:-1]:
        entry = entry[key]
    if value is GONE:
        del entry[at[-1]]
    else:
        entry[at[-1]] = value
    return changed


def altered(good, places, draws):
    """Return a document with one of some values changed or gone, and what stands there now."""
    at = draws.choice(places)
    value = good
    for key in at:
        value = value[key]
    other = draws.choice([*other_values(value), GONE, GONE])
    return put(good, at, other), other


def other_values(value):
    """Values that are like another one, or not at all."""
    if isinstance(value, bool) or value is None:
        return [not value, 1, "x"]
    if isinstance(value, str):
        return [f"{value}x", value[:-1], 1]
    return [value + 1, -value - 1, value * 1.01 + 0.5, float("inf"), str(value)]


@pytest.mark.parametrize(
    ("arguments", "prefix"),
    [
        (("map", "two_level", "conv1d", "--top", "2"), ""),
        (("map", "two_level", "conv1d", "--pareto", "energy,capacity:BUF"), "front"),
        (("map", "two_level", "conv1d", "--sample", "60", "--seed", "3"), "search"),
        (("map", "two_level", "conv1d", "--mapspace", "even"), "search.certificate"),
        (("map", "two_level", "one.yaml"), "search"),
        (("map", "eyeriss", "one.yaml"), "search.parts search.uneven search.imperfect search.padded"),
        (("map", "eyeriss", "one.yaml", "--pareto", "cycles,energy"), "front.ends front.uneven front.imperfect"),
        (("map", "two_level", "net.yaml"), "total layers.layer layers.repeat layers.in_network layers.no_valid"),
        (("eval", "two_level", "conv1d", "m.yaml"), "inputs command"),
    ],
    ids=["map", "front", "random", "even", "parts", "effort", "ends", "network", "eval"],
)
def test_command__every_value_that_is_changed_or_removed_is_told_or_named_as_unchecked(
    run, tmp_path, monkeypatch, arguments, prefix
):
    """Each name of a value once: another value in its place, or nothing."""
    monkeypatch.chdir(tmp_path)
    Path("m.yaml").write_text(dump_mapping(map_einsum(MACHINE, LAYER, uneven=False).best.mapping))
    Path("one.yaml").write_text(GEMM)
    Path("net.yaml").write_text(NETWORK.replace("{name: a", "{name: a, repeat: 2"))
    if "eyeriss" in arguments:
        monkeypatch.setattr("accelsim.search.exact.parts.REMAINDERS_SHAPES", 1)
    assert run(*arguments, "-o", "out")[0] == 0
    good, path = json.loads(Path("out/result.json").read_text()), Path("changed.json")
    path.write_text(json.dumps(good))
    code, out, _ = run("verify", path)
    assert code == 0
    unchecked = set(re.findall(r"[\w.]+", " ".join(re.findall(r"other fields: (.*?): what", out, re.DOTALL))))
    draws, by_name = random.Random(1), {}
    for at in leaves(good):
        if name_of(at).startswith(tuple(prefix.split()) or ""):
            by_name.setdefault(name_of(at), []).append(at)
    missed = []
    for name, places in by_name.items():
        changed, other = altered(good, places, draws)
        path.write_text(json.dumps(changed))
        code, _, err = run("verify", path)
        assert code in (0, 1, 2), (name, other, err)
        own = name.removeprefix("layers.")
        if code == 0 and not any(own == each or own.startswith(f"{each}.") for each in unchecked):
            missed.append((name, other))
    assert len(by_name) > 3
    assert missed == []


@pytest.mark.parametrize(
    "text",
    [
        '{"result": Infinity}',
        '{"result": 1e999}',
        "[" * 100_000,
        "[]",
        "{}",
        '{"inputs": {}, "overrides": {}, "result": {}}',
        "{",
    ],
)
def test_command__what_is_no_result_is_refused(run, tmp_path, text):
    path = tmp_path / "result.json"
    path.write_text(text)
    code, _, err = run("verify", path)
    assert code == 2
    assert str(path) in err


def test_command__of_an_older_version_names_what_is_missing(run, tmp_path):
    assert run("map", "systolic", "gemm", "--quiet", "-o", tmp_path)[0] == 0
    path = tmp_path / "result.json"
    document = json.loads(path.read_text())
    del document["search"]["parts"]
    path.write_text(json.dumps(document))
    code, _, err = run("verify", path)
    assert code == 2
    assert err.endswith("search.parts: it is missing; if an older version wrote it, map again\n")
