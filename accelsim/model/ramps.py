"""Cycles besides those of compute units and ports: ramps of systolic arrays, DMA engines, and fills and drains.

docs/model.md, section 8, derives them.

Axis letters: L = storage levels (outermost first), D = dimensions, T = tensors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.workload import Tensor
from accelsim.model.detail import FIRST, INSIDE, STEPS, TILE, TILES, VISITS, WORDS
from accelsim.model.encode import (
    ALONG,
    BUFFERED,
    ISSUE,
    KIND,
    LEAST,
    LEAST_FIRST,
    LINE,
    LINE_UNITS,
    NO_ENGINE,
    PE,
    ROW,
    ROW_UNITS,
    ROWS,
    SKEW,
    UNITS,
    WAITS,
    Encoded,
)
from accelsim.model.jit import inline, jit
from accelsim.model.result import LevelFills, Moves, Ramp, TensorAtLevel, TensorOnNetwork
from accelsim.model.windows import tiles_into, words_into

if TYPE_CHECKING:
    from accelsim.model.detail import Detail
    from accelsim.model.encode import Bools, Constants, Ints


@inline
def ramp_cycles(c: Constants, steps: int, tiles: int, words: int, first: int) -> tuple[int, int, int]:
    """Cycles of the skew, of preloads, and of waiting for more preloads, of a systolic array; docs/model.md, section 8.

    Parameters
    ----------
    steps : int
        Compute cycles without ramps.
    tiles, words, first : int
        How often the tile in a PE changes, words that enter it in all, and at first.
    """
    skew, preload = c.array[SKEW] * tiles, c.array[ROWS] * words
    if not c.array[BUFFERED]:
        return skew, preload, 0
    return c.array[SKEW], c.array[ROWS] * first, max(0, preload - (steps + c.array[ROWS] * first))


@inline
def array_cycles(c: Constants, steps: int, tiles: int, words: int, first: int) -> int:
    """Cycles of the steps and of the ramps of a systolic array, if there is one; arguments as of `ramp_cycles`."""
    if c.array[PE] < 0:
        return steps
    skew, preload, waits = ramp_cycles(c, steps, tiles, words, first)
    return int(steps + skew + preload + waits)


@jit
def held_cycles(c: Constants, temporal: Ints, order: Ints, keep: Bools, s: Detail, steps: int) -> int:
    """Count what the PEs of a systolic array hold in place; returns cycles of so many steps with ramps.

    An array that holds nothing fills once.
    """
    tiles, words, first = 0, 0, 0
    for t in range(keep.shape[1]):
        if c.stationary[t]:
            for lv in range(c.array[PE], c.nodes[c.array[PE], 1]):
                if keep[lv, t]:
                    tiles += tiles_into(c, temporal, order, s, lv, t)
                    words += words_into(c, temporal, order, s, lv, t)
                    first += s.at[lv, t, TILE]
    s.array[TILES], s.array[WORDS], s.array[FIRST] = max(tiles, 1), words, first
    return int(array_cycles(c, steps, s.array[TILES], s.array[WORDS], s.array[FIRST]))


def array_ramps(encoded: Encoded, steps: int, s: Detail) -> tuple[Ramp, ...]:
    """Ramps of a systolic array besides so many compute cycles; none if the machine has no such array."""
    c, (tiles, words, first) = encoded.constants, s.array.tolist()
    if c.array[PE] < 0:
        return ()
    skew, preload, waits = map(int, ramp_cycles.plain()(c, steps, tiles, words, first))
    role = next(level.systolic.stationary for level in encoded.architecture.levels if level.systolic is not None)
    times, which = (1, "first preload") if c.array[BUFFERED] else (tiles, "preload")
    found = (
        Ramp("skew of the array", times, skew),
        Ramp(f"{which} of {role}", times, preload),
        Ramp(f"waiting for preloads of {role}", 1, waits),
    )
    return tuple(ramp for ramp in found if ramp.cycles)


@jit
def tile_cycles(c: Constants, s: Detail, lv: int, t: int) -> int:
    """Cycles that the engine of a level needs for a whole tile of a tensor, rounded up."""
    e = c.dma[lv, t]
    runs, length, extent, rank = 1, 1, 1, -1
    for k in range(c.terms[t]):
        d = c.term[t, k]
        if c.term_opens[t, k]:
            runs *= 1 if rank == e[ALONG] else extent
            extent, rank = 1, c.rank[t, d]
        extent += c.term_factor[t, k] * (s.place[lv, d, INSIDE] - 1)
        if rank == e[ALONG]:
            length = extent
    runs *= 1 if rank == e[ALONG] else extent
    units = 0
    if e[ROW] > 0:
        units += -(-length // e[ROW]) * e[ROW_UNITS]
    if e[LINE] > 0:
        units += -(-length // e[LINE]) * e[LINE_UNITS]
    return int(-(-runs * units // c.dma[lv, c.whole.shape[0], UNITS]))


@jit
def node_moves(c: Constants, s: Detail, keep: Bools, lv: int) -> tuple[int, int, int]:
    """Cycles of an engine for one storage node: for all tiles of its inputs, for the first, and for all outputs."""
    every, first, out = 0, 0, 0
    for t in range(c.whole.shape[0]):
        if keep[lv, t]:
            each = tile_cycles(c, s, lv, t)
            if t == c.output[0]:
                out += s.level[lv, VISITS] * each
            else:
                every += s.level[lv, STEPS] * each
                first += each
    return every, first, out


@jit
def with_engines(c: Constants, s: Detail, keep: Bools, known: int, computing: int) -> int:
    """Cycles with those of all engines, of which not all overlap.

    Parameters
    ----------
    known : int
        Levels whose tiles are known; those further in move what they must at least.
    computing : int
        Cycles of the compute units and of all ports; at least, if not all levels are known.
    """
    longest, waits = computing, 0
    every, first, out, tiles = 0, 0, 0, 0
    for lv in range(c.dma.shape[0]):
        engine, last = c.dma[lv, c.whole.shape[0]], c.nodes[lv, 1] - 1
        if engine[KIND] == NO_ENGINE:
            continue
        if last >= known:
            if lv == last and engine[KIND] == WAITS:
                waits += max(engine[LEAST], engine[LEAST_FIRST])
            elif lv == last:
                longest = max(longest, computing + engine[LEAST_FIRST], engine[LEAST])
            continue
        if lv == c.nodes[lv, 0]:
            every, first, out, tiles = 0, 0, 0, 0
        node_every, node_first, node_out = node_moves(c, s, keep, lv)
        every, first, out = every + node_every, first + node_first, out + node_out
        if keep[lv].any():
            tiles = s.level[lv, STEPS]
        if lv == last and tiles > 0:
            every, first = max(every, tiles * engine[ISSUE]), max(first, engine[ISSUE])
            if engine[KIND] == WAITS:
                waits += every + out
            else:
                longest = max(longest, computing + first, every - (-computing // tiles))
    return int(longest + waits)


def level_moves(encoded: Encoded, s: Detail, keep: Bools) -> tuple[Moves, ...]:
    """What each engine does for a mapping, outermost level first; one whose level keeps nothing does nothing."""
    c, found = encoded.constants, []
    for last, level in enumerate(encoded.architecture.levels):
        if level.dma is None or last != c.nodes[last, 1] - 1:
            continue
        nodes = [node for node in range(int(c.nodes[last, 0]), last + 1) if keep[node].any()]
        if not nodes:
            continue
        parts = [node_moves(c, s, keep, node) for node in nodes]
        every, first, out = (sum(map(int, each)) for each in zip(*parts, strict=True))
        tiles = int(s.level[nodes[-1], STEPS])
        issue = tiles * level.dma.issue
        found.append(Moves(level.name, level.dma.overlap, tiles, max(first, level.dma.issue), every, out, issue))
    return tuple(found)


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
            into = max(_each(t, level, level.write_bandwidth), groups * _each(outer, above, above.read_bandwidth))
            if tensor.output:
                out = max(_each(t, level, level.read_bandwidth), groups * _each(outer, above, above.write_bandwidth))
                back = outer.reads - (outer.drains if above.drain_reads else 0)
                added = back - t.fills * (1 if ragged else groups)
                last += t.tile_words * out
                drains += t.drains * out + added * _each(outer, above, above.read_bandwidth)
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


def _each(tensor: TensorAtLevel, level: Level, own: Fraction | None) -> Fraction:
    """Cycles that a word of a tensor takes at the slower of a level's shared and of its own port for an action."""
    rates = [rate for rate in (level.bandwidth, own) if rate is not None]
    return Fraction(tensor.storage_words(1, level.word_bits)) / min(rates) if rates else Fraction()
