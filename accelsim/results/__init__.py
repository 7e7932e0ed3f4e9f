"""Results as documents, folders and a cache, and how they are checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.workload import Einsum
from accelsim.search.stopping import part_file

NO_PLOTLY = "plotly is not installed, and the HTML report needs it; `pip install 'accelsim[html]'`"


def refuse_file(file: str | os.PathLike[str], example: str) -> None:
    """Raise AccelsimError if a file could not be written, before a search spends its time; `example` is a name."""
    if Path(file).is_dir():
        raise AccelsimError(f"{file}: this is a folder; name a file, such as {Path(file) / example}")
    _refuse(file, Path(file).absolute().parent)


def refuse_directory(directory: str | os.PathLike[str]) -> None:
    """Raise AccelsimError if results could not be written into a folder, before a search spends its time."""
    _refuse(directory, Path(directory).absolute())


def _refuse(asked: str | os.PathLike[str], path: Path) -> None:
    existing = next(folder for folder in (path, *path.parents) if folder.exists() or folder.is_symlink())
    if not existing.is_dir():
        raise AccelsimError(f"{asked}: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise AccelsimError(f"{asked}: {existing} cannot be written")


def refuse_page(file: str | os.PathLike[str], layer: Einsum | None) -> None:
    """Raise AccelsimError if no page could be written, before a search spends its time."""
    if layer is None:
        raise AccelsimError("a page is of one layer on one machine; choose a layer with --layer")
    refuse_file(file, "report.html")
    if find_spec("plotly") is None:
        raise AccelsimError(NO_PLOTLY)


def write_page(file: str | os.PathLike[str], page: str) -> Path:
    """Write a page as a whole or not at all."""
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    return _write(path, page.encode())


def write_directory(directory: str | os.PathLike[str], files: Mapping[str, bytes]) -> list[Path]:
    """Write files into a folder, each as a whole or not at all; other files there are left alone.

    Parameters
    ----------
    directory : str or path
        Made with its parents where it does not exist.
    files : mapping of str to bytes
        Contents by name; a name may lead into a folder below.

    Returns
    -------
    list of Path
        The files written.
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
