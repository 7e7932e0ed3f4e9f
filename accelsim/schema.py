"""JSON Schemas (draft 2020-12) of the input files, for editors and other programs, and of result.json.

Keys, types, words and units are those that the readers declare. What a schema cannot say, `accelsim check` says: names
must refer to something, loops multiply to their bounds, every action has an energy, only the first level has no `size`,
and `$name` is taken for whatever stands in its place.
"""

from __future__ import annotations

from typing import Any

from accelsim import constraints
from accelsim.architecture import ARCHITECTURE_FORM
from accelsim.energy import ENERGY_TABLE_FORM
from accelsim.explore.sweep import SWEEP_FORM
from accelsim.gpu.spec import GPU_FORM
from accelsim.mapping import MAPPING_FORM
from accelsim.output_schema import RESULT_FORM
from accelsim.spec import fields, forms
from accelsim.spec.forms import Form
from accelsim.workload import WORKLOAD_FORM

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
    return forms.mapping({"levels": forms.sequence(level), "min_utilization": forms.fraction(0, 1)})


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
    return {**head, **document, "$defs": forms.definitions()}
