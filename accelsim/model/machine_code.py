"""Machine code of kernels on disk, by the content of what it was compiled from.

Numba's own cache looks at one source file and not at what its functions call, nor at the fields of what they take. Here
the name of a file holds a hash of both: a changed kernel never finds the code of another one, and an equal kernel finds
it from wherever and whenever its source was copied. A file is moved to its place as a whole, so that processes that
share a folder read no half of one. Code that cannot be kept is compiled anew by each process.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numba
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

_UNUSED_SECONDS = 24 * 3600.0
"""Code of a kernel's other content is removed after so long without use; another process may still run that content."""
_HASH = hashlib.sha256().digest_size
"""A file begins with the hash of what follows."""


class MachineCode(NullCache):  # type: ignore[misc]  # Numba has no types
    """Where Numba looks for the machine code of one kernel, and leaves it.

    Parameters
    ----------
    folder : Path
    name : str
        Of the kernel, with its module.
    content : str
        Hash of all that is compiled.
    """

    def __init__(self, folder: Path, name: str, content: str) -> None:
        self._folder, self._name, self._content = folder, name, content[:16]

    @property
    def cache_path(self) -> str:
        """Folder of the machine code."""
        return str(self._folder)

    def path(self, types: Sequence[Any], machine: tuple[str, ...]) -> Path:
        """File for the types of the arguments and a kind of processor."""
        shown = [str(types), [list(_fields(each)) for each in types], machine, numba.__version__, sys.version]
        key = hashlib.sha256(repr(shown).encode()).hexdigest()[:16]
        return self._folder / f"{self._name}-{self._content}-{key}.code"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Machine code for the types of the arguments, or None."""
        target_context.refresh()
        path = self.path(sig, target_context.codegen().magic_tuple())
        try:
            written = path.read_bytes()
            os.utime(path)  # it is in use
        except OSError:
            _say_once()
            return None
        if hashlib.sha256(written[_HASH:]).digest() != written[:_HASH]:
            return None
        return CompileResult._rebuild(target_context, *pickle.loads(written[_HASH:]))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code, unless it holds addresses of this process or the disk is full."""
        if data.library.has_dynamic_globals or any(not each.can_cache for each in data.lifted):
            return
        path = self.path(sig, data.codegen.magic_tuple())
        beside = path.with_name(f".{path.name}.{os.getpid()}.part")
        with suppress(OSError):
            try:
                written = dumps(data._reduce())
                beside.write_bytes(hashlib.sha256(written).digest() + written)
                os.replace(beside, path)
            finally:
                beside.unlink(missing_ok=True)
        self._remove_unused()

    def _remove_unused(self) -> None:
        """Remove machine code of what the kernel was before."""
        now = time.time()
        for path in self._folder.glob(f"{self._name}-*.code"):
            with suppress(OSError):
                if f"-{self._content}-" not in path.name and now - path.stat().st_mtime > _UNUSED_SECONDS:
                    path.unlink()


@cache
def _say_once() -> None:
    """Say that something is compiled, once a process; the command line shows it where there is no progress bar."""
    logging.getLogger("accelsim").info("compiling, once for this version: it takes up to two minutes ...")


def _fields(kind: Any) -> Iterator[Any]:
    """Fields of a named tuple in order, and of those in it: the name of Numba's type lacks them."""
    yield str(getattr(kind, "instance_class", ""))
    yield from getattr(kind, "fields", ())
    for each in getattr(kind, "types", ()):
        yield list(_fields(each))


def code_folder() -> Path | None:
    """Folder for machine code: in `NUMBA_CACHE_DIR`, beside the package, or the user's own; None: none is writable."""
    return _first_writable(numba.config.CACHE_DIR)


@cache
def _first_writable(named: str) -> Path | None:
    package = Path(__file__).resolve().parents[1]
    user = Path(AppDirs(appname="accelsim", appauthor=False).user_cache_dir)
    for folder in ([Path(named) / "accelsim"] if named else []) + [package / "__pycache__", user / "kernels"]:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=folder).close()
            return folder
    return None
