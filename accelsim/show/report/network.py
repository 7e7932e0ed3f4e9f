"""The report on a network: a row for each layer, totals, and the layers that have most to gain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from accelsim.inputs.units import format_si
from accelsim.results.network import LayerOutcome, alike_layers, layer_rows, network_totals
from accelsim.search.result import Certificate
from accelsim.show.report.certificate import gap_text
from accelsim.show.report.text import count, energy, percent, print_table, share, table, times, title

if TYPE_CHECKING:
    pass

_WIDE = 100
"""Columns from which the table has more of them."""
_FIRST, _LEAST = 5, 0.0005
"""Layers that are named as the first to look at, each with at least so much of the total above its limit."""


def print_network(
    console: Console,
    network: str,
    machine: str,
    outcomes: Sequence[LayerOutcome],
    yields: Mapping[str, int] | None = None,
) -> None:
    """Print one row for each different layer, the totals of the network, and which layers have most to gain."""
    totals, groups = network_totals(outcomes, yields), alike_layers(outcomes)
    rows = {row["layer"]: row for row in layer_rows(groups)}
    objectives = ", ".join(dict.fromkeys(o.search.objective for o in outcomes if o.search is not None))
    console.print(Text(f"{network} on {machine}", style="bold").append(_for(objectives), style="not bold"))
    console.print()
    wide = console.width >= _WIDE
    columns = ["layer", "rep.", *(["MACs"] if wide else []), "energy", "share", "pJ/MAC", "cycles", "share", "util."]
    below = [f"\n{name}" for name in columns]
    made = table(*below, "bottle-\nneck", "\ngap", left=(0, len(columns)), fold=(0,))
    for group in groups:
        head = [group.einsum.name, str(group.einsum.repeat), *([count(group.einsum.real_macs)] if wide else [])]
        if group.search is None:
            made.add_row(*head, "none valid", *[""] * 7)
            continue
        best, row = group.search.best, rows[group.einsum.name]
        spent = (energy(best.energy_pj), share(row["energy_share"]), f"{best.pj_per_mac:.4g}")
        taken = (count(best.cycles), share(row["cycles_share"]), percent(best.utilization))
        made.add_row(*head, *spent, *taken, best.bottleneck, _gap(group.search.certificate))
    made.add_section()
    if totals["macs"]:
        head = ["total", str(totals["layers"]), *([count(totals["macs"])] if wide else [])]
        spent = (energy(totals["energy_pj"]), "100 %", f"{totals['pj_per_mac']:.4g}")
        made.add_row(*head, *spent, count(totals["cycles"]), "100 %", percent(totals["utilization"]), "", "")
    print_table(console, made)
    for line in _total_lines(totals):
        console.print(Text(line))
    console.print(Text(_total_verdict(outcomes, totals["certificate"]), style="bold"))
    more = "; +n: and n more that are alike" if len(groups) < len(outcomes) else ""
    console.print(Text(f"Rows are one run of a layer; shares and total count it 'rep.' times{more}.", style="dim"))
    console.print(Text("gap: by how much the best possible may be lower; proved: by nothing; -: unknown.", style="dim"))
    for outcome in outcomes:
        if outcome.search is None:
            console.print(Text(f"{outcome.einsum.name}: not mapped; the total is without it", style="bold"))
    _print_first(console, groups, "cycles" if objectives == "cycles" else "energy")


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


def _print_first(console: Console, groups: Sequence[LayerOutcome], what: str) -> None:
    """Print the layers that have most to gain, in energy or cycles."""
    key = f"{what}_above_limit"
    rows = [row for row in layer_rows(groups) if row[key] is not None]
    first = [row for row in sorted(rows, key=lambda row: -row[key]) if row[key] >= _LEAST][:_FIRST]
    if not rows or len(groups) < 2:
        return
    rest = sum(row[key] for row in rows)
    if not first:
        console.print(f"\nNo layer is far above what no mapping falls below: all together {share(rest)} of the {what}")
        return
    title(console, "Layers to look at first", f"{what} above a limit that no mapping falls below")
    made = table("layer", f"share of {what}", "x the limit", "above it, of the total", fold=(0,))
    for row in first:
        part, above = row[f"{what}_share"], row[key]
        factor = part / (part - above) if part > above else math.inf
        made.add_row(row["layer"], share(part), times(factor), share(above))
    print_table(console, made)
    console.print(Text(f"All layers together: {share(rest)} of the {what} is above the limits.", style="dim"))


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
