"""Kernels as text of LLVM: what functions of numbers, arrays and named tuples do, from their Python source.

Kernels are written in a small part of Python: numbers, arrays, tuples, `if`, `for` over ranges, `while`, calls of
other kernels. Integers have 64 bits and wrap around, `//` and `%` round down and are 0 where the divisor is, a float
divided by 0 is infinite, indices from the end count backwards, and none is checked. Where several assignments may reach
a use, the name has one kind that holds them all: a float for an integer and a float. Such a name is a word in memory,
any other one a value of LLVM. No computation is written again where an equal one always came before.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import cache, reduce
from itertools import pairwise
from typing import NamedTuple

from accelsim.model.kernel_source import source_of
from accelsim.model.kinds import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    SCALARS,
    UINT,
    VALUES,
    Computed,
    KernelError,
    Word,
    items_of,
    joined,
    members_of,
    passed_as,
    returned_as,
    shown,
    together,
    types_of,
)
from accelsim.model.machine_code import PREFIX, Source
from accelsim.model.passing import ArgumentType
from accelsim.model.writing import Index, Writer

_OF_FLOATS = {"np.ceil": "ceil", "np.floor": "floor", "math.log": "log", "math.exp": "exp"}
_CONVERSIONS = {"float": FLOAT, "int": INT, "bool": BOOL, "np.uint64": UINT}

Kinds = tuple[ArgumentType, ...]


class Lowered(NamedTuple):
    """A kernel, written in LLVM's language."""

    text: str
    """Text of the function."""
    result: ArgumentType
    """Kind of the result."""
    called: dict[str, str]
    """Declarations of the functions that it calls, by name."""
    within: tuple[tuple[Source, Kinds], ...]
    """Kernels that are a part of the text, with the kinds of their arguments."""


class _Known(NamedTuple):
    """What is found out about a function while it is written."""

    kinds: dict[str, ArgumentType]
    """Kinds of names."""
    branches: dict[tuple[int, int], ArgumentType]
    """Kinds of expressions with two branches, by their places in the source."""
    result: list[ArgumentType]
    """Kind of the result, none until it is found."""
    in_memory: set[str]
    """Names that are in memory."""


ResultOf = Callable[[Source, Kinds], tuple[str, ArgumentType, bool]]


def lower(
    kernel: Source,
    kinds: Kinds,
    symbol: str,
    result_of: ResultOf,
) -> Lowered:
    """Write a kernel for kinds of arguments.

    Parameters
    ----------
    kernel : Source
    kinds : tuple
    symbol : str
        Name of the function in LLVM.
    result_of : callable
        Of a kernel that is called and the kinds of its arguments: its name in LLVM, the kind of its result, and whether
        it is a part of this text.

    Raises
    ------
    KernelError
        If the source does what kernels do not do.
    """
    known = _Known({}, {}, [], set())
    while True:
        before = dict(known.kinds), dict(known.branches), list(known.result), set(known.in_memory)
        lowered = _KernelText(kernel, symbol, result_of, known).write(kinds)
        if before == known:
            return lowered


@cache
def _assigned(node: ast.AST) -> frozenset[str]:
    """Names that a statement assigns."""
    return frozenset(
        each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    )


def _refusal(node: ast.AST) -> KernelError:
    return KernelError(f"kernels have no {type(node).__name__}: {ast.unparse(node)}")


