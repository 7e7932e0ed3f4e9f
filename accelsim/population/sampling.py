"""Uniform samples of the valid mappings of a map space, without rejection, and what they cost.

Axis letters as in `accelsim.population.steps`; B = mappings drawn.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np

from accelsim.errors import AccelsimError, NoValidMapping
from accelsim.mapping import Mapping
from accelsim.model.detail import make_detail
from accelsim.model.encode import Bools, Floats, Ints, decode_mapping, empty_batch
from accelsim.model.evaluate import evaluate_encoded
from accelsim.population.counting import put_loops
from accelsim.population.draw_kernel import ENERGY, WORDS, Ways, draw_and_evaluate, draw_batch
from accelsim.population.result import Interval
from accelsim.population.steps import Keeping, Nest, Step
from accelsim.result import Result

MOST_SUMS = 400_000_000
"""Sums that are kept for drawing, at most: 3.2 GB."""
PIECE = 16_384
"""Mappings that one thread draws at a time."""
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
    NoValidMapping
        If there is none.
    AccelsimError
        If there are too many tile shapes.
    """

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.ways = lay_ways(nest)

    def mapping(self, seed: int, number: int) -> Mapping:
        """Draw the mapping of a number of the sequence of a seed."""
        encoded = self.nest.space.encoded
        batch = empty_batch(encoded, 1)
        scratch = np.zeros(len(self.nest.shape), np.int64)
        numbers = np.array([number], np.int64)
        draw_batch(self.ways, self.nest.space.arrays, _key(seed), numbers, batch, scratch)
        return decode_mapping(encoded, batch, 0)

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
        encoded, space = self.nest.space.encoded, self.nest.space
        column, stop = np.full((4, count), np.inf), np.zeros(1, np.int64)
        done: list[int] = []

        def draw(first: int) -> int:
            part = np.zeros((4, min(PIECE, count - first)))
            drawn = int(draw_and_evaluate(
                encoded.constants, self.ways, space.arrays, _key(seed), first, empty_batch(encoded, 1),
                make_detail(encoded), np.zeros(len(self.nest.shape), np.int64), part, stop,
            ))  # fmt: skip
            column[:, first : first + drawn] = part[:, :drawn]
            done.append(drawn)
            return drawn

        started = time.monotonic()
        with ThreadPoolExecutor(workers) as pool:
            jobs: list[Future[int]] = [pool.submit(draw, first) for first in range(0, count, PIECE)]
            try:
                while wait(jobs, timeout=POLL_SECONDS).not_done:
                    if seconds is not None and time.monotonic() - started > seconds:
                        stop[0] = 1
                    if on_poll is not None:
                        on_poll(sum(done))
            except KeyboardInterrupt:
                stop[0] = 1
        drawn = 0
        for job in jobs:  # those from the first number on that are complete
            drawn += job.result()
            if job.result() < PIECE:
                break
        column = column[:, :drawn]
        column[WORDS] /= self.nest.space.encoded.units_per_word[0]
        valid = np.flatnonzero(np.isfinite(column[ENERGY]))
        return UniformSample(self, seed, drawn, valid, *np.ascontiguousarray(column[:, valid]))


@dataclass(frozen=True, slots=True, eq=False)
class UniformSample:
    """Mappings drawn uniformly and independently from all valid ones, and what they cost.

    Attributes
    ----------
    sampler : Sampler
    seed : int
    drawn : int
        How many were drawn; B of them are valid, all unless partial sums are wider than finished words.
    number : int64[B]
        Of each mapping in the sequence of the seed.
    energy_pj : float64[B]
    cycles : float64[B]
    outer_words : float64[B]
        Storage words read and written at the outermost level.
    units : float64[B]
        Compute units in use.
    """

    sampler: Sampler
    seed: int
    drawn: int
    number: Ints
    energy_pj: Floats
    cycles: Floats
    outer_words: Floats
    units: Floats

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
        half = 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf
        return Interval(float(values.mean()), float(values.mean()) - half, float(values.mean()) + half)

    def quantile(self, column: str, share: float) -> Interval:
        """Value that a share of all valid mappings does not exceed, with its 95 % confidence interval.

        The interval lies between two of the sorted values: how many are below the quantile is binomial (Conover,
        Practical Nonparametric Statistics, 3rd edition, section 3.2).
        """
        values = np.sort(self.values(column))
        middle, half = share * len(values), 1.96 * math.sqrt(len(values) * share * (1 - share))
        low, high = math.floor(middle - half), math.ceil(middle + half)
        at = min(max(math.ceil(middle) - 1, 0), len(values) - 1)
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
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return Interval(p, max(0.0, middle - half), min(1.0, middle + half))


