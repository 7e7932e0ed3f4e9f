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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from accelsim.mapspace.tiles import tile_words
from accelsim.model.encode import Bools, Floats
from accelsim.population.moments.crossing import WHOLE, Sharing, sharing_of
from accelsim.population.moments.halos import NONE, Halo, Slot
from accelsim.population.moments.orders import Block, arrange
from accelsim.population.moments.parts import Part, axes_of, parts_of, steps_outside
from accelsim.population.moments.waiting import Tracked, windows_of
from accelsim.population.steps import Nest

READS, FILLS, UPDATES, TRANSFERS = range(4)
TOGETHER = 1 << 19
"""Sums that are followed together where all that is done to them is the same, at most."""


class Variable(NamedTuple):
    """What stands for a part of a mapping's words or energy.

    Attributes
    ----------
    kind : str
    t : int
        Tensor; -1 for none.
    window : int
        Of a variable that waits: which window of the tensor the first loop to move its tile is over; -1: none.
    """

    kind: str
    t: int = -1
    window: int = -1

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
Images = Mapping[Variable, Image]
Moments = dict[Pair, Floats]
"""Sums over mappings of the product of two variables, by tile shape: float64[*S]; where factors wait for a loop over a
window, by their states (`accelsim.population.moments.halos`)."""
Order = tuple[frozenset[int], ...]


def _pair(a: Variable, b: Variable) -> Pair:
    return (a, b) if a <= b else (b, a)


