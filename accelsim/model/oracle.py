"""Oracle: executes the loop nest and counts, slowly on purpose.

Nothing here is a formula. Loops are stepped one by one, tiles are boxes found by visiting the iterations inside them,
words are points in Python sets, and every instance of every level is simulated. Iterations at or beyond the bound of a
dimension do not happen: they touch nothing, and an instance that has no others in a step is idle in it. The formulas of
kernel.py and ragged.py are held against these counts.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections import defaultdict
from collections.abc import Container, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from accelsim.inputs.architecture import Architecture, Axis
from accelsim.inputs.mapping import Mapping
from accelsim.inputs.nodes import arrange_for
from accelsim.inputs.workload import Einsum, Tensor, pad

Point = tuple[int, ...]
Box = tuple[tuple[int, int], ...]
Coordinate = tuple[int, ...]
Place = tuple[int, ...]
"""Position along each dimension of the Einsum, in its order."""


class NestLoop(NamedTuple):
    """One loop of the whole nest."""

    dim: str  # the dimension
    bound: int  # bound of the loop
    level: int  # index of the level that owns the loop
    axis: str = ""  # empty in time; "x" or "y" over that axis of the level's fanout


@dataclass(frozen=True, slots=True)
class OracleStep:
    """What one step of the loops outside a tile does to one instance of it."""

    indices: tuple[int, ...]
    instance: Coordinate
    box: Box
    entering: frozenset[Point]
    leaving: frozenset[Point]


@dataclass(slots=True)
class TensorCounts:
    """Counts of one tensor at one level, in words: by instance, of the busiest one, and in total over all of them.

    `tile` is the largest tile. `drained` is the part of the reads that drains words to the level above.
    """

    tile: int = 0
    read: dict[Coordinate, int] = field(default_factory=dict)
    filled: dict[Coordinate, int] = field(default_factory=dict)
    updated: dict[Coordinate, int] = field(default_factory=dict)
    drained: dict[Coordinate, int] = field(default_factory=dict)

    @property
    def reads(self) -> int:
        """Words read from the instance that is read most."""
        return max(self.read.values(), default=0)

    @property
    def fills(self) -> int:
        """Words filled into the instance that is filled most."""
        return max(self.filled.values(), default=0)

    @property
    def updates(self) -> int:
        """Words updated in the instance that is updated most."""
        return max(self.updated.values(), default=0)

    @property
    def total_reads(self) -> int:
        """Words read from all instances."""
        return sum(self.read.values())

    @property
    def total_fills(self) -> int:
        """Words filled into all instances."""
        return sum(self.filled.values())

    @property
    def total_updates(self) -> int:
        """Words updated in all instances."""
        return sum(self.updated.values())


@dataclass(slots=True)
class OracleCounts:
    """All that the oracle counts for one mapping.

    `levels[l][tensor]` holds the counts of every level that keeps the tensor; `steps` is the number of steps in which
    a compute unit acts; `used[l]` the instances used at each level (last: compute units); `transfers[l][tensor]` the
    words that cross the network below level l, in total over its children, down and up, and `returns[l][tensor]` those
    of them that are partial sums on their way back. `passing[l][tensor]` are words between each instance of level l and
    that network, both ways, words that children share counted once. `hops[l][tensor]` are the links of a mesh that all
    of them pass there, 0 where links cost nothing.
    """

    steps: int
    used: list[int]
    levels: list[dict[str, TensorCounts]]
    transfers: list[dict[str, int]]
    returns: list[dict[str, int]]
    passing: list[dict[str, dict[Coordinate, int]]]
    hops: list[dict[str, int]]
    fails: list[str] = field(default_factory=list)


def nest_loops(mapping: Mapping) -> list[NestLoop]:
    """All loops in nest order: per level the temporal block, then the spatial one (x outside y)."""
    loops: list[NestLoop] = []
    for index, level in enumerate(mapping.levels):
        loops += [NestLoop(loop.dim, loop.bound, index) for loop in level.temporal]
        loops += [NestLoop(loop.dim, loop.bound, index, "x") for loop in level.x]
        loops += [NestLoop(loop.dim, loop.bound, index, "y") for loop in level.y]
    return loops


@lru_cache(maxsize=8)
def _places(dims: tuple[str, ...], loops: tuple[NestLoop, ...]) -> dict[tuple[int, ...], Place]:
    """Position of each iteration of the nest along each dimension, by its indices."""
    places = {}
    for indices in itertools.product(*(range(loop.bound) for loop in loops)):
        place = dict.fromkeys(dims, 0)
        for loop, index in zip(loops, indices, strict=True):
            place[loop.dim] = place[loop.dim] * loop.bound + index
        places[indices] = tuple(place.values())
    return places


@lru_cache(maxsize=8)
def _words(
    dims: tuple[str, ...], loops: tuple[NestLoop, ...], ranks: tuple[tuple[tuple[str, int], ...], ...]
) -> dict[Place, Point]:
    """The word of a tensor that an iteration touches, by its position."""
    sums = [[(dims.index(dim), factor) for dim, factor in rank] for rank in ranks]
    return {
        place: tuple([sum([factor * place[d] for d, factor in rank]) for rank in sums])
        for place in _places(dims, loops).values()
    }


def _happens(place: Iterable[int], bounds: tuple[int, ...]) -> bool:
    """Whether an iteration lies inside the bounds."""
    return all(map(operator.lt, place, bounds))


def _points(box: Box) -> frozenset[Point]:
    return frozenset(itertools.product(*(range(low, high + 1) for low, high in box)))


class Tile:
    """The tile of one tensor at one level: the nest split into what is outside and what is inside it."""

    def __init__(self, einsum: Einsum, tensor: Tensor, mapping: Mapping, level: int) -> None:
        self.loops, self.compute = nest_loops(mapping), level == len(mapping.levels)
        self.tensor = tensor
        outside = [loop.level < level for loop in self.loops]
        inside = [range(1) if out else range(loop.bound) for out, loop in zip(outside, self.loops, strict=True)]
        nest = tuple(einsum.dims), tuple(self.loops)
        self.bounds, self.places, self.words = tuple(einsum.dims.values()), _places(*nest), _words(*nest, tensor.ranks)
        offsets = [self.places[indices] for indices in itertools.product(*inside)]
        self.offsets = [(offset, self.words[offset]) for offset in offsets]
        self.whole = len(self.places) == math.prod(self.bounds)
        self.time = [k for k, loop in enumerate(self.loops) if outside[k] and not loop.axis]
        self.space = [k for k, loop in enumerate(self.loops) if outside[k] and loop.axis]
        self._boxes: dict[tuple[tuple[int, ...], Coordinate], tuple[Box, frozenset[Point]] | None] = {}
        self._touched_from: dict[Point, tuple[Box, frozenset[Point]]] = {}
        self._walked: list[OracleStep] | None = None

    def steps(self) -> Iterator[tuple[int, ...]]:
        """Indices of the temporal loops outside the tile, in the order of execution."""
        return itertools.product(*(range(self.loops[k].bound) for k in self.time))

    def instances(self) -> list[Coordinate]:
        """Coordinates of all instances in use: the indices of the spatial loops outside the tile."""
        return list(itertools.product(*(range(self.loops[k].bound) for k in self.space)))

    def box(self, step: tuple[int, ...], instance: Coordinate) -> tuple[Box, frozenset[Point]] | None:
        """Box and words of the tile of one instance at one step; None if no iteration inside it happens."""
        if (step, instance) not in self._boxes:
            indices = [0] * len(self.loops)
            for k, index in zip(self.time + self.space, step + instance, strict=True):
                indices[k] = index
            self._boxes[step, instance] = self._touched(self.places[tuple(indices)])
        return self._boxes[step, instance]

    def _touched(self, origin: Place) -> tuple[Box, frozenset[Point]] | None:
        """Visit the iterations inside the tile that happen."""
        first, whole = self.words[origin], self.whole
        if whole and first in self._touched_from:
            return self._touched_from[first]
        touched = {
            word for offset, word in self.offsets if whole or _happens(map(operator.add, origin, offset), self.bounds)
        }
        if not touched:
            return None
        box = tuple(
            (start + min(along), start + max(along))
            for start, along in zip(first, zip(*touched, strict=True), strict=True)
        )
        found = self._touched_from[first] = box, _points(box)
        return found

    def walk(self) -> list[OracleStep]:
        """All steps of `walk_tile`, taken once."""
        if self._walked is None:
            self._walked = list(walk_tile(self))
        return self._walked


def tiles_of(einsum: Einsum, mapping: Mapping, tensor: Tensor) -> list[Tile]:
    """Tiles of a tensor at each level, and at the compute units."""
    return [Tile(einsum, tensor, mapping, level) for level in range(len(mapping.levels) + 1)]


def walk_tile(tile: Tile) -> Iterator[OracleStep]:
    """Step through the loops outside a tile and tell, for each instance, which words enter and leave it.

    Compute units ask for their word in each step. A last step of each instance, with empty `indices`, empties the tile;
    steps in which an instance is idle are left out. A step that moves the box takes only the new part where the box
    moves along one rank and no other step vector is remembered; otherwise the whole box (docs/cost-model.md, Fills).
    """
    for instance in tile.instances():
        now: tuple[Box, frozenset[Point]] | None = None
        remembered: Point | None = None
        for step in tile.steps():
            found = tile.box(step, instance)
            if found is None:
                continue
            was, now = now, found
            if was is None:
                yield OracleStep(step, instance, now[0], now[1], frozenset())
                continue
            vector = tuple(b - a for (a, _), (b, _) in zip(was[0], now[0], strict=True))
            entering, leaving = now[1], was[1]
            if tile.compute:
                yield OracleStep(step, instance, now[0], entering, leaving)
                continue
            if not any(vector):
                yield OracleStep(step, instance, now[0], frozenset(), frozenset())
                continue
            if remembered is None or remembered == vector:
                remembered = vector
                if sum(a != b for a, b in zip(was[0], now[0], strict=True)) == 1:
                    entering, leaving = entering - leaving, leaving - entering
            else:
                remembered = None
            yield OracleStep(step, instance, now[0], entering, leaving)
        if now is not None:
            yield OracleStep((), instance, now[0], frozenset(), now[1])


class Sharing:
    """Which instances share words on their way from a parent to the tiles of a child, in each step.

    Children of one instance above a network share if their boxes are equal and every axis on which their coordinates
    differ shares; where levels between are bypassed, that is asked network by network.
    """

    def __init__(self, architecture: Architecture, tiles: list[Tile], parent: int, child: int) -> None:
        self.architecture, self.tiles, self.parent, self.child = architecture, tiles, parent, child
        links = itertools.product(range(parent, child), ("multicast", "spatial_reduction"))
        self.apart = {(network, kind): self._apart(network, kind) for network, kind in links}
        self.network = max((k for k in range(child) if not _same_level(architecture, k, child)), default=-1)

    def keys(self, step: tuple[int, ...], instance: Coordinate, kind: str) -> dict[int, Group]:
        """For each level from the parent to the child, what all that share words on the networks inside it have alike.

        The first part is the instance of that level.
        """
        keys: dict[int, Group] = {self.child: (instance, ())}
        alike: Hashable = ()
        for network in range(self.child - 1, self.parent - 1, -1):
            tile = self.tiles[network + 1]
            held = tile.box(step[: len(tile.time)], instance[: len(tile.space)])
            apart = tuple([instance[place] for place in self.apart[network, kind]])
            alike = (apart, held and held[0], alike)
            keys[network] = (instance[: len(self.tiles[network].space)], alike)
        return keys

    def _apart(self, network: int, kind: str) -> list[int]:
        """Places in the coordinates of a network's children of its own loops, along axes that do not share."""
        tile, level = self.tiles[network + 1], self.architecture.levels[network]
        own = [(place, tile.loops[k].axis) for place, k in enumerate(tile.space) if tile.loops[k].level == network]
        return [place for place, axis in own if not _shares(getattr(level, axis), kind, tile.tensor)]


