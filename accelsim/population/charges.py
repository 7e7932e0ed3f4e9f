"""What is charged for words, changes of tiles and MACs, so that the sum is energy, off-chip words, or cycles of a part.

And what tiles can be charged at most, where each visit brings all of their words anew. Axis letters: L = levels
(outermost first), T = tensors, S = tile shapes (a grid of an axis for each dimension).
"""

from __future__ import annotations

import math
from copy import copy
from typing import NamedTuple

import numpy as np

from accelsim.mapspace.factors import along
from accelsim.model.encode import (
    BUFFERED,
    BY_READ,
    BY_RETURN,
    BY_TRANSFER,
    BY_UPDATE,
    BY_WRITE,
    ISSUE,
    LINE_UNITS,
    NETWORK,
    PE,
    ROW_UNITS,
    ROWS,
    SHORTEST,
    SKEW,
    UNITS,
    Bools,
    Encoded,
    Floats,
    Ints,
)
from accelsim.population.counting import Nest

READ_WRITE, READ, WRITE = range(3)
"""Ports of a level, as `Constants.bandwidth` numbers them."""


class Charges(NamedTuple):
    """What a sum charges for words, changes of tiles and MACs; units are those of the sum."""

    read: Floats
    """float64[L, T]: charge of each word that a level hands inwards."""
    fill: Floats
    """float64[L, T]: charge of each word that a level takes in from outside."""
    update: Floats
    """float64[L, T]: charge of each word that a level takes in from inside."""
    transfer: Floats
    """float64[L, T]: charge of each word that crosses the network below a level."""
    back: Floats
    """float64[L]: charge of each partial sum that comes back over the network below a level."""
    change: Floats
    """float64[L, T]: charge of each time that the tile of a level becomes another one."""
    access: Floats
    """float64[L, T] [words]: words that one access moves; the last one of each kind is charged as a whole."""
    unasked: Floats
    """float64[L, T] [words]: words that the last access moves at most although they are not asked for."""
    instances: Floats
    """float64[L]: instances of the level; each of them has a last access."""
    mac: float = 0.0
    """Charge of each multiply-accumulate."""
    instance: int = -1
    """Level of which one instance is charged, all instances of all levels if negative. Loops that spread over instances
    of it then divide the sum, and those inside it divide what MACs are charged."""


class ChargeRow(NamedTuple):
    """Charges whose largest sum bounds a column."""

    charges: Charges  # what the sum charges
    scale: float = 1.0  # what the sum is multiplied by, so that it comes to the unit of the column
    more: float = 0.0  # what is added at the end, in the unit of the column
    whole: bool = False  # whether the scaled sum is rounded up to a whole number

    def value(self, total: float) -> float:
        """What a sum comes to in the column."""
        value = total * self.scale
        return (math.ceil(value * (1 - 1e-12)) if self.whole else value) + self.more

    def total(self, value: float) -> float:
        """The sum that comes to a value of the column."""
        return max(0.0, (value - self.more) / self.scale)


def _nothing(nest: Nest) -> Charges:
    c = nest.space.encoded.constants
    none = np.zeros(c.energy.shape[:2])
    return Charges(none, none, none, none, none[:, 0], none, none + 1.0, none, none[:, 0])


