"""Take the census of a map space: exact numbers, ranges, and a uniform sample."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from accelsim.architecture import Architecture
from accelsim.constraints import Constraints
from accelsim.errors import AccelsimError, NoValidMapping
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import Encoded, encode
from accelsim.model.evaluate import evaluate_encoded
from accelsim.population.counting import count_by_keep, count_inside, count_mappings
from accelsim.population.draw_kernel import CYCLES, ENERGY, WORDS
from accelsim.population.extremes import largest, upper_limits
from accelsim.population.moments.deviations import EnergyDeviation, energy_deviation
from accelsim.population.moments.means import Means, means
from accelsim.population.result import Census, Fewest, Near, Range
from accelsim.population.sampling import Sampler, UniformSample
from accelsim.population.steps import Keeping, Nest
from accelsim.result import FrontResult, Result, SearchResult
from accelsim.search.exact.found_kernel import SURE, WITHIN
from accelsim.search.exact.mapper import map_front
from accelsim.search.exact.solve import Solver
from accelsim.search.mapper import map_einsum
from accelsim.search.strategy import Budget
from accelsim.workload import Einsum

NEAR = (0.0, 0.01, 0.05, 0.1)
"""Shares above the lowest energy within which mappings are counted."""
CLIMBS = 8
"""Mappings from which the largest values are looked for."""
PARTS = {"energy": 0.1, "cycles": 0.1, "front": 0.1, "near": 0.4, "fewest": 0.3}
"""Shares of the time for what is counted one by one."""

OnPart = Callable[[str], None]


@dataclass(slots=True)
class _Clock:
    """Shares out the time for what is counted one by one."""

    seconds: float | None
    on_part: OnPart | None
    stop: str = "exhausted"

    def begin(self, part: str, what: str) -> float | None:
        """Tell what is done now; returns when it is to end, by `time.monotonic`."""
        if self.on_part is not None:
            self.on_part(what)
        if self.stop == "interrupted":
            return time.monotonic()
        return None if self.seconds is None else time.monotonic() + self.seconds * PARTS[part]

    def budget(self, part: str) -> Budget | None:
        """Time for a part."""
        if self.stop == "interrupted":
            return Budget(seconds=0.01)
        return None if self.seconds is None else Budget(seconds=self.seconds * PARTS[part])

    def note(self, stop: str) -> bool:
        """Whether a part was completed."""
        if stop != "exhausted":
            self.stop = stop
        return stop == "exhausted"


def census(
    architecture: Architecture,
    einsum: Einsum,
    *,
    constraints: Constraints | None = None,
    fully_used: bool = False,
    samples: int = 100_000,
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
        Mappings that are drawn uniformly and evaluated.
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
        If the constraints ask for a utilization, or the map space is too large to sample.

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
    clock = _Clock(seconds, on_part)
    if on_part is not None:
        on_part("counting and drawing mappings")
    space = MapSpace(encode(architecture, einsum), constraints)
    nest, full = Nest(space, fully_used), Nest(space, True)
    counted = count_mappings(nest)
    if not counted:
        if fully_used and count_mappings(Nest(space)):
            raise NoValidMapping("no valid mapping uses all compute units")
        map_einsum(architecture, einsum, constraints=constraints)  # says why there is none
    sample = Sampler(nest).sample(samples, seed, workers=cores)
    exact = not space.encoded.constants.two_widths[0]
    share = 1.0 if exact else len(sample) / samples
    exact_means, deviation = (None, None) if fully_used else _moments(space, clock)
    search = partial(_search, architecture, einsum, constraints, clock, cores)
    best, fastest = search("energy"), search("cycles")
    fewest_words, fewest, least_words = (best.best, None, 0.0) if fully_used else _fewest(space, nest, clock, cores)
    front = _front(architecture, einsum, constraints, clock, cores)
    lowest = {
        "energy": (best.best, best.certificate.bound if best.certificate else 0.0),
        "cycles": (fastest.best, fastest.certificate.bound if fastest.certificate else 0.0),
        "outer_words": (fewest_words, least_words),
    }
    ranges = _ranges(space, nest, sample, lowest)
    return Census(
        architecture=architecture.name,
        workload=einsum.name,
        macs=einsum.real_macs,
        space_size=space.size,
        mappings=round(counted * share) if share < 1 else counted,
        exact=exact,
        fully_used=round(count_mappings(full) * share) if share < 1 else count_mappings(full),
        only_fully_used=fully_used,
        by_keep=tuple(_by_keep(nest)),
        ranges=ranges,
        near=() if fully_used else _near(space, best.best.energy_pj, clock, cores),
        fewest=fewest,
        means=exact_means,
        deviation=deviation,
        front=front,
        sample=sample,
        stop=clock.stop,
        seconds=time.monotonic() - started,
    )


def count_and_limit(
    architecture: Architecture, einsum: Einsum, constraints: Constraints | None = None
) -> tuple[int, float] | None:
    """How many valid mappings there are, and the energy [pJ] that none exceeds: a census in a fraction of a second.

    None where tiles do not tell which mappings are valid: with a smallest utilization, or partial sums wider than
    finished words.
    """
    space = MapSpace(encode(architecture, einsum), constraints)
    if space.constraints.min_utilization > 0 or space.encoded.constants.two_widths[0]:
        return None
    nest = Nest(space)
    return count_mappings(nest), upper_limits(nest).energy


def _moments(space: MapSpace, clock: _Clock) -> tuple[Means | None, EnergyDeviation | None]:
    """Exact means and the deviation of the energy, those that the map space allows."""
    if clock.on_part is not None:
        clock.on_part("adding up energy and words of all mappings")
    found: Means | None = None
    with suppress(AccelsimError):
        found = means(space)
        return found, energy_deviation(space, found)
    return found, None


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
    clock: _Clock,
    cores: int,
    objective: str,
) -> SearchResult:
    clock.begin(
        objective, f"finding the lowest {objective}" if objective == "energy" else f"finding the fewest {objective}"
    )
    found = map_einsum(
        architecture,
        einsum,
        constraints=constraints,
        objective=objective,
        budget=clock.budget(objective),
        workers=cores,
    )
    clock.note(found.stop)
    return found


def _front(
    architecture: Architecture, einsum: Einsum, constraints: Constraints | None, clock: _Clock, cores: int
) -> FrontResult:
    clock.begin("front", "finding the mappings that none beats in energy and cycles")
    front = map_front(architecture, einsum, constraints=constraints, budget=clock.budget("front"), workers=cores)
    clock.note(front.stop)
    return front


def _near(space: MapSpace, lowest: float, clock: _Clock, cores: int) -> tuple[Near, ...]:
    """Count mappings close to the lowest energy, one by one."""
    deadline = clock.begin("near", "counting mappings close to the best")
    solver = Solver(space, every=True, alike=True, workers=cores)
    found: list[Near] = []
    for share in NEAR:
        limit = lowest * (1.0 + share) * (1.0 + SURE)
        if found and not found[-1].complete:
            found.append(Near(share, found[-1].mappings, complete=False))
            continue
        outcome = solver.search(kind=WITHIN, limit=limit, deadline=deadline)
        mappings = max(int(outcome.found.tally[2]), found[-1].mappings if found else 0)
        found.append(Near(share, mappings, clock.note(outcome.stop)))
    return tuple(found)


def _fewest(space: MapSpace, nest: Nest, clock: _Clock, cores: int) -> tuple[Result, Fewest, float]:
    """Find the fewest outer words, count the mappings that move no more, and find the best and worst of them.

    The last value is what no mapping falls below.
    """
    deadline = clock.begin("fewest", "counting mappings with the fewest outer words")
    words_alone = MapSpace(_words_alone(space.encoded), space.constraints)
    least = Solver(words_alone, workers=cores)
    fewest = least.search(room=CLIMBS, deadline=deadline)
    words = round(float(fewest.found.value[0]))
    solver = Solver(space, workers=cores)
    solver.limit_words(words)
    best = solver.search(deadline=deadline)
    starts = [least.mapping(fewest.found, i) for i in np.flatnonzero(fewest.found.value <= words).tolist()]
    start = solver.mapping(best.found, 0) if best.found.many[0] else starts[0]
    _, worst = largest(space, [start, *starts], ENERGY, most_words=words)
    reached, leaves, stop = Solver(words_alone, every=True, alike=True).count_settled(words, deadline)
    inside = count_inside(Nest(space))
    mappings = leaves + sum(int(reached[lv, shape]) * inside[lv][shape] for lv, shape in np.argwhere(reached))
    complete = [clock.note(each) for each in (fewest.stop, best.stop, stop)]
    result = evaluate_encoded(space.encoded, start)
    bound = float(words) if complete[0] else fewest.bound
    return result, Fewest(words, mappings, all(complete), result.energy_pj, worst), bound


def _words_alone(encoded: Encoded) -> Encoded:
    """A machine on which energy is the storage words read and written at the outermost level."""
    c = encoded.constants
    energy = np.zeros_like(c.energy)
    energy[0, :, :3] = 1.0
    return replace(
        encoded,
        constants=c._replace(
            energy=energy,
            mac=np.zeros_like(c.mac),
            leak=np.zeros_like(c.leak),
            block=np.ones_like(c.block),
            block_shift=np.zeros_like(c.block_shift),
            transfers=np.zeros_like(c.transfers),
        ),
    )


def _ranges(
    space: MapSpace, nest: Nest, sample: UniformSample, best: Mapping[str, tuple[Result, float]]
) -> tuple[Range, ...]:
    """Ranges of energy, cycles and outer words; of fully used mappings what was found among the drawn ones."""
    found = []
    columns = ("energy", "cycles", "outer_words")
    for column, at, limit in zip(columns, (ENERGY, CYCLES, WORDS), upper_limits(nest), strict=True):
        values = sample.values(column)
        starts = [sample.mapping(int(index)) for index in np.argsort(-values, kind="stable")[:CLIMBS]]
        if nest.fully_used:
            lowest, bound = sample.result(int(np.argmin(values))), best[column][1]
            highest = evaluate_encoded(space.encoded, starts[0])
        else:
            lowest, bound = best[column]
            highest = evaluate_encoded(space.encoded, largest(space, starts, at)[0])
        low, high = (_value(result, column) for result in (lowest, highest))
        found.append(Range(column, low, min(low, bound), high, max(high, limit), lowest, highest))
    return tuple(found)


def _value(result: Result, column: str) -> float:
    if column == "energy":
        return result.energy_pj
    if column == "cycles":
        return float(result.cycles)
    outermost = [t for t in result.tensors if t.level == result.levels[0].level]
    parts = result.levels[0].word_bits
    return float(sum((t.reads + t.fills + t.updates) * -(-t.word_bits // parts) for t in outermost))