def _same_level(architecture: Architecture, one: int, other: int) -> bool:
    """Whether two storage nodes are of one level."""
    levels = architecture.levels
    return other < len(levels) and levels[one].name == levels[other].name


def _links(sharing: Sharing, tensor: Tensor) -> dict[tuple[int, Coordinate], Coordinate]:
    """Which neighbour an instance takes the words of an input from in a step, if the network above has link transfers.

    That is the next one along an axis that one loop is spread over, if it took in the same words in the step before:
    along x, or along y if none can along x.
    """
    tile, network = sharing.tiles[sharing.child], sharing.network
    if tile.compute or tensor.output or not sharing.architecture.levels[network].link_transfers:
        return {}
    for axis in "xy":
        found: dict[tuple[int, Coordinate], Coordinate] = {}
        spread = [n for n, k in enumerate(tile.space) if tile.loops[k].level == network and tile.loops[k].axis == axis]
        spread = [n for n in spread if tile.loops[tile.space[n]].bound > 1]
        before: dict[Coordinate, frozenset[Point]] = {}
        for time, steps in enumerate(in_time(tile.walk()) if len(spread) == 1 else ()):
            for step in steps:
                at = step.instance
                neighbour = tuple(place + (n == spread[0]) for n, place in enumerate(at))
                if step.entering and before.get(neighbour) == step.entering:
                    found[time, at] = neighbour
            before = {step.instance: step.entering for step in steps}
        if found:
            return found
    return {}


