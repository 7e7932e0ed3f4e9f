"""Wires by length and networks by hops."""

from __future__ import annotations

from accelsim.inputs.energy.estimate import Estimate, Value
from accelsim.inputs.energy.published import published
from accelsim.inputs.energy.scaling import SOURCE, energy_factor, supply_v

WIRE_SOURCE = (
    f"wire: {published('wire', 'pJ/bit/mm')[0].cited}; capacitance for a length alike at all nodes (ibid.), so that "
    "energy goes with the square of the supply"
)


def wire_pj_per_bit(node_nm: float, length_mm: float) -> float:
    """Energy [pJ] of one random bit over a repeated wire.

    Examples
    --------
    >>> wire_pj_per_bit(40, 10)
    1.21
    """
    (known,) = published("wire", "pJ/bit/mm")
    assert known.node_nm is not None
    return known.value * length_mm * (supply_v(node_nm) / supply_v(known.node_nm)) ** 2


def wire(node_nm: float, length_mm: float, bits: int) -> Estimate:
    """Estimate the transfer of a word of so many bits over a wire."""
    each = wire_pj_per_bit(node_nm, length_mm)
    formula = f"{bits} bit x {each:.4g} pJ/bit over {length_mm:g} mm at {node_nm:g} nm ({supply_v(node_nm):.3g} V)"
    return Estimate({"transfer": Value(bits * each, formula, WIRE_SOURCE)})


def network(node_nm: float, hops: float, length_mm: float, bits: int) -> Estimate:
    """Estimate the transfer of a word over so many hops of a length.

    A hop is a crossbar, a register that is written and read, and the wire. Arbitration, deeper queues and the clock
    tree are not in it.
    """
    (crossbar,), (register,) = published("crossbar", "pJ/bit"), published("register", "pJ/bit")
    assert crossbar.node_nm is not None
    factor = energy_factor(crossbar.node_nm, node_nm)
    router = (crossbar.value + 2 * register.value) * factor
    along = wire_pj_per_bit(node_nm, length_mm)
    formula = (
        f"{bits} bit x {hops:g} hops x ({router:.4g} pJ/bit of crossbar and register + {along:.4g} pJ/bit of "
        f"{length_mm:g} mm wire) at {node_nm:g} nm"
    )
    source = f"crossbar: {crossbar.cited}; register: {register.cited}; both {SOURCE}; {WIRE_SOURCE}"
    return Estimate({"transfer": Value(bits * hops * (router + along), formula, source)})
