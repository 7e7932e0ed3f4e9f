"""Results as JSON, with where they came from: of a layer, of a front, and of the layers of a network.

Equal input, overrides and seed give equal bytes unless a budget in seconds ends the search: nothing here holds a time
of day or of the run.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from accelsim import __version__
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.files import hash_file
from accelsim.inputs.mapping import LevelMapping, Loop
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.workload import Einsum
from accelsim.model.result import Result, TensorAtLevel
from accelsim.search.result import Certificate, FrontResult, Sample, SearchResult

if TYPE_CHECKING:
    from accelsim.model.limits import Limits

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

    `mappings` and `seconds` [s] are the budget that was asked for; both None: the default of `map_einsum`. `limits` are
    those of the command line, as given.
    """

    command: str
    inputs: tuple[InputFile, ...]
    overrides: Mapping[str, str]
    mappings: int | None = None
    seconds: float | None = None
    limits: tuple[str, ...] = ()


def input_file(kind: str, name: str, path: str | os.PathLike[str]) -> InputFile:
    """Hash an input file as it stands now; `name` is what the user called it."""
    return InputFile(kind, name, hash_file(path))


def to_json(document: Any) -> str:
    """Write JSON with keys in the order given, floats to the last digit, and a row of plain values on one line."""
    return _json(document, "\n") + "\n"


def _json(value: Any, newline: str) -> str:
    entries = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list | tuple) else []
    if not any(isinstance(entry, dict | list | tuple) for entry in entries):
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
        "limits": list(provenance.limits),
    }


def _tensor_json(tensor: TensorAtLevel) -> dict[str, Any]:
    return {**asdict(tensor), "compression": float(tensor.compression), "energy_pj": tensor.energy_pj}


