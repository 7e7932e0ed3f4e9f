"""The command `map`: one layer, each layer of a network, or the Pareto front of a layer."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.cli.gpu_arguments import refuse_gpu_options
from accelsim.cli.inputs import (
    Inputs,
    check_constraints,
    is_gpu,
    make_provenance,
    one_layer,
    open_cache,
    print_notes,
    read_inputs,
    read_layer_constraints,
)
from accelsim.cli.printing import (
    DONE,
    INTERRUPTED,
    NO_VALID_MAPPING,
    answer,
    make_console,
)
from accelsim.inputs.errors import NoValidMapping
from accelsim.inputs.files import file_name
from accelsim.inputs.workload import Einsum
from accelsim.search.stopping import answering

if TYPE_CHECKING:
    from accelsim.model.limits import Limits
    from accelsim.results.cache import MapOptions, ResultCache
    from accelsim.results.output import LayerOutcome
    from accelsim.search.result import FrontResult, SearchResult
    from accelsim.search.strategy import Budget
    from accelsim.show.table import Part


def map_command(arguments: argparse.Namespace) -> int:
    """Map one layer, or each layer of a network."""
    from accelsim.inputs.machine_tables import machine_json
    from accelsim.results.output import map_json

    if is_gpu(arguments.arch):
        from accelsim.cli.gpus import map_on_gpu

        return map_on_gpu(arguments)
    refuse_gpu_options(arguments)
    inputs = read_inputs(arguments)
    if not arguments.quiet:
        print_notes(inputs.workload.notes)
    if arguments.output:
        from accelsim.results.folder import refuse_directory

        refuse_directory(arguments.output)
    if arguments.html:
        from accelsim.results.folder import refuse_page

        refuse_page(arguments.html, inputs.layer)
    if arguments.pareto:
        return _map_front(inputs, arguments)
    layer = inputs.layer
    if layer is None:
        return _map_network(inputs, arguments)
    search = search_layer(inputs, layer, arguments, map_options(arguments), open_cache(arguments), layer.name)
    answering()
    provenance = make_provenance("map", inputs, arguments)
    document = map_json(search, provenance, machine_json(inputs.architecture))
    if arguments.output:
        from accelsim.results.folder import write_directory
        from accelsim.show.folder import layer_files

        write_directory(arguments.output, layer_files(search.best, search, provenance, document))
    if arguments.html:
        from accelsim.results.folder import write_page
        from accelsim.show.html.reports import search_report

        write_page(arguments.html, search_report(search, inputs.architecture, layer))
    from accelsim.show.report.mapping import headline, result_report

    def report() -> Iterator[Part]:
        from accelsim.show.report.search import population_line, ranked_report, search_report

        yield from result_report(search.best, inputs.architecture, layer, search)
        yield from search_report(search)
        population = None if search.stop == "interrupted" else _population(inputs, layer, search)
        yield from [] if population is None else [population_line(search, *population)]
        yield from ranked_report(search, arguments.top)

    brief = headline(search.best, search) if arguments.quiet else None
    answer(arguments, document, report, arguments.output, arguments.html, brief=brief)
    return INTERRUPTED if search.stop == "interrupted" else DONE


def _population(inputs: Inputs, layer: Einsum, search: SearchResult) -> tuple[int, float | None] | None:
    """Valid mappings and the energy that none exceeds, where an exact search looked at all of them."""
    if search.certificate is None or search.uneven or search.imperfect or search.padded:
        return None
    from accelsim.population.census import count_and_limit

    return count_and_limit(inputs.architecture, layer, read_layer_constraints(inputs, layer))


def _map_front(inputs: Inputs, arguments: argparse.Namespace) -> int:
    """Find the mappings of one layer that no other one beats."""
    from accelsim.inputs.machine_tables import machine_json
    from accelsim.results.folder import write_directory
    from accelsim.results.output import front_json
    from accelsim.show.folder import front_files
    from accelsim.show.report.search import front_report

    layer = one_layer(inputs, arguments)
    front = _search_front(inputs, layer, arguments)
    answering()
    provenance = make_provenance("map", inputs, arguments)
    document = front_json(front, provenance, machine_json(inputs.architecture))
    if arguments.output:
        write_directory(arguments.output, front_files(front, provenance, document))
    answer(arguments, document, lambda: front_report(front), arguments.output)
    return INTERRUPTED if front.stop == "interrupted" else DONE


def _map_network(inputs: Inputs, arguments: argparse.Namespace) -> int:
    """Map layer after layer; one that has no valid mapping does not stop the others."""
    from accelsim.inputs.machine_tables import machine_json
    from accelsim.results.folder import write_directory
    from accelsim.results.output import map_json, network_json, to_json
    from accelsim.show.folder import layer_files
    from accelsim.show.report.network import network_report

    layers, yields = inputs.workload.layers, inputs.workload.yields
    check_constraints(inputs)
    provenance = make_provenance("map", inputs, arguments)
    machine, folders = machine_json(inputs.architecture), layer_folders(layers)
    outcomes: list[LayerOutcome] = []
    with suppress(KeyboardInterrupt):
        for outcome in map_layers(inputs, arguments, map_options(arguments)):
            outcomes.append(outcome)
            search = outcome.search
            if arguments.output and search is not None:
                files = layer_files(search.best, search, provenance, map_json(search, provenance, machine))
                write_directory(Path(arguments.output) / folders[outcome.einsum.name], files)
    answering()
    interrupted = len(outcomes) < len(layers) or any(o.search and o.search.stop == "interrupted" for o in outcomes)
    names = inputs.workload.name, inputs.architecture.name
    asked = arguments.output or arguments.json
    document = network_json(names, outcomes, yields, provenance, machine) if asked else {}
    if arguments.output:
        write_directory(arguments.output, {"result.json": to_json(document).encode()})

    def report() -> Iterator[Part]:
        yield from network_report(*names, outcomes, yields)
        if interrupted:
            yield f"Interrupted after {len(outcomes)} of {len(layers)} layers; the others are not in the total."

    answer(arguments, document, report, arguments.output)
    for outcome in outcomes:
        if outcome.search is None:
            sys.stderr.write(f"{outcome.einsum.name}: {outcome.why_not}\n")
    if interrupted:
        return INTERRUPTED
    return NO_VALID_MAPPING if any(outcome.search is None for outcome in outcomes) else DONE


def map_layers(inputs: Inputs, arguments: argparse.Namespace, options: MapOptions) -> Iterator[LayerOutcome]:
    """Map each layer of a network, equal ones once; ends early where the user interrupts it."""
    from accelsim.model.limits import layer_limits
    from accelsim.results.cache import carry_over, content_key
    from accelsim.results.output import LayerOutcome

    machine, layers = inputs.architecture, inputs.workload.layers
    known: dict[str, tuple[Einsum, SearchResult, Limits]] = {}
    cache = open_cache(arguments)
    for number, einsum in enumerate(layers, 1):
        key = content_key(machine, einsum, options, read_layer_constraints(inputs, einsum))
        try:
            if key in known:
                first, found, limits = known[key]
                search = carry_over(found, machine, first, einsum)
            else:
                what = f"{einsum.name} ({number}/{len(layers)})"
                search = search_layer(inputs, einsum, arguments, options, cache, what)
                limits = layer_limits(machine, einsum)
                known[key] = einsum, search, limits
        except NoValidMapping as error:
            yield LayerOutcome(einsum, None, str(error))
            continue
        except KeyboardInterrupt:
            return
        yield LayerOutcome(einsum, search, limits=limits)
        if search.stop == "interrupted":
            return


def search_layer(
    inputs: Inputs,
    einsum: Einsum,
    arguments: argparse.Namespace,
    options: MapOptions,
    cache: ResultCache | None,
    what: str,
) -> SearchResult:
    """Search the map space of one layer or take the answer kept, with progress where a terminal shows it."""
    from accelsim.results.cache import map_with_cache
    from accelsim.show.report.certificate import search_progress

    constraints = read_layer_constraints(inputs, einsum)
    console = make_console(stderr=True)
    console.quiet = arguments.quiet
    with search_progress(console, what, options.objective) as on_progress:
        return map_with_cache(
            inputs.architecture,
            einsum,
            options,
            cache,
            constraints=constraints,
            budget=_budget(arguments) if arguments.command == "map_command" else None,
            workers=arguments.workers,
            on_progress=on_progress,
        )


def map_options(arguments: argparse.Namespace) -> MapOptions:
    """Options of `map` that change its answer."""
    from accelsim.results.cache import MapOptions

    return MapOptions(
        objective="energy" if arguments.objective is None else arguments.objective,
        method=arguments.search,
        top=arguments.top or 1,
        within=arguments.within,
        uneven=arguments.uneven,
        imperfect=arguments.imperfect or (),
        pad=arguments.pad or (),
        seed=arguments.seed or 0,
    )


def _search_front(inputs: Inputs, einsum: Einsum, arguments: argparse.Namespace) -> FrontResult:
    """Search the Pareto front of one layer, with progress where a terminal shows it."""
    from accelsim.search.exact import front
    from accelsim.show.report.certificate import search_progress

    constraints = read_layer_constraints(inputs, einsum)
    console = make_console(stderr=True)
    console.quiet = arguments.quiet
    with search_progress(console, einsum.name) as on_progress:
        return front.map_front(
            inputs.architecture,
            einsum,
            arguments.pareto,
            constraints=constraints,
            budget=_budget(arguments),
            workers=arguments.workers,
            on_progress=on_progress,
        )


def _budget(arguments: argparse.Namespace) -> Budget | None:
    if not arguments.mappings and not arguments.seconds:
        return None
    from accelsim.search.strategy import Budget

    return Budget(arguments.mappings, arguments.seconds)


def layer_folders(layers: Sequence[Einsum]) -> dict[str, str]:
    """Folder of each layer: its name as that of a file, and no two alike."""
    found: dict[str, str] = {}
    for layer in layers:
        folder = file_name(layer.name)
        while folder.casefold() in {other.casefold() for other in found.values()} | {"result.json"}:
            folder += "_"
        found[layer.name] = folder
    return found
