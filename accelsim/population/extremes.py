"""The largest energy, cycles and off-chip words that a valid mapping can have: found, and proved.

What is charged for words adds up. Cycles are those of the slowest part: each limited port, and the compute units. So
the largest sum of charges is searched from the compute units outwards. A *partial state* is the inside of a mapping:
the tile shape so far, what is charged for good, and for each tensor what its tile is charged for in each visit, which
falls if loops that do not move the tensor follow, until one follows that does. States that cannot pass the largest sum
known are dropped: around their tiles each tensor is taken to be brought anew in each visit to each tile.
docs/papers/mapspace.md, section 8, has the proof. Axis letters: L = levels (outermost first), T = tensors, D =
dimensions, S = tile shapes (a grid of D axes), N = partial states.
"""

from __future__ import annotations

import itertools
import math
import time
from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.divisors import divisors
from accelsim.inputs.mapping import Mapping
from accelsim.inputs.workload import Einsum
from accelsim.mapspace.space import MapSpace, Slot
from accelsim.model.encode import Batch, Bools, Floats, Ints, decode_mapping, empty_batch, encode
from accelsim.model.evaluate import evaluate_encoded
from accelsim.population.charges import Charged, ChargeRow, Charges, KeepBounds, cycle_rows, energy_rows, word_rows
from accelsim.population.counting import LoopStep, Nest, count_mappings
from accelsim.search.value_kernel import CYCLES, ENERGY, WORDS


class Worst(NamedTuple):
    """Mappings with the largest sums, and a bound on all."""

    bound: float  # what no valid mapping's sum passes
    sums: Floats  # float64[*]: sums of mappings that pass the floor, largest first
    mappings: Batch  # batch of the mappings with the largest sums, in the order of `sums`


VALUE = 0
"""Column of the sums of a state: charged for good. Then follow, for each tensor, what is charged as long as its tile
stays, and the words that enter the tile kept last; and the words of the output that come down to it."""


@dataclass(slots=True)
class _PartialStates:
    """Insides of mappings."""

    at: Ints  # int64[N, D]: size of the tile along each dimension, as an index
    room: Ints  # int64[N]: instances that are in use on the axis so far
    used: Ints  # int64[N]: dimensions that have a loop in the block, as bits
    waits: Bools  # bool[N, T]: whether no temporal loop has moved the tensor's tile yet
    tile: Ints  # int64[N, T]: shape of the tile kept last, if it is of a window that may slide; else -1
    sums: Floats  # float64[N, 2 + 2 * T]: what is charged, and words that enter the tiles kept last; see `VALUE`
    event: Ints  # int64[N]: number of the loop put last, -1 if there is none

    def __len__(self) -> int:
        return len(self.at)

    def take(self, which: npt.NDArray[np.int64 | np.bool_]) -> _PartialStates:
        return _PartialStates(*(getattr(self, name)[which] for name in _PartialStates.__slots__))


def _join(parts: list[_PartialStates]) -> _PartialStates:
    return _PartialStates(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in _PartialStates.__slots__)
    )


def _whole(words: Floats, access: float) -> Floats:
    """Words that whole accesses move."""
    return np.ceil(words / access * (1 - 1e-12)) * access


