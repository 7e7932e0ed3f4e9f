"""Form of result.json as JSON Schema (draft 2020-12): what `results.output` writes, each key once and none optional.

Energies are in pJ, counts in words of one instance (the busiest one), totals of all.

Whether a document has the form that a JSON Schema describes: the keywords of `results.output_schema`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, get_type_hints

from accelsim.model.result import LevelFills, LevelResult, Moves, Ramp, TensorAtLevel, TensorBursts, TensorOnNetwork
from accelsim.search.result import Rejection

Form = dict[str, Any]
STOPS = ["exhausted", "budget", "timeout", "memory", "remainders", "interrupted"]

_TEXT: Form = {"type": "string"}
_COUNT: Form = {"type": "integer", "minimum": 0}
_PADDED: Form = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 2}}
_SOME: Form = {"type": "integer", "minimum": 1}
_NUMBER: Form = {"type": "number", "minimum": 0}
_SHARE: Form = {"type": "number", "minimum": 0, "maximum": 1}
_TRUTH: Form = {"type": "boolean"}


def _record(**entries: Form) -> Form:
    return {"type": "object", "properties": entries, "required": list(entries), "additionalProperties": False}


def _rows(items: Form) -> Form:
    return {"type": "array", "items": items}


def _row(*items: Form) -> Form:
    return {"type": "array", "prefixItems": list(items), "minItems": len(items), "maxItems": len(items)}


def _or_null(form: Form) -> Form:
    return {"anyOf": [form, {"type": "null"}]}


_FORMS: dict[Any, Form] = {str: _TEXT, int: _COUNT, float: _NUMBER, bool: _TRUTH, int | None: _or_null(_COUNT)}


def _of(record: type, **entries: Form) -> Form:
    """Form of a dataclass: each field as its type says, but for the entries that are named."""
    types = {name: _FORMS[found] for name, found in get_type_hints(record).items() if name not in entries}
    return _record(**types, **entries)


def _to(name: str) -> Form:
    return {"$ref": f"#/$defs/{name}"}


_INPUT = _record(file=_TEXT, sha256={"type": "string", "pattern": "^[0-9a-f]{64}$"})
_PROVENANCE: Form = {
    "accelsim": _TEXT,
    "command": {"enum": ["map", "eval"]},
    "inputs": {"type": "object", "additionalProperties": _INPUT},
    "overrides": {"type": "object", "additionalProperties": _TEXT},
    "limits": _rows(_TEXT),
}
_LOOP = _row(_TEXT, _SOME)
_MAPPING = _rows(_record(level=_TEXT, keep=_rows(_TEXT), temporal=_rows(_LOOP), x=_rows(_LOOP), y=_rows(_LOOP)))
_RESULT = _record(
    architecture=_TEXT,
    layer=_TEXT,
    bounds={"type": "object", "additionalProperties": _SOME},
    valid=_TRUTH,
    violations=_rows(_TEXT),
    macs=_SOME,
    padded_macs=_SOME,
    energy_pj=_NUMBER,
    pj_per_mac=_NUMBER,
    cycles=_SOME,
    edp_pj_cycles=_NUMBER,
    clock_hz=_or_null(_NUMBER),
    run_time_s=_or_null(_NUMBER),
    power_w=_or_null(_NUMBER),
    utilization=_record(overall=_NUMBER, spatial=_NUMBER, temporal=_SHARE),
    bottleneck=_TEXT,
    compute=_record(
        name=_TEXT, instances=_SOME, used_instances=_SOME, cycles=_SOME, cycles_per_mac=_SOME, energy_pj=_NUMBER
    ),
    ramps=_rows(_of(Ramp, times=_SOME, cycles=_SOME)),
    fills=_rows(_of(LevelFills)),
    computing_cycles=_SOME,
    bursts=_rows(_of(TensorBursts, run_words=_SOME)),
    moves=_rows(_of(Moves, tiles=_SOME)),
    time=_rows(_record(component=_TEXT, what=_TEXT, cycles=_SOME, share=_SHARE)),
    cycles_without_overlap=_SOME,
    levels=_rows(_of(LevelResult, instances=_SOME, used_instances=_SOME, word_bits=_SOME)),
    tensors=_rows(_of(TensorAtLevel, tile_words=_SOME, word_bits=_SOME, compression=_SHARE, energy_pj=_NUMBER)),
    networks=_rows(_of(TensorOnNetwork, children=_SOME, distinct=_SOME)),
    energy=_rows(_record(component=_TEXT, tensor=_TEXT, action=_TEXT, energy_pj=_NUMBER)),
    cycles_by_component=_rows(_record(component=_TEXT, cycles=_COUNT, share=_SHARE, bottleneck=_TRUTH)),
    imperfect=_rows(_TEXT),
    padded=_PADDED,
    mapping=_MAPPING,
)
_BUDGET = _record(mappings=_or_null(_SOME), seconds=_or_null(_NUMBER))
_POINT: Form = {
    "energy_pj": _NUMBER,
    "cycles": _SOME,
    "edp_pj_cycles": _NUMBER,
    "utilization": _NUMBER,
    "imperfect": _rows(_TEXT),
    "padded": _PADDED,
    "mapping": _MAPPING,
}
_CERTIFICATE = _record(
    value=_NUMBER,
    bound=_NUMBER,
    gap=_or_null(_NUMBER),
    proved=_TRUTH,
    nodes=_COUNT,
    evaluated=_COUNT,
    table_bytes=_COUNT,
)
_SAMPLE = _record(
    seen=_SOME,
    valid=_SOME,
    rejections=_rows(_of(Rejection)),
    spread=_record(
        resolution=_NUMBER,
        min_pj=_NUMBER,
        max_pj=_NUMBER,
        max_over_min=_NUMBER,
        quantiles=_rows(_record(share=_SHARE, energy_pj=_NUMBER)),
        within=_rows(_record(factor=_NUMBER, count=_COUNT, share=_SHARE)),
        histogram=_rows(_row(_NUMBER, _NUMBER, _SOME)),
    ),
    curve=_rows(_row(_SOME, _NUMBER)),
)
_SEARCH = _record(
    objective=_TEXT,
    method={"enum": ["exact", "exhaustive", "random"]},
    seed=_or_null(_COUNT),
    budget=_BUDGET,
    stop={"enum": STOPS},
    uneven=_TRUTH,
    imperfect=_rows(_TEXT),
    padded=_rows(_TEXT),
    limits=_rows(_TEXT),
    space_size=_SOME,
    certificate=_or_null(_CERTIFICATE),
    within=_or_null(_record(share=_NUMBER, mappings=_COUNT)),
    ranked=_rows(_record(value=_NUMBER, **_POINT)),
    sample=_or_null(_SAMPLE),
)
_FRONT = _record(
    architecture=_TEXT,
    layer=_TEXT,
    columns=_rows(_TEXT),
    budget=_BUDGET,
    stop={"enum": STOPS},
    limits=_rows(_TEXT),
    space_size=_SOME,
    nodes=_COUNT,
    evaluated=_COUNT,
    table_bytes=_COUNT,
    points=_rows(_record(values=_rows(_NUMBER), **_POINT)),
)
_ENERGY_TABLE = _rows(
    _record(
        component=_TEXT,
        role=_TEXT,
        action=_TEXT,
        energy_pj=_or_null(_NUMBER),
        pj_per_word=_or_null(_NUMBER),
        pj_per_bit=_or_null(_NUMBER),
        formula=_or_null({"type": "string"}),
        source=_or_null(_TEXT),
    )
)
_AREA = _rows(
    _record(
        component=_TEXT,
        instances=_SOME,
        area_um2=_or_null(_NUMBER),
        total_um2=_or_null(_NUMBER),
        formula=_or_null({"type": "string"}),
        source=_or_null(_TEXT),
    )
)
_MACHINE = {"energy_table": _to("energy_table"), "area": _to("area"), "area_um2": _or_null(_NUMBER)}
_TOTAL = _record(
    layers=_COUNT,
    distinct_layers=_COUNT,
    unmapped=_rows(_TEXT),
    macs=_COUNT,
    energy_pj=_NUMBER,
    pj_per_mac=_or_null(_NUMBER),
    cycles=_COUNT,
    run_time_s=_or_null(_NUMBER),
    utilization=_or_null(_NUMBER),
    outermost=_or_null(_TEXT),
    outer_words=_COUNT,
    outer_bytes=_COUNT,
    yields=_or_null(_TEXT),
    yields_per_run=_or_null(_SOME),
    yields_per_s=_or_null(_NUMBER),
    energy_pj_per_yield=_or_null(_NUMBER),
    certificate=_or_null(_record(value=_NUMBER, bound=_NUMBER, gap=_or_null(_NUMBER), proved=_TRUTH)),
)
_IN_NETWORK = _record(
    energy_share=_SHARE,
    cycles_share=_SHARE,
    energy_limit_pj=_or_null(_NUMBER),
    cycles_limit=_or_null(_COUNT),
    energy_above_limit=_or_null(_SHARE),
    cycles_above_limit=_or_null(_SHARE),
)
_MAPPED = _record(layer=_TEXT, repeat=_SOME, in_network=_IN_NETWORK, result=_to("result"), search=_to("search"))
_UNMAPPED = _record(layer=_TEXT, repeat=_SOME, no_valid_mapping=_TEXT)
_NETWORK = _record(
    **_PROVENANCE,
    workload=_TEXT,
    architecture=_TEXT,
    total=_TOTAL,
    layers=_rows({"oneOf": [_MAPPED, _UNMAPPED]}),
    **_MACHINE,
)

RESULT_FORM: Form = {
    "oneOf": [
        {
            "title": "an evaluated mapping",
            **_record(**_PROVENANCE, result=_to("result"), **_MACHINE),
        },
        {
            "title": "a mapped layer",
            **_record(**_PROVENANCE, result=_to("result"), search=_to("search"), **_MACHINE),
        },
        {"title": "a mapped network", **_NETWORK},
        {
            "title": "a Pareto front of one layer",
            **_record(**_PROVENANCE, front=_FRONT, **_MACHINE),
        },
    ],
    "$defs": {"result": _RESULT, "search": _SEARCH, "energy_table": _ENERGY_TABLE, "area": _AREA},
}


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
