"""Writing the text of a function of LLVM: its blocks, names, numbers, and parts of arrays."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import numpy as np

from accelsim.model.kinds import (
    BOOL,
    FLOAT,
    INT,
    ITEMS,
    NONE,
    SCALARS,
    SEVERAL,
    UINT,
    VALUES,
    Computed,
    KernelError,
    Word,
    float_word,
    items_of,
    joined,
    joined_if_any,
    shown,
    together,
    types_of,
)
from accelsim.model.passing import ArgumentType

_COMPARED = {
    ast.Eq: ("eq", "eq", "oeq"),
    ast.NotEq: ("ne", "ne", "une"),
    ast.Lt: ("slt", "ult", "olt"),
    ast.LtE: ("sle", "ule", "ole"),
    ast.Gt: ("sgt", "ugt", "ogt"),
    ast.GtE: ("sge", "uge", "oge"),
}
"""LLVM's words for integers, those without a sign, and floats."""
_COMPUTED = {
    ast.Add: ("add", "fadd"),
    ast.Sub: ("sub", "fsub"),
    ast.Mult: ("mul", "fmul"),
    ast.BitAnd: ("and", ""),
    ast.BitOr: ("or", ""),
    ast.BitXor: ("xor", ""),
    ast.LShift: ("shl", ""),
    ast.RShift: ("ashr", ""),
}
"""LLVM's words for integers and floats."""

Index = str | tuple[str | None, ...]
"""An integer, or both ends of a slice."""


