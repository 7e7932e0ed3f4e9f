"""Files: those that come with accelsim are found by name from any folder, those that a user names are of bounded size.

Models of other tools as workloads: importers are found by the ending of a file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from io import BufferedReader
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, cast

from accelsim.inputs.errors import AccelsimError, UnknownNameError, Unreadable
from accelsim.inputs.units import near_miss, near_misses

TOP_KEYS = (
    *("architecture", "gpu", "system", "workload", "decoder"),
    *("mapping", "layout", "constraints", "energy_table", "sweep"),
)
"""Of input files; each file has one, and may have `params` beside it."""
KINDS = ("arch", "gpus", "systems", "workloads", "decoders", "mappings", "constraints", "energy_tables", "sweeps")
FOLDERS = {
    "architecture": "arch",
    "system": "systems",
    "workload": "workloads",
    "mapping": "mappings",
    "constraints": "constraints",
}
"""Kind under which the files of a top-level key ship."""
_PACKAGE = Path(__file__).resolve().parents[1]


def root(kind: str) -> Path:
    """Folder of the shipped files of a kind: inside the installed package, or at the top of a checkout."""
    if kind == "gpus":
        return root("arch") / "gpu"
    if kind == "energy_tables":
        return _PACKAGE / "energy" / "tables"
    inside = _PACKAGE / kind
    return inside if inside.is_dir() else _PACKAGE.parent / kind


def shipped(kind: str) -> list[Path]:
    """Shipped files of a kind, by name; GPUs stand below the other architectures and are a kind of their own."""
    return [path for path in sorted(root(kind).rglob("*.yaml")) if _ships_as(kind, path)]


def _ships_as(kind: str, path: Path) -> bool:
    """Whether a file would be a shipped one of a kind by where it stands."""
    inside = root(kind) in path.parents and ".." not in path.relative_to(root(kind)).parts
    return inside and (kind != "arch" or root("gpus") not in path.parents)


def resolve(name_or_path: str | Path, kind: str) -> Path:
    """Find a file by its path or, failing that, by the name of a shipped one of a kind (`KINDS`).

    A name is such as `systolic`, `systolic.yaml` or `arch/systolic`. Raises UnknownNameError if there is no such
    file; it names the shipped file with the closest name.
    """
    found = find(name_or_path, kind)
    if found is not None:
        return found
    if os.path.isdir(name_or_path):
        raise AccelsimError(f"{name_or_path}: is a directory, not a file; name a file in it")
    if kind == "arch" and find(name_or_path, "systems"):
        raise AccelsimError(f"{name_or_path}: a system of cores, and one architecture is needed; `map` takes systems")
    names = [_name(path, kind) for path in shipped(kind)]
    for other in ("gpus", "systems") if kind == "arch" else ():
        names += [_name(path, other) for path in shipped(other)]
    requested = _stem(name_or_path, kind)
    hint = near_miss(requested, names) or "`accelsim list` shows them"
    what = f"{name_or_path}: no such file, and none of that name is shipped with accelsim; {hint}"
    raise UnknownNameError(what, str(name_or_path), near_misses(requested, names))


def find(name_or_path: str | PathLike[str], kind: str) -> Path | None:
    """Return what `resolve` returns, or None if there is no such file."""
    path = Path(name_or_path)
    if os.path.exists(path) and not os.path.isdir(path):  # also of a name too long for a path, or with a NUL in it
        return path
    requested = _stem(name_or_path, kind)
    direct = root(kind) / f"{requested}.yaml"
    if os.path.isfile(direct) and _ships_as(kind, direct):
        return direct
    same_stem = [shipped_path for shipped_path in shipped(kind) if shipped_path.stem == requested]
    return same_stem[0] if len(same_stem) == 1 else None


def _name(path: Path, kind: str) -> str:
    return path.relative_to(root(kind)).with_suffix("").as_posix()


def _stem(name_or_path: str | PathLike[str], kind: str) -> str:
    text = Path(name_or_path).as_posix().removesuffix(".yaml").removesuffix(".yml")
    return text.removeprefix("./").removeprefix(f"{kind}/")


_IMPORTERS = {
    **dict.fromkeys((".onnx", ".pt2"), "accelsim.importers.onnx"),
    **{".mlir": "accelsim.importers.stablehlo", "config.json": "accelsim.importers.decoders"},
}
"""Importer of files that end so: ONNX models, programs of `torch.export.save`, StableHLO, Hugging Face's decoders."""
MODELS = tuple(_IMPORTERS)
"""Endings of models that stand wherever a workload may."""


@dataclass(frozen=True, slots=True)
class NodeNote:
    """A node that is not counted as it is: its name, its operator, what was done with it, and why."""

    node: str
    operator: str
    done: str
    why: str

    def __str__(self) -> str:
        return f"{self.node} ({self.operator}): {self.done}: {self.why}"


@dataclass(frozen=True, slots=True)
class Imported:
    """A model as a workload file, and what is not in it as it is in the model."""

    text: str
    notes: tuple[NodeNote, ...]


class Importer(Protocol):
    """A module that reads models of another tool."""

    def import_model(self, path: str | PathLike[str], sizes: Mapping[str, str]) -> Imported:
        """Read a model as a workload; `sizes` of the dimensions that it leaves open."""

    def parameters(self, path: str | PathLike[str]) -> frozenset[str]:
        """Names of the dimensions that a model leaves open, and `bits`."""


def importer(path: str | PathLike[str]) -> Importer | None:
    """Importer of a file by its ending; None where it is no model."""
    module = next((name for ending, name in _IMPORTERS.items() if str(path).endswith(ending)), None)
    return None if module is None else cast(Importer, import_module(module))


