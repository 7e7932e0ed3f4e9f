"""Compiling kernels with Numba: each once by itself, with named tuples of arrays as pointers to tables.

Numba would pass each array of a named tuple as seven or more values through every call, and compile what a function
calls again with each of its callers; compiling took five times as long.
"""

from __future__ import annotations

import gc
import hashlib
import inspect
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, reduce
from typing import Any, ClassVar

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from llvmlite.ir.instructions import InsertValue
from numba import _dynfunc, types
from numba.core import cgutils, typed_passes, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.typing.templates import AttributeTemplate, Signature, infer_getattr, signature
from numba.extending import intrinsic, lower_getattr_generic, models, register_model
from numba.np.arrayobj import load_item, store_item
from numba.np.numpy_support import as_dtype

from accelsim.model.machine_code import (
    LOCK,
    NEXT_SAID,
    PREFIX,
    ArgumentType,
    Code,
    Source,
    keep_code,
    name_of,
    read_code,
    say_compiling,
)

_NEEDLESS = {
    untyped_passes.WithLifting,
    untyped_passes.InlineClosureLikes,
    untyped_passes.RewriteDynamicRaises,
    untyped_passes.MakeFunctionToJitFunction,
    untyped_passes.InlineInlinables,
    untyped_passes.FindLiterallyCalls,
    untyped_passes.LiteralUnroll,
    untyped_passes.LiteralPropagationSubPipelinePass,
    typed_passes.InlineOverloads,
    typed_passes.DumpParforDiagnostics,
    typed_passes.IRLegalization,
    typed_passes.NopythonRewrites,
}
"""Passes of Numba for what kernels do not use; each walks through the whole function again."""
_TYPES: dict[str, Any] = {
    "int": types.int64,
    "uint": types.uint64,
    "float": types.float64,
    "bool": types.boolean,
    "none": types.none,
}
"""Numba's types of scalars; see `machine_code.SCALARS`."""
_LEVEL = 1
"""Of LLVM's optimisation: kernels are as fast as with level 3, which compiles for a tenth longer."""
_WORD = ir.IntType(64)
_POINTER = ir.IntType(8).as_pointer()


class _Library(JITCodeLibrary):  # type: ignore[misc]
    """Code that is optimised once, as a whole, and not run here; Numba optimises each function alone before that."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Without Numba's first round, which is for counts of references, and at the level that is compiled soonest."""
        options = llvm.create_pipeline_tuning_options(speed_level=_LEVEL)
        options.loop_vectorization = True
        builder = llvm.create_pass_builder(self._codegen._tm, options)
        builder.getModulePassManager().run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        """Without Numba's own loading of it."""
        self._finalized = True

    def machine_code(self) -> bytes:
        """The object file."""
        return bytes(self._codegen._tm.emit_object(self._final_module))


def _part(builder: Any, value: Any, *at: int) -> Any:
    """A part of a structure: the value that was inserted there, if that is known."""
    whole = value
    while isinstance(value, InsertValue):
        if tuple(value.indices) == at:
            return value.value
        value = value.aggregate
    return builder.extract_value(whole, at)


def _array(context: Any, builder: Any, of: Any, data: Any, shape: Sequence[Any]) -> Any:
    """An array in C order, without memory of its own, from the address of its elements and its bounds."""
    model = context.data_model_manager[of]
    places = {name: at for at, name in enumerate(model._fields)}
    array = ir.Constant(model.get_value_type(), None)
    step = _WORD(context.get_abi_sizeof(context.get_data_type(of.dtype)))
    array = builder.insert_value(array, step, places["itemsize"])
    array = builder.insert_value(array, data, places["data"])
    array = builder.insert_value(array, reduce(builder.mul, shape), places["nitems"])
    for axis in reversed(range(of.ndim)):
        array = builder.insert_value(array, shape[axis], [places["shape"], axis])
        array = builder.insert_value(array, step, [places["strides"], axis])
        step = builder.mul(step, shape[axis]) if axis else step
    return array


