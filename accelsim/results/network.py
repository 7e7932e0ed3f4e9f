"""Networks: their layers mapped one by one, what each costs and adds up to, as rows and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import NoValidMappingError
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.limits import Limits, layer_limits
from accelsim.results import Provenance, provenance_json
from accelsim.results.cache import MapOptions, Searched, content_key, search_once
from accelsim.results.output import searched_json, zeros_json
from accelsim.search.result import SearchResult

if TYPE_CHECKING:
    from accelsim.search.zeros import BestWithZeros


@dataclass(frozen=True, slots=True)
class LayerOutcome:
    """One layer of a network and what the search found for it; `why_not` says why if it found nothing.

    `zeros` is what a document says of zeros (`zeros_json`): what they save, and of the best mapping with them.
    """

    einsum: Einsum
    search: SearchResult | None
    why_not: str = ""
    limits: Limits | None = None
    zeros: Mapping[str, Any] = field(default_factory=dict)


def map_layers(
    architecture: Architecture,
    layers: Sequence[Einsum],
    options: MapOptions,
    constraints_of: Callable[[Einsum], Constraints | None],
    search: Callable[[Einsum, int], SearchResult],
    best: Callable[[Einsum, SearchResult], BestWithZeros | None],
) -> Iterator[LayerOutcome]:
    """Map each layer, equal ones once; ends early where the user interrupts it.

    `search` finds the best mapping of a layer, and takes its number too; `best` that with zeros left out, on a machine
    that does something about them.
    """
    searched: Searched = {}
    of_zeros: dict[tuple[str, tuple[str, ...], tuple[Tensor, ...]], dict[str, Any]] = {}
    for number, einsum in enumerate(layers, 1):
        key = content_key(architecture, einsum, options, constraints_of(einsum))
        try:
            found = search_once(searched, key, architecture, einsum, partial(search, einsum, number))
            same = key, tuple(einsum.dims), einsum.tensors  # a document names dimensions and tensors
            if architecture.saves_zeros and found.stop != "interrupted" and same not in of_zeros:
                from accelsim.model.sparsity import sparse_result

                sparse = sparse_result(architecture, einsum, found.best)
                of_zeros[same] = zeros_json(sparse, best(einsum, found))
            limits = layer_limits(architecture, einsum)
            outcome = LayerOutcome(einsum, found, limits=limits, zeros=of_zeros.get(same, {}))
        except NoValidMappingError as error:
            yield LayerOutcome(einsum, None, str(error))
            continue
        except KeyboardInterrupt:
            return
        yield outcome
        if found.stop == "interrupted":
            return


_COSTS = ("energy_pj", "energy_share", "pj_per_mac", "cycles", "cycles_share", "utilization", "bottleneck")
"""What a row of a layer says of its mapping, and of its part of the network."""


def rows_of_layers(outcomes: Sequence[LayerOutcome]) -> list[dict[str, Any]]:
    """One row for each different layer: what a run of it costs, its shares of the network, and what is proved."""
    groups, rows = alike_layers(outcomes), []
    shares = {row["layer"]: row for row in layer_rows(groups)}
    for group in groups:
        einsum, search = group.einsum, group.search
        best, proof = (None, None) if search is None else (search.best, search.proof)
        row: dict[str, Any] = {"layer": einsum.name, "repeat": einsum.repeat, "macs": einsum.real_macs}
        row |= {name: getattr(best, name, shares.get(einsum.name, {}).get(name)) for name in _COSTS}
        row["gap"] = None if proof is None or not math.isfinite(proof.gap) else proof.gap
        rows.append({**row, "proved": None if proof is None else proof.proved, **_sparse_row(group)})
    return rows


def _sparse_row(outcome: LayerOutcome) -> dict[str, Any]:
    """What the best mapping of a layer with zeros left out costs; nothing where nothing is known of zeros."""
    if "sparse_best" not in outcome.zeros:
        return {}
    best, compute = outcome.zeros["sparse_best"], outcome.zeros["sparse"]["compute"]
    keys = {"sparse_energy_pj": "energy_pj", "sparse_cycles": "cycles", "sparse_gap": "gap", "sparse_proved": "proved"}
    return {**{key: best[of] for key, of in keys.items()}, "effective": compute["actual_macs"] / compute["dense_macs"]}


def sparse_totals(outcomes: Sequence[LayerOutcome]) -> dict[str, Any]:
    """Energy [pJ], cycles and effective MACs of the best mappings with zeros left out, and whether all are proved.

    Nothing unless each mapped layer has one.
    """
    rows = [(o.einsum.repeat, _sparse_row(o), o.einsum.macs) for o in outcomes if o.search is not None]
    if not rows or not all(row for _, row, _ in rows):
        return {}
    return {
        "sparse_energy_pj": sum(repeat * row["sparse_energy_pj"] for repeat, row, _ in rows),
        "sparse_cycles": sum(repeat * row["sparse_cycles"] for repeat, row, _ in rows),
        "effective_macs": sum(repeat * row["effective"] * macs for repeat, row, macs in rows),
        "sparse_proved": all(row["sparse_proved"] for _, row, _ in rows),
    }


def network_totals(outcomes: Sequence[LayerOutcome], yields: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Totals over the mapped layers, each counted as often as the network has it.

    Energy [pJ], cycles, words and bytes at the outermost level, time [s], and what a run `yields` a second; rates are
    only told where every layer is mapped.
    """
    mapped = [(o.einsum.repeat, o.search.best) for o in outcomes if o.search is not None]
    macs, energy_pj, cycles, offchip_words = (
        sum(repeat * getattr(best, name) for repeat, best in mapped)
        for name in ("macs", "energy_pj", "cycles", "offchip_words")
    )
    capacity = sum(repeat * best.cycles * best.compute_instances / best.cycles_per_mac for repeat, best in mapped)
    clock_hz = mapped[0][1].clock_hz if mapped else None
    outermost = mapped[0][1].levels[0] if mapped else None
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
        "offchip_words": offchip_words,
        "offchip_bytes": 0 if outermost is None else offchip_words * outermost.word_bits // 8,
        "yields": item or None,
        "yields_per_run": items or None,
        "yields_per_s": items / seconds if items and seconds and whole else None,
        "energy_pj_per_yield": energy_pj / items if items and whole else None,
        "certificate": _total_certificate(outcomes),
        **sparse_totals(outcomes),
    }


