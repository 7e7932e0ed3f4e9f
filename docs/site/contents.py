"""The contents of the site: index.md's tables, one part of the sidebar for each of its headings."""

from __future__ import annotations

import posixpath
import re
from typing import Any

INDEX = "docs/index"
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)#]+)\.(?:md|ipynb)\)", re.MULTILINE)


def parts_of(index: str) -> dict[str, list[tuple[str, str]]]:
    """Pages that each part of the index lists: short title, and name as Sphinx has it.

    Examples
    --------
    >>> parts_of('''## Reference
    ... | page | what |
    ... |---|---|
    ... | [Input files](reference/files.md) | keys |
    ... | [Tour](../notebooks/tour.ipynb) | first |
    ... ''')
    {'Reference': [('Input files', 'docs/reference/files'), ('Tour', 'notebooks/tour')]}
    """
    _, *found = _HEADING.split(index)
    parts = {}
    for heading, text in zip(found[::2], found[1::2], strict=True):
        rows = [(title, posixpath.normpath(f"docs/{page}")) for title, page in _ROW.findall(text)]
        if rows:
            parts[heading] = rows
    return parts


def _add_contents(app: Any, name: str, source: list[str]) -> None:
    if name != INDEX:
        return
    for caption, pages in parts_of(source[0]).items():
        rows = "\n".join(f"{title} </{page}>" for title, page in pages)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{rows}\n```\n"


def setup(app: Any) -> dict[str, bool]:
    """Add the contents when Sphinx reads the index."""
    app.connect("source-read", _add_contents)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
