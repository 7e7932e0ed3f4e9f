"""Published areas, powers and energies of memories beside those of the component models and of shipped machines."""

from __future__ import annotations

from accelsim.energy.components import sram
from accelsim.energy.estimate import Estimate, mac, register, register_file
from accelsim.inputs.architecture import Architecture, load_architecture
from accelsim.inputs.machine_tables import peak_rows
from accelsim.model.evaluate import evaluate
from validation import eyeriss
from validation.study import Figure, Study

_PRIMER = (
    *((2048, 512, 5.5), (1024, 256, 3.0), (512, 256, 2.3), (256, 256, 1.7), (128, 256, 1.4)),
    *((64, 128, 0.91), (32, 128, 0.85)),
)
"""NVDLA: MACs, convolution buffer [KiB], synthesized area [mm2] at 28 nm."""
_CACHES = ((45, 8, 10), (45, 32, 20), (45, 1024, 100), (7, 8, 7.5), (7, 32, 8.5), (7, 1024, 14))
"""Access of 64 bits: node [nm], size [KiB], energy [pJ]."""
_POWERS: tuple[tuple[str, str, dict[str, str], float], ...] = (
    ("Eyeriss, AlexNet CONV1, measured", "eyeriss_jssc", {}, 0.332),
    ("NVDLA, 2048 MACs", "nvdla_28nm", {}, 0.766),
    ("NVDLA, 2048 MACs", "nvdla_28nm", {"node": "16 nm"}, 0.291),
    ("TPU v1, TDP", "systolic_tpu_v1", {}, 75.0),
    ("TPU v1, busy, measured", "systolic_tpu_v1", {}, 40.0),
)
"""Case, shipped machine and its parameters, power [W] without DRAM."""
_DIE = 331.0
"""Of the first TPU [mm2], at most: half of Haswell's 662 (Table 2)."""
_PLAN = (
    ("data buffers", 0.37, ("UnifiedBuffer", "Accumulators"), ""),
    ("unified buffer", 0.29, ("UnifiedBuffer",), "share not verified"),
    ("accumulators", 0.06, ("Accumulators",), "share not verified"),
    ("compute", 0.30, ("WeightRegister", "MAC"), ""),
    ("matrix unit", 0.24, ("WeightRegister", "MAC"), "share not verified"),
    ("I/O and control", 0.12, (), ""),
    ("rest of the die", 0.21, (), ""),
)
"""Part of its floor plan (Fig. 2), share of the die, what models it, and where the share is from."""
_BOUND = "a lower bound"
_NONE = "not modelled"
_PEAK = "all busy"


def area_figures() -> list[Figure]:
    """Area [mm2] of chips, their power [W], and energy [pJ] of an access to a memory."""
    return [*_eyeriss(), *_nvdla(), *_simba(), *_tpu(), *_average(), *_powers(), *_memories()]


