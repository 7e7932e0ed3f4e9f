"""Orders of a temporal block that can be best; all others cost at least as much as one of these (docs/exact.md)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from accelsim.search.exact.orders import Structure

Order = tuple[tuple[int, ...], int, int]
"""Dimensions outermost first; then a pair of one rank that only pays if the outer carries on from the inner, or -1s."""


@dataclass(frozen=True, slots=True)
class Places:
    """Dimensions with a fixed place at the ends of a temporal block, outermost first."""

    outer: tuple[int, ...] = ()
    inner: tuple[int, ...] = ()


@lru_cache(maxsize=65536)
def candidate_orders(structure: Structure, loops: frozenset[int], places: Places, every: bool) -> tuple[Order, ...]:
    """Orders of the loops of a block.

    Parameters
    ----------
    structure : Structure
    loops : frozenset of int
        Dimensions that have a loop.
    places : Places
    every : bool
        All orders that the places allow, not only those that can be best.
    """
    first = tuple(d for d in places.outer if d in loops)
    last = tuple(d for d in places.inner if d in loops)
    free = loops - {*first, *last}
    if every or structure.loose:
        return tuple(((*first, *middle, *last), -1, -1) for middle in itertools.permutations(sorted(free)))
    grow = _Grow(structure)
    alive = frozenset(range(structure.tensors))
    slid = -1  # along which a fixed loop slides the window
    for d in reversed(last):
        if structure.window not in structure.idle[d]:
            slid = d if structure.window in alive else -1
        alive &= structure.idle[d]
    ways = [*grow.orders((), free, alive, (-1, -1)), *(grow.carried_on((), slid, free, alive) if slid >= 0 else ())]
    found = dict.fromkeys(((*first, *reversed(inner_first), *last), *pair) for inner_first, pair in ways)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Grow:
    """Builds orders from the innermost loop outwards; `alive` are tensors that no loop so far moves."""

    structure: Structure

    def orders(
        self, done: tuple[int, ...], rest: frozenset[int], alive: frozenset[int], pair: tuple[int, int]
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, int]]]:
        idle = self.structure.idle
        gain = tuple(d for d in sorted(rest) if alive and alive <= idle[d])
        if gain:  # loops that move none of these lengthen the stay of all of them, at no cost to the others
            done, rest = (*done, *gain), rest - {*gain}
        if not rest or not alive:
            yield (*done, *sorted(rest)), pair
            return
        for d in self._next(rest, alive):
            after = alive & idle[d]
            yield from self.orders((*done, d), rest - {d}, after, pair)
            if self.structure.window in alive:
                yield from self.carried_on((*done, d), d, rest - {d}, after)

    def carried_on(
        self, done: tuple[int, ...], d: int, rest: frozenset[int], alive: frozenset[int]
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, int]]]:
        """After a loop over d along which the window slides: orders in which its partner in the rank comes next."""
        idle, other = self.structure.idle, self.structure.partner[d]
        if other not in rest:
            return
        then, both = alive & idle[other], alive | {self.structure.window}
        yield from self.orders((*done, other), rest - {other}, then, (d, other))
        between = tuple(e for e in sorted(rest - {other}) if alive and both <= idle[e])
        if between:
            yield from self.orders((*done, *between, other), rest - {other, *between}, then, (d, other))

    def _slides(self, d: int) -> bool:
        return self.structure.partner[d] >= 0

    def _next(self, rest: frozenset[int], alive: frozenset[int]) -> list[int]:
        """One loop for each way to go on: who stays in place, and along what the windowed tensor slides."""
        idle, window = self.structure.idle, self.structure.window
        ways: dict[tuple[frozenset[int], int], int] = {}
        for d in sorted(rest):
            slides = d if window in alive and self._slides(d) else -1
            ways.setdefault((alive & idle[d], slides), d)
        return [d for (stay, slides), d in ways.items() if slides >= 0 or not any(stay < other for other, _ in ways)]
