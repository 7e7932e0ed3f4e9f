"""Constraints that hold for some layers of a network."""

from __future__ import annotations

import json

import pytest

from accelsim import load_architecture, load_constraints, load_workload
from accelsim.inputs.errors import InputError
from accelsim.search.mapper import map_einsum

NETWORK = """
workload:
  name: two
  layers:
    - {name: first, gemm: {M: 8, N: 8, K: 8}}
    - {name: second, gemm: {M: 8, N: 8, K: 8}}
"""
ASKED = """
constraints:
  levels:
    - {level: DRAM, layers: [first], temporal: {factors: [M=4]}}
    - {level: DRAM, layers: [second], temporal: {factors: [M=2]}}
"""


def outer_loops(mapping) -> dict[str, int]:
    return {loop.dim: loop.bound for loop in mapping.levels[0].temporal}


def test_layers__are_mapped_each_with_its_own(tmp_path, run):
    (tmp_path / "net.yaml").write_text(NETWORK)
    (tmp_path / "asked.yaml").write_text(ASKED)
    code, out, _ = run("map", "two_level", tmp_path / "net.yaml", "--constraints", tmp_path / "asked.yaml", "--json")
    layers = json.loads(out)["layers"]
    assert code == 0
    found = [layer["result"]["mapping"][0]["temporal"] for layer in layers]
    assert [loop[1] for loops in found for loop in loops if loop[0] == "M"] == [4, 2]


def test_what_holds_for_another_layer__is_nothing_to_this_one(tmp_path):
    (tmp_path / "net.yaml").write_text(NETWORK)
    machine, layer = load_architecture("two_level"), load_workload(tmp_path / "net.yaml").layers[1]
    text = ASKED.replace("[second]", "[third]").strip()
    found = load_constraints(f"{text}\n", machine, layer)
    assert found.levels == ()
    assert (
        map_einsum(machine, layer, constraints=found, uneven=False).best.energy_pj
        == map_einsum(machine, layer, uneven=False).best.energy_pj
    )


def test_constraints__of_the_api_are_those_of_the_layer(tmp_path):
    (tmp_path / "net.yaml").write_text(NETWORK)
    machine, layers = load_architecture("two_level"), load_workload(tmp_path / "net.yaml").layers
    both = [load_constraints(ASKED, machine, layer).levels[0] for layer in layers]
    constraints = load_constraints(ASKED, machine, layers[0]).__class__(tuple(both))
    found = [
        outer_loops(map_einsum(machine, layer, constraints=constraints, uneven=False).best.mapping) for layer in layers
    ]
    assert [loops["M"] for loops in found] == [4, 2]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("[second]", "[secnd]", "5:29: levels[1].layers: there is no layer 'secnd'; did you mean 'second'?"),
        ("[second]", "[first]", "5:15: levels[1].level: level 'DRAM' is given twice"),
        ("[second]", "[]", "5:15: levels[1].level: level 'DRAM' is given twice"),
    ],
)
def test_layers__that_are_none_or_have_a_level_twice_are_refused(tmp_path, run, before, after, message):
    (tmp_path / "net.yaml").write_text(NETWORK)
    path = tmp_path / "asked.yaml"
    path.write_text(ASKED.replace(before, after))
    code, _, err = run("map", "two_level", tmp_path / "net.yaml", "--constraints", path)
    assert (code, message in err) == (2, True), err


def test_check__knows_the_layers_of_the_workload_beside_it(tmp_path, run):
    (tmp_path / "net.yaml").write_text(NETWORK)
    path = tmp_path / "asked.yaml"
    path.write_text(ASKED.replace("[first]", "[frist]"))
    code, out, err = run("check", "two_level", tmp_path / "net.yaml", path)
    assert (code, "there is no layer 'frist'; did you mean 'first'?" in out + err) == (2, True)
    with pytest.raises(InputError):
        load_constraints(
            path, load_architecture("two_level"), load_workload(tmp_path / "net.yaml").layers[0], {}, ["a"]
        )
