"""Machine code of kernels: kept on disk by content, loaded without the compiler, called with few pointers.

A call passes one pointer to words, as `passing` writes them, so that neither the size of the code nor the time to
compile it grows with the number of arrays. A kernel is compiled once by itself (`compiling`); kernels that call it hold
the name of its machine code, which is linked when they are loaded. The name of a file holds a hash of all that its code
was made from: a changed kernel never finds the code of another one, and an equal kernel finds it from wherever and
whenever its source was copied. A file is moved to its place as a whole, so that processes that share a folder read no
half of one. Code that cannot be kept is compiled anew by each process.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from threading import RLock
from typing import Any, Protocol, runtime_checkable

import llvmlite
import llvmlite.binding as llvm

from accelsim.inputs.library import user_cache
from accelsim.model.passing import ArgumentType, Frame, kind_of, passed, release, target

LOCK = RLock()
"""Held while kernels are loaded or compiled."""
PREFIX = "accelsim$"
"""Of the name by which a caller's machine code knows that of a kernel."""
ENTRY = "entry$"
"""Of the name of the function that Python calls: it reads arguments from words and writes results to others."""
_UNUSED_SECONDS = 24 * 3600.0
"""Code of a kernel's other content is removed after so long without use; another process may still run that content."""
_COMPILER = "compiling", "kinds", "lowering", "machine_code", "passing", "writing"
"""Modules that machine code depends on."""
_HASH = hashlib.sha256().digest_size
"""A file begins with the hash of what follows."""


@runtime_checkable
class Source(Protocol):
    """What machine code is made from; see `jit.CompiledKernel`."""

    name: str
    by_itself: bool
    function: Callable[..., Any]
    compiled: dict[bytes, Any]

    def __hash__(self) -> int:
        """What is found out about a kernel is kept by it."""

    def content(self) -> str:
        """Hash of all that is compiled."""

    def compile(self, kinds: tuple[ArgumentType, ...]) -> None:
        """Compile it for what Python passes, and keep the machine code."""


@dataclass(frozen=True, slots=True)
class Code:
    """Machine code of one kernel for the kinds of its arguments.

    Attributes
    ----------
    symbol : str
        Of the function in its object file.
    needs : tuple of str
        Names of the machine code that it calls.
    returns : tuple of str
        Scalars that it returns: one, or those of a tuple; none of them for None.
    machine : bytes
        The object file.
    """

    symbol: str
    needs: tuple[str, ...]
    returns: tuple[str, ...]
    machine: bytes


def call(kernel: Source, arguments: tuple[Any, ...], plain: Callable[..., Any] | None = None) -> Any:
    """Call a kernel compiled for its arguments; the interpreter's lock is released meanwhile.

    `plain`: what is called instead where there is no machine code for such arguments, in this process or on disk.
    """
    frame, signature, arguments = passed(arguments)
    function = kernel.compiled.get(signature)
    if function is None:
        kinds = tuple([kind_of(value) for value in arguments])
        if plain is not None and read_code(name_of(kernel, kinds)) is None:
            release(frame)
            return plain(*arguments)
        function = kernel.compiled[signature] = _Function(kernel, kinds)
    result = function(frame)
    release(frame)
    return result


def is_kept(kernel: Source) -> bool:
    """Whether a kernel has machine code for any arguments, in this process or on disk."""
    folder = code_folder()
    return bool(kernel.compiled) or (folder is not None and any(folder.glob(f"{_prefix(kernel)}-*.code")))


def name_of(kernel: Source, kinds: tuple[ArgumentType, ...]) -> str:
    """Name of a kernel's machine code: of its file, and for what calls it."""
    return f"{_prefix(kernel)}-{_hash(_shown(kinds))}"


