"""Conditions and formulas of parameters: numbers with units, arithmetic, comparison, `and`, `or`, `not`.

A value is an exact number in the base unit of its kind (bits, Hz, pJ, um2, W, bits or words a second or cycle), a text,
or a truth value. Numbers of different kinds are neither compared nor added; that is found when the text is read.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from accelsim.inputs.errors import HintedError
from accelsim.inputs.units import (
    AREA_UNITS,
    ENERGY_UNITS,
    FREQUENCY_UNITS,
    LARGEST,
    NUMBER_PATTERN,
    SIZE_UNITS,
    listed,
    near_miss,
    quoted,
)

Value = Fraction | str | bool
POWER_UNITS = {"uW": Fraction(1, 10**6), "mW": Fraction(1, 1000), "W": Fraction(1)}
NUMBER, TEXT, TRUTH, MIXED = "number", "text", "condition", "product"
_UNITS: dict[str, tuple[str, Fraction]] = {
    **{unit: ("size", Fraction(bits)) for unit, bits in SIZE_UNITS.items()},
    **{
        f"{unit}/{time}": (f"rate per {time}", Fraction(b)) for time in ("s", "cycle") for unit, b in SIZE_UNITS.items()
    },
    **{f"{word}/cycle": ("rate in words", Fraction(1)) for word in ("word", "words")},
    **{unit: ("frequency", Fraction(hz)) for unit, hz in FREQUENCY_UNITS.items()},
    **{unit: ("energy", Fraction(pj)) for unit, pj in ENERGY_UNITS.items()},
    **{f"{unit}/bit": ("energy per bit", Fraction(pj)) for unit, pj in ENERGY_UNITS.items()},
    **{unit: ("area", Fraction(um2)) for unit, um2 in AREA_UNITS.items()},
    **{unit: ("power", Fraction(watts)) for unit, watts in POWER_UNITS.items()},
}
_UNIT = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))
_QUANTITY = re.compile(rf"\s*([+-]?{NUMBER_PATTERN})\s*({_UNIT})?\s*")
_TOKEN = re.compile(
    rf"\s*(?:(?P<number>{NUMBER_PATTERN})(?:\s*(?P<unit>{_UNIT})(?![A-Za-z0-9_]))?(?![A-Za-z0-9_.])"
    r"|\$?(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:[.:][A-Za-z0-9_]+)*)|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<sign>//|==|!=|<=|>=|[-+*/%()<>]))"
)
_COMPARE = ("==", "!=", "<", "<=", ">", ">=")
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": lambda a, b: Fraction(a // b), "%": operator.mod,
}  # fmt: skip
_DEEPEST = 40


class ExpressionError(HintedError):
    """An expression that cannot be read or worked out, and at which letter (from 0)."""

    def __init__(self, what: str, at: int = 0, hint: str = "") -> None:
        self.at = at
        super().__init__(what, hint)


def named(kind: str) -> str:
    """Kind of a value with its article.

    >>> named("area"), named("rate per s")
    ('an area', 'a rate per s')
    """
    return f"{'an' if kind[0] in 'ae' else 'a'} {kind}"


def quantity(text: str) -> tuple[Value, str]:
    """Value of a parameter as it is written, and its kind.

    >>> quantity("128 KiB"), quantity("14"), quantity("cmos_22nm")
    ((Fraction(1048576, 1), 'size'), (Fraction(14, 1), 'number'), ('cmos_22nm', 'text'))
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return text.strip(), TEXT
    kind, scale = _UNITS[match[2]] if match[2] else (NUMBER, Fraction(1))
    return Fraction(match[1]) * scale, kind


def unit_of(text: str) -> str:
    """Unit of a quantity as it is written; empty without one."""
    match = _QUANTITY.fullmatch(text)
    return (match[2] if match else None) or ""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was read: its text, what it yields (a kind), and the names in it."""

    text: str
    kind: str
    names: frozenset[str]
    tree: tuple[Any, ...]

    def value(self, values: Mapping[str, Value]) -> Value:
        """Work the expression out for some values; raises ExpressionError if it divides by zero, or passes 2**62."""
        found: Value = _worked_out(self.tree, values)
        return found

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Whether a condition is true."""
        return bool(self.value(values))


