"""What each command does with its arguments: read the files, call the library, print."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim import library
from accelsim.architecture import Architecture, load_architecture
from accelsim.errors import AccelsimError, NoValidMapping, Problem, SpecError
from accelsim.spec.params import check_overrides
from accelsim.units import listed, near_miss
from accelsim.workload import Einsum, Workload, load_workload

if TYPE_CHECKING:
    from rich.console import Console

    from accelsim.constraints import Constraints
    from accelsim.output import Provenance
    from accelsim.report import LayerOutcome
    from accelsim.result import SearchResult

DONE, NO_VALID_MAPPING, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
_WIDEST = 120
_KINDS = {"architecture": "arch", "workload": "workloads", "mapping": "mappings", "constraints": "constraints"}


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The files of a command, read, and the layer that is meant; None: all of them."""

    paths: dict[str, Path]
    overrides: dict[str, str]
    architecture: Architecture
    workload: Workload
    layer: Einsum | None


def map_command(arguments: argparse.Namespace) -> int:
    """Map one layer, or each layer of a network."""
    from accelsim.output import energy_rows, layer_files, map_json, refuse_directory, write_directory

    inputs = _read_inputs(arguments)
    if arguments.output:
        refuse_directory(arguments.output)
    layer = inputs.layer
    if layer is None:
        return _map_network(inputs, arguments)
    search = _search(inputs, layer, arguments, layer.name)
    provenance = _provenance("map", inputs, arguments)
    document = map_json(search, provenance, energy_rows(inputs.architecture))
    if arguments.output:
        write_directory(arguments.output, layer_files(search.best, search, provenance, document))
    if arguments.json:
        _print_json(document)
        return DONE
    from accelsim.report import print_headline, print_result, print_search

    def show(console: Console) -> None:
        if arguments.quiet:
            print_headline(console, search.best)
            return
        print_result(console, search.best, inputs.architecture, layer)
        print_search(console, search)
        _print_written(console, arguments.output)

    _print(show)
    return DONE


def _map_network(inputs: _Inputs, arguments: argparse.Namespace) -> int:
    """Map layer after layer; one that has no valid mapping does not stop the others."""
    from accelsim.output import energy_rows, layer_files, map_json, network_json, to_json, write_directory
    from accelsim.report import LayerOutcome, network_totals, print_network

    outcomes: list[LayerOutcome] = []
    layers = inputs.workload.layers
    _check_constraints(inputs)
    provenance = _provenance("map", inputs, arguments)
    energies, folders = energy_rows(inputs.architecture), _folders(layers)
    interrupted = False
    for number, einsum in enumerate(layers, 1):
        try:
            search = _search(inputs, einsum, arguments, f"{einsum.name} ({number}/{len(layers)})")
        except NoValidMapping as error:
            outcomes.append(LayerOutcome(einsum, None, str(error)))
            continue
        except KeyboardInterrupt:
            interrupted = True
            break
        outcomes.append(LayerOutcome(einsum, search))
        if arguments.output:
            files = layer_files(search.best, search, provenance, map_json(search, provenance, energies))
            write_directory(Path(arguments.output) / folders[einsum.name], files)
        if search.stop == "interrupted":
            interrupted = True
            break
    names = inputs.workload.name, inputs.architecture.name
    layers_found = [(o.einsum.name, o.einsum.repeat, o.search, o.why_not) for o in outcomes]
    document = network_json(names, layers_found, network_totals(outcomes), provenance, energies)
    if arguments.output:
        write_directory(arguments.output, {"result.json": to_json(document).encode()})

    def show(console: Console) -> None:
        print_network(console, *names, outcomes)
        if interrupted:
            console.print(
                f"Interrupted after {len(outcomes)} of {len(layers)} layers; the others are not in the total."
            )
        _print_written(console, arguments.output)

    if arguments.json:
        _print_json(document)
    else:
        _print(show)
    for outcome in outcomes:
        if outcome.search is None:
            sys.stderr.write(f"{outcome.einsum.name}: {outcome.why_not}\n")
    if interrupted:
        return INTERRUPTED
    return NO_VALID_MAPPING if any(outcome.search is None for outcome in outcomes) else DONE


def eval_command(arguments: argparse.Namespace) -> int:
    """Evaluate one mapping."""
    from accelsim.mapping import load_mapping
    from accelsim.model.evaluate import evaluate
    from accelsim.output import energy_rows, evaluation_json, layer_files, refuse_directory, write_directory
    from accelsim.report import print_result

    inputs = _read_inputs(arguments)
    layer = _one_layer(inputs, arguments)
    mapping = load_mapping(inputs.paths["mapping"], inputs.architecture, layer, inputs.overrides)
    result = evaluate(inputs.architecture, layer, mapping)
    provenance = _provenance("eval", inputs, arguments)
    document = evaluation_json(result, provenance, energy_rows(inputs.architecture))
    if arguments.output:
        refuse_directory(arguments.output)
        write_directory(arguments.output, layer_files(result, None, provenance, document))
    if arguments.json:
        _print_json(document)
    else:

        def show(console: Console) -> None:
            print_result(console, result, inputs.architecture, layer)
            _print_written(console, arguments.output)

        _print(show)
    return DONE if result.valid else NO_VALID_MAPPING


