"""The commands that show and check files (`list`, `show`, `check`, `import`, `cache`), and `doctor`."""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from accelsim import __version__, results
from accelsim.api.problem import apart, convert_foreign, is_gpu
from accelsim.cli import BAD_INPUT, DONE, answer, complain, print_json
from accelsim.cli.inputs import read_machine_alone, read_params
from accelsim.cli.inputs import read_workload as named_workload
from accelsim.gpu.catalogue import read_gpu
from accelsim.gpu.decoder import read_decoder
from accelsim.inputs import library
from accelsim.inputs.architecture import Architecture, read_architecture
from accelsim.inputs.constraints_reader import read_constraints
from accelsim.inputs.energies import read_energy_table
from accelsim.inputs.errors import AccelsimError, Problem
from accelsim.inputs.fields import Opened, Reader, open_document
from accelsim.inputs.layouts import read_layouts
from accelsim.inputs.library import MODELS, Importer, importer
from accelsim.inputs.mapping import read_mapping
from accelsim.inputs.params import check_overrides, unknown_overrides
from accelsim.inputs.source import Problems
from accelsim.inputs.units import listed
from accelsim.inputs.workload import Workload
from accelsim.inputs.workload_reader import load_workload, read_imported, read_workload

if TYPE_CHECKING:
    from accelsim.show.table import Piece


def _schemas(arguments: argparse.Namespace) -> int:
    """Print or write JSON Schemas."""
    from accelsim.show.schema import KINDS, json_schema

    kinds = [arguments.schema] if arguments.schema else KINDS
    if arguments.output:
        files = {f"{kind}.schema.json": results.to_json(json_schema(kind)).encode() for kind in kinds}
        for path in results.write_directory(arguments.output, files):
            sys.stdout.write(f"{path}\n")
        return DONE
    print_json(json_schema(arguments.schema))
    return DONE


def check_command(arguments: argparse.Namespace) -> int:
    """Report every mistake in files of any kind; or give the JSON Schemas of the files."""
    if arguments.schema or arguments.output:
        if arguments.files:
            raise AccelsimError(f"{arguments.files[0]}: --schema and -o write JSON Schemas, and check no files")
        return _schemas(arguments)
    if not arguments.files:
        raise AccelsimError("name files to check, or --schema KIND")
    overrides, variables = apart(read_params(arguments), arguments.files)
    converted = convert_foreign(tuple(arguments.files), variables)
    ours = dict.fromkeys(path for kept in converted.values() for path in kept.values())
    paths: list[str | Path] = []
    for name in arguments.files:
        if name not in converted:  # as given where there is such a file, else a shipped one of that name
            paths.append(next(filter(None, (library.find(name, kind) for kind in library.KINDS)), name))
    paths += ours
    if not paths:
        raise AccelsimError(
            f"{listed(arguments.files)}: neither an architecture nor a layer; name the files beside it too"
        )
    if problems := check_files(paths, overrides):
        complain("\n".join(map(str, problems)))
        return BAD_INPUT
    sys.stdout.write(f"{len(paths)} file{'s' if len(paths) > 1 else ''}: no mistakes\n")
    return DONE


def show_command(arguments: argparse.Namespace) -> int:
    """Show an architecture, a GPU or a workload."""
    if is_gpu(arguments.name):
        return _show_gpu(arguments)
    if arguments.mig:
        raise AccelsimError("--mig: of a GPU")
    if library.find(arguments.name, "arch") is None and library.find(arguments.name, "workloads") is not None:
        return _show_workload(arguments)
    return _show_architecture(arguments)


def _show_gpu(arguments: argparse.Namespace) -> int:
    from accelsim.gpu.catalogue import load_gpu
    from accelsim.show.report import gpu as reports

    gpu = load_gpu(arguments.name, arguments.mig)
    return answer(arguments, reports.gpu_row(gpu), lambda: reports.gpu_report(gpu))


def _show_workload(arguments: argparse.Namespace) -> int:
    from accelsim.show.report.tables import layer_table

    workload = named_workload(arguments, arguments.name)
    rows = [
        {"layer": layer.name, "operation": layer.operation, "count": layer.repeat, "dims": dict(layer.dims),
         "macs": layer.macs, "bits": {tensor.name: tensor.bits for tensor in layer.tensors}}
        for layer in workload.layers
    ]  # fmt: skip
    return answer(arguments, {"workload": workload.name, "layers": rows}, lambda: layer_table(workload.name, rows))


