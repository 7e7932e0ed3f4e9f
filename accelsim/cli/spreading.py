"""The command `spread`: the census of the map space of a layer, or of several, on one machine or several."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from accelsim.cli.inputs import (
    Inputs,
    check_constraints,
    make_provenance,
    named_layers,
    open_cache,
    read_layer_constraints,
    read_machines,
)
from accelsim.cli.printing import (
    DONE,
    INTERRUPTED,
    NO_VALID_MAPPING,
    answer,
    make_console,
    show_parts,
)
from accelsim.inputs.errors import NoValidMapping
from accelsim.search.stopping import answering

if TYPE_CHECKING:
    from accelsim.inputs.workload import Einsum
    from accelsim.population.result import Census


def spread_command(arguments: argparse.Namespace) -> int:
    """Take the census of each layer on each machine."""
    from accelsim.population.output import census_json
    from accelsim.results.folder import refuse_directory, refuse_page, write_directory, write_page
    from accelsim.results.output import to_json

    if arguments.output:
        refuse_directory(arguments.output)
    machines = read_machines(arguments)
    for inputs in machines:
        check_constraints(inputs)
    layers = [(inputs, layer) for inputs in machines for layer in named_layers(arguments, inputs)]
    if arguments.html:
        refuse_page(arguments.html, layers[0][1] if len(layers) == 1 else None)
    found: list[Census] = []
    documents, missing = [], []
    for inputs, einsum in layers:
        try:
            found.append(take_census(arguments, inputs, einsum))
        except NoValidMapping as error:
            missing.append(f"{einsum.name} on {inputs.architecture.name}: {error}")
            continue
        documents.append(census_json(found[-1], make_provenance("spread", inputs, arguments)))
        if found[-1].stop == "interrupted":
            break
    answering()
    if not found:
        raise NoValidMapping("\n".join(missing))
    document = documents[0] if len(documents) == 1 else {"censuses": documents}
    if arguments.output:
        write_directory(arguments.output, {"census.json": to_json(document).encode()})
    if arguments.html:
        from accelsim.show.html import reports

        write_page(arguments.html, reports.census_report(found[0], layers[0][0].architecture, layers[0][1]))
    from accelsim.show.report.census import census_report, censuses_report

    answer(
        arguments,
        document,
        lambda: census_report(found[0]) if len(found) == 1 else censuses_report(found),
        arguments.output,
        arguments.html,
    )
    for line in missing:
        sys.stderr.write(line + "\n")
    if found[-1].stop == "interrupted":
        return INTERRUPTED
    return NO_VALID_MAPPING if missing else DONE


def take_census(arguments: argparse.Namespace, inputs: Inputs, einsum: Einsum) -> Census:
    """Take the census of a layer as the arguments ask for it, and show on a terminal how far it is."""
    from accelsim.population.census import census

    console = make_console(stderr=True)
    console.quiet = arguments.quiet
    with show_parts(console, f"{einsum.name} on {inputs.architecture.name}") as on_part:
        return census(
            inputs.architecture,
            einsum,
            constraints=read_layer_constraints(inputs, einsum),
            fully_used=arguments.fully_used,
            samples=arguments.samples,
            seed=arguments.seed,
            seconds=arguments.seconds,
            workers=arguments.workers,
            cache=open_cache(arguments),
            on_part=on_part,
        )
