"""Commands on many mappings or designs: `spread`, `sizing`, `sweep`; and `plot`, one picture."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim import cli
from accelsim.api.mapping import evaluate_problem, map_problem, pareto_of, sizing_of, spread_of
from accelsim.api.networks import mapped_layers
from accelsim.api.sweeps import load_sweep_result, run_sweep
from accelsim.cli import inputs as spec
from accelsim.cli.mapping import asked_of
from accelsim.inputs import library
from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.library import file_name
from accelsim.results import refuse_directory, refuse_file, refuse_page, to_json, write_directory
from accelsim.search.stopping import answering
from accelsim.search.stopping import asked as signalled
from accelsim.show.report.search import spreads_report
from accelsim.show.report.verdicts import verdict

if TYPE_CHECKING:
    from accelsim.api.asked import Asked
    from accelsim.api.layers import SpreadResult
    from accelsim.api.problem import MappingProblem
    from accelsim.api.sweeps import SweepResult


def spread_command(arguments: argparse.Namespace) -> int:
    """Count the mappings of each layer on each architecture."""
    _need_plot(arguments, "hist")
    problems = spec.read_machines(arguments)
    for problem in problems:
        problem.check_constraints()
    layers = [(problem, layer) for problem in problems for layer in spec.named_layers(arguments, problem)]
    if arguments.html or arguments.plot:
        refuse_page(arguments.html or "spread.html", one=len(layers) == 1)
    found: list[SpreadResult] = []
    missing = []
    with cli.progress(arguments) as tell:
        for problem, einsum in layers:
            try:
                found.append(
                    spread_of(problem, einsum, arguments.samples, asked_of(arguments, tell), whole=not layers[1:])
                )
            except NoValidMappingError as error:
                missing.append(f"{einsum.name} on {problem.architecture.name}: {error}")
                continue
            if found[-1].stopped_by == "interrupted":
                break
    answering()
    if not found:
        raise NoValidMappingError("\n".join(missing))
    stop = found[-1].stopped_by
    if len(found) == 1:
        code = cli.show(arguments, found[0], kind=arguments.kind, stop=stop)
    else:
        document = {"spreads": [each.to_dict() for each in found]}
        files = {"spread.json": to_json(document).encode()}
        spreads = [each.spread for each in found]
        code = cli.answer(arguments, document, lambda: spreads_report(spreads), files=lambda: files, stop=stop)
    for line in missing:
        cli.complain(line)
    return cli.NO_VALID_MAPPING if missing and code == cli.DONE else code


def _need_plot(arguments: argparse.Namespace, usual: str) -> None:
    if arguments.kind != usual and not arguments.plot:
        arguments.parser.error(f"argument --kind: name a file to draw, such as --plot {arguments.kind}.png")


def sizing_command(arguments: argparse.Namespace) -> int:
    """Show the least that a layer costs for each size of a buffer."""
    problem = spec.read(arguments)
    with cli.progress(arguments) as tell:
        found = sizing_of(problem, arguments.level, asked_of(arguments, tell))
    return cli.show(arguments, found, stop=found.stopped_by)


def sweep_command(arguments: argparse.Namespace) -> int:
    """Run or resume a sweep, and show its designs; of a folder show what is there."""
    _need_plot(arguments, "front")
    if arguments.html:
        refuse_page(arguments.html, "sweep.html")
    if arguments.plot:
        refuse_file(arguments.plot, "front.png")
    if Path(arguments.sweep).is_dir():
        for name in ("output", "jobs", "scheduler", "within"):
            if getattr(arguments, name) is not None:
                what = f"{arguments.sweep} is a folder of results, and nothing is run"
                arguments.parser.error(f"argument --{name}: {what}")
        found = load_sweep_result(arguments.sweep)
    else:
        found = _run(arguments)
    found = found.where(arguments.where, front=arguments.front)
    found.verbose = arguments.all
    stop = "" if found.explored is None else found.explored.stop
    brief = found.brief() if arguments.quiet else None
    code = cli.answer(
        arguments, found.to_dict, found.parts, figure=lambda: found.plot(arguments.kind), page=found.page, brief=brief,
        stop=stop,
    )  # fmt: skip
    return code if code or any(row["status"] == "mapped" for row in found.designs) else cli.NO_VALID_MAPPING


def _run(arguments: argparse.Namespace) -> SweepResult:
    from accelsim.designs.sweep import load_sweep
    from accelsim.designs.tables import where
    from accelsim.show.report.progress import sweep_progress

    if library.find(arguments.sweep, "sweeps") is None:
        library.resolve(arguments.sweep, "sweeps")
    sweep = load_sweep(arguments.sweep, joint=arguments.joint, within=arguments.within)
    if arguments.where:
        where([], arguments.where, {each.name: each.values for each in sweep.parameters})
    folder = Path(arguments.output or f"{file_name(sweep.name)}_results")
    console = cli.make_console(stderr=True, quiet=arguments.quiet)
    for network in sweep.networks:
        spec.say_left_out(network.name, network.left_out, "all_layers: true")
    mode = "none" if arguments.quiet else arguments.progress
    with sweep_progress(console, sweep, mode) as on_progress:
        return run_sweep(
            sweep, folder, jobs=arguments.jobs, scheduler=arguments.scheduler, on_progress=on_progress,
            on_cluster=lambda link: console.print(f"Dask dashboard: {link}", soft_wrap=True), on_trouble=cli.complain,
        )  # fmt: skip


_FORMATS = (".png", ".svg")
_FUNCTIONS = {"hist": "histogram", "cdf": "within", "layers": "stacks", "spreads": "compare", "cycles": "time"}
"""Names of the functions that draw, where they are not that of the kind."""


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
    if arguments.mapping and kind not in ("energy", "reuse", "mapping", "cycles"):
        raise AccelsimError(
            "--mapping is for `accelsim plot energy`, `reuse`, `mapping` and `cycles`; the others draw many"
        )
    if arguments.mapping and arguments.constraints:
        raise AccelsimError("--mapping and --constraints: a given mapping is drawn as it is; leave one of them out")
    is_file = bool(path.suffix) and not path.is_dir()
    if is_file and path.suffix.lower() not in _FORMATS:
        raise AccelsimError(f"{path}: a picture is a .png or a .svg file; or give a folder for both")
    folder = path.parent if is_file else path
    refuse_directory(folder)
    name, of, drawn = _picture(arguments)
    if signalled():  # what an interrupted search found is no picture of the best
        raise KeyboardInterrupt
    from accelsim.show.plots import at_width, diagram, figure_bytes, result, search, spread

    of_name = _FUNCTIONS.get(kind, kind)
    module: Any = next(each for each in (spread, diagram, result, search) if hasattr(each, f"plot_{of_name}"))
    table, plot = getattr(module, f"{of_name}_table"), getattr(module, f"plot_{of_name}")
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
    """What is asked for: an architecture, a network, several map spaces, or mappings of one layer."""
    kind = arguments.kind
    if kind == "architecture":
        machine, _, _ = spec.read_machine_alone(arguments)
        return file_name(kind, machine.name), (machine,), ()
    with cli.progress(arguments) as tell:
        asked = asked_of(arguments, tell)
        if kind == "spreads":
            return _several_spreads(arguments, asked)
        problem = spec.read(arguments, counted=kind == "network")
        if kind == "network":
            spec.say_left_out(problem.workload.name, problem.left_out)
            net = mapped_layers(problem, asked)
            results = [(net[name].layer.repeat, net[name].result) for name in net]
            names = problem.workload.name, problem.architecture.name
            return file_name(kind, names[1], names[0]), (results,), (*names, results)
        return _of_layer(arguments, problem, asked)


def _spread_limit(asked: Asked) -> Asked:
    """What is asked of a search of all mappings, which has ten seconds where no time is given."""
    return asked if asked.time_limit is not None else replace(asked, time_limit=10.0)


def _of_layer(arguments: argparse.Namespace, problem: MappingProblem, asked: Asked) -> Picture:
    """Mappings of one layer on one architecture: one, those of a search, a front, or all valid ones."""
    kind, layer, machine = arguments.kind, problem.one_layer, problem.architecture
    over = [arguments.over or "cycles"] if kind == "density" else []
    name = file_name(kind, *over, machine.name, layer.name)
    if kind in ("hist", "density", "cdf", "layers"):
        from accelsim.show.plots.spread import best_median_worst

        found = spread_of(problem, layer, arguments.samples, _spread_limit(asked)).spread
        return name, (best_median_worst(found),) if kind == "layers" else (found, *over), ()
    if kind == "front":
        return name, (pareto_of(problem, cli.METRICS, asked).front,), ()
    if "mapping" in problem.paths:
        mapped = evaluate_problem(problem).result
        if not mapped.valid:
            raise NoValidMappingError(
                f"{problem.paths['mapping']}: not valid: {'; '.join(map(str, mapped.violations))}"
            )
    else:
        ended = map_problem(problem, replace(asked, objective="cycles" if kind == "cycles" else "energy"))
        mapped = ended.result
        if ended.certificate is not None and not ended.certificate.proved:
            cli.complain(f"{layer.name}: the mapping drawn is {verdict(ended.search)}")
    return name, (mapped, layer) if kind == "reuse" else (mapped,), (mapped, machine) if kind == "mapping" else ()


def _several_spreads(arguments: argparse.Namespace, asked: Asked) -> Picture:
    """All valid mappings of several layers, on several architectures."""
    spreads = []
    problems = spec.read_machines(arguments)
    for problem in problems:
        for layer in spec.named_layers(arguments, problem):
            try:
                spreads.append(spread_of(problem, layer, arguments.samples, _spread_limit(asked), whole=False).spread)
            except NoValidMappingError as error:
                raise NoValidMappingError(f"{layer.name} on {problem.architecture.name}: {error}") from None
    of_each = {
        "architectures": [each.architecture.name for each in problems],
        "layers": [each.workload for each in spreads],
    }
    different = {what: list(dict.fromkeys(names)) for what, names in of_each.items()}
    names = (names[0] if len(names) == 1 else f"{len(names)}_{what}" for what, names in different.items())
    return file_name(arguments.kind, *names), (spreads,), ()
