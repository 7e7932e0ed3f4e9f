"""Import of StableHLO and MHLO modules, such as JAX prints them, by the rules of ONNX models (`onnx.py`).

Products of matrices become `gemm`, convolutions and reductions Einsums. Element-wise operations on several tensors are
layers; those on one, and on what follows from it word by word, are folded into the layer before. Calls are inlined, and
loops whose number of steps follows from constants repeat their layers. Layers with a window have the ranks batch,
channels, rows, columns whatever the layout; a value knows which of its axes these are.
"""

from __future__ import annotations

import bisect
import json
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from accelsim.importers.mlir import HOW, Op, Region, Text, Type
from accelsim.importers.onnx import _each_word, _einsum, _Import, _slid, _write
from accelsim.importers.onnx_shapes import OnnxShapes
from accelsim.inputs.errors import AccelsimError, HintedError, InputError, Problem
from accelsim.inputs.library import Imported
from accelsim.inputs.units import near_miss, quoted

_OPERATIONS = {
    **dict.fromkeys(("add", "subtract", "complex"), "add"),
    **dict.fromkeys(("divide", "remainder"), "divide"),
    **dict.fromkeys(("maximum", "minimum", "clamp"), "max"),
    **dict.fromkeys(("and", "or", "xor", "compare", "select", "power", "atan2", "next_after"), "activate"),
    **dict.fromkeys(("shift_left", "shift_right_arithmetic", "shift_right_logical"), "activate"),
    "multiply": "multiply",
}
_UNARY = re.compile(
    "abs|cbrt|ceil|conj|convert|copy|count_leading_zeros|digamma|erf|erf_inv|erfc|exponential|exponential_minus_one"
    "|floor|imag|is_finite|is_inf|is_(pos|neg)_inf|lgamma|log|log_plus_one|logistic|negate|not|popcnt|real|sign|square"
    "|reduce_precision|round_nearest_(afz|even)|r?sqrt|(co)?sine|a?(cos|sin|tan)h?|uniform_(de)?quantize|bessel_i1e"
    "|bitcast_convert"
)
_SAME = re.compile(
    "(dynamic_)?reshape|transpose|reverse|optimization_barrier|sharding_constraint|.*broadcast(_in_dim)?"
)
_SHARDINGS = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement")
_PARTS = re.compile("(real_)?(dynamic_)?(slice|update_slice|gather|pad)|scatter|torch_index_select|select_and_scatter")
_INTEGERS: Mapping[str, Callable[[int, int], int]] = {
    **{"add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "maximum": max, "minimum": min},
    **{"and": operator.and_, "or": operator.or_},
}
_MOST_STEPS, _MOST_VALUES = 1 << 40, 200_000
"""A loop that has not ended after so many steps has no known number of them; values that are followed, at most."""


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of the module, with the bits in which its words are stored.

    `key` names these words, which a broadcast leaves as they are; `repeats` says how often they stand along each axis,
    and `order` which axes are batch, channels and space. `root` is the value that it follows from word by word, `alone`
    whether nothing else reads that, and `number` what it is where that is a known integer.
    """

    key: str
    type: Type
    repeats: tuple[int, ...]
    root: str
    order: tuple[int, ...] = ()
    alone: bool = True
    number: int | None = None

    @property
    def words(self) -> int:
        """Words that are stored."""
        return self.type.words // math.prod(self.repeats)


Values = Sequence[_Value]
Results = Sequence[_Value | None]


@dataclass(frozen=True, slots=True)
class _Frame:
    """A block that is inlined: its values, how often each is read, the functions around it, and its runs."""

    env: dict[str, _Value | None]
    uses: Counter[str]
    within: tuple[str, ...]
    runs: int = 1


def parameters(path: str | PathLike[str]) -> frozenset[str]:
    """Parameters of a module: `bits`, the width of words of its most frequent type."""
    return frozenset({"bits"})


def import_model(path: str | PathLike[str], sizes: Mapping[str, str]) -> Imported:
    """Read a module as a workload; tensors have the bits of their element types, most of them those of `bits`.

    Raises InputError with every mistake and its place, AccelsimError if nothing in it can be counted.
    """
    module = _Module(Text(path))
    try:
        module.run_main()
    except RecursionError:
        raise AccelsimError(f"{path}: its calls and loops are nested too deeply; split the module") from None
    work = module.work
    if module.problems:
        raise InputError(module.problems)
    if not work.layers:
        why = "".join(f"; {note}" for note in work.notes[:3])
        raise AccelsimError(f"{path}: no operation of the module is a layer that can be counted{why}")
    usual = Counter(bits for layer in work.layers for bits in layer["bits"].values()).most_common(1)[0][0]
    for layer in work.layers:
        layer["bits"] = layer["bits"] if set(layer["bits"].values()) != {usual} else {}
    about = "Tensors have $bits bits, the most frequent width of the module, unless their layer says `bits`."
    return Imported(_write(Path(path), work, usual, about), tuple(work.notes))


class _Module:
    """A module on its way to a workload."""

    def __init__(self, text: Text) -> None:
        self.text, self.problems, self.count = text, list[Problem](), 0
        self.of: dict[str, tuple[int, ...]] = {}
        none: dict[str, Any] = {each.name: {} for each in fields(OnnxShapes)}
        self.work = _Import(OnnxShapes(**none | {"of": self.of}))

    def wrong(self, op: Op, what: str, hint: str) -> None:
        """Note a mistake at an operation."""
        self.problems.append(self.text.problem(op.at, what, hint))

    def note(self, op: Op, frame: _Frame, done: str, why: str) -> None:
        """Say what was done with an operation."""
        self.work.note(_node(op, frame), done, why)

    def run_main(self) -> None:
        """Inline all that `main` does, or the one function that no other calls."""
        functions = {name: op for name, op in self.text.functions.items() if op.blocks}
        called = {op.symbol() for each in functions.values() for op in _inner(each)}
        tops = ["main"] if "main" in functions else [name for name in functions if name not in called]
        if len(tops) != 1:
            what = f"{len(tops)} functions with a body are called by no other, and none is `main`"
            self.text.refuse(next(iter(self.text.functions.values())).at, what, "name one `@main`")
        first = functions[tops[0]]
        values = [self.value(kind or Type((), 0)) for kind in first.blocks[0].params.values()]
        self.work.active.update(value.key for value in values)
        self.run(first.blocks[0], values, _Frame({}, Counter(), (tops[0],)))

    def value(self, kind: Type, like: _Value | None = None, **more: Any) -> _Value:
        """A new value; with `like`, it has the words of another."""
        self.count += 1
        key, order = f"v{self.count}", more.get("order", ())
        self.of[key] = tuple(kind.shape[axis] for axis in order) if order else kind.shape
        if like and like.key in self.work.made:
            self.work.made[key] = self.work.made[like.key]
        if like and like.key in self.work.active:
            self.work.active.add(key)
        return _Value(key, kind, **{"repeats": (1,) * len(kind.shape), "root": key, **more})

    def opaque(self, op: Op, frame: _Frame, why: str) -> list[_Value]:
        """Results of an operation that is skipped."""
        made = [self.value(kind) for kind in op.types]
        self.work.active.update(value.key for value in made)
        self.note(op, frame, "skipped", why)
        return made

    def run(self, block: Region, values: Results, around: _Frame) -> Results:
        """Inline a block with these parameters; returns what it returns."""
        env = around.env | dict(zip(block.params, values, strict=False))
        uses = around.uses + Counter(name for op in _ops(block) for name in op.operands)
        frame = replace(around, env=env, uses=uses)
        for op in block.ops:
            for name in op.operands:
                if name not in env:
                    self.wrong(op, f"{name} is not defined here", near_miss(name, env, "values"))
                    env[name] = None
            given = [env[name] for name in op.operands]
            if op.name == "return":
                return given
            made: Results = []
            try:
                made = self.step(op, [value for value in given if value], frame) if None not in given else []
            except HintedError as error:
                self.wrong(op, error.what, error.hint)
            env.update(zip(op.names, [*made, *[None] * len(op.names)], strict=False))
        return []

    def step(self, op: Op, values: Values, frame: _Frame) -> Results:
        """Inline one operation; a result that is not known because of a mistake is None."""
        self.count += 1
        if self.count > _MOST_VALUES:
            self.text.refuse(op.at, f"calls lead to more than {_MOST_VALUES:,} values", "split the module")
        if op.name in _CONTROLS:
            return _CONTROLS[op.name](self, op, values, frame)
        if len(op.types) < len(op.names):
            raise HintedError(f"{quoted(op.name)} says no type of its result", "write it after `:` or `->`")
        kinds = [*op.types, *(value.type for value in values)]
        if any(size < 0 for kind in kinds for size in kind.shape):
            what = f"{quoted(op.name)} has sizes that the module leaves open"
            raise HintedError(what, f"lower it for arrays of fixed sizes; {HOW}")
        active = [value for value in values if value.key in self.work.active]
        if not active or not op.names or 0 in (kind.words for kind in kinds):  # constants, and what follows from them
            return [self.value(kind, number=_number(op, values)) for kind in op.types]
        if op.name in _MAKERS:
            if len(values) < 2:
                raise HintedError(f"{quoted(op.name)} has one operand", "name both, or the initial value too")
            return _MAKERS[op.name](self, op, values, frame)
        if _SAME.fullmatch(op.name) or op.symbol() in _SHARDINGS:
            return [_moved(self, op, value, kind) for value, kind in zip(values, op.types, strict=False)]
        if _UNARY.fullmatch(op.name) or op.name in _OPERATIONS:
            return [self.each_word(op, active, frame)]
        if op.name == "concatenate":
            made = self.opaque(op, frame, "its inputs stand side by side, which moves no words here")
            several = [self.work.made.get(value.key, []) for value in values]
            if all(several):
                self.work.made[made[0].key] = [name for each in several for name in each]
            return made
        why = "this operation is not known"
        if op.name == "custom_call":
            why = f"what its target {quoted(op.symbol())} does is not known"
        elif _PARTS.fullmatch(op.name):
            why = "it selects, repeats or pads words, which moves none here; what reads it has no edge"
        return self.opaque(op, frame, why)

    def add(
        self, op: Op, frame: _Frame, inputs: dict[str, _Value], made: _Value, does: str = "", **form: dict[str, Any]
    ) -> None:
        """Add a layer: its inputs by name, what it makes, its operation, and its form, of each word where none is."""
        node, sources = _node(op, frame, made), {tensor: value.key for tensor, value in inputs.items()}
        if form:
            self.work.add(node, *form.popitem(), sources)
        else:
            _each_word(self.work, node, list(sources.values()))
        bits = {tensor: value.type.bits for tensor, value in inputs.items()} | {"Outputs": made.type.bits}
        self.work.layers[-1] |= {"operation": does, "bits": bits, "repeat": frame.runs if frame.runs > 1 else 0}
        self.work.active.add(made.key)

    def each_word(self, op: Op, active: Values, frame: _Frame) -> _Value:
        """An element-wise operation: a layer where it reads several values as large as its result, else folded.

        The layer before stores words of the type that it makes if they are narrower and nothing else reads that layer.
        """
        kind = op.types[0]
        roots = {value.root: value for value in reversed(active)}
        large = [value for value in reversed(roots.values()) if value.words == kind.words] or [active[0]]
        data, order = large[0], next((value.order for value in large if value.order), ())
        if len(large) > 1:
            made = self.value(kind, order=order)
            inputs = {f"Inputs{i}": value for i, value in enumerate(large, 1)}
            self.add(op, frame, inputs, made, _OPERATIONS.get(op.name, "activate"))
            return made
        layers = [each for each in self.work.layers if each["name"] in self.work.made.get(data.key, ())]
        alone = data.alone and all(frame.uses[name] == 1 for name in op.operands if frame.env[name] == data)
        bits = data.type.bits
        if len(layers) == 1 and alone and kind.bits < bits:
            layers[0]["bits"] = {"psums": bits} | layers[0]["bits"] | {"Outputs": kind.bits}
            bits = kind.bits
        same = {"order": order, "root": data.root} if data.type.shape == kind.shape else {}
        if not layers:
            self.note(op, frame, "skipped", "no layer makes its input")
        elif op.name != "convert":
            self.note(op, frame, "folded", "it changes words on their way out of the layer before")
        return self.value(replace(kind, bits=bits), data, alone=alone, **same)


def _ops(block: Region) -> list[Op]:
    """Operations of a block and of the regions in it."""
    return [each for op in block.ops for each in (op, *_inner(op))]


def _inner(op: Op) -> list[Op]:
    return [each for block in op.blocks for each in _ops(block)]


def _node(op: Op, frame: _Frame, made: _Value | None = None) -> SimpleNamespace:
    """An operation as `_Import` takes nodes: named by the functions around it, itself, and the name of its result."""
    name = "_".join([op.name, *op.names[:1]]).replace("%", "").partition("#")[0]
    return SimpleNamespace(
        name=".".join([*frame.within[1:], name]), op_type=op.name, output=[made.key if made else name]
    )


def _number(op: Op, values: Values) -> int | None:
    """What an operation on integers gives, None where that is not known."""
    numbers = [value.number for value in values if value.number is not None]
    if op.name == "constant":
        found = re.search(r"dense<(-?\d+|true|false)>", op.text)
        return int(json.loads(found[1])) if found else None
    if op.name == "compare" and len(numbers) == 2:
        found = re.search(r"\b(EQ|NE|GE|GT|LE|LT)\b", op.text)
        return int(getattr(operator, found[1].lower())(*numbers)) if found else None
    if op.name in _INTEGERS and len(numbers) == 2:
        return _INTEGERS[op.name](numbers[0], numbers[1])
    return numbers[0] if op.name in ("convert", "reshape", "broadcast_in_dim") and numbers else None


def _call(module: _Module, op: Op, values: Values, frame: _Frame) -> Results:
    """Inline a call."""
    name, functions = op.symbol(), module.text.functions
    if name not in functions or not functions[name].blocks:
        raise HintedError(f"no function is named {quoted(name)}", near_miss(name, functions, "functions"))
    params = functions[name].blocks[0].params
    if name in frame.within:
        raise HintedError(f"{quoted(name)} calls itself", "write a `while` with a known number of steps")
    if len(params) != len(values):
        raise HintedError(f"{quoted(name)} takes {len(params)} values, got {len(values)}", "pass one for each")
    given = zip(op.operands, values, strict=True)
    values = [replace(value, alone=value.alone and frame.uses[title] == 1) for title, value in given]
    return module.run(functions[name].blocks[0], values, _Frame({}, Counter(), (*frame.within, name), frame.runs))


def _loop(module: _Module, op: Op, values: Values, frame: _Frame) -> Results:
    """Inline a loop: its layers repeat; what it changes has no edge from the step before."""
    read = [*values, *(frame.env.get(name) for each in _inner(op) for name in each.operands)]
    if not any(value and value.key in module.work.active for value in read):
        return [module.value(value.type) for value in values]
    steps, after = _steps(module, op, values, frame)
    if steps is None:
        what = "how often this `while` runs does not follow from constants"
        raise HintedError(what, "give it a fixed number of steps, as lax.scan and lax.fori_loop do")
    inside = []
    for i, value in enumerate(values):
        kept = after[i].key == f"{i}"
        inside.append(replace(value, alone=False) if kept else module.value(value.type))
        if not kept and after[i].number is None:
            module.work.active.add(inside[-1].key)
    if not steps:
        return values
    why = f"its layers run {steps} times; what a step takes from the step before has no edge"
    module.note(op, frame, "counted", why)
    return module.run(op.blocks[1], inside, replace(frame, runs=frame.runs * steps))


def _steps(module: _Module, op: Op, values: Values, frame: _Frame) -> tuple[int | None, Values]:
    """How often a loop runs, None if that is not known; and its values after a step, with `i` as key if they stay."""
    dry = replace(frame, env={name: value and replace(value, key="") for name, value in frame.env.items()})

    def run(block: Region, numbers: Sequence[int | None]) -> Values:
        given = [replace(v, key=f"{i}", number=n) for i, (v, n) in enumerate(zip(values, numbers, strict=True))]
        return [value for value in module.run(block, given, dry) if value]

    start = [value.number for value in values]
    after = run(op.blocks[1], start) if len(op.blocks) == 2 else []
    if len(after) != len(start):
        return None, after
    paces = [None if a is None or b.number is None else b.number - a for a, b in zip(start, after, strict=True)]

    def test(step: int) -> int | None:
        """Whether the loop goes on after so many steps."""
        each = zip(start, paces, strict=True)
        numbers = [a + step * by if a is not None and by is not None else None for a, by in each]
        found = run(op.blocks[0], numbers)
        return found[0].number if found else None

    steps = bisect.bisect_left(range(_MOST_STEPS), True, key=lambda step: not test(step))
    twice = [value.number for value in run(op.blocks[1], [value.number for value in after])]
    ahead = [None if a is None or by is None else a + 2 * by for a, by in zip(start, paces, strict=True)]
    steady = all(None in (a, b) or a == b for a, b in zip(twice, ahead, strict=False))
    return steps if steady and test(steps) == 0 else None, after


def _branch(module: _Module, op: Op, values: Values, frame: _Frame) -> Results:
    """Inline the branch with the most points."""
    layers, before, tried = module.work.layers, len(module.work.layers), []
    for block in op.blocks:
        made = module.run(block, [], frame)
        points = [math.prod((each.get("gemm") or each["einsum"]["dims"]).values()) for each in layers[before:]]
        tried.append((sum(points), layers[before:], made))
        del layers[before:]
    most, added, made = max(tried, key=lambda each: each[0], default=(0, [], []))
    layers += added
    if most:
        why = f"of its {len(tried)} branches the one with the most operations is counted"
        module.note(op, frame, "approximated", why)
    return made


def _moved(module: _Module, op: Op, value: _Value, kind: Type) -> _Value:
    """The value that a reshape, a transpose or a broadcast makes: the same words."""
    old, shape = value.type.shape, kind.shape
    same: dict[str, Any] = {}
    if "broadcast" in op.name:
        axes = op.ints("dims|broadcast_dimensions")
        axes = [*range(len(shape) - len(old), len(shape))] if op.name == "broadcast" else axes
        if len(axes) != len(old) or any(not 0 <= axis < len(shape) for axis in axes):
            raise HintedError(f"its dims {axes} name no axis of the result for each of the operand", "name each")
        repeats = list(shape)
        for axis, size, many in zip(axes, old, value.repeats, strict=True):
            repeats[axis] = many if size == shape[axis] else shape[axis]
    elif op.name == "transpose":
        axes = op.ints("dims|permutation")
        if sorted(axes) != list(range(len(old))):
            raise HintedError(f"its dims {axes} are no order of the axes of its operand", "name each once")
        repeats, same = [value.repeats[axis] for axis in axes], {"order": tuple(map(axes.index, value.order))}
    elif kind.words != value.type.words:
        raise HintedError(f"its operand has {value.type.words} words, its result {kind.words}", "write the same number")
    else:
        repeats = _reshaped(value, shape)
    if old == shape and op.name not in ("transpose", "reverse"):
        same = {"order": value.order, "root": value.root}
    made = module.value(replace(kind, bits=value.type.bits), value, repeats=tuple(repeats), **same)
    return replace(made, key=value.key) if math.prod(repeats) > 1 else made


def _reshaped(value: _Value, shape: Sequence[int]) -> list[int]:
    """How often words stand along each axis after a reshape; once where axes with and without repeats mix."""
    old = [(size, many) for size, many in zip(value.type.shape, value.repeats, strict=True) if size > 1]
    found = []
    for size in shape:
        left, repeats = size, 1
        while left > 1 and old:
            extent, many = old.pop(0)
            part = math.gcd(extent, left)
            if part < min(extent, left) or (part < extent and many not in (1, extent)):
                return [1] * len(shape)
            if part < extent:
                old.insert(0, (extent // part, 1 if many == 1 else extent // part))
            left, repeats = left // part, repeats * min(many, part)
        found.append(repeats)
    return found


def _dot(module: _Module, op: Op, values: Values, frame: _Frame) -> list[_Value]:
    """A product: batch dimensions B and H, rows M of the left, columns N of the right, and the reduction K.

    Rows that share an operand, repeated along a batch dimension, are rows of one product, which reads it once.
    """
    left, right = values[:2]
    shapes = left.type.shape, right.type.shape
    axes = [*_axes(op, "batching"), *_axes(op, "contracting")]
    if op.name == "dot":
        axes = [[], [], [len(shapes[0]) - 1], [0]]
    held = [dict(enumerate(shape)) for shape in shapes * 2]
    sizes = [[of.get(axis, 0) for axis in each] for each, of in zip(axes, held, strict=True)]
    if sizes[0] != sizes[1] or sizes[2] != sizes[3] or 0 in (*sizes[0], *sizes[2]):
        given = " and ".join("x".join(map(str, shape)) for shape in shapes)
        what = f"{sizes[0]} and {sizes[1]} along the batching, {sizes[2]} and {sizes[3]} along the contracting dims"
        raise HintedError(f"of the operands {given}, the sizes differ: {what}", "name axes of equal size")
    outer, reduction = [], math.prod(sizes[2])
    rows, columns = (math.prod(shape) // math.prod(sizes[0]) // reduction for shape in shapes)
    if op.types[0].words != math.prod(sizes[0]) * rows * columns:
        what = f"{math.prod(sizes[0])} products of {rows} rows and {columns} columns are not {op.types[0].words} words"
        raise HintedError(what, "write the type of its result as its operands ask")
    for a, b in zip(*axes[:2], strict=True):
        over = left.repeats[a], right.repeats[b]
        shared = max(over) if 1 in over else 1
        rows, columns = rows * min(shared, over[1]), columns * min(shared, over[0])
        outer.append(shapes[0][a] // shared)
    inputs = {"Inputs": left, "Weights": right}
    if left.key not in module.work.made and right.key in module.work.made:
        rows, columns, inputs = columns, rows, {"Inputs": right, "Weights": left}
    batch = {"B": math.prod(outer[:-1])} if len(outer) > 1 else {}
    batch |= {"H": outer[-1]} if outer else {}
    made = module.value(op.types[0])
    module.add(op, frame, inputs, made, gemm=batch | {"M": rows, "N": columns, "K": reduction})
    if left.words + right.words < math.prod(outer) * reduction * (rows + columns):
        module.note(op, frame, "approximated", "words that stand several times in an operand are counted each time")
    return [made]


def _axes(op: Op, key: str) -> tuple[list[int], list[int]]:
    """Axes of both operands of a product: `batching_dims=[0]x[0]`, or two attributes."""
    found = re.search(rf"\b{key}_dims=\[([\d,]*)\]x\[([\d,]*)\]", op.text)
    left, right = ([int(axis) for axis in text.split(",") if axis] for text in (found.groups() if found else ("", "")))
    return (left, right) if found else (op.ints(f"lhs_{key}_dimensions"), op.ints(f"rhs_{key}_dimensions"))


def _convolution(module: _Module, op: Op, values: Values, frame: _Frame) -> list[_Value]:
    """A convolution over one to three axes; with lhs_dilation each input point, times the kernel, goes to outputs."""
    shapes = [values[0].type.shape, values[1].type.shape, op.types[0].shape]
    layout = re.search(r"\[([^\]]*)\]x\[([^\]]*)\]->\[([^\]]*)\]", op.text)
    names = [text.split(",") for text in layout.groups()] if layout else [[], [], []]
    n = len(names[0]) - 2
    usual = [[*two, *map(str, range(n))] for two in ("bf", "io", "bf")]
    if any(sorted(a) != sorted(b) or len(a) != len(c) for a, b, c in zip(names, usual, shapes, strict=True)):
        hint = "write them like [b,0,1,f]x[0,1,i,o]->[b,0,1,f]"
        raise HintedError("its dim_numbers do not name each axis of its operands and its result once", hint)
    orders = [tuple(map(a.index, b)) for a, b in zip(names, usual, strict=True)]
    x, w, y = ([shape[axis] for axis in order] for shape, order in zip(shapes, orders, strict=True))
    keys = ("window_strides|stride", "lhs_dilat(?:e|ion)", "rhs_dilat(?:e|ion)")
    stride, spread, dilation = (op.ints(key, n) for key in keys)
    groups = op.ints("feature_group_count", 1)[0]
    parts = groups * op.ints("batch_group_count", 1)[0]
    reach = [far * (tap - 1) for far, tap in zip(dilation, w[2:], strict=True)]
    fit = _fit(x[2:], spread, reach, op.ints("padding|pad", 2 * n, 0), stride)
    if [x[0] * groups, x[1], *fit] != [y[0] * parts, w[0] * groups, *y[2:]] or w[1] != y[1] or w[1] % parts:
        what = f"operands of {x} and {w} (batch, channels, axes; in, out, axes) do not give {y}"
        hint = f"see strides, padding, dilations and groups: along the axes they give {fit}"
        raise HintedError(what, hint)
    up = max(spread, default=1) > 1
    if not 1 <= n <= 3 or (up and max(stride) > 1):
        return module.opaque(op, frame, "it has not one to three axes, or both a stride and a dilation of its input")
    outs, taps, group = "OPQ"[-n:], "TRS"[-n:], ["G"] if parts > 1 else []
    slid = _slid(outs, taps, spread if up else stride, dilation)
    dims = {"N": y[0], **dict.fromkeys(group, parts), "K": w[1] // parts, "C": w[0]}
    dims |= dict(zip((*outs, *taps), (*(x if up else y)[2:], *w[2:]), strict=True))
    read, written = (outs, slid) if up else (slid, outs)
    tensors = {"Weights": [*group, "K", "C", *taps], "Inputs": ["N", *group, "C", *read]}
    tensors |= {"Outputs": ["N", *group, "K", *written]}
    made = module.value(op.types[0], order=orders[2])
    inputs = dict(zip(("Inputs", "Weights"), values, strict=False))
    module.add(op, frame, inputs, made, einsum=_einsum(dims, tensors))
    if values[0].order != orders[0] or not (up or _near(x[2:], y[2:], reach, stride)):
        module.work.layers[-1]["from"].pop("Inputs", None)
    if up and y[2:] != _fit(x[2:], spread, [-far for far in reach], [0] * 2 * n, stride):
        del module.work.made[made.key]
        why = "its output is counted before padding is cut off; what reads it has no edge"
        module.note(op, frame, "approximated", why)
    return [made]


def _fit(
    sizes: Sequence[int], spread: Sequence[int], reach: Sequence[int], pads: Sequence[int], stride: Sequence[int]
) -> list[int]:
    """Sizes of what windows make that reach so far beyond their first point."""
    each = enumerate(zip(sizes, spread, reach, stride, strict=True))
    return [((size - 1) * up + sum(pads[2 * i : 2 * i + 2]) - far) // step + 1 for i, (size, up, far, step) in each]


def _near(sizes: Sequence[int], outs: Sequence[int], reach: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether the padding on each side of an input is less than a window, as an edge asks."""
    boxes = [(out - 1) * step + far + 1 for out, far, step in zip(outs, reach, stride, strict=True)]
    each = zip(sizes, boxes, reach, stride, strict=True)
    return all(max(1, box - 2 * far) <= size < box + step for size, box, far, step in each)


def _reduce(module: _Module, op: Op, values: Values, frame: _Frame) -> list[_Value]:
    """A reduction of K words to each of M; what reduces one word only is a reshape."""
    data, made = values[0], module.value(op.types[0])
    many, rest = divmod(data.type.words, max(1, made.type.words))
    if rest:
        what = f"{data.type.words} words are not reduced to {made.type.words}"
        raise HintedError(what, "write the type of its result as its dimensions ask")
    if many == 1:
        return [_moved(module, replace(op, name="reshape"), each, made.type) for each in values[: len(op.types)]]
    form = _einsum({"M": made.type.words, "K": many}, {"Inputs": ["M", "K"], "Outputs": ["M"]})
    module.add(op, frame, {"Inputs": data}, made, _reducer(op), einsum=form)
    return _all_results(module, op, made)


def _all_results(module: _Module, op: Op, made: _Value) -> list[_Value]:
    """What a reduction of several tensors makes, such as words and their places, which is one layer."""
    return [made, *(replace(module.value(kind, made, order=made.order), root=made.root) for kind in op.types[1:])]


def _reducer(op: Op) -> str:
    """What a reduction does at each point."""
    names = [*re.findall(r"applies \w+\.(\w+)", op.text), *(each.name for each in _inner(op))]
    return "max" if "compare" in names else next((_OPERATIONS[name] for name in names if name in _OPERATIONS), "add")


def _window(module: _Module, op: Op, values: Values, frame: _Frame) -> list[_Value]:
    """A reduction over windows, such as pooling."""
    data, shape = values[0], op.types[0].shape
    keys = ("window_dimensions", "window_strides", "window_dilations", "base_dilations")
    window, stride, dilation, spread = (op.ints(key, len(shape)) for key in keys)
    reach = [far * (size - 1) for far, size in zip(dilation, window, strict=True)]
    if len(data.type.shape) != len(shape):
        raise HintedError(f"{len(data.type.shape)} axes become {len(shape)}", "write the type of its result")
    fit = _fit(data.type.shape, spread, reach, op.ints("padding", 2 * len(shape), 0), stride)
    if fit != [*shape]:
        raise HintedError(f"its windows give {fit}, not {[*shape]}", "see its strides, padding and dilations")
    slid = [axis for axis in range(len(shape)) if window[axis] > 1 or stride[axis] > 1]
    slid = list(data.order[2:]) if {*slid} <= {*data.order[2:]} else slid
    plain = [axis for axis in data.order or range(len(shape)) if axis not in slid]
    if not 1 <= len(slid) <= 3 or max(spread) > 1:
        return module.opaque(op, frame, "it has not one to three axes with windows, or dilates its input")
    outs, taps = "OPQ"[-len(slid) :], "TRS"[-len(slid) :]
    dims = {"N": shape[plain[0]] if plain else 1, "C": math.prod(shape[axis] for axis in plain[1:])}
    dims |= dict(zip((*outs, *taps), [given[axis] for given in (shape, window) for axis in slid], strict=True))
    steps = [f"{stride[a]}*{out} + {dilation[a]}*{tap}" for a, out, tap in zip(slid, outs, taps, strict=True)]
    tensors = {"Inputs": ["N", "C", *steps], "Outputs": ["N", "C", *outs]}
    made = module.value(op.types[0], order=(*plain, *slid) if len(plain) == 2 else ())
    module.add(op, frame, {"Inputs": data}, made, _reducer(op), einsum=_einsum(dims, tensors))
    extents = [[given[axis] for axis in slid] for given in (data.type.shape, shape, reach, stride)]
    if data.order != made.order or not _near(*extents):
        module.work.layers[-1]["from"].pop("Inputs", None)
    return _all_results(module, op, made)


_CONTROLS: dict[str, Callable[[_Module, Op, Values, _Frame], Results]] = {
    **dict.fromkeys(("call", "composite"), _call),
    **dict.fromkeys(("case", "if"), _branch),
    "while": _loop,
}
_MAKERS: dict[str, Callable[[_Module, Op, Values, _Frame], list[_Value]]] = {
    **dict.fromkeys(("dot", "dot_general"), _dot),
    **{"convolution": _convolution, "reduce": _reduce, "reduce_window": _window},
}
