"""Tables of the other commands: layers of a network, energies of a machine, shipped files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from accelsim.report.certificate import gap_text
from accelsim.report.text import count, energy, percent, print_table, share, table, title
from accelsim.result import Certificate, SearchResult
from accelsim.workload import Einsum


@dataclass(frozen=True, slots=True)
class LayerOutcome:
    """One layer of a network and what the search found for it; `why_not` says why if it found nothing."""

    einsum: Einsum
    search: SearchResult | None
    why_not: str = ""


def network_totals(outcomes: Sequence[LayerOutcome]) -> dict[str, Any]:
    """Totals over the mapped layers, each counted as often as the network has it; energy [pJ]."""
    mapped = [(o.einsum.repeat, o.search.best) for o in outcomes if o.search is not None]
    macs = sum(repeat * best.macs for repeat, best in mapped)
    energy_pj = sum(repeat * best.energy_pj for repeat, best in mapped)
    cycles = sum(repeat * best.cycles for repeat, best in mapped)
    capacity = sum(repeat * best.cycles * best.compute_instances / best.cycles_per_mac for repeat, best in mapped)
    return {
        "layers": sum(repeat for repeat, _ in mapped),
        "distinct_layers": len(mapped),
        "unmapped": [o.einsum.name for o in outcomes if o.search is None],
        "macs": macs,
        "energy_pj": energy_pj,
        "pj_per_mac": energy_pj / macs if macs else None,
        "cycles": cycles,
        "utilization": macs / capacity if capacity else None,
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


def print_network(console: Console, network: str, machine: str, outcomes: Sequence[LayerOutcome]) -> None:
    """Print one row for each layer, and the totals of the network."""
    totals = network_totals(outcomes)
    objectives = ", ".join(dict.fromkeys(o.search.objective for o in outcomes if o.search is not None))
    console.print(Text(f"{network} on {machine}", style="bold").append(_for(objectives), style="not bold"))
    console.print()
    made = table(
        "layer", "rep.", "MACs", "energy", "pJ/MAC", "cycles", "util.", "bottleneck", "share", "gap",
        left=(0, 7), fold=(0,),
    )  # fmt: skip
    for outcome in outcomes:
        name, repeat, macs = outcome.einsum.name, str(outcome.einsum.repeat), count(outcome.einsum.macs)
        if outcome.search is None:
            made.add_row(name, repeat, macs, "none valid", *[""] * 6)
            continue
        best = outcome.search.best
        part = outcome.einsum.repeat * best.energy_pj / totals["energy_pj"]
        cells = (energy(best.energy_pj), f"{best.pj_per_mac:.4g}", count(best.cycles), percent(best.utilization))
        made.add_row(name, repeat, macs, *cells, best.bottleneck, share(part), _gap(outcome.search.certificate))
    made.add_section()
    if totals["macs"]:
        cells = (
            energy(totals["energy_pj"]),
            f"{totals['pj_per_mac']:.4g}",
            count(totals["cycles"]),
            percent(totals["utilization"]),
        )
        made.add_row("total", str(totals["layers"]), count(totals["macs"]), *cells, "", "100 %", "")
    print_table(console, made)
    console.print(Text(_total_verdict(outcomes, totals["certificate"]), style="bold"))
    console.print(Text("Rows are one run of a layer; share (of energy) and total count it 'rep.' times.", style="dim"))
    console.print(Text("gap: by how much the best possible may be lower; proved: by nothing; -: unknown.", style="dim"))
    for outcome in outcomes:
        if outcome.search is None:
            console.print(Text(f"{outcome.einsum.name}: not mapped; the total is without it", style="bold"))


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


def print_energies(
    console: Console, machine: str, rows: Sequence[Mapping[str, Any]], areas: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Print the energy of each action, how it came about, and areas.

    `rows` and `areas` are those of `accelsim.output.energy_rows` and `area_rows`.
    """
    console.print(Text(f"Energies of {machine} [pJ]", style="bold"))
    console.print(Text("read, write, update: an access; transfer: a word; compute: a MAC; leak: a cycle and instance"))
    console.print()
    sources = list(dict.fromkeys(row["source"] for row in (*rows, *areas) if row["source"]))
    made = table("component", "tensors", "action", "pJ", "pJ/word", "pJ/bit", "source", left=(0, 1, 2), fold=(1,))
    before = ""
    for row in rows:
        name = "" if row["component"] == before else row["component"]
        before = row["component"]
        if row["energy_pj"] is None:
            made.add_row(name, row["role"], row["action"], "not modelled", "", "", "")
            continue
        energies = (_pj(row[key]) for key in ("energy_pj", "pj_per_word", "pj_per_bit"))
        made.add_row(name, row["role"], row["action"], *energies, f"[{sources.index(row['source']) + 1}]")
    print_table(console, made)
    _print_formulas(console, rows)
    if any(row["area_um2"] is not None for row in areas):
        _print_areas(console, areas, sources)
    console.print()
    for number, source in enumerate(sources, 1):
        console.print(Text(f"[{number}] {source}"))


def _print_formulas(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print how each energy came about, actions of one formula together, and what counts as 0."""
    named: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["formula"]:
            roles = "" if row["role"] == "all" else f" of {row['role']}"
            named.setdefault((row["component"], row["formula"]), []).append(f"{row['action']}{roles}")
    if named:
        title(console, "Formulas")
        for (component, formula), actions in named.items():
            console.print(Text(f"{component} {', '.join(actions)}: {formula}"))
    without = [f"{row['component']} {row['action']}" for row in rows if row["energy_pj"] is None]
    if without:
        console.print(Text(f"Not modelled, and so counted as 0: {', '.join(without)}."))


def _print_areas(console: Console, areas: Sequence[Mapping[str, Any]], sources: Sequence[str]) -> None:
    """Print the area of each component and of all that have one."""
    title(console, "Area", "of the levels and compute units; networks and control are not in it")
    made = table("component", "instances", "each [um2]", "all [mm2]", "share", "source")
    known = [row for row in areas if row["area_um2"] is not None]
    total = sum(row["total_um2"] for row in known)
    for row in areas:
        if row["area_um2"] is None:
            made.add_row(row["component"], f"{row['instances']:,}", "no source", "", "", "")
            continue
        part = share(row["total_um2"] / total) if total else ""
        cells = (f"{row['area_um2']:,.6g}", f"{row['total_um2'] / 1e6:.4g}", part)
        made.add_row(row["component"], f"{row['instances']:,}", *cells, f"[{sources.index(row['source']) + 1}]")
    made.add_section()
    made.add_row("sum" if len(known) == len(areas) else "sum of the known", "", "", f"{total / 1e6:.4g}", "", "")
    print_table(console, made)
    for row in known:
        if row["formula"]:
            console.print(Text(f"{row['component']}: {row['formula']}"))


def _pj(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def print_shipped(console: Console, kind: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Print what ships of one kind; rows have `name`, `about` and, for workloads, `layers` and `macs`."""
    rows = list(rows)
    title(console, kind)
    sized = any("macs" in row for row in rows)
    columns = ("name", "layers", "MACs", "what it is") if sized else ("name", "what it is")
    made = table(*columns, fold=(len(columns) - 1,))
    for row in rows:
        sizes = (str(row["layers"]), count(row["macs"])) if sized else ()
        made.add_row(row["name"], *sizes, row["about"])
    print_table(console, made)
