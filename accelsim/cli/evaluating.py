"""The commands that take one mapping, `eval` and `explain`; and `roofline`, where layers stand under the roofs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accelsim.cli.inputs import make_provenance, one_layer, read_inputs
from accelsim.cli.printing import DONE, NO_VALID_MAPPING, answer, print_json, print_report, write_figure
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.errors import AccelsimError, NoValidMapping
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.workload import Einsum
from accelsim.model.evaluate import evaluate
from accelsim.search.stopping import asked

if TYPE_CHECKING:
    from accelsim.inputs.architecture import Architecture
    from accelsim.model.limits import Stand


def eval_command(arguments: argparse.Namespace) -> int:
    """Evaluate one mapping."""
    from accelsim.inputs.machine_tables import machine_json
    from accelsim.inputs.mapping import load_mapping
    from accelsim.results.folder import refuse_directory, write_directory
    from accelsim.results.output import evaluation_json
    from accelsim.show.folder import layer_files
    from accelsim.show.report.mapping import result_report

    inputs = read_inputs(arguments)
    layer = one_layer(inputs, arguments)
    mapping = load_mapping(inputs.paths["mapping"], inputs.architecture, layer, inputs.overrides)
    result = evaluate(inputs.architecture, layer, mapping)
    provenance = make_provenance("eval", inputs, arguments)
    document = evaluation_json(result, provenance, machine_json(inputs.architecture))
    if arguments.output:
        refuse_directory(arguments.output)
        write_directory(arguments.output, layer_files(result, None, provenance, document))
    answer(arguments, document, lambda: result_report(result, inputs.architecture, layer), arguments.output)
    return DONE if result.valid else NO_VALID_MAPPING


def explain_command(arguments: argparse.Namespace) -> int:
    """Walk a small loop nest and show what each step moves."""
    from accelsim.inputs.mapping import load_mapping
    from accelsim.results.explain import explain, explanation_json
    from accelsim.results.output import provenance_json
    from accelsim.show.report.explain import explanation_report

    inputs = read_inputs(arguments)
    layer = one_layer(inputs, arguments)
    if "mapping" in inputs.paths:
        mapping = load_mapping(inputs.paths["mapping"], inputs.architecture, layer, inputs.overrides)
        origin = arguments.mapping
    else:
        mapping, origin = _choose_mapping(inputs.architecture, layer)
    explanation = explain(
        inputs.architecture, layer, mapping, tensor=arguments.tensor, level=arguments.level, steps=arguments.steps
    )
    if arguments.json:
        provenance = provenance_json(make_provenance("explain", inputs, arguments))
        print_json({**provenance, "mapping_from": origin, **explanation_json(explanation)})
    else:
        print_report(explanation_report(explanation, origin))
    return DONE if explanation.same and explanation.result.valid else NO_VALID_MAPPING


def _choose_mapping(architecture: Architecture, einsum: Einsum) -> tuple[LoopNest, str]:
    """Return a mapping to explain, and in words where it is from: the one of least energy."""
    from accelsim.results.explain import refuse_large
    from accelsim.search.mapper import map_einsum
    from accelsim.show.report.text import large

    refuse_large(einsum)
    found = map_einsum(architecture, einsum, method="exact")
    return found.best.mapping, f"one of least energy of all {large(found.space_size)} in the map space"


def roofline_command(arguments: argparse.Namespace) -> int:
    """Show where the layers of workloads stand under the roofline of a machine."""
    from accelsim.cli.inputs import is_gpu
    from accelsim.model.limits import peak_macs_per_cycle
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
    if arguments.output:
        from accelsim.show.plots.throughput import plot_machine_roofline

        write_figure(arguments.output, plot_machine_roofline(machine, stands))
    peak = peak_macs_per_cycle(machine)
    document = {"architecture": machine.name, "objective": objective, "peak_macs_per_cycle": peak}
    document |= {"ports": port_rows(machine), "layers": [stand_row(stand, peak) for stand in stands]}
    answer(arguments, document, lambda: machine_roofline_report(machine, stands, objective), arguments.output)
    return DONE


def _stands(arguments: argparse.Namespace, objective: str) -> tuple[Architecture, list[Stand]]:
    """Map the layers of each workload, and say where they stand."""
    from accelsim.cli.inputs import read_inputs
    from accelsim.cli.mapping import map_layers
    from accelsim.model.limits import stand
    from accelsim.results.cache import MapOptions

    every = [
        read_inputs(argparse.Namespace(**{**vars(arguments), "workload": name, "layer": None}))
        for name in arguments.workloads
    ]
    found: list[Stand] = []
    for inputs in every:
        outcomes = list(map_layers(inputs, arguments, MapOptions(objective=objective)))
        for outcome in outcomes:
            if outcome.search is None:
                raise NoValidMapping(f"{outcome.einsum.name}: {outcome.why_not}")
            found.append(stand(inputs.architecture, outcome.einsum, outcome.search.best))
        if len(outcomes) < len(inputs.workload.layers) or asked():
            raise KeyboardInterrupt
    return every[0].architecture, found
