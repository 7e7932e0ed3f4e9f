"""Classes of loop orders: what the order of a temporal block decides for the traffic further in.

Looking outwards from a tile, each tensor has a **status** in the loops outside it:

NONE : the next loop outside moves its tile, and every step costs the whole tile
STATIONARY : a step that leaves the tile in place; costs nothing
HALO_REUSE + d : a step that moves a windowed tile as the loop over d does, by less than its extent; costs the new part
HALO_REUSE + D + d : of D dimensions, where the loop over d covers its whole bound: its steps, and those that begin a
pass of it and move the tile anywhere, in their proportion
UNDECIDED : a step that costs the whole tile, but may turn into STATIONARY or HALO_REUSE if loops further in move along
the same rank

An order gives each tensor a mixture of statuses: with irrelevant loops of product F inside the innermost relevant loop,
a share 1 - 1/F of all steps is STATIONARY. The cost to go is concave in these shares (a minimum over mappings of linear
functions), so mixing the values of pure statuses bounds it from below; docs/papers/exact-mapper.md has the proofs.

What stands at the end are the orders of a block that can be best: all others cost at least as much as one of these.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

NONE, STATIONARY, UNDECIDED, HALO_REUSE = range(4)
FETCH, STOP, CARRY_ON, FURTHER = range(4)
"""What the step of a loop does after a pass over the window inside it: it moves the windowed tile anywhere, not at all,
by a step of the pass, or further than that; these lead to NONE, STATIONARY, HALO_REUSE and UNDECIDED."""
FIXED, BETWEEN, TAIL = range(3)
"""On which loop the status of the windowed tensor in a term depends: on none; on the loop over the other dimension of
the rank, if it has one; on the loop that the incoming status stands for."""

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
    whole : frozenset of int
        Dimensions of a window whose loops are never split, as their bounds are prime, and step less than the others of
        their ranks: a tile of several steps of such another one has gaps.
    paced : frozenset of int
        Dimensions of a window whose partner's loop is never split and steps no further: the tile size tells then how
        far an UNDECIDED step is from its place, if no network outside spreads them.
    """

    idle: tuple[frozenset[int], ...]
    window: int
    partner: tuple[int, ...]
    tensors: int
    loose: bool
    whole: frozenset[int] = frozenset()
    paced: frozenset[int] = frozenset()

    @property
    def dims(self) -> frozenset[int]:
        """All dimensions."""
        return frozenset(range(len(self.idle)))

    def irrelevant(self, tensors: frozenset[int]) -> frozenset[int]:
        """Dimensions that move none of the tensors."""
        return frozenset(d for d, idle in enumerate(self.idle) if tensors <= idle)


@dataclass(frozen=True, slots=True)
class Term:
    """A share of all steps, and the statuses there.

    Attributes
    ----------
    dims : frozenset of int
        The share lies between one over the product of the bounds of the term before (1 at first) and that of these.
    statuses : tuple of Statuses
        One if `phase` is FIXED, else one for each of FETCH, STOP, CARRY_ON, FURTHER.
    phase : int
    """

    dims: frozenset[int]
    statuses: tuple[Statuses, ...]
    phase: int = FIXED


@dataclass(frozen=True, slots=True)
class OrderClass:
    """Orders that are bounded together.

    Attributes
    ----------
    allowed : frozenset of int
        Dimensions that may have a loop in the block.
    terms : tuple of Term
        Shares, see there; the last one's dimensions stand for a product without limit.
    inner, come : int
        The dimension of the innermost loop that moves the windowed tensor, if statuses depend on what follows it; the
        dimension whose step the incoming status is, of D dimensions D more if a pass over its partner went back before;
        -1: none.
    has : int
        A dimension that must have a loop in the block; -1: none.
    """

    allowed: frozenset[int]
    terms: tuple[Term, ...]
    inner: int = -1
    come: int = -1
    has: int = -1

    @property
    def met(self) -> Iterator[Statuses]:
        """All statuses that the class leads to."""
        return itertools.chain.from_iterable(term.statuses for term in self.terms)


