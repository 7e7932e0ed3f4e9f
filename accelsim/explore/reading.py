"""What stands in a sweep file beside files and parameters: conditions, formulas, budgets, numbers, dimensions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from accelsim.explore import expression
from accelsim.explore.expression import POWER_UNITS, Expression, ExpressionError, Value
from accelsim.inputs import forms
from accelsim.inputs.fields import Fields, Key, Keys, node_of
from accelsim.inputs.source import ListNode, MapNode, Node, Problems, ScalarNode, describe
from accelsim.inputs.units import AREA_UNITS, quoted

BUDGETS: Keys = {
    "area": Key(node_of(forms.quantity(AREA_UNITS))),
    "power": Key(node_of(forms.quantity(POWER_UNITS))),
}


def read_texts(node: Node | None, problems: Problems) -> dict[str, str]:
    """Parameters with one value each."""
    if node is None or problems.unreadable(node):
        return {}
    if not isinstance(node, MapNode):
        problems.add(node, f"expected parameters with a value each, got {describe(node)}")
        return {}
    found: dict[str, str] = {}
    for name, entry in node.entries.items():
        if isinstance(entry, ScalarNode) and not entry.empty:
            found[name] = entry.text.strip()
        elif not problems.unreadable(entry):
            problems.add(entry, f"expected one value, got {describe(entry)}")
    return found


def read_conditions(node: Node | None, kinds: Mapping[str, str], problems: Problems) -> list[Expression]:
    """Read the conditions of a sweep; those with a mistake, which is reported, are left out."""
    if node is None or problems.unreadable(node):
        return []
    if not isinstance(node, ListNode):
        problems.add(node, f"expected a list of conditions, got {describe(node)}")
        return []
    return [found for item in node.items if (found := read_expression(item, kinds, problems)) is not None]


def read_expression(
    node: Node | None, kinds: Mapping[str, str], problems: Problems, *, area: bool = False
) -> Expression | None:
    """Read a condition, or a formula of an area."""
    if node is None or problems.unreadable(node):
        return None
    if not isinstance(node, ScalarNode) or node.empty:
        problems.add(node, f"expected {'a formula' if area else 'a condition'}, got {describe(node)}")
        return None
    try:
        found = expression.parse(node.text, kinds) if area else expression.condition(node.text, kinds)
        if area and found.kind not in ("area", expression.MIXED):
            what = f"{quoted(node.text)} is {expression.named(found.kind)}, not an area"
            raise ExpressionError(what, 0, "such as pe.x * 0.02 mm2")
    except ExpressionError as error:
        mark = type(node.mark)(node.mark.file, node.mark.line, node.mark.column + error.at)
        problems.add(mark, f"{node.path}: {error.what}", error.hint)
        return None
    return found


def refuse_no_area(area: Expression, node: Node, first: Mapping[str, Value], problems: Problems) -> None:
    """Report a formula of the area that fails for the first values of all parameters."""
    try:
        value = area.value(first)
    except ExpressionError as error:
        problems.add(node, error.what)
        return
    if isinstance(value, Fraction) and value <= 0:
        problems.add(node, "the area of the first design is not above 0")


def read_budgets(node: Node | None, problems: Problems) -> tuple[float, float]:
    """Largest area [um2] and power [W]."""
    if node is None or problems.unreadable(node):
        return math.inf, math.inf
    budgets = Fields(node, problems, BUDGETS)
    found = []
    for key, example in (("area", "5 mm2"), ("power", "300 mW")):
        entry, value = budgets.get(key), math.inf
        if entry is not None and not problems.unreadable(entry):
            number, kind = expression.quantity(entry.text) if isinstance(entry, ScalarNode) else ("", "")
            if kind != key or not isinstance(number, Fraction) or number <= 0:
                what = "an area" if key == "area" else "a power"
                problems.add(entry, f"expected {what} above 0, got {describe(entry)}", f"write it like '{example}'")
            else:
                value = float(number)
        found.append(value)
    return found[0], found[1]


def read_dims(node: Node | None, problems: Problems) -> str | tuple[str, ...]:
    """Dimensions in a list, or `all`."""
    if isinstance(node, ScalarNode) and node.text == "all":
        return "all"
    if node is None or problems.unreadable(node):
        return ()
    if isinstance(node, ListNode) and all(isinstance(item, ScalarNode) for item in node.items):
        return tuple(item.text for item in node.items if isinstance(item, ScalarNode))
    problems.add(node, f"expected a list of dimensions, or all, got {describe(node)}")
    return ()


def read_number(node: Node | None, problems: Problems) -> float | None:
    """A number above 0, or None where none is given."""
    if node is None or problems.unreadable(node):
        return None
    number, kind = expression.quantity(node.text) if isinstance(node, ScalarNode) else ("", "")
    if kind != expression.NUMBER or not isinstance(number, Fraction) or number <= 0:
        problems.add(node, f"expected a number above 0, got {describe(node)}")
        return None
    return float(number)


def entries_of(node: Node | None) -> Mapping[str, Node]:
    """Entries of a mapping; none where it is something else."""
    return node.entries if isinstance(node, MapNode) else {}
