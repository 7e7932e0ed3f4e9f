"""The commands that evaluate: one mapping (`eval`), two (`diff`), results anew (`verify`), Timeloop's statistics."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim import cli, results
from accelsim.api.asked import Asked
from accelsim.api.comparing import comparison, diff, load_result
from accelsim.api.mapping import evaluate_problem, map_problem
from accelsim.api.networks import mapped_layers
from accelsim.api.problem import find_layer, is_gpu
from accelsim.cli import inputs as spec
from accelsim.cli.mapping import asked_of
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints_reader import load_constraints
from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.library import read_utf8
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.plugins import EXPORTERS, installed
from accelsim.inputs.units import near_miss
from accelsim.inputs.workload import Einsum
from accelsim.model.evaluate import evaluate
from accelsim.model.limits import peak_macs_per_cycle, stand
from accelsim.results.explain import explain, explanation_json, refuse_large
from accelsim.results.output import read_mapping_json
from accelsim.search.mapper import map_einsum
from accelsim.search.stopping import Budget
from accelsim.show.report.explain import explanation_report
from accelsim.show.report.tables import machine_roofline_report, port_rows, stand_row
from accelsim.show.report.verdicts import verdict
from accelsim.show.table import Column, Piece, Table, bold

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


def validate_command(arguments: argparse.Namespace) -> int:
    """Evaluate a mapping of Timeloop and show where its statistics differ, and why."""
    from accelsim.importers import timeloop_replay as replay
    from accelsim.importers.foreign import OWN_MODELS, note_lines, read_foreign
    from accelsim.importers.timeloop_architecture import ACCESS

    statistics = [name for name in arguments.files if name.endswith("stats.txt")]
    if len(statistics) != 1:
        raise AccelsimError(f"expected one file that ends in stats.txt, got {len(statistics)}")
    theirs = replay.read_statistics(read_utf8(statistics[0]), statistics[0])
    others = [name for name in arguments.files if name not in statistics]
    if not others:
        raise AccelsimError(f"{statistics[0]}: the inputs are missing; name architecture, problem and mapping too")
    foreign = read_foreign(others, "timeloop", spec.read_params(arguments))
    folder = Path(statistics[0]).parent
    beside = sorted(folder.glob("*ERT.yaml")) or sorted(folder.glob("*ERT_summary.yaml"))
    if foreign.energies == OWN_MODELS and len(beside) == 1:
        foreign = read_foreign([*others, str(beside[0])], "timeloop", spec.read_params(arguments))
    if lacking := foreign.lacks():
        raise AccelsimError(f"{others[0]}: the files hold no {lacking}")
    sys.stderr.write(note_lines(foreign.notes))
    architecture, einsum, mapping = foreign.loaded()
    if others := replay.of_another(architecture, einsum, mapping, theirs):
        hint = "name the files that they were made from"
        raise AccelsimError("\n".join(f"{statistics[0]}: {other}; {hint}" for other in others))
    sparse = architecture.saves_zeros
    result = evaluate(architecture, einsum, mapping)
    unknown = replay.SPARSE if sparse else replay.UNEXPLAINED
    models = replay.MODELS if foreign.energies == OWN_MODELS and not sparse else None
    dearest = replay.evaluate_dearest(architecture, einsum, mapping)
    accessed = {note.key.removesuffix(ACCESS) for note in foreign.notes if note.key.endswith(ACCESS)}
    rows = list(replay.compare(einsum, mapping, result, theirs, unknown, models, dearest, accessed))
    holding, holds = None, replay.reused_roles(einsum, rows)
    if holds:
        result = replay.evaluate_holding(architecture, einsum, mapping, holds)
        equal = sum(not row.cause for row in replay.compare(einsum, mapping, result, theirs, unknown, models))
        holding = {"holds": sorted(holds), "equal": equal, "energy_pj": result.energy_pj}
        architecture = replace(architecture, compute=replace(architecture.compute, holds=holds))
    asked_for = foreign.constraints and load_constraints({"constraints": foreign.constraints}, architecture, einsum)
    budget, optimum = Budget(seconds=arguments.time_limit), None
    with suppress(NoValidMappingError):
        found = map_einsum(architecture, einsum, constraints=asked_for or None, uneven=False, budget=budget)
        cost = {"energy_pj": found.best.energy_pj, "cycles": found.best.cycles}
        optimum = {**cost, "proved": found.stop == "exhausted"}
    document: dict[str, Any] = {"figures": [asdict(row) for row in rows], "energies": foreign.energies}
    document |= {"optimum": optimum, "holding": holding}

    def report() -> Iterator[Piece]:
        """Figures of Timeloop that differ from ours, and our best mapping under the same constraints."""
        equal = sum(not row.cause for row in rows)
        columns = (
            Column("figure", "what"),
            Column("accelsim", "ours", "{:,.10g}".format),
            Column("Timeloop", "theirs", "{:,.10g}".format),
            Column("cause of the difference", "cause", left=True, fold=True),
        )
        shown = [asdict(row) for row in rows if row.cause or " " not in row.what.removesuffix(" [pJ]")]
        yield bold(f"{einsum.name} on {architecture.name}")
        yield f"{equal} of {len(rows)} figures are equal; those that differ, and the totals:\n"
        yield Table("replay", columns, [asdict(row) for row in rows], shown=shown)
        for cause, meaning in replay.CAUSES.items():
            if any(cause in row.cause for row in rows):
                yield f"{cause}: {meaning}."
        if holding is not None:
            said = f"With `holds: [{', '.join(sorted(holds))}]` at the compute unit, {holding['equal']} are equal"
            yield f"{said}, and the energy is {holding['energy_pj']:,.2f} pJ; so it is for the optimum."
        best = "no mapping satisfies the constraints as they are here"
        if optimum is not None:
            why = "proved" if optimum["proved"] else "the best found in the time"
            best = "{energy_pj:,.2f} pJ in {cycles:,} cycles under the same constraints".format(**optimum) + f" ({why})"
        yield f"\nOptimum of energy: {best}."
        yield f"Energies: {foreign.energies}."

    cli.answer(arguments, document, report)
    return cli.DIFFERS if any(row.cause == replay.UNEXPLAINED for row in rows) else cli.DONE


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