Chain = tuple[frozenset[int], ...]
"""Shrinking sets of tensors that stay in place together."""


def _chains(structure: Structure, pool: frozenset[int], dims: frozenset[int]) -> Iterator[Chain]:
    """Longest chains."""
    first = [frozenset(s) for s in {structure.idle[d] & pool for d in dims} if s]
    first = [s for s in first if not any(s < other for other in first)]
    if not first:
        yield ()
    for alive in sorted(first, key=sorted):
        yield from _chains_from(structure, alive, dims)


def _chains_from(structure: Structure, alive: frozenset[int], dims: frozenset[int]) -> Iterator[Chain]:
    """Longest chains that begin with some tensors."""
    sets = {structure.idle[d] & alive for d in dims} - {frozenset(), alive}
    further = sorted((s for s in sets if not any(s < other for other in sets)), key=sorted)
    if not further:
        yield (alive,)
    for fewer in further:
        for chain in _chains_from(structure, fewer, dims):
            yield (alive, *chain)


class _OrderBuilder:
    """Order classes of one incoming set of statuses."""

    def __init__(self, structure: Structure, incoming: Statuses) -> None:
        self.structure, self.incoming = structure, incoming
        self.found: list[OrderClass] = []

    def statuses(self, staying: frozenset[int], still: frozenset[int], window: int | None) -> Statuses:
        """Incoming statuses of those that stay, STATIONARY for others, and one for the windowed tensor."""
        found = [self.incoming[t] if t in staying else NONE for t in range(self.structure.tensors)]
        for t in still:
            found[t] = STATIONARY
        if window is not None:
            found[self.structure.window] = window
        return tuple(found)

    def after(self, staying: frozenset[int], still: frozenset[int], d: int) -> tuple[Statuses, ...]:
        """Statuses for each way to go on after a pass of the loop over d."""
        return tuple(self.statuses(staying, still, window) for window in (NONE, STATIONARY, HALO_REUSE + d, UNDECIDED))

    def add(self, allowed: frozenset[int], terms: list[Term], inner: int = -1, come: int = -1, has: int = -1) -> None:
        """Enter a class; terms whose dimensions add nothing to those before are left out."""
        kept = self._told_apart(terms, allowed)
        found = OrderClass(allowed, tuple(kept), inner, come, has)
        if found not in self.found:
            self.found.append(found)

    @staticmethod
    def _told_apart(terms: Sequence[Term], allowed: frozenset[int]) -> list[Term]:
        kept: list[Term] = []
        before: frozenset[int] = frozenset()
        for at, term in enumerate(terms):
            dims = (term.dims & allowed) | before
            if dims == before and at < len(terms) - 1:
                continue
            if kept and (kept[-1].statuses, kept[-1].phase) == (term.statuses, term.phase):
                kept.pop()
            kept.append(Term(dims, term.statuses, term.phase))
            before = dims
        return kept

    def block(
        self, staying: frozenset[int], allowed: frozenset[int], tail: int, slides: tuple[int, ...], come: int = -1
    ) -> None:
        """Classes of a block of some dimensions, in which `staying` have no loop that moves them.

        Parameters
        ----------
        tail : int
            Status of the windowed tensor in the steps that begin a pass over its window.
        slides : tuple of int
            Dimensions whose loops may be the innermost to move it.
        come : int
            If not -1: these steps are steps along this dimension, and `tail` depends on the loops.
        """
        structure, window = self.structure, self.structure.window
        pool = frozenset(range(structure.tensors)) - staying
        moved = window in pool
        chains = list(_chains(structure, pool, allowed))
        for chain in chains:
            first = chain[0] if chain else frozenset()
            inside = structure.irrelevant(first) & allowed if first else allowed
            if moved and window in first:
                if len(first) > 1:  # what slides when is not followed up: the windowed tensor costs nothing
                    terms = [Term(structure.irrelevant(a), (self.statuses(staying, a, STATIONARY),)) for a in chain]
                    terms.append(Term(structure.dims, (self.statuses(staying, frozenset(), STATIONARY),)))
                    self.add(allowed, terms)
                    continue
                stay = [Term(structure.irrelevant(first), (self.statuses(staying, frozenset(), STATIONARY),))]
                self._slide_all(staying, allowed, tail, stay, (), [d for d in slides if d in allowed], come)
                continue
            steps = [d for d in slides if d in inside] if moved else []
            self._slide_all(staying, allowed, tail, [], chain, steps, come)
        for d in slides if moved else ():
            if d in allowed and not any(chain and d in structure.irrelevant(chain[0]) for chain in chains):
                alive = structure.idle[d] & pool  # fewer than stay in place without sliding
                for chain in _chains_from(structure, alive, allowed) if alive else [()]:
                    self._slide(staying, allowed, tail, [], chain, d, come)

    def _slide_all(
        self,
        staying: frozenset[int],
        allowed: frozenset[int],
        tail: int,
        stay: list[Term],
        chain: Chain,
        steps: list[int],
        come: int,
    ) -> None:
        """As `_slide`, along each of some dimensions, or along none."""
        for d in steps:
            self._slide(staying, allowed, tail, stay, chain, d, come)
        whole = self.structure.whole if self._passes_begin_anew(tail, come) else frozenset[int]()
        if whole.issuperset(steps):  # the classes of these have a loop along it
            self._slide(staying, allowed.difference(steps), tail, stay, chain, -1, come)

    @staticmethod
    def _passes_begin_anew(tail: int, come: int) -> bool:
        return come < 0 and tail == NONE

    def _slide(
        self,
        staying: frozenset[int],
        allowed: frozenset[int],
        tail: int,
        stay: list[Term],
        chain: Chain,
        d: int,
        come: int,
    ) -> None:
        """The chain stays in place; the windowed tensor, if it moves, stays in place first and slides along d then."""
        structure, window = self.structure, self.structure.window
        moved = window >= 0 and window not in staying
        every, nobody = structure.dims, frozenset[int]()
        masks = [structure.irrelevant(alive) for alive in chain]
        if not moved:
            held = window in staying and self.incoming[window] not in (NONE, STATIONARY)
            own = STATIONARY if held else None  # irrelevant loops go inside the step that the windowed tensor came with
            terms = [Term(m, (self.statuses(staying, alive, own),)) for m, alive in zip(masks, chain, strict=True)]
            terms += [Term(allowed, (self.statuses(staying, nobody, STATIONARY),))] if held else []
            last = self.incoming[window] if held else None
            self.add(allowed, [*terms, Term(every, (self.statuses(staying, nobody, last),))])
            return
        if d < 0:
            terms = [Term(m, (self.statuses(staying, alive, tail),)) for m, alive in zip(masks, chain, strict=True)]
            self.add(allowed, [*stay, *terms, Term(every, (self.statuses(staying, nobody, tail),))])
            return
        here = frozenset({d}).union(*(term.dims for term in stay))
        head = [*stay, Term(here, (self.statuses(staying, chain[0] if chain else nobody, HALO_REUSE + d),))]
        if self._passes_begin_anew(tail, come) and d in structure.whole:
            whole = HALO_REUSE + len(structure.idle) + d
            before = here - {d}
            terms = [
                Term(m | before, (self.statuses(staying, alive, whole),)) for m, alive in zip(masks, chain, strict=True)
            ]
            self.add(allowed, [*stay, *terms, Term(every, (self.statuses(staying, nobody, whole),))], has=d)
        elif come < 0:
            terms = [
                Term(m | here, (self.statuses(staying, alive, tail),)) for m, alive in zip(masks, chain, strict=True)
            ]
            self.add(allowed, [*head, *terms, Term(every, (self.statuses(staying, nobody, tail),))])
        other = structure.partner[d]
        if come < 0 and (tail != NONE or other not in allowed):
            return
        phase = BETWEEN if other in allowed else TAIL
        terms = [Term(m | here, self.after(staying, alive, d), phase) for m, alive in zip(masks, chain, strict=True)]
        if other in allowed:
            until = (masks[-1] if masks else nobody) | here | {other}
            terms.append(Term(until, self.after(staying, nobody, d), BETWEEN))
        end = (
            Term(every, (self.statuses(staying, nobody, NONE),))
            if come < 0
            else Term(every, self.after(staying, nobody, d), TAIL)
        )
        self.add(allowed, [*head, *terms, end], d, come)


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
    builder = _OrderBuilder(structure, incoming)
    window, windows = structure.window, tuple(d for d, other in enumerate(structure.partner) if other >= 0)
    special = frozenset(t for t, status in enumerate(incoming) if status != NONE)
    if not special:
        builder.block(frozenset(), structure.dims, NONE, windows)
    for staying in _subsets(special):
        if staying:
            builder.block(staying, structure.irrelevant(staying), NONE, windows)
    if window >= 0 and UNDECIDED <= incoming[window] < HALO_REUSE + len(structure.idle):
        come = incoming[window] - HALO_REUSE if incoming[window] >= HALO_REUSE else -1
        runs = {frozenset({d, structure.partner[d]}) for d in windows if come < 0 or d == come}
        idle = structure.irrelevant(frozenset({window}))
        for staying in _subsets(special - {window}):
            may = structure.irrelevant(staying) if staying else structure.dims
            for run in sorted(runs, key=sorted):
                steps = [come] if come >= 0 else [len(structure.idle) + d for d in sorted(run & structure.paced)]
                if run & may:
                    builder.block(staying, (run | idle) & may, STATIONARY, tuple(sorted(run)), *steps[:1])
    return tuple(builder.found)


