"""How likely accesses and computes are left out: because zeros are not stored, or because a leader's tile is empty."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from accelsim.inputs.density import Dense, Occupancy
from accelsim.inputs.sparsity import ComputeSparsity, Format
from accelsim.inputs.workload import Einsum, Tensor
from accelsim.model.sparsity.nest import Fibers, Nest, Sizes
from accelsim.model.sparsity.result import RankUnits


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
        return self.of(tensor, tensor.box({dim: sizes.get(dim, 1) for dim in tensor.dims})).empty

    def scalar(self, tensor: Tensor) -> float:
        """Probability that a word is not zero."""
        return self.of(tensor, (1,) * len(tensor.ranks)).mean


@dataclass(frozen=True, slots=True)
class Saved:
    """What one saving leaves out of a tensor's reads at a level: with what probability, and with which leaders."""

    kind: str
    share: float
    leaders: Mapping[str, float] = field(default_factory=dict)
    """Probability that the leader's tile is empty, by tensor."""


def saved_reads(
    odds: Odds, nest: Nest, kind: str, target: Tensor, leaders: Sequence[Tensor], at: int, block: int
) -> Saved:
    """Share of a target's reads at a level that are left out because some leader's tile is empty."""
    empty = {leader.name: odds.empty(leader, nest.leader_sizes(target, leader, at, block)) for leader in leaders}
    return Saved(kind, 1.0 - math.prod(1.0 - each for each in empty.values()), empty)


def spatial_share(odds: Odds, nest: Nest, leader: Tensor, level: int, target: Tensor | None = None) -> float | None:
    """Share of the instances below a level for which a tensor's tile is not empty; None if no loop in space moves it.

    A target's tile stays while loops in time do not move it: then all that the leader brings to an instance counts.
    """
    loops = nest.between(level, nest.depth)
    here = [
        place for place, step in enumerate(loops) if step.spatial and step.level == level and step.dim in leader.dims
    ]
    if not here:
        return None
    sizes: Sizes = {}
    for step in loops[: here[0]]:
        sizes[step.dim] = sizes.get(step.dim, 1) * step.bound
    if target is not None and nest.child(level, target) < nest.depth and loops[here[0]].dim in target.dims:
        home = nest.keeper(level, target)
        for step in nest.between(home, level + 1):
            if step.spatial:
                continue
            if step.dim in target.dims:
                break
            sizes[step.dim] = sizes.get(step.dim, 1) * step.bound
    return 1.0 - odds.empty(leader, sizes)


@dataclass(frozen=True, slots=True)
class Packed:
    """Words of a tile packed into the positions below a level: passes over those of a dense tile, and positions filled.

    `mean_filled` is the mean over all tiles, which Sparseloop takes; `filled` that of all words over all passes.
    """

    passes: float
    filled: float
    mean_filled: float


def pack(odds: Odds, nest: Nest, tensor: Tensor, level: int) -> Packed:
    """Pack the words of a tensor's tile at a level that are not zero into the positions below it, pass by pass."""
    loops = [step for step in nest.between(level, nest.depth) if step.dim in tensor.dims]
    places = math.prod(step.bound for step in loops if step.spatial and step.level == level)
    inside = nest.inside(level)
    box = tensor.box({dim: inside.get(dim, 1) for dim in tensor.dims})
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
            (1 if rank.format in ("B", "UB") else default) if rank.metadata_bits is None else rank.metadata_bits,
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


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the computes that are left after storage has skipped some."""

    actual: float
    gated: float
    skipped: float
    absent: float


def compute_shares(operands: Sequence[tuple[float, bool]], sparse: ComputeSparsity) -> Shares:
    """What becomes of the computes.

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
    return Shares(**found)
