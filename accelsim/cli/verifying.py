"""The commands `verify`, which evaluates results anew, and `validate`, which compares other tools' records and ours."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accelsim.cli import DIFFERS, DONE, answer, complain, make_console, print_report, show_status
from accelsim.cli.inputs import Inputs, find_files, find_layer, read_layer_constraints, read_machine
from accelsim.inputs.errors import AccelsimError, SpecError
from accelsim.inputs.files import read_json
from accelsim.inputs.objective import Objective
from accelsim.results import InputFile, Provenance, input_file, provenance_json
from accelsim.results.study import reference_paths, study_json
from accelsim.results.verifying import Check, Task, compare, refuse_other_forms, same_version, verify_layer, verify_rest
from accelsim.search.strategy import Budget
from accelsim.show.report import search_progress
from accelsim.show.report import validation as reports

_WRITTEN = ("result.json", "fusion.json")
"""What may be verified of a folder."""


def verify_command(arguments: argparse.Namespace) -> int:
    """Check what a result.json says, layer by layer, or a fusion.json."""
    _, document, inputs = read_result(arguments.result)
    changed = _changed(inputs, document)
    for line in changed:
        complain(line)
    if changed and not arguments.force:
        complain("nothing was checked; --force goes on with the files as they are now")
        return DIFFERS
    try:
        found = (_verify_fusion if "fusion" in document else _verify_layers)(inputs, document, arguments)
    except SpecError:
        raise  # it names its file
    except AccelsimError as error:
        raise AccelsimError(f"{arguments.result}: {error}") from None
    checks = [check for _, several in found for check in several]
    parts = [part for name, several in found for part in reports.checks_report(name, several)]
    print_report([*parts, reports.verdict_line(checks)])
    return DIFFERS if any(check.agrees is False for check in checks) else DONE


def _verify_fusion(
    inputs: Inputs, document: Mapping[str, Any], arguments: argparse.Namespace
) -> list[tuple[str, list[Check]]]:
    from accelsim.fusion.output import verify_fusion

    try:
        Objective.parse(document["fusion"]["objective"])
        with show_status("reading") as on_progress:
            found = verify_fusion(
                document,
                inputs.architecture,
                inputs.workload,
                seconds=arguments.seconds,
                workers=arguments.workers,
                on_progress=on_progress,
            )
        rest = {key: value for key, value in document.items() if key not in ("fusion", "energy_table")}
        origin = provenance_json(_provenance("fuse", inputs, document))
        return [*found, ("origin", [compare("origin", rest, {**origin, "accelsim": document["accelsim"]})])]
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise AccelsimError(f"not what `accelsim fuse` writes: {_said(error)}") from None


def _verify_layers(
    inputs: Inputs, document: Mapping[str, Any], arguments: argparse.Namespace
) -> list[tuple[str, list[Check]]]:
    """Check each layer of a result.json, and then what is around them."""
    machine, layers = inputs.architecture, inputs.workload.layers
    entries = document.get("layers", [document])
    if "layers" not in document:
        name = document.get("result", document.get("front"))["layer"]
        layers = tuple(filter(None, [find_layer(inputs.workload, name, str(inputs.paths["workload"]))]))
    if len(entries) > len(layers):
        raise AccelsimError(f"it has {len(entries)} layers, and {inputs.paths['workload']} has {len(layers)}")
    found, searches = [], []
    budget, same = Budget(seconds=arguments.seconds), same_version(document)
    for entry, layer in zip(entries, layers, strict=False):
        constraints = read_layer_constraints(inputs, layer)
        objective = entry["search"]["objective"] if "search" in entry else ""
        with search_progress(make_console(stderr=True), layer.name, objective) as on_progress:
            task = Task(machine, layer, constraints, budget, arguments.workers, on_progress, same)
            checks, search = verify_layer(entry, task)
        found.append((f"{layer.name} on {machine.name}", checks))
        searches.append(search)
    if any(search is None and "search" in entry for entry, search in zip(entries, searches, strict=True)):
        return found  # sums need all mappings
    command = "map" if {"search", "front", "layers"} & set(document) else "eval"
    rest = verify_rest(document, _provenance(command, inputs, document), machine, inputs.workload, searches)
    return [*found, (f"{inputs.workload.name} on {machine.name}", [rest])]


def _provenance(command: str, inputs: Inputs, document: Mapping[str, Any]) -> Provenance:
    """Where a result comes from; `_changed` compares the hashes."""
    files = (InputFile(kind, inputs.given[kind], document["inputs"][kind]["sha256"]) for kind in inputs.paths)
    return Provenance(command, tuple(files), inputs.overrides, limits=inputs.limits)


def _said(error: Exception) -> str:
    """What keeps a document from being read, in words."""
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)


def read_result(name: str) -> tuple[Path, dict[str, Any], Inputs]:
    """Find a result.json or a fusion.json, which a folder may hold, and read it and the files that it names."""
    path = Path(name)
    if not path.exists():
        raise AccelsimError(f"{path}: no such file or folder; name what `map -o` or `fuse -o` wrote")
    if path.is_dir():
        found_there = [path / name for name in _WRITTEN if (path / name).is_file()]
        if not found_there:
            raise AccelsimError(f"{path}: holds neither {' nor '.join(_WRITTEN)}")
        path = found_there[0]
    document = read_json(path)
    if not isinstance(document, dict) or not {"result", "layers", "front", "fusion"} & set(document):
        raise AccelsimError(f"{path}: not a result.json of `accelsim map`, nor a fusion.json of `accelsim fuse`")
    if "fusion" not in document:
        try:
            refuse_other_forms(document)
        except AccelsimError as error:
            raise AccelsimError(f"{path}: {error}") from None
    try:
        given = {kind: str(entry["file"]) for kind, entry in document["inputs"].items()}
        overrides = {str(name): str(value) for name, value in document["overrides"].items()}
        paths = find_files(given)
        limits = tuple(map(str, document["limits"]))
        architecture, workload = read_machine(paths, overrides)
    except (KeyError, TypeError, AttributeError) as error:
        raise AccelsimError(f"{path}: not what `accelsim map` writes: {_said(error)}") from None
    return path, document, Inputs(given, paths, overrides, architecture, workload, None, limits)


def _changed(inputs: Inputs, document: Mapping[str, Any]) -> list[str]:
    """Say which input files are not those that the result was made from."""
    hashes = {
        path: (input_file(kind, "", path).sha256, str(document["inputs"][kind].get("sha256")))
        for kind, path in inputs.paths.items()
    }
    what = "has changed since the result was written"
    return [f"{path}: {what} (sha256 {now[:12]}, was {was[:12]})" for path, (now, was) in hashes.items() if now != was]


def validate_command(arguments: argparse.Namespace) -> int:
    """Compare records; 1 if a figure is further off than it may be for no known reason, or there is none."""
    from accelsim.cli.gpus import refuse, validate_gemm_command
    from accelsim.importers.gemmini import best_of_layers, gemmini_errors, validate_gemmini
    from accelsim.importers.scalesim import scalesim_study
    from accelsim.importers.tileflow import validate_tileflow
    from accelsim.importers.timeloop_comparison import USUAL, timeloop_study, validate_timeloop

    what, every = arguments.what, arguments.every
    if what == "gemm":
        refuse(arguments, what, best=None)
        return validate_gemm_command(arguments)
    refuse(arguments, what, output=None)
    if what == "gemmini":
        found = validate_gemmini(arguments.paths)
        best = best_of_layers(found, arguments.best) if arguments.best else ()
        document = reports.gemmini_json(found, gemmini_errors(found), best)
        answer(arguments, document, lambda: reports.gemmini_report(document, every=every))
        return DONE
    refuse(arguments, what, best=None)
    if what == "tileflow":
        document = reports.tileflow_json(validate_tileflow(arguments.paths))
        answer(arguments, document, lambda: reports.tileflow_report(document, every=every))
        return DONE
    if what == "timeloop" and not (arguments.json or arguments.csv):  # record by record
        cases = validate_timeloop(reference_paths(arguments.paths, USUAL))
        print_report(reports.comparisons_report(cases))
        compared = any(case.compared for case in cases)
        return DONE if compared and all(case.equal for case in cases) else DIFFERS
    study = (timeloop_study if what == "timeloop" else scalesim_study)(arguments.paths)
    answer(arguments, {"studies": [study_json(study)]}, lambda: reports.study_report(study, every=every))
    return DIFFERS if study.unexplained or not study.figures else DONE
