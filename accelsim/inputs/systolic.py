"""Systolic arrays in an architecture: a fanout whose instances pass operands and partial sums to their neighbours."""

from __future__ import annotations

from dataclasses import dataclass

from accelsim.inputs import fields
from accelsim.inputs.fields import Fields, Key, Keys, keys_form, node_of
from accelsim.inputs.source import MapNode
from accelsim.inputs.workload import ROLES


@dataclass(frozen=True, slots=True)
class Systolic:
    """A fanout that is a systolic array of PEs, which are the next level; operands pass from neighbour to neighbour.

    Attributes
    ----------
    stationary : str
        Role of the tensor that the PEs hold in place.
    double_buffered : bool
        Each PE has a second register: the next tile enters while one is used.
    """

    stationary: str
    double_buffered: bool = False

    def shares(self, axis: str) -> tuple[bool, bool]:
        """Multicast and spatial reduction of an axis: what is forwarded along it.

        Along the rows (x) operands are. Down the columns (y) partial sums are, or operands where outputs stay.
        """
        down = axis == "y" and self.stationary != "Outputs"
        return not down, down


_KEYS: Keys = {
    "stationary": Key(fields.one_of(ROLES, "a role"), required=True),
    "double_buffered": Key(fields.boolean),
}
SYSTOLIC = Key(node_of(keys_form(_KEYS)))
"""The key `systolic` of a fanout."""


def read_systolic(level: Fields) -> Systolic | None:
    """Read the systolic array that the fanout may be."""
    fanout = level.get("fanout")
    node = fanout.entries.get("systolic") if isinstance(fanout, MapNode) else None
    if node is None or level.problems.unreadable(node):
        return None
    array = Fields(node, level.problems, _KEYS)
    role = array.value("stationary", "")
    return Systolic(role, array.value("double_buffered", False)) if role else None
