"""The largest energy, cycles and outer words that a valid mapping can have: one found, and a bound on all.

The bound: what can enter a tile at most if each visit to it brings all of its words anew, less what the innermost loops
of some temporal blocks save for sure, whatever else a mapping does. No network shares a word. The largest cost for any
choice of these loops and of what is kept bounds all mappings. docs/census.md, section 4, has the proof. Axis letters: L
= levels (outermost first), T = tensors, G = cases of innermost loops.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from accelsim.mapping import Mapping
from accelsim.mapspace.factors import divisors
from accelsim.mapspace.space import MapSpace, Slot
from accelsim.mapspace.tiles import along
from accelsim.model.detail import make_detail
from accelsim.model.encode import PE, ROWS, SKEW, Batch, Floats, Ints, decode_mapping, encode_mappings
from accelsim.model.kernel import BY_READ, BY_TRANSFER, BY_UPDATE, BY_WRITE
from accelsim.population.draw_kernel import CYCLES, ENERGY, WORDS, evaluate_columns
from accelsim.population.steps import Keeping, Nest, Step


class Limits(NamedTuple):
    """What no valid mapping exceeds: energy [pJ], cycles, storage words at the outermost level."""

    energy: float
    cycles: float
    outer_words: float


def upper_limits(nest: Nest) -> Limits:
    """Bound energy, cycles and outer words of all valid mappings from above; see the module's text."""
    space = nest.space
    encoded, c = space.encoded, space.encoded.constants
    macs, machine = float(encoded.einsum.macs), encoded.architecture
    most = _most_words(nest)
    energy: Floats = np.full(len(most), macs * float(c.mac[0]))
    words = np.zeros((len(most), len(c.fanout), 2))
    for t in range(len(encoded.tensors)):
        chains = [_chain_cost(nest, t, chain, most[:, :, t]) for chain in _chains(space, t)]
        energy += np.max([pj for pj, _ in chains], axis=0)
        words += np.max([moved for _, moved in chains], axis=0)
    ports = words.max(axis=0)
    cycles = macs * float(c.mac_cycles[0])
    if c.array[PE] >= 0:  # each step may change what the PEs hold
        held = most[:, c.array[PE] : c.nodes[c.array[PE], 1]].max(axis=(0, 1))[c.stationary]
        changes = max(macs * len(held), 1.0)
        cycles += float(c.array[SKEW]) * changes + float(c.array[ROWS]) * float(held.sum())
    for lv in range(len(c.fanout)):
        busiest = (float(words[:, lv].sum(axis=1).max()), *ports[lv].tolist())
        for words_at, port in zip(busiest, range(3), strict=True):
            if c.bandwidth[lv, port, 0] > 0:
                cycles = max(cycles, math.ceil(words_at * c.bandwidth[lv, port, 1] / c.bandwidth[lv, port, 0]))
    instances = [machine.instances(level) for level in range(len(c.fanout))]
    outer = float(words[:, 0].sum(axis=1).max()) / encoded.units_per_word[0]
    return Limits(float(energy.max()) + float(c.leak @ np.array(instances)) * cycles, cycles, outer)


def _most_words(nest: Nest) -> Floats:
    """Words that can enter all tiles of a level, by what the innermost loops of some blocks save: float64[G, L, T].

    For each choice of the innermost loop of the outermost temporal block that has any (`first`); the outermost block
    further in with a loop that moves a tensor which the first does not (`other`), or none; and the innermost loop of
    all (`last`).
    """
    encoded, c = nest.space.encoded, nest.space.encoded.constants
    levels = len(c.fanout)
    dims = [d for d, bound in enumerate(c.bounds.tolist()) if bound > 1]
    least = {d: np.where(c.relevant[:, d], 1, divisors(int(c.bounds[d]))[1]) for d in dims}
    most, below, once = _visits(nest)
    cases = []
    if encoded.einsum.macs <= encoded.architecture.macs or not dims:  # perhaps no loop in time at all
        cases.append(most)
    for first in dims:
        steps = [int(c.bounds[first]) / _most_spread(nest, first, level) for level in range(levels)]
        saved = np.array([np.maximum(least[first], np.where(c.relevant[:, first], 1.0, many)) for many in steps])
        cases.append(np.minimum(np.maximum(below[first] / saved, once), most / least[first]))
        moving = [d for d in dims if (c.relevant[:, d] & ~c.relevant[:, first]).any()]
        for block, other, last in itertools.product(range(1, levels), moving, dims):
            also = least[other] * (1 if last in (first, other) else least[last])
            case = most / least[last]
            around = slice(0, block + 1)
            case[around] = np.minimum(case[around], np.maximum(below[first] / (saved * also), once)[around])
            cases.append(case)
    return np.array(cases)


def _most_spread(nest: Nest, d: int, level: int) -> int:
    """Product of the loops over a dimension on the networks outside a level, at most."""
    room = 1
    for step in nest.steps:
        if isinstance(step, Step) and step.slot.axis and step.slot.level < level:
            room *= max((bound for *_, bound in step.moves[d]), default=1)
    return max(int(size) for size in nest.sizes[d] if size <= room)


