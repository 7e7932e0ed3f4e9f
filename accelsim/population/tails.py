"""Stratified samples of the valid mappings, for quantiles of the energy that a uniform sample cannot see.

The tile inside the outermost temporal block of a mapping decides what no mapping through it falls below
(docs/exact.md), and how many lead through it is known exactly. Strata are these tiles by their bounds; no mapping of a
stratum whose bound lies above a limit takes less. Axis letters: B = mappings drawn, H = strata, ordered by their
bounds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from accelsim.inputs.errors import AccelsimError
from accelsim.inputs.mapping import Mapping
from accelsim.model.encode import Floats, Ints
from accelsim.model.evaluate import evaluate_encoded
from accelsim.model.result import Result
from accelsim.population.draw_kernel import CYCLES, ENERGY, WORDS
from accelsim.population.intervals import weighted_share
from accelsim.population.result import Interval
from accelsim.population.sampling import PIECE, Piece, Sampler, draw_one, evaluate_pieces, stream_key
from accelsim.population.steps import Nest
from accelsim.population.ways import Ways, in_order
from accelsim.search.exact.solve import Solver

TAILS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""Shares of the mappings that a stratified sample is planned for."""
WITHIN = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
"""How far above the lowest energy, relative to it, shares of the mappings are told."""
PILOT = 0.2
"""Share of the draws that the plan for the others is made from."""
EVENLY = 0.1
"""Share of the other draws that all strata share evenly."""
HALVINGS = 48
"""Strata, at most: each has about half of the mappings of those up to it."""
FEWEST = 10
"""Draws for each stratum, at least."""


@dataclass(frozen=True, slots=True, eq=False)
class Strata:
    """Parts of the valid mappings, by the tile inside their outermost temporal block.

    Attributes
    ----------
    nest : Nest
    ways : Ways
        With these tiles in the order of their bounds.
    edges : int64[H + 1]
        First tile of each stratum.
    weight : float64[H]
        Share of all valid mappings.
    bound : float64[H]
        Energy that no mapping of the stratum or of a later one falls below [pJ].
    """

    nest: Nest
    ways: Ways
    edges: Ints
    weight: Floats
    bound: Floats

    def among(self, stratum: int) -> tuple[int, int]:
        """First and last tile of a stratum."""
        return int(self.edges[stratum]), int(self.edges[stratum + 1]) - 1


@dataclass(frozen=True, slots=True, eq=False)
class StratifiedSample:
    """Mappings drawn independently, some so many from each stratum, and what they cost.

    Attributes
    ----------
    strata : Strata
    seed : (int, int)
        And the stage: 1 the draws that the others are planned by, 2 these.
    asked : int
        Mappings that were asked for: B, and those that the numbers from each stratum were planned by.
    many : int64[H]
        Mappings drawn from each stratum.
    stratum, number : int64[B]
        Of each mapping, and its number among those of the stratum; by energy, ascending.
    energy_pj : float64[B]
    cycles : float64[B]
    outer_words : float64[B]
        Storage words read and written at the outermost level.
    """

    strata: Strata
    seed: tuple[int, int]
    asked: int
    many: Ints
    stratum: Ints
    number: Ints
    energy_pj: Floats
    cycles: Floats
    outer_words: Floats

    def __len__(self) -> int:
        """How many mappings there are."""
        return len(self.number)

    def mapping(self, index: int) -> Mapping:
        """One of the mappings."""
        stratum, strata = int(self.stratum[index]), self.strata
        key = stream_key(*self.seed, stratum)
        return draw_one(strata.nest, strata.ways, strata.among(stratum), key, int(self.number[index]))

    def result(self, index: int) -> Result:
        """Evaluate one of the mappings with every detail."""
        return evaluate_encoded(self.strata.nest.space.encoded, self.mapping(index))

    @property
    def weight(self) -> Floats:
        """Share of all valid mappings that one of each stratum stands for, float64[H]."""
        return self.strata.weight / self.many

    def share(self, energy_pj: float) -> Interval:
        """Share of all valid mappings that take at most so much energy, with its 95 % confidence interval.

        Unbiased. The interval is Fay and Feuer's; see `accelsim.population.intervals`.
        """
        return self._share(int(np.searchsorted(self.energy_pj, energy_pj, side="right")), energy_pj)

    def quantile(self, share: float) -> Interval:
        """Energy [pJ] that a share of all valid mappings does not exceed, with its 95 % confidence interval.

        The interval holds the energies whose `share` agrees with the one asked for (Woodruff, Journal of the American
        Statistical Association 47, 1952, pages 635-646).
        """
        energy = self.energy_pj
        at = min(int(np.searchsorted(np.cumsum(self.weight[self.stratum]), share * (1 - 1e-12))), len(self) - 1)

        def most(k: int) -> float:
            return self._share(int(np.searchsorted(energy, energy[k])), float(energy[k])).high

        def least(k: int) -> float:
            return self._share(k + 1, float(energy[k])).low

        low, high = (bisect_left(range(len(self)), share, key=limit) for limit in (most, least))
        return Interval(
            float(energy[at]),
            float(energy[low - 1]) if low else float(self.strata.bound[0]),
            float(energy[high]) if high < len(self) else np.inf,
        )

    def _share(self, first: int, limit: float) -> Interval:
        """Share of all valid mappings that the first ones stand for, where no others reach down to the limit."""
        reaches, weight = self.strata.bound <= limit * (1 + 1e-9), self.weight
        hits = np.bincount(self.stratum[:first], minlength=len(weight))
        found = weighted_share(hits, weight, float(weight[reaches].max(initial=0.0)))
        most = float(self.strata.weight[reaches].sum())
        return Interval(found.value, found.low, max(found.value, min(found.high, most)))


