"""Values of a parameter: a list, or a range with a step or a factor."""

from __future__ import annotations

import re
from fractions import Fraction

from accelsim.explore import expression
from accelsim.inputs import forms
from accelsim.inputs.fields import Fields
from accelsim.inputs.forms import Form
from accelsim.inputs.source import ListNode, MapNode, Node, Problems, ScalarNode, describe
from accelsim.inputs.units import quoted

_RANGE = ("from", "to", "step", "factor")
VALUES_FORM: Form = forms.either(
    forms.sequence(forms.text(), least=1), forms.mapping(dict.fromkeys(_RANGE, forms.text()), ["from", "to"])
)
MOST = 100_000
"""Values of one parameter at most."""


def read_values(node: Node, problems: Problems) -> list[str]:
    """Values as they are written; none where there is a mistake, which is reported."""
    if problems.unreadable(node):
        return []
    if isinstance(node, ListNode) and node.items:
        found: list[str] = []
        for item in node.items:
            if isinstance(item, ListNode) and all(isinstance(part, ScalarNode) for part in item.items):
                text = f"[{', '.join(part.text for part in item.items if isinstance(part, ScalarNode))}]"
            elif isinstance(item, ScalarNode) and not item.empty:
                text = " ".join(item.text.split())
            else:
                problems.add(item, f"expected a value, got {describe(item)}")
                continue
            if text in found:
                problems.add(item, f"{quoted(text)} is listed twice")
            found.append(text)
        return found
    if isinstance(node, MapNode):
        return _range(Fields(node, problems, _RANGE))
    problems.add(
        node, f"expected a list of values, or a range, got {describe(node)}", "such as {from: 1, to: 8, step: 1}"
    )
    return []


def _range(given: Fields) -> list[str]:
    problems, before = given.problems, len(given.problems)
    ends = [_number(given, key) for key in ("from", "to")]
    by = [key for key in ("step", "factor") if key in given]
    if len(by) != 1:
        problems.add(given.node, "a range has a 'step' or a 'factor'", "such as {from: 1, to: 8, factor: 2}")
        return []
    move = _number(given, by[0])
    if ends[0] is None or ends[1] is None or move is None or len(problems) > before:
        return []
    (low, kind, unit), (high, high_kind, _), (width, width_kind, _) = ends[0], ends[1], move
    if by[0] == "step" and width_kind != kind:
        problems.add(
            given.entries["step"], f"is {expression.named(width_kind)}, and 'from' is {expression.named(kind)}"
        )
    if by[0] == "factor" and (width_kind != expression.NUMBER or width <= 1):
        problems.add(given.entries["factor"], "is no number above 1")
    if by[0] == "step" and width <= 0:
        problems.add(given.entries["step"], "is not above 0")
    if by[0] == "factor" and low <= 0:
        problems.add(given.entries["from"], "is not above 0, and a factor leads nowhere")
    if kind != high_kind:
        problems.add(given.entries["to"], f"is {expression.named(high_kind)}, and 'from' is {expression.named(kind)}")
    elif high < low:
        problems.add(given.entries["to"], "is less than 'from'")
    if len(problems) > before:
        return []
    scale = low / _plain(given.entries["from"]) if low else Fraction(1)
    found: list[str] = []
    value = low
    while value <= high:
        text = _decimal(value / scale)
        if text is None or len(found) >= MOST:
            what = f"has more than {MOST} values" if text else "leads to a value with endlessly many digits"
            problems.add(given.entries[by[0]], what, "list the values")
            return []
        found.append(f"{text} {unit}".strip())
        value = value + width if by[0] == "step" else value * width
    return found


def _number(given: Fields, key: str) -> tuple[Fraction, str, str] | None:
    """Value of an entry in its base unit, its kind, and the unit as written."""
    node = given.get(key)
    if node is None:
        given.problems.add(given.node, f"'{key}' is missing")
        return None
    if given.problems.unreadable(node):
        return None
    value, kind = expression.quantity(node.text) if isinstance(node, ScalarNode) else ("", expression.TEXT)
    if not isinstance(value, Fraction):
        given.problems.add(node, f"expected a number, with its unit, got {describe(node)}", "such as 4, or 32 KiB")
        return None
    unit = re.sub(r"^[-+0-9.eE\s]+?(?=[A-Za-z]|$)", "", node.text.strip()) if isinstance(node, ScalarNode) else ""
    return value, kind, unit


def _plain(node: Node) -> Fraction:
    """Number at a node without its unit."""
    text = node.text.strip() if isinstance(node, ScalarNode) else "1"
    match = re.match(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", text)
    return Fraction(match[0]) if match else Fraction(1)


def _decimal(value: Fraction) -> str | None:
    """Write a number exactly, or return None where its digits do not end.

    Examples
    --------
    >>> _decimal(Fraction(1, 8)), _decimal(Fraction(12)), _decimal(Fraction(1, 3))
    ('0.125', '12', None)
    """
    for digits in range(19):
        if (value * 10**digits).denominator == 1:
            whole = str(abs(int(value * 10**digits))).rjust(digits + 1, "0")
            sign = "-" if value < 0 else ""
            return sign + (f"{whole[:-digits]}.{whole[-digits:]}" if digits else whole)
    return None
