"""Kernels as they are written: functions of numbers, arrays and records, and the kernels that they call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from types import FunctionType
from typing import Any


class PlainKernel:
    """A function that can be compiled; see `jit`.

    Its annotations are its one signature (see `records`). If not `alone`, it is compiled into each of its callers.
    """

    __name__: str
    __qualname__: str

    def __init__(self, function: Callable[..., Any], alone: bool) -> None:
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__
        self.function, self.alone = function, alone
        self.name = f"{function.__module__}.{function.__qualname__}"

    @cached_property
    def plain(self) -> Callable[..., Any]:
        """The function as Python, with plain ones below it."""
        code, names = self.function.__code__, self.function.__globals__
        below = {name: names[name].plain for name in code.co_names if isinstance(names.get(name), PlainKernel)}
        return FunctionType(code, {**names, **below}, code.co_name, self.function.__defaults__)

    def below(self) -> Iterator[PlainKernel]:
        """Kernels that it calls."""
        names = self.function.__globals__
        for name in self.function.__code__.co_names:
            if isinstance(names.get(name), PlainKernel):
                yield names[name]
