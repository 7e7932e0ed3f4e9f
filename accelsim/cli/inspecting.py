"""The commands that look at files rather than map: `check`, `energy`, `list` and `schema`."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from accelsim.cli.inputs import read_overrides
from accelsim.cli.printing import BAD_INPUT, DONE, answer, print_json
from accelsim.inputs import library
from accelsim.inputs.architecture import load_architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.params import check_overrides
from accelsim.inputs.units import listed
from accelsim.inputs.workload import load_workload


def schema_command(arguments: argparse.Namespace) -> int:
    """Print or write JSON Schemas."""
    from accelsim.inputs.schema import KINDS, json_schema
    from accelsim.results.folder import write_directory
    from accelsim.results.output import to_json

    kinds = [arguments.kind] if arguments.kind else KINDS
    if arguments.output:
        files = {f"{kind}.schema.json": to_json(json_schema(kind)).encode() for kind in kinds}
        for path in write_directory(arguments.output, files):
            sys.stdout.write(f"{path}\n")
        return DONE
    if not arguments.kind:
        raise AccelsimError(f"say which kind ({listed(KINDS)}), or -o DIR for all of them")
    print_json(json_schema(arguments.kind))
    return DONE


def check_command(arguments: argparse.Namespace) -> int:
    """Report every mistake in files of any kind."""
    from accelsim.cli.check import check_files

    paths = [_any_kind(name) for name in arguments.files]
    problems = check_files(paths, read_overrides(arguments))
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    if problems:
        return BAD_INPUT
    sys.stdout.write(f"{len(paths)} file{'s' if len(paths) > 1 else ''}: no mistakes\n")
    return DONE


def _any_kind(name: str) -> str | Path:
    """Path of a file: as given where there is one, else a shipped file of that name, else as given."""
    return next(filter(None, (library.find(name, kind) for kind in library.KINDS)), name)


def energy_command(arguments: argparse.Namespace) -> int:
    """Show the energy of each action of a machine, its area, and its power with everything busy."""
    from accelsim.inputs.energy.interpolation import error_notes
    from accelsim.inputs.machine_tables import area_rows, energy_rows, peak_rows
    from accelsim.results.output import InputFile, Provenance, input_file, provenance_json
    from accelsim.show.report import energies_report

    overrides = read_overrides(arguments)
    path = library.resolve(arguments.arch, "arch")
    check_overrides(overrides, [path])
    architecture = load_architecture(path, overrides)
    rows, areas, peaks = energy_rows(architecture), area_rows(architecture), peak_rows(architecture)
    notes = [*architecture.energy_notes, *error_notes(str(row["source"]) for row in (*rows, *areas))]
    files: tuple[InputFile, ...] = (input_file("architecture", arguments.arch, path),)
    provenance = provenance_json(Provenance("energy", files, overrides))
    document = {**provenance, "architecture": architecture.name, "energy_table": rows, "area": areas}
    document |= {"area_um2": architecture.area_um2, "peak": peaks, "notes": notes}
    answer(arguments, document, lambda: [*energies_report(architecture.name, rows, areas, peaks), *notes])
    return DONE


def list_command(arguments: argparse.Namespace) -> int:
    """Name the files that ship."""
    from accelsim.show.report import shipped_report

    kinds = [arguments.kind] if arguments.kind else list(library.KINDS)
    listing = {kind: [_about(path, kind) for path in library.shipped(kind)] for kind in kinds}
    answer(arguments, listing, lambda: (part for kind, rows in listing.items() for part in shipped_report(kind, rows)))
    return DONE


def _about(path: Path, kind: str) -> dict[str, Any]:
    """Name of a shipped file, the first sentence of its comment, and how large a workload is."""
    comment: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.lstrip("# ").rstrip())
    sentence = re.split(r"(?<!al)[.]\s+(?=[A-Z`])", " ".join(comment).rstrip("."), maxsplit=1)[0]
    row: dict[str, Any] = {"name": path.relative_to(library.root(kind)).with_suffix("").as_posix(), "about": sentence}
    if kind == "workloads":
        layers = load_workload(path).layers
        row["layers"] = sum(layer.repeat for layer in layers)
        row["macs"] = sum(layer.repeat * layer.macs for layer in layers)
    return row
