"""What the site has besides its contents: papers, schemas, reports to download, and a start page at its root."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
SCHEMAS = REPOSITORY / "build" / "schemas"
PAGE = "docs/reference/files"
PAPERS = "docs/papers/"
_MARKDOWN = re.compile(r"\]\((?!\w+:)([^)#\s]+\.md)(?:#[^)\s]*)?\)")
_START = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>accelsim</title>
<meta http-equiv="refresh" content="0; url=docs/index.html"><link rel="canonical" href="docs/index.html"></head>
<body><a href="docs/index.html">accelsim's documentation</a></body></html>
"""


def _write_schemas(app: Any) -> None:
    from accelsim.show.schema import KINDS, json_schema

    SCHEMAS.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        (SCHEMAS / f"{kind}.schema.json").write_text(json.dumps(json_schema(kind), indent=2), encoding="utf-8")


def _link_schemas(app: Any, name: str, source: list[str]) -> None:
    if name == PAGE:
        links = ", ".join(
            f"{{download}}`{path.name} </build/schemas/{path.name}>`" for path in sorted(SCHEMAS.glob("*.json"))
        )
        source[0] += f"\nThe schemas of this version: {links}.\n"


def _mark_papers(app: Any, name: str, source: list[str]) -> None:
    """Papers are linked from pages, and are not in the table of contents."""
    if name.startswith(PAPERS):
        source[0] = f"---\norphan: true\n---\n{source[0]}"


def _link_files(app: Any, name: str, source: list[str]) -> None:
    """Let links to Markdown that is not in the site, such as the reports of validation, download it."""

    def link(found: re.Match[str]) -> str:
        page = os.path.normpath(Path(name).parent / found[1]).removesuffix(".md")
        return found[0] if page in app.env.found_docs else f"](path:{found[1]})"

    source[0] = _MARKDOWN.sub(link, source[0])


def _write_start(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        Path(app.outdir, "index.html").write_text(_START, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Write schemas before pages are read, and the start page when all others are there."""
    app.connect("builder-inited", _write_schemas)
    app.connect("source-read", _link_schemas)
    app.connect("source-read", _mark_papers)
    app.connect("source-read", _link_files)
    app.connect("build-finished", _write_start)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
