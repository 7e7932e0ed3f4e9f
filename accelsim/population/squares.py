"""Exact variance, over all valid mappings, of any sum of words moved.

On the way from the compute units outwards a mapping is described by few **variables**: what is paid already, and for
each tensor the words and energies that are not settled yet. All that a loop, a network or a level does to them is
linear and depends on its bounds alone. So the sums over mappings of the products of any two variables follow a
recursion of their own; the product of what is paid with itself gives the variance. Axis letters: S = tile shapes, L =
levels, T = tensors.

Variables, in all instances together:

ONE : 1
PAID : settled and charged
waiting : words into a tile that no loop has moved yet; energy of these that is charged once they are settled
settled : words into a tile that a loop has moved, on their way to the next level
seen : different words of the output; every loop that does not move it leaves them as they are
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accelsim.census.crossing import WHOLE, Sharing, sharing_of
from accelsim.census.moments import Means, idle_pj, prices_per_word, ways_outside
from accelsim.census.orders import Block, Powers, arrange
from accelsim.census.parts import Part, axes_of, everything_in, parts_of, steps_outside
from accelsim.census.steps import Nest
from accelsim.mapspace.space import MapSpace
from accelsim.mapspace.tiles import tile_words
from accelsim.model.encode import Bools, Floats

READS, FILLS, UPDATES, TRANSFERS = range(4)


@dataclass(frozen=True, slots=True, order=True)
class Variable:
    """What stands for a part of a mapping's words or energy.

    Attributes
    ----------
    kind : str
    t : int
        Tensor; -1 for none.
    """

    kind: str
    t: int = -1

    @property
    def waits(self) -> bool:
        """Whether the next loop that moves the tile settles it."""
        return self.kind in _SETTLES

    @property
    def seen(self) -> bool:
        """Whether it counts different words."""
        return self.kind in ("first", "seen", "known")


ONE, PAID = Variable("one"), Variable("paid")
_SETTLES = {"due": "paid", "down": "went down", "up": "went up"}
"""What becomes of a waiting variable: the energy due, words from the level above, words to it."""
Pair = tuple[Variable, Variable]
Image = Mapping[Variable, float | Floats]
"""What a variable turns into."""


def _pair(a: Variable, b: Variable) -> Pair:
    return (a, b) if a <= b else (b, a)


def _settled(variable: Variable, tensors: frozenset[int]) -> Variable:
    if not variable.waits or variable.t not in tensors:
        return variable
    return PAID if variable.kind == "due" else Variable(_SETTLES[variable.kind], variable.t)


class Squares:
    """Sums of products over a map space, for any prices of words.

    Parameters
    ----------
    nest : Nest
    ways : sequence of float64[*S]
        For each boundary (l lies outside the tiles of level l) the ways to complete a mapping.
    """

    def __init__(self, nest: Nest, ways: Sequence[Floats]) -> None:
        encoded = nest.space.encoded
        self.nest, self.ways, self.c = nest, ways, encoded.constants
        self.output = int(self.c.output[0])
        self.macs = encoded.einsum.macs
        self.parts = parts_of(nest)
        self.boxes = tile_words(encoded, nest.sizes).reshape(-1, *nest.shape) * steps_outside(nest)
        self.idle = [
            frozenset(d for d in range(len(nest.sizes)) if not self.c.relevant[t, d])
            for t in range(len(encoded.tensors))
        ]

    def second_moment(self, prices: Floats, base: float) -> float:
        """Sum over all mappings of the square of `base` + the price of all words.

        Parameters
        ----------
        prices : float64[L, T, 4]
            Of reads, fills and updates at a level, and transfers below it.
        base : float
        """
        inner = np.zeros(self.nest.shape)
        inner[(0,) * inner.ndim] = 1.0
        start: dict[Variable, float | Floats] = {ONE: 1.0, PAID: base}
        for t in range(prices.shape[1]):
            start |= dict.fromkeys(_on_the_way(t, self.output, settled=True), float(self.macs))
        moments = _turn({(ONE, ONE): inner}, {ONE: start})
        for part in self.parts:
            moments = self._priced(moments, prices, part.level)
            moments = {pair: part.network.cross(values, self._sharing(pair, part)) for pair, values in moments.items()}
            for block in part.blocks:
                moments = self._arrange(moments, block)
            moments = self._keep(moments, prices, part)
            if part.level and all(v in (ONE, PAID) for pair in moments for v in pair) and not self._more(prices, part):
                return float((moments[PAID, PAID] * self.ways[part.level]).sum()) if (PAID, PAID) in moments else 0.0
        end = {v: {PAID: 1.0} for pair in moments for v in pair if v != ONE}
        final = _turn(moments, end).get((PAID, PAID))
        return 0.0 if final is None else float(final[(-1,) * final.ndim])

    def _more(self, prices: Floats, part: Part) -> bool:
        """Whether tiles of a level further out, or words on their way to one, have a price."""
        return bool(prices[: part.level].any())

    def _priced(self, moments: dict[Pair, Floats], prices: Floats, lv: int) -> dict[Pair, Floats]:
        """Charge the transfers below a level, and forget what nothing further out charges."""
        images: dict[Variable, Image] = {}
        for v in {v for pair in moments for v in pair} - {ONE, PAID}:
            price = float(prices[lv, v.t, TRANSFERS])
            images[v] = {}
            if v.kind in ("due", "first"):
                images[v] = {v: 1.0}
            elif self._wanted(v, prices, lv):
                images[v] = {v: 1.0, **self._charge(v, _PER_TRANSFER[v.kind] * price)}
            elif _PER_TRANSFER[v.kind] * price:
                images[v] = self._charge(v, _PER_TRANSFER[v.kind] * price)
        return _turn(moments, images)

    def _charge(self, v: Variable, price: float) -> Image:
        """What the price of a variable's words adds to."""
        if not price:
            return {}
        target = Variable("due", v.t) if v.waits else Variable("first", v.t) if v.seen else PAID
        return {target: price}

    def _at_parent(self, v: Variable, prices: Floats) -> float:
        """Price of a word at the level that keeps the tensor next; outputs are read as often as they are updated."""
        reads, updates = float(prices[READS]), float(prices[UPDATES])
        if v.kind in ("up", "went up"):
            return reads + updates
        if v.kind == "known":
            return -reads
        return reads if v.kind in ("down", "went down") and v.t != self.output else 0.0

    def _wanted(self, v: Variable, prices: Floats, lv: int) -> bool:
        """Whether words on their way still have a price beyond the network below a level."""
        for level in range(lv, -1, -1):
            if self._at_parent(v, prices[level, v.t]):
                return True
            if self.nest.space.keep[level, v.t]:
                return False
            if level and _PER_TRANSFER[v.kind] * prices[level - 1, v.t, TRANSFERS]:
                return True
        return False

    def _sharing(self, pair: Pair, part: Part) -> Sharing:
        found = [self._shared(v, part.level) for v in pair]
        return Sharing(found[0].power, found[0].idle, (), found[0].x, found[0].y, (found[1],))

    def _shared(self, v: Variable, lv: int) -> Sharing:
        """How one variable is divided by a network."""
        if v.kind in ("one", "paid", "due", "first"):
            return WHOLE
        if v.kind == "known":
            return Sharing(-1.0, self.idle[v.t], (), True, True)
        return sharing_of(self.nest, v.t, lv, up=v.kind in ("up", "went up"))

    def _arrange(self, moments: dict[Pair, Floats], block: Block) -> dict[Pair, Floats]:
        """Put the loops of a block around: waiting tensors settle one after the other, together, or not at all."""
        found: dict[Pair, Floats] = {}
        for pair, values in moments.items():
            waiting = frozenset(v.t for v in pair if v.waits)
            for order in _orders(waiting):
                after = frozenset().union(*order)
                phases, events = self._phases(pair, order)
                if any(not any(d in event for d in block.dims) for event in events):
                    continue
                key = _pair(*(_settled(v, after) for v in pair))
                values_after = arrange(block, values, axes_of(self.nest), phases, events)
                times = 2.0 if key[0] == key[1] and pair[0] != pair[1] else 1.0
                found[key] = found.get(key, 0.0) + times * values_after
        return found

    def _phases(self, pair: Pair, order: Sequence[frozenset[int]]) -> tuple[list[Powers], list[Powers]]:
        """Which dimensions may have a loop in each phase and as each event, and what it weighs."""
        waiting = frozenset(v.t for v in pair if v.waits)
        phases: list[Powers] = [self._weights(pair, waiting)]
        events: list[Powers] = []
        for settling in order:
            waiting -= settling
            weights = self._weights(pair, waiting)
            phases.append(weights)
            events.append({d: w for d, w in weights.items() if not any(d in self.idle[t] for t in settling)})
        return phases, events

    def _weights(self, pair: Pair, waiting: frozenset[int]) -> Powers:
        """Powers of the bounds of loops that move none of the tensors that wait."""
        found = dict(everything_in(self.nest))
        for d in list(found):
            if any(d not in self.idle[t] for t in waiting):
                del found[d]
                continue
            found[d] = -float(sum((v.waits and v.t in waiting) or (v.seen and d in self.idle[v.t]) for v in pair))
        return found

    def _keep(self, moments: dict[Pair, Floats], prices: Floats, part: Part) -> dict[Pair, Floats]:
        """Hand words over to the tiles of a level, for each choice of what it keeps."""
        found: dict[Pair, Floats] = {}
        for keeps, fits in zip(part.keeping.keeps, part.keeping.fits, strict=True):
            images = self._images(moments, keeps, prices, part.level)
            for pair, values in _turn({pair: values * fits for pair, values in moments.items()}, images).items():
                found[pair] = found.get(pair, 0.0) + values
        return found

    def _images(self, moments: dict[Pair, Floats], keeps: Bools, prices: Floats, lv: int) -> dict[Variable, Image]:
        """What variables turn into at a level that keeps some tensors."""
        images: dict[Variable, Image] = {}
        for v in {v for pair in moments for v in pair} - {ONE, PAID}:
            if v.kind not in ("due", "first") and keeps[v.t]:
                images[v] = self._charge(v, self._at_parent(v, prices[lv, v.t]))
        if lv == 0:
            return images
        fresh: dict[Variable, float | Floats] = {ONE: 1.0}
        for t in np.flatnonzero(keeps).tolist():
            reads, fills = (float(prices[lv, t, kind]) for kind in (READS, FILLS))
            due = fills + (reads if t == self.output and self.c.drain[lv] else 0.0)
            if due:
                fresh[Variable("due", t)] = self.boxes[t] * due
            if t == self.output and fills:
                fresh[Variable("first", t)] = self.boxes[t] * -fills
            for v in _on_the_way(t, self.output, settled=False):
                if self._wanted(v, prices, lv - 1) or _PER_TRANSFER[v.kind] * prices[lv - 1, t, TRANSFERS]:
                    fresh[v] = self.boxes[t]
        images[ONE] = fresh
        return images


