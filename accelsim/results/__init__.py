"""Results as documents, folders and a cache, and how they are checked; here what all are written by, and from what.

Equal input, overrides and seed give equal bytes unless a budget in seconds ends the search: nothing here holds a time
of day or of the run.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelsim import __version__
from accelsim.inputs.errors import AccelsimError, require
from accelsim.inputs.library import hash_file
from accelsim.search.stopping import part_file


def refuse_file(file: str | os.PathLike[str], example: str) -> None:
    """Raise AccelsimError if a file could not be written, before a search spends its time; `example` is a name."""
    if Path(file).is_dir():
        raise AccelsimError(f"{file}: this is a folder; name a file, such as {Path(file) / example}")
    _refuse(file, Path(file).absolute().parent)


def refuse_directory(directory: str | os.PathLike[str]) -> None:
    """Raise AccelsimError if results could not be written into a folder, before a search spends its time."""
    _refuse(directory, Path(directory).absolute())


def _refuse(requested: str | os.PathLike[str], path: Path) -> None:
    existing = next(folder for folder in (path, *path.parents) if folder.exists() or folder.is_symlink())
    if not existing.is_dir():
        raise AccelsimError(f"{requested}: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise AccelsimError(f"{requested}: {existing} cannot be written")


def refuse_page(file: str | os.PathLike[str], example: str = "report.html", *, one: bool = True) -> None:
    """Raise AccelsimError if no page could be written, or not of `one` layer, before a search spends its time."""
    if not one:
        raise AccelsimError("a page is of one layer on one machine; choose a layer with --layer")
    refuse_file(file, example)
    require("plotly", "the HTML report needs it", "html")


def write_page(file: str | os.PathLike[str], page: str) -> Path:
    """Write a page as a whole or not at all."""
    return write_directory(Path(file).parent, {Path(file).name: page.encode()})[0]


def write_directory(directory: str | os.PathLike[str], files: Mapping[str, bytes]) -> list[Path]:
    """Write files into a folder, each as a whole or not at all, and say which; other files there are left alone.

    The folder is made where it does not exist. A name may lead into a folder below.
    """
    folder = Path(directory)
    for parent in {(folder / name).parent for name in files} | {folder}:
        parent.mkdir(parents=True, exist_ok=True)
    return [_write(folder / name, content) for name, content in files.items()]


def _write(path: Path, content: bytes) -> Path:
    try:
        with part_file(path) as part:
            part.write_bytes(content)
            os.replace(part, path)
    except OSError as error:  # a full disk names no file
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    return path


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that a result came from: the kind, the name as given, and the hash of its bytes."""

    kind: str
    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a result came from.

    `mappings` and `seconds` [s] are the budget that was asked for; both None: the default of `map_einsum`. `limits` are
    those of the command line, as given.
    """

    command: str
    inputs: tuple[InputFile, ...]
    overrides: Mapping[str, str]
    mappings: int | None = None
    seconds: float | None = None
    limits: tuple[str, ...] = ()


def input_file(kind: str, name: str, path: str | os.PathLike[str]) -> InputFile:
    """Hash an input file as it stands now; `name` is what the user called it."""
    return InputFile(kind, name, hash_file(path))


def to_json(document: Any) -> str:
    """Write JSON with keys in the order given, floats to the last digit, and a row of plain values on one line."""
    return _json(document, "\n") + "\n"


def _json(value: Any, newline: str) -> str:
    entries = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list | tuple) else []
    if not any(isinstance(entry, dict | list | tuple) for entry in entries):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    deeper = newline + "  "
    inner = [_json(entry, deeper) for entry in entries]
    if isinstance(value, dict):
        inner = [f"{json.dumps(key)}: {text}" for key, text in zip(value, inner, strict=True)]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + deeper + f",{deeper}".join(inner) + newline + closing


def csv_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Rows as CSV, below the names of the columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: str(v).lower() if isinstance(v, bool) else v for key, v in row.items()} for row in rows)
    return text.getvalue()


def provenance_json(provenance: Provenance) -> dict[str, Any]:
    """Version, command, input files and overrides, as plain values."""
    return {
        "accelsim": __version__,
        "command": provenance.command,
        "inputs": {file.kind: {"file": file.name, "sha256": file.sha256} for file in provenance.inputs},
        "overrides": dict(sorted(provenance.overrides.items())),
        "limits": list(provenance.limits),
    }