def result_json(result: Result) -> dict[str, Any]:
    """Everything about one mapping, as plain values.

    Counts are words of one instance, the busiest one; totals and energies [pJ] are of all instances.
    """
    return {
        "architecture": result.architecture,
        "layer": result.workload,
        "bounds": dict(result.bounds),
        "valid": result.valid,
        "violations": [str(violation) for violation in result.violations],
        "macs": result.macs,
        "padded_macs": result.padded_macs,
        "energy_pj": result.energy_pj,
        "pj_per_mac": result.pj_per_mac,
        "cycles": result.cycles,
        "edp_pj_cycles": result.edp,
        "clock_hz": result.clock_hz,
        "run_time_s": result.seconds,
        "power_w": result.power_w,
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
        "ramps": [asdict(ramp) for ramp in result.ramps],
        "fills": [asdict(each) for each in result.fills],
        "computing_cycles": result.computing_cycles,
        "bursts": [asdict(each) for each in result.bursts],
        "moves": [asdict(each) for each in result.moves],
        "time": [dict(row) for row in result.time_rows()],
        "cycles_without_overlap": result.cycles_without_overlap,
        "levels": [asdict(level) for level in result.levels],
        "tensors": [_tensor_json(tensor) for tensor in result.tensors],
        "networks": [asdict(network) for network in result.networks],
        "energy": [dict(row) for row in result.energy_rows()],
        "cycles_by_component": [dict(row) for row in result.cycle_rows()],
        "imperfect": sorted(result.mapping.imperfect),
        "padded": result.mapping.padding,
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


def read_mapping_json(recorded: Mapping[str, Any]) -> LoopNest:
    """Mapping of a result or a point: its levels, the dimensions that may leave remainders, and those padded.

    Raises
    ------
    AccelsimError
        If it is none.
    """
    try:
        padded = tuple(Loop(dim, bound) for dim, bound in dict(recorded["padded"]).items())
        return LoopNest(tuple(map(_read_level, recorded["mapping"])), frozenset(recorded["imperfect"]), padded)
    except (KeyError, TypeError, ValueError) as error:
        raise AccelsimError(f"the mapping in the file cannot be read: {error}") from None


def _read_level(level: Mapping[str, Any]) -> LevelMapping:
    temporal, x, y = (tuple(Loop(dim, bound) for dim, bound in level[block]) for block in ("temporal", "x", "y"))
    return LevelMapping(level["level"], temporal, x=x, y=y, keep=frozenset(level["keep"]))


def search_json(search: SearchResult, provenance: Provenance) -> dict[str, Any]:
    """How a search went and what it proved or saw, as plain values; the best mapping itself is not in it.

    What a search has not got is null, or an empty list. `ranked` is there if more than one mapping is listed.
    """
    from accelsim.inputs.objective import Objective

    goal, within = Objective.parse(search.objective), search.within
    return {
        "objective": search.objective,
        "method": search.method,
        "seed": search.seed if search.method == "random" else None,
        "budget": {"mappings": provenance.mappings, "seconds": provenance.seconds},
        "stop": search.stop,
        "uneven": search.uneven,
        "imperfect": list(search.imperfect),
        "padded": list(search.padded),
        "limits": list(search.limits),
        "space_size": search.space_size,
        "certificate": None if search.certificate is None else certificate_json(search.certificate),
        "within": None if within is None else {"share": within[0], "mappings": within[1]},
        "ranked": [
            {"value": goal.of(result), **point_json(result)}
            for result in (search.ranked if len(search.ranked) > 1 else ())
        ],
        "sample": None if search.sample is None else sample_json(search.sample),
    }


def certificate_json(certificate: Certificate) -> dict[str, Any]:
    """What a search proves, as plain values; the gap is null while the bound is 0, so that none is known."""
    gap = certificate.gap if math.isfinite(certificate.gap) else None
    work = {name: getattr(certificate, name) for name in ("nodes", "evaluated", "table_bytes")}
    return {"value": certificate.value, "bound": certificate.bound, "gap": gap, "proved": certificate.proved, **work}


def read_certificate(recorded: Mapping[str, Any]) -> Certificate:
    """Certificate that `certificate_json` wrote; the gap follows from value and bound."""
    return Certificate(**{each.name: recorded[each.name] for each in fields(Certificate)})


def read_search(recorded: Mapping[str, Any], ranked: Sequence[Result]) -> SearchResult:
    """Search that `search_json` wrote, with its mappings, evaluated; the best one is the first. It has no sample."""
    proof, within = recorded["certificate"], recorded["within"]
    return SearchResult(
        best=ranked[0],
        objective=recorded["objective"],
        method=recorded["method"],
        stop=recorded["stop"],
        seed=recorded["seed"] or 0,
        space_size=recorded["space_size"],
        seconds=0.0,
        certificate=None if proof is None else read_certificate(proof),
        ranked=tuple(ranked),
        within=None if within is None else (within["share"], within["mappings"]),
        uneven=recorded["uneven"],
        imperfect=tuple(recorded["imperfect"]),
        padded=tuple(recorded["padded"]),
        limits=tuple(recorded["limits"]),
    )


def point_json(result: Result) -> dict[str, Any]:
    """One mapping among several: what it costs, and its loops."""
    return {
        "energy_pj": result.energy_pj,
        "cycles": result.cycles,
        "edp_pj_cycles": result.edp,
        "utilization": result.utilization,
        "imperfect": sorted(result.mapping.imperfect),
        "padded": result.mapping.padding,
        "mapping": mapping_json(result.mapping),
    }


def sample_json(sample: Sample) -> dict[str, Any]:
    """What an exhaustive or random search saw, as plain values."""
    spread = sample.spread
    exact = {0.0: spread.min_pj, 1.0: spread.max_pj}
    return {
        "seen": sample.seen,
        "valid": sample.valid,
        "rejections": [asdict(rejection) for rejection in sample.rejections],
        "spread": {
            "resolution": spread.resolution,
            "min_pj": spread.min_pj,
            "max_pj": spread.max_pj,
            "max_over_min": spread.ratio,
            "quantiles": [
                {"share": share, "energy_pj": exact.get(share, spread.quantile_pj(share))} for share in QUANTILES
            ],
            "within": [
                {"factor": factor, "count": spread.within(factor), "share": spread.within(factor) / spread.valid}
                for factor in WITHIN
            ],
            "histogram": [list(part) for part in spread.histogram(MOST_BINS) if part[2]],
        },
        "curve": [list(point) for point in sample.curve],
    }


def front_json(front: FrontResult, provenance: Provenance, machine: Mapping[str, Any]) -> dict[str, Any]:
    """Document of a Pareto front: each point with its values, in the order of the columns, and its mapping."""
    first = front.points[0]
    return {
        **provenance_json(provenance),
        "front": {
            "architecture": first.architecture,
            "layer": first.workload,
            "columns": list(front.columns),
            "budget": {"mappings": provenance.mappings, "seconds": provenance.seconds},
            "stop": front.stop,
            "limits": list(front.limits),
            "space_size": front.space_size,
            "nodes": front.nodes,
            "evaluated": front.evaluated,
            "table_bytes": front.table_bytes,
            "points": [
                {"values": list(values), **point_json(result)}
                for values, result in zip(front.values, front.points, strict=True)
            ],
        },
        **machine,
    }


def evaluation_json(result: Result, provenance: Provenance, machine: Mapping[str, Any]) -> dict[str, Any]:
    """Document of one evaluated mapping; `machine` is the `machine_json` of the machine."""
    return {**provenance_json(provenance), "result": result_json(result), **machine}


def map_json(search: SearchResult, provenance: Provenance, machine: Mapping[str, Any]) -> dict[str, Any]:
    """Document of one mapped layer."""
    return {**provenance_json(provenance), **searched_json(search, provenance), **machine}


def searched_json(search: SearchResult, provenance: Provenance) -> dict[str, Any]:
    """The best mapping of a layer, how it was found and what is proved about it."""
    return {"result": result_json(search.best), "search": search_json(search, provenance)}


@dataclass(frozen=True, slots=True)
class LayerOutcome:
    """One layer of a network and what the search found for it; `why_not` says why if it found nothing."""

    einsum: Einsum
    search: SearchResult | None
    why_not: str = ""
    limits: Limits | None = None


def network_totals(outcomes: Sequence[LayerOutcome], yields: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Totals over the mapped layers, each counted as often as the network has it.

    Parameters
    ----------
    yields : mapping of str to int, optional
        What one run gives; rates are only told where every layer is mapped.

    Returns
    -------
    dict
        Energy [pJ], cycles, words and bytes at the outermost level, time [s], and what a run yields a second.
    """
    mapped = [(o.einsum.repeat, o.search.best) for o in outcomes if o.search is not None]
    macs = sum(repeat * best.macs for repeat, best in mapped)
    energy_pj = sum(repeat * best.energy_pj for repeat, best in mapped)
    cycles = sum(repeat * best.cycles for repeat, best in mapped)
    capacity = sum(repeat * best.cycles * best.compute_instances / best.cycles_per_mac for repeat, best in mapped)
    clock_hz = mapped[0][1].clock_hz if mapped else None
    outermost = mapped[0][1].levels[0] if mapped else None
    outer_words = sum(repeat * best.outer_words for repeat, best in mapped)
    whole = all(o.search is not None for o in outcomes)
    item, items = next(iter((yields or {}).items()), ("", 0))
    seconds = cycles / clock_hz if clock_hz else None
    return {
        "layers": sum(repeat for repeat, _ in mapped),
        "distinct_layers": len(alike_layers([o for o in outcomes if o.search is not None])),
        "unmapped": [o.einsum.name for o in outcomes if o.search is None],
        "macs": macs,
        "energy_pj": energy_pj,
        "pj_per_mac": energy_pj / macs if macs else None,
        "cycles": cycles,
        "run_time_s": seconds,
        "utilization": macs / capacity if capacity else None,
        "outermost": None if outermost is None else outermost.level,
        "outer_words": outer_words,
        "outer_bytes": 0 if outermost is None else outer_words * outermost.word_bits // 8,
        "yields": item or None,
        "yields_per_run": items or None,
        "yields_per_s": items / seconds if items and seconds and whole else None,
        "energy_pj_per_yield": energy_pj / items if items and whole else None,
        "certificate": _total_certificate(outcomes),
    }


def _total_certificate(outcomes: Sequence[LayerOutcome]) -> dict[str, Any] | None:
    """Objective of all mapped layers together and what it can fall to; None if a layer has no bound or there is none.

    The layers are mapped one by one, so the least sum is the sum of the least, and bounds add up too.
    """
    found = [(o.einsum.repeat, o.search.certificate) for o in outcomes if o.search is not None]
    certificates = [(repeat, certificate) for repeat, certificate in found if certificate is not None]
    if not certificates or len(certificates) < len(found):
        return None
    value = sum(repeat * certificate.value for repeat, certificate in certificates)
    bound = sum(repeat * certificate.bound for repeat, certificate in certificates)
    proved = all(certificate.proved for _, certificate in certificates)
    gap = 0.0 if proved else max(0.0, value / bound - 1.0) if bound > 0 else None
    return {"value": value, "bound": bound, "gap": gap, "proved": proved}


def layer_rows(outcomes: Sequence[LayerOutcome]) -> list[dict[str, Any]]:
    """What each mapped layer has of the network: shares (0..1) of energy and cycles, and lower limits.

    `energy_above_limit` and `cycles_above_limit` are the parts of the network's total that the layer, as often as it
    occurs, takes above its lower limit: no machine-independent promise, but no mapping can save more there.
    """
    mapped = [(o, o.search.best) for o in outcomes if o.search is not None]
    energy_pj = sum(o.einsum.repeat * best.energy_pj for o, best in mapped)
    cycles = sum(o.einsum.repeat * best.cycles for o, best in mapped)
    rows = []
    for o, best in mapped:
        repeat, limits = o.einsum.repeat, o.limits
        above = None if limits is None else max(0.0, best.energy_pj - limits.energy_pj)
        waits = None if limits is None else max(0, best.cycles - limits.cycles)
        rows.append(
            {
                "layer": o.einsum.name,
                "energy_share": repeat * best.energy_pj / energy_pj if energy_pj else 0.0,
                "cycles_share": repeat * best.cycles / cycles,
                "energy_limit_pj": None if limits is None else limits.energy_pj,
                "cycles_limit": None if limits is None else limits.cycles,
                "energy_above_limit": None if above is None else repeat * above / energy_pj if energy_pj else 0.0,
                "cycles_above_limit": None if waits is None else repeat * waits / cycles,
            }
        )
    return rows


def network_rows(outcomes: Sequence[LayerOutcome]) -> list[dict[str, Any]]:
    """Each layer as a document names it: with its part of the network, or why it has no valid mapping."""
    shares, found = iter(layer_rows(outcomes)), []
    for outcome in outcomes:
        row: dict[str, Any] = {"layer": outcome.einsum.name, "repeat": outcome.einsum.repeat}
        if outcome.search is None:
            found.append({**row, "no_valid_mapping": outcome.why_not})
        else:
            found.append({**row, "in_network": {k: v for k, v in next(shares).items() if k != "layer"}})
    return found


def network_json(
    names: tuple[str, str],
    outcomes: Sequence[LayerOutcome],
    yields: Mapping[str, int] | None,
    provenance: Provenance,
    machine: Mapping[str, Any],
) -> dict[str, Any]:
    """Document of a mapped network: names of workload and architecture, totals, each layer, and the machine."""
    found = [{} if o.search is None else searched_json(o.search, provenance) for o in outcomes]
    return {
        **provenance_json(provenance),
        "workload": names[0],
        "architecture": names[1],
        "total": network_totals(outcomes, yields),
        "layers": [{**row, **searched} for row, searched in zip(network_rows(outcomes), found, strict=True)],
        **machine,
    }


def alike_layers(outcomes: Sequence[LayerOutcome]) -> list[LayerOutcome]:
    """Layers that differ in their names alone as one row, under the first name, which counts them all."""
    keys: list[object] = []
    found: list[list[LayerOutcome]] = []
    for outcome in outcomes:
        answer = outcome.why_not if outcome.search is None else outcome.search.best.mapping
        proof = None if outcome.search is None else outcome.search.certificate
        key = replace(outcome.einsum, name="", repeat=1), answer, proof
        if key not in keys:
            keys.append(key)
            found.append([])
        found[keys.index(key)].append(outcome)
    groups = []
    for several in found:
        einsum, more = several[0].einsum, len(several) - 1
        name = einsum.name + (f" +{more}" if more else "")
        repeat = sum(outcome.einsum.repeat for outcome in several)
        groups.append(replace(several[0], einsum=replace(einsum, name=name, repeat=repeat)))
    return groups
