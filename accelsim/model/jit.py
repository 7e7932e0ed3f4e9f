"""How functions are compiled; the one module that imports Numba."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import njit

_OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "nogil": True, "_nrt": False}
"""No `_nrt`: arrays belong to the caller and nothing is allocated; counting references would take most of the time."""
_NO_WAY_IN: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


_KERNELS = (
    "model/kernel.py",
    "model/windows.py",
    "model/entering.py",
    "model/systolic.py",
    "mapspace/kernel.py",
    "population/draw_kernel.py",
    "search/kernel.py",
    "search/exact/bounds_kernel.py",
    "search/exact/found_kernel.py",
    "search/exact/remainders_kernel.py",
    "search/exact/node_kernel.py",
    "search/exact/halves_kernel.py",
    "search/exact/branch_kernel.py",
    "population/listing_kernel.py",
)


def _forget_stale() -> None:
    """Remove machine code on disk that is older than any kernel: Numba looks at one file, not at what it calls."""
    package = Path(__file__).resolve().parents[1]
    newest = max((package / kernel).stat().st_mtime for kernel in _KERNELS)
    for kernel in _KERNELS:
        for index in (package / kernel).parent.glob("__pycache__/*.nbi"):
            with suppress(OSError):
                if index.stat().st_mtime < newest:
                    index.unlink()


_forget_stale()


def jit(function: Any) -> Any:
    """Compile a function of arrays when it is first called, and keep the machine code on disk."""
    return njit(**_OPTIONS)(function)


def internal(function: Any) -> Any:
    """Compile a function that compiled ones alone call: the ways in from Python and C take longer than itself."""
    return njit(**_OPTIONS, **_NO_WAY_IN)(function)


def inline(function: Any) -> Any:
    """Compile as `internal`; the optimizer puts it into each of its callers, as passing the constants on costs more."""
    return njit(**_OPTIONS, **_NO_WAY_IN, forceinline=True)(function)


def merge(function: Any) -> Any:
    """Merge a function into its one caller before anything is compiled, which saves compiling it by itself."""
    return njit(**_OPTIONS, inline="always")(function)
