"""Find a good mapping at once, whatever the machine, the objective and the constraints: walks through the map space.

Nothing is proved here; the exact search starts from what is found (docs/exact-mapper.md).
"""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from accelsim.inputs.divisors import divisors
from accelsim.inputs.objective import LEAST_ENERGY
from accelsim.mapspace.space import MapSpace
from accelsim.model.detail import make_detail
from accelsim.model.encode import Batch, Bools, Floats, Ints, empty_batch
from accelsim.search.descent_kernel import BEST, Choices, Walk, misses, walk
from accelsim.search.stopping import asked, heeding
from accelsim.search.value_kernel import CYCLES, ENERGY, WORDS, terms_of

POLL_SECONDS = 0.02
FIRST_WALKS = 4
"""Walks before an exact search, short ones: some hundredths of a second."""
SHORT, LONGER, LONGEST = 5_000, 4, 320_000
"""Steps of the first walks, how many times as many walks follow with so many times as many steps, and the most."""


@dataclass(frozen=True, slots=True)
class Incumbent:
    """The best mapping that walks have found.

    Attributes
    ----------
    value : float
        Objective.
    column : tuple of float
        Energy [pJ], cycles, words at the outermost level, words held at a level.
    mapping : Batch of one
    """

    value: float
    column: tuple[float, ...]
    mapping: Batch


class Descent:
    """Walks through one map space; each call goes on where the last one ended.

    Parameters
    ----------
    space : MapSpace
        One without remainders.
    terms : float64[K, 6]
        The objective as `value_kernel.value_of` reads it.
    held_level : int
        Whose words count.
    most : float64[3], optional
        Energy [pJ], cycles and off-chip words that are allowed, if less than in the map space.
    seed : int
    workers : int
        Threads; what a number of walks finds does not depend on it.
    steps : int
        Of each of the first walks.

    Attributes
    ----------
    best : Incumbent or None
    evaluated : int
        Mappings evaluated.
    """

    def __init__(
        self,
        space: MapSpace,
        terms: Floats,
        *,
        held_level: int = 0,
        most: Floats | None = None,
        seed: int = 0,
        workers: int = 1,
        steps: int = SHORT,
    ) -> None:
        self.space, self.workers, self.steps = space, workers, steps
        self.choices = choices_of(space, terms, held_level)
        if most is not None:
            np.minimum(most, self.choices.most, out=self.choices.most)
        self.key = np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
        self.best: Incumbent | None = None
        self.walks = self.evaluated = 0
        self._stop = np.zeros(1, np.int64)
        self._tie = math.inf

    def go(self, walks: int, deadline: float | None = None) -> Incumbent | None:
        """Take the next walks; a signal or the deadline (by `time.monotonic`) cuts those under way short."""
        numbers = range(self.walks, self.walks + walks)
        self._stop[0] = 0
        with heeding(self._stop), ThreadPoolExecutor(self.workers) as pool:
            try:
                jobs = [pool.submit(self._walk, number) for number in numbers]
                while wait(jobs, timeout=POLL_SECONDS).not_done:
                    if asked() or (deadline is not None and time.monotonic() > deadline):
                        self._stop[0] = 1
            except BaseException:
                self._stop[0] = 1
                raise
        self.walks += walks
        for job in jobs:
            self._note(*job.result())
        return self.best

    def go_on(self, deadline: float) -> Incumbent | None:
        """Walk until the deadline (by `time.monotonic`)."""
        while time.monotonic() < deadline and not asked():
            self.go(self.workers, deadline)
        return self.best

    def _walk(self, number: int) -> tuple[Walk, int]:
        """Take one walk; returns its mappings, and how many were evaluated."""
        found, steps, many, rest = make_walk(self.space), self.steps, FIRST_WALKS, number
        while rest >= many and steps < LONGEST:
            rest, many, steps = rest - many, LONGER * many, min(LONGER * steps, LONGEST)
        encoded = self.space.encoded
        seen = walk(encoded.constants, self.choices, found, make_detail(encoded), self.key, number, steps, self._stop)
        return found, int(seen)

    def _note(self, walk: Walk, seen: int) -> None:
        """Keep the best mapping of a walk if it is better than those before; of equal ones that of less energy."""
        self.evaluated += seen
        value, tie = float(walk.value[BEST]), float(walk.tie[BEST])
        if math.isfinite(value) and (self.best is None or (value, tie) < (self.best.value, self._tie)):
            m, row = walk.mapping, slice(BEST, BEST + 1)
            mapping = Batch(m.temporal[row], m.order[row], m.x[row], m.y[row], m.keep[row])
            self.best, self._tie = Incumbent(value, tuple(walk.column[BEST].tolist()), mapping), tie


