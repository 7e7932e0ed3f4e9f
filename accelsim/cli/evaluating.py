"""The commands that evaluate: one mapping (`eval`, `explain`), results anew (`verify`), Timeloop's statistics."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim import __version__, cli, results
from accelsim.cli import inputs as spec
from accelsim.cli.arguments import refuse_gpu_options
from accelsim.cli.inputs import Inputs
from accelsim.cli.mapping import map_every_layer
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints_reader import load_constraints
from accelsim.inputs.errors import AccelsimError, NoValidMapping, SpecError
from accelsim.inputs.library import hash_file, read_json, read_utf8
from accelsim.inputs.machine_tables import machine_json
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.workload import Einsum, without_other_operations
from accelsim.model.evaluate import evaluate
from accelsim.model.limits import peak_macs_per_cycle, stand
from accelsim.model.result import Result
from accelsim.model.sparsity import sparse_result
from accelsim.results.cache import MapOptions
from accelsim.results.explain import explain, explanation_json, refuse_large
from accelsim.results.output import evaluation_json, read_mapping_json, zeros_json
from accelsim.results.verifying import Check, Task, refuse_other_forms, verify_layer, verify_rest
from accelsim.results.worth import difference_rows
from accelsim.search.mapper import map_einsum
from accelsim.search.stopping import Budget
from accelsim.show.report import large, search_progress
from accelsim.show.report.explain import explanation_report
from accelsim.show.report.mapping import differences_report, layers_report, result_report, sparse_report
from accelsim.show.report.search import layer_files
from accelsim.show.report.tables import machine_roofline_report, port_rows, stand_row
from accelsim.show.table import Column, Piece, Table, bold

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def eval_command(arguments: argparse.Namespace) -> int:
    """Evaluate one mapping."""
    inputs = spec.read_inputs(arguments)
    layer = spec.one_layer(inputs, arguments)
    mapping = spec.read_mapping_of(inputs, layer)
    result = evaluate(inputs.architecture, layer, mapping)
    sparse = sparse_result(inputs.architecture, layer, result)
    provenance = spec.make_provenance("eval", inputs, arguments)
    document = evaluation_json(result, provenance, machine_json(inputs.architecture), zeros_json(sparse))
    cli.answer(
        arguments,
        document,
        lambda: itertools.chain(result_report(result, inputs.architecture, layer), sparse_report(sparse)),
        files=lambda: layer_files(result, None, provenance, document),
    )
    return cli.DONE if (result if sparse is None else sparse).valid else cli.NO_VALID_MAPPING


def explain_command(arguments: argparse.Namespace) -> int:
    """Walk a small loop nest and show what each step moves."""
    inputs = spec.read_inputs(arguments)
    layer, machine = spec.one_layer(inputs, arguments), inputs.architecture
    if "mapping" in inputs.paths:
        mapping = spec.read_mapping_of(inputs, layer)
        origin = arguments.mapping
    else:
        refuse_large(layer)
        found = map_einsum(machine, layer, method="exact", uneven=False)
        mapping, space = found.best.mapping, large(found.space_size)
        origin = f"one of least energy of all {space} in the map space"
    explanation = explain(machine, layer, mapping, **cli.taken(arguments, "tensor", "level", "steps"))
    if arguments.json:
        provenance = results.provenance_json(spec.make_provenance("explain", inputs, arguments))
        cli.print_json({**provenance, "mapping_from": origin, **explanation_json(explanation)})
    else:
        cli.print_report(explanation_report(explanation, origin))
    return cli.DONE if explanation.same and explanation.result.valid else cli.NO_VALID_MAPPING


def roofline_command(arguments: argparse.Namespace) -> int:
    """Show where the layers of workloads stand under the roofline of a machine."""
    if spec.is_gpu(arguments.arch):
        cli.refuse(
            arguments,
            f"{arguments.arch} is a GPU, whose fastest kernels are shown",
            "objective",
            "constraints",
            "all_layers",
        )
        from accelsim.cli.gpus import gpu_roofline

        return gpu_roofline(arguments)
    refuse_gpu_options(arguments)
    objective = "energy" if arguments.objective is None else arguments.objective
    every = [
        spec.read_network(argparse.Namespace(**{**vars(arguments), "workload": name, "layer": None}))
        for name in arguments.workloads
    ]
    for inputs in every if not arguments.quiet else ():
        spec.print_left_out(inputs.workload.name, inputs.left_out)
    machine, options = every[0].architecture, MapOptions(objective=objective)
    stands = [
        stand(inputs.architecture, einsum, best)
        for inputs in every
        for einsum, best in map_every_layer(inputs, arguments, options)
    ]

    def figure() -> Axes:
        from accelsim.show.plots.diagram import plot_machine_roofline

        return plot_machine_roofline(machine, stands)

    peak = peak_macs_per_cycle(machine)
    document = {"architecture": machine.name, "objective": objective, "peak_macs_per_cycle": peak}
    document |= {"ports": port_rows(machine), "layers": [stand_row(each, peak) for each in stands]}
    return cli.answer(arguments, document, lambda: machine_roofline_report(machine, stands, objective), figure=figure)


def export_command(arguments: argparse.Namespace) -> int:
    """Write files of Timeloop, and what it will count otherwise; or a mapping of AccelForge."""
    from accelsim.importers.accelforge import export_accelforge
    from accelsim.importers.timeloop_export import export_timeloop

    if arguments.tool == "accelforge":
        if len(arguments.files) < 3 or not arguments.output:
            raise AccelsimError("expected AccelForge's architecture and workload, a mapping of accelsim, and -o DIR")
        results.refuse_directory(arguments.output)
        text = export_accelforge(arguments.files[:-1], arguments.files[-1], spec.read_overrides(arguments))
        for path in results.write_directory(arguments.output, {"mapping.yaml": text.encode()}):
            sys.stdout.write(f"{path}\n")
        return cli.DONE
    if len(arguments.files) == 1:
        architecture, layer, mapping, beside = _of_result(arguments)
    elif len(arguments.files) == 3:
        arguments.arch, arguments.workload, arguments.mapping = arguments.files
        inputs = spec.read_inputs(arguments)
        architecture, layer, beside = inputs.architecture, spec.one_layer(inputs, arguments), None
        mapping = spec.read_mapping_of(inputs, layer)
    else:
        many = len(arguments.files)
        raise AccelsimError(f"expected the folder of a result, or ARCH WORKLOAD MAPPING, got {many} names")
    folder = arguments.output or (beside and beside / "timeloop")
    if not folder:
        raise AccelsimError("-o names the folder to write")
    results.refuse_directory(folder)
    made = export_timeloop(architecture, layer, mapping)
    for path in results.write_directory(folder, {name: text.encode() for name, text in made.files.items()}):
        sys.stdout.write(f"{path}\n")
    sys.stdout.write("".join(f"{note}\n" for note in made.notes))
    return cli.DONE


def _of_result(arguments: argparse.Namespace) -> tuple[Architecture, Einsum, LoopNest, Path]:
    """Machine, layer and mapping of a result, and its folder."""
    if arguments.overrides:
        raise AccelsimError("--set is for ARCH WORKLOAD MAPPING; a result has the parameters that it was made with")
    path, document, inputs = read_result(arguments.files[0])
    mapped = [entry["result"] for entry in document.get("layers", [document]) if "result" in entry]
    names = [found["layer"] for found in mapped]
    if arguments.layer is None and len(names) != 1:
        what = f"{path}: holds the mappings of {len(names)} layers; --layer says which"
        raise AccelsimError(what if names else f"{path}: holds no single mapping; name ARCH WORKLOAD MAPPING")
    layer = spec.find_layer(inputs.workload, arguments.layer or names[0], inputs.given["workload"])
    if layer is None or layer.name not in names:
        raise AccelsimError(f"{path}: holds no mapping of the layer '{arguments.layer}'")
    return inputs.architecture, layer, read_mapping_json(mapped[names.index(layer.name)]), path.parent


def replay_command(arguments: argparse.Namespace) -> int:
    """Evaluate a mapping of Timeloop and show where its statistics differ, and why."""
    from accelsim.importers import timeloop_replay as replay
    from accelsim.importers.foreign import OWN_MODELS, note_lines, read_foreign
    from accelsim.importers.timeloop_architecture import ACCESS

    statistics = [name for name in arguments.files if name.endswith("stats.txt")]
    if len(statistics) != 1:
        raise AccelsimError(f"expected one file that ends in stats.txt, got {len(statistics)}")
    theirs = replay.read_statistics(read_utf8(statistics[0]), statistics[0])
    others = [name for name in arguments.files if name not in statistics]
    if not others:
        raise AccelsimError(f"{statistics[0]}: the inputs are missing; name architecture, problem and mapping too")
    foreign = read_foreign(others, "timeloop", spec.read_overrides(arguments))
    folder = Path(statistics[0]).parent
    beside = sorted(folder.glob("*ERT.yaml")) or sorted(folder.glob("*ERT_summary.yaml"))
    if foreign.energies == OWN_MODELS and len(beside) == 1:
        foreign = read_foreign([*others, str(beside[0])], "timeloop", spec.read_overrides(arguments))
    if lacking := foreign.lacks():
        raise AccelsimError(f"{others[0]}: the files hold no {lacking}")
    sys.stderr.write(note_lines(foreign.notes))
    architecture, einsum, mapping = foreign.loaded()
    if others := replay.of_another(architecture, einsum, mapping, theirs):
        hint = "name the files that they were made from"
        raise AccelsimError("\n".join(f"{statistics[0]}: {other}; {hint}" for other in others))
    sparse = architecture.saves_zeros
    result = evaluate(architecture, einsum, mapping)
    unknown = replay.SPARSE if sparse else replay.UNEXPLAINED
    models = replay.MODELS if foreign.energies == OWN_MODELS and not sparse else None
    dearest = replay.evaluate_dearest(architecture, einsum, mapping)
    accessed = {note.key.removesuffix(ACCESS) for note in foreign.notes if note.key.endswith(ACCESS)}
    rows = list(replay.compare(einsum, mapping, result, theirs, unknown, models, dearest, accessed))
    holding, holds = None, replay.reused_roles(einsum, rows)
    if holds:
        result = replay.evaluate_holding(architecture, einsum, mapping, holds)
        equal = sum(not row.cause for row in replay.compare(einsum, mapping, result, theirs, unknown, models))
        holding = {"holds": sorted(holds), "equal": equal, "energy_pj": result.energy_pj}
        architecture = replace(architecture, compute=replace(architecture.compute, holds=holds))
    asked_for = foreign.constraints and load_constraints({"constraints": foreign.constraints}, architecture, einsum)
    budget, optimum = Budget(seconds=arguments.seconds), None
    with suppress(NoValidMapping):
        found = map_einsum(architecture, einsum, constraints=asked_for or None, uneven=False, budget=budget)
        cost = {"energy_pj": found.best.energy_pj, "cycles": found.best.cycles}
        optimum = {**cost, "proved": found.stop == "exhausted"}
    document: dict[str, Any] = {"figures": [asdict(row) for row in rows], "energies": foreign.energies}
    document |= {"optimum": optimum, "holding": holding}

    def report() -> Iterator[Piece]:
        """Figures of Timeloop that differ from ours, and our best mapping under the same constraints."""
        equal = sum(not row.cause for row in rows)
        columns = (
            Column("figure", "what"),
            Column("accelsim", "ours", "{:,.10g}".format),
            Column("Timeloop", "theirs", "{:,.10g}".format),
            Column("cause of the difference", "cause", left=True, fold=True),
        )
        shown = [asdict(row) for row in rows if row.cause or " " not in row.what.removesuffix(" [pJ]")]
        yield bold(f"{einsum.name} on {architecture.name}")
        yield f"{equal} of {len(rows)} figures are equal; those that differ, and the totals:\n"
        yield Table("replay", columns, [asdict(row) for row in rows], shown=shown)
        for cause, meaning in replay.CAUSES.items():
            if any(cause in row.cause for row in rows):
                yield f"{cause}: {meaning}."
        if holding is not None:
            said = f"With `holds: [{', '.join(sorted(holds))}]` at the compute unit, {holding['equal']} are equal"
            yield f"{said}, and the energy is {holding['energy_pj']:,.2f} pJ; so it is for the optimum."
        best = "no mapping satisfies the constraints as they are here"
        if optimum is not None:
            why = "proved" if optimum["proved"] else "the best found in the time"
            best = "{energy_pj:,.2f} pJ in {cycles:,} cycles under the same constraints".format(**optimum) + f" ({why})"
        yield f"\nOptimum of energy: {best}."
        yield f"Energies: {foreign.energies}."

    cli.answer(arguments, document, report)
    return cli.DIFFERS if any(row.cause == replay.UNEXPLAINED for row in rows) else cli.DONE


def compare_command(arguments: argparse.Namespace) -> int:
    """Show two results, or two mappings of one layer, beside each other; differences first."""
    *machine, a, b = arguments.files if len(arguments.files) in (2, 4) else ["", "", ""]
    if not a:
        many = len(arguments.files)
        raise AccelsimError(f"expected two results, or ARCH WORKLOAD and two mappings, got {many} names")
    if machine:
        arguments.arch, arguments.workload = machine
    sides = [_mapped(each, arguments) for each in (a, b)]
    names, both = [a, b], [name for name in sides[0] if name in sides[1]]
    if len(sides[0]) == len(sides[1]) == 1:
        rows = difference_rows(*(next(iter(side.values())) for side in sides))
        return cli.answer(arguments, {"a": a, "b": b, "figures": rows}, lambda: differences_report(names, rows))
    if not both:
        raise AccelsimError(f"{a} and {b} have no layer in common; --layer chooses one of each")
    layers = [{"layer": name, **_costs(sides[0][name], "a"), **_costs(sides[1][name], "b")} for name in both]
    layers.sort(key=lambda row: -abs(row["energy_pj_b"] - row["energy_pj_a"]))
    return cli.answer(arguments, {"a": a, "b": b, "layers": layers}, lambda: layers_report(names, layers))


def _costs(result: Result, side: str) -> dict[str, Any]:
    return {f"energy_pj_{side}": result.energy_pj, f"cycles_{side}": result.cycles}


def _mapped(name: str, arguments: argparse.Namespace) -> dict[str, Result]:
    """Mappings of a result, evaluated anew, by layer; or the one of a mapping file."""
    if "arch" in arguments:
        each = argparse.Namespace(**vars(arguments), mapping=name)
        inputs = spec.read_inputs(each)
        layer = spec.one_layer(inputs, each)
        mapping = spec.read_mapping_of(inputs, layer)
        return {layer.name: evaluate(inputs.architecture, layer, mapping)}
    if arguments.overrides:
        raise AccelsimError("--set is for ARCH WORKLOAD MAPPING; a result has the parameters that it was made with")
    path, document, inputs = read_result(name)
    found = {}
    for entry in document.get("layers", [document]):
        if "result" in entry and arguments.layer in (None, entry["result"]["layer"]):
            einsum = spec.find_layer(inputs.workload, entry["result"]["layer"], inputs.given["workload"])
            assert einsum is not None
            found[einsum.name] = evaluate(inputs.architecture, einsum, read_mapping_json(entry["result"]))
    if not found:
        raise AccelsimError(
            f"{path}: holds no mapping" + (f" of the layer '{arguments.layer}'" if arguments.layer else "")
        )
    return found


def verify_command(arguments: argparse.Namespace) -> int:
    """Check what a result.json says, layer by layer."""
    from accelsim.show.report.verifying import checks_report, verdict_line

    _, document, inputs = read_result(arguments.result)
    changed = _changed(inputs, document)
    for line in changed:
        cli.complain(line)
    if changed and not arguments.force:
        cli.complain("nothing was checked; --force goes on with the files as they are now")
        return cli.DIFFERS
    try:
        found = _verify_layers(inputs, document, arguments)
    except SpecError:
        raise  # it names its file
    except AccelsimError as error:
        raise AccelsimError(f"{arguments.result}: {error}") from None
    checks = [check for _, several in found for check in several]
    parts = [part for name, several in found for part in checks_report(name, several)]
    cli.print_report([*parts, verdict_line(checks)])
    return cli.DIFFERS if any(check.agrees is False for check in checks) else cli.DONE


def _verify_layers(
    inputs: Inputs, document: Mapping[str, Any], arguments: argparse.Namespace
) -> list[tuple[str, list[Check]]]:
    """Check each layer of a result.json, and then what is around them."""
    machine, layers = inputs.architecture, inputs.workload.layers
    if "left_out" in document:
        layers = without_other_operations(inputs.workload)[0].layers
    entries = document.get("layers", [document])
    if "layers" not in document:
        name = document.get("result", document.get("front"))["layer"]
        layers = tuple(filter(None, [spec.find_layer(inputs.workload, name, str(inputs.paths["workload"]))]))
    if len(entries) > len(layers):
        raise AccelsimError(f"it has {len(entries)} layers, and {inputs.paths['workload']} has {len(layers)}")
    found, searches = [], []
    budget, same = Budget(seconds=arguments.seconds), document["accelsim"] == __version__
    for entry, layer in zip(entries, layers, strict=False):
        constraints = spec.read_layer_constraints(inputs, layer)
        objective = entry["search"]["objective"] if "search" in entry else ""
        with search_progress(cli.make_console(stderr=True), layer.name, objective) as on_progress:
            task = Task(machine, layer, constraints, budget, arguments.workers, on_progress, same)
            checks, search = verify_layer(entry, task)
        found.append((f"{layer.name} on {machine.name}", checks))
        searches.append(search)
    if any(search is None and "search" in entry for entry, search in zip(entries, searches, strict=True)):
        return found  # sums need all mappings
    command, hashes = "map" if {"search", "front", "layers"} & set(document) else "eval", document["inputs"]
    files = (results.InputFile(kind, inputs.given[kind], hashes[kind]["sha256"]) for kind in inputs.paths)
    provenance = results.Provenance(command, tuple(files), inputs.overrides, limits=inputs.limits)
    rest = verify_rest(document, provenance, machine, inputs.workload, searches)
    return [*found, (f"{inputs.workload.name} on {machine.name}", [rest])]


def read_result(name: str) -> tuple[Path, dict[str, Any], Inputs]:
    """Find a result.json, which a folder may hold, and read it and the files that it names."""
    path = Path(name)
    if not path.exists():
        raise AccelsimError(f"{path}: no such file or folder; name what `map -o` or `eval -o` wrote")
    if path.is_dir():
        path = path / "result.json"
        if not path.is_file():
            raise AccelsimError(f"{name}: holds no result.json")
    document = read_json(path)
    if not isinstance(document, dict) or not {"result", "layers", "front"} & set(document):
        raise AccelsimError(f"{path}: not a result.json of `accelsim map`")
    try:
        refuse_other_forms(document)
    except AccelsimError as error:
        raise AccelsimError(f"{path}: {error}") from None
    try:
        names = {kind: str(entry["file"]) for kind, entry in document["inputs"].items()}
        overrides = {str(name): str(value) for name, value in document["overrides"].items()}
        paths = spec.find_files(names)
        limits = tuple(map(str, document["limits"]))
        architecture, workload = spec.read_machine(paths, overrides)
    except (KeyError, TypeError, AttributeError) as error:
        lacks = "it lacks " if isinstance(error, KeyError) else ""
        raise AccelsimError(f"{path}: not what `accelsim map` writes: {lacks}{error}") from None
    return path, document, Inputs(names, paths, overrides, architecture, workload, None, limits)


def _changed(inputs: Inputs, document: Mapping[str, Any]) -> list[str]:
    """Say which input files are not those that the result was made from."""
    what = "has changed since the result was written"
    return [
        f"{path}: {what} (sha256 {now[:12]}, was {was[:12]})"
        for kind, path in inputs.paths.items()
        if (now := hash_file(path)) != (was := str(document["inputs"][kind].get("sha256")))
    ]
