"""Whether a document has the form that a JSON Schema describes: the keywords of `results.output_schema`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

_MOST = 5
"""Misfits that are told."""
_TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": int | float,
}


def misfits(form: Mapping[str, Any], document: Any) -> list[str]:
    """Say where a document has not the form: the first few places.

    Examples
    --------
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
        yield from min(found, key=len)
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
        yield from _misfits_of_rows(form, value, at, defs)
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
            yield f"{f'{at}.{key}'.lstrip('.')}: it is missing"
    for key, entry in value.items():
        below = f"{at}.{key}".lstrip(".")
        if key in known:
            yield from _misfits(known[key], entry, below, defs)
        elif other is False:
            yield f"{below}: unknown key"
        elif other is not True:
            yield from _misfits(other, entry, below, defs)


def _misfits_of_rows(form: Mapping[str, Any], value: list[Any], at: str, defs: Mapping[str, Any]) -> Iterator[str]:
    if not form.get("minItems", 0) <= len(value) <= form.get("maxItems", math.inf):
        yield f"{at}: it has {len(value)} entries, not {form['minItems']}"
        return
    forms = form.get("prefixItems") or [form.get("items", {})] * len(value)
    for number, (each, entry) in enumerate(zip(forms, value, strict=True)):
        yield from _misfits(each, entry, f"{at}[{number}]", defs)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
