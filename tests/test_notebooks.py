"""Notebooks run from top to bottom, and have prose, and end with a picture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docs.site import notebooks
from tests.conftest import REPOSITORY

NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks__run_and_end_with_a_picture(path):
    outputs = notebooks.execute(path)
    assert outputs[-1].pictures
    notebooks.keep(path, outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks__are_prose_and_code(path):
    cells, whole = notebooks.read_cells(path), json.loads(path.read_text(encoding="utf-8"))
    assert (whole["nbformat"], whole["nbformat_minor"]) == (4, 5)
    assert all(cell["outputs"] == [] for cell in whole["cells"] if cell["cell_type"] == "code")
    assert cells[0].prose
    assert cells[0].text.startswith("# ")
    assert sum(cell.prose for cell in cells) >= 4


def notebook(folder: Path, code: list[str]) -> Path:
    """Write a notebook with a title and some cells of code."""
    cells = [{"cell_type": "markdown", "source": ["# Small"]}, *({"cell_type": "code", "source": [c]} for c in code)]
    path = folder / "small.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    return path


def test_cells__pictures_and_prints_are_kept_by_cell(tmp_path, monkeypatch):
    cells = ["import matplotlib.pyplot as plt\nprint(1)", "fig, ax = plt.subplots()", "print(2)"]
    script = notebook(tmp_path, cells)
    outputs = notebooks.execute(script)
    assert [output.text for output in outputs] == ["1\n", "", "2\n"]
    assert [len(output.pictures) for output in outputs] == [0, 1, 0]
    monkeypatch.setattr(notebooks, "OUTPUTS", tmp_path / "kept")
    notebooks.keep(script, outputs)
    assert [len(cell["pictures"]) for cell in notebooks.kept_outputs(script)] == [0, 1, 0]
    assert notebooks.kept_outputs(notebook(tmp_path, [*cells, "print(3)"])) is None


def test_a_mistake__is_found_at_its_line(tmp_path):
    with pytest.raises(ZeroDivisionError) as caught:
        notebooks.execute(notebook(tmp_path, ["one = 1", "two = 2\ntwo / 0"]))
    assert caught.traceback[-1].lineno == 1  # counts from 0
    assert str(caught.traceback[-1].path).endswith("small.ipynb, cell 3")
