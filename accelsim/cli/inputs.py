"""What the commands read: architecture, workload, layer and constraints, as the arguments name them."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path

from accelsim.api.problem import MappingProblem, apart, find_files, find_layer, read_problem
from accelsim.inputs import library
from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.params import check_overrides, own_overrides, parameter_names, unknown_overrides
from accelsim.inputs.units import listed
from accelsim.inputs.workload import Einsum, Workload
from accelsim.inputs.workload_reader import load_workload

SIZES = {"batch": ("batch",), "seq_len": ("seq", "kv")}
"""Parameters that the options for sizes set, the first of them that a workload has."""


def read_params(arguments: argparse.Namespace) -> dict[str, str]:
    """Parameters that the command line sets, each once."""
    names = [name for name, _ in arguments.params]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise AccelsimError(f"--set {twice} is given twice")
    return dict(arguments.params) | _sizes(arguments, names)


def _sizes(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, str]:
    """Parameters of the workload that `--batch` and `--seq-len` set."""
    requested = {option: getattr(arguments, option, None) for option in SIZES}
    if not any(requested.values()):
        return {}
    if getattr(arguments, "workload", None) is None:
        raise AccelsimError("--batch and --seq-len are sizes of a workload, and none is given")
    known = parameter_names(library.resolve(arguments.workload, "workloads"))
    found = {}
    for option, size in requested.items():
        if size is None:
            continue
        shown = f"--{option.replace('_', '-')}"
        parameter = next((name for name in SIZES[option] if name in known), None)
        if parameter is None:
            has = f"its parameters are {listed(sorted(known))}" if known else "it has no parameters"
            raise AccelsimError(f"{shown}: {arguments.workload} has no parameter {' or '.join(SIZES[option])}; {has}")
        if parameter in names:
            raise AccelsimError(f"{shown} and --set {parameter} both set {parameter}; leave one of them out")
        found[parameter] = str(size)
    return found


def read(arguments: argparse.Namespace, *, counted: bool = False) -> MappingProblem:
    """Read architecture and workload, with every mistake in both, and find the layer.

    `counted`: of a network only the layers that multiply and add, unless all are asked for.
    """
    names = ("layer", "constraints", "mapping", "require", "more")
    given = {name: value for name in names if (value := getattr(arguments, name, None)) is not None}
    every = not counted or arguments.all_layers
    params = read_params(arguments)
    return read_problem(arguments.arch, arguments.workload, params=params, all_layers=every, **given)


def read_machines(arguments: argparse.Namespace) -> list[MappingProblem]:
    """Read each of the architectures between commas with the workload; a parameter must be one of some file."""
    params, names = read_params(arguments), split(arguments.arch)
    if len(names) == 1:
        return [read(argparse.Namespace(**{**vars(arguments), "layer": None}))]
    files = [find_files({"architecture": name, "workload": arguments.workload}) for name in names]
    check_overrides(params, [path for several in files for path in several.values()])
    found = []
    for name, paths in zip(names, files, strict=True):
        own = {key: text for key, text in params.items() if not unknown_overrides({key: text}, paths.values())}
        given = argparse.Namespace(**{**vars(arguments), "arch": name, "params": list(own.items()), "layer": None})
        found.append(read(given))
    return found


def named_layers(arguments: argparse.Namespace, problem: MappingProblem) -> list[Einsum]:
    """Return the layers that are named between commas, or all."""
    if arguments.layer is None:
        return list(problem.workload.layers)
    found = [find_layer(problem.workload, name, arguments.workload) for name in split(arguments.layer)]
    return [layer for layer in found if layer is not None]


def split(text: str) -> list[str]:
    """Names between commas, each once."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise AccelsimError(f"expected names with a comma between them, got '{text}'")
    return list(dict.fromkeys(names))


def read_machine_alone(arguments: argparse.Namespace) -> tuple[Architecture, Path, dict[str, str]]:
    """Read the architecture that a command names, with parameters of its workload too; its file and what is set."""
    given = {"architecture": arguments.arch, "workload": getattr(arguments, "workload", None)}
    named = {kind: name for kind, name in given.items() if name is not None}
    overrides, variables = apart(read_params(arguments), named.values())
    paths = find_files(named, variables)
    check_overrides(overrides, paths.values())
    path = paths["architecture"]
    return load_architecture(path, own_overrides(overrides, path)), path, overrides


def read_workload(arguments: argparse.Namespace, name: str) -> Workload:
    """Read a workload where no architecture is a file, with the parameters that the command line sets."""
    overrides = read_params(argparse.Namespace(**{**vars(arguments), "workload": name}))
    path = library.resolve(name, "workloads")
    check_overrides(overrides, [path])
    return load_workload(path, overrides)


def say_left_out(workload: str, layers: Sequence[Einsum], ask: str = "--all-layers") -> None:
    """Log which layers of a network do not count, and what to write so that they do."""
    if layers:
        from accelsim.show.report.headline import left_out_line

        logging.getLogger("accelsim").info("%s: %s", workload, left_out_line(layers, ask))
