"""Oracle of systolic arrays: runs the array step by step and counts cycles; nothing here is a formula.

Oracle of fills and drains: walks all tiles, transfer by transfer, and adds up how long each takes, or what it moves.

Nothing here is a formula of words: what a transfer moves is counted word by word, as in `accelsim.model.oracle`.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from accelsim.inputs.architecture import Architecture, Level
from accelsim.inputs.level_features import Instruction
from accelsim.inputs.mapping import Mapping
from accelsim.inputs.nodes import arrange_for
from accelsim.inputs.workload import Einsum, Tensor, pad
from accelsim.model.oracle import (
    ByGroup,
    Coordinate,
    OracleCounts,
    Point,
    Sharing,
    Tile,
    acting_steps,
    execute,
    holds_partial_sums,
    moves,
    nest_loops,
    tiles_of,
    walk_tile,
)
from accelsim.model.result import Fills


@dataclass(frozen=True, slots=True)
class ArrayWalk:
    """What a systolic array went through: changes of what its PEs hold, words into a PE by change, and cycles."""

    tiles: int
    words: int
    cycles: int


def walk_array(architecture: Architecture, einsum: Einsum, mapping: Mapping) -> ArrayWalk | None:
    """Run a systolic array step by step; operands reach a PE one step after its neighbour, above or to the left.

    A word of what the PEs hold passes one row a cycle. The array stands still while it enters, and it enters once the
    last PE is done with the tile before; where the PEs are double-buffered, it enters while that is used.
    """
    architecture, einsum = arrange_for(architecture, mapping), pad(einsum, mapping.padding)
    arrays = [(index, level.systolic) for index, level in enumerate(architecture.levels) if level.systolic is not None]
    if not arrays:
        return None
    around, array = arrays[0]
    level, inside = architecture.levels[around], architecture.levels[around + 1]
    held, double = array.stationary, array.double_buffered
    each = architecture.compute.cycles_per_mac
    last_pe = max(row + column for row in range(level.y.size) for column in range(level.x.size)) * each
    coming: dict[tuple[str, tuple[int, ...]], int] = {}
    for tensor in einsum.tensors:
        for index, mapped in enumerate(mapping.levels):
            if tensor.role == held and mapped.level == inside.name and tensor.name in mapped.keep:
                for step in walk_tile(Tile(einsum, tensor, mapping, index)):
                    if step.entering:
                        at = (tensor.name, step.indices)
                        coming[at] = max(coming.get(at, 0), len(step.entering))
    tiles, words = len(coming), sum(coming.values())
    rows = range(0 if held == "Outputs" else level.y.size)
    clock, entering, first = 0, 0, True
    steps = acting_steps(einsum, nest_loops(mapping))
    for number, acting in enumerate(steps):
        for at in [(name, indices) for name, indices in coming if acting[: len(indices)] == indices]:
            clock += last_pe if not first and not double else 0
            first, new = False, coming.pop(at)
            for _ in rows:
                entering += new
                clock += new if number == 0 or not double else 0
        clock += each
    if array.instruction is not None:
        clock += _wasted(array.instruction, mapping, level.name, steps) * each
    return ArrayWalk(tiles, words, (max(clock, entering) if double else clock) + last_pe)


def _wasted(asked: Instruction, mapping: Mapping, name: str, steps: Iterable[tuple[int, ...]]) -> int:
    """Steps in which instructions stream nothing: each takes some rows of a tile at the array, and no others."""
    around = min(index for index, node in enumerate(mapping.levels) if node.level == name)
    loops = [loop for loop in nest_loops(mapping) if not loop.axis]
    rows: defaultdict[tuple[int, ...], int] = defaultdict(int)
    for acting in steps:
        where = [k for k, loop in enumerate(loops) if loop.dim != asked.along or loop.level < around]
        rows[tuple(acting[k] for k in where)] += 1
    wasted = 0
    for left in rows.values():
        for begin in range(0, left, asked.rows):
            wasted += max(0, asked.least - min(asked.rows, left - begin))
    return wasted


@dataclass(slots=True)
class _Transfers:
    """Cycles of the transfers of one tensor into a level, all and the first or last."""

    first_fill: Fraction = Fraction()
    fills: Fraction = Fraction()
    last_drain: Fraction = Fraction()
    drains: Fraction = Fraction()


_Ports = defaultdict[tuple[str, str], Fraction]
"""Words by level, and by `read`, `write` or `network`, that move while the compute units work."""


def walk_fills(
    architecture: Architecture, einsum: Einsum, mapping: Mapping, counts: OracleCounts | None = None
) -> tuple[int, tuple[Fills, ...]]:
    """Run a mapping tile by tile: its cycles, and those of all transfers of each tensor one after the other.

    In a step, the words that leave the tiles of a tensor at a level go up in all instances at once, then those that
    enter come down; each transfer takes as long as the slower side, or the slowest network between. Where the level
    above adds the words that arrive to older ones, which do not come back, these are read after that. The first word
    of a fill that does not overlap comes after the latency of the level above. While a transfer takes place that does
    not overlap, all else stands still; all others share the ports with what the compute units ask for. These work
    through the steps, with those that a systolic array needs besides. Arguments are as for `execute`; `counts` is what
    that found.
    """
    counts = counts or execute(architecture, einsum, mapping)
    array = walk_array(architecture, einsum, mapping)
    architecture, einsum = arrange_for(architecture, mapping), pad(einsum, mapping.padding)
    levels, found, late = architecture.levels, {}, 0
    ports: _Ports = defaultdict(Fraction)
    for number, tensor in enumerate(einsum.tensors):
        keeps = [index for index, node in enumerate(mapping.levels) if tensor.name in node.keep]
        tiles = tiles_of(einsum, mapping, tensor)
        words = {index: _element(mapping, levels[index], tensor, counts, index) for index in keeps}
        for parent, child in itertools.pairwise(keeps):
            clock = _Transfers()
            widths = _network_widths(architecture, mapping, tensor, counts, (parent, child))
            sharing = Sharing(architecture, tiles, parent, child)
            _walk_link(sharing, tensor, words, widths, clock, ports)
            if levels[parent].latency and levels[child].overlap != "all":
                arrives = [any(each.coming.values()) for each in moves(sharing, tensor)]
                waits = arrives[0] if levels[child].overlap == "steady" else sum(arrives)
                if tensor.output and any(sum(einsum.dims[dim] > 1 for dim, _ in rank) > 1 for rank in tensor.ranks):
                    filled = counts.levels[child][tensor.name]  # a window of sums comes back in parts
                    waits = min(waits, -(-filled.fills // filled.tile))
                late += levels[parent].latency * waits
            times = map(math.ceil, (clock.first_fill, clock.fills, clock.last_drain, clock.drains))
            found[child, number] = Fills(levels[child].name, tensor.name, levels[child].overlap, *times)
        last, asked = keeps[-1], counts.levels[keeps[-1]][tensor.name]
        ports[levels[last].name, "read"] += (asked.reads - max(asked.drained.values())) * words[last]
        ports[levels[last].name, "write"] += asked.updates * words[last]
        for network, width in _network_widths(architecture, mapping, tensor, counts, (last, len(levels))).items():
            ports[levels[network].name, "network"] += max(counts.passing[network][tensor.name].values()) * width
    cycles = counts.steps * architecture.compute.cycles_per_mac if array is None else array.cycles
    for level in levels:
        read, written = ports[level.name, "read"], ports[level.name, "write"]
        rates = [(level.read_bandwidth, read), (level.write_bandwidth, written), (level.bandwidth, read + written)]
        rates.append((level.network_bandwidth, ports[level.name, "network"]))
        cycles = max(cycles, *(0 if rate is None else math.ceil(words / rate) for rate, words in rates))
    fills = tuple(found[at] for at in sorted(found))
    return cycles + late + sum(each for one in fills for _, each in one.waiting), fills


def _element(mapping: Mapping, level: Level, tensor: Tensor, counts: OracleCounts, index: int) -> int | Fraction:
    """Storage words of an element at a level."""
    partial = holds_partial_sums(mapping, tensor, level.name, counts.levels[index][tensor.name])
    return level.element_words(tensor, partial=partial)


def _network_widths(
    architecture: Architecture, mapping: Mapping, tensor: Tensor, counts: OracleCounts, link: tuple[int, int]
) -> dict[int, int | Fraction]:
    """Words of an element on each network with a limit between two levels, by the level above it."""
    levels, (parent, child) = architecture.levels, link
    partial = holds_partial_sums(mapping, tensor, levels[parent].name, counts.levels[parent][tensor.name])
    return {
        index: levels[index].element_words(tensor, partial=partial)
        for index in range(parent, child)
        if levels[index].network_bandwidth is not None
        and (index + 1 == len(levels) or levels[index + 1].name != levels[index].name)
    }


def _walk_link(
    sharing: Sharing,
    tensor: Tensor,
    words: dict[int, int | Fraction],
    widths: dict[int, int | Fraction],
    clock: _Transfers,
    ports: _Ports,
) -> None:
    """Walk the tiles of one tensor at one level, which the level above it fills."""
    architecture, parent, child = sharing.architecture, sharing.parent, sharing.child
    above, here = architecture.levels[parent], architecture.levels[child]
    around = [level for level in architecture.levels[:child] if level.name != here.name][-1]
    seen_above: defaultdict[Coordinate, set[Point]] = defaultdict(set)
    older: defaultdict[Coordinate, int] = defaultdict(int)
    shifts = 0
    if around.systolic is not None and around.systolic.stationary == tensor.role and not tensor.output:
        shifts = around.y.size
    last, stepwise = Fraction(), list(moves(sharing, tensor))
    for number, (steps, coming, inwards, up, back) in enumerate(stepwise):
        down = back if tensor.output else inwards[parent]
        out, into = ({index: _most(by[index]) * width for index, width in widths.items()} for by in (up, inwards))
        for (instance, _), arrived in up[parent].items():
            older[instance] += len(arrived & seen_above[instance])
            seen_above[instance] |= arrived
        if tensor.output:
            leaving = max(len(step.leaving) for step in steps) * words[child]
            last = max(_time(leaving, here, "read"), _time(_most(up[parent]) * words[parent], above, "write"))
            last = max(last, _across(architecture, out))
            clock.drains += last
            if here.overlap == "all" or (here.overlap == "steady" and number < len(stepwise) - 1):
                ports[here.name, "read"] += leaving if here.drain_reads else 0
                ports[above.name, "write"] += _most(up[parent]) * words[parent]
                _note(architecture, out, ports)
        enter = max(len(each) for each in coming.values())
        taken = max(_time(enter * words[child], here, "write"), _time(_most(down) * words[parent], above, "read"))
        taken = max(Fraction(), max(taken, _across(architecture, into)) - shifts * enter)
        if here.overlap == "all" or (here.overlap == "steady" and number > 0) or shifts:
            ports[here.name, "write"] += enter * words[child]
            ports[above.name, "read"] += _most(down) * words[parent]
            _note(architecture, into, ports)
        clock.fills += taken
        clock.first_fill += taken if number == 0 else 0
        if tensor.output:
            for (instance, _), each in down.items():
                older[instance] -= len(each)
    clock.last_drain += last
    again = _time(max([0, *older.values()]) * words[parent], above, "read")
    clock.drains = Fraction(math.ceil(clock.drains) + math.ceil(again))
    if here.overlap != "none":
        ports[above.name, "read"] += max([0, *older.values()]) * words[parent]


def _across(architecture: Architecture, moved: dict[int, int | Fraction]) -> Fraction:
    """Cycles that words take on the slowest of some networks, by the level above each."""
    rates = {index: architecture.levels[index].network_bandwidth for index in moved}
    return max((moved[index] / rate for index, rate in rates.items() if rate is not None), default=Fraction())


def _note(architecture: Architecture, moved: dict[int, int | Fraction], ports: _Ports) -> None:
    """Note what passes some networks while the compute units work."""
    for index, words in moved.items():
        ports[architecture.levels[index].name, "network"] += words


def _most(by_group: ByGroup) -> int:
    """Words at the instance above that moves most, those that a group shares counted once."""
    totals: defaultdict[Coordinate, int] = defaultdict(int)
    for (instance, _), moved in by_group.items():
        totals[instance] += len(moved)
    return max(totals.values(), default=0)


def _time(words: int | Fraction, level: Level, action: str) -> Fraction:
    """Cycles that so many storage words take at a port, alone."""
    rates = (level.bandwidth, level.read_bandwidth if action == "read" else level.write_bandwidth)
    return max((words / rate for rate in rates if rate is not None), default=Fraction())