def _show_architecture(arguments: argparse.Namespace) -> int:
    """Levels of an architecture, the energy of each action, its area, and its power with everything busy."""
    from accelsim.energy.components import INTERPOLATION_ERROR, SOURCE
    from accelsim.inputs.machine_tables import area_rows, energy_rows, peak_rows
    from accelsim.show.plots.diagram import architecture_table
    from accelsim.show.report.tables import energies_report, levels_report

    arguments.arch = arguments.name
    architecture, path, overrides = read_machine_alone(arguments)
    rows, areas, peaks = energy_rows(architecture), area_rows(architecture), peak_rows(architecture)
    interpolated = any(str(row["source"]).startswith(SOURCE) for row in (*rows, *areas))
    notes = [*architecture.energy_notes, *([INTERPOLATION_ERROR] if interpolated else [])]
    file = results.input_file("architecture", arguments.name, path)
    provenance = results.provenance_json(results.Provenance("show", (file,), overrides))
    levels = architecture_table(architecture)
    document = {**provenance, "architecture": architecture.name, "levels": levels, "energy_table": rows, "area": areas}
    document |= {"area_um2": architecture.area_um2, "peak": peaks, "notes": notes}

    def report() -> list[Piece]:
        return [*levels_report(architecture, levels), *energies_report(rows, areas, peaks), *notes]

    return answer(arguments, document, report)


def list_command(arguments: argparse.Namespace) -> int:
    """Name the files that ship."""
    from accelsim.show.report.tables import shipped_report

    kinds = [arguments.kind] if arguments.kind else list(library.KINDS)
    if kinds == ["gpus"]:
        from accelsim.gpu.catalogue import catalogue
        from accelsim.show.report import gpu as reports

        rows = [reports.gpu_row(gpu) for gpu in catalogue()]
        return answer(arguments, {"gpus": rows}, lambda: reports.gpus_report(rows))
    listing = {kind: [_about(path, kind) for path in library.shipped(kind)] for kind in kinds}
    return answer(
        arguments, listing, lambda: (part for kind, rows in listing.items() for part in shipped_report(kind, rows))
    )


def _about(path: Path, kind: str) -> dict[str, Any]:
    """Name of a shipped file, the first sentence of its comment, and how large a workload is."""
    comment: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.lstrip("# ").rstrip())
    sentence = re.split(r"(?<!al)[.]\s+(?=[A-Z`])", " ".join(comment).rstrip("."), maxsplit=1)[0]
    row: dict[str, Any] = {"name": path.relative_to(library.root(kind)).with_suffix("").as_posix(), "about": sentence}
    if kind == "workloads":
        layers = load_workload(path).layers
        row["layers"] = sum(layer.repeat for layer in layers)
        row["macs"] = sum(layer.repeat * layer.macs for layer in layers)
    return row


_READERS: dict[str, Reader[Any]] = {
    "gpu": read_gpu,
    "decoder": read_decoder,
    "energy_table": read_energy_table,
    "layout": read_layouts,
}
"""Readers of files that stand by themselves."""


def check_files(paths: Sequence[str | PathLike[str]], overrides: Mapping[str, str] | None = None) -> list[Problem]:
    """Read files of any kind and return every mistake in them, by file and line.

    Mappings and constraints are checked against architecture and workload where the files hold one of each, the
    workload with a single layer; otherwise only for its form. Raises AccelsimError if a model cannot be read.

    Parameters
    ----------
    paths : sequence of str or path
        Architectures, workloads, models, mappings and energy tables, in any order.
    overrides : mapping of str to str, optional
        Values of parameters that replace those in the files; a name that no file defines is a mistake.

    Returns
    -------
    list of Problem
        Empty if all is well.
    """
    problems = Problems()
    overrides = overrides or {}
    for problem in unknown_overrides(overrides, paths):
        problems.found.append(problem)
    documents: list[Opened] = []
    for path in paths:
        kind, text = None, None
        if (model := importer(path)) is not None:  # the workload that it is read as
            kind, text = "workload", model.import_model(path, overrides).text
        if (opened := open_document(path, kind, overrides, problems, text)) is not None:
            documents.append(opened)
    architectures: list[Architecture | None] = []
    workloads: list[Workload | None] = []
    for document in documents:
        if document.kind == "architecture":
            architectures.append(read_architecture(document.body, document.path, problems))
        elif document.kind == "workload":
            workloads.append(read_workload(document.body, problems))
        elif document.kind in _READERS:
            _READERS[document.kind](document.body, problems)
        elif document.kind == "system":
            from accelsim.designs.soc import read_system

            read_system(document.body, Path(document.path), problems)
        elif document.kind == "sweep":
            from accelsim.designs.checking import File
            from accelsim.designs.sweep import read_sweep

            read_sweep(document.body, File(document.path, Path(document.path)), problems)
    architecture = architectures[0] if len(architectures) == 1 else None
    workload = workloads[0] if len(workloads) == 1 else None
    einsum = workload.layers[0] if workload is not None and len(workload.layers) == 1 else None
    for document in documents:
        if document.kind == "mapping":
            read_mapping(document.body, problems, architecture, einsum)
        elif document.kind == "constraints":
            names = [layer.name for layer in workload.layers] if workload else ()
            read_constraints(document.body, problems, architecture, einsum, names)
    return sorted(set(problems.found), key=lambda problem: (problem.mark, problem.what))


