"""The best segments of each line of a network at a price: a shortest path over every row of neighbours in it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from accelsim.fusion.part import LEAST_SECONDS
from accelsim.fusion.paths import Line
from accelsim.fusion.price import NOTHING, Price, Value
from accelsim.fusion.search import ChainResult, Solutions, fuse_chain, fused_limits
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.workload import Einsum
from accelsim.model.evaluate import evaluate
from accelsim.model.limits import layer_limits
from accelsim.model.result import Result
from accelsim.results.cache import MapOptions, ResultCache, content_key, map_with_cache, rename
from accelsim.search.stopping import asked
from accelsim.search.strategy import Budget

_ROUNDED = 1 - 1e-11
"""What a sum of energies may lose by rounding."""
OnProgress = Callable[[str], None]
"""Takes what is being done, in words."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Energy [pJ], cycles, storage words at the outermost level, and multiply-accumulates that are executed."""

    energy_pj: float
    cycles: int
    outer_words: int
    macs: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A row of layers of a line: fused, or one layer that is not.

    Attributes
    ----------
    layers : tuple of Einsum
    repeat : int
        How often the network has it, rows that are `alike` included.
    alone : tuple of Result
        Each layer mapped by itself, as it is best where nothing is fused.
    mapping : Result or None
        Of a layer that is not fused.
    fused : ChainResult or None
    alike : tuple
        Names of the layers of equal rows, and how often the network has each of these.
    """

    layers: tuple[Einsum, ...]
    repeat: int
    alone: tuple[Result, ...]
    mapping: Result | None
    fused: ChainResult | None
    alike: tuple[tuple[tuple[str, ...], int], ...] = ()

    @property
    def totals(self) -> Totals:
        """Energy, cycles, words and multiply-accumulates of one run."""
        found = self.fused or self.mapping
        assert found is not None  # one of them is there
        return Totals(found.energy_pj, found.cycles, found.outer_words, found.macs)

    @property
    def unfused(self) -> Totals:
        """The same if every layer runs by itself."""
        return sum_totals(
            [(1, Totals(each.energy_pj, each.cycles, each.outer_words, each.macs)) for each in self.alone]
        )


def sum_totals(several: Sequence[tuple[int, Totals]]) -> Totals:
    """Totals, each as often as it is counted."""
    return Totals(
        math.fsum(n * each.energy_pj for n, each in several),
        sum(n * each.cycles for n, each in several),
        sum(n * each.outer_words for n, each in several),
        sum(n * each.macs for n, each in several),
    )


@dataclass(frozen=True, slots=True)
class _Alone:
    """Mappings of a layer by itself, for the prices that are asked for.

    `least`: energy [pJ] and cycles that none falls below, where it is not proved that these are the best.
    """

    results: tuple[Result, ...]
    least: tuple[float, float] | None

    def way(self, einsum: Einsum, price: Price) -> _Way:
        """The layer as a row of its own."""
        result = price.best(self.results)
        value = price.of(result)
        bound = value[0] if self.least is None else price.value(*self.least)[0]
        return _Way(value, bound, Segment((einsum,), 1, (result,), result, None))


_Row = tuple[int, int]
"""Layers of a line, from one to before another."""


@dataclass(frozen=True, slots=True)
class _Way:
    """A row of a line: its value, or a lower limit where `segment` is None, and what it does not fall below."""

    value: Value
    bound: float
    segment: Segment | None


@dataclass(slots=True)
class Walk:
    """What is known while the lines of a network are gone through.

    Attributes
    ----------
    solutions : Solutions
        Parts that are solved, and the price that counts.
    longest : int or None
        Layers that a fused chain has at most.
    deadline : float or None
        When to look for nothing better any more, by `time.monotonic`.
    mapped : dict of str to _Alone
        Layers by themselves, by name.
    equal : dict of str to Einsum
        The first layer of each content.
    looked : set of str
        Chains that were looked at.
    """

    architecture: Architecture
    solutions: Solutions
    longest: int | None
    deadline: float | None
    cache: ResultCache | None
    workers: int | None
    on_progress: OnProgress | None
    mapped: dict[str, _Alone] = field(default_factory=dict)
    equal: dict[str, Einsum] = field(default_factory=dict)
    looked: set[str] = field(default_factory=set)
    late: bool = False

    def is_late(self) -> bool:
        """Whether to look for nothing better any more."""
        self.late = self.late or bool(asked()) or (self.deadline is not None and time.monotonic() > self.deadline)
        return self.late

    def line(self, line: Line, *, fused: bool = True) -> tuple[tuple[Segment, ...], float]:
        """Best segments of a line, and the value that no way of fusing it falls below.

        A shortest path over the borders between layers. A row that is not solved yet goes in with its lower limit; as
        long as the shortest path leads over such rows, one of them is solved.
        """
        many, price = len(line.layers), self.solutions.price
        ways = {(at, at + 1): self.alone(einsum).way(einsum, price) for at, einsum in enumerate(line.layers)}
        longest = min(many, self.longest or many) if fused else 1
        for length in range(2, longest + 1):
            for first in range(many - length + 1):
                least = fused_limits(self.architecture, line.chain(first, first + length), self.solutions)
                ways[first, first + length] = _Way(least, least[0], None)
        while True:
            path = _shortest(many, {row: way.value for row, way in ways.items()})
            unsolved = [row for row in path if ways[row].segment is None]
            if not unsolved:
                break
            sure = {row: way.value for row, way in ways.items() if way.segment is not None}
            row = max(unsolved, key=lambda row: row[1] - row[0])
            rest = _shortest(many, {r: w.value for r, w in ways.items() if r != row}, row)
            room = _sum(sure[r][0] for r in _shortest(many, sure)) - _sum(ways[r].value[0] for r in rest)
            ways[row] = self._whole(line, row, room, ways[row].bound)
        bounds = {row: (way.bound, 0.0) for row, way in ways.items()}
        bound = _sum(bounds[row][0] for row in _shortest(many, bounds))
        return tuple(way.segment for row in path if (way := ways[row]).segment is not None), bound

    def _whole(self, line: Line, row: _Row, below: float, least: float) -> _Way:
        """A row fused as a whole, if that takes less than `below`; it takes `least` at least."""
        layers = line.layers[row[0] : row[1]]
        alone = tuple(self.solutions.price.best(self.alone(layer).results) for layer in layers)
        if self.is_late():
            return _Way(NOTHING, least, Segment(layers, 1, alone, None, None))
        chain, price = line.chain(*row), self.solutions.price
        if self.on_progress is not None:
            self.on_progress(f"fusing {chain.name}")
        self.looked.add(chain.name)
        found, bound = fuse_chain(self.architecture, chain, self.solutions, below=below, deadline=self.deadline)
        self.is_late()
        if found is None:
            return _Way(NOTHING, bound, Segment(layers, 1, alone, None, None))
        value = price.value(found.energy_pj, found.cycles)
        return _Way(value, min(bound, value[0]), Segment(layers, 1, alone, None, found))

    def alone(self, einsum: Einsum) -> _Alone:
        """Map a layer by itself; equal ones once."""
        if einsum.name in self.mapped:
            return self.mapped[einsum.name]
        equal = self.equal.setdefault(content_key(self.architecture, einsum, MapOptions()), einsum)
        if equal.name != einsum.name:
            known = self.mapped[equal.name]
            nests = (rename(result.mapping, equal, einsum) for result in known.results)
            found = _Alone(tuple(evaluate(self.architecture, einsum, nest) for nest in nests), known.least)
        else:
            if self.on_progress is not None:
                self.on_progress(f"mapping {einsum.name}")
            found = self._front(einsum) if self.solutions.fronts else self._best(einsum)
        self.mapped[einsum.name] = found
        return found

    def _best(self, einsum: Einsum) -> _Alone:
        energy = self.solutions.price.energy > 0
        search = map_with_cache(
            self.architecture,
            einsum,
            MapOptions("energy" if energy else "cycles"),
            self.cache,
            budget=self._budget(),
            workers=self.workers,
        )
        proof = search.certificate
        if proof is None or proof.proved:
            return _Alone((search.best,), None)
        self.solutions.stop = search.stop
        return _Alone((search.best,), (proof.bound, 0.0) if energy else (0.0, proof.bound))

    def _front(self, einsum: Einsum) -> _Alone:
        """Front of energy and cycles of a layer, or what of it is found in time."""
        from accelsim.search.exact.front import map_front

        found = map_front(self.architecture, einsum, budget=self._budget(), workers=self.workers)
        if found.stop == "interrupted":
            raise KeyboardInterrupt
        if found.stop == "exhausted":
            return _Alone(found.points, None)
        self.solutions.stop = found.stop
        limits = layer_limits(self.architecture, einsum)
        return _Alone(found.points, (limits.energy_pj * _ROUNDED, limits.cycles))

    def _budget(self) -> Budget | None:
        """Time that is left for one layer, if it is limited."""
        end = self.solutions.prove_until
        return None if end is None else Budget(seconds=max(LEAST_SECONDS, end - time.monotonic()))


def _sum(values: Iterable[float]) -> float:
    return math.fsum(values)


def _shortest(many: int, rows: Mapping[_Row, Value], over: _Row | None = None) -> list[_Row]:
    """Rows of the shortest path from the first to after the last layer; those beside `over` if it has to lead there."""
    if over is not None:
        before = {row: value for row, value in rows.items() if row[1] <= over[0]}
        after = {(a - over[1], b - over[1]): value for (a, b), value in rows.items() if a >= over[1]}
        behind = [(a + over[1], b + over[1]) for a, b in _shortest(many - over[1], after)]
        return _shortest(over[0], before) + behind
    best: list[tuple[Value, list[_Row]]] = [((0.0, 0.0), [])]
    for end in range(1, many + 1):
        ways = [
            ((best[a][0][0] + value[0], best[a][0][1] + value[1]), [*best[a][1], (a, b)])
            for (a, b), value in rows.items()
            if b == end
        ]
        best.append(min(ways))
    return best[many][1]
