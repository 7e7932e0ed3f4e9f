"""Entries of a file: plain values by their keys, each sealed by a hash, which processes may read and write together.

The file is one of SQLite. It is opened for each call alone, and what a call writes is there as a whole or not at all.
SQLite's journal for rolling back does that on any file system that has locks; a write-ahead log would need all
processes on one computer, and a folder that can be written.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WAIT_SECONDS = 60.0
"""How long a call waits for those of other processes, which take milliseconds."""
_TABLE = "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, sha256 TEXT, body BLOB)"
_DAMAGE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class DamagedError(OSError):
    """A file that does not hold entries, or not all that it should."""


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of a file, which need not exist yet.

    All raise OSError if the file cannot be read or written, and DamagedError if it is not what it should be.
    """

    path: Path

    @contextmanager
    def _open(self, mode: str) -> Iterator[sqlite3.Connection]:
        name = f"{self.path.absolute().as_uri()}?mode={mode}"
        try:
            with closing(sqlite3.connect(name, WAIT_SECONDS, isolation_level="IMMEDIATE", uri=True)) as file, file:
                file.execute(_TABLE)
                yield file
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code == sqlite3.SQLITE_FULL:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path)) from None
            raise (DamagedError if code in _DAMAGE else OSError)(errno.EIO, str(error), str(self.path)) from None

    def read(self, *keys: str) -> Iterator[tuple[str, Any]]:
        """Entries of some keys, or all, with their keys; None for a value that is not the one that was written."""
        if self.path.exists():
            with self._open("rw") as file:  # which reads one that may not be written as well
                where = f" WHERE key IN ({', '.join('?' * len(keys))})" if keys else ""
                for key, sealed, body in file.execute(f"SELECT key, sha256, body FROM entries{where}", keys):
                    yield key, json.loads(body) if sealed == seal(key, body) else None
                if not keys and file.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                    raise sqlite3.DatabaseError("its index is damaged")

    def write(self, entries: Mapping[str, Any]) -> None:
        """Keep values, all or none of them, in place of those that had the same keys."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        bodies = {key: json.dumps(value).encode() for key, value in entries.items()}
        with self._open("rwc") as file:
            rows = [(key, seal(key, body), body) for key, body in bodies.items()]
            file.executemany("REPLACE INTO entries VALUES (?, ?, ?)", rows)

    def size(self) -> tuple[int, int]:
        """Number of entries, and bytes of their values."""
        if not self.path.exists():
            return 0, 0
        with self._open("rw") as file:
            count, size = file.execute("SELECT COUNT(*), TOTAL(LENGTH(body)) FROM entries").fetchone()
            return count, int(size)

    def clear(self) -> None:
        """Remove all entries."""
        if self.path.exists():
            with self._open("rw") as file:
                file.execute("DELETE FROM entries")
                file.commit()
                file.execute("VACUUM")

    def put_aside(self) -> str:
        """Move a damaged file out of the way; returns its new name."""
        aside = self.path.with_suffix(".damaged")
        for ending in ("-journal", ""):  # a journal would be rolled back into the next file
            with suppress(OSError):  # another process was faster, or nothing can be moved
                os.replace(f"{self.path}{ending}", f"{aside}{ending}")
        return aside.name


def seal(key: str, body: bytes) -> str:
    """Hash of an entry, which shows damage, and that it stands under the key of another one."""
    return hashlib.sha256(key.encode() + b"\0" + bytes(body)).hexdigest()
