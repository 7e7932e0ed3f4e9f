"""Compiling kernels with LLVM: each once by itself, or as a part of those that call it; see `lowering`."""

from __future__ import annotations

import os
import time
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from accelsim.model.kinds import NONE, VALUES, passed_as, returned_as, types_of
from accelsim.model.lowering import Kinds, Lowered, lower
from accelsim.model.machine_code import (
    ENTRY,
    LOCK,
    NEXT_SAID,
    PREFIX,
    Code,
    Source,
    keep_code,
    name_of,
    read_code,
    say_compiling,
)
from accelsim.model.passing import ArgumentType

_LEVEL = 1
"""Of LLVM's optimisation: kernels are as fast as with level 3, which compiles for a tenth longer."""
_ALWAYS = """declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
!0 = !{}
"""
_STARTED = [0.0]
"""When the kernel that Python calls began to be compiled, with those that it calls."""


def compile_kernel(kernel: Source, kinds: Kinds) -> None:
    """Compile a kernel for what Python passes, and say how long that takes."""
    with LOCK:
        _STARTED[:] = [time.monotonic()]
        _compile(kernel, kinds)
        NEXT_SAID[0] += time.monotonic() - _STARTED[0]


def _compile(kernel: Source, kinds: Kinds) -> tuple[str, ArgumentType]:
    """Compile a kernel, unless its machine code is kept; returns its name and the kind of its result."""
    name = name_of(kernel, kinds)
    code = read_code(name)
    if code is None:
        say_compiling(_STARTED[0])
        lowered = lower(kernel, kinds, PREFIX + name, _called)
        text, called = _with_parts(lowered)
        of = lowered.result
        code = Code(
            symbol=PREFIX + name,
            needs=tuple(sorted(each.removeprefix(PREFIX) for each in called if each.startswith(PREFIX))),
            returns=tuple(each[0] for each in (of[1] if of[0] == VALUES else () if of == NONE else (of,))),
            machine=_machine_code(text + _entry(PREFIX + name, kinds, of)),
        )
        keep_code(kernel, name, code)
    parts = tuple((each,) for each in code.returns)
    return PREFIX + name, (VALUES, parts) if len(parts) > 1 else parts[0] if parts else NONE


def _entry(symbol: str, kinds: Kinds, result: ArgumentType) -> str:
    """Text of the function that Python calls: arguments come from words, and results go to others."""
    types = [type_ for kind in kinds for type_ in types_of(kind)]
    lines = [f'define void @"{ENTRY}{symbol}"(ptr %words, ptr %results) nounwind {{']
    for at, type_ in enumerate(types):
        lines += [f"%at{at} = getelementptr i64, ptr %words, i64 {at}", f"%a{at} = load {type_}, ptr %at{at}"]
    passed = [f"{passed_as(type_)} %a{at}" for at, type_ in enumerate(types)]
    several = result[0] == VALUES
    call = f'call {returned_as(result)} @"{symbol}"({", ".join([*["ptr %results"] * several, *passed])}) noinline'
    if several or result == NONE:
        lines.append(call)
    else:
        lines += [f"%result = {call}", f"store {types_of(result)[0]} %result, ptr %results"]
    return "\n".join([*lines, "ret void", "}", ""])


def _called(kernel: Source, kinds: Kinds) -> tuple[str, ArgumentType, bool]:
    """Of a kernel that is called: its name, the kind of its result, and whether it becomes a part of the caller."""
    if kernel.by_itself:
        return *_compile(kernel, kinds), False
    return _part_name(kernel, kinds), _part(kernel, kinds).result, True


@cache
def _part(kernel: Source, kinds: Kinds) -> Lowered:
    return lower(kernel, kinds, _part_name(kernel, kinds), _called)


@cache
def _part_name(kernel: Source, kinds: Kinds) -> str:
    return name_of(kernel, kinds)


def _with_parts(lowered: Lowered) -> tuple[str, dict[str, str]]:
    """Text of a kernel with those that are compiled into it, and declarations of all that these call."""
    texts, called, waiting = [lowered.text], dict(lowered.called), [*lowered.within]
    known = set(waiting)
    while waiting:
        part = _part(*waiting.pop())
        texts.append(part.text)
        called |= part.called
        waiting += [each for each in part.within if each not in known]
        known.update(part.within)
    machine = _machine()
    head = f'target datalayout = "{machine.target_data}"\ntarget triple = "{machine.triple}"\n'
    return "".join([head, *texts, "\n".join(called.values()), "\n", _ALWAYS]), called


def _machine_code(text: str) -> bytes:
    """The object file of a module."""
    machine = _machine()
    module = llvm.parse_assembly(text, llvm.create_context())
    options = llvm.create_pipeline_tuning_options(speed_level=_LEVEL)
    options.loop_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


@cache
def _machine() -> Any:
    """The processor that machine code is for."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=os.environ.get("ACCELSIM_CPU") or llvm.get_host_cpu_name(),
        features=os.environ.get("ACCELSIM_CPU_FEATURES") or llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="static" if target.name.startswith("x86") else "default",
        codemodel="jitdefault",
        jit=True,
    )
