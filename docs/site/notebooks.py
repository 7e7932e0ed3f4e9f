"""Notebooks: `python -m docs.site.notebooks` runs them and writes what their cells print, show and draw.

A cell shows what Jupyter shows of it: what it prints, the value of its last expression (as HTML or a picture where it
has one), and the figures of `matplotlib.pyplot`. The site shows notebooks as they are in the repository.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelsim.results.cache import FOLDER as CACHE

REPOSITORY = Path(__file__).resolve().parents[2]
NOTEBOOKS = REPOSITORY / "notebooks"
PICTURES = REPOSITORY / "build" / "notebooks"
Output = dict[str, Any]
_DPI, _CSS_DPI = 160, 96
_VARIES = (
    (re.compile(r"^( *search +exact), .*$", re.MULTILINE), r"\1"),  # seconds, nodes, memory
    (re.compile(r" at 0x[0-9a-f]+"), ""),
)


@dataclass(frozen=True)
class Cell:
    """A cell: prose in Markdown, or code with its outputs."""

    prose: bool
    number: int
    text: str
    outputs: Sequence[Output]


def read_cells(path: Path) -> list[Cell]:
    """Cells of a notebook, numbered from 1."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [
        Cell(cell["cell_type"] == "markdown", number, "".join(cell["source"]), cell.get("outputs", ()))
        for number, cell in enumerate(cells, 1)
    ]


def execute(path: Path) -> list[list[Output]]:
    """Run a notebook from top to bottom and return the outputs of each cell of code, as `ipynb` files have them.

    Results are not taken from the user's cache.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    code = [cell for cell in read_cells(path) if not cell.prose]
    before = os.environ.get(CACHE)
    with tempfile.TemporaryDirectory() as folder, mpl.rc_context():
        os.environ[CACHE] = folder
        try:
            return [_run(cell, path, count, namespace) for count, cell in enumerate(code, 1)]
        finally:
            os.environ.pop(CACHE)
            os.environ |= {} if before is None else {CACHE: before}


def _run(cell: Cell, path: Path, count: int, namespace: dict[str, Any]) -> list[Output]:
    from matplotlib.pyplot import close, figure, get_fignums

    printed, name = io.StringIO(), f"{path}, cell {cell.number}"
    tree = ast.parse(cell.text, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, name, "exec"), namespace)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
        outputs: list[Output] = []
        if printed.getvalue():
            outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())})
        if value is not None and not cell.text.rstrip().endswith(";"):
            outputs.append({"output_type": "execute_result", "execution_count": count, **_shown(value)})
        outputs += [{"output_type": "display_data", **_picture(figure(number))} for number in get_fignums()]
    finally:
        close("all")
    return outputs


def _shown(value: Any) -> Output:
    """A value in each form that Jupyter asks it for."""
    data: Output = {"text/plain": _lines(repr(value))}
    metadata: Output = {}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = _lines(value._repr_html_())
    if hasattr(value, "_repr_png_"):
        png, metadata["image/png"] = value._repr_png_()
        data["image/png"] = _base64(png)
    return {"data": data, "metadata": metadata}


def _picture(figure: Any) -> Output:
    with io.BytesIO() as file:
        how = {"dpi": _DPI, "bbox_inches": "tight", "facecolor": "white", "metadata": {"Software": None}}
        figure.savefig(file, format="png", **how)
        png = file.getvalue()
    width, height = (int.from_bytes(png[at : at + 4], "big") * _CSS_DPI // _DPI for at in (16, 20))
    data = {"text/plain": [repr(figure)], "image/png": _base64(png)}
    return {"data": data, "metadata": {"image/png": {"width": width, "height": height}}}


def _base64(png: bytes) -> str:
    return base64.b64encode(png).decode() + "\n"


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def texts(outputs: Sequence[Sequence[Output]]) -> list[list[dict[str, str]]]:
    """What cells print and show as text, by its kind, without what varies from run to run; a picture is `picture`."""
    return [[_texts(output) for output in cell] for cell in outputs]


def _texts(output: Output) -> dict[str, str]:
    if output["output_type"] == "stream":
        return {"stdout": _steady(output["text"])}
    return {kind: "picture" if kind == "image/png" else _steady(text) for kind, text in output["data"].items()}


def _steady(lines: Sequence[str]) -> str:
    text = "".join(lines)
    for varies, steady in _VARIES:
        text = varies.sub(steady, text)
    return text


def write_outputs(path: Path) -> None:
    """Run a notebook and write its outputs; a text that only differs in what varies from run to run stays."""
    whole = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in whole["cells"] if cell["cell_type"] == "code"]
    for count, (cell, outputs) in enumerate(zip(code, execute(path), strict=True), 1):
        before = cell.get("outputs", [])
        if texts([outputs]) == texts([before]):
            outputs = [_with_texts(new, old) for new, old in zip(outputs, before, strict=True)]
        cell |= {"execution_count": count, "outputs": outputs, "metadata": {}}
    for number, cell in enumerate(whole["cells"], 1):
        cell["id"] = f"cell-{number}"
    path.write_text(json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def _with_texts(new: Output, old: Output) -> Output:
    if new["output_type"] == "stream":
        return old
    pictures = {kind: value for kind, value in new["data"].items() if kind == "image/png"}
    return {**new, "data": {**old["data"], **pictures}}


def notebook_text(path: Path) -> str:
    """A notebook as Markdown, each cell of code followed by its outputs; pictures become files."""
    return "\n\n".join(_markdown(path))


def _markdown(path: Path) -> Iterator[str]:
    title = True
    for cell in read_cells(path):
        if cell.prose:
            head, _, rest = cell.text.partition("\n")
            yield f"{head}\n\n{_ABOUT.format(path.name)}\n{rest}" if title else cell.text
            title = False
            continue
        yield f"```python\n{cell.text}\n```"
        for place, output in enumerate(cell.outputs):
            if output["output_type"] == "stream":
                yield f"```text\n{''.join(output['text']).rstrip()}\n```"
                continue
            data = output["data"]
            if "image/png" in data:
                file = PICTURES / path.stem / f"{cell.number}_{place}.png"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(base64.b64decode(data["image/png"]))
                width = output["metadata"]["image/png"]["width"]
                address = f"/{file.relative_to(REPOSITORY)}"
                yield f"```{{image}} {address}\n:alt: Picture of the cell above\n:width: {width}px\n```"
            elif "text/html" in data:
                yield f"````{{raw}} html\n{''.join(data['text/html'])}\n````"
            else:
                yield f"```text\n{''.join(data['text/plain'])}\n```"


_ABOUT = "{{download}}`This notebook <{0}>` opens in Jupyter as it is."


def _show(app: Any, name: str, source: list[str]) -> None:
    if name.startswith("notebooks/"):
        source[0] = notebook_text(REPOSITORY / f"{name}.ipynb")


def setup(app: Any) -> dict[str, bool]:
    """Show notebooks when Sphinx reads them."""
    app.connect("source-read", _show)
    return {"parallel_read_safe": False, "parallel_write_safe": True}


if __name__ == "__main__":
    for given in [Path(name) for name in sys.argv[1:]] or sorted(NOTEBOOKS.glob("*.ipynb")):
        write_outputs(given)