class Writer:
    """Text of a function as it is written from the first line to the last.

    Attributes
    ----------
    lines, beginning : list of str
        What is written, and room in memory that is laid out before.
    scopes : list of dict
        For each block that the place of writing is in, from outside: computations that are written there by their text,
        and values of names as ("name", name), None where only memory knows.
    kinds : dict
        Kind of each name.
    in_memory : set of str
        Names that are read where more than one assignment may have been the last.
    called : dict
        Declarations of functions by name.
    not_negative : set of str
        Integers that are not.
    ended : bool
        Whether nothing goes on from the last line.
    block : str
        Label of the block that is written.
    """

    def __init__(self, kinds: dict[str, ArgumentType], in_memory: set[str]) -> None:
        self.kinds, self.in_memory = kinds, in_memory
        self.lines: list[str] = []
        self.beginning: list[str] = []
        self.scopes: list[dict[Any, Any]] = [{}]
        self.called: dict[str, str] = {}
        self.not_negative: set[str] = set()
        self.ended, self.block = False, "begin"
        self._count = self._labels = 0

    def do(self, text: str) -> None:
        """Write a line."""
        self.lines.append(text)

    def new(self, text: str) -> str:
        """Write a computation that may differ from time to time; returns the name of its value."""
        name = f"%{self._count}"
        self._count += 1
        self.lines.append(f"{name} = {text}")
        return name

    def pure(self, text: str) -> str:
        """Write a computation, unless an equal one always came before."""
        for scope in reversed(self.scopes):
            if text in scope:
                known: str = scope[text]
                return known
        name = self.scopes[-1][text] = self.new(text)
        return name

    def label(self, word: str) -> str:
        """A name for a block."""
        self._labels += 1
        return f"{word}{self._labels}"

    def begin(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self.block, self.ended = label, False

    def end(self, text: str) -> None:
        """End the block, unless it has ended."""
        if not self.ended:
            self.lines.append(text)
        self.ended = True

    def jump(self, label: str) -> None:
        """End the block by going on at another one."""
        self.end(f"br label %{label}")

    @contextmanager
    def scope(self, forgotten: Iterable[str] = ()) -> Iterator[None]:
        """What is known inside holds there only; of some names only memory is known."""
        self.scopes.append(dict.fromkeys((("name", name) for name in forgotten), None))
        yield
        self.scopes.pop()

    def forget(self, names: Iterable[str]) -> None:
        """From here on only memory knows some names."""
        for name in names:
            self.scopes[-1]["name", name] = None

    def bind(self, name: str, value: Computed) -> None:
        """Assign to a name."""
        kind = self.kinds[name] = joined_if_any(self.kinds.get(name, value.kind), value.kind)
        if name in self.in_memory:
            value = self.converted(value, kind)
            for at, (type_, part) in enumerate(zip(types_of(kind), value.parts, strict=True)):
                self.do(f"store {type_} {self.text(part)}, ptr %{name}.m{at}")
        self.scopes[-1]["name", name] = value

    def read(self, name: str) -> Computed:
        """Value of a name."""
        for scope in reversed(self.scopes):
            if ("name", name) in scope:
                value = scope["name", name]
                if value is not None:
                    return Computed(*value)
                break
        self.in_memory.add(name)
        if name not in self.kinds:
            raise KernelError(f"{name} is not assigned before")
        kind = self.kinds[name]
        if kind == SEVERAL:
            raise KernelError(f"{name} is of several kinds")
        parts = [self.new(f"load {type_}, ptr %{name}.m{at}") for at, type_ in enumerate(types_of(kind))]
        value = self.scopes[-1]["name", name] = Computed(kind, tuple(parts))
        return value

    def text(self, part: Any) -> str:
        """A word, read if it stands in a table; nothing writes to tables, so reads may be moved and merged."""
        if not isinstance(part, Word):
            return str(part)
        place = self.pure(f"getelementptr i64, ptr {part.table}, i64 {part.at}") if part.at else part.table
        return self.pure(f"load {part.type}, ptr {place}, !invariant.load !0")

    def converted(self, value: Computed, kind: ArgumentType) -> Computed:
        """A value as one of another kind."""
        have = value.kind
        if have == kind:
            return value
        if have[0] == "array" and kind[0] == "array" and have[1:3] == kind[1:3] and have[3]:
            return Computed(kind, (*value.parts, *self.steps(value)))
        if have[0] == VALUES and kind[0] == VALUES and len(have[1]) == len(kind[1]):
            return together(self.converted(each, of) for each, of in zip(items_of(value), kind[1], strict=True))
        if have[0] not in SCALARS or kind[0] not in SCALARS:
            raise KernelError(f"{shown(have)} is no {shown(kind)}")
        text = self.text(value.parts[0])
        if kind == BOOL:
            return Computed(BOOL, (self.truth(value),))
        if have == BOOL:
            text = self.pure(f"{'uitofp' if kind == FLOAT else 'zext'} i1 {text} to {SCALARS[kind[0]]}")
        elif kind == FLOAT:
            if text.lstrip("-").isdigit() and abs(int(text)) < 1 << 53:
                text = float_word(float(text))
            else:
                text = self.pure(f"{'ui' if have == UINT else 'si'}tofp i64 {text} to double")
        elif have == FLOAT:
            text = self.pure(f"fpto{'ui' if kind == UINT else 'si'} double {text} to i64")
        return Computed(kind, (text,))

    def truth(self, value: Computed) -> str:
        """Whether a value is not 0."""
        text = self.text(value.parts[0]) if value.parts else ""
        if value.kind == BOOL:
            return text
        if value.kind == FLOAT:
            return self.pure(f"fcmp une double {text}, 0.0")
        if value.kind in (INT, UINT):
            return self.pure(f"icmp ne i64 {text}, 0")
        raise KernelError(f"{shown(value.kind)} is neither true nor false")

    def bounds(self, array: Computed) -> list[Any]:
        """Bounds of the axes of an array."""
        return list(array.parts[1 : 1 + array.kind[2]])

    def steps(self, array: Computed) -> list[str]:
        """How many elements a step along each axis is."""
        axes = array.kind[2]
        if not array.kind[3]:
            return [self.text(part) for part in array.parts[1 + axes :]]
        steps = ["1"]
        for part in reversed(self.bounds(array)[1:]):
            steps.insert(0, self.times(steps[0], self.text(part)))
        return steps

    def times(self, a: str, b: str) -> str:
        """A product of integers."""
        if "0" in (a, b):
            return "0"
        return b if a == "1" else a if b == "1" else self.pure(f"mul i64 {a}, {b}")

    def plus(self, a: str, b: str) -> str:
        """A sum of integers."""
        return b if a == "0" else a if b == "0" else self.pure(f"add i64 {a}, {b}")

    def size(self, array: Computed) -> str:
        """Elements of an array."""
        return reduce(self.times, (self.text(part) for part in self.bounds(array)))

    def from_begin(self, index: str, bound: Any) -> str:
        """An index, counted from the end if it is negative."""
        if index in self.not_negative or index.isdigit():
            return index
        further = self.pure(f"add i64 {index}, {self.text(bound)}")
        if index[0] == "-":
            return further
        negative = self.pure(f"icmp slt i64 {index}, 0")
        return self.pure(f"select i1 {negative}, i64 {further}, i64 {index}")

    def view(self, array: Computed, indices: Sequence[Index]) -> Computed:
        """A part of an array, without elements of its own: an array of no axes for an element."""
        char, axes, in_order = array.kind[1:]
        if len(indices) > axes:
            raise KernelError(f"an array of {axes} axes has {len(indices)} indices")
        bounds, at = self.bounds(array), "0"
        sliced = [isinstance(each, tuple) for each in indices]
        if in_order and True not in sliced[:-1]:
            for axis in range(axes):  # as the value of a number whose digits are the indices
                at = self.times(at, self.text(bounds[axis]))
                if axis < len(indices):
                    start, bounds[axis] = self.begin_of(indices[axis], bounds[axis])
                    at = self.plus(at, start)
            left = bounds[len(indices) - (True in sliced) :]
            return Computed(("array", char, len(left), True), (self.element(array, at), *left))
        steps = self.steps(array)
        for axis, index in enumerate(indices):
            start, bounds[axis] = self.begin_of(index, bounds[axis])
            at = self.plus(at, self.times(start, steps[axis]))
        kept = [axis for axis in range(axes) if axis >= len(indices) or sliced[axis]]
        parts = (self.element(array, at), *(bounds[axis] for axis in kept), *(steps[axis] for axis in kept))
        return Computed(("array", char, len(kept), False), parts)

    def begin_of(self, index: Index, bound: Any) -> tuple[str, Any]:
        """Where an index points to, or where a slice begins and how many elements it has."""
        if not isinstance(index, tuple):
            return self.from_begin(index, bound), bound
        ends = []
        for end in index:
            if end is not None:
                end = self.from_begin(end, bound)
                end = self.pure(f"call i64 @llvm.smax.i64(i64 {end}, i64 0)")
                end = self.pure(f"call i64 @llvm.smin.i64(i64 {end}, i64 {self.text(bound)})")
            ends.append(end)
        begin, end = ends[0] or "0", ends[1] or bound
        if begin == "0":
            return begin, end
        many = self.pure(f"sub i64 {self.text(end)}, {begin}")
        return begin, self.pure(f"call i64 @llvm.smax.i64(i64 {many}, i64 0)")

    def element(self, array: Computed, at: str) -> str:
        """Address of an element by its number in memory."""
        data = self.text(array.parts[0])
        return data if at == "0" else self.pure(f"getelementptr {ITEMS[array.kind[1]][1]}, ptr {data}, i64 {at}")

    def item(self, line: Computed, at: str) -> str:
        """Address of an element of an array of one axis."""
        return self.element(line, at if line.kind[3] else self.times(at, self.text(line.parts[2])))

    def load(self, char: str, address: str) -> Computed:
        """Read an element of a type of NumPy."""
        kind, type_ = ITEMS[char]
        text = self.new(f"load {type_}, ptr {address}")
        if kind == BOOL:
            text = self.new(f"trunc i8 {text} to i1")
        elif type_ not in ("i64", "double"):
            text = self.new(f"sext {type_} {text} to i64")
        return Computed(kind, (text,))

    def store(self, char: str, address: str, value: Computed) -> None:
        """Write an element."""
        kind, type_ = ITEMS[char]
        if value.kind[0] not in SCALARS:
            raise KernelError(f"an element is no {shown(value.kind)}")
        text = self.text(self.converted(value, kind).parts[0])
        if kind == BOOL:
            text = self.pure(f"zext i1 {text} to i8")
        elif type_ not in ("i64", "double"):
            text = self.pure(f"trunc i64 {text} to {type_}")
        self.do(f"store {type_} {text}, ptr {address}")

    def each_element(self, array: Computed) -> Any:
        """Loops over all elements of an array: its address and what ends the loops."""
        if array.kind[3]:
            array = Computed((*array.kind[:2], 1, True), (array.parts[0], self.size(array)))
        elif array.kind[2] != 1:
            raise KernelError("an array of several axes is in C order here")
        return array

    def room(self, word: str, type_: str) -> str:
        """Room in memory, laid out before the function begins."""
        self._labels += 1
        name = f"%{word}{self._labels}"
        self.beginning.append(f"{name} = alloca {type_}")
        return name

    def listed(self, values: Computed) -> Computed:
        """A tuple of numbers as an array."""
        kind = reduce(joined, values.kind[1])
        char = {INT: "q", FLOAT: "d", BOOL: "?", UINT: "Q"}[kind]
        name = self.room("list", f"[{len(values.kind[1])} x {ITEMS[char][1]}]")
        line = Computed(("array", char, 1, True), (name, str(len(values.kind[1]))))
        for at, each in enumerate(items_of(values)):
            self.store(char, self.element(line, str(at)), each)
        return line

    @contextmanager
    def counting(
        self, start: str, stop: str, step: str, changed: Iterable[str] = ()
    ) -> Iterator[tuple[str, tuple[str, str]]]:
        """Write a loop around what is written inside: its number, where it goes on, and where it ends."""
        again, body, further, after = (self.label(word) for word in ("for", "do", "next", "after"))
        number, before = f"%i{self._labels}", self.block
        self.jump(again)
        self.begin(again)
        self.do(f"{number} = phi i64 [ {start}, %{before} ], [ {number}.next, %{further} ]")
        with self.scope(changed):
            up = self.new(f"icmp slt i64 {number}, {stop}") if step[0] != "-" else ""
            if not step.isdigit():
                down = self.new(f"icmp sgt i64 {number}, {stop}")
                sign = self.new(f"icmp sgt i64 {step}, 0") if up else ""
                up = self.new(f"select i1 {sign}, i1 {up}, i1 {down}") if up else down
            elif start in self.not_negative or start.isdigit():
                self.not_negative.add(number)
            self.end(f"br i1 {up}, label %{body}, label %{after}")
            self.begin(body)
            yield number, (further, after)
            self.jump(further)
        self.begin(further)
        self.do(f"{number}.next = add nsw i64 {number}, {step}")
        self.jump(again)
        self.begin(after)

    def binary(self, operator: ast.operator, left: Computed, right: Computed) -> Computed:
        """Compute with two numbers."""
        of_bits = isinstance(operator, ast.BitAnd | ast.BitOr | ast.BitXor)
        kind = joined(left.kind, right.kind)
        if kind == BOOL and not of_bits:
            kind = INT
        if isinstance(operator, ast.Div | ast.Pow):
            kind = FLOAT
        if kind[0] not in SCALARS:
            raise KernelError(f"nothing is computed with {shown(kind)}")
        a, b = (self.text(self.converted(each, kind).parts[0]) for each in (left, right))
        type_ = SCALARS[kind[0]]
        if isinstance(operator, ast.Div):
            return Computed(kind, (self.pure(f"fdiv double {a}, {b}"),))
        if isinstance(operator, ast.Pow):
            return Computed(kind, (self.intrinsic("pow", a, b),))
        if isinstance(operator, ast.FloorDiv | ast.Mod):
            return Computed(kind, (self.rounded_down(isinstance(operator, ast.FloorDiv), kind, a, b),))
        word = _COMPUTED.get(type(operator), ("", ""))[kind == FLOAT]
        if kind == UINT and word == "ashr":
            word = "lshr"
        if not word:
            raise KernelError(f"there is no {type(operator).__name__} of {shown(kind)}")
        if kind == INT and word == "add":
            text = self.plus(a, b)
            if {a, b} <= self.not_negative | {each for each in (a, b) if each.isdigit()}:
                self.not_negative.add(text)
            return Computed(kind, (text,))
        return Computed(kind, (self.pure(f"{word} {type_} {a}, {b}"),))

    def rounded_down(self, quotient: bool, kind: ArgumentType, a: str, b: str) -> str:
        """Quotient, rounded down, or remainder of integers; 0 where the divisor is."""
        if kind == FLOAT:
            raise KernelError("floats are divided by `/`")
        signed, safe, none = kind == INT, b, ""
        if not b.isdigit() or b == "0":
            none = self.pure(f"icmp eq i64 {b}, 0")
            safe = self.pure(f"select i1 {none}, i64 1, i64 {b}")
        if not signed:
            found = self.pure(f"{'udiv' if quotient else 'urem'} i64 {a}, {safe}")
        else:
            whole = self.pure(f"sdiv i64 {a}, {safe}")
            rest = self.pure(f"sub i64 {a}, {self.pure(f'mul i64 {whole}, {safe}')}")
            differ = self.pure(f"icmp slt i64 {self.pure(f'xor i64 {rest}, {safe}')}, 0")
            below = self.pure(f"and i1 {self.pure(f'icmp ne i64 {rest}, 0')}, {differ}")
            if quotient:
                found = self.pure(f"add i64 {whole}, {self.pure(f'sext i1 {below} to i64')}")
            else:
                added = self.pure(f"select i1 {below}, i64 {safe}, i64 0")
                found = self.pure(f"add i64 {rest}, {added}")
        return self.pure(f"select i1 {none}, i64 0, i64 {found}") if none else found

    def intrinsic(self, name: str, *arguments: str) -> str:
        """Call a function of floats that LLVM knows."""
        symbol = f"llvm.{name}.f64"
        self.called[symbol] = f"declare double @{symbol}({', '.join(['double'] * len(arguments))})"
        return self.pure(f"call double @{symbol}({', '.join(f'double {each}' for each in arguments)})")

    def compared(self, operator: ast.cmpop, left: Computed, right: Computed) -> str:
        """Compare two numbers."""
        kind = joined(left.kind, right.kind)
        if kind == BOOL and not isinstance(operator, ast.Eq | ast.NotEq):
            kind = INT
        if type(operator) not in _COMPARED or kind[0] not in SCALARS:
            raise KernelError(f"{shown(kind)} is not compared so")
        a, b = (self.text(self.converted(each, kind).parts[0]) for each in (left, right))
        signed, unsigned, real = _COMPARED[type(operator)]
        if kind == FLOAT:
            return self.pure(f"fcmp {real} double {a}, {b}")
        return self.pure(f"icmp {unsigned if kind == UINT else signed} {SCALARS[kind[0]]} {a}, {b}")

    def either(self, a: str, b: str) -> str:
        """Whether one of two flags is set."""
        return self.pure(f"or i1 {a}, {b}")

    def least(self, name: str, a: Computed, b: Computed) -> Computed:
        """As Python does: the second one only where it is less, or more."""
        kind = joined(a.kind, b.kind)
        a, b = self.converted(a, kind), self.converted(b, kind)
        chosen = self.compared(ast.Lt() if name == "min" else ast.Gt(), b, a)
        first, second, type_ = self.text(a.parts[0]), self.text(b.parts[0]), SCALARS[kind[0]]
        text = self.pure(f"select i1 {chosen}, {type_} {second}, {type_} {first}")
        if all(each in self.not_negative or each.isdigit() for each in (first, second)):
            self.not_negative.add(text)
        return Computed(kind, (text,))

    def absolute(self, value: Computed) -> Computed:
        """A number without its sign."""
        text = self.text(value.parts[0])
        if value.kind == FLOAT:
            return Computed(FLOAT, (self.intrinsic("fabs", text),))
        less = self.compared(ast.Lt(), value, Computed(INT, ("0",)))
        return Computed(INT, (self.pure(f"select i1 {less}, i64 {self.pure(f'sub i64 0, {text}')}, i64 {text}"),))

    def any_of(self, array: Computed) -> Computed:
        """Whether any element is not 0."""
        line = self.each_element(array)
        found, end = self.label("found"), self.label("end")
        with self.counting("0", self.text(line.parts[1]), "1") as (at, (again, _)):
            sure = self.truth(self.load(line.kind[1], self.item(line, at)))
            self.end(f"br i1 {sure}, label %{found}, label %{again}")
        none = self.block
        self.jump(end)
        self.begin(found)
        self.jump(end)
        self.begin(end)
        return Computed(BOOL, (self.new(f"phi i1 [ false, %{none} ], [ true, %{found} ]"),))

    def constant(self, value: Any) -> Computed:
        """A number that is known, or a tuple of such."""
        if value is None:
            return Computed(NONE, ())
        if isinstance(value, bool | np.bool_):
            return Computed(BOOL, ("true" if value else "false",))
        if isinstance(value, np.uint64):
            return Computed(UINT, (str(int(value)),))
        if isinstance(value, int | np.integer):
            return Computed(INT, (str(int(value)),))
        if isinstance(value, float | np.floating):
            return Computed(FLOAT, (float_word(float(value)),))
        if isinstance(value, tuple):
            return together(self.constant(each) for each in value)
        raise KernelError(f"a kernel names {type(value).__name__}")
