"""What the commands read: architecture, workload, layer and constraints, as the arguments name them."""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from accelsim.inputs import library
from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.errors import AccelsimError, Problem, SpecError, Unreadable
from accelsim.inputs.library import read_utf8, user_cache
from accelsim.inputs.objective import Limit
from accelsim.inputs.params import check_overrides, own_overrides, parameter_names, unknown_overrides
from accelsim.inputs.units import listed, near_miss
from accelsim.inputs.workload import Einsum, Workload, sliced, without_other_operations
from accelsim.inputs.workload_reader import load_workload
from accelsim.results import Provenance, input_file, write_directory

if TYPE_CHECKING:
    from accelsim.inputs.constraints import Constraints
    from accelsim.inputs.library import NodeNote
    from accelsim.inputs.mapping import Mapping
    from accelsim.results.cache import ResultCache

T = TypeVar("T")
SIZES = {"batch": ("batch",), "sequence": ("seq", "kv")}
"""Parameters that the options for sizes set, the first of them that a workload has."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files of a command, as the user named them and read, and the layer that is meant; None: all of them.

    `left_out` are layers of the workload's file that do not count, as the MACs of the machine do not compute them.
    """

    given: dict[str, str]
    paths: dict[str, Path]
    overrides: dict[str, str]
    architecture: Architecture
    workload: Workload
    layer: Einsum | None
    limits: tuple[str, ...] = ()
    left_out: tuple[Einsum, ...] = ()


def read_overrides(arguments: argparse.Namespace) -> dict[str, str]:
    """Parameters that the command line sets, each once."""
    names = [name for name, _ in arguments.overrides]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise AccelsimError(f"--set {twice} is given twice")
    return dict(arguments.overrides) | _sizes(arguments, names)


def _sizes(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, str]:
    """Parameters of the workload that `--batch` and `--sequence` set."""
    requested = {option: getattr(arguments, option, None) for option in SIZES}
    if not any(requested.values()):
        return {}
    if getattr(arguments, "workload", None) is None:
        raise AccelsimError("--batch and --sequence are sizes of a workload, and none is given")
    known = parameter_names(library.resolve(arguments.workload, "workloads"))
    found = {}
    for option, size in requested.items():
        if size is None:
            continue
        parameter = next((name for name in SIZES[option] if name in known), None)
        if parameter is None:
            has = f"its parameters are {listed(sorted(known))}" if known else "it has no parameters"
            raise AccelsimError(
                f"--{option}: {arguments.workload} has no parameter {' or '.join(SIZES[option])}; {has}"
            )
        if parameter in names:
            raise AccelsimError(f"--{option} and --set {parameter} both set {parameter}; leave one of them out")
        found[parameter] = str(size)
    return found


def read_inputs(arguments: argparse.Namespace) -> Inputs:
    """Read architecture and workload, with every mistake in both, and find the layer."""
    given, overrides, variables = _given(arguments)
    paths = find_files(given, variables, arguments.more)
    architecture, workload = read_machine(paths, overrides)
    layer = find_layer(workload, arguments.layer, arguments.workload)
    limits = tuple(getattr(arguments, "limit", None) or ())
    return Inputs(given, paths, overrides, architecture, workload, layer, limits)


def read_network(arguments: argparse.Namespace) -> Inputs:
    """Read inputs as `read_inputs`; of a network only the layers that count."""
    inputs = read_inputs(arguments)
    if inputs.layer is not None or arguments.all_layers:
        return inputs
    workload, others = without_other_operations(inputs.workload)
    return replace(inputs, workload=workload, left_out=others)


def read_machines(arguments: argparse.Namespace) -> list[Inputs]:
    """Read each of the machines between commas with the workload; a parameter that is set must be one of some file."""
    machines = [argparse.Namespace(**{**vars(arguments), "arch": name}) for name in split(arguments.arch)]
    asked = [_given(machine) for machine in machines]
    given, overrides = [names for names, _, _ in asked], {key: text for _, own, _ in asked for key, text in own.items()}
    paths = [find_files(names, variables, arguments.more) for names, _, variables in asked]
    check_overrides(overrides, [path for several in paths for path in several.values()])
    found = []
    for names, files in zip(given, paths, strict=True):
        own = {name: value for name, value in overrides.items() if not unknown_overrides({name: value}, files.values())}
        found.append(Inputs(names, files, own, *read_machine(files, own), None))
    return found