def _areas(machine: Architecture) -> dict[str, float]:
    """Area [mm2] of all instances of each level and of the compute units."""
    names = [*(level.name for level in machine.levels), machine.compute.name]
    return {name: machine.areas[name].area_um2 * machine.instances(at) / 1e6 for at, name in enumerate(names)}


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
    """All published configurations; and what their areas grow by, beside parts of the largest one."""
    found = []
    for macs, kib, published in _PRIMER:
        atomic_c = {2048: 64, 1024: 32, 512: 32, 256: 32, 128: 16, 64: 8, 32: 8}[macs]
        shape = {"atomic.c": str(atomic_c), "atomic.k": str(macs // atomic_c), "cbuf": f"{kib} KiB"}
        machine = load_architecture("nvdla_28nm", {**shape, "banks": "16" if macs == 2048 else "32"})
        case, ours = f"NVDLA, {macs} MACs, {kib} KiB", sum(_areas(machine).values())
        found.append(Figure(case, "area", "mm2", published, ours, None, "28 nm", _BOUND))
    areas = _areas(load_architecture("nvdla_28nm"))
    by_mac = sum(areas[name] for name in ("CACC", "WeightRegister", "MAC")) / _PRIMER[0][0]
    each_mac, each_kib, rest = _plane()
    for what, unit, published, ours in (
        ("each MAC", "um2", each_mac, 1e6 * by_mac),
        ("each KiB of buffer", "um2", each_kib, 1e6 * areas["CBUF"] / _PRIMER[0][1]),
        ("the rest", "mm2", rest, 0.0),
    ):
        why = "published: a plane through seven configurations" + ("" if ours else f"; {_NONE}")
        found.append(Figure(f"NVDLA, {what}", "area", unit, published, ours, None, "28 nm", why))
    return found


def _plane() -> tuple[float, float, float]:
    """Published area by MAC [um2], by KiB of buffer [um2], and of neither [mm2], by least squares."""
    import numpy as np

    rows = np.array([[macs, kib, 1.0] for macs, kib, _ in _PRIMER])
    mac_mm2, kib_mm2, rest = np.linalg.lstsq(rows, np.array([area for *_, area in _PRIMER]), rcond=None)[0].tolist()
    return 1e6 * mac_mm2, 1e6 * kib_mm2, rest


def _simba() -> list[Figure]:
    """A chiplet: 16 PEs with their buffers and 64 MACs, and a global buffer; below 22 nm by the rule for shrinking."""
    ours = _mm2(
        (1024, mac(16, "int8", "int24")),
        (1024, register(16, 8, 8)),
        (16, sram(16, 32, 64, banks=8)),
        (16, sram(16, 8, 64)),
        (128, sram(16, 3 / 8, 24)),
        (1, sram(16, 64, 256)),
    )
    return [Figure("Simba, chiplet", "area", "mm2", 6.0, ours, None, "16 nm", f"{_BOUND}; the 6 mm2 not verified")]


def _tpu() -> list[Figure]:
    """Parts of the floor plan beside those of the shipped machine."""
    areas = _areas(load_architecture("systolic_tpu_v1"))
    return [
        Figure(
            f"TPU v1, {part}",
            "area",
            "mm2",
            share * _DIE,
            sum(areas[name] for name in parts),
            None,
            "28 nm",
            "; ".join(text for text in (_BOUND if parts else _NONE, note) if text),
        )
        for part, share, parts, note in _PLAN
    ]


def _average() -> list[Figure]:
    """Power of the Eyeriss chip over the convolutions of AlexNet, in the published mappings."""
    machine, shapes, rows = eyeriss.machine(), eyeriss.einsums("alexnet"), eyeriss.layers("alexnet")
    joules = seconds = 0.0
    for row in rows:
        einsum = shapes[row.layer]
        chip = eyeriss.on_chip(
            evaluate(machine, einsum, eyeriss.published_passes()[row.layer].mapping(machine, einsum))
        )
        joules, seconds = joules + chip.power_mw * chip.milliseconds * 1e-6, seconds + chip.milliseconds * 1e-3
    case = "Eyeriss, AlexNet, published mappings"
    return [Figure(case, "power", "W", 0.278, joules / seconds, None, "65 nm", "no clock tree, no gating of zeros")]


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


def area_study() -> Study:
    """Study of areas, powers and memories."""
    source = (
        "Eyeriss: Chen et al., JSSC 52(1), 2017, Tables IV (core of 3.5 mm x 3.5 mm; 1176 k gates) and V. NVDLA: "
        "nvdla/doc@04a0133, primer.rst. Simba: Shao et al., MICRO 2019 (not verified). TPU v1: Jouppi et al., ISCA "
        "2017, Table 2 and Fig. 2 (die of at most 331 mm2). Memories: Horowitz, ISSCC 2014, Fig. 1.1.9 (45 nm; 32 KiB "
        "and 1 MiB not verified); Jouppi et al., ISCA 2021, Table 2 (7 nm; not verified)"
    )
    notes = (
        "a lower bound: ours has the memories and the MACs with their registers, and nothing else of the chip: no "
        "control, networks, pipelines, other units or room for placement.",
        "TPU v1: 67 % of the die are data buffers and compute. Of the others, 12 % are I/O and control and 21 % are in "
        "no share of Fig. 2; none of it is modelled. Of the buffers ours has a third, of compute a fifth.",
        "NVDLA: by a plane through its seven configurations (at most 0.18 mm2 off), a MAC takes 1699 um2, a KiB of "
        "buffer 3181 and the rest 0.44 mm2. Ours has 250 um2 a MAC (multiplier, adder, registers, accumulator) and "
        "1398 um2 a KiB: a seventh and 44 %. What is missing grows with the MACs: it is what feeds and follows them.",
        "Eyeriss: 2.5 of our 2.8 mm2 are memories, 0.3 the MACs. Its logic has 1176 k gates, 7000 for each PE with its "
        "share of control; the areas of its parts are not in the sources here.",
        "Simba: a chiplet also has a processor, routers, and links to other chiplets at its edges.",
        "all busy: all compute units and ports in each cycle, without DRAM (`accelsim show`), by the energies of the "
        "shipped machines. Clock trees, control and host interfaces are not in it, and no layer keeps everything "
        "busy, so it bounds neither. NVDLA's powers: primer, which does not say under what load; from 28 to 16 nm "
        "they fall by 62 %, ours by 37 %.",
        "a cache: the published figures are rough ones of caches; ours are of plain RAMs of low standby power.",
        "The banks of Eyeriss's buffer (27 of 4 KiB) and its scratchpads' cells are not verified. NVDLA's "
        "banks and atomic sizes: nvdla/hw spec/defs; those of 128 and 32 MACs are assumed.",
    )
    about = "published areas, powers and memory energies beside ours"
    return Study("area", about, source, tuple(area_figures()), notes)
