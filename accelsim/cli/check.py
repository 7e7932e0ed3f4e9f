"""Check input files of any kind and collect every mistake in all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from accelsim.gpu.spec import read_gpu
from accelsim.inputs.architecture import Architecture, read_architecture
from accelsim.inputs.constraints import read_constraints
from accelsim.inputs.energy.table import read_energy_table
from accelsim.inputs.errors import Problem
from accelsim.inputs.fields import Document, open_document
from accelsim.inputs.mapping import read_mapping
from accelsim.inputs.params import unknown_overrides
from accelsim.inputs.source import Problems
from accelsim.inputs.workload import Workload
from accelsim.inputs.workload_reader import read_workload


def check_files(paths: Sequence[str | PathLike[str]], overrides: Mapping[str, str] | None = None) -> list[Problem]:
    """Read files of any kind and return every mistake in them, by file and line.

    Mappings and constraints are checked against architecture and workload where the files hold one of each, the
    workload with a single layer; otherwise only for its form.

    Parameters
    ----------
    paths : sequence of str or path
        Architectures, workloads, mappings and energy tables, in any order.
    overrides : mapping of str to str, optional
        Values of parameters that replace those in the files; a name that no file defines is a mistake.

    Returns
    -------
    list of Problem
        Empty if all is well.
    """
    problems = Problems()
    overrides = overrides or {}
    for problem in unknown_overrides(overrides, paths):
        problems.found.append(problem)
    opened = [open_document(path, None, overrides, problems) for path in paths]
    documents = [document for document in opened if document is not None]
    architectures: list[Architecture | None] = []
    workloads: list[Workload | None] = []
    for document in documents:
        if document.kind == "architecture":
            architectures.append(read_architecture(document.body, document.path, problems))
        elif document.kind == "workload":
            workloads.append(read_workload(document.body, problems))
        elif document.kind == "gpu":
            read_gpu(document.body, problems)
        elif document.kind == "energy_table":
            read_energy_table(document.body, problems)
        elif document.kind == "sweep":
            _check_sweep(document, problems)
    _check_upon(documents, architectures, workloads, problems)
    return sorted(set(problems.found), key=lambda problem: (problem.mark, problem.what))


def _check_sweep(document: Document, problems: Problems) -> None:
    """Check a sweep and the files that it names."""
    from accelsim.explore.checking import File
    from accelsim.explore.sweep import read_sweep

    read_sweep(document.body, File(document.path, Path(document.path)), problems)


def _check_upon(
    documents: Sequence[Document],
    architectures: Sequence[Architecture | None],
    workloads: Sequence[Workload | None],
    problems: Problems,
) -> None:
    """Check mappings and constraints, against architecture and workload if it is clear which ones are meant."""
    architecture = architectures[0] if len(architectures) == 1 else None
    workload = workloads[0] if len(workloads) == 1 else None
    einsum = workload.layers[0] if workload is not None and len(workload.layers) == 1 else None
    for document in documents:
        if document.kind == "mapping":
            read_mapping(document.body, problems, architecture, einsum)
        elif document.kind == "constraints":
            read_constraints(document.body, problems, architecture, einsum)
