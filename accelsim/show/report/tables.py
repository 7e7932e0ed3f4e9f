"""Tables of the other commands: energies of a machine, shipped files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from accelsim.inputs.units import format_si
from accelsim.show.report.text import count, print_table, share, table, title


def print_energies(
    console: Console,
    machine: str,
    rows: Sequence[Mapping[str, Any]],
    areas: Sequence[Mapping[str, Any]] = (),
    peaks: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Print the energy of each action, how it came about, areas, and power with everything busy.

    `rows`, `areas` and `peaks` are those of `accelsim.inputs.machine_tables`: `energy_rows`, `area_rows`, `peak_rows`.
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
    if any(row["power_w"] is not None for row in peaks):
        _print_peaks(console, peaks)
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


def _print_peaks(console: Console, peaks: Sequence[Mapping[str, Any]]) -> None:
    """Print the power of each component with everything busy, that of all, and of all but the outermost level."""
    title(console, "Peak power", "all compute units and ports busy in each cycle; networks and control are not in it")
    made = table("component", "busy", "power", left=(0, 1))
    before, outermost = "", peaks[0]["component"]
    for row in peaks:
        name = "" if row["component"] == before else row["component"]
        before = row["component"]
        made.add_row(name, row["how"], "" if row["power_w"] is None else format_si(row["power_w"], "W", 4))
    made.add_section()
    known = [row for row in peaks if row["power_w"] is not None]
    for what, counted in (
        ("sum" if len(known) == len(peaks) else "sum of the known", known),
        (f"without {outermost}", [row for row in known if row["component"] != outermost]),
    ):
        made.add_row(what, "", format_si(sum(row["power_w"] for row in counted), "W", 4))
    print_table(console, made)
    if len(known) < len(peaks):
        console.print(Text("A level whose bandwidth is not limited, and which the MACs do not ask, has no peak."))


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
