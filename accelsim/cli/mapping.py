"""The commands that search: `map`, of a layer, each layer of a network, or a Pareto front; and `fuse`."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim import cli
from accelsim.cli import inputs as spec
from accelsim.cli.arguments import refuse_gpu_options
from accelsim.cli.inputs import Inputs
from accelsim.inputs import library
from accelsim.inputs.errors import AccelsimError, NoValidMapping
from accelsim.inputs.library import file_name
from accelsim.inputs.units import listed
from accelsim.inputs.workload import Einsum
from accelsim.results import refuse_page, to_json, write_directory
from accelsim.results.cache import MapOptions, ResultCache, content_hash, machine_content, map_with_cache
from accelsim.results.output import family_json, front_json, map_json, zeros_json
from accelsim.search.result import EVEN, MOST_TIES
from accelsim.search.stopping import Budget, Progress, answering, asked
from accelsim.show.report import large, search_progress, times
from accelsim.show.report.mapping import best_report, headline, result_report, sparse_report

if TYPE_CHECKING:
    from accelsim.inputs.architecture import Architecture
    from accelsim.model.result import Result
    from accelsim.model.sparsity.result import SparseResult
    from accelsim.results.network import LayerOutcome
    from accelsim.search.result import FrontResult, SearchResult
    from accelsim.search.zeros import BestWithZeros
    from accelsim.show.table import Piece


def map_command(arguments: argparse.Namespace) -> int:
    """Map one layer, or each layer of a network; several machines, values, constraints or objectives as rows."""
    if (variants := _variants(arguments))[1:]:
        return (_map_families if arguments.one_mapping else _map_several)(variants, arguments)
    if arguments.one_mapping:
        arguments.parser.error("argument --one-mapping: give several sizes, such as --sequence 128,512 or --batch 1,8")
    if arguments.plot:
        arguments.parser.error("argument --plot: draws several values, such as --set glb=64KiB,128KiB")
    if spec.is_gpu(arguments.arch) and not arguments.more:
        from accelsim.cli.gpus import map_on_gpu

        return map_on_gpu(arguments)
    refuse_gpu_options(arguments)
    if spec.is_system(arguments.arch):
        return _map_on_system(arguments)
    inputs = spec.read_network(arguments)
    if not arguments.quiet:
        spec.print_notes(inputs.workload.notes)
    if arguments.html:
        refuse_page(arguments.html, one=inputs.layer is not None)
    if arguments.why and (arguments.pareto or inputs.layer is None):
        raise AccelsimError("--why: of one layer and one objective; choose a layer with --layer")
    if arguments.pareto:
        return _map_front(inputs, arguments)
    return _map_network(inputs, arguments) if inputs.layer is None else _map_layer(inputs, inputs.layer, arguments)


def _map_on_system(arguments: argparse.Namespace) -> int:
    """Map the layers of a network on the engines of a system, and assign them."""
    from accelsim.designs.soc import load_system, map_on_system, system_json
    from accelsim.inputs.architecture import Architecture
    from accelsim.show.report.network import system_report, system_verdict

    why = "not for a system of engines, whose layers are mapped whole and assigned"
    names = ("constraints", "limit", "top", "within", "uneven", "imperfect", "pad", "pareto", "mappings", "html")
    cli.refuse(arguments, why, *names, "all_layers")
    if arguments.more:
        raise AccelsimError(
            f"{arguments.more[0]}: a system takes one workload, and finds the engine of each layer itself"
        )
    path = str(library.find(arguments.arch, "systems") or arguments.arch)
    converted = spec.convert_foreign((path, arguments.workload))
    workload = spec.read_workload(arguments, str(converted.get(path, {}).get("workload", arguments.workload)))
    layer = spec.find_layer(workload, arguments.layer, arguments.workload)
    if layer is not None:
        workload = replace(workload, layers=(layer,), edges=())
    if not arguments.quiet:
        spec.print_notes(workload.notes)
    system = load_system(converted.get(path, {}).get("system", path))
    for engine in system.engines:
        if isinstance(engine.machine, Architecture):
            spec.note_dense(engine.machine)
    with cli.show_status("reading", quiet=arguments.quiet) as status:
        tell = None if status is None else lambda what: status(Progress(what=what))
        found = map_on_system(
            system,
            workload,
            arguments.objective or "energy",
            budget=_budget(arguments),
            cache=spec.open_cache(arguments),
            workers=arguments.workers,
            on_progress=tell,
        )
    answering()
    document = system_json(found)
    return cli.answer(
        arguments,
        document,
        lambda: system_report(found),
        files=lambda: {"system.json": to_json(document).encode()},
        brief=system_verdict(found) if arguments.quiet else None,
    )


_BETWEEN = re.compile(r",(?![^\[{(]*[\]})])")
"""Commas between values, but for those inside brackets."""
Variant = tuple[dict[str, Any], argparse.Namespace]
"""What one of several runs has of its own, by what differs between them, and its arguments."""


def _variants(arguments: argparse.Namespace) -> list[Variant]:
    """Every combination of machines, values of parameters, sizes, constraints and objectives between commas."""
    texts = {name: getattr(arguments, name) for name in ("arch", "constraints", "objective")}
    several: dict[str, list[Any]] = {
        name: spec.split(text) for name, text in texts.items() if text and "," in text and not os.path.exists(text)
    }
    several |= {name: list(size) for name in spec.SIZES if isinstance(size := getattr(arguments, name), tuple)}
    values = {name: [each.strip() for each in _BETWEEN.split(text)] for name, text in arguments.overrides}
    swept = {name: texts for name, texts in values.items() if len(texts) > 1}
    found = []
    for choice in product(*several.values(), *swept.values()):
        own = dict(zip([*several, *swept], choice, strict=True))
        changed = {name: own[name] for name in several}
        overrides = [(name, own.get(name, text) if name in swept else text) for name, text in arguments.overrides]
        found.append((own, argparse.Namespace(**{**vars(arguments), **changed, "overrides": overrides})))
    return found


def _map_several(variants: Sequence[Variant], arguments: argparse.Namespace) -> int:
    """Map the same layer or network several times, and show a row for each."""
    from accelsim.results.network import left_out_json, run_row
    from accelsim.show.report.search import runs_report

    why = "not for several machines, values, constraints or objectives at once"
    cli.refuse(arguments, why, "output", "html", "pareto", "top", "within", "why")
    if any(spec.is_gpu(each.arch) or spec.is_system(each.arch) for _, each in variants):
        raise AccelsimError(f"{arguments.arch}: GPUs and systems are mapped one at a time")
    every = [(own, spec.read_network(each), each) for own, each in variants]
    for _, inputs, _ in every:
        spec.check_constraints(inputs)
    rows: list[dict[str, Any]] = []
    for own, inputs, each in every:
        only = inputs.workload.layers if inputs.layer is None else (inputs.layer,)
        one = replace(inputs, workload=replace(inputs.workload, layers=only))
        outcomes = list(map_layers(one, each, map_options(each)))
        if len(outcomes) < len(only) or asked():
            break
        rows.append({**own, **run_row(outcomes, map_options(each).objective)})
        if len(only) == 1 and "objective" not in own:
            search = outcomes[0].search
            other = None if search is None else _other_optimum(inputs, only[0], search, each)
            best = None if other is None else other.best
            rows[-1] |= {f"other_{name}": getattr(best, name, None) for name in ("energy_pj", "cycles")}
    answering()
    first = every[0][1]
    what, varied = (first.layer or first.workload).name, list(variants[0][0])
    objective = map_options(variants[0][1]).objective if "objective" not in varied else ""
    written = []
    if arguments.plot and rows:
        from accelsim.show.plots.search import plot_runs

        cli.write_figure(arguments.plot, plot_runs(rows, varied, what, objective))
        written.append(arguments.plot)
    document = {"workload": what, "varied": varied, "runs": rows, **left_out_json(first.left_out)}
    report = partial(runs_report, what, varied, rows, objective, uneven=not arguments.even, left_out=first.left_out)
    cli.answer(arguments, document, report, *written)
    for row in rows:
        if row["no_valid_mapping"]:
            cli.complain(f"{', '.join(str(row[name]) for name in varied)}: {row['no_valid_mapping']}")
    if len(rows) < len(variants):
        return cli.INTERRUPTED
    return cli.NO_VALID_MAPPING if any(row["no_valid_mapping"] for row in rows) else cli.DONE


def _map_families(variants: Sequence[Variant], arguments: argparse.Namespace) -> int:
    """Find for each layer the one mapping that suits all sizes best."""
    from accelsim.search.family import map_family
    from accelsim.show.report.search import families_report

    names = ("output", "html", "pareto", "top", "within", "why", "plot", "uneven", "imperfect", "pad", "mappings")
    cli.refuse(arguments, "not with --one-mapping", *names)
    if any(spec.is_gpu(each.arch) or spec.is_system(each.arch) for _, each in variants):
        raise AccelsimError(f"{arguments.arch}: GPUs and systems have no mappings of families")
    every = [spec.read_network(each) for _, each in variants]
    first, options = every[0], map_options(variants[0][1])
    alike = {content_hash(machine_content(each.architecture)) for each in every}
    asked_for = {(each.objective, each.constraints) for _, each in variants}
    if len(alike) > 1 or len(asked_for) > 1:
        raise AccelsimError("--one-mapping: sizes of the layers may differ, machine, constraints and objective may not")
    chosen = [each.workload.layers if each.layer is None else (each.layer,) for each in every]
    if len({tuple(layer.name for layer in layers) for layers in chosen}) > 1:
        raise AccelsimError("--one-mapping: the layers are others from size to size")
    found, budget = [], _budget(arguments)
    for shapes in zip(*chosen, strict=True):
        with _searching(first, shapes[0], arguments, shapes[0].name, options.objective) as requested:
            family = map_family(first.architecture, shapes, options.objective, budget=budget, **requested)
        found.append((shapes[0].name, family))
        if asked():
            break
    answering()
    sizes = [own for own, _ in variants]
    document = {"machine": first.architecture.name, "objective": options.objective, "sizes": sizes}
    document["layers"] = [{"layer": name, **family_json(family)} for name, family in found]
    stop = found[-1][1].stop
    return cli.answer(arguments, document, lambda: families_report(first.architecture.name, sizes, found), stop=stop)


def _map_layer(inputs: Inputs, layer: Einsum, arguments: argparse.Namespace) -> int:
    options, kept = map_options(arguments), spec.open_cache(arguments)
    search = search_layer(inputs, layer, arguments, options, kept, layer.name)
    search = replace(search, ranked=tuple(each for equal in search.ties[: arguments.top] for each in equal))
    worth = []
    if arguments.why and not asked():
        from accelsim.results.worth import worth_rows

        def best_alone(machine: Architecture, what: str) -> SearchResult:
            alone = replace(options, top=1, within=None)
            return search_layer(replace(inputs, architecture=machine), layer, arguments, alone, kept, what)

        worth = worth_rows(inputs.architecture, options.objective, best_alone)
    answering()
    provenance = spec.make_provenance("map", inputs, arguments)

    @cache
    def sparse() -> SparseResult | None:
        from accelsim.model.sparsity import sparse_result

        return sparse_result(inputs.architecture, layer, search.best)

    @cache
    def best() -> BestWithZeros | None:
        if sparse() is None or search.stop == "interrupted":
            return None
        return search_with_zeros(inputs, arguments, layer, search)

    @cache
    def document() -> dict[str, Any]:
        from accelsim.inputs.machine_tables import machine_json

        return map_json(search, provenance, machine_json(inputs.architecture), zeros_json(sparse(), best()))

    def zeros() -> Iterator[Piece]:
        if sparse() is not None:
            yield from sparse_report(sparse())
            yield from best_report(best())

    def page() -> str:
        from accelsim.show import html

        return html.search_report(search, inputs.architecture, layer, list(zeros()))

    def report() -> Iterator[Piece]:
        from accelsim.show.report.search import ranked_report, search_report, worth_report

        other = _other_optimum(inputs, layer, search, arguments)
        yield from result_report(search.best, inputs.architecture, layer, search, other)
        yield from search_report(search)
        if search.stop != "interrupted":
            yield from _beside(inputs, layer, search)
        yield from ranked_report(search, arguments.top)
        yield from worth_report(search, worth)
        yield from zeros()

    def files() -> dict[str, bytes]:
        from accelsim.show.report.search import layer_files

        return layer_files(search.best, search, provenance, document())

    brief = headline(search.best, inputs.architecture, layer, search) if arguments.quiet else None
    shown = (lambda: {**document(), "worth": worth}) if arguments.why else document
    return cli.answer(arguments, shown, report, files=files, page=page, brief=brief, stop=search.stop)


_QUICK_SPACE, _QUICK_NODES = 3e14, 50_000
"""Mappings of a map space, and nodes of a search of it, above which the other objective is left out: up to these, its
search took at most 3.5 s on each machine that ships, and 0.2 s as a median."""


def _other_optimum(
    inputs: Inputs, layer: Einsum, search: SearchResult, arguments: argparse.Namespace
) -> SearchResult | None:
    """Even optimum of cycles beside one of energy, or of energy beside one of cycles, where the problem is small."""
    from accelsim.mapspace.space import MapSpace
    from accelsim.model.encode import encode

    other, proof = {"energy": "cycles", "cycles": "energy"}.get(search.objective), search.even or search.certificate
    if other is None or search.method != "exact" or proof is None or not proof.proved or proof.nodes > _QUICK_NODES:
        return None
    size = search.space_size
    if search.uneven:
        size = MapSpace(encode(inputs.architecture, layer), spec.read_layer_constraints(inputs, layer)).quick_size
    if size is None or size > _QUICK_SPACE:
        return None
    options = replace(map_options(arguments), objective=other, top=1, within=None, uneven=False)
    found = search_layer(inputs, layer, arguments, options, spec.open_cache(arguments), f"{layer.name}, {other}")
    return found if found.stop == "exhausted" else None


def _beside(inputs: Inputs, layer: Einsum, search: SearchResult) -> Iterator[str]:
    """How many valid even mappings there are, and how much [pJ] the worst may need (`accelsim spread` tells more)."""
    from accelsim.population.extremes import count_and_limit

    if search.certificate is None or search.imperfect or search.padded or search.stop in ("timeout", "interrupted"):
        return
    population = count_and_limit(inputs.architecture, layer, spec.read_layer_constraints(inputs, layer))
    if population is not None:
        mappings, most_pj = population
        worst = ""
        if most_pj and search.best.energy_pj > 0:
            worst = f"; none needs more than {times(most_pj / search.best.energy_pj)} the energy of this one"
        yield f"{large(mappings)} {EVEN} mappings are valid{worst}"


def _map_front(inputs: Inputs, arguments: argparse.Namespace) -> int:
    """Find the mappings of one layer that no other one beats."""
    from accelsim.inputs.machine_tables import machine_json
    from accelsim.show.report.search import front_files, front_report

    spec.note_dense(inputs.architecture)
    layer = spec.one_layer(inputs, arguments)
    front = search_front(inputs, layer, arguments, map_options(arguments), arguments.pareto)
    answering()
    provenance = spec.make_provenance("map", inputs, arguments)
    document = front_json(front, provenance, machine_json(inputs.architecture))

    def page() -> str:
        from accelsim.show import html

        return html.front_report(front, inputs.architecture, layer)

    files = partial(front_files, front, provenance, document)
    return cli.answer(arguments, document, lambda: front_report(front), files=files, page=page, stop=front.stop)


def _map_network(inputs: Inputs, arguments: argparse.Namespace) -> int:
    """Map layer after layer; one that has no valid mapping does not stop the others."""
    from accelsim.inputs.machine_tables import machine_json
    from accelsim.results.network import left_out_json, network_json
    from accelsim.show.report.network import network_report
    from accelsim.show.report.search import layer_files

    layers, yields = inputs.workload.layers, inputs.workload.yields
    spec.check_constraints(inputs)
    provenance = spec.make_provenance("map", inputs, arguments)
    machine, folders = machine_json(inputs.architecture), layer_folders(layers)
    outcomes: list[LayerOutcome] = []
    full: list[OSError] = []
    with suppress(KeyboardInterrupt):
        for outcome in map_layers(inputs, arguments, map_options(arguments)):
            outcomes.append(outcome)
            search = outcome.search
            if arguments.output and search is not None and not full:
                document = {**map_json(search, provenance, machine), **outcome.zeros}
                files = layer_files(search.best, search, provenance, document)
                try:
                    write_directory(Path(arguments.output) / folders[outcome.einsum.name], files)
                except OSError as error:
                    full.append(error)
    answering()
    interrupted = len(outcomes) < len(layers) or any(o.search and o.search.stop == "interrupted" for o in outcomes)
    names = inputs.workload.name, inputs.architecture.name
    requested = arguments.output or arguments.json
    document = network_json(names, outcomes, yields, provenance, machine) if requested else {}
    document |= left_out_json(inputs.left_out) if requested else {}

    def report() -> Iterator[Piece]:
        yield from network_report(names[0], inputs.architecture, outcomes, yields, inputs.left_out)
        if interrupted:
            yield f"Interrupted after {len(outcomes)} of {len(layers)} layers; the others are not in the total."

    def written() -> dict[str, bytes]:
        if full:
            raise full[0]
        return {"result.json": to_json(document).encode()}

    cli.answer(arguments, document, report, files=written)
    _say_why_not(outcomes)
    if interrupted:
        return cli.INTERRUPTED
    return cli.NO_VALID_MAPPING if any(outcome.search is None for outcome in outcomes) else cli.DONE


def _say_why_not(outcomes: Iterable[LayerOutcome]) -> None:
    """Say why layers are not mapped; of those with one reason the first in full, the others by name."""
    groups: dict[str, list[LayerOutcome]] = {}
    for outcome in outcomes:
        if outcome.search is None:
            groups.setdefault(outcome.why_not.partition("\n")[2] or outcome.why_not, []).append(outcome)
    for first, *others in groups.values():
        cli.complain(f"{first.einsum.name}: {first.why_not}")
        if others:
            cli.complain(f"nor, for the same reason: {listed((each.einsum.name for each in others), spec.NAMED)}")


def map_layers(inputs: Inputs, arguments: argparse.Namespace, options: MapOptions) -> Iterator[LayerOutcome]:
    """Map each layer of a network, equal ones once; ends early where the user interrupts it."""
    from accelsim.results import network

    machine, layers, kept = inputs.architecture, inputs.workload.layers, spec.open_cache(arguments)

    def search(einsum: Einsum, number: int) -> SearchResult:
        return search_layer(inputs, einsum, arguments, options, kept, f"{einsum.name} ({number}/{len(layers)})")

    best = partial(search_with_zeros, inputs, arguments)
    return network.map_layers(machine, layers, options, partial(spec.read_layer_constraints, inputs), search, best)


@contextmanager
def _searching(
    inputs: Inputs, einsum: Einsum, arguments: argparse.Namespace, what: str, objective: str = ""
) -> Iterator[dict[str, Any]]:
    """What each search of a layer is asked besides its options, with progress where a terminal shows it."""
    constraints = spec.read_layer_constraints(inputs, einsum)
    console = cli.make_console(stderr=True, quiet=arguments.quiet)
    with search_progress(console, what, objective) as on_progress:
        yield {"constraints": constraints, "workers": arguments.workers, "on_progress": on_progress}


def search_with_zeros(
    inputs: Inputs, arguments: argparse.Namespace, einsum: Einsum, search: SearchResult
) -> BestWithZeros | None:
    """Search for the best mapping of a layer with zeros left out, with progress where a terminal shows it."""
    from accelsim.search.zeros import best_with_zeros

    with _searching(inputs, einsum, arguments, f"{einsum.name} with zeros", search.objective) as requested:
        return best_with_zeros(inputs.architecture, einsum, search, **requested)


def map_every_layer(inputs: Inputs, arguments: argparse.Namespace, options: MapOptions) -> list[tuple[Einsum, Result]]:
    """Map each layer of a network; one without a valid mapping, or an interrupt, is the end."""
    outcomes, found = list(map_layers(inputs, arguments, options)), []
    for outcome in outcomes:
        if outcome.search is None:
            raise NoValidMapping(f"{outcome.einsum.name}: {outcome.why_not}")
        found.append((outcome.einsum, outcome.search.best))
    if len(outcomes) < len(inputs.workload.layers) or asked():
        raise KeyboardInterrupt
    return found


def search_front(
    inputs: Inputs,
    einsum: Einsum,
    arguments: argparse.Namespace,
    options: MapOptions,
    columns: tuple[str, ...] = ("energy", "cycles"),
) -> FrontResult:
    """Search the Pareto front of one layer, with progress where a terminal shows it."""
    from accelsim.search.exact.front import map_front

    with _searching(inputs, einsum, arguments, einsum.name) as requested:
        return map_front(
            inputs.architecture, einsum, columns, uneven=bool(options.uneven), imperfect=options.imperfect,
            pad=options.pad, budget=_budget(arguments), **requested,
        )  # fmt: skip


def search_layer(
    inputs: Inputs,
    einsum: Einsum,
    arguments: argparse.Namespace,
    options: MapOptions,
    cache: ResultCache | None,
    what: str,
) -> SearchResult:
    """Search the map space of one layer or take the answer kept, with progress where a terminal shows it."""
    with _searching(inputs, einsum, arguments, what, options.objective) as requested:
        return map_with_cache(inputs.architecture, einsum, options, cache, budget=_budget(arguments), **requested)


def map_options(arguments: argparse.Namespace) -> MapOptions:
    """Options of `map` that change its answer."""
    return MapOptions(
        objective="energy" if arguments.objective is None else arguments.objective,
        method=arguments.search,
        top=max(arguments.top, MOST_TIES) if arguments.top else 1,  # for so many different values
        within=arguments.within,
        uneven=True if arguments.uneven else False if arguments.even or arguments.why else None,
        imperfect=arguments.imperfect or (),
        pad=arguments.pad or (),
        seed=arguments.seed or 0,
    )


def _budget(arguments: argparse.Namespace) -> Budget | None:
    """What a search of `map` may spend, or of `plot`; for other commands `--seconds` says something else."""
    limits = Budget()
    if arguments.command == "map_command":
        limits = Budget(arguments.mappings, arguments.seconds, arguments.memory)
    elif arguments.command == "plot_command":
        limits = Budget(seconds=arguments.seconds)
    return None if limits == Budget() else limits


def layer_folders(layers: Sequence[Einsum]) -> dict[str, str]:
    """Folder of each layer: its name as that of a file, and no two alike."""
    found: dict[str, str] = {}
    for layer in layers:
        folder = file_name(layer.name)
        while folder.casefold() in {other.casefold() for other in found.values()} | {"result.json"}:
            folder += "_"
        found[layer.name] = folder
    return found


def fuse_command(arguments: argparse.Namespace) -> int:
    """Find the chains of layers to fuse, and print them with their gain."""
    from accelsim.fusion import fuse
    from accelsim.fusion.result import fusion_json
    from accelsim.inputs.machine_tables import energy_rows
    from accelsim.show.report.network import brief, fusion_report

    inputs = spec.read_inputs(argparse.Namespace(**vars(arguments), layer=None))
    spec.note_dense(inputs.architecture)
    spec.check_constraints(inputs)
    if not arguments.quiet:
        spec.print_notes(inputs.workload.notes)
    with cli.show_status("reading", quiet=arguments.quiet) as on_progress:
        found = fuse(
            inputs.architecture,
            inputs.workload,
            constraints={each.name: spec.read_layer_constraints(inputs, each) for each in inputs.workload.layers},
            objective="energy" if arguments.objective is None else arguments.objective,
            chain=spec.split(arguments.chain) if arguments.chain else (),
            cache=spec.open_cache(arguments),
            on_progress=on_progress,
            **cli.taken(arguments, "longest", "seconds", "workers"),
        )
    answering()
    provenance = replace(spec.make_provenance("fuse", inputs, arguments), seconds=arguments.seconds)
    document = fusion_json(found, provenance, energy_rows(inputs.architecture))

    def files() -> Mapping[str, bytes]:
        from accelsim.show.plots import figure_files
        from accelsim.show.plots.result import plot_fusion

        return {"fusion.json": to_json(document).encode(), **figure_files("fusion", plot_fusion(found))}

    report = brief if arguments.quiet else fusion_report
    return cli.answer(arguments, document, lambda: report(found), files=files, stop=found.stop)
