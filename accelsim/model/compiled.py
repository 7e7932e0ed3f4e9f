"""Compiling kernels with Numba, each once: side by side in processes, kept on disk, called by name.

Numba links a function that another one calls into it, and optimises it there again; through five levels of calls that
is most of the time. So a kernel that is compiled by itself becomes a C function (`numba.cfunc`), whose address LLVM
knows by the kernel's name, and its callers call that name. A record is passed as one address (`numba_types`).

Numba keeps the machine code in the user's own folder, or where `NUMBA_CACHE_DIR` says. There each kernel has a folder
whose name holds a hash of all that its code was made from, because Numba does not see what a function names change.
"""

from __future__ import annotations

import atexit
import gc
import hashlib
import importlib
import inspect
import logging
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable, typeof_impl

from accelsim.inputs.library import user_cache
from accelsim.model.numba_types import signature_of
from accelsim.model.plain import PlainKernel

ENTRY, LINKED, PART = "entry", "linked", "part"
"""Forms of a kernel: what Python calls, what other kernels call by its name, and what is linked into its callers."""
_OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy"}
_WITHIN: dict[str, Any] = {"no_cfunc_wrapper": True}
"""C calls no such kernel: an eighth of the time is saved."""
_TUNED = {"NUMBA_OPT": "2", "NUMBA_LOOP_VECTORIZE": "0", "NUMBA_SLP_VECTORIZE": "0"}
"""Loops run over a few levels and dimensions: unrolled for vectors they are a tenth slower."""
_FEW = 4
"""So few kernels are compiled before a process for them has begun."""
_MOST_PROCESSES = 8
"""Each takes 350 MB, and the longest kernel a seventh of the time of all."""
_SAID_EVERY = 5.0
"""[s]"""
_UNUSED_SECONDS = 30 * 24 * 3600.0
"""Machine code is removed after so long without use."""
_DAY = 24 * 3600.0
_OWN = "compiled.py", "numba_types.py", "records.py"
"""Files on which all machine code depends."""
_LOG = logging.getLogger("accelsim")
_MARK = "kept"
"""File that says that machine code is in a folder."""
_LOCK = threading.RLock()
"""Held while something is loaded or compiled: where Numba keeps machine code is one setting for all threads."""
_KEPT: list[Any] = []
"""Holds the machine code of what was linked."""

Job = tuple[PlainKernel, str]
"""A kernel and the form in which it is compiled."""


@typeof_impl.register(PlainKernel)
def _type_of_kernel(kernel: PlainKernel, _: Any) -> Any:
    """A kernel that becomes a part of its callers is what Numba makes of it; the others are declared by name."""
    return None if kernel.alone else types.Dispatcher(_part(kernel))


@cache
def _part(kernel: PlainKernel) -> Any:
    return _compile(kernel, PART)


