"""The command `import`: a model of ONNX or PyTorch as a workload file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.cli.inputs import read_overrides
from accelsim.cli.printing import DONE
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.imported import MODELS, importer
from accelsim.inputs.params import check_overrides
from accelsim.inputs.workload_reader import read_imported

if TYPE_CHECKING:
    from accelsim.inputs.imported import Note

_NAMED = 3
"""Nodes of a kind that are named where all of them would be too many lines."""


def import_command(arguments: argparse.Namespace) -> int:
    """Write a model as a workload file, and say what is not in it as it is in the model."""
    from accelsim.results.folder import refuse_file, write_page

    path = Path(arguments.workload)
    model = importer(path)
    if model is None:
        raise AccelsimError(f"{path}: expected a model, a file that ends in {' or '.join(MODELS)}")
    if arguments.output:
        refuse_file(arguments.output, f"{path.stem}.yaml")
    overrides = read_overrides(arguments)
    check_overrides(overrides, [path])
    imported = model.import_model(path, overrides)
    read_imported(imported, path, overrides)  # refuses what no command could read
    text = imported.text.replace("params: {bits: 16}", f"params: {{bits: {overrides.get('bits', '16')}}}", 1)
    for note in imported.notes:
        sys.stderr.write(f"{note}\n")
    if not arguments.output:
        sys.stdout.write(text)
        return DONE
    write_page(arguments.output, text)
    sys.stdout.write(f"Written to {arguments.output}\n")
    return DONE


def print_notes(notes: Iterable[Note]) -> None:
    """Say on stderr what of a model is not counted as it is, nodes of a kind together."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for note in notes:
        groups.setdefault((note.operator, note.done, note.why), []).append(note.node)
    for (operator, done, why), nodes in groups.items():
        more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
        sys.stderr.write(f"{operator} {done}: {why}: {', '.join(nodes[:_NAMED])}{more}\n")
    if any(len(nodes) > _NAMED for nodes in groups.values()):
        sys.stderr.write("`accelsim import` names every node\n")
