"""Oracle of fused tilings: executes one step by step with sets of points, slowly on purpose.

Nothing here is a formula, and nothing of `accelsim.fusion` but the descriptions of the group and of the tiling is used.
Words of a link are points in the coordinates of its producer; those outside what it writes are padding.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from accelsim.fusion.graph import Reader
from accelsim.fusion.group import Group
from accelsim.fusion.tiling import Border, FusedTiling
from accelsim.inputs.workload import Einsum

Point = tuple[int, ...]
Step = tuple[int, ...]
"""Indices of the fused loops, outermost first."""
Place = Mapping[str, int]
"""An iteration of a layer."""


@dataclass(slots=True)
class FusedCounts:
    """What happens in all steps of a fused tiling.

    Attributes
    ----------
    macs : list of int
        Multiply-accumulates that each layer executes.
    written : list of int
        Words of each link inside that are written into the fusing level.
    fetched : list of dict of str to int
        For each layer the words of each resident tensor that are fetched, and of what it fetches for others.
    live, between : list of int
        Of each link inside, and then of each shared one, the most words in the fusing level from its producer, or first
        reader, to the last reader, and at other times.
    missing : int
        Words that were demanded and neither there nor computed, nor fetched.
    results : list of int
        For each layer whose output leaves the group, its points that no step computes.
    runs : counter
        Bounds of what each layer runs in a step.
    """

    macs: list[int]
    written: list[int]
    fetched: list[Counter[str]]
    live: list[int]
    between: list[int]
    missing: int = 0
    results: list[int] = field(default_factory=list)
    runs: Counter[tuple[int, Point]] = field(default_factory=Counter)


class Execution:
    """A fused tiling of a group that is run."""

    def __init__(self, group: Group, tiling: FusedTiling, border: Border) -> None:
        self.group, self.tiling, self.border = group, tiling, border
        self.steps: list[Step] = list(itertools.product(*(range(loop.steps) for loop in tiling.loops)))
        self.dims = {dim.name: dim for dim in group.dims}
        self.todo: list[dict[Step, list[Place]]] = [{} for _ in group.layers]
        self.demanded: list[dict[Step, frozenset[Point]]] = [{} for _ in group.inside]
        self.there: list[dict[Step, frozenset[Point]]] = [{} for _ in group.inside]
        for step in self.steps:
            for layer in range(len(group.layers) - 1, -1, -1):
                self.todo[layer][step] = self.iterations(layer, step)

    def iterations(self, layer: int, step: Step) -> list[Place]:
        """What a layer runs in a step: what is asked of it and not there."""
        einsum, link = self.group.layers[layer], self.group.written(layer)
        own = self.share(layer, step) if self.is_end(layer) else None
        if link is None:
            return own or []
        names = [rank.producer for rank in self.group.inside[link].readers[0].ranks]
        asked: set[Point] = {tuple(p[name] for name in names) for p in own or ()}
        for reader in self.group.inside[link].readers:
            asked |= self.read(reader, self.todo[reader.layer][step])
        box = hull(asked)
        stayed = frozenset(
            word
            for other, words in self.demanded[link].items()
            if self.stays(link, other, step)
            for word in words & box
        )
        self.demanded[link][step], self.there[link][step] = box, stayed
        wanted = box - stayed
        ranges = (range(bound) for bound in einsum.dims.values())
        places = (dict(zip(einsum.dims, place, strict=True)) for place in itertools.product(*ranges))
        return [place for place in places if tuple(place[name] for name in names) in wanted]

    def is_end(self, layer: int) -> bool:
        """Whether a layer's output leaves the group."""
        link = self.group.written(layer)
        return link is None or self.group.inside[link].goes_out

    def share(self, layer: int, step: Step) -> list[Place]:
        """An equal share of all iterations of a layer."""
        einsum = self.group.layers[layer]
        ranges = {dim: range(bound) for dim, bound in einsum.dims.items()}
        for loop, index in zip(self.tiling.loops, step, strict=True):
            name = self.dims[loop.dim].dims[layer]
            tile = einsum.dims[name] // loop.steps
            ranges[name] = range(index * tile, (index + 1) * tile)
        return [dict(zip(ranges, place, strict=True)) for place in itertools.product(*ranges.values())]

    def read(self, reader: Reader, places: Sequence[Place]) -> frozenset[Point]:
        """Words of a link in the box around what some iterations touch, padding included."""
        sides = []
        for rank in reader.ranks:
            touched = [sum(f * place[dim] for dim, f in rank.terms) - rank.before for place in places]
            sides.append(range(min(touched), max(touched) + 1) if touched else range(0))
        return frozenset(itertools.product(*sides))

    def stays(self, link: int, one: Step, other: Step) -> bool:
        """Whether words of a link stay from one step to another."""
        if one == other:
            return False
        if self.group.inside[link].producer in self.border.staying:
            return True
        outermost = next(at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
        return self.tiling.loops[outermost].dim in self.tiling.retain[link]


def execute_fused(group: Group, tiling: FusedTiling, border: Border) -> FusedCounts:
    """Run each layer in each step on what is demanded of it and not there."""
    run = Execution(group, tiling, border)
    many, links = len(group.layers), len(group.inside) + len(group.shared)
    counts = FusedCounts(
        [0] * many, [0] * len(group.inside), [Counter() for _ in range(many)], [0] * links, [0] * links
    )
    last: list[dict[str, frozenset[Point]]] = [{} for _ in group.layers]
    made: list[set[Point]] = [set() for _ in group.layers]
    for number, step in enumerate(run.steps):
        for at, einsum in enumerate(group.layers):
            todo = run.todo[at][step]
            if todo:
                counts.macs[at] += len(todo)
                counts.runs[at, tuple(len({place[dim] for place in todo}) for dim in einsum.dims)] += 1
                link = group.written(at)
                if link is not None:
                    names = [rank.producer for rank in group.inside[link].readers[0].ranks]
                    counts.written[link] += len({tuple(p[name] for name in names) for p in todo})
                made[at] |= {tuple(p[d] for d in sorted(einsum.output.dims)) for p in todo}
                for name in tiling.resident[at]:
                    tile = touched(einsum, name, todo)
                    counts.fetched[at][name] += len(tile) if last[at].get(name) != tile else 0
                    last[at][name] = tile
            for link, its in enumerate(group.inside):
                words = in_level(run, link, number, at)
                most = counts.live if its.places()[0] <= at <= its.places()[-1] else counts.between
                most[link] = max(most[link], len(words))
    counts.missing = missing(run)
    counts.results = [
        0 if not run.is_end(at) else points(layer) - len(made[at]) for at, layer in enumerate(group.layers)
    ]
    for number in sorted(tiling.shared):
        keep(run, number, counts)
    return counts


def points(einsum: Einsum) -> int:
    """How many different points an output has."""
    found = 1
    for dim in einsum.output.dims:
        found *= einsum.dims[dim]
    return found


def hull(words: Iterable[Point]) -> frozenset[Point]:
    """The box around some points."""
    several = list(words)
    if not several:
        return frozenset()
    return frozenset(itertools.product(*(range(min(side), max(side) + 1) for side in zip(*several, strict=True))))


def touched(einsum: Einsum, name: str, places: Sequence[Place]) -> frozenset[Point]:
    """Points of the box of a tensor around what some iterations touch."""
    found = {tuple(sum(f * place[dim] for dim, f in rank) for rank in einsum.tensor(name).ranks) for place in places}
    return hull(found)


def in_level(run: Execution, link: int, number: int, layer: int) -> set[Point]:
    """Words of a link that lie in the fusing level while a layer runs in a step.

    Those that are computed again before they are read need not stay.
    """
    its, steps = run.group.inside[link], run.steps
    if its.producer in run.border.staying:
        return set()
    first, *_, last = its.places()
    had = number + 1 if layer >= first else number  # its producer has run in this step, or runs
    known = set[Point]().union(*(run.demanded[link][step] for step in steps[:had]))
    wanted, computed = set[Point](), set[Point]()
    for step in steps[had:]:
        wanted |= run.there[link][step] - computed
        computed |= run.demanded[link][step] - run.there[link][step]
    words = known & wanted
    return words | run.demanded[link][steps[number]] if first <= layer <= last else words


def missing(run: Execution) -> int:
    """Words of links that a step demands and nobody has computed for it."""
    found = 0
    for at, link in enumerate(run.group.inside):
        computed: set[Point] = set()
        ranks = link.readers[0].ranks
        for step in run.steps:
            assert link.producer is not None
            new = {tuple(p[rank.producer] for rank in ranks) for p in run.todo[link.producer][step]}
            computed |= new
            usable = new | (computed & run.there[at][step])
            for reader in link.readers:
                for word in run.read(reader, run.todo[reader.layer][step]):
                    inside = all(0 <= w < rank.extent for w, rank in zip(word, ranks, strict=True))
                    found += inside and word not in usable
    return found


def keep(run: Execution, number: int, counts: FusedCounts) -> None:
    """Fetch what the first reader of a shared link reads in each step, and hold what others ask for then and later.

    A word stays from one step to another if the outermost loop that has stepped is one along which the halo of what the
    first reader writes is retained. What is fetched anew before it is read again need not stay.
    """
    first, *others = run.group.shared[number].readers
    written, at = run.group.written(first.layer), len(run.group.inside) + number
    new = [run.read(first, run.todo[first.layer][step]) for step in run.steps]
    asked = [
        frozenset[Point]().union(*(run.read(other, run.todo[other.layer][step]) for other in others))
        for step in run.steps
    ]
    counts.fetched[first.layer][first.tensor] += sum(map(len, new))
    known: set[Point] = set()
    for now, step in enumerate(run.steps):
        stayed = set[Point]()
        if written is not None:
            stayed |= set().union(*(new[then] for then in range(now) if run.stays(written, run.steps[then], step)))
        counts.missing += len(asked[now] - new[now] - stayed)
        known |= new[now]
        later, fetched = set[Point](), set[Point]()
        for then in range(now + 1, len(run.steps)):
            fetched |= new[then]
            later |= asked[then] - fetched
        counts.live[at] = max(counts.live[at], len(new[now] | (known & (asked[now] | later))))
        counts.between[at] = max(counts.between[at], len(known & later))
