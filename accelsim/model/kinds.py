"""Kinds of the values that kernels compute with: their words in LLVM, and the kind that holds values of two others."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from accelsim.model.passing import ArgumentType

INT, UINT, FLOAT, BOOL, NONE = ("int",), ("uint",), ("float",), ("bool",), ("none",)
VALUES = "values"
"""("values", kinds): what Python calls a tuple, of numbers, arrays or tables."""
SEVERAL: ArgumentType = ("several",)
"""Of a name to which things are assigned that no kind holds all."""
SCALARS = {"int": "i64", "uint": "i64", "float": "double", "bool": "i1"}
ITEMS: dict[str, tuple[ArgumentType, str]] = {
    **dict.fromkeys("lq", (INT, "i64")),
    **dict.fromkeys("LQ", (UINT, "i64")),
    **{"b": (INT, "i8"), "h": (INT, "i16"), "i": (INT, "i32"), "d": (FLOAT, "double"), "?": (BOOL, "i8")},
}
"""Kind of an array's elements and their type in memory, by NumPy's character."""


class KernelError(TypeError):
    """Something that kernels do not do."""


class Computed(NamedTuple):
    """What an expression is.

    An array is the address of its elements and its bounds, after them the steps of its axes in elements if it is not in
    C order. A table is its address. A word may stand in a table, and is then read when it is first needed.
    """

    kind: ArgumentType
    """What a compiled function must know of the value."""
    parts: tuple[Any, ...]
    """Words that the value consists of."""


class Word(NamedTuple):
    """A word of a table that is not read yet."""

    table: str
    """Name of the table's address in the text."""
    at: int
    """Place of the word in the table."""
    type: str
    """LLVM's type of the word."""


def types_of(kind: ArgumentType) -> tuple[str, ...]:
    """LLVM's types of the words of a value."""
    if kind[0] == "array":
        return ("ptr", *["i64"] * (kind[2] if kind[3] else 2 * kind[2]))
    if kind[0] == "tuple":
        return ("ptr",)
    if kind[0] == VALUES:
        return tuple(each for of in kind[1] for each in types_of(of))
    return () if kind == NONE else (SCALARS[kind[0]],)


def passed_as(type_: str) -> str:
    """A type as that of a parameter."""
    return "i1 zeroext" if type_ == "i1" else type_


def returned_as(result: ArgumentType) -> str:
    """A kind as that of a result; several values are written to an address instead."""
    if result == NONE or result[0] == VALUES:
        return "void"
    return "zeroext i1" if result == BOOL else SCALARS[result[0]]


@cache
def members_of(table: ArgumentType) -> dict[str, tuple[ArgumentType, int]]:
    """Kind and place of each field of a named tuple in its table; see `machine_code`."""
    found, at = {}, 0
    for name, kind in zip(table[1]._fields, table[2], strict=True):
        found[name] = kind, at
        at += 1 + (kind[2] if kind[0] == "array" else 0)
    return found


def joined(a: ArgumentType, b: ArgumentType) -> ArgumentType:
    """The kind that holds values of two kinds.

    Raises
    ------
    KernelError
        If there is none.
    """
    if a == b:
        return a
    if a[0] == b[0] == "array" and a[1:3] == b[1:3]:
        return (*a[:3], False)
    if a[0] == b[0] == VALUES and len(a[1]) == len(b[1]):
        return VALUES, tuple(joined(*pair) for pair in zip(a[1], b[1], strict=True))
    order = (BOOL, INT, FLOAT)
    if a in order and b in order:
        return order[max(order.index(a), order.index(b))]
    raise KernelError(f"nothing is both {shown(a)} and {shown(b)}")


def joined_if_any(a: ArgumentType, b: ArgumentType) -> ArgumentType:
    """The kind that holds values of two kinds; SEVERAL where there is none."""
    try:
        return joined(a, b)
    except KernelError:
        return SEVERAL


def together(values: Iterable[Computed]) -> Computed:
    """Values as a tuple."""
    every = list(values)
    return Computed((VALUES, tuple(each.kind for each in every)), tuple(part for each in every for part in each.parts))


def items_of(values: Computed) -> list[Computed]:
    """Values of a tuple."""
    found, at = [], 0
    for kind in values.kind[1]:
        many = len(types_of(kind))
        found.append(Computed(kind, values.parts[at : at + many]))
        at += many
    return found


def float_word(value: float) -> str:
    """A float as LLVM reads all of its bits."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def shown(kind: ArgumentType) -> str:
    """A kind in words."""
    if kind[0] == "tuple":
        return str(kind[1].__name__)
    if kind[0] == "array":
        return f"an array of {kind[2]} axes"
    return "a tuple" if kind[0] == VALUES else str(kind[0])
