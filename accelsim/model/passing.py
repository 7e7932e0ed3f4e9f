"""How Python's values are passed to machine code, by machine code: in Python it takes longer than many a kernel.

A value becomes words of 64 bits. A scalar is one word. An array is the address of its elements and its bounds, and the
steps of its axes in elements if it is not in C order. A named tuple is the address of a table with the words of its
fields. A signature tells apart the kinds of arguments, for which a kernel is compiled.

Arrays are read where NumPy's ABI lets extensions find their parts; Python's C API reads the rest. Each process makes
this code for itself, in about ten milliseconds.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

ArgumentType = tuple[Any, ...]
"""What a compiled function must know of an argument: ("array", type of elements, axes, whether in C order), ("tuple",
class, kinds of its fields), or the name of a scalar."""
SCALARS: dict[str, Any] = {
    "int": ctypes.c_int64,
    "uint": ctypes.c_uint64,
    "float": ctypes.c_double,
    "bool": ctypes.c_bool,
}
_WORDS = 4096
"""Room for the words of a call, at first: most need a tenth."""
_MOST_RESULTS = 16
_OTHER, _NO_ROOM = -1, -2
"""What reading ends with where a value is none that it knows, or where there is no room for all words."""
_CODE = """
; The room of a call: where its next word is written, where it ends, and where the next word of the signature is.
define i64 @read(ptr %values, ptr %words, ptr %end, ptr %signature) {{
  %room = alloca [3 x ptr]
  %end.at = getelementptr ptr, ptr %room, i64 1
  %next.at = getelementptr ptr, ptr %room, i64 2
  store ptr %words, ptr %room
  store ptr %end, ptr %end.at
  store ptr %signature, ptr %next.at
  %failed = call i64 @read_tuple(ptr %values, ptr %room, i1 false)
  %next = load ptr, ptr %next.at
  %from = ptrtoint ptr %signature to i64
  %to = ptrtoint ptr %next to i64
  %bytes = sub i64 %to, %from
  %good = icmp eq i64 %failed, 0
  %result = select i1 %good, i64 %bytes, i64 %failed
  ret i64 %result
}}

define internal void @sign(ptr %room, i64 %word) {{
  %next.at = getelementptr ptr, ptr %room, i64 2
  %next = load ptr, ptr %next.at
  store i64 %word, ptr %next
  %after = getelementptr i64, ptr %next, i64 1
  store ptr %after, ptr %next.at
  ret void
}}