class _Lower(Lower):  # type: ignore[misc]
    """Numba's code of a function, with fewer instructions for an element or a row of an array.

    Numba writes arrays to memory and reads their parts from there; to take that out again is most of what LLVM does.
    """

    def __init__(self, context: Any, *arguments: Any, **named: Any) -> None:
        super().__init__(context, *arguments, **named)
        self.context.get_abi_sizeof = cache(context.get_abi_sizeof)  # LLVM is asked by a module of text

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """Read an element, or make an array of a row."""
        found = self._find(value, index)
        if found is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        of, place, shape = found
        if shape:
            return _array(self.context, self.builder, resty, place, shape)
        item = load_item(self.context, self.builder, of, place)
        return self.context.cast(self.builder, item, of.dtype, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """Write an element."""
        found = self._find(target_var, index_var)
        if found is None or found[2]:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        of, place, _ = found
        value = self.loadvar(value_var.name)
        value = self.context.cast(self.builder, value, self.typeof(value_var.name), of.dtype)
        return store_item(self.context, self.builder, of, value, place)

    def _find(self, array_var: Any, index_var: Any) -> tuple[Any, Any, list[Any]] | None:
        """Type of an array, address of what an index of integers denotes, and its bounds; None for other indices."""
        of, index_of = self.typeof(array_var.name), self.typeof(index_var.name)
        kinds = index_of.types if isinstance(index_of, types.BaseTuple) else (index_of,)
        if not (isinstance(of, types.Array) and of.layout == "C" and all(isinstance(k, types.Integer) for k in kinds)):
            return None
        builder, array, index = self.builder, self.loadvar(array_var.name), self.loadvar(index_var.name)
        places = {name: at for at, name in enumerate(self.context.data_model_manager[of]._fields)}
        shape = [_part(builder, array, places["shape"], axis) for axis in range(of.ndim)]
        at = _WORD(0)
        for axis, kind in enumerate(kinds):
            which = _part(builder, index, axis) if isinstance(index_of, types.BaseTuple) else index
            which = self.context.cast(builder, which, kind, types.intp)
            if kind.signed and not (isinstance(which, ir.Constant) and which.constant >= 0):
                negative = builder.icmp_signed("<", which, _WORD(0))
                which = builder.select(negative, builder.add(which, shape[axis]), which)
            at = builder.add(builder.mul(at, shape[axis]), which) if axis else which
        for bound in shape[len(kinds) :]:
            at = builder.mul(at, bound)
        return of, builder.gep(_part(builder, array, places["data"]), [at]), shape[len(kinds) :]


class _Typing:
    """Numba's rules of types, remembering what they said: it asks them anew for each operation, in several rounds."""

    _known: ClassVar[dict[Any, Any]] = {}

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, arguments: Sequence[Any], named: dict[str, Any]) -> Any:
        """Signature of a function for types of its arguments; None where it takes no such ones."""
        asked = function, tuple(arguments), tuple(sorted(named.items()))
        if asked not in self._known:
            self._known[asked] = self._context.resolve_function_type(function, arguments, named)
        return self._known[asked]

    def resolve_getattr(self, of: Any, name: str) -> Any:
        """Type of an attribute; None where there is none."""
        if (of, name) not in self._known:
            self._known[of, name] = self._context.resolve_getattr(of, name)
        return self._known[of, name]


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(typed_passes.NativeLowering):  # type: ignore[misc]
    """The pass that makes LLVM's code."""

    _name = "kernel_lowering"
    lowering_class = _Lower

    def run_pass(self, state: Any) -> bool:
        """Make the code, and let callers find it by an object that stands for it."""
        state.flags.no_compile = True
        super().run_pass(state)
        state.library.finalize()
        described = state.cr.fndesc
        stands_for = _dynfunc.make_function(described.lookup_module(), described.qualname, "", 0, state.cr.env, ())
        state.targetctx.insert_user_function(stands_for, described, [state.library])
        state.cr = state.cr._replace(cfunc=stands_for)
        return True