MOST_BYTES, MOST_UNPACKED_BYTES, MOST_MODEL_BYTES = 64 << 20, 512 << 20, 4 << 30
"""Bytes that are read of a file, at most; of a trace or a mask, unpacked; and of a model or a table of results."""
_PIECE = 1 << 20
"""Bytes that are read at once."""
_LONGEST_NAME = 200
"""Bytes of a name of a file without its ending, at most; a file system allows 255 with it."""


def user_cache() -> Path:
    """The user's folder for what can be made again; named though there is none, nor a home."""
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local"), "accelsim")
    if sys.platform == "darwin":
        return Path(home, "Library", "Caches", "accelsim")
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "accelsim")


def open_file(path: str | PathLike[str], most: int = MOST_BYTES) -> BufferedReader:
    """Open a file that a user names, without waiting for somebody to write into it.

    Raises Unreadable if there is none, it is no regular file, it holds more than `most` bytes, or it may not be read.
    """
    no_wait = getattr(os, "O_NONBLOCK", 0)  # also where it is a pipe into which nobody writes yet
    try:  # the caller closes it
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | no_wait))  # noqa: SIM115
    except FileNotFoundError:
        raise Unreadable(path, "no such file") from None
    except IsADirectoryError:
        raise Unreadable(path, "is a directory, not a file") from None
    except (OSError, ValueError) as error:
        raise Unreadable(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    status = os.fstat(file.fileno())
    if stat.S_ISREG(status.st_mode) and status.st_size <= most:
        return file
    file.close()
    if stat.S_ISREG(status.st_mode):
        raise Unreadable(path, f"is larger than {most >> 20} MiB; at most so much is read")
    raise Unreadable(path, "is a pipe or a device; only regular files are read")


def read_file(path: str | PathLike[str], most: int = MOST_BYTES) -> bytes:
    """Content of a file that a user names; raises as `open_file`."""
    with open_file(path, most) as file:
        return _content(path, file.read, most)


def _content(path: str | PathLike[str], read: Callable[[int], bytes], most: int) -> bytes:
    content = bytearray()  # Python makes room for all that is asked for at once
    try:
        while piece := read(min(_PIECE, most + 1 - len(content))):
            content += piece
    except OSError as error:
        raise Unreadable(path, f"cannot be read: {error.strerror or error}") from None
    if len(content) > most:
        raise Unreadable(path, f"holds more than {most >> 20} MiB; at most so much is read")
    return bytes(content)


def read_unpacked(path: str | PathLike[str]) -> bytes:
    """Content of a file that a user names, unpacked where it is one of gzip or a ZIP archive of one file (`.npz`).

    Raises Unreadable as `open_file`, if it is more than `MOST_UNPACKED_BYTES`, or if its packing is damaged.
    """
    import gzip  # these take time at the start
    import zipfile

    most = MOST_UNPACKED_BYTES
    with open_file(path, most) as file:
        head = file.peek(4)
        try:
            if head.startswith(b"\x1f\x8b"):
                with gzip.open(file) as unpacked:
                    return _content(path, unpacked.read, most)
            if not head.startswith(b"PK\3\4"):
                return _content(path, file.read, most)
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                if len(members) != 1:
                    raise Unreadable(path, f"holds {len(members)} arrays, not one")
                known = members[0].compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
                if members[0].flag_bits & 1 or not known:
                    raise Unreadable(path, "is encrypted, or packed by a method that NumPy does not use")
                with archive.open(members[0]) as unpacked:
                    return _content(path, unpacked.read, most)
        except Unreadable:
            raise
        except Exception as error:  # a damaged archive fails in as many ways as there are parts in it
            raise Unreadable(path, f"cannot be unpacked: {' '.join(str(error).split())[:200]}") from None


def refuse_large_archive(path: str | PathLike[str]) -> None:
    """Raise Unreadable if a ZIP archive that another library opens is more than `MOST_MODEL_BYTES`, unpacked too."""
    import zipfile

    with open_file(path, MOST_MODEL_BYTES) as file, suppress(zipfile.BadZipFile), zipfile.ZipFile(file) as archive:
        if sum(member.file_size for member in archive.infolist()) > MOST_MODEL_BYTES:
            raise Unreadable(path, f"holds more than {MOST_MODEL_BYTES >> 20} MiB; at most so much is read")


def read_utf8(path: str | PathLike[str]) -> str:
    """Text of a UTF-8 file that a user names; a mark of the byte order is left out.

    Raises Unreadable as `read_file`, or if it is not UTF-8.
    """
    try:
        return read_file(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(path, f"not UTF-8 text at byte {error.start}; save the file as UTF-8") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def read_json(path: str | PathLike[str]) -> Any:
    """Value of a JSON file that a user names; raises Unreadable as `read_utf8`, or if it is not JSON."""
    try:
        return json.loads(read_utf8(path), parse_constant=_refuse_constant)
    except ValueError as error:
        raise Unreadable(path, f"not JSON: {error}") from None
    except RecursionError:
        raise Unreadable(path, "not JSON that can be read: nested too deeply") from None


def hash_file(path: str | PathLike[str]) -> str:
    """SHA-256 of a file, as hexadecimal digits; raises as `open_file`."""
    with open_file(path, MOST_MODEL_BYTES) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_name(*parts: str) -> str:
    """Name of a file or folder for what has such names: one component of a path, which leads nowhere else.

    >>> file_name("sweep", "a/../../evil"), file_name(".."), file_name("conv 3x3")
    ('sweep_a_.._.._evil', '_.', 'conv_3x3')
    """
    name = re.sub(r"[^\w.+-]|^\.|^$", "_", "_".join(parts))
    return name.encode()[:_LONGEST_NAME].decode(errors="ignore")
