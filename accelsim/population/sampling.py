"""Uniform samples of the valid mappings of a map space, without rejection, and what they cost.

Axis letters as in `accelsim.population.steps`; B = mappings drawn.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import Mapping
from accelsim.model.detail import make_detail
from accelsim.model.encode import Bools, Floats, Ints, decode_mapping, empty_batch
from accelsim.model.evaluate import evaluate_encoded
from accelsim.model.result import Result
from accelsim.population.draw_kernel import (
    CYCLES,
    ENERGY,
    UNITS,
    WORDS,
    Drawn,
    draw_and_evaluate,
    draw_batch,
    make_drawn,
)
from accelsim.population.listing_kernel import list_valid, place_listed
from accelsim.population.result import Interval
from accelsim.population.steps import Nest
from accelsim.population.ways import Ways, lay_ways
from accelsim.search.stopping import asked, heeding

PIECE = 150_000
"""Mappings that a thread draws at a time, at most; no power of two: rows of so many would share the sets of a cache."""
TOGETHER = 64
"""Mappings that are written as loops before they are evaluated."""
DECODED = 10_000
"""Mappings that are drawn again at a time to see what they keep."""
POLL_SECONDS = 0.05


class Sampler:
    """Draws mappings uniformly and independently from all valid ones.

    The shares of the ways are float64, so that a mapping's probability is off by some 1e-13 of itself. If partial sums
    are wider than finished words some mappings drawn do not fit, and are left out.

    Parameters
    ----------
    nest : Nest

    Raises
    ------
    NoValidMapping, AccelsimError
        As `accelsim.population.ways.lay_ways`.
    """

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.ways = lay_ways(nest)

    def mapping(self, seed: int, number: int) -> Mapping:
        """Draw the mapping of a number of the sequence of a seed."""
        return draw_one(self.nest, self.ways, stream_key(seed), number)

    def sample(
        self,
        count: int,
        seed: int = 0,
        *,
        workers: int = 1,
        seconds: float | None = None,
        on_poll: Callable[[int], None] | None = None,
    ) -> UniformSample:
        """Draw and evaluate mappings.

        Parameters
        ----------
        count : int
        seed : int
            The same seed gives the same mappings, whatever the number of workers.
        workers : int
        seconds : float, optional
            When to stop with those drawn so far.
        on_poll : callable, optional
            Called a few times a second with how many there are.
        """
        step = min(PIECE, -(-count // workers))
        pieces = [Piece(stream_key(seed), first, min(step, count - first)) for first in range(0, count, step)]
        column = evaluate_pieces(self.nest, self.ways, pieces, workers=workers, seconds=seconds, on_poll=on_poll)
        valid = np.flatnonzero(np.isfinite(column[ENERGY]))
        found = np.ascontiguousarray(column[:, valid])
        return _as_sample(self, seed, (count, column.shape[1]), valid, found, complete=False)

    @property
    def tilings(self) -> int:
        """Choices of what levels keep and of the factorisation of each dimension, valid or not."""
        space = self.nest.space
        return space.keep_choices * math.prod(len(rows) for rows in space.rows)

    def every(self, mappings: int) -> UniformSample:
        """Evaluate all valid mappings instead of drawing any.

        Parameters
        ----------
        mappings : int
            How many there are (`count_mappings`); 32 bytes are kept of each. Partial sums must not be wider than
            finished words.
        """
        space, encoded, macs = self.nest.space, self.nest.space.encoded, self.nest.space.encoded.architecture.macs
        column, number = np.zeros((4, mappings)), np.zeros(mappings, np.int64)
        starts, loops = (np.zeros(len(encoded.architecture.levels), np.int64) for _ in range(2))
        list_valid(
            encoded.constants, space.arrays, self.tilings, macs if self.nest.fully_used else 0, empty_batch(encoded, 1),
            make_detail(encoded), starts, loops, column, number,
        )  # fmt: skip
        column[WORDS] = np.ceil(column[WORDS] / encoded.units_per_word[0])
        return _as_sample(self, 0, (mappings, mappings), number, column, complete=True)


@dataclass(frozen=True, slots=True, eq=False)
class UniformSample:
    """Mappings drawn uniformly and independently from all valid ones, and what they cost; or all of these, each once.

    Attributes
    ----------
    sampler : Sampler
    seed : int
    asked, drawn : int
        How many were asked for, and how many were drawn, fewer only after an interrupt; B of these are valid, all
        unless partial sums are wider than finished words.
    number : int64[B]
        Of each mapping in the sequence of the seed; of a complete sample, of the mapping's tiling.
    energy_pj : float64[B]
    cycles : float64[B]
    outer_words : float64[B]
        Storage words read and written at the outermost level.
    units : float64[B]
        Compute units in use.
    complete : bool
        Whether these are all valid mappings. Means, quantiles and shares are exact then, and their intervals points.
    """

    sampler: Sampler
    seed: int
    asked: int
    drawn: int
    number: Ints
    energy_pj: Floats
    cycles: Floats
    outer_words: Floats
    units: Floats
    complete: bool

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
        if not self.complete:
            return self.sampler.mapping(self.seed, int(self.number[index]))
        space, tiling = self.sampler.nest.space, int(self.number[index])
        batch, rank = empty_batch(space.encoded, 1), index - int(np.searchsorted(self.number, tiling))
        starts, loops = (np.zeros(len(space.encoded.architecture.levels), np.int64) for _ in range(2))
        place_listed(space.arrays, tiling, rank, batch, starts, loops)
        return decode_mapping(space.encoded, batch, 0)

    def result(self, index: int) -> Result:
        """Evaluate one of the mappings with every detail."""
        return evaluate_encoded(self.sampler.nest.space.encoded, self.mapping(index))

    def kept(self) -> Bools:
        """What each level keeps in mappings that were drawn, bool[B, L, T]."""
        if self.complete:
            raise ValueError("these mappings were listed, not drawn")
        nest, ways, key = self.sampler.nest, self.sampler.ways, stream_key(self.seed)
        kept, line = [], np.zeros(len(nest.shape), np.int64)
        for first in range(0, len(self), DECODED):
            numbers = self.number[first : first + DECODED]
            batch = empty_batch(nest.space.encoded, len(numbers))
            draw_batch(ways, nest.space.arrays, key, numbers, make_drawn(ways, len(numbers)), line, batch)
            kept.append(batch.keep)
        found: Bools = np.concatenate(kept)
        return found

    def nearest(self, column: str, value: float) -> int:
        """Index of the mapping whose column is closest to a value."""
        return int(np.argmin(np.abs(self.values(column) - value)))

    def values(self, column: str) -> Floats:
        """A column by its name: energy, cycles, edp, outer_words or utilization; float64[B]."""
        columns = {
            "energy": self.energy_pj,
            "cycles": self.cycles,
            "edp": self.energy_pj * self.cycles,
            "outer_words": self.outer_words,
            "utilization": self.utilization,
        }
        if column not in columns:
            raise AccelsimError(f"'{column}' is no column of a sample; write one of {', '.join(columns)}")
        return columns[column]

    def mean(self, column: str) -> Interval:
        """Mean over all valid mappings, estimated, with its 95 % confidence interval (central limit theorem)."""
        values = self.values(column)
        if self.complete:
            return Interval(*[float(values.mean())] * 3)
        half = 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf
        return Interval(float(values.mean()), float(values.mean()) - half, float(values.mean()) + half)

    def deviation(self, column: str) -> Interval:
        """Standard deviation over all valid mappings, estimated, with its 95 % confidence interval.

        The logarithm of the sample's is normal in the limit, with the variance (kurtosis - 1) / 4B (delta method;
        tests/test_population.py counts how often the interval covers).
        """
        values = self.values(column)
        spread = float(values.std())
        if self.complete:
            return Interval(spread, spread, spread)
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
        if self.complete:
            return Interval(*[float(values[at])] * 3)
        return Interval(
            float(values[at]),
            float(values[low - 1]) if low >= 1 else -math.inf,
            float(values[high - 1]) if high <= len(values) else math.inf,
        )

    def share(self, chosen: Bools) -> Interval:
        """Share of all valid mappings with some property, with its 95 % confidence interval.

        Wilson's interval (Journal of the American Statistical Association 22, 1927, pages 209-212).

        Parameters
        ----------
        chosen : bool[B]
        """
        n, z = len(chosen), 1.96
        p = float(chosen.mean())
        if self.complete:
            return Interval(p, p, p)
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return Interval(p, max(0.0, middle - half), min(1.0, middle + half))


def _as_sample(
    sampler: Sampler, seed: int, many: tuple[int, int], number: Ints, column: Floats, *, complete: bool
) -> UniformSample:
    """A sample of what the kernel wrote, float64[4, B]; `many` were asked for and drawn."""
    columns = column[ENERGY], column[CYCLES], column[WORDS], column[UNITS]
    return UniformSample(sampler, seed, *many, number, *columns, complete)


def stream_key(*seed: int) -> np.uint64:
    """Where the sequence of mappings of a seed begins."""
    return np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


class Piece(NamedTuple):
    """Mappings that one thread draws: so many of the sequence of a key from a number on."""

    key: np.uint64
    first: int
    many: int


def draw_one(nest: Nest, ways: Ways, key: np.uint64, number: int) -> Mapping:
    """Draw the mapping of a number of a sequence."""
    encoded, batch = nest.space.encoded, empty_batch(nest.space.encoded, 1)
    line = np.zeros(len(nest.shape), np.int64)
    draw_batch(ways, nest.space.arrays, key, np.array([number]), make_drawn(ways, 1), line, batch)
    return decode_mapping(encoded, batch, 0)


def evaluate_pieces(
    nest: Nest,
    ways: Ways,
    pieces: Sequence[Piece],
    *,
    workers: int = 1,
    seconds: float | None = None,
    on_poll: Callable[[int], None] | None = None,
) -> Floats:
    """Draw and evaluate mappings, some pieces at the same time.

    Returns
    -------
    float64[4, B]
        ENERGY [pJ], CYCLES, WORDS at the outermost level, UNITS; of all pieces before the first that was left out.
    """
    encoded, stopped = nest.space.encoded, threading.Event()
    done: list[int] = []
    spare: list[Drawn] = []

    def draw(piece: Piece) -> Floats | None:
        if stopped.is_set():
            return None
        drawn = spare.pop() if spare else make_drawn(ways, piece.many)
        if len(drawn.at) != piece.many:
            drawn = make_drawn(ways, piece.many)
        column = np.zeros((4, piece.many))
        numbers, line = np.arange(piece.first, piece.first + piece.many), np.zeros(len(nest.shape), np.int64)
        draw_and_evaluate(
            encoded.constants, ways, nest.space.arrays, piece.key, numbers,
            drawn, line, empty_batch(encoded, TOGETHER), make_detail(encoded), column,
        )  # fmt: skip
        spare.append(drawn)
        done.append(piece.many)
        return column

    started = time.monotonic()
    with heeding(), ThreadPoolExecutor(workers) as pool:
        jobs: list[Future[Floats | None]] = [pool.submit(draw, piece) for piece in pieces]
        try:
            while wait(jobs, timeout=POLL_SECONDS).not_done:
                if asked():
                    stopped.set()
                if seconds is not None and time.monotonic() - started > seconds:
                    stopped.set()
                if on_poll is not None:
                    on_poll(sum(done))
        except KeyboardInterrupt:
            stopped.set()
    drawn = itertools.takewhile(lambda part: part is not None, (job.result() for job in jobs))
    column: Floats = np.concatenate([np.zeros((4, 0)), *(part for part in drawn if part is not None)], axis=1)
    column[WORDS] = np.ceil(column[WORDS] / encoded.units_per_word[0])
    return column