def explain_command(arguments: argparse.Namespace) -> int:
    """Walk a small loop nest and show what each step moves."""
    from accelsim.explain import choose_mapping, explain, explanation_json
    from accelsim.mapping import load_mapping
    from accelsim.output import provenance_json
    from accelsim.report.explain import print_explanation

    inputs = _read_inputs(arguments)
    layer = _one_layer(inputs, arguments)
    if "mapping" in inputs.paths:
        mapping = load_mapping(inputs.paths["mapping"], inputs.architecture, layer, inputs.overrides)
        origin = arguments.mapping
    else:
        mapping, origin = choose_mapping(inputs.architecture, layer)
    explanation = explain(
        inputs.architecture, layer, mapping, tensor=arguments.tensor, level=arguments.level, steps=arguments.steps
    )
    if arguments.json:
        provenance = provenance_json(_provenance("explain", inputs, arguments))
        _print_json({**provenance, "mapping_from": origin, **explanation_json(explanation)})
    else:
        _print(lambda console: print_explanation(console, explanation, origin))
    return DONE if explanation.same and explanation.result.valid else NO_VALID_MAPPING


def schema_command(arguments: argparse.Namespace) -> int:
    """Print or write JSON Schemas."""
    from accelsim.output import to_json, write_directory
    from accelsim.schema import KINDS, json_schema

    kinds = [arguments.kind] if arguments.kind else KINDS
    if arguments.output:
        files = {f"{kind}.schema.json": to_json(json_schema(kind)).encode() for kind in kinds}
        for path in write_directory(arguments.output, files):
            sys.stdout.write(f"{path}\n")
        return DONE
    if not arguments.kind:
        raise AccelsimError(f"say which kind ({listed(KINDS)}), or -o DIR for all of them")
    _print_json(json_schema(arguments.kind))
    return DONE


def check_command(arguments: argparse.Namespace) -> int:
    """Report every mistake in files of any kind."""
    from accelsim.check import check_files

    paths = [_any_kind(name) for name in arguments.files]
    problems = check_files(paths, _overrides(arguments))
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
    """Show the energy of each action of a machine."""
    from accelsim.output import InputFile, Provenance, energy_rows, input_file, provenance_json
    from accelsim.report import print_energies

    overrides = _overrides(arguments)
    path = library.resolve(arguments.arch, "arch")
    check_overrides(overrides, [path])
    architecture = load_architecture(path, overrides)
    rows = energy_rows(architecture)
    if arguments.json:
        files: tuple[InputFile, ...] = (input_file("architecture", arguments.arch, path),)
        provenance = provenance_json(Provenance("energy", files, overrides))
        _print_json({**provenance, "architecture": architecture.name, "energy_table": rows})
    else:
        _print(lambda console: print_energies(console, architecture.name, rows))
    return DONE


def list_command(arguments: argparse.Namespace) -> int:
    """Name the files that ship."""
    from accelsim.report import print_shipped

    kinds = [arguments.kind] if arguments.kind else list(library.KINDS)
    listing = {kind: [_about(path, kind) for path in library.shipped(kind)] for kind in kinds}

    def show(console: Console) -> None:
        for kind, rows in listing.items():
            print_shipped(console, kind, rows)

    _print(show)
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


def validate_command(arguments: argparse.Namespace) -> int:
    """Compare the cost model with recorded runs; 1 if anything differs, cannot be read, or nothing was compared."""
    from accelsim.report import print_comparisons
    from accelsim.validate import validate_timeloop

    cases = validate_timeloop(arguments.paths)
    _print(lambda console: print_comparisons(console, cases))
    compared = any(case.compared for case in cases)
    return DONE if compared and all(case.equal for case in cases) else NO_VALID_MAPPING


def _overrides(arguments: argparse.Namespace) -> dict[str, str]:
    names = [name for name, _ in arguments.overrides]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise AccelsimError(f"--set {twice} is given twice")
    return dict(arguments.overrides)


