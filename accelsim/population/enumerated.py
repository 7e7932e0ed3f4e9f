"""Parts of a census that are counted one by one, each within its share of the time."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple, TypeVar

import numpy as np

from accelsim.inputs.errors import TablesTooLarge
from accelsim.inputs.mapping import Mapping
from accelsim.mapspace.space import MapSpace
from accelsim.model.encode import PE, Encoded, Ints
from accelsim.model.evaluate import evaluate_encoded
from accelsim.model.result import Result
from accelsim.population.counting import count_by_units, count_inside, count_inside_by_units, count_inside_once, ways_to
from accelsim.population.draw_kernel import ENERGY
from accelsim.population.extremes import SOME_LABELS, Extreme, climb_from, largest_value
from accelsim.population.result import Fewest, Near, NearPeak
from accelsim.population.sampling import Sampler, UniformSample
from accelsim.population.steps import Nest, Step
from accelsim.search.exact.count import Counter
from accelsim.search.exact.found_kernel import SURE, WITHIN
from accelsim.search.exact.solve import Solver
from accelsim.search.stopping import answering, raising
from accelsim.search.strategy import Budget

NEAR = (0.0, 0.01, 0.05, 0.1)
"""Shares above the lowest energy within which mappings are counted."""
PEAK = Fraction(19, 20)
"""Overall utilization from which on a mapping is close to peak throughput."""
FEW = 1000
"""Mappings with the fewest outer words that are evaluated one by one where their worst is not proved otherwise."""
CLIMBS = 8
"""Mappings from which the largest values are looked for."""
PARTS = {"energy": 0.3, "fewest": 0.25, "cycles": 0.1, "front": 0.1, "peak": 0.1, "near": 0.15}
"""Shares of the time for what is counted one by one, in this order."""
SPARE = "front", "near"
"""Parts that also have what those before them leave."""
NO_TIME = 1e-6
"""Seconds that a part has at least, for a first answer."""

OnPart = Callable[[str], None]
Made = TypeVar("Made")


@dataclass(slots=True)
class Clock:
    """Shares out the time for what is counted one by one, and skips the rest after an interrupt."""

    seconds: float | None
    on_part: OnPart | None
    stop: str = "exhausted"
    left: float = 0.0
    end: float = 0.0

    def attempt(self, what: str, make: Callable[[], Made]) -> Made | None:
        """Make a part, or None once Ctrl-C was pressed; the second time it is obeyed at once."""
        if self.stop == "interrupted":
            return None
        try:
            with raising():
                if self.on_part is not None:
                    self.on_part(what)
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
    """Count mappings close to the lowest energy."""
    deadline = clock.deadline("near")
    counter = Counter(space, workers=cores)
    found: list[Near] = []
    for share in NEAR:
        if found and not found[-1].complete:
            found.append(Near(share, found[-1].mappings, complete=False))
            continue
        mappings, stop = counter.count_up_to(lowest * (1.0 + share) * (1.0 + SURE), deadline)
        found.append(Near(share, max(mappings, found[-1].mappings if found else 0), clock.note(stop)))
    return tuple(found)


class FewestFound(NamedTuple):
    """The best and the worst mapping found of those with the fewest outer words, what is told of these, and a bound.

    No mapping falls below `bound` [storage words]. `told` is None where no search proves that none has fewer words.
    """

    best: Result
    worst: Result
    bound: float
    told: Fewest | None


def fewest(space: MapSpace, nest: Nest, clock: Clock, cores: int) -> FewestFound | None:
    """Find the fewest outer words, count the mappings that move no more, and find the best and worst of them.

    None if time ran out before any mapping was found.
    """
    deadline = clock.deadline("fewest")
    outer = MapSpace(words_alone(space.encoded), space.constraints)
    try:
        least = Solver(outer, workers=cores, deadline=deadline)
        few = least.search(room=CLIMBS, floor=(least.least_words, 0.0), deadline=deadline)
    except (TimeoutError, TablesTooLarge) as why:
        clock.note("timeout" if isinstance(why, TimeoutError) else "memory")
        return None
    if not few.found.many[0]:
        clock.note(few.stop)
        return None
    units = space.encoded.units_per_word[0]
    words = round(float(few.found.value[0]))
    slack = -words % units  # a part of a word that compression leaves counts whole
    words += slack
    starts = [least.mapping(few.found, i) for i in np.flatnonzero(few.found.value <= words).tolist()]
    first = evaluate_encoded(space.encoded, starts[0])
    if not clock.note(few.stop):
        return FewestFound(first, first, math.ceil(few.bound / units * (1 - SURE)), None)
    solver = Solver(space, workers=cores, word_price=0.0 if slack else first.energy_pj / words)
    solver.limit_words(words)
    best = solver.search(deadline=deadline)
    if "interrupted" in (few.stop, best.stop):
        raise KeyboardInterrupt
    start = solver.mapping(best.found, 0) if best.found.many[0] else starts[0]
    mappings, reached, stop = _count_fewest(Counter(outer, workers=cores), nest, words, deadline)
    mappings = max(mappings, 1)  # the one that was found, if there was no time to count
    climbed = climb_from(space, [start, *starts], ENERGY, most_words=words)
    complete = [clock.note(each) for each in (best.stop, stop)]
    found = _worst(nest, reached if complete[1] else reached[:0], words, climbed)
    if found.value < found.bound and all(complete) and mappings <= FEW:
        solver = Solver(outer, every=True, workers=cores)
        every = solver.search(kind=WITHIN, limit=float(words), room=mappings, deadline=deadline)
        many = int(every.found.many[0])
        if every.stop == "exhausted" and many == every.found.tally[2]:
            listed = (solver.mapping(every.found, i) for i in range(many))
            priced = [(evaluate_encoded(space.encoded, mapping).energy_pj, mapping) for mapping in listed]
            value, mapping = max(priced, key=lambda each: each[0])
            found = Extreme(value, mapping, value)
    lowest, highest = (evaluate_encoded(space.encoded, mapping) for mapping in (start, found.mapping or start))
    told = Fewest(words // units, mappings, all(complete), lowest.energy_pj, highest.energy_pj, found.bound)
    return FewestFound(lowest, highest, words / units, told)


def _count_fewest(counter: Counter, nest: Nest, words: int, deadline: float | None) -> tuple[int, Ints, str]:
    """Mappings with so few outer words, the tiles that all of them go through, and why the count ended.

    Where partial sums are wider than finished words, the ways inside a tile do not tell which have room for them: the
    mappings are listed, and no tiles are told.
    """
    rows = np.zeros((0, len(counter.space.encoded.architecture.levels), counter.grid.shapes.total), np.int64)
    if counter.space.encoded.constants.two_widths[0]:
        mappings, stop = counter.count_up_to(float(words), deadline)
        return mappings, rows, stop
    reached, leaves, stop = counter.count_settled(words, deadline, once=True)
    return leaves + completed(nest, reached), rows if leaves else reached, stop


def _worst(nest: Nest, reached: Ints, words: int, known: tuple[Mapping, float]) -> Extreme:
    """The mapping of largest energy found of those with so few outer words, and what none exceeds [pJ].

    Parameters
    ----------
    reached : int64[1 + 2 * T, L, *S]
        As `Counter.count_settled` returns it, if all these mappings go through such tiles; else without rows.
    words : int
    known : (Mapping, float)
        One of them, and what it takes [pJ].
    """
    groups = np.argwhere(reached.any(axis=2)).tolist()
    nests = [
        nest.through(
            level,
            reached[row, level].astype(np.bool_).reshape(nest.shape),
            still=row // 2 - 1 if row and row % 2 == 0 else -1,
        )
        for row, level in groups
    ]
    mapping, value = known
    found = [largest_value(each, ENERGY, value, most_words=words, most_labels=SOME_LABELS) for each in nests or [nest]]
    worst = max(found, key=lambda each: each.value)
    return Extreme(worst.value, worst.mapping or mapping, max(each.bound for each in found))


def completed(nest: Nest, reached: Ints) -> int:
    """Mappings that the ways to tiles of `Counter.count_settled` lead to."""
    inside = [count_inside(nest)]
    for t in range(len(reached) // 2):
        inside += count_inside_once(nest, t) if reached[1 + 2 * t : 3 + 2 * t].any() else ([], [])
    tiles = np.argwhere(reached).tolist()
    return sum(int(reached[row, lv, shape]) * ways_to(inside[row][lv], shape) for row, lv, shape in tiles)


def fewest_with_drawn(found: FewestFound | None, sample: UniformSample) -> Fewest | None:
    """What is told of these mappings with those of them that were drawn; all of them where all were evaluated."""
    told = None if found is None else found.told
    if sample.complete:
        words = float(sample.outer_words.min())
    elif found is None or told is None:
        return None
    else:
        words = found.bound
    drawn = sample.energy_pj[sample.outer_words <= words * (1 + SURE)]
    if not len(drawn):
        return told
    low, high = float(drawn.min()), float(drawn.max())
    if sample.complete or told is None:
        return Fewest(math.ceil(words), len(drawn), True, low, high, high)
    low, high = min(told.lowest_pj, low), max(told.highest_pj, high)
    return replace(told, lowest_pj=low, highest_pj=high, highest_bound=max(high, told.highest_bound))


def words_alone(encoded: Encoded) -> Encoded:
    """A machine on which energy is the storage words read and written at the outermost level, in its units."""
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


def near_peak(
    space: MapSpace, samples: int, seed: int, least_cycles: float, clock: Clock, cores: int
) -> tuple[NearPeak, UniformSample | None]:
    """Count the mappings close to peak throughput, or estimate their number from those with axes as busy.

    Parameters
    ----------
    samples, seed : int
        Mappings that are drawn for the estimate.
    least_cycles : float
        What no mapping falls below.

    Returns
    -------
    NearPeak
    UniformSample, or None
        The mappings drawn, if any were.
    """
    work = space.encoded.einsum.macs * space.encoded.architecture.compute.cycles_per_mac
    most = _most_cycles(space)
    enough = math.inf if most == 0 else -(-work // most)
    busy = Nest(space, PEAK)
    spread = count_by_units(busy)
    spatial = sum(mappings for units, mappings in spread.items() if units >= enough)
    if not spatial or least_cycles > most:
        mappings, complete = 0, True
    else:
        mappings, complete = _count_fast(busy, spatial, most, int(enough), clock, cores)
    sample = Sampler(busy).sample(samples, seed, workers=cores) if spatial and (mappings or not complete) else None
    if sample is not None and sample.drawn < samples:
        clock.note("interrupted")
    return _near_peak(mappings, complete, spatial, sum(spread.values()), sample, most), sample


def near_peak_of_sample(mappings: int, sample: UniformSample) -> NearPeak:
    """What a sample of some mappings, of which there are so many, tells of those close to peak throughput."""
    most = _most_cycles(sample.sampler.nest.space)
    if not sample.complete:
        return _near_peak(0, False, mappings, mappings, sample, most)
    energies = sample.energy_pj[sample.cycles <= most]
    known = _near_peak(len(energies), True, mappings, mappings, None, most)
    if not len(energies):
        return known
    return replace(known, lowest_pj=float(energies.min()), highest_pj=float(energies.max()))


def _most_cycles(space: MapSpace) -> int:
    """Cycles of a mapping close to peak throughput, at most."""
    return math.floor(space.ideal_cycles / PEAK)


def _near_peak(
    mappings: int, complete: bool, spatial: int, drawn_from: int, sample: UniformSample | None, most: int
) -> NearPeak:
    """What was counted, and what mappings drawn from `drawn_from` ones tell."""
    high = float(mappings if complete else spatial)
    known = NearPeak(float(PEAK), mappings, complete, spatial, float(mappings), high, 0, 0, None, None)
    if sample is None or not sample.drawn:
        return known
    known = replace(known, drawn_from=sample.drawn)
    energies = sample.energy_pj[sample.cycles <= most]
    if not complete:
        share = sample.share(np.arange(sample.drawn) < len(energies))
        low, high = max(known.low, share.low * drawn_from), min(share.high * drawn_from, high)
        known = replace(known, low=low, high=max(low, high))
    if not len(energies):
        return known
    return replace(known, drawn=len(energies), lowest_pj=float(energies.min()), highest_pj=float(energies.max()))


def _count_fast(busy: Nest, spatial: int, most: int, enough: int, clock: Clock, cores: int) -> tuple[int, bool]:
    """Count the mappings of at most so many cycles: how many there are at least, and whether these are all.

    Parameters
    ----------
    busy : Nest
        Of mappings that may do.
    spatial : int
        Those of them that use enough compute units.
    most : int
        Cycles.
    enough : int
        Compute units that must be in use.
    """
    deadline, space = clock.deadline("peak"), busy.space
    c = space.encoded.constants
    plain = c.array[PE] < 0 and not c.two_widths[0]
    if plain and not c.limited.any():
        return spatial, True
    outside = _units_outside(busy, enough) if plain and not c.limited[1:].any() and not c.bandwidth[0, 1:].any() else ()
    if outside:
        solver = Counter(MapSpace(words_alone(space.encoded), space.constraints))
        solver.limit_cycles(most)
        words = int(most * c.bandwidth[0, 0, 0] // c.bandwidth[0, 0, 1])
        reached, leaves, stop = solver.count_settled(words, deadline)
        inside = count_inside_by_units(busy)
        mappings = leaves
        for lv, shape in np.argwhere(reached[0]).tolist():
            ways = sum(ways_to(ways, shape) for units, ways in inside[lv].items() if units * outside[lv] >= enough)
            mappings += int(reached[0, lv, shape]) * ways
        return mappings, clock.note(stop)
    try:
        search = Solver(space, cycles=True, every=True, alike=True, workers=cores, deadline=deadline)
    except TimeoutError:
        return 0, clock.note("timeout")
    search.limit_cycles(most)
    outcome = search.search(kind=WITHIN, power=(0.0, 1.0), limit=float(most), deadline=deadline)
    return int(outcome.found.tally[2]), clock.note(outcome.stop)


def _units_outside(busy: Nest, enough: int) -> tuple[int, ...]:
    """Instances of each level that are in use if at least `enough` compute units are; empty if there is a choice."""
    machine = busy.space.encoded.architecture
    found, used = [1], {1}
    for level in range(len(machine.levels) - 1):
        for step in busy.steps:
            if isinstance(step, Step) and step.slot.axis and step.slot.level == level:
                wanted = itertools.compress(step.products, step.wanted)
                used = {units * product for units, product in itertools.product(used, wanted)}
        inside = machine.macs // machine.instances(level + 1)
        used = {units for units in used if units * inside >= enough}
        if len(used) != 1:
            return ()
        found += used
    return tuple(found)