def _shares(axis: Axis, kind: str, tensor: Tensor) -> bool:
    """Whether children along an axis share words of a tensor, inwards (multicast) or outwards."""
    if kind == "spatial_reduction" or isinstance(axis.multicast, bool):
        return bool(getattr(axis, kind))
    return tensor.role in axis.multicast


def execute(architecture: Architecture, einsum: Einsum, mapping: Mapping) -> OracleCounts:
    """Execute a mapping and count every movement of every word, by instance, and what breaks the mapping's validity.

    Arguments are as for `evaluate`; small enough to walk (a few thousand multiply-accumulates).
    """
    architecture, einsum = arrange_for(architecture, mapping), pad(einsum, mapping.padding)
    levels = len(mapping.levels)
    used = [len(tile.instances()) for tile in tiles_of(einsum, mapping, einsum.output)]
    counts: list[dict[str, TensorCounts]] = [{} for _ in range(levels)]
    none_yet = ([{tensor.name: 0 for tensor in einsum.tensors} for _ in range(levels)] for _ in range(3))
    transfers, returns, hops = none_yet
    passing: list[dict[str, dict[Coordinate, int]]] = [{} for _ in range(levels)]
    for tensor in einsum.tensors:
        tiles = tiles_of(einsum, mapping, tensor)
        keeps = [index for index in range(levels) if tensor.name in mapping.levels[index].keep]
        for index in keeps:
            none = dict.fromkeys(tiles[index].instances(), 0)
            largest = max(len(step.entering) for step in tiles[index].walk())
            counts[index][tensor.name] = TensorCounts(largest, {**none}, {**none}, {**none}, {**none})
        for parent, child in itertools.pairwise([*keeps, levels]):
            _count_link(Sharing(architecture, tiles, parent, child), tensor, counts, transfers, returns, passing, hops)
    steps = len(acting_steps(einsum, nest_loops(mapping)))
    result = OracleCounts(steps, used, counts, transfers, returns, passing, hops)
    result.fails = _fails(architecture, einsum, mapping, result)
    return result