class _Compiler(CompilerBase):  # type: ignore[misc]
    """Numba's passes without those for what kernels do not use."""

    def define_pipelines(self) -> list[PassManager]:
        """Give the passes in order, and a library for what they make."""
        self.state.library = _Library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.typingctx = _Typing(self.state.typingctx)
        every, some = DefaultPassBuilder.define_nopython_pipeline(self.state), PassManager("kernel")
        for each, name in every.passes:
            if each not in _NEEDLESS:
                some.add_pass(_Lowering if each is typed_passes.NativeLowering else each, name)
        some.finalize()
        return [some]


_OPTIONS: dict[str, Any] = {
    "error_model": "numpy",
    "nogil": True,
    "_nrt": False,  # arrays belong to the caller: counting references would take most of the time
    "pipeline_class": _Compiler,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


class ArrayTable(types.Type):  # type: ignore[misc]  # Numba has no types
    """A named tuple as a pointer to the addresses and shapes of its arrays; see `machine_code`.

    Parameters
    ----------
    kind : Kind
        ("tuple", class, kinds of its fields).
    """

    def __init__(self, kind: ArgumentType) -> None:
        self.kind = kind
        self.members: dict[str, tuple[Any, int]] = {}
        at = 0
        for name, each in zip(kind[1]._fields, kind[2], strict=True):
            self.members[name] = (_type_of(each), at)
            at += 1 + (each[2] if each[0] == "array" else 0)
        key = hashlib.sha256(repr([(name, str(of)) for name, (of, _) in self.members.items()]).encode()).hexdigest()
        super().__init__(name=f"{kind[1].__name__}_{key[:12]}")


@register_model(ArrayTable)
class _TableModel(models.OpaqueModel):  # type: ignore[misc]
    """One pointer."""


@infer_getattr
class _Members(AttributeTemplate):  # type: ignore[misc]
    key = ArrayTable

    def generic_resolve(self, table: ArrayTable, name: str) -> Any:
        return table.members[name][0] if name in table.members else None


@lower_getattr_generic(ArrayTable)  # type: ignore[untyped-decorator]
def _get_member(context: Any, builder: Any, table: ArrayTable, pointer: Any, name: str) -> Any:
    """Read an array, or another table, from a table; nothing writes to tables, so reads may be moved and merged."""
    of, at = table.members[name]
    words = builder.bitcast(pointer, _WORD.as_pointer())

    def word(number: int, kind: Any = _WORD) -> Any:
        place = builder.gep(words, [_WORD(number)])
        read = builder.load(place if kind is _WORD else builder.bitcast(place, kind.as_pointer()), typ=kind)
        read.set_metadata("invariant.load", builder.module.add_metadata([]))
        return read

    if isinstance(of, types.Array):
        data = word(at, context.get_data_type(of.dtype).as_pointer())
        return _array(context, builder, of, data, [word(at + 1 + axis) for axis in range(of.ndim)])
    if isinstance(of, ArrayTable):
        return word(at, _POINTER)
    if isinstance(of, types.Float):
        return word(at, ir.DoubleType())
    if isinstance(of, types.Boolean):
        return builder.trunc(word(at), ir.IntType(1))
    return context.get_constant_null(of) if of is types.none else word(at)


def _type_of(kind: ArgumentType) -> Any:
    """Numba's type of an argument."""
    if kind[0] == "array":
        return types.Array(numba.from_dtype(np.dtype(kind[1])), kind[2], "C" if kind[3] else "A")
    if kind[0] == "tuple":
        return _table_type(kind)
    return _TYPES[kind[0]]


@cache
def _table_type(kind: ArgumentType) -> ArrayTable:
    return ArrayTable(kind)


def _kind_of(of: Any) -> ArgumentType:
    """Kind of an argument of Numba's type: as of what Python passes, or the type itself for what it cannot pass."""
    if isinstance(of, ArrayTable):
        return of.kind
    if isinstance(of, types.Array):
        return ("array", as_dtype(of.dtype).char, of.ndim, {"C": True, "A": False}.get(of.layout, of.layout))
    return (str(of), *(str(each) for each in getattr(of, "types", ())), str(getattr(of, "instance_class", "")))


def compile_kernel(kernel: Source, kinds: tuple[ArgumentType, ...]) -> None:
    """Compile a kernel for what Python passes, and say how long that takes."""
    with LOCK, _rare_collections():
        _STARTED[:] = [time.monotonic()]
        _compile(kernel, tuple(_type_of(kind) for kind in kinds), name_of(kernel, kinds))
        NEXT_SAID[0] += time.monotonic() - _STARTED[0]


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Look for cycles of objects less often: Numba makes objects by the million, and nearly all stay to the end."""
    thresholds = gc.get_threshold()
    gc.set_threshold(50_000, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


_STARTED = [0.0]
"""When the kernel that Python calls began to be compiled, with those that it calls."""


def _compile(kernel: Source, of: tuple[Any, ...], name: str) -> Any:
    """Compile a kernel for Numba's types of its arguments, unless it is kept; returns the type of its result."""
    code = read_code(name)
    if code is None:
        say_compiling(_STARTED[0])
        dispatcher = numba.njit(**_OPTIONS)(kernel.linked(_callable))
        dispatcher.compile(of)
        (compiled,) = dispatcher.overloads.values()
        result = compiled.signature.return_type
        module = compiled.library._final_module
        needs = [each.name for each in module.functions if each.is_declaration and each.name.startswith(PREFIX)]
        code = Code(
            symbol=compiled.fndesc.llvm_func_name,
            needs=tuple(sorted(each.removeprefix(PREFIX) for each in needs)),
            returns=_scalars(result),
            result=pickle.dumps(result),
            machine=compiled.library.machine_code(),
        )
        keep_code(kernel, name, code)
        return result
    return pickle.loads(code.result)


def _scalars(result: Any) -> tuple[str, ...]:
    """What a result consists of, if Python can take it."""
    names = {of: name for name, of in _TYPES.items()}
    parts = result.types if isinstance(result, types.BaseTuple) else () if result is types.none else (result,)
    return tuple(names.get(each, "none") for each in parts)


@cache
def _callable(kernel: Source) -> Any:
    """A kernel as its callers name it: a reference to its machine code, or text that Numba compiles into them."""
    if kernel.by_itself:
        return _reference(kernel)
    return numba.njit(**_OPTIONS, forceinline=True)(kernel.linked(_callable))


def _reference(kernel: Source) -> Any:
    """A function that calls the machine code of a kernel by its name."""

    def call(typing_context: Any, *arguments: Any) -> tuple[Signature, Callable[..., Any]]:
        of = tuple(types.unliteral(each) for each in arguments)
        name = name_of(kernel, tuple(_kind_of(each) for each in of))
        result = _compile(kernel, of, name)

        def generate(context: Any, builder: Any, called: Signature, values: Sequence[Any]) -> Any:
            kind = context.call_conv.get_function_type(called.return_type, called.args)
            function = cgutils.get_or_insert_function(builder.module, kind, PREFIX + name)
            _, value = context.call_conv.call_function(builder, function, called.return_type, called.args, values)
            return value

        return signature(result, *of), generate

    names = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in inspect.signature(kernel.function).parameters.values()
    ]
    first = inspect.Parameter("typing_context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    call.__signature__ = inspect.Signature([first, *names])  # type: ignore[attr-defined]
    call.__name__ = kernel.function.__name__
    return intrinsic(call)