def named_layers(arguments: argparse.Namespace, inputs: Inputs) -> list[Einsum]:
    """Return the layers that are named between commas, or all."""
    if arguments.layer is None:
        return list(inputs.workload.layers)
    found = [find_layer(inputs.workload, name, arguments.workload) for name in split(arguments.layer)]
    return [layer for layer in found if layer is not None]


def split(text: str) -> list[str]:
    """Names between commas, each once."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise AccelsimError(f"expected names with a comma between them, got '{text}'")
    return list(dict.fromkeys(names))


def find_files(
    given: dict[str, str], variables: tuple[tuple[str, str], ...] = (), more: tuple[str, ...] = ()
) -> dict[str, Path]:
    """Find the file of each kind by its path or its shipped name.

    `variables` are those of another tool's templates, `more` are more of its files.
    """
    machine = given.get("architecture", "")
    if machine and library.find(machine, "arch") is None and _catalogued(machine):
        what = "a machine with levels (such as gpu_sm) is needed here; `map`, `roofline` and `gpu` know GPUs"
        raise AccelsimError(f"{machine} is a GPU of the catalogue: {what}")
    names = tuple(dict.fromkeys([*given.values(), *more]))
    converted = convert_foreign(names, variables, constrained=_is_foreign(given.get("constraints", "")))
    if others := [name for name in more if name not in converted]:
        raise AccelsimError(f"unrecognized arguments: {' '.join(others)}; only another tool has more files")
    found = {}
    for kind, name in given.items():
        if name not in converted:
            found[kind] = library.resolve(name, library.FOLDERS[kind])
        elif kind in converted[name]:
            found[kind] = converted[name][kind]
        else:
            raise AccelsimError(f"{name}: what is imported holds no {kind}, only {listed(converted[name]) or 'notes'}")
    return found


def read_machine(paths: dict[str, Path], overrides: dict[str, str]) -> tuple[Architecture, Workload]:
    """Read architecture and workload, with every mistake in both."""
    check_overrides(overrides, paths.values())
    problems: list[Problem] = []
    own = {kind: own_overrides(overrides, paths[kind]) for kind in ("architecture", "workload")}
    architecture = _tried(problems, load_architecture, paths["architecture"], own["architecture"])
    workload = _tried(problems, load_workload, paths["workload"], own["workload"])
    if architecture is None or workload is None:
        raise SpecError(problems)
    if architecture.slices:
        layers = tuple(sliced(layer, architecture.slices) for layer in workload.layers)
        workload = replace(workload, layers=layers)
    return architecture, workload


def _tried(problems: list[Problem], read: Callable[..., T], *of: Any) -> T | None:
    """What is read, or None with its mistakes among the problems."""
    try:
        return read(*of)
    except SpecError as error:
        problems += error.problems
        return None


def read_machine_alone(arguments: argparse.Namespace) -> tuple[Architecture, Path, dict[str, str]]:
    """Read the architecture that a command names, with parameters of its workload too; its file and what is set."""
    given = {"architecture": arguments.arch, "workload": getattr(arguments, "workload", None)}
    named = {kind: name for kind, name in given.items() if name is not None}
    overrides, variables = apart(read_overrides(arguments), named.values())
    paths = find_files(named, variables)
    check_overrides(overrides, paths.values())
    path = paths["architecture"]
    return load_architecture(path, own_overrides(overrides, path)), path, overrides


def apart(overrides: dict[str, str], names: Iterable[str]) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    """Overrides of parameters of our files, and variables of another tool's templates: what is no such parameter."""
    if not overrides:
        return {}, ()
    from accelsim.importers.foreign import tool_of

    files = [name for name in names if os.path.isfile(name) and not name.endswith(library.MODELS)]
    templates = {name for name in files if tool_of(name) == "template"}
    ours = [name for name in files if name not in templates and tool_of(name) is None]
    variables = {key: text for key, text in overrides.items() if templates and unknown_overrides({key: text}, ours)}
    return {key: text for key, text in overrides.items() if key not in variables}, tuple(variables.items())


def _is_foreign(name: str) -> bool:
    """Whether a name is of a file of another tool."""
    if not os.path.isfile(name):
        return False
    from accelsim.importers.foreign import tool_of

    return tool_of(name) is not None


