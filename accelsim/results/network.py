"""The layers of a mapped network: totals, shares, and layers that differ in their names alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from accelsim.inputs.workload import Einsum
from accelsim.results.output import Provenance, provenance_json, searched_json
from accelsim.search.result import SearchResult

if TYPE_CHECKING:
    from accelsim.model.limits import Limits


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
    outcomes : sequence of LayerOutcome
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
