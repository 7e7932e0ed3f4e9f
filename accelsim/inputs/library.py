"""Architectures, workloads, mappings and energy tables that come with accelsim, found by name from any folder.

Models of other tools as workloads: importers are found by the ending of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Protocol, cast

from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import near_miss

KINDS = ("arch", "gpus", "workloads", "mappings", "constraints", "energy_tables", "sweeps")
FOLDERS = {"architecture": "arch", "workload": "workloads", "mapping": "mappings", "constraints": "constraints"}
"""Kind under which the files of a top-level key ship."""
_PACKAGE = Path(__file__).resolve().parents[1]


def root(kind: str) -> Path:
    """Folder of the shipped files of a kind: inside the installed package, or at the top of a checkout."""
    if kind == "gpus":
        return root("arch") / "gpu"
    if kind == "energy_tables":
        return _PACKAGE / "inputs" / "energy" / "tables"
    inside = _PACKAGE / kind
    return inside if inside.is_dir() else _PACKAGE.parent / kind


def shipped(kind: str) -> list[Path]:
    """Shipped files of a kind, by name; GPUs stand below the other architectures and are a kind of their own."""
    found = sorted(root(kind).rglob("*.yaml"))
    return [path for path in found if root("gpus") not in path.parents] if kind == "arch" else found


def resolve(name_or_path: str | Path, kind: str) -> Path:
    """Find a file by its path or, failing that, by the name of a shipped one.

    Parameters
    ----------
    name_or_path : str or path
        A path, or a name such as `systolic`, `systolic.yaml` or `arch/systolic`.
    kind : str
        One of `KINDS`.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    AccelsimError
        If there is no such file; names the shipped file with the closest name.
    """
    found = find(name_or_path, kind)
    if found is not None:
        return found
    if str(name_or_path) and _is_folder(Path(name_or_path)):
        raise AccelsimError(f"{name_or_path}: is a directory, not a file")
    names = [_name(path, kind) for path in shipped(kind)]
    if kind == "arch":
        names += [_name(path, "gpus") for path in shipped("gpus")]
    hint = near_miss(_stem(name_or_path, kind), names)
    hint = hint or "`accelsim list` shows them"
    raise AccelsimError(f"{name_or_path}: no such file, and none of that name is shipped with accelsim; {hint}")


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name too long for a path, or with a NUL in it
        return False


def find(name_or_path: str | PathLike[str], kind: str) -> Path | None:
    """Return what `resolve` returns, or None if there is no such file."""
    path = Path(name_or_path)
    try:
        exists = path.exists() and not path.is_dir()
    except (OSError, ValueError):  # a name too long for a path, or with a NUL in it
        return None
    if exists:
        return path
    wanted = _stem(name_or_path, kind)
    by_name = {_name(shipped_path, kind): shipped_path for shipped_path in shipped(kind)}
    if wanted in by_name:
        return by_name[wanted]
    same_stem = [shipped_path for shipped_path in by_name.values() if shipped_path.stem == wanted]
    return same_stem[0] if len(same_stem) == 1 else None


def _name(path: Path, kind: str) -> str:
    return path.relative_to(root(kind)).with_suffix("").as_posix()


def _stem(name_or_path: str | PathLike[str], kind: str) -> str:
    text = Path(name_or_path).as_posix().removesuffix(".yaml").removesuffix(".yml")
    return text.removeprefix("./").removeprefix(f"{kind}/")


_IMPORTERS = {".onnx": "accelsim.importers.onnx", ".pt2": "accelsim.importers.onnx"}
"""Importer of files that end so: ONNX models, and programs that `torch.export.save` wrote."""
MODELS = tuple(_IMPORTERS)
"""Endings of models that stand wherever a workload may."""


@dataclass(frozen=True, slots=True)
class Note:
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
    notes: tuple[Note, ...]


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
