"""Vector units of an architecture: what runs operations other than multiply-accumulates, such as a soft-max."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from accelsim.inputs import fields
from accelsim.inputs.energies import AREA, COMPONENT, PartFigures, own_energy_keys, read_component
from accelsim.inputs.fields import Fields, Key, Keys, keys_form, node_of
from accelsim.inputs.source import ListNode, Problems
from accelsim.inputs.units import listed, near_miss
from accelsim.inputs.workload import OPERATIONS

_ACTIONS = ("compute",)


@dataclass(frozen=True, slots=True)
class VectorUnit:
    """Lanes below one instance of a level, each of which reads its operands there and writes its results there.

    Attributes
    ----------
    below : str
        The level.
    lanes : int
        Operations a cycle.
    operations : mapping of str to int
        What they can do, and how many operations a point takes.
    """

    name: str
    below: str
    lanes: int
    operations: Mapping[str, int]


_UNIT: Keys = {
    "name": Key(fields.name, "its name, different from all others"),
    "below": Key(fields.name, "level from which it reads and to which it writes"),
    "lanes": Key(fields.positive_int, "operations a cycle, below one instance of the level", "1"),
    "operations": Key(
        fields.mapping_of(fields.positive_int),
        "supported operations, with the operations of a lane per point",
        "1 each; all but multiply_add",
    ),
    **COMPONENT,
    "energy": Key(node_of(keys_form(own_energy_keys(_ACTIONS))), "energy per operation", "from the energy table"),
    "area": replace(AREA, meaning="area of one unit"),
}
VECTOR_UNITS = Key(
    fields.items_of(keys_form(_UNIT), "vector units"), "units for operations other than multiply_add", "none"
)
"""The key `vector_units` of an architecture."""


def read_vector_units(
    node: ListNode | None, levels: Sequence[str], compute: str, machine: PartFigures, problems: Problems
) -> tuple[VectorUnit, ...]:
    """Read the vector units of a machine with levels and compute units of these names, and what they cost."""
    found: list[VectorUnit] = []
    lines: dict[str, int] = {}
    whose: dict[str, str] = {}
    for item in node.items if node else ():
        unit = Fields(item, problems, _UNIT)
        name, below = unit.once(lines, "vector units"), unit.value("below", "")
        if name in (*levels, compute):
            unit.wrong("name", f"another part is named '{name}'")
        if below and below not in levels:
            unit.wrong("below", f"no level is named '{below}'", near_miss(below, levels, "levels"))
        operations: dict[str, int] = unit.value("operations", dict.fromkeys(OPERATIONS[1:], 1))
        for word in operations:
            if word not in OPERATIONS[1:]:
                what = "the compute units do" if word == OPERATIONS[0] else "no unit knows"
                unit.wrong("operations", f"{what} '{word}'", f"operations: {listed(OPERATIONS[1:])}")
            elif word in whose:
                unit.wrong("operations", f"{whose[word]} does '{word}' already", "leave it out of one of them")
            whose.setdefault(word, name)
        _read_energy(unit, name, machine)
        found.append(VectorUnit(name, below, unit.value("lanes", 1), operations))
    return tuple(found)


def _read_energy(unit: Fields, name: str, machine: PartFigures) -> None:
    before, problems = len(unit.problems), unit.problems
    own = read_component(unit, machine.estimator, machine.part(name, _ACTIONS, {}), ())
    if len(problems) == before and unit.readable:
        machine.take(name, own)
        machine.check(unit, name, [("*", "compute")])
