"""The commands that take one mapping: `eval` and `explain`."""

from __future__ import annotations

import argparse

from accelsim.cli.inputs import make_provenance, one_layer, read_inputs
from accelsim.cli.printing import DONE, NO_VALID_MAPPING, answer, print_json, print_report


def eval_command(arguments: argparse.Namespace) -> int:
    """Evaluate one mapping."""
    from accelsim.inputs.machine_tables import machine_json
    from accelsim.inputs.mapping import load_mapping
    from accelsim.model.evaluate import evaluate
    from accelsim.results.folder import layer_files, refuse_directory, write_directory
    from accelsim.results.output import evaluation_json
    from accelsim.show.report import result_report

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
    from accelsim.model.explain import choose_mapping, explain, explanation_json
    from accelsim.results.output import provenance_json
    from accelsim.show.report.explain import print_explanation

    inputs = read_inputs(arguments)
    layer = one_layer(inputs, arguments)
    if "mapping" in inputs.paths:
        mapping = load_mapping(inputs.paths["mapping"], inputs.architecture, layer, inputs.overrides)
        origin = arguments.mapping
    else:
        mapping, origin = choose_mapping(inputs.architecture, layer)
    explanation = explain(
        inputs.architecture, layer, mapping, tensor=arguments.tensor, level=arguments.level, steps=arguments.steps
    )
    if arguments.json:
        provenance = provenance_json(make_provenance("explain", inputs, arguments))
        print_json({**provenance, "mapping_from": origin, **explanation_json(explanation)})
    else:
        print_report(lambda console: print_explanation(console, explanation, origin))
    return DONE if explanation.same and explanation.result.valid else NO_VALID_MAPPING
