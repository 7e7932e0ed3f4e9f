"""What is charged for words, changes of tiles and MACs, so that the sum is energy, outer words, or cycles of a part.

Axis letters: L = levels (outermost first), T = tensors.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accelsim.model.encode import (
    BUFFERED,
    ISSUE,
    LINE_UNITS,
    PE,
    ROW_UNITS,
    ROWS,
    SKEW,
    UNITS,
    Encoded,
    Floats,
)
from accelsim.model.kernel import BY_READ, BY_TRANSFER, BY_UPDATE, BY_WRITE
from accelsim.population.steps import Nest

READ_WRITE, READ, WRITE = range(3)
"""Ports of a level, as `Constants.bandwidth` numbers them."""


class Charges(NamedTuple):
    """What a sum takes; float64[L, T].

    read, fill, update : each word that a level hands inwards, takes in from outside, and takes in from inside.
    transfer : each word that crosses the network below a level.
    change : each time that the tile of a level becomes another one.
    access : words that an access moves; the last one of each kind is charged as a whole.
    unasked : words that it moves besides those asked for, at most.
    instances : float64[L], of which each has such an access.
    mac : each multiply-accumulate.
    instance : the level of which one instance is charged; all instances of all levels if negative. Loops that spread
        over instances of it then divide the sum, and those inside it divide what MACs take.
    """

    read: Floats
    fill: Floats
    update: Floats
    transfer: Floats
    change: Floats
    access: Floats
    unasked: Floats
    instances: Floats
    mac: float = 0.0
    instance: int = -1


class Row(NamedTuple):
    """Charges whose largest sum, times `scale` and rounded as asked, bounds a column."""

    charges: Charges
    scale: float = 1.0
    more: float = 0.0
    whole: bool = False

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
    return Charges(none, none, none, none, none, none + 1.0, none, none[:, 0])


def energy_rows(nest: Nest) -> list[Row]:
    """What words and MACs take; where levels leak, a row for each part, with what leaks in its cycles.

    A part's cycles are those of one of its instances. Levels outside it have no more instances in use, so with all of
    the part's words together each is charged what one instance of such a level leaks. Of a level inside it, up to as
    many are in use as there are in one instance of the part.
    """
    encoded = nest.space.encoded
    c, parts = encoded.constants, encoded.constants.word_parts.max(axis=2)
    instances = np.array([encoded.architecture.instances(level) for level in range(len(parts))])
    charges = _nothing(nest)._replace(
        read=c.energy[:, :, BY_READ] * parts / c.block[:, None],
        fill=c.energy[:, :, BY_WRITE] * parts / c.block[:, None],
        update=c.energy[:, :, BY_UPDATE] * parts / c.block[:, None],
        transfer=c.energy[:, :, BY_TRANSFER],
        access=c.block[:, None] / parts,
        unasked=(c.block[:, None] - 1) / parts,
        instances=instances,
        mac=float(c.mac[0]),
    )
    if not c.leak.any():
        return [Row(charges)]
    rows = []
    for row in cycle_rows(nest):
        part = row.charges
        inside = np.maximum(1, instances // instances[part.instance]) if part.instance < len(instances) else 1
        pj = float((c.leak * inside).sum()) * row.scale
        each = charges._replace(
            read=charges.read + pj * part.read,
            fill=charges.fill + pj * part.fill,
            update=charges.update + pj * part.update,
            change=charges.change + pj * part.change,
            mac=charges.mac + pj * part.mac,
        )
        rows.append(Row(each, more=float(c.leak @ instances) * (row.more + row.whole)))
    return rows


def word_rows(nest: Nest) -> list[Row]:
    """Words that are read and written at the outermost level."""
    charges, encoded = _nothing(nest), nest.space.encoded
    words = charges.read.copy()
    words[0] = encoded.constants.word_parts[0].max(axis=1)
    return [Row(charges._replace(read=words, update=words), 1 / encoded.units_per_word[0])]


def cycle_rows(nest: Nest) -> list[Row]:
    """Cycles of the compute units, of a systolic array with its ramps, and of each limited port."""
    encoded, none = nest.space.encoded, _nothing(nest)
    c, rows = encoded.constants, []
    steps = none._replace(mac=float(c.mac_cycles[0]), instance=len(c.fanout))
    if c.array[PE] < 0:
        rows.append(Row(steps))
    else:
        pe = int(c.array[PE])
        inside = slice(pe, int(c.nodes[pe, 1]))
        change, words = none.change.copy(), none.change.copy()
        change[inside] = c.array[SKEW] * c.stationary
        words[inside] = c.array[ROWS] * c.stationary
        skew = float(c.array[SKEW])
        once = 0.0 if c.stationary.any() else skew  # an array that holds nothing fills once
        rows.append(Row(steps._replace(fill=words, change=change, instance=pe), more=once))
        if c.array[BUFFERED]:
            most = [nest.words[t].max() for t in np.flatnonzero(c.stationary).tolist()]
            first = float(c.array[ROWS]) * float(sum(most)) * (inside.stop - inside.start)
            rows = [Row(none._replace(fill=words, instance=pe), more=skew), Row(steps, more=skew + first)]
    for lv, port in zip(*np.nonzero(c.bandwidth[:, :, 0]), strict=True):
        words = none.read.copy()
        nodes = slice(int(lv), int(c.nodes[lv, 1]))
        words[nodes] = c.word_parts[nodes].max(axis=2)
        read, write = port in (READ_WRITE, READ), port in (READ_WRITE, WRITE)
        charges = none._replace(read=words * read, fill=words * write, update=words * write, instance=int(lv))
        rows.append(Row(charges, float(c.bandwidth[lv, port, 1]) / float(c.bandwidth[lv, port, 0]), whole=True))
    engines = _engines_at_most(encoded)
    return [row._replace(more=row.more + engines) for row in rows] if engines else rows


def _engines_at_most(encoded: Encoded) -> float:
    """Cycles that DMA engines add at most: a step for each MAC, and each word of a tile a row and a line by itself."""
    c, macs, found = encoded.constants, float(encoded.einsum.macs), 0.0
    for level in c.dma:
        found += macs * float(level[-1, ISSUE] + len(c.whole))
        for t, tensor in enumerate(encoded.tensors):
            halo = math.prod(sum(factor for _, factor in rank) or 1 for rank in tensor.ranks)
            units = float(level[t, ROW_UNITS] + level[t, LINE_UNITS])
            found += macs * halo * units / float(max(1, level[-1, UNITS]))
    return found
