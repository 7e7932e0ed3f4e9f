"""DRAM by kind, registers and small register files."""

from __future__ import annotations

from dataclasses import replace

from accelsim.inputs.energy.estimate import Estimate, NoEstimateError, Value
from accelsim.inputs.energy.published import all_published, published
from accelsim.inputs.energy.scaling import SOURCE, area_factor, energy_factor
from accelsim.inputs.units import listed, near_miss

NO_BACKGROUND = "accelergy-cacti-plug-in@291018b, CactiDRAM: background power is in the energy of a bit, or not at all"
FILE_B = (16.0, 512.0)
"""Sizes [B] of the register files that were published."""


def dram_kinds() -> tuple[str, ...]:
    """Kinds of DRAM with a source, in the order of the file."""
    return tuple(entry.what for entry in all_published() if entry.node_nm is None)


def dram(kind: str, bits: int) -> Estimate:
    """Estimate a DRAM: interface and array, for an access of so many bits. It is off the chip: no area.

    Raises
    ------
    NoEstimateError
        For a kind without a source.

    Examples
    --------
    >>> dram("LPDDR4", 16).pj["read"].value
    128.0
    """
    entries = published(kind, "pJ/bit") if kind in dram_kinds() else ()
    if not entries:
        kinds = dram_kinds()
        what = f"no published energy for the DRAM type '{kind}'" if kind else "'type' of the DRAM is missing"
        hint = near_miss(kind, kinds) or f"types: {listed(kinds)}."
        raise NoEstimateError(what, f"{hint} Or give `energy` with its source")
    (entry,) = entries
    value = Value(entry.value * bits, f"{entry.value:g} pJ/bit x {bits} bit", entry.cited)
    none = Value(0.0, "0 mW beside the energy of a bit", NO_BACKGROUND)
    off = Value(0.0, "off the chip", "the machine's area is that of its chip")
    return Estimate({"read": value, "write": value}, none, off)


def register(node_nm: float, size_bit: float, bits: int) -> Estimate:
    """Estimate registers of `size_bit`, of which an access takes so many."""
    (energy,) = published("register", "pJ/bit")
    assert energy.node_nm is not None
    factor = energy_factor(energy.node_nm, node_nm)
    scaled = "" if factor == 1 else f" x {factor:.4g} from {energy.node_nm:g} to {node_nm:g} nm"
    source = energy.cited if factor == 1 else f"{energy.cited}; {SOURCE}"
    value = Value(bits * energy.value * factor, f"{bits} bit x {energy.value:g} pJ/bit{scaled}", source)
    return Estimate({"read": value, "write": value}, _no_leak(), _cells(node_nm, size_bit))


def register_file(node_nm: float, size_bit: float, bits: int) -> Estimate:
    """Estimate a register file of 16 to 512 B.

    Energy goes with the size, but is never less than that of registers; the area is that of its registers, without the
    decoder.

    Raises
    ------
    NoEstimateError
        If it is larger.
    """
    (entry,) = published("register file", "pJ/bit/B")
    assert entry.node_nm is not None
    size_b = size_bit / 8
    if size_b > FILE_B[1]:
        what = f"a register file of {size_b:g} B is larger than {FILE_B[1]:g} B, the largest one published"
        raise NoEstimateError(what, "use the class SRAM")
    charged = max(size_b, FILE_B[0])
    factor = energy_factor(entry.node_nm, node_nm)
    scaled = "" if factor == 1 else f" x {factor:.4g} from {entry.node_nm:g} to {node_nm:g} nm"
    least = f" (as {charged:g} B, the smallest one published)" if charged > size_b else ""
    each = entry.value * charged
    source = entry.cited if factor == 1 else f"{entry.cited}; {SOURCE}"
    value = Value(bits * each * factor, f"{bits} bit x {each:.4g} pJ/bit for {size_b:g} B{least}{scaled}", source)
    plain = register(node_nm, size_bit, bits)
    if plain.pj["read"].value > value.value:
        at_least = plain.pj["read"]
        value = replace(
            at_least, formula=f"{at_least.formula}: that of registers, more than {value.value:.3g} pJ by size"
        )
    return replace(plain, pj={"read": value, "write": value})


def _no_leak() -> Value:
    return Value(0.0, "0 mW", "accelergy-library-plug-in@ba4e9da, library/aladdin/aladdin_register.csv: leak 0")


def _cells(node_nm: float, size_bit: float) -> Value:
    """Area of registers for so many bits."""
    (area,) = published("register", "um2/bit")
    assert area.node_nm is not None
    factor = area_factor(area.node_nm, node_nm)
    scaled = "" if factor == 1 else f" x {factor:.4g} from {area.node_nm:g} to {node_nm:g} nm"
    source = area.cited if factor == 1 else f"{area.cited}; {SOURCE}"
    return Value(size_bit * area.value * factor, f"{size_bit:g} bit x {area.value:g} um2{scaled}", source)
