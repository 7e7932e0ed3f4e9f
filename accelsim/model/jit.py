"""How functions are compiled; Numba is imported when the first of them is called."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from functools import update_wrapper
from threading import RLock
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "_nrt": False}
"""No `_nrt`: arrays belong to the caller and nothing is allocated; counting references would take most of the time."""
_NO_WAY_IN: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_FEW = 500
"""Calls that Python runs before Numba is loaded for them: one takes 0.2 to 0.8 ms, loading 0.5 s."""
_LOCK = RLock()


class Kernel:
    """A function of arrays that is compiled when it is first called, and may be run as plain Python instead.

    Parameters
    ----------
    function : callable
    options : dict
        For `numba.njit`.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self._function, self._options = function, options
        self._compiled: Any = None
        self._plain: Any = None
        self._content = ""
        self._calls = 0

    def __call__(self, *arguments: Any) -> Any:
        """Call it compiled."""
        return (self._compiled or self.compiled())(*arguments)

    def once(self, *arguments: Any) -> Any:
        """Call it for one small input: as plain Python where that takes less than loading Numba."""
        self._calls += 1
        if "numba" in sys.modules or self._calls > _FEW:
            return self(*arguments)
        return (self._plain or self.plain())(*arguments)

    def compiled(self) -> Any:
        """Numba's dispatcher, whose machine code is on disk or made when it is called."""
        with _LOCK:
            if self._compiled is None:
                from numba import njit

                from accelsim.model.machine_code import MachineCode, code_folder

                compiled, folder = njit(**self._options)(self._linked(Kernel.compiled)), code_folder()
                if folder is not None:
                    name = f"{self._function.__module__}.{self._function.__qualname__}"
                    compiled._cache = MachineCode(folder, name.replace("<locals>", ""), self.content())
                self._compiled = compiled
        return self._compiled

    def content(self) -> str:
        """Hash of all that is compiled: the function with its module, kernels that it calls, and constants it names."""
        if not self._content:
            parts = [self._function.__module__, sorted(self._options.items()), *_content_of(self._function)]
            self._content = hashlib.sha256(repr(parts).encode()).hexdigest()
        return self._content

    def plain(self) -> Any:
        """The function with plain ones below it."""
        with _LOCK:
            if self._plain is None:
                self._plain = self._linked(Kernel.plain)
        return self._plain

    def _linked(self, form: Callable[[Kernel], Any]) -> FunctionType:
        """The function with other kernels that it calls in one form."""
        code, names = self._function.__code__, self._function.__globals__
        below = {name: form(names[name]) for name in code.co_names if isinstance(names.get(name), Kernel)}
        return FunctionType(code, {**names, **below}, code.co_name, self._function.__defaults__)


def _content_of(function: Callable[..., Any]) -> list[Any]:
    """Code of a function, and the content of what it names in its module."""
    code, names = function.__code__, function.__globals__
    named = sorted(name for name in _names(code) if name in names)
    return [function.__defaults__, *_code(code), *([name, _content(name, names[name])] for name in named)]


def _names(code: CodeType) -> set[str]:
    """Names that code and the code in it look up; attributes are among them."""
    return set(code.co_names).union(*(_names(each) for each in code.co_consts if isinstance(each, CodeType)))


def _code(code: CodeType) -> list[Any]:
    """What code does, without where it stands."""
    constants = [_code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return [code.co_code, code.co_names, code.co_varnames, code.co_argcount, constants]


def _content(name: str, value: Any) -> Any:
    """What compiled code takes from a name of its module.

    Raises
    ------
    TypeError
        If that is nothing whose content is known to stay: machine code on disk would outlive a change of it.
    """
    if isinstance(value, Kernel):
        return value.content()
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
        return [str(value.dtype), value.shape, value.tobytes()]
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


def jit(function: Callable[..., Any]) -> Kernel:
    """Compile a function of arrays when it is first called, and keep the machine code on disk."""
    return Kernel(function, _OPTIONS)


def internal(function: Callable[..., Any]) -> Kernel:
    """Compile a function that compiled ones alone call: the ways in from Python and C take longer than itself."""
    return Kernel(function, _OPTIONS | _NO_WAY_IN)


def inline(function: Callable[..., Any]) -> Kernel:
    """Compile as `internal`; the optimizer puts it into each of its callers, as passing the constants on costs more."""
    return Kernel(function, _OPTIONS | _NO_WAY_IN | {"forceinline": True})


def merge(function: Callable[..., Any]) -> Kernel:
    """Merge a function into its one caller before anything is compiled, which saves compiling it by itself."""
    return Kernel(function, _OPTIONS | {"inline": "always"})