_PER_TRANSFER = {"down": 1.0, "went down": 1.0, "up": 1.0, "went up": 1.0, "seen": -1.0, "known": 0.0}


def _on_the_way(t: int, output: int, settled: bool) -> list[Variable]:
    """Variables of the words into a tile on their way to the next level."""
    kinds = ["went down" if settled else "down"]
    if t == output:
        kinds += ["went up" if settled else "up", "seen", "known"]
    return [Variable(kind, t) for kind in kinds]


def _orders(waiting: frozenset[int]) -> Iterator[tuple[frozenset[int], ...]]:
    """In which order some of at most two waiting tensors can settle."""
    yield ()
    for t in sorted(waiting):
        yield (frozenset({t}),)
    if len(waiting) == 2:
        yield (waiting,)
        yield from itertools.permutations([frozenset({t}) for t in sorted(waiting)])


def _turn(moments: dict[Pair, Floats], images: Mapping[Variable, Image]) -> dict[Pair, Floats]:
    """Products of what the variables turn into; a variable without an image stays."""
    found: dict[Pair, Floats] = {}

    def add(a: Variable, b: Variable, values: Floats) -> None:
        pair = _pair(a, b)
        found[pair] = found[pair] + values if pair in found else values

    for (a, b), values in moments.items():
        first, second = (images.get(v, {v: 1.0}) for v in (a, b))
        for (j, one), (k, two) in itertools.product(first.items(), second.items()):
            if a == b and j > k:
                continue
            times = 2.0 if a != b and j == k else 1.0
            add(j, k, values * (one * two * times))
    return found