def _key(seed: int) -> np.uint64:
    return np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


def lay_ways(nest: Nest) -> Ways:
    """Count the ways to each tile shape as floats, and lay them out for the kernel."""
    dims, most = len(nest.shape), max(nest.shape)
    rooms = [_rooms(step) for step in nest.steps]
    total = sum((dims + 1) * r * math.prod(nest.shape) for r, step in zip(rooms, nest.steps, strict=True) if r)
    if total > MOST_SUMS:
        raise AccelsimError(
            f"{math.prod(nest.shape):,} tile shapes need {total / 1e9:.1f}e9 numbers to draw mappings from, more than "
            f"{MOST_SUMS / 1e9:.1f}e9; constrain the map space"
        )
    steps, widest = len(nest.steps), max(rooms)
    kind, level = np.zeros(steps, np.int64), np.zeros(steps, np.int64)
    begin, stride = np.zeros((steps, dims + 1), np.int64), np.zeros((steps, dims + 1, dims), np.int64)
    weight = np.zeros((steps, widest))
    may_rest = np.zeros((steps, dims), np.bool_)
    first_move = np.zeros((steps, dims, most + 1), np.int64)
    choice = np.zeros(steps + 1, np.int64)
    moves: list[tuple[int, int, list[int]]] = []
    sums: list[Floats] = []
    keeps, fits = [], []
    values: Floats = np.zeros((1, *nest.shape))
    values.reshape(-1)[0] = 1.0
    at = 0
    for p, step in enumerate(nest.steps):
        choice[p + 1] = choice[p]
        if isinstance(step, Keeping):
            kind[p], level[p] = 3, step.level
            keeps.append(step.keeps)
            fits.append(step.fits.reshape(len(step.keeps), -1))
            choice[p + 1] += len(step.keeps)
            values = values * step.choices
            continue
        kind[p], level[p] = ("", "x", "y").index(step.slot.axis), step.slot.level
        trace: list[Floats] = []
        values = put_loops(step, values, trace)
        if step.slot.axis:
            values = values[:, step.wanted].sum(axis=1)
        weight[p, : rooms[p]] = step.wanted if step.slot.axis else [math.factorial(k) for k in range(rooms[p])]
        may_rest[p] = step.may_rest
        for d, state in enumerate(trace):
            laid = np.moveaxis(state, 0, -1)
            if d < dims:
                laid = np.moveaxis(laid, d, -1)
            shape = laid.shape
            apart = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
            begin[p, d] = at
            others = [e for e in range(dims) if e != d]
            stride[p, d, others] = apart[: len(others)]
            if d < dims:
                stride[p, d, d] = nest.shape[d]
            sums.append(np.ascontiguousarray(laid).reshape(-1))
            at += laid.size
        for d in range(dims):
            for j in range(nest.shape[d]):
                first_move[p, d, j] = len(moves)
                moves += [(i, bound, _back(step, d, bound)) for i, to, bound in step.moves[d] if to == j]
            first_move[p, d, nest.shape[d] :] = len(moves)
    if not values.reshape(-1)[-1] > 0:
        raise NoValidMapping("no mapping is valid")
    back = np.full((len(moves) + 1, widest), -1, np.int64)
    for m, (_, _, row) in enumerate(moves):
        back[m, : len(row)] = row
    return Ways(
        kind=kind,
        level=level,
        rooms=np.array(rooms, np.int64),
        sums=np.concatenate(sums),
        begin=begin,
        stride=stride,
        weight=weight,
        may_rest=may_rest,
        first_move=first_move,
        inner=np.array([i for i, *_ in moves] + [0], np.int64),
        bound=np.array([bound for _, bound, _ in moves] + [1], np.int64),
        back=back,
        choice=choice,
        keep=np.concatenate(keeps),
        fits=np.concatenate(fits),
        shape=np.array(nest.shape, np.int64),
    )


def _rooms(step: Step | Keeping) -> int:
    if isinstance(step, Keeping):
        return 0
    return len(step.products) if step.slot.axis else 1 + sum(step.free)


def _back(step: Step, d: int, bound: int) -> list[int]:
    """For each room the one before a loop was put around, -1 if there is none."""
    if not step.slot.axis:
        return [k - int(step.free[d]) for k in range(_rooms(step))]
    place = {product: q for q, product in enumerate(step.products)}
    return [place.get(p // bound, -1) if p % bound == 0 else -1 for p in step.products]
