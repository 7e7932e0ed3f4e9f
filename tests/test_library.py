"""Shipped files are found by name, other files by path."""

from __future__ import annotations

import pytest

from accelsim.inputs import library
from accelsim.inputs.errors import AccelsimError


@pytest.mark.parametrize(
    "name", ["cmos_45nm", "cmos_45nm.yaml", "energy_tables/cmos_45nm", "./energy_tables/cmos_45nm.yaml"]
)
def test_resolve__finds_shipped_files_from_any_folder(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert library.resolve(name, "energy_tables") == library.root("energy_tables") / "cmos_45nm.yaml"


def test_resolve__prefers_an_existing_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cmos_45nm").write_text("")
    assert str(library.resolve("cmos_45nm", "energy_tables")) == "cmos_45nm"


def test_resolve__does_not_take_a_folder_for_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cmos_45nm").mkdir()
    assert library.resolve("cmos_45nm", "energy_tables").is_file()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "cmos_45mn",
            "cmos_45mn: no such file, and none of that name is shipped with accelsim; did you mean 'cmos_45nm'?",
        ),
        ("banana", "`accelsim list` shows them"),
        ("a" * 5000, "no such file"),
        ("a\x00b", "no such file"),
        ("", "no such file"),
    ],
)
def test_resolve__names_a_near_miss(name, message):
    with pytest.raises(AccelsimError) as error:
        library.resolve(name, "energy_tables")
    assert message in str(error.value)


@pytest.mark.parametrize("kind", library.KINDS)
def test_shipped__files_are_found_by_their_names(kind):
    for path in library.shipped(kind):
        assert library.resolve(path.relative_to(library.root(kind)).with_suffix(""), kind) == path
