"""What stands in a sweep file beside files and parameters: conditions, formulas, budgets, numbers, dimensions.

Values of a parameter: a list, or a range with a step or a factor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from accelsim.inputs import expression, fields, forms
from accelsim.inputs.expression import POWER_UNITS, Expression, ExpressionError, Value
from accelsim.inputs.fields import Fields, Formed, Key, Keys, formed
from accelsim.inputs.forms import Form
from accelsim.inputs.source import ListNode, MapNode, Node, Problems, ScalarNode, describe
from accelsim.inputs.units import AREA_UNITS, quoted


@formed(forms.text())
def _one_value(node: Node, problems: Problems) -> str | None:
    if isinstance(node, ScalarNode) and not node.empty:
        return node.text.strip()
    problems.add(node, f"expected one value, got {describe(node)}")
    return None


SETTINGS = fields.mapping_of(_one_value)
"""Reader of parameters with one value each."""


def _most(kind: str, example: str, known: Iterable[str]) -> Formed[float]:
    """Reader of a budget, such as an area, in its base unit."""

    @formed(forms.quantity(known))
    def read(node: Node, problems: Problems) -> float | None:
        value, found = expression.quantity(node.text) if isinstance(node, ScalarNode) else ("", "")
        if found == kind and isinstance(value, Fraction) and value > 0:
            return float(value)
        what = f"expected {expression.named(kind)} above 0, got {describe(node)}"
        problems.add(node, what, f"write it like '{example}'")
        return None

    return read


BUDGETS: Keys = {
    "area": Key(_most("area", "5 mm2", AREA_UNITS)),
    "power": Key(_most("power", "300 mW", POWER_UNITS)),
}


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


@formed(forms.either(forms.text(), forms.sequence(forms.text())))
def dims(node: Node, problems: Problems) -> str | tuple[str, ...] | None:
    """Read dimensions in a list, or `all`."""
    if isinstance(node, ScalarNode) and node.text == "all":
        return "all"
    if isinstance(node, ListNode) and all(isinstance(item, ScalarNode) for item in node.items):
        return tuple(item.text for item in node.items if isinstance(item, ScalarNode))
    problems.add(node, f"expected a list of dimensions, or all, got {describe(node)}")
    return None


@formed(forms.fraction(0, 1e9))
def positive(node: Node, problems: Problems) -> float | None:
    """Read a number above 0."""
    value, kind = expression.quantity(node.text) if isinstance(node, ScalarNode) else ("", "")
    if kind == expression.NUMBER and isinstance(value, Fraction) and value > 0:
        return float(value)
    problems.add(node, f"expected a number above 0, got {describe(node)}")
    return None


def entries_of(node: Node | None) -> Mapping[str, Node]:
    """Entries of a mapping; none where it is something else."""
    return node.entries if isinstance(node, MapNode) else {}


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
    scale, _ = expression.quantity(f"1 {unit}")
    assert isinstance(scale, Fraction)  # 1 of a unit is a number
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
    text = node.text if isinstance(node, ScalarNode) else ""
    value, kind = expression.quantity(text)
    if not isinstance(value, Fraction):
        given.problems.add(node, f"expected a number, with its unit, got {describe(node)}", "such as 4, or 32 KiB")
        return None
    return value, kind, expression.unit_of(text)


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