@dataclass(frozen=True, slots=True)
class TensorDeviations:
    """Standard deviations of a tensor's words at a level, as `TensorMeans` has their means; None where not known."""

    level: str
    tensor: str
    reads: float | None
    fills: float | None
    updates: float | None
    transfers: float | None


@dataclass(frozen=True, slots=True)
class Deviations:
    """Exact standard deviations over all valid mappings of a map space, each counting once.

    Attributes
    ----------
    energy_pj : float or None
        Of the energy that `Means.energy_pj` is the mean of; None if a tensor is windowed.
    energy_slack_pj : float
        The standard deviation of the energy without leakage is closer to it than this; 0 where an access is a word.
    tensors : tuple of TensorDeviations
        Levels outermost first; None for windowed tensors.
    """

    energy_pj: float | None
    energy_slack_pj: float
    tensors: tuple[TensorDeviations, ...]


def deviations(space: MapSpace, found: Means) -> Deviations:
    """Standard deviations of energy and of words moved over all valid mappings, without sampling.

    Parameters
    ----------
    space : MapSpace
    found : Means
        Of `means`.

    Examples
    --------
    >>> from accelsim import load_architecture, load_workload
    >>> from accelsim.model.encode import encode
    >>> space = MapSpace(encode(load_architecture("two_level"), load_workload("gemm").layers[0]))
    >>> spread = deviations(space, means(space))
    >>> spread.energy_pj > 0
    True
    """
    encoded = space.encoded
    c, levels = encoded.constants, encoded.architecture.levels
    nest = Nest(space)
    squares = Squares(nest, ways_outside(nest))

    def deviation(prices: Floats, mean: float, base: float = 0.0) -> float:
        return math.sqrt(max(0.0, squares.second_moment(prices, base - mean) / float(found.mappings)))

    tensors = []
    for at, mean in enumerate(found.tensors):
        lv, t = divmod(at, len(encoded.tensors))
        values: list[float | None] = [None] * 4
        for kind, words in enumerate((mean.reads, mean.fills, mean.updates, mean.transfers)):
            if not c.windowed[t]:
                prices = np.zeros((len(levels), len(encoded.tensors), 4))
                prices[lv, t, kind] = 1.0
                values[kind] = deviation(prices, words) if words else 0.0
        tensors.append(TensorDeviations(mean.level, mean.tensor, *values))
    compute = encoded.einsum.macs * float(c.mac[0])
    known = not c.windowed.any()
    instances = np.array([encoded.architecture.instances(lv) for lv in range(len(levels))])
    return Deviations(
        energy_pj=deviation(prices_per_word(encoded), found.energy_pj, compute) if known else None,
        energy_slack_pj=float((instances[:, None] * idle_pj(encoded)).sum()) / 2,
        tensors=tuple(tensors),
    )
