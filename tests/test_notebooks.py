"""Notebooks run from top to bottom, and have prose, and end with a picture."""

from __future__ import annotations

import pytest

from docs.site import notebooks
from tests.conftest import REPOSITORY

pytest.importorskip("pyarrow", reason="pyarrow, the extra `explore`, is not installed")
NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("*.py"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks__run_and_end_with_a_picture(path):
    outputs = notebooks.execute(path)
    assert outputs[-1].pictures
    notebooks.keep(path, outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks__are_prose_and_code(path):
    text = path.read_text(encoding="utf-8")
    cells = notebooks.read_cells(text)
    assert text.startswith("# ---\n# jupyter:")
    assert cells[0].prose
    assert cells[0].text.startswith("# ")
    assert sum(cell.prose for cell in cells) >= 4


def test_cells__pictures_and_prints_are_kept_by_cell(tmp_path, monkeypatch):
    script = tmp_path / "small.py"
    script.write_text(
        "# %% [markdown]\n# # Small\n\n# %%\nimport matplotlib.pyplot as plt\nprint(1)\n\n"
        "# %%\nfig, ax = plt.subplots()\n\n# %%\nprint(2)\n"
    )
    outputs = notebooks.execute(script)
    assert [output.text for output in outputs] == ["1\n", "", "2\n"]
    assert [len(output.pictures) for output in outputs] == [0, 1, 0]
    monkeypatch.setattr(notebooks, "OUTPUTS", tmp_path / "kept")
    notebooks.keep(script, outputs)
    assert [len(cell["pictures"]) for cell in notebooks.kept_outputs(script)] == [0, 1, 0]
    script.write_text(script.read_text() + "print(3)\n")
    assert notebooks.kept_outputs(script) is None


def test_a_mistake__is_found_at_its_line(tmp_path):
    script = tmp_path / "wrong.py"
    script.write_text("# %% [markdown]\n# # Wrong\n\n# %%\none = 1\none / 0\n")
    with pytest.raises(ZeroDivisionError) as caught:
        notebooks.execute(script)
    assert caught.traceback[-1].lineno == 5  # counts from 0
