"""The command `export`: a mapping, its machine and its layer as files of another tool."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from accelsim.cli.inputs import find_layer, one_layer, read_inputs
from accelsim.cli.printing import DONE
from accelsim.cli.verifying import find_result, read_result, read_result_inputs
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import Mapping, load_mapping
from accelsim.inputs.workload import Einsum


def export_command(arguments: argparse.Namespace) -> int:
    """Write files of Timeloop, and what it will count otherwise."""
    from accelsim.importers.timeloop_export import export_timeloop
    from accelsim.results.folder import refuse_directory, write_directory

    if len(arguments.files) == 1:
        architecture, layer, mapping, beside = _of_result(arguments)
    elif len(arguments.files) == 3:
        arguments.arch, arguments.workload, arguments.mapping = arguments.files
        inputs = read_inputs(arguments)
        architecture, layer, beside = inputs.architecture, one_layer(inputs, arguments), None
        mapping = load_mapping(inputs.paths["mapping"], architecture, layer, inputs.overrides)
    else:
        many = len(arguments.files)
        raise AccelsimError(f"expected the folder of a result, or ARCH WORKLOAD MAPPING, got {many} names")
    folder = arguments.output or (beside and beside / "timeloop")
    if not folder:
        raise AccelsimError("-o names the folder to write")
    refuse_directory(folder)
    made = export_timeloop(architecture, layer, mapping)
    for path in write_directory(folder, {name: text.encode() for name, text in made.files.items()}):
        sys.stdout.write(f"{path}\n")
    sys.stdout.write("".join(f"{note}\n" for note in made.notes))
    return DONE


def _of_result(arguments: argparse.Namespace) -> tuple[Architecture, Einsum, Mapping, Path]:
    """Machine, layer and mapping of a result, and its folder."""
    from accelsim.results.output import read_mapping_json

    if arguments.overrides:
        raise AccelsimError("--set is for ARCH WORKLOAD MAPPING; a result has the parameters that it was made with")
    path = find_result(arguments.files[0])
    document = read_result(path)
    inputs = read_result_inputs(path, document)
    results = [entry["result"] for entry in document.get("layers", [document]) if "result" in entry]
    names = [found["layer"] for found in results]
    if arguments.layer is None and len(names) != 1:
        what = f"{path}: holds the mappings of {len(names)} layers; --layer says which"
        raise AccelsimError(what if names else f"{path}: holds no single mapping; name ARCH WORKLOAD MAPPING")
    layer = find_layer(inputs.workload, arguments.layer or names[0], inputs.given["workload"])
    if layer is None or layer.name not in names:
        raise AccelsimError(f"{path}: holds no mapping of the layer '{arguments.layer}'")
    return inputs.architecture, layer, read_mapping_json(results[names.index(layer.name)]), path.parent