@cache
def _declare(kernel: PlainKernel) -> None:
    """Let other kernels call one by its name."""
    signature = signature_of(kernel)

    def type_call(*_: Any) -> Any:
        return signature

    type_call.__signature__ = inspect.signature(kernel.function)  # type: ignore[attr-defined]
    type_callable(kernel)(lambda _: type_call)

    @lower_builtin(kernel, *signature.args)
    def call(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        passed = [context.get_value_type(each) for each in signature.args]
        function = ir.FunctionType(context.get_value_type(signature.return_type), passed)
        return builder.call(cgutils.get_or_insert_function(builder.module, function, kernel.name), arguments)


def entry_of(kernel: PlainKernel) -> Callable[..., Any]:
    """What Python calls: machine code of a kernel and of all below it, compiled now where none is kept."""
    compile_kernels([kernel])
    with _LOCK:
        for each in _called(kernel):
            _link(each)
        compiled: Callable[..., Any] = _made(kernel, ENTRY)
    return compiled


@cache
def _link(kernel: PlainKernel) -> None:
    """Load the machine code of a kernel, after those that it calls, and give LLVM its address."""
    for each in _called(kernel):
        _link(each)
    compiled = _made(kernel, LINKED)
    _KEPT.append(compiled)
    llvm.add_symbol(kernel.name, compiled.address)


def _made(kernel: PlainKernel, form: str) -> Any:
    """The machine code of a kernel, loaded or compiled; what it calls must be known to LLVM by then."""
    was_kept = _is_kept(kernel, form)
    try:
        return _compile(kernel, form)
    except OSError as error:  # such as a full disk
        if not _OPTIONS["cache"]:
            raise
        _LOG.info("machine code cannot be kept (%s): kernels are compiled for this process alone", error.strerror)
        _OPTIONS["cache"] = False
        _part.cache_clear()
        return _compile(kernel, form)
    except Exception:
        if not was_kept:
            raise
        shutil.rmtree(_folder(kernel, form), ignore_errors=True)  # a damaged file, most likely
        return _compile(kernel, form)


def _compile(kernel: PlainKernel, form: str) -> Any:
    """What Numba makes of a kernel, or has kept."""
    with _kept_in(kernel, form):
        if form == LINKED:
            return numba.cfunc(signature_of(kernel), **_OPTIONS)(kernel.function)
        if form == PART:
            return numba.njit(no_cpython_wrapper=True, **_WITHIN, **_OPTIONS)(kernel.function)
        return numba.njit(signature_of(kernel), nogil=True, **_WITHIN, **_OPTIONS)(kernel.function)


@cache
def _called(kernel: PlainKernel) -> tuple[PlainKernel, ...]:
    """Kernels whose names one calls, itself or in its parts; declares them."""
    found: dict[PlainKernel, None] = {}
    for each in kernel.below():
        found |= dict.fromkeys([each] if each.alone else _called(each))
    for each in found:
        _declare(each)
    return tuple(found)


def compile_kernels(kernels: Iterable[PlainKernel]) -> None:
    """Compile kernels that Python calls, with all below them, side by side in processes; says so.

    What is kept is not compiled again, and of processes that begin at once only one compiles.
    """
    with _LOCK:
        jobs = [job for job in _jobs(kernels) if not _is_kept(*job)]
    if len(jobs) < _FEW or any(getattr(sys.modules.get(k.__module__), k.__qualname__, None) is not k for k, _ in jobs):
        return
    _remove_unused()
    with _one_process():
        jobs = [job for job in jobs if not _is_kept(*job)]
        _compile_beside(sorted(jobs, key=lambda job: -_length(job[0])))


def _jobs(kernels: Iterable[PlainKernel]) -> dict[Job, None]:
    """All that must be compiled for kernels that Python calls."""
    wanted: dict[Job, None] = {}
    for kernel in kernels:
        wanted[kernel, ENTRY] = None
        waiting = [*_called(kernel)]
        while waiting:
            each = waiting.pop()
            if (each, LINKED) not in wanted:
                wanted[each, LINKED] = None
                waiting += _called(each)
    return wanted


def _length(kernel: PlainKernel) -> int:
    """How much there is to compile, about."""
    return len(kernel.function.__code__.co_code) + sum(_length(each) for each in kernel.below() if not each.alone)


def _compile_beside(jobs: list[Job]) -> None:
    """Compile in processes, of which each takes the next kernel when it is done with one.

    What is not compiled so, because a process died or could not begin, is compiled where it is called.
    """
    environment = _TUNED | os.environ
    environment |= {"PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_CACHE_DIR": str(code_folder().parent)}
    command = [sys.executable, "-P", "-c", "from accelsim.model.compiled import work; work()"]  # of the same package
    processes: list[subprocess.Popen[str]] = []
    mine = threading.local()

    def compile_one(job: Job) -> None:
        """Let this thread's process compile; another one takes the place of one that died after some work."""
        if not hasattr(mine, "process"):
            pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
            mine.process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=nowhere, text=True, env=environment
            )
            processes.append(mine.process)
        kernel, form = job
        with suppress(OSError):
            mine.process.stdin.write(f"{kernel.__module__} {kernel.__qualname__} {form}\n")
            mine.process.stdin.flush()
            if mine.process.stdout.readline():
                mine.works = True
            elif hasattr(mine, "works"):
                del mine.process, mine.works

    pool, said = ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_PROCESSES)), -math.inf
    try:
        waiting = {pool.submit(compile_one, job) for job in jobs}
        while waiting:
            if time.monotonic() >= said + _SAID_EVERY:
                said, finished = time.monotonic(), len(jobs) - len(waiting)
                _LOG.info("compiling kernels, once: %d of %d", finished, len(jobs))
            _, waiting = wait(waiting, timeout=_SAID_EVERY, return_when=FIRST_COMPLETED)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()
            process.communicate()


def work() -> None:
    """Compile what stdin asks for, kernel by kernel, and answer each with a line."""
    gc.freeze()  # a third of the time went into looking through Numba itself, again and again
    gc.set_threshold(30_000, 30, 100)
    for line in sys.stdin:
        module, name, form = line.split()
        kernel: PlainKernel = getattr(importlib.import_module(module), name)
        for each in _called(kernel):
            llvm.add_symbol(each.name, 1)  # nothing is called here
        _compile(kernel, form)
        sys.stdout.write("done\n")
        sys.stdout.flush()


