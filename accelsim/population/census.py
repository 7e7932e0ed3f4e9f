"""Take the census of a map space: exact numbers, ranges, and a uniform sample."""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress
from fractions import Fraction
from functools import partial

import numpy as np

from accelsim.architecture import Architecture
from accelsim.constraints import Constraints
from accelsim.errors import AccelsimError, NoValidMapping
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import encode
from accelsim.model.evaluate import evaluate_encoded
from accelsim.population.counting import count_by_keep, count_mappings
from accelsim.population.draw_kernel import CYCLES, ENERGY, WORDS
from accelsim.population.enumerated import (
    Clock,
    OnPart,
    fewest,
    fewest_of_sample,
    near,
    near_peak,
    near_peak_of_sample,
)
from accelsim.population.extremes import FEW_LABELS, Extreme, climb_from, largest_value
from accelsim.population.moments.deviations import EnergyDeviation, energy_deviation
from accelsim.population.moments.means import Means, means
from accelsim.population.result import Census, Range
from accelsim.population.sampling import Sampler, UniformSample
from accelsim.population.steps import Keeping, Nest
from accelsim.population.tails import StratifiedSample, make_strata, sample_strata
from accelsim.result import Result
from accelsim.search.exact.bounds import keep_bounds
from accelsim.search.exact.mapper import map_front
from accelsim.search.exact.ready import get_ready
from accelsim.search.mapper import map_einsum
from accelsim.search.result import FrontResult
from accelsim.stopping import heeding, raising
from accelsim.workload import Einsum

COLUMNS = ("energy", "cycles", "outer_words")
LISTED, TILINGS = 10, 20
"""All mappings are evaluated if there are at most so many times as many as would be drawn, and at most so many times as
many tilings; that takes up to some five times as long, and makes the distribution exact."""
STARTS = 3
"""Mappings drawn from which the largest value is climbed to, before the search for what lies above."""
FEW_CHOICES = 64
"""Choices of what the levels keep, up to which the worst mapping of all is looked for in a second."""
MOST_LISTED = 20_000_000
"""Mappings that are evaluated one after the other, at most: 0.8 GB."""


