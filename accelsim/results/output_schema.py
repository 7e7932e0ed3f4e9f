"""Kinds of JSON values (JSON Schema, draft 2020-12): how each is written, and whether a document has its form.

A record declares each key once: what is written under it, and what it looks like. No key is optional.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, get_type_hints

Form = dict[str, Any]
Getter = str | Callable[[Any], Any]


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class JsonKind:
    """A kind of JSON value: its JSON Schema, and what makes it of a value.

    `of` is where a record has it: an attribute, or what makes it of the whole object; None: an attribute named as the
    key.
    """

    form: Form
    write: Callable[[Any], Any] = _as_it_is
    of: Getter | None = None


TEXT = JsonKind({"type": "string"})
SAID = replace(TEXT, write=str)
COUNT = JsonKind({"type": "integer", "minimum": 0})
SOME = JsonKind({"type": "integer", "minimum": 1})
NUMBER = JsonKind({"type": "number", "minimum": 0})
SHARE = JsonKind({"type": "number", "minimum": 0, "maximum": 1}, float)
TRUTH = JsonKind({"type": "boolean"})


def at(of: Getter, kind: JsonKind) -> JsonKind:
    """A kind of value that stands elsewhere than the key says."""
    return replace(kind, of=of)


def part(kind: JsonKind) -> JsonKind:
    """A record whose values are of the same object as those around it."""
    return replace(kind, of=_as_it_is)


def word(*words: str) -> JsonKind:
    """One of some words."""
    return JsonKind({"enum": list(words)})


def named(kind: JsonKind) -> JsonKind:
    """Values by names."""
    return JsonKind({"type": "object", "additionalProperties": kind.form}, dict)


def rows(kind: JsonKind) -> JsonKind:
    """A list of any length."""
    return JsonKind({"type": "array", "items": kind.form}, lambda values: [kind.write(value) for value in values])


def row(*kinds: JsonKind) -> JsonKind:
    """A list with a place for each."""
    forms = [kind.form for kind in kinds]
    return JsonKind({"type": "array", "prefixItems": forms, "minItems": len(forms), "maxItems": len(forms)}, list)


def or_null(kind: JsonKind) -> JsonKind:
    """A value that may be absent."""
    form = {"anyOf": [kind.form, {"type": "null"}]}
    return replace(kind, form=form, write=lambda value: None if value is None else kind.write(value))


def record(**kinds: JsonKind) -> JsonKind:
    """Values by key, in this order: of the attributes of an object, or a mapping as it is."""
    forms = {key: kind.form for key, kind in kinds.items()}
    form = {"type": "object", "properties": forms, "required": list(forms), "additionalProperties": False}

    def write(value: Any) -> dict[str, Any]:
        if isinstance(value, Mapping):
            return dict(value)
        written = {}
        for key, kind in kinds.items():
            of = key if kind.of is None else kind.of
            written[key] = kind.write(getattr(value, of) if isinstance(of, str) else of(value))
        return written

    return JsonKind(form, write)


def fields_of(made: type, **kinds: JsonKind) -> JsonKind:
    """A record of a dataclass: each field as its type says, but for those that are named."""
    usual = {str: TEXT, int: COUNT, float: NUMBER, bool: TRUTH, int | None: or_null(COUNT)}
    types = get_type_hints(made).items()
    return record(**{name: kinds[name] if name in kinds else usual[found] for name, found in types} | kinds)


_MOST = 5
"""Misfits that are told."""
ABSENT, _UNKNOWN = ": it is missing", ": unknown key"
"""Ends of misfits; by unknown keys a form is another one than that of a document, whatever else is missing."""
_TYPES: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
_TYPES["number"] = int | float


def misfits(form: Mapping[str, Any], document: Any) -> list[str]:
    """Say where a document has not the form: the first few places.

    >>> misfits({"type": "object", "properties": {"cycles": {"type": "integer"}}}, {"cycles": 1.5})
    ['cycles: 1.5 is no integer']
    """
    return list(islice(_misfits(form, document, "", form.get("$defs", {})), _MOST))


def _misfits(form: Mapping[str, Any], value: Any, at: str, defs: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in form:
        form = defs[form["$ref"].rpartition("/")[2]]
    several = form.get("oneOf") or form.get("anyOf")
    if several:
        found = [list(_misfits(each, value, at, defs)) for each in several]
        yield from min(found, key=lambda wrong: (sum(one.endswith(_UNKNOWN) for one in wrong), len(wrong)))
        return
    here = at or "the document"
    if "enum" in form and value not in form["enum"]:
        yield f"{here}: {_shown(value)} is none of {', '.join(map(str, form['enum']))}"
    if "type" not in form:
        return
    kind = form["type"]
    if kind == "null":
        if value is not None:
            yield f"{here}: {_shown(value)} is not null"
    elif not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        yield f"{here}: {_shown(value)} is no {kind}"
    elif kind == "object":
        yield from _misfits_of_record(form, value, at, defs)
    elif kind == "array":
        if not form.get("minItems", 0) <= len(value) <= form.get("maxItems", math.inf):
            yield f"{at}: it has {len(value)} entries, not {form['minItems']}"
            return
        forms = form.get("prefixItems") or [form.get("items", {})] * len(value)
        for number, (each, entry) in enumerate(zip(forms, value, strict=True)):
            yield from _misfits(each, entry, f"{at}[{number}]", defs)
    elif kind == "string" and not re.search(form.get("pattern", ""), value):
        yield f"{here}: {_shown(value)} is not of the form {form['pattern']}"
    elif kind in ("integer", "number"):
        low, high = form.get("minimum", -math.inf), form.get("maximum", math.inf)
        if not math.isfinite(value) or not low <= value <= high:
            yield f"{here}: {_shown(value)} is out of range"


def _misfits_of_record(
    form: Mapping[str, Any], value: Mapping[str, Any], at: str, defs: Mapping[str, Any]
) -> Iterator[str]:
    known, other = form.get("properties", {}), form.get("additionalProperties", True)
    for key in form.get("required", ()):
        if key not in value:
            yield f"{f'{at}.{key}'.lstrip('.')}{ABSENT}"
    for key, entry in value.items():
        below = f"{at}.{key}".lstrip(".")
        if key in known:
            yield from _misfits(known[key], entry, below, defs)
        elif other is False:
            yield f"{below}{_UNKNOWN}"
        elif other is not True:
            yield from _misfits(other, entry, below, defs)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
