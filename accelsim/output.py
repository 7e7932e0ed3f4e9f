"""Results as JSON with where they came from, and as a folder of files.

Equal input, overrides, seed and budget of mappings give equal bytes: nothing here holds a time of day or of the run.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from accelsim import __version__
from accelsim.architecture import Architecture
from accelsim.errors import AccelsimError
from accelsim.mapping import Mapping as LoopNest
from accelsim.mapping import dump_mapping
from accelsim.result import Result, SearchResult
from accelsim.units import printable
from accelsim.workload import ROLES

QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
WITHIN = (1.01, 1.1, 2.0)
MOST_BINS = 500
"""Of the histogram in the JSON: lower and upper edge [pJ] and number of valid mappings of each occupied bin."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that a result came from: the kind, the name as given, and the hash of its bytes."""

    kind: str
    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a result came from.

    `mappings` and `seconds` [s] are the budget that was asked for; both None: the default of `map_einsum`.
    """

    command: str
    inputs: tuple[InputFile, ...]
    overrides: Mapping[str, str]
    mappings: int | None = None
    seconds: float | None = None


def input_file(kind: str, name: str, path: str | os.PathLike[str]) -> InputFile:
    """Hash an input file as it stands now; `name` is what the user called it."""
    return InputFile(kind, name, hashlib.sha256(Path(path).read_bytes()).hexdigest())


def to_json(document: Any) -> str:
    """Write JSON with keys in the order given, floats to the last digit, and a row of plain values on one line."""
    return _json(document, "\n") + "\n"


def _json(value: Any, newline: str) -> str:
    entries = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if not any(isinstance(entry, dict | list) for entry in entries):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    deeper = newline + "  "
    inner = [_json(entry, deeper) for entry in entries]
    if isinstance(value, dict):
        inner = [f"{json.dumps(key)}: {text}" for key, text in zip(value, inner, strict=True)]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + deeper + f",{deeper}".join(inner) + newline + closing


def provenance_json(provenance: Provenance) -> dict[str, Any]:
    """Version, command, input files and overrides, as plain values."""
    return {
        "accelsim": __version__,
        "command": provenance.command,
        "inputs": {file.kind: {"file": file.name, "sha256": file.sha256} for file in provenance.inputs},
        "overrides": dict(sorted(provenance.overrides.items())),
    }


def result_json(result: Result) -> dict[str, Any]:
    """Everything about one mapping, as plain values.

    Counts are words of one instance, energies [pJ] of all instances.
    """
    return {
        "architecture": result.architecture,
        "layer": result.workload,
        "valid": result.valid,
        "violations": [str(violation) for violation in result.violations],
        "macs": result.macs,
        "energy_pj": result.energy_pj,
        "pj_per_mac": result.pj_per_mac,
        "cycles": result.cycles,
        "edp_pj_cycles": result.edp,
        "clock_hz": result.clock_hz,
        "run_time_s": result.seconds,
        "utilization": {
            "overall": result.utilization,
            "spatial": result.spatial_utilization,
            "temporal": result.temporal_utilization,
        },
        "bottleneck": result.bottleneck,
        "compute": {
            "name": result.compute,
            "instances": result.compute_instances,
            "used_instances": result.compute_used,
            "cycles": result.compute_cycles,
            "cycles_per_mac": result.cycles_per_mac,
            "energy_pj": result.compute_pj,
        },
        "levels": [asdict(level) for level in result.levels],
        "tensors": [{**asdict(tensor), "energy_pj": tensor.energy_pj} for tensor in result.tensors],
        "networks": [
            {**asdict(n), "multicast": n.multicast, "spatial_reduction": n.spatial_reduction} for n in result.networks
        ],
        "energy": [dict(row) for row in result.energy_rows()],
        "cycles_by_component": [dict(row) for row in result.cycle_rows()],
        "mapping": mapping_json(result.mapping),
    }


def mapping_json(mapping: LoopNest) -> list[dict[str, Any]]:
    """Loops and kept tensors of each level, as plain values."""
    return [
        {
            "level": level.level,
            "keep": sorted(level.keep),
            "temporal": [[loop.dim, loop.bound] for loop in level.temporal],
            "x": [[loop.dim, loop.bound] for loop in level.x],
            "y": [[loop.dim, loop.bound] for loop in level.y],
        }
        for level in mapping.levels
    ]


def search_json(search: SearchResult, provenance: Provenance) -> dict[str, Any]:
    """How a search went and what it saw, as plain values; the best mapping itself is not in it."""
    spread = search.spread
    return {
        "objective": search.objective,
        "method": search.method,
        "seed": search.seed,
        "budget": {"mappings": provenance.mappings, "seconds": provenance.seconds},
        "stop": search.stop,
        "space_size": search.space_size,
        "seen": search.seen,
        "valid": search.valid,
        "rejections": [asdict(rejection) for rejection in search.rejections],
        "spread": {
            "resolution": spread.resolution,
            "min_pj": spread.min_pj,
            "max_pj": spread.max_pj,
            "max_over_min": spread.ratio,
            "quantiles": [{"share": share, "energy_pj": _quantile(search, share)} for share in QUANTILES],
            "within": [
                {"factor": factor, "count": spread.within(factor), "share": spread.within(factor) / spread.valid}
                for factor in WITHIN
            ],
            "histogram": [list(part) for part in spread.histogram(MOST_BINS) if part[2]],
        },
        "curve": [list(point) for point in search.curve],
    }


def _quantile(search: SearchResult, share: float) -> float:
    exact = {0.0: search.spread.min_pj, 1.0: search.spread.max_pj}
    return exact.get(share, search.spread.quantile_pj(share))


def evaluation_json(result: Result, provenance: Provenance, energies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Document of one evaluated mapping; `energies` are the `energy_rows` of the machine."""
    return {**provenance_json(provenance), "result": result_json(result), "energy_table": [dict(e) for e in energies]}