def _given(arguments: argparse.Namespace) -> tuple[dict[str, str], dict[str, str], tuple[tuple[str, str], ...]]:
    """Names of the files of each kind that the command line gives, overrides, and variables of templates.

    Files of other tools are converted.
    """
    attributes = {**dict.fromkeys(library.FOLDERS, ""), "architecture": "arch"}
    names = {kind: getattr(arguments, attribute or kind, None) for kind, attribute in attributes.items()}
    given = {kind: name for kind, name in names.items() if name is not None}
    overrides, variables = apart(read_overrides(arguments), [*given.values(), *arguments.more])
    if given.get("constraints") == "none":
        given.pop("constraints")
    elif "constraints" in vars(arguments) and "constraints" not in given:
        converted = convert_foreign(tuple(dict.fromkeys([*given.values(), *arguments.more])), variables)
        asking = next((name for name, kept in converted.items() if "constraints" in kept), None)
        given |= {} if asking is None else {"constraints": asking}
    return given, overrides, variables


@lru_cache(maxsize=8)
def convert_foreign(
    names: tuple[str, ...], variables: tuple[tuple[str, str], ...] = (), *, constrained: bool = True
) -> dict[str, dict[str, Path]]:
    """Convert those of some files that are another tool's, all together; models too beside files of ZigZag.

    Not `constrained`: without what they ask of the loops of mappings.
    Of each such file these are the converted files by their kind, kept in the user's cache; notes go to stderr.
    """
    models = [name for name in names if name.endswith(library.MODELS)]
    names = tuple(name for name in names if os.path.isfile(name) and name not in models)
    if not names:
        return {}
    from accelsim.importers.foreign import note_lines, read_foreign, refuse_broken, tool_of

    tools = {name: tool for name in names if (tool := tool_of(name))}
    foreign = [*tools, *(models if {"zigzag", "stream"} & set(tools.values()) else [])]
    if not foreign:
        return {}
    for name in names:
        if name not in tools:
            refuse_broken(name)
    made = read_foreign(foreign, variables=dict(variables), constrained=constrained)
    texts = {f"{kind}.yaml": text.encode() for kind, text in made.texts(foreign).items()}
    folder = user_cache() / "imported" / hashlib.sha256(b"".join(texts.values())).hexdigest()[:16]
    kept = {path.stem: path for path in write_directory(folder, texts)}
    energies = f"Energies: {made.energies}\n" if made.energies else ""
    sys.stderr.write(energies + note_lines(made.notes, NAMED))
    return dict.fromkeys(foreign, kept)


def read_workload(arguments: argparse.Namespace, name: str) -> Workload:
    """Read a workload where no machine is a file, with the parameters that the command line sets."""
    overrides = read_overrides(argparse.Namespace(**{**vars(arguments), "workload": name}))
    path = library.resolve(name, "workloads")
    check_overrides(overrides, [path])
    return load_workload(path, overrides)


def find_layer(workload: Workload, name: str | None, file: str) -> Einsum | None:
    """Return the layer of that name, or the only one."""
    if name is None:
        return workload.layers[0] if len(workload.layers) == 1 else None
    by_name = {layer.name: layer for layer in workload.layers}
    if name in by_name:
        return by_name[name]
    hint = near_miss(name, by_name)
    raise AccelsimError(f"{file} has no layer '{name}'; {hint + ' ' if hint else ''}layers: {listed(by_name)}")


def one_layer(inputs: Inputs, arguments: argparse.Namespace) -> Einsum:
    """Return the layer that is meant, which must be clear."""
    if inputs.layer is None:
        names = listed(layer.name for layer in inputs.workload.layers)
        raise AccelsimError(
            f"{arguments.workload} has {len(inputs.workload.layers)} layers; say which: --layer {names}"
        )
    return inputs.layer


