"""Notebooks on the site, with what their cells print and draw; those in the repository hold no outputs.

A notebook is executed when the site is built, unless `build/notebooks` holds what it printed and drew by the same
cells and the same accelsim.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
OUTPUTS = REPOSITORY / "build" / "notebooks"
_USED = ("accelsim", "arch", "constraints", "mappings", "workloads")


@dataclass(frozen=True)
class Cell:
    """A cell: prose in Markdown, or code."""

    prose: bool
    number: int
    text: str


@dataclass(frozen=True)
class Output:
    """What a cell of code printed, and its pictures (PNG)."""

    text: str
    pictures: tuple[bytes, ...]


def read_cells(path: Path) -> list[Cell]:
    """Cells of a notebook, numbered from 1."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [Cell(c["cell_type"] == "markdown", n, "".join(c["source"])) for n, c in enumerate(cells, 1)]


def execute(path: Path) -> list[Output]:
    """Run a notebook from top to bottom and return what its cells of code printed, and the figures that they drew."""
    import matplotlib as mpl

    mpl.use("Agg")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with mpl.rc_context():
        cells = [cell for cell in read_cells(path) if not cell.prose]
        return [_run(cell, path, namespace) for cell in cells]


def _run(cell: Cell, path: Path, namespace: dict[str, Any]) -> Output:
    from matplotlib.pyplot import close, figure, get_fignums

    printed = io.StringIO()
    code = compile(cell.text, f"{path}, cell {cell.number}", "exec")
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        return Output(printed.getvalue(), tuple(_png(figure(number)) for number in get_fignums()))
    finally:
        close("all")


def _png(figure: Any) -> bytes:
    with io.BytesIO() as file:
        figure.savefig(file, format="png", dpi=160, bbox_inches="tight", facecolor="white", metadata={"Software": None})
        return file.getvalue()


def fingerprint(path: Path) -> str:
    """Hash of a notebook and of all that it may use of accelsim."""
    found = hashlib.sha256(path.read_bytes() + Path(__file__).read_bytes())
    for folder in _USED:
        for file in sorted((REPOSITORY / folder).rglob("*")):
            if file.suffix in (".py", ".yaml", ".json", ".mplstyle", ".csv"):
                found.update(f"{file.relative_to(REPOSITORY)}\0".encode() + file.read_bytes())
    return found.hexdigest()


def keep(path: Path, outputs: list[Output]) -> None:
    """Keep what a notebook printed and drew, for the site."""
    folder = OUTPUTS / path.stem
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    names = []
    for number, output in enumerate(outputs):
        names.append([f"{number}_{place}.png" for place in range(len(output.pictures))])
        for name, picture in zip(names[-1], output.pictures, strict=True):
            (folder / name).write_bytes(picture)
    cells = [{"text": output.text, "pictures": name} for output, name in zip(outputs, names, strict=True)]
    kept = {"fingerprint": fingerprint(path), "cells": cells}
    (folder / "outputs.json").write_text(json.dumps(kept), encoding="utf-8")


def kept_outputs(path: Path) -> list[dict[str, Any]] | None:
    """What a notebook printed and drew, if it is known for these cells and this accelsim."""
    file = OUTPUTS / path.stem / "outputs.json"
    if not file.is_file():
        return None
    kept = json.loads(file.read_text(encoding="utf-8"))
    cells: list[dict[str, Any]] | None = kept["cells"] if kept["fingerprint"] == fingerprint(path) else None
    return cells


def notebook_text(path: Path) -> str:
    """A notebook as Markdown, each cell of code followed by what it printed and drew."""
    outputs = kept_outputs(path)
    if outputs is None:
        keep(path, execute(path))
        outputs = kept_outputs(path) or []
    return "\n\n".join(_lines(path, outputs))


def _lines(path: Path, outputs: list[dict[str, Any]]) -> Iterator[str]:
    left = iter(outputs)
    title = True
    for cell in read_cells(path):
        if cell.prose:
            head, _, rest = cell.text.partition("\n")
            yield f"{head}\n\n{_ABOUT.format(path.name)}\n{rest}" if title else cell.text
            title = False
            continue
        output = next(left)
        yield f"```python\n{cell.text}\n```"
        if output["text"]:
            yield f"```text\n{output['text'].rstrip()}\n```"
        for name in output["pictures"]:
            yield f"![What the cell above draws](/build/notebooks/{path.stem}/{name})"


_ABOUT = "{{download}}`This notebook <{0}>` opens in Jupyter as it is."


def _show(app: Any, name: str, source: list[str]) -> None:
    if name.startswith("notebooks/"):
        source[0] = notebook_text(REPOSITORY / f"{name}.ipynb")


def setup(app: Any) -> dict[str, bool]:
    """Show notebooks when Sphinx reads them."""
    app.connect("source-read", _show)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
