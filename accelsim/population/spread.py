"""Take the spread of a map space: exact numbers, ranges, and a uniform sample."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from accelsim.inputs.architecture import Architecture
from accelsim.inputs.constraints import Constraints
from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.objective import QUANTITIES, Objective
from accelsim.inputs.workload import Einsum
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import Bools, decode_mapping, encode
from accelsim.model.evaluate import evaluate_encoded
from accelsim.model.result import Result
from accelsim.population.counting import Nest, count_by_keep, count_mappings
from accelsim.population.result import Near, Range, Spread
from accelsim.population.sampling import Sampler, UniformSample
from accelsim.results.cache import MapOptions, ResultCache, map_with_cache
from accelsim.search.descent import FIRST_WALKS, Descent, first_steps
from accelsim.search.exact.cost_tables import least_offchip_words, needed_words
from accelsim.search.exact.front import map_front
from accelsim.search.exact.incumbents import SURE, WITHIN
from accelsim.search.exact.mapper import get_ready
from accelsim.search.exact.solve import Solver
from accelsim.search.mapper import map_einsum
from accelsim.search.result import FrontResult, column_value
from accelsim.search.stopping import Budget, OnProgress, Progress, answering, heeding, raising
from accelsim.search.value_kernel import PLAIN, terms_of

NEAR = (0.0, 0.01, 0.05)
"""Shares above the lowest energy within which mappings are counted."""
PARTS = {"energy": 0.3, "cycles": 0.15, "offchip_words": 0.1, "front": 0.2, "near": 0.25}
"""Shares of the time, in this order."""
SPARE = "front", "near"
"""Parts that also have what those before them leave."""
NO_TIME = 1e-6
"""Seconds that a part has at least, for a first answer."""


Made = TypeVar("Made")


@heeding()
def spread(
    architecture: Architecture,
    einsum: Einsum,
    *,
    constraints: Constraints | None = None,
    samples: int = 100_000,
    seed: int = 0,
    seconds: float | None = 10.0,
    workers: int | None = None,
    cache: ResultCache | None = None,
    on_progress: OnProgress | None = None,
) -> Spread:
    """Count all valid mappings of an Einsum on a machine, and summarize how their cost is distributed.

    As `accelsim.spread`. `constraints` have no smallest utilization: mappings are counted by their tiles, which do not
    tell it. `seconds` are for the searches; what they do not reach is marked as incomplete. Raises NoValidMappingError,
    and AccelsimError if the constraints limit costs, or the map space is too large to sample.

    >>> from accelsim import load_architecture, load_workload
    >>> found = spread(load_architecture("two_level"), load_workload("gemm").layers[0], samples=1000)
    >>> f"{found.mappings:,} valid mappings; {found.near[1].mappings} within 1 % of the best"
    '35,632 valid mappings; 16 within 1 % of the best'
    """
    started = time.monotonic()
    if constraints is not None and constraints.on_costs:
        raise AccelsimError(
            "a spread counts mappings by their tiles, which do not tell costs; leave min_utilization and limits out"
        )
    cores = workers or os.cpu_count() or 1
    clock = Clock(seconds, on_progress)
    with raising():
        clock.tell("counting and drawing mappings")
        space = MapSpace(encode(architecture, einsum), constraints)
        used = Nest(space, fully_used=True)
        nest = Nest(space)
        counted = count_mappings(nest)
        if not counted:
            map_einsum(architecture, einsum, constraints=constraints, uneven=False)  # says why there is none
        full = count_mappings(used)
        sample = _sample(nest, samples, seed, cores, clock)
    exact = not space.encoded.constants.two_widths[0]
    mappings = counted if exact else _with_room(counted, sample)
    if not exact and full:
        busy = clock.attempt(
            "drawing mappings that use all compute units", lambda: Sampler(used).sample(samples, seed, workers=cores)
        )
        full = _with_room(full, busy or sample)
    if seconds is not None:
        clock.attempt("loading or compiling the search", get_ready)
    known = SeenMappings(space.size)
    compulsory = sum(least_offchip_words(space, needed_words(space)))  # every mapping moves each word that is needed
    known.prove("offchip_words", math.ceil(compulsory / space.encoded.units_per_word[0]))
    clock.attempt("walking to good mappings", lambda: _walk(space, known, cores))

    def search(objective: str) -> None:
        """Search for the best mapping, or take the one that was kept."""
        options, budget = MapOptions(objective, uneven=False, imperfect=()), clock.budget(objective)
        found = map_with_cache(
            architecture, einsum, options, cache, constraints=constraints, budget=budget, workers=cores
        )
        clock.note(found.stop)
        known.add(found.best, objective)
        if found.certificate is not None:
            known.prove(objective, found.certificate.bound)

    def search_front() -> FrontResult:
        front = map_front(architecture, einsum, constraints=constraints, budget=clock.budget("front"), workers=cores)
        for point in front.points:
            known.add(point)
        if clock.note(front.stop):  # its ends are the smallest values
            known.prove("energy", front.values[0][0])
            known.prove("cycles", front.values[-1][1])
        return front

    clock.attempt("finding the lowest energy", lambda: search("energy"))
    clock.attempt("finding the fewest cycles", lambda: search("cycles"))
    clock.attempt("finding the fewest off-chip words", lambda: search("offchip_words"))
    searched = clock.attempt("finding the mappings that none beats in energy and cycles", search_front)
    known.add_drawn(sample)
    close = None
    if known.proved("energy"):
        lowest_pj = known.lowest("energy")
        close = clock.attempt("counting mappings close to the best", lambda: near(space, lowest_pj, clock, cores))
    return Spread(
        architecture=architecture.name,
        workload=einsum.name,
        macs=einsum.real_macs,
        space_size=space.size,
        mappings=mappings,
        exact=exact,
        fully_used=full,
        by_keep=_by_keep(nest, mappings, None if exact else sample),
        ranges=tuple(map(known.range_of, QUANTITIES)),
        near=close or (),
        front=known.front(searched),
        sample=sample,
        stop=clock.stop,
        seconds=time.monotonic() - started,
    )


def _sample(nest: Nest, samples: int, seed: int, cores: int, clock: Clock) -> UniformSample:
    """Draw mappings; at least one of them is valid."""
    sample = Sampler(nest).sample(samples, seed, workers=cores)
    if sample.drawn < samples:  # nothing but Ctrl-C ends it early
        clock.stop = "interrupted"
    if len(sample):
        return sample
    if clock.stop == "interrupted":
        raise KeyboardInterrupt
    raise AccelsimError(
        f"partial sums are wider than finished words here, and none of {samples:,} mappings drawn has room for them; "
        "draw more, or constrain the map space (`accelsim map` finds the best mapping without drawing)"
    )


def _with_room(counted: int, sample: UniformSample) -> int:
    """About how many of some mappings have room for partial sums, as those drawn from them tell."""
    return round(counted * len(sample) / sample.drawn)


def _by_keep(
    nest: Nest, mappings: int, sample: UniformSample | None
) -> tuple[tuple[tuple[frozenset[str], ...], int], ...]:
    """Mappings for each choice of what the levels keep, those with most first.

    With a sample these are its shares of all mappings, of choices that were drawn; else they are counted.
    """
    names = np.array([tensor.name for tensor in nest.space.encoded.tensors])
    found: list[tuple[Sequence[Bools], int]]
    if sample is None:
        counted = count_by_keep(nest)
        found = [([each.keeps[k] for each, k in zip(nest.keepings, chosen, strict=True)], n) for chosen, n in counted]
    else:
        kept, many = np.unique(sample.kept(), axis=0, return_counts=True)
        shares = [round(mappings * int(times) / len(sample)) for times in many]
        found = list(zip(kept, shares, strict=True))
    named = ((tuple(frozenset(names[level].tolist()) for level in keeps), n) for keeps, n in found)
    return tuple(sorted(named, key=lambda each: -each[1]))


def _walk(space: MapSpace, known: SeenMappings, cores: int) -> None:
    """Add what walks find of least and of most energy, cycles and off-chip words."""
    steps = first_steps(space)
    for column in QUANTITIES:
        least = terms_of(Objective.parse(column))
        most = np.where(np.arange(least.shape[1]) == PLAIN, 0.0, np.concatenate([least[:, :1], -least[:, 1:]], axis=1))
        for terms in (least, most):
            found = Descent(space, terms, workers=cores, steps=steps).go(FIRST_WALKS)
            if found is not None:
                known.add(evaluate_encoded(space.encoded, decode_mapping(space.encoded, found.mapping, 0)))


@dataclass(slots=True)
class Clock:
    """Shares out the time of searches, and skips the rest after an interrupt."""

    seconds: float | None
    on_progress: OnProgress | None
    stop: str = "exhausted"
    left: float = 0.0
    end: float = 0.0

    def tell(self, what: str) -> None:
        """Report what is done next."""
        if self.on_progress is not None:
            self.on_progress(Progress(what=what))

    def attempt(self, what: str, make: Callable[[], Made]) -> Made | None:
        """Make a part, or None once Ctrl-C was pressed; the second time it is obeyed at once."""
        if self.stop == "interrupted":
            return None
        try:
            with raising():
                self.tell(what)
                return make()
        except KeyboardInterrupt:
            self.stop = "interrupted"
            answering()
            return None
        finally:
            if self.end:
                self.left, self.end = self.left + max(0.0, self.end - time.monotonic()), 0.0

    def deadline(self, part: str) -> float | None:
        """When a part that begins now is to end, by `time.monotonic`."""
        if self.seconds is None:
            return None
        spare = self.left if part in SPARE else 0.0
        self.left -= spare
        self.end = time.monotonic() + self.seconds * PARTS[part] + spare
        return self.end

    def budget(self, part: str) -> Budget | None:
        """Time for a part."""
        deadline = self.deadline(part)
        return None if deadline is None else Budget(seconds=max(NO_TIME, deadline - time.monotonic()))

    def note(self, stop: str) -> bool:
        """Whether a part was completed."""
        if stop != "exhausted" and self.stop != "interrupted":
            self.stop = stop
        return stop == "exhausted"


def near(space: MapSpace, lowest: float, clock: Clock, cores: int) -> tuple[Near, ...]:
    """Count mappings close to the lowest energy [pJ]: the mapper lists those that its bounds do not rule out."""
    deadline = clock.deadline("near")
    solver = Solver(space, every=True, workers=cores)
    found: list[Near] = []
    for share in NEAR:
        if found and not found[-1].complete:
            found.append(Near(share, found[-1].mappings, complete=False))
            continue
        outcome = solver.search(kind=WITHIN, limit=lowest * (1.0 + share) * (1.0 + SURE), deadline=deadline)
        mappings = max(int(outcome.found.tally[2]), found[-1].mappings if found else 0)
        found.append(Near(share, mappings, complete=clock.note(outcome.stop)))
    return tuple(found)


_FRONT = ("energy", "cycles")


class SeenMappings:
    """Mappings that a spread came to, and for each column those with the smallest and the largest value.

    Every smallest and largest value that is reported comes from here, so no mapping that the spread saw lies beyond it.
    A bound alone proves a value: one that was drawn is proved only where a search shows that none is smaller.
    """

    def __init__(self, space_size: int) -> None:
        self.space_size = space_size
        self.least: dict[str, Result] = {}
        self.most: dict[str, Result] = {}
        self.bounds = dict.fromkeys(QUANTITIES, 0.0)
        self._found: list[Result] = []
        self._samples: list[UniformSample] = []

    def add(self, result: Result, searched: str = "") -> None:
        """Add a valid mapping; of those with an equal value of a column the one stays that was searched for it."""
        self._found.append(result)
        for column in QUANTITIES:
            value, slack = column_value(result, column), SURE if column == searched else -SURE
            least, most = self.least.setdefault(column, result), self.most.setdefault(column, result)
            if value <= column_value(least, column) * (1 + slack):
                self.least[column] = result
            if value > column_value(most, column) * (1 + SURE):
                self.most[column] = result

    def add_drawn(self, sample: UniformSample) -> None:
        """Add mappings that were drawn; they come after the searches, whose mapping stays where values are equal."""
        self._samples.append(sample)
        for column in QUANTITIES:
            values = sample.values(column)
            if not len(values):
                return
            low, high = (self._known(known, column) for known in (self.least, self.most))
            if low is None or values.min() < low:
                self.add(sample.result(int(values.argmin())))
            if high is None or values.max() > high:
                self.add(sample.result(int(values.argmax())))

    @staticmethod
    def _known(known: dict[str, Result], column: str) -> float | None:
        return column_value(known[column], column) if column in known else None

    def prove(self, column: str, bound: float) -> None:
        """No valid mapping falls below a bound."""
        self.bounds[column] = max(self.bounds[column], bound)

    def lowest(self, column: str) -> float:
        """The smallest value known."""
        return column_value(self.least[column], column)

    def proved(self, column: str) -> bool:
        """Whether no valid mapping has less than the smallest value known."""
        return self.bounds[column] >= self.lowest(column) * (1 - SURE)

    def range_of(self, column: str) -> Range:
        """The smallest and the largest value known, and what is proved of the smallest."""
        least, most = self.least[column], self.most[column]
        low, high = self.lowest(column), column_value(most, column)
        if self.bounds[column] > low * (1 + 1e-9):
            raise RuntimeError(
                f"{column}: no mapping falls below {self.bounds[column]!r} (proved), and one has {low!r}"
            )
        bound = low if self.proved(column) else self.bounds[column]
        return Range(column, low, bound, high, least, most)

    def front(self, searched: FrontResult | None) -> FrontResult:
        """The front of energy and cycles; where its search did not complete it, of all mappings known."""
        if searched is not None and searched.stop == "exhausted":
            return searched
        found = [*self._found, *(() if searched is None else searched.points)]
        rows = [np.array([[column_value(each, column) for column in _FRONT] for each in found]).reshape(-1, 2)]
        rows += [np.stack([sample.values(column) for column in _FRONT], axis=1) for sample in self._samples]
        owner = np.repeat(np.arange(len(rows)) - 1, [len(each) for each in rows])
        place = np.concatenate([np.arange(len(each)) for each in rows])
        energy, cycles = np.concatenate(rows).T
        order = np.lexsort((cycles, energy))
        fewest = np.minimum.accumulate(np.concatenate([[np.inf], cycles[order]]))[:-1]
        chosen = order[cycles[order] < fewest]
        both = zip(owner[chosen].tolist(), place[chosen].tolist(), strict=True)
        points = tuple(found[i] if s < 0 else self._samples[s].result(i) for s, i in both)
        values = tuple((point.energy_pj, float(point.cycles)) for point in points)
        if searched is not None:
            return replace(searched, points=points, values=values)
        return FrontResult(_FRONT, points, values, "interrupted", self.space_size, 0, len(energy), 0, 0.0)
