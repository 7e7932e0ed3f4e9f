"""How likely accesses and computes are left out: because zeros are not stored, or because a leader's tile is empty.

Tiles and leaders are those between the loops of a mapping, which are taken from the inside out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from accelsim.inputs.architecture import Level
from accelsim.inputs.density import Dense, Occupancy
from accelsim.inputs.mapping import LevelMapping
from accelsim.inputs.mapping import Mapping as LoopNest
from accelsim.inputs.sparsity import ONE_BIT, ComputeSparsity, Format, LevelSparsity, RankFormat
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.sparsity.result import RankUnits

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

    rank: RankFormat
    shape: int
    below: tuple[int, ...]


class SparseNest:
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

    def box(self, level: int, tensor: Tensor) -> tuple[int, ...]:
        """Extents of a tensor's tile at a level along its ranks."""
        return tensor.box(_whole(self.inside(level), tensor))

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
        groups = _groups(ranks[::-1], bounds)[::-1] if own.inner_first else _groups(ranks, bounds[::-1])
        found = []
        for rank, group in zip(reversed(ranks), reversed(groups), strict=True):
            shape = tensor.words(_whole(_product(group), tensor))
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
    return Fibers(RankFormat("U"), tensor.words(_whole(inside, tensor)), tensor.box(dict.fromkeys(tensor.dims, 1)))


def _scaled(bounds: list[tuple[str, int]], inside: Sizes) -> list[tuple[str, int]]:
    """Loops of which the innermost of each dimension covers what lies inside it too."""
    left, found = dict(inside), []
    for dim, bound in bounds:
        found.append((dim, bound * left.pop(dim, 1)))
    return [*((dim, bound) for dim, bound in left.items() if bound > 1), *found]


