"""Cycles of fills and drains that nothing overlaps, level by level; docs/model.md, section 8."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.workload import Tensor
from accelsim.model.result import LevelFills, TensorAtLevel, TensorOnNetwork


def level_fills(
    architecture: Architecture,
    tensors: Sequence[Tensor],
    at_level: Sequence[TensorAtLevel],
    on_network: Sequence[TensorOnNetwork],
    *,
    ragged: bool,
) -> tuple[LevelFills, ...]:
    """Cycles that all transfers into and out of each level's tiles take one after the other, outermost level first.

    A transfer is what moves of one tensor in one step of the nest; it takes as long as the slower of both sides.

    Parameters
    ----------
    architecture : Architecture
        With the storage nodes of the mapping.
    tensors : sequence of Tensor
        Of the Einsum.
    at_level, on_network
        Counts of a mapping on that machine.
    ragged : bool
        Its loops leave remainders: transfers are then those of the busiest instance, as if all others moved as much.
    """
    levels = {level.name: level for level in architecture.levels}
    known = {tensor.name: tensor for tensor in tensors}
    found = []
    for around, name in itertools.pairwise(levels):
        level, array = levels[name], levels[around].systolic
        first, fills, last, drains = Fraction(), Fraction(), Fraction(), Fraction()
        for t in at_level:
            if t.level != name:
                continue
            outer, tensor = _outer(t, at_level), known[t.tensor]
            above = levels[outer.level]
            groups = _groups(t, outer, list(levels), on_network, up=tensor.output)
            into = max(_each(t, level, _writing(level)), groups * _each(outer, above, _reading(above)))
            if tensor.output:
                out = max(_each(t, level, _reading(level)), groups * _each(outer, above, _writing(above)))
                back = outer.reads - (outer.drains if above.drain_reads else 0)
                added = back - t.fills * (1 if ragged else groups)
                last += t.tile_words * out
                drains += t.drains * out + added * _each(outer, above, _reading(above))
            elif array is not None and array.stationary == tensor.role:
                into = max(Fraction(), into - levels[around].y.size)  # the preload of the array is a ramp of its own
            first += 0 if tensor.output else t.tile_words * into
            fills += t.fills * into
        double = level.multiple_buffering > 1 or (array is not None and array.double_buffered)
        found.append(LevelFills(name, double, *map(math.ceil, (first, fills, last, drains))))
    return tuple(found)


def computing_cycles(architecture: Architecture, busy: int, at_level: Sequence[TensorAtLevel]) -> int:
    """Cycles of the compute units and of the ports that they ask for operands, which overlap.

    Parameters
    ----------
    busy : int
        Cycles of the compute units with ramps.
    at_level : sequence of TensorAtLevel
        Counts of the mapping.
    """
    innermost = {t.tensor: t for t in at_level}
    computing = busy
    for level in {level.name: level for level in architecture.levels}.values():
        read, updated = Fraction(), Fraction()
        for t in innermost.values():
            if t.level == level.name:
                asked = t.reads - (t.drains if level.drain_reads else 0)
                read += t.storage_words(asked, level.word_bits)
                updated += t.storage_words(t.updates, level.word_bits)
        computing = max(computing, port_cycles_of(level, read, updated))
    return computing


def port_cycles_of(level: Level, read: int | Fraction, written: int | Fraction) -> int:
    """Cycles that the ports of an instance need for so many storage words."""
    ports = ((level.bandwidth, read + written), (level.read_bandwidth, read), (level.write_bandwidth, written))
    return max((math.ceil(words / rate) for rate, words in ports if rate is not None), default=0)


def _outer(tensor: TensorAtLevel, at_level: Sequence[TensorAtLevel]) -> TensorAtLevel:
    """The same tensor at the level that its tile comes from: the next one further out that keeps it."""
    keeping = [t for t in at_level if t.tensor == tensor.tensor]
    return keeping[keeping.index(tensor) - 1]


def _groups(
    tensor: TensorAtLevel,
    outer: TensorAtLevel,
    names: Sequence[str],
    on_network: Sequence[TensorOnNetwork],
    *,
    up: bool,
) -> int:
    """Words at one instance of the outer level for each word of a tile, of all its children together."""
    between = names[names.index(outer.level) : names.index(tensor.level)]
    crossed = [n for n in on_network if n.tensor == tensor.tensor and n.level in between]
    return math.prod(n.distinct_up if up else n.distinct for n in crossed)


def _each(tensor: TensorAtLevel, level: Level, rate: Fraction | None) -> Fraction:
    """Cycles that a word of a tensor takes at a port of a level."""
    return Fraction() if rate is None else tensor.storage_words(1, level.word_bits) / rate


def _reading(level: Level) -> Fraction | None:
    return _slowest(level.bandwidth, level.read_bandwidth)


def _writing(level: Level) -> Fraction | None:
    return _slowest(level.bandwidth, level.write_bandwidth)


def _slowest(*rates: Fraction | None) -> Fraction | None:
    return min((rate for rate in rates if rate is not None), default=None)
