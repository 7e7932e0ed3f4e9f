"""Compression of what a storage level holds: the share of the raw bits that is left, by role of the tensor."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction

from accelsim.inputs import forms
from accelsim.inputs.fields import Fields, Key, Keys, formed, keys_form, node_of
from accelsim.inputs.source import Node, Problems, ScalarNode, describe
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
