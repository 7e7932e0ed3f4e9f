"""The reference of all keys of the input files, from the schemas and what `accelsim.schema_keys` says of each key."""

from __future__ import annotations

from typing import Any

PAGE = "docs/reference_yaml"
_SAME = {
    "workload.layers[].": "workload.",
}
"""Keys of layers that stand at the top of a workload of one Einsum, too: one table for both."""


def keys_text() -> str:
    """All keys as Markdown, a table for each kind of file."""
    from accelsim.schema_keys import KINDS

    return "\n".join(_table(kind) for kind in KINDS)


def _table(kind: str) -> str:
    from accelsim.schema import schema_keys
    from accelsim.schema_keys import ABOUT

    about = ABOUT[kind]
    lines = [
        f"## {kind.replace('_', ' ').capitalize()}",
        "| key | type | unit | default | meaning |",
        "|---|---|---|---|---|",
    ]
    for each in schema_keys(kind):
        told = about[each.key]
        if _is_twice(each.key, about):
            continue
        default = "**required**" if each.required else told.default
        cells = (f"`{each.key}`", each.form, told.unit, default, told.meaning)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _is_twice(key: str, about: dict[str, Any]) -> bool:
    """Whether the same key of a layer stands at the top, where it is described already."""
    for inner, outer in _SAME.items():
        if key.startswith(inner) and about.get(outer + key.removeprefix(inner)) == about[key]:
            return True
    return False


def _add_keys(app: Any, name: str, source: list[str]) -> None:
    if name == PAGE:
        source[0] += "\n" + keys_text()


def setup(app: Any) -> dict[str, bool]:
    """Add the keys when Sphinx reads their page."""
    app.connect("source-read", _add_keys)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