def cache_command(arguments: argparse.Namespace) -> int:
    """Say where results are kept and how many, or remove them."""
    from accelsim.results.cache import ResultCache, default_folder
    from accelsim.results.verifying import many

    cache = ResultCache(default_folder(), complain)
    if arguments.action == "dir":
        sys.stdout.write(f"{cache.folder}\n")
        return DONE
    count, size = cache.size()
    if arguments.action == "clear":
        cache.clear()
        sys.stdout.write(f"{cache.folder}: {many(count, 'result')} removed\n")
    elif arguments.json:
        print_json({"folder": str(cache.folder), "entries": count, "bytes": size})
    else:
        sys.stdout.write(f"{cache.folder}: {many(count, 'result')}, {size / 1024:,.1f} KiB\n")
    return DONE


def doctor_command(arguments: argparse.Namespace) -> int:
    """Show versions of what accelsim needs, of each extra too, and the folders of results and compiled kernels."""
    from accelsim.model.compiled import code_folder
    from accelsim.results.cache import ResultCache, default_folder
    from accelsim.show.report.tables import doctor_report

    packages = []
    for text in metadata.requires("accelsim") or []:
        extra = re.search(r"extra == ['\"](\w+)['\"]", text)
        found = re.match(r"[\w.-]+", text)
        if found is not None and (extra is None or extra[1] not in ("test", "docs")):
            try:
                version = metadata.version(found[0])
            except metadata.PackageNotFoundError:
                version = None
            packages.append({"package": found[0], "extra": extra and extra[1], "version": version})
    places = []
    for what, path in (("results", ResultCache(default_folder()).folder), ("compiled kernels", code_folder())):
        sizes = [each.stat().st_size for each in path.rglob("*") if each.is_file()] if path is not None else []
        places.append({"what": what, "folder": path and str(path), "files": len(sizes), "bytes": sum(sizes)})
    python = f"{platform.python_implementation()} {platform.python_version()}"
    document: dict[str, Any] = {"accelsim": __version__, "package": str(Path(__file__).parents[1]), "python": python}
    document |= {"system": platform.platform(), "cores": os.cpu_count(), "packages": packages, "kept": places}
    return answer(arguments, document, lambda: doctor_report(document))


def import_command(arguments: argparse.Namespace) -> int:
    """Write files of another tool as ours, and say what is not in them as it is in the other's."""
    if not arguments.tool and len(arguments.files) == 1 and arguments.files[0].endswith(MODELS):
        return _import_model(arguments)
    from accelsim.gpu.machine import machine_texts
    from accelsim.importers.foreign import note_lines, read_foreign

    if arguments.output:
        results.refuse_directory(arguments.output)
    if not arguments.tool and len(arguments.files) == 1 and (made := machine_texts(arguments.files[0])):
        return _write_texts(arguments, made, [])
    foreign = read_foreign(arguments.files, arguments.tool, read_params(arguments))
    texts = foreign.texts(arguments.files)
    if not texts:
        sys.stderr.write(note_lines(foreign.notes))
        raise AccelsimError(f"{listed(arguments.files)}: no architecture, workload, mapping or constraints in them")
    _write_texts(arguments, texts, foreign.about())
    said = sys.stdout if arguments.output else sys.stderr
    said.write(f"Energies: {foreign.energies}\n" if foreign.energies else "")
    said.write(note_lines(foreign.notes))
    return DONE


def _write_texts(arguments: argparse.Namespace, texts: Mapping[str, str], about: Sequence[str]) -> int:
    """Write a file of each kind and say what it holds, or print them all."""
    if arguments.output:
        files = {f"{kind}.yaml": text.encode() for kind, text in texts.items()}
        for path, line in zip(results.write_directory(arguments.output, files), about or texts, strict=True):
            sys.stdout.write(f"{path}  {line}\n")
    else:
        sys.stdout.write("---\n".join(texts.values()))
    return DONE


def _import_model(arguments: argparse.Namespace) -> int:
    path = Path(arguments.files[0])
    model = cast(Importer, importer(path))
    if arguments.output:
        results.refuse_file(arguments.output, f"{path.stem}.yaml")
    arguments.workload = str(path)
    overrides = read_params(arguments)
    check_overrides(overrides, [path])
    imported = model.import_model(path, overrides)
    read_imported(imported, path, overrides)  # refuses what no command could read
    text = imported.text.replace("params: {bits: 16}", f"params: {{bits: {overrides.get('bits', '16')}}}", 1)
    for note in imported.notes:
        sys.stderr.write(f"{note}\n")
    if arguments.output:
        results.write_page(arguments.output, text)
        text = f"Written to {arguments.output}\n"
    sys.stdout.write(text)
    return DONE
