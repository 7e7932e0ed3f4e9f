"""Files: those that a user names are regular and of a bounded size, and names of things become names of files here."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Iterable
from io import BufferedReader
from os import PathLike
from pathlib import Path
from typing import Any

from accelsim.inputs.errors import AccelsimError, Unreadable

MOST_BYTES, MOST_MODEL_BYTES = 64 << 20, 4 << 30
"""Bytes that are read of a file, at most; and of a model or a table of results."""
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

    Raises
    ------
    Unreadable
        If there is none, it is no regular file, it holds more than `most` bytes, or it may not be read.
    """
    try:
        file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115  # the caller closes it
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


def _without_waiting(path: str, flags: int) -> int:
    """Open a file also where it is a pipe into which nobody writes yet."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_file(path: str | PathLike[str], most: int = MOST_BYTES) -> bytes:
    """Content of a file that a user names; raises as `open_file`."""
    with open_file(path, most) as file:
        content = bytearray()  # Python makes room for all that is asked for at once
        try:
            while piece := file.read(min(_PIECE, most - len(content))):
                content += piece
        except OSError as error:
            raise Unreadable(path, f"cannot be read: {error.strerror or error}") from None
    return bytes(content)


def read_utf8(path: str | PathLike[str]) -> str:
    """Text of a UTF-8 file that a user names; a mark of the byte order is left out.

    Raises
    ------
    Unreadable
        As `read_file`, or if it is not UTF-8.
    """
    try:
        return read_file(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(path, f"not UTF-8 text at byte {error.start}; save the file as UTF-8") from None


def read_table(path: str | PathLike[str], needed: Iterable[str]) -> tuple[list[tuple[str, dict[str, str]]], list[str]]:
    """Rows of a CSV file by the names of its columns, each with its place, and what is wrong with others.

    Raises
    ------
    Unreadable
        As `read_utf8`, or if it is not CSV or lacks a column.
    """
    lines = csv.reader(read_utf8(path).splitlines(), skipinitialspace=True)
    rows, wrong = [], []
    try:
        head = [name.strip() for name in next(lines, [])]
        missing = [name for name in needed if name not in head]
        for cells in filter(None, lines):
            where = f"{os.fspath(path)}:{lines.line_num}"
            if len(cells) == len(head):
                rows.append((where, dict(zip(head, cells, strict=True))))
            else:
                wrong.append(f"{where}: expected {len(head)} cells, as in line 1, got {len(cells)}")
    except csv.Error as error:
        raise Unreadable(path, f"cannot be read: {error}") from None
    if missing:
        raise AccelsimError(f"{os.fspath(path)}:1: no column {', '.join(missing)}")
    return rows, wrong


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def read_json(path: str | PathLike[str]) -> Any:
    """Value of a JSON file that a user names.

    Raises
    ------
    Unreadable
        As `read_utf8`, or if it is not JSON.
    """
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

    Examples
    --------
    >>> file_name("sweep", "a/../../evil"), file_name(".."), file_name("conv 3x3")
    ('sweep_a_.._.._evil', '_.', 'conv_3x3')
    """
    name = re.sub(r"[^\w.+-]|^\.|^$", "_", "_".join(parts))
    return name.encode()[:_LONGEST_NAME].decode(errors="ignore")