def _groups(ranks: Sequence[RankFormat], bounds: list[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    """Loops of each rank, taken off the bounds in order; ranks that are left over have none."""
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


PLAIN = Format(())


def own(level: Level) -> LevelSparsity:
    """What a level does about zeros."""
    return level.sparsity or LevelSparsity()


def form_of(level: Level, role: str) -> Format:
    """Format of the tensors of a role at a level; one without ranks leaves no zero out."""
    return own(level).formats.get(role, PLAIN)


class Odds:
    """Words of tiles that are not zero, each box looked up once."""

    def __init__(self, einsum: Einsum) -> None:
        self.dims = dict(einsum.dims)
        self._known: dict[tuple[str, tuple[int, ...]], Occupancy] = {}

    def of(self, tensor: Tensor, box: tuple[int, ...]) -> Occupancy:
        """Words of a tensor's tile that are not zero."""
        key = tensor.name, box
        if key not in self._known:
            density = tensor.density or Dense()
            self._known[key] = density.occupancy(box, tensor.box(self.dims))
        return self._known[key]

    def empty(self, tensor: Tensor, sizes: Sizes) -> float:
        """Probability that a tile holds nothing but zeros."""
        return self.of(tensor, tensor.box(_whole(sizes, tensor))).empty

    def scalar(self, tensor: Tensor) -> float:
        """Probability that a word is not zero."""
        return self.of(tensor, (1,) * len(tensor.ranks)).mean


@dataclass(frozen=True, slots=True)
class Saved:
    """What one saving leaves out of a tensor's reads at a level: with what probability, and with which leaders."""

    kind: str
    share: float
    leaders: Mapping[str, float] = field(default_factory=dict)  # probability that the leader's tile is empty, by tensor


def saved_reads(
    odds: Odds, nest: SparseNest, kind: str, target: Tensor, leaders: Sequence[Tensor], at: int, block: int
) -> Saved:
    """Share of a target's reads at a level that are left out because some leader's tile is empty."""
    empty = {leader.name: odds.empty(leader, nest.leader_sizes(target, leader, at, block)) for leader in leaders}
    return Saved(kind, 1.0 - math.prod(1.0 - each for each in empty.values()), empty)


def spatial_share(
    odds: Odds, nest: SparseNest, leader: Tensor, level: int, target: Tensor | None = None
) -> float | None:
    """Share of the instances below a level for which a tensor's tile is not empty; None if no loop in space moves it.

    A target's tile stays while loops in time do not move it: then all that the leader brings to an instance counts.
    """
    loops = nest.between(level, nest.depth)
    here = [
        place for place, step in enumerate(loops) if step.spatial and step.level == level and step.dim in leader.dims
    ]
    if not here:
        return None
    sizes = covered(loops[: here[0]])
    if target is not None and nest.child(level, target) < nest.depth and loops[here[0]].dim in target.dims:
        in_time = [step for step in nest.between(nest.keeper(level, target), level + 1) if not step.spatial]
        _multiply(sizes, covered(list(itertools.takewhile(lambda step: step.dim not in target.dims, in_time))))
    return 1.0 - odds.empty(leader, sizes)


@dataclass(frozen=True, slots=True)
class Packed:
    """Words of a tile packed into the positions below a level: passes over those of a dense tile, and positions filled.

    `mean_filled` is the mean over all tiles, which Sparseloop takes; `filled` that of all words over all passes.
    """

    passes: float
    filled: float
    mean_filled: float


def pack(odds: Odds, nest: SparseNest, tensor: Tensor, level: int) -> Packed:
    """Pack the words of a tensor's tile at a level that are not zero into the positions below it, pass by pass."""
    loops = [step for step in nest.between(level, nest.depth) if step.dim in tensor.dims]
    places = math.prod(step.bound for step in loops if step.spatial and step.level == level)
    box = nest.box(level, tensor)
    held = odds.of(tensor, box)
    passes = -(-held.words // places)
    some, mean = held.words > 0, float(passes @ held.probability)
    shares = (held.words[some] / (places * passes[some])) @ held.probability[some]
    return Packed(mean * places / math.prod(box), held.mean / (places * mean) if mean else 1.0, float(shares))


def metadata(fibers: Sequence[Fibers], tensor: Tensor, odds: Odds, nonempty: float) -> tuple[RankUnits, ...]:
    """Expected metadata of a tile that is not empty with some probability, the lowest rank first.

    `fibers`: ranks of the tile, outermost first. `nonempty`: that probability, if only such tiles are stored; else 1.
    """
    found, coordinates, count = [], 1.0, 1.0
    for place, each in enumerate(fibers):
        if each.shape == 1 and not (place == len(fibers) - 1 and each.rank.compressed):
            found.append(RankUnits(0.0, 0.0))
            continue
        coordinates *= each.shape
        share = 1.0 - odds.of(tensor, each.below).empty
        filled = coordinates * share / nonempty
        kind = each.rank.format
        bits = filled if each.shape == 1 else count * each.shape
        units = {"UOP": 0.0, "U": 0.0, "UB": bits, "B": bits}.get(kind, filled)
        payload = {"UOP": count * (each.shape + 1), "U": 0.0, "UB": count * each.shape}.get(kind, filled)
        found.append(RankUnits(units, payload if place < len(fibers) - 1 else 0.0))
        count = filled if each.rank.compressed else count * each.shape
    return tuple(reversed(found))


def unit_bits(form: Format, default: int) -> list[tuple[int, int]]:
    """Bits of a unit of metadata and of a payload of each rank, the lowest first."""
    return [
        (
            (1 if rank.format in ONE_BIT else default) if rank.metadata_bits is None else rank.metadata_bits,
            default if rank.payload_bits is None else rank.payload_bits,
        )
        for rank in reversed(form.ranks)
    ]


def slowest_of(many: int, draws: int, share: float) -> float:
    """Expected largest of several independent binomial numbers, of so many draws each.

    >>> slowest_of(2, 1, 0.5)  # 1 but for both being 0
    0.75
    """
    mean = draws * share
    spread = _SIGMAS * math.sqrt(mean * (1.0 - share)) + _WIDEST
    first, last = max(0, math.floor(mean - spread)), min(draws, math.ceil(mean + spread))
    if first == last or share >= 1.0:
        return mean
    k = np.arange(first, last, dtype=np.float64)
    logs = np.concatenate(([0.0], np.cumsum(np.log((draws - k) / (k + 1)) + math.log(share / (1.0 - share)))))
    odds = np.exp(logs - logs.max())
    below = np.cumsum(odds / odds.sum())
    return first + float(np.sum(1.0 - np.minimum(below[:-1], 1.0) ** many))


_WIDEST, _SIGMAS = 64, 40
"""So much around the mean is looked at: at least so many draws, or standard deviations."""


def compute_shares(operands: Sequence[tuple[float, bool]], sparse: ComputeSparsity) -> dict[str, float]:
    """Shares of the computes that are left after storage has skipped some: actual, gated, skipped, absent.

    `operands`: of each the probability that its word is not zero, and whether metadata says so.
    """
    found = dict.fromkeys(("actual", "gated", "skipped", "absent"), 0.0)
    for states in itertools.product((True, False), repeat=len(operands)):
        odds = math.prod(share if there else 1.0 - share for there, (share, _) in zip(states, operands, strict=True))
        missing = [located for there, (_, located) in zip(states, operands, strict=True) if not there]
        if not missing:
            kind = "actual"
        elif len(missing) == len(operands) and all(missing):
            kind = "absent"
        elif any(missing) and sparse.skipping:
            kind = "skipped"
        else:
            kind = "gated" if sparse.gating else "actual"
        found[kind] += odds
    return found
