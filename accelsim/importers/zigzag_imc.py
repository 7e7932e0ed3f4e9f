"""Energies of ZigZag's arrays that compute in memory, analog or digital.

The first dimension of the array are columns (words of weights side by side), the second one rows, whose products add
up in a column. Inputs come in steps of `bit_serial_precision` bits. ZigZag counts what a run of the array costs by the
rows and columns in use; here this is a cost of each input word that drives a row, of each column's sum, and of each
multiply-accumulate, so that it is counted as all other accesses are.

All figures are ZigZag's (zigzag-dse 3.9.1, `hardware/architecture/imc_unit.py` and `imc_array.py`): 28 nm, 0.9 V.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from accelsim.importers.documents import Map, Note, Seq
from accelsim.importers.values import whole

IMC_KEYS = {"is_imc", "imc_type", "input_precision", "bit_serial_precision", "adc_resolution", "dimensions", "sizes"}
_VOLT2 = 0.9**2
_NAND_PJ, _XOR_PJ, _FLIP_FLOP_PJ = 0.7e-3 * _VOLT2, 1.05e-3 * _VOLT2, 2.1e-3 * _VOLT2
"""Energy of gates: capacities [pF] of 0.7 fF, 1.5 and 3 times as much, charged to the supply."""
_LINE_PJ = _NAND_PJ / 2
"""Of a cell's piece of a bit line: half a NAND."""
_ADDER_PJ = 3 * _NAND_PJ + 2 * _XOR_PJ
_MULTIPLIER_PJ = 0.5 * _NAND_PJ
_DAC_PJ_BIT = 50e-3 * _VOLT2
_ADC_PF_BIT, _ADC_PF_STEP = 100e-3, 1e-6
"""Of a conversion: 100 fF for each bit, and 0.001 fF for each of 4^bits."""
_FINEST = 16
"""Bits of a converter that the formula is meant for, at most."""


@dataclass(frozen=True, slots=True)
class InMemory:
    """Energy [pJ] of an input word that drives a row, of a column's sum, and of a MAC; cycles of a MAC."""

    input_pj: float
    sum_pj: float
    mac_pj: float
    cycles: int


def in_memory(array: Map, notes: list[Note]) -> InMemory:
    """Read what an array that computes in memory costs.

    Raises InputError where its type, its precisions, or its sizes are none of ZigZag's.
    """
    kind = str(array.get("imc_type"))
    if kind not in ("analog", "digital"):
        raise array.refuse("imc_type", f"{kind} is neither analog nor digital")
    precisions = [whole(each, array.where("input_precision")) for each in array.value("input_precision", Seq)]
    sizes = [whole(size, array.where("sizes")) for size in array.value("sizes", Seq)]
    if len(precisions) != 2 or len(sizes) < 2:
        raise array.refuse("sizes", "expected two precisions, of inputs and of weights, and columns and rows")
    bits, weight_bits = precisions
    at_once = whole(array.get("bit_serial_precision"), array.where("bit_serial_precision"))
    if not 0 < at_once <= bits or bits % at_once:
        raise array.refuse("bit_serial_precision", f"{at_once} does not divide the inputs' {bits} bit")
    columns, rows = sizes[:2]
    steps = bits // at_once
    if kind == "analog":
        converted = whole(array.get("adc_resolution"), array.where("adc_resolution"))
        if converted > _FINEST:
            raise array.refuse("adc_resolution", f"expected at most {_FINEST} bit, got {converted}")
        dac = _DAC_PJ_BIT * at_once if at_once > 1 else 0.0
        driven = dac + _MULTIPLIER_PJ * weight_bits * columns
        adc = (_ADC_PF_BIT * converted + _ADC_PF_STEP * 4**converted) * _VOLT2 if converted else 0.0
        summed = adc * weight_bits + _LINE_PJ * weight_bits * rows + _placed_pj(weight_bits, converted)
        each, sum_bits = 0.0, float(converted)
        what = "all columns of a row in use charge their multipliers"
    else:
        depth = math.log2(rows)
        each = at_once * _ADDER_PJ * (rows * (weight_bits + 1) - (weight_bits + depth + 1)) / rows
        driven, sum_bits = 0.0, depth
        summed = at_once * _MULTIPLIER_PJ * weight_bits * rows + _placed_pj(at_once, weight_bits + depth)
        what = "adder trees by the share of rows in use"
        what += "; columns out of use cost nothing, where ZigZag has multipliers run"
    if steps > 1:
        summed += (_ADDER_PJ + _FLIP_FLOP_PJ) * (bits + sum_bits + weight_bits)
    why = f"ZigZag's model of {kind} arrays, for each input, sum and MAC; {what}; no precharge of several words' cells"
    notes.append(array.note("imc_type", why))
    return InMemory(driven * steps, summed * steps, each * steps, steps)


def _placed_pj(inputs: int, bits: float) -> float:
    """Tree that adds so many inputs of `bits`, each of twice the weight of the one before."""
    return 0.0 if inputs == 1 else _ADDER_PJ * (bits * (inputs - 1) + inputs * (math.log2(inputs) - 0.5))
