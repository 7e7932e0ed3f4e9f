"""Kernels: functions of arrays that are compiled when they are first called; see `machine_code`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import update_wrapper
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

_FEW = 500
"""Calls that Python runs before a kernel is compiled for them: one takes 0.2 to 0.8 ms."""
_PLAIN = os.environ.get("ACCELSIM_PLAIN", "") not in ("", "0")


class CompiledKernel:
    """A function of arrays that is compiled when it is first called, and may be run as plain Python instead.

    Parameters
    ----------
    function : callable
    by_itself : bool
        Whether it is compiled by itself, and callers hold its name alone; otherwise into each of its callers.
    """

    def __init__(self, function: Callable[..., Any], by_itself: bool) -> None:
        update_wrapper(self, function)
        self.function, self.by_itself = function, by_itself
        self.name = f"{function.__module__}.{function.__qualname__}".replace("<locals>", "")
        self.compiled: dict[bytes, Any] = {}
        self._plain: Any = None
        self._content = ""
        self._calls = 0

    def __call__(self, *arguments: Any) -> Any:
        """Call it compiled."""
        if _PLAIN:
            return self.plain()(*arguments)
        from accelsim.model.machine_code import call

        return call(self, arguments)

    def once(self, *arguments: Any) -> Any:
        """Call it for one small input: as plain Python where that takes less than compiling."""
        if _PLAIN:
            return self.plain()(*arguments)
        from accelsim.model.machine_code import call

        self._calls += 1
        return call(self, arguments, self.plain() if self._calls <= _FEW else None)

    def compile(self, kinds: tuple[Any, ...]) -> None:
        """Compile it for what Python passes; see `machine_code.Kind`."""
        from accelsim.model.compiling import compile_kernel

        compile_kernel(self, kinds)

    def content(self) -> str:
        """Hash of all that is compiled: the function with its module, kernels that it calls, and constants it names."""
        if not self._content:
            parts = [self.by_itself, self.function.__module__, *_content_of(self.function)]
            self._content = hashlib.sha256(repr(parts).encode()).hexdigest()
        return self._content

    def plain(self) -> Any:
        """The function with plain ones below it."""
        if self._plain is None:
            self._plain = self.linked(CompiledKernel.plain)
        return self._plain

    def linked(self, form: Callable[[CompiledKernel], Any]) -> FunctionType:
        """The function with other kernels that it calls in one form."""
        code, names = self.function.__code__, self.function.__globals__
        below = {name: form(names[name]) for name in code.co_names if isinstance(names.get(name), CompiledKernel)}
        return FunctionType(code, {**names, **below}, code.co_name, self.function.__defaults__)


def _content_of(function: Callable[..., Any]) -> list[Any]:
    """Code of a function, and the content of what it names in its module."""
    code, names = function.__code__, function.__globals__
    named = sorted(name for name in _names(code) if name in names)
    return [function.__defaults__, *_content_of_code(code), *([name, _content(name, names[name])] for name in named)]


def _names(code: CodeType) -> set[str]:
    """Names that code and the code in it look up; attributes are among them."""
    return set(code.co_names).union(*(_names(each) for each in code.co_consts if isinstance(each, CodeType)))


def _content(name: str, value: Any) -> Any:
    """What compiled code takes from a name of its module.

    Raises
    ------
    TypeError
        If that is nothing whose content is known to stay: machine code on disk would outlive a change of it.
    """
    if isinstance(value, CompiledKernel):
        return value.content()
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
        return [str(value.dtype), value.shape, value.tobytes().hex()]
    if isinstance(value, tuple):
        return [_content(name, each) for each in value]
    if isinstance(value, type):
        return [value.__module__, value.__qualname__, getattr(value, "_fields", ())]
    if isinstance(value, FunctionType) and value.__module__.startswith("accelsim."):
        return _content_of(value)
    if isinstance(value, BuiltinFunctionType | FunctionType):
        return [value.__module__, value.__qualname__]
    if isinstance(value, ModuleType) and value.__name__.partition(".")[0] != "accelsim":
        return value.__name__
    raise TypeError(f"{name}: a kernel names {type(value).__name__}; import the number or the kernel itself")


def jit(function: Callable[..., Any]) -> CompiledKernel:
    """Compile a function of arrays once; Python and other kernels call it."""
    return CompiledKernel(function, True)


def inline(function: Callable[..., Any]) -> CompiledKernel:
    """Compile a function into each of its callers: for small ones that are called often."""
    return CompiledKernel(function, False)


def _content_of_code(code: CodeType) -> list[Any]:
    """What code does, without where it stands."""
    constants = [_content_of_code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return [code.co_code.hex(), code.co_names, code.co_varnames, code.co_argcount, constants]