@keep_bounds()
@heeding()
def census(
    architecture: Architecture,
    einsum: Einsum,
    *,
    constraints: Constraints | None = None,
    fully_used: bool = False,
    samples: int = 100_000,
    tail_samples: int = 0,
    seed: int = 0,
    seconds: float | None = 10.0,
    workers: int | None = None,
    on_part: OnPart | None = None,
) -> Census:
    """Count all valid mappings of an Einsum on a machine, and tell how what they cost is spread.

    Parameters
    ----------
    architecture : Architecture
    einsum : Einsum
    constraints : Constraints, optional
        Without a smallest utilization: mappings are counted by their tiles, which do not tell it.
    fully_used : bool
        Only mappings that use all compute units.
    samples : int
        Mappings that are drawn uniformly and evaluated. If there are at most ten times as many, all are evaluated
        instead, and quantiles and shares are exact.
    tail_samples : int
        Mappings that are drawn in strata besides, for quantiles of the energy down to one in a million.
    seed : int
    seconds : float, optional
        Time for what is counted one by one: mappings close to the best, those with the fewest outer words, the front.
        If it does not suffice these are marked as incomplete. None: as long as it takes.
    workers : int, optional
        Threads; default: all cores. The result does not depend on it, unless time ran out.
    on_part : callable, optional
        Called with what is done next.

    Returns
    -------
    Census

    Raises
    ------
    NoValidMapping
        If no mapping is valid.
    AccelsimError
        If the constraints ask for a utilization, the map space is too large to sample, or it cannot be cut into strata.

    Examples
    --------
    >>> from accelsim import load_architecture, load_workload
    >>> found = census(load_architecture("two_level"), load_workload("gemm").layers[0], samples=1000)
    >>> f"{found.mappings:,} valid mappings; {found.near[1].mappings} within 1 % of the best"
    '35,632 valid mappings; 16 within 1 % of the best'
    """
    started = time.monotonic()
    if constraints is not None and constraints.min_utilization > 0:
        raise AccelsimError(
            "a census counts mappings by their tiles, which do not tell the utilization; leave min_utilization out, "
            "and ask for those that use all compute units"
        )
    cores = workers or os.cpu_count() or 1
    clock = Clock(seconds, on_part)
    with raising():
        if on_part is not None:
            on_part("counting and drawing mappings")
        space = MapSpace(encode(architecture, einsum), constraints)
        nest, used = Nest(space), Nest(space, Fraction(1))
        nest = used if fully_used else nest
        counted = count_mappings(nest)
        if not counted:
            if fully_used and count_mappings(Nest(space)):
                raise NoValidMapping("no valid mapping uses all compute units")
            map_einsum(architecture, einsum, constraints=constraints)  # says why there is none
        full = counted if fully_used else count_mappings(used)
        exact = not space.encoded.constants.two_widths[0]
        sample = _sample(nest, counted, samples, seed, cores, clock)
    tail = clock.attempt("drawing mappings in strata", lambda: _tail(sample.sampler, tail_samples, seed, cores))
    share = len(sample) / sample.drawn
    if seconds is not None:
        clock.attempt("loading or compiling what counts one by one", lambda: get_ready(space.encoded, counts=True))
    search = partial(_search, architecture, einsum, constraints, clock, cores)
    best = clock.attempt("finding the lowest energy", lambda: search("energy"))
    few = None
    if not fully_used:
        few = clock.attempt("counting mappings with the fewest outer words", lambda: fewest(space, nest, clock, cores))
    lowest = {
        "energy": best,
        "cycles": clock.attempt("finding the fewest cycles", lambda: search("cycles")),
        "outer_words": None if few is None else few[0],
    }
    front = clock.attempt(
        "finding the mappings that none beats in energy and cycles",
        lambda: _front(architecture, einsum, constraints, clock, cores),
    )
    close = None
    fast = near_peak_of_sample(counted, sample) if fully_used or sample.complete else None
    if fast is None and lowest["cycles"] is not None:
        bound = lowest["cycles"][1]
        fast = clock.attempt(
            "counting mappings close to peak throughput",
            lambda: near_peak(space, samples, seed, bound, clock, cores),
        )
    if best is not None and not fully_used:
        lowest_pj = best[0].energy_pj
        close = clock.attempt("counting mappings close to the best", lambda: near(space, lowest_pj, clock, cores))
    found_means = deviation = None
    if not fully_used:
        found_means = clock.attempt("adding up energy and words of all mappings", lambda: _means(space))
    if found_means is not None:
        given = found_means
        deviation = clock.attempt("adding up the squares of the energy", lambda: _deviation(space, given))
    return Census(
        architecture=architecture.name,
        workload=einsum.name,
        macs=einsum.real_macs,
        space_size=space.size,
        mappings=counted if exact else round(counted * share),
        exact=exact,
        fully_used=full if exact else round(full * share),
        only_fully_used=fully_used,
        by_keep=tuple(_by_keep(nest)),
        ranges=tuple(_range(nest, sample, column, lowest[column], clock, fully_used) for column in COLUMNS),
        near=close or (),
        fewest=None if few is None else fewest_of_sample(few[1], sample) if sample.complete else few[1],
        near_peak=fast,
        means=found_means,
        deviation=deviation,
        front=front or _front_of_drawn(space, sample),
        sample=sample,
        tail=tail,
        stop=clock.stop,
        seconds=time.monotonic() - started,
    )


def count_and_limit(
    architecture: Architecture, einsum: Einsum, constraints: Constraints | None = None
) -> tuple[int, float | None] | None:
    """How many valid mappings there are, and the energy [pJ] that none exceeds: a census in a fraction of a second.

    None where tiles do not tell which mappings are valid: with a smallest utilization, or partial sums wider than
    finished words. No energy where the levels have so many choices of what to keep that it would take seconds.
    """
    space = MapSpace(encode(architecture, einsum), constraints)
    if space.constraints.min_utilization > 0 or space.encoded.constants.two_widths[0]:
        return None
    nest = Nest(space)
    few = math.prod(len(step.keeps) for step in nest.steps if isinstance(step, Keeping)) <= FEW_CHOICES
    return count_mappings(nest), largest_value(nest, ENERGY, most_labels=FEW_LABELS).bound if few else None


def _sample(nest: Nest, counted: int, samples: int, seed: int, cores: int, clock: Clock) -> UniformSample:
    """Draw mappings, or evaluate all if they are few; at least one is valid."""
    sampler = Sampler(nest)
    few = counted <= min(LISTED * samples, MOST_LISTED) and sampler.tilings <= TILINGS * samples
    if few and not nest.space.encoded.constants.two_widths[0]:
        return sampler.every(counted)
    sample = sampler.sample(samples, seed, workers=cores)
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


