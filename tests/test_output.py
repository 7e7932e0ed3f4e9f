"""Results as JSON and as folders: plain values, equal bytes, whole files."""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import replace

import numpy as np
import pytest
from reports import a_search, all_loops_outside, row_stationary

from accelsim.architecture import load_architecture
from accelsim.errors import AccelsimError
from accelsim.mapping import load_mapping
from accelsim.output import (
    Provenance,
    energy_rows,
    evaluation_json,
    input_file,
    layer_files,
    map_json,
    mapping_text,
    network_json,
    refuse_directory,
    result_json,
    to_json,
    write_directory,
)
from accelsim.workload import load_workload

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
    return map_json(a_search(result), PROVENANCE, energy_rows(architecture))


def test_json__holds_plain_values_only():
    for value in values(map_document()):
        assert type(value) in (int, float, str, bool, type(None))


def test_json__reads_back_to_the_last_digit():
    document = map_document()
    assert json.loads(to_json(document)) == document


def test_json__does_not_hold_the_time_that_the_search_took():
    architecture, _, result = row_stationary()
    search, energies = a_search(result), energy_rows(architecture)
    slower = replace(search, seconds=99.5)
    assert to_json(map_json(search, PROVENANCE, energies)) == to_json(map_json(slower, PROVENANCE, energies))


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
    evaluated = evaluation_json(result, Provenance("eval", (), {}), energy_rows(architecture))
    assert evaluated["result"] == map_document()["result"]


def test_network_json__keeps_layers_without_a_mapping():
    found = [("a", 2, a_search(row_stationary()[2]), ""), ("b", 1, None, "0 of 3 valid")]
    document = network_json(("net", "eyeriss"), found, {"macs": 1}, PROVENANCE, [])
    assert [layer["layer"] for layer in document["layers"]] == ["a", "b"]
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


def test_mapping_text__reads_back(tmp_path):
    machine, layer = load_architecture("simba"), load_workload("depthwise").layers[0]
    result = all_loops_outside(machine, layer)
    path = tmp_path / "mapping.yaml"
    path.write_text(mapping_text(result, Provenance("map", (), {"batch": "2\n# x"})), encoding="utf-8")
    assert load_mapping(path, machine, layer) == result.mapping
    assert path.read_text().startswith(f"# {layer.name} on {machine.name}\n")


def test_layer_files__equal_bytes_for_equal_results():
    result = row_stationary()[2]
    first, second = (layer_files(result, a_search(result), PROVENANCE, map_document()) for _ in range(2))
    assert first == second
    assert set(first) == {"mapping.yaml", "result.json", "energy.png", "energy.svg", "spread.png", "spread.svg"}


def test_write_directory__makes_parents_and_leaves_other_files(tmp_path):
    folder = tmp_path / "a" / "b"
    assert [path.name for path in write_directory(folder, {"x": b"1"})] == ["x"]
    (folder / "mine").write_text("kept")
    write_directory(folder, {"x": b"2"})
    assert sorted(path.name for path in folder.iterdir()) == ["mine", "x"]
    assert ((folder / "x").read_bytes(), (folder / "mine").read_text()) == (b"2", "kept")


def test_write_directory__a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    write_directory(tmp_path, {"x": b"old"})

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_directory(tmp_path, {"x": b"new"})
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("x", b"old")]


def test_refuse_directory__names_the_file_in_the_way(tmp_path):
    (tmp_path / "file").write_text("")
    refuse_directory(tmp_path / "new" / "folder")
    with pytest.raises(AccelsimError, match="file is not a folder"):
        refuse_directory(tmp_path / "file" / "below")
