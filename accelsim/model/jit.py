"""How functions are compiled; the one module that imports Numba, when the first of them is called."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, update_wrapper
from pathlib import Path
from threading import RLock
from types import FunctionType
from typing import Any

_OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "nogil": True, "_nrt": False}
"""No `_nrt`: arrays belong to the caller and nothing is allocated; counting references would take most of the time."""
_NO_WAY_IN: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_FEW = 500
"""Calls that Python runs before Numba is loaded for them: one takes 0.2 to 0.8 ms, loading 0.5 s."""
_LOCK = RLock()

_KERNELS = (
    "model/kernel.py",
    "model/windows.py",
    "model/entering.py",
    "model/systolic.py",
    "mapspace/kernel.py",
    "population/draw_kernel.py",
    "population/moments/sums_kernel.py",
    "search/kernel.py",
    "search/exact/bounds_kernel.py",
    "search/exact/found_kernel.py",
    "search/exact/remainders_kernel.py",
    "search/exact/node_kernel.py",
    "search/exact/halves_kernel.py",
    "search/exact/estimate_kernel.py",
    "search/exact/settle_kernel.py",
    "search/exact/branch_kernel.py",
    "population/listing_kernel.py",
)


@cache
def _forget_stale() -> None:
    """Remove machine code on disk that is older than any kernel: Numba looks at one file, not at what it calls."""
    package = Path(__file__).resolve().parents[1]
    newest = max((package / kernel).stat().st_mtime for kernel in _KERNELS)
    for kernel in _KERNELS:
        for index in (package / kernel).parent.glob("__pycache__/*.nbi"):
            with suppress(OSError):
                if index.stat().st_mtime < newest:
                    index.unlink()


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

                _forget_stale()
                linked = self._linked(Kernel.compiled)
                try:
                    self._compiled = njit(**self._options)(linked)
                except RuntimeError:  # neither the package nor the home can be written: compiled in each process
                    self._compiled = njit(**(self._options | {"cache": False}))(linked)
        return self._compiled

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
