"""The report on a network: a row for each layer, totals, and the layers that have most to gain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from accelsim.inputs.units import format_si
from accelsim.results.output import LayerOutcome, alike_layers, layer_rows, network_totals
from accelsim.search.result import Certificate
from accelsim.show.report.certificate import gap_text
from accelsim.show.report.text import count, energy, percent, share, times
from accelsim.show.table import Column, Part, Row, Table, bold, dim

_FIRST, _LEAST = 5, 0.0005
"""Layers that are named as the first to look at, each with at least so much of the total above its limit."""


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


def rows_of_layers(outcomes: Sequence[LayerOutcome]) -> list[dict[str, Any]]:
    """One row for each different layer: what a run of it costs, its shares of the network, and what is proved."""
    groups, rows = alike_layers(outcomes), []
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
    totals, rows = network_totals(outcomes, yields), rows_of_layers(outcomes)
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
    yield from _first(alike_layers(outcomes), "cycles" if objectives == "cycles" else "energy")


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
