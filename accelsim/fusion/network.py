"""Which chains of a network to fuse: a shortest path along each line of layers, over every row of neighbours in it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from accelsim.architecture import Architecture
from accelsim.cache import MapOptions, ResultCache, map_with_cache
from accelsim.errors import AccelsimError
from accelsim.fusion.chain import Chain, make_chain
from accelsim.fusion.paths import Apart, Line, find_lines, named_line
from accelsim.fusion.search import NOTHING, ChainResult, Solutions, Value, fuse_chain, fused_limits
from accelsim.fusion.tiling import fusing_levels
from accelsim.search.result import Certificate, SearchResult
from accelsim.search.strategy import Budget, Objective
from accelsim.workload import Einsum, Workload

_LEAST_SECONDS = 0.1
"""Time that each layer gets, however late it is."""
OnProgress = Callable[[str], None]
"""Takes what is being done, in words."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A row of layers of a line: fused, or one layer that is not.

    Attributes
    ----------
    layers : tuple of Einsum
    repeat : int
        How often the network has it.
    searches : tuple of SearchResult
        Each layer mapped by itself.
    fused : ChainResult or None
    """

    layers: tuple[Einsum, ...]
    repeat: int
    searches: tuple[SearchResult, ...]
    fused: ChainResult | None

    @property
    def totals(self) -> Totals:
        """Energy, cycles, words and multiply-accumulates of one run."""
        return self.unfused if self.fused is None else _totals_of(self.fused)

    @property
    def unfused(self) -> Totals:
        """The same if every layer runs by itself."""
        return sum_totals([(1, _totals_of(search)) for search in self.searches])


@dataclass(frozen=True, slots=True)
class Totals:
    """Energy [pJ], cycles, storage words at the outermost level, and multiply-accumulates that are executed."""

    energy_pj: float
    cycles: int
    outer_words: int
    macs: int


@dataclass(frozen=True, slots=True)
class FusionResult:
    """What to fuse in a network, and what it gains.

    Attributes
    ----------
    architecture, workload, objective : str
    segments : tuple of Segment
        All layers, each run in one segment, in the order of the lines.
    certificate : Certificate
        Of the objective of all segments together.
    apart : tuple of Apart
        Neighbours that cannot be fused, and why.
    no_level : str
        Why no level can keep an intermediate; empty if one can.
    inferred : bool
        The workload names no edges; neighbours whose shapes line up were taken to follow each other.
    longest : int or None
        Layers that a fused chain has at most.
    stop : str
        `exhausted` or `timeout`.
    chains, solved : int
        Chains that were looked at, and parts that the exact mapper solved for them.
    clock_hz : float or None
    seconds : float
    """

    architecture: str
    workload: str
    objective: str
    segments: tuple[Segment, ...]
    certificate: Certificate
    apart: tuple[Apart, ...]
    no_level: str
    inferred: bool
    longest: int | None
    stop: str
    chains: int
    solved: int
    clock_hz: float | None
    seconds: float

    @property
    def totals(self) -> Totals:
        """Of the network as it is to be fused."""
        return sum_totals([(segment.repeat, segment.totals) for segment in self.segments])

    @property
    def unfused(self) -> Totals:
        """Of the network with every layer by itself."""
        return sum_totals([(segment.repeat, segment.unfused) for segment in self.segments])

    @property
    def fused(self) -> tuple[Segment, ...]:
        """The segments that are fused."""
        return tuple(segment for segment in self.segments if segment.fused is not None)


def _totals_of(found: ChainResult | SearchResult) -> Totals:
    if isinstance(found, ChainResult):
        return Totals(found.energy_pj, found.cycles, found.outer_words, found.macs)
    best = found.best
    return Totals(best.energy_pj, best.cycles, best.outer_words, best.macs)


def sum_totals(several: Sequence[tuple[int, Totals]]) -> Totals:
    """Totals, each as often as it is counted."""
    return Totals(
        math.fsum(n * each.energy_pj for n, each in several),
        sum(n * each.cycles for n, each in several),
        sum(n * each.outer_words for n, each in several),
        sum(n * each.macs for n, each in several),
    )


def fuse(
    architecture: Architecture,
    workload: Workload,
    *,
    objective: str = "energy",
    chain: Sequence[str] = (),
    longest: int | None = None,
    seconds: float | None = None,
    cache: ResultCache | None = None,
    workers: int | None = None,
    on_progress: OnProgress | None = None,
) -> FusionResult:
    """Find the chains of consecutive layers to fuse, and how, and prove that nothing in the space is better.

    Parameters
    ----------
    architecture : Architecture
    workload : Workload
        Its edges say which layer reads what; without any, neighbours whose shapes line up are taken to be joined.
    objective : {"energy", "cycles"}
        What the network is to take least of.
    chain : sequence of str, optional
        Look at these layers alone, which follow each other in this order, each once.
    longest : int, optional
        Layers that a fused chain has at most.
    seconds : float, optional
        When to look for nothing better any more; the certificate then has a gap.
    cache : ResultCache, optional
        Where unfused layers are looked up and kept.
    workers : int, optional
        Threads for unfused layers; default: all cores.
    on_progress : callable, optional

    Returns
    -------
    FusionResult
        Never worse than every layer by itself.

    Raises
    ------
    NoValidMapping
        If a layer has no valid mapping.
    AccelsimError
        If the objective does not add up over layers, or the named layers do not follow each other.
    """
    goal = Objective.parse(objective)
    if (goal.energy, goal.cycles) not in ((1.0, 0.0), (0.0, 1.0)):
        raise AccelsimError(
            f"objective '{objective}': what layers take one after the other adds up for energy and for cycles alone; "
            "choose one of them"
        )
    started = time.monotonic()
    found = find_lines(workload)
    lines = (named_line(workload, chain),) if chain else found.lines
    walk = _Walk(
        architecture, goal, longest, None if seconds is None else started + seconds, cache, workers, on_progress
    )
    joined = [line for line in lines if len(line.layers) > 1]
    levels = fusing_levels(architecture, walk.chain(joined[0], 0, len(joined[0].layers))) if joined else []
    segments: list[Segment] = []
    bound = 0.0
    for line in lines:
        parts, least = walk.line(line)
        segments += [replace(each, repeat=line.repeat) for each in parts]
        bound += line.repeat * least
    merged = _merged(segments)
    total = sum_totals([(segment.repeat, segment.totals) for segment in merged])
    value = total.energy_pj if goal.energy else float(total.cycles)
    proof = Certificate(value, value if bound >= value * (1 - 1e-10) else bound, walk.solutions.nodes, walk.looked, 0)
    return FusionResult(
        architecture=architecture.name,
        workload=workload.name,
        objective=goal.name,
        segments=merged,
        certificate=proof,
        apart=() if chain else found.apart,
        no_level=levels if isinstance(levels, str) else "",
        inferred=found.inferred and not chain,
        longest=longest,
        stop="timeout" if walk.late else "exhausted",
        chains=walk.looked,
        solved=walk.solutions.solved,
        clock_hz=architecture.clock_hz,
        seconds=time.monotonic() - started,
    )


def _merged(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Equal segments of several lines as one that counts them all."""
    found: dict[tuple[tuple[str, ...], bool], Segment] = {}
    for each in segments:
        key = tuple(layer.name for layer in each.layers), each.fused is not None
        known = found.get(key)
        found[key] = each if known is None else replace(known, repeat=known.repeat + each.repeat)
    return tuple(found.values())


