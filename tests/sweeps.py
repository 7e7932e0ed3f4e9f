"""A machine of a few words and a network of three layers for sweeps, and how tests write sweep files."""

from __future__ import annotations

from pathlib import Path

from accelsim.designs.sweep import load_sweep
from accelsim.designs.tables import DESIGNS, RESULTS

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
GRID = "  parameters: {glb: [16 B, 32 B, 128 B], pe: [1, 2, 4]}\n"


def write_inputs() -> None:
    """Write the machine and the network, in which two of three layers are equal, into this folder."""
    Path("little.yaml").write_text(MACHINE)
    Path("net.yaml").write_text(LAYERS)


def sweep_of(text: str, name: str = "s.yaml"):
    Path(name).write_text(f"sweep:\n  architecture: little.yaml\n  workloads: [net.yaml]\n{text}")
    return load_sweep(name)


def tables(where_: Path) -> tuple[bytes, ...]:
    return tuple((where_ / name).read_bytes() for name in (DESIGNS, RESULTS))