class _KernelText(Writer):
    """One function, written once; what it finds out about names is known when it is written again."""

    def __init__(self, kernel: Source, symbol: str, result_of: ResultOf, known: _Known) -> None:
        super().__init__(known.kinds, known.in_memory)
        self.kernel, self.symbol, self.result_of, self.known = kernel, symbol, result_of, known
        self.tree, self.globals = source_of(kernel.function), kernel.function.__globals__
        self.loops: list[tuple[str, str]] = []
        self.within: dict[tuple[Source, Kinds], None] = {}
        self.node: ast.AST = self.tree

    def write(self, kinds: Kinds) -> Lowered:
        """Write all of it for kinds of arguments."""
        names, words = [each.arg for each in self.tree.args.args], []
        if len(names) != len(kinds):
            raise KernelError(f"{self.kernel.name} takes {len(names)} arguments, not {len(kinds)}")
        self.local = _assigned(self.tree) | set(names)
        for name, kind in zip(names, kinds, strict=True):
            parts = tuple(f"%{name}.{at}" for at in range(len(types_of(kind))))
            words += [f"{passed_as(type_)} {part}" for type_, part in zip(types_of(kind), parts, strict=True)]
            self.bind(name, Computed(kind, parts))
        try:
            self._body(self.tree.body)
        except KernelError as error:
            line = getattr(self.node, "lineno", 0)
            raise KernelError(f"{self.kernel.name}, line {line}: {error}") from None
        result = self.known.result[0] if self.known.result else NONE
        self.end("ret void" if result == NONE else "unreachable")
        if result[0] == VALUES:
            words.insert(0, "ptr %result")
        for name in sorted(self.in_memory):
            for at, type_ in enumerate(types_of(self.kinds[name])):
                self.beginning.append(f"%{name}.m{at} = alloca {type_}")
        linkage, inlined = ("", "") if self.symbol.startswith(PREFIX) else ("internal ", " alwaysinline")
        head = f'define {linkage}{returned_as(result)} @"{self.symbol}"({", ".join(words)}) nounwind{inlined} {{'
        text = "\n".join([head, "begin:", *self.beginning, *self.lines, "}", ""])
        return Lowered(text, result, self.called, tuple(self.within))

    def _body(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if self.ended:
                return
            self.node = statement
            write = getattr(self, f"_do_{type(statement).__name__.lower()}", None)
            if write is None:
                raise _refusal(statement)
            write(statement)

    def _do_expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self._expression(node.value)

    def _do_pass(self, node: ast.Pass) -> None:
        pass

    def _do_return(self, node: ast.Return) -> None:
        value = self._expression(node.value) if node.value is not None else Computed(NONE, ())
        kind = reduce(joined, self.known.result, value.kind)
        self.known.result[:] = [kind]
        value = self.converted(value, kind)
        parts = [self.text(part) for part in value.parts]
        if kind[0] == VALUES:
            for of in kind[1]:
                if of[0] not in SCALARS:
                    raise KernelError(f"no kernel returns {shown(of)} in a tuple")
            for at, (type_, part) in enumerate(zip(types_of(kind), parts, strict=True)):
                place = self.pure(f"getelementptr i64, ptr %result, i64 {at}")
                self.do(f"store {type_} {part}, ptr {place}")
        elif kind[0] not in SCALARS and kind != NONE:
            raise KernelError(f"no kernel returns {shown(kind)}")
        self.end(f"ret {SCALARS[kind[0]]} {parts[0]}" if kind[0] in SCALARS else "ret void")

    def _do_assign(self, node: ast.Assign) -> None:
        value = self._expression(node.value)
        for target in node.targets:
            self._assign(target, value)

    def _assign(self, target: ast.expr, value: Computed) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, value)
        elif isinstance(target, ast.Tuple):
            if value.kind[0] != VALUES or len(value.kind[1]) != len(target.elts):
                raise KernelError(f"{shown(value.kind)} has no {len(target.elts)} parts")
            for each, part in zip(target.elts, items_of(value), strict=True):
                self._assign(each, part)
        elif isinstance(target, ast.Subscript):
            place = self._place(target)
            if place.kind[2] == 0:
                self.store(place.kind[1], place.parts[0], value)
                return
            place = self.each_element(place)
            with self.counting("0", self.text(place.parts[1]), "1") as (at, _):
                self.store(place.kind[1], self.item(place, at), value)
        else:
            raise _refusal(target)

    def _do_augassign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            before = self.read(node.target.id)
            self.bind(node.target.id, self.binary(node.op, before, self._expression(node.value)))
        elif isinstance(node.target, ast.Subscript):
            place = self._place(node.target)
            if place.kind[2]:
                raise KernelError("a row is not changed as a whole")
            before = self.load(place.kind[1], place.parts[0])
            value = self.binary(node.op, before, self._expression(node.value))
            self.store(place.kind[1], place.parts[0], value)
        else:
            raise _refusal(node)

    def _do_if(self, node: ast.If) -> None:
        known = self._known(node.test)
        if known is not None:
            self._body(node.body if known else node.orelse)
            return
        yes, no, after = self.label("then"), self.label("else"), self.label("after")
        self._branch(node.test, yes, no if node.orelse else after)
        changed: set[str] = set()
        reached = not node.orelse
        for label, body in ((yes, node.body), (no, node.orelse)):
            if body:
                self.begin(label)
                with self.scope():
                    self._body(body)
                if not self.ended:
                    changed |= {name for each in body for name in _assigned(each)}
                    reached = True
                    self.jump(after)
        if reached:
            self.begin(after)
            self.forget(changed)
        self.ended = not reached

    def _do_while(self, node: ast.While) -> None:
        if node.orelse:
            raise _refusal(node)
        again, body, after = self.label("while"), self.label("do"), self.label("after")
        changed = _assigned(node)
        self.jump(again)
        with self.scope(changed):
            self.begin(again)
            forever = isinstance(node.test, ast.Constant) and bool(node.test.value)
            if forever:
                self.jump(body)
            else:
                self._branch(node.test, body, after)
            self.begin(body)
            self._loop(node.body, again, after)
            self.jump(again)
        if not forever or any(isinstance(each, ast.Break) for each in ast.walk(node)):
            self.begin(after)
            self.forget(changed)

    def _loop(self, body: Sequence[ast.stmt], again: str, after: str) -> None:
        self.loops.append((again, after))
        self._body(body)
        self.loops.pop()

    def _do_break(self, node: ast.Break) -> None:
        self.jump(self.loops[-1][1])

    def _do_continue(self, node: ast.Continue) -> None:
        self.jump(self.loops[-1][0])

    def _do_for(self, node: ast.For) -> None:
        if node.orelse or not isinstance(node.target, ast.Name):
            raise _refusal(node)
        target, changed = node.target.id, _assigned(node)
        if isinstance(node.iter, ast.Call) and isinstance(node.iter.func, ast.Name) and node.iter.func.id == "range":
            ends = [self._scalar(each, INT) for each in node.iter.args]
            start, stop, step = (["0", *ends, "1"] if len(ends) == 1 else [*ends, "1"])[:3]
            with self.counting(start, stop, step, changed) as (at, (again, after)):
                self.bind(target, Computed(INT, (at,)))
                self._loop(node.body, again, after)
        else:
            over = self._expression(node.iter)
            line = self.listed(over) if over.kind[0] == VALUES else over
            if line.kind[0] != "array" or line.kind[2] != 1:
                raise KernelError(f"nothing goes over {shown(over.kind)}")
            with self.counting("0", self.text(line.parts[1]), "1", changed) as (at, (again, after)):
                self.bind(target, self.load(line.kind[1], self.item(line, at)))
                self._loop(node.body, again, after)
        self.forget(changed)

    def _known(self, node: ast.expr) -> bool | None:
        """Whether a condition holds whatever the values of these kinds are: what is for others is not compiled."""
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
            if not (isinstance(node.comparators[0], ast.Constant) and node.comparators[0].value is None):
                raise KernelError("only None is compared with `is`")
            return (self._expression(node.left).kind == NONE) == isinstance(node.ops[0], ast.Is)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self._known(node.operand)
            return None if inner is None else not inner
        if isinstance(node, ast.BoolOp):
            decides = isinstance(node.op, ast.Or)
            every = [self._known(each) for each in node.values]
            if decides in every:
                return decides
            return None if None in every else not decides
        return None

    def _branch(self, node: ast.expr, yes: str, no: str) -> None:
        """Go to one of two places by a condition."""
        known = self._known(node)
        if known is not None:
            self.jump(yes if known else no)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._branch(node.operand, no, yes)
        elif isinstance(node, ast.BoolOp):
            opened = len(self.scopes)
            for each in node.values[:-1]:
                further = self.label("and" if isinstance(node.op, ast.And) else "or")
                if isinstance(node.op, ast.And):
                    self._branch(each, further, no)
                else:
                    self._branch(each, yes, further)
                self.begin(further)
                self.scopes.append({})
            self._branch(node.values[-1], yes, no)
            del self.scopes[opened:]
        else:
            self.end(f"br i1 {self.truth(self._expression(node))}, label %{yes}, label %{no}")

    def _expression(self, node: ast.expr) -> Computed:
        write = getattr(self, f"_of_{type(node).__name__.lower()}", None)
        if write is None:
            raise _refusal(node)
        value: Computed = write(node)
        return value

    def _scalar(self, node: ast.expr, kind: ArgumentType) -> str:
        """Word of an expression of one kind, widened if need be."""
        value = self._expression(node)
        if value.kind[0] not in SCALARS or (kind == INT and value.kind not in (INT, BOOL)):
            raise KernelError(f"{ast.unparse(node)} is {shown(value.kind)}, not {shown(kind)}")
        return self.text(self.converted(value, kind).parts[0])

    def _of_constant(self, node: ast.Constant) -> Computed:
        return self.constant(node.value)

    def _of_name(self, node: ast.Name) -> Computed:
        if node.id in self.local:
            return self.read(node.id)
        if node.id not in self.globals:
            raise KernelError(f"{node.id} is not known")
        return self.constant(self.globals[node.id])

    def _of_tuple(self, node: ast.Tuple) -> Computed:
        return together(self._expression(each) for each in node.elts)

    def _of_attribute(self, node: ast.Attribute) -> Computed:
        if isinstance(node.value, ast.Name) and node.value.id not in self.local:
            return self.constant(getattr(self.globals[node.value.id], node.attr))
        of = self._expression(node.value)
        if of.kind[0] == "array" and node.attr == "shape":
            return together(Computed(INT, (part,)) for part in self.bounds(of))
        if of.kind[0] == "array" and node.attr == "size":
            return Computed(INT, (self.size(of),))
        if of.kind[0] != "tuple" or node.attr not in members_of(of.kind):
            raise KernelError(f"{shown(of.kind)} has no {node.attr}")
        kind, at = members_of(of.kind)[node.attr]
        table = self.text(of.parts[0])
        if kind == BOOL:
            return Computed(BOOL, (self.pure(f"trunc i64 {self.text(Word(table, at, 'i64'))} to i1"),))
        return Computed(kind, tuple(Word(table, at + place, type_) for place, type_ in enumerate(types_of(kind))))

    def _of_subscript(self, node: ast.Subscript) -> Computed:
        of = self._expression(node.value)
        if of.kind[0] == VALUES:
            items, index = items_of(of), ast.unparse(node.slice)
            if isinstance(node.slice, ast.Slice):
                ends = [
                    None if each is None else int(ast.literal_eval(each))
                    for each in (node.slice.lower, node.slice.upper)
                ]
                return together(items[slice(*ends)])
            if index.lstrip("-").isdigit():
                return items[int(index)]
            of = self.listed(of)
        place = self._place(node, of)
        return self.load(place.kind[1], place.parts[0]) if place.kind[2] == 0 else place

    def _place(self, node: ast.Subscript, of: Computed | None = None) -> Computed:
        of = of or self._expression(node.value)
        if of.kind[0] != "array":
            raise KernelError(f"{shown(of.kind)} has no elements")
        every = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return self.view(of, [self._index(each) for each in every])

    def _index(self, node: ast.expr) -> Index:
        """An integer, or the ends of a slice."""
        if not isinstance(node, ast.Slice):
            return self._scalar(node, INT)
        if node.step is not None:
            raise _refusal(node)
        return tuple([None if each is None else self._scalar(each, INT) for each in (node.lower, node.upper)])

    def _of_unaryop(self, node: ast.UnaryOp) -> Computed:
        if isinstance(node.op, ast.Not):
            known = self._known(node)
            if known is not None:
                return self.constant(known)
            return Computed(BOOL, (self.pure(f"xor i1 {self.truth(self._expression(node.operand))}, true"),))
        value = self._expression(node.operand)
        if value.kind == BOOL:
            value = self.converted(value, INT)
        text = self.text(value.parts[0])
        if isinstance(node.op, ast.USub) and value.kind == FLOAT:
            return Computed(FLOAT, (self.pure(f"fneg double {text}"),))
        if value.kind != INT:
            raise _refusal(node)
        if isinstance(node.op, ast.USub):
            return Computed(INT, (str(-int(text)) if text.isdigit() else self.pure(f"sub i64 0, {text}"),))
        if isinstance(node.op, ast.Invert):
            return Computed(INT, (self.pure(f"xor i64 {text}, -1"),))
        raise _refusal(node)

    def _of_binop(self, node: ast.BinOp) -> Computed:
        return self.binary(node.op, self._expression(node.left), self._expression(node.right))

    def _of_compare(self, node: ast.Compare) -> Computed:
        known = self._known(node)
        if known is not None:
            return self.constant(known)
        if isinstance(node.ops[0], ast.In | ast.NotIn):
            left, among = self._expression(node.left), self._expression(node.comparators[0])
            if among.kind[0] != VALUES:
                raise _refusal(node)
            any_ = reduce(self.either, (self.compared(ast.Eq(), left, each) for each in items_of(among)))
            return Computed(BOOL, (any_ if isinstance(node.ops[0], ast.In) else self.pure(f"xor i1 {any_}, true"),))
        values = [self._expression(node.left)]
        if any(isinstance(part, ast.Call) for each in node.comparators[1:] for part in ast.walk(each)):
            raise _refusal(node)  # Python might not call it
        values += [self._expression(each) for each in node.comparators]
        found = [self.compared(operator, *pair) for operator, pair in zip(node.ops, pairwise(values), strict=True)]
        return Computed(BOOL, (reduce(lambda a, b: self.pure(f"and i1 {a}, {b}"), found),))

    def _of_boolop(self, node: ast.BoolOp) -> Computed:
        known = self._known(node)
        if known is not None:
            return self.constant(known)
        decides = "true" if isinstance(node.op, ast.Or) else "false"
        end, found, opened = self.label("end"), [], len(self.scopes)
        for index, each in enumerate(node.values):
            value = self._expression(each)
            if value.kind != BOOL:
                raise KernelError(f"{ast.unparse(each)} is {shown(value.kind)}, not a flag")
            text = self.text(value.parts[0])
            if index == len(node.values) - 1:
                found.append((text, self.block))
                self.jump(end)
                break
            found.append((decides, self.block))
            further = self.label("and")
            ways = (end, further) if decides == "true" else (further, end)
            self.end(f"br i1 {text}, label %{ways[0]}, label %{ways[1]}")
            self.begin(further)
            self.scopes.append({})
        del self.scopes[opened:]
        self.begin(end)
        return Computed(BOOL, (self.new("phi i1 " + ", ".join(f"[ {text}, %{block} ]" for text, block in found)),))

    def _of_ifexp(self, node: ast.IfExp) -> Computed:
        known = self._known(node.test)
        if known is not None:
            return self._expression(node.body if known else node.orelse)
        ways = [self.label("then"), self.label("else")]
        end = self.label("end")
        self._branch(node.test, *ways)
        kind: ArgumentType = NONE
        place, known_kinds = (node.lineno, node.col_offset), self.known.branches
        found: list[tuple[list[str], str]] = []
        for label, each in zip(ways, (node.body, node.orelse), strict=True):
            self.begin(label)
            with self.scope():
                value = self._expression(each)
                kind = known_kinds[place] = joined(known_kinds.get(place, value.kind), value.kind)
                parts = [self.text(part) for part in self.converted(value, kind).parts]
            found.append((parts, self.block))
            self.jump(end)
        self.begin(end)
        parts = []
        for at, type_ in enumerate(types_of(kind)):
            ends = ", ".join(f"[ {texts[at]}, %{block} ]" for texts, block in found if at < len(texts))
            parts.append(self.new(f"phi {type_} {ends}"))
        return Computed(kind, tuple(parts))

    def _of_call(self, node: ast.Call) -> Computed:
        if node.keywords:
            raise _refusal(node)
        name = ast.unparse(node.func)
        if name in _OF_FLOATS:
            return Computed(FLOAT, (self.intrinsic(_OF_FLOATS[name], self._scalar(node.args[0], FLOAT)),))
        if isinstance(node.func, ast.Attribute) and node.func.attr == "any":
            return self.any_of(self._expression(node.func.value))
        arguments = [self._expression(each) for each in node.args]
        if name in _CONVERSIONS:
            return self.converted(arguments[0], _CONVERSIONS[name])
        if name in ("min", "max"):
            return reduce(lambda a, b: self.least(name, a, b), arguments)
        if name == "abs":
            return self.absolute(arguments[0])
        if name == "len" and arguments[0].kind[0] == "array":
            return Computed(INT, (self.bounds(arguments[0])[0],))
        kernel = self.globals.get(name)
        if isinstance(kernel, Source) and name not in self.local:
            return self._call(kernel, arguments)
        raise _refusal(node)

    def _call(self, kernel: Source, arguments: Sequence[Computed]) -> Computed:
        kinds = tuple(each.kind for each in arguments)
        symbol, result, within = self.result_of(kernel, kinds)
        types = [passed_as(type_) for kind in kinds for type_ in types_of(kind)]
        if within:
            self.within[kernel, kinds] = None
        else:
            taken = ", ".join(["ptr", *types] if result[0] == VALUES else types)
            self.called[symbol] = f'declare {returned_as(result)} @"{symbol}"({taken}) nounwind'
        parts = [self.text(part) for each in arguments for part in each.parts]
        words = [f"{type_} {part}" for type_, part in zip(types, parts, strict=True)]
        if result[0] != VALUES:
            text = f'call {returned_as(result)} @"{symbol}"({", ".join(words)})'
            if result == NONE:
                self.do(text)
                return Computed(NONE, ())
            return Computed(result, (self.new(text),))
        room = self.room("results", f"[{len(result[1])} x i64]")
        self.do(f'call void @"{symbol}"({", ".join([f"ptr {room}", *words])})')
        read = []
        for at, type_ in enumerate(types_of(result)):
            place = self.pure(f"getelementptr i64, ptr {room}, i64 {at}")
            read.append(self.new(f"load {type_}, ptr {place}"))
        return Computed(result, tuple(read))
