"""Values of files of other tools: of the kind that is expected, or refused at their place; formulas are worked out.

A formula such as `max(32, width) * 2 if depth >= 1 else 0`, or one of sets of tensors, is read, never run.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeVar

from accelsim.importers.documents import Map, Note, Seq, refuse
from accelsim.inputs.errors import AccelsimError, InputError, Mark, Problem
from accelsim.inputs.units import QuantityError, listed, near_miss, parse_size_bits, quoted
from accelsim.inputs.workload import ROLES
from accelsim.inputs.workload_reader import load_workload

T = TypeVar("T")
U = TypeVar("U")
L = TypeVar("L", Map, Seq)


def number(table: Map, key: str, default: float | None = None, names: Mapping[str, Value] | None = None) -> float | int:
    """Number under a key, or of the formula that stands there."""
    found = table.get(key)
    found = default if found is None else found
    if found is None:
        raise table.refuse(key, f"'{key}' is missing")
    return as_number(found, table.where(key), names)


def figure(table: Map, key: str, names: Mapping[str, Value] | None = None) -> float:
    """Number from 0 on, such as an energy."""
    found = number(table, key, None, names)
    if not 0 <= found < math.inf:
        raise table.refuse(key, f"{key}: expected a number from 0 on, got {found}")
    return float(found)


def as_number(found: Any, mark: Mark, names: Mapping[str, Value] | None = None) -> float | int:
    """Number as it is written, or of a formula."""
    if found is None:
        raise refuse(mark, "a number is missing")
    try:
        worked_out = work_out(found, names or {}) if isinstance(found, str) else found
    except FormulaError as error:
        raise refuse(mark, str(error)) from None
    if isinstance(worked_out, bool) or not isinstance(worked_out, int | float) or worked_out != worked_out:
        raise refuse(mark, f"expected a number, got {quoted(str(found))}")
    return worked_out


def whole(found: Any, mark: Mark, least: int = 1) -> int:
    """Whole number from `least` on."""
    given = as_number(found, mark)
    if not math.isfinite(given) or given != int(given) or given < least:
        raise refuse(mark, f"expected a whole number from {least} on, got {quoted(str(found))}")
    return int(given)


def size_bits(text: str, mark: Mark) -> int:
    """Size that is written with its unit, such as `128 KiB`."""
    try:
        return parse_size_bits(text)
    except QuantityError as error:
        raise refuse(mark, error.what, error.hint) from None


def folded(key: str) -> str:
    """A key without what spellings differ in: case, `-` and `_`."""
    return re.sub("[-_]", "", key).lower()


def respelt(table: Map, known: Iterable[str]) -> Map:
    """The map, with keys as known ones are spelt that differ from them in case, `-` and `_` alone."""
    given = set(known)
    spelt = {folded(name): name for name in given - table.keys()}
    names = {key: key if key in given else spelt.get(folded(key), key) for key in table}
    held, marks = ({names.get(key, key): one for key, one in of.items()} for of in (table, table.marks))
    return Map(table.mark, table.tag, held, marks)


def refuse_other(name: Any, known: Iterable[str], kind: str, place: str, mark: Mark) -> None:
    """Refuse a name that is none of those of a kind, such as `dimension`."""
    if name not in known:
        raise refuse(mark, f"{place}: {quoted(str(name))} is no {kind}; there are {listed(known)}")


def pj_text(energy_pj: float) -> str:
    """Energy as our files have it."""
    return f"{energy_pj:.12g} pJ"


def exact_pj(energy_pj: float) -> str:
    """Energy with all its digits."""
    return f"{plain_decimal(energy_pj)} pJ"


def plain_decimal(number: object) -> str:
    """A number without an exponent.

    >>> plain_decimal(2048.0), plain_decimal(7.972e-06)
    ('2048', '0.000007972')
    """
    return f"{Decimal(str(number)).normalize():f}"


def plain_name(text: str) -> str:
    """Name as our files have it: letters, digits and `_ . / + -`."""
    return re.sub(r"[^A-Za-z0-9_./+-]", "_", text) or "_"


def bare_level(name: str, word: str) -> dict[str, Any]:
    """Level that stores nothing: more axes of a fanout, or parts that words pass."""
    energy = {"leak": "0 pJ", "source": "stores nothing"}
    return {"name": name, "word": word, "class": "fanout", "bypass": [*ROLES], "energy": energy}


def storage_class(bits: float) -> str:
    """Component model of a memory on the chip, by its size."""
    return "SRAM" if bits >= 4096 else "regfile" if bits >= 128 else "register"


def without_loops(asked: list[dict[str, Any]], levels: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Constraints in the order of the levels; those that store nothing have no loops in time, which change nothing."""
    names = [level["name"] for level in levels]
    bare = {level["name"] for level in levels if len(level.get("bypass", ())) == len(ROLES)}
    found = [level | ({"temporal": {"only": []}} if level["level"] in bare else {}) for level in asked]
    found += [{"level": name, "temporal": {"only": []}} for name in sorted(bare - {level["level"] for level in asked})]
    return {"levels": sorted(found, key=lambda level: names.index(level["level"]))} if found else None


