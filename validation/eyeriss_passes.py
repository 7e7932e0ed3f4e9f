"""Processing passes of the Eyeriss chip: its published parameters as mappings, what loading adds, compression.

Sections and tables are those of Chen et al., JSSC 52(1), 2017. Time is in cycles of the core clock.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping as StringMap
from dataclasses import dataclass
from fractions import Fraction

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.mapping import LevelMapping, Loop, Mapping
from accelsim.inputs.workload import Einsum
from accelsim.model.result import Result

FILTER_WORDS = 4
"""Words a cycle to the filter scratchpads: the filters' global input network has 64 bit (section V-B)."""
INPUT_WORDS = 1
"""Words a cycle to the input scratchpads: the ifmaps' global input network has 16 bit (section V-B)."""
LONGEST_RUN = 31
"""Zeros in a run of the compression: 5 bit (section IV-B)."""
PAIR_BITS = Fraction(64, 3)
"""Bits of a run and its level: three pairs in a word of 64 bit (section IV-B)."""
LEVEL_BITS = 16
"""Bits of a value that is not zero (section IV-B)."""


@dataclass(frozen=True, slots=True)
class Passes:
    """Mapping parameters of the row-stationary dataflow (Table II).

    Attributes
    ----------
    m : int
        Output channels whose sums the buffer holds.
    n : int
        Images in a pass.
    e : int
        Output rows of a PE set, its width.
    p, q : int
        Filters and channels that a PE works on at once.
    r, t : int
        PE sets with other channels, and with other filters.
    """

    m: int
    n: int
    e: int
    p: int
    q: int
    r: int
    t: int

    def mapping(self, architecture: Architecture, einsum: Einsum) -> Mapping:
        """Write the passes over a convolution as a mapping.

        Parameters
        ----------
        architecture : Architecture
            Three levels: DRAM, buffer, scratchpads; R runs down its y axis.
        einsum : Einsum
            A convolution; with groups, the parameters are about one group.

        Returns
        -------
        Mapping
            Sets that have other filters stand beside each other where e is narrow, else below each other. A set wider
            than the array is cut into segments of equal width below each other. P is padded to whole strips of e rows;
            the last channels are an imperfect pass.
        """
        dims, (x_size, y_size) = einsum.dims, (architecture.levels[1].x.size, architecture.levels[1].y.size)
        segments = -(-self.e // x_size)
        width = -(-self.e // segments)
        strips = -(-dims["P"] // (width * segments))
        below = min(self.t, y_size // (dims["R"] * segments * self.r))
        outer, inner = -(-dims["C"] // (self.q * self.r)), self.q * self.r
        everything = frozenset(tensor.name for tensor in einsum.tensors)
        keep = frozenset(tensor.name for tensor in einsum.tensors if tensor.role not in architecture.levels[1].bypass)
        dram = {"K": dims["K"] // self.m, "P": strips, "N": dims["N"] // self.n, "C": outer}
        buffer = {"K": self.m // (self.p * self.t), "N": self.n, "Q": dims["Q"]}
        dram_level, buffer_level, pe_level = (level.name for level in architecture.levels)
        padded = strips * width * segments
        return Mapping(
            (
                LevelMapping(dram_level, _loops({"G": dims.get("G", 1), **dram}), keep=everything),
                LevelMapping(
                    buffer_level,
                    _loops(buffer),
                    x=_loops({"P": width, "K": self.t // below}),
                    y=_loops({"P": segments, "R": dims["R"], "C": self.r, "K": below}),
                    keep=keep,
                ),
                LevelMapping(pe_level, _loops({"C": self.q, "S": dims["S"], "K": self.p}), keep=everything),
            ),
            imperfect=frozenset({"C"} if outer * inner != dims["C"] else ()),
            padded=(Loop("P", padded),) if padded != dims["P"] else (),
        )


def _loops(bounds: StringMap[str, int]) -> tuple[Loop, ...]:
    """Loops of bound > 1, outermost first."""
    return tuple(Loop(dim, bound) for dim, bound in bounds.items() if bound > 1)


@dataclass(frozen=True, slots=True)
class Ramp:
    """What the PE array waits for between passes [cycles, all passes together].

    "It takes time to load data from the GLB into the PE array to ramp up each processing pass" (section VI-A).

    Attributes
    ----------
    passes : int
        Times that a PE gets new filters.
    filters : Fraction
        Filters of a pass, each word sent once to all PEs that need it, at `FILTER_WORDS` a cycle.
    inputs : Fraction
        Input window with which each PE begins a pass, rows that several PEs need sent once, at `INPUT_WORDS` a cycle.
    """

    passes: int
    filters: Fraction
    inputs: Fraction

    @property
    def cycles(self) -> Fraction:
        """Both together; partial sums that fill and leave the array in the meantime are not in it."""
        return self.filters + self.inputs


def ramp(result: Result) -> Ramp:
    """What loading filters and first input windows adds to a mapping whose buffer does not hold Weights.

    Parameters
    ----------
    result : Result
        Of a machine with three levels: DRAM, buffer, scratchpads.
    """
    dram, buffer, pe = (level.level for level in result.levels)
    at = {(tensor.level, tensor.tensor): tensor for tensor in result.tensors}
    shared = {(network.level, network.tensor): network for network in result.networks}
    passes = -(-at[pe, "Weights"].fills // at[pe, "Weights"].tile_words)
    windows = passes * at[pe, "Inputs"].tile_words * shared[buffer, "Inputs"].distinct
    return Ramp(passes, Fraction(at[dram, "Weights"].total_reads, FILTER_WORDS), Fraction(windows, INPUT_WORDS))


def compression(zeros: float) -> float:
    """Compressed over plain size of a feature map, a share `zeros` (0..1) of whose values is zero, in no order.

    A pair takes the zeros up to the next other value, or 31 zeros and the next value: 1 + z + ... + z^31 values on
    average. It may be above 1; the chip stores the input of the first layer plain (section IV-B).

    Examples
    --------
    >>> round(compression(0.0), 4), round(compression(0.75), 4)
    (1.3333, 0.3334)
    """
    values = sum(itertools.accumulate([zeros] * LONGEST_RUN, lambda power, z: power * z, initial=1.0))
    return float(PAIR_BITS / LEVEL_BITS) / values
