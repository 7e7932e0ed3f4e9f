"""The reference of all keys of the input files, from what each key is declared to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ROLES = ("Weights", "Inputs", "Outputs")
_TITLES = {"gpu": "GPU"}
_HEAD = ["| key | type | unit | default | meaning |", "|---|---|---|---|---|"]
_ANY = 1e9
"""A number up to this much has no limit that anybody meets."""
Form = Mapping[str, Any]


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
    keys, found = schema_keys(kind), []
    told = {each.key: (each.unit, "**required**" if each.required else each.default, each.meaning) for each in keys}
    for each in keys:
        place, _, name = each.key.rpartition(".")
        if name in _ROLES or told.get(_at_the_top(each.key)) == told[each.key]:
            continue
        cells = (f"`{name}`", each.form, *told[each.key])
        found.append((place, f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"))
    return found


def _at_the_top(key: str) -> str:
    """The same key in a workload of one Einsum, where it is described already; empty for what is no layer's."""
    inner = "workload.layers[]."
    return f"workload.{key.removeprefix(inner)}" if key.startswith(inner) else ""


@dataclass(frozen=True, slots=True)
class SchemaKey:
    """A key of a kind of file: dotted, what may stand there in words, whether it must be there, and what it means."""

    key: str
    form: str
    required: bool
    meaning: str
    default: str
    unit: str


def schema_keys(kind: str) -> list[SchemaKey]:
    """All keys of a kind of file, outer ones first, in the order in which they are declared.

    Examples
    --------
    >>> [each.key for each in schema_keys("mapping")][:3]
    ['params', 'mapping', 'mapping.imperfect']
    """
    from accelsim.show.schema import document_form

    return _keys_of(document_form(kind), "")


def _keys_of(form: Form, path: str) -> list[SchemaKey]:
    from accelsim.inputs.fields import MEANING

    found: list[SchemaKey] = []
    for key, value in form.get("properties", {}).items():
        at = f"{path}.{key}".lstrip(".")
        told = value[MEANING]
        required = key in form.get("required", ())
        found.append(SchemaKey(at, in_words(value), required, told.meaning, told.default, told.unit))
        found += _keys_of(value, at)
    for part in form.get("anyOf", ()):
        found += _keys_of(part, path)
    if "items" in form:
        found += _keys_of(form["items"], f"{path}[]")
    if isinstance(form.get("additionalProperties"), dict):
        found += _keys_of(form["additionalProperties"], f"{path}.*")
    return found


def in_words(form: Form) -> str:
    """What may be written, in words; that a parameter may stand for it is not said.

    Examples
    --------
    >>> from accelsim.inputs.forms import choice, integer, sequence, text
    >>> in_words(integer(1)), in_words(choice(["a", "b"])), in_words(sequence(text()))
    ('integer >= 1', 'a or b', 'list of text')
    """
    several = [in_words(part) for part in form.get("anyOf", ()) if part.get("$ref") != "#/$defs/parameter"]
    if several:
        return " or ".join(dict.fromkeys(word for word in several if word != "integer in quotes"))
    if "$ref" in form:
        return "mapping"
    if "enum" in form or "const" in form:
        return " or ".join(map(str, form.get("enum", [form.get("const")])))
    kind = form.get("type", "anything")
    if kind == "array":
        many = f" of {form['minItems']}" if form.get("minItems") == form.get("maxItems", -1) else ""
        return f"list{many} of {in_words(form['items'])}" if not many else f"list{many}: {in_words(form['items'])}"
    if kind == "object":
        return "mapping"
    if kind in ("integer", "number"):
        name = "integer" if kind == "integer" else "number"
        low, high = form.get("minimum"), form.get("maximum")
        return f"{name} {low:g} to {high:g}" if high is not None and high < _ANY else f"{name} >= {low}"
    if kind == "boolean":
        return "true or false"
    return _text_in_words(str(form.get("pattern", "")))


def _text_in_words(pattern: str) -> str:
    """What a text is, told by its pattern."""
    from accelsim.inputs.units import quantity_pattern

    if pattern == r"^[+-]?[0-9]+$":
        return "integer in quotes"
    if "true" in pattern:
        return "true or false"
    begin = quantity_pattern(())[:20]
    return "quantity" if pattern.startswith(begin) else "text"