def read_layer_constraints(inputs: Inputs, einsum: Einsum) -> Constraints | None:
    """Read the constraints that were given, for one layer, with the limits of the command line."""
    if "constraints" not in inputs.paths and not inputs.limits:
        return None
    from accelsim.inputs.constraints import Constraints
    from accelsim.inputs.constraints_reader import load_constraints

    found = Constraints()
    if "constraints" in inputs.paths:
        names = [layer.name for layer in (*inputs.workload.layers, *inputs.left_out)]
        path, machine = inputs.paths["constraints"], inputs.given["architecture"]
        try:
            own = own_overrides(inputs.overrides, path)
            found = load_constraints(path, inputs.architecture, einsum, own, names)
        except SpecError as error:
            if inputs.given["constraints"] != machine:
                raise
            hint = f"`--constraints none` leaves out what {machine} asks of mappings"
            raise SpecError([*error.problems[:-1], replace(error.problems[-1], hint=hint)]) from None
    return replace(found, limits=(*found.limits, *map(Limit.parse, inputs.limits)))


def read_mapping_of(inputs: Inputs, einsum: Einsum) -> Mapping:
    """Read the mapping that was given, of one layer."""
    from accelsim.inputs.mapping import load_mapping

    path = inputs.paths["mapping"]
    return load_mapping(path, inputs.architecture, einsum, own_overrides(inputs.overrides, path))


def check_constraints(inputs: Inputs) -> None:
    """Report what the constraints get wrong for any layer, before the first one is searched."""
    problems: list[Problem] = []
    for layer in inputs.workload.layers:
        _tried(problems, read_layer_constraints, inputs, layer)
    if problems:
        raise SpecError(problems)


def make_provenance(command: str, inputs: Inputs, arguments: argparse.Namespace) -> Provenance:
    """Note where a result comes from."""
    files = tuple(input_file(kind, inputs.given[kind], path) for kind, path in inputs.paths.items())
    if command != "map":
        return Provenance(command, files, inputs.overrides)
    return Provenance(command, files, inputs.overrides, arguments.mappings, arguments.seconds, inputs.limits)


def is_gpu(name_or_path: str) -> bool:
    """Whether a command's argument names a GPU: a file with the key `gpu`, or a name of the catalogue."""
    path = library.find(name_or_path, "arch")
    if path is None:
        return _catalogued(name_or_path)
    try:
        return any(line.startswith("gpu:") for line in read_utf8(path).splitlines())
    except Unreadable:
        return False


def is_system(name_or_path: str) -> bool:
    """Whether a command's argument names a system of engines: a file with the key `system` or of Stream, or a name."""
    path = library.find(name_or_path, "systems") or library.find(name_or_path, "arch")
    try:
        return (
            path is not None
            and re.search(r"^(system|[^#\n]*\boffchip_core(_id)?):", read_utf8(path), re.MULTILINE) is not None
        )
    except Unreadable:
        return False


def _catalogued(name: str) -> bool:
    from accelsim.gpu.catalogue import find_gpu

    return find_gpu(name) is not None


def open_cache(arguments: argparse.Namespace) -> ResultCache | None:
    """Cache that the arguments ask for; each trouble with it is one line on stderr, said once."""
    from accelsim.results.cache import ResultCache, default_folder

    if arguments.no_cache:
        return None
    said: set[str] = set()

    def complain(line: str) -> None:
        if line not in said:
            sys.stderr.write(f"accelsim: {line}\n")
        said.add(line)

    return ResultCache(default_folder(), complain)


NAMED = 3
"""Nodes or layers of a kind that are named where all of them would be too many lines."""


def note_dense(machine: Architecture) -> None:
    """Say on stderr that zeros are not left out of what follows, where a machine does that."""
    if machine.saves_zeros:
        why = "zeros are left out by `eval`, `map` and in part by `spread`; here all words are counted"
        sys.stderr.write(f"{machine.name}: {why}\n")


def print_left_out(workload: str, layers: Sequence[Einsum], ask: str = "--all-layers") -> None:
    """Say on stderr which layers of a network do not count, and what to write so that they do."""
    if layers:
        from accelsim.show.report import left_out_line

        sys.stderr.write(f"{workload}: {left_out_line(layers, ask)}\n")


def print_notes(notes: Iterable[NodeNote]) -> None:
    """Say on stderr what of a model is not counted as it is, nodes of a kind together."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for note in notes:
        groups.setdefault((note.operator, note.done, note.why), []).append(note.node)
    for (operator, done, why), nodes in groups.items():
        sys.stderr.write(f"{operator} {done}: {why}: {listed(nodes, NAMED)}\n")
    if any(len(nodes) > NAMED for nodes in groups.values()):
        sys.stderr.write("`accelsim import` names every node\n")
