"""The commands that take one mapping: `eval`, `explain`, `export`, `replay`; and `roofline`, what limits mappings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.cli import DIFFERS, DONE, NO_VALID_MAPPING, answer, print_json, print_report
from accelsim.cli.inputs import find_layer, is_gpu, make_provenance, one_layer, read_inputs, read_overrides
from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.constraints import load_constraints
from accelsim.inputs.errors import AccelsimError, NoValidMapping
from accelsim.inputs.files import read_utf8
from accelsim.inputs.machine_tables import machine_json
from accelsim.inputs.mapping import Mapping, load_mapping
from accelsim.inputs.workload import Einsum
from accelsim.inputs.workload_reader import load_workload
from accelsim.model.evaluate import evaluate
from accelsim.model.limits import Stand, peak_macs_per_cycle, stand
from accelsim.results import provenance_json, refuse_directory, write_directory
from accelsim.results.output import evaluation_json, read_mapping_json
from accelsim.search.mapper import map_einsum
from accelsim.search.strategy import Budget
from accelsim.show.report import large

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from accelsim.importers.foreign import Foreign
    from accelsim.importers.timeloop_replay import Difference
    from accelsim.show.table import Part


def eval_command(arguments: argparse.Namespace) -> int:
    """Evaluate one mapping."""
    from accelsim.show.report.mapping import result_report
    from accelsim.show.report.search import layer_files

    inputs = read_inputs(arguments)
    layer = one_layer(inputs, arguments)
    mapping = load_mapping(inputs.paths["mapping"], inputs.architecture, layer, inputs.overrides)
    result = evaluate(inputs.architecture, layer, mapping)
    provenance = make_provenance("eval", inputs, arguments)
    document = evaluation_json(result, provenance, machine_json(inputs.architecture))
    answer(
        arguments,
        document,
        lambda: result_report(result, inputs.architecture, layer),
        files=lambda: layer_files(result, None, provenance, document),
    )
    return DONE if result.valid else NO_VALID_MAPPING


def explain_command(arguments: argparse.Namespace) -> int:
    """Walk a small loop nest and show what each step moves."""
    from accelsim.results.explain import explain, explanation_json, refuse_large
    from accelsim.show.report.explain import explanation_report

    inputs = read_inputs(arguments)
    layer, machine = one_layer(inputs, arguments), inputs.architecture
    if "mapping" in inputs.paths:
        mapping = load_mapping(inputs.paths["mapping"], machine, layer, inputs.overrides)
        origin = arguments.mapping
    else:
        refuse_large(layer)
        found = map_einsum(machine, layer, method="exact")
        mapping, space = found.best.mapping, large(found.space_size)
        origin = f"one of least energy of all {space} in the map space"
    explanation = explain(
        machine, layer, mapping, tensor=arguments.tensor, level=arguments.level, steps=arguments.steps
    )
    if arguments.json:
        provenance = provenance_json(make_provenance("explain", inputs, arguments))
        print_json({**provenance, "mapping_from": origin, **explanation_json(explanation)})
    else:
        print_report(explanation_report(explanation, origin))
    return DONE if explanation.same and explanation.result.valid else NO_VALID_MAPPING


def roofline_command(arguments: argparse.Namespace) -> int:
    """Show where the layers of workloads stand under the roofline of a machine."""
    from accelsim.show.report.tables import machine_roofline_report, port_rows, stand_row

    if is_gpu(arguments.arch):
        if arguments.objective or arguments.constraints:
            name = "--objective" if arguments.objective else "--constraints"
            raise AccelsimError(f"{name}: {arguments.arch} is a GPU, whose fastest kernels are shown")
        from accelsim.cli.gpus import gpu_roofline

        return gpu_roofline(arguments)
    if arguments.mig or arguments.calibration or arguments.dtype:
        name = "--mig" if arguments.mig else "--calibration" if arguments.calibration else "--dtype"
        raise AccelsimError(f"{name}: {arguments.arch} is no GPU; `accelsim gpus` shows those that ship")
    objective = "energy" if arguments.objective is None else arguments.objective
    machine, stands = _stands(arguments, objective)

    def figure() -> Axes:
        from accelsim.show.plots.diagram import plot_machine_roofline

        return plot_machine_roofline(machine, stands)

    peak = peak_macs_per_cycle(machine)
    document = {"architecture": machine.name, "objective": objective, "peak_macs_per_cycle": peak}
    document |= {"ports": port_rows(machine), "layers": [stand_row(stand, peak) for stand in stands]}
    answer(arguments, document, lambda: machine_roofline_report(machine, stands, objective), figure=figure)
    return DONE


def _stands(arguments: argparse.Namespace, objective: str) -> tuple[Architecture, list[Stand]]:
    """Map the layers of each workload, and say where they stand."""
    from accelsim.cli.mapping import map_every_layer
    from accelsim.results.cache import MapOptions

    every = [
        read_inputs(argparse.Namespace(**{**vars(arguments), "workload": name, "layer": None}))
        for name in arguments.workloads
    ]
    machine, options = every[0].architecture, MapOptions(objective=objective)
    return machine, [
        stand(inputs.architecture, einsum, best)
        for inputs in every
        for einsum, best in map_every_layer(inputs, arguments, options)
    ]


def export_command(arguments: argparse.Namespace) -> int:
    """Write files of Timeloop, and what it will count otherwise."""
    from accelsim.importers.timeloop_export import export_timeloop

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
    from accelsim.cli.verifying import read_result

    if arguments.overrides:
        raise AccelsimError("--set is for ARCH WORKLOAD MAPPING; a result has the parameters that it was made with")
    path, document, inputs = read_result(arguments.files[0])
    results = [entry["result"] for entry in document.get("layers", [document]) if "result" in entry]
    names = [found["layer"] for found in results]
    if arguments.layer is None and len(names) != 1:
        what = f"{path}: holds the mappings of {len(names)} layers; --layer says which"
        raise AccelsimError(what if names else f"{path}: holds no single mapping; name ARCH WORKLOAD MAPPING")
    layer = find_layer(inputs.workload, arguments.layer or names[0], inputs.given["workload"])
    if layer is None or layer.name not in names:
        raise AccelsimError(f"{path}: holds no mapping of the layer '{arguments.layer}'")
    return inputs.architecture, layer, read_mapping_json(results[names.index(layer.name)]), path.parent


def replay_command(arguments: argparse.Namespace) -> int:
    """Evaluate a mapping of Timeloop and show where its statistics differ, and why."""
    from accelsim.importers.foreign import read_foreign
    from accelsim.importers.timeloop_replay import SPARSE, UNEXPLAINED, compare, read_statistics

    statistics = [name for name in arguments.files if name.endswith(".stats.txt")]
    if len(statistics) != 1:
        raise AccelsimError(f"expected one file that ends in .stats.txt, got {len(statistics)}")
    theirs = read_statistics(read_utf8(statistics[0]), statistics[0])
    others = [name for name in arguments.files if name not in statistics]
    if not others:
        raise AccelsimError(f"{statistics[0]}: the inputs are missing; name architecture, problem and mapping too")
    foreign = read_foreign(others, "timeloop", read_overrides(arguments))
    if foreign.architecture is None or foreign.workload is None or foreign.mapping is None:
        missing = [kind for kind in ("architecture", "workload", "mapping") if getattr(foreign, kind) is None]
        raise AccelsimError(f"{others[0]}: the files hold no {' and no '.join(missing)}")
    sys.stderr.write("".join(f"{note}\n" for note in foreign.notes))
    architecture = load_architecture({"architecture": foreign.architecture})
    einsum = load_workload({"workload": foreign.workload}).layers[0]
    mapping = load_mapping({"mapping": foreign.mapping}, architecture, einsum)
    sparse = any("sparse" in note.why for note in foreign.notes)
    result = evaluate(architecture, einsum, mapping)
    rows = list(compare(einsum, mapping, result, theirs, SPARSE if sparse else UNEXPLAINED))
    asked_for = foreign.constraints and load_constraints({"constraints": foreign.constraints}, architecture, einsum)
    budget, optimum = Budget(seconds=arguments.seconds), None
    try:
        found = map_einsum(architecture, einsum, constraints=asked_for or None, method="exact", budget=budget)
        cost = {"energy_pj": found.best.energy_pj, "cycles": found.best.cycles}
        optimum = {**cost, "proved": found.stop == "exhausted"}
    except NoValidMapping:
        pass
    document = {"figures": [asdict(row) for row in rows], "energies": foreign.energies, "optimum": optimum}
    answer(arguments, document, lambda: _replayed(rows, f"{einsum.name} on {architecture.name}", foreign, optimum))
    return DIFFERS if any(row.cause == UNEXPLAINED for row in rows) else DONE


def _replayed(
    rows: Sequence[Difference], title: str, foreign: Foreign, optimum: dict[str, float] | None
) -> Iterator[Part]:
    """Figures of Timeloop that differ from ours, and our best mapping under the same constraints."""
    from accelsim.importers.timeloop_replay import CAUSES
    from accelsim.show.table import Column, Table, bold

    equal = sum(not row.cause for row in rows)
    columns = (
        Column("figure", "what"),
        Column("accelsim", "ours", "{:,.10g}".format),
        Column("Timeloop", "theirs", "{:,.10g}".format),
        Column("cause of the difference", "cause", left=True, fold=True),
    )
    shown = [asdict(row) for row in rows if row.cause or " " not in row.what.removesuffix(" [pJ]")]
    yield bold(title)
    yield f"{equal} of {len(rows)} figures are equal; those that differ, and the totals:\n"
    yield Table("replay", columns, [asdict(row) for row in rows], shown=shown)
    for cause, meaning in CAUSES.items():
        if any(cause in row.cause for row in rows):
            yield f"{cause}: {meaning}."
    best = "no mapping satisfies the constraints as they are here"
    if optimum is not None:
        why = "proved" if optimum["proved"] else "the best found in the time"
        best = "{energy_pj:,.2f} pJ in {cycles:,} cycles under the same constraints".format(**optimum) + f" ({why})"
    yield f"\nOptimum of energy: {best}."
    yield f"Energies: {foreign.energies}."
