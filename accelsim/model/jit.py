"""Kernels that Numba compiles, each once, when one is first called.

One that is declared with `jit` is compiled by itself, and other kernels call its name; one with `inline` becomes a part
of each of its callers. With `NUMBA_DISABLE_JIT=1` all of them run as Python, where NumPy checks each index.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from accelsim.model.plain import PlainKernel
from accelsim.model.records import table_of

_FEW = 500
"""Calls that Python runs before a kernel is compiled for them: one takes 0.2 to 0.8 ms."""
_PLAIN = os.environ.get("NUMBA_DISABLE_JIT", "") not in ("", "0")


class CompiledKernel(PlainKernel):
    """A function that is compiled when it is first called."""

    _calls = 0

    def __call__(self, *arguments: Any) -> Any:
        """Call it compiled."""
        if _PLAIN:
            return self.plain(*arguments)
        return self.compiled(*[table_of(each) if isinstance(each, tuple) else each for each in arguments])

    def lazily(self, *arguments: Any) -> Any:
        """Call it for one small input: as Python, until compiling takes less than all these calls."""
        self._calls += 1
        return self.plain(*arguments) if self._calls <= _FEW else self(*arguments)

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """The function as machine code."""
        from accelsim.model.compiled import entry_of

        return entry_of(self)


def prepare(kernels: Iterable[CompiledKernel]) -> None:
    """Compile kernels that Python calls, side by side, or load them where they are kept."""
    missing = [kernel for kernel in kernels if "compiled" not in vars(kernel)]
    if missing and not _PLAIN:
        from accelsim.model.compiled import compile_kernels

        compile_kernels(missing)
        for kernel in missing:
            assert kernel.compiled is not None


def jit(function: Callable[..., Any]) -> CompiledKernel:
    """Compile a function once, by itself; Python and other kernels call it."""
    return CompiledKernel(function, True)


def inline(function: Callable[..., Any]) -> CompiledKernel:
    """Compile a function into each of its callers: for small ones that are called often."""
    return CompiledKernel(function, False)
