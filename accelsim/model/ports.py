"""Ports and networks: cycles that units take to pass them; docs/cost-model.md, Cycles."""

from __future__ import annotations

import math
from fractions import Fraction

from accelsim.inputs.architecture import Level
from accelsim.model.detail import PARTIAL, PASSING, Detail
from accelsim.model.encode import NETWORK, Constants
from accelsim.model.jit import inline, jit
from accelsim.model.records import Bools2


@jit
def port_cycles(c: Constants, lv: int, read: int, written: int, cycles: int, every: bool) -> int:
    """Cycles that the busiest port of a level needs; 0 if that is not more than `cycles` and not asked for."""
    needed = 0
    for port in range(3):
        words, rate = (read + written, read, written)[port], c.bandwidth[lv, port, 0]
        if rate > 0:
            least = float(words) * float(c.bandwidth[lv, port, 1])
            if every or least > 0.999 * float(cycles) * float(rate):  # spares the division where it cannot matter
                needed = max(needed, -(-words * c.bandwidth[lv, port, 1] // rate))
    return needed


@inline
def network_cycles(c: Constants, lv: int, units: int) -> int:
    """Cycles that the network below a level needs for so much in and out of it; 0 if it is not limited."""
    rate = c.bandwidth[lv, NETWORK, 0]
    return int(-(-units * c.bandwidth[lv, NETWORK, 1] // rate)) if rate > 0 else 0


@jit
def passing_units(c: Constants, s: Detail, keep: Bools2, lv: int) -> int:
    """What passes between an instance and the network below it, of all tensors [units].

    Of a tensor that the level does not keep, the words are partial sums where they are at the level that does.
    """
    units = 0
    for t in range(keep.shape[1]):
        parent = lv
        while not keep[parent, t]:
            parent -= 1
        units += s.at[lv, t, PASSING] * c.word_parts[lv, t, s.at[parent, t, PARTIAL]]
    return units


@inline
def port_time(c: Constants, lv: int, read: int, written: int) -> int:
    """Cycles that so many words take at a level that does nothing else."""
    return int(port_cycles(c, lv, read, written, 0, True))


def port_cycles_of(level: Level, read: int | Fraction, written: int | Fraction) -> int:
    """Cycles that the ports of an instance need for so many storage words."""
    return max((math.ceil(words / rate) for rate, words in level.ports(read, written)), default=0)