@lru_cache
def axis_products(bounds: tuple[tuple[int, tuple[int, ...]], ...], rooms: tuple[int, ...]) -> set[tuple[int, ...]]:
    """Instances that loops can use of each axis at once; each bound has the axes that its loops may lie on.

    >>> max(axis_products(((6, (0,)), (10, (0,))), (14,)))
    (12,)
    """
    reached = {(1,) * len(rooms)}
    for bound, axes in bounds:
        states = {(products, bound) for products in reached}
        for axis in axes:
            states = {
                ((*products[:axis], products[axis] * factor, *products[axis + 1 :]), left // factor)
                for products, left in states
                for factor in range(1, min(left, rooms[axis] // products[axis]) + 1)
                if left % factor == 0
            }
        reached = {products for products, _ in states}
    return reached


def read_all(read: Callable[[T], U], items: Iterable[T]) -> list[U]:
    """What is read of each item; refused with the mistakes of all, each once."""
    found, mistakes = list[U](), dict[tuple[Mark, str], Problem]()
    for item in items:
        try:
            found.append(read(item))
        except InputError as error:
            mistakes = {(problem.mark, problem.what): problem for problem in error.problems} | mistakes
    if mistakes:
        raise InputError([*mistakes.values()])
    return found


def note_others(table: Map, known: Iterable[str], why: Mapping[str, str], notes: list[Note]) -> None:
    """Note the keys of a map that nobody reads, and refuse misspelt ones; `why` says of some what they mean."""
    others, hints = sorted(table.keys() - set(known)), {*known, *why}
    near = {key: near_miss(key, hints, least=0.9) for key in others if key not in why}
    if wrong := [Problem(table.where(key), f"{key}: unknown key", hint) for key, hint in near.items() if hint]:
        raise InputError(wrong)
    unread = (key for key in others if not getattr(table[key], "anchored", False))  # by an anchor others have it
    notes += [table.note(key, why.get(key, "is not read")) for key in unread]


def checked_workload(body: dict[str, Any], mark: Mark, notes: list[Note]) -> dict[str, Any]:
    """Workload as our reader takes it: without its edges, which are noted, where shapes do not agree."""
    try:
        load_workload({"workload": body})
    except InputError as error:
        edges = [problem for problem in error.problems if ".from" in problem.what]
        others = [problem for problem in error.problems if problem not in edges]
        if others:
            raise InputError([replace(problem, mark=mark) for problem in others]) from None
        notes.append(Note(mark, "edges", f"what feeds a layer is left out: {edges[0].what}"))
        for layer in body["layers"]:
            layer.pop("from", None)
        return checked_workload(body, mark, notes)
    return body


def for_layers(each: Sequence[tuple[str, Sequence[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """What is asked of levels for each layer, by its name; layers of which the same is asked stand together."""
    found = dict[str, tuple[dict[str, Any], list[str]]]()
    for layer, levels in each:
        for asked in levels:
            found.setdefault(repr(asked), (asked, []))[1].append(layer)
    return [
        {"level": asked["level"], **({"layers": layers} if len(layers) < len(each) else {}), **asked}
        for asked, layers in found.values()
    ]


def file_stem(mark: Mark) -> str:
    """Name of a file without its folder and ending, as our files have names."""
    return plain_name(mark.file.rpartition("/")[2].rpartition(".")[0])


def only(documents: list[L], what: str) -> L | None:
    """The one map or list of a kind that the files hold, or None; several are refused."""
    if len(documents) > 1:
        raise refuse(documents[1].mark, f"a second {what}; the first stands in {documents[0].mark.file}")
    return documents[0] if documents else None


Value = float | int | str | bool | frozenset[str] | tuple[Any, ...] | Callable[..., Any] | None
_LONGEST, _LARGEST, _HIGHEST_EXPONENT, _MOST_ITEMS = 1000, 10**40, 128, 2**16
FILE_OF_VARIABLES = "name the file of its `variables` too"
"""What to do where a formula of Timeloop has a name without value."""
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.USub: operator.neg,
    ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": lambda *each: min(each), "max": lambda *each: max(each), "ceil": math.ceil, "floor": math.floor,
    "round": round, "log2": math.log2, "log10": math.log10, "log": math.log, "sqrt": math.sqrt, "abs": abs, "int": int,
    "float": float, "str": str,
}  # fmt: skip


class FormulaError(AccelsimError):
    """A formula that is none, names what is unknown, or does more than arithmetic."""


class UndefinedNameError(FormulaError):
    """A formula with a name that has no value."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        super().__init__(f"{quoted(name)}{'' if name == text.strip() else f' in {quoted(text)}'} has no value")


def work_out(text: str, names: Mapping[str, Value]) -> Value:
    """Value of a formula; raises FormulaError if it is anything else, divides by zero, or its value is too large.

    It has numbers, names, `+ - * / // % **`, comparisons, `and or not`, `a if b else c`, and calls of `min max ceil
    floor round log log2 log10 sqrt abs int float`; of sets `& | ^ - ~`, `{a, b}` and `len`, where `~` leaves the rest
    of `All`; of lists `[a, b]`, `+`, `* 3` and `[f for a in b]`. Names, which may have points (`spec.problem`), stand
    for the values given, and those that are functions may be called.

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
        case ast.Name() | ast.Attribute() | ast.Call(ast.Name(), [], []):  # a set may be written `input()` too
            name = ast.unparse(node)
            name = name if name in names else name.removesuffix("()").removesuffix(".tensors")
            if name not in names:
                raise UndefinedNameError(name, text)
            return names[name]
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            return _bounded(_OPERATORS[type(op)], of(left), of(right))
        case ast.UnaryOp(ast.Invert(), operand):
            return of(ast.Name("All")) - of(operand)
        case ast.UnaryOp(op, operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](of(operand))
        case ast.Compare(left, ops, comparators) if all(type(op) in _OPERATORS for op in ops):
            values = [of(left), *map(of, comparators)]
            return all(_OPERATORS[type(op)](a, b) for op, a, b in zip(ops, values, values[1:], strict=False))
        case ast.BoolOp(op, values):
            return (all if isinstance(op, ast.And) else any)(of(value) for value in values)
        case ast.IfExp(test, body, orelse):
            return of(body) if of(test) else of(orelse)
        case ast.Set(items):
            return frozenset[str]().union(*map(of, items))
        case ast.Call() if ast.unparse(node) in names:
            return names[ast.unparse(node)]
        case ast.Call(ast.Attribute(attr="get") as get, [ast.Constant(str() as name), default], []) if (
            ast.unparse(get).removeprefix("spec.") == "variables.get"
        ):
            return names[name] if name in names else of(default)
        case ast.Call(ast.Name("len"), [inside], []):
            return len(of(inside))
        case ast.Call(ast.Name(name), arguments, []) if name in _FUNCTIONS and name not in names:
            return _FUNCTIONS[name](*map(_number, map(of, arguments)))
        case ast.Call(ast.Name() | ast.IfExp() as called, arguments, keywords) if isinstance(
            called, ast.IfExp
        ) or callable(names.get(called.id)):
            return of(called)(*map(of, arguments), **{str(each.arg): of(each.value) for each in keywords})
        case ast.List(items) | ast.Tuple(items):
            return tuple(map(of, items))
        case ast.ListComp(each, [ast.comprehension(ast.Name(name), inside, [], 0)]) if not any(
            isinstance(part, ast.ListComp) for part in ast.walk(each)
        ):
            return tuple(_value(each, {**names, name: item}, text) for item in of(inside)[:_LONGEST])
    raise FormulaError(f"{quoted(text)} does more than arithmetic; it is not run")


def _number(value: Any) -> float | int:
    if not isinstance(value, int | float):
        raise TypeError(f"{quoted(str(value))} is no number")
    return value


def _bounded(calculate: Callable[..., Any], left: Any, right: Any) -> Any:
    """Result of an operation whose operands and result stay small."""
    if isinstance(left, frozenset) and isinstance(right, frozenset):
        return calculate(left, right)
    if calculate is operator.add and isinstance(left, str) and isinstance(right, str):
        return (left + right)[:_LONGEST]
    if isinstance(left, tuple) and calculate in (operator.add, operator.mul):
        if len(left) * (right if isinstance(right, int) else 1) > _MOST_ITEMS:
            raise ValueError(f"a list of more than {_MOST_ITEMS} items")
        return calculate(left, right)
    if calculate is operator.pow and abs(_number(right)) > _HIGHEST_EXPONENT:
        raise ValueError(f"an exponent above {_HIGHEST_EXPONENT}")
    value = calculate(_number(left), _number(right))
    if isinstance(value, complex) or abs(value) > _LARGEST:
        raise ValueError("the result is too large")
    return value
