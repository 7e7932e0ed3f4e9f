"""Oracle: executes the loop nest and counts, slowly on purpose.

Nothing here is a formula. Loops are stepped one by one, tiles are boxes found by visiting the iterations inside them,
words are points in Python sets, and every instance of every level is simulated. The kernel is held against these
counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from accelsim.architecture import Architecture, Level
from accelsim.mapping import Mapping
from accelsim.nodes import arrange_for
from accelsim.workload import Einsum, Tensor

Point = tuple[int, ...]
Box = tuple[tuple[int, int], ...]
Coordinate = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NestLoop:
    """One loop of the whole nest; `axis` is "" in time, "x" or "y" over the fanout of level `level`."""

    dim: str
    bound: int
    level: int
    axis: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """What one step of the loops outside a tile does to one instance of it."""

    indices: tuple[int, ...]
    instance: Coordinate
    box: Box
    entering: frozenset[Point]
    leaving: frozenset[Point]
    left_box: Box | None


@dataclass(slots=True)
class TensorCounts:
    """Counts of one tensor at one level, in words; per instance where the name does not say otherwise."""

    tile: int = 0
    reads: int = 0
    fills: int = 0
    updates: int = 0


@dataclass(slots=True)
class OracleCounts:
    """All that the oracle counts for one mapping.

    `levels[l][tensor]` holds the counts of every level that keeps the tensor; `steps` is the number of steps that the
    compute units make; `used[l]` the instances used at each level (last: compute units); `transfers[l][tensor]` the
    words that cross the network below level l, in total over its children, down and up.
    """

    steps: int
    used: list[int]
    levels: list[dict[str, TensorCounts]]
    transfers: list[dict[str, int]]
    fails: list[str] = field(default_factory=list)


def nest_loops(mapping: Mapping) -> list[NestLoop]:
    """All loops in nest order: per level the temporal block, then the spatial one (x outside y)."""
    loops: list[NestLoop] = []
    for index, level in enumerate(mapping.levels):
        loops += [NestLoop(loop.dim, loop.bound, index) for loop in level.temporal]
        loops += [NestLoop(loop.dim, loop.bound, index, "x") for loop in level.x]
        loops += [NestLoop(loop.dim, loop.bound, index, "y") for loop in level.y]
    return loops


def _point(tensor: Tensor, loops: list[NestLoop], indices: tuple[int, ...]) -> Point:
    """Coordinates of the word that one iteration of the nest touches."""
    place: dict[str, int] = {}
    for loop, index in zip(loops, indices, strict=True):
        place[loop.dim] = place.get(loop.dim, 0) * loop.bound + index
    return tuple(sum(factor * place.get(dim, 0) for dim, factor in rank) for rank in tensor.ranks)


def _points(box: Box) -> frozenset[Point]:
    return frozenset(itertools.product(*(range(low, high + 1) for low, high in box)))


class _Tile:
    """The tile of one tensor at one level: the nest split into what is outside and what is inside it."""

    def __init__(self, tensor: Tensor, loops: list[NestLoop], level: int) -> None:
        self.tensor, self.loops = tensor, loops
        self.outside = [loop.level < level for loop in loops]
        inside = [range(1) if out else range(loop.bound) for out, loop in zip(self.outside, loops, strict=True)]
        touched = [_point(tensor, loops, indices) for indices in itertools.product(*inside)]
        self.shape = [(min(along), max(along)) for along in zip(*touched, strict=True)]
        self.time = [k for k, loop in enumerate(loops) if self.outside[k] and not loop.axis]
        self.space = [k for k, loop in enumerate(loops) if self.outside[k] and loop.axis]
        self._boxes: dict[Point, tuple[Box, frozenset[Point]]] = {}

    def steps(self) -> Iterator[tuple[int, ...]]:
        """Indices of the temporal loops outside the tile, in the order of execution."""
        return itertools.product(*(range(self.loops[k].bound) for k in self.time))

    def instances(self) -> list[Coordinate]:
        """Coordinates of all instances in use: the indices of the spatial loops outside the tile."""
        return list(itertools.product(*(range(self.loops[k].bound) for k in self.space)))

    def box(self, step: tuple[int, ...], instance: Coordinate) -> tuple[Point, Box, frozenset[Point]]:
        """Origin, box and words of the tile of one instance at one step."""
        indices = [0] * len(self.loops)
        for k, index in zip(self.time + self.space, step + instance, strict=True):
            indices[k] = index
        origin = _point(self.tensor, self.loops, tuple(indices))
        if origin not in self._boxes:
            box = tuple((at + low, at + high) for at, (low, high) in zip(origin, self.shape, strict=True))
            self._boxes[origin] = (box, _points(box))
        return origin, *self._boxes[origin]


def walk_tile(mapping: Mapping, tensor: Tensor, level: int) -> Iterator[Step]:
    """Step through the loops outside a tile and tell, for each instance, which words enter and leave it.

    `level == len(mapping.levels)` walks the compute units, which ask for their word in each step. A last step of each
    instance, with empty `indices`, empties the tile. MODEL: a step that moves the box takes only the new part where the
    box moves along one rank and no other step vector is remembered; otherwise the whole box.
    """
    tile = _Tile(tensor, nest_loops(mapping), level)
    compute = level == len(mapping.levels)
    for instance in tile.instances():
        now: tuple[Point, Box, frozenset[Point]] | None = None
        remembered: Point | None = None
        for step in tile.steps():
            was, now = now, tile.box(step, instance)
            if was is None:
                yield Step(step, instance, now[1], now[2], frozenset(), None)
                continue
            vector = tuple(b - a for a, b in zip(was[0], now[0], strict=True))
            entering, leaving = now[2], was[2]
            if compute:
                yield Step(step, instance, now[1], entering, leaving, was[1])
                continue
            if not any(vector):
                yield Step(step, instance, now[1], frozenset(), frozenset(), None)
                continue
            if remembered is None or remembered == vector:
                remembered = vector
                if sum(a != b for a, b in zip(was[1], now[1], strict=True)) == 1:
                    entering, leaving = entering - leaving, leaving - entering
            else:
                remembered = None
            yield Step(step, instance, now[1], entering, leaving, was[1])
        if now is not None:
            yield Step((), instance, now[1], frozenset(), now[2], now[1])


def _shared(
    mapping: Mapping, tensor: Tensor, network: int, shares: dict[str, bool]
) -> dict[tuple[int, ...], dict[Coordinate, Coordinate]]:
    """For each step, which child of the network stands for each child that shares its words.

    Children of one parent instance share if their boxes are equal and every axis on which their coordinates differ
    shares.
    """
    tile = _Tile(tensor, nest_loops(mapping), network + 1)
    own = [tile.loops[k] for k in tile.space]
    stands: dict[tuple[int, ...], dict[Coordinate, Coordinate]] = {}
    for step in tile.steps():
        groups: dict[object, Coordinate] = {}
        stands[step] = {}
        for instance in tile.instances():
            apart = tuple(
                index
                for loop, index in zip(own, instance, strict=True)
                if loop.level < network or not shares[loop.axis]
            )
            key = (apart, tile.box(step, instance)[1])
            stands[step][instance] = groups.setdefault(key, instance)
    return stands


def _network_shares(level: Level, kind: str) -> dict[str, bool]:
    return {"x": getattr(level.x, kind), "y": getattr(level.y, kind)}


def _representatives(
    mapping: Mapping, architecture: Architecture, tensor: Tensor, parent: int, child: int, kind: str
) -> dict[int, set[Coordinate]]:
    """Instances of each level between parent and child whose words are moved, for each network, in any step.

    Sharing is decided network by network; which instances stand for their group is the same in every step, which is
    checked.
    """
    chosen: dict[int, set[Coordinate]] = {}
    for network in range(parent, child):
        stands = _shared(mapping, tensor, network, _network_shares(architecture.levels[network], kind))
        first = next(iter(stands.values()))
        if any(other != first for other in stands.values()):
            raise RuntimeError("groups of children with equal boxes changed from step to step")
        chosen[network] = set(first.values())
    return chosen


def _passes(chosen: dict[int, set[Coordinate]], widths: list[int], instance: Coordinate, outermost: int) -> bool:
    """Whether no other child stands for this one on any network from `outermost` inwards."""
    return all(instance[: widths[network + 1]] in who for network, who in chosen.items() if network >= outermost)


def execute(architecture: Architecture, einsum: Einsum, mapping: Mapping) -> OracleCounts:
    """Execute a mapping and count every movement of every word.

    Parameters
    ----------
    architecture, einsum, mapping
        As for `evaluate`; small enough to walk (a few thousand multiply-accumulates).

    Returns
    -------
    OracleCounts
        Words, per instance (all instances are simulated and found alike), with what breaks the mapping's validity in
        `fails`.

    Raises
    ------
    RuntimeError
        If two instances of a level count differently, which no perfect mapping can cause.
    """
    architecture = arrange_for(architecture, mapping)
    loops = nest_loops(mapping)
    levels = len(mapping.levels)
    widths = [sum(bool(loop.axis) and loop.level < index for loop in loops) for index in range(levels + 1)]
    used = [len(_Tile(einsum.output, loops, index).instances()) for index in range(levels + 1)]
    counts: list[dict[str, TensorCounts]] = [{} for _ in range(levels)]
    transfers: list[dict[str, int]] = [{tensor.name: 0 for tensor in einsum.tensors} for _ in range(levels)]
    for tensor in einsum.tensors:
        keeps = [index for index in range(levels) if tensor.name in mapping.levels[index].keep]
        for index in keeps:
            counts[index][tensor.name] = TensorCounts(tile=len(next(walk_tile(mapping, tensor, index)).entering))
        for parent, child in itertools.pairwise([*keeps, levels]):
            _count_link(architecture, mapping, tensor, parent, child, widths, counts, transfers)
    steps = sum(1 for _ in itertools.product(*(range(loop.bound) for loop in loops if not loop.axis)))
    result = OracleCounts(steps, used, counts, transfers)
    result.fails = _fails(architecture, einsum, mapping, result)
    return result


def _count_link(
    architecture: Architecture,
    mapping: Mapping,
    tensor: Tensor,
    parent: int,
    child: int,
    widths: list[int],
    counts: list[dict[str, TensorCounts]],
    transfers: list[dict[str, int]],
) -> None:
    """Walk the tiles of `child` and book what they make its parent and itself do."""
    down = _representatives(mapping, architecture, tensor, parent, child, "multicast")
    up = _representatives(mapping, architecture, tensor, parent, child, "spatial_reduction")
    reads: dict[Coordinate, int] = {}
    updates: dict[Coordinate, int] = {}
    fills: dict[Coordinate, int] = {}
    drains: dict[Coordinate, int] = {}
    seen_above: dict[Coordinate, set[Point]] = {}
    seen_here: dict[Coordinate, set[Point]] = {}
    for step in walk_tile(mapping, tensor, child):
        above = step.instance[: widths[parent]]
        for book in (reads, updates):
            book.setdefault(above, 0)
        if not tensor.output:
            fills[step.instance] = fills.get(step.instance, 0) + len(step.entering)
            if _passes(down, widths, step.instance, parent):
                reads[above] += len(step.entering)
            for network in range(parent, child):
                if _passes(down, widths, step.instance, network + 1):
                    transfers[network][tensor.name] += len(step.entering)
            continue
        here = seen_here.setdefault(step.instance, set())
        returning = len(step.entering & here)
        here |= step.entering
        fills[step.instance] = fills.get(step.instance, 0) + returning
        drains[step.instance] = drains.get(step.instance, 0) + len(step.leaving)
        if _passes(up, widths, step.instance, parent):
            updates[above] += len(step.leaving)
            words = seen_above.setdefault(above, set())
            reads[above] += len(step.leaving & words)
            words |= step.leaving
        for network in range(parent, child):
            if _passes(up, widths, step.instance, network + 1):
                transfers[network][tensor.name] += len(step.leaving)
            if _passes(down, widths, step.instance, network + 1):
                transfers[network][tensor.name] += returning
    for book in (reads, updates, fills, drains):
        if len(set(book.values())) > 1:
            raise RuntimeError(
                f"instances of {tensor.name} at one level count differently: {sorted(set(book.values()))}"
            )
    counts[parent][tensor.name].reads += next(iter(reads.values()))
    counts[parent][tensor.name].updates += next(iter(updates.values()))
    if child < len(mapping.levels):
        counts[child][tensor.name].fills += next(iter(fills.values()))
        if tensor.output and architecture.levels[child].drain_reads:
            counts[child][tensor.name].reads += next(iter(drains.values()))


def _fails(architecture: Architecture, einsum: Einsum, mapping: Mapping, result: OracleCounts) -> list[str]:
    """Which levels' fanout or capacity the mapping exceeds, as `fanout x NAME`, `fanout y NAME`, `capacity NAME`."""
    fails = []
    held: dict[str, int] = {}
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
            drained = _drains(architecture, mapping, tensor, index) if tensor.output else 0
            partial = tensor.output and (count.reads - drained > 0 or _sums_meet_outside(mapping, tensor, level.name))
            bits = tensor.psum_bits if partial else tensor.bits
            held[tensor.role] = held.get(tensor.role, 0) + count.tile * -(-bits // level.word_bits)
        if index + 1 < len(mapping.levels) and mapping.levels[index + 1].level == mapped.level:
            continue
        if level.size_words is not None and sum(held.values()) > level.size_words // level.multiple_buffering:
            fails.append(f"capacity {level.name}")
        for role, words in held.items():
            if level.partition_words is not None and words > level.partition_words[role] // level.multiple_buffering:
                fails.append(f"capacity {level.name}")
                break
    return fails


def _sums_meet_outside(mapping: Mapping, tensor: Tensor, name: str) -> bool:
    """Whether other instances hold parts of the same sums: a spatial loop outside does not just tell words apart."""
    index = next(k for k, level in enumerate(mapping.levels) if level.level == name)
    loops = nest_loops(mapping)
    looped = {loop.dim for loop in loops if loop.bound > 1}
    alone = {
        rank[0][0] for rank in ([term for term in rank if term[0] in looped] for rank in tensor.ranks) if len(rank) == 1
    }
    return any(loop.axis and loop.level < index and loop.bound > 1 and loop.dim not in alone for loop in loops)


def _drains(architecture: Architecture, mapping: Mapping, tensor: Tensor, index: int) -> int:
    """Drain reads that were booked at a level [words per instance]."""
    if index == 0 or not architecture.levels[index].drain_reads:
        return 0
    steps = list(walk_tile(mapping, tensor, index))
    first = steps[0].instance
    return sum(len(step.leaving) for step in steps if step.instance == first)
