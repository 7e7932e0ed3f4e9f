"""The loops of a mapping from within, and the tiles and leaders that lie between two of its levels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from accelsim.inputs.mapping import LevelMapping
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.sparsity import Format, Rank
from accelsim.inputs.workload import Tensor

Sizes = dict[str, int]
"""Steps of each dimension that a tile covers."""


@dataclass(frozen=True, slots=True)
class Step:
    """A loop of more than one iteration, and the level that it belongs to."""

    dim: str
    bound: int
    level: int
    spatial: bool


@dataclass(frozen=True, slots=True)
class Fibers:
    """One rank of a tile: fibers of so many coordinates, each with a tile of some box below it."""

    rank: Rank
    shape: int
    below: tuple[int, ...]


class Nest:
    """The loops of a mapping, innermost first; level `depth` is that of the compute units."""

    def __init__(self, mapping: LoopNest) -> None:
        self.levels = mapping.levels
        self.depth = len(mapping.levels)
        self.steps = [step for level in range(self.depth - 1, -1, -1) for step in _steps(mapping.levels[level], level)]

    def keeps(self, level: int, tensor: Tensor) -> bool:
        """Whether a level keeps a tensor."""
        return tensor.name in self.levels[level].keep

    def child(self, level: int, tensor: Tensor) -> int:
        """Level that a tensor goes to from a level that keeps it."""
        return next((inner for inner in range(level + 1, self.depth) if self.keeps(inner, tensor)), self.depth)

    def keeper(self, level: int, tensor: Tensor) -> int:
        """Level that holds a tensor for what stands below a level: itself, or the next one outwards."""
        return next(outer for outer in range(level, -1, -1) if self.keeps(outer, tensor))

    def between(self, outer: int, inner: int) -> list[Step]:
        """Loops of the levels from `outer` on that lie outside level `inner`, innermost first."""
        return [step for step in self.steps if outer <= step.level < inner]

    def inside(self, level: int) -> Sizes:
        """What a tile at a level covers."""
        return covered(self.between(level, self.depth))

    def leader_sizes(self, follower: Tensor, leader: Tensor, level: int, block: int) -> Sizes:
        """What a tile of a leader covers that decides whether words of a follower, at a level that keeps it, move.

        The words that move together are those that the next level takes in a step (a word for each compute unit), or
        a block if that is more. They are not needed if no word of the leader that meets them while they stay is
        something else than zero: in the loops inside the innermost one in time that moves them, and in all instances
        that share them.
        """
        child = self.child(level, follower)
        sizes = self.inside(child)
        outer = self.between(level, child)
        moving = [step for step in outer if step.dim in follower.dims]
        last = next((step for step in moving if not step.spatial), None)
        at = outer.index(last) if last is not None else len(outer)
        shared = [
            step
            for place, step in enumerate(outer)
            if step.dim not in follower.dims and (step.spatial or (place < at and child < self.depth))
        ]
        _multiply(sizes, covered(shared))
        short = -(-block // follower.words(_whole(sizes, follower)))
        if short > 1:
            along = last or next((step for step in outer if not step.spatial), None)
            _multiply(sizes, {along.dim: short} if along is not None else {})
        return _whole(sizes, leader)

    def fibers(self, tensor: Tensor, level: int, formats: Mapping[int, Format]) -> list[Fibers]:
        """Ranks of a tensor's tile at a level that has a format, the outermost first.

        `formats`: the tensor's at each level that has one. Raises ValueError if no rank takes a loop: the last one that
        is given loops takes all that are left, unless it names others.
        """
        child = self.child(level, tensor)
        own = formats[level]
        inside = self.inside(child)
        below: list[Fibers] = []
        if own.compressed and child < self.depth and tensor.words(_whole(inside, tensor)) > 1:
            below = self.fibers(tensor, child, formats) if child in formats else [_flat(tensor, inside)]
        loops = [step for step in self.between(level, child) if step.dim in tensor.dims]
        bounds = [(step.dim, step.bound) for step in loops]
        if len(own.ranks) < len(below) + bool(bounds):  # its ranks are those of the whole tile, not of tiles inside it
            below = []
        sizes: Sizes = _whole(inside, tensor) if below else dict.fromkeys(tensor.dims, 1)
        if not below:
            bounds = _scaled(bounds, {dim: inside.get(dim, 1) for dim in sorted(tensor.dims)})
        ranks = own.ranks[: len(own.ranks) - len(below)]
        groups = _inner_first(ranks, bounds) if own.inner_first else _outer_first(ranks, bounds)
        found = []
        for rank, group in zip(reversed(ranks), reversed(groups), strict=True):
            shape = tensor.words({**dict.fromkeys(tensor.dims, 1), **_product(group)})
            found.append(Fibers(rank, shape, tensor.box(sizes)))
            _multiply(sizes, _product(group))
        kept = own.ranks[len(ranks) :]
        return [*reversed(found), *(Fibers(rank, f.shape, f.below) for rank, f in zip(kept, below, strict=True))]


def covered(steps: Sequence[Step]) -> Sizes:
    """Steps of each dimension that loops make together."""
    return _product([(step.dim, step.bound) for step in steps])


def _steps(level: LevelMapping, index: int) -> Iterator[Step]:
    """Loops of a level, innermost first: those in space lie inside."""
    for loops, spatial in ((level.x, True), (level.y, True), (level.temporal, False)):
        yield from (Step(loop.dim, loop.bound, index, spatial) for loop in reversed(loops) if loop.bound > 1)


def _product(bounds: Sequence[tuple[str, int]]) -> Sizes:
    sizes: Sizes = {}
    for dim, bound in bounds:
        sizes[dim] = sizes.get(dim, 1) * bound
    return sizes


def _multiply(sizes: Sizes, by: Sizes) -> None:
    for dim, factor in by.items():
        sizes[dim] = sizes.get(dim, 1) * factor


def _whole(sizes: Sizes, tensor: Tensor) -> Sizes:
    """Sizes of all dimensions of a tensor."""
    return {dim: sizes.get(dim, 1) for dim in tensor.dims}


def _flat(tensor: Tensor, inside: Sizes) -> Fibers:
    """The one rank of a tile without a format."""
    return Fibers(Rank("U"), tensor.words(_whole(inside, tensor)), tensor.box(dict.fromkeys(tensor.dims, 1)))


def _scaled(bounds: list[tuple[str, int]], inside: Sizes) -> list[tuple[str, int]]:
    """Loops of which the innermost of each dimension covers what lies inside it too."""
    left, found = dict(inside), []
    for dim, bound in bounds:
        found.append((dim, bound * left.pop(dim, 1)))
    return [*((dim, bound) for dim, bound in left.items() if bound > 1), *found]


def _outer_first(ranks: Sequence[Rank], bounds: Sequence[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    """Loops of each rank, the outermost rank first; ranks that are left over have none."""
    return _groups(list(ranks), list(reversed(bounds)))


def _inner_first(ranks: Sequence[Rank], bounds: Sequence[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    return list(reversed(_groups(list(reversed(ranks)), list(bounds))))


def _groups(ranks: list[Rank], bounds: list[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    found = []
    for rank in ranks:
        group: list[tuple[str, int]] = []
        left = None if rank.flattened is None else set(rank.flattened)
        while bounds and (not group if left is None else bounds[0][0] in left):
            group.append(bounds.pop(0))
            left = None if left is None else left - {group[-1][0]}
        if rank is ranks[-1] and rank.flattened is None:
            group, bounds = [*group, *bounds], []
        found.append(group)
    if bounds:
        dims = ", ".join(dict.fromkeys(dim for dim, _ in bounds))
        raise ValueError(f"{len(ranks)} ranks are too few for the loops: those over {dims} have none")
    return found
