"""Results as folders: equal bytes, whole files, and mappings that read back."""

from __future__ import annotations

import csv
import errno
import io
import json
import os

import pytest
from pandas import DataFrame
from reports import a_front, a_search, all_loops_outside, an_exact_search, row_stationary

from accelsim import results
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.machine_tables import machine_json
from accelsim.inputs.mapping import load_mapping
from accelsim.inputs.workload_reader import load_workload
from accelsim.results import Provenance, refuse_directory, write_directory
from accelsim.results.output import front_json, map_json
from accelsim.show.report.search import front_files, layer_files, mapping_text

PROVENANCE = Provenance("map", (), {"b": "2", "a": "1"}, 5000, None)


def map_document():
    architecture, _, result = row_stationary()
    return map_json(a_search(result), PROVENANCE, machine_json(architecture))


def test_front_files__a_table_a_picture_and_every_mapping(tmp_path):
    machine, layer, result = row_stationary()
    front = a_front(result, ("energy", "cycles", "capacity:GLB"))
    document = front_json(front, PROVENANCE, machine_json(machine))
    files = front_files(front, PROVENANCE, document)
    assert files == front_files(front, PROVENANCE, document)
    names = {"front.csv", "front.png", "front.svg", "result.json", *(f"mappings/0{n}.yaml" for n in (1, 2, 3))}
    assert set(files) == names
    rows = list(csv.DictReader(io.StringIO(files["front.csv"].decode())))
    assert [float(row["energy_pj"]) for row in rows] == [point.energy_pj for point in front.points]
    assert [row["GLB_words"] for row in rows] == ["100", "300", "900"]
    write_directory(tmp_path, files)
    assert load_mapping(tmp_path / rows[1]["mapping"], machine, layer) == front.points[1].mapping
    assert len(json.loads(files["result.json"])["front"]["points"]) == 3


def test_front_rows__make_a_data_frame():
    frame = DataFrame(a_front(row_stationary()[2], ("cycles", "offchip_words")).rows())
    assert frame["offchip_words"].tolist() == [100, 300, 900]
    assert frame["cycles"].is_monotonic_decreasing


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
    assert set(first) == {"mapping.yaml", "result.json", "energy.png", "energy.svg"}


def test_layer_files__of_an_exact_search_hold_each_listed_mapping():
    result = row_stationary()[2]
    files = layer_files(result, an_exact_search(result, ranked=12), PROVENANCE, map_document())
    assert sorted(name for name in files if name.startswith("mappings/")) == [
        f"mappings/{n:02}.yaml" for n in range(1, 13)
    ]


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


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("map", "two_level", "conv1d", "-o", "out"), "optimal (proved)"),
        (("map", "two_level", "conv1d", "--quiet", "--html", "page.html"), "optimal (proved)"),
        (("map", "two_level", "conv1d", "--csv", "table.csv"), "optimal (proved)"),
        (("map", "two_level", "conv1d", "-o", "out", "--json"), '"proved": true'),
        (("map", "two_level", "conv1d", "-o", "out", "--pareto", "energy,cycles"), "complete (proved)"),
        (("map", "two_level", "alexnet", "-o", "out", "--time-limit", "0.1"), "conv5"),
        (("fuse", "two_level", "conv1d", "-o", "out"), "conv1d on two_level"),
        (
            ("spread", "two_level", "conv1d", "--samples", "50", "-o", "out"),
            "Smallest values are proved among even mappings.",
        ),
    ],
    ids=" ".join,
)
def test_answer__is_printed_where_its_files_cannot_be_written(run, tmp_path, monkeypatch, command, said):
    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(results, "_write", full)
    code, out, complained = run(*command)
    assert code == 2
    assert said in out
    assert "Written to" not in out
    assert "No space left on device" in complained.splitlines()[-1]