def _settled(v: Variable) -> Variable:
    return PAID if v.kind == "due" else Variable(_SETTLES[v.kind], v.t)


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
        self.parts = {part.level: part for part in parts_of(nest)}
        self.boxes = tile_words(encoded, nest.sizes).reshape(-1, *nest.shape) * steps_outside(nest)
        tensors, dims = range(len(encoded.tensors)), range(len(nest.sizes))
        self.idle = [frozenset(d for d in dims if not self.c.relevant[t, d]) for t in tensors]
        self.windows = [windows_of(nest, t) for t in tensors]
        self._halos: dict[tuple[int, int], Halo] = {}
        self._phases: dict[tuple[Pair, Order, tuple[int, ...]], tuple[Slot, ...]] = {}

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
            start |= dict.fromkeys(self._on_the_way(t, settled=True), float(self.macs))
        moments = self._turn({(ONE, ONE): inner}, {ONE: start})
        for lv, part in self.parts.items():
            moments = self._turn(moments, self._transferred(moments, prices, lv))
            moments = self._cross(moments, part)
            moments = self._turn(moments, self._certain(moments, prices, lv))
            for block in part.blocks:
                moments = self._arrange(moments, block)
            moments = self._keep(moments, prices, part)
            if all(v in (ONE, PAID) for pair in moments for v in pair) and not prices[:lv].any():
                return float((moments[PAID, PAID] * self.ways[lv]).sum())
        end = {v: {} if v.window >= 0 else {PAID: 1.0} for pair in moments for v in pair if v != ONE}
        return float(self._turn(moments, end)[PAID, PAID][(-1,) * inner.ndim])

    # --- prices ---------------------------------------------------------------------------------------------------

    def _on_the_way(self, t: int, settled: bool) -> list[Variable]:
        """Variables of the words into a tile on their way to the next level."""
        kinds = ["went down"] if settled else ["down"]
        if t == self.output:
            kinds += ["went up" if settled else "up", "seen", "known"]
        return [v for kind in kinds for v in self._apart(Variable(kind, t))]

    def _apart(self, v: Variable) -> list[Variable]:
        """A variable that waits, by the window that its tile may first move along."""
        windows = range(-1, len(self.windows[v.t])) if v.waits else (-1,)
        return [Variable(v.kind, v.t, window) for window in windows]

    def _transferred(self, moments: Moments, prices: Floats, lv: int) -> Images:
        """Charge the transfers below a level, and forget what nothing further out charges."""
        images: dict[Variable, Image] = {}
        for v in _on_their_way(moments):
            stays: dict[Variable, float | Floats] = {v: 1.0} if self._wanted(v, prices, lv) else {}
            images[v] = {**stays, **_charge(v, _PER_TRANSFER[v.kind] * float(prices[lv, v.t, TRANSFERS]))}
        return images

    def _certain(self, moments: Moments, prices: Floats, lv: int) -> Images:
        """Charge at once what words below a level's tiles cost, if their way is the same in all mappings."""
        images: dict[Variable, Image] = {}
        for v in _on_their_way(moments):
            price, level = 0.0, lv
            while not self.nest.space.keep[level, v.t]:
                if (level, v.t) in self.nest.space.free_keeps or self.parts[level - 1].network.steps:
                    break
                level -= 1
                price += _PER_TRANSFER[v.kind] * float(prices[level, v.t, TRANSFERS])
            else:
                images[v] = _charge(v, price + self._at_parent(v, prices[level, v.t]))
        return images

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

    # --- steps of the nest ----------------------------------------------------------------------------------------

    def _cross(self, moments: Moments, part: Part) -> Moments:
        """Go up the network below a level."""
        found: Moments = {}
        alike: dict[tuple[Sharing, Halo | None, int], list[Pair]] = {}
        for pair in moments:
            one, two = (self._shared(v, part.level) for v in pair)
            key = replace(one, times=(two,)), self._halo(pair), len(_tracked(pair))
            alike.setdefault(key, []).append(pair)
        for (sharing, halo, factors), pairs in alike.items():
            states = None if halo is None else halo.waiting.tracked(part.level)
            if halo is not None and factors == 2:
                states = Tracked(halo.pair, len(halo.pairs), halo.pair_moves)
            for some in self._batches({pair: moments[pair] for pair in pairs}):
                crossed = part.network.cross(_together(some), sharing, states)
                found |= _apart(crossed, some)
        return {pair: found[pair] for pair in moments}

    @staticmethod
    def _batches(sums: Moments) -> Iterator[Moments]:
        """Arrays of one shape, so many at a time as fit into some memory together."""
        room = max(1, TOGETHER // next(iter(sums.values())).size)
        pairs = list(sums)
        for first in range(0, len(pairs), room):
            yield {pair: sums[pair] for pair in pairs[first : first + room]}

    def _shared(self, v: Variable, lv: int) -> Sharing:
        """How one variable is divided by a network."""
        if v.kind in ("one", "paid", "due", "first"):
            return WHOLE
        if v.kind == "known":
            return Sharing(-1.0, self.idle[v.t], (), True, True)
        return sharing_of(self.nest, v.t, lv, up=v.kind in ("up", "went up"))

    def _arrange(self, moments: Moments, block: Block) -> Moments:
        """Put the loops of a block around: factors that wait settle one after the other, together, or not at all."""
        found: Moments = {}
        alike: dict[tuple[Halo | None, tuple[Slot, ...]], Moments] = {}
        for pair, values in moments.items():
            halo = self._halo(pair)
            window = () if halo is None else halo.pair
            for order in _orders(pair):
                slots = self._slots(pair, order, window)
                if not all(any(d in dict(slot.others) or d in window for d in block.dims) for slot in slots[1::2]):
                    continue
                gone = frozenset().union(*order)
                key = _pair(*(_settled(v) if k in gone else v for k, v in enumerate(pair)))
                twice = key[0] == key[1] and (pair[0] != pair[1] or len(order) == 2)
                more = 2.0 * values if twice else values
                into = alike.setdefault((halo, slots), {})
                into[key] = into[key] + more if key in into else more
        for (halo, slots), sums in alike.items():
            for some in self._batches(sums):
                stacked = _together(some)
                if halo is not None:
                    arranged = halo.arrange(block, stacked, slots)
                else:
                    phases, events = ([dict(slot.others) for slot in slots[k::2]] for k in range(2))
                    arranged = arrange(block, stacked, axes_of(self.nest), phases, events)
                for key, more in _apart(arranged, some).items():
                    if key in found:
                        found[key] += more
                    else:
                        found[key] = more
        return found

    def _slots(self, pair: Pair, order: Order, window: tuple[int, ...]) -> tuple[Slot, ...]:
        """Phases and events of a block in which factors settle in this order."""
        if (pair, order, window) in self._phases:
            return self._phases[pair, order, window]
        waiting = frozenset(k for k in range(2) if pair[k].waits)
        slots = [self._slot(pair, waiting, frozenset(), window)]
        for settling in order:
            waiting -= settling
            slots += [self._slot(pair, waiting, settling, window), self._slot(pair, waiting, frozenset(), window)]
        self._phases[pair, order, window] = tuple(slots)
        return self._phases[pair, order, window]

    def _slot(self, pair: Pair, waiting: frozenset[int], settling: frozenset[int], window: tuple[int, ...]) -> Slot:
        """A phase, or an event that settles factors, after which those `waiting` still wait."""
        held = frozenset(k for k in range(2) if pair[k].waits and pair[k].window >= 0)
        weights: dict[int, float | None] = {}
        for d in range(len(self.nest.sizes)):
            tracked = held if d in window else frozenset()
            idle = [d in self.idle[v.t] for v in pair]
            bars = any(not idle[k] for k in waiting - tracked)
            bars |= any(idle[k] or self._in_window(pair[k].t, d) for k in settling - tracked)
            factors = [k for k in range(2) if k in waiting - tracked or (pair[k].seen and idle[k])]
            weights[d] = None if bars else -float(len(factors))
        free = [(d, w) for d, w in weights.items() if w is not None and d not in window and not settling & held]
        before, after = (NONE - len(held & each) for each in (waiting | settling, waiting))
        if not held:
            before = after = NONE
        settles = 1 if settling & held == {1} else 0
        return Slot(
            before, after, settles if before == 0 and after == 1 else 0, tuple(free), tuple(weights[d] for d in window)
        )

    def _in_window(self, t: int, d: int) -> bool:
        return any(d in window for window in self.windows[t])

    def _keep(self, moments: Moments, prices: Floats, part: Part) -> Moments:
        """Hand words over to the tiles of a level, for each choice of what it keeps."""
        found: Moments = {}
        images = [self._images(moments, keeps, prices, part.level) for keeps in part.keeping.keeps]
        for pair, values in moments.items():
            alike: dict[tuple[tuple[bool, ...], ...], list[int]] = {}  # choices that do the same to both factors
            for k, keeps in enumerate(part.keeping.keeps):
                key = tuple(tuple(keeps.tolist()) if v == ONE else (v.t >= 0 and bool(keeps[v.t]),) for v in pair)
                alike.setdefault(key, []).append(k)
            for chosen in alike.values():
                fits = part.keeping.fits[chosen].sum(axis=0, dtype=np.float64)
                for key, more in self._turn({pair: self._times(pair, values, fits)}, images[chosen[0]]).items():
                    found[key] = found[key] + more if key in found else more
        return found

    def _images(self, moments: Moments, keeps: Bools, prices: Floats, lv: int) -> Images:
        """What variables turn into at a level that keeps some tensors."""
        images: dict[Variable, Image] = {
            v: _charge(v, self._at_parent(v, prices[lv, v.t])) for v in _on_their_way(moments) if keeps[v.t]
        }
        if lv == 0:
            return images
        fresh: dict[Variable, float | Floats] = {ONE: 1.0}
        for t in np.flatnonzero(keeps).tolist():
            reads, fills = (float(prices[lv, t, kind]) for kind in (READS, FILLS))
            due = fills + (reads if t == self.output and self.c.drain[lv] else 0.0)
            if due:
                fresh |= dict.fromkeys(self._apart(Variable("due", t)), self.boxes[t] * due)
            if t == self.output and fills:
                fresh[Variable("first", t)] = self.boxes[t] * -fills
            for v in self._on_the_way(t, settled=False):
                if self._wanted(v, prices, lv - 1) or _PER_TRANSFER[v.kind] * prices[lv - 1, t, TRANSFERS]:
                    fresh[v] = self.boxes[t]
        images[ONE] = fresh
        return images

    # --- linear maps ----------------------------------------------------------------------------------------------

    def _halo(self, pair: Pair) -> Halo | None:
        """What follows the factors that wait for a loop over a window."""
        tracked = _tracked(pair)
        if not tracked:
            return None
        t, window = tracked[0].t, tracked[0].window
        if (t, window) not in self._halos:
            self._halos[t, window] = Halo(self.nest, t, self.windows[t][window])
        return self._halos[t, window]

    def _times(self, pair: Pair, values: Floats, by: float | Floats) -> Floats:
        """Multiply by a number, or by a value of each tile shape."""
        halo = self._halo(pair)
        if halo is None or isinstance(by, float):
            return values * by
        return values * (halo.waiting.at_states(by) if len(_tracked(pair)) == 1 else halo.at_pairs(by))

    def _turn(self, moments: Moments, images: Images) -> Moments:
        """Products of what the variables turn into; a variable without an image stays."""
        found: Moments = {}
        for pair, values in moments.items():
            first, second = (images.get(v, {v: 1.0}) for v in pair)
            for (j, one), (k, two) in itertools.product(first.items(), second.items()):
                if (pair[0] == pair[1] and j > k) or (j.waits and k.waits and j.t == k.t and j.window != k.window):
                    continue
                product = values
                for by in (one, two):
                    if not isinstance(by, float) or by != 1.0:
                        product = self._times(pair, product, by)
                product = self._lift(product, pair, (j, k))
                if pair[0] != pair[1] and j == k:
                    product = product + self._swap(product, (j, k))
                key = _pair(j, k)
                product = product if key == (j, k) else self._swap(product, (j, k))
                found[key] = found[key] + product if key in found else product
        return found

    def _lift(self, values: Floats, before: Pair, after: Pair) -> Floats:
        """Begin to follow factors that stand for new tiles, by the loops over a window."""
        old, new = _tracked(before), _tracked(after)
        halo = self._halo(after)
        if halo is None or len(old) == len(new):
            return values
        if not old:
            return halo.waiting.begin(values) if len(new) == 1 else halo.pairs_begin(values)
        return halo.beside_new(values, 0 if before[0] not in old else 1)

    def _swap(self, values: Floats, pair: Pair) -> Floats:
        """The same with the factors exchanged."""
        halo = self._halo(pair)
        return values if halo is None or len(_tracked(pair)) < 2 else np.asarray(values[halo.swapped])


def _together(sums: Moments) -> Floats:
    """Arrays of one shape as one, along its last axis."""
    return np.stack([*sums.values()], axis=-1)


def _apart(values: Floats, pairs: Iterable[Pair]) -> Moments:
    """The arrays along the last axis, each by itself."""
    return dict(zip(pairs, np.ascontiguousarray(np.moveaxis(values, -1, 0)), strict=True))


_PER_TRANSFER = {"down": 1.0, "went down": 1.0, "up": 1.0, "went up": 1.0, "seen": -1.0, "known": 0.0}


def _charge(v: Variable, price: float) -> Image:
    """What the price of a variable's words adds to."""
    target = Variable("due", v.t, v.window) if v.waits else Variable("first", v.t) if v.seen else PAID
    return {target: price} if price else {}


@cache
def _tracked(pair: Pair) -> tuple[Variable, ...]:
    """Factors that wait for a loop over a window."""
    return tuple(v for v in pair if v.waits and v.window >= 0)


def _on_their_way(moments: Moments) -> set[Variable]:
    """Variables of words that have not come to the next level yet."""
    return {v for pair in moments for v in pair if v.kind not in ("one", "paid", "due", "first")}


@cache
def _orders(pair: Pair) -> tuple[Order, ...]:
    """In which order the factors of a product can settle: sets of their numbers."""
    return tuple(_ways_to_settle(pair))


def _ways_to_settle(pair: Pair) -> Iterator[Order]:
    yield ()
    waiting = [k for k in range(2) if pair[k].waits]
    both = len(waiting) == 2
    if not both or pair[0].t != pair[1].t or pair[0].window >= 0:
        alike = both and pair[0] == pair[1]
        yield from ((frozenset({k}),) for k in (waiting[:1] if alike else waiting))
        if both:
            yield (frozenset({0}), frozenset({1}))
            if not alike:
                yield (frozenset({1}), frozenset({0}))
    if both:
        yield (frozenset({0, 1}),)