def parse(text: str, kinds: Mapping[str, str]) -> Expression:
    """Read an expression of named values; raises ExpressionError where it is none.

    `kinds` has the names that may stand in it, and the kind of each.

    >>> parse("4 <= pe.x and glb / 2 < 64 KiB", {"pe.x": "number", "glb": "size"}).holds(
    ...     {"pe.x": Fraction(8), "glb": Fraction(2**18)}
    ... )
    True
    """
    reader = _TokenReader(text, kinds)
    tree, kind = reader.either(0)
    if reader.tokens[reader.at][0] != "end":
        raise reader.wrong(f"{quoted(reader.tokens[reader.at][1])} is not expected there")
    return Expression(text, kind, frozenset(reader.used), tree)


def condition(text: str, kinds: Mapping[str, str]) -> Expression:
    """Read an expression that is true or false; as `parse` otherwise."""
    found = parse(text, kinds)
    if found.kind != TRUTH:
        what = f"{quoted(text)} is {named(found.kind)}, not a condition"
        raise ExpressionError(what, 0, "compare it, such as a <= 4")
    return found


class _TokenReader:
    """Reads tokens from left to right; each method returns a tree and its kind."""

    def __init__(self, text: str, kinds: Mapping[str, str]) -> None:
        self.text, self.kinds = text, kinds
        self.used: set[str] = set()
        self.tokens: list[tuple[str, str, str, int]] = []
        self.at = 0
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                hint = "write numbers with units, names, + - * / // % ( ), comparisons, and, or, not"
                at = position + len(text[position:]) - len(text[position:].lstrip())
                raise ExpressionError(f"cannot read {quoted(text[at:end])}", at, hint)
            kind = next(name for name in ("number", "name", "text", "sign") if match[name] is not None)
            word, start = match[kind], match.start(kind)
            kind = "sign" if word in ("and", "or", "not") else kind
            self.tokens.append((kind, word, match["unit"] or "", start))
            position = match.end()
        self.tokens.append(("end", "", "", end))

    def sign(self, *signs: str) -> str:
        """Step over one of the signs and return it, or return nothing."""
        kind, word, _, _ = self.tokens[self.at]
        if kind != "sign" or word not in signs:
            return ""
        self.at += 1
        return word

    def wrong(self, what: str, hint: str = "", back: int = 0) -> ExpressionError:
        """Mistake at the present token, or at one before."""
        return ExpressionError(what, self.tokens[max(0, self.at - back)][3], hint)

    def either(self, depth: int) -> tuple[tuple[Any, ...], str]:
        if depth > _DEEPEST:
            raise self.wrong("too many parentheses")
        return self._joined("or", lambda: self._joined("and", lambda: self._negated(depth)))

    def _joined(self, word: str, part: Callable[[], tuple[tuple[Any, ...], str]]) -> tuple[tuple[Any, ...], str]:
        parts = [part()]
        while self.sign(word):
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        if any(kind != TRUTH for _, kind in parts):
            raise self.wrong(f"'{word}' joins conditions, and one side is none", "compare it, such as a <= 4", 1)
        return (word, *(tree for tree, _ in parts)), TRUTH

    def _negated(self, depth: int) -> tuple[tuple[Any, ...], str]:
        if not self.sign("not"):
            return self._comparison(depth)
        if depth > _DEEPEST:
            raise self.wrong("too many times 'not'")
        tree, kind = self._negated(depth + 1)
        if kind != TRUTH:
            raise self.wrong("'not' needs a condition", "compare it, such as not a <= 4", 1)
        return ("not", tree), TRUTH

    def _comparison(self, depth: int) -> tuple[tuple[Any, ...], str]:
        parts, signs = [self._sum(depth)], []
        while sign := self.sign(*_COMPARE):
            signs.append(sign)
            parts.append(self._sum(depth))
            self._same(parts[-2][1], parts[-1][1], "compares")
            if TEXT in (parts[-1][1], parts[-2][1]) and sign not in ("==", "!="):
                raise self.wrong("texts have no order", "compare them with == or !=", 1)
        if not signs:
            return parts[0]
        return ("compare", tuple(signs), *(tree for tree, _ in parts)), TRUTH

    def _same(self, left: str, right: str, what: str) -> None:
        if left == right or (MIXED in (left, right) and not {TEXT, TRUTH} & {left, right}):
            return
        numbers = {NUMBER, *(kind for kind, _ in _UNITS.values())}
        hint = "write a number with its unit" if {left, right} <= numbers and NUMBER in (left, right) else ""
        raise self.wrong(f"{quoted(self.text)} {what} {named(left)} with {named(right)}", hint, 1)

    def _sum(self, depth: int) -> tuple[tuple[Any, ...], str]:
        tree, kind = self._product(depth)
        while sign := self.sign("+", "-"):
            right, other = self._product(depth)
            self._same(kind, other, "adds")
            if kind in (TEXT, TRUTH):
                raise self.wrong(f"a {kind} cannot be added", "", 1)
            tree, kind = (sign, tree, right), MIXED if MIXED in (kind, other) else kind
        return tree, kind

    def _product(self, depth: int) -> tuple[tuple[Any, ...], str]:
        tree, kind = self._atom(depth)
        while sign := self.sign("*", "/", "//", "%"):
            right, other = self._atom(depth)
            if {kind, other} & {TEXT, TRUTH}:
                raise self.wrong(f"a {kind if kind in (TEXT, TRUTH) else other} is no number", "", 1)
            if sign == "%":
                self._same(kind, other, "divides")
            elif other != NUMBER:
                kind = other if kind == NUMBER and sign == "*" else NUMBER if kind == other and sign != "*" else MIXED
            tree = (sign, tree, right)
        return tree, kind

    def _atom(self, depth: int) -> tuple[tuple[Any, ...], str]:
        kind, word, unit, _ = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            of, scale = _UNITS[unit] if unit else (NUMBER, Fraction(1))
            return ("value", Fraction(word) * scale), of
        if kind == "text":
            return ("value", word[1:-1]), TEXT
        if word in ("true", "false"):
            return ("value", word == "true"), TRUTH
        if kind == "name":
            if word not in self.kinds:
                hint = near_miss(word, self.kinds) or (f"names: {listed(list(self.kinds)[:20])}" if self.kinds else "")
                raise self.wrong(f"{quoted(word)} is unknown", hint, 1)
            self.used.add(word)
            return ("name", word), self.kinds[word]
        if kind == "sign" and word == "(":
            found = self.either(depth + 1)
            if not self.sign(")"):
                raise self.wrong("a ) is missing")
            return found
        if kind == "sign" and word == "-" and depth <= _DEEPEST:
            tree, of = self._atom(depth + 1)
            if of in (TEXT, TRUTH):
                raise self.wrong(f"a {of} is no number", "", 1)
            return ("-", ("value", Fraction(0)), tree), of
        self.at -= 1
        raise self.wrong("a value is missing" if kind == "end" else f"{quoted(word)} is not expected there")


def _worked_out(tree: tuple[Any, ...], values: Mapping[str, Value]) -> Any:
    what, *parts = tree
    if what == "value":
        return parts[0]
    if what == "name":
        return values[parts[0]]
    if what == "not":
        return not _worked_out(parts[0], values)
    if what in ("and", "or"):
        return (all if what == "and" else any)(_worked_out(part, values) for part in parts)
    if what == "compare":
        found = [_worked_out(part, values) for part in parts[1:]]
        return all(_OPERATORS[sign](a, b) for sign, a, b in zip(parts[0], found, found[1:], strict=False))
    left, right = _worked_out(parts[0], values), _worked_out(parts[1], values)
    if what in ("/", "//", "%") and right == 0:
        raise ExpressionError("divides by zero")
    done = _OPERATORS[what](left, right)
    if max(abs(done.numerator), done.denominator) >= LARGEST**4:
        raise ExpressionError("the result is too large")
    return done