def _is_kept(kernel: PlainKernel, form: str) -> bool:
    """Whether there is machine code; notes that it is in use."""
    mark = _folder(kernel, form) / _MARK
    try:
        if time.time() - mark.stat().st_mtime > _DAY:
            mark.touch()
    except OSError:
        return False
    return True


def _remove_unused() -> None:
    """Remove machine code that was not used for long."""
    with suppress(OSError):
        for mark in code_folder().glob(f"*/{_MARK}"):
            if time.time() - mark.stat().st_mtime > _UNUSED_SECONDS:
                shutil.rmtree(mark.parent, ignore_errors=True)


@contextmanager
def _one_process() -> Iterator[None]:
    """Let one process at a time compile, where the file system can lock."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with open(code_folder() / "lock", "w", encoding="utf-8") as lock:
        with suppress(OSError):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _LOG.info("waiting for another process that compiles kernels")
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@cache
def code_folder() -> Path:
    """Folder for machine code: below `NUMBA_CACHE_DIR`, or the user's own; else one that goes with this process."""
    for parent in (Path(os.environ.get("NUMBA_CACHE_DIR") or user_cache()), user_cache()):
        with suppress(OSError):
            folder = parent / "kernels"
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            return folder
    folder = Path(tempfile.mkdtemp(prefix="accelsim-"), "kernels")
    folder.mkdir()
    atexit.register(shutil.rmtree, folder.parent, ignore_errors=True)
    return folder


@cache
def _folder(kernel: PlainKernel, form: str) -> Path:
    return code_folder() / f"{kernel.name.removeprefix('accelsim.')}-{form}-{content_of(kernel)[:16]}"


@contextmanager
def _kept_in(kernel: PlainKernel, form: str) -> Iterator[None]:
    """Let Numba keep machine code in the folder of a kernel; what else a program compiles goes where it went before."""
    if not _OPTIONS["cache"]:
        yield
        return
    folder, before = _folder(kernel, form), numba.config.CACHE_DIR
    folder.mkdir(exist_ok=True)
    numba.config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before
    (folder / _MARK).touch()


@cache
def content_of(kernel: PlainKernel) -> str:
    """Hash of all that machine code is made from: the function, its signature, what it names, and Numba."""
    names, code = kernel.function.__globals__, kernel.function.__code__
    parts = [kernel.alone, _made_by(), repr(signature_of(kernel)), _content_of_code(code)]
    parts += [[name, _content(name, names[name])] for name in sorted(_names(code)) if name in names]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@cache
def _made_by() -> list[Any]:
    """What machine code is made for and by."""
    config = numba.config
    processor = config.CPU_NAME or llvm.get_host_cpu_name()
    features = config.CPU_FEATURES or llvm.get_host_cpu_features().flatten()
    ours = hashlib.sha256(b"".join(Path(__file__).with_name(name).read_bytes() for name in _OWN)).hexdigest()
    return [processor, features, llvm.get_process_triple(), numba.__version__, sys.version, config.BOUNDSCHECK, ours]


def _names(code: CodeType) -> set[str]:
    """Names that code and the code in it look up; attributes are among them."""
    return set(code.co_names).union(*(_names(each) for each in code.co_consts if isinstance(each, CodeType)))


def _content_of_code(code: CodeType) -> list[Any]:
    """What code does, without where it stands."""
    constants = [_content_of_code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return [code.co_code.hex(), code.co_names, code.co_varnames, code.co_argcount, constants]


def _content(name: str, value: Any) -> Any:
    """What machine code takes from a name of its module.

    Raises TypeError if that is nothing whose content is known to stay: machine code on disk would outlive a change of
    it.
    """
    if isinstance(value, PlainKernel):
        return [value.name, repr(signature_of(value))] if value.alone else content_of(value)
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, np.generic | np.ndarray):
        return [str(value.dtype), value.shape, value.tobytes().hex()]
    if isinstance(value, tuple):
        return [_content(name, each) for each in value]
    if isinstance(value, type | BuiltinFunctionType | FunctionType):
        return [value.__module__, value.__qualname__]
    if isinstance(value, ModuleType) and value.__name__.partition(".")[0] != "accelsim":
        return value.__name__
    raise TypeError(f"{name}: a kernel names {type(value).__name__}; import the number or the kernel itself")
