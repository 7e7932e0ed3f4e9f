"""A machine of a few words and a network of three layers for sweeps, and how tests write sweep files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from accelsim.designs.sweep import load_sweep
from accelsim.designs.tables import read_tables

MACHINE = """
params: {glb: 64 B, pe: 2, bandwidth: 4 B/cycle, mac: 1 pJ, clock: 1 GHz, free: 1}
architecture:
  name: little
  clock: $clock
  levels:
    - {name: DRAM, class: DRAM, word: 16 bit, bandwidth: $bandwidth, energy: {read: 200 pJ, write: 200 pJ}}
    - {name: GLB, class: SRAM, size: $glb, word: 16 bit, energy: {read: 6 pJ, write: 6 pJ}, fanout: {x: $pe}}
  compute: {name: MAC, class: intmac, energy: {compute: $mac}}
"""
LAYERS = """
workload:
  name: net
  layers:
    - {name: a, repeat: 2, gemm: {M: 4, N: 6, K: 4}}
    - {name: b, gemm: {M: 8, N: 4, K: 2}}
    - {name: c, gemm: {M: 4, N: 6, K: 4}}
"""
NARROW = "mapspace: even, factors: perfect"
GRID = "  parameters: {glb: [16 B, 32 B, 128 B], pe: [1, 2, 4]}\n"


def write_inputs() -> None:
    """Write the machine and the network, in which two of three layers are equal, into this folder."""
    Path("little.yaml").write_text(MACHINE)
    Path("net.yaml").write_text(LAYERS)


def sweep_of(text: str, name: str = "s.yaml"):
    """A sweep of even mappings with perfect factors, which are searched soonest, unless it says what is mapped."""
    text += "" if "  map:" in text else f"  map: {{{NARROW}}}\n"
    Path(name).write_text(f"sweep:\n  architecture: little.yaml\n  workloads: [net.yaml]\n{text}")
    return load_sweep(name)


def tables(folder: Path) -> dict[str, bytes]:
    """All that a sweep leaves in its folder but the file of its work."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".csv", ".json")}


def read_designs(folder: str | Path) -> list[dict[str, Any]]:
    """Rows of the table of designs in a folder."""
    return read_tables(folder)[1]


def layers_of(folder: str) -> list[dict[str, Any]]:
    """Rows of the table of layers in a folder."""
    with Path(folder, "results.csv").open(newline="") as file:
        return [{name: _value(cell) for name, cell in row.items()} for row in csv.DictReader(file)]


def _value(cell: str) -> Any:
    if cell in ("", "true", "false"):
        return None if cell == "" else cell == "true"
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell
