"""Results that hold, and results that somebody changed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from accelsim.architecture import load_architecture
from accelsim.errors import AccelsimError
from accelsim.model.evaluate import evaluate
from accelsim.output import Provenance, map_json, mapping_json, read_mapping_json
from accelsim.search.mapper import map_einsum
from accelsim.search.strategy import Budget
from accelsim.verifying import verify
from accelsim.workload import load_workload
from tests.test_space import gemm

MACHINE, LAYER = load_architecture("two_level"), load_workload("conv1d").layers[0]
NOWHERE = Provenance("map", (), {})


def document(**options):
    """What `map` writes for the 1-D convolution."""
    return map_json(map_einsum(MACHINE, LAYER, **options), NOWHERE, {})


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
    mapping = map_einsum(machine, einsum).best.mapping
    again = read_mapping_json(mapping_json(mapping))
    assert evaluate(machine, einsum, again) == evaluate(machine, einsum, mapping)
    with pytest.raises(AccelsimError, match="cannot be read"):
        read_mapping_json([{"level": "DRAM"}])


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


def test_verify__a_false_certificate_is_found():
    """A mapping that is not the best, said to be; and a bound above what can be reached."""
    found = map_einsum(MACHINE, LAYER, top=40)
    worse = next(result for result in found.ranked if result.energy_pj > found.best.energy_pj)
    value = worse.energy_pj
    lie = replace(found, best=worse, ranked=(worse,), certificate=replace(found.certificate, value=value, bound=value))
    assert differing(verify(map_json(lie, NOWHERE, {}), MACHINE, LAYER)) == [
        "optimum, searched anew",
        "lower bound, derived anew",
    ]
    high = replace(lie, certificate=replace(lie.certificate, bound=(value + found.best.energy_pj) / 2), stop="timeout")
    wrong = differing(verify(map_json(high, NOWHERE, {}), MACHINE, LAYER))
    assert wrong == ["lower bound", "gap"]


def test_verify__a_gap_that_holds():
    found = map_einsum(MACHINE, LAYER)
    early = replace(found, certificate=replace(found.certificate, bound=0.9 * found.certificate.value), stop="timeout")
    assert differing(verify(map_json(early, NOWHERE, {}), MACHINE, LAYER)) == []


def test_verify__a_count_within_a_share_is_derived_anew():
    changed = document(within=0.5)
    changed["search"]["within"]["mappings"] += 1
    assert differing(verify(changed, MACHINE, LAYER)) == ["mappings within 50 %"]
    changed = document(top=4)
    changed["search"]["ranked"][2]["cycles"] += 1
    assert differing(verify(changed, MACHINE, LAYER)) == ["listed mappings, evaluated"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--top", "3"),
        ("--set", "buffer=20 B"),
        ("--pareto", "energy,capacity:BUF"),
        ("--mappings", "60", "--seed", "3"),
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
    from accelsim import library

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


@pytest.mark.parametrize("text", ["[]", "{}", '{"inputs": {}, "overrides": {}, "result": {}}', "{"])
def test_command__what_is_no_result_is_refused(run, tmp_path, text):
    path = tmp_path / "result.json"
    path.write_text(text)
    code, _, err = run("verify", path)
    assert code == 2
    assert str(path) in err