def map_json(search: SearchResult, provenance: Provenance, energies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Document of one mapped layer: its best mapping and how it was found."""
    return {
        **provenance_json(provenance),
        "result": result_json(search.best),
        "search": search_json(search, provenance),
        "energy_table": [dict(row) for row in energies],
    }


def network_json(
    names: tuple[str, str],
    layers: Sequence[tuple[str, int, SearchResult | None, str]],
    totals: Mapping[str, Any],
    provenance: Provenance,
    energies: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Document of a mapped network.

    Parameters
    ----------
    names : (str, str)
        Of the workload and the architecture.
    layers : sequence of (name, repeat, search, why)
        Each layer with what was found, or None and why nothing was.
    totals : mapping
        Of `accelsim.report.network_totals`.
    provenance : Provenance
    energies : sequence of mapping
        The `energy_rows` of the machine.
    """
    found: list[dict[str, Any]] = []
    for name, repeat, search, why in layers:
        layer: dict[str, Any] = {"layer": name, "repeat": repeat}
        if search is None:
            found.append({**layer, "no_valid_mapping": why})
        else:
            found.append({**layer, "result": result_json(search.best), "search": search_json(search, provenance)})
    return {
        **provenance_json(provenance),
        "workload": names[0],
        "architecture": names[1],
        "total": dict(totals),
        "layers": found,
        "energy_table": [dict(row) for row in energies],
    }


def energy_rows(architecture: Architecture) -> list[dict[str, Any]]:
    """Energy of each action of a machine, outermost component first: pJ an access, a word and a bit, and the source.

    An energy is None where the action may be left out and is not modelled. Tensors whose entries are equal share a row.
    """
    rows: list[dict[str, Any]] = []
    for level in architecture.levels:
        words, bits = level.block_size, level.block_size * level.word_bits
        kept = [role for role in ROLES if role not in level.bypass]
        for action in ("read", "write", "update"):
            rows += _by_role(architecture, level.name, kept, action, (words, bits))
        rows += _by_role(architecture, level.name, [], "leak", (None, None))
        rows += _by_role(architecture, f"{level.name} network", [], "transfer", (1, level.word_bits))
    return rows + _by_role(architecture, architecture.compute.name, [], "compute", (None, None))


def _by_role(
    architecture: Architecture, component: str, roles: Sequence[str], action: str, sizes: tuple[int | None, int | None]
) -> list[dict[str, Any]]:
    """Rows of one action, one for each group of roles with equal entries; no roles: one entry for all."""
    found = {role: architecture.energy.find(component, role, action) for role in roles or ["*"]}
    groups: list[list[str]] = []
    for role, entry in found.items():
        same = next((group for group in groups if found[group[0]] == entry), None)
        if same is None:
            groups.append([role])
        else:
            same.append(role)
    rows = []
    for group in groups:
        entry = found[group[0]]
        energy_pj = None if entry is None else entry.energy_pj
        words, bits = sizes
        rows.append(
            {
                "component": component,
                "role": "all" if len(groups) == 1 and len(roles) in (0, len(ROLES)) else ", ".join(group),
                "action": action,
                "energy_pj": energy_pj,
                "pj_per_word": None if energy_pj is None or words is None else energy_pj / words,
                "pj_per_bit": None if energy_pj is None or bits is None else energy_pj / bits,
                "source": None if entry is None else entry.source,
            }
        )
    return rows


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
    """Contents of a result folder by name: mapping, JSON document, figures of the energy and of the search's spread."""
    from accelsim.plots import figure_bytes, plot_energy, plot_spread

    files = {"mapping.yaml": mapping_text(result, provenance).encode(), "result.json": to_json(document).encode()}
    files |= {f"energy.{kind}": content for kind, content in figure_bytes(plot_energy(result)).items()}
    if search is not None:
        files |= {f"spread.{kind}": content for kind, content in figure_bytes(plot_spread(search)).items()}
    return files


def refuse_directory(directory: str | os.PathLike[str]) -> None:
    """Raise AccelsimError if results could not be written into a folder, before a search spends its time."""
    path = Path(directory).absolute()
    existing = next(folder for folder in (path, *path.parents) if folder.exists() or folder.is_symlink())
    if not existing.is_dir():
        raise AccelsimError(f"{directory}: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise AccelsimError(f"{directory}: {existing} cannot be written")


def write_directory(directory: str | os.PathLike[str], files: Mapping[str, bytes]) -> list[Path]:
    """Write files into a folder, each as a whole or not at all; other files there are left alone.

    Parameters
    ----------
    directory : str or path
        Made with its parents where it does not exist.
    files : mapping of str to bytes
        Contents by name.

    Returns
    -------
    list of Path
        The files written.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    return [_write(folder / name, content) for name, content in files.items()]


def _write(path: Path, content: bytes) -> Path:
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return path
