"""What may be written at a place of an input file, as JSON Schema (draft 2020-12).

The readers in `fields` carry these forms, so that a schema says what the readers read. A scalar may always be a
parameter or arithmetic with some; only words that older drafts of JSON Schema have too are used, for editors' sake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from accelsim.inputs.params import ARITHMETIC, KEY
from accelsim.inputs.units import quantity_pattern

Form = Mapping[str, Any]

_PARAMETER: Form = {"$ref": "#/$defs/parameter"}
_SCALAR = ["string", "number", "boolean"]


def definitions() -> dict[str, Form]:
    """Forms that others refer to: of the use of parameters, and of their definition."""
    group = {"$ref": "#/$defs/parameters"}
    values = {"type": [*_SCALAR, "null"]}
    named = {"type": ["object", "null"], "propertyNames": {"pattern": whole(KEY)}}
    return {
        "parameter": {"type": "string", "pattern": ARITHMETIC},
        "parameters": {**named, "additionalProperties": {"anyOf": [values, {"type": "array", "items": values}, group]}},
    }


def whole(pattern: str) -> str:
    """Pattern that matches whole texts only."""
    return f"^(?:{pattern})$"


def either(*forms: Form) -> Form:
    """One of several forms; each is written out once."""
    parts: list[Form] = []
    for form in forms:
        parts += [part for part in form.get("anyOf", [form]) if part not in parts]
    return {"anyOf": parts}


def scalar(form: Form) -> Form:
    """Form of a value that a parameter may stand for."""
    return {"anyOf": [form, _PARAMETER]}


def text(pattern: str = r"\S") -> Form:
    """Text; what YAML takes for a number or a truth value is text too."""
    return scalar({"type": _SCALAR, "pattern": pattern})


def integer(least: int) -> Form:
    """Whole number, in quotes too."""
    return either({"type": "integer", "minimum": least}, scalar({"type": "string", "pattern": r"^[+-]?[0-9]+$"}))


def fraction(most: float) -> Form:
    """Number from 0 on."""
    return scalar({"type": "number", "minimum": 0, "maximum": most})


def boolean(words: Iterable[str]) -> Form:
    """Truth value, in quotes too."""
    return either({"type": "boolean"}, scalar({"type": "string", "pattern": whole("|".join(words))}))


def choice(words: Iterable[str]) -> Form:
    """One of a few words."""
    return scalar({"enum": list(words)})


def quantity(units: Iterable[str]) -> Form:
    """Number with one of a few units."""
    return scalar({"type": "string", "pattern": quantity_pattern(units)})


def pattern(compiled: re.Pattern[str]) -> Form:
    """Text of which a pattern matches the whole."""
    return scalar({"type": "string", "pattern": whole(compiled.pattern)})


def sequence(items: Form, *, least: int = 0, most: int | None = None, different: bool = False) -> Form:
    """List of so many items; a parameter may stand for all of it, unless they are mappings."""
    form: dict[str, Any] = {"type": "array", "items": items}
    if least:
        form["minItems"] = least
    if most is not None:
        form["maxItems"] = most
    if different:
        form["uniqueItems"] = True
    return form if "properties" in items else scalar(form)


def named(values: Form, names: Form | None = None) -> Form:
    """Mapping from free names to values."""
    return {"type": "object", "additionalProperties": values, **({"propertyNames": names} if names else {})}


def mapping(entries: Mapping[str, Form], required: Iterable[str] = ()) -> Form:
    """Mapping with fixed keys."""
    needed = list(required)
    form: dict[str, Any] = {"type": "object", "properties": dict(entries), "additionalProperties": False}
    return {**form, "required": needed} if needed else form