class WorstSearch:
    """The search for the largest sum of some charges over all valid mappings.

    `deadline`: when states are no longer followed, by `time.monotonic`; their bounds are kept. `bound`: what no
    mapping's sum passes, by what the search begins with.
    """

    def __init__(self, nest: Nest, charges: Charges, deadline: float | None = None) -> None:
        self.deadline = deadline
        self.charged = Charged(nest, charges)
        self.nest, self.charges, self.c = nest, charges, nest.space.encoded.constants
        self.output, self.sliding = self.charged.output, sorted(self.charged.windows)
        chains: list[tuple[float, KeepBounds]] = []
        self.left: float = -math.inf
        """What mappings are charged at most that keep what was not looked at any more."""
        for chosen in itertools.product(*(zip(each.keeps, each.fits, strict=True) for each in nest.keepings)):
            if self.late:
                self.left = self.most_of_any_keeps()
                break
            chain = KeepBounds(self.charged, np.array([keep for keep, _ in chosen]), [fits for _, fits in chosen])
            chains.append((self.top(chain), chain))
        self.chains = sorted(chains, key=lambda pair: -pair[0])
        self.bound = max([self.left, *(top for top, _ in self.chains[:1])])

    def top(self, chain: KeepBounds) -> float:
        """What mappings that keep so are charged at most."""
        return float(self.most(self.start(), chain, len(self.c.fanout) - 1)[0])

    def most_of_any_keeps(self) -> float:
        """What no mapping's sum passes, quickly: each tensor is kept where it is charged most, as tiles charged most.

        Charges of such tiles are sums over tensors, so each tensor is looked at with all others in the outermost level.
        """
        charged = self.charged.of_any_tile()
        levels, tensors = self.charges.read.shape

        def top(t: int, kept: tuple[bool, ...]) -> float:
            keep = np.zeros((levels, tensors), np.bool_)
            keep[0], keep[:, t] = True, kept
            return self.top(KeepBounds(charged, keep, [charged.whole] * levels))

        least = top(0, (True, *[False] * (levels - 1)))
        found = least
        for t in range(tensors):
            ways = itertools.product(*({bool(keep[t]) for keep in each.keeps} for each in self.nest.keepings))
            found += max(top(t, kept) for kept in ways) - least
        return found

    def above(self, floor: float, most_states: int) -> Worst:
        """Look for mappings whose sum is larger than a floor, which is the bound if there is none.

        `most_states`: states that are held at a time; of the others the bound alone is kept.
        """
        self.floor, self.most_states, self.reached = floor, most_states, floor
        self.loops: list[tuple[int, Slot, int, Ints, Ints]] = []
        self.put_so_far = 0
        self.found: list[tuple[float, int, Bools]] = []
        if self.left > floor:
            self.reached = max(self.reached, self.left)
        for top, chain in self.chains:
            if top > floor and self.late:
                self.reached = max(self.reached, top)
            elif top > floor:
                self.follow(chain)
        return self.result()

    @property
    def late(self) -> bool:
        """Whether the time is used up."""
        return self.deadline is not None and time.monotonic() > self.deadline

    def start(self) -> _PartialStates:
        """Nothing but the compute units, each of which takes a word of each tensor for each MAC."""
        levels, tensors = self.charges.read.shape
        sums = np.zeros((1, 2 + 2 * tensors))
        sums[0, VALUE] = self.charged.macs * self.charges.mac
        sums[0, 1 + tensors :] = self.charged.macs
        none = np.zeros(1, np.int64)
        states = _PartialStates(
            np.zeros((1, len(self.nest.sizes)), np.int64),
            none + 1,
            none,
            np.zeros((1, tensors), np.bool_),
            np.full((1, tensors), -1),
            sums,
            none - 1,
        )
        self.cross(states, levels - 1)
        return states

    def most(self, states: _PartialStates, chain: KeepBounds, lv: int) -> Floats:
        """What mappings with such an inside are charged at most, past the network of a level; float64[N]."""
        tensors = states.waits.shape[1]
        around = chain.around[lv][tuple(states.at.T)]
        stays, words = states.sums[:, 1 : 1 + tensors], states.sums[:, 1 + tensors :]
        summed = states.sums[:, VALUE] + stays.sum(axis=1) + words @ chain.rest[lv]
        return np.asarray(summed - chain.less[lv] + around)

    def charge(self, states: _PartialStates, t: int, amount: Floats) -> None:
        """Charge for a tensor's words: for as long as its tile stays, or for good."""
        states.sums[:, 1 + t] += np.where(states.waits[:, t], amount, 0.0)
        states.sums[:, VALUE] += np.where(states.waits[:, t], 0.0, amount)

    def cross(self, states: _PartialStates, lv: int) -> None:
        """Charge what crosses the network below a level."""
        tensors, out = states.waits.shape[1], self.output
        for t, each in enumerate(self.charges.transfer[lv].tolist()):
            back = float(self.charges.back[lv]) if t == out else 0.0
            if each or back:
                crossing = each * states.sums[:, 1 + tensors + t]
                if t == out:
                    crossing = crossing + back * states.sums[:, -1]
                    states.sums[:, VALUE] -= back * self.charged.first
                self.charge(states, t, crossing)

    def store(self, states: _PartialStates, chain: KeepBounds, lv: int) -> None:
        """Charge the level that keeps the tile reached."""
        tensors, out, charges = states.waits.shape[1], self.output, self.charges
        at = tuple(states.at.T)
        if lv > 0:
            states.sums[:, VALUE] += self.charged.rounded(chain.keep, lv)
        for t in np.flatnonzero(chain.keep[lv]).tolist():
            words = states.sums[:, 1 + tensors + t]
            old = self.charged.first if t == out else 0.0
            if lv == 0:  # nothing follows that could change how many accesses these are
                updates, reads = words, words - old
                if charges.unasked[0, t] > 0:
                    updates, reads = (_whole(many, float(charges.access[0, t])) for many in (updates, reads))
                states.sums[:, VALUE] += charges.read[0, t] * reads
                if t == out:
                    states.sums[:, VALUE] += charges.update[0, t] * updates
                continue
            each = charges.read[lv, t] + (charges.update[lv, t] if t == out else 0.0)
            self.charge(states, t, each * words)
            states.sums[:, VALUE] -= old * float(charges.read[lv, t] + charges.fill[lv, t])
            crossed = charges.transfer[lv - 1, t] or (t == out and charges.back[lv - 1])
            free = not (crossed or chain.rest[lv - 1, t] or (t == out and chain.rest[lv - 1, -1]))
            free &= not (self.charged.fill(lv, t) or charges.change[lv, t])
            if free:  # as if there were no such tile
                states.sums[:, 1 + tensors + t] = 0.0
                continue
            if t in self.charged.windows:
                slides = ~states.waits[:, t] & (charges.change[lv, t] == 0)
                states.tile[:, t] = np.where(slides, np.ravel_multi_index(at, self.nest.shape), -1)
            entering = self.charged.words[t][at]
            states.sums[:, 1 + tensors + t] = entering
            states.sums[:, 1 + t] += (
                entering * self.charged.fill(lv, t) + self.charged.visits[at] * charges.change[lv, t]
            )
            states.waits[:, t] = True
            if t == out:
                states.sums[:, -1] = entering

    def follow(self, chain: KeepBounds) -> None:
        """Put loops around the compute units, step by step, until nothing is left outside."""
        states = self.start()
        for step in self.nest.steps:
            if isinstance(step, LoopStep):
                states = self.spread(states, step, chain) if step.slot.axis else self.repeat(states, step, chain)
            else:
                lv = step.level
                kept = chain.fits[lv] if lv > 0 else self.charged.whole
                states = states.take(kept[tuple(states.at.T)])
                self.store(states, chain, lv)
                if lv > 0:
                    self.cross(states, lv - 1)
                    states = self.prune(states, chain, lv - 1)
            if not len(states):
                return
        values = states.sums[:, : 1 + states.waits.shape[1]].sum(axis=1)
        self.reached = max(self.reached, float(values.max()))
        self.found += [(float(v), int(e), chain.keep) for v, e in zip(values, states.event, strict=True)]

    def prune(self, states: _PartialStates, chain: KeepBounds, lv: int) -> _PartialStates:
        """Drop states that cannot pass the floor, that another one is never below, or for which there is no room."""
        most = self.most(states, chain, lv)
        good = most > self.floor
        states, most = states.take(good), most[good]
        if self.late:
            self.reached = max(self.reached, float(most.max(initial=self.floor)))
            return states.take(np.zeros(0, np.int64))
        if len(states) < 2:
            return states
        shape = np.ravel_multi_index(tuple(states.at.T), self.nest.shape)
        blocks = (states.used << states.waits.shape[1]) | states.waits @ (1 << np.arange(states.waits.shape[1]))
        kinds = [shape, blocks, states.room, *states.tile[:, self.sliding].T]
        ranked = np.lexsort((-most, *kinds))
        new = np.ones(len(ranked), np.bool_)
        new[1:] = np.any([kind[ranked[1:]] != kind[ranked[:-1]] for kind in kinds], axis=0)
        best = ranked[new][np.cumsum(new) - 1]
        beaten = (states.sums[ranked] <= states.sums[best]).all(axis=1) & ~new
        left = np.sort(ranked[~beaten])
        if len(left) > self.most_states:
            order = left[np.argsort(-most[left], kind="stable")]
            self.reached = max(self.reached, float(most[order[self.most_states]]))
            left = np.sort(order[: self.most_states])
        return states.take(left)

    def put(self, states: _PartialStates, step: LoopStep, d: int) -> _PartialStates:
        """All states with a loop over a dimension around, in time or over an axis."""
        if not len(states):
            return states
        sizes, outside, bounds = np.array(sorted(step.moves[d]), np.int64).reshape(-1, 3, 1).swapaxes(0, 1)
        fits = states.at[:, d] == sizes
        if step is self.nest.steps[-2]:  # the outermost block: what is left of each dimension is a loop here
            fits &= outside == len(self.nest.sizes[d]) - 1
        if step.slot.axis:
            fits &= states.room * bounds <= step.rooms[-1][-1][0]
        move, which = np.nonzero(fits)
        more, bounds_put = states.take(which), bounds[move, 0]
        more.at[:, d] = outside[move, 0]
        self.loops.append((self.put_so_far, step.slot, d, more.event, bounds_put))
        more.event = self.put_so_far + np.arange(len(more))
        self.put_so_far += len(more)
        (self._spread_over if step.slot.axis else self._repeat_over)(more, step.slot, d, bounds_put)
        return more

    def _spread_over(self, states: _PartialStates, slot: Slot, d: int, bound: Ints) -> None:
        tensors, axis, c = states.waits.shape[1], "xy".index(slot.axis), self.c
        states.room *= bound
        for t in np.flatnonzero(~c.relevant[:, d]).tolist():
            inwards, outwards = c.multicast[slot.level, axis, t], c.reduction[slot.level, axis]
            if outwards if t == self.output else inwards:
                states.sums[:, 1 + tensors + t] /= bound
            if t == self.output and inwards:
                states.sums[:, -1] /= bound
        if self.charges.instance > slot.level:
            states.sums /= bound[:, None]
        elif self.charges.instance >= 0 and self.charges.mac > 0.0:  # so far nothing else is charged for good
            states.sums[:, VALUE] /= bound

    def _repeat_over(self, states: _PartialStates, slot: Slot, d: int, bound: Ints) -> None:
        tensors = states.waits.shape[1]
        states.used |= 1 << d
        for t in range(tensors):
            waits = states.waits[:, t].copy()
            if self.c.relevant[t, d]:
                if t in self.charged.windows:
                    self._slide(states, t, d, bound)
                states.sums[waits, VALUE] += states.sums[waits, 1 + t]
                states.sums[waits, 1 + t] = 0.0
                states.waits[:, t], states.tile[:, t] = False, -1
            else:
                fewer = bound[waits]
                states.sums[waits, 1 + t] /= fewer
                states.sums[waits, 1 + tensors + t] /= fewer
                if t == self.output:
                    states.sums[waits, -1] /= fewer

    def _slide(self, states: _PartialStates, t: int, d: int, bound: Ints) -> None:
        """Of a window that a loop slides, take off what stays in the tile."""
        if (extents := self.charged.windows[t].get(d)) is None:
            return
        slides = states.tile[:, t] >= 0
        inside = np.array(self.nest.sizes[d])[states.at[slides, d]] // bound[slides]
        extent = extents[states.tile[slides, t]]
        new = np.minimum(extent, self.c.factor[t, d] * inside) / extent
        share = (1 + (bound[slides] - 1) * new) / bound[slides]
        states.sums[slides, 1 + t] *= share
        states.sums[slides, 1 + states.waits.shape[1] + t] *= share
        if t == self.output:
            states.sums[slides, -1] *= share

    def spread(self, states: _PartialStates, step: LoopStep, chain: KeepBounds) -> _PartialStates:
        """Put loops over an axis around."""
        lv = step.slot.level
        for d in range(len(step.moves)):
            more = self.put(states, step, d)
            states = self.prune(_join([states, more]) if step.may_rest[d] else more, chain, lv)
        allowed = [product for (product, *_), good in zip(step.rooms[-1], step.weights, strict=True) if good]
        states = states.take(np.isin(states.room, allowed))
        states.room = np.ones(len(states), np.int64)
        return self.prune(states, chain, lv)

    def repeat(self, states: _PartialStates, step: LoopStep, chain: KeepBounds) -> _PartialStates:
        """Put a temporal block around: in order, until a loop has moved all tiles, and the others in any order."""
        lv, dims = step.slot.level, range(len(step.moves))
        must = sum(1 << d for d in dims if not step.may_rest[d])
        waiting: Bools = np.logical_or.reduce(states.waits, axis=1)
        done, free, states = [], [states.take(~waiting)], states.take(waiting)
        while len(states):
            done.append(states.take(np.equal(states.used & must, must)))
            after = [self.put(states.take(np.equal(states.used & (1 << d), 0)), step, d) for d in dims]
            states = self.prune(_join(after), chain, lv)
            waiting = np.logical_or.reduce(states.waits, axis=1)
            free.append(states.take(~waiting))
            states = states.take(waiting)
        loose = self.prune(_join(free), chain, lv)
        for d in dims:
            placed = np.greater(loose.used & (1 << d), 0)
            rest = loose if step.may_rest[d] else loose.take(placed)
            loose = _join([rest.take(np.arange(len(rest))), self.put(loose.take(~placed), step, d)])
            loose.used &= ~(1 << d)
            loose = self.prune(loose, chain, lv)
        states = _join([*done, loose])
        states.used = np.zeros(len(states), np.int64)
        return self.prune(states, chain, lv)

    def result(self) -> Worst:
        """The bound, and mappings with the largest sums of those that were followed to the end."""
        self.found.sort(key=lambda each: -each[0])
        many = self.found[:CLOSEST]
        batch, starts = empty_batch(self.nest.space.encoded, len(many)), [first for first, *_ in self.loops]
        for row, (_, event, keep) in enumerate(many):
            batch.keep[row] = keep
            loops: list[list[int]] = [[] for _ in keep]
            while event >= 0:  # the outermost loop was put last
                first, slot, d, before, bounds = self.loops[bisect_right(starts, event) - 1]
                {"": batch.temporal, "x": batch.x, "y": batch.y}[slot.axis][row, slot.level, d] = bounds[event - first]
                event = int(before[event - first])
                if not slot.axis:
                    loops[slot.level].append(d)
            for lv, placed in enumerate(loops):
                batch.order[row, lv] = [*placed, *(d for d in range(len(self.nest.sizes)) if d not in placed)]
        return Worst(self.reached, np.array([total for total, *_ in many]), batch)


