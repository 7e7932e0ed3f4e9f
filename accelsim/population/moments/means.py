"""Exact means over all valid mappings of what adds up: energy, and words moved (docs/census_moments.md).

Words into all tiles of a tensor are its box times all steps and instances outside, a number that the tile shape alone
gives, divided by what loops and networks save. So their sum over all mappings is the recursion that counts mappings,
with weights. Axis letters: S = tile shapes, T = tensors, L = levels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accelsim.inputs.errors import AccelsimError, NoValidMapping
from accelsim.mapspace.space import MapSpace
from accelsim.mapspace.tiles import tile_words
from accelsim.model.encode import Encoded, Floats
from accelsim.population.counting import count_mappings
from accelsim.population.moments.crossing import WHOLE, Sharing, sharing_of
from accelsim.population.moments.orders import Powers, arrange
from accelsim.population.moments.parts import Part, axes_of, everything_in, parts_of, steps_outside
from accelsim.population.moments.waiting import Waiting, windows_of
from accelsim.population.steps import Nest


@dataclass(frozen=True, slots=True)
class TensorMeans:
    """Mean words of a tensor at a level over all valid mappings, all instances together; 0 where it is bypassed.

    Attributes
    ----------
    level, tensor : str
    reads, fills, updates : float
        Words at the level.
    transfers : float
        Words that cross the network below the level, counted for each child.
    """

    level: str
    tensor: str
    reads: float
    fills: float
    updates: float
    transfers: float


@dataclass(frozen=True, slots=True)
class Means:
    """Exact means over all valid mappings of a map space, each counting once.

    Attributes
    ----------
    mappings : int
        How many are valid.
    energy_pj : float
        Mean energy, with the part of an access that a last, partly filled one adds left out, and without leakage.
    energy_slack_pj : float
        What these last accesses can add at most: the mean energy without leakage is at least `energy_pj`, and at most
        `energy_pj + energy_slack_pj`. 0 where an access is a word, and then `energy_pj` is exact.
    leaks : bool
        Whether the machine leaks; that energy depends on cycles, which do not add up, and is in none of these numbers.
    tensors : tuple of TensorMeans
        Levels outermost first.
    """

    mappings: int
    energy_pj: float
    energy_slack_pj: float
    leaks: bool
    tensors: tuple[TensorMeans, ...]


class _Outside:
    """What the loops outside each boundary multiply by, summed over all ways to complete a mapping.

    Boundary l lies between the tiles of level l and the network below level l - 1; the last one lies below all.

    Attributes
    ----------
    ways : list of float64[*S]
        Mappings.
    used : list of float64[*S]
        Mappings times instances.
    seen : list of float64[*S]
        Mappings, each over the bounds of the temporal loops that do not move the output.
    waits : list of list of list of float64[G, *R]
        By tensor, for each of its `Waiting`, shares of the words that would enter tiles.
    """

    def __init__(self, nest: Nest, waitings: list[list[Waiting]], idle: Powers) -> None:
        end = np.zeros(nest.shape)
        end[(-1,) * end.ndim] = 1.0
        self.ways, self.used, self.seen = [end], [end], [end]
        self.waits = [[[waiting.end() for waiting in each] for each in waitings]]
        everything = everything_in(nest)
        by_bounds = Sharing(1.0, frozenset(everything), (), True, True)
        for part in reversed(parts_of(nest)):
            fits = part.keeping.choices.astype(np.float64)
            ways, used, seen = (found[-1] * fits for found in (self.ways, self.used, self.seen))
            waits = [
                [values * waiting.at_states(fits) for waiting, values in zip(of, found, strict=True)]
                for of, found in zip(waitings, self.waits[-1], strict=True)
            ]
            for block in reversed(part.blocks):
                inward = block.backward()
                waits = [
                    [
                        w.stay_back(block, values) + w.settle_back(block, ways)
                        for w, values in zip(of, found, strict=True)
                    ]
                    for of, found in zip(waitings, waits, strict=True)
                ]
                ways, used = (arrange(inward, values, axes_of(nest), [everything]) for values in (ways, used))
                seen = arrange(inward, seen, axes_of(nest), [{**everything, **idle}])
            cross = part.network.cross
            self.ways.append(cross(ways, back=True))
            self.used.append(cross(used, by_bounds, back=True))
            self.seen.append(cross(seen, back=True))
            self.waits.append(
                [
                    [
                        cross(values, WHOLE, waiting.tracked(part.level), back=True)
                        for waiting, values in zip(of, found, strict=True)
                    ]
                    for of, found in zip(waitings, waits, strict=True)
                ]
            )


class _Flow:
    """Words of one tensor on their way from the tiles below to the next level that keeps it, one way.

    Attributes
    ----------
    settled : float64[*S]
        Words into tiles that a loop has moved.
    waits : list of float64[G, *R]
        For each `Waiting`, words if every step outside costs a box.
    """

    def __init__(self, nest: Nest, waitings: list[Waiting], up: bool) -> None:
        self.nest, self.waitings, self.up = nest, waitings, up
        self.t = waitings[0].t
        self.settled: Floats = np.zeros(nest.shape)
        self.settled[(0,) * len(nest.shape)] = nest.space.encoded.einsum.macs
        self.waits: list[Floats | None] = [None] * len(waitings)

    def words(self, ways: Floats, waits: list[Floats], kept: Floats | None = None) -> float:
        """Sum over all mappings; with `kept`, of the words that a level takes that keeps so many of the tiles."""
        found = float((self.settled * ways * (1.0 if kept is None else kept)).sum())
        for waiting, mine, outside in zip(self.waitings, self.waits, waits, strict=True):
            if mine is not None:
                found += float((mine * outside * (1.0 if kept is None else waiting.at_states(kept))).sum())
        return found

    def cross(self, part: Part) -> None:
        """Go up a network and the loops of a level."""
        sharing = sharing_of(self.nest, self.t, part.level, self.up)
        self.settled = part.network.cross(self.settled, sharing)
        self.waits = [
            None if mine is None else part.network.cross(mine, sharing, waiting.tracked(part.level))
            for waiting, mine in zip(self.waitings, self.waits, strict=True)
        ]
        everything = everything_in(self.nest)
        for block in part.blocks:
            self.settled = arrange(block, self.settled, axes_of(self.nest), [everything])
            for k, (waiting, mine) in enumerate(zip(self.waitings, self.waits, strict=True)):
                if mine is not None:
                    self.settled = self.settled + waiting.settle(block, mine)
                    self.waits[k] = waiting.stay(block, mine)

    def renew(self, passed: Floats, boxes: Floats) -> None:
        """Go past the tiles of a level: words pass where it bypasses the tensor, new ones begin where it keeps it."""
        self.settled = self.settled * passed
        fresh = bool(boxes.any())
        for k, waiting in enumerate(self.waitings):
            mine = self.waits[k]
            if mine is not None:
                mine = mine * waiting.at_states(passed)
            if fresh:
                mine = waiting.begin(boxes) + (0.0 if mine is None else mine)
            self.waits[k] = mine


class _Seen:
    """Different words of the output that tiles ever hold, on their way to the next level that keeps it.

    Words that several instances hold are the same words where `merged`; else they are shared by multicast.
    """

    def __init__(self, nest: Nest, t: int, idle: Powers, merged: bool) -> None:
        self.nest, self.t, self.merged, self.idle = nest, t, merged, frozenset(idle)
        self.weights = {**everything_in(nest), **idle}
        self.words: Floats = np.zeros(nest.shape)
        self.words[(0,) * len(nest.shape)] = nest.space.encoded.einsum.macs

    def cross(self, part: Part) -> None:
        """Go up a network and the loops of a level."""
        shared = sharing_of(self.nest, self.t, part.level)
        merged = Sharing(-1.0, self.idle, (), True, True)
        self.words = part.network.cross(self.words, merged if self.merged else shared)
        for block in part.blocks:
            self.words = arrange(block, self.words, axes_of(self.nest), [self.weights])


class _Words:
    """Sums over all mappings of the words that each tensor moves at each level.

    Attributes
    ----------
    sums : float64[L, T, 4]
        Reads, fills, updates at the level, and transfers below it.
    used : float64[L, T]
        Instances of each level, summed over the mappings in which it keeps the tensor.
    """

    def __init__(self, nest: Nest) -> None:
        encoded = nest.space.encoded
        tensors, levels = range(len(encoded.tensors)), len(encoded.architecture.levels)
        self.nest, self.output = nest, int(encoded.constants.output[0])
        self.sums, self.used = np.zeros((levels, len(tensors), 4)), np.zeros((levels, len(tensors)))
        waitings = [_waitings(nest, t) for t in tensors]
        idle = waitings[self.output][0].idle
        self.outside = _Outside(nest, waitings, idle)
        self.down = [_Flow(nest, waitings[t], up=False) for t in tensors]
        self.up = _Flow(nest, waitings[self.output], up=True)
        self.seen, self.known = (_Seen(nest, self.output, idle, merged) for merged in (False, True))
        boxes = tile_words(encoded, nest.sizes).reshape(-1, *nest.shape) * steps_outside(nest)
        ways = np.zeros(nest.shape)
        ways[(0,) * len(nest.shape)] = 1.0
        for part in parts_of(nest):
            self._transfers(part.level)
            ways = part.network.cross(ways)
            for block in part.blocks:
                ways = arrange(block, ways, axes_of(nest), [everything_in(nest)])
            for flow in (*self.down, self.up):
                flow.cross(part)
            for seen in (self.seen, self.known):
                seen.cross(part)
            for t in tensors:
                self._keep(part, t, ways, boxes[t])
            ways = ways * part.keeping.choices

    def _transfers(self, lv: int) -> None:
        """Words across the network below a level."""
        ways, waits = self.outside.ways[lv + 1], self.outside.waits[lv + 1]
        for t, flow in enumerate(self.down):
            self.sums[lv, t, 3] = flow.words(ways, waits[t])
        first = float((self.seen.words * self.outside.seen[lv + 1]).sum())
        self.sums[lv, self.output, 3] += self.up.words(ways, waits[self.output]) - first

    def _keep(self, part: Part, t: int, ways: Floats, boxes: Floats) -> None:
        """Words at a level, in the mappings in which it keeps a tensor, and what goes on from there."""
        lv, keeping = part.level, part.keeping
        kept, passed = (keeping.fits[keeping.keeps[:, t] == keep].sum(axis=0).astype(float) for keep in (True, False))
        outside, fresh = self.outside, ways * kept * boxes
        into = sum(
            float((waiting.begin(fresh) * values).sum())
            for waiting, values in zip(self.down[t].waitings, outside.waits[lv][t], strict=True)
        )
        if t != self.output:
            self.sums[lv, t, :2] = self.down[t].words(outside.ways[lv], outside.waits[lv][t], kept), into if lv else 0.0
        else:
            first = float((fresh * outside.seen[lv]).sum())
            updates = self.up.words(outside.ways[lv], outside.waits[lv][t], kept)
            drained = into if lv and self.nest.space.encoded.constants.drain[lv] else 0.0
            known = float((self.known.words * kept * outside.seen[lv]).sum())
            self.sums[lv, t, :3] = updates - known + drained, into - first if lv else 0.0, updates
            self.up.renew(passed, fresh)
            for seen in (self.seen, self.known):
                seen.words = seen.words * passed + fresh
        self.down[t].renew(passed, fresh)
        self.used[lv, t] = float((ways * kept * outside.used[lv]).sum())


def means(space: MapSpace) -> Means:
    """Mean energy and words moved over all valid mappings of a map space, without sampling.

    Parameters
    ----------
    space : MapSpace

    Returns
    -------
    Means

    Raises
    ------
    NoValidMapping
        If no mapping is valid.
    AccelsimError
        Where what fits, or what moves, does not add up: partial sums wider than finished words, an output that is
        windowed, three dimensions in a rank, imperfect factors, a smallest utilization.

    Examples
    --------
    >>> from accelsim import load_architecture, load_workload
    >>> from accelsim.model.encode import encode
    >>> found = means(MapSpace(encode(load_architecture("two_level"), load_workload("conv1d").layers[0])))
    >>> found.mappings > 0, found.energy_slack_pj
    (True, 0.0)
    """
    _refuse(space)
    nest = Nest(space)
    mappings = count_mappings(nest)
    if not mappings:
        raise NoValidMapping(f"no mapping of {space.encoded.einsum.name} is valid")
    return _means(nest, mappings)


def _refuse(space: MapSpace) -> None:
    c, name = space.encoded.constants, space.encoded.einsum.name
    if c.two_widths[0]:
        raise AccelsimError(f"{name}: partial sums are wider than finished words; what fits depends on loop orders")
    if space.imperfect:
        raise AccelsimError(f"{name}: loops may leave remainders; means are of perfect factors only")
    if space.constraints.min_utilization > 0:
        raise AccelsimError(f"{name}: a smallest utilization depends on cycles, which do not add up")
    for t, tensor in enumerate(space.encoded.tensors):
        ranks = [int(rank) for rank, moves in zip(c.rank[t], c.relevant[t], strict=True) if moves]
        most = max(map(ranks.count, ranks), default=0)
        if most > 2:
            raise AccelsimError(f"{name}: {tensor.name} has {most} dimensions in one rank; means are known up to two")
        if most > 1 and tensor.output:
            raise AccelsimError(f"{name}: the output {tensor.name} is windowed; means are of others only")


def _waitings(nest: Nest, t: int) -> list[Waiting]:
    first, pairs = Waiting(nest, t), windows_of(nest, t)
    return [first, *(Waiting(nest, t, pair) for pair in pairs)]


def prices_per_word(encoded: Encoded) -> Floats:
    """Energy of a word of each read, fill, update and transfer [pJ]: float64[L, T, 4].

    A word is charged as the part of an access that it is.
    """
    c = encoded.constants
    prices = c.energy.copy()
    prices[:, :, :3] *= (c.word_parts[:, :, 0] / c.block[:, None])[:, :, None]
    return prices


def idle_pj(encoded: Encoded) -> Floats:
    """Most energy that the last access of an instance can add at each level [pJ]: float64[L, T]."""
    c = encoded.constants
    return np.asarray(((c.block - 1) / c.block)[:, None] * c.energy[:, :, :3].sum(axis=2))


def ways_outside(nest: Nest) -> list[Floats]:
    """Ways to complete a mapping outside the tiles of each level, and last from below all: float64[*S] each."""
    end: Floats = np.zeros(nest.shape)
    end[(-1,) * end.ndim] = 1.0
    found = [end]
    for part in reversed(parts_of(nest)):
        ways = found[-1] * part.keeping.choices
        for block in reversed(part.blocks):
            ways = arrange(block.backward(), ways, axes_of(nest), [everything_in(nest)])
        found.append(part.network.cross(ways, back=True))
    return found


def _means(nest: Nest, mappings: int) -> Means:
    encoded = nest.space.encoded
    found = _Words(nest)
    words = found.sums / float(mappings)
    energy = float((words * prices_per_word(encoded)).sum())
    return Means(
        mappings=mappings,
        energy_pj=energy + encoded.einsum.macs * float(encoded.constants.mac[0]),
        energy_slack_pj=float((found.used * idle_pj(encoded)).sum() / mappings),
        leaks=bool(encoded.constants.leak.any()),
        tensors=tuple(
            TensorMeans(level.name, tensor.name, *(float(word) for word in words[lv, t]))
            for lv, level in enumerate(encoded.architecture.levels)
            for t, tensor in enumerate(encoded.tensors)
        ),
    )
