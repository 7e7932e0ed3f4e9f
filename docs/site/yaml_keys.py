"""The reference of all keys of the input files, from what each key is declared to be."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from accelsim.inputs.units import AREAS, ENERGIES, RATES, SIZES
from accelsim.inputs.workload import ROLES

FILE = "The file"
"""Heading of the keys at the top of a file of any kind."""
_ANY = 1e9
"""A number up to this much has no limit that anybody meets."""
_SMALL = 3
"""Rows of a table at most that goes into the one around it."""
_QUANTITIES = {
    **{SIZES: "size", RATES: "bandwidth", ENERGIES: "energy", AREAS: "area"},
    **{
        "MHz, GHz": "frequency",
        "nm": "node",
        "GB/s, TB/s": "bandwidth",
        "GB/s": "bandwidth",
        "mW, W": "power",
        "pJ": "energy",
    },
}
"""Quantities by their units."""
_HEADING = re.compile(r"^### (.+)\n", re.MULTILINE)
_TABLE = re.compile(r"^key \| .*\n(?:.+\n)*", re.MULTILINE)
_NEXT = re.compile(r"^#{2,3} ", re.MULTILINE)
Form = Mapping[str, Any]
Row = tuple[str, ...]
"""Cells of a row: key (bold if it is required), type, and meaning with the default in brackets."""


def with_keys(page: str) -> str:
    """Write the table of each mapping at the end of the section whose heading is its place.

    Raises ValueError where a mapping has no section, or a section no mapping.
    """
    tables = {" and ".join(f"`{place}`" for place in places): rows for places, rows in all_tables()}
    tables[FILE] = _kinds()
    found = _HEADING.findall(page)
    if sorted(found) != sorted(tables):
        missing, unknown = (sorted(set(one) - set(other)) for one, other in ((tables, found), (found, tables)))
        raise ValueError(f"sections missing: {missing}; sections without keys: {unknown}; or one twice")
    for heading in found:
        start = page.index(f"### {heading}\n") + len(f"### {heading}\n")
        after = _NEXT.search(page, start)
        end = after.start() if after else len(page)
        text = _TABLE.sub("", page[start:end]).strip("\n")
        above = f"{text}\n\n" if text else ""
        page = f"{page[:start]}{above}{_table(tables[heading])}\n{page[end:]}"
    return page.rstrip("\n") + "\n"


def all_tables() -> list[tuple[tuple[str, ...], list[Row]]]:
    """Places of mappings with their rows; those with equal keys share a table, small ones are in that around them."""
    from accelsim.inputs.library import TOP_KEYS

    tables = [table for kind in TOP_KEYS for table in _tables(kind)]
    return [(places, _shortened(tables[:at], rows)) for at, (places, rows) in enumerate(tables)]


def _tables(kind: str) -> list[tuple[tuple[str, ...], list[Row]]]:
    """Tables of a kind of file, in the order of its keys."""
    by_place: dict[str, list[Row]] = {}
    for place, row in _rows(kind):
        rows = by_place.setdefault(_any_role(place), [])
        rows += [row] if row not in rows else []
    equal: dict[tuple[Row, ...], list[str]] = {}
    for place, rows in by_place.items():
        equal.setdefault(tuple(rows), []).append(place)
    tables = {_joined(places): list(rows) for rows, places in equal.items()}
    for places in reversed(list(tables)):
        around = max((each for each in tables if _inside(each, places)), key=lambda each: len(each[0]), default=None)
        if around and len(tables[places]) <= _SMALL:
            _put(tables[around], places[0].removeprefix(f"{around[0]}."), tables.pop(places))
    return list(tables.items())


def _inside(around: Sequence[str], places: Sequence[str]) -> bool:
    return len(places) == len(around) == 1 and places[0].startswith(f"{around[0]}.")


def _put(rows: list[Row], place: str, inner: Sequence[Row]) -> None:
    """Put the keys of a mapping below its own."""
    own = re.findall(r"\w+", place.split(".")[0])
    at = max(number for number, row in enumerate(rows, 1) if re.match(r"\w+", row[0].strip("*`"))[0] in own)
    rows[at:at] = [(row[0].replace("`", f"`{place}.", 1), *row[1:]) for row in inner]


def _shortened(before: Sequence[tuple[tuple[str, ...], list[Row]]], rows: Sequence[Row]) -> list[Row]:
    """Rows with those as one that an earlier table has too, or that differ in the name of an action only."""
    known = {row: places[0] for places, each in reversed(before) for row in each}

    def cells_of(row: Row) -> Row:
        if row in again:
            return ("", f"as in `{known[row]}`")
        name, *cells, meaning = row
        action = f"energy per {name.strip('`').replace('_', ' ')}"
        return (*cells, "energy per action" if meaning == action else meaning)

    runs = [list(run) for told, run in groupby(rows, known.get) if told]
    again = {row for run in runs if len(run) > 1 for row in run}
    groups = [(cells, [row[0] for row in found]) for cells, found in groupby(rows, cells_of)]
    return [(", ".join(names), *cells) for cells, names in groups]


def _any_role(place: str) -> str:
    """Write `*` for a role in a place, which has the same keys for each."""
    return ".".join(re.sub(rf"^({'|'.join(ROLES)})(?=\W|$)", "*", part) for part in place.split("."))


def _joined(places: Sequence[str]) -> tuple[str, ...]:
    """Places that differ in one name as one, such as `fanout.{x,y}`."""
    parts = [place.split(".") for place in places]
    if len({len(each) for each in parts}) == 1:
        names = [list(dict.fromkeys(column)) for column in zip(*parts, strict=True)]
        if sum(len(each) > 1 for each in names) == 1 and len({each.count("[]") for each in places}) == 1:
            joined = (each[0] if len(each) == 1 else _braces(each) for each in names)
            return (".".join(joined),)
    return tuple(places)


def _braces(names: Sequence[str]) -> str:
    """Names as one: `{gating,skipping}[]`."""
    ends = "[]" * names[0].count("[]")
    return f"{{{','.join(name.removesuffix(ends) for name in names)}}}{ends}"


def _table(rows: Sequence[Row]) -> str:
    """A table as Markdown."""
    head = ("key", "type", "meaning") if len(rows[0]) == 3 else ("key", "meaning")
    lines = [" | ".join(cell.replace("|", r"\|") for cell in row) for row in (head, *rows)]
    return "\n".join([lines[0], "|".join(["---"] * len(head)), *lines[1:]]) + "\n"


def _kinds() -> list[Row]:
    """What stands at the top of a file."""
    from accelsim.inputs.library import TOP_KEYS

    keys = {each.key: each for kind in TOP_KEYS for each in schema_keys(kind) if "." not in each.key}
    return [(f"`{name}`", each.meaning) for name, each in keys.items()]


def _rows(kind: str) -> list[tuple[str, Row]]:
    """The mapping that each key stands in, and its row."""
    keys, found = schema_keys(kind), []
    told = {each.key: (each.unit, each.default, each.meaning) for each in keys}
    for each in keys:
        place, _, name = each.key.rpartition(".")
        if not place or name in ROLES or told.get(_at_the_top(each.key)) == told[each.key]:
            continue
        shown = f"**`{name}`**" if each.required else f"`{name}`"
        default = "" if each.required or each.default == "none" else f" [{each.default}]"
        found.append((place, (shown, type_of(each), each.meaning + default)))
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


def type_of(key: SchemaKey) -> str:
    """What may be written, with its unit.

    Examples
    --------
    >>> type_of(SchemaKey("size", "quantity or mapping", True, "capacity", "required", SIZES))
    'size or mapping'
    >>> type_of(SchemaKey("issue", "int >= 0", False, "time", "0", "cycles"))
    'int >= 0 (cycles)'
    """
    if key.unit in _QUANTITIES and "quantity" in key.form:
        return key.form.replace("quantity", _QUANTITIES[key.unit])
    unit = _QUANTITIES.get(key.unit, key.unit)
    return f"{key.form} ({unit})" if unit not in ("", key.form) else key.form


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
    >>> in_words(integer(1)), in_words(choice(["a", "b", "c"])), in_words(sequence(text()))
    ('int >= 1', 'a, b or c', 'list')
    """
    several = [in_words(part) for part in form.get("anyOf", ()) if part.get("$ref") != "#/$defs/parameter"]
    if several:
        return " or ".join(dict.fromkeys(word for word in several if word != "integer in quotes"))
    if "$ref" in form:
        return "mapping"
    if "enum" in form or "const" in form:
        return _choice([str(word) for word in form.get("enum", [form.get("const")])])
    kind = form.get("type", "anything")
    if kind == "array":
        return _list(form)
    if kind == "object":
        return "mapping"
    if kind in ("integer", "number"):
        low, high = form.get("minimum"), form.get("maximum")
        if high is not None and high < _ANY:
            return f"{low:g} to {high:g}"
        return f"{'int' if kind == 'integer' else 'number'} >= {low}"
    if kind == "boolean":
        return "bool"
    return _text_in_words(str(form.get("pattern", "")))


def _list(form: Form) -> str:
    item = in_words(form["items"])
    if form.get("minItems") == form.get("maxItems", -1):
        return f"{form['minItems']} of them"
    if item == "role":
        return "roles"
    return "list" if item.endswith(("text", "mapping")) else f"list of {item}"


def _choice(words: Sequence[str]) -> str:
    if tuple(words) == ROLES:
        return "role"
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _text_in_words(pattern: str) -> str:
    """What a text is, told by its pattern."""
    from accelsim.inputs.units import quantity_pattern

    if pattern == r"^[+-]?[0-9]+$":
        return "integer in quotes"
    if "true" in pattern:
        return "bool"
    begin = quantity_pattern(())[:20]
    return "quantity" if pattern.startswith(begin) else "text"
