"""The commands that take one mapping: `eval` and `explain`."""

from __future__ import annotations

import argparse

from accelsim.cli.inputs import make_provenance, one_layer, read_inputs
from accelsim.cli.printing import DONE, NO_VALID_MAPPING, answer, print_json, print_report
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.workload import Einsum
from accelsim.model.evaluate import evaluate


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
