"""Arithmetic in files of other tools, such as `max(32, width) * 2 if depth >= 1 else 0`; worked out, never run."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import quoted

Value = float | int | str | bool | None
_LONGEST, _LARGEST, _HIGHEST_EXPONENT = 1000, 10**40, 128
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.USub: operator.neg,
    ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min, "max": max, "ceil": math.ceil, "floor": math.floor, "round": round, "log2": math.log2,
    "log10": math.log10, "log": math.log, "sqrt": math.sqrt, "abs": abs, "int": int, "float": float,
}  # fmt: skip


class FormulaError(AccelsimError):
    """A formula that is none, names what is unknown, or does more than arithmetic."""


def work_out(text: str, names: Mapping[str, Value]) -> Value:
    """Value of a formula.

    Parameters
    ----------
    text : str
        Numbers, names, `+ - * / // % **`, comparisons, `and or not`, `a if b else c`, and calls of `min max ceil floor
        round log log2 log10 sqrt abs int float`.
    names : mapping of str to value
        What the names stand for; a name may have points (`spec.problem`).

    Raises
    ------
    FormulaError
        If it is anything else, divides by zero, or its value is too large.

    Examples
    --------
    >>> work_out("max(32, width) * 2 ** 3", {"width": 16})
    256
    """
    try:
        tree = ast.parse(text.strip()[: _LONGEST + 1], mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise FormulaError(f"{quoted(text)} is no formula") from None
    if len(text) > _LONGEST:
        raise FormulaError(f"{quoted(text[:40])} is too long for a formula")
    try:
        value: Value = _value(tree, names, text)
        return value
    except (ArithmeticError, ValueError, TypeError, RecursionError) as error:
        raise FormulaError(f"{quoted(text)} cannot be worked out: {error}") from None


def _value(node: ast.expr, names: Mapping[str, Value], text: str) -> Any:
    def of(part: ast.expr) -> Any:
        return _value(part, names, text)

    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return value
        case ast.Name() | ast.Attribute():
            name = ast.unparse(node)
            if name not in names:
                raise FormulaError(f"{quoted(name)} in {quoted(text)} has no value")
            return names[name]
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            return _bounded(_OPERATORS[type(op)], _number(of(left)), _number(of(right)))
        case ast.UnaryOp(op, operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](of(operand))
        case ast.Compare(left, ops, comparators) if all(type(op) in _OPERATORS for op in ops):
            values = [of(left), *map(of, comparators)]
            return all(_OPERATORS[type(op)](a, b) for op, a, b in zip(ops, values, values[1:], strict=False))
        case ast.BoolOp(op, values):
            return (all if isinstance(op, ast.And) else any)(of(value) for value in values)
        case ast.IfExp(test, body, orelse):
            return of(body) if of(test) else of(orelse)
        case ast.Call(ast.Name(name), arguments, []) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*map(_number, map(of, arguments)))
    raise FormulaError(f"{quoted(text)} does more than arithmetic; it is not run")


def _number(value: Any) -> float | int:
    if not isinstance(value, int | float):
        raise TypeError(f"{quoted(str(value))} is no number")
    return value


def _bounded(calculate: Callable[..., Any], left: float | int, right: float | int) -> Any:
    """Result of an operation whose operands and result stay small."""
    if calculate is operator.pow and abs(right) > _HIGHEST_EXPONENT:
        raise ValueError(f"an exponent above {_HIGHEST_EXPONENT}")
    value = calculate(left, right)
    if isinstance(value, complex) or abs(value) > _LARGEST:
        raise ValueError("the result is too large")
    return value
