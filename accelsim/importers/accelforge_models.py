"""Component models of AccelForge's arrays: the attributes that they are asked with, and the bits that data have there.

Circuits cost what their bits cost, so attributes rest on histograms of values (CiMLoop, ISPASS 2024). A histogram has
2**n - 1 bins, the one in the middle for 0. An encoding gives the bits of each bin, the highest first, and its share of
all values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from operator import add
from typing import Any

from accelsim.importers.accelforge_arrays import ACTIONS, KNOWN, SCALES, AccelForgeMachine, actions_of
from accelsim.importers.documents import Map, Seq, refuse
from accelsim.importers.values import FormulaError, UndefinedNameError, Value, read_all, work_out
from accelsim.inputs.errors import AccelsimError, InputError, Problem

Encoded = Sequence[tuple[tuple[int, ...], float]]
"""Bits and share of each bin."""
_MOST_BITS = 1024
_HINT = "`pip install 'accelsim[hwcomponents]'`, or write them: `actions: [{name: read, energy: 2e-12}]`, in J"
_WORD = re.compile(r"[A-Za-z_]\w*|.*\.ya?ml")


def _encoded(bits_of: Callable[[int, int], Sequence[int]], bins: Sequence[float]) -> Encoded:
    """Bins of a histogram, each with the bits of its value: `bits_of(value, n)`."""
    width, whole = len(bins).bit_length(), sum(bins)
    if len(bins) != 2**width - 1 or whole <= 0:
        raise ValueError("a histogram has 2**n - 1 bins, and not all are 0")
    first = -(len(bins) // 2)
    return [(tuple(bits_of(value, width)), share / whole) for value, share in enumerate(bins, first)]


def _binary(value: int, width: int) -> list[int]:
    return [value >> place & 1 for place in reversed(range(width))]


def _offset(value: int, width: int) -> list[int]:
    """The least value becomes 0."""
    return _binary(value + 2 ** (width - 1) - 1, width)


def _magnitude(value: int, width: int) -> list[int]:
    return _binary(abs(value), width - 1)


def _xnor(value: float, width: int) -> list[int]:
    """Each bit adds or subtracts its weight; two of weight 1/2 make every value possible (Jia, JSSC 2020)."""
    bits = []
    for weight in [2.0**place for place in reversed(range(width))] + [0.5, 0.5]:
        bits.append(int(value > 0))
        value -= weight if value > 0 else -weight
    return bits


def _is_signed(bins: Sequence[float]) -> bool:
    return any(bins[: len(bins) // 2])


def _two_parts(bins: Sequence[float]) -> Encoded:
    """One part has the magnitude of values above 0, the other one of those below; the rest is 0."""
    each = _encoded(_magnitude, bins)
    return [(part, share / 2) for bits, share in each for part in (bits, (0,) * len(bits))]


def _average_slice(
    encoded: Encoded,
    total_bits: float,
    bits_per_slice: float,
    partial_slices_use_full_range: bool = False,
    return_per_slice: bool = False,
) -> Any:
    """Average value of the slices that bits are taken apart to, from 0 to 1, the largest that a slice can have.

    Bits beyond those of the encoding are like the average one of its bits.
    """
    bits, width = int(total_bits), int(bits_per_slice)
    if width < 1 or not 1 <= bits <= _MOST_BITS or (bits, width) != (total_bits, bits_per_slice):
        raise ValueError(f"slices of {bits_per_slice} of {total_bits} bits")
    widths = [width] * (bits // width) + ([bits % width] if bits % width else [])
    ones = [
        math.fsum(share * (of[place] if place < len(of) else sum(of) / max(1, len(of))) for of, share in encoded)
        for place in range(bits)
    ]
    slices, rest = [], iter(ones)
    for own in widths:
        full = 2 ** (own if partial_slices_use_full_range else widths[0]) - 1
        slices.append(sum(next(rest) * 2**place for place in reversed(range(own))) / full)
    return tuple(slices) if return_per_slice else sum(slices) / len(slices)


def _steps(bits: int) -> int:
    """Integrations of an input whose bits count 1, 2, 4 ... times (NeuRRAM, Nature 2022)."""
    if not 0 <= bits <= _MOST_BITS:
        raise ValueError(f"{bits} bits")
    return int(2**bits) - 1


def _converted_bits(bits: int, phases: Sequence[int]) -> int:
    """Bits that an ADC makes in all phases: each has no need of those of the phases before it."""
    return sum(max(0, bits - sum(phases[:before])) for before, own in enumerate(phases) if own)


FUNCTIONS: dict[str, Value] = {
    "sum": sum, "is_hist_signed": _is_signed, "encoded_hist_to_avg_slice": _average_slice,
    "offset_encode_hist": partial(_encoded, _offset), "magnitude_encode_hist": partial(_encoded, _magnitude),
    "xnor_encode_hist": partial(_encoded, _xnor),
    "zero_gated_xnor_encode_hist": partial(_encoded, lambda n, width: _xnor(n, width) if n else [0] * (width + 2)),
    "two_part_magnitude_encode_hist": _two_parts,
    "offset_encode_if_signed_hist": lambda bins: _encoded(_offset if _is_signed(bins) else _magnitude, bins),
    "two_part_magnitude_encode_if_signed_hist": lambda bins: (
        _two_parts(bins) if _is_signed(bins) else _encoded(_magnitude, bins)),
    # as AccelForge has it: values of 0 count twice, the largest ones not at all
    "hist_to_magnitude": lambda bins: tuple(map(add, bins[len(bins) // 2 : -1], bins[len(bins) // 2 : 0 : -1])),
    "bits2phase_1phase": lambda bits, most=0: (bits,),
    "bits2phase_2phase": lambda bits, most: (bits, 0) if bits <= most else (math.ceil(bits / 2), math.floor(bits / 2)),
    "bits2integration_steps": _steps, "sum_phase_out_bits": _converted_bits,
    "sum_map": lambda function, items: sum(map(function, items)),
}  # fmt: skip
"""Functions that formulas of its arrays call."""


def plain_value(written: Any, names: Mapping[str, Value], waiting: Collection[str] = ()) -> Value:
    """Value of a formula, a list or a word: a name without a value, or of a file, stands for itself.

    Raises FormulaError if it is none of these, or a name that waits for its own value.
    """
    if isinstance(written, Seq):
        return tuple(plain_value(each, names) for each in written)
    if not isinstance(written, str):
        return written if isinstance(written, bool | int | float) else None
    try:
        return work_out(written, names)
    except FormulaError:
        if written in waiting or not _WORD.fullmatch(written):
            raise
        return written


def _attributes(written: Map, names: Mapping[str, Value]) -> dict[str, Value]:
    """Attributes that a map adds; each may rest on others of the map."""
    found, wrong = dict[str, Value](), dict[str, Problem]()
    for _ in written:
        for key in written.keys() - found.keys():
            waiting = written.keys() - found.keys() - {key}
            known = {name: value for name, value in {**names, **found}.items() if name not in waiting}
            try:
                found[key] = plain_value(written[key], known, waiting)
            except FormulaError as error:
                hint = "give it one under `variables`" if isinstance(error, UndefinedNameError) else ""
                wrong[key] = Problem(written.where(key), str(error), hint)
    if missing := [wrong[key] for key in written if key not in found]:
        raise InputError(missing)
    return found


def charge_models(arch: Map, machine: AccelForgeMachine) -> None:
    """Give parts without energies those of their component models, with leakage and area; refuse all others by name."""

    @cache
    def shared() -> dict[str, Value]:
        return _attributes(arch.inner("extra_attributes_for_all_component_models"), machine.names)

    def charge(node: Map) -> None:
        given = actions_of(node)
        missing = sorted(name for name in ACTIONS.get(node.tag, ()) if "energy" not in given.get(name, ()))
        component = str(node.get("component_class", ""))
        if component.lower() == "dummy":
            node.setdefault("area", 0)
            return
        if not missing:
            return
        own = {"throughput_scale": machine.number(node, "throughput_scale", 1)}
        of_node = node.inner("extra_attributes_for_component_model")
        attributes = {**shared(), **_attributes(of_node, {**machine.names, **shared(), **own})}
        if "size" in node:
            attributes.setdefault("size", machine.number(node, "size"))
        if "adc" in component.lower() and "resolution" in attributes:
            attributes.setdefault("n_bits", attributes["resolution"])  # as older releases of the models call it
        wide = machine.number(node, "bits_per_action", 1)
        bits = {name: machine.number(given.get(name, node), "bits_per_action", wide) for name in missing}
        from accelsim.energy import array_parts

        try:
            costs = array_parts.part_costs(component, attributes, bits)
        except AccelsimError as error:
            if re.search(KNOWN[node.tag], component, re.IGNORECASE):
                return
            what = f"no energies of {node.get('name')} ({component or 'without a component_class'}): {error}"
            raise refuse(node.mark, what, _HINT) from None
        faster = machine.number(node, "throughput_scale", 1) * machine.number(node, "n_parallel_instances", 1)
        for name, joule in costs.joule.items():
            action = given.setdefault(name, Map(node.mark, held={"name": name}))
            action["energy"] = joule
            rate_hz = costs.rate_hz[name] * (faster if node.tag == "!Memory" else 1)
            if rate_hz < math.inf and "latency" not in action and (node.tag == "!Toll" or SCALES.isdisjoint(node)):
                action.setdefault("throughput", rate_hz)
        node["actions"] = Seq(node.mark, held=given.values())
        node.setdefault("leak_power", costs.leak_watt)
        node.setdefault("area", costs.area_m2)
        machine.sources[str(node.get("name"))] = costs.source

    read_all(charge, machine.nodes)