_Row = tuple[int, int]
"""Layers of a line, from one to before another."""


@dataclass(frozen=True, slots=True)
class _Way:
    """A row of a line: its value, or a lower limit where `segment` is None, and what it does not fall below."""

    value: Value
    bound: float
    segment: Segment | None


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


class _Walk:
    """What is known while the lines of a network are gone through."""

    def __init__(
        self,
        architecture: Architecture,
        goal: Objective,
        longest: int | None,
        deadline: float | None,
        cache: ResultCache | None,
        workers: int | None,
        on_progress: OnProgress | None,
    ) -> None:
        self.architecture, self.goal, self.longest, self.deadline = architecture, goal, longest, deadline
        self.cache, self.workers, self.on_progress = cache, workers, on_progress
        self.solutions = Solutions(architecture, goal)
        self.mapped: dict[str, SearchResult] = {}
        self.looked, self.late = 0, False

    def chain(self, line: Line, first: int, end: int) -> Chain:
        """Layers of a line from one to before another as a chain."""
        return make_chain(line.layers[first:end], line.tensors[first : end - 1])

    def line(self, line: Line) -> tuple[tuple[Segment, ...], float]:
        """Best segments of a line, and the value that no way of fusing it falls below.

        A shortest path over the borders between layers. A row that is not solved yet goes in with its lower limit; as
        long as the shortest path leads over such rows, one of them is solved.
        """
        many = len(line.layers)
        ways: dict[_Row, _Way] = {}
        for first, einsum in enumerate(line.layers):
            search = self._map(einsum)
            proof = search.certificate
            value = self.solutions.of(search.best)
            bound = value[0] if proof is None or proof.proved else proof.bound
            ways[first, first + 1] = _Way(value, bound, Segment((einsum,), 1, (search,), None))
        for length in range(2, min(many, self.longest or many) + 1):
            for first in range(many - length + 1):
                least = fused_limits(self.architecture, self.chain(line, first, first + length), self.solutions)
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
            ways[row] = self._whole(line, row, room)
        bounds = {row: (way.bound, 0.0) for row, way in ways.items()}
        bound = _sum(bounds[row][0] for row in _shortest(many, bounds))
        return tuple(way.segment for row in path if (way := ways[row]).segment is not None), bound

    def _whole(self, line: Line, row: _Row, below: float) -> _Way:
        """A row fused as a whole, if that takes less than `below`."""
        layers = line.layers[row[0] : row[1]]
        chain = self.chain(line, *row)
        if self.on_progress is not None:
            self.on_progress(f"fusing {chain.name}")
        self.looked += 1
        found, bound = fuse_chain(self.architecture, chain, self.solutions, below=below, deadline=self.deadline)
        self.late |= self.deadline is not None and time.monotonic() > self.deadline
        if found is None:
            searches = tuple(self.mapped[layer.name] for layer in layers)
            return _Way(NOTHING, bound, Segment(layers, 1, searches, None))
        searches = tuple(self.mapped[layer.name] for layer in layers)
        value = self.solutions.value(found.energy_pj, found.cycles)
        return _Way(value, min(bound, value[0]), Segment(layers, 1, searches, found))

    def _map(self, einsum: Einsum) -> SearchResult:
        """Map a layer by itself."""
        if einsum.name not in self.mapped:
            if self.on_progress is not None:
                self.on_progress(f"mapping {einsum.name}")
            self.mapped[einsum.name] = map_with_cache(
                self.architecture,
                einsum,
                MapOptions(self.goal.name),
                self.cache,
                budget=self._budget(),
                workers=self.workers,
            )
        return self.mapped[einsum.name]

    def _budget(self) -> Budget | None:
        """Time that is left for one layer, if it is limited."""
        return None if self.deadline is None else Budget(seconds=max(_LEAST_SECONDS, self.deadline - time.monotonic()))
