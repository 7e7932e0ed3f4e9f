"""Results as JSON: plain values, equal bytes, and what a search proved or saw."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from reports import a_search, an_exact_search, row_stationary

from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.machine_tables import energy_rows, machine_json
from accelsim.results import Provenance, input_file, to_json
from accelsim.results.network import LayerOutcome, network_json
from accelsim.results.output import evaluation_json, map_json, result_json, search_json

PROVENANCE = Provenance("map", (), {"b": "2", "a": "1"}, 5000, None)


def values(document):
    """Every value in a document that is neither a list nor a mapping."""
    if isinstance(document, dict):
        return [value for entry in document.values() for value in values(entry)]
    if isinstance(document, list):
        return [value for entry in document for value in values(entry)]
    return [document]


def map_document():
    architecture, _, result = row_stationary()
    return map_json(a_search(result), PROVENANCE, machine_json(architecture))


def test_json__holds_plain_values_only():
    for value in values(map_document()):
        assert type(value) in (int, float, str, bool, type(None))


def test_json__reads_back_to_the_last_digit():
    document = map_document()
    assert json.loads(to_json(document)) == document


def test_search_json__holds_what_an_exact_search_proves():
    result = row_stationary()[2]
    found = search_json(an_exact_search(result, "edp", gap=0.03), Provenance("map", (), {}, None, 0.2))
    assert (found["method"], found["seed"], found["sample"], found["ranked"]) == ("exact", None, None, [])
    assert (found["stop"], found["budget"]) == ("timeout", {"mappings": None, "seconds": 0.2})
    certificate = found["certificate"]
    assert certificate["value"] == result.edp
    assert certificate["gap"] == pytest.approx(0.03)
    assert (certificate["proved"], certificate["nodes"], certificate["table_bytes"]) == (False, 539514, 18_247_680)


def test_search_json__no_bound_is_no_gap():
    found = an_exact_search(row_stationary()[2], gap=0.5)
    document = search_json(replace(found, certificate=replace(found.certificate, bound=0.0)), PROVENANCE)
    assert document["certificate"]["gap"] is None
    to_json(document)


def test_search_json__lists_mappings_where_there_are_several():
    result = row_stationary()[2]
    found = search_json(an_exact_search(result, ranked=3, within=(0.01, 432)), PROVENANCE)
    assert found["within"] == {"share": 0.01, "mappings": 432}
    assert [row["energy_pj"] / result.energy_pj for row in found["ranked"]] == pytest.approx([1, 1.002, 1.004])
    assert all(row["value"] == row["energy_pj"] for row in found["ranked"])
    assert search_json(a_search(result), PROVENANCE)["ranked"] == []


def test_search_json__a_random_search_has_a_seed_and_no_certificate():
    found = search_json(a_search(row_stationary()[2]), PROVENANCE)
    assert (found["seed"], found["certificate"], found["within"]) == (7, None, None)
    assert (found["sample"]["seen"], found["sample"]["valid"]) == (5000, 900)


def test_json__does_not_hold_the_time_that_the_search_took():
    architecture, _, result = row_stationary()
    search, machine = a_search(result), machine_json(architecture)
    slower = replace(search, seconds=99.5)
    assert to_json(map_json(search, PROVENANCE, machine)) == to_json(map_json(slower, PROVENANCE, machine))


def test_json__refuses_what_is_no_number():
    with pytest.raises(ValueError, match="JSON compliant"):
        to_json({"energy_pj": math.nan})
    with pytest.raises(TypeError):
        to_json({"count": np.int64(1)})


def test_json__energies_sum_to_the_total():
    result = result_json(row_stationary()[2])
    assert sum(row["energy_pj"] for row in result["energy"]) == pytest.approx(result["energy_pj"], rel=1e-12)
    assert max(row["cycles"] for row in result["cycles_by_component"]) == result["cycles"]


def test_evaluation_json__has_the_same_result_as_map():
    architecture, _, result = row_stationary()
    evaluated = evaluation_json(result, Provenance("eval", (), {}), machine_json(architecture))
    assert evaluated["result"] == map_document()["result"]


def test_network_json__keeps_layers_without_a_mapping():
    _, einsum, result = row_stationary()
    found = LayerOutcome(replace(einsum, name="a", repeat=2), a_search(result))
    none = LayerOutcome(replace(einsum, name="b"), None, "0 of 3 valid")
    document = network_json(("net", "eyeriss"), [found, none], {}, PROVENANCE, {})
    assert [layer["layer"] for layer in document["layers"]] == ["a", "b"]
    assert document["layers"][0]["repeat"] == 2
    assert document["layers"][0]["in_network"]["energy_share"] == 1.0
    assert document["layers"][1]["no_valid_mapping"] == "0 of 3 valid"
    assert list(document["overrides"]) == ["a", "b"]


def test_input_file__is_hashed_as_bytes(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_bytes(b"a: 1\r\n")
    assert input_file("architecture", "x", path).sha256 == hashlib.sha256(b"a: 1\r\n").hexdigest()


def test_energy_rows__one_row_for_tensors_that_cost_the_same():
    rows = energy_rows(load_architecture("eyeriss"))
    found = {(row["component"], row["action"]): row for row in rows}
    assert len(found) == len(rows)
    assert found["GLB", "read"]["role"] == "Inputs, Outputs"
    assert found["SPAD", "read"]["role"] == "all"
    assert (found["GLB", "read"]["energy_pj"], found["GLB", "read"]["pj_per_bit"]) == (6.0, 0.375)
    assert found["GLB", "leak"]["energy_pj"] is None
    assert found["DRAM network", "transfer"]["energy_pj"] is None
    assert found["GLB network", "transfer"]["pj_per_word"] == 2.0
    assert found["MAC", "compute"]["pj_per_word"] is None


@pytest.mark.parametrize("name", ["eyeriss", "gpu_sm", "nvdla", "nvdla_1024", "simba", "systolic"])
def test_energy_rows__have_a_source_wherever_they_have_an_energy(name):
    for row in energy_rows(load_architecture(name)):
        assert (row["energy_pj"] is None) == (row["source"] is None)
