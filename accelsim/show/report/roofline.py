"""The report on a roofline of a machine with storage levels: its ports, and where layers stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.units import format_si
from accelsim.model.limits import Stand, peak_macs_per_cycle, ports
from accelsim.show.report.text import percent
from accelsim.show.table import Column, Part, Table


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


_PORTS = (
    Column("port, all instances", "port"),
    Column("bytes/cycle", "bytes_per_cycle", "{:.4g}".format),
    Column("bandwidth", "bytes_per_s", lambda rate: format_si(rate, "B/s", 4)),
    Column("limits no more from", "ridge_macs_per_byte", "{:.4g} MACs/B".format),
)
_STANDS = (
    Column("layer", lambda row: row["layer"] + (f" x{row['repeat']}" if row["repeat"] > 1 else "")),
    Column("least MACs/B", "least", "{:.4g}".format),
    Column("roof", "roof_share", percent),
    Column("mapped MACs/B", "moved", "{:.4g}".format),
    Column("reached", "reached_share", percent),
    Column("of roof", lambda row: percent(row["reached"] / row["roof"])),
    Column("limit", "limit", left=True),
)


def machine_roofline_report(architecture: Architecture, stands: Sequence[Stand], objective: str) -> Iterator[Part]:
    """The ports of a machine, and for each layer what the roof allows and what its mapping reaches."""
    peak, outer = peak_macs_per_cycle(architecture), architecture.levels[0].name
    clock = f", {format_si(2 * peak * architecture.clock_hz, 'OP/s')}" if architecture.clock_hz else ""
    yield f"{architecture.name}: peak {peak:,.6g} MACs/cycle{clock} (two operations a MAC)"
    rows = port_rows(architecture)
    yield Table("ports", _PORTS, rows)
    if not rows:
        yield "No level has a bandwidth: only the compute units limit."
    note = f"least: each word of {outer} moved once; mapped for {objective}; shares of the peak"
    yield Table("layers", _STANDS, [stand_row(stand, peak) for stand in stands], "Layers", note)
    yield f"roof: what peak and bandwidth of {outer} allow where each word moves once"
