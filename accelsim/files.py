"""Reading the files that a user names: regular files of a bounded size, whatever their name points to."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from os import PathLike
from typing import Any

from accelsim.errors import Unreadable

MOST_BYTES, MOST_MODEL_BYTES = 64 << 20, 4 << 30
"""Bytes that are read of a file, at most; and of a model or a table of results."""


def read_file(path: str | PathLike[str], most: int = MOST_BYTES) -> bytes:
    """Content of a file that a user names.

    Raises
    ------
    Unreadable
        If there is none, it is no regular file, it holds more than `most` bytes, or it may not be read.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable(path, "is a pipe or a device; only regular files are read")
            content = file.read(most + 1) if status.st_size <= most else b""
    except FileNotFoundError:
        raise Unreadable(path, "no such file") from None
    except IsADirectoryError:
        raise Unreadable(path, "is a directory, not a file") from None
    except (OSError, ValueError) as error:
        raise Unreadable(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if max(status.st_size, len(content)) > most:
        raise Unreadable(path, f"is larger than {most >> 20} MiB; at most so much is read")
    return content


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


def read_json(path: str | PathLike[str]) -> Any:
    """Value of a JSON file that a user names.

    Raises
    ------
    Unreadable
        As `read_utf8`, or if it is not JSON.
    """
    try:
        return json.loads(read_utf8(path))
    except ValueError as error:
        raise Unreadable(path, f"not JSON: {error}") from None
    except RecursionError:
        raise Unreadable(path, "not JSON that can be read: nested too deeply") from None


def hash_file(path: str | PathLike[str]) -> str:
    """SHA-256 of a file, as hexadecimal digits."""
    with open(path, "rb", opener=_open_at_once) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for somebody to write into it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
