"""Reports as web pages: one file with everything in it, to open in a browser and explore."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from accelsim.inputs.errors import AccelsimError
from accelsim.results import NO_PLOTLY
from accelsim.show.table import Column, Part, Row, Table

_LONG_NAME = 16
"""Letters of a name that may not fit into a line on a phone."""
_BETWEEN_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=_)(?=[^_])")


def page(title: str, lead: str, sections: str, data: dict[str, Any], script: str = "report.js") -> str:
    """Make the whole file, of a title and a lead in plain text, HTML that follows, and what the named script draws.

    Raises
    ------
    AccelsimError
        If plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise AccelsimError(NO_PLOTLY) from None
    return Template(_file("report.html")).substitute(
        title=escape(title),
        heading=said(title),
        lead=said(lead),
        sections=sections,
        style=_file("report.css"),
        plotly=get_plotlyjs(),
        script=_file(script),
        data=embedded(data),
    )


def section(name: str, title: str, content: str) -> str:
    """Part of a page below its own head."""
    return f'<section id="{name}"><h2>{escape(title)}</h2>{content}</section>'


def said(text: str) -> str:
    r"""Text as HTML, in which numbers stay beside their units, and long names break between their words.

    >>> said("2.5 mJ & 3 % more")
    '2.5\xa0mJ &amp; 3\xa0% more'
    >>> said("WeightInputBuffer")
    'Weight<wbr>Input<wbr>Buffer'
    """
    together = re.sub(r"(?<=\d) (?=%|[TGMkmunpf]?[JsW]\b|[KMGT]?i?B\b)", "\u00a0", text)
    return re.sub(rf"\w{{{_LONG_NAME},}}", lambda name: _BETWEEN_WORDS.sub("<wbr>", name[0]), escape(together))


def frame(name: str) -> str:
    """Part of a page that its script fills, with the words that explain it."""
    found = re.search(rf"<!-- {name} -->\n(.*?)\n+(?:<!--|\Z)", _file("frames.html"), re.DOTALL)
    return found[1] if found else ""


def _file(name: str) -> str:
    return (files("accelsim.show.html") / name).read_text(encoding="utf-8")


def embedded(data: Any) -> str:
    r"""JSON that may stand inside a script element: no name in it can end the element.

    >>> print(embedded({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def table(caption: str, shown: Table) -> str:
    """A table that a click on its heads sorts."""
    head = "".join(f'<th scope="col"><button type="button">{escape(c.head)}</button></th>' for c in shown.columns)
    rows = (shown.rows if shown.shown is None else shown.shown)[: shown.most]
    body = "".join(f"<tr>{''.join(_cell(column, row) for column in shown.columns)}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table class="sortable">'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(column: Column, row: Row) -> str:
    raw = row.get(column.value) if isinstance(column.value, str) else None
    kind = f' class="number" data-value="{raw!r}"' if isinstance(raw, int | float) else ""
    return f"<td{kind}>{said(str(column.cell(row)))}</td>"


def written(parts: Iterable[Part]) -> str:
    """A report as HTML: headings, lines as paragraphs, and its tables."""
    found = []
    for part in parts:
        if isinstance(part, Table):
            found.append(table(": ".join(filter(None, (part.title or part.name, part.note))), part))
        elif text := str(part).strip():
            tag = "h3" if str(part).startswith("\n") else "p"
            found.append(f"<{tag}>{said(text)}</{tag}>")
    return "".join(found)
