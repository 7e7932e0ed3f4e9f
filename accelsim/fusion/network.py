"""Which chains of a network to fuse, for the least energy, the fewest cycles, or the least product of both."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from accelsim.fusion.kept import Answer, answer_key, read_answer, write_answer
from accelsim.fusion.paths import Apart, Line, find_lines, named_line, put_together
from accelsim.fusion.price import CYCLES, ENERGY, Price
from accelsim.fusion.product import SAME, Found, least_product
from accelsim.fusion.search import Solutions
from accelsim.fusion.tiling import fusing_levels
from accelsim.fusion.walk import OnProgress, Segment, Totals, Walk, sum_totals
from accelsim.inputs.architecture import Architecture
from accelsim.inputs.objective import Objective
from accelsim.inputs.workload import Workload
from accelsim.results.cache import ResultCache
from accelsim.search.result import Certificate
from accelsim.search.stopping import asked, heeding

SHARE_OF_WALKS = 0.25
"""Of the time that is given, how much is left at the end for mappings that are found by walks, and not proved."""


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
    why_not : str
        Why nothing can be fused; empty if something can.
    inferred : bool
        The workload names no edges; neighbours whose shapes line up were taken to follow each other.
    chain : tuple of str
        The layers that alone were looked at; none: all.
    longest : int or None
        Layers that a fused chain has at most.
    stop : str
        `exhausted`, `timeout`, `interrupted` or `memory` (the tables of a search would not fit).
    chains, solved : int
        Chains that were looked at, and parts that the exact mapper solved for them.
    clock_hz : float or None
    seconds : float
    kept : str
        When the answer was kept on disk, if it comes from there; else empty.
    """

    architecture: str
    workload: str
    objective: str
    segments: tuple[Segment, ...]
    certificate: Certificate
    apart: tuple[Apart, ...]
    why_not: str
    inferred: bool
    chain: tuple[str, ...]
    longest: int | None
    stop: str
    chains: int
    solved: int
    clock_hz: float | None
    seconds: float
    kept: str = ""

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
    objective : str
        What the network is to take least of: `energy`, `cycles`, `edp`, or a product of powers as for `map_einsum`. A
        product is that of the sums over the network, not a sum of products.
    chain : sequence of str, optional
        Look at these layers alone, which follow each other in this order, each once.
    longest : int, optional
        Layers that a fused chain has at most.
    seconds : float, optional
        When to look for nothing better any more; the certificate then has a gap.
    cache : ResultCache, optional
        Where proved results are looked up and kept: of the network as a whole, and of layers by themselves.
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
        If the objective is unknown, or the named layers do not follow each other.
    """
    goal, started = Objective.parse(objective), time.monotonic()
    goal.powers  # noqa: B018  # raises where there are none
    found = find_lines(workload)
    lines = (named_line(workload, chain),) if chain else found.lines
    joined = [line for line in lines if len(line.layers) > 1]
    lines = put_together(lines)
    key = "" if cache is None else answer_key(architecture, lines, goal, longest)
    answer = None if cache is None else read_answer(cache, key, architecture, lines, goal)
    stop = "exhausted"
    if answer is None:
        until = None if seconds is None else started + (1 - SHARE_OF_WALKS) * seconds
        solutions = Solutions(architecture, CYCLES if goal.alone == "cycles" else ENERGY, not goal.alone, until)
        deadline = None if seconds is None else started + seconds
        walk = Walk(architecture, solutions, longest, deadline, cache, workers, on_progress)
        answer = _answer(walk, goal, lines)
        if walk.late:
            stop = "interrupted" if asked() else "timeout"
        elif not answer.certificate.proved:
            stop = solutions.stop
        if cache is not None and answer.certificate.proved:
            write_answer(cache, key, f"{workload.name} on {architecture.name}", lines, answer)
    levels = fusing_levels(architecture, joined[0].chain()) if joined else "no two layers follow each other in a line"
    return FusionResult(
        architecture=architecture.name,
        workload=workload.name,
        objective=goal.name,
        segments=answer.segments,
        certificate=answer.certificate,
        apart=() if chain else found.apart,
        why_not=levels if isinstance(levels, str) else "",
        inferred=found.inferred and not chain,
        chain=tuple(chain),
        longest=longest,
        stop=stop,
        chains=answer.chains,
        solved=answer.solved,
        clock_hz=architecture.clock_hz,
        seconds=time.monotonic() - started,
        kept=answer.kept,
    )


def _answer(walk: Walk, goal: Objective, lines: Sequence[Line]) -> Answer:
    """Look for the best segments of all lines together; once each layer is mapped there is an answer at any time."""
    for line in lines:
        for layer in line.layers:
            walk.alone(layer)
    with heeding():
        return _joined(walk, goal, lines)


def _joined(walk: Walk, goal: Objective, lines: Sequence[Line]) -> Answer:
    """As `_answer`, with all layers mapped."""
    if not walk.solutions.fronts:
        best = _cheapest(walk, lines, walk.solutions.price)
        bound = best.bound ** sum(goal.powers)
        segments = best.what
    else:
        alone, _ = least_product(goal, lambda price: _cheapest(walk, lines, price, fused=False), lambda: False)
        best, bound = least_product(goal, lambda price: _cheapest(walk, lines, price), walk.is_late)
        best = min(best, alone, key=lambda each: goal.value(each.energy_pj, each.cycles))
        results = {segment.layers[0].name: segment.alone for segment in alone.what}
        segments = tuple(
            replace(each, alone=tuple(result for layer in each.layers for result in results[layer.name]))
            for each in best.what
        )
    value = goal.value(best.energy_pj, best.cycles)
    looked = len(walk.looked)
    proof = Certificate(value, value if bound >= value * (1 - SAME) else bound, walk.solutions.nodes, looked, 0)
    return Answer(segments, proof, looked, walk.solutions.solved)


def _cheapest(walk: Walk, lines: Sequence[Line], price: Price, *, fused: bool = True) -> Found[tuple[Segment, ...]]:
    """Segments of all lines that cost least at a price."""
    walk.solutions.price = price
    segments: list[Segment] = []
    bound = 0.0
    for line in lines:
        parts, least = walk.line(line, fused=fused)
        first = 0
        for each in parts:
            end = first + len(each.layers)
            alike = tuple((names[first:end], repeat) for names, repeat in line.alike)
            segments.append(replace(each, repeat=line.repeat, alike=alike))
            first = end
        bound += line.repeat * least
    merged = _merged(segments)
    total = sum_totals([(segment.repeat, segment.totals) for segment in merged])
    return Found(price, total.energy_pj, total.cycles, bound, merged)


def _merged(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Equal segments of several lines as one that counts them all."""
    found: dict[object, Segment] = {}
    for each in segments:
        shortcut = each.fused.chain.shortcut if each.fused else None
        key = tuple(layer.name for layer in each.layers), each.fused is not None, shortcut
        known = found.get(key)
        if known is not None:
            counts = Counter(dict(known.alike))
            counts.update(dict(each.alike))
            each = replace(known, repeat=known.repeat + each.repeat, alike=tuple(counts.items()))
        found[key] = each
    return tuple(found.values())