@lru_cache(maxsize=256)
def all_statuses(structure: Structure) -> tuple[Statuses, ...]:
    """Statuses that blocks can lead to: first NONE for all tensors, then STATIONARY for all, then mixed ones."""
    found: list[Statuses] = [(NONE,) * structure.tensors, (STATIONARY,) * structure.tensors]
    queue = list(found)
    while queue:
        for order_class in order_classes(structure, queue.pop()):
            for statuses in order_class.met:
                if statuses not in found:
                    found.append(statuses)
                    queue.append(statuses)
    return tuple(found)


def dominating(structure: Structure, statuses: Statuses) -> Statuses:
    """A known set of statuses that costs no more than the given one."""
    below = {NONE: {NONE, UNDECIDED, STATIONARY}, UNDECIDED: {UNDECIDED, STATIONARY}, STATIONARY: {STATIONARY}}

    def may(known: int, asked: int) -> bool:
        if asked >= HALO_REUSE:
            slides = known >= HALO_REUSE and known + len(structure.idle) == asked
            return slides or known in (asked, STATIONARY)
        return known in below[asked] or (asked == NONE and known >= HALO_REUSE)

    best = [s for s in all_statuses(structure) if all(map(may, s, statuses))]
    every = (STATIONARY,) * structure.tensors
    return min(best, key=lambda s: sum(map(int.__ne__, s, statuses)), default=every)


