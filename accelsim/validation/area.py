"""Published areas, powers and energies of memories beside those of the component models and of shipped machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from accelsim.architecture import load_architecture
from accelsim.components.arithmetic import mac
from accelsim.components.estimate import Estimate
from accelsim.components.memories import register, register_file
from accelsim.components.sram import sram
from accelsim.machine_tables import peak_rows
from accelsim.validation.study import Figure, Study

_PRIMER = (
    *((2048, 512, 5.5), (1024, 256, 3.0), (512, 256, 2.3), (256, 256, 1.7), (128, 256, 1.4)),
    *((64, 128, 0.91), (32, 128, 0.85)),
)
"""NVDLA: MACs, convolution buffer [KiB], synthesized area [mm2] at 28 nm."""
_CACHES = ((45, 8, 10), (45, 32, 20), (45, 1024, 100), (7, 8, 7.5), (7, 32, 8.5), (7, 1024, 14))
"""Access of 64 bits: node [nm], size [KiB], energy [pJ]."""
_POWERS: tuple[tuple[str, str, dict[str, str], float], ...] = (
    ("Eyeriss, AlexNet CONV1, measured", "eyeriss_jssc", {}, 0.332),
    ("TPU v1, TDP", "systolic", {"bits": "8", "word": "8 bit"}, 75.0),
    ("TPU v1, busy, measured", "systolic", {"bits": "8", "word": "8 bit"}, 40.0),
)
"""Case, shipped machine and its parameters, power [W] without DRAM."""
_BOUND = "a lower bound"
_PEAK = "all busy"


def area_figures() -> list[Figure]:
    """Area [mm2] of chips, their power [W], and energy [pJ] of an access to a memory."""
    return [*_eyeriss(), *_nvdla(), *_tpu(), *_powers(), *_memories()]


def _mm2(*parts: tuple[int, Estimate]) -> float:
    """Area [mm2] of so many of each part."""
    return sum(count * part.area_um2.value for count, part in parts if part.area_um2 is not None) / 1e6


def _eyeriss() -> list[Figure]:
    """168 PEs with a filter scratchpad of SRAM and two of registers, and a buffer of 27 banks."""
    ours = _mm2(
        (168, mac(65, "int16", "int16")),
        (168, sram(65, 448 / 1024, 16)),
        (168, register_file(65, 24 * 8, 16)),
        (168, register_file(65, 48 * 8, 16)),
        (1, sram(65, 108, 64, banks=27)),
    )
    return [Figure("Eyeriss, core", "area", "mm2", 12.25, ours, None, "65 nm", _BOUND)]


def _nvdla() -> list[Figure]:
    """MACs with their two weight registers, and a convolution buffer of 16 banks (32 for the small ones)."""
    found = []
    for macs, kib, published in _PRIMER:
        atomic_c = {2048: 64, 1024: 32, 512: 32, 256: 32, 128: 16, 64: 8, 32: 8}[macs]
        banks = 16 if macs == 2048 else 32
        parts = (
            (macs, mac(28, "int8", "int32")),
            (2 * macs, register(28, 8, 8)),
            (1, sram(28, kib, 8 * atomic_c, banks)),
        )
        found.append(
            Figure(f"NVDLA, {macs} MACs, {kib} KiB", "area", "mm2", published, _mm2(*parts), None, "28 nm", _BOUND)
        )
    return found


def _tpu() -> list[Figure]:
    """Shares of the die of at most 331 mm2: data buffers 37 %, compute 30 %."""
    die = 331.0
    buffers = _mm2((1, sram(28, 24 * 1024, 2048)), (256, sram(28, 16, 32)))
    units = _mm2((65536, mac(28, "int8", "int32")), (65536, register(28, 2 * 8 + 8 + 32, 8)))
    return [
        Figure("TPU v1, data buffers", "area", "mm2", 0.37 * die, buffers, None, "28 nm", _BOUND),
        Figure("TPU v1, compute", "area", "mm2", 0.30 * die, units, None, "28 nm", _BOUND),
    ]


def _powers() -> list[Figure]:
    """Published powers, and all that a machine takes but DRAM while everything is busy."""
    found = []
    for case, machine, parameters, published in _POWERS:
        architecture = load_architecture(machine, parameters)
        outermost = architecture.levels[0].name
        rows = [row for row in peak_rows(architecture) if row["component"] != outermost]
        ours = sum(row["power_w"] or 0.0 for row in rows)
        found.append(Figure(case, "power", "W", published, ours, None, architecture.technology, _PEAK))
    return found


def _memories() -> list[Figure]:
    """Published energies are rough ones of caches; ours are of plain RAMs."""
    found = []
    for node, kib, published in _CACHES:
        ours = sram(node, kib, 64).pj["read"].value
        found.append(Figure(f"{kib} KiB, 64 bit", "read", "pJ", published, ours, None, f"{node} nm", "a cache"))
    return found


def area_study(_: Sequence[str | Path] = ()) -> Study:
    """Study of areas, powers and memories; it needs no records."""
    source = (
        "Eyeriss: Chen et al., JSSC 52(1), 2017, Table IV (3.5 mm x 3.5 mm, core). NVDLA: nvdla/doc@04a0133, "
        "primer.rst. TPU v1: Jouppi et al., ISCA 2017, Table 2 and Fig. 2 (die of at most 331 mm2). Power of Eyeriss: "
        "Table V. Memories: "
        "Horowitz, ISSCC 2014, Fig. 1.1.9 (45 nm; 32 KiB and 1 MiB from memory, not verified); Jouppi et al., "
        "ISCA 2021, Table 2 (7 nm; from memory, not verified)"
    )
    notes = (
        "a lower bound: ours has the memories and the MACs with their registers, and nothing else of the chip: no "
        "control, networks, pipelines, other units or room for placement. NVDLA's own table says what that is: from "
        "256 to 512 MACs it grows by 0.6 mm2, 2344 um2 a MAC; a multiplier, an adder and two registers are a tenth.",
        "all busy: all compute units and ports in each cycle, without DRAM (`accelsim energy`), by the energies of the "
        "shipped machines: arch/eyeriss_jssc.yaml, and arch/systolic.yaml with words and MACs of 8 bit. Clock trees, "
        "control, host interfaces and leakage are not in it, and no layer keeps everything busy, so it bounds neither.",
        "a cache: the published figures are rough ones of caches; ours are of plain RAMs of low standby power.",
        "The banks of Eyeriss's buffer (27 of 4 KiB) and its scratchpads' cells are from memory, not verified. NVDLA's "
        "banks and atomic sizes: nvdla/hw spec/defs; those of the middle configurations are assumed.",
    )
    about = "published areas, powers and memory energies beside ours"
    return Study("area", about, source, tuple(area_figures()), notes)