; The words of a tuple, all in one place: arguments, or the table of a named tuple. What is in it follows behind it.
define internal i64 @read_tuple(ptr %values, ptr %room, i1 %table) {{
begin:
  %class.at = getelementptr i8, ptr %values, i64 {type}
  %class = load i64, ptr %class.at
  %many.at = getelementptr i8, ptr %values, i64 {head}
  %many = load i64, ptr %many.at
  %items = getelementptr i8, ptr %values, i64 {items}
  %words = load ptr, ptr %room
  br label %measure

measure:
  %m = phi i64 [0, %begin], [%m.next, %measured]
  %end = phi ptr [%words, %begin], [%end.next, %measured]
  %m.left = icmp slt i64 %m, %many
  br i1 %m.left, label %measure.one, label %reserve
measure.one:
  %m.at = getelementptr ptr, ptr %items, i64 %m
  %m.item = load ptr, ptr %m.at
  %m.type.at = getelementptr i8, ptr %m.item, i64 {type}
  %m.type = load i64, ptr %m.type.at
  %m.array = icmp eq i64 %m.type, {ndarray}
  br i1 %m.array, label %measure.array, label %measured
measure.array:
  %m.axes.at = getelementptr i8, ptr %m.item, i64 {axes}
  %m.axes = load i32, ptr %m.axes.at
  %m.wide = zext i32 %m.axes to i64
  %m.twice = mul i64 %m.wide, 2
  br label %measured
measured:
  %m.more = phi i64 [0, %measure.one], [%m.twice, %measure.array]
  %m.size = add i64 %m.more, 1
  %end.next = getelementptr i64, ptr %end, i64 %m.size
  %m.next = add i64 %m, 1
  br label %measure

reserve:
  %last.at = getelementptr ptr, ptr %room, i64 1
  %last = load ptr, ptr %last.at
  %full = icmp ugt ptr %end, %last
  br i1 %full, label %no.room, label %start
no.room:
  ret i64 {no_room}
start:
  store ptr %end, ptr %room
  call void @sign(ptr %room, i64 %class)
  call void @sign(ptr %room, i64 %many)
  br label %each

each:
  %i = phi i64 [0, %start], [%i.next, %next]
  %out = phi ptr [%words, %start], [%out.next, %next]
  %left = icmp slt i64 %i, %many
  br i1 %left, label %one, label %done
done:
  ret i64 0
one:
  %at = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %at
  %address = ptrtoint ptr %item to i64
  %type.at = getelementptr i8, ptr %item, i64 {type}
  %type = load i64, ptr %type.at
  %value.at = getelementptr i8, ptr %item, i64 {head}
  switch i64 %type, label %other [
    i64 {ndarray}, label %array
    i64 {int}, label %int
    i64 {int64}, label %int64
    i64 {uint64}, label %uint64
    i64 {float}, label %float
    i64 {float64}, label %float
    i64 {bool}, label %bool
    i64 {numpy_bool}, label %numpy.bool
    i64 {none}, label %none
  ]

int:
  %int.value = call i64 inttoptr (i64 {as_int} to ptr)(ptr %item)
  br label %scalar
int64:
  %int64.value = load i64, ptr %value.at
  br label %scalar
uint64:
  %uint64.value = load i64, ptr %value.at
  br label %scalar
float:
  %float.value = load i64, ptr %value.at
  br label %scalar
bool:
  %bool.is = icmp eq i64 %address, {true}
  %bool.value = zext i1 %bool.is to i64
  br label %scalar
numpy.bool:
  %numpy.bool.is = load i8, ptr %value.at
  %numpy.bool.value = zext i8 %numpy.bool.is to i64
  br label %scalar
scalar:
  %kind = phi i64 [2, %int], [2, %int64], [3, %uint64], [4, %float], [5, %bool], [5, %numpy.bool]
  %scalar.value = phi i64 [%int.value, %int], [%int64.value, %int64], [%uint64.value, %uint64], [%float.value, %float],
    [%bool.value, %bool], [%numpy.bool.value, %numpy.bool]
  call void @sign(ptr %room, i64 %kind)
  store i64 %scalar.value, ptr %out
  br label %next
none:
  call void @sign(ptr %room, i64 6)
  store i64 0, ptr %out
  %none.words = zext i1 %table to i64
  br label %next

other:
  %class.of = inttoptr i64 %type to ptr
  %is.tuple = call i32 inttoptr (i64 {is_subtype} to ptr)(ptr %class.of, ptr inttoptr (i64 {tuple} to ptr))
  %is.other = icmp eq i32 %is.tuple, 0
  br i1 %is.other, label %unknown, label %tuple
unknown:
  ret i64 {other}
tuple:
  %inside = load ptr, ptr %room
  store ptr %inside, ptr %out
  %failed = call i64 @read_tuple(ptr %item, ptr %room, i1 true)
  %failed.is = icmp ne i64 %failed, 0
  br i1 %failed.is, label %failure, label %next
failure:
  ret i64 %failed

array:
  %elements = load i64, ptr %value.at
  store i64 %elements, ptr %out
  %axes.at = getelementptr i8, ptr %item, i64 {axes}
  %axes.narrow = load i32, ptr %axes.at
  %axes = zext i32 %axes.narrow to i64
  %bounds.at = getelementptr i8, ptr %item, i64 {bounds}
  %bounds = load ptr, ptr %bounds.at
  %steps.at = getelementptr i8, ptr %item, i64 {steps}
  %steps = load ptr, ptr %steps.at
  %dtype.at = getelementptr i8, ptr %item, i64 {dtype}
  %dtype = load ptr, ptr %dtype.at
  %letter.at = getelementptr i8, ptr %dtype, i64 {letter}
  %letter = load i8, ptr %letter.at
  %size.at = getelementptr i8, ptr %dtype, i64 {itemsize}
  %size = load i64, ptr %size.at
  %flags.at = getelementptr i8, ptr %item, i64 {flags}
  %flags = load i32, ptr %flags.at
  %c.order = and i32 %flags, 1
  %in.order = icmp ne i32 %c.order, 0
  %letter.wide = zext i8 %letter to i64
  %letter.up = shl i64 %letter.wide, 8
  %axes.up = shl i64 %axes, 16
  %order.wide = zext i1 %in.order to i64
  %order.up = shl i64 %order.wide, 32
  %kind.a = or i64 %letter.up, %axes.up
  %kind.b = or i64 %kind.a, %order.up
  %kind.array = or i64 %kind.b, 1
  call void @sign(ptr %room, i64 %kind.array)
  %in.table = xor i1 %in.order, true
  %refused = and i1 %in.table, %table
  br i1 %refused, label %unknown, label %axis
axis:
  %a = phi i64 [0, %array], [%a.next, %axis.one]
  %a.left = icmp slt i64 %a, %axes
  br i1 %a.left, label %axis.one, label %axes.done
axis.one:
  %bound.at = getelementptr i64, ptr %bounds, i64 %a
  %bound = load i64, ptr %bound.at
  %a.next = add i64 %a, 1
  %bound.out = getelementptr i64, ptr %out, i64 %a.next
  store i64 %bound, ptr %bound.out
  br label %axis
axes.done:
  %array.words = add i64 %axes, 1
  br i1 %in.order, label %next, label %step
step:
  %s = phi i64 [0, %axes.done], [%s.next, %step.one]
  %s.left = icmp slt i64 %s, %axes
  br i1 %s.left, label %step.one, label %steps.done
step.one:
  %step.at = getelementptr i64, ptr %steps, i64 %s
  %step.bytes = load i64, ptr %step.at
  %step.elements = sdiv i64 %step.bytes, %size
  %s.place = add i64 %array.words, %s
  %step.out = getelementptr i64, ptr %out, i64 %s.place
  store i64 %step.elements, ptr %step.out
  %s.next = add i64 %s, 1
  br label %step
steps.done:
  %stepped.words = add i64 %array.words, %axes
  br label %next

next:
  %used = phi i64 [1, %scalar], [%none.words, %none], [1, %tuple], [%array.words, %axes.done],
    [%stepped.words, %steps.done]
  %out.next = getelementptr i64, ptr %out, i64 %used
  %i.next = add i64 %i, 1
  br label %each
}}
"""


class Frame:
    """Room for what one call passes and for what it returns.

    Attributes
    ----------
    words, results : int
        Addresses.
    """

    def __init__(self, words: int) -> None:
        self._words = (ctypes.c_int64 * words)()
        self._signature = (ctypes.c_int64 * (3 * words))()  # a tuple has two words of it besides those of its items
        self._results = (ctypes.c_int64 * _MOST_RESULTS)()
        self._typed = {
            name: [of.from_buffer(self._results, 8 * at) for at in range(_MOST_RESULTS)] for name, of in SCALARS.items()
        }
        self._read = _reader()
        self._first, self._end = ctypes.addressof(self._signature), ctypes.addressof(self._words) + 8 * words
        self.words, self.results = ctypes.addressof(self._words), ctypes.addressof(self._results)

    def fill(self, arguments: tuple[Any, ...]) -> tuple[bytes, int]:
        """Write the words of arguments, which hold as long as these live; returns their signature, or why not."""
        size: int = self._read(arguments, self.words, self._end, self._first)
        return (ctypes.string_at(self._first, size), 0) if size >= 0 else (b"", size)

    def result(self, of: tuple[str, ...]) -> Any:
        """What a call returned, as scalars of these kinds."""
        if len(of) == 1:
            return self._typed[of[0]][0].value
        return tuple([self._typed[name][at].value for at, name in enumerate(of)]) if of else None


_FREE: list[Frame] = []
"""Frames that no call uses."""
_ENGINES: list[Any] = []
"""What holds the machine code."""


def passed(arguments: tuple[Any, ...]) -> tuple[Frame, bytes, tuple[Any, ...]]:
    """A frame with the words of arguments, their signature, and what must live as long as the words are used."""
    frame = _FREE.pop() if _FREE else Frame(_WORDS)
    signature, failed = frame.fill(arguments)
    words = _WORDS
    while failed:
        if failed == _NO_ROOM:
            frame = Frame(words := 4 * words)
        else:
            arguments = tuple([_plain(each) for each in arguments])
        signature, failed = frame.fill(arguments)
    return frame, signature, arguments


def release(frame: Frame) -> None:
    """Let another call use a frame."""
    _FREE.append(frame)


def kind_of(value: Any) -> ArgumentType:
    """Kind of an argument, or of a field of a named tuple."""
    if isinstance(value, np.ndarray):
        return "array", value.dtype.char, value.ndim, value.flags.c_contiguous
    if isinstance(value, tuple):
        return "tuple", type(value), tuple([kind_of(each) for each in value])
    return (_scalar(value),)


def _scalar(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, np.uint64):
        return "uint"
    if isinstance(value, int | np.integer):
        return "int"
    if isinstance(value, float | np.floating):
        return "float"
    raise TypeError(f"a kernel takes no {type(value).__name__}")


def _plain(value: Any, inside: bool = False) -> Any:
    """An equal argument of the classes that are read, for one of a class derived from them or of a narrow number."""
    if isinstance(value, np.ndarray):
        if inside and not value.flags.c_contiguous:
            raise TypeError("arrays of a named tuple are passed in C order")
        return value.view(np.ndarray)
    if isinstance(value, tuple):
        return tuple.__new__(type(value), [_plain(each, inside=True) for each in value])
    made: dict[str, Any] = {"bool": bool, "uint": np.uint64, "int": int, "float": float}
    return made[_scalar(value)](value) if value is not None else None


@cache
def _reader() -> Any:
    """The machine code that reads arguments."""
    head, api = object.__basicsize__, ctypes.pythonapi
    places = {"type": head - 8, "head": head, "items": tuple.__basicsize__, "letter": head + 9, "itemsize": head + 24}
    places |= {"axes": head + 8, "bounds": head + 16, "steps": head + 24, "dtype": head + 40, "flags": head + 48}
    known = {"ndarray": np.ndarray, "int": int, "int64": np.int64, "uint64": np.uint64, "float": float}
    known |= {"float64": np.float64, "bool": bool, "numpy_bool": np.bool_, "none": type(None), "tuple": tuple}
    functions = {"as_int": api.PyLong_AsUnsignedLongLongMask, "is_subtype": api.PyType_IsSubtype}
    addresses = {name: ctypes.cast(function, ctypes.c_void_p).value for name, function in functions.items()}
    addresses |= {name: id(each) for name, each in [*known.items(), ("true", True)]}
    failures = {"other": _OTHER, "no_room": _NO_ROOM}
    text = _CODE.format(**places, **addresses, **failures)
    machine = target().create_target_machine(opt=0, jit=True)  # which takes a quarter of the time of the default
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text, llvm.create_context()), machine)
    _ENGINES.append(engine)
    words = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
    return ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.py_object, *words)(engine.get_function_address("read"))


@cache
def target() -> Any:
    """What machine code is linked for."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()