Order = tuple[tuple[int, ...], int, int]
"""Dimensions outermost first; then a pair of one rank that only pays if the outer carries on from the inner, or -1s."""


@dataclass(frozen=True, slots=True)
class Places:
    """Dimensions with a fixed place at the ends of a temporal block, outermost first."""

    outer: tuple[int, ...] = ()
    inner: tuple[int, ...] = ()


@lru_cache(maxsize=65536)
def candidate_orders(
    structure: Structure, loops: frozenset[int], places: Places, every: bool, ragged: frozenset[int] = frozenset()
) -> tuple[Order, ...]:
    """Orders of the loops of a block.

    Parameters
    ----------
    structure : Structure
    loops : frozenset of int
        Dimensions that have a loop.
    places : Places
    every : bool
        All orders that the places allow, not only those that can be best.
    ragged : frozenset of int
        Dimensions whose loops may leave remainders, after which tiles that they move may stay in place.
    """
    first = tuple(d for d in places.outer if d in loops)
    last = tuple(d for d in places.inner if d in loops)
    free = loops - {*first, *last}
    if every or structure.loose:
        return tuple(((*first, *middle, *last), -1, -1) for middle in itertools.permutations(sorted(free)))
    grow = _Grow(structure, ragged)
    still = _Still(frozenset(range(structure.tensors)))
    slid = -1  # along which a fixed loop slides the window
    for d in reversed(last):
        if structure.window not in structure.idle[d]:
            slid = d if structure.window in still.alive else -1
        still = grow.after(still, d)
    ways = [*grow.orders((), free, still, (-1, -1)), *(grow.carried_on((), slid, free, still) if slid >= 0 else ())]
    found = dict.fromkeys(((*first, *reversed(inner_first), *last), *pair) for inner_first, pair in ways)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Still:
    """Tensors that no loop so far moves, and those that only loops move which may leave remainders."""

    alive: frozenset[int]
    resting: frozenset[int] = frozenset()

    @property
    def all(self) -> frozenset[int]:
        return self.alive | self.resting


