"""Results as a folder of files: mappings, JSON, tables and figures."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from accelsim import __version__
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import dump_mapping
from accelsim.inputs.units import printable
from accelsim.inputs.workload import Einsum
from accelsim.model.result import Result
from accelsim.results.output import Provenance, to_json
from accelsim.search.result import FrontResult, SearchResult
from accelsim.search.stopping import part_file

NO_PLOTLY = "plotly is not installed, and the HTML report needs it; `pip install 'accelsim[html]'`"


def mapping_text(result: Result, provenance: Provenance) -> str:
    """Write a mapping file with a header that says what it maps onto what."""
    files = {file.kind: file.name for file in provenance.inputs}
    overrides = "".join(f" --set {name}={value}" for name, value in sorted(provenance.overrides.items()))
    lines = [
        f"{result.workload} on {result.architecture}",
        f"Architecture {files.get('architecture', '?')}, workload {files.get('workload', '?')}{overrides}; "
        f"written by accelsim {__version__}.",
    ]
    return "".join(f"# {printable(line)}\n" for line in lines) + dump_mapping(result.mapping)


def layer_files(
    result: Result, search: SearchResult | None, provenance: Provenance, document: Mapping[str, Any]
) -> dict[str, bytes]:
    """Contents of a result folder by name: mapping, JSON document, a figure of the energy and, where seen, its spread.

    Where a search lists several mappings, `mappings/` holds each, by rank.
    """
    from accelsim.show.plots import figure_bytes, plot_energy, plot_spread

    files = {"mapping.yaml": mapping_text(result, provenance).encode(), "result.json": to_json(document).encode()}
    files |= {f"energy.{kind}": content for kind, content in figure_bytes(plot_energy(result)).items()}
    if search is not None and search.sample is not None:
        files |= {f"spread.{kind}": content for kind, content in figure_bytes(plot_spread(search)).items()}
    if search is not None and len(search.ranked) > 1:
        files |= _mapping_files(search.ranked, provenance)
    return files


def front_files(front: FrontResult, provenance: Provenance, document: Mapping[str, Any]) -> dict[str, bytes]:
    """Contents of the folder of a Pareto front by name: table, JSON document, figure, and the mapping of each point."""
    from accelsim.show.plots import figure_bytes, plot_front

    mappings = _mapping_files(front.points, provenance)
    rows = [{**row, "mapping": name} for row, name in zip(front.rows(), mappings, strict=True)]
    files = {"front.csv": _csv(rows).encode(), "result.json": to_json(document).encode()}
    files |= {f"front.{kind}": content for kind, content in figure_bytes(plot_front(front)).items()}
    return files | mappings


def _mapping_files(results: Sequence[Result], provenance: Provenance) -> dict[str, bytes]:
    """Mapping files numbered from 1, with as many digits as the last one needs."""
    digits = max(2, len(str(len(results))))
    return {
        f"mappings/{number:0{digits}}.yaml": mapping_text(result, provenance).encode()
        for number, result in enumerate(results, 1)
    }


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write rows with equal keys as a table; floats to the last digit."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def refuse_file(file: str | os.PathLike[str], example: str) -> None:
    """Raise AccelsimError if a file could not be written, before a search spends its time; `example` is a name."""
    if Path(file).is_dir():
        raise AccelsimError(f"{file}: this is a folder; name a file, such as {Path(file) / example}")
    _refuse(file, Path(file).absolute().parent)


def refuse_directory(directory: str | os.PathLike[str]) -> None:
    """Raise AccelsimError if results could not be written into a folder, before a search spends its time."""
    _refuse(directory, Path(directory).absolute())


def _refuse(asked: str | os.PathLike[str], path: Path) -> None:
    existing = next(folder for folder in (path, *path.parents) if folder.exists() or folder.is_symlink())
    if not existing.is_dir():
        raise AccelsimError(f"{asked}: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise AccelsimError(f"{asked}: {existing} cannot be written")


def refuse_page(file: str | os.PathLike[str], layer: Einsum | None) -> None:
    """Raise AccelsimError if no page could be written, before a search spends its time."""
    if layer is None:
        raise AccelsimError("a page is of one layer on one machine; choose a layer with --layer")
    refuse_file(file, "report.html")
    if find_spec("plotly") is None:
        raise AccelsimError(NO_PLOTLY)


def write_page(file: str | os.PathLike[str], page: str) -> Path:
    """Write a page as a whole or not at all."""
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    return _write(path, page.encode())


def write_directory(directory: str | os.PathLike[str], files: Mapping[str, bytes]) -> list[Path]:
    """Write files into a folder, each as a whole or not at all; other files there are left alone.

    Parameters
    ----------
    directory : str or path
        Made with its parents where it does not exist.
    files : mapping of str to bytes
        Contents by name; a name may lead into a folder below.

    Returns
    -------
    list of Path
        The files written.
    """
    folder = Path(directory)
    for parent in {(folder / name).parent for name in files} | {folder}:
        parent.mkdir(parents=True, exist_ok=True)
    return [_write(folder / name, content) for name, content in files.items()]


def _write(path: Path, content: bytes) -> Path:
    try:
        with part_file(path) as part:
            part.write_bytes(content)
            os.replace(part, path)
    except OSError as error:  # a full disk names no file
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    return path
