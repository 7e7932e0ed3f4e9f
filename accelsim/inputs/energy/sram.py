"""SRAM buffers: banks from the CACTI grid, and the wires that lead to them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from accelsim.inputs.energy.estimate import Estimate, NoEstimateError, Value
from accelsim.inputs.energy.grid import LEAST_ROWS, SOURCE, axes, cacti_grid, interpolated
from accelsim.inputs.energy.wires import WIRE_SOURCE, wire_pj_per_bit

SHRINK_SOURCE = (
    "below 22 nm energy goes with the square root of the node, area with the node, leakage with its square root x 0.79 "
    "(hwcomponents-cacti 1.0.40, which cites IRDS 2022 and Parvais et al., VLSI-TSA 2009)"
)
REACH = 0.75
"""Average way from the middle of an edge of a square to a place in it, in edges: 1/4 along it and 1/2 across."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer as it is built.

    Attributes
    ----------
    node_nm, size_kib, width_bit : float
        Technology node, size of the whole buffer and width of one access.
    banks : int
        Parts of which one access opens one.
    slices : int
        Banks side by side that one access opens together, where it is wider than a bank can be.
    bank_kib, bank_bit : float
        One of these banks: its size and the width of its access, as charged.
    """

    node_nm: float
    size_kib: float
    width_bit: float
    banks: int
    slices: int
    bank_kib: float
    bank_bit: float

    @property
    def words(self) -> str:
        """How it is built, for people."""
        bank = f"{self.bank_kib:g} KiB with {self.bank_bit:g} bits"
        count = self.banks * self.slices
        side = f", {self.slices} of them side by side" if self.slices > 1 else ""
        return f"one bank of {bank}" if count == 1 else f"{count} banks of {bank}{side}"


def buffer(node_nm: float, size_kib: float, width_bit: float, banks: int | None = None) -> Buffer:
    """Build a buffer of banks that the grid holds.

    An access wider than the widest bank opens several side by side. Without `banks`, there are as few as keep each
    within the largest bank of the grid. A bank narrower than the narrowest, or with less rows than the least, is
    charged as the narrowest or shortest one: its figures are then upper bounds.

    Raises
    ------
    NoEstimateError
        If the buffer is larger than its banks can be.
    """
    _, sizes, widths = axes(cacti_grid())
    slices = max(1, math.ceil(width_bit / widths[-1]))
    count = banks or max(1, math.ceil(size_kib / slices / sizes[-1]))
    bank_bit = max(widths[0], width_bit / slices)
    exact = size_kib / slices / count
    if exact > sizes[-1]:
        least = math.ceil(size_kib / slices / sizes[-1])
        what = f"a bank of {exact:g} KiB is outside the CACTI grid, which ends at {sizes[-1]:g} KiB"
        raise NoEstimateError(what, f"write `banks: {least}` or more, or leave it out")
    bank_kib = max(exact, sizes[0], bank_bit * LEAST_ROWS / 8192)
    return Buffer(node_nm, size_kib, width_bit, count, slices, bank_kib, bank_bit)


def sram(node_nm: float, size_kib: float, width_bit: float, banks: int | None = None) -> Estimate:
    """Estimate a buffer with one read-write port.

    Energies are those of one access of `width_bit`; leakage and area are those of the whole buffer. In a buffer of
    several banks, data and address go from the middle of its edge to a bank, on average 0.75 x the square root of its
    area.

    Raises
    ------
    NoEstimateError
        If the grid does not cover it.

    Examples
    --------
    >>> sram(45, 64, 64).pj["read"].value
    25.8695
    """
    built = buffer(node_nm, size_kib, width_bit, banks)
    node = max(node_nm, min(axes(cacti_grid())[0]))
    place = (node, built.bank_kib, built.bank_bit)
    count = built.banks * built.slices
    shrunk = node_nm < node
    energy, leak, area = _shrunk(node_nm / node)
    area_mm2 = count * interpolated("area_mm2", place) * area
    wire_pj, wire = _wires(built, area_mm2)
    how = f"{built.words} at {node:g} nm"
    source = f"{SOURCE}; {SHRINK_SOURCE}" if shrunk else SOURCE
    by_energy, by_leak, by_area = (f" x {factor:.4g} to {node_nm:g} nm" * shrunk for factor in (energy, leak, area))
    pj = {}
    for action in ("read", "write"):
        bank = interpolated(f"{action}_pJ", place)
        times = f"{built.slices} x " * (built.slices > 1)
        formula = f"{times}{bank:.5g} pJ{by_energy}{wire}: {how}"
        pj[action] = Value(
            built.slices * bank * energy + wire_pj, formula, f"{source}; {WIRE_SOURCE}" if wire else source
        )
    each = interpolated("leak_mW", place)
    times = f"{count} x " * (count > 1)
    leakage = Value(count * each * leak, f"{times}{each:.4g} mW{by_leak}: {how}", source)
    each = interpolated("area_mm2", place)
    whole = Value(area_mm2 * 1e6, f"{times}{each:.4g} mm2{by_area}: {how}", source)
    return Estimate(pj, leakage, whole)


def _shrunk(ratio: float) -> tuple[float, float, float]:
    """Factors of energy, leakage and area below the smallest node of the grid."""
    return (1.0, 1.0, 1.0) if ratio == 1 else (math.sqrt(ratio), math.sqrt(ratio) * 0.79, ratio)


def _wires(built: Buffer, area_mm2: float) -> tuple[float, str]:
    """Energy [pJ] of the wires to a bank for one access, and how it came about."""
    if built.banks == 1:
        return 0.0, ""
    length = REACH * math.sqrt(area_mm2)
    address = math.ceil(math.log2(built.size_kib * 8192 / built.width_bit))
    bits = built.width_bit + address
    pj = wire_pj_per_bit(built.node_nm, length) * bits
    return pj, f" + {pj:.4g} pJ of wires ({bits:g} bits with the address, {length:.3g} mm)"