def first_steps(space: MapSpace) -> int:
    """Steps of each of the first walks, which together look at no more mappings than there are."""
    if math.prod(space.many) > SHORT * FIRST_WALKS:
        return SHORT
    size = space.quick_size
    return SHORT if size is None else min(SHORT, size // FIRST_WALKS)


def choices_of(space: MapSpace, terms: Floats, held_level: int = 0) -> Choices:
    """Write a map space as `walk` reads it.

    Parameters
    ----------
    space : MapSpace
    terms : float64[K, 6]
        The objective as `value_kernel.value_of` reads it.
    held_level : int
        Whose words held count.
    """
    encoded = space.encoded
    dims, slots = encoded.dims, space.slots
    found = [divisors(encoded.einsum.dims[dim]) for dim in dims]
    most = max(map(len, found))
    shape = (len(dims), most, most)
    divisor, product, quotient = np.ones(shape[:2], np.int64), np.full(shape, -1), np.full(shape, -1)
    tables = [_divisor_tables(encoded.einsum.dims[dim]) for dim in dims]
    allowed = np.zeros((len(slots), len(dims), most), np.bool_)
    ways = np.zeros((len(dims), len(slots) + 1, most))
    for d, dim in enumerate(dims):
        values = np.array(found[d], np.int64)
        divisor[d, : len(values)] = values
        product[d, : len(values), : len(values)], quotient[d, : len(values), : len(values)] = tables[d]
        for at, slot in enumerate(slots):
            may = space.allowed(slot, dim)
            allowed[at, d, : len(values)] = [value in may for value in found[d]]
        ways[d] = _completions(quotient[d], allowed[:, d])
    levels = len(encoded.architecture.levels)
    order, span = np.zeros((levels, len(dims)), np.int64), np.zeros((levels, 2), np.int64)
    for level in range(levels):
        outer, inner = space.fixed_places(level)
        rest = [d for d in range(len(dims)) if d not in outer and d not in inner]
        order[level] = [*outer, *rest, *inner]
        span[level] = len(outer), len(outer) + len(rest)
    return Choices(
        divisor=divisor,
        many=np.array([len(values) for values in found], np.int64),
        product=product.astype(np.int64),
        quotient=quotient.astype(np.int64),
        allowed=allowed,
        ways=ways,
        slot=np.array([(slot.level, ("", "x", "y").index(slot.axis)) for slot in slots], np.int64),
        order=order,
        free_span=span,
        keep=space.keep,
        free=np.array(space.free_keeps, np.int64).reshape(-1, 2),
        required=space.required,
        most=space.most.copy(),
        terms=terms,
        tie=np.array([bool((terms[:, 1 + CYCLES : 2 + WORDS] > 0).any())]),
        with_energy=np.array([bool((terms[:, 1 + ENERGY] > 0).any())]),
        held_level=np.array([held_level], np.int64),
    )


@lru_cache(maxsize=256)
def _divisor_tables(bound: int) -> tuple[Ints, Ints]:
    """Of each two divisors of a bound, by number: which one their product is, and their quotient; -1: none."""
    found = divisors(bound)
    number = {value: k for k, value in enumerate(found)}
    product = np.array([[number.get(a * b, -1) for b in found] for a in found], np.int64)
    return product, np.array([[-1 if a % b else number[a // b] for b in found] for a in found], np.int64)


def _completions(quotient: Ints, allowed: Bools) -> Floats:
    """Factorisations of each divisor over the slots from each one on: float64[S + 1, K]."""
    slots, many = allowed.shape
    ways = np.zeros((slots + 1, many))
    ways[slots, 0] = 1.0
    for slot in range(slots - 1, -1, -1):
        may = (quotient >= 0) & allowed[slot]
        ways[slot] = np.where(may, ways[slot + 1, quotient], 0.0).sum(axis=1)
    return ways


def make_walk(space: MapSpace, rows: int = 3) -> Walk:
    """Room for the mappings of a walk, or so many others; none of them is found yet."""
    levels, dims = len(space.encoded.architecture.levels), len(space.encoded.dims)
    return Walk(
        at=np.zeros((rows, len(space.slots), dims), np.int64),
        rank=np.zeros((rows, levels, dims), np.int64),
        mapping=empty_batch(space.encoded, rows),
        value=np.full(rows, math.inf),
        tie=np.full(rows, math.inf),
        steps=np.zeros(rows),
        column=np.zeros((rows, 4)),
    )


def misses_of(space: MapSpace, walk: Walk) -> Floats:
    """By which factor each mapping breaks its limits, all together: float64[rows], 1 if it is valid."""
    found, choices = np.ones(len(walk.value)), choices_of(space, terms_of(LEAST_ENERGY))
    misses(space.encoded.constants, choices, walk, make_detail(space.encoded), found)
    return found
