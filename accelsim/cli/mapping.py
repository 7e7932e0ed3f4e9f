"""The commands that search: `map`, of a layer, each layer of a network, or a Pareto front; and `fuse`."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from accelsim import cli
from accelsim.api.asked import Asked
from accelsim.api.problem import NAMED, is_gpu, is_system
from accelsim.cli import inputs as spec
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.units import listed
from accelsim.results import refuse_file, refuse_page
from accelsim.search.stopping import OnProgress, answering
from accelsim.search.stopping import asked as signalled

if TYPE_CHECKING:
    from accelsim.api.network_results import NetworkResult


def map_command(arguments: argparse.Namespace) -> int:
    """Map one layer, or each layer of a network; several architectures, values, constraints or objectives as rows."""
    several = bool((variants := _variants(arguments))[1:])
    if arguments.fuse:
        names = ("layer", "pareto", "sensitivity", "layout", "sample", "require", "memory_limit")
        refused = [f"--{name.replace('_', '-')}" for name in names if getattr(arguments, name)]
        if several or refused or arguments.top != 1:
            what = (refused or ["several values" if several else "--top"])[0]
            arguments.parser.error(f"argument --fuse: not with {what}")
        return fuse_command(arguments)
    if several:
        return _map_several(variants, arguments)
    if arguments.plot:
        arguments.parser.error("argument --plot: draws several values, such as --set glb=64KiB,128KiB, or --fuse")
    if is_gpu(arguments.arch) and not arguments.more:
        from accelsim.cli.gpus import map_on_gpu

        return map_on_gpu(arguments)
    if is_system(arguments.arch, (arguments.workload, *arguments.more), spec.read_params(arguments)):
        return _map_system(arguments)
    problem = spec.read(arguments, counted=True)
    problem.say_notes()
    one = problem.layer is not None
    if arguments.html:
        refuse_page(arguments.html, one=one)
    if arguments.sensitivity and (arguments.pareto or not one):
        raise AccelsimError("--sensitivity: of one layer and one objective; choose a layer with --layer")
    if arguments.layout and not one:
        raise AccelsimError("--layout: of one layer; choose it with --layer")
    with cli.progress(arguments) as tell:
        asked = asked_of(arguments, tell)
        if not one and not arguments.pareto:
            from accelsim.api.networks import network_of

            return _show_network(arguments, network_of(problem, asked, arguments.output))
        from accelsim.api.mapping import layout_of, map_problem, pareto_of, sensitivity_of

        if arguments.pareto:
            front = pareto_of(problem, arguments.pareto, asked)
            return cli.show(arguments, front, stop=front.front.stop)
        if arguments.sensitivity:
            worth = sensitivity_of(problem, asked)
            return cli.show(arguments, worth, stop=worth.base.stopped_by)
        if arguments.layout:
            laid = layout_of(problem, arguments.layout, asked)
            return cli.show(arguments, laid, stop=laid.base.stopped_by)
        found = map_problem(problem, asked)
        return cli.show(arguments, found, stop=found.stopped_by)


def asked_of(arguments: argparse.Namespace, tell: OnProgress | None = None) -> Asked:
    """What the arguments ask of a search."""
    names = ("objective", "mapspace", "factors", "top", "sample", "seed", "time_limit", "jobs")
    given = {name: value for name in names if (value := getattr(arguments, name, None)) is not None}
    memory = getattr(arguments, "memory_limit", None)
    return Asked(**given, memory_limit=memory, cache=not getattr(arguments, "no_cache", False), on_progress=tell)


def _map_system(arguments: argparse.Namespace) -> int:
    """Map the layers of a network on the cores of a system, and assign them."""
    from accelsim.api.networks import map_system

    why = "not for a system of cores, whose layers are mapped whole and assigned"
    names = ("constraints", "require", "top", "pareto", "sample", "html", "all_layers", "layout")
    cli.refuse(arguments, why, *names)
    given = cli.taken(arguments, "objective", "layer", "mapspace", "factors", "time_limit", "jobs")
    with cli.progress(arguments) as tell:
        found = map_system(
            arguments.arch, arguments.workload, params=spec.read_params(arguments), cache=not arguments.no_cache,
            on_progress=tell, more=arguments.more,
            **{name: value for name, value in given.items() if value is not None},
        )  # fmt: skip
    return cli.show(arguments, found)


_BETWEEN = re.compile(r",(?![^\[{(]*[\]})])")
"""Commas between values, but for those inside brackets."""
Variant = tuple[dict[str, Any], argparse.Namespace]
"""What one of several runs has of its own, by what differs between them, and its arguments."""


def _variants(arguments: argparse.Namespace) -> list[Variant]:
    """Every combination of architectures, values of parameters, sizes, constraints and objectives between commas."""
    texts = {name: getattr(arguments, name) for name in ("arch", "constraints", "objective")}
    several: dict[str, list[Any]] = {
        name: spec.split(text) for name, text in texts.items() if text and "," in text and not os.path.exists(text)
    }
    several |= {name: list(size) for name in spec.SIZES if isinstance(size := getattr(arguments, name), tuple)}
    values = {name: [each.strip() for each in _BETWEEN.split(text)] for name, text in arguments.params}
    swept = {name: texts for name, texts in values.items() if len(texts) > 1}
    found = []
    for choice in product(*several.values(), *swept.values()):
        own = dict(zip([*several, *swept], choice, strict=True))
        params = [(name, own.get(name, text) if name in swept else text) for name, text in arguments.params]
        found.append((own, argparse.Namespace(**{**vars(arguments), **{n: own[n] for n in several}, "params": params})))
    return found


def _map_several(variants: Sequence[Variant], arguments: argparse.Namespace) -> int:
    """Map the same layer or network several times, and show a row for each."""
    from accelsim.api.networks import network_of
    from accelsim.results.network import left_out_json, run_row
    from accelsim.search.result import SearchedSpace
    from accelsim.show.report.search import runs_report
    from accelsim.show.report.verdicts import common_space

    why = "not for several architectures, values, constraints or objectives at once"
    cli.refuse(arguments, why, "output", "html", "pareto", "top", "sensitivity", "layout")
    if any(is_gpu(each.arch) or is_system(each.arch) for _, each in variants):
        raise AccelsimError(f"{arguments.arch}: GPUs and systems are mapped one at a time")
    every = [(own, spec.read(each, counted=True), each) for own, each in variants]
    for _, problem, _ in every:
        problem.check_constraints()
    rows: list[dict[str, Any]] = []
    spaces, objective = list[SearchedSpace](), asked_of(variants[0][1]).objective
    with cli.progress(arguments) as tell:
        for own, problem, each in every:
            asked = asked_of(each, tell)
            whole = replace(problem, workload=replace(problem.workload, layers=problem.layers))
            net = network_of(whole, asked)
            if len(net.outcomes) < len(problem.layers) or signalled():
                break
            spaces += [net.certificate.space] if len(net) else []
            rows.append({**own, **run_row(net.outcomes, asked.objective)})
            if len(net) == len(net.outcomes) == 1 and "objective" not in own:
                other = net[next(iter(net))].other
                costs = None if other is None else other.best
                rows[-1] |= {f"other_{name}": getattr(costs, name, None) for name in ("energy_pj", "cycles")}
    answering()
    first, varied = every[0][1], list(variants[0][0])
    what = (first.layer or first.workload).name
    objective = objective if "objective" not in varied else ""
    written = []
    if arguments.plot and rows:
        from accelsim.show.plots.search import plot_runs

        cli.write_figure(arguments.plot, plot_runs(rows, varied, what, objective))
        written.append(arguments.plot)
    document = {"workload": what, "varied": varied, "runs": rows, **left_out_json(first.left_out)}
    space = common_space(spaces or [SearchedSpace()])
    report = partial(runs_report, what, varied, rows, objective, space, first.left_out)
    cli.answer(arguments, document, report, *written)
    for row in rows:
        if row["no_valid_mapping"]:
            cli.complain(f"{', '.join(str(row[name]) for name in varied)}: {row['no_valid_mapping']}")
    if len(rows) < len(variants):
        return cli.INTERRUPTED
    return cli.NO_VALID_MAPPING if any(row["no_valid_mapping"] for row in rows) else cli.DONE


def _show_network(arguments: argparse.Namespace, found: NetworkResult) -> int:
    """Show a mapped network, and why layers are not mapped."""
    cli.show(arguments, found)
    _say_why_not(found.unmapped)
    if found.stopped_by == "interrupted":
        return cli.INTERRUPTED
    return cli.NO_VALID_MAPPING if found.unmapped else cli.DONE


def _say_why_not(unmapped: dict[str, str]) -> None:
    """Say why layers are not mapped; of those with one reason the first in full, the others by name."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, why in unmapped.items():
        groups.setdefault(why.partition("\n")[2] or why, []).append((name, why))
    for (first, why), *others in groups.values():
        cli.complain(f"{first}: {why}")
        if others:
            cli.complain(f"nor, for the same reason: {listed((name for name, _ in others), NAMED)}")


def fuse_command(arguments: argparse.Namespace) -> int:
    """Find the groups of layers to fuse, and print them with their gain."""
    from accelsim.api.networks import fuse_problem

    given = {"chain": None, "longest": None, "overlap": False, "kind": "tree", **vars(arguments), "layer": None}
    for file in filter(None, (given["html"], given["plot"])):
        refuse_file(file, "fusion.svg")
    problem = spec.read(argparse.Namespace(**given))
    problem.say_notes()
    chain, longest = tuple(spec.split(given["chain"])) if given["chain"] else (), given["longest"]
    with cli.progress(arguments) as tell:
        asked = asked_of(arguments, tell)
        found = fuse_problem(problem, asked, chain=chain, longest=longest, overlap=given["overlap"])
    return cli.show(arguments, found, kind=given["kind"], stop=found.stopped_by)
