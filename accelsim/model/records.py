"""Types of what kernels take: arrays by elements and axes, and records of arrays that are passed as one address.

A record is a named tuple of arrays, numbers and records. Numba would pass each of its fields as an argument of its own
and compile for minutes; as one address of a table of words it costs what one argument costs, and kernels read
`record.field` from there. An array is two words and more: where its elements are, then how many it has along each axis.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

import numpy as np
import numpy.typing as npt

Ints1 = Annotated[npt.NDArray[np.int64], "int64", 1]
Ints2 = Annotated[npt.NDArray[np.int64], "int64", 2]
Ints3 = Annotated[npt.NDArray[np.int64], "int64", 3]
Ints4 = Annotated[npt.NDArray[np.int64], "int64", 4]
Int32s2 = Annotated[npt.NDArray[np.int32], "int32", 2]
Int16s2 = Annotated[npt.NDArray[np.int16], "int16", 2]
Int16s4 = Annotated[npt.NDArray[np.int16], "int16", 4]
Uints1 = Annotated[npt.NDArray[np.uint64], "uint64", 1]
Uints2 = Annotated[npt.NDArray[np.uint64], "uint64", 2]
Floats1 = Annotated[npt.NDArray[np.float64], "float64", 1]
Floats2 = Annotated[npt.NDArray[np.float64], "float64", 2]
Floats3 = Annotated[npt.NDArray[np.float64], "float64", 3]
Floats4 = Annotated[npt.NDArray[np.float64], "float64", 4]
Floats5 = Annotated[npt.NDArray[np.float64], "float64", 5]
Bools1 = Annotated[npt.NDArray[np.bool_], "bool", 1]
Bools2 = Annotated[npt.NDArray[np.bool_], "bool", 2]
Bools3 = Annotated[npt.NDArray[np.bool_], "bool", 3]

_Record = TypeVar("_Record", bound=tuple[Any, ...])


class Field(NamedTuple):
    """A field of a record, an argument of a kernel, or what one returns."""

    type: Any  # NumPy's type of the elements of an array; else int, float, bool, np.uint64 or the class of a record
    axes: int  # of an array, else 0


def record(named_tuple: type[_Record]) -> type[_Record]:
    """Make a named tuple one that kernels take; its table is made once and kept with it."""
    members: dict[str, Any] = {name: getattr(named_tuple, name) for name in ("__doc__", "__module__", "__qualname__")}
    members |= {"__getstate__": _nothing_else, "is_record": True}
    made: type[_Record] = type(named_tuple.__name__, (named_tuple,), members)
    return made


def _nothing_else(state: Any) -> None:
    """What is pickled besides the fields: addresses are of one process."""


@cache
def field_of(hint: Any) -> Field:
    """What an annotation stands for; raises TypeError if kernels take nothing of the kind."""
    if hasattr(hint, "__metadata__"):
        elements, axes = hint.__metadata__
        return Field(np.dtype(elements), axes)
    if hint in (int, float, bool, np.uint64) or hasattr(hint, "is_record"):
        return Field(hint, 0)
    raise TypeError(
        f"{hint} is no type of a kernel: write Ints2 for an array of two axes, int, float, bool or a record"
    )


@cache
def fields_of(record_type: Any) -> dict[str, Field]:
    """Fields of a record by name; in a table an array takes a word for its elements and one for each axis."""
    return {name: field_of(hint) for name, hint in get_type_hints(record_type, include_extras=True).items()}


class RecordTable:
    """Words of a record of some class, as kernels read them, at an address that is valid as long as the record is."""

    __slots__ = ("_words", "address", "record")
    record: Any

    def __init__(self, state: Any) -> None:
        self.record = type(state)
        words: list[int] = []
        for (name, (of, axes)), value in zip(fields_of(self.record).items(), state, strict=True):
            if axes:
                if value.dtype != of or value.ndim != axes or not value.flags.c_contiguous:
                    found = f"{value.dtype}[{value.ndim} axes]"
                    raise TypeError(f"{self.record.__name__}.{name} is {found}, not {of}[{axes} axes] in C order")
                words.append(value.__array_interface__["data"][0])
                words += value.shape
            elif of is float:
                words.append(struct.unpack("q", struct.pack("d", value))[0])
            else:
                words.append(table_of(value).address if isinstance(value, tuple) else int(value))
        self._words = np.array(words, np.int64)
        self.address: int = self._words.__array_interface__["data"][0]


def table_of(state: Any) -> RecordTable:
    """The table of a record, made once."""
    kept = state.__dict__
    if "table" not in kept:
        kept["table"] = RecordTable(state)
    table: RecordTable = kept["table"]
    return table
