"""Records as Numba knows them: a type for each, with fields that are read from a table of words; see `records`.

Of Numba only what extensions use is used: `numba.extending`, and from `numba.core` `cgutils` and `AttributeTemplate`.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any, get_args, get_type_hints

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

from accelsim.model.plain import PlainKernel
from accelsim.model.records import Field, RecordTable, field_of, fields_of

_SCALARS = {int: types.int64, float: types.float64, bool: types.boolean, np.uint64: types.uint64}
_WORD = ir.IntType(64)


class RecordType(types.Type):  # type: ignore[misc]
    """A record as Numba knows it: an address, with fields at known places, by their first word and type."""

    def __init__(self, record: type) -> None:
        self.fields, at = dict[str, tuple[int, Any]](), 0
        for name, field in fields_of(record).items():
            self.fields[name] = at, _type(field)
            at += 1 + field.axes
        layout = hashlib.sha256(repr(self.fields).encode()).hexdigest()[:16]
        super().__init__(f"{record.__module__}.{record.__qualname__}-{layout}")


@cache
def _type(field: Field) -> Any:
    """Numba's type of a field."""
    if field.axes:
        return types.Array(numba.from_dtype(field.type), field.axes, "C")
    return _SCALARS[field.type] if field.type in _SCALARS else RecordType(field.type)


@cache
def signature_of(kernel: PlainKernel) -> Any:
    """What a kernel takes and returns, from its annotations."""
    hints = get_type_hints(kernel.function, include_extras=True)
    returned = hints.pop("return")
    several = tuple(_type(field_of(each)) for each in get_args(returned))
    result = types.Tuple(several) if several else types.none if returned is type(None) else _type(field_of(returned))
    return result(*[_type(field_of(hint)) for hint in hints.values()])


register_model(RecordType)(models.OpaqueModel)


@typeof_impl.register(RecordTable)
def _type_of_table(table: RecordTable, _: Any) -> Any:
    return _type(field_of(table.record))


@unbox(RecordType)
def _unbox_table(_: Any, table: Any, c: Any) -> Any:
    address = c.pyapi.object_getattr_string(table, "address")
    value = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return NativeValue(value)


@infer_getattr
class _RecordFields(AttributeTemplate):  # type: ignore[misc]
    key = RecordType

    def generic_resolve(self, record: RecordType, name: str) -> Any:
        return record.fields[name][1] if name in record.fields else None


@lower_getattr_generic(RecordType)
def _read_field(context: Any, builder: Any, record: RecordType, address: Any, name: str) -> Any:
    """Read a field from the table; words of a table never change, so that loops need not read them again."""
    at, of = record.fields[name]
    table = builder.bitcast(address, _WORD.as_pointer())

    def word(number: int, as_type: Any = _WORD) -> Any:
        place = builder.gep(table, [ir.Constant(_WORD, number)])
        read = builder.load(place if as_type is _WORD else builder.bitcast(place, as_type.as_pointer()))
        read.set_metadata("invariant.load", builder.module.add_metadata([]))
        return read

    if isinstance(of, types.Array):
        elements = context.get_data_type(of.dtype)
        array, itemsize = context.make_array(of)(context, builder), context.get_abi_sizeof(elements)
        shape = [word(at + 1 + axis) for axis in range(of.ndim)]
        strides: list[Any] = []
        step = ir.Constant(_WORD, itemsize)
        for size in reversed(shape):
            strides.insert(0, step)
            step = builder.mul(step, size, flags=("nsw",))
        count = ir.Constant(_WORD, 1)
        for size in shape:
            count = builder.mul(count, size, flags=("nsw",))
        array.data, array.nitems = word(at, elements.as_pointer()), count
        array.itemsize = ir.Constant(_WORD, itemsize)
        array.shape, array.strides = cgutils.pack_array(builder, shape), cgutils.pack_array(builder, strides)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()
    if isinstance(of, RecordType):
        return word(at, ir.IntType(8).as_pointer())
    if of is types.float64:
        return word(at, ir.DoubleType())
    return builder.icmp_unsigned("!=", word(at), ir.Constant(_WORD, 0)) if of is types.boolean else word(at)