def _read_inputs(arguments: argparse.Namespace) -> _Inputs:
    """Read architecture and workload, with every mistake in both, and find the layer."""
    given = {
        "architecture": arguments.arch,
        "workload": arguments.workload,
        "mapping": getattr(arguments, "mapping", None),
        "constraints": getattr(arguments, "constraints", None),
    }
    paths = {kind: library.resolve(name, _KINDS[kind]) for kind, name in given.items() if name is not None}
    overrides = _overrides(arguments)
    check_overrides(overrides, paths.values())
    problems: list[Problem] = []
    architecture = workload = None
    try:
        architecture = load_architecture(paths["architecture"], overrides)
    except SpecError as error:
        problems += error.problems
    try:
        workload = load_workload(paths["workload"], overrides)
    except SpecError as error:
        problems += error.problems
    if architecture is None or workload is None:
        raise SpecError(problems)
    return _Inputs(paths, overrides, architecture, workload, _layer(workload, arguments))


def _layer(workload: Workload, arguments: argparse.Namespace) -> Einsum | None:
    """Return the layer of that name, or the only one."""
    if arguments.layer is None:
        return workload.layers[0] if len(workload.layers) == 1 else None
    by_name = {layer.name: layer for layer in workload.layers}
    if arguments.layer in by_name:
        return by_name[arguments.layer]
    hint = near_miss(arguments.layer, by_name)
    raise AccelsimError(
        f"{arguments.workload} has no layer '{arguments.layer}'; {hint + ' ' if hint else ''}layers: {listed(by_name)}"
    )


def _one_layer(inputs: _Inputs, arguments: argparse.Namespace) -> Einsum:
    """Return the layer that is meant, which must be clear."""
    if inputs.layer is None:
        names = listed(layer.name for layer in inputs.workload.layers)
        raise AccelsimError(
            f"{arguments.workload} has {len(inputs.workload.layers)} layers; say which: --layer {names}"
        )
    return inputs.layer


def _search(inputs: _Inputs, einsum: Einsum, arguments: argparse.Namespace, what: str) -> SearchResult:
    """Search the map space of one layer, with progress where a terminal shows it."""
    from accelsim.report.progress import search_progress
    from accelsim.search import Budget, map_einsum

    constraints = _constraints(inputs, einsum)
    console = _console(stderr=True)
    console.quiet = arguments.quiet
    with search_progress(console, what) as on_progress:
        return map_einsum(
            inputs.architecture,
            einsum,
            constraints=constraints,
            objective=arguments.objective,
            method=arguments.search,
            budget=Budget(arguments.mappings, arguments.seconds) if arguments.mappings or arguments.seconds else None,
            seed=arguments.seed,
            workers=arguments.workers,
            on_progress=on_progress,
        )


def _constraints(inputs: _Inputs, einsum: Einsum) -> Constraints | None:
    """Read the constraints that were given, for one layer."""
    if "constraints" not in inputs.paths:
        return None
    from accelsim.constraints import load_constraints

    return load_constraints(inputs.paths["constraints"], inputs.architecture, einsum, inputs.overrides)


def _check_constraints(inputs: _Inputs) -> None:
    """Report what the constraints get wrong for any layer, before the first one is searched."""
    problems: list[Problem] = []
    for layer in inputs.workload.layers:
        try:
            _constraints(inputs, layer)
        except SpecError as error:
            problems += error.problems
    if problems:
        raise SpecError(problems)


def _provenance(command: str, inputs: _Inputs, arguments: argparse.Namespace) -> Provenance:
    from accelsim.output import Provenance, input_file

    given = {
        "architecture": arguments.arch,
        "workload": arguments.workload,
        "mapping": getattr(arguments, "mapping", ""),
        "constraints": getattr(arguments, "constraints", ""),
    }
    files = tuple(input_file(kind, given[kind], path) for kind, path in inputs.paths.items())
    if command != "map":
        return Provenance(command, files, inputs.overrides)
    return Provenance(command, files, inputs.overrides, arguments.mappings, arguments.seconds)


def _folders(layers: Sequence[Einsum]) -> dict[str, str]:
    """Folder of each layer: its name without what a path would read as folders, and no two alike."""
    found: dict[str, str] = {}
    for layer in layers:
        folder = layer.name.replace("/", "_")
        while folder.casefold() in {other.casefold() for other in found.values()} | {"result.json"}:
            folder += "_"
        found[layer.name] = folder
    return found


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    console = Console(file=sys.stderr if stderr else sys.stdout, markup=False, highlight=False, emoji=False)
    console.width = min(console.width, _WIDEST)
    return console


def _print(show: Callable[[Console], None]) -> None:
    """Print a report; written in one go, so that a reader who went away is noticed here."""
    console = _console()
    with console.capture() as captured:
        show(console)
    sys.stdout.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def _print_json(document: dict[str, Any]) -> None:
    from accelsim.output import to_json

    sys.stdout.write(to_json(document))


def _print_written(console: Console, folder: str | None) -> None:
    if folder:
        console.print(f"\nWritten to {folder}")