def _visits(nest: Nest) -> tuple[Floats, Floats, Floats]:
    """Words that can enter all tiles of a level if each visit brings them anew.

    Returns
    -------
    most : float64[L, T]
    below : float64[D, L, T]
        The same of tiles around which a loop over a dimension stands.
    once : float64[L, T]
        Of tiles around which no loop in time stands.
    """
    encoded, dims = nest.space.encoded, range(len(nest.sizes))
    visits = np.full(nest.shape, float(encoded.einsum.macs))
    for d, sizes in enumerate(nest.sizes):
        visits = visits / along(sizes, d, len(nest.sizes))
    once = np.zeros((len(encoded.architecture.levels), len(encoded.tensors)))
    most, below = np.zeros_like(once), np.zeros((len(dims), *once.shape))
    for step in nest.steps:
        if isinstance(step, Keeping):
            spread = visits <= encoded.architecture.instances(step.level) * (1 + 1e-12)
            for t in range(len(encoded.tensors)):
                words = nest.words[t].reshape(nest.shape) * visits * step.fits[step.keeps[:, t]].any(axis=0)
                most[step.level, t] = words.max(initial=0.0)
                once[step.level, t] = (words * spread).max(initial=0.0)
                for d in dims:
                    below[d, step.level, t] = np.delete(words, -1, axis=d).max(initial=0.0)
    return most, below, once


def _chains(space: MapSpace, t: int) -> Iterator[list[int]]:
    """Levels that may keep a tensor together, innermost first."""
    must = [level for level in range(len(space.keep)) if space.keep[level, t]]
    may = [level for level, tensor in space.free_keeps if tensor == t]
    for many in range(len(may) + 1):
        for chosen in itertools.combinations(may, many):
            yield sorted([*must, *chosen], reverse=True)


def _chain_cost(nest: Nest, t: int, chain: list[int], most: Floats) -> tuple[Floats, Floats]:
    """Energy [pJ] of a tensor that some levels keep, and its storage words read and written at each.

    Parameters
    ----------
    most : float64[G, L]
        Words that enter the tiles of each level at most.

    Returns
    -------
    float64[G], float64[G, L, 2]
    """
    encoded = nest.space.encoded
    c, machine = encoded.constants, encoded.architecture
    output = t == c.output[0]
    words: Floats = np.full(len(most), float(encoded.einsum.macs))
    child = len(c.fanout)
    energy, moved = np.zeros(len(most)), np.zeros((len(most), len(c.fanout), 2))

    def book(level: int, many: Floats, action: int) -> Floats:
        """Accesses are rounded up for each instance, to no more than one a word."""
        stored = many * float(c.word_parts[level, t].max())
        moved[:, level, 0 if action == BY_READ else 1] += stored
        block = float(c.block[level])
        accesses = np.minimum(stored, stored / block + machine.instances(level) * (block - 1) / block)
        return np.asarray(accesses * float(c.energy[level, t, action]))

    for level in chain:
        crossing = 2 * words if output else words
        energy += crossing * float(c.energy[level:child, t, BY_TRANSFER].sum())
        if output:  # what comes for the first time is not read
            first = float(c.bounds[c.relevant[t]].prod()) if not c.windowed[t] else 0.0  # a stride skips words of a box
            energy += book(level, np.maximum(words - first, 0.0), BY_READ) + book(level, words, BY_UPDATE)
        else:
            energy += book(level, words, BY_READ)
        if level > 0:
            words, child = most[:, level], level
            energy += book(level, words, BY_WRITE)
            if output and c.drain[level]:
                energy += book(level, words, BY_READ)
    return energy, moved


def largest(
    space: MapSpace, starts: Sequence[Mapping], column: int, *, most_words: float = math.inf
) -> tuple[Mapping, float]:
    """The largest value that `climb` comes to from any of some valid mappings."""
    found = [climb(space, start, column, most_words=most_words) for start in starts]
    return max(found, key=lambda each: each[1])


def climb(space: MapSpace, start: Mapping, column: int, *, most_words: float = math.inf) -> tuple[Mapping, float]:
    """Go from a valid mapping to the neighbour with the largest value until none is larger.

    Neighbours move a prime factor of a loop elsewhere, put a loop elsewhere in its block, or keep what was bypassed or
    the other way round.

    Parameters
    ----------
    space : MapSpace
    start : Mapping
    column : {ENERGY, CYCLES, WORDS}
    most_words : float
        Stay among mappings with at most so many outer words.

    Returns
    -------
    Mapping
    float
        Its value.
    """
    encoded = space.encoded
    here = encode_mappings(encoded, [start])
    value = float(_columns(space, here)[column, 0])
    while True:
        found = _neighbours(space, here)
        values = _columns(space, found)
        good = np.isfinite(values[ENERGY]) & (values[WORDS] <= most_words) & (values[CYCLES] <= space.most_cycles)
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


def _neighbours(space: MapSpace, here: Batch) -> Batch:
    rows: list[tuple[Ints, ...]] = []

    def add(change: Callable[[tuple[Ints, ...]], None]) -> None:
        row = tuple(array[0].copy() for array in here)
        change(row)
        rows.append(row)

    _move_factors(space, here, add)
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


def _move_factors(space: MapSpace, here: Batch, add: Callable[[Callable[[tuple[Ints, ...]], None]], None]) -> None:
    """Neighbours that move a prime factor from one loop to another of its dimension; a new loop comes first or last."""
    axes = {"": 0, "x": 2, "y": 3}
    for d, dim in enumerate(space.encoded.dims):
        allowed = {slot: space.allowed(slot, dim) for slot in space.slots}
        for source, target in itertools.permutations(space.slots, 2):
            bound = int(here[axes[source.axis]][0, source.level, d])
            other = int(here[axes[target.axis]][0, target.level, d])
            for prime in _primes(bound):
                if bound // prime not in allowed[source] or other * prime not in allowed[target]:
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


def _primes(number: int) -> list[int]:
    return [p for p in divisors(number)[1:] if all(p % q for q in range(2, math.isqrt(p) + 1))]
