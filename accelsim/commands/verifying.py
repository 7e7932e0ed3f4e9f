"""The command `verify`: check a result.json that `map` wrote."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.commands.inputs import Inputs, find_files, find_layer, read_layer_constraints, read_machine
from accelsim.commands.printing import DIFFERS, DONE, make_console, print_report
from accelsim.errors import AccelsimError
from accelsim.files import read_json

if TYPE_CHECKING:
    from rich.console import Console

    from accelsim.verifying import Check

_WRITTEN = ("result.json", "fusion.json")
"""What may be verified of a folder."""


def verify_command(arguments: argparse.Namespace) -> int:
    """Check what a result.json says, layer by layer, or a fusion.json."""
    from accelsim.report.verifying import print_checks, print_verdict

    path = Path(arguments.result)
    if not path.exists():
        raise AccelsimError(f"{path}: no such file or folder; name what `map -o` or `fuse -o` wrote")
    if path.is_dir():
        found_there = [path / name for name in _WRITTEN if (path / name).is_file()]
        if not found_there:
            raise AccelsimError(f"{path}: holds neither {' nor '.join(_WRITTEN)}")
        path = found_there[0]
    document = _read(path)
    inputs = _read_inputs(path, document)
    changed = _changed(inputs, document)
    for line in changed:
        sys.stderr.write(line + "\n")
    if changed and not arguments.force:
        sys.stderr.write("nothing was checked; --force goes on with the files as they are now\n")
        return DIFFERS
    layers = document.get("layers", [document])
    if "fusion" in document:
        found = _verify_fusion(inputs, document, arguments)
    else:
        found = [
            (f"{name} on {inputs.architecture.name}", _verify_layer(inputs, entry, name, arguments))
            for entry in layers
            if "no_valid_mapping" not in entry
            for name in [entry.get("result", entry.get("front"))["layer"]]
        ]
    checks = [check for _, several in found for check in several]

    def show(console: Console) -> None:
        for name, several in found:
            print_checks(console, name, several)
        unmapped = sum("no_valid_mapping" in entry for entry in layers)
        if unmapped:
            console.print(f"{unmapped} of {len(layers)} layers have no mapping in the file and were not checked")
        print_verdict(console, checks)

    print_report(show)
    return DIFFERS if any(check.agrees is False for check in checks) else DONE


def _verify_fusion(
    inputs: Inputs, document: Mapping[str, Any], arguments: argparse.Namespace
) -> list[tuple[str, list[Check]]]:
    from accelsim.commands.fusing import fusing_progress
    from accelsim.fusion.verifying import verify_fusion
    from accelsim.search.strategy import Objective

    with fusing_progress() as on_progress:
        try:
            Objective.parse(document["fusion"]["objective"])
        except (KeyError, TypeError, AttributeError, AccelsimError) as error:
            raise AccelsimError(f"{arguments.result}: not what `accelsim fuse` writes: {_said(error)}") from None
        try:
            return verify_fusion(
                document,
                inputs.architecture,
                inputs.workload,
                seconds=arguments.seconds,
                workers=arguments.workers,
                on_progress=on_progress,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise AccelsimError(f"{arguments.result}: not what `accelsim fuse` writes: {_said(error)}") from None


def _verify_layer(inputs: Inputs, entry: Mapping[str, Any], name: str, arguments: argparse.Namespace) -> list[Check]:
    from accelsim.report.progress import search_progress
    from accelsim.verifying import verify

    layer = find_layer(inputs.workload, name, str(inputs.paths["workload"]))
    if layer is None:
        raise AccelsimError(f"{inputs.paths['workload']} has no layer '{name}'")
    constraints = read_layer_constraints(inputs, layer)
    objective = entry["search"]["objective"] if "search" in entry else ""
    with search_progress(make_console(stderr=True), name, objective) as on_progress:
        try:
            return verify(
                entry,
                inputs.architecture,
                layer,
                constraints,
                seconds=arguments.seconds,
                workers=arguments.workers,
                on_progress=on_progress,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise AccelsimError(f"{arguments.result}: not what `accelsim map` writes: {_said(error)}") from None


def _said(error: Exception) -> str:
    """What keeps a document from being read, in words."""
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)


def _read(path: Path) -> dict[str, Any]:
    """Read a result.json."""
    document = read_json(path)
    known = isinstance(document, dict) and {"inputs", "overrides"} <= set(document)
    if not known or not {"result", "layers", "front", "fusion"} & set(document):
        raise AccelsimError(f"{path}: not a result.json of `accelsim map`, nor a fusion.json of `accelsim fuse`")
    return dict(document)


def _read_inputs(path: Path, document: Mapping[str, Any]) -> Inputs:
    """Read the files that a result names, with the parameters that were set."""
    try:
        given = {kind: str(entry["file"]) for kind, entry in document["inputs"].items() if kind != "mapping"}
        overrides = {str(name): str(value) for name, value in document["overrides"].items()}
        paths = find_files(given)
        architecture, workload = read_machine(paths, overrides)
    except (KeyError, TypeError, AttributeError) as error:
        raise AccelsimError(f"{path}: not what `accelsim map` writes: {_said(error)}") from None
    return Inputs(given, paths, overrides, architecture, workload, None)


def _changed(inputs: Inputs, document: Mapping[str, Any]) -> list[str]:
    """Say which input files are not those that the result was made from."""
    from accelsim.output import input_file

    said = []
    for kind, path in inputs.paths.items():
        recorded, now = document["inputs"][kind].get("sha256"), input_file(kind, "", path).sha256
        if recorded != now:
            said.append(f"{path}: has changed since the result was written (sha256 {now[:12]}, was {recorded[:12]})")
    return said