CLOSEST = 64
"""Mappings that a search returns at most."""


MOST_STATES, FEW_STATES = 20_000, 300
"""States that a search for the largest value holds at a time: where it may take seconds, and a part of one."""
FEW_CHOICES = 64
"""Choices of what the levels keep, up to which the worst mapping of all is looked for in a second."""
FEW_SHAPES = 500_000
"""Tile shapes up to which the mappings are counted in seconds."""
STEP, STEPS = 0.9, 100
"""A search lowers its floor so, and so often, until some mapping lies above, or the floor is the value known."""


class Extreme(NamedTuple):
    """The largest value of a column that was found, and a bound on all."""

    value: float  # largest value that was found
    mapping: Mapping | None  # mapping with the largest value; None if the value was known before
    bound: float  # what no valid mapping's value passes


def largest_value(
    nest: Nest, column: int, known: float = 0.0, *, most_states: int = MOST_STATES, deadline: float | None = None
) -> Extreme:
    """Look for the largest value of a column, and bound it: ENERGY [pJ], CYCLES, or WORDS [storage words].

    `known`: a value that some valid mapping has, 0 if none is known; returned if no mapping with more was found.
    `most_states`: states that are held at a time; 0: no search, only the bound that it begins with. `deadline`: when to
    end with the bound reached, by `time.monotonic`.
    """
    rows = {ENERGY: energy_rows, CYCLES: cycle_rows, WORDS: word_rows}[column](nest)
    found, bound = Extreme(known, None, known), known
    for row in rows:
        search = WorstSearch(nest, row.charges, deadline)
        top = row.value(search.bound)
        if top > found.value and most_states:
            found, top = _search(search, row, column, found, most_states)
        bound = max(bound, top)
    return Extreme(found.value, found.mapping, max(found.value, bound))


