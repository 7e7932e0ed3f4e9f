"""Notebooks run from top to bottom, and hold the outputs that they make now.

Texts must be equal, but for what varies from run to run (seconds of a search). Of pictures only their number in each
cell is compared: bytes of a PNG depend on the versions of matplotlib and FreeType.
"""

from __future__ import annotations

import base64
import html
import json
import re
from pathlib import Path

import pytest

import accelsim
from docs.site import notebooks
from tests.conftest import REPOSITORY

NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))
MOST_LINES = 20
PNG = b"\x89PNG\r\n"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks__hold_the_outputs_of_their_cells(path):
    """`make notebooks` writes them."""
    committed = [cell.outputs for cell in notebooks.read_cells(path) if not cell.prose]
    made = notebooks.execute(path)
    assert notebooks.texts(committed) == notebooks.texts(made)
    assert any("image/png" in output.get("data", {}) for output in made[-1])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks__are_prose_and_short_cells_and_ask_a_question(path):
    cells, whole = notebooks.read_cells(path), json.loads(path.read_text(encoding="utf-8"))
    assert (whole["nbformat"], whole["nbformat_minor"]) == (4, 5)
    assert [cell["id"] for cell in whole["cells"]] == [f"cell-{cell.number}" for cell in cells]
    code = [cell for cell in whole["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert all(cell["metadata"] == {} for cell in whole["cells"])  # no times
    assert cells[0].prose
    assert cells[0].text.startswith("# ")
    assert cells[0].text.splitlines()[0].endswith("?")
    assert sum(cell.prose for cell in cells) >= 4
    assert all(cell.prose or len(cell.text.splitlines()) <= MOST_LINES for cell in cells)


def notebook(folder: Path, code: list[str]) -> Path:
    """Write a notebook with a title and some cells of code."""
    cells = [{"cell_type": "markdown", "source": ["# Small"]}, *({"cell_type": "code", "source": [c]} for c in code)]
    path = folder / "small.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    return path


def test_cells__have_what_they_print_their_last_value_and_figures(tmp_path):
    cells = [
        "import matplotlib.pyplot as plt\nprint(1)",
        "fig, ax = plt.subplots()",
        "print(2)\n1 + 2",
        "1 + 2;",
        "import accelsim\nfound = accelsim.map('two_level', 'conv1d')\nfound",
        "found.plot()",
    ]
    outputs = notebooks.execute(notebook(tmp_path, cells))
    texts = notebooks.texts(outputs)
    assert texts[0] == [{"stdout": "1\n"}]
    assert [output["image/png"] for output in texts[1]] == ["picture"]
    assert texts[2:4] == [[{"stdout": "2\n"}, {"text/plain": "3"}], []]
    assert texts[4][0]["text/html"].startswith("<pre ")
    assert texts[4][0]["text/plain"].startswith("<LayerResult conv1d on two_level: ")
    assert texts[5][0]["image/png"] == "picture"
    assert base64.b64decode(outputs[5][0]["data"]["image/png"]).startswith(PNG)


def test_outputs__that_only_differ_in_what_varies_stay_as_they_are(tmp_path):
    path = notebook(tmp_path, ["print('  search      exact, 1 s, 2 nodes')", "print('changed')", "object()"])
    notebooks.write_outputs(path)
    first = path.read_text()
    path.write_text(first.replace("exact, 1 s", "exact, 8 s", 2).replace("changed\\n", "old\\n"))
    before = [cell.outputs for cell in notebooks.read_cells(path)]
    notebooks.write_outputs(path)
    after = [cell.outputs for cell in notebooks.read_cells(path)]
    assert after[1] == before[1]
    assert after[2][0]["text"] == ["changed\n"]
    notebooks.write_outputs(path)
    assert [cell.outputs for cell in notebooks.read_cells(path)] == after


def test_site__shows_a_notebook_with_its_outputs(tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "REPOSITORY", tmp_path)
    monkeypatch.setattr(notebooks, "PICTURES", tmp_path / "build")
    mapped = "import accelsim\nfound = accelsim.map('two_level', 'conv1d')\nfound"
    path = notebook(tmp_path, ["print(1)", mapped, "found.plot()"])
    notebooks.write_outputs(path)
    text = notebooks.notebook_text(path)
    assert text.startswith("# Small\n\n{download}`This notebook <small.ipynb>`")
    assert "```text\n1\n```" in text
    assert "````{raw} html\n<pre " in text
    assert "```{image} /build/small/4_0.png\n" in text
    assert (tmp_path / "build" / "small" / "4_0.png").read_bytes().startswith(PNG)


def test_html__has_the_text_of_the_report_and_no_colour_but_that_of_bars(monkeypatch):
    found = accelsim.map("eyeriss", "gemm", mapspace="even")
    report = found.report()
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)  # rich would show each piece, and return none
    assert found.report() == report
    shown = found._repr_html_()
    assert html.unescape(re.sub("<[^>]+>", "", shown)).strip() == report.strip()
    assert "<b>Energy [mJ]</b>" in shown
    styles = set(re.findall(r'<span style="([^"]+)">([^<]*)', shown))
    assert {letter for style, text in styles for letter in text if style == "color: #e69f00"} == {"I"}
    assert not re.search(r" (</\w+>)?$", shown, re.MULTILINE)


def test_a_mistake__is_found_at_its_line(tmp_path):
    with pytest.raises(ZeroDivisionError) as caught:
        notebooks.execute(notebook(tmp_path, ["one = 1", "two = 2\ntwo / 0"]))
    assert caught.traceback[-1].lineno == 1  # counts from 0
    assert str(caught.traceback[-1].path).endswith("small.ipynb, cell 3")
