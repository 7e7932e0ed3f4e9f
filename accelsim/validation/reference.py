"""Where reference data is found that is not part of accelsim."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from accelsim.inputs.errors import AccelsimError


class NoReferenceError(AccelsimError):
    """Reference data that a study needs is absent."""


def reference_paths(given: Sequence[str | Path], usual: str) -> list[Path]:
    """Paths that were given, or the usual one in the folder of reference data.

    The folder is `ACCELSIM_SHARED`, or `../shared` beside the working directory.

    Raises
    ------
    NoReferenceError
        If none was given and the usual one is absent.
    """
    if given:
        return [Path(path) for path in given]
    path = Path(os.environ.get("ACCELSIM_SHARED") or "../shared") / usual
    if not path.exists():
        raise NoReferenceError(f"{path}: is absent; say where the records are: accelsim validate WHAT PATH")
    return [path]