def acting_steps(einsum: Einsum, loops: list[NestLoop]) -> dict[tuple[int, ...], int]:
    """Steps of the temporal loops in which some compute unit acts, in order, and how many do a MAC without padding."""
    acting, bounds = dict[tuple[int, ...], int](), tuple(einsum.dims.values())
    real = tuple((einsum.unpadded or einsum.dims)[dim] for dim in einsum.dims)
    for indices, place in _places(tuple(einsum.dims), tuple(loops)).items():
        if _happens(place, bounds):
            step = tuple([index for loop, index in zip(loops, indices, strict=True) if not loop.axis])
            acting[step] = acting.get(step, 0) + _happens(place, real)
    return dict(sorted(acting.items()))


def in_time(steps: Iterable[OracleStep]) -> list[list[OracleStep]]:
    """Steps of all instances, those of one time together; the end, when all tiles are emptied, is one time."""
    times: dict[tuple[bool, tuple[int, ...]], list[OracleStep]] = {}
    for step in steps:
        ends = not step.indices and not step.entering
        times.setdefault((ends, step.indices), []).append(step)
    return [times[time] for time in sorted(times)]


Group = tuple[Coordinate, Hashable]
"""Instances that share words on their way, by the instance above them and what they have alike."""
ByGroup = defaultdict[Group, set[Point]]


