"""The commands that evaluate: one mapping (`eval`), two (`diff`), results anew (`verify`)."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim import cli, results
from accelsim.api.asked import Asked
from accelsim.api.comparing import comparison, diff, load_result
from accelsim.api.mapping import evaluate_problem, map_problem
from accelsim.api.networks import mapped_layers
from accelsim.api.problem import find_layer, is_gpu
from accelsim.cli import inputs as spec
from accelsim.cli.mapping import asked_of
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.plugins import EXPORTERS, installed
from accelsim.inputs.units import near_miss
from accelsim.inputs.workload import Einsum
from accelsim.model.limits import peak_macs_per_cycle, stand
from accelsim.results.explain import explain, explanation_json, refuse_large
from accelsim.results.output import read_mapping_json
from accelsim.show.report.explain import explanation_report
from accelsim.show.report.tables import machine_roofline_report, port_rows, stand_row
from accelsim.show.report.verdicts import verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def eval_command(arguments: argparse.Namespace) -> int:
    """Evaluate one mapping, or walk its loop nest."""
    if arguments.trace:
        return _trace(arguments)
    cli.refuse(arguments, "only with --trace", "tensor", "level", "steps")
    if arguments.mapping is None:
        raise AccelsimError(
            "MAPPING is missing: a file, or a name of `accelsim list mappings`; `map` finds the best one"
        )
    found = evaluate_problem(spec.read(arguments), arguments.layout)
    cli.show(arguments, found)
    return cli.DONE if (found if found.sparse is None else found.sparse).valid else cli.NO_VALID_MAPPING


def _trace(arguments: argparse.Namespace) -> int:
    """Walk a small loop nest and show what each step moves."""
    cli.refuse(arguments, "not with --trace", "output", "csv")
    problem = spec.read(arguments)
    layer, machine = problem.one_layer, problem.architecture
    if arguments.mapping is not None:
        mapping, origin = problem.mapping(layer), arguments.mapping
    else:
        refuse_large(layer)
        found = map_problem(problem, Asked(mapspace="even", factors="perfect"))
        mapping, origin = found.mapping, verdict(found.search)
    explanation = explain(machine, layer, mapping, **cli.taken(arguments, "tensor", "level", "steps"))
    if arguments.json:
        provenance = results.provenance_json(problem.provenance("explain"))
        cli.print_json({**provenance, "mapping_from": origin, **explanation_json(explanation)})
    else:
        cli.print_report(explanation_report(explanation, origin))
    return cli.DONE if explanation.same and explanation.result.valid else cli.NO_VALID_MAPPING


def roofline_command(arguments: argparse.Namespace) -> int:
    """Show where the layers of workloads stand under the roofline of a machine."""
    if is_gpu(arguments.arch):
        cli.refuse(
            arguments,
            f"{arguments.arch} is a GPU, whose fastest kernels are shown",
            "objective",
            "constraints",
            "all_layers",
        )
        from accelsim.cli.gpus import gpu_roofline

        return gpu_roofline(arguments)
    cli.refuse(
        arguments,
        f"{arguments.arch} is no GPU; `accelsim list gpus` shows those that ship",
        "mig",
        "calibration",
        "dtype",
        "l2",
    )
    every = [
        spec.read(argparse.Namespace(**{**vars(arguments), "workload": name, "layer": None}), counted=True)
        for name in arguments.workloads
    ]
    for problem in every:
        spec.say_left_out(problem.workload.name, problem.left_out)
    machine, stands = every[0].architecture, []
    with cli.progress(arguments) as tell:
        asked = asked_of(arguments, tell)
        for problem in every:
            net = mapped_layers(replace(problem, layer=None), asked)
            stands += [stand(machine, net[name].layer, net[name].result) for name in net]
    objective = asked.objective

    def figure() -> Axes:
        from accelsim.show.plots.diagram import plot_machine_roofline

        return plot_machine_roofline(machine, stands)

    peak = peak_macs_per_cycle(machine)
    document = {"architecture": machine.name, "objective": objective, "peak_macs_per_cycle": peak}
    document |= {"ports": port_rows(machine), "layers": [stand_row(each, peak) for each in stands]}
    return cli.answer(arguments, document, lambda: machine_roofline_report(machine, stands, objective), figure=figure)


def export_command(arguments: argparse.Namespace) -> int:
    """Write files of another tool, and what it will count otherwise."""
    from accelsim.importers import accelforge, timeloop_export, zigzag_export
    from accelsim.importers.foreign import export_with

    own = {"timeloop": timeloop_export.export_timeloop, "zigzag": zigzag_export.export_zigzag}
    known = (*own, "accelforge", *installed(EXPORTERS))
    if arguments.tool not in known:
        raise AccelsimError(f"no exporter '{arguments.tool}'; {near_miss(arguments.tool, known, 'exporters')}")
    if arguments.tool == "accelforge":
        if len(arguments.files) < 3 or not arguments.output:
            raise AccelsimError("expected AccelForge's architecture and workload, a mapping of accelsim, and -o DIR")
        results.refuse_directory(arguments.output)
        text = accelforge.export_accelforge(arguments.files[:-1], arguments.files[-1], spec.read_params(arguments))
        for path in results.write_directory(arguments.output, {"mapping.yaml": text.encode()}):
            sys.stdout.write(f"{path}\n")
        return cli.DONE
    if len(arguments.files) == 1:
        architecture, layer, mapping, beside = _of_result(arguments)
    elif len(arguments.files) == 3:
        arguments.arch, arguments.workload, arguments.mapping = arguments.files
        problem = spec.read(arguments)
        architecture, layer, beside = problem.architecture, problem.one_layer, None
        mapping = problem.mapping(layer)
    else:
        many = len(arguments.files)
        raise AccelsimError(f"expected the folder of a result, or ARCH WORKLOAD MAPPING, got {many} names")
    folder = arguments.output or (beside and beside / arguments.tool)
    if not folder:
        raise AccelsimError("-o names the folder to write")
    results.refuse_directory(folder)
    made = own.get(arguments.tool, partial(export_with, arguments.tool))(architecture, layer, mapping)
    for path in results.write_directory(folder, {name: text.encode() for name, text in made.files.items()}):
        sys.stdout.write(f"{path}\n")
    sys.stdout.write("".join(f"{note}\n" for note in made.notes))
    return cli.DONE


def _of_result(arguments: argparse.Namespace) -> tuple[Architecture, Einsum, LoopNest, Path]:
    """Architecture, layer and mapping of a result, and its folder."""
    if arguments.params:
        raise AccelsimError("--set is for ARCH WORKLOAD MAPPING; a result has the parameters that it was made with")
    kept = load_result(arguments.files[0])
    document, path, problem = kept.document, kept.path, kept.problem
    mapped = [entry["result"] for entry in document.get("layers", [document]) if "result" in entry]
    names = [found["layer"] for found in mapped]
    if arguments.layer is None and len(names) != 1:
        what = f"{path}: holds the mappings of {len(names)} layers; --layer says which"
        raise AccelsimError(what if names else f"{path}: holds no single mapping; name ARCH WORKLOAD MAPPING")
    layer = find_layer(problem.workload, arguments.layer or names[0], problem.given["workload"])
    if layer is None or layer.name not in names:
        raise AccelsimError(f"{path}: holds no mapping of the layer '{arguments.layer}'")
    return problem.architecture, layer, read_mapping_json(mapped[names.index(layer.name)]), path.parent


def diff_command(arguments: argparse.Namespace) -> int:
    """Show two results, or two mappings of one layer, side by side; differences first."""
    *machine, a, b = arguments.files if len(arguments.files) in (2, 4) else ["", "", ""]
    if not a:
        many = len(arguments.files)
        raise AccelsimError(f"expected two results, or ARCH WORKLOAD and two mappings, got {many} names")
    if not machine and arguments.params:
        raise AccelsimError("--set is for ARCH WORKLOAD MAPPING; a result has the parameters that it was made with")
    if not machine:
        return cli.show(arguments, diff(a, b, layer=arguments.layer))
    arguments.arch, arguments.workload = machine
    sides = []
    for name in (a, b):
        found = evaluate_problem(spec.read(argparse.Namespace(**vars(arguments), mapping=name)))
        sides.append({found.layer.name: found.result})
    return cli.show(arguments, comparison((a, b), sides))


def verify_command(arguments: argparse.Namespace) -> int:
    """Check what a result.json says, layer by layer."""
    kept = load_result(arguments.result)
    changed = kept.changed
    for line in changed:
        cli.complain(line)
    if changed and not arguments.force:
        cli.complain("nothing was checked; --force goes on with the files as they are now")
        return cli.DIFFERS
    with cli.progress(arguments) as tell:
        found = kept.verify(**cli.taken(arguments, "time_limit", "jobs"), on_progress=tell)
    cli.print_report(found.parts())
    return cli.DONE if found.agrees else cli.DIFFERS