@dataclass(frozen=True, slots=True)
class _Grow:
    """Builds orders from the innermost loop outwards."""

    structure: Structure
    ragged: frozenset[int]

    def after(self, still: _Still, *dims: int) -> _Still:
        """What stays or rests in place after loops over some dimensions."""
        for d in dims:
            idle = self.structure.idle[d]
            rests = still.all - idle if d in self.ragged else frozenset()
            still = _Still(still.alive & idle, still.resting & idle | rests)
        return still

    def orders(
        self, done: tuple[int, ...], rest: frozenset[int], still: _Still, pair: tuple[int, int]
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, int]]]:
        idle = self.structure.idle
        gain = tuple(d for d in sorted(rest) if still.all and still.all <= idle[d])
        if gain:  # loops that move none of these lengthen the stay of all of them, at no cost to the others
            done, rest = (*done, *gain), rest - {*gain}
        if not rest or not still.all:
            yield (*done, *sorted(rest)), pair
            return
        for d in self._next(rest, still):
            after = self.after(still, d)
            yield from self.orders((*done, d), rest - {d}, after, pair)
            if self.structure.window in still.alive:
                yield from self.carried_on((*done, d), d, rest - {d}, after)

    def carried_on(
        self, done: tuple[int, ...], d: int, rest: frozenset[int], still: _Still
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, int]]]:
        """After a loop over d along which the window slides: orders in which its partner in the rank comes next."""
        idle, other, alive = self.structure.idle, self.structure.partner[d], still.alive
        if other not in rest:
            return
        yield from self.orders((*done, other), rest - {other}, self.after(still, other), (d, other))
        both = alive | {self.structure.window}
        between = tuple(e for e in sorted(rest - {other}) if alive and both <= idle[e])
        if between:
            then = self.after(still, *between, other)
            yield from self.orders((*done, *between, other), rest - {other, *between}, then, (d, other))

    def _next(self, rest: frozenset[int], still: _Still) -> list[int]:
        """One loop for each way to go on: who stays in place, and along what the windowed tensor slides.

        And each loop after which tiles rest. Another one may as well come after one that moves fewer of the tensors, or
        no others and leaves a remainder.
        """
        idle, window = self.structure.idle, self.structure.window
        ways: dict[tuple[frozenset[int], int, int], int] = {}
        for d in sorted(rest):
            slides = d if window in still.alive and self.structure.partner[d] >= 0 else -1
            ways.setdefault((still.all - idle[d], slides, d if d in self.ragged else -1), d)

        def as_well(moved: frozenset[int]) -> bool:
            return any(other < moved or (leaves >= 0 and other == moved) for other, _, leaves in ways)

        return [d for (moved, slides, leaves), d in ways.items() if slides >= 0 or leaves >= 0 or not as_well(moved)]