def count_and_limit(
    architecture: Architecture, einsum: Einsum, constraints: Constraints | None = None
) -> tuple[int, float | None] | None:
    """How many valid mappings there are, and the energy [pJ] that none exceeds: a spread in a fraction of a second.

    None where tiles do not tell which mappings are valid: with a smallest utilization, or partial sums wider than
    finished words; or where they are so many that it would take seconds. No energy where the levels have so many
    choices of what to keep that this would.
    """
    space = MapSpace(encode(architecture, einsum), constraints)
    shapes = math.prod(len(divisors(bound)) for bound in einsum.dims.values())
    if space.constraints.on_costs or space.encoded.constants.two_widths[0] or shapes > FEW_SHAPES:
        return None
    nest = Nest(space)
    few = math.prod(len(each.keeps) for each in nest.keepings) <= FEW_CHOICES
    return count_mappings(nest), largest_value(nest, ENERGY, most_states=FEW_STATES).bound if few else None


def _search(
    search: WorstSearch, row: ChargeRow, column: int, found: Extreme, most_states: int
) -> tuple[Extreme, float]:
    """The largest value found, and the bound of a row."""
    top, known = search.bound, found.value
    for _ in range(STEPS):
        floor = max(STEP * top, row.total(known))
        tried = search.above(floor, most_states)
        top = min(top, tried.bound)
        if tried.bound > floor or floor <= row.total(known) or search.late:
            break
    found = _better(search, row, column, tried, found)
    while found.value > known and row.total(found.value) < top and not search.late:
        known = found.value
        tried = search.above(row.total(known), most_states)
        top, found = min(top, tried.bound), _better(search, row, column, tried, found)
    return found, row.value(top)


def _better(search: WorstSearch, row: ChargeRow, column: int, tried: Worst, found: Extreme) -> Extreme:
    """The largest value of the mappings that a search came to, if it is larger than one known."""
    space = search.nest.space
    for at, total in enumerate(tried.sums.tolist()):
        if row.value(total) <= found.value:
            break
        mapping = decode_mapping(space.encoded, tried.mappings, at)
        result = evaluate_encoded(space.encoded, mapping)
        value = {ENERGY: result.energy_pj, CYCLES: result.cycles, WORDS: result.offchip_words}[column]
        if result.valid and value > found.value and not space.constraints.broken_by(mapping, space.encoded.einsum):
            found = Extreme(float(value), mapping, found.bound)
    return found