def _tail(sampler: Sampler, samples: int, seed: int, cores: int) -> StratifiedSample | None:
    """A stratified sample, if one is asked for."""
    return sample_strata(make_strata(sampler), samples, seed, workers=cores) if samples else None


def _means(space: MapSpace) -> Means | None:
    """Exact means, where the map space allows them."""
    with suppress(AccelsimError):
        return means(space)
    return None


def _deviation(space: MapSpace, found: Means) -> EnergyDeviation | None:
    """Exact deviation of the energy, where the map space allows it."""
    with suppress(AccelsimError):
        return energy_deviation(space, found)
    return None


def _by_keep(nest: Nest) -> list[tuple[tuple[frozenset[str], ...], int]]:
    names = [tensor.name for tensor in nest.space.encoded.tensors]
    keeps = {step.level: step.keeps for step in nest.steps if isinstance(step, Keeping)}
    return [
        (tuple(frozenset(np.array(names)[keeps[level][k]].tolist()) for level, k in enumerate(chosen)), mappings)
        for chosen, mappings in count_by_keep(nest)
    ]


def _search(
    architecture: Architecture,
    einsum: Einsum,
    constraints: Constraints | None,
    clock: Clock,
    cores: int,
    objective: str,
) -> tuple[Result, float]:
    """The best mapping, and what none falls below."""
    found = map_einsum(
        architecture,
        einsum,
        constraints=constraints,
        objective=objective,
        budget=clock.budget(objective),
        workers=cores,
    )
    clock.note(found.stop)
    return found.best, found.certificate.bound if found.certificate else 0.0


def _front(
    architecture: Architecture, einsum: Einsum, constraints: Constraints | None, clock: Clock, cores: int
) -> FrontResult:
    front = map_front(architecture, einsum, constraints=constraints, budget=clock.budget("front"), workers=cores)
    clock.note(front.stop)
    return front


def _front_of_drawn(space: MapSpace, sample: UniformSample) -> FrontResult:
    """Mappings that none other drawn beats in energy and cycles."""
    points = []
    fastest = math.inf
    for index in np.lexsort((sample.cycles, sample.energy_pj)).tolist():
        if sample.cycles[index] < fastest:
            fastest = float(sample.cycles[index])
            points.append(sample.result(index))
    return FrontResult(
        columns=("energy", "cycles"),
        points=tuple(points),
        values=tuple((point.energy_pj, float(point.cycles)) for point in points),
        stop="interrupted",
        space_size=space.size,
        nodes=0,
        evaluated=len(sample),
        table_bytes=0,
        seconds=0.0,
    )


def _range(
    nest: Nest,
    sample: UniformSample,
    column: str,
    best: tuple[Result, float] | None,
    clock: Clock,
    fully_used: bool,
) -> Range:
    """Range of a column; its smallest value is that drawn for fully used mappings and after an interrupt."""
    space, goal = nest.space, (ENERGY, CYCLES, WORDS)[COLUMNS.index(column)]
    values = sample.values(column)
    if sample.complete:
        least = sample.result(int(values.argmin())) if best is None or fully_used else best[0]
        most = sample.result(int(values.argmax()))
        low, high = _value(least, column), _value(most, column)
        return Range(column, low, low, high, high, least, most)
    starts = [sample.mapping(int(index)) for index in np.argsort(-values, kind="stable")[:STARTS]]
    bound = 0.0 if best is None else best[1]
    lowest = sample.result(int(np.argmin(values))) if best is None or fully_used else best[0]

    def find() -> tuple[Result, Extreme]:
        climbed = starts[0] if fully_used else climb_from(space, starts, goal)[0]
        known = evaluate_encoded(space.encoded, climbed)
        most = largest_value(nest, goal, _value(known, column))
        return (known if most.mapping is None else evaluate_encoded(space.encoded, most.mapping)), most

    found = clock.attempt(f"looking for the largest {column}", find)
    if found is None:
        drawn = evaluate_encoded(space.encoded, starts[0])
        found = drawn, largest_value(nest, goal, _value(drawn, column), most_labels=0)
    low, high = _value(lowest, column), _value(found[0], column)
    return Range(column, low, min(low, bound), high, max(high, found[1].bound), lowest, found[0])


def _value(result: Result, column: str) -> float:
    columns = {"energy": result.energy_pj, "cycles": result.cycles, "outer_words": result.outer_words}
    return float(columns[column])
