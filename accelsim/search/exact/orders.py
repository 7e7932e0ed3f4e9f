"""Classes of loop orders: what the order of a temporal block decides for the traffic further in.

Looking outwards from a tile, each tensor has a **status** in the loops outside it:

NONE : the next loop outside moves its tile, and every step costs the whole tile
STILL : a step that leaves the tile in place; costs nothing
SLIDE + d : a step of the loop over d, which moves a windowed tile by less than its extent; costs the new part
HELD : a step that carries on where the last pass over a window ended; costs nothing
WAIT : a step that costs the whole tile, but may turn into HELD if loops further in move the tile along the same rank

An order gives each tensor a mixture of statuses: with irrelevant loops of product F inside the innermost relevant loop,
a share 1 - 1/F of all steps is STILL. The cost to go is concave in these shares (a minimum over mappings of linear
functions), so mixing the values of pure statuses bounds it from below; docs/exact.md has the proofs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

NONE, STILL, HELD, WAIT, SLIDE = range(5)
EQUAL, FURTHER = 1, 2
"""Conditions on two loops of one rank: the outer one carries on exactly where the inner one ends, or goes further."""

Statuses = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """What the classes depend on.

    Attributes
    ----------
    idle : tuple of frozenset of int
        For each dimension, the tensors that it does not move.
    window : int
        The windowed tensor, -1 if there is none or if `loose`.
    partner : tuple of int
        For each dimension the other one in its rank of the windowed tensor, or -1.
    tensors : int
    loose : bool
        Several windowed tensors, or three dimensions in a rank: windows are bounded roughly.
    """

    idle: tuple[frozenset[int], ...]
    window: int
    partner: tuple[int, ...]
    tensors: int
    loose: bool

    @property
    def dims(self) -> frozenset[int]:
        """All dimensions."""
        return frozenset(range(len(self.idle)))

    def irrelevant(self, tensors: frozenset[int]) -> frozenset[int]:
        """Dimensions that move none of the tensors."""
        return frozenset(d for d, idle in enumerate(self.idle) if tensors <= idle)


@dataclass(frozen=True, slots=True)
class OrderClass:
    """Orders that are bounded together.

    Attributes
    ----------
    allowed : frozenset of int
        Dimensions that may have a loop in the block.
    terms : tuple of (frozenset of int, Statuses)
        Shares: between one over the product of the bounds of these dimensions (of the term before: 1 at first) and that
        of the next term's, the statuses are these; the last dimensions given stand for a product without limit.
    inner, outer, condition : int
        Only where the loops over these two satisfy EQUAL or FURTHER; 0: always.
    """

    allowed: frozenset[int]
    terms: tuple[tuple[frozenset[int], Statuses], ...]
    inner: int = -1
    outer: int = -1
    condition: int = 0


def _chains(structure: Structure, pool: frozenset[int], dims: frozenset[int]) -> Iterator[tuple[frozenset[int], ...]]:
    """Longest sequences of shrinking sets of tensors that stay in place together."""

    def maximal(alive: frozenset[int]) -> list[frozenset[int]]:
        sets = {structure.idle[d] & alive for d in dims} - {frozenset(), alive}
        return sorted((s for s in sets if not any(s < other for other in sets)), key=sorted)

    def extend(chain: tuple[frozenset[int], ...]) -> Iterator[tuple[frozenset[int], ...]]:
        further = maximal(chain[-1])
        if not further:
            yield chain
        for alive in further:
            yield from extend((*chain, alive))

    first = [frozenset(s) for s in {structure.idle[d] & pool for d in dims} if s]
    first = [s for s in first if not any(s < other for other in first)]
    if not first:
        yield ()
    for alive in sorted(first, key=sorted):
        yield from extend((alive,))


class _Builder:
    """Order classes of one incoming set of statuses."""

    def __init__(self, structure: Structure, incoming: Statuses) -> None:
        self.structure, self.incoming = structure, incoming
        self.found: list[OrderClass] = []

    def statuses(self, staying: frozenset[int], still: frozenset[int], window: int | None) -> Statuses:
        """Incoming statuses of those that stay, STILL for others, and one for the windowed tensor."""
        found = [self.incoming[t] if t in staying else NONE for t in range(self.structure.tensors)]
        for t in still:
            found[t] = STILL
        if window is not None:
            found[self.structure.window] = window
        return tuple(found)

    def add(
        self,
        allowed: frozenset[int],
        terms: list[tuple[frozenset[int], Statuses]],
        pair: tuple[int, int, int] = (-1, -1, 0),
    ) -> None:
        """Enter a class; terms whose dimensions add nothing to those before are left out."""
        kept: list[tuple[frozenset[int], Statuses]] = []
        before: frozenset[int] = frozenset()
        for at, (dims, statuses) in enumerate(terms):
            dims = (dims & allowed) | before
            last = at == len(terms) - 1
            if dims == before and not last:
                continue
            if kept and kept[-1][1] == statuses:
                kept.pop()
            kept.append((dims, statuses))
            before = dims
        found = OrderClass(allowed, tuple(kept), *pair)
        if found not in self.found:
            self.found.append(found)

    def block(self, staying: frozenset[int], allowed: frozenset[int], tail: int, slides: tuple[int, ...]) -> None:
        """Classes of a block of some dimensions, in which `staying` have no loop that moves them.

        Parameters
        ----------
        tail : int
            Status of the windowed tensor in the steps that begin a pass over its window.
        slides : tuple of int
            Dimensions whose loops may be the innermost to move it.
        """
        structure, window = self.structure, self.structure.window
        pool = frozenset(range(structure.tensors)) - staying
        moved = window in pool
        for chain in _chains(structure, pool, allowed):
            first = chain[0] if chain else frozenset()
            if moved and window in first:
                self._window_first(staying, allowed, tail, slides, chain)
                continue
            inside = structure.irrelevant(first) & allowed if first else allowed
            steps = [d for d in slides if d in inside] if moved else []
            for d in steps or [-1]:
                self._slide(staying, allowed, tail, chain, d)
        if moved:
            for d in slides:
                if d in allowed and not any(
                    d in structure.irrelevant(chain[0]) for chain in _chains(structure, pool, allowed) if chain
                ):
                    self._slide(staying, allowed, tail, (), d)

    def _slide(
        self, staying: frozenset[int], allowed: frozenset[int], tail: int, chain: tuple[frozenset[int], ...], d: int
    ) -> None:
        """The chain stays in place; the windowed tensor, if it moves, slides along d first."""
        structure, window = self.structure, self.structure.window
        moved = window >= 0 and window not in staying
        every = structure.dims
        masks = [structure.irrelevant(alive) for alive in chain]

        def chained(status: int | None, after: frozenset[int]) -> list[tuple[frozenset[int], Statuses]]:
            return [
                (mask | after, self.statuses(staying, alive, status)) for mask, alive in zip(masks, chain, strict=True)
            ]

        if not moved:
            held = window if window in staying and self.incoming[window] not in (NONE, STILL) else -1
            if held >= 0:  # irrelevant loops go inside the step that the windowed tensor came with
                terms = chained(STILL, frozenset())
                terms += [(allowed, self.statuses(staying, frozenset(), STILL))]
                terms += [(every, self.statuses(staying, frozenset(), self.incoming[window]))]
            else:
                terms = [*chained(None, frozenset()), (every, self.statuses(staying, frozenset(), None))]
            self.add(allowed, terms)
            return
        if d < 0:
            self.add(allowed, [*chained(tail, frozenset()), (every, self.statuses(staying, frozenset(), tail))])
            return
        here = frozenset({d})
        alive = chain[0] if chain else frozenset()
        head = [(here, self.statuses(staying, alive, SLIDE + d))]
        rest = [*chained(tail, here), (every, self.statuses(staying, frozenset(), tail))]
        self.add(allowed, [*head, *rest])
        other = structure.partner[d]
        if tail == NONE and other in allowed:
            for condition, status in ((EQUAL, HELD), (FURTHER, WAIT)):
                between = chained(status, here)
                last = (masks[-1] if masks else frozenset()) | here | {other}
                self.add(
                    allowed,
                    [
                        *head,
                        *between,
                        (last, self.statuses(staying, frozenset(), status)),
                        (every, self.statuses(staying, frozenset(), NONE)),
                    ],
                    (d, other, condition),
                )

    def _window_first(
        self,
        staying: frozenset[int],
        allowed: frozenset[int],
        tail: int,
        slides: tuple[int, ...],
        chain: tuple[frozenset[int], ...],
    ) -> None:
        """The windowed tensor is among those that stay in place first, and slides then."""
        structure = self.structure
        every = structure.dims
        inside = structure.irrelevant(chain[0])
        if len(chain[0]) > 1:  # what slides when is not followed up: the windowed tensor costs nothing
            terms = [(structure.irrelevant(a), self.statuses(staying, a, STILL)) for a in chain]
            self.add(allowed, [*terms, (every, self.statuses(staying, frozenset(), STILL))])
            return
        still = (inside, self.statuses(staying, frozenset(), STILL))
        for d in [d for d in slides if d in allowed] or [-1]:
            if d < 0:
                self.add(allowed, [still, (every, self.statuses(staying, frozenset(), tail))])
                continue
            slide = (inside | {d}, self.statuses(staying, frozenset(), SLIDE + d))
            self.add(allowed, [still, slide, (every, self.statuses(staying, frozenset(), tail))])
            other = structure.partner[d]
            if tail == NONE and other in allowed:
                for condition, status in ((EQUAL, HELD), (FURTHER, WAIT)):
                    between = (inside | {d, other}, self.statuses(staying, frozenset(), status))
                    end = (every, self.statuses(staying, frozenset(), NONE))
                    self.add(allowed, [still, slide, between, end], (d, other, condition))


def _subsets(items: frozenset[int]) -> Iterator[frozenset[int]]:
    for size in range(len(items) + 1):
        for chosen in itertools.combinations(sorted(items), size):
            yield frozenset(chosen)


@lru_cache(maxsize=4096)
def order_classes(structure: Structure, incoming: Statuses) -> tuple[OrderClass, ...]:
    """Classes of the orders of a temporal block, which together bound every block from below.

    Where some tensors come with a status other than NONE, blocks that move all of these are those of NONE alone and not
    listed again.
    """
    builder = _Builder(structure, incoming)
    window, windows = structure.window, tuple(d for d, other in enumerate(structure.partner) if other >= 0)
    special = frozenset(t for t, status in enumerate(incoming) if status != NONE)
    if not special:
        builder.block(frozenset(), structure.dims, NONE, windows)
    for staying in _subsets(special):
        if staying:
            builder.block(staying, structure.irrelevant(staying), NONE, windows)
    if window >= 0 and incoming[window] not in (NONE, STILL):
        runs = {
            frozenset({d, structure.partner[d]})
            for d in windows
            if incoming[window] < SLIDE or d == incoming[window] - SLIDE
        }
        for staying in _subsets(special - {window}):
            may = structure.irrelevant(staying) if staying else structure.dims
            for run in sorted(runs, key=sorted):
                idle = structure.irrelevant(frozenset({window}))
                builder.block(staying, (run | idle) & may, HELD, tuple(sorted(run)))
                if incoming[window] >= SLIDE:
                    d = incoming[window] - SLIDE
                    builder.block(staying, (frozenset({d}) | idle) & may, SLIDE + d, (d,))
    return tuple(builder.found)


@lru_cache(maxsize=256)
def all_statuses(structure: Structure) -> tuple[Statuses, ...]:
    """Statuses that blocks can lead to; NONE for all tensors first, then STILL for all, which bounds all others."""
    found: list[Statuses] = [(NONE,) * structure.tensors, (STILL,) * structure.tensors]
    queue = list(found)
    while queue:
        for order_class in order_classes(structure, queue.pop()):
            for _, statuses in order_class.terms:
                if statuses not in found:
                    found.append(statuses)
                    queue.append(statuses)
    return tuple(found)


def dominating(structure: Structure, statuses: Statuses) -> Statuses:
    """A known set of statuses that costs no more than the given one."""
    below = {NONE: {NONE, WAIT, HELD, STILL}, WAIT: {WAIT, HELD}, HELD: {HELD}, STILL: {STILL, HELD}}

    def may(known: int, asked: int) -> bool:
        if asked >= SLIDE:
            return known in (asked, HELD)
        return known in below[asked] or (asked == NONE and known >= SLIDE)

    best = [s for s in all_statuses(structure) if all(map(may, s, statuses))]
    every = (STILL,) * structure.tensors
    return min(best, key=lambda s: sum(map(int.__ne__, s, statuses)), default=every)
