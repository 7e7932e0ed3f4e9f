"""The largest sum of charges that a valid mapping can have: a search from the compute units outwards.

A *label* is the inside of a mapping: the tile shape so far, what is charged for good, and for each tensor what its tile
is charged for in each visit, which falls if loops that do not move the tensor follow, until one follows that does.
Labels that cannot pass the largest sum known are dropped: around their tiles each tensor is taken to be brought anew in
each visit to each tile. docs/census.md, section 4, has the proof. Axis letters: L = levels (outermost first), T =
tensors, D = dimensions, S = tile shapes (a grid of D axes), N = labels.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accelsim.mapspace.space import Slot
from accelsim.model.encode import Batch, Bools, Floats, Ints
from accelsim.population.charges import Charges
from accelsim.population.keep_bounds import Charged, KeepBounds, choices
from accelsim.population.steps import LoopStep, Nest


class Worst(NamedTuple):
    """What no valid mapping's sum passes; and the mappings above the floor with the largest sums, largest first."""

    bound: float
    sums: Floats
    mappings: Batch


VALUE = 0
"""Column of the sums of a label: charged for good. Then follow, for each tensor, what is charged as long as its tile
stays, and the words that enter the tile kept last; and the words of the output that come down to it."""


@dataclass(slots=True)
class _PartialStates:
    """Insides of mappings.

    at : int64[N, D], sizes; room : int64[N], used up on an axis; used : int64[N], bits of dimensions in a block;
    waits : bool[N, T], tensors whose tile no loop in time has moved yet; tile : int64[N, T], shape of that tile, of a
    window that may slide, else -1; sums : float64[N, 2 + 2 T], see `VALUE`; event : int64[N], the loop put last.
    """

    at: Ints
    room: Ints
    used: Ints
    waits: Bools
    tile: Ints
    sums: Floats
    event: Ints

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

    Parameters
    ----------
    nest : Nest
    charges : Charges
    deadline : float, optional
        When labels are no longer followed, by `time.monotonic`; their bounds are kept.

    Attributes
    ----------
    bound : float
        What no mapping's sum passes, by what the search begins with.
    """

    def __init__(self, nest: Nest, charges: Charges, deadline: float | None = None) -> None:
        self.deadline = deadline
        self.charged = Charged(nest, charges)
        self.nest, self.charges, self.c = nest, charges, nest.space.encoded.constants
        self.output, self.sliding = self.charged.output, sorted(self.charged.windows)
        chains = [KeepBounds(self.charged, chosen) for chosen in choices(nest)]
        last = len(self.c.fanout) - 1
        tops = [float(self.most(self.start(), chain, last)[0]) for chain in chains]
        self.chains = sorted(zip(tops, chains, strict=True), key=lambda pair: -pair[0])
        self.bound = self.chains[0][0]

    def above(self, floor: float, most_labels: int) -> Worst:
        """Look for mappings whose sum is larger than a floor.

        Parameters
        ----------
        floor : float
        most_labels : int
            Labels that are held at a time; of the others the bound alone is kept.

        Returns
        -------
        Worst
            Its bound is the floor if there is no such mapping.
        """
        self.floor, self.most_labels, self.reached = floor, most_labels, floor
        self.loops: list[tuple[int, Slot, int, Ints, Ints]] = []
        self.put_so_far = 0
        self.found: list[tuple[float, int, Bools]] = []
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
        labels = _PartialStates(
            np.zeros((1, len(self.nest.sizes)), np.int64),
            none + 1,
            none,
            np.zeros((1, tensors), np.bool_),
            np.full((1, tensors), -1),
            sums,
            none - 1,
        )
        self.cross(labels, levels - 1)
        return labels

    def most(self, labels: _PartialStates, chain: KeepBounds, lv: int) -> Floats:
        """What mappings with such an inside are charged at most, past the network of a level; float64[N]."""
        tensors = labels.waits.shape[1]
        around = chain.around[lv][tuple(labels.at.T)]
        stays, words = labels.sums[:, 1 : 1 + tensors], labels.sums[:, 1 + tensors :]
        summed = labels.sums[:, VALUE] + stays.sum(axis=1) + words @ chain.rest[lv]
        return np.asarray(summed - chain.less[lv] + around)

    def charge(self, labels: _PartialStates, t: int, amount: Floats) -> None:
        """Charge for a tensor's words: for as long as its tile stays, or for good."""
        labels.sums[:, 1 + t] += np.where(labels.waits[:, t], amount, 0.0)
        labels.sums[:, VALUE] += np.where(labels.waits[:, t], 0.0, amount)

    def cross(self, labels: _PartialStates, lv: int) -> None:
        """Charge what crosses the network below a level."""
        tensors, out = labels.waits.shape[1], self.output
        for t, each in enumerate(self.charges.transfer[lv].tolist()):
            if each:
                crossing = labels.sums[:, 1 + tensors + t]
                if t == out:
                    crossing = crossing + labels.sums[:, -1]
                    labels.sums[:, VALUE] -= each * self.charged.first
                self.charge(labels, t, each * crossing)

    def store(self, labels: _PartialStates, chain: KeepBounds, lv: int) -> None:
        """Charge the level that keeps the tile reached."""
        tensors, out, charges = labels.waits.shape[1], self.output, self.charges
        at = tuple(labels.at.T)
        if lv > 0:
            labels.sums[:, VALUE] += self.charged.rounded(chain.keep, lv)
        for t in np.flatnonzero(chain.keep[lv]).tolist():
            words = labels.sums[:, 1 + tensors + t]
            old = self.charged.first if t == out else 0.0
            if lv == 0:  # nothing follows that could change how many accesses these are
                updates, reads = words, words - old
                if charges.unasked[0, t] > 0:
                    updates, reads = (_whole(many, float(charges.access[0, t])) for many in (updates, reads))
                labels.sums[:, VALUE] += charges.read[0, t] * reads
                if t == out:
                    labels.sums[:, VALUE] += charges.update[0, t] * updates
                continue
            each = charges.read[lv, t] + (charges.update[lv, t] if t == out else 0.0)
            self.charge(labels, t, each * words)
            labels.sums[:, VALUE] -= old * float(charges.read[lv, t] + charges.fill[lv, t])
            free = not (charges.transfer[lv - 1, t] or chain.rest[lv - 1, t] or (t == out and chain.rest[lv - 1, -1]))
            free &= not (self.charged.fill(lv, t) or charges.change[lv, t])
            if free:  # as if there were no such tile
                labels.sums[:, 1 + tensors + t] = 0.0
                continue
            if t in self.charged.windows:
                slides = ~labels.waits[:, t] & (charges.change[lv, t] == 0)
                labels.tile[:, t] = np.where(slides, np.ravel_multi_index(at, self.nest.shape), -1)
            entering = self.charged.words[t][at]
            labels.sums[:, 1 + tensors + t] = entering
            labels.sums[:, 1 + t] += (
                entering * self.charged.fill(lv, t) + self.charged.visits[at] * charges.change[lv, t]
            )
            labels.waits[:, t] = True
            if t == out:
                labels.sums[:, -1] = entering

    def follow(self, chain: KeepBounds) -> None:
        """Put loops around the compute units, step by step, until nothing is left outside."""
        labels = self.start()
        for step in self.nest.steps:
            if isinstance(step, LoopStep):
                labels = self.spread(labels, step, chain) if step.slot.axis else self.repeat(labels, step, chain)
            else:
                lv = step.level
                kept = chain.fits[lv] if lv > 0 else self.charged.whole
                labels = labels.take(kept[tuple(labels.at.T)])
                self.store(labels, chain, lv)
                if lv > 0:
                    self.cross(labels, lv - 1)
                    labels = self.prune(labels, chain, lv - 1)
            if not len(labels):
                return
        values = labels.sums[:, : 1 + labels.waits.shape[1]].sum(axis=1)
        self.reached = max(self.reached, float(values.max()))
        self.found += [(float(v), int(e), chain.keep) for v, e in zip(values, labels.event, strict=True)]

    def prune(self, labels: _PartialStates, chain: KeepBounds, lv: int) -> _PartialStates:
        """Drop labels that cannot pass the floor, that another one is never below, or for which there is no room."""
        most = self.most(labels, chain, lv)
        good = most > self.floor
        labels, most = labels.take(good), most[good]
        if self.late:
            self.reached = max(self.reached, float(most.max(initial=self.floor)))
            return labels.take(np.zeros(0, np.int64))
        if len(labels) < 2:
            return labels
        shape = np.ravel_multi_index(tuple(labels.at.T), self.nest.shape)
        blocks = (labels.used << labels.waits.shape[1]) | labels.waits @ (1 << np.arange(labels.waits.shape[1]))
        kinds = [shape, blocks, labels.room, *labels.tile[:, self.sliding].T]
        ranked = np.lexsort((-most, *kinds))
        new = np.ones(len(ranked), np.bool_)
        new[1:] = np.any([kind[ranked[1:]] != kind[ranked[:-1]] for kind in kinds], axis=0)
        best = ranked[new][np.cumsum(new) - 1]
        beaten = (labels.sums[ranked] <= labels.sums[best]).all(axis=1) & ~new
        left = np.sort(ranked[~beaten])
        if len(left) > self.most_labels:
            order = left[np.argsort(-most[left], kind="stable")]
            self.reached = max(self.reached, float(most[order[self.most_labels]]))
            left = np.sort(order[: self.most_labels])
        return labels.take(left)

    def put(self, labels: _PartialStates, step: LoopStep, d: int) -> _PartialStates:
        """All labels with a loop over a dimension around, in time or over an axis."""
        outside: dict[int, list[tuple[int, int]]] = {}
        last = step is self.nest.steps[-2]  # the outermost block: what is left of each dimension is a loop here
        for i, j, bound in step.moves[d]:
            if not last or j == len(self.nest.sizes[d]) - 1:
                outside.setdefault(i, []).append((j, bound))
        which, sizes, bounds = [], [], []
        for i, many in outside.items():
            mine = np.flatnonzero(labels.at[:, d] == i)
            for j, bound in many:
                room = mine[labels.room[mine] * bound <= step.products[-1]] if step.slot.axis else mine
                which.append(room)
                sizes.append(np.full(len(room), j))
                bounds.append(np.full(len(room), bound))
        if not which:
            return labels.take(np.zeros(0, np.int64))
        more, bounds_put = labels.take(np.concatenate(which)), np.concatenate(bounds)
        more.at[:, d] = np.concatenate(sizes)
        self.loops.append((self.put_so_far, step.slot, d, more.event, bounds_put))
        more.event = self.put_so_far + np.arange(len(more))
        self.put_so_far += len(more)
        (self._spread_over if step.slot.axis else self._repeat_over)(more, step.slot, d, bounds_put)
        return more

    def _spread_over(self, labels: _PartialStates, slot: Slot, d: int, bound: Ints) -> None:
        tensors, axis, c = labels.waits.shape[1], "xy".index(slot.axis), self.c
        labels.room *= bound
        for t in np.flatnonzero(~c.relevant[:, d]).tolist():
            inwards, outwards = c.multicast[slot.level, axis], c.reduction[slot.level, axis]
            if outwards if t == self.output else inwards:
                labels.sums[:, 1 + tensors + t] /= bound
            if t == self.output and inwards:
                labels.sums[:, -1] /= bound
        if self.charges.instance > slot.level:
            labels.sums /= bound[:, None]
        elif self.charges.instance >= 0:
            labels.sums[:, VALUE] /= bound

    def _repeat_over(self, labels: _PartialStates, slot: Slot, d: int, bound: Ints) -> None:
        tensors = labels.waits.shape[1]
        labels.used |= 1 << d
        for t in range(tensors):
            waits = labels.waits[:, t].copy()
            if self.c.relevant[t, d]:
                if t in self.charged.windows:
                    self._slide(labels, t, d, bound)
                labels.sums[waits, VALUE] += labels.sums[waits, 1 + t]
                labels.sums[waits, 1 + t] = 0.0
                labels.waits[:, t], labels.tile[:, t] = False, -1
            else:
                fewer = bound[waits]
                labels.sums[waits, 1 + t] /= fewer
                labels.sums[waits, 1 + tensors + t] /= fewer
                if t == self.output:
                    labels.sums[waits, -1] /= fewer

    def _slide(self, labels: _PartialStates, t: int, d: int, bound: Ints) -> None:
        """Of a window that a loop slides, take off what stays in the tile."""
        if (extents := self.charged.windows[t].get(d)) is None:
            return
        slides = labels.tile[:, t] >= 0
        inside = np.array(self.nest.sizes[d])[labels.at[slides, d]] // bound[slides]
        extent = extents[labels.tile[slides, t]]
        new = np.minimum(extent, self.c.factor[t, d] * inside) / extent
        share = (1 + (bound[slides] - 1) * new) / bound[slides]
        labels.sums[slides, 1 + t] *= share
        labels.sums[slides, 1 + labels.waits.shape[1] + t] *= share
        if t == self.output:
            labels.sums[slides, -1] *= share

    def spread(self, labels: _PartialStates, step: LoopStep, chain: KeepBounds) -> _PartialStates:
        """Put loops over an axis around."""
        lv = step.slot.level
        for d in range(len(step.moves)):
            more = self.put(labels, step, d)
            labels = self.prune(_join([labels, more]) if step.may_rest[d] else more, chain, lv)
        wanted = [product for product, good in zip(step.products, step.wanted, strict=True) if good]
        labels = labels.take(np.isin(labels.room, wanted))
        labels.room = np.ones(len(labels), np.int64)
        return self.prune(labels, chain, lv)

    def repeat(self, labels: _PartialStates, step: LoopStep, chain: KeepBounds) -> _PartialStates:
        """Put a temporal block around: in order, until a loop has moved all tiles, and the others in any order."""
        lv, dims = step.slot.level, range(len(step.moves))
        must = sum(1 << d for d in dims if not step.may_rest[d])
        waiting: Bools = np.logical_or.reduce(labels.waits, axis=1)
        done, free, labels = [], [labels.take(~waiting)], labels.take(waiting)
        while len(labels):
            done.append(labels.take(np.equal(labels.used & must, must)))
            after = [self.put(labels.take(np.equal(labels.used & (1 << d), 0)), step, d) for d in dims]
            labels = self.prune(_join(after), chain, lv)
            waiting = np.logical_or.reduce(labels.waits, axis=1)
            free.append(labels.take(~waiting))
            labels = labels.take(waiting)
        loose = self.prune(_join(free), chain, lv)
        for d in dims:
            placed = np.greater(loose.used & (1 << d), 0)
            rest = loose if step.may_rest[d] else loose.take(placed)
            loose = _join([rest.take(np.arange(len(rest))), self.put(loose.take(~placed), step, d)])
            loose.used &= ~(1 << d)
            loose = self.prune(loose, chain, lv)
        labels = _join([*done, loose])
        labels.used = np.zeros(len(labels), np.int64)
        return self.prune(labels, chain, lv)

    def result(self) -> Worst:
        """The bound, and mappings with the largest sums of those that were followed to the end."""
        self.found.sort(key=lambda each: -each[0])
        many, (levels, dims) = self.found[:CLOSEST], (len(self.c.fanout), len(self.nest.sizes))
        shape = (len(many), levels, dims)
        temporal, x, y = np.ones(shape, np.int64), np.ones(shape, np.int64), np.ones(shape, np.int64)
        order = np.tile(np.arange(dims), (len(many), levels, 1))
        keep = np.array([keep for *_, keep in many], np.bool_).reshape(len(many), levels, len(self.charged.words))
        starts = [first for first, *_ in self.loops]
        for row, (_, event, _) in enumerate(many):
            loops: list[list[int]] = [[] for _ in range(levels)]
            while event >= 0:  # the outermost loop was put last
                first, slot, d, before, bounds = self.loops[bisect_right(starts, event) - 1]
                {"": temporal, "x": x, "y": y}[slot.axis][row, slot.level, d] = bounds[event - first]
                event = int(before[event - first])
                if not slot.axis:
                    loops[slot.level].append(d)
            for lv, placed in enumerate(loops):
                order[row, lv] = [*placed, *(d for d in range(dims) if d not in placed)]
        return Worst(self.reached, np.array([total for total, *_ in many]), Batch(temporal, order, x, y, keep))


CLOSEST = 64
"""Mappings that a search returns at most."""
