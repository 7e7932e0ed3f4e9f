"""Models of other tools as workloads: importers are found by the ending of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from typing import Protocol, cast

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
