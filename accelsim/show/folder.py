"""Results as a folder of files: mappings, JSON, tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accelsim import __version__
from accelsim.inputs.mapping import dump_mapping
from accelsim.inputs.units import printable
from accelsim.model.result import Result
from accelsim.results.output import Provenance, to_json
from accelsim.search.result import FrontResult, SearchResult
from accelsim.show.table import to_csv


def mapping_text(result: Result, provenance: Provenance) -> str:
    """Write a mapping file with a header that says what it maps onto what."""
    files = {file.kind: file.name for file in provenance.inputs}
    overrides = "".join(f" --set {name}={value}" for name, value in sorted(provenance.overrides.items()))
    overrides += "".join(f" --limit '{limit}'" for limit in provenance.limits)
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
    from accelsim.show.plots.result import plot_energy
    from accelsim.show.plots.search import plot_spread
    from accelsim.show.plots.style import figure_bytes

    files = {"mapping.yaml": mapping_text(result, provenance).encode(), "result.json": to_json(document).encode()}
    files |= {f"energy.{kind}": content for kind, content in figure_bytes(plot_energy(result)).items()}
    if search is not None and search.sample is not None:
        files |= {f"spread.{kind}": content for kind, content in figure_bytes(plot_spread(search)).items()}
    if search is not None and len(search.ranked) > 1:
        files |= _mapping_files(search.ranked, provenance)
    return files


def front_files(front: FrontResult, provenance: Provenance, document: Mapping[str, Any]) -> dict[str, bytes]:
    """Contents of the folder of a Pareto front by name: table, JSON document, figure, and the mapping of each point."""
    from accelsim.show.plots.search import plot_front
    from accelsim.show.plots.style import figure_bytes

    mappings = _mapping_files(front.points, provenance)
    rows = [{**row, "mapping": name} for row, name in zip(front.rows(), mappings, strict=True)]
    files = {"front.csv": to_csv(rows).encode(), "result.json": to_json(document).encode()}
    files |= {f"front.{kind}": content for kind, content in figure_bytes(plot_front(front)).items()}
    return files | mappings


def _mapping_files(results: Sequence[Result], provenance: Provenance) -> dict[str, bytes]:
    """Mapping files numbered from 1, with as many digits as the last one needs."""
    digits = max(2, len(str(len(results))))
    return {
        f"mappings/{number:0{digits}}.yaml": mapping_text(result, provenance).encode()
        for number, result in enumerate(results, 1)
    }
