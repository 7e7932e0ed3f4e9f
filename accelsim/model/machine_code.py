"""Machine code of kernels: kept on disk by content, loaded without the compiler, called with few pointers.

A named tuple of arrays is passed as one pointer to a table of addresses and shapes, so that neither the size of the
code nor the time to compile it grows with the number of arrays. A kernel is compiled once by itself (`compiling`);
kernels that call it hold the name of its machine code, which is linked when they are loaded. The name of a file holds
a hash of all that its code was made from: a changed kernel never finds the code of another one, and an equal kernel
finds it from wherever and whenever its source was copied. A file is moved to its place as a whole, so that processes
that share a folder read no half of one. Code that cannot be kept is compiled anew by each process.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import logging
import os
import sys
import time
from array import array
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from threading import RLock
from typing import Any, NamedTuple, Protocol, runtime_checkable

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from accelsim.inputs.library import user_cache

LOCK = RLock()
"""Held while kernels are loaded or compiled."""
PREFIX = "accelsim$"
"""Of the name by which a caller's machine code knows that of a kernel."""
SCALARS: dict[str, Any] = {
    "int": ctypes.c_int64,
    "uint": ctypes.c_uint64,
    "float": ctypes.c_double,
    "bool": ctypes.c_bool,
    "none": ctypes.c_void_p,
}
_UNUSED_SECONDS = 24 * 3600.0
"""Code of a kernel's other content is removed after so long without use; another process may still run that content."""
_COMPILER = "compiling", "kinds", "lowering", "machine_code", "writing"
"""Modules that machine code depends on."""
_HASH = hashlib.sha256().digest_size
"""A file begins with the hash of what follows."""

ArgumentType = tuple[Any, ...]
"""What a compiled function must know of an argument: ("array", type of elements, axes, whether in C order), ("tuple",
class, kinds of its fields), or the name of a scalar."""


@runtime_checkable
class Source(Protocol):
    """What machine code is made from; see `jit.CompiledKernel`."""

    name: str
    by_itself: bool
    function: Callable[..., Any]
    compiled: dict[tuple[int, ...], Any]

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


def call(kernel: Source, arguments: tuple[Any, ...]) -> Any:
    """Call a kernel compiled for its arguments; the interpreter's lock is released meanwhile."""
    alive: list[Any] = []
    plain: list[Any] = []
    numbers = tuple([_pass(value, plain, alive) for value in arguments])
    function = kernel.compiled.get(numbers)
    if function is None:
        function = kernel.compiled[numbers] = _Function(kernel, _kinds(numbers))
    return function(plain)


def is_ready(kernel: Source, arguments: tuple[Any, ...]) -> bool:
    """Whether a kernel has machine code for such arguments, in this process or on disk."""
    numbers = tuple([_pass(value, [], []) for value in arguments])
    return numbers in kernel.compiled or read_code(name_of(kernel, _kinds(numbers))) is not None


def is_kept(kernel: Source) -> bool:
    """Whether a kernel has machine code for any arguments, in this process or on disk."""
    folder = code_folder()
    return bool(kernel.compiled) or (folder is not None and any(folder.glob(f"{_prefix(kernel)}-*.code")))


def name_of(kernel: Source, kinds: tuple[ArgumentType, ...]) -> str:
    """Name of a kernel's machine code: of its file, and for what calls it."""
    return f"{_prefix(kernel)}-{_hash(_shown(kinds))}"


