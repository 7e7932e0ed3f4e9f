"""Uniform samples of the valid mappings of a map space, without rejection, and what they cost.

From the outside in: at each tile shape the ways that lead there are counted, so the last loop of such a way is chosen
with the share of the ways that end in it. Axis letters as in `accelsim.population.counting`; B = mappings drawn, O =
what may be chosen.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from accelsim.inputs.errors import AccelsimError, NoValidMappingError
from accelsim.inputs.mapping import Mapping
from accelsim.model.detail import PARTIAL, READS, Detail, make_detail
from accelsim.model.encode import Batch, Bools, Constants, Floats, Ints, decode_mapping, empty_batch
from accelsim.model.evaluate import evaluate_encoded
from accelsim.model.jit import jit
from accelsim.model.kernel import VALID, cost, fit
from accelsim.model.records import Floats2
from accelsim.model.result import Result
from accelsim.model.sparsity import sparse_result
from accelsim.model.sparsity.result import SparseResult
from accelsim.population.counting import Keeping, LoopStep, Nest, put_loops
from accelsim.search.stopping import asked, heeding
from accelsim.search.value_kernel import CYCLES, ENERGY, WORDS

TOGETHER = 4096
"""Mappings that are drawn together, from random numbers of their own."""
MOST_SUMS = 400_000_000
"""Sums that are kept for drawing, at most: 3.2 GB."""


@jit
def evaluate_columns(c: Constants, batch: Batch, s: Detail, column: Floats2) -> None:
    """Evaluate a batch.

    Written is float64[3, B]: energy [pJ], cycles, words read and written at the outermost level; infinite for what does
    not fit.
    """
    for b in range(batch.temporal.shape[0]):
        column[:, b] = np.inf
        if fit(c, batch, b, s, False) != VALID:
            continue
        status, energy, cycles = cost(c, batch, b, s, False)
        if status != VALID:
            continue
        words = 0
        for t in range(c.whole.shape[0]):
            for action in range(3):
                words += s.at[0, t, READS + action] * c.word_parts[0, t, s.at[0, t, PARTIAL]]
        column[ENERGY, b], column[CYCLES, b] = energy, float(cycles)
        column[WORDS, b] = float(words)


class _Multiplicities(NamedTuple):
    """Counted ways through the loops of a step.

    R = rooms, J = sizes of a dimension.
    """

    weights: Floats
    """float64[R]: what a way counts by its room in the end."""
    sums: list[Floats]
    """float64[R * S] before the loops over each dimension, and after all of them: ways to come to a room and a tile
    shape."""
    inside: list[Ints]
    """int64[1 + J, R, J] for each dimension: where the ways before its loop stand in `sums`, for the shape with no size
    of this dimension; first without a loop, then around each size. -1 if there is no way."""


class Sampler:
    """Draws mappings uniformly and independently from all valid ones.

    The shares of the ways are float64, so that a mapping's probability is off by some 1e-13 of itself. If partial sums
    are wider than finished words some mappings drawn do not fit, and are left out. Raises NoValidMappingError if there
    is none, AccelsimError if there are too many tile shapes.
    """

    def __init__(self, nest: Nest) -> None:
        self.nest, self.multiplicities = nest, list[_Multiplicities | None]()
        _refuse_too_many(nest)
        self.apart = [math.prod(nest.shape[d + 1 :]) for d in range(len(nest.shape))]
        values: Floats = np.zeros((1, *nest.shape))
        values.reshape(-1)[0] = 1.0
        for step in nest.steps:
            if isinstance(step, Keeping):
                self.multiplicities.append(None)
                values = values * step.choices
                continue
            trace: list[Floats] = []
            values = put_loops(step, values, trace)
            inside = [self._inside(step, d) for d in range(len(nest.shape))]
            self.multiplicities.append(
                _Multiplicities(np.array(step.weights, float), [each.reshape(-1) for each in trace], inside)
            )
        if not values.reshape(-1)[-1] > 0:
            raise NoValidMappingError("no mapping is valid")
        self._last: tuple[tuple[int, int], Batch] | None = None

    def _inside(self, step: LoopStep, d: int) -> Ints:
        """Where the ways before the loop of a dimension are; see `_Multiplicities`."""
        sizes, shapes, pairs = self.nest.shape[d], math.prod(self.nest.shape), step.rooms_after(d)
        found = np.full((1 + sizes, len(step.rooms[d + 1]), sizes), -1, np.int64)
        for before, room in pairs.get(1, ()):
            found[0, room] = before * shapes + np.arange(sizes) * self.apart[d]
        for i, j, bound in step.moves[d]:
            for before, room in pairs[bound]:
                found[1 + i, room, j] = before * shapes + i * self.apart[d]
        return found

    def draw(self, seed: int, number: int) -> Batch:
        """Draw the mappings of a number: `TOGETHER` of them, the same for the same seed."""
        rng, nest = np.random.default_rng((seed, number)), self.nest
        batch = empty_batch(nest.space.encoded, TOGETHER)
        at = np.full(TOGETHER, math.prod(nest.shape) - 1)
        for step, multiplicities in zip(reversed(nest.steps), reversed(self.multiplicities), strict=True):
            if isinstance(step, Keeping):
                fits = step.fits.reshape(len(step.keeps), -1)
                batch.keep[:, step.level] = step.keeps[_choose(rng, np.take(fits, at, axis=1))]
            elif multiplicities is not None:
                at = self._draw_loops(rng, step, multiplicities, at, batch)
        return batch

    def _draw_loops(
        self, rng: np.random.Generator, step: LoopStep, multiplicities: _Multiplicities, at: Ints, batch: Batch
    ) -> Ints:
        """Draw the loops of a step around a tile, from the shape outside; returns the shape inside."""
        shapes, block = math.prod(self.nest.shape), {"": batch.temporal, "x": batch.x, "y": batch.y}[step.slot.axis]
        room = _choose(
            rng, np.take(multiplicities.sums[-1].reshape(-1, shapes), at, axis=1) * multiplicities.weights[:, None]
        )
        for d in range(len(self.nest.shape) - 1, -1, -1):
            if self.nest.shape[d] == 1:
                continue
            size = at // self.apart[d] % self.nest.shape[d]
            before = multiplicities.inside[d][:, room, size]
            place = before + (at - size * self.apart[d])
            loop = _choose(rng, np.where(before >= 0, np.take(multiplicities.sums[d], place), 0.0))
            room, at = np.divmod(place[loop, np.arange(len(at))], shapes)
            inside = np.where(loop > 0, loop - 1, size)
            block[:, step.slot.level, d] = self.nest.sizes[d][size] // self.nest.sizes[d][inside]
        if not step.slot.axis:
            batch.order[:, step.slot.level] = self._draw_order(rng, step.slot.level, block[:, step.slot.level] > 1)
        return at

    def _draw_order(self, rng: np.random.Generator, level: int, loops: Bools) -> Ints:
        """Order of a temporal block: loops of fixed places at its ends, the others in any order, those of bound 1 last.

        loops : bool[B, D], whether a dimension has a loop; returns int64[B, D].
        """
        place, dims = rng.random(loops.shape), loops.shape[1]
        for end, first in zip(self.nest.space.fixed_places(level), (-dims, 1), strict=True):
            for k, d in enumerate(end):
                place[:, d] = first + k
        return np.argsort(np.where(loops, place, 2 * dims), axis=1, kind="stable")

    def mapping(self, seed: int, index: int) -> Mapping:
        """Mapping of an index in the sequence of a seed."""
        which = seed, index // TOGETHER
        if self._last is None or self._last[0] != which:
            self._last = which, self.draw(*which)
        return decode_mapping(self.nest.space.encoded, self._last[1], index % TOGETHER)

    def sample(self, count: int, seed: int = 0, *, workers: int = 1) -> UniformSample:
        """Draw and evaluate mappings; the same seed gives the same ones, whatever the number of workers."""
        encoded, parts = self.nest.space.encoded, list[Floats]()

        def evaluate(number: int) -> Floats:
            batch = self.draw(seed, number)
            column = np.zeros((3, TOGETHER))
            evaluate_columns(encoded.constants, batch, make_detail(encoded), column)
            return column[:, : count - number * TOGETHER]

        with heeding(), ThreadPoolExecutor(workers) as pool:
            jobs = [pool.submit(evaluate, number) for number in range(-(-count // TOGETHER))]
            try:
                for job in jobs:
                    parts.append(job.result())
                    if asked():
                        break
            except KeyboardInterrupt:
                pass
            pool.shutdown(cancel_futures=True)
        column = np.concatenate([np.zeros((3, 0)), *parts], axis=1)
        column[WORDS] = np.ceil(column[WORDS] / encoded.units_per_word[0])
        valid = np.flatnonzero(np.isfinite(column[ENERGY]))
        costs = (np.ascontiguousarray(column[of, valid]) for of in (ENERGY, CYCLES, WORDS))
        return UniformSample(self, seed, count, column.shape[1], valid, *costs)


def _choose(rng: np.random.Generator, weights: Floats | Bools) -> Ints:
    """Choose one of some, each with its share: int64[B], from [O, B]."""
    sums = np.cumsum(weights, axis=0, dtype=np.float64)
    target = np.minimum(rng.random(sums.shape[1]) * sums[-1], np.nextafter(sums[-1], 0.0))
    return np.asarray((sums <= target).sum(axis=0))


def _refuse_too_many(nest: Nest) -> None:
    steps = [step for step in nest.steps if isinstance(step, LoopStep)]
    shapes = math.prod(nest.shape)
    total = shapes * sum(len(rooms) for step in steps for rooms in step.rooms)
    if total > MOST_SUMS:
        raise AccelsimError(
            f"{shapes:,} tile shapes need {total / 1e9:.1f}e9 numbers to draw mappings from, more than "
            f"{MOST_SUMS / 1e9:.1f}e9; constrain the map space"
        )


@dataclass(frozen=True, slots=True)
class Interval:
    """A number that was estimated from a sample, and the ends of its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class UniformSample:
    """Mappings drawn uniformly and independently from all valid ones, and what they cost; arrays over B.

    Fewer are `drawn` than `asked` for only after an interrupt; B of these are valid, all unless partial sums are wider
    than finished words. `number` is that of each mapping in the sequence of the seed.
    """

    sampler: Sampler
    seed: int
    asked: int
    drawn: int
    number: Ints
    energy_pj: Floats
    cycles: Floats
    offchip_words: Floats  # storage words read and written at the outermost level

    def __len__(self) -> int:
        """How many mappings there are."""
        return len(self.number)

    @property
    def utilization(self) -> Floats:
        """Share of the compute units' cycles that do multiply-accumulates, float64[B]."""
        encoded = self.sampler.nest.space.encoded
        machine = encoded.architecture
        ideal = encoded.einsum.real_macs * machine.compute.cycles_per_mac / machine.macs
        return ideal / self.cycles

    def mapping(self, index: int) -> Mapping:
        """One of the mappings."""
        return self.sampler.mapping(self.seed, int(self.number[index]))

    def result(self, index: int) -> Result:
        """Evaluate one of the mappings with every detail."""
        return evaluate_encoded(self.sampler.nest.space.encoded, self.mapping(index))

    def with_zeros(self, most: int) -> list[SparseResult]:
        """What the first mappings cost with zeros left out; none on a machine that does nothing about them."""
        encoded = self.sampler.nest.space.encoded
        if not encoded.architecture.saves_zeros:
            return []
        found = (
            sparse_result(encoded.architecture, encoded.einsum, self.result(index))
            for index in range(min(most, len(self)))
        )
        return [each for each in found if each is not None]

    def kept(self) -> Bools:
        """What each level keeps in the mappings, bool[B, L, T]."""
        drawn = [self.sampler.draw(self.seed, number).keep for number in range(-(-self.drawn // TOGETHER))]
        return np.concatenate(drawn)[self.number]

    def nearest(self, column: str, value: float) -> int:
        """Index of the mapping whose column is closest to a value."""
        return int(np.argmin(np.abs(self.values(column) - value)))

    def values(self, column: str) -> Floats:
        """A column by its name: energy, cycles, edp, offchip_words or utilization; float64[B]."""
        columns = {
            "energy": self.energy_pj,
            "cycles": self.cycles,
            "edp": self.energy_pj * self.cycles,
            "offchip_words": self.offchip_words,
            "utilization": self.utilization,
        }
        if column not in columns:
            raise AccelsimError(f"'{column}' is no column of a sample; write one of {', '.join(columns)}")
        return columns[column]

    def mean(self, column: str) -> Interval:
        """Mean over all valid mappings, estimated, with its 95 % confidence interval (central limit theorem)."""
        values = self.values(column)
        half = 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf
        return Interval(float(values.mean()), float(values.mean()) - half, float(values.mean()) + half)

    def deviation(self, column: str) -> Interval:
        """Standard deviation over all valid mappings, estimated, with its 95 % confidence interval.

        The logarithm of the sample's is normal in the limit, with the variance (kurtosis - 1) / 4B (delta method;
        tests/test_population.py counts how often the interval covers).
        """
        values = self.values(column)
        spread = float(values.std())
        if spread == 0.0:
            return Interval(0.0, 0.0, math.inf)
        kurtosis = float((((values - values.mean()) / spread) ** 4).mean())
        factor = math.exp(1.96 * math.sqrt(max(0.0, kurtosis - 1.0) / (4 * len(values))))
        return Interval(spread, spread / factor, spread * factor)

    def quantile(self, column: str, share: float) -> Interval:
        """Value that a share of all valid mappings does not exceed, with its 95 % confidence interval.

        The interval lies between two of the sorted values: how many are below the quantile is binomial (Conover,
        Practical Nonparametric Statistics, 3rd edition, section 3.2).
        """
        values = np.sort(self.values(column))
        middle, half = share * len(values), 1.96 * math.sqrt(len(values) * share * (1 - share))
        low, high = math.floor(middle - half), math.ceil(middle + half)
        at = min(max(math.ceil(middle * (1 - 1e-12)) - 1, 0), len(values) - 1)
        return Interval(
            float(values[at]),
            float(values[low - 1]) if low >= 1 else -math.inf,
            float(values[high - 1]) if high <= len(values) else math.inf,
        )

    def share(self, chosen: Bools) -> Interval:
        """Share of all valid mappings with some property, with its 95 % confidence interval.

        Wilson's interval (Journal of the American Statistical Association 22, 1927, pages 209-212). `chosen`: bool[B].
        """
        n, z = len(chosen), 1.96
        p = float(chosen.mean())
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return Interval(p, max(0.0, middle - half), min(1.0, middle + half))