def _total_certificate(outcomes: Sequence[LayerOutcome]) -> dict[str, Any] | None:
    """Objective of all mapped layers together and what it can fall to; None if a layer has no bound or there is none.

    The layers are mapped one by one, so the least sum is the sum of the least, and bounds add up too. All are of the
    same mappings: those that were looked at.
    """
    found = [(o.einsum.repeat, o.search.proof) for o in outcomes if o.search is not None]
    certificates = [(repeat, certificate) for repeat, certificate in found if certificate is not None]
    if not certificates or len(certificates) < len(found):
        return None
    value = sum(repeat * certificate.value for repeat, certificate in certificates)
    bound = sum(repeat * certificate.bound for repeat, certificate in certificates)
    proved = all(certificate.proved for _, certificate in certificates)
    gap = 0.0 if proved else max(0.0, value / bound - 1.0) if bound > 0 else None
    return {"value": value, "bound": bound, "gap": gap, "proved": proved}


def run_row(outcomes: Sequence[LayerOutcome], objective: str) -> dict[str, Any]:
    """What a run of several comes to: costs of all its layers together, or which of them have no valid mapping.

    `value` is that of the objective, the sum over the layers; `proved` says whether each layer's mapping is optimal. Of
    one layer also the compute units that are used.
    """
    totals, missing = network_totals(outcomes), [o for o in outcomes if o.search is None]
    keys = ("energy_pj", "pj_per_mac", "cycles", "utilization", "offchip_words")
    row = {key: None if missing else totals[key] for key in keys}
    if len(outcomes) == 1:
        best = None if outcomes[0].search is None else outcomes[0].search.best
        row |= {name: getattr(best, name, None) for name in ("compute_used", "compute_instances")}
    row |= {key: totals[key] for key in ("sparse_energy_pj", "sparse_cycles", "sparse_proved") if key in totals}
    found = [(o.einsum.repeat, o.search) for o in outcomes if o.search is not None]
    goal, proofs = Objective.parse(objective), [search.proof for _, search in found]
    row["value"] = None if missing else sum(repeat * goal.of(search.best) for repeat, search in found)
    row["proved"] = not missing and all(proof is not None and proof.proved for proof in proofs)
    row["no_valid_mapping"] = "; ".join(o.why_not if len(outcomes) == 1 else o.einsum.name for o in missing)
    return row


def layer_rows(outcomes: Sequence[LayerOutcome]) -> list[dict[str, Any]]:
    """What each mapped layer has of the network: shares (0..1) of energy and cycles, and lower limits.

    `energy_above_limit` and `cycles_above_limit` are the parts of the network's total that the layer, as often as it
    occurs, takes above its lower limit: no machine-independent promise, but no mapping can save more there.
    """
    mapped = [(o, o.search.best) for o in outcomes if o.search is not None]
    energy_pj = sum(o.einsum.repeat * best.energy_pj for o, best in mapped)
    cycles = sum(o.einsum.repeat * best.cycles for o, best in mapped)

    def share(repeat: int, value: float, of: float) -> float:
        return repeat * max(0, value) / of if of else 0.0

    found = []
    for o, best in mapped:
        repeat, limits = o.einsum.repeat, o.limits
        row: dict[str, Any] = {
            "layer": o.einsum.name,
            "energy_share": share(repeat, best.energy_pj, energy_pj),
            "cycles_share": share(repeat, best.cycles, cycles),
            **dict.fromkeys(("energy_limit_pj", "cycles_limit", "energy_above_limit", "cycles_above_limit")),
        }
        if limits is not None:
            row |= {"energy_limit_pj": limits.energy_pj, "cycles_limit": limits.cycles}
            row["energy_above_limit"] = share(repeat, best.energy_pj - limits.energy_pj, energy_pj)
            row["cycles_above_limit"] = share(repeat, best.cycles - limits.cycles, cycles)
        found.append(row)
    return found


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
    found = [{} if o.search is None else {**searched_json(o.search, provenance), **o.zeros} for o in outcomes]
    return {
        **provenance_json(provenance),
        "workload": names[0],
        "architecture": names[1],
        "total": network_totals(outcomes, yields),
        "layers": [{**row, **searched} for row, searched in zip(network_rows(outcomes), found, strict=True)],
        **machine,
    }


def left_out_json(layers: Sequence[Einsum]) -> dict[str, Any]:
    """What a document says of layers that do not count; nothing where all do."""
    found = [{"layer": layer.name, "repeat": layer.repeat, "operation": layer.operation} for layer in layers]
    return {"left_out": found} if found else {}


def alike_layers(outcomes: Sequence[LayerOutcome]) -> list[LayerOutcome]:
    """Layers that differ in their names alone as one row, under the first name, which counts them all."""
    keys: list[object] = []
    found: list[list[LayerOutcome]] = []
    for outcome in outcomes:
        answer = outcome.why_not if outcome.search is None else outcome.search.best.mapping
        proof = None if outcome.search is None else outcome.search.proof
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