def load(name: str) -> int:
    """Link machine code into the process, after what it needs; returns its address.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    with LOCK:
        if name in _ADDRESSES:
            return _ADDRESSES[name]
        code = read_code(name)
        if code is None:
            raise FileNotFoundError(name)
        for need in code.needs:
            load(need)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target().create_target_machine(jit=True))
        engine.add_object_file(llvm.ObjectFileRef.from_data(code.machine))
        engine.finalize_object()
        _ENGINES.append(engine)
        _ADDRESSES[name] = engine.get_function_address(code.symbol)
        llvm.add_symbol(PREFIX + name, _ADDRESSES[name])
        return _ADDRESSES[name]


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


class _Passed(NamedTuple):
    """A named tuple as it is passed; `alive` holds its table and those of the tuples in it; the number of its kind."""

    value: tuple[Any, ...]
    alive: list[Any]
    address: int
    number: int


_PASSED: dict[int, _Passed] = {}
"""Named tuples that were passed last, by identity: most calls of a search pass them again. They stay alive here."""
_MOST_PASSED, _MOST_BYTES = 1024, 1 << 23
_HELD = [0]
"""Bytes of their arrays, about: threads that add to it at one time may forget some."""
_NUMBERS: dict[Any, int] = {}
"""Number of each kind of argument, by what tells it quickly: a kind is large, and every call looks for one."""
_KINDS: list[ArgumentType] = []
"""Kind of each number."""
_ADDRESSES: dict[str, int] = {}
_READ: dict[str, Code] = {}
_ENGINES: list[Any] = []
"""Each holds one piece of machine code: two of another process may have one symbol."""


class _Function:
    """A kernel as a foreign function for the kinds of its arguments."""

    def __init__(self, kernel: Source, kinds: tuple[ArgumentType, ...]) -> None:
        with LOCK:
            name = name_of(kernel, kinds)
            if read_code(name) is None:
                kernel.compile(kinds)
            address, returns = load(name), _READ[name].returns
        types = [each for kind in kinds for each in _c_types(kind)]
        self._returns = [SCALARS[each] for each in returns]
        if len(returns) > 1:
            types.insert(0, ctypes.c_void_p)
        result = self._returns[0] if len(returns) == 1 else None
        self._call = ctypes.CFUNCTYPE(result, *types)(address)

    def __call__(self, plain: list[Any]) -> Any:
        if len(self._returns) < 2:
            return self._call(*plain)
        results = (ctypes.c_int64 * len(self._returns))()
        self._call(ctypes.addressof(results), *plain)
        return tuple([of.from_buffer(results, 8 * at).value for at, of in enumerate(self._returns)])


def _pass(value: Any, plain: list[Any], alive: list[Any]) -> int:
    """Append what is passed for an argument, and what must live until the call ends; returns the number of its kind."""
    if isinstance(value, np.ndarray):
        shape, in_order = value.shape, value.flags.c_contiguous
        plain += (_address(value), *shape)
        if not in_order:
            plain += [step // value.itemsize for step in value.strides]
        alive.append(value)
        kind: ArgumentType = ("array", value.dtype.char, len(shape), in_order)
    elif isinstance(value, tuple):
        passed = _PASSED.get(id(value)) or _keep_passed(value)
        plain.append(passed.address)
        alive.append(passed)
        return passed.number
    else:
        kind = (_scalar(value),)
        if value is not None:
            plain.append(value)
    number = _NUMBERS.get(kind)
    return _number(kind, kind) if number is None else number


def _number(told_by: Any, kind: ArgumentType) -> int:
    """Number of a kind that is seen for the first time."""
    with LOCK:
        if told_by not in _NUMBERS:
            _KINDS.append(kind)
            _NUMBERS[told_by] = len(_KINDS) - 1
        return _NUMBERS[told_by]


def _kinds(numbers: tuple[int, ...]) -> tuple[ArgumentType, ...]:
    return tuple([_KINDS[number] for number in numbers])


def _address(array: np.ndarray[Any, Any]) -> int:
    """Where the words of an array begin; the ways of NumPy to say it take four times as long."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):  # it is not to be written, is empty, or is a part of another
        return int(array.ctypes.data)


def _keep_passed(value: tuple[Any, ...]) -> _Passed:
    """Make the table of a named tuple, and keep it for the next calls unless its arrays are large."""
    alive: list[Any] = []
    address, number, size = _table(value, alive)
    passed = _Passed(value, alive, address, number)
    if size <= _MOST_BYTES:
        if len(_PASSED) >= _MOST_PASSED or _HELD[0] + size > _MOST_BYTES:
            _PASSED.clear()
            _HELD[0] = 0
        _HELD[0] += size
        _PASSED[id(value)] = passed
    return passed


def _table(value: tuple[Any, ...], alive: list[Any]) -> tuple[int, int, int]:
    """Addresses and shapes of the arrays of a named tuple, as `compiling.ArrayTable` reads them.

    Returns the table's own address, the number of the tuple's kind, and bytes of all arrays.
    """
    addressof, from_buffer = ctypes.addressof, ctypes.c_char.from_buffer
    words: list[int] = []
    fields: list[Any] = []
    size = 0
    for each in value:
        if isinstance(each, np.ndarray):
            try:  # as `_address` does, which would take a fifth more for so many
                words.append(addressof(from_buffer(each)))  # type: ignore[arg-type]
            except (TypeError, ValueError, BufferError):
                if not each.flags.c_contiguous:
                    raise TypeError("arrays of a named tuple are passed in C order") from None
                words.append(_address(each))
            shape = each.shape
            words += shape
            fields += each.dtype.char, len(shape)
            size += each.nbytes
        elif isinstance(each, tuple):
            address, number, inner_size = _table(each, alive)
            size += inner_size
            words.append(address)
            fields += "tuple", number
        else:
            fields += "scalar", _scalar(each)
            if isinstance(each, float):
                words.append(ctypes.c_int64.from_buffer(ctypes.c_double(each)).value)
            else:
                words.append(0 if each is None else int(each))
    table = array("q", words)
    alive.append(table)
    told_by = type(value), *fields
    number = _NUMBERS.get(told_by, -1)
    if number < 0:
        kinds = tuple(_field_kind(*pair) for pair in zip(fields[::2], fields[1::2], strict=True))
        number = _number(told_by, ("tuple", type(value), kinds))
    return table.buffer_info()[0], number, size


def _field_kind(what: str, told: Any) -> ArgumentType:
    """Kind of a field of a named tuple by what `_table` tells of it."""
    if what == "tuple":
        number: int = told
        return _KINDS[number]
    return (told,) if what == "scalar" else ("array", what, told, True)


def _scalar(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, np.uint64):
        return "uint"
    if isinstance(value, int | np.integer):
        return "int"
    if isinstance(value, float | np.floating):
        return "float"
    raise TypeError(f"a kernel takes no {type(value).__name__}")


def _c_types(kind: ArgumentType) -> list[Any]:
    """Types of what is passed for an argument."""
    if kind[0] == "array":
        return [ctypes.c_void_p] + [ctypes.c_int64] * (kind[2] if kind[3] else 2 * kind[2])
    if kind == ("none",):
        return []
    return [ctypes.c_void_p if kind[0] == "tuple" else SCALARS[kind[0]]]


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
def _target() -> Any:
    """What machine code is linked for."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


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
