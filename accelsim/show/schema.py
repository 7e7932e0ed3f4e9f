"""JSON Schemas (draft 2020-12) of the input files, for editors and other programs, and of result.json.

Keys, types, words and units are those that the readers declare. What a schema cannot say, `accelsim check` says: names
must refer to something, loops multiply to their bounds, every action has an energy, only the first level may have no
`size`, and `$name` is taken for whatever stands in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accelsim.explore.sweep import SWEEP_FORM
from accelsim.gpu.catalogue import GPU_FORM
from accelsim.inputs import constraints, fields, forms
from accelsim.inputs.architecture import ARCHITECTURE_FORM
from accelsim.inputs.energy.table import ENERGY_TABLE_FORM
from accelsim.inputs.fields import About
from accelsim.inputs.forms import Form
from accelsim.inputs.mapping import MAPPING_FORM
from accelsim.inputs.objective import LIMIT
from accelsim.inputs.schema_keys import ABOUT
from accelsim.inputs.workload_reader import WORKLOAD_FORM
from accelsim.results.output_schema import RESULT_FORM

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def _constraints_form() -> Form:
    """Form of what stands under `constraints`."""
    names = forms.sequence(fields.identifier.form, different=True)
    either_name = forms.either({"const": constraints.REST}, fields.identifier.form)
    in_block: dict[str, Form] = {
        "factors": forms.sequence(forms.pattern(constraints._FACTOR)),
        "only": names,
        "order": forms.sequence(either_name, different=True),
    }
    axis = forms.mapping({key: in_block[key] for key in constraints.AXIS_KEYS})
    at_level: dict[str, Form] = {
        "level": fields.name.form,
        "keep": names,
        "bypass": names,
        "temporal": forms.mapping({key: in_block[key] for key in constraints.TEMPORAL_KEYS}),
        "spatial": forms.mapping({"x": axis, "y": axis}),
    }
    level = forms.mapping({key: at_level[key] for key in constraints.LEVEL_KEYS}, ["level"])
    limits = forms.sequence(forms.pattern(LIMIT))
    return forms.mapping({"levels": forms.sequence(level), "min_utilization": forms.fraction(0, 1), "limits": limits})


_BODIES: dict[str, Form] = {
    "architecture": ARCHITECTURE_FORM,
    "gpu": GPU_FORM,
    "workload": WORKLOAD_FORM,
    "mapping": MAPPING_FORM,
    "constraints": _constraints_form(),
    "energy_table": ENERGY_TABLE_FORM,
    "sweep": SWEEP_FORM,
}
KINDS = (*_BODIES, "result")


def json_schema(kind: str) -> dict[str, Any]:
    """JSON Schema of a kind of file.

    Parameters
    ----------
    kind : str
        `architecture`, `gpu`, `workload`, `mapping`, `constraints`, `energy_table`, `sweep`, or `result`: the
        result.json that `map` and `eval` write, and what they print with `--json`.

    Examples
    --------
    >>> json_schema("mapping")["required"]
    ['mapping']
    """
    head = {"$schema": DRAFT, "title": f"accelsim {kind.replace('_', ' ')}"}
    if kind == "result":
        return {**head, **RESULT_FORM}
    document = forms.mapping({"params": {"$ref": "#/$defs/parameters"}, kind: _BODIES[kind]}, [kind])
    return {**head, **_described(document, "", ABOUT.get(kind, {})), "$defs": forms.definitions()}


def _described(form: Form, path: str, about: Mapping[str, About]) -> dict[str, Any]:
    """The form with what each key means, which editors show beside it."""
    found = dict(form)
    if "anyOf" in form:
        found["anyOf"] = [_described(part, path, about) for part in form["anyOf"]]
    if "items" in form:
        found["items"] = _described(form["items"], f"{path}[]", about)
    if isinstance(form.get("additionalProperties"), dict):
        found["additionalProperties"] = _described(form["additionalProperties"], f"{path}.*", about)
    if "properties" in form:
        found["properties"] = {
            key: _with_meaning(_described(value, (at := f"{path}.{key}".lstrip(".")), about), about.get(at))
            for key, value in form["properties"].items()
        }
    return found


def _with_meaning(form: dict[str, Any], about: About | None) -> dict[str, Any]:
    return form if about is None else {"description": about.meaning, **form}
