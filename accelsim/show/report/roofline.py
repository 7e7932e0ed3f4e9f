"""The report on a roofline of a machine with storage levels: its ports, and where layers stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.units import format_si
from accelsim.model.limits import Stand, peak_macs_per_cycle, ports
from accelsim.show.report.text import percent, print_table, table, title


def port_rows(architecture: Architecture) -> list[dict[str, Any]]:
    """Each port of limited bandwidth: all instances together, and from how many MACs a byte it limits no more."""
    peak = peak_macs_per_cycle(architecture)
    return [
        {
            "port": port.name,
            "bytes_per_cycle": port.bytes_per_cycle,
            "bytes_per_s": port.bytes_per_cycle * architecture.clock_hz if architecture.clock_hz else None,
            "ridge_macs_per_byte": peak / port.bytes_per_cycle,
        }
        for port in ports(architecture)
    ]


def stand_row(stand: Stand, peak: float) -> dict[str, Any]:
    """Stand as a plain row, with shares of the peak."""
    return {**asdict(stand), "roof_share": stand.roof / peak, "reached_share": stand.reached / peak}


def print_machine_roofline(
    console: Console, architecture: Architecture, stands: Sequence[Stand], objective: str
) -> None:
    """Print the ports of a machine, and for each layer what the roof allows and what its mapping reaches."""
    peak, outer = peak_macs_per_cycle(architecture), architecture.levels[0].name
    clock = f", {format_si(2 * peak * architecture.clock_hz, 'OP/s')}" if architecture.clock_hz else ""
    console.print(f"{architecture.name}: peak {peak:,.6g} MACs/cycle{clock} (two operations a MAC)")
    rows = port_rows(architecture)
    if rows:
        made = table("port, all instances", "bytes/cycle", "bandwidth", "limits no more from")
        for row in rows:
            rate = format_si(row["bytes_per_s"], "B/s", 4) if row["bytes_per_s"] else ""
            made.add_row(row["port"], f"{row['bytes_per_cycle']:.4g}", rate, f"{row['ridge_macs_per_byte']:.4g} MACs/B")
        print_table(console, made)
    else:
        console.print("No level has a bandwidth: only the compute units limit.")
    title(console, "Layers", f"least: each word of {outer} moved once; mapped for {objective}; shares of the peak")
    made = table("layer", "least MACs/B", "roof", "mapped MACs/B", "reached", "of roof", "limit", left=(0, 6))
    for stand in stands:
        made.add_row(
            stand.layer if stand.repeat == 1 else f"{stand.layer} x{stand.repeat}",
            f"{stand.least:.4g}",
            percent(stand.roof / peak),
            f"{stand.moved:.4g}",
            percent(stand.reached / peak),
            percent(stand.reached / stand.roof),
            stand.limit,
        )
    print_table(console, made)
    console.print(f"roof: what peak and bandwidth of {outer} allow where each word moves once")
