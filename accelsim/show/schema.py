"""JSON Schemas (draft 2020-12) of the input files, for editors and other programs, and of result.json.

Keys, types, words and units are those that the readers declare. What a schema cannot say, `accelsim check` says: names
must refer to something, loops multiply to their bounds, every action has an energy, only the first level may have no
`size`, and `$name` is taken for whatever stands in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accelsim.designs.soc import SYSTEM_FORM
from accelsim.designs.sweep import SWEEP_FORM
from accelsim.gpu.catalogue import GPU_FORM
from accelsim.gpu.decoder import DECODER_FORM
from accelsim.inputs import forms
from accelsim.inputs.architecture import ARCHITECTURE_FORM
from accelsim.inputs.constraints_reader import CONSTRAINTS_FORM
from accelsim.inputs.energies import ENERGY_TABLE_FORM
from accelsim.inputs.fields import MEANING, Key, keys_form, node_of
from accelsim.inputs.forms import Form
from accelsim.inputs.layouts import LAYOUT_FORM
from accelsim.inputs.mapping import MAPPING_FORM
from accelsim.inputs.workload_reader import WORKLOAD_FORM
from accelsim.results.output import RESULT_FORM

DRAFT = "https://json-schema.org/draft/2020-12/schema"

_BODIES: dict[str, tuple[str, Form]] = {
    "architecture": ("storage levels, outermost first, and compute units", ARCHITECTURE_FORM),
    "gpu": ("GPU, by its data sheet", GPU_FORM),
    "system": ("cores with a shared memory", SYSTEM_FORM),
    "workload": ("one Einsum, or a network of layers", WORKLOAD_FORM),
    "decoder": ("decoder of a language model", DECODER_FORM),
    "mapping": ("one mapping of a layer onto an architecture", MAPPING_FORM),
    "layout": ("data layouts of tensors at the first level, in Timeloop's form", LAYOUT_FORM),
    "constraints": ("constraints on mappings", CONSTRAINTS_FORM),
    "energy_table": ("energies and areas of components", ENERGY_TABLE_FORM),
    "sweep": ("design points to evaluate", SWEEP_FORM),
}
KINDS = (*_BODIES, "result")
_PARAMS = Key(
    node_of({"$ref": "#/$defs/parameters"}),
    "values for `$name` in this file; `--set name=value` overrides them; groups nest",
    "none",
)


def document_form(kind: str) -> Form:
    """Form of a kind of file, in which each key has its meaning, default and unit."""
    meaning, body = _BODIES[kind]
    return keys_form({"params": _PARAMS, kind: Key(node_of(body), meaning)})


def json_schema(kind: str) -> dict[str, Any]:
    """JSON Schema of a kind of file (`KINDS`).

    `result` is the result.json that `map` and `eval` write, and what they print with `--json`.

    >>> json_schema("mapping")["required"]
    ['mapping']
    """
    head = {"$schema": DRAFT, "title": f"accelsim {kind.replace('_', ' ')}"}
    if kind == "result":
        return {**head, **RESULT_FORM}
    return {**head, **_described(document_form(kind)), "$defs": forms.definitions()}


def _described(form: Form) -> dict[str, Any]:
    """The form with what each key means, which editors show beside it."""
    found = dict(form)
    key: Key | None = found.pop(MEANING, None)
    if "anyOf" in form:
        found["anyOf"] = [_described(part) for part in form["anyOf"]]
    for inside in ("items", "additionalProperties"):
        if isinstance(form.get(inside), Mapping):
            found[inside] = _described(form[inside])
    if "properties" in form:
        found["properties"] = {name: _described(value) for name, value in form["properties"].items()}
    return found if key is None else {"description": key.meaning, **found}
