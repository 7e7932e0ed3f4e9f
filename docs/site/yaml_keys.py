"""The reference of all keys of the input files, from the schemas and what `inputs.schema_keys` says of each key."""

from __future__ import annotations

from typing import Any

PAGE = "docs/reference_yaml"
_ROLES = ("Weights", "Inputs", "Outputs")
_TITLES = {"gpu": "GPU"}
_HEAD = ["| key | type | unit | default | meaning |", "|---|---|---|---|---|"]


def keys_text() -> str:
    """All keys as Markdown: a part for each kind of file, a table for each mapping in it."""
    from accelsim.inputs.fields import KINDS

    return "\n".join(_part(kind) for kind in KINDS)


def _part(kind: str) -> str:
    tables: dict[str, list[str]] = {}
    for place, row in _rows(kind):
        tables.setdefault(place, []).append(row)
    lines = [f"## {_TITLES.get(kind, kind.replace('_', ' ').capitalize())}"]
    for place, rows in tables.items():
        lines += ["", f"### `{place}`" if place else "### The file", "", *_HEAD, *rows]
    return "\n".join(lines) + "\n"


def _rows(kind: str) -> list[tuple[str, str]]:
    """The mapping that each key stands in, and its row."""
    from accelsim.inputs.schema_keys import ABOUT
    from accelsim.show.schema import schema_keys

    about, found = ABOUT[kind], []
    for each in schema_keys(kind):
        place, _, name = each.key.rpartition(".")
        told = about[each.key]
        if name in _ROLES or about.get(_at_the_top(each.key)) == told:
            continue
        default = "**required**" if each.required else told.default
        cells = (f"`{name}`", each.form, told.unit, default, told.meaning)
        found.append((place, f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"))
    return found


def _at_the_top(key: str) -> str:
    """The same key in a workload of one Einsum, where it is described already; empty for what is no layer's."""
    inner = "workload.layers[]."
    return f"workload.{key.removeprefix(inner)}" if key.startswith(inner) else ""


def _add_keys(app: Any, name: str, source: list[str]) -> None:
    if name == PAGE:
        source[0] += "\n" + keys_text()


def setup(app: Any) -> dict[str, bool]:
    """Add the keys when Sphinx reads their page."""
    app.connect("source-read", _add_keys)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
