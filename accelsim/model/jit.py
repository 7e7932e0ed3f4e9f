"""How functions are compiled; the one module that imports Numba."""

from __future__ import annotations

from typing import Any

from numba import njit

_OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "nogil": True, "_nrt": False}
"""No `_nrt`: arrays belong to the caller and nothing is allocated; counting references would take most of the time."""


def jit(function: Any) -> Any:
    """Compile a function of arrays when it is first called, and keep the machine code on disk."""
    return njit(**_OPTIONS)(function)


def inline(function: Any) -> Any:
    """Compile a function that the optimizer puts into each of its callers: passing the constants on costs more."""
    return njit(**_OPTIONS, forceinline=True)(function)


def merge(function: Any) -> Any:
    """Merge a function into its one caller before anything is compiled, which saves compiling it by itself."""
    return njit(**_OPTIONS, inline="always")(function)
