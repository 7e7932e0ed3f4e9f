"""Where an architecture's energies and areas come from: an energy table, component models, or other tools."""

from __future__ import annotations

from pathlib import Path

from accelsim.inputs import fields, forms, library
from accelsim.inputs.energy.table import ComponentTable, Estimator, read_energy_table
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.fields import Fields, Key, Keys, keys_form
from accelsim.inputs.forms import Form
from accelsim.inputs.source import MapNode, Node, Problems

COMPONENTS = "components"
HWCOMPONENTS = "hwcomponents"
_ACCELERGY: Keys = {
    "ert": Key(fields.text, required=True),
    "art": Key(fields.text),
    "rename": Key(fields.mapping_of(fields.text)),
}
ESTIMATOR_FORM: Form = forms.either(fields.text.form, keys_form(_ACCELERGY))
"""What may stand under `energy_table` of an architecture, as JSON Schema."""


def read_estimator(node: Node | None, beside: Path, problems: Problems) -> Estimator | None:
    """Read what an architecture names as its `energy_table`.

    A name: of the component models (`components`), of the package `hwcomponents`, or of an energy table (a path
    relative to the architecture's file, or a shipped one). A mapping: an Accelergy ERT and ART.
    """
    if node is None or problems.unreadable(node):
        return None
    if isinstance(node, MapNode):
        return _accelergy(Fields(node, problems, _ACCELERGY), beside)
    name = fields.text(node, problems)
    if name == COMPONENTS:
        from accelsim.inputs.energy.components import ComponentModels

        return ComponentModels()
    if name == HWCOMPONENTS:
        from accelsim.inputs.energy.other_tools import open_hwcomponents

        try:
            return open_hwcomponents()
        except AccelsimError as error:
            problems.add(node, str(error))
            return None
    return None if name is None else _table(name, node, beside, problems)


def _table(name: str, node: Node, beside: Path, problems: Problems) -> ComponentTable | None:
    """Read an energy table: a path relative to the architecture's file, or a shipped name."""
    try:
        path = beside.parent / name
        path = path if path.is_file() else library.resolve(name, "energy_tables")
    except AccelsimError as error:
        problems.add(node, str(error))
        return None
    except (OSError, ValueError) as error:
        problems.add(node, f"cannot be read: {error}")
        return None
    document = fields.open_document(path, "energy_table", {}, problems)
    return read_energy_table(document.body, problems) if document else None


def _accelergy(written: Fields, beside: Path) -> Estimator | None:
    """Read an ERT and, where one is named, an ART."""
    from accelsim.inputs.energy.other_tools import read_accelergy

    ert, art = written.value("ert", ""), written.value("art", "")
    rename: dict[str, str] = written.value("rename", {})
    if not ert:
        return None
    absent = [(key, name) for key, name in (("ert", ert), ("art", art)) if name and not (beside.parent / name).exists()]
    for key, name in absent:
        written.problems.add(written.entries[key], f"{name}: no such file")
    if absent:
        return None
    return read_accelergy(beside.parent / ert, beside.parent / art if art else None, rename, written.problems)