def load(name: str) -> int:
    """Link machine code into the process, after what it needs; returns the address of what Python calls.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    with LOCK:
        if name not in _ADDRESSES:
            machine = target().create_target_machine(jit=True)
            engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
            added = _add_code(name, engine, {})
            engine.finalize_object()
            _ENGINES.append(engine)
            for each, symbol in added.items():
                _ADDRESSES[each] = engine.get_function_address(ENTRY + symbol)
                llvm.add_symbol(PREFIX + each, engine.get_function_address(symbol))
        return _ADDRESSES[name]


def _add_code(name: str, engine: Any, added: dict[str, str]) -> dict[str, str]:
    """Add machine code to an engine, after what it needs, unless it is linked; returns symbols of what was added."""
    if name not in _ADDRESSES and name not in added:
        code = read_code(name)
        if code is None:
            raise FileNotFoundError(name)
        for need in code.needs:
            _add_code(need, engine, added)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code.machine))
        added[name] = code.symbol
    return added


def read_code(name: str) -> Code | None:
    """Machine code by its name; None where there is none, or none that can be used with all that it needs."""
    with LOCK:
        if name not in _READ:
            found = _read_file(name)
            if found is not None and all(read_code(need) is not None for need in found.needs):
                _READ[name] = found
        return _READ.get(name)


def keep_code(kernel: Source, name: str, code: Code) -> None:
    """Keep machine code for this process and, unless the disk is full, for others."""
    _READ[name] = code
    folder = code_folder()
    if folder is None:
        return
    head = {"symbol": code.symbol, "needs": code.needs, "returns": code.returns}
    written = json.dumps(head).encode() + b"\n" + code.machine
    beside = folder / f".{name}.{os.getpid()}.part"
    with suppress(OSError):
        try:
            beside.write_bytes(hashlib.sha256(written).digest() + written)
            os.replace(beside, folder / f"{name}.code")
        finally:
            beside.unlink(missing_ok=True)
    _remove_unused(folder, kernel.name, kernel.content()[:16])


def _prefix(kernel: Source) -> str:
    return f"{kernel.name}-{kernel.content()[:16]}-{_made_by()}"


NEXT_SAID = [0.0, 0.0]
"""Seconds of compiling in this process, and after how many this is said next."""
_SAID_EVERY = 10.0


def say_compiling(started: float) -> None:
    """Say that something is compiled since a time of `time.monotonic`, at first and every ten seconds of it."""
    seconds = NEXT_SAID[0] + time.monotonic() - started
    if seconds >= NEXT_SAID[1]:
        NEXT_SAID[1] = seconds + _SAID_EVERY
        so_far = f"{seconds:.0f} s so far" if seconds >= 1 else "10 to 20 s"
        logging.getLogger("accelsim").info("compiling, once for this version: %s", so_far)


def code_folder() -> Path | None:
    """Folder for machine code: in `ACCELSIM_KERNELS`, beside the package, or the user's own; None: none is writable."""
    return _first_writable(os.environ.get("ACCELSIM_KERNELS", ""))


_ADDRESSES: dict[str, int] = {}
_READ: dict[str, Code] = {}
_ENGINES: list[Any] = []
"""Each holds the machine code of a kernel that Python calls, and of those below it that no other one holds."""


class _Function:
    """A kernel as a foreign function for kinds of arguments, which stay alive as long as their signature is known."""

    def __init__(self, kernel: Source, kinds: tuple[ArgumentType, ...]) -> None:
        with LOCK:
            name = name_of(kernel, kinds)
            if read_code(name) is None:
                kernel.compile(kinds)
            address, self._returns = load(name), _READ[name].returns
        self._kinds = kinds
        self._call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)

    def __call__(self, frame: Frame) -> Any:
        self._call(frame.words, frame.results)
        return frame.result(self._returns)


def _shown(kind: Any) -> Any:
    """Kinds as text that is the same in each process; fields of a named tuple in order."""
    if isinstance(kind, tuple):
        return [_shown(each) for each in kind]
    return [kind.__module__, kind.__qualname__, *getattr(kind, "_fields", ())] if isinstance(kind, type) else kind


def _read_file(name: str) -> Code | None:
    folder = code_folder()
    if folder is None:
        return None
    path = folder / f"{name}.code"
    try:
        written = path.read_bytes()
        os.utime(path)  # it is in use
    except OSError:
        return None
    if hashlib.sha256(written[_HASH:]).digest() != written[:_HASH]:
        return None
    head, machine = written[_HASH:].split(b"\n", 1)
    known = json.loads(head)
    return Code(known["symbol"], tuple(known["needs"]), tuple(known["returns"]), machine)


def _remove_unused(folder: Path, name: str, content: str) -> None:
    """Remove machine code of what a kernel was before."""
    now = time.time()
    for path in folder.glob(f"{name}-*.code"):
        with suppress(OSError):
            if f"-{content}-" not in path.name and now - path.stat().st_mtime > _UNUSED_SECONDS:
                path.unlink()


@cache
def _made_by() -> str:
    """Hash of what machine code is made for and by, and of how arguments are passed to it."""
    named = os.environ.get("ACCELSIM_CPU", ""), os.environ.get("ACCELSIM_CPU_FEATURES", "")
    processor = [*named, llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
    ours = [Path(__file__).with_name(f"{name}.py").read_text("utf-8") for name in _COMPILER]
    return _hash([processor, llvmlite.__version__, sys.version, ours])


def _hash(content: Any) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


@cache
def _first_writable(named: str) -> Path | None:
    package = Path(__file__).resolve().parents[1]
    for folder in ([Path(named) / "accelsim"] if named else []) + [package / "__pycache__", user_cache() / "kernels"]:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=folder).close()
            return folder
    return None
