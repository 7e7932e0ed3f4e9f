"""The report on a network: a row for each layer, totals, and the layers that have most to gain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from accelsim.inputs.units import format_si
from accelsim.inputs.workload import Einsum
from accelsim.search.result import Certificate, SearchResult
from accelsim.show.report.certificate import gap_text
from accelsim.show.report.text import count, energy, percent, share, times
from accelsim.show.table import Column, Part, Row, Table, bold, dim

if TYPE_CHECKING:
    from accelsim.model.limits import Limits

_FIRST, _LEAST = 5, 0.0005
"""Layers that are named as the first to look at, each with at least so much of the total above its limit."""


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
        "distinct_layers": len(_alike([o for o in outcomes if o.search is not None])),
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


def _alike(outcomes: Sequence[LayerOutcome]) -> list[LayerOutcome]:
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


_COLUMNS = (
    Column("\nlayer", "layer", fold=True),
    Column("\nrep.", "repeat"),
    Column("\nMACs", "macs", count, wide=True),
    Column("\nenergy", lambda row: "none valid" if row["energy_pj"] is None else energy(row["energy_pj"])),
    Column("\nshare", "energy_share", share),
    Column("\npJ/MAC", "pj_per_mac", "{:.4g}".format),
    Column("\ncycles", "cycles", count),
    Column("\nshare", "cycles_share", share),
    Column("\nutil.", "utilization", percent),
    Column("bottle-\nneck", "bottleneck", left=True),
    Column("\ngap", lambda row: row.get("verdict", "")),
)


def network_rows(outcomes: Sequence[LayerOutcome]) -> list[dict[str, Any]]:
    """One row for each different layer: what a run of it costs, its shares of the network, and what is proved."""
    groups, rows = _alike(outcomes), []
    shares = {row["layer"]: row for row in layer_rows(groups)}
    for group in groups:
        best = None if group.search is None else group.search.best
        certificate = None if group.search is None else group.search.certificate
        row = shares.get(group.einsum.name, {})
        rows.append(
            {
                "layer": group.einsum.name,
                "repeat": group.einsum.repeat,
                "macs": group.einsum.real_macs,
                "energy_pj": None if best is None else best.energy_pj,
                "energy_share": row.get("energy_share"),
                "pj_per_mac": None if best is None else best.pj_per_mac,
                "cycles": None if best is None else best.cycles,
                "cycles_share": row.get("cycles_share"),
                "utilization": None if best is None else best.utilization,
                "bottleneck": None if best is None else best.bottleneck,
                "gap": None if certificate is None or not math.isfinite(certificate.gap) else certificate.gap,
                "proved": None if certificate is None else certificate.proved,
                "verdict": "" if best is None else _gap(certificate),
            }
        )
    return rows


def network_report(
    network: str, machine: str, outcomes: Sequence[LayerOutcome], yields: Mapping[str, int] | None = None
) -> Iterator[Part]:
    """One row for each different layer, the totals of the network, and which layers have most to gain."""
    totals, rows = network_totals(outcomes, yields), network_rows(outcomes)
    objectives = ", ".join(dict.fromkeys(o.search.objective for o in outcomes if o.search is not None))
    yield bold(f"{network} on {machine}").append(_for(objectives) + "\n", style="not bold")
    total = {**totals, "layer": "total", "repeat": totals["layers"], "energy_share": 1, "cycles_share": 1}
    yield Table("layers", _COLUMNS, rows, below=[total] if totals["macs"] else [])
    yield from _total_lines(totals)
    yield bold(_total_verdict(outcomes, totals["certificate"]))
    more = "; +n: and n more that are alike" if len(rows) < len(outcomes) else ""
    yield dim(f"Rows are one run of a layer; shares and total count it 'rep.' times{more}.")
    yield dim("gap: by how much the best possible may be lower; proved: by nothing; -: unknown.")
    for outcome in outcomes:
        if outcome.search is None:
            yield bold(f"{outcome.einsum.name}: not mapped; the total is without it")
    yield from _first(_alike(outcomes), "cycles" if objectives == "cycles" else "energy")


def _total_lines(totals: Mapping[str, Any]) -> list[str]:
    """Totals beside those of the table: words at the outermost level, time and rate."""
    if not totals["macs"]:
        return []
    moved = f"{count(totals['outer_words'])} words ({format_si(totals['outer_bytes'], 'B', 4)})"
    lines = [f"{count(totals['macs'])} MACs; {moved} at {totals['outermost']}"]
    if totals["run_time_s"] is not None:
        lines.append(f"{format_si(totals['run_time_s'], 's', 4)} a run")
    if totals["yields_per_s"] is not None:
        lines.append(f"{_number(totals['yields_per_s'])} {totals['yields']} a second")
    if totals["energy_pj_per_yield"] is not None:
        lines.append(f"{energy(totals['energy_pj_per_yield'])} a {totals['yields'].removesuffix('s')}")
    return [lines[0], *filter(None, ["; ".join(lines[1:])])]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _first(groups: Sequence[LayerOutcome], what: str) -> Iterator[Part]:
    """The layers that have most to gain, in energy or cycles."""
    key = f"{what}_above_limit"
    rows = [row for row in layer_rows(groups) if row[key] is not None]
    first = [row for row in sorted(rows, key=lambda row: -row[key]) if row[key] >= _LEAST][:_FIRST]
    if not rows or len(groups) < 2:
        return
    rest = sum(row[key] for row in rows)
    if not first:
        yield f"\nNo layer is far above what no mapping falls below: all together {share(rest)} of the {what}"
        return

    def factor(row: Row) -> str:
        part, above = row[f"{what}_share"], row[key]
        return times(part / (part - above) if part > above else math.inf)

    columns = (
        Column("layer", "layer", fold=True),
        Column(f"share of {what}", f"{what}_share", share),
        Column("x the limit", factor),
        Column("above it, of the total", key, share),
    )
    yield Table("first", columns, first, "Layers to look at first", f"{what} above a limit that no mapping falls below")
    yield dim(f"All layers together: {share(rest)} of the {what} is above the limits.")


def _gap(certificate: Certificate | None) -> str:
    """Cell of the column `gap`."""
    if certificate is None:
        return "-"
    return "proved" if certificate.proved else gap_text(certificate.gap)


def _total_verdict(outcomes: Sequence[LayerOutcome], total: Mapping[str, Any] | None) -> str:
    """Say what is proved about all mapped layers together."""
    searches = [o.search for o in outcomes if o.search is not None]
    if not searches:
        return "no layer is mapped"
    proved = sum(search.certificate is not None and search.certificate.proved for search in searches)
    if proved == len(searches):
        return f"all {proved} mapped layers are optimal (proved), and so is the total"
    objective = searches[0].objective
    summed = "energy" if objective == "energy" else "cycles" if objective == "cycles" else f"sum of {objective}"
    known = "has no lower bound"
    if total is not None and total["gap"] is not None:
        known = f"is within {gap_text(total['gap'])} of optimal"
    return f"{proved} of {len(searches)} mapped layers are optimal (proved); the total {summed} {known}"


def _for(objectives: str) -> str:
    return f", each layer mapped for the lowest {objectives}" if objectives else ""
