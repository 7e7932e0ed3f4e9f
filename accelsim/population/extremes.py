"""The largest energy, cycles and outer words that a valid mapping can have: found, and proved.

What is charged for words adds up, so `accelsim.population.worst` bounds it, and comes to mappings that take as much.
Cycles are those of the slowest part: each limited port, and the compute units. Axis letters: L = levels (outermost
first), T = tensors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from accelsim.inputs.mapping import Mapping
from accelsim.mapspace.factors import divisors
from accelsim.mapspace.space import MapSpace, Slot
from accelsim.model.detail import make_detail
from accelsim.model.encode import Batch, Floats, Ints, decode_mapping, encode_mappings
from accelsim.model.evaluate import evaluate_encoded
from accelsim.population.charges import Row, cycle_rows, energy_rows, word_rows
from accelsim.population.draw_kernel import CYCLES, ENERGY, WORDS, evaluate_columns
from accelsim.population.steps import Nest
from accelsim.population.worst import Worst, WorstSearch

MOST_LABELS, FEW_LABELS = 20_000, 300
"""Labels that a search for the largest value holds at a time: where it may take seconds, and a part of one."""
STEP, STEPS = 0.9, 100
"""A search that knows no value lowers its floor so, and so often, until some mapping lies above."""

Allowed = dict[tuple[Slot, str], frozenset[int]]
"""Bounds that the loop of a slot over a dimension may have."""


class Extreme(NamedTuple):
    """The largest value of a column that was found, a mapping that has it if it was found here, and a bound on all."""

    value: float
    mapping: Mapping | None
    bound: float


def largest_value(
    nest: Nest, column: int, known: float = 0.0, *, most_labels: int = MOST_LABELS, deadline: float | None = None
) -> Extreme:
    """Look for the largest value of a column, and bound it.

    Parameters
    ----------
    nest : Nest
    column : {ENERGY, CYCLES, WORDS}
        Energy in pJ; words in storage words at the outermost level.
    known : float
        A value that some valid mapping has; 0 if none is known.
    most_labels : int
        Labels that are held at a time; 0: no search, only the bound that it begins with.
    deadline : float, optional
        When to end with the bound reached, by `time.monotonic`.

    Returns
    -------
    Extreme
        `value` is `known` if no mapping with more was found; `bound` is the same where it is proved.
    """
    rows = {ENERGY: energy_rows, CYCLES: cycle_rows, WORDS: word_rows}[column](nest)
    found, bound = Extreme(known, None, known), known
    for row in rows:
        search = WorstSearch(nest, row.charges, deadline)
        top = row.value(search.bound)
        if top > found.value and most_labels:
            found, top = _search(search, row, column, found, most_labels)
        bound = max(bound, top)
    return Extreme(found.value, found.mapping, max(found.value, bound))


def _search(search: WorstSearch, row: Row, column: int, found: Extreme, most_labels: int) -> tuple[Extreme, float]:
    """The largest value found, and the bound of a row."""
    top, known = search.bound, found.value
    if known:
        tried = search.above(row.total(known), most_labels)
    else:
        for _ in range(STEPS):
            floor = STEP * top
            tried = search.above(floor, most_labels)
            top = min(top, tried.bound)
            if tried.bound > floor or search.late:
                break
    top, found = min(top, tried.bound), _better(search, row, column, tried, found)
    while found.value > known and not search.late:
        known = found.value
        tried = search.above(row.total(known), most_labels)
        top, found = min(top, tried.bound), _better(search, row, column, tried, found)
    return found, row.value(top)


def _better(search: WorstSearch, row: Row, column: int, tried: Worst, found: Extreme) -> Extreme:
    """The largest value of the mappings that a search came to, if it is larger than one known."""
    space = search.nest.space
    for at, total in enumerate(tried.sums.tolist()):
        if row.value(total) <= found.value:
            break
        mapping = decode_mapping(space.encoded, tried.mappings, at)
        result = evaluate_encoded(space.encoded, mapping)
        value = {ENERGY: result.energy_pj, CYCLES: result.cycles, WORDS: result.outer_words}[column]
        if result.valid and value > found.value and not space.constraints.broken_by(mapping):
            found = Extreme(float(value), mapping, found.bound)
    return found


def climb_from(space: MapSpace, starts: Sequence[Mapping], column: int) -> tuple[Mapping, float]:
    """The largest value that `climb` comes to from any of some valid mappings."""
    found = [climb(space, start, column) for start in starts]
    return max(found, key=lambda each: each[1])


def climb(space: MapSpace, start: Mapping, column: int) -> tuple[Mapping, float]:
    """Go from a valid mapping to the neighbour with the largest value until none is larger.

    Neighbours move a prime factor of a loop elsewhere, put a loop elsewhere in its block, or keep what was bypassed or
    the other way round.

    Parameters
    ----------
    space : MapSpace
    start : Mapping
    column : {ENERGY, CYCLES, WORDS}

    Returns
    -------
    Mapping
    float
        Its value.
    """
    encoded = space.encoded
    allowed = {(slot, dim): space.allowed(slot, dim) for slot in space.slots for dim in encoded.dims}
    here = encode_mappings(encoded, [start])
    value = float(_columns(space, here)[column, 0])
    while True:
        found = _neighbours(space, allowed, here)
        values = _columns(space, found)
        good = np.isfinite(values[ENERGY]) & (values[CYCLES] <= space.most[CYCLES])
        ranked = np.where(good, values[column], -math.inf)
        for at in np.argsort(-ranked, kind="stable"):
            if not ranked[at] > value * (1 + 1e-12):
                return decode_mapping(encoded, here, 0), value
            if not space.constraints.broken_by(decode_mapping(encoded, found, int(at))):
                here, value = encode_mappings(encoded, [decode_mapping(encoded, found, int(at))]), float(ranked[at])
                break
        else:
            return decode_mapping(encoded, here, 0), value


def _columns(space: MapSpace, batch: Batch) -> Floats:
    values = np.zeros((4, len(batch.temporal)))
    evaluate_columns(space.encoded.constants, batch, make_detail(space.encoded), values)
    return values


def _neighbours(space: MapSpace, allowed: Allowed, here: Batch) -> Batch:
    rows: list[tuple[Ints, ...]] = []

    def add(change: Callable[[tuple[Ints, ...]], None]) -> None:
        row = tuple(array[0].copy() for array in here)
        change(row)
        rows.append(row)

    _move_factors(space, allowed, here, add)
    temporal, order = here.temporal[0], here.order[0]
    for lv in range(len(temporal)):
        loops = int((temporal[lv] > 1).sum())
        for i, j in itertools.permutations(range(loops), 2):
            moved = order[lv].tolist()
            moved.insert(j, moved.pop(i))

            def reorder(row: tuple[Ints, ...], lv: int = lv, moved: list[int] = moved) -> None:
                row[1][lv] = moved

            add(reorder)
    for level, t in space.free_keeps:

        def toggle(row: tuple[Ints, ...], level: int = level, t: int = t) -> None:
            row[4][level, t] ^= True

        add(toggle)
    if not rows:
        return Batch(here.temporal[:0], here.order[:0], here.x[:0], here.y[:0], here.keep[:0])
    temporal, order, x, y, keep = (np.stack([row[k] for row in rows]) for k in range(5))
    return Batch(temporal, order, x, y, keep.astype(np.bool_))


def _move_factors(
    space: MapSpace, allowed: Allowed, here: Batch, add: Callable[[Callable[[tuple[Ints, ...]], None]], None]
) -> None:
    """Neighbours that move a prime factor from one loop to another of its dimension; a new loop comes first or last."""
    axes = {"": 0, "x": 2, "y": 3}
    for d, dim in enumerate(space.encoded.dims):
        for source, target in itertools.permutations(space.slots, 2):
            bound = int(here[axes[source.axis]][0, source.level, d])
            if bound == 1:
                continue
            other = int(here[axes[target.axis]][0, target.level, d])
            for prime in _primes(bound):
                if bound // prime not in allowed[source, dim] or other * prime not in allowed[target, dim]:
                    continue
                for first in (False, True) if other == 1 and not target.axis else (False,):

                    def move(
                        row: tuple[Ints, ...],
                        d: int = d,
                        source: Slot = source,
                        target: Slot = target,
                        prime: int = prime,
                        first: bool = first,
                    ) -> None:
                        row[axes[source.axis]][source.level, d] //= prime
                        row[axes[target.axis]][target.level, d] *= prime
                        for lv in {source.level, target.level}:
                            order = row[1][lv].tolist()
                            if first and lv == target.level:
                                order.insert(0, order.pop(order.index(d)))
                            row[1][lv] = sorted(order, key=lambda e: bool(row[0][lv, e] == 1))

                    add(move)


@cache
def _primes(number: int) -> list[int]:
    return [p for p in divisors(number)[1:] if all(p % q for q in range(2, math.isqrt(p) + 1))]
