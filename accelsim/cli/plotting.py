"""Commands on many mappings or designs: `spread`, `bound` over sizes, `explore`; and `plot`, one picture."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim import cli
from accelsim.cli import inputs as spec
from accelsim.cli.inputs import Inputs
from accelsim.cli.mapping import map_every_layer, search_front, search_layer
from accelsim.inputs import library
from accelsim.inputs.errors import AccelsimError, NoValidMapping
from accelsim.inputs.library import file_name
from accelsim.inputs.workload import Einsum
from accelsim.model.evaluate import evaluate
from accelsim.population.result import Census, census_json
from accelsim.results import refuse_directory, refuse_file, refuse_page, to_json, write_directory, write_page
from accelsim.results.cache import MapOptions
from accelsim.results.worth import bound_rows, with_room
from accelsim.search.stopping import Budget, answering, asked
from accelsim.show.report import short_verdict
from accelsim.show.report.search import bound_report, census_report, censuses_report
from accelsim.show.report.tables import designs_report, sweep_lines, sweep_progress
from accelsim.show.table import Piece

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from accelsim.designs.store import Explored


def spread_command(arguments: argparse.Namespace) -> int:
    """Take the census of each layer on each machine."""
    machines = spec.read_machines(arguments)
    for inputs in machines:
        spec.check_constraints(inputs)
    layers = [(inputs, layer) for inputs in machines for layer in spec.named_layers(arguments, inputs)]
    if arguments.html:
        refuse_page(arguments.html, one=len(layers) == 1)
    found: list[Census] = []
    documents, missing = [], []
    for inputs, einsum in layers:
        try:
            found.append(take_census(arguments, inputs, einsum))
        except NoValidMapping as error:
            missing.append(f"{einsum.name} on {inputs.architecture.name}: {error}")
            continue
        documents.append(census_json(found[-1], spec.make_provenance("spread", inputs, arguments)))
        if found[-1].stop == "interrupted":
            break
    answering()
    if not found:
        raise NoValidMapping("\n".join(missing))
    document = documents[0] if len(documents) == 1 else {"censuses": documents}

    def page() -> str:
        from accelsim.show import html

        return html.census_report(found[0], layers[0][0].architecture, layers[0][1])

    code = cli.answer(
        arguments,
        document,
        lambda: census_report(found[0]) if len(found) == 1 else censuses_report(found),
        files=lambda: {"census.json": to_json(document).encode()},
        page=page,
        stop=found[-1].stop,
    )
    for line in missing:
        cli.complain(line)
    return cli.NO_VALID_MAPPING if missing and code == cli.DONE else code


def take_census(arguments: argparse.Namespace, inputs: Inputs, einsum: Einsum) -> Census:
    """Take the census of a layer as the arguments ask for it, and show on a terminal how far it is."""
    from accelsim.population.census import census

    what = f"{einsum.name} on {inputs.architecture.name}"
    with cli.show_status(what, f"{what}: ", quiet=arguments.quiet) as on_progress:
        requested = cli.taken(arguments, "samples", "seed", "workers")
        requested |= cli.taken(arguments, "seconds") if arguments.seconds else {}
        requested |= {"constraints": spec.read_layer_constraints(inputs, einsum), "cache": spec.open_cache(arguments)}
        return census(inputs.architecture, einsum, on_progress=on_progress, **requested)


def bound_command(arguments: argparse.Namespace) -> int:
    """Show the least that a layer costs for each size of a buffer."""
    from accelsim.search.exact.front import map_front

    inputs = spec.read_inputs(arguments)
    layer, machine = spec.one_layer(inputs, arguments), inputs.architecture
    sized = [level.name for level in machine.levels[1:] if level.size_words is not None]
    level = arguments.level or next(iter(sized), "")
    roomy = with_room(machine, level, layer)
    with cli.show_status(layer.name, f"{layer.name}: ", quiet=arguments.quiet) as on_progress:
        requested = cli.taken(arguments, "uneven", "workers")
        requested |= {"constraints": spec.read_layer_constraints(inputs, layer), "on_progress": on_progress}
        requested |= {"budget": Budget(seconds=arguments.seconds) if arguments.seconds else None}
        front = map_front(roomy, layer, (arguments.objective, f"capacity:{level}"), **requested)
    answering()
    rows, proved = bound_rows(front, roomy, layer), front.stop == "exhausted"
    names = {"layer": layer.name, "architecture": machine.name, "level": level, "objective": arguments.objective}
    present = next(each for each in machine.levels if each.name == level)
    names |= {
        "proved": proved,
        "uneven": front.uneven,
        "present_bytes": (present.size_words or 0) * present.word_bits // 8,
    }

    def figure() -> Axes:
        from accelsim.show.plots.search import plot_bound

        return plot_bound(names, rows)

    document = {**names, "sizes": rows}
    return cli.answer(arguments, document, lambda: bound_report(names, rows), figure=figure, stop=front.stop)


def explore_command(arguments: argparse.Namespace) -> int:
    """Run or resume a sweep, and show its designs; of a folder show what is there."""
    from accelsim.designs.tables import read_tables, where

    if arguments.picture and not arguments.plot:
        arguments.parser.error("argument --picture: say what to draw, such as --plot front")
    if arguments.html:
        refuse_page(arguments.html, "sweep.html")
    if arguments.plot:
        refuse_file(_sweep_picture(arguments, ""), "front.png")
    path = Path(arguments.sweep)
    explored = None
    if path.is_dir():
        for name in ("output", "workers", "scheduler", "within"):
            if getattr(arguments, name) is not None:
                what = f"{arguments.sweep} is a folder of results, and nothing is run"
                arguments.parser.error(f"argument --{name}: {what}")
        folder = path
    else:
        explored = _run(arguments)
        folder = explored.store.folder
    about, rows, later = read_tables(folder)
    if later:
        cli.complain(later)
    shown = where(rows, arguments.where, about["parameters"]) if arguments.where else rows
    shown = [row for row in shown if row["front"]] if arguments.front else shown

    def report() -> Iterator[Piece]:
        yield from sweep_lines(about, rows, explored)
        yield from designs_report(about, shown, chosen=bool(arguments.where or arguments.front))

    written = [str(folder)] if explored is not None else []
    if arguments.html:
        from accelsim.show.html import sweep_report

        written.append(str(write_page(arguments.html, sweep_report(shown, about))))
    if arguments.plot:
        from accelsim.show.plots.search import PLOTTED

        written.append(str(_sweep_picture(arguments, about["name"])))
        cli.write_figure(written[-1], PLOTTED[arguments.plot](shown, about))
    brief = sweep_lines(about, rows, explored) if arguments.quiet else None
    stop = "" if explored is None else explored.stop
    code = cli.answer(arguments, {**about, "designs": shown}, report, *written, brief=brief, stop=stop)
    return code if code or any(row["status"] == "mapped" for row in rows) else cli.NO_VALID_MAPPING


def _run(arguments: argparse.Namespace) -> Explored:
    from accelsim.designs.run import explore
    from accelsim.designs.sweep import load_sweep
    from accelsim.designs.tables import where

    if library.find(arguments.sweep, "sweeps") is None:
        library.resolve(arguments.sweep, "sweeps")
    sweep = load_sweep(arguments.sweep, joint=arguments.joint, within=arguments.within)
    if arguments.where:
        where([], arguments.where, {each.name: each.values for each in sweep.parameters})
    folder = Path(arguments.output or f"{file_name(sweep.name)}_results")
    refuse_directory(folder)
    console = cli.make_console(stderr=True, quiet=arguments.quiet)
    for network in sweep.networks if not arguments.quiet else ():
        spec.print_left_out(network.name, network.left_out, "all_layers: true")
    with sweep_progress(console, sweep) as on_progress:
        return explore(
            sweep,
            folder,
            workers=arguments.workers,
            scheduler=arguments.scheduler,
            on_progress=on_progress,
            on_cluster=lambda link: console.print(f"Dask dashboard: {link}", soft_wrap=True),
            on_trouble=cli.complain,
        )


def _sweep_picture(arguments: argparse.Namespace, name: str) -> Path:
    return Path(arguments.picture or f"{file_name(arguments.plot, name)}.png")


_FORMATS = (".png", ".svg")


Picture = tuple[str, tuple[Any, ...], tuple[Any, ...]]
"""What is drawn: a name for its file, what its rows are made of, and what the drawing is, where it takes more."""


def plot_command(arguments: argparse.Namespace) -> int:
    """Draw one picture and write it: as the file that is asked for, in both formats into a folder, else as a PNG here.

    A kind is drawn by the function `plot_KIND` of `accelsim.show.plots`; its rows are made by `KIND_table` beside it.
    """
    kind, path = arguments.kind, Path(arguments.output or ".")
    if arguments.workload is None and kind != "architecture":
        raise AccelsimError(f"`accelsim plot {kind}` needs a WORKLOAD beside ARCH")
    if arguments.over and kind != "density":
        raise AccelsimError("--over is for `accelsim plot density`")
    if arguments.all_layers and kind != "network":
        raise AccelsimError("--all-layers is for `accelsim plot network`")
    if arguments.mapping and kind not in ("energy", "reuse", "mapping", "time"):
        raise AccelsimError(
            "--mapping is for `accelsim plot energy`, `reuse`, `mapping` and `time`; the others draw many"
        )
    if arguments.mapping and arguments.constraints:
        raise AccelsimError("--mapping and --constraints: a given mapping is drawn as it is; leave one of them out")
    is_file = bool(path.suffix) and not path.is_dir()
    if is_file and path.suffix.lower() not in _FORMATS:
        raise AccelsimError(f"{path}: a picture is a .png or a .svg file; or give a folder for both")
    folder = path.parent if is_file else path
    refuse_directory(folder)
    name, of, drawn = _picture(arguments)
    if asked():  # what an interrupted search found is no picture of the best
        raise KeyboardInterrupt
    from accelsim.show.plots import at_width, census, diagram, figure_bytes, result, search

    module: Any = next(each for each in (census, diagram, result, search) if hasattr(each, f"plot_{kind}"))
    table, plot = getattr(module, f"{kind}_table"), getattr(module, f"plot_{kind}")
    written: list[Path] = []
    if arguments.output or not arguments.json:
        content = figure_bytes(at_width(lambda ax: plot(*(drawn or of), ax=ax), arguments.width))
        named = {f"{name}{ending}": content[ending[1:]] for ending in _FORMATS[: 2 if arguments.output else 1]}
        written = write_directory(folder, {path.name: content[path.suffix.lower()[1:]]} if is_file else named)
    if arguments.json:
        cli.print_json({"kind": kind, "files": [str(path) for path in written], "rows": table(*of)})
    else:
        sys.stdout.write("".join(f"Written to {path}\n" for path in written))
    return cli.DONE


def _picture(arguments: argparse.Namespace) -> Picture:
    """What is asked for: a machine, a network, several map spaces, or mappings of one layer on one machine."""
    kind = arguments.kind
    if kind == "compare":
        return _several_censuses(arguments)
    if kind == "architecture":
        machine, _, _ = spec.read_machine_alone(arguments)
        return file_name(kind, machine.name), (machine,), ()
    inputs = spec.read_network(arguments) if kind == "network" else spec.read_inputs(arguments)
    if kind == "network":
        if not arguments.quiet:
            spec.print_left_out(inputs.workload.name, inputs.left_out)
        options = MapOptions(uneven=None)
        results = [(einsum.repeat, best) for einsum, best in map_every_layer(inputs, arguments, options)]
        names = inputs.workload.name, inputs.architecture.name
        return file_name(kind, names[1], names[0]), (results,), (*names, results)
    return _of_layer(arguments, inputs)


def _of_layer(arguments: argparse.Namespace, inputs: Inputs) -> Picture:
    """Mappings of one layer on one machine: one, those of a search, a front, or all valid ones."""
    kind, layer, machine = arguments.kind, spec.one_layer(inputs, arguments), inputs.architecture
    over = [arguments.over or "cycles"] if kind == "density" else []
    name = file_name(kind, *over, machine.name, layer.name)
    if kind in ("histogram", "density", "within", "stacks"):
        from accelsim.show.plots.census import best_median_worst

        found = take_census(arguments, inputs, layer)
        return name, (best_median_worst(found),) if kind == "stacks" else (found, *over), ()
    if kind == "front":
        return name, (search_front(inputs, layer, arguments, MapOptions()),), ()
    if "mapping" in inputs.paths:
        mapped = evaluate(machine, layer, spec.read_mapping_of(inputs, layer))
        if not mapped.valid:
            raise NoValidMapping(f"{inputs.paths['mapping']}: not valid: {'; '.join(map(str, mapped.violations))}")
    else:
        options = MapOptions("cycles" if kind == "time" else "energy", uneven=None)
        ended = search_layer(inputs, layer, arguments, options, spec.open_cache(arguments), layer.name)
        mapped = ended.best
        if ended.certificate is not None and not ended.certificate.proved:
            cli.complain(f"{layer.name}: the mapping drawn is {short_verdict(ended.certificate)}")
    return name, (mapped, layer) if kind == "reuse" else (mapped,), (mapped, machine) if kind == "mapping" else ()


def _several_censuses(arguments: argparse.Namespace) -> Picture:
    """All valid mappings of several layers, on several machines."""
    censuses = []
    machines = spec.read_machines(arguments)
    for inputs in machines:
        for layer in spec.named_layers(arguments, inputs):
            try:
                censuses.append(take_census(arguments, inputs, layer))
            except NoValidMapping as error:
                raise NoValidMapping(f"{layer.name} on {inputs.architecture.name}: {error}") from None
    of_each = {
        "machines": [each.architecture.name for each in machines],
        "layers": [each.workload for each in censuses],
    }
    different = {what: list(dict.fromkeys(names)) for what, names in of_each.items()}
    names = (names[0] if len(names) == 1 else f"{len(names)}_{what}" for what, names in different.items())
    return file_name(arguments.kind, *names), (censuses,), ()
