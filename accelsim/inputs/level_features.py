"""Compression of what a storage level holds: the share of the raw bits that is left, by role of the tensor.

Systolic arrays in an architecture: a fanout whose instances pass operands and partial sums to their neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from accelsim.inputs import fields, forms
from accelsim.inputs.fields import Fields, Key, Keys, formed, keys_form, node_of
from accelsim.inputs.source import MapNode, Node, Problems, ScalarNode, describe
from accelsim.inputs.workload import ROLES

_DIGITS = 4
"""After the point, at most: traffic is counted in whole multiples of the smallest unit, and 64 bits are to hold it."""


@formed(forms.fraction(0, 1))
def stored_share(node: Node, problems: Problems) -> Fraction | None:
    """Read a share above 0, at most 1, of at most four digits after the point."""
    text = node.text if isinstance(node, ScalarNode) else ""
    number = re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,12})?|\.[0-9]{1,12}", text)
    value = Fraction(text) if number else Fraction(0)
    expected = "expected a share of the raw bits above 0, at most 1, "
    if value > 1:
        hint = f"a ratio of {text} : 1 is written {_rounded(1 / value)}"
        problems.add(node, f"{expected}got {describe(node)}", hint)
        return None
    if value == 0:
        problems.add(node, f"{expected}got {describe(node)}", "such as 0.6, or 1 for none")
        return None
    if (value * 10**_DIGITS).denominator > 1:
        what = f"{describe(node)} has more than {_DIGITS} digits after the point"
        problems.add(node, what, f"write {_rounded(value)}")
        return None
    return value


def _rounded(value: Fraction) -> str:
    """As many digits as can be read, at least the smallest share."""
    return f"{max(float(value), 10.0**-_DIGITS):.{_DIGITS}f}".rstrip("0")


_KEYS: Keys = dict.fromkeys(ROLES, Key(stored_share))
COMPRESSION = Key(node_of(keys_form(_KEYS)))
"""The key `compression` of a level."""


def read_compression(level: Fields, bypass: Iterable[str]) -> dict[str, Fraction]:
    """Read the compression of a level; roles that are stored as they are, with a share of 1, are left out."""
    node = level.get("compression")
    if node is None or level.problems.unreadable(node):
        return {}
    shares = Fields(node, level.problems, _KEYS)
    for role in sorted(set(bypass) & set(shares.entries)):
        level.problems.add(shares.entries[role], f"{role} is never stored here", "take it out, or out of `bypass`")
    given: dict[str, Fraction] = {role: shares.value(role, Fraction(1)) for role in ROLES}
    return {role: share for role, share in given.items() if share != 1}


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


_ARRAY_KEYS: Keys = {
    "stationary": Key(fields.one_of(ROLES, "a role"), required=True),
    "double_buffered": Key(fields.boolean),
}
SYSTOLIC = Key(node_of(keys_form(_ARRAY_KEYS)))
"""The key `systolic` of a fanout."""


def read_systolic(level: Fields) -> Systolic | None:
    """Read the systolic array that the fanout may be."""
    fanout = level.get("fanout")
    node = fanout.entries.get("systolic") if isinstance(fanout, MapNode) else None
    if node is None or level.problems.unreadable(node):
        return None
    array = Fields(node, level.problems, _ARRAY_KEYS)
    role = array.value("stationary", "")
    return Systolic(role, array.value("double_buffered", False)) if role else None