def make_strata(sampler: Sampler) -> Strata:
    """Cut the valid mappings into strata by what the tile inside the outermost temporal block lets them take at least.

    Raises
    ------
    AccelsimError
        If partial sums are wider than finished words: some mappings that are counted have no room for them then.
    """
    nest, ways = sampler.nest, sampler.ways
    if nest.space.encoded.constants.two_widths[0]:
        raise AccelsimError(
            "partial sums are wider than finished words on this machine, so that some mappings that are counted have "
            "no room for them; strata need exact numbers of mappings: leave the stratified sample out"
        )
    bounds = np.full(len(ways.outer), np.inf)
    shapes, values = Solver(nest.space).root_shapes()
    bounds[shapes] = values
    some = np.flatnonzero(ways.outer_ways)
    order = some[np.argsort(bounds[some], kind="stable")]
    sums = np.cumsum(ways.outer_ways[order])
    halves = np.searchsorted(sums, sums[-1] * 0.5 ** np.arange(HALVINGS, 0, -1.0))
    edges = np.unique(np.concatenate([[0], halves, [len(order)]]))
    weight = np.add.reduceat(ways.outer_ways[order], edges[:-1]) / sums[-1]
    return Strata(nest, in_order(ways, order), edges, weight, bounds[order][edges[:-1]])


def sample_strata(
    strata: Strata, count: int, seed: int = 0, *, tails: Sequence[float] = TAILS, workers: int = 1
) -> StratifiedSample:
    """Draw mappings from strata, so many from each as makes the low tail of the energy known best.

    A fifth of the draws, even over the strata, tells about how many mappings of each stratum are in the tails. The
    others are planned by it, half by Neyman's allocation for each tail (Journal of the Royal Statistical Society 97,
    1934, pages 558-625), half by the number of mappings in strata that reach into it, which narrows the interval where
    few are hit, but for a tenth that is even again. The estimates are those of the others alone, hence unbiased.

    Parameters
    ----------
    strata : Strata
    count : int
        Mappings to draw and evaluate.
    seed : int
    tails : sequence of float
        Shares of the mappings that are of interest.
    workers : int

    Raises
    ------
    AccelsimError
        If a share is none, or there are too few draws.
    """
    if not tails or not all(0 < share < 1 for share in tails):
        raise AccelsimError(f"tails: expected shares of the mappings between 0 and 1, got {list(tails)}")
    few = FEWEST * len(strata.weight)
    if count < few:
        raise AccelsimError(f"{count:,} draws are too few for {len(strata.weight)} strata; draw at least {few:,}")
    evenly = np.full(len(strata.weight), int(PILOT * count) // len(strata.weight))
    pilot = _draw(strata, evenly, (seed, 1), workers)
    planned = _draw(strata, _plan(pilot, count - int(evenly.sum()), tails), (seed, 2), workers)
    return replace(planned, asked=count)


def _plan(pilot: StratifiedSample, count: int, tails: Sequence[float]) -> Ints:
    """How many mappings to draw from each stratum, int64[H]."""
    weight, strata = pilot.strata.weight, len(pilot.strata.weight)
    so_far = np.cumsum(pilot.weight[pilot.stratum])
    wanted = np.full(strata, EVENLY / strata)
    for share in tails:
        at = min(int(np.searchsorted(so_far, share)), len(pilot) - 1)
        below = (np.bincount(pilot.stratum[: at + 1], minlength=strata) + 0.5) / (pilot.many + 1)
        reaches = pilot.strata.bound <= pilot.energy_pj[at]
        for part in (weight * np.sqrt(below * (1 - below)) * reaches, weight * reaches):
            wanted += (1 - EVENLY) / 2 / len(tails) * part / part.sum()
    return np.maximum((count * wanted).astype(np.int64), 1)


def _draw(strata: Strata, many: Ints, seed: tuple[int, int], workers: int) -> StratifiedSample:
    """Draw so many mappings from each stratum."""
    pieces = [
        Piece(strata.among(h), stream_key(*seed, h), first, min(PIECE, int(each) - first))
        for h, each in enumerate(many)
        for first in range(0, int(each), PIECE)
    ]
    column = evaluate_pieces(strata.nest, strata.ways, pieces, workers=workers)
    if column.shape[1] < many.sum():
        raise KeyboardInterrupt
    order = np.argsort(column[ENERGY], kind="stable")
    return StratifiedSample(
        strata=strata,
        seed=seed,
        asked=int(many.sum()),
        many=many,
        stratum=np.repeat(np.arange(len(many)), many)[order],
        number=np.concatenate([np.arange(each) for each in many])[order],
        energy_pj=column[ENERGY, order],
        cycles=column[CYCLES, order],
        outer_words=column[WORDS, order],
    )
