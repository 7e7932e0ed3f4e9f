"""What a page shows of mappings and of the machine, as plain values that JSON can hold."""

from __future__ import annotations

from typing import Any

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.workload import Einsum
from accelsim.model.limits import macs_per_byte, peak_macs_per_cycle, ports
from accelsim.model.result import Result
from accelsim.show.report.nest import compute_used, nest_levels
from accelsim.show.report.text import OTHER_COLOUR, letters, tensor_colours


def rounded(value: float, digits: int = 6) -> float:
    """Value to so many digits.

    Examples
    --------
    >>> rounded(12278333440.0), rounded(0.0123456789, 3)
    (12278300000.0, 0.0123)
    """
    return float(f"{value:.{digits}g}")


def machine_data(architecture: Architecture, einsum: Einsum) -> dict[str, Any]:
    """What all mappings share: names, colours of the tensors, roofs [bytes/cycle] and peak [MACs/cycle]."""
    names = [tensor.name for tensor in einsum.tensors]
    letter = letters(names)
    colour = tensor_colours(names, einsum.output.name)
    other = {"name": "other (compute, leakage)", "letter": "", "colour": OTHER_COLOUR}
    return {
        "architecture": architecture.name,
        "workload": einsum.name,
        "macs": einsum.real_macs,
        "tensors": [*({"name": n, "letter": letter[n], "colour": colour[n]} for n in names), other],
        "levels": [level.name for level in architecture.levels],
        "components": components(architecture),
        "compute": architecture.compute.name,
        "peak": peak_macs_per_cycle(architecture),
        "roofs": [{"name": port.name, "bytes_per_cycle": port.bytes_per_cycle} for port in ports(architecture)],
    }


def components(architecture: Architecture) -> list[str]:
    """What takes energy, outermost first: each level and the network below it, and the compute units."""
    pairs = [name for level in architecture.levels for name in (level.name, f"{level.name} network")]
    return [*pairs, architecture.compute.name]


def mapping_data(result: Result, architecture: Architecture, einsum: Einsum) -> dict[str, Any]:
    """Cost of one mapping, its loop nest in words, energy [pJ] by component and tensor, cycles, MACs for each byte."""
    order = {name: index for index, name in enumerate(components(architecture))}
    tensors = {tensor.name: index for index, tensor in enumerate(einsum.tensors)}
    intensities = [macs_per_byte(result, port) for port in ports(architecture)]
    return {
        "energy_pj": rounded(result.energy_pj),
        "cycles": result.cycles,
        "outer_words": result.outer_words,
        "utilization": rounded(result.utilization),
        "nest": [[level.used, level.keeps, *level.lines] for level in nest_levels(result)],
        "units": compute_used(result),
        "energy": [
            [order[row["component"]], tensors.get(row["tensor"], len(tensors)), rounded(row["energy_pj"], 5)]
            for row in result.energy_by_tensor_rows()
        ],
        "needed": [level.cycles for level in result.levels] + [result.busy_cycles],
        "intensity": [None if value is None else rounded(value, 5) for value in intensities],
    }