class Moved(NamedTuple):
    """What moves at one time between the tiles of a child and the levels up to its parent."""

    steps: list[OracleStep]
    """What the step does to each instance of the child."""
    coming: dict[Coordinate, frozenset[Point]]
    """Words that come down to each instance; of the output only those that it held before."""
    down: defaultdict[int, ByGroup]
    """Words that come down over the network below each level, by the group that shares them."""
    up: defaultdict[int, ByGroup]
    """Words that go up over the network below each level, by the group whose sums meet."""
    back: ByGroup
    """Words that come down, by the group whose sums meet at the parent."""


def moves(sharing: Sharing, tensor: Tensor, linked: Container[tuple[int, Coordinate]] = ()) -> Iterator[Moved]:
    """Walk the tiles of a child; all that share words in a step move those that any of them moves once.

    Words of instances that are `linked` at a time come from their neighbours, not over the network.
    """
    held: dict[Coordinate, dict[int, Group]] = {}
    seen: defaultdict[Coordinate, set[Point]] = defaultdict(set)
    for time, steps in enumerate(in_time(sharing.tiles[sharing.child].walk())):
        down, up = (defaultdict[int, ByGroup](lambda: defaultdict(set)) for _ in range(2))
        found = Moved(steps, {}, down, up, defaultdict(set))
        for step in steps:
            at, coming = step.instance, step.entering
            if tensor.output:
                coming &= seen[at]
                seen[at] |= step.entering
                for level, key in held.get(at, {}).items():
                    up[level][key] |= step.leaving
            found.coming[at] = coming
            if step.entering:
                held[at] = sharing.keys(step.indices, at, "spatial_reduction")
                found.back[held[at][sharing.parent]] |= coming
                for level, key in sharing.keys(step.indices, at, "multicast").items():
                    if (time, at) not in linked or level > sharing.network:
                        down[level][key] |= coming
        yield found


def _count_link(
    sharing: Sharing,
    tensor: Tensor,
    counts: list[dict[str, TensorCounts]],
    transfers: list[dict[str, int]],
    returns: list[dict[str, int]],
    passing: list[dict[str, dict[Coordinate, int]]],
    hops: list[dict[str, int]],
) -> None:
    """Walk the tiles of the child and book what they make its parent and itself do."""
    parent, child, tile = sharing.parent, sharing.child, sharing.tiles[sharing.child]
    above = counts[parent][tensor.name]
    here = None if tile.compute else counts[child][tensor.name]
    seen_above: defaultdict[Coordinate, set[Point]] = defaultdict(set)
    linked = _links(sharing, tensor)
    levels = sharing.architecture.levels
    meshes = [network for network in range(parent, child) if sharing.architecture.has_hops(levels[network])]
    for level in range(parent, child):
        passing[level][tensor.name] = dict.fromkeys(sharing.tiles[level].instances(), 0)
    for time, moved in enumerate(moves(sharing, tensor, linked)):
        for step in moved.steps:
            if here is None:
                break
            coming = len(moved.coming[step.instance])
            here.filled[step.instance] += coming
            if (time, step.instance) in linked:
                here.read[linked[time, step.instance]] += coming
            if tensor.output and levels[child].drain_reads:
                here.read[step.instance] += len(step.leaving)
                here.drained[step.instance] += len(step.leaving)
        for kind, way in (("multicast", moved.down), ("spatial_reduction", moved.up)):
            for level, groups in way.items():
                for (instance, _), words in groups.items():
                    if level > parent:
                        transfers[level - 1][tensor.name] += len(words)
                    if level < child:
                        passing[level][tensor.name][instance] += len(words)
            for network in meshes:
                into: defaultdict[Coordinate, int] = defaultdict(int)
                for (instance, _), words in way[network + 1].items():
                    into[instance] += len(words)
                hops[network][tensor.name] += _links_passed(sharing, network, tensor, kind, into)
        if tensor.output:
            for level in range(parent + 1, child + 1):
                returns[level - 1][tensor.name] += sum(map(len, moved.down[level].values()))
        else:
            for (instance, _), words in moved.down[parent].items():
                above.read[instance] += len(words)
        for (instance, _), words in moved.up[parent].items():
            above.updated[instance] += len(words)
            above.read[instance] += len(words & seen_above[instance])
            seen_above[instance] |= words