def energy_rows(nest: Nest) -> list[ChargeRow]:
    """What words and MACs take; where levels leak, a row for each part, with what leaks in its cycles.

    A part's cycles are those of one of its instances. Levels outside it have no more instances in use, so with all of
    the part's words together each is charged what one instance of such a level leaks. Of a level inside it, up to as
    many are in use as there are in one instance of the part.
    """
    encoded = nest.space.encoded
    c, parts = encoded.constants, encoded.constants.word_parts.max(axis=2)
    instances = np.array([encoded.architecture.instances(level) for level in range(len(parts))])
    hops = c.hop * (c.fanout.sum(axis=1) - 2)[:, None]  # no child is further away
    charges = _nothing(nest)._replace(
        read=c.energy[:, :, BY_READ] * parts / c.block[:, None],
        fill=c.energy[:, :, BY_WRITE] * parts / c.block[:, None],
        update=c.energy[:, :, BY_UPDATE] * parts / c.block[:, None],
        transfer=c.energy[:, :, BY_TRANSFER] + hops,
        back=c.energy[:, c.output[0], BY_RETURN] + hops[:, c.output[0]],
        access=c.block[:, None] / parts,
        unasked=(c.block[:, None] - 1) / parts,
        instances=instances,
        mac=float(c.mac[0]),
    )
    if not c.leak.any():
        return [ChargeRow(charges)]
    rows = []
    for row in cycle_rows(nest):
        part = row.charges
        inside = np.maximum(1, instances // instances[part.instance]) if part.instance < len(instances) else 1
        pj = float((c.leak * inside).sum()) * row.scale
        each = charges._replace(
            read=charges.read + pj * part.read,
            fill=charges.fill + pj * part.fill,
            update=charges.update + pj * part.update,
            transfer=charges.transfer + pj * part.transfer,
            back=charges.back + pj * part.back,
            change=charges.change + pj * part.change,
            mac=charges.mac + pj * part.mac,
        )
        rows.append(ChargeRow(each, more=float(c.leak @ instances) * (row.more + row.whole)))
    return rows


def word_rows(nest: Nest) -> list[ChargeRow]:
    """Words that are read and written at the outermost level."""
    charges, encoded = _nothing(nest), nest.space.encoded
    words = charges.read.copy()
    words[0] = encoded.constants.word_parts[0].max(axis=1)
    return [ChargeRow(charges._replace(read=words, update=words), 1 / encoded.units_per_word[0])]


def cycle_rows(nest: Nest) -> list[ChargeRow]:
    """Cycles of the compute units, of a systolic array with its ramps, and of each limited port or network."""
    encoded, none = nest.space.encoded, _nothing(nest)
    c, rows = encoded.constants, []
    steps = none._replace(mac=float(c.mac_cycles[0] * c.array[SHORTEST]), instance=len(c.fanout))
    if c.array[PE] < 0:
        rows.append(ChargeRow(steps))
    else:
        pe = int(c.array[PE])
        inside = slice(pe, int(c.nodes[pe, 1]))
        change, words = none.change.copy(), none.change.copy()
        change[inside] = c.array[SKEW] * c.stationary
        words[inside] = c.array[ROWS] * c.stationary
        skew = float(c.array[SKEW])
        once = 0.0 if c.stationary.any() else skew  # an array that holds nothing fills once
        rows.append(ChargeRow(steps._replace(fill=words, change=change, instance=pe), more=once))
        if c.array[BUFFERED]:
            most = [nest.words[t].max() for t in np.flatnonzero(c.stationary).tolist()]
            first = float(c.array[ROWS]) * float(sum(most)) * (inside.stop - inside.start)
            rows = [ChargeRow(none._replace(fill=words, instance=pe), more=skew), ChargeRow(steps, more=skew + first)]
    for lv, port in zip(*np.nonzero(c.bandwidth[:, :, 0]), strict=True):
        words = none.read.copy()
        nodes = slice(int(lv), int(c.nodes[lv, 1]))
        words[nodes] = c.word_parts[nodes].max(axis=2)
        read, write = port in (READ_WRITE, READ), port in (READ_WRITE, WRITE)
        charges = none._replace(read=words * read, fill=words * write, update=words * write, instance=int(lv))
        if port == NETWORK:  # each child takes all words for itself, at most
            charges = none._replace(transfer=words, back=words[:, c.output[0]], instance=int(lv))
        rows.append(ChargeRow(charges, float(c.bandwidth[lv, port, 1]) / float(c.bandwidth[lv, port, 0]), whole=True))
    waits = _waits_at_most(encoded)
    return [row._replace(more=row.more + waits) for row in rows] if waits else rows


def _waits_at_most(encoded: Encoded) -> float:
    """Cycles that fills, drains and DMA engines add at most.

    Each MAC is a step, and each word of a tile a row and a line by itself; a word of the output comes, leaves and is
    read again.
    """
    c, macs, found = encoded.constants, float(encoded.einsum.macs), 0.0
    slowest = (c.bandwidth[:, :, 1] / np.maximum(c.bandwidth[:, :, 0], 1)).max() * c.word_parts.max()
    found += macs * float(c.latency.max(initial=0) * np.count_nonzero(c.overlap) * len(c.whole))
    for tensor in encoded.tensors if c.overlap.any() else ():
        halo = math.prod(sum(factor for _, factor in rank) or 1 for rank in tensor.ranks)
        found += 3.0 * np.count_nonzero(c.overlap) * (macs * halo * slowest + 1.0)
    for level in c.dma:
        found += macs * float(level[-1, ISSUE] + len(c.whole) + 2)
        for t, tensor in enumerate(encoded.tensors):
            halo = math.prod(sum(factor for _, factor in rank) or 1 for rank in tensor.ranks)
            units = float(level[t, ROW_UNITS] + level[t, LINE_UNITS]) * (3.0 if tensor.output else 1.0)
            found += macs * halo * units / float(max(1, level[-1, UNITS]))
    return found


class Charged:
    """A nest with what is charged in it.

    output : which tensor the output is. first : words of it that come for the first time, and are not read, at least; 0
        for windows.
    visits : float64[S], visits to all tiles of a shape, one for each step of the loops outside and each instance.
    words : list of float64[S], words that enter all tiles of each tensor if each visit brings them anew.
    whole : bool[S], the shape with nothing outside.
    windows : for each tensor and dimension of a rank that several dimensions move, the extent of that rank in each
        tile; int64[S].
    """

    def __init__(self, nest: Nest, charges: Charges) -> None:
        encoded, dims = nest.space.encoded, len(nest.sizes)
        c = encoded.constants
        self.nest, self.charges, self.drain, self.links = nest, charges, c.drain, c.links[c.nodes[:, 0] - 1]
        self.output = int(c.output[0])
        self.first = 0.0 if c.windowed[self.output] else float(c.bounds[c.relevant[self.output]].prod())
        self.macs = float(encoded.einsum.macs)
        self.visits = np.full(nest.shape, self.macs)
        for d, sizes in enumerate(nest.sizes):
            self.visits = self.visits / along(sizes, d, dims)
        self.words = [nest.words[t].reshape(nest.shape) * self.visits for t in range(len(encoded.tensors))]
        self.whole = np.zeros(nest.shape, np.bool_)
        self.whole[(-1,) * dims] = True
        self.steps = [_steps_outwards(sizes) for sizes in nest.sizes]
        self.windows = _windows(nest)

    def rounded(self, keep: Bools, lv: int) -> float:
        """What a level is charged at most for words that its last accesses move besides those asked for."""
        charges, out, total = self.charges, self.output, 0.0
        for t in np.flatnonzero(keep[lv]).tolist():
            each = charges.read[lv, t] + (charges.fill[lv, t] if lv > 0 else 0.0)
            each += charges.update[lv, t] if t == out else 0.0
            accesses = min(float(charges.instances[lv]), float(self.words[t].max()))
            total += float(each * charges.unasked[lv, t]) * accesses
        return total

    def fill(self, lv: int, t: int) -> float:
        """What each word that enters a tile is charged at the level that keeps it."""
        again = self.drain[lv] if t == self.output else self.links[lv]
        drained = self.charges.read[lv, t] if again else 0.0
        return float(self.charges.fill[lv, t] + drained)

    def come_first(self, parent: int, lv: int) -> float:
        """What words of the output are not charged that come for the first time, from their parent to a level."""
        return self.first * float(self.charges.read[parent, self.output] + self.charges.back[parent:lv].sum())

    def outwards(self, values: Floats) -> Floats:
        """The largest value over a shape and all shapes around it."""
        values = values.copy()
        for d, steps in enumerate(self.steps):
            moved = np.moveaxis(values, d, 0)
            for i, j in steps:
                moved[i] = np.maximum(moved[i], moved[j])
        return values

    def of_any_tile(self) -> Charged:
        """What mappings are charged if at once each tile has the shape that is charged most, and room."""
        found, shape = copy(self), (1,) * len(self.nest.sizes)
        found.visits = np.full(shape, self.visits.max())
        found.words = [np.full(shape, words.max()) for words in self.words]
        found.whole, found.steps = np.ones(shape, np.bool_), []
        return found


def _steps_outwards(sizes: Ints) -> list[tuple[int, int]]:
    """Pairs of sizes with none between them, in such an order that what lies further out is known first."""
    found: list[tuple[int, int]] = []
    for i in range(len(sizes) - 1, -1, -1):
        around = [j for j in range(i + 1, len(sizes)) if sizes[j] % sizes[i] == 0]
        found += [(i, j) for j in around if not any(sizes[j] % sizes[k] == 0 for k in around if k < j)]
    return found


def _windows(nest: Nest) -> dict[int, dict[int, Ints]]:
    """For each tensor and dimension of a rank that several dimensions move, its extent in each tile; int64[S]."""
    c, shape = nest.space.encoded.constants, nest.shape
    found: dict[int, dict[int, Ints]] = {}
    for t in np.flatnonzero(c.windowed).tolist():
        dims = c.term[t, : c.terms[t]].tolist()
        for d in dims:
            rank = [e for e in dims if c.rank[t, e] == c.rank[t, d]]
            if len(rank) > 1:
                reach = [c.factor[t, e] * (along(nest.sizes[e], e, len(shape)) - 1) for e in rank]
                found.setdefault(t, {})[d] = np.broadcast_to(1 + sum(reach), shape).ravel()
    return found


class KeepBounds:
    """Bounds for one choice of what the levels keep.

    keep : bool[L, T]; fits : list of bool[S], tiles that each level has room for.
    around : list of float64[S]; at level l what tiles kept at l and further out can be charged at most, around a tile,
        where each visit brings them anew.
    rest : float64[L, T + 1], what each word that enters the tile kept last is still charged once the network of a level
        is passed; last the words of the output that come down.
    less : float64[L], to be taken off that, for words of the output that come for the first time.
    """

    def __init__(self, charged: Charged, keep: Bools, fits: list[Bools]) -> None:
        self.keep, self.fits, charges = keep, fits, charged.charges
        levels, tensors = self.keep.shape
        out, first, parent, rounded = charged.output, charged.first, 0, 0.0
        self.rest, self.less = np.zeros((levels, tensors + 1)), np.zeros(levels)
        outer = np.zeros(tensors + 1)  # crossing networks from the parent on, and its reads and updates
        around = np.where(charged.whole, 0.0, -math.inf)
        self.around: list[Floats] = []
        for lv in range(levels):
            tiles, kept = np.zeros(charged.whole.shape), self.keep[lv]
            if lv > 0:
                outer = outer + np.append(charges.transfer[lv - 1], charges.back[lv - 1])
                for t in np.flatnonzero(kept).tolist():
                    tiles += charged.words[t] * (charged.fill(lv, t) + outer[t] + (outer[-1] if t == out else 0.0))
                    tiles += charged.visits * charges.change[lv, t]
                if kept[out]:
                    tiles -= charged.come_first(parent, lv) + first * charges.fill[lv, out]
            parent = lv if kept[out] else parent
            here = charges.read[lv] + np.where(np.arange(tensors) == out, charges.update[lv], 0.0)
            outer = np.append(np.where(kept, here, outer[:-1]), 0.0 if kept[out] else outer[-1])
            self.rest[lv] = outer
            rounded += charged.rounded(self.keep, lv)
            self.less[lv] = charged.come_first(parent, lv) - rounded
            around = charged.outwards(np.where(self.fits[lv], around + tiles, -math.inf))
            self.around.append(around)