def _links_passed(sharing: Sharing, network: int, tensor: Tensor, kind: str, into: dict[Coordinate, int]) -> int:
    """Links of the mesh below a level that words to or from its children pass in one step.

    Those of one child go along the row of the parent, and then along the column. Children that share words, where all
    loops that move the tensor are at one index, stand side by side, and a word passes each link once for all of them.
    """
    tile, level = sharing.tiles[network + 1], sharing.architecture.levels[network]
    moves = {dim for rank in tensor.ranks for dim, _ in rank}
    links: defaultdict[tuple[Coordinate, Coordinate], set[tuple[str, int, int]]] = defaultdict(set)
    words: dict[tuple[Coordinate, Coordinate], int] = {}
    for instance, count in into.items():
        if not count:
            continue
        apart: Coordinate = ()
        at: dict[str, int] = {}
        for axis in "xy":
            spread = [
                (loop.dim not in moves and _shares(getattr(level, axis), kind, tensor), loop.bound, index)
                for loop, index in zip((tile.loops[k] for k in tile.space), instance, strict=True)
                if (loop.level, loop.axis) == (network, axis)
            ]
            at[axis] = 0
            for _, bound, index in sorted(spread, key=lambda loop: loop[0]):
                at[axis] = at[axis] * bound + index
            apart += tuple(index for shared, _, index in spread if not shared)
        above = sum(tile.loops[k].level < network for k in tile.space)
        group = instance[:above], apart
        links[group] |= {("x", column, 0) for column in range(at["x"])}
        links[group] |= {("y", at["x"], row) for row in range(at["y"])}
        words[group] = max(words.get(group, 0), count)
    return sum(count * len(links[group]) for group, count in words.items())


def _fails(architecture: Architecture, einsum: Einsum, mapping: Mapping, result: OracleCounts) -> list[str]:
    """Which levels' fanout or capacity the mapping exceeds, as `fanout x NAME`, `fanout y NAME`, `capacity NAME`."""
    fails = []
    held: dict[str, int | Fraction] = {}
    for index, (level, mapped, counts) in enumerate(
        zip(architecture.levels, mapping.levels, result.levels, strict=True)
    ):
        for axis, name in ((level.x, "x"), (level.y, "y")):
            spread = 1
            for loop in mapped.x if name == "x" else mapped.y:
                spread *= loop.bound
            if spread > axis.size:
                fails.append(f"fanout {name} {level.name}")
        if index == 0 or mapping.levels[index - 1].level != mapped.level:
            held = {}
        for tensor in einsum.tensors:
            if tensor.name not in counts:
                continue
            count = counts[tensor.name]
            each = level.element_words(tensor, partial=holds_partial_sums(mapping, tensor, level.name, count))
            held[tensor.role] = held.get(tensor.role, 0) + count.tile * each
        if index + 1 < len(mapping.levels) and mapping.levels[index + 1].level == mapped.level:
            continue
        if level.size_words is not None and sum(held.values()) > level.size_words // level.multiple_buffering:
            fails.append(f"capacity {level.name}")
        for role, words in held.items():
            if level.partition_words is not None and words > level.partition_words[role] // level.multiple_buffering:
                fails.append(f"capacity {level.name}")
                break
    return fails


def holds_partial_sums(mapping: Mapping, tensor: Tensor, name: str, count: TensorCounts) -> bool:
    """Whether a level holds partial sums of a tensor: some come back, or others hold parts of the same ones."""
    read_back = any(words > count.drained[at] for at, words in count.read.items())
    return tensor.output and (read_back or sums_meet_outside(mapping, tensor, name))


def sums_meet_outside(mapping: Mapping, tensor: Tensor, name: str) -> bool:
    """Whether other instances hold parts of the same sums: a spatial loop outside does not just tell words apart."""
    index = next(k for k, level in enumerate(mapping.levels) if level.level == name)
    loops = nest_loops(mapping)
    looped = {loop.dim for loop in loops if loop.bound > 1}
    alone = {
        rank[0][0] for rank in ([term for term in rank if term[0] in looped] for rank in tensor.ranks) if len(rank) == 1
    }
    return any(loop.axis and loop.level < index and loop.bound > 1 and loop.dim not in alone for loop in loops)
